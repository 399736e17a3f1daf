//! The short way for the usual body: one layer of gzip, whole, small, and in memory.
//!
//! libdeflate decodes such a body in one call, in about a third of the time of a decoder that works piece by piece. That
//! is less work than to hand the body to another thread. Every other body (cut, damaged, with anything behind the member) is
//! left to [`decode`](super::decode), which says what is wrong.

use libdeflater::{Crc, Decompressor};
use nephila_core::spider::coding::{Coding, Codings};

use super::GZIP_MAGIC;

/// Maximum length of a decoded body: some hundred microseconds of work.
const DECODED_BYTES_MAX: usize = 512 * 1024;

/// The begin of each member: gzip with deflate.
const MEMBER: [u8; 3] = [GZIP_MAGIC[0], GZIP_MAGIC[1], 8];

/// Decodes a body of at most `limit` decoded bytes. `None` if it is not such a body.
pub fn at_once(codings: &Codings, coded: &[u8], limit: u64) -> Option<Vec<u8>> {
    let (rest, length) = coded.split_last_chunk()?;
    let (_, crc) = rest.split_last_chunk()?;
    let length = u32::from_le_bytes(*length) as usize;
    let is_small = (1..=DECODED_BYTES_MAX).contains(&length) && length as u64 <= limit;
    if codings.undo != [Coding::Gzip] || !coded.starts_with(&GZIP_MAGIC) || !is_small || may_go_on(coded) {
        return None;
    }
    let mut bytes = vec![0; length];
    let written = Decompressor::new().gzip_decompress(coded, &mut bytes).ok()?;
    // Anything behind the member would hardly end with its checksum and its length.
    let mut sum = Crc::new();
    sum.update(&bytes);
    (written == length && sum.sum() == u32::from_le_bytes(*crc)).then_some(bytes)
}

/// Whether another member may begin within these bytes: it may end as the first one does, with the same contents. One body
/// in some thousands has the sign of a member by chance, and takes the long way for nothing.
fn may_go_on(coded: &[u8]) -> bool {
    memchr::memmem::find(&coded[1..], &MEMBER).is_some()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded(coded: &[u8], limit: u64) -> Option<Vec<u8>> {
        at_once(&Codings { undo: vec![Coding::Gzip], ignored: 0 }, coded, limit)
    }

    #[test]
    fn a_whole_body_is_decoded_up_to_the_limit() {
        let page = b"<p>a page</p>".repeat(1_000);
        assert!(decoded(&gzip(&page), 13_000).is_some_and(|bytes| bytes == page));
        assert_eq!(decoded(&gzip(&page), 12_999), None);
    }

    #[test]
    fn what_is_not_usual_takes_the_long_way() {
        let page = b"<p>a page</p>".repeat(1_000);
        let coded = gzip(&page);
        let two = [coded.clone(), gzip(b"and another")].concat();
        let same = coded.repeat(2);
        let behind = [&coded[..], b"01234567"].concat();
        let mut damaged = coded.clone();
        damaged[40] ^= 1;
        let large = gzip(&vec![b'x'; DECODED_BYTES_MAX + 1]);
        for body in [
            &coded[..coded.len() - 1],
            &two,
            &same,
            &behind,
            &damaged,
            &large,
            &page,
            &gzip(b""),
            b"",
            b"\x1f\x8b",
        ] {
            assert_eq!(decoded(body, u64::MAX), None);
        }
        let twice = Codings { undo: vec![Coding::Gzip, Coding::Gzip], ignored: 0 };
        assert_eq!(at_once(&twice, &coded, u64::MAX), None);
    }
}
