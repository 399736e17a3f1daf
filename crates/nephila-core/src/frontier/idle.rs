//! Idle hosts and hosts with a long rest: they get URLs, wait, or leave the workbench.

use std::time::Duration;

use super::workbench::HostIndex;
use super::{Frontier, REST_MAX, REST_ON_BENCH};
use crate::state::State;
use crate::time::{Now, Timestamp};

impl<S: State> Frontier<S> {
    /// Schedules another look at an idle host for the end of its rest.
    pub(super) fn look_again(&mut self, index: HostIndex, now: Now) {
        let host = self.bench.host(index);
        if host.tickets.is_empty() && host.heads.is_empty() {
            let at =
                if host.leaving || host.guest { now.mono } else { self.bench.ready_at(index).max(now.mono) };
            self.idle.insert((at, index));
        }
    }

    /// Examines a host without loaded URLs: the host gets URLs, leaves, or waits for a plan that is due soon.
    pub(super) fn look_at_idle(&mut self, index: HostIndex, now: Now) {
        if !self.bench.is_here(index) {
            return;
        }
        let host = self.bench.host(index);
        if !host.heads.is_empty() || !host.tickets.is_empty() {
            return;
        }
        let due = host.later_next.into_iter().chain(host.room_next).any(|due| due <= now.wall.into());
        let wanted = !host.leaving && (host.more || due);
        if wanted && host.no_address.is_some() {
            self.bench.want_resolve(index);
        } else if wanted {
            self.make_hungry(index);
        } else if self.bench.may_leave(index) {
            self.let_go(index, now);
        }
        // Otherwise an entry of the host is in flight to the log; the host is examined again when the entry is folded.
    }

    fn let_go(&mut self, index: HostIndex, now: Now) {
        let key = self.bench.host(index).key;
        let host = self.bench.host(index);
        let later_next = host.later_next;
        let next = later_next.into_iter().chain(host.room_next).min();
        let (left_work, crowded) = (host.leaving, self.bench.is_crowded(key.domain) && !host.guest);
        self.bench.leave(index, now.mono);
        let Some(partition) = self.partition_of(&key) else { return };
        let partition = &mut self.partitions[partition];
        if let Some(later_next) = later_next {
            partition.sleeps(key, later_next);
        }
        if left_work {
            // The host comes back when the search reaches the host.
            partition.search();
        } else if crowded {
            // Another host of its domain may have waited for this place.
            partition.search();
        } else if let Some(next) = next {
            partition.scan_after = partition.scan_after.map(|after| after.min(next));
            partition.scan_next = Some(partition.scan_next.map_or(next, |soonest| soonest.min(next)));
        }
    }

    /// Makes a host rest at least this long. With a long rest the host leaves the workbench. Returns the end of the
    /// rest.
    pub(super) fn rest(&mut self, index: HostIndex, rest: Duration, now: Now) -> Timestamp {
        let rest = u64::try_from(rest.as_millis()).unwrap_or(u64::MAX).min(REST_MAX);
        self.bench.rest_until(index, now.mono + rest);
        if rest > REST_ON_BENCH {
            self.bench.host_mut(index).leaving = true;
            self.give_up_place(index, now);
        }
        Timestamp(now.wall.0 + rest)
    }

    /// Makes a host leave its place to others. Its loaded URLs stay in its queue.
    pub(super) fn give_up_place(&mut self, index: HostIndex, now: Now) {
        self.strand(index);
        self.bench.drop_heads(index);
        self.look_again(index, now);
    }
}
