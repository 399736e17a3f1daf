//! Tokens of a block, and the three forms in which a block is written.
//!
//! A token stands for one or two literals, or for a match. It consists of two places in the tables of [`Codes`] and of
//! the extra bits of a distance. Whatever a token is, it is written in the same steps: literals and matches follow each
//! other irregularly, and a CPU that has to guess which comes next guesses wrong too often.

use super::huffman::{self, Code};
use super::preset::HEADS;

/// Symbols of literals, the end of a block and lengths; the last two are never used.
pub(super) const LITERALS: usize = 288;
/// The symbol of the end of a block.
pub(super) const END: usize = 256;
/// Symbols of distances; the last two are never used.
pub(super) const DISTANCES: usize = 32;
/// Maximum bits of a code. Deflate allows 15; with 14, two codes and all extra bits fit a number of 64 bits.
pub(super) const CODE_BITS_MAX: usize = 14;
/// Maximum bytes of a written token: two codes, 5 and 13 extra bits.
const TOKEN_BYTES_MAX: usize = 6;
/// About what the description of a block's codes takes.
const DESCRIPTION_BYTES: usize = 64;
/// Maximum bytes of a stored block.
const STORED_BYTES_MAX: usize = 65_535;
/// Maximum bits of a byte in the code of [`HEADS`]; above, the block gets a code of its own.
const SHARED_BITS_MAX: usize = 7;

/// Length of each length symbol from 257 on, and the number of its extra bits.
const LENGTHS: [(u16, u8); 29] = [
    (3, 0),
    (4, 0),
    (5, 0),
    (6, 0),
    (7, 0),
    (8, 0),
    (9, 0),
    (10, 0),
    (11, 1),
    (13, 1),
    (15, 1),
    (17, 1),
    (19, 2),
    (23, 2),
    (27, 2),
    (31, 2),
    (35, 3),
    (43, 3),
    (51, 3),
    (59, 3),
    (67, 4),
    (83, 4),
    (99, 4),
    (115, 4),
    (131, 5),
    (163, 5),
    (195, 5),
    (227, 5),
    (258, 0),
];
/// The place in [`LENGTHS`] of each length from 3 on.
const LENGTH_SLOTS: [u8; 256] = length_slots();

const fn length_slots() -> [u8; 256] {
    let mut slots = [0; 256];
    let mut slot = 0;
    while slot < LENGTHS.len() {
        let mut length = LENGTHS[slot].0 as usize;
        while length <= 258 {
            slots[length - 3] = slot as u8;
            length += 1;
        }
        slot += 1;
    }
    slots
}

// A token, from the lowest bit on: 10 bits for a literal or `MATCH` and a length; 9 bits for a literal, `DISTANCE` and a
// slot, or `NOTHING`; 13 extra bits of the distance.
const MATCH: u32 = 256;
const DISTANCE: u32 = 256;
const NOTHING: u32 = 511;
const FIRST_BITS: u32 = 10;
const SECOND_BITS: u32 = 9;

pub(super) fn literal(byte: u32) -> u32 {
    byte | NOTHING << FIRST_BITS
}

pub(super) fn two_literals(first: u32, second: u32) -> u32 {
    first | second << FIRST_BITS
}

pub(super) fn matched(length: u32, distance: u32, slot: u32) -> u32 {
    let extra = (distance - 1) & ((1 << extra_bits(slot)) - 1);
    (MATCH + length) | (DISTANCE + slot) << FIRST_BITS | extra << (FIRST_BITS + SECOND_BITS)
}

/// The symbol of a length.
pub(super) fn length_symbol(length: u32) -> usize {
    257 + usize::from(LENGTH_SLOTS[(length - 3) as usize % 256])
}

/// The symbol of a distance. From the fifth on there are two for each power of two.
pub(super) fn slot(distance: u32) -> u32 {
    let before = distance - 1;
    let power = (before | 1).ilog2();
    let slot = 2 * power + (before >> power.saturating_sub(1) & 1);
    (if before < 2 { before } else { slot }) % DISTANCES as u32
}

fn extra_bits(slot: u32) -> u32 {
    (slot >> 1).saturating_sub(1)
}

/// How often each symbol comes in a block.
pub(super) struct Counts {
    pub(super) literals: [u32; LITERALS],
    pub(super) distances: [u32; DISTANCES],
}

impl Default for Counts {
    fn default() -> Self {
        Counts { literals: [0; LITERALS], distances: [0; DISTANCES] }
    }
}

impl Counts {
    pub(super) fn clear(&mut self) {
        *self = Counts::default();
    }

    /// Whether codes of these lengths have each symbol that comes.
    fn are_covered(&self, literals: &[u8; LITERALS], distances: &[u8; DISTANCES]) -> bool {
        let covered = |counts: &[u32], lengths: &[u8]| {
            counts.iter().zip(lengths).all(|(count, bits)| *count == 0 || *bits > 0)
        };
        covered(&self.literals, literals) && covered(&self.distances, distances)
    }

    /// Bits of the block with codes of these lengths, without their description.
    fn bits(&self, literals: &[u8; LITERALS], distances: &[u8; DISTANCES]) -> usize {
        let sum = |counts: &[u32], lengths: &[u8]| -> usize {
            counts.iter().zip(lengths).map(|(count, bits)| *count as usize * usize::from(*bits)).sum()
        };
        let lengths = self.literals[257..].iter().zip(LENGTHS);
        let extra: usize = lengths.map(|(count, (_, bits))| *count as usize * usize::from(bits)).sum();
        let slots = self.distances.iter().zip(0..);
        let more: usize = slots.map(|(count, slot)| *count as usize * extra_bits(slot) as usize).sum();
        sum(&self.literals, literals) + sum(&self.distances, distances) + extra + more
    }
}

/// What is written for the parts of a token. Each entry has its bits at the top and their number below.
pub(super) struct Codes {
    /// For each literal and each length: the code and the length's extra bits; their number in the lowest 8 bits.
    first: [u32; 1 << FIRST_BITS],
    /// For each literal and each slot: the code; the number of all bits and, in the lowest 8 bits, of the code's.
    second: [u32; 1 << SECOND_BITS],
    end: Code,
}

impl Codes {
    pub(super) fn new(literals: &[u8; LITERALS], distances: &[u8; DISTANCES]) -> Self {
        let (literals, distances) = (huffman::codes(literals), huffman::codes(distances));
        let mut codes =
            Codes { first: [0; 1 << FIRST_BITS], second: [0; 1 << SECOND_BITS], end: literals[END] };
        for (byte, code) in literals[..END].iter().enumerate() {
            codes.first[byte] = u32::from(code.bits) << 8 | code.length;
            codes.second[byte] = u32::from(code.bits) << 16 | code.length << 8 | code.length;
        }
        for length in 3..=258 {
            let (begin, extra) = LENGTHS[usize::from(LENGTH_SLOTS[length - 3])];
            let code = literals[257 + usize::from(LENGTH_SLOTS[length - 3])];
            let bits = u32::from(code.bits) | (length as u32 - u32::from(begin)) << code.length;
            codes.first[MATCH as usize + length] = bits << 8 | (code.length + u32::from(extra));
        }
        for (slot, code) in (0..30).zip(distances) {
            let all = code.length + extra_bits(slot);
            codes.second[(DISTANCE + slot) as usize] = u32::from(code.bits) << 16 | all << 8 | code.length;
        }
        codes
    }
}

/// A deflate stream that grows at the end of a buffer.
pub(crate) struct Stream<'a> {
    out: &'a mut Vec<u8>,
    /// Bits that do not fill a byte yet, and their number.
    bits: u64,
    count: u32,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(out: &'a mut Vec<u8>) -> Self {
        Stream { out, bits: 0, count: 0 }
    }

    /// Fills the last byte.
    pub(crate) fn finish(mut self) {
        self.fill_byte();
    }

    /// Number of bits in the buffer.
    pub(super) fn bits(&self) -> usize {
        8 * self.out.len() + self.count as usize
    }

    /// Appends these bytes as they are.
    pub(crate) fn stored(&mut self, bytes: &[u8], is_end: bool) {
        let mut left = bytes;
        loop {
            let (now, rest) = left.split_at(left.len().min(STORED_BYTES_MAX));
            left = rest;
            self.put(u64::from(is_end && left.is_empty()), 3);
            self.fill_byte();
            let length = now.len() as u16;
            self.out.extend_from_slice(&length.to_le_bytes());
            self.out.extend_from_slice(&(!length).to_le_bytes());
            self.out.extend_from_slice(now);
            if left.is_empty() {
                return;
            }
        }
    }

    /// Appends a block in the code of [`HEADS`], if that suits it.
    pub(super) fn small_block(&mut self, bytes: &[u8], tokens: &[u32], counts: &mut Counts, is_end: bool) {
        let bits = counts.bits(&HEADS.literals, &HEADS.distances) + HEADS.description.1;
        let is_covered = counts.are_covered(&HEADS.literals, &HEADS.distances);
        if !is_covered || bits > SHARED_BITS_MAX * bytes.len() {
            return self.block(bytes, tokens, counts, is_end);
        }
        self.put(u64::from(is_end) | 2 << 1, 3);
        let (description, bits) = &HEADS.description;
        for (byte, left) in description.iter().zip((1..=*bits).rev().step_by(8)) {
            self.put(u64::from(*byte), left.min(8) as u32);
        }
        self.tokens(tokens, &HEADS.codes);
    }

    /// Appends a block in a code of its own, or the bytes as they are if that is shorter.
    pub(super) fn block(&mut self, bytes: &[u8], tokens: &[u32], counts: &mut Counts, is_end: bool) {
        counts.literals[END] = 1;
        let literals = huffman::lengths(&counts.literals, CODE_BITS_MAX);
        let distances = huffman::lengths(&counts.distances, CODE_BITS_MAX);
        if counts.bits(&literals, &distances) + 8 * DESCRIPTION_BYTES >= 8 * bytes.len() {
            return self.stored(bytes, is_end);
        }
        self.put(u64::from(is_end) | 2 << 1, 3);
        self.describe(&literals, &distances);
        self.tokens(tokens, &Codes::new(&literals, &distances));
    }

    /// The lengths of all codes, themselves coded (RFC 1951, 3.2.7).
    pub(super) fn describe(&mut self, literals: &[u8; LITERALS], distances: &[u8; DISTANCES]) {
        /// The order in which the lengths of these codes are written.
        const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
        let used = |lengths: &[u8]| lengths.iter().rposition(|bits| *bits > 0).map_or(0, |last| last + 1);
        let (literals, distances) = (&literals[..used(literals)], &distances[..used(distances)]);
        let mut all = [0; LITERALS + DISTANCES];
        let len = literals.len() + distances.len();
        all[..literals.len()].copy_from_slice(literals);
        all[literals.len()..len].copy_from_slice(distances);
        let (mut steps, mut counts) = ([(0, 0); LITERALS + DISTANCES], [0; 19]);
        let mut count = 0;
        for step in (Steps { left: &all[..len], last: None }) {
            counts[usize::from(step.0)] += 1;
            steps[count] = step;
            count += 1;
        }
        let lengths = huffman::lengths(&counts, 7);
        let codes = huffman::codes(&lengths);
        let written =
            ORDER.iter().rposition(|symbol| lengths[*symbol] > 0).map_or(4, |last| (last + 1).max(4));
        self.put(literals.len() as u64 - 257, 5);
        self.put(distances.len() as u64 - 1, 5);
        self.put(written as u64 - 4, 4);
        ORDER[..written].iter().for_each(|symbol| self.put(u64::from(lengths[*symbol]), 3));
        for (symbol, extra) in &steps[..count] {
            let code = codes[usize::from(*symbol)];
            self.put(u64::from(code.bits), code.length);
            self.put(
                u64::from(*extra),
                [2, 3, 7].get(usize::from(*symbol).wrapping_sub(16)).copied().unwrap_or(0),
            );
        }
    }

    /// Appends the tokens and the end of the block.
    fn tokens(&mut self, tokens: &[u32], codes: &Codes) {
        let mut at = self.out.len();
        self.out.resize(at + TOKEN_BYTES_MAX * tokens.len() + size_of::<u64>(), 0);
        let out = self.out.as_mut_slice();
        let (mut bits, mut count) = (self.bits, self.count);
        for token in tokens {
            let first = u64::from(codes.first[(token & ((1 << FIRST_BITS) - 1)) as usize]);
            let second = u64::from(codes.second[(token >> FIRST_BITS & ((1 << SECOND_BITS) - 1)) as usize]);
            let extra = u64::from(token >> (FIRST_BITS + SECOND_BITS));
            // The masks cost nothing: a shift takes the lowest six bits of its number anyway.
            let rest = second >> 16 | extra << (second & 63);
            bits |= (first >> 8 | rest << (first & 63)) << (count & 63);
            count += u32::from(first as u8) + u32::from((second >> 8) as u8);
            let place = out[at..].first_chunk_mut().expect("room for each token was made above");
            *place = bits.to_le_bytes();
            at += (count / 8) as usize;
            bits >>= count & 56;
            count &= 7;
        }
        self.out.truncate(at);
        (self.bits, self.count) = (bits, count);
        self.put(u64::from(codes.end.bits), codes.end.length);
    }

    /// Appends some bits; for what is written once a block.
    fn put(&mut self, bits: u64, count: u32) {
        self.bits |= bits << self.count;
        self.count += count;
        while self.count >= 8 {
            self.out.push(self.bits as u8);
            self.bits >>= 8;
            self.count -= 8;
        }
    }

    fn fill_byte(&mut self) {
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
    }
}

/// The lengths of codes as symbols with extra bits: a length, 16 for the last one again 3 to 6 times, 17 and 18 for 3 to
/// 10 and 11 to 138 zeros.
struct Steps<'a> {
    left: &'a [u8],
    last: Option<u8>,
}

impl Iterator for Steps<'_> {
    type Item = (u8, u8);

    fn next(&mut self) -> Option<(u8, u8)> {
        let length = *self.left.first()?;
        let run = self.left.iter().take_while(|other| **other == length).count();
        let (symbol, extra, taken) = match (length, run) {
            (0, 11..) => (18, run.min(138) - 11, run.min(138)),
            (0, 3..) => (17, run - 3, run),
            (_, 3..) if self.last == Some(length) => (16, run.min(6) - 3, run.min(6)),
            _ => (length, 0, 1),
        };
        self.left = &self.left[taken..];
        self.last = Some(length);
        Some((symbol, extra as u8))
    }
}
