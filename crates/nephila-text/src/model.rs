//! Decision trees, and how a row of features is judged by them.
//!
//! The trees are data: `model.bin` is written by `xtask/text/train.py` and holds two forests, for the first and the
//! second look at a block. The sum over the trees of a forest is the logarithm of odds.
//!
//! Invariant: a broken file yields an empty forest, and every walk goes down only, so each walk ends.

use std::sync::LazyLock;

static FILE: &[u8] = include_bytes!("model.bin");

/// The forests of the crate.
pub(crate) static MODEL: LazyLock<Model> = LazyLock::new(|| Model::read(FILE).unwrap_or_default());

/// All forests.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) first: Forest,
    pub(crate) second: Forest,
}

/// Trees whose values are summed.
#[derive(Debug, Default)]
pub(crate) struct Forest {
    nodes: Vec<Node>,
    /// First node of each tree.
    roots: Vec<u32>,
    /// Number of features that the trees look at.
    width: usize,
}

/// A question about a feature, or a leaf if `below` is 0.
#[derive(Clone, Copy, Debug)]
struct Node {
    feature: u16,
    /// Distance to the node for a greater value; the node for a value up to the limit comes next.
    below: u16,
    /// The limit, or the value of a leaf.
    limit: f32,
}

/// Size in bytes of a node in the file.
const NODE_BYTES: usize = 8;

impl Model {
    fn read(mut file: &[u8]) -> Option<Model> {
        Some(Model { first: Forest::read(&mut file)?, second: Forest::read(&mut file)? })
    }
}

fn number(file: &mut &[u8]) -> Option<u32> {
    let (bytes, rest) = file.split_first_chunk::<4>()?;
    *file = rest;
    Some(u32::from_le_bytes(*bytes))
}

impl Forest {
    fn read(file: &mut &[u8]) -> Option<Forest> {
        let width = number(file)? as usize;
        let trees = number(file)? as usize;
        let count = number(file)? as usize;
        let mut roots = Vec::new();
        for _ in 0..trees {
            roots.push(number(file).filter(|root| (*root as usize) < count)?);
        }
        let bytes = file.get(..count.checked_mul(NODE_BYTES)?)?;
        *file = &file[bytes.len()..];
        let mut nodes = Vec::with_capacity(count);
        for (at, node) in bytes.chunks_exact(NODE_BYTES).enumerate() {
            let feature = u16::from_le_bytes([node[0], node[1]]);
            let below = u16::from_le_bytes([node[2], node[3]]);
            let limit = f32::from_le_bytes([node[4], node[5], node[6], node[7]]);
            if below > 0 && (at + usize::from(below) >= count || usize::from(feature) >= width) {
                return None;
            }
            nodes.push(Node { feature, below, limit });
        }
        // The last node has no next one, so it must be a leaf.
        nodes.last().is_none_or(|node| node.below == 0).then_some(Forest { nodes, roots, width })
    }

    fn walk(&self, root: u32, row: &[f32]) -> f32 {
        let mut at = root as usize;
        loop {
            let node = &self.nodes[at];
            if node.below == 0 {
                return node.limit;
            }
            at += if row[usize::from(node.feature)] <= node.limit { 1 } else { usize::from(node.below) };
        }
    }

    /// The chance of each row.
    pub(crate) fn chances(&self, width: usize, values: &[f32]) -> Vec<f32> {
        if width == 0 || width < self.width {
            return vec![0.0; values.len().checked_div(width).unwrap_or(0)];
        }
        let mut sums = vec![0.0_f32; values.len() / width];
        // Tree by tree, so that a tree stays close to the processor.
        for root in &self.roots {
            for (sum, row) in sums.iter_mut().zip(values.chunks_exact(width)) {
                *sum += self.walk(*root, row);
            }
        }
        sums.into_iter().map(|sum| 1.0 / (1.0 + (-sum).exp())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_whole() {
        let model = Model::read(FILE).unwrap();
        assert!(!model.first.roots.is_empty() && !model.second.roots.is_empty());
    }

    #[test]
    fn a_broken_file_is_refused() {
        assert!(Model::read(&FILE[..FILE.len() - 1]).is_none());
        assert!(Model::read(&[]).is_none());
        let mut file = FILE.to_vec();
        // The first node of the first forest points beyond the end.
        let at = 12 + 4 * u32::from_le_bytes([FILE[4], FILE[5], FILE[6], FILE[7]]) as usize;
        file[at + 2..at + 4].copy_from_slice(&u16::MAX.to_le_bytes());
        assert!(Model::read(&file).is_none());
    }

    #[test]
    fn a_tree_is_walked_by_its_limits() {
        let node = |feature, below, limit| Node { feature, below, limit };
        let nodes =
            vec![node(0, 2, 1.5), node(0, 0, -1.0), node(1, 2, 0.0), node(0, 0, 2.0), node(0, 0, 3.0)];
        let forest = Forest { nodes, roots: vec![0, 0], width: 2 };
        assert_eq!(forest.walk(0, &[1.5, 9.0]), -1.0);
        assert_eq!(forest.walk(0, &[1.6, 0.0]), 2.0);
        assert_eq!(forest.walk(0, &[1.6, 0.1]), 3.0);
        let chances = forest.chances(2, &[1.5, 9.0, 1.6, 0.0]);
        assert!(chances[0] < 0.12 && chances[1] > 0.98, "{chances:?}");
        assert_eq!(forest.chances(1, &[1.6]), [0.0]);
    }
}
