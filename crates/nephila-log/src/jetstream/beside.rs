//! Reads a partition's log without owning the log, to report events of the partition.
//!
//! The owner replays its log when opening the log. All other readers use this module. A reader claims and writes
//! nothing, and has no effect on the owner.
//!
//! Invariants: groups come whole and in log order. A missing group is not an error here: the group numbers reveal the
//! gap, and so does a claim, which names the last group before the claim.

use std::sync::Arc;
use std::time::Duration;

use super::message::{self, Assembly, Head, Kind};
use super::reader::Reader;
use super::write::Place;
use super::{Engine, Inner};
use crate::Error;

/// Messages per batch. Few, since many partitions may be read at the same time.
const MESSAGES_AT_ONCE: usize = 8;
/// Retry deadline of one batch.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the server waits for a message.
const WAIT: Duration = Duration::from_secs(1);

/// One step of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beside {
    /// A group: its number and its bytes.
    Group(u64, Vec<u8>),
    /// A claim: the log continues after this group. A group up to this number that has not come is not in the log.
    Behind(u64),
}

/// Reads a log from a given group on. See the module.
#[derive(Debug)]
pub struct LogReader {
    inner: Arc<Inner>,
    place: Place,
    from: u64,
    /// Created with the first batch.
    reader: Option<Reader>,
    assembly: Assembly,
}

impl Engine {
    /// Returns a reader of a partition's log from this group on, independent of the owner.
    pub fn log_reader(&self, partition: u32, from: u64) -> LogReader {
        let (inner, place) = (self.0.clone(), self.0.log_place(partition));
        LogReader { inner, place, from, reader: None, assembly: Assembly::default() }
    }
}

impl LogReader {
    /// Returns the next steps of the log. Returns an empty list if no message arrived within one second.
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
        // Messages before group `from` and single parts of a group produce no step.
        while steps.is_empty() {
            let messages = reader.take_patiently(MESSAGES_AT_ONCE, WAIT, PATIENCE).await?;
            if messages.is_empty() {
                break;
            }
            for message in messages {
                let headers = message.message.headers.unwrap_or_default();
                // An unreadable message counts as missing: the numbers of the other groups reveal the gap.
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
