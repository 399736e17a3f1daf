//! Words of the owners of partitions (rejecting hosts, lagging inboxes): written by each owner, read by all nodes.
//!
//! Invariants: a partition without anything to report writes nothing; a record is at most a few kilobytes; an
//! unreadable record is ignored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nephila_core::frontier::feedback::{self, Word};
use nephila_core::key::Prefixes;
use nephila_log::{Error, Leases};

use nephila_engine::worker::Handle;

/// Prefix of word records.
pub(crate) const WORD: &str = "word.";
/// Interval between updates of an owner's word.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Reads the words of all owners.
pub(crate) async fn read(leases: &dyn Leases) -> Result<BTreeMap<u32, Word>, Error> {
    let items = leases.records(WORD).await?;
    let word = |key: &str, value: &[u8]| {
        let partition = key.strip_prefix(WORD)?.parse().ok()?;
        Some((partition, Word::decode(value).ok().filter(|word| !word.is_empty())?))
    };
    Ok(items.iter().filter_map(|item| word(&item.key, &item.value)).collect())
}

/// Publishes the word of a partition, until dropped or until the worker ends.
pub(crate) async fn say(
    leases: Arc<dyn Leases>,
    handle: Handle,
    partition: u32,
    prefixes: Prefixes,
    unread_bytes: Arc<AtomicU64>,
) {
    let key = format!("{WORD}{partition}");
    // None until the word of the earlier owner was read.
    let mut said: Option<(Word, Option<u64>)> = None;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let Some((before, revision)) = &mut said else {
            if let Ok(item) = leases.record(&key).await {
                let word = item.as_ref().and_then(|item| Word::decode(&item.value).ok()).unwrap_or_default();
                said = Some((word, item.map(|item| item.revision)));
            }
            continue;
        };
        let Ok(closed) = handle.closed_hosts(prefixes).await else { return };
        let lags = feedback::lags(before.lags, unread_bytes.load(Ordering::Relaxed));
        let word = Word { lags, closed };
        if word == *before {
            continue;
        }
        let value = if word.is_empty() { Bytes::new() } else { word.encode().into() };
        match leases.put(&key, *revision, value).await {
            Ok(Some(now)) => (*before, *revision) = (word, Some(now)),
            // Another writer changed the record, or the result is unknown: read the record again.
            Ok(None) | Err(_) => said = None,
        }
    }
}
