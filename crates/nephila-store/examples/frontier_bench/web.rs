//! An imaginary web: hosts by a power law, URLs that look like URLs, pages that link mostly to their own domain.
//!
//! Nothing is stored but how many URLs of a host are known: the text of URL `i` of host `h` is computed from the seed.
//! The same seed gives the same web and the same links in the same order.

use nephila_core::frontier::offers::Offer;
use nephila_core::job::JobId;
use nephila_core::key::{DomainKey, HostKey, Secret, UrlKey};
use nephila_core::want::Want;

use crate::text;

/// The secret of all benches.
pub const SECRET: Secret = Secret(*b"frontier's bench");

/// The exponent of host sizes: the share of hosts with at least `n` URLs is `n` to the minus this. 78 % have under 10.
const HOST_SIZE_EXPONENT: f64 = 0.65;
/// No host has more than this share of all URLs, and none more than [`HOST_URLS_MAX`].
const HOST_SHARE_MAX: f64 = 0.01;
/// The giants have a bench of their own.
const HOST_URLS_MAX: u64 = 300_000;
/// The exponent of how many hosts a domain has. Four domains in seven have one.
const DOMAIN_HOSTS_EXPONENT: f64 = 1.2;
const DOMAIN_HOSTS_MAX: f64 = 50.0;
/// Links of a page that are offered (capacity model: 105 unique, less what the sender remembers).
const LINKS: u32 = 60;
/// Out of 100 links, those that stay in the domain, and those that stay on the host.
const IN_DOMAIN: u64 = 79;
const ON_HOST: u64 = 71;
/// Out of 100 links to new URLs of other domains, those to a domain nobody has heard of.
const NEW_DOMAIN: u64 = 10;
/// How often a link that the page already has is drawn again.
const DRAWS_MAX: usize = 4;

/// A host.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    domain: u32,
    known: u32,
}

/// The web.
#[derive(Debug)]
pub struct Web {
    seed: u64,
    hosts: Vec<Host>,
    /// The first host of each domain.
    domains: Vec<u32>,
    /// URLs known of all hosts before this one, when the web was made.
    sums: Vec<u64>,
    draws: Draws,
    /// Out of 100 links, those to known URLs.
    known_share: u64,
    taken: Vec<(u32, u32)>,
}

impl Web {
    /// A web in which this many URLs are known.
    pub fn new(seed: u64, known: u64, known_share: u64) -> Web {
        let mut web = Web {
            seed,
            hosts: Vec::new(),
            domains: Vec::new(),
            sums: Vec::new(),
            draws: Draws(seed),
            known_share,
            taken: Vec::new(),
        };
        let max = ((known as f64 * HOST_SHARE_MAX) as u64).clamp(1, HOST_URLS_MAX) as f64;
        let mut total = 0;
        while total < known {
            let hosts = web.draws.power(DOMAIN_HOSTS_EXPONENT, DOMAIN_HOSTS_MAX);
            web.domains.push(web.hosts.len() as u32);
            for _ in 0..hosts {
                let size = web.draws.power(HOST_SIZE_EXPONENT, max).min(known - total).max(1);
                web.sums.push(total);
                web.hosts.push(Host { domain: web.domains.len() as u32 - 1, known: size as u32 });
                total += size;
                if total == known {
                    break;
                }
            }
        }
        web.sums.push(total);
        web
    }

    /// A web of equal hosts, each alone in its domain.
    pub fn equal(seed: u64, hosts: u32, urls: u32) -> Web {
        let mut web = Web::new(seed, 0, 0);
        for host in 0..hosts {
            web.domains.push(host);
            web.hosts.push(Host { domain: host, known: urls });
        }
        web
    }

    /// Adds a domain with this many hosts, which share its URLs. Returns the number of the first host.
    pub fn add_domain(&mut self, hosts: u32, urls: u64) -> u32 {
        let first = self.hosts.len() as u32;
        self.domains.push(first);
        let domain = self.domains.len() as u32 - 1;
        for i in 0..u64::from(hosts) {
            let known = urls * (i + 1) / u64::from(hosts) - urls * i / u64::from(hosts);
            self.hosts.push(Host { domain, known: known as u32 });
        }
        first
    }

    /// How many hosts there are.
    pub fn hosts(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// How many URLs of a host are known.
    #[cfg(test)]
    fn known(&self, host: u32) -> u32 {
        self.hosts[host as usize].known
    }

    /// All that is known, host after host, in `passes` passes that each have their share of every host.
    pub fn all(&self, passes: u32) -> All {
        All { pass: 0, passes: passes.max(1), host: 0, hosts: self.hosts(), at: 0 }
    }

    /// Appends the next known URLs until there are `max`; false when there are no more.
    pub fn next_known(&self, all: &mut All, max: usize, chunk: &mut Chunk) -> bool {
        while chunk.len() < max {
            if all.pass == all.passes {
                return false;
            }
            let known = u64::from(self.hosts[all.host as usize].known);
            let edge = |pass: u32| (known * u64::from(pass) / u64::from(all.passes)) as u32;
            let (from, to) = (edge(all.pass) + all.at, edge(all.pass + 1));
            if from < to {
                self.push(all.host, from, chunk);
                all.at += 1;
                continue;
            }
            all.at = 0;
            all.host += 1;
            if all.host == all.hosts {
                all.host = 0;
                all.pass += 1;
            }
        }
        true
    }

    /// Appends the links of the next pages until there are `max` offers.
    pub fn links(&mut self, max: usize, chunk: &mut Chunk) {
        while chunk.len() < max {
            self.page(chunk);
        }
    }

    /// The links of one page.
    fn page(&mut self, chunk: &mut Chunk) {
        let from = self.any_host();
        self.taken.clear();
        for _ in 0..LINKS {
            for _ in 0..DRAWS_MAX {
                let link = self.link(from);
                if !self.taken.contains(&link) {
                    self.taken.push(link);
                    break;
                }
            }
        }
        for at in 0..self.taken.len() {
            let (host, url) = self.taken[at];
            self.push(host, url, chunk);
        }
    }

    fn link(&mut self, from: u32) -> (u32, u32) {
        let is_known = self.draws.below(100) < self.known_share;
        let whither = self.draws.below(100);
        let host = if whither < ON_HOST {
            from
        } else if whither < IN_DOMAIN {
            let domain = self.hosts[from as usize].domain;
            let first = self.domains[domain as usize];
            let behind = self.domains.get(domain as usize + 1).copied().unwrap_or(self.hosts());
            first + self.draws.below(u64::from(behind - first)) as u32
        } else if !is_known && self.draws.below(100) < NEW_DOMAIN {
            self.domains.push(self.hosts());
            self.hosts.push(Host { domain: self.domains.len() as u32 - 1, known: 0 });
            self.hosts() - 1
        } else {
            self.any_host()
        };
        let known = self.hosts[host as usize].known;
        if is_known && known > 0 {
            // The first pages of a site are linked most.
            let u = self.draws.unit();
            (host, (f64::from(known) * u * u) as u32)
        } else {
            self.hosts[host as usize].known += 1;
            (host, known)
        }
    }

    /// A host, by how many URLs it has.
    fn any_host(&mut self) -> u32 {
        let total = self.sums.last().copied().unwrap_or(0).max(1);
        let at = self.draws.below(total);
        (self.sums.partition_point(|sum| *sum <= at) - 1).min(self.hosts.len() - 1) as u32
    }

    /// Appends an offer of this URL.
    pub fn push(&self, host: u32, url: u32, chunk: &mut Chunk) {
        if chunk.host != Some(host) {
            chunk.host = Some(host);
            let at = chunk.bytes.len();
            let domain = self.hosts[host as usize].domain;
            let number = host - self.domains[domain as usize];
            let domain = text::origin(self.seed, domain, number, &mut chunk.bytes);
            chunk.origin = at..chunk.bytes.len();
            let domain = DomainKey::of(&chunk.bytes[at + domain..], &SECRET);
            chunk.key = HostKey::of(domain, &chunk.bytes[at..], &SECRET);
        }
        let at = chunk.bytes.len();
        // A page is known by all of its URL: origin and text in one piece, and the origin taken away again.
        chunk.bytes.extend_from_within(chunk.origin.clone());
        let text_at = chunk.bytes.len();
        text::text(self.seed, host, url, &mut chunk.bytes);
        let path = UrlKey::path_of(&chunk.bytes[at..], &SECRET);
        chunk.items.push(Item {
            key: UrlKey { host: chunk.key, path },
            origin: (chunk.origin.start as u32, chunk.origin.len() as u16),
            text: (text_at as u32, (chunk.bytes.len() - text_at) as u16),
            want: Want { priority: PRIORITY, ..Want::of(JOB).at(1 + (mix(path) % 6) as u8) },
        });
    }
}

/// Where a walk through all that is known stands.
#[derive(Clone, Debug)]
pub struct All {
    pass: u32,
    passes: u32,
    host: u32,
    hosts: u32,
    at: u32,
}

/// Offers ready to be made.
#[derive(Debug, Default)]
pub struct Chunk {
    bytes: String,
    items: Vec<Item>,
    host: Option<u32>,
    key: HostKey,
    origin: std::ops::Range<usize>,
}

#[derive(Clone, Debug)]
struct Item {
    key: UrlKey,
    origin: (u32, u16),
    text: (u32, u16),
    want: Want,
}

/// The job of all offers.
pub const JOB: JobId = JobId(1);
/// The priority of all offers.
const PRIORITY: u8 = 5;

impl Chunk {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Makes it empty, keeping its memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.items.clear();
        self.host = None;
    }

    /// The offers.
    pub fn offers(&self) -> impl Iterator<Item = Offer<'_>> {
        let slice = |(at, len): (u32, u16)| &self.bytes[at as usize..at as usize + usize::from(len)];
        self.items.iter().map(move |item| Offer {
            key: item.key,
            origin: slice(item.origin),
            text: slice(item.text),
            want: &item.want,
        })
    }
}

/// Numbers that look random, from a seed.
#[derive(Debug)]
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// At least 1, at most `max`, by a power law.
    fn power(&mut self, exponent: f64, max: f64) -> u64 {
        (1.0 - self.unit()).powf(-1.0 / exponent).min(max) as u64
    }
}

/// Spreads the bits of a number (the finish of SplitMix64).
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use nephila_core::url::CrawlUrl;

    use super::*;

    fn texts(chunk: &Chunk) -> Vec<String> {
        chunk.offers().map(|offer| [offer.origin, offer.text].concat()).collect()
    }

    #[test]
    fn keys_are_those_of_the_urls() {
        let mut web = Web::new(7, 50_000, 80);
        let mut chunk = Chunk::default();
        web.links(5_000, &mut chunk);
        for offer in chunk.offers() {
            let url = CrawlUrl::parse(&[offer.origin, offer.text].concat()).unwrap();
            assert_eq!(UrlKey::of(&url, &SECRET), offer.key, "{}", url.as_str());
            assert_eq!((url.origin(), url.path_and_query()), (offer.origin, offer.text));
        }
    }

    #[test]
    fn the_web_is_skewed_as_it_should_be() {
        let web = Web::new(7, 100_000, 80);
        let (mut all, mut chunk) = (web.all(4), Chunk::default());
        assert!(!web.next_known(&mut all, usize::MAX, &mut chunk));
        assert_eq!(chunk.len(), 100_000);
        let texts = texts(&chunk);
        assert_eq!(texts.iter().collect::<HashSet<_>>().len(), texts.len(), "every URL once");
        let mean = texts.iter().map(String::len).sum::<usize>() as f64 / texts.len() as f64;
        assert!((50.0..62.0).contains(&mean), "{mean} bytes a URL");
        let small =
            (0..web.hosts()).filter(|host| web.known(*host) < 10).count() as f64 / f64::from(web.hosts());
        assert!((0.65..0.85).contains(&small), "{small} of the hosts are small");
    }

    #[test]
    fn most_links_are_known_and_stay_in_their_domain() {
        let mut web = Web::new(7, 100_000, 80);
        let before: Vec<u32> = (0..web.hosts()).map(|host| web.known(host)).collect();
        let mut chunk = Chunk::default();
        web.links(50_000, &mut chunk);
        let new: u64 = (0..web.hosts())
            .map(|host| u64::from(web.known(host) - before.get(host as usize).copied().unwrap_or(0)))
            .sum();
        let share = new as f64 / chunk.len() as f64;
        assert!((0.17..0.27).contains(&share), "{share} new");
        let keys: Vec<_> = chunk.offers().map(|offer| offer.key.host.domain).collect();
        let same = keys.windows(2).filter(|pair| pair[0] == pair[1]).count() as f64 / keys.len() as f64;
        assert!((0.5..0.8).contains(&same), "{same} beside a link of the same domain");
    }
}
