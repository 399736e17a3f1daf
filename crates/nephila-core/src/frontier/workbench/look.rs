//! Read access to the workbench: the URLs of a host, its progress and its rests.

use std::net::IpAddr;
use std::time::Duration;

use super::super::rows::HostState;
use super::super::slot::SlotKey;
use super::super::ticket::{Place, TicketId};
use super::super::views::{AtHand, SlotView, Standings};
use super::{ActiveHost, HostIndex, Open, Slot, Workbench};
use crate::histogram::Durations;
use crate::key::UrlKey;
use crate::planted::{self, Bug};
use crate::state::queue::{LaterKey, QueueKey};

impl Workbench {
    /// How long starts waited after they were due.
    pub(crate) fn ready_wait(&self) -> Durations {
        self.ready_wait
    }

    /// The hosts and slots in memory, by state. Visits every host.
    pub(crate) fn standings(&self, mono: u64) -> Standings {
        let mut all = Standings::default();
        for host in self.hosts.iter().flatten() {
            let state = match self.state_of(host, mono) {
                HostState::Busy => &mut all.busy,
                HostState::BackingOff => &mut all.backing_off,
                HostState::Resting => &mut all.resting,
                HostState::Ready => &mut all.ready,
                _ => &mut all.loading,
            };
            *state += 1;
        }
        for rest in self.resting.values().filter(|rest| rest.until > mono) {
            let state = if rest.long && !rest.hours { &mut all.backing_off } else { &mut all.resting };
            *state += 1;
        }
        all.slots_busy = self.slots.iter().flatten().filter(|slot| slot.open > 0).count();
        all.slots_idle = self.by_slot.len() - all.slots_busy;
        all
    }

    /// What a loaded host does; the first state that applies.
    fn state_of(&self, host: &ActiveHost, mono: u64) -> HostState {
        let slot = host.slot.and_then(|slot| self.slots[slot as usize].as_ref());
        let rests = host.ready_at.max(slot.map_or(0, |slot| slot.free_at)) > mono;
        match (host.tickets.len() > host.released as usize, rests) {
            (true, _) => HostState::Busy,
            (_, true) if host.failures > 0 || host.no_address.is_some() => HostState::BackingOff,
            (_, true) => HostState::Resting,
            _ if slot.is_some() && !host.heads.is_empty() => HostState::Ready,
            _ => HostState::Loading,
        }
    }

    /// A loaded host in a list: its state, its address, and the rest in force in milliseconds.
    pub(crate) fn row(&self, index: HostIndex, mono: u64) -> (HostState, Option<IpAddr>, u32) {
        let host = self.host(index);
        (self.state_of(host, mono), host.address, host.rest)
    }

    /// The floors of a host in its queue and in its plans: every place up to a floor has ended. A floor lies before the
    /// first URL that is loaded, under way or parked, and never after the read position (cursor).
    pub(crate) fn floors(&self, index: HostIndex) -> (QueueKey, LaterKey) {
        let host = self.host(index);
        if planted::is(Bug::FloorTooFar) {
            return (host.cursor, host.later_cursor);
        }
        let (mut queue, mut later) = (None::<QueueKey>, None::<LaterKey>);
        let mut note = |place: Place| {
            if let Some(place) = place.queue() {
                queue = Some(queue.map_or(place, |lowest| lowest.min(place)));
            }
            if let Some(place) = place.later() {
                later = Some(later.map_or(place, |lowest| lowest.min(place)));
            }
        };
        host.heads.all().iter().for_each(|head| note(head.place));
        host.parked_from.into_iter().for_each(|place| note(Place::Queue(place)));
        let open = host.tickets.iter().filter_map(|ticket| self.open.get(ticket));
        open.filter_map(|open| open.head.as_ref()).for_each(|head| note(head.place));
        // The cursor may have gone back to before the first of these places.
        let queue = queue.map_or(host.cursor, |first| first.before().min(host.cursor));
        (queue, later.map_or(host.later_cursor, |first| first.before().min(host.later_cursor)))
    }

    /// Whether a URL of a host is loaded or being fetched, by the last part of its key.
    pub(crate) fn holds(&self, index: HostIndex, path: u64) -> bool {
        let host = self.host(index);
        let mut open = host.tickets.iter().filter_map(|ticket| self.open.get(ticket));
        open.any(|open| open.head.as_ref().is_some_and(|head| head.path == path))
            || host.heads.all().iter().any(|head| head.path == path)
    }

    /// Whether a URL of a host is being fetched.
    pub(crate) fn is_fetching(&self, index: HostIndex, path: u64) -> bool {
        let mut open = self.host(index).tickets.iter().filter_map(|ticket| self.open.get(ticket));
        open.any(|open| open.head.as_ref().is_some_and(|head| head.path == path))
    }

    /// The pages being fetched: key, origin, path and query. At most as many as tickets may be open.
    pub(crate) fn fetching(&self) -> Vec<(UrlKey, Box<str>, Box<str>)> {
        let open = self.open.values().filter_map(|open| Some((self.host(open.host), open.head.as_ref()?)));
        open.map(|(host, head)| {
            (UrlKey { host: host.key, path: head.path }, host.origin.clone(), head.text.clone())
        })
        .collect()
    }

    /// Whether a ticket of this host has host and address exclusively while the ticket is open.
    pub(crate) fn is_alone(&self, index: HostIndex) -> bool {
        let slot = self.host(index).slot.and_then(|slot| self.slots[slot as usize].as_ref());
        self.settings.host_connections <= 1 && slot.is_some_and(|slot| slot.limit.connections <= 1)
    }

    /// Maximum number of offers that may wait in a partition.
    pub(crate) fn offers_max(&self) -> usize {
        self.settings.offers_max
    }

    /// Remaining rests of a host and of its slot, in milliseconds.
    pub(crate) fn waits(&self, index: HostIndex, mono: u64) -> (u64, u64) {
        let host = self.host(index);
        let slot = host.slot.and_then(|slot| self.slots[slot as usize].as_ref());
        (host.ready_at.saturating_sub(mono), slot.map_or(0, |slot| slot.free_at.saturating_sub(mono)))
    }

    /// A snapshot of a loaded host, for users.
    pub(crate) fn at_hand(&self, index: HostIndex) -> AtHand {
        let host = self.host(index);
        AtHand {
            address: host.address,
            slot: self.slot_of(index),
            rest: Duration::from_millis(host.rest.into()),
            tickets: host.tickets.clone(),
            urls: host.heads.len(),
            errands: host.errands.len(),
            guest: host.guest,
            resolving: host.resolving || host.unresolved,
            no_address: host.no_address,
        }
    }

    /// A snapshot of an address without its hosts, for users.
    pub(crate) fn slot_view(&self, key: SlotKey, mono: u64) -> SlotView {
        let slot = self.by_slot.get(&key).and_then(|slot| self.slots[*slot as usize].as_ref());
        SlotView {
            slot: key,
            hosts: Vec::new(),
            hosts_count: 0,
            open: slot.map_or(0, |slot| slot.open),
            open_max: slot.map_or(self.settings.slot_connections, |slot| slot.limit.connections),
            rest: slot.map_or(self.settings.slot_delay, |slot| slot.limit.delay),
            free_in: slot.map_or(0, |slot| slot.free_at.saturating_sub(mono)),
        }
    }

    /// The rest in force after an answer that took `took_ms`: the longest of all rate limits that apply.
    pub(super) fn rest_of(&self, host: &ActiveHost, took_ms: u64) -> u32 {
        let settings = &self.settings;
        let own = settings.host_delay.as_millis() as u64;
        let by_rate = settings.rate_rest_ms();
        let by_time = took_ms.saturating_mul(settings.host_delay_factor.into());
        let ours = own.max(by_rate).max(by_time.min(settings.host_delay_max.as_millis() as u64));
        // The rest demanded by the site is never cut.
        u32::try_from(ours.max(host.rest_asked.into())).unwrap_or(u32::MAX)
    }

    /// Every host on the bench, in the order of keys.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = HostIndex> + '_ {
        self.by_key.values().copied()
    }

    /// Approximate memory of hosts and slots, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let hosts = self.hosts.capacity() * size_of::<Option<ActiveHost>>();
        let heads: usize =
            self.hosts.iter().flatten().map(|host| host.heads.bytes() + host.origin.len()).sum();
        let addresses = self.hosts.iter().flatten().map(|host| size_of_val(&*host.addresses_left));
        let heads = heads + addresses.sum::<usize>();
        let slots = self.slots.capacity() * size_of::<Option<Slot>>();
        let waiting: usize = self.slots.iter().flatten().map(|slot| slot.waiting.capacity() * 16).sum();
        let maps = self.by_key.len() * 40
            + self.resting.len() * 32
            + self.by_slot.len() * 48
            + self.timeline.len() * 32;
        hosts + heads + slots + waiting + maps + self.open.len() * size_of::<(TicketId, Open)>() * 2
    }
}
