//! Requests that keep and break promises, a few at a time.

use super::*;

fn line(at: u64, took_ms: u64, host: &str, address: &str) -> Line {
    Line {
        at,
        took_ms,
        origin: format!("http://{host}"),
        url: format!("http://{host}/{at}"),
        address: Some(address.parse().unwrap()),
        host_rest_ms: 2_000,
        slot_rest_ms: 500,
        outcome: "ok".into(),
        robots_obeyed: true,
        ..Line::default()
    }
}

fn judged(lines: &[Line]) -> Judged {
    let mut judge = Judge::new(1, 2);
    lines.iter().for_each(|line| judge.line(line));
    judge.finish()
}

fn kinds(judged: &Judged) -> Vec<(Kind, u64)> {
    judged.exceptions.iter().map(|exception| (exception.kind, exception.had)).collect()
}

#[test]
fn a_rest_counts_from_the_end_to_the_next_beginning() {
    let clean = [line(0, 100, "a.test", "127.0.0.1"), line(2_100, 50, "a.test", "127.0.0.1")];
    let found = judged(&clean);
    assert!(found.is_clean());
    assert_eq!((found.hosts[0].rest_ms_min, found.hosts[0].apart_ms_min), (Some(2_000), Some(2_100)));
    assert_eq!(found.histogram[1], 1, "exactly what was promised");
    let rounded = [line(0, 100, "a.test", "127.0.0.1"), line(2_099, 50, "a.test", "127.0.0.1")];
    assert!(judged(&rounded).is_clean(), "a millisecond is the rounding of the log");
    let short = [line(0, 100, "a.test", "127.0.0.1"), line(2_098, 50, "a.test", "127.0.0.1")];
    let found = judged(&short);
    assert_eq!(kinds(&found), [(Kind::HostRest, 1_998)]);
    assert_eq!(found.exceptions[0].after.as_deref(), Some("http://a.test/0"));
    assert_eq!(found.histogram[0], 1);
}

#[test]
fn two_requests_of_a_host_at_once_are_seen_whichever_ends_first() {
    // The long one is logged last, though it began first.
    let lines = [line(3_000, 10, "a.test", "127.0.0.1"), line(0, 9_000, "a.test", "127.0.0.1")];
    assert_eq!(kinds(&judged(&lines)), [(Kind::HostAtOnce, 2)]);
    let lines = [line(0, 9_000, "a.test", "127.0.0.1"), line(3_000, 10, "a.test", "127.0.0.1")];
    assert_eq!(kinds(&judged(&lines)), [(Kind::HostAtOnce, 2)]);
}

#[test]
fn hosts_on_one_address_share_its_rest() {
    let lines = [line(0, 100, "a.test", "127.0.0.1"), line(400, 10, "b.test", "127.0.0.1")];
    assert_eq!(kinds(&judged(&lines)), [(Kind::SlotRest, 300)]);
    let lines = [line(0, 100, "a.test", "::1"), line(400, 10, "b.test", "::2")];
    assert_eq!(kinds(&judged(&lines)), [(Kind::SlotRest, 300)], "64 bits are one address");
    let lines = [line(0, 100, "a.test", "127.0.0.1"), line(400, 10, "b.test", "127.0.0.2")];
    assert!(judged(&lines).is_clean());
}

#[test]
fn an_address_may_have_two_at_once_if_they_begin_apart() {
    let two = [line(0, 5_000, "a.test", "127.0.0.1"), line(500, 100, "b.test", "127.0.0.1")];
    assert!(judged(&two).is_clean());
    let close = [line(0, 5_000, "a.test", "127.0.0.1"), line(300, 100, "b.test", "127.0.0.1")];
    assert_eq!(kinds(&judged(&close)), [(Kind::SlotRest, 300)]);
    let three = [
        line(0, 5_000, "a.test", "127.0.0.1"),
        line(500, 5_000, "b.test", "127.0.0.1"),
        line(1_000, 10, "c.test", "127.0.0.1"),
    ];
    assert_eq!(kinds(&judged(&three)), [(Kind::SlotAtOnce, 3)]);
}

#[test]
fn what_was_not_sent_is_no_request() {
    let mut denied = line(10, 0, "a.test", "127.0.0.1");
    denied.address = None;
    denied.outcome = "robots-denied".into();
    let found = judged(&[line(0, 5, "a.test", "127.0.0.1"), denied]);
    assert!(found.is_clean());
    assert_eq!((found.requests, found.hosts[0].robots_denied), (1, 1));
}

#[test]
fn a_long_log_forgets_and_still_judges() {
    let mut judge = Judge::new(1, 2);
    for n in 0..SWEEP_LINES + 10 {
        judge.line(&line(n * 2_100, 100, "a.test", "127.0.0.1"));
    }
    assert!(judge.hosts["http://a.test"].window.len() <= WINDOW_MAX);
    // Long after everything was swept.
    judge.line(&line((SWEEP_LINES + 9) * 2_100 + 1_000, 100, "a.test", "127.0.0.1"));
    let found = judge.finish();
    assert_eq!(kinds(&found), [(Kind::HostRest, 900)]);
    assert_eq!(found.requests, SWEEP_LINES + 11);
}

#[test]
fn pro_03_a_second_try_without_a_rest_is_a_promise_that_was_not_kept() {
    // As earlier versions wrote it: one line for two requests.
    let mut twice = line(0, 100, "a.test", "127.0.0.1");
    twice.requests = 2;
    let found = judged(&[twice]);
    assert_eq!(kinds(&found), [(Kind::HostRest, 0), (Kind::SlotRest, 0)]);
    assert_eq!((found.requests, found.repeated, found.hosts[0].exceptions), (2, 1, 1));
    // As it is written now: a line for each.
    let lines = [line(0, 100, "a.test", "127.0.0.1"), line(105, 10, "a.test", "127.0.0.1")];
    assert_eq!(kinds(&judged(&lines)), [(Kind::HostRest, 5), (Kind::SlotRest, 5)]);
    let rested = [line(0, 100, "a.test", "127.0.0.1"), line(2_100, 10, "a.test", "127.0.0.1")];
    assert!(judged(&rested).is_clean());
}
