//! A ticket: one permission to fetch one URL once.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::entry::Origin;
use crate::feed::record::Brought;
use crate::frontier::key::UrlKey;
use crate::handler::ReadAs;
use crate::job::{Hops, JobId, Via};
use crate::recrawl::claims::Listed;
use crate::spider::outcome::Outcome;
use crate::state::queue::{LaterKey, QueueKey};

/// Names a ticket: the epoch of whoever gave it out, and a number that grows. Also the id of the fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId(pub u64);

/// The bits of a ticket's id that count the tickets of an epoch.
const SERIAL_BITS: u32 = 40;

impl TicketId {
    /// The first of an epoch.
    pub fn first(epoch: u64) -> TicketId {
        TicketId(epoch << SERIAL_BITS)
    }

    /// The one behind it.
    pub fn next(self) -> TicketId {
        TicketId(self.0 + 1)
    }

    /// The epoch it was given out in.
    pub fn epoch(self) -> u64 {
        self.0 >> SERIAL_BITS
    }
}

/// What a ticket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The URL itself.
    Page,
    /// A robots.txt: the host's own, or what that of another host redirects to.
    Robots,
}

/// One permission to fetch one URL once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// Its name, to be given back with the report.
    pub id: TicketId,
    /// What it is for.
    pub purpose: Purpose,
    /// The URL.
    pub key: UrlKey,
    /// The URL as text.
    pub url: String,
    /// The address to dial, and no other: politeness counts by it.
    pub address: IpAddr,
    /// Who wants it.
    pub job: JobId,
    /// Links from a seed.
    pub depth: u8,
    /// Links out of scope and redirects that led to it.
    pub hops: Hops,
    /// How what comes back is to be read.
    pub read_as: ReadAs,
    /// How often it was tried before. For a robots.txt: 1 if this is a second try.
    pub retries: u8,
    /// Report before then (milliseconds on the clock that only moves forward), or it is given out again.
    pub deadline: u64,
    /// The rest in force for its host when it was given out.
    pub host_rest: Duration,
    /// The rest in force for its address.
    pub slot_rest: Duration,
    /// What the server said of the page when it was last fetched, reported and so read; none at the first time.
    pub known: Option<Box<Validators>>,
    /// Whether its head is asked for first.
    pub head: HeadFirst,
    /// Where the URL was found, if that is known.
    pub via: Option<Arc<Via>>,
}

/// Whether the head of a page is asked for before the page, because its server sends everything whatever is known of it.
/// Two requests of one ticket rest in between as two tickets would; so there is none unless that rest is short, and the
/// ticket has its host and its address to itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadFirst {
    /// No.
    #[default]
    No,
    /// Yes; the page itself only if its head has changed.
    Instead,
    /// Yes, and the page in any case: the word of the head is checked.
    Check,
}

/// What the head of a page said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSaid {
    /// It is as we know it.
    Unchanged,
    /// It is another version.
    Changed,
    /// Nothing of use: no answer, an error, no version.
    Nothing,
}

/// How a server names one version of a page, for a conditional request. Either may be empty, never both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// `ETag`.
    pub etag: Box<str>,
    /// `Last-Modified`.
    pub last_modified: Box<str>,
}

/// How a fetch went, as the frontier needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub outcome: Outcome,
    /// The status, 0 if there was none.
    pub status: u16,
    /// How long the server took.
    pub took: Duration,
    /// `Retry-After`, if there was one that could be read.
    pub retry_after: Option<Duration>,
    /// 64 bits of the payload's digest, 0 if there was none.
    pub digest: u64,
    /// Bytes of the body that were received.
    pub bytes: u64,
    /// `ETag`.
    pub etag: Box<str>,
    /// `Last-Modified`.
    pub last_modified: Box<str>,
    /// The server cannot have answered, or wants to be asked another way: once more, as soon as its host has rested. Only of
    /// a first try.
    pub again: bool,
    /// The request was conditional.
    pub conditional: bool,
    /// What its head said, if that was asked for first.
    pub head: Option<HeadSaid>,
    /// What a feed that is followed brought.
    pub feed: Option<Box<Brought>>,
    /// When pages of the same host were changed, by the word of this sitemap or feed.
    pub listed: Box<[Listed]>,
}

impl Report {
    /// A report with nothing but an outcome.
    pub fn of(outcome: Outcome, status: u16, took: Duration) -> Report {
        Report {
            outcome,
            status,
            took,
            retry_after: None,
            digest: 0,
            bytes: 0,
            etag: Box::default(),
            last_modified: Box::default(),
            again: false,
            conditional: false,
            head: None,
            feed: None,
            listed: Box::default(),
        }
    }
}

/// Where a URL at hand was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// This place in the queue.
    Queue(QueueKey),
    /// This place in the queue, where it was parked.
    Parked(QueueKey),
    /// This place among the plans.
    Later(LaterKey),
}

impl Place {
    /// As an entry says it.
    pub fn origin(self) -> Origin {
        match self {
            Place::Queue(_) => Origin::Queue,
            Place::Parked(_) => Origin::Parked,
            Place::Later(_) => Origin::Later,
        }
    }

    /// The place in the queue, if it is one.
    pub fn queue(self) -> Option<QueueKey> {
        match self {
            Place::Queue(place) | Place::Parked(place) => Some(place),
            Place::Later(_) => None,
        }
    }

    /// The place among the plans, if it is one.
    pub fn later(self) -> Option<LaterKey> {
        match self {
            Place::Later(place) => Some(place),
            Place::Queue(_) | Place::Parked(_) => None,
        }
    }
}
