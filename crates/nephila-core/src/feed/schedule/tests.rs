//! The schedule against models that keep a list of everything, and one property at a time.

mod model;

use proptest::prelude::*;

use super::*;
use crate::feed::Hints;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const START: u64 = 1_794_830_400_000;

fn read(new: u32, entries: u32) -> PollAnswer {
    PollAnswer::Read { entries, new, oldest_new: None, dated_gap: None }
}

fn adaptive() -> Settings {
    Settings { rule: Rule::Adaptive, spread_percent: 0, ..Settings::default() }
}

/// Polls as planned, each with the next of these answers, and returns the waits in minutes.
fn waits(settings: &Settings, polls: impl IntoIterator<Item = Poll>) -> Vec<u64> {
    let (mut history, mut now) = (History::default(), START);
    let mut waits = Vec::new();
    for poll in polls {
        let plan = history.handle_poll(&Poll { at: Timestamp(now), ..poll }, settings, 0);
        let Some(due) = plan.due else { break };
        waits.push((due.0 - now) / MINUTE);
        now = due.0;
    }
    waits
}

fn answers(answers: &[PollAnswer]) -> impl Iterator<Item = Poll> {
    answers.iter().map(|answer| Poll::new(Timestamp(0), *answer))
}

#[test]
fn five_minutes_after_a_story_then_doubling_up_to_a_week() {
    let mut list = vec![read(1, 10)];
    list.extend(
        [PollAnswer::NotModified, PollAnswer::Redundant, read(0, 10), PollAnswer::Failed]
            .iter()
            .cycle()
            .take(13),
    );
    list.push(read(2, 10));
    let week = 7 * 24 * 60;
    assert_eq!(
        waits(&Settings::default(), answers(&list)),
        [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 5_120, week, week, week, 5]
    );
}

#[test]
fn fee_12_a_feed_in_another_order_backs_off() {
    assert_eq!(
        waits(&Settings::default(), answers(&[read(3, 3), PollAnswer::Redundant, PollAnswer::Redundant])),
        [5, 10, 20]
    );
}

#[test]
fn fee_13_a_server_that_always_sends_everything_is_backed_off_from_by_its_urls() {
    // No validators: the shortest wait is the longer one.
    let polls = (0..40)
        .map(|n| Poll::new(Timestamp(0), if n % 2 == 0 { read(1, 20) } else { PollAnswer::Redundant }));
    assert!(waits(&adaptive(), polls.clone()).iter().all(|wait| *wait >= 30));
    let quick = polls.map(|poll| Poll { validators: true, answer: read(3, 20), ..poll });
    assert!(waits(&adaptive(), quick).contains(&5));
}

#[test]
fn fee_13_a_304_is_believed_for_a_week_and_not_after_it_hid_stories() {
    let settings = Settings::default();
    let mut history = History::default();
    let mut now = START;
    let mut lies = 0;
    let mut full_at = START;
    let first = Poll { validators: true, ..Poll::new(Timestamp(now), read(5, 10)) };
    let mut plan = history.handle_poll(&first, &settings, 0);
    for _ in 0..200 {
        let due = plan.due.unwrap().0;
        assert!(plan.conditional == (lies < 2 && due - full_at < 7 * DAY));
        now = due;
        // The server says 304 to every conditional request; a story from a day before lies behind it.
        let answer = if plan.conditional {
            PollAnswer::NotModified
        } else {
            (lies, full_at) = (lies + 1, now);
            PollAnswer::Read {
                entries: 10,
                new: 1,
                oldest_new: Some(Timestamp(now - 5 * DAY)),
                dated_gap: None,
            }
        };
        let poll =
            Poll { validators: true, conditional: plan.conditional, ..Poll::new(Timestamp(now), answer) };
        plan = history.handle_poll(&poll, &settings, 0);
        if lies > 20 {
            break;
        }
    }
    assert!(lies > 2 && !plan.conditional);
}

#[test]
fn fee_15_a_dead_feed_is_asked_once_a_week_and_found_again() {
    let mut history = History::default();
    let settings = Settings::default();
    let mut now = START;
    let mut polls = 0;
    history.handle_poll(&Poll::new(Timestamp(now), read(1, 5)), &settings, 0);
    while now < START + 365 * DAY {
        let plan = history.handle_poll(&Poll::new(Timestamp(now), PollAnswer::Failed), &settings, 0);
        now = plan.due.expect("never dropped").0;
        polls += 1;
    }
    assert!((52..=66).contains(&polls), "{polls}");
    assert!(
        matches!(history.health(), Health::Failing { since: Timestamp(START), .. }),
        "{:?}",
        history.health()
    );
    let plan = history.handle_poll(&Poll::new(Timestamp(now), read(1, 5)), &settings, 0);
    assert_eq!((plan.due, plan.why), (Some(Timestamp(now + 5 * MINUTE)), PollReason::NewStory));
    assert_eq!(history.health(), Health::Learning);
}

#[test]
fn fee_15_gone_is_believed_the_third_time() {
    let list = [
        read(1, 5),
        PollAnswer::Gone,
        PollAnswer::Gone,
        PollAnswer::NotModified,
        PollAnswer::Gone,
        PollAnswer::Gone,
        PollAnswer::Gone,
    ];
    assert_eq!(waits(&Settings::default(), answers(&list)).len(), 6);
    let mut history = History::default();
    let gone = Poll::new(Timestamp(START), PollAnswer::Gone);
    let plans = [(); 3].map(|()| history.handle_poll(&gone, &adaptive(), 0));
    assert_eq!((plans[2].due, plans[2].why, history.health()), (None, PollReason::Gone, Health::Gone));
}

#[test]
fn fee_16_a_move_is_believed_the_third_time_to_the_same_place() {
    let mut history = History::default();
    let mut adopted = Vec::new();
    for (to, answer) in [
        (Some(1), read(1, 5)),
        (Some(1), read(0, 5)),
        (Some(2), read(0, 5)),
        (Some(2), read(0, 5)),
        (None, PollAnswer::Failed),
        (Some(2), read(0, 5)),
        (None, read(0, 5)),
        (Some(3), read(0, 5)),
        (Some(3), read(0, 5)),
        (None, read(0, 5)),
        (Some(3), read(0, 5)),
    ] {
        let poll = Poll { moved_to: to, ..Poll::new(Timestamp(START), answer) };
        adopted.push(history.handle_poll(&poll, &Settings::default(), 0).adopt_move);
    }
    assert_eq!(adopted.iter().position(|adopt| *adopt), Some(5));
    assert_eq!(adopted.iter().filter(|adopt| **adopt).count(), 1);
}

#[test]
fn fee_19_what_a_feed_asks_for_is_the_least_it_gets_within_reason() {
    let hours = |hours: u64| Some(Duration::from_secs(3_600 * hours));
    let poll = Poll { validators: true, ..Poll::new(Timestamp(START), read(1, 5)) };
    let wait = |poll: Poll| waits(&adaptive(), [poll, poll])[1] / 60;
    assert_eq!(wait(Poll { hints: Hints { ttl: hours(5), update_period: None }, ..poll }), 5);
    assert_eq!(wait(Poll { hints: Hints { ttl: hours(5), update_period: hours(7) }, ..poll }), 7);
    assert_eq!(
        wait(Poll { max_age: hours(9), hints: Hints { ttl: hours(5), update_period: None }, ..poll }),
        9
    );
    assert_eq!(wait(Poll { hints: Hints { ttl: hours(24 * 365), update_period: None }, ..poll }), 24);
    // The seed's rule takes no hints, but both keep to Retry-After, within a day.
    let later = Poll { retry_after: hours(3), answer: PollAnswer::Failed, ..poll };
    assert_eq!(waits(&Settings::default(), [later]), [180]);
    assert_eq!(waits(&Settings::default(), [Poll { retry_after: hours(999), ..later }]), [24 * 60]);
}

#[test]
fn a_feed_silent_against_its_rhythm_is_quiet_and_others_are_not() {
    let settings = Settings::default();
    // Five stories a day on weekdays, for four weeks; then nothing.
    let publishes = |at: u64| (at / DAY + 3) % 7 < 5 && at < START + 28 * DAY;
    let mut history = History::default();
    let (mut now, mut seen) = (START, START);
    let mut quiet_at = None;
    while now < START + 60 * DAY {
        let new = (seen / HOUR + 1..=now / HOUR)
            .filter(|h| publishes(h * HOUR) && [8, 10, 12, 15, 18].contains(&(h % 24)))
            .count();
        seen = now;
        let plan = history.handle_poll(&Poll::new(Timestamp(now), read(new as u32, 30)), &settings, 0);
        if let Health::Quiet { usual, silent } = history.health() {
            quiet_at.get_or_insert(now);
            assert!(usual < Duration::from_secs(3 * 86_400) && silent > usual);
        }
        now = plan.due.unwrap().0;
    }
    let days = (quiet_at.expect("it was reported") - START) / DAY;
    assert!((29..45).contains(&days), "weekends are its rhythm, four weeks of nothing are not: {days}");
}

#[test]
fn feeds_that_began_together_drift_apart() {
    let settings = Settings { rule: Rule::Adaptive, ..Settings::default() };
    let dues: std::collections::BTreeSet<_> = (0..100u64)
        .map(|feed| {
            let mut history = History::default();
            history.handle_poll(&Poll::new(Timestamp(START), read(5, 10)), &settings, feed * 7_919).due
        })
        .collect();
    assert!(dues.len() > 90);
}

/// The answer, new stories, entries, validators, ttl, `Retry-After`, a move, and the delay of the poll.
type AnyPoll = (u8, u32, u32, bool, Option<u32>, Option<u32>, Option<u64>, u32);

fn any_poll() -> impl Strategy<Value = AnyPoll> {
    (
        0u8..6,
        0u32..50,
        0u32..100,
        any::<bool>(),
        prop::option::of(any::<u32>()),
        prop::option::of(any::<u32>()),
        prop::option::of(0u64..3),
        any::<u32>(),
    )
}

proptest! {
    #[test]
    fn every_wait_is_within_its_bounds_and_what_is_stored_goes_on_the_same(
        polls in prop::collection::vec(any_poll(), 1..60),
        spread: u64,
        rule in prop::sample::select(vec![Rule::Doubling, Rule::Adaptive]),
    ) {
        let settings = Settings { rule, ..Settings::default() };
        let mut history = History::default();
        let mut now = START;
        for (kind, new, entries, validators, ttl, after, moved_to, late) in polls {
            let answer = match kind {
                0 => PollAnswer::NotModified,
                1 => PollAnswer::Redundant,
                2 => PollAnswer::Failed,
                3 if late.is_multiple_of(5) => PollAnswer::Gone,
                _ => read(new.min(entries), entries),
            };
            let secs = |s: Option<u32>| s.map(|s| Duration::from_secs(u64::from(s)));
            let poll = Poll {
                validators, retry_after: secs(after), moved_to,
                hints: Hints { ttl: secs(ttl), update_period: None },
                ..Poll::new(Timestamp(now), answer)
            };
            let mut stored = History::from_bytes(&history.to_bytes()).unwrap();
            let plan = history.handle_poll(&poll, &settings, spread);
            prop_assert_eq!(plan, stored.handle_poll(&poll, &settings, spread));
            prop_assert_eq!(&history, &stored);
            let Some(due) = plan.due else { break };
            let wait = Duration::from_millis(due.0 - now);
            prop_assert!(wait >= settings.interval_min && wait <= settings.interval_max);
            if rule == Rule::Adaptive && !plan.conditional && !validators {
                prop_assert!(wait >= settings.interval_min_unvalidated);
            }
            if let Some(after) = poll.retry_after {
                prop_assert!(wait >= after.min(settings.retry_after_max));
            }
            now = due.0 + u64::from(late % 100_000);
        }
    }
}
