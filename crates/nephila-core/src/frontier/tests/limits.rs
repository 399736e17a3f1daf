//! Budgets, traps, and hosts that share a key.

use std::time::Duration;

use super::lab::{Lab, SECRET, config, failed, key, url};
use crate::budget;
use crate::entry::{DomainChange, Entry};
use crate::frontier::offers::Offer;
use crate::frontier::ticket::Report;
use crate::frontier::{Config, Offered};
use crate::job::{Job, JobId, Limits};
use crate::key::{HostKey, UrlKey};
use crate::refusal::Refusal;
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;
use crate::state::State;
use crate::state::record::UrlState;
use crate::want::Want;

fn budget(domain_urls: u64, domain_urls_per_day: u64, parked_text_max: u64) -> Config {
    let mut config = config();
    config.rules.budget =
        budget::Settings { domain_urls, domain_urls_per_day, parked_text_max, ..budget::Settings::default() };
    config
}

fn offer_ten(lab: &mut Lab) {
    for i in 0..10 {
        lab.offer_as(&format!("http://a.test/{i}"), 1, 0, 5);
    }
}

fn standing(lab: &mut Lab, state: UrlState) -> usize {
    (0..10).filter(|i| lab.record(&format!("http://a.test/{i}")).state == state).count()
}

#[test]
fn urls_beyond_the_budget_are_parked_and_come_when_it_grows() {
    // One more every hour.
    let mut lab = Lab::new(budget(3, 24, 100));
    offer_ten(&mut lab);
    lab.run(600_000);
    assert_eq!(lab.pages.len(), 3);
    assert_eq!(standing(&mut lab, UrlState::Parked), 7);
    lab.run(3 * 3_600_000);
    assert_eq!(lab.pages.len(), 6, "three hours, three more");
    let host = lab.host("http://a.test/");
    assert_eq!((host.parked, host.ended), (4, 6));
    lab.run(24 * 3_600_000);
    assert_eq!(lab.pages.len(), 10);
    let domain = lab.frontier.state(0).domain(key("http://a.test/").host.domain).unwrap().unwrap();
    assert_eq!((domain.admitted, domain.parked, domain.bare), (10, 0, 0));
}

#[test]
fn pol_20_a_host_that_sent_its_share_of_the_day_goes_on_the_next_day() {
    let mut config = config();
    config.rules.budget.host_bytes_per_day = 35_000_000;
    // The lab opens at midnight; the first day is nearly over.
    let mut lab = Lab::new(config);
    lab.run(20 * 3_600_000);
    let mut file = Report::of(Outcome::Fetched, 200, Duration::from_millis(100));
    file.bytes = 10_000_000;
    for i in 0..10 {
        file.digest = i + 1;
        lab.web.pages.insert(format!("http://a.test/{i}"), file.clone());
        lab.offer(&[&format!("http://a.test/{i}"), &format!("http://b.test/{i}")]);
    }
    let of_a = |lab: &Lab| lab.urls().iter().filter(|url| url.contains("a.test")).count();
    lab.run(3_600_000);
    assert_eq!(of_a(&lab), 4, "the fourth passes the share, and no fifth is asked for");
    assert_eq!(lab.pages.len(), 14, "others are not held up");
    lab.restart(60_000);
    lab.run(2 * 3_600_000);
    assert_eq!(of_a(&lab), 4, "a restart brings no second share");
    lab.run(3_600_000);
    assert_eq!(of_a(&lab), 8, "the next day");
    lab.run(24 * 3_600_000);
    assert_eq!(of_a(&lab), 10);
}

#[test]
fn trp_13_files_under_ever_new_queries_cost_a_host_its_share_and_no_more() {
    let mut config = config();
    config.rules.budget.host_bytes_per_day = 100_000_000;
    let mut lab = Lab::new(config);
    let mut file = Report::of(Outcome::Fetched, 200, Duration::from_millis(100));
    file.bytes = 10_000_000;
    for i in 0..1_000 {
        // Each is another file, so that none is known to be alike.
        file.digest = i + 1;
        let at = |i: u64| format!("http://a.test/get?file={i}");
        lab.web.pages.insert(at(i), file.clone());
        lab.web.links.insert(at(i), vec![at(i + 1)]);
    }
    lab.offer(&["http://a.test/get?file=0"]);
    lab.run(3 * 24 * 3_600_000 - 1_000);
    assert_eq!(lab.pages.len(), 30, "three days, ten files each");
}

#[test]
fn an_operator_opens_the_budget_and_what_is_parked_goes_on_at_once() {
    let mut lab = Lab::new(budget(3, 0, 100));
    offer_ten(&mut lab);
    lab.run(3_600_000);
    assert_eq!(lab.pages.len(), 3);
    lab.say(Entry::Domain(DomainChange::Budget(key("http://a.test/").host.domain, Some(8))));
    lab.run(60_000);
    assert_eq!(lab.pages.len(), 8);
    lab.restart(0);
    lab.say(Entry::Domain(DomainChange::Budget(key("http://a.test/").host.domain, Some(100))));
    lab.run(60_000);
    assert_eq!(lab.pages.len(), 10);
}

#[test]
fn a_url_kept_as_a_key_alone_comes_back_when_it_is_offered_again() {
    let mut lab = Lab::new(budget(3, 0, 2));
    offer_ten(&mut lab);
    lab.run(60_000);
    assert_eq!(
        (lab.pages.len(), standing(&mut lab, UrlState::Parked), standing(&mut lab, UrlState::ParkedBare)),
        (3, 2, 5)
    );
    offer_ten(&mut lab);
    lab.run(60_000);
    assert_eq!(standing(&mut lab, UrlState::ParkedBare), 5, "the budget is as it was");
    lab.say(Entry::Domain(DomainChange::Budget(key("http://a.test/").host.domain, Some(100))));
    lab.run(60_000);
    assert_eq!(lab.pages.len(), 5, "those with their text");
    offer_ten(&mut lab);
    lab.run(60_000);
    assert_eq!((lab.pages.len(), standing(&mut lab, UrlState::Ended)), (10, 10));
}

#[test]
fn hosts_that_share_32_bits_are_kept_apart() {
    let mut lab = Lab::new(config());
    let mut offer = |origin: &str, text: &str| {
        let whole = url(&format!("{origin}{text}"));
        // Three hosts of one domain under the key of the first.
        let host = HostKey { domain: key("http://one.test/").host.domain, host: u32::MAX };
        let key = UrlKey { host, path: UrlKey::path_of(whole.key(), &SECRET) };
        let offer = Offer { key, origin, text, want: &Want::of(JobId(1)) };
        assert_eq!(lab.frontier.offer(offer), Offered::Taken);
        lab.commit();
    };
    offer("http://a.one.test", "/1");
    offer("http://b.one.test", "/1");
    offer("http://b.one.test", "/2");
    offer("http://c.one.test", "/1");
    offer("http://a.one.test", "/2");
    assert_eq!(lab.frontier.state(0).meta().displaced.len(), 2);
    lab.run(30_000);
    let mut urls = lab.urls();
    urls.sort();
    let all = [
        "http://a.one.test/1",
        "http://a.one.test/2",
        "http://b.one.test/1",
        "http://b.one.test/2",
        "http://c.one.test/1",
    ];
    assert_eq!(urls, all);
    let mut robots: Vec<&str> = lab.robots.iter().map(|start| &*start.ticket.url).collect();
    robots.sort();
    assert_eq!(
        robots,
        ["http://a.one.test/robots.txt", "http://b.one.test/robots.txt", "http://c.one.test/robots.txt"]
    );
    lab.restart(0);
    lab.run(30_000);
    assert_eq!(lab.pages.len(), 5);
}

#[test]
fn hosts_that_share_32_bits_are_told_apart_within_one_batch() {
    let mut lab = Lab::new(config());
    let host = HostKey { domain: key("http://one.test/").host.domain, host: 7 };
    for origin in ["http://a.one.test", "http://b.one.test", "http://c.one.test"] {
        for text in ["/1", "/2"] {
            let key = UrlKey { host, path: UrlKey::path_of(url(&format!("{origin}{text}")).key(), &SECRET) };
            let offer = Offer { key, origin, text, want: &Want::of(JobId(1)) };
            lab.frontier.offer(offer);
        }
    }
    lab.run(30_000);
    let mut urls = lab.urls();
    urls.sort();
    urls.dedup();
    assert_eq!(urls.len(), 6, "{urls:?}");
    assert_eq!(lab.robots.len(), 3);
}

#[test]
fn a_refusal_is_remembered_with_its_reason_and_its_text() {
    let mut lab = Lab::new(config());
    let whole = url("http://a.test/a/a/a/a/a/a");
    let trap = crate::trap::judge(&whole, &lab.config.rules.trap).expect("a trap");
    let offer = Offer {
        key: key(whole.as_str()),
        origin: "http://a.test",
        text: whole.path_and_query(),
        want: &Want { refusal: Some(trap.into()), ..Want::of(JobId(1)) },
    };
    lab.frontier.offer(offer);
    lab.offer(&["http://a.test/fine"]);
    lab.run(30_000);
    assert_eq!(lab.urls(), ["http://a.test/fine"]);
    let record = lab.record(whole.as_str());
    assert_eq!(record.state, UrlState::Refused(Refusal::TrapRepeat));
    assert_eq!(record.text.as_deref(), Some("/a/a/a/a/a/a"));
    assert_eq!(lab.frontier.stats().sifted.refused, 1);
}

#[test]
fn equal_pages_under_ever_new_urls_close_their_shape() {
    let mut lab = Lab::new(config());
    let mut same = Report::of(Outcome::Fetched, 200, Duration::from_millis(100));
    same.digest = 4711;
    for i in 0..100 {
        let text = format!("http://a.test/shop/session-{i}/cart");
        lab.web.pages.insert(text.clone(), same.clone());
        lab.offer_as(&text, 1, 0, 5);
        lab.run(5_000);
    }
    let fetched = lab.pages.len();
    assert!((10..60).contains(&fetched), "{fetched} pages before the shape was closed");
    assert_eq!(lab.record("http://a.test/shop/session-99/cart").state, UrlState::Refused(Refusal::TrapAlike));
    lab.offer(&["http://a.test/about"]);
    lab.run(5_000);
    assert_eq!(lab.pages.len(), fetched + 1, "the rest of the site is open");
}

#[test]
fn a_domain_with_hosts_without_end_takes_no_new_ones() {
    let mut config = config();
    config.rules.trap.hosts_per_domain_max = 5;
    let mut lab = Lab::new(config);
    for i in 0..9 {
        lab.offer_as(&format!("http://h{i}.flood.test/"), 1, 0, 5);
        lab.commit();
    }
    lab.run(30_000);
    assert_eq!(lab.pages.len(), 5);
    assert_eq!(lab.record("http://h8.flood.test/").state, UrlState::Refused(Refusal::TrapHosts));
    lab.offer(&["http://h1.flood.test/more"]);
    lab.run(30_000);
    assert_eq!(lab.pages.len(), 6, "those that are known go on");
}

#[test]
fn what_fails_for_good_is_never_asked_for_again() {
    let mut lab = Lab::new(config());
    for (path, outcome, status) in
        [("1", Outcome::NotFound, 404), ("2", Outcome::Legal, 451), ("3", Outcome::Gone, 410)]
    {
        lab.web.pages.insert(format!("http://a.test/{path}"), failed(outcome, status, None));
        lab.offer_as(&format!("http://a.test/{path}"), 1, 0, 5);
    }
    lab.run(30 * 24 * 3_600_000);
    assert_eq!(lab.pages.len(), 3);
    assert_eq!(lab.host("http://a.test/").failures, 0);
}

/// A lab with one job, which has these limits.
fn limited(config: Config, limits: Limits) -> Lab {
    let mut lab = Lab::new(config);
    lab.say(Entry::Job(Box::new(Job { limits, ..Job::new(JobId(1), "press") })));
    lab.commit();
    lab
}

fn ended_as(lab: &mut Lab, outcome: Outcome) -> usize {
    let urls: Vec<String> = (0..10).map(|i| format!("http://a.test/{i}")).collect();
    let last = |lab: &mut Lab, url: &String| lab.record(url).last.map(|last| last.outcome);
    urls.iter().filter(|url| last(lab, url) == Some(outcome)).count()
}

#[test]
fn a_host_gives_no_more_pages_than_its_job_takes_also_across_a_restart() {
    let mut config = config();
    config.frontier.visit_urls_max = 3;
    let mut lab = limited(config, Limits { pages_per_host_max: 4, ..Limits::default() });
    // A URL forbidden by robots.txt is no page, and a retried URL is one page.
    lab.web
        .robots
        .insert("http://a.test".into(), (RobotsResult::Status(200), "User-agent: *\nDisallow: /0".into()));
    lab.web.pages.insert("http://a.test/1".into(), failed(Outcome::ServerError, 500, None));
    let urls: Vec<String> = (0..5).map(|i| format!("http://a.test/{i}")).collect();
    lab.offer(&urls.iter().map(String::as_str).collect::<Vec<_>>());
    lab.run(3_500);
    let before = lab.urls().len();
    assert!(before < 4, "{:?}", lab.urls());
    lab.restart(1_000);
    offer_ten(&mut lab);
    lab.run(4_000_000);
    let mut pages = lab.urls();
    assert!(pages.len() > 4, "one was tried again: {pages:?}");
    pages.sort();
    pages.dedup();
    assert_eq!(pages.len(), 4, "{pages:?}");
    assert_eq!(lab.host("http://a.test/").pages, 4);
    assert_eq!(
        (ended_as(&mut lab, Outcome::RobotsDenied), ended_as(&mut lab, Outcome::LimitReached)),
        (1, 5)
    );
    // Another host is another matter.
    lab.offer(&["http://b.test/"]);
    lab.run(10_000);
    assert_eq!(lab.urls().last(), Some(&"http://b.test/"));
    let totals = lab.frontier.totals();
    assert_eq!((totals.waiting, totals.parked, totals.all_jobs().found), (0, 0, 11));
}

#[test]
fn a_domain_gives_no_more_urls_than_its_job_takes_also_across_a_restart() {
    // The budget would let in two, and park the others.
    let limits = Limits { pages_per_domain_max: 6, ..Limits::default() };
    let mut lab = limited(budget(2, 100_000, 100), limits);
    lab.offer(&["http://a.test/0", "http://a.test/1", "http://b.a.test/0", "http://b.a.test/1"]);
    lab.run(3_000);
    lab.restart(1_000);
    offer_ten(&mut lab);
    lab.run(60_000);
    assert_eq!(standing(&mut lab, UrlState::Refused(Refusal::Limit)), 6, "two more were let in");
    lab.run(86_400_000);
    // Also URLs that came back from being parked.
    assert_eq!(lab.urls().len(), 6, "{:?}", lab.urls());
    let refused = lab.frontier.totals().tally[&1].refused[&Refusal::Limit.code()];
    assert_eq!(refused, 6);
    // Another domain is another matter.
    lab.offer(&["http://c.test/"]);
    lab.run(10_000);
    assert_eq!(lab.urls().last(), Some(&"http://c.test/"));
}
