//! Decodes content codings, within limits, whatever the server sent.
//!
//! The decoder delivers all readable bytes and reports faults in a note. A cut stream delivers its first part, a wrong
//! checksum delivers everything, and a body without the claimed coding is delivered unchanged. Output is counted inside
//! the decoder's own loop, so a decompression bomb stops at the limit and never in memory.
//!
//! Work is counted too (`meter.rs`): the input of each layer, the input since the last output, and at regular intervals
//! the caller's deadline and CPU limit.
//!
//! [`decode`] decodes the codings of `Content-Encoding`; [`at_once()`] is a short way for most bodies. [`unpack`] decodes a
//! file that is itself gzip.

mod at_once;
mod meter;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::rc::Rc;

use nephila_core::handler::sniff;
use nephila_core::spider::coding::{Coding, Codings};

pub use at_once::at_once;
pub use meter::{BARREN_BYTES_MAX, LAYER_BYTES_MAX, Stop};
use meter::{Meter, Metered};

/// zstd windows up to 8 MiB, the maximum for servers (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
const BUFFER_BYTES: usize = 32 * 1024;
/// Enough to tell codings apart.
const START_BYTES: usize = 4;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Result of decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// Everything was decoded.
    Whole,
    /// The coded stream ends early; the first part was delivered.
    Cut,
    /// The coded stream is damaged or has bytes after its end; the readable part was delivered.
    Damaged,
    /// The body does not have the claimed coding; the body was delivered unchanged.
    Plain,
    /// The output reached its limit.
    Limit,
    /// A layer below the last reached its limit, the stream went on without output, or the caller stopped the work; the
    /// part before was delivered.
    Work,
    /// The deadline passed; the part before was delivered.
    Time,
    /// The stream needs a larger window than allowed.
    Window,
    /// The header field names unknown codings (`none`, `utf-8`), which were ignored; the body was delivered unchanged.
    Unknown,
}

impl Note {
    /// All notes.
    pub const ALL: [Note; 9] = [
        Note::Whole,
        Note::Cut,
        Note::Damaged,
        Note::Plain,
        Note::Limit,
        Note::Work,
        Note::Time,
        Note::Window,
        Note::Unknown,
    ];

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

/// Result and size of a decoded body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes written to the sink.
    pub bytes: u64,
    /// The result.
    pub note: Note,
}

/// Decodes `codings` of the bytes from `open` and writes at most `limit` bytes to `sink`. `open` is called again when a
/// first guess (zlib or raw deflate) was wrong. `stop` is called every 64 KiB of work, over all layers. An error comes
/// from the sink or the reader, never from the data.
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
        // No output yet, so another guess costs nothing.
        if decoded.bytes == 0 && matches!(decoded.note, Note::Damaged | Note::Cut) {
            match (guess, codings.undo.as_slice()) {
                // A raw deflate stream can look like zlib.
                (Guess::AsSaid, [Coding::Deflate, ..]) => {
                    guess = Guess::RawDeflate;
                    continue;
                }
                // Neither coding has a magic number, so only a failure reveals a plain page.
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

/// Decodes a file that is itself gzip (`sitemap.xml.gz`), once, up to `limit` bytes. This comes after the content
/// codings. Returns `None` if the bytes are not gzip.
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

/// Decodes one layer. The second value tells that the data lacks the claimed coding and passes through.
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

/// Returns the first bytes, and a reader that still delivers them. The layer below may deliver one byte at a time, so
/// its current buffer is not enough to tell one coding from another.
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

/// Returns an error that occurred while peeking.
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

/// A frame, or a skippable frame before a frame.
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

/// The zstd binding has a message for this and no error kind.
fn wants_larger_window(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Other && error.to_string().contains("too much memory")
}

/// Input whose end is an error: the brotli decoder requests more only inside a stream, and reports the end of input as
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

/// Errors of the reader, kept apart from errors that the decoders find in the data.
#[derive(Clone, Default)]
struct Faults(Rc<std::cell::Cell<Option<io::Error>>>);

impl Faults {
    fn take(&self) -> Option<io::Error> {
        self.0.take()
    }
}

/// The body as received. Each read fills the whole buffer, so that the decoders see the same pieces however the bytes
/// arrived: with little input at a time some decoders deliver garbage first and fail later.
struct Outermost<'a> {
    inner: Box<dyn Read + Send + 'a>,
    faults: Faults,
    /// An error that occurred after bytes that are still deliverable.
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
