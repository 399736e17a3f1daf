//! Reads the XML of sitemaps, sitemap indexes and feeds, however malformed.
//!
//! Elements are recognized by their local names, since prefixes and namespaces are often wrong; only the contents of
//! `image`, `video` or `news` are skipped. An entry begins with its wrapper (`url`, `sitemap`, `item`, `entry`) or,
//! where wrappers are missing, with the next `loc`; a text ends where any tag begins, so a missing end tag loses
//! nothing. After malformed markup, reading continues at the next tag.
//!
//! Invariants: entities are never expanded, except the five of XML and characters by number; the parser remembers at
//! most [`OPEN_MAX`] open tags.

use quick_xml::events::BytesStart;

use super::{Draft, List, Note};
use crate::handler::soup::{self, End, Sink, attribute};
use crate::url::URL_BYTES_MAX;

/// Reads a text that begins with a tag.
pub(super) fn read(text: &str, list: &mut List<'_>, time_is_up: &mut dyn FnMut() -> bool) {
    let mut state = State {
        list,
        wrapper: Wrapper::None,
        is_index: false,
        media: None,
        field: Field::None,
        text: String::new(),
        spoiled: false,
        has_document_type: false,
        draft: Draft::default(),
    };
    match soup::read(text, OPEN_MAX, &mut state, time_is_up) {
        // A text without an end tag is cut, and half a URL is a different URL.
        End::All if state.field != Field::None => {
            state.list.findings.note(Note::Broken);
            state.field = Field::None;
        }
        End::Early { time } => state.list.findings.cut |= time,
        End::All | End::Lost => {}
    }
    state.end_field();
    state.end_entry();
}

/// The element around an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrapper {
    None,
    Url,
    Sitemap,
    Item,
}

/// The field that the current text belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    None,
    Loc,
    Lastmod,
    Priority,
    /// The text of a feed's `link`.
    Link,
    /// The `guid` of a feed entry, a URL unless `isPermaLink` is false.
    Guid,
}

struct State<'l, 'p> {
    list: &'l mut List<'p>,
    wrapper: Wrapper,
    /// The root element declares that entries without a wrapper are sitemaps.
    is_index: bool,
    /// The name of the open extension that describes something else.
    media: Option<&'static str>,
    field: Field,
    text: String,
    /// The text holds an entity that is not expanded, or is too long.
    spoiled: bool,
    has_document_type: bool,
    draft: Draft,
}

impl Sink for State<'_, '_> {
    fn start(&mut self, tag: &BytesStart<'_>, is_empty: bool) {
        // A tag within a text ends the text: the end tag is missing.
        self.end_field();
        let name = tag.local_name();
        let name: &str = name.as_ref();
        if self.media.is_some() {
            return;
        }
        match name {
            "urlset" => self.is_index = false,
            "sitemapindex" => self.is_index = true,
            "url" => self.begin_entry(Wrapper::Url),
            "sitemap" => self.begin_entry(Wrapper::Sitemap),
            "item" | "entry" => self.begin_entry(Wrapper::Item),
            "loc" => {
                if !self.draft.loc.is_empty() {
                    self.end_entry();
                }
                self.field = Field::Loc;
            }
            "lastmod" | "pubDate" | "updated" | "date" => self.field = Field::Lastmod,
            "published" if self.draft.lastmod.is_empty() => self.field = Field::Lastmod,
            "priority" => self.field = Field::Priority,
            "link" => self.handle_link(tag),
            "guid" => {
                let permanent =
                    attribute(tag, "isPermaLink").is_none_or(|v| !v.eq_ignore_ascii_case("false"));
                if self.wrapper == Wrapper::Item && permanent {
                    self.field = Field::Guid;
                }
            }
            _ if is_empty => {}
            "image" => self.media = Some("image"),
            "video" => self.media = Some("video"),
            "news" => self.media = Some("news"),
            // Feeds describe pictures and sources with links of their own.
            "source" if self.wrapper == Wrapper::Item => self.media = Some("source"),
            _ => {}
        }
        if is_empty {
            self.field = Field::None;
        }
    }

    fn end(&mut self, name: &str) {
        self.end_field();
        if self.media == Some(name) {
            self.media = None;
        } else if matches!(name, "url" | "sitemap" | "item" | "entry") {
            // Also when an extension was never closed: its entry ends here.
            self.media = None;
            self.end_entry();
        }
    }

    fn text(&mut self, text: &str) {
        if self.field != Field::None && self.text.len() + text.len() <= TEXT_BYTES_MAX {
            self.text.push_str(text);
        } else if self.field != Field::None {
            self.spoiled = true;
        }
    }

    /// Only the references of XML are expanded: a URL that contains the name of an HTML entity stays as written.
    fn reference(&mut self, name: &str) {
        if self.field == Field::None {
            return;
        }
        if self.has_document_type && soup::is_name(name) {
            self.list.findings.note(Note::OwnEntities);
            self.spoiled = true;
        } else {
            // An unescaped `&`, with a `;` further on.
            self.text(&format!("&{name};"));
        }
    }

    fn document_type(&mut self) {
        self.has_document_type = true;
    }

    fn broken(&mut self) {
        self.list.findings.note(Note::Broken);
    }

    fn is_done(&mut self) -> bool {
        self.list.is_full()
    }
}

impl State<'_, '_> {
    /// `<link>` of RSS holds a text; `<link>` of Atom and of other languages has an attribute.
    fn handle_link(&mut self, tag: &BytesStart<'_>) {
        let Some(href) = attribute(tag, "href") else {
            if self.wrapper == Wrapper::Item {
                self.field = Field::Link;
            }
            return;
        };
        let rel = attribute(tag, "rel").unwrap_or_else(|| "alternate".to_owned());
        if !rel.trim().eq_ignore_ascii_case("alternate") {
            return;
        }
        if self.wrapper == Wrapper::Item {
            if self.draft.loc.is_empty() {
                self.draft.loc = href;
            }
        } else if self.wrapper == Wrapper::Url && self.draft.alternates.len() < ALTERNATES_PER_ENTRY_MAX {
            self.draft.alternates.push(href);
        }
    }

    fn end_field(&mut self) {
        let field = std::mem::replace(&mut self.field, Field::None);
        let text = std::mem::take(&mut self.text);
        let spoiled = std::mem::replace(&mut self.spoiled, false);
        if spoiled {
            self.list.findings.dropped += u64::from(field != Field::None);
            return;
        }
        let blank = text.trim().is_empty();
        match field {
            _ if blank => {}
            Field::None => {}
            Field::Loc => self.draft.loc = text,
            Field::Lastmod => self.draft.lastmod = text,
            Field::Priority => self.draft.priority = text,
            Field::Link => self.draft.loc = text,
            Field::Guid if self.draft.loc.is_empty() && text.trim_start().starts_with("http") => {
                self.draft.loc = text;
            }
            Field::Guid => {}
        }
    }

    fn begin_entry(&mut self, wrapper: Wrapper) {
        self.end_entry();
        self.wrapper = wrapper;
    }

    fn end_entry(&mut self) {
        let wrapper = std::mem::replace(&mut self.wrapper, Wrapper::None);
        let draft = std::mem::take(&mut self.draft);
        if draft.loc.is_empty() {
            return;
        }
        match wrapper {
            Wrapper::Sitemap => self.list.push_sitemap(&draft.loc),
            Wrapper::None if self.is_index => self.list.push_sitemap(&draft.loc),
            Wrapper::None | Wrapper::Url | Wrapper::Item => self.list.push(&draft),
        }
    }
}

/// Maximum number of open tags that a parser of sitemaps remembers.
const OPEN_MAX: usize = 1_000_000;

/// Maximum length of a text; a longer one is no URL and no date.
const TEXT_BYTES_MAX: usize = 2 * URL_BYTES_MAX;

/// Maximum number of alternates (languages) of one page.
const ALTERNATES_PER_ENTRY_MAX: usize = 256;
