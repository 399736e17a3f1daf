//! Reports over a small log with every case once.

use std::sync::{Arc, Mutex};

use super::*;
use nephila_core::spider::Outcome;
use nephila_engine::log::{Links, Stored};

/// The captured output.
#[derive(Clone, Default)]
struct Printed(Arc<Mutex<Vec<u8>>>);

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn line(at: u64, url: &str, outcome: &str) -> Line {
    let parsed = CrawlUrl::parse(url).unwrap();
    let known = Outcome::by_name(outcome).unwrap();
    Line {
        at,
        url: url.into(),
        outcome: outcome.into(),
        class: known.class().to_string(),
        origin: parsed.origin().to_owned(),
        address: Some("127.0.0.1".parse().unwrap()),
        took_ms: 10,
        bytes: 100,
        mime: "text/html".into(),
        ..Line::default()
    }
}

fn log(lines: &[Line]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = lines.iter().flat_map(Line::json).collect();
    std::fs::write(dir.path().join("outcomes-00000001.jsonl"), bytes).unwrap();
    dir
}

fn ask(lines: &[Line], format: TableFormat, ask: impl FnOnce(&mut Report) -> Exit) -> (String, Exit) {
    let (dir, printed) = (log(lines), Printed::default());
    let mut report = Report {
        logs: dir.path().into(),
        filter: Filter::default(),
        format,
        limit: usize::MAX,
        out: Box::new(printed.clone()),
        captures: None,
        tables: None,
        beyond: 0,
        skipped: 0,
    };
    let exit = ask(&mut report);
    let text = String::from_utf8(printed.0.lock().unwrap().clone()).unwrap();
    (text, exit)
}

#[test]
fn hosts_are_counted_the_most_asked_first() {
    let lines = [
        line(0, "http://a.test/1", "ok"),
        line(1, "http://b.test/1", "ok"),
        line(2, "http://b.test/2", "not-found"),
    ];
    let (text, _) = ask(&lines, TableFormat::Csv, |report| report.hosts().unwrap());
    assert_eq!(
        text,
        "requests,ok,not_ok,bytes,mean_ms,host\n2,1,1,200,10,http://b.test\n1,1,0,100,10,http://a.test\n"
    );
}

#[test]
fn a_page_that_came_back_is_not_broken() {
    let lines = [
        line(0, "http://a.test/gone", "not-found"),
        line(1, "http://a.test/flaky", "server-error"),
        line(2, "http://a.test/flaky", "ok"),
        line(3, "http://a.test/dead", "connect-refused"),
        line(4, "http://a.test/ours", "local-files"),
        line(5, "http://a.test/secret", "forbidden"),
        line(6, "http://a.test/robots", "robots-denied"),
        line(7, "http://a.test/tls", "tls-expired"),
    ];
    let (text, exit) = ask(&lines, TableFormat::Json, |report| report.links(true).unwrap());
    let urls: Vec<_> = text
        .lines()
        .map(|line| {
            serde_json::from_str::<serde_json::Value>(line).unwrap()["url"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(urls, ["http://a.test/dead", "http://a.test/gone", "http://a.test/tls"]);
    assert_eq!(exit, Exit::Failed);
    let (text, exit) = ask(&lines, TableFormat::Table, |report| report.links(false).unwrap());
    assert_eq!((text.lines().count(), exit), (1 + 6, Exit::Done));
    let (_, exit) = ask(&lines[1..3], TableFormat::Table, |report| report.links(true).unwrap());
    assert_eq!(exit, Exit::Done, "nothing is broken any more");
}

#[test]
fn a_link_that_redirects_to_a_broken_page_is_broken() {
    let moved = |at, url: &str, to: &str| {
        let mut moved = line(at, &format!("http://a.test/{url}"), "redirect");
        moved.redirect = Some(format!("http://a.test/{to}"));
        moved.via = Some("http://a.test/".into());
        moved
    };
    let lines = [
        moved(0, "old", "older"),
        moved(1, "older", "gone"),
        line(2, "http://a.test/gone", "not-found"),
        moved(3, "round", "and-round"),
        moved(4, "and-round", "round"),
        moved(5, "fine", "here"),
        line(6, "http://a.test/here", "ok"),
        moved(7, "elsewhere", "never-asked"),
        moved(8, "mended", "gone"),
        line(9, "http://a.test/mended", "ok"),
    ];
    let (text, exit) = ask(&lines, TableFormat::Csv, |report| report.links(true).unwrap());
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|row| row.split(',').collect()).collect();
    let rows: Vec<_> = rows.iter().map(|row| (row[1], row[4], row[5], row[7])).collect();
    let from = "http://a.test/";
    assert_eq!(
        rows,
        [
            ("redirect-loop", "http://a.test/and-round", from, "http://a.test/round"),
            ("not-found", "http://a.test/gone", "", ""),
            ("not-found", "http://a.test/old", from, "http://a.test/gone"),
            ("not-found", "http://a.test/older", from, "http://a.test/gone"),
            ("redirect-loop", "http://a.test/round", from, "http://a.test/and-round"),
        ]
    );
    assert_eq!(exit, Exit::Failed);
}

#[test]
fn links_to_hosts_without_an_answer_are_found_by_their_origin() {
    assert_eq!(links::origin("http://a.test:81/x?y"), "http://a.test:81");
    assert_eq!(links::origin("https://a.test?y"), "https://a.test");
    assert_eq!(links::origin("https://a.test"), "https://a.test");
    assert_eq!(links::origin("nothing"), "nothing");
}

#[test]
fn bodies_under_several_urls_are_duplicates() {
    let with = |at, url: &str, digest: &str| Line { digest: Some(digest.into()), ..line(at, url, "ok") };
    let lines = [
        with(0, "http://a.test/1", "sha1:A"),
        with(1, "http://a.test/1", "sha1:A"),
        with(2, "http://a.test/2", "sha1:B"),
        with(3, "http://b.test/2", "sha1:B"),
    ];
    let (text, _) = ask(&lines, TableFormat::Csv, |report| report.duplicates().unwrap());
    assert_eq!(text, "urls,bytes,digest,examples\n2,100,sha1:B,http://a.test/2 http://b.test/2\n");
}

#[test]
fn redirects_seeds_types_and_traps_have_their_rows() {
    let mut moved = line(0, "http://a.test/", "redirect");
    moved.status = Some(301);
    moved.redirect = Some("http://b.test/".into());
    let mut page = line(1, "http://b.test/", "ok");
    page.status = Some(200);
    page.links = Some(Links { wanted: 5, out: 2, traps: 3 });
    page.warc = Some(Stored { file: "x".into(), offset: 0, length: 1, kind: "revisit".into() });
    let mut robots = line(2, "http://b.test/robots.txt", "ok");
    robots.purpose = Purpose::Robots;
    let lines = [moved, page, robots];
    let csv = |ask_it: &dyn Fn(&mut Report) -> Exit| ask(&lines, TableFormat::Csv, |report| ask_it(report)).0;
    assert_eq!(csv(&|r| r.redirects().unwrap()), "status,from,to\n301,http://a.test/,http://b.test/\n");
    assert_eq!(csv(&|r| r.types().unwrap()), "pages,ok,bytes,type\n2,2,200,text/html\n");
    assert_eq!(
        csv(&|r| r.traps().unwrap()),
        "trap_links,pages,host,examples\n3,1,http://b.test,http://b.test/\n"
    );
    assert_eq!(
        csv(&|r| r.seeds(&["http://a.test".into(), "http://never.test/".into()]).unwrap()),
        "status,outcome,at,seed,to\n301,redirect,1970-01-01T00:00:00Z,http://a.test,http://b.test/\n\
         ,not fetched,,http://never.test/,\n"
    );
    let dir = log(&lines);
    let summary = Summary::read(dir.path(), &Filter::default()).unwrap();
    assert_eq!((summary.requests, summary.pages, summary.robots, summary.hosts), (3, 1, 1, 2));
    assert_eq!((summary.revisits, summary.links_traps, summary.outcomes["ok"]), (1, 3, 1));
    let mut text = Vec::new();
    summary.print(&mut text).unwrap();
    assert!(
        String::from_utf8(text).unwrap().starts_with("1 pages from 2 hosts at 1 addresses, 1 robots.txt\n")
    );
}

#[test]
fn fin_07_only_documents_asked_for_as_pages_are_pages() {
    let of = |at, url: &str, mime: &str| Line { mime: mime.into(), ..line(at, url, "ok") };
    let sitemap = Line { read_as: "sitemap".into(), ..of(2, "http://a.test/sitemap.xml", "application/xml") };
    let lines = [
        of(0, "http://a.test/", "text/html"),
        of(1, "http://a.test/a.pdf", "application/pdf"),
        sitemap,
        of(3, "http://a.test/a.png", "image/png"),
        of(4, "http://a.test/a.css", "text/css"),
        line(5, "http://a.test/gone", "not-found"),
        line(6, "http://a.test/long", "cut-length"),
    ];
    let dir = log(&lines);
    let summary = Summary::read(dir.path(), &Filter::default()).unwrap();
    assert_eq!((summary.pages, summary.lists, summary.files, summary.cut), (3, 1, 2, 1));
    let mut text = Vec::new();
    summary.print(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.starts_with("3 pages, 1 sitemaps and feeds, 2 images and other files from 1 hosts"),
        "{text}"
    );
    assert!(text.contains("1 bodies cut at a size limit: spider.body_bytes_max"), "fin_06: {text}");
}
