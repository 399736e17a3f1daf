//! Logs, inboxes and leases in memory: for tests, and for uses without durability.
//!
//! Invariant: they keep the promises of the other implementations as long as the [`Engine`] lives, fencing included.
//! Code that works here works there.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::{Error, Fence, GroupLog, Groups, Inbox, Item, Leases, Reply, Wake, check_key};

/// Maximum remembered ids of a partition's inbox for deduplication.
pub const IDS_MAX: usize = 65_536;

/// State shared by all parts, like a server.
#[derive(Clone, Debug)]
pub struct Engine(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    lease_ttl: Duration,
}

#[derive(Debug, Default)]
struct State {
    logs: HashMap<u32, Groupings>,
    inboxes: HashMap<u32, Messages>,
    leases: BTreeMap<String, (Item, Instant)>,
    records: BTreeMap<String, Item>,
    revision: u64,
}

/// One partition's log.
#[derive(Debug, Default)]
struct Groupings {
    groups: BTreeMap<u64, Bytes>,
    epoch: u64,
    /// The opening that may write.
    claim: u64,
}

/// One partition's inbox.
#[derive(Debug, Default)]
struct Messages {
    messages: VecDeque<(u64, Bytes)>,
    last: u64,
    ids: Ids,
    arrived: Arc<Notify>,
}

/// Recent ids, with the positions of their messages.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    positions: HashMap<u128, u64>,
    order: VecDeque<u128>,
}

impl Ids {
    pub(crate) fn position(&self, id: u128) -> Option<u64> {
        self.positions.get(&id).copied()
    }

    pub(crate) fn insert(&mut self, id: u128, position: u64) {
        if self.positions.insert(id, position).is_none() {
            self.order.push_back(id);
        }
        if self.order.len() > IDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.positions.remove(&oldest);
        }
    }
}

impl Engine {
    /// Creates an empty engine with this time to live for leases.
    pub fn new(lease_ttl: Duration) -> Self {
        Engine(Arc::new(Shared { state: Mutex::default(), lease_ttl }))
    }

    /// Opens a partition's log for writing. The previous owner is fenced out.
    pub fn log(&self, partition: u32, epoch: u64, fence: Fence) -> Result<MemoryLog, Error> {
        fence.check()?;
        let mut state = self.state();
        let log = state.logs.entry(partition).or_default();
        if log.epoch > epoch {
            let text = format!("the log is of epoch {}, this owner of epoch {epoch}", log.epoch);
            return Err(Error::Fenced(text));
        }
        (log.epoch, log.claim) = (epoch, log.claim + 1);
        let synced = log.groups.keys().next_back().copied().unwrap_or(0);
        let claim = log.claim;
        drop(state);
        Ok(MemoryLog { engine: self.clone(), partition, claim, fence, synced, appended: Vec::new() })
    }

    /// The inboxes of all partitions.
    pub fn inbox(&self) -> MemoryInbox {
        MemoryInbox(self.clone())
    }

    /// Leases and records.
    pub fn leases(&self) -> MemoryLeases {
        MemoryLeases(self.clone())
    }

    /// Removes a group, for tests of gap detection.
    pub fn lose_group(&self, partition: u32, sequence: u64) {
        if let Some(log) = self.state().logs.get_mut(&partition) {
            log.groups.remove(&sequence);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A partition's log in memory.
#[derive(Debug)]
pub struct MemoryLog {
    engine: Engine,
    partition: u32,
    claim: u64,
    fence: Fence,
    synced: u64,
    appended: Vec<(u64, Bytes)>,
}

impl MemoryLog {
    /// Runs a closure on the log, if this owner still holds the log.
    fn with<T>(&self, act: impl FnOnce(&mut Groupings) -> T) -> Result<T, Error> {
        self.fence.check()?;
        let mut state = self.engine.state();
        let log = state.logs.entry(self.partition).or_default();
        if log.claim == self.claim {
            Ok(act(log))
        } else {
            Err(Error::Fenced("another owner opened the log".to_owned()))
        }
    }
}

impl GroupLog for MemoryLog {
    fn append(&mut self, sequence: u64, group: &[u8]) -> Result<(), Error> {
        self.with(|_| ())?;
        let last = self.appended.last().map_or(self.synced, |(sequence, _)| *sequence);
        if sequence == 0 || (last != 0 && sequence != last + 1) {
            return Err(Error::OutOfOrder { last, found: sequence });
        }
        self.appended.push((sequence, Bytes::copy_from_slice(group)));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        let appended = std::mem::take(&mut self.appended);
        let last = appended.last().map_or(self.synced, |(sequence, _)| *sequence);
        self.with(|log| log.groups.extend(appended))?;
        self.synced = last;
        Ok(())
    }

    fn try_sync(&mut self) -> Result<bool, Error> {
        self.sync().map(|()| true)
    }

    /// Nothing is ever in flight.
    fn wake_with(&mut self, _wake: Wake) {}

    fn go_back(&mut self) -> Result<(), Error> {
        self.appended.clear();
        self.with(|_| ())
    }

    fn synced(&self) -> u64 {
        self.synced
    }

    fn replay<'a>(&'a mut self, from: u64) -> Groups<'a> {
        let groups = match self.with(|log| log.groups.clone()) {
            Ok(groups) => groups,
            Err(error) => return Box::new(std::iter::once(Err(error))),
        };
        let (mut seen, mut done) = (None::<u64>, false);
        let last = groups.keys().next_back().copied().unwrap_or(0);
        let missing = self.synced > last && from <= self.synced;
        let end = missing.then_some(Err(Error::Gap { expected: last + 1, found: 0 }));
        let groups = groups.into_iter().filter_map(move |(sequence, group)| {
            let gap = seen.filter(|seen| seen + 1 != sequence).map(|seen| seen + 1);
            seen = Some(sequence);
            if done {
                return None;
            }
            if let Some(expected) = gap {
                done = true;
                return Some(Err(Error::Gap { expected, found: sequence }));
            }
            (sequence >= from).then(|| Ok((sequence, group.to_vec())))
        });
        Box::new(groups.chain(end))
    }

    fn truncate_before(&mut self, sequence: u64) -> Result<(), Error> {
        let keep = sequence.min(self.synced);
        self.with(|log| log.groups = log.groups.split_off(&keep))
    }

    fn bytes(&self) -> u64 {
        self.with(|log| log.groups.values().map(|group| group.len() as u64).sum()).unwrap_or(0)
    }
}

/// Inboxes in memory.
#[derive(Clone, Debug)]
pub struct MemoryInbox(Engine);

impl Inbox for MemoryInbox {
    fn publish(&self, partition: u32, id: u128, message: Bytes) -> Reply<'_, u64> {
        Box::pin(async move {
            let mut state = self.0.state();
            let inbox = state.inboxes.entry(partition).or_default();
            if let Some(position) = inbox.ids.position(id) {
                return Ok(position);
            }
            inbox.last += 1;
            inbox.messages.push_back((inbox.last, message));
            inbox.ids.insert(id, inbox.last);
            inbox.arrived.notify_waiters();
            Ok(inbox.last)
        })
    }

    fn read(
        &self,
        partition: u32,
        from: u64,
        messages_max: usize,
        wait: Duration,
    ) -> Reply<'_, Vec<(u64, Bytes)>> {
        Box::pin(async move {
            let end = Instant::now() + wait;
            let arrived = self.0.state().inboxes.entry(partition).or_default().arrived.clone();
            loop {
                // Registered before the read, so that a message between read and wait is not missed.
                let mut coming = std::pin::pin!(arrived.notified());
                coming.as_mut().enable();
                let read: Vec<(u64, Bytes)> = {
                    let state = self.0.state();
                    let messages =
                        state.inboxes.get(&partition).into_iter().flat_map(|inbox| &inbox.messages);
                    messages.filter(|(position, _)| *position > from).take(messages_max).cloned().collect()
                };
                if !read.is_empty() || messages_max == 0 || timeout_at(end, coming).await.is_err() {
                    return Ok(read);
                }
            }
        })
    }

    fn truncate_before(&self, partition: u32, position: u64) -> Reply<'_, ()> {
        Box::pin(async move {
            if let Some(inbox) = self.0.state().inboxes.get_mut(&partition) {
                inbox.messages.retain(|(at, _)| *at >= position);
            }
            Ok(())
        })
    }
}

/// Leases and records in memory.
#[derive(Clone, Debug)]
pub struct MemoryLeases(Engine);

impl MemoryLeases {
    fn lease(&self, key: &str, expected: Option<u64>, value: Bytes) -> Result<Option<u64>, Error> {
        check_key(key)?;
        let mut state = self.0.state();
        let now = Instant::now();
        state.leases.retain(|_, (_, end)| *end > now);
        if state.leases.get(key).map(|(item, _)| item.revision) != expected {
            return Ok(None);
        }
        state.revision += 1;
        let revision = state.revision;
        let item = Item { key: key.to_owned(), value, revision };
        state.leases.insert(key.to_owned(), (item, now + self.0.0.lease_ttl));
        Ok(Some(revision))
    }

    /// Restores the previous record after a failed write to disk.
    pub(crate) fn restore(&self, key: &str, before: Option<Item>) {
        let mut state = self.0.state();
        match before {
            Some(item) => {
                state.revision = state.revision.max(item.revision);
                state.records.insert(key.to_owned(), item);
            }
            None => _ = state.records.remove(key),
        }
    }

    pub(crate) fn record_now(&self, key: &str) -> Option<Item> {
        self.0.state().records.get(key).cloned()
    }

    pub(crate) fn records_now(&self, prefix: &str) -> Vec<Item> {
        let state = self.0.state();
        state.records.values().filter(|item| item.key.starts_with(prefix)).cloned().collect()
    }

    pub(crate) fn put_now(
        &self,
        key: &str,
        expected: Option<u64>,
        value: Bytes,
    ) -> Result<Option<u64>, Error> {
        check_key(key)?;
        let mut state = self.0.state();
        if state.records.get(key).map(|item| item.revision) != expected {
            return Ok(None);
        }
        state.revision += 1;
        let revision = state.revision;
        state.records.insert(key.to_owned(), Item { key: key.to_owned(), value, revision });
        Ok(Some(revision))
    }
}

impl Leases for MemoryLeases {
    fn acquire<'a>(&'a self, key: &'a str, value: Bytes) -> Reply<'a, Option<u64>> {
        Box::pin(async move { self.lease(key, None, value) })
    }

    fn renew<'a>(&'a self, key: &'a str, revision: u64, value: Bytes) -> Reply<'a, Option<u64>> {
        Box::pin(async move { self.lease(key, Some(revision), value) })
    }

    fn release<'a>(&'a self, key: &'a str, revision: u64) -> Reply<'a, ()> {
        Box::pin(async move {
            let mut state = self.0.state();
            if state.leases.get(key).is_some_and(|(item, _)| item.revision == revision) {
                state.leases.remove(key);
            }
            Ok(())
        })
    }

    fn held(&self) -> Reply<'_, Vec<Item>> {
        Box::pin(async move {
            let now = Instant::now();
            let state = self.0.state();
            Ok(state.leases.values().filter(|(_, end)| *end > now).map(|(item, _)| item.clone()).collect())
        })
    }

    fn records<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Item>> {
        Box::pin(async move { Ok(self.records_now(prefix)) })
    }

    fn record<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Item>> {
        Box::pin(async move { Ok(self.record_now(key)) })
    }

    fn put<'a>(&'a self, key: &'a str, expected: Option<u64>, value: Bytes) -> Reply<'a, Option<u64>> {
        Box::pin(async move { self.put_now(key, expected, value) })
    }
}
