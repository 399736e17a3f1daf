//! The clocks of this machine: the one place that asks the time for the frontier.
//!
//! What always holds: `mono` never goes back, whatever is done to the time of day.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nephila_core::time::{Now, Timestamp};

/// Both clocks. Copies agree with each other.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
}

impl Clock {
    /// Begins to count.
    pub fn new() -> Clock {
        Clock { began: Instant::now() }
    }

    /// Both clocks now. `mono` stands still while the machine sleeps: a rest then lasts longer for the site, never
    /// shorter.
    pub fn now(&self) -> Now {
        let mono = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        // A machine without a battery may believe that it is 1970; nothing before that can be written down.
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Now { mono, wall: Timestamp(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)) }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::new()
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
}
