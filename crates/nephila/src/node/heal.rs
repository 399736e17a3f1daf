//! What a person decides about a partition whose log has lost something: to go on with what is left.
//!
//! `nephila cluster heal PARTITION --accept-loss` writes down that it may; whoever next opens the partition takes the best
//! that there is (its own state, a snapshot, what follows in the log), begins the log anew behind it, and writes down
//! under which ownership that was: what earlier owners knew of the log does not count any more.

use anyhow::Context;
use nephila_log::Leases;
use serde::{Deserialize, Serialize};

/// Records begin like this.
const HEAL: &str = "heal.";
/// How often a record is tried while others write it.
const TRIES_MAX: usize = 5;

/// What was decided about a partition.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(super) struct Heal {
    /// It may go on with what is left.
    pub(super) is_asked: bool,
    /// Its log was begun anew under this ownership; 0 if it never was.
    pub(super) epoch: u64,
}

fn key(partition: u32) -> String {
    format!("{HEAL}{partition:05}")
}

/// What was decided.
pub(super) async fn read(leases: &dyn Leases, partition: u32) -> anyhow::Result<Heal> {
    let item = leases.record(&key(partition)).await.context("reading what was decided about it")?;
    Ok(item.and_then(|item| serde_json::from_slice(&item.value).ok()).unwrap_or_default())
}

/// Decides that it may go on with what is left.
pub(crate) async fn ask(leases: &dyn Leases, partition: u32) -> anyhow::Result<()> {
    change(leases, partition, |heal| heal.is_asked = true).await
}

/// It goes on.
pub(super) async fn done(leases: &dyn Leases, partition: u32, epoch: u64) -> anyhow::Result<()> {
    change(leases, partition, |heal| *heal = Heal { is_asked: false, epoch }).await
}

async fn change(leases: &dyn Leases, partition: u32, change: impl Fn(&mut Heal)) -> anyhow::Result<()> {
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
