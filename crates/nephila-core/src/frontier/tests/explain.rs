//! Every state of a URL, and every reason for which a URL waits, has an explanation.

use std::time::Duration;

use super::lab::{Lab, config, failed, key, url};
use crate::budget;
use crate::entry::{Entry, HostChange};
use crate::frontier::explain::{Explanation, Hold, Standing};
use crate::frontier::offers::Offer;
use crate::job::JobId;
use crate::refusal::Refusal;
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::Outcome;
use crate::want::Want;

fn explain(lab: &mut Lab, text: &str) -> Explanation {
    let explanation = lab.frontier.explain(&url(text), lab.now).unwrap();
    // The texts are for people.
    assert!(!explanation.standing.to_string().is_empty());
    assert!(explanation.held_by.iter().all(|hold| !hold.to_string().is_empty()));
    explanation
}

#[test]
fn a_url_is_explained_from_its_offer_to_its_end() {
    let mut config = config();
    config.frontier.visit_urls_max = 2;
    let mut lab = Lab::new(config);
    let texts: Vec<String> = (0..4).map(|i| format!("http://a.test/{i}")).collect();
    assert_eq!(explain(&mut lab, &texts[0]).standing, Standing::Unknown);
    lab.offer(&texts.iter().map(|text| &**text).collect::<Vec<_>>());
    lab.commit();
    let first = explain(&mut lab, &texts[0]);
    assert_eq!((first.standing, first.held_by), (Standing::Waiting, vec![Hold::RobotsUnknown]));
    lab.run(1_150);
    let mut standings: Vec<Standing> = texts.iter().map(|text| explain(&mut lab, text).standing).collect();
    standings.sort_by_key(|standing| format!("{standing:?}"));
    assert_eq!(standings, [Standing::AtHand, Standing::Fetching, Standing::Waiting, Standing::Waiting]);
    lab.run(100);
    let next = texts
        .iter()
        .find(|text| explain(&mut lab, text).standing == Standing::AtHand)
        .expect("one is")
        .clone();
    assert_eq!(explain(&mut lab, &next).held_by, [Hold::Delay(950)]);
    lab.run(60_000);
    let done = explain(&mut lab, &texts[0]);
    assert_eq!(done.standing, Standing::Ended(Outcome::Fetched));
    assert_eq!(done.held_by, [Hold::NotActive]);
    assert_eq!(done.record.unwrap().last.unwrap().status, 200);
    assert_eq!(&*done.host.unwrap().origin, "http://a.test");
}

#[test]
fn a_rule_of_robots_txt_is_named_with_its_line() {
    let mut lab = Lab::new(config());
    let body = "# ours\nUser-agent: *\nDisallow: /private\n";
    lab.web.robots.insert("http://a.test".into(), (RobotsResult::Status(200), body.into()));
    lab.offer(&["http://a.test/private/1"]);
    lab.run(10_000);
    let explanation = explain(&mut lab, "http://a.test/private/1");
    assert_eq!(explanation.standing, Standing::Ended(Outcome::RobotsDenied));
    let Hold::Robots { line, rule } = &explanation.held_by[0] else { panic!("{:?}", explanation.held_by) };
    assert_eq!(*line, 3);
    assert!(rule.contains("/private"), "{rule}");
}

#[test]
fn fin_13_it_says_why_a_robots_txt_cannot_be_read() {
    let causes = [
        (RobotsResult::Status(503), None, "it answered 503"),
        (RobotsResult::Unreachable, Some(Outcome::TlsUntrusted), "tls-untrusted: "),
        (RobotsResult::Unreachable, Some(Outcome::ConnectRefused), "connect-refused: "),
    ];
    for (answer, cause, words) in causes {
        let mut lab = Lab::new(config());
        lab.web.robots.insert("http://a.test".into(), (answer, String::new()));
        lab.web.cause = cause;
        lab.offer(&["http://a.test/1"]);
        lab.run(10_000);
        let said = explain(&mut lab, "http://a.test/1").held_by[0].to_string();
        assert!(said.starts_with("robots.txt cannot be read (") && said.contains(words), "{said}");
    }
}

#[test]
fn a_robots_txt_out_of_reach_holds_everything() {
    let mut lab = Lab::new(config());
    lab.web.robots.insert("http://a.test".into(), (RobotsResult::Unreachable, String::new()));
    lab.offer(&["http://a.test/1"]);
    lab.run(10_000);
    let explanation = explain(&mut lab, "http://a.test/1");
    assert_eq!(explanation.standing, Standing::Waiting);
    assert_eq!(explanation.held_by[0], Hold::RobotsUnreachable(None));
    assert!(
        explanation.held_by.iter().any(|hold| matches!(hold, Hold::Resting(_))),
        "{:?}",
        explanation.held_by
    );
}

#[test]
fn a_rest_that_was_asked_for_and_a_plan_have_their_time() {
    let mut lab = Lab::new(config());
    lab.web.pages.insert("http://a.test/1".into(), failed(Outcome::Unavailable, 503, Some(7_200)));
    lab.offer(&["http://a.test/1"]);
    lab.run(10_000);
    let explanation = explain(&mut lab, "http://a.test/1");
    let Standing::Planned(due) = explanation.standing else { panic!("{:?}", explanation.standing) };
    let until = lab.host("http://a.test/").rest_until;
    assert!(due >= until && due.0 < until.0 + 2_000, "{due} {until}");
    assert!(explanation.held_by.contains(&Hold::Resting(until)), "{:?}", explanation.held_by);
}

#[test]
fn an_operators_stop_is_given_with_its_reason() {
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1"]);
    lab.say(Entry::Host(HostChange::Stop(key("http://a.test/").host, "asked to by mail".into())));
    lab.run(10_000);
    let explanation = explain(&mut lab, "http://a.test/1");
    assert_eq!(explanation.standing, Standing::Waiting);
    assert_eq!(explanation.held_by[0], Hold::Stopped("asked to by mail".into()));
}

#[test]
fn a_host_may_be_stopped_before_anybody_has_found_it() {
    let mut lab = Lab::new(config());
    let stop = Entry::Host(HostChange::Stop(key("http://a.test/").host, "asked to by mail".into()));
    lab.say(stop);
    lab.run(1_000);
    lab.offer(&["http://a.test/1", "http://a.test/2"]);
    lab.run(60_000);
    assert!(lab.robots.is_empty() && lab.pages.is_empty());
    assert_eq!(explain(&mut lab, "http://a.test/1").held_by[0], Hold::Stopped("asked to by mail".into()));
    lab.say(Entry::Host(HostChange::Resume(key("http://a.test/").host)));
    lab.run(60_000);
    assert_eq!(lab.pages.len(), 2);
}

#[test]
fn a_busy_address_and_a_missing_one_are_named() {
    let mut config = config();
    config.frontier.slot_delay = Duration::from_secs(30);
    let mut lab = Lab::new(config);
    for origin in ["http://a.test", "http://b.test"] {
        lab.web.addresses.insert(origin.into(), vec!["192.0.2.1".parse().unwrap()]);
    }
    lab.web.no_address.insert("http://c.test".into(), Outcome::DnsNxdomain);
    lab.offer(&["http://a.test/1", "http://b.test/1", "http://c.test/1"]);
    lab.run(2_000);
    let waiting =
        if lab.robots[0].ticket.url.starts_with("http://a") { "http://b.test/1" } else { "http://a.test/1" };
    let explanation = explain(&mut lab, waiting);
    let slot = explanation.held_by.iter().find_map(|hold| match hold {
        Hold::Slot(slot) => Some(slot.to_string()),
        _ => None,
    });
    assert_eq!(slot.as_deref(), Some("192.0.2.1"), "{:?}", explanation.held_by);
    let explanation = explain(&mut lab, "http://c.test/1");
    assert!(matches!(explanation.standing, Standing::Planned(_)), "{:?}", explanation.standing);
}

#[test]
fn what_is_beyond_the_budget_or_refused_is_explained() {
    let mut config = config();
    config.rules.budget = budget::Settings {
        domain_urls: 1,
        domain_urls_per_day: 0,
        parked_text_max: 1,
        ..budget::Settings::default()
    };
    let mut lab = Lab::new(config);
    lab.offer(&["http://a.test/1"]);
    lab.commit();
    lab.offer(&["http://a.test/2"]);
    lab.commit();
    lab.offer(&["http://a.test/3"]);
    let offer = Offer {
        key: key("http://a.test/deep"),
        origin: "http://a.test",
        text: "/deep",
        want: &Want { depth: 99, refusal: Some(Refusal::Depth), ..Want::of(JobId(1)) },
    };
    lab.frontier.offer(offer);
    lab.run(10_000);
    let parked = Standing::Parked { allowed: 1, admitted: 1 };
    assert_eq!(explain(&mut lab, "http://a.test/2").standing, parked);
    assert_eq!(explain(&mut lab, "http://a.test/3").standing, parked);
    assert_eq!(explain(&mut lab, "http://a.test/deep").standing, Standing::Refused(Refusal::Depth));
}

#[test]
fn explaining_changes_nothing() {
    use crate::key::Prefixes;
    use crate::state::State;
    let mut lab = Lab::new(config());
    lab.offer(&["http://a.test/1", "http://a.test/2"]);
    lab.run(1_150);
    let (hash, gauges, wake) = (
        lab.frontier.state(0).hash(Prefixes::ALL).unwrap(),
        lab.frontier.gauges(),
        lab.frontier.poll_timeout(lab.now),
    );
    for text in ["http://a.test/1", "http://a.test/2", "http://nobody.test/"] {
        explain(&mut lab, text);
    }
    assert_eq!(lab.frontier.state(0).hash(Prefixes::ALL).unwrap(), hash);
    assert_eq!((lab.frontier.gauges(), lab.frontier.poll_timeout(lab.now)), (gauges, wake));
}
