//! A clock that is wrong for a while, and the dates left behind.

use super::lab::{Lab, config, failed};
use crate::spider::outcome::Outcome;
use crate::state::record::UrlState;
use crate::time::{Seconds, Timestamp};

const YEAR: u64 = 365 * 24 * 3_600 * 1_000;

/// A page that fails and one that waits behind, requested under a clock that shows next year.
fn next_year() -> Lab {
    let mut lab = Lab::new(config());
    lab.web.pages.insert("http://a.test/1".into(), failed(Outcome::Unavailable, 503, Some(600)));
    lab.offer_first("http://a.test/1", &["http://a.test/2"]);
    lab.now.wall = Timestamp(lab.now.wall.0 + YEAR);
    lab.run(5_000);
    assert_eq!((lab.pages.len(), lab.robots.len()), (1, 1));
    lab.now.wall = Timestamp(lab.now.wall.0 - YEAR);
    lab.web.pages.clear();
    let today = Seconds::from(lab.now.wall).0;
    let is_far = |date: Seconds| date.0 > today + 300 * 24 * 3_600;
    let UrlState::Later(due) = lab.record("http://a.test/1").state else { panic!("it is planned") };
    let host = lab.host("http://a.test/");
    assert!(is_far(due) && is_far(host.robots.expires) && is_far(host.rest_until.into()));
    lab
}

#[test]
fn pro_05_a_clock_that_was_wrong_for_seconds_holds_nothing_up() {
    let mut lab = next_year();
    lab.run(700_000);
    let mut asked = lab.urls();
    asked.sort_unstable();
    assert_eq!(
        asked,
        ["http://a.test/1", "http://a.test/1", "http://a.test/2"],
        "after the rest that the host asked for"
    );
    assert!(matches!(lab.record("http://a.test/1").state, UrlState::Ended));
    let horizon = Seconds::from(lab.now.wall).plus(std::time::Duration::from_secs(60));
    lab.run(5_000);
    assert!(lab.frontier.is_done(horizon, lab.now).unwrap());
}

#[test]
fn pro_05_what_a_wrong_clock_left_behind_is_not_believed_after_a_restart() {
    let mut lab = next_year();
    lab.restart(1_000);
    lab.run(10_000);
    assert_eq!(lab.robots.len(), 2, "its robots.txt is asked for again");
    lab.run(70_000);
    let mut asked = lab.urls();
    asked.sort_unstable();
    assert_eq!(asked, ["http://a.test/1", "http://a.test/1", "http://a.test/2"], "at the next full minute");
}

#[test]
fn pro_05_a_full_minute_that_passes_while_urls_are_queued_does_not_end_the_crawl() {
    // The run begins at each second of the last ten of a minute; the queue is empty in the next minute.
    for before in 0..10 {
        let mut lab = next_year();
        let urls: Vec<_> = (3..9).map(|page| format!("http://a.test/{page}")).collect();
        lab.offer(&urls.iter().map(|url| &**url).collect::<Vec<_>>());
        let now = lab.now.wall.0;
        lab.now.wall = Timestamp(now.next_multiple_of(60_000) + 60_000 - before * 1_000);
        lab.restart(1_000);
        let mut seconds = 0;
        loop {
            lab.run(1_000);
            seconds += 1;
            let horizon = Seconds::from(lab.now.wall).plus(std::time::Duration::from_secs(60));
            if lab.frontier.is_done(horizon, lab.now).unwrap() {
                break;
            }
            assert!(seconds < 200, "the crawl ends");
        }
        let asked = lab.urls().iter().filter(|url| **url == "http://a.test/1").count();
        assert_eq!(asked, 2, "the crawl ended without the planned page, {before} s before a full minute");
    }
}
