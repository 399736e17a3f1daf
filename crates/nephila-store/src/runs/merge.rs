//! Merges several sorted sources into one sorted sequence.
//!
//! The sources stand in a heap by their present keys; of equal keys the newer source comes first. The source at the top
//! is returned without leaving the heap, since most often its next key is the lowest again.
//!
//! Invariants: keys come in ascending order, and every entry of every source comes exactly once. After an error the
//! position is unchanged.

use super::Error;

/// Sorted entries, one at a time.
pub trait Source {
    /// Moves to the next entry, at first to the first; false at the end. May be retried after an error.
    fn advance(&mut self) -> Result<bool, Error>;
    /// The present key. Only after `advance` gave true.
    fn key(&self) -> &[u8];
    /// The present value. Only after `advance` gave true.
    fn value(&self) -> &[u8];
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn advance(&mut self) -> Result<bool, Error> {
        (**self).advance()
    }

    fn key(&self) -> &[u8] {
        (**self).key()
    }

    fn value(&self) -> &[u8] {
        (**self).value()
    }
}

/// A source from an iterator over sorted pairs, for tables in memory.
#[derive(Debug)]
pub struct Entries<I, K, V> {
    iter: I,
    present: Option<(K, V)>,
}

impl<I: Iterator<Item = (K, V)>, K, V> Entries<I, K, V> {
    /// The pairs must ascend by key.
    pub fn new(iter: impl IntoIterator<IntoIter = I>) -> Self {
        Entries { iter: iter.into_iter(), present: None }
    }
}

impl<I: Iterator<Item = (K, V)>, K: AsRef<[u8]>, V: AsRef<[u8]>> Source for Entries<I, K, V> {
    fn advance(&mut self) -> Result<bool, Error> {
        self.present = self.iter.next();
        Ok(self.present.is_some())
    }

    fn key(&self) -> &[u8] {
        self.present.as_ref().map_or(&[], |(key, _)| key.as_ref())
    }

    fn value(&self) -> &[u8] {
        self.present.as_ref().map_or(&[], |(_, value)| value.as_ref())
    }
}

/// Treatment of equal keys in a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Returns all sources with the same key at once, newest first, so that the caller makes one entry of them.
    Together,
    /// Returns every entry alone: entries of the newest source first, in their order. For tables with duplicates.
    Each,
}

/// See the module.
#[derive(Debug)]
pub struct Merge<S> {
    sources: Vec<S>,
    policy: Policy,
    /// Sources that are in the heap or were found empty.
    begun: usize,
    heap: Vec<Top>,
    /// The sources returned last, newest first: not in the heap, except a single source at its top.
    shown: Vec<usize>,
    is_top_shown: bool,
}

/// A source in the heap. Holds the first 16 bytes of its key as a number, so that most comparisons need no access to
/// the source.
#[derive(Clone, Copy, Debug)]
struct Top {
    head: u128,
    source: usize,
}

/// One key and its values in the sources.
#[derive(Debug)]
pub struct Group<'a, S> {
    sources: &'a [S],
    shown: &'a [usize],
}

impl<'a, S: Source> Group<'a, S> {
    /// The key.
    pub fn key(&self) -> &'a [u8] {
        self.sources[self.shown[0]].key()
    }

    /// The value of the newest source that has the key.
    pub fn newest(&self) -> &'a [u8] {
        self.sources[self.shown[0]].value()
    }

    /// The values, newest first, each with the number of its source.
    pub fn values(&self) -> impl ExactSizeIterator<Item = (usize, &'a [u8])> + use<'a, S> {
        let sources = self.sources;
        self.shown.iter().map(move |&source| (source, sources[source].value()))
    }
}

impl<S: Source> Merge<S> {
    /// Creates a merge of sources from the newest to the oldest; their keys have the same width.
    pub fn new(sources: Vec<S>, policy: Policy) -> Self {
        let count = sources.len();
        Merge {
            sources,
            policy,
            begun: 0,
            heap: Vec::with_capacity(count),
            shown: Vec::with_capacity(count),
            is_top_shown: false,
        }
    }

    /// The next key.
    #[allow(clippy::should_implement_trait, reason = "an iterator cannot lend what it owns")]
    pub fn next(&mut self) -> Result<Option<Group<'_, S>>, Error> {
        self.move_on()?;
        self.shown.clear();
        let Some(&top) = self.heap.first() else { return Ok(None) };
        self.shown.push(top.source);
        // An equal key is a child of the lowest in the heap, if there is one.
        let is_alone = self.policy == Policy::Each
            || !self.heap[1..].iter().take(2).any(|below| self.is_same_key(top, *below));
        if is_alone {
            self.is_top_shown = true;
        } else {
            self.pop();
            while let Some(&next) = self.heap.first()
                && self.is_same_key(top, next)
            {
                self.shown.push(next.source);
                self.pop();
            }
        }
        Ok(Some(Group { sources: &self.sources, shown: &self.shown }))
    }

    /// The sources, for their counters.
    pub fn sources(&self) -> &[S] {
        &self.sources
    }

    /// Advances every source that was returned last or not started yet.
    fn move_on(&mut self) -> Result<(), Error> {
        while self.begun < self.sources.len() {
            if self.sources[self.begun].advance()? {
                self.push(self.begun);
            }
            self.begun += 1;
        }
        if self.is_top_shown {
            let source = self.heap[0].source;
            if self.sources[source].advance()? {
                self.heap[0] = self.top(source);
                self.sink();
            } else {
                self.pop();
            }
            self.is_top_shown = false;
            self.shown.clear();
        }
        while let Some(&source) = self.shown.last() {
            if self.sources[source].advance()? {
                self.push(source);
            }
            self.shown.pop();
        }
        Ok(())
    }

    fn top(&self, source: usize) -> Top {
        let key = self.sources[source].key();
        let head = match key.first_chunk::<16>() {
            Some(head) => u128::from_be_bytes(*head),
            None => {
                let mut head = [0; 16];
                head[..key.len()].copy_from_slice(key);
                u128::from_be_bytes(head)
            }
        };
        Top { head, source }
    }

    fn is_same_key(&self, a: Top, b: Top) -> bool {
        a.head == b.head && self.sources[a.source].key() == self.sources[b.source].key()
    }

    fn is_before(&self, a: Top, b: Top) -> bool {
        if a.head != b.head {
            return a.head < b.head;
        }
        let order = self.sources[a.source].key().cmp(self.sources[b.source].key());
        order.then(a.source.cmp(&b.source)).is_lt()
    }

    fn push(&mut self, source: usize) {
        self.heap.push(self.top(source));
        let mut at = self.heap.len() - 1;
        while at > 0 && self.is_before(self.heap[at], self.heap[(at - 1) / 2]) {
            self.heap.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn pop(&mut self) {
        self.heap.swap_remove(0);
        self.sink();
    }

    /// Restores the heap order from the top down.
    fn sink(&mut self) {
        let mut at = 0;
        loop {
            let mut lowest = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.is_before(self.heap[child], self.heap[lowest]) {
                    lowest = child;
                }
            }
            if lowest == at {
                return;
            }
            self.heap.swap(at, lowest);
            at = lowest;
        }
    }
}
