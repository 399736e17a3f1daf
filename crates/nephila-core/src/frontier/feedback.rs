//! Feedback of a partition's owner to the senders of links (backpressure): which hosts reject links, and whether the
//! partition lags.
//!
//! Every page links to the same few giants, with links that no cache catches. If such a host rejects every link, the
//! links need not travel. The owner counts rejected links ([`Hot`]) and publishes the hosts as **feedback**, one small
//! record per partition. Senders read the records every few seconds and apply them ([`FeedbackTable`]). Feedback ends
//! with its reason: once senders drop the links, the owner sees none, forgets the host and withdraws the feedback; the
//! next links show whether the reason still holds.
//!
//! The same record says that a partition's inbox grows faster than the owner reads (backpressure). Senders then send
//! one parcel now and then, keep the rest in their buffers, and in the end wait.
//!
//! Invariants: only links are dropped, never a seed, an urgent URL or a redirect of one; each dropped link is counted
//! by its reason; the memory of both sides and the size of a record are bounded.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::offers::OfferedUrl;
use crate::codec::{Damaged, Reader, put_u64};
use crate::frontier::URGENT;
use crate::handler::ReadAs;
use crate::key::{DomainKey, HostKey};
use crate::want::Want;

/// Maximum number of hosts in a feedback record.
pub const CLOSED_MAX: usize = 256;
/// Maximum number of hosts of a partition whose links are counted.
const COUNTED_MAX: usize = 4_096;
/// A host is published once this number of links was rejected lately.
const HOT_LINKS: u64 = 1_000;
/// Counts older than this are forgotten, in milliseconds, and the feedback with them.
const LIFE: u64 = 60_000;
/// An inbox with more unread bytes lags.
const LAG_BYTES: u64 = 512 << 10;
/// An inbox that lags keeps up again with at most this number of unread bytes.
const CAUGHT_UP_BYTES: u64 = 128 << 10;
const VERSION: u8 = 1;

/// Why a host rejects links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FeedbackReason {
    /// Its robots.txt forbids everything.
    Robots,
    /// The queue of its domain exceeds its budget.
    Budget,
}

impl FeedbackReason {
    /// All reasons.
    pub const ALL: [FeedbackReason; 2] = [FeedbackReason::Robots, FeedbackReason::Budget];

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            FeedbackReason::Robots => "robots",
            FeedbackReason::Budget => "budget",
        }
    }

    const fn code(self) -> u8 {
        match self {
            FeedbackReason::Robots => 1,
            FeedbackReason::Budget => 2,
        }
    }

    fn by_code(code: u8) -> Option<FeedbackReason> {
        FeedbackReason::ALL.into_iter().find(|why| why.code() == code)
    }
}

/// The feedback of a partition's owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionFeedback {
    /// Whether its inbox grows faster than the owner reads.
    pub lags: bool,
    /// Hosts that reject links, in the order of keys.
    pub closed: Vec<(HostKey, FeedbackReason)>,
}

impl PartitionFeedback {
    /// Whether there is nothing to report.
    pub fn is_empty(&self) -> bool {
        !self.lags && self.closed.is_empty()
    }

    /// The encoded feedback.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION, u8::from(self.lags)];
        put_u64(&mut out, self.closed.len() as u64);
        for (host, why) in &self.closed {
            out.extend(host.domain.0.to_be_bytes());
            out.extend(host.host.to_be_bytes());
            out.push(why.code());
        }
        let hash = xxh3_64(&out);
        out.extend(hash.to_be_bytes());
        out
    }

    /// Decodes feedback. No bytes at all are withdrawn feedback.
    pub fn decode(bytes: &[u8]) -> Result<PartitionFeedback, Damaged> {
        if bytes.is_empty() {
            return Ok(PartitionFeedback::default());
        }
        let (body, hash) = bytes.split_last_chunk::<8>().ok_or(Damaged("partition feedback"))?;
        if u64::from_be_bytes(*hash) != xxh3_64(body) {
            return Err(Damaged("the hash of partition feedback"));
        }
        let mut reader = Reader::new(body);
        if reader.u8("the version of partition feedback")? != VERSION {
            return Err(Damaged("partition feedback of this version"));
        }
        let lags = reader.u8("whether it lags")? != 0;
        let count = reader.u64("closed hosts")?;
        if count > CLOSED_MAX as u64 {
            return Err(Damaged("so many closed hosts"));
        }
        let mut closed = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let mut number = 0_u128;
            for _ in 0..12 {
                number = number << 8 | u128::from(reader.u8("a closed host")?);
            }
            let host = HostKey { domain: DomainKey((number >> 32) as u64), host: number as u32 };
            let why =
                FeedbackReason::by_code(reader.u8("why it is closed")?).ok_or(Damaged("why it is closed"))?;
            closed.push((host, why));
        }
        closed.sort_unstable();
        Ok(PartitionFeedback { lags, closed })
    }
}

/// The owner's side: rejected links, counted by host.
#[derive(Debug, Default)]
pub struct Hot {
    hosts: BTreeMap<HostKey, Count>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    why: FeedbackReason,
    links: u64,
    /// When the first of these links was rejected, in milliseconds.
    since: u64,
}

impl Hot {
    /// Counts rejected links of a host. `now` is in milliseconds.
    pub fn note(&mut self, host: HostKey, why: FeedbackReason, links: u64, now: u64) {
        let fresh = Count { why, links, since: now };
        let is_full = self.hosts.len() >= COUNTED_MAX;
        match self.hosts.get_mut(&host) {
            Some(count) if count.why == why && now < count.since + LIFE => count.links += links,
            Some(count) => *count = fresh,
            None if !is_full => _ = self.hosts.insert(host, fresh),
            // Old counts are as good as forgotten: a host that is still hot is counted again.
            None => self.hosts.retain(|_, count| now < count.since + LIFE / 2),
        }
    }

    /// Forgets the counts of these hosts: their reasons no longer hold.
    pub fn forget(&mut self, first: HostKey, last: HostKey) {
        let gone: Vec<HostKey> = self.hosts.range(first..=last).map(|(host, _)| *host).collect();
        gone.iter().for_each(|host| _ = self.hosts.remove(host));
    }

    /// The hosts to publish, in the order of keys.
    pub fn closed(&mut self, now: u64) -> Vec<(HostKey, FeedbackReason)> {
        self.hosts.retain(|_, count| now < count.since + LIFE);
        let mut hot: Vec<(u64, HostKey, FeedbackReason)> = self
            .hosts
            .iter()
            .filter(|(_, count)| count.links >= HOT_LINKS)
            .map(|(host, count)| (count.links, *host, count.why))
            .collect();
        hot.sort_unstable_by(|a, b| b.cmp(a));
        hot.truncate(CLOSED_MAX);
        let mut closed: Vec<(HostKey, FeedbackReason)> =
            hot.into_iter().map(|(_, host, why)| (host, why)).collect();
        closed.sort_unstable();
        closed
    }
}

/// Whether an inbox with this number of unread bytes lags. Hysteresis: between the two limits the state stays as
/// before.
pub fn lags(before: bool, unread_bytes: u64) -> bool {
    unread_bytes > if before { CAUGHT_UP_BYTES } else { LAG_BYTES }
}

/// The senders' side: the feedback of all partitions, as last read.
#[derive(Debug, Default)]
pub struct FeedbackTable {
    table: BTreeMap<u32, PartitionFeedback>,
    dropped: [u64; FeedbackReason::ALL.len()],
}

impl FeedbackTable {
    /// Replaces all feedback.
    pub fn set(&mut self, table: BTreeMap<u32, PartitionFeedback>) {
        self.table = table;
    }

    /// Partitions that lag.
    pub fn lagging(&self) -> impl Iterator<Item = u32> + '_ {
        self.table.iter().filter(|(_, feedback)| feedback.lags).map(|(partition, _)| *partition)
    }

    /// Why a URL need not travel; none if the URL must be sent. A dropped URL is counted.
    pub fn drops(&mut self, partition: u32, url: &OfferedUrl) -> Option<FeedbackReason> {
        let Want { depth, priority, read_as, .. } = url.want;
        let is_link = depth > 0 && priority > URGENT && read_as == ReadAs::Page;
        let closed = &self.table.get(&partition).filter(|_| is_link)?.closed;
        let at = closed.binary_search_by_key(&url.key.host, |(host, _)| *host).ok()?;
        let why = closed[at].1;
        let place = FeedbackReason::ALL.iter().position(|one| *one == why).expect("all are there");
        self.dropped[place] += 1;
        Some(why)
    }

    /// Number of dropped links, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (FeedbackReason, u64)> + '_ {
        FeedbackReason::ALL.into_iter().zip(self.dropped)
    }
}

#[cfg(test)]
mod tests;
