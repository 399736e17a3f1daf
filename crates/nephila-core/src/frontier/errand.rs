//! Redirected robots.txt files: every hop is a request of its own, with a ticket of its own.
//!
//! A hop to the same host follows after its rest. A hop to another host is an **errand** of that host: the request is
//! made when that host and its address have rested, whatever its own robots.txt says (a robots.txt may always be
//! fetched). The answer belongs to the host that was redirected. If no request is possible soon (the target is stopped,
//! has no address, is in backoff, has too many errands), the robots.txt counts as unreachable, and is requested again
//! after the backoff of its own host. A host of a partition on another node is requested by its owner: see
//! [`super::away`].
//!
//! Errands live in memory alone: after a restart a robots.txt is requested again from its beginning. `Retry-After` at
//! the end of a chain is durable for the asker, and holds for the host that sent the header field as long as the
//! process lives.
//!
//! Invariants: a chain has at most [`REDIRECTS_MAX`] hops and never visits a URL twice; at the end of every public call
//! no host is left stranded.

use xxhash_rust::xxh3::xxh3_64;

use super::partition::Home;
use super::report::{RobotsAnswer, RobotsReport, unreachable};
use super::workbench::{ActiveHost, Asker, Errand, HostIndex, Open};
use super::{Frontier, REST_MAX, REST_ON_BENCH, dates};
use crate::robots::policy::{REDIRECTS_MAX, RobotsResult};
use crate::state::record::HostRecord;
use crate::state::{State, StateError};
use crate::time::Now;
use crate::url::CrawlUrl;

/// Maximum number of errands that wait with one host.
pub const HOST_ERRANDS_MAX: usize = 16;

/// Maximum number of errands that wait or are under way, and of hosts loaded for errands alone.
pub const ERRANDS_MAX: usize = 4_096;

impl<S: State> Frontier<S> {
    /// A ticket for a robots.txt, or for a hop of one, was reported.
    pub(super) fn robots_reported(
        &mut self,
        mut open: Open,
        mut report: RobotsReport,
        now: Now,
    ) -> Result<(), StateError> {
        let asked = open.host;
        let elsewhere = report.unconnected && self.goes_elsewhere(asked, open.address, now);
        let again = report.again && !open.second;
        if elsewhere || again {
            // No request was made, or no answer can have come: repeat at another address or on a new connection.
            let second = open.second || again;
            let host = self.bench.host(asked);
            let able = !host.leaving && host.no_address.is_none();
            match open.errand.take() {
                None => {
                    self.bench.want_robots(asked, second);
                    self.look_again(asked, now);
                    return Ok(());
                }
                Some(errand) if able => {
                    self.bench.send_again(asked, Errand { second, ..*errand });
                    return Ok(());
                }
                // A host that cannot be requested soon keeps no asker waiting.
                errand => open.errand = errand,
            }
        }
        let (asker, chain) = match open.errand {
            Some(errand) => match errand.asker {
                Asker::Here(asker) => (asker, errand.chain),
                Asker::Away(to) => {
                    self.answer_away(asked, to, report, now);
                    return Ok(());
                }
            },
            None => {
                let first = [&*self.bench.host(asked).origin, "/robots.txt"].concat();
                (asked, vec![xxh3_64(first.as_bytes())])
            }
        };
        let answer = match &report.answer {
            RobotsAnswer::Ended(answer) => Some(*answer),
            RobotsAnswer::Redirect(target) => self.follow(asker, chain, target, now)?,
        };
        if asked != asker {
            self.asked_for_another(asked, &report, now);
            // The result there does not tell whether the asker can be reached.
            report.cause = None;
        }
        match answer {
            Some(answer) => self.robots_answered(asker, answer, report, now),
            None => Ok(()),
        }
    }

    /// A host was requested for another host: if the answer demands a rest, the rest also holds for the requested host.
    pub(super) fn asked_for_another(&mut self, asked: HostIndex, report: &RobotsReport, now: Now) {
        if let (RobotsAnswer::Ended(RobotsResult::Status(429 | 503)), Some(after)) =
            (&report.answer, report.retry_after)
        {
            self.rest(asked, after.min(self.config.retry.retry_after_max), now);
        }
        self.look_again(asked, now);
    }

    /// Sends an errand to the target of a redirect. Returns the answer if that is not possible.
    pub(super) fn follow(
        &mut self,
        asker: HostIndex,
        mut chain: Vec<u64>,
        target: &CrawlUrl,
        now: Now,
    ) -> Result<Option<RobotsResult>, StateError> {
        let origin = target.origin();
        let url = [origin, target.path_and_query()].concat();
        let hash = xxh3_64(url.as_bytes());
        if chain.len() > REDIRECTS_MAX || chain.contains(&hash) {
            return Ok(Some(RobotsResult::RedirectLimit));
        }
        chain.push(hash);
        if self.bench.errands() + self.away.len() >= ERRANDS_MAX {
            return Ok(Some(RobotsResult::Unreachable));
        }
        let index = match *self.bench.host(asker).origin == *origin {
            true => Some(asker),
            false if !self.is_asked_here(target) => {
                let sent = self.send_away(asker, chain, target, now);
                return Ok((!sent).then_some(RobotsResult::Unreachable));
            }
            false => self.host_to_ask(target, origin, now)?,
        };
        let Some(index) = index.filter(|index| self.is_free(*index, now)) else {
            return Ok(Some(RobotsResult::Unreachable));
        };
        let asker = Asker::Here(asker);
        self.bench.send(index, Errand { asker, url: url.into(), chain, second: false });
        Ok(None)
    }

    /// Whether a host can be requested on behalf of another host soon.
    pub(super) fn is_free(&self, index: HostIndex, now: Now) -> bool {
        let host = self.bench.host(index);
        let soon = self.bench.host_ready_at(index) <= now.mono + REST_ON_BENCH;
        let able = !host.leaving && host.no_address.is_none();
        able && soon && host.errands.len() < HOST_ERRANDS_MAX
    }

    /// The host of a URL, loaded as a guest if necessary. `None` if the host belongs to another node or cannot be
    /// requested now.
    pub(super) fn host_to_ask(
        &mut self,
        target: &CrawlUrl,
        origin: &str,
        now: Now,
    ) -> Result<Option<HostIndex>, StateError> {
        let mut key = self.key(target).host;
        let Some(partition) = self.partition_of(&key) else { return Ok(None) };
        if self.partitions[partition].home(key, origin, &self.secret) != Home::Here {
            return Ok(None);
        }
        let state = &mut self.partitions[partition].state;
        if let Some(&host) = state.meta().displaced.get(&(key.domain, origin.into())) {
            key.host = host;
        }
        if let Some(index) = self.bench.index(&key) {
            // Another host of its domain may have this key; the host gets its own key when one of its URLs is found.
            return Ok(Some(index).filter(|index| *self.bench.host(*index).origin == *origin));
        }
        let record = state.host(&key)?.unwrap_or_default();
        let other = !record.origin.is_empty() && *record.origin != *origin;
        let rest = dates::rest_until(&record, now.wall).0.saturating_sub(now.wall.0).min(REST_MAX);
        let ready_at = self.bench.resting_until(&key).unwrap_or(0).max(now.mono + rest);
        let late = ready_at > now.mono + REST_ON_BENCH;
        if other || late || !record.stopped.is_empty() || self.bench.guests() >= ERRANDS_MAX {
            return Ok(None);
        }
        let mut host = ActiveHost::fresh(key, origin.into());
        host.guest = true;
        host.more = false;
        host.remember(&record);
        Ok(Some(self.bench.activate(host, ready_at)))
    }

    /// A guest has work of its own and becomes an ordinary host if there is room.
    pub(super) fn adopt(&mut self, partition: usize, index: HostIndex, record: &HostRecord, now: Now) {
        let closing = self.partitions[partition].closing;
        if !record.stopped.is_empty() || record.origin.is_empty() || closing {
            return;
        }
        let host = self.bench.host(index);
        if host.origin != record.origin {
            // Two hosts share 32 bits, and the other one was found first: the key belongs to the other one.
            self.bench.host_mut(index).leaving = true;
            self.give_up_place(index, now);
            return;
        }
        let key = host.key;
        if !self.bench.has_room_for(key.domain) {
            self.starved = true;
            self.partitions[partition].search();
            return;
        }
        self.bench.adopt(index);
        let ahead_max = self.plan_ahead_max(partition);
        let planned = self.partitions[partition].plans_due(&key, record);
        let later_next = planned.map(|due| dates::believed(due, ahead_max, now.wall));
        let robots = super::after::robots_phase(record, &self.config.retry, now);
        self.partitions[partition].awakes(&key);
        let host = self.bench.host_mut(index);
        host.cursor = record.floor;
        host.later_cursor = record.later_floor;
        host.later_next = later_next;
        host.robots = robots;
        host.more = true;
        host.leaving = false;
        self.make_hungry(index);
        self.bench.wait(index);
    }

    /// Ends the errands that wait with a host: the host cannot be requested soon.
    pub(super) fn strand(&mut self, index: HostIndex) {
        for errand in self.bench.take_back_errands(index) {
            match errand.asker {
                Asker::Here(asker) => self.stranded.push(asker),
                Asker::Away(to) => self.away.answer(to, unreachable()),
            }
        }
    }

    /// Ends the errands of a host if its rest is longer than an asker waits.
    pub(super) fn strand_if_long(&mut self, index: HostIndex, now: Now) {
        if self.bench.host_ready_at(index) > now.mono + REST_ON_BENCH {
            self.strand(index);
            self.look_again(index, now);
        }
    }

    /// Gives the askers of ended errands their answer: unreachable. The backoff of an asker may strand others, so this
    /// loops until none is left.
    pub(super) fn settle_stranded(&mut self, now: Now) -> Result<(), StateError> {
        while let Some(asker) = self.stranded.pop() {
            self.robots_answered(asker, RobotsResult::Unreachable, unreachable(), now)?;
        }
        Ok(())
    }
}
