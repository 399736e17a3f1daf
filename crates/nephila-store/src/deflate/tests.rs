//! What is packed comes back from readers of others, codes are those of the standard, and runs take little.

use std::io::Read as _;

use proptest::prelude::*;

use super::huffman;
use super::*;

fn packed(deflater: &mut Deflater, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut stream = Stream::new(&mut out);
    deflater.append(bytes, true, &mut stream);
    stream.finish();
    out
}

/// Packs, has two other programs unpack, and returns the packed length.
fn check(deflater: &mut Deflater, bytes: &[u8]) -> usize {
    let out = packed(deflater, bytes);
    unpacks(&out, bytes);
    out.len()
}

fn unpacks(packed: &[u8], bytes: &[u8]) {
    let mut read = Vec::new();
    flate2::read::DeflateDecoder::new(packed).read_to_end(&mut read).unwrap();
    assert!(read == bytes, "flate2 reads other bytes than {} packed ones", bytes.len());
    let mut read = vec![0; bytes.len()];
    let count = libdeflater::Decompressor::new().deflate_decompress(packed, &mut read).unwrap();
    assert!(count == bytes.len() && read == bytes, "libdeflate reads other bytes");
}

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let step = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(step).take(len).collect()
}

/// Markup with the regularity of a page.
fn page(len: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in random(7, len) {
        let byte = usize::from(byte);
        out.extend_from_slice([&b"<li class=\"item\">"[..], b"the ", b"</li>\n", b"of "][byte % 4]);
        out.extend_from_slice(&random(byte as u64 % 50, 2 + byte % 7).map_letters());
    }
    out.truncate(len);
    out
}

trait Letters {
    fn map_letters(self) -> Vec<u8>;
}

impl Letters for Vec<u8> {
    fn map_letters(self) -> Vec<u8> {
        self.into_iter().map(|byte| b'a' + byte % 26).collect()
    }
}

#[test]
fn bytes_of_each_length_come_back() {
    let mut deflater = Deflater::new();
    let page = page(300_000);
    let around = |len: usize| len - 3..len + 30;
    for len in (0..100).chain(around(SMALL_BYTES_MAX)).chain(around(65_535)) {
        check(&mut deflater, &page[..len]);
        check(&mut deflater, &vec![b'x'; len]);
        check(&mut deflater, &random(len as u64, len));
    }
    check(&mut deflater, &page);
}

#[test]
fn bytes_that_do_not_compress_are_stored() {
    let mut deflater = Deflater::new();
    for len in [40, 900, 2_000, 20_000, 200_000] {
        let packed = check(&mut deflater, &random(3, len));
        assert!(packed <= len + 5 * (len / 10_000 + 1), "{packed} for {len}");
    }
}

#[test]
fn matches_reach_as_far_as_the_window_and_no_further() {
    let mut deflater = Deflater::new();
    for gap in [32_700, 32_760, 32_768 - 40, 32_768, 32_769, 32_800] {
        let mark = random(5, 40);
        let bytes = [&mark[..], &random(9, gap - 40), &mark, &random(11, 40)].concat();
        check(&mut deflater, &bytes);
    }
}

#[test]
fn runs_take_little() {
    let mut deflater = Deflater::new();
    assert!(check(&mut deflater, &vec![0; 1 << 20]) < 1 << 11);
    assert!(check(&mut deflater, &b"ab".repeat(1 << 18)) < 1 << 10);
}

#[test]
fn the_output_depends_on_the_input_alone() {
    let (mut one, mut other) = (Deflater::new(), Deflater::new());
    let inputs = [page(20_000), random(1, 5_000), page(700), vec![b'x'; 90_000], page(200_000)];
    let first: Vec<_> = inputs.iter().map(|bytes| packed(&mut one, bytes)).collect();
    for (bytes, first) in inputs.iter().zip(&first).rev() {
        assert!(packed(&mut other, bytes) == *first);
    }
}

#[test]
fn blocks_of_all_kinds_share_a_stream() {
    let mut deflater = Deflater::new();
    let (page, noise) = (page(30_000), random(1, 70_000));
    let mut out = Vec::new();
    let mut stream = Stream::new(&mut out);
    deflater.append(&page[..500], false, &mut stream);
    stream.stored(&noise, false);
    deflater.append(&page, false, &mut stream);
    stream.stored(b"", false);
    deflater.append(b"\r\n\r\n", true, &mut stream);
    stream.finish();
    unpacks(&out, &[&page[..500], &noise, &page, b"\r\n\r\n"].concat());
}

#[test]
fn codes_are_complete_and_as_short_as_asked() {
    // The counts of Fibonacci give the deepest trees.
    let mut counts = [0; 64];
    let (mut a, mut b) = (1, 1);
    for count in counts.iter_mut().take(30) {
        *count = a;
        (a, b) = (b, a + b);
    }
    for (used, max) in [(0, 15), (1, 15), (2, 15), (3, 14), (5, 7), (30, 14), (30, 7), (30, 5)] {
        let mut some = [0; 64];
        some[..used].copy_from_slice(&counts[..used]);
        let lengths = huffman::lengths(&some, max);
        let taken: u32 = lengths.iter().filter(|bits| **bits > 0).map(|bits| 1 << (15 - bits)).sum();
        assert_eq!(taken, 1 << 15, "{used} symbols with at most {max} bits");
        assert!(lengths.iter().all(|bits| usize::from(*bits) <= max));
        // A symbol that comes more often has no longer code.
        assert!(lengths[..used.max(2)].is_sorted_by(|rarer, other| rarer >= other));
    }
}

#[test]
fn codes_are_those_of_the_standard() {
    // The example of RFC 1951, 3.2.2, whose bits are written from the highest on.
    let codes = huffman::codes(&[3, 3, 3, 3, 3, 2, 4, 4]);
    let written: Vec<u16> = codes.iter().map(|code| code.bits.reverse_bits() >> (16 - code.length)).collect();
    assert_eq!(written, [2, 3, 4, 5, 6, 0, 14, 15]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_come_back(
        pieces in prop::collection::vec((0usize..4, 1usize..400, any::<u64>()), 0..60),
    ) {
        let mut bytes: Vec<u8> = Vec::new();
        for (kind, len, seed) in pieces {
            match kind {
                0 => bytes.extend(random(seed, len)),
                1 => bytes.extend(random(seed, len).map_letters()),
                2 => bytes.extend(std::iter::repeat_n(seed as u8, len)),
                // Again what came before, from anywhere.
                _ => {
                    let from = seed as usize % (bytes.len() + 1);
                    let again = bytes[from..(from + 4 * len).min(bytes.len())].to_vec();
                    bytes.extend(again);
                }
            }
        }
        check(&mut Deflater::new(), &bytes);
    }
}
