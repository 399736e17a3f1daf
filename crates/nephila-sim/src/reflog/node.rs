//! One node of the day: a frontier over the partitions of the node, its open requests, and groups that are being
//! written.
//!
//! Invariants: a node that died knows nothing; at most one group of a partition is being written at a time; an inbox is
//! read in its order, and the inbox position is in the same group as the results.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use nephila_core::entry::Entry;
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::ticket::{Purpose, Report, TicketId};
use nephila_core::frontier::{Action, Config, Frontier};
use nephila_core::key::{Prefixes, UrlKey};
use nephila_core::robots::policy::RobotsResult;
use nephila_core::spider::outcome::Outcome;
use nephila_core::state::{MemoryState, State};
use nephila_core::time::{Now, Timestamp};

use super::{BEGAN, SECRET, Share};
use crate::Violation;
use crate::rng::mix;

/// The name of the inbox in a partition's log.
const INBOX: &str = "in";

/// A group that is being written.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub(super) bytes: Vec<u8>,
    /// When the group was made, by the clock of its node, and in steps of the world.
    pub(super) wall: u64,
    pub(super) step: u64,
    /// How far the inbox was read.
    pub(super) inbox_read: u64,
}

/// A partition of this node.
#[derive(Debug)]
struct Own {
    partition: usize,
    inbox_read: u64,
    flight: Option<Flight>,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    pub(super) ticket: u64,
    /// The page; none for a robots.txt.
    pub(super) url: Option<UrlKey>,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) life: u64,
    frontier: Option<Frontier<MemoryState>>,
    /// In the order of partitions, as the frontier has them.
    own: Vec<Own>,
    open: BTreeMap<u64, Option<UrlKey>>,
    /// Pages that were requested and whose outcomes are in no log yet.
    undurable: BTreeSet<UrlKey>,
    wakes_at: Option<u64>,
    /// How far its clock is ahead, in milliseconds.
    ahead: u64,
}

/// Short rests, so that a day is enough; everything else as in production.
fn config() -> Config {
    let mut config = Config { agent: "nephila".into(), ..Config::default() };
    config.frontier.host_delay = Duration::from_millis(500);
    config.frontier.host_delay_factor = 0;
    config.frontier.slot_delay = Duration::ZERO;
    config.frontier.slot_connections = 1_000;
    config.rules.trap.pages_alike_max = 0;
    config
}

impl Node {
    pub(super) fn new(life: u64, ahead: u64) -> Node {
        let mut node = Node {
            life,
            frontier: None,
            own: Vec::new(),
            open: BTreeMap::new(),
            undurable: BTreeSet::new(),
            wakes_at: None,
            ahead,
        };
        node.begin(life);
        node
    }

    /// The node begins another life, with an empty state.
    pub(super) fn begin(&mut self, life: u64) {
        self.life = life;
        self.frontier = Some(Frontier::empty(config(), SECRET, life));
    }

    pub(super) fn is_live(&self) -> bool {
        self.frontier.is_some()
    }

    /// The outcome of a page is in the log.
    pub(super) fn ended(&mut self, url: &UrlKey) {
        self.undurable.remove(url);
    }

    /// The node dies. Returns the pages that were requested and whose outcomes are lost.
    pub(super) fn die(&mut self) -> Vec<UrlKey> {
        self.life = 0;
        (self.frontier, self.wakes_at) = (None, None);
        self.own.clear();
        self.open.clear();
        std::mem::take(&mut self.undurable).into_iter().collect()
    }

    /// The partitions that this node owns.
    pub(super) fn owned(&self) -> Vec<usize> {
        self.own.iter().map(|own| own.partition).collect()
    }

    fn now(&self, t: u64) -> Now {
        // The clock that only moves forward begins somewhere.
        Now { mono: 1_000_000 + t, wall: Timestamp(BEGAN + t + self.ahead) }
    }

    fn place(&self, partition: usize) -> usize {
        let place = self.own.iter().position(|own| own.partition == partition);
        place.expect("it owns the partition")
    }

    fn front(&mut self) -> &mut Frontier<MemoryState> {
        self.frontier.as_mut().expect("the node lives")
    }

    pub(super) fn take_over(&mut self, partition: usize, prefixes: Prefixes, state: MemoryState, t: u64) {
        let now = self.now(t);
        let inbox_read = state.meta().inboxes.get(INBOX).copied().unwrap_or(0);
        let epoch = state.meta().epoch + 1;
        let place = self.front().add_partition(prefixes, state, epoch, now);
        self.own.insert(place, Own { partition, inbox_read, flight: None });
        debug_assert!(self.own.is_sorted_by_key(|own| own.partition));
    }

    pub(super) fn read_inbox(&mut self, partition: usize, from: u64, inbox: &VecDeque<Share>) {
        let place = self.place(partition);
        let read = self.own[place].inbox_read;
        let new = inbox.iter().skip((read - from) as usize);
        let frontier = self.frontier.as_mut().expect("the node lives");
        for share in new {
            frontier.handle_command(place, Entry::Stream(Box::new((*share.part).clone())));
            self.own[place].inbox_read += 1;
        }
        let position = self.own[place].inbox_read;
        if position > read {
            frontier.handle_command(place, Entry::Inbox { name: INBOX.into(), position });
        }
    }

    /// Carries out the frontier's actions: names are looked up at once; requests are returned.
    pub(super) fn act(&mut self, t: u64) -> Result<Vec<Begun>, Violation> {
        let now = self.now(t);
        let frontier = self.frontier.as_mut().expect("the node lives");
        let mut begun = Vec::new();
        while let Some(action) = frontier.poll_action(now)? {
            match action {
                Action::Resolve { host, .. } => {
                    let bits = mix(host.domain.0 ^ u64::from(host.host)) as u32;
                    let address = IpAddr::V4(Ipv4Addr::from_bits((10 << 24) | (bits >> 8)));
                    frontier.handle_resolved(host, &[address], now);
                }
                Action::Fetch(ticket) => {
                    let url = (ticket.purpose == Purpose::Page).then_some(ticket.key);
                    self.open.insert(ticket.id.0, url);
                    self.undurable.extend(url);
                    begun.push(Begun { ticket: ticket.id.0, url });
                }
            }
        }
        Ok(begun)
    }

    /// A request was answered. Returns its URL, if the request was for a page.
    pub(super) fn fetched(&mut self, ticket: u64, t: u64) -> Result<Option<UrlKey>, Violation> {
        let now = self.now(t);
        let Some(url) = self.open.remove(&ticket) else { return Ok(None) };
        let took = Duration::from_millis(100);
        let id = TicketId(ticket);
        let is_open = match url {
            Some(_) => {
                let mut report = Report::of(Outcome::Fetched, 200, took);
                report.digest = mix(ticket) | 1;
                self.front().handle_report(id, &report, now)?
            }
            None => self.front().handle_robots(id, RobotsReport::of(RobotsResult::Status(404), took), now)?,
        };
        debug_assert!(is_open, "every fetch ends in time");
        Ok(url)
    }

    /// Makes the next group of a partition, unless one is being written. Returns whether there is one.
    pub(super) fn begin_group(&mut self, partition: usize, t: u64, step: u64) -> Result<bool, Violation> {
        let (now, place) = (self.now(t), self.place(partition));
        if !self.front().has_group(place) {
            return Ok(false);
        }
        let Some(bytes) = self.front().poll_group(place, now)? else { return Ok(false) };
        let inbox_read = self.own[place].inbox_read;
        self.own[place].flight = Some(Flight { bytes, wall: now.wall.0, step, inbox_read });
        Ok(true)
    }

    pub(super) fn flight(&self, partition: usize) -> Option<&Flight> {
        self.own[self.place(partition)].flight.as_ref()
    }

    pub(super) fn committed(&mut self, partition: usize, t: u64) -> Result<(), Violation> {
        let (now, place) = (self.now(t), self.place(partition));
        self.own[place].flight = None;
        Ok(self.front().handle_committed(place, now)?)
    }

    pub(super) fn woken(&mut self, t: u64) -> Result<(), Violation> {
        let now = self.now(t);
        if self.wakes_at.is_some_and(|at| at <= t) {
            self.wakes_at = None;
        }
        Ok(self.front().handle_timeout(now)?)
    }

    /// When the node is to be woken, if no wake-up is scheduled yet.
    pub(super) fn next_wake(&mut self, t: u64) -> Option<u64> {
        let now = self.now(t);
        let wake = self.frontier.as_ref().and_then(|frontier| frontier.poll_timeout(now))?;
        // Not at once again: everything due now was done.
        let wake = (t + wake.saturating_sub(now.mono)).max(t + 1);
        if self.wakes_at.is_some_and(|at| at <= wake) {
            return None;
        }
        self.wakes_at = Some(wake);
        Some(wake)
    }

    pub(super) fn state_hash(&mut self, partition: usize) -> Result<u64, Violation> {
        let place = self.place(partition);
        Ok(self.front().state(place).hash(Prefixes::ALL)?)
    }
}
