//! Sorted runs: immutable files of sorted entries, the storage of all tables about URLs.
//!
//! A [`RunWriter`] takes entries in ascending order and writes them once. A [`Run`] opens such a file, tests for keys,
//! reads single values, or [scans](Scan) a range. A [`Merge`] iterates over several sorted [sources](Source) at once,
//! so that a caller can merge many runs into one. Everything is bytes here: keys have a fixed width and compare
//! bytewise; values are opaque and of any length.
//!
//! Invariants: a file never changes after [`RunWriter::finish`]. Every byte is covered by a checksum that is verified
//! before the byte is used, so a damaged file gives [`Error::Damaged`] and never a wrong answer. The memory of an open
//! run is its block index and its filter, both known from [`RunInfo::resident_bytes`].
//!
//! `format` describes the file format.

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

/// Maximum entries per block: positions in a block are stored in 16 bits.
pub const BLOCK_ENTRIES_MAX: usize = u16::MAX as usize;
/// Maximum length of a value in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;
/// Maximum setting for [`Options::piece_bytes`].
pub const PIECE_BYTES_MAX: usize = 1 << 20;
/// Maximum length of a caller's metadata in bytes.
pub const METADATA_BYTES_MAX: usize = 1 << 20;

/// Width of keys: a group, which many neighbours share, then a suffix.
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
    /// Uncompressed: fast to search. Right for keys that end in hashes, which do not compress.
    Raw,
    /// Compressed where that is smaller.
    Zstd,
}

/// Content of the resident filter of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every key: 9 bits a key.
    Key,
    /// Every group: 9 bits a group.
    Group,
    /// No filter.
    None,
}

/// Layout of a run. Stored in the file, so that a reader needs only the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Width of keys.
    pub shape: Shape,
    /// How keys are stored.
    pub keys: KeyColumn,
    /// Content of the filter.
    pub filter: Filter,
    /// Whether equal keys may follow each other.
    pub duplicates: bool,
    /// Maximum entries per block, up to [`BLOCK_ENTRIES_MAX`]. More entries make the index smaller, fewer make single
    /// reads cheaper.
    pub block_entries: usize,
    /// Maximum uncompressed bytes per piece of values, up to [`PIECE_BYTES_MAX`]; a longer value has a piece of its
    /// own. Larger pieces compress better, smaller ones make single reads cheaper. A block also ends when its values
    /// would fill more than 16 pieces.
    pub piece_bytes: usize,
}

impl Options {
    /// Raw keys, a filter over all of them, no duplicates, blocks of 2,048 entries, pieces of 16 KiB: for records of 60
    /// bytes, pieces of 16 KiB take 5 % more space than 64 KiB and are read in a third of the time.
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

    /// The first fault of these options, if any.
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

/// Size and key range of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunInfo {
    /// Number of entries.
    pub entries: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// Memory of an open run: block index, filter and metadata.
    pub resident_bytes: u64,
    /// Lowest key; empty if there are no entries.
    pub first: Vec<u8>,
    /// Highest key; empty if there are no entries.
    pub last: Vec<u8>,
}

/// Counters of file reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Io {
    /// Number of reads.
    pub reads: u64,
    /// Total bytes.
    pub bytes: u64,
}

impl Io {
    fn count(&mut self, bytes: usize) {
        self.reads += 1;
        self.bytes += bytes as u64;
    }
}

/// A batch of keys of one width, concatenated, ascending and without duplicates.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    bytes: &'a [u8],
    width: usize,
}

impl<'a> Keys<'a> {
    /// Bytes after the last whole key are ignored.
    pub fn new(bytes: &'a [u8], width: usize) -> Self {
        assert!(width > 0, "a key has at least one byte");
        let keys = Keys { bytes, width };
        debug_assert!(keys.is_sorted(), "keys of a batch ascend");
        keys
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The key with this index.
    #[inline]
    pub fn get(&self, index: usize) -> &'a [u8] {
        &self.bytes[index * self.width..][..self.width]
    }

    fn is_sorted(&self) -> bool {
        (1..self.len()).all(|i| self.get(i - 1) < self.get(i))
    }
}

/// Errors of writing and reading runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk failed. A writer with this error is unusable: remove its file and write the run again.
    #[error("{}: {source}", path.display())]
    Io {
        /// The run.
        path: PathBuf,
        /// The error of the disk.
        source: io::Error,
    },
    /// The file differs from the written bytes. Never retry: fetch another copy of the run.
    #[error("{}: damaged at {offset}: {what}", path.display())]
    Damaged {
        /// The run.
        path: PathBuf,
        /// The damaged part.
        what: &'static str,
        /// Offset of this part.
        offset: u64,
    },
    /// The file is whole, but of a later format than this program knows.
    #[error("{}: format version {version} is not known", path.display())]
    Version {
        /// The run.
        path: PathBuf,
        /// Version of the format.
        version: u32,
    },
    /// The caller violated a rule: keys out of order or of another width, a value too long. A mistake in the program.
    #[error("{}: misused: {what}", path.display())]
    Misused {
        /// The run.
        path: PathBuf,
        /// The rule.
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

/// Whether a key or part of a key sorts before another of the same width. Eight bytes at a time are compared as one
/// number: in hashes the first bytes decide nearly always, and a call to compare memory costs more.
#[inline]
fn less(mut a: &[u8], mut b: &[u8]) -> bool {
    while let (Some((x, a_rest)), Some((y, b_rest))) = (a.split_first_chunk(), b.split_first_chunk()) {
        if x != y {
            return u64::from_be_bytes(*x) < u64::from_be_bytes(*y);
        }
        // The rest is compared together with some bytes before, which are equal.
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

/// The first index in `from..to` where `before` is false; `before` must hold up to some index and not after (galloping
/// search). Looks `step` indexes ahead, then twice as far each time: the cost is the logarithm of the distance.
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

/// Like [`gallop`], by bisection. The halves are chosen without a branch, which would be unpredictable.
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
