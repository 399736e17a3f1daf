//! A ticket: one permission to fetch one URL once.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::entry::Origin;
use crate::feed::record::Brought;
use crate::handler::ReadAs;
use crate::job::{Hops, JobId, Via};
use crate::key::UrlKey;
use crate::recrawl::claims::Listed;
use crate::spider::outcome::Outcome;
use crate::state::queue::{LaterKey, QueueKey};

/// The id of a ticket: the epoch of the issuer, and a serial number. Also the id of the fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketId(pub u64);

/// The low bits of a ticket's id, which number the tickets of an epoch.
const SERIAL_BITS: u32 = 40;

impl TicketId {
    /// The first id of an epoch.
    pub fn first(epoch: u64) -> TicketId {
        TicketId(epoch << SERIAL_BITS)
    }

    /// The next id.
    pub fn next(self) -> TicketId {
        TicketId(self.0 + 1)
    }

    /// The epoch of the issuer.
    pub fn epoch(self) -> u64 {
        self.0 >> SERIAL_BITS
    }
}

/// The purpose of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A page.
    Page,
    /// A robots.txt: the host's own, or the redirect target of another host's robots.txt.
    Robots,
}

/// One permission to fetch one URL once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The id, to be returned with the report.
    pub id: TicketId,
    /// The purpose.
    pub purpose: Purpose,
    /// The key of the URL.
    pub key: UrlKey,
    /// The URL as text.
    pub url: String,
    /// The only address to connect to: rate limits count by address.
    pub address: IpAddr,
    /// The job that requests the URL.
    pub job: JobId,
    /// Number of links from a seed.
    pub depth: u8,
    /// Links out of scope and redirects that led to the URL.
    pub hops: Hops,
    /// How to read the response.
    pub read_as: ReadAs,
    /// Number of earlier tries. For a robots.txt: 1 if this is a second try.
    pub retries: u8,
    /// Deadline of the report, in milliseconds on the monotonic clock. After that the ticket expires and the URL is
    /// retried.
    pub deadline: u64,
    /// The rest of the host in force when the ticket was issued.
    pub host_rest: Duration,
    /// The rest of the address in force.
    pub slot_rest: Duration,
    /// Validators of the last fetch that was reported and read; `None` for the first fetch.
    pub known: Option<Box<Validators>>,
    /// Whether to send a `HEAD` request first.
    pub head: HeadFirst,
    /// Where the URL was found, if known.
    pub via: Option<Arc<Via>>,
}

/// Whether a `HEAD` request precedes the page, because the server ignores conditional requests. Between two requests of
/// one ticket there is the same rest as between two tickets. So no `HEAD` request is sent unless that rest is short,
/// and the ticket has host and address exclusively.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeadFirst {
    /// No `HEAD` request.
    #[default]
    No,
    /// `HEAD` first; the page only if the answer to `HEAD` shows a change.
    Instead,
    /// `HEAD` first, and the page in any case: the answer to `HEAD` is verified.
    Check,
}

/// The answer to a `HEAD` request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadSaid {
    /// The page has the known version.
    Unchanged,
    /// The page has another version.
    Changed,
    /// No usable answer: no response, an error, no version.
    Nothing,
}

/// The validators of one version of a page, for a conditional request. One may be empty, never both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    /// The `ETag` header field.
    pub etag: Box<str>,
    /// The `Last-Modified` header field.
    pub last_modified: Box<str>,
}

/// The result of a fetch, reduced to the facts that the frontier needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The outcome.
    pub outcome: Outcome,
    /// The status code, 0 if there was none.
    pub status: u16,
    /// Response time of the server.
    pub took: Duration,
    /// `Retry-After`, if present and readable.
    pub retry_after: Option<Duration>,
    /// 64 bits of the payload's digest, 0 if there was none.
    pub digest: u64,
    /// Fingerprint of the main text ([`crate::simhash`]), 0 if no text was extracted.
    pub simhash: u64,
    /// Received bytes of the body.
    pub bytes: u64,
    /// The `ETag` header field.
    pub etag: Box<str>,
    /// The `Last-Modified` header field.
    pub last_modified: Box<str>,
    /// The server cannot have answered, or demands another kind of request: retry once, as soon as its host has rested.
    /// Only after a first try.
    pub again: bool,
    /// Whether the request was conditional.
    pub conditional: bool,
    /// The answer to the `HEAD` request, if one was sent.
    pub head: Option<HeadSaid>,
    /// The content of a followed feed.
    pub feed: Option<Box<Brought>>,
    /// Modification times of pages of the same host, as claimed by this sitemap or feed.
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
            simhash: 0,
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

/// The place that a loaded URL was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A place in the queue.
    Queue(QueueKey),
    /// A place in the queue, where the URL was parked.
    Parked(QueueKey),
    /// A place among the plans.
    Later(LaterKey),
}

impl Place {
    /// The origin, as written into an entry.
    pub fn origin(self) -> Origin {
        match self {
            Place::Queue(_) => Origin::Queue,
            Place::Parked(_) => Origin::Parked,
            Place::Later(_) => Origin::Later,
        }
    }

    /// The place in the queue, for a queued or parked URL.
    pub fn queue(self) -> Option<QueueKey> {
        match self {
            Place::Queue(place) | Place::Parked(place) => Some(place),
            Place::Later(_) => None,
        }
    }

    /// The place among the plans, for a planned URL.
    pub fn later(self) -> Option<LaterKey> {
        match self {
            Place::Later(place) => Some(place),
            Place::Queue(_) | Place::Parked(_) => None,
        }
    }
}
