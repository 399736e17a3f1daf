//! Untrusted text, made safe to show: on a terminal, in a log line, on a page of ours.
//!
//! Titles and URLs come from strangers. Control characters move a cursor, direction marks turn `gpj.exe` into something
//! harmless-looking, invisible characters hide, private-use characters depend on the font. These characters are shown
//! as escapes, `\u{202e}`, and nothing else is changed.
//!
//! Invariants: the result has no character that changes how its neighbours are shown, and is one line.

use std::fmt;

/// Text to show, with misleading characters made visible.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a>(&'a [u8]);

/// Shows text.
pub fn shown(text: &str) -> Shown<'_> {
    Shown(text.as_bytes())
}

/// Shows bytes that may be UTF-8. Invalid bytes, including lone surrogates, are shown one by one: `\xed\xa0\x80`.
pub fn shown_bytes(bytes: &[u8]) -> Shown<'_> {
    Shown(bytes)
}

/// Shows text on an HTML page: with markup escaped.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in shown(text).to_string().chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            char => out.push(char),
        }
    }
    out
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            let mut plain = 0;
            for (at, char) in chunk.valid().char_indices().filter(|(_, char)| misleads(*char)) {
                f.write_str(&chunk.valid()[plain..at])?;
                plain = at + char.len_utf8();
                match char {
                    '\n' => f.write_str("\\n")?,
                    '\r' => f.write_str("\\r")?,
                    '\t' => f.write_str("\\t")?,
                    // Distinguishes our escapes from escapes in the text.
                    '\\' => f.write_str("\\\\")?,
                    _ => write!(f, "\\u{{{:x}}}", u32::from(char))?,
                }
            }
            f.write_str(&chunk.valid()[plain..])?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

fn misleads(char: char) -> bool {
    matches!(
        char,
        '\\'
        // Controls of ASCII and Latin-1, the escape character among them.
        | '\0'..='\x1f' | '\x7f'..='\u{9f}'
        // Soft hyphen, joiners, fillers, word joiner and invisible operators: nothing to see.
        | '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{3164}' | '\u{ffa0}'
        // Marks, embeddings, overrides and isolates of direction.
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
        // Ends of lines and paragraphs.
        | '\u{2028}' | '\u{2029}'
        // Selectors, the byte order mark, annotations, the replacement's neighbours, tags.
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
        // Private use.
        | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}'
        // Never characters.
        | '\u{fdd0}'..='\u{fdef}' | '\u{fffe}' | '\u{ffff}'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn enc_10_what_could_mislead_is_shown_as_what_it_is() {
        for (text, want) in [
            ("plain, naïve, 日本, עברית, 😀", "plain, naïve, 日本, עברית, 😀"),
            ("invoice\u{202e}gpj.exe", "invoice\\u{202e}gpj.exe"),
            ("\u{2067}x\u{2069}\u{200f}", "\\u{2067}x\\u{2069}\\u{200f}"),
            ("\x1b[2Jgone\x07", "\\u{1b}[2Jgone\\u{7}"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\r\nb\tc", "a\\r\\nb\\tc"),
            ("\u{e000}\u{f8ff}\u{10fffd}", "\\u{e000}\\u{f8ff}\\u{10fffd}"),
            ("pay\u{200b}pal\u{feff}", "pay\\u{200b}pal\\u{feff}"),
            ("\\u{202e}", "\\\\u{202e}"),
            ("\u{2028}", "\\u{2028}"),
        ] {
            assert_eq!(shown(text).to_string(), want);
        }
        assert_eq!(
            shown_bytes(b"a\xed\xa0\x80b\xff").to_string(),
            "a\\xed\\xa0\\x80b\\xff",
            "a lone surrogate"
        );
        assert_eq!(shown_bytes("é\u{202e}".as_bytes()).to_string(), "é\\u{202e}");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_one_line_without_tricks(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in any::<String>()) {
            for shown in [shown_bytes(&bytes).to_string(), shown(&text).to_string()] {
                prop_assert!(!shown.chars().any(|c| c.is_control() || (c != '\\' && misleads(c))));
            }
        }
    }
}
