//! Counts the feeds by their health, for the metrics.
//!
//! The health of a feed is computed from its record, and the records are on the disk. So all feeds are read in the
//! background, page by page between the other calls of the worker, and a scrape gets the last count.
//!
//! Invariants: at most one round in [`EVERY`], and the pause after a round is at least [`PAUSE_FACTOR`] times as long as
//! the round; a round reads at most [`FEEDS_MAX`] feeds, and stops there.

use std::sync::Weak;
use std::time::{Duration, Instant};

use nephila_core::key::UrlKey;

use super::shared::Shared;
use crate::worker::Stopped;

/// Minimum time between two rounds.
pub const EVERY: Duration = Duration::from_secs(60);
/// So a round takes at most half a percent of the worker's time.
const PAUSE_FACTOR: u32 = 200;
/// Maximum number of feeds of a round; the metrics do not count the others.
pub const FEEDS_MAX: usize = 100_000;
/// Number of feeds in one call of the worker.
const FEEDS_AT_ONCE: usize = 200;

/// Counts the feeds again and again, until the future is dropped or the session ends.
pub async fn run(shared: Weak<Shared>) {
    loop {
        let began = Instant::now();
        let Some(crawl) = shared.upgrade() else { return };
        if count(&crawl).await.is_err() {
            return;
        }
        drop(crawl);
        tokio::time::sleep(EVERY.max(began.elapsed() * PAUSE_FACTOR)).await;
    }
}

/// One round.
pub async fn count(shared: &Shared) -> Result<(), Stopped> {
    let (mut health, mut from) = (Vec::new(), None);
    loop {
        let page = shared.handle.feeds(from, FEEDS_AT_ONCE).await?;
        from = page.last().filter(|_| page.len() >= FEEDS_AT_ONCE).and_then(|last| after(last.key));
        let followed = page.iter().filter(|feed| !shared.sources.is_removed(&feed.key));
        health.extend(followed.map(|feed| feed.record.health()));
        if from.is_none() || health.len() >= FEEDS_MAX {
            break;
        }
    }
    shared.counts.metrics.feeds.set(health);
    Ok(())
}

/// The next key in sort order.
fn after(key: UrlKey) -> Option<UrlKey> {
    match key.path.checked_add(1) {
        Some(path) => Some(UrlKey { path, ..key }),
        None => Some(UrlKey { host: key.host.next()?, path: 0 }),
    }
}
