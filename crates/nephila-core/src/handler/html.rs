//! Extracts from HTML: references, the base, the title, a refresh, robots directives.
//!
//! The parser streams and builds no tree, so nesting costs a stack of open elements and nothing else. Its memory has a
//! limit. When nesting alone has reached the limit, a new parser continues at the same tag, since only the nesting is
//! lost. When one single tag has reached the limit, the page is cut there.
//!
//! `noscript` arrives as text, as in a browser that runs scripts. We run none, so the text is read as markup after the
//! end of the page, and only once. Contents of a `template` are not part of the page and are left out, unless the
//! template never ends or is the shadow tree that browsers show.
//!
//! Styles in the page are read like style sheets. Attributes (`style=""`) require a visit to every element, so they are
//! read only if some bytes of the page look like a style that names a URL.
//!
//! Invariants: no input stops the process; everything found before a cut is kept.

mod anchor;
mod selectors;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use encoding_rs::Encoding;
use lol_html::errors::RewritingError;
use lol_html::html_content::{Element, TextChunk};
use lol_html::{AsciiCompatibleEncoding, HtmlRewriter};

use selectors::{SELECTORS, Selectors};

use super::collect::{Collector, Named};
use super::details::{self, Noted};
use super::link::{LinkKind, is_nofollow, read_rel};
use super::page::{Limits, kind_in_css};
use super::page_robots::{self, cut};
use super::refresh::{self, Refresh};
use super::{css, srcset};
use crate::url::KeyRules;

/// Maximum length of a kept title in bytes.
pub(super) const TITLE_BYTES_MAX: usize = 512;

/// The parser gets the page in pieces of this size, and the deadline is checked between two of them. Small enough that
/// the stack of open elements cannot run full within one piece.
const CHUNK_BYTES: usize = 16 * 1024;

/// Maximum number of times that a new parser continues where nesting has used up the memory of the one before.
const RESTARTS_MAX: usize = 256;

/// Minimum memory of the parser; with less the parser does not start.
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
    title_state: TitleState,
    /// The next title belongs to an SVG image. The parser reports the HTML namespace for such a title.
    is_svg_title: bool,
    /// The text of the open `style` element.
    style: String,
    /// Number of bytes read from all `style` elements.
    style_bytes: usize,
    /// The text of all `noscript` elements.
    noscript: String,
    is_noscript: bool,
    /// Number of open templates. Shared with the handlers of their ends, which outlive a borrow.
    templates: Rc<Cell<u32>>,
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
    let html = RefCell::new(Html {
        collector: Collector::new(limits.links_max, keys),
        base: None,
        title: None,
        refresh: None,
        robots,
        noted: limits.details.then(Noted::default),
        limits,
        title_state: TitleState::Before,
        is_svg_title: false,
        style: String::new(),
        style_bytes: 0,
        noscript: String::new(),
        is_noscript: false,
        templates: Rc::new(Cell::new(0)),
        held: Vec::new(),
    });
    let Some(compatible) = AsciiCompatibleEncoding::new(encoding) else {
        debug_assert!(false, "the caller has made it UTF-8");
        return (html.into_inner(), true);
    };
    let mut was_cut = scan(bytes, compatible, &html, limits, time_is_up);
    let text = {
        let mut html = html.borrow_mut();
        html.end_run();
        html.is_noscript = true;
        std::mem::take(&mut html.noscript)
    };
    if !text.is_empty() {
        was_cut |= scan(text.as_bytes(), AsciiCompatibleEncoding::utf_8(), &html, limits, time_is_up);
        html.borrow_mut().end_run();
    }
    (html.into_inner(), was_cut)
}

/// Feeds the parser. Returns true if the parser did not reach the end.
fn scan(
    bytes: &[u8],
    encoding: AsciiCompatibleEncoding,
    html: &RefCell<Html<'_>>,
    limits: &Limits,
    time_is_up: &mut dyn FnMut() -> bool,
) -> bool {
    SELECTORS.with(|selectors| scan_with(selectors, bytes, encoding, html, limits, time_is_up))
}

fn scan_with(
    selectors: &Selectors,
    bytes: &[u8],
    encoding: AsciiCompatibleEncoding,
    html: &RefCell<Html<'_>>,
    limits: &Limits,
    time_is_up: &mut dyn FnMut() -> bool,
) -> bool {
    let styles = limits.requisites && (css::may_name(bytes) || has_import(bytes));
    let mut start = 0;
    for _ in 0..RESTARTS_MAX {
        // The output of the parser is the finished part: the same bytes, since nothing is rewritten.
        let done = Cell::new(0);
        let settings = selectors.settings(html, encoding, limits.memory_max.max(MEMORY_MIN), styles);
        let mut parser = HtmlRewriter::new(settings, |bytes: &[u8]| done.set(done.get() + bytes.len()));
        let mut fed = start;
        let failure = loop {
            if fed == bytes.len() {
                break parser.end().err().map(|error| (error, fed));
            }
            if time_is_up() {
                return true;
            }
            let end = bytes.len().min(fed + CHUNK_BYTES);
            if let Err(error) = parser.write(&bytes[fed..end]) {
                break Some((error, end));
            }
            fed = end;
        };
        let Some((error, end)) = failure else { return false };
        let next = (start + done.get()).min(end);
        let one_tag = end - next > limits.memory_max / 4;
        if !matches!(error, RewritingError::MemoryLimitExceeded(_)) || one_tag || next == start {
            return true;
        }
        start = next;
        html.borrow_mut().end_run();
    }
    true
}

impl Html<'_> {
    fn handle_element(&mut self, element: &mut Element<'_, '_>) {
        match element.tag_name().as_str() {
            "a" => {
                let at = self.hyperlink(element, Named::new(LinkKind::Link, "a/@href"));
                self.begin_anchor(element, at);
            }
            "area" => {
                self.hyperlink(element, Named::new(LinkKind::Area, "area/@href"));
            }
            "link" => self.link(element),
            "meta" => self.meta(element),
            "base" => self.handle_base(element),
            "img" => {
                self.take(element, "img/@src", LinkKind::Requisite);
                self.take_set(element, "img/@srcset");
            }
            "source" => {
                self.take(element, "source/@src", LinkKind::Requisite);
                self.take_set(element, "source/@srcset");
            }
            "script" => self.take(element, "script/@src", LinkKind::Requisite),
            "audio" => self.take(element, "audio/@src", LinkKind::Requisite),
            "track" => self.take(element, "track/@src", LinkKind::Requisite),
            "embed" => self.take(element, "embed/@src", LinkKind::Requisite),
            "video" => {
                self.take(element, "video/@src", LinkKind::Requisite);
                self.take(element, "video/@poster", LinkKind::Requisite);
            }
            // Shapes and pictures of SVG. `image` outside of SVG is an old name of `img`.
            "image" => {
                for place in ["image/@src", "image/@href", "image/@xlink:href"] {
                    self.take(element, place, LinkKind::Requisite);
                }
            }
            "use" => {
                for place in ["use/@src", "use/@href", "use/@xlink:href"] {
                    self.take(element, place, LinkKind::Requisite);
                }
            }
            "object" => self.take(element, "object/@data", LinkKind::Requisite),
            "iframe" => self.take(element, "iframe/@src", LinkKind::Iframe),
            "frame" => self.take(element, "frame/@src", LinkKind::Iframe),
            "body" => self.take(element, "body/@background", LinkKind::Requisite),
            "input" => {
                let image = attribute(element, "type").is_some_and(|kind| kind.eq_ignore_ascii_case("image"));
                if image {
                    self.take(element, "input/@src", LinkKind::Requisite);
                }
            }
            "form" if self.limits.forms => {
                let get = attribute(element, "method").is_none_or(|method| {
                    let method = method.trim();
                    !method.eq_ignore_ascii_case("post") && !method.eq_ignore_ascii_case("dialog")
                });
                if get {
                    self.take(element, "form/@action", LinkKind::Form);
                }
            }
            "template" => self.handle_template(element),
            _ => {}
        }
    }

    /// Takes a link. Returns its number.
    fn hyperlink(&mut self, element: &Element<'_, '_>, named: Named) -> Option<usize> {
        let href = attribute(element, "href").or_else(|| attribute(element, "xlink:href"))?;
        let rel = attribute(element, "rel");
        let nofollow = rel.as_deref().is_some_and(is_nofollow);
        let at = self.push(&href, Named { nofollow, ..named });
        self.note_rel(at, rel.as_deref());
        at
    }

    fn link(&mut self, element: &Element<'_, '_>) {
        let Some(words) = attribute(element, "rel") else { return };
        let rel = read_rel(&words, attribute(element, "type").as_deref());
        let Some(kind) = rel.kind else { return };
        if let Some(href) = attribute(element, "href") {
            let at = self.push(&href, Named { nofollow: rel.nofollow, ..Named::new(kind, "link/@href") });
            self.note_rel(at, Some(&words));
            if let Some(noted) = self.noted.as_mut().filter(|_| self.templates.get() == 0) {
                noted.link(kind, &href, attribute(element, "hreflang").as_deref());
            }
        }
        if kind.is_requisite() {
            self.take_set(element, "link/@imagesrcset");
        }
    }

    fn meta(&mut self, element: &Element<'_, '_>) {
        if self.templates.get() > 0 {
            return;
        }
        let Some(content) = attribute(element, "content") else { return };
        if let Some(name) = attribute(element, "name") {
            self.robots.read_meta(&name, &content);
            self.noted.iter_mut().for_each(|noted| noted.meta(&name, &content));
        }
        let is_refresh = attribute(element, "http-equiv")
            .is_some_and(|pragma| pragma.trim().eq_ignore_ascii_case("refresh"));
        if is_refresh && let Some(refresh) = refresh::parse(&content) {
            self.take_refresh(refresh);
        }
    }

    /// Takes a `meta` refresh. In `noscript` the refresh is for readers without scripts, who would otherwise see
    /// nothing: a link, since the page has its own text.
    pub(super) fn take_refresh(&mut self, refresh: Refresh) {
        if let Some(url) = &refresh.url {
            let short = refresh.delay <= self.limits.refresh_redirect_max && !self.is_noscript;
            let kind = if short { LinkKind::Redirect } else { LinkKind::Refresh };
            let url = url.clone();
            self.push(&url, Named::new(kind, "meta/@content"));
        }
        // Browsers use the first.
        if !self.is_noscript && self.refresh.is_none() {
            self.refresh = Some(refresh);
        }
    }

    fn handle_base(&mut self, element: &Element<'_, '_>) {
        if self.base.is_none() && self.templates.get() == 0 && !self.is_noscript {
            self.base = attribute(element, "href");
        }
    }

    fn handle_template(&mut self, element: &mut Element<'_, '_>) {
        // A shadow tree is shown like the rest of the page.
        if element.has_attribute("shadowrootmode") {
            return;
        }
        if let Some(handlers) = element.end_tag_handlers() {
            self.let_go();
            self.templates.set(self.templates.get() + 1);
            let templates = Rc::clone(&self.templates);
            handlers.push(Box::new(move |_| {
                templates.set(templates.get().saturating_sub(1));
                Ok(())
            }));
        }
    }

    fn handle_title(&mut self) {
        let is_svg = std::mem::replace(&mut self.is_svg_title, false);
        if self.title_state == TitleState::Before && !is_svg && self.templates.get() == 0 {
            self.title_state = TitleState::Inside;
            self.title = Some(String::new());
        }
    }

    fn handle_title_text(&mut self, text: &TextChunk<'_>) {
        if self.title_state != TitleState::Inside {
            return;
        }
        let title = self.title.get_or_insert_default();
        title.push_str(cut(text.as_str(), TITLE_RAW_BYTES_MAX.saturating_sub(title.len())));
        if text.last_in_text_node() {
            self.title_state = TitleState::After;
        }
    }

    fn handle_noscript_text(&mut self, text: &TextChunk<'_>) {
        if self.is_noscript || self.templates.get() > 0 {
            return;
        }
        let room = self.limits.noscript_bytes_max.saturating_sub(self.noscript.len());
        self.noscript.push_str(cut(text.as_str(), room));
        if text.last_in_text_node() && room > 0 {
            // Separates the end of one text from the beginning of the next.
            self.noscript.push('\n');
        }
    }

    fn handle_style_text(&mut self, text: &TextChunk<'_>) {
        let room = STYLE_BYTES_MAX.saturating_sub(self.style_bytes);
        let text_of = cut(text.as_str(), room);
        self.style_bytes += text_of.len();
        self.style.push_str(text_of);
        if text.last_in_text_node() {
            let style = std::mem::take(&mut self.style);
            self.take_style(&style, "style");
        }
    }

    fn handle_styled(&mut self, element: &Element<'_, '_>) {
        let Some(style) = attribute(element, "style") else { return };
        if css::may_name(style.as_bytes()) {
            self.take_style(&style, "@style");
        }
    }

    fn take_style(&mut self, style: &str, place: &'static str) {
        css::read(style, &mut |url, named| {
            self.push(url, Named::new(kind_in_css(named), place));
        });
    }

    /// Takes the URL of an attribute. `place` is `element/@attribute`.
    fn take(&mut self, element: &Element<'_, '_>, place: &'static str, kind: LinkKind) {
        if let Some(text) = attribute(element, attribute_of(place)) {
            self.push(&text, Named::new(kind, place));
        }
    }

    fn take_set(&mut self, element: &Element<'_, '_>, place: &'static str) {
        if let Some(set) = attribute(element, attribute_of(place)) {
            let named = Named::new(LinkKind::Requisite, place);
            srcset::urls(&set).into_iter().for_each(|url| {
                self.push(url, named);
            });
        }
    }

    fn push(&mut self, text: &str, named: Named) -> Option<usize> {
        if named.kind.is_requisite() && !self.limits.requisites {
            return None;
        }
        if self.templates.get() > 0 {
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
        if self.templates.get() == 0 {
            self.held.clear();
        }
    }

    /// Ends a run of the parser: a template that is still open is none, and its references are kept.
    fn end_run(&mut self) {
        let open = self.templates.replace(0) > 0;
        for (text, named) in std::mem::take(&mut self.held) {
            if open {
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

/// The attribute in a place such as `img/@src`.
fn attribute_of(place: &'static str) -> &'static str {
    place.split_once('@').map_or(place, |(_, name)| name)
}

/// The value of an attribute as the HTML standard reads one: of two with one name the first, character references
/// decoded, NUL replaced.
fn attribute(element: &Element<'_, '_>, name: &str) -> Option<String> {
    let mut value = element.get_attribute(name)?;
    if value.contains('\0') {
        value = value.replace('\0', "\u{fffd}");
    }
    Some(if value.contains('&') { htmlize::unescape_attribute(value).into_owned() } else { value })
}
