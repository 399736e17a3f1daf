//! The character encoding of a page: decided from its first bytes, recorded, never written back.
//!
//! The order is the one of browsers (HTML standard, "determining the character encoding"): a byte order mark, then the
//! `Content-Type` field, then the declaration in the page, then a guess from its bytes. An unknown label is no label.
//! Only the encodings of the WHATWG standard exist here, so UTF-7 and its kind are never decoded.
//!
//! Invariants: the decision reads at most [`DETECT_BYTES_MAX`] bytes; decoding never fails and never exceeds its output
//! limit.

use encoding_rs::{
    CoderResult, Encoding, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED,
};

use super::sniff;

/// Number of bytes in which the declaration of a page is searched for. Browsers look at 1,024 bytes first, but continue
/// while they parse; pages with long comments before their `meta` are common enough to have been a problem for others.
pub const PRESCAN_BYTES_MAX: usize = 8 * 1024;

/// Number of bytes for the guess. More costs time (6 MB/s) and changes few answers.
pub const DETECT_BYTES_MAX: usize = 16 * 1024;

/// The origin of a decision about the encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The byte order mark.
    Bom,
    /// The `Content-Type` field.
    Transport,
    /// The page: a `meta` element or an XML declaration.
    Page,
    /// A guess from the bytes.
    Guess,
}

impl Source {
    /// The name that is recorded.
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Bom => "bom",
            Source::Transport => "transport",
            Source::Page => "page",
            Source::Guess => "guess",
        }
    }
}

/// The encoding of a page and the origin of this decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The encoding to decode with.
    pub encoding: &'static Encoding,
    /// The origin of the decision.
    pub source: Source,
}

/// Decides the encoding of a page from its `Content-Type`, if there is one, and its first bytes. Only the first
/// [`DETECT_BYTES_MAX`] are read, so more need not be given.
pub fn decide(content_type: Option<&[u8]>, prefix: &[u8]) -> Decision {
    let prefix = &prefix[..prefix.len().min(DETECT_BYTES_MAX)];
    if let Some((encoding, _)) = Encoding::for_bom(prefix) {
        return Decision { encoding, source: Source::Bom };
    }
    let label = content_type.and_then(sniff::charset_label);
    if let Some(encoding) = label.and_then(|label| Encoding::for_label(&label)) {
        return Decision { encoding, source: Source::Transport };
    }
    let scanned = &prefix[..prefix.len().min(PRESCAN_BYTES_MAX)];
    if let Some(encoding) = prescan(scanned).or_else(|| xml_declaration(scanned)) {
        return Decision { encoding, source: Source::Page };
    }
    // ISO-2022-JP is never guessed: its shifts let a page hide markup from readers that decode the page differently.
    let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Deny);
    detector.feed(prefix, prefix.len() < DETECT_BYTES_MAX);
    Decision { encoding: detector.guess(None, chardetng::Utf8Detection::Allow), source: Source::Guess }
}

/// Decoded text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The text, without its byte order mark.
    pub text: String,
    /// Some bytes were invalid in this encoding; each became U+FFFD.
    pub replaced: bool,
    /// The text reached its limit and was cut between two characters.
    pub cut: bool,
}

/// Decodes bytes into at most `text_bytes_max` bytes of text. A character cut in half at the end of the bytes becomes
/// U+FFFD like any other fault.
pub fn decode(encoding: &'static Encoding, bytes: &[u8], text_bytes_max: usize) -> Decoded {
    let mut decoder = encoding.new_decoder_with_bom_removal();
    let room = decoder.max_utf8_buffer_length(bytes.len()).unwrap_or(usize::MAX);
    let mut text = String::with_capacity(room.min(text_bytes_max));
    let (result, _, replaced) = decoder.decode_to_string(bytes, &mut text, true);
    // The allocator may give more room than requested, and the decoder uses the extra room.
    let mut end = text.len().min(text_bytes_max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = result == CoderResult::OutputFull || end < text.len();
    text.truncate(end);
    Decoded { text, replaced, cut }
}

/// The encoding of a page's own label. A page whose `meta` can be read as ASCII is not in UTF-16, and x-user-defined is
/// the label by which old scripts get raw bytes (HTML standard, prescan, steps 2.1.13 and 2.1.14).
fn page_label(label: &[u8]) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label(label)?;
    Some(match encoding {
        e if e == UTF_16BE || e == UTF_16LE => UTF_8,
        e if e == X_USER_DEFINED => WINDOWS_1252,
        e => e,
    })
}

/// HTML standard, "prescan a byte stream to determine its encoding".
fn prescan(bytes: &[u8]) -> Option<&'static Encoding> {
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'<', bytes.get(at..)?) {
        at += found;
        let rest = &bytes[at..];
        if rest.starts_with(b"<!--") {
            // `<!-->` is a whole comment: its dashes count twice.
            at += 2 + memchr::memmem::find(&rest[2..], b"-->")? + 3;
        } else if is_tag(rest, b"<meta") {
            let mut attributes = Attributes { bytes, at: at + 5 };
            let label = meta_label(&mut attributes);
            at = attributes.at;
            if let Some(encoding) = label.and_then(|label| page_label(&label)) {
                return Some(encoding);
            }
        } else if rest.len() > 1
            && (rest[1].is_ascii_alphabetic() || rest[1] == b'/' && is_letter(rest.get(2)))
        {
            // Attributes are parsed, so that a `>` or `<meta` inside one is not mistaken for markup.
            let end = rest.iter().position(|b| is_space(*b) || *b == b'>')?;
            let mut attributes = Attributes { bytes, at: at + end };
            while attributes.next().is_some() {}
            at = attributes.at;
        } else if matches!(rest.get(1), Some(b'!' | b'/' | b'?')) {
            at += memchr::memchr(b'>', rest)? + 1;
        } else {
            at += 1;
        }
    }
    None
}

fn is_letter(byte: Option<&u8>) -> bool {
    byte.is_some_and(u8::is_ascii_alphabetic)
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | 0x0c | b'\r' | b' ')
}

fn is_tag(text: &[u8], tag: &[u8]) -> bool {
    text.get(..tag.len()).is_some_and(|t| t.eq_ignore_ascii_case(tag))
        && text.get(tag.len()).is_some_and(|b| is_space(*b) || *b == b'/')
}

/// The label of a `meta` element: its `charset`, or the one in its `content` if the element is a `Content-Type` pragma.
fn meta_label(attributes: &mut Attributes<'_>) -> Option<Vec<u8>> {
    let (mut pragma, mut need_pragma, mut label) = (false, None, None);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for (name, value) in attributes {
        if seen.contains(&name) {
            continue;
        }
        match name.as_slice() {
            b"http-equiv" => pragma |= value == b"content-type",
            b"content" if label.is_none() => {
                label = charset_in(&value);
                need_pragma = label.as_ref().map(|_| true);
            }
            b"charset" => {
                label = Some(value);
                need_pragma = Some(false);
            }
            _ => continue,
        }
        seen.push(name);
    }
    label.filter(|_| need_pragma == Some(false) || pragma)
}

/// HTML standard, "extracting a character encoding from a meta element". The value is in lower case.
fn charset_in(value: &[u8]) -> Option<Vec<u8>> {
    let mut rest = value;
    loop {
        rest = &rest[memchr::memmem::find(rest, b"charset")? + 7..];
        let after = rest.trim_ascii_start();
        let Some(after) = after.strip_prefix(b"=") else { continue };
        let after = after.trim_ascii_start();
        return match *after.first()? {
            quote @ (b'"' | b'\'') => {
                let end = memchr::memchr(quote, &after[1..])?;
                Some(after[1..=end].to_vec())
            }
            _ => {
                let end = after.iter().position(|b| is_space(*b) || *b == b';').unwrap_or(after.len());
                Some(after[..end].to_vec())
            }
        };
    }
}

/// The attributes of one tag, names and values in lower case (HTML standard, prescan, "get an attribute").
struct Attributes<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Attributes<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn skip(&mut self, skipped: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&skipped) {
            self.at += 1;
        }
    }

    fn take_until(&mut self, ends: impl Fn(u8) -> bool) -> Vec<u8> {
        let start = self.at;
        self.skip(|b| !ends(b));
        self.bytes[start..self.at].to_ascii_lowercase()
    }
}

impl Iterator for Attributes<'_> {
    type Item = (Vec<u8>, Vec<u8>);

    fn next(&mut self) -> Option<Self::Item> {
        self.skip(|b| is_space(b) || b == b'/');
        if matches!(self.peek()?, b'>') {
            self.at += 1;
            return None;
        }
        let start = self.at;
        // A `=` as the first character belongs to the name.
        self.at += 1;
        self.take_until(|b| is_space(b) || matches!(b, b'/' | b'>' | b'='));
        let name = self.bytes[start..self.at].to_ascii_lowercase();
        self.skip(is_space);
        if self.peek()? != b'=' {
            return Some((name, Vec::new()));
        }
        self.at += 1;
        self.skip(is_space);
        let value = match self.peek()? {
            quote @ (b'"' | b'\'') => {
                self.at += 1;
                let value = self.take_until(|b| b == quote);
                // A quote that never closes: the rest is unknown.
                self.peek()?;
                self.at += 1;
                value
            }
            b'>' => Vec::new(),
            _ => self.take_until(|b| is_space(b) || b == b'>'),
        };
        Some((name, value))
    }
}

/// `<?xml … encoding="…"?>` at the very start (HTML standard, "get an XML encoding"). Also detects UTF-16 without a
/// byte order mark, by the first bytes.
fn xml_declaration(bytes: &[u8]) -> Option<&'static Encoding> {
    if bytes.starts_with(b"<\0?\0x\0") {
        return Some(UTF_16LE);
    }
    if bytes.starts_with(b"\0<\0?\0x") {
        return Some(UTF_16BE);
    }
    let declaration = bytes.strip_prefix(b"<?xml")?;
    let declaration = &declaration[..memchr::memchr(b'>', declaration)?];
    let rest = &declaration[memchr::memmem::find(declaration, b"encoding")? + 8..];
    let rest = rest.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let quote = rest.first().copied().filter(|q| matches!(q, b'"' | b'\''))?;
    let end = memchr::memchr(quote, &rest[1..])?;
    page_label(&rest[1..=end]).filter(|e| *e != REPLACEMENT)
}

#[cfg(test)]
#[path = "charset_tests.rs"]
mod tests;
