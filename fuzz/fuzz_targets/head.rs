//! Heads of answers: limits hold, pieces change nothing, and any head can be diagnosed and judged.
#![no_main]

use http::{HeaderMap, HeaderName, HeaderValue};
use libfuzzer_sys::fuzz_target;
use nephila_core::spider::coding::Codings;
use nephila_core::spider::head::{
    HeadFault, HeadLimits, HeadScan, diagnose, fields, has_foreign_transfer_coding,
};
use nephila_core::spider::{Outcome, answer};
use nephila_core::store::head;
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;

const LIMITS: HeadLimits = HeadLimits { bytes_max: 512, fields_max: 8, informational_max: 3 };
const CODINGS_MAX: usize = 2;

fuzz_target!(|data: &[u8]| {
    let Some((&step, bytes)) = data.split_first() else { return };
    let (whole, fault) = scan(bytes, bytes.len().max(1));
    let (pieces, piece_fault) = scan(bytes, usize::from(step % 17) + 1);
    assert_eq!(fault, piece_fault, "pieces change the verdict");
    assert_eq!(whole.head(), pieces.head(), "pieces change the head");

    assert!(whole.head().len() <= LIMITS.bytes_max);
    assert_eq!(
        whole.informational() > LIMITS.informational_max,
        fault == Some(HeadFault::InformationalFlood)
    );
    if fault.is_none() {
        assert_eq!(whole.bytes_after(), pieces.bytes_after());
        assert!(whole.head().len() as u64 + whole.bytes_after() <= bytes.len() as u64);
        if whole.bytes_after() > 0 {
            assert!(whole.is_done(), "bytes after a head that did not end");
        }
    }
    if whole.is_done() && fault.is_none() {
        assert!(whole.head().ends_with(b"\n"));
        assert!(fields(whole.head()).count() <= LIMITS.fields_max);
    }

    let _ = diagnose(bytes);
    let named = |name: &'static str| {
        fields(bytes).filter(move |(n, _)| n.eq_ignore_ascii_case(name.as_bytes())).map(|(_, v)| v)
    };
    let _ = has_foreign_transfer_coding(named("transfer-encoding"));
    if let Ok(codings) = Codings::parse(named("content-encoding"), CODINGS_MAX) {
        assert!(codings.undo.len() <= CODINGS_MAX);
    }
    judge(u16::from(step) * 4, bytes);
    store(bytes);
});

fn scan(bytes: &[u8], step: usize) -> (HeadScan, Option<HeadFault>) {
    let mut scan = HeadScan::new(LIMITS);
    let fault = bytes.chunks(step).find_map(|piece| scan.feed(piece).err());
    (scan, fault)
}

/// The verdict on an answer with these fields: only a redirect has a target, a pause is not longer than a day.
fn judge(status: u16, bytes: &[u8]) {
    let mut map = HeaderMap::new();
    for (name, value) in fields(bytes).take(LIMITS.fields_max) {
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    let now = Timestamp::from_secs(1_800_000_000);
    if let Some(pause) = answer::retry_after(&map, now) {
        assert!(pause <= answer::RETRY_AFTER_MAX, "{pause:?} is too long");
    }
    let url = CrawlUrl::parse("https://site.test/dir/page").expect("a URL");
    let answer = answer::judge(answer::ExpectedResponse::default(), &url, status, &map);
    assert_eq!(answer.redirect.is_some(), answer.outcome == Outcome::Redirect);
    assert!(answer.keep || !answer.reusable, "a body that is not read blocks its connection");
}

/// The archive's form of a head is a head again, and ends at its blank line.
fn store(bytes: &[u8]) {
    let _ = head::summary(bytes);
    let _ = head::field(bytes, "content-type");
    if let Some(end) = head::end(bytes) {
        assert!(end <= bytes.len());
        let stored = head::response(&bytes[..end], (bytes.len() - end) as u64, &bytes[end..]);
        assert_eq!(
            head::end(&stored.bytes),
            Some(stored.bytes.len()),
            "the stored head does not end where it ends"
        );
        for line in stored.bytes.split_inclusive(|b| *b == b'\n').skip(1) {
            let line = line.strip_suffix(b"\r\n").expect("every line ends with CRLF");
            assert!(line.is_empty() || line.contains(&b':'), "a stored line is no field");
            assert!(!line.iter().any(|b| b.is_ascii_control() && *b != b'\t'), "a control byte is stored");
        }
    }
}
