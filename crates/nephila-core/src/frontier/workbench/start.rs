//! When requests start: hosts wait in their slots, slots stand in the timeline, and a slot whose rest is over issues a
//! ticket.
//!
//! Invariant: no ticket is issued before the slot and the host have both rested.

use std::cmp::Reverse;

use super::super::dates::ROBOTS_AHEAD_MAX;
use super::super::ticket::{Purpose, TicketId};
use super::slot_grants::Holding;
use super::{ActiveHost, HostIndex, Open, RobotsPhase, SlotIndex, Want, Workbench, ms};
use crate::planted::{self, Bug};
use crate::time::{Now, Seconds};

impl Workbench {
    /// Whether the host has work that a ticket could be issued for.
    pub(super) fn has_something(&self, host: &ActiveHost) -> bool {
        if host.leaving || host.no_address.is_some() {
            return false;
        }
        !host.errands.is_empty() || host.has_own()
    }

    /// Puts a host into the waiting list of its slot, at the moment its rest ends.
    pub(crate) fn wait(&mut self, index: HostIndex) {
        let host = self.host(index);
        let Some(slot) = host.slot else { return };
        let fetching = host.tickets.len() - host.released as usize;
        let free = fetching < self.settings.host_connections as usize;
        if !free || !self.has_something(host) || host.resolving {
            self.host_mut(index).waits_at = None;
            return;
        }
        let at = host.ready_at;
        if host.waits_at == Some(at) {
            return;
        }
        self.host_mut(index).waits_at = Some(at);
        self.slots[slot as usize].as_mut().expect("its slot").waiting.push(Reverse((at, index)));
        self.stand(slot);
    }

    /// Puts a slot into the timeline at its next possible start.
    pub(super) fn stand(&mut self, index: SlotIndex) {
        let slot = self.slots[index as usize].as_mut().expect("a slot");
        // Drop stale entries on top, so that the first host really waits.
        while let Some(&Reverse((at, host))) = slot.waiting.peek() {
            let real = self.hosts[host as usize]
                .as_ref()
                .is_some_and(|host| host.slot == Some(index) && host.waits_at == Some(at));
            if real {
                break;
            }
            slot.waiting.pop();
        }
        let first = slot.waiting.peek().map(|Reverse((at, _))| *at);
        let may_start = slot.open < slot.limit.connections;
        let at = match slot.turn {
            Holding::Free => first.filter(|_| may_start).map(|at| at.max(slot.free_at)),
            // The turn is requested as soon as a host of this node could use the turn.
            Holding::No => first,
            Holding::Asked => None,
            Holding::Held(turn) => {
                if turn.is_wanted() {
                    self.turns.look_at.insert((0, index));
                }
                first.filter(|_| may_start && !turn.is_used_up()).map(|at| at.max(slot.free_at))
            }
        };
        if at != slot.stands_at {
            if let Some(old) = slot.stands_at {
                self.timeline.remove(&(old, index));
            }
            slot.stands_at = at;
            if let Some(at) = at {
                self.timeline.insert((at, index));
            }
        }
    }

    /// The next action to perform now, or `None`.
    pub(crate) fn poll(&mut self, now: Now) -> Option<Want> {
        loop {
            while self.resolving < self.settings.resolves_open_max {
                let Some(index) = self.unresolved.pop_front() else { break };
                // The host may have left, and another host may have its number; that host has its own entry in the
                // list.
                let Some(host) = self.hosts[index as usize].as_mut() else { continue };
                if !std::mem::take(&mut host.unresolved) || host.resolving {
                    continue;
                }
                host.resolving = true;
                host.waits_at = None;
                self.resolving += 1;
                return Some(Want::Resolve(index));
            }
            if self.open.len() >= self.settings.tickets_open_max {
                return None;
            }
            let due = self.timeline.first().filter(|(at, _)| *at <= rested_by(now));
            let Some(&(_, slot)) = due else {
                self.caught_up = Some(now.mono);
                return None;
            };
            if self.ask_turn(slot) {
                continue;
            }
            if let Some((index, wait)) = self.out_of_hours(slot, now) {
                self.host_mut(index).out_of_hours = true;
                return Some(Want::Rest(index, wait));
            }
            // If no ticket results, the host's name has to be resolved again first.
            if let Some(ticket) = self.start(slot, now) {
                return Some(Want::Start(ticket));
            }
        }
    }

    /// Issues a ticket from a slot whose rest is over.
    fn start(&mut self, slot_index: SlotIndex, now: Now) -> Option<TicketId> {
        let mono = now.mono;
        let caught_up = *self.caught_up.get_or_insert(mono);
        let slot = self.slots[slot_index as usize].as_mut().expect("a slot in the timeline");
        let Reverse((at, index)) = slot.waiting.pop().expect("a slot in the timeline has a host");
        // The host may have left, moved or lost its work since the slot entered the timeline.
        let waits = |host: &&mut ActiveHost| host.slot == Some(slot_index) && host.waits_at == Some(at);
        let Some(host) = self.hosts[index as usize].as_mut().filter(waits) else {
            self.stand(slot_index);
            return None;
        };
        (host.waits_at, host.out_of_hours) = (None, false);
        // The address may have changed since; the name is resolved again before the visit continues.
        let stale = self.settings.resolve_after.as_millis() as u64;
        if host.address_dead || mono.saturating_sub(host.resolved_at) >= stale {
            self.want_resolve(index);
            self.stand(slot_index);
            return None;
        }
        let errand = host.take_errand();
        let wall = Seconds::from(now.wall);
        let in_force = wall.0.saturating_add(1)..=wall.plus(ROBOTS_AHEAD_MAX).0;
        if errand.is_none()
            && matches!(host.robots, RobotsPhase::Until(expires) if !in_force.contains(&expires.0))
        {
            host.robots = RobotsPhase::Wanted;
            if !host.tickets.is_empty() {
                // The host's other tickets end first; then the host comes here again.
                self.stand(slot_index);
                return None;
            }
        }
        let (purpose, head, second) = match host.robots {
            _ if errand.is_some() => {
                (Purpose::Robots, None, errand.as_ref().is_some_and(|errand| errand.second))
            }
            RobotsPhase::Wanted => {
                host.robots = RobotsPhase::Asked;
                (Purpose::Robots, None, std::mem::take(&mut host.robots_second))
            }
            _ => (Purpose::Page, host.heads.pop(), false),
        };
        let address = host.address.expect("a host in a slot has an address");
        let since = at.max(caught_up);
        let id = self.next_ticket;
        self.next_ticket = id.next();
        host.tickets.push(id);
        host.ready_at = host.ready_at.max(mono + u64::from(host.rest));
        let slot = self.slots[slot_index as usize].as_mut().expect("its slot");
        // Work that has come since the last look was due since then at the earliest.
        self.ready_wait.add(mono.saturating_sub(since.max(slot.free_at)));
        slot.open += 1;
        slot.last = slot.last.max(mono);
        slot.free_at = slot.free_at.max(mono + ms(slot.limit.delay));
        if let Holding::Held(turn) = &mut slot.turn {
            turn.handle_start();
        }
        let deadline = mono + self.settings.ticket_timeout.as_millis() as u64;
        self.deadlines.insert((deadline, id));
        let errand = errand.map(Box::new);
        self.open.insert(
            id,
            Open {
                host: index,
                slot: slot_index,
                address,
                purpose,
                head,
                errand,
                second,
                deadline,
                released: false,
            },
        );
        self.wait(index);
        self.stand(slot_index);
        Some(id)
    }
}

/// The clock that rests go by.
fn rested_by(now: Now) -> u64 {
    // A machine whose clock was right at the start, and was set since.
    if planted::is(Bug::RestByWallClock) { now.wall.0 % (1 << 40) } else { now.mono }
}
