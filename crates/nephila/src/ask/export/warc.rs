//! Selected captures as one WARC file.
//!
//! Every archive file is read twice: first for the captures that are wanted, then for their records and those that name
//! them. Records of a gzip file are copied as they are, byte by byte. The index beside a file tells where a capture ends,
//! so that its body need not be decompressed.
//!
//! Invariant: memory does not grow with the archive: of one file, eight bytes for each wanted capture are held, and a line
//! for each revisit.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use anyhow::{Context, bail};
use nephila_core::store::cdxj::{self, Line};
use nephila_core::store::record::is_capture;
use nephila_core::store::{Digest, head, media};
use nephila_store::captures::{Capture, Captures, Error};
use nephila_store::warc::{self, Format, Header, HttpHead, Reader, Record, Visitor};
use nephila_tables::records::lengths;

use super::select::{Out, Select};
use super::{Exported, closed_files};

/// Maximum size in bytes of a body that is written again.
const BODY_BYTES_MAX: u64 = 1 << 30;
/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;
/// Fields of a revisit that its response does not have.
const OF_REVISITS: &[&str] = &[
    "WARC-Type",
    "WARC-Profile",
    "WARC-Refers-To",
    "WARC-Refers-To-Target-URI",
    "WARC-Refers-To-Date",
    "WARC-Block-Digest",
    "WARC-Truncated",
    "Content-Length",
    "Content-Type",
];

/// Writes the captures, which `say` hears of: bytes read, bytes in all.
pub(super) fn write(
    select: &Select,
    is_resolving: bool,
    out: &mut Out,
    say: &mut dyn FnMut(u64, u64),
) -> anyhow::Result<Exported> {
    let captures = Captures::new(select.folder.dir());
    let (files, all) = closed_files(&select.folder)?;
    let (mut exported, mut done) = (Exported::default(), 0);
    for file in &files {
        let named = || file.display().to_string();
        let lengths = lengths(file);
        let wanted = Wanted::of(file, select, &captures, &lengths).with_context(named)?;
        if !wanted.ids.is_empty() {
            let mut copy = Copying { file, captures: &captures, is_resolving, out: &mut *out, exported };
            copy.copy(&wanted, &lengths).with_context(named)?;
            exported = copy.exported;
        }
        done += file.metadata().map(|it| it.len()).unwrap_or_default();
        say(done, all);
    }
    Ok(exported)
}

/// The captures of one file that are wanted.
#[derive(Default)]
struct Wanted {
    /// Hashes of their record ids.
    ids: HashSet<u64>,
    /// The revisits among them, by offset.
    revisits: HashMap<u64, Line>,
}

impl Wanted {
    fn of(
        file: &Path,
        select: &Select,
        captures: &Captures,
        lengths: &HashMap<u64, u64>,
    ) -> anyhow::Result<Wanted> {
        let filename = name_of(file);
        let mut wanted = Wanted::default();
        let mut reader = Reader::new(File::open(file)?);
        loop {
            let mut http = HttpHead::default();
            let Some(record) = next(&mut reader, &mut http, lengths)? else { return Ok(wanted) };
            let Some(capture) = warc::scan::capture(&record.header, &http.bytes) else { continue };
            let is_revisit = record.header.get("WARC-Type") == Some("revisit");
            let length = reader.format().unwrap_or(Format::Plain).index_length(record.length);
            let line = Line {
                key: String::new(),
                capture,
                length,
                offset: record.offset,
                filename: filename.clone(),
            };
            let mut mime = head::field(&http.bytes, "content-type").map(|label| cdxj::mime(&label));
            if is_revisit && mime.is_none() && select.asks_for_type() {
                let origin = captures.read(&line, BODY_BYTES_MAX).ok().and_then(|capture| capture.origin);
                mime = origin.and_then(|origin| origin.capture.mime);
            }
            if !select.takes(&line.capture, mime.as_deref()) {
                continue;
            }
            let Some(id) = record.header.get("WARC-Record-ID") else { continue };
            wanted.ids.insert(hash(id));
            if is_revisit {
                wanted.revisits.insert(record.offset, line);
            }
        }
    }

    /// Whether a record belongs to a wanted capture.
    fn takes(&self, header: &Header) -> bool {
        let names = ["WARC-Record-ID", "WARC-Concurrent-To", "WARC-Refers-To"];
        header.get("WARC-Type") == Some("warcinfo")
            || names.iter().any(|name| header.get(name).is_some_and(|id| self.ids.contains(&hash(id))))
    }
}

/// Copies the records of one file.
struct Copying<'a> {
    file: &'a Path,
    captures: &'a Captures,
    is_resolving: bool,
    out: &'a mut Out,
    exported: Exported,
}

impl Copying<'_> {
    fn copy(&mut self, wanted: &Wanted, lengths: &HashMap<u64, u64>) -> anyhow::Result<()> {
        let mut reader = Reader::new(File::open(self.file)?);
        let mut again = File::open(self.file)?;
        loop {
            let Some(record) = next(&mut reader, &mut HeadAlone, lengths)? else { return Ok(()) };
            if !wanted.takes(&record.header) {
                continue;
            }
            self.exported.captures += u64::from(record.header.get("WARC-Type").is_some_and(is_capture));
            self.exported.media += u64::from(record.header.get(media::FIELD).is_some());
            if let Some(line) = wanted.revisits.get(&record.offset).filter(|_| self.is_resolving)
                && self.resolve(line)?
            {
                continue;
            }
            if record.shares_member {
                bail!(
                    "the record at {} shares its gzip member with others, which cannot be copied",
                    record.offset
                );
            }
            match reader.format() {
                Some(Format::Gzip) => self.copy_bytes(&mut again, &record)?,
                format => {
                    let length = format.unwrap_or(Format::Plain).index_length(record.length);
                    let filename = name_of(self.file);
                    let capture = cdxj::Capture::default();
                    let line = Line { key: String::new(), capture, length, offset: record.offset, filename };
                    let mut bytes = Vec::new();
                    self.captures.copy_record(&line, &mut bytes)?;
                    self.out.record(&[&bytes])?;
                }
            }
        }
    }

    fn copy_bytes(&mut self, file: &mut File, record: &Record) -> anyhow::Result<()> {
        file.seek(SeekFrom::Start(record.offset))?;
        let mut left = record.length;
        let mut piece = vec![0; COPY_BYTES.min(usize::try_from(left).unwrap_or(COPY_BYTES))];
        while left > 0 {
            let count = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            file.read_exact(&mut piece[..count])?;
            self.out.raw(&piece[..count])?;
            left -= count as u64;
        }
        Ok(())
    }

    /// Writes a revisit as a response. Returns false if the body is not there.
    fn resolve(&mut self, line: &Line) -> anyhow::Result<bool> {
        let capture = match self.captures.read(line, BODY_BYTES_MAX) {
            Ok(capture) if capture.origin.is_some() && capture.media.is_none() => capture,
            Ok(_) | Err(Error::NoOrigin { .. } | Error::Record { .. }) => {
                self.exported.unresolved += 1;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        let Capture { header, http, body, .. } = capture;
        let digest = Digest::of(&[&http, &body]);
        let mut head = format!("{}\r\nWARC-Type: response\r\n", header.version);
        for (name, value) in &header.fields {
            if !OF_REVISITS.iter().any(|other| other.eq_ignore_ascii_case(name)) {
                head.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        head.push_str(&format!(
            "WARC-Block-Digest: {digest}\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n",
            http.len() + body.len()
        ));
        self.out.record(&[head.as_bytes(), &http, &body])?;
        self.exported.resolved += 1;
        Ok(true)
    }
}

/// Reads the next record, as far as the visitor wants if the length is known.
fn next(
    reader: &mut Reader<File>,
    visitor: &mut dyn Visitor,
    lengths: &HashMap<u64, u64>,
) -> Result<Option<Record>, warc::Error> {
    match lengths.get(&reader.offset()) {
        Some(length) => reader.read_known(visitor, *length),
        None => reader.read(visitor),
    }
}

/// Wants nothing of a block: the head of the record is enough.
struct HeadAlone;

impl Visitor for HeadAlone {
    fn header(&mut self, _: &Header) {}

    fn block(&mut self, _: &[u8]) {}

    fn is_done(&self) -> bool {
        true
    }
}

fn hash(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    id.trim_matches(['<', '>']).hash(&mut hasher);
    hasher.finish()
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
