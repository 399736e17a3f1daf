//! Packs records that are held in memory, each as a member of its own.

use std::io::{self, Write};

use libdeflater::{CompressionLvl, Compressor, Crc};

use super::settings::Compression;
use crate::deflate::{Deflater, Stream};

/// The head of a gzip member (RFC 1952): deflate, no name, no time, fast compression, no particular system.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// Shorter parts are never dense: see [`is_dense`].
const DENSE_BYTES_MIN: usize = 1024;
/// Bytes of a long member that are compressed at once.
const PIECE_BYTES: usize = 1024 * 1024;
/// Bytes that [`is_dense`] looks at.
const SAMPLE_BYTES: usize = 1024;

/// Compresses records held in memory, each as a member of its own.
pub struct Packer {
    engine: Engine,
    plain: Vec<u8>,
}

enum Engine {
    /// gzip at level 1.
    Fast(Box<Deflater>),
    Gzip(Compressor),
    Zstd(zstd::bulk::Compressor<'static>),
    None,
}

impl Packer {
    /// A packer at this level.
    pub fn new(compression: Compression) -> io::Result<Self> {
        let engine = match compression {
            Compression::Gzip { level: 1 } => Engine::Fast(Box::new(Deflater::new())),
            Compression::Gzip { level } => {
                let level = CompressionLvl::new(i32::from(level))
                    .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "no such gzip level"))?;
                Engine::Gzip(Compressor::new(level))
            }
            Compression::Zstd { level } => {
                let mut compressor = zstd::bulk::Compressor::new(i32::from(level))?;
                compressor.include_checksum(true)?;
                Engine::Zstd(compressor)
            }
            Compression::None => Engine::None,
        };
        Ok(Packer { engine, plain: Vec::new() })
    }

    /// Appends these pieces as one member.
    pub fn pack(&mut self, parts: &[&[u8]], out: &mut Vec<u8>) -> io::Result<()> {
        if matches!(self.engine, Engine::None) {
            parts.iter().for_each(|part| out.extend_from_slice(part));
            return Ok(());
        }
        self.plain.clear();
        if let Engine::Fast(deflater) = &mut self.engine {
            pack_fast(deflater, &mut self.plain, parts, out);
            return Ok(());
        }
        parts.iter().for_each(|part| self.plain.extend_from_slice(part));
        let start = out.len();
        match &mut self.engine {
            Engine::Gzip(compressor) => {
                out.resize(start + compressor.gzip_compress_bound(self.plain.len()), 0);
                let written = compressor
                    .gzip_compress(&self.plain, &mut out[start..])
                    .map_err(|_| io::Error::other("gzip: the output did not fit its bound"))?;
                out.truncate(start + written);
            }
            Engine::Zstd(compressor) => {
                out.resize(start + zstd::zstd_safe::compress_bound(self.plain.len()), 0);
                let written = compressor.compress_to_buffer(&self.plain, &mut out[start..])?;
                out.truncate(start + written);
            }
            Engine::Fast(_) | Engine::None => {}
        }
        Ok(())
    }
}

/// Appends a gzip member. Parts that do not compress are copied; the others are compressed together, in `plain`.
fn pack_fast(deflater: &mut Deflater, plain: &mut Vec<u8>, parts: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(&GZIP_HEAD);
    let mut crc = Crc::new();
    let mut len = 0_u32;
    let mut stream = Stream::new(out);
    for part in parts {
        crc.update(part);
        // The field has the length modulo 2^32.
        len = len.wrapping_add(part.len() as u32);
        if is_dense(part) {
            if !plain.is_empty() {
                deflater.append(plain, false, &mut stream);
                plain.clear();
            }
            stream.stored(part, false);
        } else {
            plain.extend_from_slice(part);
        }
    }
    deflater.append(plain, true, &mut stream);
    stream.finish();
    out.extend_from_slice(&crc.sum().to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
}

/// A gzip member at level 1 of any length, compressed in pieces while it is written.
pub(super) struct LongMember<W> {
    out: W,
    deflater: Deflater,
    crc: Crc,
    len: u32,
    plain: Vec<u8>,
    packed: Vec<u8>,
}

impl<W: Write> LongMember<W> {
    pub(super) fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&GZIP_HEAD)?;
        let plain = Vec::with_capacity(PIECE_BYTES);
        Ok(LongMember { out, deflater: Deflater::new(), crc: Crc::new(), len: 0, plain, packed: Vec::new() })
    }

    /// Writes what is left, and the end of the member.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.write_piece(true)?;
        self.out.write_all(&self.crc.sum().to_le_bytes())?;
        self.out.write_all(&self.len.to_le_bytes())
    }

    fn write_piece(&mut self, is_end: bool) -> io::Result<()> {
        self.crc.update(&self.plain);
        self.len = self.len.wrapping_add(self.plain.len() as u32);
        self.packed.clear();
        let mut stream = Stream::new(&mut self.packed);
        match is_dense(&self.plain) {
            true => stream.stored(&self.plain, is_end),
            false => self.deflater.append(&self.plain, is_end, &mut stream),
        }
        if !is_end {
            // An empty stored block ends at a whole byte, where the next piece can begin.
            stream.stored(b"", false);
        }
        stream.finish();
        self.plain.clear();
        self.out.write_all(&self.packed)
    }
}

impl<W: Write> Write for LongMember<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = bytes.len().min(PIECE_BYTES - self.plain.len());
        self.plain.extend_from_slice(&bytes[..count]);
        if self.plain.len() == PIECE_BYTES {
            self.write_piece(false)?;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whether these bytes look like coded ones: a body that came compressed, a picture, a video.
///
/// In coded bytes all values come about equally often. Of two bytes of a sample one in 256 pairs is equal then, of text
/// or markup more than one in 30. The sample comes from four places, since formats begin with tables.
fn is_dense(bytes: &[u8]) -> bool {
    if bytes.len() < DENSE_BYTES_MIN {
        return false;
    }
    let mut counts = [0_u32; 256];
    let piece = SAMPLE_BYTES / 4;
    for place in 0..4 {
        let from = (bytes.len() - piece) / 3 * place;
        bytes[from..from + piece].iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    }
    let equal: usize = counts.iter().map(|count| (*count * count.saturating_sub(1)) as usize).sum();
    256 * equal < SAMPLE_BYTES * SAMPLE_BYTES * 5 / 4
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Bytes in which each value is as likely as any other.
    fn coded(len: usize) -> Vec<u8> {
        let mut state = 7_u64;
        let mut step = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        };
        std::iter::repeat_with(&mut step).take(len).collect()
    }

    fn packed(packer: &mut Packer, parts: &[&[u8]]) -> Vec<u8> {
        let mut out = b"before".to_vec();
        packer.pack(parts, &mut out).unwrap();
        assert_eq!(&out[..6], b"before");
        out.split_off(6)
    }

    #[test]
    fn a_member_of_each_compression_is_read_by_others() {
        let text = b"<p>some text of a page</p>\n".repeat(900);
        let parts: [&[u8]; 4] = [b"WARC/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", &text, b"\r\n\r\n"];
        for level in [1, 2, 6, 12] {
            let mut packer = Packer::new(Compression::Gzip { level }).unwrap();
            let member = packed(&mut packer, &parts);
            let mut read = Vec::new();
            flate2::read::GzDecoder::new(&member[..]).read_to_end(&mut read).unwrap();
            assert!(read == parts.concat(), "gzip:{level}");
            assert!(member.len() < text.len() / 20, "gzip:{level}");
        }
        let mut packer = Packer::new(Compression::Zstd { level: 3 }).unwrap();
        assert!(zstd::decode_all(&packed(&mut packer, &parts)[..]).unwrap() == parts.concat());
    }

    #[test]
    fn a_body_that_came_coded_is_copied() {
        let mut packer = Packer::new(Compression::Gzip { level: 1 }).unwrap();
        for len in [DENSE_BYTES_MIN, 6_000, 66_000, 400_000] {
            let (head, body) = (b"WARC-Type: response\r\n".repeat(20), coded(len));
            let parts: [&[u8]; 3] = [&head, &body, b"\r\n\r\n"];
            let member = packed(&mut packer, &parts);
            assert!(memchr::memmem::find(&member, &body[..1_000]).is_some(), "{len}");
            let mut read = Vec::new();
            flate2::read::GzDecoder::new(&member[..]).read_to_end(&mut read).unwrap();
            assert!(read == parts.concat());
            let mut read = vec![0; read.len()];
            libdeflater::Decompressor::new().gzip_decompress(&member, &mut read).unwrap();
            assert!(read == parts.concat());
        }
    }

    #[test]
    fn a_long_member_is_read_by_others() {
        let text = b"<td>a row of a large table</td>\n".repeat(90_000);
        for len in [0, 1, PIECE_BYTES, text.len()] {
            let mut member = Vec::new();
            let mut long = LongMember::new(&mut member).unwrap();
            let noise = coded(len);
            let parts: [&[u8]; 4] = [b"WARC/1.1\r\n\r\n", &text[..len], &noise, b"\r\n\r\n"];
            parts.iter().for_each(|part| long.write_all(part).unwrap());
            long.finish().unwrap();
            let mut read = Vec::new();
            flate2::read::GzDecoder::new(&member[..]).read_to_end(&mut read).unwrap();
            assert!(read == parts.concat(), "{len}");
        }
    }

    #[test]
    fn dense_is_what_does_not_compress() {
        let text = "Ein Satz auf Deutsch, and one in English; 一句中文，以及日本語の文章。 ".repeat(40);
        let json = "{\"id\":12345,\"name\":\"x\"},".repeat(100);
        let hex = coded(1_000).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        for bytes in [text.as_bytes(), json.as_bytes(), hex.as_bytes(), &[0; 4_000], b"", &coded(500)] {
            assert!(!is_dense(bytes));
        }
        let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        for number in 0..20_000_u32 {
            zipped.write_all(number.wrapping_mul(0x9e37_79b1).to_string().as_bytes()).unwrap();
        }
        assert!(is_dense(&zipped.finish().unwrap()));
        assert!(is_dense(&coded(1_024)));
    }
}
