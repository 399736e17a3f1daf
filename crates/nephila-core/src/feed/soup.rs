//! XML that is not quite: tags and texts in the order in which they stand, whatever is wrong around them.
//!
//! A bare `&` is text, end tags need no start, and after markup that makes no sense reading goes on at the next tag.
//! Whoever reads gets starts, ends and texts, and never an error.
//!
//! What always holds: references are never expanded, except the five of XML and characters by number, and those names
//! that every browser knows; the parser's own memory does not grow with the nesting.

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};

use crate::handler::sitemap::xml::character;

/// Whoever is told what stands in the text.
pub(super) trait Sink {
    /// A tag, and whether it ends itself.
    fn start(&mut self, tag: &BytesStart<'_>, is_empty: bool);
    /// An end tag, by the last part of its name.
    fn end(&mut self, name: &str);
    /// Text.
    fn text(&mut self, text: &str);
    /// A reference that stands for nothing we know, without its `&` and `;`.
    fn unknown(&mut self, name: &str);
    /// Something was wrong just here.
    fn broken(&mut self);
    /// Is it enough? Asked before each tag.
    fn is_done(&mut self) -> bool;
}

/// How the text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Everything was read.
    All,
    /// It was enough, or time was up.
    Early {
        /// It was the time.
        time: bool,
    },
}

/// Reads a text that begins with a tag.
pub(super) fn read(text: &str, sink: &mut dyn Sink, time_is_up: &mut dyn FnMut() -> bool) -> End {
    let mut rest = text;
    for _ in 0..RESTARTS_MAX {
        match run(rest, sink, time_is_up) {
            Run::Over => return End::All,
            Run::Done { time } => return End::Early { time },
            Run::Deep(at) => rest = rest.get(at..).unwrap_or_default(),
            // What could not be read begins with a `<`; the next one is a new chance.
            Run::Broken(at) => {
                sink.broken();
                let after = rest.get(at + 1..).unwrap_or_default();
                let Some(next) = after.find('<') else { return End::All };
                rest = &after[next..];
            }
        }
    }
    End::All
}

enum Run {
    Over,
    Done { time: bool },
    Deep(usize),
    Broken(usize),
}

fn run(text: &str, sink: &mut dyn Sink, time_is_up: &mut dyn FnMut() -> bool) -> Run {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.allow_dangling_amp = true;
    config.allow_unmatched_ends = true;
    config.check_end_names = false;
    let (mut open, mut events) = (0usize, 0usize);
    loop {
        events += 1;
        if events % EVENTS_PER_LOOK == 0 && time_is_up() {
            return Run::Done { time: true };
        }
        if sink.is_done() {
            return Run::Done { time: false };
        }
        match reader.read_event() {
            Ok(Event::Start(tag)) => {
                sink.start(&tag, false);
                open += 1;
                if open > OPEN_MAX {
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
            Ok(Event::GeneralRef(reference)) => reference_in(&reference.into_inner(), sink),
            Ok(Event::Eof) => return Run::Over,
            Ok(_) => {}
            // These are over already; the parser goes on behind them.
            Err(quick_xml::Error::IllFormed(_)) => sink.broken(),
            Err(_) => return Run::Broken(usize::try_from(reader.error_position()).unwrap_or(usize::MAX)),
        }
    }
}

/// A reference, without its `&` and `;`.
fn reference_in(name: &str, sink: &mut dyn Sink) {
    if let Some(char) = character(name) {
        return sink.text(char.encode_utf8(&mut [0; 4]));
    }
    let whole = format!("&{name};");
    if name.len() <= NAME_BYTES_MAX {
        let known = htmlize::unescape(whole.as_str());
        if known != whole.as_str() {
            return sink.text(&known);
        }
    }
    if name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:".contains(&b)) {
        sink.unknown(name);
    } else {
        // An `&` that somebody forgot to escape, with a `;` further on.
        sink.text(&whole);
    }
}

/// So often reading goes on after markup that makes no sense, or under too many open tags.
const RESTARTS_MAX: usize = 64;

/// The parser remembers every open tag; with more than this a new one goes on.
const OPEN_MAX: usize = 200_000;

/// The longest name that browsers know has 32 bytes.
const NAME_BYTES_MAX: usize = 32;

/// The clock is looked at once in so many tags and texts.
const EVENTS_PER_LOOK: usize = 1_024;
