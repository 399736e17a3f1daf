//! Entries as bytes. URLs are sorted by host and text and written as differences from the URL before (prefix
//! compression), so that a group of links from one site takes a third of its text even before deflate.

use super::{
    Admission, DomainChange, Ended, Entry, EventContext, FoundHost, FoundUrl, FoundUrls, HostChange, Origin,
    RobotsRead,
};
use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::feed::record::Polled;
use crate::feed::source::Sighted;
use crate::job::JobId;
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
use crate::want::{Behind, Want};

/// The first byte of an entry. These numbers never change.
mod kind {
    pub(super) const FOUND: u8 = 1;
    pub(super) const ENDED: u8 = 2;
    pub(super) const ROBOTS: u8 = 3;
    pub(super) const HOST_STOP: u8 = 4;
    pub(super) const HOST_RESUME: u8 = 5;
    pub(super) const HOST_DELAY: u8 = 6;
    pub(super) const DOMAIN_BUDGET: u8 = 7;
    pub(super) const JOB: u8 = 8;
    pub(super) const JOB_REMOVED: u8 = 9;
    pub(super) const INBOX: u8 = 10;
    pub(super) const SPLIT: u8 = 11;
    pub(super) const POLLED: u8 = 12;
    pub(super) const STREAM: u8 = 13;
    pub(super) const STREAMED: u8 = 14;
    pub(super) const VISITED: u8 = 15;
    pub(super) const EVENT_CONTEXT: u8 = 16;
    pub(super) const FORWARD: u8 = 18;
    pub(super) const SIGHTED: u8 = 19;
    pub(super) const STREAM_WITH_PAGES: u8 = 20;
    pub(super) const SPREAD: u8 = 21;
}

pub(crate) fn put_entry(out: &mut Vec<u8>, entry: &Entry) {
    match entry {
        Entry::Found(found) => put_found(out, found),
        Entry::Ended(ended) => put_ended(out, ended),
        Entry::Robots(read) => put_robots(out, read),
        Entry::Host(HostChange::Stop(host, why)) => {
            out.push(kind::HOST_STOP);
            out.extend(host.to_bytes());
            put_bytes(out, why.as_bytes());
        }
        Entry::Host(HostChange::Resume(host)) => {
            out.push(kind::HOST_RESUME);
            out.extend(host.to_bytes());
        }
        Entry::Host(HostChange::Delay(host, delay)) => {
            out.push(kind::HOST_DELAY);
            out.extend(host.to_bytes());
            put_u64(out, (*delay).into());
        }
        Entry::Domain(DomainChange::Budget(domain, budget)) => {
            out.push(kind::DOMAIN_BUDGET);
            out.extend(domain.0.to_be_bytes());
            out.push(budget.is_some().into());
            budget.iter().for_each(|budget| put_u64(out, *budget));
        }
        Entry::Job(job) => {
            out.push(kind::JOB);
            put_bytes(out, &serde_json::to_vec(job).expect("a job has no maps with odd keys"));
        }
        Entry::JobRemoved(job) => {
            out.push(kind::JOB_REMOVED);
            put_u64(out, job.0.into());
        }
        Entry::Inbox { name, position } => {
            out.push(kind::INBOX);
            put_bytes(out, name.as_bytes());
            put_u64(out, *position);
        }
        Entry::Split(prefixes) => {
            out.push(kind::SPLIT);
            put_u64(out, prefixes.first.into());
            put_u64(out, prefixes.last.into());
        }
        Entry::Polled(polled) => {
            out.push(kind::POLLED);
            polled.put(out);
        }
        Entry::Stream(part) if part.has_pages() => {
            out.push(kind::STREAM_WITH_PAGES);
            part.put(out);
            part.put_pages(out);
        }
        Entry::Stream(part) => {
            out.push(kind::STREAM);
            part.put(out);
        }
        Entry::Streamed(streamed) => {
            out.push(kind::STREAMED);
            streamed.put(out);
        }
        Entry::Visited(visited) => {
            out.push(kind::VISITED);
            visited.put(out);
        }
        Entry::EventContext(context) => {
            out.push(kind::EVENT_CONTEXT);
            context.put(out);
        }
        Entry::Forward(forward) => {
            out.push(kind::FORWARD);
            forward.put(out);
        }
        Entry::Sighted(sighted) => {
            out.push(kind::SIGHTED);
            sighted.put(out);
        }
        Entry::Spread(spread) => {
            out.push(kind::SPREAD);
            spread.put(out);
        }
    }
}

pub(crate) fn get_entry(reader: &mut Reader<'_>) -> Result<Entry, Damaged> {
    Ok(match reader.u8("kind of an entry")? {
        kind::FOUND => Entry::Found(get_found(reader)?),
        kind::ENDED => Entry::Ended(Box::new(get_ended(reader)?)),
        kind::ROBOTS => Entry::Robots(Box::new(get_robots(reader)?)),
        kind::HOST_STOP => {
            Entry::Host(HostChange::Stop(get_host(reader)?, reader.text("reason of a stop")?.into()))
        }
        kind::HOST_RESUME => Entry::Host(HostChange::Resume(get_host(reader)?)),
        kind::HOST_DELAY => Entry::Host(HostChange::Delay(get_host(reader)?, reader.u32("delay")?)),
        kind::DOMAIN_BUDGET => Entry::Domain(DomainChange::Budget(
            DomainKey(reader.fixed_u64("domain")?),
            match reader.u8("budget")? {
                0 => None,
                _ => Some(reader.u64("budget")?),
            },
        )),
        kind::JOB => {
            let job = serde_json::from_slice(reader.bytes("job")?).map_err(|_| Damaged("job"))?;
            Entry::Job(Box::new(job))
        }
        kind::JOB_REMOVED => Entry::JobRemoved(JobId(reader.u32("job")?)),
        kind::INBOX => Entry::Inbox { name: reader.text("inbox")?.into(), position: reader.u64("inbox")? },
        kind::SPLIT => {
            let mut prefix = || u16::try_from(reader.u64("split")?).map_err(|_| Damaged("split"));
            Entry::Split(Prefixes { first: prefix()?, last: prefix()? })
        }
        kind::POLLED => Entry::Polled(Box::new(Polled::read(reader)?)),
        kind::VISITED => Entry::Visited(Visited::read(reader)?),
        kind::EVENT_CONTEXT => Entry::EventContext(Box::new(EventContext::read(reader)?)),
        kind::FORWARD => Entry::Forward(Box::new(Forward::read(reader)?)),
        kind::SIGHTED => Entry::Sighted(Box::new(Sighted::read(reader)?)),
        kind::SPREAD => Entry::Spread(DomainSpread::read(reader)?),
        kind::STREAM_WITH_PAGES => Entry::Stream(Box::new(Part::read_with_pages(reader)?)),
        kind::STREAM => Entry::Stream(Box::new(Part::read(reader)?)),
        kind::STREAMED => Entry::Streamed(Box::new(Streamed::read(reader)?)),
        _ => return Err(Damaged("kind of an entry")),
    })
}

fn get_host(reader: &mut Reader<'_>) -> Result<HostKey, Damaged> {
    let bytes = reader.take(HostKey::BYTES, "host")?;
    Ok(HostKey::from_bytes(bytes.try_into().expect("as many were taken")))
}

fn get_place(reader: &mut Reader<'_>) -> Result<QueueKey, Damaged> {
    Ok(QueueKey::from_bytes(reader.take(QueueKey::BYTES, "place in a queue")?))
}

/// Bits of the byte before a URL; the other bits belong to its [`Want`].
mod url {
    /// The low bits: the decision.
    pub(super) const ADMISSION: u8 = 7;
    /// In place of the decision: the decision is in the next byte, and the want has attributes without a bit.
    pub(super) const MORE: u8 = 7;
    /// The place has the same band and age as the place before; its last part is the low half of the key.
    pub(super) const USUAL_PLACE: u8 = 16;
}

fn put_found(out: &mut Vec<u8>, found: &FoundUrls) {
    out.push(kind::FOUND);
    put_u64(out, found.at.0.into());
    put_u64(out, found.hosts.len() as u64);
    let mut before_place = QueueKey::MIN;
    for host in &found.hosts {
        out.extend(host.key.to_bytes());
        put_u64(
            out,
            (host.urls.len() as u64) << 2 | u64::from(host.displaced) << 1 | u64::from(host.origin.is_some()),
        );
        if let Some(origin) = &host.origin {
            put_bytes(out, origin.as_bytes());
        }
        let mut before: Option<&FoundUrl> = None;
        for this in &host.urls {
            put_found_url(out, this, before, &mut before_place);
            before = Some(this);
        }
    }
}

fn put_found_url(out: &mut Vec<u8>, this: &FoundUrl, before: Option<&FoundUrl>, before_place: &mut QueueKey) {
    let want = Behind::new(&this.want, before.map(|before| &before.want));
    let (admission, place) = match this.admission {
        Admission::Queue(place) => (0, Some(place)),
        Admission::Park(place) => (1, Some(place)),
        Admission::ParkBare => (2, None),
        Admission::Unpark(place) => (3, Some(place)),
        Admission::Raise(place) => (4, Some(place)),
        Admission::Refuse(_) => (5, None),
        Admission::Again(place) => (6, Some(place)),
    };
    let usual = QueueKey { low: this.path as u32, ..*before_place };
    let mut flags = want.bits() | if want.has_more() { url::MORE } else { admission };
    if place == Some(usual) {
        flags |= url::USUAL_PLACE;
    }
    out.push(flags);
    if want.has_more() {
        out.push(admission);
    }
    if let Admission::Refuse(refusal) = this.admission {
        out.push(refusal.code());
    }
    if let Some(place) = place {
        if place != usual {
            out.extend(place.to_bytes());
        }
        *before_place = place;
    }
    want.put(out);
    out.extend(this.path.to_be_bytes());
    let shared = before.map_or(0, |before| {
        let pairs = before.text.bytes().zip(this.text.bytes());
        let shared = pairs.take_while(|(a, b)| a == b).count();
        // The prefix ends at a character boundary: the bytes read back must be text.
        (0..=shared).rev().find(|&at| this.text.is_char_boundary(at)).unwrap_or(0)
    });
    put_u64(out, shared as u64);
    put_bytes(out, &this.text.as_bytes()[shared..]);
}

fn get_found(reader: &mut Reader<'_>) -> Result<FoundUrls, Damaged> {
    let at = Seconds(reader.u32("time of a finding")?);
    let mut found = FoundUrls { at, hosts: Vec::new() };
    let mut before_place = QueueKey::MIN;
    for _ in 0..reader.u64("number of hosts")? {
        let key = get_host(reader)?;
        let head = reader.u64("number of URLs")?;
        let origin = match head & 1 {
            0 => None,
            _ => Some(reader.text("origin")?.into()),
        };
        let mut urls: Vec<FoundUrl> = Vec::new();
        for _ in 0..head >> 2 {
            let url = get_found_url(reader, urls.last(), &mut before_place)?;
            urls.push(url);
        }
        found.hosts.push(FoundHost { key, origin, displaced: head & 2 != 0, urls });
    }
    Ok(found)
}

fn get_found_url(
    reader: &mut Reader<'_>,
    before: Option<&FoundUrl>,
    before_place: &mut QueueKey,
) -> Result<FoundUrl, Damaged> {
    let flags = reader.u8("flags of a URL")?;
    let has_more = flags & url::ADMISSION == url::MORE;
    let admission = match has_more {
        true => reader.u8("admission of a URL")?,
        false => flags & url::ADMISSION,
    };
    let refusal = match admission {
        5 => Some(Refusal::by_code(reader.u8("refusal")?).ok_or(Damaged("refusal"))?),
        _ => None,
    };
    let usual = flags & url::USUAL_PLACE != 0;
    let mut place = *before_place;
    if matches!(admission, 0 | 1 | 3 | 4 | 6) && !usual {
        place = get_place(reader)?;
    }
    let want = Want::read_behind(reader, flags, has_more, before.map(|before| &before.want))?;
    let path = reader.fixed_u64("key of a URL")?;
    if usual {
        place.low = path as u32;
    }
    let admission = match admission {
        0 => Admission::Queue(place),
        1 => Admission::Park(place),
        2 => Admission::ParkBare,
        3 => Admission::Unpark(place),
        4 => Admission::Raise(place),
        5 => Admission::Refuse(refusal.expect("read above")),
        6 => Admission::Again(place),
        _ => return Err(Damaged("admission of a URL")),
    };
    if !matches!(admission, Admission::ParkBare | Admission::Refuse(_)) {
        *before_place = place;
    }
    let shared = usize::try_from(reader.u64("text of a URL")?).map_err(|_| Damaged("text of a URL"))?;
    let prefix = match before {
        Some(before) => before.text.get(..shared).ok_or(Damaged("text of a URL"))?,
        None if shared == 0 => "",
        None => return Err(Damaged("text of a URL")),
    };
    let suffix = reader.text("text of a URL")?;
    let text = [prefix, suffix].concat().into_boxed_str();
    Ok(FoundUrl { path, text, want, admission })
}

/// Bits of the byte behind a digest.
mod ended {
    /// Two shapes follow.
    pub(super) const SHAPES: u8 = 1;
    /// The bytes received follow; without this bit there were none.
    pub(super) const BYTES: u8 = 2;
    /// The fingerprint of the text follows.
    pub(super) const SIMHASH: u8 = 4;
}

fn put_ended(out: &mut Vec<u8>, ended: &Ended) {
    out.push(kind::ENDED);
    out.extend(ended.key.to_bytes());
    put_bytes(out, ended.text.as_bytes());
    put_u64(out, ended.fetch);
    put_u64(out, ended.at.0.into());
    out.push(ended.outcome.code());
    put_u64(out, ended.status.into());
    out.extend(ended.digest.to_be_bytes());
    let mut flags = 0;
    if ended.shapes != [0, 0] {
        flags |= ended::SHAPES;
    }
    if ended.bytes > 0 {
        flags |= ended::BYTES;
    }
    if ended.simhash != 0 {
        flags |= ended::SIMHASH;
    }
    out.push(flags);
    if ended.shapes != [0, 0] {
        ended.shapes.iter().for_each(|shape| out.extend(shape.to_be_bytes()));
    }
    if ended.bytes > 0 {
        put_u64(out, ended.bytes);
    }
    if ended.simhash != 0 {
        out.extend(ended.simhash.to_be_bytes());
    }
    put_u64(out, ended.alike_max.into());
    put_bytes(out, ended.etag.as_bytes());
    put_bytes(out, ended.last_modified.as_bytes());
    out.push(match ended.from {
        Origin::Queue => 0,
        Origin::Parked => 1,
        Origin::Later => 2,
    });
    // 0 is never, so that the first second differs from never.
    put_u64(out, ended.next.map_or(0, |due| u64::from(due.0) + 1));
    out.push(ended.retries);
    out.extend(ended.floor.to_bytes());
    out.extend(ended.later_floor.to_bytes());
    put_u64(out, ended.rest_until.0);
    out.push(ended.failures);
}

fn get_ended(reader: &mut Reader<'_>) -> Result<Ended, Damaged> {
    let key = reader.take(UrlKey::BYTES, "key of an outcome")?;
    let flags;
    Ok(Ended {
        key: UrlKey::from_bytes(key.try_into().expect("as many were taken")),
        text: reader.text("text of an outcome")?.into(),
        fetch: reader.u64("fetch of an outcome")?,
        at: Seconds(reader.u32("time of an outcome")?),
        outcome: Outcome::by_code(reader.u8("outcome")?).ok_or(Damaged("outcome"))?,
        status: u16::try_from(reader.u64("status")?).map_err(|_| Damaged("status"))?,
        digest: reader.fixed_u64("digest")?,
        shapes: {
            flags = reader.u8("flags of an outcome")?;
            match flags & ended::SHAPES {
                0 => [0, 0],
                _ => [reader.fixed_u64("shape")?, reader.fixed_u64("shape")?],
            }
        },
        bytes: match flags & ended::BYTES {
            0 => 0,
            _ => reader.u64("bytes of an outcome")?,
        },
        simhash: match flags & ended::SIMHASH {
            0 => 0,
            _ => reader.fixed_u64("fingerprint of a text")?,
        },
        alike_max: u16::try_from(reader.u64("shape")?).map_err(|_| Damaged("shape"))?,
        etag: reader.text("ETag")?.into(),
        last_modified: reader.text("Last-Modified")?.into(),
        from: match reader.u8("origin of an outcome")? {
            0 => Origin::Queue,
            1 => Origin::Parked,
            2 => Origin::Later,
            _ => return Err(Damaged("origin of an outcome")),
        },
        next: match reader.u64("plan of an outcome")? {
            0 => None,
            due => Some(Seconds(u32::try_from(due - 1).map_err(|_| Damaged("plan of an outcome"))?)),
        },
        retries: reader.u8("retries of an outcome")?,
        floor: get_place(reader)?,
        later_floor: LaterKey::from_bytes(reader.take(LaterKey::BYTES, "place among plans")?),
        rest_until: Timestamp(reader.u64("rest")?),
        failures: reader.u8("failures")?,
    })
}

fn put_robots(out: &mut Vec<u8>, read: &RobotsRead) {
    out.push(kind::ROBOTS);
    out.extend(read.host.to_bytes());
    read.record.encode(out);
    match &read.body {
        None => out.push(0),
        Some(body) => {
            out.push(1);
            put_bytes(out, body);
        }
    }
    put_u64(out, read.rest_until.0);
    out.push(read.failures);
}

fn get_robots(reader: &mut Reader<'_>) -> Result<RobotsRead, Damaged> {
    Ok(RobotsRead {
        host: get_host(reader)?,
        record: RobotsRecord::decode(reader)?,
        body: match reader.u8("body of robots.txt")? {
            0 => None,
            _ => Some(reader.bytes("body of robots.txt")?.into()),
        },
        rest_until: Timestamp(reader.u64("rest")?),
        failures: reader.u8("failures")?,
    })
}
