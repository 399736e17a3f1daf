//! Threads that read pages, feeds and texts, each behind a watchdog that can give a page up.
//!
//! A reader ends by itself: it is linear in what it reads and looks at the clock by bytes. Should one not, by a fault of ours or
//! of a library, whoever waits for it gives the page up [`GRACE`] after its time. The thread cannot be stopped, so it is
//! **abandoned**: another takes its place, and it is counted until it ends by itself after all. With [`ABANDONED_MAX`] of them the
//! crawl ends and says so, since each holds a core; a new start is without them, and knows the pages (`suspects.rs`).
//! Why threads and not processes: `docs/decisions/0011-abandoned-readers.md`.
//!
//! What always holds: nobody waits for a page longer than its time and [`GRACE`] from the moment its reading began; no more than
//! [`READERS_MAX`] threads read, and no more than [`ABANDONED_MAX`] beside them were given up.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

/// Threads that read at once. More than there are cores: a long page must not be in the way of the short ones.
const READERS_MAX: usize = 16;
/// Beyond its own time a page gets this long before it is given up.
pub(crate) const GRACE: Duration = Duration::from_secs(1);
/// With so many threads that were given up and still run, the crawl ends.
pub(crate) const ABANDONED_MAX: usize = 8;

/// Why a page was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The reader failed: a fault of ours.
    Failed,
    /// It did not end in time and was given up.
    GivenUp,
    /// It was given up, as were too many before it: the crawl is to end.
    TooMany,
}

/// See the module. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Readers(Arc<Inner>);

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Threads that read or wait for something to read.
    threads: usize,
    /// Of them those that wait.
    idle: usize,
    abandoned: usize,
}

/// Something to read. False if it was given up meanwhile.
type Job = Box<dyn FnOnce() -> bool + Send>;

const OPEN: u8 = 0;
const DONE: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Readers {
    /// Has `work` done by one of the threads. Its time counts from when it begins; the caller bounds how many wait.
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
            // Nobody listens any more if the crawl ends.
            _ = give.send(done);
            in_time
        }));
        // Dropped when it begins.
        _ = begun.await;
        let done = match tokio::time::timeout(time_max + GRACE, &mut given).await {
            Ok(done) => done,
            Err(_) if end(&fate, GIVEN_UP) => return Err(self.abandon()),
            // It ended just now.
            Err(_) => given.await,
        };
        done.unwrap_or(Err(Unread::Failed))
    }

    fn push(&self, job: Job) {
        let mut state = self.0.state();
        state.jobs.push_back(job);
        self.hire(&mut state);
        drop(state);
        self.0.wake.notify_one();
    }

    fn abandon(&self) -> Unread {
        let mut state = self.0.state();
        state.threads -= 1;
        state.abandoned += 1;
        self.hire(&mut state);
        if state.abandoned >= ABANDONED_MAX { Unread::TooMany } else { Unread::GivenUp }
    }

    /// One thread more, if something waits for one. If there is none to be had, those that are there read it later.
    fn hire(&self, state: &mut State) {
        if state.idle >= state.jobs.len() || state.threads >= READERS_MAX {
            return;
        }
        let inner = self.0.clone();
        let thread = std::thread::Builder::new().name("reader".into()).spawn(move || inner.run());
        state.threads += usize::from(thread.is_ok());
    }

    /// Threads that were given up and still run.
    #[cfg(test)]
    fn abandoned(&self) -> usize {
        self.0.state().abandoned
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One thread.
    fn run(&self) {
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
                // Somebody else has this thread's place.
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
        // To print where it failed takes its time on a busy machine.
        let long = Duration::from_secs(60);
        let failed = readers.read(long, || Vec::<u8>::new()[0]).await;
        assert_eq!((failed, readers.abandoned()), (Err(Unread::Failed), 0));
        assert_eq!(readers.read(long, || 1).await, Ok(1));
    }
}
