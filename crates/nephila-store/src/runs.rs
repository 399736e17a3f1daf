//! Sorted runs: immutable files of sorted entries, from which everything known about many URLs is made.
//!
//! A [`RunWriter`] takes entries in ascending order and writes them once. A [`Run`] opens such a file and answers
//! whether keys are there, reads single values, or [scans](Scan) a range. A [`Merge`] walks several sorted
//! [sources](Source) at once, so that a caller can fold many runs into one. Everything is bytes here: keys have a
//! fixed width and compare bytewise, values are of any length and nobody looks into them.
//!
//! What always holds: a file is never changed after [`RunWriter::finish`]. Every byte of it is covered by a checksum
//! that is looked at before the byte is used, so a damaged file gives [`Error::Damaged`] and never a wrong answer.
//! Memory of an open run is its block index and its filter, both known from [`RunInfo::resident_bytes`].
//!
//! `format` says how the bytes lie in a file.

use std::io;
use std::path::{Path, PathBuf};

mod block;
mod build;
mod cache;
mod format;
mod fuse;
mod merge;
mod run;
mod scan;
mod writer;

#[cfg(test)]
mod damage_tests;
#[cfg(test)]
mod tests;

pub use cache::Cache;
pub use merge::{Entries, Group, Merge, Policy, Source};
pub use run::Run;
pub use scan::{Entry, Scan};
pub use writer::RunWriter;

/// Most entries a block may have: positions in it are stored in 16 bits.
pub const BLOCK_ENTRIES_MAX: usize = u16::MAX as usize;
/// Longest value.
pub const VALUE_BYTES_MAX: usize = 16 << 20;
/// Most bytes of values a piece may be asked to gather.
pub const PIECE_BYTES_MAX: usize = 1 << 20;
/// Longest metadata of a caller.
pub const METADATA_BYTES_MAX: usize = 1 << 20;

/// How wide keys are: a group, which many neighbours share, then a suffix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of the group, 1 to 255.
    pub group: usize,
    /// Bytes after the group, 0 to 255.
    pub suffix: usize,
}

impl Shape {
    /// Bytes of a key.
    pub fn width(self) -> usize {
        self.group + self.suffix
    }
}

/// How keys are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyColumn {
    /// As they are: fast to search. Right for keys that end in hashes, which do not shrink.
    Raw,
    /// Compressed where that makes them smaller.
    Zstd,
}

/// What the resident filter of a run knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every key: 9 bits a key.
    Key,
    /// Every group: 9 bits a group.
    Group,
    /// Nothing: there is no filter.
    None,
}

/// How a run is laid out. Written into the file, so that a reader needs only the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How wide keys are.
    pub shape: Shape,
    /// How keys are stored.
    pub keys: KeyColumn,
    /// What the filter knows.
    pub filter: Filter,
    /// Whether equal keys may follow each other.
    pub duplicates: bool,
    /// A block ends after so many entries, at most [`BLOCK_ENTRIES_MAX`]. More make the index smaller, fewer make
    /// single reads cheaper.
    pub block_entries: usize,
    /// Values of a block are compressed in pieces of at most so many bytes before that, at most [`PIECE_BYTES_MAX`]; a
    /// longer value has a piece of its own. Larger ones shrink more, smaller ones make single reads cheaper. A block
    /// ends also when its values would fill more than 16 pieces.
    pub piece_bytes: usize,
}

impl Options {
    /// Raw keys, a filter over all of them, no duplicates, blocks of 2,048 entries, pieces of 16 KiB: of records of 60
    /// bytes, 16 KiB take 5 % more room than 64 KiB and are read in a third of the time.
    pub fn new(shape: Shape) -> Self {
        Options {
            shape,
            keys: KeyColumn::Raw,
            filter: Filter::Key,
            duplicates: false,
            block_entries: 2048,
            piece_bytes: 16 << 10,
        }
    }

    /// What is wrong with these options, if anything.
    fn fault(&self) -> Option<&'static str> {
        let widths = 1..=usize::from(u8::MAX);
        if !widths.contains(&self.shape.group) || self.shape.suffix > usize::from(u8::MAX) {
            Some("the width of keys")
        } else if self.block_entries == 0 || self.block_entries > BLOCK_ENTRIES_MAX {
            Some("the entries of a block")
        } else if self.piece_bytes == 0 || self.piece_bytes > PIECE_BYTES_MAX {
            Some("the bytes of a piece")
        } else {
            None
        }
    }
}

/// What a run is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// How many entries it has.
    pub entries: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// Memory it takes while open: block index, filter and metadata.
    pub resident_bytes: u64,
    /// Lowest key; empty if there are no entries.
    pub first: Vec<u8>,
    /// Highest key; empty if there are no entries.
    pub last: Vec<u8>,
}

/// Reads from files, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// How many.
    pub reads: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Io {
    fn count(&mut self, bytes: usize) {
        self.reads += 1;
        self.bytes += bytes as u64;
    }
}

/// A batch of keys of one width, one after the other, ascending and without repeats.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a> Keys<'a> {
    /// Bytes beyond the last whole key are not looked at.
    pub fn new(bytes: &'a [u8], width: usize) -> Self {
        assert!(width > 0, "a key has at least one byte");
        let keys = Keys { bytes, width };
        debug_assert!(keys.is_sorted(), "keys of a batch ascend");
        keys
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        &self.bytes[index * self.width..][..self.width]
    }

    fn is_sorted(&self) -> bool {
        (1..self.len()).all(|i| self.get(i - 1) < self.get(i))
    }
}

/// Why a run was not written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk refused. A writer that met this is of no more use: remove its file and write it again.
    #[error("{}: {source}", path.display())]
    Io {
        /// Of the run.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
    /// The file does not have the bytes that were written. Never retry: fetch another copy of the run.
    #[error("{}: damaged at {offset}: {what}", path.display())]
    Damaged {
        /// Of the run.
        path: PathBuf,
        /// Which part.
        what: &'static str,
        /// Where this part begins.
        offset: u64,
    },
    /// The file is whole, but of a format made after this program.
    #[error("{}: format version {version} is not known", path.display())]
    Version {
        /// Of the run.
        path: PathBuf,
        /// Of its format.
        version: u32,
    },
    /// The caller broke a rule: keys out of order or of another width, a value too long. A mistake in the program.
    #[error("{}: misused: {what}", path.display())]
    Misused {
        /// Of the run.
        path: PathBuf,
        /// Which rule.
        what: &'static str,
    },
}

impl Error {
    fn io(path: &Path, source: io::Error) -> Self {
        Error::Io { path: path.into(), source }
    }

    fn damaged(path: &Path, what: &'static str, offset: u64) -> Self {
        Error::Damaged { path: path.into(), what, offset }
    }

    fn misused(path: &Path, what: &'static str) -> Self {
        Error::Misused { path: path.into(), what }
    }
}

/// Whether one key or part of a key lies before another of the same width. Eight bytes at a time are compared as one
/// number: the first decide nearly always where keys are hashes, and a call to compare memory costs more.
#[inline]
fn less(mut a: &[u8], mut b: &[u8]) -> bool {
    while let (Some((x, a_rest)), Some((y, b_rest))) = (a.split_first_chunk(), b.split_first_chunk()) {
        if x != y {
            return u64::from_be_bytes(*x) < u64::from_be_bytes(*y);
        }
        // What is left is compared together with some bytes before it, which are equal.
        if a_rest.len() < 8
            && let (Some(x), Some(y)) = (a.last_chunk(), b.last_chunk())
        {
            return u64::from_be_bytes(*x) < u64::from_be_bytes(*y);
        }
        (a, b) = (a_rest, b_rest);
    }
    a < b
}

/// Whether two keys or parts of keys of the same width are equal.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    match (a.first_chunk::<8>(), b.first_chunk::<8>(), a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(a_first), Some(b_first), Some(a_last), Some(b_last)) if a.len() <= 16 => {
            a_first == b_first && a_last == b_last
        }
        _ => a == b,
    }
}

/// The first place in `from..to` where `before` does not hold; it must hold up to some place and not after. Looks
/// `step` places ahead, then twice as far each time, so that it costs the logarithm of the distance gone.
#[inline]
fn gallop(from: usize, to: usize, mut step: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (from, to);
    while step <= high - low {
        let probe = low + step - 1;
        if !before(probe) {
            high = probe;
            break;
        }
        low = probe + 1;
        step *= 2;
    }
    partition(low, high, before)
}

/// The same, by halving. The halves are chosen without a branch: nobody could predict it.
#[inline]
fn partition(from: usize, to: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut size) = (from, to.saturating_sub(from));
    while size > 0 {
        let half = size / 2;
        let middle = low + half;
        let is_before = before(middle);
        low = if is_before { middle + 1 } else { low };
        size = if is_before { size - half - 1 } else { half };
    }
    low
}
