//! A partition's log on one subject of a stream.
//!
//! Opening a log writes a claim after the last message, which fences out the previous owner. From then on every message
//! expects its predecessor. [`GroupLog::append`] hands a group to a task on the engine's runtime and [`GroupLog::sync`]
//! waits for the task: the worker's own thread may drive another runtime, which cannot run tasks of the engine.
//!
//! Invariants: one write is in flight at a time, and the next begins when its result is known; after a write with
//! unknown result the log accepts nothing more and has to be opened again; the last group is never removed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::Inner;
use super::marks::Marks;
use super::message::{self, HEADER_BYTES_MAX, Head, Kind};
use super::replay::Replaying;
use super::watch::{Seen, Watch};
use super::write::{LOST_READS, Place, Write, Written};
use crate::{Error, Fence, GroupLog, Groups, Wake};

/// Retry deadline of one message. Longer than any election, shorter than an operator's patience; the fence ends the
/// wait sooner.
pub(super) const WRITE_PATIENCE: Duration = Duration::from_secs(120);
/// Retry deadline for opening.
const OPEN_PATIENCE: Duration = Duration::from_secs(60);
/// Maximum bytes queued behind the write in flight; beyond this [`GroupLog::append`] blocks (backpressure).
const WAITING_BYTES_MAX: usize = 32 << 20;
/// A range of at most this number of stream positions is read, not searched.
const SEARCH_SPAN: u64 = 512;
/// Maximum steps of a search: enough for any stream, one message each.
const SEARCH_STEPS_MAX: u32 = 64;

/// A partition's log, held by its one owner. Never call its methods from a thread of the engine's own runtime.
#[derive(Debug)]
pub struct JetLog {
    pub(super) inner: Arc<Inner>,
    pub(super) place: Place,
    pub(super) fence: Fence,
    epoch: u64,
    /// Identifies this opening of the log in every write.
    writer: String,
    writes: u64,
    /// Position of the last message of the subject.
    pub(super) tail: u64,
    pub(super) synced: u64,
    appended: u64,
    /// Groups appended and not in flight yet.
    waiting: VecDeque<(u64, Bytes)>,
    waiting_bytes: usize,
    flight: Option<Receiver<Flight>>,
    wake: Wake,
    health: Health,
    pub(super) marks: Marks,
    purge: Option<Receiver<()>>,
    /// Counters that a [`Watch`] compares with the servers.
    seen: Arc<Seen>,
}

/// Whether the log can continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Well,
    /// Storage was full: `go_back` recovers.
    Full,
    /// Another owner writes.
    Fenced,
    /// The result of a write is unknown, or a message is missing.
    Broken,
}

/// Result of the groups in flight.
#[derive(Debug)]
struct Flight {
    tail: u64,
    /// Durable groups: number, position, bytes.
    done: Vec<(u64, u64, u64)>,
    /// Number of stored messages.
    messages: u64,
    error: Option<Error>,
}

impl JetLog {
    pub(super) async fn open(
        inner: Arc<Inner>,
        partition: u32,
        epoch: u64,
        fence: Fence,
    ) -> Result<JetLog, Error> {
        let place = inner.log_place(partition);
        let writer = uuid::Uuid::new_v4().simple().to_string();
        let (tail, synced) = fence.unless_fallen(claim(&inner, &place, epoch, &writer)).await?;
        let seen = Arc::new(Seen::new(tail));
        seen.count(&place).await;
        Ok(JetLog {
            inner,
            place,
            fence,
            epoch,
            writer,
            writes: 1,
            tail,
            synced,
            appended: synced,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            flight: None,
            wake: Wake::default(),
            health: Health::Well,
            marks: Marks::default(),
            purge: None,
            seen,
        })
    }

    /// The epoch of the owner.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Stream position of the last message of the log, as far as known here.
    pub fn position(&self) -> u64 {
        self.tail
    }

    /// The first group that is kept whole; the number after the last group if none is.
    pub async fn first(&mut self) -> Result<u64, Error> {
        let ask = || self.inner.next(&self.place, 1);
        let first = self.inner.patiently("looking at the log", OPEN_PATIENCE, ask);
        let Some(message) = self.fence.unless_fallen(first).await? else { return Ok(self.synced + 1) };
        let head = Head::of(&message.headers)?;
        Ok(match head.kind {
            Kind::Whole | Kind::Part { index: 0, .. } => head.group,
            Kind::Claim | Kind::Part { .. } => head.group + 1,
        })
    }

    /// Returns a [`Watch`] that checks whether the servers still have the messages written here.
    pub fn watch(&self) -> Watch {
        Watch::new(self.inner.clone(), self.place.clone(), self.seen.clone())
    }

    /// Removes everything and continues after group `last`, as if `last` had been the last group here. For a log that
    /// lost entries which its owner has from a snapshot.
    pub async fn begin_behind(&mut self, last: u64) -> Result<(), Error> {
        self.check()?;
        let token = format!("{}.again.{last}", self.writer);
        let headers = Head { group: last, epoch: self.epoch, kind: Kind::Claim }.headers(&token);
        let write =
            Write { expected: self.tail, token, headers, payload: Bytes::new(), older_reads: LOST_READS };
        let written = self.inner.write(&self.place, &write, OPEN_PATIENCE);
        match self.fence.clone().unless_fallen(written).await? {
            Written::Stored(sequence) => self.tail = sequence,
            Written::Other(_) => return Err(fenced()),
        }
        (self.synced, self.appended) = (last, last);
        self.marks = Marks::default();
        self.seen.tail.store(self.tail, Ordering::Release);
        let purge = || self.inner.purge(&self.place, self.tail);
        self.inner.patiently("removing what is left of the log", OPEN_PATIENCE, purge).await?;
        self.seen.count(&self.place).await;
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        self.fence.check()?;
        match self.health {
            Health::Well => Ok(()),
            Health::Fenced => Err(fenced()),
            Health::Full | Health::Broken => Err(Error::Broken),
        }
    }

    /// Puts the queued groups in flight, unless a write is in flight.
    fn launch(&mut self) {
        if self.flight.is_some() || self.waiting.is_empty() {
            return;
        }
        let groups: Vec<(u64, Bytes)> = self.waiting.drain(..).collect();
        self.waiting_bytes = 0;
        let trip = Trip {
            inner: self.inner.clone(),
            place: self.place.clone(),
            fence: self.fence.clone(),
            epoch: self.epoch,
            writer: format!("{}.{}", self.writer, self.writes),
            tail: self.tail,
            messages: 0,
        };
        self.writes += 1;
        let (sender, receiver) = channel();
        let wake = self.wake.clone();
        self.inner.handle.spawn(async move {
            // The receiver may be gone.
            _ = sender.send(trip.fly(groups).await);
            wake.call();
        });
        self.flight = Some(receiver);
    }

    /// Waits for the groups in flight.
    fn land(&mut self) -> Result<(), Error> {
        let Some(receiver) = self.flight.take() else { return Ok(()) };
        self.landed(receiver.recv().ok())
    }

    /// Records the result of a flight: durable, failed, or unknown.
    fn landed(&mut self, flight: Option<Flight>) -> Result<(), Error> {
        let Some(flight) = flight else {
            self.health = Health::Broken;
            return Err(Error::Broken);
        };
        self.tail = flight.tail;
        self.seen.wrote(flight.messages, flight.tail);
        for (group, begin, bytes) in flight.done {
            self.marks.push(group, begin, bytes);
            self.synced = group;
        }
        let Some(error) = flight.error else { return Ok(()) };
        self.health = match &error {
            Error::Full(_) => Health::Full,
            Error::Fenced(_) => Health::Fenced,
            _ => Health::Broken,
        };
        Err(error)
    }
}

impl GroupLog for JetLog {
    fn append(&mut self, sequence: u64, group: &[u8]) -> Result<(), Error> {
        self.check()?;
        if sequence == 0 || (self.appended != 0 && sequence != self.appended + 1) {
            return Err(Error::OutOfOrder { last: self.appended, found: sequence });
        }
        let packed = message::pack(group)?;
        if self.waiting_bytes >= WAITING_BYTES_MAX {
            self.land()?;
            self.launch();
        }
        self.waiting_bytes += packed.len();
        self.waiting.push_back((sequence, packed));
        self.appended = sequence;
        self.launch();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.check()?;
        while self.flight.is_some() || !self.waiting.is_empty() {
            self.land()?;
            self.launch();
        }
        Ok(())
    }

    fn try_sync(&mut self) -> Result<bool, Error> {
        self.check()?;
        loop {
            match self.flight.as_ref().map(Receiver::try_recv) {
                None if self.waiting.is_empty() => return Ok(true),
                None => self.launch(),
                Some(Err(TryRecvError::Empty)) => return Ok(false),
                Some(flight) => {
                    self.flight = None;
                    self.landed(flight.ok())?;
                }
            }
        }
    }

    fn wake_with(&mut self, wake: Wake) {
        self.wake = wake;
    }

    fn go_back(&mut self) -> Result<(), Error> {
        self.waiting.clear();
        self.waiting_bytes = 0;
        match self.land() {
            Ok(()) | Err(Error::Full(_)) => {}
            Err(error) => return Err(error),
        }
        if self.health == Health::Full {
            self.health = Health::Well;
        }
        self.check()?;
        self.appended = self.synced;
        Ok(())
    }

    fn synced(&self) -> u64 {
        self.synced
    }

    fn replay<'a>(&'a mut self, from: u64) -> Groups<'a> {
        match self.sync() {
            Ok(()) => Box::new(Replaying::new(self, from)),
            Err(error) => Box::new(std::iter::once(Err(error))),
        }
    }

    /// Runs in the background: the server takes a while, and no caller has to wait. The next truncation repeats a
    /// failed one.
    fn truncate_before(&mut self, sequence: u64) -> Result<(), Error> {
        self.fence.check()?;
        let is_busy = self
            .purge
            .as_ref()
            .is_some_and(|purge| purge.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty));
        let keep = sequence.min(self.synced);
        if is_busy || keep <= 1 {
            return Ok(());
        }
        let known = self.marks.before(keep);
        self.marks.forget_before(keep);
        let (inner, place, tail) = (self.inner.clone(), self.place.clone(), self.tail);
        let (sender, receiver) = channel();
        let seen = self.seen.clone();
        self.inner.handle.spawn(async move {
            let removing = seen.removing();
            let position = match known {
                Some(position) => Ok(position),
                None => inner.search(&place, keep, 1, tail).await.map(|found| found.0),
            };
            if let Ok(position) = position {
                // The next truncation removes the rest.
                removing.removed(inner.purge(&place, position).await.ok());
            }
            drop(removing);
            _ = sender.send(());
        });
        self.purge = Some(receiver);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.marks.bytes()
    }
}

/// Groups in flight.
struct Trip {
    inner: Arc<Inner>,
    place: Place,
    fence: Fence,
    epoch: u64,
    writer: String,
    tail: u64,
    messages: u64,
}

impl Trip {
    async fn fly(mut self, groups: Vec<(u64, Bytes)>) -> Flight {
        let mut done = Vec::with_capacity(groups.len());
        let mut error = None;
        for (group, packed) in groups {
            match self.carry(group, packed).await {
                Ok(carried) => done.push(carried),
                Err(failed) => {
                    error = Some(failed);
                    break;
                }
            }
        }
        Flight { tail: self.tail, done, messages: self.messages, error }
    }

    async fn carry(&mut self, group: u64, packed: Bytes) -> Result<(u64, u64, u64), Error> {
        let bytes = packed.len() as u64;
        // A server may accept less than the headers alone need; then the server reports the error.
        let part_bytes_max = self.inner.link.client.max_payload().saturating_sub(HEADER_BYTES_MAX).max(1024);
        let name = format!("{}.{group}", self.writer);
        let mut begin = 0;
        for (index, (kind, payload)) in message::cut(packed, part_bytes_max, &name).into_iter().enumerate() {
            let token = format!("{name}.{index}");
            let headers = Head { group, epoch: self.epoch, kind }.headers(&token);
            let write = Write { expected: self.tail, token, headers, payload, older_reads: LOST_READS };
            let written = self.inner.write(&self.place, &write, WRITE_PATIENCE);
            match self.fence.unless_fallen(written).await? {
                Written::Stored(sequence) => (self.tail, self.messages) = (sequence, self.messages + 1),
                Written::Other(last) => {
                    return Err(replaced(self.tail, last.map_or(0, |last| last.sequence)));
                }
            }
            if begin == 0 {
                begin = self.tail;
            }
        }
        Ok((group, begin, bytes))
    }
}

fn fenced() -> Error {
    Error::Fenced("another owner wrote to the log".to_owned())
}

fn replaced(expected: u64, found: u64) -> Error {
    if found < expected { Error::RolledBack { expected, found } } else { fenced() }
}

/// Writes a claim after the last message. Returns the claim's position and the last group before the claim.
async fn claim(inner: &Inner, place: &Place, epoch: u64, writer: &str) -> Result<(u64, u64), Error> {
    let mut last = inner.patiently("opening the log", OPEN_PATIENCE, || inner.last(place)).await?;
    let end = Instant::now() + OPEN_PATIENCE;
    // While another owner writes without pause a claim loses the race again and again; one pause is enough.
    for tried in 0_u64.. {
        let (tail, synced) = match &last {
            None => (0, 0),
            Some(message) => {
                let head = Head::of(&message.headers)?;
                if head.epoch > epoch {
                    return Err(Error::Fenced(format!(
                        "the log is of epoch {}, this owner of epoch {epoch}",
                        head.epoch
                    )));
                }
                (message.sequence, last_whole(inner, place, &head).await?)
            }
        };
        let token = format!("{writer}.0.{tried}");
        let headers = Head { group: synced, epoch, kind: Kind::Claim }.headers(&token);
        let write = Write { expected: tail, token, headers, payload: Bytes::new(), older_reads: LOST_READS };
        match inner.write(place, &write, OPEN_PATIENCE).await? {
            Written::Stored(sequence) => return Ok((sequence, synced)),
            Written::Other(now) => last = now,
        }
        if Instant::now() >= end {
            break;
        }
    }
    let why = "others write to it without a pause".to_owned();
    Err(Error::Unavailable { what: "claiming the log", waited: OPEN_PATIENCE, why })
}

/// The last group that is whole, from the head of the last message.
async fn last_whole(inner: &Inner, place: &Place, head: &Head) -> Result<u64, Error> {
    if head.kind == Kind::Claim || head.is_last_of_group() {
        return Ok(head.group);
    }
    // An owner stopped in the middle of a group. If that group is the first one, there is none before it.
    let first = inner.patiently("opening the log", OPEN_PATIENCE, || inner.next(place, 1)).await?;
    let first = first.map(|message| Head::of(&message.headers)).transpose()?;
    let is_first = first.is_none_or(|first| first.group == head.group && first.kind != Kind::Claim);
    Ok(if is_first { 0 } else { head.group - 1 })
}

impl Inner {
    /// Finds a position close before the begin of group `from`. Also returns whether earlier groups are known to exist.
    pub(super) async fn search(
        &self,
        place: &Place,
        from: u64,
        low: u64,
        high: u64,
    ) -> Result<(u64, bool), Error> {
        let (mut low, mut high, mut is_inside) = (low, high, false);
        for _ in 0..SEARCH_STEPS_MAX {
            if high.saturating_sub(low) <= SEARCH_SPAN {
                break;
            }
            let middle = low + (high - low) / 2;
            let found =
                self.patiently("searching the log", OPEN_PATIENCE, || self.next(place, middle)).await?;
            match found {
                Some(message) if Head::of(&message.headers)?.group < from => {
                    (low, is_inside) = (message.sequence, true);
                }
                _ => high = middle,
            }
        }
        Ok((low, is_inside))
    }

    /// Removes the messages of a subject before this position. Returns the number of removed messages.
    pub(super) async fn purge(&self, place: &Place, before: u64) -> Result<u64, String> {
        let purge = place.stream.purge().filter(place.subject.clone()).sequence(before);
        let purged = self.link.answer(purge.into_future()).await?;
        purged.map(|purged| purged.purged).map_err(|error| error.to_string())
    }
}
