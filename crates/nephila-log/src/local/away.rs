//! Syncs a journal on a thread of its own, so that the writer does not wait for the disk.
//!
//! The journal moves to the thread and comes back when the sync has ended. A caller that needs the journal before that
//! waits for the thread.
//!
//! Invariants: one thread has the journal at a time; dropping [`Away`] waits for the journal, so a later opening of the
//! folder meets no writer.

use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use nephila_store::journal::Journal;

use crate::{Error, Wake};

/// A journal, here or being synced.
#[derive(Debug)]
pub(super) struct Away {
    /// `None` during a sync, and for good if the thread was lost.
    journal: Option<Journal>,
    is_away: bool,
    /// Result of the last sync that no caller has fetched yet.
    result: Option<Result<(), Error>>,
    thread: Option<Thread>,
    wake: Wake,
}

#[derive(Debug)]
struct Thread {
    to: Sender<(Journal, Wake)>,
    from: Receiver<(Journal, Result<(), Error>)>,
}

impl Away {
    pub(super) fn new(journal: Journal) -> Self {
        Away { journal: Some(journal), is_away: false, result: None, thread: None, wake: Wake::default() }
    }

    pub(super) fn wake_with(&mut self, wake: Wake) {
        self.wake = wake;
    }

    /// Returns the journal, and waits for a running sync. The result of that sync is kept for the next caller of
    /// `sync`.
    pub(super) fn home(&mut self) -> Result<&mut Journal, Error> {
        if self.is_away {
            let came = self.thread.as_ref().and_then(|thread| thread.from.recv().ok());
            self.came_home(came);
        }
        self.journal.as_mut().ok_or(Error::Broken)
    }

    fn came_home(&mut self, came: Option<(Journal, Result<(), Error>)>) {
        self.is_away = false;
        match came {
            Some((journal, result)) => (self.journal, self.result) = (Some(journal), Some(result)),
            None => self.thread = None,
        }
    }

    /// Waits until everything is durable.
    pub(super) fn sync(&mut self) -> Result<(), Error> {
        self.home()?;
        self.result.take().unwrap_or(Ok(()))?;
        Ok(self.home()?.sync()?)
    }

    /// Starts a sync, unless one is running. Returns true once everything is durable.
    pub(super) fn try_sync(&mut self) -> Result<bool, Error> {
        if self.is_away {
            match self.thread.as_ref().map(|thread| thread.from.try_recv()) {
                Some(Err(TryRecvError::Empty)) => return Ok(false),
                came => self.came_home(came.and_then(Result::ok)),
            }
        }
        self.result.take().unwrap_or(Ok(()))?;
        let journal = self.journal.take().ok_or(Error::Broken)?;
        if journal.is_synced() {
            self.journal = Some(journal);
            return Ok(true);
        }
        if self.thread.is_none() {
            match Thread::start() {
                Ok(thread) => self.thread = Some(thread),
                Err(_) => {
                    // No thread available: the writer waits, as `sync` always may.
                    self.journal = Some(journal);
                    return self.sync().map(|()| true);
                }
            }
        }
        let thread = self.thread.as_ref().expect("made above");
        match thread.to.send((journal, self.wake.clone())) {
            Ok(()) => self.is_away = true,
            Err(lost) => {
                self.journal = Some(lost.0.0);
                self.thread = None;
                return self.sync().map(|()| true);
            }
        }
        Ok(false)
    }

    /// Rolls the journal back to its durable end, and drops the result of the last sync.
    pub(super) fn go_back(&mut self) -> Result<(), Error> {
        self.home()?;
        self.result = None;
        Ok(self.home()?.go_back()?)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        _ = self.home();
    }
}

impl Thread {
    fn start() -> std::io::Result<Thread> {
        let (to, inside) = channel::<(Journal, Wake)>();
        let (outside, from) = channel();
        std::thread::Builder::new().name("log-sync".into()).spawn(move || {
            while let Ok((mut journal, wake)) = inside.recv() {
                let result = journal.sync().map_err(Error::from);
                if outside.send((journal, result)).is_err() {
                    break;
                }
                wake.call();
            }
        })?;
        Ok(Thread { to, from })
    }
}
