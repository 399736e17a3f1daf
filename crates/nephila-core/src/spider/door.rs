//! Doors: hosts and ports that a person typed on the command line, and the access that typing them opens.
//!
//! A typed `http://127.0.0.1:8000/` means exactly that server: its address may be dialled at that port although the
//! address is private, but no other address, no other port and no other spelling. A typed name opens its port, but none
//! of its addresses, because the owner of the zone chooses them, except that `localhost` means this machine. URLs from
//! a list, a feed, a page or a redirect open nothing.
//!
//! Invariant: no door leads to an address of a cloud's metadata service; only the settings open such an address.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::address::is_metadata;
use crate::url::{CrawlUrl, Host, PortDenied, PortRule};

/// Maximum number of doors; a person does not type more.
pub const DOORS_MAX: usize = 10_000;

/// Hosts and ports that were typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doors(BTreeSet<(String, u16)>);

/// The access that the doors open for one URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opened {
    /// Nothing.
    #[default]
    Nothing,
    /// The port.
    Port,
    /// The port, and this address.
    Address(IpAddr),
    /// The port, and the loopback addresses.
    Loopback,
}

impl Doors {
    /// Parses lines of `host:port`. Malformed lines open nothing.
    pub fn read(text: &str) -> Doors {
        let door = |line: &str| {
            let (host, port) = line.trim().rsplit_once(':')?;
            Some((host.to_owned(), port.parse().ok()?))
        };
        Doors(text.lines().filter_map(door).take(DOORS_MAX).collect())
    }

    /// The doors as lines of `host:port`.
    pub fn lines(&self) -> String {
        self.0.iter().map(|(host, port)| format!("{host}:{port}\n")).collect()
    }

    /// Opens a door for a typed URL. Returns whether the door is new.
    pub fn open(&mut self, url: &CrawlUrl) -> bool {
        self.0.len() < DOORS_MAX && self.0.insert((url.host_str().to_owned(), url.port()))
    }

    /// The access that the doors open for a URL.
    pub fn opened(&self, url: &CrawlUrl) -> Opened {
        if !self.0.contains(&(url.host_str().to_owned(), url.port())) {
            return Opened::Nothing;
        }
        match url.host() {
            Host::Ip(address) if !is_metadata(address) => Opened::Address(address),
            Host::Name(name) if is_local_name(name) => Opened::Loopback,
            _ => Opened::Port,
        }
    }
}

impl Opened {
    /// Whether requests may be made to this port of the URL: typing opens a port, unless it belongs to another protocol.
    pub fn check_port(self, rule: &PortRule, port: u16) -> Result<(), PortDenied> {
        match rule.check(port) {
            Err(PortDenied::NotAllowed(_)) if self != Opened::Nothing => Ok(()),
            checked => checked,
        }
    }

    /// Whether this address of the URL's host may be dialled.
    pub fn address(self, address: IpAddr) -> bool {
        match self {
            Opened::Nothing | Opened::Port => false,
            Opened::Address(opened) => opened == address,
            Opened::Loopback => address.is_loopback(),
        }
    }
}

/// Whether a name means this machine (RFC 6761, 6.3).
pub fn is_local_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> CrawlUrl {
        CrawlUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn sec_03_a_typed_address_is_open_at_its_port_and_nowhere_else() {
        let mut doors = Doors::default();
        assert!(doors.open(&url("http://127.0.0.1:8123/a/")));
        assert!(!doors.open(&url("http://127.0.0.1:8123/b")), "it is open");
        assert!(doors.opened(&url("http://127.0.0.1:8123/robots.txt")).address(ip("127.0.0.1")));
        for other in
            ["http://127.0.0.1:8124/", "http://127.0.0.1/", "http://127.0.0.2:8123/", "http://a.test:8123/"]
        {
            assert_eq!(doors.opened(&url(other)), Opened::Nothing, "{other}");
        }
        assert!(!doors.opened(&url("http://127.0.0.1:8123/")).address(ip("10.0.0.1")));
        assert_eq!(Doors::read(&doors.lines()), doors);
    }

    #[test]
    fn ssr_08_typing_opens_a_port_unless_it_belongs_to_another_protocol() {
        let rule = PortRule::default();
        assert_eq!(Opened::Nothing.check_port(&rule, 443), Ok(()));
        assert_eq!(Opened::Nothing.check_port(&rule, 8399), Err(PortDenied::NotAllowed(8399)));
        for opened in [Opened::Port, Opened::Loopback, Opened::Address(ip("192.0.2.1"))] {
            assert_eq!(opened.check_port(&rule, 8399), Ok(()));
            assert_eq!(opened.check_port(&rule, 25), Err(PortDenied::Bad(25)));
        }
    }

    #[test]
    fn sec_03_a_name_opens_its_port_and_no_address_unless_it_means_this_machine() {
        let mut doors = Doors::default();
        doors.open(&url("http://intranet.example:9000/"));
        doors.open(&url("http://localhost:8000/"));
        doors.open(&url("http://[::1]:8000/"));
        let intranet = doors.opened(&url("http://intranet.example:9000/x"));
        assert!(
            intranet == Opened::Port
                && !intranet.address(ip("10.0.0.1"))
                && !intranet.address(ip("127.0.0.1"))
        );
        let local = doors.opened(&url("http://LOCALHOST:8000/"));
        assert!(local.address(ip("127.0.0.1")) && local.address(ip("::1")) && !local.address(ip("10.0.0.1")));
        assert!(doors.opened(&url("http://[::1]:8000/")).address(ip("::1")));
        assert_eq!(Doors::read(&doors.lines()), doors);
        assert_eq!(Doors::read("nothing\n:\nhost:port\n"), Doors::default());
    }

    #[test]
    fn sec_03_no_door_leads_to_metadata() {
        for metadata in [
            "http://169.254.169.254/",
            "http://169.254.0.1/",
            "http://[fd00:ec2::254]/",
            "http://[fd20:ce::254]/",
            "http://[fe80::1]/",
            "http://100.100.100.200/",
            "http://168.63.129.16/",
            "http://192.0.0.192/",
            "http://[::ffff:169.254.169.254]/",
            "http://[64:ff9b::169.254.169.254]/",
            "http://2852039166/",
        ] {
            let url = url(metadata);
            let mut doors = Doors::default();
            doors.open(&url);
            let Host::Ip(address) = url.host() else { panic!("{metadata} is a name") };
            assert!(!doors.opened(&url).address(address), "{metadata}");
        }
    }
}
