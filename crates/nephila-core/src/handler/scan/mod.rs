//! From the bytes of a page to its tags and texts: the tokenizer of the HTML standard (13.2.5), as far as a reader of links
//! needs one.
//!
//! A [`Scanner`] is asked for the next [`Token`] and hands out positions in the page; it copies nothing and decodes
//! nothing. Comments, document types and the contents of scripts are passed over. How the text behind a start tag is to
//! be read depends on the elements around it, which [`open`] knows and the scanner is told ([`Scanner::read_as`]). The
//! states of the standard that differ only in the errors that they report, or in tokens that nobody here wants, are one.
//!
//! The bytes are those of the page in any encoding that has ASCII in its place, so that no byte of `<>"'=/` is ever a
//! part of another character.
//!
//! Invariants: the scanner only goes forward, and no byte is looked at more than a fixed number of times, so the work is
//! linear whatever stands open at the end; its memory is a few hundred bytes.

mod attributes;
mod names;
pub(super) mod open;
#[cfg(any(test, feature = "test-util"))]
pub(super) mod outline;
mod script;
#[cfg(test)]
mod tests;

use encoding_rs::Encoding;
use xxhash_rust::xxh3::Xxh3;

pub(super) use attributes::Attributes;
pub(super) use names::{Attribute, Element};

use attributes::end_of_name;
use names::Packed;

/// How text is read up to the next tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Text with markup.
    Data,
    /// Text up to the end tag of this element: RCDATA and RAWTEXT, which differ only in character references.
    Raw(Element),
    /// A script, which may hold comments with scripts inside.
    Script,
    /// Text up to the end of the page.
    Plaintext,
    /// Text up to `]]>`.
    Cdata,
}

/// The name of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// One that we know.
    Known(Element),
    /// Any other: its packed bytes, or a hash of more of them than can be packed.
    Other(u128),
}

/// A part of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Text between two pieces of markup, if texts are wanted. Never empty.
    Text {
        /// Its first byte.
        from: usize,
        /// The byte behind it.
        to: usize,
        /// Text among markup: not of a script, a title, a CDATA section or the like.
        is_data: bool,
    },
    /// A start tag. Its attributes are those of [`Scanner::attributes`].
    Start {
        /// The name.
        name: Name,
        /// It ends with `/>`.
        closes_itself: bool,
    },
    /// An end tag.
    End {
        /// The name.
        name: Name,
    },
    /// A tag that is longer than the limit. Nothing is read behind it.
    TooLong,
    /// The end of the page.
    Over,
}

/// Reads a page from its begin to its end.
#[derive(Debug)]
pub(super) struct Scanner<'a> {
    bytes: &'a [u8],
    /// The first byte that was not passed yet.
    at: usize,
    /// Where the text began that was passed and not handed out.
    text_from: usize,
    mode: Mode,
    /// Maximum length of a tag.
    tag_bytes_max: usize,
    /// Read the attributes of every element, not only of those that name something.
    reads_all: bool,
    /// Hand out texts.
    pub(super) wants_text: bool,
    attributes: Attributes<'a>,
}

impl<'a> Scanner<'a> {
    /// Of a page in this encoding. With `reads_all`, every start tag has its attributes.
    pub(super) fn new(
        bytes: &'a [u8],
        encoding: &'static Encoding,
        tag_bytes_max: usize,
        reads_all: bool,
    ) -> Scanner<'a> {
        let attributes = Attributes::new(bytes, encoding);
        Scanner {
            bytes,
            at: 0,
            text_from: 0,
            mode: Mode::Data,
            tag_bytes_max,
            reads_all,
            wants_text: false,
            attributes,
        }
    }

    /// The number of bytes that were passed.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The attributes of the start tag that came last.
    pub(super) fn attributes(&self) -> &Attributes<'a> {
        &self.attributes
    }

    /// Says how the text behind the tag that came last is to be read.
    pub(super) fn read_as(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// The next part. `in_foreign_content`: the open element is of SVG or MathML.
    pub(super) fn next(&mut self, in_foreign_content: bool) -> Token {
        loop {
            let (to, is_data) = match self.mode {
                Mode::Data => (self.markup(self.at), true),
                Mode::Raw(element) => (end_tag(self.bytes, self.at, element), false),
                Mode::Script => (script::end_tag(self.bytes, self.at), false),
                Mode::Plaintext => (self.bytes.len(), false),
                Mode::Cdata => (self.cdata_end(), false),
            };
            self.at = to;
            let from = std::mem::replace(&mut self.text_from, to);
            if self.wants_text && from < to {
                return Token::Text { from, to, is_data };
            }
            if to == self.bytes.len() {
                return Token::Over;
            }
            if self.mode == Mode::Cdata {
                self.mode = Mode::Data;
                self.pass(to + CDATA_END.len());
            } else if let Some(tag) = self.pass_markup(in_foreign_content) {
                return tag;
            }
        }
    }

    /// The next `<` that begins markup, from this byte on.
    fn markup(&self, mut at: usize) -> usize {
        let len = self.bytes.len();
        loop {
            at = match memchr::memchr(b'<', &self.bytes[at..]) {
                Some(found) => at + found,
                None => return len,
            };
            match self.bytes.get(at + 1) {
                Some(b'a'..=b'z' | b'A'..=b'Z' | b'!' | b'?') => return at,
                // `</` at the very end is text.
                Some(b'/') if at + 2 < len => return at,
                _ => at += 1,
            }
        }
    }

    /// Passes the markup at this place. Returns the tag, if it is one.
    fn pass_markup(&mut self, in_foreign_content: bool) -> Option<Token> {
        let start = self.at;
        match self.bytes[start + 1] {
            b'!' => self.pass_declaration(in_foreign_content),
            b'/' if self.bytes[start + 2].is_ascii_alphabetic() => return Some(self.pass_tag(start + 2)),
            b'/' | b'?' => self.pass_bogus_comment(),
            _ => return Some(self.pass_tag(start + 1)),
        }
        None
    }

    /// Passes everything before this byte as no text.
    fn pass(&mut self, to: usize) {
        self.at = to.min(self.bytes.len());
        self.text_from = self.at;
    }

    /// Passes `<!…`: a comment, a CDATA section, or a document type, which ends at the first `>` whatever is quoted.
    fn pass_declaration(&mut self, in_foreign_content: bool) {
        let inside = self.at + 2;
        let rest = &self.bytes[inside..];
        if rest.starts_with(b"--") {
            self.pass(find_end(self.bytes, inside + 2, is_comment) + 1);
        } else if in_foreign_content && rest.starts_with(b"[CDATA[") {
            self.mode = Mode::Cdata;
            self.pass(inside + 7);
        } else {
            self.pass_bogus_comment();
        }
    }

    /// Passes `<!…>`, `<?…>` or `</…>` with nothing in it that we know.
    fn pass_bogus_comment(&mut self) {
        self.pass(find(self.bytes, self.at + 2, b'>') + 1);
    }

    /// The end of the contents of a CDATA section.
    fn cdata_end(&self) -> usize {
        let end = find_end(self.bytes, self.at, |contents| contents.ends_with(b"]]"));
        if end == self.bytes.len() { end } else { end + 1 - CDATA_END.len() }
    }

    /// Passes the tag whose name begins here.
    fn pass_tag(&mut self, name_from: usize) -> Token {
        let start = self.at;
        let Some(name_to) = end_of_name(self.bytes, name_from) else { return self.pass_torn_tag(start) };
        let raw = &self.bytes[name_from..name_to];
        let packed = Packed::of(raw);
        let name = match Element::of(packed) {
            Some(element) => Name::Known(element),
            None => Name::Other(packed.number().unwrap_or_else(|| hash_of(raw))),
        };
        let is_end = self.bytes[name_from - 1] == b'/';
        let is_read =
            || self.reads_all || matches!(name, Name::Known(element) if element.has_read_attributes());
        let tag_end = match !is_end && is_read() {
            true => self.attributes.read(name_to),
            false => self.attributes.pass(name_to),
        };
        let Some((end, closes_itself)) = tag_end else { return self.pass_torn_tag(start) };
        if end - start > self.tag_bytes_max {
            return Token::TooLong;
        }
        self.pass(end);
        self.mode = Mode::Data;
        if is_end { Token::End { name } } else { Token::Start { name, closes_itself } }
    }

    /// A tag that does not end before the page does is none.
    fn pass_torn_tag(&mut self, start: usize) -> Token {
        self.pass(self.bytes.len());
        if self.bytes.len() - start > self.tag_bytes_max { Token::TooLong } else { Token::Over }
    }
}

/// The place of a byte from another one on; the end of the page if there is none.
#[inline]
fn find(bytes: &[u8], from: usize, byte: u8) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    memchr::memchr(byte, rest).map_or(bytes.len(), |found| from + found)
}

/// The first `>` behind contents that begin here and satisfy the condition; the end of the page if there is none.
fn find_end(bytes: &[u8], from: usize, is_whole: impl Fn(&[u8]) -> bool) -> usize {
    let mut at = find(bytes, from, b'>');
    while at < bytes.len() && !is_whole(&bytes[from..at]) {
        at = find(bytes, at + 1, b'>');
    }
    at
}

/// Whether these are the contents of a comment up to its last `>` (13.2.5.43 to 13.2.5.52). `-->` ends a comment, and so do
/// `--!>` and, at the very start, `>` and `->`.
fn is_comment(contents: &[u8]) -> bool {
    matches!(contents, [] | b"-" | [.., b'-', b'-'] | [.., b'-', b'-', b'!'])
}

/// The next end tag of an element, from this byte on.
fn end_tag(bytes: &[u8], mut at: usize, element: Element) -> usize {
    loop {
        at = find(bytes, at, b'<');
        if bytes[at..].get(1) == Some(&b'/') && has_name(bytes, at + 2, element) || at == bytes.len() {
            return at;
        }
        at += 1;
    }
}

/// Whether a tag of this element has its name here.
fn has_name(bytes: &[u8], at: usize, element: Element) -> bool {
    let name = Element::NAMES[element as usize].as_bytes();
    let rest = &bytes[at..];
    rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name))
        && matches!(rest.get(name.len()), Some(b'\t' | b'\n' | 0x0c | b'\r' | b' ' | b'/' | b'>'))
}

/// A hash of a name in lower case.
fn hash_of(name: &[u8]) -> u128 {
    let mut hasher = Xxh3::new();
    for part in name.chunks(HASHED_AT_ONCE) {
        let mut lower = [0; HASHED_AT_ONCE];
        lower[..part.len()].copy_from_slice(part);
        lower.make_ascii_lowercase();
        hasher.update(&lower[..part.len()]);
    }
    hasher.digest128()
}

/// The end of a CDATA section.
const CDATA_END: &[u8] = b"]]>";

/// Number of bytes of a name that are copied at once.
const HASHED_AT_ONCE: usize = 64;
