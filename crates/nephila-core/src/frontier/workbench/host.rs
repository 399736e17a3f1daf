//! A host loaded in memory: its work, the facts known about the host, and the end of its rest.

use std::net::IpAddr;

use super::super::heads::Heads;
use super::super::ticket::TicketId;
use super::SlotIndex;
use super::errands::Errand;
use crate::budget::Spent;
use crate::key::HostKey;
use crate::spider::outcome::Outcome;
use crate::state::queue::{LaterKey, QueueKey};
use crate::state::record::HostRecord;
use crate::time::Seconds;

/// A host loaded in memory.
#[derive(Debug)]
pub(crate) struct ActiveHost {
    pub(crate) key: HostKey,
    pub(crate) origin: Box<str>,
    pub(crate) heads: Heads,
    /// Open tickets.
    pub(crate) tickets: Vec<TicketId>,
    /// Number of released tickets: their fetch is over and only the report is missing.
    pub(super) released: u32,
    /// URLs that have ended and whose entries are not folded yet, by the last part of their keys.
    pub(crate) unfolded: Vec<u64>,
    /// The host is stopped, or other hosts wait for its place: the host leaves as soon as allowed.
    pub(crate) leaving: bool,
    /// Read position in the queue.
    pub(crate) cursor: QueueKey,
    /// Read position in the plans.
    pub(crate) later_cursor: LaterKey,
    /// When the next plan is due, as far as known.
    pub(crate) later_next: Option<Seconds>,
    /// When the domain's budget admits the next parked URL, if the budget was exhausted.
    pub(crate) room_next: Option<Seconds>,
    /// The first parked URL that was skipped because the budget was exhausted: the floor of the queue stays before its
    /// place.
    pub(crate) parked_from: Option<QueueKey>,
    /// Whether the queue may have unread URLs.
    pub(crate) more: bool,
    /// Whether the host waits for URLs.
    pub(crate) hungry: bool,
    /// Whether the host received URLs since the host was loaded.
    pub(crate) visited: bool,
    /// How the last name resolution failed; `None` after a success.
    pub(crate) no_address: Option<Outcome>,
    /// Whether everything in the queue ends with that outcome. Otherwise the URLs stay in the queue.
    pub(crate) given_up: bool,
    /// State of the robots.txt; an expired robots.txt is fetched before any page.
    pub(crate) robots: RobotsPhase,
    /// Whether the next robots.txt request is the second try of the last.
    pub(super) robots_second: bool,
    /// Errands that wait with this host, first to last.
    pub(crate) errands: Vec<Errand>,
    /// Guest: loaded for errands alone. A guest takes no place of another host and gets no URLs of its own.
    pub(crate) guest: bool,
    /// Whether the last ticket was for an errand. Then the host's own work has the next turn.
    pub(super) errand_last: bool,
    /// Pages requested, including requests under way.
    pub(crate) pages: u64,
    /// Consecutive failed fetches caused by the host.
    pub(crate) failures: u8,
    /// Consecutive requests for missing pages, including those not yet in a group.
    pub(crate) missing: u32,
    /// Bytes received from the host today.
    pub(crate) spent: Spent,
    /// Up to when visits occupy the host's time, including visits not yet in a group.
    pub(crate) booked: Seconds,
    /// The rest demanded by robots.txt or the operator, in milliseconds.
    pub(crate) rest_asked: u32,
    /// The rest in force, in milliseconds.
    pub(super) rest: u32,
    /// No request starts before this moment.
    pub(super) ready_at: u64,
    /// Whether the host's last turn fell outside of its hours.
    pub(super) out_of_hours: bool,
    /// The moment under which the host waits in its slot.
    pub(super) waits_at: Option<u64>,
    pub(super) address: Option<IpAddr>,
    /// Whether the current address could not be reached.
    pub(super) address_dead: bool,
    /// Addresses to try next if the current address cannot be reached, first to last.
    pub(super) addresses_left: Box<[IpAddr]>,
    pub(super) slot: Option<SlotIndex>,
    pub(super) resolved_at: u64,
    pub(super) resolving: bool,
    /// Whether the host is in the list of names to resolve.
    pub(super) unresolved: bool,
}

/// State of a host's robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RobotsPhase {
    /// The robots.txt must be fetched before any page.
    Wanted,
    /// A ticket for the robots.txt is open, or its answer is in flight to the log.
    Asked,
    /// The robots.txt is in force until this time, on the wall clock.
    Until(Seconds),
}

impl ActiveHost {
    /// A new host, to be passed to [`super::Workbench::activate`].
    pub(crate) fn fresh(key: HostKey, origin: Box<str>) -> ActiveHost {
        ActiveHost {
            key,
            origin,
            heads: Heads::default(),
            tickets: Vec::new(),
            released: 0,
            unfolded: Vec::new(),
            leaving: false,
            cursor: QueueKey::MIN,
            later_cursor: LaterKey::MIN,
            later_next: None,
            room_next: None,
            parked_from: None,
            more: true,
            hungry: false,
            visited: false,
            no_address: None,
            given_up: false,
            robots: RobotsPhase::Wanted,
            robots_second: false,
            errands: Vec::new(),
            guest: false,
            errand_last: false,
            pages: 0,
            failures: 0,
            missing: 0,
            spent: Spent::default(),
            booked: Seconds(0),
            rest_asked: 0,
            rest: 0,
            ready_at: 0,
            out_of_hours: false,
            waits_at: None,
            address: None,
            address_dead: false,
            addresses_left: Box::default(),
            slot: None,
            resolved_at: 0,
            resolving: false,
            unresolved: true,
        }
    }

    /// Restores the facts in the host's record, except the queue positions.
    pub(crate) fn remember(&mut self, record: &HostRecord) {
        self.pages = record.pages;
        self.failures = record.failures;
        self.missing = record.missing;
        self.spent = record.spent;
        self.booked = record.claims.booked();
        self.rest_asked = record.delay.max(record.robots.crawl_delay);
    }

    /// The name or address of the host, without scheme and port.
    pub(super) fn name(&self) -> &str {
        let authority = self.origin.split_once("://").map_or(&*self.origin, |(_, authority)| authority);
        match authority.find(']') {
            Some(end) => &authority[..=end],
            None => authority.split(':').next().unwrap_or(authority),
        }
    }
}
