//! Gzip at the price of the head: the text all pages share is deflated once, in segments.
//!
//! A deflate stream may be cut after a full flush: the bytes after the flush refer to nothing before. So every segment
//! of the text block is deflated on its own when the web starts, and a page is its head deflated now, ready-made
//! segments, and its end deflated now, with one checksum over all. The result is one ordinary gzip member; no reader
//! can tell.
//!
//! Invariant: a piece of a body that is not a slice of the block, or does not begin at a segment, is deflated like
//! anything else.

use std::cell::RefCell;

use bytes::Bytes;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

/// Length of a segment. Longer ones pack better, shorter ones leave less of a page to be deflated now.
pub(super) const SEGMENT: usize = 8 * 1024;
/// The head of a gzip member: deflate, no name, no time, unknown system (RFC 1952, 2.3).
const HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// Room that is added when the output is full.
const ROOM: usize = 1024;

thread_local! {
    /// One deflater per thread: making one costs more than deflating a head.
    static DEFLATER: RefCell<Compress> = RefCell::new(Compress::new(Compression::fast(), false));
}

/// The text block, deflated in segments.
pub(super) struct Packed {
    text: Bytes,
    segments: Vec<Bytes>,
}

impl Packed {
    /// Deflates a block.
    pub(super) fn new(text: &Bytes) -> Packed {
        let mut deflater = Compress::new(Compression::default(), false);
        let segments = text.chunks_exact(SEGMENT).map(|segment| {
            let mut out = Vec::with_capacity(SEGMENT / 2);
            deflate(&mut deflater, segment, &mut out, FlushCompress::Full);
            out.into()
        });
        Packed { segments: segments.collect(), text: text.clone() }
    }

    /// A body as one gzip member, in pieces.
    pub(super) fn gzip(&self, body: &[Bytes]) -> Vec<Bytes> {
        DEFLATER.with_borrow_mut(|deflater| {
            deflater.reset();
            let mut pieces = Vec::with_capacity(8);
            let mut out = HEAD.to_vec();
            let mut crc = Crc::new();
            for piece in body {
                crc.update(piece);
                let ready = self.segments_of(piece);
                if !ready.is_empty() {
                    deflate(deflater, &[], &mut out, FlushCompress::Full);
                    pieces.push(std::mem::take(&mut out).into());
                    pieces.extend_from_slice(ready);
                }
                deflate(deflater, &piece[ready.len() * SEGMENT..], &mut out, FlushCompress::None);
            }
            deflate(deflater, &[], &mut out, FlushCompress::Finish);
            out.extend_from_slice(&crc.sum().to_le_bytes());
            out.extend_from_slice(&crc.amount().to_le_bytes());
            pieces.push(out.into());
            pieces
        })
    }

    /// The ready segments a piece begins with.
    fn segments_of(&self, piece: &Bytes) -> &[Bytes] {
        let (start, at) = (self.text.as_ptr() as usize, piece.as_ptr() as usize);
        let in_text = at >= start && at + piece.len() <= start + self.text.len();
        if !in_text || !(at - start).is_multiple_of(SEGMENT) {
            return &[];
        }
        let first = (at - start) / SEGMENT;
        let count = (piece.len() / SEGMENT).min(self.segments.len() - first);
        &self.segments[first..first + count]
    }
}

/// Appends all of `input`, deflated.
fn deflate(deflater: &mut Compress, mut input: &[u8], out: &mut Vec<u8>, flush: FlushCompress) {
    loop {
        if out.capacity() - out.len() < ROOM {
            out.reserve(ROOM.max(input.len() / 2));
        }
        let before = deflater.total_in();
        let status = deflater.compress_vec(input, out, flush).expect("memory takes everything");
        input = &input[(deflater.total_in() - before) as usize..];
        // Room that is left means that nothing waits inside.
        let is_done = input.is_empty() && out.len() < out.capacity();
        if status == Status::StreamEnd || is_done && !matches!(flush, FlushCompress::Finish) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn check(packed: &Packed, body: &[Bytes]) -> usize {
        let member = packed.gzip(body).concat();
        let mut back = Vec::new();
        let mut reader = flate2::bufread::GzDecoder::new(&member[..]);
        reader.read_to_end(&mut back).unwrap();
        assert_eq!(back, body.concat());
        assert!(reader.into_inner().is_empty(), "more than one member");
        member.len()
    }

    #[test]
    fn any_mixture_of_pieces_reads_back() {
        let text = super::super::text::text_block(3, crate::settings::Text::Words);
        let packed = Packed::new(&text);
        let head = Bytes::from("<li>head</li>".repeat(100));
        let whole = check(&packed, &[head.clone(), text.slice(SEGMENT..SEGMENT * 4 + 100), head.clone()]);
        assert!(whole < SEGMENT * 2, "{whole}");
        check(&packed, &[text.slice(..)]);
        check(&packed, &[text.slice(5..SEGMENT * 2)]);
        check(&packed, &[text.slice(text.len() - SEGMENT..), text.slice(..SEGMENT), head.clone()]);
        check(&packed, &[head.clone(), head]);
        check(&packed, &[]);
        check(&packed, &[Bytes::from(vec![0xA7; 3_000_000])]);
    }

    #[test]
    fn a_deflater_that_is_used_again_remembers_nothing() {
        let packed = Packed::new(&super::super::text::text_block(3, crate::settings::Text::Words));
        let body = [Bytes::from("the same words ".repeat(200))];
        assert_eq!(packed.gzip(&body), packed.gzip(&body));
    }
}
