//! The ranges of the catalogue, and thousands of generated spellings of forbidden addresses.

use super::*;
use crate::url::{CrawlUrl, Host};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap_or_else(|_| panic!("{text}"))
}

/// First, second, middle and last address of a range.
fn samples(range: IpNet) -> Vec<IpAddr> {
    match range {
        IpNet::V4(net) => {
            let (first, last) = (u32::from(net.network()), u32::from(net.broadcast()));
            let middle = first + (last - first) / 2;
            [first, first.saturating_add(1).min(last), middle, last].map(|n| IpAddr::V4(n.into())).to_vec()
        }
        IpNet::V6(net) => {
            let (first, last) = (u128::from(net.network()), u128::from(net.broadcast()));
            let middle = first + (last - first) / 2;
            [first, first.saturating_add(1).min(last), middle, last].map(|n| IpAddr::V6(n.into())).to_vec()
        }
    }
}

fn check_refused(ranges: &[&str]) {
    let filter = AddressFilter::default();
    for range in ranges {
        for address in samples(net(range)) {
            let denied = filter.check(address).expect_err(range);
            assert_eq!(denied.address, address);
        }
    }
}

fn check_public(addresses: &[&str]) {
    for address in addresses {
        assert_eq!(AddressFilter::default().check(ip(address)), Ok(()), "{address}");
    }
}

#[test]
fn ssr_01_no_private_ipv4_passes() {
    check_refused(&[
        "127.0.0.0/8",
        "10.0.0.0/8",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "169.254.0.0/16",
        "100.64.0.0/10",
        "0.0.0.0/8",
        "192.0.0.0/24",
        "198.18.0.0/15",
        "240.0.0.0/4",
        "255.255.255.255/32",
        "224.0.0.0/4",
        "192.0.2.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "192.88.99.0/24",
    ]);
    // The neighbours of each range are public: nothing is refused by a mask that is too wide.
    check_public(&[
        "1.0.0.0",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "191.255.255.255",
        "192.0.1.0",
        "192.0.3.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "198.51.99.255",
        "198.51.101.0",
        "203.0.112.255",
        "203.0.114.0",
        "223.255.255.255",
        "8.8.8.8",
        "93.184.216.34",
    ]);
    let denied = AddressFilter::default().check(ip("169.254.169.254")).unwrap_err();
    assert_eq!(denied.outcome().name(), "address-private");
    assert_eq!(denied.range, net("169.254.0.0/16"));
    assert_eq!(
        denied.to_string(),
        "169.254.169.254 is in 169.254.0.0/16: link local, cloud metadata (RFC 3927)"
    );
}

#[test]
fn ssr_02_no_special_ipv6_passes_and_what_it_carries_is_judged_first() {
    check_refused(&[
        "::1/128",
        "::/128",
        "fe80::/10",
        "fc00::/7",
        "fec0::/10",
        "::ffff:0:0/96",
        "::/96",
        "64:ff9b:1::/48",
        "2002::/16",
        "2001::/32",
        "2001:db8::/32",
        "3fff::/20",
        "100::/64",
        "ff00::/8",
        "5f00::/16",
        "2001::/23",
        "4000::/2",
        "8000::/1",
        "200::/7",
    ]);
    check_public(&[
        "2001:200::1",
        "2606:4700::1111",
        "2a00:1450:4001::1",
        "2003::1",
        "3ffd::1",
        "2400::",
        "2001:db9::1",
    ]);
    let range = |text: &str| AddressFilter::default().check(ip(text)).unwrap_err().range;
    // The reason is that of the inside: loopback, private, metadata.
    assert_eq!(range("::ffff:127.0.0.1"), net("127.0.0.0/8"));
    assert_eq!(range("::10.0.0.1"), net("10.0.0.0/8"));
    assert_eq!(range("::ffff:0:169.254.169.254"), net("169.254.0.0/16"));
    assert_eq!(range("64:ff9b::192.168.1.1"), net("192.168.0.0/16"));
    assert_eq!(range("64:ff9b:1::10.0.0.1"), net("10.0.0.0/8"));
    assert_eq!(range("2002:a9fe:a9fe::"), net("169.254.0.0/16"));
    assert_eq!(range("2001:0:0a00:1::"), net("10.0.0.0/8"));
    assert_eq!(range("2001:0:808:808::80ff:fffe"), net("127.0.0.0/8"), "a Teredo client is written inverted");
    assert_eq!(range("::ffff:8.8.8.8"), net("::ffff:0:0/96"));
    assert_eq!(range("2002:808:808::"), net("2002::/16"));
    assert_eq!(range("::1"), net("::1/128"));
}

#[test]
fn ssr_06_the_filter_sees_addresses_and_never_strings() {
    let filter = AddressFilter::default();
    for spelling in
        ["http://2130706433/", "http://0x7f.1/", "http://①②⑦.1/", "http://[::ffff:7f00:1]/", "http://0/"]
    {
        let url = CrawlUrl::parse(spelling).unwrap();
        let Host::Ip(address) = url.host() else { panic!("{spelling} is a name") };
        assert!(filter.check(address).is_err(), "{spelling}");
    }
}

#[test]
fn ssr_09_our_own_addresses_are_refused_though_public() {
    let own = vec![IpNet::from(ip("203.1.2.3")), net("2a01:4f8:1::/64"), net("5.6.7.0/29")];
    let filter = AddressFilter::new(vec![], own.clone());
    for address in ["203.1.2.3", "2a01:4f8:1::25", "5.6.7.7", "64:ff9b::203.1.2.3"] {
        let denied = filter.check(ip(address)).expect_err(address);
        assert_eq!(denied.why, "our own", "{address}");
    }
    for address in ["203.1.2.4", "2a01:4f8:1:1::25", "5.6.7.8"] {
        assert_eq!(filter.check(ip(address)), Ok(()), "{address}");
    }
    // Unless the operator named a range around it.
    let opened = AddressFilter::new(vec![net("203.1.2.0/24")], own);
    assert_eq!(opened.check(ip("203.1.2.3")), Ok(()));
    assert!(opened.check(ip("5.6.7.1")).is_err());
}

#[test]
fn an_intranet_is_opened_by_range_and_nothing_else_with_it() {
    let filter = AddressFilter::new(vec![net("10.1.0.0/16"), net("fd00:1::/32")], vec![]);
    assert_eq!(filter.allowed(), [net("10.1.0.0/16"), net("fd00:1::/32")]);
    for address in ["10.1.0.1", "10.1.255.255", "fd00:1::1", "::ffff:10.1.0.1", "8.8.8.8"] {
        assert_eq!(filter.check(ip(address)), Ok(()), "{address}");
    }
    for address in ["10.2.0.1", "10.0.255.255", "127.0.0.1", "169.254.169.254", "fd00:2::1", "::1"] {
        assert!(filter.check(ip(address)).is_err(), "{address}");
    }
}

#[test]
fn ssr_16_nat64_passes_only_with_a_public_address_inside() {
    check_public(&["64:ff9b::8.8.8.8", "64:ff9b::5db8:d822"]);
    for inner in ["10.0.0.1", "127.0.0.1", "169.254.169.254", "0.0.0.0", "255.255.255.255", "100.64.0.1"] {
        assert!(AddressFilter::default().check(ip(&format!("64:ff9b::{inner}"))).is_err(), "{inner}");
    }
    // Only the well-known /96: the same words followed by other bits are not NAT64.
    assert!(AddressFilter::default().check(ip("64:ff9b:0:0:1::8.8.8.8")).is_err());
    assert!(AddressFilter::default().check(ip("64:ff9c::8.8.8.8")).is_err());
}

/// All the ways to write an IPv4 address as the host of a URL, alone and carried by IPv6.
fn spellings(address: Ipv4Addr) -> Vec<String> {
    let [a, b, c, d] = address.octets();
    let n = u32::from(address);
    let (low16, low24) = (n & 0xffff, n & 0xff_ffff);
    let wide = |text: String| -> String {
        text.chars()
            .map(|x| x.to_digit(10).map_or(x, |v| char::from_u32(0xff10 + v).expect("a digit")))
            .collect()
    };
    let (high, low) = (n >> 16, n & 0xffff);
    let mut all = vec![
        format!("{a}.{b}.{c}.{d}"),
        format!("{a}.{b}.{c}.{d}."),
        format!("{n}"),
        format!("{n:#x}"),
        format!("{n:#X}"),
        format!("0{n:o}"),
        format!("{a}.{low24}"),
        format!("{a}.{b}.{low16}"),
        format!("{a:#x}.{low24:#x}"),
        format!("{a:#x}.{b:#x}.{c:#x}.{d:#x}"),
        format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        format!("000{a:o}.{b}.{c:#x}.{d}"),
        wide(format!("{a}.{b}.{c}.{d}")),
        format!("{a}。{b}。{c}。{d}"),
        format!("{a}%2e{b}%2E{c}.{d}"),
        format!("user:pw@{a}.{b}.{c}.{d}"),
    ];
    all.extend(
        [
            format!("::ffff:{address}"),
            format!("::FFFF:{high:x}:{low:x}"),
            format!("0:0:0:0:0:ffff:{high:x}:{low:x}"),
            format!("::{address}"),
            format!("::ffff:0:{address}"),
            format!("64:ff9b::{address}"),
            format!("64:ff9b::{high:x}:{low:x}"),
            format!("64:ff9b:1::{address}"),
            format!("2002:{high:x}:{low:x}::"),
            format!("2002:{high:x}:{low:x}::1"),
            format!("2001:0:{high:x}:{low:x}::"),
            format!("2001:0:808:808::{:x}:{:x}", !high & 0xffff, !low & 0xffff),
        ]
        .map(|v6| format!("[{v6}]")),
    );
    all
}

#[test]
fn ssr_06_thousands_of_spellings_of_forbidden_addresses_are_all_refused() {
    let filter = AddressFilter::default();
    let mut tried = 0;
    for (range, _) in SPECIAL.iter().filter(|(range, _)| matches!(range, IpNet::V4(_))) {
        for address in samples(*range) {
            let IpAddr::V4(address) = address else { continue };
            for spelling in spellings(address) {
                let url = CrawlUrl::parse(&format!("http://{spelling}/"))
                    .unwrap_or_else(|e| panic!("{spelling}: {e}"));
                let Host::Ip(parsed) = url.host() else { panic!("{spelling} is a name") };
                assert!(filter.check(parsed).is_err(), "{spelling}");
                tried += 1;
            }
        }
    }
    assert!(tried >= 2_000, "{tried}");
    // The same spellings of a public address show that it is the address that decides.
    for spelling in spellings(Ipv4Addr::new(8, 8, 8, 8)).iter().filter(|s| !s.starts_with('[')) {
        let url = CrawlUrl::parse(&format!("http://{spelling}/")).unwrap();
        let Host::Ip(parsed) = url.host() else { panic!("{spelling} is a name") };
        assert_eq!(filter.check(parsed), Ok(()), "{spelling}");
    }
}
