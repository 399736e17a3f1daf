//! A poll of a feed, the plan after the poll, and the health of a feed.

use std::time::Duration;

use super::super::Hints;
use crate::time::Timestamp;

/// The answer to a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollAnswer {
    /// 304.
    NotModified,
    /// The same URLs as at the last poll.
    Redundant,
    /// Entries, possibly with new stories.
    Read {
        /// Number of entries.
        entries: u32,
        /// Number of new stories among them.
        new: u32,
        /// The earliest date among the new stories.
        oldest_new: Option<Timestamp>,
        /// The mean gap between all entries, by their dates ([`super::super::Feed::dated_gap`]).
        dated_gap: Option<Duration>,
    },
    /// No feed: an error, no response, another kind of document.
    Failed,
    /// 410.
    Gone,
}

impl PollAnswer {
    pub(super) fn stories(self) -> u32 {
        match self {
            PollAnswer::Read { new, .. } => new,
            _ => 0,
        }
    }

    pub(super) fn is_failure(self) -> bool {
        matches!(self, PollAnswer::Failed | PollAnswer::Gone)
    }
}

/// A poll that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// When the poll ended.
    pub at: Timestamp,
    /// The answer.
    pub answer: PollAnswer,
    /// The request carried validators.
    pub conditional: bool,
    /// The answer has validators (`ETag` or `Last-Modified`).
    pub validators: bool,
    /// The polling hints of the feed.
    pub hints: Hints,
    /// `max-age` of its `Cache-Control`.
    pub max_age: Option<Duration>,
    /// `Retry-After`.
    pub retry_after: Option<Duration>,
    /// A hash of where a permanent redirect led, if one did.
    pub moved_to: Option<u64>,
}

impl Poll {
    /// A poll with this answer and no other information.
    pub fn new(at: Timestamp, answer: PollAnswer) -> Poll {
        Poll {
            at,
            answer,
            conditional: false,
            validators: false,
            hints: Hints::default(),
            max_age: None,
            retry_after: None,
            moved_to: None,
        }
    }
}

/// The reason for the time of the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PollReason {
    /// There was a new story.
    NewStory,
    /// There was none, this number of times in a row: the wait is doubled each time.
    Fruitless(u16),
    /// The rhythm of the stories.
    Rhythm,
    /// The feed has been silent for longer than usual.
    Silence,
    /// So much was new that stories may have been missed.
    Crowded,
    /// The feed asks for this wait.
    Hint,
    /// The server asks for this wait.
    RetryAfter,
    /// The poll failed this number of times in a row: backoff.
    Failing(u16),
    /// The minimum or maximum wait.
    Bound,
    /// The server answered "gone" several times in a row. There is no next poll.
    Gone,
}

impl PollReason {
    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            PollReason::NewStory => "new-story",
            PollReason::Fruitless(_) => "no-new-story",
            PollReason::Rhythm => "rhythm",
            PollReason::Silence => "silence",
            PollReason::Crowded => "crowded",
            PollReason::Hint => "hint",
            PollReason::RetryAfter => "retry-after",
            PollReason::Failing(_) => "failing",
            PollReason::Bound => "bound",
            PollReason::Gone => "gone",
        }
    }
}

/// The plan for the next poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// When the feed is polled again; none if the feed is gone.
    pub due: Option<Timestamp>,
    /// Whether to send validators, if there are any.
    pub conditional: bool,
    /// Whether to adopt the target of the permanent redirect as the feed's URL.
    pub adopt_move: bool,
    /// The reason for the time.
    pub why: PollReason,
}

/// The health of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Normal.
    Fine,
    /// Too few stories for a known rhythm.
    Learning,
    /// Silent against its own rhythm.
    Quiet {
        /// The usual time between polls that find a story.
        usual: Duration,
        /// Duration of the silence, up to the last successful poll.
        silent: Duration,
    },
    /// Not reachable, or no feed.
    Failing {
        /// Time of the first failure in the series.
        since: Timestamp,
        /// Number of failures in a row.
        times: u16,
    },
    /// Gone for good.
    Gone,
}

impl Health {
    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            Health::Fine => "fine",
            Health::Learning => "learning",
            Health::Quiet { .. } => "quiet",
            Health::Failing { .. } => "failing",
            Health::Gone => "gone",
        }
    }
}
