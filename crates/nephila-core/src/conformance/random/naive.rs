//! A state of plain lists: every change is kept, and every read looks through all of them. Slow, and too simple to be
//! wrong in the ways that a clever one is.

use crate::key::{DomainKey, HostKey, Prefixes, UrlKey};
use crate::state::queue::{LaterKey, QueueKey};
use crate::state::record::{DomainRecord, HostRecord, UrlRecord};
use crate::state::{Beside, Changes, Item, Meta, Planned, Position, Queued, State, StateError};

/// The key of a record beside a URL.
type Place = (Beside, UrlKey);

/// All changes, the latest last.
#[derive(Default)]
pub(in crate::conformance) struct Naive {
    position: Position,
    meta: Meta,
    urls: Vec<(UrlKey, UrlRecord)>,
    queued: Vec<(HostKey, Queued)>,
    planned: Vec<(HostKey, Planned)>,
    hosts: Vec<(HostKey, HostRecord)>,
    domains: Vec<(DomainKey, DomainRecord)>,
    robots: Vec<(HostKey, Box<[u8]>)>,
    beside: Vec<(Place, Box<[u8]>)>,
}

/// The latest value of a key.
fn last<K: PartialEq, V: Clone>(list: &[(K, V)], key: &K) -> Option<V> {
    list.iter().rev().find(|(of, _)| of == key).map(|(_, value)| value.clone())
}

/// The latest value of every key, sorted by key.
fn latest<K: Ord + Copy, V: Clone>(list: &[(K, V)]) -> Vec<(K, V)> {
    let mut keys: Vec<K> = list.iter().map(|(key, _)| *key).collect();
    keys.sort();
    keys.dedup();
    keys.into_iter().map(|key| (key, last(list, &key).expect("it is in the list"))).collect()
}

impl Naive {
    fn queue_of(&self, host: &HostKey, behind: QueueKey) -> Vec<Queued> {
        let mut queue: Vec<Queued> = Vec::new();
        for (of, queued) in &self.queued {
            if of == host && queued.place > behind && !queue.contains(queued) {
                queue.push(queued.clone());
            }
        }
        queue.sort_by(|a, b| (a.place, &a.text).cmp(&(b.place, &b.text)));
        queue
    }

    fn plans_of(&self, host: &HostKey, behind: LaterKey) -> Vec<Planned> {
        let of_host: Vec<(LaterKey, Planned)> = self
            .planned
            .iter()
            .filter(|(of, planned)| of == host && planned.place > behind)
            .map(|(_, planned)| (planned.place, planned.clone()))
            .collect();
        latest(&of_host).into_iter().map(|(_, planned)| planned).collect()
    }
}

impl State for Naive {
    fn position(&self) -> Position {
        self.position
    }

    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn known(&mut self, keys: &[UrlKey], known: &mut [bool]) -> Result<(), StateError> {
        for (key, known) in keys.iter().zip(known) {
            *known = last(&self.urls, key).is_some();
        }
        Ok(())
    }

    fn urls(&mut self, keys: &[UrlKey], found: &mut Vec<Option<UrlRecord>>) -> Result<(), StateError> {
        found.extend(keys.iter().map(|key| last(&self.urls, key)));
        Ok(())
    }

    fn hosts(&mut self, keys: &[HostKey], found: &mut Vec<Option<HostRecord>>) -> Result<(), StateError> {
        found.extend(keys.iter().map(|key| last(&self.hosts, key)));
        Ok(())
    }

    fn domains(
        &mut self,
        keys: &[DomainKey],
        found: &mut Vec<Option<DomainRecord>>,
    ) -> Result<(), StateError> {
        found.extend(keys.iter().map(|key| last(&self.domains, key)));
        Ok(())
    }

    fn robots(&mut self, host: &HostKey) -> Result<Option<Box<[u8]>>, StateError> {
        Ok(last(&self.robots, host))
    }

    fn queued(
        &mut self,
        host: &HostKey,
        behind: QueueKey,
        max: usize,
        out: &mut Vec<Queued>,
    ) -> Result<(), StateError> {
        let queue = self.queue_of(host, behind);
        let end = queue.get(max.saturating_sub(1)).map(|queued| queued.place);
        out.extend(queue.into_iter().filter(|queued| end.is_none_or(|end| queued.place <= end)));
        Ok(())
    }

    fn planned(
        &mut self,
        host: &HostKey,
        behind: LaterKey,
        max: usize,
        out: &mut Vec<Planned>,
    ) -> Result<(), StateError> {
        out.extend(self.plans_of(host, behind).into_iter().take(max));
        Ok(())
    }

    fn hosts_from(
        &mut self,
        from: HostKey,
        max: usize,
        out: &mut Vec<(HostKey, HostRecord)>,
    ) -> Result<(), StateError> {
        out.extend(latest(&self.hosts).into_iter().filter(|(key, _)| *key >= from).take(max));
        Ok(())
    }

    fn urls_from(
        &mut self,
        from: UrlKey,
        max: usize,
        out: &mut Vec<(UrlKey, UrlRecord)>,
    ) -> Result<(), StateError> {
        out.extend(latest(&self.urls).into_iter().filter(|(key, _)| *key >= from).take(max));
        Ok(())
    }

    fn beside(
        &mut self,
        kind: Beside,
        keys: &[UrlKey],
        found: &mut Vec<Option<Box<[u8]>>>,
    ) -> Result<(), StateError> {
        found.extend(keys.iter().map(|key| last(&self.beside, &(kind, *key))));
        Ok(())
    }

    fn beside_from(
        &mut self,
        kind: Beside,
        from: UrlKey,
        max: usize,
        out: &mut Vec<(UrlKey, Box<[u8]>)>,
    ) -> Result<(), StateError> {
        let here = latest(&self.beside).into_iter().filter(|((of, key), _)| *of == kind && *key >= from);
        out.extend(here.take(max).map(|((_, key), value)| (key, value)));
        Ok(())
    }

    fn apply(&mut self, changes: Changes, position: Position) -> Result<(), StateError> {
        self.urls.extend(changes.urls);
        self.queued.extend(changes.queued);
        self.planned.extend(changes.planned);
        self.hosts.extend(changes.hosts);
        self.domains.extend(changes.domains);
        self.robots.extend(changes.robots);
        self.beside.extend(changes.beside.into_iter().map(|(kind, key, value)| ((kind, key), value)));
        if let Some(meta) = changes.meta {
            self.meta = meta;
        }
        self.meta.totals.count(&changes.counted);
        self.position = position;
        Ok(())
    }

    fn walk(&mut self, prefixes: Prefixes, each: &mut dyn FnMut(Item<'_>)) -> Result<(), StateError> {
        let within = |domain: DomainKey| prefixes.holds(domain);
        for (key, record) in latest(&self.urls).iter().filter(|(key, _)| within(key.host.domain)) {
            each(Item::Url(key, record));
        }
        for (key, record) in latest(&self.hosts).iter().filter(|(key, _)| within(key.domain)) {
            each(Item::Host(key, record));
        }
        for (key, record) in latest(&self.domains).iter().filter(|(key, _)| within(*key)) {
            each(Item::Domain(key, record));
        }
        for (key, body) in latest(&self.robots).iter().filter(|(key, _)| within(key.domain)) {
            each(Item::Robots(key, body));
        }
        let mut hosts: Vec<HostKey> =
            self.queued.iter().map(|(key, _)| *key).chain(self.planned.iter().map(|(key, _)| *key)).collect();
        hosts.sort();
        hosts.dedup();
        hosts.retain(|key| within(key.domain));
        for host in &hosts {
            let floor = last(&self.hosts, host).map_or(QueueKey::MIN, |record| record.floor);
            self.queue_of(host, floor).iter().for_each(|queued| each(Item::Queued(host, queued)));
        }
        for host in &hosts {
            let floor = last(&self.hosts, host).map_or(LaterKey::MIN, |record| record.later_floor);
            self.plans_of(host, floor).iter().for_each(|planned| each(Item::Planned(host, planned)));
        }
        for ((kind, key), value) in
            latest(&self.beside).iter().filter(|((_, key), _)| within(key.host.domain))
        {
            each(Item::Beside(*kind, key, value));
        }
        Ok(())
    }
}
