//! The fold: applies the entries of a log to the state.
//!
//! The fold never decides: the owner of the partition decided and wrote the decision down. So a replay of the same
//! entries always gives the same state, on another machine, years later, from the beginning or from a snapshot in the
//! middle.
//!
//! Invariants: a group is folded whole or not at all; a fetch that is reported twice counts once (idempotent);
//! entries of a replaced owner change nothing (fencing).

mod found;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::entry::{
    Admission, DomainChange, Ended, Entry, FoundUrl, Group, HostChange, NO_FETCH, Origin, RobotsRead,
};
use crate::feed;
use crate::job::JobId;
use crate::key::{DomainKey, HostKey, Prefixes, UrlKey};
use crate::planted::{self, Bug};
use crate::recrawl::visited::Visited;
use crate::spider::outcome::{Class, Outcome};
use crate::state::queue::LaterKey;
use crate::state::record::{DomainRecord, HostRecord, LastFetch, UrlRecord, UrlState};
use crate::state::totals::{Counted, Left, recount, recount_open};
use crate::state::{Beside, Changes, Meta, Planned, Position, State, StateError};
use crate::trap::Page;

/// Folds a group into a state that stands just before the group.
pub fn fold<S: State + ?Sized>(state: &mut S, group: &Group, behind: Position) -> Result<(), StateError> {
    let mut folding = Folding::begin(state, group)?;
    // A replaced owner may still have written; the fold skips its groups.
    let epoch = state.meta().epoch;
    if group.epoch >= epoch {
        if group.epoch > epoch {
            folding.meta().epoch = group.epoch;
        }
        for entry in &group.entries {
            folding.entry(entry);
        }
    }
    // Prefixes that moved to another partition are no longer counted here.
    let elsewhere = match folding.split {
        Some(prefixes) => {
            folding.counted.open_anew = Some(recount_open(state, prefixes)?);
            Some(recount(
                state,
                prefixes,
                |host| folding.hosts.contains_key(host),
                |domain| folding.domains.contains_key(domain),
            )?)
        }
        None => None,
    };
    let changes = folding.finish(elsewhere);
    state.apply(changes, behind)
}

/// A group on its way into the state: the records of the group, read once, and the changes.
struct Folding {
    changes: Changes,
    hosts: BTreeMap<HostKey, HostRecord>,
    domains: BTreeMap<DomainKey, DomainRecord>,
    urls: BTreeMap<UrlKey, UrlRecord>,
    /// Feeds with polls in the group.
    feeds: BTreeMap<UrlKey, feed::record::Record>,
    /// Sources whose feeds have polls in the group.
    sources: BTreeMap<UrlKey, feed::source::Record>,
    /// The metadata, if the group may change them: a copy may be large.
    meta: Option<Meta>,
    meta_changed: bool,
    /// The prefixes of the partition.
    prefixes: Prefixes,
    /// The last split in the group.
    split: Option<Prefixes>,
    counted: Counted,
    /// Changes to the number of open URLs of a job: +1 for a URL that will be fetched from here on, -1 for one that
    /// will not.
    opened: Vec<(DomainKey, JobId, i64)>,
}

impl Folding {
    /// Reads all records of the group, sorted, in one batch for each kind.
    fn begin<S: State + ?Sized>(state: &mut S, group: &Group) -> Result<Folding, StateError> {
        let (mut hosts, mut domains, mut urls) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut feeds, mut sources) = (BTreeSet::new(), BTreeSet::new());
        let mut changes_meta = group.epoch != state.meta().epoch;
        for entry in &group.entries {
            match entry {
                Entry::Found(found) => {
                    for host in &found.hosts {
                        domains.insert(host.key.domain);
                        changes_meta |= host.displaced;
                        hosts.insert(host.key);
                        let raised = |url: &&FoundUrl| {
                            matches!(url.admission, Admission::Raise(_) | Admission::Again(_))
                        };
                        let raised = host.urls.iter().filter(raised);
                        urls.extend(raised.map(|url| UrlKey { host: host.key, path: url.path }));
                    }
                }
                Entry::Ended(ended) => {
                    hosts.insert(ended.key.host);
                    domains.insert(ended.key.host.domain);
                    urls.insert(ended.key);
                }
                Entry::Polled(polled) => _ = feeds.insert(polled.key),
                Entry::Sighted(sighted) => _ = sources.insert(sighted.source.record()),
                Entry::Visited(visited) => {
                    hosts.insert(visited.key.host);
                    urls.insert(visited.key);
                }
                Entry::Forward(forward) => _ = hosts.insert(forward.host),
                Entry::Robots(read) => _ = hosts.insert(read.host),
                Entry::Host(
                    HostChange::Stop(host, _) | HostChange::Resume(host) | HostChange::Delay(host, _),
                ) => {
                    hosts.insert(*host);
                }
                Entry::Domain(DomainChange::Budget(domain, _)) => _ = domains.insert(*domain),
                Entry::Job(_)
                | Entry::JobRemoved(_)
                | Entry::Inbox { .. }
                | Entry::Split(_)
                | Entry::Spread(_) => changes_meta = true,
                Entry::Stream(_) | Entry::Streamed(_) | Entry::EventContext(_) => {}
            }
        }
        let hosts = Vec::from_iter(hosts);
        let mut host_records = Vec::with_capacity(hosts.len());
        state.hosts(&hosts, &mut host_records)?;
        let domains = Vec::from_iter(domains);
        let mut domain_records = Vec::with_capacity(domains.len());
        state.domains(&domains, &mut domain_records)?;
        let urls = Vec::from_iter(urls);
        let mut url_records = Vec::with_capacity(urls.len());
        state.urls(&urls, &mut url_records)?;
        let feeds = Vec::from_iter(feeds);
        let mut feed_records = Vec::with_capacity(feeds.len());
        state.beside(Beside::Feed, &feeds, &mut feed_records)?;
        let mut read = BTreeMap::new();
        for (key, bytes) in pairs(feeds, feed_records) {
            read.insert(key, feed::record::Record::from_bytes(&bytes)?);
        }
        let sources = Vec::from_iter(sources);
        let mut source_records = Vec::with_capacity(sources.len());
        state.beside(Beside::Source, &sources, &mut source_records)?;
        let mut read_sources = BTreeMap::new();
        for (key, bytes) in pairs(sources, source_records) {
            read_sources.insert(key, feed::source::Record::from_bytes(&bytes)?);
        }
        let prefixes = state.meta().prefixes.unwrap_or(Prefixes::ALL);
        let mut folding = Folding {
            changes: Changes::default(),
            hosts: pairs(hosts, host_records),
            domains: pairs(domains, domain_records),
            urls: pairs(urls, url_records),
            feeds: read,
            sources: read_sources,
            meta: changes_meta.then(|| state.meta().clone()),
            meta_changed: false,
            prefixes,
            split: None,
            counted: Counted::default(),
            opened: Vec::new(),
        };
        folding.counted.left.0 = folding.left();
        Ok(folding)
    }

    /// The URLs left on the hosts and domains of the group.
    fn left(&self) -> Left {
        let hosts = self.hosts.iter().filter(|(key, _)| self.prefixes.holds(key.domain));
        let domains = self.domains.iter().filter(|(key, _)| self.prefixes.holds(**key));
        Left::of(hosts.map(|(_, host)| host), domains.map(|(_, domain)| domain))
    }

    /// `elsewhere` has the URLs left on all other hosts and domains, if they had to be counted.
    fn finish(mut self, elsewhere: Option<Left>) -> Changes {
        self.counted.left.1 = self.left();
        self.counted.left_anew = elsewhere.map(|elsewhere| elsewhere.plus(self.counted.left.1));
        for (_, job, more) in self.opened.iter().filter(|(domain, ..)| self.prefixes.holds(*domain)) {
            *self.counted.open.entry(job.0).or_default() += more;
        }
        let mut changes = self.changes;
        changes.counted = self.counted;
        changes.hosts = self.hosts;
        changes.domains = self.domains;
        let feeds = self.feeds.iter().map(|(key, record)| (Beside::Feed, *key, record.to_bytes().into()));
        changes.beside.extend(feeds);
        let sources = self.sources.iter();
        changes.beside.extend(sources.map(|(key, record)| (Beside::Source, *key, record.to_bytes().into())));
        changes.meta = self.meta.filter(|_| self.meta_changed);
        changes
    }

    fn meta(&mut self) -> &mut Meta {
        self.meta_changed = true;
        self.meta.as_mut().expect("read at the beginning, because the group may change it")
    }

    fn entry(&mut self, entry: &Entry) {
        match entry {
            Entry::Found(found) => self.found(found),
            Entry::Ended(ended) => self.ended(ended),
            Entry::Polled(polled) => self.feeds.entry(polled.key).or_default().fold(polled),
            Entry::Sighted(sighted) => {
                let source = self.sources.entry(sighted.source.record()).or_default();
                let stories = source.fold(sighted).into_iter();
                let beside = stories.map(|(key, story)| (Beside::Story, key, story.to_bytes().into()));
                self.changes.beside.extend(beside);
            }
            Entry::Visited(visited) => self.visited(visited),
            Entry::Forward(forward) => {
                self.hosts.entry(forward.host).or_default().claims.handle_forward(forward);
            }
            Entry::Stream(_) | Entry::EventContext(_) => {}
            Entry::Streamed(streamed) => {
                self.changes.batches.push((streamed.key, streamed.batch));
                let records = streamed.records.iter();
                let beside = records.map(|(key, record)| (Beside::Stream, *key, record.to_bytes().into()));
                self.changes.beside.extend(beside);
            }
            Entry::Robots(read) => self.robots(read),
            Entry::Host(change) => self.host(change),
            Entry::Domain(DomainChange::Budget(domain, budget)) => {
                self.domains.entry(*domain).or_default().budget = *budget;
            }
            Entry::Job(job) => {
                self.meta().jobs.insert(job.id.0, (**job).clone());
            }
            Entry::JobRemoved(job) => {
                self.meta().jobs.remove(&job.0);
            }
            Entry::Inbox { name, position } => {
                self.meta().inboxes.insert(name.clone(), *position);
            }
            Entry::Spread(decided) => self.meta().spread.add(decided.clone()),
            Entry::Split(prefixes) => {
                // The side that holds the first prefix keeps the tallies: see `Meta::split`.
                if prefixes.first != self.prefixes.first {
                    self.counted.tally.clear();
                    self.counted.tally_anew = true;
                }
                self.meta().prefixes = Some(*prefixes);
                (self.prefixes, self.split) = (*prefixes, Some(*prefixes));
            }
        }
    }

    fn ended(&mut self, ended: &Ended) {
        let at = ended.at;
        let known = self.urls.remove(&ended.key);
        let was_open = known.as_ref().is_some_and(|known| known.state.is_open());
        let mut record = match known {
            Some(record) => record,
            None => UrlRecord::new(UrlState::Waiting, JobId(0), 0, 0, at),
        };
        // A second report of the same fetch, after the answer to the first was lost.
        let again = record.last.as_ref().is_some_and(|last| last.fetch == ended.fetch);
        if again && !planted::is(Bug::FoldTwice) {
            self.urls.insert(ended.key, record);
            return;
        }
        // After a split the other partition counts the fetch.
        if self.prefixes.holds(ended.key.host.domain) {
            let tally = self.counted.tally.entry(record.job.0).or_default();
            *tally.ended.entry(ended.outcome.code()).or_default() += 1;
            tally.bytes = tally.bytes.saturating_add(ended.bytes);
        }
        let host = self.hosts.entry(ended.key.host).or_default();
        let domain = self.domains.entry(ended.key.host.domain).or_insert_with(|| DomainRecord::new(at));
        match ended.from {
            Origin::Queue => host.waiting = host.waiting.saturating_sub(1),
            Origin::Later => host.later = host.later.saturating_sub(1),
            Origin::Parked => {
                host.parked = host.parked.saturating_sub(1);
                domain.parked = domain.parked.saturating_sub(1);
                domain.admitted += 1;
            }
        }
        if ended.fetch & NO_FETCH == 0 && !record.was_asked() {
            host.pages += 1;
        }
        record.retries = ended.retries;
        record.state = ended.next.map_or(UrlState::Ended, UrlState::Later);
        let more = i64::from(record.state.is_open()) - i64::from(was_open);
        if more != 0 {
            self.opened.push((ended.key.host.domain, record.job, more));
        }
        if let Some(due) = ended.next {
            host.later_next = if host.later == 0 { due } else { host.later_next.min(due) };
            host.later += 1;
            let place = LaterKey { due, path: ended.key.path };
            self.changes.planned.push((ended.key.host, Planned { place, text: ended.text.clone() }));
        }
        record.last = Some(Box::new(last_fetch(record.last.take(), ended)));
        record.text = Some(ended.text.clone());
        host.ended += 1;
        host.spent.take(at, ended.bytes);
        host.floor = host.floor.max(ended.floor);
        if host.later_floor < ended.later_floor {
            host.later_floor = ended.later_floor;
            // No plan is earlier than the floor.
            host.later_next = host.later_next.max(ended.later_floor.due);
        }
        host.rest_until = host.rest_until.max(ended.rest_until);
        host.failures = ended.failures;
        match ended.outcome.class() {
            Class::Gone => host.missing = host.missing.saturating_add(1),
            Class::Ok => host.missing = 0,
            _ => {}
        }
        let page = Page { digest: ended.digest, simhash: ended.simhash };
        for shape in ended.shapes.into_iter().filter(|shape| *shape != 0) {
            host.alike.note(shape, page, ended.alike_max);
        }
        self.urls.insert(ended.key, record.clone());
        self.changes.urls.push((ended.key, record));
    }

    /// The outcome of the visit follows in the log, and writes the record.
    fn visited(&mut self, visited: &Visited) {
        let Some(record) = self.urls.get_mut(&visited.key) else { return };
        if record.last.as_ref().is_some_and(|last| last.fetch == visited.fetch) {
            return;
        }
        record.seen.take(visited.visit);
        let host = self.hosts.entry(visited.key.host).or_default();
        host.site.take(visited.visit);
        host.claims.handle_booked(visited.booked.unwrap_or_default());
        host.claims.handle_visit(visited.key.path, visited.visit.changes > 0, visited.large);
        if let Some((ask, found)) = visited.claim {
            host.trust.handle_answer(ask, found);
        }
    }

    fn robots(&mut self, read: &RobotsRead) {
        let host = self.hosts.entry(read.host).or_default();
        host.robots = read.record;
        host.rest_until = host.rest_until.max(read.rest_until);
        host.failures = read.failures;
        if let Some(body) = &read.body {
            self.changes.robots.push((read.host, body.clone()));
        }
    }

    fn host(&mut self, change: &HostChange) {
        match change {
            HostChange::Stop(host, why) => self.hosts.entry(*host).or_default().stopped = why.clone(),
            HostChange::Resume(host) => self.hosts.entry(*host).or_default().stopped = Box::default(),
            HostChange::Delay(host, delay) => self.hosts.entry(*host).or_default().delay = *delay,
        }
    }
}

/// The stored data of a fetch, given the data of the fetch before. A response without a body of its own says nothing
/// new about the page: digest and validators stay, so that the next request can still be conditional.
fn last_fetch(old: Option<Box<LastFetch>>, ended: &Ended) -> LastFetch {
    let is_page = ended.outcome.class() == Class::Ok && ended.outcome != Outcome::NotModified;
    let mut last = LastFetch {
        fetch: ended.fetch,
        at: ended.at,
        outcome: ended.outcome,
        status: ended.status,
        digest: ended.digest,
        changes: 1,
        etag: ended.etag.clone(),
        last_modified: ended.last_modified.clone(),
    };
    let Some(old) = old else { return last };
    if is_page {
        last.changes = (old.changes << 1) | u16::from(old.digest != ended.digest);
        return last;
    }
    last.changes = match ended.outcome {
        Outcome::NotModified => old.changes << 1,
        _ => old.changes,
    };
    (last.digest, last.etag, last.last_modified) = (old.digest, old.etag, old.last_modified);
    last
}

fn pairs<K: Ord, V>(keys: Vec<K>, values: Vec<Option<V>>) -> BTreeMap<K, V> {
    keys.into_iter().zip(values).filter_map(|(key, value)| Some((key, value?))).collect()
}
