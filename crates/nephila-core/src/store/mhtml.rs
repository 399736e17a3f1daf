//! MHTML (RFC 2557): a page and its resources as the parts of one file, which browsers open.
//!
//! The bytes begin with the header fields of the file. In an answer with the content type of [`content_type`] these
//! lines are the preamble of the multipart body, which readers skip (RFC 2046, 5.1.1); so the same bytes are a body and
//! a file.
//!
//! Invariants: bodies are in base64, which has no hyphen, and a header line begins with the name of its field, so that
//! no line of a part is the boundary; no value contains a line end; no part has parts of its own.

use data_encoding::BASE64_MIME;

/// The line between two parts begins with two hyphens and this.
pub const BOUNDARY: &str = "nephila-page";
/// Media type of bytes without a usable label.
const OCTETS: &str = "application/octet-stream";
/// Maximum length of a content type in bytes.
const CONTENT_TYPE_BYTES_MAX: usize = 200;
/// Maximum length of another value in bytes. A URL has at most 8 KiB.
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// A file in the making: the page first, then its resources.
#[derive(Debug)]
pub struct Mhtml {
    out: Vec<u8>,
}

/// One part.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// URL by which the page names the part.
    pub url: &'a str,
    /// Content type as the server sent it; any bytes.
    pub content_type: &'a str,
    /// Further fields: name and value.
    pub fields: &'a [(&'static str, String)],
    /// The body, without content codings.
    pub body: &'a [u8],
}

/// The content type of a file whose page has this content type.
pub fn content_type(page: &str) -> String {
    let page = safe_type(page);
    let essence = page.split(';').next().unwrap_or_default().trim();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"/+-._".contains(&byte);
    let essence = if essence.bytes().all(is_token) { essence } else { OCTETS };
    format!("multipart/related; type=\"{essence}\"; boundary=\"{BOUNDARY}\"")
}

impl Mhtml {
    /// Begins the file of a page: its URL, its content type, and the date of its capture in the form of HTTP.
    pub fn new(url: &str, page_type: &str, date: &str) -> Mhtml {
        let mut mhtml = Mhtml { out: Vec::new() };
        mhtml.field("From", "<Saved by Nephila>");
        mhtml.field("Snapshot-Content-Location", url);
        if !date.is_empty() {
            mhtml.field("Date", date);
        }
        mhtml.field("MIME-Version", "1.0");
        mhtml.field("Content-Type", &content_type(page_type));
        mhtml.out.extend_from_slice(b"\r\n");
        mhtml
    }

    /// Adds a part.
    pub fn put(&mut self, part: &Part<'_>) {
        self.out.extend_from_slice(format!("--{BOUNDARY}\r\n").as_bytes());
        self.field("Content-Type", safe_type(part.content_type));
        self.field("Content-Transfer-Encoding", "base64");
        self.field("Content-Location", part.url);
        for (name, value) in part.fields {
            self.field(name, value);
        }
        self.out.extend_from_slice(b"\r\n");
        // Ends with a line end, unless the body is empty.
        self.out.extend_from_slice(BASE64_MIME.encode(part.body).as_bytes());
        if part.body.is_empty() {
            self.out.extend_from_slice(b"\r\n");
        }
    }

    /// The whole file.
    pub fn end(mut self) -> Vec<u8> {
        self.out.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        self.out
    }

    /// Writes a field on one line: anything but visible ASCII and spaces becomes a question mark.
    fn field(&mut self, name: &str, value: &str) {
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b": ");
        let visible = |byte: u8| if matches!(byte, b' '..=b'~') { byte } else { b'?' };
        self.out.extend(value.bytes().take(VALUE_BYTES_MAX).map(visible));
        self.out.extend_from_slice(b"\r\n");
    }
}

/// A content type that changes nothing about the structure of the file, else the one of any bytes.
fn safe_type(value: &str) -> &str {
    let value = value.trim();
    let is_plain =
        value.len() <= CONTENT_TYPE_BYTES_MAX && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let has_prefix = |prefix: &str| {
        value
            .as_bytes()
            .get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()))
    };
    // A reader would look for parts inside.
    let is_composite = has_prefix("multipart/") || has_prefix("message/");
    if is_plain && value.contains('/') && !is_composite { value } else { OCTETS }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(parts: &[Part<'_>]) -> String {
        let mut mhtml = Mhtml::new("http://a.test/", "text/html; charset=utf-8", "");
        parts.iter().for_each(|part| mhtml.put(part));
        String::from_utf8(mhtml.end()).unwrap()
    }

    #[test]
    fn a_file_is_as_the_rfc_has_it() {
        let fields = [("Nephila-Status", "200".to_owned())];
        let page = Part { url: "http://a.test/", content_type: "text/html", fields: &fields, body: b"<p>hi" };
        let empty = Part { url: "http://a.test/x", content_type: "", fields: &[], body: b"" };
        assert_eq!(
            file(&[page, empty]),
            "From: <Saved by Nephila>\r\nSnapshot-Content-Location: http://a.test/\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/related; type=\"text/html\"; boundary=\"nephila-page\"\r\n\r\n\
             --nephila-page\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\
             Content-Location: http://a.test/\r\nNephila-Status: 200\r\n\r\nPHA+aGk=\r\n\
             --nephila-page\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\
             Content-Location: http://a.test/x\r\n\r\n\r\n--nephila-page--\r\n"
        );
    }

    #[test]
    fn foreign_bytes_never_end_a_part_and_never_add_a_field() {
        let bodies: [&[u8]; 3] =
            [b"\r\n--nephila-page--\r\n", b"--nephila-page\r\nX: y\r\n\r\n", &[0xff; 3_000]];
        for body in bodies {
            for value in [
                "text/html\r\nX-Bad: 1",
                "multipart/related; boundary=x",
                "Message/rfc822",
                "\n--nephila-page--",
                "text/\u{0}html",
                "none",
                &"a/".repeat(200),
            ] {
                let fields = [("Nephila-Url", value.to_owned())];
                let text = file(&[Part { url: value, content_type: value, fields: &fields, body }]);
                let boundaries = text.lines().filter(|line| line.starts_with("--")).count();
                assert_eq!(boundaries, 2, "{text}");
                assert!(!text.lines().any(|line| line.starts_with("X")), "{text}");
                assert!(text.contains("\r\nContent-Type: application/octet-stream\r\n"), "{text}");
                assert!(content_type(value).contains("type=\"application/octet-stream\""), "{value}");
            }
        }
    }
}
