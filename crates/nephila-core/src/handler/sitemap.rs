//! Sitemaps, and feeds read as sitemaps: lists of URLs that a site gives to crawlers (sitemaps.org).
//!
//! A body may be packed with gzip once more, be XML or one URL per line, and be broken in every way XML can be. It is
//! unpacked and decoded up to a limit, and then read once from front to back: `sitemap/xml.rs` for XML, below for lines.
//! Nothing is expanded, nothing is fetched, no document type is obeyed.
//!
//! A sitemap may speak for its own host only, unless robots.txt of the other host names it. Whether it does is not known
//! here: entries of other hosts come out marked as `foreign`, and the caller decides.
//!
//! What always holds: no more than `sitemap_bytes_max` bytes are unpacked and no more than `sitemap_urls_max` entries
//! come out; whatever the bytes, what could be read is returned.

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

/// One page that a sitemap names.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The page.
    pub url: CrawlUrl,
    /// When it changed, by its own word. A hint: the future and 1970 are common.
    pub lastmod: Option<Timestamp>,
    /// Between 0 and 1, by its own word.
    pub priority: Option<f32>,
    /// The same page in other languages.
    pub alternates: Vec<CrawlUrl>,
    /// It is on another host than the sitemap.
    pub foreign: bool,
}

/// What else there is to say about a sitemap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Note {
    /// It is none: nothing in it names a page.
    NotASitemap,
    /// It is broken XML, and was read as far as it made sense.
    Broken,
    /// Its gzip is torn or followed by something else.
    TornGzip,
    /// It is not in the encoding it claims.
    WrongEncoding,
    /// It is longer than what is read of one.
    TooLong,
    /// It has more entries than are taken from one.
    TooMany,
    /// It uses entities of its own; what holds one was dropped.
    OwnEntities,
    /// Some of what it names are no URLs.
    BadUrls,
    /// Some of what it names are on other hosts.
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

/// What a sitemap says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SitemapFindings {
    /// The pages it names, as often as it names them.
    pub urls: Vec<Entry>,
    /// The sitemaps it names, if it is an index.
    pub sitemaps: Vec<CrawlUrl>,
    /// How many texts in it were to be URLs and are none.
    pub dropped: u64,
    /// A limit was met or time was up: there may be more.
    pub cut: bool,
    /// What else there is to say, each once, in order.
    pub notes: Vec<Note>,
}

impl SitemapFindings {
    fn note(&mut self, note: Note) {
        if let Err(at) = self.notes.binary_search(&note) {
            self.notes.insert(at, note);
        }
    }
}

/// Reads a sitemap. What kind of sitemap it is, is seen from its bytes.
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

/// The entries of a sitemap while it is read.
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

    /// There is room for no more: the rest need not be read.
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
            // Each language names all others, so that a list of n pages may name n times n.
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
        // What was cut before it was read may have had more.
        self.findings.cut |= self.findings.notes.contains(&Note::TooLong);
        if self.findings.urls.is_empty() && self.findings.sitemaps.is_empty() {
            self.findings.note(Note::NotASitemap);
        }
        self.findings
    }
}

/// An entry as it is written.
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

/// Undoes gzip that is not a content coding but the file itself, cutting at the limit.
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
            // A bomb costs no more than what is asked for at a time.
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
        // Not cut yet, for that would end the reading before it begins.
        findings.cut = false;
        match &mut bytes {
            Cow::Borrowed(bytes) => *bytes = &bytes[..limit],
            Cow::Owned(bytes) => bytes.truncate(limit),
        }
    }
    bytes
}

/// What is packed, given out in small pieces: the time is looked at between them, and what gives nothing for too long ends.
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

/// The text of a sitemap. They are to be in UTF-8, so what can be read as UTF-8 is, whatever it claims.
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
    // Text in UTF-16 has a NUL beside each of its ASCII characters; text without any is in something else.
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
            // A character cut in half by a limit is no reason to believe in another encoding.
            Err(error) if error.error_len().is_none() => {
                let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]);
                return Cow::Borrowed(valid.expect("checked up to here"));
            }
            Err(_) => {}
        }
    }
    // Text grows when it becomes UTF-8, by half again at most in what sitemaps are written in.
    let decoded = charset::decode(encoding, bytes, limits.sitemap_bytes_max.saturating_mul(2));
    if decoded.replaced && encoding == UTF_8 {
        findings.note(Note::WrongEncoding);
    }
    Cow::Owned(decoded.text)
}

/// Some servers pack what is already packed.
const GZIP_LAYERS_MAX: usize = 2;

/// Unpacked at a time.
const UNPACK_BYTES: u64 = 256 * 1024;

/// What may be read in a row of a packed sitemap without a byte coming out: members and blocks may be empty.
const BARREN_BYTES_MAX: usize = 1024 * 1024;

/// The clock is looked at once in so many bytes.
const BYTES_PER_LOOK: usize = 16 * 1024;
