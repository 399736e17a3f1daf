//! Rejects URLs with a forbidden IP address when they are added, not only when the address is dialled.
//!
//! A client of the API may add URLs, but cannot permit an address thereby: only the settings can, and in a folder the
//! URLs that a person typed. A host name passes this check, because its addresses are known only after resolution,
//! unless the name means this machine. The spider checks every address before dialling.
//!
//! Invariant: with the same settings, every address refused here is refused at the dial as well.

use std::net::{IpAddr, Ipv4Addr};

use nephila_core::spider::Settings;
use nephila_core::spider::address::{AddressFilter, is_metadata};
use nephila_core::spider::door::{Doors, is_local_name};
use nephila_core::url::{CrawlUrl, Host, PortDenied, PortRule};

/// The addresses that URLs may contain.
#[derive(Debug)]
pub struct Reach {
    filter: AddressFilter,
    ports: PortRule,
    doors: Doors,
}

impl Reach {
    /// The address rules of the settings.
    pub fn new(settings: &Settings) -> Reach {
        Reach::with_doors(settings, Doors::default())
    }

    /// The address rules of the settings, plus the addresses that people typed.
    pub fn with_doors(settings: &Settings, doors: Doors) -> Reach {
        let (allow, deny) = (settings.allow_addresses.clone(), settings.deny_addresses.clone());
        let ports = PortRule { allowed: settings.ports.clone() };
        Reach { filter: AddressFilter::new(allow, deny), ports, doors }
    }

    /// Whether a URL may be requested, as far as its text tells. The error is the reason.
    pub fn check(&self, url: &CrawlUrl) -> Result<(), String> {
        let address = match url.host() {
            Host::Name(name) if is_local_name(name) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Host::Name(_) => return Ok(()),
            Host::Ip(address) => address,
        };
        if self.doors.opened(url).address(address) {
            return Ok(());
        }
        self.filter
            .check(address)
            .map_err(|denied| format!("{denied}; only spider.allow_addresses in the settings opens a range"))
    }

    /// Whether requests may be made to the port of a URL. The error is the reason.
    pub fn check_port(&self, url: &CrawlUrl) -> Result<(), String> {
        self.doors.opened(url).check_port(&self.ports, url.port()).map_err(|denied| match denied {
            PortDenied::NotAllowed(_) => format!("{denied}; only spider.ports in the settings opens a port"),
            PortDenied::Bad(_) => denied.to_string(),
        })
    }

    /// The same check for a URL that a person types: typing permits its address, except a cloud's metadata address.
    pub fn check_typed(&self, url: &CrawlUrl) -> Result<(), String> {
        match url.host() {
            Host::Ip(address) if is_metadata(address) => self.check(url),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssr_12_a_url_that_names_an_address_inside_is_refused_however_it_is_spelled() {
        let settings = Settings {
            allow_addresses: vec!["192.168.7.0/24".parse().unwrap()],
            deny_addresses: vec!["93.184.216.0/24".parse().unwrap()],
            ..Settings::default()
        };
        let reach = Reach::new(&settings);
        let check = |text: &str| reach.check(&CrawlUrl::parse(text).unwrap());
        for inside in [
            "http://169.254.169.254/latest/meta-data/",
            "http://127.0.0.1:4222/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://[::1]/",
            "http://[::ffff:10.0.0.1]/",
            "http://192.168.8.1/",
            "http://93.184.216.34/",
        ] {
            let why = check(inside).expect_err(inside);
            assert!(why.contains("spider.allow_addresses"), "{why}");
        }
        let port = |text: &str| reach.check_port(&CrawlUrl::parse(text).unwrap());
        assert_eq!(port("http://a.example:8080/"), Ok(()));
        assert!(port("http://a.example:8399/").is_err_and(|why| why.contains("spider.ports")));
        for local in ["http://localhost:4222/", "http://a.localhost/"] {
            assert!(check(local).is_err(), "{local}");
        }
        for open in ["http://192.168.7.9/", "http://1.1.1.1/", "https://a.example/"] {
            assert_eq!(check(open), Ok(()), "{open}");
        }
    }
}
