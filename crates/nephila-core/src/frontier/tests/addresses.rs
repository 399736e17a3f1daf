//! Names with several addresses: one failed address is no reason to give the host up.

use std::net::IpAddr;
use std::time::Duration;

use super::lab::{Lab, Start, config};
use crate::frontier::slot::SlotKey;
use crate::frontier::{Config, Settings, SlotAction};
use crate::spider::outcome::Outcome;
use crate::state::record::UrlState;

const SITE: &str = "http://a.test";

fn list(text: &str) -> Vec<IpAddr> {
    text.split_whitespace().map(|address| address.parse().unwrap()).collect()
}

/// A site with these addresses, of which some are dead, and with this number of pages.
fn site(addresses: &str, dead: &str, pages: usize) -> Lab {
    // As shipped, but without jitter, so that times are exact.
    let frontier = Settings { recent_max: 64, ..Settings::default() };
    site_with(Config { frontier, ..config() }, addresses, dead, pages)
}

fn site_with(config: Config, addresses: &str, dead: &str, pages: usize) -> Lab {
    let mut lab = Lab::new(config);
    lab.web.addresses.insert(SITE.into(), list(addresses));
    lab.web.dead = list(dead).into_iter().collect();
    for page in 0..pages {
        lab.offer(&[&format!("{SITE}/{page}")]);
    }
    lab
}

fn asked_at(starts: &[Start]) -> Vec<String> {
    starts.iter().map(|start| start.ticket.address.to_string()).collect()
}

#[test]
fn fin_03_a_dead_address_is_asked_once_and_everything_comes_from_the_next() {
    let mut lab = site("192.0.2.1 192.0.2.2", "192.0.2.1", 3);
    lab.run(30_000);
    assert_eq!(asked_at(&lab.robots), ["192.0.2.1", "192.0.2.2"]);
    assert_eq!(asked_at(&lab.pages), ["192.0.2.2"; 3]);
    let between = lab.robots[1].at - lab.robots[0].at;
    assert!((2_000..3_000).contains(&between), "after the rest of its host, and soon: {between} ms");
    assert_eq!(lab.host(SITE).failures, 0, "nothing is held against the host");
}

#[test]
fn fin_03_a_page_goes_on_to_the_next_address_and_costs_no_retry() {
    let mut lab = site("192.0.2.1 192.0.2.2 192.0.2.3", "", 2);
    lab.run(3_000);
    assert_eq!((lab.robots.len(), lab.pages.len()), (1, 1));
    // Two of the three go away, the one in use among them.
    lab.web.dead = list("192.0.2.1 192.0.2.2").into_iter().collect();
    lab.run(60_000);
    assert_eq!(asked_at(&lab.pages), ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    for start in &lab.pages {
        assert_eq!(start.ticket.retries, 0, "{}", start.ticket.address);
    }
    let took = lab.pages[3].at - lab.pages[1].at;
    assert!(took < 10_000, "two addresses that are gone cost {took} ms");
    assert_eq!(lab.record(&format!("{SITE}/1")).state, UrlState::Ended);
    assert_eq!(lab.host(SITE).failures, 0);
}

#[test]
fn fin_03_a_slow_death_is_no_slow_server() {
    let mut lab = site("192.0.2.1 192.0.2.2", "192.0.2.1", 1);
    lab.took = 10_000;
    lab.run(20_000);
    let between = lab.robots[1].at - lab.robots[0].at;
    assert!(between < 13_000, "ten seconds for nobody, then the usual rest: {between} ms");
}

#[test]
fn fin_03_a_host_without_a_living_address_backs_off_after_one_try_of_each() {
    let mut lab = site("192.0.2.1 192.0.2.2 192.0.2.3", "192.0.2.1 192.0.2.2 192.0.2.3", 1);
    let first = lab.config.retry.back_off_other_first.as_millis() as u64;
    lab.run(first);
    assert_eq!(asked_at(&lab.robots), ["192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    assert_eq!(lab.host(SITE).failures, 1, "all of them together are one failure");
    // The next round begins as late as for one address, with a look-up, and ends at a living address.
    lab.web.dead.remove(&list("192.0.2.3")[0]);
    lab.web.addresses.insert(SITE.into(), list("192.0.2.3 192.0.2.1"));
    lab.run(first);
    assert_eq!(asked_at(&lab.robots)[3..], ["192.0.2.3"]);
    assert_eq!(lab.pages.len(), 1);
}

#[test]
fn fin_03_one_dead_address_fails_as_before() {
    let mut lab = site("192.0.2.1", "", 2);
    lab.run(3_000);
    lab.web.dead = list("192.0.2.1").into_iter().collect();
    lab.run(20_000);
    assert_eq!(lab.pages.len(), 2);
    let record = lab.record(&format!("{SITE}/1"));
    assert_eq!((record.retries, record.last.unwrap().outcome), (1, Outcome::ConnectRefused));
    assert_eq!(lab.host(SITE).failures, 1);
}

#[test]
fn fin_03_several_tickets_of_a_dead_address_move_their_host_once() {
    let mut config = config();
    (config.frontier.host_connections, config.frontier.host_delay) = (4, Duration::ZERO);
    let mut lab = site_with(config, "192.0.2.1 192.0.2.2 192.0.2.3", "", 8);
    lab.run(150);
    assert_eq!(lab.pages.len(), 4);
    lab.web.dead = list("192.0.2.1").into_iter().collect();
    lab.run(60_000);
    let at = asked_at(&lab.pages);
    assert_eq!(at.iter().filter(|address| *address == "192.0.2.1").count(), 4, "{at:?}");
    assert!(at.iter().all(|address| address != "192.0.2.3"), "the second answers: {at:?}");
    let host = lab.host(SITE);
    assert_eq!((host.failures, host.waiting, host.later, host.pages), (0, 0, 0, 8));
    assert_eq!(host.ended, 12, "eight pages, and four tickets that found nobody");
}

#[test]
fn fin_03_a_redirected_robots_txt_is_asked_for_at_the_next_address_too() {
    let mut lab = site("192.0.2.9", "192.0.2.1", 1);
    lab.web.addresses.insert("http://b.test".into(), list("192.0.2.1 192.0.2.2"));
    lab.web.redirects.insert(format!("{SITE}/robots.txt"), "http://b.test/robots.txt".into());
    lab.run(30_000);
    assert_eq!(asked_at(&lab.robots), ["192.0.2.9", "192.0.2.1", "192.0.2.2"]);
    assert_eq!((lab.pages.len(), lab.frontier.gauges().errands), (1, 0));
}

#[test]
fn fin_03_the_turn_of_the_next_address_is_asked_for() {
    let mut lab = site("192.0.2.1 192.0.2.2", "192.0.2.1", 1);
    lab.frontier.share_slots();
    lab.grants = Some(10_000);
    lab.run(10_000);
    let asks = lab.turns.iter().filter_map(|(at, turn)| match turn {
        SlotAction::Ask(slot) => Some((*slot, *at)),
        SlotAction::GiveBack { .. } => None,
    });
    let asks: Vec<_> = asks.collect();
    let slots: Vec<SlotKey> = list("192.0.2.1 192.0.2.2").into_iter().map(SlotKey::of).collect();
    assert_eq!(asks.iter().map(|(slot, _)| *slot).collect::<Vec<_>>(), slots);
    assert_eq!(lab.robots[1].ticket.address, list("192.0.2.2")[0]);
    assert!(lab.robots[1].at >= asks[1].1, "nothing starts there without its turn");
}
