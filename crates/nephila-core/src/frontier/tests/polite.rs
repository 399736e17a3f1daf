//! Rate limits: rests of hosts and addresses.

use std::net::IpAddr;
use std::time::Duration;

use super::lab::{Lab, MONO, config, failed, key};
use crate::entry::{Entry, HostChange};
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;

fn addresses(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn a_host_rests_between_two_fetches() {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://a.test/3"]);
    lab.run(20_000);
    let starts: Vec<u64> = lab.pages.iter().map(|start| start.at - MONO).collect();
    assert_eq!(starts, [1_100, 2_200, 3_300]);
}

#[test]
fn a_page_that_is_being_stored_does_not_hold_its_host() {
    let mut lab = Lab::new(config());
    lab.stores = 5_000;
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://a.test/3"]);
    lab.run(20_000);
    let starts: Vec<u64> = lab.pages.iter().map(|start| start.at - MONO).collect();
    assert_eq!(starts, [1_100, 2_200, 3_300], "as if it were stored at once");
    assert_eq!(lab.frontier.gauges().tickets_open, 0);
}

#[test]
fn a_page_that_is_released_and_never_reported_is_asked_for_again() {
    let mut config = config();
    config.frontier.ticket_timeout = Duration::from_secs(60);
    let mut lab = Lab::new(config);
    lab.stores = 30_000_000;
    lab.offer(&["http://a.test/1"]);
    lab.run(2 * 3_600_000);
    assert_eq!(lab.pages.len(), 2, "once more after its ticket had expired");
}

#[test]
fn a_host_that_may_have_missed_too_many_waits_for_what_is_being_stored() {
    let mut config = config();
    config.rules.trap.missing_in_row_max = 3;
    let mut lab = Lab::new(config);
    lab.stores = 5_000;
    for i in 1..=5 {
        let text = format!("http://a.test/{i}");
        lab.web.pages.insert(text.clone(), failed(Outcome::NotFound, 404, None));
        lab.offer(&[&text]);
    }
    lab.run(60_000);
    let starts: Vec<u64> = lab.pages.iter().map(|start| start.at - MONO).collect();
    assert_eq!(starts[..3], [1_100, 2_200, 3_300], "the first ones hold nobody up");
    // The third is stored and reported first, and brings a rest of ten seconds.
    assert!(starts[3] >= 3_300 + 100 + 5_000 + 10_000, "{starts:?}");
    assert_eq!(lab.host("http://a.test/").missing, 5);
}

#[test]
fn two_hosts_rest_each_on_its_own() {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1", "http://b.test/1"]);
    lab.run(3_000);
    let starts: Vec<u64> = lab.pages.iter().map(|start| start.at - MONO).collect();
    assert_eq!(starts, [1_100, 1_100]);
}

#[test]
fn two_hosts_on_one_address_share_its_rest() {
    let mut config = config();
    config.frontier.slot_connections = 1;
    config.frontier.slot_delay = Duration::from_secs(5);
    let mut lab = Lab::new(config);
    for origin in ["http://a.test", "http://b.test"] {
        lab.web.addresses.insert(origin.into(), addresses(&["192.0.2.1"]));
    }
    // The third has an address of its own and does not wait for them.
    lab.offer(&["http://a.test/1", "http://b.test/1", "http://c.test/1"]);
    lab.run(60_000);
    let shared =
        lab.pages.iter().chain(&lab.robots).filter(|start| start.ticket.address.to_string() == "192.0.2.1");
    let mut starts: Vec<u64> = shared.map(|start| start.at - MONO).collect();
    starts.sort();
    assert_eq!(starts, [0, 5_100, 10_200, 15_300], "two robots.txt and two pages, one after the other");
    let alone = lab.pages.iter().find(|start| start.ticket.url == "http://c.test/1").expect("fetched");
    assert_eq!(alone.at - MONO, 5_100, "its own address rests as well");
}

#[test]
fn the_two_spellings_of_an_address_are_one_slot() {
    let mut config = config();
    config.frontier.slot_delay = Duration::from_secs(5);
    let mut lab = Lab::new(config);
    lab.web.addresses.insert("http://a.test".into(), addresses(&["2001:db8::1"]));
    lab.web.addresses.insert("http://b.test".into(), addresses(&["2001:db8::2"]));
    lab.offer(&["http://a.test/1", "http://b.test/1"]);
    lab.run(60_000);
    assert!(lab.robots[1].at - lab.robots[0].at >= 5_000, "a network of 64 bits is one machine");
}

#[test]
fn a_host_may_have_as_many_connections_as_the_settings_say() {
    let mut config = config();
    config.frontier.host_connections = 3;
    config.frontier.host_delay = Duration::from_millis(10);
    let mut lab = Lab::new(config);
    lab.took = 1_000;
    let texts: Vec<String> = (0..9).map(|i| format!("http://a.test/{i}")).collect();
    lab.offer(&texts.iter().map(|text| &**text).collect::<Vec<_>>());
    lab.run(1_500);
    assert_eq!(lab.frontier.gauges().tickets_open, 3, "robots.txt alone, then three pages at once");
    lab.run(20_000);
    assert_eq!(lab.pages.len(), 9);
}

#[test]
fn a_rate_per_second_holds_even_without_a_delay() {
    let mut config = config();
    config.frontier.host_connections = 10;
    config.frontier.host_delay = Duration::ZERO;
    config.frontier.host_per_second = 4.0;
    let mut lab = Lab::new(config);
    lab.took = 1;
    let texts: Vec<String> = (0..20).map(|i| format!("http://a.test/{i}")).collect();
    lab.offer(&texts.iter().map(|text| &**text).collect::<Vec<_>>());
    lab.run(30_000);
    assert_eq!(lab.pages.len(), 20);
    for window in lab.pages.windows(5) {
        assert!(window[4].at - window[0].at >= 1_000, "five starts within a second");
    }
}

#[test]
fn row_04_a_rate_below_one_a_second_is_a_rate() {
    let mut config = config();
    config.frontier.host_connections = 10;
    config.frontier.host_delay = Duration::ZERO;
    config.frontier.host_per_second = 0.5;
    let mut lab = Lab::new(config);
    lab.took = 1;
    let texts: Vec<String> = (0..5).map(|i| format!("http://a.test/{i}")).collect();
    lab.offer(&texts.iter().map(|text| &**text).collect::<Vec<_>>());
    lab.run(30_000);
    assert_eq!(lab.pages.len(), 5);
    for pair in lab.pages.windows(2) {
        assert!((2_000..2_100).contains(&(pair[1].at - pair[0].at)), "one in two seconds");
    }
}

#[test]
fn a_slow_server_gets_more_rest_up_to_the_maximum() {
    let mut config = config();
    config.frontier.host_delay_factor = 5;
    config.frontier.host_delay_max = Duration::from_secs(20);
    let mut lab = Lab::new(config);
    lab.took = 2_000;
    lab.offer(&["http://a.test/1", "http://a.test/2"]);
    lab.run(60_000);
    assert_eq!(lab.pages[1].at - lab.pages[0].at, 12_000, "it took two seconds and rests ten");
    lab.took = 50_000;
    lab.offer(&["http://a.test/3", "http://a.test/4"]);
    lab.run(400_000);
    assert_eq!(lab.pages[3].at - lab.pages[2].at, 70_000, "fifty, and the longest rest we choose ourselves");
}

#[test]
fn a_crawl_delay_wins_if_it_is_longer_and_so_does_an_operator() {
    let mut lab = Lab::new(config());
    let robots = |delay| (RobotsResult::Status(200), format!("User-agent: *\nCrawl-delay: {delay}\n"));
    lab.web.robots.insert("http://a.test".into(), robots("4"));
    lab.web.robots.insert("http://b.test".into(), robots("0.1"));
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://b.test/1", "http://b.test/2"]);
    lab.run(30_000);
    let gap = |lab: &Lab, origin: &str| {
        let starts: Vec<u64> =
            lab.pages.iter().filter(|s| s.ticket.url.starts_with(origin)).map(|start| start.at).collect();
        starts[starts.len() - 1] - starts[starts.len() - 2]
    };
    assert_eq!((gap(&lab, "http://a.test"), gap(&lab, "http://b.test")), (4_100, 1_100));
    lab.say(Entry::Host(HostChange::Delay(key("http://b.test/").host, 9_000)));
    lab.offer(&["http://b.test/3", "http://b.test/4"]);
    lab.run(60_000);
    assert_eq!(gap(&lab, "http://b.test"), 9_100);
}

#[test]
fn retry_after_rests_the_whole_host_even_over_a_restart() {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1", "http://a.test/2"]);
    for text in ["http://a.test/1", "http://a.test/2"] {
        lab.web.pages.insert(text.into(), failed(Outcome::RateLimited, 429, Some(600)));
    }
    lab.run(20_000);
    assert_eq!(lab.pages.len(), 1, "the other one rests with it");
    let (asked, until) = (lab.pages[0].at, lab.host("http://a.test/").rest_until);
    assert_eq!(until.0 - lab.now.wall.0, asked + 100 + 600_000 - lab.now.mono);
    lab.web.pages.clear();
    lab.restart(60_000);
    lab.run(500_000);
    assert_eq!(lab.pages.len(), 1, "still resting");
    lab.run(100_000);
    assert_eq!(lab.pages.len(), 2);
    assert!(lab.pages[1].at >= asked + 600_100);
    // The rejected request waits by the retry table: an hour, since the site demanded less.
    lab.run(3_600_000);
    assert_eq!(lab.pages.len(), 3);
    assert_eq!(lab.pages[2].ticket.url, lab.pages[0].ticket.url);
    assert_eq!(lab.pages[2].ticket.retries, 1);
}

#[test]
fn after_a_restart_every_host_and_address_first_rests() {
    let mut config = config();
    config.frontier.slot_delay = Duration::from_secs(3);
    let mut lab = Lab::new(config);
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://b.test/1"]);
    lab.run(3_500);
    let before = lab.pages.len();
    lab.restart(0);
    let restarted = lab.now.mono;
    lab.run(60_000);
    assert_eq!(lab.frontier.gauges().tickets_open, 0);
    assert!(lab.pages.len() > before);
    for start in &lab.pages[before..] {
        assert!(
            start.at >= restarted + 3_000,
            "{} {} ms after the restart",
            start.ticket.url,
            start.at - restarted
        );
    }
}

#[test]
fn a_host_that_moves_to_another_address_keeps_its_rest() {
    let mut config = config();
    config.frontier.host_delay = Duration::from_secs(10);
    config.frontier.resolve_after = Duration::from_secs(5);
    let mut lab = Lab::new(config);
    lab.web.addresses.insert("http://a.test".into(), addresses(&["192.0.2.1"]));
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://a.test/3"]);
    lab.run(12_000);
    assert_eq!(lab.pages.len(), 1);
    lab.web.addresses.insert("http://a.test".into(), addresses(&["192.0.2.2"]));
    lab.run(60_000);
    let starts: Vec<(u64, String)> =
        lab.pages.iter().map(|start| (start.at - MONO, start.ticket.address.to_string())).collect();
    let at = |n: usize, address: &str| (n as u64 * 10_100, address.to_string());
    assert_eq!(starts, [at(1, "192.0.2.1"), at(2, "192.0.2.2"), at(3, "192.0.2.2")]);
}

#[test]
fn an_address_is_kept_while_it_is_among_those_that_are_offered() {
    let mut config = config();
    config.frontier.resolve_after = Duration::from_secs(2);
    let mut lab = Lab::new(config);
    lab.web.addresses.insert("http://a.test".into(), addresses(&["192.0.2.1", "192.0.2.2"]));
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://a.test/3", "http://a.test/4"]);
    lab.run(2_000);
    lab.web.addresses.insert("http://a.test".into(), addresses(&["192.0.2.2", "192.0.2.1"]));
    lab.run(60_000);
    assert_eq!(lab.pages.len(), 4);
    assert!(lab.pages.iter().all(|start| start.ticket.address.to_string() == "192.0.2.1"));
    assert!(lab.resolves >= 2, "it was looked up again");
}
