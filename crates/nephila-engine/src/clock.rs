//! The clocks of this machine: the one place that reads the time for the frontier.
//!
//! Invariant: `mono` never goes back, whatever happens to the time of day.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nephila_core::time::{Now, Timestamp};

/// Monotonic clock and wall clock. Copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
}

impl Clock {
    /// Starts the monotonic clock at zero.
    pub fn new() -> Clock {
        Clock { began: Instant::now() }
    }

    /// Both clocks now. `mono` stands still while the machine sleeps: a crawl delay then lasts longer for the site,
    /// never shorter.
    pub fn now(&self) -> Now {
        let mono = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        // A machine without a battery-backed clock may start in 1970; earlier times cannot be represented.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono, wall: Timestamp(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)) }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
    }
}

/// Milliseconds on a clock that continues while the machine sleeps (boot time).
pub fn awake_or_not() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000 + nanos / 1_000_000
}

/// A deadline that may be moved, checked before every action under a lease (fencing). A process that was frozen finds
/// its gate closed before any message can arrive.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<AtomicU64>);

impl Gate {
    /// Opens the gate until `moment`, in milliseconds of [`awake_or_not`]; 0 closes the gate.
    pub fn open_until(&self, moment: u64) {
        self.0.store(moment, Ordering::Release);
    }

    /// Whether the gate is open now.
    pub fn is_open(&self) -> bool {
        awake_or_not() < self.until()
    }

    /// Until when the gate is open, in milliseconds of [`awake_or_not`].
    pub fn until(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_agree_and_never_go_back() {
        let clock = Clock::new();
        let copy = clock;
        let (first, second, third) = (clock.now(), copy.now(), clock.now());
        assert!(first.mono <= second.mono && second.mono <= third.mono && third.mono < 60_000);
        assert!(first.wall > Timestamp::from_secs(1_700_000_000));
    }

    #[test]
    fn a_gate_closes_by_itself() {
        let gate = Gate::default();
        assert!(!gate.is_open(), "nobody has opened it");
        gate.open_until(awake_or_not() + 60_000);
        assert!(gate.is_open());
        gate.open_until(awake_or_not());
        assert!(!gate.is_open());
    }
}
