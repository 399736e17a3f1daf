//! The workbench in a cluster: slots shared with other nodes, used by one node at a time.
//!
//! While slots are shared, no request starts on a slot without its **turn** (a slot grant). A node requests the turn
//! when one of its hosts could use the slot, and keeps the turn while no other node wants the slot. [`SlotGrant`]
//! decides how long a node keeps a wanted turn. Every request for a turn is answered once and never withdrawn: a turn
//! that comes too late is given back like any other.
//!
//! Invariants: a turn is given back only when no ticket is open on its slot; a slot whose turn is requested stays here
//! until the turn has come.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use super::super::settings::SlotLimit;
use super::super::slot::SlotKey;
use super::{SlotIndex, Workbench, ms};
use crate::frontier::slot_grant::{GrantVerdict, SlotGrant};
use crate::key::HostKey;

/// A message about a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotAction {
    /// Request the turn of a slot, then call [`Frontier::handle_granted`](super::super::Frontier::handle_granted).
    Ask(SlotKey),
    /// Give the turn of a slot back.
    GiveBack {
        /// The slot.
        slot: SlotKey,
        /// Milliseconds since a request last started or ended on the slot.
        rested: u64,
    },
}

/// Whether this node holds the turn of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holding {
    /// Slots are not shared: no turn is needed.
    Free,
    /// The turn is not held.
    No,
    /// The turn is requested.
    Asked,
    /// The turn is held.
    Held(SlotGrant),
}

impl Holding {
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Holding::Free | Holding::Held(_))
    }
}

/// Turns to request, to give back or to examine.
#[derive(Debug, Default)]
pub(super) struct SlotGrantDesk {
    /// Whether slots are shared with other nodes.
    shared: bool,
    actions: VecDeque<SlotAction>,
    /// Slots whose turn other nodes want, and when to examine whether to give the turn back. Each occurs a few times at
    /// most.
    pub(super) look_at: BTreeSet<(u64, SlotIndex)>,
}

impl SlotGrantDesk {
    /// The initial state of a new slot.
    pub(super) fn fresh(&self) -> Holding {
        if self.shared { Holding::No } else { Holding::Free }
    }

    pub(super) fn poll_timeout(&self) -> Option<u64> {
        if self.actions.is_empty() { self.look_at.first().map(|(at, _)| *at) } else { Some(0) }
    }
}

impl Workbench {
    /// From here on no request starts on a slot without its turn. Call before the first host is loaded.
    pub(crate) fn share_slots(&mut self) {
        debug_assert!(self.by_slot.is_empty(), "slots are shared from the beginning");
        self.turns.shared = true;
    }

    /// The slot of a host at this address, and the limits of the slot.
    pub(crate) fn slot_at(&self, host: &HostKey, address: IpAddr) -> (SlotKey, SlotLimit) {
        self.settings.slot(host, address, self.turns.shared)
    }

    /// Requests the turn of a slot whose rest is over, if the turn is missing.
    pub(super) fn ask_turn(&mut self, index: SlotIndex) -> bool {
        let slot = self.slots[index as usize].as_ref().expect("a slot in the timeline");
        if slot.turn != Holding::No {
            return false;
        }
        let stood_at = slot.stands_at;
        // The host that waited there may have left or moved: no turn is requested without need.
        self.stand(index);
        let slot = self.slots[index as usize].as_mut().expect("a slot in the timeline");
        if slot.stands_at == stood_at {
            slot.turn = Holding::Asked;
            self.turns.actions.push_back(SlotAction::Ask(slot.key));
            self.stand(index);
        }
        true
    }

    /// The turn of a slot was granted.
    pub(crate) fn granted(&mut self, key: SlotKey, rested: u64, wanted: bool, mono: u64) {
        let index = self.by_slot.get(&key).copied();
        let slot = index.and_then(|index| self.slots[index as usize].as_ref());
        let index = match (index, slot.map(|slot| slot.turn)) {
            (Some(index), Some(Holding::Asked)) => index,
            // The turn is held already, and may be in use.
            (_, Some(Holding::Held(_) | Holding::Free)) => return,
            // No slot here requested the turn: keeping the turn would lock out all other nodes for ever.
            _ => return self.turns.actions.push_back(SlotAction::GiveBack { slot: key, rested }),
        };
        let slot = self.slots[index as usize].as_mut().expect("a slot by its key");
        slot.turn = Holding::Held(SlotGrant::new(wanted));
        slot.last = slot.last.max(mono.saturating_sub(rested));
        slot.free_at = slot.free_at.max(mono + ms(slot.limit.delay).saturating_sub(rested));
        self.stand(index);
    }

    /// Another node waits for the turn of a slot.
    pub(crate) fn turn_wanted(&mut self, key: SlotKey) {
        let Some(&index) = self.by_slot.get(&key) else { return };
        let slot = self.slots[index as usize].as_mut().expect("a slot by its key");
        if let Holding::Held(turn) = &mut slot.turn {
            turn.handle_wanted();
            self.stand(index);
        }
    }

    /// The next message about turns, or `None`.
    pub(crate) fn poll_turn(&mut self, mono: u64) -> Option<SlotAction> {
        while self.turns.look_at.first().is_some_and(|(at, _)| *at <= mono) {
            let (_, index) = self.turns.look_at.pop_first().expect("just seen");
            if self.slots.get(index as usize).is_none_or(Option::is_none) {
                continue;
            }
            // Drops stale hosts on top of the waiting list.
            self.stand(index);
            self.turns.look_at.remove(&(0, index));
            let slot = self.slots[index as usize].as_ref().expect("looked at above");
            let Holding::Held(turn) = slot.turn else { continue };
            let ready_at = slot.waiting.peek().map(|Reverse((at, _))| *at);
            match turn.judge(slot.open, slot.free_at, ready_at, mono) {
                GrantVerdict::Keep => {}
                GrantVerdict::KeepUntil(at) => _ = self.turns.look_at.insert((at, index)),
                GrantVerdict::GiveBack => {
                    self.give_up_turn(index, mono);
                    self.stand(index);
                }
            }
        }
        self.turns.actions.pop_front()
    }

    /// Gives the turn of a slot back, if this node holds the turn.
    pub(super) fn give_up_turn(&mut self, index: SlotIndex, mono: u64) {
        let slot = self.slots[index as usize].as_mut().expect("a slot");
        if let Holding::Held(_) = slot.turn {
            debug_assert_eq!(slot.open, 0, "a turn is given back when nothing is open");
            slot.turn = Holding::No;
            let rested = mono.saturating_sub(slot.last);
            self.turns.actions.push_back(SlotAction::GiveBack { slot: slot.key, rested });
        }
    }
}
