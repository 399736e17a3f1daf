//! Scans a whole file for whole records: the base of recovery and of rebuilt indexes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use nephila_core::store::digest::Hasher;
use nephila_core::store::{Digest, Media, cdxj, head, media};

use super::{Error, Format, Header, HttpHead, Limits, Reader, Record, Visitor};

/// Maximum bytes searched for the next record after damage; more than one commit may have written.
const SEARCH_BYTES_MAX: u64 = 128 * 1024 * 1024;
const PIECE_BYTES: usize = 64 * 1024;

/// Result of a scan.
#[derive(Debug, Default)]
pub struct Scanned {
    /// The whole records, in order.
    pub records: Vec<Whole>,
    /// Length of the file.
    pub file_len: u64,
    /// Compression of the file, unless empty.
    pub format: Option<Format>,
}

/// A whole record: readable to its end, alone in its member, and matching its digest.
#[derive(Debug)]
pub struct Whole {
    /// Offset of the record.
    pub offset: u64,
    /// Length of the record in bytes.
    pub length: u64,
    /// Whether the record is a warcinfo.
    pub is_warcinfo: bool,
    /// Data for the index, if the record belongs there.
    pub capture: Option<cdxj::Capture>,
}

impl Scanned {
    /// Bytes of whole records.
    pub fn good_bytes(&self) -> u64 {
        self.records.iter().map(|record| record.length).sum()
    }

    /// Whether other bytes lie between the records.
    pub fn has_gap(&self) -> bool {
        let mut at = 0;
        self.records.iter().any(|record| {
            let gap = record.offset != at;
            at = record.offset + record.length;
            gap
        })
    }
}

/// Scans a file. Fails only if the file cannot be read at all; damage is part of the result.
pub fn scan(path: &Path) -> io::Result<Scanned> {
    let mut file = File::open(path)?;
    let mut scanned = Scanned { records: Vec::new(), file_len: file.metadata()?.len(), format: None };
    let mut from = 0;
    let mut damage_at = None;
    while from < scanned.file_len {
        file.seek(SeekFrom::Start(from))?;
        let mut reader = Reader::with_limits(&file, from, Limits::default());
        reader.expect(scanned.format);
        let stopped = loop {
            let mut view = View::default();
            let at = reader.offset();
            match reader.read(&mut view) {
                Ok(None) => {
                    scanned.format = reader.format();
                    return Ok(scanned);
                }
                Ok(Some(record)) if view.is_whole(&record) => {
                    damage_at = None;
                    scanned.records.push(view.into_whole(record));
                }
                Ok(Some(_)) | Err(Error::NotWarc { .. } | Error::Torn { .. } | Error::Damaged { .. }) => {
                    break at;
                }
                Err(Error::Io(error)) => return Err(error),
            }
        };
        scanned.format = scanned.format.or(reader.format());
        let begin = *damage_at.get_or_insert(stopped);
        match find_next(&mut file, stopped + 1, begin + SEARCH_BYTES_MAX, scanned.format)? {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(scanned)
}

/// Finds the next possible begin of a record.
pub(crate) fn find_next(
    file: &mut File,
    from: u64,
    until: u64,
    format: Option<Format>,
) -> io::Result<Option<u64>> {
    let magic: &[u8] = match format {
        Some(Format::Gzip) => &[0x1f, 0x8b, 0x08],
        Some(Format::Zstd) => &super::ZSTD_MAGIC,
        Some(Format::Plain) => b"WARC/1.",
        None => return Ok(None),
    };
    file.seek(SeekFrom::Start(from))?;
    let mut window = Vec::new();
    let mut at = from;
    let mut piece = vec![0; PIECE_BYTES];
    while at < until {
        let n = file.read(&mut piece)?;
        if n == 0 {
            break;
        }
        window.extend_from_slice(&piece[..n]);
        if let Some(found) = memchr::memmem::find(&window, magic) {
            return Ok(Some(at + found as u64));
        }
        // A possible beginning at the end is kept.
        let done = window.len().saturating_sub(magic.len() - 1);
        window.drain(..done);
        at += done as u64;
    }
    Ok(None)
}

/// Digests a block and keeps the HTTP head in it.
#[derive(Default)]
struct View {
    hasher: Hasher,
    http: HttpHead,
}

impl Visitor for View {
    fn header(&mut self, header: &Header) {
        self.http.header(header);
    }

    fn block(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.http.block(bytes);
    }
}

impl View {
    fn is_whole(&self, record: &Record) -> bool {
        let digest = record.header.get("WARC-Block-Digest").and_then(Digest::parse);
        record.separator
            && !record.shares_member
            && digest.is_none_or(|digest| digest == self.hasher.clone().finish())
    }

    fn into_whole(self, record: Record) -> Whole {
        Whole {
            offset: record.offset,
            length: record.length,
            is_warcinfo: record.header.get("WARC-Type") == Some("warcinfo"),
            capture: capture(&record.header, &self.http.bytes),
        }
    }
}

/// Index data of a record; `None` for records that an index leaves out.
pub fn capture(header: &Header, http: &[u8]) -> Option<cdxj::Capture> {
    let content_type = header.get("Content-Type");
    let is_fields = content_type == Some("application/warc-fields");
    let (status, mime) = match header.get("WARC-Type")? {
        "response" => {
            let (status, content_type) = head::summary(http).unzip();
            (status, content_type.flatten().as_deref().map(cdxj::mime))
        }
        "revisit" => (head::summary(http).map(|(status, _)| status), Some("warc/revisit".into())),
        "resource" | "metadata" if !is_fields => (None, content_type.map(cdxj::mime)),
        _ => return None,
    };
    let digits14: String = header
        .get("WARC-Date")?
        .chars()
        .filter(char::is_ascii_digit)
        .chain("00000000000000".chars())
        .take(14)
        .collect();
    let url = header.get("WARC-Target-URI")?.trim_matches(['<', '>']).to_owned();
    let digest = header.get("WARC-Payload-Digest").map(str::to_owned);
    let truncated = header.get("WARC-Truncated").map(str::to_owned);
    let media = header.get(media::FIELD).and_then(Media::parse).map(|media| media.hex());
    Some(cdxj::Capture { url, digits14, mime, status, digest, truncated, media })
}
