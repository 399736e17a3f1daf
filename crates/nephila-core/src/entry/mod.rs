//! What is written into a partition's log: everything that became true, and nothing that has to be asked again.
//!
//! Entries come in **groups**: what the owner commits at once. A group names the epoch of its owner and the group before
//! it, by number and by hash, so a gap, a rollback or a second writer is noticed by whoever folds it. The owner decides
//! first and writes the decision down (this URL is new and parked, that one is to be asked for again at this time); the
//! fold only carries it out.

pub mod aside;
mod bytes;
mod group;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::feed::record::Polled;
use crate::feed::source::Sighted;
use crate::frontier::key::{DomainKey, HostKey, Prefixes, UrlKey};
use crate::frontier::refusal::Refusal;
use crate::handler::ReadAs;
use crate::job::{Hops, Job, JobId, Via};
use crate::recrawl::claims::Forward;
use crate::recrawl::visited::Visited;
use crate::reflog::part::{Part, Streamed};
use crate::spider::outcome::Outcome;
use crate::state::queue::{LaterKey, QueueKey};
use crate::state::record::RobotsRecord;
use crate::time::{Seconds, Timestamp};

pub use aside::Aside;
pub(crate) use bytes::{get_entry, put_entry};
pub use group::{ChainError, Group, look, open, seal};

/// One thing that became true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// New URLs, by host.
    Found(Found),
    /// A fetch ended.
    Ended(Box<Ended>),
    /// A host's robots.txt was asked for.
    Robots(Box<RobotsRead>),
    /// An operator's word about a host.
    Host(HostChange),
    /// An operator's word about a domain.
    Domain(DomainChange),
    /// A job is new or has changed.
    Job(Box<Job>),
    /// A job is gone.
    JobRemoved(JobId),
    /// An inbox was read up to here.
    Inbox {
        /// Its name.
        name: Box<str>,
        /// How far.
        position: u64,
    },
    /// The partition holds only these prefixes from here on; the others went elsewhere.
    Split(Prefixes),
    /// A feed was asked.
    Polled(Box<Polled>),
    /// A part of a stream, as it travels to its partition. It stands in no log: the owner decides about it, and writes a
    /// [`Entry::Streamed`] instead.
    Stream(Box<Part>),
    /// A part of a stream was taken in.
    Streamed(Box<Streamed>),
    /// A page was visited again. Stands before the outcome of the visit.
    Visited(Visited),
    /// What whoever reads the log wants to know, and the fold does not. The last of its group.
    Aside(Box<Aside>),
    /// Pages were brought forward by the word of their site.
    Forward(Box<Forward>),
    /// A feed showed something to its source.
    Sighted(Box<Sighted>),
}

/// New URLs, found in the same second.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// When.
    pub at: Seconds,
    /// Where, sorted by key.
    pub hosts: Vec<FoundHost>,
}

/// New URLs of one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundHost {
    /// The host.
    pub key: HostKey,
    /// Its origin, if it is new itself.
    pub origin: Option<Box<str>>,
    /// Was its usual key taken by another host?
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
    /// Who wants it.
    pub job: JobId,
    /// Links from a seed.
    pub depth: u8,
    /// Links out of scope and redirects that led to it.
    pub hops: Hops,
    /// How what comes back is to be read.
    pub read_as: ReadAs,
    /// 0 is the most urgent.
    pub priority: u8,
    /// How often a stream named it.
    pub hits: u32,
    /// Where it was found, if that is known.
    pub via: Option<Arc<Via>>,
    /// What was decided.
    pub admission: Admission,
}

/// What was decided about a new URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Into the queue, at this place.
    Queue(QueueKey),
    /// Into the queue, behind all others.
    Park(QueueKey),
    /// Kept as a key alone.
    ParkBare,
    /// It was kept as a key alone, and is now let in at this place.
    Unpark(QueueKey),
    /// It is known and waiting, and is wanted sooner: this is its new place.
    Raise(QueueKey),
    /// Not to be asked for.
    Refuse(Refusal),
    /// It is known, has ended or is planned for later, and is wanted now: this is its place. Or it waits or is parked,
    /// stays so, and is from now on what this says: its depth, its reading.
    Again(QueueKey),
}

impl Admission {
    /// The place in the queue that it gives the URL, if any.
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

/// A fetch that ended, or a URL that was turned away just before one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The URL.
    pub key: UrlKey,
    /// Path and query.
    pub text: Box<str>,
    /// Which fetch it was. The same one reported again changes nothing.
    pub fetch: u64,
    /// When.
    pub at: Seconds,
    /// How.
    pub outcome: Outcome,
    /// The status, 0 if there was none.
    pub status: u16,
    /// 64 bits of the payload's digest, 0 if there was none.
    pub digest: u64,
    /// Bytes of the body that were received.
    pub bytes: u64,
    /// The shape of the URL and that of its folder, 0 if they are not watched.
    pub shapes: [u64; 2],
    /// So many equal pages close a shape.
    pub alike_max: u16,
    /// `ETag`.
    pub etag: Box<str>,
    /// `Last-Modified`.
    pub last_modified: Box<str>,
    /// Where it was taken from.
    pub from: Origin,
    /// When it is to be asked for again, if ever.
    pub next: Option<Seconds>,
    /// How often it was tried again since the last success.
    pub retries: u8,
    /// Everything in the host's queue up to here has ended.
    pub floor: QueueKey,
    /// Everything planned for the host up to here has ended.
    pub later_floor: LaterKey,
    /// The host rests until then, on the time of day; 0 if only as usual.
    pub rest_until: Timestamp,
    /// Fetches in a row that failed on the host's account, this one included.
    pub failures: u8,
}

/// The bit of [`Ended::fetch`] that says that there was none: the URL was turned away.
pub const NO_FETCH: u64 = 1 << 63;

/// Where a URL was taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The queue.
    Queue,
    /// The queue, where it was parked.
    Parked,
    /// The plans for later.
    Later,
}

/// A host's robots.txt was asked for, and this is what is now in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsRead {
    /// The host.
    pub host: HostKey,
    /// What is in force.
    pub record: RobotsRecord,
    /// The bytes, if new ones are in force.
    pub body: Option<Box<[u8]>>,
    /// The host rests until then, on the time of day; 0 if only as usual.
    pub rest_until: Timestamp,
    /// Fetches in a row that failed on the host's account.
    pub failures: u8,
}

/// An operator's word about a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostChange {
    /// Nobody may fetch from it; the text says why and who said so.
    Stop(HostKey, Box<str>),
    /// They may again.
    Resume(HostKey),
    /// Its rest, in milliseconds; 0 for the usual one.
    Delay(HostKey, u32),
}

/// An operator's word about a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainChange {
    /// How many URLs are let in; none for what the rule says.
    Budget(DomainKey, Option<u64>),
}
