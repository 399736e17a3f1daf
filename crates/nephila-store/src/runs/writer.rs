//! Writes a run, once, from the first entry to the footer.
//!
//! Entries gather in a block, blocks in a buffer, and the buffer goes to the disk when it is large. The hashes for
//! the filter wait in memory until [`RunWriter::finish`], 8 bytes a key and 24 while the filter is built.
//!
//! What always holds: a file without a footer is no run, and the footer is written last, then all is synced. A writer
//! that met an error writes nothing more.

use std::fmt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64;

use super::build::Builder;
use super::format::{self, BlockMeta, Index, MAGIC};
use super::fuse::Fuse;
use super::{Error, Filter, KeyColumn, METADATA_BYTES_MAX, Options, RunInfo, VALUE_BYTES_MAX};
use crate::disk::{Disk, DiskFile};

/// Bytes gathered before each write.
const WRITE_BYTES: usize = 512 << 10;

/// Writes a run. The file has its final name from the beginning; it counts once something else lists it.
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
    /// Makes a new file; fails if there is one of this name.
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

    /// How many entries it has so far.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Length of the file so far, without index, filter and the block at work: good for deciding when to begin another.
    pub fn file_bytes(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    /// Adds an entry. Its key lies above the last one, or is equal where duplicates are allowed. An entry that breaks
    /// this rule is refused and changes nothing.
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

    /// Writes what is left and makes the file durable. Its name is durable once the caller synced the folder. The
    /// metadata, at most [`METADATA_BYTES_MAX`], can be read from the open run.
    pub fn finish(mut self, metadata: &[u8]) -> Result<RunInfo, Error> {
        if metadata.len() > METADATA_BYTES_MAX {
            return Err(Error::misused(&self.path, "metadata too long"));
        }
        if self.builder.entries() > 0 {
            self.end_block()?;
        }
        // Without entries there is nothing to ask a filter. One that cannot be built is left out: all is found still.
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

    /// Counts as broken until the change has worked.
    fn begin_change(&mut self) -> Result<(), Error> {
        match std::mem::replace(&mut self.is_broken, true) {
            true => Err(Error::misused(&self.path, "written to after an error")),
            false => Ok(()),
        }
    }
}
