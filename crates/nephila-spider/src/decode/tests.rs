//! Every coding, whole, cut, damaged, lying, layered, and far too large.

use std::io::Write;

use proptest::prelude::*;

use super::*;

const LIMIT: u64 = 1_000_000;

fn text() -> Vec<u8> {
    (0..2_000u32).flat_map(|n| format!("line {} of the page\n", n * 7919 % 1000).into_bytes()).collect()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn raw_deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn brotli(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    brotli::BrotliCompress(
        &mut &data[..],
        &mut out,
        &brotli::enc::BrotliEncoderParams { quality: 3, ..Default::default() },
    )
    .unwrap();
    out
}

fn check(coding: &str, data: &[u8]) -> (Vec<u8>, Note) {
    let codings = Codings::parse([coding.as_bytes()].into_iter(), 2).unwrap();
    let mut out = Vec::new();
    let decoded = decode(&codings, || Ok(Box::new(data)), LIMIT, &mut out).unwrap();
    assert_eq!(decoded.bytes, out.len() as u64);
    (out, decoded.note)
}

#[test]
fn every_coding_is_undone() {
    let text = text();
    for (coding, data) in [
        ("gzip", gzip(&text)),
        ("x-gzip", gzip(&text)),
        ("deflate", zlib(&text)),
        ("deflate", raw_deflate(&text)),
        ("br", brotli(&text)),
        ("zstd", zstd::encode_all(&text[..], 3).unwrap()),
        ("gzip, gzip", gzip(&gzip(&text))),
        ("gzip, br", brotli(&gzip(&text))),
        ("identity", text.clone()),
    ] {
        assert_eq!(check(coding, &data), (text.clone(), Note::Whole), "{coding}");
        assert_eq!(check(coding, b""), (vec![], Note::Whole), "{coding}, empty");
    }
}

#[test]
fn all_members_are_read() {
    let two = [gzip(b"one "), gzip(b"two")].concat();
    assert_eq!(check("gzip", &two), (b"one two".to_vec(), Note::Whole));
}

#[test]
fn a_cut_stream_gives_its_first_part() {
    let text = text();
    for (coding, data) in [
        ("gzip", gzip(&text)),
        ("deflate", zlib(&text)),
        ("br", brotli(&text)),
        ("zstd", zstd::encode_all(&text[..], 3).unwrap()),
    ] {
        let (out, note) = check(coding, &data[..data.len() * 2 / 3]);
        assert_eq!(note, Note::Cut, "{coding}");
        assert!(text.starts_with(&out), "{coding}");
        // zstd gives whole blocks only, and this text fits one.
        assert!(!out.is_empty() || coding == "zstd", "{coding}");
    }
}

#[test]
fn a_wrong_checksum_and_junk_behind_the_end_lose_nothing() {
    let text = text();
    let mut wrong = gzip(&text);
    let at = wrong.len() - 6;
    wrong[at] ^= 0xff;
    assert_eq!(check("gzip", &wrong), (text.clone(), Note::Damaged));
    let junk = [gzip(&text), b"<!-- cached -->".to_vec()].concat();
    assert_eq!(check("gzip", &junk), (text, Note::Damaged));
}

#[test]
fn a_plain_body_that_claims_to_be_coded_is_given_as_it_is() {
    for coding in ["gzip", "zstd", "br", "deflate"] {
        assert_eq!(
            check(coding, b"<html>plain</html>"),
            (b"<html>plain</html>".to_vec(), Note::Plain),
            "{coding}"
        );
    }
}

#[test]
fn bombs_stop_at_the_limit() {
    let zeros = vec![0; 3_000_000];
    for (coding, data) in [
        ("gzip", gzip(&zeros)),
        ("br", brotli(&zeros)),
        ("zstd", zstd::encode_all(&zeros[..], 3).unwrap()),
        ("gzip, gzip", gzip(&gzip(&zeros))),
    ] {
        let (out, note) = check(coding, &data);
        assert_eq!((out.len() as u64, note), (LIMIT, Note::Limit), "{coding}");
    }
}

#[test]
fn a_zstd_window_over_the_limit_is_refused() {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    encoder.window_log(27).unwrap();
    encoder.long_distance_matching(true).unwrap();
    encoder.write_all(&text()).unwrap();
    let (out, note) = check("zstd", &encoder.finish().unwrap());
    assert_eq!((out.len(), note), (0, Note::Window));
}

#[test]
fn a_file_is_unpacked_once_and_within_its_limit() {
    let text = text();
    assert_eq!(unpack(&gzip(&text), LIMIT), Some((text.clone(), Note::Whole)));
    assert_eq!(unpack(&gzip(&gzip(&text)), LIMIT), Some((gzip(&text), Note::Whole)));
    assert_eq!(unpack(&gzip(&text), 100), Some((text[..100].to_vec(), Note::Limit)));
    assert_eq!(unpack(b"<urlset>", LIMIT), None);
}

#[test]
fn an_error_of_the_disk_is_ours_and_not_the_data() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("disk"))
        }
    }
    let codings = Codings::parse([&b"gzip"[..]].into_iter(), 2).unwrap();
    assert!(decode(&codings, || Ok(Box::new(Broken)), LIMIT, &mut Vec::new()).is_err());
    let page = gzip(&text());
    let cut = || Ok(Box::new((&page[..page.len() / 2]).chain(Broken)) as Box<dyn Read + Send>);
    assert!(decode(&codings, cut, LIMIT, &mut Vec::new()).is_err(), "also behind bytes that were read");
}

proptest! {
    #[test]
    fn garbage_never_panics_and_never_exceeds_the_limit(data in prop::collection::vec(any::<u8>(), 0..600), coding in prop::sample::select(vec!["gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate"])) {
        let (out, _) = check(coding, &data);
        prop_assert!(out.len() as u64 <= LIMIT);
    }

    #[test]
    fn how_the_bytes_arrive_changes_nothing(data in prop::collection::vec(any::<u8>(), 0..600), step in 1usize..40, coding in prop::sample::select(vec!["gzip", "deflate", "br", "zstd", "gzip, br", "zstd, deflate"])) {
        struct Drops<'a>(&'a [u8], usize);
        impl Read for Drops<'_> {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let now = self.1.min(into.len());
                self.0.read(&mut into[..now])
            }
        }
        let codings = Codings::parse([coding.as_bytes()].into_iter(), 2).unwrap();
        let mut out = Vec::new();
        let decoded = decode(&codings, || Ok(Box::new(Drops(&data, step))), LIMIT, &mut out).unwrap();
        prop_assert_eq!((out, decoded.note), check(coding, &data));
    }
}
