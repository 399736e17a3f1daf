//! The workbench: the hosts loaded in memory, their slots (addresses), and the order in which requests may start. The
//! rate limits are enforced here.
//!
//! A host that is activated first learns its **slot** (its name is resolved). Then the host gets URLs and waits in its
//! slot until the host has rested. The timeline holds each slot at the moment when the slot and the first of its hosts
//! have both rested. Taking a ticket makes host and slot busy; closing the ticket makes both rest. A host that leaves
//! the workbench before its rest is over is remembered until then, so that unloading never shortens a rest.
//!
//! All times are milliseconds on a monotonic clock: setting the machine's clock changes no rest.
//!
//! In a cluster, hosts of other nodes may have the same address; then a slot also needs its turn: see [`slot_grants`].
//!
//! A host may also be requested on behalf of another host, whose robots.txt redirects there: see [`errands`].
//!
//! Invariants: never more open tickets on a host or slot than allowed; no ticket starts less than the rest after
//! another started or ended, on the host and on the slot.

mod addresses;
mod errands;
mod host;
mod look;
mod over;
mod rests;
mod slot_grants;
mod start;
mod waits;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::net::IpAddr;

use super::heads::{Head, Heads};
use super::settings::{Settings, SlotLimit};
use super::slot::SlotKey;
use super::ticket::{Purpose, TicketId};
use crate::histogram::Durations;
use crate::key::{DomainKey, HostKey, Prefixes};
use crate::planted::{self, Bug};
use crate::spider::outcome::Outcome;

pub(crate) use errands::{Asker, Errand};
pub(crate) use host::{ActiveHost, RobotsPhase};
use rests::Rest;
pub use slot_grants::SlotAction;
use slot_grants::{Holding, SlotGrantDesk};
pub(crate) use waits::HostLeft;

/// The number of a host on the workbench; reused after the host has left.
pub(crate) type HostIndex = u32;
/// The number of a slot on the workbench.
type SlotIndex = u32;

#[derive(Debug)]
struct Slot {
    key: SlotKey,
    limit: SlotLimit,
    open: u32,
    free_at: u64,
    /// When a request last started or ended here, or may have.
    last: u64,
    /// Whether requests may start at all.
    turn: Holding,
    /// Hosts by the moment their rest ends; stale entries are dropped when they reach the top.
    waiting: BinaryHeap<Reverse<(u64, HostIndex)>>,
    /// Number of hosts in this slot.
    hosts: u32,
    /// The slot's moment in the timeline.
    stands_at: Option<u64>,
}

/// An open ticket.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) host: HostIndex,
    slot: SlotIndex,
    /// The address to connect to.
    pub(crate) address: IpAddr,
    pub(crate) purpose: Purpose,
    /// The URL, for a page.
    pub(crate) head: Option<Head>,
    /// The errand, if the request is made on behalf of another host.
    pub(crate) errand: Option<Box<Errand>>,
    /// Whether this is the second try of a robots.txt.
    pub(crate) second: bool,
    deadline: u64,
    /// Whether the fetch is over. Host and slot are then free.
    released: bool,
}

/// The next action that the workbench needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// Resolve this host's name.
    Resolve(HostIndex),
    /// Start this ticket now.
    Start(TicketId),
    /// The host is outside of its hours and rests for this number of milliseconds.
    Rest(HostIndex, u64),
}

/// The hosts loaded in memory and their slots.
#[derive(Debug)]
pub(crate) struct Workbench {
    settings: Settings,
    hosts: Vec<Option<ActiveHost>>,
    hosts_free: Vec<HostIndex>,
    by_key: BTreeMap<HostKey, HostIndex>,
    by_domain: BTreeMap<DomainKey, u32>,
    slots: Vec<Option<Slot>>,
    slots_free: Vec<SlotIndex>,
    by_slot: BTreeMap<SlotKey, SlotIndex>,
    timeline: BTreeSet<(u64, SlotIndex)>,
    unresolved: VecDeque<HostIndex>,
    resolving: usize,
    open: BTreeMap<TicketId, Open>,
    deadlines: BTreeSet<(u64, TicketId)>,
    next_ticket: TicketId,
    /// Hosts that left before their rest was over, and when the rest ends.
    resting: BTreeMap<HostKey, Rest>,
    /// Number of guests: hosts loaded for errands alone.
    guests: usize,
    /// Errands that wait or have a ticket.
    errands: usize,
    /// Requests before this moment are unknown: everything rests from here.
    began: Option<u64>,
    /// Turns of slots shared with other nodes.
    turns: SlotGrantDesk,
    /// When every start that was due had been taken; before that, when the first was asked for.
    caught_up: Option<u64>,
    /// How long starts waited after they were due.
    ready_wait: Durations,
}

impl Workbench {
    /// An empty workbench, as if nothing was ever fetched before: see [`Workbench::rest_all`].
    pub(crate) fn new(settings: Settings, epoch: u64) -> Self {
        Workbench {
            settings,
            hosts: Vec::new(),
            hosts_free: Vec::new(),
            by_key: BTreeMap::new(),
            by_domain: BTreeMap::new(),
            slots: Vec::new(),
            slots_free: Vec::new(),
            by_slot: BTreeMap::new(),
            timeline: BTreeSet::new(),
            unresolved: VecDeque::new(),
            resolving: 0,
            open: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_ticket: TicketId::first(epoch).next(),
            resting: BTreeMap::new(),
            guests: 0,
            errands: 0,
            began: None,
            turns: SlotGrantDesk::default(),
            caught_up: None,
            ready_wait: Durations::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(crate) fn open_tickets(&self) -> usize {
        self.open.len()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.len() - self.guests < self.settings.hosts_active_max
    }

    /// Whether another host of this domain may be loaded.
    pub(crate) fn has_room_for(&self, domain: DomainKey) -> bool {
        self.has_room() && !self.is_crowded(domain)
    }

    /// Whether this domain has its maximum of hosts loaded.
    pub(crate) fn is_crowded(&self, domain: DomainKey) -> bool {
        let of_domain = self.by_domain.get(&domain).copied().unwrap_or(0);
        of_domain as usize >= self.settings.domain_hosts_active_max
    }

    pub(crate) fn index(&self, key: &HostKey) -> Option<HostIndex> {
        self.by_key.get(key).copied()
    }

    pub(crate) fn host(&self, index: HostIndex) -> &ActiveHost {
        self.hosts[index as usize].as_ref().expect("a host on the bench")
    }

    pub(crate) fn host_mut(&mut self, index: HostIndex) -> &mut ActiveHost {
        self.hosts[index as usize].as_mut().expect("a host on the bench")
    }

    pub(crate) fn slot_of(&self, index: HostIndex) -> Option<SlotKey> {
        let slot = self.host(index).slot?;
        self.slots[slot as usize].as_ref().map(|slot| slot.key)
    }

    /// When the rests of a host and its slot are over.
    pub(crate) fn ready_at(&self, index: HostIndex) -> u64 {
        let host = self.host(index);
        let slot = host.slot.and_then(|slot| self.slots[slot as usize].as_ref());
        host.ready_at.max(slot.map_or(0, |slot| slot.free_at))
    }

    /// Every host that is loaded from here on rests as if a request had just ended.
    pub(crate) fn rest_all(&mut self, mono: u64) {
        self.began = Some(mono);
    }

    /// Whether a host of these prefixes is loaded.
    pub(crate) fn has_any(&self, prefixes: Prefixes) -> bool {
        let first = HostKey { domain: prefixes.first_domain(), host: 0 };
        let last = HostKey { domain: prefixes.last_domain(), host: u32::MAX };
        self.by_key.range(first..=last).next().is_some()
    }

    /// Loads a host. Its rest counts from the start of the process, as if a request had ended then.
    pub(crate) fn activate(&mut self, mut host: ActiveHost, rest_until: u64) -> HostIndex {
        debug_assert!(!self.by_key.contains_key(&host.key), "a host is activated once");
        host.rest = self.rest_of(&host, 0);
        host.ready_at = rest_until.max(self.resting.remove(&host.key).map_or(0, |rest| rest.until));
        if let Some(began) = self.began {
            host.ready_at = host.ready_at.max(began + u64::from(host.rest));
        }
        let (key, guest) = (host.key, host.guest);
        let index = match self.hosts_free.pop() {
            Some(index) => {
                self.hosts[index as usize] = Some(host);
                index
            }
            None => {
                grow(&mut self.hosts);
                self.hosts.push(Some(host));
                (self.hosts.len() - 1) as HostIndex
            }
        };
        self.by_key.insert(key, index);
        match guest {
            true => self.guests += 1,
            false => *self.by_domain.entry(key.domain).or_default() += 1,
        }
        self.unresolved.push_back(index);
        index
    }

    /// Whether a host may be unloaded. Not while a request, an errand or an entry of the host is under way.
    pub(crate) fn may_leave(&self, index: HostIndex) -> bool {
        let host = self.host(index);
        host.tickets.is_empty()
            && host.heads.is_empty()
            && host.unfolded.is_empty()
            && host.errands.is_empty()
            && host.robots != RobotsPhase::Asked
            && !host.resolving
    }

    /// Unloads a host.
    pub(crate) fn leave(&mut self, index: HostIndex, mono: u64) {
        debug_assert!(self.may_leave(index), "nothing of a host that leaves is under way");
        let host = self.hosts[index as usize].take().expect("a host on the bench");
        self.hosts_free.push(index);
        self.by_key.remove(&host.key);
        if host.ready_at > mono {
            let long = host.ready_at > mono + super::REST_ON_BENCH;
            self.resting.insert(host.key, Rest { until: host.ready_at, long, hours: host.out_of_hours });
        }
        if host.guest {
            self.guests -= 1;
        } else {
            let of_domain = self.by_domain.get_mut(&host.key.domain).expect("counted when it came");
            *of_domain -= 1;
            if *of_domain == 0 {
                self.by_domain.remove(&host.key.domain);
            }
        }
        if let Some(slot) = host.slot {
            self.leave_slot(slot, mono);
        }
    }

    fn leave_slot(&mut self, index: SlotIndex, mono: u64) {
        let slot = self.slots[index as usize].as_mut().expect("a slot with a host");
        slot.hosts -= 1;
        // A slot that still rests is kept: another name with this address may appear at any moment.
        let rested = slot.free_at <= mono || planted::is(Bug::SlotForgetsRest);
        if slot.hosts == 0 && slot.open == 0 && rested && slot.turn != Holding::Asked {
            self.forget_slot(index, mono);
        }
    }

    fn forget_slot(&mut self, index: SlotIndex, mono: u64) {
        self.give_up_turn(index, mono);
        let slot = self.slots[index as usize].take().expect("a slot");
        if let Some(at) = slot.stands_at {
            self.timeline.remove(&(at, index));
        }
        self.by_slot.remove(&slot.key);
        self.slots_free.push(index);
    }

    /// The address of a host is known, or has changed. Moving from one slot to another shortens no rest.
    pub(crate) fn resolved(&mut self, index: HostIndex, address: IpAddr, mono: u64) {
        let (key, limit) = self.slot_at(&self.host(index).key, address);
        let began = self.began;
        let turn = self.turns.fresh();
        let host = self.host_mut(index);
        if std::mem::take(&mut host.resolving) {
            self.resolving -= 1;
        }
        let host = self.host_mut(index);
        host.resolved_at = mono;
        (host.no_address, host.given_up) = (None, false);
        host.address = Some(address);
        host.address_dead = false;
        let old = host.slot;
        if old.is_some_and(|old| self.slots[old as usize].as_ref().is_some_and(|slot| slot.key == key)) {
            self.wait(index);
            return;
        }
        let slot = match self.by_slot.get(&key) {
            Some(&slot) => slot,
            None => {
                let (free_at, last) = began.map_or((0, 0), |began| (began + ms(limit.delay), began));
                let (waiting, stands_at) = (BinaryHeap::new(), None);
                let slot = Slot { key, limit, open: 0, free_at, last, turn, waiting, hosts: 0, stands_at };
                let slot_index = match self.slots_free.pop() {
                    Some(free) => {
                        self.slots[free as usize] = Some(slot);
                        free
                    }
                    None => {
                        grow(&mut self.slots);
                        self.slots.push(Some(slot));
                        (self.slots.len() - 1) as SlotIndex
                    }
                };
                self.by_slot.insert(key, slot_index);
                slot_index
            }
        };
        self.slots[slot as usize].as_mut().expect("made above").hosts += 1;
        let host = self.host_mut(index);
        host.slot = Some(slot);
        host.waits_at = None;
        if let Some(old) = old {
            self.leave_slot(old, mono);
        }
        self.wait(index);
    }

    /// The name of a host could not be resolved. The host stays here without an address and may try again, or leave, at
    /// `again_at`.
    pub(crate) fn unresolved(&mut self, index: HostIndex, outcome: Outcome, again_at: u64) {
        let host = self.host_mut(index);
        if std::mem::take(&mut host.resolving) {
            self.resolving -= 1;
        }
        let host = self.host_mut(index);
        host.ready_at = host.ready_at.max(again_at);
        host.no_address = Some(outcome);
        host.waits_at = None;
    }

    /// Whether a host with this number is loaded.
    pub(crate) fn is_here(&self, index: HostIndex) -> bool {
        self.hosts.get(index as usize).is_some_and(Option::is_some)
    }

    /// Unloads the URLs of a host; they are still in its queue.
    pub(crate) fn drop_heads(&mut self, index: HostIndex) {
        let (queue, later) = self.floors(index);
        let host = self.host_mut(index);
        let due = host.heads.all().into_iter().filter_map(|head| Some(head.place.later()?.due)).min();
        host.later_next = host.later_next.into_iter().chain(due).min();
        host.heads = Heads::default();
        host.cursor = host.cursor.min(queue);
        host.later_cursor = host.later_cursor.min(later);
        host.waits_at = None;
        self.wait(index);
    }

    /// An open ticket, its deadline and its address.
    pub(crate) fn ticket(&self, id: TicketId) -> Option<(&Open, u64, IpAddr)> {
        let open = self.open.get(&id)?;
        Some((open, open.deadline, open.address))
    }

    /// Loads URLs for a host.
    pub(crate) fn fill(&mut self, index: HostIndex, heads: &[Head]) {
        let host = self.host_mut(index);
        debug_assert!(host.heads.is_empty(), "a host is filled when it is empty");
        host.heads = Heads::pack(heads);
        host.hungry = false;
        self.wait(index);
    }

    /// A ticket whose deadline has passed, if there is one.
    pub(crate) fn poll_expired(&mut self, mono: u64) -> Option<TicketId> {
        let &(deadline, id) = self.deadlines.first()?;
        (deadline <= mono && !planted::is(Bug::TicketsNeverExpire)).then_some(id)
    }

    /// The time of the next event of the workbench.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        let start = match self.open.len() < self.settings.tickets_open_max {
            true => self.timeline.first().map(|(at, _)| *at),
            false => None,
        };
        let expiry = self.deadlines.first().map(|(at, _)| *at);
        [start, expiry, self.turns.poll_timeout()].into_iter().flatten().min()
    }

    /// Requests that a host's name is resolved, or resolved again.
    pub(crate) fn want_resolve(&mut self, index: HostIndex) {
        let host = self.host_mut(index);
        if !host.resolving && !std::mem::replace(&mut host.unresolved, true) {
            self.unresolved.push_back(index);
        }
    }
}

fn ms(duration: std::time::Duration) -> u64 {
    duration.as_millis() as u64
}

/// Grows a list by an eighth: doubling would leave half of a workbench empty.
fn grow<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact(4 + list.len() / 8);
    }
}
