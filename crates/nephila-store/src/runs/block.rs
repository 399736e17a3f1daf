//! Reading of blocks: a column of keys, and some pieces of values.
//!
//! The key column also has the positions and the checksums of the pieces, so the resident index knows of blocks only.
//!
//! Invariants: a parsed column is consistent, so that no position leads outside; `parse` refuses an inconsistent
//! column. The caller that read the column verifies its checksum before.

use std::cell::RefCell;

use zstd::bulk::Decompressor;

use super::{PIECE_BYTES_MAX, Shape, VALUE_BYTES_MAX, gallop, less, partition, same};

/// First byte of a column with an uncompressed payload.
pub(super) const RAW: u8 = 0;
/// First byte of a column with a compressed payload.
pub(super) const ZSTD: u8 = 1;
/// Bytes before a compressed payload.
pub(super) const ZSTD_HEAD: usize = 5;
/// Bytes before the groups in a key column.
pub(super) const KEY_HEAD: usize = 4;
/// Bytes of a piece's row in the key column.
pub(super) const PIECE_ROW: usize = 14;
/// Maximum payload: a piece or one value, and four bytes for each length.
const PAYLOAD_BYTES_MAX: usize = PIECE_BYTES_MAX + VALUE_BYTES_MAX + 4 * super::BLOCK_ENTRIES_MAX;

/// A column as read, and its payload.
#[derive(Debug, Default)]
struct Payload {
    /// At least as long as the longest column so far, so that the buffer is not cleared again for each column.
    stored: Vec<u8>,
    unpacked: Vec<u8>,
    is_packed: bool,
    end: usize,
}

impl Payload {
    fn buffer(&mut self, bytes: usize) -> &mut [u8] {
        if self.stored.len() < bytes {
            self.stored.resize(bytes, 0);
        }
        &mut self.stored[..bytes]
    }

    /// Finds the payload of a column of `bytes` bytes in the buffer.
    fn open(&mut self, bytes: usize) -> Option<()> {
        let column = &self.stored[..bytes];
        match *column.first()? {
            RAW => {
                self.is_packed = false;
                self.end = bytes;
            }
            ZSTD => {
                let length = u32::from_le_bytes(column.get(1..ZSTD_HEAD)?.try_into().ok()?) as usize;
                if length > PAYLOAD_BYTES_MAX {
                    return None;
                }
                self.unpacked.clear();
                self.unpacked.reserve(length);
                if unpack(&column[ZSTD_HEAD..], &mut self.unpacked)? != length {
                    return None;
                }
                self.is_packed = true;
            }
            _ => return None,
        }
        Some(())
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        if self.is_packed { &self.unpacked } else { &self.stored[1..self.end] }
    }

    /// Releases unused memory, before the block is cached for long.
    fn shrink(&mut self) {
        if self.is_packed {
            self.stored = Vec::new();
        } else {
            self.stored.truncate(self.end);
            self.stored.shrink_to_fit();
            self.unpacked = Vec::new();
        }
    }

    fn memory(&self) -> usize {
        self.stored.capacity() + self.unpacked.capacity()
    }
}

/// Decompresses a frame into the spare capacity of a buffer.
fn unpack(frame: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    thread_local! {
        /// Cached per thread: creating one costs more than a small block.
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    DECOMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = Decompressor::new().ok();
        }
        slot.as_mut()?.decompress_to_buffer(frame, out).ok()
    })
}

/// The keys of a block, ready to be searched.
#[derive(Debug, Default)]
pub(super) struct KeyBlock {
    payload: Payload,
    shape: Shape,
    entries: usize,
    groups: usize,
    /// Offset of the ends of groups in the payload; `None` if every entry has a group of its own.
    ends_at: Option<usize>,
    suffixes_at: usize,
    rows_at: usize,
}

/// Position of a piece of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Its number in the block.
    pub(super) number: usize,
    /// Its first entry in the block, and one after its last.
    pub(super) first: usize,
    pub(super) end: usize,
    /// Bytes from the end of the key column.
    pub(super) offset: usize,
    pub(super) bytes: usize,
    pub(super) sum: u64,
}

impl KeyBlock {
    /// Returns a buffer for a column of `bytes` bytes, to be filled before `parse`.
    pub(super) fn buffer(&mut self, bytes: usize) -> &mut [u8] {
        self.payload.buffer(bytes)
    }

    /// Parses the column in the buffer. `None` if the column does not have `entries` entries, or pieces of
    /// `value_bytes` bytes.
    pub(super) fn parse(
        &mut self,
        bytes: usize,
        shape: Shape,
        entries: usize,
        value_bytes: usize,
    ) -> Option<()> {
        self.payload.open(bytes)?;
        let payload = self.payload.bytes();
        let head: &[u8; KEY_HEAD] = payload.first_chunk()?;
        self.shape = shape;
        self.entries = entries;
        self.groups = u16::from_le_bytes([head[0], head[1]]).into();
        let pieces: usize = u16::from_le_bytes([head[2], head[3]]).into();
        let mut at = KEY_HEAD + self.groups * shape.group;
        self.ends_at = (self.groups != entries).then_some(at);
        at += if self.ends_at.is_some() { 2 * self.groups } else { 0 };
        self.suffixes_at = at;
        self.rows_at = at + entries * shape.suffix;
        if self.groups == 0 || self.groups > entries || payload.len() != self.rows_at + pieces * PIECE_ROW {
            return None;
        }
        let groups_ascend = self.ends_at.is_none() || (1..self.groups).all(|g| self.end(g - 1) < self.end(g));
        let (mut end, mut stored) = (0, 0);
        for piece in self.pieces() {
            if piece.end <= end {
                return None;
            }
            end = piece.end;
            stored += piece.bytes;
        }
        let is_whole = end == entries && stored == value_bytes && self.end(self.groups - 1) == entries;
        (groups_ascend && is_whole).then_some(())
    }

    /// The piece that holds the value of this entry.
    pub(super) fn piece_of(&self, entry: usize) -> Piece {
        self.pieces().find(|piece| entry < piece.end).expect("pieces cover all entries, as was checked")
    }

    fn pieces(&self) -> impl Iterator<Item = Piece> {
        let (mut first, mut offset) = (0, 0);
        self.payload.bytes()[self.rows_at..].chunks_exact(PIECE_ROW).enumerate().map(move |(number, row)| {
            let bytes = u32::from_le_bytes(*row[2..].first_chunk().expect("a row is long enough")) as usize;
            let sum = u64::from_le_bytes(*row[6..].first_chunk().expect("a row is long enough"));
            let end = u16::from_le_bytes([row[0], row[1]]).into();
            let piece = Piece { number, first, end, offset, bytes, sum };
            first = end;
            offset += bytes;
            piece
        })
    }

    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    #[inline]
    pub(super) fn group(&self, group: usize) -> &[u8] {
        &self.payload.bytes()[KEY_HEAD + group * self.shape.group..][..self.shape.group]
    }

    /// One after the last entry of a group.
    #[inline]
    pub(super) fn end(&self, group: usize) -> usize {
        match self.ends_at {
            None => group + 1,
            Some(at) => {
                let bytes = &self.payload.bytes()[at + 2 * group..][..2];
                u16::from_le_bytes([bytes[0], bytes[1]]).into()
            }
        }
    }

    #[inline]
    pub(super) fn suffix(&self, entry: usize) -> &[u8] {
        &self.payload.bytes()[self.suffixes_at + entry * self.shape.suffix..][..self.shape.suffix]
    }

    /// The first entry not below this key, and its group; one after the last if there is none.
    pub(super) fn lower_bound(&self, key: &[u8]) -> (usize, usize) {
        let (group_key, suffix) = key.split_at(self.shape.group);
        let mut group = partition(0, self.groups, |g| less(self.group(g), group_key));
        let mut entry = if group == 0 { 0 } else { self.end(group - 1) };
        if group < self.groups && self.group(group) == group_key {
            let end = self.end(group);
            entry = partition(entry, end, |i| less(self.suffix(i), suffix));
            group += usize::from(entry == end);
        }
        (group, entry)
    }

    /// The first entry with this key.
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        Finder::new(self, 1).find(key)
    }

    pub(super) fn shrink(&mut self) {
        self.payload.shrink();
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.payload.memory()
    }
}

/// Finds ascending keys in a block, each from the position of the previous one.
pub(super) struct Finder<'a> {
    block: &'a KeyBlock,
    groups: &'a [u8],
    suffixes: &'a [u8],
    group: usize,
    entry: usize,
    /// Expected distance of keys, in groups and in entries.
    group_step: usize,
    entry_step: usize,
}

impl<'a> Finder<'a> {
    /// Creates a finder for about `keys` keys.
    pub(super) fn new(block: &'a KeyBlock, keys: usize) -> Self {
        let payload = block.payload.bytes();
        Finder {
            block,
            groups: &payload[KEY_HEAD..],
            suffixes: &payload[block.suffixes_at..],
            group: 0,
            entry: 0,
            group_step: (block.groups / keys.max(1)).max(1),
            entry_step: (block.entries / keys.max(1)).max(1),
        }
    }

    /// The first entry with this key, which is not below the previous key.
    #[inline]
    pub(super) fn find(&mut self, key: &[u8]) -> Option<usize> {
        let (block, groups, suffixes) = (self.block, self.groups, self.suffixes);
        let Shape { group: group_width, suffix: suffix_width } = block.shape;
        let (group_key, suffix_key) = key.split_at(group_width);
        let group = |g: usize| &groups[g * group_width..][..group_width];
        let suffix = |i: usize| &suffixes[i * suffix_width..][..suffix_width];

        self.group = gallop(self.group, block.groups, self.group_step, |g| less(group(g), group_key));
        if self.group == block.groups || !same(group(self.group), group_key) {
            return None;
        }
        let start = if self.group == 0 { 0 } else { block.end(self.group - 1) };
        let end = block.end(self.group);
        self.entry = gallop(self.entry.max(start), end, self.entry_step, |i| less(suffix(i), suffix_key));
        (self.entry < end && same(suffix(self.entry), suffix_key)).then_some(self.entry)
    }
}

/// The values of a piece.
#[derive(Debug, Default)]
pub(super) struct ValueBlock {
    payload: Payload,
    /// Begin of each value in the payload, and the end of the last; empty if all values are empty.
    starts: Vec<u32>,
}

impl ValueBlock {
    /// Returns a buffer for a column of `bytes` bytes, to be filled before `parse`.
    pub(super) fn buffer(&mut self, bytes: usize) -> &mut [u8] {
        self.payload.buffer(bytes)
    }

    /// Parses the column in the buffer. `None` if the column does not have `entries` entries.
    pub(super) fn parse(&mut self, bytes: usize, entries: usize) -> Option<()> {
        self.starts.clear();
        if bytes == 0 {
            return Some(());
        }
        self.payload.open(bytes)?;
        let payload = self.payload.bytes();
        self.starts.reserve(entries + 1);
        let (mut at, mut end) = (0, 0);
        for _ in 0..entries {
            self.starts.push(end as u32);
            let length = match *payload.get(at)? {
                byte @ 0..0x80 => {
                    at += 1;
                    byte.into()
                }
                _ => take_length(payload, &mut at)?,
            };
            end += length;
        }
        if at + end != payload.len() {
            return None;
        }
        self.starts.push(end as u32);
        self.starts.iter_mut().for_each(|start| *start += at as u32);
        Some(())
    }

    #[inline]
    pub(super) fn get(&self, entry: usize) -> &[u8] {
        match self.starts.get(entry..entry + 2) {
            Some(&[start, end]) => &self.payload.bytes()[start as usize..end as usize],
            _ => &[],
        }
    }

    pub(super) fn shrink(&mut self) {
        self.payload.shrink();
        self.starts.shrink_to_fit();
    }

    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.payload.memory() + self.starts.capacity() * 4
    }
}

fn take_length(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let mut length = 0;
    for shift in (0..28).step_by(7) {
        let byte = *bytes.get(*at)?;
        *at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (length <= VALUE_BYTES_MAX).then_some(length);
        }
    }
    None
}
