//! Streams of visited URLs, given to a crawl while it runs and while it does not: the one-hour rule, and batches that count
//! once.

use std::path::Path;

use serde_json::Value;

use super::feeds::{Crawl, Site, json, say, text, wait};

/// Lines of one batch: path, minutes after noon, hits, tag.
fn file(dir: &Path, name: &str, port: u16, lines: &[(&str, u64, u64, &str)]) {
    let line = |(path, minute, hits, tag): &(&str, u64, u64, &str)| {
        let at = format!("20261115{:02}{:02}00", 12 + minute / 60, minute % 60);
        format!("{name}\t5\t{at}\thttp://page.test/\thttp://127.0.0.1:{port}{path}\t{hits}\t{tag}\n")
    };
    std::fs::write(dir.join(name), lines.iter().map(line).collect::<String>()).unwrap();
}

fn add(dir: &Path, name: &str) -> Value {
    let output = say(dir, &["add", "crawl", "--reflog", name, "-o", "news", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    json(&output)
}

#[test]
fn a_stream_is_fetched_once_an_hour_and_a_batch_counts_once() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::default();
    let port = site.start();
    let asked = |path: &str| site.asked(path);
    let home = format!("http://127.0.0.1:{port}/s/0");
    let crawl = Crawl::start(dir.path(), &[&home, "--scope", "page"]);
    wait("the seed", || asked("/s/0") == 1);

    file(dir.path(), "first", port, &[("/s/1", 0, 3, "x"), ("/s/2", 0, 1, ""), ("/s/1", 1, 2, "")]);
    let said = add(dir.path(), "first");
    assert_eq!((&said["lines"], &said["urls"], &said["unreadable"]), (&3.into(), &2.into(), &0.into()));
    wait("both", || asked("/s/1") == 1 && asked("/s/2") == 1);

    // The same batch again, then one of the same hour; a URL of its own says that the latter was decided.
    add(dir.path(), "first");
    file(dir.path(), "second", port, &[("/s/1", 30, 1, "x"), ("/s/2", 30, 1, ""), ("/s/3", 30, 1, "")]);
    add(dir.path(), "second");
    wait("the new one", || asked("/s/3") == 1);
    assert_eq!((asked("/s/1"), asked("/s/2")), (1, 1), "within the hour");

    // Another tag, and more than an hour.
    file(dir.path(), "third", port, &[("/s/1", 40, 1, "y"), ("/s/2", 90, 1, "")]);
    add(dir.path(), "third");
    wait("both again", || asked("/s/1") == 2 && asked("/s/2") == 2);

    // While nobody crawls it is written down; a crawl that was killed forgets no batch. What is open when it is killed is
    // asked for again, which is not what is shown here.
    wait("everything is written down", || {
        let now = json(&say(dir.path(), &["stats", "-o", "news", "--json"]));
        let count = |name: &str| now["running"][name].as_u64();
        (count("tickets_open"), count("urls_waiting")) == (Some(0), Some(0))
    });
    crawl.kill();
    file(dir.path(), "fourth", port, &[("/s/1", 120, 1, "z"), ("broken", 0, 0, ""), ("/s/4", 120, 1, "")]);
    std::fs::write(
        dir.path().join("fourth"),
        std::fs::read_to_string(dir.path().join("fourth")).unwrap() + "half a line\n",
    )
    .unwrap();
    assert_eq!(add(dir.path(), "fourth")["unreadable"], 2);
    assert_eq!((asked("/s/1"), asked("/s/4")), (2, 0), "nobody crawls");
    let crawl = Crawl::start(dir.path(), &[]);
    wait("what was written down", || asked("/s/1") == 3 && asked("/s/4") == 1);
    add(dir.path(), "third");
    add(dir.path(), "fourth");
    file(dir.path(), "fifth", port, &[("/s/5", 125, 1, "")]);
    add(dir.path(), "fifth");
    wait("the last", || asked("/s/5") == 1);
    assert_eq!([1, 2, 3, 4].map(|n| asked(&format!("/s/{n}"))), [3, 2, 1, 1], "each batch counted once");
    crawl.kill();
}
