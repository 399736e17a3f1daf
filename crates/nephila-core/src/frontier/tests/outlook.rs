//! The reasons for which hosts wait, and the end of all work.

use std::time::Duration;

use super::lab::{Lab, config, failed, key};
use crate::entry::{Entry, HostChange};
use crate::frontier::outlook::{Held, Left, Waits};
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;
use crate::time::Seconds;

/// Whether the crawl is done, if nothing after this number of seconds from now counts.
fn done(lab: &mut Lab, seconds: u64) -> bool {
    left(lab, seconds) == Left::Nothing
}

/// The work that is left, if nothing planned for after this number of seconds from now counts.
fn left(lab: &mut Lab, seconds: u64) -> Left {
    let horizon = Seconds::from(lab.now.wall).plus(Duration::from_secs(seconds));
    lab.frontier.left(horizon, lab.now).unwrap()
}

/// URLs that wait for hosts with a long rest.
fn held(lab: &mut Lab) -> Held {
    lab.frontier.held(lab.now).unwrap()
}

/// Lets hours pass in steps of a minute, and checks that the crawl never looks done before this number of pages.
fn run_hours(lab: &mut Lab, hours: u64, pages: usize) {
    for _ in 0..hours * 60 {
        if lab.pages.len() >= pages {
            break;
        }
        // The shipped value of `crawl.retry_wait_max`.
        assert!(!done(lab, 60), "done after {} pages", lab.pages.len());
        lab.run(60_000);
    }
    lab.run(5_000);
}

fn waits(lab: &Lab) -> Waits {
    lab.frontier.waits(lab.now)
}

/// Lets time pass in small steps until this number of pages, and checks that the crawl never looks done before.
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
    assert!(!done(&mut lab, 0), "nobody has searched yet");
    lab.run(10);
    assert!(done(&mut lab, 0) && done(&mut lab, 100_000_000));
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
    assert!(!done(&mut lab, 0), "the last are being fetched");
    lab.run(150);
    assert!(done(&mut lab, 1_000_000));
}

#[test]
fn a_restart_is_not_done_before_what_it_left_behind() {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1", "http://a.test/2"]);
    lab.run(1_300);
    lab.restart(100);
    run_until(&mut lab, 2);
    lab.run(2_000);
    assert!(done(&mut lab, 1_000_000));
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
    assert!(done(&mut lab, after - 1) && !done(&mut lab, after), "in {after} s");
    lab.web.pages.clear();
    lab.run(after * 1_000 + 2_000);
    assert_eq!(lab.pages.len(), 2);
    assert!(done(&mut lab, 1_000_000));
}

#[test]
fn fin_01_what_was_never_tried_is_waited_for_however_long_its_host_rests() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert("http://a.test/1".into(), failed(Outcome::RateLimited, 429, Some(7_200)));
    lab.offer_first("http://a.test/1", &["http://a.test/2"]);
    run_until(&mut lab, 1);
    lab.run(10_000);
    assert_eq!((left(&mut lab, 60), left(&mut lab, 8_000)), (Left::Held, Left::Work));
    assert_eq!(waits(&lab), Waits { backing_off: 1, ..Waits::default() });
    let held = held(&mut lab);
    assert_eq!((held.hosts, held.urls), (1, 1));
    let (until, origin) = held.first.expect("somebody is waited for");
    assert_eq!(&*origin, "http://a.test");
    let rests = until.0 - Seconds::from(lab.now.wall).0;
    assert!((7_100..7_201).contains(&rests), "for {rests} s");
    // The host keeps answering so for /1, whose retries come up with their host, and go first, until they wait for
    // longer.
    run_hours(&mut lab, 8, 4);
    assert_eq!(lab.urls()[1..], ["http://a.test/1", "http://a.test/1", "http://a.test/2"]);
    assert!(done(&mut lab, 60), "the next try of /1 is left for later");
}

#[test]
fn fin_01_a_503_does_not_end_a_crawl_at_the_shipped_settings() {
    let shipped = crate::frontier::Config { agent: "Nephila".into(), ..Default::default() };
    let mut lab = Lab::new(shipped);
    let urls: Vec<String> = (0..100).map(|n| format!("http://a.test/{n}")).collect();
    for url in urls.iter().step_by(10) {
        lab.web.pages.insert(url.clone(), failed(Outcome::Unavailable, 503, None));
    }
    lab.offer(&urls.iter().map(String::as_str).collect::<Vec<_>>());
    for _ in 0..24 * 60 {
        if done(&mut lab, 60) {
            break;
        }
        lab.run(60_000);
    }
    let asked: std::collections::BTreeSet<&str> = lab.urls().into_iter().collect();
    assert_eq!(asked.len(), 100, "every one of them was asked for");
}

#[test]
fn fin_01_a_robots_txt_that_fails_for_a_day_is_waited_for() {
    let mut lab = Lab::new(config());
    lab.web.robots.insert("http://a.test".into(), (RobotsResult::Status(500), String::new()));
    lab.offer(&["http://a.test/1"]);
    lab.run(5_000);
    for _ in 0..24 {
        assert_eq!(left(&mut lab, 60), Left::Held);
        lab.run(3_600_000);
    }
    lab.web.robots.clear();
    run_hours(&mut lab, 24, 1);
    assert_eq!(lab.pages.len(), 1);
    assert!(done(&mut lab, 60));
}

#[test]
fn fin_01_a_name_that_is_gone_for_an_hour_is_waited_for() {
    for outcome in [Outcome::DnsNxdomain, Outcome::DnsServfail, Outcome::DnsTimeout] {
        let mut config = config();
        config.frontier.resolve_after = Duration::from_secs(10);
        let mut lab = Lab::new(config);
        let urls: Vec<String> = (0..30).map(|n| format!("http://a.test/{n}")).collect();
        lab.offer(&urls.iter().map(String::as_str).collect::<Vec<_>>());
        run_until(&mut lab, 5);
        lab.web.no_address.insert("http://a.test".into(), outcome);
        lab.run(60_000);
        assert!(lab.pages.len() < 20, "the name is looked up again");
        assert_eq!(left(&mut lab, 60), Left::Held, "{outcome}");
        lab.run(3_600_000);
        lab.web.no_address.clear();
        run_hours(&mut lab, 10, 30);
        assert_eq!(lab.pages.len(), 30, "{outcome}");
    }
}

#[test]
fn fin_01_a_host_that_is_given_up_is_not_waited_for() {
    // The host never answers: 15 minutes, 30, 1 hour, 2 hours and 4 hours later the host is given up.
    let mut lab = Lab::new(config());
    lab.web.no_address.insert("http://a.test".into(), Outcome::DnsServfail);
    lab.offer(&["http://a.test/1", "http://a.test/2"]);
    lab.run(5_000);
    assert_eq!(left(&mut lab, 60), Left::Held);
    lab.run(7 * 3_600_000);
    assert_eq!(left(&mut lab, 60), Left::Held);
    lab.run(3_600_000);
    assert!(done(&mut lab, 60));
    assert_eq!(lab.record("http://a.test/1").last.unwrap().outcome, Outcome::DnsServfail);
    // The same if its port is closed.
    lab.web.robots.insert("http://b.test".into(), (RobotsResult::Unreachable, String::new()));
    lab.web.cause = Some(Outcome::ConnectRefused);
    lab.offer(&["http://b.test/1"]);
    lab.run(7 * 3_600_000);
    assert_eq!(left(&mut lab, 60), Left::Held);
    lab.run(3_600_000);
    assert!(done(&mut lab, 60));
    assert_eq!(lab.record("http://b.test/1").last.unwrap().outcome, Outcome::ConnectRefused);
}

#[test]
fn a_host_that_our_own_rules_forbid_is_not_waited_for() {
    let forbidden = Outcome::ALL.iter().filter(|outcome| outcome.is_host_forbidden());
    let mut count = 0;
    for &outcome in forbidden {
        let mut lab = Lab::new(config());
        lab.web.robots.insert("http://a.test:9".into(), (RobotsResult::Unreachable, String::new()));
        lab.web.cause = Some(outcome);
        lab.offer(&["http://a.test:9/1", "http://a.test:9/2"]);
        lab.run(60_000);
        assert!(done(&mut lab, 60), "{outcome}");
        for url in ["http://a.test:9/1", "http://a.test:9/2"] {
            assert_eq!(lab.record(url).last.unwrap().outcome, outcome);
        }
        count += 1;
    }
    assert_eq!(count, 5);
}

#[test]
fn fin_01_a_certificate_that_expires_during_a_crawl_is_a_failure_of_its_host() {
    let mut lab = Lab::new(config());
    let urls: Vec<String> = (0..30).map(|n| format!("https://a.test/{n}")).collect();
    for url in &urls {
        lab.web.pages.insert(url.clone(), failed(Outcome::TlsExpired, 0, None));
    }
    lab.offer(&urls.iter().map(String::as_str).collect::<Vec<_>>());
    lab.run(7 * 3_600_000);
    assert_eq!(left(&mut lab, 60), Left::Held);
    lab.run(3_600_000);
    assert_eq!(lab.pages.len(), 6, "one, and five more after ever longer rests");
    assert!(done(&mut lab, 60), "then it is given up");
    assert!(urls.iter().all(|url| lab.record(url).last.unwrap().outcome == Outcome::TlsExpired));
}

#[test]
fn fin_01_a_resolver_that_was_away_gives_nobody_up_at_the_next_failure() {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://a.test/3"]);
    run_until(&mut lab, 1);
    let host = key("http://a.test/").host;
    for outcome in [Outcome::DnsUnreachable, Outcome::DnsServfail] {
        lab.frontier.handle_unresolved(host, outcome, lab.now).unwrap();
    }
    lab.run(60_000);
    assert_eq!(left(&mut lab, 60), Left::Held);
    assert!(lab.record("http://a.test/3").last.is_none(), "it was not tried, and waits");
    run_hours(&mut lab, 1, 3);
    assert_eq!(lab.urls().len(), 3);
}

#[test]
fn fin_01_a_name_that_never_was_ends_at_once() {
    let mut lab = Lab::new(config());
    lab.web.no_address.insert("http://a.test".into(), Outcome::DnsNxdomain);
    lab.offer(&["http://a.test/1"]);
    lab.run(5_000);
    assert!(done(&mut lab, 60));
    assert_eq!(lab.record("http://a.test/1").last.unwrap().outcome, Outcome::DnsNxdomain);
}

#[test]
fn fin_01_a_restart_knows_who_is_waited_for() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert("http://a.test/1".into(), failed(Outcome::Unavailable, 503, Some(7_200)));
    lab.offer_first("http://a.test/1", &["http://a.test/2", "http://a.test/3"]);
    run_until(&mut lab, 1);
    lab.run(5_000);
    lab.restart(1_000);
    lab.run(5_000);
    assert_eq!(left(&mut lab, 60), Left::Held);
    assert_eq!(held(&mut lab).urls, 2);
    lab.say(Entry::Host(HostChange::Stop(key("http://a.test/").host, "no".into())));
    lab.run(5_000);
    assert!(done(&mut lab, 60), "a stopped host is not waited for");
    assert_eq!(held(&mut lab), Held::default());
}

#[test]
fn a_stopped_host_does_not_count() {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://a.test/3"]);
    run_until(&mut lab, 1);
    lab.say(Entry::Host(HostChange::Stop(key("http://a.test/").host, "no".into())));
    assert!(!done(&mut lab, 0), "it does not stand in the log yet");
    lab.run(5_000);
    assert!(done(&mut lab, 1_000_000));
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
    assert!(done(&mut lab, 1_000_000));
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
    lab.web.robots.insert("http://a.test".into(), (RobotsResult::Unreachable, String::new()));
    lab.offer(&["http://a.test/1"]);
    lab.run(5_000);
    assert_eq!(left(&mut lab, 60), Left::Held, "nothing happens within a minute");
    assert_eq!(left(&mut lab, 100_000), Left::Work, "and something after that");
    assert!(lab.frontier.later_next().is_some());
}
