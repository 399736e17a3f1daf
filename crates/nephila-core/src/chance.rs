//! Pseudo-random numbers for tests, from a seed (splitmix64): the same on every machine.

/// A generator; the field is the seed.
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// A random wait with this mean, as between independent events (exponential distribution).
    pub(crate) fn wait(&mut self, mean: u64) -> u64 {
        let part = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        (-(1.0 - part).ln() * mean as f64) as u64 + 1
    }
}
