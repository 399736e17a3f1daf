//! Feeds that are followed, by the real command: every story is found once, through kills and restarts of the crawl.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Timeout, longer than any wait takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
const LOOK: Duration = Duration::from_millis(100);

/// A site with a feed whose number of stories is set by the test.
#[derive(Clone, Default)]
pub(crate) struct Site {
    /// How many stories there are, and whether the feed's text is otherwise changed.
    stories: Arc<Mutex<(u64, String)>>,
    /// Number of requests for each path, and number of answers with 304.
    asked: Arc<Mutex<BTreeMap<String, u64>>>,
    not_modified: Arc<Mutex<u64>>,
}

/// Stories that stand in the feed at once.
const WINDOW: u64 = 20;

impl Site {
    /// Serves until the test is over. Returns the port.
    pub(crate) fn start(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let site = self.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let site = site.clone();
                std::thread::spawn(move || site.answer(stream));
            }
        });
        port
    }

    fn publish(&self, stories: u64) {
        self.stories.lock().unwrap().0 = stories;
    }

    pub(crate) fn asked(&self, path: &str) -> u64 {
        self.asked.lock().unwrap().get(path).copied().unwrap_or(0)
    }

    /// Of the first `stories` stories, the number that were requested at all, and the number of all their requests.
    fn pages(&self, stories: u64) -> (u64, u64) {
        let asked: Vec<u64> = (0..stories).map(|n| self.asked(&format!("/s/{n}"))).collect();
        (asked.iter().filter(|times| **times > 0).count() as u64, asked.iter().sum())
    }

    fn answer(&self, stream: TcpStream) -> Option<()> {
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let (mut line, mut tag) = (String::new(), String::new());
            reader.read_line(&mut line).ok()?;
            let path = line.split(' ').nth(1)?.to_owned();
            loop {
                let mut field = String::new();
                reader.read_line(&mut field).ok()?;
                if field.trim().is_empty() {
                    break;
                }
                if let Some(value) = field.to_ascii_lowercase().strip_prefix("if-none-match:") {
                    tag = value.trim().to_owned();
                }
            }
            *self.asked.lock().unwrap().entry(path.clone()).or_default() += 1;
            let (stories, more) = self.stories.lock().unwrap().clone();
            let etag = format!("\"{stories}-{}\"", more.len());
            let mut out = &stream;
            let mut send = |status: &str, fields: &str, body: &str| {
                let length = body.len();
                write!(out, "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\n\r\n{body}").ok()
            };
            match path.as_str() {
                "/feed" if tag == etag => {
                    *self.not_modified.lock().unwrap() += 1;
                    send("304 Not Modified", &format!("ETag: {etag}\r\n"), "")?;
                }
                "/feed" => {
                    let items: String = (stories.saturating_sub(WINDOW)..stories).rev().map(item).collect();
                    let body = format!("<rss><channel><title>News</title>{more}{items}</channel></rss>");
                    send("200 OK", &format!("ETag: {etag}\r\nContent-Type: application/rss+xml\r\n"), &body)?;
                }
                "/front" => {
                    let body = "<html><head><link rel=alternate type='application/rss+xml' href='/feed'></head>\
                                <body><a href='/about'>about</a></body></html>";
                    send("200 OK", "Content-Type: text/html\r\n", body)?;
                }
                path if path.starts_with("/s/") => {
                    let body = format!("<html><title>Story</title><p>{path}<a href='/other'>x</a></html>");
                    send("200 OK", "Content-Type: text/html\r\n", &body)?;
                }
                _ => send("404 Not Found", "", "")?,
            }
        }
    }
}

fn item(n: u64) -> String {
    format!(
        "<item><title>Story {n}</title><link>/s/{n}</link><guid>story-{n}</guid><author>a@example.org</author></item>"
    )
}

fn command(dir: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(dir).env("HOME", dir).stdin(Stdio::null());
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NEPHILA_CONFIG"] {
        command.env_remove(name);
    }
    command
}

pub(crate) fn say(dir: &Path, args: &[&str]) -> Output {
    command(dir).args(args).output().expect("the command runs")
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{} {}", text(&output.stdout), text(&output.stderr)))
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A crawl that is killed, by its own handle, when the test is over.
pub(crate) struct Crawl(Child);

impl Drop for Crawl {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

impl Crawl {
    /// Follows the feeds of the folder, with a schedule of seconds.
    pub(crate) fn start(dir: &Path, more: &[&str]) -> Crawl {
        let child = command(dir)
            .args(["crawl", "-o", "news", "--forever", "-q", "--delay", "0s"])
            .args(["--set", "feed.schedule.interval_min=1s", "--set", "feed.schedule.interval_max=3s"])
            .args(["--set", "frontier.slot_delay=0s"])
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .expect("the crawl starts");
        Crawl(child)
    }

    pub(crate) fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(LOOK);
    }
}

#[test]
fn every_story_of_a_feed_is_found_once_though_the_crawl_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::default();
    let port = site.start();
    let feed = format!("http://127.0.0.1:{port}/feed");
    let added = say(dir.path(), &["feed", "add", &feed, "-o", "news"]);
    assert!(added.status.success(), "{}", text(&added.stderr));
    site.publish(5);
    let mut crawl = Crawl::start(dir.path(), &[]);
    wait("the first stories", || site.pages(5).0 == 5);
    // Stories come while the crawl is killed and restarted, three times.
    let mut stories = 5;
    for _ in 0..3 {
        for _ in 0..4 {
            stories += 2;
            site.publish(stories);
            std::thread::sleep(Duration::from_millis(300));
        }
        crawl.kill();
        stories += 1;
        site.publish(stories);
        crawl = Crawl::start(dir.path(), &[]);
        wait("those of meanwhile", || site.pages(stories).0 == stories);
    }
    // The page is fetched before its poll is written down; then the count is right.
    wait("the last poll", || {
        json(&say(dir.path(), &["feed", "show", &feed, "-o", "news", "--json"]))["stories"] == stories
    });
    // Nothing is new: the feed is polled again, conditionally, and no page is requested.
    let (before, polls) = (site.pages(stories).1, site.asked("/feed"));
    wait("more polls", || site.asked("/feed") >= polls + 3);
    assert!(*site.not_modified.lock().unwrap() > 0);
    assert_eq!(site.pages(stories).1, before);
    // Requests that were open at a kill may be repeated, and nothing else.
    assert!(before <= stories + 3 * 2, "{before} requests for {stories} stories");
    assert_eq!((site.asked("/other"), site.asked("/about")), (0, 0), "a story's links are not wanted");
    let said = json(&say(dir.path(), &["feed", "show", &feed, "-o", "news", "--json"]));
    assert_eq!((&said["stories"], &said["title"]), (&stories.into(), &"News".into()), "{said}");
    assert!(!said["why"].as_str().unwrap().is_empty() && !said["next"].is_null(), "{said}");
    crawl.kill();
    // Read from the folder, since no crawl runs there now.
    let listed = say(dir.path(), &["feed", "list", "-o", "news", "--json"]);
    assert_eq!(json(&listed)["stories"], stories, "{}", text(&listed.stderr));
    // Each story was told once, with its feed.
    let told = text(&say(dir.path(), &["log", "--stories", "-o", "news"]).stdout);
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let told: BTreeMap<&str, &Value> = told
        .iter()
        .filter(|event| event["kind"] == "story")
        .map(|event| (event["url"].as_str().expect("a URL"), event))
        .collect();
    assert_eq!(told.len() as u64, stories);
    let is_whole = |event: &&Value| event["feed"] == *feed && event["title"].to_string().contains("Story ");
    assert!(told.values().all(is_whole), "{told:?}");
    let exported = text(&say(dir.path(), &["feed", "export", "-o", "news"]).stdout);
    assert!(exported.contains(&feed) && exported.contains("title=\"News\""), "{exported}");
    assert!(text(&say(dir.path(), &["feed", "health", "-o", "news"]).stdout).starts_with("1 feeds"));
}

#[test]
fn a_page_given_for_a_feed_leads_to_its_feed_and_an_unchanged_feed_is_redundant() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::default();
    let port = site.start();
    site.publish(3);
    let opml =
        format!("<opml><body><outline text='N' xmlUrl='http://127.0.0.1:{port}/front'/></body></opml>");
    std::fs::write(dir.path().join("list.opml"), opml).unwrap();
    // The URL was not typed, so the settings have to open its address and its port.
    let open =
        ["--set", "spider.allow_addresses=[\"127.0.0.1/32\"]", "--set", &format!("spider.ports=[{port}]")];
    let import = [&["feed", "import", "list.opml", "-o", "news", "--json"][..], &open].concat();
    let added = say(dir.path(), &import);
    assert_eq!(json(&added)["taken"], 1);
    let crawl = Crawl::start(dir.path(), &open);
    wait("its stories", || site.pages(3).0 == 3);
    assert_eq!(site.asked("/about"), 0);
    // Other bytes, the same URLs.
    site.stories.lock().unwrap().1 = "<description>changed</description>".to_owned();
    let feed = format!("http://127.0.0.1:{port}/feed");
    wait("the redundant feed", || {
        let said = json(&say(dir.path(), &["feed", "show", &feed, "-o", "news", "--json"]));
        let polls = said["polls"].as_array().cloned().unwrap_or_default();
        polls.iter().any(|poll| poll["found"] == "redundant feed")
    });
    crawl.kill();
    let mut notes = String::new();
    for file in std::fs::read_dir(dir.path().join("news/archive")).unwrap() {
        let path = file.unwrap().path();
        // One that is being written has another ending.
        if path.to_string_lossy().contains(".warc") {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&path).unwrap();
            // The last record may be torn: the records before the last are read.
            _ = std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(file), &mut bytes);
            notes.push_str(&text(&bytes));
        }
    }
    assert!(notes.contains("feed: (redundant feed)"));
    assert!(notes.contains("story: {\"url\":"), "{notes}");
    assert!(notes.contains("\"guid\":\"story-2\"") && notes.contains("\"title\":\"Story 2\""), "{notes}");
}

#[test]
fn fin_13_a_feed_whose_host_is_stopped_has_no_next_time() {
    let dir = tempfile::tempdir().unwrap();
    let site = Site::default();
    let feed = format!("http://127.0.0.1:{}/feed", site.start());
    assert!(say(dir.path(), &["feed", "add", &feed, "-o", "news"]).status.success());
    site.publish(2);
    let crawl = Crawl::start(dir.path(), &[]);
    wait("the stories", || site.pages(2).0 == 2);
    let stop = ["stop", "add", "127.0.0.1", "--reason", "asked to", "--author", "me", "-o", "news"];
    assert!(say(dir.path(), &stop).status.success());
    let show = || json(&say(dir.path(), &["feed", "show", &feed, "-o", "news", "--json"]));
    wait("the stop", || show()["why"] == "its host is stopped: stop-list 127.0.0.1 by me: asked to");
    assert!(show()["next"].is_null(), "{}", show());
    crawl.kill();
    // Also long after the time of its next poll, and while no crawl runs.
    let shown = text(&say(dir.path(), &["feed", "show", &feed, "-o", "news"]).stdout);
    assert!(
        shown.contains("next poll never, because: its host is stopped: stop-list 127.0.0.1 by me"),
        "{shown}"
    );
    let explained = json(&say(dir.path(), &["explain", &feed, "-o", "news", "--json"]));
    assert!(explained["next"].is_null(), "{explained}");
    assert!(explained["held_by"][0].as_str().unwrap().contains("the host is stopped"), "{explained}");
}
