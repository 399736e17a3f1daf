//! Records written with a capture: its metadata, its text.
//!
//! Invariant: [`Captures::noted`] reads each record once, so that a search through all captures is linear in their bytes.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};

use nephila_core::store::cdxj::Line;
use nephila_core::store::record::is_capture;
use nephila_core::store::{Media, roll};

use super::search::Source;
use super::{Captures, Error, media_of, split};
use crate::archive::ENDINGS;
use crate::derive;
use crate::warc::{self, Header, Limits, Reader, Visitor};

/// Maximum records searched after a capture.
const BESIDE_MAX: usize = 8;
/// Size in bytes that the head of a record may have in addition to its block.
const HEAD_BYTES: u64 = 64 << 10;
/// Maximum bytes of one of these records.
const BESIDE_BYTES_MAX: usize = 16 << 20;

/// A capture of the folder with what was extracted from it.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// Status line and header fields of the response; empty if the record is no HTTP response.
    pub http: Vec<u8>,
    /// The stored body.
    pub body: Vec<u8>,
    /// The object that holds the body, if the body is in an object store.
    pub media: Option<Media>,
    /// The block of its `metadata` record.
    pub metadata: Option<Vec<u8>>,
    /// The block of its `conversion` to text.
    pub text: Option<Vec<u8>>,
}

impl Captures {
    /// Reads a capture with its metadata and its text, of which the latest extraction counts. A capture whose block has
    /// more than `block_bytes_max` bytes, or whose file is not in the folder, is an error; the payload of a revisit is not
    /// looked for.
    pub fn noted(&self, line: &Line, block_bytes_max: u64) -> Result<Noted, Error> {
        let (path, mut file) = self.open(&line.filename)?;
        let failed = |source| Error::Io { path: path.clone(), source };
        file.seek(SeekFrom::Start(line.offset)).map_err(failed)?;
        let record_bytes_max = block_bytes_max.saturating_add(HEAD_BYTES);
        let limits = Limits { record_bytes_max, ..Limits::default() };
        let mut reader = Reader::with_limits(file, line.offset, limits);
        let mut block = warc::Collect::default();
        let record = match reader.read(&mut block) {
            Ok(Some(record)) => record,
            Ok(None) => {
                return Err(Error::Record { path, source: warc::Error::NotWarc { offset: line.offset } });
            }
            Err(source) => return Err(Error::Record { path, source }),
        };
        let id = record.header.get("WARC-Record-ID").unwrap_or_default().to_owned();
        let bare = id.trim_matches(['<', '>']);
        let (metadata, text) = (self.derived(bare, "metadata")?, self.derived(bare, "conversion")?);
        let (http, body) = split(&record.header, block.0);
        let mut noted = Noted { http, body, media: media_of(&record.header), metadata, text };
        for _ in 0..BESIDE_MAX {
            if noted.metadata.is_some() && noted.text.is_some() {
                break;
            }
            let mut block = warc::Collect::default();
            // A file under write may end anywhere, and what is too large here is no text.
            let Ok(Some(record)) = reader.read(&mut block) else { break };
            let get = |name| record.header.get(name);
            let kind = get("WARC-Type").unwrap_or_default();
            if is_capture(kind) || kind == "warcinfo" {
                break;
            }
            if get("WARC-Refers-To").or(get("WARC-Concurrent-To")) == Some(id.as_str()) {
                match kind {
                    "metadata" if noted.metadata.is_none() => noted.metadata = Some(block.0),
                    "conversion" if noted.text.is_none() => noted.text = Some(block.0),
                    _ => {}
                }
            }
        }
        Ok(noted)
    }

    /// The block of a record that was written with a capture: its `metadata`, or the `conversion` to text. `None` if
    /// there is no such record before the next capture.
    pub fn beside(&self, line: &Line, kind: &str) -> Result<Option<Vec<u8>>, Error> {
        let (path, mut file) = self.open(&line.filename)?;
        let failed = |source| Error::Io { path: path.clone(), source };
        file.seek(SeekFrom::Start(line.offset)).map_err(failed)?;
        let mut reader = Reader::with_limits(file, line.offset, Limits::default());
        let mut answer = None;
        for _ in 0..=BESIDE_MAX {
            let mut block = Beside { kind, block: Vec::new(), wanted: false };
            let record = match reader.read(&mut block) {
                Ok(Some(record)) => record,
                // A file under write may end anywhere.
                Ok(None) | Err(_) if answer.is_some() => return Ok(None),
                Ok(None) => {
                    return Err(Error::Record { path, source: warc::Error::NotWarc { offset: line.offset } });
                }
                Err(source) => return Err(Error::Record { path, source }),
            };
            let get = |name| record.header.get(name);
            let Some(id) = &answer else {
                let id = get("WARC-Record-ID").unwrap_or_default().to_owned();
                // A later extraction is better.
                if let Some(later) = self.derived(id.trim_matches(['<', '>']), kind)? {
                    return Ok(Some(later));
                }
                answer = Some(id);
                continue;
            };
            if get("WARC-Type").is_some_and(|kind| is_capture(kind) || kind == "warcinfo") {
                return Ok(None);
            }
            let refers = get("WARC-Refers-To").or(get("WARC-Concurrent-To"));
            if block.wanted && refers == Some(id.as_str()) {
                return Ok(Some(block.block));
            }
        }
        Ok(None)
    }

    /// The block of the latest record of a kind that was derived from a capture afterwards.
    fn derived(&self, id: &str, kind: &str) -> Result<Option<Vec<u8>>, Error> {
        let list = self.merged.with_file_name(derive::LIST);
        let failed = |source| Error::Io { path: list.clone(), source };
        let Some(mut lines) = Source::index(&list, &format!("{id} {kind} "), &[], None).map_err(failed)?
        else {
            return Ok(None);
        };
        let mut last = None;
        while let Some(line) = lines.take().map_err(|(path, source)| Error::Io { path, source })? {
            last = Some(line);
        }
        let Some(line) = last else { return Ok(None) };
        let line = String::from_utf8_lossy(&line).into_owned();
        let mut parts = line.split(' ').skip(3);
        let offset = parts.next().and_then(|text| text.parse().ok());
        let (Some(offset), Some(name)) = (offset, parts.nth(1)) else { return Ok(None) };
        let (path, mut file) = self.open(name)?;
        file.seek(SeekFrom::Start(offset)).map_err(|source| Error::Io { path: path.clone(), source })?;
        let mut block = Beside { kind, block: Vec::new(), wanted: false };
        match Reader::with_limits(file, offset, Limits::default()).read(&mut block) {
            Ok(Some(_)) if block.wanted => Ok(Some(block.block)),
            Ok(_) => Err(Error::Record { path, source: warc::Error::NotWarc { offset } }),
            Err(source) => Err(Error::Record { path, source }),
        }
    }

    /// Passes the URL and the block of every metadata record to `give`, file by file. A damaged file is read up to the
    /// damage.
    pub fn each_metadata(&self, give: &mut dyn FnMut(&str, &[u8])) -> Result<(), Error> {
        let is_warc = |name: &str| {
            let name = name.strip_suffix(roll::OPEN).unwrap_or(name);
            ENDINGS.iter().any(|ending| name.ends_with(ending))
        };
        for path in self.list(is_warc)? {
            let file = match File::open(&path) {
                // Closed, and therefore renamed, since the listing.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                file => file.map_err(|source| Error::Io { path: path.clone(), source })?,
            };
            let mut reader = Reader::new(file);
            loop {
                let mut block = Beside { kind: "metadata", block: Vec::new(), wanted: false };
                let Ok(Some(record)) = reader.read(&mut block) else { break };
                if let Some(url) = record.header.get("WARC-Target-URI").filter(|_| block.wanted) {
                    give(url, &block.block);
                }
            }
        }
        Ok(())
    }
}

/// Keeps the block of a record of one kind.
struct Beside<'a> {
    kind: &'a str,
    block: Vec<u8>,
    wanted: bool,
}

impl Visitor for Beside<'_> {
    fn header(&mut self, header: &Header) {
        self.wanted = header.get("WARC-Type") == Some(self.kind);
    }

    fn block(&mut self, bytes: &[u8]) {
        if self.wanted {
            let room = BESIDE_BYTES_MAX.saturating_sub(self.block.len());
            self.block.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }
}
