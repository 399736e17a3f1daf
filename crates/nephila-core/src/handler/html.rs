//! Reads HTML for what we want of it: references, the base, the title, a refresh, words for robots.
//!
//! The parser streams and builds no tree, so nesting costs it a stack of open elements and nothing else. Its memory has
//! a limit. When nesting alone has used it up, a new parser goes on at the same tag, for it is only the nesting that is
//! forgotten; when one single tag has, there is nothing to go on with and the page is cut there.
//!
//! `noscript` reaches us as text, as it reaches a browser that runs scripts. We run none, so the text is read as markup
//! once the page is over, and only once. What stands in a `template` is not part of the page and is left out, unless the
//! template never ends or is the shadow tree that browsers show.
//!
//! What always holds: no bytes stop the process, and what was found before a cut is kept.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

use encoding_rs::Encoding;
use lol_html::errors::RewritingError;
use lol_html::html_content::{Element, TextChunk};
use lol_html::{
    AsciiCompatibleEncoding, ElementContentHandlers, HtmlRewriter, MemorySettings, Selector, Settings,
};

use super::collect::Collector;
use super::link::{LinkKind, is_nofollow, read_rel};
use super::page::Limits;
use super::page_robots::{self, cut};
use super::refresh::{self, Refresh};
use super::srcset;
use crate::url::KeyRules;

/// The title is not kept longer than this.
pub(super) const TITLE_BYTES_MAX: usize = 512;

/// The parser gets the page in pieces of this size; between two of them the time is looked at. Small enough that the
/// stack of open elements cannot run full within one.
const CHUNK_BYTES: usize = 16 * 1024;

/// So often a new parser goes on where nesting has used up the memory of the one before.
const RESTARTS_MAX: usize = 256;

/// With less the parser does not start.
const MEMORY_MIN: usize = 2 * 1024;

/// The text of the title is looked at up to this length, since references in it may be long.
const TITLE_RAW_BYTES_MAX: usize = 8 * TITLE_BYTES_MAX;

/// The elements that are looked at. All others only pass by, which is what makes reading fast.
const ELEMENTS: &str = "a,area,base,body,link,meta,img,image,source,iframe,frame,video,audio,track,embed,object,\
                        script,form,input,use,template";

/// What was read from a page.
#[derive(Debug)]
pub(super) struct Html<'a> {
    pub(super) collector: Collector,
    /// The `href` of the first `base` that has one.
    pub(super) base: Option<String>,
    pub(super) title: Option<String>,
    pub(super) refresh: Option<Refresh>,
    pub(super) robots: page_robots::Reader,
    limits: &'a Limits,
    title_state: TitleState,
    /// The title that comes next is that of a drawing. The parser takes its namespace for HTML, as that of its content.
    is_svg_title: bool,
    /// The text of all `noscript` elements.
    noscript: String,
    is_noscript: bool,
    /// How many templates are open. Shared with the handlers of their ends, which outlive a borrow.
    templates: Rc<Cell<u32>>,
    /// References within the template that is open: kept if it never ends.
    held: Vec<(String, LinkKind, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TitleState {
    Before,
    Inside,
    After,
}

/// Reads a page. Returns what was found, and whether the page was cut.
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
        limits,
        title_state: TitleState::Before,
        is_svg_title: false,
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

/// Feeds the parser. True if it did not reach the end.
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
    let mut start = 0;
    for _ in 0..RESTARTS_MAX {
        // What the parser gives back is what it has finished with: the bytes themselves, since we change none.
        let done = Cell::new(0);
        let settings = selectors.settings(html, encoding, limits.memory_max.max(MEMORY_MIN));
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

thread_local! {
    /// Parsed once in each thread: to parse them costs as much as to read a small page.
    static SELECTORS: Selectors = Selectors::new();
}

/// What is looked for in a page.
struct Selectors {
    elements: Selector,
    svg_title: Selector,
    title: Selector,
    noscript: Selector,
}

impl Selectors {
    fn new() -> Selectors {
        let parse = |text: &str| text.parse::<Selector>().expect("a list of names is a selector");
        Selectors {
            elements: parse(ELEMENTS),
            svg_title: parse("svg title"),
            title: parse("title"),
            noscript: parse("noscript,noframes"),
        }
    }

    fn settings<'h, 's>(
        &'s self,
        html: &'h RefCell<Html<'_>>,
        encoding: AsciiCompatibleEncoding,
        memory_max: usize,
    ) -> Settings<'h, 's> {
        let elements = ElementContentHandlers::default().element(move |element: &mut Element<'_, '_>| {
            html.borrow_mut().handle_element(element);
            Ok(())
        });
        let svg_title = ElementContentHandlers::default().element(move |_: &mut Element<'_, '_>| {
            html.borrow_mut().is_svg_title = true;
            Ok(())
        });
        let title = ElementContentHandlers::default()
            .element(move |_: &mut Element<'_, '_>| {
                html.borrow_mut().handle_title();
                Ok(())
            })
            .text(move |text: &mut TextChunk<'_>| {
                html.borrow_mut().handle_title_text(text);
                Ok(())
            });
        let noscript = ElementContentHandlers::default().text(move |text: &mut TextChunk<'_>| {
            html.borrow_mut().handle_noscript_text(text);
            Ok(())
        });
        let memory = MemorySettings::new().with_max_allowed_memory_usage(memory_max);
        // Not strict: markup that browsers might read in two ways is read in one of them, not refused.
        Settings::new()
            .append_element_content_handler((Cow::Borrowed(&self.elements), elements))
            .append_element_content_handler((Cow::Borrowed(&self.svg_title), svg_title))
            .append_element_content_handler((Cow::Borrowed(&self.title), title))
            .append_element_content_handler((Cow::Borrowed(&self.noscript), noscript))
            .with_encoding(encoding)
            .with_memory_settings(memory)
            .with_strict(false)
    }
}

impl Html<'_> {
    fn handle_element(&mut self, element: &mut Element<'_, '_>) {
        match element.tag_name().as_str() {
            "a" => self.hyperlink(element, LinkKind::Link),
            "area" => self.hyperlink(element, LinkKind::Area),
            "link" => self.link(element),
            "meta" => self.meta(element),
            "base" => self.handle_base(element),
            "img" => {
                self.take(element, "src", LinkKind::Requisite);
                self.take_set(element, "srcset");
            }
            "source" => {
                self.take(element, "src", LinkKind::Requisite);
                self.take_set(element, "srcset");
            }
            "script" | "audio" | "track" | "embed" => self.take(element, "src", LinkKind::Requisite),
            "video" => {
                self.take(element, "src", LinkKind::Requisite);
                self.take(element, "poster", LinkKind::Requisite);
            }
            // Shapes and pictures of SVG. `image` outside of it is an old name of `img`.
            "image" | "use" => {
                for name in ["src", "href", "xlink:href"] {
                    self.take(element, name, LinkKind::Requisite);
                }
            }
            "object" => self.take(element, "data", LinkKind::Requisite),
            "iframe" | "frame" => self.take(element, "src", LinkKind::Iframe),
            "body" => self.take(element, "background", LinkKind::Requisite),
            "input" => {
                let image = attribute(element, "type").is_some_and(|kind| kind.eq_ignore_ascii_case("image"));
                if image {
                    self.take(element, "src", LinkKind::Requisite);
                }
            }
            "form" if self.limits.forms => {
                let get = attribute(element, "method").is_none_or(|method| {
                    let method = method.trim();
                    !method.eq_ignore_ascii_case("post") && !method.eq_ignore_ascii_case("dialog")
                });
                if get {
                    self.take(element, "action", LinkKind::Form);
                }
            }
            "template" => self.handle_template(element),
            _ => {}
        }
    }

    fn hyperlink(&mut self, element: &Element<'_, '_>, kind: LinkKind) {
        let Some(href) = attribute(element, "href").or_else(|| attribute(element, "xlink:href")) else {
            return;
        };
        let nofollow = attribute(element, "rel").is_some_and(|rel| is_nofollow(&rel));
        self.push(&href, kind, nofollow);
    }

    fn link(&mut self, element: &Element<'_, '_>) {
        let Some(rel) = attribute(element, "rel") else { return };
        let rel = read_rel(&rel, attribute(element, "type").as_deref());
        let Some(kind) = rel.kind else { return };
        if let Some(href) = attribute(element, "href") {
            self.push(&href, kind, rel.nofollow);
        }
        if kind == LinkKind::Requisite {
            self.take_set(element, "imagesrcset");
        }
    }

    fn meta(&mut self, element: &Element<'_, '_>) {
        if self.templates.get() > 0 {
            return;
        }
        let Some(content) = attribute(element, "content") else { return };
        if let Some(name) = attribute(element, "name") {
            self.robots.read_meta(&name, &content);
        }
        let is_refresh = attribute(element, "http-equiv")
            .is_some_and(|pragma| pragma.trim().eq_ignore_ascii_case("refresh"));
        if is_refresh && let Some(refresh) = refresh::parse(&content) {
            self.take_refresh(refresh);
        }
    }

    /// A refresh in the fields or in the page. In `noscript` it is for those who run no scripts and would otherwise
    /// see nothing: a link, since the page has its own text.
    pub(super) fn take_refresh(&mut self, refresh: Refresh) {
        if let Some(url) = &refresh.url {
            let short = refresh.delay <= self.limits.refresh_redirect_max && !self.is_noscript;
            let kind = if short { LinkKind::Redirect } else { LinkKind::Refresh };
            let url = url.clone();
            self.push(&url, kind, false);
        }
        // Browsers go by the first.
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
            // Keeps the end of one from running into the beginning of the next.
            self.noscript.push('\n');
        }
    }

    fn take(&mut self, element: &Element<'_, '_>, name: &str, kind: LinkKind) {
        if let Some(text) = attribute(element, name) {
            self.push(&text, kind, false);
        }
    }

    fn take_set(&mut self, element: &Element<'_, '_>, name: &str) {
        if let Some(set) = attribute(element, name) {
            srcset::urls(&set).into_iter().for_each(|url| self.push(url, LinkKind::Requisite, false));
        }
    }

    fn push(&mut self, text: &str, kind: LinkKind, nofollow: bool) {
        if kind == LinkKind::Requisite && !self.limits.requisites {
            return;
        }
        if self.templates.get() > 0 {
            if self.held.len() < self.limits.links_max {
                self.held.push((text.to_owned(), kind, nofollow));
            }
            return;
        }
        self.let_go();
        self.collector.push(text, kind, nofollow);
    }

    /// Forgets what stood in a template that has ended.
    fn let_go(&mut self) {
        if self.templates.get() == 0 {
            self.held.clear();
        }
    }

    /// The parser has ended: a template that is still open never was one.
    fn end_run(&mut self) {
        let open = self.templates.replace(0) > 0;
        for (text, kind, nofollow) in std::mem::take(&mut self.held) {
            if open {
                self.collector.push(&text, kind, nofollow);
            }
        }
    }

    /// The title as it is shown: references decoded, white space made single.
    pub(super) fn shown_title(&self) -> Option<String> {
        let text = htmlize::unescape(self.title.as_deref()?);
        let mut title = String::new();
        for word in text.split_ascii_whitespace() {
            if !title.is_empty() {
                title.push(' ');
            }
            title.push_str(word);
            if title.len() > TITLE_BYTES_MAX {
                break;
            }
        }
        (!title.is_empty()).then(|| cut(&title, TITLE_BYTES_MAX).trim_end().to_owned())
    }
}

/// The value of an attribute as the HTML standard reads it: of two with one name the first, character references
/// decoded, NUL replaced.
fn attribute(element: &Element<'_, '_>, name: &str) -> Option<String> {
    let mut value = element.get_attribute(name)?;
    if value.contains('\0') {
        value = value.replace('\0', "\u{fffd}");
    }
    Some(if value.contains('&') { htmlize::unescape_attribute(value).into_owned() } else { value })
}
