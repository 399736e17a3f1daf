//! The frontier of a node in a cluster: slots are shared, and one node at a time uses a slot.
//!
//! [`Slots`](crate::cluster::slots::Slots) decides which node has the turn; the driver of the frontier carries the
//! messages between the two. A frontier on a single machine needs no turns.

use super::Frontier;
use super::slot::SlotKey;
use super::workbench::SlotAction;
use crate::time::Now;

impl<S> Frontier<S> {
    /// From here on no request starts on an address without its turn: poll [`Frontier::poll_turn`]. Call this method
    /// before anything else.
    pub fn share_slots(&mut self) {
        self.bench.share_slots();
    }

    /// The next message about turns, or `None` if there is none before [`Frontier::poll_timeout`]. Poll this method
    /// even while not polling for actions: another node may need a turn that is unused here.
    pub fn poll_turn(&mut self, now: Now) -> Option<SlotAction> {
        self.bench.poll_turn(now.mono)
    }

    /// The turn of a slot was granted. `rested` is the number of milliseconds since the last request there; `wanted`
    /// says whether other nodes wait for the turn.
    pub fn handle_granted(&mut self, slot: SlotKey, rested: u64, wanted: bool, now: Now) {
        self.bench.granted(slot, rested, wanted, now.mono);
    }

    /// Another node waits for a turn that this node holds.
    pub fn handle_wanted(&mut self, slot: SlotKey) {
        self.bench.turn_wanted(slot);
    }
}
