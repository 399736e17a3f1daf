//! Sitemaps, and feeds read as sitemaps: lists of URLs that a site gives to crawlers (sitemaps.org).
//!
//! A body may be compressed with gzip once more, be XML or one URL per line, and be broken in every way XML can be. The
//! body is decompressed and decoded up to a limit, and then read once from front to back: `sitemap/xml.rs` for XML,
//! below for lines. No entity is expanded, nothing is fetched, no document type is applied.
//!
//! A sitemap may list URLs of its own host only, unless robots.txt of the other host names the sitemap. That is not
//! known here: entries of other hosts come out marked as `foreign`, and the caller decides.
//!
//! Invariants: at most `sitemap_bytes_max` bytes are decompressed and at most `sitemap_urls_max` entries come out; any
//! input gives the part that could be parsed.

pub(crate) mod date;
mod xml;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, BufRead, Read};

use encoding_rs::{UTF_8, UTF_16BE, UTF_16LE};
use xxhash_rust::xxh3::xxh3_128;

use super::charset;
use super::page::{Limits, Page};
use super::sniff;
use crate::time::Timestamp;
use crate::url::{CrawlUrl, UrlError};

/// One page that a sitemap lists.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The page.
    pub url: CrawlUrl,
    /// The date of the last change, by the site's statement. A hint: the future and 1970 are common.
    pub lastmod: Option<Timestamp>,
    /// The priority between 0 and 1, by the site's statement.
    pub priority: Option<f32>,
    /// The same page in other languages.
    pub alternates: Vec<CrawlUrl>,
    /// The page is on another host than the sitemap.
    pub foreign: bool,
}

/// A remark about a sitemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Note {
    /// The text is no sitemap: nothing names a page.
    NotASitemap,
    /// The XML is broken, and was read as far as possible.
    Broken,
    /// The gzip data is truncated or followed by something else.
    TornGzip,
    /// The text is not in the declared encoding.
    WrongEncoding,
    /// The sitemap is longer than the limit.
    TooLong,
    /// The sitemap has more entries than the limit.
    TooMany,
    /// The sitemap uses entities of its own; texts with one were dropped.
    OwnEntities,
    /// Some entries are no URLs.
    BadUrls,
    /// Some entries are on other hosts.
    Foreign,
}

impl Note {
    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Note::NotASitemap => "not-a-sitemap",
            Note::Broken => "broken",
            Note::TornGzip => "torn-gzip",
            Note::WrongEncoding => "wrong-encoding",
            Note::TooLong => "too-long",
            Note::TooMany => "too-many",
            Note::OwnEntities => "own-entities",
            Note::BadUrls => "bad-urls",
            Note::Foreign => "foreign",
        }
    }
}

/// The contents of a sitemap.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SitemapFindings {
    /// The pages, including repetitions.
    pub urls: Vec<Entry>,
    /// The sitemaps that an index lists.
    pub sitemaps: Vec<CrawlUrl>,
    /// Number of texts that should be URLs and are none.
    pub dropped: u64,
    /// A limit or the deadline was reached: there may be more.
    pub cut: bool,
    /// The remarks, each once, in order.
    pub notes: Vec<Note>,
}

impl SitemapFindings {
    fn note(&mut self, note: Note) {
        if let Err(at) = self.notes.binary_search(&note) {
            self.notes.insert(at, note);
        }
    }
}

/// Reads a sitemap. The format is detected from the bytes.
pub fn read_sitemap(page: &Page<'_>, limits: &Limits) -> SitemapFindings {
    read_until(page, limits, &mut || false)
}

pub(super) fn read_until(
    page: &Page<'_>,
    limits: &Limits,
    time_is_up: &mut dyn FnMut() -> bool,
) -> SitemapFindings {
    let mut list = List::new(page, limits);
    let bytes = unpack(page.body, limits, &mut list.findings, time_is_up);
    let text = decode(page, &bytes, limits, &mut list.findings);
    let text = text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
    if text.starts_with('<') {
        xml::read(text, &mut list, time_is_up);
    } else {
        read_lines(text, &mut list, time_is_up);
    }
    list.finish()
}

/// The entries of a sitemap while the reader collects them.
struct List<'a> {
    page: &'a Page<'a>,
    urls_max: usize,
    alternates: usize,
    findings: SitemapFindings,
}

impl<'a> List<'a> {
    fn new(page: &'a Page<'a>, limits: &Limits) -> List<'a> {
        List { page, urls_max: limits.sitemap_urls_max, alternates: 0, findings: SitemapFindings::default() }
    }

    /// Whether no more entries fit: the rest need not be read.
    fn is_full(&self) -> bool {
        self.findings.cut
    }

    fn url(&mut self, text: &str) -> Option<CrawlUrl> {
        let text = text.trim_matches(|c: char| c.is_whitespace() || c.is_control() || is_blank(c));
        if text.is_empty() {
            return None;
        }
        match self.page.url.join_with(text, self.page.keys) {
            Ok(url) => Some(url),
            Err(UrlError::Scheme(_) | UrlError::Bad(_) | UrlError::BadHost(_) | UrlError::TooLong) => {
                self.findings.dropped += 1;
                self.findings.note(Note::BadUrls);
                None
            }
        }
    }

    fn has_room(&mut self) -> bool {
        let room = self.findings.urls.len() + self.findings.sitemaps.len() < self.urls_max;
        if !room {
            self.findings.note(Note::TooMany);
            self.findings.cut = true;
        }
        room
    }

    fn push_sitemap(&mut self, text: &str) {
        if let Some(url) = self.url(text)
            && self.has_room()
        {
            self.findings.sitemaps.push(url);
        }
    }

    fn push(&mut self, draft: &Draft) {
        let Some(url) = self.url(&draft.loc) else { return };
        if !self.has_room() {
            return;
        }
        let foreign = url.host() != self.page.url.host();
        if foreign {
            self.findings.note(Note::Foreign);
        }
        let (mut alternates, mut seen) = (Vec::new(), BTreeSet::new());
        for text in &draft.alternates {
            // Each language names all others, so a list of n pages may name n times n.
            if self.alternates >= self.urls_max {
                self.findings.note(Note::TooMany);
                break;
            }
            if let Some(alternate) = self.url(text).filter(|a| *a != url)
                && seen.insert(xxh3_128(alternate.as_str().as_bytes()))
            {
                alternates.push(alternate);
                self.alternates += 1;
            }
        }
        let lastmod = date::parse(&draft.lastmod);
        let priority = draft.priority.trim().parse::<f32>().ok().filter(|p| p.is_finite());
        let priority = priority.map(|p| p.clamp(0.0, 1.0));
        self.findings.urls.push(Entry { url, lastmod, priority, alternates, foreign });
    }

    fn finish(mut self) -> SitemapFindings {
        // The part that was cut off may have had more entries.
        self.findings.cut |= self.findings.notes.contains(&Note::TooLong);
        if self.findings.urls.is_empty() && self.findings.sitemaps.is_empty() {
            self.findings.note(Note::NotASitemap);
        }
        self.findings
    }
}

/// An entry as written, before its texts are parsed.
#[derive(Clone, Debug, Default)]
struct Draft {
    loc: String,
    lastmod: String,
    priority: String,
    alternates: Vec<String>,
}

/// Zero-width marks that are copied into sitemaps along with a URL; Unicode counts them as no white space.
fn is_blank(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

/// One URL per line (sitemaps.org, "Text file").
fn read_lines(text: &str, list: &mut List<'_>, time_is_up: &mut dyn FnMut() -> bool) {
    // Where the text was cut, its last line may be half a URL.
    let notes = &list.findings.notes;
    let torn = notes.contains(&Note::TooLong) || notes.contains(&Note::TornGzip);
    let text = if torn { &text[..text.rfind(['\n', '\r']).unwrap_or(0)] } else { text };
    let mut since_look = 0;
    for line in text.split(['\n', '\r']) {
        since_look += line.len() + 1;
        if since_look >= BYTES_PER_LOOK && time_is_up() {
            list.findings.cut = true;
        }
        since_look %= BYTES_PER_LOOK;
        if list.is_full() {
            return;
        }
        let line = line.trim();
        let absolute =
            |scheme: &str| line.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme));
        if absolute("http://") || absolute("https://") {
            list.push(&Draft { loc: line.to_owned(), ..Default::default() });
        } else if !line.is_empty() {
            list.findings.dropped += 1;
            list.findings.note(Note::BadUrls);
        }
    }
}

/// Decompresses gzip that is the file itself and no content coding, cutting at the limit.
fn unpack<'a>(
    body: &'a [u8],
    limits: &Limits,
    findings: &mut SitemapFindings,
    time_is_up: &mut dyn FnMut() -> bool,
) -> Cow<'a, [u8]> {
    let limit = limits.sitemap_bytes_max;
    let mut bytes = Cow::Borrowed(body);
    for _ in 0..GZIP_LAYERS_MAX {
        if !bytes.starts_with(b"\x1f\x8b\x08") {
            break;
        }
        let mut plain = Vec::new();
        let packed = Packed { rest: &bytes, since_look: 0, barren: 0, time_is_up: &mut *time_is_up };
        let mut decoder = flate2::bufread::MultiGzDecoder::new(packed);
        loop {
            if plain.len() > limit {
                findings.cut = true;
                break;
            }
            decoder.get_mut().barren = 0;
            // A decompression bomb costs no more than the size of one piece.
            match decoder.by_ref().take(UNPACK_BYTES).read_to_end(&mut plain) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    findings.cut = true;
                    break;
                }
                Err(_) => {
                    findings.note(Note::TornGzip);
                    break;
                }
            }
        }
        bytes = Cow::Owned(plain);
    }
    if bytes.len() > limit {
        findings.note(Note::TooLong);
        // Not marked as cut yet, since that would end the reading at its first entry.
        findings.cut = false;
        match &mut bytes {
            Cow::Borrowed(bytes) => *bytes = &bytes[..limit],
            Cow::Owned(bytes) => bytes.truncate(limit),
        }
    }
    bytes
}

/// Gives compressed bytes out in small pieces: the deadline is checked between them, and input without output ends at a
/// bound.
struct Packed<'a, 't> {
    rest: &'a [u8],
    since_look: usize,
    barren: usize,
    time_is_up: &'t mut dyn FnMut() -> bool,
}

impl BufRead for Packed<'_, '_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.barren > BARREN_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if self.since_look >= BYTES_PER_LOOK {
            self.since_look = 0;
            if (self.time_is_up)() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(&self.rest[..self.rest.len().min(BYTES_PER_LOOK)])
    }

    fn consume(&mut self, bytes: usize) {
        self.rest = &self.rest[bytes..];
        self.since_look += bytes;
        self.barren += bytes;
    }
}

impl Read for Packed<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut piece = self.fill_buf()?;
        let read = piece.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

/// Decodes the text of a sitemap. The protocol demands UTF-8, so valid UTF-8 is read as such, whatever the label.
fn decode<'a>(
    page: &Page<'_>,
    bytes: &'a [u8],
    limits: &Limits,
    findings: &mut SitemapFindings,
) -> Cow<'a, str> {
    let mut label = page.fields.get_all(http::header::CONTENT_TYPE).iter().map(|value| value.as_bytes());
    let decision = charset::decide(label.rfind(|label| sniff::essence(label).is_some()), bytes);
    let mut encoding = decision.encoding;
    let wide = encoding == UTF_16LE || encoding == UTF_16BE;
    // UTF-16 text has a NUL beside each ASCII character; text without any NUL is in another encoding.
    let has_nul = bytes.iter().take(sniff::SNIFF_BYTES_MAX).any(|byte| *byte == 0);
    if wide && !has_nul {
        findings.note(Note::WrongEncoding);
        encoding = UTF_8;
    }
    if !has_nul && encoding != encoding_rs::ISO_2022_JP {
        match std::str::from_utf8(bytes) {
            Ok(text) => {
                if encoding != UTF_8 && !text.is_ascii() {
                    findings.note(Note::WrongEncoding);
                }
                return Cow::Borrowed(text);
            }
            // A character cut in half by a limit is no reason to assume another encoding.
            Err(error) if error.error_len().is_none() => {
                let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]);
                return Cow::Borrowed(valid.expect("checked up to here"));
            }
            Err(_) => {}
        }
    }
    // Text grows when converted to UTF-8, by at most half in the encodings that sitemaps use.
    let decoded = charset::decode(encoding, bytes, limits.sitemap_bytes_max.saturating_mul(2));
    if decoded.replaced && encoding == UTF_8 {
        findings.note(Note::WrongEncoding);
    }
    Cow::Owned(decoded.text)
}

/// Maximum number of gzip layers: some servers compress a compressed file again.
const GZIP_LAYERS_MAX: usize = 2;

/// Number of bytes decompressed at a time.
const UNPACK_BYTES: u64 = 256 * 1024;

/// Maximum number of compressed bytes in a row without any output: members and blocks may be empty.
const BARREN_BYTES_MAX: usize = 1024 * 1024;

/// The deadline is checked once in this number of bytes.
const BYTES_PER_LOOK: usize = 16 * 1024;
