//! Names and networks of this machine: its resolvers, its hosts file, and whether IPv6 leads anywhere.
//!
//! Search lists are not read on purpose: a crawler's names are absolute.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;

/// Maximum name servers used; the C library also stops at three.
const SERVERS_MAX: usize = 3;
const DNS_PORT: u16 = 53;

/// The resolvers of `/etc/resolv.conf`, or the one on this machine.
pub(super) fn name_servers() -> Vec<SocketAddr> {
    let servers = parse_resolv_conf(&std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default());
    if servers.is_empty() { vec![(Ipv4Addr::LOCALHOST, DNS_PORT).into()] } else { servers }
}

/// The names of `/etc/hosts`, and `localhost` (RFC 6761: never resolved outside).
pub(super) fn hosts() -> HashMap<String, Arc<[IpAddr]>> {
    parse_hosts(&std::fs::read_to_string("/etc/hosts").unwrap_or_default())
}

/// First bits of global IPv6 addresses.
const GLOBAL: u16 = 0x2000;
const GLOBAL_MASK: u16 = 0xe000;

/// Whether the machine has a global IPv6 address and a route from that address to others. The kernel tells which source
/// address would be used; nothing is sent. A loopback or link-local address does not count.
pub(super) fn ipv6_leads_out() -> bool {
    let far = SocketAddr::from((Ipv6Addr::new(GLOBAL, 0, 0, 0, 0, 0, 0, 1), DNS_PORT));
    let from = UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0))
        .and_then(|socket| socket.connect(far).and_then(|()| socket.local_addr()));
    from.is_ok_and(|from| is_global(from.ip()))
}

fn is_global(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.segments()[0] & GLOBAL_MASK == GLOBAL)
}

fn parse_resolv_conf(text: &str) -> Vec<SocketAddr> {
    let addresses = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("nameserver")).then(|| words.next()?.parse::<IpAddr>().ok()).flatten()
    });
    addresses.take(SERVERS_MAX).map(|address| (address, DNS_PORT).into()).collect()
}

fn parse_hosts(text: &str) -> HashMap<String, Arc<[IpAddr]>> {
    let mut hosts: HashMap<String, Vec<IpAddr>> = HashMap::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let mut words = line.split_whitespace();
        let Some(Ok(address)) = words.next().map(str::parse::<IpAddr>) else { continue };
        for name in words {
            hosts.entry(super::fold(name).into_owned()).or_default().push(address);
        }
    }
    hosts.insert("localhost".into(), vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    hosts.into_iter().map(|(name, addresses)| (name, addresses.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_read_and_search_lists_are_not() {
        let text = "# x\nsearch corp.example\nnameserver 192.0.2.1\nnameserver ::1\noptions ndots:5\nnameserver bad\n";
        let servers: Vec<SocketAddr> = vec!["192.0.2.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()];
        assert_eq!(parse_resolv_conf(text), servers);
    }

    #[test]
    fn fin_03_an_address_of_the_machine_alone_is_no_way_out() {
        for (address, global) in [
            ("::1", false),
            ("fe80::1", false),
            ("fd00::1", false),
            ("192.0.2.1", false),
            ("2a00:1::1", true),
        ] {
            assert_eq!(is_global(address.parse().unwrap()), global, "{address}");
        }
        let Ok(own) = std::fs::read_to_string("/proc/net/if_inet6") else { return };
        // Global addresses have scope 00 there, loopback has 10 and link-local 20.
        if own.lines().all(|line| line.split_whitespace().nth(3) != Some("00")) {
            assert!(!ipv6_leads_out(), "{own}");
        }
    }

    #[test]
    fn hosts_have_several_names_and_comments() {
        let hosts = parse_hosts("192.0.2.7 A.example b.example # c.example\nbad line\n::1 b.example\n");
        assert_eq!(hosts["a.example"].len(), 1);
        assert_eq!(hosts["b.example"].len(), 2);
        assert!(!hosts.contains_key("c.example"));
        assert!(hosts.contains_key("localhost"));
    }
}
