//! When a fetch is over: host and address rest, and may be asked again.

use super::{HostIndex, Open, SlotIndex, Workbench};
use crate::frontier::ticket::TicketId;
use crate::planted::{self, Bug};

impl Workbench {
    /// The fetch of a ticket is over and its report will follow: host and slot rest from now and may then be asked again.
    /// False if it is not open, or was released before.
    pub(crate) fn release(&mut self, id: TicketId, took_ms: u64, mono: u64) -> bool {
        let Some(open) = self.open.get_mut(&id).filter(|open| !open.released) else { return false };
        open.released = true;
        let (host, slot) = (open.host, open.slot);
        self.host_mut(host).released += 1;
        self.rest(host, slot, took_ms, mono);
        true
    }

    /// A ticket was given back, or taken back: host and slot rest from now, if they do not yet. None if it is not open,
    /// which is what a second or a late report finds.
    pub(crate) fn close(&mut self, id: TicketId, took_ms: u64, mono: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.deadlines.remove(&(open.deadline, id));
        self.errands -= usize::from(open.errand.is_some());
        let host = self.host_mut(open.host);
        host.tickets.retain(|ticket| *ticket != id);
        if open.released {
            host.released -= 1;
            // It may have waited for its last ticket to end.
            self.wait(open.host);
        } else {
            let ready_at = self.host(open.host).ready_at;
            self.rest(open.host, open.slot, took_ms, mono);
            if open.errand.is_some() && planted::is(Bug::ErrandWithoutRest) {
                let host = self.host_mut(open.host);
                (host.ready_at, host.waits_at) = (ready_at, None);
                self.wait(open.host);
            }
        }
        Some(open)
    }

    /// A fetch that took this long is over.
    fn rest(&mut self, index: HostIndex, slot_index: SlotIndex, took_ms: u64, mono: u64) {
        let rest = self.rest_of(self.host(index), took_ms);
        let host = self.host_mut(index);
        host.rest = rest;
        host.ready_at = host.ready_at.max(mono + u64::from(rest));
        host.waits_at = None;
        let slot = self.slots[slot_index as usize].as_mut().expect("a slot with a ticket stays");
        slot.open -= 1;
        slot.last = slot.last.max(mono);
        slot.free_at = slot.free_at.max(mono + super::ms(slot.limit.delay));
        self.wait(index);
        self.stand(slot_index);
    }
}
