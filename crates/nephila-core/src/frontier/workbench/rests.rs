//! The workbench, resting: longer than usual, by somebody's word, or after having left.
//!
//! What always holds: nothing here makes a rest shorter that has begun.

use super::super::key::HostKey;
use super::{Holding, HostIndex, SlotIndex, Workbench};

/// The rest of a host that has left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rest {
    pub(super) until: u64,
    /// Did it leave because of it?
    pub(super) long: bool,
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
