//! Parsed rules of robots.txt files: a file is parsed once, and not for every visit of its host.
//!
//! The rules of a host are kept with the record under which they are in force. They stand in one of two generations:
//! whatever is asked for is moved to the young one; when the young one has half of all room, it becomes the old one, and
//! what nobody asked for since is dropped.
//!
//! Invariants: rules are given out only under the record that they were kept with, and never after [`RobotsCache::forget`];
//! all rules together take at most [`CACHE_BYTES_MAX`], those of a host at most [`HOST_BYTES_MAX`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::key::{HostKey, Prefixes};
use crate::robots::Robots;
use crate::state::record::RobotsRecord;

/// Maximum size of all rules in bytes, approximately.
pub(super) const CACHE_BYTES_MAX: usize = 16 << 20;
/// Maximum size of the rules of a host in bytes, approximately. Larger ones are parsed whenever they are needed.
pub(super) const HOST_BYTES_MAX: usize = 1 << 20;
/// Approximate size of an entry beside its rules, in bytes.
const ENTRY_BYTES: usize = 2 * size_of::<(HostKey, Kept)>();

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RobotsCache {
    young: Generation,
    old: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    rules: BTreeMap<HostKey, Kept>,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    record: RobotsRecord,
    rules: Arc<Robots>,
    bytes: usize,
}

impl Generation {
    fn remove(&mut self, host: &HostKey) -> Option<Kept> {
        let kept = self.rules.remove(host)?;
        self.bytes -= kept.bytes;
        Some(kept)
    }

    fn forget_all(&mut self, prefixes: Prefixes) {
        self.rules.retain(|host, _| !prefixes.holds(host.domain));
        self.bytes = self.rules.values().map(|kept| kept.bytes).sum();
    }
}

impl RobotsCache {
    /// The rules of a host under this record, if they are here.
    pub(super) fn get(&mut self, host: &HostKey, record: &RobotsRecord) -> Option<Arc<Robots>> {
        if let Some(kept) = self.young.rules.get(host) {
            return (kept.record == *record).then(|| kept.rules.clone());
        }
        let kept = self.old.remove(host).filter(|kept| kept.record == *record)?;
        let rules = kept.rules.clone();
        self.insert(*host, kept);
        Some(rules)
    }

    /// Keeps the rules of a host, unless they are too large.
    pub(super) fn keep(&mut self, host: HostKey, record: RobotsRecord, rules: Arc<Robots>) {
        self.forget(&host);
        let bytes = ENTRY_BYTES + rules.bytes();
        if bytes <= HOST_BYTES_MAX {
            self.insert(host, Kept { record, rules, bytes });
        }
    }

    /// The robots.txt of a host has changed.
    pub(super) fn forget(&mut self, host: &HostKey) {
        self.young.remove(host);
        self.old.remove(host);
    }

    /// Another owner may change the robots.txt of these hosts.
    pub(super) fn forget_all(&mut self, prefixes: Prefixes) {
        self.young.forget_all(prefixes);
        self.old.forget_all(prefixes);
    }

    /// Size of all rules in bytes, approximately.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.young.bytes + self.old.bytes
    }

    /// Adds an entry that is in neither generation.
    fn insert(&mut self, host: HostKey, kept: Kept) {
        if self.young.bytes + kept.bytes > CACHE_BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.bytes += kept.bytes;
        self.young.rules.insert(host, kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::DomainKey;
    use crate::time::Seconds;

    fn host(number: u32) -> HostKey {
        HostKey { domain: DomainKey(7), host: number }
    }

    fn record(fetched: u32) -> RobotsRecord {
        RobotsRecord { fetched: Seconds(fetched), ..RobotsRecord::default() }
    }

    fn rules(count: usize) -> Arc<Robots> {
        let lines: String = (0..count).map(|line| format!("Disallow: /some/long/folder/{line}\n")).collect();
        Arc::new(Robots::parse(format!("User-agent: *\n{lines}").as_bytes(), "nephila").for_verdicts())
    }

    #[test]
    fn rules_are_given_out_under_their_own_record_alone() {
        let mut cache = RobotsCache::default();
        cache.keep(host(1), record(5), rules(3));
        assert_eq!(cache.get(&host(1), &record(5)).map(|rules| rules.rule_count()), Some(3));
        assert!(cache.get(&host(1), &record(6)).is_none() && cache.get(&host(2), &record(5)).is_none());
        cache.forget(&host(1));
        assert!(cache.get(&host(1), &record(5)).is_none());
        cache.keep(host(1), record(5), rules(1));
        cache.keep(host(1), record(6), rules(2));
        assert_eq!(cache.get(&host(1), &record(6)).map(|rules| rules.rule_count()), Some(2));
        cache.forget_all(Prefixes::ALL);
        assert!(cache.get(&host(1), &record(6)).is_none());
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn memory_is_bounded_and_what_is_asked_for_stays() {
        let mut cache = RobotsCache::default();
        let some = rules(1_000);
        let one = ENTRY_BYTES + some.bytes();
        for number in 0..1_000 {
            cache.keep(host(number), record(0), some.clone());
            assert!(cache.get(&host(0), &record(0)).is_some(), "asked for all the time: {number}");
            assert!(cache.bytes() <= CACHE_BYTES_MAX);
        }
        let here = (0..1_000).filter(|number| cache.get(&host(*number), &record(0)).is_some()).count();
        assert!(here >= CACHE_BYTES_MAX / 2 / one - 1, "{here} of {one} bytes each");
        let before = cache.bytes();
        cache.keep(host(2_000), record(0), rules(HOST_BYTES_MAX / 100));
        assert!(cache.get(&host(2_000), &record(0)).is_none(), "too large");
        assert_eq!(cache.bytes(), before);
    }
}
