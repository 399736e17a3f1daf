//! The records of URLs, hosts and domains, and their stored form.
//!
//! Every record begins with a byte that says which fields follow, so a rare field costs nothing where absent, and a
//! field that is added later is simply absent in older records.

use std::sync::Arc;

pub use super::robots::{RobotsPolicy, RobotsRecord, Unread};
use crate::budget::Spent;
use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::handler::ReadAs;
use crate::job::{Hops, JobId, Via};
use crate::recrawl::claims::Claims;
use crate::recrawl::rate::{Seen, Site};
use crate::recrawl::trust::Trust;
use crate::refusal::Refusal;
use crate::spider::outcome::Outcome;
use crate::state::queue::{LaterKey, QueueKey};
use crate::time::{Seconds, Timestamp};
use crate::trap::Alike;
use crate::want::Want;

/// The bit of [`Ended::fetch`](crate::entry::Ended::fetch) for a URL that was refused without a fetch.
pub const NO_FETCH: u64 = 1 << 63;

/// The state of a URL. Every URL that was ever admitted is in exactly one of these states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlState {
    /// In its host's queue.
    Waiting,
    /// Beyond its domain's budget: in its host's queue, behind all others, until the budget grows.
    Parked,
    /// Beyond even the limit of URLs parked with their text: only its key is kept, until the URL is offered again.
    ParkedBare,
    /// To be fetched (again), not before this time.
    Later(Seconds),
    /// Ended: no further fetch is planned.
    Ended,
    /// Not to be fetched.
    Refused(Refusal),
}

impl UrlState {
    /// Whether the URL will be fetched without a new offer, now or later.
    pub fn is_open(self) -> bool {
        matches!(self, UrlState::Waiting | UrlState::Parked | UrlState::Later(_))
    }
}

/// How the last fetch of a URL ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFetch {
    /// The number of the fetch, for deduplication: an outcome that is reported twice counts once.
    pub fetch: u64,
    /// When the fetch ended.
    pub at: Seconds,
    /// How the fetch ended.
    pub outcome: Outcome,
    /// The status, 0 if there was none.
    pub status: u16,
    /// 64 bits of the payload's digest, 0 if there was none.
    pub digest: u64,
    /// Whether the last visits found the page changed, the latest in the lowest bit.
    pub changes: u16,
    /// `ETag`, empty if there was none.
    pub etag: Box<str>,
    /// `Last-Modified`, empty if there was none.
    pub last_modified: Box<str>,
}

/// The record of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlRecord {
    /// The state of the URL.
    pub state: UrlState,
    /// The job that wanted the URL first.
    pub job: JobId,
    /// Links from a seed; 255 is 255 or more.
    pub depth: u8,
    /// Links out of scope and redirects on the way to the URL.
    pub hops: Hops,
    /// How the response is to be read.
    pub read_as: ReadAs,
    /// 0 is the most urgent.
    pub priority: u8,
    /// Number of retries since the last success.
    pub retries: u8,
    /// How often a stream named the URL.
    pub hits: u32,
    /// When the URL was first found.
    pub found: Seconds,
    /// Its last fetch.
    pub last: Option<Box<LastFetch>>,
    /// Path and query, once the URL has left the queue (the queue holds them before).
    pub text: Option<Box<str>>,
    /// The update tag of a stream, empty if none was given.
    pub tag: Box<str>,
    /// The visits so far, for the estimate of how often the page changes.
    pub seen: Seen,
    /// Where the URL was found first, if that is known.
    pub via: Option<Arc<Via>>,
}

/// The record of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostRecord {
    /// `https://example.com:8443`.
    pub origin: Box<str>,
    /// When the host was first found.
    pub found: Seconds,
    /// URLs in its queue, parked ones not counted.
    pub waiting: u64,
    /// URLs parked in its queue.
    pub parked: u64,
    /// URLs planned for a time of their own.
    pub later: u64,
    /// The earliest of these times, if there may be any.
    pub later_next: Seconds,
    /// Fetches that ended, robots.txt not counted.
    pub ended: u64,
    /// Pages that were requested, each counted once with all its retries; refused ones not counted.
    pub pages: u64,
    /// The floor of the queue: everything up to here has ended.
    pub floor: QueueKey,
    /// The floor of the plans: everything up to here has ended.
    pub later_floor: LaterKey,
    /// No fetch before this time, on the time of day: `Retry-After`, backoff.
    pub rest_until: Timestamp,
    /// Consecutive failures of the host.
    pub failures: u8,
    /// The crawl delay set by the operator, in milliseconds; 0 if none.
    pub delay: u32,
    /// The reason of an operator's stop; empty if the host may be fetched from.
    pub stopped: Box<str>,
    /// Its robots.txt.
    pub robots: RobotsRecord,
    /// Equal pages under one shape of URL.
    pub alike: Alike,
    /// How often its pages change.
    pub site: Site,
    /// How reliable its validators are.
    pub trust: Trust,
    /// How reliable its statements about changes of single pages are.
    pub claims: Claims,
    /// Consecutive requests that found nothing.
    pub missing: u32,
    /// Bytes sent on the last day on which the host sent any.
    pub spent: Spent,
}

/// The record of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainRecord {
    /// When the domain was first found.
    pub found: Seconds,
    /// Its hosts.
    pub hosts: u32,
    /// URLs let into queues, ever.
    pub admitted: u64,
    /// URLs parked with their text.
    pub parked: u64,
    /// URLs parked as keys alone.
    pub bare: u64,
    /// The operator's budget of URLs, instead of the budget by the rule.
    pub budget: Option<u64>,
}

mod field {
    pub(super) const RETRIES: u8 = 1;
    pub(super) const HITS: u8 = 2;
    pub(super) const LAST: u8 = 4;
    pub(super) const TEXT: u8 = 8;
    pub(super) const TAG: u8 = 16;
    pub(super) const HOPS: u8 = 32;
    pub(super) const READ_AS: u8 = 64;
    pub(super) const SEEN: u8 = 128;
    /// A bit of the second byte, beside the state: the place where the URL was found is written last.
    pub(super) const VIA: u8 = 128;
}

impl UrlRecord {
    /// Whether the URL was ever requested, as far as the record shows.
    pub fn was_asked(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.fetch & NO_FETCH == 0)
    }

    /// A URL just let in.
    pub fn new(state: UrlState, job: JobId, depth: u8, priority: u8, found: Seconds) -> Self {
        UrlRecord {
            state,
            job,
            depth,
            hops: Hops::NONE,
            read_as: ReadAs::Page,
            priority,
            retries: 0,
            hits: 0,
            found,
            last: None,
            text: None,
            tag: Box::default(),
            seen: Seen::default(),
            via: None,
        }
    }

    /// A URL just let in, as wanted.
    pub(crate) fn of(state: UrlState, want: &Want, found: Seconds) -> Self {
        let Want { job, depth, hops, read_as, priority, hits, .. } = *want;
        let via = want.via.clone();
        UrlRecord { hops, read_as, hits, via, ..UrlRecord::new(state, job, depth, priority, found) }
    }

    /// How the URL is wanted once more, with the same properties.
    pub(crate) fn want(&self) -> Want {
        let UrlRecord { job, depth, hops, read_as, priority, .. } = *self;
        Want { depth, hops, read_as, priority, ..Want::of(job) }
    }

    /// Another job has it from now on, and found it in a way of its own.
    pub(crate) fn belongs_to(&mut self, want: &Want) {
        (self.job, self.depth, self.hops) = (want.job, want.depth, want.hops);
        if want.via.is_some() {
            self.via.clone_from(&want.via);
        }
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = 0;
        let mut set = |present: bool, bit: u8| fields |= if present { bit } else { 0 };
        set(self.retries > 0, field::RETRIES);
        set(self.hits > 0, field::HITS);
        set(self.last.is_some(), field::LAST);
        set(self.text.is_some(), field::TEXT);
        set(!self.tag.is_empty(), field::TAG);
        set(!self.hops.is_none(), field::HOPS);
        set(!self.read_as.is_page(), field::READ_AS);
        set(self.seen != Seen::default(), field::SEEN);
        out.push(fields);
        let state_at = out.len();
        match self.state {
            UrlState::Waiting => out.push(0),
            UrlState::Parked => out.push(1),
            UrlState::ParkedBare => out.push(2),
            UrlState::Later(due) => {
                out.push(3);
                put_u64(out, due.0.into());
            }
            UrlState::Ended => out.push(4),
            UrlState::Refused(refusal) => out.extend([5, refusal.code()]),
        }
        // A key alone is all that is left of such a URL: nine bytes with it, not twenty.
        if self.state == UrlState::ParkedBare {
            return;
        }
        if self.via.is_some() {
            out[state_at] |= field::VIA;
        }
        put_u64(out, self.job.0.into());
        out.extend([self.depth, self.priority]);
        put_u64(out, self.found.0.into());
        if self.retries > 0 {
            out.push(self.retries);
        }
        if self.hits > 0 {
            put_u64(out, self.hits.into());
        }
        if let Some(last) = &self.last {
            put_u64(out, last.fetch);
            put_u64(out, last.at.0.into());
            out.push(last.outcome.code());
            put_u64(out, last.status.into());
            out.extend(last.digest.to_be_bytes());
            put_u64(out, last.changes.into());
            put_bytes(out, last.etag.as_bytes());
            put_bytes(out, last.last_modified.as_bytes());
        }
        if let Some(text) = &self.text {
            put_bytes(out, text.as_bytes());
        }
        if !self.tag.is_empty() {
            put_bytes(out, self.tag.as_bytes());
        }
        if !self.hops.is_none() {
            out.push(self.hops.code());
        }
        if !self.read_as.is_page() {
            out.push(self.read_as.code());
        }
        if self.seen != Seen::default() {
            self.seen.put(out);
        }
        if let Some(via) = &self.via {
            via.put(out);
        }
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<UrlRecord, Damaged> {
        let mut reader = Reader::new(bytes);
        let fields = reader.u8("fields of a URL")?;
        let has = |bit| fields & bit != 0;
        let state = reader.u8("state of a URL")?;
        let has_via = state & field::VIA != 0;
        let state = match state & !field::VIA {
            0 => UrlState::Waiting,
            1 => UrlState::Parked,
            2 => UrlState::ParkedBare,
            3 => UrlState::Later(Seconds(reader.u32("due time of a URL")?)),
            4 => UrlState::Ended,
            5 => {
                let code = reader.u8("refusal of a URL")?;
                UrlState::Refused(Refusal::by_code(code).ok_or(Damaged("refusal of a URL"))?)
            }
            _ => return Err(Damaged("state of a URL")),
        };
        if state == UrlState::ParkedBare {
            return Ok(UrlRecord::new(state, JobId(0), 0, 0, Seconds(0)));
        }
        let job = JobId(reader.u32("job of a URL")?);
        let (depth, priority) = (reader.u8("depth of a URL")?, reader.u8("priority of a URL")?);
        let found = Seconds(reader.u32("first time of a URL")?);
        let mut record = UrlRecord::new(state, job, depth, priority, found);
        if has(field::RETRIES) {
            record.retries = reader.u8("retries of a URL")?;
        }
        if has(field::HITS) {
            record.hits = reader.u32("hits of a URL")?;
        }
        if has(field::LAST) {
            record.last = Some(Box::new(LastFetch {
                fetch: reader.u64("fetch of a URL")?,
                at: Seconds(reader.u32("last time of a URL")?),
                outcome: Outcome::by_code(reader.u8("outcome of a URL")?)
                    .ok_or(Damaged("outcome of a URL"))?,
                status: reader.u32("status of a URL")? as u16,
                digest: reader.fixed_u64("digest of a URL")?,
                changes: reader.u32("changes of a URL")? as u16,
                etag: reader.text("ETag of a URL")?.into(),
                last_modified: reader.text("Last-Modified of a URL")?.into(),
            }));
        }
        if has(field::TEXT) {
            record.text = Some(reader.text("text of a URL")?.into());
        }
        if has(field::TAG) {
            record.tag = reader.text("tag of a URL")?.into();
        }
        if has(field::HOPS) {
            record.hops = Hops::by_code(reader.u8("hops of a URL")?);
        }
        if has(field::READ_AS) {
            let code = reader.u8("reading of a URL")?;
            record.read_as = ReadAs::by_code(code).ok_or(Damaged("reading of a URL"))?;
        }
        if has(field::SEEN) {
            record.seen = Seen::read(&mut reader)?;
        }
        if has_via {
            record.via = Some(Arc::new(Via::read(&mut reader)?));
        }
        Ok(record)
    }
}

/// The layout of [`HostRecord`] and [`DomainRecord`].
const VERSION: u8 = 1;

impl HostRecord {
    /// A host just found.
    pub fn new(origin: &str, found: Seconds) -> Self {
        HostRecord { origin: origin.into(), found, ..HostRecord::default() }
    }

    /// Whether there are URLs to fetch, now or later, parked URLs not counted.
    pub fn has_work(&self) -> bool {
        self.waiting > 0 || self.later > 0
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_bytes(out, self.origin.as_bytes());
        put_u64(out, self.found.0.into());
        for number in [self.waiting, self.parked, self.later, self.later_next.0.into(), self.ended] {
            put_u64(out, number);
        }
        out.extend(self.floor.to_bytes());
        out.extend(self.later_floor.to_bytes());
        put_u64(out, self.rest_until.0);
        out.push(self.failures);
        put_u64(out, self.delay.into());
        put_bytes(out, self.stopped.as_bytes());
        self.robots.encode(out);
        let alike = if self.alike.is_empty() { Vec::new() } else { self.alike.encode() };
        put_bytes(out, &alike);
        // Added later: absent in older records.
        let spent = !self.spent.is_none();
        let missing = spent || self.missing > 0;
        let claims = missing || self.claims != Claims::default();
        let visited = claims || (self.site, self.trust) != Default::default();
        if self.pages > 0 || visited {
            put_u64(out, self.pages);
        }
        if visited {
            self.site.put(out);
            self.trust.put(out);
        }
        if claims {
            self.claims.put(out);
        }
        if missing {
            put_u64(out, self.missing.into());
        }
        if spent {
            self.spent.put(out);
        }
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<HostRecord, Damaged> {
        let mut reader = Reader::new(bytes);
        if reader.u8("version of a host")? != VERSION {
            return Err(Damaged("version of a host"));
        }
        let origin = reader.text("origin of a host")?.into();
        let found = Seconds(reader.u32("first time of a host")?);
        let mut number = || reader.u64("counts of a host");
        let (waiting, parked, later, later_next, ended) =
            (number()?, number()?, number()?, number()?, number()?);
        Ok(HostRecord {
            origin,
            found,
            waiting,
            parked,
            later,
            later_next: Seconds(u32::try_from(later_next).map_err(|_| Damaged("next time of a host"))?),
            ended,
            floor: QueueKey::from_bytes(reader.take(QueueKey::BYTES, "floor of a host")?),
            later_floor: LaterKey::from_bytes(reader.take(LaterKey::BYTES, "floor of a host")?),
            rest_until: Timestamp(reader.u64("rest of a host")?),
            failures: reader.u8("failures of a host")?,
            delay: reader.u32("delay of a host")?,
            stopped: reader.text("stop of a host")?.into(),
            robots: RobotsRecord::decode(&mut reader)?,
            alike: match reader.bytes("shapes of a host")? {
                [] => Alike::default(),
                bytes => Alike::decode(bytes)?,
            },
            pages: if reader.is_empty() { 0 } else { reader.u64("pages of a host")? },
            site: if reader.is_empty() { Site::default() } else { Site::read(&mut reader)? },
            trust: if reader.is_empty() { Trust::default() } else { Trust::read(&mut reader)? },
            claims: if reader.is_empty() { Claims::default() } else { Claims::read(&mut reader)? },
            missing: if reader.is_empty() { 0 } else { reader.u32("row of a host")? },
            spent: if reader.is_empty() { Spent::default() } else { Spent::read(&mut reader)? },
        })
    }
}

impl DomainRecord {
    /// A domain just found.
    pub fn new(found: Seconds) -> Self {
        DomainRecord { found, ..DomainRecord::default() }
    }

    /// Appends the stored form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_u64(out, self.found.0.into());
        for number in [self.hosts.into(), self.admitted, self.parked, self.bare] {
            put_u64(out, number);
        }
        // 0 is none, so that a budget of zero differs from none.
        put_u64(out, self.budget.map_or(0, |budget| budget.saturating_add(1)));
    }

    /// Reads the stored form.
    pub fn decode(bytes: &[u8]) -> Result<DomainRecord, Damaged> {
        let mut reader = Reader::new(bytes);
        if reader.u8("version of a domain")? != VERSION {
            return Err(Damaged("version of a domain"));
        }
        Ok(DomainRecord {
            found: Seconds(reader.u32("first time of a domain")?),
            hosts: reader.u32("hosts of a domain")?,
            admitted: reader.u64("counts of a domain")?,
            parked: reader.u64("counts of a domain")?,
            bare: reader.u64("counts of a domain")?,
            budget: reader.u64("budget of a domain")?.checked_sub(1),
        })
    }
}

#[cfg(test)]
mod tests;
