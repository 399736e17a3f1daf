//! Lines of a metadata record from which tables are made, so that nobody reads the page a second time.
//!
//! ```text
//! tableNotes: 1
//! mediaType: text/html
//! charset: UTF-8
//! pageTitle: A title
//! description: …
//! pageLanguage: de
//! canonical: http://a.test/
//! hreflang: en=http://a.test/en
//! outlinkText: 3 link 8 nofollow the text of the link
//! ```
//!
//! `outlinkText` has the number of the `outlink` line (the first is 0), the exact kind, the length of the `rel` in bytes,
//! the `rel`, and the text. A link without text and `rel`, and of the kind that its line tells, has none.
//!
//! Invariants: the lines have at most [`NOTES_BYTES_MAX`] bytes together; a page that needs more, or whose outlinks were
//! not all recorded, has no such lines at all.

use std::collections::BTreeMap;

use super::outlinks::{Outlinks, kind_of};
use super::page::Findings;
use crate::url::CrawlUrl;

/// Maximum number of bytes in these lines.
pub const NOTES_BYTES_MAX: usize = 128 * 1024;
/// The version of the lines. Lines of another version are not read.
const VERSION: &str = "1";

/// The texts of an outlink.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutlinkText {
    /// The name of its kind.
    pub kind: String,
    /// The `rel` as written.
    pub rel: String,
    /// The text of the link.
    pub anchor: String,
}

/// What the lines of a page tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableNotes {
    /// The media type by the bytes of the body.
    pub media_type: Option<String>,
    /// The character encoding with which the page was read.
    pub charset: Option<String>,
    /// The title.
    pub title: Option<String>,
    /// `meta name=description`.
    pub description: Option<String>,
    /// `html lang`.
    pub language: Option<String>,
    /// `link rel=canonical`.
    pub canonical: Option<String>,
    /// Versions in other languages: `de=URL`.
    pub versions: Vec<String>,
    /// Texts by the number of the outlink.
    pub texts: BTreeMap<usize, OutlinkText>,
}

/// The lines of a page that was read with [`Limits::details`](super::Limits::details); none for other pages.
///
/// `outlinks` are those of the page and of its `redirect`.
pub fn of(
    findings: Option<&Findings>,
    redirect: Option<&CrawlUrl>,
    outlinks: &Outlinks,
) -> Vec<(&'static str, String)> {
    let Some((findings, details)) = findings.and_then(|it| Some((it, it.details.as_deref()?))) else {
        return Vec::new();
    };
    // An empty body has no media type, and nothing to tell.
    if outlinks.omitted > 0 || details.media_type.is_none() {
        return Vec::new();
    }
    let charset = findings.charset.map(|decision| decision.encoding.name().to_owned());
    let canonical = details.canonical.as_ref().map(|url| url.as_str().to_owned());
    let one = [
        ("mediaType", details.media_type.clone()),
        ("charset", charset),
        ("pageTitle", findings.title.clone()),
        ("description", details.description.clone()),
        ("pageLanguage", details.language.clone()),
        ("canonical", canonical),
    ];
    let one = one.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let versions = details.versions.iter();
    let versions = versions.map(|(language, url)| ("hreflang", format!("{language}={}", url.as_str())));
    // A redirect has the first line.
    let before = usize::from(redirect.is_some());
    let texts = findings.links.iter().enumerate().filter_map(|(at, found)| {
        let (rel, anchor) =
            found.words.as_deref().map_or(("", ""), |words| (words.rel.as_str(), words.anchor.as_str()));
        let is_plain = found.kind == kind_of(found.kind.letter(), found.place);
        let text = || format!("{} {} {} {rel} {anchor}", before + at, found.kind.name(), rel.len());
        (!rel.is_empty() || !anchor.is_empty() || !is_plain).then(|| ("outlinkText", text()))
    });
    let lines: Vec<_> =
        [("tableNotes", VERSION.to_owned())].into_iter().chain(one).chain(versions).chain(texts).collect();
    let bytes: usize = lines.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
    if bytes > NOTES_BYTES_MAX { Vec::new() } else { lines }
}

/// Reads the lines of a metadata record. None if the record has no such lines, or those of another version.
pub fn read(block: &[u8]) -> Option<TableNotes> {
    let mut notes = TableNotes::default();
    let mut is_known = false;
    for line in block.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let value = line[at + 1..].trim_ascii();
        let text = || String::from_utf8_lossy(value).into_owned();
        match &line[..at] {
            b"tableNotes" => is_known = value == VERSION.as_bytes(),
            b"mediaType" => notes.media_type = Some(text()),
            b"charset" => notes.charset = Some(text()),
            b"pageTitle" => notes.title = Some(text()),
            b"description" => notes.description = Some(text()),
            b"pageLanguage" => notes.language = Some(text()),
            b"canonical" => notes.canonical = Some(text()),
            b"hreflang" => notes.versions.push(text()),
            // Spaces matter here.
            b"outlinkText" => notes.texts.extend(outlink_text(&String::from_utf8_lossy(&line[at + 1..]))),
            _ => {}
        }
    }
    is_known.then_some(notes)
}

fn outlink_text(line: &str) -> Option<(usize, OutlinkText)> {
    let mut parts = line.trim_start().splitn(4, ' ');
    let (number, kind) = (parts.next()?.parse().ok()?, parts.next()?.to_owned());
    let (length, rest) = (parts.next()?.parse().ok()?, parts.next().unwrap_or_default());
    let (rel, anchor) = (rest.get(..length)?.to_owned(), rest.get(length..)?.trim().to_owned());
    Some((number, OutlinkText { kind, rel, anchor }))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::handler::{Limits, Page, ReadAs, read_page};
    use crate::url::KeyRules;

    fn findings(body: &str, details: bool) -> Findings {
        let url = CrawlUrl::parse("http://a.test/x/").unwrap();
        let mut fields = HeaderMap::new();
        fields.insert("content-type", "text/html;charset=utf-8".parse().unwrap());
        let keys = KeyRules::default();
        let body = body.as_bytes();
        let page = Page { url: &url, fields: &fields, body, read_as: ReadAs::Page, agent: "", keys: &keys };
        read_page(&page, &Limits { details, ..Limits::default() })
    }

    fn block(lines: &[(&'static str, String)]) -> Vec<u8> {
        lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect::<String>().into_bytes()
    }

    const BODY: &str = "<html lang=de><title>T</title><meta name=description content='d: e'>\
        <link rel=canonical href=/c><link rel=alternate hreflang=en href=/en>\
        <a href=/1>one</a><a href=/2></a><a href=/3 rel='me nofollow'></a><link rel=feed href=/f>";

    #[test]
    fn what_a_page_says_is_read_as_it_was_written() {
        let found = findings(BODY, true);
        let target = CrawlUrl::parse("http://b.test/").unwrap();
        for redirect in [None, Some(&target)] {
            let outlinks = Outlinks::of(Some(&found), redirect);
            let notes = read(&block(&of(Some(&found), redirect, &outlinks))).unwrap();
            let some = |text: &str| Some(text.to_owned());
            assert_eq!((&notes.media_type, &notes.charset), (&some("text/html"), &some("UTF-8")));
            assert_eq!((&notes.title, &notes.description), (&some("T"), &some("d: e")));
            assert_eq!((&notes.language, &notes.canonical), (&some("de"), &some("http://a.test/c")));
            assert_eq!(notes.versions, ["en=http://a.test/en"]);
            let named = |path: &str| {
                let is_it = |(_, line): (&str, &str)| line.starts_with(&format!("http://a.test{path} "));
                notes.texts.get(&outlinks.lines.iter().position(is_it).unwrap())
            };
            let text = |kind: &str, rel: &str, anchor: &str| {
                let (kind, rel, anchor) = (kind.to_owned(), rel.to_owned(), anchor.to_owned());
                Some(OutlinkText { kind, rel, anchor })
            };
            assert_eq!(named("/1").cloned(), text("link", "", "one"));
            assert_eq!(named("/2"), None);
            assert_eq!(named("/3").cloned(), text("link", "me nofollow", ""));
            assert_eq!(named("/c").map(|text| &*text.kind), Some("canonical"));
        }
    }

    #[test]
    fn pages_that_were_not_read_for_tables_have_no_lines() {
        let found = findings(BODY, false);
        assert_eq!(of(Some(&found), None, &Outlinks::of(Some(&found), None)), []);
        assert_eq!(of(None, None, &Outlinks::default()), []);
        let found = findings(BODY, true);
        let mut omitted = Outlinks::of(Some(&found), None);
        omitted.omitted = 1;
        assert_eq!(of(Some(&found), None, &omitted), []);
        let long: String = (0..3_000).map(|n| format!("<a href=/{n}>{}</a>", "x".repeat(200))).collect();
        let found = findings(&long, true);
        let outlinks = Outlinks::of(Some(&found), None);
        assert_eq!((outlinks.omitted, of(Some(&found), None, &outlinks).len()), (0, 0), "too many bytes");
    }

    #[test]
    fn foreign_lines_do_no_harm() {
        for lines in ["", "mediaType: a\r\n", "tableNotes: 2\r\n", "tableNotes\r\n", "tableNotes: \r\n"] {
            assert_eq!(read(lines.as_bytes()), None, "{lines:?}");
        }
        let odd = "tableNotes: 1\r\noutlinkText: x y\r\noutlinkText: 1 a 9 b\r\noutlinkText: 3 a 1 é\r\n\
                   outlinkText: 2 a 1 b c d\r\n\n:\noutlinkText: 4 a 99999999999999999999 b\r\n";
        let notes = read(odd.as_bytes()).unwrap();
        assert_eq!(notes.texts.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(notes.texts[&2].anchor, "c d");
    }
}
