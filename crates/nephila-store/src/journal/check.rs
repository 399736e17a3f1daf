//! Looks whether a journal is whole, and changes nothing: for whoever asks about a folder that nobody has open.

use std::path::Path;

use super::replay::Replay;
use super::{Error, recover};

/// The first and the last group of a journal, every one of which was read. A torn end is what a crash leaves, unless a
/// group that is known to have been durable is in it.
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
            // Nothing says how far it was durable: then this may be what a crash left.
            Err(Error::Damaged { path, .. }) if path == newest.path && expected == 0 => break,
            Err(error) => return Err(error),
        }
    }
    if last < expected { Err(short(last)) } else { Ok((last >= first.first).then_some((first.first, last))) }
}
