//! Streams of visited URLs, added to a crawl that runs and to one that does not: the one-hour rule, and batches that
//! count once (idempotent); and the other sources of added URLs.

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

/// Waits until nothing is open: a crawl that is killed now has nothing to request again.
fn wait_until_written(dir: &Path) {
    wait("everything is written down", || {
        let now = json(&say(dir, &["stats", "-o", "news", "--json"]));
        let count = |name: &str| now["running"][name].as_u64();
        (count("tickets_open"), count("urls_waiting")) == (Some(0), Some(0))
    });
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

    // While no crawl runs the batch is written to the log; a crawl that was killed forgets no batch. Requests that are
    // open at a kill are repeated, which is not tested here.
    wait_until_written(dir.path());
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

#[test]
fn urls_are_added_to_a_crawl_from_lists_indexes_sitemaps_and_archives() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::default();
    let port = site.start();
    let asked = |path: &str| site.asked(path);
    let url = |n: u64| format!("http://127.0.0.1:{port}/s/{n}");
    let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text).unwrap();
    let add = |args: &[&str]| {
        let output = say(dir.path(), &[&["add", "crawl", "-o", "news", "--json"], args].concat());
        (output.status.code(), json(&output))
    };
    let prefix = format!("http://127.0.0.1:{port}/s/");
    let crawl = Crawl::start(dir.path(), &[&prefix, "--exclude", "/s/9", "--no-sitemap"]);
    wait("the seed", || asked("/s/") == 1);

    let (code, said) = add(&[&url(1), &url(9), "http://127.0.0.2/other"]);
    assert_eq!((code, &said["taken"], &said["refused"]), (Some(1), &1.into(), &2.into()), "{said}");
    write("list", format!("# a list\n{}\n{{\"url\": \"{}\", \"hits\": 100}}\n", url(2), url(3)));
    assert_eq!(add(&["-i", "list"]).1["taken"], 2);
    wait("a list", || [1, 2, 3].iter().all(|n| asked(&format!("/s/{n}")) == 1));
    wait_until_written(dir.path());
    crawl.kill();

    // While no crawl runs the URLs are written to the log.
    write("index.cdxj", format!("127)/ 20261115000000 {{\"url\": \"{}\"}}\nbroken\n", url(4)));
    let (code, said) = add(&["--cdxj", "index.cdxj"]);
    assert_eq!((code, &said["taken"], &said["refused"]), (Some(1), &1.into(), &1.into()), "{said}");
    write(
        "map.xml",
        format!("<urlset><url><loc>{}</loc></url><url><loc>{}</loc></url></urlset>", url(5), url(1)),
    );
    assert_eq!(
        add(&["--sitemap", "map.xml"]),
        (Some(0), serde_json::json!({"taken": 2, "refused": 0, "refusals": []}))
    );
    let record = format!(
        "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: {}\r\nContent-Length: 1\r\n\r\nx\r\n\r\n",
        url(6)
    );
    write("old.warc", record);
    assert_eq!(add(&["--warc", "old.warc"]).1["taken"], 1);
    assert_eq!([4, 5, 6].map(|n| asked(&format!("/s/{n}"))), [0, 0, 0], "nobody crawls");
    let crawl = Crawl::start(dir.path(), &[]);
    wait("what was written down", || [4, 5, 6].iter().all(|n| asked(&format!("/s/{n}")) == 1));
    assert_eq!(
        [1, 2, 3, 9].map(|n| asked(&format!("/s/{n}"))),
        [1, 1, 1, 0],
        "what is known is not fetched again"
    );
    crawl.kill();
}

#[test]
fn row_12_a_dry_run_says_what_would_be_sent_and_changes_nothing_and_page_ids_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::default();
    let port = site.start();
    let asked = |path: &str| site.asked(path);
    let home = format!("http://127.0.0.1:{port}/s/0");
    let crawl = Crawl::start(dir.path(), &[&home, "--scope", "page", "--exclude", "/s/9"]);
    wait("the seed", || asked("/s/0") == 1);
    let dry = |name: &str| -> Vec<(String, bool, String)> {
        let output = say(dir.path(), &["add", "crawl", "--reflog", name, "--dry-run", "-o", "news"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let lines: Vec<Value> =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let line = |line: &Value| {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            (text("url").replace(&format!("http://127.0.0.1:{port}"), ""), line["send"] == true, text("why"))
        };
        let mut all: Vec<_> = lines.iter().map(line).collect();
        all.sort();
        all
    };
    let row = |path: &str, send: bool, why: &str| (path.to_owned(), send, why.to_owned());
    file(dir.path(), "first", port, &[("/s/1", 0, 3, "x"), ("/s/2?a=1", 0, 1, ""), ("/s/9", 0, 1, "")]);
    let expected =
        [row("/s/1", true, "first"), row("/s/2?a=1", true, "first"), row("/s/9", false, "exclude")];
    assert_eq!(dry("first"), expected);
    assert_eq!(dry("first"), expected, "nothing is taken in by it");
    add(dir.path(), "first");
    wait("both", || asked("/s/1") == 1 && asked("/s/2?a=1") == 1);
    assert!(dry("first").iter().all(|(_, send, _)| !send), "the same batch again");
    // Another tag, within the hour, after the hour, and another query, which is another page.
    file(
        dir.path(),
        "second",
        port,
        &[("/s/1", 30, 1, "y"), ("/s/2?a=1", 30, 1, ""), ("/s/2?a=2", 30, 1, ""), ("/s/0", 30, 1, "")],
    );
    let expected = [
        row("/s/0", true, "first"),
        row("/s/1", true, "tag-changed"),
        row("/s/2?a=1", false, "within-the-hour"),
        row("/s/2?a=2", true, "first"),
    ];
    assert_eq!(dry("second"), expected);
    file(dir.path(), "third", port, &[("/s/2?a=1", 90, 1, "")]);
    assert_eq!(dry("third"), [row("/s/2?a=1", true, "hour-passed")]);
    wait_until_written(dir.path());
    crawl.kill();
    // The same for a folder in which no crawl runs; the page id stands beside the record of the URL.
    assert_eq!(dry("second"), expected);
    let explained =
        json(&say(dir.path(), &["explain", &format!("http://127.0.0.1:{port}/s/1"), "-o", "news", "--json"]));
    assert_eq!(explained["stream"]["page_id"], "http://page.test/", "{explained}");
    assert_eq!([asked("/s/1"), asked("/s/2?a=1"), asked("/s/2?a=2")], [1, 1, 0], "a dry run fetches nothing");
}
