//! Threads that read pages, feeds and texts, each behind a watchdog that can abandon a page.
//!
//! A reader ends by itself: its work is linear in the input, with checks of the clock by bytes. If a reader does not
//! end, by a bug of ours or of a library, the waiting task gives the page up [`GRACE`] after its time limit. The thread
//! cannot be stopped, so the thread is **abandoned**: another takes its place, and the abandoned thread is counted
//! until its end. With [`ABANDONED_MAX`] of them the crawl ends with an error, since each holds a core; a restart is
//! free of them, and remembers the pages (`suspects.rs`). Why threads and not processes:
//! `docs/decisions/0011-abandoned-readers.md`.
//!
//! Invariants: no task waits for a page longer than its time limit plus [`GRACE`] from the beginning of its reading; at
//! most [`READERS_MAX`] threads read, beside at most [`ABANDONED_MAX`] abandoned ones.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// Maximum number of reader threads. More than there are cores: a long page must not delay the short ones.
pub(crate) const READERS_MAX: usize = 16;
/// Time beyond the limit after which a page is abandoned.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// Number of abandoned threads, still running, with which the crawl ends.
pub(crate) const ABANDONED_MAX: usize = 8;

/// Why a page was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread {
    /// The reader panicked: a bug.
    Failed,
    /// The reader exceeded its time and was abandoned.
    GivenUp,
    /// The reader was abandoned, as were too many before: the crawl must end.
    TooMany,
}

/// See the module. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Readers(Arc<Inner>);

#[derive(Default)]
pub(crate) struct Inner {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    jobs: VecDeque<Job>,
    /// Threads that read or are idle.
    threads: usize,
    /// Idle threads among them.
    idle: usize,
    abandoned: usize,
}

/// A job for a reader thread. Returns false if the job was abandoned meanwhile.
pub(crate) type Job = Box<dyn FnOnce() -> bool + Send>;

pub(crate) const OPEN: u8 = 0;
pub(crate) const DONE: u8 = 1;
pub(crate) const GIVEN_UP: u8 = 2;

impl Readers {
    /// Runs `work` on one of the threads. The time limit counts from the beginning of the work; the caller bounds the
    /// queue.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        time_max: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unread> {
        let (begin, begun) = oneshot::channel::<()>();
        let (give, mut given) = oneshot::channel();
        let fate = Arc::new(AtomicU8::new(OPEN));
        let end = |from: &AtomicU8, to| {
            from.compare_exchange(OPEN, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
        };
        let own = fate.clone();
        self.push(Box::new(move || {
            drop(begin);
            let done = catch_unwind(AssertUnwindSafe(work)).map_err(|_| Unread::Failed);
            let in_time = end(&own, DONE);
            // The receiver is gone if the crawl ends.
            _ = give.send(done);
            in_time
        }));
        // Dropped when the work begins.
        _ = begun.await;
        let done = match tokio::time::timeout(time_max + GRACE, &mut given).await {
            Ok(done) => done,
            Err(_) if end(&fate, GIVEN_UP) => return Err(self.abandon()),
            // The work ended just now.
            Err(_) => given.await,
        };
        done.unwrap_or(Err(Unread::Failed))
    }

    pub(crate) fn push(&self, job: Job) {
        let mut state = self.0.state();
        state.jobs.push_back(job);
        self.hire(&mut state);
        drop(state);
        self.0.wake.notify_one();
    }

    pub(crate) fn abandon(&self) -> Unread {
        let mut state = self.0.state();
        state.threads -= 1;
        state.abandoned += 1;
        self.hire(&mut state);
        if state.abandoned >= ABANDONED_MAX { Unread::TooMany } else { Unread::GivenUp }
    }

    /// Starts one more thread, if a job waits for one. If no thread can be started, the existing ones do the job later.
    pub(crate) fn hire(&self, state: &mut State) {
        if state.idle >= state.jobs.len() || state.threads >= READERS_MAX {
            return;
        }
        let inner = self.0.clone();
        let thread = std::thread::Builder::new().name("reader".into()).spawn(move || inner.run());
        state.threads += usize::from(thread.is_ok());
    }

    /// Abandoned threads that still run.
    #[cfg(test)]
    fn abandoned(&self) -> usize {
        self.0.state().abandoned
    }
}

impl Inner {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop of one thread.
    pub(crate) fn run(&self) {
        loop {
            let mut state = self.state();
            let job = loop {
                if let Some(job) = state.jobs.pop_front() {
                    break job;
                }
                state.idle += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            };
            drop(state);
            if !job() {
                // Another thread has taken this place.
                self.state().abandoned -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    const SHORT: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn sec_10_a_page_whose_reading_does_not_end_is_given_up_and_the_others_are_read() {
        let readers = Readers::default();
        let (release, held) = mpsc::channel::<()>();
        let began = Instant::now();
        let given_up = readers.read(SHORT, move || held.recv()).await;
        assert_eq!(given_up, Err(Unread::GivenUp));
        assert!(began.elapsed() >= SHORT + GRACE, "not before its time: {:?}", began.elapsed());
        assert_eq!(readers.abandoned(), 1);
        for n in 0..100 {
            assert_eq!(readers.read(SHORT, move || n).await, Ok(n), "the others are read");
        }
        release.send(()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while readers.abandoned() > 0 {
            assert!(Instant::now() < deadline, "a thread that ends after all is not counted any more");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn sec_10_what_waits_behind_pages_that_do_not_end_is_read_by_other_threads() {
        let readers = Readers::default();
        let (releases, helds): (Vec<_>, Vec<_>) = (0..READERS_MAX).map(|_| mpsc::channel::<()>()).unzip();
        let mut bad = tokio::task::JoinSet::new();
        for held in helds {
            let readers = readers.clone();
            bad.spawn(async move { readers.read(SHORT, move || held.recv()).await.map(|_| ()) });
        }
        tokio::task::yield_now().await;
        assert_eq!(readers.read(SHORT, || 7).await, Ok(7), "it waits until one of them is given up");
        let ended: Vec<_> = bad.join_all().await;
        let too_many = ended.iter().filter(|end| **end == Err(Unread::TooMany)).count();
        assert_eq!(too_many, READERS_MAX - ABANDONED_MAX + 1, "{ended:?}");
        drop(releases);
    }

    #[tokio::test]
    async fn a_reader_that_fails_costs_its_page_alone() {
        let readers = Readers::default();
        // Printing the backtrace takes a while on a busy machine.
        let long = Duration::from_secs(60);
        let failed = readers.read(long, || Vec::<u8>::new()[0]).await;
        assert_eq!((failed, readers.abandoned()), (Err(Unread::Failed), 0));
        assert_eq!(readers.read(long, || 1).await, Ok(1));
    }
}
