//! The `Link` header field: links in the head of a response (RFC 8288).
//!
//! One field may hold several links and there may be several fields. A malformed link is skipped up to the next comma
//! outside quotes, and the others are kept.
//!
//! Invariant: at most [`LINKS_MAX`] links and [`FIELD_BYTES_MAX`] bytes are read from one field.

/// Maximum number of links that are read from one field.
pub const LINKS_MAX: usize = 128;

/// Maximum length of a field; a longer one is cut. Heads are limited, but not this tightly.
pub const FIELD_BYTES_MAX: usize = 64 * 1024;

/// One link, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkValue {
    /// The text between `<` and `>`.
    pub target: String,
    /// The first `rel`; a link without one is ignored.
    pub rel: String,
    /// The `type` of the target.
    pub media: Option<String>,
    /// The page that the link starts from, if not this one.
    pub anchor: Option<String>,
}

/// Reads one field.
pub fn parse(field: &str) -> Vec<LinkValue> {
    let mut end = field.len().min(FIELD_BYTES_MAX);
    while !field.is_char_boundary(end) {
        end -= 1;
    }
    let mut rest = &field[..end];
    let mut links = Vec::new();
    while links.len() < LINKS_MAX {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix('<') else {
            rest = &rest[item_end(rest)..];
            continue;
        };
        let Some(close) = after.find('>') else { break };
        let mut link = LinkValue { target: after[..close].trim().to_owned(), ..Default::default() };
        rest = &after[close + 1..];
        let mut has_rel = false;
        while let Some(parameters) = rest.trim_start_matches([' ', '\t']).strip_prefix(';') {
            let (name, value, after) = parameter(parameters);
            rest = after;
            match name.to_ascii_lowercase().as_str() {
                "rel" if !has_rel => {
                    link.rel = value;
                    has_rel = true;
                }
                "type" if link.media.is_none() => link.media = Some(value),
                "anchor" if link.anchor.is_none() => link.anchor = Some(value),
                _ => {}
            }
        }
        links.push(link);
        // Text here before the next comma belongs to no parameter.
        rest = &rest[item_end(rest)..];
    }
    links
}

/// One parameter after its `;`: name, unquoted value, and the rest of the text.
fn parameter(text: &str) -> (&str, String, &str) {
    let text = text.trim_start_matches([' ', '\t']);
    let end = text.find(['=', ';', ',']).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let Some(rest) = rest.strip_prefix('=') else { return (name.trim_end(), String::new(), rest) };
    let rest = rest.trim_start_matches([' ', '\t']);
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find([';', ',']).unwrap_or(rest.len());
        return (name.trim_end(), rest[..end].trim_end().to_owned(), &rest[end..]);
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return (name.trim_end(), value, &quoted[at + 1..]),
            '\\' => value.extend(chars.next().map(|(_, char)| char)),
            char => value.push(char),
        }
    }
    // The quote never closes: the rest of the field is the value.
    (name.trim_end(), value, "")
}

/// The end of a malformed item: the next comma outside quotes and brackets.
fn item_end(text: &str) -> usize {
    let (mut quoted, mut bracketed, mut escaped) = (false, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'<' if !quoted => bracketed = true,
            b'>' if !quoted => bracketed = false,
            b',' if !quoted && !bracketed => return at,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(field: &str, want: &[(&str, &str)]) {
        let found = parse(field);
        let found: Vec<(&str, &str)> = found.iter().map(|l| (l.target.as_str(), l.rel.as_str())).collect();
        assert_eq!(found, want, "{field:?}");
    }

    #[test]
    fn several_links_stand_in_one_field() {
        check("</a>; rel=next", &[("/a", "next")]);
        check("</a>; rel=\"next\", </b>;rel=prev", &[("/a", "next"), ("/b", "prev")]);
        check("</a,b>; title=\"x, y\"; rel=\"canonical\" , </c>", &[("/a,b", "canonical"), ("/c", "")]);
        check("</a> ; REL = \"a b\"", &[("/a", "a b")]);
        check("</a>; rel=first; rel=second", &[("/a", "first")]);
        check("</a>; title=\"say \\\"hi\\\"\"; rel=next", &[("/a", "next")]);
        check("", &[]);
    }

    #[test]
    fn broken_links_do_not_take_the_others_with_them() {
        check("nonsense, </a>; rel=next", &[("/a", "next")]);
        check("</a>; rel=next garbage, </b>; rel=prev", &[("/a", "next garbage"), ("/b", "prev")]);
        check("</a>; rel=\"next", &[("/a", "next")]);
        check("</a; rel=next", &[]);
        check("</a>;;;rel=next,,,</b>;rel=x", &[("/a", "next"), ("/b", "x")]);
        check("\"<x>, </a>\", </b>; rel=up", &[("/b", "up")]);
        check("</a> junk; rel=next, </b>; rel=up", &[("/a", ""), ("/b", "up")]);
    }

    #[test]
    fn type_and_anchor_are_kept() {
        let links = parse("</f>; rel=alternate; type=\"application/rss+xml\"; anchor=\"/other\"");
        assert_eq!(links[0].media.as_deref(), Some("application/rss+xml"));
        assert_eq!(links[0].anchor.as_deref(), Some("/other"));
    }

    proptest! {
        #[test]
        fn anything_can_be_read_within_limits(field in "[<>;,=\"\\\\ a-z/é]{0,200}") {
            prop_assert!(parse(&field).len() <= LINKS_MAX);
        }
    }
}
