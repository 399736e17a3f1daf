//! Hosts with restricted hours of the day. The lab itself checks that no request begins outside of them.

use std::time::Duration;

use crate::frontier::explain::Hold;
use crate::frontier::hours::Hours;
use crate::frontier::tests::lab::{Lab, MONO, config, url};
use crate::time::{Seconds, Timestamp};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;

/// The lab opens at midnight.
fn lab(hosts: &[&str], from: &str, to: &str) -> Lab {
    let mut config = config();
    let hosts = hosts.iter().map(|host| host.parse().unwrap()).collect();
    let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
    config.frontier.hours = vec![Hours { hosts, from, to, offset: Default::default() }];
    config.frontier.host_delay = Duration::from_secs(600);
    Lab::new(config)
}

#[test]
fn pol_18_a_host_is_asked_within_its_hours_only_day_after_day() {
    let mut lab = lab(&["night.test"], "03:00", "05:00");
    let urls: Vec<String> = (0..40).map(|n| format!("http://night.test/{n}")).collect();
    lab.offer(&urls.iter().map(String::as_str).collect::<Vec<_>>());
    lab.offer(&["http://day.test/"]);
    lab.run(2 * HOUR);
    assert_eq!(lab.pages.len(), 1, "who has no hours is asked at once, and they hold for robots.txt too");
    assert_eq!(lab.robots.len(), 1);
    assert!(!lab.frontier.is_done(Seconds::from(lab.now.wall), lab.now).unwrap(), "a crawl waits for them");
    let held = lab.frontier.explain(&url(&urls[0]), lab.now).unwrap();
    let opens = Timestamp(lab.now.wall.0 + HOUR);
    assert!(held.held_by.contains(&Hold::Hours("03:00 to 05:00 (+00:00)".into(), opens)), "{held:?}");
    assert!(held.ready_in.is_some_and(|wait| (HOUR..HOUR + 5 * MINUTE).contains(&wait)), "{held:?}");
    lab.run(70 * HOUR);
    let night = |start: &&crate::frontier::tests::lab::Start| start.ticket.url.contains("night");
    let starts: Vec<u64> = lab.pages.iter().filter(night).map(|start| start.at - MONO).collect();
    assert!(
        (30..=36).contains(&starts.len()),
        "three nights of two hours, one page in ten minutes: {starts:?}"
    );
    let nights: Vec<u64> = starts.iter().map(|at| at / (24 * HOUR)).collect();
    assert!((0..3).all(|night| nights.contains(&night)), "{starts:?}");
    lab.run(24 * HOUR);
    assert_eq!(lab.pages.len(), 41, "all of them in the end");
    assert!(lab.frontier.is_done(Seconds::from(lab.now.wall), lab.now).unwrap());
}

#[test]
fn pol_18_a_hundred_hosts_with_the_same_hours_do_not_begin_together() {
    let mut lab = lab(&["*.night.test"], "03:00", "05:00");
    let urls: Vec<String> = (0..100).map(|n| format!("http://h{n}.night.test/")).collect();
    lab.offer(&urls.iter().map(String::as_str).collect::<Vec<_>>());
    lab.run(4 * HOUR);
    assert_eq!(lab.robots.len(), 100);
    let (first, last) = (lab.robots[0].at - MONO, lab.robots[99].at - MONO);
    assert!(first < 3 * HOUR + MINUTE && last > 3 * HOUR + 4 * MINUTE, "{first} to {last}");
    let crowded = lab.robots.windows(10).filter(|ten| ten[9].at - ten[0].at < 1_000).count();
    assert_eq!(crowded, 0, "no second has ten of them");
}

#[test]
fn a_host_out_of_its_hours_takes_nobodys_place() {
    let mut lab = {
        let mut config = lab(&["night.test"], "03:00", "05:00").config;
        config.frontier.hosts_active_max = 1;
        Lab::new(config)
    };
    lab.offer(&["http://night.test/", "http://one.test/", "http://two.test/"]);
    lab.run(2 * HOUR);
    assert_eq!(lab.pages.len(), 2);
    lab.run(3 * HOUR);
    assert_eq!(lab.pages.len(), 3);
}
