//! Combines a partition's state and its log, or reports why they do not fit.
//!
//! The state comes from this machine if the log still reaches back to that state, otherwise from the latest snapshot.
//! The log is compared with all external knowledge about the log: the snapshots' pointer, and the records of its
//! owners. A log that ends earlier, or does not follow, has lost entries that the servers had acknowledged. If a state
//! has all of them, a new log starts behind that state; otherwise the result is a [`Doubt`].
//!
//! Invariants: a partition with a doubt is opened only once a person has accepted the loss; until then, nothing is
//! removed that could help to recover the lost entries.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use nephila_core::entry::ChainError;
use nephila_core::key::Prefixes;
use nephila_core::state::{State as _, StateError};
use nephila_log::jetstream::{JetLog, Watch};
use nephila_log::{Fence, GroupLog};
use nephila_store::state::{DiskState, is_state};

use super::super::alarm::Doubt;
use super::super::events::Start;
use super::super::snapshot::{self, Pointed, Pointer, Progress, RetainedLog};
use super::super::tails::Recorded;
use super::super::{Node, heal};
use super::{States, folder};
use nephila_engine::worker::{self, Part};

/// Number of snapshots that make a hole in the log harmless: the log is kept from the older of two on.
pub(crate) const SNAPSHOTS_PAST_A_HOLE: u32 = 2;

/// A partition that can be opened.
pub(crate) struct FoundPartition {
    pub(crate) part: Part<DiskState>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) watch: Watch,
    pub(crate) pointed: Pointed,
    /// Stream position of our claim of the log: behind everything written before.
    pub(crate) claim: u64,
    /// Where publishing of events continues.
    pub(crate) start: Start,
}

/// Known facts about a log.
pub(crate) struct Facts<'a> {
    partition: u32,
    stream: String,
    /// The first group that is kept, and the last.
    first: u64,
    synced: u64,
    /// The last group seen by earlier owners.
    known: u64,
    /// The recorded progress of published events.
    told: Recorded,
    pointer: Option<&'a Pointer>,
}

/// Result of a try.
pub(crate) enum Tried {
    Ready(Box<Part<DiskState>>),
    /// The local state is unusable, for this reason; a snapshot may help.
    Unfit(String),
    /// The log does not reach back to the local state; a snapshot may help.
    TooOld(String),
    Doubt(String),
}

/// See the module.
pub(crate) async fn find(
    node: &Node,
    states: &States,
    fence: &Fence,
    partition: u32,
    epoch: u64,
) -> anyhow::Result<FoundPartition> {
    let leases = &*node.cluster.leases;
    let (pointed, heal) =
        tokio::try_join!(snapshot::pointed(leases, partition), heal::read(leases, partition))?;
    let known = node.tails.known(leases, partition, heal.epoch).await?;
    let told = node.tails.told(partition, heal.epoch);
    let folder = folder(node, partition);
    let tables = folder.join("tables");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut may_restore = node.snapshots.is_some();
    loop {
        let mut log = node.cluster.engine.log(partition, epoch, fence.clone()).await.context("its log")?;
        let (watch, progress, claim) = (log.watch(), Arc::new(Progress::default()), log.position());
        let (first, synced) = (log.first().await.context("its log")?, log.synced());
        // A log that was begun anew may be of another history than snapshots from before.
        let is_of_this =
            |pointer: &&Pointer| pointer.latest.epoch >= heal.epoch || pointer.latest.sequence <= synced;
        let facts = Facts {
            partition,
            stream: format!(
                "NEPH_{}_{}",
                node.settings.cluster.name,
                partition % node.settings.cluster.streams
            ),
            first,
            synced,
            known,
            told,
            pointer: pointed.pointer.as_ref().filter(is_of_this),
        };
        let tried = match facts.is_too_short() {
            Some(text) => Tried::Doubt(text),
            // Nothing lies here: the snapshot is there sooner than the log is folded.
            None if may_restore && facts.pointer.is_some() && !is_state(&tables) => {
                Tried::TooOld("nothing lies here".into())
            }
            None => try_local(node, states, &facts, &tables, log, progress.clone()).await?,
        };
        match tried {
            Tried::Ready(part) => {
                let start = Start::of(told, first, synced);
                return Ok(FoundPartition { part: *part, progress, watch, pointed, claim, start });
            }
            Tried::Unfit(why) | Tried::TooOld(why) if may_restore && facts.pointer.is_some() => {
                may_restore = false;
                let (Some(snapshots), Some(pointer)) = (&node.snapshots, facts.pointer) else { continue };
                let Some(point) = snapshot::restore(snapshots, partition, pointer, &tables).await? else {
                    let text = facts.snapshots_damaged(snapshots.objects().place());
                    return settle(node, states, fence, epoch, &facts, &pointed, heal.is_asked, text).await;
                };
                tracing::info!(
                    partition, reason = %why,
                    "partition {partition} begins with the snapshot of group {}: {why}",
                    point.sequence
                );
            }
            Tried::Unfit(why) | Tried::TooOld(why) | Tried::Doubt(why) => {
                return settle(node, states, fence, epoch, &facts, &pointed, heal.is_asked, why).await;
            }
        }
    }
}

/// Opens the local state and folds the whole log.
pub(crate) async fn try_local(
    node: &Node,
    states: &States,
    facts: &Facts<'_>,
    tables: &Path,
    log: JetLog,
    progress: Arc<Progress>,
) -> anyhow::Result<Tried> {
    let prefixes = Prefixes::share(facts.partition, node.cluster.partitions);
    let log: Box<dyn GroupLog> = Box::new(RetainedLog::new(Box::new(log), progress));
    let (states, tables, bytes) = (states.clone(), tables.to_owned(), node.settings.worker.dirty_bytes_max);
    let (first, synced) = (facts.first, facts.synced);
    let (name, number) = (node.name.clone(), facts.partition);
    let place = tables.display().to_string();
    let fold = move || -> anyhow::Result<Tried> {
        let state = match states.disk.open(&tables) {
            Err(StateError::Damaged(why)) => return Ok(Tried::Unfit(why)),
            state => state.with_context(|| tables.display().to_string())?,
        };
        let position = state.position().sequence;
        if position > synced {
            let text =
                format!("{} is at group {position}, and the log ends with group {synced}", tables.display());
            return Ok(Tried::Doubt(text));
        }
        if position < synced && first > position + 1 {
            let text =
                format!("{} is at group {position}, and the log begins with group {first}", tables.display());
            return Ok(Tried::TooOld(text));
        }
        let mut part = Part { prefixes, state, log };
        match part.replay(bytes) {
            Ok(_) => Ok(Tried::Ready(Box::new(part))),
            Err(worker::Error::Chain { sequence, source: source @ ChainError::Newer { .. } }) => {
                // Nothing is damaged or lost: a newer node can open the partition.
                let text = format!(
                    "node {name} cannot open partition {number}: group {sequence} of its log is {source}. Upgrade this \
                     node, or drain it"
                );
                Err(anyhow::Error::new(Doubt(text)))
            }
            Err(error @ (worker::Error::Chain { .. } | worker::Error::Behind { .. })) => {
                Ok(Tried::Unfit(error.to_string()))
            }
            Err(worker::Error::Log(error)) if error.is_loss() => Ok(Tried::Unfit(error.to_string())),
            Err(error) => Err(error.into()),
        }
    };
    let tried = tokio::task::spawn_blocking(fold).await.context("folding its log")?;
    tried.with_context(|| place)
}

/// Resolves a doubt. If a state, here or in a snapshot, has all known entries of the log, a new log starts behind that
/// state, and nothing is lost. Otherwise the operator is alerted, and the operator's decision is executed.
#[expect(clippy::too_many_arguments, reason = "each is one thing that an opening knows")]
pub(crate) async fn settle(
    node: &Node,
    states: &States,
    fence: &Fence,
    epoch: u64,
    facts: &Facts<'_>,
    pointed: &Pointed,
    is_accepted: bool,
    why: String,
) -> anyhow::Result<FoundPartition> {
    let partition = facts.partition;
    let tables = folder(node, partition).join("tables");
    let here =
        nephila_store::state::list(&tables).ok().flatten().map_or(0, |listed| listed.position.sequence);
    let stored =
        facts.pointer.filter(|_| node.snapshots.is_some()).map_or(0, |pointer| pointer.latest.sequence);
    let is_whole = facts.is_too_short().is_some() && facts.known > 0 && here.max(stored) >= facts.known;
    if !is_accepted && !is_whole {
        return Err(anyhow::Error::new(Doubt(facts.what_to_do(node.snapshots.is_some(), &why))));
    }
    if let (Some(snapshots), Some(pointer)) = (&node.snapshots, facts.pointer.filter(|_| stored > here)) {
        // The local state stays if no snapshot is complete.
        let restored = snapshot::restore(snapshots, partition, pointer, &tables).await?;
        if !is_accepted && restored.is_none_or(|point| point.sequence < facts.known) {
            return Err(anyhow::Error::new(Doubt(facts.what_to_do(true, &why))));
        }
    }
    let log = node.cluster.engine.log(partition, epoch, fence.clone()).await.context("its log")?;
    let (disk, bytes) = (states.clone(), node.settings.worker.dirty_bytes_max);
    let prefixes = Prefixes::share(partition, node.cluster.partitions);
    // As far as the log goes on from there.
    let fold = move || -> anyhow::Result<DiskState> {
        let state = disk.disk.open(&tables).with_context(|| tables.display().to_string())?;
        let mut part = Part { prefixes, state, log: Box::new(log) };
        match part.replay(bytes) {
            Ok(_) | Err(worker::Error::Chain { .. } | worker::Error::Behind { .. }) => Ok(part.state),
            Err(worker::Error::Log(error)) if error.is_loss() => Ok(part.state),
            Err(error) => Err(error.into()),
        }
    };
    let state = tokio::task::spawn_blocking(fold).await.context("folding its log")??;
    let last = state.position().sequence;
    let mut log = node.cluster.engine.log(partition, epoch, fence.clone()).await.context("its log")?;
    log.begin_behind(last).await.context("beginning its log anew")?;
    heal::done(&*node.cluster.leases, partition, epoch).await?;
    let how = if is_accepted { "as was decided" } else { "with nothing lost" };
    tracing::info!(
        partition, reason = %why,
        "partition {partition} goes on behind group {last}, {how}: {why}"
    );
    let (watch, progress, claim) = (log.watch(), Arc::new(Progress::default()), log.position());
    // The existing snapshots may contain groups that no longer exist.
    progress.urgent.store(SNAPSHOTS_PAST_A_HOLE, Ordering::Release);
    let start = Start::of(facts.told.begun_anew(), last + 1, last);
    let part = Part { prefixes, state, log: Box::new(RetainedLog::new(Box::new(log), progress.clone())) };
    Ok(FoundPartition { part, progress, watch, pointed: pointed.clone(), claim, start })
}

impl Facts<'_> {
    /// Whether the log ends before its known end, with the reason.
    pub(crate) fn is_too_short(&self) -> Option<String> {
        let snapshot = self.pointer.map(|pointer| &pointer.latest);
        let synced = self.synced;
        match snapshot.filter(|latest| latest.sequence > synced) {
            Some(latest) => Some(format!(
                "the log ends with group {synced}, and the snapshot that node {} made of it holds group {}: {} groups \
                 that the servers acknowledged are gone",
                latest.node,
                latest.sequence,
                self.known.max(latest.sequence) - synced
            )),
            None if self.known > synced => Some(format!(
                "the log ends with group {synced}, and its owner saw group {} acknowledged: {} groups are gone",
                self.known,
                self.known - synced
            )),
            None => None,
        }
    }

    pub(crate) fn snapshots_damaged(&self, place: &str) -> String {
        format!(
            "what lies on this node cannot be used, the log begins with group {}, and none of the snapshots in {place} \
             is whole",
            self.first
        )
    }

    /// The description of a doubt, with advice.
    pub(crate) fn what_to_do(&self, has_objects: bool, why: &str) -> String {
        let Facts { partition, stream, .. } = self;
        let mut text = format!("partition {partition} stays closed: {why}. ");
        if self.pointer.is_some() && !has_objects {
            text.push_str(
                "There are snapshots of it, and this node has no `cluster.objects`: set it as on the other nodes. ",
            );
        }
        _ = write!(
            text,
            "Either the servers have lost messages that they acknowledged, or this node's folder is of another cluster. \
             Restore stream {stream} on the servers from a backup, or from a server that still has it, and the partition \
             opens by itself. To go on without what is gone: nephila cluster heal {partition} --accept-loss"
        );
        let kept = self.pointer.map(|pointer| pointer.latest.sequence).filter(|_| has_objects);
        match kept.filter(|kept| *kept >= self.synced) {
            Some(kept) => {
                _ = write!(text, ", which begins with the snapshot of group {kept}; what came later is lost")
            }
            None => text.push_str(", which keeps what this node and the log still have; the rest is lost"),
        }
        text
    }
}
