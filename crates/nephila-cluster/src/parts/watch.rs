//! Monitors the log of an open partition: servers may silently lose entries that they acknowledged.
//!
//! If entries in the middle of a log are gone, the owner still knows them: two snapshots make the hole harmless. If the
//! end is gone, the owner makes its state durable, and the session restarts, because the next write would be refused;
//! opening the partition then determines whether anything is missing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nephila_core::key::Prefixes;
use nephila_log::Error;
use nephila_log::jetstream::Watch;
use nephila_store::state::DiskState;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::find::SNAPSHOTS_PAST_A_HOLE;
use crate::Node;
use crate::alarm;
use crate::session::Notice;
use crate::snapshot::Progress;
use nephila_engine::worker::PartitionPort;

/// Interval between checks of a log. A few more checks, a second apart, precede an alarm: together less than a minute.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 20 });

/// An open partition, with the channels for reports.
pub(super) struct Watched {
    pub(super) watch: Watch,
    pub(super) partition: u32,
    pub(super) prefixes: Prefixes,
    pub(super) progress: Arc<Progress>,
    pub(super) port: PartitionPort<DiskState>,
    pub(super) notices: mpsc::Sender<Notice>,
}

impl Watched {
    /// Runs until dropped.
    pub(super) async fn run(self, node: Arc<Node>) {
        let leases = &*node.cluster.leases;
        let about = alarm::of_partition(self.partition);
        // The partition is open, so an earlier alarm is obsolete and will be cleared.
        let mut is_alarmed = true;
        let is_healing = || self.progress.urgent.load(Ordering::Acquire) > 0;
        loop {
            match self.watch.look().await {
                Ok(()) if is_alarmed && !is_healing() => {
                    is_alarmed = alarm::clear(leases, &about).await.is_err();
                }
                Err(error @ Error::RolledBack { .. }) => return self.end_is_gone(&node, &error).await,
                Err(error @ Error::Damaged(_)) => {
                    let text = self.middle_is_gone(&node, &error);
                    if !is_healing() {
                        tracing::warn!(node = %node.name, "node {}: {text}", node.name);
                    }
                    is_alarmed = true;
                    // If raising the alarm fails now, the next check raises it.
                    _ = alarm::raise(leases, &about, &node.name, &text).await;
                    self.progress.urgent.store(SNAPSHOTS_PAST_A_HOLE, Ordering::Release);
                }
                // The log is fine, or the servers are unreachable.
                _ => {}
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Handles a log whose end is gone: the next write would be refused.
    pub(super) async fn end_is_gone(&self, node: &Node, error: &Error) {
        let durable =
            self.port.visit(self.prefixes, |state, _| state.checkpoint().map_err(|e| e.to_string()));
        if let Some(Err(why)) = durable.await {
            tracing::warn!(
                node = %node.name, partition = self.partition, reason = %why,
                "node {}: partition {}: {why}", node.name, self.partition
            );
        }
        let text = format!("{}: {error}", self.begin(node));
        // The receiver may have ended already.
        _ = self.notices.send(Notice::Failed(anyhow::anyhow!(text))).await;
    }

    pub(super) fn middle_is_gone(&self, node: &Node, error: &Error) -> String {
        let then = match node.snapshots.is_some() {
            true => {
                "Nothing is lost: the node that owns the partition knows them, makes two snapshots, and removes the log \
                 behind them. The alarm ends by itself"
            }
            false => {
                "The node that owns the partition still knows them. Set `cluster.objects`, so that it can make snapshots, \
                 or restore the stream from a backup; until then keep this node's folder: whoever opens the partition \
                 without it does not get past the hole"
            }
        };
        format!("{}: {error}. {then}", self.begin(node))
    }

    pub(super) fn begin(&self, node: &Node) -> String {
        let (partition, cluster) = (self.partition, &node.settings.cluster);
        let stream = format!("NEPH_{}_{}", cluster.name, partition % cluster.streams);
        format!(
            "the log of partition {partition} in stream {stream} has lost messages that the servers acknowledged"
        )
    }
}
