//! Reads the XML of sitemaps, indexes of sitemaps and feeds, without ever refusing any.
//!
//! Elements are known by the last part of their names, since prefixes and namespaces are often wrong; only what stands
//! within `image`, `video` or `news` is somebody else's. An entry begins with its wrapper (`url`, `sitemap`, `item`,
//! `entry`) or, where wrappers are missing, with the next `loc`; a text ends where any tag begins, so that a missing
//! end tag loses nothing. After markup that makes no sense, reading goes on at the next tag.
//!
//! What always holds: entities are never expanded, except the five of XML and characters by number; the parser's own
//! memory does not grow with the nesting.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use super::{Draft, List, Note};
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
    let mut rest = text;
    for _ in 0..RESTARTS_MAX {
        match state.read_run(rest, time_is_up) {
            Run::Over => {
                // A text that no tag has ended is cut, and half a URL is another one.
                if state.field != Field::None && !state.list.is_full() {
                    state.list.findings.note(Note::Broken);
                    state.field = Field::None;
                }
                break;
            }
            Run::Deep(at) => rest = rest.get(at..).unwrap_or_default(),
            // What could not be read begins with a `<`; the next one is a new chance.
            Run::Broken(at) => {
                state.list.findings.note(Note::Broken);
                let after = rest.get(at + 1..).unwrap_or_default();
                let Some(next) = after.find('<') else { break };
                rest = &after[next..];
            }
        }
    }
    state.end_field();
    state.end_entry();
}

/// How a run of the parser ended.
enum Run {
    /// Nothing more is to be read.
    Over,
    /// Too many tags were open; a new parser goes on at this byte, for ours does not care for nesting.
    Deep(usize),
    /// The tag at this byte makes no sense.
    Broken(usize),
}

/// What an entry is wrapped in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wrapper {
    None,
    Url,
    Sitemap,
    Item,
}

/// What the text that is being read is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    None,
    Loc,
    Lastmod,
    Priority,
    /// The text of a feed's `link`.
    Link,
    /// A feed's `guid`, which is a URL unless it says otherwise.
    Guid,
}

struct State<'l, 'p> {
    list: &'l mut List<'p>,
    wrapper: Wrapper,
    /// The root says that entries without a wrapper are sitemaps.
    is_index: bool,
    /// Within an extension that describes something else, and its name.
    media: Option<&'static str>,
    field: Field,
    text: String,
    /// The text holds what we do not expand.
    spoiled: bool,
    has_document_type: bool,
    draft: Draft,
}

impl State<'_, '_> {
    fn read_run(&mut self, text: &str, time_is_up: &mut dyn FnMut() -> bool) -> Run {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        config.allow_dangling_amp = true;
        config.allow_unmatched_ends = true;
        config.check_end_names = false;
        let (mut open, mut events) = (0usize, 0usize);
        loop {
            events += 1;
            if events % EVENTS_PER_LOOK == 0 && time_is_up() {
                self.list.findings.cut = true;
            }
            if self.list.is_full() {
                return Run::Over;
            }
            match reader.read_event() {
                Ok(Event::Start(tag)) => {
                    self.handle_start(&tag, false);
                    open += 1;
                    if open > OPEN_MAX {
                        return Run::Deep(usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX));
                    }
                }
                Ok(Event::Empty(tag)) => self.handle_start(&tag, true),
                Ok(Event::End(tag)) => {
                    open = open.saturating_sub(1);
                    self.handle_end(tag.local_name().as_ref());
                }
                Ok(Event::Text(text)) => self.push_text(&text.into_inner()),
                Ok(Event::CData(text)) => self.push_text(&text.into_inner()),
                Ok(Event::GeneralRef(reference)) => self.push_reference(&reference.into_inner()),
                Ok(Event::DocType(_)) => self.has_document_type = true,
                Ok(Event::Eof) => return Run::Over,
                Ok(_) => {}
                // These are over already; the parser goes on behind them.
                Err(quick_xml::Error::IllFormed(_)) => self.list.findings.note(Note::Broken),
                Err(_) => return Run::Broken(usize::try_from(reader.error_position()).unwrap_or(usize::MAX)),
            }
        }
    }

    fn handle_start(&mut self, tag: &BytesStart<'_>, is_empty: bool) {
        // A tag within a text ends it: its own end tag is missing.
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

    fn handle_end(&mut self, name: &str) {
        self.end_field();
        if self.media == Some(name) {
            self.media = None;
        } else if matches!(name, "url" | "sitemap" | "item" | "entry") {
            // Also when an extension was never closed: its entry is over.
            self.media = None;
            self.end_entry();
        }
    }

    /// `<link>` of RSS holds a text; that of Atom and the one for other languages hold an attribute.
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

    fn push_text(&mut self, text: &str) {
        if self.field != Field::None && self.text.len() + text.len() <= TEXT_BYTES_MAX {
            self.text.push_str(text);
        } else if self.field != Field::None {
            self.spoiled = true;
        }
    }

    /// A reference, without its `&` and `;`.
    fn push_reference(&mut self, name: &str) {
        if self.field == Field::None {
            return;
        }
        if let Some(char) = character(name) {
            self.text.push(char);
        } else if self.has_document_type
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b))
        {
            self.list.findings.note(Note::OwnEntities);
            self.spoiled = true;
        } else {
            // An `&` that somebody forgot to escape, with a `;` further on.
            self.push_text(&format!("&{name};"));
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

/// An attribute by the last part of its name, references decoded.
pub(crate) fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = tag.html_attributes();
    attributes.with_checks(false);
    let found = attributes.flatten().take(ATTRIBUTES_MAX).find(|a| a.key.local_name().as_ref() == name)?;
    Some(unescape(&found.value))
}

/// Decodes the references of an attribute; what is none stays as it is.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = rest[1..].split_once(';').and_then(|(name, after)| Some((character(name)?, after)));
        match known {
            Some((char, after)) => {
                out.push(char);
                rest = after;
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The character of a reference that XML has by itself.
pub(crate) fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

/// So often reading goes on after markup that makes no sense, or under too many open tags.
const RESTARTS_MAX: usize = 64;

/// The parser remembers every open tag; with more than this a new one goes on.
const OPEN_MAX: usize = 1_000_000;

/// A longer text is no URL and no date.
const TEXT_BYTES_MAX: usize = 2 * URL_BYTES_MAX;

/// More attributes of one tag are not looked at.
const ATTRIBUTES_MAX: usize = 64;

/// More languages has no page.
const ALTERNATES_PER_ENTRY_MAX: usize = 256;

/// The clock is looked at once in so many tags and texts.
const EVENTS_PER_LOOK: usize = 1_024;
