//! A capture in JSON: its line of the index, its header fields, its WARC fields.

use nephila_core::store::cdxj;
use nephila_store::captures::Capture;
use serde::Serialize;

/// A capture without its body.
#[derive(Serialize)]
pub struct About<'a> {
    #[serde(flatten)]
    listed: Listed<'a>,
    body_bytes: u64,
    /// The object that holds the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    media: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Listed<'a>>,
    headers: Vec<(String, String)>,
    warc: &'a [(String, String)],
}

impl<'a> About<'a> {
    /// Describes a capture by its line of the index, its HTTP header fields and its WARC fields.
    pub fn of(line: &'a cdxj::Line, capture: &'a Capture) -> About<'a> {
        let text = String::from_utf8_lossy(&capture.http).into_owned();
        let field = |line: &str| {
            line.split_once(':').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        };
        About {
            listed: Listed::of(line),
            body_bytes: capture.media.map_or(capture.body.len() as u64, |media| media.bytes),
            media: capture.media.map(|media| media.key()),
            origin: capture.origin.as_ref().map(Listed::of),
            headers: text.lines().skip(1).filter_map(field).collect(),
            warc: &capture.header.fields,
        }
    }
}

/// A line of the index as CDX servers print one in JSON.
#[derive(Serialize)]
pub struct Listed<'a> {
    urlkey: &'a str,
    timestamp: &'a str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<&'a str>,
    length: String,
    offset: String,
    filename: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<&'a str>,
}

impl<'a> Listed<'a> {
    /// Borrows the fields of a line of the index.
    pub fn of(line: &'a cdxj::Line) -> Listed<'a> {
        let capture = &line.capture;
        Listed {
            urlkey: &line.key,
            timestamp: &capture.digits14,
            url: &capture.url,
            mime: capture.mime.as_deref(),
            status: capture.status.as_deref(),
            digest: capture.digest.as_deref(),
            length: line.length.to_string(),
            offset: line.offset.to_string(),
            filename: &line.filename,
            truncated: capture.truncated.as_deref(),
        }
    }
}
