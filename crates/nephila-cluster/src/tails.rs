//! Records how far logs are known to go, separate from the logs themselves.
//!
//! The owner of a partition knows up to which group the servers have acknowledged its log. If the servers lose the end
//! of a log, no other node would notice: a shortened log looks like one that was never longer. So every node records
//! every few seconds, for all of its partitions in one record, how far their logs go; a node that opens a partition
//! compares. The same record holds how far events are published, so that the next owner continues there.
//!
//! Invariant: every recorded position was acknowledged; a position may be a few seconds old.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_log::{Item, Leases};
use serde::{Deserialize, Serialize};

use super::events::HowFar;
use super::snapshot::Progress;

/// Prefix of the records; one per node.
pub(crate) const TAILS: &str = "tails.";
/// Interval for writing a node's record.
pub(crate) const WRITE_EVERY: Duration = Duration::from_secs(10);
/// Lifetime of cached records.
pub(crate) const FRESH: Duration = Duration::from_secs(5);
/// Maximum number of partitions in a record, so that a record fits into a message; the highest partition numbers are
/// left out.
pub(crate) const TAILS_MAX: usize = 10_000;

/// The known end of a log, and the epoch of the observation.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Tail {
    pub(super) epoch: u64,
    pub(super) sequence: u64,
    /// Events of groups up to this one are published; 0 if unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) told: u64,
}

pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

pub(crate) type Record = BTreeMap<u32, Tail>;

/// How far the events of a partition were published, as recorded by owners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recorded {
    /// In the current log.
    pub(super) now: Option<u64>,
    /// In the previous log, before a new one was started.
    pub(super) before: Option<u64>,
}

impl Recorded {
    /// The same for a log that starts anew now.
    pub(crate) fn begun_anew(self) -> Recorded {
        Recorded { now: None, before: self.now.max(self.before) }
    }
}

/// A partition that this node has or had open.
#[derive(Debug)]
pub(crate) struct Open {
    epoch: u64,
    progress: Arc<Progress>,
    /// Progress of published events, if events are published.
    how_far: Option<Arc<HowFar>>,
}

#[derive(Debug, Default)]
pub(crate) struct Inner {
    open: BTreeMap<u32, Open>,
    /// The record of this node, and its revision.
    written: Record,
    revision: Option<u64>,
    /// The records of all nodes, and the time of reading.
    read: Option<(Instant, Vec<Record>)>,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Tails {
    node: String,
    inner: Mutex<Inner>,
    /// Serializes writes.
    alone: tokio::sync::Mutex<()>,
}

impl Tails {
    pub(crate) fn new(node: &str) -> Tails {
        Tails { node: node.to_owned(), ..Tails::default() }
    }

    pub(crate) fn inner(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Registers an open partition.
    pub(crate) fn opened(
        &self,
        partition: u32,
        epoch: u64,
        progress: Arc<Progress>,
        how_far: Option<Arc<HowFar>>,
    ) {
        self.inner().open.insert(partition, Open { epoch, progress, how_far });
    }

    /// The partitions that this node has or had open, and the epoch of each.
    pub(crate) fn epochs(&self) -> Vec<(u32, u64)> {
        self.inner().open.iter().map(|(partition, open)| (*partition, open.epoch)).collect()
    }

    pub(crate) fn own(&self) -> Record {
        let inner = self.inner();
        let mut record = inner.written.clone();
        for (&partition, Open { epoch, progress, how_far }) in &inner.open {
            let told = how_far.as_ref().map_or(0, |how_far| how_far.told.load(Ordering::Acquire));
            let tail = Tail { epoch: *epoch, sequence: progress.synced.load(Ordering::Acquire), told };
            record.insert(partition, tail);
        }
        record.into_iter().take(TAILS_MAX).collect()
    }

    /// Writes the record of this node, if changed.
    pub(crate) async fn write(&self, leases: &dyn Leases) -> anyhow::Result<()> {
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
        // Another process under our name, or a write of ours whose answer was lost: read the record again the next
        // time.
        inner.revision = put;
        if put.is_some() {
            for (partition, open) in &inner.open {
                if let (Some(how_far), Some(tail)) = (&open.how_far, record.get(partition))
                    && tail.epoch == open.epoch
                {
                    how_far.written.fetch_max(tail.told, Ordering::AcqRel);
                }
            }
            inner.written = record;
        }
        Ok(())
    }

    /// The known end of a partition's log, as seen by owners of this epoch or later.
    pub(crate) async fn known(&self, leases: &dyn Leases, partition: u32, since: u64) -> anyhow::Result<u64> {
        let fresh = |inner: &Inner| inner.read.as_ref().is_some_and(|(at, _)| at.elapsed() < FRESH);
        if !fresh(&self.inner()) {
            let items = leases.records(TAILS).await.context("reading how far logs go")?;
            let record = |item: &Item| serde_json::from_slice::<Record>(&item.value).unwrap_or_default();
            let records = items.iter().map(record).collect();
            self.inner().read = Some((Instant::now(), records));
        }
        let read = self.read(partition).into_iter().max();
        let own = self.own().get(&partition).copied();
        let tails = read.into_iter().chain(own).filter(|tail| tail.epoch >= since);
        Ok(tails.map(|tail| tail.sequence).max().unwrap_or(0))
    }

    /// The last read records of a partition.
    pub(crate) fn read(&self, partition: u32) -> Vec<Tail> {
        let inner = self.inner();
        let records = inner.read.iter().flat_map(|(_, records)| records);
        records.filter_map(|record| record.get(&partition)).copied().collect()
    }

    /// The recorded progress of published events, from the records read by [`Tails::known`]; by owners of this epoch or
    /// later, and earlier.
    pub(crate) fn told(&self, partition: u32, since: u64) -> Recorded {
        let own = self.own().get(&partition).copied();
        let mut recorded = Recorded::default();
        for tail in self.read(partition).into_iter().chain(own).filter(|tail| tail.told > 0) {
            let place = if tail.epoch >= since { &mut recorded.now } else { &mut recorded.before };
            *place = (*place).max(Some(tail.told));
        }
        recorded
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
        one.opened(3, 7, progress.clone(), None);
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
        again.opened(4, 9, Arc::default(), None);
        again.write(&leases).await.unwrap();
        assert_eq!(Tails::new("two").known(&leases, 3, 0).await.unwrap(), 42);
    }

    #[tokio::test]
    async fn how_far_events_are_told_is_known_to_the_next_owner_and_the_last_one_knows_that_it_is() {
        let leases = Engine::new(std::time::Duration::from_secs(15)).leases();
        let (one, how_far) = (Tails::new("one"), Arc::new(HowFar::default()));
        one.opened(3, 7, Arc::default(), Some(how_far.clone()));
        how_far.told.store(30, Ordering::Release);
        assert_eq!(how_far.written.load(Ordering::Acquire), 0);
        one.write(&leases).await.unwrap();
        assert_eq!(how_far.written.load(Ordering::Acquire), 30);
        // A later owner that tells nothing does not hide it.
        let two = Tails::new("two");
        two.opened(3, 8, Arc::default(), None);
        two.write(&leases).await.unwrap();
        let three = Tails::new("three");
        three.known(&leases, 3, 0).await.unwrap();
        assert_eq!(three.told(3, 0), Recorded { now: Some(30), before: None });
        assert_eq!(three.told(4, 0), Recorded::default());
        // The log was begun anew since.
        assert_eq!(three.told(3, 8), Recorded { now: None, before: Some(30) });
        assert_eq!(three.told(3, 0).begun_anew(), three.told(3, 8));
    }

    #[test]
    fn a_record_of_an_earlier_program_is_read() {
        let record: Record = serde_json::from_str(r#"{"3":{"epoch":7,"sequence":41}}"#).unwrap();
        assert_eq!(record[&3], Tail { epoch: 7, sequence: 41, told: 0 });
        assert_eq!(serde_json::to_string(&record).unwrap(), r#"{"3":{"epoch":7,"sequence":41}}"#);
    }
}
