//! The reader against good, torn, damaged and random bytes.

use std::io::Write as _;

use proptest::prelude::*;

use super::input::BUFFER_BYTES;
use super::*;

fn record(block: &[u8]) -> Vec<u8> {
    let head = format!("WARC/1.1\r\nWARC-Type: resource\r\nContent-Length: {}\r\n\r\n", block.len());
    [head.as_bytes(), block, b"\r\n\r\n"].concat()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn file(format: Format, blocks: &[Vec<u8>]) -> Vec<u8> {
    let pack = |block: &Vec<u8>| match format {
        Format::Gzip => gzip(&record(block)),
        Format::Zstd => zstd::stream::encode_all(&record(block)[..], 3).unwrap(),
        Format::Plain => record(block),
    };
    blocks.iter().map(pack).collect::<Vec<_>>().concat()
}

fn read_all(bytes: &[u8]) -> (Vec<Vec<u8>>, Option<Error>) {
    let mut reader = Reader::new(bytes);
    let mut blocks = Vec::new();
    loop {
        let mut block = Collect::default();
        match reader.read(&mut block) {
            Ok(Some(record)) => {
                assert!(record.separator && !record.shares_member);
                assert_eq!(record.block_len, block.0.len() as u64);
                blocks.push(block.0);
            }
            Ok(None) => return (blocks, None),
            Err(error) => return (blocks, Some(error)),
        }
    }
}

const FORMATS: [Format; 3] = [Format::Gzip, Format::Zstd, Format::Plain];

#[test]
fn every_format_is_read_back() {
    let blocks = vec![b"one".to_vec(), vec![], b"\r\n\r\nWARC/1.1\r\n\0".to_vec(), vec![7; 100_000]];
    for format in FORMATS {
        let (read, error) = read_all(&file(format, &blocks));
        assert!(error.is_none(), "{format:?} {error:?}");
        assert_eq!(read, blocks);
    }
}

/// Wants this number of bytes of a block.
struct First(usize, Vec<u8>);

impl Visitor for First {
    fn header(&mut self, _: &Header) {}

    fn block(&mut self, bytes: &[u8]) {
        self.1.extend_from_slice(bytes);
    }

    fn is_done(&self) -> bool {
        self.1.len() >= self.0
    }
}

#[test]
fn with_known_lengths_records_are_read_as_far_as_wanted() {
    // A generator, since zeros would fit into the first piece of a decoder.
    let noise = |mut seed: u32| {
        std::iter::repeat_with(move || {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 24) as u8
        })
    };
    let blocks: Vec<Vec<u8>> = [0, 10, 3_000, 200_000, 500_000, 5]
        .iter()
        .map(|len| noise(*len as u32).take(*len).collect())
        .collect();
    for format in FORMATS {
        let bytes = file(format, &blocks);
        let mut whole = Reader::new(&bytes[..]);
        let mut places = Vec::new();
        while let Some(record) = whole.read(&mut ()).unwrap() {
            places.push((record.offset, record.length));
        }
        let mut reader = Reader::new(&bytes[..]);
        for ((offset, length), block) in places.iter().zip(&blocks) {
            let mut first = First(100, Vec::new());
            let record = reader.read_known(&mut first, *length).unwrap().unwrap();
            assert_eq!((record.offset, record.length), (*offset, *length), "{format:?}");
            assert!(block.starts_with(&first.1) && first.1.len() >= block.len().min(100));
            let is_cut = format != Format::Plain && block.len() > 100_000;
            assert_eq!(
                first.1.len() < 64 * 1024,
                is_cut || block.len() < 64 * 1024,
                "{format:?} {}",
                block.len()
            );
        }
        assert!(reader.read_known(&mut (), 1).unwrap().is_none());
        if format != Format::Plain {
            let (offset, _) = places[3];
            let mut reader = Reader::with_limits(&bytes[offset as usize..], offset, Limits::default());
            let error = reader.read_known(&mut First(100, Vec::new()), 9).unwrap_err();
            assert!(matches!(error, Error::Damaged { .. }), "shorter than the record: {error}");
            let mut reader = Reader::with_limits(&bytes[offset as usize..], offset, Limits::default());
            let error = reader.read_known(&mut First(100, Vec::new()), u64::MAX).unwrap_err();
            assert!(matches!(error, Error::Torn { .. }), "longer than the file: {error}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_gives_its_whole_records_and_says_that_it_is_torn() {
    let blocks = vec![b"one".to_vec(), b"two two two two".to_vec(), b"three".to_vec()];
    for format in FORMATS {
        let bytes = file(format, &blocks);
        let ends: Vec<usize> = (0..=3).map(|n| file(format, &blocks[..n]).len()).collect();
        for cut in 0..bytes.len() {
            let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
            let (read, error) = read_all(&bytes[..cut]);
            assert_eq!(read.len(), whole, "{format:?} cut at {cut}");
            assert_eq!(error.is_none(), ends.contains(&cut), "{format:?} cut at {cut}: {error:?}");
            assert!(!matches!(error, Some(Error::Io(_))), "{format:?} cut at {cut}: {error:?}");
        }
    }
}

#[test]
fn a_record_may_begin_anywhere_around_the_end_of_a_buffer() {
    for format in FORMATS {
        // Noise does not get shorter, so the length of the first record can be chosen.
        let mut state = 1u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        let noise: Vec<u8> = (0..70_000).map(|_| next()).collect();
        let mut met = 0;
        for target in BUFFER_BYTES - 6..BUFFER_BYTES + 2 {
            let mut size = BUFFER_BYTES - 100;
            for _ in 0..5 {
                size = size + target - file(format, &[noise[..size].to_vec()]).len();
            }
            let blocks = vec![noise[..size].to_vec(), b"two".to_vec()];
            met += usize::from(file(format, &blocks[..1]).len() == target);
            let (read, error) = read_all(&file(format, &blocks));
            assert!(error.is_none() && read == blocks, "{format:?}, a record at {target}: {error:?}");
        }
        assert!(met >= 4, "{format:?}: the boundary was met");
    }
}

#[test]
fn a_record_is_found_by_its_place() {
    let blocks = vec![b"one".to_vec(), b"two".to_vec()];
    let dir = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let path = dir.path().join("x");
        let first = file(format, &blocks[..1]).len() as u64;
        let bytes = file(format, &blocks);
        std::fs::write(&path, &bytes).unwrap();
        let (record, block) = read_at(&path, first, bytes.len() as u64 - first, 100).unwrap();
        assert_eq!((record.offset, block.as_slice()), (first, &b"two"[..]));
        assert!(read_at(&path, first + 1, 5, 100).is_err());
    }
}

#[test]
fn a_bomb_ends_at_the_limit() {
    let bytes = gzip(&record(&vec![0; 3_000_000]));
    let limits = Limits { record_bytes_max: 1_000_000, ..Limits::default() };
    let mut reader = Reader::with_limits(&bytes[..], 0, limits);
    assert!(matches!(reader.read(&mut ()), Err(Error::Damaged { .. })));
}

#[test]
fn two_records_in_one_member_are_noticed() {
    let bytes = gzip(&[record(b"a"), record(b"b")].concat());
    let mut reader = Reader::new(&bytes[..]);
    assert!(reader.read(&mut ()).unwrap().unwrap().shares_member);
}

#[test]
fn a_skippable_frame_is_stepped_over() {
    let mut bytes = vec![0x5d, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    bytes.extend(file(Format::Zstd, &[b"x".to_vec()]));
    assert_eq!(read_all(&bytes).0, vec![b"x".to_vec()]);
}

proptest! {
    #[test]
    fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        fuzz_read(&bytes);
        fuzz_read(&[b"WARC/1.1\r\n", &bytes[..]].concat());
        fuzz_read(&gzip(&bytes));
    }

    #[test]
    fn a_changed_byte_does_no_harm(at in 0usize..10_000, value in any::<u8>(), which in 0usize..3) {
        let mut bytes = file(FORMATS[which], &[b"one".to_vec(), vec![b'x'; 500], b"three".to_vec()]);
        let at = at % bytes.len();
        bytes[at] = value;
        fuzz_read(&bytes);
    }
}
