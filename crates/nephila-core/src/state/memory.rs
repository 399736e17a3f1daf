//! A state that lives in memory: for `--state memory`, for simulations, and as the newest layer of the state on disk.
//!
//! Both implementations behave alike, this one in the plainest way, and both pass the same tests.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::queue::{LaterKey, QueueKey};
use super::record::{DomainRecord, HostRecord, UrlRecord};
use super::{Beside, Changes, Durable, Item, Meta, Planned, Position, Queued, State, StateError};
use crate::key::{DomainKey, HostKey, Prefixes, UrlKey};

/// Approximate cost of a table entry in bytes beside its own text: half-full tree nodes and one allocation.
const ENTRY_BYTES: usize = 48;

/// A state in memory.
#[derive(Clone, Debug, Default)]
pub struct MemoryState {
    position: Position,
    meta: Meta,
    /// The tables.
    pub tables: Tables,
}

/// Everything a state holds, in sorted maps.
#[derive(Clone, Debug, Default)]
pub struct Tables {
    /// URLs.
    pub urls: BTreeMap<UrlKey, UrlRecord>,
    /// Queues. URLs may share a place; these are sorted by text.
    pub queued: BTreeSet<(HostKey, QueueKey, Box<str>)>,
    /// Plans.
    pub planned: BTreeMap<(HostKey, LaterKey), Box<str>>,
    /// Hosts.
    pub hosts: BTreeMap<HostKey, HostRecord>,
    /// Domains.
    pub domains: BTreeMap<DomainKey, DomainRecord>,
    /// The bytes of robots.txt files.
    pub robots: BTreeMap<HostKey, Box<[u8]>>,
    /// Records beside URLs.
    pub beside: BTreeMap<(Beside, UrlKey), Box<[u8]>>,
    /// Approximate memory use of all tables in bytes.
    pub bytes: usize,
}

impl Tables {
    /// Applies the changes.
    pub fn apply(&mut self, changes: Changes) {
        for (key, record) in changes.urls {
            self.bytes += ENTRY_BYTES + size_of::<(UrlKey, UrlRecord)>();
            self.bytes += record.text.as_deref().map_or(0, str::len);
            self.bytes +=
                record.last.as_deref().map_or(0, |last| 64 + last.etag.len() + last.last_modified.len());
            self.urls.insert(key, record);
        }
        for (host, queued) in changes.queued {
            self.bytes += ENTRY_BYTES + size_of::<(HostKey, QueueKey, Box<str>)>() + queued.text.len();
            self.queued.insert((host, queued.place, queued.text));
        }
        for (host, planned) in changes.planned {
            self.bytes += ENTRY_BYTES + size_of::<(HostKey, LaterKey)>() + planned.text.len();
            self.planned.insert((host, planned.place), planned.text);
        }
        for (key, record) in changes.hosts {
            if self.hosts.insert(key, record).is_none() {
                self.bytes += 2 * ENTRY_BYTES + size_of::<(HostKey, HostRecord)>();
            }
        }
        for (key, record) in changes.domains {
            if self.domains.insert(key, record).is_none() {
                self.bytes += ENTRY_BYTES + size_of::<(DomainKey, DomainRecord)>();
            }
        }
        for (key, body) in changes.robots {
            self.bytes += ENTRY_BYTES + body.len();
            self.robots.insert(key, body);
        }
        for (kind, key, value) in changes.beside {
            self.bytes += ENTRY_BYTES + size_of::<(Beside, UrlKey)>() + value.len();
            if let Some(old) = self.beside.insert((kind, key), value) {
                self.bytes -= ENTRY_BYTES + size_of::<(Beside, UrlKey)>() + old.len();
            }
        }
    }

    /// Merges newer tables into these.
    pub fn append(&mut self, newer: Tables) {
        let Tables { urls, queued, planned, hosts, domains, robots, beside, bytes } = newer;
        self.urls.extend(urls);
        self.queued.extend(queued);
        self.planned.extend(planned);
        self.hosts.extend(hosts);
        self.domains.extend(domains);
        self.robots.extend(robots);
        self.beside.extend(beside);
        self.bytes += bytes;
    }

    /// The first `max` URLs of a host's queue behind a place.
    pub fn queued(&self, host: &HostKey, behind: QueueKey, max: usize, out: &mut Vec<Queued>) {
        let wanted = out.len() + max;
        let from = (*host, behind.after(), Box::default());
        for (_, place, text) in
            self.queued.range(from..).take_while(|(of, place, _)| of == host && *place > behind)
        {
            // All URLs of one place, even if that is one too many: a reader that continues behind the place would
            // miss the others.
            if out.len() >= wanted && out.last().is_none_or(|last| last.place != *place) {
                break;
            }
            out.push(Queued { place: *place, text: text.clone() });
        }
    }

    /// The first `max` URLs planned for a host behind a place.
    pub fn planned(&self, host: &HostKey, behind: LaterKey, max: usize, out: &mut Vec<Planned>) {
        let from = (Bound::Excluded((*host, behind)), Bound::Unbounded);
        let of_host = self.planned.range(from).take_while(|((of, _), _)| of == host);
        out.extend(of_host.take(max).map(|((_, place), text)| Planned { place: *place, text: text.clone() }));
    }
}

impl MemoryState {
    /// An empty state.
    pub fn new() -> Self {
        MemoryState::default()
    }
}

/// The first and the last host key that these prefixes may hold.
fn bounds(prefixes: Prefixes) -> (HostKey, HostKey) {
    (
        HostKey { domain: prefixes.first_domain(), host: 0 },
        HostKey { domain: prefixes.last_domain(), host: u32::MAX },
    )
}

impl State for MemoryState {
    fn position(&self) -> Position {
        self.position
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn known(&mut self, keys: &[UrlKey], known: &mut [bool]) -> Result<(), StateError> {
        for (key, known) in keys.iter().zip(known) {
            *known = self.tables.urls.contains_key(key);
        }
        Ok(())
    }

    fn urls(&mut self, keys: &[UrlKey], found: &mut Vec<Option<UrlRecord>>) -> Result<(), StateError> {
        found.extend(keys.iter().map(|key| self.tables.urls.get(key).cloned()));
        Ok(())
    }

    fn hosts(&mut self, keys: &[HostKey], found: &mut Vec<Option<HostRecord>>) -> Result<(), StateError> {
        found.extend(keys.iter().map(|key| self.tables.hosts.get(key).cloned()));
        Ok(())
    }

    fn domains(
        &mut self,
        keys: &[DomainKey],
        found: &mut Vec<Option<DomainRecord>>,
    ) -> Result<(), StateError> {
        found.extend(keys.iter().map(|key| self.tables.domains.get(key).cloned()));
        Ok(())
    }

    fn robots(&mut self, host: &HostKey) -> Result<Option<Box<[u8]>>, StateError> {
        Ok(self.tables.robots.get(host).cloned())
    }

    fn queued(
        &mut self,
        host: &HostKey,
        behind: QueueKey,
        max: usize,
        out: &mut Vec<Queued>,
    ) -> Result<(), StateError> {
        self.tables.queued(host, behind, max, out);
        Ok(())
    }

    fn planned(
        &mut self,
        host: &HostKey,
        behind: LaterKey,
        max: usize,
        out: &mut Vec<Planned>,
    ) -> Result<(), StateError> {
        self.tables.planned(host, behind, max, out);
        Ok(())
    }

    fn hosts_from(
        &mut self,
        from: HostKey,
        max: usize,
        out: &mut Vec<(HostKey, HostRecord)>,
    ) -> Result<(), StateError> {
        out.extend(self.tables.hosts.range(from..).take(max).map(|(key, record)| (*key, record.clone())));
        Ok(())
    }

    fn urls_from(
        &mut self,
        from: UrlKey,
        max: usize,
        out: &mut Vec<(UrlKey, UrlRecord)>,
    ) -> Result<(), StateError> {
        out.extend(self.tables.urls.range(from..).take(max).map(|(key, record)| (*key, record.clone())));
        Ok(())
    }

    fn beside(
        &mut self,
        kind: Beside,
        keys: &[UrlKey],
        found: &mut Vec<Option<Box<[u8]>>>,
    ) -> Result<(), StateError> {
        found.extend(keys.iter().map(|key| self.tables.beside.get(&(kind, *key)).cloned()));
        Ok(())
    }

    fn beside_from(
        &mut self,
        kind: Beside,
        from: UrlKey,
        max: usize,
        out: &mut Vec<(UrlKey, Box<[u8]>)>,
    ) -> Result<(), StateError> {
        let here = self.tables.beside.range((kind, from)..).take_while(|((of, _), _)| *of == kind);
        out.extend(here.take(max).map(|((_, key), value)| (*key, value.clone())));
        Ok(())
    }

    fn apply(&mut self, mut changes: Changes, position: Position) -> Result<(), StateError> {
        if let Some(meta) = changes.meta.take() {
            self.meta = meta;
        }
        self.meta.take_batches(&changes.batches);
        self.meta.totals.count(&changes.counted);
        // Ended URLs leave the queue: in memory nothing else would ever remove them.
        for (key, record) in &changes.hosts {
            let old = self.tables.hosts.get(key);
            if old.is_some_and(|old| old.floor < record.floor) {
                let ended =
                    (*key, QueueKey::MIN, Box::default())..(*key, record.floor.after(), Box::default());
                self.tables.queued.extract_if(ended, |_| true).for_each(drop);
            }
            if old.is_some_and(|old| old.later_floor < record.later_floor) {
                let ended = (*key, LaterKey::MIN)..=(*key, record.later_floor);
                self.tables.planned.extract_if(ended, |_, _| true).for_each(drop);
            }
        }
        self.tables.apply(changes);
        self.position = position;
        Ok(())
    }

    fn walk(&mut self, prefixes: Prefixes, each: &mut dyn FnMut(Item<'_>)) -> Result<(), StateError> {
        let (first, last) = bounds(prefixes);
        let tables = &self.tables;
        let urls = UrlKey { host: first, path: 0 }..=UrlKey { host: last, path: u64::MAX };
        tables.urls.range(urls).for_each(|(key, record)| each(Item::Url(key, record)));
        tables.hosts.range(first..=last).for_each(|(key, record)| each(Item::Host(key, record)));
        let domains = first.domain..=last.domain;
        tables.domains.range(domains).for_each(|(key, record)| each(Item::Domain(key, record)));
        tables.robots.range(first..=last).for_each(|(key, body)| each(Item::Robots(key, body)));
        let from = (first, QueueKey::MIN, Box::default());
        for (host, place, text) in tables.queued.range(from..).take_while(|(host, _, _)| *host <= last) {
            let floor = tables.hosts.get(host).map(|record| record.floor);
            if floor.is_none_or(|floor| *place > floor) {
                each(Item::Queued(host, &Queued { place: *place, text: text.clone() }));
            }
        }
        let places = (Bound::Included((first, LaterKey::MIN)), Bound::Unbounded);
        for ((host, place), text) in tables.planned.range(places).take_while(|((host, _), _)| *host <= last) {
            let floor = tables.hosts.get(host).map(|record| record.later_floor);
            if floor.is_none_or(|floor| *place > floor) {
                each(Item::Planned(host, &Planned { place: *place, text: text.clone() }));
            }
        }
        for kind in Beside::ALL {
            let urls =
                (kind, UrlKey { host: first, path: 0 })..=(kind, UrlKey { host: last, path: u64::MAX });
            tables.beside.range(urls).for_each(|((_, key), value)| each(Item::Beside(kind, key, value)));
        }
        Ok(())
    }
}

/// Nothing in memory survives: the whole log is needed.
impl Durable for MemoryState {
    fn checkpoint(&mut self) -> Result<Position, StateError> {
        Ok(Position::default())
    }

    fn dirty_bytes(&self) -> usize {
        0
    }
}
