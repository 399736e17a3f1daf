//! The order in which the addresses of a name are dialled, by recent connection failures.
//!
//! Both families of a name alternate (RFC 8305, 4): IPv6 first if the machine has a route and IPv6 works, else IPv4.
//! An address that failed moves behind the other addresses of its name, under every name, until the address responds or
//! [`DEAD_FOR`] has passed. When several IPv6 addresses in a row failed and none succeeded, the family as a whole moves
//! behind for the same time: a machine may have a route that leads nowhere.
//!
//! Invariants: no address is ever left out, only moved behind; at most [`DEAD_MAX`] addresses are remembered.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Maximum number of addresses remembered as dead. Above this bound the one that has been dead for longest is evicted.
pub const DEAD_MAX: usize = 16_384;
/// Time for which an address that failed stays behind the others, in milliseconds.
pub const DEAD_FOR: u64 = 600_000;
/// Number of IPv6 addresses that must fail in a row before the family counts as failed.
pub const FAMILY_FAILURES: u32 = 3;

/// The recent connection failures. Times are milliseconds on a monotonic clock.
#[derive(Debug, Default)]
pub struct Reach {
    /// The time of the last failure of each address.
    dead: BTreeMap<IpAddr, u64>,
    by_time: BTreeSet<(u64, IpAddr)>,
    /// Number of IPv6 addresses that failed since the last success of one.
    v6_failures: u32,
    /// IPv6 stays behind until this time.
    v6_behind_until: u64,
}

impl Reach {
    /// Records that an address could not be reached.
    pub fn handle_failed(&mut self, address: IpAddr, now: u64) {
        self.forget_expired(now);
        match self.dead.insert(address, now) {
            Some(before) => _ = self.by_time.remove(&(before, address)),
            // A repeated failure of one address tells nothing about its family.
            None if address.is_ipv6() => {
                self.v6_failures = self.v6_failures.saturating_add(1);
                if self.v6_failures >= FAMILY_FAILURES {
                    self.v6_behind_until = now.saturating_add(DEAD_FOR);
                }
            }
            None => {}
        }
        self.by_time.insert((now, address));
        if self.dead.len() > DEAD_MAX
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.dead.remove(&oldest);
        }
    }

    /// Records that an address was reached.
    pub fn handle_reached(&mut self, address: IpAddr) {
        if let Some(at) = self.dead.remove(&address) {
            self.by_time.remove(&(at, address));
        }
        if address.is_ipv6() {
            (self.v6_failures, self.v6_behind_until) = (0, 0);
        }
    }

    /// The addresses of a name in dialling order. `v6_leads_out` tells whether the machine has a route to IPv6
    /// addresses at all.
    pub fn order(&self, addresses: &[IpAddr], v6_leads_out: bool, now: u64) -> Vec<IpAddr> {
        let (v6, v4): (Vec<IpAddr>, Vec<IpAddr>) = addresses.iter().partition(|address| address.is_ipv6());
        let v6_first = v6_leads_out && self.v6_behind_until <= now;
        let (first, second) = if v6_first { (v6, v4) } else { (v4, v6) };
        let mut order = Vec::with_capacity(addresses.len());
        for nth in 0..first.len().max(second.len()) {
            order.extend(first.get(nth));
            order.extend(second.get(nth));
        }
        // Of several dead ones the first try goes to the one whose failure is the oldest.
        order.sort_by_key(|address| self.dead_since(address, now));
        order
    }

    fn dead_since(&self, address: &IpAddr, now: u64) -> Option<u64> {
        self.dead.get(address).copied().filter(|at| at.saturating_add(DEAD_FOR) > now)
    }

    fn forget_expired(&mut self, now: u64) {
        while let Some(&(at, address)) = self.by_time.first()
            && at.saturating_add(DEAD_FOR) <= now
        {
            self.by_time.pop_first();
            self.dead.remove(&address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn list(text: &str) -> Vec<IpAddr> {
        text.split_whitespace().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn fin_03_ipv6_goes_first_only_where_it_leads_somewhere() {
        let reach = Reach::default();
        let addresses = list("2001:db8::1 2001:db8::2 192.0.2.1 192.0.2.2");
        let first = list("2001:db8::1 192.0.2.1 2001:db8::2 192.0.2.2");
        assert_eq!(reach.order(&addresses, true, 1), first);
        let without = list("192.0.2.1 2001:db8::1 192.0.2.2 2001:db8::2");
        assert_eq!(reach.order(&addresses, false, 1), without);
        assert_eq!(reach.order(&list("2001:db8::1"), false, 1), list("2001:db8::1"), "never left out");
    }

    #[test]
    fn fin_03_a_dead_address_goes_behind_the_others_until_it_answers_or_time_passes() {
        let mut reach = Reach::default();
        let addresses = list("192.0.2.1 192.0.2.2 192.0.2.3");
        reach.handle_failed(addresses[0], 1_000);
        reach.handle_failed(addresses[1], 2_000);
        assert_eq!(reach.order(&addresses, true, 3_000), list("192.0.2.3 192.0.2.1 192.0.2.2"));
        reach.handle_reached(addresses[1]);
        assert_eq!(reach.order(&addresses, true, 3_000), list("192.0.2.2 192.0.2.3 192.0.2.1"));
        assert_eq!(reach.order(&addresses, true, 1_000 + DEAD_FOR), addresses);
    }

    #[test]
    fn fin_03_a_family_that_leads_nowhere_goes_behind_until_it_works_again() {
        let mut reach = Reach::default();
        let addresses = list("2001:db8::9 192.0.2.9");
        // One dead host asked again and again is no dead family.
        for at in 0..10 {
            reach.handle_failed(list("2001:db8::1")[0], at);
        }
        assert_eq!(reach.order(&addresses, true, 10)[0], addresses[0]);
        for (at, address) in list("2001:db8::2 2001:db8::3").into_iter().enumerate() {
            reach.handle_failed(address, 10 + at as u64);
        }
        assert_eq!(reach.order(&addresses, true, 20)[0], addresses[1]);
        assert_eq!(
            reach.order(&addresses, true, 11 + DEAD_FOR)[0],
            addresses[0],
            "tried again after a while"
        );
        reach.handle_reached(list("2001:db8::3")[0]);
        assert_eq!(reach.order(&addresses, true, 20)[0], addresses[0]);
    }

    #[test]
    fn fin_03_dead_addresses_are_remembered_within_a_bound() {
        let mut reach = Reach::default();
        let address = |n: usize| IpAddr::from(Ipv4Addr::from_bits(n as u32));
        for n in 0..DEAD_MAX + 10 {
            reach.handle_failed(address(n), n as u64);
        }
        assert_eq!((reach.dead.len(), reach.by_time.len()), (DEAD_MAX, DEAD_MAX));
        assert_eq!(reach.dead_since(&address(0), DEAD_MAX as u64 + 10), None);
        reach.handle_failed(address(1 << 30), 10 * DEAD_FOR);
        assert_eq!((reach.dead.len(), reach.by_time.len()), (1, 1), "what has expired is forgotten");
    }
}
