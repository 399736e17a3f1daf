//! Do requests keep the promised rests? Judged while the crawl runs, from what is sent, and without the code that
//! decides when to send.
//!
//! [`Politeness`] is told of the begin and the end of every request, with the promises of its ticket. Each host (by its
//! origin) and each address is a subject. When a request begins, the rest of a subject is the time since its last
//! request ended. While other requests of the subject are under way, the distance of the begins counts too, and no more
//! requests than allowed may be under way. A request that sent nothing counts for nothing. These are the rules by which
//! `nephila politeness report` judges the log.
//!
//! The meter knows the requests of this process since its start, or on a node since the start of the session. An
//! address that several nodes request is judged by the requests of each alone. With remote spiders the times are those
//! of the node: from the hand-over of a URL until the result has come.
//!
//! Invariants: at most [`SUBJECTS_MAX`] hosts and as many addresses are remembered, besides those with a request under
//! way; the subjects that were not requested for the longest time are forgotten first, and the next rest of a forgotten
//! subject is not counted. A request is judged once, at its end.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nephila_core::frontier::slot::SlotKey;
use nephila_core::histogram::Histogram;

use super::Labelled;

/// Maximum number of hosts that are remembered without a request under way, and of addresses.
pub const SUBJECTS_MAX: usize = 65_536;
/// Maximum number of requests of one subject whose begins are remembered at a time. More are never allowed.
const RUNNING_MAX: usize = 256;
/// The subjects are divided over this number of locks.
const SHARDS: usize = 16;
/// The clocks of the crawl count whole milliseconds: a rest may seem shorter by this many microseconds.
const ROUNDING_US: u64 = 1_000;

/// Upper bounds of the ratios, in hundredths of the promise. The first bucket must stay empty.
pub const RATIOS: [u64; 9] = [99, 100, 110, 125, 150, 200, 500, 1_000, 10_000];
/// Kinds of subjects.
const KINDS: [&str; 2] = ["host", "slot"];

/// What is promised to a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The rest before a request.
    pub rest: Duration,
    /// Maximum number of requests at once.
    pub connections: u32,
}

/// How a request kept a promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kept {
    /// The rest in hundredths of the promised rest. None without a promise, or without an earlier request.
    ratio: Option<u64>,
    /// Whether the promise was broken.
    is_broken: bool,
}

/// Requests of one subject. Times are microseconds since the start of the meter.
#[derive(Debug, Default)]
struct Subject {
    /// The begins of the requests under way.
    running: Vec<u64>,
    /// The last begin of a request that has ended.
    began: Option<u64>,
    /// The last end.
    ended: Option<u64>,
}

impl Subject {
    /// Judges a request that begins now.
    fn judge(&self, now: u64, promise: Promise) -> Kept {
        let promised = u64::try_from(promise.rest.as_micros()).unwrap_or(u64::MAX);
        let at_once = self.running.len();
        let rest = self.ended.map(|ended| now.saturating_sub(ended));
        let apart = self.running.iter().copied().chain(self.began).max();
        let apart = apart.filter(|_| at_once > 0).map(|began| now.saturating_sub(began));
        let had = rest.into_iter().chain(apart).min();
        let too_many = at_once + 1 > promise.connections as usize;
        let too_soon = had.is_some_and(|had| had + ROUNDING_US < promised);
        let ratio = had.filter(|_| promised > 0).map(|had| {
            let had = if had < promised { (had + ROUNDING_US).min(promised) } else { had };
            had.saturating_mul(100) / promised
        });
        Kept { ratio, is_broken: too_many || too_soon }
    }
}

/// Subjects by their hash, in two generations: when the young one is full it becomes the old one, and the old one is
/// forgotten.
#[derive(Debug)]
struct Subjects {
    young: HashMap<u64, Subject>,
    old: HashMap<u64, Subject>,
    /// Maximum size of a generation.
    young_max: usize,
}

impl Subjects {
    fn new(subjects_max: usize) -> Subjects {
        Subjects { young: HashMap::new(), old: HashMap::new(), young_max: (subjects_max / 2).max(1) }
    }

    fn of(&mut self, key: u64) -> &mut Subject {
        if self.young.len() >= self.young_max && !self.young.contains_key(&key) {
            let forgotten = std::mem::replace(&mut self.old, std::mem::take(&mut self.young));
            let under_way = forgotten.into_iter().filter(|(_, subject)| !subject.running.is_empty());
            self.young.extend(under_way);
        }
        let old = &mut self.old;
        self.young.entry(key).or_insert_with(|| old.remove(&key).unwrap_or_default())
    }

    /// A request begins.
    fn begin(&mut self, key: u64, now: u64, promise: Promise) -> Kept {
        let subject = self.of(key);
        let kept = subject.judge(now, promise);
        if subject.running.len() < RUNNING_MAX {
            subject.running.push(now);
        }
        kept
    }

    /// The request that began then has ended, and was sent or not.
    fn end(&mut self, key: u64, began: u64, now: u64, is_sent: bool) {
        let subject = self.of(key);
        if let Some(at) = subject.running.iter().position(|running| *running == began) {
            subject.running.swap_remove(at);
        }
        if is_sent {
            subject.began = subject.began.max(Some(began));
            subject.ended = subject.ended.max(Some(now));
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Politeness {
    since: Instant,
    hasher: RandomState,
    hosts: Vec<Mutex<Subjects>>,
    slots: Vec<Mutex<Subjects>>,
    /// Broken promises, by kind of subject.
    pub violations: Labelled,
    /// Rests of hosts in hundredths of the promised rests.
    pub ratios: Histogram,
}

impl Default for Politeness {
    fn default() -> Politeness {
        let shards = || (0..SHARDS).map(|_| Mutex::new(Subjects::new(SUBJECTS_MAX / SHARDS))).collect();
        Politeness {
            since: Instant::now(),
            hasher: RandomState::new(),
            hosts: shards(),
            slots: shards(),
            violations: Labelled::new(KINDS),
            ratios: Histogram::new(&RATIOS),
        }
    }
}

/// A request under way. Dropped without an end, it counts as sent.
#[derive(Debug)]
pub struct Asking<'a> {
    meter: &'a Politeness,
    began: u64,
    host: (u64, Kept),
    slot: (u64, Kept),
    is_sent: bool,
}

impl Asking<'_> {
    /// The request has ended. It may have reached a server or, as with a limit of our own, certainly not.
    pub fn ended(mut self, is_sent: bool) {
        self.is_sent = is_sent;
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.meter.end(self, self.meter.now());
    }
}

impl Politeness {
    /// A request to a host, by its origin, at this address is about to be sent.
    pub fn begin(&self, origin: &str, address: IpAddr, host: Promise, slot: Promise) -> Asking<'_> {
        self.begin_at(self.now(), origin, address, host, slot)
    }

    fn begin_at(&self, now: u64, origin: &str, address: IpAddr, host: Promise, slot: Promise) -> Asking<'_> {
        let host_key = self.hasher.hash_one(origin);
        let slot_key = self.hasher.hash_one(SlotKey::of(address));
        let host = shard(&self.hosts, host_key).begin(host_key, now, host);
        let slot = shard(&self.slots, slot_key).begin(slot_key, now, slot);
        Asking { meter: self, began: now, host: (host_key, host), slot: (slot_key, slot), is_sent: true }
    }

    fn end(&self, asking: &Asking<'_>, now: u64) {
        let Asking { began, host: (host_key, host), slot: (slot_key, slot), is_sent, .. } = *asking;
        shard(&self.hosts, host_key).end(host_key, began, now, is_sent);
        shard(&self.slots, slot_key).end(slot_key, began, now, is_sent);
        if !is_sent {
            return;
        }
        host.ratio.into_iter().for_each(|ratio| self.ratios.add(ratio));
        for (kind, kept) in KINDS.into_iter().zip([host, slot]) {
            self.violations.add(kind, u64::from(kept.is_broken));
        }
    }

    /// Microseconds since the start of the meter.
    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

fn shard(shards: &[Mutex<Subjects>], key: u64) -> MutexGuard<'_, Subjects> {
    // Another part of the hash than the one that the map uses.
    let at = (key >> 32) as usize % shards.len();
    shards[at].lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn promise(seconds: u64, connections: u32) -> Promise {
        Promise { rest: Duration::from_secs(seconds), connections }
    }

    /// Requests to one host: begin and end in microseconds, and whether each was sent.
    fn judged(requests: &[(u64, u64, bool)], host: Promise, slot: Promise) -> ([u64; 2], Vec<u64>) {
        let meter = Politeness::default();
        let mut times: Vec<(u64, usize, bool)> = Vec::new();
        for (number, (began, ended, _)) in requests.iter().enumerate() {
            times.extend([(*began, number, true), (*ended, number, false)]);
        }
        times.sort_by_key(|(at, _, begins)| (*at, *begins));
        let mut under_way = HashMap::new();
        for (at, number, begins) in times {
            if begins {
                under_way.insert(number, meter.begin_at(at, "http://a.test", HERE, host, slot));
            } else {
                let mut asking = under_way.remove(&number).unwrap();
                asking.is_sent = requests[number].2;
                meter.end(&asking, at);
                std::mem::forget(asking);
            }
        }
        let violations = meter.violations.get();
        ([violations[0].1, violations[1].1], meter.ratios.get().counts)
    }

    #[test]
    fn a_rest_that_is_kept_has_a_ratio_of_one_or_more_and_a_shorter_one_is_a_violation() {
        let (first, kept) = ((0, SECOND, true), (3 * SECOND, 4 * SECOND, true));
        let (violations, ratios) = judged(&[first, kept], promise(2, 1), promise(0, 2));
        assert_eq!((violations, ratios), ([0, 0], vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 0]));
        let short = (2 * SECOND, 4 * SECOND, true);
        let (violations, ratios) = judged(&[first, short], promise(2, 1), promise(0, 2));
        assert_eq!((violations, ratios), ([1, 0], vec![1, 0, 0, 0, 0, 0, 0, 0, 0, 0]), "half of it");
        let (violations, _) = judged(&[first, short], promise(1, 1), promise(2, 2));
        assert_eq!(violations, [0, 1], "the address was promised more");
        let rounded = (3 * SECOND - 999, 4 * SECOND, true);
        let (violations, ratios) = judged(&[first, rounded], promise(2, 1), promise(2, 2));
        assert_eq!((violations, ratios[1]), ([0, 0], 1), "a clock in milliseconds cannot say more");
        let long = (21 * SECOND, 22 * SECOND, true);
        assert_eq!(judged(&[first, long], promise(2, 1), promise(0, 2)).1[7], 1, "ten times as long");
    }

    #[test]
    fn requests_at_once_are_as_many_as_allowed_and_begin_as_far_apart_as_the_rest() {
        let two = [(0, 9 * SECOND, true), (2 * SECOND, 5 * SECOND, true)];
        assert_eq!(judged(&two, promise(2, 2), promise(2, 2)).0, [0, 0]);
        assert_eq!(judged(&two, promise(2, 1), promise(2, 2)).0, [1, 0], "one at a time was promised");
        assert_eq!(judged(&two, promise(3, 2), promise(2, 2)).0, [1, 0], "their begins are too near");
        let third = [two[0], two[1], (6 * SECOND, 7 * SECOND, true)];
        assert_eq!(judged(&third, promise(2, 2), promise(0, 2)).0, [1, 0], "one second after an end");
    }

    #[test]
    fn a_request_that_was_not_sent_counts_for_nothing() {
        let not_sent = (2 * SECOND, 2 * SECOND + 5, false);
        let requests = [(0, SECOND, true), not_sent, (3 * SECOND, 4 * SECOND, true)];
        let (violations, ratios) = judged(&requests, promise(2, 1), promise(2, 1));
        assert_eq!(violations, [0, 0]);
        assert_eq!((ratios[1], ratios.iter().sum::<u64>()), (1, 1));
    }

    #[test]
    fn the_subjects_not_requested_for_longest_are_forgotten_and_one_under_way_never() {
        let mut subjects = Subjects::new(8);
        subjects.begin(0, 0, promise(1, 1));
        for key in 1..1_000 {
            subjects.begin(key, key, promise(1, 1));
            subjects.end(key, key, key, true);
            assert!(subjects.young.len() + subjects.old.len() <= 10, "bounded");
        }
        assert!(subjects.begin(0, 1_000, promise(1, 1)).is_broken, "it is under way since the begin");
        assert_eq!(subjects.begin(3, 1_001, promise(1, 1)), Kept::default(), "forgotten long ago");
        assert_eq!(subjects.begin(999, 1_002, promise(1, 1)).ratio, Some(0), "remembered");
    }

    #[test]
    fn a_request_whose_task_ends_early_has_ended() {
        let meter = Politeness::default();
        drop(meter.begin("http://a.test", HERE, promise(0, 1), promise(0, 1)));
        meter.begin("http://a.test", HERE, promise(0, 1), promise(0, 1)).ended(true);
        assert!(meter.violations.get().iter().all(|(_, count)| *count == 0));
        meter.begin("http://a.test", HERE, promise(60, 1), promise(0, 1)).ended(true);
        assert_eq!(meter.violations.get(), [("host", 1), ("slot", 0)]);
    }
}
