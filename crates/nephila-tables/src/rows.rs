//! From the records of a capture to its rows: a pure function.
//!
//! Links are those that the crawler found: the `outlink` lines of the metadata record, in their order. Their texts, the
//! title and so on are in the record too, if the crawl wrote tables; else the page is read again by the crawler's own
//! reader, which also finds the links for which the record had no room. A capture without metadata of ours (another program's file) has the links
//! that the reader finds. A revisit of the same URL has no links: they are those of the capture that it refers to, and
//! no link is counted twice.

use std::collections::{BTreeMap, BTreeSet};

use http::{HeaderMap, HeaderName, HeaderValue, header};
use nephila_core::handler::table_notes::{self, OutlinkText, TableNotes};
use nephila_core::handler::{Details, Findings, FoundLink, Limits, LinkWords, Page, ReadAs, read_page};
use nephila_core::handler::{outlinks, sniff};
use nephila_core::simhash::simhash;
use nephila_core::store::cdxj;
use nephila_core::url::{CrawlUrl, KeyRules, surt};

use crate::capture::{CaptureRow, Subset};
use crate::link::LinkRow;
use crate::records::{BODY_BYTES_MAX, FileInfo, Gathered, status, value, values};
use crate::table::Millis;
use crate::usage::Usage;
use crate::{host, language};

/// Undoes the content codings of a stored body: from the HTTP head, the body and the maximum number of bytes. None if
/// the codings are unknown or the body is broken from its first byte.
pub type Decode = dyn Fn(&[u8], &[u8], u64) -> Option<Vec<u8>> + Send + Sync;

/// Maximum number of header fields that are read.
const FIELDS_MAX: usize = 1_000;

/// The rows of a capture.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    /// The row of the capture.
    pub capture: CaptureRow,
    /// Where the row belongs.
    pub subset: Subset,
    /// The rows of its links.
    pub links: Vec<LinkRow>,
    /// Whether the body was passed over and is needed: read it, and make the rows again.
    pub needs_body: bool,
}

/// Makes the rows of a capture. None if the record names no URL or is no answer of a web server.
pub fn rows(gathered: &Gathered, file: &FileInfo, decode: &Decode) -> Option<Rows> {
    let header = &gathered.header;
    let url = header.get("WARC-Target-URI")?.trim_matches(['<', '>']).to_owned();
    let is_http = header.get("WARC-Type") == Some("resource")
        || header.get("Content-Type").is_none_or(|kind| kind.starts_with("application/http"));
    if !is_http || !(url.starts_with("http://") || url.starts_with("https://")) {
        return None;
    }
    let parsed = CrawlUrl::parse(&url).ok();
    let fields = fields(&gathered.http);
    let is_revisit = header.get("WARC-Type") == Some("revisit");
    let mut row = CaptureRow {
        url_surtkey: surt(&url),
        fetch_time: time(header.get("WARC-Date").unwrap_or_default()),
        fetch_status: status(&gathered.http).unwrap_or(if is_revisit { 304 } else { 0 }),
        content_digest: header.get("WARC-Payload-Digest").map(|it| it.trim_start_matches("sha1:").to_owned()),
        content_truncated: header.get("WARC-Truncated").map(str::to_owned),
        content_mime_type: text(&fields, &header::CONTENT_TYPE).map(|label| cdxj::mime(&label)),
        warc_filename: file.name.clone(),
        warc_record_offset: long(gathered.offset),
        warc_record_length: long(gathered.length),
        warc_segment: file.segment.clone(),
        warc_type: header.get("WARC-Type").unwrap_or_default().to_owned(),
        ip: header.get("WARC-IP-Address").map(str::to_owned),
        protocol: some(header.all("WARC-Protocol").collect::<Vec<_>>().join(" ")),
        ..CaptureRow::default()
    };
    row.content_mime_type = row.content_mime_type.filter(|mime| !mime.is_empty());
    fill_url(&mut row, &url, parsed.as_ref());
    let redirect = (300..400).contains(&row.fetch_status).then(|| text(&fields, &header::LOCATION)).flatten();
    let redirect = redirect.and_then(|location| parsed.as_ref()?.join(&location).ok());
    row.fetch_redirect = redirect.as_ref().map(|target| target.as_str().to_owned());
    let metadata = gathered.metadata.as_deref().unwrap_or_default();
    fill_metadata(&mut row, metadata, parsed.as_ref());
    if let Some(text) = &gathered.text {
        row.text_length = i32::try_from(text.chars().count()).ok();
        row.simhash = simhash(text).map(u64::cast_signed);
        row.content_languages = language::language(text).map(str::to_owned);
    }
    let subset = Subset::of(&row.url_path, row.fetch_status);
    let noted = table_notes::read(metadata).filter(|_| subset == Subset::Warc);
    let needs_body = gathered.lacks_body && noted.is_none();
    let (noted, mut lines) = match noted {
        Some(noted) => (noted, values(metadata, "outlink").collect()),
        None => read_again(gathered, subset, parsed.as_ref(), &fields, redirect.as_ref(), decode),
    };
    row.language = text(&fields, &header::CONTENT_LANGUAGE).filter(|language| !language.is_empty());
    let texts = fill_noted(&mut row, noted);
    row.language = row.language.or_else(|| value(metadata, "language"));
    if is_revisit && header.get("WARC-Refers-To-Target-URI").is_some_and(|of| of == url) {
        lines.clear();
    }
    let links = links(&row, &lines, texts);
    Some(Rows { capture: row, subset, links, needs_body })
}

fn fill_url(row: &mut CaptureRow, url: &str, parsed: Option<&CrawlUrl>) {
    url.clone_into(&mut row.url);
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    scheme.clone_into(&mut row.url_protocol);
    let Some(parsed) = parsed else {
        // A foreign URL that we would not fetch: the columns hold its text as far as that goes.
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        row.url_host_name = rest[..end].to_ascii_lowercase();
        rest[end..].clone_into(&mut row.url_path);
        return;
    };
    host::fill(row, parsed.host_str());
    let after_host = parsed.authority().rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    row.url_port = after_host.and_then(|(_, port)| port.parse().ok());
    parsed.path().clone_into(&mut row.url_path);
    row.url_query = parsed.query().map(str::to_owned);
}

fn fill_metadata(row: &mut CaptureRow, metadata: &[u8], url: Option<&CrawlUrl>) {
    row.fetch_duration_ms = value(metadata, "fetchTimeMs").and_then(|it| it.parse().ok());
    row.depth = value(metadata, "depth").and_then(|it| it.parse().ok());
    row.via = value(metadata, "via").and_then(some);
    row.job = value(metadata, "job").and_then(some);
    row.outcome = value(metadata, "outcome").and_then(some);
    row.title = value(metadata, "title").and_then(some);
    let path = url.map(CrawlUrl::path_and_query).unwrap_or_default();
    let mut usage = Usage::default();
    values(metadata, "usage").for_each(|line| usage.handle_line(&line, path));
    (row.usage_train_ai, row.usage_search) = (usage.train_ai, usage.search);
    (row.usage_tdm, row.tdm_policy) = (usage.tdm, usage.tdm_policy);
}

fn read(url: &CrawlUrl, fields: &HeaderMap, body: &[u8]) -> Findings {
    let keys = KeyRules::default();
    let limits = Limits { details: true, html_bytes_max: BODY_BYTES_MAX, ..Limits::default() };
    read_page(&Page { url, fields, body, read_as: ReadAs::Page, agent: "", keys: &keys }, &limits)
}

/// Reads the page of a capture whose metadata record has no notes for tables. Returns such notes, and the lines of the
/// outlinks.
fn read_again(
    gathered: &Gathered,
    subset: Subset,
    url: Option<&CrawlUrl>,
    fields: &HeaderMap,
    redirect: Option<&CrawlUrl>,
    decode: &Decode,
) -> (TableNotes, Vec<String>) {
    let metadata = gathered.metadata.as_deref().unwrap_or_default();
    let decoded = decode(&gathered.http, &gathered.body, BODY_BYTES_MAX as u64);
    let body = decoded.as_deref().unwrap_or_default();
    let labels = fields.get_all(header::CONTENT_TYPE).iter().map(HeaderValue::as_bytes);
    let media_type = sniff::sniff(labels, body).media_type(body);
    let findings =
        url.filter(|_| subset == Subset::Warc && !body.is_empty()).map(|url| read(url, fields, body));
    let lines = outlinks(metadata, findings.as_ref(), redirect);
    let mut noted = TableNotes { media_type, ..TableNotes::default() };
    let Some(findings) = findings else { return (noted, lines) };
    let found: BTreeMap<&str, &FoundLink> =
        findings.links.iter().map(|found| (found.url.as_str(), found)).collect();
    let text = |(at, line): (usize, &String)| {
        let (target, letter, _) = parts(line)?;
        let found = found.get(target).filter(|found| found.kind.letter() == letter)?;
        let LinkWords { rel, anchor } = found.words.as_deref().cloned().unwrap_or_default();
        Some((at, OutlinkText { kind: found.kind.name().to_owned(), rel, anchor }))
    };
    noted.texts = lines.iter().enumerate().filter_map(text).collect();
    noted.charset = findings.charset.map(|decision| decision.encoding.name().to_owned());
    noted.title = findings.title;
    if let Some(details) = findings.details {
        let Details { description, language, canonical, versions, .. } = *details;
        noted.canonical = canonical.map(|url| url.as_str().to_owned());
        noted.versions =
            versions.iter().map(|(language, url)| format!("{language}={}", url.as_str())).collect();
        (noted.description, noted.language) = (description, language);
    }
    (noted, lines)
}

/// Fills the columns of what a page says of itself. Returns the texts of its links.
fn fill_noted(row: &mut CaptureRow, noted: TableNotes) -> BTreeMap<usize, OutlinkText> {
    row.content_mime_detected = noted.media_type;
    row.content_charset = noted.charset;
    row.title = noted.title.or(row.title.take());
    row.description = noted.description;
    row.canonical = noted.canonical;
    row.hreflang = some(noted.versions.join(" "));
    row.language = noted.language.or(row.language.take());
    noted.texts
}

/// The outlinks of a capture, as lines `URL L a/@href`: those of the metadata record. If there is none of ours, or if the
/// record says that it had no room for all, those that the reader finds are added.
fn outlinks(metadata: &[u8], findings: Option<&Findings>, redirect: Option<&CrawlUrl>) -> Vec<String> {
    let mut lines: Vec<String> = values(metadata, "outlink").collect();
    let is_ours = value(metadata, "fetchTimeMs").is_some();
    if !is_ours || value(metadata, "outlinksOmitted").is_some() {
        let known: BTreeSet<String> = lines.iter().map(|line| outlinks::url_of(line).to_owned()).collect();
        outlinks::each(findings, redirect, &mut |url, kind, place| {
            if !known.contains(url.as_str()) {
                lines.push(format!("{} {} {place}", url.as_str(), kind.letter()));
            }
        });
    }
    lines
}

/// The rows of outlinks.
fn links(row: &CaptureRow, lines: &[String], mut texts: BTreeMap<usize, OutlinkText>) -> Vec<LinkRow> {
    let link = |(at, line): (usize, &String)| {
        let (target, letter, place) = parts(line)?;
        let text = texts.remove(&at).unwrap_or_else(|| OutlinkText {
            kind: outlinks::kind_of(letter, place).name().to_owned(),
            ..OutlinkText::default()
        });
        Some(LinkRow {
            source: row.url.clone(),
            target: target.to_owned(),
            kind: text.kind,
            anchor: some(text.anchor),
            rel: some(text.rel),
            place: place.to_owned(),
            fetch_time: row.fetch_time,
        })
    };
    lines.iter().enumerate().filter_map(link).collect()
}

/// URL, hop and place of the line of an outlink.
fn parts(line: &str) -> Option<(&str, char, &str)> {
    let (target, rest) = line.split_once(' ')?;
    let (letter, place) = rest.split_once(' ')?;
    Some((target, letter.chars().next()?, place))
}

/// The header fields of a stored head.
fn fields(http: &[u8]) -> HeaderMap {
    let mut fields = HeaderMap::new();
    for line in http.split(|byte| *byte == b'\n').skip(1).take(FIELDS_MAX) {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = HeaderName::from_bytes(line[..at].trim_ascii());
        let value = HeaderValue::from_bytes(line[at + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            fields.append(name, value);
        }
    }
    fields
}

fn text(fields: &HeaderMap, name: &HeaderName) -> Option<String> {
    fields.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// The time of a `WARC-Date`; 1970 if the date is none.
fn time(date: &str) -> Millis {
    Millis(date.parse::<jiff::Timestamp>().map_or(0, |time| time.as_millisecond()))
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
