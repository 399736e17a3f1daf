//! An open run: point lookups, batches and scans.
//!
//! A query tests the filter first, then the block index, and only then reads the disk: the keys of one block, and one
//! piece of its values if a value is wanted.
//!
//! Invariant: the checksum of every column is verified before the column is used.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xxhash_rust::xxh3::xxh3_64;

use super::block::{Finder, KeyBlock, Piece, ValueBlock};
use super::cache::{Cache, Column, Id, Kept};
use super::format::{self, Resident};
use super::scan::Scan;
use super::{Error, Filter, Io, Keys, Options, RunInfo, Source, gallop, less, partition};

/// Maximum batch size that uses the cache: such a batch cannot wipe the cache.
const SMALL_BATCH: usize = 64;

/// An open run. Cheap to clone. The file stays open, and so readable even when removed, until the last clone and the
/// last scan are gone.
#[derive(Clone, Debug)]
pub struct Run {
    pub(super) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    /// Unique among the runs opened by this process.
    id: u64,
    path: PathBuf,
    file: File,
    pub(super) resident: Resident,
    cache: Option<Arc<Cache>>,
}

impl Run {
    /// Opens a run and verifies all but its blocks.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_with(path, None)
    }

    /// Like [`Run::open`], with a cache for [`Run::get`], and for [`Run::get_sorted`] of a few keys.
    pub fn open_cached(path: &Path, cache: &Arc<Cache>) -> Result<Self, Error> {
        Self::open_with(path, Some(cache.clone()))
    }

    fn open_with(path: &Path, cache: Option<Arc<Cache>>) -> Result<Self, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let file = File::open(path).map_err(|source| Error::io(path, source))?;
        let resident = format::open(path, &file)?;
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(Run { inner: Arc::new(Inner { id, path: path.into(), file, resident, cache }) })
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Layout of the run.
    pub fn options(&self) -> &Options {
        &self.inner.resident.options
    }

    /// Size and key range.
    pub fn info(&self) -> &RunInfo {
        &self.inner.resident.info
    }

    /// The metadata stored by the writer's caller.
    pub fn metadata(&self) -> &[u8] {
        &self.inner.resident.metadata
    }

    /// Returns false if the key is certainly absent. Reads only memory.
    pub fn contains_filter(&self, key: &[u8]) -> bool {
        let resident = &self.inner.resident;
        if resident.info.entries == 0 || key.len() != resident.options.shape.width() {
            return false;
        }
        Hashed::default().passes(resident, key)
    }

    /// Sets `found[i]` if key `i` is present; leaves other elements unchanged. Keys found already are not searched.
    ///
    /// Reads each block with a wanted key once, and only its keys.
    pub fn contains_sorted(&self, keys: Keys<'_>, found: &mut [bool], io: &mut Io) -> Result<(), Error> {
        if found.len() != keys.len() {
            return Err(Error::misused(self.path(), "as many answers as keys"));
        }
        let mut column = KeyBlock::default();
        let mut wanted = Vec::new();
        let mut hashed = Hashed::default();
        self.for_blocks(keys, |block, range| {
            self.inner.want(keys, range, |i| !found[i], &mut hashed, &mut wanted);
            if wanted.is_empty() {
                return Ok(());
            }
            self.inner.read_keys(block, &mut column, io)?;
            let mut finder = Finder::new(&column, wanted.len());
            for &i in &wanted {
                found[i] = finder.find(keys.get(i)).is_some();
            }
            Ok(())
        })
    }

    /// Whether a key is present: like [`Run::get`], without its value.
    pub fn contains(&self, key: &[u8], io: &mut Io) -> Result<bool, Error> {
        Ok(self.locate(key, io)?.is_some())
    }

    /// The value of a key. Of several entries with the same key, the first.
    pub fn get(&self, key: &[u8], io: &mut Io) -> Result<Option<Vec<u8>>, Error> {
        let Some((block, keys, entry)) = self.locate(key, io)? else { return Ok(None) };
        let piece = keys.piece_of(entry);
        Ok(Some(self.inner.point_values(block, &piece, io)?.get(entry - piece.first).to_vec()))
    }

    /// Calls `f(i, value)` for each present key `i`, in order. Each block is read once, and of its values only the
    /// pieces with a wanted value. Of several entries with the same key, the first counts.
    pub fn get_sorted(
        &self,
        keys: Keys<'_>,
        io: &mut Io,
        mut f: impl FnMut(usize, &[u8]),
    ) -> Result<(), Error> {
        let is_small = self.inner.cache.is_some() && keys.len() <= SMALL_BATCH;
        // Equal keys may begin in the previous block; rare enough to be read one by one.
        if is_small || self.options().duplicates {
            for i in 0..keys.len() {
                if let Some(value) = self.get(keys.get(i), io)? {
                    f(i, &value);
                }
            }
            return Ok(());
        }
        let mut column = KeyBlock::default();
        let mut values = ValueBlock::default();
        let mut wanted = Vec::new();
        let mut hashed = Hashed::default();
        self.for_blocks(keys, |block, range| {
            self.inner.want(keys, range, |_| true, &mut hashed, &mut wanted);
            if wanted.is_empty() {
                return Ok(());
            }
            self.inner.read_keys(block, &mut column, io)?;
            let mut finder = Finder::new(&column, wanted.len());
            let (mut first, mut end) = (0, 0);
            for &i in &wanted {
                let Some(entry) = finder.find(keys.get(i)) else { continue };
                if entry >= end {
                    let piece = column.piece_of(entry);
                    self.inner.read_values(block, &piece, &mut values, io)?;
                    (first, end) = (piece.first, piece.end);
                }
                f(i, values.get(entry - first));
            }
            Ok(())
        })
    }

    /// Scans the entries from this key on. The key may be empty or short: missing bytes are zeros.
    pub fn scan(&self, from: &[u8]) -> Scan {
        Scan::new(self.inner.clone(), from)
    }

    /// Scans the entries of one group, from this suffix on.
    pub fn scan_group(&self, group: &[u8], from: &[u8]) -> Scan {
        let mut end = group.to_vec();
        // The next group: increment the last byte that is not 255, and cut the bytes after.
        while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
        let scan = self.scan(&[group, from].concat());
        match end.last_mut() {
            Some(byte) => {
                *byte += 1;
                scan.until(&end)
            }
            None => scan,
        }
    }

    /// Reads and verifies everything: checksums, order, counts, and that the filter contains every key.
    pub fn verify(&self) -> Result<Io, Error> {
        let Inner { resident, path, .. } = &*self.inner;
        let damaged = |what, block: usize| Error::damaged(path, what, resident.index.meta(block).offset);
        let mut scan = self.scan(&[]);
        let mut last: Vec<u8> = Vec::new();
        let (mut entries, mut block) = (0, 0);
        let mut hashed = Hashed::default();
        while scan.advance()? {
            let (key, at) = (scan.key(), scan.block());
            let ascends =
                last.is_empty() || last[..] < *key || (last[..] == *key && resident.options.duplicates);
            if !ascends {
                return Err(damaged("order of keys", at));
            }
            if (entries == 0 || at != block) && key != resident.index.first(at) {
                return Err(damaged("first key of a block", at));
            }
            if !hashed.passes(resident, key) {
                return Err(damaged("a key the filter does not know", at));
            }
            block = at;
            entries += 1;
            last.clear();
            last.extend_from_slice(key);
        }
        if entries != resident.info.entries || last != resident.info.last {
            return Err(Error::damaged(path, "entries", 0));
        }
        Ok(scan.io())
    }

    /// Calls `f` with each block that may have some of these keys, and with their range.
    fn for_blocks(
        &self,
        keys: Keys<'_>,
        mut f: impl FnMut(usize, Range<usize>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Inner { resident, path, .. } = &*self.inner;
        let index = &resident.index;
        if !keys.is_empty() && keys.get(0).len() != resident.options.shape.width() {
            return Err(Error::misused(path, "keys of another width"));
        }
        if index.len() == 0 {
            return Ok(());
        }
        let end = partition(0, keys.len(), |i| keys.get(i) <= &resident.info.last[..]);
        let mut at = partition(0, end, |i| less(keys.get(i), index.first(0)));
        let mut block = 0;
        // Expected keys per block if spread evenly.
        let step = (keys.len() / index.len()).max(1);
        while at < end {
            let key = keys.get(at);
            // A batch out of order gives wrong answers in release builds, but must neither panic nor loop for ever.
            block = gallop(block, index.len(), 1, |b| !less(key, index.first(b))).saturating_sub(1);
            let next = match block + 1 < index.len() {
                true => gallop(at, end, step, |i| less(keys.get(i), index.first(block + 1))),
                false => end,
            };
            let next = next.max(at + 1);
            f(block, at..next)?;
            at = next;
        }
        Ok(())
    }

    /// The block of a key's first entry, its keys, and the entry.
    fn locate(&self, key: &[u8], io: &mut Io) -> Result<Option<(usize, Arc<KeyBlock>, usize)>, Error> {
        if !self.contains_filter(key) {
            return Ok(None);
        }
        for block in self.inner.blocks_of(key) {
            let keys = self.inner.point_keys(block, io)?;
            if let Some(entry) = keys.find(key) {
                return Ok(Some((block, keys, entry)));
            }
        }
        Ok(None)
    }
}

impl Inner {
    /// The blocks that may have entries with this key.
    pub(super) fn blocks_of(&self, key: &[u8]) -> Range<usize> {
        let index = &self.resident.index;
        let end = partition(0, index.len(), |b| index.first(b) <= key);
        let begin = match self.resident.options.duplicates {
            true => partition(0, end, |b| index.first(b) < key),
            false => end,
        };
        begin.saturating_sub(1)..end
    }

    /// Selects the keys of a range to search in their block: none if the filter excludes all of them. After the first
    /// hit the block is read anyway, and searching the other keys there costs no more than filtering them.
    fn want(
        &self,
        keys: Keys<'_>,
        range: Range<usize>,
        is_open: impl Fn(usize) -> bool,
        hashed: &mut Hashed,
        wanted: &mut Vec<usize>,
    ) {
        wanted.clear();
        let mut open = range.filter(|&i| is_open(i));
        if let Some(first) = open.find(|&i| hashed.passes(&self.resident, keys.get(i))) {
            wanted.push(first);
            wanted.extend(open);
        }
    }

    pub(super) fn read_keys(&self, block: usize, column: &mut KeyBlock, io: &mut Io) -> Result<(), Error> {
        let meta = self.resident.index.meta(block);
        let bytes = meta.key_bytes as usize;
        format::read_at(&self.path, &self.file, meta.offset, column.buffer(bytes), "keys")?;
        io.count(bytes);
        self.take_keys(block, column)
    }

    pub(super) fn read_values(
        &self,
        block: usize,
        piece: &Piece,
        column: &mut ValueBlock,
        io: &mut Io,
    ) -> Result<(), Error> {
        if piece.bytes > 0 {
            let offset = self.piece_offset(block, piece);
            format::read_at(&self.path, &self.file, offset, column.buffer(piece.bytes), "values")?;
            io.count(piece.bytes);
        }
        self.take_values(block, piece, column)
    }

    /// Verifies and parses the key column in the buffer.
    pub(super) fn take_keys(&self, block: usize, column: &mut KeyBlock) -> Result<(), Error> {
        let meta = self.resident.index.meta(block);
        let bytes = meta.key_bytes as usize;
        if xxh3_64(column.buffer(bytes)) != meta.key_sum {
            return Err(Error::damaged(&self.path, "checksum of keys", meta.offset));
        }
        let value_bytes = self.resident.index.value_bytes(block);
        column
            .parse(bytes, self.resident.options.shape, meta.entries as usize, value_bytes)
            .ok_or_else(|| Error::damaged(&self.path, "keys", meta.offset))
    }

    /// Verifies and parses the piece of values in the buffer.
    pub(super) fn take_values(
        &self,
        block: usize,
        piece: &Piece,
        column: &mut ValueBlock,
    ) -> Result<(), Error> {
        let damaged = |what| Error::damaged(&self.path, what, self.piece_offset(block, piece));
        if xxh3_64(column.buffer(piece.bytes)) != piece.sum {
            return Err(damaged("checksum of values"));
        }
        column.parse(piece.bytes, piece.end - piece.first).ok_or_else(|| damaged("values"))
    }

    fn piece_offset(&self, block: usize, piece: &Piece) -> u64 {
        let meta = self.resident.index.meta(block);
        meta.offset + u64::from(meta.key_bytes) + piece.offset as u64
    }

    /// Reads the stored bytes of consecutive blocks.
    pub(super) fn read_blocks(
        &self,
        blocks: Range<usize>,
        buffer: &mut Vec<u8>,
        io: &mut Io,
    ) -> Result<(), Error> {
        let begin = self.resident.index.meta(blocks.start).offset;
        let bytes = (self.resident.index.end(blocks.end - 1) - begin) as usize;
        buffer.resize(bytes, 0);
        format::read_at(&self.path, &self.file, begin, buffer, "blocks")?;
        io.count(bytes);
        Ok(())
    }

    fn point_keys(&self, block: usize, io: &mut Io) -> Result<Arc<KeyBlock>, Error> {
        let id = Id { run: self.id, block, column: Column::Keys };
        if let Some(Kept::Keys(kept)) = self.cache.as_ref().and_then(|cache| cache.get(id)) {
            return Ok(kept);
        }
        let mut column = KeyBlock::default();
        self.read_keys(block, &mut column, io)?;
        column.shrink();
        let column = Arc::new(column);
        if let Some(cache) = &self.cache {
            cache.put(id, Kept::Keys(column.clone()));
        }
        Ok(column)
    }

    fn point_values(&self, block: usize, piece: &Piece, io: &mut Io) -> Result<Arc<ValueBlock>, Error> {
        let id = Id { run: self.id, block, column: Column::Values(piece.number) };
        if let Some(Kept::Values(kept)) = self.cache.as_ref().and_then(|cache| cache.get(id)) {
            return Ok(kept);
        }
        let mut column = ValueBlock::default();
        self.read_values(block, piece, &mut column, io)?;
        column.shrink();
        let column = Arc::new(column);
        if let Some(cache) = &self.cache {
            cache.put(id, Kept::Values(column.clone()));
        }
        Ok(column)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(cache) = &self.cache {
            cache.forget(self.id);
        }
    }
}

/// Queries the filter, and caches the result of the last group: keys of one group follow each other.
#[derive(Default)]
struct Hashed {
    group: Vec<u8>,
    passes: bool,
}

impl Hashed {
    #[inline]
    fn passes(&mut self, resident: &Resident, key: &[u8]) -> bool {
        let Some(filter) = &resident.filter else { return true };
        match resident.options.filter {
            Filter::None => true,
            Filter::Key => filter.contains(xxh3_64(key)),
            Filter::Group => {
                let group = &key[..resident.options.shape.group];
                if self.group != group {
                    self.group.clear();
                    self.group.extend_from_slice(group);
                    self.passes = filter.contains(xxh3_64(group));
                }
                self.passes
            }
        }
    }
}
