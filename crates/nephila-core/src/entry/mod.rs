//! The entries of a partition's log: every fact and decision that the state is made of, so that a replay decides
//! nothing.
//!
//! Entries come in **groups**: the entries that the owner commits at once. A group names the epoch of its owner and
//! the group before, by number and by hash, so the fold notices a gap, a rollback or a second writer. The owner
//! decides first and writes the decision down (this URL is new and parked, that URL is to be fetched again at this
//! time); the fold only carries out the decision.

mod bytes;
pub mod event_context;
mod group;
#[cfg(test)]
mod tests;

use crate::feed::record::Polled;
use crate::feed::source::Sighted;
use crate::job::{Job, JobId};
use crate::key::{DomainKey, HostKey, Prefixes, UrlKey};
use crate::recrawl::claims::Forward;
use crate::recrawl::visited::Visited;
use crate::reflog::part::{Part, Streamed};
use crate::refusal::Refusal;
use crate::spider::outcome::Outcome;
use crate::spread::DomainSpread;
use crate::state::queue::{LaterKey, QueueKey};
use crate::state::record::RobotsRecord;
use crate::time::{Seconds, Timestamp};
use crate::want::Want;

pub use crate::state::record::NO_FETCH;
pub(crate) use bytes::{get_entry, put_entry};
pub use event_context::EventContext;
pub use group::{ChainError, Group, look, open, seal};

/// One fact or decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// New URLs, by host.
    Found(FoundUrls),
    /// A fetch ended.
    Ended(Box<Ended>),
    /// A host's robots.txt was requested.
    Robots(Box<RobotsRead>),
    /// An operator's order about a host.
    Host(HostChange),
    /// An operator's order about a domain.
    Domain(DomainChange),
    /// A job is new or has changed.
    Job(Box<Job>),
    /// A job is gone.
    JobRemoved(JobId),
    /// An inbox was read up to here.
    Inbox {
        /// Its name.
        name: Box<str>,
        /// The position up to which the inbox was read.
        position: u64,
    },
    /// The partition holds only these prefixes from here on; the others moved to another partition.
    Split(Prefixes),
    /// A feed was polled.
    Polled(Box<Polled>),
    /// A part of a stream, as it travels to its partition. This entry stands in no log: the owner decides about the
    /// part and writes an [`Entry::Streamed`] instead.
    Stream(Box<Part>),
    /// A part of a stream was taken in.
    Streamed(Box<Streamed>),
    /// A page was visited again. Stands before the outcome of the visit.
    Visited(Visited),
    /// Facts for readers of the log that the fold does not need. The last entry of its group.
    EventContext(Box<EventContext>),
    /// Pages were brought forward because their site reported changes.
    Forward(Box<Forward>),
    /// A poll of a feed, for the record of the feed's source.
    Sighted(Box<Sighted>),
    /// The hosts of a domain are divided over the partitions from here on, except those that stay.
    Spread(DomainSpread),
}

/// New URLs, found in the same second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundUrls {
    /// When they were found.
    pub at: Seconds,
    /// By host, sorted by key.
    pub hosts: Vec<FoundHost>,
}

/// New URLs of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundHost {
    /// The host.
    pub key: HostKey,
    /// Its origin, if the host itself is new.
    pub origin: Option<Box<str>>,
    /// Whether another host already had its usual key.
    pub displaced: bool,
    /// The URLs.
    pub urls: Vec<FoundUrl>,
}

/// One new URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundUrl {
    /// The last part of its key.
    pub path: u64,
    /// Path and query.
    pub text: Box<str>,
    /// How the URL is wanted. There is no refusal here: the decision has the reason.
    pub want: Want,
    /// The decision.
    pub admission: Admission,
}

/// The decision about a new URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Into the queue, at this place.
    Queue(QueueKey),
    /// Into the queue, behind all others.
    Park(QueueKey),
    /// Kept as a key alone.
    ParkBare,
    /// So far kept as a key alone, now let in at this place.
    Unpark(QueueKey),
    /// Known and waiting, and wanted sooner: this is the new place.
    Raise(QueueKey),
    /// Not to be fetched.
    Refuse(Refusal),
    /// Known, ended or planned for later, and wanted now: this is the place. A URL that waits or is parked stays so,
    /// and takes over the job, the depth and the reading of this entry.
    Again(QueueKey),
}

impl Entry {
    /// Whether the entry only says how far an inbox was read.
    pub(crate) fn is_position(&self) -> bool {
        matches!(self, Entry::Inbox { .. })
    }
}

impl Admission {
    /// The place in the queue that the decision gives the URL, if any.
    pub(crate) fn place(&self) -> Option<QueueKey> {
        match self {
            Admission::Queue(place)
            | Admission::Park(place)
            | Admission::Unpark(place)
            | Admission::Raise(place)
            | Admission::Again(place) => Some(*place),
            Admission::ParkBare | Admission::Refuse(_) => None,
        }
    }
}

/// A fetch that ended, or a URL that was refused just before its fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The URL.
    pub key: UrlKey,
    /// Path and query.
    pub text: Box<str>,
    /// The number of the fetch, for deduplication: a second report of the same fetch changes nothing.
    pub fetch: u64,
    /// When the fetch ended.
    pub at: Seconds,
    /// How the fetch ended.
    pub outcome: Outcome,
    /// The status, 0 if there was none.
    pub status: u16,
    /// 64 bits of the payload's digest, 0 if there was none.
    pub digest: u64,
    /// Fingerprint of the main text, 0 if near-duplicates are not watched.
    pub simhash: u64,
    /// Bytes of the body that were received.
    pub bytes: u64,
    /// The shape of the URL and that of its folder, 0 if they are not watched.
    pub shapes: [u64; 2],
    /// This number of equal pages closes a shape.
    pub alike_max: u16,
    /// `ETag`.
    pub etag: Box<str>,
    /// `Last-Modified`.
    pub last_modified: Box<str>,
    /// Where the URL was taken from.
    pub from: Origin,
    /// When the URL is to be fetched again, if ever.
    pub next: Option<Seconds>,
    /// Number of retries since the last success.
    pub retries: u8,
    /// The floor of the host's queue: everything up to here has ended.
    pub floor: QueueKey,
    /// The floor of the host's plans: everything up to here has ended.
    pub later_floor: LaterKey,
    /// The host rests until then, on the time of day; 0 for the usual crawl delay alone.
    pub rest_until: Timestamp,
    /// Consecutive failures of the host, this fetch included.
    pub failures: u8,
}

/// Where a URL was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The queue.
    Queue,
    /// The queue, where the URL was parked.
    Parked,
    /// The plans for later.
    Later,
}

/// A host's robots.txt was requested, and these rules are now in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsRead {
    /// The host.
    pub host: HostKey,
    /// The rules in force.
    pub record: RobotsRecord,
    /// The bytes, if new ones are in force.
    pub body: Option<Box<[u8]>>,
    /// The host rests until then, on the time of day; 0 for the usual crawl delay alone.
    pub rest_until: Timestamp,
    /// Consecutive failures of the host.
    pub failures: u8,
}

/// An operator's order about a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostChange {
    /// No node may fetch from the host; the text has the reason and the author.
    Stop(HostKey, Box<str>),
    /// Fetches are allowed again.
    Resume(HostKey),
    /// Its crawl delay, in milliseconds; 0 for the usual one.
    Delay(HostKey, u32),
}

/// An operator's order about a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainChange {
    /// Number of URLs that are let in; none for the number by the rule.
    Budget(DomainKey, Option<u64>),
}
