//! Reading the log backwards: the newest lines first, from a position that a reader can name again.
//!
//! Invariants: memory is bounded by [`LINE_BYTES_MAX`] and a chunk; a line that is being written is not read; a file
//! that was removed meanwhile ends the reading and is no error.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{file_number, files};

/// Bytes read at once.
const CHUNK: usize = 128 << 10;
/// Maximum length of a line in bytes. A longer one is skipped.
const LINE_BYTES_MAX: usize = 4 << 20;

/// A position in the log: everything before it is older.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Number of the file.
    pub file: u64,
    /// Offset in the file, at the beginning of a line.
    pub offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.offset)
    }
}

/// A text that is no position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position in the log is FILE:OFFSET")]
pub struct NoPosition;

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Position, NoPosition> {
        let (file, offset) = text.split_once(':').ok_or(NoPosition)?;
        let number = |text: &str| text.parse::<u64>().map_err(|_| NoPosition);
        Ok(Position { file: number(file)?, offset: number(offset)? })
    }
}

/// Reads lines, newest first.
#[derive(Debug)]
pub struct Newest {
    /// Files that were not opened yet, oldest first.
    files: Vec<PathBuf>,
    open: Option<Open>,
    /// Where to begin in the newest file; at its end if none.
    from: Option<u64>,
    read_bytes: u64,
    skipped: u64,
}

#[derive(Debug)]
struct Open {
    file: File,
    number: u64,
    /// Offset of the first byte of the buffer.
    at: u64,
    /// Bytes that were read and not returned, up to the beginning of the last returned line.
    buffer: Vec<u8>,
    /// Whether a line that was too long is being skipped.
    skipping: bool,
}

impl Newest {
    /// The lines of a folder before a position, or all of them.
    pub fn of(folder: &Path, before: Option<Position>) -> io::Result<Newest> {
        let mut files = files(folder)?;
        let mut from = None;
        if let Some(before) = before {
            files.retain(|file| file_number(file) <= before.file);
            from = files.last().filter(|last| file_number(last) == before.file).map(|_| before.offset);
        }
        Ok(Newest { files, open: None, from, read_bytes: 0, skipped: 0 })
    }

    /// Number of bytes read so far.
    pub fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Number of lines that were too long.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// The next older line without its newline, and the position of its beginning; none at the beginning of the log.
    pub fn next_line(&mut self) -> io::Result<Option<(Vec<u8>, Position)>> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(path) = self.files.pop() else { return Ok(None) };
                self.open = Open::at(&path, self.from.take())?;
                continue;
            };
            let body = open.buffer.strip_suffix(b"\n").map_or(open.buffer.len(), <[u8]>::len);
            let start = memchr::memrchr(b'\n', &open.buffer[..body]).map(|at| at + 1);
            let start = start.or((open.at == 0 && !open.buffer.is_empty()).then_some(0));
            if let Some(start) = start {
                let mut line = open.buffer.split_off(start);
                line.truncate(body - start);
                let position = Position { file: open.number, offset: open.at + start as u64 };
                if std::mem::take(&mut open.skipping) {
                    self.skipped += 1;
                    continue;
                }
                return Ok(Some((line, position)));
            }
            if open.at == 0 {
                self.open = None;
                continue;
            }
            self.read_bytes += open.more()?;
            if open.skipping && open.buffer.ends_with(b"\n") {
                // The line that was too long begins behind this chunk.
                open.skipping = false;
                self.skipped += 1;
            }
        }
    }
}

impl Open {
    /// Opens a file before an offset. None if the file is gone.
    fn at(path: &Path, before: Option<u64>) -> io::Result<Option<Open>> {
        let file = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let length = file.metadata()?.len();
        let number = file_number(path);
        let at = before.unwrap_or(length).min(length);
        let mut open = Open { file, number, at, buffer: Vec::new(), skipping: false };
        if before.is_none() {
            // What follows the last newline is being written.
            while open.at > 0 && memchr::memrchr(b'\n', &open.buffer).is_none() {
                open.buffer.clear();
                open.more()?;
            }
            let end = memchr::memrchr(b'\n', &open.buffer).map_or(0, |at| at + 1);
            open.buffer.truncate(end);
        }
        Ok(Some(open))
    }

    /// Reads the chunk before the buffer. Returns the number of its bytes.
    fn more(&mut self) -> io::Result<u64> {
        let length = self.at.min(CHUNK as u64);
        self.at -= length;
        self.file.seek(SeekFrom::Start(self.at))?;
        let mut chunk = vec![0; length as usize];
        self.file.read_exact(&mut chunk)?;
        if self.buffer.len() > LINE_BYTES_MAX {
            self.skipping = true;
            self.buffer.clear();
        }
        chunk.append(&mut self.buffer);
        self.buffer = chunk;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BEGINNING, ENDING};
    use super::*;

    fn file(dir: &Path, number: u32, text: &[u8]) {
        std::fs::write(dir.join(format!("{BEGINNING}{number:08}{ENDING}")), text).unwrap();
    }

    fn all(newest: &mut Newest) -> Vec<String> {
        let mut all = Vec::new();
        while let Some((line, _)) = newest.next_line().unwrap() {
            all.push(String::from_utf8(line).unwrap());
        }
        all
    }

    #[test]
    fn the_newest_line_comes_first_over_all_files() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), 1, b"one\ntwo\n");
        file(dir.path(), 2, b"");
        file(dir.path(), 3, b"three\nfour\nhalf a li");
        let mut newest = Newest::of(dir.path(), None).unwrap();
        assert_eq!(all(&mut newest), ["four", "three", "two", "one"]);
        let mut nothing = Newest::of(&dir.path().join("none"), None).unwrap();
        assert!(nothing.next_line().unwrap().is_none());
    }

    #[test]
    fn a_reader_goes_on_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), 1, b"a\nbb\n");
        file(dir.path(), 2, b"ccc\ndddd\n");
        let expected = ["dddd", "ccc", "bb", "a"];
        let (mut before, mut read) = (None, Vec::new());
        loop {
            let mut newest = Newest::of(dir.path(), before).unwrap();
            let Some((line, position)) = newest.next_line().unwrap() else { break };
            read.push(String::from_utf8(line).unwrap());
            before = Some(position.to_string().parse().unwrap());
            // Meanwhile the log grows, which changes nothing for this reader.
            file(dir.path(), 3, b"new\n");
        }
        assert_eq!(read, expected);
        assert_eq!("x".parse::<Position>(), Err(NoPosition));
        assert_eq!("1:-2".parse::<Position>(), Err(NoPosition));
    }

    #[test]
    fn a_position_beyond_the_end_is_the_end() {
        let dir = tempfile::tempdir().unwrap();
        file(dir.path(), 1, b"a\nb\n");
        for position in [Position { file: 1, offset: u64::MAX }, Position { file: 9, offset: 0 }] {
            assert_eq!(all(&mut Newest::of(dir.path(), Some(position)).unwrap()), ["b", "a"], "{position}");
        }
        assert!(all(&mut Newest::of(dir.path(), Some(Position { file: 0, offset: 7 })).unwrap()).is_empty());
    }

    #[test]
    fn lines_across_chunks_are_whole_and_a_monstrous_one_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let long = "x".repeat(3 * CHUNK + 7);
        let monster = "y".repeat(LINE_BYTES_MAX + 3 * CHUNK);
        file(dir.path(), 1, format!("first\n{monster}\n{long}\nlast\n").as_bytes());
        let mut newest = Newest::of(dir.path(), None).unwrap();
        let read = all(&mut newest);
        assert_eq!(read, ["last", &long, "first"]);
        assert_eq!(newest.skipped(), 1);
        assert!(newest.read_bytes() >= LINE_BYTES_MAX as u64);
    }
}
