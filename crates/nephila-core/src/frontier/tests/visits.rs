//! Repeated visits: booked time of a host, `HEAD` requests, claims of sites about changes, and a clock that was wrong.

use std::time::Duration;

use super::again::{adaptive, claim, visit};
use super::lab::{Lab, config, failed, key};
use crate::entry::Entry;
use crate::frontier::Config;
use crate::frontier::recrawl::{LISTED_WAITING_MAX, LOOKUPS_MAX};
use crate::frontier::ticket::{HeadFirst, Report};
use crate::job::{Job, JobId, Schedule};
use crate::recrawl::claims::{LISTED_MAX, Listed};
use crate::recrawl::{Policy, Settings};
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;
use crate::state::record::UrlState;
use crate::time::{Seconds, Timestamp};

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;
const PAGE: &str = "http://a.test/1";

fn job(host_visits_per_day: u32) -> Entry {
    let mut job = Job::new(JobId(1), "press");
    let settings = Settings { policy: Policy::Adaptive, host_visits_per_day, ..Settings::default() };
    job.schedule = Schedule::Adaptive(settings);
    Entry::Job(Box::new(job))
}

/// Pages of one host.
fn pages(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("http://a.test/{n}")).collect()
}

/// One connection to each host and to each address, as in the defaults.
fn alone() -> Config {
    let mut config = config();
    config.frontier.slot_connections = 1;
    config
}

fn large(digest: u64) -> Report {
    Report {
        digest,
        etag: "\"1\"".into(),
        bytes: 1 << 20,
        conditional: true,
        ..Report::of(Outcome::Fetched, 200, Duration::ZERO)
    }
}

/// A lab with a host that ignores validators and has large pages, visited until the host gets `HEAD` requests where
/// allowed.
fn ignoring(config: Config, robots: &str) -> Lab {
    let mut lab = Lab::new(config);
    lab.web.robots.insert("http://a.test".into(), (RobotsResult::Status(200), robots.into()));
    lab.say(adaptive());
    lab.offer(&[PAGE]);
    visit(&mut lab, PAGE, 12, |_| large(7));
    lab
}

#[test]
fn heads_are_asked_for_only_where_the_ticket_is_alone_and_the_rest_is_short() {
    let heads = |config: Config, robots: &str| {
        let lab = ignoring(config, robots);
        lab.pages.iter().filter(|start| start.ticket.head != HeadFirst::No).count()
    };
    assert!(heads(alone(), "") > 3);
    assert_eq!(heads(alone(), "User-agent: *\nCrawl-delay: 30\n"), 0, "a rest that others would wait for");
    let mut many = alone();
    many.frontier.host_connections = 2;
    assert_eq!(heads(many, ""), 0, "another ticket of its host may be open");
    let mut many = alone();
    many.frontier.slot_connections = 2;
    assert_eq!(heads(many, ""), 0, "another ticket of its address may be open");
}

#[test]
fn a_head_that_asks_us_to_wait_is_no_lie_and_the_next_try_asks_for_the_page() {
    let mut lab = ignoring(alone(), "");
    let first = lab.pages.len();
    visit(&mut lab, PAGE, 1, |_| failed(Outcome::Unavailable, 503, Some(600)));
    visit(&mut lab, PAGE, 1, |_| large(7));
    assert_ne!(lab.pages[first].ticket.head, HeadFirst::No);
    assert_eq!(lab.pages[first + 1].ticket.head, HeadFirst::No, "its heads may be what fails");
    assert!(lab.pages[first + 1].at - lab.pages[first].at >= 600_000);
    assert!(lab.host(PAGE).trust.is_believed());
}

/// Number of pages with undecided claims.
fn waiting(lab: &Lab) -> usize {
    lab.frontier.partitions[0].listed.len()
}

/// The site claims that pages it does not have were changed just now.
fn list_others(lab: &mut Lab, first: u64, count: usize) {
    let modified = Seconds::from(lab.now.wall);
    let listed: Vec<Listed> = (first..).take(count).map(|path| Listed { path, modified }).collect();
    lab.frontier.listed(key(PAGE).host, JobId(1), &listed, lab.now);
}

#[test]
fn what_sitemaps_list_is_bounded_while_it_waits_and_in_each_group() {
    let mut lab = Lab::new(config());
    lab.say(adaptive());
    let texts = pages(12);
    texts.iter().for_each(|text| lab.offer(&[text]));
    lab.run(60 * MINUTE);
    for answer in 0..4 {
        list_others(&mut lab, answer * LISTED_MAX as u64, LISTED_MAX);
    }
    assert_eq!(waiting(&lab), LISTED_WAITING_MAX, "the rest is dropped");
    // None of the pages is known, so there is nothing to write; the next call continues.
    assert!(!lab.commit());
    assert_eq!(waiting(&lab), LISTED_WAITING_MAX - LOOKUPS_MAX);
    for _ in 0..LISTED_WAITING_MAX / LOOKUPS_MAX {
        lab.commit();
    }
    assert!(!lab.frontier.has_more(0));
    assert_eq!((waiting(&lab), lab.frontier.stats().sifted.forward), (0, 0));
    // True claims are found.
    claim(&mut lab, &texts);
    assert_eq!((lab.pages.len(), lab.frontier.stats().sifted.forward), (24, 12));
}

#[test]
fn pages_that_are_brought_forward_take_no_more_room_than_offers_have() {
    let mut config = config();
    config.frontier.offers_max = 5;
    let mut lab = Lab::new(config);
    lab.say(adaptive());
    let texts = pages(12);
    for text in &texts {
        lab.offer(&[text]);
        lab.commit();
    }
    lab.run(60 * MINUTE);
    assert_eq!(lab.pages.len(), 12);
    let modified = Seconds::from(lab.now.wall);
    let listed: Vec<Listed> = texts.iter().map(|text| Listed { path: key(text).path, modified }).collect();
    lab.frontier.listed(key(PAGE).host, JobId(1), &listed, lab.now);
    assert!(lab.frontier.poll_group(0, lab.now).unwrap().is_some());
    assert_eq!((lab.frontier.stats().sifted.forward, waiting(&lab)), (5, 7));
    lab.frontier.handle_committed(0, lab.now).unwrap();
    lab.run(10 * MINUTE);
    assert_eq!((lab.pages.len(), lab.frontier.stats().sifted.forward), (24, 12));
}

#[test]
fn a_site_with_enough_visits_coming_is_not_listened_to() {
    let mut lab = Lab::new(config());
    lab.say(job(1));
    pages(12).iter().for_each(|text| lab.offer(&[text]));
    lab.run(4 * DAY);
    let ahead = lab.host(PAGE).claims.booked().0.saturating_sub(Seconds::from(lab.now.wall).0);
    assert!(ahead > 2 * 86_400, "{ahead} s");
    // A ticket of the host is open, as when a report brings such a list.
    lab.web.silent.insert("http://a.test/silent".into());
    lab.offer(&["http://a.test/silent"]);
    lab.run(5_000);
    assert_eq!(lab.frontier.gauges().tickets_open, 1);
    list_others(&mut lab, 0, 100);
    assert_eq!(waiting(&lab), 0);
}

#[test]
fn visits_of_one_group_take_up_each_its_part_of_the_day() {
    let mut config = config();
    config.frontier.host_delay = Duration::ZERO;
    config.frontier.host_connections = 20;
    let mut lab = Lab::new(config);
    lab.say(job(48));
    pages(10).iter().for_each(|text| lab.offer(&[text]));
    while lab.pages.len() < 20 {
        lab.run(MINUTE);
    }
    lab.run(1_000);
    assert_eq!(lab.pages[10].at, lab.pages[19].at, "all of them at once, and so in one group");
    let booked = lab.host(PAGE).claims.booked();
    let ahead = booked.0.saturating_sub(Seconds::from(lab.now.wall).0);
    assert!((9 * 1_800..=10 * 1_800).contains(&ahead), "{ahead} s for ten visits of half an hour");
    // Everything is in the log.
    lab.restart(1_000);
    assert_eq!(lab.host(PAGE).claims.booked(), booked);
}

#[test]
fn a_clock_that_was_wrong_for_a_minute_silences_no_host_for_years() {
    const YEARS: u64 = 10 * 365 * DAY;
    let mut lab = Lab::new(config());
    lab.say(job(48));
    lab.offer(&[PAGE]);
    lab.run(MINUTE);
    // By the wrong clock the next visit is due, and books its part of a day of that year.
    lab.now.wall = Timestamp(lab.now.wall.0 + YEARS);
    lab.run(MINUTE);
    assert_eq!(lab.pages.len(), 2);
    lab.now.wall = Timestamp(lab.now.wall.0 - YEARS);
    lab.offer(&["http://a.test/2"]);
    lab.run(MINUTE);
    assert_eq!(lab.pages.len(), 3);
    let UrlState::Later(due) = lab.record("http://a.test/2").state else { panic!("it is visited once") };
    let wait = due.0.saturating_sub(Seconds::from(lab.now.wall).0);
    assert!(wait <= 60 * 86_400, "{wait} s");
}
