//! Errands between nodes: a robots.txt that redirects to a host of another node.
//!
//! The node of the asker sends a message to the owner of that host ([`Said`](crate::cluster::errand::Said)). The owner
//! requests the URL with a ticket of its own, after the host's rest, and sends back the answer. One hop is one message:
//! if the answer is another redirect, the node of the asker follows the redirect. So the owner of a host alone
//! schedules its requests, and the node of the asker bounds the length of the chain.
//!
//! During a hand-over a partition has no owner that could send requests: the receiver of the message says so
//! ([`ErrandAction::NotHere`]), and the errand is sent again to the next owner.
//!
//! Messages may be lost. An asker waits for the longest rest and the longest request ([`answer_wait`]). After that
//! timeout its robots.txt counts as unreachable, as when the owner answers that the host cannot be requested soon.
//!
//! Invariants: an errand number is used once; a waiting asker stays on the workbench; the send queues are bounded.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::errand::ERRANDS_MAX;
use super::report::{RobotsAnswer, RobotsReport, unreachable};
use super::workbench::{Asker, Errand, HostIndex};
use super::{Frontier, REST_ON_BENCH};
use crate::key::NodeId;
use crate::robots::policy::RobotsResult;
use crate::state::{State, StateError};
use crate::time::Now;
use crate::url::CrawlUrl;

/// Network time added to the longest rest and the longest request when an asker waits, in milliseconds.
const WAY: u64 = 10_000;

/// Maximum number of answers that wait to be sent. Further answers are lost, as the network may lose them. Each has at
/// most the bytes of one robots.txt.
pub const ANSWERS_MAX: usize = 64;

/// Retry interval for messages that could not be sent, in milliseconds.
const SEND_AGAIN: u64 = 100;

/// The sender of an errand on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwayAsker {
    /// The node.
    pub node: NodeId,
    /// The sender's number of the errand.
    pub number: u64,
}

/// A message to send to another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrandAction {
    /// To the owner of this URL: request the URL, and answer.
    Ask {
        /// The number of the errand on this node.
        number: u64,
        /// The URL to request.
        url: Box<CrawlUrl>,
    },
    /// To the sender of an errand: its answer.
    Answer {
        /// The sender.
        to: AwayAsker,
        /// The answer.
        report: Box<RobotsReport>,
    },
    /// To the sender of an errand: the partition is not, or no longer, here; send the errand to the owner again.
    NotHere {
        /// The sender.
        to: AwayAsker,
    },
}

/// An errand that another node performs for a host of this node.
#[derive(Debug)]
struct Sent {
    asker: HostIndex,
    chain: Vec<u64>,
    until: u64,
}

/// Errands between nodes.
#[derive(Debug)]
pub(super) struct Away {
    /// Whether there are other nodes.
    shared: bool,
    next: u64,
    /// By errand number. All have the same timeout, so the first expires first.
    sent: BTreeMap<u64, Sent>,
    asks: VecDeque<ErrandAction>,
    answers: VecDeque<ErrandAction>,
}

impl Away {
    /// Numbers begin with the epoch, so that an answer to an earlier process never matches an errand of this one.
    pub(super) fn new(ticket_epoch: u64) -> Away {
        let (sent, asks, answers) = (BTreeMap::new(), VecDeque::new(), VecDeque::new());
        Away { shared: false, next: ticket_epoch << 32, sent, asks, answers }
    }

    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    /// When the first errand times out, or an unsent message is tried again.
    pub(super) fn poll_timeout(&self, mono: u64) -> Option<u64> {
        let stuck = !self.asks.is_empty() || !self.answers.is_empty();
        let over = self.sent.first_key_value().map(|(_, sent)| sent.until);
        over.into_iter().chain(stuck.then_some(mono + SEND_AGAIN)).min()
    }

    /// Queues an answer to another node.
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

    /// The next message to send to another node, or `None`.
    pub fn poll_errand(&mut self) -> Option<ErrandAction> {
        self.away.asks.pop_front().or_else(|| self.away.answers.pop_front())
    }

    /// Sends an errand to the node that owns the host. Returns `false` if there are no other nodes.
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

    /// Another node sends an errand for a host of this node.
    pub fn handle_errand(&mut self, to: AwayAsker, url: &CrawlUrl, now: Now) -> Result<(), StateError> {
        if !self.is_asked_here(url) {
            self.away.say(ErrandAction::NotHere { to });
            return Ok(());
        }
        let origin = url.origin();
        let room = self.bench.errands() < ERRANDS_MAX;
        let index = if room { self.host_to_ask(url, origin, now)? } else { None };
        match index.filter(|index| self.is_free(*index, now)) {
            Some(index) => {
                let url = [origin, url.path_and_query()].concat().into();
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

    /// The answer of another node. Returns `false`, without effect, if no host waits for this number.
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
        // The result there does not tell whether the asker can be reached.
        (report.unconnected, report.again, report.cause) = (false, false, None);
        if let Some(answer) = answer {
            self.robots_answered(asker, answer, report, now)?;
        }
        self.settle_stranded(now)?;
        Ok(true)
    }

    /// Whether a URL belongs to a partition that is here and stays.
    pub(super) fn is_asked_here(&self, url: &CrawlUrl) -> bool {
        let partition = self.partition_of(&self.key(url).host);
        partition.is_some_and(|partition| !self.partitions[partition].closing)
    }

    /// An errand waits with a host whose partition leaves: sends the errand to the next owner.
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

    /// Ends errands that have timed out: their robots.txt counts as unreachable.
    pub(super) fn end_waiting(&mut self, now: Now) -> Result<(), StateError> {
        while let Some(entry) = self.away.sent.first_entry().filter(|entry| entry.get().until <= now.mono) {
            let asker = entry.remove().asker;
            self.robots_answered(asker, RobotsResult::Unreachable, unreachable(), now)?;
        }
        self.settle_stranded(now)
    }

    /// Hosts of a leaving partition stop waiting for answers: the next owner fetches their robots.txt anew.
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

/// Timeout of an errand on another node, in milliseconds.
fn answer_wait(ticket_timeout: Duration) -> u64 {
    REST_ON_BENCH + u64::try_from(ticket_timeout.as_millis()).unwrap_or(u64::MAX / 4).min(u64::MAX / 4) + WAY
}
