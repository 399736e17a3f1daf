//! The world of a seed: sites, pages and their links, addresses, and the settings the frontier runs with.
//!
//! Invariants: the links of a page are the same at every read; everything comes from the seed.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use nephila_core::follow::Follow;
use nephila_core::frontier::{Config, Settings, retry};
use nephila_core::job::{Job, JobId, Schedule, Scope};
use nephila_core::key::{PREFIXES, Prefixes, Secret, UrlKey};
use nephila_core::url::CrawlUrl;
use nephila_core::{budget, trap};

use crate::rng::Rng;

/// A site.
#[derive(Clone, Debug)]
pub struct Host {
    /// Scheme and authority.
    pub origin: String,
    /// The partition that its domain is in.
    pub partition: usize,
    /// Its pages, as places in [`World::urls`].
    pub pages: std::ops::Range<u32>,
}

/// A page that may be found.
#[derive(Clone, Debug)]
pub struct Page {
    /// The site.
    pub host: usize,
    /// The key under which the page is offered.
    pub key: UrlKey,
    /// Path and query.
    pub text: String,
    /// The URL.
    pub url: CrawlUrl,
    /// The URL is one of a trap: known, and never requested.
    pub is_trap: bool,
}

/// How often events happen, relative to each other.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// A fault of any kind, once in this number of steps.
    pub fault: u64,
    /// A report is lost, once in this number of reports.
    pub lost: u64,
    /// A page or name fails, once in this number of requests.
    pub failure: u64,
    /// The longest a server takes, in milliseconds.
    pub took_max: u64,
    /// The longest the world sleeps at once, in milliseconds.
    pub sleep_max: u64,
}

/// The world.
#[derive(Clone, Debug)]
pub struct World {
    /// The frontier's configuration.
    pub config: Config,
    /// Its secret.
    pub secret: Secret,
    /// Its partitions.
    pub partitions: Vec<Prefixes>,
    /// Sites.
    pub hosts: Vec<Host>,
    /// Pages.
    pub urls: Vec<Page>,
    /// Pages by their text, origin first.
    pub by_url: BTreeMap<String, u32>,
    /// Sites by origin.
    pub by_origin: BTreeMap<String, usize>,
    /// Pages by the last part of their keys.
    pub by_path: BTreeMap<u64, u32>,
    /// Addresses.
    pub addresses: Vec<IpAddr>,
    /// Jobs.
    pub jobs: Vec<Job>,
    /// How often things happen.
    pub rates: Rates,
    /// Whether a robots.txt may redirect to another site. False where keys are masked: the frontier makes its own.
    pub detours: bool,
    /// The kinds of links that are followed.
    pub follow: Follow,
    /// Maximum number of redirects in a row.
    pub redirects_max: u32,
    /// One page in this number redirects, and one chain.
    pub moved_rate: u64,
    /// Pages of a chain of redirects.
    pub chain_pages: u32,
    pub(crate) seed: u64,
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

impl World {
    /// The world of a seed.
    pub fn new(seed: u64) -> World {
        let rng = &mut Rng::new(seed);
        let config = config(rng);
        let secret = Secret(std::array::from_fn(|_| rng.bits() as u8));
        let count = *rng.pick(&[1, 1, 2, 3]);
        let partitions = (0..count).map(|i| Prefixes::share(i, count)).collect();
        let rates = Rates {
            fault: *rng.pick(&[30, 100, 400, 2_000]),
            lost: *rng.pick(&[5, 20, 200]),
            failure: *rng.pick(&[2, 5, 20, 100]),
            took_max: *rng.pick(&[50, 500, 20_000]),
            sleep_max: *rng.pick(&[300, 3_000, 60_000]),
        };
        let jobs = (1..=rng.within(1, 3) as u32)
            .map(|id| {
                let mut job = Job::new(JobId(id), format!("job-{id}"));
                if rng.one_in(2) {
                    job.schedule = Schedule::Every(secs(*rng.pick(&[60, 3_600, 86_400])));
                }
                job
            })
            .collect();
        let mut world = World {
            config,
            secret,
            partitions,
            hosts: Vec::new(),
            urls: Vec::new(),
            by_url: BTreeMap::new(),
            by_origin: BTreeMap::new(),
            by_path: BTreeMap::new(),
            addresses: addresses(rng),
            jobs,
            rates,
            detours: true,
            follow: Follow { nofollow: true, sitemaps: true, ..Follow::default() },
            redirects_max: 10,
            moved_rate: u64::MAX,
            chain_pages: 5,
            seed,
        };
        // In some worlds hosts of a domain share their keys, as two in four thousand million would.
        let mask = if rng.one_in(3) { 1 } else { u32::MAX };
        world.detours = mask == u32::MAX;
        let pages_max = *rng.pick(&[3, 12, 40, 150]);
        for domain in 0..rng.within(1, 6) {
            for host in 0..rng.within(1, 6) {
                let origin = format!("http://h{host}.d{domain}.test");
                let pages = rng.within(1, pages_max) as u32;
                world.add_host(origin, pages, mask, rng);
            }
        }
        world.add_void();
        (world.follow.nofollow, world.follow.page_requisites) = (!rng.one_in(3), rng.one_in(2));
        world.redirects_max = *rng.pick(&[0, 1, 3, 10, 20]);
        (world.moved_rate, world.chain_pages) = (*rng.pick(&[6, 20, 60]), *rng.pick(&[5, 20]));
        world.draw_scopes(rng);
        world
    }

    /// A site whose name does not resolve: only a redirect leads there.
    fn add_void(&mut self) {
        let origin = "http://void.test".to_owned();
        let url = CrawlUrl::parse(&origin).expect("a URL of ours");
        let domain = UrlKey::of(&url, &self.secret).host.domain;
        let partition = self.partitions.iter().position(|prefixes| prefixes.holds(domain));
        let partition = partition.expect("the partitions hold everything");
        self.by_origin.insert(origin.clone(), self.hosts.len());
        let end = self.urls.len() as u32;
        self.hosts.push(Host { origin, partition, pages: end..end });
    }

    fn add_host(&mut self, origin: String, pages: u32, mask: u32, rng: &mut Rng) {
        let first = self.urls.len() as u32;
        let host = self.hosts.len();
        let mut domain = None;
        for n in 0..pages {
            let is_trap = rng.one_in(40);
            let text = match rng.below(8) {
                _ if is_trap => format!("/r/r/r/r/r/r/r/{n}"),
                0 => format!("/private/{n}?q={n}"),
                // In the normal form of robots.txt the star is encoded.
                1 => format!("/s*{n}"),
                2 => format!("/a/b/{n}.html"),
                3 | 4 => format!("/a/{n}"),
                _ => format!("/p{n}"),
            };
            let full = format!("{origin}{text}");
            let url = CrawlUrl::parse(&full).expect("a URL of ours");
            let mut key = UrlKey::of(&url, &self.secret);
            key.host.host &= mask;
            domain = Some(key.host.domain);
            self.by_path.insert(key.path, self.urls.len() as u32);
            self.by_url.insert(full, self.urls.len() as u32);
            self.urls.push(Page { host, key, text, url, is_trap });
        }
        let prefix = domain.expect("a host has a page").prefix();
        let partition = (u64::from(prefix) * self.partitions.len() as u64 / u64::from(PREFIXES)) as usize;
        let partition = (0..self.partitions.len())
            .find(|i| self.partitions[*i].holds(domain.expect("as above")))
            .unwrap_or(partition);
        self.by_origin.insert(origin.clone(), host);
        self.hosts.push(Host { origin, partition, pages: first..first + pages });
    }

    /// A world of one site with this many pages and no faults: for bugs that only a large table shows.
    pub fn large(seed: u64, pages: u32) -> World {
        let mut world = World::new(seed);
        world.hosts.clear();
        world.urls.clear();
        world.by_url.clear();
        world.by_path.clear();
        world.by_origin.clear();
        world.detours = false;
        world.config.rules.budget = budget::Settings::default();
        world.config.rules.budget.domain_urls = u64::MAX;
        world.config.frontier.offers_max = 1 << 16;
        world.jobs.iter_mut().for_each(|job| job.scope = Scope::default());
        world.add_host("http://large.test".to_owned(), pages, u32::MAX, &mut Rng::new(seed));
        world
    }

    /// The whole URL.
    pub fn url(&self, url: u32) -> String {
        let page = &self.urls[url as usize];
        format!("{}{}", self.hosts[page.host].origin, page.text)
    }
}

fn addresses(rng: &mut Rng) -> Vec<IpAddr> {
    let mut addresses = Vec::new();
    for n in 0..rng.within(1, 5) as u16 {
        addresses.push(IpAddr::V4(Ipv4Addr::new(203, 0, 113, n as u8)));
        if rng.one_in(3) {
            // The same machine, spelled otherwise.
            addresses.push(IpAddr::V6(Ipv4Addr::new(203, 0, 113, n as u8).to_ipv6_mapped()));
        }
        if rng.one_in(2) {
            // Two addresses of one network.
            addresses.push(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, n, 0, 0, 0, 1)));
            addresses.push(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, n, 0, 0, 0, 2)));
        }
    }
    addresses
}

fn config(rng: &mut Rng) -> Config {
    let frontier = Settings {
        host_connections: rng.within(1, 3) as u32,
        host_delay: ms(*rng.pick(&[0, 500, 2_000, 10_000])),
        host_per_second: *rng.pick(&[0.0, 0.0, 1.0, 4.0]),
        host_delay_factor: *rng.pick(&[0, 1, 5]),
        host_delay_max: secs(*rng.pick(&[5, 60])),
        crawl_delay_max: secs(300),
        slot_connections: rng.within(1, 3) as u32,
        slot_delay: ms(*rng.pick(&[0, 100, 500, 3_000])),
        fleets: Vec::new(),
        hours: Vec::new(),
        hosts_active_max: *rng.pick(&[1, 3, 8, 1_000]),
        visit_urls_max: *rng.pick(&[1, 3, 20]),
        visit_bytes_max: *rng.pick(&[1, 64, 1_024]),
        domain_hosts_active_max: *rng.pick(&[1, 3, 1_000]),
        ticket_timeout: secs(*rng.pick(&[40, 300])),
        tickets_open_max: *rng.pick(&[1, 3, 1_000]),
        resolves_open_max: *rng.pick(&[1, 4, 1_000]),
        resolve_after: secs(*rng.pick(&[60, 3_600])),
        offers_max: *rng.pick(&[3, 32, 1_000]),
        recent_max: *rng.pick(&[1, 16, 1_024]),
    };
    let retry = retry::Settings {
        retries_max: rng.below(4) as u8,
        retries_broken_max: rng.below(3) as u8,
        back_off_first: secs(*rng.pick(&[5, 600])),
        back_off_other_first: secs(*rng.pick(&[2, 70, 900])),
        back_off_broken_first: secs(*rng.pick(&[30, 3_600])),
        back_off_factor: rng.within(1, 3) as u32,
        back_off_max: secs(86_400),
        host_rest_first: secs(*rng.pick(&[3, 60, 120])),
        host_rest_max: secs(3_600),
        challenge_rest: secs(*rng.pick(&[100, 7_200])),
        retry_after_max: secs(*rng.pick(&[50, 86_400])),
        pause: secs(*rng.pick(&[1, 30])),
        jitter_percent: *rng.pick(&[0, 10]),
    };
    let budget = budget::Settings {
        domain_urls: *rng.pick(&[2, 10, 100_000]),
        domain_urls_per_day: *rng.pick(&[0, 2_000, 200_000]),
        parked_text_max: *rng.pick(&[0, 5, 100_000]),
        ..Default::default()
    };
    let trap = trap::Settings {
        hosts_per_domain_max: *rng.pick(&[2, 10_000, 10_000]),
        pages_alike_max: *rng.pick(&[3, 20]),
        ..trap::Settings::default()
    };
    Config {
        frontier,
        retry,
        rules: nephila_core::frontier::Rules { budget, trap },
        agent: "nephila".to_owned(),
        ..Config::default()
    }
}
