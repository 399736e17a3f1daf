//! How the spider fetches: every deadline and every limit, with the defaults that the hostile catalogue assumes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// How one URL is fetched. Section `[spider]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// How long one question to a resolver may take. It is asked `dns_attempts` times.
    #[serde(with = "humantime_serde")]
    pub dns_timeout: Duration,
    /// How often a resolver is asked before the lookup fails.
    pub dns_attempts: u32,
    /// How long a whole lookup may take, retries, aliases and TCP included.
    #[serde(with = "humantime_serde")]
    pub dns_total_timeout: Duration,
    /// Resolvers to ask, as `address:port`. Empty: those of the system.
    pub dns_servers: Vec<SocketAddr>,
    /// An answer is kept at least this long, even if its time to live is shorter.
    #[serde(with = "humantime_serde")]
    pub dns_ttl_min: Duration,
    /// An answer is kept at most this long, even if its time to live is longer.
    #[serde(with = "humantime_serde")]
    pub dns_ttl_max: Duration,
    /// Names with fixed addresses, as `name=address`; the resolver is not asked about them.
    pub dns_fixed: Vec<String>,

    /// How long a connection may take to be made: in `nephila fetch` all addresses of the name together, in a crawl each of them.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// When an address has not answered for this long, the next one of the name is tried beside it.
    #[serde(with = "humantime_serde")]
    pub connect_fallback: Duration,
    /// How long a TLS handshake may take.
    #[serde(with = "humantime_serde")]
    pub tls_timeout: Duration,
    /// How long writing the request may take.
    #[serde(with = "humantime_serde")]
    pub write_timeout: Duration,
    /// How long the whole head of the answer may take, from the moment the request is written.
    #[serde(with = "humantime_serde")]
    pub head_timeout: Duration,
    /// How long a body may be silent.
    #[serde(with = "humantime_serde")]
    pub body_idle_timeout: Duration,
    /// How long the whole fetch may take.
    #[serde(with = "humantime_serde")]
    pub total_timeout: Duration,
    /// A body slower than this, in bytes a second over `speed_window`, is cut. 0 turns the rule off.
    pub speed_min: u64,
    /// The time over which `speed_min` is measured.
    #[serde(with = "humantime_serde")]
    pub speed_window: Duration,

    /// Largest head of an answer, informational answers included, in bytes.
    pub head_bytes_max: usize,
    /// Most fields in the head of an answer.
    pub head_fields_max: usize,
    /// Most informational answers (1xx) before the real one.
    pub informational_max: u32,
    /// Largest body as received, in bytes. A longer one is cut and marked `WARC-Truncated: length`.
    pub body_bytes_max: u64,
    /// Largest body after its content codings are undone, in bytes.
    pub decoded_bytes_max: u64,
    /// Most content codings on top of each other.
    pub codings_max: usize,
    /// Memory for the bodies of all open fetches together, in bytes. What does not fit goes to unnamed files.
    pub body_memory_max: usize,
    /// Bodies decoded at the same time. A host has one of them; hosts whose bodies take long share half of them.
    pub decoders_max: usize,
    /// Redirects followed in a row.
    pub redirects_max: u32,

    /// Protocols offered over TLS, best first: `h2`, `http/1.1`.
    pub http_versions: Vec<HttpVersion>,
    /// What we can undo, told to the server. Empty: nothing is said.
    pub accept_encoding: String,
    /// What we like to get, told to the server.
    pub accept: String,
    /// What happens when a certificate does not verify.
    pub tls: TlsPolicy,
    /// A file of certificates (PEM) trusted in addition to the built-in roots.
    pub ca_file: Option<PathBuf>,
    /// `http://[user:password@]host:port` or `socks5://…`. Empty: `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`.
    pub proxy: String,

    /// Address ranges that may be fetched although they are private, such as `192.168.7.0/24`. A URL typed for
    /// `nephila crawl`, `add` or `feed add` opens its own address at its own port, unless that is one of a cloud's metadata;
    /// nothing else opens them.
    pub allow_addresses: Vec<IpNet>,
    /// Address ranges that are never fetched: our own machines, the cluster, the object store.
    pub deny_addresses: Vec<IpNet>,
    /// Ports that may be fetched, besides that of a URL which was typed, at its host. Ports that browsers refuse stay
    /// refused.
    pub ports: Vec<u16>,

    /// A connection kept for the next page of its host is closed after this long. Keep it below 5 s, the shortest
    /// common server time-out, or requests will meet connections that just closed.
    #[serde(with = "humantime_serde")]
    pub idle_timeout: Duration,
    /// Connections kept at the same time, about 40 kB of memory each: four for each of `crawl.concurrency` are a good
    /// number.
    pub idle_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            dns_timeout: Duration::from_secs(5),
            dns_attempts: 2,
            dns_total_timeout: Duration::from_secs(10),
            dns_servers: Vec::new(),
            dns_ttl_min: Duration::from_secs(60),
            dns_ttl_max: Duration::from_secs(24 * 3600),
            dns_fixed: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            connect_fallback: Duration::from_millis(300),
            tls_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            head_timeout: Duration::from_secs(30),
            body_idle_timeout: Duration::from_secs(20),
            total_timeout: Duration::from_secs(120),
            speed_min: 1024,
            speed_window: Duration::from_secs(30),
            head_bytes_max: 256 * 1024,
            head_fields_max: 256,
            informational_max: 20,
            body_bytes_max: 10 * 1024 * 1024,
            decoded_bytes_max: 10 * 1024 * 1024,
            codings_max: 2,
            body_memory_max: 128 * 1024 * 1024,
            decoders_max: 4,
            redirects_max: 10,
            http_versions: vec![HttpVersion::H2, HttpVersion::Http11],
            accept_encoding: "gzip, deflate, br, zstd".into(),
            accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8".into(),
            tls: TlsPolicy::Verify,
            ca_file: None,
            proxy: String::new(),
            allow_addresses: Vec::new(),
            deny_addresses: Vec::new(),
            ports: vec![80, 443, 8080, 8443],
            idle_timeout: Duration::from_secs(4),
            idle_max: 1024,
        }
    }
}

/// A protocol we offer over TLS.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum HttpVersion {
    /// HTTP/2.
    #[serde(rename = "h2")]
    H2,
    /// HTTP/1.1.
    #[serde(rename = "http/1.1")]
    Http11,
}

/// What happens when a certificate does not verify.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsPolicy {
    /// The fetch is refused.
    #[default]
    Verify,
    /// The page is fetched and the result of the check is written beside it.
    AcceptAny,
}
