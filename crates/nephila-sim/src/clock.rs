//! Time in the world: one clock that everybody shares, one of each process, and one on the wall that can be set.

use nephila_core::time::{Now, Seconds, Timestamp};

/// What the clock on the wall shows when the world begins, in milliseconds since 1970: in 2039. A multiple of 2^40, so
/// that what is left of it modulo that is the age of the world.
const WALL_BEGAN: u64 = 1 << 41;

/// The clocks.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Milliseconds since the world began. Checkers go by it; nobody inside sees it.
    pub t: u64,
    /// When the process began.
    pub process_began: u64,
    /// What the process's own clock showed then.
    pub process_first: u64,
    ahead: i64,
    /// Each time the wall clock was set: when, what it showed before, and how far ahead it was.
    set: Vec<(u64, u64, i64)>,
}

impl Clock {
    /// A clock in the world's first life, this long after it began.
    pub fn at(t: u64) -> Clock {
        Clock { t, ..Clock::default() }
    }

    /// What the process sees.
    pub fn now(&self) -> Now {
        Now { mono: self.t - self.process_began + self.process_first, wall: Timestamp(self.wall()) }
    }

    /// What the clock on the wall shows.
    pub fn wall(&self) -> u64 {
        (WALL_BEGAN + self.t).saturating_add_signed(self.ahead)
    }

    /// The same in whole seconds, as records have it.
    pub fn wall_seconds(&self) -> u32 {
        Seconds::from(Timestamp(self.wall())).0
    }

    /// When the process's clock shows this.
    pub fn t_of(&self, mono: u64) -> u64 {
        (mono + self.process_began).saturating_sub(self.process_first)
    }

    /// Somebody sets the clock on the wall.
    pub fn set_wall(&mut self, by: i64) {
        self.set.push((self.t, self.wall(), self.ahead));
        self.ahead += by;
    }

    /// The latest that the wall showed since then.
    pub fn wall_max_since(&self, t: u64) -> u64 {
        let before = self.set.iter().rev().take_while(|(at, ..)| *at >= t).map(|(_, wall, _)| *wall);
        before.max().unwrap_or(0).max(self.wall())
    }
}

impl Clock {
    /// What the wall would show now, had nobody set it since the moment after this one when it was furthest ahead: what
    /// somebody who looked at it then, and counts by himself since, believes it to be.
    pub fn wall_believed_since(&self, t: u64) -> u64 {
        let before = self.set.iter().rev().take_while(|(at, ..)| *at >= t).map(|(.., ahead)| *ahead);
        let ahead = before.max().unwrap_or(self.ahead).max(self.ahead);
        (WALL_BEGAN + self.t).saturating_add_signed(ahead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_time_on_the_wall_is_remembered_when_it_is_set_back() {
        let mut clock = Clock::at(1_000);
        clock.set_wall(-900);
        clock.t = 1_100;
        assert_eq!(clock.wall(), WALL_BEGAN + 200);
        assert_eq!(clock.wall_max_since(500), WALL_BEGAN + 1_000);
        assert_eq!(clock.wall_max_since(1_050), WALL_BEGAN + 200);
        assert_eq!(clock.wall_believed_since(500), WALL_BEGAN + 1_100);
        assert_eq!(clock.wall_believed_since(1_050), WALL_BEGAN + 200);
    }
}
