//! Alarms for the operator, stored as records that `nephila cluster status` prints.
//!
//! Invariant: an alarm stays until its subject is seen to be well again, regardless of the node that raised the alarm.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use nephila_log::Leases;
use serde::{Deserialize, Serialize};

/// Prefix of alarm records.
pub const ALARM: &str = "alarm.";
/// Maximum number of tries when other writers change the record.
pub const TRIES_MAX: usize = 5;

/// An alarm for the operator.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Alarm {
    /// Subject of the alarm.
    #[serde(default)]
    pub about: String,
    /// The fault, and advice.
    pub(super) text: String,
    /// The node that raised the alarm.
    pub(super) node: String,
    /// Time in milliseconds since 1970.
    pub(super) at_ms: u64,
}

impl std::fmt::Display for Alarm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Alarm { about, text, node, .. } = self;
        write!(f, "{about} (node {node}): {text}")
    }
}

/// A partition that stays closed until a person has intervened: the fault, and advice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Doubt(pub(super) String);

/// Subject of an alarm about a partition.
pub fn of_partition(partition: u32) -> String {
    format!("partition-{partition:05}")
}

/// Raises an alarm. An alarm with the same text stays unchanged.
pub async fn raise(leases: &dyn Leases, about: &str, node: &str, text: &str) -> anyhow::Result<()> {
    let at_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let alarm = Alarm {
        about: about.to_owned(),
        text: text.to_owned(),
        node: node.to_owned(),
        at_ms: u64::try_from(at_ms).unwrap_or(u64::MAX),
    };
    let value = serde_json::to_vec(&alarm).context("an alarm as JSON")?;
    change(leases, about, |old| match old {
        Some(old) if (&*old.text, &*old.node) == (text, node) => None,
        _ => Some(value.clone()),
    })
    .await
}

/// Clears an alarm.
pub async fn clear(leases: &dyn Leases, about: &str) -> anyhow::Result<()> {
    change(leases, about, |old| old.map(|_| Vec::new())).await
}

/// Rewrites the record of an alarm by compare-and-swap, unless `new` returns none. Fails after too many conflicts.
pub async fn change(
    leases: &dyn Leases,
    about: &str,
    new: impl Fn(Option<&Alarm>) -> Option<Vec<u8>>,
) -> anyhow::Result<()> {
    let key = format!("{ALARM}{about}");
    for _ in 0..TRIES_MAX {
        let item = leases.record(&key).await.context("reading an alarm")?;
        let old = item.as_ref().and_then(|item| serde_json::from_slice(&item.value).ok());
        let Some(value) = new(old.as_ref()) else { return Ok(()) };
        let put = leases.put(&key, item.map(|item| item.revision), value.into()).await;
        if put.context("writing an alarm")?.is_some() {
            return Ok(());
        }
    }
    anyhow::bail!("others write the record {key} all the time")
}

/// All alarms.
pub async fn all(leases: &dyn Leases) -> anyhow::Result<Vec<Alarm>> {
    let items = leases.records(ALARM).await.context("reading the alarms")?;
    Ok(items.iter().filter_map(|item| serde_json::from_slice(&item.value).ok()).collect())
}

/// Clears alarms of this kind that were raised by nodes which are no longer live: no other node would.
pub async fn clear_of_the_gone(leases: &dyn Leases, kind: &str, living: &[&str]) -> anyhow::Result<()> {
    for alarm in all(leases).await? {
        if alarm.about.starts_with(kind) && !living.contains(&&*alarm.node) {
            clear(leases, &alarm.about).await?;
        }
    }
    Ok(())
}

/// Reports an outage once, and its end once.
#[derive(Debug)]
pub struct Trouble {
    leases: Arc<dyn Leases>,
    node: String,
    about: String,
    is_away: AtomicBool,
}

impl Trouble {
    /// For one activity of a node; `about` names the activity.
    pub fn new(leases: Arc<dyn Leases>, about: &str, node: &str) -> Trouble {
        let about = format!("{about}-{node}");
        // An earlier process of this node may have raised the alarm: the first success clears the alarm.
        Trouble { leases, node: node.to_owned(), about, is_away: AtomicBool::new(true) }
    }

    /// Reports the result of an operation.
    pub async fn note(&self, what: &str, result: &anyhow::Result<()>) {
        match result {
            Ok(()) => {
                if self.is_away.load(Ordering::Acquire) && clear(&*self.leases, &self.about).await.is_ok() {
                    self.is_away.store(false, Ordering::Release);
                }
            }
            Err(error) => {
                tracing::warn!(
                    node = %self.node, error = %format_args!("{error:#}"),
                    "node {}: {what} could not be stored, and is tried again: {error:#}",
                    self.node
                );
                self.is_away.store(true, Ordering::Release);
                let text = format!(
                    "{what} could not be stored: {error:#}. Nothing is lost: the log and this node's disk keep what is \
                     not stored, and grow. It goes on by itself"
                );
                // While the servers are away too, there are other worries.
                _ = raise(&*self.leases, &self.about, &self.node, &text).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use nephila_log::memory::Engine;

    use super::*;

    #[tokio::test]
    async fn an_alarm_stays_until_it_is_cleared() {
        let leases = Engine::new(std::time::Duration::from_secs(15)).leases();
        raise(&leases, &of_partition(7), "n1", "the log is gone").await.unwrap();
        raise(&leases, &of_partition(8), "n1", "the log is gone").await.unwrap();
        let at = all(&leases).await.unwrap()[0].at_ms;
        raise(&leases, &of_partition(7), "n1", "the log is gone").await.unwrap();
        let alarms = all(&leases).await.unwrap();
        assert_eq!((alarms.len(), alarms[0].at_ms, &*alarms[0].about), (2, at, "partition-00007"));
        clear(&leases, &of_partition(7)).await.unwrap();
        clear(&leases, &of_partition(9)).await.unwrap();
        assert_eq!(all(&leases).await.unwrap().len(), 1);
    }
}
