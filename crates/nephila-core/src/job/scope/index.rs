//! The places around the seeds, in one sorted map.
//!
//! Invariant: no entry of a prefix scope begins with another. So if any entry is a prefix of a URL, the prefix is the
//! last entry that does not sort behind the URL, and one search finds that entry.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::url::CrawlUrl;

use super::Kind;

/// The places of all seeds, each with the number of its seed.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    places: BTreeMap<Box<str>, u32>,
}

impl Index {
    /// Inserts the place of a seed. Of several seeds with one place the first is remembered.
    pub(super) fn insert(&mut self, kind: Kind, seed: &CrawlUrl, number: u32) {
        let place = place(kind, seed);
        if kind == Kind::Prefix {
            if self.prefix_of(place).is_some() {
                return;
            }
            // The new place contains these already.
            let behind = (Bound::Included(place), Bound::Unbounded);
            let held: Vec<Box<str>> = self
                .places
                .range::<str, _>(behind)
                .map(|(other, _)| other)
                .take_while(|other| other.starts_with(place))
                .cloned()
                .collect();
            for other in held {
                self.places.remove(&other);
            }
        }
        if kind != Kind::Any {
            self.places.entry(place.into()).or_insert(number);
        }
    }

    /// The seed whose place contains the URL.
    pub(super) fn find(&self, kind: Kind, url: &CrawlUrl) -> Option<u32> {
        match kind {
            Kind::Prefix => self.prefix_of(bare(url)),
            Kind::Any => None,
            _ => self.places.get(place(kind, url)).copied(),
        }
    }

    fn prefix_of(&self, text: &str) -> Option<u32> {
        let upto = (Bound::Unbounded, Bound::Included(text));
        let (place, number) = self.places.range::<str, _>(upto).next_back()?;
        text.starts_with(&**place).then_some(*number)
    }

    /// Whether the place of a seed lies below this one.
    pub(super) fn has_below(&self, text: &str) -> bool {
        let from = (Bound::Included(text), Bound::Unbounded);
        self.places.range::<str, _>(from).next().is_some_and(|(place, _)| place.starts_with(text))
    }

    /// Number of places.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The only place, if there is exactly one.
    pub(super) fn only(&self) -> Option<&str> {
        let mut places = self.places.keys();
        places.next().filter(|_| self.places.len() == 1).map(|place| &**place)
    }
}

/// The registrable domain of a URL, or its host if there is none.
pub(super) fn domain_of(url: &CrawlUrl) -> &str {
    url.registrable_domain().unwrap_or(url.host_str())
}

/// The place of a URL: the text that URLs around it share. A folder ends with its slash, so `/a/` never contains `/ab`.
pub(super) fn place(kind: Kind, url: &CrawlUrl) -> &str {
    match kind {
        Kind::Page | Kind::Any => bare(url),
        Kind::Prefix => {
            let path = without_query(bare(url));
            path.rfind('/').map_or(path, |slash| &path[..=slash])
        }
        Kind::Host => url.authority(),
        Kind::Domain => domain_of(url),
    }
}

/// A key up to its query.
pub(super) fn without_query(bare: &str) -> &str {
    bare.find(['?', '#']).map_or(bare, |end| &bare[..end])
}

/// The key without its scheme.
pub(super) fn bare(url: &CrawlUrl) -> &str {
    let key = url.key();
    key.split_once("://").map_or(key, |(_, bare)| bare)
}
