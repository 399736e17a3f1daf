//! Backpressure between the stages of a crawl.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

/// Maximum number of fetched and not yet reported pages per concurrent fetch; beyond, fetches wait for the disk.
pub const STORING_PER_FETCH: usize = 2;
/// Lower bound of that number, even with few fetches: a group of pages becomes durable at once.
pub const STORING_MIN: usize = 256;
/// Maximum number of pages that are being read, or are read and wait for room for their links. Reading takes a core
/// each.
pub const READING_MAX: usize = 64;
/// Maximum number of links found and not yet durable. A page with more takes all permits.
pub const LINKS_MAX: usize = 65_536;

/// Backpressure: the places between the stages. A page without a place waits, and so does its fetch.
#[derive(Debug)]
pub struct Room {
    /// A place for each concurrent fetch.
    pub fetching: Arc<Semaphore>,
    fetches_max: usize,
    /// Places for fetches that are taken and have no action yet.
    idle: AtomicUsize,
    /// Places for pages that are fetched and not yet reported.
    pub storing: Semaphore,
    /// A place for each of [`READING_MAX`] pages.
    pub reading: Semaphore,
    /// A place for each of [`LINKS_MAX`] links.
    pub(crate) offering: Semaphore,
}

impl Room {
    /// Creates the places for a crawl with at most this number of concurrent fetches.
    pub fn new(fetches_max: usize) -> Room {
        Room {
            fetching: Arc::new(Semaphore::new(fetches_max)),
            fetches_max,
            idle: AtomicUsize::new(0),
            storing: Semaphore::new(Room::storing_max(fetches_max)),
            reading: Semaphore::new(READING_MAX),
            offering: Semaphore::new(LINKS_MAX),
        }
    }

    fn storing_max(fetches_max: usize) -> usize {
        (STORING_PER_FETCH * fetches_max).max(STORING_MIN)
    }

    /// Counts a place for a fetch as free until the returned value is dropped: its action has not come yet.
    pub fn idle(&self) -> Idle<'_> {
        self.idle.fetch_add(1, Ordering::Relaxed);
        Idle(&self.idle)
    }

    /// The places of each stage: its name, the places taken, and all places.
    pub fn stages(&self) -> [(&'static str, usize, usize); 4] {
        let of = |name, places: &Semaphore, all: usize| {
            (name, all.saturating_sub(places.available_permits()), all)
        };
        let fetch = of("fetch", &self.fetching, self.fetches_max);
        [
            (fetch.0, fetch.1.saturating_sub(self.idle.load(Ordering::Relaxed)), fetch.2),
            of("store", &self.storing, Room::storing_max(self.fetches_max)),
            of("read", &self.reading, READING_MAX),
            of("offer", &self.offering, LINKS_MAX),
        ]
    }
}

/// See [`Room::idle`].
#[derive(Debug)]
pub struct Idle<'a>(&'a AtomicUsize);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
