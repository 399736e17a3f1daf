//! A host at hand: what it has to do, what is known of it, and when it has rested.

use std::net::IpAddr;

use super::super::budget::Spent;
use super::super::heads::Heads;
use super::super::key::HostKey;
use super::super::ticket::TicketId;
use super::SlotIndex;
use super::errands::Errand;
use crate::spider::outcome::Outcome;
use crate::state::queue::{LaterKey, QueueKey};
use crate::state::record::HostRecord;
use crate::time::Seconds;

/// A host at hand.
#[derive(Debug)]
pub(crate) struct ActiveHost {
    pub(crate) key: HostKey,
    pub(crate) origin: Box<str>,
    pub(crate) heads: Heads,
    /// Tickets open on it.
    pub(crate) tickets: Vec<TicketId>,
    /// How many of them were released: their fetch is over and only the report is missing.
    pub(super) released: u32,
    /// URLs that have ended and whose entries are not folded yet, by the last part of their keys.
    pub(crate) unfolded: Vec<u64>,
    /// Nobody may fetch from it, or others are waiting for its place: it leaves as soon as it may.
    pub(crate) leaving: bool,
    /// How far the queue was read.
    pub(crate) cursor: QueueKey,
    /// How far the plans were read.
    pub(crate) later_cursor: LaterKey,
    /// When the next plan is due, as far as known.
    pub(crate) later_next: Option<Seconds>,
    /// When its domain's budget lets in what is parked, if it was met.
    pub(crate) room_next: Option<Seconds>,
    /// The first parked URL that was passed over for want of room: its floor stays before it.
    pub(crate) parked_from: Option<QueueKey>,
    /// Is there anything to read in the queue?
    pub(crate) more: bool,
    /// Waiting for its turn to be filled?
    pub(crate) hungry: bool,
    /// Was it given URLs since it came?
    pub(crate) visited: bool,
    /// How its name failed to resolve, until it does.
    pub(crate) no_address: Option<Outcome>,
    /// Does everything it has end with that? Otherwise it waits in its queue.
    pub(crate) given_up: bool,
    /// What its robots.txt is worth; a ticket for it comes first when it has expired.
    pub(crate) robots: RobotsPhase,
    /// Is the next request for its robots.txt the second try of the last?
    pub(super) robots_second: bool,
    /// What it is to be asked for on behalf of others, first to last.
    pub(crate) errands: Vec<Errand>,
    /// Is it here for errands alone? Then it takes nobody's place and gets no URLs of its own.
    pub(crate) guest: bool,
    /// Was its last ticket for an errand? Then its own work has the next turn.
    pub(super) errand_last: bool,
    /// Pages that were asked for, those under way included.
    pub(crate) pages: u64,
    /// Fetches in a row that failed on its account.
    pub(crate) failures: u8,
    /// Requests in a row that found nothing, those in no group yet included.
    pub(crate) missing: u32,
    /// What it has sent today.
    pub(crate) spent: Spent,
    /// Up to when its time is taken up by visits, those in no group yet included.
    pub(crate) booked: Seconds,
    /// The rest that robots.txt or the operator ask for, in milliseconds.
    pub(crate) rest_asked: u32,
    /// The rest in force, in milliseconds.
    pub(super) rest: u32,
    /// No start before this moment.
    pub(super) ready_at: u64,
    /// Was its turn last outside of its hours?
    pub(super) out_of_hours: bool,
    /// The moment under which it waits in its slot.
    pub(super) waits_at: Option<u64>,
    pub(super) address: Option<IpAddr>,
    /// Could its address not be reached?
    pub(super) address_dead: bool,
    /// Where to go next if its address cannot be reached, first to last.
    pub(super) addresses_left: Box<[IpAddr]>,
    pub(super) slot: Option<SlotIndex>,
    pub(super) resolved_at: u64,
    pub(super) resolving: bool,
    /// Does it stand in the list of those to resolve?
    pub(super) unresolved: bool,
}

/// What a host's robots.txt is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RobotsPhase {
    /// It must be asked for before anything else.
    Wanted,
    /// A ticket for it is open, or its answer is on its way into the log.
    Asked,
    /// It is in force until then, on the time of day.
    Until(Seconds),
}

impl ActiveHost {
    /// A fresh host, to be given to [`super::Workbench::activate`].
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

    /// What is known of it from before, but for its queue.
    pub(crate) fn remember(&mut self, record: &HostRecord) {
        self.pages = record.pages;
        self.failures = record.failures;
        self.missing = record.missing;
        self.spent = record.spent;
        self.booked = record.claims.booked();
        self.rest_asked = record.delay.max(record.robots.crawl_delay);
    }

    /// Its name or address, without scheme and port.
    pub(super) fn name(&self) -> &str {
        let authority = self.origin.split_once("://").map_or(&*self.origin, |(_, authority)| authority);
        match authority.find(']') {
            Some(end) => &authority[..=end],
            None => authority.split(':').next().unwrap_or(authority),
        }
    }
}
