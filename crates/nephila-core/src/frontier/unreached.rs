//! Hosts that cannot be reached: no address, nobody who answers, nobody who can be trusted.
//!
//! What a host has in its queue was never tried, so it stays there while the host rests: the name may come back, the
//! server may be started again. A crawl waits for it. Only when a host has failed in a row as often as a URL may fail
//! (`retry.retries_max` second tries) is it **given up**: everything it has ends with the reason, and is planned like
//! anything that failed. A name that does not exist, of a host that nothing is known of, is given up at once: that is the
//! resolver's last word, and most such names are slips of the pen. A host that has answered once, or that is waited for
//! already, may come back.
//!
//! What always holds: no URL of a host that is not given up ends because of its host; a host that is given up has nothing
//! left in its queue when its entries are folded, but what came since; a robots.txt that is asked for has one answer, however
//! the name of its host fails meanwhile.

use std::time::Duration;

use super::report::{RobotsReport, unreachable};
use super::retry::{self, UrlNext};
use super::workbench::{HostIndex, RobotsPhase};
use super::{Frontier, REST_MAX};
use crate::planted::{self, Bug};
use crate::robots::policy::Answer;
use crate::spider::outcome::{Action, Outcome};
use crate::state::record::RobotsPolicy;
use crate::state::{State, StateError};
use crate::time::{Now, Timestamp};

impl<S: State> Frontier<S> {
    /// The name of a host could not be resolved.
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
        // It may have been given up before for another reason, of ours perhaps: what it has left waits now.
        (host.more, host.given_up) = (true, false);
        if host.robots == RobotsPhase::Asked {
            // Its robots.txt is under way, here or on an errand elsewhere, and has its answer from there: one, and not two.
            host.failures = failures.saturating_add(1);
            self.rest(index, rest, now);
        } else {
            // Without an address its robots.txt cannot be read either (RFC 9309, 2.3.1.4), and nothing may be fetched. It
            // counts as asked until that is in the log, so that no request for it is open then.
            host.robots = RobotsPhase::Asked;
            let report = RobotsReport { unconnected: true, ..unreachable() };
            self.robots_answered(index, Answer::Unreachable, report, now)?;
        }
        self.look_again(index, now);
        Ok(())
    }

    /// Does the resolver say that there is no such host, and is nothing known that says otherwise?
    fn is_last_word(&mut self, index: HostIndex, outcome: Outcome) -> Result<bool, StateError> {
        if !matches!(outcome, Outcome::DnsNxdomain | Outcome::DnsNodata | Outcome::DnsNullAddress) {
            return Ok(false);
        }
        let key = self.bench.host(index).key;
        let Some(partition) = self.partition_of(&key) else { return Ok(true) };
        let record = self.partitions[partition].state.host(&key)?.unwrap_or_default();
        // A robots.txt that was read, or said not to be there, came from somebody. One that is out of reach may have been
        // read before: its host is waited for, and the second look-up does not give up what the first one left.
        Ok(record.robots.policy == RobotsPolicy::Unknown)
    }

    /// Is a host given up that ends like this after so many failures in a row?
    pub(super) fn gives_up(&self, outcome: Outcome, failures: u8) -> bool {
        let often = failures >= self.config.retry.retries_max || planted::is(Bug::GivenUpEarly);
        retry::is_about_the_host(outcome) && often
    }

    /// Everything a host has is read again and ends with the reason; then it rests. Gives the end of its rest.
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

    /// The name of a host could not be resolved: this is how.
    pub fn handle_unresolved(
        &mut self,
        host: super::key::HostKey,
        outcome: Outcome,
        now: Now,
    ) -> Result<(), StateError> {
        let Some(index) = self.bench.index(&host) else { return Ok(()) };
        self.no_address(index, outcome, now)?;
        self.settle_stranded(now)
    }
}
