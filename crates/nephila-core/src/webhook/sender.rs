//! What the sender of a webhook does next, and when: reads events, sends a delivery, records the position, waits.
//!
//! One thing at a time: a delivery is sent after the one before it was accepted, and the position is recorded after all
//! deliveries of its page. A failure is followed by a wait that doubles up to [`WAIT_MAX`], with jitter; the receiver
//! may name the wait itself (`Retry-After`). The sender never gives up, except when the receiver says that the URL is
//! gone for good (410).
//!
//! Invariants: the position is recorded only when every event before the position was accepted; after a failure
//! nothing is done before the wait is over; between two tasks that find nothing lies [`LOOK_EVERY`].

use std::time::Duration;

/// Interval of reading while there are no new events.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Wait after the first failure, before jitter.
pub const FIRST_WAIT: Duration = Duration::from_secs(2);
/// Maximum wait after a failure, also if the receiver names a longer one.
pub const WAIT_MAX: Duration = Duration::from_secs(3_600);
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
            failures: 0,
            failing_since: None,
            saved_at: now,
            is_caught_up: false,
            finish_by: None,
        }
    }

    /// What is to be done now.
    pub fn next(&self, now: u64) -> Task {
        if self.stage == Stage::Gone {
            return Task::End;
        }
        if let Some(by) = self.finish_by {
            let has_time = now < by && self.not_before <= by;
            if !has_time || self.is_caught_up() {
                return Task::End;
            }
        }
        if now < self.not_before {
            return Task::Wait(Duration::from_millis(self.not_before - now));
        }
        match self.stage {
            Stage::Reading => Task::Read,
            Stage::Sending { next, .. } => Task::Send(next),
            Stage::Saving => Task::Save,
            Stage::Gone => Task::End,
        }
    }

    /// The events were read: the number of deliveries, and whether the reading came further than the one before.
    pub fn was_read(&mut self, now: u64, deliveries: usize, moved: bool) {
        self.succeeded();
        self.is_caught_up = !moved;
        let is_old = now.saturating_sub(self.saved_at) >= millis(SAVE_EVERY);
        match deliveries {
            0 if moved && is_old => self.stage = Stage::Saving,
            0 if moved => {}
            0 => self.not_before = now + millis(LOOK_EVERY),
            count => self.stage = Stage::Sending { next: 0, count },
        }
    }

    /// The events could not be read. `chance` is a random number.
    pub fn could_not_read(&mut self, now: u64, chance: u64) {
        self.failed(now, None, chance);
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
            false => self.failed(now, None, chance),
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

    fn failed(&mut self, now: u64, retry_after: Option<Duration>, chance: u64) {
        self.failures = self.failures.saturating_add(1);
        self.failing_since.get_or_insert(now);
        let wait = match retry_after {
            Some(said) => said.clamp(RETRY_AFTER_MIN, WAIT_MAX),
            None => backoff(self.failures, chance),
        };
        self.not_before = now + millis(wait);
    }
}

/// The wait after this number of failures in a row: between a half and the whole of [`FIRST_WAIT`], doubled with each
/// failure up to [`WAIT_MAX`].
pub fn backoff(failures: u32, chance: u64) -> Duration {
    let doubled = 1u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
    let whole = millis(FIRST_WAIT).saturating_mul(doubled).min(millis(WAIT_MAX));
    let half = whole / 2;
    Duration::from_millis(half + chance % (whole - half + 1))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
