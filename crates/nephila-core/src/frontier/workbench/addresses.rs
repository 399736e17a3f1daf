//! Names with several addresses: the address a host is requested at, and the fallback when a connection fails.
//!
//! A host is requested at one address at a time, so that one slot bears its load. A ticket without a connection was no
//! request to a server: its host moves on to the next address of its name, and rests there as usual. When the last
//! address cannot be reached either, the host has failed, and its name is resolved again before the next try.
//!
//! Invariant: between two look-ups no address is tried twice.

use std::net::IpAddr;

use super::{HostIndex, Workbench};

impl Workbench {
    /// The addresses of a host, in the order in which to try them. The host keeps its current address if the list has
    /// that address; otherwise the host takes an address in the same slot. If the current address failed, or neither is
    /// in the list, the host takes the first. Returns `false` if the list is empty.
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

    /// A connection to this address failed. Moves the host to its next address. Returns whether the host has another
    /// address to try, possibly because an earlier ticket moved the host already.
    pub(crate) fn try_next_address(&mut self, index: HostIndex, dead: IpAddr, mono: u64) -> bool {
        let host = self.host_mut(index);
        if host.no_address.is_some() {
            return false;
        }
        if host.address != Some(dead) {
            // Another ticket has noticed the failure before.
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
        // The name was not resolved anew, and a look-up may be under way.
        let host = self.host_mut(index);
        host.resolved_at = resolved_at;
        if resolving {
            (host.resolving, host.waits_at) = (true, None);
            self.resolving += 1;
        }
        true
    }
}
