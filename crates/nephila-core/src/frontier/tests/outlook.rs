//! What is waited for, and when there is nothing left.

use std::time::Duration;

use super::lab::{Lab, config, failed, key};
use crate::entry::{Entry, HostChange};
use crate::frontier::outlook::Waits;
use crate::robots::policy::Answer;
use crate::spider::outcome::Outcome;
use crate::time::Seconds;

/// Is it done, if nothing later than so many seconds from now counts?
fn done(lab: &Lab, seconds: u64) -> bool {
    lab.frontier.is_done(Seconds::from(lab.now.wall).plus(Duration::from_secs(seconds)), lab.now)
}

fn waits(lab: &Lab) -> Waits {
    lab.frontier.waits(lab.now)
}

/// Lets time pass in small steps until there are so many pages, and checks that it never looks done before.
fn run_until(lab: &mut Lab, pages: usize) {
    for _ in 0..100_000 {
        if lab.pages.len() >= pages {
            return;
        }
        assert!(!done(lab, 0), "done after {} pages", lab.pages.len());
        lab.run(50);
    }
    panic!("{} pages, not {pages}", lab.pages.len());
}

#[test]
fn an_empty_frontier_is_done_once_it_has_looked() {
    let mut lab = Lab::new(config());
    assert!(!done(&lab, 0), "nobody has searched yet");
    lab.run(10);
    assert!(done(&lab, 0) && done(&lab, 100_000_000));
    assert_eq!((waits(&lab), lab.frontier.later_next()), (Waits::default(), None));
}

#[test]
fn a_crawl_is_done_soon_after_its_last_page_and_never_before() {
    let mut lab = Lab::new(config());
    let origins = ["http://a.test", "http://b.test", "http://c.test"];
    for origin in origins {
        let next = |n: usize| format!("{origin}/{n}");
        for n in 0..4 {
            lab.web.links.insert(next(n), vec![next(n + 1)]);
        }
        lab.offer(&[&next(0)]);
    }
    run_until(&mut lab, 15);
    assert!(!done(&lab, 0), "the last are being fetched");
    lab.run(150);
    assert!(done(&lab, 1_000_000));
}

#[test]
fn a_restart_is_not_done_before_what_it_left_behind() {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1", "http://a.test/2"]);
    lab.run(1_300);
    lab.restart(100);
    run_until(&mut lab, 2);
    lab.run(2_000);
    assert!(done(&lab, 1_000_000));
}

#[test]
fn what_is_planned_beyond_the_horizon_does_not_count() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert("http://a.test/1".into(), failed(Outcome::ServerError, 500, None));
    lab.offer(&["http://a.test/1"]);
    run_until(&mut lab, 1);
    lab.run(5_000);
    let next = lab.frontier.later_next().expect("a retry is planned");
    let after = u64::from(next.0 - Seconds::from(lab.now.wall).0);
    assert!(done(&lab, after - 1) && !done(&lab, after), "in {after} s");
    lab.web.pages.clear();
    lab.run(after * 1_000 + 2_000);
    assert_eq!(lab.pages.len(), 2);
    assert!(done(&lab, 1_000_000));
}

#[test]
fn a_host_that_backs_off_beyond_the_horizon_does_not_count() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert("http://a.test/1".into(), failed(Outcome::RateLimited, 429, Some(600)));
    lab.web.pages.insert("http://a.test/2".into(), failed(Outcome::RateLimited, 429, Some(600)));
    lab.offer(&["http://a.test/1", "http://a.test/2"]);
    run_until(&mut lab, 1);
    lab.run(10_000);
    assert!(done(&lab, 500) && !done(&lab, 700));
    assert_eq!(waits(&lab), Waits { backing_off: 1, ..Waits::default() });
    lab.run(580_000);
    assert_eq!(waits(&lab).backing_off, 1, "still, in its last seconds");
}

#[test]
fn a_stopped_host_does_not_count() {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://a.test/3"]);
    run_until(&mut lab, 1);
    lab.say(Entry::Host(HostChange::Stop(key("http://a.test/").host, "no".into())));
    assert!(!done(&lab, 0), "it does not stand in the log yet");
    lab.run(5_000);
    assert!(done(&lab, 1_000_000));
    lab.say(Entry::Host(HostChange::Resume(key("http://a.test/").host)));
    run_until(&mut lab, 3);
}

#[test]
fn hosts_that_wait_for_a_place_in_their_domain_count() {
    let mut config = config();
    config.frontier.domain_hosts_active_max = 1;
    config.frontier.host_delay = Duration::from_secs(20);
    let mut lab = Lab::new(config);
    lab.offer(&["http://a.x.test/1", "http://b.x.test/1", "http://c.x.test/1"]);
    run_until(&mut lab, 3);
    lab.run(60_000);
    assert!(done(&lab, 1_000_000));
}

#[test]
fn every_host_is_counted_once_by_what_it_waits_for() {
    let mut config = config();
    config.frontier.slot_connections = 1;
    config.frontier.slot_delay = Duration::from_secs(5);
    let mut lab = Lab::new(config);
    for origin in ["http://a.test", "http://b.test"] {
        lab.web.addresses.insert(origin.into(), vec!["192.0.2.1".parse().unwrap()]);
    }
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://b.test/1", "http://b.test/2"]);
    lab.commit();
    assert_eq!(waits(&lab), Waits { resolving: 2, ..Waits::default() });
    lab.run(50);
    assert_eq!(waits(&lab).robots, 2, "one is asked for, the other waits for the address");
    lab.run(10_200);
    assert_eq!(waits(&lab), Waits { fetching: 1, slot: 1, ..Waits::default() }, "at {}", lab.now.mono);
    lab.run(200);
    let then = waits(&lab);
    assert_eq!((then.resting, then.slot), (1, 1));
    let next = then.next_start.expect("both have something") - lab.now.mono;
    assert!((1..5_000).contains(&next), "in {next} ms");
    let before = lab.pages.len();
    lab.run(next - 1);
    assert_eq!(lab.pages.len(), before);
    lab.run(1);
    assert_eq!(lab.pages.len(), before + 1);
}

#[test]
fn looking_at_a_robots_txt_that_is_out_of_reach_tells_when_it_is_asked_for_again() {
    let mut lab = Lab::new(config());
    lab.web.robots.insert("http://a.test".into(), (Answer::Unreachable, String::new()));
    lab.offer(&["http://a.test/1"]);
    lab.run(5_000);
    assert!(done(&lab, 60), "nothing happens within a minute");
    assert!(!done(&lab, 100_000), "and something after that");
    assert!(lab.frontier.later_next().is_some());
}
