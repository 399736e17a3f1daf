//! The words of a search, and where a text has them. Pure.
//!
//! A word is found inside of longer words too, whatever its case. Words in quotation marks are one.
//!
//! Invariants: the work is linear in the text for each word; a snippet is text of the page, cut between characters.

use memchr::memmem::Finder;

/// Maximum number of words of a search.
pub const WORDS_MAX: usize = 16;
/// Maximum length of a search in bytes.
pub const QUERY_BYTES_MAX: usize = 1_000;
/// Length of a snippet in characters.
pub const SNIPPET_CHARS: usize = 240;
/// Number of characters of a snippet before the word that was found.
const BEFORE_CHARS: usize = 80;

/// The words of a search, folded.
#[derive(Clone, Debug)]
pub(super) struct Words(Vec<Finder<'static>>);

impl Words {
    /// Parses a search. The error says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Words, String> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(format!("a search has at most {QUERY_BYTES_MAX} bytes"));
        }
        let mut words = Vec::new();
        // Every second part is between quotation marks.
        for (number, part) in text.split('"').enumerate() {
            match number % 2 {
                0 => words.extend(part.split_whitespace().map(folded)),
                _ => words.push(folded(&part.split_whitespace().collect::<Vec<_>>().join(" "))),
            }
        }
        words.retain(|word| !word.is_empty());
        words.sort_unstable();
        words.dedup();
        match words.len() {
            0 => Err("name at least one word".to_owned()),
            1..=WORDS_MAX => Ok(Words(words.iter().map(|word| Finder::new(word).into_owned()).collect())),
            many => Err(format!("a search has at most {WORDS_MAX} words, and these are {many}")),
        }
    }

    /// Whether the folded texts together have all words.
    pub(super) fn are_in(&self, texts: &[&str]) -> bool {
        let is_in = |word: &Finder<'_>| texts.iter().any(|text| word.find(text.as_bytes()).is_some());
        self.0.iter().all(is_in)
    }

    /// The part of a text around the first place of any of the words; the beginning, if the text has none of them.
    pub(super) fn snippet(&self, text: &str) -> String {
        let folded = folded(text);
        let place = self.0.iter().filter_map(|word| word.find(folded.as_bytes())).min().unwrap_or(0);
        let at = unfolded(text, place);
        let begin = text[..at].char_indices().rev().take(BEFORE_CHARS).last().map_or(at, |(begin, _)| begin);
        let rest = &text[begin..];
        let end = rest.char_indices().nth(SNIPPET_CHARS).map_or(rest.len(), |(end, _)| end);
        let inner = rest[..end].split_whitespace().collect::<Vec<_>>().join(" ");
        let (before, after) =
            (if begin > 0 { "…" } else { "" }, if begin + end < text.len() { "…" } else { "" });
        format!("{before}{inner}{after}")
    }
}

/// A character as it is compared: small, and every white space a blank.
fn fold(char: char) -> impl Iterator<Item = char> {
    char.to_lowercase().map(|char| if char.is_whitespace() { ' ' } else { char })
}

/// A text as it is compared.
pub(super) fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    out.extend(text.chars().flat_map(fold));
    out
}

/// The place in a text of a place in its folded form.
fn unfolded(text: &str, place: usize) -> usize {
    let mut length = 0;
    for (at, char) in text.char_indices() {
        if length >= place {
            return at;
        }
        length += fold(char).map(char::len_utf8).sum::<usize>();
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn has(query: &str, text: &str) -> bool {
        Words::parse(query).unwrap().are_in(&[&folded(text)])
    }

    #[test]
    fn all_words_are_wanted_whatever_their_case() {
        assert!(has("Web spider", "the SPIDER has put up its web"));
        assert!(!has("web spider", "the spider"));
        assert!(has("größe", "GRÖSSE, GRÖßE"));
        assert!(has("ΟΔΌΣ", "οδόσ"));
        assert!(has("spid", "spiders"), "inside of words too");
        assert!(has("蜘蛛", "蜘蛛の巣"));
    }

    #[test]
    fn words_in_quotation_marks_are_one() {
        assert!(has("\"put  up\"", "put\nup"));
        assert!(!has("\"put up\"", "put it up"));
        assert!(has("\"open end", "the open end"));
    }

    #[test]
    fn a_search_without_words_or_with_too_many_is_refused() {
        for (query, why) in [
            ("", "at least one word"),
            (" \"\" \t", "at least one word"),
            ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17", "at most 16 words"),
            (&"x".repeat(1_001), "at most 1000 bytes"),
        ] {
            let error = Words::parse(query).unwrap_err();
            assert!(error.contains(why), "{query}: {error}");
        }
        assert!(Words::parse(&"x ".repeat(400)).is_ok(), "the same word counts once");
    }

    #[test]
    fn a_snippet_is_the_text_around_the_word() {
        let words = Words::parse("NEEDLE").unwrap();
        let text = format!("{} a Needle {}", "İ ".repeat(500), "hay ".repeat(500));
        let snippet = words.snippet(&text);
        assert!(snippet.starts_with('…') && snippet.ends_with('…'), "{snippet}");
        assert!(snippet.contains("İ a Needle hay"), "{snippet}");
        assert!(snippet.chars().count() <= SNIPPET_CHARS + 2, "{snippet}");
        assert_eq!(words.snippet("one\n\ttwo"), "one two");
        assert_eq!(words.snippet(""), "");
    }

    proptest! {
        #[test]
        fn any_text_has_a_snippet(text in any::<String>(), word in "\\PC{1,8}") {
            if let Ok(words) = Words::parse(&word) {
                let snippet = words.snippet(&text);
                prop_assert!(snippet.chars().count() <= SNIPPET_CHARS + 2);
            }
        }
    }
}
