//! What the sites see, and what is durable. The checkers know neither the pool nor the spiders.

use std::collections::{BTreeMap, BTreeSet};

use crate::rng::{Rng, mix};
use crate::{Checker, Violation};

/// URLs of a site follow each other from the site's number times this.
pub(super) const URLS_OF_SITE: u64 = 1 << 32;

/// An address of sites.
#[derive(Debug)]
pub(super) struct Address {
    /// Maximum number of connections; 0 for no limit.
    pub(super) limit: u32,
    open: u32,
}

/// A site: one request at a time, and a rest after each.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) address: usize,
    pub(super) rest: u64,
    /// Whether it takes long to answer.
    pub(super) is_slow: bool,
    /// Number of URLs so far.
    pub(super) made: u64,
    /// Those that are not durable.
    pub(super) left: BTreeSet<u64>,
    busy: Option<u64>,
    ended: Option<u64>,
}

#[derive(Debug, Default)]
struct Url {
    requests: u64,
    /// Whether a fault lets it be requested once more.
    is_excused: bool,
    is_durable: bool,
}

/// The books of a world.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) addresses: Vec<Address>,
    pub(super) sites: Vec<Site>,
    urls: BTreeMap<u64, Url>,
    /// Until when sites may be asked at all.
    authority: Option<u64>,
    pub(super) pages: u64,
    pub(super) requests: u64,
    pub(super) repeats: u64,
    /// URLs that were open at faults.
    pub(super) excused: u64,
    pub(super) violation: Option<Violation>,
}

impl Books {
    pub(super) fn new(rng: &mut Rng) -> Books {
        let limits = [1, 1, 1, 2, 4, 64, 0];
        let addresses: Vec<Address> =
            (0..rng.within(2, 8)).map(|_| Address { limit: *rng.pick(&limits), open: 0 }).collect();
        let sites = (0..rng.within(6, 30)).map(|_| Site {
            address: rng.index(addresses.len()),
            rest: *rng.pick(&[100, 500, 1_000, 1_000, 5_000]),
            is_slow: rng.one_in(4),
            made: 0,
            left: BTreeSet::new(),
            busy: None,
            ended: None,
        });
        let sites = sites.collect();
        Books {
            addresses,
            sites,
            urls: BTreeMap::new(),
            authority: None,
            pages: 0,
            requests: 0,
            repeats: 0,
            excused: 0,
            violation: None,
        }
    }

    pub(super) fn found(&mut self, checker: Checker, what: impl Into<String>) {
        self.violation.get_or_insert(Violation::new(checker, what));
    }

    /// A new URL of a site.
    pub(super) fn make(&mut self, site: usize) {
        let url = site as u64 * URLS_OF_SITE + self.sites[site].made;
        self.sites[site].made += 1;
        self.sites[site].left.insert(url);
    }

    pub(super) fn left(&self) -> usize {
        self.sites.iter().map(|site| site.left.len()).sum()
    }

    pub(super) fn is_durable(&self, url: u64) -> bool {
        self.urls.get(&url).is_some_and(|url| url.is_durable)
    }

    /// A connection to the address is opened.
    pub(super) fn opened(&mut self, address: usize) {
        let at = &mut self.addresses[address];
        at.open += 1;
        let (open, limit) = (at.open, at.limit);
        if limit != 0 && open > limit {
            self.found(
                Checker::Politeness,
                format!("{open} connections to address {address}, whose limit is {limit}"),
            );
        }
    }

    pub(super) fn closed(&mut self, address: usize) {
        self.addresses[address].open -= 1;
    }

    /// A request begins at the site.
    pub(super) fn begins(&mut self, t: u64, url: u64) {
        let number = (url / URLS_OF_SITE) as usize;
        let site = &mut self.sites[number];
        let (busy, rested) = (site.busy.replace(url), site.ended.map_or(0, |at| at + site.rest));
        if let Some(other) = busy {
            self.found(
                Checker::Politeness,
                format!("site {number} is asked for {url} while it answers {other}"),
            );
        }
        if t < rested {
            self.found(Checker::Politeness, format!("site {number} is asked {} ms too early", rested - t));
        }
        if self.authority.is_some_and(|until| t >= until) {
            self.found(Checker::Owners, format!("site {number} is asked by a node that may not"));
        }
        self.requests += 1;
        let entry = self.urls.entry(url).or_default();
        entry.requests += 1;
        let is_repeat = entry.requests > 1;
        if is_repeat && !entry.is_excused {
            self.found(Checker::Repeats, format!("{url} is requested again without a fault"));
        } else {
            entry.is_excused = false;
        }
        self.repeats += u64::from(is_repeat);
    }

    /// A request has ended, or was broken off.
    pub(super) fn ends(&mut self, t: u64, url: u64) {
        let site = &mut self.sites[(url / URLS_OF_SITE) as usize];
        site.ended = Some(t);
        if site.busy == Some(url) {
            site.busy = None;
        }
    }

    /// A fault has met a URL that was under way: it may be requested once more.
    pub(super) fn excuse(&mut self, url: u64) {
        let entry = self.urls.entry(url).or_default();
        if entry.requests > 0 && !entry.is_durable && !entry.is_excused {
            entry.is_excused = true;
            self.excused += 1;
        }
    }

    /// A page is durable.
    pub(super) fn durable(&mut self, url: u64, body: &[u8]) {
        if body != content(url) {
            self.found(Checker::Archive, format!("{url} has a content that its site did not send"));
        }
        if !self.sites[(url / URLS_OF_SITE) as usize].left.remove(&url) {
            self.found(Checker::Archive, format!("{url} is stored twice"));
        }
        self.urls.entry(url).or_default().is_durable = true;
        self.pages += 1;
    }

    pub(super) fn set_authority(&mut self, until: u64) {
        self.authority = Some(until);
    }

    /// Another node may ask sites from now on.
    pub(super) fn authority_ends(&mut self, t: u64) {
        if self.authority == Some(t) && self.addresses.iter().any(|address| address.open > 0) {
            self.found(Checker::Owners, "connections are open when the authority of the node has ended");
        }
    }
}

/// What a site answers.
pub(super) fn content(url: u64) -> Vec<u8> {
    let chance = mix(url ^ 0x5eed);
    let len = match chance % 32 {
        0 => chance % 60_000,
        1..8 => 0,
        _ => chance % 300,
    };
    let words = (0..len.div_ceil(8)).flat_map(|word| mix(url.wrapping_add(word)).to_be_bytes());
    words.take(len as usize).collect()
}
