//! Hosts: names, sizes, addresses, and which of them are dead or tarpits.
//!
//! Host n is called `h<n>.d<n / hosts_per_domain>.test`. The number is also its rank: sizes fall with the rank by a
//! power law. Invariant: host 0 is alive and open, so that a crawl has somewhere to begin.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use super::draw::{Tag, below, unit};
use super::{World, push_number};

/// Addresses with the same second number.
const BLOCK: u32 = 250 * 250;

/// A busy host is busy in one of this number of periods.
const BUSY_TURNS: u64 = 3;

/// How many addresses 127.0.0.0/8 has from a second number on; the last block is left out.
pub(super) fn addresses_max(address_block: u8) -> u32 {
    BLOCK * (255 - u32::from(address_block)).max(1)
}

/// The condition of a host.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// The host answers.
    Alive,
    /// Its pages come a byte at a time and never end; its robots.txt is quick.
    Tarpit,
    /// Its name does not exist.
    Nameless,
    /// Its name has an address without a listener.
    Refusing,
}

/// The sum of the weights of all hosts.
pub(super) fn weights(hosts: u32, exponent: f64) -> f64 {
    (0..hosts).map(|host| weight(host, exponent)).sum()
}

fn weight(host: u32, exponent: f64) -> f64 {
    let rank = f64::from(host) + 1.0;
    // The usual exponent, without `powf`: this is asked for every link of every page.
    if exponent == 1.0 { 1.0 / rank } else { rank.powf(-exponent) }
}

impl World {
    /// How many pages a host has.
    pub fn host_pages(&self, host: u32) -> u64 {
        let share = weight(host, self.settings.size_exponent) / self.weights;
        ((self.settings.pages as f64 * share).round() as u64).max(1)
    }

    /// Whether a host has a page of this number.
    pub(crate) fn has_page(&self, host: u32, page: u64) -> bool {
        page < self.host_pages(host)
    }

    /// The name of a host.
    pub fn name(&self, host: u32) -> String {
        let mut name = String::with_capacity(24);
        self.push_name(&mut name, host);
        name
    }

    /// Appends the name of a host.
    pub(crate) fn push_name(&self, out: &mut String, host: u32) {
        out.push('h');
        push_number(out, u64::from(host));
        out.push_str(".d");
        push_number(out, u64::from(host / self.settings.hosts_per_domain));
        out.push_str(".test");
    }

    /// The host of an authority (`name` or `name:port`, in any case); `None` for an authority outside this web.
    pub fn host_of(&self, authority: &str) -> Option<u32> {
        let name = authority.split(':').next().unwrap_or_default();
        let name = name.strip_suffix('.').unwrap_or(name);
        let (first, rest) = name.split_once('.')?;
        let host: u32 = super::number(first.strip_prefix(['h', 'H'])?)?.try_into().ok()?;
        let (second, last) = rest.split_once('.')?;
        let domain: u32 = super::number(second.strip_prefix(['d', 'D'])?)?.try_into().ok()?;
        let ours = host < self.settings.hosts
            && domain == host / self.settings.hosts_per_domain
            && last.eq_ignore_ascii_case("test");
        ours.then_some(host)
    }

    /// Whether a name, in lower case, is that of a domain hosts lie in.
    pub(crate) fn is_domain(&self, name: &str) -> bool {
        let domains = u64::from(self.settings.hosts.div_ceil(self.settings.hosts_per_domain));
        let number = name.strip_suffix(".test").and_then(|rest| super::number(rest.strip_prefix('d')?));
        name == "test" || number.is_some_and(|number| number < domains)
    }

    /// The hosts of the domain a host belongs to.
    pub fn domain_hosts(&self, host: u32) -> Range<u32> {
        let size = self.settings.hosts_per_domain;
        let first = host / size * size;
        first..(first.saturating_add(size)).min(self.settings.hosts)
    }

    /// The scheme a host is linked to by.
    pub fn is_https(&self, host: u32) -> bool {
        self.falls(Tag::Scheme, host, 0, self.settings.https_share)
    }

    /// The condition of a host.
    pub fn fate(&self, host: u32) -> Fate {
        if host == 0 {
            return Fate::Alive;
        }
        let x = unit(self.draw(Tag::Fate, host, 0));
        let dead = self.settings.dead_share;
        if x < dead / 2.0 {
            Fate::Nameless
        } else if x < dead {
            Fate::Refusing
        } else if x < dead + self.settings.tarpit_share {
            Fate::Tarpit
        } else {
            Fate::Alive
        }
    }

    /// Whether a host is busy at a virtual time: the host answers 429 to everything but robots.txt.
    pub fn is_busy(&self, host: u32, now: u64) -> bool {
        if !self.falls(Tag::Busy, host, 0, self.settings.busy_share) {
            return false;
        }
        let turn = now.saturating_sub(self.settings.time_start) / self.settings.busy_period.as_secs().max(1);
        (turn + self.draw(Tag::Busy, host, 1) % BUSY_TURNS).is_multiple_of(BUSY_TURNS)
    }

    /// Whether ::1 is all a host has.
    fn is_ipv6_only(&self, host: u32) -> bool {
        host != 0 && self.falls(Tag::Ipv6, host, 0, self.settings.ipv6_only_share)
    }

    /// The IPv4 addresses of a host; none if the host has no name.
    pub fn addresses(&self, host: u32) -> Vec<Ipv4Addr> {
        match self.fate(host) {
            Fate::Nameless => return Vec::new(),
            Fate::Refusing => return vec![self.dead_address()],
            Fate::Alive | Fate::Tarpit => {}
        }
        if self.is_ipv6_only(host) {
            return Vec::new();
        }
        let all = u64::from(self.settings.addresses);
        let count =
            1 + below(self.draw(Tag::Addresses, host, 0), u64::from(self.settings.addresses_per_host_max));
        let first = below(self.draw(Tag::Addresses, host, 1), all);
        (0..count.min(all)).map(|n| self.address(((first + n) % all) as u32)).collect()
    }

    /// The IPv6 addresses of a host: ::1 for hosts that answer, when the settings ask for IPv6.
    pub fn addresses_v6(&self, host: u32) -> Vec<Ipv6Addr> {
        let alive = matches!(self.fate(host), Fate::Alive | Fate::Tarpit);
        if alive && (self.settings.ipv6 || self.is_ipv6_only(host)) {
            vec![Ipv6Addr::LOCALHOST]
        } else {
            Vec::new()
        }
    }

    /// Address number n of this web.
    pub fn address(&self, n: u32) -> Ipv4Addr {
        let second = u32::from(self.settings.address_block) + n / BLOCK;
        Ipv4Addr::new(127, second as u8, (n % BLOCK / 250) as u8, (n % 250 + 1) as u8)
    }

    /// The address of refusing hosts, on which this web does not listen.
    pub fn dead_address(&self) -> Ipv4Addr {
        Ipv4Addr::new(127, self.settings.address_block, 255, 254)
    }

    /// Whether this web listens on an address.
    pub fn is_ours(&self, address: IpAddr) -> bool {
        match address {
            IpAddr::V6(address) => address == Ipv6Addr::LOCALHOST,
            IpAddr::V4(address) => {
                let [first, second, third, fourth] = address.octets();
                let block = u32::from(second).checked_sub(u32::from(self.settings.address_block));
                let n =
                    block.map(|block| block * BLOCK + u32::from(third) * 250 + u32::from(fourth.max(1)) - 1);
                first == 127
                    && third < 250
                    && (1..=250).contains(&fourth)
                    && n.is_some_and(|n| n < self.settings.addresses)
            }
        }
    }

    /// Whether a host has sitemaps.
    pub fn has_sitemap(&self, host: u32) -> bool {
        self.falls(Tag::Sitemap, host, 0, self.settings.sitemap_share)
    }

    /// Whether the sitemaps of a host are gzip files.
    pub(crate) fn packs_sitemaps(&self, host: u32) -> bool {
        self.draw(Tag::Sitemap, host, 1).is_multiple_of(4)
    }

    /// How many sitemap files a host has.
    pub(crate) fn sitemap_count(&self, host: u32) -> u64 {
        self.host_pages(host).div_ceil(super::SITEMAP_URLS)
    }

    /// Whether a host has a feed.
    pub fn has_feed(&self, host: u32) -> bool {
        self.falls(Tag::Feed, host, 0, self.settings.feed_share)
    }

    /// Whether the feed of a host is Atom, not RSS.
    pub(crate) fn is_atom(&self, host: u32) -> bool {
        self.draw(Tag::Feed, host, 1).is_multiple_of(2)
    }

    /// Virtual seconds between two items of the feed of a host.
    fn news_period(&self, host: u32) -> u64 {
        let spread = 0.5 + unit(self.draw(Tag::FeedPeriod, host, 0));
        (self.settings.feed_period.as_secs_f64() * spread).max(1.0) as u64
    }

    /// How many items a host has published by a virtual time. A feed begins full, [`super::FEED_ITEMS`] items before
    /// the start.
    pub fn news_count(&self, host: u32, now: u64) -> u64 {
        super::FEED_ITEMS + now.saturating_sub(self.settings.time_start) / self.news_period(host)
    }

    /// When an item was published.
    pub fn news_time(&self, host: u32, item: u64) -> u64 {
        let start = self.settings.time_start;
        (start + (item + 1) * self.news_period(host))
            .saturating_sub(super::FEED_ITEMS * self.news_period(host))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn world(settings: Settings) -> World {
        World::new(settings, 80, 443)
    }

    #[test]
    fn host_sizes_follow_a_power_law_and_sum_up() {
        let world = world(Settings { hosts: 1000, pages: 1_000_000, ..Settings::default() });
        let total: u64 = (0..1000).map(|host| world.host_pages(host)).sum();
        assert!((990_000..1_010_000).contains(&total), "{total}");
        let (first, tenth) = (world.host_pages(0) as f64, world.host_pages(9) as f64);
        assert!((first / tenth - 10.0).abs() < 0.1, "{first} {tenth}");
    }

    #[test]
    fn names_read_back_whatever_their_case_and_port() {
        let world = world(Settings { hosts: 100, ..Settings::default() });
        for host in 0..100 {
            assert_eq!(world.host_of(&world.name(host)), Some(host));
        }
        assert_eq!(world.host_of("H5.D1.TEST:80"), Some(5));
        assert_eq!(world.host_of("h5.d1.test."), Some(5));
        for strange in ["h5.d2.test", "h100.d25.test", "h05.d1.test", "h5.d1.com", "d1.test", "", "127.0.0.1"]
        {
            assert_eq!(world.host_of(strange), None, "{strange}");
        }
    }

    #[test]
    fn hosts_share_addresses_and_have_several() {
        let world = world(Settings { hosts: 200, addresses: 8, ..Settings::mixed() });
        let mut several = 0;
        for host in 0..200 {
            let addresses = world.addresses(host);
            several += u32::from(addresses.len() > 1);
            for address in &addresses {
                let ours = world.is_ours(IpAddr::V4(*address));
                assert_eq!(ours, world.fate(host) != Fate::Refusing, "{address}");
            }
            assert_eq!(addresses.is_empty(), world.fate(host) == Fate::Nameless);
        }
        assert!(several > 50, "{several}");
        assert!(world.is_ours("::1".parse().unwrap()));
        assert!(!world.is_ours("127.77.0.9".parse().unwrap()));
    }

    #[test]
    fn addresses_go_on_into_the_next_block() {
        let world = world(Settings { addresses: 150_000, ..Settings::default() });
        assert_eq!(world.address(62_499), Ipv4Addr::new(127, 77, 249, 250));
        assert_eq!(world.address(62_500), Ipv4Addr::new(127, 78, 0, 1));
        for n in (0..150_000).step_by(77) {
            assert!(world.is_ours(world.address(n).into()));
        }
        for stranger in [world.address(150_000), world.dead_address(), Ipv4Addr::new(127, 76, 0, 1)] {
            assert!(!world.is_ours(stranger.into()), "{stranger}");
        }
    }

    #[test]
    fn feeds_grow_with_virtual_time() {
        let world = world(Settings::mixed());
        let start = world.settings().time_start;
        assert_eq!(world.news_count(3, start), 20);
        assert!(world.news_count(3, start + 86_400) > 40);
        let count = world.news_count(3, start + 86_400);
        assert!(world.news_time(3, count - 1) <= start + 86_400);
        assert!(world.news_time(3, count) > start + 86_400);
    }
}
