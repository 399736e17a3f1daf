//! Read-only integrity check of a journal, for a folder that no process has open.

use std::path::Path;

use super::replay::Replay;
use super::{Error, recover};

/// Reads every group of a journal and returns the first and the last. A torn end counts as the effect of a crash,
/// unless a group known to be durable is in the torn part.
pub fn check(folder: &Path, expected: u64) -> Result<Option<(u64, u64)>, Error> {
    let short = |last| Error::Short { path: folder.into(), last, expected };
    let segments = match folder.is_dir() {
        true => recover::list(folder)?,
        false => Vec::new(),
    };
    let (Some(first), Some(newest)) = (segments.first(), segments.last()) else {
        return if expected > 0 { Err(short(0)) } else { Ok(None) };
    };
    let mut last = first.first - 1;
    for group in Replay::new(&segments, first.first, u64::MAX) {
        match group {
            Ok((sequence, _)) => last = sequence,
            Err(Error::Damaged { path, .. }) if path == newest.path && last >= expected && expected > 0 => {
                break;
            }
            // Without a known durable group the torn end may be the effect of a crash.
            Err(Error::Damaged { path, .. }) if path == newest.path && expected == 0 => break,
            Err(error) => return Err(error),
        }
    }
    if last < expected { Err(short(last)) } else { Ok((last >= first.first).then_some((first.first, last))) }
}
