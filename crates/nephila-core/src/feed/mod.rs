//! Feeds: what a source says is new, read, judged and planned. Everything here is values in, decisions out.
//!
//! A body becomes a [`Feed`] ([`read_feed`]): RSS 0.9x, RDF and 2.0, Atom 0.3 and 1.0, JSON Feed, news sitemaps, in
//! whatever state they are. Its [`checksum`](Feed::checksum) says whether it names other URLs than last time; if it does,
//! [`story`] says which of its entries are new stories. [`schedule`] says when it is asked again, and whether it is
//! silent against its own rhythm. [`poll`] puts these together, [`record`] is what is kept of it, [`source`] what feeds of one source
//! share. [`pages`] follows feeds in pages, [`opml`] reads and writes lists of feeds.
//!
//! There is one reader for good and bad feeds alike, not a strict one with a lenient one behind it: a feed that is
//! broken today and mended tomorrow must give the same entries on both days, or every one of them is a new story.
//!
//! What always holds: no bytes make it fail, expand an entity, or take more than the [`Limits`]; an entry has a URL that
//! can be fetched; a guid is what the feed wrote and never made up; a date that cannot be read is no date.

mod date;
mod json;
pub mod opml;
pub mod pages;
pub mod poll;
pub mod record;
pub mod schedule;
pub mod source;
pub mod story;
mod text;
mod xml;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use encoding_rs::{UTF_8, UTF_16BE, UTF_16LE};

use serde::{Deserialize, Serialize};

use crate::handler::{Page, ReadAs, charset, sniff};
use crate::time::Timestamp;
use crate::url::CrawlUrl;

/// Feeds that are followed. Section `[feed]` of the settings file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Are feeds followed that a page names (`<link rel=alternate>`)? Those that somebody added are, in any case; others
    /// are otherwise read once, for their links.
    pub follow_found: bool,
    /// When a feed is asked again.
    pub schedule: schedule::Settings,
    /// Which entries are stories.
    pub story: story::Settings,
}

impl Settings {
    /// Is a URL that is read as this, so many links from a seed, a feed to be followed?
    pub fn follows(&self, read_as: ReadAs, depth: u8) -> bool {
        read_as == ReadAs::Feed && (depth == 0 || self.follow_found)
    }
}

/// How much of a feed is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of its body.
    pub bytes_max: usize,
    /// Entries taken from it.
    pub entries_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { bytes_max: 10 * 1024 * 1024, entries_max: ENTRIES_MAX }
    }
}

/// Entries taken from one feed, unless a setting says less. The story memory is made for as many.
pub const ENTRIES_MAX: usize = 5_000;

/// Open tags that a parser of feeds remembers.
const OPEN_MAX: usize = 200_000;

/// What a feed is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// RSS 0.91 to 2.0.
    Rss,
    /// RSS 0.90 and 1.0.
    Rdf,
    /// Atom 0.3 and 1.0.
    Atom,
    /// JSON Feed.
    Json,
    /// A sitemap, with or without news in it.
    Sitemap,
}

impl Format {
    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Rss => "rss",
            Format::Rdf => "rdf",
            Format::Atom => "atom",
            Format::Json => "json",
            Format::Sitemap => "sitemap",
        }
    }
}

/// How often the feed wants to be asked, by its own word. Hints, and often nonsense: the schedule bounds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// `ttl` of RSS.
    pub ttl: Option<Duration>,
    /// `sy:updatePeriod`, divided by `sy:updateFrequency`.
    pub update_period: Option<Duration>,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// Its page.
    pub url: CrawlUrl,
    /// What the feed knows it by, as it is written there; none if the feed gives none.
    pub guid: Option<String>,
    /// Its title, on one line, without markup. May be empty.
    pub title: String,
    /// When it was published, by its own word.
    pub published: Option<Timestamp>,
    /// When it was changed, by its own word.
    pub updated: Option<Timestamp>,
    /// Who wrote it.
    pub author: Option<String>,
    /// Its language, or that of the feed, as it is written there: `en`, `pt-BR`.
    pub language: Option<String>,
}

/// What else there is to say about a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Note {
    /// It is none.
    NotAFeed,
    /// It is broken, and was read as far as it made sense.
    Broken,
    /// It ends before its end. The entry that was being read is left out: half of it is another one.
    Partial,
    /// It is not in the encoding it claims.
    WrongEncoding,
    /// It is longer than what is read of one.
    TooLong,
    /// It has more entries than are taken from one.
    TooMany,
    /// It uses entities of its own; they stay as they are, and a URL with one is none.
    OwnEntities,
    /// Some of its entries name no page that can be fetched.
    BadUrls,
}

impl Note {
    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Note::NotAFeed => "not-a-feed",
            Note::Broken => "broken",
            Note::Partial => "partial",
            Note::WrongEncoding => "wrong-encoding",
            Note::TooLong => "too-long",
            Note::TooMany => "too-many",
            Note::OwnEntities => "own-entities",
            Note::BadUrls => "bad-urls",
        }
    }
}

/// What a feed says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feed {
    /// What it is written in; none if it is no feed.
    pub format: Option<Format>,
    /// Its title, on one line.
    pub title: String,
    /// Its language.
    pub language: Option<String>,
    /// The page it belongs to.
    pub site: Option<CrawlUrl>,
    /// Its next page (RFC 5005). May well be one that was read before: whoever follows counts.
    pub next: Option<CrawlUrl>,
    /// How often it wants to be asked.
    pub hints: Hints,
    /// Its entries, in its own order.
    pub entries: Vec<FeedEntry>,
    /// How many entries name no page that can be fetched.
    pub dropped: u64,
    /// A limit was met or time was up: there may be more.
    pub cut: bool,
    /// What else there is to say, each once, in order.
    pub notes: Vec<Note>,
}

impl Feed {
    /// A number that stays while the feed names the same URLs, in whatever order and however often (SEEDS D7). A feed
    /// that says the same as last time is stored as [`REDUNDANT`] and its entries are not looked at.
    pub fn checksum(&self) -> u64 {
        let mut keys: Vec<&str> = self.entries.iter().map(|entry| entry.url.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        for key in keys {
            hasher.update(key.as_bytes());
            // No key holds a line end, so no two lists give the same bytes.
            hasher.update(b"\n");
        }
        hasher.digest()
    }

    /// The mean time between its entries by their own dates, if at least three have one. What the schedule goes by
    /// before it has seen anything itself.
    pub fn dated_gap(&self) -> Option<Duration> {
        let mut dates: Vec<u64> = self.entries.iter().filter_map(|e| e.published).map(|t| t.0).collect();
        dates.sort_unstable();
        dates.dedup();
        match dates.as_slice() {
            [first, .., last] if dates.len() >= 3 => {
                Some(Duration::from_millis((last - first) / (dates.len() as u64 - 1)))
            }
            _ => None,
        }
    }

    /// Is this said about it?
    pub fn has(&self, note: Note) -> bool {
        self.notes.contains(&note)
    }

    fn note(&mut self, note: Note) {
        if let Err(at) = self.notes.binary_search(&note) {
            self.notes.insert(at, note);
        }
    }
}

/// What is stored instead of a feed that names the same URLs as the one before (SEEDS D7).
pub const REDUNDANT: &str = "(redundant feed)";

/// Reads a feed. What kind of feed it is, is seen from its bytes.
pub fn read_feed(page: &Page<'_>, limits: &Limits) -> Feed {
    read_feed_until(page, limits, &mut || false)
}

/// Like [`read_feed`], ending early when `time_is_up` says so. It is asked once in a thousand tags or a hundred entries.
pub fn read_feed_until(page: &Page<'_>, limits: &Limits, time_is_up: &mut dyn FnMut() -> bool) -> Feed {
    let mut feed = Feed::default();
    let mut body = page.body;
    if body.len() > limits.bytes_max {
        feed.note(Note::TooLong);
        body = &body[..limits.bytes_max];
    }
    let text = decode(page, body, limits, &mut feed);
    let start = text.trim_start_matches(|c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}');
    let mut list = List { page, entries_max: limits.entries_max, feed };
    if start.starts_with('{') {
        json::read(start, &mut list, time_is_up);
    } else if let Some(at) = start.find('<') {
        // What stands before the first tag is a warning of the server's or the rest of a template.
        xml::read(&start[at..], &mut list, time_is_up);
    }
    list.finish()
}

/// A feed while it is read.
struct List<'a> {
    page: &'a Page<'a>,
    entries_max: usize,
    feed: Feed,
}

/// An entry as it is written, by either reader.
#[derive(Clone, Debug, Default)]
struct Draft {
    /// What may be its page, best first, each with the base that stands nearest to it.
    links: Vec<(String, Option<CrawlUrl>)>,
    guid: String,
    title: String,
    title_is_markup: bool,
    published: String,
    updated: String,
    author: String,
    language: String,
}

impl List<'_> {
    /// There is room for no more: the rest need not be read.
    fn is_full(&self) -> bool {
        self.feed.cut
    }

    fn url(&self, href: &str, base: Option<&CrawlUrl>) -> Option<CrawlUrl> {
        let href = text::url(href);
        if href.is_empty() {
            return None;
        }
        base.unwrap_or(self.page.url).join_with(href, self.page.keys).ok()
    }

    fn push(&mut self, draft: Draft) {
        let found = draft.links.iter().find_map(|(href, base)| self.url(href, base.as_ref()));
        let Some(url) = found else {
            self.feed.dropped += 1;
            self.feed.note(Note::BadUrls);
            return;
        };
        if self.feed.entries.len() >= self.entries_max {
            self.feed.note(Note::TooMany);
            self.feed.cut = true;
            return;
        }
        let published = date::parse(&draft.published);
        let guid = draft.guid.trim();
        self.feed.entries.push(FeedEntry {
            url,
            guid: (!guid.is_empty()).then(|| guid.to_owned()),
            title: text::line(&draft.title, draft.title_is_markup),
            published,
            updated: date::parse(&draft.updated),
            author: some_line(&draft.author),
            language: text::language(&draft.language),
        });
    }

    fn finish(mut self) -> Feed {
        // What was cut before it was read may have had more.
        self.feed.cut |= self.feed.notes.contains(&Note::TooLong);
        if self.feed.format.is_none() {
            self.feed.entries.clear();
            self.feed.note(Note::NotAFeed);
        }
        let language = &self.feed.language;
        for entry in self.feed.entries.iter_mut().filter(|entry| entry.language.is_none()) {
            entry.language.clone_from(language);
        }
        self.feed
    }
}

fn some_line(text: &str) -> Option<String> {
    Some(text::line(text, true)).filter(|line| !line.is_empty())
}

/// The text of a feed. A byte order mark is believed, then bytes that are UTF-8 (few others are by chance), then the
/// `Content-Type`, then the XML declaration (RFC 7303, 3). A label under which the bytes make no sense is a wrong one,
/// and the next is tried.
fn decode<'a>(page: &Page<'_>, bytes: &'a [u8], limits: &Limits, feed: &mut Feed) -> Cow<'a, str> {
    let mut labels = page.fields.get_all(http::header::CONTENT_TYPE).iter().map(|value| value.as_bytes());
    let label = labels.rfind(|label| sniff::essence(label).is_some());
    // The declaration is looked for at the very start, where it often is not.
    let from = bytes.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(bytes.len());
    let from = from
        + memchr::memmem::find(&bytes[from..bytes.len().min(from + JUNK_BYTES_MAX)], b"<?xml").unwrap_or(0);
    let wide = |encoding| encoding == UTF_16LE || encoding == UTF_16BE;
    let has_nul = bytes.iter().take(sniff::SNIFF_BYTES_MAX).any(|byte| *byte == 0);
    let mut said = charset::decide(label, bytes).encoding;
    if wide(said) && !has_nul {
        feed.note(Note::WrongEncoding);
        said = UTF_8;
    }
    if !has_nul && said != encoding_rs::ISO_2022_JP {
        match std::str::from_utf8(bytes) {
            Ok(text) => return Cow::Borrowed(text),
            // A character cut in half by a limit is no reason to believe in another encoding.
            Err(error) if error.error_len().is_none() => {
                let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]);
                return Cow::Borrowed(valid.expect("checked up to here"));
            }
            Err(_) => {}
        }
    }
    // Text grows when it becomes UTF-8, by half again at most in what feeds are written in.
    let text_bytes_max = limits.bytes_max.saturating_mul(2);
    let mut best = charset::decode(said, bytes, text_bytes_max);
    if best.replaced {
        feed.note(Note::WrongEncoding);
        // What the feed says of itself, then what its bytes look like.
        for prefix in [&bytes[from..], bytes] {
            let other = charset::decide(None, prefix).encoding;
            if other == said || wide(other) && !has_nul {
                continue;
            }
            let again = charset::decode(other, bytes, text_bytes_max);
            if !again.replaced {
                best = again;
                break;
            }
        }
    }
    Cow::Owned(best.text)
}

/// So far in the XML declaration is looked for.
const JUNK_BYTES_MAX: usize = 4 * 1024;
