//! Streams of visited URLs (SEEDS C): which of them are worth a fetch.
//!
//! A batch arrives as lines ([`crate::intake::reflog`] reads them). Lines of one URL are grouped ([`group()`]): hits are
//! summed, the last update tag counts. Each URL is then put beside what is remembered of it ([`window`]): it is sent on
//! when it is new, when an hour has passed, or when its update tag changed; otherwise its hits wait for the next time.
//! [`part`] is how a batch travels to whoever decides; [`batches`] makes sure that a batch counts once, however often and to however many nodes it is delivered.
//!
//! What always holds: between two sends of a URL lies an hour of its own timestamps or a change of its tag, unless it was
//! forgotten in between by the clock of the batches; no hit that arrived within ten hours of the next one is lost.

pub mod batches;
pub mod group;
pub mod part;
pub mod window;

pub use batches::{Ahead, BatchKey, Batches};
pub use group::{Grouped, group};
pub use window::{Batch, Decision, Record, Window};

/// The priority of a URL by its hits: one step more urgent each time they double. 0 is the most urgent.
pub fn priority(base: u8, hits: u64) -> u8 {
    base.saturating_sub(hits.checked_ilog2().unwrap_or(0) as u8)
}

#[cfg(test)]
mod tests;
