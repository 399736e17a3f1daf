//! Sifting: finds the new URLs among the offers of a partition and decides about each of them.
//!
//! An offer of a known URL mostly changes nothing ([`super::again`]). A new URL is queued, parked, kept as a key alone
//! or refused.

use std::collections::BTreeMap;

use super::super::event_context::EventContextBuilder;
use super::super::offers::{Buffered, Offers};
use super::super::workbench::Workbench;
use super::again::Again;
use super::{BARE_DOMAINS_MAX, Partition, Rules, Sifted};
use crate::entry::{Admission, FoundHost, FoundUrl, FoundUrls};
use crate::frontier::feedback::FeedbackReason;
use crate::key::{DomainKey, HostKey, UrlKey};
use crate::refusal::Refusal;
use crate::state::queue::QueueKey;
use crate::state::record::{DomainRecord, HostRecord};
use crate::state::{State, StateError};
use crate::time::{Now, Seconds};
use crate::url::CrawlUrl;
use crate::want::Want;
use crate::{budget, trap};

impl<S: State> Partition<S> {
    /// Finds the new URLs among the offers and decides about them.
    pub(super) fn sift(
        &mut self,
        rules: &Rules,
        bench: &Workbench,
        now: Now,
    ) -> Result<FoundUrls, StateError> {
        self.place_displaced();
        self.offers.group();
        let items = std::mem::take(&mut self.offers.items);
        let keys: Vec<UrlKey> = items.iter().map(|item| item.key).collect();
        let mut known = vec![false; keys.len()];
        self.state.known(&keys, &mut known)?;
        self.sifted.looked_at += keys.len() as u64;
        let again = self.offered_again(&items, &known, bench)?;

        let mut hosts: Vec<HostKey> = Vec::new();
        let mut wanted: Vec<(usize, Option<Again>)> = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let again = again.get(&i).copied();
            if known[i] && again.is_none() {
                self.sifted.known += 1;
                continue;
            }
            wanted.push((i, again));
            if hosts.last() != Some(&item.key.host) {
                hosts.push(item.key.host);
            }
        }
        let mut domains: Vec<DomainKey> = hosts.iter().map(|host| host.domain).collect();
        domains.dedup();
        let (mut host_records, mut domain_records) = (Vec::new(), Vec::new());
        self.state.hosts(&hosts, &mut host_records)?;
        self.state.domains(&domains, &mut domain_records)?;
        let mut domains: BTreeMap<DomainKey, DomainRecord> = domains
            .into_iter()
            .zip(domain_records)
            .map(|(key, record)| (key, record.unwrap_or_else(|| DomainRecord::new(now.wall.into()))))
            .collect();

        let limits = self.state.meta().jobs.iter().map(|(id, job)| (*id, job.limits.pages_per_domain_max));
        let domain_max: BTreeMap<u32, u64> = limits.filter(|(_, max)| *max > 0).collect();
        let mut found = FoundUrls { at: now.wall.into(), hosts: Vec::new() };
        let mut records = hosts.into_iter().zip(host_records);
        let mut rest = &wanted[..];
        while let Some(&(first, _)) = rest.first() {
            let (key, record) = records.next().expect("a record was asked for each host");
            debug_assert_eq!(key, items[first].key.host);
            let len = rest.iter().take_while(|(i, _)| items[*i].key.host == key).count();
            let (of_host, others) = rest.split_at(len);
            rest = others;
            let domain = domains.get_mut(&key.domain).expect("asked for above");
            let mut sift = HostSift {
                offers: &self.offers,
                items: &items,
                rules,
                bench,
                domain_max: &domain_max,
                now,
                sifted: &mut self.sifted,
                event_context: &mut self.event_context,
            };
            // Nearly always one origin; a second origin means that two hosts share 32 bits.
            let origin = match &record {
                Some(record) if !record.origin.is_empty() => &*record.origin,
                // A host that is only on the workbench occupies its key all the same.
                _ => match bench.index(&key) {
                    Some(index) => &*bench.host(index).origin,
                    None => self.offers.origin(&items[of_host[0].0]),
                },
            };
            let (own, foreign): (Vec<_>, Vec<_>) =
                of_host.iter().copied().partition(|(i, _)| sift.offers.origin(&items[*i]) == origin);
            let cursor = bench.ordinary(&key).map(|index| bench.host(index).cursor);
            found.hosts.extend(sift.of_host(key, record.as_ref(), cursor, domain, &own));
            if !foreign.is_empty() {
                let displaced = displace(&mut self.state, key, &items, &foreign, &mut sift, &found, domain)?;
                found.hosts.extend(displaced);
            }
        }
        found.hosts.sort_by_key(|host| host.key);
        for host in &found.hosts {
            let bare = host.urls.iter().filter(|url| url.admission == Admission::ParkBare).count();
            if bare > 0 {
                self.hot.note(host.key, FeedbackReason::Budget, bare as u64, now.mono);
            }
        }
        for (key, domain) in domains {
            if domain.bare > 0 && self.bare.len() < BARE_DOMAINS_MAX {
                self.bare.insert(key);
            }
        }
        self.offers.items = items;
        Ok(found)
    }

    /// Replaces the keys of hosts that were displaced after their URLs were offered.
    fn place_displaced(&mut self) {
        let displaced = &self.state.meta().displaced;
        if displaced.is_empty() {
            return;
        }
        let hosts: Vec<Option<u32>> = self
            .offers
            .items
            .iter()
            .map(|item| displaced.get(&(item.key.host.domain, self.offers.origin(item).into())).copied())
            .collect();
        for (item, host) in self.offers.items.iter_mut().zip(hosts) {
            item.key.host.host = host.unwrap_or(item.key.host.host);
        }
    }
}

/// Decides about the new URLs of one host after another.
struct HostSift<'a> {
    offers: &'a Offers,
    items: &'a [Buffered],
    rules: &'a Rules,
    bench: &'a Workbench,
    /// Maximum number of URLs of one domain, by job, for jobs that have such a limit.
    domain_max: &'a BTreeMap<u32, u64>,
    now: Now,
    sifted: &'a mut Sifted,
    event_context: &'a mut EventContextBuilder,
}

impl HostSift<'_> {
    /// Decides about the URLs of one host. `cursor` is the read position of its queue, if the host is on the workbench.
    fn of_host(
        &mut self,
        key: HostKey,
        record: Option<&HostRecord>,
        cursor: Option<QueueKey>,
        domain: &mut DomainRecord,
        wanted: &[(usize, Option<Again>)],
    ) -> Option<FoundHost> {
        let &(first, _) = wanted.first()?;
        let origin = self.offers.origin(&self.items[first]);
        // An operator may have named a host before any URL of it was found: the record then has no origin.
        let unfound = record.is_none_or(|record| record.origin.is_empty());
        let flood = match unfound {
            false => None,
            true => trap::host_verdict(domain.hosts, &self.rules.trap).map(Refusal::from),
        };
        let is_new = unfound && flood.is_none();
        if is_new {
            domain.hosts += 1;
        }
        let floor = record.map_or(QueueKey::MIN, |record| record.floor);
        let passed = floor.max(cursor.unwrap_or(QueueKey::MIN));
        let now = Seconds::from(self.now.wall);
        let allowed = self.rules.budget.allowed(domain.found.0, now.0, domain.budget);
        let mut urls = Vec::with_capacity(wanted.len());
        for &(i, again) in wanted {
            let item = &self.items[i];
            let text = self.offers.text(item);
            let refusal = item.want.refusal.or(flood).or_else(|| {
                let alike = &record?.alike;
                let closed = !alike.closed().is_empty()
                    && CrawlUrl::parse(&[origin, text].concat()).is_ok_and(|url| alike.is_page_closed(&url));
                closed.then_some(Refusal::TrapAlike)
            });
            // Admitted and parked URLs both count, so that the limit holds independently of the budget.
            let domain_max = self.domain_max.get(&item.want.job.0).copied().unwrap_or(u64::MAX);
            let full = domain.admitted + domain.parked + domain.bare >= domain_max;
            let refusal = refusal.or((full && again.is_none()).then_some(Refusal::Limit));
            let allowed = allowed.min(domain_max);
            // Nothing is inserted at a place that the reader has passed; such a URL comes next instead.
            let place = |natural: QueueKey| match natural > passed {
                true => natural,
                false => QueueKey {
                    band: passed.band,
                    age: Seconds(passed.age.0.saturating_add(1)),
                    low: natural.low,
                },
            };
            let Want { priority, depth, .. } = item.want;
            let queue = QueueKey::of(priority, depth, item.key.path, now);
            let parked = QueueKey::parked(priority, depth, item.key.path, now);
            let admission = match (refusal, again) {
                (Some(_), Some(_)) => continue,
                (Some(refusal), None) => {
                    self.sifted.refused += 1;
                    Admission::Refuse(refusal)
                }
                (None, Some(Again::Sooner)) => Admission::Raise(place(queue)),
                (None, Some(Again::Now)) => Admission::Again(place(queue)),
                (None, Some(Again::Parked)) => Admission::Again(place(parked)),
                (None, Some(Again::Bare)) if domain.admitted < allowed => {
                    domain.admitted += 1;
                    self.sifted.queued += 1;
                    Admission::Unpark(place(queue))
                }
                (None, Some(Again::Bare)) => continue,
                (None, None) => {
                    match budget::admit(domain.admitted, domain.parked, allowed, &self.rules.budget) {
                        budget::Admission::Queue => {
                            domain.admitted += 1;
                            self.sifted.queued += 1;
                            Admission::Queue(place(queue))
                        }
                        budget::Admission::Park => {
                            domain.parked += 1;
                            self.sifted.parked += 1;
                            Admission::Park(place(parked))
                        }
                        budget::Admission::ParkBare => {
                            domain.bare += 1;
                            self.sifted.parked += 1;
                            Admission::ParkBare
                        }
                    }
                }
            };
            // A URL kept as a key alone has no text.
            let text = if admission == Admission::ParkBare { "" } else { text };
            urls.push(FoundUrl {
                path: item.key.path,
                text: text.into(),
                want: Want { refusal: None, ..item.want.clone() },
                admission,
            });
        }
        if urls.is_empty() {
            return None;
        }
        if flood.is_some() {
            // A refused host gets no record, so its name would be lost.
            self.event_context.refused(key, origin);
        }
        // Sorted neighbours share most of their text; the log stores the shared part once.
        urls.sort_by(|a, b| a.text.cmp(&b.text));
        Some(FoundHost { key, origin: is_new.then(|| origin.into()), displaced: false, urls })
    }
}

/// Finds other keys for hosts whose usual key belongs to another host of their domain.
fn displace<S: State>(
    state: &mut S,
    taken: HostKey,
    items: &[Buffered],
    foreign: &[(usize, Option<Again>)],
    sift: &mut HostSift<'_>,
    found: &FoundUrls,
    domain: &mut DomainRecord,
) -> Result<Vec<FoundHost>, StateError> {
    let mut by_origin: BTreeMap<&str, Vec<(usize, Option<Again>)>> = BTreeMap::new();
    let offers = sift.offers;
    for &(i, _) in foreign {
        by_origin.entry(offers.origin(&items[i])).or_default().push((i, None));
    }
    let mut hosts: Vec<FoundHost> = Vec::new();
    for wanted in by_origin.into_values() {
        let mut key = taken;
        loop {
            key.host = key.host.wrapping_add(1);
            let here = found.hosts.iter().chain(&hosts).any(|host| host.key == key);
            // An offer under this key may be later in the same batch: leave the key to that offer.
            let offered = items.binary_search_by_key(&key, |item| item.key.host).is_ok();
            let guest = sift.bench.index(&key).is_some();
            if !here && !offered && !guest && state.host(&key)?.is_none() {
                break;
            }
        }
        if let Some(mut host) = sift.of_host(key, None, None, domain, &wanted) {
            host.displaced = true;
            hosts.push(host);
        }
    }
    Ok(hosts)
}
