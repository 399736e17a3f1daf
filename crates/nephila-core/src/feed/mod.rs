//! Feeds: reading a feed, judging which entries are new stories, and planning the next poll. Pure functions: values in,
//! decisions out.
//!
//! A body becomes a [`Feed`] ([`read_feed`]): RSS 0.9x, RDF and 2.0, Atom 0.3 and 1.0, JSON Feed, news sitemaps, well
//! formed or broken. The [`checksum`](Feed::checksum) tells whether the feed names other URLs than at the last poll. If
//! so, [`story`] decides which entries are new stories (deduplication). [`schedule`] plans the next poll, and tells
//! whether the feed is silent against its own rhythm. [`poll`] combines these steps, [`record`] is the durable record
//! of a feed, [`source`] the state that the feeds of one source share. [`pages`] follows paged feeds, [`opml`] reads
//! and writes lists of feeds.
//!
//! One reader handles good and bad feeds alike; there is no strict reader with a lenient fallback. A feed that is
//! broken today and repaired tomorrow must give the same entries on both days, or every entry is a new story.
//!
//! Invariants: no input makes the reader fail, expand an entity, or exceed the [`Limits`]; an entry has a URL that can
//! be fetched; a guid is a text of the feed and never invented; a date that cannot be parsed is no date.

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
    /// Whether to follow feeds that a page names (`<link rel=alternate>`). If off, such feeds are read once, for their
    /// links. Feeds that an operator added are always followed.
    pub follow_found: bool,
    /// When a feed is polled again.
    pub schedule: schedule::Settings,
    /// Which entries count as new stories.
    pub story: story::Settings,
}

impl Settings {
    /// Whether a URL that is read as `read_as`, at this link depth from a seed, is followed as a feed.
    pub fn follows(&self, read_as: ReadAs, depth: u8) -> bool {
        read_as == ReadAs::Feed && (depth == 0 || self.follow_found)
    }
}

/// Limits of reading one feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the body in bytes.
    pub bytes_max: usize,
    /// Maximum number of entries taken from the feed.
    pub entries_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { bytes_max: 10 * 1024 * 1024, entries_max: ENTRIES_MAX }
    }
}

/// Maximum number of entries taken from one feed, unless a setting is lower. The story memory is sized for this number.
pub const ENTRIES_MAX: usize = 5_000;

/// Maximum number of open tags that a parser of feeds remembers.
const OPEN_MAX: usize = 200_000;

/// The format of a feed.
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

/// How often the feed wants to be polled, by its own statement. Hints are often nonsense: the schedule bounds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// `ttl` of RSS.
    pub ttl: Option<Duration>,
    /// `sy:updatePeriod`, divided by `sy:updateFrequency`.
    pub update_period: Option<Duration>,
}

/// One entry of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// The page of the entry.
    pub url: CrawlUrl,
    /// The identifier of the entry, as the feed writes it; none if the feed gives none.
    pub guid: Option<String>,
    /// The title, on one line, without markup. May be empty.
    pub title: String,
    /// The date of publication, by the entry's own statement.
    pub published: Option<Timestamp>,
    /// The date of the last change, by the entry's own statement.
    pub updated: Option<Timestamp>,
    /// The author.
    pub author: Option<String>,
    /// The language of the entry, or else of the feed, as written there: `en`, `pt-BR`.
    pub language: Option<String>,
}

/// A remark about a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Note {
    /// The text is no feed.
    NotAFeed,
    /// The feed is broken, and was read as far as possible.
    Broken,
    /// The feed ends too early. The entry that was being read is left out: half an entry would be a different one.
    Partial,
    /// The feed is not in the encoding that the feed claims.
    WrongEncoding,
    /// The feed is longer than [`Limits::bytes_max`].
    TooLong,
    /// The feed has more entries than [`Limits::entries_max`].
    TooMany,
    /// The feed uses entities of its own. They stay unexpanded, and a URL with one is dropped.
    OwnEntities,
    /// Some entries name no page that can be fetched.
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

/// The contents of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feed {
    /// The format; none if the text is no feed.
    pub format: Option<Format>,
    /// The title, on one line.
    pub title: String,
    /// The language.
    pub language: Option<String>,
    /// The page that the feed belongs to.
    pub site: Option<CrawlUrl>,
    /// The next page (RFC 5005). May be a page that was read before: the caller counts ([`pages::Walk`]).
    pub next: Option<CrawlUrl>,
    /// How often the feed wants to be polled.
    pub hints: Hints,
    /// The entries, in the order of the feed.
    pub entries: Vec<FeedEntry>,
    /// Number of entries that name no page that can be fetched.
    pub dropped: u64,
    /// A limit or the deadline was reached: there may be more entries.
    pub cut: bool,
    /// The remarks, each once, in order.
    pub notes: Vec<Note>,
}

impl Feed {
    /// A hash of the set of URLs that the feed names, independent of their order and repetition (SEEDS D7). A feed with
    /// the checksum of the last poll is stored as [`REDUNDANT`], and its entries are not judged.
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

    /// The mean time between the entries by their own dates, if at least three have a date. The schedule uses this gap
    /// before the first observed one.
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

    /// Whether the feed has this remark.
    pub fn has(&self, note: Note) -> bool {
        self.notes.contains(&note)
    }

    fn note(&mut self, note: Note) {
        if let Err(at) = self.notes.binary_search(&note) {
            self.notes.insert(at, note);
        }
    }
}

/// The text that is stored instead of a feed with the same URLs as before (SEEDS D7).
pub const REDUNDANT: &str = "(redundant feed)";

/// Reads a feed. The format is detected from the bytes.
pub fn read_feed(page: &Page<'_>, limits: &Limits) -> Feed {
    read_feed_until(page, limits, &mut || false)
}

/// Like [`read_feed`], ending early when `time_is_up` returns true. The check runs once per thousand tags or hundred
/// entries.
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
        // Text before the first tag is a warning of the server or the rest of a template.
        xml::read(&start[at..], &mut list, time_is_up);
    }
    list.finish()
}

/// A feed while the reader builds it up.
struct List<'a> {
    page: &'a Page<'a>,
    entries_max: usize,
    feed: Feed,
}

/// An entry as written, before its texts are parsed; built by either reader.
#[derive(Clone, Debug, Default)]
struct Draft {
    /// Candidates for the page, best first, each with the nearest base URL.
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
    /// Whether no more entries fit: the rest need not be read.
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
        // The part that was cut off may have had more entries.
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

/// Decodes the text of a feed. A byte order mark takes precedence, then bytes that are valid UTF-8 (other encodings
/// rarely are by chance), then the `Content-Type`, then the XML declaration (RFC 7303, 3). A label under which the
/// bytes cannot be decoded is wrong, and the next one is tried.
fn decode<'a>(page: &Page<'_>, bytes: &'a [u8], limits: &Limits, feed: &mut Feed) -> Cow<'a, str> {
    let mut labels = page.fields.get_all(http::header::CONTENT_TYPE).iter().map(|value| value.as_bytes());
    let label = labels.rfind(|label| sniff::essence(label).is_some());
    // The declaration should be at the very start, and often is not.
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
        // First the feed's own declaration, then a guess from the bytes.
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

/// The XML declaration is searched for in this number of bytes.
const JUNK_BYTES_MAX: usize = 4 * 1024;
