//! Chance from a seed: the same seed gives the same world, on every machine and for ever.
//!
//! xoshiro256++, seeded by SplitMix64 (Blackman and Vigna). Our own, so that no update of a library changes a seed that
//! once failed.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Rng {
        let mut z = seed;
        Rng(std::array::from_fn(|_| {
            z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
            mix(z)
        }))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let [a, b, c, d] = self.0;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.0 = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// A number below `end`, which is above 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(end)) >> 64) as u64
    }

    /// A number from `first` to `last`, both included.
    pub fn within(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// A number from `-most` to `most`.
    pub fn either_way(&mut self, most: u64) -> i64 {
        self.below(2 * most + 1) as i64 - most as i64
    }

    /// An index into something of this length.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True with a probability of one in `times`.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.index(of.len())]
    }
}

/// Spreads neighbouring numbers over all values (the finalizer of SplitMix64).
pub fn mix(number: u64) -> u64 {
    let z = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut rng = Rng::new(1);
        assert_eq!([rng.bits(), rng.bits()], GOLDEN);
        assert_ne!(Rng::new(2).bits(), GOLDEN[0]);
    }

    #[test]
    fn numbers_stay_in_their_range_and_reach_both_ends() {
        let mut rng = Rng::new(7);
        let seen: std::collections::BTreeSet<u64> = (0..1_000).map(|_| rng.within(3, 9)).collect();
        assert_eq!((seen.len(), seen.first(), seen.last()), (7, Some(&3), Some(&9)));
    }

    const GOLDEN: [u64; 2] = [14_971_601_782_005_023_387, 13_781_649_495_232_077_965];
}
