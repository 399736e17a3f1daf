//! The tree of a page, built so that no page can make it costly.
//!
//! A page decides how large its tree is: unclosed tags nest elements, and one `<p>` may repeat hundreds of elements
//! that were open before. The parser has no limit for this. The parser reports to a **sink**, and the sink counts nodes,
//! depth and the questions of the parser. The page is given to the parser in small pieces; after the first limit that
//! is exceeded, no further piece is given, and the tree is what was read until then.
//!
//! Before that, a scan leaves out tags with thousands of attributes, since the parser compares each attribute of a tag
//! with all before and says nothing until the tag ends. A page can make the scan and the parser disagree on where a tag
//! is; for such a page a clock is the last resort.
//!
//! Invariant: the number of nodes and the work of the parser are bounded by constants here. The same page has the same
//! tree, unless it is one of those that only the clock stops.

use std::borrow::Cow;
use std::cell::{Cell, Ref, RefCell};
use std::ops::Range;
use std::time::{Duration, Instant};

use html5ever::driver::Parser;
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeBuilderOpts, TreeSink};
use html5ever::{Attribute, LocalName, ParseOpts, QualName, ns, parse_document};

use crate::tag::Tag;

/// Maximum nesting depth of elements.
pub(crate) const DEPTH_MAX: u16 = 256;
/// Maximum number of nodes of a page.
pub(crate) const NODES_MAX: usize = 200_000;
/// Maximum number of questions of the parser about open elements. An ordinary page has some ten per tag.
pub(crate) const QUESTIONS_MAX: u32 = 40_000_000;
/// Maximum number of attributes in a tag: the parser compares each attribute of a tag with all before. Such a tag is
/// left out.
pub(crate) const ATTRIBUTES_OF_TAG_MAX: usize = 1_024;
/// Maximum number of bytes of an attribute value that are kept.
pub(crate) const VALUE_BYTES_MAX: usize = 2_000;
/// Size of the pieces that are given to the parser. The limits are checked between two pieces.
pub(crate) const PIECE_BYTES: usize = 1 << 10;

/// Timeout for building a tree. A page of [`crate::HTML_BYTES_MAX`] bytes takes a tenth of a second.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(2);

/// A node that does not exist.
pub(crate) const NONE: u32 = u32::MAX;
/// The document itself.
pub(crate) const ROOT: u32 = 0;

/// A node with its place in the tree.
pub(crate) struct Node {
    pub(crate) parent: u32,
    pub(crate) first: u32,
    pub(crate) last: u32,
    pub(crate) prev: u32,
    pub(crate) next: u32,
    depth: u16,
    pub(crate) data: Data,
}

/// What a node is.
pub(crate) enum Data {
    Document,
    Element(Element),
    Text(StrTendril),
}

/// An element with the attributes that are of use here.
pub(crate) struct Element {
    name: QualName,
    pub(crate) tag: Tag,
    pub(crate) attributes: Vec<(LocalName, StrTendril)>,
}

impl Element {
    /// Value of an attribute, or an empty string.
    pub(crate) fn attribute(&self, name: &str) -> &str {
        self.attributes.iter().find(|(key, _)| &**key == name).map_or("", |(_, value)| value)
    }

    /// Name of the element.
    #[cfg(feature = "markdown")]
    pub(crate) fn name(&self) -> &str {
        &self.name.local
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|(key, _)| &**key == name)
    }
}

/// The nodes of a page; the first is the document.
pub(crate) struct Tree {
    pub(crate) nodes: Vec<Node>,
}

impl Tree {
    pub(crate) fn element(&self, id: u32) -> Option<&Element> {
        match &self.nodes[id as usize].data {
            Data::Element(element) => Some(element),
            _ => None,
        }
    }

    pub(crate) fn tag(&self, id: u32) -> Tag {
        self.element(id).map_or(Tag::Other, |element| element.tag)
    }

    /// The node after this one in document order, within `top`; the children are left out if `skip`.
    pub(crate) fn following(&self, id: u32, top: u32, skip: bool) -> u32 {
        let node = &self.nodes[id as usize];
        if !skip && node.first != NONE {
            return node.first;
        }
        let mut at = id;
        while at != top && at != NONE {
            let node = &self.nodes[at as usize];
            if node.next != NONE {
                return node.next;
            }
            at = node.parent;
        }
        NONE
    }

    /// The text of an element with single spaces, at most `bytes_max` bytes.
    pub(crate) fn text_of(&self, top: u32, bytes_max: usize) -> String {
        let mut text = String::new();
        let mut at = self.nodes[top as usize].first;
        while at != NONE && text.len() <= bytes_max {
            if let Data::Text(part) = &self.nodes[at as usize].data {
                text.push_str(crate::cut(part, bytes_max));
            }
            at = self.following(at, top, false);
        }
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        crate::cut(&joined, bytes_max).to_owned()
    }
}

/// Parses a page, up to the limits.
pub(crate) fn parse(html: &str) -> Tree {
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let options = ParseOpts { tree_builder, ..ParseOpts::default() };
    let mut parser = parse_document(Sink::default(), options);
    let (mut start, began) = (0, Instant::now());
    for endless in endless_tags(html) {
        feed(&mut parser, &html[start..endless.start], began);
        start = endless.end;
    }
    feed(&mut parser, &html[start..], began);
    parser.finish()
}

/// Gives a part of a page to the parser, piece by piece until a limit is exceeded.
fn feed(parser: &mut Parser<Sink>, mut rest: &str, began: Instant) {
    while !rest.is_empty() && !parser.tokenizer.sink.sink.over.get() && began.elapsed() < TIME_MAX {
        let piece = crate::cut(rest, PIECE_BYTES);
        parser.process(StrTendril::from_slice(piece));
        rest = &rest[piece.len()..];
    }
}

/// The lexical position of a byte in a tag, as the parser sees it.
#[derive(Clone, Copy)]
enum Spot {
    Outside,
    TagName,
    Between,
    Name,
    AfterName,
    BeforeValue,
    Value,
    Quoted(u8),
}

/// The tags with more than [`ATTRIBUTES_OF_TAG_MAX`] attributes, each to its end. Text that only looks like a tag, in a
/// script, counts as a tag; it ends where the script ends.
fn endless_tags(html: &str) -> Vec<Range<usize>> {
    let bytes = html.as_bytes();
    let mut found = Vec::new();
    let (mut spot, mut attributes, mut start) = (Spot::Outside, 0, 0);
    for (at, &byte) in bytes.iter().enumerate() {
        let space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c);
        let over = attributes > ATTRIBUTES_OF_TAG_MAX;
        if over && (byte == b'>' || is_end_of_script(&bytes[at..])) {
            found.push(start..if byte == b'>' { at + 1 } else { at });
            (spot, attributes) = (Spot::Outside, 0);
        }
        spot = match (spot, byte) {
            (Spot::Outside, b'<') if is_start_of_tag(&bytes[at + 1..]) => {
                (attributes, start) = (0, at);
                Spot::TagName
            }
            (Spot::Quoted(quote), _) if byte == quote => Spot::Between,
            (Spot::Outside | Spot::Quoted(_), _) => spot,
            (_, b'>') => Spot::Outside,
            (Spot::BeforeValue, b'"' | b'\'') => Spot::Quoted(byte),
            (Spot::BeforeValue, _) if space => spot,
            (Spot::BeforeValue, _) => Spot::Value,
            (Spot::Value, _) if space => Spot::Between,
            (Spot::Value, _) => spot,
            (Spot::Name | Spot::AfterName, b'=') => Spot::BeforeValue,
            // The slash of an end tag.
            (Spot::TagName, b'/') if at == start + 1 => spot,
            (_, b'/') => Spot::Between,
            (Spot::Name | Spot::AfterName, _) if space => Spot::AfterName,
            (Spot::TagName | Spot::Between, _) if space => Spot::Between,
            (Spot::TagName | Spot::Name, _) => spot,
            (Spot::Between | Spot::AfterName, _) => {
                attributes += 1;
                Spot::Name
            }
        };
        if matches!(spot, Spot::Outside) {
            attributes = 0;
        }
    }
    if attributes > ATTRIBUTES_OF_TAG_MAX {
        found.push(start..html.len());
    }
    found
}

/// Whether the bytes after a `<` make it the start of a tag.
fn is_start_of_tag(bytes: &[u8]) -> bool {
    let name = bytes.strip_prefix(b"/").unwrap_or(bytes);
    name.first().is_some_and(u8::is_ascii_alphabetic)
}

fn is_end_of_script(bytes: &[u8]) -> bool {
    bytes.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"</script"))
}

/// The sink: builds the tree that the parser describes and notes when a limit is exceeded.
struct Sink {
    nodes: RefCell<Vec<Node>>,
    questions: Cell<u32>,
    over: Cell<bool>,
}

impl Default for Sink {
    fn default() -> Sink {
        let document = Node::new(Data::Document);
        Sink { nodes: RefCell::new(vec![document]), questions: Cell::new(0), over: Cell::new(false) }
    }
}

impl Node {
    fn new(data: Data) -> Node {
        Node { parent: NONE, first: NONE, last: NONE, prev: NONE, next: NONE, depth: 0, data }
    }
}

/// Whether the value of an attribute is of use here.
fn is_kept(name: &QualName) -> bool {
    name.ns == ns!()
        && matches!(
            &*name.local,
            "alt"
                | "aria-hidden"
                | "aria-label"
                | "class"
                | "content"
                | "data-testid"
                | "datetime"
                | "hidden"
                | "href"
                | "http-equiv"
                | "id"
                | "itemprop"
                | "itemscope"
                | "itemtype"
                | "lang"
                | "name"
                | "property"
                | "rel"
                | "role"
                | "style"
                | "type"
        )
}

fn kept(attributes: Vec<Attribute>) -> Vec<(LocalName, StrTendril)> {
    let cut = |value: StrTendril| match value.len() > VALUE_BYTES_MAX {
        true => StrTendril::from_slice(crate::cut(&value, VALUE_BYTES_MAX)),
        false => value,
    };
    let kept = attributes.into_iter().filter(|attribute| is_kept(&attribute.name));
    kept.map(|attribute| (attribute.name.local, cut(attribute.value))).collect()
}

impl Sink {
    fn add(&self, data: Data) -> u32 {
        let mut nodes = self.nodes.borrow_mut();
        if nodes.len() > NODES_MAX {
            self.over.set(true);
        }
        nodes.push(Node::new(data));
        (nodes.len() - 1) as u32
    }

    fn asked(&self) {
        self.questions.set(self.questions.get().saturating_add(1));
        if self.questions.get() > QUESTIONS_MAX {
            self.over.set(true);
        }
    }

    fn detach(nodes: &mut [Node], id: u32) {
        let Node { parent, prev, next, .. } = nodes[id as usize];
        if parent == NONE {
            return;
        }
        match prev {
            NONE => nodes[parent as usize].first = next,
            prev => nodes[prev as usize].next = next,
        }
        match next {
            NONE => nodes[parent as usize].last = prev,
            next => nodes[next as usize].prev = prev,
        }
        let node = &mut nodes[id as usize];
        (node.parent, node.prev, node.next) = (NONE, NONE, NONE);
    }

    /// Inserts a node before `before`, or at the end if there is none.
    fn insert(&self, nodes: &mut [Node], parent: u32, before: u32, id: u32) {
        Sink::detach(nodes, id);
        let prev = match before {
            NONE => nodes[parent as usize].last,
            before => nodes[before as usize].prev,
        };
        let depth = nodes[parent as usize].depth.saturating_add(1);
        if depth > DEPTH_MAX {
            self.over.set(true);
        }
        let node = &mut nodes[id as usize];
        (node.parent, node.prev, node.next, node.depth) = (parent, prev, before, depth);
        match prev {
            NONE => nodes[parent as usize].first = id,
            prev => nodes[prev as usize].next = id,
        }
        match before {
            NONE => nodes[parent as usize].last = id,
            before => nodes[before as usize].prev = id,
        }
    }

    fn put(&self, parent: u32, before: u32, child: NodeOrText<u32>) {
        match child {
            NodeOrText::AppendNode(NONE) => {}
            NodeOrText::AppendNode(id) => self.insert(&mut self.nodes.borrow_mut(), parent, before, id),
            NodeOrText::AppendText(text) => {
                let prev = {
                    let nodes = self.nodes.borrow();
                    match before {
                        NONE => nodes[parent as usize].last,
                        before => nodes[before as usize].prev,
                    }
                };
                if prev != NONE
                    && let Data::Text(whole) = &mut self.nodes.borrow_mut()[prev as usize].data
                {
                    whole.push_tendril(&text);
                    return;
                }
                let id = self.add(Data::Text(text));
                self.insert(&mut self.nodes.borrow_mut(), parent, before, id);
            }
        }
    }
}

impl TreeSink for Sink {
    type Handle = u32;
    type Output = Tree;
    type ElemName<'a> = Ref<'a, QualName>;

    fn finish(self) -> Tree {
        Tree { nodes: self.nodes.into_inner() }
    }

    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> u32 {
        ROOT
    }

    fn elem_name<'a>(&'a self, target: &'a u32) -> Ref<'a, QualName> {
        self.asked();
        Ref::map(self.nodes.borrow(), |nodes| match &nodes[*target as usize].data {
            Data::Element(element) => &element.name,
            _ => unreachable!("the parser asks for the name of elements only"),
        })
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, _: ElementFlags) -> u32 {
        let tag = Tag::of(&name.local);
        self.add(Data::Element(Element { name, tag, attributes: kept(attributes) }))
    }

    /// Comments are not kept, and have no node.
    fn create_comment(&self, _: StrTendril) -> u32 {
        NONE
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> u32 {
        NONE
    }

    fn append(&self, parent: &u32, child: NodeOrText<u32>) {
        self.put(*parent, NONE, child);
    }

    fn append_based_on_parent_node(&self, element: &u32, prev_element: &u32, child: NodeOrText<u32>) {
        let parent = self.nodes.borrow()[*element as usize].parent;
        match parent {
            NONE => self.put(*prev_element, NONE, child),
            parent => self.put(parent, *element, child),
        }
    }

    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}

    /// The content of a template is kept as its children.
    fn get_template_contents(&self, target: &u32) -> u32 {
        *target
    }

    fn same_node(&self, x: &u32, y: &u32) -> bool {
        self.asked();
        x == y
    }

    fn set_quirks_mode(&self, _: QuirksMode) {}

    fn append_before_sibling(&self, sibling: &u32, child: NodeOrText<u32>) {
        let parent = self.nodes.borrow()[*sibling as usize].parent;
        if parent != NONE {
            self.put(parent, *sibling, child);
        }
    }

    fn add_attrs_if_missing(&self, target: &u32, attributes: Vec<Attribute>) {
        if let Data::Element(element) = &mut self.nodes.borrow_mut()[*target as usize].data {
            for (name, value) in kept(attributes) {
                if !element.attributes.iter().any(|(key, _)| *key == name) {
                    element.attributes.push((name, value));
                }
            }
        }
    }

    fn remove_from_parent(&self, target: &u32) {
        if *target != NONE {
            Sink::detach(&mut self.nodes.borrow_mut(), *target);
        }
    }

    fn reparent_children(&self, node: &u32, new_parent: &u32) {
        let mut nodes = self.nodes.borrow_mut();
        let mut child = nodes[*node as usize].first;
        while child != NONE {
            let next = nodes[child as usize].next;
            self.insert(&mut nodes, *new_parent, NONE, child);
            self.asked();
            child = next;
        }
    }

    fn is_mathml_annotation_xml_integration_point(&self, _: &u32) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
