//! Robots: no crawler requests a path that the robots.txt in force closes.
//!
//! In force for a crawler is the last robots.txt received from the host before the request began: the file as received,
//! not its content by now. The crawler must have requested the file at all, and not too long ago (RFC 9309, 2.4 says 24
//! hours). While the file cannot be had, the earlier copy stays in force (RFC 9309, 2.3.1.4); a redirect says nothing
//! by itself, its target does.

use std::collections::HashMap;
use std::time::Duration;

use super::{Fault, Report, host_key, is_robots, url};
use crate::journal::{Log, Request};
use crate::model::World;
use crate::rules::Rules;

/// The rules a robots.txt request was answered with; `None` for hosts that are not judged.
pub type RulesOf<'a> = Box<dyn Fn(&Request) -> Option<Rules> + 'a>;

/// Judges by the content of robots.txt at the time of its request.
pub struct Robots<'a> {
    /// A robots.txt may be used this long, in real time of the journal.
    pub age_max: Duration,
    /// The rules in the robots.txt of a request, given the request for the file; `None` for hosts not judged.
    pub rules_of: RulesOf<'a>,
}

impl<'a> Robots<'a> {
    /// By the robots.txt files of a web, for the crawler with this product token.
    pub fn of_world(world: &'a World, agent: &'a str) -> Robots<'a> {
        Robots {
            age_max: Duration::from_secs(24 * 3600),
            rules_of: Box::new(move |request| {
                let host = world.host_of(&request.host)?;
                if request.path == "/robots-real.txt" {
                    return Some(Rules::parse(&world.robots_text(host, request.virtual_s), agent));
                }
                Some(world.robots_rules(host, agent, request.virtual_s))
            }),
        }
    }

    /// Judges a journal.
    pub fn check(&self, log: &Log) -> Report {
        let mut report = Report::new(log);
        let read = rules_read(log, &self.rules_of);
        let age_max = self.age_max.as_micros() as u64;
        for request in log.requests.iter().filter(|request| !is_robots(request)) {
            if (self.rules_of)(request).is_none() {
                continue;
            }
            report.judged += 1;
            let answers = read.get(&host_key(request)).map_or(&[][..], Vec::as_slice);
            let Some((end, rules)) = in_force(answers, request.start_us) else {
                report.add(request.start_us, url(request), Fault::RobotsUnread);
                continue;
            };
            let age = request.start_us - end;
            if age > age_max {
                report.add(request.start_us, url(request), Fault::RobotsStale(age));
            }
            if !rules.allows(&request.path) {
                report.add(request.start_us, url(request), Fault::Disallowed);
            }
        }
        report
    }
}

/// Per host, the rules of its robots.txt, by the time at which the answers ended.
pub(super) fn rules_read(log: &Log, rules_of: &RulesOf<'_>) -> HashMap<String, Vec<(u64, Rules)>> {
    let mut answers: Vec<&Request> =
        log.requests.iter().filter(|request| is_robots(request) && request.is_complete).collect();
    answers.sort_by_key(|request| request.end_us);
    let mut read: HashMap<String, Vec<(u64, Rules)>> = HashMap::new();
    for request in answers {
        // The target follows, or the old copy stays.
        if (300..400).contains(&request.status) {
            continue;
        }
        let Some(rules) = rules_of(request) else { continue };
        let before = read.entry(host_key(request)).or_default();
        let rules = match before.last() {
            Some((_, old)) if request.status >= 500 => old.clone(),
            _ => rules,
        };
        before.push((request.end_us, rules));
    }
    read
}

/// The last of these that had ended by a moment.
pub(super) fn in_force(answers: &[(u64, Rules)], at_us: u64) -> Option<&(u64, Rules)> {
    let before = answers.partition_point(|(end, _)| *end <= at_us);
    before.checked_sub(1).map(|last| &answers[last])
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::journal::Event;

    /// Closes `/private/` from virtual second 10 on, on every host but `free.test`.
    fn judge() -> Robots<'static> {
        Robots {
            age_max: Duration::from_micros(1000),
            rules_of: Box::new(|request| {
                let text = match request.virtual_s {
                    0..10 => "User-agent: *\nDisallow:\n",
                    _ => "User-agent: *\nDisallow: /private/\n",
                };
                (*request.host != *"free.test").then(|| Rules::parse(text, "nephila"))
            }),
        }
    }

    fn at(virtual_s: u64, request: Request) -> Request {
        Request { virtual_s, ..request }
    }

    fn faults(requests: Vec<Request>) -> Vec<Fault> {
        let report = judge().check(&Log::new(requests.into_iter().map(Event::Request), 0));
        report.violations.into_iter().map(|violation| violation.fault).collect()
    }

    #[test]
    fn a_crawler_that_asks_first_and_obeys_is_clean() {
        let requests = [
            at(10, sample("a.test", "/robots.txt", 1, 0, 10)),
            at(10, sample("a.test", "/p/1", 1, 20, 30)),
            at(10, sample("free.test", "/private/1", 2, 20, 30)),
        ];
        let report = judge().check(&Log::new(requests.map(Event::Request), 0));
        assert!(report.is_clean(), "{report}");
        assert_eq!(report.judged, 1);
    }

    #[test]
    fn a_closed_path_is_caught() {
        let robots = at(10, sample("a.test", "/robots.txt", 1, 0, 10));
        let page = at(10, sample("a.test", "/private/1", 1, 20, 30));
        assert_eq!(faults(vec![robots, page]), [Fault::Disallowed]);
    }

    #[test]
    fn a_page_before_the_answer_of_robots_txt_is_caught() {
        let robots = sample("a.test", "/robots.txt", 1, 0, 10);
        let page = sample("a.test", "/p/1", 2, 5, 30);
        assert_eq!(faults(vec![robots, page]), [Fault::RobotsUnread]);
        assert_eq!(faults(vec![sample("a.test", "/p/1", 1, 5, 30)]), [Fault::RobotsUnread]);
    }

    #[test]
    fn robots_txt_of_another_scheme_or_host_does_not_count() {
        let robots = Request { tls: true, ..sample("a.test", "/robots.txt", 1, 0, 10) };
        assert_eq!(faults(vec![robots, sample("a.test", "/p/1", 1, 20, 30)]), [Fault::RobotsUnread]);
        let robots = sample("b.test", "/robots.txt", 1, 0, 10);
        assert_eq!(faults(vec![robots, sample("a.test", "/p/1", 1, 20, 30)]), [Fault::RobotsUnread]);
    }

    #[test]
    fn an_answer_that_was_cut_off_does_not_count() {
        let robots = Request { is_complete: false, ..sample("a.test", "/robots.txt", 1, 0, 10) };
        assert_eq!(faults(vec![robots, sample("a.test", "/p/1", 1, 20, 30)]), [Fault::RobotsUnread]);
    }

    #[test]
    fn a_robots_txt_kept_too_long_is_caught() {
        let robots = sample("a.test", "/robots.txt", 1, 0, 10);
        assert_eq!(faults(vec![robots, sample("a.test", "/p/1", 1, 1011, 1012)]), [Fault::RobotsStale(1001)]);
    }

    #[test]
    fn what_the_crawler_was_told_last_is_in_force() {
        let told = |virtual_s, from| at(virtual_s, sample("a.test", "/robots.txt", 1, from, from + 10));
        let private = |from| at(99, sample("a.test", "/private/1", 1, from, from + 5));
        // The file received allows everything: the later change does not count until the next request for the file.
        assert_eq!(faults(vec![told(0, 0), private(20)]), []);
        assert_eq!(faults(vec![told(0, 0), private(20), told(10, 50), private(70)]), [Fault::Disallowed]);
    }
}
