//! Unreachable hosts: no address, no answering server, or no trusted server.
//!
//! The URLs in the queue of such a host were never tried, so they stay there while the host rests: the name may come
//! back, the server may be started again. The crawl waits for the host. Only after as many consecutive failures as a
//! URL may have (`retry.retries_max` retries) is the host **given up**: all its URLs end with the reason, and are
//! planned like any failed URL. A host without any known answer whose name does not exist is given up at once: the
//! resolver's answer is final, and most such names are typing errors. A host that has answered once, or that is in
//! backoff already, may come back.
//!
//! Invariants: no URL ends because of its host unless the host is given up; once the entries of a given-up host are
//! folded, its queue has only URLs that arrived since; a requested robots.txt has exactly one answer, however the name
//! resolution of its host fails meanwhile.

use std::time::Duration;

use super::report::{RobotsReport, unreachable};
use super::retry::{self, UrlNext};
use super::workbench::{HostIndex, RobotsPhase};
use super::{Frontier, REST_MAX};
use crate::planted::{self, Bug};
use crate::robots::policy::RobotsResult;
use crate::spider::outcome::{Action, Outcome};
use crate::state::record::RobotsPolicy;
use crate::state::{State, StateError};
use crate::time::{Now, Timestamp};

impl<S: State> Frontier<S> {
    /// The name of a host could not be resolved: backoff, or the host is given up.
    pub(super) fn no_address(
        &mut self,
        index: HostIndex,
        outcome: Outcome,
        now: Now,
    ) -> Result<(), StateError> {
        let host = self.bench.host(index);
        let (key, failures, guest) = (host.key, host.failures, host.guest);
        let next = retry::next(outcome, 0, failures, None, key.domain.0, &self.config.retry);
        let rest = next.host_rest.or(match next.url {
            UrlNext::Again { after } => Some(after),
            _ => None,
        });
        let rest = rest.unwrap_or(self.config.retry.back_off_other_first);
        let waits = retry::is_about_the_host(outcome) && !self.is_last_word(index, outcome)?;
        if guest || !waits || self.gives_up(outcome, failures) {
            if outcome.action() != Action::Pause {
                self.bench.host_mut(index).failures = failures.saturating_add(1);
            }
            self.give_up(index, outcome, rest, now);
            return Ok(());
        }
        self.bench.unresolved(index, outcome, now.mono);
        self.strand(index);
        let host = self.bench.host_mut(index);
        // The host may have been given up before for another reason, perhaps a local failure: its remaining URLs wait
        // now.
        (host.more, host.given_up) = (true, false);
        if host.robots == RobotsPhase::Asked {
            // The robots.txt is under way, here or on an errand elsewhere, and gets its one answer from there.
            host.failures = failures.saturating_add(1);
            self.rest(index, rest, now);
        } else {
            // Without an address the robots.txt cannot be read either (RFC 9309, 2.3.1.4), and nothing may be fetched.
            // The robots.txt counts as requested until that is in the log, so that no request for the file is open
            // then.
            host.robots = RobotsPhase::Asked;
            let report = RobotsReport { unconnected: true, ..unreachable() };
            self.robots_answered(index, RobotsResult::Unreachable, report, now)?;
        }
        self.look_again(index, now);
        Ok(())
    }

    /// Whether the resolver says that the host does not exist, and no record contradicts that answer.
    fn is_last_word(&mut self, index: HostIndex, outcome: Outcome) -> Result<bool, StateError> {
        if !matches!(outcome, Outcome::DnsNxdomain | Outcome::DnsNodata | Outcome::DnsNullAddress) {
            return Ok(false);
        }
        let key = self.bench.host(index).key;
        let Some(partition) = self.partition_of(&key) else { return Ok(true) };
        let record = self.partitions[partition].state.host(&key)?.unwrap_or_default();
        // A robots.txt that was read or found missing came from a server. An unreachable robots.txt may have been read
        // before: the crawl waits for its host, and the second look-up does not give up the URLs that the first one
        // left.
        Ok(record.robots.policy == RobotsPolicy::Unknown)
    }

    /// Whether a host with this outcome is given up after this number of consecutive failures.
    pub(super) fn gives_up(&self, outcome: Outcome, failures: u8) -> bool {
        if outcome.is_host_forbidden() {
            return true;
        }
        let often = failures >= self.config.retry.retries_max || planted::is(Bug::GivenUpEarly);
        retry::is_about_the_host(outcome) && often
    }

    /// Gives a host up: all its URLs are read again and end with the reason; then the host rests. Returns the end of
    /// the rest.
    pub(super) fn give_up(
        &mut self,
        index: HostIndex,
        outcome: Outcome,
        rest: Duration,
        now: Now,
    ) -> Timestamp {
        let rest = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX).min(REST_MAX);
        self.bench.unresolved(index, outcome, now.mono + rest);
        self.strand(index);
        if self.bench.host(index).guest {
            self.look_again(index, now);
        } else {
            self.bench.drop_heads(index);
            let host = self.bench.host_mut(index);
            (host.more, host.given_up) = (true, true);
            self.make_hungry(index);
        }
        Timestamp(now.wall.0 + rest)
    }

    /// The name resolution of a host failed with this outcome.
    pub fn handle_unresolved(
        &mut self,
        host: crate::key::HostKey,
        outcome: Outcome,
        now: Now,
    ) -> Result<(), StateError> {
        let Some(index) = self.bench.index(&host) else { return Ok(()) };
        self.no_address(index, outcome, now)?;
        self.settle_stranded(now)
    }
}
