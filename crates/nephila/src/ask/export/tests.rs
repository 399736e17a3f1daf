//! The exports of a small archive, read with a decompressor alone.

use std::fs;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;

use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::*;
use crate::cli::export::SelectArgs;

const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html><head><title>A title</title></head>\
                    <body><nav>Menu</nav><p>Words of the page.</p><a href=/next rel=nofollow>go on</a></body></html>";

fn record(kind: &str, id: &str, url: &str, date: &str, more: &str, block: &str) -> String {
    format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:{id}>\r\nWARC-Date: {date}\r\nWARC-Target-URI: {url}\r\n\
         {more}Content-Type: application/http\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
}

/// Two captures of a page, the second a revisit of the first, and a picture of another host.
fn records() -> Vec<String> {
    let (url, first, second) = ("http://site.test/a", "2026-11-01T00:00:00Z", "2026-11-02T00:00:00Z");
    let digest = "WARC-Payload-Digest: sha1:AAAA\r\n";
    let refers = format!(
        "{digest}WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n\
         WARC-Refers-To-Target-URI: {url}\r\nWARC-Refers-To-Date: {first}\r\n"
    );
    let picture = "HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n\0\u{1}pixels";
    vec![
        "WARC/1.1\r\nWARC-Type: warcinfo\r\nWARC-Record-ID: <urn:info>\r\nWARC-Date: 2026-11-01T00:00:00Z\r\n\
         Content-Length: 0\r\n\r\n\r\n\r\n"
            .to_owned(),
        record("response", "r1", url, first, digest, PAGE),
        record("request", "q1", url, first, "WARC-Concurrent-To: <urn:r1>\r\n", "GET /a HTTP/1.1\r\n\r\n"),
        record("response", "r2", "http://img.other.test/p", second, "", picture),
        record("metadata", "m2", "http://img.other.test/p", second, "WARC-Concurrent-To: <urn:r2>\r\n", "via: x\r\n"),
        record("revisit", "r3", url, second, &refers, "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nX: 3\r\n\r\n"),
        record("request", "q3", url, second, "WARC-Concurrent-To: <urn:r3>\r\n", "GET /a HTTP/1.1\r\n\r\n"),
    ]
}

/// A folder with these records, compressed or not, and an index of the captures.
fn folder(is_gzip: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("archive")).unwrap();
    let name = if is_gzip { "x.warc.gz" } else { "x.warc" };
    let (mut file, mut index) = (Vec::new(), Vec::new());
    for record in records() {
        let offset = file.len();
        if is_gzip {
            let mut member = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            member.write_all(record.as_bytes()).unwrap();
            file.extend(member.finish().unwrap());
        } else {
            file.extend(record.as_bytes());
        }
        let length = file.len() - offset - if is_gzip { 0 } else { 4 };
        let lines = [
            ("urn:r1", "test,site)/a 20261101000000", "http://site.test/a", "text/html"),
            ("urn:r2", "test,other,img)/p 20261102000000", "http://img.other.test/p", "image/png"),
            ("urn:r3", "test,site)/a 20261102000000", "http://site.test/a", "warc/revisit"),
        ];
        let known = lines.iter().find(|(id, ..)| record.contains(&format!("WARC-Record-ID: <{id}>")));
        if let Some((_, key, url, mime)) = known {
            index.push(format!(
                "{key} {{\"url\": \"{url}\", \"mime\": \"{mime}\", \"status\": \"200\", \"digest\": \"sha1:AAAA\", \
                 \"length\": \"{length}\", \"offset\": \"{offset}\", \"filename\": \"{name}\"}}\n"
            ));
        }
    }
    index.sort();
    fs::write(dir.path().join("archive").join(name), file).unwrap();
    fs::write(dir.path().join("archive/x.cdxj"), index.concat()).unwrap();
    dir
}

fn args(dir: &tempfile::TempDir) -> SelectArgs {
    SelectArgs {
        output: Some(dir.path().to_owned()),
        to: dir.path().join("out.warc.gz"),
        host: vec![],
        since: None,
        until: None,
        types: vec![],
        status: vec![],
        quiet: true,
    }
}

/// Exports, and returns the records behind the first one, which says what made the file.
fn exported(args: &SelectArgs, write: &mut WriteSelected<'_>) -> (Exit, Vec<String>) {
    let exit = selected(args, write).unwrap();
    let mut text = String::new();
    MultiGzDecoder::new(fs::File::open(&args.to).unwrap()).read_to_string(&mut text).unwrap();
    assert!(!PathBuf::from(format!("{}.part", args.to.display())).exists());
    let records: Vec<String> = text.split("WARC/1.1\r\n").skip(1).map(str::to_owned).collect();
    assert!(records[0].contains("WARC-Type: warcinfo") && records[0].contains("software: nephila/"));
    (exit, records[1..].to_vec())
}

/// The ids of the records of the archive.
fn ids(records: &[String]) -> Vec<&str> {
    records.iter().map(|it| it.split("<urn:").nth(1).unwrap().split('>').next().unwrap()).collect()
}

fn warc(args: &SelectArgs, keep_revisits: bool) -> (Exit, Vec<String>) {
    exported(args, &mut |select, out, say| warc::write(select, !keep_revisits, out, say))
}

#[test]
fn captures_come_with_their_records_and_revisits_with_their_bodies() {
    for is_gzip in [true, false] {
        let dir = folder(is_gzip);
        let (exit, records) = warc(&args(&dir), false);
        assert_eq!((exit, ids(&records)), (Exit::Done, vec!["info", "r1", "q1", "r2", "m2", "r3", "q3"]));
        let revisit = &records[5];
        assert!(
            revisit.contains("WARC-Type: response\r\n") && !revisit.contains("WARC-Refers-To"),
            "{revisit}"
        );
        assert!(revisit.contains("X: 3\r\n\r\n<html>"), "its own head, the body of the first: {revisit}");
        let (head, block) = revisit.split_once("\r\n\r\n").unwrap();
        let length = block.strip_suffix("\r\n\r\n").unwrap().len();
        assert!(head.contains(&format!("Content-Length: {length}")), "{head}");
        // All others are as they were.
        for (number, record) in super::tests::records().iter().enumerate().filter(|(number, _)| *number != 5)
        {
            assert_eq!(record.strip_prefix("WARC/1.1\r\n").unwrap(), records[number], "gzip {is_gzip}");
        }
        let (_, kept) = warc(&args(&dir), true);
        assert!(kept[5].contains("WARC-Type: revisit"));
    }
}

#[test]
fn filters_choose_captures() {
    let dir = folder(true);
    let chosen = |change: &dyn Fn(&mut SelectArgs)| {
        let mut args = args(&dir);
        change(&mut args);
        let (exit, records) = warc(&args, false);
        (exit == Exit::Done, ids(&records).join(" "))
    };
    let site = (true, "info r1 q1 r3 q3".to_owned());
    let picture = (true, "info r2 m2".to_owned());
    assert_eq!(chosen(&|args| args.host = vec!["site.test".into()]), site);
    assert_eq!(chosen(&|args| args.host = vec!["*.Other.test".into()]), picture);
    assert_eq!(chosen(&|args| args.host = vec!["other.test".into()]), (false, String::new()));
    assert_eq!(chosen(&|args| args.types = vec!["image/".into()]), picture);
    assert_eq!(chosen(&|args| args.types = vec!["text/html".into()]), site);
    assert_eq!(chosen(&|args| args.until = Some("2026-11-01".into())), (true, "info r1 q1".into()));
    assert_eq!(chosen(&|args| args.since = Some("20261102".into())), (true, "info r2 m2 r3 q3".into()));
    assert_eq!(chosen(&|args| args.status = vec!["4".into(), "30".into()]), (false, String::new()));
}

#[test]
fn text_and_metadata_are_those_of_the_pages() {
    let dir = folder(true);
    let text = |is_main: bool| {
        let kind = derived::Kind::Text { is_main };
        exported(&args(&dir), &mut |select, out, say| derived::write(select, kind, out, say)).1
    };
    let all = text(false);
    assert_eq!(all.len(), 1, "{all:?}");
    for wanted in [
        "WARC-Type: conversion\r\n",
        "WARC-Refers-To: <urn:r1>\r\n",
        "WARC-Target-URI: http://site.test/a\r\n",
        "WARC-Date: 2026-11-01T00:00:00",
        "Content-Type: text/plain\r\n",
        "A title",
        "Menu",
        "Words of the page.",
    ] {
        assert!(all[0].contains(wanted), "{wanted}: {}", all[0]);
    }
    let json =
        exported(&args(&dir), &mut |select, out, say| derived::write(select, derived::Kind::Json, out, say));
    assert_eq!(json.1.len(), 2);
    let block = json.1[0].split("\r\n\r\n").nth(1).unwrap();
    let block: serde_json::Value = serde_json::from_str(block).unwrap();
    let response = &block["Envelope"]["Payload-Metadata"]["HTTP-Response-Metadata"];
    assert_eq!(response["Response-Message"]["Status"], "200");
    assert_eq!(response["Headers"]["Content-Type"], "text/html");
    assert_eq!(response["HTML-Metadata"]["Head"]["Title"], "A title");
    let link = serde_json::json!({"path": "A@/href", "url": "http://site.test/next", "text": "go on", "rel": "nofollow"});
    assert_eq!(response["HTML-Metadata"]["Links"][0], link);
    assert_eq!(block["Envelope"]["WARC-Header-Metadata"]["WARC-Record-ID"], "<urn:r1>");
    assert_eq!(block["Container"]["Filename"], "x.warc.gz");
}

#[test]
fn an_archive_that_cannot_be_read_leaves_no_file() {
    let dir = folder(true);
    let file = dir.path().join("archive/x.warc.gz");
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes.truncate(middle);
    fs::write(&file, bytes).unwrap();
    let args = args(&dir);
    let error = selected(&args, &mut |select, out, say| warc::write(select, true, out, say)).unwrap_err();
    assert!(format!("{error:#}").contains("x.warc.gz"), "{error:#}");
    assert!(!args.to.exists() && !dir.path().join("out.warc.gz.part").exists());
}

#[test]
fn a_package_without_a_whole_index_is_refused() {
    let write = |dir: &tempfile::TempDir, to: &std::path::Path| {
        wacz::write(&Folder::new(dir.path()), to, false, &mut |_, _| {})
    };
    let dir = folder(true);
    let (to, index) = (dir.path().join("x.wacz"), dir.path().join("archive/x.cdxj"));
    assert_eq!(write(&dir, &to).unwrap().captures, 3);
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replacen("\"filename\"", "\"filxname\"", 1)).unwrap();
    let damaged = write(&dir, &to).unwrap_err();
    assert!(format!("{damaged:#}").contains("1 lines of an index"), "{damaged:#}");
    fs::remove_file(&index).unwrap();
    let missing = write(&dir, &to).unwrap_err();
    assert!(format!("{missing:#}").contains("no index lists"), "{missing:#}");
    let folder = write(&dir, dir.path()).unwrap_err();
    assert!(format!("{folder:#}").contains("is a folder"), "{folder:#}");
}
