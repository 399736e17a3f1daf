//! Random groups of entries, folded into two states at once.

use std::collections::BTreeMap;

use super::{host, url};
use crate::entry::{
    Admission, DomainChange, Ended, Entry, FoundHost, FoundUrl, FoundUrls, Group, HostChange, Origin,
    RobotsRead, open, seal,
};
use crate::fold::fold;
use crate::handler::ReadAs;
use crate::job::{Job, JobId};
use crate::key::{HostKey, Prefixes, UrlKey};
use crate::refusal::Refusal;
use crate::spider::outcome::Outcome;
use crate::state::queue::{LaterKey, QueueKey};
use crate::state::record::{RobotsPolicy, RobotsRecord, Unread, UrlState};
use crate::state::totals::{recount, recount_open};
use crate::state::{Item, MemoryState, Planned, Queued, State};
use crate::time::{Seconds, Timestamp};
use crate::want::Want;

/// Numbers of domains, hosts of each and URLs of each host in the groups: few, so that keys repeat.
const DOMAINS: u64 = 5;
const HOSTS: u32 = 4;
const PATHS: u64 = 40;

/// Every read is compared after this many groups.
const COMPARE_EVERY: usize = 5;

/// Folds groups made from `seed` into `state` and into one in memory, and compares the answers of both. After each
/// group `disturb` gets the state and the number of the step. `disturb` may return another state that holds fewer
/// groups, which are then folded again, as after a crash.
///
/// # Panics If the two differ; the message names seed and step.
pub fn random<S: State>(mut state: S, seed: u64, steps: usize, mut disturb: impl FnMut(S, usize) -> S) -> S {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut model = MemoryState::new();
    let mut log: Vec<Vec<u8>> = Vec::new();
    for step in 0..steps {
        let group = group(&mut random, &model, step);
        let (bytes, behind) = seal(&group, model.position());
        fold(&mut model, &group, behind).expect("memory does not fail");
        log.push(bytes);
        catch_up(&mut state, &log);
        state = disturb(state, step);
        catch_up(&mut state, &log);
        if step % COMPARE_EVERY == 0 || step + 1 == steps {
            compare(&mut random, &mut state, &mut model, &format!("seed {seed}, step {step}"));
        }
    }
    state
}

/// Folds the groups of the log behind the state's position.
fn catch_up<S: State>(state: &mut S, log: &[Vec<u8>]) {
    let folded = usize::try_from(state.position().sequence).expect("a short log");
    for bytes in &log[folded..] {
        let (group, behind) = open(bytes, state.position()).expect("our own log");
        fold(state, &group, behind).expect("a state that works");
    }
}

/// Pseudo-random numbers from a seed.
pub(super) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn host(&mut self) -> HostKey {
        host(self.below(DOMAINS) * 3, self.below(HOSTS.into()) as u32)
    }

    fn url(&mut self) -> UrlKey {
        let host = self.host();
        url(host, path(self.below(PATHS)))
    }
}

/// The `n`th path of a host. Some share their low half, so that URLs share a place.
fn path(n: u64) -> u64 {
    (n << 40) | (n / 2)
}

fn group(random: &mut Random, model: &MemoryState, step: usize) -> Group {
    let now = Seconds(1_000 + step as u32);
    let mut entries = Vec::new();
    for _ in 0..random.below(12) {
        entries.extend(ended(random, model, now).map(|ended| Entry::Ended(Box::new(ended))));
    }
    for _ in 0..random.below(3) {
        entries.push(odd(random, now));
    }
    if !random.one_in(4) {
        entries.push(Entry::Found(found(random, model, now)));
    }
    // Now and then the partition changes hands, and now and then a former owner writes.
    let epoch = model.meta().epoch;
    let epoch = match random.below(10) {
        0 => epoch + 1,
        1 => epoch.saturating_sub(1),
        _ => epoch,
    };
    Group { epoch, entries }
}

fn found(random: &mut Random, model: &MemoryState, now: Seconds) -> FoundUrls {
    let mut hosts: BTreeMap<HostKey, FoundHost> = BTreeMap::new();
    for _ in 0..=random.below(4) {
        let key = random.host();
        let record = model.tables.hosts.get(&key);
        let mut urls = BTreeMap::new();
        for _ in 0..=random.below(10) {
            let path = path(random.below(PATHS));
            let (depth, priority) = (random.below(5) as u8, random.below(4) as u8);
            let natural = QueueKey::of(priority, depth, path, now);
            let floor = record.map_or(QueueKey::MIN, |record| record.floor);
            let place = if natural > floor { natural } else { floor.after() };
            let known = model.tables.urls.get(&url(key, path)).map(|record| record.state);
            let admission = match (known, random.below(8)) {
                (None, 0) => {
                    Admission::Refuse(Refusal::ALL[random.below(Refusal::ALL.len() as u64) as usize])
                }
                (None, 1) => Admission::ParkBare,
                (None, 2) => Admission::Park(QueueKey::parked(priority, depth, path, now).max(floor.after())),
                (None, _) => Admission::Queue(place),
                (Some(UrlState::ParkedBare), _) => Admission::Unpark(place),
                (Some(UrlState::Waiting), 0 | 1) => Admission::Raise(place),
                (Some(UrlState::Ended | UrlState::Later(_)), 0 | 1) => Admission::Again(place),
                _ => continue,
            };
            let text = if admission == Admission::ParkBare { String::new() } else { format!("/p/{path:x}") };
            let (job, hits) = (JobId(random.below(3) as u32), random.below(4) as u32);
            let text = text.into_boxed_str();
            let hops = if random.one_in(4) { random.below(3) as u8 } else { 0 };
            let hops = crate::job::Hops::by_code(hops);
            let read_as = if random.one_in(4) { ReadAs::Sitemap } else { ReadAs::Page };
            let url = FoundUrl {
                path,
                text,
                admission,
                want: Want { depth, hops, read_as, priority, hits, ..Want::of(job) },
            };
            urls.insert(path, url);
        }
        let origin = record.is_none().then(|| Box::from(format!("http://{key}.test")));
        let displaced = origin.is_some() && random.one_in(6);
        hosts.insert(key, FoundHost { key, origin, displaced, urls: urls.into_values().collect() });
    }
    FoundUrls { at: now, hosts: hosts.into_values().collect() }
}

fn ended(random: &mut Random, model: &MemoryState, now: Seconds) -> Option<Ended> {
    let key = random.url();
    let record = model.tables.urls.get(&key)?;
    let host = model.tables.hosts.get(&key.host).cloned().unwrap_or_default();
    let from = match record.state {
        UrlState::Waiting => Origin::Queue,
        UrlState::Parked => Origin::Parked,
        UrlState::Later(_) => Origin::Later,
        _ => return None,
    };
    let (mut queue, mut plans) = (Vec::new(), Vec::new());
    model.tables.queued(&key.host, host.floor, random.below(4) as usize, &mut queue);
    model.tables.planned(&key.host, host.later_floor, random.below(4) as usize, &mut plans);
    let digest = random.below(4);
    // Now and then a fetch is reported again.
    let again = record.last.as_ref().filter(|_| random.one_in(8)).map(|last| last.fetch);
    Some(Ended {
        key,
        text: format!("/p/{:x}", key.path).into(),
        fetch: again.unwrap_or_else(|| random.next()),
        at: now,
        outcome: Outcome::ALL[random.below(Outcome::ALL.len() as u64) as usize],
        status: random.below(600) as u16,
        digest,
        simhash: if random.one_in(3) { random.below(3) << 40 } else { 0 },
        bytes: random.below(100_000),
        shapes: if random.one_in(2) { [random.below(5), 7] } else { [0, 0] },
        alike_max: 3,
        etag: if random.one_in(3) { "\"e\"".into() } else { Box::default() },
        last_modified: if random.one_in(3) { "Sun, 15 Nov 2026 05:00:00 GMT".into() } else { Box::default() },
        from,
        next: random.one_in(3).then(|| Seconds(now.0 + 1 + random.below(50) as u32)),
        retries: random.below(5) as u8,
        floor: queue.last().map_or(host.floor, |queued| queued.place),
        later_floor: plans.last().map_or(host.later_floor, |planned| planned.place),
        rest_until: Timestamp(if random.one_in(5) { random.next() >> 20 } else { 0 }),
        failures: random.below(5) as u8,
    })
}

fn odd(random: &mut Random, now: Seconds) -> Entry {
    let host = random.host();
    match random.below(9) {
        0 => Entry::Host(HostChange::Stop(host, "too loud".into())),
        1 => Entry::Host(HostChange::Resume(host)),
        2 => Entry::Host(HostChange::Delay(host, random.below(5_000) as u32)),
        3 => Entry::Domain(DomainChange::Budget(host.domain, random.one_in(2).then(|| random.next()))),
        4 => Entry::Job(Box::new(Job::new(JobId(random.below(4) as u32), "press"))),
        5 => Entry::JobRemoved(JobId(random.below(4) as u32)),
        6 => Entry::Inbox { name: "links".into(), position: random.below(1_000) },
        // A split that gives nothing away: when an implementation drops the rest is its own affair.
        7 => Entry::Split(Prefixes::ALL),
        _ => {
            let policies = [
                RobotsPolicy::Unknown,
                RobotsPolicy::Rules,
                RobotsPolicy::AllowAll,
                RobotsPolicy::DisallowAll,
            ];
            let record = RobotsRecord {
                policy: policies[random.below(4) as usize],
                fetched: now,
                expires: Seconds(now.0 + 86_400),
                unreachable_since: Seconds(random.below(2) as u32 * now.0),
                crawl_delay: random.below(10_000) as u32,
                unread: (random.below(2) == 0).then(|| Unread::Status(500 + random.below(100) as u16)),
            };
            let body =
                random.one_in(2).then(|| format!("Disallow: /{}", random.below(9)).into_bytes().into());
            let rest_until = Timestamp(random.below(2) * 1_000_000);
            Entry::Robots(Box::new(RobotsRead { host, record, body, rest_until, failures: 1 }))
        }
    }
}

fn compare<S: State>(random: &mut Random, state: &mut S, model: &mut MemoryState, at: &str) {
    assert_eq!(state.position(), model.position(), "{at}");
    assert_eq!(state.meta(), model.meta(), "{at}");
    let (mut waiting, mut parked, mut later) = (0, 0, 0);
    let prefixes = state.meta().prefixes.unwrap_or(Prefixes::ALL);
    let each = &mut |item: Item<'_>| match item {
        Item::Host(_, host) => {
            (waiting, parked, later) = (waiting + host.waiting, parked + host.parked, later + host.later);
        }
        Item::Domain(_, domain) => parked += domain.bare,
        _ => {}
    };
    state.walk(prefixes, each).unwrap();
    let totals = &state.meta().totals;
    assert_eq!((totals.waiting, totals.parked, totals.later), (waiting, parked, later), "totals: {at}");
    let left = totals.left();
    assert_eq!(recount(state, prefixes, |_| false, |_| false).unwrap(), left, "recount: {at}");
    let open = state.meta().totals.open.clone();
    assert_eq!(recount_open(state, prefixes).unwrap(), open, "what is left of each job: {at}");
    let mut keys: Vec<UrlKey> = (0..1 + random.below(200)).map(|_| random.url()).collect();
    // Some keys that cannot be there.
    keys.extend((0..10).map(|_| url(random.host(), random.next() | 1)));
    keys.sort();
    keys.dedup();
    let (mut a, mut b) = (vec![false; keys.len()], vec![false; keys.len()]);
    state.known(&keys, &mut a).unwrap();
    model.known(&keys, &mut b).unwrap();
    assert_eq!(a, b, "known: {at}");
    let (mut a, mut b) = (Vec::new(), Vec::new());
    state.urls(&keys, &mut a).unwrap();
    model.urls(&keys, &mut b).unwrap();
    assert_eq!(a, b, "urls: {at}");

    let mut hosts: Vec<HostKey> = keys.iter().map(|key| key.host).collect();
    hosts.dedup();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    state.hosts(&hosts, &mut a).unwrap();
    model.hosts(&hosts, &mut b).unwrap();
    assert_eq!(a, b, "hosts: {at}");
    for (host, record) in hosts.iter().zip(b) {
        assert_eq!(state.robots(host).unwrap(), model.robots(host).unwrap(), "robots of {host}: {at}");
        let record = record.unwrap_or_default();
        compare_queues(state, model, host, record.floor, record.later_floor, at);
    }
    let mut domains: Vec<_> = hosts.iter().map(|host| host.domain).collect();
    domains.dedup();
    let (mut a, mut b) = (Vec::new(), Vec::new());
    state.domains(&domains, &mut a).unwrap();
    model.domains(&domains, &mut b).unwrap();
    assert_eq!(a, b, "domains: {at}");

    for max in [1, 2, 7, 100] {
        let from = match random.below(3) {
            0 => HostKey::MIN,
            1 => random.host(),
            _ => random.host().next().expect("not the last"),
        };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        state.hosts_from(from, max, &mut a).unwrap();
        model.hosts_from(from, max, &mut b).unwrap();
        assert_eq!(a, b, "{max} hosts from {from}: {at}");
    }
    for prefixes in [Prefixes::ALL, Prefixes::share(random.below(7) as u32, 7)] {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        state.walk(prefixes, &mut |item| a.push(format!("{item:?}"))).unwrap();
        model.walk(prefixes, &mut |item| b.push(format!("{item:?}"))).unwrap();
        assert_eq!(a, b, "walk: {at}");
        assert_eq!(state.hash(prefixes).unwrap(), model.hash(prefixes).unwrap(), "hash: {at}");
    }
}

/// Reads the queue and the plans of a host from every place on, with several limits.
fn compare_queues<S: State>(
    state: &mut S,
    model: &mut MemoryState,
    host: &HostKey,
    floor: QueueKey,
    later_floor: LaterKey,
    at: &str,
) {
    let order = |queued: &Queued| (queued.place, queued.text.clone());
    let mut all = Vec::new();
    model.queued(host, floor, usize::MAX / 2, &mut all).unwrap();
    let cursors = all.iter().flat_map(|queued| [queued.place.before().max(floor), queued.place]);
    for cursor in [floor].into_iter().chain(cursors) {
        for max in [1, 2, 5, 1_000] {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            state.queued(host, cursor, max, &mut a).unwrap();
            model.queued(host, cursor, max, &mut b).unwrap();
            assert!(a.is_sorted_by_key(|queued: &Queued| queued.place), "{at}");
            a.sort_by_key(order);
            b.sort_by_key(order);
            assert_eq!(a, b, "{max} of the queue of {host} behind {cursor:?}: {at}");
        }
    }
    let mut all: Vec<Planned> = Vec::new();
    model.planned(host, later_floor, usize::MAX / 2, &mut all).unwrap();
    for cursor in [later_floor].into_iter().chain(all.iter().map(|planned| planned.place)) {
        for max in [1, 3, 1_000] {
            let (mut a, mut b) = (Vec::new(), Vec::new());
            state.planned(host, cursor, max, &mut a).unwrap();
            model.planned(host, cursor, max, &mut b).unwrap();
            assert_eq!(a, b, "{max} plans of {host} behind {cursor:?}: {at}");
        }
    }
}

#[cfg(test)]
pub(super) use naive::Naive;

#[cfg(test)]
mod naive;
