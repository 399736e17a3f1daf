//! The address filter: which addresses may be dialled. One table for both families, and one filter in front of every
//! connection.
//!
//! The filter works on addresses, never on spellings: whatever a URL or a name server said, the filter checks the
//! address that is about to be dialled. An IPv6 address that carries an IPv4 address is unwrapped first, completely, so
//! that no wrapping hides a private address. Every address that the IANA special-purpose registries do not call
//! globally reachable is refused, and so are our own addresses, public or not.
//!
//! Invariant: an address passes only if the address is public and not our own, or lies in a range that the operator
//! allowed by name. No switch turns the filter off.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::Outcome;

/// Decides whether an address may be dialled.
#[derive(Clone, Debug, Default)]
pub struct AddressFilter {
    allow: Vec<IpNet>,
    own: Vec<IpNet>,
}

/// An address that may not be dialled, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is in {range}: {why}")]
pub struct Denied {
    /// The requested address.
    pub address: IpAddr,
    /// The range that forbids the address.
    pub range: IpNet,
    /// The purpose of that range.
    pub why: &'static str,
}

impl Denied {
    /// The outcome under which the refusal is recorded.
    pub const fn outcome(&self) -> Outcome {
        Outcome::AddressPrivate
    }
}

impl AddressFilter {
    /// A filter that passes public addresses and the ranges in `allow`, but not our own addresses: the ones of this
    /// machine, of the cluster and of its stores. An own address inside an allowed range passes, because the operator
    /// named the range.
    pub fn new(allow: Vec<IpNet>, own: Vec<IpNet>) -> Self {
        AddressFilter { allow, own }
    }

    /// The ranges that the operator allowed, for the status page.
    pub fn allowed(&self) -> &[IpNet] {
        &self.allow
    }

    /// Checks whether this address may be dialled.
    pub fn check(&self, address: IpAddr) -> Result<(), Denied> {
        // An operator may write the range of a mapped address in either form.
        let plain = address.to_canonical();
        if self.allow.iter().any(|range| range.contains(&plain) || range.contains(&address)) {
            return Ok(());
        }
        // The inner address is judged first, because its range is more specific than the wrapping's.
        for inner in carried(address).into_iter().flatten() {
            self.check_plain(address, inner)?;
        }
        self.check_plain(address, address)
    }

    fn check_plain(&self, address: IpAddr, part: IpAddr) -> Result<(), Denied> {
        let own = self.own.iter().map(|range| (*range, "our own"));
        let special = SPECIAL.iter().map(|(range, why)| (*range, *why));
        match own.chain(special).find(|(range, _)| range.contains(&part)) {
            Some((range, why)) => Err(Denied { address, range, why }),
            None if part.is_ipv6() && !WORLD.iter().any(|range| range.contains(&part)) => {
                Err(Denied { address, range: v6([0; 4], 0), why: "not handed out (RFC 4291)" })
            }
            None => Ok(()),
        }
    }
}

/// Whether clouds serve machine secrets at this address (metadata service). Such an address on a command line opens
/// nothing: only the settings do.
pub fn is_metadata(address: IpAddr) -> bool {
    let parts = [Some(address)].into_iter().chain(carried(address)).flatten();
    parts.into_iter().any(|part| METADATA.iter().any(|range| range.contains(&part)))
}

/// Why an address is not public; none if the address is public.
pub fn why_private(address: IpAddr) -> Option<Denied> {
    AddressFilter::default().check(address).err()
}

/// The IPv4 addresses that an IPv6 address carries: at most two (Teredo holds its server and its client).
fn carried(address: IpAddr) -> [Option<IpAddr>; 2] {
    let IpAddr::V6(v6) = address else { return [None; 2] };
    let octets = v6.octets();
    let at = |start: usize, mask: u8| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|i| octets[start + i] ^ mask);
        Some(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
    };
    match v6.segments() {
        // These two carry nothing, and only look like IPv4-compatible addresses.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None; 2],
        // IPv4-compatible and mapped (RFC 4291, 2.5.5).
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _] => [at(12, 0), None],
        // Translated (RFC 2765).
        [0, 0, 0, 0, 0xffff, 0, _, _] => [at(12, 0), None],
        // NAT64 (RFC 6052, 2.1; RFC 8215).
        [0x64, 0xff9b, 0 | 1, ..] => [at(12, 0), None],
        // 6to4 (RFC 3056).
        [0x2002, ..] => [at(2, 0), None],
        // Teredo (RFC 4380): the server as it is, the client inverted.
        [0x2001, 0, ..] => [at(4, 0), at(12, 0xff)],
        _ => [None; 2],
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> IpNet {
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits))
}

const fn v6(segments: [u16; 4], bits: u8) -> IpNet {
    let [a, b, c, d] = segments;
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0), bits))
}

const fn v6_low(segments: [u16; 4], bits: u8) -> IpNet {
    let [a, b, c, d] = segments;
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0, 0, 0, 0, a, b, c, d), bits))
}

/// The parts of IPv6 in public use: the allocated ones, and NAT64, where the inner address decides.
const WORLD: [IpNet; 2] = [v6([0x2000, 0, 0, 0], 3), v6([0x64, 0xff9b, 0, 0], 96)];

/// Addresses of cloud metadata services, and the link-local ranges in which more of them may be.
const METADATA: [IpNet; 7] = [
    v4(100, 100, 100, 200, 32),
    v4(168, 63, 129, 16, 32),
    v4(169, 254, 0, 0, 16),
    v4(192, 0, 0, 192, 32),
    v6([0xfe80, 0, 0, 0], 10),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), 128)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128)),
];

/// Everything that is not public: the IANA special-purpose registries for IPv4 and IPv6 (RFC 6890 and its updates),
/// multicast, unallocated ranges, and the addresses of cloud metadata services outside these ranges. The first range
/// that contains an address gives the reason, so narrow ranges stand before wide ones.
///
/// NAT64 (64:ff9b::/96) is absent: on a network with DNS64 every public name resolves into this range, so the inner
/// address decides.
const SPECIAL: &[(IpNet, &str)] = &[
    (v4(0, 0, 0, 0, 8), "this network (RFC 791)"),
    (v4(10, 0, 0, 0, 8), "private (RFC 1918)"),
    (v4(100, 64, 0, 0, 10), "shared by carriers (RFC 6598)"),
    (v4(127, 0, 0, 0, 8), "loopback (RFC 1122)"),
    (v4(168, 63, 129, 16, 32), "metadata and name service of a cloud"),
    (v4(169, 254, 0, 0, 16), "link local, cloud metadata (RFC 3927)"),
    (v4(172, 16, 0, 0, 12), "private (RFC 1918)"),
    (v4(192, 0, 0, 0, 24), "protocol assignments (RFC 6890)"),
    (v4(192, 0, 2, 0, 24), "documentation (RFC 5737)"),
    (v4(192, 31, 196, 0, 24), "AS112 (RFC 7535)"),
    (v4(192, 52, 193, 0, 24), "AMT relays (RFC 7450)"),
    (v4(192, 88, 99, 0, 24), "6to4 relays, deprecated (RFC 7526)"),
    (v4(192, 168, 0, 0, 16), "private (RFC 1918)"),
    (v4(192, 175, 48, 0, 24), "AS112 (RFC 7534)"),
    (v4(198, 18, 0, 0, 15), "benchmarks (RFC 2544)"),
    (v4(198, 51, 100, 0, 24), "documentation (RFC 5737)"),
    (v4(203, 0, 113, 0, 24), "documentation (RFC 5737)"),
    (v4(224, 0, 0, 0, 4), "multicast (RFC 5771)"),
    (v4(255, 255, 255, 255, 32), "broadcast (RFC 919)"),
    (v4(240, 0, 0, 0, 4), "reserved (RFC 1112)"),
    (v6_low([0, 0, 0, 0], 128), "unspecified (RFC 4291)"),
    (v6_low([0, 0, 0, 1], 128), "loopback (RFC 4291)"),
    (v6_low([0, 0, 0, 0], 96), "IPv4-compatible, deprecated (RFC 4291)"),
    (v6_low([0, 0xffff, 0, 0], 96), "IPv4-mapped: never on the wire (RFC 4291)"),
    (v6_low([0xffff, 0, 0, 0], 96), "IPv4-translated (RFC 2765)"),
    (v6([0x64, 0xff9b, 1, 0], 48), "local NAT64 (RFC 8215)"),
    (v6([0x100, 0, 0, 0], 64), "discarded (RFC 6666)"),
    (v6([0x100, 0, 0, 1], 64), "dummy prefix (RFC 9780)"),
    (v6([0x2001, 0, 0, 0], 32), "Teredo (RFC 4380)"),
    (v6([0x2001, 2, 0, 0], 48), "benchmarks (RFC 5180)"),
    (v6([0x2001, 0xdb8, 0, 0], 32), "documentation (RFC 3849)"),
    (v6([0x2001, 0, 0, 0], 23), "protocol assignments (RFC 2928)"),
    (v6([0x2002, 0, 0, 0], 16), "6to4 (RFC 3056)"),
    (v6([0x2620, 0x4f, 0x8000, 0], 48), "AS112 (RFC 7534)"),
    (v6([0x3ffe, 0, 0, 0], 16), "6bone, returned (RFC 3701)"),
    (v6([0x3fff, 0, 0, 0], 20), "documentation (RFC 9637)"),
    (v6([0x5f00, 0, 0, 0], 16), "segment routing (RFC 9602)"),
    (v6([0xfc00, 0, 0, 0], 7), "unique local, cloud metadata (RFC 4193)"),
    (v6([0xfe80, 0, 0, 0], 10), "link local (RFC 4291)"),
    (v6([0xfec0, 0, 0, 0], 10), "site local, deprecated (RFC 3879)"),
    (v6([0xff00, 0, 0, 0], 8), "multicast (RFC 4291)"),
];

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
