//! Scans the entries of a run in order, with read-ahead.
//!
//! In the first block a scan reads the keys and then one piece of values after the other, as a short scan needs no
//! more. From the second block on a scan reads whole blocks, more each time up to a limit, so a long scan reads
//! sequentially. A scan with an end never reads a block beyond the end.
//!
//! Invariant: after an error the position is unchanged, so a retry gives the error again and never a gap.

use std::sync::Arc;

use super::block::{KeyBlock, ValueBlock};
use super::merge::Source;
use super::run::Inner;
use super::{Error, Io, partition};

/// Size of the first read of whole blocks.
const READ_BYTES_FIRST: usize = 128 << 10;
/// Maximum size of a read. Larger reads gain nothing and take memory from every run of a merge.
const READ_BYTES_MAX: usize = 1 << 20;

/// A key and its value, borrowed from a scan.
pub type Entry<'a> = (&'a [u8], &'a [u8]);

/// Iterator over the entries of a run. Owns its resources, so a scan may outlive the [`Run`](super::Run).
#[derive(Debug)]
pub struct Scan {
    run: Arc<Inner>,
    /// Start key, filled up to the full width.
    from: Vec<u8>,
    until: Option<Vec<u8>>,
    /// The block to read next, and one after the last block of the range.
    next: usize,
    stop: usize,
    /// Stored bytes of the blocks `ahead_from..ahead_to`; empty in the first block.
    ahead: Vec<u8>,
    ahead_from: usize,
    ahead_to: usize,
    read_bytes: usize,
    keys: KeyBlock,
    values: ValueBlock,
    /// Group of the next entry in the current block.
    group: usize,
    entry: usize,
    entries: usize,
    group_end: usize,
    /// Entries of the current piece.
    piece_first: usize,
    piece_end: usize,
    /// Whether entries must be compared with the end: only in the last block.
    is_last: bool,
    key: Vec<u8>,
    io: Io,
}

impl Scan {
    pub(super) fn new(run: Arc<Inner>, from: &[u8]) -> Self {
        let width = run.resident.options.shape.width();
        let mut from = from.to_vec();
        from.resize(width, 0);
        let (begin, stop) = (run.blocks_of(&from).start, run.resident.index.len());
        Scan {
            run,
            from,
            until: None,
            next: begin,
            stop,
            ahead: Vec::new(),
            ahead_from: 0,
            ahead_to: 0,
            read_bytes: 0,
            keys: KeyBlock::default(),
            values: ValueBlock::default(),
            group: 0,
            entry: 0,
            entries: 0,
            group_end: 0,
            piece_first: 0,
            piece_end: 0,
            is_last: false,
            key: vec![0; width],
            io: Io::default(),
        }
    }

    /// Ends the scan before the first key that is not below this one, which may be shorter than a key. Call this before
    /// the scan begins.
    pub fn until(mut self, to: &[u8]) -> Self {
        let index = &self.run.resident.index;
        self.stop = partition(self.next, index.len(), |block| index.first(block) < to);
        self.until = Some(to.to_vec());
        self
    }

    /// The next entry.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend what it owns")]
    pub fn next(&mut self) -> Result<Option<Entry<'_>>, Error> {
        Ok(if self.advance()? { Some((self.key(), self.value())) } else { None })
    }

    /// Reads so far.
    pub fn io(&self) -> Io {
        self.io
    }

    /// The block of the present entry.
    pub(super) fn block(&self) -> usize {
        self.next - 1
    }

    /// Loads the next block, and moves before its first entry of the range.
    fn load(&mut self) -> Result<(), Error> {
        let block = self.next;
        // The old block must not be used if the new one is damaged.
        (self.entry, self.entries, self.piece_end) = (0, 0, 0);
        if self.read_bytes == 0 {
            self.run.read_keys(block, &mut self.keys, &mut self.io)?;
        } else {
            if block >= self.ahead_to {
                self.read_ahead()?;
            }
            let begin = self.place_ahead(block);
            let bytes = self.run.resident.index.meta(block).key_bytes as usize;
            self.keys.buffer(bytes).copy_from_slice(&self.ahead[begin..][..bytes]);
            self.run.take_keys(block, &mut self.keys)?;
        }
        self.read_bytes = self.read_bytes.max(READ_BYTES_FIRST);
        (self.group, self.entry) = match self.from.is_empty() {
            true => (0, 0),
            false => self.keys.lower_bound(&self.from),
        };
        self.entries = self.keys.entries();
        if self.entry < self.entries {
            self.open_group();
            // All further entries are after the start key.
            self.from.clear();
        }
        self.next = block + 1;
        self.is_last = self.until.is_some() && self.next == self.stop;
        Ok(())
    }

    /// Loads the piece of the next entry.
    fn load_piece(&mut self) -> Result<(), Error> {
        let block = self.block();
        let piece = self.keys.piece_of(self.entry);
        if (self.ahead_from..self.ahead_to).contains(&block) {
            let key_bytes = self.run.resident.index.meta(block).key_bytes as usize;
            let begin = self.place_ahead(block) + key_bytes + piece.offset;
            self.values.buffer(piece.bytes).copy_from_slice(&self.ahead[begin..][..piece.bytes]);
            self.run.take_values(block, &piece, &mut self.values)?;
        } else {
            self.run.read_values(block, &piece, &mut self.values, &mut self.io)?;
        }
        (self.piece_first, self.piece_end) = (piece.first, piece.end);
        Ok(())
    }

    /// Offset of a block in the read-ahead buffer.
    fn place_ahead(&self, block: usize) -> usize {
        let index = &self.run.resident.index;
        (index.meta(block).offset - index.meta(self.ahead_from).offset) as usize
    }

    fn read_ahead(&mut self) -> Result<(), Error> {
        let index = &self.run.resident.index;
        let begin = index.meta(self.next).offset;
        let mut to = self.next + 1;
        while to < self.stop && index.end(to) - begin <= self.read_bytes as u64 {
            to += 1;
        }
        // If this fails, the buffer is empty, and the next call reads again.
        self.ahead_to = 0;
        self.run.read_blocks(self.next..to, &mut self.ahead, &mut self.io)?;
        (self.ahead_from, self.ahead_to) = (self.next, to);
        self.read_bytes = (self.read_bytes * 2).min(READ_BYTES_MAX);
        Ok(())
    }

    fn open_group(&mut self) {
        let group = self.keys.group(self.group);
        self.key[..group.len()].copy_from_slice(group);
        self.group_end = self.keys.end(self.group);
    }
}

impl Source for Scan {
    #[inline]
    fn advance(&mut self) -> Result<bool, Error> {
        while self.entry >= self.entries {
            if self.next >= self.stop {
                return Ok(false);
            }
            self.load()?;
        }
        if self.entry >= self.piece_end {
            self.load_piece()?;
        }
        if self.entry == self.group_end {
            self.group += 1;
            self.open_group();
        }
        let suffix = self.keys.suffix(self.entry);
        let width = self.key.len();
        self.key[width - suffix.len()..].copy_from_slice(suffix);
        if self.is_last && self.until.as_ref().is_some_and(|until| self.key[..] >= until[..]) {
            self.entries = 0;
            return Ok(false);
        }
        self.entry += 1;
        Ok(true)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        &self.key
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.values.get(self.entry - 1 - self.piece_first)
    }
}
