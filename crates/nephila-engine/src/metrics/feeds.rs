//! Feeds by their health, as last counted: [`crate::crawl::feed_health`] counts them in the background.
//!
//! Invariants: a scrape reads the last count and waits for nothing; the labels are [`HEALTHS`] and no other.

use std::sync::{Mutex, PoisonError};

/// All values of health, as `nephila feed list` shows them.
pub const HEALTHS: [&str; 9] =
    ["fine", "learning", "page", "quiet", "failing", "not-a-feed", "broken", "moved", "gone"];

/// See the module.
#[derive(Debug, Default)]
pub struct FeedHealth(Mutex<Option<[u64; HEALTHS.len()]>>);

impl FeedHealth {
    /// Replaces the count. A health without a label of its own is not counted.
    pub fn set(&self, health: impl IntoIterator<Item = &'static str>) {
        let mut counts = [0; HEALTHS.len()];
        for name in health {
            let at = HEALTHS.iter().position(|known| *known == name);
            debug_assert!(at.is_some(), "no label {name}");
            at.into_iter().for_each(|at| counts[at] += 1);
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(counts);
    }

    /// The last count, by health; none before the first.
    pub fn get(&self) -> Option<Vec<(&'static str, u64)>> {
        let counts = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.map(|counts| HEALTHS.into_iter().zip(counts).collect())
    }
}

#[cfg(test)]
mod tests {
    use nephila_core::feed::record::{PollAnswerKind, PollLine, Record};
    use nephila_core::feed::schedule::Health;

    use super::*;

    #[test]
    fn every_health_of_a_feed_has_a_label() {
        let health = FeedHealth::default();
        assert_eq!(health.get(), None, "nothing was counted yet");
        use PollAnswerKind as Kind;
        let kinds =
            [Kind::Read, Kind::NotAFeed, Kind::Broken, Kind::Moved, Kind::Gone, Kind::Page, Kind::Failed];
        let of =
            |found| Record { polls: vec![PollLine { found, ..PollLine::default() }], ..Record::default() };
        let mut names: Vec<&str> = kinds.iter().map(|found| of(*found).health()).collect();
        let (usual, silent) = Default::default();
        names.extend([Health::Fine.name(), Health::Learning.name(), Health::Quiet { usual, silent }.name()]);
        health.set(names.iter().copied());
        let counts = health.get().unwrap();
        assert_eq!(counts.iter().map(|(_, count)| *count as usize).sum::<usize>(), names.len(), "{names:?}");
        health.set([]);
        assert!(health.get().unwrap().iter().all(|(_, count)| *count == 0));
    }
}
