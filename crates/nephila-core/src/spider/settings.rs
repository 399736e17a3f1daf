//! Settings of the spider: every deadline and every limit, with the defaults that the hostile catalogue assumes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// How one URL is fetched. Section `[spider]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Timeout of one query to a resolver. A query is sent up to `dns_attempts` times.
    #[serde(with = "humantime_serde")]
    pub dns_timeout: Duration,
    /// Maximum number of queries to a resolver before the lookup fails.
    pub dns_attempts: u32,
    /// Timeout of a whole lookup, including retries, aliases and TCP.
    #[serde(with = "humantime_serde")]
    pub dns_total_timeout: Duration,
    /// Resolvers to use, as `address:port`. Empty: the system's resolvers.
    pub dns_servers: Vec<SocketAddr>,
    /// Minimum time for which a DNS answer is cached, even if its time to live is shorter.
    #[serde(with = "humantime_serde")]
    pub dns_ttl_min: Duration,
    /// Maximum time for which a DNS answer is cached, even if its time to live is longer.
    #[serde(with = "humantime_serde")]
    pub dns_ttl_max: Duration,
    /// Names with fixed addresses, as `name=address`; these names are not looked up.
    pub dns_fixed: Vec<String>,

    /// Timeout for making a connection: in `nephila fetch` for all addresses of the name together, in a crawl for each
    /// address.
    #[serde(with = "humantime_serde")]
    pub connect_timeout: Duration,
    /// When an address has not responded for this long, the next address of the name is tried in parallel.
    #[serde(with = "humantime_serde")]
    pub connect_fallback: Duration,
    /// Timeout of a TLS handshake.
    #[serde(with = "humantime_serde")]
    pub tls_timeout: Duration,
    /// Timeout for writing the request.
    #[serde(with = "humantime_serde")]
    pub write_timeout: Duration,
    /// Timeout for the whole head of the response, from the moment the request is written.
    #[serde(with = "humantime_serde")]
    pub head_timeout: Duration,
    /// Maximum time without a byte while a body is received.
    #[serde(with = "humantime_serde")]
    pub body_idle_timeout: Duration,
    /// Timeout of the whole fetch.
    #[serde(with = "humantime_serde")]
    pub total_timeout: Duration,
    /// Minimum speed of a body in bytes per second over `speed_window`. A slower body is cut. 0 turns the rule off.
    pub speed_min: u64,
    /// The time over which `speed_min` is measured.
    #[serde(with = "humantime_serde")]
    pub speed_window: Duration,

    /// Maximum size of the head of a response in bytes, including informational responses.
    pub head_bytes_max: usize,
    /// Maximum number of header fields in a response.
    pub head_fields_max: usize,
    /// Maximum number of informational responses (1xx) before the final one.
    pub informational_max: u32,
    /// Maximum size of a received body in bytes. A longer body is cut and marked `WARC-Truncated: length`.
    pub body_bytes_max: u64,
    /// Maximum size of a body in bytes after decoding its content codings.
    pub decoded_bytes_max: u64,
    /// Maximum number of nested content codings.
    pub codings_max: usize,
    /// Memory for the bodies of all open fetches together, in bytes. Bodies that do not fit go to unnamed files.
    pub body_memory_max: usize,
    /// Maximum number of bodies that are decoded concurrently. A host gets one; hosts with slow bodies share half of
    /// them.
    pub decoders_max: usize,
    /// Maximum number of redirects followed in a row.
    pub redirects_max: u32,

    /// Protocols offered over TLS, best first: `h2`, `http/1.1`.
    pub http_versions: Vec<HttpVersion>,
    /// Value of the `Accept-Encoding` header field. Empty: the field is not sent.
    pub accept_encoding: String,
    /// Value of the `Accept` header field.
    pub accept: String,
    /// Policy for certificates that do not verify.
    pub tls: TlsPolicy,
    /// A file of certificates (PEM) trusted in addition to the built-in roots.
    pub ca_file: Option<PathBuf>,
    /// Proxy: `http://[user:password@]host:port` or `socks5://…`. Empty: `HTTPS_PROXY`, `HTTP_PROXY`, `NO_PROXY`.
    pub proxy: String,

    /// Private address ranges that may be fetched, such as `192.168.7.0/24`. A URL typed for `nephila crawl`, `add` or
    /// `feed add` opens its own address at its own port, except an address of a cloud's metadata service; nothing else
    /// opens private addresses.
    pub allow_addresses: Vec<IpNet>,
    /// Address ranges that are never fetched: our own machines, the cluster, the object store.
    pub deny_addresses: Vec<IpNet>,
    /// Ports that may be fetched. The port of a typed URL is allowed too, at its host. Ports that browsers refuse stay
    /// refused.
    pub ports: Vec<u16>,

    /// Maximum idle time of a connection that is kept for the next page of its host. Keep this below 5 s, the shortest
    /// common server timeout, or requests will meet connections that just closed.
    #[serde(with = "humantime_serde")]
    pub idle_timeout: Duration,
    /// Maximum number of idle connections, about 40 kB of memory each: four for each of `crawl.concurrency` are a good
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

/// A protocol that is offered over TLS.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub enum HttpVersion {
    /// HTTP/2.
    #[serde(rename = "h2")]
    H2,
    /// HTTP/1.1.
    #[serde(rename = "http/1.1")]
    Http11,
}

/// Policy for certificates that do not verify.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TlsPolicy {
    /// The fetch is refused.
    #[default]
    Verify,
    /// The page is fetched, and the result of the verification is recorded with the page.
    AcceptAny,
}
