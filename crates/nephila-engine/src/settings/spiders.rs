//! Section `[spiders]`: programs that fetch for this node.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use nephila_core::remote::desk::{self, Speaks};
use nephila_core::remote::v2::frame::CAPACITY_MAX;
use nephila_core::remote::v2::pool;
use nephila_core::spider;
use serde::{Deserialize, Serialize};

/// A URL is given back this long before its ticket expires.
pub(crate) const TICKET_MARGIN: Duration = Duration::from_secs(10);

/// Remote spiders: other programs fetch the pages, and this node schedules, stores and reads them. `listen` is for
/// `nephila spider` (version 2), `connect` and `v1_listen` are for programs of others (version 1). Without any of these
/// addresses, the node fetches by itself. Section `[spiders]`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spiders {
    /// Listen address and port for `nephila spider`. Without TLS only a loopback address. Empty: none connect.
    pub listen: String,
    /// Certificate of this node for `listen`, and those that signed it (PEM).
    pub tls_cert: Option<PathBuf>,
    /// Private key of this node for `listen` (PEM).
    pub tls_key: Option<PathBuf>,
    /// Who may connect to `listen`, each a table with `name`, `token_file` and `networks`. Empty: every program on this
    /// machine.
    pub allow: Vec<Allow>,
    /// How long a spider may ask sites without a word of its node. A spider that is silent for this long is gone, and its
    /// URLs are retried. At least 10 s.
    #[serde(with = "humantime_serde")]
    pub lease: Duration,
    /// Maximum number of bytes of results that a spider sends ahead.
    pub window_bytes: u64,
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
        let pool = pool::Settings::default();
        Spiders {
            listen: String::new(),
            tls_cert: None,
            tls_key: None,
            allow: Vec::new(),
            lease: pool.lease,
            window_bytes: pool.window_bytes,
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

/// A spider, or several with one token, that may fetch for this node.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Allow {
    /// Name, for people.
    pub name: String,
    /// File with the token: one line that nobody can guess.
    pub token_file: PathBuf,
    /// Networks from which the spider connects. Empty: from anywhere.
    #[serde(default)]
    pub networks: Vec<IpNet>,
}

/// Shortest lease: a spider asks for it every 3 s and gives up a second before its end.
const LEASE_MIN: Duration = Duration::from_secs(10);
/// A kept connection is surely closed this long after its idle timeout.
const KEPT_MARGIN: Duration = Duration::from_secs(2);

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
    /// Whether spiders of version 1 fetch.
    pub fn are_version_1(&self) -> bool {
        !self.connect.is_empty() || !self.v1_listen.is_empty()
    }

    /// Whether spiders of version 2 fetch.
    pub fn are_version_2(&self) -> bool {
        !self.listen.is_empty()
    }

    /// The settings of the pool of spiders of version 2. `asks_max` is the number of fetches at the same time.
    pub fn pool(&self, spider: &spider::Settings, asks_max: usize) -> pool::Settings {
        pool::Settings {
            lease: self.lease,
            window_bytes: self.window_bytes,
            capacity_max: CAPACITY_MAX,
            sessions_max: self.connections_max,
            asks_max,
            sends_max: self.resends_max + 1,
            body_bytes_max: spider.body_bytes_max,
            kept_for: spider.idle_timeout + KEPT_MARGIN,
        }
    }

    fn check_version_2(&self, total_timeout: Duration, ticket_timeout: Duration) -> Result<(), String> {
        let longest = total_timeout + self.lease + TICKET_MARGIN * 2;
        if ticket_timeout < longest {
            return Err(format!(
                "frontier.ticket_timeout is {ticket_timeout:?}, but with spiders.listen must be at least {longest:?}: \
                 spider.total_timeout, spiders.lease and {:?}",
                TICKET_MARGIN * 2
            ));
        }
        if self.are_version_1() {
            return Err(
                "spiders.listen and spiders.connect or spiders.v1_listen: use one version of spiders".into(),
            );
        }
        let address =
            self.listen.rsplit_once(':').map_or(&*self.listen, |(host, _)| host).trim_matches(['[', ']']);
        let is_local = address == "localhost" || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        match (&self.tls_cert, &self.tls_key) {
            (Some(_), Some(_)) => {}
            (None, None) if is_local => {}
            (None, None) => {
                return Err(format!(
                    "spiders.listen is {:?}, which other machines reach, and needs TLS: set spiders.tls_cert and spiders.tls_key",
                    self.listen
                ));
            }
            _ => return Err("spiders.tls_cert and spiders.tls_key belong together".into()),
        }
        if !is_local && self.allow.is_empty() {
            return Err("spiders.allow is empty: spiders on other machines need a token, [[spiders.allow]] with name and \
                        token_file"
                .into());
        }
        match self.lease < LEASE_MIN {
            true => Err(format!("spiders.lease is {:?}, but must be at least {LEASE_MIN:?}", self.lease)),
            false => Ok(()),
        }
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
    pub(super) fn check(
        &self,
        total_timeout: Duration,
        ticket_timeout: Duration,
        is_cluster: bool,
    ) -> Result<(), String> {
        if self.are_version_2() {
            self.check_version_2(total_timeout, ticket_timeout)?;
        }
        if !self.are_version_1() {
            return Ok(());
        }
        if is_cluster {
            return Err(
                "version 1 of [spiders] is for one machine: when a node of a cluster dies, its spiders of version 1 may \
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
