//! The meaning of a view, by partition, and the placement that follows from the view.
//!
//! The outlook follows from the view alone. So the outlook is computed once for each view, and a caller with several
//! members over one store, such as a simulation, computes the outlook once for all of them.
//!
//! Invariants: every list has a place for each partition; a partition counts as owned only while its owner's lease is
//! in the view.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::{NodeRecord, OwnerState, View};
use crate::cluster::placement::{NodeView, PartitionView, Placed, place};
use crate::cluster::{Incarnation, NodeId};

/// See the module.
#[derive(Debug)]
pub struct Outlook {
    nodes: Vec<NodeView>,
    /// The live leases, sorted.
    leases: Vec<Incarnation>,
    /// By partition: the revision of its record, 0 if there is none.
    pub(super) revisions: Vec<u64>,
    has_record: Vec<bool>,
    /// By partition: the node that owns the partition and whose lease lives.
    owners: Vec<Option<NodeId>>,
    /// The load in the owner's lease, or else in the owner record. Never a load that only one node knows: nodes that
    /// weigh a free partition differently would leave the partition to each other for ever.
    loads: Vec<Option<u32>>,
    /// The owner of each partition by its record, whether the owner's lease lives or not, sorted.
    owned: Vec<(Incarnation, u32)>,
    /// The pins: partition to node.
    pins: BTreeMap<u32, NodeId>,
    plan: OnceLock<Plan>,
}

/// The placement: which node should own which partition.
#[derive(Debug)]
pub(super) struct Plan {
    to: Vec<Option<NodeId>>,
    /// The same by node, sorted.
    by_node: Vec<(NodeId, u32)>,
    /// Nodes that should give away their empty partitions, sorted.
    crowded: Vec<NodeId>,
}

impl Outlook {
    /// The outlook of this view for this number of partitions.
    pub fn new(view: &View, partitions: u32) -> Outlook {
        let mut leases: Vec<&NodeRecord> = view.nodes.iter().collect();
        leases.sort_unstable_by_key(|node| node.incarnation);
        let count = partitions as usize;
        let mut outlook = Outlook {
            nodes: view
                .nodes
                .iter()
                .map(|node| NodeView { id: node.node, draining: node.draining })
                .collect(),
            leases: leases.iter().map(|node| node.incarnation).collect(),
            revisions: vec![0; count],
            has_record: vec![false; count],
            owners: vec![None; count],
            loads: vec![None; count],
            owned: Vec::with_capacity(count),
            pins: view.pins.clone(),
            plan: OnceLock::new(),
        };
        for (&number, (revision, record)) in view.owners.range(..partitions) {
            let at = number as usize;
            (outlook.revisions[at], outlook.has_record[at]) = (*revision, true);
            let mut load = None;
            if record.state == OwnerState::Owned {
                outlook.owned.push((record.incarnation, number));
                if let Ok(lease) = outlook.leases.binary_search(&record.incarnation) {
                    outlook.owners[at] = Some(leases[lease].node);
                    load = leases[lease].loads.get(&number).copied();
                }
            }
            outlook.loads[at] = load.or(record.load);
        }
        outlook.owned.sort_unstable();
        outlook
    }

    /// Whether the lease of this incarnation lives.
    pub(super) fn holds(&self, incarnation: Incarnation) -> bool {
        self.leases.binary_search(&incarnation).is_ok()
    }

    /// The revision of a partition's record, if there is one.
    pub(super) fn revision(&self, partition: u32) -> Option<u64> {
        let at = partition as usize;
        self.has_record[at].then(|| self.revisions[at])
    }

    /// Whether the partition has no owner.
    pub(super) fn is_free(&self, partition: u32) -> bool {
        self.owners[partition as usize].is_none()
    }

    pub(super) fn load(&self, partition: u32) -> Option<u32> {
        self.loads.get(partition as usize).copied().flatten()
    }

    /// Whether the partition is pinned.
    pub(super) fn is_pinned(&self, partition: u32) -> bool {
        self.pins.contains_key(&partition)
    }

    /// Whether the partition's record names this incarnation as the owner.
    pub(super) fn is_owned_by(&self, partition: u32, incarnation: Incarnation) -> bool {
        self.owned.binary_search(&(incarnation, partition)).is_ok()
    }

    /// The partitions whose records name this incarnation as the owner.
    pub(super) fn owned_by(&self, incarnation: Incarnation) -> impl Iterator<Item = u32> + '_ {
        of(&self.owned, incarnation)
    }

    /// The placement that follows from the view.
    pub(super) fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| self.plan_without(&[]))
    }

    /// The placement if these partitions, sorted, have no owner.
    pub(super) fn plan_without(&self, going: &[u32]) -> Plan {
        let partition = |number: u32| PartitionView {
            number,
            load: self.loads[number as usize],
            owner: self.owners[number as usize].filter(|_| going.binary_search(&number).is_err()),
            pin: self.pins.get(&number).copied(),
        };
        let partitions: Vec<PartitionView> = (0..self.owners.len() as u32).map(partition).collect();
        let Placed { to, crowded } = place(&self.nodes, &partitions);
        let mut by_node: Vec<(NodeId, u32)> =
            (0u32..).zip(&to).filter_map(|(number, to)| Some(((*to)?, number))).collect();
        by_node.sort_unstable();
        Plan { to, by_node, crowded }
    }
}

impl Plan {
    pub(super) fn is_for(&self, partition: u32, node: NodeId) -> bool {
        self.to[partition as usize] == Some(node)
    }

    /// Whether this node should give away its empty partitions.
    pub(super) fn is_crowded(&self, node: NodeId) -> bool {
        self.crowded.binary_search(&node).is_ok()
    }

    pub(super) fn all_for(&self, node: NodeId) -> impl Iterator<Item = u32> + '_ {
        of(&self.by_node, node)
    }
}

/// The values beside a key in a sorted list.
fn of<K: Copy + Ord>(list: &[(K, u32)], key: K) -> impl Iterator<Item = u32> + '_ {
    let from = list.partition_point(|(this, _)| *this < key);
    list[from..].iter().take_while(move |(this, _)| *this == key).map(|(_, number)| *number)
}
