//! The 20-byte key of a URL in the frontier, and the distribution of keys over partitions.
//!
//! A key is D (8 bytes, the registrable domain) · H (4, the host within the domain) · P (8, the whole URL), each the
//! high bits of a keyed hash, in big-endian order. Sorted by key, all URLs of a host stand together, and all hosts of a
//! domain. The top 16 bits of D are the **prefix**: a partition is a range of prefixes, so a partition can be split
//! without rehashing.
//!
//! The hash is keyed because pages choose their own URLs: without the secret an attacker cannot construct a collision.
//! H is only 32 bits wide; the owner of the domain tells two hosts with the same H apart (see `displaced` in
//! [`crate::state::Meta`]).

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::planted::{self, Bug};
use crate::url::CrawlUrl;

/// Number of prefixes; never changes.
pub const PREFIXES: u32 = 1 << 16;

/// The secret key of the URL hash: one per crawl, the same on all nodes of a cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u8; 16]);

impl Secret {
    fn hash(&self, kind: u8, text: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(text);
        // The kind byte separates the hash domains.
        hasher.write_u8(kind);
        hasher.finish()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A registrable domain, or a host that has none, as 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainKey(pub u64);

impl DomainKey {
    /// The domain with this name.
    pub fn of(name: &str, secret: &Secret) -> Self {
        DomainKey(secret.hash(b'D', name.as_bytes()))
    }

    /// The key of the source of feeds with this name: distinct from every domain's key.
    pub fn of_source(name: &str, secret: &Secret) -> Self {
        DomainKey(secret.hash(b'S', name.as_bytes()))
    }

    /// The prefix, which selects the partition.
    pub fn prefix(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

/// A host (scheme and authority) within its domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostKey {
    /// Its domain.
    pub domain: DomainKey,
    /// 32 bits, unique in the domain.
    pub host: u32,
}

/// A URL within its host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UrlKey {
    /// Its host.
    pub host: HostKey,
    /// The URL in 64 bits.
    pub path: u64,
}

impl HostKey {
    /// Size of a host's key in bytes.
    pub const BYTES: usize = 12;
    /// The lowest key.
    pub const MIN: HostKey = HostKey { domain: DomainKey(0), host: 0 };
    /// The highest key.
    pub const MAX: HostKey = HostKey { domain: DomainKey(u64::MAX), host: u32::MAX };

    /// The host with this origin (`https://a.example`) in this domain, unless the host was displaced.
    pub fn of(domain: DomainKey, origin: &str, secret: &Secret) -> Self {
        HostKey { domain, host: (secret.hash(b'H', origin.as_bytes()) >> 32) as u32 }
    }

    /// The stored form.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.domain.0.to_be_bytes());
        bytes[8..].copy_from_slice(&self.host.to_be_bytes());
        bytes
    }

    /// Reads the stored form.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (domain, host) = bytes.split_at(8);
        HostKey {
            domain: DomainKey(u64::from_be_bytes(domain.try_into().expect("eight bytes"))),
            host: u32::from_be_bytes(host.try_into().expect("four bytes")),
        }
    }

    /// The next key, if there is one.
    pub fn next(self) -> Option<HostKey> {
        match self.host.checked_add(1) {
            Some(host) => Some(HostKey { host, ..self }),
            None => Some(HostKey { domain: DomainKey(self.domain.0.checked_add(1)?), host: 0 }),
        }
    }
}

impl UrlKey {
    /// Size of a URL's key in bytes.
    pub const BYTES: usize = 20;

    /// The key of a URL.
    pub fn of(url: &CrawlUrl, secret: &Secret) -> Self {
        UrlKey::with_origin(url, url.origin(), secret)
    }

    /// The key of a URL whose origin the caller already has.
    pub fn with_origin(url: &CrawlUrl, origin: &str, secret: &Secret) -> Self {
        let domain = url.registrable_domain().unwrap_or(url.host_str());
        let host = HostKey::of(DomainKey::of(domain, secret), origin, secret);
        UrlKey { host, path: UrlKey::path_of(url.key(), secret) }
    }

    /// The last 64 bits of a key, from the text of [`CrawlUrl::key`].
    pub fn path_of(key: &str, secret: &Secret) -> u64 {
        let hash = secret.hash(b'P', key.as_bytes());
        if planted::is(Bug::UrlHash32) { hash >> 32 } else { hash }
    }

    /// The next key, if there is one.
    pub fn next(self) -> Option<UrlKey> {
        match self.path.checked_add(1) {
            Some(path) => Some(UrlKey { path, ..self }),
            None => Some(UrlKey { host: self.host.next()?, path: 0 }),
        }
    }

    /// The stored form.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..12].copy_from_slice(&self.host.to_bytes());
        bytes[12..].copy_from_slice(&self.path.to_be_bytes());
        bytes
    }

    /// Reads the stored form.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (host, path) = bytes.split_at(HostKey::BYTES);
        UrlKey {
            host: HostKey::from_bytes(host.try_into().expect("twelve bytes")),
            path: u64::from_be_bytes(path.try_into().expect("eight bytes")),
        }
    }
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}-{:08x}", self.domain.0, self.host)
    }
}

impl fmt::Display for UrlKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.host, self.path)
    }
}

/// A range of prefixes, both ends included: the share of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Prefixes {
    /// The first prefix.
    pub first: u16,
    /// The last prefix.
    pub last: u16,
}

impl Prefixes {
    /// All prefixes.
    pub const ALL: Prefixes = Prefixes { first: 0, last: u16::MAX };

    /// The `index`th of `count` equal shares.
    pub fn share(index: u32, count: u32) -> Prefixes {
        assert!(index < count && count <= PREFIXES, "share {index} of {count}");
        let edge = |i: u32| (u64::from(PREFIXES) * u64::from(i) / u64::from(count)) as u32;
        Prefixes { first: edge(index) as u16, last: (edge(index + 1) - 1) as u16 }
    }

    /// Whether the domain is in this range.
    pub fn holds(self, domain: DomainKey) -> bool {
        (self.first..=self.last).contains(&domain.prefix())
    }

    /// Splits the range; the second half begins with this prefix. `None` if one half would be empty.
    pub fn split(self, at: u16) -> Option<(Prefixes, Prefixes)> {
        (self.first < at && at <= self.last)
            .then(|| (Prefixes { first: self.first, last: at - 1 }, Prefixes { first: at, last: self.last }))
    }

    /// The lowest domain key of the range.
    pub fn first_domain(self) -> DomainKey {
        DomainKey(u64::from(self.first) << 48)
    }

    /// The highest domain key of the range.
    pub fn last_domain(self) -> DomainKey {
        DomainKey((u64::from(self.last) << 48) | (u64::MAX >> 16))
    }
}

/// A node, by a hash of its name. The id survives restarts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl NodeId {
    /// The node of this name.
    pub fn of(name: &str) -> NodeId {
        NodeId(xxhash_rust::xxh3::xxh3_64(name.as_bytes()))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Secret = Secret([7; 16]);

    fn key(url: &str) -> UrlKey {
        UrlKey::of(&CrawlUrl::parse(url).unwrap(), &SECRET)
    }

    #[test]
    fn urls_of_a_host_and_hosts_of_a_domain_stand_together() {
        let (a, b) = (key("https://www.example.co.uk/1"), key("https://www.example.co.uk/2"));
        let c = key("https://api.example.co.uk/1");
        let d = key("https://example.co.jp/1");
        assert_eq!(a.host, b.host);
        assert_ne!(a.path, b.path);
        assert_eq!(a.host.domain, c.host.domain);
        assert_ne!(a.host, c.host);
        assert_ne!(a.host.domain, d.host.domain);
    }

    #[test]
    fn scheme_and_port_make_another_host() {
        let plain = key("http://example.com/");
        assert_ne!(plain.host, key("https://example.com/").host);
        assert_ne!(plain.host, key("http://example.com:8080/").host);
        assert_eq!(plain.host, key("http://EXAMPLE.com:80/x").host);
    }

    #[test]
    fn private_suffixes_are_domains_of_their_own() {
        assert_ne!(key("http://a.blogspot.com/").host.domain, key("http://b.blogspot.com/").host.domain);
    }

    #[test]
    fn bytes_sort_as_keys_do() {
        let mut keys: Vec<UrlKey> =
            (0..200).map(|i| key(&format!("http://h{}.d{}.test/{i}", i % 7, i % 5))).collect();
        keys.sort();
        let bytes: Vec<_> = keys.iter().map(|k| k.to_bytes()).collect();
        assert!(bytes.is_sorted());
        assert!(keys.iter().zip(&bytes).all(|(k, b)| UrlKey::from_bytes(b) == *k));
    }

    #[test]
    fn another_secret_gives_other_keys() {
        let url = CrawlUrl::parse("http://example.com/").unwrap();
        assert_ne!(UrlKey::of(&url, &SECRET).host.domain, UrlKey::of(&url, &Secret([8; 16])).host.domain);
    }

    #[test]
    fn shares_cover_every_prefix_once() {
        for count in [1, 3, 16, 256, 65_536] {
            let mut next = 0u32;
            for index in 0..count {
                let share = Prefixes::share(index, count);
                assert_eq!(u32::from(share.first), next);
                next = u32::from(share.last) + 1;
            }
            assert_eq!(next, PREFIXES);
        }
    }

    #[test]
    fn a_split_loses_no_prefix() {
        let whole = Prefixes::share(2, 16);
        let (low, high) = whole.split(whole.first + 100).unwrap();
        assert_eq!((low.first, high.last), (whole.first, whole.last));
        assert_eq!(low.last + 1, high.first);
        assert!(whole.split(whole.first).is_none() && whole.split(whole.last.wrapping_add(1)).is_none());
        assert!(low.holds(low.first_domain()) && low.holds(low.last_domain()));
        assert!(!high.holds(low.last_domain()));
    }

    // Stored bytes must stay readable: a key made today must be found in a table written years ago.
    #[test]
    fn golden_keys() {
        assert_eq!(key("https://www.example.com/a?b=c").to_string(), GOLDEN);
    }

    const GOLDEN: &str = "647d3e6309e5a72b-65743469-b99aa83b340fb73e";
}
