//! Logs, inboxes and records in the files of one machine, on [`Journal`].
//!
//! Leases live in memory: on one machine the process holds them, and they end with the process. The lock of the crawl,
//! not this module, decides which process may open a folder.
//!
//! Invariants: data reported as durable is synced; after a crash, opening recovers exactly that data.

mod away;
mod pool;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use nephila_store::disk::Disk;
use nephila_store::journal::{Journal, Marker, Recovered, Settings};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::memory::{self, Ids, MemoryLeases};
use crate::{Error, Fence, GroupLog, Groups, Inbox, Item, Leases, Reply, Wake};
use away::Away;

/// A segment of an inbox or of the records beyond this size is followed by a new segment.
const SEGMENT_BYTES_MAX: u64 = 4 << 20;
/// Changes of records after which all records are written again, so that older files can be removed.
const CHANGES_MAX: u64 = 1_024;

/// A partition's log in a folder.
#[derive(Debug)]
pub struct LocalLog {
    journal: Away,
    fence: Fence,
    /// Last durable group and bytes, as of the last time the journal was here.
    synced: u64,
    bytes: u64,
    /// Stores apart from the journal how far the log was durable.
    marker: Option<Marker>,
}

impl LocalLog {
    /// Opens the log in this folder, or creates an empty log. A torn end is cut.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        settings: Settings,
        fence: Fence,
    ) -> Result<(LocalLog, Recovered), Error> {
        let (journal, recovered) = Journal::open(disk, folder, settings)?;
        Ok((LocalLog::new(journal, fence), recovered))
    }

    /// Creates a log from an open journal.
    pub fn new(journal: Journal, fence: Fence) -> Self {
        let (synced, bytes) = (journal.synced(), journal.bytes());
        LocalLog { journal: Away::new(journal), fence, synced, bytes, marker: None }
    }

    /// Adds a marker, which stores how far the log was durable.
    pub fn marked(mut self, mut marker: Marker) -> Self {
        marker.synced(self.synced);
        self.marker = Some(marker);
        self
    }

    /// Updates `synced` and `bytes` from the journal, for use while a sync is running.
    fn note(&mut self) {
        if let Ok(journal) = self.journal.home() {
            (self.synced, self.bytes) = (journal.synced(), journal.bytes());
            if let Some(marker) = &mut self.marker {
                marker.synced(self.synced);
            }
        }
    }
}

impl GroupLog for LocalLog {
    fn append(&mut self, sequence: u64, group: &[u8]) -> Result<(), Error> {
        self.fence.check()?;
        Ok(self.journal.home()?.append(sequence, group)?)
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.fence.check()?;
        let synced = self.journal.sync();
        self.note();
        synced
    }

    fn try_sync(&mut self) -> Result<bool, Error> {
        self.fence.check()?;
        let synced = self.journal.try_sync()?;
        if synced {
            self.note();
        }
        Ok(synced)
    }

    fn wake_with(&mut self, wake: Wake) {
        self.journal.wake_with(wake);
    }

    fn go_back(&mut self) -> Result<(), Error> {
        self.fence.check()?;
        self.journal.go_back()?;
        self.note();
        Ok(())
    }

    fn synced(&self) -> u64 {
        self.synced
    }

    fn replay<'a>(&'a mut self, from: u64) -> Groups<'a> {
        match self.fence.check().and_then(|()| self.journal.home()) {
            Ok(journal) => Box::new(journal.replay(from).map(|group| group.map_err(Error::from))),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    fn truncate_before(&mut self, sequence: u64) -> Result<(), Error> {
        self.fence.check()?;
        if let Some(marker) = &mut self.marker {
            marker.checkpoint(sequence.saturating_sub(1));
        }
        self.journal.home()?.truncate_before(sequence)?;
        self.note();
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Inboxes in a folder, with a subfolder for each partition. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LocalInbox(Arc<Boxes>);

#[derive(Debug)]
struct Boxes {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    open: Mutex<HashMap<u32, Arc<OneBox>>>,
}

#[derive(Debug)]
struct OneBox {
    kept: Mutex<Kept>,
    arrived: Notify,
}

#[derive(Debug)]
struct Kept {
    journal: Journal,
    ids: Ids,
}

impl LocalInbox {
    /// Inboxes in this folder.
    pub fn new(disk: Arc<dyn Disk>, folder: &Path) -> Self {
        LocalInbox(Arc::new(Boxes { disk, folder: folder.to_owned(), open: Mutex::default() }))
    }

    fn inbox(&self, partition: u32) -> Result<Arc<OneBox>, Error> {
        let mut open = lock(&self.0.open);
        if let Some(found) = open.get(&partition) {
            return Ok(found.clone());
        }
        let folder = self.0.folder.join(partition.to_string());
        let settings = Settings { segment_bytes_max: SEGMENT_BYTES_MAX, keep_bytes: 0 };
        let (journal, _) = Journal::open(self.0.disk.clone(), &folder, settings)?;
        let mut ids = Ids::default();
        for message in journal.replay(journal.synced().saturating_sub(memory::IDS_MAX as u64)) {
            let (position, bytes) = message?;
            ids.insert(split(&bytes)?.0, position);
        }
        let made = Arc::new(OneBox { kept: Mutex::new(Kept { journal, ids }), arrived: Notify::new() });
        open.insert(partition, made.clone());
        Ok(made)
    }

    fn publish_now(&self, partition: u32, id: u128, message: &[u8]) -> Result<u64, Error> {
        let inbox = self.inbox(partition)?;
        let mut kept = lock(&inbox.kept);
        if let Some(position) = kept.ids.position(id) {
            return Ok(position);
        }
        let position = kept.journal.synced() + 1;
        let mut bytes = id.to_be_bytes().to_vec();
        bytes.extend(message);
        let written = kept.journal.append(position, &bytes).and_then(|()| kept.journal.sync());
        if let Err(error) = written {
            // The message was not reported as durable, so it may be dropped; the sender retries.
            kept.journal.go_back()?;
            return Err(error.into());
        }
        kept.ids.insert(id, position);
        inbox.arrived.notify_waiters();
        Ok(position)
    }

    fn read_now(&self, partition: u32, from: u64, messages_max: usize) -> Result<Vec<(u64, Bytes)>, Error> {
        let inbox = self.inbox(partition)?;
        let kept = lock(&inbox.kept);
        let mut read = Vec::new();
        for message in kept.journal.replay(from.saturating_add(1)).take(messages_max) {
            let (position, bytes) = message?;
            read.push((position, split(&bytes)?.1));
        }
        Ok(read)
    }
}

/// Splits a stored message into its id and its content.
fn split(bytes: &[u8]) -> Result<(u128, Bytes), Error> {
    let (id, message) =
        bytes.split_first_chunk().ok_or_else(|| Error::Damaged("a message without an id".to_owned()))?;
    Ok((u128::from_be_bytes(*id), Bytes::copy_from_slice(message)))
}

/// Runs disk access on a thread that may block.
async fn on_disk<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(act).await.unwrap_or(Err(Error::Broken))
}

impl Inbox for LocalInbox {
    fn publish(&self, partition: u32, id: u128, message: Bytes) -> Reply<'_, u64> {
        let inboxes = self.clone();
        Box::pin(on_disk(move || inboxes.publish_now(partition, id, &message)))
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
            let inboxes = self.clone();
            let inbox = on_disk(move || inboxes.inbox(partition)).await?;
            loop {
                // Registered before the read, so that a message between read and wait is not missed.
                let mut coming = std::pin::pin!(inbox.arrived.notified());
                coming.as_mut().enable();
                let inboxes = self.clone();
                let read = on_disk(move || inboxes.read_now(partition, from, messages_max)).await?;
                if !read.is_empty() || messages_max == 0 || timeout_at(end, coming).await.is_err() {
                    return Ok(read);
                }
            }
        })
    }

    fn truncate_before(&self, partition: u32, position: u64) -> Reply<'_, ()> {
        let inboxes = self.clone();
        Box::pin(on_disk(move || {
            let inbox = inboxes.inbox(partition)?;
            lock(&inbox.kept).journal.truncate_before(position)?;
            Ok(())
        }))
    }
}

/// Records in a folder, leases in memory. Cheap to clone.
#[derive(Clone, Debug)]
pub struct LocalLeases {
    now: MemoryLeases,
    journal: Arc<Mutex<Changes>>,
}

#[derive(Debug)]
struct Changes {
    journal: Journal,
    since_all: u64,
}

impl LocalLeases {
    /// Opens the records in this folder. `lease_ttl` is the time to live of a lease.
    pub fn open(disk: Arc<dyn Disk>, folder: &Path, lease_ttl: Duration) -> Result<Self, Error> {
        let settings = Settings { segment_bytes_max: SEGMENT_BYTES_MAX, keep_bytes: 0 };
        let (journal, _) = Journal::open(disk, folder, settings)?;
        let now = memory::Engine::new(lease_ttl).leases();
        let mut since_all = 0;
        for change in journal.replay(1) {
            let item = item_of(&change?.1)?;
            now.restore(&item.key.clone(), Some(item));
            since_all += 1;
        }
        Ok(LocalLeases { now, journal: Arc::new(Mutex::new(Changes { journal, since_all })) })
    }

    fn put_now(&self, key: &str, expected: Option<u64>, value: Bytes) -> Result<Option<u64>, Error> {
        let mut changes = lock(&self.journal);
        let before = self.now.record_now(key);
        let Some(revision) = self.now.put_now(key, expected, value)? else { return Ok(None) };
        if let Err(error) = changes.keep(&self.now, key) {
            self.now.restore(key, before);
            return Err(error);
        }
        Ok(Some(revision))
    }
}

impl Changes {
    /// Makes the record of this key durable.
    fn keep(&mut self, now: &MemoryLeases, key: &str) -> Result<(), Error> {
        let item = now.record_now(key).expect("it was put just now");
        let first = self.journal.synced() + 1;
        let is_all = self.since_all >= CHANGES_MAX;
        let items = if is_all { now.records_now("") } else { vec![item] };
        let written = self
            .journal
            .append_all(
                (first..)
                    .zip(items.iter().map(bytes_of))
                    .collect::<Vec<_>>()
                    .iter()
                    .map(|(s, b)| (*s, &b[..])),
            )
            .and_then(|()| self.journal.sync());
        if let Err(error) = written {
            self.journal.go_back()?;
            return Err(error.into());
        }
        self.since_all += 1;
        if is_all {
            // All records are stored from `first` on. Older ones may be removed, and do no harm if they stay.
            self.since_all = 0;
            _ = self.journal.truncate_before(first);
        }
        Ok(())
    }
}

/// Encodes a record: revision, length of the key, key, value.
fn bytes_of(item: &Item) -> Vec<u8> {
    let mut bytes = item.revision.to_be_bytes().to_vec();
    bytes.extend(u16::try_from(item.key.len()).expect("keys are short").to_be_bytes());
    bytes.extend(item.key.as_bytes());
    bytes.extend(&item.value);
    bytes
}

fn item_of(bytes: &[u8]) -> Result<Item, Error> {
    let read = || {
        let (revision, rest) = bytes.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let (key, value) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
        let key = std::str::from_utf8(key).ok()?.to_owned();
        Some(Item { key, value: Bytes::copy_from_slice(value), revision: u64::from_be_bytes(*revision) })
    };
    read().ok_or_else(|| Error::Damaged("a record cannot be read".to_owned()))
}

impl Leases for LocalLeases {
    fn acquire<'a>(&'a self, key: &'a str, value: Bytes) -> Reply<'a, Option<u64>> {
        self.now.acquire(key, value)
    }

    fn renew<'a>(&'a self, key: &'a str, revision: u64, value: Bytes) -> Reply<'a, Option<u64>> {
        self.now.renew(key, revision, value)
    }

    fn release<'a>(&'a self, key: &'a str, revision: u64) -> Reply<'a, ()> {
        self.now.release(key, revision)
    }

    fn held(&self) -> Reply<'_, Vec<Item>> {
        self.now.held()
    }

    fn records<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Item>> {
        self.now.records(prefix)
    }

    fn record<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Item>> {
        self.now.record(key)
    }

    fn put<'a>(&'a self, key: &'a str, expected: Option<u64>, value: Bytes) -> Reply<'a, Option<u64>> {
        let (leases, key) = (self.clone(), key.to_owned());
        Box::pin(on_disk(move || leases.put_now(&key, expected, value)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
