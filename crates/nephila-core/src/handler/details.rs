//! What a page says of itself that no decision of the crawl needs and tables hold: its description, its language, its
//! canonical URL, its versions in other languages, and the texts of its links.
//!
//! Invariants: every text has a limit in bytes, and so has the number of versions.

use super::link::{LinkKind, LinkWords};
use super::page_robots::cut;
use crate::url::CrawlUrl;

/// Maximum length of a description in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 1024;
/// Maximum length of the text of a link in bytes.
pub const ANCHOR_BYTES_MAX: usize = 256;
/// Maximum length of a kept `rel` in bytes.
pub const REL_BYTES_MAX: usize = 128;
/// Maximum length of a language tag in bytes (RFC 5646, 4.4.1: 35 is enough for all registered ones).
pub const LANGUAGE_BYTES_MAX: usize = 35;
/// Maximum number of versions in other languages.
pub const VERSIONS_MAX: usize = 200;
/// Maximum length of the raw text of a link, since character references may be long.
pub(super) const ANCHOR_RAW_BYTES_MAX: usize = 4 * ANCHOR_BYTES_MAX;

/// What a page says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The media type by the bytes of the body.
    pub media_type: Option<String>,
    /// `meta name=description`, on one line.
    pub description: Option<String>,
    /// `html lang`.
    pub language: Option<String>,
    /// `link rel=canonical`, also if the page names itself.
    pub canonical: Option<CrawlUrl>,
    /// `link rel=alternate hreflang`: language and URL, in the order of the page.
    pub versions: Vec<(String, CrawlUrl)>,
}

/// Details while a page is read: references are not joined with the base yet.
#[derive(Debug, Default)]
pub(super) struct Noted {
    description: Option<String>,
    language: Option<String>,
    canonical: Option<String>,
    versions: Vec<(String, String)>,
    /// The number of the reference whose text is being read.
    anchor: Option<usize>,
    /// Number of open elements from which on the element of that link is open; 0 if nothing closes it.
    anchor_depth: usize,
}

impl Noted {
    pub(super) fn meta(&mut self, name: &str, content: &str) {
        if self.description.is_none() && name.trim().eq_ignore_ascii_case("description") {
            let text = on_one_line(content, DESCRIPTION_BYTES_MAX);
            self.description = (!text.is_empty()).then_some(text);
        }
    }

    pub(super) fn language(&mut self, language: &str) {
        if self.language.is_none() {
            self.language = tag(language);
        }
    }

    pub(super) fn link(&mut self, kind: LinkKind, href: &str, hreflang: Option<&str>) {
        match (kind, hreflang.and_then(tag)) {
            (LinkKind::Canonical, _) if self.canonical.is_none() => self.canonical = Some(href.to_owned()),
            (LinkKind::Alternate, Some(language)) if self.versions.len() < VERSIONS_MAX => {
                self.versions.push((language, href.to_owned()));
            }
            _ => {}
        }
    }

    pub(super) fn rel(&self, rel: &str, words: &mut LinkWords) {
        if words.rel.is_empty() {
            words.rel = on_one_line(rel, REL_BYTES_MAX);
        }
    }

    /// Begins the text of a link, or ends that of the one before. The element is open as long as `depth` elements are.
    pub(super) fn begin_anchor(&mut self, at: Option<usize>, depth: usize) {
        (self.anchor, self.anchor_depth) = (at, depth);
    }

    /// Ends the text of a link if no more than `depth` elements are open now and the element of the link is not among
    /// them.
    pub(super) fn end_anchor(&mut self, depth: usize) {
        if depth < self.anchor_depth {
            self.begin_anchor(None, 0);
        }
    }

    pub(super) fn open_anchor(&self) -> Option<usize> {
        self.anchor
    }

    /// Joins the references.
    pub(super) fn resolve(self, join: &mut dyn FnMut(&str) -> Option<CrawlUrl>) -> Box<Details> {
        Box::new(Details {
            media_type: None,
            description: self.description,
            language: self.language,
            canonical: self.canonical.and_then(|href| join(&href)),
            versions: self
                .versions
                .into_iter()
                .filter_map(|(language, href)| Some((language, join(&href)?)))
                .collect(),
        })
    }
}

/// Adds to the raw text of a link.
pub(super) fn add_to_anchor(text: &str, words: &mut LinkWords) {
    let room = ANCHOR_RAW_BYTES_MAX.saturating_sub(words.anchor.len());
    words.anchor.push_str(cut(text, room));
}

/// The text of a link as shown: character references decoded, on one line.
pub(super) fn shown_anchor(raw: &str) -> String {
    on_one_line(&htmlize::unescape(raw), ANCHOR_BYTES_MAX)
}

/// A text with its white space and control characters collapsed, cut between two characters.
pub(super) fn on_one_line(text: &str, bytes_max: usize) -> String {
    let mut line = String::new();
    let words = text.split(|c: char| c.is_ascii_whitespace() || c.is_control());
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(cut(word, bytes_max + 1));
        if line.len() > bytes_max {
            break;
        }
    }
    line.truncate(cut(&line, bytes_max).trim_end().len());
    line
}

/// A language tag; none if this cannot be one.
fn tag(text: &str) -> Option<String> {
    let text = text.trim();
    let is_tag = !text.is_empty()
        && text.len() <= LANGUAGE_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    is_tag.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;
    use crate::handler::{Findings, Limits, Page, ReadAs, read_page};
    use crate::url::KeyRules;

    fn read(body: &str, details: bool) -> Findings {
        let url = CrawlUrl::parse("http://a.test/x/").unwrap();
        let mut fields = HeaderMap::new();
        fields.insert("content-type", "text/html;charset=utf-8".parse().unwrap());
        let keys = KeyRules::default();
        let body = body.as_bytes();
        let page = Page { url: &url, fields: &fields, body, read_as: ReadAs::Page, agent: "", keys: &keys };
        read_page(&page, &Limits { details, ..Limits::default() })
    }

    fn anchors(body: &str) -> Vec<(String, String)> {
        let words = |found: &crate::handler::FoundLink| {
            let words = found.words.as_deref().cloned().unwrap_or_default();
            (found.url.path().to_owned(), words.anchor)
        };
        read(body, true).links.iter().map(words).collect()
    }

    #[test]
    fn a_page_tells_its_description_language_and_versions() {
        let body = "<html lang=de-AT><base href=/b/><meta name=Description content=' a\n &amp; b '>\
                    <meta name=description content=second><link rel=canonical href=/x/>\
                    <link rel=alternate hreflang=en href=en><link rel=alternate hreflang='no tag!' href=no>";
        let details = *read(body, true).details.unwrap();
        assert_eq!(details.description.as_deref(), Some("a & b"));
        assert_eq!(details.language.as_deref(), Some("de-AT"));
        assert_eq!(details.canonical.unwrap().as_str(), "http://a.test/x/");
        let versions: Vec<_> =
            details.versions.iter().map(|(tag, url)| (tag.as_str(), url.as_str())).collect();
        assert_eq!(versions, [("en", "http://a.test/b/en")]);
        let plain = read(body, false);
        assert!(plain.details.is_none() && plain.links.iter().all(|found| found.words.is_none()));
    }

    #[test]
    fn a_link_has_the_text_up_to_its_end() {
        let pair = |url: &str, text: &str| (url.to_owned(), text.to_owned());
        let found = anchors(
            "<a href=/1> one <b>&amp; more</b>\n</a> not this <a href=/2><img alt='the logo' src=data:></a>\
             <a href=/3></a><a href=/1>again</a><a href=/3>late</a><a href=/4>open <a href=/5>next</a> after",
        );
        let wanted =
            [("/1", "one & more"), ("/2", "the logo"), ("/3", "late"), ("/4", "open"), ("/5", "next")];
        assert_eq!(found, wanted.map(|(url, text)| pair(url, text)));
    }

    #[test]
    fn the_links_are_the_same_with_and_without_details() {
        let body = "<a rel='nofollow me' href=/1>1</a><template><a href=/2>2</a></template><noscript><a href=/3>3\
                    </a></noscript><a href=/4><script>var a='<a href=/5>'</script>4</a><map><area href=/6></map>";
        let bare = |findings: Findings| {
            let strip = |found: crate::handler::FoundLink| crate::handler::FoundLink { words: None, ..found };
            findings.links.into_iter().map(strip).collect::<Vec<_>>()
        };
        assert_eq!(bare(read(body, true)), bare(read(body, false)));
        let rel = read(body, true).links[0].words.as_ref().unwrap().rel.clone();
        assert_eq!((rel.as_str(), anchors(body)[1].1.as_str()), ("nofollow me", "4"));
    }

    #[test]
    fn long_texts_are_cut() {
        let body = format!(
            "<a href=/1>{}</a><meta name=description content='{}'>",
            "é".repeat(9_000),
            "x ".repeat(9_000)
        );
        let findings = read(&body, true);
        let words = findings.links[0].words.as_ref().unwrap();
        assert!(words.anchor.len() <= ANCHOR_BYTES_MAX && words.anchor.starts_with("éé"));
        assert!(findings.details.unwrap().description.unwrap().len() <= DESCRIPTION_BYTES_MAX);
    }
}
