//! Huffman codes of limited length, in the canonical form of deflate.

/// Most symbols of a code.
const SYMBOLS_MAX: usize = 288;
/// Most bits of a code in deflate.
const BITS_MAX: usize = 15;

/// The code of a symbol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Code {
    /// In the order in which they are written, from the lowest on.
    pub(super) bits: u16,
    /// Number of bits.
    pub(super) length: u32,
}

/// The number of bits of each symbol's code, at most `max`; 0 for a symbol that does not come.
///
/// There are always two codes at least, since readers differ in whether they accept a code that is not complete.
pub(super) fn lengths<const N: usize>(counts: &[u32; N], max: usize) -> [u8; N] {
    let mut lengths = [0; N];
    // Count and symbol in one number, so that they are sorted by both.
    let mut sorted = [0; SYMBOLS_MAX];
    let mut used = 0;
    for (symbol, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        sorted[used] = u64::from(*count) << 16 | symbol as u64;
        used += 1;
    }
    let sorted = &mut sorted[..used];
    sorted.sort_unstable();
    let symbol = |entry: &u64| (entry & 0xffff) as usize;
    if let [] | [_] = sorted {
        let only = sorted.first().map_or(0, symbol);
        lengths[only] = 1;
        lengths[usize::from(only == 0)] = 1;
        return lengths;
    }
    let mut depths = depths(sorted);
    limit(&mut depths, max);
    // The rarest symbols have the longest codes.
    let mut entries = sorted.iter();
    for bits in (1..=max).rev() {
        for entry in entries.by_ref().take(depths[bits] as usize) {
            lengths[symbol(entry)] = bits as u8;
        }
    }
    lengths
}

/// How many symbols have which depth in the tree of Huffman, for sorted counts. All depths from [`BITS_MAX`] on are one.
///
/// Moffat and Katajainen, "In-place calculation of minimum-redundancy codes": the tree is built, and then walked down, in
/// one array. A place holds a weight until the node has a parent, then the parent's place, and at last the node's depth.
fn depths(sorted: &[u64]) -> [u32; BITS_MAX + 1] {
    let mut nodes = [0; SYMBOLS_MAX];
    let nodes = &mut nodes[..sorted.len() - 1];
    let weight = |leaf: usize| sorted.get(leaf).map_or(u64::MAX, |entry| entry >> 16);
    let (mut leaf, mut inner) = (0, 0);
    for node in 0..nodes.len() {
        let mut sum = 0;
        for _ in 0..2 {
            if inner < node && nodes[inner] < weight(leaf) {
                sum += nodes[inner];
                nodes[inner] = node as u64;
                inner += 1;
            } else {
                sum += weight(leaf);
                leaf += 1;
            }
        }
        nodes[node] = sum;
    }
    let mut depths = [0; BITS_MAX + 1];
    // Nodes of one depth, each with two below it: the leaves among those are what the next nodes leave.
    let root = nodes.len() - 1;
    nodes[root] = 0;
    for node in (0..root).rev() {
        nodes[node] = nodes[nodes[node] as usize] + 1;
    }
    let (mut depth, mut places, mut left) = (0, 1, nodes.iter().rev().peekable());
    while places > 0 {
        let mut inner = 0;
        while left.next_if(|at| **at == depth).is_some() {
            inner += 1;
        }
        depths[(depth as usize).min(BITS_MAX)] += places - inner;
        places = 2 * inner;
        depth += 1;
    }
    depths
}

/// Moves symbols up until none is deeper than `max`, and down until the code is complete again.
fn limit(depths: &mut [u32; BITS_MAX + 1], max: usize) {
    let deeper: u32 = depths[max + 1..].iter().sum();
    depths[max + 1..].fill(0);
    depths[max] += deeper;
    let mut taken: u64 = (1..=max).map(|bits| u64::from(depths[bits]) << (max - bits)).sum();
    while taken > 1 << max {
        // One symbol of the maximum takes the place beside one of fewer bits, which goes down by one.
        let bits = (1..max).rev().find(|bits| depths[*bits] > 0).expect("more symbols than codes");
        depths[max] -= 1;
        depths[bits] -= 1;
        depths[bits + 1] += 2;
        taken -= 1;
    }
}

/// The codes of these lengths (RFC 1951, 3.2.2).
pub(super) fn codes<const N: usize>(lengths: &[u8; N]) -> [Code; N] {
    let mut next = [0u16; BITS_MAX + 2];
    lengths.iter().filter(|length| **length > 0).for_each(|length| next[usize::from(*length) + 1] += 1);
    for bits in 1..next.len() {
        next[bits] = (next[bits] + next[bits - 1]) << 1;
    }
    let mut codes = [Code::default(); N];
    for (code, length) in codes.iter_mut().zip(lengths).filter(|(_, length)| **length > 0) {
        let place = &mut next[usize::from(*length)];
        *code = Code { bits: place.reverse_bits() >> (16 - *length), length: u32::from(*length) };
        *place += 1;
    }
    codes
}
