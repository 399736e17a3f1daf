//! Cases of the hostile catalogue that the frontier decides alone and that no other test covers.

use std::time::Duration;

use super::lab::{Lab, MONO, config, key, url};
use crate::frontier::offers::Offer;
use crate::handler::ReadAs;
use crate::job::{Hops, JobId};
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;
use crate::state::record::RobotsPolicy;
use crate::time::Timestamp;
use crate::want::Want;

const HOUR: u64 = 3_600_000;

fn rules(text: &str) -> (RobotsResult, String) {
    (RobotsResult::Status(200), format!("User-agent: *\n{text}\n"))
}

/// The start of each page of an origin, in milliseconds since the lab opened.
fn starts(lab: &Lab, origin: &str) -> Vec<u64> {
    lab.pages
        .iter()
        .filter(|start| start.ticket.url.starts_with(origin))
        .map(|start| start.at - MONO)
        .collect()
}

#[test]
fn rob_01_every_kind_of_file_asks_the_rules_of_its_own_origin() {
    let mut lab = Lab::new(config());
    lab.web.robots.insert("http://a.test".into(), rules("Disallow: /maps\nDisallow: /favicon.ico"));
    for (text, read_as) in [
        ("http://a.test/maps/1.xml", ReadAs::Sitemap),
        ("http://a.test/favicon.ico", ReadAs::Page),
        ("http://a.test/open.xml", ReadAs::Sitemap),
    ] {
        let whole = url(text);
        // Reached by a redirect, which changes nothing.
        lab.frontier.offer(Offer {
            key: key(text),
            origin: "http://a.test",
            text: whole.path_and_query(),
            want: &Want { hops: Hops::new(0, 1), read_as, ..Want::of(JobId(1)) },
        });
    }
    lab.run(30_000);
    assert_eq!(lab.urls(), ["http://a.test/open.xml"]);
    assert_eq!(lab.record("http://a.test/maps/1.xml").last.unwrap().outcome, Outcome::RobotsDenied);
}

#[test]
fn rob_04_a_robots_txt_that_asks_us_to_wait_holds_the_host_and_is_no_leave() {
    for status in [429, 503] {
        let mut lab = Lab::new(config());
        lab.web.robots.insert("http://a.test".into(), (RobotsResult::Status(status), String::new()));
        lab.web.retry_after = Some(Duration::from_secs(5 * 3_600));
        lab.offer(&["http://a.test/1"]);
        lab.run(5 * HOUR - 1_000);
        assert_eq!((lab.robots.len(), lab.pages.len()), (1, 0), "{status}: not one request before its time");
        lab.web.robots.clear();
        lab.web.retry_after = None;
        lab.run(24 * HOUR);
        assert_eq!(lab.urls(), ["http://a.test/1"], "{status}");
        assert!(lab.robots[1].at - lab.robots[0].at >= 5 * HOUR);
    }
}

#[test]
fn rob_06_rules_found_at_another_host_leave_its_own_rules_as_they_are() {
    let mut lab = Lab::new(config());
    for (from, to) in [
        ("http://a.test/robots.txt", "http://b.test/shared"),
        ("http://b.test/robots.txt", "http://c.test/r"),
    ] {
        lab.web.redirects.insert(from.into(), to.into());
    }
    lab.web.robots.insert("http://b.test".into(), rules("Disallow: /for-a"));
    lab.web.robots.insert("http://c.test".into(), rules("Disallow: /for-b"));
    lab.offer(&["http://a.test/for-a", "http://a.test/for-b", "http://b.test/for-a", "http://b.test/for-b"]);
    lab.run(60_000);
    let mut urls = lab.urls();
    urls.sort();
    assert_eq!(urls, ["http://a.test/for-b", "http://b.test/for-a"]);
}

#[test]
fn rob_25_scheme_name_and_port_have_each_their_own_rules() {
    let origins = ["http://a.test", "https://a.test", "http://www.a.test", "http://a.test:8080"];
    let mut lab = Lab::new(config());
    for (n, origin) in origins.iter().enumerate() {
        lab.web.robots.insert((*origin).into(), rules(&format!("Disallow: /{n}")));
    }
    for origin in origins {
        for n in 0..origins.len() {
            lab.offer_as(&format!("{origin}/{n}"), 1, 0, 5);
        }
    }
    lab.run(60_000);
    assert_eq!((lab.robots.len(), lab.pages.len()), (4, 12));
    for (n, origin) in origins.iter().enumerate() {
        assert_eq!(lab.record(&format!("{origin}/{n}")).last.unwrap().outcome, Outcome::RobotsDenied);
        assert_eq!(lab.host(&format!("{origin}/")).robots.policy, RobotsPolicy::Rules);
    }
}

#[test]
fn rob_30_a_new_owner_asks_for_no_page_before_rules_are_in_force() {
    // The old owner has read the rules of one host, was asking for those of another, and never asked for the third's.
    let mut lab = Lab::new(config());
    for origin in ["http://a.test", "http://b.test", "http://c.test"] {
        lab.web.robots.insert(origin.into(), rules("Disallow: /no"));
    }
    lab.web.silent.insert("http://b.test/robots.txt".into());
    lab.offer(&["http://a.test/1", "http://a.test/no", "http://b.test/1", "http://b.test/no"]);
    lab.run(1_500);
    assert!(
        lab.pages.iter().all(|start| start.ticket.url.starts_with("http://a.test")),
        "its rules have not come"
    );
    lab.web.silent.clear();
    let before = lab.robots.len();
    lab.restart(20_000);
    lab.offer(&["http://c.test/no", "http://c.test/1"]);
    lab.run(120_000);
    let mut urls = lab.urls();
    urls.sort();
    urls.dedup();
    assert_eq!(urls, ["http://a.test/1", "http://b.test/1", "http://c.test/1"]);
    for origin in ["http://b.test", "http://c.test"] {
        let asked = lab.robots[before..].iter().find(|start| start.ticket.url.starts_with(origin));
        let asked = asked.expect("the new owner asks for the rules").at - MONO;
        assert!(starts(&lab, origin).iter().all(|at| *at > asked), "{origin}");
    }
    // Rules in the log are in force from the first moment.
    assert!(!lab.robots[before..].iter().any(|start| start.ticket.url.starts_with("http://a.test")));
    assert_eq!(lab.record("http://a.test/no").last.unwrap().outcome, Outcome::RobotsDenied);
}

#[test]
fn trp_03_a_maze_that_answers_slowly_costs_nobody_else_any_time() {
    let run = |with_maze: bool| {
        let mut lab = Lab::new(config());
        if with_maze {
            // Slower than any deadline here: its first page is never reported.
            for n in 0..100 {
                lab.offer_as(&format!("http://maze.test/{n}"), 1, 0, 5);
                lab.web.silent.insert(format!("http://maze.test/{n}"));
            }
        }
        for n in 0..50 {
            lab.offer_as(&format!("http://a.test/{n}"), 1, 0, 5);
            lab.offer_as(&format!("http://b.test/{n}"), 1, 0, 5);
        }
        lab.run(120_000);
        assert_eq!(starts(&lab, "http://maze.test").len(), usize::from(with_maze), "one ticket at a time");
        [starts(&lab, "http://a.test"), starts(&lab, "http://b.test")]
    };
    let alone = run(false);
    assert_eq!(alone[0].len(), 50);
    assert_eq!(run(true), alone, "the others are asked at the same moments");
}

#[test]
fn pol_06_all_kinds_of_requests_share_the_rest_of_their_host() {
    let mut lab = Lab::new(config());
    lab.web.redirects.insert("http://b.test/robots.txt".into(), "http://a.test/robots-of-b".into());
    let texts = ["http://a.test/sitemap.xml", "http://a.test/feed", "http://a.test/1"];
    for (text, read_as) in texts.iter().zip([ReadAs::Sitemap, ReadAs::Page, ReadAs::Page]) {
        let whole = url(text);
        lab.frontier.offer(Offer {
            key: key(text),
            origin: "http://a.test",
            text: whole.path_and_query(),
            want: &Want { read_as, ..Want::of(JobId(1)) },
        });
    }
    lab.offer(&["http://b.test/1"]);
    lab.run(30_000);
    let of_a = lab.pages.iter().chain(&lab.robots).filter(|start| start.ticket.url.contains("//a.test"));
    let mut at: Vec<u64> = of_a.map(|start| start.at - MONO).collect();
    at.sort();
    // robots.txt, the one of another host, a sitemap, a feed and a page.
    assert_eq!(at.len(), 5);
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= 1_100), "{at:?}");
}

#[test]
fn pol_09_a_clock_that_is_set_changes_no_rest() {
    let run = |jumps: &[i64]| {
        let mut lab = Lab::new(config());
        for n in 0..40 {
            lab.offer_as(&format!("http://a.test/{n}"), 1, 0, 5);
        }
        lab.run(5_000);
        for jump in jumps {
            lab.now.wall = Timestamp(lab.now.wall.0.saturating_add_signed(*jump));
            lab.run(5_000);
        }
        lab.run(60_000 - 5_000 * jumps.len() as u64);
        starts(&lab, "http://a.test")
    };
    let hour = HOUR as i64;
    let steady = run(&[]);
    assert_eq!(steady.len(), 40);
    for jumps in [vec![hour], vec![-hour], vec![1_000, -1_000], vec![hour, -2 * hour, hour]] {
        assert_eq!(run(&jumps), steady, "{jumps:?}");
    }
}

#[test]
fn pol_22_two_spellings_of_a_url_are_asked_for_once() {
    let mut lab = Lab::new(config());
    for text in [
        "http://a.test/b",
        "HTTP://A.test:80/b",
        "http://a.test/x/../b",
        "http://a.test/%62",
        "http://a.test/b#part",
    ] {
        lab.offer_as(text, 1, 0, 5);
    }
    lab.run(30_000);
    assert_eq!(lab.pages.len(), 1, "{:?}", lab.urls());
    assert_eq!(lab.host("http://a.test/").ended, 1);
}

#[test]
fn smp_13_a_host_that_has_nothing_of_what_its_sitemap_names_is_asked_ever_less() {
    const URLS: usize = 600;
    let mut config = config();
    config.rules.trap.missing_in_row_max = 100;
    let mut lab = Lab::new(config);
    let texts: Vec<String> = (0..URLS).map(|n| format!("http://a.test/{n}")).collect();
    for text in &texts {
        lab.offer(&[text]);
        let gone = crate::frontier::ticket::Report::of(Outcome::NotFound, 404, Duration::ZERO);
        lab.web.pages.insert(text.clone(), gone);
    }
    // Another host is requested as usual.
    let others: Vec<String> = (0..URLS).map(|n| format!("http://b.test/{n}")).collect();
    others.iter().for_each(|text| lab.offer(&[text]));
    lab.run(HOUR);
    let asked = starts(&lab, "http://a.test").len();
    assert!((100..200).contains(&asked), "{asked} within an hour");
    assert_eq!(starts(&lab, "http://b.test").len(), URLS);
    lab.run(24 * HOUR);
    let later = starts(&lab, "http://a.test").len();
    assert!(later < asked + 150, "{later} within a day");
    // The rest survives a restart.
    lab.restart(1_000);
    lab.run(HOUR);
    assert!(starts(&lab, "http://a.test").len() <= later + 3);
    // After one page that exists the host is requested as usual.
    texts.iter().for_each(|text| _ = lab.web.pages.remove(text));
    lab.run(3 * HOUR);
    assert_eq!(starts(&lab, "http://a.test").len(), URLS);
}
