//! What readers of links get, found out once for all of them.
//!
//! An answer is kept for [`AGE`]. The first reader after that finds out a new one; whoever comes meanwhile gets the one
//! before, at most [`AGE_MAX`] old. So a hundred readers of a link cost as much as one.
//!
//! Invariants: at most [`SUBJECTS_MAX`] subjects are kept and [`FINDING_MAX`] are found out at the same time; at most
//! [`WAITING_MAX`] readers wait for a first answer; the readers of a subject get [`PER_SECOND`] answers per second.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Semaphore;

use super::link::Subject;
use crate::rate::Bucket;

/// Time for which an answer is kept.
pub(super) const AGE: Duration = Duration::from_secs(4);
/// Maximum age of an answer while a new one is being found out.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of subjects with answers.
const SUBJECTS_MAX: usize = 256;
/// Maximum number of answers that are found out at the same time; further ones wait.
const FINDING_MAX: usize = 2;
/// Timeout of finding out an answer.
const FIND_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum number of readers that wait for the first answer of a subject.
const WAITING_MAX: usize = 16;
/// Answers per second for all readers of a subject together: a hundred that ask each five seconds.
pub(super) const PER_SECOND: u32 = 20;
/// Time over which the pace of a job is measured.
const PACE_MS: u64 = 120_000;
/// Shortest time between two measurements that say something.
const PACE_MIN_MS: u64 = 2_000;
/// Maximum number of measurements.
const PACE_POINTS_MAX: usize = 64;

/// Why a reader gets nothing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Busy {
    /// The readers of this subject ask too often; the next one may ask after this number of seconds.
    TooMany(u64),
    /// Too many readers wait, or nothing was found out in time.
    NotNow,
}

/// The last measurements of a job: time in milliseconds, and pages.
#[derive(Clone, Debug, Default)]
pub(super) struct Pace(VecDeque<(u64, u64)>);

impl Pace {
    /// Notes the number of pages, and returns the pages per second; none before two measurements.
    pub(super) fn note(&mut self, now_ms: u64, pages: u64) -> Option<f64> {
        while self.0.front().is_some_and(|(at, _)| at + PACE_MS < now_ms) || self.0.len() >= PACE_POINTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back((now_ms, pages));
        let (from, before) = *self.0.front()?;
        let passed = now_ms.checked_sub(from).filter(|passed| *passed >= PACE_MIN_MS)?;
        Some(pages.saturating_sub(before) as f64 * 1_000.0 / passed as f64)
    }
}

/// What is kept of a subject.
#[derive(Debug)]
struct Entry {
    kept: Mutex<Option<(Instant, Bytes)>>,
    /// Held while a new answer is found out.
    turn: tokio::sync::Mutex<()>,
    bucket: Mutex<Bucket>,
    pace: Arc<Mutex<Pace>>,
    /// Number of the last use.
    used: Mutex<u64>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Shelf {
    began: Instant,
    entries: Mutex<(u64, HashMap<Subject, Arc<Entry>>)>,
    finding: Semaphore,
    waiting: Semaphore,
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf {
            began: Instant::now(),
            entries: Mutex::default(),
            finding: Semaphore::new(FINDING_MAX),
            waiting: Semaphore::new(WAITING_MAX),
        }
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shelf {
    /// The answer about a subject; otherwise what `find` finds out. `find` gets the pace of the subject. None if it finds
    /// nothing. Neither nothing nor a failure is kept.
    pub(super) async fn get<F>(
        &self,
        subject: &Subject,
        find: impl FnOnce(Arc<Mutex<Pace>>) -> F,
    ) -> Result<Option<Bytes>, Busy>
    where
        F: Future<Output = Result<Option<Bytes>, Busy>>,
    {
        let entry = self.entry(subject);
        let now_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        held(&entry.bucket).take(now_ms).map_err(Busy::TooMany)?;
        if let Some(answer) = entry.young(AGE) {
            return Ok(Some(answer));
        }
        let _turn = match entry.turn.try_lock() {
            Ok(turn) => turn,
            Err(_) => {
                if let Some(answer) = entry.young(AGE_MAX) {
                    return Ok(Some(answer));
                }
                let _place = self.waiting.try_acquire().map_err(|_| Busy::NotNow)?;
                let turn = tokio::time::timeout(FIND_TIMEOUT, entry.turn.lock());
                let turn = turn.await.map_err(|_| Busy::NotNow)?;
                if let Some(answer) = entry.young(AGE) {
                    return Ok(Some(answer));
                }
                turn
            }
        };
        let found = async {
            let _room = self.finding.acquire().await.ok()?;
            Some(find(entry.pace.clone()).await)
        };
        let found = tokio::time::timeout(FIND_TIMEOUT, found).await;
        let found = found.ok().flatten().ok_or(Busy::NotNow)??;
        if let Some(answer) = &found {
            *held(&entry.kept) = Some((Instant::now(), answer.clone()));
        }
        Ok(found)
    }

    fn entry(&self, subject: &Subject) -> Arc<Entry> {
        let mut guard = held(&self.entries);
        let (uses, entries) = &mut *guard;
        *uses += 1;
        if let Some(entry) = entries.get(subject) {
            *held(&entry.used) = *uses;
            return entry.clone();
        }
        if entries.len() >= SUBJECTS_MAX {
            let oldest = entries.iter().min_by_key(|(_, entry)| *held(&entry.used)).map(|(of, _)| of.clone());
            oldest.map(|oldest| entries.remove(&oldest));
        }
        let entry = Arc::new(Entry {
            kept: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            bucket: Mutex::new(Bucket::new(PER_SECOND, 0)),
            pace: Arc::default(),
            used: Mutex::new(*uses),
        });
        entries.insert(subject.clone(), entry.clone());
        entry
    }
}

impl Entry {
    /// What is kept, if it is not older.
    fn young(&self, age_max: Duration) -> Option<Bytes> {
        held(&self.kept).as_ref().filter(|(at, _)| at.elapsed() < age_max).map(|(_, answer)| answer.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    use super::super::link::Kind;
    use super::*;

    fn host(name: &str) -> Subject {
        Subject::named(Kind::Host, name).unwrap()
    }

    #[tokio::test]
    async fn many_readers_cost_as_much_as_one_and_too_many_are_told_when_to_ask_again() {
        let (shelf, found) = (Shelf::default(), AtomicU64::new(0));
        let find = |_| async {
            found.fetch_add(1, SeqCst);
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok(Some(Bytes::from_static(b"said")))
        };
        let one = host("a.test");
        let readers = (0..WAITING_MAX).map(|_| shelf.get(&one, find));
        let answers = futures_util::future::join_all(readers).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(Some(text)) if **text == *b"said")));
        assert_eq!(found.load(SeqCst), 1);
        let mut given = WAITING_MAX;
        let refused = loop {
            match shelf.get(&one, find).await {
                Ok(_) => given += 1,
                Err(refused) => break refused,
            }
            assert!(given < 1_000, "the readers of a link have no end");
        };
        assert_eq!(refused, Busy::TooMany(1));
        assert!(given >= 2 * PER_SECOND as usize, "{given}");
        assert!(shelf.get(&host("b.test"), find).await.is_ok(), "another link is not held up");
        assert_eq!(found.load(SeqCst), 2);
    }

    #[tokio::test]
    async fn more_readers_than_may_wait_are_told_to_come_again() {
        let shelf = Shelf::default();
        let one = host("a.test");
        let slow = |_| async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(Some(Bytes::from_static(b"said")))
        };
        let readers = (0..WAITING_MAX + 5).map(|_| shelf.get(&one, slow));
        let answers = futures_util::future::join_all(readers).await;
        let refused = answers.iter().filter(|answer| **answer == Err(Busy::NotNow)).count();
        assert_eq!(refused, 4, "one finds out, {WAITING_MAX} wait");
    }

    #[tokio::test]
    async fn an_old_answer_is_given_while_a_new_one_is_found_out_and_nothing_is_not_kept() {
        let shelf = Shelf::default();
        let one = host("a.test");
        assert_eq!(shelf.get(&one, async |_| Ok(None)).await, Ok(None));
        assert_eq!(shelf.get(&one, async |_| Ok(Some("1".into()))).await, Ok(Some("1".into())));
        let entry = shelf.entry(&one);
        *held(&entry.kept) = Some((Instant::now() - AGE, "old".into()));
        let turn = entry.turn.lock().await;
        assert_eq!(shelf.get(&one, async |_| Ok(Some("2".into()))).await, Ok(Some("old".into())));
        drop(turn);
        assert_eq!(shelf.get(&one, async |_| Ok(Some("2".into()))).await, Ok(Some("2".into())));
    }

    #[test]
    fn the_subjects_that_are_kept_are_bounded() {
        let shelf = Shelf::default();
        for number in 0..SUBJECTS_MAX + 40 {
            shelf.entry(&host(&format!("h{number}.test")));
            shelf.entry(&host("h0.test"));
        }
        let entries = held(&shelf.entries);
        assert_eq!(entries.1.len(), SUBJECTS_MAX);
        assert!(entries.1.contains_key(&host("h0.test")), "the last used ones stay");
    }

    #[test]
    fn the_pace_of_a_job_is_that_of_the_last_minutes() {
        let mut pace = Pace::default();
        assert_eq!(pace.note(1_000, 50), None);
        assert_eq!(pace.note(2_000, 60), None, "too short");
        assert_eq!(pace.note(11_000, 100), Some(5.0));
        assert_eq!(pace.note(60_000, 90), Some(40_000.0 / 59_000.0));
        assert_eq!(pace.note(10_000_000, 500), None, "what is long ago says nothing about now");
        for second in 0..1_000 {
            pace.note(10_000_000 + second * 100, 500);
        }
        assert!(pace.0.len() <= PACE_POINTS_MAX);
    }
}
