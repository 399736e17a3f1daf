//! The frontier: decides which URL may be fetched next, and when. Rate limits, deduplication, retries and robots.txt
//! meet here.
//!
//! A URL that enters is an **offer**. Offers are sifted in batches against the state of their partition
//! ([`partition`]); a new URL is queued, parked or refused, and stands in the partition's log before any code acts on
//! the decision. A URL in a queue waits until its **host** is loaded into the workbench ([`workbench`]). A loaded host
//! learns its **slot** (its name is resolved), its robots.txt is fetched, and the URLs of one visit are read. Each URL
//! leaves as a **ticket** when host and slot are both free and both have rested. The ticket stays open until the ticket
//! is reported or expires. This module derives the consequences of the report for the URL and writes them into the log;
//! only then do they hold.
//!
//! How to drive the frontier: call [`Frontier::offer`] and the `handle_*` methods for every event. Then call
//! [`Frontier::poll_group`] (write these bytes to the log, then call [`Frontier::handle_committed`]) and
//! [`Frontier::poll_action`] until nothing is left. Then sleep until [`Frontier::poll_timeout`].
//!
//! Invariants: a host and a slot never have more tickets open than allowed, nor two starts closer than their rest; no
//! ticket is issued for a URL that the robots.txt in force forbids; an admitted URL is always in exactly one state.

mod after;
pub mod away;
mod dates;
pub mod downloads;
pub mod errand;
mod event_context;
pub mod explain;
pub mod feedback;
pub mod feeds;
mod fill;
mod hand_over;
mod heads;
pub mod hours;
mod idle;
pub mod offers;
pub mod outlook;
mod partition;
mod recrawl;
pub mod report;
pub mod retry;
mod robots_cache;
pub mod rows;
pub mod settings;
pub mod slot;
pub mod slot_grant;
mod slot_grants;
mod spread;
pub mod streams;
#[cfg(test)]
mod tests;
pub mod ticket;
mod unreached;
pub mod views;
mod workbench;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::key::{HostKey, Prefixes, Secret, UrlKey};
use crate::spread::Spread;
use offers::{Offer, Recent};
use partition::{Home, Partition};
use ticket::{Purpose, Ticket};
use workbench::{HostIndex, Want, Workbench};

use crate::entry::Entry;
use crate::histogram::Durations;
use crate::planted::{self, Bug};
use crate::robots::policy;
use crate::state::{State, StateError};
use crate::time::{Now, Seconds, Timestamp};

pub use partition::{Rules, Sifted, URGENT};
pub use settings::Settings;
pub use workbench::SlotAction;

/// Hosts examined in one search for work.
const SCAN_HOSTS: usize = 64;

/// Searches in one call, so that other work gets a turn.
const SCANS_AT_ONCE: usize = 16;

/// Hosts that receive URLs in one call, so that other work gets a turn.
const FILLS_AT_ONCE: usize = 64;

/// Interval between two removals of unused slots, in milliseconds.
const SLOT_SWEEP: u64 = 60_000;

/// A host that rests longer than this leaves the workbench meanwhile and frees its place, in milliseconds.
const REST_ON_BENCH: u64 = 60_000;

/// Longest rest taken over from the wall clock, in milliseconds: a clock that was wrong by years when the rest was
/// written must not silence a host for years.
const REST_MAX: u64 = 7 * 24 * 3_600 * 1_000;

/// The whole configuration of the frontier.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Rate limits and memory limits.
    pub frontier: Settings,
    /// Retry and backoff.
    pub retry: retry::Settings,
    /// Budgets and traps.
    pub rules: Rules,
    /// Interpretation of robots.txt where RFC 9309 leaves a choice.
    pub robots: policy::Settings,
    /// Which feeds are followed, and how often.
    pub feed: crate::feed::Settings,
    /// The product token that robots.txt addresses us by.
    pub agent: String,
}

/// An action that the caller must perform now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Resolve the name of this host, then call [`Frontier::handle_resolved`] or [`Frontier::handle_unresolved`].
    Resolve {
        /// The host.
        host: HostKey,
        /// Scheme and authority.
        origin: String,
    },
    /// Fetch this URL, then call [`Frontier::handle_report`] or, for a robots.txt, [`Frontier::handle_robots`].
    Fetch(Ticket),
}

/// The immediate answer to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// The offer was buffered and will be sifted.
    Taken,
    /// Duplicate: the same URL was offered a moment ago.
    Recent,
    /// Backpressure: the buffer of offers is full. Write a group first, then repeat the offer.
    Full,
    /// The URL belongs to a partition of another node, or to another partition since its domain was spread.
    Elsewhere,
}

/// Counters of the frontier. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Offers received, except offers answered with [`Offered::Full`] or [`Offered::Elsewhere`].
    pub offered: u64,
    /// Of these, duplicates of a recent offer.
    pub recent: u64,
    /// Offers sent back because the buffer was full.
    pub full: u64,
    /// Results of sifting the others.
    pub sifted: Sifted,
    /// Tickets issued for pages.
    pub tickets: u64,
    /// Tickets issued for robots.txt.
    pub robots: u64,
    /// Outcomes of pages received.
    pub ended: u64,
    /// URLs ended without a fetch: forbidden by robots.txt, no address, a job that does not run, a limit.
    pub turned_away: u64,
    /// Of these, forbidden by robots.txt.
    pub robots_denied: u64,
    /// Tickets that expired without a report.
    pub expired: u64,
    /// Reports of tickets that were no longer open.
    pub late: u64,
    /// Times URLs were read for a host.
    pub fills: u64,
    /// Groups of entries folded.
    pub groups: u64,
    /// How long hosts and slots that had rested waited until their ticket was taken, in milliseconds. After a time in
    /// which the caller took fewer tickets than were due, the wait of a host that joined late is an upper bound.
    pub ready_wait: Durations,
}

/// Current sizes of the frontier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Hosts on the workbench.
    pub hosts_active: usize,
    /// Open tickets.
    pub tickets_open: usize,
    /// Offers waiting to be sifted.
    pub offers_waiting: usize,
    /// Approximate memory of the workbench, in bytes.
    pub bench_bytes: usize,
    /// Of the hosts, guests: loaded only because the robots.txt of another host redirects to them.
    pub guests: usize,
    /// Errands that wait or are under way: requests for such redirects.
    pub errands: usize,
}

/// The frontier of one worker: several partitions and one workbench.
#[derive(Debug)]
pub struct Frontier<S> {
    config: Config,
    secret: Secret,
    /// Spread domains, as this node has read them.
    spread: Arc<Spread>,
    partitions: Vec<Partition<S>>,
    bench: Workbench,
    recent: Recent,
    robots: robots_cache::RobotsCache,
    /// Hosts that need URLs.
    hungry: VecDeque<HostIndex>,
    /// Hosts to examine again at this moment: they may leave, or one of their plans is due.
    idle: BTreeSet<(u64, HostIndex)>,
    /// Hosts whose robots.txt redirects to a host that cannot be requested now: their robots.txt counts as unreachable.
    stranded: Vec<HostIndex>,
    /// Errands that travel between nodes.
    away: away::Away,
    /// Whether a host with work found no room on the workbench.
    starved: bool,
    scan_partition: usize,
    swept_at: u64,
    stats: Stats,
}

impl<S: State> Frontier<S> {
    /// A frontier over these partitions. `began` is the current time, or `None` if nothing was ever fetched with this
    /// state. The requests of an earlier process a moment ago are unknown, so every host and every address rests first.
    pub fn new(config: Config, secret: Secret, states: Vec<(Prefixes, S)>, began: Option<Now>) -> Self {
        let mut partitions: Vec<_> =
            states.into_iter().map(|(prefixes, state)| Partition::new(prefixes, state)).collect();
        partitions.sort_by_key(|partition| partition.prefixes);
        let epoch = partitions.iter().map(|partition| partition.epoch).max().unwrap_or(1);
        for partition in &mut partitions {
            partition.epoch = epoch;
        }
        let mut frontier = Frontier::empty(config, secret, epoch);
        frontier.partitions = partitions;
        if let Some(began) = began {
            frontier.bench.rest_all(began.mono);
        }
        frontier
    }

    /// A frontier without partitions; [`Frontier::add_partition`] adds them. Its tickets carry this epoch: no other
    /// process may ever use the same.
    pub fn empty(config: Config, secret: Secret, ticket_epoch: u64) -> Self {
        Frontier {
            recent: Recent::new(config.frontier.recent_max),
            bench: Workbench::new(config.frontier.clone(), ticket_epoch),
            config,
            secret,
            spread: Arc::default(),
            partitions: Vec::new(),
            robots: Default::default(),
            hungry: VecDeque::new(),
            idle: BTreeSet::new(),
            stranded: Vec::new(),
            away: away::Away::new(ticket_epoch),
            starved: false,
            scan_partition: 0,
            swept_at: 0,
            stats: Stats::default(),
        }
    }

    /// The secret key of the URL hash.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The number of partitions.
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// The state of a partition.
    pub fn state(&mut self, partition: usize) -> &mut S {
        &mut self.partitions[partition].state
    }

    /// Returns the states of all partitions.
    pub fn into_states(self) -> Vec<S> {
        self.partitions.into_iter().map(|partition| partition.state).collect()
    }

    /// The counters so far.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        stats.ready_wait = self.bench.ready_wait();
        for partition in &self.partitions {
            stats.sifted.add(&partition.sifted);
        }
        stats
    }

    /// The current sizes.
    pub fn gauges(&self) -> Gauges {
        Gauges {
            hosts_active: self.bench.len(),
            tickets_open: self.bench.open_tickets(),
            offers_waiting: self.partitions.iter().map(|partition| partition.offers.len()).sum(),
            bench_bytes: self.bench.bytes(),
            guests: self.bench.guests(),
            errands: self.bench.errands() + self.away.len(),
        }
    }

    fn partition_of(&self, host: &HostKey) -> Option<usize> {
        let prefix = host.domain.prefix();
        let after = self.partitions.partition_point(|partition| partition.prefixes.first <= prefix);
        let index = after.checked_sub(1)?;
        (self.partitions[index].prefixes.last >= prefix).then_some(index)
    }

    /// Offers a URL. Never blocks; [`Offered`] tells the caller about duplicates and backpressure.
    pub fn offer(&mut self, offer: Offer<'_>) -> Offered {
        let Some(partition) = self.partition_of(&offer.key.host) else { return Offered::Elsewhere };
        let partition = &mut self.partitions[partition];
        match partition.home(offer.key.host, offer.origin, &self.secret) {
            Home::Here => {}
            Home::Elsewhere => return Offered::Elsewhere,
            Home::Unsure => return Offered::Full,
        }
        if partition.offers.len() >= self.config.frontier.offers_max && !planted::is(Bug::OffersUnbounded) {
            self.stats.full += 1;
            return Offered::Full;
        }
        self.stats.offered += 1;
        let is_recent = !partition.is_stopped(offer.want.job) && self.recent.note(&offer.key);
        if is_recent && offer.want.priority > URGENT {
            self.stats.recent += 1;
            return Offered::Recent;
        }
        partition.offer(offer);
        Offered::Taken
    }

    /// Takes an entry from an operator or another node. The entry goes into the log and takes effect once the entry is
    /// durable.
    pub fn handle_command(&mut self, partition: usize, entry: Entry) {
        match entry {
            Entry::Stream(part) => self.handle_stream(partition, *part),
            entry => self.partitions[partition].pending.push(entry),
        }
    }

    /// The number of offers of a partition that wait to be sifted.
    pub fn offers_waiting(&self, partition: usize) -> usize {
        self.partitions[partition].offers.len()
    }

    /// Whether a partition has a group to write now.
    pub fn has_group(&self, partition: usize) -> bool {
        let group = self.partitions[partition].in_flight.is_none();
        group && (!self.partitions[partition].claimed || self.has_more(partition))
    }

    /// Whether a partition has anything outside of a group, whether or not a group is in flight.
    pub fn has_more(&self, partition: usize) -> bool {
        let partition = &self.partitions[partition];
        !partition.pending.is_empty()
            || !partition.offers.is_empty()
            || !partition.streams.is_empty()
            || !partition.listed.is_empty()
    }

    /// The next group of entries of a partition, to be made durable. `None` while a group is in flight.
    pub fn poll_group(&mut self, partition: usize, now: Now) -> Result<Option<Vec<u8>>, StateError> {
        self.partitions[partition].poll_group(&self.config.rules, &self.bench, now)
    }

    /// The group of this partition is durable: folds the group into the state.
    pub fn handle_committed(&mut self, partition: usize, now: Now) -> Result<(), StateError> {
        let group = self.partitions[partition].committed()?;
        self.hungry.extend(self.partitions[partition].waiting.drain(..));
        self.stats.groups += 1;
        self.after(partition, &group, now)?;
        self.settle_stranded(now)
    }

    /// The addresses of a host, in the order in which to try them: addresses that recently failed come last. The
    /// current address is kept if the list still has that address, unless a connection to the address failed. The
    /// others are tried after a failed connection.
    pub fn handle_resolved(&mut self, host: HostKey, addresses: &[IpAddr], now: Now) {
        let Some(index) = self.bench.index(&host) else { return };
        let known = if planted::is(Bug::FirstAddressAlone) { 1 } else { addresses.len() };
        let addresses = &addresses[..known.min(addresses.len())];
        if !self.bench.resolved_to(index, addresses, now.mono) {
            return;
        }
        if self.bench.host(index).heads.is_empty() && !self.bench.host(index).guest {
            self.make_hungry(index);
        }
    }

    /// The next action to perform now, or `None`.
    pub fn poll_action(&mut self, now: Now) -> Result<Option<Action>, StateError> {
        self.fill_hungry(now)?;
        self.settle_stranded(now)?;
        loop {
            match self.bench.poll(now) {
                Some(Want::Resolve(index)) => {
                    let host = self.bench.host(index);
                    return Ok(Some(Action::Resolve { host: host.key, origin: host.origin.to_string() }));
                }
                Some(Want::Start(id)) => {
                    let (known, head) = self.known(id, now)?;
                    let via = self.via(id)?;
                    let (open, deadline, address) = self.bench.ticket(id).expect("just given out");
                    let host = self.bench.host(open.host);
                    let key = UrlKey { host: host.key, path: open.head.as_ref().map_or(0, |head| head.path) };
                    let text = open.head.as_ref().map_or("/robots.txt", |head| &head.text);
                    let url = match &open.errand {
                        Some(errand) => errand.url.to_string(),
                        None => [&host.origin, text].concat(),
                    };
                    let (host_rest, slot_rest) = self.bench.rests(open.host);
                    let ticket = Ticket {
                        id,
                        purpose: open.purpose,
                        key,
                        url,
                        address,
                        job: open.head.as_ref().map_or(crate::job::JobId(0), |head| head.job),
                        depth: open.head.as_ref().map_or(0, |head| head.depth),
                        hops: open.head.as_ref().map_or_else(Default::default, |head| head.hops),
                        read_as: open.head.as_ref().map_or_else(Default::default, |head| head.read_as),
                        retries: open.head.as_ref().map_or(u8::from(open.second), |head| head.retries),
                        deadline,
                        host_rest,
                        slot_rest,
                        known,
                        head,
                        via,
                    };
                    let one_more = open.head.as_ref().filter(|head| !head.asked).map(|_| open.host);
                    match open.purpose {
                        Purpose::Page => self.stats.tickets += 1,
                        Purpose::Robots => self.stats.robots += 1,
                    }
                    if let Some(index) = one_more {
                        self.bench.host_mut(index).pages += 1;
                    }
                    return Ok(Some(Action::Fetch(ticket)));
                }
                Some(Want::Rest(index, wait)) => {
                    self.rest(index, Duration::from_millis(wait), now);
                    self.settle_stranded(now)?;
                    continue;
                }
                None => {}
            }
            // Nothing can start: load more hosts if there is room.
            if !self.scan(now)? {
                return Ok(None);
            }
            self.fill_hungry(now)?;
            self.settle_stranded(now)?;
        }
    }

    /// Time has passed: expires unreported tickets, unloads idle hosts, examines due plans.
    pub fn handle_timeout(&mut self, now: Now) -> Result<(), StateError> {
        while let Some(id) = self.bench.poll_expired(now.mono) {
            self.stats.expired += 1;
            self.expire(id, now)?;
        }
        while let Some(&(at, index)) = self.idle.first() {
            if at > now.mono {
                break;
            }
            self.idle.pop_first();
            self.look_at_idle(index, now);
        }
        self.end_waiting(now)?;
        if now.mono >= self.swept_at + SLOT_SWEEP {
            self.swept_at = now.mono;
            self.bench.forget_rested(now.mono);
        }
        Ok(())
    }

    /// When to call [`Frontier::handle_timeout`] or [`Frontier::poll_action`] if nothing else happens.
    pub fn poll_timeout(&self, now: Now) -> Option<u64> {
        let bench = self.bench.poll_timeout();
        let idle = self.idle.first().map(|(at, _)| *at);
        let away = self.away.poll_timeout(now.mono);
        let scan = self.partitions.iter().filter(|partition| !partition.closing).filter_map(|partition| {
            // No time means that a search is under way. The search continues at once, or when the group in flight is
            // folded.
            let Some(after) = partition.scan_after.map(Timestamp::from) else {
                let may_search = partition.in_flight.is_none() && partition.claimed;
                return (self.bench.has_room() && may_search).then_some(now.mono);
            };
            // A plan in 2106 is no reason to wake up; neither is a search while there is no room.
            (self.bench.has_room() && after < Timestamp::from(Seconds(u32::MAX)))
                .then(|| now.mono + after.0.saturating_sub(now.wall.0))
        });
        // More hosts need URLs than one call serves: the others get their turn in the next call.
        let hungry = self.hungry.iter().any(|index| self.is_hungry(*index)).then_some(now.mono);
        bench.into_iter().chain(idle).chain(away).chain(scan).chain(hungry).min()
    }

    /// Whether a host in the hungry list still needs URLs.
    fn is_hungry(&self, index: HostIndex) -> bool {
        self.bench.is_here(index) && self.bench.host(index).hungry
    }
}
