//! From an exchange to compressed records: digests, the choice between response and revisit, compression.
//!
//! This is most of the archive's work, so it runs on threads of its own, each with its own compressor and buffers. A
//! body too large for memory is only digested here; the writer compresses the body while writing.

use std::io::{self, Read, Write};
use std::sync::{Mutex, PoisonError};

use nephila_core::handler::sniff::{SNIFF_BYTES_MAX, sniff};
use nephila_core::store::cdxj;
use nephila_core::store::record::{self, Kind};
use nephila_core::store::{Digest, Exchange, Payload, Truncation, head, redact};
use nephila_core::time::Timestamp;

use super::digests;
use super::id::new_id;
use super::memory::{Memory, Remembered, Validators};
use super::pack::{LongMember, Packer};
use super::settings::{Compression, Dedup, Settings};

/// Larger bodies are streamed instead of held in memory.
pub(super) const HELD_BYTES_MAX: u64 = 4 * 1024 * 1024;
const PIECE_BYTES: usize = 64 * 1024;

/// Records of one exchange, ready to be written.
#[derive(Debug)]
pub(super) struct Ready {
    /// To be compressed by the writer, before `bytes`.
    pub(super) large: Option<Large>,
    /// Compressed records: the response first (unless `large`), then request and metadata.
    pub(super) bytes: Vec<u8>,
    /// Compressed length of the response within `bytes`.
    pub(super) answer_len: u64,
    /// The date of the records.
    pub(super) date: Timestamp,
    /// Beginning of the index line; `None` if the record is no capture.
    pub(super) line: Option<String>,
    pub(super) truncated: Option<&'static str>,
    pub(super) kind: super::Kind,
    pub(super) payload_digest: Digest,
    pub(super) block_digest: Digest,
    /// `None` if the record is no capture.
    pub(super) remembered: Option<Remembered>,
    /// Total number of records.
    pub(super) records: u64,
}

/// A response that is compressed during the write.
#[derive(Debug)]
pub(super) struct Large {
    /// WARC head and HTTP head.
    pub(super) head: Vec<u8>,
    pub(super) body: Box<dyn Payload>,
}

impl Large {
    /// Writes the record as one member.
    pub(super) fn write(&self, compression: Compression, out: &mut dyn Write) -> io::Result<()> {
        match compression {
            Compression::Gzip { level: 1 } => {
                let mut member = LongMember::new(out)?;
                self.copy(&mut member)?;
                member.finish()
            }
            Compression::Gzip { level } => {
                let level = flate2::Compression::new(u32::from(level.min(9)));
                let mut encoder = flate2::write::GzEncoder::new(out, level);
                self.copy(&mut encoder)?;
                encoder.finish().map(drop)
            }
            Compression::Zstd { level } => {
                let mut encoder = zstd::stream::write::Encoder::new(out, i32::from(level))?;
                encoder.include_checksum(true)?;
                self.copy(&mut encoder)?;
                encoder.finish().map(drop)
            }
            Compression::None => self.copy(out),
        }
    }

    fn copy(&self, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(&self.head)?;
        let mut body = self.body.reader()?.take(self.body.len());
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = self.body.len();
        while left > 0 {
            let n = body.read(&mut piece)?;
            if n == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the body is shorter than it said"));
            }
            out.write_all(&piece[..n])?;
            left -= n as u64;
        }
        out.write_all(record::END)
    }
}

/// Compresses on one thread.
pub(super) struct Worker<'a> {
    settings: &'a Settings,
    memory: &'a Mutex<Memory>,
    packer: Packer,
    /// A body read from a file.
    body: Vec<u8>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(settings: &'a Settings, memory: &'a Mutex<Memory>) -> io::Result<Self> {
        Ok(Worker { settings, memory, packer: Packer::new(settings.compression)?, body: Vec::new() })
    }

    /// Builds the records of an exchange. Fails only if the body cannot be read.
    pub(super) fn work(&mut self, mut exchange: Exchange) -> io::Result<Ready> {
        if exchange.is_redundant() {
            return self.words(&exchange);
        }
        let len = exchange.body.len();
        let is_large = len > HELD_BYTES_MAX;
        // Taken out so that the exchange can be read at the same time.
        let body = std::mem::replace(&mut exchange.body, Box::new(bytes::Bytes::new()));
        let mut spare = std::mem::take(&mut self.body);
        let held: Option<&[u8]> = if is_large {
            None
        } else if let Some(bytes) = body.in_memory() {
            Some(bytes)
        } else {
            spare.clear();
            body.reader()?.take(len).read_to_end(&mut spare)?;
            if spare.len() as u64 != len {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the body is shorter than it said"));
            }
            Some(&spare)
        };
        let mut read = Vec::new();
        let start = match held {
            Some(bytes) => &bytes[..bytes.len().min(SNIFF_BYTES_MAX)],
            None => {
                body.reader()?.take(SNIFF_BYTES_MAX as u64).read_to_end(&mut read)?;
                &read
            }
        };
        let http = match exchange.response_head.is_empty() {
            true => head::Stored { content_type: Some(media_type(start)), ..head::Stored::default() },
            false => head::response(&exchange.response_head, len, start),
        };
        let (payload, whole_block) = match held {
            Some(bytes) => (digests::of(&[bytes]), None),
            None => {
                let (payload, block) = digests::of_stream(&http.bytes, &*body)?;
                (payload, Some(block))
            }
        };
        let (kind, payload) = self.decide(&exchange, &http, len, payload);
        if let (Kind::Response, Some(media)) = (&kind, exchange.media) {
            exchange.notes.push("media", &media.to_string());
            let http = head::response(&exchange.response_head, 0, start);
            let ready = self.answer(&exchange, &http, &kind, payload, Some(b""), (0, None));
            self.body = spare;
            return ready;
        }
        let mut ready = self.answer(&exchange, &http, &kind, payload, held, (len, whole_block))?;
        if is_large && holds_body(&kind) {
            let large = ready.large.as_mut().expect("made for a large response");
            large.body = body;
        }
        self.body = spare;
        Ok(ready)
    }

    /// The record of a feed whose bytes are not kept. Not a capture: no index lists the record, and no reader is sent
    /// there.
    fn words(&mut self, exchange: &Exchange) -> io::Result<Ready> {
        let (payload, _) = digests::of_stream(b"", &*exchange.body)?;
        let block = record::metadata_block(exchange);
        let block_digest = digests::of(&[&block]);
        let warc = record::words(exchange, &new_id(), &block_digest, block.len() as u64);
        let mut bytes = Vec::with_capacity(block.len() + 512);
        self.packer.pack(&[&warc, &block, record::END], &mut bytes)?;
        Ok(Ready {
            large: None,
            answer_len: bytes.len() as u64,
            bytes,
            date: exchange.started,
            line: None,
            truncated: None,
            kind: super::Kind::Redundant,
            payload_digest: payload,
            block_digest,
            remembered: None,
            records: 1,
        })
    }

    /// Chooses between response and revisit. Only durable payloads are known here: the same payload twice at the same
    /// moment is stored twice, which costs bytes. A reference to a record that may yet fail would cost the page.
    fn decide(&self, exchange: &Exchange, http: &head::Stored, len: u64, payload: Digest) -> (Kind, Digest) {
        let memory = || self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some(media_type)) = (http.bytes.is_empty(), &http.content_type) {
            return (Kind::Resource(media_type.clone()), payload);
        }
        if exchange.truncated.is_some() {
            return (Kind::Response, payload);
        }
        if http.status == 304
            && len == 0
            && let Some((origin, digest)) = memory().not_modified(&record::target_uri(&exchange.url))
        {
            return (Kind::NotModified(origin), digest);
        }
        if self.settings.dedup == Dedup::Payload
            && len >= self.settings.dedup_bytes_min.max(1)
            && let Some(origin) = memory().payload(&payload)
        {
            return (Kind::Revisit(origin), payload);
        }
        (Kind::Response, payload)
    }

    fn answer(
        &mut self,
        exchange: &Exchange,
        http: &head::Stored,
        kind: &Kind,
        payload: Digest,
        held: Option<&[u8]>,
        (len, whole_block): (u64, Option<Digest>),
    ) -> io::Result<Ready> {
        let id = new_id();
        let block: [&[u8]; 2] = match kind {
            Kind::Response | Kind::Resource(_) => [&http.bytes, held.unwrap_or_default()],
            Kind::Revisit(_) => [&http.bytes, b""],
            Kind::NotModified(_) => [b"", b""],
        };
        let streams = holds_body(kind) && held.is_none();
        let block_digest = match whole_block {
            Some(digest) if streams => digest,
            _ => digests::of(&block),
        };
        let body_len = if streams { len } else { block[1].len() as u64 };
        let block_len = block[0].len() as u64 + body_len;
        let warc = record::answer(exchange, kind, &id, Some(&payload), &block_digest, block_len);
        let mut out = Vec::with_capacity(block[1].len() / 2 + 2048);
        let mut records = 1;
        let large = if streams {
            Some(Large { head: [warc.as_slice(), block[0]].concat(), body: Box::new(bytes::Bytes::new()) })
        } else {
            self.packer.pack(&[&warc, block[0], block[1], record::END], &mut out)?;
            None
        };
        let answer_len = out.len() as u64;
        if self.settings.request_records && !exchange.request_head.is_empty() {
            let (open, secret) = (&self.settings.open_headers, &self.settings.secret_headers);
            let block = redact::request(&exchange.request_head, open, secret);
            let digest = digests::of(&[&block]);
            let warc = record::request(exchange, &new_id(), &id, &digest, block.len() as u64);
            self.packer.pack(&[&warc, &block, record::END], &mut out)?;
            records += 1;
        }
        if self.settings.metadata_records {
            let block = record::metadata_block(exchange);
            let digest = digests::of(&[&block]);
            let warc = record::metadata(exchange, &new_id(), &id, &digest, block.len() as u64);
            self.packer.pack(&[&warc, &block, record::END], &mut out)?;
            records += 1;
        }
        // A revisit names the capture with its bytes; the text is stored there, if that capture was extracted.
        if !exchange.text.is_empty() && holds_body(kind) {
            let block = exchange.text.as_bytes();
            let digest = digests::of(&[block]);
            let warc = record::conversion(exchange, &new_id(), &id, &digest, block.len() as u64);
            self.packer.pack(&[&warc, block, record::END], &mut out)?;
            records += 1;
        }
        let (mime, status) = match kind {
            Kind::Response => (http.content_type.as_deref().map(cdxj::mime), Some(status(http))),
            Kind::Resource(media_type) => (Some(cdxj::mime(media_type)), None),
            Kind::Revisit(_) => (Some("warc/revisit".into()), Some(status(http))),
            Kind::NotModified(_) => (Some("warc/revisit".into()), None),
        };
        let url = record::target_uri(&exchange.url);
        let media = exchange.media.filter(|_| *kind == Kind::Response);
        let truncated = media.map_or(exchange.truncated, |_| Some(Truncation::Length));
        let capture = cdxj::Capture {
            url: url.clone(),
            digits14: exchange.started.digits14(),
            mime,
            status,
            digest: Some(payload.to_string()),
            truncated: None,
            media: media.map(|media| media.hex()),
        };
        let whole = exchange.truncated.is_none();
        Ok(Ready {
            large,
            bytes: out,
            answer_len,
            date: exchange.started,
            line: Some(capture.begin()),
            truncated: truncated.map(|reason| reason.as_str()),
            kind: match kind {
                Kind::Response => super::Kind::Response,
                Kind::Resource(_) => super::Kind::Resource,
                Kind::Revisit(_) => super::Kind::Revisit,
                Kind::NotModified(_) => super::Kind::NotModified,
            },
            payload_digest: payload,
            block_digest,
            remembered: Some(Remembered {
                url,
                digits14: capture.digits14.parse().unwrap_or_default(),
                digest: payload,
                holds_payload: whole && *kind == Kind::Response,
                is_good: whole && (http.status == 200 || http.bytes.is_empty()),
                is_revisit: !holds_body(kind),
                validators: Validators { etag: http.etag.clone(), last_modified: http.last_modified.clone() },
            }),
            records,
        })
    }
}

/// Whether the record of this kind has the body.
fn holds_body(kind: &Kind) -> bool {
    matches!(kind, Kind::Response | Kind::Resource(_))
}

/// The media type of a body without a head, by its first bytes.
fn media_type(start: &[u8]) -> String {
    sniff([], start).media_type(start).unwrap_or_else(|| "application/octet-stream".into())
}

fn status(http: &head::Stored) -> String {
    format!("{:03}", http.status)
}
