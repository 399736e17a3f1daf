//! Records of spiders of version 1: any bytes are records or a named error, any split into chunks gives the same, what
//! is read, written again, gives the same bytes, and data over the limit is dropped and counted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::remote::record::{Part, Reader, Record, RecordError};

/// A record, the data that was kept, and the number of bytes dropped.
type Whole = (Record, Vec<u8>, u32);

fuzz_target!(|data: &[u8]| {
    let (records, end) = read(data.chunks(data.len().max(1)), u32::MAX);
    let step = 1 + usize::from(data.first().copied().unwrap_or(0)) % 64;
    for step in [step, 1] {
        assert_eq!(read(data.chunks(step), u32::MAX), (records.clone(), end), "the chunks change the records");
    }
    let mut again = Vec::new();
    for (record, body, dropped) in &records {
        record.put(&mut again).expect("what was read can be written");
        again.extend_from_slice(body);
        assert_eq!((record.data_len as usize, *dropped), (body.len(), 0));
    }
    assert!(data.starts_with(&again), "what is written is not what was read");
    assert_eq!(end == Ok(true), again.len() == data.len(), "bytes are left over or missing");

    let limit = 7;
    let (cut, cut_end) = read(data.chunks(step), limit);
    assert_eq!((cut.len(), cut_end), (records.len(), end), "the limit changes the records");
    for ((record, body, dropped), (_, all, _)) in cut.iter().zip(&records) {
        assert!(all.starts_with(body) && body.len() <= limit as usize);
        assert_eq!(body.len() + *dropped as usize, record.data_len as usize);
    }

    nephila_fuzz::linear(data, |data| _ = read(data.chunks(1_000), u32::MAX));
});

fn read<'a>(
    chunks: impl Iterator<Item = &'a [u8]>,
    limit: u32,
) -> (Vec<Whole>, Result<bool, RecordError>) {
    let (mut reader, mut found, mut open) = (Reader::new(limit), Vec::new(), None);
    for mut chunk in chunks {
        loop {
            match reader.read(&mut chunk) {
                Err(error) => return (found, Err(error)),
                Ok(None) => break,
                Ok(Some(Part::Begin(record))) => {
                    assert!(open.is_none(), "a record begins inside a record");
                    open = Some((record, Vec::new()));
                }
                Ok(Some(Part::Data(data))) => {
                    open.as_mut().expect("data belongs to a record").1.extend_from_slice(data);
                }
                Ok(Some(Part::End { dropped })) => {
                    let (record, data) = open.take().expect("a record ends that began");
                    found.push((record, data, dropped));
                }
            }
        }
        assert!(chunk.is_empty(), "bytes are left although the reader wants more");
    }
    (found, Ok(reader.is_between_records()))
}
