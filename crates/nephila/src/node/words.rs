//! What owners say of their partitions: written by each, read by all.
//!
//! What always holds: a partition that has nothing to say writes nothing; a record is at most a few kilobytes; what cannot
//! be read is as if it had not been said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use nephila_core::cluster::word::{self, Word};
use nephila_core::frontier::key::Prefixes;
use nephila_log::{Error, Leases};

use crate::worker::Handle;

/// Records of what owners say begin like this.
const WORD: &str = "word.";
/// How often an owner looks whether it has something else to say.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What all owners say.
pub(super) async fn read(leases: &dyn Leases) -> Result<BTreeMap<u32, Word>, Error> {
    let items = leases.records(WORD).await?;
    let word = |key: &str, value: &[u8]| {
        let partition = key.strip_prefix(WORD)?.parse().ok()?;
        Some((partition, Word::decode(value).ok().filter(|word| !word.is_empty())?))
    };
    Ok(items.iter().filter_map(|item| word(&item.key, &item.value)).collect())
}

/// Says what there is to say of a partition, until it is dropped or the worker ends.
pub(super) async fn say(
    leases: Arc<dyn Leases>,
    handle: Handle,
    partition: u32,
    prefixes: Prefixes,
    unread_bytes: Arc<AtomicU64>,
) {
    let key = format!("{WORD}{partition}");
    // None until it is known what the owner before said.
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
        let lags = word::lags(before.lags, unread_bytes.load(Ordering::Relaxed));
        let word = Word { lags, closed };
        if word == *before {
            continue;
        }
        let value = if word.is_empty() { Bytes::new() } else { word.encode().into() };
        match leases.put(&key, *revision, value).await {
            Ok(Some(now)) => (*before, *revision) = (word, Some(now)),
            // Somebody else spoke, or it is not known who did: looked at again.
            Ok(None) | Err(_) => said = None,
        }
    }
}
