//! Groups of entries as bytes, in a hash chain.
//!
//! `NG` · version · sequence · epoch · chain before (8 bytes) · entries · hash of all that (8 bytes). The hash is the
//! chain up to this group: the hash covers the hash of the group before, and so all groups before. The chain guards
//! against accidents, not against an enemy with write access to the log.

use super::Entry;
use super::bytes::{get_entry, put_entry};
use crate::codec::{Damaged, Reader, put_u64};
use crate::planted::{self, Bug};
use crate::state::Position;

/// Entries that are committed at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// The epoch of the owner that wrote the group.
    pub epoch: u64,
    /// The entries, in this order.
    pub entries: Vec<Entry>,
}

/// Why a group does not follow the groups folded before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// Not a group, or a damaged one.
    #[error("a damaged group of entries: {0}")]
    Damaged(#[from] Damaged),
    /// Undamaged, but of a version that only a newer program reads: stop, and leave the group as it is.
    #[error("a group of version {version}, and this program reads up to {VERSION}: a newer one wrote it")]
    Newer {
        /// Its version.
        version: u8,
    },
    /// Folded before: skip the group.
    #[error("group {sequence} was folded before")]
    Old {
        /// Its number.
        sequence: u64,
    },
    /// Groups before this one are missing: stop.
    #[error("group {found} follows group {expected}: entries are missing")]
    Gap {
        /// The number that should come.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// The right number, but after other groups than the folded ones: the log was rolled back. Stop.
    #[error("group {sequence} does not follow what was folded: the log has another history")]
    Forked {
        /// Its number.
        sequence: u64,
    },
}

const MAGIC: &[u8; 2] = b"NG";
/// The newest version, for groups that spread a domain. Version 1 had no hops, no reading of a URL and no bytes of a fetch;
/// version 2 no asides, no pages brought forward and no booked visits; version 3 no place where a URL was found, and no
/// sources of feeds; version 4 no source of a URL; version 5 no spread domains. All are read: bits that they left empty mark the missing fields, and
/// they lack the newer kinds of entries.
const VERSION: u8 = 6;
/// The version of groups with URLs that have a source.
const VERSION_SOURCES: u8 = 5;
/// The version of all other groups: an older program reads them.
const VERSION_USUAL: u8 = 4;
const VERSION_OLDEST: u8 = 1;

/// The lowest version that holds a group.
fn version(group: &Group) -> u8 {
    if group.entries.iter().any(|entry| matches!(entry, Entry::Spread(_))) {
        return VERSION;
    }
    let found = group.entries.iter().filter_map(|entry| match entry {
        Entry::Found(found) => Some(found),
        _ => None,
    });
    let mut urls = found.flat_map(|found| &found.hosts).flat_map(|host| &host.urls);
    if urls.any(|url| url.want.has_more()) { VERSION_SOURCES } else { VERSION_USUAL }
}

/// Writes a group behind a position; returns its bytes and the position behind the group.
pub fn seal(group: &Group, behind: Position) -> (Vec<u8>, Position) {
    let mut out = Vec::with_capacity(1024);
    out.extend(MAGIC);
    out.push(version(group));
    put_u64(&mut out, behind.sequence + 1);
    put_u64(&mut out, group.epoch);
    out.extend(behind.chain.to_be_bytes());
    put_u64(&mut out, group.entries.len() as u64);
    for entry in &group.entries {
        put_entry(&mut out, entry);
    }
    let chain = xxhash_rust::xxh3::xxh3_64(&out);
    out.extend(chain.to_be_bytes());
    (out, Position { sequence: behind.sequence + 1, chain })
}

/// Reads a group without checking the groups before; returns the group and the position behind. For readers that
/// follow a log without folding.
pub fn look(bytes: &[u8]) -> Result<(Group, Position), ChainError> {
    let len = bytes.len().checked_sub(8).ok_or(Damaged("length of a group"))?;
    let mut reader = Reader::new(&bytes[..len]);
    reader.take(3, "mark of a group")?;
    let sequence = reader.u64("number of a group")?;
    reader.u64("epoch of a group")?;
    let chain = reader.fixed_u64("chain of a group")?;
    open(bytes, Position { sequence: sequence.saturating_sub(1), chain })
}

/// Reads a group that should follow this position; returns the group and the position behind.
pub fn open(bytes: &[u8], behind: Position) -> Result<(Group, Position), ChainError> {
    let len = bytes.len().checked_sub(8).ok_or(Damaged("length of a group"))?;
    let (body, hash) = bytes.split_at(len);
    let chain = xxhash_rust::xxh3::xxh3_64(body);
    if hash != chain.to_be_bytes() {
        return Err(Damaged("hash of a group").into());
    }
    let mut reader = Reader::new(body);
    let is_group = reader.take(2, "mark of a group")? == MAGIC;
    let version = reader.u8("version of a group")?;
    if is_group && version > VERSION {
        return Err(ChainError::Newer { version });
    }
    if !is_group || version < VERSION_OLDEST {
        return Err(Damaged("version of a group").into());
    }
    let sequence = reader.u64("number of a group")?;
    let epoch = reader.u64("epoch of a group")?;
    let before = reader.fixed_u64("chain of a group")?;
    if planted::is(Bug::ReplayTwice) && sequence <= behind.sequence {
        let count = reader.u64("number of entries")?;
        let entries = (0..count).map(|_| get_entry(&mut reader)).collect::<Result<_, _>>()?;
        return Ok((Group { epoch, entries }, behind));
    }
    if sequence <= behind.sequence {
        return Err(ChainError::Old { sequence });
    }
    let checked = !planted::is(Bug::ChainUnchecked);
    if checked && sequence > behind.sequence + 1 {
        return Err(ChainError::Gap { expected: behind.sequence + 1, found: sequence });
    }
    if checked && before != behind.chain {
        return Err(ChainError::Forked { sequence });
    }
    let count = reader.u64("number of entries")?;
    // An entry takes at least one byte, so a wrong count cannot make us allocate much.
    let mut entries =
        Vec::with_capacity(usize::try_from(count).unwrap_or(usize::MAX).min(reader.rest().len()).min(1024));
    for _ in 0..count {
        entries.push(get_entry(&mut reader)?);
    }
    if !reader.is_empty() {
        return Err(Damaged("end of a group").into());
    }
    Ok((Group { epoch, entries }, Position { sequence, chain }))
}
