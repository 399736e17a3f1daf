//! Errands between nodes: a robots.txt that redirects to a host of another node.
//!
//! The node of the asker sends the owner of that host a message ([`Said`](crate::cluster::errand::Said)); the owner asks
//! it with a ticket of its own, after its rest, as it would for a host of its own, and sends back what came. One hop is one
//! message: where the answer is a redirect again, the node of the asker follows it. So the owner of a host alone decides when
//! it is asked, and the length of a chain is counted by whoever began it.
//!
//! A partition that is on its way from one node to another has nobody who could ask: whoever is asked says so
//! ([`ErrandAction::NotHere`]), and the errand is sent again to the next owner.
//!
//! Messages may be lost. An asker waits for the longest rest and the longest request ([`answer_wait`]) and then counts its
//! robots.txt as not reached, as it does when the owner says that the host cannot be asked soon.
//!
//! What always holds: a number is used once; an asker that waits stands on the bench; what waits to be sent is bounded.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::errand::ERRANDS_MAX;
use super::key::UrlKey;
use super::report::{RobotsAnswer, RobotsReport, unreachable};
use super::workbench::{Asker, Errand, HostIndex};
use super::{Frontier, REST_ON_BENCH};
use crate::cluster::NodeId;
use crate::robots::policy::Answer;
use crate::state::{State, StateError};
use crate::time::Now;
use crate::url::CrawlUrl;

/// How long an asker waits beyond the longest rest and the longest request, in milliseconds: the way there and back.
const WAY: u64 = 10_000;

/// Answers that wait to be sent; one more is lost, as the network may lose it. Each has at most the bytes of one robots.txt.
pub const ANSWERS_MAX: usize = 64;

/// What could not be handed on is tried again after this time, in milliseconds.
const SEND_AGAIN: u64 = 100;

/// Who wants to know, on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwayAsker {
    /// The node.
    pub node: NodeId,
    /// Its number for the errand.
    pub number: u64,
}

/// What is to be sent to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrandAction {
    /// To the owner of this URL: ask for it, and tell us.
    Ask {
        /// Our number for it.
        number: u64,
        /// What is to be asked for.
        url: Box<CrawlUrl>,
    },
    /// To whoever asked us: this came of it.
    Answer {
        /// Who asked.
        to: AwayAsker,
        /// What came.
        report: Box<RobotsReport>,
    },
    /// To whoever asked us: its partition is not here, or not any more; ask its owner again.
    NotHere {
        /// Who asked.
        to: AwayAsker,
    },
}

/// An errand that another node does for us.
#[derive(Debug)]
struct Sent {
    asker: HostIndex,
    chain: Vec<u64>,
    until: u64,
}

/// What is on its way between nodes.
#[derive(Debug)]
pub(super) struct Away {
    /// Are there other nodes?
    shared: bool,
    next: u64,
    /// By number. All wait equally long, so the first is over first.
    sent: BTreeMap<u64, Sent>,
    asks: VecDeque<ErrandAction>,
    answers: VecDeque<ErrandAction>,
}

impl Away {
    /// Numbers begin with the epoch, so that no answer to an earlier process is taken for one of ours.
    pub(super) fn new(ticket_epoch: u64) -> Away {
        let (sent, asks, answers) = (BTreeMap::new(), VecDeque::new(), VecDeque::new());
        Away { shared: false, next: ticket_epoch << 32, sent, asks, answers }
    }

    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    /// When the first one that waits has waited long enough, or what could not be handed on is tried again.
    pub(super) fn poll_timeout(&self, mono: u64) -> Option<u64> {
        let stuck = !self.asks.is_empty() || !self.answers.is_empty();
        let over = self.sent.first_key_value().map(|(_, sent)| sent.until);
        over.into_iter().chain(stuck.then_some(mono + SEND_AGAIN)).min()
    }

    /// Somebody on another node gets an answer.
    pub(super) fn answer(&mut self, to: AwayAsker, report: RobotsReport) {
        self.say(ErrandAction::Answer { to, report: Box::new(report) });
    }

    fn say(&mut self, answer: ErrandAction) {
        if self.answers.len() < ANSWERS_MAX {
            self.answers.push_back(answer);
        }
    }
}

impl<S: State> Frontier<S> {
    /// From here on errands to hosts of other partitions are sent: poll [`Frontier::poll_errand`].
    pub fn share_errands(&mut self) {
        self.away.shared = true;
    }

    /// What is to be sent to another node now.
    pub fn poll_errand(&mut self) -> Option<ErrandAction> {
        self.away.asks.pop_front().or_else(|| self.away.answers.pop_front())
    }

    /// Sends an errand to the node that owns the host. False if there is none.
    pub(super) fn send_away(
        &mut self,
        asker: HostIndex,
        chain: Vec<u64>,
        target: &CrawlUrl,
        now: Now,
    ) -> bool {
        let away = &mut self.away;
        if !away.shared {
            return false;
        }
        let number = away.next;
        away.next += 1;
        let until = now.mono + answer_wait(self.config.frontier.ticket_timeout);
        away.sent.insert(number, Sent { asker, chain, until });
        away.asks.push_back(ErrandAction::Ask { number, url: Box::new(target.clone()) });
        true
    }

    /// Another node asks us to ask a host of ours.
    pub fn handle_errand(&mut self, to: AwayAsker, url: &CrawlUrl, now: Now) -> Result<(), StateError> {
        if !self.is_asked_here(url) {
            self.away.say(ErrandAction::NotHere { to });
            return Ok(());
        }
        let origin = url.origin();
        let room = self.bench.errands() < ERRANDS_MAX;
        let index = if room { self.host_to_ask(url, &origin, now)? } else { None };
        match index.filter(|index| self.is_free(*index, now)) {
            Some(index) => {
                let url = [&*origin, url.path_and_query()].concat().into();
                let asker = Asker::Away(to);
                self.bench.send(index, Errand { asker, url, chain: Vec::new(), second: false });
            }
            None => self.away.answer(to, unreachable()),
        }
        self.settle_stranded(now)
    }

    /// An errand of another node is over.
    pub(super) fn answer_away(&mut self, asked: HostIndex, to: AwayAsker, report: RobotsReport, now: Now) {
        self.asked_for_another(asked, &report, now);
        self.away.answer(to, report);
    }

    /// What another node found out for us. A number that nobody waits for any more changes nothing: gives false.
    pub fn handle_errand_answered(
        &mut self,
        number: u64,
        mut report: RobotsReport,
        now: Now,
    ) -> Result<bool, StateError> {
        let Some(Sent { asker, chain, .. }) = self.away.sent.remove(&number) else { return Ok(false) };
        let answer = match &report.answer {
            RobotsAnswer::Ended(answer) => Some(*answer),
            RobotsAnswer::Redirect(target) => self.follow(asker, chain, target, now)?,
        };
        // What happened there says nothing about whether the asker can be reached.
        (report.unconnected, report.again, report.cause) = (false, false, None);
        if let Some(answer) = answer {
            self.robots_answered(asker, answer, report, now)?;
        }
        self.settle_stranded(now)?;
        Ok(true)
    }

    /// Is a URL of a partition that is here and stays?
    pub(super) fn is_asked_here(&self, url: &CrawlUrl) -> bool {
        let partition = self.partition_of(&UrlKey::of(url, &self.secret).host);
        partition.is_some_and(|partition| !self.partitions[partition].closing)
    }

    /// An errand waits with a host whose partition leaves: its next owner is asked.
    pub(super) fn hand_on(&mut self, errand: Errand, now: Now) {
        match errand.asker {
            Asker::Away(to) => self.away.say(ErrandAction::NotHere { to }),
            Asker::Here(asker) if self.bench.host(asker).leaving => self.bench.want_robots(asker, false),
            Asker::Here(asker) => {
                let sent = CrawlUrl::parse(&errand.url)
                    .is_ok_and(|target| self.send_away(asker, errand.chain, &target, now));
                if !sent {
                    self.stranded.push(asker);
                }
            }
        }
    }

    /// Those who waited too long have an answer: none.
    pub(super) fn end_waiting(&mut self, now: Now) -> Result<(), StateError> {
        while let Some(entry) = self.away.sent.first_entry().filter(|entry| entry.get().until <= now.mono) {
            let asker = entry.remove().asker;
            self.robots_answered(asker, Answer::Unreachable, unreachable(), now)?;
        }
        self.settle_stranded(now)
    }

    /// Hosts that leave with their partition wait for nobody: whoever owns them next asks for their robots.txt anew.
    pub(super) fn wait_no_more(&mut self) {
        let leaves = |sent: &Sent| self.bench.host(sent.asker).leaving;
        let theirs = self.away.sent.iter().filter(|(_, sent)| leaves(sent)).map(|(number, _)| *number);
        for number in Vec::from_iter(theirs) {
            if let Some(sent) = self.away.sent.remove(&number) {
                self.bench.want_robots(sent.asker, false);
            }
        }
    }
}

/// How long an asker waits for an answer from another node, in milliseconds.
fn answer_wait(ticket_timeout: Duration) -> u64 {
    REST_ON_BENCH + u64::try_from(ticket_timeout.as_millis()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4) + WAY
}
