//! The source of a feed, and mutual exclusion: one poll of a source at a time.
//!
//! Two feeds of one source may be polled at the same time, by two tickets, and show the same story. Therefore a task
//! that has fetched a feed locks its source from before the entries are judged until the results are readable from the
//! state.
//!
//! On one machine a feed belongs to the source that `feeds.opml` names, or else to the source of its domain. In a
//! cluster there are no named sources: a domain belongs to one partition, whose owner polls all its feeds.
//!
//! Invariant: no two polls of one source are judged at once in a process.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, RwLock};

use nephila_core::feed::opml::Outline;
use nephila_core::feed::source::{Sighted, SourceKey};
use nephila_core::key::{DomainKey, UrlKey};
use nephila_core::url::CrawlUrl;
use tokio::sync::OwnedMutexGuard;

use super::shared::Shared;
use crate::worker::{Command, Stopped};

/// The sources of a crawl.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    /// Named sources, by their feeds: as many as `feeds.opml` has.
    names: RwLock<HashMap<UrlKey, Arc<str>>>,
    /// Feeds that are no longer followed, by the same list.
    removed: RwLock<HashSet<UrlKey>>,
    /// Sources that are locked or waited for: no more than pages being stored.
    busy: Arc<Mutex<HashMap<SourceKey, Arc<tokio::sync::Mutex<()>>>>>,
}

/// A locked source.
#[derive(Debug)]
pub struct Held {
    pub(crate) key: SourceKey,
    pub name: Box<str>,
    /// None once unlocked.
    guard: Option<OwnedMutexGuard<()>>,
    busy: Arc<Mutex<HashMap<SourceKey, Arc<tokio::sync::Mutex<()>>>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.guard.take());
        let mut busy = self.busy.lock().expect("nobody panics holding it");
        // A waiting task holds a reference, too.
        if busy.get(&self.key).is_some_and(|source| Arc::strong_count(source) == 1) {
            busy.remove(&self.key);
        }
    }
}

impl Sources {
    /// Replaces the list of feeds and of named sources.
    pub(crate) fn set(&self, feeds: &[Outline], key: impl Fn(&CrawlUrl) -> UrlKey) {
        let named = |feed: &Outline| Some((key(&feed.url), feed.source.as_deref()?.into()));
        *self.names.write().expect("nobody panics holding it") = feeds.iter().filter_map(named).collect();
        let removed = feeds.iter().filter(|feed| feed.removed).map(|feed| key(&feed.url)).collect();
        *self.removed.write().expect("nobody panics holding it") = removed;
    }

    /// Whether this feed is no longer followed.
    pub(crate) fn is_removed(&self, feed: &UrlKey) -> bool {
        self.removed.read().expect("nobody panics holding it").contains(feed)
    }

    /// The name of a feed's source, if the source has one.
    pub(crate) fn name(&self, feed: &UrlKey) -> Option<Arc<str>> {
        self.names.read().expect("nobody panics holding it").get(feed).cloned()
    }

    pub(crate) async fn hold(&self, key: SourceKey, name: Box<str>) -> Held {
        let source = {
            let mut busy = self.busy.lock().expect("nobody panics holding it");
            busy.entry(key).or_default().clone()
        };
        let guard = Some(source.lock_owned().await);
        Held { key, name, guard, busy: self.busy.clone() }
    }
}

impl Shared {
    /// Waits for the lock on this feed's source.
    pub async fn hold_source(&self, url: &CrawlUrl, key: &UrlKey) -> Held {
        let (source, name) = match self.sources.name(key) {
            Some(name) => (SourceKey::of_name(&name, self.handle.secret()), (*name).into()),
            None => {
                let domain = url.registrable_domain().unwrap_or(url.host_str());
                (SourceKey::of_domain(key.host.domain), domain.into())
            }
        };
        self.sources.hold(source, name).await
    }

    /// Unlocks the source of a reported poll once its results are durable. A sighting for a source in another partition
    /// is sent only then, so a crash in between leaves no unsent sighting that counts as sent: the feed shows the
    /// story again when the feed has changed.
    pub async fn settle_source(
        &self,
        held: Held,
        feed: DomainKey,
        sighted: Option<Box<Sighted>>,
    ) -> Result<(), Stopped> {
        self.handle.settled_of(feed).await?;
        if let Some(sighted) = sighted {
            self.handle.command(Command::Sighted(sighted)).await?;
        }
        drop(held);
        Ok(())
    }

    /// Records that a feed leads to another one: the feed has moved, or is a page that names feeds. The target belongs
    /// to the same source, also after a restart.
    pub fn inherit_source(&self, feed: &UrlKey, target: &CrawlUrl) -> anyhow::Result<()> {
        let Some(name) = self.sources.name(feed) else { return Ok(()) };
        let key = self.handle.key(target);
        if self.sources.name(&key).is_some() {
            return Ok(());
        }
        self.folder.add_feeds(&[Outline { source: Some((*name).into()), ..Outline::new(target.clone()) }])?;
        self.sources.names.write().expect("nobody panics holding it").insert(key, name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_source_is_held_by_one_and_forgotten_when_nobody_wants_it() {
        let sources = Sources::default();
        let [a, b] = [1, 2].map(|domain| SourceKey::of_domain(DomainKey(domain)));
        let first = sources.hold(a, "a".into()).await;
        let other = sources.hold(b, "b".into()).await;
        let wait = std::time::Duration::from_millis(20);
        let waiting = tokio::time::timeout(wait, sources.hold(a, "a".into())).await;
        assert!(waiting.is_err(), "the same source waits");
        drop(first);
        drop(sources.hold(a, "a".into()).await);
        drop(other);
        assert!(sources.busy.lock().unwrap().is_empty());
    }
}
