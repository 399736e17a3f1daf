//! The block of text that all pages of a web are cut from.
//!
//! Two kinds: words alone, which can be cut anywhere, and markup as of real pages (elements with classes and identifiers,
//! a vocabulary of some thousand words, scripts, drawings). Real pages of about 20 KB pack to a quarter with gzip, words
//! alone to two fifths; and a reader of markup meets a tag every hundred bytes, not every few thousand.
//!
//! Invariants: the block is plain ASCII. Markup consists of lines shorter than [`LINE_MAX`]; each segment of the block
//! begins with a line, and no element stays open at the end of a line, so that it can be cut at every line.

use bytes::Bytes;

use super::gzip::SEGMENT;
use crate::model::push_number;
use crate::settings::Text;

/// Length of the text block. Pages up to half this length have their text in one piece.
pub(super) const TEXT_BYTES: usize = 512 * 1024;

/// Maximum length of a line of markup, its end included.
pub(super) const LINE_MAX: usize = 512;

/// Number of words of a vocabulary for markup.
const VOCABULARY: u32 = 4_096;

/// Words of the text; the first ones come most often, as in any language.
const WORDS: [&str; 64] = [
    "the", "of", "and", "a", "to", "in", "is", "it", "was", "for", "on", "are", "as", "with", "they", "at",
    "be", "this", "have", "from", "or", "one", "had", "by", "word", "but", "not", "what", "all", "were",
    "we", "when", "your", "can", "said", "there", "use", "an", "each", "which", "she", "do", "how", "their",
    "if", "will", "up", "other", "about", "out", "many", "then", "them", "these", "so", "some", "her",
    "would", "make", "like", "orchard", "lantern", "harbour", "meadow",
];

/// Syllables of made-up words.
const SYLLABLES: [&str; 32] = [
    "ba", "ren", "ti", "lo", "sha", "mer", "on", "ka", "vi", "del", "est", "ur", "pa", "gri", "no", "sil",
    "ta", "mon", "fe", "ra", "qui", "ner", "os", "li", "cen", "du", "pro", "ver", "ing", "tion", "al", "by",
];

/// The text all pages of a web are cut from.
pub(super) fn text_block(seed: u64, text: Text) -> Bytes {
    let mut state = Xorshift(seed | 1);
    match text {
        Text::Words => words(&mut state),
        Text::Markup => markup(&mut state),
    }
    .into()
}

fn words(state: &mut Xorshift) -> String {
    let mut text = String::with_capacity(TEXT_BYTES + 16);
    let mut words = 0u32;
    while text.len() < TEXT_BYTES {
        let state = state.step();
        let (a, b) = (state >> 20 & 63, state >> 40 & 63);
        text.push_str(WORDS[(a * b / 64) as usize]);
        // Now and then a number, so that text does not compress better than real pages do.
        if state >> 60 == 0 {
            text.push(' ');
            push_number(&mut text, state >> 30 & 0xFFFF_FFFF);
        }
        words += 1;
        text.push(if words.is_multiple_of(16) { '\n' } else { ' ' });
    }
    text.truncate(TEXT_BYTES);
    text
}

fn markup(state: &mut Xorshift) -> String {
    let mut text = String::with_capacity(TEXT_BYTES + LINE_MAX);
    let mut line = String::with_capacity(LINE_MAX);
    while text.len() < TEXT_BYTES {
        line.clear();
        push_line(&mut line, state);
        debug_assert!(line.len() <= LINE_MAX, "{line}");
        // A line that does not fit is left out; the segment ends with blanks.
        let left = SEGMENT - text.len() % SEGMENT;
        if line.len() <= left {
            text.push_str(&line);
        } else {
            text.extend(std::iter::repeat_n(' ', left - 1));
            text.push('\n');
        }
    }
    text
}

/// One line: a paragraph, a card, a row of a table, data of a script, or a drawing.
fn push_line(line: &mut String, state: &mut Xorshift) {
    match state.step() >> 40 & 15 {
        0..=6 => {
            line.push_str("<p class=\"article__text\">");
            // At most 24 words of 17 bytes, the last two included: a line stays below its maximum with any seed.
            let count = 12 + state.below(11);
            push_words(line, state, count);
            line.push_str(" <em>");
            push_words(line, state, 2);
            line.push_str("</em>.</p>\n");
        }
        7..=10 => {
            line.push_str("<div class=\"card card--wide\" data-id=\"");
            push_hex(line, state.step());
            line.push_str("\"><h3 class=\"card__title\">");
            push_words(line, state, 5);
            line.push_str("</h3><span class=\"card__meta\">");
            push_number(line, state.below(60));
            line.push_str(" min &middot; ");
            push_words(line, state, 2);
            line.push_str("</span><button type=\"button\" class=\"btn btn-secondary\" aria-label=\"");
            push_words(line, state, 2);
            line.push_str("\"><i class=\"icon\"></i></button></div>\n");
        }
        11 | 12 => {
            line.push_str("<table><tr class=\"row\"><td class=\"num\">");
            push_number(line, state.below(1 << 20));
            line.push_str("</td><td>");
            push_words(line, state, 3);
            line.push_str("</td><td style=\"text-align:right\">");
            push_number(line, state.below(1 << 30));
            line.push_str("</td></tr></table>\n");
        }
        13 | 14 => {
            line.push_str("<script type=\"application/json\">{\"id\":");
            push_number(line, state.below(1 << 32));
            line.push_str(",\"slug\":\"");
            push_hex(line, state.step());
            line.push_str("\",\"tags\":[\"");
            push_words(line, state, 1);
            line.push_str("\",\"");
            push_words(line, state, 1);
            line.push_str("\"],\"visible\":true,\"html\":\"\\u003cb\\u003e\"}</script>\n");
        }
        _ => {
            line.push_str("<svg width=\"24\" height=\"24\" viewBox=\"0 0 24 24\"><path d=\"M12 2");
            for _ in 0..12 {
                line.push_str(if state.step() >> 63 == 0 { "l" } else { "c-" });
                push_number(line, state.below(24));
                line.push('.');
                push_number(line, state.below(100));
            }
            line.push_str("z\"/></svg>\n");
        }
    }
}

/// Words, of which the first of the vocabulary come most often (about Zipf's law).
fn push_words(line: &mut String, state: &mut Xorshift, count: u64) {
    for n in 0..count {
        if n > 0 {
            line.push(' ');
        }
        // The logarithm of the rank is uniform.
        let rank = f64::from(VOCABULARY).powf(state.step() as f64 / u64::MAX as f64) as u64 - 1;
        match WORDS.get(rank as usize) {
            Some(word) => line.push_str(word),
            None => {
                let mut left = rank.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
                for _ in 0..2 + rank % 3 {
                    line.push_str(SYLLABLES[(left & 31) as usize]);
                    left >>= 5;
                }
            }
        }
    }
}

fn push_hex(line: &mut String, number: u64) {
    for nibble in 0..12 {
        line.push(
            char::from_digit((number >> (4 * nibble + 8)) as u32 & 15, 16).expect("a hexadecimal digit"),
        );
    }
}

/// A step of xorshift64 is more than good enough to pick words.
struct Xorshift(u64);

impl Xorshift {
    fn step(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.step() >> 16) % limit
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed_share(bytes: &[u8]) -> f64 {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap().len() as f64 / bytes.len() as f64
    }

    #[test]
    fn markup_is_whole_lines_in_each_segment() {
        let text = String::from_utf8(text_block(7, Text::Markup).to_vec()).unwrap();
        assert!(text.len() == TEXT_BYTES && text.is_ascii());
        for segment in (0..TEXT_BYTES).step_by(SEGMENT).map(|at| &text[at..at + SEGMENT]) {
            assert!(segment.ends_with('\n'));
            for line in segment.split_inclusive('\n') {
                assert!(line.len() <= LINE_MAX, "{line}");
                let line = line.trim();
                assert!(line.is_empty() || line.starts_with('<') && line.ends_with('>'), "{line}");
                for (open, close) in [("<p ", "</p>"), ("<div", "</div>"), ("<script", "</script>")] {
                    assert_eq!(line.matches(open).count(), line.matches(close).count(), "{line}");
                }
            }
        }
    }

    #[test]
    fn markup_packs_as_real_pages_do() {
        // Measured on real pages: 27 % of 22 KB, 12 % of 169 KB, where parts repeat.
        let text = text_block(7, Text::Markup);
        let share = packed_share(&text[..24 * 1024]);
        assert!((0.2..0.32).contains(&share), "{share}");
        let tags = text.iter().filter(|byte| **byte == b'<').count();
        let spacing = text.len() / tags;
        assert!((25..100).contains(&spacing), "a tag every {spacing} bytes");
    }

    #[test]
    fn a_seed_makes_a_text_of_its_own() {
        for text in [Text::Words, Text::Markup] {
            assert_eq!(text_block(3, text), text_block(3, text));
            assert_ne!(text_block(3, text), text_block(9, text));
        }
    }
}
