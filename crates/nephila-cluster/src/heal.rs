//! Healing of a partition whose log has lost entries: the operator accepts the loss.
//!
//! `nephila cluster heal PARTITION --accept-loss` records the decision. The next node that opens the partition takes
//! the best available state (its own state, a snapshot, the following log), starts a new log behind that state, and
//! records the epoch: the knowledge of earlier owners about the log no longer counts.

use anyhow::Context;
use nephila_log::Leases;
use serde::{Deserialize, Serialize};

/// Prefix of the records.
pub const HEAL: &str = "heal.";
/// Maximum number of tries when other writers change the record.
pub const TRIES_MAX: usize = 5;

/// Decision about a partition.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Heal {
    /// Whether the partition may continue with the remaining state.
    pub(super) is_asked: bool,
    /// The epoch in which a new log was started; 0 if never.
    pub(super) epoch: u64,
}

/// Returns the key of the record with the decision about a partition.
pub fn key(partition: u32) -> String {
    format!("{HEAL}{partition:05}")
}

/// Reads the decision.
pub async fn read(leases: &dyn Leases, partition: u32) -> anyhow::Result<Heal> {
    let item = leases.record(&key(partition)).await.context("reading what was decided about it")?;
    Ok(item.and_then(|item| serde_json::from_slice(&item.value).ok()).unwrap_or_default())
}

/// Accepts the loss.
pub async fn ask(leases: &dyn Leases, partition: u32) -> anyhow::Result<()> {
    change(leases, partition, |heal| heal.is_asked = true).await
}

/// Marks the healing as done.
pub async fn done(leases: &dyn Leases, partition: u32, epoch: u64) -> anyhow::Result<()> {
    change(leases, partition, |heal| *heal = Heal { is_asked: false, epoch }).await
}

/// Rewrites the decision about a partition by compare-and-swap. Fails after too many conflicts.
pub async fn change(leases: &dyn Leases, partition: u32, change: impl Fn(&mut Heal)) -> anyhow::Result<()> {
    let key = key(partition);
    for _ in 0..TRIES_MAX {
        let item = leases.record(&key).await.context("reading what was decided about it")?;
        let (revision, mut heal) = match item {
            None => (None, Heal::default()),
            Some(item) => (Some(item.revision), serde_json::from_slice(&item.value).unwrap_or_default()),
        };
        change(&mut heal);
        let value = serde_json::to_vec(&heal).context("as JSON")?;
        if leases.put(&key, revision, value.into()).await.context("writing")?.is_some() {
            return Ok(());
        }
    }
    anyhow::bail!("others write the record {key} all the time")
}
