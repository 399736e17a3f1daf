//! Open connections, counted by address and by protocol.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use nephila_core::frontier::slot::SlotKey;

/// Scheme and authority. The address is part of the connection; one origin has one address at a time here.
pub(crate) type Key = Arc<str>;

/// The number of open connections of each address, and of all addresses. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveCounts(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    by_slot: Mutex<HashMap<SlotKey, usize>>,
    /// Without and with HTTP/2.
    all: [AtomicUsize; 2],
}

impl LiveCounts {
    fn by_slot(&self) -> MutexGuard<'_, HashMap<SlotKey, usize>> {
        self.0.by_slot.lock().expect("nobody panics holding it")
    }

    /// The number of open connections of an address.
    pub(crate) fn at(&self, slot: SlotKey) -> usize {
        self.by_slot().get(&slot).copied().unwrap_or(0)
    }

    /// The number of open connections, without and with HTTP/2.
    pub(crate) fn all(&self) -> [usize; 2] {
        self.0.all.each_ref().map(|count| count.load(Relaxed))
    }
}

/// An open connection, kept or in use: counts at its address until dropped.
#[derive(Debug)]
pub(crate) struct Live {
    slot: SlotKey,
    is_h2: bool,
    live: LiveCounts,
}

impl Live {
    pub(crate) fn new(slot: SlotKey, is_h2: bool, live: &LiveCounts) -> Live {
        *live.by_slot().entry(slot).or_default() += 1;
        live.0.all[usize::from(is_h2)].fetch_add(1, Relaxed);
        Live { slot, is_h2, live: live.clone() }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.live.0.all[usize::from(self.is_h2)].fetch_sub(1, Relaxed);
        let mut live = self.live.by_slot();
        if let Some(count) = live.get_mut(&self.slot) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_counts_at_its_address_and_by_its_protocol_until_it_is_dropped() {
        let counts = LiveCounts::default();
        let (one, two) = (SlotKey::of([192, 0, 2, 1].into()), SlotKey::of([192, 0, 2, 2].into()));
        let first = Live::new(one, false, &counts);
        let second = Live::new(one, true, &counts);
        let _third = Live::new(two, false, &counts);
        assert_eq!((counts.at(one), counts.at(two), counts.all()), (2, 1, [2, 1]));
        drop((first, second));
        assert_eq!((counts.at(one), counts.at(two), counts.all()), (0, 1, [1, 0]));
    }
}
