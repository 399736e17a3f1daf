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
    let decoded = decode(&codings, || Ok(Box::new(data)), LIMIT, &|| Stop::GoOn, &mut out).unwrap();
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
        // zstd outputs whole blocks only, and this text fits one.
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
    assert!(decode(&codings, || Ok(Box::new(Broken)), LIMIT, &|| Stop::GoOn, &mut Vec::new()).is_err());
    let page = gzip(&text());
    let cut = || Ok(Box::new((&page[..page.len() / 2]).chain(Broken)) as Box<dyn Read + Send>);
    assert!(
        decode(&codings, cut, LIMIT, &|| Stop::GoOn, &mut Vec::new()).is_err(),
        "also behind bytes that were read"
    );
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
        let decoded = decode(&codings, || Ok(Box::new(Drops(&data, step))), LIMIT, &|| Stop::GoOn, &mut out).unwrap();
        prop_assert_eq!((out, decoded.note), check(coding, &data));
    }
}

/// Bodies that cost work without output, as `Content-Encoding` and bytes, each with about this number of barren bytes.
fn barren(bytes: usize) -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let skippable = |bytes: usize| {
        let mut frame = 0x184D_2A50u32.to_le_bytes().to_vec();
        frame.extend((bytes as u32).to_le_bytes());
        frame.resize(8 + bytes, 0);
        frame
    };
    let small_frames = skippable(8).repeat(bytes / 16);
    let empty = gzip(b"");
    let members = empty.repeat(bytes / empty.len());
    // An empty block of stored bytes, and an empty one of fixed codes, a byte each way.
    let stored = [&[0x78, 0x9c][..], &[0, 0, 0, 0xff, 0xff].repeat(bytes / 5)].concat();
    // RFC 7932, 9.2: a meta-block of metadata without any.
    let metadata = [&[0x0c][..], &vec![0x06; bytes]].concat();
    let blocks = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58][..], &vec![0; bytes / 3 * 3]].concat();
    let extra = {
        let field = [&[0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff][..], &vec![b'x'; 0xffff]].concat();
        [field, raw_deflate(b""), vec![0; 8]].concat().repeat(bytes / 0xffff + 1)
    };
    vec![
        ("zstd, br", "one long frame to skip, in brotli", brotli(&skippable(bytes))),
        ("zstd", "one long frame to skip", skippable(bytes)),
        ("zstd, gzip", "many frames to skip", gzip(&small_frames)),
        ("gzip, gzip", "empty members, in gzip", gzip(&members)),
        ("gzip", "empty members", members),
        ("gzip", "long heads", extra),
        ("deflate", "empty blocks", stored.clone()),
        ("deflate, zstd", "empty blocks, in zstd", zstd::encode_all(&stored[..], 3).unwrap()),
        ("br", "metadata", metadata.clone()),
        ("br, gzip", "metadata, in gzip", gzip(&metadata)),
        ("zstd", "empty blocks of zstd", blocks.clone()),
        ("zstd, br", "empty blocks of zstd, in brotli", brotli(&blocks)),
    ]
}

#[test]
fn sec_01_what_gives_nothing_ends_at_its_limit() {
    let bytes = BARREN_BYTES_MAX as usize;
    for (coding, what, data) in barren(2 * bytes) {
        let (out, note) = check(coding, &data);
        assert_eq!((out.len(), note), (0, Note::Work), "{what}");
    }
    for (coding, what, data) in barren(bytes / 2) {
        let (out, note) = check(coding, &data);
        assert!(out.is_empty() && note != Note::Work, "{what}: {note:?} before the limit");
    }
}

#[test]
fn sec_01_every_layer_has_a_limit_and_not_only_the_last() {
    // A byte of output for every half a megabyte that is skipped: never barren for long, and without end.
    let half = BARREN_BYTES_MAX as usize / 2;
    let mut piece = 0x184D_2A50u32.to_le_bytes().to_vec();
    piece.extend((half as u32).to_le_bytes());
    piece.resize(8 + half, 0);
    piece.extend(zstd::encode_all(&b"x"[..], 3).unwrap());
    let many = piece.repeat(2 * LAYER_BYTES_MAX as usize / half);
    let (out, note) = check("zstd, br", &brotli(&many));
    assert_eq!(note, Note::Work);
    assert!((20..40).contains(&out.len()), "what was given before stays: {} bytes", out.len());
}

#[test]
fn sec_01_the_clock_is_looked_at_by_work_in_every_layer() {
    let run = |coding: &str, data: &[u8], stop: Stop, after: u32| {
        let looks = std::cell::Cell::new(0u32);
        let codings = Codings::parse([coding.as_bytes()].into_iter(), 2).unwrap();
        let look = || {
            looks.set(looks.get() + 1);
            if looks.get() > after { stop } else { Stop::GoOn }
        };
        let decoded = decode(&codings, || Ok(Box::new(data)), LIMIT, &look, &mut Vec::new()).unwrap();
        (decoded.note, looks.get())
    };
    for (coding, what, data) in barren(BARREN_BYTES_MAX as usize / 2) {
        let (note, looks) = run(coding, &data, Stop::Time, u32::MAX);
        assert!(looks >= 7 && note != Note::Work, "{what}: {looks} looks, {note:?}");
        assert_eq!(run(coding, &data, Stop::Time, 3), (Note::Time, 4), "{what}");
        assert_eq!(run(coding, &data, Stop::Work, 0), (Note::Work, 1), "{what}");
    }
    let (note, looks) = run("gzip", &gzip(&vec![0; LIMIT as usize]), Stop::Time, 5);
    assert_eq!((note, looks), (Note::Time, 6), "output is work too");
}
