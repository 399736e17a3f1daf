//! OPML: lists of feeds. Reads the lists of other programs, and writes our own.
//!
//! Invariants: no input makes reading fail; each feed comes out once, under the folders of its first mention; the
//! written text is well-formed, and reading it back gives the same list.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use quick_xml::events::BytesStart;

use super::text;
use crate::handler::soup::{self, Sink, attribute};
use crate::url::CrawlUrl;

/// Maximum number of feeds taken from one list; reading stops there.
pub const FEEDS_MAX: usize = 1_000_000;

/// Maximum depth of nested folders that is kept.
pub const FOLDERS_MAX: usize = 8;

/// A feed of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// The URL of the feed.
    pub url: CrawlUrl,
    /// The title in the list.
    pub title: String,
    /// The page that the feed belongs to.
    pub site: Option<CrawlUrl>,
    /// The folders around the feed, outermost first.
    pub folders: Vec<String>,
    /// The source of the feed, if the list names one with an attribute of ours.
    pub source: Option<String>,
    /// The feed is no longer followed. Kept in a crawl's own list, so that a running crawl learns of the removal.
    pub removed: bool,
}

impl Outline {
    /// A feed with a URL and nothing else.
    pub fn new(url: CrawlUrl) -> Outline {
        Outline { url, title: String::new(), site: None, folders: Vec::new(), source: None, removed: false }
    }

    /// The source by a list of another program: the innermost folder, if no source is named.
    pub fn source_by_folder(&self) -> Option<String> {
        self.source.clone().or_else(|| super::source::name(self.folders.last()?))
    }
}

/// A list that was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opml {
    /// The feeds, in the order of the list.
    pub feeds: Vec<Outline>,
    /// Number of feeds without a URL that can be fetched.
    pub dropped: u64,
    /// Number of repeated feeds.
    pub repeated: u64,
    /// The list is broken, and was read as far as possible.
    pub broken: bool,
    /// The list has [`FEEDS_MAX`] feeds or more.
    pub cut: bool,
}

/// Reads a list as UTF-8, whatever its declared encoding. Invalid bytes are replaced, which leaves URLs intact.
pub fn read(bytes: &[u8]) -> Opml {
    let text = String::from_utf8_lossy(bytes);
    let mut state = State { list: Opml::default(), seen: BTreeSet::new(), open: Vec::new() };
    if let Some(at) = text.find('<') {
        soup::read(&text[at..], super::OPEN_MAX, &mut state, &mut || false);
    }
    state.list
}

struct State {
    list: Opml,
    seen: BTreeSet<CrawlUrl>,
    /// The open outlines: the name of a folder, none for a feed.
    open: Vec<Option<String>>,
}

impl Sink for State {
    fn start(&mut self, tag: &BytesStart<'_>, is_empty: bool) {
        if !tag.local_name().as_ref().eq_ignore_ascii_case("outline") {
            return;
        }
        let named = |name| attribute(tag, name).filter(|value| !value.trim().is_empty());
        let title = named("title").or_else(|| named("text")).unwrap_or_default();
        let title = text::line(&title, false);
        let href = named("xmlUrl").or_else(|| named("xmlurl")).or_else(|| named("xmlURL"));
        if !is_empty && self.open.len() < OPEN_MAX {
            self.open.push(href.is_none().then(|| title.clone()));
        }
        let Some(href) = href else { return };
        // Old programs wrote the scheme that starts them (`feed:`).
        let href = text::url(&href);
        let href = href.strip_prefix("feed:").map_or(href, |rest| rest.trim_start_matches("//"));
        let url = if href.contains("://") {
            CrawlUrl::parse(href)
        } else {
            CrawlUrl::parse(&format!("http://{href}"))
        };
        let Ok(url) = url else {
            self.list.dropped += 1;
            return;
        };
        if !self.seen.insert(url.clone()) {
            self.list.repeated += 1;
            return;
        }
        let site = named("htmlUrl").and_then(|href| CrawlUrl::parse(text::url(&href)).ok());
        let folders =
            self.open.iter().flatten().filter(|f| !f.is_empty()).take(FOLDERS_MAX).cloned().collect();
        // Without the prefix: a program that does not know the namespace may have dropped the prefix.
        let source = named("source").and_then(|name| super::source::name(&name));
        let removed = named("removed").is_some_and(|value| value == "true");
        self.list.feeds.push(Outline { url, title, site, folders, source, removed });
        self.list.cut = self.list.feeds.len() >= FEEDS_MAX;
    }

    fn end(&mut self, name: &str) {
        if name.eq_ignore_ascii_case("outline") {
            self.open.pop();
        }
    }

    fn text(&mut self, _: &str) {}

    fn broken(&mut self) {
        self.list.broken = true;
    }

    fn is_done(&mut self) -> bool {
        self.list.cut
    }
}

/// Writes a list as OPML 2.0, grouped by folder.
pub fn write(title: &str, feeds: &[Outline]) -> String {
    let mut folders: BTreeMap<&[String], Vec<&Outline>> = BTreeMap::new();
    for feed in feeds {
        folders.entry(&feed.folders).or_default().push(feed);
    }
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<opml version=\"2.0\"");
    // OPML 2.0 allows additional attributes with a declared namespace.
    if feeds.iter().any(|feed| feed.source.is_some() || feed.removed) {
        push_attribute(&mut out, "xmlns:nephila", NAMESPACE);
    }
    out.push_str(">\n  <head><title>");
    push_escaped(&mut out, title);
    out.push_str("</title></head>\n  <body>\n");
    for (path, feeds) in folders {
        for (depth, folder) in path.iter().enumerate() {
            indent(&mut out, depth);
            out.push_str("<outline text=\"");
            push_escaped(&mut out, folder);
            out.push_str("\">\n");
        }
        for feed in feeds {
            indent(&mut out, path.len());
            out.push_str("<outline type=\"rss\"");
            // Readers use either attribute, and `text` is mandatory.
            let title = if feed.title.is_empty() { feed.url.as_str() } else { &feed.title };
            push_attribute(&mut out, "text", title);
            push_attribute(&mut out, "title", &feed.title);
            push_attribute(&mut out, "xmlUrl", feed.url.as_str());
            push_attribute(&mut out, "htmlUrl", feed.site.as_ref().map_or("", CrawlUrl::as_str));
            push_attribute(&mut out, "nephila:source", feed.source.as_deref().unwrap_or_default());
            push_attribute(&mut out, "nephila:removed", if feed.removed { "true" } else { "" });
            out.push_str("/>\n");
        }
        for depth in (0..path.len()).rev() {
            indent(&mut out, depth);
            out.push_str("</outline>\n");
        }
    }
    out.push_str("  </body>\n</opml>\n");
    out
}

fn indent(out: &mut String, depth: usize) {
    out.extend(std::iter::repeat_n("  ", depth + 2));
}

fn push_attribute(out: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        let _ = write!(out, " {name}=\"");
        push_escaped(out, value);
        out.push('"');
    }
}

fn push_escaped(out: &mut String, text: &str) {
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML cannot represent these characters.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
}

/// The namespace of our attributes. A name, not an address.
const NAMESPACE: &str = "urn:nephila:opml";

/// Maximum number of open outlines that are remembered.
const OPEN_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_list_of_another_program_is_read() {
        let list = read(
            br#"<?xml version="1.0"?><opml version="1.0"><head><title>x</title></head><body>
            <outline text="News & more"><outline text="World">
              <outline type="rss" text="A &amp; B" xmlUrl="https://a.example/feed?x=1&amp;y=2" htmlUrl="https://a.example/"/>
            </outline><outline title="C" xmlUrl="feed://c.example/rss"></outline></outline>
            <outline text="again" xmlUrl="https://a.example/feed?x=1&y=2"/>
            <outline text="bad" xmlUrl="javascript:alert(1)"/><outline text="empty" xmlUrl=""/>
            <outline text="D" xmlUrl="d.example/rss"/>"#,
        );
        let seen: Vec<_> =
            list.feeds.iter().map(|f| (f.url.as_str(), f.title.as_str(), f.folders.join("/"))).collect();
        assert_eq!(
            seen,
            [
                ("https://a.example/feed?x=1&y=2", "A & B", "News & more/World".to_owned()),
                ("http://c.example/rss", "C", "News & more".to_owned()),
                ("http://d.example/rss", "D", String::new()),
            ]
        );
        assert_eq!(list.feeds[0].site.as_ref().map(CrawlUrl::as_str), Some("https://a.example/"));
        assert_eq!((list.repeated, list.dropped), (1, 1));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            titles in prop::collection::vec(("[^\\p{C}]{0,20}", prop::collection::vec("[a-z<>&\"' ]{1,8}", 0..3)), 0..20),
        ) {
            let mut feeds: Vec<Outline> = titles.into_iter().enumerate().map(|(n, (title, folders))| Outline {
                url: CrawlUrl::parse(&format!("https://f.example/{n}?a=1&b=<2>")).unwrap(),
                title: text::line(&title, false),
                site: (n % 2 == 0).then(|| CrawlUrl::parse("http://site.example/").unwrap()),
                folders: folders.iter().map(|f| text::line(f, false)).filter(|f| !f.is_empty()).collect(),
                source: (n % 3 == 0).then(|| "A & \"B\"".to_owned()),
                removed: n % 5 == 0,
            }).collect();
            let list = read(write("a <title>", &feeds).as_bytes());
            // Grouped by folder, in their order within the folder; a feed without a title gets its URL as title.
            feeds.sort_by(|a, b| a.folders.cmp(&b.folders));
            for feed in &mut feeds {
                if feed.title.is_empty() {
                    feed.title = feed.url.as_str().to_owned();
                }
            }
            prop_assert_eq!(list, Opml { feeds, ..Default::default() });
        }

        #[test]
        fn any_bytes_are_a_list(bytes: Vec<u8>) {
            read(&bytes);
        }
    }
}
