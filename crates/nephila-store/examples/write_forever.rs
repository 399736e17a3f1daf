//! Writes to an archive until it is killed, and says what was acknowledged.
//!
//!     write_forever write DIR FIRST    writes pages from this number on; prints `open` once the archive is open,
//!                                      then for each acknowledged page `NUMBER FILE OFFSET LENGTH KIND PAYLOAD BLOCK`
//!     write_forever check DIR          reads such lines and looks each of them up, while somebody may be writing
//!     write_forever finish DIR         the same after opening and closing the archive, with a strict check of all of
//!                                      it, and each page must be in the index exactly once
//!
//! `cargo xtask crash` kills the first at random moments and runs the others.

use std::collections::HashMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use bytes::Bytes;
use nephila_core::store::cdxj::Line;
use nephila_core::store::{Digest, Exchange, head};
use nephila_core::time::Timestamp;
use nephila_store::archive::{Archive, Settings, WarcInfo};
use nephila_store::verify::verify_path;
use nephila_store::warc;

/// Appends at once.
const TASKS: u64 = 8;
/// Small files, so that kills also hit the moments when one is closed and the next begun.
const BYTES_MAX: u64 = 300_000;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let action = args.next().expect("write, check or finish");
    let dir = PathBuf::from(args.next().expect("DIR"));
    let problems = match action.as_str() {
        "write" => {
            write(&dir, args.next().expect("FIRST").parse().expect("a number"));
            Vec::new()
        }
        "check" => check(&dir).1,
        "finish" => finish(&dir),
        other => vec![format!("{other} is not an action")],
    };
    problems.iter().take(20).for_each(|problem| eprintln!("{problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn settings() -> Settings {
    Settings {
        bytes_max: BYTES_MAX,
        commit_interval: Duration::from_millis(2),
        prefix: "CRASH".into(),
        ..Settings::default()
    }
}

/// Looks up each acknowledged page; returns their URLs and what is wrong.
fn check(dir: &Path) -> (Vec<String>, Vec<String>) {
    let (mut urls, mut problems) = (Vec::new(), Vec::new());
    for line in std::io::stdin().lines() {
        let line = line.expect("lines");
        let [n, file, offset, length, kind, payload, block] = line.split(' ').collect::<Vec<_>>()[..] else {
            problems.push(format!("not a line: {line:?}"));
            continue;
        };
        let url = format!("http://site.test/{n}");
        let place = (offset.parse().expect("offset"), length.parse().expect("length"));
        match warc::read_at(&dir.join("archive").join(file), place.0, place.1, 1 << 30) {
            Ok((record, bytes)) => {
                let same = |name: &str, want: &str| record.header.get(name) == Some(want);
                let whole = Digest::of(&[&bytes]).to_string() == block && record.separator;
                let body = Digest::of(&[&bytes[head::end(&bytes).unwrap_or_default()..]]).to_string();
                if !(whole && same("WARC-Target-URI", &url) && same("WARC-Payload-Digest", payload))
                    || (kind == "Response" && body != payload)
                {
                    problems.push(format!("{url} in {file} at {offset} is not what was acknowledged"));
                }
            }
            Err(error) => problems.push(format!("{url} in {file} at {offset}: {error}")),
        }
        urls.push(url);
    }
    (urls, problems)
}

fn finish(dir: &Path) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    let archive =
        Archive::open(dir, settings(), WarcInfo::default()).expect("the archive opens after any crash");
    runtime.block_on(archive.close()).expect("the archive closes");
    let (urls, mut problems) = check(dir);
    let report = verify_path(dir).expect("the archive can be read");
    problems.extend(report.findings.iter().map(|f| format!("{} {} {}", f.kind, f.file.display(), f.message)));
    let index = std::fs::read_to_string(dir.join("indexes/index.cdxj")).expect("an index");
    let mut times: HashMap<String, u32> = HashMap::new();
    for line in index.lines().filter_map(Line::parse) {
        *times.entry(line.capture.url).or_default() += 1;
    }
    for url in urls {
        match times.get(&url).copied().unwrap_or_default() {
            1 => {}
            n => problems.push(format!("{url} is in the index {n} times")),
        }
    }
    problems
}

fn write(dir: &Path, first: u64) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    runtime.block_on(async {
        let info = WarcInfo { software: "write_forever".into(), ..WarcInfo::default() };
        let archive = Archive::open(dir, settings(), info).expect("the archive opens after any crash");
        say("open\n");
        let tasks: Vec<_> = (0..TASKS)
            .map(|task| {
                let archive = archive.clone();
                tokio::spawn(async move {
                    for n in (first + task..).step_by(TASKS as usize) {
                        let r = archive.append(page(n)).await.expect("the disk works");
                        say(&format!(
                            "{n} {} {} {} {:?} {} {}\n",
                            r.file, r.offset, r.length, r.kind, r.payload_digest, r.block_digest
                        ));
                    }
                })
            })
            .collect();
        for task in tasks {
            let _ = task.await;
        }
    });
}

/// One write per line, so that a kill never leaves half a line.
fn say(line: &str) {
    let _ = std::io::stdout().lock().write_all(line.as_bytes()).and_then(|()| std::io::stdout().flush());
}

/// Every tenth page has the body of another one and becomes a revisit.
fn page(n: u64) -> Exchange {
    let body = if n % 10 == 9 {
        "the same again ".repeat(200)
    } else {
        format!("page {n} ").repeat((n % 97 * 40) as usize)
    };
    Exchange {
        url: format!("http://site.test/{n}"),
        started: Timestamp::from_secs(1_794_697_089 + n % 100_000),
        elapsed_ms: 1,
        address: None,
        protocols: vec!["http/1.1"],
        request_head: Bytes::from(format!("GET /{n} HTTP/1.1\r\nHost: site.test\r\n\r\n")),
        response_head: Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n"),
        body: Box::new(Bytes::from(body)),
        truncated: None,
        notes: Default::default(),
        text: "".into(),
        media: None,
    }
}
