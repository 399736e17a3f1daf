//! Connection slots of a server, with eviction of idle connections.
//!
//! A connection either waits, for a request or for the client to read an answer, or is being answered. When all slots
//! are in use, a waiting connection is evicted: unauthenticated ones first, then authenticated ones; within each group
//! the one that has waited longest.
//!
//! Invariants: there are never more connections than slots; a connection that is being answered is never evicted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Does {
    /// Waits, and never sent an authenticated request.
    Strange,
    /// Waits, after an authenticated request.
    Known,
    /// A request is being answered.
    Answered,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Room {
    places_max: usize,
    inner: Mutex<Inner>,
    left: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    places: HashMap<u64, Taken>,
    /// Event counter: a smaller number is an earlier event.
    count: u64,
}

#[derive(Debug)]
struct Taken {
    does: Does,
    since: u64,
    task: Option<AbortHandle>,
}

/// A slot, released on drop.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Room>,
    number: u64,
}

impl Room {
    pub(super) fn new(places_max: usize) -> Arc<Room> {
        Arc::new(Room { places_max, inner: Mutex::default(), left: Notify::new() })
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics holding it")
    }

    /// Acquires a slot. Waits while all connections are being answered.
    pub(super) async fn enter(self: &Arc<Self>) -> Place {
        loop {
            // A release between the check and the wait is not missed: the permit of the notification is kept.
            if let Some(place) = self.try_enter() {
                return place;
            }
            self.left.notified().await;
        }
    }

    fn try_enter(self: &Arc<Self>) -> Option<Place> {
        let mut inner = self.inner();
        if inner.places.len() >= self.places_max {
            let waiting = inner.places.iter().filter(|(_, taken)| taken.does != Does::Answered);
            let (number, _) = waiting.min_by_key(|(_, taken)| (taken.does, taken.since))?;
            let number = *number;
            if let Some(Taken { task: Some(task), .. }) = inner.places.remove(&number) {
                task.abort();
            }
        }
        inner.count += 1;
        let number = inner.count;
        inner.places.insert(number, Taken { does: Does::Strange, since: number, task: None });
        drop(inner);
        Some(Place { room: self.clone(), number })
    }

    /// Sets the task that is aborted when the slot is needed.
    pub(super) fn task(&self, number: u64, task: AbortHandle) {
        if let Some(taken) = self.inner().places.get_mut(&number) {
            taken.task = Some(task);
        }
    }
}

impl Place {
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The connection is authenticated, and waits.
    pub(super) fn waits(&self) {
        self.set(Does::Known);
    }

    /// Leaves the room, though the connection goes on.
    pub(super) fn leave(&self) {
        self.room.inner().places.remove(&self.number);
        self.room.left.notify_one();
    }

    /// A request is being answered.
    pub(super) fn is_answered(&self) {
        self.set(Does::Answered);
    }

    fn set(&self, does: Does) {
        let mut inner = self.room.inner();
        inner.count += 1;
        let since = inner.count;
        if let Some(taken) = inner.places.get_mut(&self.number) {
            (taken.does, taken.since) = (does, since);
        }
        drop(inner);
        // A waiting caller may evict this connection now.
        if does != Does::Answered {
            self.room.left.notify_one();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.inner().places.remove(&self.number);
        self.room.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(room: &Room) -> Vec<u64> {
        let mut numbers: Vec<u64> = room.inner().places.keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn sec_07_strangers_make_room_first_and_nobody_who_is_answered_does() {
        let room = Room::new(3);
        let enter = || room.try_enter();
        let (first, second, third) = (enter().unwrap(), enter().unwrap(), enter().unwrap());
        first.is_answered();
        second.waits();
        // The third is the only stranger, though it came last.
        let fourth = enter().unwrap();
        assert_eq!(numbers(&room), [first.number, second.number, fourth.number]);
        fourth.is_answered();
        // Now the second waits alone.
        let fifth = enter().unwrap();
        assert_eq!(numbers(&room), [first.number, fourth.number, fifth.number]);
        fifth.is_answered();
        assert!(enter().is_none(), "everybody is being answered");
        fourth.waits();
        let sixth = enter().unwrap();
        assert_eq!(numbers(&room), [first.number, fifth.number, sixth.number]);
        // Dropping an evicted place releases no other place.
        drop((second, third, fourth));
        assert_eq!(numbers(&room), [first.number, fifth.number, sixth.number]);
        drop(sixth);
        assert_eq!(numbers(&room), [first.number, fifth.number]);
    }
}
