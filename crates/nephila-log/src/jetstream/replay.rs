//! Replays a log, with one batch of read-ahead during the fold.
//!
//! Invariants: groups come in order and without a gap, or the replay ends with an error; the replay ends at the message
//! that was last when the replay began; if that message is gone, the log was rolled back.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use async_nats::jetstream::Message;
use tokio::time::Instant;

use super::log::JetLog;
use super::message::{self, Assembly, Head, Kind};
use super::reader::Reader;
use crate::Error;

/// Messages per batch.
const BATCH_MESSAGES: usize = 64;
/// Retry deadline of one batch.
const READ_PATIENCE: Duration = Duration::from_secs(60);
/// Grace period before a missing last message counts as lost: a restarted server has to catch up.
const TAIL_PATIENCE: Duration = Duration::from_secs(15);
/// How long the server waits for a message.
const TAIL_WAIT: Duration = Duration::from_secs(1);

/// A batch of messages, with the reader for the next batch.
struct Batch {
    reader: Option<Reader>,
    /// Groups before the first message are known to exist.
    is_inside: bool,
    messages: Result<Vec<Message>, Error>,
}

/// Iterator over the groups of a log.
pub(super) struct Replaying<'a> {
    log: &'a mut JetLog,
    from: u64,
    /// The last group seen whole.
    seen: Option<u64>,
    is_inside: bool,
    /// Position of the last message examined.
    position: u64,
    batch: VecDeque<Message>,
    coming: Option<Receiver<Batch>>,
    assembly: Assembly,
    /// Begin of the group being assembled.
    begin: u64,
    /// Time since which no message came.
    dry_since: Option<Instant>,
    done: bool,
}

impl<'a> Replaying<'a> {
    pub(super) fn new(log: &'a mut JetLog, from: u64) -> Self {
        // Nothing follows the last group, and an empty log has nothing.
        let done = from.max(1) > log.synced;
        let mut replaying = Replaying {
            log,
            from: from.max(1),
            seen: None,
            is_inside: false,
            position: 0,
            batch: VecDeque::new(),
            coming: None,
            assembly: Assembly::default(),
            begin: 0,
            dry_since: None,
            done,
        };
        if !done {
            replaying.ask(None);
        }
        replaying
    }

    /// Requests the next batch.
    fn ask(&mut self, reader: Option<Reader>) {
        let (inner, place, fence) = (self.log.inner.clone(), self.log.place.clone(), self.log.fence.clone());
        let (from, tail, known) = (self.from, self.log.tail, self.log.marks.before(self.from));
        let (sender, receiver) = channel();
        self.log.inner.handle.spawn(async move {
            let read = async {
                let (mut reader, is_inside) = match (reader, known) {
                    (Some(reader), _) => (reader, false),
                    (None, Some(position)) => (Reader::new(place, position), true),
                    (None, None) => {
                        let (position, is_inside) = inner.search(&place, from, 1, tail).await?;
                        (Reader::new(place, position), is_inside)
                    }
                };
                let messages = reader.take_patiently(BATCH_MESSAGES, TAIL_WAIT, READ_PATIENCE).await?;
                Ok((reader, is_inside, messages))
            };
            let batch = match fence.unless_fallen(read).await {
                Ok((reader, is_inside, messages)) => {
                    Batch { reader: Some(reader), is_inside, messages: Ok(messages) }
                }
                Err(error) => Batch { reader: None, is_inside: false, messages: Err(error) },
            };
            _ = sender.send(batch);
        });
        self.coming = Some(receiver);
    }

    /// Waits for the pending batch, and requests the batch after that.
    fn receive(&mut self) -> Result<(), Error> {
        let batch = self.coming.take().ok_or(Error::Broken)?.recv().map_err(|_| Error::Broken)?;
        let messages = batch.messages?;
        self.is_inside |= batch.is_inside;
        if messages.is_empty() {
            let since = *self.dry_since.get_or_insert_with(Instant::now);
            if since.elapsed() >= TAIL_PATIENCE {
                return Err(Error::RolledBack { expected: self.log.tail, found: self.position });
            }
        } else {
            self.dry_since = None;
        }
        self.batch.extend(messages);
        let reader = batch.reader.ok_or(Error::Broken)?;
        if reader.next() <= self.log.tail {
            self.ask(Some(reader));
        }
        Ok(())
    }

    /// Examines a message. Returns a group if the message completes a requested group.
    fn look(&mut self, message: Message) -> Result<Option<(u64, Vec<u8>)>, Error> {
        let position = message.info().map_err(|error| Error::Damaged(error.to_string()))?.stream_sequence;
        self.position = position;
        let headers = message.message.headers.unwrap_or_default();
        let head = Head::of(&headers)?;
        if matches!(head.kind, Kind::Whole | Kind::Part { index: 0, .. }) {
            self.begin = position;
        }
        let Some(packed) = self.assembly.take(&head.kind, message.message.payload) else { return Ok(None) };
        let gap = |expected| Error::Gap { expected, found: head.group };
        match self.seen {
            Some(seen) if head.group != seen + 1 => return Err(gap(seen + 1)),
            None if self.is_inside && head.group > self.from => return Err(gap(self.from)),
            _ => {}
        }
        self.seen = Some(head.group);
        self.log.marks.push(head.group, self.begin, packed.len() as u64);
        if head.group < self.from {
            return Ok(None);
        }
        Ok(Some((head.group, message::unpack(&packed)?)))
    }

    fn step(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        loop {
            if self.position >= self.log.tail {
                let synced = self.log.synced;
                return match self.seen {
                    Some(seen) if seen >= synced => Ok(None),
                    seen => Err(Error::Gap { expected: seen.map_or(self.from, |seen| seen + 1), found: 0 }),
                };
            }
            match self.batch.pop_front() {
                Some(message) => {
                    if let Some(group) = self.look(message)? {
                        return Ok(Some(group));
                    }
                }
                None => self.receive()?,
            }
        }
    }
}

impl Iterator for Replaying<'_> {
    type Item = Result<(u64, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let step = self.step().transpose();
        self.done = !matches!(step, Some(Ok(_)));
        step
    }
}
