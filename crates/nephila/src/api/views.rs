//! Answers that a crawl on one machine and a node of a cluster give alike.

use serde::{Deserialize, Serialize};

/// Refused URLs that are named in an answer; the others are counted.
const REFUSALS_MAX: usize = 100;

/// What a node does.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NodeState {
    /// It has not said so.
    #[default]
    Unknown,
    /// Something is left of a job.
    Crawling,
    /// Nothing is left: it waits for work, and answers.
    Ready,
}

impl NodeState {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            NodeState::Unknown => "unknown",
            NodeState::Crawling => "crawling",
            NodeState::Ready => "ready",
        }
    }
}

/// What became of URLs that were added.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Added {
    /// These stand in the inboxes of their partitions. Those that were known before are not fetched again for that.
    pub(crate) taken: u64,
    pub(crate) refused: u64,
    /// The first of those that were refused.
    #[serde(default)]
    pub(crate) refusals: Vec<Refused>,
}

/// A URL that was refused.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Refused {
    pub(crate) url: String,
    pub(crate) why: String,
}

impl Added {
    /// One more that is not taken.
    pub(crate) fn refuse(&mut self, url: &str, why: impl Into<String>) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(Refused { url: url.to_owned(), why: why.into() });
        }
    }

    /// Both together.
    pub(crate) fn plus(&mut self, other: Added) {
        self.taken += other.taken;
        self.refused += other.refused;
        let room = REFUSALS_MAX.saturating_sub(self.refusals.len());
        self.refusals.extend(other.refusals.into_iter().take(room));
    }
}
