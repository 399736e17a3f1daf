//! The URLs of a list, sorted by host, so that no host blocks another, regardless of the order of the list.
//!
//! The list is read ahead and put on the shelf. A worker takes a URL of a host that may be requested now. A host whose
//! crawl delay runs, or whose address rests or is busy, keeps its URLs on the shelf, and no worker waits. Politeness
//! itself is enforced by the gates, which every fetch passes: the shelf only predicts when passing them takes little
//! time.
//!
//! A few URLs of each host are in memory, the others in temporary files: a file for each share of all hosts (`spool`),
//! written and read once, in order. So memory is bounded, and the work is linear in the length of the list. The first
//! URLs of every host are in memory as long as there is room at all, regardless of the hosts in the files. Only later
//! URLs can wait for another host: one of the same share that has more URLs than fit into memory.
//!
//! Invariants: every URL that was put is taken once, or put back; the URLs of one host are taken in the order of the
//! list, as far as the host has one connection.

mod spool;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use nephila_core::frontier::slot::SlotKey;
use nephila_core::url::CrawlUrl;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use spool::{BUCKETS, Spool};

/// Maximum number of URLs of one host in memory.
const HOST_HELD_MAX: usize = 64;
/// Maximum number of URLs in memory.
const HELD_MAX: usize = 200_000;
/// Maximum size in bytes of all spool files; beyond, reading the list pauses until some URLs are taken.
const SPOOL_BYTES_MAX: u64 = 64 << 30;

type Host = Arc<str>;

/// Maximum numbers of concurrent requests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) host: usize,
    pub(super) slot: usize,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Shelf {
    inner: Mutex<Inner>,
    changed: Notify,
}

/// A URL taken by a worker.
#[derive(Debug)]
pub(super) struct Taken {
    /// The position in the list.
    pub(super) number: u64,
    /// Verbatim from the list.
    pub(super) url: String,
    host: Host,
    slot: Option<SlotKey>,
}

#[derive(Debug)]
struct Inner {
    limits: Limits,
    hosts: HashMap<Host, Waiting>,
    /// Hosts with waiting URLs, by the time at which they may be requested.
    ready: BTreeSet<(Instant, u64, Host)>,
    slots: HashMap<SlotKey, Slot>,
    /// URLs in memory.
    held: usize,
    /// URLs taken by workers.
    open: usize,
    serial: u64,
    spool: Spool,
    /// Whether the list was read to its end.
    ended: bool,
}

/// The waiting URLs of one host.
#[derive(Debug)]
struct Waiting {
    urls: VecDeque<(u64, String)>,
    open: usize,
    rested: Instant,
    slot: Option<SlotKey>,
    /// Whether the host is in `ready`, or in the queue of its address.
    is_placed: bool,
}

/// An address.
#[derive(Debug)]
struct Slot {
    open: usize,
    rested: Instant,
    /// Hosts that wait until a connection of this address is free.
    waiting: VecDeque<Host>,
}

/// The next step for a worker.
enum Next {
    Url(Taken),
    /// Nothing before this time, or before a change.
    Wait(Option<Instant>),
    End,
}

impl Shelf {
    pub(super) fn new(limits: Limits) -> Shelf {
        let inner = Inner {
            limits,
            hosts: HashMap::new(),
            ready: BTreeSet::new(),
            slots: HashMap::new(),
            held: 0,
            open: 0,
            serial: 0,
            spool: Spool::new(),
            ended: false,
        };
        Shelf { inner: Mutex::new(inner), changed: Notify::new() }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics holding it")
    }

    /// Puts a URL of the list on the shelf. False if there is no room: try again later.
    pub(super) fn put(&self, number: u64, url: &str) -> io::Result<bool> {
        let put = self.inner().put(number, url)?;
        self.changed.notify_one();
        Ok(put)
    }

    /// Marks the end of the list.
    pub(super) fn end(&self) {
        self.inner().ended = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// Number of waiting URLs.
    pub(super) fn waiting(&self) -> u64 {
        let inner = self.inner();
        inner.held as u64 + inner.spool.lines
    }

    /// The next URL that may be requested; none when all are taken and none returns.
    pub(super) async fn next(&self) -> io::Result<Option<Taken>> {
        loop {
            let changed = self.changed.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            let (next, more) = {
                let mut inner = self.inner();
                let next = inner.next(Instant::now())?;
                let more = inner.ready.first().is_some_and(|(at, ..)| *at <= Instant::now());
                (next, more)
            };
            match next {
                Next::Url(taken) => {
                    if more {
                        self.changed.notify_one();
                    }
                    return Ok(Some(taken));
                }
                Next::End => {
                    self.changed.notify_waiters();
                    return Ok(None);
                }
                Next::Wait(None) => changed.await,
                Next::Wait(Some(until)) => {
                    tokio::select! {
                        () = changed => {}
                        () = sleep_until(until) => {}
                    }
                }
            }
        }
    }

    /// Registers the address of a taken URL. If the address may not be requested now, the URL returns to the shelf, and
    /// the result is none.
    pub(super) fn at(&self, taken: Taken, slot: Option<SlotKey>) -> Option<Taken> {
        let kept = self.inner().at(taken, slot, Instant::now());
        if kept.is_none() {
            self.changed.notify_one();
        }
        kept
    }

    /// A URL was requested; its host and its address rest until these times.
    pub(super) fn done(&self, taken: &Taken, host_rested: Instant, slot_rested: Instant) {
        self.inner().done(taken, host_rested, slot_rested);
        self.changed.notify_one();
    }
}

fn host_of(url: &str) -> Host {
    // An invalid URL causes no request and needs no waiting.
    CrawlUrl::parse(url).map_or_else(|_| Host::from(""), |url| Host::from(url.authority()))
}

impl Inner {
    fn put(&mut self, number: u64, url: &str) -> io::Result<bool> {
        let host = host_of(url);
        let waits = self.hosts.get(&host).map_or(0, |waiting| waiting.urls.len());
        if waits < HOST_HELD_MAX && self.held < HELD_MAX && !self.spool.has(&host) {
            self.hold(host, number, url.to_owned());
            return Ok(true);
        }
        if self.spool.bytes >= SPOOL_BYTES_MAX {
            return Ok(false);
        }
        self.spool.push(&host, number, url)?;
        Ok(true)
    }

    fn hold(&mut self, host: Host, number: u64, url: String) {
        let waiting = self.hosts.entry(host.clone()).or_insert_with(|| Waiting {
            urls: VecDeque::new(),
            open: 0,
            rested: Instant::now(),
            slot: None,
            is_placed: false,
        });
        waiting.urls.push_back((number, url));
        self.held += 1;
        self.place(&host);
    }

    /// Schedules a host for the time at which the host may be requested.
    fn place(&mut self, host: &Host) {
        let Some(waiting) = self.hosts.get_mut(host) else { return };
        if waiting.urls.is_empty() {
            if waiting.open == 0 {
                self.hosts.remove(host);
            }
            return;
        }
        if waiting.is_placed || waiting.open >= self.limits.host {
            return;
        }
        waiting.is_placed = true;
        let mut at = waiting.rested;
        if let Some(slot) = waiting.slot.and_then(|slot| self.slots.get_mut(&slot)) {
            if slot.open >= self.limits.slot {
                slot.waiting.push_back(host.clone());
                return;
            }
            at = at.max(slot.rested);
        }
        self.serial += 1;
        self.ready.insert((at, self.serial, host.clone()));
    }

    fn next(&mut self, now: Instant) -> io::Result<Next> {
        if self.spool.lines > 0 && (self.ready.is_empty() || self.held < HELD_MAX / 2) {
            self.refill()?;
        }
        loop {
            let Some((at, _, _)) = self.ready.first() else {
                let is_over = self.ended && self.held == 0 && self.spool.lines == 0 && self.open == 0;
                return Ok(if is_over { Next::End } else { Next::Wait(None) });
            };
            if *at > now {
                return Ok(Next::Wait(Some(*at)));
            }
            let (_, _, host) = self.ready.pop_first().expect("looked at above");
            let waiting = self.hosts.get_mut(&host).expect("what is placed is here");
            waiting.is_placed = false;
            let slot = waiting.slot.and_then(|key| Some((key, self.slots.get_mut(&key)?)));
            if let Some((_, slot)) = &slot
                && (slot.open >= self.limits.slot || slot.rested > now || waiting.rested > now)
            {
                self.place(&host);
                continue;
            }
            let slot = slot.map(|(key, slot)| {
                slot.open += 1;
                key
            });
            let (number, url) = waiting.urls.pop_front().expect("what is placed has some");
            waiting.open += 1;
            self.held -= 1;
            self.open += 1;
            self.place(&host);
            return Ok(Next::Url(Taken { number, url, host, slot }));
        }
    }

    fn at(&mut self, mut taken: Taken, slot: Option<SlotKey>, now: Instant) -> Option<Taken> {
        let Some(key) = slot.filter(|_| taken.slot.is_none()) else { return Some(taken) };
        let slot =
            self.slots.entry(key).or_insert_with(|| Slot { open: 0, rested: now, waiting: VecDeque::new() });
        let waiting = self.hosts.get_mut(&taken.host).expect("it is open");
        waiting.slot = Some(key);
        if slot.open < self.limits.slot && slot.rested <= now {
            slot.open += 1;
            taken.slot = Some(key);
            return Some(taken);
        }
        waiting.open -= 1;
        waiting.urls.push_front((taken.number, taken.url));
        self.held += 1;
        self.open -= 1;
        self.place(&taken.host);
        None
    }

    fn done(&mut self, taken: &Taken, host_rested: Instant, slot_rested: Instant) {
        self.open -= 1;
        if let Some(waiting) = self.hosts.get_mut(&taken.host) {
            waiting.open -= 1;
            waiting.rested = waiting.rested.max(host_rested);
        }
        if let Some((key, slot)) = taken.slot.and_then(|key| Some((key, self.slots.get_mut(&key)?))) {
            slot.open -= 1;
            slot.rested = slot.rested.max(slot_rested);
            let next = slot.waiting.pop_front();
            if next.is_none() && slot.open == 0 && slot.rested <= Instant::now() {
                self.slots.remove(&key);
            }
            if let Some(next) = next {
                if let Some(waiting) = self.hosts.get_mut(&next) {
                    waiting.is_placed = false;
                }
                self.place(&next);
            }
        }
        self.place(&taken.host);
    }

    /// Loads URLs from the files as far as there is room.
    fn refill(&mut self) -> io::Result<()> {
        for bucket in 0..BUCKETS {
            for _ in 0..HOST_HELD_MAX {
                if self.held >= HELD_MAX {
                    return Ok(());
                }
                let Some((_, host, _)) = self.spool.peek(bucket)? else { break };
                if self.hosts.get(host).is_some_and(|waiting| waiting.urls.len() >= HOST_HELD_MAX) {
                    break;
                }
                let (number, host, url) = self.spool.pop(bucket).expect("looked at above");
                self.hold(host, number, url);
            }
        }
        Ok(())
    }
}
