//! The main text of a web page.
//!
//! A page becomes a **tree** ([`mod@tree`]), the tree becomes **blocks** of text ([`mod@blocks`]), and each block is judged
//! twice: by its own features and those of the elements around it ([`mod@features`]), and then by what was thought of the
//! blocks around it ([`mod@context`]). The kind of the page ([`mod@kind`]) is one of the features. The blocks that are
//! worth keeping are the text.
//!
//! Invariants: the work is linear in the size of the page, with constants in each module; no page makes a function here
//! panic; the same page has the same text.

mod blocks;
mod context;
mod features;
mod head;
mod kind;
#[cfg(feature = "markdown")]
mod markdown;
mod model;
mod select;
mod tag;
mod tree;
mod words;

#[cfg(test)]
mod tests;

pub use kind::PageKind;

/// Maximum size in bytes of a page; the rest is not read.
pub const HTML_BYTES_MAX: usize = 4 << 20;
/// Maximum size in bytes of a text.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// Minimum chance of a kept block, as a share of the mean chance of the kept blocks. Of 0 to 0.8, it has the best mean F1 on
/// the training pages with gold, each judged by trees that have not seen its site.
const SHARE_MIN: f32 = 0.7;

/// What was found on a page. An empty field was not found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extracted {
    /// What sort of page it is.
    pub kind: PageKind,
    /// Title of the page.
    pub title: String,
    /// Verbatim from the page.
    pub author: String,
    /// Verbatim from the page.
    pub published: String,
    /// The language that the page states.
    pub language: String,
    /// Main text as plain text, at most [`TEXT_BYTES_MAX`] bytes.
    pub text: String,
    /// Main text as Markdown, if it was asked for.
    pub markdown: String,
}

/// Extracts the main text of a page. The address helps to find the kind of the page and may be empty.
pub fn extract(html: &str, url: &str) -> Extracted {
    Judged::page(html, url).extracted()
}

/// As [`extract`], with the text as Markdown too.
#[cfg(feature = "markdown")]
pub fn extract_with_markdown(html: &str, url: &str) -> Extracted {
    let judged = Judged::page(html, url);
    Extracted { markdown: markdown::markdown(&judged.look.page, &judged.keep), ..judged.extracted() }
}

/// Which part of a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The main text; the whole page if there is no main text of at least [`MAIN_CHARS_MIN`] characters.
    Main,
    /// Every text that a reader would see.
    Whole,
}

/// Minimum length in characters of a main text: anything shorter is a cookie notice or a line of links.
pub const MAIN_CHARS_MIN: usize = 80;

/// A page that was written as Markdown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// What was found on the page; the text is the main text, the Markdown that of the wanted part.
    pub found: Extracted,
    /// The title as the browser shows it, else the best other one.
    pub title: String,
    /// What the page says about itself.
    pub description: String,
    /// The wanted part as plain HTML: blocks, tables, emphasis and links, and nothing that runs or loads.
    pub html: String,
}

/// Writes a part of a page as Markdown and as plain HTML. `resolve` makes the address of a link absolute; a link without
/// one is written as its text.
#[cfg(feature = "markdown")]
pub fn write(html: &str, url: &str, part: Part, resolve: &dyn Fn(&str) -> Option<String>) -> Written {
    let mut judged = Judged::page(html, url);
    let main = select::text(&judged.look.page, &judged.keep);
    if part == Part::Whole || main.trim().chars().take(MAIN_CHARS_MIN).count() < MAIN_CHARS_MIN {
        judged.keep.fill(true);
    }
    let html = markdown::html(&judged.look.page, &judged.keep, resolve);
    let markdown = markdown::of_html(&html);
    let head = &judged.look.head;
    let title = if head.title.is_empty() { head.best_title() } else { &head.title }.to_owned();
    let description = head.description.clone();
    let found = Extracted { text: cut(&main, TEXT_BYTES_MAX).to_owned(), markdown, ..judged.extracted() };
    Written { found, title, description, html }
}

/// A page whose blocks are judged.
struct Judged {
    look: Look,
    kind: PageKind,
    /// By block.
    keep: Vec<bool>,
}

impl Judged {
    fn page(html: &str, url: &str) -> Judged {
        let look = Look::at(html, url);
        let kinds = look.kinds();
        let likeliest = kinds.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let kind = likeliest.and_then(|(at, _)| PageKind::ALL.get(at)).copied().unwrap_or_default();
        let rows = look.rows(&kinds);
        let first = model::MODEL.first.chances(rows.width, &rows.values);
        let (width, values) = context::rows(&look.page, &rows, &first);
        let second = model::MODEL.second.chances(width, &values);
        let mut keep = select::keep(&look.page, &second, SHARE_MIN);
        if kind == PageKind::Article {
            select::leave_out_titles(&look.page, &look.head, &mut keep);
        }
        Judged { look, kind, keep }
    }

    fn extracted(self) -> Extracted {
        let text = select::text(&self.look.page, &self.keep);
        let head = self.look.head;
        Extracted {
            kind: self.kind,
            title: head.best_title().to_owned(),
            author: head.author,
            published: head.published,
            language: head.language,
            text,
            markdown: String::new(),
        }
    }
}

/// A page that was read, before anything is judged.
#[doc(hidden)]
pub struct Look {
    page: blocks::Page,
    head: head::Head,
    signs: Vec<f32>,
}

impl Look {
    /// Reads a page.
    #[doc(hidden)]
    pub fn at(html: &str, url: &str) -> Look {
        let tree = tree::parse(cut(html, HTML_BYTES_MAX));
        let head = head::read(&tree);
        let page = blocks::read(tree);
        let signs = kind::signs(&page, &head, url);
        Look { page, head, signs }
    }

    /// The texts of the blocks, for training.
    #[doc(hidden)]
    pub fn texts(&self) -> Vec<&str> {
        self.page.blocks.iter().map(|block| self.page.text_of(block)).collect()
    }

    /// Features of the blocks with the chances of the kinds, for training; with the chances of the first look those of
    /// the second look.
    #[doc(hidden)]
    pub fn matrix(&self, kinds: &[f32], first: Option<&[f32]>) -> (usize, Vec<f32>) {
        let rows = self.rows(kinds);
        match first {
            None => (rows.width, rows.values),
            Some(first) => context::rows(&self.page, &rows, first),
        }
    }

    /// The chance of each kind of page.
    #[doc(hidden)]
    pub fn kinds(&self) -> Vec<f32> {
        kind::chances(&self.signs)
    }

    fn rows(&self, kinds: &[f32]) -> features::Rows {
        // The signs of the content of the page stand last.
        let mut signs = self.signs[self.signs.len() - kind::CONTENTS..].to_vec();
        signs.extend_from_slice(kinds);
        features::rows(&self.page, &self.head, &signs)
    }
}

/// Returns the longest prefix of at most `bytes_max` bytes that ends at a character boundary.
fn cut(text: &str, bytes_max: usize) -> &str {
    let mut end = text.len().min(bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
