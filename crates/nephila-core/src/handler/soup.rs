//! A tolerant XML reader: tags and texts in document order, whatever is malformed around them.
//!
//! A bare `&` is text, end tags need no start, and after malformed markup reading continues at the next tag. A [`Sink`]
//! gets starts, ends and texts, and never an error. Sitemaps, feeds and OPML lists are read with this reader.
//!
//! Invariants: references are never expanded, except the five of XML and characters by number, and, unless a sink
//! overrides this, the names that every browser knows; the parser remembers a bounded number of open tags; no byte is
//! read more than a fixed number of times, and the deadline is checked by bytes, however few tags hold them.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

/// The consumer of the events of a text.
pub(crate) trait Sink {
    /// A start tag, and whether the tag is self-closing.
    fn start(&mut self, tag: &BytesStart<'_>, is_empty: bool);
    /// An end tag, by its local name.
    fn end(&mut self, name: &str);
    /// Text.
    fn text(&mut self, text: &str);
    /// A reference that is not predefined in XML, without its `&` and `;`.
    fn reference(&mut self, name: &str) {
        let whole = format!("&{name};");
        if name.len() <= NAME_BYTES_MAX {
            let known = htmlize::unescape(whole.as_str());
            if known != whole.as_str() {
                return self.text(&known);
            }
        }
        if is_name(name) {
            self.unknown(name);
        } else {
            // An unescaped `&`, with a `;` further on.
            self.text(&whole);
        }
    }
    /// An unknown reference, without its `&` and `;`.
    fn unknown(&mut self, _name: &str) {}
    /// A document type, which may define references of its own.
    fn document_type(&mut self) {}
    /// The markup at this position is malformed.
    fn broken(&mut self);
    /// Whether the sink wants no more. Called before each tag.
    fn is_done(&mut self) -> bool;
}

/// How the reading ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The whole text was read.
    All,
    /// Behind malformed markup no more tag was found.
    Lost,
    /// The sink wants no more, or the deadline has passed.
    Early {
        /// The deadline has passed.
        time: bool,
    },
}

/// Reads a text that begins with a tag. The parser remembers every open tag; above `open_max` a new parser continues,
/// since sinks do not depend on nesting.
pub(crate) fn read(
    text: &str,
    open_max: usize,
    sink: &mut dyn Sink,
    time_is_up: &mut dyn FnMut() -> bool,
) -> End {
    let mut rest = text;
    for _ in 0..RESTARTS_MAX {
        match run(rest, open_max, sink, time_is_up) {
            Run::Over => return End::All,
            Run::Done { time } => return End::Early { time },
            Run::Deep(at) => rest = rest.get(at..).unwrap_or_default(),
            // Malformed markup begins with a `<`; reading continues at the next one.
            Run::Broken(at) => {
                sink.broken();
                let after = rest.get(at + 1..).unwrap_or_default();
                let Some(next) = after.find('<') else { return End::Lost };
                rest = &after[next..];
            }
        }
    }
    End::Lost
}

/// How a run of the parser ended.
enum Run {
    /// The end of the text.
    Over,
    /// The sink wants no more, or the deadline has passed.
    Done { time: bool },
    /// Too many tags are open; a new parser continues at this byte.
    Deep(usize),
    /// The tag at this byte is malformed.
    Broken(usize),
}

fn run(text: &str, open_max: usize, sink: &mut dyn Sink, time_is_up: &mut dyn FnMut() -> bool) -> Run {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.allow_dangling_amp = true;
    config.allow_unmatched_ends = true;
    config.check_end_names = false;
    let (mut open, mut next_look) = (0usize, BYTES_PER_LOOK);
    loop {
        if reader.buffer_position() >= next_look {
            next_look = reader.buffer_position() + BYTES_PER_LOOK;
            if time_is_up() {
                return Run::Done { time: true };
            }
        }
        if sink.is_done() {
            return Run::Done { time: false };
        }
        match reader.read_event() {
            Ok(Event::Start(tag)) => {
                sink.start(&tag, false);
                open += 1;
                if open > open_max {
                    return Run::Deep(usize::try_from(reader.buffer_position()).unwrap_or(usize::MAX));
                }
            }
            Ok(Event::Empty(tag)) => sink.start(&tag, true),
            Ok(Event::End(tag)) => {
                open = open.saturating_sub(1);
                sink.end(tag.local_name().as_ref());
            }
            Ok(Event::Text(text)) => sink.text(&text.into_inner()),
            Ok(Event::CData(text)) => sink.text(&text.into_inner()),
            Ok(Event::GeneralRef(reference)) => {
                let name = reference.into_inner();
                match character(&name) {
                    Some(char) => sink.text(char.encode_utf8(&mut [0; 4])),
                    None => sink.reference(&name),
                }
            }
            Ok(Event::DocType(_)) => sink.document_type(),
            Ok(Event::Eof) => return Run::Over,
            Ok(_) => {}
            // These are complete already; the parser continues behind them.
            Err(quick_xml::Error::IllFormed(_)) => sink.broken(),
            Err(_) => return Run::Broken(usize::try_from(reader.error_position()).unwrap_or(usize::MAX)),
        }
    }
}

/// Whether this can be the name of a reference.
pub(crate) fn is_name(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b))
}

/// An attribute by its local name, references decoded. None if the value is too long.
pub(crate) fn attribute(tag: &BytesStart<'_>, name: &str) -> Option<String> {
    let mut attributes = tag.html_attributes();
    attributes.with_checks(false);
    // Malformed attributes count towards the limit too.
    let mut found = attributes.take(ATTRIBUTES_MAX).flatten();
    let found = found.find(|a| a.key.local_name().as_ref() == name)?;
    (found.value.len() <= VALUE_BYTES_MAX).then(|| unescape(&found.value))
}

/// Decodes the references of an attribute; unknown ones stay as written.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        // No further than a reference can be long, so a text of nothing but `&` takes linear time.
        let near = &rest.as_bytes()[1..rest.len().min(2 + REFERENCE_BYTES_MAX)];
        let end = memchr::memchr(b';', near);
        match end.and_then(|end| Some((character(&rest[1..=end])?, end))) {
            Some((char, end)) => {
                out.push(char);
                rest = &rest[end + 2..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The character of a reference that is predefined in XML.
fn character(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

/// Maximum number of times that reading continues after malformed markup, or under too many open tags.
const RESTARTS_MAX: usize = 64;

/// The longest name that browsers know has 32 bytes.
const NAME_BYTES_MAX: usize = 32;

/// Maximum length of a reference in an attribute between its `&` and its `;`. A character by number takes ten.
const REFERENCE_BYTES_MAX: usize = 64;

/// The deadline is checked once in this number of bytes, or behind the tag or text in which they end.
const BYTES_PER_LOOK: u64 = 16 * 1024;

/// Maximum number of attributes of one tag that are read.
const ATTRIBUTES_MAX: usize = 64;

/// Maximum length of the value of an attribute; a longer value is no URL, no title and no date.
const VALUE_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_in_attributes_are_decoded_and_what_is_none_stays() {
        for (text, want) in [
            ("a&amp;b", "a&b"),
            ("&lt;&#65;&#x42;&quot;", "<AB\""),
            ("&&amp;&", "&&&"),
            ("&unknown;&amp", "&unknown;&amp"),
            ("&;&é;", "&;&é;"),
            ("", ""),
        ] {
            assert_eq!(unescape(text), want, "{text:?}");
        }
        let far = format!("&#{}65;", "0".repeat(REFERENCE_BYTES_MAX));
        assert_eq!(unescape(&far), far, "no reference is so long");
        let near = format!("&#{}65;é", "0".repeat(REFERENCE_BYTES_MAX - 4));
        assert_eq!(unescape(&near), "Aé");
    }
}
