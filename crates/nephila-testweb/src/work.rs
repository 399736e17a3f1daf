//! How much work something is: a judge that finds readers which are not linear.
//!
//! It counts what the thread had of a processor, the least of several runs, so that neighbours on the machine do not count.
//! Doubled input may cost at most [`GROWTH_MAX`] times as much. The input is doubled twice, so that a reader which takes the
//! square of it stands out from the noise: sixteen times instead of four. What takes less than [`MEASURABLE`] is made larger first.
//! A step is no slope (input that leaves a cache, or comes to a dearer part of a format): a verdict that is bad counts only if it
//! is as bad for input that is doubled twice more.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Twice the input is at most so much more work: some room above two for what does not fit a cache any more.
pub const GROWTH_MAX: f64 = 2.5;
/// Less than this says nothing.
pub const MEASURABLE: Duration = Duration::from_millis(3);
/// The smaller input is made no larger than this.
const BYTES_MAX: usize = 1 << 20;
/// Runs of which the least counts.
const RUNS: usize = 2;
/// A verdict that is bad is looked at again so often: machines are shared.
const LOOKS: usize = 4;

/// What this thread has had of a processor so far.
pub fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// What one run of `work` takes of a processor.
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
    /// What it took.
    pub single: Duration,
    /// What four times as much took.
    pub fourfold: Duration,
}

impl Growth {
    /// How many times as much twice the input took; one for what is too quick to measure.
    pub fn factor(&self) -> f64 {
        let ratio = self.fourfold.as_secs_f64() / self.single.as_secs_f64().max(1e-6);
        if self.fourfold < MEASURABLE { 1.0 } else { ratio.sqrt() }
    }

    /// Is it linear?
    pub fn is_linear(&self) -> bool {
        self.factor() <= GROWTH_MAX
    }

    /// What so many bytes would take, going by the larger input.
    pub fn of(&self, bytes: usize) -> Duration {
        self.fourfold.mul_f64(bytes as f64 / (4 * self.bytes) as f64)
    }
}

/// Measures what `read` does with what `make` gives for a size. It begins with `bytes` and doubles them until there is something
/// to measure.
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
    let next = Growth { bytes: bytes * 4, single: growth.fourfold, fourfold: least(&make(bytes * 16)) };
    if next.is_linear() { next } else { growth }
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
        let quadratic = growth(1 << 10, make, |input| {
            for start in 0..input.len() {
                std::hint::black_box(input[start..].iter().fold(0u64, |sum, byte| sum ^ u64::from(*byte)));
            }
        });
        assert!(!quadratic.is_linear(), "{quadratic:?}");
    }
}
