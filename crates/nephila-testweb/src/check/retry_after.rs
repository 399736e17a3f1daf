//! `Retry-After`: a host that said when to come back is left alone until then.
//!
//! Judged for 429 and 503 (RFC 9110, 10.2.3; RFC 6585, 4), for pages and robots.txt alike: a busy host is busy for
//! everything.

use std::collections::HashMap;
use std::time::Duration;

use super::{Fault, Report, host_key};
use crate::journal::Log;

/// Judges by the answers that carried the field.
#[derive(Clone, Debug)]
pub struct RetryAfter {
    /// How much too early a request may come, for the jitter of this machine.
    pub tolerance: Duration,
}

impl Default for RetryAfter {
    fn default() -> RetryAfter {
        RetryAfter { tolerance: Duration::from_millis(2) }
    }
}

impl RetryAfter {
    /// Judges a journal. The report counts the answers that asked for time.
    pub fn check(&self, log: &Log) -> Report {
        let mut report = Report::new(log);
        let tolerance = self.tolerance.as_micros() as u64;
        // Per host: when the answer ended, and the requested time.
        let mut closed: HashMap<String, (u64, u64)> = HashMap::new();
        for request in &log.requests {
            let key = host_key(request);
            if let Some((end, needed_us)) = closed.get(&key).copied()
                && request.start_us >= end
                && request.start_us - end + tolerance < needed_us
            {
                let had_us = request.start_us - end;
                report.add(request.start_us, key.as_str(), Fault::RetryAfter { had_us, needed_us });
            }
            if matches!(request.status, 429 | 503)
                && let Some(seconds) = request.retry_after
            {
                report.judged += 1;
                let until = |(end, needed): (u64, u64)| end + needed;
                let asked = (request.end_us, u64::from(seconds) * 1_000_000);
                if closed.get(&key).is_none_or(|before| until(*before) < until(asked)) {
                    closed.insert(key, asked);
                }
            }
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::journal::{Event, Request};

    fn busy(status: u16, end_us: u64) -> Request {
        Request { status, retry_after: Some(2), ..sample("a.test", "/1", 1, 0, end_us) }
    }

    fn faults(requests: Vec<Request>) -> Vec<Fault> {
        let report = RetryAfter::default().check(&Log::new(requests.into_iter().map(Event::Request), 0));
        assert!(report.judged > 0);
        report.violations.into_iter().map(|violation| violation.fault).collect()
    }

    #[test]
    fn a_host_left_alone_until_then_is_clean() {
        let later = sample("a.test", "/2", 1, 2_000_100, 2_000_200);
        let other = sample("b.test", "/2", 1, 200, 300);
        assert_eq!(faults(vec![busy(429, 100), other, later]), []);
    }

    #[test]
    fn a_request_before_that_is_caught_for_both_statuses() {
        for status in [429, 503] {
            let early = sample("a.test", "/2", 1, 1_000_100, 1_000_200);
            let fault = Fault::RetryAfter { had_us: 1_000_000, needed_us: 2_000_000 };
            assert_eq!(faults(vec![busy(status, 100), early]), [fault]);
        }
    }

    #[test]
    fn other_answers_may_say_it_and_nothing_follows() {
        let moved = Request { status: 301, ..busy(503, 100) };
        let log = Log::new([Event::Request(moved)], 0);
        assert_eq!(RetryAfter::default().check(&log).judged, 0);
    }
}
