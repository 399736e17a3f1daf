//! Frames of spiders of version 2, the facts of a result, and what was found on a page: any bytes are frames or a named error, any split into
//! chunks gives the same, what is read, written again, is the same frame, and reading needs no more memory than its input.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use nephila_core::codec::Damaged;
use nephila_core::remote::v2::found;
use nephila_core::remote::v2::frame::{Frame, FrameError, HEAD_BYTES, PAYLOAD_BYTES_MAX};
use nephila_core::remote::v2::message::{FIELDS_MAX, Facts, NOTES_MAX};

/// As shipped (`handler.links_per_page_max`).
const LINKS_MAX: usize = 6_000;

fuzz_target!(|data: &[u8]| {
    let whole = read(data.chunks(data.len().max(1)));
    let step = 1 + usize::from(data.first().copied().unwrap_or(0)) % 64;
    assert_eq!(read(data.chunks(step)), whole, "the chunks change the frames");
    assert_eq!(read(data.chunks(1)), whole, "single bytes change the frames");

    let mut again = Vec::new();
    whole.0.iter().for_each(|frame| frame.put(&mut again));
    assert_eq!(read(again.chunks(step)), (whole.0.clone(), Ok(0)), "a frame changes when it is written again");
    // Numbers can be written longer than needed, and bytes that are no text are replaced in a reason.
    let is_exact = |frame: &Frame| !matches!(frame, Frame::Error { .. });
    if whole.0.iter().all(is_exact) {
        assert!(again.len() <= data.len(), "what is read takes more than what was written");
    }

    if let Ok(facts) = Facts::read(data) {
        assert!(facts.fields.len() <= FIELDS_MAX);
        assert!(facts.exchange.as_ref().is_none_or(|exchange| exchange.notes.len() <= NOTES_MAX));
        let bytes = facts.to_bytes();
        assert!(bytes.len() <= data.len(), "facts take more than what was written");
        assert_eq!(Facts::read(&bytes), Ok(facts), "facts change when they are written again");
    }

    if let Ok(findings) = found::read(data, LINKS_MAX) {
        assert!(findings.links.len() <= LINKS_MAX);
        let bytes = found::to_bytes(&findings);
        let again = bytes.map(|bytes| found::read(&bytes, LINKS_MAX).expect("what is written is read"));
        // A URL with a name and a password is not told.
        let is_told = again.is_none_or(|again| format!("{again:?}") == format!("{findings:?}"));
        assert!(is_told, "findings change when they are written again");
    }

    nephila_fuzz::linear(data, |data| {
        _ = read(data.chunks(1_000));
        let _: Result<Facts, Damaged> = Facts::read(data);
        _ = found::read(data, LINKS_MAX);
    });
});

/// The frames, and the number of bytes left over.
fn read<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> (Vec<Frame>, Result<usize, FrameError>) {
    let (mut bytes, mut frames) = (BytesMut::new(), Vec::new());
    for chunk in chunks {
        bytes.extend_from_slice(chunk);
        loop {
            match Frame::take(&mut bytes) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(error) => return (frames, Err(error)),
            }
        }
        assert!(bytes.len() < HEAD_BYTES + PAYLOAD_BYTES_MAX, "a whole frame is left");
    }
    (frames, Ok(bytes.len()))
}
