//! Reads a WARC file and joins the records of each capture: the response, its metadata, its text.
//!
//! The records that belong to a response or a revisit follow it and name it (`WARC-Concurrent-To`, `WARC-Refers-To`). A
//! capture is complete when the next one begins. Requests and records of other kinds are passed over.
//!
//! The body of a page is not needed if the crawl left notes for tables. So with the index beside the file the body is
//! passed over: the index tells where the record ends.
//!
//! Invariants: memory is bounded, whatever a file holds: of a block at most [`BODY_BYTES_MAX`] and
//! [`HTTP_HEAD_BYTES_MAX`] bytes are kept, of an index at most [`LENGTHS_MAX`] numbers.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use nephila_core::store::cdxj::Line;
use nephila_store::archive::ENDINGS;
use nephila_store::index::read_line;

use nephila_core::store::head;
use nephila_core::store::record::is_capture;
use nephila_store::warc::{self, Format, Header, Reader, Record, Visitor};

/// Maximum bytes of a stored body that are read for links, as in a crawl with the shipped settings.
pub const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Maximum bytes of an HTTP head.
pub const HTTP_HEAD_BYTES_MAX: usize = 1024 * 1024;
/// A body is passed over only if its HTTP head ends within this number of bytes.
const HEAD_LOOK_BYTES_MAX: usize = 64 * 1024;
/// Maximum bytes of a metadata record that are read.
pub const METADATA_BYTES_MAX: usize = 1024 * 1024;
/// Maximum number of lengths that are taken from an index; further records are read whole.
pub const LENGTHS_MAX: usize = 1 << 20;
/// Name of a crawl whose files do not tell one.
const UNNAMED: &str = "crawl";

/// What a WARC file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileInfo {
    /// The file's name, without folder.
    pub name: String,
    /// The crawl: `isPartOf` of the warcinfo record, or the first part of the file's name.
    pub crawl: String,
    /// The time of the warcinfo record, fourteen digits.
    pub segment: String,
}

impl FileInfo {
    fn of_name(name: &str) -> FileInfo {
        let crawl = prefix_of(name).filter(|prefix| !prefix.is_empty()).unwrap_or(UNNAMED);
        FileInfo { name: name.to_owned(), crawl: plain(crawl), segment: "0".repeat(14) }
    }

    fn handle_warcinfo(&mut self, header: &Header, block: &[u8]) {
        self.segment = digits14(header);
        if let Some(name) = value(block, "isPartOf").filter(|name| !name.is_empty()) {
            self.crawl = plain(&name);
        }
    }
}

/// The records of one capture.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// The head of the record with the response.
    pub header: Header,
    /// Offset of the record.
    pub offset: u64,
    /// Length of the record in the file, as indexes have it.
    pub length: u64,
    /// Status line and fields of the response. Empty for a revisit after 304.
    pub http: Vec<u8>,
    /// The stored body, or its beginning.
    pub body: Vec<u8>,
    /// Whether the body was passed over.
    pub lacks_body: bool,
    /// The lines of the metadata record.
    pub metadata: Option<Vec<u8>>,
    /// The main text.
    pub text: Option<String>,
}

/// Reads the captures of a WARC file, in order.
#[derive(Debug)]
pub struct Records<R> {
    reader: Reader<R>,
    info: FileInfo,
    pending: Option<Gathered>,
    /// Lengths of records by their offsets.
    lengths: HashMap<u64, u64>,
}

impl<R: Read> Records<R> {
    /// Reads a file with this name from its start.
    pub fn new(input: R, name: &str) -> Records<R> {
        let lengths = HashMap::new();
        Records { reader: Reader::new(input), info: FileInfo::of_name(name), pending: None, lengths }
    }

    /// Passes over the bodies of the records with these lengths, by their offsets.
    pub fn pass_over(&mut self, lengths: HashMap<u64, u64>) {
        self.lengths = lengths;
    }

    /// What the file says of itself. Complete before the first capture is returned.
    pub fn info(&self) -> &FileInfo {
        &self.info
    }

    /// Reads the first record, which tells what the file says of itself.
    pub fn begin(&mut self) -> Result<(), warc::Error> {
        if self.reader.offset() == 0 {
            self.step()?;
        }
        Ok(())
    }

    /// The next capture; none at the end.
    pub fn read(&mut self) -> Result<Option<Gathered>, warc::Error> {
        loop {
            match self.step()? {
                Step::Read(None) => {}
                Step::Read(done) => return Ok(done),
                Step::End => return Ok(self.pending.take()),
            }
        }
    }

    /// Reads one record. Returns the capture before it, if the record begins another.
    fn step(&mut self) -> Result<Step, warc::Error> {
        let mut block = Kept::default();
        let known = self.lengths.get(&self.reader.offset()).copied();
        let record = match known {
            Some(length) => self.reader.read_known(&mut block, length)?,
            None => self.reader.read(&mut block)?,
        };
        let Some(record) = record else { return Ok(Step::End) };
        let done = match record.header.get("WARC-Type") {
            Some("warcinfo") => {
                self.info.handle_warcinfo(&record.header, &block.bytes);
                None
            }
            Some(kind) if is_capture(kind) => {
                let format = self.reader.format().unwrap_or(Format::Plain);
                let is_short = record.header.content_length() > Some(record.block_len);
                let is_cut = known.is_some() && is_short && block.is_done();
                self.pending.replace(gathered(record, block.bytes, format, is_cut))
            }
            Some(kind @ ("metadata" | "conversion")) => {
                if let Some(pending) = self.pending.as_mut().filter(|it| belongs(&record.header, &it.header))
                {
                    match kind {
                        "metadata" => pending.metadata = Some(block.bytes),
                        _ => pending.text = Some(String::from_utf8_lossy(&block.bytes).into_owned()),
                    }
                }
                None
            }
            _ => None,
        };
        Ok(Step::Read(done))
    }
}

enum Step {
    Read(Option<Gathered>),
    End,
}

fn gathered(record: Record, mut block: Vec<u8>, format: Format, is_cut: bool) -> Gathered {
    if record.header.get("WARC-Type") == Some("resource") {
        block.splice(..0, head::of_resource(record.header.get("Content-Type").unwrap_or_default()));
    }
    let end = head::end(&block).unwrap_or(block.len());
    let mut body = block.split_off(end);
    if is_cut {
        body = Vec::new();
    }
    Gathered {
        lacks_body: is_cut,
        offset: record.offset,
        length: format.index_length(record.length),
        header: record.header,
        http: block,
        body,
        metadata: None,
        text: None,
    }
}

impl Gathered {
    /// Reads the body that was passed over.
    pub fn read_body(&mut self, warc: &Path) -> Result<(), warc::Error> {
        let mut file = File::open(warc).map_err(warc::Error::Io)?;
        file.seek(SeekFrom::Start(self.offset)).map_err(warc::Error::Io)?;
        let mut block = Kept::default();
        let mut reader = Reader::with_limits(file, self.offset, warc::Limits::default());
        let Some(record) = reader.read(&mut block)? else { return Ok(()) };
        let format = reader.format().unwrap_or(Format::Plain);
        let Gathered { body, http, .. } = gathered(record, block.bytes, format, false);
        (self.body, self.http, self.lacks_body) = (body, http, false);
        Ok(())
    }
}

/// The lengths of the records of a WARC file by their offsets, from the index beside it; empty without an index.
pub fn lengths(warc: &Path) -> HashMap<u64, u64> {
    let name = warc.file_name().unwrap_or_default().to_string_lossy();
    let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(&name);
    let mut lengths = HashMap::new();
    let Ok(index) = File::open(warc.with_file_name(format!("{stem}.cdxj"))) else { return lengths };
    let mut index = BufReader::new(index);
    while let Ok(Some(line)) = read_line(&mut index) {
        let line = Line::parse(&String::from_utf8_lossy(&line)).filter(|line| line.filename == name);
        lengths.extend(line.map(|line| (line.offset, line.length)));
        if lengths.len() >= LENGTHS_MAX {
            break;
        }
    }
    lengths
}

/// Whether a record names the record of a capture.
fn belongs(header: &Header, capture: &Header) -> bool {
    let id = capture.get("WARC-Record-ID");
    id.is_some() && (header.get("WARC-Concurrent-To") == id || header.get("WARC-Refers-To") == id)
}

/// Keeps the part of a block that rows are made of.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_response: bool,
}

impl Visitor for Kept {
    fn header(&mut self, header: &Header) {
        self.is_response = header.get("WARC-Type") == Some("response");
        self.bytes_max = match header.get("WARC-Type") {
            Some(kind) if is_capture(kind) => HTTP_HEAD_BYTES_MAX + BODY_BYTES_MAX,
            Some("conversion") => BODY_BYTES_MAX,
            Some("metadata" | "warcinfo") => METADATA_BYTES_MAX,
            _ => 0,
        };
    }

    fn block(&mut self, bytes: &[u8]) {
        let room = self.bytes_max.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Of a page, the head is enough. It is looked for in the first pieces only: this is asked before each piece.
    fn is_done(&self) -> bool {
        let is_early = self.bytes.len() <= HEAD_LOOK_BYTES_MAX;
        is_early && self.is_response && status(&self.bytes) == Some(200) && head::end(&self.bytes).is_some()
    }
}

/// The status code of a stored head.
pub(crate) fn status(http: &[u8]) -> Option<i16> {
    let line = http.split(|byte| *byte == b'\n').next()?.strip_prefix(b"HTTP/")?;
    let digits = line.split(|byte| *byte == b' ').nth(1)?.trim_ascii();
    std::str::from_utf8(digits).ok()?.parse().ok().filter(|status| *status >= 0)
}

/// Whether the files of a name hold derived records only, and no captures.
pub fn is_derived(name: &str) -> bool {
    prefix_of(name).is_some_and(|prefix| prefix.ends_with("-extract"))
}

/// The prefix of a file name of ours: `PREFIX-20261114225809123-00007-NODE.warc.gz`.
fn prefix_of(name: &str) -> Option<&str> {
    let is_digits =
        |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let dashes: Vec<usize> = name.match_indices('-').map(|(at, _)| at).collect();
    let found = dashes
        .windows(3)
        .rfind(|at| is_digits(&name[at[0] + 1..at[1]], 17) && is_digits(&name[at[1] + 1..at[2]], 5));
    found.map(|at| &name[..at[0]])
}

/// A name as a part of a path.
fn plain(name: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let plain: String = name.chars().take(NAME_CHARS_MAX).map(|c| if allowed(c) { c } else { '_' }).collect();
    // A name of dots alone would be another folder.
    if plain.bytes().all(|byte| byte == b'.') { UNNAMED.to_owned() } else { plain }
}

/// Maximum length of the name of a crawl.
const NAME_CHARS_MAX: usize = 120;

/// The fourteen digits of a record's date.
fn digits14(header: &Header) -> String {
    let date = header.get("WARC-Date").unwrap_or_default();
    date.chars().filter(char::is_ascii_digit).chain("0".repeat(14).chars()).take(14).collect()
}

/// The values of the lines with this name in a block of `name: value` lines.
pub(crate) fn values<'a>(block: &'a [u8], name: &'a str) -> impl Iterator<Item = String> + 'a {
    block.split(|byte| *byte == b'\n').filter_map(move |line| {
        let rest = line.strip_prefix(name.as_bytes())?.strip_prefix(b":")?;
        Some(String::from_utf8_lossy(rest.trim_ascii()).into_owned())
    })
}

/// The first of these values.
pub(crate) fn value(block: &[u8], name: &str) -> Option<String> {
    values(block, name).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_tells_its_crawl() {
        let crawl = |name| FileInfo::of_name(name).crawl;
        assert_eq!(crawl("my-news-20261114225809123-00007-node-1.warc.gz"), "my-news");
        assert_eq!(crawl("CC-MAIN-2017.warc.gz"), "crawl");
        assert_eq!(crawl("..-20261114225809123-00007-n.warc.gz"), "crawl");
        assert!(is_derived("N-extract-20261114225809123-00007-n.warc.gz"));
        assert!(!is_derived("N-20261114225809123-00007-n.warc.gz"));
        assert_eq!(plain("a/../b c"), "a_.._b_c");
    }

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let block = b"via: http://a.test/\r\nviaduct: no\r\noutlink: 1\r\noutlink: 2\r\nseed: \r\n";
        assert_eq!(value(block, "via").as_deref(), Some("http://a.test/"));
        assert_eq!(values(block, "outlink").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((value(block, "seed").as_deref(), value(block, "v")), (Some(""), None));
    }

    fn record(kind: &str, id: &str, more: &str, block: &str) -> String {
        format!(
            "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <{id}>\r\nWARC-Date: 2026-11-14T22:58:09.123Z\r\n{more}\
             Content-Length: {}\r\n\r\n{block}\r\n\r\n",
            block.len()
        )
    }

    #[test]
    fn records_are_joined_by_their_names() {
        let file = [
            record("warcinfo", "i", "", "isPartOf: my crawl\r\n"),
            record("response", "r1", "", "HTTP/1.1 200 OK\r\n\r\none"),
            record("request", "q", "WARC-Concurrent-To: <r1>\r\n", "GET / HTTP/1.1\r\n\r\n"),
            record("metadata", "m1", "WARC-Concurrent-To: <r1>\r\n", "depth: 1\r\n"),
            record("conversion", "c1", "WARC-Refers-To: <r1>\r\n", "the text"),
            record("metadata", "x", "WARC-Concurrent-To: <other>\r\n", "depth: 9\r\n"),
            record("revisit", "r2", "", ""),
        ]
        .concat();
        let mut records = Records::new(file.as_bytes(), "f.warc");
        records.begin().unwrap();
        assert_eq!(
            (records.info().crawl.as_str(), records.info().segment.as_str()),
            ("my_crawl", "20261114225809")
        );
        let one = records.read().unwrap().unwrap();
        assert_eq!(
            (one.http.as_slice(), one.body.as_slice()),
            (&b"HTTP/1.1 200 OK\r\n\r\n"[..], &b"one"[..])
        );
        assert_eq!(one.metadata.as_deref(), Some(&b"depth: 1\r\n"[..]));
        assert_eq!(one.text.as_deref(), Some("the text"));
        let two = records.read().unwrap().unwrap();
        assert_eq!((two.header.get("WARC-Type"), two.metadata, two.http.len()), (Some("revisit"), None, 0));
        assert!(records.read().unwrap().is_none());
    }
}
