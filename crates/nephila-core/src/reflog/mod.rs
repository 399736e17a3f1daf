//! Streams of visited URLs (SEEDS C): rate limiting and deduplication of URLs that are fetched again.
//!
//! A batch arrives as lines ([`crate::intake::reflog`] parses them). Lines of one URL are grouped ([`group()`]): hits
//! are summed, the last update tag counts. Each URL is then compared with its record ([`window`]). The URL is sent on
//! when the URL is new, when an hour has passed, or when its update tag changed; otherwise its hits are kept for the
//! next time. [`part`] is the form in which a batch travels to the owner of a partition. [`batches`] deduplicates
//! batches, however often and to however many nodes a batch is delivered.
//!
//! Invariants: between two sends of a URL lies an hour of its own timestamps or a change of its tag, unless the record
//! was forgotten in between by the clock of the batches; no hit that arrived within ten hours of the next one is lost.

pub mod batches;
pub mod group;
pub mod part;
pub mod window;

pub use batches::{Ahead, BatchKey, Batches};
pub use group::{Grouped, group};
pub use window::{Batch, Decision, Record, Window};

/// The priority of a URL by its hits: one step more urgent with each doubling. 0 is the most urgent.
pub fn priority(base: u8, hits: u64) -> u8 {
    base.saturating_sub(hits.checked_ilog2().unwrap_or(0) as u8)
}

#[cfg(test)]
mod tests;
