//! Feedback of the owners of partitions (rejecting hosts, lagging inboxes): written by each owner, read by all nodes.
//!
//! Invariants: a partition without anything to report writes nothing; a record is at most a few kilobytes; an
//! unreadable record is ignored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nephila_core::frontier::feedback::{self, PartitionFeedback};
use nephila_core::key::Prefixes;
use nephila_log::{Error, Leases};

use nephila_engine::worker::Handle;

/// Prefix of the feedback records.
pub(crate) const RECORD_PREFIX: &str = "word.";
/// Interval between updates of an owner's feedback.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Reads the feedback of all owners.
pub(crate) async fn read(leases: &dyn Leases) -> Result<BTreeMap<u32, PartitionFeedback>, Error> {
    let items = leases.records(RECORD_PREFIX).await?;
    let feedback = |key: &str, value: &[u8]| {
        let partition = key.strip_prefix(RECORD_PREFIX)?.parse().ok()?;
        Some((partition, PartitionFeedback::decode(value).ok().filter(|feedback| !feedback.is_empty())?))
    };
    Ok(items.iter().filter_map(|item| feedback(&item.key, &item.value)).collect())
}

/// Publishes the feedback of a partition, until dropped or until the worker ends.
pub(crate) async fn publish(
    leases: Arc<dyn Leases>,
    handle: Handle,
    partition: u32,
    prefixes: Prefixes,
    unread_bytes: Arc<AtomicU64>,
) {
    let key = format!("{RECORD_PREFIX}{partition}");
    // None until the feedback of the earlier owner was read.
    let mut published: Option<(PartitionFeedback, Option<u64>)> = None;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let Some((before, revision)) = &mut published else {
            if let Ok(item) = leases.record(&key).await {
                let feedback = item
                    .as_ref()
                    .and_then(|item| PartitionFeedback::decode(&item.value).ok())
                    .unwrap_or_default();
                published = Some((feedback, item.map(|item| item.revision)));
            }
            continue;
        };
        let Ok(closed) = handle.closed_hosts(prefixes).await else { return };
        let lags = feedback::lags(before.lags, unread_bytes.load(Ordering::Relaxed));
        let feedback = PartitionFeedback { lags, closed };
        if feedback == *before {
            continue;
        }
        let value = if feedback.is_empty() { Bytes::new() } else { feedback.encode().into() };
        match leases.put(&key, *revision, value).await {
            Ok(Some(now)) => (*before, *revision) = (feedback, Some(now)),
            // Another writer changed the record, or the result is unknown: read the record again.
            Ok(None) | Err(_) => published = None,
        }
    }
}
