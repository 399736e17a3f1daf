//! A turn as whoever has it goes by it: how long it is kept.
//!
//! A turn that nobody else wants is kept for as long as it is of use. One that is wanted ends after [`BLOCK`] starts, or as
//! soon as its holder would let the slot lie idle.
//!
//! What always holds: a turn ends only when nothing is open on its slot; nobody sits on a turn that another wants for
//! longer than [`IDLE_MAX`].

/// Starts of one turn, if another node waits for it.
pub const BLOCK: u32 = 20;
/// A slot that others want and that has rested is used within this time, in milliseconds, or given back.
pub const IDLE_MAX: u64 = 1_000;

/// A turn that we have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    starts: u32,
    wanted: bool,
}

/// What is to be done with a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Keep it.
    Keep,
    /// Keep it, and ask again at this moment.
    KeepUntil(u64),
    /// Give it back.
    GiveBack,
}

impl Turn {
    /// A turn that has just been granted.
    pub fn new(wanted: bool) -> Turn {
        Turn { starts: 0, wanted }
    }

    /// Somebody else waits for it.
    pub fn handle_wanted(&mut self) {
        self.wanted = true;
    }

    /// Something was started under it.
    pub fn handle_start(&mut self) {
        self.starts = self.starts.saturating_add(1);
    }

    /// Does somebody else wait for it?
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// May nothing be started under it any more?
    pub fn is_used_up(&self) -> bool {
        self.wanted && self.starts >= BLOCK
    }

    /// What to do with it: `open` fetches are under way, the slot has rested at `free_at`, and the first of our hosts has at
    /// `ready_at`, if there is one.
    pub fn judge(&self, open: u32, free_at: u64, ready_at: Option<u64>, now: u64) -> Verdict {
        if !self.wanted || open > 0 {
            return Verdict::Keep;
        }
        let Some(ready_at) = ready_at.filter(|_| !self.is_used_up()) else { return Verdict::GiveBack };
        let start_at = ready_at.max(free_at);
        // It would lie idle for our sake.
        if ready_at > free_at.max(now) || now >= start_at + IDLE_MAX {
            return Verdict::GiveBack;
        }
        Verdict::KeepUntil(start_at + IDLE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_nobody_wants_is_kept_for_ever() {
        let mut turn = Turn::new(false);
        (0..1_000).for_each(|_| turn.handle_start());
        assert_eq!(turn.judge(0, 0, None, 1_000_000), Verdict::Keep);
        turn.handle_wanted();
        assert!(turn.is_used_up());
        assert_eq!(turn.judge(1, 0, Some(0), 1_000_000), Verdict::Keep);
        assert_eq!(turn.judge(0, 0, Some(0), 1_000_000), Verdict::GiveBack);
    }

    #[test]
    fn a_wanted_turn_is_given_back_rather_than_lie_idle() {
        let turn = Turn::new(true);
        assert_eq!(turn.judge(0, 500, Some(400), 100), Verdict::KeepUntil(500 + IDLE_MAX));
        assert_eq!(turn.judge(0, 500, Some(501), 100), Verdict::GiveBack);
        assert_eq!(turn.judge(0, 500, None, 100), Verdict::GiveBack);
        // Ready long ago and never started: something else holds us up.
        assert_eq!(turn.judge(0, 500, Some(400), 500 + IDLE_MAX), Verdict::GiveBack);
        assert_eq!(turn.judge(0, 500, Some(900), 900), Verdict::KeepUntil(900 + IDLE_MAX));
    }

    #[test]
    fn a_wanted_turn_has_so_many_starts_and_no_more() {
        let mut turn = Turn::new(true);
        for _ in 0..BLOCK {
            assert!(!turn.is_used_up());
            turn.handle_start();
        }
        assert!(turn.is_used_up());
    }
}
