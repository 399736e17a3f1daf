//! The contract of every [`State`], as tests for any implementation.
//!
//! [`suite`] takes a function that opens an empty state and runs everything. [`random`] folds groups made from one
//! seed into a state and into a [`MemoryState`](super::MemoryState) and compares every read. Between two groups the
//! implementation may flush, compact, or lose changes that were not durable and open again, through the function that
//! the caller hands over.
//!
//! Beyond the words of the trait: [`State::queued`] gives all URLs of a place or none, even if that exceeds the
//! limit; a reader never asks for places at or before a host's floor; texts of one place come in any order.

mod random;

use crate::job::JobId;
use crate::key::{DomainKey, HostKey, Prefixes, UrlKey};
use crate::refusal::Refusal;
use crate::state::queue::{LaterKey, QueueKey};
use crate::state::record::{DomainRecord, HostRecord, UrlRecord, UrlState};
use crate::state::{Beside, Changes, Item, Meta, Planned, Position, Queued, State};
use crate::time::Seconds;

pub use random::random;

/// Seeds that [`suite`] runs through.
const SEEDS: u64 = 6;

/// Groups folded for each seed.
const STEPS: usize = 60;

/// Runs all tests on an implementation. `open` gives an empty state each time.
///
/// # Panics If a test fails; the message says which.
pub fn suite<S: State>(mut open: impl FnMut() -> S) {
    an_empty_state_knows_nothing(open());
    what_was_applied_is_read(open());
    the_last_change_wins(open());
    queues_are_read_in_order_and_by_whole_places(open());
    plans_are_read_in_order(open());
    hosts_come_in_the_order_of_keys(open());
    a_walk_stays_within_its_prefixes(open());
    what_is_below_the_floor_is_not_walked(open());
    for seed in 0..SEEDS {
        random(open(), seed, STEPS, |state, _| state);
    }
}

/// The `n`th host of the `d`th of 16 domains spread over all prefixes.
fn host(d: u64, n: u32) -> HostKey {
    HostKey { domain: DomainKey((d % 16) << 60 | 0x0123_4567), host: n }
}

fn url(host: HostKey, path: u64) -> UrlKey {
    UrlKey { host, path }
}

fn place(band: u8, age: u32, low: u32) -> QueueKey {
    QueueKey { band, age: Seconds(age), low }
}

fn queued(place: QueueKey, text: &str) -> Queued {
    Queued { place, text: text.into() }
}

fn record(depth: u8) -> UrlRecord {
    UrlRecord::new(UrlState::Waiting, JobId(1), depth, 3, Seconds(7))
}

fn position(sequence: u64) -> Position {
    Position { sequence, chain: sequence ^ 0xabcd }
}

fn an_empty_state_knows_nothing<S: State>(mut state: S) {
    assert_eq!(state.position(), Position::default());
    assert_eq!(*state.meta(), Meta::default());
    let keys = [url(host(1, 1), 1), url(host(2, 1), 1)];
    let mut known = [true; 2];
    state.known(&keys, &mut known).unwrap();
    assert_eq!(known, [false; 2], "an empty state knows a URL");
    assert_eq!(state.url(&keys[0]).unwrap(), None);
    assert_eq!(state.host(&host(1, 1)).unwrap(), None);
    assert_eq!(state.domain(host(1, 1).domain).unwrap(), None);
    assert_eq!(state.robots(&host(1, 1)).unwrap(), None);
    let (mut queue, mut plans, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
    state.queued(&host(1, 1), QueueKey::MIN, 10, &mut queue).unwrap();
    state.planned(&host(1, 1), LaterKey::MIN, 10, &mut plans).unwrap();
    state.hosts_from(HostKey::MIN, 10, &mut hosts).unwrap();
    assert!(queue.is_empty() && plans.is_empty() && hosts.is_empty());
    state.walk(Prefixes::ALL, &mut |item| panic!("an empty state holds {item:?}")).unwrap();
}

fn what_was_applied_is_read<S: State>(mut state: S) {
    let (a, b) = (host(1, 1), host(9, 2));
    let mut meta = Meta { epoch: 4, ..Meta::default() };
    meta.inboxes.insert("links".into(), 17);
    let mut changes = Changes { meta: Some(meta.clone()), ..Changes::default() };
    changes.urls = vec![(url(b, 5), record(1)), (url(a, 9), record(2)), (url(a, 3), record(3))];
    changes.hosts.insert(a, HostRecord::new("http://a.test", Seconds(5)));
    changes.domains.insert(a.domain, DomainRecord::new(Seconds(5)));
    changes.robots.push((a, Box::from(*b"User-agent: *")));
    changes.beside = vec![
        (Beside::Stream, url(b, 5), Box::from(*b"other")),
        (Beside::Stream, url(a, 9), Box::from(*b"stream")),
        (Beside::Feed, url(a, 9), Box::from(*b"feed")),
    ];
    state.apply(changes, position(1)).unwrap();

    assert_eq!(state.position(), position(1));
    assert_eq!(*state.meta(), meta);
    let keys = [url(a, 3), url(a, 4), url(a, 9), url(b, 5), url(b, 6)];
    let mut known = [false; 5];
    state.known(&keys, &mut known).unwrap();
    assert_eq!(known, [true, false, true, true, false]);
    let mut found = Vec::new();
    state.urls(&keys, &mut found).unwrap();
    assert_eq!(found, [Some(record(3)), None, Some(record(2)), Some(record(1)), None]);
    let mut hosts = Vec::new();
    state.hosts(&[a, b], &mut hosts).unwrap();
    assert_eq!(hosts, [Some(HostRecord::new("http://a.test", Seconds(5))), None]);
    let mut domains = Vec::new();
    state.domains(&[a.domain, b.domain], &mut domains).unwrap();
    assert_eq!(domains, [Some(DomainRecord::new(Seconds(5))), None]);
    assert_eq!(state.robots(&a).unwrap().as_deref(), Some(&b"User-agent: *"[..]));
    let mut beside = Vec::new();
    let mut urls = Vec::new();
    state.urls_from(url(a, 0), 100, &mut urls).unwrap();
    assert!(urls.is_sorted_by_key(|(key, _)| *key) && !urls.is_empty(), "URLs come in the order of keys");
    for (key, record) in &urls {
        assert_eq!(state.url(key).unwrap().as_ref(), Some(record));
    }
    let mut some = Vec::new();
    state.urls_from(urls[0].0, 1, &mut some).unwrap();
    assert_eq!(some, urls[..1]);
    state.beside(Beside::Feed, &keys, &mut beside).unwrap();
    assert_eq!(beside, [None, None, Some(Box::from(*b"feed")), None, None]);
    let mut listed = Vec::new();
    state.beside_from(Beside::Stream, url(a, 3), 1, &mut listed).unwrap();
    assert_eq!(listed, [(url(a, 9), Box::from(*b"stream"))]);
    state.beside_from(Beside::Stream, url(a, 10), 9, &mut listed).unwrap();
    assert_eq!(listed[1..], [(url(b, 5), Box::from(*b"other"))]);

    // Nothing changed but the position: everything else stays.
    let before = state.hash(Prefixes::ALL).unwrap();
    state.apply(Changes::default(), position(2)).unwrap();
    assert_eq!((state.position(), state.hash(Prefixes::ALL).unwrap()), (position(2), before));
}

fn the_last_change_wins<S: State>(mut state: S) {
    let key = host(3, 3);
    let changes =
        Changes { urls: vec![(url(key, 1), record(1)), (url(key, 1), record(2))], ..Changes::default() };
    state.apply(changes, position(1)).unwrap();
    assert_eq!(state.url(&url(key, 1)).unwrap(), Some(record(2)), "within one group");
    let mut changes = Changes { urls: vec![(url(key, 1), record(9))], ..Changes::default() };
    changes.robots.push((key, Box::from(*b"old")));
    changes.robots.push((key, Box::from(*b"new")));
    state.apply(changes, position(2)).unwrap();
    assert_eq!(state.url(&url(key, 1)).unwrap(), Some(record(9)), "in the next group");
    assert_eq!(state.robots(&key).unwrap().as_deref(), Some(&b"new"[..]));
    let mut urls = 0;
    state.walk(Prefixes::ALL, &mut |item| urls += u32::from(matches!(item, Item::Url(..)))).unwrap();
    assert_eq!(urls, 1, "a URL that was changed is one URL");
}

fn read_queue<S: State>(state: &mut S, key: HostKey, behind: QueueKey, max: usize) -> Vec<Queued> {
    let mut out = Vec::new();
    state.queued(&key, behind, max, &mut out).unwrap();
    assert!(out.is_sorted_by_key(|queued| queued.place), "a queue is read in its order");
    out.sort_by(|a, b| (a.place, &a.text).cmp(&(b.place, &b.text)));
    out
}

fn queues_are_read_in_order_and_by_whole_places<S: State>(mut state: S) {
    let (key, other) = (host(4, 1), host(4, 2));
    let items = [
        queued(place(2, 10, 1), "/d"),
        queued(place(1, 10, 7), "/b"),
        queued(place(1, 10, 7), "/c"),
        queued(place(1, 9, 9), "/a"),
        queued(place(255, 1, 1), "/parked"),
    ];
    let mut changes = Changes::default();
    changes.queued.extend(items.iter().map(|item| (key, item.clone())));
    changes.queued.push((other, queued(place(1, 10, 8), "/of-another")));
    state.apply(changes, position(1)).unwrap();
    // The same entry folded again, after a crash between two files, adds nothing.
    let again = Changes { queued: vec![(key, items[0].clone())], ..Changes::default() };
    state.apply(again, position(2)).unwrap();

    let texts =
        |read: Vec<Queued>| read.into_iter().map(|queued| queued.text.to_string()).collect::<Vec<_>>();
    assert_eq!(texts(read_queue(&mut state, key, QueueKey::MIN, 10)), ["/a", "/b", "/c", "/d", "/parked"]);
    assert_eq!(
        texts(read_queue(&mut state, key, QueueKey::MIN, 2)),
        ["/a", "/b", "/c"],
        "a place is never torn"
    );
    assert_eq!(texts(read_queue(&mut state, key, QueueKey::MIN, 1)), ["/a"]);
    assert_eq!(texts(read_queue(&mut state, key, place(1, 10, 6), 1)), ["/b", "/c"]);
    assert_eq!(texts(read_queue(&mut state, key, place(1, 10, 7), 10)), ["/d", "/parked"]);
    assert_eq!(texts(read_queue(&mut state, key, place(255, 1, 1), 10)), Vec::<String>::new());
    assert_eq!(texts(read_queue(&mut state, other, QueueKey::MIN, 10)), ["/of-another"]);
    let mut out = vec![items[0].clone()];
    state.queued(&key, QueueKey::MIN, 1, &mut out).unwrap();
    assert_eq!(out.len(), 2, "what was in the list already does not count");
}

fn plans_are_read_in_order<S: State>(mut state: S) {
    let key = host(5, 1);
    let plan =
        |due, path, text: &str| Planned { place: LaterKey { due: Seconds(due), path }, text: text.into() };
    let mut changes = Changes::default();
    for item in [plan(20, 1, "/c"), plan(10, 9, "/b"), plan(10, 2, "/a")] {
        changes.planned.push((key, item));
    }
    state.apply(changes, position(1)).unwrap();
    let mut read = |behind, max| {
        let mut out = Vec::new();
        state.planned(&key, behind, max, &mut out).unwrap();
        out
    };
    assert_eq!(read(LaterKey::MIN, 10), [plan(10, 2, "/a"), plan(10, 9, "/b"), plan(20, 1, "/c")]);
    assert_eq!(read(LaterKey::MIN, 2), [plan(10, 2, "/a"), plan(10, 9, "/b")]);
    assert_eq!(read(LaterKey { due: Seconds(10), path: 9 }, 10), [plan(20, 1, "/c")]);
}

fn hosts_come_in_the_order_of_keys<S: State>(mut state: S) {
    let keys = [host(1, 1), host(1, 9), host(2, 5), host(15, u32::MAX)];
    // Over two groups, so that old and new records are merged.
    for (i, of_group) in [[keys[3], keys[0]], [keys[1], keys[2]]].into_iter().enumerate() {
        let mut changes = Changes::default();
        changes.hosts.extend(of_group.map(|key| (key, HostRecord::new("http://x.test", Seconds(1)))));
        state.apply(changes, position(i as u64 + 1)).unwrap();
    }
    let mut from = |from, max| {
        let mut out = Vec::new();
        state.hosts_from(from, max, &mut out).unwrap();
        out.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(from(HostKey::MIN, 10), keys);
    assert_eq!(from(keys[1], 2), keys[1..3], "the key itself is among them");
    assert_eq!(from(keys[1].next().unwrap(), 1), keys[2..3]);
    assert!(from(HostKey::MAX, 10).is_empty());
}

fn a_walk_stays_within_its_prefixes<S: State>(mut state: S) {
    for d in 0..16 {
        let key = host(d, 1);
        let mut changes = Changes { urls: vec![(url(key, u64::MAX), record(1))], ..Changes::default() };
        changes.hosts.insert(key, HostRecord::new("http://x.test", Seconds(1)));
        changes.domains.insert(key.domain, DomainRecord::new(Seconds(1)));
        changes.robots.push((key, Box::from(*b"x")));
        changes.queued.push((key, queued(place(1, 1, 1), "/")));
        changes.beside.push((Beside::Feed, url(key, d), Box::from(*b"f")));
        changes
            .planned
            .push((key, Planned { place: LaterKey { due: Seconds(1), path: 1 }, text: "/".into() }));
        state.apply(changes, position(d + 1)).unwrap();
    }
    let part = Prefixes::share(1, 4);
    let mut counts = [0u32; 7];
    state
        .walk(part, &mut |item| {
            let (kind, domain) = match item {
                Item::Url(key, _) => (0, key.host.domain),
                Item::Host(key, _) => (1, key.domain),
                Item::Domain(key, _) => (2, *key),
                Item::Robots(key, _) => (3, key.domain),
                Item::Queued(key, _) => (4, key.domain),
                Item::Planned(key, _) => (5, key.domain),
                Item::Beside(_, key, _) => (6, key.host.domain),
            };
            assert!(part.holds(domain), "a walk left its prefixes");
            counts[kind] += 1;
        })
        .unwrap();
    assert_eq!(counts, [4; 7], "four of sixteen domains, one of each kind");
    let hashes: Vec<u64> = (0..4).map(|i| state.hash(Prefixes::share(i, 4)).unwrap()).collect();
    assert!(hashes.iter().enumerate().all(|(i, hash)| !hashes[..i].contains(hash)), "{hashes:?}");
}

fn what_is_below_the_floor_is_not_walked<S: State>(mut state: S) {
    let key = host(6, 1);
    let mut changes = Changes::default();
    changes.hosts.insert(key, HostRecord::new("http://x.test", Seconds(1)));
    for low in 1..=3 {
        changes.queued.push((key, queued(place(1, 1, low), "/q")));
        let place = LaterKey { due: Seconds(low), path: 1 };
        changes.planned.push((key, Planned { place, text: "/p".into() }));
    }
    changes.urls.push((url(key, 1), UrlRecord { state: UrlState::Refused(Refusal::Depth), ..record(1) }));
    state.apply(changes, position(1)).unwrap();
    let mut moved = HostRecord::new("http://x.test", Seconds(1));
    moved.floor = place(1, 1, 2);
    moved.later_floor = LaterKey { due: Seconds(1), path: 1 };
    let mut changes = Changes::default();
    changes.hosts.insert(key, moved.clone());
    state.apply(changes, position(2)).unwrap();
    let (mut queue, mut plans) = (0, 0);
    state
        .walk(Prefixes::ALL, &mut |item| match item {
            Item::Queued(..) => queue += 1,
            Item::Planned(..) => plans += 1,
            _ => {}
        })
        .unwrap();
    assert_eq!((queue, plans), (1, 2));
    assert_eq!(read_queue(&mut state, key, moved.floor, 10), [queued(place(1, 1, 3), "/q")]);
}

#[cfg(test)]
mod tests {
    use super::random::Naive;
    use super::*;
    use crate::state::MemoryState;

    #[test]
    fn a_state_in_memory_keeps_every_promise() {
        suite(MemoryState::new);
    }

    #[test]
    fn a_state_made_of_plain_lists_keeps_every_promise() {
        suite(Naive::default);
    }

    #[test]
    fn a_state_that_loses_its_latest_groups_catches_up_from_the_log() {
        let mut kept = MemoryState::new();
        random(MemoryState::new(), 77, 80, |state, step| match step % 7 {
            3 => {
                kept = state.clone();
                state
            }
            6 => kept.clone(),
            _ => state,
        });
    }
}
