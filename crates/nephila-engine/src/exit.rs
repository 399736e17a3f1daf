//! Exit codes. The numbers are Browsertrix' where the meaning is the same, so that schedulers need not relearn them.

use std::fmt;
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Everything succeeded.
    Done = 0,
    /// Something failed: a URL failed, a file has a defect, or the program could not go on.
    Failed = 1,
    /// Wrong flags or settings. A retry cannot help.
    Usage = 2,
    /// The disk is full.
    DiskFull = 3,
    /// The input cannot be read.
    Input = 5,
    /// The process or node that runs the crawl cannot be reached. A retry may help.
    Unreachable = 8,
    /// A seed could not be fetched.
    SeedsFailed = 9,
    /// Stopped by a signal; open requests were finished.
    Stopped = 11,
    /// More failures than `--errors-max`.
    TooManyFailures = 12,
    /// Stopped by a second signal; open requests were dropped, acknowledged data is safe.
    StoppedHard = 13,
    /// The size limit is reached; more is queued.
    SizeLimit = 14,
    /// The time limit is reached; more is queued.
    TimeLimit = 15,
    /// Something in the folder is missing or damaged, and going on would lose pages. The message says what to do.
    Damaged = 17,
    /// Another process crawls into this folder.
    Held = 19,
    /// The page limit is reached; more is queued.
    PageLimit = 20,
    /// Everything was tried; failed URLs are to be retried later.
    TriesLeft = 23,
    /// Waited for hosts until `--wait-max`; more is queued.
    WaitLimit = 24,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Exit::Done => "done",
            Exit::Failed => "failed",
            Exit::Usage => "wrong flags or settings",
            Exit::DiskFull => "disk full",
            Exit::Input => "input unreadable",
            Exit::Unreachable => "not reachable",
            Exit::SeedsFailed => "seeds failed",
            Exit::Stopped => "stopped",
            Exit::TooManyFailures => "too many failures",
            Exit::StoppedHard => "stopped hard",
            Exit::SizeLimit => "size limit reached",
            Exit::TimeLimit => "time limit reached",
            Exit::Damaged => "the folder is damaged",
            Exit::Held => "held by another process",
            Exit::PageLimit => "page limit reached",
            Exit::TriesLeft => "second tries left for later",
            Exit::WaitLimit => "waited long enough",
        })
    }
}

impl std::error::Error for Exit {}
