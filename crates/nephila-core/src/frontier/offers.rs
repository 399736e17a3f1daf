//! The buffer of offers that wait to be sifted, and a cache of recent offers for deduplication.
//!
//! Offers are sifted in batches, sorted by key, which makes each look-up cheap. Until then they lie in one buffer, with
//! the origin stored once for a run of links to the same host.

use std::sync::Arc;

use crate::handler::ReadAs;
use crate::job::{Hops, JobId, Via};
use crate::key::{DomainKey, Prefixes, UrlKey};
use crate::refusal::Refusal;
use crate::state::record::UrlRecord;

/// A URL proposed to the frontier.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Its key.
    pub key: UrlKey,
    /// Scheme and authority.
    pub origin: &'a str,
    /// Path and query.
    pub text: &'a str,
    /// The job that requests the URL.
    pub job: JobId,
    /// Number of links from a seed.
    pub depth: u8,
    /// Links out of scope and redirects that led to the URL.
    pub hops: Hops,
    /// How to read the response.
    pub read_as: ReadAs,
    /// 0 is the most urgent: such an offer is sifted even if the URL was offered a moment ago.
    pub priority: u8,
    /// How often a stream named the URL.
    pub hits: u32,
    /// The rule that refuses the URL, if there is one: the URL is recorded with this reason.
    pub refusal: Option<Refusal>,
    /// Where the URL was found, if known.
    pub via: Option<&'a Arc<Via>>,
}

impl<'a> Offer<'a> {
    /// An offer to fetch a known URL once more with the same properties. `None` if its text is not kept.
    pub(crate) fn again(key: UrlKey, origin: &'a str, record: &'a UrlRecord) -> Option<Offer<'a>> {
        Some(Offer {
            key,
            origin,
            text: record.text.as_deref()?,
            job: record.job,
            depth: record.depth,
            hops: record.hops,
            read_as: record.read_as,
            priority: record.priority,
            hits: 0,
            refusal: None,
            via: None,
        })
    }
}

/// An offer in its buffer.
#[derive(Clone, Debug)]
pub(crate) struct Buffered {
    pub(crate) key: UrlKey,
    origin_at: u32,
    text_at: u32,
    origin_len: u16,
    text_len: u16,
    pub(crate) job: JobId,
    pub(crate) hits: u32,
    pub(crate) depth: u8,
    pub(crate) hops: Hops,
    pub(crate) read_as: ReadAs,
    pub(crate) priority: u8,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) via: Option<Arc<Via>>,
    /// Fetch now, even if the URL was fetched before.
    pub(crate) again: bool,
}

/// Offers that wait to be sifted.
#[derive(Debug, Default)]
pub(crate) struct Offers {
    bytes: Vec<u8>,
    pub(crate) items: Vec<Buffered>,
    origin: (u32, u16),
}

impl Offers {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn push(&mut self, offer: &Offer<'_>) {
        let (at, len) = self.origin;
        let before = &self.bytes[at as usize..at as usize + usize::from(len)];
        if before != offer.origin.as_bytes() {
            self.origin = (self.bytes.len() as u32, offer.origin.len() as u16);
            self.bytes.extend_from_slice(offer.origin.as_bytes());
        }
        let text_at = self.bytes.len() as u32;
        self.bytes.extend_from_slice(offer.text.as_bytes());
        self.items.push(Buffered {
            key: offer.key,
            origin_at: self.origin.0,
            text_at,
            origin_len: self.origin.1,
            text_len: offer.text.len() as u16,
            job: offer.job,
            hits: offer.hits,
            depth: offer.depth,
            hops: offer.hops,
            read_as: offer.read_as,
            priority: offer.priority,
            refusal: offer.refusal,
            via: offer.via.cloned(),
            again: false,
        });
    }

    pub(crate) fn origin(&self, item: &Buffered) -> &str {
        self.slice(item.origin_at, item.origin_len)
    }

    pub(crate) fn text(&self, item: &Buffered) -> &str {
        self.slice(item.text_at, item.text_len)
    }

    /// An offer that outlives this buffer.
    pub(crate) fn owned(&self, item: &Buffered) -> OfferedUrl {
        OfferedUrl::from(&Offer {
            key: item.key,
            origin: self.origin(item),
            text: self.text(item),
            job: item.job,
            depth: item.depth,
            hops: item.hops,
            read_as: item.read_as,
            priority: item.priority,
            hits: item.hits,
            refusal: item.refusal,
            via: item.via.as_ref(),
        })
    }

    fn slice(&self, at: u32, len: u16) -> &str {
        let bytes = &self.bytes[at as usize..at as usize + usize::from(len)];
        std::str::from_utf8(bytes).expect("it was copied from a text")
    }

    /// Sorts by key and merges duplicates: the most urgent and shallowest offer is kept, hits are summed. The fewest
    /// hops and the most specific reading of all duplicates count.
    pub(crate) fn group(&mut self) {
        self.items.sort_unstable_by_key(|item| (item.key, item.priority, item.depth));
        self.items.dedup_by(|next, kept| {
            let same = next.key == kept.key;
            if same {
                kept.hits = kept.hits.saturating_add(next.hits);
                kept.hops = kept.hops.min(next.hops);
                kept.read_as = kept.read_as.max(next.read_as);
                kept.again |= next.again;
            }
            same
        });
    }

    /// Empties the buffer, keeping its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
        self.origin = (0, 0);
    }
}

/// A cache of recent offers. Entries may be evicted at any time; a hit is always correct.
#[derive(Debug)]
pub(crate) struct Recent {
    /// The last URL whose key maps to this place: all bits but the host's, which the last part covers as well.
    places: Box<[(u64, u64)]>,
}

impl Recent {
    /// A cache for this number of URLs, rounded up to a power of two.
    pub(crate) fn new(max: usize) -> Recent {
        Recent { places: vec![(0, 0); max.next_power_of_two()].into_boxed_slice() }
    }

    /// Notes an offer. Returns whether the same URL was offered recently.
    pub(crate) fn note(&mut self, key: &UrlKey) -> bool {
        let place = &mut self.places[key.path as usize & (self.places.len() - 1)];
        let this = (key.path, key.host.domain.0);
        std::mem::replace(place, this) == this
    }

    /// Evicts all URLs of these prefixes, so that they are sifted again.
    pub(crate) fn forget_all(&mut self, prefixes: Prefixes) {
        let gone = |place: &&mut (u64, u64)| prefixes.holds(DomainKey(place.1));
        self.places.iter_mut().filter(gone).for_each(|place| *place = (0, 0));
    }

    /// Evicts all URLs of a domain, so that they are sifted again.
    pub(crate) fn forget(&mut self, domain: DomainKey) {
        self.places.iter_mut().filter(|place| place.1 == domain.0).for_each(|place| *place = (0, 0));
    }
}

/// A URL on its way to its partition: an [`Offer`] that owns its texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedUrl {
    /// Its key.
    pub key: UrlKey,
    /// Scheme and authority.
    pub origin: Box<str>,
    /// Path and query.
    pub text: Box<str>,
    /// The job that wants the URL.
    pub job: JobId,
    /// Links from a seed.
    pub depth: u8,
    /// Links out of scope and redirects on the way to the URL.
    pub hops: Hops,
    /// How the response is to be read.
    pub read_as: ReadAs,
    /// 0 is the most urgent.
    pub priority: u8,
    /// How often a stream named the URL.
    pub hits: u32,
    /// The rule that refuses the URL, if there is one.
    pub refusal: Option<Refusal>,
    /// Where the URL was found, if that is known.
    pub via: Option<Arc<Via>>,
}

impl OfferedUrl {
    /// As an offer to the frontier.
    pub fn offer(&self) -> Offer<'_> {
        Offer {
            key: self.key,
            origin: &self.origin,
            text: &self.text,
            job: self.job,
            depth: self.depth,
            hops: self.hops,
            read_as: self.read_as,
            priority: self.priority,
            hits: self.hits,
            refusal: self.refusal,
            via: self.via.as_ref(),
        }
    }

    /// Approximate size in bytes before packing.
    pub fn bytes(&self) -> usize {
        size_of::<OfferedUrl>() + self.origin.len() + self.text.len()
    }
}

impl From<&Offer<'_>> for OfferedUrl {
    fn from(offer: &Offer<'_>) -> OfferedUrl {
        OfferedUrl {
            key: offer.key,
            origin: offer.origin.into(),
            text: offer.text.into(),
            job: offer.job,
            depth: offer.depth,
            hops: offer.hops,
            read_as: offer.read_as,
            priority: offer.priority,
            hits: offer.hits,
            refusal: offer.refusal,
            via: offer.via.cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::HostKey;

    fn key(host: u32, path: u64) -> UrlKey {
        UrlKey { host: HostKey { domain: DomainKey(5), host }, path }
    }

    fn offer(host: u32, path: u64, depth: u8, priority: u8, text: &'static str) -> Offer<'static> {
        let origin = if host == 1 { "http://one.test" } else { "http://two.test" };
        let (hops, read_as) = (Hops::by_code(depth), if depth == 1 { ReadAs::Feed } else { ReadAs::Page });
        let key = key(host, path);
        Offer {
            key,
            origin,
            text,
            job: JobId(1),
            depth,
            hops,
            read_as,
            priority,
            hits: 2,
            refusal: None,
            via: None,
        }
    }

    #[test]
    fn equal_urls_are_grouped_and_their_hits_summed() {
        let mut offers = Offers::default();
        for offer in [
            offer(2, 7, 3, 5, "/b"),
            offer(1, 9, 1, 5, "/a"),
            offer(2, 7, 4, 2, "/b"),
            offer(2, 7, 1, 5, "/b"),
        ] {
            offers.push(&offer);
        }
        offers.group();
        let seen: Vec<_> = offers
            .items
            .iter()
            .map(|i| (offers.origin(i), offers.text(i), i.priority, i.depth, i.hits))
            .collect();
        let reading: Vec<_> = offers.items.iter().map(|i| (i.hops, i.read_as)).collect();
        assert_eq!(reading, [(Hops::by_code(1), ReadAs::Feed), (Hops::by_code(1), ReadAs::Feed)]);
        assert_eq!(seen, [("http://one.test", "/a", 5, 1, 2), ("http://two.test", "/b", 2, 4, 6)]);
        offers.clear();
        assert!(offers.is_empty());
    }

    #[test]
    fn what_was_offered_lately_is_known_until_another_takes_its_place() {
        let mut recent = Recent::new(3);
        assert!(!recent.note(&key(1, 1)) && recent.note(&key(1, 1)));
        assert!(!recent.note(&key(1, 5)), "4 places: 5 falls where 1 was");
        assert!(!recent.note(&key(1, 1)));
        recent.forget(DomainKey(5));
        assert!(!recent.note(&key(1, 1)));
    }
}
