//! How a crawl ends: the waits, the remaining URLs, the closing words, and the exit code. At the settings we ship, but
//! for addresses and names; a test that shortens one says why.

// The small web of the proof `crawl_proof shipped`.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../nephila-proof/src/bin/crawl_proof/shipped/web.rs"]
mod web;

use std::io::Read;
use std::net::IpAddr;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use web::{Ask, Reply, Site, Time};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Timeout, longer than any of these commands takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where Debian has the library that lies about the time.
const FAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// Every test has an address of its own.
static ADDRESSES: AtomicU8 = AtomicU8::new(1);

fn site(pages: u32, odd: fn(&Ask) -> Option<Reply>) -> Site {
    let address =
        IpAddr::from([127, 78, std::process::id() as u8, ADDRESSES.fetch_add(1, Ordering::Relaxed)]);
    let answers = Arc::new(move |ask: &Ask| match odd(ask) {
        Some(reply) => reply,
        None if ask.path == "/" => {
            Reply::page("home", &(1..=pages).map(|n| format!("/{n}")).collect::<Vec<_>>())
        }
        None if ask.path == "/robots.txt" => Reply::status(404),
        None => Reply::page(&ask.path, &[]),
    });
    Site::start(address, &Time::new(1), answers, None).expect("a site on loopback")
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command
        .args(args)
        .current_dir(dir)
        .env("HOME", dir)
        .env("NEPHILA_CONFIG", "/dev/null")
        .stdin(Stdio::null());
    command
}

/// Crawls this seed into `crawl`, with these flags.
fn crawl(dir: &Path, seed: &str, args: &[&str]) -> (i32, String) {
    let output = command(dir, &[&["crawl", seed, "-o", "crawl"], args].concat()).output().expect("it runs");
    ended(&output)
}

fn ended(output: &Output) -> (i32, String) {
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A crawl that runs, killed by its own handle if a test fails.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn closed_port() -> String {
    let listener = std::net::TcpListener::bind("127.78.255.1:0").expect("a port");
    format!("http://{}/", listener.local_addr().expect("it has one"))
}

#[test]
fn fin_01_a_503_does_not_end_a_crawl() {
    let dir = tempfile::tempdir().expect("a folder");
    // Two pages, then a 503: at 67d8b62 this was "done: 2 pages", exit 0, within seconds.
    let site = site(10, |ask| (ask.total == 4).then(|| Reply::status(503)));
    let seed = format!("http://{}/", site.address());
    let mut running = Running(
        command(dir.path(), &["crawl", &seed, "-o", "crawl", "--progress", "json"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts"),
    );
    let mut progress = running.0.stderr.take().expect("piped");
    let began = Instant::now();
    let mut text = String::new();
    let waiting = loop {
        let mut bytes = [0; 4_096];
        let count = progress.read(&mut bytes).expect("it says something");
        assert!(count > 0, "it ended: {text}");
        text += &String::from_utf8_lossy(&bytes[..count]);
        let waits = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut waiting = waits.filter_map(|look| Some(look["waits_for"].as_str()?.to_owned()));
        if let Some(waiting) = waiting.rfind(|text| text.contains(" until ")) {
            break waiting;
        }
        assert!(began.elapsed() < PATIENCE, "{text}");
    };
    assert!(waiting.starts_with(&format!("waiting for {} until ", seed.trim_end_matches('/'))), "{waiting}");
    assert!(waiting.contains("503") && waiting.contains("8 URLs were never tried"), "{waiting}");
}

#[test]
fn fin_01_wait_max_ends_a_crawl_that_only_waits() {
    let dir = tempfile::tempdir().expect("a folder");
    let site = site(10, |ask| (ask.total == 4).then(|| Reply::status(429).field("Retry-After", "7200")));
    let (code, said) = crawl(dir.path(), &format!("http://{}/", site.address()), &["--wait-max", "10m"]);
    assert_eq!(code, 24, "{said}");
    assert!(said.contains("stopped waiting after 10m (crawl.wait_max): 2 pages"), "{said}");
    assert!(said.contains("8 URLs were never tried") && said.contains("8 URLs queued"), "{said}");
    assert!(said.contains("rate-limited: it answered 429"), "{said}");
}

#[test]
fn fin_02_a_seed_on_a_closed_port_is_named_with_its_cause() {
    let dir = tempfile::tempdir().expect("a folder");
    let (code, said) = crawl(dir.path(), &closed_port(), &["--wait-max", "1m"]);
    assert_eq!(code, 9, "{said}");
    assert!(said.contains("1 of 1 could not be fetched") && said.contains("connect-refused"), "{said}");
    assert!(said.contains("1 URLs queued"), "{said}");
}

#[test]
fn fin_02_fail_on_seed_error_ends_at_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let (code, said) = crawl(dir.path(), &closed_port(), &["--fail-on-seed-error"]);
    assert_eq!(code, 9, "{said}");
    assert!(
        said.contains("stopped: a seed could not be fetched") && said.contains("connect-refused"),
        "{said}"
    );
}

#[test]
fn fin_02_a_robots_txt_that_answers_500_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let site = site(3, |ask| (ask.path == "/robots.txt").then(|| Reply::status(500)));
    let (code, said) = crawl(dir.path(), &format!("http://{}/", site.address()), &["--wait-max", "1m"]);
    assert_eq!(code, 9, "{said}");
    assert!(said.contains("robots.txt cannot be read: server-error: it answered 500"), "{said}");
}

#[test]
fn fin_02_a_stopped_host_is_named_and_its_queue_is_counted() {
    let dir = tempfile::tempdir().expect("a folder");
    // A stop is for a crawl that there is: one that has fetched another site.
    let other = site(0, |_| None);
    let (code, said) = crawl(dir.path(), &format!("http://{}/", other.address()), &[]);
    assert_eq!(code, 0, "{said}");
    let site = site(3, |_| None);
    let target = site.address().ip().to_string();
    let stop = ["stop", "add", &target, "--reason", "asked to", "--author", "me", "-o", "crawl"];
    let stopped = command(dir.path(), &stop).output().expect("it runs");
    assert!(stopped.status.success(), "{}", ended(&stopped).1);
    let (code, said) = crawl(dir.path(), &format!("http://{}/", site.address()), &[]);
    assert_eq!(code, 9, "{said}");
    assert!(said.contains("its host is stopped") && said.contains("asked to"), "{said}");
    assert!(said.contains("1 URLs of hosts that are stopped"), "{said}");
}

#[test]
fn fin_02_second_tries_that_are_left_have_a_code_and_a_date() {
    let dir = tempfile::tempdir().expect("a folder");
    let site = site(2, |ask| (ask.path == "/2").then(|| Reply::status(500)));
    let (code, said) = crawl(dir.path(), &format!("http://{}/", site.address()), &[]);
    assert_eq!(code, 23, "{said}");
    assert!(said.contains("done: 2 pages"), "{said}");
    assert!(said.contains("1 URLs that failed are to be tried again, the next at 20"), "{said}");
}

#[test]
fn fin_02_exit_code_0_is_for_a_crawl_with_nothing_left() {
    let dir = tempfile::tempdir().expect("a folder");
    let site = site(2, |_| None);
    let (code, said) = crawl(dir.path(), &format!("http://{}/", site.address()), &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("done: 3 pages") && !said.contains("seeds:") && !said.contains("left:"), "{said}");
}

#[test]
fn fin_07_only_pages_count_as_pages_and_report_summary_agrees() {
    let dir = tempfile::tempdir().expect("a folder");
    let site = site(2, |ask| match &*ask.path {
        "/robots.txt" => Some(Reply::body("text/plain", "Sitemap: /map.xml\n")),
        "/map.xml" => Some(Reply::body("application/xml", "<?xml version=\"1.0\"?><urlset></urlset>")),
        "/1" => Some(Reply::body("text/html", "<title>1</title><img src=\"/a.png\">")),
        "/a.png" => Some(Reply::body("image/png", "no image")),
        _ => None,
    });
    let (code, said) = crawl(dir.path(), &format!("http://{}/", site.address()), &["--page-requisites"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("done: 3 pages"), "{said}");
    assert!(said.contains("1 sitemaps and feeds, 1 images and other files"), "{said}");
    let report =
        command(dir.path(), &["report", "summary", "-o", "crawl", "--json"]).output().expect("it runs");
    let summary: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!((&summary["pages"], &summary["lists"], &summary["files"]), (&3.into(), &1.into(), &1.into()));
}

#[test]
fn fin_07_a_seed_that_robots_txt_forbids_gives_0_pages_and_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let site = site(2, |ask| match &*ask.path {
        "/robots.txt" => Some(Reply::body(
            "text/plain",
            "User-agent: *\nDisallow: /\nAllow: /map.xml\nSitemap: /map.xml\n",
        )),
        "/map.xml" => Some(Reply::body("application/xml", "<?xml version=\"1.0\"?><urlset></urlset>")),
        _ => None,
    });
    let (code, said) = crawl(dir.path(), &format!("http://{}/", site.address()), &[]);
    assert_eq!(code, 9, "{said}");
    assert!(
        said.contains("done: 0 pages") && said.contains("robots-denied: robots.txt forbids it"),
        "{said}"
    );
}

#[test]
fn fin_06_a_body_that_was_cut_is_counted_and_named() {
    let dir = tempfile::tempdir().expect("a folder");
    let site =
        site(1, |ask| (ask.path == "/1").then(|| Reply::body("application/pdf", vec![b'x'; 12 << 20])));
    let (code, said) = crawl(dir.path(), &format!("http://{}/", site.address()), &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("1 bodies cut at 10 MiB: spider.body_bytes_max"), "{said}");
    let report = command(dir.path(), &["report", "summary", "-o", "crawl"]).output().expect("it runs");
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.contains("1 bodies cut at a size limit: spider.body_bytes_max"), "{report}");
    let url = format!("http://{}/1", site.address());
    let explained = command(dir.path(), &["explain", &url, "-o", "crawl"]).output().expect("it runs");
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("cut") && explained.contains("spider.body_bytes_max"), "{explained}");
}

#[test]
fn pro_05_dates_of_a_wrong_clock_in_a_folder_are_not_believed() {
    if !Path::new(FAKETIME).is_file() {
        eprintln!("skipped: install Debian's libfaketime");
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let site = site(4, |ask| (ask.total == 3).then(|| Reply::status(503).field("Retry-After", "600")));
    let seed = format!("http://{}/", site.address());
    // A year ahead; this run leaves a robots.txt, a resting host and a plan behind.
    let output = command(dir.path(), &["crawl", &seed, "-o", "crawl", "--wait-max", "1s"])
        .env("LD_PRELOAD", FAKETIME)
        .env("FAKETIME", "+365d")
        // The monotonic clock stays right: the kernel uses this clock to wake sleepers.
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .env("DONT_FAKE_MONOTONIC", "1")
        .output()
        .expect("it runs");
    let (code, said) = ended(&output);
    assert_eq!(code, 24, "{said}");
    let robots = |site: &Site| site.asked().iter().filter(|(_, path, _)| path == "/robots.txt").count();
    assert_eq!(robots(&site), 1);
    let (code, said) = crawl(dir.path(), &seed, &[]);
    assert_eq!(robots(&site), 2, "robots.txt is asked for again: {said}");
    // The plan comes up at the next full minute, which is waited for.
    assert!(said.contains("done: 4 pages"), "{said}");
    assert_eq!(code, 0, "{said}");
}
