//! Reads a partition's log beside its owner, for those who tell what happened in it.
//!
//! The owner reads its log when it opens it, and then has it in its hands; whoever else wants groups of it comes here. Nothing
//! is claimed or written, and the owner does not notice.
//!
//! What always holds: groups come whole and in the order of the log. What is missing is not an error here: the numbers of
//! those that come tell, and so does a claim, which says what was there before it.

use std::sync::Arc;
use std::time::Duration;

use super::message::{self, Assembly, Head, Kind};
use super::reader::Reader;
use super::write::Place;
use super::{Engine, Inner};
use crate::Error;

/// Messages asked for at once. Few, since many partitions may be read at the same time.
const MESSAGES_AT_ONCE: usize = 8;
/// How long one batch is tried.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the server waits for a message.
const WAIT: Duration = Duration::from_secs(1);

/// What stands in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beside {
    /// A group: its number and its bytes.
    Group(u64, Vec<u8>),
    /// The log goes on behind this group. One up to it that did not come before is not in the log.
    Behind(u64),
}

/// Reads a log from some group on. See the module.
#[derive(Debug)]
pub struct LogReader {
    inner: Arc<Inner>,
    place: Place,
    from: u64,
    /// Made when the first batch is asked for.
    reader: Option<Reader>,
    assembly: Assembly,
}

impl Engine {
    /// Reads a partition's log from this group on, whoever owns it.
    pub fn log_reader(&self, partition: u32, from: u64) -> LogReader {
        let (inner, place) = (self.0.clone(), self.0.log_place(partition));
        LogReader { inner, place, from, reader: None, assembly: Assembly::default() }
    }
}

impl LogReader {
    /// What comes next, some of it. Nothing if there is nothing at the moment; then it has waited a second.
    pub async fn take(&mut self) -> Result<Vec<Beside>, Error> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let (inner, place) = (&self.inner, &self.place);
                let last = inner.patiently("looking at the log", PATIENCE, || inner.last(place)).await?;
                let tail = last.map_or(0, |message| message.sequence);
                let (position, _) = inner.search(place, self.from, 1, tail).await?;
                none.insert(Reader::new(place.clone(), position))
            }
        };
        let mut steps = Vec::new();
        // Messages before the first that is wanted, and parts of groups, are no steps.
        while steps.is_empty() {
            let messages = reader.take_patiently(MESSAGES_AT_ONCE, WAIT, PATIENCE).await?;
            if messages.is_empty() {
                break;
            }
            for message in messages {
                let headers = message.message.headers.unwrap_or_default();
                // What cannot be read is as good as gone, and the numbers of the others tell.
                let Ok(head) = Head::of(&headers) else { continue };
                if head.kind == Kind::Claim {
                    steps.push(Beside::Behind(head.group));
                    continue;
                }
                let Some(packed) = self.assembly.take(&head.kind, message.message.payload) else { continue };
                if head.group < self.from {
                    continue;
                }
                if let Ok(group) = message::unpack(&packed) {
                    steps.push(Beside::Group(head.group, group));
                }
            }
        }
        Ok(steps)
    }
}
