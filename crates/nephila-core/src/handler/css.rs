//! Extracts URLs from style sheets: `@import`, `url()` and `image-set()`, in files, in `<style>` and in `style=""`.
//!
//! A tokenizer after CSS Syntax 3 that knows names, strings, comments and URLs and skips everything else. The tokenizer
//! builds no tree: of parentheses only the number is kept, to tell the strings of an `image-set()` from the strings of
//! a `type()` inside.
//!
//! Invariants: reading goes forward only, so the work is linear in the bytes; reading ends for any input.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8};

use super::charset::{self, Decision, Source};
use super::sniff;

/// Maximum length of a URL as written: no valid URL is as long once its escapes are decoded.
const URL_BYTES_MAX: usize = 16 * 1024;
/// Maximum length of a name; no name of interest is longer.
const NAME_BYTES_MAX: usize = 64;
/// The deadline is checked once in this number of bytes.
const BYTES_PER_LOOK: usize = 64 * 1024;
/// An `@charset` must be within this number of first bytes.
const CHARSET_BYTES_MAX: usize = 1_024;

/// How a style sheet names a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// `@import`: another style sheet.
    Import,
    /// `url()`, or a text in an `image-set()`.
    Url,
}

/// The encoding of a style sheet (CSS Syntax 3, 3.2): its byte order mark, its label, its `@charset`, else UTF-8.
pub(super) fn encoding(content_type: Option<&[u8]>, body: &[u8]) -> Decision {
    if let Some((encoding, _)) = Encoding::for_bom(body) {
        return Decision { encoding, source: Source::Bom };
    }
    let label = content_type.and_then(sniff::charset_label);
    if let Some(encoding) = label.and_then(|label| Encoding::for_label(&label)) {
        return Decision { encoding, source: Source::Transport };
    }
    let start = &body[..body.len().min(CHARSET_BYTES_MAX)];
    let label = start.strip_prefix(b"@charset \"").and_then(|rest| rest.split(|b| *b == b'"').next());
    match label.and_then(Encoding::for_label) {
        // A declaration that can be read as ASCII is not in UTF-16.
        Some(encoding) if encoding.is_ascii_compatible() => Decision { encoding, source: Source::Page },
        Some(_) => Decision { encoding: UTF_8, source: Source::Page },
        None => Decision { encoding: UTF_8, source: Source::Guess },
    }
}

/// Decodes and reads a style sheet. Returns true if the end was not reached.
pub(super) fn read_bytes(
    decision: Decision,
    body: &[u8],
    bytes_max: usize,
    time_is_up: &mut dyn FnMut() -> bool,
    give: &mut dyn FnMut(&str, Named),
) -> bool {
    let decoded = charset::decode(decision.encoding, &body[..body.len().min(bytes_max)], bytes_max);
    let cut = decoded.cut || body.len() > bytes_max;
    read_until(&decoded.text, time_is_up, give) || cut
}

/// Reads a style sheet, or the declarations of one element.
pub fn read(text: &str, give: &mut dyn FnMut(&str, Named)) {
    read_until(text, &mut || false, give);
}

/// Whether these bytes of a page may contain a style that names a URL. Most pages have none, and the styles are
/// skipped.
pub(super) fn may_name(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'(', bytes).any(|at| {
        let before = &bytes[at.saturating_sub(4)..at];
        ends_with(before, b"url") || ends_with(before, b"-set")
    })
}

fn ends_with(bytes: &[u8], end: &[u8]) -> bool {
    bytes.len() >= end.len() && bytes[bytes.len() - end.len()..].eq_ignore_ascii_case(end)
}

fn read_until(text: &str, time_is_up: &mut dyn FnMut() -> bool, give: &mut dyn FnMut(&str, Named)) -> bool {
    let mut scanner = Scanner { text, at: 0 };
    // The meaning of the open rule for a string or a URL inside.
    let mut rule = Rule::Other;
    let mut parentheses = 0u32;
    // Number of open parentheses when the outermost `image-set()` began.
    let mut set: Option<u32> = None;
    let mut look_at = BYTES_PER_LOOK;
    while let Some(byte) = scanner.peek() {
        if scanner.at >= look_at {
            look_at = scanner.at + BYTES_PER_LOOK;
            if time_is_up() {
                return true;
            }
        }
        match byte {
            b'/' if scanner.rest().starts_with("/*") => scanner.skip_comment(),
            b'"' | b'\'' => {
                let string = scanner.string(byte);
                let in_set = set == Some(parentheses);
                if let Some(string) = string
                    && (in_set || rule == Rule::Import)
                {
                    give(&string, if rule == Rule::Import { Named::Import } else { Named::Url });
                    rule = if rule == Rule::Import { Rule::Other } else { rule };
                }
            }
            b'(' => {
                scanner.at += 1;
                parentheses += 1;
            }
            b')' => {
                scanner.at += 1;
                if set == Some(parentheses) {
                    set = None;
                }
                parentheses = parentheses.saturating_sub(1);
            }
            // A rule ends here, whatever is still open.
            b';' | b'{' | b'}' => {
                scanner.at += 1;
                (rule, parentheses, set) = (Rule::Other, 0, None);
            }
            b'@' => {
                scanner.at += 1;
                let name = scanner.name();
                rule = match &*name {
                    "import" => Rule::Import,
                    "namespace" => Rule::Namespace,
                    _ => Rule::Other,
                };
            }
            _ if is_name(byte) => {
                let name = scanner.name();
                if scanner.peek() != Some(b'(') {
                    continue;
                }
                scanner.at += 1;
                match &*name {
                    "url" | "src" => {
                        let url = scanner.url();
                        match (rule, url) {
                            (Rule::Import, Some(url)) => {
                                give(&url, Named::Import);
                                rule = Rule::Other;
                            }
                            // A namespace names no file.
                            (Rule::Namespace, _) | (_, None) => {}
                            (Rule::Other, Some(url)) => give(&url, Named::Url),
                        }
                    }
                    name => {
                        parentheses += 1;
                        if set.is_none() && matches!(name, "image-set" | "-webkit-image-set") {
                            set = Some(parentheses);
                        }
                    }
                }
            }
            _ => scanner.step(),
        }
    }
    false
}

/// The kind of an open rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Import,
    Namespace,
    Other,
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'\\') || byte >= 0x80
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c')
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips one character.
    fn step(&mut self) {
        self.at += self.rest().chars().next().map_or(1, char::len_utf8);
    }

    fn skip_comment(&mut self) {
        self.at = match memchr::memmem::find(&self.text.as_bytes()[self.at + 2..], b"*/") {
            Some(end) => self.at + 2 + end + 2,
            None => self.text.len(),
        };
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// A name, escapes decoded and in lower case; empty if too long.
    fn name(&mut self) -> String {
        let from = self.at;
        while let Some(byte) = self.peek().filter(|byte| is_name(*byte)) {
            match byte {
                b'\\' => self.skip_escape(),
                _ => self.step(),
            }
        }
        let name = &self.text[from..self.at];
        if name.len() > NAME_BYTES_MAX { String::new() } else { unescaped(name).to_ascii_lowercase() }
    }

    /// Skips a backslash and the escaped text.
    fn skip_escape(&mut self) {
        self.at += 1;
        let digits = self.rest().bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
        if digits == 0 {
            if self.at < self.text.len() {
                self.step();
            }
            return;
        }
        self.at += digits;
        if self.rest().starts_with("\r\n") {
            self.at += 2;
        } else if self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// A quoted string; none if the string does not end on its line.
    fn string(&mut self, quote: u8) -> Option<Cow<'a, str>> {
        self.at += 1;
        let from = self.at;
        loop {
            match self.peek() {
                // At the end of the sheet everything that is open ends.
                None => return self.taken(from, self.at),
                Some(byte) if byte == quote => {
                    self.at += 1;
                    return self.taken(from, self.at - 1);
                }
                Some(b'\n' | b'\r' | b'\x0c') => return None,
                Some(b'\\') => self.skip_escape(),
                Some(_) => self.step(),
            }
        }
    }

    /// The contents of `url(`, up to the end; none if that is no URL.
    fn url(&mut self) -> Option<Cow<'a, str>> {
        self.skip_space();
        if let Some(quote @ (b'"' | b'\'')) = self.peek() {
            let string = self.string(quote);
            self.skip_to_parenthesis();
            return string;
        }
        let from = self.at;
        loop {
            match self.peek() {
                None => return self.taken(from, self.at),
                Some(b')') => {
                    self.at += 1;
                    return self.taken(from, self.at - 1);
                }
                Some(byte) if is_space(byte) => {
                    let to = self.at;
                    self.skip_space();
                    let ends = matches!(self.peek(), None | Some(b')'));
                    self.skip_to_parenthesis();
                    return if ends { self.taken(from, to) } else { None };
                }
                Some(b'"' | b'\'' | b'(') => {
                    self.skip_to_parenthesis();
                    return None;
                }
                Some(b'\\') => self.skip_escape(),
                Some(_) => self.step(),
            }
        }
    }

    fn skip_to_parenthesis(&mut self) {
        while let Some(byte) = self.peek() {
            match byte {
                b')' => {
                    self.at += 1;
                    return;
                }
                b'\\' => self.skip_escape(),
                _ => self.step(),
            }
        }
    }

    fn taken(&self, from: usize, to: usize) -> Option<Cow<'a, str>> {
        let text = &self.text[from..to];
        let text = (text.len() <= URL_BYTES_MAX).then(|| unescaped(text))?;
        (!text.is_empty()).then_some(text)
    }
}

/// A text with its escapes decoded.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let digits = rest.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
        if digits > 0 {
            let code = u32::from_str_radix(&rest[..digits], 16).unwrap_or(0);
            let character = char::from_u32(code).filter(|c| *c != '\0').unwrap_or('\u{fffd}');
            out.push(character);
            rest = &rest[digits..];
            rest = match rest.strip_prefix("\r\n") {
                Some(after) => after,
                None => rest.strip_prefix([' ', '\t', '\n', '\r', '\x0c']).unwrap_or(rest),
            };
        } else if let Some(after) = rest.strip_prefix("\r\n") {
            // An escaped line end.
            rest = after;
        } else if let Some(character) = rest.chars().next() {
            if !matches!(character, '\n' | '\r' | '\x0c') {
                out.push(character);
            }
            rest = &rest[character.len_utf8()..];
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn check(css: &str, want: &[(&str, Named)]) {
        let mut found = Vec::new();
        read(css, &mut |url, named| found.push((url.to_owned(), named)));
        let want: Vec<_> = want.iter().map(|(url, named)| ((*url).to_owned(), *named)).collect();
        assert_eq!(found, want, "{css:?}");
    }

    #[test]
    fn out_02_imports_urls_and_image_sets_are_found() {
        use Named::{Import, Url};
        check("@import 'a.css'; @import url(b.css) screen;", &[("a.css", Import), ("b.css", Import)]);
        check("@IMPORT\tURL( \"c.css\" ) layer(x);", &[("c.css", Import)]);
        check("a{background:url(i.png) no-repeat, url('j k.png')}", &[("i.png", Url), ("j k.png", Url)]);
        check(
            "@font-face{src:url(f.woff2) format(\"woff2\"),local('x')} .b{content:\"url(no.png)\"}",
            &[("f.woff2", Url)],
        );
        check(
            "a{background:image-set(\"a.png\" 1x, 'b.avif' type(\"image/avif\") 2x, url(c.png) 3x)}",
            &[("a.png", Url), ("b.avif", Url), ("c.png", Url)],
        );
        check("a{b:-webkit-image-set(url(x.png) 1x)} c{d:'e'}", &[("x.png", Url)]);
        check("background:url(i.png)", &[("i.png", Url)]);
    }

    #[test]
    fn out_02_what_only_looks_like_a_url_is_none() {
        check("/* url(a.png) @import 'b.css'; */ c{}", &[]);
        check("@namespace url(http://www.w3.org/1999/xhtml);@namespace svg 'http://x';", &[]);
        check("a{x:myurl(a.png);y:url-prefix(b);z:url (c.png)}", &[]);
        check("a{x:url(a b.png);y:url(c'd);z:url(e.png)}", &[("e.png", Named::Url)]);
        check("a{content:'broken\nurl(a.png)'}", &[("a.png", Named::Url)]);
    }

    #[test]
    fn out_02_escapes_are_undone_and_what_is_open_at_the_end_ends() {
        check(r"a{b:url(x\29 y.png)}", &[("x)y.png", Named::Url)]);
        check(r#"a{b:u\72l("caf\E9 .png")}"#, &[("caf\u{e9}.png", Named::Url)]);
        check("a{b:url(open.png", &[("open.png", Named::Url)]);
        check("@import \"open.css", &[("open.css", Named::Import)]);
        check("@import \"a\\\nb.css\"", &[("ab.css", Named::Import)]);
        check("a{b:url(\\", &[]);
        check("/* open", &[]);
    }

    #[test]
    fn out_02_the_encoding_is_its_mark_its_label_its_charset_or_utf_8() {
        let name = |label: Option<&[u8]>, body: &[u8]| encoding(label, body).encoding.name();
        assert_eq!(name(None, b"a{}"), "UTF-8");
        assert_eq!(name(None, b"@charset \"iso-8859-2\";"), "ISO-8859-2");
        assert_eq!(name(None, b"@charset \"utf-16\";"), "UTF-8");
        assert_eq!(name(None, b"@charset 'iso-8859-2';"), "UTF-8");
        assert_eq!(name(Some(b"text/css; charset=koi8-r"), b"@charset \"iso-8859-2\";"), "KOI8-R");
        assert_eq!(name(Some(b"text/css; charset=koi8-r"), b"\xef\xbb\xbfa{}"), "UTF-8");
    }

    #[test]
    fn out_02_twice_the_bytes_take_about_twice_the_time() {
        for piece in
            ["/*", "url(", "(", "\\", "a", "'", "\"\n", "@import ", "image-set(", "url(x ", "\u{1f577}"]
        {
            let took = |bytes: usize| {
                let text = piece.repeat(bytes / piece.len());
                let best = (0..3).map(|_| {
                    let began = Instant::now();
                    read(&text, &mut |_, _| {});
                    began.elapsed()
                });
                best.min().expect("three were made")
            };
            // Four times the bytes: sixteen times would be quadratic. Machines are shared, so a bad figure is looked at again.
            let mut looks = (0..8).map(|_| (took(1 << 18), took(1 << 20)));
            let is_linear = |(one, four): (Duration, Duration)| four < one * 10 + Duration::from_millis(50);
            assert!(looks.any(is_linear), "{piece:?}: {:?}, {:?}", took(1 << 18), took(1 << 20));
        }
    }

    #[test]
    fn out_02_a_page_without_styles_is_not_looked_through() {
        assert!(may_name(b"<p style='background:URL(a.png)'>"));
        assert!(may_name(b"image-set('a' 1x)"));
        assert!(!may_name(b"<p style='color:red'>(curl) f(x) url"));
        assert!(!may_name(b"(") && !may_name(b""));
    }
}
