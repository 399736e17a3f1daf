//! Events for external programs: readable from any position, delivered at least once, each with an id.
//!
//! On one machine, events are read from the partitions' journals ([`local`]), by each consumer in its own process: a
//! crawl neither knows nor waits. In a cluster each partition's owner publishes events to a stream of the NATS servers
//! (the crate `nephila-cluster`), readable by any client.
//!
//! Both return **pages** of lines: events as JSON, and a last line with the position of the next page,
//! `{"kind":"position","position":"…"}`. `docs/events.md` describes the fields.
//!
//! Invariants: a consumer that continues from a position gets everything behind the position, or an event of kind `gap`
//! that names the missing part; a page is bounded in size, in time and in bytes read, and has a position even if no
//! event matched; no crawling process waits for a reader.

pub mod local;
mod shelf;

use std::time::Duration;

use anyhow::Context;
use nephila_core::event::{Event, Kind};
use serde::{Deserialize, Serialize};

use nephila_engine::settings::usage;

pub use shelf::Shelf;

/// Approximate size of a page in bytes; the group that exceeds this size is the last one.
pub const PAGE_BYTES: usize = 1 << 20;
/// Maximum number of bytes of events or groups read for a page, matching or not.
pub const READ_BYTES_MAX: usize = 32 << 20;
/// Maximum time of reading for a page.
pub const READ_TIME_MAX: Duration = Duration::from_secs(3);
/// Maximum waiting time for the first event of a page.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(20);
/// Polling interval while waiting.
pub const LOOK: Duration = Duration::from_millis(200);

/// Limits of a page. The group that exceeds one of them is the last one.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Number of events.
    pub events: usize,
    /// Bytes of events.
    pub bytes: usize,
    /// Bytes of groups read, matching or not.
    pub read_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds { events: usize::MAX, bytes: PAGE_BYTES, read_bytes: READ_BYTES_MAX }
    }
}

/// Start position of a reader.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum From {
    /// The first event that is kept.
    #[default]
    Beginning,
    /// The current end: only future events.
    End,
    /// Behind a position from an earlier page.
    Position(String),
}

impl From {
    /// Parses a position as written by a person or a program.
    pub fn parse(text: &str) -> From {
        match text {
            "" | "beginning" => From::Beginning,
            "end" => From::End,
            position => From::Position(position.to_owned()),
        }
    }
}

/// Filter by kind of event. An empty filter matches all; gaps always match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted(Vec<Kind>);

impl Wanted {
    /// Parses names of kinds, separated by commas.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> anyhow::Result<Wanted> {
        let mut kinds = Vec::new();
        for name in names.into_iter().flat_map(|names| names.split(',')).filter(|name| !name.is_empty()) {
            let kind = Kind::by_name(name.trim()).with_context(|| {
                let all: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
                format!("{name:?} is no kind of event; there are {}", all.join(", "))
            });
            kinds.push(kind.map_err(usage)?);
        }
        Ok(Wanted(kinds))
    }

    /// Whether the event matches.
    pub fn takes(&self, event: &Event) -> bool {
        self.0.is_empty() || event.kind == Kind::Gap || self.0.contains(&event.kind)
    }

    /// The names as a query parameter.
    pub fn names(&self) -> String {
        self.0.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")
    }
}

/// Lines, and the position behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Events, one JSON line each.
    pub lines: Vec<u8>,
    /// Position of the next page.
    pub position: String,
    /// Whether anything was read, matching or not.
    pub moved: bool,
    /// Whether a limit ended the page, so that more may follow at once.
    pub is_full: bool,
}

impl Page {
    /// The lines plus the position line.
    pub fn whole(mut self) -> Vec<u8> {
        let position = Position { kind: "position".to_owned(), position: self.position };
        serde_json::to_writer(&mut self.lines, &position).expect("strings can be written");
        self.lines.push(b'\n');
        self.lines
    }
}

/// The last line of a page.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Position {
    kind: String,
    pub(crate) position: String,
}

impl Position {
    /// Extracts the position from the last line of a page.
    pub fn of(page: &[u8]) -> Option<String> {
        let last = page.trim_ascii_end().rsplit(|byte| *byte == b'\n').next()?;
        let position: Position = serde_json::from_slice(last).ok()?;
        (position.kind == "position").then_some(position.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_ends_with_where_to_go_on() {
        let lines = Event::gap(1, 2, 3).line();
        let page = Page { lines, position: "0.1.00000002".into(), ..Page::default() };
        let whole = page.whole();
        assert_eq!(whole.iter().filter(|byte| **byte == b'\n').count(), 2);
        assert_eq!(Position::of(&whole).as_deref(), Some("0.1.00000002"));
        assert_eq!(Position::of(&Event::gap(1, 2, 3).line()), None);
        assert_eq!(Position::of(b""), None);
    }

    #[test]
    fn kinds_are_named_and_a_wrong_one_is_said() {
        let wanted = Wanted::parse(["story,changed", "failed"]).unwrap();
        assert_eq!(wanted.names(), "story,changed,failed");
        let event = |kind| Event { kind, ..Event::default() };
        assert!(wanted.takes(&event(Kind::Story)) && wanted.takes(&event(Kind::Gap)));
        assert!(!wanted.takes(&event(Kind::Fetched)));
        assert!(Wanted::default().takes(&event(Kind::Fetched)));
        let error = Wanted::parse(["stories"]).unwrap_err();
        assert!(format!("{error:#}").contains("feed-silent"), "{error:#}");
    }
}
