//! Histograms of measurements: how many values fell into each bucket, and their sum.
//!
//! Plain numbers without names and units of their own; whoever publishes them names them.
//!
//! Invariants: the memory is constant; a value falls into the first bucket whose bound is not below the value, and into
//! the last bucket, which has no bound, if there is none; counts and sums only grow.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Upper bounds of the buckets of a histogram of durations, in milliseconds. A last bucket holds the rest.
pub const BOUNDS_MS: [u64; 15] =
    [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000];

/// A histogram of durations, owned by one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Number of durations in each bucket; the last bucket has no bound.
    pub counts: [u64; BOUNDS_MS.len() + 1],
    /// Sum of the durations in milliseconds.
    pub sum_ms: u64,
}

impl Durations {
    /// Counts a duration.
    pub fn add(&mut self, ms: u64) {
        self.counts[bucket(&BOUNDS_MS, ms)] += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
    }

    /// The durations so far.
    pub fn get(&self) -> Buckets {
        Buckets { bounds: &BOUNDS_MS, counts: self.counts.to_vec(), sum: self.sum_ms }
    }
}

/// A histogram, as read at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Buckets {
    /// Upper bounds, in the unit of the values.
    pub bounds: &'static [u64],
    /// Number of values in each bucket, and above all bounds.
    pub counts: Vec<u64>,
    /// Sum of the values.
    pub sum: u64,
}

/// A histogram that many tasks fill.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    counts: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram::new(&BOUNDS_MS)
    }
}

impl Histogram {
    /// A histogram with these upper bounds, which ascend.
    pub fn new(bounds: &'static [u64]) -> Histogram {
        debug_assert!(bounds.is_sorted(), "bounds ascend");
        let counts = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Histogram { bounds, counts, sum: AtomicU64::default() }
    }

    /// Counts a value.
    pub fn add(&self, value: u64) {
        self.counts[bucket(self.bounds, value)].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// The values so far.
    pub fn get(&self) -> Buckets {
        let counts = self.counts.iter().map(|count| count.load(Relaxed)).collect();
        Buckets { bounds: self.bounds, counts, sum: self.sum.load(Relaxed) }
    }
}

/// The bucket of a value.
fn bucket(bounds: &[u64], value: u64) -> usize {
    bounds.partition_point(|bound| *bound < value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_falls_into_the_bucket_of_its_bound() {
        let (histogram, mut durations) = (Histogram::default(), Durations::default());
        for ms in [0, 1, 2, 100, 101, 60_000, 60_001] {
            histogram.add(ms);
            durations.add(ms);
        }
        assert_eq!(histogram.get(), durations.get());
        assert_eq!(durations.counts, [2, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(durations.sum_ms, 120_205);
    }

    #[test]
    fn a_histogram_has_the_bounds_it_was_made_with() {
        let histogram = Histogram::new(&[99, 100]);
        [0, 99, 100, 101, 900].into_iter().for_each(|value| histogram.add(value));
        assert_eq!(histogram.get(), Buckets { bounds: &[99, 100], counts: vec![2, 1, 2], sum: 1_200 });
    }
}
