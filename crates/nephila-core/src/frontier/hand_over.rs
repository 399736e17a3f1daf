//! Hand-over of partitions while the frontier runs: a node takes ownership of a partition, or hands one over to another
//! node.
//!
//! An arriving partition is already folded; its hosts rest first, since the last requests of its previous owner are
//! unknown here. A leaving partition is **closed** first: its hosts get no more tickets and leave the workbench one by
//! one, as their open tickets are reported and their entries in flight are durable. When nothing of the partition is
//! left here ([`Frontier::is_closed`]), the partition can be removed.
//!
//! Invariants: the partitions stand in the order of their prefixes, so adding or removing one shifts the numbers of the
//! partitions behind by one; a closed partition never issues another ticket.

use super::Frontier;
use super::partition::Partition;
use super::workbench::HostIndex;
use crate::key::Prefixes;
use crate::planted::{self, Bug};
use crate::state::State;
use crate::time::Now;

impl<S: State> Frontier<S> {
    /// The states of all partitions, in order.
    pub fn states(&mut self) -> impl Iterator<Item = &mut S> {
        self.partitions.iter_mut().map(|partition| &mut partition.state)
    }

    /// Takes ownership of a partition, folded up to the end of its log. Its first group carries this epoch into the log
    /// (fencing); until that group is durable no ticket is issued. Returns the partition's number.
    pub fn add_partition(&mut self, prefixes: Prefixes, state: S, epoch: u64, now: Now) -> usize {
        let at = self.partitions.partition_point(|partition| partition.prefixes < prefixes);
        let mut partition = Partition::new(prefixes, state);
        partition.epoch = epoch;
        partition.claimed = false;
        self.partitions.insert(at, partition);
        self.scan_partition = 0;
        if !planted::is(Bug::TakeOverWithoutRest) {
            // Loaded hosts have known rests; any other host may belong to this partition.
            self.bench.rest_all(now.mono);
        }
        at
    }

    /// Closes a partition: no more tickets are issued, and the hosts leave the workbench as soon as allowed. The
    /// partition still takes offers: open pages have links into the partition, and are reported only when these links
    /// are durable.
    pub fn close_partition(&mut self, partition: usize, now: Now) {
        if std::mem::replace(&mut self.partitions[partition].closing, true) {
            return;
        }
        let of_it = |index: &HostIndex| self.partition_of(&self.bench.host(*index).key) == Some(partition);
        let leaving = Vec::from_iter(self.bench.indexes().filter(of_it));
        for index in &leaving {
            self.bench.host_mut(*index).leaving = true;
        }
        self.wait_no_more();
        for index in leaving {
            for errand in self.bench.take_back_errands(index) {
                self.hand_on(errand, now);
            }
            self.give_up_place(index, now);
        }
    }

    /// Whether nothing of a closed partition is left here, neither on the workbench nor in flight to its log.
    pub fn is_closed(&self, partition: usize) -> bool {
        let here = &self.partitions[partition];
        here.closing
            && here.in_flight.is_none()
            && here.pending.is_empty()
            && here.streams.is_empty()
            && here.offers.is_empty()
            && !self.bench.has_any(here.prefixes)
    }

    /// Removes a closed partition and returns its state.
    pub fn remove_partition(&mut self, partition: usize) -> S {
        assert!(self.is_closed(partition), "a partition is closed before it is taken out");
        self.scan_partition = 0;
        let gone = self.partitions.remove(partition);
        // Recent offers to this partition are no longer known here.
        self.recent.forget_all(gone.prefixes);
        self.robots.forget_all(gone.prefixes);
        gone.state
    }
}
