//! The frontier: which URL may be fetched next, and when.
//!
//! A URL that enters is an **offer**. Offers are sifted in batches against what the partition knows ([`partition`]); a
//! new one is queued, parked or refused, and stands in the partition's log before anybody acts on it. A URL in a queue
//! waits for its **host** to come to the workbench ([`workbench`]). A host on the bench learns its **slot** (its name is
//! resolved), its robots.txt is asked for, and it gets the URLs of one visit. Each leaves as a **ticket** when host and
//! slot are both free and both have rested. The ticket stays open until it is reported or expires; what the report means
//! for the URL is decided here, written into the log, and only then true.
//!
//! Call it like this: [`Frontier::offer`] and the `handle_*` methods when something happened; then, until there is
//! nothing left, [`Frontier::poll_group`] (write these bytes to the log, then [`Frontier::handle_committed`]) and
//! [`Frontier::poll_action`]; sleep until [`Frontier::poll_timeout`].
//!
//! Invariants: one host and one slot never have more tickets open than allowed, nor two starts closer than their rest;
//! no ticket for what the robots.txt in force forbids; a URL that was let in is always in exactly one state.

mod asides;
pub mod away;
pub mod budget;
mod dates;
pub mod downloads;
pub mod errand;
pub mod explain;
pub mod feeds;
mod fill;
mod hand_over;
mod heads;
pub mod hours;
mod idle;
pub mod key;
pub mod offers;
pub mod outlook;
mod partition;
mod recrawl;
pub mod refusal;
pub mod report;
pub mod retry;
pub mod settings;
pub mod slot;
pub mod streams;
#[cfg(test)]
mod tests;
pub mod ticket;
pub mod trap;
mod turns;
mod unreached;
pub mod views;
mod workbench;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use key::{HostKey, Prefixes, Secret, UrlKey};
use offers::{Offer, Recent};
use partition::Partition;
use ticket::{Purpose, Ticket};
use workbench::{ActiveHost, HostIndex, RobotsPhase, Want, Workbench};

use crate::entry::{Admission, DomainChange, Entry, Group, HostChange};
use crate::job;
use crate::planted::{self, Bug};
use crate::robots::policy;
use crate::state::record::{HostRecord, RobotsPolicy};
use crate::state::{State, StateError};
use crate::time::{Now, Seconds, Timestamp};

pub use partition::{Rules, Sifted, URGENT};
pub use settings::Settings;
pub use workbench::TurnAction;

/// Hosts looked at in one search for work.
const SCAN_HOSTS: usize = 64;

/// Searches before somebody else gets a turn.
const SCANS_AT_ONCE: usize = 16;

/// Hosts filled before somebody else gets a turn.
const FILLS_AT_ONCE: usize = 64;

/// Slots that nobody needs are forgotten this often, in milliseconds.
const SLOT_SWEEP: u64 = 60_000;

/// A host that rests longer than this makes place for others meanwhile, in milliseconds.
const REST_ON_BENCH: u64 = 60_000;

/// Everything the frontier goes by.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Rests, limits, memory.
    pub frontier: Settings,
    /// When a failed URL is asked for again.
    pub retry: retry::Settings,
    /// Budgets and traps.
    pub rules: Rules,
    /// What robots.txt means where the RFC leaves a choice.
    pub robots: policy::Settings,
    /// Which feeds are followed, and how often.
    pub feed: crate::feed::Settings,
    /// The name by which robots.txt calls us.
    pub agent: String,
}

/// What should be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Look up the name of this host, then call [`Frontier::handle_resolved`] or [`Frontier::handle_unresolved`].
    Resolve {
        /// The host.
        host: HostKey,
        /// Scheme and authority.
        origin: String,
    },
    /// Fetch this, then call [`Frontier::handle_report`] or, for a robots.txt, [`Frontier::handle_robots`].
    Fetch(Ticket),
}

/// What happened to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It will be looked at.
    Taken,
    /// It was offered a moment ago.
    Recent,
    /// Too many wait to be looked at: write a group first, then offer it again.
    Full,
    /// It belongs to a partition that is not here.
    Elsewhere,
}

/// What the frontier did, in numbers that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Offers that came.
    pub offered: u64,
    /// Of these, offered a moment before.
    pub recent: u64,
    /// Sent back because too many were waiting.
    pub full: u64,
    /// What sifting the others did.
    pub sifted: Sifted,
    /// Tickets given out for pages.
    pub tickets: u64,
    /// Tickets given out for robots.txt.
    pub robots: u64,
    /// Outcomes taken in.
    pub ended: u64,
    /// URLs turned away before a fetch: robots.txt, no address, a stopped job.
    pub turned_away: u64,
    /// Tickets that nobody reported.
    pub expired: u64,
    /// Reports of tickets that were not open any more.
    pub late: u64,
    /// Times a host was given URLs.
    pub fills: u64,
    /// Groups of entries folded.
    pub groups: u64,
}

/// What the frontier holds right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Hosts on the bench.
    pub hosts_active: usize,
    /// Tickets open.
    pub tickets_open: usize,
    /// Offers waiting to be sifted.
    pub offers_waiting: usize,
    /// Bytes that the bench takes, roughly.
    pub bench_bytes: usize,
    /// Of the hosts, those that are here only because the robots.txt of another redirects to them.
    pub guests: usize,
    /// Requests for such redirects that wait or are under way.
    pub errands: usize,
}

/// The frontier of one worker: several partitions and one workbench.
#[derive(Debug)]
pub struct Frontier<S> {
    config: Config,
    secret: Secret,
    partitions: Vec<Partition<S>>,
    bench: Workbench,
    recent: Recent,
    /// Hosts that want URLs.
    hungry: VecDeque<HostIndex>,
    /// Hosts to look at again at this moment: they may leave, or a plan of theirs is due.
    idle: BTreeSet<(u64, HostIndex)>,
    /// Hosts whose robots.txt redirects to where nobody can go now: it counts as not reached.
    stranded: Vec<HostIndex>,
    /// Errands that travel between nodes.
    away: away::Away,
    /// Is there a host with work that found no room?
    starved: bool,
    scan_partition: usize,
    swept_at: u64,
    stats: Stats,
}

impl<S: State> Frontier<S> {
    /// A frontier over these partitions. `began` is now, unless nothing was ever fetched with this state: whatever an
    /// earlier process did a moment ago is unknown, so every host and every address first rests.
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

    /// A frontier without partitions, which come later. Its tickets carry this epoch: no other process may ever use the
    /// same.
    pub fn empty(config: Config, secret: Secret, ticket_epoch: u64) -> Self {
        Frontier {
            recent: Recent::new(config.frontier.recent_max),
            bench: Workbench::new(config.frontier.clone(), ticket_epoch),
            config,
            secret,
            partitions: Vec::new(),
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

    /// The secret under which URLs are hashed.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// The state of a partition.
    pub fn state(&mut self, partition: usize) -> &mut S {
        &mut self.partitions[partition].state
    }

    /// Gives the states back.
    pub fn into_states(self) -> Vec<S> {
        self.partitions.into_iter().map(|partition| partition.state).collect()
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        let mut stats = self.stats;
        for partition in &self.partitions {
            stats.sifted.add(&partition.sifted);
        }
        stats
    }

    /// What is held right now.
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

    /// Offers a URL.
    pub fn offer(&mut self, offer: Offer<'_>) -> Offered {
        let Some(partition) = self.partition_of(&offer.key.host) else { return Offered::Elsewhere };
        let partition = &mut self.partitions[partition];
        if partition.offers.len() >= self.config.frontier.offers_max && !planted::is(Bug::OffersUnbounded) {
            self.stats.full += 1;
            return Offered::Full;
        }
        self.stats.offered += 1;
        if self.recent.note(&offer.key) && offer.priority > URGENT {
            self.stats.recent += 1;
            return Offered::Recent;
        }
        partition.offer(offer);
        Offered::Taken
    }

    /// Something an operator or another node said: it goes into the log, and is true once it stands there.
    pub fn handle_command(&mut self, partition: usize, entry: Entry) {
        match entry {
            Entry::Stream(part) => self.handle_stream(partition, *part),
            entry => self.partitions[partition].pending.push(entry),
        }
    }

    /// How many offers a partition holds that were not looked at yet.
    pub fn offers_waiting(&self, partition: usize) -> usize {
        self.partitions[partition].offers.len()
    }

    /// Has a partition anything to write?
    pub fn has_group(&self, partition: usize) -> bool {
        let group = self.partitions[partition].in_flight.is_none();
        group && (!self.partitions[partition].claimed || self.has_more(partition))
    }

    /// Has a partition anything that is not in a group yet? Whether one is on its way or not.
    pub fn has_more(&self, partition: usize) -> bool {
        let partition = &self.partitions[partition];
        !partition.pending.is_empty()
            || !partition.offers.is_empty()
            || !partition.streams.is_empty()
            || !partition.listed.is_empty()
    }

    /// The next group of entries of a partition, to be made durable. None while one is on its way.
    pub fn poll_group(&mut self, partition: usize, now: Now) -> Result<Option<Vec<u8>>, StateError> {
        self.partitions[partition].poll_group(&self.config.rules, &self.bench, now)
    }

    /// The group of this partition is durable.
    pub fn handle_committed(&mut self, partition: usize, now: Now) -> Result<(), StateError> {
        let group = self.partitions[partition].committed()?;
        self.hungry.extend(self.partitions[partition].waiting.drain(..));
        self.stats.groups += 1;
        self.after(partition, &group, now)?;
        self.settle_stranded(now)
    }

    /// What a folded group means for the bench.
    fn after(&mut self, partition: usize, group: &Group, now: Now) -> Result<(), StateError> {
        for entry in &group.entries {
            match entry {
                Entry::Found(found) => {
                    for host in &found.hosts {
                        let queued = host
                            .urls
                            .iter()
                            .any(|url| !matches!(url.admission, Admission::Refuse(_) | Admission::ParkBare));
                        if queued {
                            self.has_work(partition, &host.key, now)?;
                        }
                    }
                }
                Entry::Ended(ended) => {
                    if let Some(index) = self.bench.ordinary(&ended.key.host) {
                        let host = self.bench.host_mut(index);
                        if let Some(at) = host.unfolded.iter().position(|path| *path == ended.key.path) {
                            host.unfolded.swap_remove(at);
                        }
                        if let Some(due) = ended.next {
                            host.later_next = Some(host.later_next.map_or(due, |next| next.min(due)));
                        }
                        self.look_again(index, now);
                    } else {
                        self.partitions[partition].awakes(&ended.key.host);
                    }
                }
                Entry::Robots(read) => {
                    if let Some(index) = self.bench.index(&read.host) {
                        self.robots_in_force(partition, index, now)?;
                    }
                }
                Entry::Host(HostChange::Stop(host, _)) => {
                    if let Some(index) = self.bench.index(host) {
                        self.bench.host_mut(index).leaving = true;
                        self.give_up_place(index, now);
                    } else {
                        // Somebody may wait for what it has; the next search says that it is not to be had.
                        self.partitions[partition].search();
                    }
                }
                Entry::Host(HostChange::Resume(host)) => {
                    if let Some(index) = self.bench.index(host) {
                        self.bench.host_mut(index).leaving = self.partitions[partition].closing;
                    }
                    self.has_work(partition, host, now)?;
                }
                Entry::Host(HostChange::Delay(host, delay)) => {
                    if let Some(index) = self.bench.index(host) {
                        let record = self.partitions[partition].state.host(host)?.unwrap_or_default();
                        self.bench.set_rest_asked(index, record.delay.max(record.robots.crawl_delay));
                        self.strand_if_long(index, now);
                    } else {
                        self.bench.rest_elsewhere(*host, *delay, now.mono);
                    }
                }
                Entry::Domain(_) | Entry::Job(_) | Entry::JobRemoved(_) => {
                    if let Entry::Domain(DomainChange::Budget(domain, _)) = entry {
                        let host = |host| HostKey { domain: *domain, host };
                        self.partitions[partition].hot.forget(host(0), host(u32::MAX));
                        // What was kept as a key alone may be offered again at once.
                        self.recent.forget(*domain);
                    }
                    // Anything may have become possible: the next search looks at every host.
                    self.partitions[partition].search();
                    // A job that is held back has nothing at hand any more: it is read again, and turned away.
                    let held = matches!(entry, Entry::Job(job) if job.state != job::State::Running);
                    let held = held && !planted::is(Bug::HeldAtHand);
                    for index in Vec::from_iter(self.bench.indexes()) {
                        if self.bench.host(index).guest {
                            continue;
                        }
                        if held && self.partition_of(&self.bench.host(index).key) == Some(partition) {
                            self.bench.drop_heads(index);
                        }
                        self.bench.host_mut(index).more = true;
                        self.make_hungry(index);
                    }
                }
                Entry::Inbox { .. }
                | Entry::Split(_)
                | Entry::Polled(_)
                | Entry::Stream(_)
                | Entry::Visited(_)
                | Entry::Aside(_)
                | Entry::Forward(_)
                | Entry::Sighted(_)
                | Entry::Streamed(_) => {}
            }
        }
        Ok(())
    }

    /// A host has something in its queue that it did not have before.
    fn has_work(&mut self, partition: usize, key: &HostKey, now: Now) -> Result<(), StateError> {
        match self.bench.index(key) {
            Some(index) if self.bench.host(index).guest => {
                let record = self.partitions[partition].state.host(key)?.unwrap_or_default();
                self.adopt(partition, index, &record, now);
            }
            Some(index) => {
                self.bench.host_mut(index).more = true;
                if self.bench.host(index).heads.is_empty() {
                    self.make_hungry(index);
                }
                self.bench.wait(index);
            }
            None if self.bench.has_room_for(key.domain) => {
                if let Some(record) = self.partitions[partition].state.host(key)? {
                    self.activate(*key, &record, now);
                }
            }
            None => {
                self.starved = true;
                self.partitions[partition].search();
            }
        }
        Ok(())
    }

    fn make_hungry(&mut self, index: HostIndex) {
        let host = self.bench.host_mut(index);
        if !std::mem::replace(&mut host.hungry, true) {
            self.hungry.push_back(index);
        }
    }

    /// Brings a host to the bench if it may be asked at all.
    fn activate(&mut self, key: HostKey, record: &HostRecord, now: Now) {
        let closing = self.partition_of(&key).is_some_and(|partition| self.partitions[partition].closing);
        if !record.stopped.is_empty() || record.origin.is_empty() || closing {
            return;
        }
        let mut host = ActiveHost::fresh(key, record.origin.clone());
        host.cursor = record.floor;
        host.later_cursor = record.later_floor;
        if let Some(partition) = self.partition_of(&key) {
            let ahead_max = self.plan_ahead_max(partition);
            let planned = self.partitions[partition].plans_due(&key, record);
            host.later_next = planned.map(|due| dates::believed(due, ahead_max, now.wall));
            self.partitions[partition].awakes(&key);
        }
        host.remember(record);
        host.robots = robots_phase(record, &self.config.retry, now);
        let wait = dates::rest_until(record, now.wall).0.saturating_sub(now.wall.0).min(REST_MAX);
        // Whatever it did before, it has rested by now: should its rest become longer, that counts from here.
        let index = self.bench.activate(host, now.mono + wait);
        self.make_hungry(index);
    }

    /// The addresses of a host, those that are to be tried first first: what could not be reached of late comes last. The one
    /// it has is kept if it is still among them, unless nobody could be reached there; the others are tried when nobody can.
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

    /// What should be done now.
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
            // Nothing to start: is there room for more hosts, and are there any?
            if !self.scan(now)? {
                return Ok(None);
            }
            self.fill_hungry(now)?;
            self.settle_stranded(now)?;
        }
    }

    /// Time has passed: takes back tickets that nobody reported, lets hosts go, looks at plans that are due.
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

    /// When [`Frontier::handle_timeout`] or [`Frontier::poll_action`] should be called if nothing else happens.
    pub fn poll_timeout(&self, now: Now) -> Option<u64> {
        let bench = self.bench.poll_timeout();
        let idle = self.idle.first().map(|(at, _)| *at);
        let away = self.away.poll_timeout(now.mono);
        let scan = self.partitions.iter().filter(|partition| !partition.closing).filter_map(|partition| {
            // No time: a search is under way. It goes on at once, or when the group on its way is folded.
            let Some(after) = partition.scan_after.map(Timestamp::from) else {
                let may_search = partition.in_flight.is_none() && partition.claimed;
                return (self.bench.has_room() && may_search).then_some(now.mono);
            };
            // A plan in 2106 is no reason to wake up; neither is a search while there is no room.
            (self.bench.has_room() && after < Timestamp::from(Seconds(u32::MAX)))
                .then(|| now.mono + after.0.saturating_sub(now.wall.0))
        });
        // More wanted URLs than are filled in one call: the others have their turn in the next.
        let hungry = self.hungry.iter().any(|index| self.is_hungry(*index)).then_some(now.mono);
        bench.into_iter().chain(idle).chain(away).chain(scan).chain(hungry).min()
    }

    /// Does a host that stands among the hungry still want URLs?
    fn is_hungry(&self, index: HostIndex) -> bool {
        self.bench.is_here(index) && self.bench.host(index).hungry
    }
}

/// What the robots.txt of a host is worth that comes to the bench.
fn robots_phase(record: &HostRecord, retry: &retry::Settings, now: Now) -> RobotsPhase {
    match record.robots.policy {
        RobotsPolicy::Unknown | RobotsPolicy::DisallowAll => RobotsPhase::Wanted,
        RobotsPolicy::Rules | RobotsPolicy::AllowAll => {
            RobotsPhase::Until(dates::robots_until(record, retry, now.wall))
        }
    }
}

/// The longest rest that is taken over from the time of day, in milliseconds: a clock that was wrong by years when the
/// rest was written down must not silence a host for years.
const REST_MAX: u64 = 7 * 24 * 3_600 * 1_000;
