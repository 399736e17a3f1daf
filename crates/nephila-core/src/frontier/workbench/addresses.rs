//! The workbench, and names with several addresses: which one a host is asked at, and where it goes when nobody is there.
//!
//! A host is asked at one address at a time, so that its slot is the one that bears it. A ticket that found nobody at its
//! address was no request to a server: its host goes on to the next address of its name, and rests there as it would
//! anywhere. When the last one could not be reached either the host has failed, and its name is looked up again before the
//! next try.
//!
//! What always holds: between two look-ups no address is gone to twice.

use std::net::IpAddr;

use super::{HostIndex, Workbench};

impl Workbench {
    /// The addresses of a host, in the order in which they are to be tried. The one it has is kept if it is still among
    /// them, or one in the same slot taken, unless nobody could be reached there; else it is the first. False if there is
    /// none.
    pub(crate) fn resolved_to(&mut self, index: HostIndex, addresses: &[IpAddr], mono: u64) -> bool {
        let host = self.host(index);
        let kept = host.address.filter(|address| !host.address_dead && addresses.contains(address));
        let beside = || {
            let slot = self.slot_of(index).filter(|_| !host.address_dead)?;
            addresses.iter().copied().find(|address| self.slot_at(&host.key, *address).0 == slot)
        };
        let Some(address) = kept.or_else(beside).or_else(|| addresses.first().copied()) else { return false };
        let mut left: Vec<IpAddr> = Vec::new();
        for other in addresses {
            if *other != address && !left.contains(other) {
                left.push(*other);
            }
        }
        self.host_mut(index).addresses_left = left.into();
        self.resolved(index, address, mono);
        true
    }

    /// Nobody could be reached at this address. Is there another one to go to? The host has it then, or had it already.
    pub(crate) fn try_next_address(&mut self, index: HostIndex, dead: IpAddr, mono: u64) -> bool {
        let host = self.host_mut(index);
        if host.no_address.is_some() {
            return false;
        }
        if host.address != Some(dead) {
            // Another ticket found out before.
            return !host.address_dead;
        }
        let Some((next, left)) = host.addresses_left.split_first() else {
            host.address_dead = true;
            return false;
        };
        let (next, left) = (*next, left.into());
        host.addresses_left = left;
        let (resolved_at, resolving) = (host.resolved_at, host.resolving);
        self.resolved(index, next, mono);
        // The name was not looked up anew, and may be on its way.
        let host = self.host_mut(index);
        host.resolved_at = resolved_at;
        if resolving {
            (host.resolving, host.waits_at) = (true, None);
            self.resolving += 1;
        }
        true
    }
}
