//! Patterns of `include` and `exclude`: text that stands somewhere in a URL, with `*` for anything.
//!
//! A pattern is searched for anywhere in the URL: `/cart` finds `https://a.example/cart?x=1`. A leading `^` anchors the
//! pattern at the start of the URL and a trailing `$` at the end, as in regular expressions:
//! `^https://*.example/*.pdf$`. There is no other syntax, so no pattern can be slow, and none has a hidden meaning.
//!
//! A pattern is compared with the URL's key, in which escapes have one spelling: `/%61dmin` does not get past `/admin`.
//! A pattern with letters outside ASCII, a space or a lower-case escape is converted into the same form.
//!
//! Invariant: matching never backtracks, so the work is linear in the URL.

use crate::url::percent;

use super::ScopeError;

/// Maximum length of a pattern in bytes.
pub const PATTERN_BYTES_MAX: usize = 2048;

/// A parsed pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: Box<str>,
    /// The texts between the stars, in order. Never empty.
    pieces: Box<[Box<[u8]>]>,
    from_start: bool,
    to_end: bool,
}

impl Pattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<Pattern, ScopeError> {
        if text.len() > PATTERN_BYTES_MAX {
            return Err(ScopeError::PatternTooLong);
        }
        let (body, from_start) = text.strip_prefix('^').map_or((text, false), |body| (body, true));
        let (body, to_end) = body.strip_suffix('$').map_or((body, false), |body| (body, true));
        // An empty pattern would match everything, and is hardly intended.
        if body.is_empty() {
            return Err(ScopeError::PatternEmpty);
        }
        let uniform = uniform(body);
        let pieces = uniform.split(|b| *b == b'*').map(Into::into).collect();
        Ok(Pattern { text: text.into(), pieces, from_start, to_end })
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether this key matches.
    pub fn matches(&self, key: &str) -> bool {
        let (first, others) = self.pieces.split_first().expect("splitting gives one piece at least");
        let key = key.as_bytes();
        let Some((last, middle)) = others.split_last() else {
            return match (self.from_start, self.to_end) {
                (true, true) => key == &**first,
                (true, false) => key.starts_with(first),
                (false, true) => key.ends_with(first),
                (false, false) => find(key, first).is_some(),
            };
        };
        let rest = if self.from_start { key.strip_prefix(&**first) } else { find(key, first) };
        // Each piece is matched at its first position: a later position could only leave less for the following pieces.
        let rest = middle.iter().try_fold(rest, |rest, piece| Some(rest.and_then(|rest| find(rest, piece))));
        let Some(rest) = rest.flatten() else { return false };
        if self.to_end { rest.ends_with(last) } else { find(rest, last).is_some() }
    }
}

/// The text behind the first match of the piece.
fn find<'a>(text: &'a [u8], piece: &[u8]) -> Option<&'a [u8]> {
    memchr::memmem::find(text, piece).map(|at| &text[at + piece.len()..])
}

/// Converts to the spelling of a key: escapes in upper case, unreserved characters plain, non-ASCII and spaces escaped.
fn uniform(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match percent::triplet(bytes, at) {
            Some(byte) if percent::is_unreserved(byte) => out.push(byte),
            Some(byte) => out.extend(percent::encoded(byte)),
            None if bytes[at].is_ascii_graphic() => out.push(bytes[at]),
            None => out.extend(percent::encoded(bytes[at])),
        }
        at += if percent::triplet(bytes, at).is_some() { 3 } else { 1 };
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::url::CrawlUrl;

    fn matches(pattern: &str, url: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(CrawlUrl::parse(url).unwrap().key())
    }

    #[test]
    fn a_pattern_is_found_where_it_says() {
        let url = "https://shop.example/de/cart/list.pdf?page=2";
        for yes in [
            "/cart",
            "shop.example",
            "cart/*.pdf",
            "*",
            "de*list*2",
            "^https://shop.example/",
            "^https://*/cart/",
            "page=2$",
            "^https://*.pdf?page=*$",
            "^*$",
            ".pdf*$",
            "**cart**",
        ] {
            assert!(matches(yes, url), "{yes}");
        }
        for no in
            ["/Cart", "^/cart", "cart$", "list*de", "^https://shop.example/$", "cart*cart", "^*page$", "xyz"]
        {
            assert!(!matches(no, url), "{no}");
        }
    }

    #[test]
    fn url_13_no_spelling_gets_past_a_pattern() {
        assert!(matches("/admin", "http://a.test/%61dm%69n"));
        assert!(matches("/%61dmin", "http://a.test/admin"));
        assert!(matches("/b\u{fc}cher x", "http://a.test/b%c3%bccher%20x"));
        assert!(matches("/a%2fb", "http://a.test/a%2Fb"));
    }

    #[test]
    fn a_star_takes_no_byte_twice() {
        assert!(!matches("^http://a.test/ab*ba$", "http://a.test/aba"));
        assert!(matches("^http://a.test/ab*ba$", "http://a.test/abba"));
    }

    #[test]
    fn patterns_that_mean_nothing_are_refused() {
        for text in ["", "^", "$", "^$"] {
            assert_eq!(Pattern::parse(text), Err(ScopeError::PatternEmpty), "{text}");
        }
        assert_eq!(Pattern::parse(&"a".repeat(PATTERN_BYTES_MAX + 1)), Err(ScopeError::PatternTooLong));
    }

    #[test]
    fn a_pattern_of_stars_is_not_slow() {
        let pattern = Pattern::parse(&"a*".repeat(1_000)).unwrap();
        let key = format!("http://a.test/{}b", "a".repeat(8_000));
        let started = std::time::Instant::now();
        (0..100).for_each(|_| assert!(pattern.matches(&key)));
        assert!(started.elapsed().as_secs() < 10);
    }

    /// The plain definition, with backtracking.
    fn slow(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|at| slow(rest, &text[at..])),
            Some((byte, rest)) => text.first() == Some(byte) && slow(rest, &text[1..]),
        }
    }

    proptest! {
        #[test]
        fn matching_means_what_the_slow_way_means(body in "[ab*]{1,6}", text in "[ab]{0,8}", start: bool, end: bool) {
            let pattern = format!("{}{body}{}", if start { "^" } else { "" }, if end { "$" } else { "" });
            let full = format!("{}{body}{}", if start { "" } else { "*" }, if end { "" } else { "*" });
            prop_assert_eq!(
                Pattern::parse(&pattern).unwrap().matches(&text), slow(full.as_bytes(), text.as_bytes())
            );
        }
    }
}
