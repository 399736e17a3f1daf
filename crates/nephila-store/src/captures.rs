//! Finds and reads captures: the responses of a URL over time.
//!
//! A capture is listed in the index of its closed WARC file (`archive/NAME.cdxj`) and in the merged index
//! (`indexes/index.cdxj`). A recent capture lies in a file that is still open (`NAME.warc.gz.open`), which has no index
//! and is scanned. [`Captures::find`] searches all of them, during a crawl and after a kill. Sorted indexes are
//! searched by bisection and read a block at a time: their size does not matter.
//!
//! Invariants: lines come sorted by their bytes, each once; only whole records are named; nothing is written.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nephila_core::store::cdxj::Line;
use nephila_core::store::{Media, cdxj, head, media, roll};

use crate::warc::{self, Header, Limits, Reader, Record, Visitor};

mod beside;
mod open;
mod pages;
mod query;
mod search;

use open::open_captures;
use search::Source;

pub use beside::Noted;
pub use pages::Pages;
pub use query::{Match, Query, seconds};

/// Maximum captures of open files held by one query; each takes some 400 bytes.
pub const OPEN_CAPTURES_MAX: usize = 1_000_000;
/// Maximum captures of one URL that are searched for one of them.
const CAPTURES_OF_URL_MAX: usize = 100_000;
/// Maximum bytes of an HTTP head.
const HTTP_HEAD_BYTES_MAX: usize = 1024 * 1024;
/// Maximum chain of revisits: in foreign archives a revisit may refer to a revisit.
const REVISIT_HOPS_MAX: usize = 4;

/// Why a capture could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read.
    #[error("reading {path}", path = .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The record does not match the index. Run `nephila verify` for details.
    #[error("{path}: {source}", path = .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: warc::Error,
    },
    /// The payload is in a record that this archive does not have.
    #[error("its payload was stored with {url} at {date}, which is not in this archive")]
    NoOrigin {
        /// `WARC-Refers-To-Target-URI`.
        url: String,
        /// `WARC-Refers-To-Date`.
        date: String,
    },
}

/// Remote storage of archive files that are no longer in the folder.
pub trait Elsewhere: Send + Sync + fmt::Debug {
    /// Returns `length` bytes of a file from an offset on, or fewer at its end. Blocks.
    fn read(&self, name: &str, offset: u64, length: u64) -> io::Result<Vec<u8>>;
}

/// The captures of one archive.
#[derive(Clone, Debug)]
pub struct Captures {
    archive: PathBuf,
    merged: PathBuf,
    elsewhere: Option<Arc<dyn Elsewhere>>,
}

/// A capture with its content.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The head of its record.
    pub header: Header,
    /// Status line and header fields of the response; empty if the record is no HTTP response.
    pub http: Vec<u8>,
    /// The stored body; for a revisit, the body of the record referred to.
    pub body: Vec<u8>,
    /// The line of the record that holds the body, if another.
    pub origin: Option<Line>,
    /// The object that holds the body, if the body is in an object store; `body` is then empty.
    pub media: Option<Media>,
}

impl Captures {
    /// The captures of the archive in this folder, which contains `archive` and `indexes`.
    pub fn new(dir: &Path) -> Captures {
        let merged = dir.join("indexes").join("index.cdxj");
        Captures { archive: dir.join("archive"), merged, elsewhere: None }
    }

    /// Sets the remote storage for files that are not in the folder.
    pub fn with_elsewhere(mut self, elsewhere: Option<Arc<dyn Elsewhere>>) -> Captures {
        self.elsewhere = elsewhere;
        self
    }

    /// Whether the record of a line exists. An index may outlive its file. A file uploaded to an object store counts as
    /// existing.
    pub fn is_there(&self, line: &Line) -> bool {
        let dir = self.archive.parent().unwrap_or(&self.archive);
        let open = self.archive.join(format!("{}{}", line.filename, roll::OPEN));
        let file = std::fs::metadata(self.archive.join(&line.filename)).or_else(|_| std::fs::metadata(open));
        match file {
            Ok(file) => line.offset + line.length <= file.len(),
            Err(_) => crate::contents::is_stored_elsewhere(dir, &line.filename),
        }
    }

    /// The lines that match a query, in order.
    pub fn find(&self, query: &Query) -> Result<Lines, Error> {
        self.find_in(query, query.prefixes(), &[], None)
    }

    /// The indexes of closed files, and the merged one.
    fn indexes(&self) -> Result<Vec<PathBuf>, Error> {
        let mut indexes = self.list(|name| name.ends_with(".cdxj"))?;
        if self.merged.is_file() {
            indexes.push(self.merged.clone());
        }
        Ok(indexes)
    }

    /// The lines with these prefixes, from `from` on and before `to`.
    fn find_in(
        &self,
        query: &Query,
        prefixes: Vec<String>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Lines, Error> {
        // Open files first: a file that is closed meanwhile is found again below, by its index.
        let mut open = Vec::new();
        let mut left_out = 0;
        for path in self.list(|name| name.ends_with(roll::OPEN))? {
            match open_captures(&path, |line| {
                let wanted = prefixes.iter().any(|prefix| line.starts_with(prefix.as_str()));
                if wanted && open.len() >= OPEN_CAPTURES_MAX {
                    left_out += 1;
                } else if wanted {
                    open.push(line);
                }
            }) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.map_err(|source| Error::Io { path, source })?,
            }
        }
        open.sort_unstable();
        let indexes = self.indexes()?;
        let mut ranges = VecDeque::new();
        for prefix in prefixes {
            let mut sources = vec![Source::memory(&open, &prefix, from, to)];
            for path in &indexes {
                let source = Source::index(path, &prefix, from, to)
                    .map_err(|source| Error::Io { path: path.clone(), source })?;
                sources.extend(source);
            }
            ranges.push_back(sources);
        }
        Ok(Lines {
            query: query.clone(),
            ranges,
            sources: Vec::new(),
            next: BinaryHeap::new(),
            last: Vec::new(),
            left_out,
            unread: 0,
        })
    }

    /// The capture of a URL that is nearest to a time of up to fourteen digits, or the latest. A capture of exactly
    /// this URL goes before captures of other spellings with the same key (`www.`, `https`).
    pub fn nearest(&self, url: &str, at: Option<&str>) -> Result<Option<Line>, Error> {
        let at = at.map(seconds);
        let mut best: Option<(bool, u64, Line)> = None;
        for line in self.find(&Query::exact(url))?.take(CAPTURES_OF_URL_MAX) {
            let line = line?;
            let time = seconds(&line.capture.digits14);
            let other = line.capture.url != url;
            let away = at.map_or(u64::MAX - time, |at| at.abs_diff(time));
            if best.as_ref().is_none_or(|(o, a, _)| (other, away) <= (*o, *a)) {
                best = Some((other, away, line));
            }
        }
        Ok(best.map(|(_, _, line)| line))
    }

    /// Reads a capture, with a body of at most `body_bytes_max` bytes.
    pub fn read(&self, line: &Line, body_bytes_max: u64) -> Result<Capture, Error> {
        let block_bytes_max = body_bytes_max.saturating_add(HTTP_HEAD_BYTES_MAX as u64);
        let (record, block) = self.block(line, block_bytes_max)?;
        let (http, body) = split(&record.header, block);
        let media = media_of(&record.header);
        let mut capture = Capture { header: record.header, http, body, origin: None, media };
        let mut refers = refers_to(&capture.header);
        for _ in 0..REVISIT_HOPS_MAX {
            let Some((url, date)) = refers else { break };
            let digest = capture.header.get("WARC-Payload-Digest").map(str::to_owned);
            let origin = self.origin(line, &url, &date, digest.as_deref())?;
            let Some(origin) = origin else { return Err(Error::NoOrigin { url, date }) };
            let (record, block) = self.block(&origin, block_bytes_max)?;
            let (http, body) = split(&record.header, block);
            refers = refers_to(&record.header);
            capture.body = body;
            capture.media = media_of(&record.header);
            // The head of a 304 does not describe the page; use the original head.
            if capture.http.is_empty() || is_not_modified(&capture.http) {
                capture.http = http;
            }
            capture.origin = Some(origin);
        }
        if let Some(media) = &capture.media {
            capture.http = media::whole_head(&capture.http, media.bytes);
        }
        Ok(capture)
    }

    /// The lines of all captures, in order.
    pub fn all(&self) -> Result<Lines, Error> {
        self.find_in(&Query::default(), vec![String::new()], &[], None)
    }

    /// The lines that match a query and whose key sorts after this one, in order; with an empty key, all.
    pub fn find_after(&self, query: &Query, key: &str) -> Result<Lines, Error> {
        // A line is its key, a blank and more, and nothing in a key sorts before a blank.
        let from = if key.is_empty() { String::new() } else { format!("{key}!") };
        self.find_in(query, query.prefixes(), from.as_bytes(), None)
    }

    /// Writes the stored record, uncompressed: its head and its block.
    pub fn copy_record(&self, line: &Line, out: &mut dyn io::Write) -> Result<(), Error> {
        let mut copy = Copy { out, error: None };
        let (path, _) = self.visit(line, Limits::default().record_bytes_max, &mut copy)?;
        match copy.error {
            Some(source) => Err(Error::Io { path, source }),
            None => Ok(()),
        }
    }

    /// The line of the record that holds a revisit's payload.
    fn origin(
        &self,
        revisit: &Line,
        url: &str,
        date: &str,
        digest: Option<&str>,
    ) -> Result<Option<Line>, Error> {
        let time = seconds(date);
        let mut best: Option<(bool, u64, Line)> = None;
        for line in self.find(&Query::exact(url))?.take(CAPTURES_OF_URL_MAX) {
            let line = line?;
            let is_itself = (&line.filename, line.offset) == (&revisit.filename, revisit.offset);
            if is_itself || line.capture.mime.as_deref() == Some("warc/revisit") {
                continue;
            }
            let other = digest.is_some() && line.capture.digest.as_deref() != digest;
            let away = seconds(&line.capture.digits14).abs_diff(time);
            // Another payload is no substitute, unless the date identifies the record.
            if other && away > 0 {
                continue;
            }
            if best.as_ref().is_none_or(|(o, a, _)| (other, away) < (*o, *a)) {
                best = Some((other, away, line));
            }
        }
        Ok(best.map(|(_, _, line)| line))
    }

    fn block(&self, line: &Line, block_bytes_max: u64) -> Result<(Record, Vec<u8>), Error> {
        let mut block = warc::Collect::default();
        let (_, record) = self.visit(line, block_bytes_max, &mut block)?;
        Ok((record, block.0))
    }

    fn visit(
        &self,
        line: &Line,
        block_bytes_max: u64,
        visitor: &mut dyn Visitor,
    ) -> Result<(PathBuf, Record), Error> {
        let record_bytes_max = block_bytes_max.saturating_add(64 * 1024);
        // Indexes of plain files leave out the two line ends behind a record.
        let length = line.length.saturating_add(4);
        let (path, bytes): (PathBuf, Box<dyn Read>) = match (self.open(&line.filename), &self.elsewhere) {
            (Ok((path, mut file)), _) => {
                let sought = file.seek(SeekFrom::Start(line.offset));
                sought.map_err(|source| Error::Io { path: path.clone(), source })?;
                (path, Box::new(file.take(length)))
            }
            (Err(Error::Io { path, source }), Some(elsewhere))
                if source.kind() == io::ErrorKind::NotFound =>
            {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let read = elsewhere.read(&name, line.offset, length.min(record_bytes_max));
                let bytes = read.map_err(|source| Error::Io { path: path.clone(), source })?;
                (path, Box::new(io::Cursor::new(bytes)))
            }
            (Err(error), _) => return Err(error),
        };
        let limits = Limits { record_bytes_max, ..Limits::default() };
        let mut reader = Reader::with_limits(bytes, line.offset, limits);
        match reader.read(visitor) {
            Ok(Some(record)) => Ok((path, record)),
            Ok(None) => Err(Error::Record { path, source: warc::Error::NotWarc { offset: line.offset } }),
            Err(source) => Err(Error::Record { path, source }),
        }
    }

    /// Opens a WARC file, which may be open, closed, or be closed at this very moment.
    fn open(&self, name: &str) -> Result<(PathBuf, File), Error> {
        // A name in an index is only a file name, even in a foreign index.
        let name = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
        let closed = self.archive.join(&*name);
        let open = self.archive.join(format!("{name}{}", roll::OPEN));
        let mut last = None;
        for path in [closed.clone(), open, closed.clone()] {
            match File::open(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) => last = Some(error),
            }
        }
        Err(Error::Io { path: closed, source: last.expect("three were tried") })
    }

    fn list(&self, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, Error> {
        let failed = |source| Error::Io { path: self.archive.clone(), source };
        let mut paths = Vec::new();
        let entries = match std::fs::read_dir(&self.archive) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(paths),
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let path = entry.map_err(failed)?.path();
            if path.file_name().is_some_and(|name| wanted(&name.to_string_lossy())) {
                paths.push(path);
            }
        }
        paths.sort();
        Ok(paths)
    }
}

/// Iterator over the lines that match a query, in order. Ends after the first error.
#[derive(Debug)]
pub struct Lines {
    query: Query,
    ranges: VecDeque<Vec<Source>>,
    sources: Vec<Source>,
    /// The next line of each source.
    next: BinaryHeap<Reverse<(Vec<u8>, usize)>>,
    last: Vec<u8>,
    left_out: u64,
    unread: u64,
}

impl Lines {
    /// Number of captures of open files beyond [`OPEN_CAPTURES_MAX`], which were left out.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Number of invalid lines so far.
    pub fn unread(&self) -> u64 {
        self.unread
    }

    fn step(&mut self) -> Result<Option<Line>, Error> {
        loop {
            let Some(Reverse((line, number))) = self.next.pop() else {
                let Some(sources) = self.ranges.pop_front() else { return Ok(None) };
                self.sources = sources;
                for number in 0..self.sources.len() {
                    self.advance(number)?;
                }
                continue;
            };
            self.advance(number)?;
            if line == self.last {
                continue;
            }
            let parsed = Line::parse(&String::from_utf8_lossy(&line));
            self.last = line;
            match parsed {
                Some(parsed) if self.query.takes(&parsed.capture.digits14) => return Ok(Some(parsed)),
                parsed => self.unread += u64::from(parsed.is_none()),
            }
        }
    }

    fn advance(&mut self, number: usize) -> Result<(), Error> {
        let line = self.sources[number].take().map_err(|(path, source)| Error::Io { path, source })?;
        self.next.extend(line.map(|line| Reverse((line, number))));
        Ok(())
    }
}

impl Iterator for Lines {
    type Item = Result<Line, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.step();
        if next.is_err() {
            self.ranges.clear();
            self.next.clear();
        }
        next.transpose()
    }
}

/// Formats a line of an index.
pub fn text(line: &Line) -> String {
    let place = cdxj::Place { length: line.length, offset: line.offset, filename: &line.filename };
    cdxj::finish(line.capture.begin(), &place, line.capture.truncated.as_deref())
}

/// Writes a record to an output while reading.
struct Copy<'a> {
    out: &'a mut dyn io::Write,
    error: Option<io::Error>,
}

impl Copy<'_> {
    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.out.write_all(bytes).err();
        }
    }
}

impl Visitor for Copy<'_> {
    fn header(&mut self, header: &Header) {
        self.write(format!("{}\r\n", header.version).as_bytes());
        for (name, value) in &header.fields {
            self.write(format!("{name}: {value}\r\n").as_bytes());
        }
        self.write(b"\r\n");
    }

    fn block(&mut self, bytes: &[u8]) {
        self.write(bytes);
    }
}

/// Splits an HTTP response into head and body; any other block is all body.
fn split(header: &Header, mut block: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    if !matches!(header.get("WARC-Type"), Some("response" | "revisit")) || !block.starts_with(b"HTTP/") {
        return (Vec::new(), block);
    }
    let body = head::end(&block).map(|end| block.split_off(end)).unwrap_or_default();
    (block, body)
}

fn media_of(header: &Header) -> Option<Media> {
    header.get(media::FIELD).and_then(Media::parse)
}

fn refers_to(header: &Header) -> Option<(String, String)> {
    if header.get("WARC-Type") != Some("revisit") {
        return None;
    }
    let url = header.get("WARC-Refers-To-Target-URI").or(header.get("WARC-Target-URI"))?;
    let date = header.get("WARC-Refers-To-Date").unwrap_or_default();
    Some((url.trim_matches(['<', '>']).to_owned(), date.to_owned()))
}

fn is_not_modified(http: &[u8]) -> bool {
    head::summary(http).is_some_and(|(status, _)| status == "304")
}
