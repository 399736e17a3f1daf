//! The store that all nodes share: leases with a time to live, owner records with revisions. A model of the engine,
//! which answers in order, a few milliseconds late, and loses nothing.
//!
//! All nodes that read see the same, so everything that follows from the store alone (present owners, intended owners,
//! the ring) is computed once for all of them.
//!
//! Invariants: a record changes by compare-and-swap alone; a reader sees owner records and leases of one moment; a
//! lease that is gone is never renewed.

use std::sync::Arc;

use nephila_core::cluster::member::{NodeRecord, Outlook, OwnerRecord, OwnerState, SwapResult, View};
use nephila_core::cluster::slots::Ring;
use nephila_core::cluster::{Incarnation, NodeId};

use super::web::NONE;

/// Maximum age of loads in a read, in milliseconds: each load is renewed every four seconds. Leases and records are
/// never old.
const LOADS_AGE: u64 = 500;

/// The contents of a read.
#[derive(Clone, Debug)]
pub(super) struct Look {
    at: u64,
    pub(super) version: u64,
    pub(super) outlook: Arc<Outlook>,
    pub(super) ring: Ring,
}

#[derive(Debug)]
pub(super) struct Store {
    view: View,
    look: Option<Look>,
    ring: Ring,
    partitions: u32,
    /// Grows whenever a node comes or goes or a record changes. Loads alone do not count.
    pub(super) version: u64,
    revision: u64,
    /// By node: the index of its lease in the view, and the expiry of the lease.
    places: Vec<(u32, u64)>,
    ttl: u64,
}

impl Store {
    pub(super) fn new(nodes: usize, partitions: u32, ttl: u64) -> Store {
        Store {
            view: View::default(),
            look: None,
            ring: Ring::default(),
            partitions,
            version: 1,
            revision: 1,
            places: vec![(NONE, 0); nodes],
            ttl,
        }
    }

    fn changed(&mut self) {
        self.version += 1;
        let live: Vec<_> = self.view.nodes.iter().map(|node| (node.node, node.incarnation)).collect();
        self.ring = Ring::new(&live);
    }

    /// The current contents for readers.
    pub(super) fn look(&mut self, t: u64) -> &Look {
        let (version, view) = (self.version, &self.view);
        let old = |look: &Look| look.version != version || t >= look.at + LOADS_AGE;
        if self.look.as_ref().is_none_or(old) {
            let outlook = Arc::new(Outlook::new(view, self.partitions));
            self.look = Some(Look { at: t, version, outlook, ring: self.ring.clone() });
        }
        self.look.as_ref().expect("it was just made")
    }

    /// A partition has this owner from the beginning.
    pub(super) fn give(&mut self, partition: u32, node: NodeId, incarnation: Incarnation) {
        self.revision += 1;
        let record = OwnerRecord { node, incarnation, state: OwnerState::Owned, load: None };
        self.view.owners.insert(partition, (self.revision, record));
    }

    pub(super) fn acquire(&mut self, t: u64, node: u32, record: NodeRecord) -> SwapResult {
        if self.places[node as usize].0 != NONE {
            return SwapResult::Refused;
        }
        self.places[node as usize] = (self.view.nodes.len() as u32, t + self.ttl);
        self.view.nodes.push(record);
        self.revision += 1;
        self.changed();
        SwapResult::Done(self.revision)
    }

    pub(super) fn renew(&mut self, t: u64, node: u32, record: NodeRecord) -> SwapResult {
        let (place, until) = &mut self.places[node as usize];
        if *place == NONE || self.view.nodes[*place as usize].incarnation != record.incarnation {
            return SwapResult::Refused;
        }
        *until = t + self.ttl;
        self.view.nodes[*place as usize] = record;
        self.revision += 1;
        SwapResult::Done(self.revision)
    }

    /// The expiry of a node's lease, if the node has one.
    pub(super) fn until(&self, node: u32) -> Option<u64> {
        let (place, until) = self.places[node as usize];
        (place != NONE).then_some(until)
    }

    /// The lease of a node is over.
    pub(super) fn expire(&mut self, node: u32) {
        let (place, _) = std::mem::replace(&mut self.places[node as usize], (NONE, 0));
        self.view.nodes.swap_remove(place as usize);
        let last = self.view.nodes.len() as u32;
        for (at, _) in self.places.iter_mut().filter(|(at, _)| *at == last) {
            *at = place;
        }
        self.changed();
    }

    /// Compare-and-swap of an owner record.
    pub(super) fn swap(&mut self, partition: u32, expected: Option<u64>, record: OwnerRecord) -> SwapResult {
        let now = self.view.owners.get(&partition).map(|(revision, _)| *revision);
        if now != expected {
            return SwapResult::Refused;
        }
        self.revision += 1;
        self.view.owners.insert(partition, (self.revision, record));
        self.version += 1;
        SwapResult::Done(self.revision)
    }
}
