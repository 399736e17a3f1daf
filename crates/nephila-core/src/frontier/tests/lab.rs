//! A frontier with a simulated web. The clock jumps from event to event.
//!
//! In every test the lab checks the invariants: groups follow each other and are read as they were written, no URL has
//! two tickets at once, no host and no address has more tickets or earlier starts than allowed, and the frontier never
//! asks to be woken for nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::entry::{Entry, open};
use crate::fold::fold;
use crate::frontier::away::ErrandAction;
use crate::frontier::hours;
use crate::frontier::offers::Offer;
use crate::frontier::report::{RobotsAnswer, RobotsReport};
use crate::frontier::ticket::{Purpose, Report, Ticket};
use crate::frontier::{Action, Config, Frontier, Offered, SlotAction};
use crate::job::JobId;
use crate::key::{HostKey, Prefixes, Secret, UrlKey};
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;
use crate::state::record::{HostRecord, UrlRecord};
use crate::state::{MemoryState, State};
use crate::time::{Now, Timestamp};
use crate::url::CrawlUrl;
use crate::want::Want;

pub(super) const SECRET: Secret = Secret([3; 16]);

/// 2026-11-15T00:00:00Z, when every lab opens.
const OPENED: u64 = 1_794_700_800_000;

/// The monotonic clock at that moment.
pub(super) const MONO: u64 = 1_000_000;

/// Maximum number of consecutive wake-ups without effect.
const IDLE_WAKES_MAX: u32 = 200;

/// The simulated web. Hosts and URLs without an entry answer as usual: an address of their own, no robots.txt, a page.
#[derive(Default)]
pub(super) struct Web {
    /// Addresses by origin.
    pub(super) addresses: BTreeMap<String, Vec<IpAddr>>,
    /// Origins without an address, and the outcome of their resolution.
    pub(super) no_address: BTreeMap<String, Outcome>,
    /// robots.txt by origin: the answer and the bytes.
    pub(super) robots: BTreeMap<String, (RobotsResult, String)>,
    /// Redirects of robots.txt files and of further hops, by URL.
    pub(super) redirects: BTreeMap<String, String>,
    /// `Retry-After` of every robots.txt.
    pub(super) retry_after: Option<Duration>,
    /// The outcome of requests without an answer.
    pub(super) cause: Option<Outcome>,
    /// Whether robots.txt files are longer than the part that is read.
    pub(super) cut: bool,
    /// Answers by URL.
    pub(super) pages: BTreeMap<String, Report>,
    /// Links on a page, by its URL.
    pub(super) links: BTreeMap<String, Vec<String>>,
    /// Robots.txt files, by URL, whose server cannot have answered.
    pub(super) robots_again: BTreeSet<String>,
    /// Addresses that refuse connections.
    pub(super) dead: BTreeSet<IpAddr>,
    /// URLs and origins that are requested and never reported.
    pub(super) silent: BTreeSet<String>,
}

/// An issued ticket.
pub(super) struct Start {
    pub(super) at: u64,
    pub(super) ticket: Ticket,
}

enum Due {
    Resolved(HostKey, String),
    Fetched(Ticket),
    Stored(Ticket),
}

pub(super) struct Lab {
    pub(super) frontier: Frontier<MemoryState>,
    pub(super) config: Config,
    pub(super) now: Now,
    pub(super) web: Web,
    /// Pages, in the order in which their tickets were issued.
    pub(super) pages: Vec<Start>,
    /// The same for robots.txt.
    pub(super) robots: Vec<Start>,
    /// Response time of every answer, in milliseconds.
    pub(super) took: u64,
    /// How long a page is stored before its report, in milliseconds; its host is released when the storing begins.
    pub(super) stores: u64,
    /// Number of name resolutions.
    pub(super) resolves: usize,
    /// Messages about turns, and their times.
    pub(super) turns: Vec<(u64, SlotAction)>,
    /// Messages to other nodes.
    pub(super) errands: Vec<ErrandAction>,
    /// If set, requested turns are granted at once, with this rest of the slot.
    pub(super) grants: Option<u64>,
    /// The written groups, by partition.
    log: Vec<Vec<Vec<u8>>>,
    due: BTreeMap<(u64, u64), Due>,
    serial: u64,
    found_dead: BTreeSet<IpAddr>,
    open: BTreeMap<String, (HostKey, IpAddr)>,
    rested: BTreeMap<String, u64>,
}

/// Rests that are easy to count: a second for a host, none for an address, no jitter.
pub(super) fn config() -> Config {
    let mut config = Config { agent: "Nephila".into(), ..Config::default() };
    config.frontier.host_delay = Duration::from_secs(1);
    config.frontier.host_delay_factor = 0;
    config.frontier.slot_delay = Duration::ZERO;
    config.frontier.slot_connections = 1_000;
    config.frontier.visit_bytes_max = 1 << 20;
    config.frontier.recent_max = 64;
    config.retry.jitter_percent = 0;
    config
}

pub(super) fn url(text: &str) -> CrawlUrl {
    CrawlUrl::parse(text).unwrap()
}

pub(super) fn key(text: &str) -> UrlKey {
    UrlKey::of(&url(text), &SECRET)
}

impl Lab {
    pub(super) fn new(config: Config) -> Lab {
        Lab::with_partitions(config, 1)
    }

    pub(super) fn with_partitions(config: Config, count: u32) -> Lab {
        Lab::with_shares(config, (0..count).map(|i| Prefixes::share(i, count)).collect())
    }

    /// One of `count` nodes, each with a partition, that send errands to each other.
    pub(super) fn one_of(config: Config, number: u32, count: u32) -> Lab {
        let mut lab = Lab::with_shares(config, vec![Prefixes::share(number, count)]);
        lab.frontier.share_errands();
        lab
    }

    fn with_shares(config: Config, shares: Vec<Prefixes>) -> Lab {
        let log = vec![Vec::new(); shares.len()];
        let states = shares.into_iter().map(|share| (share, MemoryState::new())).collect();
        let frontier = Frontier::new(config.clone(), SECRET, states, None);
        Lab {
            frontier,
            config,
            now: Now { mono: MONO, wall: Timestamp(OPENED) },
            web: Web::default(),
            pages: Vec::new(),
            robots: Vec::new(),
            took: 100,
            stores: 0,
            resolves: 0,
            turns: Vec::new(),
            errands: Vec::new(),
            grants: None,
            log,
            due: BTreeMap::new(),
            serial: 0,
            found_dead: BTreeSet::new(),
            open: BTreeMap::new(),
            rested: BTreeMap::new(),
        }
    }

    /// Offers a URL.
    pub(super) fn offer_as(&mut self, text: &str, job: u32, depth: u8, priority: u8) -> Offered {
        let url = url(text);
        let key = UrlKey::of(&url, &SECRET);
        let origin = url.origin();
        let text = url.path_and_query();
        let job = JobId(job);
        self.frontier.offer(Offer { key, origin, text, want: &Want { depth, priority, ..Want::of(job) } })
    }

    /// Offers URLs, each as a seed of priority 5.
    pub(super) fn offer(&mut self, texts: &[&str]) {
        for text in texts {
            assert_eq!(self.offer_as(text, 1, 0, 5), Offered::Taken, "{text}");
        }
    }

    /// Offers URLs of which the first is fetched first. (URLs that are offered alike are fetched in any order.)
    pub(super) fn offer_first(&mut self, first: &str, others: &[&str]) {
        assert_eq!(self.offer_as(first, 1, 0, 4), Offered::Taken, "{first}");
        self.offer(others);
    }

    /// Sends a command to the partition, as an operator would.
    pub(super) fn say(&mut self, entry: Entry) {
        self.frontier.handle_command(0, entry);
    }

    /// Writes all groups. Returns whether there was one.
    pub(super) fn commit(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.log.len() {
            while let Some(bytes) = self.frontier.poll_group(at, self.now).unwrap() {
                let position = self.frontier.state(at).position();
                open(&bytes, position).expect("a group follows the one before it");
                assert!(
                    self.frontier.poll_group(at, self.now).unwrap().is_none(),
                    "one group is on its way at a time"
                );
                self.log[at].push(bytes);
                self.frontier.handle_committed(at, self.now).unwrap();
                any = true;
            }
        }
        any
    }

    /// Lets this number of milliseconds pass.
    pub(super) fn run(&mut self, ms: u64) {
        let end = self.now.mono + ms;
        let mut idle_wakes = 0;
        loop {
            let mut busy = self.deliver();
            busy |= self.commit();
            while let Some(action) = self.frontier.poll_action(self.now).unwrap() {
                self.act(action);
                busy = true;
            }
            while let Some(errand) = self.frontier.poll_errand() {
                busy = true;
                self.errands.push(errand);
            }
            while let Some(turn) = self.frontier.poll_turn(self.now) {
                busy = true;
                self.turns.push((self.now.mono, turn));
                if let (SlotAction::Ask(slot), Some(rested)) = (turn, self.grants) {
                    self.frontier.handle_granted(slot, rested, false, self.now);
                }
            }
            busy |= self.commit();
            if busy {
                idle_wakes = 0;
                continue;
            }
            let wake = self.frontier.poll_timeout(self.now);
            let due = self.due.first_key_value().map(|((at, _), _)| *at);
            let next = wake.into_iter().chain(due).min().unwrap_or(end);
            if next > end {
                break self.advance(end);
            }
            idle_wakes = if next > self.now.mono { 0 } else { idle_wakes + 1 };
            assert!(idle_wakes < IDLE_WAKES_MAX, "the frontier wakes up for nothing, again and again");
            let ended = next == end && next == self.now.mono && idle_wakes > 2;
            self.advance(next.max(self.now.mono));
            self.frontier.handle_timeout(self.now).unwrap();
            if ended {
                break;
            }
        }
    }

    fn advance(&mut self, mono: u64) {
        let by = mono.saturating_sub(self.now.mono);
        self.now = Now { mono: self.now.mono + by, wall: Timestamp(self.now.wall.0 + by) };
    }

    fn later(&mut self, ms: u64, due: Due) {
        self.serial += 1;
        self.due.insert((self.now.mono + ms, self.serial), due);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Resolve { host, origin } => {
                self.resolves += 1;
                self.later(0, Due::Resolved(host, origin));
            }
            Action::Fetch(ticket) => {
                self.check_polite(&ticket);
                let list = if ticket.purpose == Purpose::Page { &mut self.pages } else { &mut self.robots };
                list.push(Start { at: self.now.mono, ticket: ticket.clone() });
                let origin = url(&ticket.url).origin().to_owned();
                if !self.web.silent.contains(&ticket.url) && !self.web.silent.contains(&origin) {
                    self.later(self.took, Due::Fetched(ticket));
                }
            }
        }
    }

    fn check_polite(&mut self, ticket: &Ticket) {
        let settings = &self.config.frontier;
        let of_host = self.open.values().filter(|(host, _)| *host == ticket.key.host).count();
        let of_slot = self.open.values().filter(|(_, address)| *address == ticket.address).count();
        assert!(of_host < settings.host_connections as usize, "too many at once on a host: {}", ticket.url);
        assert!(
            of_slot < settings.slot_connections as usize,
            "too many at once on an address: {}",
            ticket.url
        );
        let host = format!("host {}", ticket.key.host);
        let slot = format!("slot {}", ticket.address);
        for (name, rest) in [(host, settings.host_delay), (slot, settings.slot_delay)] {
            let rested = self.rested.get(&name).copied().unwrap_or(0);
            assert!(self.now.mono >= rested, "{} {} ms too early", ticket.url, rested - self.now.mono);
            self.rested.insert(name, self.now.mono + rest.as_millis() as u64);
        }
        let hours = hours::of(&settings.hours, url(&ticket.url).host_str());
        let early = hours.and_then(|hours| hours.opens_in(self.now.wall));
        assert_eq!(early, None, "{} outside of its hours", ticket.url);
        let twice = self.open.insert(ticket.url.clone(), (ticket.key.host, ticket.address));
        assert!(twice.is_none(), "{} has two tickets", ticket.url);
    }

    /// The ticket of this URL no longer counts as open.
    pub(super) fn close(&mut self, ticket: &Ticket) {
        self.open.remove(&ticket.url);
        let settings = &self.config.frontier;
        let host = format!("host {}", ticket.key.host);
        let slot = format!("slot {}", ticket.address);
        for (name, rest) in [(host, settings.host_delay), (slot, settings.slot_delay)] {
            self.rested.insert(name, self.now.mono + rest.as_millis() as u64);
        }
    }

    fn deliver(&mut self) -> bool {
        let mut any = false;
        while let Some(entry) = self.due.first_entry() {
            if entry.key().0 > self.now.mono {
                break;
            }
            any = true;
            match entry.remove() {
                Due::Resolved(host, origin) => self.resolved(host, &origin),
                Due::Fetched(ticket) => self.fetched(&ticket),
                Due::Stored(ticket) => self.stored(&ticket),
            }
        }
        any
    }

    fn resolved(&mut self, host: HostKey, origin: &str) {
        if let Some(outcome) = self.web.no_address.get(origin) {
            return self.frontier.handle_unresolved(host, *outcome, self.now).unwrap();
        }
        let own = xxhash_rust::xxh3::xxh3_64(origin.as_bytes()) as u32;
        let own = vec![IpAddr::V4(Ipv4Addr::from_bits((10 << 24) | (own >> 8)))];
        let mut addresses = self.web.addresses.get(origin).cloned().unwrap_or(own);
        // Like the resolver: dead addresses come after the others.
        addresses.sort_by_key(|address| self.found_dead.contains(address));
        self.frontier.handle_resolved(host, &addresses, self.now);
    }

    fn fetched(&mut self, ticket: &Ticket) {
        self.close(ticket);
        if self.web.dead.contains(&ticket.address) {
            self.found_dead.insert(ticket.address);
        }
        let took = Duration::from_millis(self.took);
        let origin = url(&ticket.url).origin().to_owned();
        match ticket.purpose {
            Purpose::Robots => {
                let (answer, body) =
                    self.web.robots.get(&origin).cloned().unwrap_or((RobotsResult::Status(404), "".into()));
                let mut report = RobotsReport::of(answer, took);
                if self.web.dead.contains(&ticket.address) {
                    (report.answer, report.unconnected) = (RobotsResult::Unreachable.into(), true);
                    self.frontier.handle_robots(ticket.id, report, self.now).unwrap();
                    return;
                }
                report.body = body.into_bytes().into();
                report.retry_after = self.web.retry_after;
                report.again = self.web.robots_again.contains(&ticket.url);
                report.cut = self.web.cut;
                report.cause = self.web.cause.filter(|_| answer == RobotsResult::Unreachable);
                if let Some(target) = self.web.redirects.get(&ticket.url) {
                    report.answer = RobotsAnswer::Redirect(Box::new(url(target)));
                }
                self.frontier.handle_robots(ticket.id, report, self.now).unwrap();
            }
            Purpose::Page if self.stores > 0 && !self.web.dead.contains(&ticket.address) => {
                // Some wait for their report.
                if self.frontier.handle_released(ticket.id, took, self.now) {
                    assert!(!self.frontier.handle_released(ticket.id, took, self.now), "once");
                }
                self.later(self.stores, Due::Stored(ticket.clone()));
            }
            Purpose::Page => self.stored(ticket),
        }
    }

    fn stored(&mut self, ticket: &Ticket) {
        let mut page = Report::of(Outcome::Fetched, 200, Duration::from_millis(self.took));
        page.digest = key(&ticket.url).path;
        let dead = Report::of(Outcome::ConnectRefused, 0, Duration::from_millis(self.took));
        let report = match self.web.dead.contains(&ticket.address) {
            true => &dead,
            false => self.web.pages.get(&ticket.url).unwrap_or(&page),
        };
        self.frontier.handle_report(ticket.id, report, self.now).unwrap();
        for link in self.web.links.get(&ticket.url).cloned().unwrap_or_default() {
            self.offer_as(&link, ticket.job.0, ticket.depth + 1, 5);
        }
    }

    /// The process ends, whatever is under way, and another one begins after this time.
    pub(super) fn restart(&mut self, ms: u64) {
        self.due.clear();
        for ticket in std::mem::take(&mut self.open).into_keys() {
            // Whether they ended is unknown; for the checker they end now.
            let start = self.pages.iter().chain(&self.robots).rev().find(|start| start.ticket.url == ticket);
            let ticket = start.expect("it was given out").ticket.clone();
            self.close(&ticket);
        }
        self.advance(self.now.mono + ms);
        // The state that a new owner folds from the log equals the state of the old owner.
        let count = self.log.len() as u32;
        let mut states = Vec::new();
        for at in 0..count {
            let mut state = MemoryState::new();
            for bytes in &self.log[at as usize] {
                let (group, behind) = open(bytes, state.position()).expect("our own log");
                fold(&mut state, &group, behind).unwrap();
            }
            let worked_with = self.frontier.state(at as usize).hash(Prefixes::ALL).unwrap();
            assert_eq!(state.hash(Prefixes::ALL).unwrap(), worked_with, "the log gives another state");
            states.push((Prefixes::share(at, count), state));
        }
        self.frontier = Frontier::new(self.config.clone(), SECRET, states, Some(self.now));
    }

    /// The state that holds a URL.
    fn state_of(&mut self, text: &str) -> &mut MemoryState {
        let (domain, count) = (key(text).host.domain, self.log.len() as u32);
        let at = (0..count)
            .find(|at| Prefixes::share(*at, count).holds(domain))
            .expect("every domain has a place");
        self.frontier.state(at as usize)
    }

    /// Pages so far: seconds since the lab opened, rounded down, and URL.
    pub(super) fn timeline(&self) -> Vec<(u64, &str)> {
        self.pages.iter().map(|start| ((start.at - MONO) / 1_000, &*start.ticket.url)).collect()
    }

    /// The URLs of the pages so far.
    pub(super) fn urls(&self) -> Vec<&str> {
        self.pages.iter().map(|start| &*start.ticket.url).collect()
    }

    pub(super) fn record(&mut self, text: &str) -> UrlRecord {
        self.state_of(text).url(&key(text)).unwrap().unwrap_or_else(|| panic!("{text} is not known"))
    }

    pub(super) fn host(&mut self, text: &str) -> HostRecord {
        self.state_of(text).host(&key(text).host).unwrap().unwrap_or_else(|| panic!("{text} has no host"))
    }
}

/// An answer that is not a page.
pub(super) fn failed(outcome: Outcome, status: u16, retry_after: Option<u64>) -> Report {
    let mut report = Report::of(outcome, status, Duration::from_millis(100));
    report.retry_after = retry_after.map(Duration::from_secs);
    report
}

/// Offers these URLs, lets time pass, and compares the pages: the second in which each began, and its URL.
pub(super) fn check(config: Config, seconds: u64, offered: &[&str], expected: &[(u64, &str)]) -> Lab {
    let mut lab = Lab::new(config);
    lab.offer(offered);
    lab.run(seconds * 1_000);
    assert_eq!(lab.timeline(), expected);
    lab
}
