//! Measurements of a node beside those of its crawl: moves of partitions, age of its inboxes, age of files that wait for
//! the upload.
//!
//! All belong to the process, not to a session: they go on when the node has lost its lease.
//!
//! Invariants: the memory is bounded by the number of partitions; labels are from closed sets; counters only grow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use nephila_api::metrics::{Family, by, gauge, histogram};
use nephila_core::cluster::member::{OwnerRecord, OwnerState, View};
use nephila_core::histogram::Histogram;
use nephila_engine::metrics::Labelled;

/// Reasons for which a partition comes to this node or goes.
const MOVES: [&str; 5] = ["first", "handed_over", "takeover", "given_up", "lost"];

/// See the module.
#[derive(Debug)]
pub(crate) struct Measured {
    moves: Labelled,
    takeover: Histogram,
    partitions: Mutex<Partitions>,
    /// By partition: when the oldest message of its inbox that is not applied was left, in milliseconds since 1970.
    inboxes: Mutex<BTreeMap<u32, u64>>,
    /// The files that wait for the upload, if this node uploads.
    uploads: Mutex<Option<Arc<Oldest>>>,
}

#[derive(Debug, Default)]
struct Partitions {
    /// Partitions whose owner has lost its lease, and since when this node knows.
    ownerless: BTreeMap<u32, Instant>,
    /// Partitions that this node claims, and how each comes.
    coming: BTreeMap<u32, Coming>,
    /// Partitions that are open here.
    open: BTreeSet<u32>,
}

/// How a partition comes to this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    /// Nobody had it before.
    First,
    /// Its owner released it.
    HandedOver,
    /// Its owner lost its lease, which this node knows since then.
    Takeover(Instant),
}

/// When the oldest of some things was made, in milliseconds since 1970; 0 if there is none.
#[derive(Debug, Default)]
pub(crate) struct Oldest(AtomicU64);

impl Oldest {
    /// Sets the time of the oldest.
    pub(crate) fn set(&self, at: Option<u64>) {
        self.0.store(at.unwrap_or(0), Relaxed);
    }

    /// The age in milliseconds; 0 if there is none.
    pub(crate) fn age(&self, now: u64) -> u64 {
        match self.0.load(Relaxed) {
            0 => 0,
            at => now.saturating_sub(at),
        }
    }
}

impl Default for Measured {
    fn default() -> Measured {
        Measured {
            moves: Labelled::new(MOVES),
            takeover: Histogram::default(),
            partitions: Mutex::default(),
            inboxes: Mutex::default(),
            uploads: Mutex::default(),
        }
    }
}

impl Measured {
    fn partitions(&self) -> MutexGuard<'_, Partitions> {
        self.partitions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn inboxes(&self) -> MutexGuard<'_, BTreeMap<u32, u64>> {
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new view of the cluster, at this moment.
    pub(crate) fn seen(&self, view: &View, now: Instant) {
        let living: BTreeSet<_> = view.nodes.iter().map(|node| node.incarnation).collect();
        let is_ownerless =
            |record: &OwnerRecord| record.state == OwnerState::Owned && !living.contains(&record.incarnation);
        let ownerless = view.owners.iter().filter(|(_, (_, record))| is_ownerless(record));
        let mut partitions = self.partitions();
        let known = std::mem::take(&mut partitions.ownerless);
        partitions.ownerless =
            ownerless.map(|(number, _)| (*number, known.get(number).copied().unwrap_or(now))).collect();
    }

    /// This node claims a partition, whose last owner record in the view is this one.
    pub(crate) fn claims(&self, partition: u32, record: Option<&OwnerRecord>, now: Instant) {
        let mut partitions = self.partitions();
        let coming = match record.map(|record| record.state) {
            None => Coming::First,
            Some(OwnerState::Released) => Coming::HandedOver,
            Some(OwnerState::Owned) => {
                Coming::Takeover(partitions.ownerless.get(&partition).copied().unwrap_or(now))
            }
        };
        partitions.coming.insert(partition, coming);
    }

    /// A partition is open here.
    pub(crate) fn opened(&self, partition: u32, now: Instant) {
        let mut partitions = self.partitions();
        partitions.open.insert(partition);
        // A claim whose answer was lost is not announced again; the partition then comes from nobody.
        let coming = partitions.coming.remove(&partition).unwrap_or(Coming::First);
        drop(partitions);
        self.moves.add(
            match coming {
                Coming::First => "first",
                Coming::HandedOver => "handed_over",
                Coming::Takeover(_) => "takeover",
            },
            1,
        );
        if let Coming::Takeover(since) = coming {
            let took = now.saturating_duration_since(since);
            self.takeover.add(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        }
    }

    /// A partition that was open here is closed, for another node.
    pub(crate) fn given_up(&self, partition: u32) {
        if self.partitions().open.remove(&partition) {
            self.moves.add("given_up", 1);
        }
    }

    /// The session has ended with partitions that were not handed over.
    pub(crate) fn lost_all(&self) {
        let mut partitions = self.partitions();
        partitions.coming.clear();
        let lost = std::mem::take(&mut partitions.open).len() as u64;
        drop(partitions);
        self.moves.add("lost", lost);
    }

    /// Since when the oldest message of an inbox waits; none if nothing waits, or the partition is another node's.
    pub(crate) fn set_inbox(&self, partition: u32, since: Option<u64>) {
        let mut inboxes = self.inboxes();
        match since {
            Some(since) => _ = inboxes.insert(partition, since),
            None => _ = inboxes.remove(&partition),
        }
    }

    /// The node uploads files; returns where to note the oldest that waits.
    pub(crate) fn uploads(&self) -> Arc<Oldest> {
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        uploads.get_or_insert_default().clone()
    }

    /// The metric families. `now` is in milliseconds since 1970.
    pub(crate) fn families(&self, now: u64) -> Vec<Family> {
        let oldest = self.inboxes().values().copied().min();
        let lag = oldest.map_or(0, |since| now.saturating_sub(since));
        let uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut families = vec![
            by(
                "counter",
                ("nephila_partition_moves_total", "reason"),
                "Partitions that came to this node or went, by reason.",
                self.moves.get(),
            ),
            histogram(
                "nephila_partition_takeover_duration_seconds",
                "From a lost lease, as this node sees it, until the partition is open here.",
                "",
                &self.takeover.get(),
            ),
            gauge(
                "nephila_intake_lag_seconds",
                "Age of the oldest message of an inbox of this node that is not applied.",
                lag / 1_000,
            ),
        ];
        families.extend(uploads.map(|uploads| {
            gauge(
                "nephila_store_upload_lag_seconds",
                "Age of the oldest closed archive file that is not in the object store yet.",
                uploads.age(now) / 1_000,
            )
        }));
        families
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nephila_core::cluster::member::NodeRecord;
    use nephila_core::cluster::{Incarnation, NodeId};

    use super::*;

    fn record(incarnation: u64, state: OwnerState) -> OwnerRecord {
        OwnerRecord { node: NodeId(incarnation), incarnation: Incarnation(incarnation), state, load: None }
    }

    fn view(living: &[u64], owners: &[(u32, OwnerRecord)]) -> View {
        let node = |incarnation: &u64| NodeRecord {
            node: NodeId(*incarnation),
            incarnation: Incarnation(*incarnation),
            ..NodeRecord::default()
        };
        View {
            nodes: living.iter().map(node).collect(),
            owners: owners.iter().map(|(number, record)| (*number, (7, *record))).collect(),
            ..View::default()
        }
    }

    #[test]
    fn a_partition_of_a_dead_node_is_taken_over_and_the_time_counts_from_its_lost_lease() {
        let (measured, began) = (Measured::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let (dead, alive) = (record(1, OwnerState::Owned), record(2, OwnerState::Owned));
        measured.seen(&view(&[1, 2], &[(0, dead), (1, alive)]), at(0));
        for second in 10..14 {
            measured.seen(&view(&[2], &[(0, dead), (1, alive)]), at(second));
        }
        measured.claims(0, Some(&dead), at(14));
        // Our own claim is in the view before the partition is open.
        measured.seen(&view(&[2, 3], &[(0, record(3, OwnerState::Owned))]), at(15));
        measured.opened(0, at(16));
        assert_eq!(measured.takeover.get().sum, 6_000, "from second 10 to second 16");
        measured.claims(2, None, at(17));
        measured.opened(2, at(40));
        measured.claims(3, Some(&record(2, OwnerState::Released)), at(41));
        measured.opened(3, at(42));
        measured.given_up(3);
        measured.given_up(9);
        measured.lost_all();
        measured.lost_all();
        let moves = [("first", 1), ("handed_over", 1), ("takeover", 1), ("given_up", 1), ("lost", 2)];
        assert_eq!(measured.moves.get(), moves);
        assert_eq!(measured.takeover.get().counts.iter().sum::<u64>(), 1, "a hand-over is no takeover");
    }

    #[test]
    fn the_lags_are_the_ages_of_the_oldest_and_zero_when_nothing_waits() {
        let measured = Measured::default();
        let value = |name: &str, now| {
            let text = nephila_api::metrics::text("cluster", measured.families(now));
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
            line.map(|value| value.parse::<u64>().unwrap())
        };
        let (intake, upload) = ("nephila_intake_lag_seconds", "nephila_store_upload_lag_seconds");
        assert_eq!((value(intake, 9_000), value(upload, 9_000)), (Some(0), None), "no upload is configured");
        measured.set_inbox(1, Some(5_000));
        measured.set_inbox(2, Some(2_000));
        measured.uploads().set(Some(1_000));
        assert_eq!((value(intake, 9_000), value(upload, 9_000)), (Some(7), Some(8)));
        measured.set_inbox(2, None);
        measured.uploads().set(None);
        assert_eq!((value(intake, 9_000), value(upload, 9_000)), (Some(4), Some(0)));
        assert_eq!(value(intake, 1_000), Some(0), "a clock of the servers may be ahead");
    }
}
