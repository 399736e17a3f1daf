//! What is concluded from an explanation: robots.txt in the summary, and in what is said of a host.

use nephila_core::frontier::explain;
use nephila_core::key::UrlKey;

use super::*;

fn explanation(standing: Standing, held_by: Vec<Hold>) -> Explanation {
    Explanation {
        key: UrlKey::default(),
        standing,
        held_by,
        record: None,
        host: None,
        ready_in: None,
        rest_ms: None,
        under_way: 0,
        ahead: None,
        robots: None,
    }
}

#[test]
fn a_url_that_robots_txt_forbids_names_the_line_before_and_after_its_turn() {
    let rule = Hold::Robots { line: 3, rule: "Disallow: /private".into() };
    for standing in [Standing::Waiting, Standing::Unknown, Standing::Ended(Outcome::RobotsDenied)] {
        let mut explained = Explained::bad("", String::new());
        explained.conclude(&explanation(standing, vec![rule.clone()]));
        assert_eq!(explained.summary, Summary::Robots);
        let named = "robots.txt forbids it, line 3: Disallow: /private";
        assert!(explained.because.ends_with(named), "{}", explained.because);
    }
    let mut explained = Explained::bad("", String::new());
    explained.conclude(&explanation(Standing::Ended(Outcome::Fetched), vec![rule]));
    assert_eq!((explained.summary, explained.because.contains("robots")), (Summary::Fetched, false));
}

#[test]
fn everything_is_forbidden_by_the_rules_or_without_them() {
    let forbids_all = |policy, rules: Option<bool>| {
        let mut host = HostRecord::default();
        host.robots.policy = policy;
        let robots = rules.map(|forbids_all| explain::RobotsView {
            group: Group::Everybody,
            rules: 1,
            lines: vec![(2, "Disallow: /".into())],
            forbids_all,
            bytes: 30,
            notes: Vec::new(),
        });
        let explanation = Explanation { robots, ..explanation(Standing::Waiting, Vec::new()) };
        robots_view(&host, &explanation, &[]).forbids_all
    };
    assert!(forbids_all(RobotsPolicy::Rules, Some(true)));
    assert!(forbids_all(RobotsPolicy::DisallowAll, None));
    assert!(!forbids_all(RobotsPolicy::Rules, Some(false)));
    assert!(!forbids_all(RobotsPolicy::AllowAll, None) && !forbids_all(RobotsPolicy::Unknown, None));
}
