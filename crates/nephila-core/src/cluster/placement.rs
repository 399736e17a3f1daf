//! Which node should own which partition: the same answer on every node, from the same list of nodes and partitions.
//!
//! A partition stays where it is as long as possible. A partition that **works**, because its pages are fetched,
//! moves when its owner is gone or leaving, when its owner fetches more than [`HIGH`] of the mean, or when another
//! node fetches less than [`LOW`] of the mean (a node that joined, say). Loads that differ by less than [`MATERIAL`]
//! are alike: nothing moves for trifles.
//!
//! A partition that is **idle** weighs nothing now, and new domains come to the partition later. So idle partitions
//! that move go to the nodes that **have room**, the least loaded one and the nodes like it, and are spread evenly
//! over these. A node that is **crowded**, because its fetches far exceed the fetches of the least loaded one, gives
//! away its idle partitions that hold nothing; only the node itself knows which partitions these are. So new domains
//! go to the least loaded node, and stay there.
//!
//! **Rendezvous hashing** decides where a partition goes: each pair of node and partition has a fixed score, and the
//! nodes with room are tried in the order of their scores; so nodes that see slightly different lists still mostly
//! agree. A partition that an operator has **pinned** goes to its node and stays there as long as that node lives and
//! does not leave. When the node is gone the partition is placed like any other, and comes back with the node.
//!
//! Invariants: the answer does not depend on the order of the lists; as long as one node stays, every partition has a
//! place; and pins and partitions that are heavier than a quarter of the mean aside, no node carries more than
//! [`HIGH`] and [`MATERIAL`].

use xxhash_rust::xxh3::xxh3_64;

use super::NodeId;

/// A node that carries more than this share of the mean gives partitions away, in percent.
pub const HIGH: u64 = 125;

/// A node that carries less than this share of the mean is given partitions, in percent.
pub const LOW: u64 = 75;

/// Once something has to move, nodes are brought this near to the mean, in percent: one more fetch a second must not
/// move the next partition.
const NEAR: u64 = 10;

/// Loads that differ by less than this number of fetches a minute are alike, so that a cluster with little to do
/// stays as it is, however uneven the load is.
pub const MATERIAL: u64 = 120;

/// A node is like the least loaded one as long as its fetches exceed the least load by no more than this share of the
/// mean, in percent. At twice this share a node is crowded; a node between the two gets nothing and keeps its
/// partitions.
const ALIKE: u64 = 25;

/// Loads are scaled to keep shares exact enough in whole numbers.
const SCALE: u64 = 1 << 12;

/// A node that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The node.
    pub id: NodeId,
    /// The node is leaving: it gets nothing more and gives everything away.
    pub draining: bool,
}

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionView {
    /// The partition.
    pub number: u32,
    /// Its load in fetches a minute; none if unknown.
    pub load: Option<u32>,
    /// Its owner. An owner that is not among the nodes counts as none.
    pub owner: Option<NodeId>,
    /// The node to which an operator has pinned the partition.
    pub pin: Option<NodeId>,
}

/// A placement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// The owner of each of the partitions, in their order. None only if every node is leaving.
    pub to: Vec<Option<NodeId>>,
    /// Nodes that should give away their empty partitions, in the order of their ids.
    pub crowded: Vec<NodeId>,
}

/// Decides which node should own each of the partitions.
pub fn place(nodes: &[NodeView], partitions: &[PartitionView]) -> Placed {
    let mut ids: Vec<NodeId> = nodes.iter().filter(|node| !node.draining).map(|node| node.id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() || partitions.is_empty() {
        return Placed { to: vec![None; partitions.len()], crowded: Vec::new() };
    }
    let mut order: Vec<usize> = (0..partitions.len()).collect();
    order.sort_unstable_by_key(|&i| partitions[i].number);
    let weights = weights(partitions);
    let mut plan = Plan {
        loads: vec![0; ids.len()],
        counts: vec![0; ids.len()],
        at: vec![None; partitions.len()],
        pinned: vec![false; partitions.len()],
        numbers: partitions.iter().map(|partition| partition.number).collect(),
        order,
        weights,
        ids,
    };
    plan.stay(partitions);
    let everybody: Vec<usize> = (0..plan.ids.len()).collect();
    let work = Book { what: What::Work, mean: plan.mean(), slack: MATERIAL * SCALE, nodes: everybody };
    plan.settle(&work);
    plan.level(&work);
    let idle = plan.idle(&work);
    plan.settle(&idle);
    plan.level(&idle);
    Placed {
        crowded: plan.above(&work, 2).map(|node| plan.ids[node]).collect(),
        to: plan.at.iter().map(|at| at.map(|node| plan.ids[node])).collect(),
    }
}

/// The weight of each partition as work: 0 if idle. A partition of unknown load has the mean of the known loads.
fn weights(partitions: &[PartitionView]) -> Vec<u64> {
    let (sum, known) = partitions
        .iter()
        .filter_map(|partition| partition.load)
        .fold((0, 0), |(sum, n), load| (sum + u64::from(load) * SCALE, n + 1));
    let mean = sum.checked_div(known).unwrap_or(0);
    partitions.iter().map(|partition| partition.load.map_or(mean, |load| u64::from(load) * SCALE)).collect()
}

/// How well a node and a partition go together: any fixed number, the same everywhere and for ever.
fn score(node: NodeId, partition: u32) -> u64 {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&node.0.to_be_bytes());
    bytes[8..].copy_from_slice(&partition.to_be_bytes());
    xxh3_64(&bytes)
}

/// The quantity that is spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Fetches, by the partitions that work.
    Work,
    /// Partitions, by the idle ones.
    Idle,
}

/// A quantity to be spread, and the nodes that share it.
#[derive(Debug)]
struct Book {
    what: What,
    /// The target for each of the nodes.
    mean: u64,
    /// Differences up to this count as none.
    slack: u64,
    /// The nodes that take part.
    nodes: Vec<usize>,
}

impl Book {
    fn percent(&self, percent: u64) -> u64 {
        self.mean * percent / 100
    }
}

/// A placement in progress. Nodes go by their place among the sorted ids.
struct Plan {
    ids: Vec<NodeId>,
    /// Fetches of each node.
    loads: Vec<u64>,
    /// Partitions of each node, idle or not.
    counts: Vec<u64>,
    /// By place in the caller's list.
    at: Vec<Option<usize>>,
    /// By place in the caller's list: whether the partition stays where it was pinned.
    pinned: Vec<bool>,
    weights: Vec<u64>,
    numbers: Vec<u32>,
    /// The places by number.
    order: Vec<usize>,
}

impl Plan {
    fn mean(&self) -> u64 {
        (self.weights.iter().sum::<u64>() / self.ids.len() as u64).max(1)
    }

    fn put(&mut self, partition: usize, node: usize) {
        if let Some(before) = self.at[partition].replace(node) {
            self.loads[before] -= self.weights[partition];
            self.counts[before] -= SCALE;
        }
        self.loads[node] += self.weights[partition];
        self.counts[node] += SCALE;
    }

    /// A node's amount of this quantity.
    fn has(&self, book: &Book, node: usize) -> u64 {
        match book.what {
            What::Work => self.loads[node],
            What::Idle => self.counts[node],
        }
    }

    /// A partition's amount of this quantity.
    fn is_of(&self, book: &Book, partition: usize) -> u64 {
        match book.what {
            What::Work => self.weights[partition],
            What::Idle => SCALE,
        }
    }

    /// The partitions that are spread, by number.
    fn items<'a>(&'a self, book: &'a Book) -> impl Iterator<Item = usize> + 'a {
        self.order.iter().copied().filter(|&i| (self.weights[i] > 0) == (book.what == What::Work))
    }

    /// Nodes whose load exceeds the least load by more than `times` the difference that counts as alike.
    fn above<'a>(&'a self, work: &'a Book, times: u64) -> impl Iterator<Item = usize> + 'a {
        let least = self.loads.iter().copied().min().unwrap_or(0);
        let alike = work.percent(ALIKE).max(work.slack);
        (0..self.ids.len()).filter(move |&node| self.loads[node] > least + times * alike)
    }

    /// The quantity for idle partitions: they are spread over the nodes that have room.
    fn idle(&self, work: &Book) -> Book {
        let mut full = vec![false; self.ids.len()];
        self.above(work, 1).for_each(|node| full[node] = true);
        let nodes: Vec<usize> = (0..self.ids.len()).filter(|&node| !full[node]).collect();
        let homeless = self.at.iter().filter(|at| at.is_none()).count() as u64 * SCALE;
        let there: u64 = nodes.iter().map(|&node| self.counts[node]).sum();
        // There is room: the least loaded node is not above itself.
        let mean = ((there + homeless) / nodes.len() as u64).max(1);
        Book { what: What::Idle, mean, slack: 0, nodes }
    }

    /// Pinned partitions go to their nodes; the others stay with their owners if the owners stay.
    fn stay(&mut self, partitions: &[PartitionView]) {
        for (i, partition) in partitions.iter().enumerate() {
            if let Some(pin) = partition.pin.and_then(|pin| self.ids.binary_search(&pin).ok()) {
                self.put(i, pin);
                self.pinned[i] = true;
                continue;
            }
            let owner = partition.owner.and_then(|owner| self.ids.binary_search(&owner).ok());
            if let Some(owner) = owner {
                self.put(i, owner);
            }
        }
    }

    /// Places the partitions without an owner, the heaviest first: by rendezvous among the nodes well below the mean,
    /// then among the nodes below the mean, and else with the least loaded node. So a partition that a full node gave
    /// away never comes back to that node.
    fn settle(&mut self, book: &Book) {
        let mut homeless: Vec<usize> = self.items(book).filter(|&i| self.at[i].is_none()).collect();
        homeless.sort_by_key(|&i| std::cmp::Reverse(self.is_of(book, i)));
        for i in homeless {
            let fits = |max: u64| {
                let fits = |node: &usize| self.has(book, *node) + self.is_of(book, i) <= max;
                let room = book.nodes.iter().copied().filter(fits);
                room.max_by_key(|&node| score(self.ids[node], self.numbers[i]))
            };
            let least = || {
                let by_load = |node: &usize| {
                    (self.has(book, *node), std::cmp::Reverse(score(self.ids[*node], self.numbers[i])))
                };
                book.nodes.iter().copied().min_by_key(by_load).expect("there is a node")
            };
            let node = fits(book.percent(100 - NEAR)).or_else(|| fits(book.mean)).unwrap_or_else(least);
            self.put(i, node);
        }
    }

    /// Moves partitions from the fullest node to the emptiest while one of them is out of bounds, and a little
    /// further.
    fn level(&mut self, book: &Book) {
        let is_within = |plan: &Plan, by: u64, slack: u64| {
            let (high, low) = plan.ends(book);
            plan.has(book, high) <= book.percent(100 + by) + slack
                && plan.has(book, low) + slack >= book.percent(100 - by)
        };
        if is_within(self, HIGH - 100, book.slack) {
            return;
        }
        // Each partition moves once at most; every move brings the two nodes nearer to each other.
        for _ in 0..self.at.len() {
            if is_within(self, NEAR, book.slack / 2) {
                return;
            }
            let (high, low) = self.ends(book);
            let Some(partition) = self.to_move(book, high, low) else { return };
            self.put(partition, low);
        }
    }

    /// The fullest node and the emptiest.
    fn ends(&self, book: &Book) -> (usize, usize) {
        let key = |node: &usize| (self.has(book, *node), self.ids[*node]);
        let nodes = book.nodes.iter().copied();
        let high = nodes.clone().max_by_key(key).expect("there is a node");
        (high, nodes.min_by_key(key).expect("there is a node"))
    }

    /// The partition that brings both ends nearest to the mean without passing the mean: the heaviest that fits into
    /// the surplus of one and the shortfall of the other; else the lightest that still helps.
    fn to_move(&self, book: &Book, high: usize, low: usize) -> Option<usize> {
        let much = self.has(book, high).saturating_sub(book.mean);
        let little = book.mean.saturating_sub(self.has(book, low));
        let fit = much.min(little);
        let helps = |i: usize| self.has(book, low) + self.is_of(book, i) < self.has(book, high);
        let may_go = |i: usize| self.at[i] == Some(high) && !self.pinned[i];
        let mine = || self.items(book).filter(|&i| may_go(i) && helps(i));
        let by_score = |i: usize| score(self.ids[low], self.numbers[i]);
        mine()
            .filter(|&i| self.is_of(book, i) <= fit)
            .max_by_key(|&i| (self.is_of(book, i), by_score(i)))
            .or_else(|| mine().min_by_key(|&i| (self.is_of(book, i), std::cmp::Reverse(by_score(i)))))
    }
}

#[cfg(test)]
mod tests;
