//! Cache of recently read blocks, shared by any number of runs.
//!
//! Blocks are young or old. A new block is young. When the young blocks fill half of the capacity they all become old,
//! and the old ones are evicted. An old block that is read becomes young again. So used blocks stay, and there is no
//! list to keep in order.
//!
//! Invariants: the cached blocks never exceed the capacity in bytes, and a block larger than half of the capacity is
//! not cached. Scans and large batches neither read nor fill the cache.

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

/// One column of one block of one open run.
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
        // An entry of the map is about as large as two identifiers.
        let block = match self {
            Kept::Keys(block) => block.memory(),
            Kept::Values(block) => block.memory(),
        };
        block + 2 * size_of::<Id>()
    }
}

impl Cache {
    /// Creates a cache of at most `bytes_max` bytes.
    pub fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Cache { bytes_max, inner: Mutex::default() })
    }

    /// Bytes cached now.
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

    /// Evicts the blocks of a closed run.
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
