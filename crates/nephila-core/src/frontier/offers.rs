//! The buffer of offers that wait to be sifted, and a cache of recent offers for deduplication.
//!
//! Offers are sifted in batches, sorted by key, which makes each look-up cheap. Until then they lie in one buffer, with
//! the origin stored once for a run of links to the same host.

use crate::key::{DomainKey, Prefixes, Secret, UrlKey};
use crate::url::CrawlUrl;
use crate::want::Want;

/// A URL proposed to the frontier.
#[derive(Clone, Copy, Debug)]
pub struct Offer<'a> {
    /// Its key.
    pub key: UrlKey,
    /// Scheme and authority.
    pub origin: &'a str,
    /// Path and query.
    pub text: &'a str,
    /// How the URL is wanted.
    pub want: &'a Want,
}

/// An offer in its buffer.
#[derive(Clone, Debug)]
pub(crate) struct Buffered {
    pub(crate) key: UrlKey,
    origin_at: u32,
    text_at: u32,
    origin_len: u16,
    text_len: u16,
    pub(crate) want: Want,
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
            want: offer.want.clone(),
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
        OfferedUrl {
            key: item.key,
            origin: self.origin(item).into(),
            text: self.text(item).into(),
            want: item.want.clone(),
        }
    }

    fn slice(&self, at: u32, len: u16) -> &str {
        let bytes = &self.bytes[at as usize..at as usize + usize::from(len)];
        std::str::from_utf8(bytes).expect("it was copied from a text")
    }

    /// Sorts by key and merges duplicates: the most urgent and shallowest offer is kept, and the others join.
    pub(crate) fn group(&mut self) {
        self.items.sort_unstable_by_key(|item| (item.key, item.want.priority, item.want.depth));
        self.items.dedup_by(|next, kept| {
            let same = next.key == kept.key;
            if same {
                kept.want.join(&next.want);
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
    /// How the URL is wanted.
    pub want: Want,
}

impl OfferedUrl {
    /// A URL that is wanted like this.
    pub fn new(url: &CrawlUrl, want: Want, secret: &Secret) -> OfferedUrl {
        let origin = url.origin();
        let key = UrlKey::with_origin(url, origin, secret);
        OfferedUrl { key, origin: origin.into(), text: url.path_and_query().into(), want }
    }

    /// As an offer to the frontier.
    pub fn offer(&self) -> Offer<'_> {
        Offer { key: self.key, origin: &self.origin, text: &self.text, want: &self.want }
    }

    /// Approximate size in bytes before packing.
    pub fn bytes(&self) -> usize {
        size_of::<OfferedUrl>() + self.origin.len() + self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::ReadAs;
    use crate::job::{Hops, JobId};
    use crate::key::HostKey;

    fn key(host: u32, path: u64) -> UrlKey {
        UrlKey { host: HostKey { domain: DomainKey(5), host }, path }
    }

    fn offered(host: u32, path: u64, depth: u8, priority: u8, text: &str) -> OfferedUrl {
        let origin = if host == 1 { "http://one.test" } else { "http://two.test" };
        let (hops, read_as) = (Hops::by_code(depth), if depth == 1 { ReadAs::Feed } else { ReadAs::Page });
        let want = Want { depth, hops, read_as, priority, hits: 2, ..Want::of(JobId(1)) };
        OfferedUrl { key: key(host, path), origin: origin.into(), text: text.into(), want }
    }

    #[test]
    fn equal_urls_are_grouped_and_their_hits_summed() {
        let mut offers = Offers::default();
        for offered in [
            offered(2, 7, 3, 5, "/b"),
            offered(1, 9, 1, 5, "/a"),
            offered(2, 7, 4, 2, "/b"),
            offered(2, 7, 1, 5, "/b"),
        ] {
            offers.push(&offered.offer());
        }
        offers.group();
        let seen: Vec<_> = offers
            .items
            .iter()
            .map(|i| (offers.origin(i), offers.text(i), i.want.priority, i.want.depth, i.want.hits))
            .collect();
        let reading: Vec<_> = offers.items.iter().map(|i| (i.want.hops, i.want.read_as)).collect();
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
