//! Connections kept for the next page of their host.
//!
//! A connection is kept under scheme, host, port *and* the address that was checked when it was dialled, so that it
//! never serves another name. It is kept for less time than servers keep theirs, and the oldest go first when there
//! are too many.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::Connection;

/// How often the pool looks for connections that were kept long enough.
const SWEEP_INTERVAL: Duration = Duration::from_millis(500);

/// Scheme and authority. The address is part of the connection; one origin has one address at a time here.
pub(crate) type Key = Arc<str>;

#[derive(Debug)]
pub(crate) struct Pool {
    idle_timeout: Duration,
    idle_max: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    by_key: HashMap<Key, Vec<Idle>>,
    /// In the order in which they were put here. An entry whose number is gone was taken out meanwhile.
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
        Arc::new(Pool { idle_timeout, idle_max, kept: Mutex::default() })
    }

    /// A kept connection to this origin, the newest first.
    pub(crate) fn take(&self, key: &str) -> Option<Connection> {
        let mut kept = self.lock();
        let list = kept.by_key.get_mut(key)?;
        let newest = list.pop()?;
        if list.is_empty() {
            kept.by_key.remove(key);
        }
        kept.count -= 1;
        // Too old, and not yet swept: the server may be closing it right now. The others here are older still.
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

    /// Closes the older half of what is kept: we are short of handles, and these are the ones we can do without.
    pub(crate) fn shed(&self) {
        let mut kept = self.lock();
        let keep = kept.count / 2;
        while kept.count > keep && remove_oldest(&mut kept) {}
    }

    /// Closes what is kept for these origins.
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
            // The order list may hold many entries of connections long taken; those cost nothing to drop.
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

/// Closes the connection that was put here first, if it is still here. False when the list is at its end.
fn remove_oldest(kept: &mut Kept) -> bool {
    let Some((_, key, number)) = kept.order.pop_front() else { return false };
    if let Some(list) = kept.by_key.get_mut(&key) {
        let before = list.len();
        list.retain(|idle| idle.number != number);
        kept.count -= before - list.len();
        if list.is_empty() {
            kept.by_key.remove(&key);
        }
    }
    true
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
