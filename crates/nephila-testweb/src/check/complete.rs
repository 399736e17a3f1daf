//! Completeness: a crawl has requested all of the ground truth, and nothing else.

use std::collections::HashSet;

use super::{Fault, Report, url};
use crate::journal::Log;
use crate::model::{Place, Truth, What, World};

/// Compares a journal with the ground truth, both ways.
///
/// A place counts as requested when one answer was handed out whole. Places on tarpits may be requested or not, and so
/// may robots.txt, and feeds and sitemaps when the truth was computed without them.
pub fn check_complete(world: &World, truth: &Truth, log: &Log) -> Report {
    let mut report = Report::new(log);
    let mut asked: HashSet<Place> = HashSet::new();
    for request in &log.requests {
        let place = world.place(&request.host, &request.path);
        let right_scheme = place.is_some_and(|place| world.is_https(place.host) == request.tls);
        let canonical = place.is_some_and(|place| world.path(place) == request.path);
        if let (Some(place), true) = (place, right_scheme && canonical) {
            if truth.reach(place).is_some_and(|reach| reach.is_expected()) {
                if request.is_complete {
                    asked.insert(place);
                }
                continue;
            }
            if may_be_asked(truth, place) {
                continue;
            }
        }
        let is_robots = super::is_robots(request) && world.host_of(&request.host).is_some();
        if !is_robots {
            report.add(request.start_us, url(request), Fault::Unexpected);
        }
    }
    for place in truth.expected() {
        report.judged += 1;
        if !asked.contains(&place) {
            report.add(0, world.url(place), Fault::Missing);
        }
    }
    report
}

/// Whether a place that is not expected may be requested all the same.
fn may_be_asked(truth: &Truth, place: Place) -> bool {
    if truth.reach(place) == Some(crate::model::Reach::Tarpit) {
        return true;
    }
    match place.what {
        What::Robots | What::RobotsReal => true,
        What::Feed | What::News(_) => !truth.options.reads_feeds,
        What::Sitemaps | What::Sitemap(_) => !truth.options.reads_sitemaps,
        What::Page(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::journal::{Event, Request};
    use crate::model::{Reach, TruthOptions};
    use crate::settings::Settings;

    fn world() -> World {
        World::new(Settings { hosts: 60, pages: 600, ..Settings::mixed() }, 8080, 8443)
    }

    /// The request a crawler makes for a place.
    fn request(world: &World, place: Place) -> Request {
        let tls = world.is_https(place.host);
        let mut host = String::new();
        world.push_authority(&mut host, place.host, tls);
        Request { tls, ..sample(&host, &world.path(place), 1, 0, 1) }
    }

    /// The faults found in the journal of a perfect crawl, changed by `change`.
    fn faults(change: impl FnOnce(&World, &Truth, &mut Vec<Request>)) -> Vec<Fault> {
        let world = world();
        let truth = world.truth(&TruthOptions::default());
        let mut requests: Vec<_> = truth.expected().map(|place| request(&world, place)).collect();
        requests.sort_by(|a, b| (&a.host, &a.path).cmp(&(&b.host, &b.path)));
        change(&world, &truth, &mut requests);
        let report = check_complete(&world, &truth, &Log::new(requests.into_iter().map(Event::Request), 0));
        assert!(report.judged > 300);
        report.violations.into_iter().map(|violation| violation.fault).collect()
    }

    #[test]
    fn a_perfect_crawl_is_clean() {
        assert_eq!(faults(|_, _, _| {}), []);
    }

    #[test]
    fn a_page_left_out_is_caught() {
        assert_eq!(faults(|_, _, requests| drop(requests.pop())), [Fault::Missing]);
    }

    #[test]
    fn a_page_never_received_whole_is_caught() {
        assert_eq!(faults(|_, _, requests| requests[7].is_complete = false), [Fault::Missing]);
    }

    #[test]
    fn pages_that_were_not_to_be_asked_for_are_caught() {
        for reach in [Reach::Disallowed, Reach::Dead] {
            let found = faults(|world, truth, requests| {
                let place = truth.iter().find(|(_, found)| *found == reach).unwrap().0;
                requests.push(request(world, place));
            });
            assert_eq!(found, [Fault::Unexpected], "{reach:?}");
        }
        let found = faults(|_, _, requests| requests.push(sample("h0.d0.test:8080", "/nowhere", 1, 0, 1)));
        assert_eq!(found, [Fault::Unexpected]);
        let found = faults(|_, _, requests| requests.push(sample("elsewhere.test", "/", 1, 0, 1)));
        assert_eq!(found, [Fault::Unexpected]);
    }

    #[test]
    fn the_wrong_scheme_or_another_spelling_is_caught() {
        let found = faults(|_, _, requests| {
            let other = Request { tls: !requests[0].tls, ..requests[0].clone() };
            requests.push(other);
        });
        assert_eq!(found, [Fault::Unexpected]);
        let found = faults(|_, _, requests| {
            let other = Request { path: format!("{}?", requests[0].path), ..requests[0].clone() };
            requests.push(other);
        });
        assert_eq!(found, [Fault::Unexpected]);
    }

    #[test]
    fn robots_txt_and_tarpits_may_be_asked_for() {
        let found = faults(|world, truth, requests| {
            requests.push(request(world, Place { host: 3, what: What::Robots }));
            requests.extend(
                truth
                    .iter()
                    .filter(|(_, reach)| *reach == Reach::Tarpit)
                    .map(|(place, _)| request(world, place)),
            );
        });
        assert_eq!(found, []);
    }
}
