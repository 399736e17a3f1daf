//! `Crawl-delay`, as read by a crawler: between two requests to a host lies the rest that the robots.txt in force asks
//! for, while the file may change over time.
//!
//! In force for a rest is the robots.txt answered before the end of the preceding request, so the answer that first
//! asks for a delay is itself followed by that delay.

use std::collections::HashMap;
use std::time::Duration;

use super::robots::{RulesOf, in_force, rules_read};
use super::{Fault, Report, host_key};
use crate::journal::{Log, Request};
use crate::model::World;

/// Judges by the content of robots.txt at the time of its request.
pub struct CrawlDelays<'a> {
    /// How much too short a rest may be, for the jitter of this machine.
    pub tolerance: Duration,
    /// How much later than its client a server may notice that an answer was given up.
    pub closing_grace: Duration,
    /// The rules in the robots.txt of a request; `None` for hosts not judged.
    pub rules_of: RulesOf<'a>,
}

impl<'a> CrawlDelays<'a> {
    /// By the robots.txt files of a web, for the crawler with this product token.
    pub fn of_world(world: &'a World, agent: &'a str) -> CrawlDelays<'a> {
        let rules_of = super::Robots::of_world(world, agent).rules_of;
        CrawlDelays { tolerance: Duration::from_millis(2), closing_grace: Duration::ZERO, rules_of }
    }

    /// Judges a journal. The report counts the rests for which a delay was in force.
    pub fn check(&self, log: &Log) -> Report {
        let mut report = Report::new(log);
        let read = rules_read(log, &self.rules_of);
        let tolerance = self.tolerance.as_micros() as u64;
        let mut hosts: HashMap<String, Vec<&Request>> = HashMap::new();
        for request in &log.requests {
            hosts.entry(host_key(request)).or_default().push(request);
        }
        for (host, requests) in &hosts {
            let answers = read.get(host).map_or(&[][..], Vec::as_slice);
            for pair in requests.windows(2) {
                let (before, next) = (pair[0], pair[1]);
                let delay = in_force(answers, before.end_us).and_then(|(_, rules)| rules.crawl_delay());
                let Some(needed_us) = delay.map(|delay| delay.as_micros() as u64) else { continue };
                report.judged += 1;
                let had_us = next.start_us.saturating_sub(before.end_us);
                let grace = if before.is_complete { 0 } else { self.closing_grace.as_micros() as u64 };
                if had_us + tolerance + grace < needed_us {
                    report.add(next.start_us, host.as_str(), Fault::CrawlDelay { had_us, needed_us });
                }
            }
        }
        report.violations.sort_by_key(|violation| violation.at_us);
        report
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::journal::Event;
    use crate::rules::Rules;

    /// Asks for a second from virtual second 10 on.
    fn faults(requests: Vec<Request>) -> (u64, Vec<Fault>) {
        let rules_of: RulesOf<'static> = Box::new(|request| {
            let text = if request.virtual_s < 10 { "" } else { "User-agent: *\nCrawl-delay: 1\n" };
            Some(Rules::parse(text, "nephila"))
        });
        let judge = CrawlDelays { tolerance: Duration::ZERO, closing_grace: Duration::ZERO, rules_of };
        let report = judge.check(&Log::new(requests.into_iter().map(Event::Request), 0));
        (report.judged, report.violations.into_iter().map(|violation| violation.fault).collect())
    }

    fn robots(virtual_s: u64, start_us: u64) -> Request {
        Request { virtual_s, ..sample("a.test", "/robots.txt", 1, start_us, start_us + 10) }
    }

    #[test]
    fn a_delay_counts_from_the_answer_that_asked_for_it() {
        let page = |at| sample("a.test", "/1", 1, at, at + 10);
        let before = vec![robots(0, 0), page(20), page(40), robots(10, 60), page(1_000_070)];
        assert_eq!(faults(before), (1, vec![]));
        let fault = |had_us| Fault::CrawlDelay { had_us, needed_us: 1_000_000 };
        let early = vec![robots(10, 60), page(500_070), page(1_500_000)];
        assert_eq!(faults(early), (2, vec![fault(500_000), fault(999_920)]));
    }

    #[test]
    fn a_file_that_fails_leaves_the_delay_in_force() {
        let failed = Request { status: 503, ..robots(0, 1_000_100) };
        let page = |at| sample("a.test", "/1", 1, at, at + 10);
        let (judged, found) = faults(vec![robots(10, 0), failed, page(1_500_000)]);
        assert_eq!((judged, found.len()), (2, 1));
    }
}
