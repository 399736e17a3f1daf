//! How polite the frontier is, and how much it keeps in memory.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How polite the frontier is and how much it keeps at hand. Section `[frontier]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Connections open to a host at once.
    pub host_connections: u32,
    /// Rest of a host after a fetch from it ended, and between two starts. A longer `Crawl-delay` wins; a shorter one
    /// does not.
    #[serde(with = "humantime_serde")]
    pub host_delay: Duration,
    /// Fetches that may start from a host within one second, whatever its delay; 0 for no such limit.
    pub host_per_second: u32,
    /// A host rests at least this many times as long as its last answer took: a slow server gets more rest.
    pub host_delay_factor: u32,
    /// No rest that we choose ourselves is longer. What a site asks for is not cut by this.
    #[serde(with = "humantime_serde")]
    pub host_delay_max: Duration,
    /// A site whose `Crawl-delay` is longer than this is obeyed like any other; its explanations point it out, since a
    /// crawl of it may not end in anybody's time.
    #[serde(with = "humantime_serde")]
    pub crawl_delay_max: Duration,
    /// Connections open to an address (IPv4, or IPv6 network of 64 bits) at once, whatever names it is reached by.
    pub slot_connections: u32,
    /// Rest of an address after a fetch from it ended, and between two starts.
    #[serde(with = "humantime_serde")]
    pub slot_delay: Duration,
    /// Hosts at hand at once. More wait on disk for their turn.
    pub hosts_active_max: usize,
    /// URLs of a host at hand at once: what is asked for in one visit.
    pub visit_urls_max: usize,
    /// Bytes of them. At least one URL is always taken, however long.
    pub visit_bytes_max: usize,
    /// Hosts of one domain at hand at once, so that a domain with a host for every word takes no other's place.
    pub domain_hosts_active_max: usize,
    /// A ticket unreported for this long is taken back and the URL tried again. Keep it above the spider's
    /// `total_timeout`, so that one lost report never doubles a fetch.
    #[serde(with = "humantime_serde")]
    pub ticket_timeout: Duration,
    /// Tickets open at once.
    pub tickets_open_max: usize,
    /// Names being resolved at once.
    pub resolves_open_max: usize,
    /// The address of a host is looked up again after this time.
    #[serde(with = "humantime_serde")]
    pub resolve_after: Duration,
    /// URLs offered and not yet looked at, in each partition. Whoever offers more waits.
    pub offers_max: usize,
    /// URLs remembered as offered lately, so that the same link on a hundred pages is looked up once.
    pub recent_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            host_connections: 1,
            host_delay: Duration::from_secs(2),
            host_per_second: 0,
            host_delay_factor: 5,
            host_delay_max: Duration::from_secs(60),
            crawl_delay_max: crate::robots::CRAWL_DELAY_MAX,
            slot_connections: 1,
            slot_delay: Duration::from_millis(500),
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
