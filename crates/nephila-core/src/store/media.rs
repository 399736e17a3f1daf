//! Bodies in an object store: large images, audio and video, which the archive names instead of holding (SEEDS E11).
//!
//! A body is one object, named after its bytes: `media/SHA-256`. The bytes are those that the archive would hold: transfer
//! coding removed, content coding kept. The record of the capture has the head alone, the digest of the whole body,
//! `WARC-Truncated: length` and the field [`FIELD`]; the metadata record has the same words in a line `media`.

use std::fmt;

use super::{Exchange, head};

/// Field of a record whose body is an object: name and length of the object.
pub const FIELD: &str = "Nephila-Media";
/// Folder of the objects.
const FOLDER: &str = "media";

/// An object that holds a body. Written as `media/SHA-256 LENGTH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Media {
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
    /// Length of the body in bytes.
    pub bytes: u64,
}

impl Media {
    /// The digest in hexadecimal.
    pub fn hex(&self) -> String {
        self.sha256.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The name of the object.
    pub fn key(&self) -> String {
        format!("{FOLDER}/{}", self.hex())
    }

    /// Reads the value of [`FIELD`].
    pub fn parse(text: &str) -> Option<Media> {
        let (key, bytes) = text.split_once(' ')?;
        let hex = key.strip_prefix(FOLDER)?.strip_prefix('/')?;
        let is_lower = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if hex.len() != 64 || !hex.bytes().all(is_lower) || !bytes.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let mut sha256 = [0; 32];
        for (byte, at) in sha256.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
        }
        Some(Media { sha256, bytes: bytes.parse().ok()? })
    }
}

impl fmt::Display for Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key(), self.bytes)
    }
}

/// Which bodies go to the object store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// Media types in lower case; `image/*` means all images.
    pub types: Vec<String>,
    /// Minimum size in bytes.
    pub bytes_min: u64,
}

impl Rule {
    /// Whether the body of this exchange goes to the object store. An incomplete body and one without a head do not.
    pub fn wants(&self, exchange: &Exchange) -> bool {
        if exchange.truncated.is_some() || exchange.body.len() < self.bytes_min.max(1) {
            return false;
        }
        head::field(&exchange.response_head, "content-type").is_some_and(|label| self.names(&label))
    }

    fn names(&self, content_type: &str) -> bool {
        let label = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.types.iter().any(|wanted| match wanted.strip_suffix('*') {
            Some(start) => start.ends_with('/') && label.starts_with(start),
            None => *wanted == label,
        })
    }
}

/// Whether this text is a media type, or all types of a kind such as `image/*`.
pub fn is_type(text: &str) -> bool {
    let token = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    text.split_once('/').is_some_and(|(kind, of)| token(kind) && (of == "*" || token(of)))
}

/// The head of a response with the length of its whole body, from the head of a record that has no body.
pub fn whole_head(stored: &[u8], bytes: u64) -> Vec<u8> {
    let length = bytes.to_string();
    let mut out = Vec::with_capacity(stored.len() + length.len());
    for line in stored.split_inclusive(|byte| *byte == b'\n') {
        match head::split_field(line) {
            Some((name, value)) if name.eq_ignore_ascii_case(b"X-Crawler-Content-Length") => {
                // The length that the server said, put aside since the record has no body.
                if value != length.as_bytes() {
                    out.extend_from_slice(line);
                }
            }
            Some((name, _)) if name.eq_ignore_ascii_case(b"Content-Length") => {
                head::push_field(&mut out, name, length.as_bytes());
            }
            _ => out.extend_from_slice(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::Truncation;
    use crate::time::Timestamp;

    fn exchange(head: &'static str, body: &'static [u8]) -> Exchange {
        Exchange {
            url: "http://a.test/".into(),
            started: Timestamp(0),
            elapsed_ms: 0,
            address: None,
            protocols: Vec::new(),
            request_head: Bytes::new(),
            response_head: Bytes::from_static(head.as_bytes()),
            body: Box::new(Bytes::from_static(body)),
            truncated: None,
            notes: Default::default(),
            text: "".into(),
            media: None,
        }
    }

    #[test]
    fn e_11_an_object_is_named_after_its_bytes_and_read_back() {
        let media = Media { sha256: std::array::from_fn(|n| n as u8 * 7), bytes: 300_000 };
        let text = media.to_string();
        assert_eq!(text, format!("media/{} 300000", media.hex()));
        assert_eq!(Media::parse(&text), Some(media));
        for wrong in
            ["", "media/ 3", &text.to_uppercase(), &text.replace('/', "-"), &format!("{text}x"), &text[..70]]
        {
            assert_eq!(Media::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn e_11_type_and_size_decide_and_an_incomplete_body_stays() {
        let rule = Rule { types: vec!["image/*".into(), "application/ogg".into()], bytes_min: 4 };
        let wants = |label: &'static str, body| rule.wants(&exchange(label, body));
        assert!(wants("HTTP/1.1 200 OK\r\nContent-Type: Image/PNG; a=b\r\n\r\n", b"abcd"));
        assert!(wants("HTTP/1.1 200 OK\r\ncontent-type: application/ogg\r\n\r\n", b"abcd"));
        assert!(!wants("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", b"abc"), "too small");
        assert!(!wants("HTTP/1.1 200 OK\r\nContent-Type: imagery/png\r\n\r\n", b"abcd"));
        assert!(!wants("HTTP/1.1 200 OK\r\nContent-Type: application/oggs\r\n\r\n", b"abcd"));
        assert!(!wants("HTTP/1.1 200 OK\r\n\r\n", b"abcd"), "nobody says what it is");
        assert!(!wants("", b"abcd"), "there is no head");
        let cut = exchange("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", b"abcd");
        assert!(rule.wants(&cut) && !rule.wants(&Exchange { truncated: Some(Truncation::Time), ..cut }));
        let none = Rule { bytes_min: 0, ..rule };
        assert!(!none.wants(&exchange("HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", b"")), "no body");
    }

    #[test]
    fn e_11_types_are_told_from_other_texts() {
        assert!(["image/*", "video/mp4", "image/svg+xml"].iter().all(|text| is_type(text)));
        assert!(
            !["", "*", "*/*", "image", "image/", "/png", "image/p*g", "image/png; a"]
                .iter()
                .any(|text| is_type(text))
        );
    }

    #[test]
    fn e_11_the_head_of_a_record_without_body_becomes_the_head_of_the_response_again() {
        let body = b"0123456789";
        for received in [
            "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 10\r\nETag: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n",
        ] {
            let whole = head::response(received.as_bytes(), 10, body).bytes;
            let alone = head::response(received.as_bytes(), 0, body).bytes;
            assert_ne!(alone, whole);
            assert_eq!(whole_head(&alone, 10), whole);
            assert_eq!(whole_head(&whole, 10), whole, "that of a revisit has its length already");
        }
    }
}
