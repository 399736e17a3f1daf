//! Redirected robots.txt files: each hop has a ticket, and every host is requested within its rate limits.

use std::time::Duration;

use super::lab::{Lab, MONO, config, key, url};
use crate::entry::{Entry, HostChange};
use crate::frontier::errand::HOST_ERRANDS_MAX;
use crate::frontier::report::{RobotsAnswer, RobotsReport};
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;
use crate::state::record::RobotsPolicy;

fn rules(text: &str) -> (RobotsResult, String) {
    (RobotsResult::Status(200), format!("User-agent: *\n{text}\n"))
}

/// A lab in which robots.txt files redirect like this; one page of each asker is offered.
fn lab(redirects: &[(&str, &str)], offered: &[&str]) -> Lab {
    let mut lab = Lab::new(config());
    for (from, to) in redirects {
        lab.web.redirects.insert((*from).into(), (*to).into());
    }
    lab.offer(offered);
    lab
}

fn asked(lab: &Lab) -> Vec<(u64, &str)> {
    lab.robots.iter().map(|start| (start.at - MONO, &*start.ticket.url)).collect()
}

#[test]
fn a_hop_to_the_same_host_follows_after_its_rest() {
    let mut lab = lab(&[("http://a.test/robots.txt", "http://a.test/r/1")], &["http://a.test/private"]);
    lab.web.robots.insert("http://a.test".into(), rules("Disallow: /private"));
    lab.run(10_000);
    assert_eq!(asked(&lab), [(0, "http://a.test/robots.txt"), (1_100, "http://a.test/r/1")]);
    assert!(lab.pages.is_empty());
    assert_eq!(lab.record("http://a.test/private").last.unwrap().outcome, Outcome::RobotsDenied);
    assert_eq!(lab.frontier.gauges().errands, 0);
}

#[test]
fn a_hop_to_another_host_is_its_errand_and_the_answer_is_ours() {
    let hop = ("http://a.test/robots.txt", "https://a.test/robots.txt");
    let mut lab = lab(&[hop], &["http://a.test/private", "http://a.test/open"]);
    lab.web.robots.insert("https://a.test".into(), rules("Disallow: /private\nCrawl-delay: 3"));
    lab.run(20_000);
    assert_eq!(asked(&lab), [(0, "http://a.test/robots.txt"), (100, "https://a.test/robots.txt")]);
    assert_eq!(lab.robots[1].ticket.key.host, key("https://a.test/").host);
    assert_eq!(lab.urls(), ["http://a.test/open"]);
    let host = lab.host("http://a.test/");
    assert_eq!((host.robots.policy, host.robots.crawl_delay), (RobotsPolicy::Rules, 3_000));
    let gauges = lab.frontier.gauges();
    assert_eq!((gauges.guests, gauges.hosts_active, gauges.errands), (0, 0, 0));
}

#[test]
fn an_errand_waits_for_the_rest_of_host_and_address() {
    let mut lab = lab(
        &[("http://a.test/robots.txt", "http://c.test/x"), ("http://b.test/robots.txt", "http://c.test/x")],
        &["http://a.test/1", "http://b.test/1", "http://c.test/1", "http://c.test/2"],
    );
    lab.web.robots.insert("http://c.test".into(), rules("Disallow: /x"));
    lab.run(20_000);
    // The lab itself checks every rest; this test checks the order: errands and own work alternate.
    let of_c = lab.pages.iter().chain(&lab.robots).filter(|start| start.ticket.url.contains("c.test"));
    let mut of_c: Vec<(u64, &str)> = of_c.map(|start| (start.at - MONO, &*start.ticket.url)).collect();
    of_c.sort();
    let urls: Vec<&str> = of_c.iter().map(|(_, url)| *url).collect();
    assert_eq!(urls[0], "http://c.test/robots.txt");
    assert_eq!(urls.iter().filter(|url| **url == "http://c.test/x").count(), 2);
    assert_eq!(of_c.len(), 5);
    for (n, (at, _)) in of_c.iter().enumerate() {
        assert_eq!(*at, n as u64 * 1_100);
    }
    assert_eq!(lab.pages.len(), 4);
}

#[test]
fn five_hops_are_followed_and_not_a_sixth() {
    for (hops, policy) in [(5, RobotsPolicy::Rules), (6, RobotsPolicy::AllowAll)] {
        let mut lab = Lab::new(config());
        for n in 0..hops {
            let from =
                if n == 0 { "http://h0.test/robots.txt".into() } else { format!("http://h{n}.test/r") };
            lab.web.redirects.insert(from, format!("http://h{}.test/r", n + 1));
        }
        lab.web.robots.insert(format!("http://h{hops}.test"), rules("Disallow: /private"));
        lab.offer(&["http://h0.test/1"]);
        lab.run(20_000);
        assert_eq!(lab.robots.len(), 6, "{hops} hops");
        assert_eq!(lab.host("http://h0.test/").robots.policy, policy, "{hops} hops");
        assert_eq!(lab.urls(), ["http://h0.test/1"]);
    }
}

#[test]
fn a_circle_ends_at_once_and_there_are_no_rules() {
    let mut lab = lab(
        &[
            ("http://a.test/robots.txt", "http://b.test/robots.txt"),
            ("http://b.test/robots.txt", "http://a.test/robots.txt"),
        ],
        &["http://a.test/1", "http://b.test/1"],
    );
    lab.run(20_000);
    assert_eq!(lab.robots.len(), 4, "two hosts, each with one hop");
    assert_eq!(lab.pages.len(), 2);
    for origin in ["http://a.test/", "http://b.test/"] {
        assert_eq!(lab.host(origin).robots.policy, RobotsPolicy::AllowAll);
    }
}

#[test]
fn a_target_without_an_address_counts_as_not_reached() {
    let mut lab = lab(&[("http://a.test/robots.txt", "http://gone.test/r")], &["http://a.test/1"]);
    lab.web.no_address.insert("http://gone.test".into(), Outcome::DnsNxdomain);
    lab.run(60_000);
    assert_eq!((lab.robots.len(), lab.pages.len()), (1, 0));
    let host = lab.host("http://a.test/");
    assert_eq!((host.robots.policy, host.failures), (RobotsPolicy::DisallowAll, 1));
    assert_eq!(
        lab.frontier.gauges(),
        crate::frontier::Gauges { bench_bytes: lab.frontier.gauges().bench_bytes, ..Default::default() }
    );
    // The robots.txt is requested again, and the redirect is repaired by then.
    lab.web.redirects.clear();
    lab.run(24 * 3_600_000);
    assert_eq!(lab.urls(), ["http://a.test/1"]);
}

#[test]
fn a_target_that_is_stopped_or_backs_off_counts_as_not_reached() {
    let mut lab = lab(&[("http://a.test/robots.txt", "http://b.test/r")], &["http://b.test/1"]);
    lab.run(10_000);
    lab.say(Entry::Host(HostChange::Stop(key("http://b.test/").host, "no".into())));
    lab.offer(&["http://a.test/1"]);
    lab.run(10_000);
    assert!(!asked(&lab).iter().any(|(_, url)| *url == "http://b.test/r"));
    assert_eq!(lab.host("http://a.test/").robots.policy, RobotsPolicy::DisallowAll);
}

#[test]
fn errands_end_when_their_host_is_stopped_meanwhile() {
    let mut lab =
        lab(&[("http://a.test/robots.txt", "http://b.test/r")], &["http://b.test/1", "http://a.test/1"]);
    lab.config.frontier.host_delay = Duration::from_secs(1);
    lab.run(500);
    assert_eq!(lab.frontier.gauges().errands, 1, "it waits for the rest of the other host");
    lab.say(Entry::Host(HostChange::Stop(key("http://b.test/").host, "no".into())));
    lab.run(5_000);
    assert_eq!(lab.frontier.gauges().errands, 0);
    assert_eq!(lab.host("http://a.test/").robots.policy, RobotsPolicy::DisallowAll);
    assert_eq!(lab.robots.len(), 2);
}

#[test]
fn more_errands_than_one_host_takes_count_as_not_reached() {
    let mut lab = Lab::new(config());
    for n in 0..HOST_ERRANDS_MAX + 8 {
        let origin = format!("http://h{n}.test");
        lab.web.redirects.insert(format!("{origin}/robots.txt"), format!("http://c.test/{n}"));
        lab.offer_as(&format!("{origin}/1"), 1, 0, 5);
    }
    lab.run(60_000);
    let denied = (0..HOST_ERRANDS_MAX + 8)
        .filter(|n| lab.host(&format!("http://h{n}.test/")).robots.policy == RobotsPolicy::DisallowAll)
        .count();
    assert_eq!(denied, 8);
    assert_eq!(lab.pages.len(), HOST_ERRANDS_MAX);
}

#[test]
fn a_full_bench_keeps_no_errand_waiting() {
    let mut config = config();
    config.frontier.hosts_active_max = 1;
    let mut lab = Lab::new(config);
    lab.web.redirects.insert("http://a.test/robots.txt".into(), "https://a.test/robots.txt".into());
    lab.offer(&["http://a.test/1", "https://a.test/1", "https://a.test/2"]);
    lab.run(60_000);
    assert_eq!(lab.pages.len(), 3);
    assert_eq!(lab.frontier.gauges().hosts_active, 0);
}

#[test]
fn a_guest_that_is_found_meanwhile_works_on_its_own() {
    let mut lab = lab(&[("http://a.test/robots.txt", "http://b.test/r")], &["http://a.test/1"]);
    lab.took = 3_000;
    lab.run(4_000);
    assert_eq!(lab.frontier.gauges().guests, 1);
    lab.offer(&["http://b.test/1"]);
    lab.run(60_000);
    assert_eq!(lab.pages.len(), 2);
    assert_eq!(lab.frontier.gauges().hosts_active, 0);
}

#[test]
fn an_errand_that_nobody_reports_ends_as_not_reached() {
    let mut lab = lab(&[("http://a.test/robots.txt", "http://b.test/r")], &["http://a.test/1"]);
    lab.web.silent.insert("http://b.test/r".into());
    lab.run(310_000);
    assert_eq!((lab.robots.len(), lab.frontier.stats().expired), (2, 1));
    assert_eq!(lab.host("http://a.test/").robots.policy, RobotsPolicy::DisallowAll);
    let lost = lab.robots[1].ticket.clone();
    lab.close(&lost);
    lab.web.silent.clear();
    lab.run(24 * 3_600_000);
    assert_eq!(lab.urls(), ["http://a.test/1"]);
}

#[test]
fn after_a_restart_the_chain_begins_again() {
    let mut lab = lab(&[("http://a.test/robots.txt", "http://b.test/r")], &["http://a.test/1"]);
    lab.took = 5_000;
    lab.run(7_000);
    assert_eq!(lab.robots.len(), 2);
    lab.restart(0);
    lab.run(60_000);
    let urls: Vec<&str> = asked(&lab).into_iter().map(|(_, url)| url).collect();
    assert_eq!(urls[2..], ["http://a.test/robots.txt", "http://b.test/r"]);
    assert_eq!(lab.urls(), ["http://a.test/1"]);
}

#[test]
fn retry_after_at_the_end_of_a_chain_rests_both() {
    let mut lab = lab(&[("http://a.test/robots.txt", "http://b.test/r")], &["http://b.test/1"]);
    lab.run(5_000);
    assert_eq!(lab.pages.len(), 1);
    lab.web.robots.insert("http://b.test".into(), (RobotsResult::Status(503), String::new()));
    lab.web.retry_after = Some(Duration::from_secs(3_000));
    lab.offer(&["http://a.test/1"]);
    lab.run(5_000);
    assert_eq!(lab.robots.last().unwrap().ticket.url, "http://b.test/r");
    let said = lab.robots.last().unwrap().at + 100;
    (lab.web.robots, lab.web.retry_after) = Default::default();
    lab.offer(&["http://b.test/2"]);
    lab.run(6_000_000);
    assert_eq!(lab.pages.len(), 3);
    for start in lab.robots[3..].iter().chain(&lab.pages[1..]) {
        assert!(start.at >= said + 3_000_000, "{} too early", start.ticket.url);
    }
}

#[test]
fn a_target_in_a_partition_that_is_not_here_counts_as_not_reached() {
    let mut frontier = crate::frontier::Frontier::new(
        config(),
        super::lab::SECRET,
        vec![(crate::key::Prefixes::share(0, 2), crate::state::MemoryState::new())],
        None,
    );
    let here = |text: &str| crate::key::Prefixes::share(0, 2).holds(key(text).host.domain);
    let names: Vec<String> = (0..40).map(|n| format!("http://h{n}.test/")).collect();
    let ours = names.iter().find(|name| here(name)).unwrap();
    let theirs = names.iter().find(|name| !here(name)).unwrap();
    let now = crate::time::Now { mono: MONO, wall: crate::time::Timestamp(1_794_700_800_000) };
    let page = url(ours);
    frontier.offer(crate::frontier::offers::Offer {
        key: key(ours),
        origin: page.origin(),
        text: "/",
        want: &crate::want::Want::of(crate::job::JobId(1)),
    });
    let commit = |frontier: &mut crate::frontier::Frontier<_>| {
        frontier.poll_group(0, now).unwrap().expect("something to write");
        frontier.handle_committed(0, now).unwrap();
    };
    commit(&mut frontier);
    let mut robots = None;
    while let Some(action) = frontier.poll_action(now).unwrap() {
        match action {
            crate::frontier::Action::Resolve { host, .. } => {
                frontier.handle_resolved(host, &["192.0.2.1".parse().unwrap()], now);
            }
            crate::frontier::Action::Fetch(ticket) => robots = Some(ticket),
        }
    }
    let answer = RobotsAnswer::Redirect(Box::new(url(theirs)));
    frontier.handle_robots(robots.unwrap().id, RobotsReport::of(answer, Duration::ZERO), now).unwrap();
    commit(&mut frontier);
    let record = crate::state::State::host(frontier.state(0), &key(ours).host).unwrap().unwrap();
    assert_eq!(record.robots.policy, RobotsPolicy::DisallowAll);
}

#[test]
fn a_file_that_was_cut_is_kept_up_to_its_last_whole_line() {
    let mut lab = Lab::new(config());
    lab.web.cut = true;
    lab.web.robots.insert(
        "http://a.test".into(),
        (RobotsResult::Status(200), "User-agent: *\nDisallow: /private\nDisallow: /".into()),
    );
    lab.offer(&["http://a.test/1", "http://a.test/private"]);
    lab.run(10_000);
    assert_eq!(lab.urls(), ["http://a.test/1"], "the last line may have been longer");
    let body =
        crate::state::State::robots(lab.frontier.state(0), &key("http://a.test/").host).unwrap().unwrap();
    assert_eq!(&*body, b"User-agent: *\nDisallow: /private\n");
}

#[test]
fn a_ticket_says_which_rests_it_was_promised() {
    let mut lab = Lab::new(config());
    lab.web.robots.insert("http://a.test".into(), rules("Crawl-delay: 4"));
    lab.offer(&["http://a.test/1"]);
    lab.run(10_000);
    let rests =
        |start: &super::lab::Start| (start.ticket.host_rest.as_secs(), start.ticket.slot_rest.as_secs());
    assert_eq!((rests(&lab.robots[0]), rests(&lab.pages[0])), ((1, 0), (4, 0)));
}

#[test]
fn fin_01_a_name_that_fails_meanwhile_leaves_a_redirected_robots_txt_its_one_answer() {
    let hops = [("http://a.test/robots.txt", "http://b.test/r"), ("http://b.test/r", "http://c.test/r")];
    let mut lab = lab(&hops, &["http://a.test/private", "http://a.test/open"]);
    lab.web.robots.insert("http://c.test".into(), rules("Disallow: /private"));
    lab.took = 10_000;
    lab.run(15_000);
    assert_eq!(lab.robots.len(), 2, "the first hop is under way");
    let asker = key("http://a.test/").host;
    lab.frontier.handle_unresolved(asker, Outcome::DnsTimeout, lab.now).unwrap();
    // Longer than the first rest of a host that cannot be reached.
    lab.run(3_600_000);
    let hosts: Vec<&str> = lab.robots.iter().map(|start| &*start.ticket.url).collect();
    assert_eq!(hosts, ["http://a.test/robots.txt", "http://b.test/r", "http://c.test/r"]);
    assert_eq!(lab.urls(), ["http://a.test/open"], "its rest over, it is read by what was said");
    let host = lab.host("http://a.test/");
    assert_eq!((host.robots.policy, host.failures, host.waiting), (RobotsPolicy::Rules, 0, 0));
    assert_eq!(lab.frontier.gauges().errands, 0);
}
