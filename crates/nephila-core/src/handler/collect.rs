//! References as a page writes them, gathered first and resolved afterwards.
//!
//! They wait because a `base` may stand behind the links it moves. A reference that was already seen is only merged, so
//! that a page that repeats itself costs little; when the page is over, each is joined with the base, written in its
//! canonical form, and counted once.
//!
//! What always holds: what a page needs to be shown never crowds out its links, for links are resolved first; no more
//! than `links_max` URLs come out and no more than [`RAW_PER_LINK`] times as many references wait.

use std::collections::BTreeMap;

use encoding_rs::Encoding;
use xxhash_rust::xxh3::xxh3_128;

use super::link::{Found, LinkKind};
use crate::url::{CrawlUrl, Fragments, KeyRules, URL_BYTES_MAX, UrlError, foreign_scheme};

/// How many differently written references wait for each URL that may come out.
pub(super) const RAW_PER_LINK: usize = 4;

/// What was seen and what became of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// References, repeated ones included.
    pub seen: u64,
    /// Of them with a scheme that is not fetched: `javascript:`, `mailto:`, `data:`.
    pub dropped_scheme: u64,
    /// That are no URL, or too long.
    pub dropped_invalid: u64,
    /// That were left out because there were too many.
    pub over_limit: u64,
}

/// A reference as it is written.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    text: String,
    kind: LinkKind,
    nofollow: bool,
}

/// Gathers references while a page is read.
#[derive(Debug)]
pub(super) struct Collector {
    raws: Vec<Raw>,
    /// Where a text stands in `raws`. By its hash, since a page that makes two of its own texts collide loses only one
    /// of its own links.
    by_text: BTreeMap<u128, usize>,
    raws_max: usize,
    /// Places within one page are one page.
    folds_fragments: bool,
    pub(super) counts: Counts,
}

impl Collector {
    pub(super) fn new(links_max: usize, keys: &KeyRules) -> Collector {
        Collector {
            raws: Vec::new(),
            by_text: BTreeMap::new(),
            raws_max: links_max.saturating_mul(RAW_PER_LINK),
            folds_fragments: keys.fragments == Fragments::Drop,
            counts: Counts::default(),
        }
    }

    /// Takes a reference.
    pub(super) fn push(&mut self, text: &str, kind: LinkKind, nofollow: bool) {
        self.counts.seen += 1;
        let mut text = text.trim_matches(|c: char| c <= ' ');
        if foreign_scheme(text).is_some() {
            self.counts.dropped_scheme += 1;
            return;
        }
        if text.len() > URL_BYTES_MAX {
            self.counts.dropped_invalid += 1;
            return;
        }
        // Most pages name dozens of places in themselves.
        if self.folds_fragments && text.starts_with('#') {
            text = "";
        }
        let hash = xxh3_128(text.as_bytes());
        if let Some(&at) = self.by_text.get(&hash) {
            let raw = &mut self.raws[at];
            (raw.kind, raw.nofollow) = merge((raw.kind, raw.nofollow), (kind, nofollow));
        } else if self.raws.len() >= self.raws_max {
            self.counts.over_limit += 1;
        } else {
            self.by_text.insert(hash, self.raws.len());
            self.raws.push(Raw { text: text.to_owned(), kind, nofollow });
        }
    }
}

/// Joins references with their base and keeps each URL once.
#[derive(Debug)]
pub(super) struct Resolver<'a> {
    page: &'a CrawlUrl,
    keys: &'a KeyRules,
    links_max: usize,
    by_key: BTreeMap<u128, usize>,
    pub(super) links: Vec<Found>,
    pub(super) counts: Counts,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(page: &'a CrawlUrl, keys: &'a KeyRules, links_max: usize) -> Resolver<'a> {
        let (by_key, links) = (BTreeMap::new(), Vec::new());
        Resolver { page, keys, links_max, by_key, links, counts: Counts::default() }
    }

    /// Resolves all that was gathered. True if time was up before the end.
    pub(super) fn resolve(
        &mut self,
        collector: Collector,
        base: &CrawlUrl,
        encoding: &'static Encoding,
        time_is_up: &mut dyn FnMut() -> bool,
    ) -> bool {
        let counts = collector.counts;
        self.counts.seen += counts.seen;
        self.counts.dropped_scheme += counts.dropped_scheme;
        self.counts.dropped_invalid += counts.dropped_invalid;
        self.counts.over_limit += counts.over_limit;
        for wanted in [false, true] {
            let chosen = collector.raws.iter().filter(|raw| (raw.kind == LinkKind::Requisite) == wanted);
            for (number, raw) in chosen.enumerate() {
                if number % RESOLVED_PER_LOOK == 0 && time_is_up() {
                    return true;
                }
                match base.join_in(&raw.text, encoding, self.keys) {
                    Ok(url) => self.add(url, raw.kind, raw.nofollow),
                    Err(UrlError::Scheme(_)) => self.counts.dropped_scheme += 1,
                    Err(_) => self.counts.dropped_invalid += 1,
                }
            }
        }
        false
    }

    /// Takes a URL. The page itself is nothing new.
    pub(super) fn add(&mut self, url: CrawlUrl, kind: LinkKind, nofollow: bool) {
        if url == *self.page {
            return;
        }
        let hash = xxh3_128(url.key().as_bytes());
        if let Some(&at) = self.by_key.get(&hash) {
            let found = &mut self.links[at];
            (found.kind, found.nofollow) = merge((found.kind, found.nofollow), (kind, nofollow));
        } else if self.links.len() >= self.links_max {
            self.counts.over_limit += 1;
        } else {
            self.by_key.insert(hash, self.links.len());
            self.links.push(Found { url, kind, nofollow });
        }
    }
}

/// The clock is looked at once in so many URLs.
const RESOLVED_PER_LOOK: usize = 256;

/// The stronger of two ways to name one URL. Of two equal ones, the one that may be followed.
fn merge(a: (LinkKind, bool), b: (LinkKind, bool)) -> (LinkKind, bool) {
    match a.0.cmp(&b.0) {
        std::cmp::Ordering::Less => a,
        std::cmp::Ordering::Greater => b,
        std::cmp::Ordering::Equal => (a.0, a.1 && b.1),
    }
}
