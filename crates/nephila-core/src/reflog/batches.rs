//! Deduplication of batches: a batch that is delivered twice, or to two nodes, counts once (SEEDS C9).
//!
//! A large batch travels in parts, cut by numbers of lines and bytes, so every reader of the same file cuts alike. The
//! key of a part is made of its batch, its number and its number of lines. A partition takes in its share of a part as
//! one entry of its log, so the share is taken in as a whole or not at all.
//!
//! Invariants: a part is taken in once within [`MEMORY_MS`] and as long as at most [`BATCHES_MAX`] others came later;
//! the clock of the decisions is monotonic.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::window::{Batch, MEMORY_MS};
use crate::codec::{Damaged, Reader, put_u64};
use crate::time::Timestamp;

/// Maximum number of parts that are remembered. At two per second, all of ten hours.
pub const BATCHES_MAX: usize = 72_000;

/// The key of a part of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchKey(pub u64);

impl BatchKey {
    /// The part with this number, of this many lines, of the batch with this id.
    pub fn of(batch: &str, part: u32, lines: u32) -> BatchKey {
        let mut hasher = Xxh3::new();
        hasher.update(&part.to_be_bytes());
        hasher.update(&lines.to_be_bytes());
        hasher.update(batch.as_bytes());
        BatchKey(hasher.digest())
    }
}

/// Parts that are about to be taken in, on top of the ones that were. Many are remembered, few are new: nothing is
/// copied.
#[derive(Clone, Debug)]
pub struct Ahead {
    before: Arc<Batches>,
    taken: BTreeSet<BatchKey>,
    last: Timestamp,
    number: u64,
}

impl Ahead {
    /// No new part yet.
    pub fn of(before: Arc<Batches>) -> Ahead {
        Ahead { taken: BTreeSet::new(), last: before.last, number: before.number, before }
    }

    /// The batch values to decide the next part's lines with; none for a duplicate.
    pub fn take(&mut self, key: BatchKey, now: Timestamp) -> Option<Batch> {
        self.before.check(key, now)?;
        if !self.taken.insert(key) {
            return None;
        }
        let batch = Batch { number: self.number + 1, at: now.max(self.last), previous: self.last };
        (self.last, self.number) = (batch.at, batch.number);
        Some(batch)
    }
}

/// The parts that a partition has taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batches {
    seen: BTreeMap<BatchKey, Timestamp>,
    /// The same keys by time, for eviction.
    by_time: BTreeMap<(Timestamp, BatchKey), ()>,
    last: Timestamp,
    number: u64,
}

impl Batches {
    /// The batch values to decide the part's lines with; none for a duplicate.
    pub fn check(&self, key: BatchKey, now: Timestamp) -> Option<Batch> {
        let is_new = self.seen.get(&key).is_none_or(|at| now.0 > at.0.saturating_add(MEMORY_MS));
        is_new.then(|| Batch { number: self.number + 1, at: now.max(self.last), previous: self.last })
    }

    /// Folds a part. Idempotent.
    pub fn fold(&mut self, key: BatchKey, batch: &Batch) {
        if let Some(at) = self.seen.insert(key, batch.at) {
            self.by_time.remove(&(at, key));
        }
        self.by_time.insert((batch.at, key), ());
        self.last = self.last.max(batch.at);
        self.number = self.number.max(batch.number);
        while let Some((&(at, key), ())) = self.by_time.first_key_value()
            && (self.seen.len() > BATCHES_MAX || self.last.0 > at.0.saturating_add(MEMORY_MS))
        {
            self.by_time.remove(&(at, key));
            self.seen.remove(&key);
        }
    }

    /// Number of remembered parts.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether no part is remembered.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Encodes the parts.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 12 * self.seen.len());
        put_u64(&mut out, self.last.0);
        put_u64(&mut out, self.number);
        put_u64(&mut out, self.seen.len() as u64);
        for (at, key) in self.by_time.keys() {
            put_u64(&mut out, self.last.0 - at.0);
            out.extend_from_slice(&key.0.to_be_bytes());
        }
        out
    }

    /// Decodes parts.
    pub fn from_bytes(bytes: &[u8]) -> Result<Batches, Damaged> {
        let mut reader = Reader::new(bytes);
        let last = Timestamp(reader.u64("time of batches")?);
        let number = reader.u64("number of the last batch")?;
        let mut batches = Batches { last, number, ..Batches::default() };
        for _ in 0..reader.u64("number of batches")? {
            let at = Timestamp(last.0.saturating_sub(reader.u64("time of a batch")?));
            let key = BatchKey(reader.fixed_u64("key of a batch")?);
            batches.seen.insert(key, at);
            batches.by_time.insert((at, key), ());
        }
        Ok(batches)
    }
}
