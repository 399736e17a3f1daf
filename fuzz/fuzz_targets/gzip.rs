//! The compressor of records: what it packs, two readers of others unpack, and the output depends on the input alone.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use nephila_store::archive::{Compression, Packer};

fuzz_target!(|data: &[u8]| {
    // The first byte says where the head of the record ends, and how often the rest comes: long inputs have many blocks.
    let Some((first, rest)) = data.split_first() else { return };
    let (head, tail) = rest.split_at(rest.len().min(usize::from(first >> 2)));
    let tail = tail.repeat([1, 1, 7, 150][usize::from(first & 3)]);
    let mut packer = fast();
    let member = pack(&mut packer, head, &tail);
    let plain = [head, &tail].concat();

    let mut read = Vec::new();
    flate2::read::GzDecoder::new(&member[..]).read_to_end(&mut read).expect("a whole member");
    assert!(read == plain, "the reader of zlib-rs reads other bytes");
    let mut read = vec![0; plain.len()];
    let length = libdeflater::Decompressor::new().gzip_decompress(&member, &mut read).expect("a whole member");
    assert!(length == plain.len() && read == plain, "libdeflate reads other bytes");

    // Stored bytes take five bytes for each 64 KiB, a member 18.
    assert!(member.len() <= plain.len() + plain.len() / 1_000 + 64, "{} of {}", member.len(), plain.len());
    assert!(pack(&mut packer, head, &tail) == member, "the second time the output differs");
    nephila_fuzz::linear(data, |data| _ = pack(&mut fast(), b"", data));
});

fn fast() -> Packer {
    Packer::new(Compression::Gzip { level: 1 }).expect("a level of gzip")
}

fn pack(packer: &mut Packer, head: &[u8], tail: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    packer.pack(&[head, tail], &mut out).expect("memory takes all");
    out
}
