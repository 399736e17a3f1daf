//! Which batches were taken in: the same one, delivered twice or to two nodes, counts once (SEEDS C9).
//!
//! A large batch travels in parts, cut by the number of lines, so that whoever reads the same file cuts it alike; a part
//! is known by its batch, its number and the number of lines it has. A partition takes in its share of a part as one
//! entry of its log, so a part is either taken in or not.
//!
//! What always holds: a part is taken in once within [`MEMORY_MS`] and as long as no more than
//! [`BATCHES_MAX`] others came after it; the clock that decisions go by never runs backwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use super::window::{Batch, MEMORY_MS};
use crate::codec::{Damaged, Reader, put_u64};
use crate::time::Timestamp;

/// Parts of batches that are remembered. At two a second, all of ten hours.
pub const BATCHES_MAX: usize = 72_000;

/// A part of a batch.
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

/// Parts that are about to be taken in, behind those that were. Many are remembered, few are new: nothing is copied.
#[derive(Clone, Debug)]
pub struct Ahead {
    before: Arc<Batches>,
    taken: BTreeSet<BatchKey>,
    last: Timestamp,
    number: u64,
}

impl Ahead {
    /// None yet.
    pub fn of(before: Arc<Batches>) -> Ahead {
        Ahead { taken: BTreeSet::new(), last: before.last, number: before.number, before }
    }

    /// How the lines of the next one are to be decided, if it was not taken in before.
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
    /// The same by time, for forgetting.
    by_time: BTreeMap<(Timestamp, BatchKey), ()>,
    last: Timestamp,
    number: u64,
}

impl Batches {
    /// How its lines are to be decided, if the part was not taken in before.
    pub fn check(&self, key: BatchKey, now: Timestamp) -> Option<Batch> {
        let is_new = self.seen.get(&key).is_none_or(|at| now.0 > at.0.saturating_add(MEMORY_MS));
        is_new.then(|| Batch { number: self.number + 1, at: now.max(self.last), previous: self.last })
    }

    /// Takes a part in. Twice is once.
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

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Is none?
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// As it is stored.
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

    /// From what was stored.
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
