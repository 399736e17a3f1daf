//! Slots by hand, and many nodes over a network that loses, repeats and reorders, with nodes that die, pause and join.

mod lab;

use lab::{Lab, REST};
use proptest::prelude::*;

use super::*;

const A: (NodeId, Incarnation) = (NodeId(1), Incarnation(10));
const B: (NodeId, Incarnation) = (NodeId(2), Incarnation(20));
const C: (NodeId, Incarnation) = (NodeId(3), Incarnation(30));

fn node(of: (NodeId, Incarnation)) -> Slots {
    Slots::new(of.0, of.1, 7)
}

/// Carries packets there and back a few times, from this moment on. Returns the number of packets.
fn carry(now: u64, nodes: &mut [&mut Slots]) -> usize {
    let mut carried = 0;
    for now in (now..).step_by(FLUSH as usize).take(8) {
        let poll = |node: &mut &mut Slots| Vec::from_iter(std::iter::from_fn(|| node.poll_packet(now)));
        for parcel in Vec::from_iter(nodes.iter_mut().flat_map(poll)) {
            carried += 1;
            for node in nodes.iter_mut().filter(|node| node.me == parcel.incarnation) {
                node.handle_packet(now, &parcel.bytes).unwrap();
            }
        }
    }
    carried
}

/// A slot whose owner in this ring is this node.
fn slot_of(owner: (NodeId, Incarnation), live: &[(NodeId, Incarnation)]) -> SlotKey {
    let ring = Ring::new(live);
    (1..).map(SlotKey::V4).find(|slot| ring.owner(*slot) == Some(owner.1)).unwrap()
}

/// Two nodes that agree since 0.
fn two() -> (Slots, Slots) {
    let (mut a, mut b) = (node(A), node(B));
    a.handle_view(0, &[A, B]);
    b.handle_view(0, &[A, B]);
    carry(1_000, &mut [&mut a, &mut b]);
    assert!(a.is_agreed() && b.is_agreed());
    carry(2_000, &mut [&mut a, &mut b]);
    (a, b)
}

fn events(node: &mut Slots) -> Vec<Event> {
    std::iter::from_fn(|| node.poll_event()).collect()
}

#[test]
fn a_node_alone_has_every_turn_at_once_and_without_a_message() {
    let mut a = node(A);
    a.ask(5, SlotKey::V4(1));
    assert!(events(&mut a).is_empty());
    a.handle_view(10, &[A]);
    a.ask(30, SlotKey::V4(2));
    let got = |slot, rested| Event::Granted { slot: SlotKey::V4(slot), rested, wanted: false };
    assert_eq!(events(&mut a), [got(1, 0), got(2, 20)]);
    assert!(a.poll_packet(100_000).is_none() && a.next_wake().is_none());
}

#[test]
fn a_slot_of_one_node_costs_one_question_and_then_nothing() {
    let (mut a, mut b) = two();
    let slot = slot_of(B, &[A, B]);
    a.ask(3_000, slot);
    // The question, the answer, and that each has come.
    assert_eq!(carry(4_000, &mut [&mut a, &mut b]), 2);
    assert!(matches!(events(&mut a)[..], [Event::Granted { wanted: false, .. }]));
    carry(5_000, &mut [&mut a, &mut b]);
    assert_eq!(carry(500_000, &mut [&mut a, &mut b]), 0);
}

#[test]
fn a_turn_goes_round_and_takes_its_rest_along() {
    let (mut a, mut b) = two();
    let slot = slot_of(A, &[A, B]);
    b.ask(3_000, slot);
    carry(3_010, &mut [&mut a, &mut b]);
    assert_eq!(events(&mut b).len(), 1);
    a.ask(4_000, slot);
    carry(4_010, &mut [&mut a, &mut b]);
    assert_eq!((events(&mut a), events(&mut b)), (vec![], vec![Event::Wanted { slot }]));
    // Its last fetch ended 70 ms before it gave the turn back at 5,000; that took 10 ms to arrive.
    b.give_back(5_000, slot, 70);
    b.ask(5_000, slot);
    carry(5_010, &mut [&mut a, &mut b]);
    // When the turn came back the owner's queue had no other node; the next message says that a node waits again.
    assert_eq!(events(&mut a), [Event::Granted { slot, rested: 70, wanted: false }, Event::Wanted { slot }]);
    a.give_back(6_000, slot, 0);
    carry(6_010, &mut [&mut a, &mut b]);
    assert_eq!(events(&mut b), [Event::Granted { slot, rested: 0, wanted: false }]);
    assert!(!a.holds(slot) && b.holds(slot));
}

#[test]
fn a_held_turn_goes_on_when_its_owner_changes_and_the_new_owner_knows_of_it() {
    let (mut a, mut b) = two();
    let mut c = node(C);
    let slot = (1..).map(SlotKey::V4).find(|slot| {
        Ring::new(&[A, B]).owner(*slot) == Some(A.1) && Ring::new(&[A, B, C]).owner(*slot) == Some(C.1)
    });
    let slot = slot.unwrap();
    b.ask(3_000, slot);
    carry(3_010, &mut [&mut a, &mut b]);
    assert_eq!(events(&mut b).len(), 1);
    // C is there; A has seen it, B not yet.
    c.handle_view(4_000, &[A, B, C]);
    a.handle_view(4_000, &[A, B, C]);
    a.ask(4_000, slot);
    carry(4_500, &mut [&mut a, &mut b, &mut c]);
    // A has told B that it goes by another ring, so B hands out nothing either.
    assert!(!c.is_agreed() && !a.is_agreed() && !b.is_agreed());
    assert!(events(&mut a).is_empty());
    b.handle_view(5_000, &[A, B, C]);
    carry(5_500, &mut [&mut a, &mut b, &mut c]);
    assert!(a.is_agreed() && b.is_agreed() && c.is_agreed());
    assert_eq!((events(&mut a), events(&mut b)), (vec![], vec![Event::Wanted { slot }]));
    assert!(b.holds(slot));
    // B dies. The time of its last fetch there is unknown, so the slot has rested since all agreed again.
    a.handle_view(30_000, &[A, C]);
    c.handle_view(30_000, &[A, C]);
    carry(30_010, &mut [&mut a, &mut c]);
    let owner = if Ring::new(&[A, C]).owner(slot) == Some(A.1) { &a } else { &c };
    assert!(owner.is_agreed());
    assert_eq!(events(&mut a), [Event::Granted { slot, rested: 0, wanted: false }]);
}

/// B has asked for a slot of A's, and the grant is in flight.
fn granted() -> (Slots, Slots, SlotKey, Parcel) {
    let (mut a, mut b) = two();
    let slot = slot_of(A, &[A, B]);
    b.ask(3_000, slot);
    let ask = b.poll_packet(3_010).unwrap();
    a.handle_packet(3_020, &ask.bytes).unwrap();
    let grant = a.poll_packet(3_100).unwrap();
    (a, b, slot, grant)
}

#[test]
fn a_turn_granted_by_an_owner_of_before_is_void() {
    let (_, mut b, slot, grant) = granted();
    // Before the answer comes, B goes by another ring.
    b.handle_view(3_050, &[A, B, C]);
    b.handle_packet(3_110, &grant.bytes).unwrap();
    assert!(events(&mut b).is_empty() && !b.holds(slot));
}

#[test]
fn an_ask_that_is_taken_back_is_not_answered_by_an_older_grant() {
    let (mut a, mut b, slot, grant) = granted();
    b.give_back(3_100, slot, 0);
    b.ask(3_101, slot);
    b.handle_packet(3_110, &grant.bytes).unwrap();
    assert!(events(&mut b).is_empty() && !b.holds(slot));
    carry(3_200, &mut [&mut a, &mut b]);
    assert_eq!(events(&mut b).len(), 1);
}

#[test]
fn what_is_lost_is_sent_again_and_what_comes_twice_counts_once() {
    let (mut a, mut b) = two();
    let slot = slot_of(A, &[A, B]);
    b.ask(3_000, slot);
    assert!(b.poll_packet(3_010).is_some(), "this one is lost");
    assert!(b.poll_packet(3_500).is_none());
    let again = b.poll_packet(3_010 + AGAIN_AFTER).unwrap();
    a.handle_packet(5_000, &again.bytes).unwrap();
    a.handle_packet(5_000, &again.bytes).unwrap();
    carry(5_100, &mut [&mut a, &mut b]);
    assert_eq!((events(&mut b).len(), a.stats().granted, b.stats().repeated), (1, 1, 1));
    carry(6_000, &mut [&mut a, &mut b]);
    assert!(a.links.values().chain(b.links.values()).all(Link::is_quiet));
}

#[test]
fn bytes_for_another_life_and_damaged_ones_change_nothing() {
    let (mut a, mut b) = two();
    b.ask(3_000, slot_of(A, &[A, B]));
    let mut parcel = b.poll_packet(3_010).unwrap();
    let mut later = Slots::new(A.0, Incarnation(11), 7);
    later.handle_packet(3_020, &parcel.bytes).unwrap();
    assert_eq!(later.stats().packets_received, 0);
    parcel.bytes[9] ^= 1;
    assert!(a.handle_packet(3_020, &parcel.bytes).is_err());
}

#[test]
fn what_was_used_long_ago_is_forgotten_and_never_said_to_have_rested_longer() {
    let mut a = node(A);
    a.handle_view(0, &[A]);
    let slot = SlotKey::V4(1);
    a.ask(0, slot);
    a.give_back(1_000, slot, 0);
    assert_eq!(a.owned(), 1);
    a.handle_view(2 * FORGET_AFTER, &[A]);
    assert_eq!(a.owned(), 0);
    events(&mut a);
    a.ask(2 * FORGET_AFTER, slot);
    assert_eq!(events(&mut a), [Event::Granted { slot, rested: FORGET_AFTER, wanted: false }]);
}

#[test]
fn a_calm_cluster_uses_a_shared_slot_nearly_all_the_time() {
    let mut lab = Lab::calm(7, 4, 3);
    lab.run(60_000).unwrap();
    // One fetch takes 25 ms on average, and then the slot rests.
    let possible = 3 * 60_000 / (REST + 25);
    assert!(lab.starts() * 10 >= possible * 9, "{} of {possible}", lab.starts());
    assert!(lab.everyone_started().is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_happens_an_address_is_asked_by_one_node_at_a_time_and_rests(seed: u64) {
        let mut lab = Lab::new(seed);
        lab.run(40_000).map_err(TestCaseError::fail)?;
        lab.calm_down();
        lab.run(90_000).map_err(TestCaseError::fail)?;
        lab.everyone_started().map_err(TestCaseError::fail)?;
    }
}

/// The same simulation must catch the planted bugs.
#[cfg(feature = "planted")]
mod bugs {
    use super::*;

    fn is_caught(bug: Bug) -> bool {
        (0..40).any(|seed| {
            planted::set(Some(bug));
            let result = Lab::new(seed).run(40_000);
            planted::set(None);
            result.is_err()
        })
    }

    #[test]
    fn planted_bugs_are_caught() {
        for bug in [Bug::SlotPerNode, Bug::OwnerDoesNotWait, Bug::TurnForgetsRest] {
            assert!(is_caught(bug), "{bug:?}");
        }
    }
}
