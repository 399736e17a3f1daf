//! The lines of one sorted file with a given prefix, a block at a time.
//!
//! Invariant: no file stays open between two blocks, so that any number of indexes can be read side by side.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::index::read_line;

/// Bytes of lines read at once from one index.
const BATCH_BYTES: usize = 64 * 1024;
/// Bisection stops at a range of this number of bytes, which is then read.
const HALVE_BYTES_MIN: u64 = 16 * 1024;

/// Lines with a given prefix.
#[derive(Debug)]
pub(super) struct Source {
    /// File and offset of further lines.
    rest: Option<(PathBuf, u64)>,
    prefix: Vec<u8>,
    /// The lines before this one; without it, all.
    to: Option<Vec<u8>>,
    lines: VecDeque<Vec<u8>>,
}

impl Source {
    /// Creates a source from sorted lines in memory: those from `from` on and before `to`.
    pub(super) fn memory(lines: &[String], prefix: &str, from: &[u8], to: Option<&[u8]>) -> Source {
        let from = from.max(prefix.as_bytes());
        let first = lines.partition_point(|line| line.as_bytes() < from);
        let is_wanted = |line: &&String| line.starts_with(prefix) && is_before(line.as_bytes(), to);
        let lines = lines[first..].iter().take_while(is_wanted);
        let lines = lines.map(|line| line.clone().into_bytes()).collect();
        Source { rest: None, prefix: prefix.into(), to: None, lines }
    }

    /// Creates a source from a sorted file: its lines from `from` on and before `to`; `None` if no line has the prefix.
    pub(super) fn index(
        path: &Path,
        prefix: &str,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> io::Result<Option<Source>> {
        let file = match File::open(path) {
            // Replaced or moved since the listing.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        // By this very file: an index may be replaced by another at any moment.
        let at = first_in(&file, from.max(prefix.as_bytes()), (0, file.metadata()?.len()))?;
        let (rest, to) = (Some((path.into(), at)), to.map(<[u8]>::to_vec));
        let mut source = Source { rest, prefix: prefix.into(), to, lines: VecDeque::new() };
        source.read(file)?;
        Ok((!source.lines.is_empty()).then_some(source))
    }

    /// Returns the next line, and reads the next block when the buffer is empty.
    pub(super) fn take(&mut self) -> Result<Option<Vec<u8>>, (PathBuf, io::Error)> {
        if self.lines.is_empty()
            && let Some((path, _)) = self.rest.clone()
        {
            File::open(&path).and_then(|file| self.read(file)).map_err(|error| (path, error))?;
        }
        Ok(self.lines.pop_front())
    }

    fn read(&mut self, mut file: File) -> io::Result<()> {
        let Some((path, mut at)) = self.rest.take() else { return Ok(()) };
        file.seek(SeekFrom::Start(at))?;
        let mut input = BufReader::with_capacity(BATCH_BYTES, file);
        let mut bytes = 0;
        while bytes < BATCH_BYTES {
            let Some(mut line) = read_line(&mut input)? else { return Ok(()) };
            if !line.starts_with(&self.prefix) || !is_before(&line, self.to.as_deref()) {
                return Ok(());
            }
            at += line.len() as u64;
            bytes += line.len();
            line.pop();
            self.lines.push_back(line);
        }
        self.rest = Some((path, at));
        Ok(())
    }
}

fn is_before(line: &[u8], to: Option<&[u8]>) -> bool {
    to.is_none_or(|to| line < to)
}

/// Offset of the first line in a range of a file that does not sort before `wanted`. A range begins with a line.
pub(super) fn first_not_before(path: &Path, wanted: &[u8], range: (u64, u64)) -> io::Result<u64> {
    first_in(&File::open(path)?, wanted, range)
}

fn first_in(mut file: &File, wanted: &[u8], range: (u64, u64)) -> io::Result<u64> {
    // Lines that begin before `low` sort before it; lines that begin at `high` or later do not.
    let (mut low, mut high) = range;
    while high - low > HALVE_BYTES_MIN {
        let middle = low + (high - low) / 2;
        file.seek(SeekFrom::Start(middle))?;
        let mut input = BufReader::with_capacity(8 * 1024, file);
        let skipped = input.skip_until(b'\n')? as u64;
        let begin = middle + skipped;
        let line = read_line(&mut input)?;
        match line {
            Some(line) if begin < high => {
                if line.as_slice() < wanted {
                    low = begin;
                } else {
                    high = middle;
                }
            }
            // One line fills the second half.
            _ => high = middle,
        }
    }
    file.seek(SeekFrom::Start(low))?;
    let mut input = BufReader::new(file);
    let mut at = low;
    // `low` is the beginning of a line, or 0.
    while let Some(line) = read_line(&mut input)? {
        if line.as_slice() >= wanted || at >= range.1 {
            break;
        }
        at += line.len() as u64;
    }
    Ok(at.min(range.1))
}

/// The first line that begins after `middle`, without its end; none if no line begins before `to`.
pub(super) fn line_after(path: &Path, middle: u64, to: u64) -> io::Result<Option<Vec<u8>>> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(middle))?;
    let mut input = BufReader::with_capacity(8 * 1024, &file);
    let begin = middle + input.skip_until(b'\n')? as u64;
    if begin >= to {
        return Ok(None);
    }
    let mut line = read_line(&mut input)?;
    line.iter_mut().for_each(|line| line.truncate(line.trim_ascii_end().len()));
    Ok(line)
}
