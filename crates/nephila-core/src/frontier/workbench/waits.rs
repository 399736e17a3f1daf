//! Counts the loaded hosts by the reason for which they wait, and tells whether a host has work left.

use super::super::REST_ON_BENCH;
use super::super::outlook::Waits;
use super::{HostIndex, RobotsPhase, Workbench};
use crate::time::Seconds;

impl Workbench {
    /// Counts the hosts by the reason for which they wait.
    pub(crate) fn count_waits(&self, mono: u64) -> Waits {
        let mut waits = Waits { next_start: self.timeline.first().map(|(at, _)| *at), ..Waits::default() };
        waits.backing_off = self.resting.values().filter(|rest| rest.long && rest.until > mono).count();
        for host in self.hosts.iter().flatten() {
            let slot = host.slot.and_then(|slot| self.slots[slot as usize].as_ref());
            let asked = host.robots == RobotsPhase::Asked;
            let work = !host.heads.is_empty() || host.more || host.hungry || !host.errands.is_empty();
            let count = if !host.tickets.is_empty() && !asked {
                &mut waits.fetching
            } else if host.no_address.is_some() || host.ready_at > mono + REST_ON_BENCH {
                &mut waits.backing_off
            } else if host.resolving || host.unresolved || slot.is_none() {
                &mut waits.resolving
            } else if asked || (work && host.robots == RobotsPhase::Wanted && !host.guest) {
                &mut waits.robots
            } else if !work || host.leaving {
                &mut waits.idle
            } else if host.ready_at > mono {
                &mut waits.resting
            } else if slot.is_some_and(|slot| {
                slot.free_at > mono || slot.open >= slot.limit.connections || !slot.turn.is_ours()
            }) {
                &mut waits.slot
            } else {
                &mut waits.ready
            };
            *count += 1;
        }
        waits
    }

    /// The work that a host has left, without plans that are due after the horizon.
    pub(crate) fn left(&self, index: HostIndex, horizon: Seconds, horizon_mono: u64) -> HostLeft {
        let host = self.host(index);
        // A request under way may bring up any work; a leaving host is found by the next search.
        let under_way = !host.tickets.is_empty()
            || !host.unfolded.is_empty()
            || !host.errands.is_empty()
            || host.robots == RobotsPhase::Asked
            || host.leaving;
        if under_way {
            return HostLeft::Work;
        }
        let work = !host.heads.is_empty() || host.more || host.hungry;
        let backs_off = host.failures > 0 || host.no_address.is_some();
        if backs_off && host.ready_at > horizon_mono {
            return if work { HostLeft::Resting } else { HostLeft::Nothing };
        }
        let due = host.later_next.into_iter().chain(host.room_next).any(|due| due <= horizon);
        if work || due { HostLeft::Work } else { HostLeft::Nothing }
    }

    /// The loaded hosts with a long rest and possibly queued URLs, and the moment when each rest ends.
    pub(crate) fn long_resting(&self, mono: u64) -> impl Iterator<Item = (HostIndex, u64)> + '_ {
        self.indexes().filter_map(move |index| {
            let host = self.host(index);
            let work = !host.heads.is_empty() || host.more;
            (work && host.tickets.is_empty() && host.ready_at > mono + REST_ON_BENCH)
                .then_some((index, host.ready_at))
        })
    }
}

/// The work that a loaded host has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostLeft {
    /// Nothing before the horizon.
    Nothing,
    /// The queue may have URLs, and the host's backoff ends after the horizon.
    Resting,
    /// Work that is due before the horizon, or is under way.
    Work,
}
