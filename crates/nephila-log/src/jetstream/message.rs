//! Encoding of a group as messages: one, or several parts if the group exceeds the server's message size.
//!
//! The first byte tells the encoding of the rest (plain or compressed). Header fields give the group number, the epoch,
//! the write, and for a part its index and the number of parts. A **claim** is a message without a group: opening a log
//! writes a claim, which fences out the previous owner.
//!
//! Invariants: a group counts when its last part exists; parts of an unfinished write are skipped.

use async_nats::HeaderMap;
use bytes::{Bytes, BytesMut};

use crate::Error;

/// Maximum size of a group in bytes, so that a damaged length cannot make a reader allocate without bound.
pub(super) const GROUP_BYTES_MAX: usize = 64 << 20;
/// Bytes reserved in every message for its headers.
pub(super) const HEADER_BYTES_MAX: usize = 1024;
/// Groups shorter than this are not compressed.
const COMPRESS_BYTES_MIN: usize = 256;
/// Fast, with a ratio on entries close to that of slower levels.
const COMPRESS_LEVEL: i32 = 1;

const RAW: u8 = 0;
const ZSTD: u8 = 1;

const GROUP: &str = "Neph-Group";
const EPOCH: &str = "Neph-Epoch";
const PART: &str = "Neph-Part";
const CLAIM: &str = "Neph-Claim";
/// Identifies one write, so that its writer can recognize the message after an unknown result.
pub(super) const TOKEN: &str = "Neph-Token";

/// The parsed headers of a log message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// The group, or for a claim the last group before the claim.
    pub(super) group: u64,
    pub(super) epoch: u64,
    pub(super) kind: Kind,
}

/// Kind of a log message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Claim,
    Whole,
    /// One part of a group, with the number of parts and the token of the write.
    Part {
        index: u32,
        count: u32,
        write: String,
    },
}

impl Head {
    /// Whether this message completes its group.
    pub(super) fn is_last_of_group(&self) -> bool {
        match &self.kind {
            Kind::Claim => false,
            Kind::Whole => true,
            Kind::Part { index, count, .. } => index + 1 == *count,
        }
    }

    pub(super) fn headers(&self, token: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(GROUP, self.group.to_string());
        headers.insert(EPOCH, self.epoch.to_string());
        headers.insert(TOKEN, token);
        match &self.kind {
            Kind::Claim => headers.insert(CLAIM, "1"),
            Kind::Whole => {}
            Kind::Part { index, count, write } => headers.insert(PART, format!("{index} {count} {write}")),
        }
        headers
    }

    pub(super) fn of(headers: &HeaderMap) -> Result<Head, Error> {
        let text = |name: &'static str| headers.get(name).map(|value| value.as_str());
        let number = |name: &'static str| {
            let value = text(name).and_then(|text| text.parse::<u64>().ok());
            value.ok_or_else(|| Error::Damaged(format!("a message of the log without {name}")))
        };
        let kind = if text(CLAIM).is_some() {
            Kind::Claim
        } else if let Some(part) = text(PART) {
            part_of(part).ok_or_else(|| Error::Damaged(format!("a part of a group says {part:?}")))?
        } else {
            Kind::Whole
        };
        Ok(Head { group: number(GROUP)?, epoch: number(EPOCH)?, kind })
    }
}

fn part_of(text: &str) -> Option<Kind> {
    let mut words = text.split(' ');
    let (index, count) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let write = words.next()?.to_owned();
    (index < count && count >= 2 && words.next().is_none()).then_some(Kind::Part { index, count, write })
}

/// Encodes a group for storage.
pub(super) fn pack(group: &[u8]) -> Result<Bytes, Error> {
    if group.len() > GROUP_BYTES_MAX {
        return Err(Error::TooLarge { bytes: group.len(), bytes_max: GROUP_BYTES_MAX });
    }
    let mut out = vec![RAW];
    if group.len() >= COMPRESS_BYTES_MIN {
        let packed = zstd::bulk::compress(group, COMPRESS_LEVEL);
        let packed =
            packed.map_err(|error| Error::Damaged(format!("a group cannot be compressed: {error}")))?;
        if packed.len() + 4 < group.len() {
            out[0] = ZSTD;
            out.extend(u32::try_from(group.len()).expect("shorter than the largest").to_be_bytes());
            out.extend(packed);
            return Ok(out.into());
        }
    }
    out.extend(group);
    Ok(out.into())
}

/// Decodes a stored group.
pub(super) fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    match bytes.split_first() {
        Some((&RAW, rest)) => Ok(rest.to_vec()),
        Some((&ZSTD, rest)) => {
            let (len, rest) = rest.split_first_chunk().ok_or_else(|| damaged("it is cut"))?;
            let len = u32::from_be_bytes(*len) as usize;
            if len > GROUP_BYTES_MAX {
                return Err(damaged("it is longer than a group can be"));
            }
            let group = zstd::bulk::decompress(rest, len).map_err(|error| damaged(&error.to_string()))?;
            if group.len() == len { Ok(group) } else { Err(damaged("it is shorter than it says")) }
        }
        _ => Err(damaged("it is kept in a way that is not known here")),
    }
}

fn damaged(why: &str) -> Error {
    Error::Damaged(format!("a group cannot be read: {why}"))
}

/// Splits an encoded group into payloads, each with its kind.
pub(super) fn cut(packed: Bytes, part_bytes_max: usize, write: &str) -> Vec<(Kind, Bytes)> {
    if packed.len() <= part_bytes_max {
        return vec![(Kind::Whole, packed)];
    }
    let count = u32::try_from(packed.len().div_ceil(part_bytes_max)).expect("a group has a largest size");
    (0..count)
        .map(|index| {
            let begin = index as usize * part_bytes_max;
            let end = packed.len().min(begin + part_bytes_max);
            (Kind::Part { index, count, write: write.to_owned() }, packed.slice(begin..end))
        })
        .collect()
}

/// Assembles groups from parts.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    write: String,
    next: u32,
    bytes: BytesMut,
}

impl Assembly {
    /// Takes a message. Returns the encoded group when the message completes a group.
    pub(super) fn take(&mut self, kind: &Kind, payload: Bytes) -> Option<Bytes> {
        match kind {
            Kind::Claim => None,
            Kind::Whole => {
                *self = Assembly::default();
                Some(payload)
            }
            Kind::Part { index, count, write } => {
                if *index == 0 {
                    *self = Assembly { write: write.clone(), ..Assembly::default() };
                }
                // A part of another write, or a part without its beginning, belongs to no group.
                if self.write != *write || self.next != *index {
                    return None;
                }
                self.bytes.extend_from_slice(&payload);
                self.next += 1;
                (self.next == *count).then(|| std::mem::take(self).bytes.freeze())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
    }

    #[test]
    fn a_group_comes_back_whole_or_in_parts() {
        for len in [0, 1, 255, 256, 5_000, 100_000] {
            let group = group(len);
            for part_bytes_max in [64, 1_000, 1 << 20] {
                let mut assembly = Assembly::default();
                let mut got = None;
                for (kind, payload) in cut(pack(&group).unwrap(), part_bytes_max, "w") {
                    assert!(got.is_none() && payload.len() <= part_bytes_max);
                    let head = Head { group: 7, epoch: 3, kind };
                    assert_eq!(Head::of(&head.headers("t")).unwrap(), head);
                    got = assembly.take(&head.kind, payload);
                    assert_eq!(got.is_some(), head.is_last_of_group());
                }
                assert_eq!(unpack(&got.unwrap()).unwrap(), group);
            }
        }
    }

    #[test]
    fn parts_of_an_unfinished_write_are_skipped() {
        let (old, new) = (pack(&group(300)).unwrap(), pack(&group(310)).unwrap());
        let mut assembly = Assembly::default();
        for (kind, payload) in cut(old.clone(), 100, "old").into_iter().take(2) {
            assert_eq!(assembly.take(&kind, payload), None);
        }
        let parts = cut(new.clone(), 100, "new");
        let last = parts.len() - 1;
        for (index, (kind, payload)) in parts.into_iter().enumerate() {
            let got = assembly.take(&kind, payload);
            assert_eq!(got, (index == last).then(|| new.clone()));
        }
        // A late rest of the old write belongs to no group.
        for (kind, payload) in cut(old, 100, "old").into_iter().skip(2) {
            assert_eq!(assembly.take(&kind, payload), None);
        }
    }

    #[test]
    fn what_repeats_is_compressed_and_damage_is_an_error() {
        let packed = pack(&[7; 10_000]).unwrap();
        assert!(packed.len() < 200, "{}", packed.len());
        assert!(unpack(&packed[..packed.len() - 3]).is_err());
        assert!(unpack(&[9, 1, 2]).is_err());
        assert!(unpack(&[]).is_err());
        assert!(matches!(pack(&vec![0; GROUP_BYTES_MAX + 1]), Err(Error::TooLarge { .. })));
        for part in ["", "0", "0 2", "2 2 w", "0 1 w", "0 2 w x", "a 2 w"] {
            assert_eq!(part_of(part), None, "{part}");
        }
    }
}
