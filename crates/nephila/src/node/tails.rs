//! How far logs are known to go, kept apart from the logs themselves.
//!
//! The owner of a partition knows up to which group the servers have acknowledged its log. Should they lose the end of it,
//! nobody else would: a log that is shorter looks like one that was never longer. So every node writes down, every few
//! seconds and all of its partitions in one record, how far it came; whoever opens a partition compares.
//!
//! What always holds: a number here was acknowledged; it may be a few seconds old.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_log::Leases;
use serde::{Deserialize, Serialize};

use super::snapshot::Progress;

/// Records begin like this; one for each node.
const TAILS: &str = "tails.";
/// How often a node writes its own.
pub(super) const WRITE_EVERY: Duration = Duration::from_secs(10);
/// What was read is used for this long.
const FRESH: Duration = Duration::from_secs(5);
/// Partitions in a record at most. With more, those with the highest numbers are left out: a record has to fit a message.
const TAILS_MAX: usize = 10_000;

/// How far a log goes, and under which ownership that was seen.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Tail {
    pub(super) epoch: u64,
    pub(super) sequence: u64,
}

type Record = BTreeMap<u32, Tail>;

#[derive(Debug, Default)]
struct Inner {
    /// Partitions that this node has or had open.
    open: BTreeMap<u32, (u64, Arc<Progress>)>,
    /// What the record of this node says, and its revision.
    written: Record,
    revision: Option<u64>,
    /// What all records said, and when.
    read: Option<(Instant, Record)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Tails {
    node: String,
    inner: Mutex<Inner>,
    /// One writes at a time.
    alone: tokio::sync::Mutex<()>,
}

impl Tails {
    pub(super) fn new(node: &str) -> Tails {
        Tails { node: node.to_owned(), ..Tails::default() }
    }

    fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// This node has opened a partition.
    pub(super) fn opened(&self, partition: u32, epoch: u64, progress: Arc<Progress>) {
        self.inner().open.insert(partition, (epoch, progress));
    }

    /// The partitions that this node has or had open, and the epoch of each.
    pub(super) fn epochs(&self) -> Vec<(u32, u64)> {
        self.inner().open.iter().map(|(partition, (epoch, _))| (*partition, *epoch)).collect()
    }

    fn own(&self) -> Record {
        let inner = self.inner();
        let mut record = inner.written.clone();
        for (&partition, (epoch, progress)) in &inner.open {
            let tail = Tail { epoch: *epoch, sequence: progress.synced.load(Ordering::Acquire) };
            record.insert(partition, tail);
        }
        record.into_iter().take(TAILS_MAX).collect()
    }

    /// Writes down how far this node's partitions are, if that has changed.
    pub(super) async fn write(&self, leases: &dyn Leases) -> anyhow::Result<()> {
        let _alone = self.alone.lock().await;
        let key = format!("{TAILS}{}", self.node);
        if self.inner().revision.is_none() {
            let item = leases.record(&key).await.context("reading how far logs go")?;
            let mut inner = self.inner();
            if let Some(item) = item {
                inner.revision = Some(item.revision);
                inner.written = serde_json::from_slice(&item.value).unwrap_or_default();
            }
        }
        let (record, revision) = (self.own(), self.inner().revision);
        if record == self.inner().written {
            return Ok(());
        }
        let value = serde_json::to_vec(&record).context("tails as JSON")?;
        let put = leases.put(&key, revision, value.into()).await.context("writing how far logs go")?;
        let mut inner = self.inner();
        // Somebody else under our name, or a write of ours whose answer was lost: read it again the next time.
        inner.revision = put;
        if put.is_some() {
            inner.written = record;
        }
        Ok(())
    }

    /// How far the log of a partition was seen to go, by owners of this epoch or later.
    pub(super) async fn known(&self, leases: &dyn Leases, partition: u32, since: u64) -> anyhow::Result<u64> {
        let fresh = |inner: &Inner| inner.read.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH);
        if !fresh(&self.inner()) {
            let items = leases.records(TAILS).await.context("reading how far logs go")?;
            let mut all = Record::new();
            for item in items {
                let record: Record = serde_json::from_slice(&item.value).unwrap_or_default();
                for (partition, tail) in record {
                    let known = all.entry(partition).or_default();
                    *known = tail.max(*known);
                }
            }
            self.inner().read = Some((Instant::now(), all));
        }
        let read = self.inner().read.as_ref().and_then(|(_, all)| all.get(&partition)).copied();
        let own = self.own().get(&partition).copied();
        let tails = read.into_iter().chain(own).filter(|tail| tail.epoch >= since);
        Ok(tails.map(|tail| tail.sequence).max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use nephila_log::memory::Engine;

    use super::*;

    #[tokio::test]
    async fn what_one_node_saw_of_a_log_another_knows_and_a_healed_log_begins_anew() {
        let leases = Engine::new(std::time::Duration::from_secs(15)).leases();
        let one = Tails::new("one");
        let progress = Arc::new(Progress::default());
        one.opened(3, 7, progress.clone());
        progress.synced.store(41, Ordering::Release);
        one.write(&leases).await.unwrap();
        progress.synced.store(42, Ordering::Release);
        one.write(&leases).await.unwrap();
        let two = Tails::new("two");
        assert_eq!(two.known(&leases, 3, 0).await.unwrap(), 42);
        assert_eq!(two.known(&leases, 4, 0).await.unwrap(), 0);
        assert_eq!(two.known(&leases, 3, 8).await.unwrap(), 0);
        // A process that begins again keeps what the one before it wrote.
        let again = Tails::new("one");
        again.opened(4, 9, Arc::default());
        again.write(&leases).await.unwrap();
        assert_eq!(Tails::new("two").known(&leases, 3, 0).await.unwrap(), 42);
    }
}
