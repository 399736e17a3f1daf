//! Guarantees of the retry table.

use proptest::prelude::*;

use super::*;

/// Without jitter, so that waits are round.
fn plain() -> Settings {
    Settings { jitter_percent: 0, ..Settings::default() }
}

fn secs(next: Next) -> (Option<u64>, Option<u64>) {
    let after = match next.url {
        UrlNext::Again { after } => Some(after.as_secs()),
        _ => None,
    };
    (after, next.host_rest.map(|rest| rest.as_secs()))
}

#[test]
fn a_503_is_asked_for_five_times_again_from_one_hour_doubling() {
    for outcome in [Outcome::Unavailable, Outcome::HeadTimeout, Outcome::TotalTimeout, Outcome::CutTime] {
        let mut retries = 0;
        let mut waits = Vec::new();
        loop {
            let next = next(outcome, retries, 0, None, 0, &plain());
            match next.url {
                UrlNext::Again { after } => waits.push(after.as_secs() / 3600),
                end => {
                    assert_eq!(end, UrlNext::GiveUp);
                    break;
                }
            }
            retries = next.retries;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16], "{outcome}");
    }
}

#[test]
fn pol_03_retry_after_is_a_floor_for_url_and_host_and_believed_for_a_day() {
    let check = |asked: Option<u64>, want| {
        let next = next(Outcome::RateLimited, 0, 0, asked.map(Duration::from_secs), 0, &plain());
        assert_eq!(secs(next), want, "{asked:?}");
    };
    check(None, (Some(3600), Some(60)));
    check(Some(0), (Some(3600), Some(60)));
    check(Some(1_800), (Some(3600), Some(1_800)));
    check(Some(7_200), (Some(7_200), Some(7_200)));
    check(Some(10 * 365 * 86_400), (Some(86_400), Some(86_400)));
}

#[test]
fn pol_04_a_host_that_keeps_failing_rests_longer_each_time_up_to_an_hour() {
    let rests: Vec<_> = (0..9)
        .map(|failures| secs(next(Outcome::Unavailable, 0, failures, None, 0, &plain())).1.unwrap())
        .collect();
    assert_eq!(rests, [60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]);
}

#[test]
fn dns_01_a_dead_name_rests_the_host_and_not_only_the_url() {
    for outcome in [Outcome::DnsNxdomain, Outcome::ConnectRefused, Outcome::TlsUntrusted] {
        assert_eq!(secs(next(outcome, 0, 0, None, 0, &plain())).1, Some(900), "{outcome}");
        assert_eq!(secs(next(outcome, 0, 200, None, 0, &plain())).1, Some(7 * 86_400), "{outcome}");
    }
    for outcome in [Outcome::ServerError, Outcome::Reset, Outcome::BadFraming, Outcome::RedirectLoop] {
        assert_eq!(secs(next(outcome, 0, 9, None, 0, &plain())).1, None, "{outcome} is one URL's own");
    }
}

#[test]
fn dns_01_a_url_does_not_come_back_before_its_host_does() {
    assert_eq!(secs(next(Outcome::DnsNxdomain, 0, 4, None, 0, &plain())), (Some(14_400), Some(14_400)));
}

#[test]
fn what_is_broken_is_tried_twice_more_a_day_apart() {
    let of = |retries| next(Outcome::BadFraming, retries, 0, None, 0, &plain());
    assert_eq!(secs(of(0)).0, Some(86_400));
    assert_eq!(secs(of(1)).0, Some(2 * 86_400));
    assert_eq!(of(2).url, UrlNext::GiveUp);
}

#[test]
fn our_own_faults_count_against_nobody() {
    for outcome in Outcome::ALL.iter().filter(|o| o.action() == Action::Pause) {
        let next = next(*outcome, 200, 200, None, 0, &plain());
        let again = if *outcome == Outcome::StopList { 5 } else { 30 };
        assert_eq!((secs(next), next.retries), ((Some(again), None), 200), "{outcome}");
    }
}

#[test]
fn a_url_is_never_given_up_because_robots_txt_is_away() {
    let next = next(Outcome::RobotsUnreachable, 255, 2, None, 0, &plain());
    assert_eq!((secs(next), next.retries), ((Some(3_600), Some(3_600)), 255));
}

#[test]
fn trp_16_a_challenge_parks_the_host_for_a_day() {
    assert_eq!(secs(next(Outcome::Challenged, 0, 0, None, 0, &plain())), (Some(86_400), Some(86_400)));
}

#[test]
fn every_outcome_has_a_next() {
    for outcome in Outcome::ALL {
        let next = next(*outcome, 0, 0, None, 0, &plain());
        let want = match outcome.action() {
            Action::Keep | Action::Offer | Action::KeepUnread | Action::Done => next.url == UrlNext::Done,
            Action::Never => next.url == UrlNext::Never,
            _ => matches!(next.url, UrlNext::Again { .. }),
        };
        assert!(want, "{outcome}: {next:?}");
        assert_eq!(
            outcome.action() == Action::BackOffHost,
            next.host_rest.is_some() && !is_about_the_host(*outcome),
            "{outcome}"
        );
    }
}

#[test]
fn what_failed_together_does_not_come_back_together() {
    let settings = Settings::default();
    let waits: std::collections::BTreeSet<_> = (0..1_000)
        .map(|salt| secs(next(Outcome::Unavailable, 0, 0, None, salt, &settings)).0.unwrap())
        .collect();
    assert!(waits.len() > 300, "{} different seconds", waits.len());
    assert!(*waits.first().unwrap() < 3_620 && *waits.last().unwrap() > 3_940, "spread over the whole tenth");
}

#[test]
fn settings_with_a_slip_are_refused() {
    assert!(serde_json::from_str::<Settings>(r#"{"retry_max": 5}"#).is_err());
    let settings: Settings = serde_json::from_str(r#"{"back_off_first": "2h"}"#).unwrap();
    assert_eq!(settings.back_off_first, 2 * HOUR);
    let text = serde_json::to_string(&settings).unwrap();
    assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), settings);
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop::sample::select(Outcome::ALL)
}

fn settings() -> impl Strategy<Value = Settings> {
    let wait = || (0..10_000_000u64).prop_map(Duration::from_millis);
    (wait(), wait(), wait(), 0..5u32, wait(), wait(), wait(), wait(), 0..=255u8).prop_map(
        |(first, other, broken, factor, max, rest, rest_max, cap, jitter)| Settings {
            retries_max: 255,
            retries_broken_max: 255,
            back_off_first: first,
            back_off_other_first: other,
            back_off_broken_first: broken,
            back_off_factor: factor,
            back_off_max: max,
            host_rest_first: rest,
            host_rest_max: rest_max,
            retry_after_max: cap,
            jitter_percent: jitter,
            ..Settings::default()
        },
    )
}

fn after(next: Next) -> Option<Duration> {
    match next.url {
        UrlNext::Again { after } => Some(after),
        _ => None,
    }
}

proptest! {
    #[test]
    fn waits_never_get_shorter_with_more_failures(
        outcome in outcome(), a in 0..255u8, b in 0..255u8, failures: u8, more: u8, asked: Option<u16>, salt: u64,
        settings in settings(),
    ) {
        let asked = asked.map(|secs| Duration::from_secs(secs.into()));
        let (few, many) = (a.min(b), a.max(b));
        let low = next(outcome, few, failures.min(more), asked, salt, &settings);
        let high = next(outcome, many, failures.max(more), asked, salt, &settings);
        prop_assert!(after(low) <= after(high), "{low:?} {high:?}");
        prop_assert!(low.host_rest <= high.host_rest, "{low:?} {high:?}");
    }

    #[test]
    fn nobody_comes_back_before_the_site_allows(
        outcome in outcome(), retries: u8, failures: u8, asked: Duration, salt: u64, settings in settings(),
    ) {
        let next = next(outcome, retries, failures, Some(asked), salt, &settings);
        let floor = asked.min(settings.retry_after_max);
        if outcome.action() != Action::Pause {
            prop_assert!(after(next).is_none_or(|wait| wait >= floor));
        }
        prop_assert!(next.host_rest.is_none_or(|rest| rest >= floor));
        prop_assert_eq!(
            next.host_rest.is_some(), outcome.action() == Action::BackOffHost || is_about_the_host(outcome)
        );
    }

    #[test]
    fn every_wait_is_bounded(
        outcome in outcome(), retries: u8, failures: u8, asked: Option<Duration>, salt: u64, settings in settings(),
    ) {
        let next = next(outcome, retries, failures, asked, salt, &settings);
        let longest = [
            settings.back_off_max, settings.host_rest_max, settings.retry_after_max, settings.challenge_rest,
            settings.pause,
        ].into_iter().max().unwrap();
        let bound = longest + longest * u32::from(settings.jitter_percent.min(100)) / 100;
        prop_assert!(after(next).is_none_or(|wait| wait <= bound));
        prop_assert!(next.host_rest.is_none_or(|rest| rest <= bound));
        prop_assert!(next.retries <= retries.saturating_add(1));
    }

    #[test]
    fn no_settings_and_no_failure_count_overflow(
        outcome in outcome(), retries: u8, failures: u8, asked: Option<Duration>, salt: u64, factor: u32,
        long: Duration,
    ) {
        let settings = Settings {
            back_off_factor: factor, back_off_first: long, back_off_max: Duration::MAX, retry_after_max: long,
            host_rest_max: Duration::MAX, pause: long, jitter_percent: 255, ..Settings::default()
        };
        next(outcome, retries, failures, asked, salt, &settings);
    }
}
