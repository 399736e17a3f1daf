//! The open elements of a page, and what they tell about the text behind a tag.
//!
//! No tree is built. An end tag closes the last open element of its name and all elements inside it; without such an
//! element the end tag is ignored. End tags that authors may leave out close nothing, so a paragraph may stay open to the
//! end of the page; nothing here asks for paragraphs. Of the rules about foreign content (SVG and MathML) those are kept
//! that decide how text is read: where foreign content begins and ends, and where HTML stands inside of it.
//!
//! Invariants: opening and closing take the same time whatever is open; the memory has a limit. When the limit is reached,
//! all elements are forgotten, and the page goes on as if it began there.

use std::collections::BTreeMap;

use super::{Attribute, Attributes, Element, Mode, Name};

/// The kind of contents of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    Html,
    Svg,
    MathMl,
}

/// What a start tag did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::handler) struct Opened {
    /// How the text behind it is to be read.
    pub(in crate::handler) mode: Mode,
    /// The element is open now: it may have contents.
    pub(in crate::handler) is_open: bool,
    /// All elements that were open before are forgotten.
    pub(in crate::handler) has_forgotten: bool,
}

/// An open element.
#[derive(Clone, Copy, Debug)]
struct Item {
    name: u32,
    /// The number of the open element of the same name below this one, counted from 1; 0 if there is none.
    below: u32,
    /// One of those that [`Open::mark`] counts.
    is_marked: bool,
}

/// The open elements.
#[derive(Debug)]
pub(in crate::handler) struct Open {
    items: Vec<Item>,
    /// By the number of a name, the last open element of this name, counted from 1; 0 if there is none.
    last: Vec<u32>,
    /// The numbers of names that are not in [`Element`].
    others: BTreeMap<u128, u32>,
    /// The kinds of contents around the present one, which is the last.
    namespaces: Vec<Namespace>,
    /// Number of open elements that are marked.
    marked: usize,
    items_max: usize,
    others_max: usize,
}

impl Open {
    /// With a limit in bytes.
    pub(in crate::handler) fn new(memory_max: usize) -> Open {
        // Vectors may be twice as large as what they hold.
        let items_max = (memory_max / (4 * size_of::<Item>())).clamp(1, u32::MAX as usize - 1);
        Open {
            items: Vec::new(),
            last: vec![0; Element::ALL.len()],
            others: BTreeMap::new(),
            namespaces: vec![Namespace::Html],
            marked: 0,
            items_max,
            others_max: memory_max / (4 * OTHER_BYTES),
        }
    }

    /// Whether the contents are those of SVG or MathML.
    pub(in crate::handler) fn is_foreign(&self) -> bool {
        self.namespace() != Namespace::Html
    }

    /// Whether an element of this name is open.
    pub(in crate::handler) fn has(&self, element: Element) -> bool {
        self.last[element as usize] != 0
    }

    /// Number of open elements.
    pub(in crate::handler) fn count(&self) -> usize {
        self.items.len()
    }

    /// Marks the element that was opened last.
    pub(in crate::handler) fn mark(&mut self) {
        if let Some(item) = self.items.last_mut()
            && !std::mem::replace(&mut item.is_marked, true)
        {
            self.marked += 1;
        }
    }

    /// Number of open elements that are marked.
    pub(in crate::handler) fn marked(&self) -> usize {
        self.marked
    }

    /// Reads a start tag.
    pub(in crate::handler) fn start(
        &mut self,
        name: Name,
        closes_itself: bool,
        attributes: &Attributes<'_>,
    ) -> Opened {
        let mode = match name {
            Name::Known(element) => self.enter(element, closes_itself, attributes),
            Name::Other(_) => Mode::Data,
        };
        // The tag decides first where it stands, and then whether it has contents there.
        let is_void = match name {
            Name::Known(Element::Svg | Element::Math) => closes_itself,
            _ if self.is_foreign() => closes_itself,
            Name::Known(element) => element.is_void(),
            Name::Other(_) => false,
        };
        let has_forgotten = !is_void && self.push(name);
        Opened { mode, is_open: !is_void, has_forgotten }
    }

    /// Reads an end tag.
    pub(in crate::handler) fn end(&mut self, name: Name) {
        if let Name::Known(element) = name {
            self.leave(element);
        }
        let number = match name {
            Name::Known(element) => Some(element as usize),
            Name::Other(hash) => self.others.get(&hash).map(|number| *number as usize),
        };
        let Some(last) = number.map(|number| self.last[number] as usize).filter(|last| *last > 0) else {
            return;
        };
        for item in self.items.drain(last - 1..).rev() {
            self.last[item.name as usize] = item.below;
            self.marked -= usize::from(item.is_marked);
        }
    }

    /// Forgets all elements.
    pub(in crate::handler) fn forget(&mut self) {
        self.items.clear();
        self.last.clear();
        self.last.resize(Element::ALL.len(), 0);
        self.others.clear();
        self.namespaces.truncate(1);
        self.marked = 0;
    }

    fn namespace(&self) -> Namespace {
        self.namespaces.last().copied().unwrap_or(Namespace::Html)
    }

    /// Opens an element. Returns whether all others were forgotten.
    fn push(&mut self, name: Name) -> bool {
        let is_new = matches!(name, Name::Other(hash) if !self.others.contains_key(&hash));
        let is_full = self.items.len().max(self.namespaces.len()) >= self.items_max
            || is_new && self.others.len() >= self.others_max;
        if is_full {
            self.forget();
        }
        let number = match name {
            Name::Known(element) => element as usize,
            Name::Other(hash) => {
                let next = self.last.len();
                let number = *self.others.entry(hash).or_insert(next as u32) as usize;
                if number == next {
                    self.last.push(0);
                }
                number
            }
        };
        let below = self.last[number];
        self.items.push(Item { name: number as u32, below, is_marked: false });
        self.last[number] = self.items.len() as u32;
        is_full
    }

    /// The part of a start tag that may change the kind of contents (HTML standard, 13.2.6.5). Returns how the text behind
    /// it is to be read.
    fn enter(&mut self, element: Element, closes_itself: bool, attributes: &Attributes<'_>) -> Mode {
        let enters = match (element, self.namespace()) {
            (Element::Svg, _) => Some(Namespace::Svg),
            (Element::Math, _) => Some(Namespace::MathMl),
            (_, Namespace::Html) => return text_mode(element),
            (_, inside) => {
                if element.leaves_foreign_content() || element == Element::Font && has_font(attributes) {
                    self.leave_foreign_content();
                    return Mode::Data;
                }
                holds_html(element, inside, attributes).then_some(Namespace::Html)
            }
        };
        if !closes_itself {
            self.namespaces.extend(enters);
        }
        Mode::Data
    }

    /// The part of an end tag that may change the kind of contents.
    fn leave(&mut self, element: Element) {
        let inside = self.namespace();
        let ends = match (inside, element) {
            (Namespace::Svg, Element::Svg) | (Namespace::MathMl, Element::Math) => true,
            (Namespace::Svg | Namespace::MathMl, Element::P | Element::Br) => {
                return self.leave_foreign_content();
            }
            (Namespace::Html, _) => {
                let around = self.namespaces.iter().nth_back(1);
                around.is_some_and(|around| may_hold_html(element, *around))
            }
            _ => false,
        };
        if ends {
            self.namespaces.pop();
        }
    }

    /// Back to HTML, out of foreign content within foreign content too.
    fn leave_foreign_content(&mut self) {
        while self.is_foreign() {
            self.namespaces.pop();
        }
    }
}

/// How the text behind a start tag in HTML is to be read. `noscript` as in browsers that run scripts.
fn text_mode(element: Element) -> Mode {
    use Element::*;
    match element {
        Textarea | Title | Style | Iframe | Xmp | Noembed | Noframes | Noscript => Mode::Raw(element),
        Script => Mode::Script,
        Plaintext => Mode::Plaintext,
        _ => Mode::Data,
    }
}

/// Whether an element of foreign content holds HTML: the integration points.
fn holds_html(element: Element, inside: Namespace, attributes: &Attributes<'_>) -> bool {
    let is_html = |kind: &[u8]| {
        kind.eq_ignore_ascii_case(b"text/html") || kind.eq_ignore_ascii_case(b"application/xhtml+xml")
    };
    may_hold_html(element, inside)
        && (element != Element::AnnotationXml || attributes.raw(Attribute::Encoding).is_some_and(is_html))
}

fn may_hold_html(element: Element, inside: Namespace) -> bool {
    use Element::*;
    match inside {
        Namespace::Html => false,
        Namespace::Svg => matches!(element, Desc | Title | ForeignObject),
        Namespace::MathMl => matches!(element, Mi | Mo | Mn | Ms | Mtext | AnnotationXml),
    }
}

fn has_font(attributes: &Attributes<'_>) -> bool {
    [Attribute::Color, Attribute::Face, Attribute::Size].into_iter().any(|name| attributes.has(name))
}

/// Memory for an unknown name, with what a map needs for it.
const OTHER_BYTES: usize = 64;
