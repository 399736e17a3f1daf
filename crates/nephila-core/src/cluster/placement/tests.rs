//! The placement: shares, moves, pins, and that nothing moves without a reason.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn nodes(ids: impl IntoIterator<Item = u64>) -> Vec<NodeView> {
    ids.into_iter().map(|id| NodeView { id: NodeId(id), draining: false }).collect()
}

fn fresh(count: u32) -> Vec<PartitionView> {
    (0..count).map(|number| PartitionView { number, load: None, owner: None, pin: None }).collect()
}

/// Places the partitions and applies the placement; returns the number that moved.
fn settle(nodes: &[NodeView], partitions: &mut [PartitionView]) -> usize {
    let placed = place(nodes, partitions).to;
    let moved = placed.iter().zip(partitions.iter()).filter(|(to, from)| **to != from.owner).count();
    partitions.iter_mut().zip(placed).for_each(|(partition, to)| partition.owner = to);
    moved
}

fn counts(partitions: &[PartitionView]) -> BTreeMap<NodeId, u64> {
    let mut counts = BTreeMap::new();
    partitions.iter().for_each(|p| *counts.entry(p.owner.unwrap()).or_default() += 1);
    counts
}

#[test]
fn nothing_moves_while_nothing_changes() {
    let mut partitions = fresh(256);
    assert_eq!(settle(&nodes(1..=5), &mut partitions), 256);
    assert_eq!(settle(&nodes(1..=5), &mut partitions), 0);
}

#[test]
fn a_node_that_joins_gets_its_share_and_nothing_else_moves() {
    let mut partitions = fresh(256);
    settle(&nodes(1..=1), &mut partitions);
    for count in 2..=12u64 {
        let before = partitions.clone();
        let moved = settle(&nodes(1..=count), &mut partitions);
        let to_others = partitions
            .iter()
            .zip(&before)
            .filter(|(now, then)| now.owner != then.owner && now.owner != Some(NodeId(count)));
        assert_eq!(to_others.count(), 0, "{count} nodes");
        assert!(moved as u64 <= 256 / count + 1, "{moved} moved to the {count}th node");
        assert!(moved as u64 >= 256 * LOW / 100 / count, "{moved} moved to the {count}th node");
    }
}

#[test]
fn a_node_that_goes_moves_only_its_own() {
    let mut partitions = fresh(256);
    settle(&nodes(1..=8), &mut partitions);
    let own = counts(&partitions)[&NodeId(3)];
    assert_eq!(settle(&nodes((1..=8).filter(|id| *id != 3)), &mut partitions) as u64, own);
}

#[test]
fn a_node_that_leaves_counts_as_gone_and_the_last_one_leaves_nothing() {
    let mut partitions = fresh(64);
    settle(&nodes(1..=4), &mut partitions);
    let mut leaving = nodes(1..=4);
    leaving[1].draining = true;
    settle(&leaving, &mut partitions);
    assert!(!counts(&partitions).contains_key(&NodeId(2)));
    leaving.iter_mut().for_each(|node| node.draining = true);
    assert!(place(&leaving, &partitions).to.iter().all(Option::is_none));
    assert!(place(&[], &partitions).to.iter().all(Option::is_none));
}

#[test]
fn what_a_full_node_gives_away_does_not_come_back_to_it() {
    // Everything is on node 1; the node gives away one after another, and each is placed while it has no owner.
    let mut partitions = fresh(40);
    partitions.iter_mut().for_each(|partition| partition.owner = Some(NodeId(1)));
    let nodes = nodes(1..=3);
    for _ in 0..100 {
        let placed = place(&nodes, &partitions).to;
        let Some(at) = (0..40).find(|&i| placed[i] != partitions[i].owner) else { break };
        partitions[at].owner = None;
        let to = place(&nodes, &partitions).to[at];
        assert_ne!(to, Some(NodeId(1)));
        partitions[at].owner = to;
    }
    assert!(counts(&partitions).values().all(|count| (10..=16).contains(count)), "{:?}", counts(&partitions));
}

#[test]
fn one_giant_partition_moves_the_others_away() {
    let mut partitions = fresh(32);
    settle(&nodes(1..=2), &mut partitions);
    partitions.iter_mut().for_each(|partition| partition.load = Some(1_000));
    partitions[0].load = Some(15_000);
    settle(&nodes(1..=2), &mut partitions);
    let owner = partitions[0].owner;
    let load = |mine: bool| {
        partitions.iter().filter(|p| (p.owner == owner) == mine).map(|p| p.load.unwrap()).sum::<u32>()
    };
    assert!(load(true).abs_diff(load(false)) <= 10_000, "{} and {}", load(true), load(false));
}

#[test]
fn a_cluster_with_little_to_do_stays_as_it_is() {
    let mut partitions = fresh(64);
    settle(&nodes(1..=4), &mut partitions);
    // The last hosts of a crawl, all on one node, at ten pages a minute.
    for partition in partitions.iter_mut() {
        partition.load = Some(if partition.owner == Some(NodeId(2)) { 10 } else { 0 });
    }
    assert_eq!(settle(&nodes(1..=4), &mut partitions), 0);
}

/// Two nodes with a giant domain each, which cannot be divided, and a third one that does nothing.
fn two_giants() -> Vec<PartitionView> {
    let mut partitions = fresh(64);
    settle(&nodes(1..=3), &mut partitions);
    partitions.iter_mut().for_each(|partition| partition.load = Some(0));
    for id in [1, 2] {
        let giant = partitions.iter_mut().find(|partition| partition.owner == Some(NodeId(id)));
        giant.unwrap().load = Some(600);
    }
    partitions
}

#[test]
fn row_06_what_a_crowded_node_gives_away_goes_to_the_least_loaded() {
    let mut partitions = two_giants();
    let nodes = nodes(1..=3);
    assert_eq!(settle(&nodes, &mut partitions), 0, "nothing moves by itself");
    assert_eq!(place(&nodes, &partitions).crowded, [NodeId(1), NodeId(2)]);
    // They give away idle partitions, one after another; none comes back, and nothing else moves.
    for i in 0..partitions.len() {
        if partitions[i].load == Some(0) && partitions[i].owner != Some(NodeId(3)) {
            partitions[i].owner = None;
            assert_eq!(settle(&nodes, &mut partitions), 1);
            assert_eq!(partitions[i].owner, Some(NodeId(3)));
        }
    }
    assert_eq!(counts(&partitions), BTreeMap::from([(NodeId(1), 1), (NodeId(2), 1), (NodeId(3), 62)]));
    assert_eq!(settle(&nodes, &mut partitions), 0);
    // New domains came, and now the third node has as much to do as the others: idle partitions are spread again.
    partitions.iter_mut().filter(|p| p.owner == Some(NodeId(3))).take(40).for_each(|p| p.load = Some(14));
    settle(&nodes, &mut partitions);
    assert_eq!(settle(&nodes, &mut partitions), 0);
    let counts = counts(&partitions);
    assert!(counts[&NodeId(1)] > 8 && counts[&NodeId(2)] > 8, "{counts:?}");
    assert_eq!(place(&nodes, &partitions).crowded, []);
}

#[test]
fn row_06_nobody_is_crowded_while_loads_are_alike() {
    let mut partitions = two_giants();
    let nodes = nodes(1..=3);
    for load in [0, 10, 100] {
        partitions.iter_mut().filter(|p| p.load > Some(0)).for_each(|p| p.load = Some(load.max(1)));
        assert_eq!(place(&nodes, &partitions).crowded, [], "{load}");
        assert_eq!(settle(&nodes, &mut partitions), 0, "{load}");
    }
}

#[test]
fn what_is_pinned_goes_there_and_stays_while_its_node_lives() {
    let mut partitions = fresh(64);
    settle(&nodes(1..=4), &mut partitions);
    let other = |owner: Option<NodeId>| owner.map(|NodeId(id)| NodeId(id % 4 + 1));
    let to = other(partitions[7].owner);
    partitions[7].pin = to;
    let moved = settle(&nodes(1..=4), &mut partitions);
    assert_eq!((partitions[7].owner, moved), (to, 1), "nothing else moves");
    assert_eq!(settle(&nodes(1..=4), &mut partitions), 0);
    // However much it becomes, the others make room for it.
    partitions.iter_mut().for_each(|partition| partition.load = Some(100));
    partitions[7].load = Some(2_000);
    settle(&nodes(1..=4), &mut partitions);
    assert_eq!(partitions[7].owner, to);
    // Its node goes, and comes back.
    let without = nodes((1..=4).filter(|id| Some(NodeId(*id)) != to));
    settle(&without, &mut partitions);
    assert!(partitions[7].owner.is_some() && partitions[7].owner != to);
    settle(&nodes(1..=4), &mut partitions);
    assert_eq!(partitions[7].owner, to);
    // A node that leaves gives it away all the same.
    let mut leaving = nodes(1..=4);
    leaving.iter_mut().filter(|node| Some(node.id) == to).for_each(|node| node.draining = true);
    settle(&leaving, &mut partitions);
    assert_ne!(partitions[7].owner, to);
}

#[test]
fn everything_pinned_to_one_node_is_there() {
    let mut partitions = fresh(16);
    partitions.iter_mut().for_each(|partition| partition.pin = Some(NodeId(2)));
    settle(&nodes(1..=3), &mut partitions);
    assert!(partitions.iter().all(|partition| partition.owner == Some(NodeId(2))));
    assert_eq!(settle(&nodes(1..=3), &mut partitions), 0);
}

// Nodes of different versions must agree, so the scores never change.
#[test]
fn golden_scores() {
    assert_eq!([score(NodeId(1), 0), score(NodeId(2), 77)], GOLDEN);
}

const GOLDEN: [u64; 2] = [12_648_982_341_097_145_995, 16_324_625_027_215_251_766];

fn any_cluster() -> impl Strategy<Value = (Vec<NodeView>, Vec<PartitionView>)> {
    let nodes = proptest::collection::btree_map(1u64..30, proptest::bool::weighted(0.15), 1..12);
    let partition = (proptest::option::of(0u32..1_000), proptest::option::of(1u64..40));
    (nodes, proptest::collection::vec(partition, 1..200)).prop_map(|(nodes, partitions)| {
        let nodes = nodes.into_iter().map(|(id, draining)| NodeView { id: NodeId(id), draining }).collect();
        let view = |(number, (load, owner)): (usize, (Option<u32>, Option<u64>))| PartitionView {
            number: number as u32,
            load,
            owner: owner.map(NodeId),
            pin: None,
        };
        (nodes, partitions.into_iter().enumerate().map(view).collect())
    })
}

proptest! {
    #[test]
    fn the_order_of_the_lists_does_not_matter((nodes, partitions) in any_cluster(), turn: prop::sample::Index) {
        let straight = place(&nodes, &partitions);
        let (mut nodes, mut turned) = (nodes, partitions.clone());
        let by = turn.index(turned.len());
        nodes.reverse();
        turned.rotate_left(by);
        let mut placed = place(&nodes, &turned);
        placed.to.rotate_right(by);
        prop_assert_eq!(placed, straight);
    }

    #[test]
    fn everything_has_a_place_and_nobody_is_above_the_bound((nodes, partitions) in any_cluster()) {
        let placed = place(&nodes, &partitions).to;
        let staying: Vec<NodeId> = nodes.iter().filter(|n| !n.draining).map(|n| n.id).collect();
        if staying.is_empty() {
            prop_assert!(placed.iter().all(Option::is_none));
            return Ok(());
        }
        let weights = weights(&partitions);
        let mean = weights.iter().sum::<u64>() / staying.len() as u64;
        for id in &staying {
            let mine = placed.iter().zip(&weights).filter(|(at, _)| **at == Some(*id));
            let load: u64 = mine.map(|(_, weight)| weight).sum();
            let heaviest = weights.iter().copied().max().unwrap();
            let above = (mean / 4 + MATERIAL * SCALE).max(heaviest);
            prop_assert!(load <= mean + above, "{load} of {mean}, the heaviest {heaviest}");
        }
        prop_assert!(placed.iter().all(|at| at.is_some_and(|id| staying.contains(&id))));
    }

    #[test]
    fn it_comes_to_rest((nodes, mut partitions) in any_cluster()) {
        settle(&nodes, &mut partitions);
        let again = settle(&nodes, &mut partitions);
        prop_assert!(again == 0 || partitions.len() < 16 * nodes.len(), "{again} moved again");
        for _ in 0..partitions.len() {
            if settle(&nodes, &mut partitions) == 0 {
                return Ok(());
            }
        }
        prop_assert_eq!(settle(&nodes, &mut partitions), 0);
    }
}
