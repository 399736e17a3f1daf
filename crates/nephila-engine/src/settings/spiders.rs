//! Section `[spiders]`: programs that fetch for this node.

use std::net::SocketAddr;
use std::time::Duration;

use ipnet::IpNet;
use nephila_core::remote::desk::{self, Speaks};
use serde::{Deserialize, Serialize};

/// Remote spiders of version 1: other programs fetch the pages, and this node schedules, stores and reads them. Without
/// any of these addresses, the node fetches by itself. Section `[spiders]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spiders {
    /// Spiders that this node connects to, `ADDRESS:PORT` each.
    pub connect: Vec<SocketAddr>,
    /// Listen address and port for spiders that connect to this node. Empty: none do.
    pub v1_listen: String,
    /// Listen address and port for the records of spiders. Required with `connect` or `v1_listen`.
    pub store_listen: String,
    /// Networks of spiders. Version 1 has neither secrets nor encryption: every program in these networks can answer
    /// for every site.
    pub v1_from: Vec<IpNet>,
    /// Order of the words in lines to spiders: `auto`, `push` or `pull`. With `auto` a spider that sends `GET` within
    /// two seconds pulls, and others are pushed to.
    pub dialect: Dialect,
    /// A spider that reports nothing about a URL for this long is assumed to have crashed, and the URL is sent again.
    /// At least twice `update_every`.
    #[serde(with = "humantime_serde")]
    pub status_timeout: Duration,
    /// Time between two reports of a spider about a URL.
    #[serde(with = "humantime_serde")]
    pub update_every: Duration,
    /// Maximum time from the end of a fetch to its record.
    #[serde(with = "humantime_serde")]
    pub store_wait: Duration,
    /// Maximum number of URLs at one spider at the same time.
    pub tickets_max: usize,
    /// Maximum number of times that a URL is sent again. Then the URL is retried later (`spider-lost`).
    pub resends_max: u32,
    /// Maximum number of connections of spiders, and of connections with records.
    pub connections_max: usize,
}

impl Default for Spiders {
    fn default() -> Self {
        let desk = desk::Settings::default();
        Spiders {
            connect: Vec::new(),
            v1_listen: String::new(),
            store_listen: String::new(),
            v1_from: ["127.0.0.0/8", "::1/128"].iter().filter_map(|net| net.parse().ok()).collect(),
            dialect: Dialect::Auto,
            status_timeout: desk.status_timeout,
            update_every: desk.update_every,
            store_wait: desk.store_wait,
            tickets_max: desk.tickets_max,
            resends_max: desk.resends_max,
            connections_max: 64,
        }
    }
}

/// Order of the words in lines to spiders.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dialect {
    /// By what the spider does.
    #[default]
    Auto,
    /// The node sends URLs unasked.
    Push,
    /// The spider asks for URLs.
    Pull,
}

impl From<Dialect> for Speaks {
    fn from(dialect: Dialect) -> Speaks {
        match dialect {
            Dialect::Auto => Speaks::Auto,
            Dialect::Push => Speaks::Push,
            Dialect::Pull => Speaks::Pull,
        }
    }
}

impl Spiders {
    /// Whether other programs fetch.
    pub fn are_used(&self) -> bool {
        !self.connect.is_empty() || !self.v1_listen.is_empty()
    }

    /// The settings of the desk. `total_timeout` is that of a fetch; `asks_max` is the number of fetches at the same
    /// time.
    pub fn desk(&self, total_timeout: Duration, asks_max: usize) -> desk::Settings {
        desk::Settings {
            status_timeout: self.status_timeout,
            update_every: self.update_every,
            store_wait: self.store_wait,
            total_timeout,
            tickets_max: self.tickets_max,
            resends_max: self.resends_max,
            asks_max,
            connections_max: self.connections_max,
            ..desk::Settings::default()
        }
    }

    /// Checks what cannot work.
    pub(super) fn check(&self, total_timeout: Duration, is_cluster: bool) -> Result<(), String> {
        if !self.are_used() {
            return Ok(());
        }
        if is_cluster {
            return Err(
                "[spiders] is for one machine: when a node of a cluster dies, its spiders of version 1 may \
                        go on for minutes while another node asks the same sites. Remove spiders.connect and \
                        spiders.v1_listen, or cluster.servers"
                    .into(),
            );
        }
        if self.store_listen.is_empty() {
            return Err("spiders.store_listen is empty: spiders need an address for their records".into());
        }
        let desk = self.desk(total_timeout, 1);
        desk.check().map_err(|error| format!("[spiders] {error}"))
    }
}
