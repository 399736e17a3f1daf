//! The operator's stop list: hosts, domains and addresses that are never requested.
//!
//! A complaint comes in, an operator runs `nephila stop add`, and every node has the order within seconds. An order
//! names its author, time and reason, because other people will ask. The stop list is small, read as a whole and
//! checked before every request.
//!
//! Invariants: there are at most [`STOPS_MAX`] orders, one for each target; a text that is no valid target is
//! rejected and stops nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;
use crate::url::registrable_domain;

/// Maximum number of orders. One of them takes some 200 bytes, and all of them travel as one record.
pub const STOPS_MAX: usize = 3_000;
/// Maximum size of a reason or a name in bytes. A longer one is cut.
pub const TEXT_BYTES_MAX: usize = 200;

/// The target of an order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// One host, with any scheme and port: `a.example`.
    Host(String),
    /// A domain with all names below it: `*.a.example`.
    Domain(String),
    /// Addresses: `192.0.2.0/24`, `2001:db8::1`.
    Range(IpNet),
}

/// A text that names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no host (a.example), no domain (*.a.example) and no range of addresses (192.0.2.0/24)")]
pub struct NoTarget(String);

impl FromStr for Target {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Target, NoTarget> {
        let wrong = || NoTarget(text.to_owned());
        let trimmed = text.trim().trim_end_matches('.').to_ascii_lowercase();
        let bare = trimmed.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Ok(Target::Range(address.to_canonical().into()));
        }
        if let Ok(range) = bare.parse::<IpNet>() {
            return Ok(Target::Range(range.trunc()));
        }
        let (name, below) = match trimmed.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (trimmed.as_str(), false),
        };
        // The name as in a URL: without user, path and port, in the letters of the name system.
        let url = crate::url::CrawlUrl::parse(&format!("http://{name}/")).map_err(|_| wrong())?;
        let plain = url.path_and_query() == "/" && url.port() == 80 && url.credentials().is_none();
        let name = url.host_str().to_owned();
        if !plain || name.contains('*') || !matches!(url.host(), crate::url::Host::Name(_)) {
            return Err(wrong());
        }
        match below {
            // `com` is not registrable, and a stop of it would be a stop of half the web.
            true if registrable_domain(&name).is_none() => Err(wrong()),
            true => Ok(Target::Domain(name)),
            false => Ok(Target::Host(name)),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Host(name) => f.write_str(name),
            Target::Domain(name) => write!(f, "*.{name}"),
            Target::Range(range) if range.prefix_len() == range.max_prefix_len() => {
                write!(f, "{}", range.addr())
            }
            Target::Range(range) => write!(f, "{range}"),
        }
    }
}

impl Serialize for Target {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Target, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// One order of the stop list.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StopOrder {
    /// The target.
    pub target: Target,
    /// The reason.
    #[serde(default)]
    pub reason: String,
    /// The author.
    #[serde(default)]
    pub author: String,
    /// Time of the order, in milliseconds since 1970.
    #[serde(default)]
    pub at: u64,
}

impl StopOrder {
    /// A stop; texts that are too long are cut.
    pub fn new(target: Target, reason: &str, author: &str, at: Timestamp) -> StopOrder {
        let cut = |text: &str| text[..text.floor_char_boundary(TEXT_BYTES_MAX)].trim().to_owned();
        StopOrder { target, reason: cut(reason), author: cut(author), at: at.0 }
    }
}

impl fmt::Display for StopOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was stopped", self.target)?;
        if !self.author.is_empty() {
            write!(f, " by {}", self.author)?;
        }
        if self.reason.is_empty() { Ok(()) } else { write!(f, ": {}", self.reason) }
    }
}

/// The stop list is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there are {STOPS_MAX} orders already: remove some, or stop a domain or a range instead of its hosts"
)]
pub struct Full;

/// The operator's stop list: all orders in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopList {
    hosts: BTreeMap<String, StopOrder>,
    domains: BTreeMap<String, StopOrder>,
    ranges: Vec<(IpNet, StopOrder)>,
}

impl StopList {
    /// The orders as stored. Later ones win; orders beyond the bound are dropped.
    pub fn of(stop_list: impl IntoIterator<Item = StopOrder>) -> StopList {
        let mut all = StopList::default();
        for order in stop_list {
            if all.add(order).is_err() {
                break;
            }
        }
        all
    }

    /// Number of orders.
    pub fn len(&self) -> usize {
        self.hosts.len() + self.domains.len() + self.ranges.len()
    }

    /// Whether there are no orders.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an order, or replaces the order of the same target.
    pub fn add(&mut self, order: StopOrder) -> Result<(), Full> {
        self.remove(&order.target);
        if self.len() >= STOPS_MAX {
            return Err(Full);
        }
        match &order.target {
            Target::Host(name) => _ = self.hosts.insert(name.clone(), order),
            Target::Domain(name) => _ = self.domains.insert(name.clone(), order),
            Target::Range(range) => self.ranges.push((*range, order)),
        }
        Ok(())
    }

    /// Removes an order and returns the order.
    pub fn remove(&mut self, target: &Target) -> Option<StopOrder> {
        match target {
            Target::Host(name) => self.hosts.remove(name),
            Target::Domain(name) => self.domains.remove(name),
            Target::Range(range) => {
                let at = self.ranges.iter().position(|(other, _)| other == range)?;
                Some(self.ranges.swap_remove(at).1)
            }
        }
    }

    /// All orders: hosts, domains, ranges.
    pub fn iter(&self) -> impl Iterator<Item = &StopOrder> {
        let ranges = self.ranges.iter().map(|(_, order)| order);
        self.hosts.values().chain(self.domains.values()).chain(ranges)
    }

    /// The order that stops a host, if there is one. `host` is a name or an address as in a URL.
    pub fn stop_of_host(&self, host: &str) -> Option<&StopOrder> {
        if self.is_empty() {
            return None;
        }
        if let Some(order) = self.hosts.get(host) {
            return Some(order);
        }
        let mut below = host;
        loop {
            if let Some(order) = self.domains.get(below) {
                return Some(order);
            }
            match below.split_once('.') {
                Some((_, rest)) => below = rest,
                None => break,
            }
        }
        let literal = host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
        self.stop_of_address(literal)
    }

    /// The order that stops an address, if there is one.
    pub fn stop_of_address(&self, address: IpAddr) -> Option<&StopOrder> {
        let address = address.to_canonical();
        self.ranges.iter().find(|(range, _)| range.contains(&address)).map(|(_, order)| order)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stop_list(targets: &[&str]) -> StopList {
        StopList::of(
            targets.iter().map(|text| StopOrder::new(text.parse().unwrap(), "loud", "me", Timestamp(1))),
        )
    }

    #[test]
    fn a_stop_holds_for_whom_it_names_and_nobody_else() {
        let stop_list = stop_list(&["a.example", "*.b.example", "192.0.2.0/24", "2001:db8::/32"]);
        for (host, stopped) in [
            ("a.example", true),
            ("www.a.example", false),
            ("b.example", true),
            ("www.b.example", true),
            ("x.y.b.example", true),
            ("notb.example", false),
            ("example", false),
            ("192.0.2.7", true),
            ("[2001:db8::7]", true),
            ("198.51.100.1", false),
        ] {
            assert_eq!(stop_list.stop_of_host(host).is_some(), stopped, "{host}");
        }
        assert!(stop_list.stop_of_address("192.0.2.255".parse().unwrap()).is_some());
        assert!(
            stop_list.stop_of_address("::ffff:192.0.2.1".parse().unwrap()).is_some(),
            "however it is written"
        );
        assert!(stop_list.stop_of_address("192.0.3.0".parse().unwrap()).is_none());
    }

    #[test]
    fn a_target_is_read_as_it_is_written() {
        for (text, written) in [
            ("A.Example.", "a.example"),
            ("*.Bücher.example", "*.xn--bcher-kva.example"),
            ("192.0.2.9", "192.0.2.9"),
            ("192.0.2.9/24", "192.0.2.0/24"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::/48", "2001:db8::/48"),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.to_string(), written);
            assert_eq!(target.to_string().parse(), Ok(target.clone()));
            let json = serde_json::to_string(&target).unwrap();
            assert_eq!(serde_json::from_str::<Target>(&json).unwrap(), target);
        }
        for bad in
            ["", "*.", "*.com", "*.co.uk", "http://a.example", "a.example/x", "a.example:8080", "u@a.example"]
        {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }

    #[test]
    fn there_is_one_order_for_a_target_and_a_bound_for_all() {
        let mut all = stop_list(&["a.example", "a.example", "192.0.2.0/24", "192.0.2.0/24"]);
        assert_eq!(all.len(), 2);
        assert_eq!(all.remove(&"192.0.2.0/24".parse().unwrap()).unwrap().reason, "loud");
        assert_eq!(all.remove(&"192.0.2.0/24".parse().unwrap()), None);
        let order = |number: usize| {
            StopOrder::new(Target::Host(format!("h{number}.example")), &"é".repeat(300), "me", Timestamp(0))
        };
        let mut full = StopList::of((0..STOPS_MAX + 10).map(order));
        assert_eq!(full.len(), STOPS_MAX);
        assert_eq!(full.add(order(STOPS_MAX + 10)), Err(Full));
        assert_eq!(full.add(order(5)), Ok(()), "one that is there may be said again");
        assert!(full.iter().all(|order| order.reason.len() <= TEXT_BYTES_MAX));
    }
}
