//! Sessions, leases, shares of addresses, and who gets which URL.

use std::time::Duration;

use super::*;

#[test]
fn a_spider_gets_urls_after_its_first_beat() {
    let mut bench = bench();
    bench.ask(0, 1, 1, 1);
    bench.hello(0, 1, 10, 0);
    assert_eq!(bench.fetches(), [], "it has no lease, and would return it");
    bench.beat(5, 1);
    let sent: Vec<Frame> = bench.sent.iter().map(|(_, frame)| frame.clone()).collect();
    assert_eq!(sent[0], Frame::Lease { number: 1, ms: LEASE }, "the lease comes first");
    assert_eq!(bench.fetches(), [(1, 1)]);
}

#[test]
fn a_spider_that_is_back_in_time_goes_on_and_sends_its_result_from_the_beginning() {
    let mut bench = bench();
    let session = bench.spider(0, 1, 10, 0);
    bench.ask(0, 7, 1, 1);
    bench.ask(0, 8, 2, 1);
    let [done, end] = result(7, b"whole");
    bench.frame(1, 1, done.clone());
    assert_eq!(bench.bodies[&7], b"whole");
    bench.pool.closed(2, 1);
    assert_eq!(bench.spider(LEASE - 1, 2, 10, session), session);
    assert_eq!(bench.welcome(), (session, Some(vec![7, 8])));
    assert_eq!(bench.bodies[&7], b"", "what came before is forgotten");
    bench.frame(LEASE, 2, done);
    bench.frame(LEASE, 2, end);
    assert_eq!((bench.came(), &bench.bodies[&7][..]), (vec![7], &b"whole"[..]));
    assert_eq!(bench.pool.counters().resumed, 1);
}

#[test]
fn urls_of_a_silent_spider_are_lost_when_its_lease_has_lapsed_and_not_before() {
    let mut bench = bench();
    let session = bench.spider(0, 1, 10, 0);
    bench.ask(0, 7, 1, 1);
    bench.beat(4_000, 1);
    bench.pool.closed(5_000, 1);
    assert_eq!(bench.pool.next(), Some(4_000 + LEASE));
    bench.tick(4_000 + LEASE - 1);
    assert_eq!(bench.lost(), []);
    bench.tick(4_000 + LEASE);
    assert_eq!(bench.lost(), [(7, Lost::Silent)]);
    assert_ne!(bench.spider(4_000 + LEASE, 2, 10, session), session, "the session has ended");
    assert_eq!(bench.welcome().1, None);
    assert_eq!(bench.pool.spiders().count(), 1);
}

#[test]
fn a_connection_that_nobody_has_closed_is_closed_when_the_spider_is_back_on_another() {
    let mut bench = bench();
    let session = bench.spider(0, 1, 10, 0);
    bench.ask(0, 7, 1, 1);
    bench.spider(1_000, 2, 10, session);
    assert_eq!(bench.closed, [1]);
    bench.result(1_001, 1, 7);
    assert!(bench.came().is_empty(), "the old connection has no say");
    bench.pool.closed(1_002, 1);
    bench.result(1_003, 2, 7);
    assert_eq!(bench.came(), [7]);
}

#[test]
fn another_name_does_not_get_a_session() {
    let mut bench = bench();
    let session = bench.spider(0, 1, 10, 0);
    let hello = Hello { name: Arc::from("two"), capacity: 10, session };
    bench.pool.hello(1, 2, hello, 77, "{}");
    bench.drain();
    assert_eq!(bench.welcome(), (77, None));
}

#[test]
fn one_spider_too_many_is_told_so() {
    let mut bench = bench_of(Settings { sessions_max: 1, ..Settings::default() }, None);
    let session = bench.spider(0, 1, 10, 0);
    bench.hello(1, 2, 10, 0);
    assert!(matches!(bench.sent().last(), Some((2, Frame::Error { code: Code::Full, .. }))));
    assert_eq!(bench.closed, [2]);
    assert_eq!(bench.spider(2, 3, 10, session), session, "one that is back is not one more");
}

#[test]
fn a_url_that_is_returned_is_sent_again_after_the_next_beat_and_lost_after_four_times() {
    let mut bench = bench();
    let sends_max = Settings::default().sends_max;
    bench.spider(0, 1, 10, 0);
    bench.ask(0, 7, 1, 1);
    for time in 1..=u64::from(sends_max) {
        assert_eq!(bench.fetches(), [(1, 7)], "time {time}");
        bench.frame(time * SECOND, 1, Frame::Return { id: 7 });
        assert_eq!(bench.fetches(), [], "it would return it at once");
        bench.beat(time * SECOND + 500, 1);
    }
    assert_eq!(bench.lost(), [(7, Lost::Returned)]);
    assert_eq!((bench.pool.open(), bench.pool.counters().returned), (0, u64::from(sends_max)));
}

#[test]
fn a_url_that_is_returned_goes_to_another_spider_at_once() {
    let mut bench = bench();
    bench.spider(0, 1, 10, 0);
    bench.ask(0, 7, 1, 0);
    bench.spider(0, 2, 10, 0);
    assert_eq!(bench.fetches(), [(1, 7)]);
    bench.frame(1, 1, Frame::Return { id: 7 });
    assert_eq!(bench.fetches(), [(2, 7)]);
}

#[test]
fn an_ask_is_cancelled_while_it_waits() {
    let mut bench = bench();
    bench.ask(0, 7, 1, 1);
    bench.pool.cancel(1, 7);
    bench.spider(2, 1, 10, 0);
    assert_eq!((bench.fetches(), bench.pool.open()), (vec![], 0));
}

#[test]
fn an_ask_that_is_cancelled_at_a_spider_keeps_its_connection_until_the_spider_says() {
    let mut bench = bench();
    bench.spider(0, 1, 1, 0);
    bench.spider(0, 2, 1, 0);
    bench.ask(0, 7, 1, 1);
    bench.ask(0, 8, 1, 1);
    assert_eq!(bench.fetches(), [(1, 7)]);
    bench.pool.cancel(1, 7);
    bench.pool.cancel(1, 7);
    bench.drain();
    assert_eq!(bench.sent(), [(1, Frame::Cancel { id: 7 })]);
    bench.frame(2, 1, Frame::Return { id: 7 });
    assert_eq!(bench.fetches(), [(1, 8)], "the address is still that spider's");
    assert_eq!((bench.ends.len(), bench.pool.counters().cancelled), (0, 1));
}

#[test]
fn an_ask_that_is_cancelled_at_the_moment_when_the_lease_lapses_does_not_end() {
    let mut bench = bench();
    bench.spider(0, 1, 1, 0);
    bench.ask(0, 7, 1, 1);
    bench.pool.cancel(LEASE, 7);
    bench.drain();
    assert_eq!((bench.ends.len(), bench.pool.open(), bench.pool.spiders().count()), (0, 0, 0));
}

#[test]
fn a_spider_hears_of_what_was_cancelled_while_it_was_away() {
    let mut bench = bench();
    let session = bench.spider(0, 1, 2, 0);
    bench.ask(0, 7, 1, 1);
    bench.ask(0, 8, 2, 1);
    bench.pool.closed(1, 1);
    bench.pool.cancel(2, 7);
    bench.drain();
    bench.sent.clear();
    bench.spider(3, 2, 2, session);
    assert_eq!(bench.welcome(), (session, Some(vec![7, 8])));
    assert!(matches!(
        bench.sent[..],
        [(2, Frame::Welcome { .. }), (2, Frame::Cancel { id: 7 }), (2, Frame::Lease { .. })]
    ));
}

#[test]
fn a_result_of_a_cancelled_ask_is_nobodys() {
    let mut bench = bench();
    bench.spider(0, 1, 1, 0);
    bench.ask(0, 7, 1, 1);
    let [done, end] = result(7, b"body");
    bench.pool.cancel(1, 7);
    bench.frame(2, 1, done);
    assert!(bench.bodies.is_empty());
    bench.sent.clear();
    bench.frame(3, 1, end);
    assert_eq!(bench.sent(), [(1, Frame::Cancel { id: 7 })], "the spider may forget it");
    assert_eq!((bench.ends.len(), bench.pool.open()), (0, 0));
}

#[test]
fn a_spider_that_says_bye_is_gone_at_once() {
    let mut bench = bench();
    let session = bench.spider(0, 1, 10, 0);
    bench.ask(0, 7, 1, 1);
    bench.spider(0, 2, 10, 0);
    bench.frame(1, 1, Frame::Bye);
    assert_eq!((bench.lost(), bench.closed.clone()), (vec![(7, Lost::Left)], vec![1]));
    bench.ask(2, 8, 1, 1);
    assert_eq!(bench.fetches(), [(1, 7), (2, 8)], "its connections are closed");
    assert_ne!(bench.spider(3, 3, 10, session), session);
}

#[test]
fn a_spider_holds_as_many_urls_as_it_says() {
    let mut bench = bench();
    bench.spider(0, 1, 2, 0);
    for id in 1..=5 {
        bench.ask(0, id, 1, 0);
    }
    assert_eq!(bench.fetches(), [(1, 1), (1, 2)]);
    bench.frame(1, 1, Frame::Room { capacity: 4 });
    assert_eq!(bench.fetches(), [(1, 3), (1, 4)]);
    bench.frame(2, 1, Frame::Room { capacity: 0 });
    for id in 1..=4 {
        bench.result(3, 1, id);
    }
    assert_eq!(bench.fetches(), []);
    bench.frame(4, 1, Frame::Room { capacity: 1 });
    assert_eq!(bench.fetches(), [(1, 5)]);
}

#[test]
fn an_address_with_one_connection_is_one_spiders_as_long_as_it_may_be_kept() {
    let mut bench = bench();
    let kept_for = Settings::default().kept_for.as_millis() as u64;
    bench.spider(0, 1, 1, 0);
    bench.spider(0, 2, 1, 0);
    bench.ask(0, 1, 1, 1);
    bench.ask(0, 2, 1, 1);
    assert_eq!(bench.fetches(), [(1, 1)], "one at a time");
    bench.ask(0, 3, 9, 1);
    assert_eq!(bench.fetches(), [(2, 3)], "another address is another matter");
    bench.result(1_000, 2, 3);
    bench.result(1_000, 1, 1);
    assert_eq!(bench.fetches(), [(1, 2)], "where the connection is kept");
    bench.result(2_000, 1, 2);
    bench.frame(2_000, 1, Frame::Room { capacity: 0 });
    bench.ask(2_000, 4, 1, 1);
    bench.beat(7_000, 1);
    bench.beat(7_000, 2);
    bench.tick(2_000 + kept_for - 1);
    assert_eq!(bench.fetches(), [], "the first may still keep its connection");
    bench.tick(2_000 + kept_for);
    assert_eq!(
        bench.fetches(),
        [(2, 4)],
        "a spider without room does not hold an address that it does not use"
    );
}

#[test]
fn an_address_with_many_connections_is_shared_out() {
    let mut bench = bench();
    bench.spider(0, 1, 40, 0);
    bench.spider(0, 2, 40, 0);
    for id in 1..=70 {
        bench.ask(0, id, 1, 64);
    }
    let sent = bench.sent();
    let mut most = [0; 2];
    for (connection, frame) in &sent {
        let Frame::Fetch { wanted, .. } = frame else { panic!("{frame:?}") };
        most[*connection as usize - 1] = wanted.connections_max;
    }
    assert_eq!(sent.len(), 64, "as many as the limit, over both");
    assert_eq!(most, [32, 32], "each is told its share");
    bench.result(1, 1, 1);
    assert_eq!(bench.fetches(), [(1, 65)], "on the connection that is kept");
}

#[test]
fn a_share_falls_to_what_is_in_use() {
    let mut bench = bench();
    let kept_for = Settings::default().kept_for.as_millis() as u64;
    bench.spider(0, 1, 2, 0);
    bench.ask(0, 1, 1, 2);
    bench.ask(0, 2, 1, 2);
    bench.spider(0, 2, 2, 0);
    bench.result(1_000, 1, 1);
    bench.frame(1_000, 1, Frame::Room { capacity: 1 });
    bench.ask(1_000, 3, 1, 2);
    assert_eq!(bench.fetches(), [(1, 1), (1, 2)], "the second connection of the first may be kept");
    bench.beat(6_000, 1);
    bench.beat(6_000, 2);
    bench.tick(1_000 + kept_for);
    assert_eq!(bench.fetches(), [(2, 3)]);
}

#[test]
fn a_limit_that_is_lowered_holds_when_the_connections_are_closed() {
    let mut bench = bench();
    let kept_for = Settings::default().kept_for.as_millis() as u64;
    bench.spider(0, 1, 10, 0);
    for id in 1..=3 {
        bench.ask(0, id, 1, 3);
    }
    bench.fetches();
    bench.ask(0, 4, 1, 1);
    bench.beat(5_000, 1);
    for id in 1..=3 {
        bench.result(5_000, 1, id);
    }
    assert_eq!(bench.fetches(), [], "three connections may be open");
    bench.tick(5_000 + kept_for);
    let sent = bench.sent();
    assert!(
        matches!(&sent[..], [(1, Frame::Fetch { id: 4, wanted })] if wanted.connections_max == 1),
        "{sent:?}"
    );
}

#[test]
fn a_session_that_ends_gives_its_share_back() {
    let mut bench = bench();
    bench.spider(0, 1, 10, 0);
    bench.ask(0, 1, 1, 1);
    bench.ask(0, 2, 1, 1);
    bench.spider(10_000, 2, 10, 0);
    assert_eq!(bench.fetches(), [(1, 1)]);
    bench.tick(LEASE);
    assert_eq!((bench.lost(), bench.fetches()), (vec![(1, Lost::Silent)], vec![(2, 2)]));
}

#[test]
fn nothing_is_sent_in_the_quiet_time_at_the_start() {
    let mut bench = bench_of(Settings::default(), Some(LEASE));
    bench.ask(0, 1, 1, 0);
    bench.spider(0, 1, 10, 0);
    bench.beat(10_000, 1);
    assert_eq!((bench.fetches(), bench.pool.next()), (vec![], Some(LEASE)));
    bench.tick(LEASE - 1);
    assert_eq!(bench.fetches(), []);
    bench.tick(LEASE);
    assert_eq!(bench.fetches(), [(1, 1)]);
}

#[test]
fn a_lease_ends_no_later_than_the_nodes_own() {
    let mut bench = bench();
    let session = bench.spider(0, 1, 10, 0);
    let lease = |bench: &mut Bench, now: u64, until: Option<u64>| {
        bench.pool.set_authority(until);
        bench.beat(now, 1);
        match bench.sent.pop() {
            Some((1, Frame::Lease { ms, .. })) => ms,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(lease(&mut bench, 0, Some(100_000)), LEASE);
    assert_eq!(lease(&mut bench, 1_000, Some(5_000)), 4_000);
    assert_eq!(lease(&mut bench, 4_000, Some(5_000)), 1_000);
    bench.ask(4_000, 7, 1, 1);
    assert_eq!(lease(&mut bench, 7_000, Some(5_000)), 0);
    assert_eq!(bench.fetches(), [], "it would be returned");
    bench.tick(7_000 + LEASE - 1);
    assert_eq!(bench.pool.spiders().map(|spider| spider.session).collect::<Vec<_>>(), [session]);
    bench.pool.set_authority(None);
    bench.beat(7_000 + LEASE - 1, 1);
    assert_eq!(bench.fetches(), [(1, 7)]);
}

#[test]
fn more_asks_than_the_limit_are_not_taken() {
    let mut bench = bench_of(Settings { asks_max: 2, ..Settings::default() }, None);
    bench.ask(0, 1, 1, 1);
    bench.ask(0, 2, 1, 1);
    assert!(!bench.pool.ask(0, Ask { id: 3, wanted: wanted(3, 1, 1) }));
    bench.spider(0, 1, 10, 0);
    assert!(!bench.pool.ask(0, Ask { id: 1, wanted: wanted(1, 1, 1) }), "a number that is taken");
    bench.ask(0, 3, 1, 1);
    assert_eq!(bench.pool.counters().refused, 2);
}

#[test]
fn what_nobody_uses_takes_no_memory() {
    let mut bench = bench();
    bench.spider(0, 1, 10, 0);
    for id in 1..=200 {
        bench.ask(0, id, id as u8, 1);
        bench.result(0, 1, id);
        bench.pool.stored(id, 1_001, true);
    }
    bench.tick(Settings::default().kept_for.as_millis() as u64);
    assert_eq!(bench.pool.tables(), [1, 1, 0, 0, 0, 0, 1, 0, 1, 0], "only the spider is left");
    bench.tick(LEASE);
    assert_eq!(bench.pool.tables(), [0; 10]);
}

#[test]
fn a_lease_of_other_settings_is_kept_as_well() {
    let settings = Settings { lease: Duration::from_secs(40), ..Settings::default() };
    let mut bench = bench_of(settings, None);
    bench.spider(0, 1, 10, 0);
    bench.ask(0, 7, 1, 1);
    bench.tick(40 * SECOND - 1);
    assert_eq!(bench.lost(), []);
    bench.tick(40 * SECOND);
    assert_eq!(bench.lost(), [(7, Lost::Silent)]);
}
