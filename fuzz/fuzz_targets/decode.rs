//! Content codings: for any bytes, output stays within its limit, and encoded bytes decode to the original.
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use nephila_core::spider::coding::{Coding, Codings};
use nephila_spider::decode::{Decoded, Note, Stop, decode};

const CODINGS: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

/// Large enough that small bombs pass the limit, small enough that a fuzzer stays quick.
const LIMIT: u64 = 32 * 1024;

fuzz_target!(|data: &[u8]| {
    let Some((&choice, bytes)) = data.split_first() else { return };
    let mut undo = vec![CODINGS[usize::from(choice & 3)]];
    if choice & 4 != 0 {
        undo.push(CODINGS[usize::from(choice >> 3 & 3)]);
    }
    let codings = Codings { undo, ignored: 0 };

    let (out, decoded) = run(&codings, bytes, LIMIT);
    if decoded.note == Note::Limit {
        assert_eq!(decoded.bytes, LIMIT, "stopped before the limit");
    }
    if decoded.note == Note::Plain && codings.undo.len() == 1 {
        assert_eq!(out, &bytes[..out.len()], "what is not coded is given as it is");
    }

    // How the bytes arrive changes nothing.
    let (pieces, note) = run_in(1, &codings, bytes, LIMIT);
    assert_eq!((note, &pieces), (decoded, &out), "pieces change the answer");

    // A smaller limit gives the beginning of the same.
    let small = LIMIT.min(out.len() as u64 / 2);
    let (less, cut) = run(&codings, bytes, small);
    assert!(out.starts_with(&less), "a limit changes the bytes");
    assert_eq!(cut.note == Note::Limit, less.len() < out.len(), "{cut:?} after {decoded:?}");

    nephila_fuzz::linear(bytes, |bytes| _ = run(&codings, bytes, 64 * LIMIT));
});

fn run(codings: &Codings, bytes: &[u8], limit: u64) -> (Vec<u8>, Decoded) {
    run_in(usize::MAX, codings, bytes, limit)
}

fn run_in(step: usize, codings: &Codings, bytes: &[u8], limit: u64) -> (Vec<u8>, Decoded) {
    let mut out = Vec::new();
    let open = || -> io::Result<Box<dyn Read + Send + '_>> { Ok(Box::new(Pieces { bytes, step })) };
    let decoded =
        decode(codings, open, limit, &|| Stop::GoOn, &mut out).expect("memory neither ends nor breaks");
    assert!(decoded.bytes <= limit, "{} bytes past a limit of {limit}", decoded.bytes);
    assert_eq!(out.len() as u64, decoded.bytes, "the count is not what was given");
    (out, decoded)
}

/// Gives at most `step` bytes at a time.
struct Pieces<'a> {
    bytes: &'a [u8],
    step: usize,
}

impl Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let now = self.step.min(into.len()).min(self.bytes.len());
        into[..now].copy_from_slice(&self.bytes[..now]);
        self.bytes = &self.bytes[now..];
        Ok(now)
    }
}
