//! The end of a fetch: host and address rest, and are then free for the next request.

use super::{HostIndex, Open, SlotIndex, Workbench};
use crate::frontier::ticket::TicketId;
use crate::planted::{self, Bug};

impl Workbench {
    /// The fetch of a ticket is over and its report will follow: host and slot rest from now and are free afterwards.
    /// Returns `false` if the ticket is not open or was released before.
    pub(crate) fn release(&mut self, id: TicketId, took_ms: u64, mono: u64) -> bool {
        let Some(open) = self.open.get_mut(&id).filter(|open| !open.released) else { return false };
        open.released = true;
        let (host, slot) = (open.host, open.slot);
        self.host_mut(host).released += 1;
        self.rest(host, slot, took_ms, mono);
        true
    }

    /// Closes a ticket that was reported or has expired: host and slot rest from now, unless the ticket was released.
    /// Returns `None` if the ticket is not open: the report is late or a duplicate.
    pub(crate) fn close(&mut self, id: TicketId, took_ms: u64, mono: u64) -> Option<Open> {
        let open = self.open.remove(&id)?;
        self.deadlines.remove(&(open.deadline, id));
        self.errands -= usize::from(open.errand.is_some());
        let host = self.host_mut(open.host);
        host.tickets.retain(|ticket| *ticket != id);
        if open.released {
            host.released -= 1;
            // The host may have waited for its last ticket to end.
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

    /// Starts the rests after a fetch that took `took_ms`.
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
