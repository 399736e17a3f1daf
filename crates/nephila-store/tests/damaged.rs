//! Damage in our own files: one changed byte anywhere in a compressed record is an error when the record is read, or
//! changes nothing. A reader never returns bytes other than the stored ones.

use std::fs;
use std::path::Path;

use nephila_core::store::Exchange;
use nephila_store::archive::{Archive, Compression, Receipt, Settings};
use nephila_store::verify::verify_path;
use nephila_store::warc::{self, Collect, Error, Limits, Reader};

mod common;
use common::*;

const BOTH: [Compression; 2] = [Compression::Gzip { level: 6 }, Compression::Zstd { level: 3 }];
/// Far above every record of these tests; a damaged length must not make a reader hold more.
const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// A body that does not compress away, so that most damage falls into compressed bytes and not into heads.
fn noisy(url: &str) -> Exchange {
    let body: String = (0..150u32).map(|n| format!("{:08x} ", n.wrapping_mul(2_654_435_761))).collect();
    exchange(url, &body)
}

/// One file with three answers.
async fn written(dir: &Path, compression: Compression) -> Vec<Receipt> {
    let archive = Archive::open(dir, Settings { compression, ..settings() }, info()).unwrap();
    let mut receipts = Vec::new();
    for n in 0..3 {
        receipts.push(archive.append(noisy(&format!("http://site.test/{n}"))).await.unwrap());
    }
    archive.close().await.unwrap();
    receipts
}

#[tokio::test]
async fn cmp_14_a_changed_byte_in_a_record_is_an_error_and_never_other_bytes() {
    for compression in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let receipt = &written(dir.path(), compression).await[0];
        let path = dir.path().join("archive").join(&*receipt.file);
        let file = fs::read(&path).unwrap();
        let (record, block) = warc::read_at(&path, receipt.offset, receipt.length, BLOCK_BYTES_MAX).unwrap();
        let mut bytes = file[receipt.offset as usize..][..receipt.length as usize].to_vec();
        let limits = Limits { record_bytes_max: BLOCK_BYTES_MAX, ..Limits::default() };
        let (mut noticed, mut harmless) = (0, 0);
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                bytes[at] ^= flip;
                let mut read = Collect::default();
                match Reader::with_limits(&bytes[..], receipt.offset, limits).read(&mut read) {
                    Err(Error::Damaged { .. } | Error::Torn { .. } | Error::NotWarc { .. }) => noticed += 1,
                    Ok(Some(same)) if same == record && read.0 == block => harmless += 1,
                    other => panic!("{compression}, byte {at} flipped by {flip:#x}: {other:?}"),
                }
                bytes[at] ^= flip;
            }
        }
        // Time, system and flags in the head of a gzip member carry nothing; everything else is under a checksum.
        assert!(harmless <= 30 && noticed > 1_000, "{compression}: {noticed} noticed, {harmless} harmless");
    }
}

#[tokio::test]
async fn cmp_14_a_record_cut_short_is_torn_wherever_it_is_cut() {
    for compression in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let receipt = written(dir.path(), compression).await.pop().unwrap();
        let path = dir.path().join("archive").join(&*receipt.file);
        for length in (0..receipt.length).step_by(7) {
            let read = warc::read_at(&path, receipt.offset, length, BLOCK_BYTES_MAX);
            assert!(
                matches!(read, Err(Error::Torn { .. } | Error::Damaged { .. } | Error::NotWarc { .. })),
                "{compression}, {length} of {}: {read:?}",
                receipt.length
            );
        }
    }
}

#[tokio::test]
async fn cmp_14_a_damaged_record_is_named_and_its_neighbours_are_still_read() {
    for compression in BOTH {
        let dir = tempfile::tempdir().unwrap();
        let receipts = written(dir.path(), compression).await;
        let path = dir.path().join("archive").join(&*receipts[1].file);
        assert!(verify_path(dir.path()).unwrap().findings.is_empty());
        let mut bad = fs::read(&path).unwrap();
        bad[(receipts[1].offset + receipts[1].length / 2) as usize] ^= 0xff;
        fs::write(&path, &bad).unwrap();
        assert!(!verify_path(dir.path()).unwrap().findings.is_empty(), "{compression}: verify sees it");
        redeem(dir.path(), &receipts[0]);
        redeem(dir.path(), &receipts[2]);
        // A scan of the file stops at the damaged record and reports its place.
        let mut reader = Reader::new(fs::File::open(&path).unwrap());
        let error = loop {
            match reader.read(&mut Collect::default()) {
                Ok(Some(record)) => assert!(record.offset < receipts[1].offset, "{compression}"),
                Ok(None) => panic!("{compression}: read over the damage"),
                Err(error) => break error,
            }
        };
        let offset = receipts[1].offset;
        assert!(
            matches!(error, Error::Damaged { offset: at, .. } | Error::Torn { offset: at } if at == offset),
            "{compression}: {error}"
        );
    }
}

#[test]
fn cmp_14_no_reader_of_ours_holds_what_a_damaged_length_promises() {
    // A zstd frame whose head asks for a window of 2 GB, and a record that says it has an exabyte.
    let wide = [&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8][..], &[0x01, 0x00, 0x00]].concat();
    let mut reader = Reader::new(&wide[..]);
    assert!(matches!(reader.read(&mut ()), Err(Error::Damaged { .. } | Error::Torn { .. })));
    let promising = b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 1000000000000000000\r\n\r\nfive!";
    let mut reader = Reader::new(&promising[..]);
    assert!(matches!(reader.read(&mut Collect::default()), Err(Error::Torn { .. } | Error::Damaged { .. })));
}
