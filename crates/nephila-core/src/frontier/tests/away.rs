//! robots.txt files on a host of another node: only the owner of a host sends requests to the host.

use std::time::Duration;

use super::lab::{Lab, MONO, config, key};
use crate::cluster::NodeId;
use crate::entry::{Entry, HostChange};
use crate::frontier::away::{ANSWERS_MAX, AwayAsker, ErrandAction};
use crate::frontier::report::{RobotsAnswer, RobotsReport};
use crate::key::Prefixes;
use crate::robots::policy::RobotsResult;
use crate::state::record::RobotsPolicy;

/// Two nodes, with a partition each.
struct Two {
    labs: [Lab; 2],
    /// Whether messages are lost from here on.
    cut: bool,
    /// Errands that reached the wrong node: the sender and the number.
    refused: Vec<(usize, u64)>,
}

const NODES: [&str; 2] = ["one", "two"];

fn node(name: &str) -> NodeId {
    NodeId::of(name)
}

/// The `n`th host of a node, as an origin.
fn of(number: u32, n: usize) -> String {
    let hosts = (0..).map(|n| format!("http://h{n}.test"));
    let share = Prefixes::share(number, 2);
    hosts.filter(|origin| share.holds(key(&format!("{origin}/")).host.domain)).nth(n).unwrap()
}

impl Two {
    fn new() -> Two {
        Two { labs: [0, 1].map(|number| Lab::one_of(config(), number, 2)), cut: false, refused: Vec::new() }
    }

    fn redirect(&mut self, from: &str, to: &str) {
        for lab in &mut self.labs {
            lab.web.redirects.insert(from.into(), to.into());
        }
    }

    fn rules(&mut self, origin: &str, text: &str) {
        for lab in &mut self.labs {
            let answer = (RobotsResult::Status(200), format!("User-agent: *\n{text}\n"));
            lab.web.robots.insert(origin.into(), answer);
        }
    }

    /// Lets this number of milliseconds pass; messages arrive 50 ms later.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 50 {
            for lab in &mut self.labs {
                lab.run(50);
            }
            for at in 0..2 {
                for errand in std::mem::take(&mut self.labs[at].errands) {
                    if !self.cut {
                        self.carry(at, errand);
                    }
                }
            }
        }
    }

    fn carry(&mut self, from: usize, errand: ErrandAction) {
        let to = &mut self.labs[1 - from];
        match errand {
            ErrandAction::Ask { number, url } => {
                let asker = AwayAsker { node: node(NODES[from]), number };
                to.frontier.handle_errand(asker, &url, to.now).unwrap();
            }
            ErrandAction::NotHere { to: asker } => self.refused.push((1 - from, asker.number)),
            ErrandAction::Answer { to: asker, report } => {
                assert_eq!(asker.node, node(NODES[1 - from]), "an answer goes to who asked");
                to.frontier.handle_errand_answered(asker.number, *report, to.now).unwrap();
            }
        }
    }

    fn asked(&self, at: usize) -> Vec<(u64, &str)> {
        self.labs[at].robots.iter().map(|start| (start.at - MONO, &*start.ticket.url)).collect()
    }

    fn nothing_left(&self) {
        for lab in &self.labs {
            let gauges = lab.frontier.gauges();
            assert_eq!((gauges.errands, gauges.guests, gauges.hosts_active), (0, 0, 0));
        }
    }
}

#[test]
fn pro_01_a_hop_to_a_host_of_another_node_is_asked_by_that_node_and_answered() {
    let (ours, theirs) = (of(0, 0), of(1, 0));
    let mut two = Two::new();
    two.redirect(&format!("{ours}/robots.txt"), &format!("{theirs}/robots.txt"));
    two.rules(&theirs, "Disallow: /private\nCrawl-delay: 3");
    two.labs[0].offer(&[&format!("{ours}/private"), &format!("{ours}/open")]);
    two.run(20_000);
    assert_eq!(two.asked(0), [(0, &*format!("{ours}/robots.txt"))], "nobody asks a host of another node");
    assert_eq!(two.asked(1).len(), 1);
    assert_eq!(two.labs[0].urls(), [format!("{ours}/open")]);
    let host = two.labs[0].host(&format!("{ours}/"));
    assert_eq!((host.robots.policy, host.robots.crawl_delay), (RobotsPolicy::Rules, 3_000));
    two.nothing_left();
}

#[test]
fn pro_01_the_owner_of_a_host_lets_it_rest_before_it_is_asked_for_another() {
    let (ours, theirs) = (of(0, 0), of(1, 0));
    let mut two = Two::new();
    two.redirect(&format!("{ours}/robots.txt"), &format!("{theirs}/r"));
    two.labs[1].offer(&[&format!("{theirs}/1"), &format!("{theirs}/2"), &format!("{theirs}/3")]);
    two.labs[0].offer(&[&format!("{ours}/1")]);
    // Each lab checks every rest.
    two.run(30_000);
    assert!(two.asked(1).iter().any(|(_, url)| url.ends_with("/r")));
    assert_eq!((two.labs[0].pages.len(), two.labs[1].pages.len()), (1, 3));
    two.nothing_left();
}

#[test]
fn pro_01_a_chain_that_comes_back_is_followed_and_a_circle_ends() {
    let (ours, theirs, third) = (of(0, 0), of(1, 0), of(0, 1));
    let mut two = Two::new();
    two.redirect(&format!("{ours}/robots.txt"), &format!("{theirs}/r"));
    two.redirect(&format!("{theirs}/r"), &format!("{third}/r"));
    two.rules(&third, "Disallow: /private");
    two.labs[0].offer(&[&format!("{ours}/private"), &format!("{ours}/open")]);
    two.run(20_000);
    assert_eq!(two.labs[0].urls(), [format!("{ours}/open")]);
    two.nothing_left();

    let mut two = Two::new();
    two.redirect(&format!("{ours}/robots.txt"), &format!("{theirs}/r"));
    two.redirect(&format!("{theirs}/r"), &format!("{ours}/robots.txt"));
    two.labs[0].offer(&[&format!("{ours}/1")]);
    two.run(20_000);
    assert_eq!((two.asked(0).len(), two.asked(1).len()), (1, 1));
    assert_eq!(two.labs[0].host(&format!("{ours}/")).robots.policy, RobotsPolicy::AllowAll);
    two.nothing_left();
}

#[test]
fn pro_01_what_cannot_be_asked_or_is_lost_counts_as_not_reached_and_is_tried_again() {
    let (ours, theirs) = (of(0, 0), of(1, 0));
    for stopped in [true, false] {
        let mut two = Two::new();
        two.redirect(&format!("{ours}/robots.txt"), &format!("{theirs}/r"));
        two.labs[1].offer(&[&format!("{theirs}/1")]);
        two.run(5_000);
        let host = key(&format!("{theirs}/")).host;
        match stopped {
            true => two.labs[1].say(Entry::Host(HostChange::Stop(host, "no".into()))),
            false => two.cut = true,
        }
        two.labs[0].offer(&[&format!("{ours}/1")]);
        // The longest rest, the longest request, and the way.
        two.run(if stopped { 5_000 } else { 380_000 });
        assert_eq!(two.labs[0].host(&format!("{ours}/")).robots.policy, RobotsPolicy::DisallowAll);
        assert!(two.labs[0].pages.is_empty());
        match stopped {
            true => two.labs[1].say(Entry::Host(HostChange::Resume(host))),
            false => two.cut = false,
        }
        two.run(6 * 3_600_000);
        assert_eq!(two.labs[0].urls(), [format!("{ours}/1")], "stopped: {stopped}");
        two.nothing_left();
    }
}

#[test]
fn pro_01_an_answer_that_nobody_waits_for_changes_nothing() {
    let mut lab = Lab::one_of(config(), 0, 2);
    let before = lab.frontier.poll_timeout(lab.now);
    let report = || RobotsReport::of(RobotsResult::Status(200), Duration::ZERO);
    for number in [0, 1 << 32, u64::MAX] {
        assert!(!lab.frontier.handle_errand_answered(number, report(), lab.now).unwrap());
    }
    assert_eq!(lab.frontier.poll_timeout(lab.now), before);
}

#[test]
fn pro_01_who_asks_without_end_is_answered_and_takes_no_more_room() {
    let theirs = of(0, 0);
    let mut lab = Lab::one_of(config(), 0, 2);
    let url = super::lab::url(&format!("{theirs}/r"));
    for number in 0..10_000 {
        lab.frontier.handle_errand(AwayAsker { node: node("two"), number }, &url, lab.now).unwrap();
    }
    let mut answers = 0;
    while let Some(errand) = lab.frontier.poll_errand() {
        let ErrandAction::Answer { report, .. } = errand else { panic!("nothing is asked for") };
        assert_eq!(report.answer, RobotsAnswer::Ended(RobotsResult::Unreachable));
        answers += 1;
    }
    assert_eq!(answers, ANSWERS_MAX);
    assert_eq!(lab.frontier.gauges().errands, crate::frontier::errand::HOST_ERRANDS_MAX);
}

#[test]
fn pro_01_a_partition_that_goes_waits_for_no_other_node() {
    let (ours, theirs) = (of(0, 0), of(1, 0));
    let mut two = Two::new();
    two.redirect(&format!("{ours}/robots.txt"), &format!("{theirs}/r"));
    two.labs[0].offer(&[&format!("{ours}/1")]);
    two.cut = true;
    two.run(2_000);
    assert_eq!(two.labs[0].frontier.gauges().errands, 1);
    let now = two.labs[0].now;
    two.labs[0].frontier.close_partition(0, now);
    two.run(2_000);
    assert!(two.labs[0].frontier.is_closed(0));
    assert_eq!(two.labs[0].frontier.gauges().errands, 0);
}

#[test]
fn pro_01_a_partition_that_goes_hands_its_errands_on() {
    let (ours, theirs, beside) = (of(0, 0), of(1, 0), of(1, 1));
    let mut two = Two::new();
    for from in [&ours, &beside] {
        two.redirect(&format!("{from}/robots.txt"), &format!("{theirs}/r"));
    }
    two.labs[1].offer(&[&format!("{theirs}/1"), &format!("{beside}/1")]);
    two.labs[0].offer(&[&format!("{ours}/1")]);
    two.run(300);
    assert_eq!(two.labs[1].frontier.gauges().errands, 2, "both wait for the rest of their host");
    let now = two.labs[1].now;
    two.labs[1].frontier.close_partition(0, now);
    two.run(2_000);
    let (asker, number) = two.refused[0];
    assert_eq!((two.refused.len(), asker), (1, 0), "who asked is told to ask the next owner");
    assert!(two.labs[1].frontier.is_closed(0));
    assert_eq!(two.labs[0].frontier.gauges().errands, 1, "and waits for that one");
    // A closing partition gives the same answer to a second errand.
    let url = super::lab::url(&format!("{theirs}/r"));
    let (asker, lab) = (AwayAsker { node: node("one"), number }, &mut two.labs[1]);
    lab.frontier.handle_errand(asker, &url, lab.now).unwrap();
    assert_eq!(lab.frontier.poll_errand(), Some(ErrandAction::NotHere { to: asker }));
}
