//! Events of a cluster, read from their stream on the servers. A position is the sequence number of a message: `s123`.
//!
//! Invariants: a page has whole messages; messages that the stream dropped unread are reported as a gap, and so is a
//! position beyond the end of the stream, which is then read from its beginning.

use std::time::Duration;

use anyhow::Context;
use nephila_core::event::{Event, Kind};
use nephila_log::jetstream::{EventReader, JetEvents};
use tokio::time::{Instant, sleep};

use nephila_api::event_pages::{From, PAGE_BYTES, Page, READ_BYTES_MAX, READ_TIME_MAX, Wanted};
use nephila_engine::settings::usage;

/// Maximum number of messages per request.
pub const MESSAGES_AT_ONCE: usize = 64;
/// Number of checks, with [`END_PAUSE`] between them, of a stream that seems to end too early: a newly elected leader
/// may not know all messages yet.
pub const END_LOOKS: u32 = 3;
/// Delay between two checks of a stream that seems to end too early.
pub const END_PAUSE: Duration = Duration::from_secs(1);

/// Start position in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Before the oldest message that the stream still has.
    Beginning,
    /// Behind the newest message: only future messages are read.
    End,
    /// Behind this message.
    Behind(u64),
}

impl Place {
    /// Parses a start position.
    pub fn of(from: &From) -> anyhow::Result<Place> {
        match from {
            From::Beginning => Ok(Place::Beginning),
            From::End => Ok(Place::End),
            From::Position(text) => {
                let behind = text.strip_prefix('s').and_then(|number| number.parse::<u64>().ok());
                behind.map(Place::Behind).with_context(|| wrong(text)).map_err(usage)
            }
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Stream {
    events: JetEvents,
    reader: EventReader,
    /// Whether the preceding message is known, so that a jump in the sequence is a gap.
    begun: bool,
}

impl Stream {
    /// Opens a reader at this position.
    pub async fn open(events: &JetEvents, place: Place) -> anyhow::Result<Stream> {
        let behind = match place {
            Place::Beginning => 0,
            Place::End => events.end().await?,
            Place::Behind(behind) => behind,
        };
        let (events, reader) = (events.clone(), events.reader(behind));
        Ok(Stream { events, reader, begun: place != Place::Beginning })
    }

    /// Reads the next page. Without events, waits this long for the first.
    pub async fn read(&mut self, wanted: &Wanted, wait: Duration) -> anyhow::Result<Page> {
        let page = self.read_on(wanted, wait).await?;
        let behind = self.reader.position();
        if page.moved || !ends_before(&self.events, behind).await? {
            return Ok(page);
        }
        // The stream was removed and created again: new messages would never reach that position.
        let reason = format!("the stream ends before message {behind}, and is read from its beginning");
        let id = format!("s{behind}.gap");
        let mut lines = Event { id, kind: Kind::Gap, reason, ..Event::default() }.line();
        (self.reader, self.begun) = (self.events.reader(0), false);
        let page = self.read_on(wanted, Duration::ZERO).await?;
        lines.extend(page.lines);
        Ok(Page { lines, moved: true, position: page.position, is_full: page.is_full })
    }

    /// Reads a page from the current position, waits up to `wait` for the first message, and reports gaps as events.
    pub async fn read_on(&mut self, wanted: &Wanted, mut wait: Duration) -> anyhow::Result<Page> {
        let mut page = Page { is_full: true, ..Page::default() };
        let (mut read, mut until) = (0, None::<Instant>);
        while page.lines.len() < PAGE_BYTES
            && read < READ_BYTES_MAX
            && until.is_none_or(|until| Instant::now() < until)
        {
            let before = self.reader.position();
            let messages = self.reader.take(MESSAGES_AT_ONCE, wait).await?;
            if messages.is_empty() {
                page.is_full = false;
                break;
            }
            wait = Duration::ZERO;
            until = until.or_else(|| Some(Instant::now() + READ_TIME_MAX));
            let mut last = before;
            for (position, lines) in messages {
                if self.begun && position > last + 1 {
                    let first = last + 1;
                    let reason = format!("messages {first} to {} of the stream are gone", position - 1);
                    let id = format!("s{first}-{}.gap", position - 1);
                    page.lines.extend(Event { id, kind: Kind::Gap, reason, ..Event::default() }.line());
                }
                (last, self.begun) = (position, true);
                read += lines.len();
                take(&mut page.lines, &lines, wanted);
            }
            page.moved = true;
        }
        page.position = format!("s{}", self.reader.position());
        Ok(page)
    }
}

/// Whether the stream ends before this message.
pub async fn ends_before(events: &JetEvents, message: u64) -> anyhow::Result<bool> {
    if message == 0 {
        return Ok(false);
    }
    for look in 0..END_LOOKS {
        if look > 0 {
            sleep(END_PAUSE).await;
        }
        if events.end().await? >= message {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Appends the lines that match the filter, unchanged.
pub fn take(out: &mut Vec<u8>, lines: &[u8], wanted: &Wanted) {
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        // An event of a later version parses as `Kind::Other`, and passes an empty filter.
        let is_wanted = match serde_json::from_slice::<Event>(line) {
            Ok(event) => wanted.takes(&event),
            Err(_) => false,
        };
        if is_wanted {
            out.extend_from_slice(line);
        }
    }
}

/// Builds the error message for a text that is no start position.
pub fn wrong(text: &str) -> String {
    format!(
        "{text:?} is no position of this cluster: `beginning`, `end`, or what a line of kind `position` said"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_wanted_is_taken_from_a_message() {
        let event = |kind| Event { id: "1".into(), kind, ..Event::default() }.line();
        let lines = [event(Kind::Story), event(Kind::Fetched), b"no event\n".to_vec()].concat();
        let mut out = Vec::new();
        take(&mut out, &lines, &Wanted::parse(["story"]).unwrap());
        assert_eq!(out, event(Kind::Story));
    }

    #[test]
    fn a_place_is_what_a_position_said() {
        let place = |text: &str| Place::of(&From::parse(text));
        assert_eq!(place("beginning").unwrap(), Place::Beginning);
        assert_eq!(place("end").unwrap(), Place::End);
        assert_eq!(place("s17").unwrap(), Place::Behind(17));
        for wrong in ["17", "s", "s-1", "0.1.00000001"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
