//! Searches of archives on disk, as the server runs them.

use std::fmt::Write as _;
use std::fs;

use http::{HeaderMap, Method};
use http_body_util::BodyExt as _;

use super::*;
use crate::routes::Answers;
use crate::web::ReadOnly;

const STORY: &str = "The spider has put up its web between the fence and the apple tree of the garden behind the house, \
                     and the dew of the morning shows every single thread of it to those who get up early enough.";

fn record(kind: &str, url: &str, date: &str, fields: &str, block: &str) -> String {
    format!(
        "WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: <urn:uuid:{date}{url}>\r\nWARC-Date: {date}\r\n\
         WARC-Target-URI: {url}\r\n{fields}Content-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
}

fn response(url: &str, date: &str, status: u16, kind: &str, body: &str) -> String {
    let http = format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n\r\n{body}");
    record("response", url, date, "Content-Type: application/http; msgtype=response\r\n", &http)
}

fn page(title: &str, text: &str) -> String {
    format!(
        "<html><head><title>{title}</title></head><body><nav><a href=/>Home of cookies</a></nav><main><h1>{title}</h1>\
         <p>{text}</p></main></body></html>"
    )
}

fn folder(records: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("archive")).unwrap();
    fs::write(dir.path().join("archive/X.warc.open"), records).unwrap();
    dir
}

/// An archive of `count` pages, each with its own number.
fn many(count: usize) -> tempfile::TempDir {
    let mut records = String::new();
    for number in 0..count {
        let url = format!("http://site{}.test/{number:06}", number % 7);
        let html = page(&format!("Page {number}"), &format!("{STORY} number{number}end. {STORY}"));
        records.push_str(&response(&url, "2026-01-31T00:00:00Z", 200, "text/html", &html));
    }
    folder(&records)
}

fn wanted(target: &str) -> Result<SearchWanted, u16> {
    let asked = HttpQuestion::new(Method::GET, &format!("/api/v1/search?{target}"), HeaderMap::new(), false);
    SearchWanted::of(&asked).map_err(|instead| instead.status().as_u16())
}

fn bounds(captures: u64) -> Bounds {
    Bounds { end: Instant::now() + Duration::from_secs(600), captures }
}

fn search(dir: &tempfile::TempDir, target: &str) -> SearchSaid {
    wanted(target).unwrap().search(&Captures::new(dir.path()), bounds(u64::MAX)).unwrap()
}

fn urls(said: &SearchSaid) -> Vec<&str> {
    said.hits.iter().map(|hit| hit.url.as_str()).collect()
}

#[test]
fn the_newest_capture_of_each_url_is_searched() {
    let (old, new, newest) = ("2026-01-31T00:00:00Z", "2026-02-28T12:00:00Z", "2026-03-01T12:00:00Z");
    let digest = "WARC-Payload-Digest: sha256:AA\r\n";
    let http = "Content-Type: application/http; msgtype=response\r\n";
    let html = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{}", page("Kept", STORY));
    let records = [
        response("http://a.test/changed", old, 200, "text/html", &page("Old", &format!("{STORY} marmalade"))),
        response("http://a.test/changed", new, 200, "text/html", &page("New", STORY)),
        response("http://a.test/gone", old, 200, "text/html", &page("Gone", STORY)),
        response("http://a.test/gone", new, 404, "text/html", &page("Not found", STORY)),
        record("response", "http://a.test/kept", old, &format!("{http}{digest}"), &html),
        record("revisit", "http://a.test/kept", newest, &format!("{http}{digest}"), ""),
        response("http://a.test/style", old, 200, "text/css", "spider {}"),
        response("http://a.test/robots.txt", old, 200, "text/plain", "# spider"),
        response("http://a.test/note", old, 200, "text/plain", "a spider of few words"),
    ];
    let dir = folder(&records.concat());
    let said = search(&dir, "q=spider");
    assert_eq!(urls(&said), ["http://a.test/changed", "http://a.test/kept", "http://a.test/note"]);
    assert_eq!((said.searched, said.unread, said.stopped, said.cursor.clone()), (3, 0, Stopped::End, None));
    let hit = &said.hits[0];
    assert_eq!((&*hit.title, &*hit.captured), ("New", "2026-02-28T12:00:00Z"));
    assert_eq!(said.hits[1].captured, newest, "the body is older, the page is not");
    assert!(said.hits[2].is_all_text && !hit.is_all_text);
    assert_eq!(search(&dir, "q=marmalade").hits, [], "an old capture");
    assert_eq!(search(&dir, "q=cookies").hits, [], "not the main text");
    assert_eq!(urls(&search(&dir, "q=new%20DEW")), ["http://a.test/changed"], "title and text together");
    assert_eq!(urls(&search(&dir, "q=%22few%20words%22")), ["http://a.test/note"]);
    assert_eq!(urls(&search(&dir, "q=spider&url=http://a.test/k*")), ["http://a.test/kept"]);
}

#[test]
fn stored_text_is_searched_as_it_was_stored() {
    let (url, date) = ("http://a.test/paper.pdf", "2026-01-31T00:00:00Z");
    let refers = format!("WARC-Refers-To: <urn:uuid:{date}{url}>\r\n");
    let concurrent =
        format!("Content-Type: application/warc-fields\r\nWARC-Concurrent-To: <urn:uuid:{date}{url}>\r\n");
    let records = [
        response(url, date, 200, "application/pdf", "%PDF-1.7"),
        record("metadata", url, "2026-01-31T00:00:01Z", &concurrent, "fetchTimeMs: 3\r\ntitle: A paper\r\n"),
        record("conversion", url, "2026-01-31T00:00:02Z", &refers, "Silk is stronger than steel."),
        response("http://a.test/scan.pdf", date, 200, "application/pdf", "%PDF-1.7"),
    ];
    let dir = folder(&records.concat());
    let said = search(&dir, "q=paper%20SILK");
    assert_eq!(urls(&said), [url]);
    assert_eq!(said.hits[0].snippet, "Silk is stronger than steel.");
    assert_eq!((said.searched, said.unread), (1, 1), "a PDF without stored text is not read here");
}

#[test]
fn cursors_lead_through_every_page_once() {
    let dir = many(60);
    let captures = Captures::new(dir.path());
    let whole = search(&dir, "q=spider&limit=100");
    assert_eq!(whole.hits.len(), 60);
    for (limit, captures_max) in [(1, u64::MAX), (7, u64::MAX), (100, 9), (3, 2)] {
        let (mut cursor, mut found, mut parts) = (String::new(), Vec::new(), 0);
        loop {
            let target = format!("q=spider&limit={limit}{cursor}");
            let part = wanted(&target).unwrap().search(&captures, bounds(captures_max)).unwrap();
            assert!(part.hits.len() <= limit && part.searched <= captures_max);
            found.extend(part.hits);
            parts += 1;
            match part.cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        assert_eq!(found, whole.hits, "{limit}");
        assert!(parts > 6, "{limit}: {parts}");
    }
}

#[test]
fn a_site_with_very_many_spellings_of_an_address_holds_no_search_up() {
    let (date, count) = ("2026-01-31T00:00:00Z", 2_000);
    let spelling = |number: usize| -> String {
        let upper = |(bit, letter): (usize, char)| match (number >> bit) & 1 {
            1 => letter.to_ascii_uppercase(),
            _ => letter,
        };
        "abcdefghijk".chars().enumerate().map(upper).collect()
    };
    let html = page("Web", STORY);
    let mut records = String::new();
    for number in 0..count {
        let url = format!("http://a.test/{}", spelling(number));
        records.push_str(&response(&url, date, 200, "text/html", &html));
    }
    records.push_str(&response("http://b.test/", date, 200, "text/html", &html));
    let dir = folder(&records);
    let captures = Captures::new(dir.path());
    let search = |target: &str, end: Instant| {
        wanted(target).unwrap().search(&captures, Bounds { end, captures: u64::MAX }).unwrap()
    };
    let (late, now) = (Instant::now() + Duration::from_secs(600), Instant::now());

    let said = search("q=nothing%20has%20this", late);
    let kept = sites::URLS_OF_KEY_MAX as u64;
    assert_eq!((said.searched, said.unread, said.stopped), (kept + 1, count as u64 - kept, Stopped::End));
    let said = search("q=spider&limit=100", late);
    assert_eq!((said.hits.len(), said.searched, said.stopped), (2 * HITS_MAX, 200, Stopped::Hits));
    assert_eq!(said.unread, count as u64 - 200);
    let said = search("q=spider&limit=100", now);
    assert_eq!((said.hits.len(), said.stopped), (URLS_OF_KEY_SURE, Stopped::Work));
    assert_eq!(said.unread, (count - URLS_OF_KEY_SURE) as u64);
    let said = search(&format!("q=spider&cursor={}", said.cursor.unwrap()), late);
    assert_eq!(urls(&said), ["http://b.test/"], "the next address is not forgotten");
}

#[test]
fn doubled_input_costs_no_four_times() {
    let time = |count: usize| {
        let dir = many(count);
        let captures = Captures::new(dir.path());
        let wanted = wanted("q=nothing%20has%20this").unwrap();
        let once = || {
            let began = Instant::now();
            let said = wanted.search(&captures, bounds(u64::MAX)).unwrap();
            assert_eq!((said.hits.len(), said.searched), (0, count as u64));
            began.elapsed()
        };
        (0..3).map(|_| once()).min().unwrap()
    };
    // Machines are shared, so a bad figure is looked at again.
    let mut looks = Vec::new();
    while looks.len() < 4 {
        let (small, large) = (time(600), time(1_200));
        if large < small * 7 / 2 {
            return;
        }
        looks.push((small, large));
    }
    panic!("600 and 1,200 pages: {looks:?}");
}

#[test]
fn a_search_that_cannot_be_is_refused() {
    for target in ["", "q=", "q=%22%22", "q=x&cursor=!", "q=x&cursor=_w"] {
        assert_eq!(wanted(target).unwrap_err(), 400, "{target}");
    }
    assert_eq!(wanted("q=x").unwrap().limit, HITS_USUAL);
}

#[test]
fn the_hits_of_several_archives_are_those_of_one() {
    let parts: Vec<(tempfile::TempDir, usize)> = (0..3)
        .map(|node| {
            let mut records = String::new();
            for number in (0..40).filter(|number| number % 3 == node || number % 10 == 0) {
                let date = format!("2026-01-0{}T00:00:00Z", node + 1);
                let html = page(&format!("Page {number}"), STORY);
                let url = format!("http://site.test/{number:03}");
                write!(records, "{}", response(&url, &date, 200, "text/html", &html)).unwrap();
            }
            (folder(&records), node)
        })
        .collect();
    for limit in [1, 6, 100] {
        let (mut cursor, mut found) = (String::new(), Vec::new());
        loop {
            let wanted = wanted(&format!("q=spider&limit={limit}{cursor}")).unwrap();
            // The nodes are not equally fast.
            let part = |(dir, node): &(tempfile::TempDir, usize)| {
                wanted.search(&Captures::new(dir.path()), bounds(3 + 4 * *node as u64)).unwrap()
            };
            let said = merged(parts.iter().map(part), limit);
            assert!(said.hits.len() <= limit);
            found.extend(said.hits);
            match said.cursor {
                Some(next) => cursor = format!("&cursor={next}"),
                None => break,
            }
        }
        let numbers: Vec<String> = found.iter().map(|hit| hit.url[17..].to_owned()).collect();
        assert_eq!(numbers, (0..40).map(|number| format!("{number:03}")).collect::<Vec<_>>(), "{limit}");
        let tenth = found.iter().filter(|hit| hit.url.ends_with('0'));
        assert!(tenth.into_iter().all(|hit| hit.captured.starts_with("2026-01-03")), "the newest counts");
    }
}

#[tokio::test]
async fn a_search_keeps_its_place_when_its_client_has_gone() {
    let dir = many(1);
    let archive = Archive::new(dir.path(), "here");
    let place = archive.searches.clone().acquire_owned().await.unwrap();
    let (end, until) = std::sync::mpsc::channel::<()>();
    let search = archive.blocking(place, move |_| Ok(until.recv().is_ok()));
    assert!(
        timeout(Duration::from_millis(50), search).await.is_err(),
        "the client goes before the search ends"
    );
    assert_eq!(archive.searches.available_permits(), AT_ONCE - 1);
    drop(end);
    let all_free = async {
        while archive.searches.available_permits() < AT_ONCE {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(20), all_free).await.expect("the place is free at the end of the search");
}

#[tokio::test]
async fn a_server_answers_a_search() {
    let dir = many(5);
    let server = ReadOnly::new(dir.path(), "here");
    let ask = |target: &str| HttpQuestion::new(Method::GET, target, HeaderMap::new(), false);
    let answer = server.answer(ask("/api/v1/search?q=number3end")).await;
    assert_eq!(answer.status(), 200);
    let said: SearchSaid =
        serde_json::from_slice(&answer.into_body().collect().await.unwrap().to_bytes()).unwrap();
    assert_eq!(urls(&said), ["http://site3.test/000003"]);
    for target in ["/api/v1/search", "/api/v1/search?q=x&limit=0", "/api/v1/search?q="] {
        assert_eq!(server.answer(ask(target)).await.status(), 400, "{target}");
    }
}
