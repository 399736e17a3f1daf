//! The one thread that writes: appends, commits in groups, rolls.
//!
//! A **segment** is the file being written. Records are appended as they arrive; a commit syncs the segment once and
//! acknowledges all waiting exchanges. A segment is **abandoned** if its write could not be undone or its sync failed:
//! the writer cuts the segment back to the committed length if possible, keeps the ending `.open`, and recovers the
//! file like after a crash when the archive is closed or opened again. The next record begins a new segment; so does
//! the first record after the clock was set back.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nephila_core::store::record::{self, WarcInfo};
use nephila_core::store::roll::{self, Limits};
use nephila_core::store::{Digest, cdxj};
use nephila_core::time::Timestamp;

use super::acked::Acked;
use super::compress::Ready;
use super::id::new_id;
use super::memory::{Memory, Remembered};
use super::pack::Packer;
use super::settings::Settings;
use super::{Error, Kind, Receipt, Reply, Summary, guard};
use super::{damage, recover};
use crate::contents::{Contents, Listed};
use crate::disk::{Disk, DiskFile, Sink};
use crate::index::{self, Sorter};

/// Maximum exchanges per commit, so that a disk that syncs thirty times a second still takes thousands of pages.
const COMMIT_EXCHANGES_MAX: usize = 1024;
/// Maximum sleep between two looks at the queue during a group.
const NAP: Duration = Duration::from_millis(10);
/// Maximum bytes per commit, so that a sync stays short.
const COMMIT_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Maximum names tried for a new file; more than one only if the clock went back.
const NAMES_MAX: u32 = 100;
/// Maximum abandoned files remembered; further ones are found when the archive is opened again.
const ABANDONED_MAX: usize = 1_000;
/// Maximum sleep of the writer without work and without an open file.
const IDLE: Duration = Duration::from_secs(3600);

pub(super) struct Writer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    folder: PathBuf,
    /// The list of the folder, as written or to be written.
    contents: Contents,
    settings: Arc<Settings>,
    limits: Limits,
    info: WarcInfo,
    memory: Arc<Mutex<Memory>>,
    packer: Packer,
    serial: u32,
    segment: Option<Segment>,
    abandoned: Vec<PathBuf>,
    waiting: Vec<Waiting>,
    summary: Summary,
}

#[derive(Debug)]
struct Segment {
    file: Box<dyn DiskFile>,
    /// The final name of the file.
    name: Arc<str>,
    path: PathBuf,
    written: u64,
    committed: u64,
    opened: Instant,
    /// The latest date of a record in the segment.
    latest: Timestamp,
    /// Whether the file's name is durable.
    is_named: bool,
    /// The index lines of acknowledged captures, beside the file.
    acked: Option<Acked>,
    /// `None` once a line could not be kept: the index is then built from the file.
    lines: Option<Sorter>,
}

/// A written exchange, not yet committed.
struct Waiting {
    reply: Reply,
    receipt: Receipt,
    /// The index line; `None` if the record is no capture.
    line: Option<String>,
    remembered: Option<Remembered>,
    records: u64,
}

impl Writer {
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: &Path,
        contents: Contents,
        settings: Arc<Settings>,
        info: WarcInfo,
        memory: Arc<Mutex<Memory>>,
    ) -> io::Result<Self> {
        Ok(Writer {
            disk,
            dir: dir.into(),
            folder: dir.join("archive"),
            contents,
            limits: Limits { bytes_max: settings.bytes_max, age_max: settings.age_max },
            packer: Packer::new(settings.compression)?,
            settings,
            info,
            memory,
            serial: 0,
            segment: None,
            abandoned: Vec::new(),
            waiting: Vec::new(),
            summary: Summary::default(),
        })
    }

    /// Writes until all senders are gone, then closes.
    pub(super) fn run(mut self, inbox: &Receiver<(Ready, Reply)>) -> Result<Summary, Error> {
        loop {
            let idle = match &self.segment {
                Some(segment) => self.limits.age_max.saturating_sub(segment.opened.elapsed()),
                None => IDLE,
            };
            match inbox.recv_timeout(idle) {
                Ok((ready, reply)) => self.gather(inbox, ready, reply),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
            self.roll();
        }
    }

    /// Writes one exchange and all that follow within the commit interval, then commits.
    ///
    /// Exchanges gather in the queue while this thread sleeps: to be woken for each of them costs more than to write it.
    fn gather(&mut self, inbox: &Receiver<(Ready, Reply)>, ready: Ready, reply: Reply) {
        let until = Instant::now() + self.settings.commit_interval;
        self.write(ready, reply);
        while self.waiting.len() < COMMIT_EXCHANGES_MAX && self.uncommitted() < COMMIT_BYTES_MAX {
            match inbox.try_recv() {
                Ok((ready, reply)) => self.write(ready, reply),
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    let left = until.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        break;
                    }
                    std::thread::sleep(left.min(NAP));
                }
            }
        }
        self.commit();
    }

    fn uncommitted(&self) -> u64 {
        self.segment.as_ref().map_or(0, |segment| segment.written - segment.committed)
    }

    fn write(&mut self, ready: Ready, reply: Reply) {
        self.part_from(ready.date);
        if self.segment.is_none() {
            match self.begin() {
                Ok(segment) => self.segment = Some(segment),
                Err(error) => return drop(reply.send(Err(error))),
            }
        }
        let segment = self.segment.as_mut().expect("begun above");
        match segment.write(&ready, &self.settings) {
            Ok((offset, length)) => {
                segment.latest = segment.latest.max(ready.date);
                let listed = self.settings.compression.format().index_length(length);
                let place = cdxj::Place { length: listed, offset, filename: &segment.name };
                self.waiting.push(Waiting {
                    reply,
                    line: ready.line.map(|line| cdxj::finish(line, &place, ready.truncated)),
                    receipt: Receipt {
                        file: segment.name.clone(),
                        offset,
                        length,
                        kind: ready.kind,
                        payload_digest: ready.payload_digest,
                        block_digest: ready.block_digest,
                    },
                    remembered: ready.remembered,
                    records: ready.records,
                });
            }
            Err((error, Undone::Yes)) => drop(reply.send(Err(error))),
            Err((error, Undone::No)) => {
                self.abandon(&error);
                let _ = reply.send(Err(error));
            }
        }
    }

    /// Closes the segment if this date is before the segment's latest date.
    fn part_from(&mut self, date: Timestamp) {
        let is_set_back = |segment: &Segment| roll::is_set_back(segment.latest, date, now());
        if self.segment.as_ref().is_some_and(is_set_back) {
            self.commit();
            self.finish_segment();
        }
    }

    /// Makes everything written durable and acknowledges the exchanges.
    fn commit(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let segment = self.segment.as_mut().expect("somebody waits for it");
        let synced = segment.file.sync().and_then(|()| {
            // A file without a durable name is lost, however often it was synced.
            if segment.is_named { Ok(()) } else { self.disk.sync_dir(&self.folder) }
        });
        if let Err(source) = synced {
            let error = Error::Sync { path: segment.path.clone(), source: Arc::new(source) };
            return self.abandon(&error);
        }
        segment.is_named = true;
        self.summary.bytes += segment.written - segment.committed;
        segment.committed = segment.written;
        if let Some(acked) = &mut segment.acked {
            acked.write(self.waiting.iter().filter_map(|waiting| waiting.line.as_ref()), segment.committed);
        }
        let mut memory = guard(&self.memory);
        for waiting in self.waiting.drain(..) {
            let Receipt { file, offset, length, kind, .. } = &waiting.receipt;
            if let Some(remembered) = waiting.remembered {
                memory.remember(file, *offset, *length, remembered);
            }
            if let (Some(lines), Some(line)) = (&mut segment.lines, waiting.line)
                && lines.push(&*self.disk, line).is_err()
            {
                segment.lines = None;
            }
            self.summary.records += waiting.records;
            match kind {
                Kind::Response | Kind::Resource => self.summary.responses += 1,
                Kind::Revisit | Kind::NotModified => self.summary.revisits += 1,
                Kind::Redundant => {}
            }
            let _ = waiting.reply.send(Ok(waiting.receipt));
        }
    }

    /// Abandons the segment: nothing since the last commit counts.
    fn abandon(&mut self, error: &Error) {
        for waiting in self.waiting.drain(..) {
            let _ = waiting.reply.send(Err(error.again()));
        }
        if let Some(segment) = self.segment.take() {
            // If this fails, recovery cuts the tail.
            let _ = segment.file.truncate(segment.committed);
            if let Some(lines) = segment.lines {
                lines.discard(&*self.disk);
            }
            self.set_aside(segment.path);
        }
    }

    fn begin(&mut self) -> Result<Segment, Error> {
        for _ in 0..NAMES_MAX {
            let now = now();
            let stem = roll::name(&self.settings.prefix, now, self.serial, &self.settings.node);
            self.serial = self.serial.wrapping_add(1) % 100_000;
            let name = format!("{stem}{}", self.settings.compression.ending());
            let path = self.folder.join(format!("{name}{}", roll::OPEN));
            if self.folder.join(&name).exists() {
                continue;
            }
            let file = match self.disk.create(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(write_error(path, error)),
            };
            let block = self.info.block();
            let head = record::warcinfo(&new_id(), now, &name, &Digest::of(&[&block]), block.len() as u64);
            let mut bytes = Vec::new();
            let written = self
                .packer
                .pack(&[&head, &block, record::END], &mut bytes)
                .and_then(|()| file.write_at(0, &bytes));
            if let Err(error) = written {
                if self.disk.remove(&path).is_err() {
                    self.set_aside(path.clone());
                }
                return Err(write_error(path, error));
            }
            self.summary.records += 1;
            self.list(&name, Listed::Open);
            return Ok(Segment {
                file,
                acked: Acked::create(&*self.disk, &self.folder.join(&name)),
                name: name.into(),
                lines: Some(Sorter::new(self.folder.join(format!("{stem}.cdxj")))),
                path,
                written: bytes.len() as u64,
                committed: 0,
                opened: Instant::now(),
                latest: now,
                is_named: false,
            });
        }
        let error = io::Error::new(io::ErrorKind::AlreadyExists, "every name is taken");
        Err(write_error(self.folder.clone(), error))
    }

    fn roll(&mut self) {
        let is_full = |segment: &Segment| self.limits.is_full(segment.committed, segment.opened.elapsed());
        if self.segment.as_ref().is_some_and(is_full) {
            self.finish_segment();
            // A file that cannot be recovered yet is tried again at the next roll.
            let _ = self.mend_abandoned();
        }
    }

    /// Adds a file to the list. A failed write of the list is repeated with the next change.
    fn list(&mut self, name: &str, listed: Listed) {
        self.contents.files.insert(name.to_owned(), listed);
        let _ = self.contents.write(&*self.disk, &self.dir);
    }

    /// Lists a closed file with its length and checksum.
    fn list_closed(&mut self, closed: &Path) {
        let name = closed.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // An unreadable file is listed when the archive is next opened.
        if let Ok(listed) = damage::listed(closed, true) {
            self.list(&name, Listed::Closed(listed));
        }
    }

    fn set_aside(&mut self, path: PathBuf) {
        if self.abandoned.len() < ABANDONED_MAX {
            self.abandoned.push(path);
        }
    }

    /// Recovers abandoned files; keeps files that cannot be recovered now, and returns the first error.
    fn mend_abandoned(&mut self) -> Result<(), Error> {
        let mut first = Ok(());
        for path in std::mem::take(&mut self.abandoned) {
            match recover::mend(&*self.disk, &self.folder, &path) {
                Ok(mended) => {
                    self.summary.files += u64::from(mended.kept);
                    let closed = path.with_extension("");
                    if mended.kept {
                        self.list_closed(&closed);
                    } else {
                        self.unlist(&closed);
                    }
                }
                Err(error) => {
                    self.abandoned.push(path);
                    first = first.and(Err(error));
                }
            }
        }
        first
    }

    /// Gives the segment its final name and its index. Failures are retried when the archive is closed.
    fn finish_segment(&mut self) {
        let Some(segment) = self.segment.take() else { return };
        if segment.committed == 0 {
            // Nothing in the file was ever acknowledged.
            if let Some(acked) = segment.acked {
                acked.remove(&*self.disk);
            }
            let closed = self.folder.join(&*segment.name);
            match self.disk.remove(&segment.path) {
                Ok(()) => self.unlist(&closed),
                Err(_) => self.set_aside(segment.path),
            }
            return;
        }
        let Some(lines) = segment.lines else {
            self.set_aside(segment.path);
            return;
        };
        let closed = self.folder.join(&*segment.name);
        let result = lines
            .finish(&*self.disk)
            .and_then(|()| self.disk.rename(&segment.path, &closed))
            .and_then(|()| self.disk.sync_dir(&self.folder));
        match result {
            // Renamed, but not durably: opening the archive finds the file under either name.
            Err(_) if !closed.exists() => return self.set_aside(segment.path),
            _ => self.summary.files += 1,
        }
        if let Some(acked) = segment.acked {
            acked.remove(&*self.disk);
        }
        self.list_closed(&closed);
    }

    /// Removes a file from the list that never held an acknowledged record.
    fn unlist(&mut self, closed: &Path) {
        let name = closed.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if self.contents.files.remove(&name).is_some() {
            let _ = self.contents.write(&*self.disk, &self.dir);
        }
    }

    fn close(mut self) -> Result<Summary, Error> {
        self.commit();
        self.finish_segment();
        self.mend_abandoned()?;
        let indexes = self.dir.join("indexes");
        let target = indexes.join("index.cdxj");
        let merge = || {
            let sources = recover::cdxj_files(&self.folder)?;
            let lines = index::merge(&*self.disk, &sources, &target)?;
            self.disk.sync_dir(&indexes)?;
            self.disk.sync_dir(&self.folder)?;
            Ok(lines)
        };
        self.summary.index_lines = merge().map_err(|e| Error::disk("merging into", &target, e))?;
        Ok(self.summary)
    }
}

/// Whether the failed write was undone.
enum Undone {
    Yes,
    No,
}

impl Segment {
    /// Appends the records of one exchange. Returns offset and length of the response.
    fn write(&mut self, ready: &Ready, settings: &Settings) -> Result<(u64, u64), (Error, Undone)> {
        let offset = self.written;
        let mut at = offset;
        let result = match &ready.large {
            None => Ok(ready.answer_len),
            Some(large) => {
                let mut sink = Sink::new(&*self.file, offset);
                large.write(settings.compression, &mut sink).and_then(|()| sink.finish()).map(|end| {
                    at = end;
                    end - offset
                })
            }
        }
        .and_then(|length| self.file.write_at(at, &ready.bytes).map(|()| length));
        match result {
            Ok(length) => {
                self.written = at + ready.bytes.len() as u64;
                Ok((offset, length))
            }
            Err(error) => {
                let undone = if self.file.truncate(offset).is_ok() { Undone::Yes } else { Undone::No };
                Err((write_error(self.path.clone(), error), undone))
            }
        }
    }
}

fn write_error(path: PathBuf, error: io::Error) -> Error {
    let source = Arc::new(error);
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { path, source },
        io::ErrorKind::UnexpectedEof => Error::Body(source),
        _ => Error::Write { path, source },
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
