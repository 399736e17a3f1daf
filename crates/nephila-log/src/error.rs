//! Why a log, an inbox or a lease did not do it. Each variant says what the caller does.

use std::time::Duration;

use nephila_store::journal;

/// Why it was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no room where it should be kept. Go back, wait, and write it again.
    #[error("there is no room: {0}")]
    Full(String),
    /// Somebody else owns the log now, or we were told to stop. Leave the partition; do not write again.
    #[error("fenced: {0}")]
    Fenced(String),
    /// Groups are missing in the middle. Rebuild from a snapshot, or stop with an alarm.
    #[error("group {expected} is missing: group {found} follows")]
    Gap {
        /// The group that should come.
        expected: u64,
        /// The one that comes, or 0 if none does.
        found: u64,
    },
    /// What was durable is not there any more: the log was rolled back or made anew. Rebuild from a snapshot, or stop
    /// with an alarm.
    #[error("the log was rolled back: its last message is {found}, after {expected} was there")]
    RolledBack {
        /// The position that was durable.
        expected: u64,
        /// The last one there is now; 0 if none.
        found: u64,
    },
    /// The group does not follow the last one. The owner's state is of another log: stop.
    #[error("group {found} cannot follow group {last}")]
    OutOfOrder {
        /// The last group here.
        last: u64,
        /// The one that came.
        found: u64,
    },
    /// It is larger than can be kept. Commit sooner, or pack less.
    #[error("{bytes} bytes are more than {bytes_max}")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The longest there can be.
        bytes_max: usize,
    },
    /// A write failed before. Go back, or open the log again.
    #[error("the log takes nothing more since a write failed")]
    Broken,
    /// The engine did not answer in time. Whether it was done is not known; it may be tried again.
    #[error("{what} was not possible within {} s: {why}", waited.as_secs())]
    Unavailable {
        /// What was tried.
        what: &'static str,
        /// For how long.
        waited: Duration,
        /// What the last try said.
        why: String,
    },
    /// What was read is not what was written. Rebuild from a snapshot, or stop with an alarm.
    #[error("damaged: {0}")]
    Damaged(String),
    /// It cannot be done this way. Correct the settings or the call.
    #[error("refused: {0}")]
    Refused(String),
    /// The journal on this machine failed.
    #[error(transparent)]
    Journal(journal::Error),
}

impl Error {
    /// Is there no room? Then it may work later: see [`GroupLog::go_back`](crate::GroupLog::go_back).
    pub fn is_full(&self) -> bool {
        match self {
            Error::Full(_) => true,
            Error::Journal(error) => error.is_full(),
            _ => false,
        }
    }

    /// Does somebody else own the log now, or were we told to stop?
    pub fn is_fenced(&self) -> bool {
        matches!(self, Error::Fenced(_))
    }

    /// Is the engine away, and may it be tried again?
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Error::Unavailable { .. })
    }

    /// Has the log lost what it had? Then a snapshot has to be used, or a person has to look.
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
