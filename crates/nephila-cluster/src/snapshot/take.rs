//! Makes snapshots of a partition while its owner works, and truncates the log behind them.
//!
//! The worker is involved twice for a few milliseconds: to begin a checkpoint, and to hard-link the files of the
//! checkpoint on its disk. Everything else (digests, sending, the pointer) happens here, on immutable files.
//!
//! Invariants: the pointer moves when everything that the pointer names is stored; the log is truncated when the
//! pointer has moved; files are removed when no snapshot of the pointer lists them. While the object store is
//! unreachable nothing is lost: the log grows, and the next snapshot takes everything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use futures_util::{StreamExt as _, TryStreamExt as _};
use nephila_core::key::Prefixes;
use nephila_core::state::{State as _, StateError};
use nephila_log::{Error, Fence, GroupLog, Groups, Wake};
use nephila_store::state::DiskState;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::{DAMAGED, epoch_of, pointed};
use super::{Listing, Manifest, Point, Pointed, Pointer, Snapshots, VERSION, folder, key, object_name};
use crate::alarm::Trouble;
use crate::objects::{Content, Sent};
use nephila_engine::settings;
use nephila_engine::worker::{INBOX, PartitionPort};

/// Maximum number of snapshots that a node makes concurrently.
pub(crate) const AT_ONCE: usize = 2;
/// Interval between checks whether a snapshot is due.
pub(super) const LOOK: Duration = Duration::from_secs(2);
/// Maximum number of files of a snapshot sent concurrently.
pub(super) const FILES_AT_ONCE: usize = 2;
/// Maximum number of checks whether the checkpoint is on disk, with [`FLUSH_LOOK`] between them.
pub(super) const FLUSH_LOOKS_MAX: u32 = 100;
pub(super) const FLUSH_LOOK: Duration = Duration::from_millis(100);
/// First backoff after a failed snapshot; doubles up to [`AGAIN_MAX`].
pub(super) const AGAIN_FIRST: Duration = Duration::from_secs(5);
pub(super) const AGAIN_MAX: Duration = Duration::from_secs(60);
/// Maximum number of tries to move the pointer when other writers change the record.
pub(super) const POINTER_TRIES_MAX: u32 = 5;
/// Maximum number of objects removed after one snapshot; the next removes the rest.
pub(super) const REMOVED_MAX: usize = 10_000;

/// Progress of a partition's log, for readers outside of the worker's thread.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The last durable group.
    pub(crate) synced: AtomicU64,
    /// Size in bytes, before compression, of the groups written since opening.
    pub(crate) written: AtomicU64,
    /// Groups before this one may be removed; none at 0.
    floor: AtomicU64,
    /// Number of snapshots wanted at once: the log is damaged, and snapshots make the damage harmless.
    pub(crate) urgent: AtomicU32,
}

/// A log that is kept from the older of two snapshots on, whatever its owner has on disk.
#[derive(Debug)]
pub(crate) struct RetainedLog {
    log: Box<dyn GroupLog>,
    progress: Arc<Progress>,
    /// Bytes appended, but not yet durable.
    appended: u64,
}

impl RetainedLog {
    pub(crate) fn new(log: Box<dyn GroupLog>, progress: Arc<Progress>) -> RetainedLog {
        progress.synced.store(log.synced(), Ordering::Release);
        RetainedLog { log, progress, appended: 0 }
    }

    /// Notes that everything appended is durable.
    pub(crate) fn note(&mut self) {
        self.progress.written.fetch_add(std::mem::take(&mut self.appended), Ordering::AcqRel);
        self.progress.synced.store(self.log.synced(), Ordering::Release);
    }
}

impl GroupLog for RetainedLog {
    fn append(&mut self, sequence: u64, group: &[u8]) -> Result<(), Error> {
        self.log.append(sequence, group)?;
        self.appended += group.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.log.sync()?;
        self.note();
        Ok(())
    }

    fn try_sync(&mut self) -> Result<bool, Error> {
        let is_synced = self.log.try_sync()?;
        if is_synced {
            self.note();
        }
        Ok(is_synced)
    }

    fn wake_with(&mut self, wake: Wake) {
        self.log.wake_with(wake);
    }

    fn go_back(&mut self) -> Result<(), Error> {
        self.appended = 0;
        self.log.go_back()
    }

    fn synced(&self) -> u64 {
        self.log.synced()
    }

    fn replay<'a>(&'a mut self, from: u64) -> Groups<'a> {
        let written = &self.progress.written;
        let groups = self.log.replay(from);
        Box::new(groups.inspect(|group| {
            if let Ok((_, bytes)) = group {
                written.fetch_add(bytes.len() as u64, Ordering::AcqRel);
            }
        }))
    }

    fn truncate_before(&mut self, sequence: u64) -> Result<(), Error> {
        match sequence.min(self.progress.floor.load(Ordering::Acquire)) {
            0 => Ok(()),
            floor => self.log.truncate_before(floor),
        }
    }

    fn bytes(&self) -> u64 {
        self.log.bytes()
    }
}

/// Makes the snapshots of one partition, during one epoch.
#[derive(Debug)]
pub(crate) struct Keeper {
    pub(crate) snapshots: Snapshots,
    pub(crate) partition: u32,
    pub(crate) prefixes: Prefixes,
    pub(crate) epoch: u64,
    pub(crate) node: String,
    /// Folder of the local copy whose files are sent.
    pub(crate) copy: PathBuf,
    pub(crate) port: PartitionPort<DiskState>,
    pub(crate) fence: Fence,
    pub(crate) progress: Arc<Progress>,
    pub(crate) pointed: Pointed,
    pub(crate) snapshot_permits: Arc<Semaphore>,
    pub(crate) every: Duration,
    pub(crate) log_bytes: u64,
    /// Digests of files that were sent or read, by name. Files never change while the partition is open.
    known: BTreeMap<String, Listing>,
    /// Files of the snapshots that the pointer names, by digest.
    stored: BTreeMap<String, Listing>,
    /// Objects that mark others as damaged.
    damaged: BTreeSet<String>,
}

impl Keeper {
    #[expect(clippy::too_many_arguments, reason = "each is one thing that an opening has")]
    pub(crate) fn new(
        snapshots: Snapshots,
        partition: u32,
        epoch: u64,
        node: &str,
        copy: PathBuf,
        port: PartitionPort<DiskState>,
        fence: Fence,
        progress: Arc<Progress>,
        pointed: Pointed,
        snapshot_permits: Arc<Semaphore>,
        settings: &settings::Cluster,
    ) -> Keeper {
        let prefixes = Prefixes::share(partition, snapshots.partitions);
        Keeper {
            snapshots,
            partition,
            prefixes,
            epoch,
            node: node.to_owned(),
            copy,
            port,
            fence,
            progress,
            pointed,
            snapshot_permits,
            every: settings.snapshot_every,
            log_bytes: settings.snapshot_log_bytes,
            known: BTreeMap::new(),
            stored: BTreeMap::new(),
            damaged: BTreeSet::new(),
        }
    }

    /// Makes snapshots until the partition is gone. Reports each result to `trouble`.
    pub(crate) async fn run(mut self, trouble: Arc<Trouble>) {
        let mut last = Instant::now();
        // The first of all partitions of a node would otherwise be due together.
        let mut due = self.every.mul_f64(f64::from(self.partition % 16 + 1) / 16.0);
        let mut written = 0;
        loop {
            sleep(LOOK).await;
            if self.fence.check().is_err() {
                return;
            }
            let latest = self.pointed.pointer.as_ref().map_or(0, |pointer| pointer.latest.sequence);
            let is_urgent = self.is_urgent();
            let is_new = self.progress.synced.load(Ordering::Acquire) > latest;
            let behind = self.progress.written.load(Ordering::Acquire) - written;
            if !is_urgent && !(is_new && (last.elapsed() >= due || behind >= self.log_bytes)) {
                continue;
            }
            let snapshot_permits = self.snapshot_permits.clone();
            let Ok(_permit) = snapshot_permits.acquire().await else { return };
            let wrote = self.progress.written.load(Ordering::Acquire);
            let mut rest = AGAIN_FIRST;
            loop {
                let taken = self.take().await;
                let taken = match taken {
                    Ok(Taken::Gone) => return,
                    Ok(Taken::Done) => Ok(()),
                    Err(error) => Err(error),
                };
                trouble.note(&format!("a snapshot of partition {}", self.partition), &taken).await;
                if taken.is_ok() {
                    break;
                }
                sleep(rest).await;
                rest = AGAIN_MAX.min(rest * 2);
                if self.fence.check().is_err() {
                    return;
                }
            }
            if is_urgent {
                self.progress.urgent.fetch_sub(1, Ordering::AcqRel);
            }
            (last, due, written) = (Instant::now(), self.every, wrote);
        }
    }

    /// Makes one snapshot.
    pub(crate) async fn take(&mut self) -> anyhow::Result<Taken> {
        if self.copy().await?.is_none() {
            return Ok(Taken::Gone);
        }
        self.learn().await?;
        let (copy, known) = (self.copy.clone(), self.known.clone());
        let listed = tokio::task::spawn_blocking(move || look(&copy, &known)).await.context("reading")??;
        let Some((listed, contents)) = listed else { return Ok(Taken::Done) };
        let files = self.send(contents).await?;
        let manifest = Manifest {
            version: VERSION,
            partition: self.partition,
            partitions: self.snapshots.partitions,
            epoch: self.epoch,
            sequence: listed.position.sequence,
            chain: listed.position.chain,
            inbox: listed.inboxes.get(INBOX).copied().unwrap_or(0),
            files,
        };
        let json = serde_json::to_vec(&manifest).context("a manifest as JSON")?;
        let content = Content::of(&json);
        let name = object_name(self.partition, self.epoch, &content, "json");
        self.snapshots.objects.put(&name, json.into()).await?;
        let point = Point {
            manifest: name,
            content,
            sequence: manifest.sequence,
            chain: manifest.chain,
            epoch: self.epoch,
            node: self.node.clone(),
            at_ms: now_ms(),
            bytes: manifest.files.iter().map(|file| file.content.bytes).sum(),
        };
        if !self.point_to(point).await? {
            return Ok(Taken::Gone);
        }
        self.stored = self.listed_by_pointer(Some(manifest)).await?;
        self.shorten().await;
        // Objects not removed now are removed after the next snapshot.
        _ = self.clean().await;
        Ok(Taken::Done)
    }

    /// Updates the local copy. None if the partition is gone.
    pub(crate) async fn copy(&self) -> anyhow::Result<Option<()>> {
        let mut target = None;
        for look in 0..FLUSH_LOOKS_MAX {
            let to = self.copy.clone();
            let (is_first, is_last) = (target.is_none(), look + 1 == FLUSH_LOOKS_MAX);
            let visited = self.port.visit(self.prefixes, move |state, _| {
                // One that is under way would be waited for; the next look is soon.
                if is_first && state.is_flushing() && look < FLUSH_LOOKS_MAX / 10 {
                    return Ok(None);
                }
                if is_first {
                    state.checkpoint_soon()?;
                }
                let target = state.position().sequence;
                Ok(Some((target, state.snapshot_durable(&to)?.position.sequence)))
            });
            let Some(visited) = visited.await else { return Ok(None) };
            let visited: Result<_, StateError> = visited;
            if let Some((position, copied)) = visited.context("copying the state")? {
                let target = *target.get_or_insert(position);
                if copied >= target || is_last {
                    break;
                }
            }
            sleep(FLUSH_LOOK).await;
        }
        Ok(Some(()))
    }

    /// Sends the missing files.
    pub(crate) async fn send(&mut self, files: Vec<(String, Content)>) -> anyhow::Result<Vec<Listing>> {
        let (stored, copy, objects) = (&self.stored, &self.copy, &self.snapshots.objects);
        let (partition, epoch, fence, damaged) = (self.partition, self.epoch, &self.fence, &self.damaged);
        let sends = files.into_iter().map(|(name, content)| async move {
            if let Some(there) = stored.get(&content.sha256) {
                return Ok::<_, anyhow::Error>(Listing { name, ..there.clone() });
            }
            fence.check()?;
            let object = object_name(partition, epoch, &content, "run");
            objects.put_file(&object, &copy.join(&name), Sent::default(), |_| {}).await?;
            let mark = format!("{object}{DAMAGED}");
            if damaged.contains(&mark) {
                // The mark is about this very object, which is whole again.
                objects.delete(&mark).await?;
            }
            Ok(Listing { name, object, content })
        });
        let sent: Vec<Listing> =
            futures_util::stream::iter(sends).buffered(FILES_AT_ONCE).try_collect().await?;
        self.known = sent.iter().map(|file| (file.name.clone(), file.clone())).collect();
        Ok(sent)
    }

    /// Moves the pointer. False if another node owns the partition by now.
    pub(crate) async fn point_to(&mut self, point: Point) -> anyhow::Result<bool> {
        for _ in 0..POINTER_TRIES_MAX {
            self.fence.check()?;
            let old = self.pointed.pointer.as_ref();
            if old.is_some_and(|old| old.latest.epoch > self.epoch) {
                return Ok(false);
            }
            if old.is_some_and(|old| old.latest.sequence >= point.sequence && !self.is_urgent()) {
                // Nothing has happened since.
                return Ok(true);
            }
            let new = Pointer::with(old, point.clone());
            let value = serde_json::to_vec(&new).context("a pointer as JSON")?;
            let key = key(self.partition);
            let put = self.snapshots.leases.put(&key, self.pointed.revision, value.into()).await;
            if let Some(revision) = put.context("moving the pointer")? {
                self.pointed = Pointed { revision: Some(revision), pointer: Some(new) };
                return Ok(true);
            }
            self.pointed = pointed(&*self.snapshots.leases, self.partition).await?;
        }
        anyhow::bail!("others move the pointer all the time")
    }

    pub(crate) fn is_urgent(&self) -> bool {
        self.progress.urgent.load(Ordering::Acquire) > 0
    }

    /// Determines the files that are already stored: listed by a valid snapshot, present with the right length, and
    /// never found damaged.
    pub(crate) async fn learn(&mut self) -> anyhow::Result<()> {
        if self.stored.is_empty() {
            self.stored = self.listed_by_pointer(None).await?;
        }
        let there: BTreeMap<String, u64> =
            self.snapshots.objects.list(&folder(self.partition)).await?.into_iter().collect();
        self.stored.retain(|_, file| {
            there.get(&file.object) == Some(&file.content.bytes)
                && !there.contains_key(&format!("{}{DAMAGED}", file.object))
        });
        self.damaged = there.into_keys().filter(|name| name.ends_with(DAMAGED)).collect();
        Ok(())
    }

    /// Files that the pointer's snapshots list, by digest. A lost manifest lists nothing: its files are sent again.
    pub(crate) async fn listed_by_pointer(
        &self,
        known: Option<Manifest>,
    ) -> anyhow::Result<BTreeMap<String, Listing>> {
        let mut stored = BTreeMap::new();
        let mut points = Vec::new();
        if let Some(Pointer { latest, before }) = &self.pointed.pointer {
            points.extend(before.clone());
            points.push(latest.clone());
        }
        for point in &points {
            let manifest = match &known {
                Some(known) if (known.epoch, known.sequence) == (point.epoch, point.sequence) => {
                    known.clone()
                }
                _ => match self.snapshots.manifest(self.partition, point).await {
                    Ok(manifest) => manifest,
                    Err(error) if error.is_lost() => continue,
                    Err(error) => return Err(error.into()),
                },
            };
            stored.extend(manifest.files.into_iter().map(|file| (file.content.sha256.clone(), file)));
        }
        Ok(stored)
    }

    /// Truncates the log behind the older of the two snapshots.
    pub(crate) async fn shorten(&self) {
        let floor = self.pointed.pointer.as_ref().and_then(Pointer::floor);
        let Some(floor) = floor else { return };
        self.progress.floor.store(floor, Ordering::Release);
        // If the truncation fails now, the next snapshot repeats it.
        _ = self.port.visit(self.prefixes, move |_, log| log.truncate_before(floor)).await;
    }

    /// Removes objects of this partition that no snapshot lists.
    pub(crate) async fn clean(&self) -> anyhow::Result<()> {
        let Some(pointer) = &self.pointed.pointer else { return Ok(()) };
        let mut kept: BTreeSet<&str> = self.stored.values().map(|file| &*file.object).collect();
        for point in pointer.before.iter().chain([&pointer.latest]) {
            kept.insert(&point.manifest);
        }
        let objects = &self.snapshots.objects;
        let listed = objects.list(&folder(self.partition)).await?;
        let gone = listed.iter().filter(|(name, _)| {
            // Objects of a later epoch belong to an owner that has replaced us.
            epoch_of(name).is_some_and(|epoch| epoch <= self.epoch) && !kept.contains(&**name)
        });
        for (name, _) in gone.take(REMOVED_MAX) {
            self.fence.check()?;
            objects.delete(name).await?;
        }
        Ok(())
    }
}

/// Result of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The pointer is up to date.
    Done,
    /// The partition is no longer ours.
    Gone,
}

pub(super) type Looked = Option<(nephila_store::state::Listed, Vec<(String, Content)>)>;

/// The files of a copy, with length and digest.
pub(super) fn look(copy: &std::path::Path, known: &BTreeMap<String, Listing>) -> anyhow::Result<Looked> {
    let Some(listed) = nephila_store::state::list(copy)? else { return Ok(None) };
    let mut files = Vec::with_capacity(listed.files.len());
    for name in &listed.files {
        let content = match known.get(name).filter(|_| name.ends_with(".run")) {
            Some(file) => file.content.clone(),
            None => Content::of_file(&copy.join(name))?,
        };
        files.push((name.clone(), content));
    }
    Ok(Some((listed, files)))
}

pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
