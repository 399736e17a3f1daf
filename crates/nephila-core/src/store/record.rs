//! The heads of WARC 1.1 records: the fields and their order.
//!
//! A record is its head, its block and two line ends ([`END`]). The caller provides the block's length and digest, so
//! this module needs no bytes of the body. Invariant: no value brings a line end or another control byte into a head,
//! whatever a server or a URL contained.

use std::borrow::Cow;
use std::io::Write as _;
use std::net::IpAddr;

use super::{Digest, Exchange, Truncation, media, redact};
use crate::time::{Timestamp, ascii, dashed, put_digits};

/// The end of every record.
pub const END: &[u8] = b"\r\n\r\n";
/// The first line of every record.
pub const VERSION: &str = "WARC/1.1";
/// Capacity of a head, enough for a long URL.
const HEAD_BYTES: usize = 640;
/// Profile of a revisit that found the same payload.
pub const PROFILE_IDENTICAL: &str = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest";
/// Profile of a revisit that was answered with 304.
pub const PROFILE_NOT_MODIFIED: &str = "http://netpreserve.org/warc/1.1/revisit/server-not-modified";

/// Whether a record of this `WARC-Type` is a capture: a page with its body, or a reference to one.
pub fn is_capture(warc_type: &str) -> bool {
    matches!(warc_type, "response" | "resource" | "revisit")
}

/// The record that holds the payload of a revisit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// `WARC-Target-URI` of the record.
    pub url: String,
    /// `WARC-Date` as fourteen digits, the form of the index.
    pub digits14: u64,
}

impl Origin {
    /// The date in WARC format.
    pub fn warc_date(&self) -> String {
        ascii(&self.warc_date_bytes())
    }

    fn warc_date_bytes(&self) -> [u8; 20] {
        let mut digits = [0; 14];
        put_digits(&mut digits, i64::try_from(self.digits14).unwrap_or_default());
        dashed(&digits)
    }
}

/// The kind of record for an exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Head and body.
    Response,
    /// The body alone, of this media type: the exchange has no head.
    Resource(String),
    /// The head only: the payload is already stored.
    Revisit(Origin),
    /// An empty block: the server says that the stored copy is current. Empty because pywb replays a stored
    /// `HTTP/1.1 304` as a blank page.
    NotModified(Origin),
}

/// The head of the record with the response.
pub fn answer(
    exchange: &Exchange,
    kind: &Kind,
    id: &str,
    payload: Option<&Digest>,
    block: &Digest,
    block_len: u64,
) -> Vec<u8> {
    let (name, origin) = match kind {
        Kind::Response => ("response", None),
        Kind::Resource(_) => ("resource", None),
        Kind::Revisit(origin) => ("revisit", Some((PROFILE_IDENTICAL, origin))),
        Kind::NotModified(origin) => ("revisit", Some((PROFILE_NOT_MODIFIED, origin))),
    };
    let mut head = Head::new(name, id, exchange.started);
    head.target(&exchange.url, exchange.address);
    exchange.protocols.iter().for_each(|protocol| head.field("WARC-Protocol", protocol));
    if let Some((profile, origin)) = origin {
        head.field("WARC-Profile", profile);
        head.field("WARC-Refers-To-Target-URI", clean_uri(&origin.url).as_bytes());
        head.field("WARC-Refers-To-Date", origin.warc_date_bytes());
    }
    if let Some(digest) = payload {
        head.field("WARC-Payload-Digest", digest.letters());
    }
    head.field("WARC-Block-Digest", block.letters());
    let media = exchange.media.filter(|_| *kind == Kind::Response);
    let truncated = media.map_or(exchange.truncated, |_| Some(Truncation::Length));
    if let (Kind::Response | Kind::Resource(_), Some(truncated)) = (kind, truncated) {
        head.field("WARC-Truncated", truncated.as_str());
    }
    if let Some(media) = media {
        head.field(media::FIELD, media.to_string());
    }
    let content_type = match kind {
        Kind::Resource(media_type) => media_type,
        _ => "application/http;msgtype=response",
    };
    head.finish(content_type, block_len)
}

/// The head of the record with the request; `answer_id` is the record of the response.
pub fn request(exchange: &Exchange, id: &str, answer_id: &str, block: &Digest, block_len: u64) -> Vec<u8> {
    beside(exchange, "request", id, answer_id, block).finish("application/http;msgtype=request", block_len)
}

/// The head of the record with metadata; its block comes from [`metadata_block`].
pub fn metadata(exchange: &Exchange, id: &str, answer_id: &str, block: &Digest, block_len: u64) -> Vec<u8> {
    beside(exchange, "metadata", id, answer_id, block).finish("application/warc-fields", block_len)
}

/// The head of the record that replaces a response whose bytes are not kept: the block is the whole content.
pub fn words(exchange: &Exchange, id: &str, block: &Digest, block_len: u64) -> Vec<u8> {
    let mut head = Head::new("metadata", id, exchange.started);
    head.target(&exchange.url, exchange.address);
    head.field("WARC-Block-Digest", block.letters());
    head.finish("application/warc-fields", block_len)
}

/// The head of the record with the text of a page; `answer_id` is the record of the page.
pub fn conversion(exchange: &Exchange, id: &str, answer_id: &str, block: &Digest, block_len: u64) -> Vec<u8> {
    let mut head = Head::new("conversion", id, exchange.started);
    head.target(&exchange.url, None);
    head.reference("WARC-Refers-To", answer_id);
    head.field("WARC-Block-Digest", block.letters());
    head.finish("text/plain;charset=utf-8", block_len)
}

/// The head of a record that is derived from a capture afterwards. `of` is the id of the capture's record.
pub fn derived(
    kind: &str,
    content_type: &str,
    (url, of): (&str, &str),
    id: &str,
    date: Timestamp,
    (block, block_len): (&Digest, u64),
) -> Vec<u8> {
    let mut head = Head::new(kind, id, date);
    head.target(url, None);
    head.reference("WARC-Refers-To", of.trim_matches(['<', '>']));
    head.field("WARC-Block-Digest", block.letters());
    head.finish(content_type, block_len)
}

/// The lines of a metadata record.
pub fn metadata_block(exchange: &Exchange) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    push(&mut out, "fetchTimeMs", exchange.elapsed_ms.to_string().as_bytes());
    for (name, value) in exchange.notes.iter() {
        push(&mut out, name, &redact::without_userinfo(value.as_bytes()));
    }
    out
}

/// The head of a file's first record.
pub fn warcinfo(id: &str, now: Timestamp, filename: &str, block: &Digest, block_len: u64) -> Vec<u8> {
    let mut head = Head::new("warcinfo", id, now);
    head.field("WARC-Filename", filename);
    head.field("WARC-Block-Digest", block.letters());
    head.finish("application/warc-fields", block_len)
}

/// The description of a crawl in a file of this crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarcInfo {
    /// Name and version of the program.
    pub software: String,
    /// The `User-Agent` of every request.
    pub user_agent: String,
    /// `obey` or `ignore`.
    pub robots: String,
    /// The operator of the crawl, and a contact.
    pub operator: String,
    /// The crawl's name.
    pub is_part_of: String,
    /// Digest of the effective settings, so that a file can be matched with its settings.
    pub settings_digest: String,
}

impl WarcInfo {
    /// The block of a warcinfo record. Empty values are left out.
    pub fn block(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in [
            ("software", self.software.as_str()),
            ("format", "WARC File Format 1.1"),
            ("conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"),
            ("robots", &self.robots),
            ("http-header-user-agent", &self.user_agent),
            ("operator", &self.operator),
            ("isPartOf", &self.is_part_of),
            ("settingsDigest", &self.settings_digest),
        ] {
            if !value.is_empty() {
                push(&mut out, name, value.as_bytes());
            }
        }
        out
    }
}

/// A URL in the form for records: no user information, nothing outside printable ASCII, no angle brackets.
pub fn target_uri(url: &str) -> String {
    clean_uri(url).into_owned()
}

/// [`target_uri`], without a copy of a URL that is in this form already, as almost all are.
pub(super) fn clean_uri(url: &str) -> Cow<'_, str> {
    let clean = |byte: u8| matches!(byte, 0x21..=0x7e) && byte != b'<' && byte != b'>';
    if url.bytes().all(clean) && !url.contains('@') {
        return url.into();
    }
    let mut out = String::with_capacity(url.len());
    for &byte in redact::without_userinfo(url.as_bytes()).iter() {
        if clean(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out.into()
}

fn beside(exchange: &Exchange, kind: &str, id: &str, answer_id: &str, block: &Digest) -> Head {
    let mut head = Head::new(kind, id, exchange.started);
    head.target(&exchange.url, None);
    head.reference("WARC-Concurrent-To", answer_id);
    head.field("WARC-Block-Digest", block.letters());
    head
}

fn push(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    push_clean(out, value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a value, with a blank for each control byte.
fn push_clean(out: &mut Vec<u8>, value: &[u8]) {
    let begin = out.len();
    out.extend_from_slice(value);
    for byte in &mut out[begin..] {
        if *byte < 0x20 || *byte == 0x7f {
            *byte = b' ';
        }
    }
}

/// A head that grows field by field, in one buffer.
struct Head(Vec<u8>);

impl Head {
    fn new(kind: &str, id: &str, date: Timestamp) -> Self {
        let mut head = Head(Vec::with_capacity(HEAD_BYTES));
        head.0.extend_from_slice(VERSION.as_bytes());
        head.0.extend_from_slice(b"\r\n");
        head.field("WARC-Type", kind);
        head.reference("WARC-Record-ID", id);
        head.field("WARC-Date", date.warc_date_bytes());
        head
    }

    fn field(&mut self, name: &str, value: impl AsRef<[u8]>) {
        push(&mut self.0, name, value.as_ref());
    }

    /// The id of a record, in angle brackets.
    fn reference(&mut self, name: &str, id: &str) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": <");
        push_clean(&mut self.0, id.as_bytes());
        self.0.extend_from_slice(b">\r\n");
    }

    /// The URL, and the address that was dialled. `::ffff:1.2.3.4` is IPv4 to every reader.
    fn target(&mut self, url: &str, address: Option<IpAddr>) {
        self.field("WARC-Target-URI", clean_uri(url).as_bytes());
        if let Some(address) = address {
            write!(self.0, "WARC-IP-Address: {}\r\n", address.to_canonical()).expect("memory takes all");
        }
    }

    fn finish(mut self, content_type: &str, block_len: u64) -> Vec<u8> {
        self.field("Content-Type", content_type);
        self.field("Content-Length", block_len.to_string());
        self.0.extend_from_slice(b"\r\n");
        self.0
    }
}

#[cfg(test)]
mod tests;
