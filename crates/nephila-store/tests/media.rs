//! Captures whose bodies are in an object store: the archive has the head and names the object.

use nephila_core::store::{Digest, Exchange, Media};
use nephila_store::archive::{Archive, Kind};
use nephila_store::captures::Captures;
use nephila_store::verify::verify_path;

mod common;
use common::*;

/// A body and its object. The archive does not compute the SHA-256: any value will do.
fn picture(url: &str, body: &[u8]) -> Exchange {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nETag: \"p\"\r\nTransfer-Encoding: chunked\r\n\r\n";
    let digest = Digest::of(&[body]).0;
    let media = Media { sha256: std::array::from_fn(|n| digest[n % 20]), bytes: body.len() as u64 };
    Exchange { media: Some(media), ..answer(url, head, body.to_vec()) }
}

#[tokio::test]
async fn e_11_the_archive_has_the_head_and_the_digest_and_names_the_object() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    // The second is too large to be held in memory.
    let bodies = [vec![7u8; 300_000], vec![8u8; 5 << 20]];
    let mut receipts = Vec::new();
    for (n, body) in bodies.iter().enumerate() {
        let exchange = picture(&format!("http://a.test/{n}"), body);
        receipts.push(archive.append(exchange).await.unwrap());
    }
    for (receipt, body) in receipts.iter().zip(&bodies) {
        assert_eq!((receipt.kind, receipt.payload_digest), (Kind::Response, Digest::of(&[body])));
        let block = String::from_utf8(redeem(dir.path(), receipt)).unwrap();
        assert!(block.contains("\r\nContent-Length: 0\r\n") && block.ends_with("\r\n\r\n"), "{block}");
    }
    archive.close().await.unwrap();
    let report = verify_path(dir.path()).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert!(report.bytes < 10_000, "{} bytes", report.bytes);
    let captures = Captures::new(dir.path());
    for (n, body) in bodies.iter().enumerate() {
        let media = picture("", body).media.unwrap();
        assert!(report.media.contains_key(&media));
        let line = captures.nearest(&format!("http://a.test/{n}"), None).unwrap().unwrap();
        assert_eq!(line.capture.media, Some(media.hex()));
        assert_eq!(line.capture.truncated.as_deref(), Some("length"));
        let capture = captures.read(&line, 1 << 20).unwrap();
        assert_eq!((capture.media, capture.body.len()), (Some(media), 0));
        let fields = |name: &str| capture.header.get(name).unwrap_or_default().to_owned();
        assert_eq!(fields("WARC-Truncated"), "length");
        assert_eq!(fields("Nephila-Media"), media.to_string());
        assert_eq!(fields("WARC-Payload-Digest"), Digest::of(&[body]).to_string());
        let head = String::from_utf8(capture.http).unwrap();
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
        let notes = captures.beside(&line, "metadata").unwrap().unwrap();
        let notes = String::from_utf8(notes).unwrap();
        assert!(notes.contains(&format!("\r\nmedia: {media}\r\n")), "{notes}");
    }
}

#[tokio::test]
async fn e_11_the_same_body_again_is_a_revisit_of_the_capture_that_names_the_object() {
    let dir = tempfile::tempdir().unwrap();
    let body = vec![9u8; 300_000];
    let media = picture("", &body).media;
    for run in 0..2 {
        // The second run knows the first by its index.
        let archive = Archive::open(dir.path(), settings(), info()).unwrap();
        for n in 0..2 {
            let url = format!("http://a.test/{run}/{n}");
            let receipt = archive.append(picture(&url, &body)).await.unwrap();
            let wanted = if (run, n) == (0, 0) { Kind::Response } else { Kind::Revisit };
            assert_eq!(receipt.kind, wanted, "{url}");
        }
        let last = archive.last_capture("http://a.test/0/0").expect("a request for it may be conditional");
        assert_eq!(last.etag.as_deref(), Some("\"p\""));
        archive.close().await.unwrap();
    }
    let captures = Captures::new(dir.path());
    for url in ["http://a.test/0/0", "http://a.test/0/1", "http://a.test/1/0", "http://a.test/1/1"] {
        let line = captures.nearest(url, None).unwrap().unwrap();
        let capture = captures.read(&line, 1 << 20).unwrap();
        assert_eq!(capture.media, media, "{url}");
        assert!(String::from_utf8(capture.http).unwrap().contains("\r\nContent-Length: 300000\r\n"), "{url}");
        let is_first = url == "http://a.test/0/0";
        assert_eq!((line.capture.media.is_some(), capture.origin.is_none()), (is_first, is_first), "{url}");
    }
    let report = verify_path(dir.path()).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!(report.media.len(), 1);
}

#[tokio::test]
async fn e_11_a_name_that_is_no_object_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    archive.append(picture("http://a.test/", &[7; 1_000])).await.unwrap();
    archive.close().await.unwrap();
    let mut record = Vec::new();
    let line = Captures::new(dir.path()).nearest("http://a.test/", None).unwrap().unwrap();
    Captures::new(dir.path()).copy_record(&line, &mut record).unwrap();
    let text = String::from_utf8(record).unwrap();
    assert!(text.contains("Nephila-Media: media/"));
    let plain = dir.path().join("x.warc");
    std::fs::write(
        &plain,
        format!("{}\r\n\r\n", text.replace("Nephila-Media: media/", "Nephila-Media: ../")),
    )
    .unwrap();
    let report = verify_path(&plain).unwrap();
    let kinds: Vec<&str> = report.findings.iter().map(|finding| finding.kind.name()).collect();
    assert_eq!(kinds, ["media-form"], "{:#?}", report.findings);
}
