//! The frontier of a node among others: slots are shared, and each is asked by one node at a time.
//!
//! Which node that is decides [`Slots`](crate::cluster::slots::Slots); whoever runs the frontier carries the words between
//! the two. A frontier of one machine alone knows nothing of turns.

use super::Frontier;
use super::slot::SlotKey;
use super::workbench::TurnAction;
use crate::time::Now;

impl<S> Frontier<S> {
    /// From here on nothing starts on an address without its turn: poll [`Frontier::poll_turn`]. To be called before
    /// anything else.
    pub fn share_slots(&mut self) {
        self.bench.share_slots();
    }

    /// What is to be said about turns now; none if nothing is before [`Frontier::poll_timeout`]. To be polled also while
    /// no action is: a turn that cannot be used is another's.
    pub fn poll_turn(&mut self, now: Now) -> Option<TurnAction> {
        self.bench.poll_turn(now.mono)
    }

    /// The turn of a slot that was asked for is ours. Nothing has happened there for so long, in milliseconds; others wait
    /// for it, or nobody does.
    pub fn handle_granted(&mut self, slot: SlotKey, rested: u64, wanted: bool, now: Now) {
        self.bench.granted(slot, rested, wanted, now.mono);
    }

    /// Another node waits for a turn that is ours.
    pub fn handle_wanted(&mut self, slot: SlotKey) {
        self.bench.turn_wanted(slot);
    }
}
