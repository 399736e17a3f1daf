//! The settings of the synthetic web. Everything else follows from `seed` and the URL.
//!
//! [`Settings::default`] is a plain web without oddities, as a speed test wants it; [`Settings::mixed`] has some of
//! everything. Shares are between 0 and 1; each page or host draws its lot alone, so a share is met on average.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The whole description of one web.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The one seed.
    pub seed: u64,
    /// How many hosts; they are called `h0.d0.test`, `h1.d0.test`, …
    pub hosts: u32,
    /// How many neighbouring hosts share a registrable domain.
    pub hosts_per_domain: u32,
    /// About how many pages all hosts have together; every host has at least one.
    pub pages: u64,
    /// The host of rank r has a share of the pages that falls with r to this power.
    pub size_exponent: f64,
    /// Mean size of a page before compression.
    pub page_bytes: u32,
    /// Spread of page sizes (sigma of a log-normal law); 0 makes all pages equally large.
    pub page_bytes_sigma: f64,
    /// What fills a page behind its links.
    pub text: Text,
    /// Links on a page.
    pub links: u32,
    /// Share of links that stay inside the domain.
    pub links_inside: f64,
    /// Share of pages under `/private/`, which most robots.txt variants close.
    pub private_share: f64,
    /// Share of pages that are byte for byte another page.
    pub duplicate_share: f64,
    /// Share of pages that redirect.
    pub redirect_share: f64,
    /// Share of pages that answer 403, 404, 410, 500 or 503.
    pub error_share: f64,
    /// Share of pages that change over virtual time.
    pub change_share: f64,
    /// Median virtual time between two versions of a changing page.
    #[serde(with = "humantime_serde")]
    pub change_period: Duration,
    /// Share of hosts that are dead: half have no address, half refuse connections. Host 0 is never dead.
    pub dead_share: f64,
    /// Share of hosts whose pages come a byte at a time, for ever. Host 0 is never a tarpit.
    pub tarpit_share: f64,
    /// Rest between two bytes of a tarpit.
    #[serde(with = "humantime_serde")]
    pub tarpit_pace: Duration,
    /// Share of hosts that are linked to by https.
    pub https_share: f64,
    /// HTTP/2 is offered over TLS, before HTTP/1.1; otherwise HTTP/1.1 alone.
    pub http2: bool,
    /// Share of hosts with sitemaps.
    pub sitemap_share: f64,
    /// Share of hosts with a feed, which brings a new page every `feed_period`.
    pub feed_share: f64,
    /// About how much virtual time lies between two items of a feed.
    #[serde(with = "humantime_serde")]
    pub feed_period: Duration,
    /// How many hosts have which kind of robots.txt.
    pub robots: RobotsShares,
    /// A robots.txt that redirects leads to that of the next host, and not to another path of its own. (The judge of robots
    /// does not follow that far.)
    pub robots_elsewhere: bool,
    /// Virtual time after which a changing robots.txt changes.
    #[serde(with = "humantime_serde")]
    pub robots_period: Duration,
    /// The `Crawl-delay` of hosts that ask for one.
    #[serde(with = "humantime_serde")]
    pub crawl_delay: Duration,
    /// `Cache-Control: max-age` of every robots.txt; none at 0.
    #[serde(with = "humantime_serde")]
    pub robots_max_age: Duration,
    /// `Retry-After` of every 429 and 503, in whole seconds; none at 0.
    #[serde(with = "humantime_serde")]
    pub retry_after: Duration,
    /// Share of hosts that now and then answer 429 to everything but robots.txt.
    pub busy_share: f64,
    /// Virtual time for which such a host is busy; then the host answers normally for twice as long.
    #[serde(with = "humantime_serde")]
    pub busy_period: Duration,
    /// The crawler that robots.txt files with a group of its own address, and whose view the ground truth takes.
    pub agent: String,
    /// How many addresses in 127.0.0.0/8 the hosts share.
    pub addresses: u32,
    /// The second number of these addresses: 127.`address_block`.x.y, and the next ones when there are more than
    /// 62,500. Webs with different blocks can share their ports.
    pub address_block: u8,
    /// A host has from one up to this many of them.
    pub addresses_per_host_max: u32,
    /// A host has only one of them at a time and moves to the next this often, in real time; at 0 the host has all of
    /// them.
    #[serde(with = "humantime_serde")]
    pub addresses_move: Duration,
    /// Hosts also have ::1, if this machine does.
    pub ipv6: bool,
    /// Share of hosts that have ::1 and no other address, if this machine has ::1. Host 0 is never one.
    pub ipv6_only_share: f64,
    /// Content codings the server is willing to use when asked; empty for none.
    pub encodings: Vec<Encoding>,
    /// Median time before an answer starts; 0 for none.
    #[serde(with = "humantime_serde")]
    pub latency: Duration,
    /// Spread of these times (sigma of a log-normal law).
    pub latency_sigma: f64,
    /// No answer is held back longer.
    #[serde(with = "humantime_serde")]
    pub latency_max: Duration,
    /// Virtual time at start, in seconds since 1970.
    pub time_start: u64,
    /// Virtual seconds per real second; at 0 time stands still until a caller advances the clock.
    pub time_rate: f64,
    /// Port for plain HTTP on every address; 0 for any free one.
    pub http_port: u16,
    /// Port for HTTPS on every address; 0 for any free one.
    pub https_port: u16,
    /// Port of the DNS server on 127.0.0.1, UDP and TCP; 0 for any free one.
    pub dns_port: u16,
    /// How long DNS answers may be kept.
    #[serde(with = "humantime_serde")]
    pub dns_ttl: Duration,
    /// Events the journal keeps in memory; later ones are counted as lost. 0 switches the journal off.
    pub journal_max: usize,
    /// Threads of an own runtime; 0 runs the web on the runtime of the caller.
    pub threads: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            seed: 1,
            hosts: 20,
            hosts_per_domain: 4,
            pages: 1000,
            size_exponent: 1.0,
            page_bytes: 20_000,
            page_bytes_sigma: 0.6,
            text: Text::Words,
            links: 20,
            links_inside: 0.79,
            private_share: 0.0,
            duplicate_share: 0.0,
            redirect_share: 0.0,
            error_share: 0.0,
            change_share: 0.0,
            change_period: Duration::from_secs(86_400),
            dead_share: 0.0,
            tarpit_share: 0.0,
            tarpit_pace: Duration::from_secs(1),
            https_share: 0.0,
            http2: true,
            sitemap_share: 0.0,
            feed_share: 0.0,
            feed_period: Duration::from_secs(1800),
            robots: RobotsShares::default(),
            robots_elsewhere: false,
            robots_period: Duration::from_secs(86_400),
            crawl_delay: Duration::from_secs(2),
            robots_max_age: Duration::ZERO,
            retry_after: Duration::from_secs(30),
            busy_share: 0.0,
            busy_period: Duration::from_secs(600),
            agent: "nephila".to_owned(),
            addresses: 4,
            address_block: 77,
            addresses_per_host_max: 1,
            addresses_move: Duration::ZERO,
            ipv6: false,
            ipv6_only_share: 0.0,
            encodings: Vec::new(),
            latency: Duration::ZERO,
            latency_sigma: 0.5,
            latency_max: Duration::from_secs(10),
            time_start: 1_750_000_000,
            time_rate: 0.0,
            http_port: 0,
            https_port: 0,
            dns_port: 0,
            dns_ttl: Duration::from_secs(60),
            journal_max: 1_000_000,
            threads: 0,
        }
    }
}

impl Settings {
    /// A web with some of everything: duplicates, redirects, errors, all robots.txt variants, dead hosts, tarpits.
    pub fn mixed() -> Settings {
        Settings {
            private_share: 0.08,
            duplicate_share: 0.08,
            redirect_share: 0.06,
            error_share: 0.04,
            change_share: 0.3,
            dead_share: 0.05,
            tarpit_share: 0.03,
            https_share: 0.5,
            sitemap_share: 0.6,
            feed_share: 0.5,
            robots: RobotsShares::mixed(),
            addresses_per_host_max: 3,
            ipv6: true,
            encodings: vec![Encoding::Gzip, Encoding::Brotli, Encoding::Zstd],
            ..Settings::default()
        }
    }
}

/// How many hosts have which robots.txt; the rest has one that allows everything. Host 0 always allows everything.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct RobotsShares {
    /// Closes `/private/`.
    pub private: f64,
    /// Closes everything.
    pub closed: f64,
    /// Closes `/private/` and asks for a `Crawl-delay`.
    pub delay: f64,
    /// Answers 404.
    pub missing: f64,
    /// Answers 503.
    pub broken: f64,
    /// Redirects to another path, which closes `/private/`.
    pub redirecting: f64,
    /// Opens and closes `/private/` in turn over virtual time.
    pub changing: f64,
    /// Closes everything for others but only `/private/` for `agent`.
    pub named: f64,
    /// Closes by `*` and `$`, and opens a part again.
    pub patterns: f64,
    /// Changes over virtual time: closes `/private/`, fails, disappears, redirects, asks for a delay, closes everything.
    pub shifting: f64,
}

impl RobotsShares {
    /// Every variant, together on seven hosts in ten.
    pub fn mixed() -> RobotsShares {
        RobotsShares {
            private: 0.2,
            closed: 0.05,
            delay: 0.05,
            missing: 0.1,
            broken: 0.05,
            redirecting: 0.05,
            changing: 0.1,
            named: 0.05,
            patterns: 0.05,
            shifting: 0.0,
        }
    }
}

/// What fills a page behind its links.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Text {
    /// Words alone.
    #[default]
    Words,
    /// Elements, attributes, scripts and drawings, about as in real pages.
    Markup,
}

/// A content coding.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

impl Encoding {
    /// Its name in `Accept-Encoding` and `Content-Encoding`.
    pub fn token(self) -> &'static str {
        match self {
            Encoding::Gzip => "gzip",
            Encoding::Brotli => "br",
            Encoding::Zstd => "zstd",
        }
    }
}
