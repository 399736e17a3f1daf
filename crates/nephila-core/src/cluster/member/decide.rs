//! The decisions of a node about its partitions after each view: claim, open, drain, release.
//!
//! Invariants: a record older than one already seen changes nothing; a partition of ours that another node took while
//! our lease holds fences the node.

use super::super::Epoch;
use super::{Action, Holding, Member, NodeRecord, Outlook, OwnerRecord, OwnerState, Phase};

impl Member {
    /// Notes a revision; false if a later one is known.
    pub(super) fn revision(&mut self, partition: u32, revision: u64) -> bool {
        let Some(known) = self.revisions.get_mut(partition as usize) else { return false };
        let fresh = revision >= *known;
        *known = revision.max(*known);
        fresh
    }

    /// Applies the records and leases of a view to each partition.
    pub(super) fn decide(&mut self, now: u64, outlook: &Outlook) {
        // Partitions that we are giving up count as without an owner. Otherwise another partition would be given up
        // in their place at the next view, when the loads are a little different.
        let going: Vec<u32> = self.holdings.keys().copied().filter(|number| self.is_going(*number)).collect();
        let own = (!going.is_empty()).then(|| outlook.plan_without(&going));
        let plan = own.as_ref().unwrap_or_else(|| outlook.plan());
        let crowded = plan.is_crowded(self.me.node);
        // All other partitions are the affair of other nodes.
        let (me, incarnation) = (self.me.node, self.me.incarnation);
        let mut ours: Vec<u32> = self.holdings.keys().copied().collect();
        ours.extend(outlook.owned_by(incarnation).chain(plan.all_for(me)));
        ours.sort_unstable();
        ours.dedup();
        for partition in ours {
            let record = outlook.revision(partition);
            let revision = record.unwrap_or(0);
            // A stale record: we have seen a later revision.
            if !self.revision(partition, revision) {
                continue;
            }
            let wanted = plan.is_for(partition, me)
                && !self.me.draining
                && !(crowded && self.is_spare(partition, outlook));
            let ours = outlook.is_owned_by(partition, incarnation);
            match self.holdings.get(&partition).copied() {
                // A claim without an answer has been written.
                None if ours => self.own(partition, revision, wanted),
                None => {
                    if outlook.is_free(partition)
                        && wanted
                        && !self.is_shunned(now, partition)
                        && self.opening() < self.settings.opens_max
                    {
                        self.claim(partition, record);
                    }
                }
                Some(Holding { phase: Phase::Claiming, .. }) => {
                    if ours {
                        self.own(partition, revision, wanted);
                    }
                }
                Some(Holding { phase: Phase::Releasing, epoch, asked }) => {
                    if revision > epoch {
                        self.holdings.remove(&partition);
                    } else if !asked {
                        self.release(partition, epoch);
                    }
                }
                Some(Holding { epoch, .. }) if revision > epoch => {
                    // Another node took a partition of ours while our lease holds. That cannot be, so we are wrong
                    // about the lease.
                    return self.fence();
                }
                Some(Holding { phase: Phase::Opening | Phase::Open, epoch, .. }) => {
                    if !wanted && self.draining() < self.settings.drains_max {
                        self.holdings
                            .insert(partition, Holding { phase: Phase::Draining, epoch, asked: false });
                        self.actions.push_back(Action::Drain { partition, epoch: Epoch(epoch) });
                    }
                }
                Some(Holding { phase: Phase::Draining, .. }) => {}
            }
        }
        for (known, seen) in self.revisions.iter_mut().zip(&outlook.revisions) {
            *known = (*known).max(*seen);
        }
    }

    /// Whether the partition holds nothing and is not pinned.
    fn is_spare(&self, partition: u32, outlook: &Outlook) -> bool {
        self.empty.contains(&partition) && !outlook.is_pinned(partition)
    }

    /// Whether we are giving up the partition.
    fn is_going(&self, partition: u32) -> bool {
        matches!(self.phase(partition), Some(Phase::Draining | Phase::Releasing))
    }

    fn is_shunned(&mut self, now: u64, partition: u32) -> bool {
        self.shunned.retain(|_, until| *until > now);
        self.shunned.contains_key(&partition)
    }

    fn opening(&self) -> usize {
        let opening = |holding: &&Holding| matches!(holding.phase, Phase::Claiming | Phase::Opening);
        self.holdings.values().filter(opening).count()
    }

    fn draining(&self) -> usize {
        let draining = |holding: &&Holding| matches!(holding.phase, Phase::Draining | Phase::Releasing);
        self.holdings.values().filter(draining).count()
    }

    fn record(&self, partition: u32, state: OwnerState) -> OwnerRecord {
        let NodeRecord { node, incarnation, .. } = self.me;
        OwnerRecord { node, incarnation, state, load: self.load(partition) }
    }

    fn claim(&mut self, partition: u32, expected: Option<u64>) {
        // Its load under an earlier lease of ours is stale.
        self.me.loads.remove(&partition);
        let epoch = expected.unwrap_or(0);
        self.holdings.insert(partition, Holding { phase: Phase::Claiming, epoch, asked: false });
        let record = self.record(partition, OwnerState::Owned);
        self.actions.push_back(Action::Claim { partition, expected, record });
    }

    /// The record says that the partition is ours.
    pub(super) fn own(&mut self, partition: u32, revision: u64, wanted: bool) {
        self.stats.claimed += 1;
        self.revision(partition, revision);
        if !wanted {
            return self.release(partition, revision);
        }
        self.holdings.insert(partition, Holding { phase: Phase::Opening, epoch: revision, asked: false });
        // Until the load is measured here, the load of the last view holds.
        if let Some(load) = self.seen_load(partition) {
            self.me.loads.insert(partition, load);
        }
        self.actions.push_back(Action::Open { partition, epoch: Epoch(revision) });
    }

    pub(super) fn release(&mut self, partition: u32, epoch: u64) {
        self.holdings.insert(partition, Holding { phase: Phase::Releasing, epoch, asked: true });
        let record = self.record(partition, OwnerState::Released);
        self.actions.push_back(Action::Release { partition, expected: epoch, record });
    }
}
