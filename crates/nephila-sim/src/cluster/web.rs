//! The web of a simulated cluster: sites, pages, the links of each, and the pages that fail at first.
//!
//! Invariants: everything comes from the seed; a page that fails answers in the end, so everything that can be reached
//! from the seeds has to be fetched.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

use nephila_core::frontier::offers::OfferedUrl;
use nephila_core::job::JobId;
use nephila_core::key::{DomainKey, HostKey, Prefixes, Secret, UrlKey};
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;

use crate::rng::{Rng, mix};

/// The only job there is.
pub(crate) const JOB: JobId = JobId(1);

/// A site.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) origin: String,
    pub(crate) partition: u32,
    pub(crate) address: IpAddr,
}

/// A page.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) host: usize,
    pub(crate) key: UrlKey,
    pub(crate) text: String,
    /// Number of answers with 500 before the page answers.
    pub(crate) fails: u32,
    pub(crate) missing: bool,
}

/// The whole web.
#[derive(Clone, Debug)]
pub(crate) struct Web {
    pub(crate) hosts: Vec<Host>,
    pub(crate) pages: Vec<Page>,
    pub(crate) by_url: BTreeMap<String, u32>,
    pub(crate) by_origin: BTreeMap<String, usize>,
    pub(crate) by_key: BTreeMap<UrlKey, u32>,
    pub(crate) seeds: Vec<u32>,
    seed: u64,
}

impl Web {
    /// The web of a seed, over this number of partitions, with at most this number of domains.
    pub(crate) fn new(rng: &mut Rng, secret: &Secret, partitions: u32, domains: u64) -> Web {
        let mut web = Web {
            hosts: Vec::new(),
            pages: Vec::new(),
            by_url: BTreeMap::new(),
            by_origin: BTreeMap::new(),
            by_key: BTreeMap::new(),
            seeds: Vec::new(),
            seed: rng.bits(),
        };
        let pages_max = *rng.pick(&[4, 12, 30]);
        let addresses = *rng.pick(&[1, 2, 3, 256]);
        for n in 0..rng.within(2, 9) {
            let origin = format!("http://h{n}.d{}.test", rng.below(domains));
            if web.by_origin.contains_key(&origin) {
                continue;
            }
            let host = web.hosts.len();
            let mut partition = 0;
            for n in 0..rng.within(2, pages_max) {
                let text = format!("/p{n}");
                let full = format!("{origin}{text}");
                let url = CrawlUrl::parse(&full).expect("a URL of ours");
                let key = UrlKey::of(&url, secret);
                let share = |p: &u32| Prefixes::share(*p, partitions).holds(key.host.domain);
                partition = (0..partitions).find(share).expect("the shares hold everything");
                let at = web.pages.len() as u32;
                web.by_url.insert(full, at);
                web.by_key.insert(key, at);
                // The key of its own that the host has once its domain is spread.
                let own = HostKey { domain: DomainKey::of(url.host_str(), secret), ..key.host };
                web.by_key.insert(UrlKey { host: own, ..key }, at);
                let fails = if rng.one_in(8) { rng.within(1, 2) as u32 } else { 0 };
                web.pages.push(Page { host, key, text, fails, missing: rng.one_in(25) });
            }
            web.by_origin.insert(origin.clone(), host);
            let address = IpAddr::V4(Ipv4Addr::new(203, 0, 113, (host % addresses) as u8));
            web.hosts.push(Host { origin, partition, address });
        }
        web.seeds = (0..rng.within(1, 3)).map(|_| rng.below(web.pages.len() as u64) as u32).collect();
        web
    }

    /// The pages that a page links to.
    pub(crate) fn links(&self, page: u32) -> Vec<u32> {
        if self.pages[page as usize].missing {
            return Vec::new();
        }
        let mut rng = Rng::new(mix(self.seed ^ u64::from(page)));
        (0..rng.below(6)).map(|_| rng.below(self.pages.len() as u64) as u32).collect()
    }

    /// Everything that can be reached from the seeds.
    pub(crate) fn truth(&self) -> BTreeSet<u32> {
        let mut truth: BTreeSet<u32> = BTreeSet::new();
        let mut next = self.seeds.clone();
        while let Some(page) = next.pop() {
            if truth.insert(page) {
                next.extend(self.links(page));
            }
        }
        truth
    }

    /// The registrable domains.
    pub(crate) fn domains(&self) -> BTreeSet<String> {
        let domain = |host: &Host| host.origin.split_once('.').map(|(_, domain)| domain.to_owned());
        self.hosts.iter().filter_map(domain).collect()
    }

    pub(crate) fn partition(&self, page: u32) -> u32 {
        self.hosts[self.pages[page as usize].host].partition
    }

    pub(crate) fn offered(&self, page: u32, depth: u8) -> OfferedUrl {
        let this = &self.pages[page as usize];
        OfferedUrl {
            key: this.key,
            origin: self.hosts[this.host].origin.as_str().into(),
            text: this.text.as_str().into(),
            want: Want::of(JOB).at(depth),
        }
    }
}
