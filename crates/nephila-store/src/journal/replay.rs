//! Replays a journal from a given group on, in order, with one frame in memory at a time.
//!
//! Invariant: groups come in order and without a gap, each once, or there is an error that names file and offset.

use std::fs::File;
use std::io::{BufReader, Read as _};

use zstd::bulk::Decompressor;

use super::frame::{self, FRAME_HEAD, Head, SEGMENT_HEAD};
use super::{Error, SegmentFile};

/// Bytes read at once.
const READ_BYTES: usize = 256 * 1024;

/// Iterator over the groups of a journal, in order. Ends after the first error.
pub struct Replay<'a> {
    segments: &'a [SegmentFile],
    from: u64,
    /// The last group that is durable.
    last: u64,
    /// The next group in order.
    expected: u64,
    reading: Option<Reading<'a>>,
    decompressor: Option<Decompressor<'static>>,
}

impl std::fmt::Debug for Replay<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay").field("from", &self.from).field("last", &self.last).finish_non_exhaustive()
    }
}

/// A segment being read.
struct Reading<'a> {
    segment: &'a SegmentFile,
    file: BufReader<File>,
    salt: u64,
    at: u64,
}

impl<'a> Replay<'a> {
    pub(super) fn new(segments: &'a [SegmentFile], from: u64, last: u64) -> Self {
        // Segments that end before the wanted group are not opened at all.
        let skip = segments.partition_point(|segment| segment.first <= from).saturating_sub(1);
        let segments = &segments[skip..];
        let expected = segments.first().map_or(from, |segment| segment.first);
        Replay { segments, from, last, expected, reading: None, decompressor: None }
    }

    fn step(&mut self) -> Result<Option<(u64, Vec<u8>)>, Error> {
        loop {
            if self.expected > self.last {
                return Ok(None);
            }
            let reading = match &mut self.reading {
                Some(reading) => reading,
                None => {
                    let Some((segment, others)) = self.segments.split_first() else { return Ok(None) };
                    self.segments = others;
                    self.reading.insert(open(segment, self.expected)?)
                }
            };
            if reading.at >= reading.segment.len {
                self.reading = None;
                if self.segments.is_empty() {
                    return Ok(None);
                }
                continue;
            }
            let sequence = self.expected;
            let group = reading.frame(sequence, sequence >= self.from, &mut self.decompressor)?;
            self.expected += 1;
            if let Some(group) = group {
                return Ok(Some((sequence, group)));
            }
        }
    }
}

fn open(segment: &SegmentFile, expected: u64) -> Result<Reading<'_>, Error> {
    let failed = |e| Error::disk("reading", &segment.path, e);
    if segment.first != expected {
        return Err(Error::Missing { expected, found: segment.first, path: segment.path.clone() });
    }
    let mut file = BufReader::with_capacity(READ_BYTES, File::open(&segment.path).map_err(failed)?);
    let mut head = Vec::with_capacity(SEGMENT_HEAD);
    (&mut file).take(SEGMENT_HEAD as u64).read_to_end(&mut head).map_err(failed)?;
    let salt = frame::read_segment_head(&head, segment.first);
    let salt = salt.map_err(|what| Error::damaged(&segment.path, 0, what))?;
    Ok(Reading { segment, file, salt, at: SEGMENT_HEAD as u64 })
}

impl Reading<'_> {
    /// The frame of this group; its bytes only if wanted.
    fn frame(
        &mut self,
        sequence: u64,
        wanted: bool,
        decompressor: &mut Option<Decompressor<'static>>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let SegmentFile { path, len, .. } = self.segment;
        let damaged = |what| Error::damaged(path, self.at, what);
        let failed = |e| Error::disk("reading", path, e);
        let left = len - self.at;
        let mut head_bytes = [0; FRAME_HEAD];
        if left < FRAME_HEAD as u64 {
            return Err(damaged("end of a frame is missing"));
        }
        self.file.read_exact(&mut head_bytes).map_err(failed)?;
        let head = Head::read(&head_bytes).map_err(damaged)?;
        if head.stored as u64 > left - FRAME_HEAD as u64 {
            return Err(damaged("end of a frame is missing"));
        }
        let mut payload = vec![0; head.stored];
        self.file.read_exact(&mut payload).map_err(failed)?;
        head.check(&head_bytes, &payload, self.salt).map_err(damaged)?;
        if head.sequence != sequence {
            return Err(damaged("number of a group"));
        }
        let mut group = None;
        if wanted {
            let decompressor = match decompressor {
                Some(decompressor) => decompressor,
                none => none.insert(Decompressor::new().map_err(failed)?),
            };
            group = Some(head.unpack(payload, decompressor).map_err(damaged)?);
        }
        self.at += (FRAME_HEAD + head.stored) as u64;
        Ok(group)
    }
}

impl Iterator for Replay<'_> {
    type Item = Result<(u64, Vec<u8>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.last = 0;
        }
        step.transpose()
    }
}
