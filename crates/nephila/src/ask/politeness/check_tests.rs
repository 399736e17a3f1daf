//! Access logs with and without violations.

use super::*;
use crate::cli::ask::AccessFormat;

const ROBOTS: &[u8] = b"User-agent: *\nDisallow: /private\n";

fn promise(rest_ms: u64) -> Promise {
    Promise { rest_ms, connections: 1, robots: Some(Robots::parse(ROBOTS, "Nephila")) }
}

/// A line of the combined format at this second.
fn line(second: u64, path: &str, agent: &str, took: &str) -> String {
    format!(
        "192.0.2.9 - - [14/Nov/2026:22:{:02}:{:02} +0000] \"GET {path} HTTP/1.1\" 200 12 \"-\" \
         \"Mozilla/5.0 (compatible; {agent}/0.1; +http://x)\"{took}\n",
        second / 60,
        second % 60
    )
}

fn check(log: String, promise: &Promise) -> Found {
    let mut checker = Checker::new(promise);
    read(Box::new(io::Cursor::new(log)), AccessFormat::Auto, "nephila", &mut checker).unwrap();
    checker.finish()
}

#[test]
fn ten_planted_violations_are_found_and_nothing_else() {
    let mut log = String::new();
    let mut planted = Vec::new();
    let mut number = 0;
    let mut second = 0;
    for n in 0..100 {
        // Every third second: what 2 s of rest look like at worst.
        second += 3;
        let path = if n % 20 == 10 { "/private/x".to_owned() } else { format!("/page/{n}") };
        if path.starts_with("/private") {
            planted.push((number + 1, "robots"));
        }
        log.push_str(&line(second, &path, "Nephila", ""));
        number += 1;
        // Others are none of our business, however fast.
        log.push_str(&line(second, "/private/y", "OtherBot", ""));
        number += 1;
        if n % 20 == 5 {
            // One second later: at most 2 s of rest, and less.
            second += 1;
            log.push_str(&line(second, &format!("/soon/{n}"), "Nephila", ""));
            number += 1;
            planted.push((number, "rest"));
        }
        log.push_str("what is this\n");
        number += 1;
    }
    assert_eq!(planted.len(), 10);
    let found = check(log, &promise(2_000));
    planted.sort_unstable();
    let mut listed: Vec<_> = found.listed.iter().map(|violation| (violation.line, violation.kind)).collect();
    listed.sort_unstable();
    assert_eq!(listed, planted);
    assert_eq!((found.violations, found.ours, found.unread), (10, 105, 100));
    assert_eq!((found.kept, found.unclear), (99, 0));
}

#[test]
fn a_clean_log_is_clean_and_says_what_it_cannot_tell() {
    // 2 s apart in whole seconds: between 1 and 3 s.
    let log: String = (0..50).map(|n| line(n * 2, "/page", "Nephila", "")).collect();
    let found = check(log, &promise(2_000));
    assert_eq!((found.violations, found.kept, found.unclear), (0, 0, 49));
    let log: String = (0..50).map(|n| line(n, "/page", "Nephila", "")).collect();
    assert_eq!(check(log, &promise(500)).violations, 0, "a log of seconds proves nothing about half of one");
}

#[test]
fn exact_times_leave_no_doubt() {
    let json = |at_ms: u64, took_ms: u64| {
        format!(
            "{{\"msec\":\"{}.{:03}\",\"request\":\"GET /x HTTP/1.1\",\"http_user_agent\":\"Nephila/1\",\
             \"request_time\":\"{}.{:03}\"}}\n",
            1_794_697_089 + at_ms / 1_000,
            at_ms % 1_000,
            took_ms / 1_000,
            took_ms % 1_000
        )
    };
    // Ends at 100, the next begins 2,000 later and takes 300.
    let clean = json(100, 100) + &json(2_400, 300);
    let found = check(clean, &promise(2_000));
    assert_eq!((found.violations, found.kept, found.unclear), (0, 1, 0));
    let short = json(100, 100) + &json(2_390, 300);
    assert_eq!(check(short, &promise(2_000)).listed[0].kind, "rest");
    // The long one is written last and began first.
    let both = json(5_100, 50) + &json(9_000, 9_000);
    assert_eq!(check(both, &promise(2_000)).listed[0].kind, "at-once");
}

#[test]
fn a_packed_log_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log.gz");
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all((line(0, "/a", "Nephila", "") + &line(1, "/b", "Nephila", "")).as_bytes()).unwrap();
    std::fs::write(&path, packed.finish().unwrap()).unwrap();
    let promise = promise(2_000);
    let mut checker = Checker::new(&promise);
    read(open(&path).unwrap(), AccessFormat::Combined, "nephila", &mut checker).unwrap();
    assert_eq!(checker.finish().violations, 1);
}

#[test]
fn an_endless_line_is_skipped() {
    let log = "x".repeat(3 * LINE_BYTES_MAX) + "\n" + &line(0, "/a", "Nephila", "");
    let found = check(log, &promise(2_000));
    assert_eq!((found.unread, found.ours), (1, 1));
}
