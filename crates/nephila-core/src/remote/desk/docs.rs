//! The numbers of documents: DOC names an open ask, and rests for a while after the ask ended.
//!
//! Invariant: a number is used by one ask at a time, and not before its rest is over; so a late record finds either its
//! own ask or none.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The numbers that are open, and those that rest.
#[derive(Debug)]
pub(super) struct Docs {
    next: u32,
    last: u32,
    /// The place of the ask of each open number.
    open: BTreeMap<u32, u32>,
    resting: BTreeSet<u32>,
    /// Until when each of them rests, the first to end in front.
    until: VecDeque<(u64, u32)>,
}

impl Docs {
    /// Numbers from 1 to `last`.
    pub(super) fn new(last: u32) -> Docs {
        Docs { next: 1, last, open: BTreeMap::new(), resting: BTreeSet::new(), until: VecDeque::new() }
    }

    /// A free number for the ask at this place.
    pub(super) fn open(&mut self, now: u64, place: u32) -> Option<u32> {
        self.wake(now);
        let used = self.open.len() + self.resting.len();
        if used >= self.last as usize {
            return None;
        }
        loop {
            let doc = self.next;
            self.next = if doc >= self.last { 1 } else { doc + 1 };
            if !self.open.contains_key(&doc) && !self.resting.contains(&doc) {
                self.open.insert(doc, place);
                return Some(doc);
            }
        }
    }

    /// The place of the ask with this number.
    pub(super) fn place(&self, doc: u32) -> Option<u32> {
        self.open.get(&doc).copied()
    }

    /// The ask ended: its number rests until then. Calls come in the order of `until`.
    pub(super) fn close(&mut self, doc: u32, until: u64) {
        if self.open.remove(&doc).is_some() {
            self.resting.insert(doc);
            self.until.push_back((until, doc));
        }
    }

    fn wake(&mut self, now: u64) {
        while let Some((_, doc)) = self.until.pop_front_if(|(until, _)| *until <= now) {
            self.resting.remove(&doc);
        }
    }
}
