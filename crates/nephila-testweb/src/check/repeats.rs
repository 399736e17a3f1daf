//! Repeats: no URL is requested twice, unless the fetch failed or the time for a recrawl has come.

use std::collections::HashMap;
use std::time::Duration;

use super::{Fault, Report, is_robots, url};
use crate::journal::Log;

/// How often the same URL may be requested.
#[derive(Clone, Debug)]
pub struct Repeats {
    /// After this long a URL may be requested again; never when `None`.
    pub interval: Option<Duration>,
    /// Maximum number of retries after an answer with 429 or 5xx, or an answer that was cut off.
    pub retries_max: u32,
    /// Whether robots.txt counts; the file must be requested again once a day.
    pub counts_robots: bool,
}

impl Default for Repeats {
    fn default() -> Repeats {
        Repeats { interval: None, retries_max: 3, counts_robots: false }
    }
}

/// The history of one URL: the start of the last allowed request, the number of requests since then, and the number of
/// failures in a row.
struct Seen {
    start_us: u64,
    times: u32,
    failures: u32,
}

impl Repeats {
    /// Judges a journal.
    pub fn check(&self, log: &Log) -> Report {
        let mut report = Report::new(log);
        let mut seen: HashMap<String, Seen> = HashMap::new();
        let interval = self.interval.map_or(u64::MAX, |interval| interval.as_micros() as u64);
        for request in log.requests.iter().filter(|request| self.counts_robots || !is_robots(request)) {
            report.judged += 1;
            let failed = request.status == 429 || request.status >= 500 || !request.is_complete;
            let url = url(request);
            let Some(before) = seen.get_mut(&url) else {
                let first = Seen { start_us: request.start_us, times: 1, failures: u32::from(failed) };
                seen.insert(url, first);
                continue;
            };
            let due = request.start_us - before.start_us >= interval;
            let retry = before.failures > 0 && before.failures <= self.retries_max;
            if due || retry {
                before.times = 1;
            } else {
                before.times += 1;
                report.add(request.start_us, url, Fault::Repeat(before.times));
            }
            before.start_us = request.start_us;
            before.failures = if failed { before.failures + 1 } else { 0 };
        }
        report
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::journal::{Event, Request};

    fn faults(rules: &Repeats, requests: Vec<Request>) -> Vec<Fault> {
        let report = rules.check(&Log::new(requests.into_iter().map(Event::Request), 0));
        report.violations.into_iter().map(|violation| violation.fault).collect()
    }

    fn page(path: &str, at: u64, status: u16) -> Request {
        Request { status, ..sample("a.test", path, 1, at, at + 1) }
    }

    #[test]
    fn different_urls_are_no_repeats() {
        let requests = [
            page("/1", 0, 200),
            page("/2", 10, 200),
            page("/1?q", 20, 200),
            Request { tls: true, ..page("/1", 30, 200) },
            page("/robots.txt", 40, 200),
            page("/robots.txt", 50, 200),
        ];
        let report = Repeats::default().check(&Log::new(requests.map(Event::Request), 0));
        assert!(report.is_clean(), "{report}");
    }

    #[test]
    fn a_page_asked_for_twice_is_caught() {
        let requests = vec![page("/1", 0, 200), page("/1", 10, 200)];
        assert_eq!(faults(&Repeats::default(), requests), [Fault::Repeat(2)]);
    }

    #[test]
    fn a_missing_page_is_no_reason_to_ask_again() {
        let requests = vec![page("/1", 0, 404), page("/1", 10, 404)];
        assert_eq!(faults(&Repeats::default(), requests), [Fault::Repeat(2)]);
    }

    #[test]
    fn failures_may_be_tried_again_so_many_times() {
        let tries = |count: u64| (0..count).map(|n| page("/1", n * 10, 503)).collect();
        assert_eq!(faults(&Repeats::default(), tries(4)), []);
        assert_eq!(faults(&Repeats::default(), tries(5)), [Fault::Repeat(2)]);
        let cut = Request { is_complete: false, ..page("/1", 0, 200) };
        assert_eq!(faults(&Repeats::default(), vec![cut, page("/1", 10, 200)]), []);
    }

    #[test]
    fn a_page_may_come_again_when_it_is_due_and_not_before() {
        let rules = Repeats { interval: Some(Duration::from_micros(100)), ..Repeats::default() };
        assert_eq!(faults(&rules, vec![page("/1", 0, 200), page("/1", 100, 200)]), []);
        assert_eq!(faults(&rules, vec![page("/1", 0, 200), page("/1", 99, 200)]), [Fault::Repeat(2)]);
    }

    #[test]
    fn robots_txt_counts_when_asked_to() {
        let rules = Repeats { counts_robots: true, ..Repeats::default() };
        let requests = vec![page("/robots.txt", 0, 200), page("/robots.txt", 10, 200)];
        assert_eq!(faults(&rules, requests), [Fault::Repeat(2)]);
    }
}
