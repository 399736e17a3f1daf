//! CMP-01 to CMP-13: bombs and broken codings.
//!
//! A bomb is never made from its contents: a few bytes that expand to a known run are repeated on the wire, so a
//! terabyte costs us nothing. Invariant: no bomb takes more memory than [`Bombs`] holds, a few kilobytes.

use std::io::{self, Write};
use std::sync::OnceLock;

use super::Case;
use super::conn::{Conn, Head, Next, not_found, page, response};
use super::good::{brotli, gzip, html, raw_deflate, zlib};

pub(super) const CASES: &[Case] = &[
    Case::http("cmp-01", &[("/", "1 MB of gzip that becomes 1 GB"), ("/endless", "the same without an end")]),
    Case::http("cmp-02", &[("/", "under 1 KB of brotli that becomes 1 GB"), ("/endless", "without an end")]),
    Case::http(
        "cmp-03",
        &[
            ("/window", "a zstd frame with a 2 GB window"),
            ("/1g", "32 KB that become 1 GB"),
            ("/terabytes", "64 MB that become 2 TB"),
        ],
    ),
    Case::http(
        "cmp-04",
        &[
            ("/layers", "200 gzip layers, named in one field"),
            ("/lines", "200 layers over 200 fields"),
            ("/two", "two real layers"),
            ("/lie", "200 layers named, one present"),
        ],
    ),
    Case::http(
        "cmp-05",
        &[("/", "gzip cut in the middle, length correct"), ("/br", "brotli cut"), ("/zstd", "zstd cut")],
    ),
    Case::http(
        "cmp-06",
        &[
            ("/garbage", "noise after the trailer"),
            ("/crc", "wrong CRC"),
            ("/length", "wrong length"),
            ("/zeros", "zeros after it"),
        ],
    ),
    Case::http(
        "cmp-07",
        &[("/", "gzip in the header, plain bytes"), ("/br", "br in the header, plain bytes")],
    ),
    Case::http(
        "cmp-08",
        &[("/", "an empty body as gzip"), ("/204", "204 with the field"), ("/304", "304 with the field")],
    ),
    Case::http("cmp-09", &[("/", "three gzip members"), ("/many", "5,000 members of one byte")]),
    Case::http("cmp-10", &[("/raw", "raw deflate"), ("/zlib", "zlib")]),
    Case::http(
        "cmp-11",
        &[
            ("/xgzip", "x-gzip"),
            ("/utf8", "Content-Encoding: UTF-8"),
            ("/none", "none"),
            ("/unknown", "lzma2"),
            ("/case", "GZip"),
        ],
    ),
    Case::http("cmp-12", &[("/", "brotli whatever was asked for"), ("/zstd", "zstd whatever was asked for")]),
    Case::http(
        "cmp-13",
        &[
            ("/sitemap.xml.gz", "a gzip sitemap, gzip again on the way"),
            ("/page.tgz", "a .tgz as application/gzip"),
        ],
    ),
];

/// Decoded size of a bomb in bytes.
const BOMB_BYTES: u64 = 1 << 30;
/// One piece of the gzip bomb becomes this much.
const GZIP_PIECE: usize = 1 << 20;
/// One metablock of the brotli bomb becomes this much, the most the format allows.
const BROTLI_PIECE: u64 = 1 << 24;
/// One RLE block of zstd becomes this much, the most the format allows.
const ZSTD_PIECE: u64 = 128 * 1024;
/// Wire bytes of the bombs without an end.
const ENDLESS_WIRE_BYTES: u64 = 64 * 1024 * 1024;
const LAYERS: usize = 200;

/// Pieces of bombs, made once.
#[derive(Debug, Default)]
pub(super) struct Bombs {
    gzip: OnceLock<Vec<u8>>,
}

pub(super) async fn answer(conn: &mut Conn, head: &Head) -> io::Result<Next> {
    match (conn.id(), head.path.as_str()) {
        ("cmp-01", path) => {
            let piece = conn.shared.bombs.gzip.get_or_init(gzip_piece).clone();
            let pieces = BOMB_BYTES / GZIP_PIECE as u64;
            start(conn, "gzip").await?;
            conn.send(GZIP_HEAD).await?;
            if path == "/endless" {
                conn.repeat_up_to(&piece, ENDLESS_WIRE_BYTES).await?;
            } else {
                conn.repeat_up_to(&piece, pieces * piece.len() as u64).await?;
                conn.send(gzip_tail(pieces)).await?;
            }
            Ok(Next::Close)
        }
        ("cmp-02", path) => {
            start(conn, "br").await?;
            if path == "/endless" {
                // Pieces end inside a byte, so runs of eight, which end at a byte boundary, are repeated.
                let mut bits = Bits::default();
                bits.push(BROTLI_WINDOW.0, BROTLI_WINDOW.1);
                // Four bits of header would shift every run; an empty metadata block realigns to a byte.
                brotli_padding(&mut bits);
                conn.send(bits.bytes).await?;
                let mut run = Bits::default();
                brotli_piece(&mut run);
                brotli_padding(&mut run);
                conn.repeat_up_to(&run.bytes, ENDLESS_WIRE_BYTES).await?;
            } else {
                conn.send(brotli_bomb(BOMB_BYTES / BROTLI_PIECE)).await?;
            }
            Ok(Next::Close)
        }
        ("cmp-03", path) => {
            start(conn, "zstd").await?;
            match path {
                "/window" => conn.send(zstd_head(31)).await?,
                _ => conn.send(zstd_head(20)).await?,
            }
            let block = zstd_block(false);
            let blocks = match path {
                "/terabytes" => ENDLESS_WIRE_BYTES / block.len() as u64,
                _ => BOMB_BYTES / ZSTD_PIECE - 1,
            };
            // A kilobyte at a time: four bytes per write would be all overhead.
            conn.repeat_up_to(&block.repeat(256), blocks * block.len() as u64).await?;
            conn.send(zstd_block(true)).await?;
            Ok(Next::Close)
        }
        ("cmp-08", "/204") => {
            conn.send("HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n").await?;
            Ok(Next::Keep)
        }
        ("cmp-08", "/304") => {
            conn.send("HTTP/1.1 304 Not Modified\r\nContent-Encoding: gzip\r\nETag: \"e\"\r\n\r\n").await?;
            Ok(Next::Keep)
        }
        (id, path) => {
            conn.send(fixed(id, path).unwrap_or_else(not_found)).await?;
            Ok(Next::Keep)
        }
    }
}

async fn start(conn: &mut Conn, coding: &str) -> io::Result<()> {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Encoding";
    conn.send(format!("{head}: {coding}\r\n\r\n")).await
}

fn coded(coding: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    response("200 OK", &format!("Content-Type: text/html\r\nContent-Encoding: {coding}\r\n"), body)
}

fn layers(count: usize) -> Vec<u8> {
    (0..count).fold(html().into_bytes(), |body, _| gzip(&body))
}

fn half(bytes: Vec<u8>) -> Vec<u8> {
    let half = bytes.len() / 2;
    bytes[..half].to_vec()
}

fn fixed(id: &str, path: &str) -> Option<Vec<u8>> {
    let html = html();
    let html = html.as_bytes();
    let zstd = || zstd::encode_all(html, 3).expect("memory does not fail");
    Some(match (id, path) {
        ("cmp-04", "/layers") => coded(&vec!["gzip"; LAYERS].join(", "), layers(LAYERS)),
        ("cmp-04", "/lines") => {
            let lines = "Content-Encoding: gzip\r\n".repeat(LAYERS);
            response("200 OK", &format!("Content-Type: text/html\r\n{lines}"), layers(LAYERS))
        }
        ("cmp-04", "/two") => coded("gzip, gzip", layers(2)),
        ("cmp-04", "/lie") => coded(&vec!["gzip"; LAYERS].join(", "), layers(1)),
        ("cmp-05", "/") => coded("gzip", half(gzip(&noisy_page()))),
        ("cmp-05", "/br") => coded("br", half(brotli(&noisy_page()))),
        ("cmp-05", "/zstd") => {
            coded("zstd", half(zstd::encode_all(&noisy_page()[..], 3).expect("memory does not fail")))
        }
        ("cmp-06", path) => {
            let mut body = gzip(html);
            let end = body.len();
            match path {
                "/garbage" => body.extend(b"this is not a gzip member"),
                "/zeros" => body.extend([0; 512]),
                "/crc" => body[end - 8] ^= 0xff,
                "/length" => body[end - 4] ^= 0xff,
                _ => return None,
            }
            coded("gzip", body)
        }
        ("cmp-07", "/") => coded("gzip", html),
        ("cmp-07", "/br") => coded("br", html),
        ("cmp-08", "/") => coded("gzip", ""),
        ("cmp-09", "/") => {
            let (first, rest) = html.split_at(html.len() / 3);
            let (second, third) = rest.split_at(rest.len() / 2);
            coded("gzip", [gzip(first), gzip(second), gzip(third)].concat())
        }
        ("cmp-09", "/many") => coded("gzip", gzip(b"m").repeat(5_000)),
        ("cmp-10", "/raw") => coded("deflate", raw_deflate(html)),
        ("cmp-10", "/zlib") => coded("deflate", zlib(html)),
        ("cmp-11", "/xgzip") => coded("x-gzip", gzip(html)),
        ("cmp-11", "/case") => coded("GZip", gzip(html)),
        ("cmp-11", "/utf8") => coded("UTF-8", html),
        ("cmp-11", "/none") => coded("none", html),
        ("cmp-11", "/unknown") => coded("lzma2", html),
        ("cmp-12", "/") => coded("br", brotli(html)),
        ("cmp-12", "/zstd") => coded("zstd", zstd()),
        ("cmp-13", "/sitemap.xml.gz") => {
            let sitemap = "<?xml version=\"1.0\"?><urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\
                           <url><loc>http://cmp-13.hostile.test/found</loc></url></urlset>";
            let body = gzip(&gzip(sitemap.as_bytes()));
            response("200 OK", "Content-Type: application/x-gzip\r\nContent-Encoding: gzip\r\n", body)
        }
        ("cmp-13", "/page.tgz") => {
            response("200 OK", "Content-Type: application/gzip\r\n", gzip(&[0; 10_240]))
        }
        ("cmp-13", "/found") => page("<p>found</p>"),
        _ => return None,
    })
}

/// A page that does not compress away, with links at its start and its end.
fn noisy_page() -> Vec<u8> {
    let mut text = "<html><body><a href=\"/start\">start</a>\n".to_owned();
    for n in 0..2_000u32 {
        text.push_str(&format!("<p>{:08x}</p>\n", n.wrapping_mul(2_654_435_761)));
    }
    text.push_str("<a href=\"/end\">end</a></body></html>");
    text.into_bytes()
}

/// A gzip head without name or time.
const GZIP_HEAD: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 0xff];

/// Deflate bytes that become `GZIP_PIECE` zeros and end on a byte, so that they can be repeated.
fn gzip_piece() -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(&vec![0; GZIP_PIECE]).and_then(|()| encoder.flush()).expect("memory does not fail");
    encoder.get_ref().clone()
}

/// The last, empty block and the trailer for this many pieces.
fn gzip_tail(pieces: u64) -> Vec<u8> {
    let mut one = flate2::Crc::new();
    one.update(&vec![0; GZIP_PIECE]);
    let mut crc = flate2::Crc::new();
    for _ in 0..pieces {
        crc.combine(&one);
    }
    let length = (pieces * GZIP_PIECE as u64) as u32;
    [&[0x03, 0x00][..], &crc.sum().to_le_bytes(), &length.to_le_bytes()].concat()
}

/// The stream header of brotli for a window of 2^24 bytes (RFC 7932, 9.1): value and number of bits.
const BROTLI_WINDOW: (u64, u32) = (0b1111, 4);

/// Bits, lowest first.
#[derive(Debug, Default)]
struct Bits {
    bytes: Vec<u8>,
    used: u32,
}

impl Bits {
    fn push(&mut self, value: u64, count: u32) {
        for at in 0..count {
            if self.used.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let bit = (value >> at & 1) as u8;
            *self.bytes.last_mut().expect("pushed above") |= bit << (self.used % 8);
            self.used += 1;
        }
    }
}

/// One metablock of `BROTLI_PIECE` zeros: one literal, then one copy of everything else from distance 1.
///
/// Each of the three prefix codes has a single symbol and so costs no bits (RFC 7932, 3.4 and 9.2).
fn brotli_piece(bits: &mut Bits) {
    bits.push(0, 1); // not the last
    bits.push(2, 2); // the length has six nibbles
    bits.push(BROTLI_PIECE - 1, 24);
    bits.push(0, 1); // compressed
    bits.push(0, 3); // one block type each for literals, commands and distances
    bits.push(0, 6); // no postfix bits, no direct distances
    bits.push(0, 2); // literal context mode
    bits.push(0, 2); // one literal tree, one distance tree
    for (symbol, width) in [(0, 8), (INSERT_1_COPY_LONGEST, 10), (16, 6)] {
        bits.push(1, 2); // a simple prefix code
        bits.push(0, 2); // of one symbol
        bits.push(symbol, width);
    }
    bits.push(BROTLI_PIECE - 1 - COPY_LONGEST_BASE, 24);
    bits.push(0, 1); // distance code 16 has one extra bit: 0 means distance 1
}

/// The command "insert 1, copy with code 23": 384 + 8 * insert code 1 + copy code 23 & 7 (RFC 7932, 5).
const INSERT_1_COPY_LONGEST: u64 = 399;
/// The shortest copy of code 23; 24 extra bits are added.
const COPY_LONGEST_BASE: u64 = 2118;

/// An empty metadata block, after which the stream stands at the start of a byte.
fn brotli_padding(bits: &mut Bits) {
    bits.push(0, 1); // not the last
    bits.push(3, 2); // metadata
    bits.push(0, 1); // reserved
    bits.push(0, 2); // no length bytes
    bits.used = bits.used.next_multiple_of(8);
}

/// A whole brotli stream of this many pieces.
fn brotli_bomb(pieces: u64) -> Vec<u8> {
    let mut bits = Bits::default();
    bits.push(BROTLI_WINDOW.0, BROTLI_WINDOW.1);
    for _ in 0..pieces {
        brotli_piece(&mut bits);
    }
    bits.push(0b11, 2); // last and empty
    bits.bytes
}

/// A zstd frame head with a window of 2^log bytes and no content size (RFC 8878, 3.1.1.1).
fn zstd_head(log: u8) -> Vec<u8> {
    vec![0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3]
}

/// A block that repeats one zero `ZSTD_PIECE` times.
fn zstd_block(last: bool) -> Vec<u8> {
    let header = u32::from(last) | 1 << 1 | (ZSTD_PIECE as u32) << 3;
    let mut bytes = header.to_le_bytes()[..3].to_vec();
    bytes.push(0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn decoded_length(mut decoder: impl Read) -> u64 {
        io::copy(&mut decoder, &mut io::sink()).unwrap()
    }

    #[test]
    fn the_gzip_bomb_is_a_valid_member_a_thousand_times_its_size() {
        let piece = gzip_piece();
        let bytes = [&GZIP_HEAD[..], &piece, &piece, &piece, &gzip_tail(3)].concat();
        assert_eq!(decoded_length(flate2::read::GzDecoder::new(&bytes[..])), 3 << 20);
        assert!(piece.len() < 1200, "{}", piece.len());
    }

    #[test]
    fn the_brotli_bomb_becomes_more_than_a_million_times_its_size() {
        let bytes = brotli_bomb(2);
        assert_eq!(decoded_length(brotli::Decompressor::new(&bytes[..], 4096)), 2 << 24);
        let gigabyte = brotli_bomb(BOMB_BYTES / BROTLI_PIECE);
        assert!(BOMB_BYTES / gigabyte.len() as u64 > 1_000_000, "{}", gigabyte.len());
        let mut run = Bits::default();
        run.push(BROTLI_WINDOW.0, BROTLI_WINDOW.1);
        brotli_padding(&mut run);
        for _ in 0..2 {
            let mut piece = Bits::default();
            brotli_piece(&mut piece);
            brotli_padding(&mut piece);
            run.bytes.extend(piece.bytes);
        }
        run.bytes.push(0b11);
        assert_eq!(decoded_length(brotli::Decompressor::new(&run.bytes[..], 4096)), 2 << 24);
    }

    #[test]
    fn the_zstd_bomb_is_a_valid_frame() {
        let bytes = [zstd_head(20), zstd_block(false), zstd_block(true)].concat();
        assert_eq!(decoded_length(zstd::Decoder::new(&bytes[..]).unwrap()), 2 * ZSTD_PIECE);
        let wide = [zstd_head(31), zstd_block(true)].concat();
        let mut decoder = zstd::Decoder::new(&wide[..]).unwrap();
        io::copy(&mut decoder, &mut io::sink()).unwrap_err();
    }
}
