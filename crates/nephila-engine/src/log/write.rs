//! Writing the log: one thread, a bounded queue, whole lines.
//!
//! A request begins with [`Writer::begin`], and may be sent once the journal entry is durable; concurrent requests
//! share one fsync (group commit). The line follows when the request has ended ([`Request::ended`]), and is in the
//! system's page cache on return. Lines are not synced one by one: lines lost in a crash are restored from the journal
//! (`begun`).

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::begun::{self, Begun, Key};
use super::{BEGINNING, ENDING, Line, file_number, files};

/// Capacity of the queue; a full queue blocks the senders (backpressure).
const WAITING_MAX: usize = 4_096;
/// Size in bytes after which a new log file is started.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Pause before a write to a full disk is retried.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// Handle of the writer thread. Cheap to clone; the thread ends when all handles are dropped.
#[derive(Clone, Debug)]
pub struct Writer(mpsc::Sender<Said>);

/// A request that may be sent. A request dropped without an end gets a line that says that it may have been sent.
#[derive(Debug)]
pub struct Request {
    writer: Writer,
    /// None once the end was reported.
    line: Option<Arc<Line>>,
}

/// A message to the writer thread.
#[derive(Debug)]
enum Said {
    /// A request is about to be sent; the reply comes when the journal entry is durable.
    Begin(Arc<Line>, oneshot::Sender<()>),
    /// A request has ended with this line; the reply comes when the line is written.
    Ended(Key, Vec<u8>, Option<oneshot::Sender<()>>),
    /// The request was not sent.
    NotSent(Key),
}

impl Writer {
    /// Opens the log in this folder for appending. Requests that a crash left without a line get one first.
    pub fn open(folder: &Path) -> io::Result<(Writer, JoinHandle<io::Result<()>>)> {
        std::fs::create_dir_all(folder)?;
        let requests = folder.parent().unwrap_or(folder).join("state").join("requests");
        let missing = begun::complete(folder, &requests)?;
        let mut log = Log::open(folder)?;
        log.write(&missing.iter().flat_map(Line::json).collect::<Vec<u8>>())?;
        if !missing.is_empty() {
            log.file.sync_data()?;
        }
        let mut begun = Begun::open(&requests)?;
        let (sender, mut said) = mpsc::channel::<Said>(WAITING_MAX);
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
            let mut batch = Vec::new();
            while let Some(first) = said.blocking_recv() {
                batch.push(first);
                while let Ok(next) = said.try_recv() {
                    batch.push(next);
                }
                log.take(&mut batch, &mut begun)?;
            }
            Ok(())
        })?;
        Ok((Writer(sender), thread))
    }

    /// Journals a request. The request may be sent when this returns. Returns none if the writer has stopped, which
    /// happens only on a disk failure that its thread reports; then no request may be sent.
    pub async fn begin(&self, line: Line) -> Option<Request> {
        let (line, (reply, durable)) = (Arc::new(line), oneshot::channel());
        self.0.send(Said::Begin(line.clone(), reply)).await.ok()?;
        let request = Request { writer: self.clone(), line: Some(line) };
        durable.await.ok()?;
        Some(request)
    }
}

impl Request {
    /// Reports the end of the request. Returns when the line would survive the end of this process.
    pub async fn ended(mut self, mut line: Line) {
        let Some(begun) = self.line.take() else { return };
        // These two fields are the key of the request.
        (line.fetch, line.at) = begun::key(&begun);
        let (reply, written) = oneshot::channel();
        if self.writer.0.send(Said::Ended(begun::key(&begun), line.json(), Some(reply))).await.is_ok() {
            _ = written.await;
        }
    }

    /// Reports that the request was not sent.
    pub async fn not_sent(mut self) {
        if let Some(line) = self.line.take() {
            _ = self.writer.0.send(Said::NotSent(begun::key(&line))).await;
        }
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(line) = self.line.take() {
            let key = begun::key(&line);
            // If the queue is full, the line is restored when the log is next opened.
            _ = self.writer.0.try_send(Said::Ended(
                key,
                begun::lost(Arc::unwrap_or_clone(line)).json(),
                None,
            ));
        }
    }
}

#[derive(Debug)]
struct Log {
    folder: PathBuf,
    file: File,
    bytes: u64,
    number: u64,
}

impl Log {
    fn open(folder: &Path) -> io::Result<Log> {
        let number = files(folder)?.last().map_or(1, |last| file_number(last).max(1));
        let (file, bytes) = Log::file(folder, number)?;
        Ok(Log { folder: folder.into(), file, bytes, number })
    }

    /// Opens a file. A torn last line is terminated, so that the next line stands alone.
    fn file(folder: &Path, number: u64) -> io::Result<(File, u64)> {
        let path = folder.join(format!("{BEGINNING}{number:08}{ENDING}"));
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let mut bytes = file.metadata()?.len();
        if bytes > 0 {
            let mut last = [0];
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
            if last != *b"\n" {
                file.write_all(b"\n")?;
                bytes += 1;
            }
        }
        Ok((file, bytes))
    }

    /// Writes a batch of messages: lines first, so that requests that have ended do not wait for requests that begin.
    fn take(&mut self, batch: &mut Vec<Said>, begun: &mut Begun) -> io::Result<()> {
        let (mut lines, mut ended, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        let (mut new, mut may_go, mut not_sent) = (Vec::new(), Vec::new(), Vec::new());
        for said in batch.drain(..) {
            match said {
                Said::Begin(line, reply) => {
                    new.push(line);
                    may_go.push(reply);
                }
                Said::Ended(key, line, reply) => {
                    lines.extend(line);
                    ended.push(key);
                    waiting.extend(reply);
                }
                Said::NotSent(key) => not_sent.push(key),
            }
        }
        self.write(&lines)?;
        waiting.into_iter().for_each(|reply| _ = reply.send(()));
        if !new.is_empty() || !not_sent.is_empty() {
            let end = (self.number, self.bytes);
            loop {
                match begun.begin(&new, &not_sent, end) {
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                        std::thread::sleep(FULL_PAUSE)
                    }
                    written => break written?,
                }
            }
            may_go.into_iter().for_each(|reply| _ = reply.send(()));
        }
        ended.into_iter().chain(not_sent).for_each(|key| begun.ended(key));
        begun.shorten(&self.file)
    }

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        if self.bytes >= FILE_BYTES_MAX {
            // `Begun::shorten` syncs the current file alone, so this file is synced before the next one is started.
            self.file.sync_data()?;
            let (file, bytes) = Log::file(&self.folder, self.number + 1)?;
            (self.file, self.bytes, self.number) = (file, bytes, self.number + 1);
        }
        let mut rest = lines;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(written) => {
                    self.bytes += written as u64;
                    rest = &rest[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => std::thread::sleep(FULL_PAUSE),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Lines;
    use super::*;

    fn line(number: u64) -> Line {
        Line { fetch: number, url: format!("http://a.test/{number}"), ..Line::default() }
    }

    #[tokio::test]
    async fn lines_are_read_as_written_and_a_torn_one_costs_only_itself() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("logs");
        for round in 0..3 {
            let (writer, thread) = Writer::open(&folder).unwrap();
            for number in 0..10 {
                let line = line(round * 10 + number);
                writer.begin(line.clone()).await.unwrap().ended(line).await;
            }
            drop(writer);
            tokio::task::spawn_blocking(|| thread.join().unwrap().unwrap()).await.unwrap();
            let last = files(&folder).unwrap().pop().unwrap();
            OpenOptions::new()
                .append(true)
                .open(last)
                .unwrap()
                .write_all(b"{\"at\":12,\"url\":\"http")
                .unwrap();
        }
        let mut lines = Lines::of(&folder).unwrap();
        let read: Vec<u64> = lines.by_ref().map(|line| line.unwrap().fetch).collect();
        assert_eq!(read, Vec::from_iter(0..30));
        assert_eq!(lines.skipped(), 3);
    }

    #[tokio::test]
    async fn pro_04_a_request_that_is_dropped_has_a_line_and_one_that_was_not_sent_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("logs");
        let (writer, thread) = Writer::open(&folder).unwrap();
        let _dies_with_us = std::mem::ManuallyDrop::new(writer.begin(line(1)).await.unwrap());
        drop(writer.begin(line(2)).await.unwrap());
        writer.begin(line(3)).await.unwrap().not_sent().await;
        writer.begin(line(4)).await.unwrap().ended(Line { status: Some(200), ..line(4) }).await;
        let read = || -> Vec<(u64, String)> {
            Lines::of(&folder)
                .unwrap()
                .map(|line| line.map(|line| (line.fetch, line.detail)).unwrap())
                .collect()
        };
        assert_eq!(read().iter().map(|(fetch, _)| *fetch).collect::<Vec<_>>(), [2, 4]);
        drop(writer);
        drop(std::mem::ManuallyDrop::into_inner(_dies_with_us).line.take());
        tokio::task::spawn_blocking(|| thread.join().unwrap().unwrap()).await.unwrap();
        for _ in 0..2 {
            drop(Writer::open(&folder).unwrap());
            let read = read();
            assert_eq!(read.iter().map(|(fetch, _)| *fetch).collect::<Vec<_>>(), [2, 4, 1]);
            assert!(read[2].1.contains("may have been asked"), "{read:?}");
        }
    }
}
