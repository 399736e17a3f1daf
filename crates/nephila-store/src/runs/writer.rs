//! Writes a run, once, from the first entry to the footer.
//!
//! Entries are buffered in a block, blocks in a buffer, and the buffer is written when large. The hashes for the filter
//! stay in memory until [`RunWriter::finish`], 8 bytes per key and 24 during the build of the filter.
//!
//! Invariants: a file without a footer is not a run; the footer is written last, then the file is synced. A writer that
//! met an error writes nothing more.

use std::fmt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::build::Builder;
use super::format::{self, BlockMeta, Index, MAGIC};
use super::fuse::Fuse;
use super::{Error, Filter, KeyColumn, METADATA_BYTES_MAX, Options, RunInfo, VALUE_BYTES_MAX};
use crate::disk::{Disk, DiskFile};

/// Bytes buffered before each write.
const WRITE_BYTES: usize = 512 << 10;

/// Writes a run. The file has its final name from the beginning; the run counts once a manifest lists the file.
pub struct RunWriter {
    path: PathBuf,
    file: Box<dyn DiskFile>,
    options: Options,
    builder: Builder,
    index: Index,
    hashes: Vec<u64>,
    entries: u64,
    last: Vec<u8>,
    buffer: Vec<u8>,
    written: u64,
    is_broken: bool,
}

impl fmt::Debug for RunWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWriter").field("path", &self.path).field("entries", &self.entries).finish()
    }
}

impl RunWriter {
    /// Creates a new file; fails if the name exists.
    pub fn create(disk: &dyn Disk, path: &Path, options: Options) -> Result<Self, Error> {
        if let Some(what) = options.fault() {
            return Err(Error::misused(path, what));
        }
        let file = disk.create(path).map_err(|source| Error::io(path, source))?;
        let builder = Builder::new(options).map_err(|source| Error::io(path, source))?;
        let mut buffer = Vec::with_capacity(WRITE_BYTES * 2);
        buffer.extend_from_slice(&MAGIC);
        Ok(RunWriter {
            path: path.into(),
            file,
            options,
            builder,
            index: Index::new(options.shape.width()),
            hashes: Vec::new(),
            entries: 0,
            last: Vec::with_capacity(options.shape.width()),
            buffer,
            written: 0,
            is_broken: false,
        })
    }

    /// Number of entries so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Length of the file so far, without index, filter and the current block: for deciding when to begin another run.
    pub fn file_bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Appends an entry. Its key lies above the previous one, or is equal where duplicates are allowed. An entry that
    /// violates this rule is refused and changes nothing.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if key.len() != self.options.shape.width() {
            return Err(Error::misused(&self.path, "a key of another width"));
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::misused(&self.path, "a value too long"));
        }
        if self.entries > 0 && (key < &self.last[..] || (key == self.last && !self.options.duplicates)) {
            return Err(Error::misused(&self.path, "a key out of order"));
        }
        if self.builder.is_full(value.len()) {
            self.end_block()?;
        }
        let hashed = match self.options.filter {
            Filter::Key => key,
            Filter::Group => &key[..self.options.shape.group],
            Filter::None => &[],
        };
        if !hashed.is_empty() && !self.last.starts_with(hashed) {
            self.hashes.push(xxh3_64(hashed));
        }
        self.begin_change()?;
        self.builder.push(key, value).map_err(|source| Error::io(&self.path, source))?;
        self.is_broken = false;
        self.entries += 1;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    /// Writes the rest and makes the file durable. Its name is durable once the caller has synced the folder. The
    /// metadata, at most [`METADATA_BYTES_MAX`], can be read from the open run.
    pub fn finish(mut self, metadata: &[u8]) -> Result<RunInfo, Error> {
        if metadata.len() > METADATA_BYTES_MAX {
            return Err(Error::misused(&self.path, "metadata too long"));
        }
        if self.builder.entries() > 0 {
            self.end_block()?;
        }
        // A run without entries needs no filter. A filter that cannot be built is left out: every key is still found.
        let hashes = std::mem::take(&mut self.hashes);
        let filter = if hashes.is_empty() { None } else { Fuse::build(hashes) };
        let (tail, info) =
            format::tail(&self.options, self.entries, &self.last, &self.index, filter.as_ref(), metadata);
        self.flush()?;
        self.buffer = tail;
        self.flush()?;
        self.file.sync().map_err(|source| Error::io(&self.path, source))?;
        Ok(info)
    }

    fn end_block(&mut self) -> Result<(), Error> {
        self.begin_change()?;
        let begin = self.buffer.len();
        let entries = self.builder.entries() as u32;
        let compressed = self.options.keys == KeyColumn::Zstd;
        let key_bytes = self
            .builder
            .finish(compressed, &mut self.buffer)
            .map_err(|source| Error::io(&self.path, source))?;
        let (keys, values) = self.buffer[begin..].split_at(key_bytes);
        let meta = BlockMeta { offset: 0, key_sum: xxh3_64(keys), key_bytes: key_bytes as u32, entries };
        let value_bytes = values.len() as u32;
        self.index.push(self.builder.first(), meta, value_bytes);
        self.is_broken = false;
        if self.buffer.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.begin_change()?;
        self.file.write_at(self.written, &self.buffer).map_err(|source| Error::io(&self.path, source))?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        self.is_broken = false;
        Ok(())
    }

    /// Marks the writer as broken until the change has succeeded.
    fn begin_change(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.is_broken, true) {
            true => Err(Error::misused(&self.path, "written to after an error")),
            false => Ok(()),
        }
    }
}
