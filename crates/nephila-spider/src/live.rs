//! Open connections, counted by address.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use nephila_core::frontier::slot::SlotKey;

/// Scheme and authority. The address is part of the connection; one origin has one address at a time here.
pub(crate) type Key = Arc<str>;

/// The number of open connections of each address.
pub(crate) type LiveCounts = Arc<Mutex<HashMap<SlotKey, usize>>>;

/// An open connection, kept or in use: counts at its address until dropped.
#[derive(Debug)]
pub(crate) struct Live {
    slot: SlotKey,
    live: LiveCounts,
}

impl Live {
    pub(crate) fn new(slot: SlotKey, live: &LiveCounts) -> Live {
        *live.lock().expect("nobody panics holding it").entry(slot).or_default() += 1;
        Live { slot, live: live.clone() }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let mut live = self.live.lock().expect("nobody panics holding it");
        if let Some(count) = live.get_mut(&self.slot) {
            *count -= 1;
            if *count == 0 {
                live.remove(&self.slot);
            }
        }
    }
}
