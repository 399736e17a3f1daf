//! The head of a response, as received: where the head ends, its size limit, its faults.
//!
//! [`HeadScan`] watches the bytes that a connection reads. The scan follows informational responses (1xx), which the
//! HTTP library skips without a limit, keeps the bytes of the final head for the archive, and counts the bytes behind
//! the head. [`diagnose`] names the fault of a head that the HTTP library rejected.
//!
//! Invariant: a scan never holds more than `head_bytes_max` bytes.

use memchr::memchr;

use super::Outcome;

/// The limits of a head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Maximum number of bytes, including informational responses.
    pub bytes_max: usize,
    /// Maximum number of fields of one head.
    pub fields_max: usize,
    /// Maximum number of informational responses.
    pub informational_max: u32,
}

/// Why reading of a head stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadFault {
    /// More bytes or more fields than the limit.
    TooLarge,
    /// More informational responses than the limit.
    InformationalFlood,
}

impl HeadFault {
    /// The outcome of a fetch with this fault.
    pub const fn outcome(self) -> Outcome {
        match self {
            HeadFault::TooLarge => Outcome::HeadTooLarge,
            HeadFault::InformationalFlood => Outcome::InformationalFlood,
        }
    }
}

/// Follows the bytes of one response up to the end of its final head.
#[derive(Debug)]
pub struct HeadScan {
    limits: HeadLimits,
    head: Vec<u8>,
    /// The start of the current line.
    line: usize,
    fields: usize,
    spent: usize,
    informational: u32,
    done: bool,
    after: u64,
}

impl HeadScan {
    /// A scan at the start of a response.
    pub fn new(limits: HeadLimits) -> Self {
        HeadScan {
            limits,
            head: Vec::new(),
            line: 0,
            fields: 0,
            spent: 0,
            informational: 0,
            done: false,
            after: 0,
        }
    }

    /// Starts over: the next byte belongs to a new response.
    pub fn reset(&mut self) {
        *self = HeadScan::new(self.limits);
    }

    /// Takes the bytes of one read.
    pub fn feed(&mut self, mut bytes: &[u8]) -> Result<(), HeadFault> {
        while !self.done && !bytes.is_empty() {
            let (piece, ends_line) = match memchr(b'\n', bytes) {
                Some(at) => (&bytes[..=at], true),
                None => (bytes, false),
            };
            bytes = &bytes[piece.len()..];
            let room = self.limits.bytes_max - self.spent;
            if piece.len() > room {
                // Up to the limit in every case, so the kept bytes do not depend on how the bytes arrived.
                self.head.extend_from_slice(&piece[..room]);
                self.spent = self.limits.bytes_max;
                return Err(HeadFault::TooLarge);
            }
            self.spent += piece.len();
            self.head.extend_from_slice(piece);
            if ends_line {
                self.end_line()?;
            }
        }
        self.after += bytes.len() as u64;
        Ok(())
    }

    /// The final head, including the blank line; the received part, if the head never ended.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Moves the final head out; the counts stay.
    pub fn take_head(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.head)
    }

    /// Whether the final head has ended.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether no byte of a response has arrived.
    pub fn is_empty(&self) -> bool {
        self.spent == 0
    }

    /// Bytes read after the final head.
    pub fn bytes_after(&self) -> u64 {
        self.after
    }

    /// Number of informational responses that were skipped.
    pub fn informational(&self) -> u32 {
        self.informational
    }

    fn end_line(&mut self) -> Result<(), HeadFault> {
        let line = &self.head[self.line..];
        let blank = line == b"\n" || line == b"\r\n";
        if blank && self.line == 0 {
            // Empty lines before a status line are skipped, as every client does.
            self.head.clear();
            return Ok(());
        }
        if !blank {
            if self.line > 0 {
                self.fields += 1;
                if self.fields > self.limits.fields_max {
                    return Err(HeadFault::TooLarge);
                }
            }
            self.line = self.head.len();
            return Ok(());
        }
        if is_informational(&self.head) {
            self.informational += 1;
            if self.informational > self.limits.informational_max {
                return Err(HeadFault::InformationalFlood);
            }
            self.head.clear();
            self.line = 0;
            self.fields = 0;
            return Ok(());
        }
        self.done = true;
        Ok(())
    }
}

/// 101 is not informational here: 101 would change the protocol, so the response is final, and refused.
fn is_informational(head: &[u8]) -> bool {
    matches!(status_of(head), Some(status) if (100..200).contains(&status) && status != 101)
}

/// The status of a well-formed status line.
fn status_of(head: &[u8]) -> Option<u16> {
    let rest = head.strip_prefix(b"HTTP/1.")?;
    let (minor, rest) = rest.split_first()?;
    if !minor.is_ascii_digit() {
        return None;
    }
    let rest = rest.strip_prefix(b" ")?;
    let digits = rest.get(..3)?;
    if !digits.iter().all(u8::is_ascii_digit)
        || rest.get(3).is_some_and(|b| !matches!(b, b' ' | b'\r' | b'\n' | b'\t'))
    {
        return None;
    }
    Some(digits.iter().fold(0, |status, digit| status * 10 + u16::from(digit - b'0')))
}

/// Names the fault of a head that was rejected. Parses leniently, so that the first real fault is named.
pub fn diagnose(head: &[u8]) -> Outcome {
    let version_known = head.starts_with(b"HTTP/1.0 ") || head.starts_with(b"HTTP/1.1 ");
    if !version_known || status_of(head).is_none_or(|status| status < 100) {
        return Outcome::BadStatusLine;
    }
    let mut length: Option<&[u8]> = None;
    let mut chunked = false;
    for (name, value) in fields(head) {
        if name.eq_ignore_ascii_case(b"content-length") {
            for part in value.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                let is_number = !part.is_empty() && part.len() <= 19 && part.iter().all(u8::is_ascii_digit);
                if !is_number || length.is_some_and(|known| known != part) {
                    return Outcome::BadFraming;
                }
                length = Some(part);
            }
        } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
            chunked = true;
        }
    }
    if chunked && head.starts_with(b"HTTP/1.0") {
        return Outcome::BadFraming;
    }
    Outcome::BadHeader
}

/// The fields of a head, name and value trimmed. Lines without a colon and folded lines are left out.
pub fn fields(head: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.split(|b| *b == b'\n').skip(1).filter_map(|line| {
        if line.first().is_some_and(|b| matches!(b, b' ' | b'\t')) {
            return None;
        }
        let colon = memchr(b':', line)?;
        Some((line[..colon].trim_ascii(), line[colon + 1..].trim_ascii()))
    })
}

/// Whether a transfer coding list has more than `chunked`: other codings are not decoded, and must not be stored as
/// pages.
pub fn has_foreign_transfer_coding<'a>(values: impl Iterator<Item = &'a [u8]>) -> bool {
    values.flat_map(|value| value.split(|b| *b == b',')).map(<[u8]>::trim_ascii).any(|coding| {
        !coding.is_empty()
            && !coding.eq_ignore_ascii_case(b"chunked")
            && !coding.eq_ignore_ascii_case(b"identity")
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: HeadLimits = HeadLimits { bytes_max: 1_000, fields_max: 10, informational_max: 3 };

    fn scan(bytes: &[u8]) -> Result<HeadScan, HeadFault> {
        let mut scan = HeadScan::new(LIMITS);
        scan.feed(bytes)?;
        Ok(scan)
    }

    #[test]
    fn the_head_ends_at_the_blank_line_and_the_rest_is_counted() {
        let scan = scan(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nbody").unwrap();
        assert!(scan.is_done());
        assert_eq!(scan.head(), b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n");
        assert_eq!(scan.bytes_after(), 4);
    }

    #[test]
    fn bare_line_feeds_and_leading_blank_lines_are_taken() {
        let scan = scan(b"\r\n\nHTTP/1.0 200\nA: b\n\nx").unwrap();
        assert_eq!(scan.head(), b"HTTP/1.0 200\nA: b\n\n");
        assert_eq!(scan.bytes_after(), 1);
    }

    #[test]
    fn informational_answers_are_skipped_up_to_the_limit() {
        let early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
        let mut bytes = early.repeat(3);
        bytes.extend_from_slice(b"HTTP/1.1 200 OK\r\n\r\n");
        let done = scan(&bytes).unwrap();
        assert_eq!((done.informational(), done.head()), (3, &b"HTTP/1.1 200 OK\r\n\r\n"[..]));
        assert_eq!(scan(&early.repeat(4)).unwrap_err(), HeadFault::InformationalFlood);
    }

    #[test]
    fn bytes_and_fields_are_limited() {
        let mut long = b"HTTP/1.1 200 OK\r\nA: ".to_vec();
        long.resize(1_001, b'x');
        assert_eq!(scan(&long).unwrap_err(), HeadFault::TooLarge);
        let many = [&b"HTTP/1.1 200 OK\r\n"[..], &b"a: b\r\n".repeat(11)].concat();
        assert_eq!(scan(&many).unwrap_err(), HeadFault::TooLarge);
    }

    #[test]
    fn an_unasked_upgrade_is_a_final_answer() {
        assert!(scan(b"HTTP/1.1 101 Switching\r\n\r\n").unwrap().is_done());
    }

    #[test]
    fn each_fault_has_its_name() {
        for (head, name) in [
            ("ICY 200 OK\r\n\r\n", Outcome::BadStatusLine),
            ("HTTP/1.1 1000 No\r\n\r\n", Outcome::BadStatusLine),
            ("HTTP/1.1 099 No\r\n\r\n", Outcome::BadStatusLine),
            ("<html>", Outcome::BadStatusLine),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", Outcome::BadFraming),
            ("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", Outcome::BadFraming),
            ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", Outcome::BadFraming),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999999\r\n\r\n", Outcome::BadFraming),
            ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Outcome::BadFraming),
            ("HTTP/1.1 200 OK\r\nA: \0\r\n\r\n", Outcome::BadHeader),
        ] {
            assert_eq!(diagnose(head.as_bytes()), name, "{head:?}");
        }
    }

    #[test]
    fn only_chunked_is_ours() {
        assert!(!has_foreign_transfer_coding([&b"chunked"[..], b"Chunked, identity"].into_iter()));
        assert!(has_foreign_transfer_coding([&b"gzip, chunked"[..]].into_iter()));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(bytes in "(HTTP/1\\.1 (100|103|200|404) .{0,5}\r?\n([A-c]: .{0,9}\r?\n){0,4}\r?\n){0,3}.{0,20}", cut in 0usize..80) {
            let whole = { let mut s = HeadScan::new(LIMITS); s.feed(bytes.as_bytes()).map(|()| (s.head().to_vec(), s.is_done(), s.bytes_after())) };
            let cut = cut.min(bytes.len());
            let pieces = { let mut s = HeadScan::new(LIMITS); s.feed(&bytes.as_bytes()[..cut]).and_then(|()| s.feed(&bytes.as_bytes()[cut..])).map(|()| (s.head().to_vec(), s.is_done(), s.bytes_after())) };
            prop_assert_eq!(whole, pieces);
        }
    }
}
