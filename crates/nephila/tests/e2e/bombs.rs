//! Answers that are small on the wire and were made to cost minutes: the real command ends, and an innocent page beside them is
//! fetched.
//!
//! No setting is changed but addresses and ports. `cargo xtask crawl bombs` tests all of them, one by one.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nephila_testweb::bombs::{Bomb, Site};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Decoded size of each bomb in bytes.
const BYTES: usize = 10_000_000;
/// No command takes this long, even on a machine with much else to do. Before, one of them took minutes, each of them a decoder
/// or a reader for as long.
const LONG: Duration = Duration::from_secs(60);

fn bad(names: &[&str]) -> Vec<Site> {
    let bomb = |name: &&str| Bomb::named(name).expect("a bomb of this name");
    let hosts = (1..).zip(names.iter().map(bomb));
    hosts.map(|(host, bomb)| Site::bad(Ipv4Addr::new(127, 90, 3, host), bomb, BYTES).unwrap()).collect()
}

fn command(name: &str, folder: &Path, sites: &[&Site]) -> Command {
    let ports: Vec<u16> = sites.iter().map(|site| site.port()).collect();
    let mut command = Command::new(PROGRAM);
    command
        .args([name, "--config", "/dev/null", "--set", "spider.allow_addresses=[\"127.90.0.0/16\"]"])
        .args(["--set", &format!("spider.ports={ports:?}")])
        .env("HOME", folder)
        .current_dir(folder)
        .stdin(Stdio::null());
    command
}

/// The outcome of each URL, by the lines of a log.
fn outcomes(lines: &str) -> Vec<(String, String, u64)> {
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).expect(line));
    let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    lines
        .map(|line| (text(&line, "url"), text(&line, "outcome"), line["took_ms"].as_u64().unwrap_or(0)))
        .collect()
}

#[test]
fn sec_01_four_hosts_with_nested_codings_do_not_hold_the_decoders() {
    let bombs = bad(&[
        "zstd-skipped-in-brotli",
        "gzip-empty-members-in-gzip",
        "deflate-empty-blocks-in-gzip",
        "zstd-empty-blocks-in-brotli",
    ]);
    let good = Site::good(Ipv4Addr::new(127, 90, 4, 1)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sites: Vec<&Site> = bombs.iter().chain([&good]).collect();
    let urls: Vec<String> = sites.iter().map(|site| site.url("/bomb/1")).collect();
    let began = Instant::now();
    let output = command("fetch", folder.path(), &sites).arg("--json").args(&urls).output().unwrap();
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    let said = String::from_utf8_lossy(&output.stdout);
    let ended = outcomes(&said);
    assert_eq!(ended.len(), urls.len(), "{output:?}");
    for (url, outcome, _) in &ended {
        let is_good = url.starts_with(&good.url(""));
        assert_eq!(outcome, if is_good { "ok" } else { "decode-limit" }, "{url}: {said}");
    }
}

#[test]
fn sec_02_a_crawl_of_hosts_that_serve_bombs_ends_and_reads_the_innocent_one() {
    let bombs = bad(&[
        "feed-link-ampersands",
        "sitemap-link-ampersands",
        "feed-titles-of-signs",
        "json-authors-of-signs",
        "html-names-of-many-letters",
        "html-long-base",
        "zstd-skipped-in-brotli",
    ]);
    let good = Site::good(Ipv4Addr::new(127, 90, 4, 2)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sites: Vec<&Site> = bombs.iter().chain([&good]).collect();
    let began = Instant::now();
    let output = command("crawl", folder.path(), &sites)
        .args(["-q", "-o", "crawl", "--scope", "host", "-d", "0"])
        .args(sites.iter().map(|site| site.url("/bomb/1")))
        .output()
        .unwrap();
    assert!(began.elapsed() < LONG, "{:?}", began.elapsed());
    let log = std::fs::read_to_string(folder.path().join("crawl/logs/outcomes-00000001.jsonl"));
    let log = log.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let ended: Vec<_> = outcomes(&log).into_iter().filter(|(url, _, _)| url.contains("/bomb/")).collect();
    assert_eq!(ended.len(), sites.len(), "{log}");
    for (url, outcome, _) in ended {
        let is_coded = url.starts_with(&bombs[6].url(""));
        assert_eq!(outcome, if is_coded { "decode-limit" } else { "ok" }, "{url}: {log}");
    }
}
