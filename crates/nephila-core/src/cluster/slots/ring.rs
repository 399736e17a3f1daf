//! The live nodes as one of them sees them, and which of them owns a slot.
//!
//! Invariants: nodes that see the same live nodes find the same owner and the same hash, in whichever order the nodes
//! are listed; when a node comes or goes, only slots of that node change owners.

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::packet::put_slot;
use crate::cluster::{Incarnation, NodeId};
use crate::frontier::slot::SlotKey;

/// The live nodes, each in one incarnation. A clone shares the list.
#[derive(Clone, Debug, Default)]
pub struct Ring {
    /// By incarnation.
    nodes: Arc<[(Incarnation, NodeId)]>,
    hash: u64,
}

impl PartialEq for Ring {
    fn eq(&self, other: &Ring) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.nodes, &other.nodes) || self.nodes == other.nodes)
    }
}

impl Eq for Ring {}

impl Ring {
    /// The ring of these nodes.
    pub fn new(live: &[(NodeId, Incarnation)]) -> Ring {
        let mut nodes: Vec<_> = live.iter().map(|(node, incarnation)| (*incarnation, *node)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let mut bytes = Vec::with_capacity(nodes.len() * 16);
        for (incarnation, node) in &nodes {
            bytes.extend(incarnation.0.to_be_bytes());
            bytes.extend(node.0.to_be_bytes());
        }
        Ring { nodes: nodes.into(), hash: xxh3_64(&bytes) }
    }

    /// A hash of the nodes: the same for the same nodes.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether the ring has no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether this incarnation is in the ring.
    pub fn holds(&self, incarnation: Incarnation) -> bool {
        self.nodes.binary_search_by_key(&incarnation, |(incarnation, _)| *incarnation).is_ok()
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, Incarnation)> + '_ {
        self.nodes.iter().map(|(incarnation, node)| (*node, *incarnation))
    }

    /// The node that grants the turns of a slot; none if the ring is empty.
    pub fn owner(&self, slot: SlotKey) -> Option<Incarnation> {
        let mut bytes = Vec::with_capacity(10);
        put_slot(&mut bytes, slot);
        let of_slot = xxh3_64(&bytes);
        // Of two nodes with the same score the later incarnation wins: it stands later.
        let best = self.nodes.iter().max_by_key(|(_, node)| score(of_slot, *node));
        best.map(|(incarnation, _)| *incarnation)
    }
}

/// How well a slot and a node go together (rendezvous hashing): any fixed number. Every lookup scores each node, so
/// the score is cheap: two rounds of a multiplication that mixes all bits.
fn score(of_slot: u64, node: NodeId) -> u64 {
    let mut mixed = of_slot ^ node.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(ids: impl IntoIterator<Item = u64>) -> Ring {
        let live: Vec<_> = ids.into_iter().map(|id| (NodeId::of(&id.to_string()), Incarnation(id))).collect();
        Ring::new(&live)
    }

    #[test]
    fn the_order_does_not_matter_and_another_life_is_another_ring() {
        assert_eq!(ring([3, 1, 2]), ring([1, 2, 3]));
        assert_ne!(ring([1, 2]).hash(), ring([1, 2, 3]).hash());
        let again = Ring::new(&[(NodeId(1), Incarnation(2))]);
        assert_ne!(Ring::new(&[(NodeId(1), Incarnation(1))]).hash(), again.hash());
        assert!(Ring::new(&[]).owner(SlotKey::V4(1)).is_none());
    }

    #[test]
    fn a_node_that_comes_takes_its_share_and_nothing_else_moves() {
        let (before, after) = (ring(1..=7), ring(1..=8));
        let mut counts = std::collections::BTreeMap::new();
        for bits in 0..8_000 {
            let slot = if bits % 2 == 0 { SlotKey::V4(bits) } else { SlotKey::V6(bits.into()) };
            let owner = after.owner(slot).unwrap();
            *counts.entry(owner).or_insert(0u32) += 1;
            assert!(owner == Incarnation(8) || Some(owner) == before.owner(slot));
        }
        assert!(counts.len() == 8 && counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
