//! The WARC reader: foreign files never panic, every record takes bytes, and limits hold.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_store::warc::{Header, Limits, Reader, Visitor};

const LIMITS: Limits = Limits { head_bytes_max: 1024, record_bytes_max: 64 * 1024 };

fuzz_target!(|data: &[u8]| {
    let whole = read(data, data.len());
    // The same bytes in small pieces are the same records.
    let pieces = read(data, 7);
    assert_eq!(whole, pieces, "pieces change the records");

    nephila_fuzz::linear(data, |data| _ = read(data, data.len()));
});

fn read(data: &[u8], step: usize) -> Vec<(u64, u64, u64)> {
    let mut reader = Reader::with_limits(Pieces { data, step: step.max(1) }, 0, LIMITS);
    let mut records = Vec::new();
    let mut next = 0;
    loop {
        let mut seen = Seen::default();
        let record = match reader.read(&mut seen) {
            Ok(Some(record)) => record,
            Ok(None) | Err(_) => break,
        };
        assert!(record.length > 0, "a record takes bytes, so this ends");
        assert!(record.offset >= next, "records overlap");
        next = record.offset + record.length;
        assert!(next <= data.len() as u64, "a record ends behind the file");
        assert_eq!(next, reader.offset());
        assert_eq!(
            seen.block, record.block_len,
            "the block that was shown is not the block that was counted"
        );
        assert_eq!(seen.headers, 1);
        assert!(record.block_len <= LIMITS.record_bytes_max, "{} bytes past the limit", record.block_len);
        if let Some(length) = record.header.content_length() {
            assert!(record.block_len <= length, "more than its Content-Length");
        }
        records.push((record.offset, record.length, record.block_len));
    }
    records
}

#[derive(Default)]
struct Seen {
    headers: u32,
    block: u64,
}

impl Visitor for Seen {
    fn header(&mut self, _: &Header) {
        self.headers += 1;
    }

    fn block(&mut self, bytes: &[u8]) {
        self.block += bytes.len() as u64;
    }
}

/// Gives at most `step` bytes at a time.
struct Pieces<'a> {
    data: &'a [u8],
    step: usize,
}

impl std::io::Read for Pieces<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let now = self.step.min(into.len()).min(self.data.len());
        into[..now].copy_from_slice(&self.data[..now]);
        self.data = &self.data[now..];
        Ok(now)
    }
}
