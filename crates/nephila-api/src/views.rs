//! Answers that a crawl on one machine and a node of a cluster give alike.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Refused URLs that are named in an answer; the others are counted.
const REFUSALS_MAX: usize = 100;

/// State of a node.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Not reported yet.
    #[default]
    Unknown,
    /// URLs of a job are left.
    Crawling,
    /// No URLs are left: the node waits for work, and answers requests.
    Ready,
}

impl NodeState {
    /// Returns the state as one word in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            NodeState::Unknown => "unknown",
            NodeState::Crawling => "crawling",
            NodeState::Ready => "ready",
        }
    }
}

/// Result of a change.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Changed {
    /// Number of changed things.
    pub changed: usize,
}

/// Result of adding URLs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Added {
    /// Number of URLs stored in the inboxes of their partitions. Known URLs among them are not fetched again for that
    /// reason.
    pub taken: u64,
    /// Number of URLs that were refused.
    pub refused: u64,
    /// The first refused URLs.
    #[serde(default)]
    pub refusals: Vec<Refused>,
}

/// A refused URL.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The refused URL, as received.
    pub url: String,
    /// Reason of the refusal, as a text for the user.
    pub why: String,
}

impl Added {
    /// Adds a refused URL.
    pub fn refuse(&mut self, url: &str, why: impl Into<String>) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(Refused { url: url.to_owned(), why: why.into() });
        }
    }

    /// Adds another result.
    pub fn plus(&mut self, other: Added) {
        self.taken += other.taken;
        self.refused += other.refused;
        let room = REFUSALS_MAX.saturating_sub(self.refusals.len());
        self.refusals.extend(other.refusals.into_iter().take(room));
    }
}
