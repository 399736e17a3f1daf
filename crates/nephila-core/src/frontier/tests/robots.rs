//! robots.txt: fetched first, always obeyed, and applied anew after a change.

use super::lab::{Lab, config, key};
use crate::frontier::feedback::FeedbackReason;
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;
use crate::state::record::{RobotsPolicy, UrlState};

const DAY: u64 = 24 * 3_600_000;

fn rules(text: &str) -> (RobotsResult, String) {
    (RobotsResult::Status(200), format!("User-agent: *\n{text}\n"))
}

#[test]
fn what_robots_txt_forbids_ends_without_a_fetch() {
    let mut lab = Lab::new(config());
    lab.web.robots.insert("http://a.test".into(), rules("Disallow: /private"));
    lab.offer(&["http://a.test/private/1", "http://a.test/public", "http://a.test/private/2"]);
    lab.run(30_000);
    assert_eq!(lab.urls(), ["http://a.test/public"]);
    for text in ["http://a.test/private/1", "http://a.test/private/2"] {
        let record = lab.record(text);
        assert_eq!(record.state, UrlState::Ended);
        let last = record.last.unwrap();
        assert_eq!((last.outcome, last.status), (Outcome::RobotsDenied, 0));
    }
    let host = lab.host("http://a.test/");
    assert_eq!((host.waiting, host.ended), (0, 3));
    assert_eq!(lab.frontier.stats().turned_away, 2);
}

#[test]
fn a_site_that_forbids_all_of_many_pages_is_done_with_one_request() {
    let mut lab = Lab::new(config());
    lab.web.robots.insert("http://a.test".into(), rules("Disallow: /"));
    for i in 0..500 {
        lab.offer_as(&format!("http://a.test/{i}"), 1, 0, 5);
    }
    lab.run(60_000);
    assert_eq!((lab.robots.len(), lab.pages.len()), (1, 0));
    let host = lab.host("http://a.test/");
    assert_eq!((host.waiting, host.ended), (0, 500));
    assert_eq!(lab.frontier.gauges().hosts_active, 0);
}

#[test]
fn a_site_that_turns_many_links_away_is_said_to_be_closed_until_its_rules_change() {
    let mut lab = Lab::new(config());
    lab.web.robots.insert("http://giant.test".into(), rules("Disallow: /"));
    lab.web.robots.insert("http://half.test".into(), rules("Disallow: /share"));
    for i in 0..2_000 {
        lab.offer_as(&format!("http://giant.test/share/{i}"), 1, 1, 5);
        lab.offer_as(&format!("http://half.test/share/{i}"), 1, 1, 5);
    }
    lab.run(30_000);
    let now = lab.now;
    let closed = lab.frontier.closed_hosts(0, now);
    assert_eq!(
        closed,
        [(key("http://giant.test/").host, FeedbackReason::Robots)],
        "not one that forbids a part"
    );
    lab.web.robots.insert("http://giant.test".into(), rules("Disallow: /private"));
    lab.run(2 * DAY);
    lab.offer_as("http://giant.test/new", 1, 1, 5);
    lab.run(60_000);
    let now = lab.now;
    assert_eq!(lab.frontier.closed_hosts(0, now), []);
}

#[test]
fn many_sites_that_forbid_everything_are_all_done() {
    let mut lab = Lab::new(config());
    for host in 0..200 {
        lab.web.robots.insert(format!("http://h{host}.test"), rules("Disallow: /"));
        for url in 0..30 {
            lab.offer_as(&format!("http://h{host}.test/{url}"), 1, 0, 5);
        }
    }
    lab.run(60_000);
    assert_eq!(lab.frontier.stats().turned_away, 6_000);
    assert_eq!((lab.pages.len(), lab.frontier.gauges().hosts_active), (0, 0));
}

#[test]
fn a_robots_txt_is_asked_for_again_after_a_day_and_what_is_at_hand_is_judged_anew() {
    let mut config = config();
    config.frontier.host_delay = std::time::Duration::from_secs(3 * 3_600);
    let mut lab = Lab::new(config);
    lab.web.robots.insert("http://a.test".into(), rules("Disallow: /nothing"));
    let texts: Vec<String> = (0..15).map(|i| format!("http://a.test/{i}")).collect();
    lab.offer(&texts.iter().map(|text| &**text).collect::<Vec<_>>());
    lab.run(DAY - 3_600_000);
    assert_eq!((lab.robots.len(), lab.pages.len()), (1, 7));
    lab.web.robots.insert("http://a.test".into(), rules("Disallow: /"));
    lab.run(3 * DAY);
    assert_eq!(lab.robots.len(), 2, "a day later it is asked for again");
    assert_eq!(lab.pages.len(), 7, "not one page after the new rules");
    let denied =
        texts.iter().filter(|text| lab.record(text).last.unwrap().outcome == Outcome::RobotsDenied).count();
    assert_eq!(denied, 8);
}

#[test]
fn while_robots_txt_is_out_of_reach_nothing_is_fetched() {
    let mut lab = Lab::new(config());
    lab.web.robots.insert("http://a.test".into(), (RobotsResult::Status(503), String::new()));
    lab.offer(&["http://a.test/1"]);
    lab.run(10 * 3_600_000);
    assert!(lab.pages.is_empty());
    assert!((2..30).contains(&lab.robots.len()), "asked {} times in ten hours", lab.robots.len());
    let host = lab.host("http://a.test/");
    assert_eq!((host.robots.policy, host.waiting), (RobotsPolicy::DisallowAll, 1));
    assert!(host.failures >= 2);
    assert_eq!(lab.record("http://a.test/1").state, UrlState::Waiting, "nothing is held against the URL");
    lab.web.robots.insert("http://a.test".into(), (RobotsResult::Status(404), String::new()));
    lab.run(DAY);
    assert_eq!(lab.urls(), ["http://a.test/1"]);
    assert_eq!(lab.host("http://a.test/").robots.policy, RobotsPolicy::AllowAll);
}

#[test]
fn the_last_good_rules_hold_while_robots_txt_is_out_of_reach() {
    let mut lab = Lab::new(config());
    lab.web.robots.insert("http://a.test".into(), rules("Disallow: /private"));
    lab.offer(&["http://a.test/1"]);
    lab.run(DAY + 1_000);
    lab.web.robots.insert("http://a.test".into(), (RobotsResult::Unreachable, String::new()));
    lab.offer(&["http://a.test/2", "http://a.test/private"]);
    lab.run(DAY);
    assert!(lab.robots.len() >= 2);
    assert_eq!(lab.urls(), ["http://a.test/1", "http://a.test/2"]);
    assert_eq!(lab.record("http://a.test/private").last.unwrap().outcome, Outcome::RobotsDenied);
}

#[test]
fn a_lost_robots_ticket_is_given_out_again() {
    let mut lab = Lab::new(config());
    lab.web.silent.insert("http://a.test".into());
    lab.offer(&["http://a.test/1"]);
    lab.run(301_000);
    assert_eq!((lab.robots.len(), lab.pages.len(), lab.frontier.stats().expired), (1, 0, 1));
    let lost = lab.robots[0].ticket.clone();
    lab.close(&lost);
    lab.web.silent.clear();
    lab.run(3_600_000);
    assert_eq!((lab.robots.len(), lab.urls()), (2, vec!["http://a.test/1"]));
}

#[test]
fn new_rules_hold_from_the_moment_they_are_known_though_the_old_ones_were_kept() {
    let mut config = config();
    config.frontier.host_delay = std::time::Duration::from_secs(3_600);
    config.frontier.visit_urls_max = 1;
    let mut lab = Lab::new(config);
    lab.web.robots.insert("http://a.test".into(), rules("Disallow: /private"));
    let texts: Vec<String> = (0..40).map(|i| format!("http://a.test/a/{i}")).collect();
    lab.offer(&texts.iter().map(|text| &**text).collect::<Vec<_>>());
    lab.run(DAY - 3_600_000);
    let before = lab.pages.len();
    assert!(before > 20, "{before} visits of one page each");
    assert!(lab.frontier.robots.bytes() > 0, "the rules are kept");
    lab.web.robots.insert("http://a.test".into(), rules("Disallow: /a"));
    lab.run(DAY);
    assert_eq!(lab.robots.len(), 2);
    let changed = lab.robots[1].at;
    assert!(lab.pages.iter().all(|page| page.at <= changed), "nothing is asked for against the new rules");
    lab.offer(&["http://a.test/private"]);
    lab.run(DAY / 2);
    assert_eq!(lab.urls().last().copied(), Some("http://a.test/private"), "nor is it denied by old ones");
}
