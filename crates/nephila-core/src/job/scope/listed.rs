//! The places around seeds that are too many to be kept as text: the hash of each place and the number of its seed,
//! sixteen bytes together, so a million of them take 16 MB.
//!
//! Hashes have 64 bits and are keyed with a secret. That a URL elsewhere has the hash of one of a million places has a
//! chance of one in 18 million millions, and an outsider cannot search for one.
//!
//! Invariants: a lookup is one search, and for a prefix one for each folder of the URL, which is read once; of several
//! seeds with one place the first is remembered.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use crate::key::Secret;
use crate::url::CrawlUrl;

use super::Kind;
use super::index::{bare, place, without_query};

/// The places of many seeds, for one kind of scope.
#[derive(Clone)]
pub struct Listed {
    kind: Kind,
    secret: Secret,
    /// Hash of the place and number of the seed, sorted by hash.
    places: Vec<(u64, u32)>,
}

impl fmt::Debug for Listed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Listed({}, {} places)", self.kind.name(), self.places.len())
    }
}

impl Listed {
    /// An empty list.
    pub fn new(kind: Kind, secret: Secret) -> Listed {
        Listed { kind, secret, places: Vec::new() }
    }

    /// The kind of scope of the places.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Number of places.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is no place.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The place of a seed, for [`Listed::with`].
    pub fn place(&self, seed: &CrawlUrl) -> u64 {
        let mut hasher = self.hasher();
        hasher.write(place(self.kind, seed).as_bytes());
        hasher.finish()
    }

    /// These places, and more: each with the number of its seed, or 0 for the target of a seed's redirect.
    #[must_use]
    pub fn with(&self, more: Vec<(u64, u32)>) -> Listed {
        let mut places = Vec::with_capacity(self.places.len() + more.len());
        places.extend_from_slice(&self.places);
        places.extend(more);
        // Sorted input costs one pass. Seeds come before the targets of their redirects.
        places.sort_by_key(|(hash, number)| (*hash, number.wrapping_sub(1)));
        places.dedup_by_key(|(hash, _)| *hash);
        places.shrink_to_fit();
        Listed { kind: self.kind, secret: self.secret, places }
    }

    /// The seed whose place contains the URL.
    pub(super) fn find(&self, url: &CrawlUrl) -> Option<u32> {
        match self.kind {
            Kind::Any => None,
            Kind::Prefix => {
                let mut hasher = self.hasher();
                without_query(bare(url)).split_inclusive('/').find_map(|folder| {
                    hasher.write(folder.as_bytes());
                    folder.ends_with('/').then(|| self.number(hasher.finish())).flatten()
                })
            }
            _ => self.number(self.place(url)),
        }
    }

    fn number(&self, hash: u64) -> Option<u32> {
        let at = self.places.binary_search_by_key(&hash, |(hash, _)| *hash).ok()?;
        Some(self.places[at].1)
    }

    fn hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.secret.0)
    }
}
