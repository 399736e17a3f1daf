//! What the sender of a webhook does next, and when: reads events, sends a delivery, records the position, waits.
//!
//! One thing at a time: a delivery is sent after the one before it was accepted, and the position is recorded after all
//! deliveries of its page. A failure is followed by a wait that doubles up to [`WAIT_MAX`], with jitter; the receiver
//! may name the wait itself (`Retry-After`). The sender never gives up, except when the receiver says that the URL is
//! gone for good (410).
//!
//! Invariants: the position is recorded only when every event before the position was accepted; after a failure
//! nothing is done before the wait is over; between a page that no limit cut and the next one lies [`LOOK_EVERY`],
//! except at the end of the process.

use std::time::Duration;

/// Interval of reading while a page has all events that there are.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Wait after the first failure, before jitter.
pub const FIRST_WAIT: Duration = Duration::from_secs(2);
/// Maximum wait after a failure, also if the receiver names a longer one.
pub const WAIT_MAX: Duration = Duration::from_secs(3_600);
/// Maximum wait after a failure on this machine: reading events, or recording the position.
pub const LOCAL_WAIT_MAX: Duration = Duration::from_secs(30);
/// Minimum wait if the receiver names one.
pub const RETRY_AFTER_MIN: Duration = Duration::from_secs(1);
/// Interval of recording the position while no event is to be delivered.
pub const SAVE_EVERY: Duration = Duration::from_secs(30);
/// A webhook that has failed for this time is an alarm.
pub const ALARM_AFTER: Duration = Duration::from_secs(600);

/// What is to be done now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Read the events behind the position.
    Read,
    /// Send the delivery of this number, of those that the last reading gave.
    Send(usize),
    /// Record the position behind the last reading.
    Save,
    /// Nothing for this time.
    Wait(Duration),
    /// Nothing any more.
    End,
}

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The receiver has answered.
    Status {
        /// The status.
        status: u16,
        /// The wait that the receiver asked for.
        retry_after: Option<Duration>,
    },
    /// No answer: no connection, a connection that ended, or none in time.
    Nothing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Reading,
    Sending { next: usize, count: usize },
    Saving,
    Gone,
}

/// The sender of one webhook. Times are milliseconds of a monotonic clock.
#[derive(Clone, Debug)]
pub struct Sender {
    stage: Stage,
    not_before: u64,
    /// Events are not read before this time, unless the process ends.
    read_from: u64,
    /// Failures in a row.
    failures: u32,
    failing_since: Option<u64>,
    saved_at: u64,
    /// Whether the last reading found nothing.
    is_caught_up: bool,
    /// The process ends by then.
    finish_by: Option<u64>,
}

impl Sender {
    /// A sender that begins now at a recorded position.
    pub fn new(now: u64) -> Sender {
        Sender {
            stage: Stage::Reading,
            not_before: now,
            read_from: now,
            failures: 0,
            failing_since: None,
            saved_at: now,
            is_caught_up: false,
            finish_by: None,
        }
    }

    /// What is to be done now.
    pub fn next(&self, now: u64) -> Task {
        let task = match self.stage {
            Stage::Reading => Task::Read,
            Stage::Sending { next, .. } => Task::Send(next),
            Stage::Saving => Task::Save,
            Stage::Gone => return Task::End,
        };
        if let Some(by) = self.finish_by {
            let has_time = now < by && self.not_before <= by;
            if !has_time || self.is_caught_up() {
                return Task::End;
            }
        }
        let is_look = task == Task::Read && self.finish_by.is_none();
        let from = if is_look { self.not_before.max(self.read_from) } else { self.not_before };
        if now < from {
            return Task::Wait(Duration::from_millis(from - now));
        }
        task
    }

    /// A page of events was read: the number of deliveries, whether the page came further than the one before, and
    /// whether a limit cut it, so that there is more to read.
    pub fn was_read(&mut self, now: u64, deliveries: usize, moved: bool, is_full: bool) {
        self.succeeded();
        self.is_caught_up = !moved;
        self.read_from = if is_full { now } else { now.saturating_add(millis(LOOK_EVERY)) };
        let is_old = now.saturating_sub(self.saved_at) >= millis(SAVE_EVERY);
        match deliveries {
            0 if moved && is_old => self.stage = Stage::Saving,
            0 => {}
            count => self.stage = Stage::Sending { next: 0, count },
        }
    }

    /// The events could not be read. `chance` is a random number.
    pub fn could_not_read(&mut self, now: u64, chance: u64) {
        self.failed_here(now, chance);
    }

    /// The request of a delivery has ended. `chance` is a random number.
    pub fn answered(&mut self, now: u64, answer: Answer, chance: u64) {
        let Stage::Sending { next, count } = self.stage else { return };
        match answer {
            Answer::Status { status: 200..=299, .. } => {
                self.succeeded();
                let next = next + 1;
                self.stage = if next < count { Stage::Sending { next, count } } else { Stage::Saving };
            }
            Answer::Status { status: 410, .. } => {
                self.failing_since.get_or_insert(now);
                self.stage = Stage::Gone;
            }
            Answer::Status { retry_after, .. } => self.failed(now, retry_after, chance),
            Answer::Nothing => self.failed(now, None, chance),
        }
    }

    /// The position was recorded, or could not be. `chance` is a random number.
    pub fn saved(&mut self, now: u64, is_saved: bool, chance: u64) {
        match is_saved {
            true => {
                self.succeeded();
                self.saved_at = now;
                self.stage = Stage::Reading;
            }
            false => self.failed_here(now, chance),
        }
    }

    /// The process ends by then: the sender delivers what is there, and ends at once when nothing is left or when the
    /// wait after a failure would last longer.
    pub fn finish(&mut self, now: u64, by: u64) {
        self.finish_by = Some(by);
        self.is_caught_up = false;
        if self.failures == 0 {
            self.not_before = now;
        }
    }

    /// Whether everything was delivered when the sender last read.
    pub fn is_caught_up(&self) -> bool {
        self.is_caught_up && self.stage == Stage::Reading
    }

    /// Whether the receiver said that the URL is gone.
    pub fn is_gone(&self) -> bool {
        self.stage == Stage::Gone
    }

    /// Since when every attempt failed.
    pub fn failing_since(&self) -> Option<u64> {
        self.failing_since
    }

    fn succeeded(&mut self) {
        (self.failures, self.failing_since) = (0, None);
    }

    /// The receiver did not accept.
    fn failed(&mut self, now: u64, retry_after: Option<Duration>, chance: u64) {
        self.count_failure(now);
        let wait = match retry_after {
            Some(said) => said.clamp(RETRY_AFTER_MIN, WAIT_MAX),
            None => backoff(self.failures, WAIT_MAX, chance),
        };
        self.not_before = now + millis(wait);
    }

    /// This machine could not do its part, which costs the receiver nothing.
    fn failed_here(&mut self, now: u64, chance: u64) {
        self.count_failure(now);
        self.not_before = now + millis(backoff(self.failures, LOCAL_WAIT_MAX, chance));
    }

    fn count_failure(&mut self, now: u64) {
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(now);
    }
}

/// The wait after this number of failures in a row: between a half and the whole of [`FIRST_WAIT`], doubled with each
/// failure up to `wait_max`.
pub fn backoff(failures: u32, wait_max: Duration, chance: u64) -> Duration {
    let doubled = 1u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
    let whole = millis(FIRST_WAIT).saturating_mul(doubled).min(millis(wait_max));
    let half = whole / 2;
    Duration::from_millis(half + chance % (whole - half + 1))
}

/// A duration in whole milliseconds, the unit of the times of a [`Sender`].
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
