//! What lies around seeds that are too many to be kept as text: the hash of each place and the number of its seed, sixteen
//! bytes together, so that a million of them take 16 MB.
//!
//! Hashes are of 64 bits, under a secret: that a URL elsewhere has the hash of one of a million places is a matter of one in
//! 18 million millions, and nobody outside can look for one.
//!
//! What always holds: a look up is one search, and for a prefix one for each folder of the URL, which is read once; of several
//! seeds with one place the first is remembered.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use crate::frontier::key::Secret;
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
    /// None yet.
    pub fn new(kind: Kind, secret: Secret) -> Listed {
        Listed { kind, secret, places: Vec::new() }
    }

    /// The kind of scope they are for.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many places there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Is there none?
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The place of a seed, for [`Listed::with`].
    pub fn place(&self, seed: &CrawlUrl) -> u64 {
        let mut hasher = self.hasher();
        hasher.write(place(self.kind, seed).as_bytes());
        hasher.finish()
    }

    /// These places, and more: each with the number of its seed, or 0 for where a seed has moved to.
    #[must_use]
    pub fn with(&self, more: Vec<(u64, u32)>) -> Listed {
        let mut places = Vec::with_capacity(self.places.len() + more.len());
        places.extend_from_slice(&self.places);
        places.extend(more);
        // What is sorted already costs one pass. Seeds come before what they have moved to.
        places.sort_by_key(|(hash, number)| (*hash, number.wrapping_sub(1)));
        places.dedup_by_key(|(hash, _)| *hash);
        places.shrink_to_fit();
        Listed { kind: self.kind, secret: self.secret, places }
    }

    /// The seed within whose place the URL lies.
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
