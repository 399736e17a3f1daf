//! Writing the log: one thread, a bounded queue, whole lines.
//!
//! The log is not synced line by line: what a crawl needs to go on stands in the frontier's journals and in the archive.
//! A crash of the process loses what waits in the queue, a crash of the machine perhaps some more.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;

use super::{BEGINNING, ENDING, Line, files};

/// Lines that wait to be written; then those who log wait.
const LINES_WAITING_MAX: usize = 4_096;
/// A file that has grown beyond this is followed by another.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// After writing, the writer rests this long, so that lines come in batches.
const REST: Duration = Duration::from_millis(20);
/// A full disk is tried again after this time.
const FULL_PAUSE: Duration = Duration::from_secs(1);

/// Writes lines in a thread of its own. Cheap to clone; when all are gone, the thread ends.
#[derive(Clone, Debug)]
pub struct Writer(mpsc::Sender<Vec<u8>>);

impl Writer {
    /// Writes into this folder, behind what is there.
    pub fn open(folder: &Path) -> io::Result<(Writer, JoinHandle<io::Result<()>>)> {
        std::fs::create_dir_all(folder)?;
        let mut log = Log::open(folder)?;
        let (sender, mut lines) = mpsc::channel::<Vec<u8>>(LINES_WAITING_MAX);
        let thread = std::thread::Builder::new().name("log".into()).spawn(move || {
            let mut batch = Vec::new();
            while let Some(line) = lines.blocking_recv() {
                batch.extend_from_slice(&line);
                while let Ok(line) = lines.try_recv() {
                    batch.extend_from_slice(&line);
                }
                log.write(&batch)?;
                batch.clear();
                std::thread::sleep(REST);
            }
            Ok(())
        })?;
        Ok((Writer(sender), thread))
    }

    /// Writes a line, waiting while the disk is behind. The writer is gone only if its disk failed, which its thread
    /// says.
    pub async fn write(&self, line: &Line) {
        _ = self.0.send(line.json()).await;
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
        let number = match files(folder)?.last() {
            None => 1,
            Some(last) => {
                let name = last.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let number = name.strip_prefix(BEGINNING).and_then(|rest| rest.strip_suffix(ENDING));
                number.and_then(|number| number.parse().ok()).unwrap_or(1)
            }
        };
        let (file, bytes) = Log::file(folder, number)?;
        Ok(Log { folder: folder.into(), file, bytes, number })
    }

    /// Opens a file; a torn line at its end is ended, so that the next one stands alone.
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

    fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if self.bytes >= FILE_BYTES_MAX {
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
        let folder = tempfile::tempdir().unwrap();
        for round in 0..3 {
            let (writer, thread) = Writer::open(folder.path()).unwrap();
            for number in 0..10 {
                writer.write(&line(round * 10 + number)).await;
            }
            drop(writer);
            tokio::task::spawn_blocking(|| thread.join().unwrap().unwrap()).await.unwrap();
            let last = files(folder.path()).unwrap().pop().unwrap();
            OpenOptions::new()
                .append(true)
                .open(last)
                .unwrap()
                .write_all(b"{\"at\":12,\"url\":\"http")
                .unwrap();
        }
        let mut lines = Lines::of(folder.path()).unwrap();
        let read: Vec<u64> = lines.by_ref().map(|line| line.unwrap().fetch).collect();
        assert_eq!(read, Vec::from_iter(0..30));
        assert_eq!(lines.skipped(), 3);
    }
}
