//! OPML: lists of feeds, as other programs write them and as we give them back.
//!
//! What always holds: no bytes make reading fail; each feed comes out once, under the folders it first stood in; what is
//! written is well-formed and is read back as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use quick_xml::events::BytesStart;

use super::text;
use crate::handler::soup::{self, Sink, attribute};
use crate::url::CrawlUrl;

/// Feeds taken from one list; the rest is counted.
pub const FEEDS_MAX: usize = 1_000_000;

/// Folders within folders that are kept.
pub const FOLDERS_MAX: usize = 8;

/// A feed of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Where it is.
    pub url: CrawlUrl,
    /// What the list calls it.
    pub title: String,
    /// The page it belongs to.
    pub site: Option<CrawlUrl>,
    /// The folders it stands in, outermost first.
    pub folders: Vec<String>,
    /// The source it is of, if the list says so with an attribute of ours.
    pub source: Option<String>,
    /// It is not followed any more. Kept in a crawl's own list, so that a crawl that runs learns it.
    pub removed: bool,
}

impl Outline {
    /// A feed of which nothing is known but its URL.
    pub fn new(url: CrawlUrl) -> Outline {
        Outline { url, title: String::new(), site: None, folders: Vec::new(), source: None, removed: false }
    }

    /// The source that a list of another program means: the outline in which the feed stands.
    pub fn source_by_folder(&self) -> Option<String> {
        self.source.clone().or_else(|| super::source::name(self.folders.last()?))
    }
}

/// A list, read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opml {
    /// Its feeds, in their order.
    pub feeds: Vec<Outline>,
    /// How many name no URL that can be fetched.
    pub dropped: u64,
    /// How many were named before.
    pub repeated: u64,
    /// It is broken, and was read as far as it made sense.
    pub broken: bool,
    /// It has more than [`FEEDS_MAX`].
    pub cut: bool,
}

/// Reads a list. Its own encoding does not matter: what is not UTF-8 is replaced, which URLs survive.
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
    /// The open outlines: the name of a folder, nothing for a feed.
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
        // Old programs wrote the scheme that starts them.
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
        // Without its prefix: programs that do not know it may have dropped that.
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

/// Writes a list: OPML 2.0, the feeds of a folder together.
pub fn write(title: &str, feeds: &[Outline]) -> String {
    let mut folders: BTreeMap<&[String], Vec<&Outline>> = BTreeMap::new();
    for feed in feeds {
        folders.entry(&feed.folders).or_default().push(feed);
    }
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<opml version=\"2.0\"");
    // OPML 2.0 lets whoever names a namespace add attributes.
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
            // Readers look at either, and `text` is the one that must be there.
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
            // XML has no way to write these.
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
}

/// The namespace of our attributes. A name, and no address.
const NAMESPACE: &str = "urn:nephila:opml";

/// More open outlines are not remembered.
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
            // Written by folder, in their order within it; without a title a feed has its URL for one.
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
