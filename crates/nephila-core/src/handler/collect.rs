//! References as written in a page, collected first and resolved afterwards.
//!
//! They are buffered because a `base` may stand behind the links that the `base` changes. A repeated reference is only
//! merged, so a page that repeats itself costs little. At the end of the page, each is joined with the base, converted
//! to its canonical form, and deduplicated.
//!
//! Invariants: page requisites never crowd out links, since links are resolved first; at most `links_max` URLs come
//! out, and at most [`RAW_PER_LINK`] times as many references are buffered; all URLs made from them have
//! [`RESOLVED_BYTES_MAX`] bytes together, since a base of some kilobytes lengthens each reference.

use encoding_rs::Encoding;
use xxhash_rust::xxh3::xxh3_128;

use super::details::shown_anchor;
use super::hashes::Hashes;
use super::link::{FoundLink, LinkKind, LinkWords};
use crate::url::{Base, CrawlUrl, Fragments, KeyRules, URL_BYTES_MAX, UrlError, foreign_scheme};

/// Number of differently written references that are buffered for each URL that may come out.
pub(super) const RAW_PER_LINK: usize = 4;

/// The counts of references by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// References, including repeated ones.
    pub seen: u64,
    /// References with a scheme that is not fetched: `javascript:`, `mailto:`, `data:`.
    pub dropped_scheme: u64,
    /// References that are no URL, or too long.
    pub dropped_invalid: u64,
    /// References that were left out because of a limit.
    pub over_limit: u64,
}

/// A reference as written.
#[derive(Clone, Debug)]
struct Raw {
    /// Its place in the texts of all.
    from: usize,
    to: usize,
    named: Named,
    words: Option<Box<LinkWords>>,
}

/// How and where a page names a URL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Named {
    pub(super) kind: LinkKind,
    pub(super) place: &'static str,
    pub(super) nofollow: bool,
    pub(super) embedded: bool,
}

impl Named {
    pub(super) fn new(kind: LinkKind, place: &'static str) -> Named {
        Named { kind, place, nofollow: false, embedded: kind.letter() == 'E' }
    }
}

/// Collects references while a page is read.
#[derive(Debug)]
pub(super) struct Collector {
    raws: Vec<Raw>,
    /// The texts of all references in a row.
    texts: String,
    /// The numbers of the texts in `raws`. By hash, since a page that makes two of its own texts collide loses only one
    /// of its own links.
    by_text: Hashes,
    raws_max: usize,
    /// Whether references that differ only in the fragment are one page.
    folds_fragments: bool,
    pub(super) counts: Counts,
}

impl Collector {
    pub(super) fn new(links_max: usize, keys: &KeyRules) -> Collector {
        Collector {
            raws: Vec::new(),
            texts: String::new(),
            by_text: Hashes::default(),
            raws_max: links_max.saturating_mul(RAW_PER_LINK),
            folds_fragments: keys.fragments == Fragments::Drop,
            counts: Counts::default(),
        }
    }

    /// Adds a reference. Returns its number, unless the reference is left out.
    pub(super) fn push(&mut self, text: &str, named: Named) -> Option<usize> {
        self.counts.seen += 1;
        let mut text = text.trim_matches(|c: char| c <= ' ');
        if foreign_scheme(text).is_some() {
            self.counts.dropped_scheme += 1;
            return None;
        }
        if text.len() > URL_BYTES_MAX {
            self.counts.dropped_invalid += 1;
            return None;
        }
        // Most pages link dozens of fragments of themselves.
        if self.folds_fragments && text.starts_with('#') {
            text = "";
        }
        let hash = xxh3_128(text.as_bytes());
        if let Some(at) = self.by_text.find(hash) {
            let raw = &mut self.raws[at];
            raw.named = merge(raw.named, named);
            Some(at)
        } else if self.raws.len() >= self.raws_max {
            self.counts.over_limit += 1;
            None
        } else {
            self.by_text.add(hash);
            let from = self.texts.len();
            self.texts.push_str(text);
            self.raws.push(Raw { from, to: self.texts.len(), named, words: None });
            Some(self.raws.len() - 1)
        }
    }

    /// The words about a reference.
    pub(super) fn words(&mut self, at: usize) -> &mut LinkWords {
        self.raws[at].words.get_or_insert_default()
    }
}

/// Joins references with their base and deduplicates URLs.
#[derive(Debug)]
pub(super) struct Resolver<'a> {
    page: &'a CrawlUrl,
    keys: &'a KeyRules,
    links_max: usize,
    by_key: Hashes,
    /// Bytes of the references that were joined and of the resulting URLs.
    resolved_bytes: usize,
    pub(super) links: Vec<FoundLink>,
    pub(super) counts: Counts,
}

impl<'a> Resolver<'a> {
    pub(super) fn new(page: &'a CrawlUrl, keys: &'a KeyRules, links_max: usize) -> Resolver<'a> {
        let (by_key, links) = (Hashes::default(), Vec::new());
        Resolver { page, keys, links_max, by_key, resolved_bytes: 0, links, counts: Counts::default() }
    }

    /// Resolves all collected references. Returns true if the deadline passed before the end.
    pub(super) fn resolve(
        &mut self,
        collector: Collector,
        base: &Base<'_>,
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
                // References that cannot be joined were read too.
                let text = &collector.texts[raw.from..raw.to];
                self.resolved_bytes += REFERENCE_COST_BYTES + text.len();
                match base.join(text, Some(encoding), self.keys) {
                    Ok(url) => {
                        self.resolved_bytes += url.as_str().len();
                        let words = raw.words.as_deref().map(|words| {
                            let anchor = shown_anchor(&words.anchor);
                            Box::new(LinkWords { anchor, rel: words.rel.clone() })
                        });
                        self.add(url, raw.named, words);
                    }
                    Err(UrlError::Scheme(_)) => self.counts.dropped_scheme += 1,
                    Err(_) => self.counts.dropped_invalid += 1,
                }
            }
        }
        false
    }

    /// Adds a URL. The page's own URL is ignored.
    pub(super) fn add(&mut self, url: CrawlUrl, named: Named, words: Option<Box<LinkWords>>) {
        if url == *self.page {
            return;
        }
        let hash = xxh3_128(url.key().as_bytes());
        if let Some(at) = self.by_key.find(hash) {
            let found = &mut self.links[at];
            let FoundLink { kind, place, nofollow, embedded, .. } = *found;
            let Named { kind, place, nofollow, embedded } =
                merge(Named { kind, place, nofollow, embedded }, named);
            (found.kind, found.place, found.nofollow, found.embedded) = (kind, place, nofollow, embedded);
            if let Some(words) = words {
                let known = found.words.get_or_insert_default();
                let LinkWords { anchor, rel } = *words;
                [(&mut known.anchor, anchor), (&mut known.rel, rel)]
                    .into_iter()
                    .filter(|(known, _)| known.is_empty())
                    .for_each(|(known, said)| *known = said);
            }
        } else if self.links.len() >= self.links_max {
            self.counts.over_limit += 1;
        } else {
            self.by_key.add(hash);
            let Named { kind, place, nofollow, embedded } = named;
            self.links.push(FoundLink { url, kind, place, nofollow, embedded, words });
        }
    }
}

/// Maximum number of bytes of references and URLs that are joined for one page. A page of 24,000 links of a hundred
/// bytes uses a third.
pub(super) const RESOLVED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Joining a reference costs as much as copying this number of bytes, however short the reference is.
const REFERENCE_COST_BYTES: usize = 64;

/// The deadline is checked once in this number of these bytes.
const RESOLVED_BYTES_PER_LOOK: usize = 64 * 1024;

/// The stronger of two ways to name one URL. Of two equal ones, the one that may be followed.
fn merge(a: Named, b: Named) -> Named {
    let embedded = a.embedded || b.embedded;
    let stronger = match a.kind.cmp(&b.kind) {
        std::cmp::Ordering::Less => a,
        std::cmp::Ordering::Greater => b,
        std::cmp::Ordering::Equal => Named { nofollow: a.nofollow && b.nofollow, ..a },
    };
    Named { embedded, ..stronger }
}
