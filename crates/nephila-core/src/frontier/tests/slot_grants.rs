//! Slots shared with other nodes: no request starts without a turn, and no turn is kept unused.

use std::net::IpAddr;
use std::time::Duration;

use super::lab::{Lab, MONO, config};
use crate::frontier::SlotAction;
use crate::frontier::settings::Fleet;
use crate::frontier::slot::SlotKey;
use crate::frontier::slot_grant::BLOCK;

const ADDRESS: &str = "192.0.2.1";
const SLOT_REST: u64 = 500;

fn slot() -> SlotKey {
    SlotKey::of(ADDRESS.parse().unwrap())
}

/// Hosts on one address, each with this number of pages.
fn shared(hosts: &[&str], pages: usize) -> Lab {
    let mut config = config();
    config.frontier.slot_connections = 1;
    config.frontier.slot_delay = Duration::from_millis(SLOT_REST);
    let mut lab = Lab::new(config);
    lab.frontier.share_slots();
    for host in hosts {
        lab.web.addresses.insert(format!("http://{host}"), vec![ADDRESS.parse::<IpAddr>().unwrap()]);
        for page in 0..pages {
            lab.offer(&[&format!("http://{host}/{page}")]);
        }
    }
    lab
}

fn starts(lab: &Lab) -> usize {
    lab.pages.len() + lab.robots.len()
}

#[test]
fn nothing_starts_without_a_turn_and_it_is_asked_for_once() {
    let mut lab = shared(&["a.test", "b.test"], 3);
    lab.run(60_000);
    assert_eq!(starts(&lab), 0);
    assert_eq!(lab.turns, [(MONO, SlotAction::Ask(slot()))]);
    let (at, now) = (lab.now.mono, lab.now);
    lab.frontier.handle_granted(slot(), 200, false, now);
    lab.run(60_000);
    assert_eq!(lab.robots[0].at, at + SLOT_REST - 200, "what is left of the rest");
    assert_eq!(starts(&lab), 8);
    let last = lab.pages.iter().map(|start| start.at).max().unwrap();
    let used = lab.turns.iter().filter(|(at, _)| *at <= last);
    assert_eq!(used.count(), 1, "a turn that nobody wants is kept while it is of use");
}

#[test]
fn a_turn_that_is_wanted_ends_after_so_many_starts() {
    // Enough hosts that one is always ready.
    let hosts = ["a.test", "b.test", "c.test", "d.test", "e.test"];
    let mut lab = shared(&hosts, 20);
    lab.grants = Some(SLOT_REST);
    lab.run(1_500);
    let before = starts(&lab);
    assert!(before > 1);
    lab.grants = None;
    lab.frontier.handle_wanted(slot());
    lab.run(60_000);
    assert_eq!(starts(&lab), BLOCK as usize, "counted from the beginning of the turn");
    let [(_, SlotAction::Ask(_)), (at, SlotAction::GiveBack { slot: of, rested }), (_, SlotAction::Ask(_))] =
        lab.turns[..]
    else {
        panic!("{:?}", lab.turns)
    };
    let last = lab.pages.iter().chain(&lab.robots).map(|start| start.at).max().unwrap();
    assert_eq!((of, rested, at), (slot(), 0, last + lab.took), "given back when its last fetch ended");
}

#[test]
fn a_turn_that_is_wanted_is_given_back_before_the_slot_lies_idle() {
    // One host, which rests twice as long as its address.
    let mut lab = shared(&["a.test"], 5);
    lab.grants = Some(SLOT_REST);
    lab.run(50);
    lab.frontier.handle_wanted(slot());
    lab.grants = None;
    lab.run(10_000);
    assert_eq!(starts(&lab), 1);
    assert_eq!(lab.turns[1], (MONO + 100, SlotAction::GiveBack { slot: slot(), rested: 0 }));
    assert_eq!(lab.turns[2], (MONO + 1_100, SlotAction::Ask(slot())), "asked for when the host has rested");
}

#[test]
fn a_turn_that_comes_when_nobody_needs_it_any_more_goes_back() {
    let mut lab = shared(&["a.test"], 1);
    lab.grants = Some(SLOT_REST);
    lab.run(600_000);
    assert_eq!(starts(&lab), 2);
    assert!(matches!(lab.turns[..], [(_, SlotAction::Ask(_)), (_, SlotAction::GiveBack { .. })]));
    // A message about a turn that is not held changes nothing, and a turn that was not requested goes back.
    lab.frontier.handle_wanted(slot());
    assert_eq!(lab.frontier.poll_turn(lab.now), None);
    let now = lab.now;
    lab.frontier.handle_granted(slot(), 70, true, now);
    assert_eq!(lab.frontier.poll_turn(now), Some(SlotAction::GiveBack { slot: slot(), rested: 70 }));
}

#[test]
fn a_turn_that_cannot_be_used_is_not_kept_from_others() {
    let mut lab = shared(&["a.test", "b.test"], 3);
    lab.grants = Some(SLOT_REST);
    lab.run(0);
    lab.run(150);
    lab.frontier.handle_wanted(slot());
    // No tickets are taken from here on.
    let mut given_back = None;
    for _ in 0..40 {
        lab.now.mono += 100;
        given_back = given_back.or(lab.frontier.poll_turn(lab.now));
    }
    assert!(matches!(given_back, Some(SlotAction::GiveBack { .. })), "{given_back:?}");
}

#[test]
fn addresses_of_a_fleet_are_one_slot_with_its_own_rest() {
    let mut config = config();
    config.frontier.slot_connections = 1;
    config.frontier.fleets = vec![Fleet {
        name: "cdn".into(),
        ranges: vec!["203.0.113.0/24".parse().unwrap()],
        connections: 1,
        delay: Duration::from_secs(3),
    }];
    let mut lab = Lab::new(config);
    for (n, host) in ["a.test", "b.test"].iter().enumerate() {
        let address = format!("203.0.113.{n}").parse::<IpAddr>().unwrap();
        lab.web.addresses.insert(format!("http://{host}"), vec![address]);
        lab.offer(&[&format!("http://{host}/1")]);
    }
    lab.run(30_000);
    let mut at: Vec<u64> = lab.pages.iter().chain(&lab.robots).map(|start| start.at - MONO).collect();
    at.sort_unstable();
    assert_eq!(at, [0, 3_100, 6_200, 9_300]);
    assert_eq!(lab.pages[0].ticket.slot_rest, Duration::from_secs(3));
}
