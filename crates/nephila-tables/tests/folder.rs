//! Tables of an archive on disk: complete, the same again, and never half.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use nephila_store::disk::RealDisk;
use nephila_store::disk::faulty::{Damage, FaultyDisk, NO_SPACE, Plan};
use nephila_tables::{Error, Folder, query};

fn plain(_: &[u8], body: &[u8], _: u64) -> Option<Vec<u8>> {
    Some(body.to_vec())
}

fn record(kind: &str, id: &str, more: &str, block: &str) -> String {
    format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <{id}>\r\nWARC-Date: 2026-11-14T22:58:09.123Z\r\n{more}\
         Content-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
}

fn page(url: &str, status: &str, html: &str) -> String {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\n\r\n{html}");
    record("response", url, &format!("WARC-Target-URI: {url}\r\n"), &head)
}

/// A folder with one closed file, one that is being written and one with derived records.
fn archive() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("archive");
    fs::create_dir(&archive).unwrap();
    let file = [
        record("warcinfo", "i", "", "isPartOf: test\r\n"),
        page("http://b.test/", "200 OK", "<title>b</title><a href=http://a.test/>to a</a>"),
        page("http://a.test/robots.txt", "200 OK", ""),
        page("http://a.test/", "200 OK", "<a href=/gone>gone</a>"),
    ]
    .concat();
    let name = |prefix: &str| archive.join(format!("{prefix}-20261114225809123-00000-n.warc"));
    fs::write(name("X"), &file).unwrap();
    fs::write(name("X-extract"), &file).unwrap();
    fs::write(name("X").with_extension("warc.open"), &file).unwrap();
    dir
}

fn bytes_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                all.insert(path.clone(), fs::read(&path).unwrap());
            }
        }
    }
    all
}

fn names(folder: &Path) -> Vec<String> {
    bytes_of(folder).keys().map(|path| path.strip_prefix(folder).unwrap().display().to_string()).collect()
}

#[test]
fn a_closed_file_gets_its_tables_once() {
    let dir = archive();
    let folder = Folder::new(dir.path(), None);
    let mut steps = Vec::new();
    let mut go_on = |progress: nephila_tables::Progress| {
        steps.push((progress.done, progress.all));
        true
    };
    let written = folder.write_missing(&RealDisk, &plain, &mut go_on).unwrap();
    assert_eq!((written.files, written.skipped, written.failed.len()), (1, 0, 0));
    assert_eq!((written.part.captures, written.part.links, steps), (3, 2, vec![(0, 1)]));
    let part = "part-X-20261114225809123-00000-n.parquet";
    assert_eq!(
        names(folder.tables()),
        [
            format!("captures/crawl=test/subset=robotstxt/{part}"),
            format!("captures/crawl=test/subset=warc/{part}"),
            format!("links/crawl=test/{part}"),
        ]
    );
    let again = folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap();
    assert_eq!((again.files, again.skipped), (0, 1));
    let before = bytes_of(folder.tables());
    // One missing file is enough to write all of them again, and they are the same.
    for path in before.keys() {
        fs::remove_file(path).unwrap();
        assert_eq!(
            folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap().files,
            1,
            "{}",
            path.display()
        );
        assert_eq!(bytes_of(folder.tables()), before);
    }
}

#[test]
fn columns_are_read_back() {
    let dir = archive();
    let folder = Folder::new(dir.path(), Some(&dir.path().join("elsewhere")));
    folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap();
    let mut captures = Vec::new();
    let columns = ["fetch_status", "url", "title"];
    let rows = query::each(folder.tables(), "captures", &columns, &mut |row| {
        captures.push(format!("{} {} {}", row[1].text(), row[0].number(), row[2].text()));
    });
    assert_eq!(rows.unwrap(), 3);
    assert_eq!(captures, ["http://a.test/robots.txt 200 ", "http://a.test/ 200 ", "http://b.test/ 200 b"]);
    let mut links = Vec::new();
    let columns = ["source", "target", "anchor", "fetch_time"];
    query::each(folder.tables(), "links", &columns, &mut |row| {
        assert_eq!(row[3].number(), 1_794_697_089_123);
        links.push(format!("{} {} {}", row[0].text(), row[1].text(), row[2].text()));
    })
    .unwrap();
    assert_eq!(links, ["http://b.test/ http://a.test/ to a", "http://a.test/ http://a.test/gone gone"]);
}

#[test]
fn links_are_the_same_from_the_file_and_from_its_table() {
    let dir = archive();
    let folder = Folder::new(dir.path(), None);
    let open = dir.path().join("archive/X-20261114225809123-00000-n.warc.open");
    let links = || {
        let mut links = Vec::new();
        folder.each_link(&plain, &mut |link| links.push(format!("{link:?}"))).unwrap();
        links
    };
    assert_eq!(links().len(), 4, "two of the closed file, two of the one that is being written");
    fs::write(&open, "WARC/1.1\r\ntorn").unwrap();
    let before = links();
    assert_eq!(before.len(), 2);
    folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap();
    assert_eq!(links(), before);
}

#[test]
fn a_disk_that_fails_at_any_call_leaves_no_half_table() {
    let dir = archive();
    let folder = Folder::new(dir.path(), None);
    folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap();
    let wanted = bytes_of(folder.tables());
    for call in 0.. {
        fs::remove_dir_all(folder.tables()).unwrap();
        fs::create_dir(folder.tables()).unwrap();
        let disk = FaultyDisk::new(Plan::Once(call), NO_SPACE, Damage::HalfWritten);
        let result = folder.write_missing(&disk, &plain, &mut |_| true);
        for (path, bytes) in bytes_of(folder.tables()) {
            let is_temporary = path.extension().is_some_and(|ending| ending == "part");
            assert!(
                is_temporary || wanted.get(&path) == Some(&bytes),
                "{} after call {call}",
                path.display()
            );
        }
        if let Ok(written) = result {
            assert_eq!(written.files, 1);
            assert!(call > 10, "only {call} calls");
            break;
        }
        assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
        folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap();
        assert_eq!(bytes_of(folder.tables()), wanted, "after call {call}");
    }
}

#[test]
fn a_damaged_file_is_named_and_the_others_are_written() {
    let dir = archive();
    let torn = dir.path().join("archive/A-20261114225809123-00000-n.warc");
    fs::write(&torn, record("response", "x", "", "HTTP/1.1 200 OK\r\n\r\n").split_at(60).0).unwrap();
    let folder = Folder::new(dir.path(), None);
    let written = folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap();
    assert_eq!((written.files, written.failed.len()), (1, 1));
    assert!(written.failed[0].to_string().contains("A-2026"), "{}", written.failed[0]);
}
