//! The desk, rule by rule. `model.rs` compares it with a plain model under random events.

mod model;

use std::time::Duration;

use super::*;
use crate::remote::record::{Http, Record, Specific};
use crate::spider::outcome::Outcome;

const SECOND: u64 = 1_000;

/// A line that the desk sent: connection, TRANS, DOC.
type Sent = (u64, u64, u32);

/// A desk, and what came out of it.
struct Bench {
    desk: Desk<()>,
    sent: Vec<Sent>,
    ends: Vec<(u64, End<()>)>,
    closed: Vec<(u64, CloseWhy)>,
    alarms: usize,
}

fn bench() -> Bench {
    bench_of(Settings::default(), u32::MAX)
}

fn bench_of(settings: Settings, docs: u32) -> Bench {
    settings.check().unwrap();
    let desk = Desk::with_docs(settings, docs);
    Bench { desk, sent: Vec::new(), ends: Vec::new(), closed: Vec::new(), alarms: 0 }
}

fn url(id: u64) -> String {
    format!("http://h{id}.test/")
}

fn ask(id: u64) -> Ask {
    Ask { id, url: url(id), ip: "192.0.2.1".parse().unwrap(), rest: Duration::from_secs(5) }
}

fn record_of(doc: u32, url: String) -> Received<()> {
    let specific = Specific::Outcome(Outcome::Fetched);
    let (http, new_url) = (Http::Status(200), String::new());
    Received {
        record: Record { doc, success: true, specific, http, ms: 9, url, new_url, data_len: 0 },
        body: (),
    }
}

impl Bench {
    fn drain(&mut self) {
        while let Some(action) = self.desk.poll() {
            match action {
                Action::Send { connection, bytes } => {
                    let line = UrlLine::read(bytes.strip_suffix(b"\n").unwrap()).unwrap();
                    self.sent.push((connection, line.trans, line.doc));
                }
                Action::End { ask, end } => self.ends.push((ask, end)),
                Action::Close { connection, why } => self.closed.push((connection, why)),
                Action::Alarm => self.alarms += 1,
            }
        }
    }

    fn connect(&mut self, now: u64, connection: u64, name: &str) {
        self.desk.connected(now, connection, name, Speaks::Push).unwrap();
        self.drain();
    }

    fn ask(&mut self, now: u64, id: u64) {
        self.desk.ask(now, ask(id)).unwrap();
        self.drain();
    }

    fn reply(&mut self, now: u64, connection: u64, reply: Reply) {
        self.desk.line(now, connection, Ok(reply));
        self.drain();
    }

    fn record(&mut self, now: u64, doc: u32, id: u64) {
        self.desk.record(now, record_of(doc, url(id)));
        self.drain();
    }

    fn tick(&mut self, now: u64) {
        self.desk.tick(now);
        self.drain();
    }

    fn close(&mut self, now: u64, connection: u64) {
        self.desk.closed(now, connection);
        self.drain();
    }

    /// The only line since the last call.
    fn one_sent(&mut self) -> Sent {
        assert_eq!(self.sent.len(), 1, "{:?}", self.sent);
        self.sent.remove(0)
    }

    /// The only end since the last call: ask, and the times it was sent if recorded or else the reason.
    fn one_end(&mut self) -> (u64, Result<u32, LostWhy>) {
        assert_eq!(self.ends.len(), 1, "{:?}", self.ends);
        match self.ends.remove(0) {
            (ask, End::Recorded { sent, .. }) => (ask, Ok(sent)),
            (ask, End::Lost { why, .. }) => (ask, Err(why)),
        }
    }
}

#[test]
fn done_and_record_end_an_ask_in_either_order() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    bench.ask(1, 10);
    let (connection, trans, doc) = bench.one_sent();
    bench.reply(500, connection, Reply::Done(trans));
    assert!(bench.ends.is_empty());
    bench.record(700, doc, 10);
    let (id, end) = bench.ends.remove(0);
    let End::Recorded { took, done, spider, sent, .. } = end else { panic!("{end:?}") };
    assert_eq!((id, took, done, &*spider, sent), (10, Duration::from_millis(499), 500, "a", 1));

    bench.ask(1_000, 11);
    let (connection, trans, doc) = bench.one_sent();
    bench.record(1_500, doc, 11);
    assert!(bench.ends.is_empty());
    bench.reply(1_700, connection, Reply::Done(trans));
    assert_eq!(bench.one_end(), (11, Ok(1)));
    assert_eq!((bench.desk.open(), bench.desk.next()), (0, None));
}

#[test]
fn a_silent_spider_is_retried_after_sixty_seconds_elsewhere_if_there_is_room() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    bench.ask(0, 10);
    let (_, trans, doc) = bench.one_sent();
    bench.reply(40 * SECOND, 1, Reply::Working(trans));
    assert_eq!(bench.desk.next(), Some(100 * SECOND));
    bench.connect(41 * SECOND, 2, "b");
    bench.tick(100 * SECOND - 1);
    assert!(bench.sent.is_empty());
    bench.tick(100 * SECOND);
    let (second, again, same) = bench.one_sent();
    assert_eq!((second, same), (2, doc));
    assert_ne!(again, trans);
    // The late DONE of the first spider changes nothing.
    bench.reply(101 * SECOND, 1, Reply::Done(trans));
    assert_eq!(bench.desk.counters().unknown_trans, 1);
    bench.record(102 * SECOND, doc, 10);
    assert!(bench.ends.is_empty());
    bench.reply(103 * SECOND, 2, Reply::Done(again));
    assert_eq!(bench.one_end(), (10, Ok(2)));
}

#[test]
fn a_url_that_silences_every_spider_is_lost_after_three_resends() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    bench.ask(0, 10);
    for n in 1..=3 {
        bench.tick(n * 60 * SECOND);
    }
    assert_eq!((bench.sent.len(), bench.ends.len()), (4, 0));
    bench.tick(240 * SECOND);
    assert_eq!(bench.ends, [(10, End::Lost { why: LostWhy::Silent, sent: 4 })]);
}

#[test]
fn a_missing_record_sends_the_url_again_after_a_rest() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    bench.ask(0, 10);
    let (_, trans, _) = bench.one_sent();
    bench.reply(SECOND, 1, Reply::Done(trans));
    bench.tick(31 * SECOND);
    bench.tick(36 * SECOND - 1);
    assert!(bench.sent.is_empty());
    bench.tick(36 * SECOND);
    assert_eq!(bench.one_sent().0, 1);
    assert_eq!(bench.desk.counters().no_record, 1);
}

#[test]
fn a_spider_that_is_back_gets_its_urls_again_after_a_rest() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    bench.ask(0, 10);
    let (_, trans, doc) = bench.one_sent();
    bench.close(SECOND, 1);
    bench.connect(SECOND, 2, "b");
    bench.connect(2 * SECOND, 3, "a");
    bench.tick(6 * SECOND - 1);
    assert!(bench.sent.is_empty());
    bench.tick(6 * SECOND);
    let (connection, again, same) = bench.one_sent();
    assert_eq!((connection, same), (3, doc));
    assert_ne!(trans, again);
}

#[test]
fn other_spiders_get_the_urls_of_a_lost_one_after_the_total_timeout() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    bench.connect(0, 2, "b");
    bench.ask(0, 10);
    bench.ask(0, 11);
    assert_eq!(bench.sent.iter().map(|sent| sent.0).collect::<Vec<_>>(), [1, 2]);
    bench.sent.clear();
    bench.close(SECOND, 1);
    for at in [30, 60, 90] {
        let trans = Trans { generation: 1, place: 1, seat: 1 }.number();
        bench.reply(at * SECOND, 2, Reply::Working(trans));
    }
    bench.tick(121 * SECOND - 1);
    assert!(bench.sent.is_empty());
    bench.tick(121 * SECOND);
    assert_eq!(bench.one_sent().0, 2);
}

#[test]
fn a_record_after_a_close_ends_the_ask_without_a_second_fetch() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    bench.ask(0, 10);
    let (_, _, doc) = bench.one_sent();
    bench.close(SECOND, 1);
    bench.record(2 * SECOND, doc, 10);
    assert_eq!(bench.one_end(), (10, Ok(1)));
    bench.connect(3 * SECOND, 2, "a");
    bench.tick(600 * SECOND);
    assert_eq!((bench.sent.len(), bench.desk.counters().without_done), (0, 1));
}

#[test]
fn a_url_that_is_done_waits_for_its_record_over_a_close() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    bench.ask(0, 10);
    let (_, trans, doc) = bench.one_sent();
    bench.reply(1, 1, Reply::Done(trans));
    bench.close(2, 1);
    bench.record(3, doc, 10);
    assert_eq!(bench.one_end(), (10, Ok(1)));
    assert_eq!((bench.desk.waiting(), bench.desk.counters().orphaned), (0, 0));
}

#[test]
fn the_dialect_is_pull_if_get_comes_within_two_seconds() {
    let mut bench = bench();
    bench.desk.connected(0, 1, "a", Speaks::Auto).unwrap();
    bench.desk.connected(0, 2, "b", Speaks::Auto).unwrap();
    (0..3).for_each(|id| bench.ask(1, id));
    assert!(bench.sent.is_empty());
    bench.reply(1_999, 1, Reply::Get(2));
    assert_eq!(bench.sent.iter().map(|sent| sent.0).collect::<Vec<_>>(), [1, 1]);
    bench.sent.clear();
    assert_eq!(bench.desk.next(), Some(2_000));
    bench.tick(2_000);
    assert_eq!(bench.one_sent().0, 2);
    bench.reply(2_001, 2, Reply::Get(5));
    assert_eq!(bench.desk.counters().get_ignored, 1);
}

#[test]
fn gets_add_up_to_tickets_max_and_push_sends_no_more() {
    let mut bench = bench_of(Settings { tickets_max: 3, ..Settings::default() }, u32::MAX);
    bench.desk.connected(0, 1, "a", Speaks::Pull).unwrap();
    bench.reply(0, 1, Reply::Get(2));
    bench.reply(0, 1, Reply::Get(10_000));
    (0..8).for_each(|id| bench.ask(1, id));
    assert_eq!(bench.sent.len(), 3);
    bench.connect(2, 2, "b");
    assert_eq!((bench.sent.len(), bench.desk.waiting()), (6, 2));
}

#[test]
fn a_line_of_the_pull_dialect_names_the_host() {
    let mut desk: Desk<()> = Desk::new(Settings::default());
    desk.connected(0, 1, "a", Speaks::Pull).unwrap();
    desk.line(0, 1, Ok(Reply::Get(1)));
    desk.ask(0, ask(7)).unwrap();
    let trans = Trans { generation: 1, place: 0, seat: 0 }.number();
    let bytes = format!("{trans} 1 192.0.2.1 h7.test http://h7.test/\n").into_bytes();
    assert_eq!(desk.poll(), Some(Action::Send { connection: 1, bytes }));
}

#[test]
fn too_many_asks_are_refused_by_name() {
    let mut bench = bench_of(Settings { asks_max: 2, ..Settings::default() }, u32::MAX);
    bench.ask(0, 1);
    assert_eq!(bench.desk.ask(0, ask(1)), Err(AskError::Known));
    bench.ask(0, 2);
    assert_eq!(bench.desk.ask(0, ask(3)), Err(AskError::Full));
    let bad = Ask { url: "http://a/ b".to_owned(), ..ask(4) };
    assert_eq!(bench.desk.ask(0, bad), Err(AskError::Url));
    assert_eq!(bench.desk.cancel(0, 1), Cancelled::Idle);
    assert_eq!(bench.desk.cancel(0, 1), Cancelled::Unknown);
    bench.ask(0, 3);
    bench.connect(0, 1, "a");
    assert_eq!(bench.desk.cancel(0, 2), Cancelled::MayBeAsked);
}

#[test]
fn a_number_of_a_document_rests_for_twice_the_total_timeout() {
    let mut bench = bench_of(Settings::default(), 2);
    bench.connect(0, 1, "a");
    for id in [1, 2] {
        bench.ask(0, id);
        let (_, trans, doc) = bench.one_sent();
        bench.reply(id * SECOND, 1, Reply::Done(trans));
        bench.record(id * SECOND, doc, id);
    }
    assert_eq!(bench.desk.ask(241 * SECOND - 1, ask(3)), Err(AskError::NoDoc));
    bench.ask(241 * SECOND, 3);
    assert_eq!(bench.one_sent().2, 1);
}

#[test]
fn ten_unreadable_lines_in_a_minute_close_the_connection() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    for n in 0..30 {
        bench.desk.line(n * 7 * SECOND, 1, Err(LineError::Word));
    }
    bench.drain();
    assert!(bench.closed.is_empty(), "nine in any minute are no reason");
    for n in 0..10 {
        bench.desk.line(300 * SECOND + n, 1, Err(LineError::Word));
    }
    bench.drain();
    assert_eq!(bench.closed, [(1, CloseWhy::Unreadable)]);
    assert_eq!(bench.desk.spiders().count(), 0);
}

#[test]
fn records_with_a_wrong_url_are_dropped_and_a_hundred_raise_the_alarm_once() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    bench.ask(0, 10);
    let (_, trans, doc) = bench.one_sent();
    for _ in 0..99 {
        bench.record(1, doc, 11);
    }
    assert_eq!(bench.alarms, 0);
    bench.record(1, doc, 11);
    bench.record(1, doc, 11);
    bench.record(1, doc + 1, 10);
    assert_eq!((bench.alarms, bench.desk.counters().unknown_doc), (1, 1));
    bench.reply(2, 1, Reply::Done(trans));
    assert!(bench.ends.is_empty());
}

#[test]
fn a_second_connection_of_a_spider_replaces_the_first() {
    let mut bench = bench();
    bench.connect(0, 1, "a");
    bench.ask(0, 10);
    bench.sent.clear();
    bench.connect(1, 2, "a");
    assert_eq!(bench.closed, [(1, CloseWhy::Replaced)]);
    bench.close(2, 1);
    bench.tick(5_001);
    assert_eq!(bench.one_sent().0, 2);
    assert_eq!(bench.desk.connected(6_000, 2, "b", Speaks::Push), Err(ConnectError::Known));
}

#[test]
fn settings_that_cannot_work_are_refused_by_name() {
    let settings = Settings { status_timeout: Duration::from_secs(49), ..Settings::default() };
    let text = settings.check().unwrap_err().to_string();
    assert!(text.contains("status_timeout is 49s") && text.contains("update_every, which is 25s"), "{text}");
    let settings = Settings { tickets_max: 0, ..Settings::default() };
    assert_eq!(settings.check(), Err(SettingsError::Zero("tickets_max")));
    let settings = Settings { connections_max: 65_537, ..Settings::default() };
    assert_eq!(settings.check(), Err(SettingsError::Connections(65_537)));
    assert_eq!(Settings::default().check(), Ok(()));
}

#[test]
fn trans_has_three_pieces() {
    let trans = Trans { generation: 0xab_cdef, place: 0x12_3456, seat: 0x789a };
    assert_eq!(trans.number(), 0xabcd_ef12_3456_789a);
    assert_eq!(Trans::of(trans.number()), trans);
    assert_eq!(Trans::after(0xff_ffff), 0);
}
