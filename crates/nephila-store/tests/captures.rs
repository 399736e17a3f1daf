//! Captures are found and read, in every file and in every state of the file.

use nephila_store::archive::{Archive, Compression, Kind, Settings};
use nephila_store::captures::{Captures, Error, Match, Query, text};

mod common;
use common::*;

const NOT_MODIFIED: &str = "HTTP/1.1 304 Not Modified\r\nETag: \"v1\"\r\n\r\n";

fn urls(captures: &Captures, query: &Query) -> Vec<String> {
    captures.find(query).unwrap().map(|line| line.unwrap().capture.url).collect()
}

fn of(url: &str, matches: Match) -> Query {
    Query { url: url.into(), matches, ..Query::default() }
}

#[tokio::test]
async fn captures_are_found_in_open_closed_and_killed_archives() {
    for compression in [Compression::Gzip { level: 1 }, Compression::Zstd { level: 3 }, Compression::None] {
        let dir = tempfile::tempdir().unwrap();
        let captures = Captures::new(dir.path());
        assert!(urls(&captures, &Query::exact("http://site.test/1")).is_empty(), "nothing was ever stored");
        let archive = Archive::open(dir.path(), Settings { compression, ..settings() }, info()).unwrap();
        for n in 0..20 {
            archive.append(page(n)).await.unwrap();
        }
        let check = |stage: &str| {
            for n in 0..20 {
                let url = format!("http://site.test/{n}");
                assert_eq!(urls(&captures, &Query::exact(&url)), [url.as_str()], "{stage}");
                let line = captures.nearest(&url, None).unwrap().unwrap();
                let capture = captures.read(&line, 1 << 20).unwrap();
                assert_eq!(capture.body, format!("<p>page {n}</p>").repeat(100).into_bytes(), "{stage}");
                assert!(capture.http.starts_with(b"HTTP/1.1 200 OK\r\n"), "{stage}");
                let mut record = Vec::new();
                captures.copy_record(&line, &mut record).unwrap();
                assert!(record.starts_with(b"WARC/1.1\r\nWARC-Type: response\r\n"), "{stage}");
                assert!(record.ends_with(&capture.body), "{stage}");
            }
            assert_eq!(urls(&captures, &of("http://site.test/", Match::Host)).len(), 20, "{stage}");
        };
        check("while it is written");
        // A torn tail, as a killed process leaves one.
        let open =
            names(&dir.path().join("archive")).into_iter().find(|name| name.ends_with(".open")).unwrap();
        let open = dir.path().join("archive").join(open);
        let whole = std::fs::read(&open).unwrap();
        let copy = tempfile::tempdir().unwrap();
        std::fs::create_dir(copy.path().join("archive")).unwrap();
        let torn = copy.path().join("archive").join(open.file_name().unwrap());
        std::fs::write(torn, &whole[..whole.len() - 10]).unwrap();
        let killed = Captures::new(copy.path());
        assert!(urls(&killed, &of("http://site.test/", Match::Host)).len() >= 19);
        archive.close().await.unwrap();
        check("when it is closed, from its index and the merged one");
        std::fs::remove_file(dir.path().join("indexes/index.cdxj")).unwrap();
        check("without the merged index");
    }
}

#[tokio::test]
async fn a_revisit_has_the_body_of_the_record_it_refers_to() {
    let dir = tempfile::tempdir().unwrap();
    let captures = Captures::new(dir.path());
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    let body = "same ".repeat(1000);
    archive.append(exchange("http://a.test/1", &body)).await.unwrap();
    assert_eq!(archive.append(exchange("http://b.test/2", &body)).await.unwrap().kind, Kind::Revisit);
    let mut again = answer("http://a.test/1", NOT_MODIFIED, Vec::new());
    again.started = nephila_core::time::Timestamp::from_secs(1_794_699_999);
    assert_eq!(archive.append(again).await.unwrap().kind, Kind::NotModified);
    for stage in ["open", "closed"] {
        let line = captures.nearest("http://b.test/2", None).unwrap().unwrap();
        let capture = captures.read(&line, 1 << 20).unwrap();
        assert_eq!(capture.body, body.as_bytes(), "{stage}");
        assert_eq!(capture.header.get("WARC-Type"), Some("revisit"));
        assert_eq!(capture.origin.unwrap().capture.url, "http://a.test/1");
        let line = captures.nearest("http://a.test/1", None).unwrap().unwrap();
        let capture = captures.read(&line, 1 << 20).unwrap();
        assert_eq!(capture.header.get("WARC-Type"), Some("revisit"), "the latest is the 304");
        assert_eq!(capture.body, body.as_bytes(), "{stage}");
        assert!(capture.http.starts_with(b"HTTP/1.1 200 OK"), "the head is the page's");
        let first = captures.nearest("http://a.test/1", Some("20261114")).unwrap().unwrap();
        assert_eq!(captures.read(&first, 1 << 20).unwrap().header.get("WARC-Type"), Some("response"));
        archive.close().await.ok();
    }
}

#[tokio::test]
async fn a_revisit_whose_page_is_elsewhere_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let archive = Archive::open(dir.path(), settings(), info()).unwrap();
    let body = "same ".repeat(1000);
    archive.append(exchange("http://a.test/1", &body)).await.unwrap();
    archive.append(exchange("http://b.test/2", &body)).await.unwrap();
    archive.close().await.unwrap();
    for folder in ["archive", "indexes"] {
        for name in names(&dir.path().join(folder)).iter().filter(|name| name.ends_with(".cdxj")) {
            let path = dir.path().join(folder).join(name);
            let kept: String = std::fs::read_to_string(&path)
                .unwrap()
                .lines()
                .filter(|l| !l.starts_with("test,a)"))
                .collect();
            std::fs::write(path, kept).unwrap();
        }
    }
    let captures = Captures::new(dir.path());
    let line = captures.nearest("http://b.test/2", None).unwrap().unwrap();
    let error = captures.read(&line, 1 << 20).unwrap_err();
    assert!(matches!(&error, Error::NoOrigin { url, .. } if url == "http://a.test/1"), "{error}");
}

#[test]
fn a_match_takes_what_it_names_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("archive")).unwrap();
    let all = [
        "http://site.test/",
        "http://site.test/a",
        "http://site.test/a/b",
        "http://site.test/a?q=1",
        "http://site.test/ab",
        "http://site.test:8080/a",
        "http://www.site.test/w",
        "http://sub.site.test/a",
        "http://site-two.test/a",
        "http://sitet.test/a",
    ];
    let mut lines: Vec<String> = all
        .iter()
        .enumerate()
        .map(|(n, url)| {
            let capture = nephila_core::store::cdxj::Capture {
                url: (*url).into(),
                digits14: format!("2026111400000{n}"),
                ..Default::default()
            };
            let place = nephila_core::store::cdxj::Place { length: 1, offset: 2, filename: "x.warc.gz" };
            nephila_core::store::cdxj::finish(capture.begin(), &place, None)
        })
        .collect();
    lines.sort();
    // Twice: every capture must still be found only once.
    for name in ["one.cdxj", "two.cdxj"] {
        std::fs::write(dir.path().join("archive").join(name), lines.join("\n") + "\n").unwrap();
    }
    let captures = Captures::new(dir.path());
    let check = |url: &str, matches, want: &[usize]| {
        let mut found = urls(&captures, &of(url, matches));
        found.sort();
        let mut want: Vec<_> = want.iter().map(|n| all[*n].to_owned()).collect();
        want.sort();
        assert_eq!(found, want, "{url} {matches:?}");
    };
    check("http://site.test/a", Match::Exact, &[1]);
    check("https://www.site.test/a/", Match::Exact, &[1]);
    check("http://site.test/a", Match::Prefix, &[1, 2, 3, 4]);
    check("http://site.test/a/", Match::Prefix, &[1, 2, 3]);
    check("http://site.test/", Match::Host, &[0, 1, 2, 3, 4, 5, 6]);
    check("http://site.test:8080/", Match::Host, &[5]);
    check("http://site.test/x", Match::Domain, &[0, 1, 2, 3, 4, 5, 6, 7]);
    check("http://nobody.test/", Match::Domain, &[]);
    let found = captures.find(&of("http://site.test/", Match::Domain)).unwrap();
    let texts: Vec<_> = found.map(|line| text(&line.unwrap())).collect();
    assert!(texts.is_sorted() && texts.iter().all(|text| lines.contains(text)));
    let timed = Query {
        from: Some("20261114000001".into()),
        to: Some("20261114000002".into()),
        ..of("http://site.test/", Match::Host)
    };
    assert_eq!(urls(&captures, &timed), [all[1], all[2]]);
    let day = Query { from: Some("20261114".into()), to: Some("2026".into()), ..timed };
    assert_eq!(urls(&captures, &day).len(), 7);
}

#[test]
fn a_large_index_is_searched_at_every_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("indexes")).unwrap();
    let line = |n: u32, pad: usize| {
        format!(
            "test,site)/{n:06} 20261114000000 {{\"url\": \"http://site.test/{n:06}\", \"mime\": \"{}\", \
             \"length\": \"1\", \"offset\": \"{n}\", \"filename\": \"x.warc.gz\"}}\n",
            "m".repeat(pad)
        )
    };
    // Some lines are longer than the read buffer.
    let all: String =
        (0..3_000).map(|n| line(n, if n % 500 == 7 { 100_000 } else { n as usize % 90 })).collect();
    std::fs::write(dir.path().join("indexes/index.cdxj"), &all).unwrap();
    let captures = Captures::new(dir.path());
    for n in 0..3_000 {
        let found: Vec<_> = captures
            .find(&Query::exact(&format!("http://site.test/{n:06}")))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert_eq!(found.len(), 1, "{n}");
        assert_eq!(found[0].offset, n);
    }
    assert_eq!(urls(&captures, &of("http://site.test/", Match::Host)).len(), 3_000);
    assert_eq!(urls(&captures, &of("http://site.test/0001", Match::Prefix)).len(), 100);
    for missing in ["http://site.test/", "http://site.test/0000001", "http://zzz.test/", "http://a.aaa/"] {
        assert!(urls(&captures, &Query::exact(missing)).is_empty(), "{missing}");
    }
}
