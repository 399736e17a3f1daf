//! A whole crawl as a new user meets one: begun, interrupted, continued, and queried, on a terminal of its own.

// The crawl's own report of its politeness, and stops.
mod proof;
// The tables of a crawl, and the reports that read them.
mod tables;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nephila_testweb::journal::Request;
use nephila_testweb::model::{Place, Reach, TruthOptions, What};
use nephila_testweb::{RunningWeb, Settings, Web};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Timeout, longer than any of these commands takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Environment variables that would change the behaviour of a run.
const FOREIGN_VARIABLES: &[&str] =
    &["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NEPHILA_CONFIG"];

struct World {
    web: RunningWeb,
    dir: tempfile::TempDir,
}

impl World {
    async fn start(settings: Settings) -> World {
        let web = Web::builder().settings(settings).start().await.expect("the web starts");
        let dir = tempfile::tempdir().expect("a folder");
        std::fs::write(dir.path().join("ca.pem"), web.ca_pem()).expect("the CA is written");
        World { web, dir }
    }

    fn home(&self) -> String {
        self.web.world().url(Place { host: 0, what: What::Page(0) })
    }

    /// Settings under which the test web can be reached.
    fn settings(&self) -> Vec<String> {
        let (http, https) = (self.web.http_port(), self.web.https_port());
        [
            format!("spider.dns_servers=[\"{}\"]", self.web.dns_addr()),
            "spider.allow_addresses=[\"127.0.0.0/8\", \"::1/128\"]".into(),
            format!("spider.ports=[{http}, {https}]"),
            format!("spider.ca_file={}", self.dir.path().join("ca.pem").display()),
            "spider.head_timeout=2s".into(),
            "spider.total_timeout=5s".into(),
            "frontier.host_delay_factor=0".into(),
        ]
        .into_iter()
        .flat_map(|pair| ["--set".to_owned(), pair])
        .collect()
    }

    fn ask(&self, args: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.dir.path()).stdin(Stdio::null()).env("HOME", self.dir.path());
        for name in FOREIGN_VARIABLES {
            command.env_remove(name);
        }
        command.output().expect("the command runs")
    }

    fn explain(&self, url: &str) -> Value {
        let output = self.ask(&["explain", "--json", "-o", "crawl", url]);
        let text = String::from_utf8_lossy(&output.stdout);
        let line =
            text.lines().next().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }
}

/// A command that is killed, by its own handle, if a test fails.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A command on a terminal of its own, made by `script`.
struct OnTerminal {
    child: std::process::Child,
}

impl OnTerminal {
    fn start(dir: &Path, args: &[String]) -> OnTerminal {
        let quoted: Vec<String> = args.iter().map(|arg| format!("'{arg}'")).collect();
        let line = format!("stty cols 160; exec '{PROGRAM}' {}", quoted.join(" "));
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--return", "--command", &line, "/dev/null"])
            .current_dir(dir)
            .env("HOME", dir)
            .env_remove("XDG_CONFIG_HOME")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in FOREIGN_VARIABLES {
            command.env_remove(name);
        }
        OnTerminal { child: command.spawn().expect("script (bsdutils) is installed") }
    }

    /// Sends the signal of Ctrl-C to the program on the terminal.
    fn interrupt(&self) {
        let children =
            Command::new("pgrep").args(["-P", &self.child.id().to_string()]).output().expect("pgrep");
        let text = String::from_utf8_lossy(&children.stdout).into_owned();
        let id = text.lines().next().expect("the program runs");
        assert!(Command::new("kill").args(["-INT", id]).status().expect("kill").success());
    }

    fn end(self) -> (i32, String) {
        let output = self.child.wait_with_output().expect("it ends");
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_user_crawls_stops_goes_on_and_asks() {
    let settings = Settings { hosts: 6, pages: 400, page_bytes: 3_000, threads: 1, ..Settings::mixed() };
    let settings = Settings { dead_share: 0.0, tarpit_share: 0.0, error_share: 0.15, ..settings };
    let world = World::start(settings).await;
    let crawl: Vec<String> = ["crawl", &world.home(), "-o", "crawl", "--scope", "domain", "--delay", "30ms"]
        .into_iter()
        .map(str::to_owned)
        .chain(world.settings())
        .chain(["--set".into(), "budget.domain_urls=120".into()])
        .chain(["--set".into(), "budget.domain_urls_per_day=0".into()])
        // Some pages of this web answer 503, and a robots.txt may do so for good: the waits are shortened here.
        .chain(["--set".into(), "retry.host_rest_first=100ms".into(), "--wait-max".into(), "5s".into()])
        .collect();

    let first = OnTerminal::start(world.dir.path(), &crawl);
    let began = Instant::now();
    let log = world.dir.path().join("crawl/logs/outcomes-00000001.jsonl");
    while std::fs::read_to_string(&log).map_or(0, |text| text.lines().count()) < 25 {
        assert!(began.elapsed() < PATIENCE, "25 requests");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A running crawl answers questions about itself.
    let home = world.explain(&world.home());
    assert_eq!(home["summary"], "fetched", "{home}");
    first.interrupt();
    let (code, screen) = first.end();
    assert_eq!(code, 11, "{screen}");
    assert!(screen.contains("finishing") && screen.contains("goes on"), "{screen}");
    assert!(screen.contains("queued") && screen.contains("pages/s"), "a line of progress: {screen}");

    let truth = world.web.world().truth(&TruthOptions { places_max: 2_000, ..TruthOptions::default() });
    let mut kinds: BTreeMap<&str, String> = BTreeMap::new();
    let model = world.web.world();
    let of_home = |place: &Place| place.host < model.settings().hosts_per_domain;
    let mut places: Vec<(Place, Reach)> = truth.iter().collect();
    places.sort();
    // Some of the discovered URLs wait in a queue.
    for (place, _) in places.iter().filter(|(place, _)| of_home(place)) {
        let said = world.explain(&model.url(*place));
        if said["summary"] == "queued" {
            kinds.insert("queued", said["because"].to_string());
            break;
        }
    }

    let (code, screen) = OnTerminal::start(world.dir.path(), &crawl).end();
    assert!([0, 23, 24].contains(&code), "nothing is left but what failed: {code}: {screen}");
    assert!(screen.contains("pages in") && screen.contains("nephila report summary"), "{screen}");

    for (place, reach) in &places {
        let url = model.url(*place);
        let kind = match reach {
            Reach::Page => "fetched",
            Reach::Redirect => "redirected",
            Reach::Error(_) => "failed",
            Reach::Disallowed => "robots",
            _ => continue,
        };
        let wanted = if of_home(place) { kind } else { "out of scope" };
        if kinds.contains_key(wanted) && kinds.contains_key("parked") {
            continue;
        }
        let said = world.explain(&url);
        let summary = said["summary"].as_str().unwrap_or_default().replace('-', " ");
        if summary == wanted || summary == "parked" {
            let summary = if summary == "parked" { "parked" } else { wanted };
            kinds.insert(summary, said["because"].to_string());
        }
    }
    kinds.insert(
        "unknown",
        world.explain(&format!("{}nobody/links/here", world.home()))["because"].to_string(),
    );
    let all: Vec<_> = kinds.keys().copied().collect();
    let wanted = ["failed", "fetched", "out of scope", "parked", "queued", "redirected", "robots", "unknown"];
    assert_eq!(all, wanted, "{kinds:#?}");
    assert!(kinds.values().all(|because| because.len() > 4), "{kinds:#?}");

    let read = world.ask(&["read", "-o", "crawl", &world.home()]);
    assert!(read.status.success() && read.stdout.starts_with(b"<!"), "the home page");
    let report = world.ask(&["report", "summary", "-o", "crawl"]);
    // Sitemaps and feeds are no pages: they are counted beside them.
    let said = String::from_utf8_lossy(&report.stdout);
    assert!(said.contains(" pages, ") && said.contains(" sitemaps and feeds from "), "{report:?}");
    let verify = world.ask(&["verify", "crawl"]);
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));
    let polite = world.ask(&["politeness", "report", "-o", "crawl"]);
    assert!(polite.status.success(), "{}", String::from_utf8_lossy(&polite.stdout));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_end_a_crawl_with_their_own_codes_and_the_same_command_goes_on() {
    let world =
        World::start(Settings { hosts: 3, pages: 120, page_bytes: 2_000, threads: 1, ..Settings::default() })
            .await;
    let run = |more: &[&str]| {
        let settings = world.settings();
        let home = world.home();
        let mut args: Vec<&str> =
            vec!["crawl", &home, "-o", "crawl", "--scope", "any", "--delay", "1ms", "-q"];
        args.extend(settings.iter().map(String::as_str));
        args.extend(more);
        let output = world.ask(&args);
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let stored = || {
        let index = std::fs::read_to_string(world.dir.path().join("crawl/indexes/index.cdxj")).unwrap();
        index.lines().filter(|line| !line.contains("robots.txt")).count()
    };
    assert_eq!(run(&["--limit", "10"]), (Some(20), String::new()));
    assert_eq!(stored(), 10, "not one page more");
    assert_eq!(run(&["--limit", "0", "--size-limit", "1"]).0, Some(14));
    assert_eq!(run(&["--size-limit", "0", "--time-limit", "1ms"]).0, Some(15));
    assert_eq!(run(&["--time-limit", "0s"]), (Some(0), String::new()));
    assert_eq!(stored(), 120);
    let (code, said) = run(&["--set", "no.such=thing"]);
    assert_eq!(code, Some(2), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_crawled_by_one_process_and_a_public_site_wants_a_contact() {
    let world = World::start(Settings { hosts: 2, pages: 50, threads: 1, ..Settings::default() }).await;
    let said = world.ask(&["crawl", "https://example.org/", "-o", "public"]);
    assert_eq!(said.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&said.stderr).contains("--contact"));
    let home = world.home();
    let mut args = vec!["crawl".to_owned(), home, "-o".into(), "crawl".into(), "--delay".into(), "1s".into()];
    args.extend(world.settings());
    let mut first = Command::new(PROGRAM)
        .args(&args)
        .current_dir(world.dir.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let began = Instant::now();
    while !world.dir.path().join("crawl/state/control").exists() {
        assert!(began.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(20));
    }
    let second = world.ask(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(second.status.code(), Some(19), "{}", String::from_utf8_lossy(&second.stderr));
    first.kill().expect("it runs");
    first.wait().expect("it ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_says_which_rule_decides_and_fetches_seeds_and_sitemaps_only() {
    let settings = Settings { hosts: 4, pages: 200, sitemap_share: 1.0, threads: 1, ..Settings::default() };
    let world = World::start(settings).await;
    let home = world.home();
    let mut args = vec!["map", &home, "--scope", "host", "--exclude", "/p/7", "--json", "--delay", "1ms"];
    let more = world.settings();
    args.extend(more.iter().map(String::as_str));
    let output = world.ask(&args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let with = |verdict: &str, rule: &str| {
        lines
            .iter()
            .filter(|line| line["verdict"] == verdict && line["rule"].as_str().unwrap().contains(rule))
            .count()
    };
    assert!(with("in", "scope=host") > 10 && with("out", "exclude /p/7") > 0, "{lines:#?}");
    assert_eq!(lines.iter().filter(|line| line["via"] == "seed").count(), 1);
    let log = world.web.stop().await;
    assert!(log.requests.iter().all(|request| !request.path.starts_with("/p/")), "no page but the seed");
}

#[tokio::test(flavor = "multi_thread")]
async fn sto_24_a_crawl_that_is_killed_three_times_fetches_every_page() {
    const KILLS: usize = 3;
    const HOSTS: usize = 3;
    /// Of each host one page is being fetched, and two may be stored and not yet reported.
    const UNSURE_MAX: usize = 3;
    let settings =
        Settings { hosts: HOSTS as u32, pages: 150, page_bytes: 1_000, threads: 1, ..Settings::default() };
    let world = World::start(settings).await;
    let home = world.home();
    let mut args: Vec<String> =
        ["crawl", &home, "-o", "crawl", "--scope", "any", "--delay", "40ms", "-q"].map(str::to_owned).into();
    args.extend(world.settings());
    let lines = || -> usize {
        let Ok(files) = std::fs::read_dir(world.dir.path().join("crawl/logs")) else { return 0 };
        let texts = files.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
        texts.map(|text| text.lines().count()).sum()
    };
    for kill in 0..KILLS {
        let (before, began) = (lines(), Instant::now());
        let mut child = Command::new(PROGRAM)
            .args(&args)
            .current_dir(world.dir.path())
            .env("HOME", world.dir.path())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        while lines() < before + 20 {
            assert!(began.elapsed() < PATIENCE, "20 requests after kill {kill}");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }
    let last = world.ask(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(last.status.code(), Some(0), "{}", String::from_utf8_lossy(&last.stderr));
    let verify = world.ask(&["verify", "crawl"]);
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));
    let log = world.web.stop().await;
    let mut pages: BTreeMap<(String, String), usize> = BTreeMap::new();
    for request in log.requests.iter().filter(|request| request.path != "/robots.txt") {
        *pages.entry((request.host.to_string(), request.path.clone())).or_default() += 1;
    }
    assert_eq!(pages.len(), 150, "every page, and nothing else");
    let again = pages.values().sum::<usize>() - pages.len();
    assert!(again <= KILLS * HOSTS * UNSURE_MAX, "{again} fetched again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_asked_for_again_is_sent_only_if_it_changed() {
    const PAGES: usize = 20;
    let settings =
        Settings { hosts: 1, pages: PAGES as u64, page_bytes: 2_000, threads: 1, ..Settings::default() };
    let world = World::start(Settings { change_share: 0.4, ..settings }).await;
    let home = world.home();
    let child = Command::new(PROGRAM)
        .args(["crawl", &home, "-o", "crawl", "--scope", "any", "--delay", "1ms", "-q"])
        .args(world.settings())
        .args(["--set", "crawl.again_every=2s"])
        .current_dir(world.dir.path())
        .env("HOME", world.dir.path())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut child = Running(child);
    // Requests by page, until all pages were requested that often since the last look.
    let mut asked_again = |times: usize| {
        let (began, mut pages) = (Instant::now(), BTreeMap::<String, Vec<Request>>::new());
        while pages.len() < PAGES || pages.values().any(|requests| requests.len() < times) {
            let in_time = began.elapsed() < PATIENCE && child.0.try_wait().expect("a child").is_none();
            assert!(in_time, "{} of {PAGES} pages {times} times", pages.len());
            std::thread::sleep(Duration::from_millis(50));
            for request in world.web.journal().take().requests {
                if request.path != "/robots.txt" {
                    pages.entry(request.path.clone()).or_default().push(request);
                }
            }
        }
        pages
    };
    for requests in asked_again(2).values() {
        assert!(requests[0].condition.is_none() && requests[0].status == 200, "{requests:?}");
        let same =
            |request: &Request| request.condition.is_some() && (request.status, request.bytes) == (304, 0);
        assert!(requests[1..].iter().all(same), "{requests:?}");
    }
    world.web.advance(Duration::from_secs(86_400 * 90));
    // The first may have come before that.
    let later = asked_again(3);
    assert!(later.values().flatten().all(|request| request.condition.is_some()));
    let changed = later.values().filter(|all| all.iter().any(|request| request.status == 200)).count();
    assert!(changed > 0 && changed < PAGES, "{changed} changed");
    assert!(later.values().all(|all| all.iter().filter(|request| request.status == 200).count() <= 1));

    let id = child.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().expect("kill").success());
    assert_eq!(child.0.wait().expect("it ends").code(), Some(11));
    let index = std::fs::read_to_string(world.dir.path().join("crawl/indexes/index.cdxj")).unwrap();
    let revisits = index.lines().filter(|line| line.contains("warc/revisit")).count();
    let pages = index.lines().filter(|line| !line.contains("robots.txt")).count() - revisits;
    assert!(revisits >= PAGES, "{revisits} revisits");
    assert_eq!(pages, PAGES + changed, "what did not change is stored once");
    let verify = world.ask(&["verify", "crawl"]);
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));
    // A page that did not change can still be read.
    let (path, _) = later.iter().find(|(_, all)| all.iter().all(|request| request.status == 304)).unwrap();
    let url = home.trim_end_matches('/').to_owned() + path;
    let read = world.ask(&["read", "-o", "crawl", &url]);
    assert!(read.status.success() && read.stdout.starts_with(b"<!"), "{read:?}");
}
