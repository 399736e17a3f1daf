//! Syncs a journal on another thread, so that the writer does not wait for the disk.
//!
//! The journal moves to a thread of the [`pool`](super::pool) and comes back when the sync has ended. A caller that needs
//! the journal before that waits for the thread.
//!
//! Invariants: one thread has the journal at a time; dropping [`Away`] waits for the journal, so a later opening of the
//! folder meets no writer.

use std::sync::mpsc::{Receiver, TryRecvError};

use nephila_store::journal::Journal;

use super::pool::{POOL, Synced};
use crate::{Error, Wake};

/// A journal, here or being synced.
#[derive(Debug)]
pub(super) struct Away {
    /// `None` during a sync, and for good if its thread was lost.
    journal: Option<Box<Journal>>,
    /// Where the journal comes back from, during a sync.
    from: Option<Receiver<Synced>>,
    /// Result of the last sync that no caller has fetched yet.
    result: Option<Result<(), Error>>,
    wake: Wake,
}

impl Away {
    pub(super) fn new(journal: Journal) -> Self {
        Away { journal: Some(Box::new(journal)), from: None, result: None, wake: Wake::default() }
    }

    pub(super) fn wake_with(&mut self, wake: Wake) {
        self.wake = wake;
    }

    /// Returns the journal, and waits for a running sync. The result of that sync is kept for the next caller of
    /// `sync`.
    pub(super) fn home(&mut self) -> Result<&mut Journal, Error> {
        if let Some(from) = self.from.take() {
            self.came_home(from.recv().ok());
        }
        self.journal.as_deref_mut().ok_or(Error::Broken)
    }

    fn came_home(&mut self, came: Option<Synced>) {
        if let Some((journal, result)) = came {
            (self.journal, self.result) = (Some(journal), Some(result));
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
        if let Some(from) = self.from.take() {
            match from.try_recv() {
                Err(TryRecvError::Empty) => {
                    self.from = Some(from);
                    return Ok(false);
                }
                came => self.came_home(came.ok()),
            }
        }
        self.result.take().unwrap_or(Ok(()))?;
        let journal = self.journal.take().ok_or(Error::Broken)?;
        if journal.is_synced() {
            self.journal = Some(journal);
            return Ok(true);
        }
        match POOL.sync(journal, self.wake.clone()) {
            Ok(from) => self.from = Some(from),
            Err(journal) => {
                // No thread available: the writer waits, as `sync` always may.
                self.journal = Some(journal);
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
