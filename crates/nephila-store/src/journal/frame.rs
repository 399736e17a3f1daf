//! File format of the journal. Version 1; all numbers are big-endian.
//!
//! A **segment** begins with `NEPHJRN` · version (1 byte) · number of its first group (8) · salt (8) · xxh3 of these 24
//! bytes (8). Frames follow. A **frame** is `NJFR` · bytes stored (4) · bytes of the group (4) · number of the group
//! (8) · last group that was durable when the frame was written (8) · xxh3 of all that and of the payload, seeded with
//! the salt (8) · payload. The payload is a zstd frame, or the group itself if the two lengths are equal.
//!
//! Each segment has a random salt. Groups carry bytes chosen by strangers; without a salt a stranger could put bytes
//! into a group that look like one of our frames.
//!
//! Invariants: no part of a frame is used before its checksum is verified, and no length makes the reader allocate more
//! than the size of the file or [`GROUP_BYTES_MAX`].

use memchr::memmem;
use xxhash_rust::xxh3::Xxh3;
use zstd::bulk::{Compressor, Decompressor};

/// Maximum size of a group in bytes. The worker commits long before.
pub const GROUP_BYTES_MAX: usize = 512 << 20;

/// Bytes before a segment's first frame.
pub(super) const SEGMENT_HEAD: usize = 32;
/// Bytes of a frame without its payload.
pub(super) const FRAME_HEAD: usize = 36;

const SEGMENT_MARK: &[u8; 7] = b"NEPHJRN";
const VERSION: u8 = 1;
const FRAME_MARK: &[u8; 4] = b"NJFR";
/// Offset of the checksum in a frame; the checksum covers everything before.
const CHECKSUM_AT: usize = 28;
/// A fast level: journals are read rarely and written all the time.
const COMPRESSION_LEVEL: i32 = 1;

/// The head of a segment.
pub(super) fn segment_head(first: u64, salt: u64) -> [u8; SEGMENT_HEAD] {
    let mut head = [0; SEGMENT_HEAD];
    head[..7].copy_from_slice(SEGMENT_MARK);
    head[7] = VERSION;
    head[8..16].copy_from_slice(&first.to_be_bytes());
    head[16..24].copy_from_slice(&salt.to_be_bytes());
    let hash = xxhash_rust::xxh3::xxh3_64(&head[..24]);
    head[24..].copy_from_slice(&hash.to_be_bytes());
    head
}

/// Parses a segment's head and returns its salt. `first` is the expected first group.
pub(super) fn read_segment_head(bytes: &[u8], first: u64) -> Result<u64, &'static str> {
    let head: &[u8; SEGMENT_HEAD] = bytes.first_chunk().ok_or("head of the segment is missing")?;
    if head[..7] == *SEGMENT_MARK && head[7] != VERSION {
        return Err("version of the segment is unknown");
    }
    let salt = u64::from_be_bytes(head[16..24].try_into().expect("eight bytes"));
    match *head == segment_head(first, salt) {
        true => Ok(salt),
        false => Err("head of the segment"),
    }
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Bytes of the payload.
    pub(super) stored: usize,
    /// Bytes of the group.
    pub(super) raw: usize,
    /// Number of the group.
    pub(super) sequence: u64,
    /// Everything up to this group was durable when this frame was written.
    pub(super) synced: u64,
    checksum: u64,
}

impl Head {
    /// Parses a head. Its numbers are not verified yet, but small enough to read the payload.
    pub(super) fn read(bytes: &[u8; FRAME_HEAD]) -> Result<Head, &'static str> {
        let u32_at =
            |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize;
        let u64_at = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes[..4] != *FRAME_MARK {
            return Err("mark of a frame");
        }
        let head = Head {
            stored: u32_at(4),
            raw: u32_at(8),
            sequence: u64_at(12),
            synced: u64_at(20),
            checksum: u64_at(28),
        };
        if head.stored > head.raw || head.raw > GROUP_BYTES_MAX {
            return Err("length of a frame");
        }
        Ok(head)
    }

    /// Verifies the checksum.
    pub(super) fn check(
        &self,
        bytes: &[u8; FRAME_HEAD],
        payload: &[u8],
        salt: u64,
    ) -> Result<(), &'static str> {
        match checksum(&bytes[..CHECKSUM_AT], payload, salt) == self.checksum {
            true => Ok(()),
            false => Err("checksum of a frame"),
        }
    }

    /// Decodes the group from a payload whose checksum is verified.
    pub(super) fn unpack(
        &self,
        payload: Vec<u8>,
        decompressor: &mut Decompressor<'_>,
    ) -> Result<Vec<u8>, &'static str> {
        if self.stored == self.raw {
            return Ok(payload);
        }
        let group = decompressor.decompress(&payload, self.raw).map_err(|_| "compression of a frame")?;
        if group.len() != self.raw {
            return Err("length of a group");
        }
        Ok(group)
    }
}

fn checksum(head: &[u8], payload: &[u8], salt: u64) -> u64 {
    let mut hash = Xxh3::with_seed(salt);
    hash.update(head);
    hash.update(payload);
    hash.digest()
}

/// Encodes frames.
pub(super) struct Packer(Compressor<'static>);

impl std::fmt::Debug for Packer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Packer")
    }
}

impl Packer {
    pub(super) fn new() -> std::io::Result<Packer> {
        Ok(Packer(Compressor::new(COMPRESSION_LEVEL)?))
    }

    /// Appends the frame of a group of at most [`GROUP_BYTES_MAX`] bytes.
    pub(super) fn pack(&mut self, group: &[u8], sequence: u64, synced: u64, salt: u64, out: &mut Vec<u8>) {
        let packed = self.0.compress(group).ok().filter(|packed| packed.len() < group.len());
        let payload = packed.as_deref().unwrap_or(group);
        let len =
            |bytes: &[u8]| u32::try_from(bytes.len()).expect("shorter than GROUP_BYTES_MAX").to_be_bytes();
        let at = out.len();
        out.extend(FRAME_MARK);
        out.extend(len(payload));
        out.extend(len(group));
        out.extend(sequence.to_be_bytes());
        out.extend(synced.to_be_bytes());
        let hash = checksum(&out[at..], payload, salt);
        out.extend(hash.to_be_bytes());
        out.extend_from_slice(payload);
    }
}

/// Parses the complete frame at the start of these bytes.
pub(super) fn frame(bytes: &[u8], salt: u64) -> Result<Head, &'static str> {
    let head_bytes = bytes.first_chunk().ok_or("end of a frame is missing")?;
    let head = Head::read(head_bytes)?;
    let payload = bytes.get(FRAME_HEAD..FRAME_HEAD + head.stored).ok_or("end of a frame is missing")?;
    head.check(head_bytes, payload, salt)?;
    Ok(head)
}

/// The highest durable group that any complete frame in these bytes states.
pub(super) fn promised(bytes: &[u8], salt: u64) -> Option<u64> {
    let marks = memmem::find_iter(bytes, FRAME_MARK);
    marks.filter_map(|at| frame(&bytes[at..], salt).ok()).map(|head| head.synced).max()
}
