//! Slots: the addresses that rate limits apply to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One machine, as far as can be told: an IPv4 address, or an IPv6 network of 64 bits, since a machine has a whole one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SlotKey {
    /// An IPv4 address.
    V4(u32),
    /// The upper half of an IPv6 address.
    V6(u64),
    /// One of the connections that all addresses of a fleet share: see `Settings::fleets`.
    Fleet {
        /// A hash of the fleet's name.
        fleet: u32,
        /// The number of the connection.
        lane: u32,
    },
}

impl SlotKey {
    /// The slot of an address.
    pub fn of(address: IpAddr) -> SlotKey {
        // ::ffff:192.0.2.1 is the machine at 192.0.2.1, and must not count as a second one.
        match address.to_canonical() {
            IpAddr::V4(address) => SlotKey::V4(address.to_bits()),
            IpAddr::V6(address) => SlotKey::V6((address.to_bits() >> 64) as u64),
        }
    }
}

impl fmt::Display for SlotKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SlotKey::V4(bits) => write!(f, "{}", Ipv4Addr::from_bits(*bits)),
            SlotKey::V6(bits) => write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(*bits) << 64)),
            SlotKey::Fleet { fleet, lane } => write!(f, "fleet {fleet:08x}, connection {lane}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(address: &str) -> SlotKey {
        SlotKey::of(address.parse().unwrap())
    }

    #[test]
    fn a_network_of_64_bits_is_one_slot() {
        assert_eq!(slot("2001:db8::1"), slot("2001:db8::ffff:1"));
        assert_ne!(slot("2001:db8::1"), slot("2001:db8:0:1::1"));
        assert_eq!(slot("2001:db8::1").to_string(), "2001:db8::/64");
    }

    #[test]
    fn an_address_in_either_spelling_is_one_slot() {
        assert_eq!(slot("::ffff:192.0.2.1"), slot("192.0.2.1"));
        assert_eq!(slot("192.0.2.1").to_string(), "192.0.2.1");
    }
}
