//! Readers that wait for whoever comes back: a reader that stands at a position is worth keeping, since another would have
//! to find that position first.
//!
//! What always holds: no more than [`READERS_MAX`] are kept; whoever stayed away longest is let go first.

use std::sync::Mutex;

/// Readers that are kept.
const READERS_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Shelf<T>(Mutex<Vec<(String, T)>>);

impl<T> Default for Shelf<T> {
    fn default() -> Self {
        Shelf(Mutex::new(Vec::new()))
    }
}

impl<T> Shelf<T> {
    /// The reader that stands there, if it was kept.
    pub(crate) fn take(&self, position: &str) -> Option<T> {
        let mut kept = self.0.lock().expect("nobody panics holding it");
        let at = kept.iter().position(|(at, _)| at == position)?;
        Some(kept.remove(at).1)
    }

    /// Keeps a reader that stands there.
    pub(crate) fn put(&self, position: &str, reader: T) {
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
