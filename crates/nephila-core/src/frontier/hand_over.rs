//! Partitions that come and go while the frontier works: a node takes one over, or hands one over to another node.
//!
//! A partition that comes was folded by whoever brings it; its hosts first rest, since nobody here knows what its last
//! owner did a moment ago. A partition that goes is **closed** first: its hosts get no more tickets and leave the bench one
//! by one as their open tickets are reported and what is on its way into the log has arrived. When nothing of it is left
//! here ([`Frontier::is_closed`]) it can be taken out.
//!
//! What always holds: the partitions stand in the order of their prefixes, so bringing or taking one moves the numbers of
//! those behind it by one; a partition that is closed never gives out another ticket.

use super::Frontier;
use super::key::Prefixes;
use super::partition::Partition;
use super::workbench::HostIndex;
use crate::planted::{self, Bug};
use crate::state::State;
use crate::time::Now;

impl<S: State> Frontier<S> {
    /// Takes a partition over, folded as far as its log goes. Its first group, with this epoch, says so in the log; until
    /// that is durable nothing is given out. Gives its number.
    pub fn add_partition(&mut self, prefixes: Prefixes, state: S, epoch: u64, now: Now) -> usize {
        let at = self.partitions.partition_point(|partition| partition.prefixes < prefixes);
        let mut partition = Partition::new(prefixes, state);
        partition.epoch = epoch;
        partition.claimed = false;
        self.partitions.insert(at, partition);
        self.scan_partition = 0;
        if !planted::is(Bug::TakeOverWithoutRest) {
            // Hosts that are at hand go by what we did ourselves; all others might be of this partition.
            self.bench.rest_all(now.mono);
        }
        at
    }

    /// A partition gives out nothing more; its hosts leave the bench as soon as they may. It still takes offers: the pages
    /// that are open have links into it, and are reported only when those are durable.
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

    /// Is nothing of a closed partition left here, neither at hand nor on its way into its log?
    pub fn is_closed(&self, partition: usize) -> bool {
        let here = &self.partitions[partition];
        here.closing
            && here.in_flight.is_none()
            && here.pending.is_empty()
            && here.streams.is_empty()
            && here.offers.is_empty()
            && !self.bench.has_any(here.prefixes)
    }

    /// Takes a closed partition out.
    pub fn remove_partition(&mut self, partition: usize) -> S {
        assert!(self.is_closed(partition), "a partition is closed before it is taken out");
        self.scan_partition = 0;
        let gone = self.partitions.remove(partition);
        // What was offered to it a moment ago is not known here any more.
        self.recent.forget_all(gone.prefixes);
        gone.state
    }
}
