//! Events for programs of others: what happened, from any point on, at least once, each with an id.
//!
//! On one machine events are read from the partitions' journals ([`local`]), by whoever wants them and in a process of
//! their own: a crawl neither knows nor waits. In a cluster each partition's owner puts them into a stream of the NATS
//! servers (`node::events`), where any client reads them; [`stream`] reads it for our own commands and the API.
//!
//! Both give **pages** of lines: events as JSON, and behind them a line that says where to go on,
//! `{"kind":"position","position":"…"}`. `docs/events.md` says what stands in them.
//!
//! What always holds: whoever goes on from a position sees everything behind it, or an event of kind `gap` that says what
//! is gone; a page is bounded in size, in time and in what is read for it, and where it ended so far is said, also if
//! nothing in it was wanted; nobody who crawls waits for anybody who reads.

pub(crate) mod local;
mod shelf;
pub(crate) mod stream;

use std::time::Duration;

use anyhow::Context;
use nephila_core::event::{Event, Kind};
use serde::{Deserialize, Serialize};

use crate::settings::usage;

pub(crate) use shelf::Shelf;

/// A page has about so many bytes; the events of one group more are its end.
pub(crate) const PAGE_BYTES: usize = 1 << 20;
/// A page ends when so many bytes of events or of groups were read for it, wanted or not.
pub(crate) const READ_BYTES_MAX: usize = 32 << 20;
/// And when it was read for this long.
pub(crate) const READ_TIME_MAX: Duration = Duration::from_secs(3);
/// A page that has nothing is waited for at most this long.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(20);
/// How often it is looked meanwhile.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// Where to begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum From {
    /// With the first event that is kept.
    #[default]
    Beginning,
    /// With what happens from now on.
    End,
    /// Behind a position that was given before.
    Position(String),
}

impl From {
    /// As a person or a program writes it.
    pub(crate) fn parse(text: &str) -> From {
        match text {
            "" | "beginning" => From::Beginning,
            "end" => From::End,
            position => From::Position(position.to_owned()),
        }
    }
}

/// Which events are wanted. All, if none are named; gaps in any case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted(Vec<Kind>);

impl Wanted {
    /// Kinds by their names, several with commas between them.
    pub(crate) fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> anyhow::Result<Wanted> {
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

    /// Is it wanted?
    pub(crate) fn takes(&self, event: &Event) -> bool {
        self.0.is_empty() || event.kind == Kind::Gap || self.0.contains(&event.kind)
    }

    /// As a parameter of a URL.
    pub(crate) fn names(&self) -> String {
        self.0.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")
    }
}

/// Lines, and where to go on behind them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// Events, each with its line's end.
    pub(crate) lines: Vec<u8>,
    /// Where to go on.
    pub(crate) position: String,
    /// Was anything read, wanted or not?
    pub(crate) moved: bool,
}

impl Page {
    /// With the line that says where to go on.
    pub(crate) fn whole(mut self) -> Vec<u8> {
        let position = Position { kind: "position".to_owned(), position: self.position };
        serde_json::to_writer(&mut self.lines, &position).expect("strings can be written");
        self.lines.push(b'\n');
        self.lines
    }
}

/// The last line of a page.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Position {
    kind: String,
    pub(crate) position: String,
}

impl Position {
    /// The position that a page ends with.
    pub(crate) fn of(page: &[u8]) -> Option<String> {
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
        let page = Page { lines: Event::gap(1, 2, 3).line(), position: "0.1.00000002".into(), moved: true };
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
