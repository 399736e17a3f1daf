//! Normalizes the texts of a feed: one line, no markup, bounded.

use std::borrow::Cow;

/// Maximum length of a kept title or name in bytes.
pub(super) const LINE_BYTES_MAX: usize = 1_024;

/// Maximum length of a language tag (RFC 5646, 4.4.1 advises 35).
const LANGUAGE_BYTES_MAX: usize = 35;

/// A title or a name on one line. A text that may be markup loses its tags, and its references are decoded. RSS never
/// specified whether titles are markup, so `AT&amp;amp;T` and `AT&amp;T` both mean AT&T.
pub(super) fn line(text: &str, is_markup: bool) -> String {
    let text = if is_markup { unmark(text) } else { Cow::Borrowed(text) };
    let mut line = String::with_capacity(text.len().min(LINE_BYTES_MAX));
    let mut space = false;
    for char in text.chars() {
        if char.is_whitespace() || char.is_control() {
            space = !line.is_empty();
            continue;
        }
        if line.len() + char.len_utf8() + usize::from(space) > LINE_BYTES_MAX {
            break;
        }
        if std::mem::take(&mut space) {
            line.push(' ');
        }
        line.push(char);
    }
    line
}

/// A reference to a page, without the invisible characters that are copied along.
pub(super) fn url(text: &str) -> &str {
    let is_blank = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}');
    text.trim_matches(|c: char| c.is_whitespace() || c.is_control() || is_blank(c))
}

/// A language tag, if the text has the form of one.
pub(super) fn language(text: &str) -> Option<String> {
    let text = text.trim();
    let looks_right = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let good = (2..=LANGUAGE_BYTES_MAX).contains(&text.len()) && text.bytes().all(looks_right);
    good.then(|| text.replace('_', "-"))
}

/// Takes tags out and decodes references.
fn unmark(text: &str) -> Cow<'_, str> {
    if !text.contains(['<', '&']) {
        return Cow::Borrowed(text);
    }
    // First tags, then references: a reference may stand for the `<` of a tag that is meant to be seen.
    let mut plain = String::with_capacity(text.len());
    let (mut at, mut close) = (0, 0);
    while let Some(open) = text[at..].find('<').map(|found| at + found) {
        plain.push_str(&text[at..open]);
        at = open + 1;
        // The next `>` is searched for only when the last one has been passed, so each byte is read once.
        if close < at {
            match text[at..].find('>') {
                Some(found) => close = at + found,
                None => {
                    at = open;
                    break;
                }
            }
        }
        if text[at..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!')) {
            at = close + 1;
        } else {
            // A literal sign, as in `a < b`.
            plain.push('<');
        }
    }
    plain.push_str(&text[at..]);
    Cow::Owned(htmlize::unescape(plain.as_str()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_become_one_plain_line() {
        for (text, want) in [
            ("  A\n\t title\u{a0}here ", "A title here"),
            ("AT&amp;T", "AT&T"),
            ("<b>Bold</b> and <i class=x>more", "Bold and more"),
            ("a < b and c > d", "a < b and c > d"),
            ("1 < 2", "1 < 2"),
            ("caf&eacute;&nbsp;noir", "café noir"),
            ("\u{0}x\u{7}", "x"),
            ("", ""),
            ("&unknown; stays", "&unknown; stays"),
        ] {
            assert_eq!(line(text, true), want, "{text:?}");
        }
        assert_eq!(line("a <b> &amp;", false), "a <b> &amp;");
        assert!(line(&"é".repeat(10_000), true).len() <= LINE_BYTES_MAX);
        assert_eq!(line(&"<".repeat(1_000_000), true).len(), LINE_BYTES_MAX);
    }

    #[test]
    fn languages_look_like_languages() {
        assert_eq!(language(" en_US "), Some("en-US".to_owned()));
        for text in ["", "e", "english, mostly", "<b>", "русский"] {
            assert_eq!(language(text), None, "{text:?}");
        }
    }
}
