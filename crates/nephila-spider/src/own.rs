//! The addresses of this machine, as the kernel lists them. A crawler never fetches from itself, however public its
//! address is, unless the operator opens that address by name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// The addresses of this machine except loopback, which the filter denies anyway. Read once, at the start; unreadable
/// addresses are left to `spider.deny_addresses`.
pub(crate) fn addresses() -> Vec<IpNet> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut found = parse_fib_trie(&read("/proc/net/fib_trie"));
    found.extend(parse_if_inet6(&read("/proc/net/if_inet6")));
    found.retain(|range| !range.addr().is_loopback());
    found
}

/// Parses lines such as `|-- 192.0.2.7`, each followed by attributes of the address: ours are `/32 host LOCAL`.
fn parse_fib_trie(text: &str) -> Vec<IpNet> {
    let mut found: Vec<IpNet> = Vec::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in text.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL"
            && let Some(address) = last.map(IpAddr::from)
            && !found.contains(&address.into())
        {
            // The kernel lists its tables one after the other, so an address may come twice.
            found.push(address.into());
        }
    }
    found
}

/// Lines that begin with the address as 32 hexadecimal digits.
fn parse_if_inet6(text: &str) -> Vec<IpNet> {
    let digits =
        text.lines().filter_map(|line| line.get(..32)).filter_map(|hex| u128::from_str_radix(hex, 16).ok());
    digits.map(|address| IpAddr::from(Ipv6Addr::from(address)).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_networks_and_broadcasts_are_not() {
        let text = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 192.0.2.0\n        /24 link UNICAST\nLocal:\n     |-- 192.0.2.7\n        \
                    /32 host LOCAL\n     |-- 192.0.2.255\n        /32 link BROADCAST\n     |-- 192.0.2.7\n        /32 host LOCAL\n";
        assert_eq!(parse_fib_trie(text), ["192.0.2.7/32".parse().unwrap()]);
        let text = "20010db8000000000000000000000007 04 40 00 82 eth0\nshort\n";
        assert_eq!(parse_if_inet6(text), ["2001:db8::7/128".parse().unwrap()]);
    }
}
