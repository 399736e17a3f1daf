//! A cache of readers by position: a returning client continues with an open reader, where a new reader would first
//! have to seek the position.
//!
//! Invariants: at most [`READERS_MAX`] readers are cached; the least recently used one is evicted first.

use std::sync::Mutex;

/// Capacity of the cache.
const READERS_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub struct Shelf<T>(Mutex<Vec<(String, T)>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf(Mutex::new(Vec::new()))
    }
}

impl<T> Shelf<T> {
    /// Takes the reader at this position from the cache.
    pub fn take(&self, position: &str) -> Option<T> {
        let mut kept = self.0.lock().expect("nobody panics holding it");
        let at = kept.iter().position(|(at, _)| at == position)?;
        Some(kept.remove(at).1)
    }

    /// Puts a reader at this position into the cache.
    pub fn put(&self, position: &str, reader: T) {
        let mut kept = self.0.lock().expect("nobody panics holding it");
        if kept.len() >= READERS_MAX {
            kept.remove(0);
        }
        kept.push((position.to_owned(), reader));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_found_again_once_and_the_oldest_goes_first() {
        let shelf = Shelf::default();
        for number in 0..=READERS_MAX {
            shelf.put(&number.to_string(), number);
        }
        assert_eq!(shelf.take("0"), None);
        assert_eq!((shelf.take("1"), shelf.take("1")), (Some(1), None));
    }
}
