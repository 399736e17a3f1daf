//! Measures CPU work: a judge that finds readers whose cost is not linear.
//!
//! The CPU time of the thread is measured, the least of several runs, so that other load on the machine does not count.
//! Doubled input may cost at most [`GROWTH_MAX`] times as much. The input is doubled twice, so that a quadratic reader
//! stands out from the noise: sixteen times instead of four. Work below [`MEASURABLE`] is repeated with larger input
//! first. A step is no slope (input that leaves a cache, or comes to a dearer part of a format): a bad verdict counts
//! only if the verdict is as bad for input that is doubled twice more.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Maximum growth of work when the input doubles: some room above two for input that no longer fits a cache.
pub const GROWTH_MAX: f64 = 2.5;
/// Minimum CPU time of a usable measurement.
pub const MEASURABLE: Duration = Duration::from_millis(3);
/// Maximum size in bytes of the smaller input.
const BYTES_MAX: usize = 1 << 20;
/// Number of runs of which the least counts.
const RUNS: usize = 2;
/// Number of repeated measurements after a bad verdict: machines are shared.
const LOOKS: usize = 4;

/// CPU time of this thread so far.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// CPU time of one run of `work`.
pub fn cpu_of<T>(work: impl FnOnce() -> T) -> Duration {
    let began = thread_cpu();
    std::hint::black_box(work());
    thread_cpu() - began
}

/// How work grows.
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Bytes of the smaller input.
    pub bytes: usize,
    /// CPU time for that input.
    pub single: Duration,
    /// CPU time for four times that input.
    pub fourfold: Duration,
}

impl Growth {
    /// The factor of the CPU time when the input doubles; one for work that is too quick to measure.
    pub fn factor(&self) -> f64 {
        let ratio = self.fourfold.as_secs_f64() / self.single.as_secs_f64().max(1e-6);
        if self.fourfold < MEASURABLE { 1.0 } else { ratio.sqrt() }
    }

    /// Whether the growth is linear.
    pub fn is_linear(&self) -> bool {
        self.factor() <= GROWTH_MAX
    }

    /// Estimated CPU time for `bytes` bytes, extrapolated from the larger input.
    pub fn of(&self, bytes: usize) -> Duration {
        self.fourfold.mul_f64(bytes as f64 / (4 * self.bytes) as f64)
    }
}

/// Measures `read` on the input that `make` gives for a size. Begins with `bytes` and doubles the size until the work
/// is measurable.
pub fn growth(bytes: usize, make: impl Fn(usize) -> Vec<u8>, read: impl Fn(&[u8])) -> Growth {
    let least = |input: &[u8]| (0..RUNS).map(|_| cpu_of(|| read(input))).min().unwrap_or_default();
    let mut bytes = bytes;
    let mut input = make(bytes);
    let mut single = least(&input);
    while single < MEASURABLE && bytes < BYTES_MAX {
        bytes *= 2;
        input = make(bytes);
        single = least(&input);
    }
    let larger = make(bytes * 4);
    let mut growth = Growth { bytes, single, fourfold: least(&larger) };
    for _ in 1..LOOKS {
        if growth.is_linear() {
            break;
        }
        let again = Growth { bytes, single: least(&input), fourfold: least(&larger) };
        if again.factor() < growth.factor() {
            growth = again;
        }
    }
    if growth.is_linear() {
        return growth;
    }
    let largest = make(bytes * 16);
    for _ in 0..LOOKS {
        let next = Growth { bytes: bytes * 4, single: growth.fourfold, fourfold: least(&largest) };
        if next.is_linear() {
            return next;
        }
    }
    growth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_10_what_is_linear_passes_and_what_is_quadratic_does_not() {
        let make = |bytes| vec![1u8; bytes];
        let linear = growth(1 << 16, make, |input| {
            std::hint::black_box(
                input.iter().fold(0u64, |sum, byte| std::hint::black_box(sum + u64::from(*byte))),
            );
        });
        assert!(linear.is_linear(), "{linear:?}");
        let quadratic = || {
            growth(1 << 10, make, |input| {
                for start in 0..input.len() {
                    std::hint::black_box(
                        input[start..].iter().fold(0u64, |sum, byte| sum ^ u64::from(*byte)),
                    );
                }
            })
        };
        // A processor that gets faster between two runs hides the growth: 6 times instead of 16 were seen.
        assert!((0..3).any(|_| !quadratic().is_linear()), "quadratic work looked linear three times");
    }
}
