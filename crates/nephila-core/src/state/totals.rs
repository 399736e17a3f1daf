//! The counters of a partition: the outcomes of each job's URLs, and the number of URLs still to be fetched.
//!
//! Only the fold counts: the same log gives the same figures, and a fetch that is reported twice counts once. A group
//! brings only its changes ([`Counted`]), so that the cost of counting depends on the size of the group and not on
//! the size of the state.
//!
//! Invariants: `waiting`, `parked` and `later` are the sums over the hosts and domains of the partition (see
//! [`recount`]); `open` has for each job the number of URLs whose state [is open](super::record::UrlState::is_open)
//! (see [`recount_open`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::record::{DomainRecord, HostRecord};
use super::{State, StateError};
use crate::codec::{Damaged, Reader, put_u64};
use crate::key::{DomainKey, HostKey, Prefixes, UrlKey};
use crate::spider::outcome::{Class, Outcome};

/// Batch size in hosts when everything is counted anew.
const RECOUNT_HOSTS: usize = 1_024;
/// Batch size in URLs when everything is counted anew.
const RECOUNT_URLS: usize = 4_096;

/// Counters of a job's URLs. They only grow. A removed job keeps its tally.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Fetches that ended and URLs that were refused before a fetch, by the code of the outcome.
    pub ended: BTreeMap<u8, u64>,
    /// Bytes of bodies that were received.
    pub bytes: u64,
    /// URLs that were refused, by the code of the refusal.
    pub refused: BTreeMap<u8, u64>,
    /// New URLs, whether queued, parked or refused.
    pub found: u64,
}

impl Tally {
    /// Number of fetches and URLs that ended in one of these ways.
    pub fn ended_as(&self, which: impl Fn(Outcome) -> bool) -> u64 {
        let ended = self.ended.iter().filter(|(code, _)| Outcome::by_code(**code).is_some_and(&which));
        ended.map(|(_, count)| count).sum()
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        add_each(&mut self.ended, &other.ended);
        add_each(&mut self.refused, &other.refused);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.found = self.found.saturating_add(other.found);
    }
}

fn add_each(to: &mut BTreeMap<u8, u64>, from: &BTreeMap<u8, u64>) {
    for (code, count) in from {
        let sum = to.entry(*code).or_default();
        *sum = sum.saturating_add(*count);
    }
}

/// Number of URLs still to be fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// In queues, parked ones not counted.
    pub waiting: u64,
    /// Parked, with their text or as keys alone.
    pub parked: u64,
    /// Planned for a time of their own.
    pub later: u64,
}

impl Left {
    /// The sum over these hosts and domains.
    pub(crate) fn of<'a>(
        hosts: impl IntoIterator<Item = &'a HostRecord>,
        domains: impl IntoIterator<Item = &'a DomainRecord>,
    ) -> Left {
        let mut left = Left::default();
        hosts.into_iter().for_each(|host| left.add_host(host));
        domains.into_iter().for_each(|domain| left.add_domain(domain));
        left
    }

    fn add_host(&mut self, host: &HostRecord) {
        self.waiting = self.waiting.saturating_add(host.waiting);
        self.parked = self.parked.saturating_add(host.parked);
        self.later = self.later.saturating_add(host.later);
    }

    fn add_domain(&mut self, domain: &DomainRecord) {
        self.parked = self.parked.saturating_add(domain.bare);
    }

    /// The sum of both.
    pub fn plus(self, other: Left) -> Left {
        Left {
            waiting: self.waiting.saturating_add(other.waiting),
            parked: self.parked.saturating_add(other.parked),
            later: self.later.saturating_add(other.later),
        }
    }

    /// The difference, at least 0.
    fn minus(self, other: Left) -> Left {
        Left {
            waiting: self.waiting.saturating_sub(other.waiting),
            parked: self.parked.saturating_sub(other.parked),
            later: self.later.saturating_sub(other.later),
        }
    }
}

/// All counters of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The tally of each job.
    pub tally: BTreeMap<u32, Tally>,
    /// URLs in queues, parked ones not counted.
    pub waiting: u64,
    /// URLs that are parked, with their text or as keys alone.
    pub parked: u64,
    /// URLs planned for a time of their own.
    pub later: u64,
    /// URLs of each job that will still be fetched. A job without any is not listed.
    pub open: BTreeMap<u32, u64>,
}

/// The counts of a group of entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// By job.
    pub tally: BTreeMap<u32, Tally>,
    /// Whether the tallies are reset before these are added.
    pub tally_anew: bool,
    /// The sums over the hosts and domains of the group, before and now.
    pub left: (Left, Left),
    /// After a split: the URLs left in all. The others moved to another partition.
    pub left_anew: Option<Left>,
    /// The change in the number of open URLs of each job.
    pub open: BTreeMap<u32, i64>,
    /// After a split: the open URLs of each job before the group.
    pub open_anew: Option<BTreeMap<u32, u64>>,
}

impl Totals {
    /// Adds the counts of a group.
    pub fn count(&mut self, counted: &Counted) {
        if counted.tally_anew {
            self.tally.clear();
        }
        for (job, tally) in &counted.tally {
            self.tally.entry(*job).or_default().add(tally);
        }
        let (before, now) = counted.left;
        self.set_left(counted.left_anew.unwrap_or_else(|| self.left().plus(now).minus(before)));
        if let Some(open) = &counted.open_anew {
            self.open.clone_from(open);
        }
        for (job, more) in &counted.open {
            let open = self.open.entry(*job).or_default();
            *open = open.saturating_add_signed(*more);
        }
        self.open.retain(|_, open| *open > 0);
    }

    /// Adds the totals of another partition.
    pub fn add(&mut self, other: &Totals) {
        for (job, tally) in &other.tally {
            self.tally.entry(*job).or_default().add(tally);
        }
        self.set_left(self.left().plus(other.left()));
        for (job, open) in &other.open {
            *self.open.entry(*job).or_default() += open;
        }
    }

    /// The number of URLs still to be fetched.
    pub fn left(&self) -> Left {
        Left { waiting: self.waiting, parked: self.parked, later: self.later }
    }

    /// Sets the number of URLs still to be fetched.
    pub fn set_left(&mut self, left: Left) {
        (self.waiting, self.parked, self.later) = (left.waiting, left.parked, left.later);
    }

    /// The tallies of all jobs together.
    pub fn all_jobs(&self) -> Tally {
        let mut all = Tally::default();
        self.tally.values().for_each(|tally| all.add(tally));
        all
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.waiting, self.parked, self.later, self.tally.len() as u64] {
            put_u64(out, number);
        }
        for (job, tally) in &self.tally {
            for number in [(*job).into(), tally.found, tally.bytes] {
                put_u64(out, number);
            }
            for counts in [&tally.ended, &tally.refused] {
                put_u64(out, counts.len() as u64);
                for (code, count) in counts {
                    out.push(*code);
                    put_u64(out, *count);
                }
            }
        }
    }

    /// Appends the fields that were added later.
    pub(super) fn encode_open(&self, out: &mut Vec<u8>) {
        put_u64(out, self.open.len() as u64);
        for (job, open) in &self.open {
            put_u64(out, (*job).into());
            put_u64(out, *open);
        }
    }

    pub(super) fn decode_open(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        for _ in 0..reader.u64("number of jobs with something left")? {
            let job = reader.u32("job with something left")?;
            self.open.insert(job, reader.u64("what is left of a job")?);
        }
        Ok(())
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Totals, Damaged> {
        let mut totals = Totals::default();
        for number in [&mut totals.waiting, &mut totals.parked, &mut totals.later] {
            *number = reader.u64("totals")?;
        }
        for _ in 0..reader.u64("number of tallies")? {
            let job = reader.u32("job of a tally")?;
            let mut tally =
                Tally { found: reader.u64("tally")?, bytes: reader.u64("tally")?, ..Tally::default() };
            for counts in [&mut tally.ended, &mut tally.refused] {
                for _ in 0..reader.u64("tally")? {
                    let code = reader.u8("code of a tally")?;
                    counts.insert(code, reader.u64("tally")?);
                }
            }
            totals.tally.insert(job, tally);
        }
        Ok(totals)
    }
}

/// Counts the URLs left within these prefixes, without the hosts and domains that `skip` and `skip_domain` name.
/// Reads hosts and their domains only: there are far fewer of them than of URLs.
pub fn recount<S: State + ?Sized>(
    state: &mut S,
    prefixes: Prefixes,
    skip: impl Fn(&HostKey) -> bool,
    skip_domain: impl Fn(&DomainKey) -> bool,
) -> Result<Left, StateError> {
    let mut left = Left::default();
    let mut from = Some(HostKey { domain: prefixes.first_domain(), host: 0 });
    let mut last_domain = None;
    while let Some(first) = from {
        let mut hosts = Vec::with_capacity(RECOUNT_HOSTS);
        state.hosts_from(first, RECOUNT_HOSTS, &mut hosts)?;
        let full = hosts.len() >= RECOUNT_HOSTS;
        hosts.retain(|(key, _)| key.domain <= prefixes.last_domain());
        from = hosts.last().filter(|_| full).and_then(|(key, _)| key.next());
        hosts.iter().filter(|(key, _)| !skip(key)).for_each(|(_, host)| left.add_host(host));
        let mut domains: Vec<DomainKey> = hosts.iter().map(|(key, _)| key.domain).collect();
        domains.dedup();
        // The last domain of the batch before may continue in this one.
        let next_last = domains.last().copied().or(last_domain);
        domains.retain(|domain| Some(*domain) != last_domain && !skip_domain(domain));
        last_domain = next_last;
        let mut records = Vec::with_capacity(domains.len());
        state.domains(&domains, &mut records)?;
        records.iter().flatten().for_each(|domain| left.add_domain(domain));
    }
    Ok(left)
}

/// Counts the URLs left of each job within these prefixes. Reads every URL.
pub fn recount_open<S: State + ?Sized>(
    state: &mut S,
    prefixes: Prefixes,
) -> Result<BTreeMap<u32, u64>, StateError> {
    let mut open = BTreeMap::new();
    let mut from = Some(UrlKey { host: HostKey { domain: prefixes.first_domain(), host: 0 }, path: 0 });
    while let Some(first) = from {
        let mut urls = Vec::with_capacity(RECOUNT_URLS);
        state.urls_from(first, RECOUNT_URLS, &mut urls)?;
        let full = urls.len() >= RECOUNT_URLS;
        urls.retain(|(key, _)| key.host.domain <= prefixes.last_domain());
        from = urls.last().filter(|_| full).and_then(|(key, _)| key.next());
        for (_, url) in urls.iter().filter(|(_, url)| url.state.is_open()) {
            *open.entry(url.job.0).or_default() += 1;
        }
    }
    Ok(open)
}

/// The counts of one job in one partition.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Count {
    /// Pages fetched.
    pub pages: u64,
    /// Bytes received.
    pub bytes: u64,
}

impl Count {
    /// The counts of a tally.
    pub fn of(tally: &Tally) -> Count {
        let is_page = |outcome: Outcome| outcome.class() == Class::Ok && outcome != Outcome::Redirect;
        Count { pages: tally.ended_as(is_page), bytes: tally.bytes }
    }
}

/// The work of a node for a job, over all its partitions.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Work {
    /// URLs that will still be requested.
    pub left: u64,
    /// URLs that were found, and fetches that ended, since the beginning. This number grows with every change.
    pub events: u64,
    /// Pages fetched.
    pub pages: u64,
    /// Bytes received.
    pub bytes: u64,
}

impl Work {
    /// The work of a tally, and this number of URLs that are left.
    pub fn of(tally: &Tally, left: u64) -> Work {
        let Count { pages, bytes } = Count::of(tally);
        let ended = tally.ended.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        Work { left, events: tally.found.saturating_add(ended), pages, bytes }
    }

    /// The sum of both.
    pub fn plus(self, other: Work) -> Work {
        Work {
            left: self.left.saturating_add(other.left),
            events: self.events.saturating_add(other.events),
            pages: self.pages.saturating_add(other.pages),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}
