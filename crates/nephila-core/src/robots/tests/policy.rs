//! The policy in force after each answer: a table, and a planted mistake that the table finds.

use std::time::Duration;

use crate::robots::{
    Denied, Policy, REFETCH_AFTER_MAX, REFETCH_AFTER_MIN, RobotsResult, Settings, UNREACHABLE_MAX, in_force,
    refetch_after,
};

const USUAL: Settings = Settings { denied: Denied::Allow, unreachable_then_allow: false };
const STRICT: Settings = Settings { denied: Denied::Disallow, unreachable_then_allow: false };
const PATIENT: Settings = Settings { denied: Denied::Allow, unreachable_then_allow: true };
const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The requirements of the RFC's sections 2.3.1.1 to 2.3.1.4 and rows ROB-02 to ROB-05 and ROB-11: the answer, whether
/// there is an older copy, for how long there has been no response, the operator's choice, and the policy.
fn table() -> Vec<(RobotsResult, bool, Duration, Settings, Policy)> {
    use Policy::{AllowAll, DisallowAll, LastRules, Rules};
    let mut table = Vec::new();
    let zero = Duration::ZERO;
    for status in 200..=299 {
        for copy in [false, true] {
            table.push((RobotsResult::Status(status), copy, zero, USUAL, Rules));
        }
    }
    // Unavailable: as if there were no file, copy or not. 429 is none of these.
    for status in (400..=499).filter(|status| *status != 429) {
        for copy in [false, true] {
            table.push((RobotsResult::Status(status), copy, zero, USUAL, AllowAll));
        }
        let strict = if matches!(status, 401 | 403) { DisallowAll } else { AllowAll };
        table.push((RobotsResult::Status(status), true, zero, STRICT, strict));
    }
    // Unreachable: nothing, or what the last copy says, however old.
    let unreachable = [
        RobotsResult::Unreachable,
        RobotsResult::Status(429),
        RobotsResult::Status(0),
        RobotsResult::Status(100),
        RobotsResult::Status(999),
    ];
    for answer in (500..=599).map(RobotsResult::Status).chain(unreachable) {
        table.push((answer, false, zero, USUAL, DisallowAll));
        table.push((answer, false, zero, STRICT, DisallowAll));
        table.push((answer, false, 300 * DAY, USUAL, DisallowAll));
        table.push((answer, false, 29 * DAY, PATIENT, DisallowAll));
        table.push((answer, false, 30 * DAY, PATIENT, AllowAll));
        for age in [zero, 29 * DAY, 300 * DAY] {
            table.push((answer, true, age, USUAL, LastRules));
            table.push((answer, true, age, PATIENT, LastRules));
        }
    }
    // Too many redirects, or one that leads nowhere, count as unavailable.
    for answer in [
        RobotsResult::RedirectLimit,
        RobotsResult::Status(300),
        RobotsResult::Status(301),
        RobotsResult::Status(308),
    ] {
        for copy in [false, true] {
            table.push((answer, copy, zero, USUAL, AllowAll));
        }
    }
    table.push((RobotsResult::Status(304), true, zero, USUAL, LastRules));
    table.push((RobotsResult::Status(304), false, zero, USUAL, DisallowAll));
    table
}

/// The rows with another policy in force.
fn wrong(in_force: impl Fn(RobotsResult, bool, Duration, &Settings) -> Policy) -> Vec<String> {
    let rows = table().into_iter();
    rows.filter_map(|(answer, copy, age, settings, want)| {
        let got = in_force(answer, copy, age, &settings);
        (got != want)
            .then(|| format!("{answer:?}, copy {copy}, {age:?}, {settings:?}: {got:?} instead of {want:?}"))
    })
    .collect()
}

#[test]
fn what_is_in_force_after_each_answer() {
    let wrong = wrong(in_force);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(Settings::default(), USUAL);
    assert_eq!(UNREACHABLE_MAX, 30 * DAY);
}

#[test]
fn a_planted_5xx_that_allows_is_found_by_the_table() {
    // M5 of the list of planted bugs, and two of its cousins.
    let planted = |changed: fn(RobotsResult) -> bool| {
        wrong(
            move |answer, copy, age, settings| {
                if changed(answer) { Policy::AllowAll } else { in_force(answer, copy, age, settings) }
            },
        )
        .len()
    };
    assert!(planted(|answer| matches!(answer, RobotsResult::Status(500..=599))) >= 100);
    assert!(planted(|answer| answer == RobotsResult::Status(429)) >= 5);
    assert!(planted(|answer| answer == RobotsResult::Unreachable) >= 5);
    // A copy that is dropped when its refetch fails.
    assert!(wrong(|answer, _, age, settings| in_force(answer, false, age, settings)).len() >= 100);
}

#[test]
fn a_copy_is_used_ten_minutes_at_least_and_a_day_at_most() {
    let seconds = |n| Some(Duration::from_secs(n));
    assert_eq!(refetch_after(seconds(60)), REFETCH_AFTER_MIN);
    assert_eq!(refetch_after(seconds(0)), REFETCH_AFTER_MIN);
    assert_eq!(refetch_after(seconds(3_600)), Duration::from_secs(3_600));
    assert_eq!(refetch_after(seconds(31_536_000)), REFETCH_AFTER_MAX);
    assert_eq!(refetch_after(None), REFETCH_AFTER_MAX);
}
