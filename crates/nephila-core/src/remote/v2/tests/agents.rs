//! The spider's side.

use super::*;
use crate::remote::v2::VERSION;
use crate::remote::v2::agent::{
    ABORT_MARGIN_MS, ANSWER_MS, Action as Do, Agent, BEAT_EVERY_MS, Closed, Identity, Piece, START_MARGIN_MS,
};

const WINDOW: u64 = 4 << 20;

fn agent() -> Agent {
    let (name, token) = ("one".to_owned(), "t0ken".to_owned());
    Agent::new(Identity { name, token, capacity: 10, held_bytes_max: 1 << 20 })
}

fn drain(agent: &mut Agent) -> Vec<Do> {
    std::iter::from_fn(|| agent.poll()).collect()
}

fn welcome(session: u64, resumed: bool, open: &[u64]) -> Frame {
    Frame::Welcome { session, resumed, open: open.to_vec(), window: WINDOW, settings: "{}".into() }
}

fn fetch(id: u64) -> Frame {
    Frame::Fetch { id, wanted: Box::new(wanted(id, 1, 1)) }
}

fn start(id: u64) -> Do {
    Do::Start { id, wanted: Box::new(wanted(id, 1, 1)) }
}

/// An agent with session 5 and a lease from 0 on.
fn ready() -> Agent {
    let mut agent = agent();
    agent.connected(0);
    agent.frame(0, welcome(5, false, &[]));
    agent.frame(0, Frame::Lease { number: 1, ms: LEASE });
    drain(&mut agent);
    agent
}

#[test]
fn it_greets_begins_and_beats() {
    let mut agent = agent();
    agent.connected(0);
    let (token, name) = ("t0ken".to_owned(), "one".to_owned());
    let hello = Frame::Hello { version: VERSION, token, name, capacity: 10, session: 0 };
    assert_eq!(drain(&mut agent), [Do::Send(hello)]);
    agent.frame(10, welcome(5, false, &[]));
    let began = [Do::CloseSites, Do::Begin { settings: "{}".into() }, Do::Send(Frame::Beat { number: 1 })];
    assert_eq!(drain(&mut agent), began);
    assert_eq!(agent.next(), Some(10 + BEAT_EVERY_MS));
    agent.tick(10 + BEAT_EVERY_MS);
    assert_eq!(drain(&mut agent), [Do::Send(Frame::Beat { number: 2 })]);
}

#[test]
fn without_enough_of_a_lease_a_url_is_returned() {
    let mut agent = agent();
    agent.connected(0);
    agent.frame(0, welcome(5, false, &[]));
    drain(&mut agent);
    agent.frame(0, fetch(1));
    assert_eq!(drain(&mut agent), [Do::Send(Frame::Return { id: 1 })], "it has none");
    agent.frame(0, Frame::Lease { number: 1, ms: LEASE });
    let last = LEASE - START_MARGIN_MS;
    agent.frame(last, fetch(2));
    assert!(drain(&mut agent).contains(&start(2)));
    agent.frame(last + 1, fetch(3));
    assert_eq!(drain(&mut agent), [Do::Send(Frame::Return { id: 3 })]);
    assert_eq!((agent.running(), agent.open()), (1, 1));
}

#[test]
fn a_lease_counts_from_the_sending_of_its_beat() {
    let mut agent = ready();
    agent.frame(0, fetch(1));
    agent.tick(3_000);
    agent.tick(6_000);
    drain(&mut agent);
    // The answer to the beat of 3 s comes at 12 s.
    agent.frame(12_000, Frame::Lease { number: 2, ms: LEASE });
    drain(&mut agent);
    agent.tick(3_000 + LEASE - ABORT_MARGIN_MS - 1);
    assert_eq!(agent.running(), 1);
    drain(&mut agent);
    agent.tick(3_000 + LEASE - ABORT_MARGIN_MS);
    assert_eq!(drain(&mut agent), [Do::Abort { id: 1 }, Do::CloseSites, Do::Close(Closed::Silent)]);
    assert_eq!((agent.open(), agent.next()), (0, None));
}

#[test]
fn an_answer_to_a_beat_of_an_earlier_connection_is_no_lease() {
    let mut agent = ready();
    agent.tick(3_000);
    agent.closed(4_000);
    agent.connected(5_000);
    agent.frame(5_000, welcome(5, true, &[]));
    drain(&mut agent);
    agent.frame(5_000, Frame::Lease { number: 2, ms: LEASE });
    agent.tick(LEASE - ABORT_MARGIN_MS);
    assert!(drain(&mut agent).contains(&Do::Close(Closed::Silent)), "the first lease has ended");
}

#[test]
fn a_lease_that_is_too_short_is_none_and_the_connection_stays() {
    let mut agent = agent();
    agent.connected(0);
    agent.frame(0, welcome(5, false, &[]));
    for number in 1..20 {
        let now = number * BEAT_EVERY_MS;
        agent.frame(now, Frame::Lease { number, ms: ABORT_MARGIN_MS });
        agent.tick(now);
        let closed = drain(&mut agent).into_iter().any(|action| matches!(action, Do::Close(_)));
        assert!(!closed, "at {now}");
    }
}

#[test]
fn a_node_that_never_answers_is_left() {
    let mut agent = agent();
    agent.connected(0);
    drain(&mut agent);
    assert_eq!(agent.next(), Some(ANSWER_MS));
    agent.tick(ANSWER_MS);
    assert_eq!(drain(&mut agent), [Do::Close(Closed::Silent)]);
    // And one that answers once.
    agent.connected(20_000);
    agent.frame(21_000, welcome(5, false, &[]));
    drain(&mut agent);
    agent.tick(21_000 + ANSWER_MS - 1);
    assert!(!drain(&mut agent).contains(&Do::Close(Closed::Silent)));
    agent.tick(21_000 + ANSWER_MS);
    assert!(drain(&mut agent).contains(&Do::Close(Closed::Silent)));
}

#[test]
fn a_break_of_the_connection_changes_nothing_until_the_lease_ends() {
    let mut agent = ready();
    for id in 1..=3 {
        agent.frame(0, fetch(id));
    }
    assert!(agent.ended(1_000, 2, 3, 100));
    assert!(agent.next_piece().is_some());
    agent.closed(2_000);
    drain(&mut agent);
    assert_eq!((agent.running(), agent.next_piece()), (2, None));
    agent.connected(9_000);
    let actions = drain(&mut agent);
    assert!(matches!(&actions[..], [Do::Send(Frame::Hello { session: 5, .. })]), "{actions:?}");
    // URL 4 was sent and did not come; URL 3 was taken back meanwhile.
    agent.frame(9_000, welcome(5, true, &[1, 2, 4]));
    let expected =
        [Do::Abort { id: 3 }, Do::Send(Frame::Return { id: 4 }), Do::Send(Frame::Beat { number: 2 })];
    assert_eq!(drain(&mut agent), expected);
    let again = Piece { id: 2, begins: Some((3, 103)), from: 0, len: 103, ends: true };
    assert_eq!(agent.next_piece(), Some(again), "from its beginning");
}

#[test]
fn a_new_session_begins_with_nothing() {
    let mut agent = ready();
    agent.frame(0, fetch(1));
    agent.frame(0, fetch(2));
    assert!(agent.ended(1_000, 2, 3, 100));
    agent.closed(2_000);
    agent.connected(3_000);
    drain(&mut agent);
    agent.frame(3_000, welcome(6, false, &[]));
    let expected = [
        Do::Abort { id: 1 },
        Do::Forget { id: 2 },
        Do::CloseSites,
        Do::Begin { settings: "{}".into() },
        Do::Send(Frame::Beat { number: 2 }),
    ];
    assert_eq!(drain(&mut agent), expected);
    agent.frame(3_000, fetch(3));
    assert_eq!(
        drain(&mut agent),
        [Do::Send(Frame::Return { id: 3 })],
        "the lease has ended with the session"
    );
}

#[test]
fn a_large_body_does_not_delay_another_result() {
    let mut agent = ready();
    let large = 10 << 20;
    agent.frame(0, fetch(1));
    agent.frame(0, fetch(2));
    assert!(agent.ended(1_000, 1, 100, large));
    let first = Piece { id: 1, begins: Some((100, large + 100)), from: 0, len: DATA_BYTES_MAX, ends: false };
    assert_eq!(agent.next_piece(), Some(first));
    assert!(agent.ended(1_001, 2, 100, 50));
    let second = Piece { id: 2, begins: Some((100, 150)), from: 0, len: 150, ends: true };
    assert_eq!(agent.next_piece(), Some(second), "after one frame of the other");
    let rest = std::iter::from_fn(|| agent.next_piece()).map(|piece| piece.len as u64).sum::<u64>();
    assert_eq!(rest, WINDOW - DATA_BYTES_MAX as u64 - 150, "no more than the window");
    agent.frame(2_000, fetch(3));
    assert!(agent.ended(2_000, 3, 100, 0));
    let begun = Piece { id: 3, begins: Some((100, 100)), from: 0, len: 0, ends: false };
    assert_eq!(agent.next_piece(), Some(begun), "it begins without a window");
    assert_eq!(agent.next_piece(), None);
    agent.frame(2_001, Frame::Window { bytes: DATA_BYTES_MAX as u64 + 100 });
    let turns: Vec<u64> = std::iter::from_fn(|| agent.next_piece()).map(|piece| piece.id).collect();
    assert_eq!(turns, [1, 3], "they take turns");
}

#[test]
fn two_large_bodies_take_turns_and_come_whole() {
    let mut agent = ready();
    let len = 200_000;
    for id in [1, 2] {
        agent.frame(0, fetch(id));
        assert!(agent.ended(1, id, 10, len));
    }
    let pieces: Vec<Piece> = std::iter::from_fn(|| agent.next_piece()).collect();
    let ids: Vec<u64> = pieces.iter().map(|piece| piece.id).collect();
    assert_eq!(ids, [1, 2, 1, 2, 1, 2, 1, 2]);
    for id in [1, 2] {
        let mut from = 0;
        for piece in pieces.iter().filter(|piece| piece.id == id) {
            assert_eq!((piece.from, piece.begins.is_some()), (from, from == 0));
            from += piece.len as u64;
            assert_eq!(piece.ends, from == len + 10);
        }
        assert_eq!(from, len + 10);
    }
}

#[test]
fn a_url_is_cancelled_while_it_is_fetched_sent_or_kept() {
    let mut agent = ready();
    for id in 1..=3 {
        agent.frame(0, fetch(id));
    }
    drain(&mut agent);
    agent.frame(1, Frame::Cancel { id: 1 });
    assert_eq!(drain(&mut agent), [Do::Abort { id: 1 }, Do::Send(Frame::Return { id: 1 })]);
    assert!(!agent.ended(2, 1, 1, 1), "nobody wants it");
    assert!(agent.ended(2, 2, 1, 1 << 19));
    agent.frame(3, Frame::Cancel { id: 2 });
    assert_eq!(drain(&mut agent), [], "the node counts its connection until the result is there");
    let sent: u64 = std::iter::from_fn(|| agent.next_piece()).map(|piece| piece.len as u64).sum();
    assert_eq!(sent, (1 << 19) + 1);
    agent.frame(4, Frame::Cancel { id: 2 });
    assert_eq!(drain(&mut agent), [Do::Forget { id: 2 }]);
    agent.frame(4, Frame::Cancel { id: 99 });
    assert_eq!((drain(&mut agent), agent.open()), (vec![], 1));
}

#[test]
fn a_result_is_kept_until_it_is_stored_and_many_bytes_stop_the_work() {
    let mut agent = ready();
    agent.frame(0, fetch(1));
    drain(&mut agent);
    assert!(agent.ended(1, 1, 0, 1 << 20));
    assert_eq!(drain(&mut agent), [Do::Send(Frame::Room { capacity: 0 })]);
    while agent.next_piece().is_some() {}
    assert_eq!(agent.open(), 1);
    agent.frame(2, Frame::Stored { ids: vec![1, 77] });
    assert_eq!(drain(&mut agent), [Do::Forget { id: 1 }, Do::Send(Frame::Room { capacity: 10 })]);
    assert_eq!(agent.open(), 0);
}

#[test]
fn a_spider_that_leaves_finishes_and_says_bye() {
    let mut agent = ready();
    agent.frame(0, fetch(1));
    drain(&mut agent);
    agent.leave(1);
    assert_eq!(drain(&mut agent), [Do::Send(Frame::Room { capacity: 0 })]);
    agent.frame(2, fetch(2));
    assert_eq!(drain(&mut agent), [Do::Send(Frame::Return { id: 2 })]);
    assert!(agent.ended(3, 1, 1, 1));
    while agent.next_piece().is_some() {}
    assert_eq!(drain(&mut agent), []);
    agent.frame(4, Frame::Stored { ids: vec![1] });
    let left = [Do::Forget { id: 1 }, Do::Send(Frame::Bye), Do::CloseSites, Do::Close(Closed::Left)];
    assert_eq!(drain(&mut agent), left);
}

#[test]
fn what_a_node_does_not_send_closes_the_connection() {
    let mut agent = ready();
    agent.frame(1, Frame::Bye);
    assert_eq!(drain(&mut agent), [Do::Close(Closed::Frame)]);
    agent.frame(2, fetch(1));
    assert_eq!(drain(&mut agent), [], "and nothing is read after it");
    agent.connected(3);
    drain(&mut agent);
    agent.frame(4, fetch(1));
    assert_eq!(drain(&mut agent), [Do::Close(Closed::Frame)], "not before WELCOME");
    agent.connected(5);
    drain(&mut agent);
    agent.frame(6, Frame::Error { code: Code::Token, text: "no".into() });
    assert_eq!(drain(&mut agent), [Do::Close(Closed::Refused(Code::Token, "no".into()))]);
}
