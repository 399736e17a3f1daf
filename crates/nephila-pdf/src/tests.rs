//! The records between parent and child. Whole documents are read in `tests/child`.

use crate::frame::{self, End, Record};
use crate::{Cut, Limits};

fn answer(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        frame::write(&mut bytes, record).unwrap();
    }
    bytes
}

#[test]
fn limits_arrive_as_they_were_sent() {
    let limits = Limits { pages_max: 7, text_max: usize::MAX, ..Limits::default() };
    let mut bytes = frame::limits_to_bytes(&limits);
    bytes.extend_from_slice(b"%PDF-");
    let mut rest = &bytes[..];
    assert_eq!(frame::limits_from(&mut rest).unwrap(), limits);
    assert_eq!(rest, b"%PDF-");
    assert!(frame::limits_from(&mut &bytes[..40]).is_err());
}

#[test]
fn records_arrive_as_they_were_sent() {
    let sent = [
        Record::Title("Река".into()),
        Record::Pages(70_000),
        Record::Page(String::new()),
        Record::Page("a\nb".into()),
        Record::End(End::Cut(Cut::Text)),
    ];
    let bytes = answer(&sent);
    let mut rest = &bytes[..];
    let got: Vec<_> = std::iter::from_fn(|| frame::take(&mut rest)).collect();
    assert_eq!(got, sent);
    assert!(rest.is_empty());
}

#[test]
fn a_record_that_is_not_whole_is_not_taken() {
    let bytes = answer(&[Record::Page("a page".into())]);
    for end in 0..bytes.len() {
        assert_eq!(frame::take(&mut &bytes[..end]), None, "{end} bytes");
    }
    for strange in
        [&b"P\x01\0\0\0\xff"[..], b"E\x01\0\0\0x", b"Z\0\0\0\0", b"N\x01\0\0\0\0", b"P\xff\xff\xff\xffa"]
    {
        assert_eq!(frame::take(&mut &strange[..]), None);
    }
}

#[test]
fn an_answer_within_the_limits_has_room() {
    let limits = Limits { pages_max: 3, text_max: 30, ..Limits::default() };
    let mut records = vec![Record::Title("t".repeat(crate::TITLE_BYTES_MAX)), Record::Pages(3)];
    records.extend((0..3).map(|_| Record::Page("x".repeat(10))));
    records.push(Record::End(End::Whole));
    assert!(answer(&records).len() <= frame::answer_bytes_max(&limits));
}
