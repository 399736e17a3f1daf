//! Domains that are spread: their hosts are divided over the partitions, each host by its name.
//!
//! Usually a registrable domain is of one partition, its **home**. An operator may spread a domain. The home decides at
//! one position of its log which hosts **stay**: the hosts that it knows there. Every other host has a key of its own
//! from then on, made of the host's name in the place of the domain's, and belongs to the partition of that key. So
//! nothing moves, and a host never changes its owner. The home sends URLs of the other hosts on; nodes that have read
//! the decision send them there directly.
//!
//! The module `spread` of [`crate::cluster`] divides what comes to a home.
//!
//! Invariants: at every position of the home's log each host is of one partition; a decision is never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::key::{DomainKey, HostKey, Secret, UrlKey};
use crate::url::CrawlUrl;

/// Maximum number of hosts that stay. A domain with more known hosts is not spread: the list is in every node's memory.
pub const STAYING_MAX: usize = 50_000;

/// The decision about one domain: an entry of the home's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainSpread {
    /// The domain.
    pub domain: DomainKey,
    /// Its name.
    pub name: Box<str>,
    /// The hosts that stay. Empty on the way to the home, which decides.
    pub staying: Arc<BTreeSet<u32>>,
}

impl DomainSpread {
    /// The wish to spread a domain, on its way to the home.
    pub fn wish(name: &str, secret: &Secret) -> DomainSpread {
        DomainSpread { domain: DomainKey::of(name, secret), name: name.into(), staying: Arc::default() }
    }

    /// Appends the written form.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.domain.0.to_be_bytes());
        put_bytes(out, self.name.as_bytes());
        put_u64(out, self.staying.len() as u64);
        self.staying.iter().for_each(|host| out.extend(host.to_be_bytes()));
    }

    /// Reads the written form.
    pub fn read(reader: &mut Reader<'_>) -> Result<DomainSpread, Damaged> {
        const WHAT: &str = "spread of a domain";
        let domain = DomainKey(reader.fixed_u64(WHAT)?);
        let name = reader.text(WHAT)?.into();
        let mut staying = BTreeSet::new();
        for _ in 0..reader.u64(WHAT)? {
            let host = reader.take(4, WHAT)?;
            staying.insert(u32::from_be_bytes(host.try_into().expect("as many were taken")));
        }
        Ok(DomainSpread { domain, name, staying: Arc::new(staying) })
    }
}

/// All decisions that a partition has made, or that a node has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread(BTreeMap<DomainKey, DomainSpread>);

impl Spread {
    /// Whether no domain is spread.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The decisions, by domain.
    pub fn iter(&self) -> impl Iterator<Item = &DomainSpread> {
        self.0.values()
    }

    /// The decision about a domain.
    pub fn get(&self, domain: DomainKey) -> Option<&DomainSpread> {
        self.0.get(&domain)
    }

    /// Adds a decision, unless the domain has one.
    pub fn add(&mut self, decided: DomainSpread) {
        self.0.entry(decided.domain).or_insert(decided);
    }

    /// The key of a URL.
    pub fn key(&self, url: &CrawlUrl, secret: &Secret) -> UrlKey {
        let key = UrlKey::of(url, secret);
        UrlKey { host: self.host(key.host, url.host_str(), secret), ..key }
    }

    /// The key of a host with this name, by the key that the host has without a spread. A key of its own stays.
    pub fn host(&self, key: HostKey, name: &str, secret: &Secret) -> HostKey {
        match self.0.get(&key.domain) {
            Some(decided) if !decided.staying.contains(&key.host) => {
                HostKey { domain: DomainKey::of(name, secret), ..key }
            }
            _ => key,
        }
    }

    /// The same by the origin of the host.
    pub fn host_of(&self, key: HostKey, origin: &str, secret: &Secret) -> HostKey {
        if self.0.is_empty() { key } else { self.host(key, name_of(origin), secret) }
    }

    /// Appends the written form.
    pub fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.0.len() as u64);
        self.iter().for_each(|decided| decided.put(out));
    }

    /// Reads the written form.
    pub fn read(reader: &mut Reader<'_>) -> Result<Spread, Damaged> {
        let mut spread = Spread::default();
        for _ in 0..reader.u64("number of spread domains")? {
            spread.add(DomainSpread::read(reader)?);
        }
        Ok(spread)
    }
}

/// The name in an origin: without scheme and port.
fn name_of(origin: &str) -> &str {
    let authority = origin.split_once("://").map_or(origin, |(_, authority)| authority);
    match authority.rsplit_once(':') {
        // The last colon of an IPv6 address is within its brackets.
        Some((name, port)) if !port.ends_with(']') => name,
        _ => authority,
    }
}
