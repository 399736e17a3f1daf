//! The DOM tree for text extraction, built so that no page can make the extraction costly.
//!
//! A page decides how large its tree is: unclosed tags nest elements, and a single `<p>` may repeat hundreds of
//! elements that were open before. The parser has no limit for this. The parser does report to a **sink**, though; ours
//! counts the nodes, checks the clock and stops the parser as soon as a limit is exceeded. Comments and most
//! attributes, for which the text reader has no use, are not kept.
//!
//! The finished tree is measured once more. The reader cannot be interrupted, and scans everything below an element
//! again and again. So a page must not only be small: little of its content may lie deep.
//!
//! Invariant: a tree from here is at most [`DEPTH_MAX`] deep, and building the tree took little more than [`TIME_MAX`].

use std::borrow::Cow;
use std::cell::{Cell, Ref};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use dom_query::{Document, NodeData, NodeId, NodeRef, TreeNode};
use html5ever::tendril::{StrTendril, TendrilSink};
use html5ever::tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeBuilderOpts, TreeSink};
use html5ever::{Attribute, ParseOpts, QualName, parse_document};

use super::cut;

/// Timeout for building a tree; no story comes near this.
pub(super) const TIME_MAX: Duration = Duration::from_secs(2);
/// Maximum nesting depth of elements. The reader is recursive and may double the depth; a call takes less than a
/// kilobyte of the two megabytes of its thread's stack.
pub(super) const DEPTH_MAX: usize = 200;
/// Maximum number of elements and attributes of a page. The reader copies the tree up to three times.
pub(super) const PARTS_MAX: usize = 150_000;
/// An attribute value counts as one more part for every this number of bytes: the parser repeats elements with all
/// attributes.
pub(super) const PART_BYTES: usize = 64;
/// Maximum number of attributes that are kept of one element, out of [`ATTRIBUTES`].
pub(super) const ATTRIBUTES_MAX: usize = 12;
/// Maximum number of attributes in a tag, else the page is refused: the parser compares each attribute with all before.
pub(super) const ATTRIBUTES_OF_TAG_MAX: usize = 4_096;
/// Maximum size in bytes of an attribute value; longer values are cut.
pub(super) const VALUE_BYTES_MAX: usize = 2_000;
/// Maximum work of the reader: the bytes of all texts, each times its depth squared. The reader counts the letters
/// below an element once for every enclosing element, and again for the elements that enclose these. The limit leaves
/// room for half a megabyte of text at a depth of thirty.
pub(super) const REACH_MAX: usize = 1 << 29;
/// The cost of visiting a node, in bytes of text.
pub(super) const NODE_BYTES: usize = 4;
/// Maximum number of headings of the first two levels: each is compared with the title.
pub(super) const HEADINGS_MAX: usize = 1_000;
/// Maximum number of linked data blocks: for each the reader may scan the page for its title.
pub(super) const LINKED_DATA_MAX: usize = 20;
/// Size of the pieces that are given to the parser, with a check of the clock in between. Small, because the parser
/// compares every attribute of a tag with all before, without calling the sink.
pub(super) const PIECE_BYTES: usize = 4 << 10;
/// Number of parser queries about an element between two checks of the clock.
pub(super) const QUESTIONS_PER_LOOK: u32 = 1_024;

/// The attributes that the reader uses. Further attributes of pictures do not matter for the text.
pub(super) const ATTRIBUTES: [&str; 25] = [
    "aria-hidden",
    "aria-modal",
    "class",
    "colspan",
    "content",
    "data-src",
    "data-srcset",
    "datatable",
    "dir",
    "hidden",
    "href",
    "id",
    "itemprop",
    "lang",
    "loading",
    "name",
    "property",
    "rel",
    "role",
    "sizes",
    "src",
    "srcset",
    "style",
    "summary",
    "type",
];

/// The tree of a page. None if building or reading the tree is too costly.
pub(super) fn build(html: &str) -> Option<Document> {
    if has_endless_tag(html) {
        return None;
    }
    // The parser cannot be told to stop, so our sink unwinds through it. That is no fault and nothing is printed.
    let page = catch_unwind(AssertUnwindSafe(|| parse(html))).ok().flatten()?;
    lighten(&page);
    is_readable(&page).then_some(page)
}

pub(super) fn parse(html: &str) -> Option<Document> {
    let began = Instant::now();
    let tree_builder = TreeBuilderOpts { scripting_enabled: false, ..TreeBuilderOpts::default() };
    let options = ParseOpts { tree_builder, ..ParseOpts::default() };
    let mut parser = parse_document(Sink::new(began), options);
    let mut rest = html;
    while !rest.is_empty() {
        let piece = cut(rest, PIECE_BYTES);
        parser.process(StrTendril::from_slice(piece));
        if began.elapsed() > TIME_MAX {
            return None;
        }
        rest = &rest[piece.len()..];
    }
    Some(parser.finish())
}

/// The lexical position of a byte in a tag, as the parser sees it.
#[derive(Clone, Copy)]
pub(super) enum Spot {
    Outside,
    TagName,
    Between,
    Name,
    AfterName,
    BeforeValue,
    Value,
    Quoted(u8),
}

/// Whether a tag has more than [`ATTRIBUTES_OF_TAG_MAX`] attributes. Text that only looks like a tag, in a script,
/// counts as a tag.
pub(super) fn has_endless_tag(html: &str) -> bool {
    let (mut spot, mut last, mut attributes) = (Spot::Outside, b' ', 0);
    for byte in html.bytes() {
        let space = matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c);
        spot = match (spot, byte) {
            (Spot::Outside, _) if last == b'<' && byte.is_ascii_alphabetic() => {
                attributes = 0;
                Spot::TagName
            }
            (Spot::Quoted(quote), _) if byte == quote => Spot::Between,
            (Spot::Outside | Spot::Quoted(_), _) => spot,
            (_, b'>') => Spot::Outside,
            (Spot::BeforeValue, b'"' | b'\'') => Spot::Quoted(byte),
            (Spot::BeforeValue, _) => {
                if space {
                    spot
                } else {
                    Spot::Value
                }
            }
            (Spot::Value, _) => {
                if space {
                    Spot::Between
                } else {
                    spot
                }
            }
            (Spot::Name | Spot::AfterName, b'=') => Spot::BeforeValue,
            (_, b'/') => Spot::Between,
            (Spot::Name | Spot::AfterName, _) if space => Spot::AfterName,
            (Spot::TagName | Spot::Between, _) if space => Spot::Between,
            (Spot::TagName | Spot::Name, _) => spot,
            (Spot::Between | Spot::AfterName, _) => {
                attributes += 1;
                Spot::Name
            }
        };
        if attributes > ATTRIBUTES_OF_TAG_MAX {
            return true;
        }
        last = byte;
    }
    false
}

/// Removes elements and attributes that are costly for the reader and add nothing to the text.
pub(super) fn lighten(page: &Document) {
    // The content of an `object` would be written out once for every enclosing element. With a `base` every link would
    // get a copy of its address.
    page.select("object, base").remove();
    // Everything below a figure is scanned once for each of its attributes.
    page.select("figure").retain_attrs(&["class", "id", "hidden"]);
    let blocks = page.select(r#"script[type="application/ld+json"]"#);
    for block in blocks.nodes().iter().skip(LINKED_DATA_MAX) {
        block.remove_from_parent();
    }
}

/// Whether the reader finishes a tree in time and without too deep a recursion.
pub(super) fn is_readable(page: &Document) -> bool {
    let (mut reach, mut headings, mut depth) = (0, 0, 1);
    let mut next = page.root().first_child();
    while let Some(node) = next {
        let (weight, heading) = node.query_or((0, false), |node| (weight(node), is_heading(node)));
        reach += weight * depth * depth;
        headings += usize::from(heading);
        if depth > DEPTH_MAX || reach > REACH_MAX || headings > HEADINGS_MAX {
            return false;
        }
        next = match node.first_child() {
            Some(child) => {
                depth += 1;
                Some(child)
            }
            None => after(node, &mut depth),
        };
    }
    true
}

pub(super) fn weight(node: &TreeNode) -> usize {
    match &node.data {
        NodeData::Text { contents } => NODE_BYTES + contents.len(),
        _ => NODE_BYTES,
    }
}

pub(super) fn is_heading(node: &TreeNode) -> bool {
    node.as_element().is_some_and(|element| matches!(&*element.name.local, "h1" | "h2"))
}

/// The next node after this one and its subtree.
pub(super) fn after<'a>(mut node: NodeRef<'a>, depth: &mut usize) -> Option<NodeRef<'a>> {
    loop {
        if let Some(sibling) = node.next_sibling() {
            return Some(sibling);
        }
        node = node.parent()?;
        *depth -= 1;
    }
}

/// The sink: builds the tree that the parser describes, up to the limits.
pub(super) struct Sink {
    page: Document,
    /// Placeholder for every comment, never inserted.
    comment: NodeId,
    began: Instant,
    parts: Cell<usize>,
    questions: Cell<u32>,
}

impl Sink {
    pub(super) fn new(began: Instant) -> Sink {
        let page = Document::default();
        let comment = page.create_comment(StrTendril::new());
        Sink { page, comment, began, parts: Cell::new(0), questions: Cell::new(0) }
    }

    /// Counts an element with its attributes, or attributes that an element gets later.
    pub(super) fn count(&self, parts: usize) {
        self.parts.set(self.parts.get() + parts);
        if self.parts.get() > PARTS_MAX || self.began.elapsed() > TIME_MAX {
            give_up();
        }
    }

    /// Counts a query of the parser, which for many tags walks along all open elements and queries each of them.
    pub(super) fn asked(&self) {
        self.questions.set(self.questions.get().wrapping_add(1));
        if self.questions.get().is_multiple_of(QUESTIONS_PER_LOOK) && self.began.elapsed() > TIME_MAX {
            give_up();
        }
    }

    pub(super) fn is_comment(&self, child: &NodeOrText<NodeId>) -> bool {
        matches!(child, NodeOrText::AppendNode(id) if *id == self.comment)
    }

    /// Whether a child of this node would be too deep. Subtrees that the parser moves are not checked here:
    /// [`is_readable`] checks them.
    pub(super) fn is_bottom(&self, parent: &NodeId) -> bool {
        self.page.tree.ancestor_ids_of_it(parent, None).take(DEPTH_MAX).count() == DEPTH_MAX
    }
}

/// Leaves the parser, through [`catch_unwind`] in [`build`].
pub(super) fn give_up() -> ! {
    resume_unwind(Box::new("a page beyond the limits"))
}

/// The attributes of an element that are kept.
pub(super) fn kept(attributes: Vec<Attribute>) -> Vec<Attribute> {
    let asked_for = |attribute: &Attribute| ATTRIBUTES.contains(&&*attribute.name.local);
    let mut kept: Vec<Attribute> = attributes.into_iter().filter(asked_for).take(ATTRIBUTES_MAX).collect();
    for attribute in kept.iter_mut().filter(|attribute| attribute.value.len() > VALUE_BYTES_MAX) {
        attribute.value = StrTendril::from_slice(cut(&attribute.value, VALUE_BYTES_MAX));
    }
    kept
}

pub(super) fn parts_of(attributes: &[Attribute]) -> usize {
    attributes.iter().map(|attribute| 1 + attribute.value.len() / PART_BYTES).sum()
}

impl TreeSink for Sink {
    type Handle = NodeId;
    type Output = Document;
    type ElemName<'a> = Ref<'a, QualName>;

    fn finish(self) -> Document {
        self.page
    }

    /// Ignored: a page may have millions of parse errors.
    fn parse_error(&self, _: Cow<'static, str>) {}

    fn get_document(&self) -> NodeId {
        self.page.get_document()
    }

    fn elem_name<'a>(&'a self, target: &'a NodeId) -> Ref<'a, QualName> {
        self.asked();
        self.page.elem_name(target)
    }

    fn create_element(&self, name: QualName, attributes: Vec<Attribute>, flags: ElementFlags) -> NodeId {
        let attributes = kept(attributes);
        self.count(1 + parts_of(&attributes));
        self.page.create_element(name, attributes, flags)
    }

    fn create_comment(&self, _: StrTendril) -> NodeId {
        self.comment
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> NodeId {
        self.comment
    }

    fn append(&self, parent: &NodeId, child: NodeOrText<NodeId>) {
        if self.is_comment(&child) {
            return;
        }
        if matches!(child, NodeOrText::AppendNode(_)) && self.is_bottom(parent) {
            give_up();
        }
        self.page.append(parent, child);
    }

    fn append_based_on_parent_node(
        &self,
        element: &NodeId,
        prev_element: &NodeId,
        child: NodeOrText<NodeId>,
    ) {
        if !self.is_comment(&child) {
            self.page.append_based_on_parent_node(element, prev_element, child);
        }
    }

    fn append_doctype_to_document(&self, name: StrTendril, public_id: StrTendril, system_id: StrTendril) {
        self.page.append_doctype_to_document(name, public_id, system_id);
    }

    fn get_template_contents(&self, target: &NodeId) -> NodeId {
        self.page.get_template_contents(target)
    }

    fn same_node(&self, x: &NodeId, y: &NodeId) -> bool {
        self.asked();
        x == y
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        self.page.set_quirks_mode(mode);
    }

    fn append_before_sibling(&self, sibling: &NodeId, child: NodeOrText<NodeId>) {
        if !self.is_comment(&child) {
            self.page.append_before_sibling(sibling, child);
        }
    }

    fn add_attrs_if_missing(&self, target: &NodeId, attributes: Vec<Attribute>) {
        let attributes = kept(attributes);
        self.count(parts_of(&attributes));
        self.page.add_attrs_if_missing(target, attributes);
    }

    fn remove_from_parent(&self, target: &NodeId) {
        self.page.remove_from_parent(target);
    }

    fn reparent_children(&self, node: &NodeId, new_parent: &NodeId) {
        self.page.reparent_children(node, new_parent);
    }

    fn is_mathml_annotation_xml_integration_point(&self, handle: &NodeId) -> bool {
        self.page.is_mathml_annotation_xml_integration_point(handle)
    }
}

#[cfg(test)]
mod tests;
