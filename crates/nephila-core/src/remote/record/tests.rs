//! Records: golden bytes of every outcome, every named error, any split into chunks, and the limit of data.

use data_encoding::HEXUPPER;
use proptest::prelude::*;

use super::*;

/// One record per outcome, as hexadecimal digits with the fields beside. Lines are added at the end, never changed.
const GOLDEN: &str = include_str!("../golden/records.txt");

fn record(specific: Specific) -> Record {
    Record {
        doc: 7,
        success: specific.success().unwrap_or(true),
        specific,
        http: Http::Status(200),
        ms: 42,
        url: "http://a/".to_owned(),
        new_url: String::new(),
        data_len: 2,
    }
}

fn ok() -> Record {
    record(Specific::Outcome(Outcome::Fetched))
}

fn bytes_of(record: &Record, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    record.put(&mut out).unwrap();
    out.extend_from_slice(data);
    out
}

/// A whole record: without its data, the data that was kept, and the number of bytes dropped.
type Whole = (Record, Vec<u8>, u32);

fn read(chunks: &[&[u8]], limit: u32) -> (Vec<Whole>, Result<bool, RecordError>) {
    let (mut reader, mut found, mut open) = (Reader::new(limit), Vec::new(), None);
    for mut chunk in chunks.iter().copied() {
        loop {
            match reader.read(&mut chunk) {
                Err(error) => return (found, Err(error)),
                Ok(None) => break,
                Ok(Some(Part::Begin(record))) => open = Some((record, Vec::new())),
                Ok(Some(Part::Data(data))) => open.as_mut().unwrap().1.extend_from_slice(data),
                Ok(Some(Part::End { dropped })) => {
                    let (record, data) = open.take().unwrap();
                    found.push((record, data, dropped));
                }
            }
            assert!(reader.held.len() <= 2 * URL_BYTES_MAX);
        }
        assert!(chunk.is_empty(), "bytes are left although the reader wants more");
    }
    (found, Ok(reader.is_between_records()))
}

#[test]
fn the_golden_record_of_the_design() {
    let golden = "00000007 01 00 05 00 0000002A 0009 0000 00000002 687474703A2F2F612F 6869".replace(' ', "");
    let bytes = bytes_of(&ok(), b"hi");
    assert_eq!(HEXUPPER.encode(&bytes), golden);
    assert_eq!(read(&[&bytes], 10), (vec![(ok(), b"hi".to_vec(), 0)], Ok(true)));
}

/// The records of the golden file, in its order.
fn golden_records() -> Vec<(Record, Vec<u8>)> {
    let outcomes = Outcome::ALL.iter().copied().map(Specific::Outcome);
    std::iter::once(Specific::Followed).chain(outcomes).map(golden_record).collect()
}

fn golden_record(specific: Specific) -> (Record, Vec<u8>) {
    let number = specific.number();
    let target = matches!(specific, Specific::Followed | Specific::Outcome(Outcome::Redirect));
    let http = match specific {
        Specific::Followed => Http::Status(200),
        Specific::Outcome(Outcome::StatusUnknown) => Http::of_status(799),
        Specific::Outcome(outcome) => {
            let status = STATUS_CODES.iter().find(|status| Outcome::of_status(**status) == outcome);
            status.map_or(Http::None, |status| Http::of_status(*status))
        }
    };
    let record = Record {
        doc: 1_000 + u32::from(number),
        success: specific.success().unwrap_or(true),
        specific,
        http,
        ms: 70_000 + u32::from(number),
        url: format!("http://a.test/{number}"),
        new_url: if target { "http://b.test/".to_owned() } else { String::new() },
        data_len: u32::from(specific.success().unwrap_or(true)) * 5,
    };
    let data = if record.data_len > 0 { b"hello".to_vec() } else { Vec::new() };
    (record, data)
}

fn golden_line(record: &Record, data: &[u8]) -> String {
    let name = match record.specific {
        Specific::Outcome(outcome) => outcome.name(),
        Specific::Followed => "followed",
    };
    let http = match record.http {
        Http::None => "none".to_owned(),
        Http::Other => "other".to_owned(),
        Http::Status(status) => status.to_string(),
    };
    format!(
        "{} doc={} success={} specific={}:{name} http={}:{http} ms={} url={} new_url={} data={}",
        HEXUPPER.encode(&bytes_of(record, data)),
        record.doc,
        u8::from(record.success),
        record.specific.number(),
        record.http.number(),
        record.ms,
        record.url,
        record.new_url,
        String::from_utf8_lossy(data),
    )
}

#[test]
fn one_golden_record_per_outcome_is_written_and_read() {
    let records = golden_records();
    assert_eq!(GOLDEN.lines().count(), records.len(), "add a line for the new outcome at the end");
    for (line, (record, data)) in GOLDEN.lines().zip(records) {
        assert_eq!(line, golden_line(&record, &data));
        let hex = line.split(' ').next().unwrap();
        let bytes = HEXUPPER.decode(hex.as_bytes()).unwrap();
        assert_eq!(read(&[&bytes], 100), (vec![(record, data, 0)], Ok(true)), "{line}");
    }
}

#[test]
fn the_numbers_of_status_codes_are_frozen() {
    assert!(STATUS_CODES.is_sorted());
    for (number, status) in
        [(1, 100), (4, 103), (5, 200), (14, 226), (24, 400), (42, 418), (43, 421), (63, 511)]
    {
        assert_eq!(Http::by_number(number), Some(Http::Status(status)));
        assert_eq!(Http::of_status(status).number(), number);
    }
    assert_eq!((Http::by_number(64), Http::by_number(254)), (None, None));
    assert_eq!((Http::of_status(299), Http::Status(299).number()), (Http::Other, 255));
    for number in 0..=255 {
        assert!(Http::by_number(number).is_none_or(|http| http.number() == number));
        assert!(Specific::by_number(number).is_none_or(|specific| specific.number() == number));
    }
}

#[test]
fn a_damaged_head_has_a_named_error_for_ever() {
    let good = bytes_of(&ok(), b"hi");
    let cases: &[(usize, u8, RecordError)] = &[
        (7, 1, RecordError::Padding(1)),
        (4, 2, RecordError::Success(2)),
        (4, 0, RecordError::Disagrees(0)),
        (5, 253, RecordError::Specific(253)),
        (5, 254, RecordError::FollowedNowhere),
        (6, 64, RecordError::Http(64)),
        (12, 0x21, RecordError::UrlTooLong(0x2109)),
        (14, 0xff, RecordError::UrlTooLong(0xff00)),
        (13, 0, RecordError::NoUrl),
        (20, b' ', RecordError::UrlBytes),
        (20, 0x80, RecordError::UrlBytes),
    ];
    for (place, byte, error) in cases {
        let mut bytes = good.clone();
        bytes[*place] = *byte;
        bytes.extend_from_slice(&good);
        assert_eq!(read(&[&bytes], 10), (Vec::new(), Err(*error)));
        let mut reader = Reader::new(10);
        assert_eq!(reader.read(&mut bytes.as_slice()), Err(*error));
        assert_eq!(reader.read(&mut good.as_slice()), Err(*error), "an error is the end");
        assert!(!reader.is_between_records());
    }
}

#[test]
fn what_cannot_be_read_is_not_written() {
    let mut out = Vec::new();
    let url = |url: &str| Record { url: url.to_owned(), ..ok() };
    assert_eq!(url("").put(&mut out), Err(RecordError::NoUrl));
    assert_eq!(url("http://a/ b").put(&mut out), Err(RecordError::UrlBytes));
    assert_eq!(url(&"x".repeat(8_193)).put(&mut out), Err(RecordError::UrlTooLong(8_193)));
    assert_eq!(url(&"x".repeat(70_000)).put(&mut out), Err(RecordError::UrlTooLong(70_000)));
    assert_eq!(Record { success: false, ..ok() }.put(&mut out), Err(RecordError::Disagrees(0)));
    assert_eq!(record(Specific::Followed).put(&mut out), Err(RecordError::FollowedNowhere));
    assert!(out.is_empty());
    assert_eq!(url(&"x".repeat(8_192)).put(&mut out), Ok(()));
}

#[test]
fn data_over_the_limit_is_dropped_and_the_next_record_is_read() {
    let long = Record { data_len: 1_000, ..ok() };
    let bytes = [bytes_of(&long, &[b'x'; 1_000]), bytes_of(&ok(), b"hi")].concat();
    let chunks: Vec<&[u8]> = bytes.chunks(7).collect();
    let (records, end) = read(&chunks, 300);
    assert_eq!(records[0], (long, vec![b'x'; 300], 700));
    assert_eq!((&records[1], end), (&(ok(), b"hi".to_vec(), 0), Ok(true)));
}

#[test]
fn a_record_that_is_cut_is_not_complete() {
    let bytes = bytes_of(&ok(), b"hi");
    for length in 1..bytes.len() {
        assert_eq!(read(&[&bytes[..length]], 10), (Vec::new(), Ok(false)), "{length}");
    }
}

proptest! {
    #[test]
    fn any_split_gives_the_same_records(
        numbers in prop::collection::vec((0u8..90, 0usize..50), 1..5),
        damage in prop::option::of((0usize..200, 0u8..4)),
        sizes in prop::collection::vec(1usize..40, 1..20),
    ) {
        let mut bytes = Vec::new();
        for (number, length) in numbers {
            let specific = Specific::by_number(number).unwrap_or(Specific::Followed);
            let (record, _) = golden_record(specific);
            let data_len = u32::try_from(length).unwrap();
            bytes.extend(bytes_of(&Record { data_len, ..record }, &vec![b'd'; length]));
        }
        if let Some((place, byte)) = damage && place < bytes.len() {
            bytes[place] = byte;
        }
        let (mut rest, mut chunks) = (bytes.as_slice(), Vec::new());
        for size in sizes.iter().cycle() {
            if rest.is_empty() { break }
            let (chunk, after) = rest.split_at(rest.len().min(*size));
            chunks.push(chunk);
            rest = after;
        }
        let whole = read(&[&bytes], 20);
        prop_assert_eq!(read(&chunks, 20), whole);
        // What is read, written again, gives the same bytes.
        let (records, _) = read(&[&bytes], u32::MAX);
        let again: Vec<u8> = records.iter().flat_map(|(record, data, _)| bytes_of(record, data)).collect();
        prop_assert!(bytes.starts_with(&again));
    }
}
