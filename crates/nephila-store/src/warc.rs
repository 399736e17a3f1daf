//! Reads WARC files: gzip with a member per record, Zstandard with a frame per record, or plain.
//!
//! [`Reader`] reads any stream and hands each record's head and block to a [`Visitor`], so that a body of any size
//! passes in bounded memory. [`read_at`] reads one record of a file. Foreign bytes never cause a panic or exceed the
//! [`Limits`]. Defects of a record are reported ([`Record`], [`Error`]), and the caller decides about them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use nephila_core::store::head;

mod header;
mod input;
pub mod scan;
#[cfg(test)]
mod tests;

pub use header::Header;
use input::Input;

/// Memory limits of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a record's own head.
    pub head_bytes_max: usize,
    /// Maximum bytes of a record, uncompressed. A member that continues after this is damaged, whatever its head says.
    pub record_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { head_bytes_max: 64 * 1024, record_bytes_max: 16 * 1024 * 1024 * 1024 }
    }
}

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// gzip, a member per record.
    Gzip,
    /// Zstandard, a frame per record.
    Zstd,
    /// No compression.
    Plain,
}

impl Format {
    /// Detects the format from the first bytes; `None` if unknown.
    pub fn sniff(start: &[u8]) -> Option<Self> {
        if start.starts_with(&[0x1f, 0x8b]) {
            Some(Format::Gzip)
        } else if start.starts_with(&ZSTD_MAGIC) || is_skippable(start) {
            Some(Format::Zstd)
        } else if start.starts_with(b"WARC/") {
            Some(Format::Plain)
        } else {
            None
        }
    }
}

impl Format {
    /// The length of a record for indexes: the length of its member, but in a plain file without the two line ends
    /// after the record, because `cdxj-indexer` counts like this.
    pub fn index_length(self, length: u64) -> u64 {
        match self {
            Format::Gzip | Format::Zstd => length,
            Format::Plain => length.saturating_sub(4),
        }
    }
}

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn is_skippable(start: &[u8]) -> bool {
    start.len() >= 4 && start[0] & 0xf0 == 0x50 && start[1..4] == [0x2a, 0x4d, 0x18]
}

/// A record that was read to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Offset of the record in the file.
    pub offset: u64,
    /// Length of the record in the file, in bytes.
    pub length: u64,
    /// The head of the record.
    pub header: Header,
    /// Bytes of the block that were present; fewer than `Content-Length` if the record ends too early.
    pub block_len: u64,
    /// Whether the block ended where its `Content-Length` says, followed by two line ends.
    pub separator: bool,
    /// Whether other bytes follow the record in the same member.
    pub shares_member: bool,
}

/// Why a record could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The stream does not begin like a WARC file here.
    #[error("no record begins at {offset}")]
    NotWarc {
        /// The offset.
        offset: u64,
    },
    /// The stream ends inside the record: a torn tail.
    #[error("the record at {offset} is torn")]
    Torn {
        /// Offset of the record.
        offset: u64,
    },
    /// The compressed bytes or the head are invalid.
    #[error("the record at {offset} is damaged: {why}")]
    Damaged {
        /// Offset of the record.
        offset: u64,
        /// The defect.
        why: String,
    },
    /// The stream could not be read.
    #[error("reading failed")]
    Io(#[source] io::Error),
}

/// Receives the parts of a record.
pub trait Visitor {
    /// Receives the head.
    fn header(&mut self, header: &Header);
    /// Receives the next bytes of the block.
    fn block(&mut self, bytes: &[u8]);
    /// Whether the rest of the block is of no use. Asked by [`Reader::read_known`] only.
    fn is_done(&self) -> bool {
        false
    }
}

/// Maximum bytes of an HTTP head that are kept.
const HTTP_HEAD_BYTES_MAX: usize = 1024 * 1024;

/// Keeps the HTTP head of a response or revisit, with its blank line. Without an end, its first bytes.
#[derive(Clone, Debug, Default)]
pub struct HttpHead {
    /// The bytes of the head so far.
    pub bytes: Vec<u8>,
    /// Where the last line of `bytes` begins: lines before it were looked at.
    line: usize,
    is_done: bool,
}

impl Visitor for HttpHead {
    fn header(&mut self, header: &Header) {
        self.is_done = !matches!(header.get("WARC-Type"), Some("response" | "revisit"));
    }

    fn block(&mut self, bytes: &[u8]) {
        if self.is_done {
            return;
        }
        self.bytes.extend_from_slice(bytes);
        if let Some(end) = head::end(&self.bytes[self.line..]) {
            self.bytes.truncate(self.line + end);
            self.is_done = true;
        } else if let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
            self.line = self.bytes.len() - bytes.len() + end + 1;
        }
        self.is_done |= self.bytes.len() > HTTP_HEAD_BYTES_MAX;
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

/// Ignores everything.
impl Visitor for () {
    fn header(&mut self, _: &Header) {}
    fn block(&mut self, _: &[u8]) {}
}

/// Iterates over the records of a stream.
#[derive(Debug)]
pub struct Reader<R> {
    input: Input<R>,
    format: Option<Format>,
    limits: Limits,
}

impl<R: Read> Reader<R> {
    /// Reads from the start of a stream.
    pub fn new(input: R) -> Self {
        Reader::with_limits(input, 0, Limits::default())
    }

    /// Reads from a stream that begins at this offset of a file.
    pub fn with_limits(input: R, offset: u64, limits: Limits) -> Self {
        Reader { input: Input::new(input, offset), format: None, limits }
    }

    /// Compression of the stream, known once a record was read.
    pub fn format(&self) -> Option<Format> {
        self.format
    }

    /// Accepts only records of this format: after damage, the rest of a file cannot be of another format.
    pub(crate) fn expect(&mut self, format: Option<Format>) {
        self.format = format;
    }

    /// Offset of the next record.
    pub fn offset(&self) -> u64 {
        self.input.offset
    }

    /// Reads the next record; `None` at the end. After an error the offset is inside the damaged record.
    pub fn read(&mut self, visitor: &mut dyn Visitor) -> Result<Option<Record>, Error> {
        self.read_some(visitor, None)
    }

    /// Reads the next record, whose length in the file an index has, as far as the visitor wants: the rest is neither
    /// decompressed nor checked, and [`Record::separator`] is false. Fails if the record is longer.
    pub fn read_known(&mut self, visitor: &mut dyn Visitor, length: u64) -> Result<Option<Record>, Error> {
        self.read_some(visitor, Some(length))
    }

    fn read_some(&mut self, visitor: &mut dyn Visitor, known: Option<u64>) -> Result<Option<Record>, Error> {
        let offset = self.input.offset;
        let start = self.input.peek(MAGIC_BYTES).map_err(Error::Io)?;
        if start.is_empty() {
            return Ok(None);
        }
        let format = match (self.format, Format::sniff(start)) {
            (None, Some(format)) => format,
            (Some(known), Some(format)) if known == format => format,
            // The file may end after the first bytes of a member.
            _ if start.len() < MAGIC_BYTES => return Err(Error::Torn { offset }),
            _ => return Err(Error::NotWarc { offset }),
        };
        self.format = Some(format);
        let limits = self.limits;
        let whole = if known.is_some() { Extent::Wanted } else { Extent::Member };
        let parsed = match format {
            Format::Gzip => {
                let mut member = flate2::bufread::GzDecoder::new(&mut self.input);
                parse(&mut member, &limits, visitor, whole)
            }
            Format::Zstd => {
                if self.skip_frames().map_err(|error| classify(error, offset))? {
                    // The length in an index counts from the first frame.
                    let skipped = self.input.offset - offset;
                    return self.read_some(visitor, known.map(|length| length.saturating_sub(skipped)));
                }
                let mut frame = zstd::stream::read::Decoder::with_buffer(&mut self.input)
                    .map_err(Error::Io)?
                    .single_frame();
                frame.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(Error::Io)?;
                parse(&mut frame, &limits, visitor, whole)
            }
            Format::Plain => parse(&mut self.input, &limits, visitor, Extent::Plain),
        };
        let parsed = parsed.map_err(|error| classify(error, offset))?;
        if let Some(length) = known.filter(|_| parsed.is_cut) {
            let skipped = self.input.skip_to(offset.saturating_add(length));
            skipped.map_err(|error| classify(error, offset))?;
        }
        Ok(Some(Record {
            offset,
            length: self.input.offset - offset,
            header: parsed.header,
            block_len: parsed.block_len,
            separator: parsed.separator,
            shares_member: parsed.shares_member,
        }))
    }

    /// Skips frames without records (a dictionary, usually). Returns whether there was one.
    fn skip_frames(&mut self) -> io::Result<bool> {
        if !is_skippable(self.input.peek(MAGIC_BYTES)?) {
            return Ok(false);
        }
        let mut head = [0; 8];
        self.input.read_exact(&mut head)?;
        let size = u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        if io::copy(&mut Read::take(&mut self.input, size), &mut io::sink())? < size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(true)
    }
}

/// Reads one record of a file, at an offset from an index, with a block of at most `block_bytes_max` bytes.
pub fn read_at(
    path: &Path,
    offset: u64,
    length: u64,
    block_bytes_max: u64,
) -> Result<(Record, Vec<u8>), Error> {
    let mut file = File::open(path).map_err(Error::Io)?;
    file.seek(SeekFrom::Start(offset)).map_err(Error::Io)?;
    let limits = Limits { record_bytes_max: block_bytes_max.saturating_add(64 * 1024), ..Limits::default() };
    let mut reader = Reader::with_limits(file.take(length), offset, limits);
    let mut block = Collect(Vec::new());
    let record = reader.read(&mut block)?.ok_or(Error::NotWarc { offset })?;
    Ok((record, block.0))
}

/// Reads any bytes, to the end or the first error. For the fuzzer: must neither panic nor hang.
pub fn fuzz_read(bytes: &[u8]) -> usize {
    let limits = Limits { head_bytes_max: 4 * 1024, record_bytes_max: 1024 * 1024 };
    let mut reader = Reader::with_limits(bytes, 0, limits);
    let mut records = 0;
    while let Ok(Some(record)) = reader.read(&mut ()) {
        assert!(record.length > 0, "a record takes bytes, so this ends");
        let _ = record.header.get("WARC-Type");
        records += 1;
    }
    // Lengths of an index may be anything.
    let mut reader = Reader::with_limits(bytes, 0, limits);
    let mut lengths = bytes.iter().cycle().map(|byte| u64::from(*byte) << (byte & 15));
    while let Ok(Some(record)) = reader.read_known(&mut Nothing, lengths.next().unwrap_or_default()) {
        assert!(record.length > 0, "a record takes bytes, so this ends");
    }
    records
}

/// Wants nothing of a block.
struct Nothing;

impl Visitor for Nothing {
    fn header(&mut self, _: &Header) {}
    fn block(&mut self, _: &[u8]) {}
    fn is_done(&self) -> bool {
        true
    }
}

/// Collects a block.
#[derive(Debug, Default)]
pub struct Collect(pub Vec<u8>);

impl Visitor for Collect {
    fn header(&mut self, _: &Header) {}

    fn block(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}

/// Bytes needed to detect the compression of a record: `WARC/`.
const MAGIC_BYTES: usize = 5;
/// 8 MiB of window, which the Zstandard format asks every reader to support.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

struct Parsed {
    header: Header,
    block_len: u64,
    separator: bool,
    shares_member: bool,
    /// Whether the visitor wanted no more.
    is_cut: bool,
}

/// What a stream holds, and how far it is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// Nothing but the record, which is read to its end. This also verifies its checksum.
    Member,
    /// Nothing but the record, which is read as far as the visitor wants.
    Wanted,
    /// Other records follow.
    Plain,
}

/// Reads one record from its uncompressed bytes.
fn parse(
    input: &mut dyn Read,
    limits: &Limits,
    visitor: &mut dyn Visitor,
    extent: Extent,
) -> io::Result<Parsed> {
    let alone = extent != Extent::Plain;
    let mut input = Bounded { inner: input, left: limits.record_bytes_max };
    // Byte by byte is slow through a decoder, and a plain stream must not be read too far: so a member is read in
    // pieces and its remainder kept, a plain stream line by line.
    let mut buffer = match extent {
        Extent::Member => vec![0; 8 * 1024],
        Extent::Wanted => vec![0; 2 * 1024],
        Extent::Plain => vec![0],
    };
    let mut head = Vec::with_capacity(1024);
    let end = loop {
        let n = input.read(&mut buffer)?;
        if n == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ends inside a head"));
        }
        let seen = head.len().saturating_sub(3);
        head.extend_from_slice(&buffer[..n]);
        if let Some(end) = header::end(&head, seen) {
            break end;
        }
        if head.len() > limits.head_bytes_max {
            return Err(invalid("its head is too long"));
        }
    };
    if end > limits.head_bytes_max {
        return Err(invalid("its head is too long"));
    }
    let header = Header::parse(&head[..end]).map_err(invalid)?;
    visitor.header(&header);
    let wanted = header.content_length().ok_or_else(|| invalid("it has no usable Content-Length"))?;
    let mut pending = &head[end..];
    // Most records end in the first piece.
    let mut piece = Vec::new();
    let mut block_len = 0;
    while block_len < wanted {
        let left = usize::try_from(wanted - block_len).unwrap_or(usize::MAX);
        if !pending.is_empty() {
            let (now, later) = pending.split_at(left.min(pending.len()));
            visitor.block(now);
            block_len += now.len() as u64;
            pending = later;
            continue;
        }
        if extent == Extent::Wanted && visitor.is_done() {
            return Ok(Parsed { header, block_len, separator: false, shares_member: false, is_cut: true });
        }
        piece.resize(if alone { 32 * 1024 } else { 16 * 1024 }, 0);
        let room = left.min(piece.len());
        let n = input.read(&mut piece[..room])?;
        if n == 0 {
            break;
        }
        visitor.block(&piece[..n]);
        block_len += n as u64;
    }
    if block_len < wanted && !alone {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ends inside a block"));
    }
    let mut tail = pending[..pending.len().min(5)].to_vec();
    let mut shares_member = pending.len() > 4;
    let wanted_tail = if alone { 5 } else { 4 };
    while tail.len() < wanted_tail {
        let room = wanted_tail - tail.len();
        let mut more = [0; 5];
        match input.read(&mut more[..room])? {
            0 => break,
            n => tail.extend_from_slice(&more[..n]),
        }
    }
    if alone {
        shares_member |= tail.len() > 4;
        while input.read(&mut buffer)? > 0 {}
    } else if tail.len() < 4 && b"\r\n\r\n".starts_with(&tail) {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the stream ends inside a separator"));
    }
    let separator = block_len == wanted && tail.starts_with(b"\r\n\r\n");
    Ok(Parsed { header, block_len, separator, shares_member, is_cut: false })
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn classify(error: io::Error, offset: u64) -> Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => Error::Torn { offset },
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
            // The zstd binding reports an incomplete frame as "other".
            if error.to_string().contains("incomplete frame") {
                Error::Torn { offset }
            } else {
                Error::Damaged { offset, why: error.to_string() }
            }
        }
        _ => Error::Io(error),
    }
}

/// Fails at the limit instead of delivering more bytes.
struct Bounded<'a> {
    inner: &'a mut dyn Read,
    left: u64,
}

impl Read for Bounded<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        self.left = self.left.checked_sub(n as u64).ok_or_else(|| invalid("it is larger than allowed"))?;
        Ok(n)
    }
}
