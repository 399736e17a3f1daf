//! The process is killed again and again; the site counts its requests. The log has a line for every request.
//!
//! Settings that differ from the shipped ones: no rests between requests, and several of them at once, so that each
//! kill meets requests in every stage.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::site::{PATIENCE, PROGRAM, Site, crawl_args, run};

/// The site stops answering after this number of requests, then the process is killed.
const KILLS: [usize; 8] = [1, 4, 6, 7, 9, 11, 5, 8];

#[test]
fn pro_04_after_every_kill_the_log_has_a_line_for_every_request() {
    let (site, dir) = (Site::start(), tempfile::tempdir().expect("a folder"));
    let mut args = crawl_args(site.port, "crawl");
    for set in ["frontier.slot_connections=4", "frontier.host_connections=2", "crawl.concurrency=8"] {
        args.extend(["--set".into(), set.into()]);
    }
    for (number, answered) in KILLS.into_iter().enumerate() {
        site.left.store(answered, Ordering::SeqCst);
        let mut command = Command::new(PROGRAM);
        command.args(&args).current_dir(dir.path()).env("HOME", dir.path());
        command.stdin(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the crawl starts");
        let began = Instant::now();
        while site.left.load(Ordering::SeqCst) > 0 && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        // At once, or while the answered pages are on their way to the disk.
        std::thread::sleep(Duration::from_millis(20 * number as u64));
        child.kill().expect("it is killed");
        child.wait().expect("it ends");
    }
    site.left.store(usize::MAX, Ordering::SeqCst);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ended = run(dir.path(), &args);
    assert_eq!(ended.code, 0, "{}", ended.said);
    let log = run(dir.path(), &["log", "-o", "crawl", "--format", "jsonl"]).said;
    let (mut lines, mut full, mut lost) = (BTreeMap::<String, usize>::new(), 0, 0);
    for line in log.lines().filter(|line| line.starts_with('{')) {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        *lines.entry(line["url"].as_str().unwrap().to_owned()).or_default() += 1;
        let detail = line["detail"].as_str().unwrap_or_default();
        lost += usize::from(detail.contains("may have been asked"));
        full += usize::from(detail.contains("from the archive"));
    }
    let asked = site.asked();
    for (url, times) in &asked {
        let found = lines.get(url).copied().unwrap_or_default();
        assert!(found >= *times, "{url} was asked for {times} times, and the log has {found} lines\n{log}");
    }
    // A URL that was not requested has no line, except the URLs that were about to be when the process ended.
    let more = lines.values().sum::<usize>() - asked.values().sum::<usize>();
    assert!(lost >= more && lost > 0, "{lost} lost, {full} from the archive, {more} more than asked");
}
