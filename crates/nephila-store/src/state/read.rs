//! Reading of a state: the memory first, then the runs.

use std::collections::BTreeMap;
use std::ops::Bound;

use nephila_core::key::{DomainKey, HostKey, Prefixes, UrlKey};
use nephila_core::state::memory::Tables;
use nephila_core::state::queue::{LaterKey, QueueKey};
use nephila_core::state::record::{DomainRecord, HostRecord, UrlRecord};
use nephila_core::state::{
    Beside, Changes, Durable, Item, Meta, Planned, Position, Queued, State, StateError,
};

use super::table::{Table, domain_of, host_of, url_of};
use super::{DiskState, later_key, queue_key, run_error};
use crate::runs::{Entries, Keys, Merge, Policy, Run, Source};

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// Sorted memory entries of a table, from the keys of this domain on.
pub(super) fn memory_entries(
    memory: &Tables,
    table: Table,
    from: Option<DomainKey>,
) -> Box<dyn Iterator<Item = Entry> + '_> {
    let domain = from.unwrap_or_default();
    let host = HostKey { domain, host: 0 };
    match table {
        Table::Urls => Box::new(
            memory
                .urls
                .range(UrlKey { host, path: 0 }..)
                .map(|(key, record)| (key.to_bytes().to_vec(), encoded(|out| record.encode(out)))),
        ),
        Table::Queued => {
            let from = (host, QueueKey::MIN, Box::default());
            Box::new(
                memory
                    .queued
                    .range(from..)
                    .map(|(host, place, text)| (queue_key(host, place).to_vec(), text.as_bytes().to_vec())),
            )
        }
        Table::Planned => Box::new(
            memory
                .planned
                .range((host, LaterKey::MIN)..)
                .map(|((host, place), text)| (later_key(host, place).to_vec(), text.as_bytes().to_vec())),
        ),
        Table::Hosts => Box::new(
            memory
                .hosts
                .range(host..)
                .map(|(key, record)| (key.to_bytes().to_vec(), encoded(|out| record.encode(out)))),
        ),
        Table::Domains => Box::new(
            memory
                .domains
                .range(domain..)
                .map(|(key, record)| (key.0.to_be_bytes().to_vec(), encoded(|out| record.encode(out)))),
        ),
        Table::Robots => {
            Box::new(memory.robots.range(host..).map(|(key, body)| (key.to_bytes().to_vec(), body.to_vec())))
        }
        Table::Feeds => beside_entries(memory, Beside::Feed, UrlKey { host, path: 0 }),
        Table::Streams => beside_entries(memory, Beside::Stream, UrlKey { host, path: 0 }),
        Table::Sources => beside_entries(memory, Beside::Source, UrlKey { host, path: 0 }),
        Table::Stories => beside_entries(memory, Beside::Story, UrlKey { host, path: 0 }),
    }
}

/// Encodes a record.
fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// Memory entries of one kind of record beside URLs, from a key on.
fn beside_entries(memory: &Tables, kind: Beside, from: UrlKey) -> Box<dyn Iterator<Item = Entry> + '_> {
    let of_kind = memory.beside.range((kind, from)..).take_while(move |((of, _), _)| *of == kind);
    Box::new(of_kind.map(|((_, key), value)| (key.to_bytes().to_vec(), value.to_vec())))
}

impl DiskState {
    /// Tables being flushed: older than the memory, newer than the runs.
    fn frozen(&self) -> Option<&Tables> {
        self.flushing.as_ref().map(|flushing| &*flushing.memory)
    }

    fn runs_of(&self, table: Table) -> &[(u64, Run)] {
        self.runs.get(&table).map(Vec::as_slice).unwrap_or_default()
    }

    /// The newest versions of these ascending keys. Keys in memory are known already.
    fn get_sorted<K, V>(
        &mut self,
        table: Table,
        keys: &[K],
        bytes: impl Fn(&K) -> Vec<u8>,
        decode: impl Fn(&[u8]) -> Result<V, StateError>,
        found: &mut [Option<V>],
    ) -> Result<(), StateError> {
        let mut wrong = None;
        let mut missing: Vec<usize> = (0..keys.len()).filter(|i| found[*i].is_none()).collect();
        let runs = self.runs.get(&table).map(Vec::as_slice).unwrap_or_default();
        for (_, run) in runs.iter().rev() {
            if missing.is_empty() {
                break;
            }
            if let [only] = missing[..] {
                // A single read goes through the cache.
                if let Some(value) = run.get(&bytes(&keys[only]), &mut self.io).map_err(run_error)? {
                    found[only] = Some(decode(&value)?);
                }
            } else {
                let flat: Vec<u8> = missing.iter().flat_map(|i| bytes(&keys[*i])).collect();
                let width = run.options().shape.width();
                run.get_sorted(Keys::new(&flat, width), &mut self.io, |i, value| match decode(value) {
                    Ok(value) => found[missing[i]] = Some(value),
                    Err(error) => wrong = Some(error),
                })
                .map_err(run_error)?;
            }
            if let Some(error) = wrong.take() {
                return Err(error);
            }
            missing.retain(|i| found[*i].is_none());
        }
        Ok(())
    }

    /// Iterates over the newest versions of a table's entries within these prefixes.
    fn walk_table(
        &self,
        table: Table,
        prefixes: Prefixes,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let first = prefixes.first_domain();
        let mut sources: Vec<Box<dyn Source + '_>> =
            vec![Box::new(Entries::new(memory_entries(&self.memory, table, Some(first))))];
        if let Some(frozen) = self.frozen() {
            sources.push(Box::new(Entries::new(memory_entries(frozen, table, Some(first)))));
        }
        for (_, run) in self.runs_of(table).iter().rev() {
            sources.push(Box::new(run.scan(&first.0.to_be_bytes())));
        }
        let policy = if table == Table::Queued { Policy::Each } else { Policy::Together };
        let mut merge = Merge::new(sources, policy);
        while let Some(group) = merge.next().map_err(run_error)? {
            if domain_of(group.key()) > prefixes.last_domain() {
                break;
            }
            each(group.key(), group.newest())?;
        }
        Ok(())
    }

    /// Iterates over the places of one host after a place, through memory and runs, until told to stop.
    fn walk_places(
        &mut self,
        table: Table,
        host: &HostKey,
        from: &[u8],
        memory: Vec<Entry>,
        frozen: Vec<Entry>,
        mut each: impl FnMut(&[u8], &[u8]) -> Result<bool, StateError>,
    ) -> Result<(), StateError> {
        let group = host.to_bytes();
        let mut sources: Vec<Box<dyn Source>> =
            vec![Box::new(Entries::new(memory)), Box::new(Entries::new(frozen))];
        let mut probe = group.to_vec();
        probe.resize(table.options().shape.width(), 0);
        for (_, run) in self.runs_of(table).iter().rev() {
            if run.contains_filter(&probe) {
                sources.push(Box::new(run.scan_group(&group, from)));
            }
        }
        let mut merge = Merge::new(sources, Policy::Each);
        while let Some(entry) = merge.next().map_err(run_error)? {
            if !each(&entry.key()[HostKey::BYTES..], entry.newest())? {
                break;
            }
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> Result<Box<str>, StateError> {
    let text = std::str::from_utf8(bytes).map_err(|_| StateError::Damaged("a URL is not text".into()))?;
    Ok(text.into())
}

impl State for DiskState {
    fn position(&self) -> Position {
        self.position
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn known(&mut self, keys: &[UrlKey], known: &mut [bool]) -> Result<(), StateError> {
        // The memory is small compared with a batch, or the batch with the memory: one lookup each is cheap.
        for (key, known) in keys.iter().zip(known.iter_mut()) {
            *known = self.memory.urls.contains_key(key)
                || self.frozen().is_some_and(|frozen| frozen.urls.contains_key(key));
        }
        let runs = self.runs.get(&Table::Urls).map(Vec::as_slice).unwrap_or_default();
        if runs.is_empty() {
            return Ok(());
        }
        let mut flat = Vec::with_capacity(keys.len() * UrlKey::BYTES);
        keys.iter().for_each(|key| flat.extend_from_slice(&key.to_bytes()));
        let flat = Keys::new(&flat, UrlKey::BYTES);
        // The oldest run is the largest and knows most keys; the others are not queried for these keys.
        for (_, run) in runs {
            run.contains_sorted(flat, known, &mut self.io).map_err(run_error)?;
        }
        Ok(())
    }

    fn urls(&mut self, keys: &[UrlKey], found: &mut Vec<Option<UrlRecord>>) -> Result<(), StateError> {
        let start = found.len();
        found.extend(keys.iter().map(|key| {
            let frozen = || self.frozen()?.urls.get(key);
            self.memory.urls.get(key).or_else(frozen).cloned()
        }));
        let decode = |value: &[u8]| Ok(UrlRecord::decode(value)?);
        self.get_sorted(Table::Urls, keys, |key| key.to_bytes().to_vec(), decode, &mut found[start..])
    }

    fn hosts(&mut self, keys: &[HostKey], found: &mut Vec<Option<HostRecord>>) -> Result<(), StateError> {
        let start = found.len();
        found.extend(keys.iter().map(|key| {
            let frozen = || self.frozen()?.hosts.get(key);
            self.memory.hosts.get(key).or_else(frozen).cloned()
        }));
        let decode = |value: &[u8]| Ok(HostRecord::decode(value)?);
        self.get_sorted(Table::Hosts, keys, |key| key.to_bytes().to_vec(), decode, &mut found[start..])
    }

    fn domains(
        &mut self,
        keys: &[DomainKey],
        found: &mut Vec<Option<DomainRecord>>,
    ) -> Result<(), StateError> {
        let start = found.len();
        found.extend(keys.iter().map(|key| {
            let frozen = || self.frozen()?.domains.get(key);
            self.memory.domains.get(key).or_else(frozen).cloned()
        }));
        let decode = |value: &[u8]| Ok(DomainRecord::decode(value)?);
        self.get_sorted(Table::Domains, keys, |key| key.0.to_be_bytes().to_vec(), decode, &mut found[start..])
    }

    fn robots(&mut self, host: &HostKey) -> Result<Option<Box<[u8]>>, StateError> {
        let frozen = || self.frozen()?.robots.get(host);
        let mut found = [self.memory.robots.get(host).or_else(frozen).cloned()];
        let decode = |value: &[u8]| Ok(Box::from(value));
        self.get_sorted(Table::Robots, &[*host], |key| key.to_bytes().to_vec(), decode, &mut found)?;
        let [body] = found;
        Ok(body)
    }

    fn queued(
        &mut self,
        host: &HostKey,
        behind: QueueKey,
        max: usize,
        out: &mut Vec<Queued>,
    ) -> Result<(), StateError> {
        let entries = |tables: &Tables| {
            let mut queued = Vec::new();
            tables.queued(host, behind, max, &mut queued);
            let entry =
                |queued: Queued| (queue_key(host, &queued.place).to_vec(), queued.text.as_bytes().to_vec());
            queued.into_iter().map(entry).collect()
        };
        let (memory, frozen) = (entries(&self.memory), self.frozen().map(entries).unwrap_or_default());
        let (start, wanted) = (out.len(), out.len() + max);
        self.walk_places(Table::Queued, host, &behind.after().to_bytes(), memory, frozen, |place, value| {
            let place = QueueKey::from_bytes(place);
            // All URLs of one place: a caller that continues after the place would miss the others.
            if out.len() >= wanted && out.last().is_none_or(|last| last.place != place) {
                return Ok(false);
            }
            if place > behind {
                let text = text(value)?;
                // A URL that was queued at the same place again may be in two runs.
                let of_place = out[start..].iter().rev().take_while(|queued| queued.place == place);
                if !of_place.into_iter().any(|queued| queued.text == text) {
                    out.push(Queued { place, text });
                }
            }
            Ok(true)
        })?;
        // URLs of one place are ordered by text, whichever run they came from.
        out[start..].sort_by(|a, b| a.place.cmp(&b.place).then_with(|| a.text.cmp(&b.text)));
        Ok(())
    }

    fn planned(
        &mut self,
        host: &HostKey,
        behind: LaterKey,
        max: usize,
        out: &mut Vec<Planned>,
    ) -> Result<(), StateError> {
        let entries = |tables: &Tables| {
            let mut planned = Vec::new();
            tables.planned(host, behind, max, &mut planned);
            let entry = |planned: Planned| {
                (later_key(host, &planned.place).to_vec(), planned.text.as_bytes().to_vec())
            };
            planned.into_iter().map(entry).collect()
        };
        let (memory, frozen) = (entries(&self.memory), self.frozen().map(entries).unwrap_or_default());
        let wanted = out.len() + max;
        self.walk_places(Table::Planned, host, &behind.to_bytes(), memory, frozen, |place, value| {
            let place = LaterKey::from_bytes(place);
            if out.len() >= wanted {
                return Ok(false);
            }
            // The same plan may be in memory and in a run.
            if place > behind && out.last().is_none_or(|last| last.place != place) {
                out.push(Planned { place, text: text(value)? });
            }
            Ok(true)
        })
    }

    fn hosts_from(
        &mut self,
        from: HostKey,
        max: usize,
        out: &mut Vec<(HostKey, HostRecord)>,
    ) -> Result<(), StateError> {
        let mut sources: Vec<Box<dyn Source + '_>> = Vec::new();
        for tables in [Some(&self.memory), self.frozen()].into_iter().flatten() {
            let hosts = tables.hosts.range((Bound::Included(from), Bound::Unbounded)).map(|(key, record)| {
                let mut value = Vec::new();
                record.encode(&mut value);
                (key.to_bytes().to_vec(), value)
            });
            sources.push(Box::new(Entries::new(hosts)));
        }
        for (_, run) in self.runs_of(Table::Hosts).iter().rev() {
            sources.push(Box::new(run.scan(&from.to_bytes())));
        }
        let mut merge = Merge::new(sources, Policy::Together);
        for _ in 0..max {
            let Some(group) = merge.next().map_err(run_error)? else { break };
            out.push((host_of(group.key()), HostRecord::decode(group.newest())?));
        }
        Ok(())
    }

    fn urls_from(
        &mut self,
        from: UrlKey,
        max: usize,
        out: &mut Vec<(UrlKey, UrlRecord)>,
    ) -> Result<(), StateError> {
        let mut sources: Vec<Box<dyn Source + '_>> = Vec::new();
        for tables in [Some(&self.memory), self.frozen()].into_iter().flatten() {
            let urls = tables.urls.range(from..);
            let entries =
                urls.map(|(key, record)| (key.to_bytes().to_vec(), encoded(|out| record.encode(out))));
            sources.push(Box::new(Entries::new(entries)));
        }
        for (_, run) in self.runs_of(Table::Urls).iter().rev() {
            sources.push(Box::new(run.scan(&from.to_bytes())));
        }
        let mut merge = Merge::new(sources, Policy::Together);
        for _ in 0..max {
            let Some(group) = merge.next().map_err(run_error)? else { break };
            out.push((url_of(group.key()), UrlRecord::decode(group.newest())?));
        }
        Ok(())
    }

    fn beside(
        &mut self,
        kind: Beside,
        keys: &[UrlKey],
        found: &mut Vec<Option<Box<[u8]>>>,
    ) -> Result<(), StateError> {
        let start = found.len();
        found.extend(keys.iter().map(|key| {
            let frozen = || self.frozen()?.beside.get(&(kind, *key));
            self.memory.beside.get(&(kind, *key)).or_else(frozen).cloned()
        }));
        let decode = |value: &[u8]| Ok(Box::from(value));
        let table = Table::beside(kind);
        self.get_sorted(table, keys, |key| key.to_bytes().to_vec(), decode, &mut found[start..])
    }

    fn beside_from(
        &mut self,
        kind: Beside,
        from: UrlKey,
        max: usize,
        out: &mut Vec<(UrlKey, Box<[u8]>)>,
    ) -> Result<(), StateError> {
        let mut sources: Vec<Box<dyn Source + '_>> = Vec::new();
        for tables in [Some(&self.memory), self.frozen()].into_iter().flatten() {
            sources.push(Box::new(Entries::new(beside_entries(tables, kind, from))));
        }
        for (_, run) in self.runs_of(Table::beside(kind)).iter().rev() {
            sources.push(Box::new(run.scan(&from.to_bytes())));
        }
        let mut merge = Merge::new(sources, Policy::Together);
        for _ in 0..max {
            let Some(group) = merge.next().map_err(run_error)? else { break };
            out.push((url_of(group.key()), group.newest().into()));
        }
        Ok(())
    }

    fn apply(&mut self, changes: Changes, position: Position) -> Result<(), StateError> {
        self.take(changes, position)
    }

    fn walk(&mut self, prefixes: Prefixes, each: &mut dyn FnMut(Item<'_>)) -> Result<(), StateError> {
        self.walk_table(Table::Urls, prefixes, |key, value| {
            let key = UrlKey::from_bytes(key.try_into().expect("as wide as a URL's key"));
            each(Item::Url(&key, &UrlRecord::decode(value)?));
            Ok(())
        })?;
        let mut floors: BTreeMap<HostKey, (QueueKey, LaterKey)> = BTreeMap::new();
        self.walk_table(Table::Hosts, prefixes, |key, value| {
            let (key, record) = (host_of(key), HostRecord::decode(value)?);
            if (record.floor, record.later_floor) != (QueueKey::MIN, LaterKey::MIN) {
                floors.insert(key, (record.floor, record.later_floor));
            }
            each(Item::Host(&key, &record));
            Ok(())
        })?;
        self.walk_table(Table::Domains, prefixes, |key, value| {
            each(Item::Domain(&domain_of(key), &DomainRecord::decode(value)?));
            Ok(())
        })?;
        self.walk_table(Table::Robots, prefixes, |key, value| {
            each(Item::Robots(&host_of(key), value));
            Ok(())
        })?;
        let mut shared: Vec<(HostKey, Queued)> = Vec::new();
        let mut show = |shared: &mut Vec<(HostKey, Queued)>| {
            shared.sort_by(|a, b| a.1.text.cmp(&b.1.text));
            shared.dedup_by(|a, b| a.1.text == b.1.text);
            shared.drain(..).for_each(|(host, queued)| each(Item::Queued(&host, &queued)));
        };
        self.walk_table(Table::Queued, prefixes, |key, value| {
            let (host, place) = (host_of(key), QueueKey::from_bytes(&key[HostKey::BYTES..]));
            if floors.get(&host).is_some_and(|(floor, _)| place <= *floor) {
                return Ok(());
            }
            if shared.last().is_some_and(|(of, queued)| (*of, queued.place) != (host, place)) {
                show(&mut shared);
            }
            shared.push((host, Queued { place, text: text(value)? }));
            Ok(())
        })?;
        show(&mut shared);
        self.walk_table(Table::Planned, prefixes, |key, value| {
            let (host, place) = (host_of(key), LaterKey::from_bytes(&key[HostKey::BYTES..]));
            if floors.get(&host).is_none_or(|(_, floor)| place > *floor) {
                each(Item::Planned(&host, &Planned { place, text: text(value)? }));
            }
            Ok(())
        })?;
        for kind in Beside::ALL {
            self.walk_table(Table::beside(kind), prefixes, |key, value| {
                each(Item::Beside(kind, &url_of(key), value));
                Ok(())
            })?;
        }
        Ok(())
    }
}

impl Durable for DiskState {
    fn checkpoint(&mut self) -> Result<Position, StateError> {
        DiskState::checkpoint(self)
    }

    fn checkpoint_soon(&mut self) -> Result<Position, StateError> {
        DiskState::checkpoint_soon(self)
    }

    fn dirty_bytes(&self) -> usize {
        self.memory.bytes
    }
}
