//! Undoing content codings, within limits, whatever the server made of them.
//!
//! What can be read is given, and what went wrong is told beside it: a cut stream gives its first part, a wrong
//! checksum gives everything, a body that is not what it claims to be is given as it is. Output is counted inside
//! the decoder's own loop, so that a bomb stops at the limit and never in memory.
//!
//! Work is counted too (`meter.rs`): what each layer reads, what it reads without giving anything for it, and, every so many
//! bytes, the clock of whoever asked.
//!
//! [`decode`] undoes what `Content-Encoding` says. [`unpack`] undoes the gzip of a file that is one by itself.

mod meter;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::rc::Rc;

use nephila_core::handler::sniff;
use nephila_core::spider::coding::{Coding, Codings};

pub use meter::{BARREN_BYTES_MAX, LAYER_BYTES_MAX, Stop};
use meter::{Meter, Metered};

/// zstd windows up to 8 MiB, which is what a server may use (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
const BUFFER_BYTES: usize = 32 * 1024;
/// Enough to tell codings apart.
const START_BYTES: usize = 4;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How the decoding went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Everything was undone.
    Whole,
    /// The coded stream ends early; the first part was given.
    Cut,
    /// The coded stream is damaged or has bytes behind its end; what could be read was given.
    Damaged,
    /// The body is not coded as it says; it was given as it is.
    Plain,
    /// The output reached its limit.
    Limit,
    /// A layer below the last reached its limit, the stream went on without giving anything, or the work was stopped; what
    /// came before was given.
    Work,
    /// Time was up; what came before was given.
    Time,
    /// The stream wants a larger window than it gets.
    Window,
    /// The field names codings that nobody knows (`none`, `utf-8`); they were ignored and the body was given as it is.
    Unknown,
}

impl Note {
    /// The note as one word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Note::Whole => "whole",
            Note::Cut => "cut",
            Note::Damaged => "damaged",
            Note::Plain => "plain",
            Note::Limit => "limit",
            Note::Work => "work",
            Note::Time => "time",
            Note::Window => "window",
            Note::Unknown => "unknown",
        }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes given to the sink.
    pub bytes: u64,
    /// How it went.
    pub note: Note,
}

/// Undoes `codings` of what `open` reads and writes at most `limit` bytes to `sink`. `open` may be called again when
/// a first guess (zlib or raw deflate) was wrong. `stop` is asked every few thousand bytes of work, of whatever layer. An
/// error is the sink's or the reader's own, never the data's.
pub fn decode<'a>(
    codings: &Codings,
    open: impl Fn() -> io::Result<Box<dyn Read + Send + 'a>>,
    limit: u64,
    stop: &'a dyn Fn() -> Stop,
    sink: &mut dyn Write,
) -> io::Result<Decoded> {
    let mut guess = Guess::AsSaid;
    loop {
        let meter = Meter::new(codings.undo.len(), limit, stop);
        let faults = Faults::default();
        let mut source: Box<dyn BufRead + 'a> = Box::new(BufReader::with_capacity(
            BUFFER_BYTES,
            Outermost { inner: open()?, faults: faults.clone(), late: None },
        ));
        let mut plain = guess == Guess::Plain;
        for (layer, coding) in codings.undo.iter().enumerate().filter(|_| guess != Guess::Plain) {
            let raw = layer == 0 && guess == Guess::RawDeflate;
            let (next, is_plain) = undo(*coding, source, raw, (layer, &meter))?;
            plain |= is_plain;
            source = next;
        }
        let decoded = copy(source, limit, sink, &faults, &meter)?;
        // Nothing was given yet, so another guess costs nothing.
        if decoded.bytes == 0 && matches!(decoded.note, Note::Damaged | Note::Cut) {
            match (guess, codings.undo.as_slice()) {
                // A raw deflate stream can look like zlib.
                (Guess::AsSaid, [Coding::Deflate, ..]) => {
                    guess = Guess::RawDeflate;
                    continue;
                }
                // Neither has a magic number that could be missing, so here it takes a failure to see a plain page.
                (Guess::AsSaid | Guess::RawDeflate, [Coding::Deflate | Coding::Brotli])
                    if begins_as_text(open()?)? =>
                {
                    guess = Guess::Plain;
                    continue;
                }
                _ => {}
            }
        }
        let note = if plain && decoded.note == Note::Whole { Note::Plain } else { decoded.note };
        return Ok(Decoded { note, ..decoded });
    }
}

/// Undoes the gzip of a file that is gzip by itself (`sitemap.xml.gz`), once, up to `limit` bytes. This comes after
/// the content codings. `None`: the bytes are no such file.
pub fn unpack(file: &[u8], limit: u64) -> Option<(Vec<u8>, Note)> {
    if !file.starts_with(&GZIP_MAGIC) {
        return None;
    }
    let mut unpacked = Vec::new();
    let codings = Codings { undo: vec![Coding::Gzip], ignored: 0 };
    let decoded = decode(&codings, || Ok(Box::new(file)), limit, &|| Stop::GoOn, &mut unpacked).ok()?;
    Some((unpacked, decoded.note))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Guess {
    AsSaid,
    RawDeflate,
    Plain,
}

fn begins_as_text(reader: Box<dyn Read + Send + '_>) -> io::Result<bool> {
    let mut start = Vec::with_capacity(sniff::SNIFF_BYTES_MAX);
    reader.take(sniff::SNIFF_BYTES_MAX as u64).read_to_end(&mut start)?;
    Ok(!start.is_empty() && sniff::sniff([], &start).kind.is_text())
}

/// One layer. The second value says that the data is not coded as claimed and passes through.
fn undo<'a>(
    coding: Coding,
    source: Box<dyn BufRead + 'a>,
    raw: bool,
    (layer, meter): (usize, &Rc<Meter<'a>>),
) -> io::Result<(Box<dyn BufRead + 'a>, bool)> {
    let (start, source) = peek(source);
    if start.is_empty() {
        return Ok((source, false));
    }
    let source: Box<dyn BufRead + 'a> = Box::new(Metered::new(source, layer, meter.clone()));
    let reader: Box<dyn Read + 'a> = match coding {
        Coding::Gzip if !start.starts_with(&GZIP_MAGIC) && start.len() >= 2 => return Ok((source, true)),
        Coding::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(source)),
        Coding::Deflate if raw || !looks_like_zlib(&start) => {
            Box::new(flate2::bufread::DeflateDecoder::new(source))
        }
        Coding::Deflate => Box::new(flate2::bufread::ZlibDecoder::new(source)),
        Coding::Brotli => Box::new(brotli_decompressor::Decompressor::new(NoEnd(source), BUFFER_BYTES)),
        Coding::Zstd if !is_zstd(&start) => return Ok((source, true)),
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(source)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            Box::new(decoder)
        }
    };
    Ok((Box::new(BufReader::with_capacity(BUFFER_BYTES, reader)), false))
}

/// The first bytes, and a reader that still gives them. The layer below may hand out one byte at a time, so what it
/// happens to hold is not enough to tell one coding from another.
fn peek<'a>(mut source: Box<dyn BufRead + 'a>) -> (Vec<u8>, Box<dyn BufRead + 'a>) {
    let mut start = Vec::with_capacity(START_BYTES);
    let error = (&mut source).take(START_BYTES as u64).read_to_end(&mut start).err();
    let again = io::Cursor::new(start.clone());
    let rest: Box<dyn BufRead + 'a> = match error {
        None => Box::new(again.chain(source)),
        Some(error) => Box::new(again.chain(BufReader::new(Broken(Some(error))))),
    };
    (start, rest)
}

/// Gives the error that was met while peeking.
struct Broken(Option<io::Error>);

impl Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// RFC 1950: method 8, and the two bytes together divide by 31.
fn looks_like_zlib(start: &[u8]) -> bool {
    start.len() >= 2 && start[0] & 0x0f == 8 && u16::from_be_bytes([start[0], start[1]]).is_multiple_of(31)
}

/// A frame, or a skippable frame in front of one.
fn is_zstd(start: &[u8]) -> bool {
    start.len() < 4
        || start.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || (start[0] & 0xf0 == 0x50 && start[1..4] == [0x2a, 0x4d, 0x18])
}

fn copy(
    mut source: Box<dyn BufRead + '_>,
    limit: u64,
    sink: &mut dyn Write,
    faults: &Faults,
    meter: &Meter<'_>,
) -> io::Result<Decoded> {
    let mut bytes = 0;
    loop {
        let piece = match source.fill_buf() {
            Ok([]) => return Ok(Decoded { bytes, note: meter.stopped().unwrap_or(Note::Whole) }),
            Ok(piece) => piece,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                if let Some(ours) = faults.take() {
                    return Err(ours);
                }
                let note = meter.stopped().unwrap_or_else(|| match error.kind() {
                    io::ErrorKind::UnexpectedEof => Note::Cut,
                    _ if wants_larger_window(&error) => Note::Window,
                    _ => Note::Damaged,
                });
                return Ok(Decoded { bytes, note });
            }
        };
        let room = usize::try_from(limit - bytes).unwrap_or(usize::MAX);
        let given = piece.len().min(room);
        sink.write_all(&piece[..given])?;
        bytes += given as u64;
        if given < piece.len() {
            return Ok(Decoded { bytes, note: Note::Limit });
        }
        source.consume(given);
        if let Some(note) = meter.gave(given) {
            return Ok(Decoded { bytes, note });
        }
    }
}

/// The zstd binding has a message for this and no kind.
fn wants_larger_window(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Other && error.to_string().contains("too much memory")
}

/// Input whose end is an error: the brotli decoder asks for more only inside a stream, and calls the end of input
/// damage like any other.
struct NoEnd<R>(R);

impl<R: Read> Read for NoEnd<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf)? {
            0 if !buf.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}

/// Errors of the reader itself, told apart from errors of the data that the decoders find.
#[derive(Clone, Default)]
struct Faults(Rc<std::cell::Cell<Option<io::Error>>>);

impl Faults {
    fn take(&self) -> Option<io::Error> {
        self.0.take()
    }
}

/// The body as it was received. It fills what it is given, so that the decoders see the same pieces however the bytes
/// arrived: some of them give nonsense first and fail later when they get little at a time.
struct Outermost<'a> {
    inner: Box<dyn Read + Send + 'a>,
    faults: Faults,
    /// Met behind bytes that could still be given.
    late: Option<io::Error>,
}

impl Read for Outermost<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buf.len() && self.late.is_none() {
            match self.inner.read(&mut buf[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.late = Some(error),
            }
        }
        match self.late.take_if(|_| filled == 0) {
            None => Ok(filled),
            Some(error) => {
                let kind = error.kind();
                self.faults.0.set(Some(error));
                Err(io::Error::from(kind))
            }
        }
    }
}

#[cfg(test)]
mod tests;
