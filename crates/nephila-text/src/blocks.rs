//! The blocks of a page: the pieces of text between two breaks, each with what it is made of.
//!
//! One walk through the tree writes all visible text into one string and cuts it where a block element begins or ends.
//! The blocks below an element follow each other, so an element knows its blocks as a range, and sums over an element are
//! differences of sums over all blocks before.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::LazyLock;

use crate::tag::Tag;
use crate::tree::{Data, Element, NONE, ROOT, Tree};
use crate::words::{Phrases, Words};

/// Maximum number of blocks of a page; the text after them is not read.
pub(crate) const BLOCKS_MAX: usize = 20_000;
/// Maximum number of enclosing elements that are looked at for a block.
pub(crate) const LEVELS_MAX: usize = 48;

static WORDS: LazyLock<Words> = LazyLock::new(Words::of_classes);
static PHRASES: LazyLock<Phrases> = LazyLock::new(Phrases::of_texts);

/// A piece of text.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// The innermost block element around the text.
    pub(crate) node: u32,
    /// Place in [`Page::text`].
    pub(crate) text: Range<usize>,
    pub(crate) chars: u32,
    pub(crate) words: u32,
    pub(crate) link_chars: u32,
    pub(crate) link_words: u32,
    pub(crate) links: u32,
    pub(crate) strong_chars: u32,
    pub(crate) code_chars: u32,
    pub(crate) commas: u32,
    pub(crate) stops: u32,
    pub(crate) digits: u32,
    pub(crate) uppers: u32,
    /// Words that begin with a capital letter.
    pub(crate) capitals: u32,
    pub(crate) phrases: u32,
    pub(crate) hash: u64,
    /// The first text node.
    pub(crate) first: u32,
}

/// What is known of an element before any block is judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About {
    /// Class word groups of the element, as bits.
    pub(crate) groups: u32,
    /// Blocks below the element.
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) is_hidden: bool,
    pub(crate) role: Role,
    /// Identifies the tag and class, so that repeated siblings are found.
    pub(crate) kind: u32,
    /// Number of siblings of the same kind, with the element itself.
    pub(crate) alike: u32,
}

/// The meaning an element has by tag or role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Role {
    #[default]
    None,
    Nav,
    Header,
    Footer,
    Aside,
    Main,
    Article,
    Form,
    Figure,
    Dialog,
    Table,
    List,
    Link,
    Details,
    Noscript,
    Section,
    Quote,
}

/// Number of roles without [`Role::None`].
pub(crate) const ROLES: usize = 16;

/// The blocks of a page.
pub(crate) struct Page {
    pub(crate) tree: Tree,
    pub(crate) text: String,
    pub(crate) blocks: Vec<Block>,
    /// By node.
    pub(crate) about: Vec<About>,
    /// Elements in document order.
    pub(crate) order: Vec<u32>,
    /// By text node: the block it belongs to.
    pub(crate) block_of: Vec<u32>,
}

impl Page {
    pub(crate) fn text_of(&self, block: &Block) -> &str {
        &self.text[block.text.clone()]
    }

    pub(crate) fn parent(&self, node: u32) -> u32 {
        self.tree.nodes[node as usize].parent
    }

    /// The block element and the elements around it, innermost first.
    pub(crate) fn levels(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let next = |at: &u32| Some(self.parent(*at)).filter(|at| *at != NONE);
        std::iter::successors(Some(node).filter(|at| *at != NONE), next).take(LEVELS_MAX)
    }
}

/// Reads the blocks of a tree.
pub(crate) fn read(tree: Tree) -> Page {
    let nodes = tree.nodes.len();
    let mut reader = Reader {
        text: String::new(),
        blocks: Vec::new(),
        about: vec![About::default(); nodes],
        order: Vec::new(),
        block_of: vec![NONE; nodes],
        open: None,
        space: false,
        in_link: 0,
        in_strong: 0,
        in_code: 0,
        in_pre: 0,
        after_break: false,
    };
    reader.walk(&tree);
    let Reader { text, blocks, about, order, block_of, .. } = reader;
    let mut page = Page { tree, text, blocks, about, order, block_of };
    count_alike(&mut page);
    page
}

struct Reader {
    text: String,
    blocks: Vec<Block>,
    about: Vec<About>,
    order: Vec<u32>,
    block_of: Vec<u32>,
    open: Option<Block>,
    /// A space is due before the next word.
    space: bool,
    in_link: u32,
    in_strong: u32,
    in_code: u32,
    in_pre: u32,
    after_break: bool,
}

impl Reader {
    fn walk(&mut self, tree: &Tree) {
        let mut at = ROOT;
        loop {
            let down = self.enter(tree, at);
            let node = &tree.nodes[at as usize];
            if down && node.first != NONE {
                at = node.first;
                continue;
            }
            loop {
                self.leave(tree, at);
                if at == ROOT {
                    return;
                }
                let node = &tree.nodes[at as usize];
                if node.next != NONE {
                    at = node.next;
                    break;
                }
                at = node.parent;
            }
        }
    }

    /// Returns whether to go on below the node.
    fn enter(&mut self, tree: &Tree, at: u32) -> bool {
        let element = match &tree.nodes[at as usize].data {
            Data::Document => return true,
            Data::Text(text) => {
                self.text(tree, at, text);
                return false;
            }
            Data::Element(element) => element,
        };
        self.order.push(at);
        if element.tag == Tag::Br {
            match self.after_break {
                true => self.close(),
                false => self.line(),
            }
            self.after_break = true;
            return false;
        }
        if element.tag.is_skipped() {
            return false;
        }
        if !element.tag.is_inline() {
            self.close();
        }
        let about = describe(element);
        self.about[at as usize] = About { from: self.blocks.len() as u32, ..about };
        match element.tag {
            Tag::A => {
                // Links that stand side by side are words side by side.
                self.space |= self.in_link == 0 && self.open.as_ref().is_some_and(|block| block.links > 0);
                self.in_link += 1;
                if let Some(block) = &mut self.open {
                    block.links += 1;
                }
            }
            Tag::Strong => self.in_strong += 1,
            Tag::Code => self.in_code += 1,
            Tag::Pre => self.in_pre += 1,
            _ => {}
        }
        self.blocks.len() < BLOCKS_MAX
    }

    fn leave(&mut self, tree: &Tree, at: u32) {
        let Some(element) = tree.element(at) else { return };
        if element.tag.is_skipped() {
            return;
        }
        if !element.tag.is_inline() {
            self.close();
        }
        match element.tag {
            Tag::A => self.in_link -= 1,
            Tag::Strong => self.in_strong -= 1,
            Tag::Code => self.in_code -= 1,
            Tag::Pre => self.in_pre -= 1,
            _ => {}
        }
        self.about[at as usize].to = (self.blocks.len() + usize::from(self.open.is_some())) as u32;
    }

    /// A line ends within a block.
    fn line(&mut self) {
        if self.open.is_some() {
            self.text.push('\n');
            self.space = false;
        }
    }

    fn text(&mut self, tree: &Tree, at: u32, text: &str) {
        let is_blank = text.trim_ascii().is_empty();
        if is_blank && (self.in_pre == 0 || self.open.is_none()) {
            self.space |= !text.is_empty();
            return;
        }
        self.after_break = false;
        let start = self.text.len();
        if self.open.is_none() {
            let mut node = tree.nodes[at as usize].parent;
            while node != NONE && tree.tag(node).is_inline() {
                node = tree.nodes[node as usize].parent;
            }
            let mut block = Block::new(node, start, at);
            block.links = u32::from(self.in_link > 0);
            self.open = Some(block);
            self.space = false;
        }
        self.block_of[at as usize] = self.blocks.len() as u32;
        let block = self.open.as_mut().expect("opened above");
        let before = Counts::of(block);
        let mut in_word =
            start > block.text.start && !self.space && !self.text.ends_with(char::is_whitespace);
        let mut space = self.space;
        for letter in text.chars() {
            if letter.is_whitespace() {
                in_word = false;
                match self.in_pre > 0 {
                    true => self.text.push(if letter == '\r' { ' ' } else { letter }),
                    false => space = true,
                }
                continue;
            }
            if space && self.text.len() > block.text.start && !self.text.ends_with('\n') {
                self.text.push(' ');
            }
            space = false;
            self.text.push(letter);
            block.chars += 1;
            if !in_word {
                block.words += 1;
                block.capitals += u32::from(letter.is_uppercase());
                in_word = true;
            }
            match letter {
                ',' | '，' | '、' | ';' | '،' => block.commas += 1,
                '.' | '!' | '?' | '。' | '…' | '؟' | '।' => block.stops += 1,
                '0'..='9' => block.digits += 1,
                _ if letter.is_uppercase() => block.uppers += 1,
                // Scripts without spaces: some letters are a word.
                '\u{3040}'..='\u{9fff}' if block.chars.is_multiple_of(2) => block.words += 1,
                _ => {}
            }
        }
        self.space = space;
        let (chars, words) = (block.chars - before.chars, block.words - before.words);
        if self.in_link > 0 {
            block.link_chars += chars;
            block.link_words += words;
        }
        if self.in_strong > 0 {
            block.strong_chars += chars;
        }
        if self.in_code > 0 || self.in_pre > 0 {
            block.code_chars += chars;
        }
    }

    /// Ends the open block.
    fn close(&mut self) {
        self.space = false;
        self.after_break = false;
        let Some(mut block) = self.open.take() else { return };
        let trimmed = self.text[block.text.start..].trim_end().len();
        self.text.truncate(block.text.start + trimmed);
        block.text.end = self.text.len();
        let text = self.text[block.text.clone()].to_lowercase();
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        block.hash = hasher.finish();
        if text.len() <= 300 {
            block.phrases = PHRASES.groups(&text);
        }
        self.text.push('\n');
        self.blocks.push(block);
    }
}

struct Counts {
    chars: u32,
    words: u32,
}

impl Counts {
    fn of(block: &Block) -> Counts {
        Counts { chars: block.chars, words: block.words }
    }
}

impl Block {
    fn new(node: u32, start: usize, first: u32) -> Block {
        Block {
            node,
            text: start..start,
            chars: 0,
            words: 0,
            link_chars: 0,
            link_words: 0,
            links: 0,
            strong_chars: 0,
            code_chars: 0,
            commas: 0,
            stops: 0,
            digits: 0,
            uppers: 0,
            capitals: 0,
            phrases: 0,
            hash: 0,
            first,
        }
    }
}

/// Reads class, id, role and style of an element.
fn describe(element: &Element) -> About {
    let mut about = About::default();
    let mut hasher = DefaultHasher::new();
    (element.tag as u8).hash(&mut hasher);
    let mut role = match element.tag {
        Tag::Nav => Role::Nav,
        Tag::Header => Role::Header,
        Tag::Footer => Role::Footer,
        Tag::Aside => Role::Aside,
        Tag::Main => Role::Main,
        Tag::Article => Role::Article,
        Tag::Form => Role::Form,
        Tag::Figure => Role::Figure,
        Tag::Dialog => Role::Dialog,
        Tag::Table => Role::Table,
        Tag::Ul => Role::List,
        Tag::A => Role::Link,
        Tag::Details => Role::Details,
        Tag::Noscript | Tag::Template => Role::Noscript,
        Tag::Section => Role::Section,
        Tag::Blockquote => Role::Quote,
        _ => Role::None,
    };
    for (name, value) in &element.attributes {
        match &**name {
            "class" => {
                about.groups |= WORDS.groups(value);
                value.hash(&mut hasher);
            }
            "id" | "data-testid" => about.groups |= WORDS.groups(value),
            "hidden" => about.is_hidden = true,
            "aria-hidden" => about.is_hidden |= &**value == "true",
            "style" => about.is_hidden |= hides(value),
            "role" => {
                role = match &**value {
                    "navigation" | "menu" | "menubar" | "tablist" => Role::Nav,
                    "banner" => Role::Header,
                    "contentinfo" => Role::Footer,
                    "complementary" => Role::Aside,
                    "main" => Role::Main,
                    "article" => Role::Article,
                    "search" | "form" => Role::Form,
                    "dialog" | "alertdialog" | "alert" => Role::Dialog,
                    _ => role,
                }
            }
            _ => {}
        }
    }
    about.role = role;
    about.kind = hasher.finish() as u32;
    about
}

fn hides(style: &str) -> bool {
    let compact: String = style.chars().filter(|letter| !letter.is_whitespace()).collect();
    let compact = compact.to_ascii_lowercase();
    compact.contains("display:none") || compact.contains("visibility:hidden")
}

/// Counts for each element the siblings of the same tag and class.
fn count_alike(page: &mut Page) {
    let mut keys: Vec<(u32, u32, u32)> = page
        .order
        .iter()
        .filter(|node| page.about[**node as usize].to > page.about[**node as usize].from)
        .map(|node| (page.parent(*node), page.about[*node as usize].kind, *node))
        .collect();
    keys.sort_unstable();
    for group in keys.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        for (_, _, node) in group {
            page.about[*node as usize].alike = group.len() as u32;
        }
    }
}
