//! Settings of the frontier: rate limits, and limits on memory.

use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::hours::Hours;
use super::slot::SlotKey;
use crate::key::HostKey;

/// Rate limits (politeness) and memory limits. Section `[frontier]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Maximum number of open connections to a host.
    pub host_connections: u32,
    /// Rest of a host (crawl delay) after a fetch ended, and between two starts. A longer `Crawl-delay` wins; a shorter
    /// one does not.
    #[serde(with = "humantime_serde")]
    pub host_delay: Duration,
    /// Rate limit: fetches per second from a host, whatever its delay. 4, or 0.5 for one in two seconds; 0 means no
    /// such limit.
    pub host_per_second: f64,
    /// A host rests at least this many times its last response time, so that a slow server gets more rest.
    pub host_delay_factor: u32,
    /// Maximum rest derived from the response time. A longer rest demanded by a site is not cut.
    #[serde(with = "humantime_serde")]
    pub host_delay_max: Duration,
    /// A longer `Crawl-delay` is obeyed like any other, but explanations point the delay out, since a crawl of such a
    /// site may take too long to finish.
    #[serde(with = "humantime_serde")]
    pub crawl_delay_max: Duration,
    /// Maximum number of open connections to an address (IPv4, or IPv6 network of 64 bits), over all its host names.
    pub slot_connections: u32,
    /// Rest of an address after a fetch ended, and between two starts.
    #[serde(with = "humantime_serde")]
    pub slot_delay: Duration,
    /// Address ranges of one operator that share one limit instead of a limit for each address.
    pub fleets: Vec<Fleet>,
    /// Hours of the day at which hosts may be requested. All other hosts may be requested at any time.
    pub hours: Vec<Hours>,
    /// Maximum number of hosts loaded in memory. More hosts wait on disk for their turn.
    pub hosts_active_max: usize,
    /// Maximum number of URLs of a host loaded in memory: the URLs of one visit.
    pub visit_urls_max: usize,
    /// Maximum size of these URLs in bytes. At least one URL is always loaded, however long.
    pub visit_bytes_max: usize,
    /// Maximum number of loaded hosts of one domain, so that a domain with countless hosts does not crowd out others.
    pub domain_hosts_active_max: usize,
    /// Timeout of a ticket. An unreported ticket expires after this time and the URL is retried. Keep the value above
    /// the spider's `total_timeout`, so that one lost report never doubles a fetch.
    #[serde(with = "humantime_serde")]
    pub ticket_timeout: Duration,
    /// Maximum number of open tickets.
    pub tickets_open_max: usize,
    /// Maximum number of concurrent name resolutions.
    pub resolves_open_max: usize,
    /// The name of a host is resolved again after this time.
    #[serde(with = "humantime_serde")]
    pub resolve_after: Duration,
    /// Maximum number of offered URLs that wait in each partition. Further offers must wait (backpressure).
    pub offers_max: usize,
    /// Size of the deduplication cache: recently offered URLs, so that the same link on a hundred pages is looked up
    /// once.
    pub recent_max: usize,
}

/// Lowest rate: one fetch in a week.
pub const PER_SECOND_MIN: f64 = 1.0 / (7.0 * 24.0 * 3_600.0);

impl Settings {
    /// The rest between two starts that follows from `host_per_second`, in milliseconds; 0 without a rate.
    pub fn rate_rest_ms(&self) -> u64 {
        match self.host_per_second {
            rate if rate > 0.0 => (1_000.0 / rate.max(PER_SECOND_MIN)).ceil() as u64,
            _ => 0,
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            host_connections: 1,
            host_delay: Duration::from_secs(2),
            host_per_second: 0.0,
            host_delay_factor: 5,
            host_delay_max: Duration::from_secs(60),
            crawl_delay_max: crate::robots::CRAWL_DELAY_MAX,
            slot_connections: 1,
            slot_delay: Duration::from_millis(500),
            fleets: Vec::new(),
            hours: Vec::new(),
            hosts_active_max: 100_000,
            visit_urls_max: 20,
            visit_bytes_max: 1_024,
            domain_hosts_active_max: 1_000,
            ticket_timeout: Duration::from_secs(300),
            tickets_open_max: 10_000,
            resolves_open_max: 1_000,
            resolve_after: Duration::from_secs(3_600),
            offers_max: 65_536,
            recent_max: 1 << 20,
        }
    }
}

/// Address ranges of one fleet, such as a content delivery network. In a cluster all nodes share the limit: each of the
/// connections is a slot with its own turn, and hosts are spread over them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// Name of the fleet. All nodes must use the same name.
    pub name: String,
    /// Address ranges of the fleet.
    pub ranges: Vec<IpNet>,
    /// Maximum number of open connections to all addresses of the fleet.
    pub connections: u32,
    /// Rest of each of these connections after a fetch ended, and between two starts.
    #[serde(with = "humantime_serde")]
    pub delay: Duration,
}

/// The limits of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotLimit {
    /// Maximum number of open connections.
    pub connections: u32,
    /// The rest.
    pub delay: Duration,
}

impl Settings {
    /// The slot of a host at this address, and the limits of the slot. If slots are `shared` with other nodes, an
    /// address with several connections and no rest is split into that number of slots: each of its connections has its
    /// own turn.
    pub fn slot(&self, host: &HostKey, address: IpAddr, shared: bool) -> (SlotKey, SlotLimit) {
        let address = address.to_canonical();
        let fleet = self.fleets.iter().find(|fleet| fleet.ranges.iter().any(|net| net.contains(&address)));
        if let Some(fleet) = fleet {
            let key = lane(fleet.name.as_bytes(), host, fleet.connections);
            return (key, SlotLimit { connections: 1, delay: fleet.delay });
        }
        let key = SlotKey::of(address);
        if shared && self.slot_delay.is_zero() && self.slot_connections > 1 {
            let key = lane(key.to_string().as_bytes(), host, self.slot_connections);
            return (key, SlotLimit { connections: 1, delay: self.slot_delay });
        }
        (key, SlotLimit { connections: self.slot_connections, delay: self.slot_delay })
    }
}

impl Settings {
    /// Maximum number of open connections to an address.
    pub fn connections_max(&self, address: IpAddr) -> u32 {
        let address = address.to_canonical();
        let fleet = self.fleets.iter().find(|fleet| fleet.ranges.iter().any(|net| net.contains(&address)));
        fleet.map_or(self.slot_connections, |fleet| fleet.connections)
    }
}

/// The connection of a fleet that a host is assigned to.
fn lane(name: &[u8], host: &HostKey, connections: u32) -> SlotKey {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&host.domain.0.to_be_bytes());
    bytes[8..].copy_from_slice(&host.host.to_be_bytes());
    let lane = (xxh3_64(&bytes) % u64::from(connections.max(1))) as u32;
    SlotKey::Fleet { fleet: xxh3_64(name) as u32, lane }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::DomainKey;

    fn host(number: u64) -> HostKey {
        HostKey { domain: DomainKey(number << 40), host: 7 }
    }

    #[test]
    fn addresses_of_a_fleet_share_its_connections_and_others_stand_alone() {
        let fleet = Fleet {
            name: "cdn".into(),
            ranges: vec!["203.0.113.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
            connections: 4,
            delay: Duration::from_millis(100),
        };
        let settings = Settings { fleets: vec![fleet], ..Settings::default() };
        let slot = |n, address: &str| settings.slot(&host(n), address.parse().unwrap(), false);
        let lanes: std::collections::BTreeSet<_> =
            (0..100).map(|n| slot(n, &format!("203.0.113.{n}")).0).collect();
        assert_eq!(lanes.len(), 4);
        assert_eq!(slot(3, "203.0.113.1"), slot(3, "::ffff:203.0.113.9"));
        assert_eq!(slot(3, "203.0.113.1").0, slot(3, "2001:db8::1").0);
        assert_eq!(slot(3, "203.0.113.1").1.connections, 1);
        let (key, limit) = slot(3, "192.0.2.1");
        assert_eq!((key, limit.delay), (SlotKey::of("192.0.2.1".parse().unwrap()), settings.slot_delay));
    }

    #[test]
    fn a_shared_address_with_many_connections_and_no_rest_is_many_slots() {
        let settings = Settings { slot_connections: 8, slot_delay: Duration::ZERO, ..Settings::default() };
        let slots = |shared| -> std::collections::BTreeSet<_> {
            (0..200)
                .map(|n| settings.slot(&host(n), "192.0.2.1".parse().unwrap(), shared))
                .map(|(key, _)| key)
                .collect()
        };
        assert_eq!((slots(false).len(), slots(true).len()), (1, 8));
    }
}
