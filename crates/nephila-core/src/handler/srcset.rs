//! `srcset` and `imagesrcset`: several URLs in one attribute.
//!
//! Parsed like in browsers (HTML standard, "parse a srcset attribute"), because a plain split at commas breaks `data:`
//! URLs and every image service that has commas in its paths.
//!
//! Invariants: at most [`CANDIDATES_MAX`] URLs come out; each is a part of the value.

/// Maximum number of candidates that are read from one attribute.
pub const CANDIDATES_MAX: usize = 256;

/// The URLs in a value, in order, as written.
pub fn urls(value: &str) -> Vec<&str> {
    let space = |c: char| matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ');
    let mut urls = Vec::new();
    let mut rest = value;
    while urls.len() < CANDIDATES_MAX {
        rest = rest.trim_start_matches(|c| space(c) || c == ',');
        if rest.is_empty() {
            break;
        }
        let end = rest.find(space).unwrap_or(rest.len());
        let (url, after) = rest.split_at(end);
        let trimmed = url.trim_end_matches(',');
        // A trailing comma ends the candidate; otherwise descriptors follow, up to a comma outside parentheses.
        rest = if trimmed.len() < url.len() { after } else { &after[descriptors_end(after)..] };
        urls.push(trimmed);
    }
    urls
}

fn descriptors_end(text: &str) -> usize {
    let mut inside = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => inside = true,
            b')' => inside = false,
            b',' if !inside => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, want: &[&str]) {
        assert_eq!(urls(value), want, "{value:?}");
    }

    #[test]
    fn candidates_are_split_as_browsers_split_them() {
        check("a.png 1x, b.png 2x", &["a.png", "b.png"]);
        check("a.png, b.png", &["a.png", "b.png"]);
        check("a.png,b.png 2x", &["a.png,b.png"]);
        check("a.png 100w,b.png 200w", &["a.png", "b.png"]);
        check(" ,, a.png , ,b.png,,, ", &["a.png", "b.png"]);
        check("a.png (x, y) 1x, b.png", &["a.png", "b.png"]);
        check("a.png (x, y", &["a.png"]);
        check("", &[]);
        check(" , ", &[]);
    }

    #[test]
    fn commas_inside_urls_stay() {
        check("/w_100,h_50/a.png 1x, /w_200,h_100/a.png 2x", &["/w_100,h_50/a.png", "/w_200,h_100/a.png"]);
        check("data:image/png;base64,AAAA 1x, b.png 2x", &["data:image/png;base64,AAAA", "b.png"]);
    }

    #[test]
    fn the_number_of_candidates_is_bounded() {
        let value = "a.png 1x, ".repeat(CANDIDATES_MAX * 3);
        assert_eq!(urls(&value).len(), CANDIDATES_MAX);
    }
}
