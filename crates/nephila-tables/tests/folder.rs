//! Tables of an archive on disk: complete, the same again, and never half.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
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

fn member(record: &str) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(record.as_bytes()).unwrap();
    out.finish().unwrap()
}

/// A page of 30,000 digits, which do not compress well.
fn long_page(number: u32) -> String {
    let mut seed = number;
    let digit = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'0' + (seed >> 24) as u8 % 10)
    };
    let digits: String = std::iter::repeat_with(digit).take(30_000).collect();
    format!("<title>read</title><p>{digits}</p><a href=http://c.test/{number}>read</a>")
}

#[test]
fn the_index_beside_a_file_saves_work_and_changes_no_row() {
    let dir = tempfile::tempdir().unwrap();
    let archive = dir.path().join("archive");
    fs::create_dir(&archive).unwrap();
    let (name, index) = ("X-20261114225809123-00000-n.warc.gz", "X-20261114225809123-00000-n.cdxj");
    let (mut file, mut places) = (member(&record("warcinfo", "i", "", "isPartOf: test\r\n")), Vec::new());
    for number in 0..60 {
        let url = format!("http://a.test/{number}");
        // The last third has no notes, of the others every tenth has none.
        let notes = match number {
            40.. => "",
            _ if number % 10 == 0 => "",
            _ => "tableNotes: 1\r\nmediaType: text/html\r\npageTitle: noted\r\n",
        };
        let status = if number % 7 == 0 { "404 Not Found" } else { "200 OK" };
        let response = member(&page(&url, status, &long_page(number)));
        places.push((url.clone(), file.len(), response.len()));
        file.extend(response);
        let lines = format!("fetchTimeMs: 1\r\noutlink: http://c.test/{number} L a/@href\r\n{notes}");
        file.extend(member(&record("metadata", "m", &format!("WARC-Concurrent-To: <{url}>\r\n"), &lines)));
    }
    fs::write(archive.join(name), &file).unwrap();
    let write_index = |length_of: &dyn Fn(usize) -> usize| {
        let line = |(url, offset, length): &(String, usize, usize)| {
            let length = length_of(*length);
            format!(
                "test,a)/ 20261114225809 {{\"url\": \"{url}\", \"length\": \"{length}\", \"offset\": \"{offset}\", \
                 \"filename\": \"{name}\"}}\n"
            )
        };
        fs::write(archive.join(index), places.iter().map(line).collect::<String>()).unwrap();
    };
    let folder = Folder::new(dir.path(), None);
    let written = || {
        let _ = fs::remove_dir_all(folder.tables());
        let written = folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap();
        assert!(written.failed.is_empty(), "{:?}", written.failed);
        assert_eq!((written.part.captures, written.part.links), (60, 60));
        bytes_of(folder.tables())
    };
    let whole = written();
    let mut titles = BTreeMap::new();
    query::each(folder.tables(), "captures", &["title"], &mut |row| {
        *titles.entry(row[0].text().to_owned()).or_insert(0) += 1;
    })
    .unwrap();
    assert!(titles["noted"] > 20 && titles["read"] > 15, "both kinds: {titles:?}");
    write_index(&|length| length);
    assert!(written() == whole, "with an index");
    for wrong in [|length: usize| length - 9, |length: usize| length + 9, |_| usize::MAX, |_| 0] {
        write_index(&wrong);
        assert!(written() == whole, "with a wrong index");
    }
    // Damage in a body that no row needs is not seen: it was passed over.
    write_index(&|length| length);
    let (_, offset, length) = &places[31];
    let mut damaged = file.clone();
    damaged[offset + length - 100..offset + length].fill(0xff);
    fs::write(archive.join(name), &damaged).unwrap();
    assert!(written() == whole, "passed over");
    fs::remove_file(archive.join(index)).unwrap();
    fs::remove_dir_all(folder.tables()).unwrap();
    let failed = folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap().failed;
    assert_eq!(failed.len(), 1, "read whole, the damage is found");
}

/// Foreign files must neither cause a panic nor make more rows than they have bytes for.
#[test]
fn changed_bytes_of_a_file_cause_no_panic() {
    let dir = archive();
    let path = dir.path().join("archive/X-20261114225809123-00000-n.warc");
    let notes = "fetchTimeMs: 1\r\ntableNotes: 1\r\nmediaType: text/html\r\nhreflang: de=http://a.test/de\r\n\
        outlink: http://c.test/ L a/@href\r\noutlinkText: 0 link 3 rel the text\r\nusage: train-ai=n\r\n";
    let noted = record("metadata", "m", "WARC-Concurrent-To: <http://a.test/>\r\n", notes);
    let file = [fs::read(&path).unwrap(), noted.into_bytes()].concat();
    let folder = Folder::new(dir.path(), None);
    let mut seed = 7_u32;
    let mut next = |below: usize| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as usize % below
    };
    let mut written = 0;
    for _ in 0..400 {
        let mut changed = file.clone();
        for _ in 0..1 + next(4) {
            let at = next(changed.len());
            match next(4) {
                0 => changed[at] = next(256) as u8,
                1 => drop(changed.drain(at..(at + next(20)).min(file.len()).min(changed.len()).max(at))),
                2 => changed.insert(at, b":\r\n -0<%"[next(8)]),
                _ => changed[at] = b'9',
            }
        }
        fs::write(&path, &changed).unwrap();
        let _ = fs::remove_dir_all(folder.tables());
        let done = folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap();
        assert!((done.part.captures + done.part.links) < changed.len() as u64 / 20);
        written += done.files;
    }
    assert!(written > 20, "some of them are still read: {written}");
}

#[test]
fn a_record_shorter_than_it_says_keeps_the_body_that_is_there() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("archive")).unwrap();
    let page = page("http://a.test/", "200 OK", "<a href=http://b.test/>b</a>");
    let (head, block) = page.split_once("\r\n\r\n").unwrap();
    let head = head.rsplit_once("Content-Length").unwrap().0;
    let short = member(&format!("{head}Content-Length: 5000\r\n\r\n{block}"));
    let info = member(&record("warcinfo", "i", "", "isPartOf: test\r\n"));
    let name = "X-20261114225809123-00000-n.warc.gz";
    let archive = dir.path().join("archive");
    fs::write(archive.join(name), [&info[..], &short].concat()).unwrap();
    let line = format!(
        "test,a)/ 20261114225809 {{\"url\": \"http://a.test/\", \"length\": \"{}\", \"offset\": \"{}\", \
         \"filename\": \"{name}\"}}\n",
        short.len(),
        info.len()
    );
    let folder = Folder::new(dir.path(), None);
    for index in ["", &line] {
        fs::write(archive.join("X-20261114225809123-00000-n.cdxj"), index).unwrap();
        let _ = fs::remove_dir_all(folder.tables());
        let written = folder.write_missing(&RealDisk, &plain, &mut |_| true).unwrap();
        assert_eq!((written.part.captures, written.part.links), (1, 1), "{:?}", written.failed);
    }
}
