//! Response heads in their stored form: as received, changed only where a public reader would fail.
//!
//! Changed are: the version of the status line (always `HTTP/1.1`, pywb refuses others), `Transfer-Encoding` (the
//! stored body has no chunk framing, so the field gets the prefix `X-Crawler-`), `Content-Length` (set to the stored
//! length; an old value that differs is kept with the prefix), a `Content-Encoding` that the body visibly does not have
//! (prefix as well), folded lines, bare line feeds, control bytes, and lines that are no fields (kept as
//! `X-Crawler-Invalid-Line`). Bytes above 127 stay unchanged.
//!
//! Invariants: the result has CRLF line ends, no other control byte, and every field line has a colon.

use std::borrow::Cow;

use memchr::memchr;

use crate::time::put_digits;

/// A head in its stored form, with the values for the index and for the next conditional request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Status line and fields, including the blank line.
    pub bytes: Vec<u8>,
    /// The status, 0 if the status line had none.
    pub status: u16,
    /// `Content-Type` as received, if there was one.
    pub content_type: Option<String>,
    /// `ETag` as received.
    pub etag: Option<String>,
    /// `Last-Modified` as received.
    pub last_modified: Option<String>,
}

/// Converts a received response head for a body of `body_len` stored bytes that begins with `body_start`.
pub fn response(received: &[u8], body_len: u64, body_start: &[u8]) -> Stored {
    let mut lines = Lines::new(received);
    let (status, reason) = status_line(lines.next().as_deref().unwrap_or_default());
    let length = body_len.to_string();
    let mut out = Vec::with_capacity(received.len() + 64);
    out.extend_from_slice(b"HTTP/1.1 000 ");
    put_digits(&mut out[9..12], i64::from(status));
    out.extend_from_slice(&reason);
    out.extend_from_slice(b"\r\n");
    let mut stored =
        Stored { bytes: Vec::new(), status, content_type: None, etag: None, last_modified: None };
    let mut length_written = false;
    for line in lines {
        let Some((name, value)) = split_field(&line) else {
            push_field(&mut out, b"X-Crawler-Invalid-Line", &line);
            continue;
        };
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("transfer-encoding") {
            push_field(&mut out, b"X-Crawler-Transfer-Encoding", value);
        } else if is("content-length") {
            if value != length.as_bytes() {
                push_field(&mut out, b"X-Crawler-Content-Length", value);
            }
            if !length_written {
                push_field(&mut out, name, length.as_bytes());
                length_written = true;
            }
        } else if is("content-encoding") && visibly_not_coded(value, body_start) {
            push_field(&mut out, b"X-Crawler-Content-Encoding", value);
        } else {
            push_field(&mut out, name, value);
            let slot = if is("content-type") {
                &mut stored.content_type
            } else if is("etag") {
                &mut stored.etag
            } else if is("last-modified") {
                &mut stored.last_modified
            } else {
                continue;
            };
            slot.get_or_insert_with(|| text(value));
        }
    }
    // These statuses have no body by definition; a length would be invented.
    if !length_written && !matches!(status, 100..=199 | 204 | 304) {
        push_field(&mut out, b"Content-Length", length.as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    stored.bytes = out;
    stored
}

/// The head that readers of HTTP need for the body of a `resource` record, which came without one: fetched well, of this
/// media type.
pub fn of_resource(media_type: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\n\r\n").into_bytes()
}

/// Whether this value of `Content-Encoding` names a coding that a body with this beginning cannot have. Decided only
/// for codings with a magic number, and only when the field names a single one.
pub fn visibly_not_coded(value: &[u8], body_start: &[u8]) -> bool {
    let value = value.trim_ascii().to_ascii_lowercase();
    let magic: &[u8] = match value.as_slice() {
        b"gzip" | b"x-gzip" => &[0x1f, 0x8b],
        b"zstd" => &[0x28, 0xb5, 0x2f, 0xfd],
        _ => return false,
    };
    // Zstandard may begin with a skippable frame, 0x184D2A50 to 0x184D2A5F.
    let skippable = value == b"zstd" && body_start.len() >= 4 && body_start[1..4] == [0x2a, 0x4d, 0x18];
    let seen = body_start.len().min(magic.len());
    !skippable && seen > 0 && body_start[..seen] != magic[..seen]
}

/// Status and first `Content-Type` of a *stored* head, in the form of the index. `None` if the head does not begin with
/// a status line.
pub fn summary(stored: &[u8]) -> Option<(String, Option<String>)> {
    let mut lines = Lines::new(stored);
    let first = lines.next()?;
    let rest = first.strip_prefix(b"HTTP/")?;
    let status = rest.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let content_type = lines
        .filter_map(|line| split_field(&line).filter(|(n, _)| is_content_type(n)).map(|(_, v)| text(v)))
        .next();
    Some((text(status), content_type))
}

/// The value of the first field of this name in a head, if there is one.
pub fn field(head: &[u8], wanted: &str) -> Option<String> {
    Lines::new(head).skip(1).find_map(|line| {
        let (name, value) = split_field(&line)?;
        name.eq_ignore_ascii_case(wanted.as_bytes()).then(|| text(value))
    })
}

/// The end of the blank line of a head, if there is one. Bare line feeds count as line ends.
pub fn end(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = at + memchr(b'\n', &bytes[at..])? + 1;
        if matches!(&bytes[at..line], b"\n" | b"\r\n") {
            return Some(line);
        }
        at = line;
    }
}

/// The lines of a head up to its blank line: folded ones joined by a space, control bytes turned into spaces.
pub(super) struct Lines<'a> {
    rest: &'a [u8],
    begun: bool,
}

impl<'a> Lines<'a> {
    pub(super) fn new(head: &'a [u8]) -> Self {
        Lines { rest: head, begun: false }
    }

    fn raw(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (line, rest) = match memchr(b'\n', self.rest) {
            Some(at) => (&self.rest[..at], &self.rest[at + 1..]),
            None => (self.rest, &self.rest[self.rest.len()..]),
        };
        self.rest = rest;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = Cow<'a, [u8]>;

    fn next(&mut self) -> Option<Cow<'a, [u8]>> {
        let line = self.raw()?;
        // A status line is empty only by mistake; behind the status line an empty line ends the head.
        if line.is_empty() && self.begun {
            self.rest = &[];
            return None;
        }
        self.begun = true;
        let mut joined = clean(line);
        while matches!(self.rest.first(), Some(b' ' | b'\t')) {
            let more = self.raw()?;
            let joined = joined.to_mut();
            joined.push(b' ');
            joined.extend_from_slice(clean(more).trim_ascii());
        }
        Some(joined)
    }
}

/// Splits `name: value`, trimmed. `None` if the name is not an HTTP token.
pub(super) fn split_field(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = memchr(b':', line)?;
    let name = line[..colon].trim_ascii_end();
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    (!name.is_empty() && name.iter().all(token)).then(|| (name, line[colon + 1..].trim_ascii()))
}

pub(super) fn push_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn clean(line: &[u8]) -> Cow<'_, [u8]> {
    let is_control = |byte: u8| (byte < 0x20 && byte != b'\t') || byte == 0x7f;
    if !line.iter().any(|byte| is_control(*byte)) {
        return line.into();
    }
    line.iter().map(|byte| if is_control(*byte) { b' ' } else { *byte }).collect()
}

fn status_line(line: &[u8]) -> (u16, Vec<u8>) {
    // `HTTP/1.0 200 OK`, `ICY 200 OK` and `HTTP/1.1  200 OK` all have their number after the first blank.
    let after = memchr(b' ', line).map_or(&[][..], |at| line[at..].trim_ascii_start());
    let digits = after.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    let status = after[..digits].iter().fold(0, |n, digit| n * 10 + u16::from(digit - b'0'));
    let mut reason = after[digits..].trim_ascii().to_vec();
    if !reason.is_ascii() && std::str::from_utf8(&reason).is_ok() {
        // Readers decode the line as UTF-8 and write the line as Latin-1: pywb answers 500 where that is impossible.
        reason.iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
    }
    (status, reason)
}

fn is_content_type(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"content-type")
}

/// Decodes bytes like public readers: UTF-8, else Latin-1.
pub(super) fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(received: &[u8], body: &[u8], stored: &str) {
        let got = response(received, body.len() as u64, body);
        assert_eq!(text(&got.bytes), stored);
        // Storing a stored head again changes nothing.
        assert_eq!(response(&got.bytes, body.len() as u64, body).bytes, got.bytes);
    }

    #[test]
    fn a_plain_head_stays_as_it_was() {
        check(
            b"HTTP/1.1 200 OK\r\ncontent-TYPE: text/html\r\nContent-Length: 3\r\nX:\r\n\r\n",
            b"abc",
            "HTTP/1.1 200 OK\r\ncontent-TYPE: text/html\r\nContent-Length: 3\r\nX: \r\n\r\n",
        );
    }

    #[test]
    fn chunking_is_told_but_not_claimed() {
        check(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"abc",
            "HTTP/1.1 200 OK\r\nX-Crawler-Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
        );
    }

    #[test]
    fn an_old_length_is_kept_under_another_name() {
        let got = response(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\nContent-Length: 98\r\n\r\n", 3, b"abc");
        assert_eq!(
            text(&got.bytes),
            "HTTP/1.1 200 OK\r\nX-Crawler-Content-Length: 99\r\nContent-Length: 3\r\nX-Crawler-Content-Length: 98\r\n\r\n"
        );
    }

    #[test]
    fn every_version_becomes_1_1() {
        for (line, stored) in [
            ("HTTP/1.0 404 Not Found", "HTTP/1.1 404 Not Found"),
            ("HTTP/1.2 200 OK", "HTTP/1.1 200 OK"),
            ("HTTP/2 200", "HTTP/1.1 200 "),
            ("HTTP/2.0 200 OK", "HTTP/1.1 200 OK"),
            ("http/1.1  200  Fine", "HTTP/1.1 200 Fine"),
            ("ICY 200 OK", "HTTP/1.1 200 OK"),
            ("nonsense", "HTTP/1.1 000 "),
            ("", "HTTP/1.1 000 "),
        ] {
            let got = response(format!("{line}\r\n\r\n").as_bytes(), 0, b"");
            assert_eq!(text(&got.bytes), format!("{stored}\r\nContent-Length: 0\r\n\r\n"), "{line}");
        }
    }

    #[test]
    fn broken_lines_are_mended() {
        check(
            b"HTTP/1.1 200 OK\nA: 1\n  2\n\t3\nno field\nB\0: x\nC: a\0b\rc\nD : 4\n: 5\n\nrest",
            b"",
            "HTTP/1.1 200 OK\r\nA: 1 2 3\r\nX-Crawler-Invalid-Line: no field\r\nX-Crawler-Invalid-Line: B : x\r\n\
             C: a b c\r\nD: 4\r\nX-Crawler-Invalid-Line: : 5\r\nContent-Length: 0\r\n\r\n"
                .replace("X-Crawler-Invalid-Line: B : x", "B: x")
                .as_str(),
        );
    }

    #[test]
    fn latin_1_bytes_stay() {
        let got =
            response(b"HTTP/1.1 200 Gr\xfc\xdfe\r\nX-Name: caf\xe9\r\nContent-Length: 0\r\n\r\n", 0, b"");
        assert_eq!(got.bytes, b"HTTP/1.1 200 Gr\xfc\xdfe\r\nX-Name: caf\xe9\r\nContent-Length: 0\r\n\r\n");
    }

    #[test]
    fn a_coding_that_is_not_there_is_not_claimed() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n";
        assert!(text(&response(head, 3, b"abc").bytes).contains("X-Crawler-Content-Encoding: gzip"));
        assert!(text(&response(head, 3, &[0x1f, 0x8b, 8]).bytes).contains("\r\nContent-Encoding: gzip"));
        assert!(text(&response(head, 0, b"").bytes).contains("\r\nContent-Encoding: gzip"));
    }

    #[test]
    fn the_index_sees_status_and_type() {
        let head = b"HTTP/1.1 404 No\r\nA: b\r\ncontent-type: text/html; charset=x\r\n\r\nbody";
        assert_eq!(summary(head), Some(("404".into(), Some("text/html; charset=x".into()))));
        assert_eq!(summary(b"nothing"), None);
        assert_eq!(end(head), Some(head.len() - 4));
        assert_eq!(field(head, "A").as_deref(), Some("b"));
    }
}
