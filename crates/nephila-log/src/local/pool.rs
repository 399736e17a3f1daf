//! Threads that sync journals: one pool for all journals of the process.
//!
//! A journal that is to be synced moves to a thread and comes back with the result ([`Pool::sync`]). A thread that finds
//! the next journal waiting takes it without sleeping, and the disk has often written both by then. Threads start when
//! there is work for them, up to [`sync_threads`], and wait for work as long as the process lives.
//!
//! Invariant: a journal that was taken comes back, unless its sync panics; then its owner notices that no result comes.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use nephila_store::journal::Journal;

use crate::{Error, Wake};

/// Bounds of [`sync_threads`]. The maximum is more than a disk does at the same time.
const THREADS: std::ops::RangeInclusive<usize> = 4..=64;

/// Maximum threads that sync at the same time, on a machine with this many cores. A sync waits for the disk most of the
/// time, so there are more threads than cores.
pub(super) fn sync_threads(cores: usize) -> usize {
    cores.saturating_mul(2).clamp(*THREADS.start(), *THREADS.end())
}

/// The pool of this process.
pub(super) static POOL: LazyLock<Arc<Pool>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    Arc::new(Pool::new(sync_threads(cores)))
});

/// A journal, and the result of its sync.
pub(super) type Synced = (Box<Journal>, Result<(), Error>);

/// See the module.
#[derive(Debug)]
pub(super) struct Pool {
    threads_max: usize,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

#[derive(Debug)]
struct Job {
    journal: Box<Journal>,
    wake: Wake,
    back: Sender<Synced>,
}

impl Pool {
    pub(super) fn new(threads_max: usize) -> Self {
        Pool { threads_max, state: Mutex::default(), work: Condvar::new() }
    }

    /// Has a thread sync the journal. The callback runs after the result was sent. Gives the journal back if there is no
    /// thread and none can be started.
    pub(super) fn sync(
        self: &Arc<Self>,
        journal: Box<Journal>,
        wake: Wake,
    ) -> Result<Receiver<Synced>, Box<Journal>> {
        let mut state = self.state();
        if state.idle <= state.jobs.len() && state.threads < self.threads_max {
            let pool = self.clone();
            match std::thread::Builder::new().name("log-sync".into()).spawn(move || pool.work()) {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => return Err(journal),
                Err(_) => {}
            }
        }
        let (back, from) = channel();
        state.jobs.push_back(Job { journal, wake, back });
        drop(state);
        self.work.notify_one();
        Ok(from)
    }

    /// The life of a thread.
    fn work(&self) {
        let _counted = Counted(self);
        loop {
            let Job { mut journal, wake, back } = self.next();
            let result = journal.sync().map_err(Error::from);
            // Nobody may wait for it any more.
            let _ = back.send((journal, result));
            wake.call();
        }
    }

    fn next(&self) -> Job {
        let mut state = self.state();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return job;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Numbers and a list, which are consistent at any time.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a thread off when it ends by a panic.
struct Counted<'a>(&'a Pool);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.state().threads -= 1;
    }
}

#[cfg(test)]
mod tests {
    use nephila_store::disk::RealDisk;
    use nephila_store::journal::Settings;

    use super::*;

    fn journal(folder: &std::path::Path) -> Box<Journal> {
        let (mut journal, _) = Journal::open(Arc::new(RealDisk), folder, Settings::default()).unwrap();
        journal.append(1, b"group").unwrap();
        Box::new(journal)
    }

    #[test]
    fn threads_that_sync_follow_the_cores() {
        for (cores, threads) in [(1, 4), (2, 4), (4, 8), (16, 32), (64, 64), (512, 64)] {
            assert_eq!(sync_threads(cores), threads, "{cores} cores");
        }
    }

    #[test]
    fn more_journals_than_threads_are_all_synced() {
        let folder = tempfile::tempdir().unwrap();
        let pool = Arc::new(Pool::new(2));
        let woken = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let wake = {
            let woken = woken.clone();
            Wake::new(move || _ = woken.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
        };
        let places = (0..20).map(|number| folder.path().join(number.to_string()));
        let away: Vec<_> = places.map(|place| pool.sync(journal(&place), wake.clone()).unwrap()).collect();
        for from in away {
            let (journal, result) = from.recv().unwrap();
            result.unwrap();
            assert!(journal.is_synced());
        }
        assert!(pool.state().threads <= 2);
        // The callback runs behind the result: the last two may still be on their way.
        assert!(woken.load(std::sync::atomic::Ordering::SeqCst) >= 18);
    }
}
