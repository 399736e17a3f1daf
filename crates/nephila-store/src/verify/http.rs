//! Checks the HTTP message in a block.

use nephila_core::store::digest::Hasher;
use nephila_core::store::{Digest, head, redact};

use super::Kind;

/// Maximum bytes of an HTTP head; a longer head is a finding.
const HEAD_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Bytes kept from the start of a body.
const START_BYTES: usize = 64;

/// An HTTP message being read.
#[derive(Default)]
pub(super) struct Http {
    head: Vec<u8>,
    head_done: bool,
    /// Whether the head ends with a blank line.
    has_end: bool,
    body_len: u64,
    start: Vec<u8>,
    payload: Hasher,
}

impl Http {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.head_done {
            return self.body(bytes);
        }
        self.head.extend_from_slice(bytes);
        if let Some(end) = head::end(&self.head) {
            let body = self.head.split_off(end);
            self.head_done = true;
            self.has_end = true;
            self.body(&body);
        } else if self.head.len() > HEAD_BYTES_MAX {
            self.head_done = true;
        }
    }

    fn body(&mut self, bytes: &[u8]) {
        self.body_len += bytes.len() as u64;
        self.payload.update(bytes);
        let room = START_BYTES - self.start.len();
        self.start.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    pub(super) fn view(&self) -> View<'_> {
        View {
            head: &self.head,
            has_end: self.has_end,
            body_len: self.body_len,
            start: &self.start,
            payload: self.payload.clone().finish(),
        }
    }
}

/// An HTTP message that was read.
pub(super) struct View<'a> {
    pub(super) head: &'a [u8],
    has_end: bool,
    pub(super) body_len: u64,
    start: &'a [u8],
    payload: Digest,
}

impl View<'_> {
    /// The digest to compare with; `None` for a body with chunk framing, where readers disagree about the digest.
    pub(super) fn payload_digest(&self) -> Option<Digest> {
        (!(self.claims_chunks() && self.has_chunks())).then_some(self.payload)
    }

    pub(super) fn status(&self) -> Option<&str> {
        let line = self.head.split(|byte| *byte == b'\n').next()?;
        std::str::from_utf8(line.split(|byte| *byte == b' ').nth(1)?).ok()
    }

    pub(super) fn check_response(&self, add: &mut dyn FnMut(Kind, String)) {
        self.check_head(add);
        if self.claims_chunks() {
            if self.has_chunks() {
                add(Kind::ChunkFraming, "the body is stored in chunks".into());
            } else {
                add(Kind::TransferEncoding, "the body is not in chunks".into());
            }
        }
        if let Some(coding) = head::field(self.head, "content-encoding")
            && head::visibly_not_coded(coding.as_bytes(), self.start)
            && !(self.claims_chunks() && self.has_chunks())
        {
            add(Kind::ContentEncoding, format!("{coding:?} over something else"));
        }
        if let Some(said) = head::field(self.head, "content-length")
            && said != self.body_len.to_string()
        {
            add(Kind::ContentLength, format!("{said:?} over {} bytes", self.body_len));
        }
    }

    /// Checks status line and header fields.
    pub(super) fn check_head(&self, add: &mut dyn FnMut(Kind, String)) {
        let mut lines = self.head.split_inclusive(|byte| *byte == b'\n');
        let first = lines.next().unwrap_or_default();
        if !is_status_line(first) {
            add(Kind::StatusLine, format!("{:?}", String::from_utf8_lossy(first)));
        }
        let broken = lines.filter(|line| *line != b"\r\n" && !is_field_line(line)).count();
        if !self.has_end {
            add(Kind::HttpHead, "the head has no end".into());
        } else if broken > 0 {
            add(Kind::HttpHead, format!("{broken} lines are no fields"));
        }
    }

    pub(super) fn check_request(&self, add: &mut dyn FnMut(Kind, String)) {
        if !self.has_end {
            add(Kind::HttpHead, "the head has no end".into());
        }
        for line in self.head.split(|byte| *byte == b'\n').skip(1) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            if redact::is_secret(name, &[]) && value != redact::REDACTED && !value.is_empty() {
                add(Kind::Secret, format!("{} is not redacted", String::from_utf8_lossy(name)));
            }
        }
    }

    fn claims_chunks(&self) -> bool {
        head::field(self.head, "transfer-encoding").is_some()
    }

    /// Whether the body begins with the size of a chunk. A page that begins with a hexadecimal number on a line of its
    /// own would as well; both are findings.
    fn has_chunks(&self) -> bool {
        let digits = self.start.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        matches!(digits, 1..=16) && matches!(self.start.get(digits), Some(b'\r' | b';' | b' '))
    }
}

/// `HTTP/1.1 200 OK`: the reason may be empty but not the blank before (RFC 9112, 4). HTTP/1.0 is accepted as well.
fn is_status_line(line: &[u8]) -> bool {
    let Some(line) = line.strip_suffix(b"\r\n") else { return false };
    let rest = line.strip_prefix(b"HTTP/1.1 ").or_else(|| line.strip_prefix(b"HTTP/1.0 "));
    rest.is_some_and(|rest| rest.len() >= 4 && rest[..3].iter().all(u8::is_ascii_digit) && rest[3] == b' ')
}

fn is_field_line(line: &[u8]) -> bool {
    let Some(line) = line.strip_suffix(b"\r\n") else { return false };
    let Some(colon) = line.iter().position(|byte| *byte == b':') else { return false };
    colon > 0
        && line[..colon].iter().all(|byte| byte.is_ascii_graphic())
        && line[colon..].iter().all(|byte| *byte >= b' ' || *byte == b'\t')
}
