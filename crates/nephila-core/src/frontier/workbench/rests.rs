//! The workbench, resting: longer than usual, by somebody's word, or after having left.
//!
//! What always holds: nothing here makes a rest shorter that has begun.

use std::cmp::Reverse;

use super::super::hours;
use super::super::key::HostKey;
use super::{Holding, HostIndex, SlotIndex, Workbench};
use crate::time::Now;

/// The rest of a host that has left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    pub(super) until: u64,
    /// Did it leave because of it?
    pub(super) long: bool,
    /// Does it wait for its hours?
    pub(super) hours: bool,
}

impl Workbench {
    /// A host that is not here was given another rest. Nobody remembers when it was last asked, so it rests from now.
    pub(crate) fn rest_elsewhere(&mut self, key: HostKey, rest: u32, mono: u64) {
        let resting = self.resting.entry(key).or_default();
        resting.until = resting.until.max(mono + u64::from(rest));
    }

    /// How long a host that is not here still rests.
    pub(crate) fn resting_until(&self, key: &HostKey) -> Option<u64> {
        self.resting.get(key).map(|rest| rest.until)
    }

    /// A host rests at least until then, whatever else is known of it.
    pub(crate) fn rest_until(&mut self, index: HostIndex, mono: u64) {
        let host = self.host_mut(index);
        if host.ready_at < mono {
            host.ready_at = mono;
            host.waits_at = None;
            self.wait(index);
        }
    }

    /// The host whose turn it is at a slot, if this is not its hour, and the milliseconds until it is.
    pub(super) fn out_of_hours(&self, slot: SlotIndex, now: Now) -> Option<(HostIndex, u64)> {
        if self.settings.hours.is_empty() {
            return None;
        }
        let &Reverse((at, index)) = self.slots[slot as usize].as_ref()?.waiting.peek()?;
        // It may have left or moved since it was put there.
        let host = self.hosts[index as usize].as_ref()?;
        let waits = host.slot == Some(slot) && host.waits_at == Some(at);
        let wait = hours::of(&self.settings.hours, host.name()).filter(|_| waits)?.opens_in(now.wall)?;
        Some((index, wait + hours::spread(host.key.host)))
    }

    /// Has a host left that waits for its hours?
    pub(crate) fn awaits_hours(&self, mono: u64) -> bool {
        self.resting.values().any(|rest| rest.hours && rest.until > mono)
    }

    /// The rest asked for by a site or an operator has changed.
    pub(crate) fn set_rest_asked(&mut self, index: HostIndex, asked: u32) {
        self.host_mut(index).rest_asked = asked;
        let rest = self.rest_of(self.host(index), 0);
        let host = self.host_mut(index);
        // What is already running was promised the longer of the two.
        if rest > host.rest {
            let more = rest - host.rest;
            host.ready_at += u64::from(more);
            host.waits_at = None;
        }
        host.rest = rest;
        self.wait(index);
    }

    /// Slots that nobody needs and that have rested are forgotten, and so are hosts that have. Called now and then.
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
