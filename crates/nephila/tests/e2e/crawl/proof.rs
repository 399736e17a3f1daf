//! A crawl's own report of its politeness, against the journals of the servers; stops while a crawl runs; usage signals
//! of pages.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use super::*;

/// Hosts of the web.
const HOSTS: u32 = 50;
/// Rounding error of both sides, in milliseconds.
const ROUNDING_MS: u64 = 3;

/// The requests of one host, as seen by the servers.
#[derive(Default)]
struct Seen {
    starts_ms: Vec<u64>,
    robots: u64,
}

impl Seen {
    fn closest(&self) -> Option<u64> {
        self.starts_ms.windows(2).map(|two| two[1] - two[0]).min()
    }
}

fn crawl_args(world: &World, seeds: &[String], more: &[&str]) -> Vec<String> {
    let mut args: Vec<String> = ["crawl", "-o", "crawl", "--quiet"].map(str::to_owned).into();
    args.extend(seeds.iter().cloned());
    args.extend(world.settings());
    args.extend(more.iter().map(|text| (*text).to_owned()));
    args
}

fn homes(world: &World, hosts: u32) -> Vec<String> {
    (0..hosts).map(|host| world.web.world().url(Place { host, what: What::Page(0) })).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_report_says_of_fifty_hosts_what_their_servers_saw() {
    let settings = Settings {
        hosts: HOSTS,
        pages: 500,
        size_exponent: 0.0,
        page_bytes: 2_000,
        addresses: 10,
        threads: 1,
        ..Settings::default()
    };
    let world = World::start(settings).await;
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64;
    let journal_began_us = wall - world.web.journal().now_us();
    let limits =
        ["--scope", "host", "--delay", "200ms", "--limit-per-host", "6", "--set", "frontier.slot_delay=50ms"];
    let args = crawl_args(&world, &homes(&world, HOSTS), &limits);
    let ended = world.ask(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));

    let mut seen = BTreeMap::<String, Seen>::new();
    let mut addresses = BTreeMap::<String, u64>::new();
    let log = world.web.journal().log();
    for request in &log.requests {
        let scheme = if request.tls { "https" } else { "http" };
        let host = seen.entry(format!("{scheme}://{}", request.host)).or_default();
        host.starts_ms.push((journal_began_us + request.start_us) / 1_000);
        host.robots += u64::from(request.path == "/robots.txt");
        *addresses.entry(request.local.to_string()).or_default() += 1;
    }
    assert_eq!(seen.len(), HOSTS as usize, "every host was asked");

    let output = world.ask(&["politeness", "report", "-o", "crawl", "--format", "json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(output.status.code(), Some(0), "every promise was kept: {}", report["exceptions"]);
    assert_eq!(report["requests"], log.requests.len() as u64);
    let hosts = report["hosts"].as_array().unwrap();
    assert_eq!(hosts.len(), seen.len());
    for host in hosts {
        let name = host["name"].as_str().unwrap();
        let saw = &seen[name];
        assert_eq!(host["requests"], saw.starts_ms.len() as u64, "{name}");
        assert_eq!(host["robots_requests"], saw.robots, "{name}");
        assert_eq!((host["robots_status"].is_u64(), &host["at_once_max"]), (true, &1.into()), "{name}");
        // A server sees each request some time after its start here. Its closest starts differ from ours by no more
        // than the largest such delay, which is measured here, request by request.
        let ours = starts(&world, name);
        assert_eq!(ours.len(), saw.starts_ms.len());
        let late: Vec<u64> =
            ours.iter().zip(&saw.starts_ms).map(|(we, they)| they + ROUNDING_MS - we).collect();
        let late_max = late.iter().copied().max().unwrap();
        let (said, saw) = (host["apart_ms_min"].as_u64(), saw.closest());
        assert_eq!(said.is_some(), saw.is_some(), "{name}");
        assert!(
            said.unwrap_or(0).abs_diff(saw.unwrap_or(0)) <= late_max,
            "{name}: {said:?} {saw:?} {late_max}"
        );
    }
    let slots = report["slots"].as_array().unwrap();
    assert_eq!(slots.len(), addresses.len());
    for slot in slots {
        assert_eq!(slot["requests"], addresses[slot["name"].as_str().unwrap()], "{slot}");
    }
    let counted: u64 = report["histogram"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
    assert_eq!(
        counted,
        (log.requests.len() - HOSTS as usize) as u64,
        "a rest before every request but the first"
    );

    // The page for an operator tells the same of one host, and nothing of the others.
    let name = hosts[0]["name"].as_str().unwrap();
    let html = world.ask(&["politeness", "report", "-o", "crawl", "--format", "html", "--host", name]);
    let html = String::from_utf8(html.stdout).unwrap();
    assert!(html.contains(&format!("{} requests, every promise was kept", hosts[0]["requests"])), "{html}");
    assert!(html.contains(name) && !html.contains(hosts[1]["name"].as_str().unwrap()), "{html}");
    // Two folders that are judged as one: every request counts twice, and so every promise is broken.
    let twice = world.ask(&["politeness", "report", "-o", "crawl", "--also", "crawl", "--format", "json"]);
    let twice: Value = serde_json::from_slice(&twice.stdout).expect("JSON");
    assert_eq!(twice["requests"], 2 * log.requests.len() as u64);
    assert!(twice["exceptions_total"].as_u64() >= Some(log.requests.len() as u64));
}

/// When we began the requests of a host, by our log.
fn starts(world: &World, origin: &str) -> Vec<u64> {
    let output = world.ask(&["log", "-o", "crawl", "--host", origin, "--format", "jsonl"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut starts: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["at"].as_u64().unwrap())
        .collect();
    starts.sort_unstable();
    starts
}

#[tokio::test(flavor = "multi_thread")]
async fn pol_19_a_stop_holds_while_a_crawl_runs_and_after_it_begins_again() {
    let settings = Settings {
        hosts: 6,
        hosts_per_domain: 1,
        addresses: 24,
        pages: 3_000,
        size_exponent: 0.0,
        page_bytes: 1_000,
        threads: 1,
        ..Settings::default()
    };
    let world = World::start(settings).await;
    let args = crawl_args(&world, &homes(&world, 6), &["--scope", "host", "--delay", "100ms"]);
    let start = || {
        let child = Command::new(PROGRAM)
            .args(&args)
            .current_dir(world.dir.path())
            .env("HOME", world.dir.path())
            .env("NEPHILA_CONFIG", "/dev/null")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        Running(child.expect("it starts"))
    };
    let hosts: Vec<String> =
        homes(&world, 6).iter().map(|url| url.split('/').nth(2).unwrap().to_owned()).collect();
    let name = |host: usize| hosts[host].split(':').next().unwrap().to_owned();
    let asked = |since: u64| -> BTreeSet<String> {
        let log = world.web.journal().log();
        log.requests.iter().filter(|seen| seen.start_us >= since).map(|seen| seen.host.to_string()).collect()
    };
    let all_asked_since = |since: u64, wanted: &[usize]| {
        let began = Instant::now();
        while !wanted.iter().all(|host| asked(since).contains(&hosts[*host])) {
            assert!(began.elapsed() < PATIENCE, "{:?}", asked(since));
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let running = start();
    all_asked_since(0, &[0, 1, 2, 3, 4, 5]);
    let address =
        world.web.journal().log().requests.iter().find(|seen| *seen.host == *hosts[2]).unwrap().local;
    let (host, domain) = (name(0), format!("*.{}", name(1)));
    let range = address.to_string();
    let stopped = world.ask(&[
        "stop",
        "add",
        &host,
        &domain,
        &range,
        "--reason",
        "the operator wrote to us",
        "--author",
        "me",
        "-o",
        "crawl",
    ]);
    assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    let at = world.web.journal().now_us();
    // Hosts that share the stopped address are stopped as well.
    let log = world.web.journal().log();
    let at_range: BTreeSet<String> =
        log.requests.iter().filter(|seen| seen.local == address).map(|seen| seen.host.to_string()).collect();
    let is_stopped = |number: &usize| *number < 3 || at_range.contains(&hosts[*number]);
    let free: Vec<usize> = (0..6).filter(|number| !is_stopped(number)).collect();
    assert!(!free.is_empty(), "somebody is left to be asked");
    let closed: Vec<usize> = (0..6).filter(is_stopped).collect();
    // Ten seconds later no stopped host is requested; the others are.
    std::thread::sleep(Duration::from_secs(10));
    let later = world.web.journal().now_us().max(at + 10_000_000);
    all_asked_since(later, &free);
    let rude = asked(later);
    assert!(closed.iter().all(|number| !rude.contains(&hosts[*number])), "{rude:?}");
    drop(running);

    // Nor after the next beginning, from the first moment.
    let again_at = world.web.journal().now_us();
    let running = start();
    all_asked_since(again_at, &free);
    std::thread::sleep(Duration::from_secs(3));
    let rude = asked(again_at);
    assert!(closed.iter().all(|number| !rude.contains(&hosts[*number])), "{rude:?}");
    drop(running);
    let listed = world.ask(&["stop", "list", "-o", "crawl"]);
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert!(
        listed.lines().all(|line| line.contains("me") && line.ends_with("the operator wrote to us")),
        "{listed}"
    );
    // Queued URLs there are kept, with the reason.
    let summaries: BTreeSet<String> = (1..40)
        .map(|page| world.explain(&world.web.world().url(Place { host: 0, what: What::Page(page) })))
        .filter(|explained| explained.to_string().contains("stop-list"))
        .map(|explained| explained["summary"].to_string())
        .collect();
    assert!(!summaries.is_empty(), "some URL of it says why it waits");
    let removed = world.ask(&["stop", "remove", &host, "-o", "crawl"]);
    assert!(removed.status.success());
    assert_eq!(
        world.ask(&["stop", "remove", &host, "-o", "crawl"]).status.code(),
        Some(1),
        "it is gone already"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn rob_29_words_about_use_stand_beside_every_capture() {
    let web = nephila_testweb::hostile::Hostile::start(Default::default()).await.expect("the web starts");
    let dir = tempfile::tempdir().unwrap();
    let sets = [
        format!("spider.dns_servers=[\"{}\"]", web.dns_addr()),
        "spider.allow_addresses=[\"127.80.0.0/12\"]".to_owned(),
        format!("spider.ports=[{}]", web.port()),
    ];
    // The second process reads no robots.txt: the stored file is in force, with its usage signals.
    for path in ["/usage", "/page"] {
        let folder = dir.path().join("crawl");
        let mut command = Command::new(PROGRAM);
        command.args(["crawl", "--quiet", "--scope", "page", "-o"]).arg(&folder).arg(web.url("good", path));
        sets.iter().for_each(|set| _ = command.args(["--set", set]));
        let ended =
            command.env("HOME", dir.path()).env("NEPHILA_CONFIG", "/dev/null").stdin(Stdio::null()).output();
        let ended = ended.unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    }
    assert_eq!(web.requests("good").iter().filter(|seen| seen.path == "/robots.txt").count(), 1);
    let mut text = Vec::new();
    for entry in std::fs::read_dir(dir.path().join("crawl/archive")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "gz") {
            let bytes = std::fs::read(path).unwrap();
            std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(&bytes[..]), &mut text)
                .unwrap();
        }
    }
    let text = String::from_utf8_lossy(&text);
    assert_eq!(text.matches("usage: robots.txt content-signal: ai-train=no\r\n").count(), 2, "{text}");
    assert_eq!(text.matches("usage: page content-usage: train-ai=n\r\n").count(), 1);
    assert_eq!(text.matches("usage: page tdm-reservation: 1\r\n").count(), 1);
}
