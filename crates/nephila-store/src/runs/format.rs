//! How the bytes of a run lie in its file, version 1. All numbers are little-endian; keys compare bytewise.
//!
//! ```text
//! head      8   "nephrun" 0x01
//! blocks        one after the other, each: key column, pieces of values
//! index         for each block: first key, bytes of the key column (4), of all pieces (4), entries (4), checksum of
//!               the key column (8); then the last key of the run, if any
//! filter        rounds (4), bits of a segment (4), first slots (4), slots; nothing if there is no filter
//! metadata      the caller's
//! footer  128   0 "nephrun" 0x01 · 8 version (4) · 12 group, suffix, key column, filter, duplicates (1 each), 0 (3)
//!               20 entries of a block (4) · 24 bytes of a piece (4) · 28 blocks (4) · 32 entries (8)
//!               40 bytes of head and blocks (8) · 48 of the index (8) · 56 of the filter (8) · 64 of metadata (8)
//!               72 checksum of the index (8) · 80 of the filter (8) · 88 of metadata (8) · 96 zero (24)
//!               120 checksum of these 120 bytes (8)
//!
//! column        0 and the payload as it is, or 1, the payload's length (4) and the payload as a zstd frame
//! keys          groups (2), pieces (2), each group, where it ends (2 for each group; nothing if there are as many
//!               groups as entries), each suffix, for each piece: where it ends (2), its bytes (4), its checksum (8)
//! piece         a column: the length of each value (LEB128), then each value; no bytes if all values are empty
//! ```
//!
//! Checksums are XXH3 with 64 bits, of the bytes as they are stored. The footer keeps its length and its own checksum
//! in every later version, so that a file of another version is told from a damaged one.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::xxh3_64;

use super::fuse::Fuse;
use super::{Error, Filter, KeyColumn, METADATA_BYTES_MAX, Options, RunInfo, Shape};

/// Magic bytes at the beginning of a file, and of its footer.
pub(super) const MAGIC: [u8; 8] = *b"nephrun\x01";
/// Version of the format.
pub(super) const VERSION: u32 = 1;

const FOOTER_BYTES: usize = 128;
/// Bytes of a block's row in the index, without its first key.
const INDEX_BYTES: usize = 20;

/// Index row of a block, without its first key.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlockMeta {
    pub(super) offset: u64,
    pub(super) key_sum: u64,
    pub(super) key_bytes: u32,
    pub(super) entries: u32,
}

/// The resident part of a run.
#[derive(Debug)]
pub(super) struct Resident {
    pub(super) options: Options,
    pub(super) info: RunInfo,
    pub(super) index: Index,
    pub(super) filter: Option<Fuse>,
    pub(super) metadata: Vec<u8>,
}

/// Block index: first keys, rows, and the end of the last block.
#[derive(Debug, Default)]
pub(super) struct Index {
    width: usize,
    firsts: Vec<u8>,
    metas: Vec<BlockMeta>,
    end: u64,
}

impl Index {
    pub(super) fn new(width: usize) -> Self {
        Index { width, end: MAGIC.len() as u64, ..Index::default() }
    }

    /// Appends a block.
    pub(super) fn push(&mut self, first: &[u8], mut meta: BlockMeta, value_bytes: u32) {
        meta.offset = self.end;
        self.end += u64::from(meta.key_bytes) + u64::from(value_bytes);
        self.firsts.extend_from_slice(first);
        self.metas.push(meta);
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.metas.len()
    }

    pub(super) fn first(&self, block: usize) -> &[u8] {
        &self.firsts[block * self.width..][..self.width]
    }

    pub(super) fn meta(&self, block: usize) -> &BlockMeta {
        &self.metas[block]
    }

    /// End of a block, where the next begins.
    pub(super) fn end(&self, block: usize) -> u64 {
        self.metas.get(block + 1).map_or(self.end, |next| next.offset)
    }

    /// Total length of a block's pieces.
    pub(super) fn value_bytes(&self, block: usize) -> usize {
        let meta = self.meta(block);
        (self.end(block) - meta.offset) as usize - meta.key_bytes as usize
    }

    fn bytes(&self) -> usize {
        self.firsts.len() + self.metas.len() * size_of::<BlockMeta>()
    }

    fn encode(&self, last: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len() * (self.width + INDEX_BYTES) + last.len());
        for (block, meta) in self.metas.iter().enumerate() {
            out.extend_from_slice(self.first(block));
            out.extend_from_slice(&meta.key_bytes.to_le_bytes());
            out.extend_from_slice(&(self.value_bytes(block) as u32).to_le_bytes());
            out.extend_from_slice(&meta.entries.to_le_bytes());
            out.extend_from_slice(&meta.key_sum.to_le_bytes());
        }
        out.extend_from_slice(last);
        out
    }

    /// Parses the index of `blocks` blocks; also returns the last key.
    fn parse(stored: &[u8], width: usize, blocks: usize) -> Option<(Index, Vec<u8>)> {
        let last_bytes = if blocks == 0 { 0 } else { width };
        if stored.len() != blocks.checked_mul(width + INDEX_BYTES)?.checked_add(last_bytes)? {
            return None;
        }
        let mut index = Index::new(width);
        index.firsts.reserve_exact(blocks * width);
        index.metas.reserve_exact(blocks);
        let (rows, last) = stored.split_at(stored.len() - last_bytes);
        for row in rows.chunks_exact(width + INDEX_BYTES) {
            let (first, rest) = row.split_at(width);
            let meta = BlockMeta {
                offset: 0,
                key_bytes: u32_at(rest, 0),
                entries: u32_at(rest, 8),
                key_sum: u64_at(rest, 12),
            };
            index.push(first, meta, u32_at(rest, 4));
        }
        Some((index, last.to_vec()))
    }
}

/// Encodes everything after the blocks. Also returns the properties of the run.
pub(super) fn tail(
    options: &Options,
    entries: u64,
    last: &[u8],
    index: &Index,
    filter: Option<&Fuse>,
    metadata: &[u8],
) -> (Vec<u8>, RunInfo) {
    let mut out = index.encode(last);
    let index_bytes = out.len();
    let index_sum = xxh3_64(&out);
    if let Some(filter) = filter {
        out.extend_from_slice(&filter.head());
        out.extend_from_slice(filter.slots());
    }
    let filter_bytes = out.len() - index_bytes;
    let filter_sum = xxh3_64(&out[index_bytes..]);
    out.extend_from_slice(metadata);

    let mut footer = [0; FOOTER_BYTES];
    let mut put = |at: usize, bytes: &[u8]| footer[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &MAGIC);
    put(8, &VERSION.to_le_bytes());
    let keys = match options.keys {
        KeyColumn::Raw => 0,
        KeyColumn::Zstd => 1,
    };
    let kind = match options.filter {
        Filter::None => 0,
        Filter::Key => 1,
        Filter::Group => 2,
    };
    let Shape { group, suffix } = options.shape;
    put(12, &[group as u8, suffix as u8, keys, kind, u8::from(options.duplicates)]);
    put(20, &(options.block_entries as u32).to_le_bytes());
    put(24, &(options.piece_bytes as u32).to_le_bytes());
    put(28, &(index.len() as u32).to_le_bytes());
    put(32, &entries.to_le_bytes());
    let lengths = [index.end, index_bytes as u64, filter_bytes as u64, metadata.len() as u64];
    let sums = [index_sum, filter_sum, xxh3_64(metadata)];
    for (i, number) in lengths.iter().chain(&sums).enumerate() {
        put(40 + 8 * i, &number.to_le_bytes());
    }
    let sum = xxh3_64(&footer[..FOOTER_BYTES - 8]);
    footer[FOOTER_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
    out.extend_from_slice(&footer);

    let info = RunInfo {
        entries,
        file_bytes: index.end + out.len() as u64,
        resident_bytes: resident_bytes(index, filter, metadata),
        first: if index.len() == 0 { Vec::new() } else { index.first(0).to_vec() },
        last: last.to_vec(),
    };
    (out, info)
}

fn resident_bytes(index: &Index, filter: Option<&Fuse>, metadata: &[u8]) -> u64 {
    (index.bytes() + filter.map_or(0, Fuse::bytes) + metadata.len()) as u64
}

/// Reads and verifies everything but the blocks.
pub(super) fn open(path: &Path, file: &File) -> Result<Resident, Error> {
    let file_bytes = file.metadata().map_err(|source| Error::io(path, source))?.len();
    let read = |offset: u64, bytes: u64, what| {
        let mut buffer = vec![0; bytes as usize];
        read_at(path, file, offset, &mut buffer, what).map(|()| buffer)
    };

    let footer_at = file_bytes.saturating_sub(FOOTER_BYTES as u64);
    let damaged = |what| Error::damaged(path, what, footer_at);
    if footer_at < MAGIC.len() as u64 {
        return Err(damaged("too short to be a run"));
    }
    let footer = read(footer_at, FOOTER_BYTES as u64, "footer")?;
    if footer[..MAGIC.len()] != MAGIC {
        return Err(damaged("no footer"));
    }
    if xxh3_64(&footer[..FOOTER_BYTES - 8]) != u64_at(&footer, FOOTER_BYTES - 8) {
        return Err(damaged("checksum of the footer"));
    }
    let version = u32_at(&footer, 8);
    if version != VERSION {
        return Err(Error::Version { path: path.into(), version });
    }
    let options = parse_options(&footer).ok_or_else(|| damaged("options"))?;

    let [blocks_bytes, index_bytes, filter_bytes, metadata_bytes, index_sum, filter_sum, metadata_sum] =
        std::array::from_fn(|i| u64_at(&footer, 40 + 8 * i));
    let index_at = blocks_bytes;
    let filter_at = index_at.checked_add(index_bytes);
    let metadata_at = filter_at.and_then(|at| at.checked_add(filter_bytes));
    let end = metadata_at.and_then(|at| at.checked_add(metadata_bytes));
    let (Some(filter_at), Some(metadata_at), Some(true)) =
        (filter_at, metadata_at, end.map(|end| end == footer_at))
    else {
        return Err(damaged("lengths of the parts"));
    };
    if metadata_bytes > METADATA_BYTES_MAX as u64 {
        return Err(damaged("length of the metadata"));
    }

    if read(0, MAGIC.len() as u64, "head")? != MAGIC {
        return Err(Error::damaged(path, "head", 0));
    }
    let checked = |offset: u64, bytes: u64, sum: u64, what| {
        let part = read(offset, bytes, what)?;
        if xxh3_64(&part) == sum { Ok(part) } else { Err(Error::damaged(path, what, offset)) }
    };
    let stored = checked(index_at, index_bytes, index_sum, "index")?;
    let (index, last) = Index::parse(&stored, options.shape.width(), u32_at(&footer, 28) as usize)
        .filter(|(index, _)| index.end == blocks_bytes)
        .ok_or_else(|| Error::damaged(path, "index", index_at))?;
    let entries = u64_at(&footer, 32);
    let counted: u64 = index.metas.iter().map(|meta| u64::from(meta.entries)).sum();
    let sizes_fit = index.metas.iter().all(|meta| (1..=options.block_entries as u32).contains(&meta.entries));
    if counted != entries || !sizes_fit {
        return Err(Error::damaged(path, "index", index_at));
    }

    let stored = checked(filter_at, filter_bytes, filter_sum, "filter")?;
    let filter = match stored.len() {
        0 => None,
        _ => Some(Fuse::parse(stored).ok_or_else(|| Error::damaged(path, "filter", filter_at))?),
    };
    let metadata = checked(metadata_at, metadata_bytes, metadata_sum, "metadata")?;

    let info = RunInfo {
        entries,
        file_bytes,
        resident_bytes: resident_bytes(&index, filter.as_ref(), &metadata),
        first: if index.len() == 0 { Vec::new() } else { index.first(0).to_vec() },
        last,
    };
    Ok(Resident { options, info, index, filter, metadata })
}

fn parse_options(footer: &[u8]) -> Option<Options> {
    let options = Options {
        shape: Shape { group: footer[12].into(), suffix: footer[13].into() },
        keys: match footer[14] {
            0 => KeyColumn::Raw,
            1 => KeyColumn::Zstd,
            _ => return None,
        },
        filter: match footer[15] {
            0 => Filter::None,
            1 => Filter::Key,
            2 => Filter::Group,
            _ => return None,
        },
        duplicates: match footer[16] {
            0 => false,
            1 => true,
            _ => return None,
        },
        block_entries: u32_at(footer, 20) as usize,
        piece_bytes: u32_at(footer, 24) as usize,
    };
    options.fault().is_none().then_some(options)
}

/// Fills the buffer from this offset. A file that ends before is damaged.
pub(super) fn read_at(
    path: &Path,
    file: &File,
    offset: u64,
    buffer: &mut [u8],
    what: &'static str,
) -> Result<(), Error> {
    file.read_exact_at(buffer, offset).map_err(|source| match source.kind() {
        io::ErrorKind::UnexpectedEof => Error::damaged(path, what, offset),
        _ => Error::io(path, source),
    })
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
