//! Rests of hosts and slots beyond the usual: backoff, changed crawl delays, hours of the day, unloaded hosts.
//!
//! Invariant: nothing here shortens a rest that has begun.

use std::cmp::Reverse;

use super::super::hours;
use super::{Holding, HostIndex, SlotIndex, Workbench};
use crate::key::HostKey;
use crate::time::Now;

/// The rest of an unloaded host.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    pub(super) until: u64,
    /// Whether the host left because of this rest.
    pub(super) long: bool,
    /// Whether the host waits for its hours.
    pub(super) hours: bool,
}

impl Workbench {
    /// Changes the rest of an unloaded host. The time of its last request is unknown, so the rest counts from now.
    pub(crate) fn rest_elsewhere(&mut self, key: HostKey, rest: u32, mono: u64) {
        let resting = self.resting.entry(key).or_default();
        resting.until = resting.until.max(mono + u64::from(rest));
    }

    /// End of the rest of an unloaded host.
    pub(crate) fn resting_until(&self, key: &HostKey) -> Option<u64> {
        self.resting.get(key).map(|rest| rest.until)
    }

    /// Makes a host rest at least until this moment.
    pub(crate) fn rest_until(&mut self, index: HostIndex, mono: u64) {
        let host = self.host_mut(index);
        if host.ready_at < mono {
            host.ready_at = mono;
            host.waits_at = None;
            self.wait(index);
        }
    }

    /// The next host of a slot if now is outside of its hours, and the milliseconds until its hours begin.
    pub(super) fn out_of_hours(&self, slot: SlotIndex, now: Now) -> Option<(HostIndex, u64)> {
        if self.settings.hours.is_empty() {
            return None;
        }
        let &Reverse((at, index)) = self.slots[slot as usize].as_ref()?.waiting.peek()?;
        // The host may have left or moved since its entry was made.
        let host = self.hosts[index as usize].as_ref()?;
        let waits = host.slot == Some(slot) && host.waits_at == Some(at);
        let wait = hours::of(&self.settings.hours, host.name()).filter(|_| waits)?.opens_in(now.wall)?;
        Some((index, wait + hours::spread(host.key.host)))
    }

    /// Whether an unloaded host waits for its hours.
    pub(crate) fn awaits_hours(&self, mono: u64) -> bool {
        self.resting.values().any(|rest| rest.hours && rest.until > mono)
    }

    /// The rest demanded by a site or an operator has changed.
    pub(crate) fn set_rest_asked(&mut self, index: HostIndex, asked: u32) {
        self.host_mut(index).rest_asked = asked;
        let rest = self.rest_of(self.host(index), 0);
        let host = self.host_mut(index);
        // A rest that is running lasts as long as the longer of the two.
        if rest > host.rest {
            let more = rest - host.rest;
            host.ready_at += u64::from(more);
            host.waits_at = None;
        }
        host.rest = rest;
        self.wait(index);
    }

    /// Forgets unused slots and unloaded hosts whose rests are over. Called periodically.
    pub(crate) fn forget_rested(&mut self, mono: u64) {
        self.resting.retain(|_, rest| rest.until > mono);
        for index in 0..self.slots.len() {
            let forget = self.slots[index].as_ref().is_some_and(|slot| {
                let used = slot.hosts > 0 || slot.open > 0 || slot.turn == Holding::Asked;
                !used && slot.free_at <= mono
            });
            if forget {
                self.forget_slot(index as SlotIndex, mono);
            }
        }
    }
}
