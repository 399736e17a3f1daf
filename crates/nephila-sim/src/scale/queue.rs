//! The event queue: a calendar with a page for each millisecond, and a shelf for data that does not fit into an event.
//!
//! Invariants: events of one moment happen in the order in which they were scheduled; nothing happens in the past.

use std::collections::BTreeMap;

/// Milliseconds that have a page of their own. Later events wait in a map.
const PAGES: u64 = 1 << 14;

/// Events by time.
#[derive(Debug)]
pub(super) struct Calendar<T> {
    now: u64,
    /// The events of this moment, and how many of them were processed.
    today: Vec<T>,
    done: usize,
    pages: Vec<Vec<T>>,
    far: BTreeMap<u64, Vec<T>>,
}

impl<T: Copy> Calendar<T> {
    pub(super) fn new() -> Calendar<T> {
        let pages = (0..PAGES).map(|_| Vec::new()).collect();
        Calendar { now: 0, today: Vec::new(), done: 0, pages, far: BTreeMap::new() }
    }

    pub(super) fn push(&mut self, at: u64, event: T) {
        if at <= self.now {
            self.today.push(event);
        } else if at - self.now < PAGES {
            self.pages[(at % PAGES) as usize].push(event);
        } else {
            self.far.entry(at).or_default().push(event);
        }
    }

    /// The next event, and its time; none if there is none before `end`.
    pub(super) fn pop(&mut self, end: u64) -> Option<(u64, T)> {
        loop {
            if let Some(event) = self.today.get(self.done) {
                self.done += 1;
                return Some((self.now, *event));
            }
            if self.now + 1 >= end {
                return None;
            }
            self.now += 1;
            self.today.clear();
            self.done = 0;
            // An event in the map was scheduled earlier than all other events of this moment.
            if self.far.first_key_value().is_some_and(|(at, _)| *at == self.now) {
                self.today = self.far.pop_first().expect("just seen").1;
            }
            self.today.append(&mut self.pages[(self.now % PAGES) as usize]);
        }
    }
}

/// Things in numbered places; a place that is free is used again.
#[derive(Debug)]
pub(super) struct Shelf<T> {
    places: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Shelf<T> {
    pub(super) fn new() -> Shelf<T> {
        Shelf { places: Vec::new(), free: Vec::new() }
    }

    pub(super) fn put(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(thing);
                place
            }
            None => {
                self.places.push(Some(thing));
                self.places.len() as u32 - 1
            }
        }
    }

    pub(super) fn take(&mut self, place: u32) -> T {
        self.free.push(place);
        self.places[place as usize].take().expect("something stands there")
    }

    pub(super) fn at(&mut self, place: u32) -> &mut T {
        self.places[place as usize].as_mut().expect("something stands there")
    }

    pub(super) fn get(&self, place: u32) -> Option<&T> {
        self.places.get(place as usize)?.as_ref()
    }

    /// The places where something stands.
    pub(super) fn taken(&self) -> impl Iterator<Item = (u32, &T)> {
        self.places.iter().enumerate().filter_map(|(at, thing)| Some((at as u32, thing.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_their_order_however_far_they_are() {
        let mut calendar = Calendar::new();
        calendar.push(3 * PAGES, 4);
        calendar.push(5, 1);
        calendar.push(5, 2);
        assert_eq!(calendar.pop(9), Some((5, 1)));
        calendar.push(0, 3);
        assert_eq!([calendar.pop(9), calendar.pop(9), calendar.pop(9)], [Some((5, 2)), Some((5, 3)), None]);
        assert_eq!(calendar.pop(4 * PAGES), Some((3 * PAGES, 4)));
        assert_eq!(calendar.pop(4 * PAGES), None);
    }

    #[test]
    fn a_free_place_is_used_again() {
        let mut shelf = Shelf::new();
        let (a, b) = (shelf.put('a'), shelf.put('b'));
        assert_eq!(shelf.take(a), 'a');
        assert_eq!(shelf.put('c'), a);
        assert_eq!(shelf.taken().collect::<Vec<_>>(), [(a, &'c'), (b, &'b')]);
    }
}
