//! A binary fuse filter with one byte per slot: answers "certainly not" or "probably" for a set of hashes.
//!
//! After Graf and Lemire, "Binary Fuse Filters: Fast and Smaller Than Xor Filters" (2022). Every hash owns three slots
//! in three neighbouring segments, and its fingerprint is the exclusive or of their bytes. Slots are filled in the
//! reverse of the order in which hashes could be peeled off, so each hash finds one slot that is still free.
//!
//! Invariants: there are no false negatives. The false positive rate is one in 256. Building takes at most 24 bytes of
//! memory per hash, since the peeled hashes stay in the slots they were peeled from.

/// Maximum rounds of building. A round fails with a chance of a few in a hundred at worst.
const ROUNDS_MAX: u32 = 64;
/// Maximum length of a segment: longer ones miss the processor's caches and make nothing smaller.
const SEGMENT_BITS_MAX: u32 = 18;
/// Bytes before the slots in the stored form.
const HEAD_BYTES: usize = 12;

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fuse {
    /// Number of times a hash is mixed before lookup: once for each failed round of building.
    rounds: u32,
    segment_bits: u32,
    /// Number of slots for the first of the three.
    first_slots: u32,
    slots: Vec<u8>,
}

impl Fuse {
    /// Builds a filter over these hashes, which may repeat. `None` if the build fails, which was never observed.
    pub(super) fn build(mut hashes: Vec<u64>) -> Option<Fuse> {
        // Sorted hashes fall into segments in order, which keeps building inside the caches.
        hashes.sort_unstable();
        hashes.dedup();
        let mut fuse = Fuse::sized(hashes.len())?;
        let mut table = Table::new(fuse.slot_count());
        while !table.peel(&fuse, &hashes) {
            fuse.rounds += 1;
            if fuse.rounds > ROUNDS_MAX {
                return None;
            }
            hashes.iter_mut().for_each(|hash| *hash = mix(*hash));
            hashes.sort_unstable();
        }
        drop(hashes);
        fuse.slots = vec![0; fuse.slot_count()];
        for &slot in table.order.iter().rev() {
            let slot = slot as usize;
            let hash = table.hashes[slot];
            let [a, b, c] = fuse.places(hash);
            // The free slot is still zero, so the exclusive or may include that slot.
            fuse.slots[slot] = fingerprint(hash) ^ fuse.slots[a] ^ fuse.slots[b] ^ fuse.slots[c];
        }
        Some(fuse)
    }

    /// Whether this hash was probably put in.
    #[inline]
    pub(super) fn contains(&self, mut hash: u64) -> bool {
        for _ in 0..self.rounds {
            hash = mix(hash);
        }
        let [a, b, c] = self.places(hash);
        fingerprint(hash) == self.slots[a] ^ self.slots[b] ^ self.slots[c]
    }

    /// Memory of the slots.
    pub(super) fn bytes(&self) -> usize {
        self.slots.len()
    }

    /// The stored form: rounds, bits of a segment, first slots, each 32 bits little-endian, then the slots.
    pub(super) fn head(&self) -> [u8; HEAD_BYTES] {
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&self.rounds.to_le_bytes());
        head[4..8].copy_from_slice(&self.segment_bits.to_le_bytes());
        head[8..].copy_from_slice(&self.first_slots.to_le_bytes());
        head
    }

    /// The bytes after the head.
    pub(super) fn slots(&self) -> &[u8] {
        &self.slots
    }

    /// Parses the stored form; `None` if invalid.
    pub(super) fn parse(mut stored: Vec<u8>) -> Option<Fuse> {
        let word = |at: usize| Some(u32::from_le_bytes(stored.get(at..at + 4)?.try_into().ok()?));
        let (rounds, segment_bits, first_slots) = (word(0)?, word(4)?, word(8)?);
        if rounds > ROUNDS_MAX || segment_bits > SEGMENT_BITS_MAX || first_slots == 0 {
            return None;
        }
        let mut fuse = Fuse { rounds, segment_bits, first_slots, slots: Vec::new() };
        if first_slots & (fuse.segment() as u32 - 1) != 0 || stored.len() - HEAD_BYTES != fuse.slot_count() {
            return None;
        }
        stored.drain(..HEAD_BYTES);
        stored.shrink_to_fit();
        fuse.slots = stored;
        Some(fuse)
    }

    /// An empty filter, with the sizes from the paper for this number of hashes.
    fn sized(hashes: usize) -> Option<Fuse> {
        let n = hashes.max(2) as f64;
        let segment_bits = ((n.ln() / 3.33_f64.ln() + 2.25).floor() as u32).min(SEGMENT_BITS_MAX);
        let factor = (0.875 + 0.25 * 1e6_f64.ln() / n.ln()).max(1.125);
        let segment = 1_u64 << segment_bits;
        let segments = ((n * factor).round() as u64).div_ceil(segment).max(3);
        // All slots must be countable in 32 bits; runs are far smaller.
        let first_slots = u32::try_from((segments - 2) * segment).ok()?;
        u32::try_from(segments * segment).ok()?;
        Some(Fuse { rounds: 0, segment_bits, first_slots, slots: Vec::new() })
    }

    fn segment(&self) -> usize {
        1 << self.segment_bits
    }

    fn slot_count(&self) -> usize {
        self.first_slots as usize + 2 * self.segment()
    }

    /// The three slots of a hash, always in three different segments.
    #[inline]
    fn places(&self, hash: u64) -> [usize; 3] {
        let mask = self.segment() - 1;
        let first = ((u128::from(hash) * u128::from(self.first_slots)) >> 64) as usize;
        let second = (first + self.segment()) ^ ((hash >> 18) as usize & mask);
        let third = (first + 2 * self.segment()) ^ (hash as usize & mask);
        [first, second, third]
    }
}

/// Memory for building besides the hashes: 9 bytes per slot, and 4 for the order.
struct Table {
    /// Exclusive or of the unpeeled hashes that own the slot; after peeling, the peeled hash.
    hashes: Vec<u64>,
    /// Number of unpeeled hashes per slot.
    counts: Vec<u8>,
    /// Slots with one hash, in order of discovery; the first `peeled` of them were really used.
    order: Vec<u32>,
}

impl Table {
    fn new(slots: usize) -> Table {
        Table { hashes: vec![0; slots], counts: vec![0; slots], order: Vec::with_capacity(slots) }
    }

    /// Finds the order; false if these hashes cannot be peeled.
    fn peel(&mut self, fuse: &Fuse, hashes: &[u64]) -> bool {
        self.hashes.fill(0);
        self.counts.fill(0);
        self.order.clear();
        for &hash in hashes {
            for slot in fuse.places(hash) {
                self.hashes[slot] ^= hash;
                self.counts[slot] = self.counts[slot].saturating_add(1);
            }
        }
        if self.counts.contains(&u8::MAX) {
            return false;
        }
        for (slot, &count) in self.counts.iter().enumerate() {
            if count == 1 {
                self.order.push(slot as u32);
            }
        }
        let (mut next, mut peeled) = (0, 0);
        while next < self.order.len() {
            let slot = self.order[next];
            next += 1;
            // Its hash may have been peeled from another slot since.
            if self.counts[slot as usize] != 1 {
                continue;
            }
            self.counts[slot as usize] = 0;
            self.order[peeled] = slot;
            peeled += 1;
            let hash = self.hashes[slot as usize];
            for other in fuse.places(hash) {
                if other != slot as usize {
                    self.hashes[other] ^= hash;
                    self.counts[other] -= 1;
                    if self.counts[other] == 1 {
                        self.order.push(other as u32);
                    }
                }
            }
        }
        self.order.truncate(peeled);
        peeled == hashes.len()
    }
}

#[inline]
fn fingerprint(hash: u64) -> u8 {
    (hash ^ (hash >> 32)) as u8
}

/// One to one, so that different hashes stay different.
#[inline]
fn mix(hash: u64) -> u64 {
    let mut x = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64;

    fn hashes(from: u64, count: u64) -> Vec<u64> {
        (from..from + count).map(|n| xxh3_64(&n.to_le_bytes())).collect()
    }

    fn stored(fuse: &Fuse) -> Vec<u8> {
        [&fuse.head()[..], fuse.slots()].concat()
    }

    #[test]
    fn every_hash_put_in_is_found_whatever_their_number() {
        let sizes = (0..200).chain([255, 256, 1_000, 5_000, 10_000, 40_000, 100_000]);
        for count in sizes {
            let hashes = hashes(7 * count, count);
            let fuse = Fuse::build(hashes.clone()).expect("can be built");
            assert!(hashes.iter().all(|hash| fuse.contains(*hash)), "of {count}");
            assert_eq!(Fuse::parse(stored(&fuse)), Some(fuse), "of {count}");
        }
    }

    #[test]
    fn one_in_256_others_is_found_at_nine_bits_a_hash() {
        let fuse = Fuse::build(hashes(0, 1_000_000)).expect("can be built");
        let found = hashes(1 << 40, 500_000).iter().filter(|hash| fuse.contains(**hash)).count();
        assert!((1_700..2_300).contains(&found), "{found} of 500,000");
        assert!(fuse.bytes() < 1_150_000, "{} bytes", fuse.bytes());
    }

    #[test]
    fn repeated_hashes_do_no_harm() {
        let mut twice = hashes(0, 1_000);
        twice.extend(hashes(0, 1_000));
        assert_eq!(Fuse::build(twice), Fuse::build(hashes(0, 1_000)));
        let same = Fuse::build(vec![42; 1_000]).expect("can be built");
        assert!(same.contains(42));
    }

    #[test]
    fn a_set_that_needs_another_round_is_found_too() {
        // Hashes that all fall into the same slots: the first round cannot peel them.
        let close: Vec<u64> = (0..100).map(|n| n << 40).collect();
        let fuse = Fuse::build(close.clone()).expect("can be built");
        assert!(fuse.rounds > 0);
        assert!(close.iter().all(|hash| fuse.contains(*hash)));
    }

    #[test]
    fn what_is_not_a_filter_is_refused() {
        let whole = stored(&Fuse::build(hashes(0, 100)).expect("can be built"));
        for length in 0..whole.len() {
            assert_eq!(Fuse::parse(whole[..length].to_vec()), None);
        }
        assert_eq!(Fuse::parse([&whole[..], &[0]].concat()), None);
        for at in 4..12 {
            let mut other = whole.clone();
            other[at] ^= 0xff;
            assert_eq!(Fuse::parse(other), None);
        }
    }
}
