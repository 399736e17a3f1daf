//! What the owner of a partition tells those who find links into it: which hosts take no more, and whether it keeps up.
//!
//! Every page links to the same few giants, with links that no cache catches. If such a host turns everything away,
//! the links need not travel: its owner counts what it turns away ([`Hot`]) and says so in a **word**, one small record per
//! partition, which senders read every few seconds and go by ([`Words`]). A word ends with its reason: once senders
//! drop the links the owner sees none, forgets, and takes the word back; the next links show whether it still holds.
//!
//! In the same record a partition says that its inbox grows faster than it is read. Senders then send it one parcel now
//! and then, keep the rest in their buffers, and in the end wait.
//!
//! What always holds: only links are dropped, never a seed, an urgent URL or a redirect of one; each is counted by its
//! reason; what is remembered and what is said is bounded.

use std::collections::BTreeMap;

use xxhash_rust::xxh3::xxh3_64;

use super::message::OfferedUrl;
use crate::codec::{Damaged, Reader, put_u64};
use crate::frontier::URGENT;
use crate::frontier::key::{DomainKey, HostKey};
use crate::handler::ReadAs;

/// Hosts in a word.
pub const CLOSED_MAX: usize = 256;
/// Hosts of a partition whose links are counted.
const COUNTED_MAX: usize = 4_096;
/// So many links were turned away lately: then it is worth saying.
const HOT_LINKS: u64 = 1_000;
/// What was turned away before this is forgotten, in milliseconds, and with it the word.
const LIFE: u64 = 60_000;
/// An inbox with more unread bytes lags.
const LAG_BYTES: u64 = 512 << 10;
/// With less than this it keeps up again.
const CAUGHT_UP_BYTES: u64 = 128 << 10;
const VERSION: u8 = 1;

/// Why a host takes no links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Its robots.txt forbids everything.
    Robots,
    /// Its domain has more waiting than its budget lets in.
    Budget,
}

impl Why {
    /// All of them.
    pub const ALL: [Why; 2] = [Why::Robots, Why::Budget];

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Why::Robots => "robots",
            Why::Budget => "budget",
        }
    }

    const fn code(self) -> u8 {
        match self {
            Why::Robots => 1,
            Why::Budget => 2,
        }
    }

    fn by_code(code: u8) -> Option<Why> {
        Why::ALL.into_iter().find(|why| why.code() == code)
    }
}

/// What a partition says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Does its inbox grow faster than it is read?
    pub lags: bool,
    /// Hosts that take no links, in the order of keys.
    pub closed: Vec<(HostKey, Why)>,
}

impl Word {
    /// Is there nothing to say?
    pub fn is_empty(&self) -> bool {
        !self.lags && self.closed.is_empty()
    }

    /// As bytes.
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

    /// From bytes. None at all are a word that was taken back.
    pub fn decode(bytes: &[u8]) -> Result<Word, Damaged> {
        if bytes.is_empty() {
            return Ok(Word::default());
        }
        let (body, hash) = bytes.split_last_chunk::<8>().ok_or(Damaged("a word"))?;
        if u64::from_be_bytes(*hash) != xxh3_64(body) {
            return Err(Damaged("the hash of a word"));
        }
        let mut reader = Reader::new(body);
        if reader.u8("the version of a word")? != VERSION {
            return Err(Damaged("a word of this version"));
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
            let why = Why::by_code(reader.u8("why it is closed")?).ok_or(Damaged("why it is closed"))?;
            closed.push((host, why));
        }
        closed.sort_unstable();
        Ok(Word { lags, closed })
    }
}

/// The owner's side: links that were turned away, counted by host.
#[derive(Debug, Default)]
pub struct Hot {
    hosts: BTreeMap<HostKey, Count>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    why: Why,
    links: u64,
    /// When the first of them was, in milliseconds.
    since: u64,
}

impl Hot {
    /// So many links to a host were turned away. `now` is in milliseconds.
    pub fn note(&mut self, host: HostKey, why: Why, links: u64, now: u64) {
        let fresh = Count { why, links, since: now };
        let is_full = self.hosts.len() >= COUNTED_MAX;
        match self.hosts.get_mut(&host) {
            Some(count) if count.why == why && now < count.since + LIFE => count.links += links,
            Some(count) => *count = fresh,
            None if !is_full => _ = self.hosts.insert(host, fresh),
            // Those from before are as good as forgotten: whoever is hot comes again.
            None => self.hosts.retain(|_, count| now < count.since + LIFE / 2),
        }
    }

    /// Whatever was counted of these hosts does not hold any more.
    pub fn forget(&mut self, first: HostKey, last: HostKey) {
        let gone: Vec<HostKey> = self.hosts.range(first..=last).map(|(host, _)| *host).collect();
        gone.iter().for_each(|host| _ = self.hosts.remove(host));
    }

    /// The hosts that should be spared links, in the order of keys.
    pub fn closed(&mut self, now: u64) -> Vec<(HostKey, Why)> {
        self.hosts.retain(|_, count| now < count.since + LIFE);
        let mut hot: Vec<(u64, HostKey, Why)> = self
            .hosts
            .iter()
            .filter(|(_, count)| count.links >= HOT_LINKS)
            .map(|(host, count)| (count.links, *host, count.why))
            .collect();
        hot.sort_unstable_by(|a, b| b.cmp(a));
        hot.truncate(CLOSED_MAX);
        let mut closed: Vec<(HostKey, Why)> = hot.into_iter().map(|(_, host, why)| (host, why)).collect();
        closed.sort_unstable();
        closed
    }
}

/// Does an inbox lag, with so many bytes unread? What was said before counts: between the limits it stays as it was.
pub fn lags(before: bool, unread_bytes: u64) -> bool {
    unread_bytes > if before { CAUGHT_UP_BYTES } else { LAG_BYTES }
}

/// The senders' side: the words of all partitions, as they were read last.
#[derive(Debug, Default)]
pub struct Words {
    words: BTreeMap<u32, Word>,
    dropped: [u64; Why::ALL.len()],
}

impl Words {
    /// These are all there are.
    pub fn set(&mut self, words: BTreeMap<u32, Word>) {
        self.words = words;
    }

    /// Partitions that lag.
    pub fn lagging(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().filter(|(_, word)| word.lags).map(|(partition, _)| *partition)
    }

    /// Need a URL not travel? Then it is counted.
    pub fn drops(&mut self, partition: u32, url: &OfferedUrl) -> Option<Why> {
        let is_link = url.depth > 0 && url.priority > URGENT && url.read_as == ReadAs::Page;
        let closed = &self.words.get(&partition).filter(|_| is_link)?.closed;
        let at = closed.binary_search_by_key(&url.key.host, |(host, _)| *host).ok()?;
        let why = closed[at].1;
        let place = Why::ALL.iter().position(|one| *one == why).expect("all are there");
        self.dropped[place] += 1;
        Some(why)
    }

    /// How many were dropped, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (Why, u64)> + '_ {
        Why::ALL.into_iter().zip(self.dropped)
    }
}

#[cfg(test)]
mod tests;
