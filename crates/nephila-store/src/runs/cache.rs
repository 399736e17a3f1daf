//! Blocks that single reads asked for lately, shared by any number of runs.
//!
//! Blocks are young or old. A new one is young; when the young ones fill half of the room they all become old, and
//! the old ones are forgotten. An old one that is asked for becomes young again. So what is used stays, and there is
//! no list to keep in order.
//!
//! What always holds: what is kept takes no more than the bytes given, and a block larger than half of them is not
//! kept at all. Scans and large batches neither look here nor leave
//! anything.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::block::{KeyBlock, ValueBlock};

/// See the module.
#[derive(Debug)]
pub struct Cache {
    bytes_max: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    young: HashMap<Id, Kept>,
    old: HashMap<Id, Kept>,
    young_bytes: usize,
    old_bytes: usize,
}

/// Which column of which block of which open run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Id {
    pub(super) run: u64,
    pub(super) block: usize,
    pub(super) column: Column,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Column {
    Keys,
    /// The piece with this number.
    Values(usize),
}

#[derive(Clone, Debug)]
pub(super) enum Kept {
    Keys(Arc<KeyBlock>),
    Values(Arc<ValueBlock>),
}

impl Kept {
    fn bytes(&self) -> usize {
        // The entry of the map is about as large as two identifiers.
        let block = match self {
            Kept::Keys(block) => block.memory(),
            Kept::Values(block) => block.memory(),
        };
        block + 2 * size_of::<Id>()
    }
}

impl Cache {
    /// One that keeps at most so many bytes.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Cache { bytes_max, inner: Mutex::default() })
    }

    /// What is kept now.
    pub fn bytes(&self) -> usize {
        let inner = self.inner();
        inner.young_bytes + inner.old_bytes
    }

    pub(super) fn get(&self, id: Id) -> Option<Kept> {
        let mut inner = self.inner();
        if let Some(kept) = inner.young.get(&id) {
            return Some(kept.clone());
        }
        let kept = inner.old.remove(&id)?;
        inner.old_bytes -= kept.bytes();
        self.insert(&mut inner, id, kept.clone());
        Some(kept)
    }

    pub(super) fn put(&self, id: Id, kept: Kept) {
        let mut inner = self.inner();
        // Two readers may have missed the same block at once.
        if !inner.young.contains_key(&id) && !inner.old.contains_key(&id) {
            self.insert(&mut inner, id, kept);
        }
    }

    /// Forgets the blocks of a run that is closed.
    pub(super) fn forget(&self, run: u64) {
        let mut inner = self.inner();
        let Inner { young, old, young_bytes, old_bytes } = &mut *inner;
        for (blocks, bytes) in [(young, young_bytes), (old, old_bytes)] {
            blocks.retain(|id, kept| {
                let stays = id.run != run;
                *bytes -= if stays { 0 } else { kept.bytes() };
                stays
            });
        }
    }

    fn insert(&self, inner: &mut Inner, id: Id, kept: Kept) {
        let bytes = kept.bytes();
        let half = self.bytes_max / 2;
        if bytes > half {
            return;
        }
        if inner.young_bytes + bytes > half {
            inner.old = std::mem::take(&mut inner.young);
            inner.old_bytes = std::mem::take(&mut inner.young_bytes);
        }
        inner.young_bytes += bytes;
        inner.young.insert(id, kept);
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
