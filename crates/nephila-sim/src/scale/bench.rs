//! The hosts of a node at one address, and the node's actions: ask for the turn, start fetches, give the turn back. A
//! model of the frontier's workbench, with the core's own [`SlotGrant`]s and
//! [`Slots`](nephila_core::cluster::slots::Slots).
//!
//! Invariants: hosts wait in the order in which they have rested; one fetch at a time is open at an address; an address
//! without hosts is given up.

use nephila_core::cluster::slots::Event as SlotEvent;
use nephila_core::frontier::slot_grant::{GrantVerdict, SlotGrant};

use super::super::Violation;
use super::web::{Class, HOST_REST, NONE, took};
use super::{Event, REQUESTS_PER_MISS, SAMPLED, Sim};

/// A node's work at a slot.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) node: u32,
    slot: u32,
    turn: Option<SlotGrant>,
    asked: bool,
    /// The host whose fetch is open.
    pub(super) open: u32,
    /// When something last started or ended there, as far as this node knows, and when the slot has rested.
    last: u64,
    free_at: u64,
    /// When to look next. Looks at other times are stale.
    look_at: u64,
    first: u32,
    end: u32,
}

impl Sim {
    /// A host of a partition that was just opened. The host rests first, since this node does not know the time of its
    /// last request.
    pub(super) fn attach(&mut self, node: u32, host: u32) {
        let slot = self.web.hosts[host as usize].slot;
        let work = self.web.work_of(slot, node).unwrap_or_else(|| {
            let work = self.works.put(Work {
                node,
                slot,
                turn: None,
                asked: false,
                open: NONE,
                last: 0,
                free_at: 0,
                look_at: 0,
                first: NONE,
                end: NONE,
            });
            self.web.slots[slot as usize].works.push((node, work));
            self.look_later(work, self.t + HOST_REST);
            work
        });
        self.wait(work, host);
    }

    /// Appends a host to its queue.
    fn wait(&mut self, work: u32, host: u32) {
        let this = &mut self.web.hosts[host as usize];
        (this.work, this.next, this.ready_at) = (work, NONE, self.t + HOST_REST);
        let here = self.works.at(work);
        match here.end {
            NONE => here.first = host,
            end => self.web.hosts[end as usize].next = host,
        }
        here.end = host;
    }

    /// Removes the waiting hosts of a partition from their queues.
    pub(super) fn detach(&mut self, partition: u32) {
        for host in self.web.of_partition[partition as usize].clone() {
            let work = self.web.hosts[host as usize].work;
            if work == NONE || self.works.at(work).open == host {
                continue;
            }
            self.web.hosts[host as usize].work = NONE;
            let here = self.works.at(work);
            let mut at = std::mem::replace(&mut here.first, NONE);
            here.end = NONE;
            let mut kept = Vec::new();
            while at != NONE {
                kept.extend((at != host).then_some(at));
                at = self.web.hosts[at as usize].next;
            }
            for pair in kept.windows(2) {
                self.web.hosts[pair[0] as usize].next = pair[1];
            }
            if let (Some(first), Some(last)) = (kept.first(), kept.last()) {
                self.web.hosts[*last as usize].next = NONE;
                let here = self.works.at(work);
                (here.first, here.end) = (*first, *last);
            }
            self.look_later(work, self.t);
        }
    }

    /// Stops everything of a node at once. Returns the fetches that were open.
    pub(super) fn stop_works(&mut self, node: u32) -> u64 {
        let mut cut = 0;
        let mine: Vec<u32> =
            self.works.taken().filter(|(_, work)| work.node == node).map(|(at, _)| at).collect();
        for at in mine {
            let work = self.works.take(at);
            if work.open != NONE {
                cut += 1;
                self.web.end(self.t, work.open);
            }
            self.web.slots[work.slot as usize].works.retain(|(of, _)| *of != node);
        }
        cut
    }

    fn look_later(&mut self, work: u32, at: u64) {
        let here = self.works.at(work);
        if here.look_at != at || at <= self.t {
            here.look_at = at;
            self.calendar.push(at, Event::Look(work));
        }
    }

    /// Does everything that is due at a slot.
    pub(super) fn look(&mut self, work: u32, scheduled: bool) -> Result<(), Violation> {
        let t = self.t;
        let Some(&Work { node, slot, turn, asked, open, last, free_at, look_at, first, .. }) =
            self.works.get(work)
        else {
            return Ok(());
        };
        if open != NONE || scheduled && look_at != t {
            return Ok(());
        }
        let now = self.nodes[node as usize].now(t);
        let key = self.web.key(slot);
        if first == NONE {
            self.works.at(work).turn = None;
            if turn.is_some() {
                self.nodes[node as usize].slots().give_back(now, key, t - last);
            }
            if !asked {
                self.works.take(work);
                self.web.slots[slot as usize].works.retain(|(of, _)| *of != node);
            }
            self.note_wake(node);
            return Ok(());
        }
        let ready_at = self.web.hosts[first as usize].ready_at;
        if let Some(turn) = turn {
            let start_at = ready_at.max(free_at);
            if start_at <= t && !turn.is_used_up() {
                return self.start(work);
            }
            if turn.judge(0, free_at, Some(ready_at), t) != GrantVerdict::GiveBack {
                self.look_later(work, start_at);
                return Ok(());
            }
            self.works.at(work).turn = None;
            self.nodes[node as usize].slots().give_back(now, key, t - last);
            self.note_wake(node);
        }
        if ready_at > t {
            self.look_later(work, ready_at);
        } else if !asked {
            self.works.at(work).asked = true;
            self.nodes[node as usize].slots().ask(now, key);
            self.handle_slots(node);
        }
        Ok(())
    }

    fn start(&mut self, work: u32) -> Result<(), Violation> {
        let t = self.t;
        let here = self.works.at(work);
        let (node, host, slot) = (here.node, here.first, here.slot);
        here.first = self.web.hosts[host as usize].next;
        if here.first == NONE {
            here.end = NONE;
        }
        (here.open, here.last) = (host, t);
        here.turn.iter_mut().for_each(SlotGrant::handle_start);
        self.web.begin(t, host)?;
        let took = took(&mut self.rng);
        let this = &mut self.nodes[node as usize];
        let partition = self.web.hosts[host as usize].partition;
        this.meter.handle_fetch(partition);
        this.fetches += 1;
        self.calendar.push(t + took, Event::End { host, node, life: this.life });
        let slot = &self.web.slots[slot as usize];
        let (class, rest, shared) = (slot.class, slot.rest, slot.works.len() > 1);
        self.tally.fetches += 1;
        self.tally.shared += u64::from(shared);
        self.second().1 += u64::from(shared);
        self.trace.update(&(t << 32 | u64::from(host)).to_le_bytes());
        match class {
            Class::Mid => self.tally.used_mid += took + rest,
            Class::Big => self.tally.used_big += took + rest,
            Class::Single | Class::Fleet => {}
        }
        let partition = &mut self.partitions[partition as usize];
        partition.open += 1;
        if let Some(killed) = partition.killed_at.take() {
            self.take_overs.push(t - killed);
        }
        Ok(())
    }

    /// A fetch has ended.
    pub(super) fn handle_end(&mut self, host: u32, node: u32, life: u32) -> Result<(), Violation> {
        if self.nodes[node as usize].life != life {
            return Ok(());
        }
        let t = self.t;
        self.web.end(t, host);
        let work = self.web.hosts[host as usize].work;
        let here = self.works.at(work);
        let rest = self.web.slots[here.slot as usize].rest;
        (here.open, here.last, here.free_at) = (NONE, t, t + rest);
        let number = self.web.hosts[host as usize].partition;
        let partition = &mut self.partitions[number as usize];
        partition.open -= 1;
        if partition.draining.is_some() {
            self.web.hosts[host as usize].work = NONE;
        } else {
            self.wait(work, host);
        }
        self.write(number);
        if !self.rng.one_in(REQUESTS_PER_MISS) {
            self.tally.pages += 1;
            if node == SAMPLED {
                self.links.read(t);
            }
        }
        self.drained_if_done(number);
        self.look(work, false)
    }

    /// Carries the events of a node's [`Slots`](nephila_core::cluster::slots::Slots) to its works.
    pub(super) fn handle_slots(&mut self, node: u32) {
        while let Some(event) = self.nodes[node as usize].slots().poll_event() {
            let slot = match event {
                SlotEvent::Granted { slot, .. } | SlotEvent::Wanted { slot } => self.web.slot_of(slot),
            };
            let Some(work) = self.web.work_of(slot, node) else { continue };
            let (rest, shared) = {
                let slot = &self.web.slots[slot as usize];
                (slot.rest, slot.works.len() > 1)
            };
            let here = self.works.at(work);
            match event {
                SlotEvent::Granted { rested, wanted, .. } => {
                    self.tally.turns += u64::from(shared);
                    here.asked = false;
                    here.turn = Some(SlotGrant::new(wanted));
                    here.last = here.last.max(self.t.saturating_sub(rested));
                    here.free_at = here.free_at.max(self.t + rest.saturating_sub(rested));
                }
                SlotEvent::Wanted { .. } => here.turn.iter_mut().for_each(SlotGrant::handle_wanted),
            }
            if here.open == NONE {
                self.look_later(work, self.t);
            }
        }
        self.note_wake(node);
    }
}
