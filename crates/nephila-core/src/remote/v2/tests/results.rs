//! Which results are believed.

use super::*;

/// A pool with two spiders; the first has URL 7.
fn two() -> (Bench, u64) {
    let mut bench = bench();
    let session = bench.spider(0, 1, 10, 0);
    bench.ask(0, 7, 1, 1);
    bench.spider(0, 2, 10, 0);
    assert_eq!(bench.fetches(), [(1, 7)]);
    (bench, session)
}

/// The spider has broken the rules: it is told, its session does not go on, and its URL waits for the end of the lease.
fn is_refused(bench: &mut Bench, session: u64, why: &str) {
    let sent = bench.sent();
    let Some((1, Frame::Error { code: Code::Result, text })) = sent.last() else { panic!("{sent:?}") };
    assert!(text.contains(why), "{text}");
    assert_eq!(bench.closed, [1], "{text}");
    assert_eq!((bench.ends.len(), bench.pool.counters().bad_results), (0, 1), "{text}");
    assert_ne!(bench.spider(1_000, 3, 10, session), session, "{text}");
    bench.beat(10_000, 2);
    bench.beat(10_000, 3);
    bench.tick(LEASE - 1);
    assert_eq!(bench.ends.len(), 0, "{text}");
    bench.tick(LEASE);
    assert_eq!(bench.lost(), [(7, Lost::Silent)], "{text}");
}

#[test]
fn stored_is_said_when_the_result_is_durable() {
    let (mut bench, session) = two();
    bench.result(1, 1, 7);
    assert_eq!((bench.came(), bench.sent()), (vec![7], vec![]));
    bench.pool.stored(7, session, true);
    bench.pool.stored(7, session, true);
    bench.drain();
    assert_eq!(bench.sent(), [(1, Frame::Stored { ids: vec![7] })]);
}

#[test]
fn a_result_that_cannot_be_stored_is_forgotten_by_its_spider() {
    let (mut bench, session) = two();
    bench.result(1, 1, 7);
    bench.pool.stored(7, session, false);
    bench.drain();
    assert_eq!(bench.sent(), [(1, Frame::Cancel { id: 7 })]);
}

#[test]
fn a_second_result_is_nobodys() {
    let (mut bench, _) = two();
    bench.result(1, 1, 7);
    bench.result(2, 1, 7);
    assert_eq!(bench.came(), [7]);
    assert_eq!((&bench.bodies[&7][..], bench.pool.counters().unknown), (&b"body"[..], 2));
    assert!(bench.closed.is_empty());
}

#[test]
fn a_result_that_begins_twice_is_refused() {
    let (mut bench, session) = two();
    let [done, _] = result(7, b"body");
    bench.frame(1, 1, done.clone());
    bench.frame(2, 1, done);
    is_refused(&mut bench, session, "second result");
}

#[test]
fn a_result_for_the_url_of_another_spider_is_nobodys() {
    let (mut bench, _) = two();
    let [done, end] = result(7, b"true");
    bench.frame(1, 1, done);
    for frame in result(7, b"false") {
        bench.frame(2, 2, frame);
    }
    bench.frame(2, 2, Frame::Return { id: 7 });
    bench.frame(2, 2, Frame::Data { id: 7, bytes: b"false".as_slice().into() });
    assert_eq!((bench.ends.len(), bench.pool.counters().unknown), (0, 4));
    bench.frame(3, 1, end);
    assert_eq!((bench.came(), &bench.bodies[&7][..]), (vec![7], &b"true"[..]));
}

#[test]
fn a_result_of_another_length_is_refused() {
    let (mut bench, session) = two();
    let [Frame::Done { id, facts, body, start }, end] = result(7, b"body") else { panic!() };
    bench.frame(1, 1, Frame::Done { id, facts, body: body + 1, start });
    bench.frame(1, 1, end);
    is_refused(&mut bench, session, "shorter");

    let (mut bench, session) = two();
    let [Frame::Done { id, facts, body, start }, _] = result(7, b"body") else { panic!() };
    bench.frame(1, 1, Frame::Done { id, facts, body: body - 1, start });
    is_refused(&mut bench, session, "longer");

    let (mut bench, session) = two();
    let [Frame::Done { id, start, .. }, end] = result(7, b"body") else { panic!() };
    let facts = start.len() as u32 + 1;
    bench.frame(1, 1, Frame::Done { id, facts, body: 0, start });
    bench.frame(1, 1, end);
    is_refused(&mut bench, session, "shorter");
}

#[test]
fn a_result_with_another_check_is_refused() {
    let (mut bench, session) = two();
    let [done, Frame::End { id, check }] = result(7, b"body") else { panic!() };
    bench.frame(1, 1, done);
    bench.frame(1, 1, Frame::End { id, check: check ^ 1 });
    is_refused(&mut bench, session, "check");
}

#[test]
fn facts_that_cannot_be_read_are_refused() {
    let (mut bench, session) = two();
    let start = b"nonsense".as_slice();
    bench.frame(1, 1, Frame::Done { id: 7, facts: 8, body: 0, start: start.into() });
    bench.frame(1, 1, Frame::End { id: 7, check: xxh3_64(start) });
    is_refused(&mut bench, session, "cannot be read");
}

#[test]
fn a_body_over_the_limit_is_refused_before_it_comes() {
    let (mut bench, session) = two();
    let body = Settings::default().body_bytes_max + 1;
    bench.frame(1, 1, Frame::Done { id: 7, facts: 1, body, start: b"".as_slice().into() });
    is_refused(&mut bench, session, "too long");
}

#[test]
fn a_url_that_is_returned_in_the_middle_of_its_result_is_refused() {
    let (mut bench, session) = two();
    let [done, _] = result(7, b"body");
    bench.frame(1, 1, done);
    bench.frame(2, 1, Frame::Return { id: 7 });
    is_refused(&mut bench, session, "in the middle");
}

#[test]
fn frames_of_a_node_are_refused() {
    let (mut bench, session) = two();
    bench.frame(1, 1, Frame::Window { bytes: 1 });
    is_refused(&mut bench, session, "does not send");
}

#[test]
fn a_window_is_kept_and_told_of_by_halves() {
    let (mut bench, session) = two();
    let window = Settings::default().window_bytes;
    let facts = facts_of("7").to_bytes();
    let body = window + window / 2;
    let start = facts.clone().into();
    bench.frame(1, 1, Frame::Done { id: 7, facts: facts.len() as u32, body, start });
    let data = |len: u64| Frame::Data { id: 7, bytes: vec![5; len as usize].into() };
    bench.frame(1, 1, data(window / 2 - facts.len() as u64 - 1));
    assert_eq!(bench.sent(), []);
    bench.frame(1, 1, data(1));
    assert_eq!(bench.sent(), [(1, Frame::Window { bytes: window / 2 })]);
    bench.frame(1, 1, data(window + 1));
    is_refused(&mut bench, session, "window");
}

#[test]
fn bytes_of_nobodys_results_count_as_well() {
    let (mut bench, session) = two();
    let window = Settings::default().window_bytes;
    bench.frame(1, 1, Frame::Data { id: 99, bytes: vec![5; window as usize + 1].into() });
    is_refused(&mut bench, session, "window");
}
