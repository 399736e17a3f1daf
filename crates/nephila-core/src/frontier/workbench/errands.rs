//! The workbench, asked on behalf of others: errands, and hosts that are here for nothing else.
//!
//! A robots.txt may redirect to another host. That host is then asked like any other, with a ticket, after its rest and
//! that of its address; what it says belongs to the host that sent us, the **asker**. An errand waits with the host that is
//! to be asked until its ticket is given out, and travels with the ticket. A host that is not here comes as a **guest**:
//! beyond the number of hosts at hand, which would otherwise keep an asker waiting for a place.
//!
//! What always holds: an asker stays on the bench as long as its errand is somewhere here, since its robots.txt counts as
//! asked; so the number by which an errand knows it stays its own.

use std::time::Duration;

use super::super::away::AwayAsker;
use super::super::key::HostKey;
use super::{ActiveHost, HostIndex, RobotsPhase, Workbench};

/// Whose robots.txt it is that is asked for elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// That of a host here.
    Here(HostIndex),
    /// That of a host of another node.
    Away(AwayAsker),
}

/// A request on behalf of another host.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Errand {
    /// Whose robots.txt it is.
    pub(crate) asker: Asker,
    /// What is to be asked for.
    pub(crate) url: Box<str>,
    /// What was asked for before on the way here, as hashes, this included.
    pub(crate) chain: Vec<u64>,
    /// Is it the second try?
    pub(crate) second: bool,
}

impl ActiveHost {
    /// Is there something of its own that a ticket could be given out for, if nothing holds it back?
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

    /// The next errand, if it has the next turn: errands and its own work take turns.
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
    /// A host that is here for more than errands.
    pub(crate) fn ordinary(&self, key: &HostKey) -> Option<HostIndex> {
        self.index(key).filter(|index| !self.host(*index).guest)
    }

    /// How many hosts are here for errands alone.
    pub(crate) fn guests(&self) -> usize {
        self.guests
    }

    /// How many errands wait or have a ticket.
    pub(crate) fn errands(&self) -> usize {
        self.errands
    }

    /// A guest stays as an ordinary host.
    pub(crate) fn adopt(&mut self, index: HostIndex) {
        let host = self.host_mut(index);
        debug_assert!(host.guest, "an ordinary host is not adopted");
        host.guest = false;
        let domain = host.key.domain;
        self.guests -= 1;
        *self.by_domain.entry(domain).or_default() += 1;
    }

    /// A host gets an errand.
    pub(crate) fn send(&mut self, index: HostIndex, errand: Errand) {
        if let Asker::Here(asker) = errand.asker {
            debug_assert_eq!(self.host(asker).robots, RobotsPhase::Asked, "an asker waits");
        }
        self.host_mut(index).errands.push(errand);
        self.errands += 1;
        self.wait(index);
    }

    /// An errand found nobody at its host's address, and waits for the next one there, before the others.
    pub(crate) fn send_again(&mut self, index: HostIndex, errand: Errand) {
        let host = self.host_mut(index);
        host.errands.insert(0, errand);
        host.errand_last = false;
        self.errands += 1;
        self.wait(index);
    }

    /// The robots.txt of a host is asked for once more. Is that its second try?
    pub(crate) fn want_robots(&mut self, index: HostIndex, second: bool) {
        let host = self.host_mut(index);
        (host.robots, host.robots_second) = (RobotsPhase::Wanted, second);
        self.wait(index);
    }

    /// Takes back the errands that wait with a host.
    pub(crate) fn take_back_errands(&mut self, index: HostIndex) -> Vec<Errand> {
        let errands = std::mem::take(&mut self.host_mut(index).errands);
        self.errands -= errands.len();
        if !errands.is_empty() {
            self.wait(index);
        }
        errands
    }

    /// No start of a host before this moment, its address aside.
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
