//! Charsets and media types: the decision is by the first bytes alone, decoding never fails and keeps its limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::handler::charset::{DETECT_BYTES_MAX, Source, decide, decode};
use nephila_core::handler::{refresh, sniff};

fuzz_target!(|data: &[u8]| {
    let Some((&limit, rest)) = data.split_first() else { return };
    let (field, body) = match rest.iter().position(|b| *b == b'\n') {
        Some(at) => (Some(&rest[..at]), &rest[at + 1..]),
        None => (None, rest),
    };
    let decision = decide(field, body);
    if field.is_none() {
        assert_ne!(decision.source, Source::Transport, "nobody said so");
    }
    if limit == u8::MAX && body.len() % 64 == 63 {
        check_horizon(field, body);
    }

    let whole = decode(decision.encoding, body, usize::MAX);
    assert!(!whole.cut);
    let limit = usize::from(limit);
    let cut = decode(decision.encoding, body, limit);
    assert!(cut.text.len() <= limit, "{} bytes past a limit of {limit}", cut.text.len());
    assert!(whole.text.starts_with(&cut.text), "a limit changes the text");
    assert_eq!(cut.cut, cut.text.len() < whole.text.len());

    let labels = field.into_iter();
    let _ = sniff::sniff(labels, body);
    if let Some(essence) = field.and_then(sniff::essence) {
        assert_eq!(
            sniff::essence(essence.as_bytes()),
            Some(essence.clone()),
            "the essence of an essence is itself"
        );
    }
    let _ = refresh::parse(&whole.text);

    // Guessing ends at its horizon, so guessing is left out.
    nephila_fuzz::linear(body, |body| {
        _ = decode(decision.encoding, body, usize::MAX);
        _ = sniff::sniff([], body);
    });
});

/// Bytes after the horizon change nothing. Guessing from that many bytes is slow, so few inputs are checked.
fn check_horizon(field: Option<&[u8]>, body: &[u8]) {
    let mut long = body.to_vec();
    long.resize(DETECT_BYTES_MAX, b' ');
    let padded = decide(field, &long);
    long.extend_from_slice(b"\xef\xbb\xbf<meta charset=koi8-r>\xff\xfe");
    assert_eq!(decide(field, &long), padded, "bytes past the limit were looked at");
}
