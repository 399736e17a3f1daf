//! Snapshots of hosts and addresses; the distance of a URL from its turn.

use std::net::IpAddr;
use std::time::Duration;

use super::lab::{Lab, config, failed, key, url};
use crate::entry::{Entry, HostChange};
use crate::frontier::explain::{AHEAD_MAX, Hold, RobotsView, Standing};
use crate::frontier::rows::HostState;
use crate::frontier::slot::SlotKey;
use crate::frontier::ticket::Report;
use crate::robots::Group;
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn a_host_is_shown_from_its_first_url_to_its_end() {
    let mut lab = Lab::new(config());
    lab.web.addresses.insert("http://a.test".into(), vec![address("192.0.2.1")]);
    let host = key("http://a.test/").host;
    assert_eq!(lab.frontier.host_view(&host, lab.now).unwrap(), None);
    lab.offer(&["http://a.test/1", "http://a.test/2", "http://a.test/3"]);
    lab.run(1_150);
    let view = lab.frontier.host_view(&host, lab.now).unwrap().unwrap();
    assert_eq!((&*view.origin, view.record.unwrap().waiting), ("http://a.test", 3));
    assert_eq!(view.ready_in, Some(950), "the ticket began 50 ms ago");
    let at_hand = view.at_hand.unwrap();
    assert_eq!(
        (at_hand.address, at_hand.slot),
        (Some(address("192.0.2.1")), Some(SlotKey::of(address("192.0.2.1"))))
    );
    assert_eq!((at_hand.tickets.len(), at_hand.urls, at_hand.rest), (1, 2, Duration::from_secs(1)));
    lab.run(20_000);
    let view = lab.frontier.host_view(&host, lab.now).unwrap().unwrap();
    assert_eq!((view.at_hand, view.ready_in, view.record.unwrap().ended), (None, Some(0), 3));
}

#[test]
fn a_host_that_is_stopped_or_rests_says_so() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert("http://a.test/1".into(), failed(Outcome::RateLimited, 429, Some(600)));
    lab.offer(&["http://a.test/1"]);
    lab.run(11_200);
    let host = key("http://a.test/").host;
    let view = lab.frontier.host_view(&host, lab.now).unwrap().unwrap();
    assert_eq!((view.at_hand, view.ready_in), (None, Some(590_000)));
    lab.say(Entry::Host(HostChange::Stop(host, "asked to".into())));
    lab.run(1_000);
    let view = lab.frontier.host_view(&host, lab.now).unwrap().unwrap();
    assert_eq!((view.ready_in, &*view.record.unwrap().stopped), (None, "asked to"));
}

#[test]
fn a_row_of_a_host_says_what_the_host_does() {
    let mut lab = Lab::new(config());
    lab.web.addresses.insert("http://a.test".into(), vec![address("192.0.2.1")]);
    lab.web.pages.insert("http://b.test/1".into(), failed(Outcome::RateLimited, 429, Some(600)));
    lab.offer(&[
        "http://a.test/1",
        "http://a.test/2",
        "http://a.test/3",
        "http://b.test/1",
        "http://c.test/1",
    ]);
    lab.run(1_150);
    let state_of = |lab: &mut Lab, text: &str| {
        let key = key(text).host;
        let rows = lab.frontier.host_rows(None, 100, lab.now).unwrap();
        rows.into_iter().find(|row| row.key == key).unwrap()
    };
    let busy = state_of(&mut lab, "http://a.test/");
    assert_eq!((busy.state, busy.queued, busy.address), (HostState::Busy, 3, Some(address("192.0.2.1"))));
    assert_eq!(busy.rest_ms, 1_000);
    lab.run(20_000);
    let idle = state_of(&mut lab, "http://a.test/");
    assert_eq!((idle.state, idle.queued, idle.ended, idle.address), (HostState::Idle, 0, 3, None));
    let failed = state_of(&mut lab, "http://b.test/");
    assert_eq!((failed.state, failed.later), (HostState::BackingOff, 1), "it asked for a rest");
    assert!(failed.ready_in.is_some_and(|left| (500_000..=600_000).contains(&left)), "{failed:?}");
    lab.say(Entry::Host(HostChange::Stop(failed.key, "asked to".into())));
    lab.run(1_000);
    let stopped = state_of(&mut lab, "http://b.test/");
    assert_eq!((stopped.state, stopped.ready_in, &*stopped.stopped), (HostState::Stopped, None, "asked to"));
    let first = lab.frontier.host_rows(None, 2, lab.now).unwrap();
    let rest = lab.frontier.host_rows(first[1].key.next(), 2, lab.now).unwrap();
    assert_eq!((first.len(), rest.len()), (2, 1), "page by page, each host once");
    assert!(first[0].key < first[1].key && first[1].key < rest[0].key);
}

#[test]
fn an_address_names_its_hosts_and_when_it_is_free() {
    let mut config = config();
    config.frontier.slot_delay = Duration::from_secs(5);
    config.frontier.slot_connections = 2;
    let mut lab = Lab::new(config);
    for origin in ["http://a.test", "http://b.test"] {
        lab.web.addresses.insert(origin.into(), vec![address("192.0.2.1")]);
    }
    let slot = SlotKey::of(address("192.0.2.1"));
    assert_eq!(lab.frontier.slot_view(slot, lab.now).hosts_count, 0);
    lab.offer(&["http://a.test/1", "http://b.test/1", "http://c.test/1"]);
    lab.run(50);
    let view = lab.frontier.slot_view(slot, lab.now);
    let mut origins: Vec<&str> = view.hosts.iter().map(|(_, origin)| &**origin).collect();
    origins.sort_unstable();
    assert_eq!((origins, view.hosts_count), (vec!["http://a.test", "http://b.test"], 2));
    assert_eq!((view.open, view.open_max, view.free_in), (1, 2, 4_950));
}

#[test]
fn hosts_are_listed_in_pages_over_all_partitions() {
    let mut lab = Lab::with_partitions(config(), 3);
    for n in 0..40 {
        lab.offer(&[&format!("http://h{n}.test/1")]);
    }
    lab.commit();
    let (mut all, mut from) = (Vec::new(), None);
    loop {
        let page = lab.frontier.hosts_page(from, 7).unwrap();
        assert!(page.len() <= 7);
        let Some((last, _)) = page.last() else { break };
        from = last.next();
        all.extend(page);
    }
    assert_eq!(all.len(), 40);
    assert!(all.is_sorted_by_key(|(key, _)| *key));
    assert!(all.iter().all(|(_, record)| record.waiting == 1));
}

#[test]
fn a_url_whose_end_is_being_written_waits_for_nobody() {
    let mut lab = Lab::new(config());
    for n in 0..9 {
        lab.offer(&[&format!("http://a.test/{n}")]);
    }
    lab.run(1_150);
    let ticket = lab.pages.last().expect("one is being fetched").ticket.clone();
    let report = Report::of(Outcome::Fetched, 200, Duration::from_millis(20));
    lab.frontier.handle_report(ticket.id, &report, lab.now).unwrap();
    let explained = lab.frontier.explain(&url(&ticket.url), lab.now).unwrap();
    assert_eq!((explained.standing, explained.ahead), (Standing::Waiting, Some(0)));
}

#[test]
fn a_url_that_waits_knows_how_many_come_before_it() {
    let mut config = config();
    config.frontier.visit_urls_max = 3;
    let mut lab = Lab::new(config);
    lab.web
        .robots
        .insert("http://a.test".into(), (RobotsResult::Status(200), "User-agent: *\nDisallow: /x\n".into()));
    for n in 0..600 {
        lab.offer(&[&format!("http://a.test/{n}")]);
    }
    lab.run(1_150);
    let mut ahead: Vec<u64> = Vec::new();
    let mut fetching = 0;
    for n in 0..600 {
        let explained = lab.frontier.explain(&url(&format!("http://a.test/{n}")), lab.now).unwrap();
        match explained.standing {
            Standing::Fetching => fetching += 1,
            _ => ahead.push(explained.ahead.expect("it waits")),
        }
        assert_eq!(explained.ready_in, Some(950));
        assert_eq!(explained.rest_ms, Some(1_000));
        let lines = vec![(2, "Disallow: /x".into())];
        let (group, notes) = (Group::Everybody, Vec::new());
        let robots = RobotsView { group, rules: 1, lines, forbids_all: false, bytes: 27, notes };
        assert_eq!(explained.robots, Some(robots));
    }
    ahead.sort_unstable();
    assert_eq!((fetching, ahead), (1, Vec::from_iter(0..599)));
    for n in 600..2_500 {
        lab.offer(&[&format!("http://a.test/{n}")]);
    }
    lab.commit();
    let last = |n: usize| format!("http://a.test/{n}");
    let most = (600..2_500).map(|n| lab.frontier.explain(&url(&last(n)), lab.now).unwrap().ahead).max();
    assert_eq!(most, Some(Some(AHEAD_MAX as u64)));
    assert_eq!(lab.frontier.explain(&url("http://a.test/new"), lab.now).unwrap().ahead, None);
}

#[test]
fn a_host_whose_rules_forbid_everything_says_so() {
    let mut lab = Lab::new(config());
    for (origin, rules) in [("http://a.test", "Disallow: /\n"), ("http://b.test", "Disallow: /x\n")] {
        let body = format!("User-agent: *\n{rules}");
        lab.web.robots.insert(origin.into(), (RobotsResult::Status(200), body));
        lab.offer(&[&format!("{origin}/1")]);
    }
    lab.run(10_000);
    let forbids_all = ["http://a.test/", "http://b.test/"].map(|text| {
        let explained = lab.frontier.explain(&url(text), lab.now).unwrap();
        explained.robots.map(|robots| robots.forbids_all)
    });
    assert_eq!(forbids_all, [Some(true), Some(false)]);
}

#[test]
fn a_crawl_delay_beyond_the_limit_is_obeyed_and_pointed_out() {
    let mut lab = Lab::new(config());
    for (origin, delay) in [("http://a.test", 400), ("http://b.test", 300)] {
        let body = format!("User-agent: *\nCrawl-delay: {delay}\n");
        lab.web.robots.insert(origin.into(), (RobotsResult::Status(200), body));
        lab.offer(&[&format!("{origin}/1"), &format!("{origin}/2")]);
    }
    lab.run(10_000);
    let mut said = |text: &str| {
        let held_by = lab.frontier.explain(&url(text), lab.now).unwrap().held_by;
        held_by.contains(&Hold::CrawlDelay(400_000))
    };
    assert!(said("http://a.test/1") && !said("http://b.test/1"));
    lab.run(1_000_000);
    let starts: Vec<u64> = lab
        .pages
        .iter()
        .filter(|start| start.ticket.url.starts_with("http://a"))
        .map(|start| start.at)
        .collect();
    assert_eq!(starts[1] - starts[0], 400_100);
}
