//! Errors of logs, inboxes and leases. Each variant tells the caller how to react.

use std::time::Duration;

use nephila_store::journal;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No storage space. Call [`GroupLog::go_back`](crate::GroupLog::go_back), wait, and write again.
    #[error("there is no room: {0}")]
    Full(String),
    /// Another owner has the log, or this owner was told to stop. Leave the partition; do not write again.
    #[error("fenced: {0}")]
    Fenced(String),
    /// Groups are missing in the middle. Rebuild from a snapshot, or stop with an alarm.
    #[error("group {expected} is missing: group {found} follows")]
    Gap {
        /// The next group in order.
        expected: u64,
        /// The group found instead, or 0 if none was found.
        found: u64,
    },
    /// Durable entries are missing from the end: the log was rolled back or created again. Rebuild from a snapshot, or
    /// stop with an alarm.
    #[error("the log was rolled back: its last message is {found}, after {expected} was there")]
    RolledBack {
        /// The position that was durable.
        expected: u64,
        /// The last position now; 0 if the log is empty.
        found: u64,
    },
    /// The group does not follow the last group. The owner's state belongs to another log: stop.
    #[error("group {found} cannot follow group {last}")]
    OutOfOrder {
        /// The last group in the log.
        last: u64,
        /// The group that was given.
        found: u64,
    },
    /// The group or message is too large to store. Commit sooner, or pack less.
    #[error("{bytes} bytes are more than {bytes_max}")]
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
        /// Maximum length in bytes.
        bytes_max: usize,
    },
    /// An earlier write failed. Call `go_back`, or open the log again.
    #[error("the log takes nothing more since a write failed")]
    Broken,
    /// The engine did not answer before the deadline. The result is unknown; the call may be retried.
    #[error("{what} was not possible within {} s: {why}", waited.as_secs())]
    Unavailable {
        /// The operation.
        what: &'static str,
        /// How long the operation was retried.
        waited: Duration,
        /// Error text of the last attempt.
        why: String,
    },
    /// The bytes read differ from the bytes written. Rebuild from a snapshot, or stop with an alarm.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The call is invalid. Correct the settings or the call.
    #[error("refused: {0}")]
    Refused(String),
    /// The journal on this machine failed.
    #[error(transparent)]
    Journal(journal::Error),
}

impl Error {
    /// Whether storage is full. A later attempt may succeed: see [`GroupLog::go_back`](crate::GroupLog::go_back).
    pub fn is_full(&self) -> bool {
        match self {
            Error::Full(_) => true,
            Error::Journal(error) => error.is_full(),
            _ => false,
        }
    }

    /// Whether another owner has the log, or this owner was told to stop.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Error::Fenced(_))
    }

    /// Whether the engine is unavailable and the call may be retried.
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Error::Unavailable { .. })
    }

    /// Whether the log lost durable entries. Recovery needs a snapshot or an operator.
    pub fn is_loss(&self) -> bool {
        match self {
            Error::Gap { .. } | Error::RolledBack { .. } | Error::Damaged(_) => true,
            Error::Journal(error) => {
                matches!(error, journal::Error::Damaged { .. } | journal::Error::Missing { .. })
            }
            _ => false,
        }
    }
}

impl From<journal::Error> for Error {
    fn from(error: journal::Error) -> Self {
        match error {
            journal::Error::Broken => Error::Broken,
            journal::Error::OutOfOrder { last, found } => Error::OutOfOrder { last, found },
            journal::Error::TooLarge { bytes } => {
                Error::TooLarge { bytes, bytes_max: journal::GROUP_BYTES_MAX }
            }
            error => Error::Journal(error),
        }
    }
}
