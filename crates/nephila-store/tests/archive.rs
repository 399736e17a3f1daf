//! The archive without faults, and its findings after damage by another program.

use std::sync::Arc;

use nephila_core::store::{Exchange, Truncation};
use nephila_store::archive::{Archive, Compression, Dedup, Error, Kind, Settings};
use nephila_store::captures::Captures;
use nephila_store::verify::verify_path;
use nephila_store::warc;

mod common;
use common::*;

const SUNDAY: &str = "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n";

fn long(text: &str) -> String {
    text.repeat(1024)
}

#[tokio::test]
async fn every_compression_stores_and_reads_back() {
    for compression in [Compression::Gzip { level: 1 }, Compression::Zstd { level: 3 }, Compression::None] {
        let dir = tempfile::tempdir().unwrap();
        let archive = Archive::open(dir.path(), Settings { compression, ..settings() }, info()).unwrap();
        let mut receipts = Vec::new();
        for n in 0..5 {
            receipts.push(archive.append(page(n)).await.unwrap());
        }
        let summary = archive.close().await.unwrap();
        assert_eq!((summary.files, summary.responses, summary.records, summary.index_lines), (1, 5, 16, 5));
        for (n, receipt) in receipts.iter().enumerate() {
            let block = redeem(dir.path(), receipt);
            assert!(String::from_utf8(block).unwrap().contains(&format!("<p>page {n}</p>")));
        }
        let report = verify_path(dir.path()).unwrap();
        assert!(report.findings.is_empty(), "{compression}: {:#?}", report.findings);
        assert_eq!(report.records, 16);
        assert!(matches!(archive.append(page(9)).await, Err(Error::Closed)));
    }
}

#[tokio::test]
async fn a_body_without_a_head_is_a_resource_and_is_never_stored_as_a_revisit() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    let html = format!("<!doctype html><title>x</title>\r\n\r\n{}", long("same "));
    let bare = |url: &str, body: Vec<u8>| Exchange {
        request_head: Default::default(),
        response_head: Default::default(),
        body: Box::new(bytes::Bytes::from(body)),
        ..exchange(url, "")
    };
    let large = vec![0u8; 5 << 20];
    let bodies = [html.clone().into_bytes(), html.clone().into_bytes(), b"%PDF-1.7 ...".to_vec(), large];
    for (n, body) in bodies.iter().enumerate() {
        let url = format!("http://a.test/{n}");
        assert_eq!(archive.append(bare(&url, body.clone())).await.unwrap().kind, Kind::Resource);
    }
    archive.close().await.unwrap();
    let report = verify_path(dir.path()).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    let captures = Captures::new(dir.path());
    let types = ["text/html", "text/html", "application/pdf", "application/octet-stream"];
    for (n, (body, kind)) in bodies.iter().zip(types).enumerate() {
        let line = captures.nearest(&format!("http://a.test/{n}"), None).unwrap().unwrap();
        assert_eq!((line.capture.mime.as_deref(), line.capture.status.as_deref()), (Some(kind), None));
        let capture = captures.read(&line, 6 << 20).unwrap();
        assert!(capture.http.is_empty() && capture.body == *body, "{n}");
    }
}

#[tokio::test]
async fn a_payload_is_stored_once_and_then_referred_to() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    let body = long("same ");
    assert_eq!(archive.append(exchange("http://a.test/1", &body)).await.unwrap().kind, Kind::Response);
    let second = archive.append(exchange("http://a.test/2", &body)).await.unwrap();
    assert_eq!(second.kind, Kind::Revisit);
    let block = String::from_utf8(redeem(dir.path(), &second)).unwrap();
    assert!(block.starts_with("HTTP/1.1 200 OK\r\n") && block.ends_with("\r\n\r\n"), "the head alone");
    // Too short for deduplication.
    for _ in 0..2 {
        assert_eq!(archive.append(exchange("http://a.test/3", "short")).await.unwrap().kind, Kind::Response);
    }
    archive.close().await.unwrap();
    // A reopened archive still knows the digests.
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    assert_eq!(archive.append(exchange("http://a.test/4", &body)).await.unwrap().kind, Kind::Revisit);
    archive.close().await.unwrap();
    let off = Archive::open(dir.path(), Settings { dedup: Dedup::Off, ..settings() }, info()).unwrap();
    assert_eq!(off.append(exchange("http://a.test/5", &body)).await.unwrap().kind, Kind::Response);
    off.close().await.unwrap();
    let report = verify_path(dir.path()).unwrap();
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
}

#[tokio::test]
async fn what_was_cut_is_neither_a_revisit_nor_a_base_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let body = long("cut ");
    for run in 0..2 {
        let archive = Archive::open(dir.path(), settings(), info()).unwrap();
        for why in [Truncation::Length, Truncation::Time, Truncation::Disconnect] {
            let receipt = archive.append(cut(exchange("http://a.test/cut", &body), why)).await.unwrap();
            assert_eq!(receipt.kind, Kind::Response, "run {run}");
            assert_eq!(archive.last_capture("http://a.test/cut"), None);
        }
        archive.close().await.unwrap();
    }
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    assert_eq!(archive.append(exchange("http://a.test/whole", &body)).await.unwrap().kind, Kind::Response);
    assert_eq!(
        archive.append(cut(exchange("http://a.test/x", &body), Truncation::Time)).await.unwrap().kind,
        Kind::Response
    );
    archive.close().await.unwrap();
    assert!(verify_path(dir.path()).unwrap().findings.is_empty());
}

#[tokio::test]
async fn a_304_refers_to_the_last_capture_with_an_empty_block() {
    let dir = tempfile::tempdir().unwrap();
    let url = "http://a.test/page";
    let first = {
        let archive = Archive::open(dir.path(), settings(), info()).unwrap();
        // Nothing to refer to yet: the answer is stored as it is.
        assert_eq!(archive.append(answer(url, SUNDAY, vec![])).await.unwrap().kind, Kind::Response);
        assert_eq!(archive.last_capture(url), None);
        let first = archive.append(exchange(url, "hello")).await.unwrap();
        let last = archive.last_capture(url).unwrap();
        assert_eq!(last.etag.as_deref(), Some("\"v1\""));
        archive.close().await.unwrap();
        first
    };
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    let last = archive.last_capture(url).unwrap();
    assert_eq!(last.payload_digest, first.payload_digest);
    assert_eq!(last.etag.as_deref(), Some("\"v1\""), "found again on disk");
    assert_eq!(last.last_modified.as_deref(), Some("Sat, 14 Nov 2026 22:58:09 GMT"));
    let receipt = archive.append(answer(url, SUNDAY, vec![])).await.unwrap();
    assert_eq!((receipt.kind, receipt.payload_digest), (Kind::NotModified, first.payload_digest));
    assert!(redeem(dir.path(), &receipt).is_empty());
    archive.close().await.unwrap();
    assert!(verify_path(dir.path()).unwrap().findings.is_empty());
}

#[tokio::test]
async fn files_roll_by_size_and_by_age_and_their_indexes_are_merged() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), Settings { bytes_max: 4_000, ..settings() }, info()).unwrap();
    for n in 0..20 {
        archive.append(page(n)).await.unwrap();
    }
    let summary = archive.close().await.unwrap();
    assert!(summary.files >= 4, "{summary:?}");
    assert_eq!(summary.index_lines, 20);
    let index = std::fs::read_to_string(dir.path().join("indexes/index.cdxj")).unwrap();
    let lines: Vec<&str> = index.lines().collect();
    assert!(lines.is_sorted() && lines.len() == 20);

    let age_max = std::time::Duration::from_millis(50);
    let archive = Archive::open(dir.path(), Settings { age_max, ..settings() }, info()).unwrap();
    let receipt = archive.append(page(100)).await.unwrap();
    let closed = dir.path().join("archive").join(&*receipt.file);
    for _ in 0..100 {
        if closed.exists() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(closed.exists(), "closed by age, without another append");
    archive.close().await.unwrap();
}

#[tokio::test]
async fn a_large_body_from_a_file_is_streamed() {
    for compression in [Compression::Gzip { level: 1 }, Compression::Zstd { level: 3 }, Compression::None] {
        let dir = tempfile::tempdir().unwrap();
        let body: Vec<u8> = (0..9_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let path = dir.path().join("body");
        std::fs::write(&path, &body).unwrap();
        let archive = Archive::open(dir.path(), Settings { compression, ..settings() }, info()).unwrap();
        let with = |len: u64| {
            let mut exchange = exchange("http://a.test/big", "");
            exchange.body = Box::new(InFile(path.clone(), len));
            exchange
        };
        let receipt = archive.append(with(body.len() as u64)).await.unwrap();
        assert_eq!(archive.append(with(body.len() as u64)).await.unwrap().kind, Kind::Revisit);
        // A body that lies about its length causes an error for this exchange alone.
        for len in [20_000_000, 9_000_001] {
            assert!(matches!(archive.append(with(len)).await, Err(Error::Body(_))));
        }
        let small = archive.append(with(1_000)).await.unwrap();
        archive.close().await.unwrap();
        assert!(redeem(dir.path(), &receipt).ends_with(&body));
        assert!(redeem(dir.path(), &small).ends_with(&body[..1_000]));
        let report = verify_path(dir.path()).unwrap();
        assert!(report.findings.is_empty(), "{compression}: {:#?}", report.findings);
    }
}

#[tokio::test]
async fn no_secret_reaches_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let archive =
        Archive::open(dir.path(), Settings { compression: Compression::None, ..settings() }, info()).unwrap();
    let mut exchange = exchange("http://me:SECRET@a.test/", "x");
    exchange.notes.push("via", "http://me:SECRET@b.test/");
    archive.append(exchange).await.unwrap();
    archive.close().await.unwrap();
    for name in names(&dir.path().join("archive")) {
        let bytes = std::fs::read(dir.path().join("archive").join(&name)).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains("SECRET"), "{name}");
    }
}

#[tokio::test]
async fn an_index_made_from_the_file_is_the_one_made_while_writing() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    let body = long("x");
    for (url, head) in [
        ("http://a.test/1", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"),
        ("http://a.test/2", "HTTP/1.0 404\r\nContent-Type:\r\n\r\n"),
        ("http://a.test/3", "nonsense\r\n\r\n"),
        ("http://a.test/4", "HTTP/1.1 200 OK\r\nContent-Type: caf\u{e9}/x;y\r\nContent-Type: b\r\n\r\n"),
        ("http://b\u{fc}cher.test/\u{fc}?a=b c", "HTTP/1.1 301 M\r\nLocation: /\r\n\r\n"),
    ] {
        archive.append(answer(url, head, body.clone().into_bytes())).await.unwrap();
        archive.append(cut(answer(url, head, b"cut".to_vec()), Truncation::Length)).await.unwrap();
    }
    archive.append(answer("http://a.test/1", SUNDAY, vec![])).await.unwrap();
    archive.close().await.unwrap();
    let folder = dir.path().join("archive");
    let name = names(&folder).into_iter().find(|name| name.ends_with(".cdxj")).unwrap();
    let written = std::fs::read_to_string(folder.join(&name)).unwrap();
    std::fs::remove_file(folder.join(&name)).unwrap();
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    assert_eq!(archive.recovered().indexes_made, 1);
    assert_eq!(std::fs::read_to_string(folder.join(&name)).unwrap(), written);
    archive.close().await.unwrap();
}

#[tokio::test]
async fn a_torn_tail_is_cut_wherever_it_is_torn() {
    let whole = tempfile::tempdir().unwrap();
    let archive = Archive::open(whole.path(), settings(), info()).unwrap();
    let mut receipts = Vec::new();
    for n in 0..3 {
        receipts.push(archive.append(page(n)).await.unwrap());
    }
    let open = whole.path().join("archive").join(format!("{}.open", receipts[0].file));
    let bytes = std::fs::read(&open).unwrap();
    for cut in (0..bytes.len()).step_by(37) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("archive")).unwrap();
        std::fs::write(dir.path().join("archive").join(open.file_name().unwrap()), &bytes[..cut]).unwrap();
        let archive = Archive::open(dir.path(), settings(), info()).unwrap();
        archive.close().await.unwrap();
        let kept = receipts.iter().filter(|r| r.offset + r.length <= cut as u64).count();
        assert_eq!(answers(dir.path()).len(), kept, "cut at {cut}");
        assert!(verify_path(dir.path()).unwrap().findings.is_empty(), "cut at {cut}");
    }
    archive.close().await.unwrap();
}

#[tokio::test]
async fn damage_in_the_middle_of_an_open_file_costs_that_record_alone() {
    let dir = tempfile::tempdir().unwrap();
    let source = tempfile::tempdir().unwrap();
    let archive = Archive::open(source.path(), settings(), info()).unwrap();
    let mut receipts = Vec::new();
    for n in 0..4 {
        receipts.push(archive.append(page(n)).await.unwrap());
    }
    let name = format!("{}.open", receipts[0].file);
    let mut bytes = std::fs::read(source.path().join("archive").join(&name)).unwrap();
    bytes[(receipts[1].offset + receipts[1].length / 2) as usize] ^= 0xff;
    std::fs::create_dir(dir.path().join("archive")).unwrap();
    std::fs::write(dir.path().join("archive").join(&name), &bytes).unwrap();
    let again = Archive::open(dir.path(), settings(), info()).unwrap();
    assert_eq!(again.recovered().bytes_cut, receipts[1].length);
    again.close().await.unwrap();
    let seen = answers(dir.path());
    assert_eq!(seen.len(), 3);
    assert!(!seen.contains_key("http://site.test/1"));
    assert!(verify_path(dir.path()).unwrap().findings.is_empty());
    archive.close().await.unwrap();
}

#[tokio::test]
async fn one_archive_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    assert!(matches!(Archive::open(dir.path(), settings(), info()), Err(Error::Locked { .. })));
    archive.close().await.unwrap();
    Archive::open(dir.path(), settings(), info()).unwrap().close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_share_syncs_and_all_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let commit_interval = std::time::Duration::from_millis(5);
    let archive = Archive::open(dir.path(), Settings { commit_interval, ..settings() }, info()).unwrap();
    let archive = Arc::new(archive);
    let tasks: Vec<_> = (0..500)
        .map(|n| {
            let archive = archive.clone();
            tokio::spawn(async move { archive.append(page(n)).await.unwrap() })
        })
        .collect();
    let mut receipts = Vec::new();
    for task in tasks {
        receipts.push(task.await.unwrap());
    }
    archive.close().await.unwrap();
    receipts.iter().for_each(|receipt| drop(redeem(dir.path(), receipt)));
    let seen = answers(dir.path());
    assert!(seen.len() == 500 && seen.values().all(|count| *count == 1));
}

#[tokio::test]
async fn records_of_one_exchange_lie_together() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    archive.append(page(1)).await.unwrap();
    archive.append(page(2)).await.unwrap();
    archive.close().await.unwrap();
    let folder = dir.path().join("archive");
    let name = names(&folder).into_iter().find(|name| name.ends_with(".warc.gz")).unwrap();
    let mut reader = warc::Reader::new(std::fs::File::open(folder.join(name)).unwrap());
    let mut types = Vec::new();
    while let Some(record) = reader.read(&mut ()).unwrap() {
        types.push(record.header.get("WARC-Type").unwrap().to_owned());
    }
    assert_eq!(types.join(" "), "warcinfo response request metadata response request metadata");
}

#[tokio::test]
async fn sto_10_a_payload_that_looks_like_records_is_one_record() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    let fake = "\r\n\r\nWARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: http://evil.test/\r\n\
                Content-Length: 3\r\n\r\nabc\r\n\r\n\0\0WARC/1.1\r\n\r\n";
    let mut receipts = Vec::new();
    for (n, body) in [fake.to_owned(), fake.repeat(500), format!("\0{fake}\0")].into_iter().enumerate() {
        let url = format!("http://a.test/{n}");
        receipts.push((archive.append(exchange(&url, &body)).await.unwrap(), body));
    }
    archive.close().await.unwrap();
    for (receipt, body) in &receipts {
        assert!(redeem(dir.path(), receipt).ends_with(body.as_bytes()));
    }
    let seen = answers(dir.path());
    assert!(seen.len() == 3 && !seen.contains_key("http://evil.test/"), "{seen:?}");
    let index = std::fs::read_to_string(dir.path().join("indexes/index.cdxj")).unwrap();
    assert!(index.lines().count() == 3 && !index.contains("evil"), "{index}");
    assert!(verify_path(dir.path()).unwrap().findings.is_empty());
}

#[tokio::test]
async fn sto_12_every_line_of_the_index_leads_to_its_record() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), Settings { bytes_max: 60_000, ..settings() }, info()).unwrap();
    for n in 0..1_000 {
        archive.append(page(n)).await.unwrap();
    }
    archive.close().await.unwrap();
    let index = std::fs::read_to_string(dir.path().join("indexes/index.cdxj")).unwrap();
    let mut urls = std::collections::BTreeSet::new();
    for line in index.lines() {
        let field = |name: &str| {
            let after =
                line.split_once(&format!("\"{name}\": \"")).unwrap_or_else(|| panic!("{name}: {line}")).1;
            after.split('"').next().unwrap().to_owned()
        };
        let path = dir.path().join("archive").join(field("filename"));
        let (offset, length) = (field("offset").parse().unwrap(), field("length").parse().unwrap());
        let (record, _) = warc::read_at(&path, offset, length, 1 << 20).unwrap();
        assert_eq!(record.header.get("WARC-Target-URI"), Some(&*field("url")));
        assert!(record.length == length && !record.shares_member, "a member of its own: {line}");
        urls.insert(field("url"));
    }
    assert_eq!(urls.len(), 1_000);
}

#[tokio::test]
async fn sto_22_a_clock_that_goes_back_costs_no_record_and_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), Settings { bytes_max: 1, ..settings() }, info()).unwrap();
    let mut files = std::collections::BTreeSet::new();
    for n in 0..20u64 {
        let mut page = page(n);
        page.started.0 -= n * 3_600_000;
        files.insert(archive.append(page).await.unwrap().file.to_string());
    }
    archive.close().await.unwrap();
    assert_eq!(files.len(), 20, "a name of its own for every file");
    let seen = answers(dir.path());
    assert!(seen.len() == 20 && seen.values().all(|count| *count == 1), "{seen:?}");
    let index = std::fs::read_to_string(dir.path().join("indexes/index.cdxj")).unwrap();
    assert!(index.lines().is_sorted() && index.lines().count() == 20);
    assert!(verify_path(dir.path()).unwrap().findings.is_empty());
}
