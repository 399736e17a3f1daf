//! Snapshots of hosts and addresses, for users who want to know why a URL waits. Read-only.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::retry::mix;
use super::slot::SlotKey;
use super::ticket::{HeadFirst, TicketId, Validators};
use super::{Frontier, dates};
use crate::frontier::feedback::FeedbackReason;
use crate::job::Via;
use crate::key::{HostKey, UrlKey};
use crate::spider::outcome::{Action, Outcome};
use crate::state::queue::LaterKey;
use crate::state::record::{HostRecord, UrlRecord, UrlState};
use crate::state::totals::Work;
use crate::state::totals::{Tally, Totals};
use crate::state::{State, StateError};
use crate::time::{Now, Seconds, Timestamp};
use crate::url::CrawlUrl;

/// Maximum number of hosts in one page of a list.
pub const HOSTS_PAGE_MAX: usize = 1_000;

/// Maximum number of hosts listed for one address.
pub const SLOT_HOSTS_MAX: usize = 1_000;

/// Maximum number of plans examined one by one to tell retries from scheduled visits.
pub const PLANS_LOOKED_AT_MAX: usize = 1_000_000;

/// Plans read at once.
const PLANS_AT_ONCE: usize = 256;

/// The stored records of a URL and of its host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The record of the URL.
    pub url: Option<UrlRecord>,
    /// The record of its host.
    pub host: Option<HostRecord>,
}

/// Number of hosts and addresses in memory, by state. A host has one state; the first that applies counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standings {
    /// Hosts with a request under way.
    pub busy: usize,
    /// Hosts that rest after failures.
    pub backing_off: usize,
    /// Hosts in their crawl delay, or whose address rests.
    pub resting: usize,
    /// Hosts with URLs whose rest is over.
    pub ready: usize,
    /// Hosts that wait for URLs or an address.
    pub loading: usize,
    /// Addresses with a request under way.
    pub slots_busy: usize,
    /// All other addresses.
    pub slots_idle: usize,
}

/// Whether a URL with this last outcome is planned as a retry.
fn is_second_try(outcome: Outcome) -> bool {
    matches!(outcome.action(), Action::BackOff | Action::BackOffHost | Action::Pause)
}

/// A snapshot of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    /// Its key.
    pub key: HostKey,
    /// Scheme and authority.
    pub origin: Box<str>,
    /// The stored record; `None` if the host is only a guest, loaded on behalf of another host.
    pub record: Option<HostRecord>,
    /// Milliseconds until the rests of host and address are over. `None` if an operator stopped the host.
    pub ready_in: Option<u64>,
    /// The loaded host, if the host is on the workbench.
    pub at_hand: Option<AtHand>,
}

/// A host on the workbench.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AtHand {
    /// The address to connect to.
    pub address: Option<IpAddr>,
    /// The slot of the host.
    pub slot: Option<SlotKey>,
    /// The rest in force between two fetches.
    pub rest: Duration,
    /// Open tickets.
    pub tickets: Vec<TicketId>,
    /// Number of loaded URLs.
    pub urls: usize,
    /// Number of errands that wait with this host.
    pub errands: usize,
    /// Whether the host is a guest, loaded for errands alone.
    pub guest: bool,
    /// Whether the name is being resolved.
    pub resolving: bool,
    /// How the last name resolution failed; `None` after a success.
    pub no_address: Option<Outcome>,
}

/// A snapshot of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotView {
    /// The slot of the address.
    pub slot: SlotKey,
    /// Loaded hosts with this address, at most [`SLOT_HOSTS_MAX`], in the order of keys.
    pub hosts: Vec<(HostKey, Box<str>)>,
    /// Number of such hosts.
    pub hosts_count: usize,
    /// Number of open tickets.
    pub open: u32,
    /// Maximum number of open tickets.
    pub open_max: u32,
    /// The rest in force between two fetches.
    pub rest: Duration,
    /// Milliseconds until the rest is over.
    pub free_in: u64,
}

impl<S: State> Frontier<S> {
    /// The totals of all partitions, including the work of earlier processes.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        self.partitions.iter().for_each(|partition| totals.add(&partition.state.meta().totals));
        totals
    }

    /// The number of open tickets.
    pub fn open_tickets(&self) -> usize {
        self.bench.open_tickets()
    }

    /// Whether URLs wait in queues, also in those of stopped hosts.
    pub fn has_waiting(&self) -> bool {
        self.partitions.iter().any(|partition| partition.state.meta().totals.waiting > 0)
    }

    /// The finished and remaining work of one partition, by job.
    pub fn work(&self, partition: usize) -> BTreeMap<u32, Work> {
        let totals = &self.partitions[partition].state.meta().totals;
        let (nothing, jobs) = (Tally::default(), totals.tally.keys().chain(totals.open.keys()));
        let of = |job: &u32| {
            let left = totals.open.get(job).copied().unwrap_or(0);
            (*job, Work::of(totals.tally.get(job).unwrap_or(&nothing), left))
        };
        jobs.map(of).collect()
    }

    /// The folded read position of one partition in an inbox.
    pub fn inbox_read(&self, partition: usize, name: &str) -> u64 {
        self.partitions[partition].state.meta().inboxes.get(name).copied().unwrap_or(0)
    }

    /// The partition of the host of an open ticket.
    pub fn partition_of_ticket(&self, id: TicketId) -> Option<usize> {
        let (open, ..) = self.bench.ticket(id)?;
        self.partition_of(&self.bench.host(open.host).key)
    }

    /// Hosts of a partition that reject a large number of links, so that senders need not send them.
    pub fn closed_hosts(&mut self, partition: usize, now: Now) -> Vec<(HostKey, FeedbackReason)> {
        self.partitions[partition].hot.closed(now.mono)
    }

    /// Where the URL of a ticket was found. Read from the state on demand: keeping this for every loaded URL would hold
    /// a million of them in memory.
    pub(super) fn via(&mut self, id: TicketId) -> Result<Option<Arc<Via>>, StateError> {
        let Some((open, ..)) = self.bench.ticket(id) else { return Ok(None) };
        let Some(head) = &open.head else { return Ok(None) };
        let key = UrlKey { host: self.bench.host(open.host).key, path: head.path };
        let Some(partition) = self.partition_of(&key.host) else { return Ok(None) };
        Ok(self.partitions[partition].state.url(&key)?.and_then(|record| record.via))
    }

    /// The validators of the page of a ticket and whether to send a `HEAD` request first, if the page was fetched
    /// before.
    pub(super) fn known(
        &mut self,
        id: TicketId,
        now: Now,
    ) -> Result<(Option<Box<Validators>>, HeadFirst), StateError> {
        let nothing = (None, HeadFirst::No);
        let Some((open, ..)) = self.bench.ticket(id) else { return Ok(nothing) };
        let Some(head) = open.head.as_ref().filter(|head| head.asked) else { return Ok(nothing) };
        let key = UrlKey { host: self.bench.host(open.host).key, path: head.path };
        let Some(partition) = self.partition_of(&key.host) else { return Ok(nothing) };
        // Now and then a claim is verified, and a host whose claims were wrong is not believed.
        let (job, read_as, chance) = (head.job, head.read_as, mix(head.path ^ id.0));
        let by_head = self.may_ask_by_head(open.host, head.retries);
        let mut first = HeadFirst::No;
        if read_as.is_content() {
            let in_full;
            (in_full, first) = self.how_to_ask(partition, &key, job, chance, by_head, now)?;
            if in_full {
                return Ok(nothing);
            }
        }
        let Some(last) = self.partitions[partition].state.url(&key)?.and_then(|record| record.last) else {
            return Ok(nothing);
        };
        let known = Validators { etag: last.etag, last_modified: last.last_modified };
        if known.etag.is_empty() && known.last_modified.is_empty() {
            return Ok(nothing);
        }
        Ok((Some(Box::new(known)), first))
    }

    /// The key by which the host of a URL is known here. `None` if its partition is not here.
    pub fn host_key(&self, url: &CrawlUrl) -> Option<HostKey> {
        let mut key = self.key(url).host;
        let meta = self.partitions[self.partition_of(&key)?].state.meta();
        if let Some(&host) = meta.displaced.get(&(key.domain, url.origin().into())) {
            key.host = host;
        }
        Some(key)
    }

    /// A snapshot of a host. `None` if the host is not known.
    pub fn host_view(&mut self, key: &HostKey, now: Now) -> Result<Option<HostView>, StateError> {
        let Some(partition) = self.partition_of(key) else { return Ok(None) };
        let record = self.partitions[partition].state.host(key)?;
        let index = self.bench.index(key);
        let origin = match (&record, index) {
            (_, Some(index)) => self.bench.host(index).origin.clone(),
            (Some(record), None) => record.origin.clone(),
            (None, None) => return Ok(None),
        };
        Ok(Some(HostView {
            key: *key,
            origin,
            ready_in: self.ready_in(key, record.as_ref(), now),
            record,
            at_hand: index.map(|index| self.bench.at_hand(index)),
        }))
    }

    /// The stored records of a URL and of its host.
    pub fn known_of(&mut self, url: &CrawlUrl) -> Result<Known, StateError> {
        let mut key = self.key(url);
        let Some((partition, host)) = self.partition_of(&key.host).zip(self.host_key(url)) else {
            return Ok(Known::default());
        };
        key.host = host;
        let state = &mut self.partitions[partition].state;
        Ok(Known { url: state.url(&key)?, host: state.host(&key.host)? })
    }

    /// Number of hosts and addresses in memory, by state.
    pub fn standings(&self, now: Now) -> Standings {
        self.bench.standings(now.mono)
    }

    /// Number of URLs that failed and await a retry, and when the first retry is due. Scheduled visits are not counted.
    /// Examines at most [`PLANS_LOOKED_AT_MAX`] plans, and counts all others as retries.
    pub fn second_tries(&mut self, now: Now) -> Result<(u64, Option<Seconds>), StateError> {
        let (mut count, mut next) = (0, None::<Seconds>);
        let mut looked_at = 0;
        let mut from = None;
        loop {
            let hosts = self.hosts_page(from, HOSTS_PAGE_MAX)?;
            let Some((last, _)) = hosts.last() else { return Ok((count, next)) };
            from = last.next();
            for (key, record) in hosts.iter().filter(|(_, record)| record.later > 0) {
                let Some(partition) = self.partition_of(key) else { continue };
                let ahead_max = self.plan_ahead_max(partition);
                let believed = |due| dates::believed(due, ahead_max, now.wall);
                if looked_at >= PLANS_LOOKED_AT_MAX {
                    count += record.later;
                    next = next.into_iter().chain([believed(record.later_next)]).min();
                    continue;
                }
                let state = &mut self.partitions[partition].state;
                let mut behind = record.later_floor;
                loop {
                    let mut planned = Vec::new();
                    state.planned(key, behind, PLANS_AT_ONCE, &mut planned)?;
                    looked_at += planned.len();
                    let Some(last) = planned.last() else { break };
                    behind = last.place;
                    let mut keys: Vec<UrlKey> =
                        planned.iter().map(|plan| UrlKey { host: *key, path: plan.place.path }).collect();
                    keys.sort_unstable();
                    keys.dedup();
                    let mut found = Vec::new();
                    state.urls(&keys, &mut found)?;
                    for (key, record) in keys.iter().zip(found) {
                        let Some(record) = record else { continue };
                        let UrlState::Later(due) = record.state else { continue };
                        // A URL that was planned anew occurs here twice.
                        let planned =
                            planned.iter().any(|plan| plan.place == LaterKey { due, path: key.path });
                        if planned && record.last.is_some_and(|last| is_second_try(last.outcome)) {
                            count += 1;
                            next = next.into_iter().chain([believed(due)]).min();
                        }
                    }
                    if planned.len() < PLANS_AT_ONCE {
                        break;
                    }
                }
            }
            if from.is_none() {
                return Ok((count, next));
            }
        }
    }

    /// A snapshot of an address. An unused address is free.
    pub fn slot_view(&self, slot: SlotKey, now: Now) -> SlotView {
        let mut view = self.bench.slot_view(slot, now.mono);
        let hosts = self.bench.indexes().filter(|index| self.bench.slot_of(*index) == Some(slot));
        for index in hosts {
            view.hosts_count += 1;
            if view.hosts.len() < SLOT_HOSTS_MAX {
                let host = self.bench.host(index);
                view.hosts.push((host.key, host.origin.clone()));
            }
        }
        view
    }

    /// The first hosts from a key on, over all partitions in the order of keys; at most [`HOSTS_PAGE_MAX`]. The next
    /// page begins with [`HostKey::next`] of the last.
    pub fn hosts_page(
        &mut self,
        from: Option<HostKey>,
        max: usize,
    ) -> Result<Vec<(HostKey, HostRecord)>, StateError> {
        let max = max.min(HOSTS_PAGE_MAX);
        let mut page = Vec::new();
        for partition in &mut self.partitions {
            let first = HostKey { domain: partition.prefixes.first_domain(), host: 0 };
            let last = partition.prefixes.last_domain();
            let from = from.map_or(first, |from| from.max(first));
            if page.len() >= max || from.domain > last {
                continue;
            }
            let mut hosts = Vec::new();
            partition.state.hosts_from(from, max - page.len(), &mut hosts)?;
            page.extend(hosts.into_iter().take_while(|(key, _)| key.domain <= last));
        }
        Ok(page)
    }

    /// Milliseconds until the rest of a host and of its address, if known, is over. `None` if an operator stopped the
    /// host.
    pub(super) fn ready_in(&self, key: &HostKey, record: Option<&HostRecord>, now: Now) -> Option<u64> {
        if record.is_some_and(|record| !record.stopped.is_empty()) {
            return None;
        }
        let at = match self.bench.index(key) {
            Some(index) => self.bench.ready_at(index),
            None => {
                let rest = record.map_or(Timestamp(0), |record| dates::rest_until(record, now.wall));
                let rest = rest.0.saturating_sub(now.wall.0);
                self.bench.resting_until(key).unwrap_or(0).max(now.mono + rest.min(super::REST_MAX))
            }
        };
        Some(at.saturating_sub(now.mono))
    }
}
