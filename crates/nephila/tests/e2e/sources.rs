//! Sources of feeds by the real command: a story is reported once over all feeds of a source (deduplication); a fault
//! of a feed is reported at its first poll; an unchanged answer is stored as a short revisit; and feeds can be listed.
//!
//! Schedule and rests are shortened to seconds ([`Crawl::start`]), so that a few polls fit into a test; the times of
//! polls at the settings we ship are tested in virtual time in the core.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use super::feeds::{Crawl, json, say, text, wait};

/// An answer: status, fields, body.
type Said = (&'static str, String, String);

/// A site on a loopback address of its own: its pages are set by the test.
#[derive(Clone, Default)]
struct Site {
    pages: Arc<Mutex<BTreeMap<String, Said>>>,
    asked: Arc<Mutex<BTreeMap<String, u64>>>,
    /// A story takes this long.
    slow: Arc<Mutex<Duration>>,
}

impl Site {
    fn start(address: &str) -> (Site, String) {
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let origin = format!("http://{}", listener.local_addr().expect("an address"));
        let site = Site::default();
        let serving = site.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let site = serving.clone();
                std::thread::spawn(move || site.answer(stream));
            }
        });
        (site, origin)
    }

    fn set(&self, path: &str, status: &'static str, fields: &str, body: impl Into<String>) {
        let said = (status, fields.to_owned(), body.into());
        self.pages.lock().unwrap().insert(path.to_owned(), said);
    }

    /// A feed with these entries: path, guid, title.
    fn feed(&self, path: &str, more: &str, entries: &[(&str, &str, &str)]) {
        let item = |(url, guid, title): &(&str, &str, &str)| {
            format!("<item><title>{title}</title><link>{url}</link><guid>{guid}</guid></item>")
        };
        let items: String = entries.iter().map(item).collect();
        let body = format!("<rss><channel><title>News</title>{more}{items}</channel></rss>");
        self.set(path, "200 OK", "Content-Type: application/rss+xml\r\n", body);
    }

    fn asked(&self, path: &str) -> u64 {
        self.asked.lock().unwrap().get(path).copied().unwrap_or(0)
    }

    fn answer(&self, stream: TcpStream) -> Option<()> {
        stream.set_read_timeout(Some(Duration::from_secs(60))).ok()?;
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let path = line.split(' ').nth(1)?.to_owned();
            let mut field = String::new();
            while field.trim() != "" || field.is_empty() {
                field.clear();
                if reader.read_line(&mut field).ok()? == 0 {
                    return None;
                }
            }
            *self.asked.lock().unwrap().entry(path.clone()).or_default() += 1;
            let story = || ("200 OK", "Content-Type: text/html\r\n".into(), "<html><p>A story</html>".into());
            let none = || ("404 Not Found", String::new(), String::new());
            let page = self.pages.lock().unwrap().get(&path).cloned();
            if path.starts_with("/s/") {
                let slow = *self.slow.lock().unwrap();
                std::thread::sleep(slow);
            }
            let (status, fields, body): Said =
                page.unwrap_or_else(|| if path.starts_with("/s/") { story() } else { none() });
            let length = body.len();
            let mut out = &stream;
            write!(out, "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\n\r\n{body}").ok()?;
        }
    }
}

/// Lets a crawl ask the sites of a test, wherever they are on loopback: a list opens none of them by itself.
fn open(origins: &[&str]) -> Vec<String> {
    let ports: Vec<&str> = origins.iter().filter_map(|origin| origin.rsplit(':').next()).collect();
    let ports = format!("spider.ports=[80, 443, {}]", ports.join(", "));
    let addresses = "spider.allow_addresses=[\"127.0.0.0/8\"]";
    ["--set", addresses, "--set", &ports].map(str::to_owned).to_vec()
}

fn crawl(dir: &Path, origins: &[&str]) -> Crawl {
    let open = open(origins);
    let open: Vec<&str> = open.iter().map(String::as_str).collect();
    // One that was killed leaves its socket behind.
    let socket = dir.join("news/state/control");
    std::fs::remove_file(&socket).ok();
    let crawl = Crawl::start(dir, &open);
    // A command before the crawl answers would open the folder itself, and block the crawl.
    wait("it answers", || socket.exists());
    crawl
}

fn done(output: &Output) -> &Output {
    assert!(output.status.success(), "{} {}", text(&output.stdout), text(&output.stderr));
    output
}

fn lines(output: &Output) -> Vec<Value> {
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
    text(&output.stdout).lines().map(parse).collect()
}

/// How often each story was reported.
fn told(dir: &Path) -> BTreeMap<String, u64> {
    let mut told = BTreeMap::new();
    for event in lines(&say(dir, &["log", "--stories", "-o", "news"])) {
        if event["kind"] == "story" {
            *told.entry(event["url"].as_str().expect("a URL").to_owned()).or_default() += 1;
        }
    }
    told
}

fn stories(dir: &Path, more: &[&str]) -> Vec<(String, String)> {
    let listed = say(dir, &[&["list", "stories", "-o", "news", "--json"], more].concat());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    lines(&listed).iter().map(|story| (text(&story["source"]), text(&story["url"]))).collect()
}

fn polls_of(dir: &Path, feed: &str) -> usize {
    let said = json(&say(dir, &["feed", "show", feed, "-o", "news", "--json"]));
    said["polls"].as_array().map_or(0, Vec::len)
}

#[test]
fn row_02_feeds_of_one_domain_tell_a_story_once_also_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let (site, origin) = Site::start("127.0.0.1");
    site.feed("/a.xml", "", &[("/s/1", "one", "First"), ("/s/2", "two", "Second")]);
    // The same two by URL and by guid, one with a title of the same week, and one of its own.
    site.feed(
        "/b.xml",
        "",
        &[
            ("/s/1", "other", "First, again"),
            ("/s/2-bis", "two", "Second, again"),
            ("/s/3", "three", "FIRST"),
            ("/s/4", "four", "Fourth"),
        ],
    );
    let [a, b] = ["a", "b"].map(|name| format!("{origin}/{name}.xml"));
    done(&say(dir.path(), &["feed", "add", &a, "-o", "news"]));
    let first = crawl(dir.path(), &[&origin]);
    wait("the stories of the first", || stories(dir.path(), &[]).len() == 2);
    first.kill();
    done(&say(dir.path(), &["feed", "add", &b, "-o", "news"]));
    let second = crawl(dir.path(), &[&origin]);
    wait("the second feed", || polls_of(dir.path(), &b) > 1 && site.asked("/s/4") > 0);
    second.kill();
    let url = |path: &str| format!("{origin}{path}");
    let once: BTreeMap<String, u64> = ["/s/1", "/s/2", "/s/4"].map(|path| (url(path), 1)).into();
    assert_eq!(told(dir.path()), once);
    assert_eq!((site.asked("/s/2-bis"), site.asked("/s/3")), (0, 0));
    let listed = stories(dir.path(), &["--source", "127.0.0.1"]);
    let expected = ["/s/1", "/s/2", "/s/4"].map(|path| ("127.0.0.1".to_owned(), url(path)));
    assert_eq!(listed, expected);
}

#[test]
fn row_02_a_named_source_and_an_outline_span_domains_and_others_tell_again() {
    let dir = tempfile::tempdir().unwrap();
    let sites: Vec<(Site, String)> =
        ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"].map(Site::start).into_iter().collect();
    // Stories of a common place: each feed names the same pages.
    let page = |path: &str| format!("{}{path}", sites[0].1);
    let (one, two) = (page("/s/1"), page("/s/2"));
    for (site, _) in &sites {
        site.feed("/feed", "", &[(&one, "one", "First"), (&two, "two", "Second")]);
    }
    let feeds: Vec<String> = sites.iter().map(|(_, origin)| format!("{origin}/feed")).collect();
    done(&say(dir.path(), &["feed", "add", &feeds[0], "-o", "news", "--source", "The Press"]));
    // An outline of that name is the same source; one that stands alone is of its domain.
    let opml = format!(
        "<opml><body><outline text='The Press'><outline xmlUrl='{}'/></outline><outline xmlUrl='{}'/></body></opml>",
        feeds[1], feeds[2]
    );
    std::fs::write(dir.path().join("list.opml"), opml).unwrap();
    let origins: Vec<&str> = sites.iter().map(|(_, origin)| origin.as_str()).collect();
    let open = open(&origins);
    let open: Vec<&str> = open.iter().map(String::as_str).collect();
    done(&say(dir.path(), &[&["feed", "import", "list.opml", "-o", "news"], &open[..]].concat()));
    // A feed that has moved for good is of the source that its old place was of.
    sites[3].0.set("/old", "301 Moved Permanently", &format!("Location: {}\r\n", feeds[3]), "");
    let old = format!("{}/old", sites[3].1);
    done(&say(dir.path(), &["feed", "add", &old, "-o", "news", "--source", "The Press"]));
    let crawl = crawl(dir.path(), &origins);
    wait("all feeds", || feeds.iter().all(|feed| polls_of(dir.path(), feed) > 1));
    wait("the stories of both sources", || stories(dir.path(), &[]).len() == 4);
    crawl.kill();
    for source in ["The Press", "127.0.0.3"] {
        let of = |url: &String| (source.to_owned(), url.clone());
        assert_eq!(stories(dir.path(), &["--source", source]), [of(&one), of(&two)], "{source}");
    }
    let told = told(dir.path());
    assert_eq!(told, BTreeMap::from([(one, 2), (two, 2)]), "once by each source");
    // The names survive in the list that others read, too.
    let exported = text(&say(dir.path(), &["feed", "export", "-o", "news"]).stdout);
    assert!(exported.matches("nephila:source=\"The Press\"").count() >= 3, "{exported}");
}

#[test]
fn row_13_what_is_wrong_with_a_feed_is_said_at_its_first_poll_and_a_removed_one_is_not_asked() {
    let dir = tempfile::tempdir().unwrap();
    // Each on an address of its own: a host that fails rests, and others need not wait for that host.
    let names = ["missing", "failing", "page", "broken", "moved", "good"];
    let sites: Vec<(Site, String)> =
        (0..names.len() as u8).map(|number| Site::start(&format!("127.0.13.{}", number + 1))).collect();
    let feeds: Vec<String> = sites.iter().map(|(_, origin)| format!("{origin}/feed")).collect();
    let (page, broken, moved, good) = (&sites[2].0, &sites[3].0, &sites[4].0, &sites[5].0);
    sites[1].0.set("/feed", "500 Internal Server Error", "", "out of order");
    page.set("/feed", "200 OK", "Content-Type: text/html\r\n", "<!DOCTYPE html><html><p>Welcome</html>");
    broken.set("/feed", "200 OK", "Content-Type: application/rss+xml\r\n", "<rss><channel><item><title>A");
    good.feed("/feed", "", &[("/s/1", "one", "First")]);
    moved.set("/feed", "301 Moved Permanently", &format!("Location: {}\r\n", feeds[5]), "");
    let all: Vec<&str> = feeds.iter().map(String::as_str).collect();
    done(&say(dir.path(), &[&["feed", "add", "-o", "news"], &all[..]].concat()));
    let origins: Vec<&str> = sites.iter().map(|(_, origin)| origin.as_str()).collect();
    let crawl = crawl(dir.path(), &origins);
    let list = || lines(&say(dir.path(), &["feed", "list", "-o", "news", "--json"]));
    wait("a poll of each", || {
        list().iter().filter(|feed| !feed["polls"].as_array().unwrap().is_empty()).count() == names.len()
    });
    let said: BTreeMap<String, Value> =
        list().into_iter().map(|feed| (feed["url"].as_str().unwrap().to_owned(), feed)).collect();
    let of = |number: usize| {
        let feed = &said[&feeds[number]];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        (text(&feed["health"]), text(&feed["wrong"]), feed["polls"][0]["status"].clone())
    };
    assert_eq!((of(0).0.as_str(), of(0).2), ("failing", 404.into()), "{:?}", of(0));
    assert_eq!((of(1).0.as_str(), of(1).2), ("failing", 500.into()), "{:?}", of(1));
    assert_ne!(of(0).1, of(1).1, "in words, too");
    assert_eq!((of(2).0.as_str(), of(2).1.contains("HTML")), ("not-a-feed", true), "{:?}", of(2));
    assert_eq!((of(3).0.as_str(), of(3).1.contains("broken")), ("broken", true), "{:?}", of(3));
    assert_eq!((of(4).0.as_str(), of(4).1.contains(&feeds[5])), ("moved", true), "{:?}", of(4));
    assert_eq!((of(5).0.as_str(), of(5).1.as_str()), ("learning", ""));
    let health = say(dir.path(), &["feed", "health", "-o", "news"]);
    assert_eq!(health.status.code(), Some(1), "{}", text(&health.stdout));
    let table = text(&say(dir.path(), &["feed", "list", "-o", "news"]).stdout);
    assert!(table.contains("(404, ") && table.contains("(500, ") && table.contains("HTML"), "{table}");
    // Without the ill ones all is well, at once, and they are asked no more.
    done(&say(dir.path(), &[&["feed", "remove", "-o", "news"], &all[..5]].concat()));
    let health = say(dir.path(), &["feed", "health", "-o", "news"]);
    assert_eq!((health.status.code(), list().len()), (Some(0), 1), "{}", text(&health.stdout));
    // The crawl notices within seconds; after that, only the good one is asked.
    std::thread::sleep(Duration::from_secs(6));
    let asked = |number: usize| sites[number].0.asked("/feed");
    let before = (asked(2), asked(3), asked(5));
    wait("more polls", || asked(5) > before.2 + 2);
    assert_eq!((asked(2), asked(3)), (before.0, before.1));
    let unknown = say(dir.path(), &["feed", "remove", "-o", "news", "http://127.0.13.9/nothing"]);
    assert_eq!(unknown.status.code(), Some(1), "{}", text(&unknown.stderr));
    // One that is added again is followed again.
    done(&say(dir.path(), &["feed", "add", "-o", "news", &feeds[2]]));
    wait("it is asked again", || asked(2) > before.0);
    crawl.kill();
}

#[test]
fn row_13_a_feed_is_checked_without_being_added() {
    let dir = tempfile::tempdir().unwrap();
    let (site, origin) = Site::start("127.0.0.1");
    site.feed("/feed", "", &[("/s/1", "one", "First"), ("/s/2", "two", "Second")]);
    site.set("/old", "301 Moved Permanently", "Location: /feed\r\n", "");
    let link = "<html><link rel=alternate type='application/rss+xml' href='/feed'><p>Welcome</html>";
    site.set("/front", "200 OK", "Content-Type: text/html\r\n", link);
    site.set("/broken", "200 OK", "", "<rss><channel><item><title>A");
    let check = |path: &str| {
        let output = say(dir.path(), &["feed", "check", &format!("{origin}{path}"), "--json"]);
        (output.status.code(), json(&output))
    };
    let (code, said) = check("/feed");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(
        (&said["format"], &said["entries"], &said["stories"], &said["next_s"]),
        (&"rss".into(), &2.into(), &2.into(), &300.into()),
        "{said}"
    );
    let (code, said) = check("/old");
    assert_eq!((code, &said["moved_to"]), (Some(0), &format!("{origin}/feed").into()), "{said}");
    let (code, said) = check("/front");
    assert_eq!((code, &said["feeds"][0]), (Some(1), &format!("{origin}/feed").into()), "{said}");
    let (code, said) = check("/broken");
    assert!(code == Some(1) && said["wrong"].as_str().unwrap().contains("broken"), "{said}");
    let (code, said) = check("/missing");
    assert_eq!((code, &said["status"]), (Some(1), &404.into()), "{said}");
    let plain = text(&say(dir.path(), &["feed", "check", &format!("{origin}/feed")]).stdout);
    assert!(plain.contains("2 entries, 2 stories") && plain.contains("again after 5m"), "{plain}");
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "nothing is written");
}

#[test]
fn row_03_a_redundant_feed_is_stored_in_words_and_not_as_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (site, origin) = Site::start("127.0.0.1");
    // The body has a new time at every poll, as many feeds have; large, so that a copy would show.
    let padding = "x".repeat(20_000);
    let publish = |number: u32, entries: &[(&str, &str, &str)]| {
        let more = format!("<lastBuildDate>{number}</lastBuildDate><description>{padding}</description>");
        site.feed("/feed", &more, entries);
    };
    let [one, two] = [("/s/1", "one", "First"), ("/s/2", "two", "Second")];
    publish(0, &[one]);
    let feed = format!("{origin}/feed");
    done(&say(dir.path(), &["feed", "add", &feed, "-o", "news"]));
    let crawl = crawl(dir.path(), &[&origin]);
    let mut number = 0;
    for polls in 1..=6 {
        wait("a poll", || site.asked("/feed") >= polls);
        number += 1;
        publish(number, &[one]);
    }
    publish(number + 1, &[two, one]);
    wait("the new story", || site.asked("/s/2") > 0);
    wait("it is written down", || stories(dir.path(), &[]).len() == 2);
    crawl.kill();
    // Two captures, of the first and of the last; the others are words.
    let captures = text(&say(dir.path(), &["cdx", &feed, "-o", "news"]).stdout);
    let kept = captures.lines().filter(|line| !line.contains("warc/revisit")).count();
    assert_eq!(kept, 2, "{captures}");
    let archive: String = std::fs::read_dir(dir.path().join("news/archive"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".warc"))
        .map(|path| {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&path).unwrap();
            // The last record may be torn: the records before the last are read.
            _ = std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(file), &mut bytes);
            text(&bytes)
        })
        .collect();
    assert_eq!(archive.matches(&padding).count(), 2, "copies of the feed's text");
    let records: Vec<&str> =
        archive.split("WARC/1.1\r\n").filter(|record| record.contains("(redundant feed)")).collect();
    assert!(records.len() >= 3, "{}", records.len());
    for record in &records {
        let target = format!("WARC-Target-URI: {feed}\r\n");
        assert!(record.contains("WARC-Type: metadata\r\n") && record.contains(&target), "{record}");
        assert!(record.contains("feed: (redundant feed)\r\n"), "{record}");
    }
    // The archive is whole, and `read` returns the last capture.
    let verified = text(&say(dir.path(), &["verify", "news"]).stdout);
    let defects = verified.lines().filter(|line| line.starts_with("news/") && !line.contains("file-open"));
    assert_eq!(
        defects.count(),
        0,
        "it was killed, so its last file is open; nothing else is wrong: {verified}"
    );
    let read = text(&say(dir.path(), &["read", &feed, "-o", "news"]).stdout);
    assert!(read.contains("/s/2"), "{}", &read[..read.len().min(300)]);
}

#[test]
fn row_08_downloads_are_listed_by_state_and_type_while_a_crawl_runs_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let (site, origin) = Site::start("127.0.0.1");
    let entries: Vec<(String, String, String)> =
        (0..30).map(|n| (format!("/s/{n}"), format!("guid {n}"), format!("Story {n}"))).collect();
    let entries: Vec<(&str, &str, &str)> =
        entries.iter().map(|(url, guid, title)| (url.as_str(), guid.as_str(), title.as_str())).collect();
    site.feed("/feed", "", &entries);
    site.set("/s/7", "404 Not Found", "", "");
    let feed = format!("{origin}/feed");
    done(&say(dir.path(), &["feed", "add", &feed, "-o", "news"]));
    // One after the other, and slowly: some are waiting while we look.
    *site.slow.lock().unwrap() = Duration::from_millis(250);
    let crawl = crawl(dir.path(), &[&origin]);
    let list = |more: &[&str]| -> Vec<Value> {
        lines(&say(dir.path(), &[&["list", "downloads", "-o", "news", "--json"], more].concat()))
    };
    let count = |more: &[&str]| list(more).len();
    wait("some are done and some are not", || {
        count(&["--state", "success"]) > 2 && count(&["--state", "pending"]) > 5
    });
    let pending = list(&["--state", "pending", "--type", "content"]);
    assert!(pending.iter().all(|row| row["state"] == "pending" && row["type"] == "content"), "{pending:?}");
    assert!(pending.iter().all(|row| row["url"].as_str().unwrap().starts_with(&format!("{origin}/s/"))));
    wait("one that is being fetched", || count(&["--state", "fetching"]) > 0);
    wait("all are done", || count(&["--state", "pending"]) == 0 && count(&["--state", "success"]) == 30);
    crawl.kill();
    // The same from the folder, since no crawl runs there now.
    let feeds = list(&["--type", "feed"]);
    assert_eq!((feeds.len(), &feeds[0]["url"], &feeds[0]["state"]), (1, &feed.into(), &"success".into()));
    let failed = list(&["--state", "error"]);
    assert_eq!((failed.len(), &failed[0]["status"]), (1, &404.into()), "{failed:?}");
    let stories = list(&["--state", "success", "--type", "content"]);
    assert_eq!(stories.len(), 29);
    // In pages, with a cursor, each comes once.
    let (mut seen, mut from) = (Vec::new(), None::<String>);
    loop {
        let cursor = from.as_deref().map_or(Vec::new(), |from| vec!["--from", from]);
        let page = say(
            dir.path(),
            &[&["list", "downloads", "-o", "news", "--json", "--limit", "7"], &cursor[..]].concat(),
        );
        let rows = lines(&page);
        assert!(rows.len() <= 7, "{rows:?}");
        seen.extend(rows.iter().map(|row| row["url"].as_str().unwrap().to_owned()));
        let complaint = text(&page.stderr);
        match complaint.split("--from ").nth(1) {
            Some(cursor) => from = Some(cursor.trim().to_owned()),
            None => break,
        }
    }
    seen.sort();
    let all = seen.len();
    seen.dedup();
    assert_eq!((all, seen.len()), (31, 31), "{seen:?}");
    let table = text(&say(dir.path(), &["list", "stories", "-o", "news"]).stdout);
    assert!(table.starts_with("source") && table.contains("Story 29"), "{table}");
}
