//! References as a page writes them, gathered first and resolved afterwards.
//!
//! They wait because a `base` may stand behind the links it moves. A reference that was already seen is only merged, so
//! that a page that repeats itself costs little; when the page is over, each is joined with the base, written in its
//! canonical form, and counted once.
//!
//! What always holds: what a page needs to be shown never crowds out its links, for links are resolved first; no more
//! than `links_max` URLs come out and no more than [`RAW_PER_LINK`] times as many references wait; all URLs that are
//! made of them have [`RESOLVED_BYTES_MAX`] bytes together, since a base of some kilobytes makes one of each reference.

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
    named: Named,
}

/// How a URL is named, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) kind: LinkKind,
    pub(super) place: &'static str,
    pub(super) nofollow: bool,
}

impl Named {
    pub(super) fn new(kind: LinkKind, place: &'static str) -> Named {
        Named { kind, place, nofollow: false }
    }
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
    pub(super) fn push(&mut self, text: &str, named: Named) {
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
            raw.named = merge(raw.named, named);
        } else if self.raws.len() >= self.raws_max {
            self.counts.over_limit += 1;
        } else {
            self.by_text.insert(hash, self.raws.len());
            self.raws.push(Raw { text: text.to_owned(), named });
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
    /// Bytes of the references that were joined and of the URLs that they became.
    resolved_bytes: usize,
    pub(super) links: Vec<Found>,
    pub(super) counts: Counts,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(page: &'a CrawlUrl, keys: &'a KeyRules, links_max: usize) -> Resolver<'a> {
        let (by_key, links) = (BTreeMap::new(), Vec::new());
        Resolver { page, keys, links_max, by_key, resolved_bytes: 0, links, counts: Counts::default() }
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
        let mut next_look = 0;
        for wanted in [false, true] {
            let chosen = collector.raws.iter().filter(|raw| raw.named.kind.is_requisite() == wanted);
            for raw in chosen {
                if self.resolved_bytes >= next_look {
                    next_look = self.resolved_bytes + RESOLVED_BYTES_PER_LOOK;
                    if time_is_up() {
                        return true;
                    }
                }
                if self.resolved_bytes > RESOLVED_BYTES_MAX {
                    self.counts.over_limit += 1;
                    continue;
                }
                // What cannot be joined was read too.
                self.resolved_bytes += REFERENCE_COST_BYTES + raw.text.len();
                match base.join_in(&raw.text, encoding, self.keys) {
                    Ok(url) => {
                        self.resolved_bytes += url.as_str().len();
                        self.add(url, raw.named);
                    }
                    Err(UrlError::Scheme(_)) => self.counts.dropped_scheme += 1,
                    Err(_) => self.counts.dropped_invalid += 1,
                }
            }
        }
        false
    }

    /// Takes a URL. The page itself is nothing new.
    pub(super) fn add(&mut self, url: CrawlUrl, named: Named) {
        if url == *self.page {
            return;
        }
        let hash = xxh3_128(url.key().as_bytes());
        if let Some(&at) = self.by_key.get(&hash) {
            let found = &mut self.links[at];
            let known = Named { kind: found.kind, place: found.place, nofollow: found.nofollow };
            let Named { kind, place, nofollow } = merge(known, named);
            (found.kind, found.place, found.nofollow) = (kind, place, nofollow);
        } else if self.links.len() >= self.links_max {
            self.counts.over_limit += 1;
        } else {
            self.by_key.insert(hash, self.links.len());
            let Named { kind, place, nofollow } = named;
            self.links.push(Found { url, kind, place, nofollow });
        }
    }
}

/// So many bytes of references and URLs are joined for one page. A page of 24,000 links of a hundred bytes has a third of it.
pub(super) const RESOLVED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// To join a reference costs as much as to copy so many bytes, however short it is.
const REFERENCE_COST_BYTES: usize = 64;

/// The clock is looked at once in so many of these bytes.
const RESOLVED_BYTES_PER_LOOK: usize = 64 * 1024;

/// The stronger of two ways to name one URL. Of two equal ones, the one that may be followed.
fn merge(a: Named, b: Named) -> Named {
    match a.kind.cmp(&b.kind) {
        std::cmp::Ordering::Less => a,
        std::cmp::Ordering::Greater => b,
        std::cmp::Ordering::Equal => Named { nofollow: a.nofollow && b.nofollow, ..a },
    }
}
