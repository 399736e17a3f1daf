//! Lists of hosts for users: one row per host, with its record and its standing on the workbench.
//!
//! Read-only. The cost of a page is one range read of the state and one lookup on the workbench per row, so a caller
//! reads a long list page by page and leaves the deciding thread free in between.

use std::net::IpAddr;

use super::Frontier;
use super::views::HOSTS_PAGE_MAX;
use crate::key::HostKey;
use crate::state::record::{HostRecord, RobotsRecord};
use crate::state::{State, StateError};
use crate::time::{Now, Seconds};

/// What a host does, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostState {
    /// A request is under way.
    Busy,
    /// It has URLs, and its rest is over.
    Ready,
    /// It is in its crawl delay, or its address rests.
    Resting,
    /// It rests after failures.
    BackingOff,
    /// It waits for URLs, for an address, or for a place on the workbench.
    Loading,
    /// An operator stopped it.
    Stopped,
    /// It has no URLs.
    Idle,
}

impl HostState {
    /// All states.
    pub const ALL: [HostState; 7] = [
        HostState::Busy,
        HostState::Ready,
        HostState::Resting,
        HostState::BackingOff,
        HostState::Loading,
        HostState::Stopped,
        HostState::Idle,
    ];

    /// The name in answers and filters.
    pub const fn name(self) -> &'static str {
        match self {
            HostState::Busy => "busy",
            HostState::Ready => "ready",
            HostState::Resting => "resting",
            HostState::BackingOff => "backing_off",
            HostState::Loading => "loading",
            HostState::Stopped => "stopped",
            HostState::Idle => "idle",
        }
    }
}

/// A host in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRow {
    /// Its key.
    pub key: HostKey,
    /// Scheme and authority.
    pub origin: Box<str>,
    /// What it does.
    pub state: HostState,
    /// The address to connect to, while the host is on the workbench.
    pub address: Option<IpAddr>,
    /// URLs in its queue.
    pub queued: u64,
    /// URLs planned for a time of their own.
    pub later: u64,
    /// URLs beyond the budget.
    pub parked: u64,
    /// Fetches that ended.
    pub ended: u64,
    /// Consecutive failures.
    pub failures: u8,
    /// Milliseconds until its rest and that of its address are over. None if an operator stopped it.
    pub ready_in: Option<u64>,
    /// The rest between two requests in milliseconds: the rest in force on the workbench, otherwise the longest that
    /// settings, operator and robots.txt ask for.
    pub rest_ms: u64,
    /// Why an operator stopped it; empty if nobody did.
    pub stopped: Box<str>,
    /// When it was first found.
    pub found: Seconds,
    /// Its robots.txt.
    pub robots: RobotsRecord,
}

impl<S: State> Frontier<S> {
    /// The first hosts from a key on, in the order of keys; at most [`HOSTS_PAGE_MAX`]. The next page begins with
    /// [`HostKey::next`] of the last row.
    pub fn host_rows(
        &mut self,
        from: Option<HostKey>,
        max: usize,
        now: Now,
    ) -> Result<Vec<HostRow>, StateError> {
        let hosts = self.hosts_page(from, max.min(HOSTS_PAGE_MAX))?;
        Ok(hosts.into_iter().map(|(key, record)| self.host_row(key, record, now)).collect())
    }

    /// The rest between two requests in milliseconds, as [`HostRow::rest_ms`].
    pub(super) fn rest_ms(&self, key: &HostKey, record: &HostRecord, now: Now) -> u64 {
        let own = self.config.frontier.host_delay.as_millis() as u64;
        let asked = u64::from(record.delay.max(record.robots.crawl_delay));
        match self.bench.index(key) {
            Some(index) => self.bench.row(index, now.mono).2.into(),
            None => own.max(asked),
        }
    }

    fn host_row(&self, key: HostKey, record: HostRecord, now: Now) -> HostRow {
        let ready_in = self.ready_in(&key, Some(&record), now);
        let index = self.bench.index(&key);
        let has_urls = record.waiting + record.later > 0;
        let (live, address) = match index {
            Some(index) => {
                let (state, address, _) = self.bench.row(index, now.mono);
                (Some(state), address)
            }
            None => (None, None),
        };
        let rest_ms = self.rest_ms(&key, &record, now);
        let state = match live {
            _ if !record.stopped.is_empty() => HostState::Stopped,
            Some(HostState::Loading) if !has_urls => HostState::Idle,
            Some(state) => state,
            None if ready_in.is_some_and(|left| left > 0) && record.failures > 0 => HostState::BackingOff,
            None if !has_urls => HostState::Idle,
            None if ready_in.is_some_and(|left| left > 0) => HostState::Resting,
            None => HostState::Loading,
        };
        HostRow {
            key,
            origin: record.origin,
            state,
            address,
            queued: record.waiting,
            later: record.later,
            parked: record.parked,
            ended: record.ended,
            failures: record.failures,
            ready_in,
            rest_ms,
            stopped: record.stopped,
            found: record.found,
            robots: record.robots,
        }
    }
}
