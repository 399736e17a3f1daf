//! Extracts from HTML: references, the base, the title, a refresh, robots directives.
//!
//! [`super::scan`] gives the tags in the order of the page and builds no tree, so nesting costs a stack of open elements and
//! nothing else. The stack has a limit. When nesting has reached the limit, the page is read on as if it began there, since
//! only the nesting is lost. When one single tag has reached the limit, the page is cut there.
//!
//! `noscript` arrives as text, as in a browser that runs scripts. We run none, so the text is read as markup after the
//! end of the page, and only once. Contents of a `template` are not part of the page and are left out, unless the
//! template never ends or is the shadow tree that browsers show.
//!
//! Styles in the page are read like style sheets. Attributes (`style=""`) require a look at every attribute of every
//! element, so they are read only if some bytes of the page look like a style that names a URL.
//!
//! Invariants: no input stops the process; everything found before a cut is kept.

mod anchor;
mod elements;

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};

use super::collect::{Collector, Named};
use super::details::{self, Noted};
use super::link::LinkKind;
use super::page::{Limits, kind_in_css};
use super::page_robots::{self, cut};
use super::refresh::Refresh;
use super::scan::open::Open;
use super::scan::{Attribute, Attributes, Element, Mode, Name, Scanner, Token};
use super::{css, srcset};
use crate::url::KeyRules;

/// Maximum length of a kept title in bytes.
pub(super) const TITLE_BYTES_MAX: usize = 512;

/// The deadline is checked once in this number of bytes, or behind the text or tag in which they end.
const BYTES_PER_LOOK: usize = 16 * 1024;

/// Minimum of the limit of memory; a smaller one counts as this.
const MEMORY_MIN: usize = 2 * 1024;

/// Maximum number of bytes read from all `style` elements of one page.
const STYLE_BYTES_MAX: usize = 1024 * 1024;

/// Maximum length of the raw text of a title, since references may be long.
const TITLE_RAW_BYTES_MAX: usize = 8 * TITLE_BYTES_MAX;

/// The contents of one page.
#[derive(Debug)]
pub(super) struct Html<'a> {
    pub(super) collector: Collector,
    /// The `href` of the first `base` that has one.
    pub(super) base: Option<String>,
    pub(super) title: Option<String>,
    pub(super) refresh: Option<Refresh>,
    pub(super) robots: page_robots::Reader,
    /// What only tables hold, if asked for.
    pub(super) noted: Option<Noted>,
    limits: &'a Limits,
    /// The encoding of the text that is being read.
    encoding: &'static Encoding,
    open: Open,
    title_state: TitleState,
    /// Styles are read.
    styles: bool,
    /// Number of bytes read from all `style` elements.
    style_bytes: usize,
    /// The text of all `noscript` elements.
    noscript: String,
    is_noscript: bool,
    /// References within the open template: kept if the template never ends.
    held: Vec<(String, Named)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TitleState {
    Before,
    Inside,
    After,
}

/// Reads a page. Returns the findings, and whether the page was cut.
pub(super) fn read<'a>(
    bytes: &[u8],
    encoding: &'static Encoding,
    robots: page_robots::Reader,
    limits: &'a Limits,
    keys: &KeyRules,
    time_is_up: &mut dyn FnMut() -> bool,
) -> (Html<'a>, bool) {
    debug_assert!(encoding.is_ascii_compatible(), "the caller has made it UTF-8");
    let mut html = Html {
        collector: Collector::new(limits.links_max, keys),
        base: None,
        title: None,
        refresh: None,
        robots,
        noted: limits.details.then(Noted::default),
        limits,
        encoding,
        open: Open::new(limits.memory_max.max(MEMORY_MIN)),
        title_state: TitleState::Before,
        styles: false,
        style_bytes: 0,
        noscript: String::new(),
        is_noscript: false,
        held: Vec::new(),
    };
    let mut was_cut = html.scan(bytes, time_is_up);
    let text = std::mem::take(&mut html.noscript);
    if !text.is_empty() {
        (html.is_noscript, html.encoding) = (true, UTF_8);
        was_cut |= html.scan(text.as_bytes(), time_is_up);
    }
    (html, was_cut)
}

impl Html<'_> {
    /// Reads bytes from their begin. Returns true if the end was not reached.
    fn scan(&mut self, bytes: &[u8], time_is_up: &mut dyn FnMut() -> bool) -> bool {
        self.styles = self.limits.requisites && (css::may_name(bytes) || has_import(bytes));
        // Half of the memory, though a tag needs none: what is longer is no tag that anybody wrote.
        let tag_bytes_max = self.limits.memory_max.max(MEMORY_MIN) / 2;
        let mut scanner = Scanner::new(bytes, self.encoding, tag_bytes_max, self.styles);
        let mut next_look = 0;
        let was_cut = loop {
            if scanner.position() >= next_look {
                next_look = scanner.position() + BYTES_PER_LOOK;
                if time_is_up() {
                    break true;
                }
            }
            match scanner.next(self.open.is_foreign()) {
                Token::Text { from, to, is_data } => self.take_text(&bytes[from..to], is_data),
                Token::Start { name, closes_itself } => {
                    let mode = self.take_start(name, closes_itself, scanner.attributes());
                    scanner.read_as(mode);
                    scanner.wants_text = self.wants_text();
                }
                Token::End { name } => {
                    self.open.end(name);
                    self.end_anchor();
                    scanner.wants_text = self.wants_text();
                }
                Token::TooLong => break true,
                Token::Over => break false,
            }
        };
        let templates = self.open.marked();
        self.end_run(templates);
        self.open.forget();
        was_cut
    }

    fn take_start(&mut self, name: Name, closes_itself: bool, attributes: &Attributes<'_>) -> Mode {
        let templates = self.open.marked();
        let opened = self.open.start(name, closes_itself, attributes);
        if opened.has_forgotten {
            self.end_run(templates);
        }
        if let Name::Known(element) = name {
            self.take_element(element, opened.is_open, attributes);
        }
        if self.styles && attributes.has(Attribute::Style) {
            self.take_styled(attributes);
        }
        opened.mode
    }

    /// Whether somebody reads the text at this place.
    fn wants_text(&self) -> bool {
        self.is_in_title() || self.is_in_noscript() || self.is_in_style() || self.is_in_anchor()
    }

    fn is_in_title(&self) -> bool {
        self.title_state == TitleState::Inside && self.open.has(Element::Title)
    }

    fn is_in_noscript(&self) -> bool {
        let is_open = self.open.has(Element::Noscript) || self.open.has(Element::Noframes);
        is_open && !self.is_noscript && self.open.marked() == 0
    }

    fn is_in_style(&self) -> bool {
        self.styles && self.open.has(Element::Style)
    }

    /// Takes a whole text between two pieces of markup.
    fn take_text(&mut self, text: &[u8], is_data: bool) {
        if self.is_in_title() {
            self.title = Some(self.decoded(text, TITLE_RAW_BYTES_MAX).into_owned());
            self.title_state = TitleState::After;
        }
        if self.is_in_noscript() {
            let room = self.limits.noscript_bytes_max.saturating_sub(self.noscript.len());
            let decoded = self.decoded(text, room);
            self.noscript.push_str(&decoded);
            if decoded.len() < room {
                // Separates the end of one text from the beginning of the next.
                self.noscript.push('\n');
            }
        }
        if is_data && self.is_in_anchor() {
            self.add_to_anchor(&self.decoded(text, details::ANCHOR_RAW_BYTES_MAX));
        }
        if self.is_in_style() {
            let style = self.decoded(text, STYLE_BYTES_MAX.saturating_sub(self.style_bytes));
            self.style_bytes += style.len();
            self.take_style(&style, "style");
        }
    }

    /// The begin of a text, decoded. The text is decoded only as far as it is kept.
    fn decoded<'t>(&self, text: &'t [u8], bytes_max: usize) -> Cow<'t, str> {
        // No character takes more than four bytes, and none becomes less than one; a character that is cut here is
        // cut off below.
        let begin = &text[..text.len().min(bytes_max.saturating_add(1).saturating_mul(4))];
        match self.encoding.decode_without_bom_handling(begin).0 {
            Cow::Borrowed(text) => Cow::Borrowed(cut(text, bytes_max)),
            Cow::Owned(mut text) => {
                text.truncate(cut(&text, bytes_max).len());
                Cow::Owned(text)
            }
        }
    }

    fn take_styled(&mut self, attributes: &Attributes<'_>) {
        if let Some(style) = attributes.get(Attribute::Style)
            && css::may_name(style.as_bytes())
        {
            self.take_style(&style, "@style");
        }
    }

    fn take_style(&mut self, style: &str, place: &'static str) {
        css::read(style, &mut |url, named| {
            self.push(url, Named::new(kind_in_css(named), place));
        });
    }

    /// Takes the URL of an attribute. `place` is `element/@attribute`.
    fn take(
        &mut self,
        attributes: &Attributes<'_>,
        attribute: Attribute,
        place: &'static str,
        kind: LinkKind,
    ) {
        if self.is_wanted(kind)
            && let Some(text) = attributes.get(attribute)
        {
            self.push(&text, Named::new(kind, place));
        }
    }

    fn take_set(&mut self, attributes: &Attributes<'_>, attribute: Attribute, place: &'static str) {
        if self.is_wanted(LinkKind::Requisite)
            && let Some(set) = attributes.get(attribute)
        {
            let named = Named::new(LinkKind::Requisite, place);
            srcset::urls(&set).into_iter().for_each(|url| {
                self.push(url, named);
            });
        }
    }

    fn is_wanted(&self, kind: LinkKind) -> bool {
        self.limits.requisites || !kind.is_requisite()
    }

    /// Takes a reference. Returns its number, unless the reference is left out.
    fn push(&mut self, text: &str, named: Named) -> Option<usize> {
        if !self.is_wanted(named.kind) {
            return None;
        }
        if self.open.marked() > 0 {
            if self.held.len() < self.limits.links_max {
                self.held.push((text.to_owned(), named));
            }
            return None;
        }
        self.let_go();
        self.collector.push(text, named)
    }

    /// Drops the references of a template that has ended.
    fn let_go(&mut self) {
        if self.open.marked() == 0 {
            self.held.clear();
        }
    }

    /// Ends a run through open elements: a template that is still open is none, and its references are kept.
    fn end_run(&mut self, templates: usize) {
        self.forget_anchor();
        for (text, named) in std::mem::take(&mut self.held) {
            if templates > 0 {
                self.collector.push(&text, named);
            }
        }
    }

    /// The title as shown: references decoded, white space collapsed.
    pub(super) fn shown_title(&self) -> Option<String> {
        let title = details::on_one_line(&htmlize::unescape(self.title.as_deref()?), TITLE_BYTES_MAX);
        (!title.is_empty()).then_some(title)
    }
}

/// Whether a `<style>` may import something, which needs no parenthesis.
fn has_import(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'@', bytes)
        .any(|at| bytes.get(at + 1..at + 7).is_some_and(|name| name.eq_ignore_ascii_case(b"import")))
}
