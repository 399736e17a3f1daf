//! Pages that are visited again, by the real command: a sitemap's claims of changes and their reliability, HEAD
//! requests instead of large pages, and the text of stories.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use super::feeds::{say, text, wait};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Idle timeout of a connection.
const PATIENCE: Duration = Duration::from_secs(180);

/// The answer of a path.
#[derive(Clone, Default)]
struct Answer {
    mime: &'static str,
    /// Sent with a GET; empty for none.
    etag: String,
    /// Sent with a HEAD, if that differs.
    head_etag: Option<String>,
    body: String,
}

/// A site whose answers the test sets. The site ignores validators.
#[derive(Clone, Default)]
struct Site {
    answers: Arc<Mutex<BTreeMap<String, Answer>>>,
    /// Number of requests for each path, by method.
    asked: Arc<Mutex<BTreeMap<(String, String), u64>>>,
}

impl Site {
    fn start(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let site = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let site = site.clone();
                std::thread::spawn(move || site.answer(&stream));
            }
        });
        port
    }

    fn set(&self, path: &str, answer: Answer) {
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    fn page(&self, path: &str, body: &str) {
        self.set(path, Answer { mime: "text/html", body: body.to_owned(), ..Answer::default() });
    }

    fn asked(&self, method: &str, path: &str) -> u64 {
        let asked = self.asked.lock().unwrap();
        asked.get(&(method.to_owned(), path.to_owned())).copied().unwrap_or(0)
    }

    /// All requests of a method for paths with this prefix.
    fn all(&self, method: &str, prefix: &str) -> u64 {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|((m, p), _)| m == method && p.starts_with(prefix)).map(|(_, times)| times).sum()
    }

    fn answer(&self, stream: &TcpStream) -> Option<()> {
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let (method, path) = (line.split(' ').next()?.to_owned(), line.split(' ').nth(1)?.to_owned());
            loop {
                let mut field = String::new();
                reader.read_line(&mut field).ok()?;
                if field.trim().is_empty() {
                    break;
                }
            }
            *self.asked.lock().unwrap().entry((method.clone(), path.clone())).or_default() += 1;
            let found = self.answers.lock().unwrap().get(&path).cloned();
            let mut out = stream;
            let Some(answer) = found else {
                write!(out, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").ok()?;
                continue;
            };
            let is_head = method == "HEAD";
            let etag = answer.head_etag.as_ref().filter(|_| is_head).unwrap_or(&answer.etag);
            let tag = if etag.is_empty() { String::new() } else { format!("ETag: {etag}\r\n") };
            let length = answer.body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: {}\r\n{tag}Content-Length: {length}\r\n\r\n",
                answer.mime
            );
            out.write_all(head.as_bytes()).ok()?;
            if !is_head {
                out.write_all(answer.body.as_bytes()).ok()?;
            }
        }
    }
}

/// A crawl that visits pages again; killed, by its own handle, when the test is over.
struct Crawl(Child);

impl Crawl {
    fn start(dir: &Path, more: &[&str]) -> Crawl {
        let mut command = Command::new(PROGRAM);
        command.current_dir(dir).env("HOME", dir).env("NEPHILA_CONFIG", "/dev/null");
        let child = command
            .args(["crawl", "-o", "news", "--forever", "-q", "--delay", "0s"])
            .args(["--set", "frontier.slot_delay=0s", "--set", "recrawl.policy=adaptive"])
            .args(["--set", "recrawl.interval_min=1s", "--set", "recrawl.host_visits_per_day=0"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the crawl starts");
        Crawl(child)
    }

    /// Asks the crawl to end, and waits for the end.
    fn end(mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Crawl {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// The date in `ahead` seconds from now, in the format of a sitemap.
fn date(ahead: u64) -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() + ahead;
    nephila_core::time::Timestamp(since * 1_000).warc_date()
}

fn sitemap(port: u16, pages: usize, lastmod: &str) -> Answer {
    let urls = (0..pages)
        .map(|n| format!("<url><loc>http://127.0.0.1:{port}/p/{n}</loc><lastmod>{lastmod}</lastmod></url>"));
    let body = format!("<urlset>{}</urlset>", urls.collect::<String>());
    Answer { mime: "application/xml", body, ..Answer::default() }
}

/// A stream names the sitemap, so the crawl reads the sitemap again.
fn name_sitemap(dir: &Path, port: u16, round: u64) {
    let name = format!("round{round}");
    let at = format!("20261115{:02}{:02}00", 12 + round / 60, round % 60);
    let line =
        format!("{name}\t5\t{at}\thttp://page.test/\thttp://127.0.0.1:{port}/sitemap.xml\t1\t{name}\n");
    std::fs::write(dir.join(&name), line).unwrap();
    let output = say(dir, &["add", "crawl", "--reflog", &name, "-o", "news"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_sitemap_brings_pages_forward_until_its_word_is_found_to_be_wrong() {
    const PAGES: usize = 5;
    let dir = tempfile::tempdir().unwrap();
    let site = Site::default();
    let port = site.start();
    let robots = format!("Sitemap: http://127.0.0.1:{port}/sitemap.xml\n");
    site.set("/robots.txt", Answer { mime: "text/plain", body: robots, ..Answer::default() });
    site.set("/sitemap.xml", sitemap(port, PAGES, "2020-01-01"));
    (0..PAGES).for_each(|n| site.page(&format!("/p/{n}"), &format!("<html><title>{n}</title>")));
    let home = format!("http://127.0.0.1:{port}/p/0");
    let _crawl = Crawl::start(dir.path(), &[&home]);
    let pages = || (0..PAGES).map(|n| site.asked("GET", &format!("/p/{n}"))).collect::<Vec<_>>();
    let settled = || {
        let now = super::feeds::json(&say(dir.path(), &["stats", "-o", "news", "--json"]));
        let count = |name: &str| now["running"][name].as_u64();
        (count("tickets_open"), count("urls_waiting")) == (Some(0), Some(0))
    };
    // The sitemap is read again, and all resulting fetches are done.
    let read_again = |round: u64| {
        // Claims are compared in whole seconds.
        std::thread::sleep(Duration::from_millis(2_100));
        let before = site.asked("GET", "/sitemap.xml");
        name_sitemap(dir.path(), port, round);
        wait("the sitemap again", || site.asked("GET", "/sitemap.xml") > before);
        wait("all is done", settled);
    };
    wait("all pages", || pages() == [1; PAGES] && settled());
    // Nothing has changed by its word: nothing comes before its time.
    read_again(1);
    assert_eq!(pages(), [1; PAGES]);
    // One has, and comes at once.
    site.page("/p/1", "<html><title>changed</title>");
    let now = date(0);
    let urls = (0..PAGES).map(|n| {
        let lastmod = if n == 1 { &*now } else { "2020-01-01" };
        format!("<url><loc>/p/{n}</loc><lastmod>{lastmod}</lastmod></url>")
    });
    let body = format!("<urlset>{}</urlset>", urls.collect::<String>());
    site.set("/sitemap.xml", Answer { mime: "application/xml", body, ..Answer::default() });
    read_again(2);
    wait("the changed one", || pages() == [1, 2, 1, 1, 1]);
    // The sitemap claims that all pages changed, and none has: believed once, and then one page at a time is checked.
    site.set("/sitemap.xml", sitemap(port, PAGES, &date(3_600)));
    read_again(3);
    wait("all of them", || pages() == [2, 3, 2, 2, 2]);
    wait("it is written down", settled);
    for round in 4..6 {
        let before: u64 = pages().iter().sum();
        read_again(round);
        assert_eq!(pages().iter().sum::<u64>(), before + 1, "round {round}");
    }
}

#[test]
fn large_pages_of_a_site_that_ignores_validators_are_asked_for_by_their_heads_until_these_are_wrong() {
    const PAGES: u64 = 8;
    let dir = tempfile::tempdir().unwrap();
    let site = Site::default();
    let port = site.start();
    let large = |version: u64, head_etag: Option<&str>| Answer {
        mime: "text/html",
        etag: format!("\"{version}\""),
        head_etag: head_etag.map(str::to_owned),
        body: format!("<html><title>{version}</title><p>{}</html>", "large ".repeat(20_000)),
    };
    let mut seeds = Vec::new();
    for n in 0..PAGES {
        let path = format!("/l/{n}");
        let mut answer = large(0, None);
        answer.body.push_str(&path);
        site.set(&path, answer);
        seeds.push(format!("http://127.0.0.1:{port}{path}"));
    }
    let mut more: Vec<&str> = seeds.iter().map(String::as_str).collect();
    more.extend(["--scope", "page", "--set", "recrawl.interval_max=1s"]);
    let _crawl = Crawl::start(dir.path(), &more);
    wait("heads", || site.all("HEAD", "/l/") >= 3 * PAGES);
    // Most visits no longer fetch the page.
    let (heads, gets) = (site.all("HEAD", "/l/"), site.all("GET", "/l/"));
    wait("more heads", || site.all("HEAD", "/l/") >= heads + 5 * PAGES);
    let (heads, gets) = (site.all("HEAD", "/l/") - heads, site.all("GET", "/l/") - gets);
    assert!(gets * 2 < heads, "{gets} pages for {heads} heads");
    // A page that changed is fetched.
    let before = site.asked("GET", "/l/0");
    site.set("/l/0", large(1, None));
    wait("the changed one", || site.asked("GET", "/l/0") > before);
    // The answers to HEAD hide every change from now on: the crawl finds out, and sends no more HEAD requests.
    let mut version = 2;
    wait("heads are not believed", || {
        let (heads, gets) = (site.all("HEAD", "/l/"), site.all("GET", "/l/"));
        for n in 0..PAGES {
            let mut answer = large(version, Some("\"0\""));
            answer.body.push_str(&format!("/l/{n}"));
            // The head of the first names its last version as well.
            answer.head_etag = Some(if n == 0 { "\"1\"".to_owned() } else { "\"0\"".to_owned() });
            site.set(&format!("/l/{n}"), answer);
        }
        version += 1;
        std::thread::sleep(Duration::from_secs(2));
        site.all("HEAD", "/l/") == heads && site.all("GET", "/l/") >= gets + PAGES
    });
}

#[test]
fn the_text_of_a_story_is_kept_beside_its_page() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::default();
    let port = site.start();
    site.page("/story", include_str!("../../../nephila-engine/src/crawl/text/story.html"));
    let feed = "<rss><channel><title>News</title><item><title>Bridge</title><link>/story</link></item></channel></rss>";
    site.set("/feed", Answer { mime: "application/rss+xml", body: feed.into(), ..Answer::default() });
    let added = say(dir.path(), &["feed", "add", &format!("http://127.0.0.1:{port}/feed"), "-o", "news"]);
    assert!(added.status.success(), "{}", text(&added.stderr));
    let crawl = Crawl::start(dir.path(), &[]);
    wait("the story", || site.asked("GET", "/story") == 1);
    wait("it is stored", || {
        let now = super::feeds::json(&say(dir.path(), &["stats", "-o", "news", "--json"]));
        now["running"]["tickets_open"].as_u64() == Some(0)
    });
    crawl.end();
    let verified = say(dir.path(), &["verify", "news"]);
    assert!(verified.status.success(), "{}{}", text(&verified.stdout), text(&verified.stderr));
    let mut archive = String::new();
    for file in std::fs::read_dir(dir.path().join("news/archive")).unwrap() {
        let path = file.unwrap().path();
        if path.to_string_lossy().ends_with(".warc.gz") {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&path).unwrap();
            std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(file), &mut bytes).unwrap();
            archive.push_str(&text(&bytes));
        }
    }
    let records: Vec<&str> = archive.split("WARC/1.1\r\n").collect();
    let conversion =
        records.iter().find(|record| record.contains("WARC-Type: conversion")).expect("a conversion");
    assert!(
        conversion.contains("WARC-Refers-To: <urn:uuid:") && conversion.contains("/story"),
        "{conversion}"
    );
    assert!(conversion.contains("After eleven months of repairs"), "{conversion}");
    assert!(!conversion.contains("Subscribe to our newsletter"), "{conversion}");
    let about = |record: &&&str| record.contains("WARC-Type: metadata") && record.contains("/story\r\n");
    let metadata = records.iter().find(about).expect("metadata");
    for line in [
        "title: The harbour bridge is open again",
        "author: Ida Sand",
        "language: en",
        "published: 2026-11-14",
    ] {
        assert!(metadata.contains(line), "{line}: {metadata}");
    }
}

/// Runs a crawl of one machine to its end, and returns what it says.
fn crawl(dir: &Path, args: &[&str]) -> String {
    let usual = ["--delay", "10ms", "--set", "frontier.slot_delay=10ms", "-o", "docs"];
    let output = say(dir, &[&["crawl"][..], args, &usual].concat());
    // 20: as many pages as `--limit` says.
    assert!(matches!(output.status.code(), Some(0 | 20)), "{}", text(&output.stderr));
    text(&output.stderr)
}

#[test]
fn an_interval_that_is_new_holds_for_pages_of_earlier_runs() {
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::default());
    let port = site.start();
    site.page("/", "<a href=/a>a</a>");
    site.page("/a", "<title>a</title>");
    let home = format!("http://127.0.0.1:{port}/");
    let asked = || ["/", "/a"].map(|path| site.asked("GET", path));
    crawl(dir.path(), &[&home]);
    crawl(dir.path(), &[]);
    assert_eq!(asked(), [1, 1], "without an interval nothing is visited again");
    let said = crawl(dir.path(), &["--set", "crawl.again_every=1h"]);
    assert!(said.contains("visited again every 1h: 0 now, 2 later, the first at 20"), "{said}");
    assert_eq!(asked(), [1, 1], "not due yet");

    std::thread::sleep(Duration::from_millis(3_100));
    // The limit ends the crawl: the next visits are due soon.
    let said = crawl(dir.path(), &["--set", "crawl.again_every=3s", "--limit", "4"]);
    assert!(said.contains("visited again every 3s: 2 now"), "{said}");
    assert_eq!(asked(), [2, 2]);
    // A longer interval than the planned visits have changes nothing.
    let said = crawl(dir.path(), &["--set", "crawl.again_every=1h"]);
    assert!(!said.contains("visited again every"), "{said}");
}

#[test]
fn a_delay_for_a_host_that_nobody_knows_leaves_the_folder_readable() {
    let (dir, site) = (tempfile::tempdir().unwrap(), Site::default());
    let port = site.start();
    site.page("/", "<a href=/a>a</a>");
    site.page("/a", "<title>a</title>");
    site.page("/b", "<title>b</title>");
    crawl(dir.path(), &[&format!("http://127.0.0.1:{port}/")]);
    let set = say(dir.path(), &["host", "set", "c.example", "--delay", "10s", "-o", "docs"]);
    assert!(set.status.success(), "{}", text(&set.stderr));
    assert!(text(&set.stdout).starts_with("http://c.example, https://c.example: 10000 ms"), "{set:?}");
    let add = say(dir.path(), &["add", &format!("http://127.0.0.1:{port}/b"), "-o", "docs"]);
    assert!(add.status.success(), "{}", text(&add.stderr));
    // The order reaches the frontier in this run; the next one opens what it left.
    crawl(dir.path(), &[]);
    crawl(dir.path(), &[]);
    assert_eq!(site.asked("GET", "/b"), 1);
}
