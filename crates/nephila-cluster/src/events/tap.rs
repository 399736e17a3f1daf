//! A partition's log whose durable groups are published as events: the queue, and the progress.
//!
//! [`EventTap`] wraps the log and puts a copy of each durable group into a bounded [`Queue`] for the teller. Groups
//! that did not fit into the queue are in the log, which is not truncated before their events are published and this
//! progress is recorded: the next owner of the partition continues there.
//!
//! Invariants: the worker never waits for the teller; the log retained for events is bounded, in groups, and in bytes
//! since opening.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use nephila_log::{Error, GroupLog, Groups, Wake};
use tokio::sync::Notify;

use crate::tails::Recorded;

/// Maximum size in bytes of a partition's queued groups in memory; beyond that, groups are read from the log.
pub(super) const WAITING_BYTES_MAX: usize = 1 << 20;
/// Maximum number of groups that the log is retained for unpublished events; a new owner goes back no further.
pub(super) const BEHIND_GROUPS_MAX: u64 = 50_000;
/// Maximum number of bytes, as stored on the servers, added since opening while the log is retained for events.
pub(super) const BEHIND_BYTES_MAX: u64 = if cfg!(test) { 4 << 20 } else { 128 << 20 };

/// How far the events of a partition are published.
#[derive(Debug, Default)]
pub(crate) struct HowFar {
    /// Groups up to this one are published.
    pub(crate) told: AtomicU64,
    /// Groups up to this one are recorded as published.
    pub(crate) written: AtomicU64,
}

/// Where publishing continues in a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Start {
    /// Groups up to this one are published, or need not be.
    pub(super) told: u64,
    /// The log is read from this group on; skipped groups become a gap event.
    pub(super) from: u64,
}

impl Start {
    /// The start for a log with this first and last group, from the recorded progress.
    pub(crate) fn of(recorded: Recorded, first: u64, synced: u64) -> Start {
        let (before_log, too_old) = (first.saturating_sub(1), synced.saturating_sub(BEHIND_GROUPS_MAX));
        let told = match recorded {
            Recorded { now: Some(now), .. } => now.min(synced),
            // A new log was started since. None of its groups was published, regardless of their numbers.
            Recorded { before: Some(before), .. } => before.min(before_log),
            // Events were never published here: start with the groups that the log still has.
            _ => before_log.max(too_old),
        };
        Start { told, from: told.max(too_old) + 1 }
    }
}

/// Where the next group is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// In the queue.
    Group(Vec<u8>),
    /// Durable, but only in the log.
    InLog,
    /// Not durable yet.
    Nothing,
}

#[derive(Debug, Default)]
pub(super) struct Waiting {
    groups: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
    /// The last durable group.
    durable: u64,
}

/// Queue of groups to publish.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

impl Queue {
    /// A queue for a log that ends with this group.
    pub(super) fn new(durable: u64) -> Queue {
        let waiting = Waiting { durable, ..Waiting::default() };
        Queue { waiting: Mutex::new(waiting), arrived: Notify::new() }
    }

    pub(super) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("nobody panics holding it")
    }

    pub(super) fn push(&self, group: u64, bytes: Vec<u8>) {
        let mut waiting = self.waiting();
        if waiting.bytes + bytes.len() > WAITING_BYTES_MAX {
            waiting.groups.clear();
            waiting.bytes = 0;
        }
        waiting.durable = waiting.durable.max(group);
        waiting.bytes += bytes.len();
        waiting.groups.push_back((group, bytes));
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Takes the group with this number. Drops earlier groups.
    pub(super) fn next(&self, number: u64) -> Next {
        let mut waiting = self.waiting();
        while waiting.groups.front().is_some_and(|(group, _)| *group <= number) {
            let Some((group, bytes)) = waiting.groups.pop_front() else { break };
            waiting.bytes -= bytes.len();
            if group == number {
                return Next::Group(bytes);
            }
        }
        if waiting.durable >= number { Next::InLog } else { Next::Nothing }
    }

    /// Whether the group with this number must be read from the log.
    pub(super) fn is_in_log(&self, number: u64) -> bool {
        let waiting = self.waiting();
        waiting.durable >= number && !waiting.groups.iter().any(|(group, _)| *group == number)
    }

    /// The last group that only the log has.
    pub(super) fn last_in_log(&self, number: u64) -> u64 {
        let waiting = self.waiting();
        let here = waiting.groups.iter().map(|(group, _)| *group).find(|group| *group >= number);
        here.map_or(waiting.durable, |group| group - 1)
    }

    /// Waits until another group is pushed.
    pub(super) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

/// A log whose durable groups are published.
#[derive(Debug)]
pub(super) struct EventTap {
    log: Box<dyn GroupLog>,
    queue: Arc<Queue>,
    how_far: Arc<HowFar>,
    /// Groups appended, but not yet durable.
    appended: VecDeque<(u64, Vec<u8>)>,
}

impl EventTap {
    pub(super) fn around(log: Box<dyn GroupLog>, queue: Arc<Queue>, how_far: Arc<HowFar>) -> EventTap {
        EventTap { log, queue, how_far, appended: VecDeque::new() }
    }

    pub(super) fn note(&mut self) {
        let synced = self.log.synced();
        while self.appended.front().is_some_and(|(group, _)| *group <= synced) {
            let Some((group, bytes)) = self.appended.pop_front() else { break };
            self.queue.push(group, bytes);
        }
    }
}

impl GroupLog for EventTap {
    fn append(&mut self, sequence: u64, group: &[u8]) -> Result<(), Error> {
        self.log.append(sequence, group)?;
        self.appended.push_back((sequence, group.to_vec()));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.log.sync()?;
        self.note();
        Ok(())
    }

    fn try_sync(&mut self) -> Result<bool, Error> {
        let synced = self.log.try_sync()?;
        if synced {
            self.note();
        }
        Ok(synced)
    }

    fn wake_with(&mut self, wake: Wake) {
        self.log.wake_with(wake);
    }

    fn go_back(&mut self) -> Result<(), Error> {
        let back = self.log.go_back();
        // Some may have become durable before there was no room.
        self.note();
        self.appended.clear();
        back
    }

    fn synced(&self) -> u64 {
        self.log.synced()
    }

    fn replay<'a>(&'a mut self, from: u64) -> Groups<'a> {
        self.log.replay(from)
    }

    fn truncate_before(&mut self, sequence: u64) -> Result<(), Error> {
        let written = self.how_far.written.load(Ordering::Acquire);
        // The teller cannot retain the log forever. Groups removed then are published as a gap.
        let is_far_behind = self.log.synced().saturating_sub(written) > BEHIND_GROUPS_MAX
            || self.log.bytes() > BEHIND_BYTES_MAX;
        let kept = if is_far_behind { sequence } else { sequence.min(written + 1) };
        self.log.truncate_before(kept)
    }

    fn bytes(&self) -> u64 {
        self.log.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nephila_log::Fence;
    use nephila_log::memory::Engine;

    use super::*;

    /// The recorded progress, a log with its first and last group, and where publishing continues.
    fn check(now: Option<u64>, before: Option<u64>, log: (u64, u64), told: u64, from: u64) {
        let start = Start::of(Recorded { now, before }, log.0, log.1);
        assert_eq!(start, Start { told, from }, "{now:?} {before:?} {log:?}");
    }

    #[test]
    fn a_new_owner_goes_on_where_the_last_one_wrote_that_it_was() {
        check(None, None, (1, 0), 0, 1);
        check(Some(40), None, (11, 100), 40, 41);
        check(Some(40), Some(90), (11, 100), 40, 41);
        // The log is shorter than it should be: what lies between is a gap, as whoever reads finds.
        check(Some(40), None, (60, 100), 40, 41);
        // Events are new in this cluster: nobody is owed what the log does not have any more.
        check(None, None, (60, 100), 59, 60);
        check(None, None, (1, BEHIND_GROUPS_MAX + 70), 70, 71);
        // So far behind, the oldest are left out, and that is said.
        check(Some(5), None, (1, BEHIND_GROUPS_MAX + 70), 5, 71);
    }

    #[test]
    fn a_log_begun_anew_is_told_from_its_beginning_whatever_was_told_before() {
        // It goes on behind group 900, and more was told: nothing is a gap, nothing is left out.
        check(None, Some(1_000), (901, 950), 900, 901);
        check(None, Some(1_000), (901, 900), 900, 901);
        // Less was told: what lies between is gone.
        check(None, Some(800), (901, 900), 800, 801);
    }

    #[test]
    fn what_a_full_queue_drops_is_in_the_log() {
        let queue = Queue::new(0);
        assert_eq!(queue.next(1), Next::Nothing);
        queue.push(1, vec![1; WAITING_BYTES_MAX / 2]);
        queue.push(2, vec![2; WAITING_BYTES_MAX / 2]);
        queue.push(3, vec![3; 10]);
        assert!(queue.is_in_log(1) && queue.is_in_log(2) && !queue.is_in_log(3));
        assert_eq!(queue.next(1), Next::InLog);
        assert_eq!(queue.last_in_log(1), 2);
        assert_eq!(queue.next(3), Next::Group(vec![3; 10]));
        assert_eq!((queue.next(4), queue.is_in_log(4)), (Next::Nothing, false));
        // Of an owner before.
        let queue = Queue::new(7);
        assert_eq!((queue.next(5), queue.last_in_log(5)), (Next::InLog, 7));
        queue.push(8, vec![8]);
        assert_eq!((queue.next(9), queue.next(8)), (Next::Nothing, Next::InLog));
    }

    fn told(groups: u64, len: usize) -> (EventTap, Arc<HowFar>) {
        let log = Engine::new(Duration::from_secs(15)).log(0, 1, Fence::new()).unwrap();
        let how_far = Arc::new(HowFar::default());
        let mut told = EventTap::around(Box::new(log), Arc::new(Queue::new(0)), how_far.clone());
        for group in 1..=groups {
            told.append(group, &vec![0; len]).unwrap();
        }
        told.sync().unwrap();
        (told, how_far)
    }

    fn first(told: &mut EventTap) -> u64 {
        told.replay(1).next().unwrap().unwrap().0
    }

    #[test]
    fn the_log_is_kept_until_it_is_written_down_that_its_events_are_told() {
        let (mut told, how_far) = told(100, 10);
        told.truncate_before(90).unwrap();
        assert_eq!(first(&mut told), 1);
        how_far.told.store(50, Ordering::Release);
        told.truncate_before(90).unwrap();
        assert_eq!(first(&mut told), 1, "the next owner does not know yet that they are told");
        how_far.written.store(50, Ordering::Release);
        told.truncate_before(90).unwrap();
        assert_eq!(first(&mut told), 51);
        how_far.written.store(100, Ordering::Release);
        told.truncate_before(90).unwrap();
        assert_eq!(first(&mut told), 90);
    }

    #[test]
    fn events_that_cannot_be_told_hold_the_log_up_to_a_bound_in_groups_and_in_bytes() {
        let (mut many, _) = told(BEHIND_GROUPS_MAX + 1, 1);
        many.truncate_before(90).unwrap();
        assert_eq!(first(&mut many), 90);
        let large = usize::try_from(BEHIND_BYTES_MAX / 8).unwrap();
        let (mut long, _) = told(9, large);
        long.truncate_before(8).unwrap();
        assert_eq!(first(&mut long), 8);
    }
}
