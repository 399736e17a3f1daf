//! The title and the text of a capture, and whether they have all words.
//!
//! Text that was stored with the capture is taken as it is. Otherwise a page is read in two steps: all its text first, and
//! only if that has the words, the main text, which costs more.
//!
//! Invariants: a capture is read once, and no longer than its limits; a page that makes a reader fail is unread, and the
//! search goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use nephila_core::handler::{charset, sniff};
use nephila_core::store::cdxj::Line;
use nephila_core::url::CrawlUrl;
use nephila_engine::crawl::decoded::{decoded, head_fields};
use nephila_engine::crawl::text::{HTML_BYTES_MAX, Readable, TEXT_BYTES_MAX, plain, readable};
use nephila_store::captures::{Captures, Noted};

use super::words::{Words, folded};

/// Maximum size in bytes of a stored body; PDFs are the largest.
const BODY_BYTES_MAX: u64 = 64 << 20;

/// What a search finds in a capture.
#[derive(Debug)]
pub(super) enum Text {
    /// It is no page: an image, a style sheet, an error.
    NoPage,
    /// It cannot be read.
    Unread,
    /// It lacks a word.
    Without,
    /// It has all words.
    Found { title: String, text: String, is_all: bool },
}

/// Reads a capture that holds its body, and looks for words.
pub(super) fn text(captures: &Captures, line: &Line, words: &Words) -> Text {
    if !is_page(line) {
        return Text::NoPage;
    }
    let read = || {
        let noted = captures.noted(line, BODY_BYTES_MAX).ok()?;
        in_capture(&noted, line, words)
    };
    catch_unwind(AssertUnwindSafe(read)).ok().flatten().unwrap_or(Text::Unread)
}

/// Whether an index says that a capture may be a page.
fn is_page(line: &Line) -> bool {
    let capture = &line.capture;
    let is_text = |mime: &str| {
        mime.contains("html")
            || mime == "application/pdf"
            || (mime.starts_with("text/")
                && !["css", "javascript", "csv", "calendar"].iter().any(|kind| mime[5..].contains(kind)))
    };
    // Rules for crawlers are no page.
    let is_rules = CrawlUrl::parse(&capture.url).is_ok_and(|url| url.path() == "/robots.txt");
    capture.status.as_deref().is_none_or(|status| status == "200")
        && capture.mime.as_deref().is_none_or(is_text)
        && !is_rules
}

/// None if the capture cannot be read.
fn in_capture(noted: &Noted, line: &Line, words: &Words) -> Option<Text> {
    if let Some(text) = &noted.text {
        let metadata = String::from_utf8_lossy(noted.metadata.as_deref().unwrap_or_default());
        let title = metadata.lines().find_map(|line| line.strip_prefix("title:")).unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        return Some(verdict(words, title.trim().to_owned(), text, false));
    }
    if noted.media.is_some() {
        return None;
    }
    let (body, _) = decoded(&noted.http, &noted.body, HTML_BYTES_MAX as u64 + 1).ok()?;
    if body.len() > HTML_BYTES_MAX {
        return None;
    }
    let label = head_fields(&noted.http, "content-type").pop().or_else(|| line.capture.mime.clone());
    let label = label.as_deref().map(str::as_bytes);
    let kind = sniff::sniff(label, &body).kind;
    let encoding = charset::decide(label, &body).encoding;
    match kind {
        sniff::Kind::Html => {
            let html = charset::decode(encoding, &body, HTML_BYTES_MAX).text;
            // The title may stand in an attribute.
            if !words.are_in(&[&folded(&plain::text(&html)), &folded(&html)]) {
                return Some(Text::Without);
            }
            let Readable { title, text, is_main } = readable(&html, &line.capture.url);
            Some(verdict(words, title, text, !is_main))
        }
        sniff::Kind::Text => {
            let text = charset::decode(encoding, &body, TEXT_BYTES_MAX).text;
            Some(verdict(words, String::new(), text, true))
        }
        sniff::Kind::Pdf => None,
        _ => Some(Text::NoPage),
    }
}

fn verdict(words: &Words, title: String, text: String, is_all: bool) -> Text {
    match words.are_in(&[&folded(&title), &folded(&text)]) {
        true => Text::Found { title, text, is_all },
        false => Text::Without,
    }
}
