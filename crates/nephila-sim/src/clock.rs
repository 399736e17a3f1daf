//! Time in the world: one clock shared by all, a monotonic clock of each process, and a wall clock that can be set.

use nephila_core::time::{Now, Seconds, Timestamp};

/// Wall clock time when the world begins, in milliseconds since 1970: in 2039. A multiple of 2^40, so that the
/// remainder modulo 2^40 is the age of the world.
const WALL_BEGAN: u64 = 1 << 41;

/// The clocks.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// Milliseconds since the world began. Checkers use this time; nothing inside the world sees it.
    pub t: u64,
    /// When the process began.
    pub process_began: u64,
    /// Reading of the process's monotonic clock at that moment.
    pub process_first: u64,
    ahead: i64,
    /// Each time the wall clock was set: when, its reading before, and how far ahead the clock was.
    set: Vec<(u64, u64, i64)>,
}

impl Clock {
    /// A clock in the world's first life, this long after the world began.
    pub fn at(t: u64) -> Clock {
        Clock { t, ..Clock::default() }
    }

    /// Both clocks as the process reads them.
    pub fn now(&self) -> Now {
        Now { mono: self.t - self.process_began + self.process_first, wall: Timestamp(self.wall()) }
    }

    /// The reading of the wall clock, in milliseconds.
    pub fn wall(&self) -> u64 {
        (WALL_BEGAN + self.t).saturating_add_signed(self.ahead)
    }

    /// The reading of the wall clock in whole seconds, as in records.
    pub fn wall_seconds(&self) -> u32 {
        Seconds::from(Timestamp(self.wall())).0
    }

    /// The time in the world at which the process's clock reads `mono`.
    pub fn t_of(&self, mono: u64) -> u64 {
        (mono + self.process_began).saturating_sub(self.process_first)
    }

    /// Sets the wall clock forward or back.
    pub fn set_wall(&mut self, by: i64) {
        self.set.push((self.t, self.wall(), self.ahead));
        self.ahead += by;
    }

    /// The latest reading of the wall clock since this time.
    pub fn wall_max_since(&self, t: u64) -> u64 {
        let before = self.set.iter().rev().take_while(|(at, ..)| *at >= t).map(|(_, wall, _)| *wall);
        before.max().unwrap_or(0).max(self.wall())
    }
}

impl Clock {
    /// The reading that the wall clock would have now if nothing had set the clock since the moment, after this time,
    /// when the clock was furthest ahead. A process that read the clock then and has counted on its own since believes
    /// this time.
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
