//! A turn from the holder's side: how long the holder keeps the turn.
//!
//! The holder keeps a turn as long as no other node wants the turn. A wanted turn ends after [`BLOCK`] starts, or as
//! soon as its holder would let the slot lie idle.
//!
//! Invariants: a turn ends only when no fetch is open on its slot; no node keeps a wanted turn unused for longer than
//! [`IDLE_MAX`].

/// Maximum number of starts of one turn, if another node waits for the turn.
pub const BLOCK: u32 = 20;
/// A wanted slot that has rested is used within this time, in milliseconds, or given back.
pub const IDLE_MAX: u64 = 1_000;

/// A turn that we have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotGrant {
    starts: u32,
    wanted: bool,
}

/// The decision about a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantVerdict {
    /// Keep the turn.
    Keep,
    /// Keep the turn, and judge again at this moment.
    KeepUntil(u64),
    /// Give the turn back.
    GiveBack,
}

impl SlotGrant {
    /// A turn that has just been granted.
    pub fn new(wanted: bool) -> SlotGrant {
        SlotGrant { starts: 0, wanted }
    }

    /// Another node waits for the turn.
    pub fn handle_wanted(&mut self) {
        self.wanted = true;
    }

    /// A fetch was started under the turn.
    pub fn handle_start(&mut self) {
        self.starts = self.starts.saturating_add(1);
    }

    /// Whether another node waits for the turn.
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Whether no more fetches may be started under the turn.
    pub fn is_used_up(&self) -> bool {
        self.wanted && self.starts >= BLOCK
    }

    /// Decides about the turn: `open` fetches are under way, the slot has rested at `free_at`, and the first of our
    /// hosts has at `ready_at`, if there is one.
    pub fn judge(&self, open: u32, free_at: u64, ready_at: Option<u64>, now: u64) -> GrantVerdict {
        if !self.wanted || open > 0 {
            return GrantVerdict::Keep;
        }
        let Some(ready_at) = ready_at.filter(|_| !self.is_used_up()) else { return GrantVerdict::GiveBack };
        let start_at = ready_at.max(free_at);
        // The slot would lie idle for our sake.
        if ready_at > free_at.max(now) || now >= start_at + IDLE_MAX {
            return GrantVerdict::GiveBack;
        }
        GrantVerdict::KeepUntil(start_at + IDLE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_that_nobody_wants_is_kept_for_ever() {
        let mut turn = SlotGrant::new(false);
        (0..1_000).for_each(|_| turn.handle_start());
        assert_eq!(turn.judge(0, 0, None, 1_000_000), GrantVerdict::Keep);
        turn.handle_wanted();
        assert!(turn.is_used_up());
        assert_eq!(turn.judge(1, 0, Some(0), 1_000_000), GrantVerdict::Keep);
        assert_eq!(turn.judge(0, 0, Some(0), 1_000_000), GrantVerdict::GiveBack);
    }

    #[test]
    fn a_wanted_turn_is_given_back_rather_than_lie_idle() {
        let turn = SlotGrant::new(true);
        assert_eq!(turn.judge(0, 500, Some(400), 100), GrantVerdict::KeepUntil(500 + IDLE_MAX));
        assert_eq!(turn.judge(0, 500, Some(501), 100), GrantVerdict::GiveBack);
        assert_eq!(turn.judge(0, 500, None, 100), GrantVerdict::GiveBack);
        // Ready long ago and never started: something else holds us up.
        assert_eq!(turn.judge(0, 500, Some(400), 500 + IDLE_MAX), GrantVerdict::GiveBack);
        assert_eq!(turn.judge(0, 500, Some(900), 900), GrantVerdict::KeepUntil(900 + IDLE_MAX));
    }

    #[test]
    fn a_wanted_turn_has_so_many_starts_and_no_more() {
        let mut turn = SlotGrant::new(true);
        for _ in 0..BLOCK {
            assert!(!turn.is_used_up());
            turn.handle_start();
        }
        assert!(turn.is_used_up());
    }
}
