//! Events of a real crawl, followed by programs that are killed, that are slow, and that never read at all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nephila_testweb::model::{Place, What};
use nephila_testweb::{RunningWeb, Settings, Web};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Timeout, longer than any wait takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Number of times consumers are killed.
const KILLS: u64 = 50;
/// Maximum memory for a consumer that does not read, in bytes.
const CONSUMER_BYTES_MAX: u64 = 100 << 20;

/// A process that is killed, by its own handle, when a test is over.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

struct World {
    web: RunningWeb,
    dir: tempfile::TempDir,
}

impl World {
    async fn start() -> World {
        let settings = Settings {
            hosts: 8,
            hosts_per_domain: 1,
            pages: 800,
            size_exponent: 0.0,
            page_bytes: 2_000,
            links: 10,
            threads: 1,
            ..Settings::default()
        };
        let web = Web::builder().settings(settings).start().await.expect("the web starts");
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("ca.pem"), web.ca_pem()).expect("the CA is written");
        World { web, dir }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(PROGRAM);
        command.current_dir(self.dir.path()).stdin(Stdio::null());
        command.env("HOME", self.dir.path()).env("NEPHILA_CONFIG", "/dev/null");
        command
    }

    fn crawl(&self) -> Command {
        let (http, https) = (self.web.http_port(), self.web.https_port());
        let mut command = self.command();
        let homes = (0..8).map(|host| self.web.world().url(Place { host, what: What::Page(0) }));
        command.args(["crawl", "-o", "crawl", "--scope", "domain", "--delay", "100ms", "-q"]).args(homes);
        for pair in [
            format!("spider.dns_servers=[\"{}\"]", self.web.dns_addr()),
            "spider.allow_addresses=[\"127.0.0.0/8\", \"::1/128\"]".into(),
            format!("spider.ports=[{http}, {https}]"),
            format!("spider.ca_file={}", self.dir.path().join("ca.pem").display()),
            "spider.head_timeout=2s".into(),
            "spider.total_timeout=5s".into(),
            "frontier.host_delay_factor=0".into(),
            "frontier.slot_delay=0s".into(),
        ] {
            command.args(["--set", &pair]);
        }
        command
    }

    /// A program that follows from there on, into this file.
    fn consumer(&self, from: &str, file: &Path) -> Running {
        let mut command = self.command();
        command.args(["log", "-f", "--events", "-o", "crawl", "--from", from]);
        Running(command.stdout(File::create(file).unwrap()).stderr(Stdio::inherit()).spawn().unwrap())
    }

    /// Everything there is from there on.
    fn events(&self, from: &str) -> Read {
        let output = self.command().args(["log", "--from", from, "-o", "crawl"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Read::of(&output.stdout)
    }
}

/// The events that a program has read.
#[derive(Default)]
struct Read {
    events: Vec<Value>,
    position: Option<String>,
}

impl Read {
    /// Lines that are whole.
    fn of(bytes: &[u8]) -> Read {
        let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut read = Read::default();
        for line in String::from_utf8_lossy(&bytes[..end]).lines() {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            match line["position"].as_str() {
                Some(position) => read.position = Some(position.to_owned()),
                None => read.events.push(line),
            }
        }
        read
    }
}

fn id(event: &Value) -> String {
    event["id"].as_str().expect("an id").to_owned()
}

fn resident(id: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}

#[tokio::test(flavor = "multi_thread")]
async fn consumers_killed_fifty_times_see_every_event_and_one_that_never_reads_holds_nobody_up() {
    let world = World::start().await;
    let folder = world.dir.path().join("crawl");
    let mut crawl = Running(world.crawl().stdout(Stdio::null()).spawn().unwrap());
    let began = Instant::now();
    while !folder.join("state/control").exists() {
        assert!(began.elapsed() < PATIENCE, "the crawl begins");
        std::thread::sleep(Duration::from_millis(20));
    }
    // One program never reads its events, another holds a connection and does not read either.
    let mut stuck = world.command();
    let stuck = stuck.args(["log", "-f", "--events", "-o", "crawl"]).stdout(Stdio::piped()).spawn();
    let stuck = Running(stuck.unwrap());
    let mut silent = UnixStream::connect(folder.join("state/control")).unwrap();
    silent.write_all(b"GET /api/v1/events?wait=20s HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();

    let (mut seen, mut repeats, mut position) =
        (BTreeMap::<String, Value>::new(), 0u64, "beginning".to_owned());
    let file = |number: u64| -> PathBuf { world.dir.path().join(format!("consumer-{number}")) };
    let mut while_it_ran = 0;
    for number in 0..KILLS {
        let consumer = world.consumer(&position, &file(number));
        std::thread::sleep(Duration::from_millis(60 + (number * 37) % 240));
        drop(consumer);
        let read = Read::of(&std::fs::read(file(number)).unwrap());
        for event in read.events {
            let again = seen.insert(id(&event), event.clone());
            repeats += u64::from(again.is_some());
            assert!(again.is_none_or(|again| again == event), "the same id, and another event: {event}");
        }
        while_it_ran += u64::from(crawl.0.try_wait().unwrap().is_none());
        // Every third one dies before the position is saved.
        if number % 3 > 0 {
            position = read.position.unwrap_or(position);
        }
    }
    let ended = loop {
        if let Some(ended) = crawl.0.try_wait().unwrap() {
            break ended;
        }
        assert!(began.elapsed() < PATIENCE, "the crawl ends though one consumer never reads");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(ended.code(), Some(0));
    for event in world.events(&position).events {
        repeats += u64::from(seen.insert(id(&event), event).is_some());
    }
    let all = world.events("beginning").events;
    let wanted: BTreeSet<String> = all.iter().map(id).collect();
    assert_eq!(wanted.len(), all.len(), "every event has an id of its own");
    assert_eq!(seen.keys().cloned().collect::<BTreeSet<_>>(), wanted);
    assert!(repeats > 0 && while_it_ran > 5, "{repeats} repeats, {while_it_ran} while the crawl ran");
    assert!(resident(stuck.0.id()) < CONSUMER_BYTES_MAX, "{} bytes", resident(stuck.0.id()));

    // The events match the outcome log: every request for a page, once.
    let log = world.command().args(["log", "-o", "crawl", "--format", "jsonl"]).output().unwrap();
    let requests = String::from_utf8_lossy(&log.stdout).into_owned();
    let requests = requests.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let pages = requests.filter(|line| line["purpose"] == "page");
    let pages: BTreeMap<String, Value> =
        pages.map(|line| (format!("{:x}", line["fetch"].as_u64().unwrap()), line)).collect();
    let mut told = BTreeMap::new();
    for event in all.iter().filter(|event| event["fetch"].is_string() && event["outcome"].is_string()) {
        assert!(told.insert(event["fetch"].as_str().unwrap().to_owned(), event).is_none(), "{event}");
    }
    assert_eq!(told.keys().collect::<Vec<_>>(), pages.keys().collect::<Vec<_>>());
    for (fetch, line) in &pages {
        assert_eq!((&told[fetch]["url"], &told[fetch]["outcome"]), (&line["url"], &line["outcome"]));
    }
    let count = |kind: &str| all.iter().filter(|event| event["kind"] == kind).count();
    assert!(count("fetched") > 100 && count("robots") >= 8 && count("host-found") >= 8 && count("job") >= 1);
    println!("{} events, {repeats} seen again, {while_it_ran} of {KILLS} kills while it ran", all.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crawl_that_is_killed_tells_everything_and_nothing_by_two_ids() {
    let world = World::start().await;
    let (mut seen, mut position) = (BTreeMap::<String, Value>::new(), "beginning".to_owned());
    for round in 0..6 {
        let mut crawl = Running(world.crawl().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        if round < 5 {
            std::thread::sleep(Duration::from_millis(900 + 300 * round));
        } else {
            let ended = crawl.0.wait().unwrap();
            assert_eq!(ended.code(), Some(0));
        }
        drop(crawl);
        if !world.dir.path().join("crawl/job.json").exists() {
            continue;
        }
        let read = world.events(&position);
        for event in read.events {
            assert!(seen.insert(id(&event), event.clone()).is_none(), "{event}");
        }
        position = read.position.unwrap_or(position);
    }
    let all: BTreeMap<String, Value> =
        world.events("beginning").events.into_iter().map(|event| (id(&event), event)).collect();
    assert_eq!(seen, all);
    // Every page that is in the archive was told.
    let fetches: BTreeSet<&str> = all.values().filter_map(|event| event["fetch"].as_str()).collect();
    let told = all.values().filter(|event| event["outcome"].is_string() && event["fetch"].is_string());
    assert_eq!(fetches.len(), told.count());
    // A position that the journal does not reach, as after a crawl begun anew, is said, and read from the beginning.
    let beyond = world.events("0.99999999.00000001").events;
    assert_eq!(beyond[0]["gone"], serde_json::json!([0, 1, 99_999_999]));
    assert_eq!(beyond[1..].iter().map(id).collect::<BTreeSet<_>>(), all.keys().cloned().collect());
    let only = world.command().args(["log", "--kind", "host-found", "-o", "crawl"]).output().unwrap();
    assert!(Read::of(&only.stdout).events.iter().all(|event| event["kind"] == "host-found"));
    let wrong = world.command().args(["log", "--kind", "stories", "-o", "crawl"]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}
