//! How many requests a token may send: a bucket that fills at a rate, decided by numbers alone.
//!
//! Invariant: in any span of time a bucket gives at most its rate times the span, plus [`BURST_SECONDS`] seconds' worth.

/// Seconds for which an unused bucket saves requests.
pub(super) const BURST_SECONDS: u64 = 2;
/// Thousandths of a request.
const ONE: u64 = 1_000;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    per_second: u64,
    /// What is left, in thousandths of a request.
    level: u64,
    /// Time of the last change, in milliseconds.
    at_ms: u64,
}

impl Bucket {
    /// A full bucket for this number of requests per second, at least one.
    pub(super) fn new(per_second: u32, now_ms: u64) -> Bucket {
        let per_second = u64::from(per_second.max(1));
        Bucket { per_second, level: BURST_SECONDS * per_second * ONE, at_ms: now_ms }
    }

    /// Takes one request. The error is the number of seconds until the next one, at least one.
    pub(super) fn take(&mut self, now_ms: u64) -> Result<(), u64> {
        let passed = now_ms.saturating_sub(self.at_ms);
        self.at_ms = self.at_ms.max(now_ms);
        let filled = self.level.saturating_add(passed.saturating_mul(self.per_second));
        self.level = filled.min(BURST_SECONDS * self.per_second * ONE);
        if self.level < ONE {
            let missing_ms = (ONE - self.level).div_ceil(self.per_second);
            return Err(missing_ms.div_ceil(1_000).max(1));
        }
        self.level -= ONE;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(10, 5_000);
        let given = |bucket: &mut Bucket, now: u64| (0..100).take_while(|_| bucket.take(now).is_ok()).count();
        assert_eq!(given(&mut bucket, 5_000), 20);
        assert_eq!(bucket.take(5_099), Err(1), "a tenth of a second fills one");
        assert_eq!(given(&mut bucket, 5_100), 1);
        assert_eq!(given(&mut bucket, 6_100), 10);
        assert_eq!(given(&mut bucket, 3_000), 0, "a clock that goes back fills nothing");
        assert_eq!(given(&mut bucket, 1_000_000), 20, "no more than the burst is saved");
    }

    #[test]
    fn in_any_second_no_more_than_the_rate_and_the_burst_passes() {
        let mut bucket = Bucket::new(3, 0);
        let passed: Vec<u64> = (0..10_000).filter(|now| bucket.take(*now).is_ok()).collect();
        for from in (0..9_000).step_by(100) {
            let count = passed.iter().filter(|at| (from..from + 1_000).contains(*at)).count();
            assert!(count <= 9, "{count} from {from}");
        }
        assert_eq!(passed.len(), 6 + 29);
    }
}
