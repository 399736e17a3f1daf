//! Content codings: which one a client gets, and its bytes.
//!
//! Speed matters more than size here: a test web must not limit the measurement, so every coding runs at its quickest.
//! Gzip, which every client accepts, has a file of its own.

use std::cell::RefCell;
use std::io::Write;

use bytes::Bytes;

use crate::settings::Encoding;

/// Level of zstd; 1 is its quickest ordinary one.
const ZSTD_LEVEL: i32 = 1;
/// Quality of brotli; 1 is the first that looks for repeats at all.
const BROTLI_QUALITY: u32 = 1;
/// Window of brotli, as a power of two; larger than most pages.
const BROTLI_WINDOW: u32 = 18;
/// Buffer of the brotli writer.
const BROTLI_BUFFER: usize = 16 * 1024;
const MEMORY: &str = "memory takes everything";

thread_local! {
    /// One compressor per thread: making one costs as much as a small page.
    static ZSTD: RefCell<::zstd::bulk::Compressor<'static>> =
        RefCell::new(::zstd::bulk::Compressor::new(ZSTD_LEVEL).expect("the level exists"));
}

/// The first of the server's codings that an `Accept-Encoding` takes; `None` for plain bytes.
pub fn choose(accepted: Option<&str>, willing: &[Encoding]) -> Option<Encoding> {
    let accepted = accepted?;
    willing.iter().copied().find(|coding| {
        accepted.split(',').any(|offer| {
            let (name, weight) = offer.split_once(';').unwrap_or((offer, ""));
            let refused =
                weight.trim().strip_prefix("q=").and_then(|q| q.trim().parse::<f32>().ok()) == Some(0.0);
            name.trim().eq_ignore_ascii_case(coding.token()) && !refused
        })
    })
}

/// The pieces of a body as one piece of zstd.
pub(super) fn zstd(body: &[Bytes]) -> Bytes {
    ZSTD.with_borrow_mut(|writer| writer.compress(&body.concat()).expect(MEMORY).into())
}

/// The pieces of a body as one piece of brotli.
pub(super) fn brotli(body: &[Bytes]) -> Bytes {
    let mut writer =
        ::brotli::CompressorWriter::new(Vec::new(), BROTLI_BUFFER, BROTLI_QUALITY, BROTLI_WINDOW);
    body.iter().for_each(|piece| writer.write_all(piece).expect(MEMORY));
    writer.into_inner().into()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn a_client_gets_what_it_takes_in_the_order_of_the_server() {
        let all = [Encoding::Zstd, Encoding::Brotli, Encoding::Gzip];
        assert_eq!(choose(None, &all), None);
        assert_eq!(choose(Some("gzip, br"), &all), Some(Encoding::Brotli));
        assert_eq!(choose(Some("br;q=0, GZIP;q=0.5"), &all), Some(Encoding::Gzip));
        assert_eq!(choose(Some("identity"), &all), None);
        assert_eq!(choose(Some("gzip"), &[]), None);
    }

    #[test]
    fn both_codings_read_back() {
        let pieces = [Bytes::from("one piece ".repeat(1000)), Bytes::from_static(b"and another")];
        let whole = pieces.concat();
        assert_eq!(::zstd::decode_all(&zstd(&pieces)[..]).unwrap(), whole);
        let mut back = Vec::new();
        ::brotli::Decompressor::new(&brotli(&pieces)[..], 4096).read_to_end(&mut back).unwrap();
        assert_eq!(back, whole);
    }
}
