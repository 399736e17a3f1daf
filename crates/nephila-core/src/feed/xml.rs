//! Reads the XML of feeds: RSS, RDF, Atom and sitemaps with news, by one set of names.
//!
//! Elements are recognized by the local part of their names, since prefixes and namespaces are often wrong; only
//! prefixes that are known to mean something else (`media:title`) are respected. An entry begins with `item`, `entry`
//! or `url`. A text ends with its tag, or with the next tag that has a meaning here, so a missing end tag loses
//! nothing; inside a title other tags are markup. Elements about other things (pictures, sources, the content itself)
//! are skipped.
//!
//! Invariant: an entry that is incomplete at the end of the text is left out.

use std::time::Duration;

use quick_xml::events::BytesStart;

use super::{Draft, Format, List, Note, text};
use crate::handler::soup::{self, End, Sink, attribute};
use crate::url::{CrawlUrl, URL_BYTES_MAX};

/// Reads a text that begins with a tag.
pub(super) fn read(text: &str, list: &mut List<'_>, time_is_up: &mut dyn FnMut() -> bool) {
    let mut state = State {
        list,
        place: Place::Outside,
        skipped: None,
        in_author: false,
        field: Field::None,
        text: String::new(),
        spoiled: false,
        is_html: false,
        is_closed: false,
        head_base: None,
        base: None,
        period: None,
        frequency: 1,
        parts: Parts::default(),
    };
    let end = soup::read(text, super::OPEN_MAX, &mut state, time_is_up);
    state.finish(end);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    Head,
    Entry,
}

/// The field that the current text belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    None,
    Title,
    Link,
    Guid,
    Published,
    Updated,
    Author,
    Language,
    Ttl,
    Period,
    Frequency,
}

/// An entry while the reader builds it up. Candidates for the page are kept apart, since the best may come last.
#[derive(Default)]
struct Parts {
    draft: Draft,
    /// The text of `link`, or the alternate link of Atom.
    link: Option<(String, Option<CrawlUrl>)>,
    /// An alternate that is no page, or an Atom link within RSS.
    other: Option<(String, Option<CrawlUrl>)>,
    /// Whether the guid is a URL: the default, unless `isPermaLink` is false.
    guid_links: bool,
    about: Option<String>,
    enclosure: Option<String>,
}

struct State<'l, 'p> {
    list: &'l mut List<'p>,
    place: Place,
    /// The name of the skipped element around the current position.
    skipped: Option<&'static str>,
    in_author: bool,
    field: Field,
    text: String,
    /// The text holds an entity that is not expanded, or is too long.
    spoiled: bool,
    is_html: bool,
    /// The end tag of the root was read.
    is_closed: bool,
    head_base: Option<CrawlUrl>,
    base: Option<CrawlUrl>,
    period: Option<Duration>,
    frequency: u32,
    parts: Parts,
}

/// The meaning of a tag here.
#[derive(Clone, Copy)]
enum Meaning {
    Root(Format),
    Entry,
    Text(Field),
    Link,
    Enclosure,
    Author,
    Skip(&'static str),
}

fn meaning(prefix: &str, name: &str) -> Option<Meaning> {
    use Field as F;
    use Meaning as M;
    let field = match (prefix, name) {
        ("dc" | "dcterms", "date" | "issued" | "created" | "available") => F::Published,
        ("dc" | "dcterms", "modified") => F::Updated,
        ("dc" | "dcterms", "creator") => F::Author,
        ("dc" | "dcterms", "title") => F::Title,
        ("dc" | "dcterms", "language") => F::Language,
        ("dc" | "dcterms", _) => return None,
        ("sy" | "syn", "updatePeriod") => F::Period,
        ("sy" | "syn", "updateFrequency") => F::Frequency,
        ("news", "publication_date") => F::Published,
        ("news", "title") => F::Title,
        ("news", "language") => F::Language,
        ("content", "encoded") => return Some(M::Skip("encoded")),
        (
            "media" | "itunes" | "podcast" | "googleplay" | "image" | "video" | "news" | "geo" | "georss"
            | "g" | "yt" | "thr" | "wfw" | "slash" | "content" | "sy" | "feedburner" | "creativeCommons"
            | "xhtml" | "svg" | "cc",
            _,
        ) => return None,
        (_, "rss" | "channel") => return Some(M::Root(Format::Rss)),
        (_, "RDF" | "rdf") => return Some(M::Root(Format::Rdf)),
        (_, "feed") => return Some(M::Root(Format::Atom)),
        (_, "urlset") => return Some(M::Root(Format::Sitemap)),
        (_, "item" | "entry" | "url") => return Some(M::Entry),
        (_, "title") => F::Title,
        (_, "link") => return Some(M::Link),
        (_, "loc") => F::Link,
        (_, "guid" | "id") => F::Guid,
        (_, "pubDate" | "published" | "issued" | "created" | "date" | "pubdate") => F::Published,
        (_, "updated" | "modified" | "lastmod") => F::Updated,
        (_, "author") => return Some(M::Author),
        (_, "name" | "creator") => F::Author,
        (_, "language") => F::Language,
        (_, "ttl") => F::Ttl,
        (_, "updatePeriod") => F::Period,
        (_, "updateFrequency") => F::Frequency,
        (_, "enclosure") => return Some(M::Enclosure),
        (_, "image") => return Some(M::Skip("image")),
        (_, "textInput" | "textinput") => return Some(M::Skip("textInput")),
        (_, "source") => return Some(M::Skip("source")),
        (_, "contributor") => return Some(M::Skip("contributor")),
        (_, "content") => return Some(M::Skip("content")),
        (_, "description") => return Some(M::Skip("description")),
        (_, "summary") => return Some(M::Skip("summary")),
        _ => return None,
    };
    Some(M::Text(field))
}

/// Tags that no markup within a feed has: the skipped element has lost its end tag. A source, though, has dates.
fn ends_skipping(skipped: &str, name: &str) -> bool {
    match name {
        "item" | "entry" | "channel" => true,
        "pubDate" | "guid" | "published" | "updated" => skipped != "source",
        _ => false,
    }
}

impl Sink for State<'_, '_> {
    fn start(&mut self, tag: &BytesStart<'_>, is_empty: bool) {
        let name = tag.name();
        let (prefix, name) = match AsRef::<str>::as_ref(&name).split_once(':') {
            Some((prefix, name)) => (prefix.to_owned(), name.to_owned()),
            None => (String::new(), AsRef::<str>::as_ref(&name).to_owned()),
        };
        if let Some(skipped) = self.skipped {
            if !prefix.is_empty() || !ends_skipping(skipped, &name) {
                return;
            }
            self.skipped = None;
        }
        let Some(meaning) = meaning(&prefix, &name) else {
            self.is_html |= self.list.feed.format.is_none() && name.eq_ignore_ascii_case("html");
            // An unknown tag within a title is markup; anywhere else the tag ends a text.
            if self.field != Field::Title {
                self.end_field();
            }
            return;
        };
        self.end_field();
        match meaning {
            Meaning::Root(format) => self.handle_root(tag, format),
            Meaning::Entry => self.begin_entry(tag),
            Meaning::Link => self.handle_link(tag, &prefix),
            Meaning::Enclosure => {
                let url = attribute(tag, "url").or_else(|| attribute(tag, "href"));
                self.parts.enclosure = self.parts.enclosure.take().or(url);
            }
            Meaning::Author => {
                self.in_author = !is_empty;
                self.field = Field::Author;
            }
            Meaning::Skip(name) => self.skipped = (!is_empty).then_some(name),
            Meaning::Text(field) => {
                self.field = field;
                match field {
                    // The name of something else: of a category, of a place, of the newspaper in a news sitemap.
                    Field::Author if name == "name" && !self.in_author => self.field = Field::None,
                    Field::Guid => {
                        let says = attribute(tag, "isPermaLink");
                        self.parts.guid_links =
                            says.is_none_or(|says| !says.trim().eq_ignore_ascii_case("false"));
                    }
                    Field::Title => {
                        // RSS does not specify; a title of Atom is plain text unless `type` says otherwise.
                        let kind = attribute(tag, "type").unwrap_or_default().to_ascii_lowercase();
                        let is_atom = self.list.feed.format == Some(Format::Atom);
                        let is_markup = if is_atom { kind.contains("html") } else { true };
                        self.parts.draft.title_is_markup = is_markup;
                    }
                    _ => {}
                }
            }
        }
        if is_empty {
            self.field = Field::None;
        }
    }

    fn end(&mut self, name: &str) {
        if let Some(skipped) = self.skipped {
            let is_end =
                name == skipped || matches!(name, "item" | "entry" | "channel" | "rss" | "feed" | "RDF");
            if !is_end {
                return;
            }
            self.skipped = None;
            if name == skipped {
                return;
            }
        }
        // Within a title, the end of some markup; otherwise any end tag ends the text too.
        if self.field == Field::Title && meaning("", name).is_none() {
            return;
        }
        self.end_field();
        match name {
            "author" => self.in_author = false,
            "item" | "entry" | "url" => {
                self.end_entry();
            }
            "channel" => {
                self.end_entry();
                self.place = Place::Outside;
            }
            "rss" | "feed" | "RDF" | "rdf" | "urlset" => {
                self.end_entry();
                self.place = Place::Outside;
                self.is_closed = true;
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.field == Field::None || self.skipped.is_some() {
        } else if self.text.len() + text.len() <= TEXT_BYTES_MAX {
            self.text.push_str(text);
        } else {
            self.spoiled = true;
        }
    }

    fn unknown(&mut self, name: &str) {
        if self.field == Field::None || self.skipped.is_some() {
            return;
        }
        self.list.feed.note(Note::OwnEntities);
        // A title may show the entity; a URL or a guid without the expansion is a different one.
        self.spoiled |= matches!(self.field, Field::Link | Field::Guid);
        self.text(&format!("&{name};"));
    }

    fn broken(&mut self) {
        self.list.feed.note(Note::Broken);
    }

    fn is_done(&mut self) -> bool {
        self.list.is_full() || self.is_html
    }
}

impl State<'_, '_> {
    fn handle_root(&mut self, tag: &BytesStart<'_>, format: Format) {
        self.end_entry();
        // RDF has a `channel` too, which does not make the feed RSS.
        let known = &mut self.list.feed.format;
        known.get_or_insert(format);
        self.place = Place::Head;
        if let Some(href) = attribute_of_xml(tag, "xml:base") {
            self.head_base = self.list.url(&href, self.head_base.as_ref()).or(self.head_base.take());
        }
        if let Some(language) = attribute_of_xml(tag, "xml:lang").and_then(|tag| text::language(&tag)) {
            self.list.feed.language.get_or_insert(language);
        }
    }

    fn begin_entry(&mut self, tag: &BytesStart<'_>) {
        self.end_entry();
        self.place = Place::Entry;
        self.base = attribute_of_xml(tag, "xml:base")
            .and_then(|href| self.list.url(&href, self.head_base.as_ref()))
            .or_else(|| self.head_base.clone());
        self.parts.about = attribute_of_xml(tag, "rdf:about").or_else(|| attribute_of_xml(tag, "about"));
        self.parts.draft.language = attribute_of_xml(tag, "xml:lang").unwrap_or_default();
    }

    /// `<link>` of RSS holds a text, `<link>` of Atom has attributes.
    fn handle_link(&mut self, tag: &BytesStart<'_>, prefix: &str) {
        let Some(href) = attribute(tag, "href") else {
            self.field = Field::Link;
            return;
        };
        let rel = attribute(tag, "rel").unwrap_or_else(|| "alternate".to_owned());
        let rel = rel.trim().to_ascii_lowercase();
        let base = match self.place {
            Place::Entry => &self.base,
            Place::Head | Place::Outside => &self.head_base,
        };
        let own = attribute_of_xml(tag, "xml:base").and_then(|own| self.list.url(&own, base.as_ref()));
        let base = own.or_else(|| base.clone());
        match (self.place, rel.as_str()) {
            (Place::Entry, "alternate") => {
                let kind = attribute(tag, "type").unwrap_or_default().to_ascii_lowercase();
                let is_page = kind.is_empty() || kind.contains("html");
                let is_own = prefix.is_empty() || self.list.feed.format == Some(Format::Atom);
                let link = if is_page && is_own { &mut self.parts.link } else { &mut self.parts.other };
                link.get_or_insert((href, base));
            }
            (Place::Entry, "enclosure") => {
                self.parts.enclosure.get_or_insert(href);
            }
            (Place::Head, "alternate") if self.list.feed.site.is_none() => {
                self.list.feed.site = self.list.url(&href, base.as_ref());
            }
            (Place::Head, "next") => self.list.feed.next = self.list.url(&href, base.as_ref()),
            _ => {}
        }
    }

    fn end_field(&mut self) {
        let field = std::mem::replace(&mut self.field, Field::None);
        let text = std::mem::take(&mut self.text);
        let spoiled = std::mem::replace(&mut self.spoiled, false);
        if field == Field::None || spoiled || text.trim().is_empty() {
            return;
        }
        match self.place {
            Place::Entry => self.end_entry_field(field, text),
            Place::Head => self.end_head_field(field, &text),
            Place::Outside => {}
        }
    }

    fn end_entry_field(&mut self, field: Field, text: String) {
        let draft = &mut self.parts.draft;
        let first = |kept: &mut String, text| {
            if kept.is_empty() {
                *kept = text;
            }
        };
        match field {
            Field::Title => first(&mut draft.title, text),
            Field::Link => {
                self.parts.link.get_or_insert((text, self.base.clone()));
            }
            Field::Guid => first(&mut draft.guid, text),
            Field::Published => first(&mut draft.published, text),
            Field::Updated => first(&mut draft.updated, text),
            Field::Author => first(&mut draft.author, text),
            Field::Language => draft.language = text,
            Field::None | Field::Ttl | Field::Period | Field::Frequency => {}
        }
    }

    fn end_head_field(&mut self, field: Field, text: &str) {
        let site = if field == Field::Link { self.list.url(text, self.head_base.as_ref()) } else { None };
        let feed = &mut self.list.feed;
        match field {
            Field::Title if feed.title.is_empty() => {
                feed.title = text::line(text, self.parts.draft.title_is_markup);
            }
            Field::Link if feed.site.is_none() => feed.site = site,
            Field::Language => feed.language = text::language(text).or(feed.language.take()),
            Field::Ttl => {
                let minutes = text.trim().parse::<u32>().ok().filter(|minutes| *minutes > 0);
                feed.hints.ttl = minutes.map(|minutes| Duration::from_secs(60 * u64::from(minutes)));
            }
            Field::Period => {
                let days = match text.trim().to_ascii_lowercase().as_str() {
                    "hourly" => return self.period = Some(Duration::from_secs(3_600)),
                    "daily" => 1,
                    "weekly" => 7,
                    "monthly" => 30,
                    "yearly" => 365,
                    _ => return,
                };
                self.period = Some(Duration::from_secs(days * 86_400));
            }
            Field::Frequency => self.frequency = text.trim().parse().unwrap_or(1).max(1),
            _ => {}
        }
    }

    fn end_entry(&mut self) {
        let Parts { mut draft, link, other, guid_links, about, enclosure } = std::mem::take(&mut self.parts);
        let base = self.base.take();
        self.in_author = false;
        self.skipped = None;
        if std::mem::replace(&mut self.place, Place::Head) != Place::Entry {
            return;
        }
        draft.links.extend(link);
        draft.links.extend(other);
        let guid = text::url(&draft.guid);
        let is_http = guid.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
        if guid_links && is_http {
            draft.links.push((guid.to_owned(), None));
        }
        draft.links.extend(about.clone().map(|href| (href, base.clone())));
        draft.links.extend(enclosure.map(|href| (href, base)));
        if draft.guid.trim().is_empty() {
            draft.guid = about.unwrap_or_default();
        }
        self.list.push(draft);
    }

    fn finish(mut self, end: End) {
        let is_open = self.place == Place::Entry;
        if is_open {
            self.place = Place::Outside;
        }
        match end {
            End::Early { time } => self.list.feed.cut |= time,
            End::All | End::Lost if self.list.feed.format.is_some() && !self.is_closed => {
                self.list.feed.note(Note::Partial);
            }
            End::All | End::Lost => {}
        }
        if self.is_html {
            self.list.feed.format = None;
        }
        self.list.feed.hints.update_period = self.period.map(|period| period / self.frequency);
    }
}

/// An attribute by its whole name, so that `about` does not match `foo:about`.
fn attribute_of_xml(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = tag.html_attributes();
    attributes.with_checks(false);
    let mut found = attributes.take(ATTRIBUTES_MAX).flatten();
    let found = found.find(|a| AsRef::<str>::as_ref(&a.key) == name)?;
    (found.value.len() <= TEXT_BYTES_MAX).then(|| htmlize::unescape_attribute(&*found.value).into_owned())
}

/// A longer text is no title, URL or date.
const TEXT_BYTES_MAX: usize = 2 * URL_BYTES_MAX;

/// More attributes of one tag are not looked at.
const ATTRIBUTES_MAX: usize = 64;
