//! Extracts the text of a page from its markup: simple, in one pass, for any markup.
//!
//! Invariants: the result is never longer than the page, and the running time is linear.

/// Elements whose content is not text of the page.
const HIDDEN: [&str; 7] = ["script", "style", "template", "noscript", "iframe", "svg", "head"];
/// Elements that begin a new line.
const BLOCKS: [&str; 37] = [
    "address",
    "article",
    "aside",
    "blockquote",
    "br",
    "caption",
    "dd",
    "details",
    "dialog",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "li",
    "main",
    "nav",
    "ol",
    "option",
    "p",
    "pre",
    "section",
    "table",
    "tr",
    "ul",
    "title",
];
/// Maximum length of a character reference: `&CounterClockwiseContourIntegral;` is not supported.
const REFERENCE_BYTES_MAX: usize = 10;

/// The text of a page. The title comes first.
pub fn text(page: &str) -> String {
    let mut out = Lines::default();
    let mut rest = page;
    // The element whose content is left out, and whether a title inside is kept.
    let mut hidden: Option<&'static str> = None;
    let mut in_title = false;
    while let Some(at) = rest.find('<') {
        if hidden.is_none() || in_title {
            out.push(&rest[..at]);
        }
        rest = &rest[at..];
        let Some(tag) = Tag::parse(rest) else {
            if hidden.is_none() || in_title {
                out.push("<");
            }
            rest = &rest[1..];
            continue;
        };
        rest = &rest[tag.length..];
        match hidden {
            Some(name) if tag.closes && tag.is(name) => hidden = None,
            // A head without its end ends where the body begins.
            Some("head") if tag.is("body") => hidden = None,
            Some("head") if tag.is("title") => in_title = !tag.closes,
            Some("head") if !tag.closes && (tag.is("script") || tag.is("style")) => {
                rest = after_end(rest, if tag.is("script") { "script" } else { "style" });
            }
            Some(_) => {}
            None if !tag.closes && (tag.is("script") || tag.is("style")) => {
                rest = after_end(rest, if tag.is("script") { "script" } else { "style" });
            }
            None if !tag.closes && !tag.empty => {
                hidden = HIDDEN.iter().copied().find(|name| tag.is(name));
            }
            None => {}
        }
        if (hidden.is_none() || hidden == Some("head")) && BLOCKS.iter().any(|name| tag.is(name)) {
            out.end_line();
        } else if tag.is("td") || tag.is("th") {
            out.push(" ");
        }
    }
    if hidden.is_none() || in_title {
        out.push(rest);
    }
    out.finish()
}

/// The content of the first `title` element before the body, in one line.
pub fn title(page: &str) -> String {
    let mut out = Lines::default();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        let Some(tag) = Tag::parse(rest) else {
            rest = &rest[1..];
            continue;
        };
        rest = &rest[tag.length..];
        if tag.is("body") || tag.is("svg") {
            break;
        }
        if !tag.closes && (tag.is("script") || tag.is("style")) {
            rest = after_end(rest, if tag.is("script") { "script" } else { "style" });
        } else if !tag.closes && tag.is("title") {
            let content = &rest[..rest.len() - after_end(rest, "title").len()];
            out.push(super::cut(content, super::FIELD_BYTES_MAX));
            break;
        }
    }
    out.text
}

/// The text behind the end tag of a raw text element.
fn after_end<'a>(text: &'a str, name: &str) -> &'a str {
    let mut from = 0;
    while let Some(at) = text[from..].find("</") {
        let tag = &text[from + at..];
        let after = tag.as_bytes().get(2 + name.len());
        let named =
            tag.as_bytes()[2..].get(..name.len()).is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()));
        if named && after.is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>')) {
            return tag;
        }
        from += at + 2;
    }
    ""
}

struct Tag<'a> {
    name: &'a str,
    closes: bool,
    empty: bool,
    length: usize,
}

impl Tag<'_> {
    /// Parses a tag or a comment at the start of the text. None for plain text.
    fn parse(text: &str) -> Option<Tag<'_>> {
        if let Some(comment) = text.strip_prefix("<!--") {
            let length = comment.find("-->").map_or(text.len(), |end| 4 + end + 3);
            return Some(Tag { name: "", closes: false, empty: true, length });
        }
        let closes = text.starts_with("</");
        let inner = &text[if closes { 2 } else { 1 }..];
        let first = inner.bytes().next()?;
        if !first.is_ascii_alphabetic() {
            if !matches!(first, b'!' | b'?') && !closes {
                return None;
            }
            let length = text.find('>').map_or(text.len(), |end| end + 1);
            return Some(Tag { name: "", closes, empty: true, length });
        }
        let end = inner.bytes().position(|byte| byte.is_ascii_whitespace() || byte == b'/' || byte == b'>');
        let name = &inner[..end.unwrap_or(inner.len())];
        // A `>` in quotes does not end a tag.
        let mut quote = None;
        for (at, byte) in inner.bytes().enumerate().skip(name.len()) {
            match (quote, byte) {
                (Some(open), byte) if byte == open => quote = None,
                (Some(_), _) => {}
                (None, b'"' | b'\'') => quote = Some(byte),
                (None, b'>') => {
                    let empty = at > 0 && inner.as_bytes()[at - 1] == b'/';
                    return Some(Tag { name, closes, empty, length: text.len() - inner.len() + at + 1 });
                }
                (None, _) => {}
            }
        }
        Some(Tag { name, closes, empty: false, length: text.len() })
    }

    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

/// Text in lines, with collapsed white space.
#[derive(Default)]
struct Lines {
    text: String,
    space: bool,
}

impl Lines {
    fn push(&mut self, text: &str) {
        let mut rest = text;
        while let Some(char) = rest.chars().next() {
            let (char, length) = match char {
                '&' => reference(rest).unwrap_or(('&', 1)),
                char => (char, char.len_utf8()),
            };
            rest = &rest[length..];
            if char.is_whitespace() || char.is_control() {
                self.space = true;
                continue;
            }
            if self.space && !self.text.is_empty() && !self.text.ends_with('\n') {
                self.text.push(' ');
            }
            self.space = false;
            self.text.push(char);
        }
    }

    fn end_line(&mut self) {
        self.space = false;
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
    }

    fn finish(mut self) -> String {
        self.end_line();
        self.text
    }
}

/// The character of a reference at the start of the text, and the length of the reference.
fn reference(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(REFERENCE_BYTES_MAX + 1).position(|byte| byte == b';')?;
    let name = text.get(1..end)?;
    let char = match name.strip_prefix('#') {
        Some(number) => {
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        None => match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            "nbsp" => '\u{a0}',
            "copy" => '©',
            "reg" => '®',
            "trade" => '™',
            "hellip" => '…',
            "mdash" => '—',
            "ndash" => '–',
            "lsquo" => '‘',
            "rsquo" => '’',
            "ldquo" => '“',
            "rdquo" => '”',
            "laquo" => '«',
            "raquo" => '»',
            "euro" => '€',
            "auml" => 'ä',
            "ouml" => 'ö',
            "uuml" => 'ü',
            "Auml" => 'Ä',
            "Ouml" => 'Ö',
            "Uuml" => 'Ü',
            "szlig" => 'ß',
            "eacute" => 'é',
            "egrave" => 'è',
            "agrave" => 'à',
            "ccedil" => 'ç',
            _ => return None,
        },
    };
    Some((char, end + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{text, title};

    #[test]
    fn markup_goes_and_text_stays() {
        for (page, want) in [
            (
                "<html><head><title>A &amp; B</title><style>p{}</style></head><body><p>one</p><p>two",
                "A & B\none\ntwo\n",
            ),
            ("a<br>b <b>c</b>d  \n e", "a\nb cd e\n"),
            ("<script>if (a<b) x='</p>'</script>x<!-- <p>no</p> -->y", "xy\n"),
            (
                "<a title='1 > 0'>link</a> 1 < 2 &lt;b&gt; &#65;&#x42; &nosuch; &",
                "link 1 < 2 <b> AB &nosuch; &\n",
            ),
            ("<table><tr><td>1<td>2<tr><td>3</table>", "1 2\n3\n"),
            ("<noscript>no</noscript>yes", "yes\n"),
            ("<head><meta charset=x><body>late", "late\n"),
            ("", ""),
        ] {
            assert_eq!(text(page), want, "{page}");
        }
    }

    #[test]
    fn the_title_is_the_first_one_before_the_body() {
        for (page, want) in [
            ("<head><title> A &amp;\n B </title><title>no</title>", "A & B"),
            ("<script>'<title>no</title>'</script><title>yes", "yes"),
            ("<body><svg><title>no</title></svg>", ""),
            ("<p>x</p><svg><title>no</title></svg>", ""),
            ("<head></head><title>late</title>", "late"),
            ("no", ""),
        ] {
            assert_eq!(title(page), want, "{page}");
        }
        assert!(title(&format!("<title>{}", "x".repeat(100_000))).len() <= 1_000);
    }

    #[test]
    fn an_endless_tag_or_script_ends_with_the_page() {
        for page in ["x<p title=\"", "x<script>", "x<!-- ", "x<", "x</", "x<p"] {
            assert!(text(page).starts_with('x'), "{page}");
        }
    }

    #[test]
    fn a_page_of_open_tags_is_read_in_time() {
        let page = "</scr".repeat(200_000);
        let began = std::time::Instant::now();
        text(&format!("<script>{page}"));
        text(&"<p \"".repeat(200_000));
        text(&"<!x".repeat(200_000));
        text(&"&#x".repeat(200_000));
        assert!(began.elapsed() < std::time::Duration::from_secs(5));
    }

    proptest! {
        #[test]
        fn any_page_has_a_text(page in any::<String>(), marked in "[<>/a-z!&;\"' -]{0,200}") {
            for page in [page, marked] {
                prop_assert!(text(&page).len() <= page.len() + 1);
            }
        }
    }
}
