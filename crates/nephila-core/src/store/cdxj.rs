//! Lines of a CDXJ index: `key time {json}`.
//!
//! A line is the same whether made while writing or from the finished WARC file, so an index can be rebuilt byte for
//! byte. The JSON is formatted like the output of `cdxj-indexer` (ASCII only, a blank after `:` and `,`); two fields are
//! additions: `truncated`, as in Common Crawl, and `media`, the SHA-256 of a body that is in an object store.

use std::fmt::Write as _;

use super::record::clean_uri;

/// The description of a capture in a line, without the position of the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    /// `WARC-Target-URI`.
    pub url: String,
    /// `WARC-Date` as fourteen digits.
    pub digits14: String,
    /// `warc/revisit`, or the media type.
    pub mime: Option<String>,
    /// The HTTP status; a revisit with an empty block has none.
    pub status: Option<String>,
    /// `WARC-Payload-Digest`.
    pub digest: Option<String>,
    /// `WARC-Truncated`.
    pub truncated: Option<String>,
    /// SHA-256 of the body in hexadecimal, if the body is in an object store.
    pub media: Option<String>,
}

/// The media type in a `Content-Type`, cut like in `cdxj-indexer`.
pub fn mime(content_type: &str) -> String {
    content_type.split(|c: char| c == ';' || c.is_whitespace()).next().unwrap_or_default().to_owned()
}

impl Capture {
    /// The line without the position, to be completed by [`finish`].
    pub fn begin(&self) -> String {
        let url = clean_uri(&self.url);
        let mut out = crate::url::surt(&url);
        let _ = write!(out, " {} {{\"url\": ", self.digits14);
        quote(&mut out, &url);
        for (name, value) in
            [("mime", &self.mime), ("status", &self.status), ("digest", &self.digest), ("media", &self.media)]
        {
            if let Some(value) = value {
                let _ = write!(out, ", \"{name}\": ");
                quote(&mut out, value);
            }
        }
        out
    }
}

/// Completes a line with the position of the record.
pub fn finish(mut begun: String, place: &Place<'_>, truncated: Option<&str>) -> String {
    let _ =
        write!(begun, ", \"length\": \"{}\", \"offset\": \"{}\", \"filename\": ", place.length, place.offset);
    quote(&mut begun, place.filename);
    if let Some(truncated) = truncated {
        begun.push_str(", \"truncated\": ");
        quote(&mut begun, truncated);
    }
    begun.push('}');
    begun
}

/// The position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The compressed size in bytes.
    pub length: u64,
    /// The offset of the first byte.
    pub offset: u64,
    /// The file's name, without folder.
    pub filename: &'a str,
}

/// A parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The sort key (SURT).
    pub key: String,
    /// The description of the record.
    pub capture: Capture,
    /// See [`Place`].
    pub length: u64,
    /// See [`Place`].
    pub offset: u64,
    /// See [`Place`].
    pub filename: String,
}

impl Line {
    /// Parses a line; `None` if malformed.
    pub fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim_end_matches(['\r', '\n']).splitn(3, ' ');
        let (key, digits14, json) = (parts.next()?, parts.next()?, parts.next()?);
        if digits14.len() != 14 || !digits14.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let json: serde_json::Value = serde_json::from_str(json).ok()?;
        let get = |name: &str| json.get(name).and_then(|value| value.as_str()).map(str::to_owned);
        Some(Line {
            key: key.to_owned(),
            capture: Capture {
                url: get("url")?,
                digits14: digits14.to_owned(),
                mime: get("mime"),
                status: get("status"),
                digest: get("digest"),
                truncated: get("truncated"),
                media: get("media"),
            },
            length: get("length")?.parse().ok()?,
            offset: get("offset")?.parse().ok()?,
            filename: get("filename")?,
        })
    }
}

fn quote(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' '..='\u{7f}' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_and_read_the_same() {
        let capture = Capture {
            url: "http://site.test/a".into(),
            digits14: "20261114225809".into(),
            mime: Some("text/\"html\u{e9}\u{1f600}".into()),
            status: Some("200".into()),
            digest: Some("sha1:AAAA".into()),
            truncated: Some("time".into()),
            media: None,
        };
        let place = Place { length: 12, offset: 345, filename: "x.warc.gz" };
        let line = finish(capture.begin(), &place, capture.truncated.as_deref());
        assert_eq!(
            line,
            "test,site)/a 20261114225809 {\"url\": \"http://site.test/a\", \"mime\": \
             \"text/\\\"html\\u00e9\\ud83d\\ude00\", \"status\": \"200\", \"digest\": \"sha1:AAAA\", \
             \"length\": \"12\", \"offset\": \"345\", \"filename\": \"x.warc.gz\", \"truncated\": \"time\"}"
        );
        let read = Line::parse(&line).unwrap();
        assert_eq!(read.capture, capture);
        assert_eq!((read.length, read.offset, read.filename.as_str()), (12, 345, "x.warc.gz"));
        for bad in ["", "a b c", "a 20261114225809 {}", "a 2026 {\"url\":\"x\"}"] {
            assert_eq!(Line::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_media_type_ends_at_its_parameters() {
        assert_eq!(mime("text/html; charset=utf-8"), "text/html");
        assert_eq!(mime("text/html charset"), "text/html");
        assert_eq!(mime(""), "");
    }
}
