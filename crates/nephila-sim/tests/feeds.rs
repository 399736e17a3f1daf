//! Feeds in small: every promise for a hundred thousand must hold for a hundred, and the model must notice errors. The
//! long run is `cargo xtask sim feeds`.

use std::time::Duration;

use nephila_core::feed::schedule::Rule;
use nephila_sim::Checker;
use nephila_sim::feeds::{alone, single, whole};

const FEEDS: u64 = 60;
const DAYS: u64 = 10;

#[test]
fn feeds_are_asked_when_the_model_says_and_every_story_is_found_once() {
    for rule in [Rule::Doubling, Rule::Adaptive] {
        let settings = single::settings(rule);
        let counts =
            alone(1, FEEDS, DAYS, &settings, 2).unwrap_or_else(|violation| panic!("{rule:?}: {violation}"));
        assert!(counts.feeds == FEEDS && counts.stories > 10 * FEEDS && counts.not_modified > 0, "{counts}");
        assert_eq!(
            alone(1, FEEDS, DAYS, &settings, 1).map(|c| c.polls),
            Ok(counts.polls),
            "one seed, one run"
        );
    }
}

#[test]
fn a_whole_frontier_asks_when_the_model_says_though_it_dies() {
    let counts = whole::run(3, 16, 6, 8).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(counts.restarts == 8 && counts.stories > 100 && counts.polls > counts.stories, "{counts}");
}

#[test]
fn a_schedule_that_differs_from_the_rule_is_noticed() {
    let mut settings = single::settings(Rule::Doubling);
    settings.interval_min = Duration::from_secs(299);
    let violation = alone(1, 4, DAYS, &settings, 1).unwrap_err();
    assert_eq!(violation.checker, Checker::Model, "{violation}");
}
