//! The delay of stories: from the publication date that a feed names to the begin of the fetch of the story's page.
//!
//! A ticket does not carry the publication date of its story. So the dates of new stories are kept here until their
//! pages are fetched. Stories of the first poll of a feed are left out: they are as old as the feed is long.
//!
//! A story counts if this process has both polled its feed and fetched its page: not after a restart, nor if another
//! node fetches the page.
//!
//! Invariants: at most [`STORIES_MAX`] stories wait, and the oldest gives way; a story counts once.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use nephila_core::histogram::Histogram;
use nephila_core::key::UrlKey;
use nephila_core::time::Timestamp;

/// Maximum number of stories whose pages are awaited.
pub const STORIES_MAX: usize = 20_000;

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// Upper bounds of the delays, in milliseconds.
const BOUNDS: [u64; 12] = [
    MINUTE,
    5 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    30 * DAY,
];

/// See the module.
#[derive(Debug)]
pub struct Stories {
    waiting: Mutex<Waiting>,
    /// How many wait: a page of a crawl without feeds takes no lock.
    count: AtomicUsize,
    /// The delays, in milliseconds.
    pub delay: Histogram,
}

#[derive(Debug, Default)]
struct Waiting {
    published: HashMap<UrlKey, Timestamp>,
    /// In the order of discovery. A key whose page was fetched is still here.
    order: VecDeque<UrlKey>,
}

impl Default for Stories {
    fn default() -> Stories {
        Stories { waiting: Mutex::default(), count: AtomicUsize::new(0), delay: Histogram::new(&BOUNDS) }
    }
}

impl Stories {
    /// A feed has shown new stories, with their publication dates.
    pub fn found(&self, stories: impl IntoIterator<Item = (UrlKey, Timestamp)>) {
        let mut waiting = self.lock();
        for (key, published) in stories {
            if waiting.published.insert(key, published).is_some() {
                continue;
            }
            if waiting.order.len() >= STORIES_MAX
                && let Some(oldest) = waiting.order.pop_front()
            {
                waiting.published.remove(&oldest);
            }
            waiting.order.push_back(key);
        }
        self.count.store(waiting.published.len(), Relaxed);
    }

    /// A page was fetched, beginning at this time.
    pub fn fetched(&self, key: &UrlKey, began: Timestamp) {
        if self.count.load(Relaxed) == 0 {
            return;
        }
        let mut waiting = self.lock();
        let Some(published) = waiting.published.remove(key) else { return };
        if waiting.published.is_empty() {
            waiting.order.clear();
        }
        self.count.store(waiting.published.len(), Relaxed);
        drop(waiting);
        // A date in the future is a date of another time zone, or none.
        self.delay.add(began.0.saturating_sub(published.0));
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use nephila_core::key::{DomainKey, HostKey};

    use super::*;

    fn key(path: u64) -> UrlKey {
        UrlKey { host: HostKey { domain: DomainKey(1), host: 1 }, path }
    }

    #[test]
    fn a_story_counts_once_and_other_pages_never() {
        let stories = Stories::default();
        stories.fetched(&key(1), Timestamp(1));
        stories.found([(key(1), Timestamp(1_000)), (key(2), Timestamp(9 * DAY))]);
        stories.fetched(&key(3), Timestamp(HOUR));
        stories.fetched(&key(1), Timestamp(1_000 + 10 * MINUTE));
        stories.fetched(&key(1), Timestamp(DAY));
        stories.fetched(&key(2), Timestamp(DAY));
        let delays = stories.delay.get();
        assert_eq!(delays.sum, 10 * MINUTE, "a date in the future is no delay");
        assert_eq!((delays.counts[0], delays.counts[2]), (1, 1), "{delays:?}");
        assert_eq!((stories.count.load(Relaxed), stories.lock().order.len()), (0, 0));
    }

    #[test]
    fn the_oldest_story_gives_way_and_the_memory_is_bounded() {
        let stories = Stories::default();
        let many = STORIES_MAX as u64 + 10;
        stories.found((0..many).map(|path| (key(path), Timestamp(0))));
        assert_eq!(stories.count.load(Relaxed), STORIES_MAX);
        stories.fetched(&key(9), Timestamp(1));
        assert_eq!(stories.delay.get().counts[0], 0);
        stories.fetched(&key(10), Timestamp(1));
        assert_eq!(stories.delay.get().counts[0], 1);
        // Fetched and found again, again and again: keys of fetched stories take no place for ever.
        for round in 0..3 {
            stories.found((0..many).map(|path| (key(path + round * many), Timestamp(0))));
            assert!(stories.lock().order.len() <= STORIES_MAX);
        }
    }
}
