//! Errands: requests on behalf of other hosts, and hosts that are loaded for errands alone.
//!
//! A robots.txt may redirect to another host. That host is then requested like any other, with a ticket, after its rest
//! and the rest of its address. The answer belongs to the host that was redirected, the **asker**. An errand waits with
//! the host to be requested until its ticket is issued, and travels with the ticket. A host that is not loaded comes as
//! a **guest**, beyond the maximum number of loaded hosts; otherwise an asker would wait for a free place.
//!
//! Invariant: an asker stays on the workbench as long as its errand is here, since its robots.txt counts as requested;
//! so the host number in the errand stays valid.

use std::time::Duration;

use super::super::away::AwayAsker;
use super::{ActiveHost, HostIndex, RobotsPhase, Workbench};
use crate::key::HostKey;

/// The host whose robots.txt is requested elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// A host on this workbench.
    Here(HostIndex),
    /// A host of another node.
    Away(AwayAsker),
}

/// A request on behalf of another host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Errand {
    /// The host whose robots.txt this is.
    pub(crate) asker: Asker,
    /// The URL to request.
    pub(crate) url: Box<str>,
    /// Hashes of the URLs requested so far in this redirect chain, this URL included.
    pub(crate) chain: Vec<u64>,
    /// Whether this is the second try.
    pub(crate) second: bool,
}

impl ActiveHost {
    /// Whether the host has work of its own that a ticket could be issued for.
    pub(super) fn has_own(&self) -> bool {
        match self.robots {
            _ if self.guest => false,
            RobotsPhase::Wanted => {
                self.tickets.is_empty() && (!self.heads.is_empty() || self.more || self.hungry)
            }
            RobotsPhase::Asked => false,
            RobotsPhase::Until(_) => !self.heads.is_empty(),
        }
    }

    /// The next errand, if errands have the next turn: errands and the host's own work alternate.
    pub(super) fn take_errand(&mut self) -> Option<Errand> {
        if self.errands.is_empty() || (self.errand_last && self.has_own()) {
            self.errand_last = false;
            return None;
        }
        self.errand_last = true;
        Some(self.errands.remove(0))
    }
}

impl Workbench {
    /// The number of a host that is loaded and is no guest.
    pub(crate) fn ordinary(&self, key: &HostKey) -> Option<HostIndex> {
        self.index(key).filter(|index| !self.host(*index).guest)
    }

    /// Number of guests.
    pub(crate) fn guests(&self) -> usize {
        self.guests
    }

    /// Number of errands that wait or have a ticket.
    pub(crate) fn errands(&self) -> usize {
        self.errands
    }

    /// Turns a guest into an ordinary host.
    pub(crate) fn adopt(&mut self, index: HostIndex) {
        let host = self.host_mut(index);
        debug_assert!(host.guest, "an ordinary host is not adopted");
        host.guest = false;
        let domain = host.key.domain;
        self.guests -= 1;
        *self.by_domain.entry(domain).or_default() += 1;
    }

    /// Queues an errand at a host.
    pub(crate) fn send(&mut self, index: HostIndex, errand: Errand) {
        if let Asker::Here(asker) = errand.asker {
            debug_assert_eq!(self.host(asker).robots, RobotsPhase::Asked, "an asker waits");
        }
        self.host_mut(index).errands.push(errand);
        self.errands += 1;
        self.wait(index);
    }

    /// Puts an errand whose connection failed to the front, to be sent to the host's next address.
    pub(crate) fn send_again(&mut self, index: HostIndex, errand: Errand) {
        let host = self.host_mut(index);
        host.errands.insert(0, errand);
        host.errand_last = false;
        self.errands += 1;
        self.wait(index);
    }

    /// Requests the robots.txt of a host once more. `second` marks a second try.
    pub(crate) fn want_robots(&mut self, index: HostIndex, second: bool) {
        let host = self.host_mut(index);
        (host.robots, host.robots_second) = (RobotsPhase::Wanted, second);
        self.wait(index);
    }

    /// Removes and returns the errands that wait with a host.
    pub(crate) fn take_back_errands(&mut self, index: HostIndex) -> Vec<Errand> {
        let errands = std::mem::take(&mut self.host_mut(index).errands);
        self.errands -= errands.len();
        if !errands.is_empty() {
            self.wait(index);
        }
        errands
    }

    /// End of the host's rest, without regard to its address.
    pub(crate) fn host_ready_at(&self, index: HostIndex) -> u64 {
        self.host(index).ready_at
    }

    /// The rests in force for a host and for its address.
    pub(crate) fn rests(&self, index: HostIndex) -> (Duration, Duration) {
        let host = self.host(index);
        let slot = host.slot.and_then(|slot| self.slots[slot as usize].as_ref());
        let slot_rest = slot.map_or(self.settings.slot_delay, |slot| slot.limit.delay);
        (Duration::from_millis(host.rest.into()), slot_rest)
    }
}
