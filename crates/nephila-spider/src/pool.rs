//! Pool of idle connections for the next page of their host.
//!
//! A connection is kept under scheme, host, port *and* the address that was checked when dialling, so a connection
//! never serves another name. The idle timeout is shorter than that of servers. The oldest connections are evicted
//! first when there are too many, here or at one address.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use nephila_core::frontier::slot::SlotKey;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::live::{Key, Live, LiveCounts};

/// Interval between two sweeps for expired connections.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// Open connections, without and with HTTP/2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Connections that serve a request.
    pub busy: [usize; 2],
    /// Connections that are kept for the next page of their host.
    pub idle: [usize; 2],
}

#[derive(Debug)]
pub(crate) struct Pool {
    idle_timeout: Duration,
    idle_max: usize,
    kept: Mutex<Kept>,
    live: LiveCounts,
}

#[derive(Debug, Default)]
struct Kept {
    by_key: HashMap<Key, Vec<Idle>>,
    /// In order of insertion. An entry whose number is gone was taken meanwhile.
    order: VecDeque<(Instant, Key, u64)>,
    next: u64,
    count: usize,
    sweeping: bool,
}

#[derive(Debug)]
struct Idle {
    number: u64,
    since: Instant,
    connection: Connection,
}

impl Pool {
    pub(crate) fn new(idle_timeout: Duration, idle_max: usize) -> Arc<Self> {
        Arc::new(Pool { idle_timeout, idle_max, kept: Mutex::default(), live: LiveCounts::default() })
    }

    /// Counts a connection to this address.
    pub(crate) fn count(&self, address: IpAddr, is_h2: bool) -> Live {
        Live::new(SlotKey::of(address), is_h2, &self.live)
    }

    /// The connections that are open and of these the idle ones. Visits every idle connection.
    pub(crate) fn connections(&self) -> Connections {
        let mut idle = [0; 2];
        for kept in self.lock().by_key.values().flatten() {
            idle[usize::from(kept.connection.is_h2())] += 1;
        }
        let busy = |protocol: usize, open: usize| open.saturating_sub(idle[protocol]);
        let [http1, http2] = self.live.all();
        Connections { busy: [busy(0, http1), busy(1, http2)], idle }
    }

    /// Closes kept connections to an address, the oldest first, until one more may be opened there, or none is left.
    /// Returns their origins.
    pub(crate) fn make_room(&self, address: IpAddr, connections_max: usize) -> Vec<Key> {
        let slot = SlotKey::of(address);
        let open = || self.live.at(slot);
        let mut closed = Vec::new();
        if open() < connections_max {
            return closed;
        }
        let mut kept = self.lock();
        let there = |idle: &Idle| SlotKey::of(idle.connection.address.ip()) == slot;
        let mut oldest: Vec<(u64, Key)> = kept
            .by_key
            .iter()
            .flat_map(|(key, list)| {
                list.iter().filter(|idle| there(idle)).map(|idle| (idle.number, key.clone()))
            })
            .collect();
        oldest.sort_unstable();
        for (number, key) in oldest {
            if open() < connections_max {
                break;
            }
            remove(&mut kept, &key, number);
            closed.push(key);
        }
        closed
    }

    /// Takes a kept connection to this origin, the newest first.
    pub(crate) fn take(&self, key: &str) -> Option<Connection> {
        let mut kept = self.lock();
        let list = kept.by_key.get_mut(key)?;
        let newest = list.pop()?;
        if list.is_empty() {
            kept.by_key.remove(key);
        }
        kept.count -= 1;
        // Too old, and not yet swept: the server may be closing the connection right now. The others here are older
        // still.
        (newest.since.elapsed() < self.idle_timeout).then_some(newest.connection)
    }

    /// Keeps a connection for later.
    pub(crate) fn put(self: &Arc<Self>, key: Key, connection: Connection) {
        if self.idle_max == 0 || self.idle_timeout.is_zero() {
            return;
        }
        let now = Instant::now();
        let mut kept = self.lock();
        let number = kept.next;
        kept.next += 1;
        kept.order.push_back((now, key.clone(), number));
        kept.by_key.entry(key).or_default().push(Idle { number, since: now, connection });
        kept.count += 1;
        self.sweep(&mut kept, now);
        if !kept.sweeping {
            kept.sweeping = true;
            tokio::spawn(sweep_until_empty(Arc::downgrade(self)));
        }
    }

    /// Closes the older half of the kept connections, to free file handles when they run short.
    pub(crate) fn shed(&self) {
        let mut kept = self.lock();
        let keep = kept.count / 2;
        while kept.count > keep && remove_oldest(&mut kept) {}
    }

    /// Closes the kept connections to these origins.
    pub(crate) fn close(&self, which: impl Fn(&str) -> bool) {
        let mut kept = self.lock();
        let mut closed = 0;
        kept.by_key.retain(|key, list| {
            let stays = !which(key);
            closed += if stays { 0 } else { list.len() };
            stays
        });
        kept.count -= closed;
    }

    fn sweep(&self, kept: &mut Kept, now: Instant) {
        while let Some((since, _, _)) = kept.order.front() {
            // The order list may hold many entries of connections long taken, which cost nothing to drop.
            if kept.count <= self.idle_max && now.duration_since(*since) < self.idle_timeout {
                break;
            }
            remove_oldest(kept);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().expect("nobody panics while holding the pool")
    }
}

/// Closes the oldest connection, if it is still here. Returns false at the end of the list.
fn remove_oldest(kept: &mut Kept) -> bool {
    let Some((_, key, number)) = kept.order.pop_front() else { return false };
    remove(kept, &key, number);
    true
}

/// Closes this connection, if still kept.
fn remove(kept: &mut Kept, key: &Key, number: u64) {
    if let Some(list) = kept.by_key.get_mut(key) {
        let before = list.len();
        list.retain(|idle| idle.number != number);
        kept.count -= before - list.len();
        if list.is_empty() {
            kept.by_key.remove(key);
        }
    }
}

async fn sweep_until_empty(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        let mut kept = pool.lock();
        pool.sweep(&mut kept, Instant::now());
        if kept.order.is_empty() {
            kept.sweeping = false;
            return;
        }
    }
}
