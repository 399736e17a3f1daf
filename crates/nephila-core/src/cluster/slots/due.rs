//! When each link has something to send.
//!
//! Links go by their position. A list has the noted moment of each link; a heap has the moments, and void moments
//! stay in the heap until they come up.
//!
//! Invariants: the first moment of the heap is a noted one; the heap has at most [`VOID_MAX`] moments for each link,
//! and [`VOID_MAX`] more.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nothing is noted.
const NEVER: u64 = u64::MAX;
/// Maximum number of moments in the heap for each link, on average, before the void ones are removed.
const VOID_MAX: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Due {
    /// By link.
    noted: Vec<u64>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Due {
    /// Notes when a link has something to send; none if there is nothing to send.
    pub(super) fn note(&mut self, link: usize, at: Option<u64>) {
        if self.noted.len() <= link {
            self.noted.resize(link + 1, NEVER);
        }
        let at = at.unwrap_or(NEVER);
        if self.noted[link] == at {
            return;
        }
        self.noted[link] = at;
        if at != NEVER {
            self.heap.push(Reverse((at, link as u32)));
        }
        if self.heap.len() > VOID_MAX * (self.noted.len() + 1) {
            let all = (0u32..).zip(&self.noted).filter(|(_, at)| **at != NEVER);
            self.heap = all.map(|(link, at)| Reverse((*at, link))).collect();
        }
        while self.heap.peek().is_some_and(|Reverse((at, link))| self.noted[*link as usize] != *at) {
            self.heap.pop();
        }
    }

    /// The next moment, and its link.
    pub(super) fn first(&self) -> Option<(u64, usize)> {
        self.heap.peek().map(|Reverse((at, link))| (*at, *link as usize))
    }

    /// The positions of the links have changed: drops all moments.
    pub(super) fn clear(&mut self) {
        self.noted.clear();
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_first_is_the_first_of_what_was_noted_last(notes: Vec<(u8, Option<u8>)>) {
            let mut due = Due::default();
            let mut noted = [None; 8];
            for (link, at) in notes {
                let (link, at) = (usize::from(link) % noted.len(), at.map(u64::from));
                due.note(link, at);
                noted[link] = at;
                let first = (0..).zip(noted).filter_map(|(link, at)| Some((at?, link))).min();
                prop_assert_eq!(due.first(), first);
                prop_assert!(due.heap.len() <= VOID_MAX * (noted.len() + 1));
            }
        }
    }
}
