//! The web as a function: from seed, URL and virtual time to content.
//!
//! A [`World`] knows its settings, two ports and a clock, and no page. A URL is parsed into a [`Place`] (a host and a
//! resource there), and every question about a place is answered by drawing from the seed: the size of its host
//! (`hosts`), the kind of a page (`pages`), its links (`links`), the rules of robots.txt (`robots`). Ground truth
//! (`truth`) asks the same questions, so the truth cannot differ from the served content.
//!
//! Invariant: nothing is stored per page or per host, so a web of a billion pages costs as much as one of ten.

mod draw;
mod hosts;
mod links;
mod pages;
mod robots;
pub mod time;
mod truth;

use std::fmt::Write as _;

pub use hosts::Fate;
pub use pages::PageKind;
pub(crate) use pages::text_mark;
pub use robots::{RobotsAnswer, RobotsKind};
pub use truth::{Reach, Truth, TruthOptions};

use crate::settings::Settings;
use draw::{Tag, draw, unit};
use time::Clock;

/// URLs in one sitemap file. The protocol allows 50,000; smaller files make an index worth following.
pub const SITEMAP_URLS: u64 = 1000;
/// Items a feed shows.
pub const FEED_ITEMS: u64 = 20;

/// One synthetic web.
#[derive(Debug)]
pub struct World {
    settings: Settings,
    http_port: u16,
    https_port: u16,
    /// The sum of the weights of all hosts.
    weights: f64,
    clock: Clock,
}

/// A location: a host and a resource there.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Place {
    /// Rank of the host, 0 for the largest.
    pub host: u32,
    /// The resource.
    pub what: What,
}

/// The meaning of a path of a host.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum What {
    /// Page n: `/` for 0, otherwise `/p/n` or `/private/n`.
    Page(u64),
    /// Item n of the feed: `/news/n`.
    News(u64),
    /// `/feed.xml`.
    Feed,
    /// `/sitemap.xml`, the index.
    Sitemaps,
    /// `/sitemap-n.xml`, or `/sitemap-n.xml.gz` on hosts that pack them.
    Sitemap(u64),
    /// `/robots.txt`.
    Robots,
    /// `/robots-real.txt`, where a redirecting robots.txt leads.
    RobotsReal,
}

impl World {
    /// The web of these settings, as linked to by these ports.
    pub fn new(settings: Settings, http_port: u16, https_port: u16) -> World {
        let mut settings = settings;
        settings.hosts = settings.hosts.max(1);
        settings.hosts_per_domain = settings.hosts_per_domain.max(1);
        settings.addresses = settings.addresses.clamp(1, hosts::addresses_max(settings.address_block));
        settings.addresses_per_host_max = settings.addresses_per_host_max.max(1);
        let weights = hosts::weights(settings.hosts, settings.size_exponent);
        let clock = Clock::new(settings.time_start, settings.time_rate);
        World { settings, http_port, https_port, weights, clock }
    }

    /// The same web, linked to by other ports.
    pub(crate) fn with_ports(self, http_port: u16, https_port: u16) -> World {
        World { http_port, https_port, ..self }
    }

    /// The same web, without ::1 if the machine lacks IPv6.
    pub(crate) fn with_ipv6(mut self, ipv6: bool) -> World {
        self.settings.ipv6 &= ipv6;
        if !ipv6 {
            self.settings.ipv6_only_share = 0.0;
        }
        self
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Virtual time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The port a scheme is served on.
    pub fn port(&self, https: bool) -> u16 {
        if https { self.https_port } else { self.http_port }
    }

    /// The canonical URL of a place.
    pub fn url(&self, place: Place) -> String {
        let mut url = String::with_capacity(48);
        self.push_url(&mut url, place);
        url
    }

    /// Appends the canonical URL of a place.
    pub(crate) fn push_url(&self, out: &mut String, place: Place) {
        self.push_origin(out, place.host);
        self.push_path(out, place);
    }

    /// Appends scheme and authority of a host, as in links.
    pub(crate) fn push_origin(&self, out: &mut String, host: u32) {
        let https = self.is_https(host);
        out.push_str(if https { "https://" } else { "http://" });
        self.push_authority(out, host, https);
    }

    /// Appends `name:port`, without the default port.
    pub(crate) fn push_authority(&self, out: &mut String, host: u32, https: bool) {
        self.push_name(out, host);
        let port = self.port(https);
        if port != if https { 443 } else { 80 } {
            out.push(':');
            push_number(out, u64::from(port));
        }
    }

    /// The path of a place.
    pub fn path(&self, place: Place) -> String {
        let mut path = String::with_capacity(24);
        self.push_path(&mut path, place);
        path
    }

    /// Appends the path of a place.
    pub(crate) fn push_path(&self, out: &mut String, place: Place) {
        match place.what {
            What::Page(0) => out.push('/'),
            What::Page(page) => {
                out.push_str(if self.is_private(place.host, page) { "/private/" } else { "/p/" });
                push_number(out, page);
            }
            What::News(item) => {
                out.push_str("/news/");
                push_number(out, item);
            }
            What::Feed => out.push_str("/feed.xml"),
            What::Sitemaps => out.push_str("/sitemap.xml"),
            What::Sitemap(file) => {
                let packed = if self.packs_sitemaps(place.host) { ".gz" } else { "" };
                write!(out, "/sitemap-{file}.xml{packed}").expect("a string takes everything");
            }
            What::Robots => out.push_str("/robots.txt"),
            What::RobotsReal => out.push_str("/robots-real.txt"),
        }
    }

    /// The place that an authority and a path stand for, for any scheme; `None` if there is nothing.
    ///
    /// A query does not change the place.
    pub fn place(&self, authority: &str, path: &str) -> Option<Place> {
        let host = self.host_of(authority)?;
        Some(Place { host, what: self.what(host, path)? })
    }

    /// The place of a whole URL.
    pub fn place_of_url(&self, url: &str) -> Option<Place> {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"))?;
        let rest = rest.split('#').next().unwrap_or_default();
        let at = rest.find('/').unwrap_or(rest.len());
        let path = if at == rest.len() { "/" } else { &rest[at..] };
        self.place(&rest[..at], path)
    }

    /// The meaning of a path on a host, at the current virtual time.
    pub(crate) fn what(&self, host: u32, path: &str) -> Option<What> {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let what = match path {
            "/" | "" => What::Page(0),
            "/robots.txt" => What::Robots,
            "/robots-real.txt" => What::RobotsReal,
            "/feed.xml" => What::Feed,
            "/sitemap.xml" => What::Sitemaps,
            _ => {
                if let Some(page) = path.strip_prefix("/p/") {
                    What::Page(number(page)?)
                } else if let Some(page) = path.strip_prefix("/private/") {
                    let page = number(page)?;
                    return (self.has_page(host, page) && self.is_private(host, page))
                        .then_some(What::Page(page));
                } else if let Some(item) = path.strip_prefix("/news/") {
                    What::News(number(item)?)
                } else {
                    let file = path.strip_prefix("/sitemap-")?;
                    let end = if self.packs_sitemaps(host) { ".xml.gz" } else { ".xml" };
                    What::Sitemap(number(file.strip_suffix(end)?)?)
                }
            }
        };
        let exists = match what {
            What::Page(0) | What::Robots => true,
            What::Page(page) => self.has_page(host, page) && !self.is_private(host, page),
            What::News(item) => self.has_feed(host) && item < self.news_count(host, self.clock.now()),
            What::Feed => self.has_feed(host),
            What::Sitemaps => self.has_sitemap(host),
            What::Sitemap(file) => self.has_sitemap(host) && file < self.sitemap_count(host),
            What::RobotsReal => {
                self.settings.robots_elsewhere
                    || matches!(self.robots_kind(host), RobotsKind::Redirecting | RobotsKind::Shifting)
            }
        };
        exists.then_some(what)
    }

    /// All page URLs, host by host; sitemaps, feeds and their items are not among them.
    pub fn pages(&self) -> impl Iterator<Item = Place> + '_ {
        (0..self.settings.hosts).flat_map(move |host| {
            (0..self.host_pages(host)).map(move |page| Place { host, what: What::Page(page) })
        })
    }

    /// The latency of the answer for this place.
    pub fn latency(&self, place: Place) -> std::time::Duration {
        let settings = &self.settings;
        if settings.latency.is_zero() {
            return settings.latency;
        }
        let x = draw(settings.seed, Tag::Latency, u64::from(place.host), place.what.as_number());
        settings.latency.mul_f64(draw::log_normal(x, settings.latency_sigma)).min(settings.latency_max)
    }

    /// A draw about a host and a number.
    fn draw(&self, tag: Tag, host: u32, number: u64) -> u64 {
        draw(self.settings.seed, tag, u64::from(host), number)
    }

    /// Whether the draw about a host and a number falls into a share.
    fn falls(&self, tag: Tag, host: u32, number: u64, share: f64) -> bool {
        share > 0.0 && unit(self.draw(tag, host, number)) < share
    }
}

impl What {
    /// Different for different things on one host.
    pub(crate) fn as_number(self) -> u64 {
        match self {
            What::Page(page) => page << 3,
            What::News(item) => item << 3 | 1,
            What::Sitemap(file) => file << 3 | 2,
            What::Feed => 3,
            What::Sitemaps => 4,
            What::Robots => 5,
            What::RobotsReal => 6,
        }
    }
}

/// A number in canonical form: digits only, no leading zero. Anything else is another path.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    if plain { text.parse().ok() } else { None }
}

/// Appends a number; links are written so often that `format!` would show.
pub(crate) fn push_number(out: &mut String, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.push_str(std::str::from_utf8(&digits[at..]).expect("digits are ASCII"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_url_reads_back_as_its_place() {
        let world = World::new(Settings { hosts: 50, ..Settings::mixed() }, 8080, 8443);
        for place in world.pages() {
            assert_eq!(world.place_of_url(&world.url(place)), Some(place));
        }
        for host in 0..50 {
            for what in [What::Robots, What::Feed, What::Sitemaps, What::Sitemap(0), What::News(3)] {
                let place = Place { host, what };
                let there = match what {
                    What::Feed | What::News(_) => world.has_feed(host),
                    What::Sitemaps | What::Sitemap(_) => world.has_sitemap(host),
                    _ => true,
                };
                assert_eq!(world.place_of_url(&world.url(place)), there.then_some(place));
            }
        }
    }

    #[test]
    fn paths_that_only_look_right_lead_nowhere() {
        let world = World::new(Settings::default(), 80, 443);
        for path in
            ["/p/01", "/p/+1", "/p/", "/p/1000000", "/private/1", "/x", "/p/1/", "/news/0", "/feed.xml"]
        {
            assert_eq!(world.place("h0.d0.test", path), None, "{path}");
        }
        assert!(world.place("h0.d0.test", "/p/1?utm=2").is_some());
        assert_eq!(world.place("h1.d1.test", "/"), None);
        assert_eq!(world.url(Place { host: 0, what: What::Page(0) }), "http://h0.d0.test/");
    }

    #[test]
    fn numbers_are_written_like_everybody_writes_them() {
        for number in [0, 7, 10, 12_345, u64::MAX] {
            let mut out = String::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string());
        }
    }
}
