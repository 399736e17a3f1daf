//! Recovery of a journal at opening. The procedure is the same with and without a crash.
//!
//! Only the last segment can have a torn end: a segment is synced before the next one is created, and its head before
//! its first frame. The last segment is cut at the first incomplete frame. But if a complete frame after the gap states
//! that a missing group was durable, the gap is damage and not a torn end, and nothing is changed.
//!
//! After a failed sync, frames that no later frame confirms may be in the machine's memory and not on the disk. They
//! are written once more and synced, so that a group read here is still there after the next power loss.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::frame::{self, FRAME_HEAD, SEGMENT_HEAD};
use super::{ENDING, Error, SegmentFile};
use crate::disk::Disk;

/// Results of opening a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The first group that can be replayed.
    pub first: Option<u64>,
    /// The last group that can be replayed.
    pub last: Option<u64>,
    /// Number of files.
    pub segments: usize,
    /// Bytes of a torn end that were cut.
    pub bytes_cut: u64,
    /// Unconfirmed bytes at the end that were written again.
    pub bytes_rewritten: u64,
}

/// The last segment, ready to be appended to.
pub(super) struct Tail {
    pub(super) len: u64,
    /// The last group of the segment; one before its first if the segment is empty.
    pub(super) last: u64,
    pub(super) salt: u64,
}

/// Lists the segments of a folder, in order, and recovers the last.
pub(super) fn recover(
    disk: &dyn Disk,
    folder: &Path,
    expected: u64,
) -> Result<(Vec<SegmentFile>, Option<Tail>, Recovered), Error> {
    let short = |last| Error::Short { path: folder.into(), last, expected };
    if expected > 0 && (!folder.is_dir() || list(folder)?.is_empty()) {
        return Err(short(0));
    }
    disk.create_dir(folder).map_err(|e| Error::disk("making", folder, e))?;
    let mut segments = list(folder)?;
    let mut found = Recovered::default();
    let mut tail = None;
    let mut may_be_torn = true;
    while let Some(segment) = segments.last_mut() {
        let bytes = fs::read(&segment.path).map_err(|e| Error::disk("reading", &segment.path, e))?;
        match mend(disk, segment, &bytes, may_be_torn, expected, &mut found)? {
            Some(mended) if mended.last < expected => return Err(short(mended.last)),
            Some(mended) => {
                segment.len = mended.len;
                tail = Some(mended);
                break;
            }
            None => {
                // Created, and nothing in the segment was ever synced. The previous segment was synced, so it has no
                // torn end.
                disk.remove(&segment.path).map_err(|e| Error::disk("removing", &segment.path, e))?;
                may_be_torn = false;
                segments.pop();
            }
        }
    }
    // Names that a crash left half made or half removed are made durable before anything depends on them.
    disk.sync_dir(folder).map_err(|e| Error::disk("syncing", folder, e))?;
    found.segments = segments.len();
    found.last = tail.as_ref().map(|tail| tail.last).filter(|last| segments[0].first <= *last);
    found.first = found.last.map(|_| segments[0].first);
    Ok((segments, tail, found))
}

/// Cuts a torn end. `None` if even the head is incomplete.
fn mend(
    disk: &dyn Disk,
    segment: &SegmentFile,
    bytes: &[u8],
    may_be_torn: bool,
    expected: u64,
    found: &mut Recovered,
) -> Result<Option<Tail>, Error> {
    let first = segment.first;
    let damaged = |offset: usize, what| Error::damaged(&segment.path, offset as u64, what);
    let salt = match frame::read_segment_head(bytes, first) {
        Ok(salt) => salt,
        Err(_) if may_be_torn && bytes.len() <= SEGMENT_HEAD && expected < first => {
            found.bytes_cut += bytes.len() as u64;
            return Ok(None);
        }
        Err(what) => return Err(damaged(0, what)),
    };
    let (mut at, mut last, mut synced) = (SEGMENT_HEAD, first - 1, 0);
    let mut starts: Vec<usize> = Vec::new();
    let mut torn = None;
    while at < bytes.len() && torn.is_none() {
        match frame::frame(&bytes[at..], salt) {
            Ok(head) if head.sequence == last + 1 && head.synced < head.sequence => {
                last = head.sequence;
                synced = synced.max(head.synced);
                starts.push(at);
                at += FRAME_HEAD + head.stored;
            }
            Ok(_) => return Err(damaged(at, "number of a group")),
            Err(what) => torn = Some(what),
        }
    }
    if let Some(what) = torn {
        let confirmed = frame::promised(&bytes[at..], salt).is_some_and(|promised| promised > last);
        if confirmed || !may_be_torn || last < expected {
            return Err(damaged(at, what));
        }
        found.bytes_cut += (bytes.len() - at) as u64;
    }
    if last < expected {
        // The caller reports this; nothing is changed.
        return Ok(Some(Tail { len: at as u64, last, salt }));
    }
    let failed = |action| move |e: io::Error| Error::disk(action, &segment.path, e);
    // The first frame that no later frame confirms.
    let confirmed = usize::try_from((synced + 1).saturating_sub(first)).unwrap_or(usize::MAX);
    let from = starts.get(confirmed).copied().unwrap_or(at);
    let file = disk.open(&segment.path).map_err(failed("opening"))?;
    if torn.is_some() {
        file.truncate(at as u64).map_err(failed("cutting"))?;
    }
    if from < at {
        file.write_at(from as u64, &bytes[from..at]).map_err(failed("writing"))?;
        found.bytes_rewritten += (at - from) as u64;
    }
    file.sync().map_err(failed("syncing"))?;
    Ok(Some(Tail { len: at as u64, last, salt }))
}

/// The segments of a folder, by their names. Other files are left alone.
pub(super) fn list(folder: &Path) -> Result<Vec<SegmentFile>, Error> {
    let failed = |e| Error::disk("reading", folder, e);
    let mut segments = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path: PathBuf = entry.path();
        let name = entry.file_name();
        let first =
            name.to_str().and_then(|name| name.strip_suffix(ENDING)).and_then(|n| n.parse::<u64>().ok());
        if let Some(first) = first.filter(|first| *first > 0) {
            let len = entry.metadata().map_err(failed)?.len();
            segments.push(SegmentFile { first, path, len });
        }
    }
    segments.sort_by_key(|segment| segment.first);
    Ok(segments)
}
