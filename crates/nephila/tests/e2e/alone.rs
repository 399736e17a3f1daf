//! `nephila serve` without a cluster: one machine, one folder, no other server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::site::{PAGES, PATIENCE, PROGRAM, Site};

/// Ends its process with the test.
pub(crate) struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).current_dir(dir).env("HOME", dir).env("NEPHILA_CONFIG", "/dev/null");
    command.stdin(Stdio::null());
    command
}

pub(crate) fn run(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().expect("it runs")
}

pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

impl Served {
    /// Serves the folder, on a port of its own, and reads the address from the output.
    pub(crate) fn start(dir: &Path) -> Served {
        // Another test may have the usual port.
        Served::spawn(dir, &["serve", "-o", "data", "--set", "api.listen=127.0.0.1:0"])
    }

    /// Starts a command that answers, and reads the address from the output.
    pub(crate) fn spawn(dir: &Path, args: &[&str]) -> Served {
        Served::spawn_with(dir, args, "is answered for at http://")
    }

    /// The same for a command that says its address after other words.
    pub(crate) fn spawn_with(dir: &Path, args: &[&str], words: &'static str) -> Served {
        let mut command = command(dir, args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let said = BufReader::new(child.stderr.take().expect("it is piped"));
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if let Some((_, address)) = line.split_once(words) {
                    let address = address.split('/').next().unwrap_or_default();
                    tell.send(address.to_owned()).ok();
                }
            }
        });
        let address = told.recv_timeout(PATIENCE).expect("it says where it answers");
        Served { child, address }
    }

    /// Where it answers.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The status of an answer, and its body.
    pub(crate) fn ask(&self, method: &str, target: &str, body: &str) -> (u16, String) {
        let (head, body) = self.reply(method, target, body);
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body)
    }

    /// The head of an answer, and its body.
    pub(crate) fn reply(&self, method: &str, target: &str, body: &str) -> (String, String) {
        let mut stream = TcpStream::connect(&*self.address).expect("it answers");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    }

    pub(crate) fn wait(&self, what: &str, is_so: impl Fn(&Served) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(began.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    pub(crate) fn end(&mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

#[test]
fn row_11_serve_alone_goes_on_with_its_folder_and_answers() {
    let (site, dir) = (Site::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let home = format!("http://127.0.0.1:{}/p0", site.port);
    // No rest between two pages: the site is our own, and eight pages would take eight seconds.
    let crawled = run(dir, &["crawl", &home, "-o", "data", "--delay", "0s", "--limit", "2", "-q"]);
    assert_eq!(crawled.status.code(), Some(20), "{}", text(&crawled));

    // The limit ends the fetching; the node still answers for its captures, and no process ends.
    let mut served = Served::start(dir);
    let page = |number: usize| format!("/api/v1/pages?as=body&url=http://127.0.0.1:{}/p{number}", site.port);
    let (status, body) = served.ask("GET", &page(0), "");
    assert!(status == 200 && body.contains("<title>127.0.0.1"), "{status} {body}");
    assert_eq!(served.ask("GET", "/livez", "").0, 200);
    let (status, body) = served.ask("GET", &format!("/api/v1/pages?url={home}/elsewhere/"), "");
    assert!([404, 503].contains(&status), "{status} {body}");
    let (status, body) = served.ask("GET", "/api/v1/stats", "");
    assert!(status == 200 && body.contains("urls_waiting"), "{status} {body}");
    let (status, body) = served.ask("GET", "/metrics", "");
    assert!(status == 200 && body.contains("\nnephila_frontier_urls{state=\"queued\"} "), "{status} {body}");
    assert_eq!(served.end(), Some(11), "a signal ends it as it ends a crawl");

    // A crawl of the folder may end. Served again, the folder is ready, and accepts more URLs.
    let all = run(dir, &["crawl", "-o", "data", "--delay", "0s", "--limit", "0", "-q"]);
    assert_eq!(all.status.code(), Some(0), "{}", text(&all));
    let mut served = Served::start(dir);
    served.wait("it is ready", |served| served.ask("GET", "/readyz", "").1.contains("ready"));
    for number in 0..PAGES {
        assert_eq!(served.ask("GET", &page(number), "").0, 200, "page {number}");
    }
    let asked = site.asked().values().sum::<usize>();
    let (status, said) =
        served.ask("POST", "/api/v1/urls", &format!("http://127.0.0.1:{}/pnew\n", site.port));
    assert!(status == 200 && said.contains("\"taken\":1"), "{status} {said}");
    let new = format!("/api/v1/pages?as=body&url=http://127.0.0.1:{}/pnew", site.port);
    served.wait("it is fetched", |served| served.ask("GET", &new, "").0 == 200);
    assert!(site.asked().values().sum::<usize>() > asked);
    // The counters of this process: one page with links to all others, which are known.
    let (_, metrics) = served.ask("GET", "/metrics", "");
    for line in [
        "nephila_spider_fetches_total{outcome=\"2xx\"} 1".to_owned(),
        "nephila_spider_fetch_duration_seconds_count{phase=\"total\"} 1".to_owned(),
        "nephila_store_records_total{type=\"response\"} 1".to_owned(),
        format!("nephila_handler_discoveries_total{{kind=\"link\"}} {PAGES}"),
    ] {
        assert!(metrics.lines().any(|said| said == line), "{line} in\n{metrics}");
    }
    // Commands that know only the folder speak to the same process.
    let explained = run(dir, &["explain", &home, "-o", "data"]);
    assert!(text(&explained).contains("fetched"), "{}", text(&explained));
    assert_eq!(served.end(), Some(11));
}

#[test]
fn row_11_a_signal_right_after_the_address_ends_the_process_in_order() {
    let (site, dir) = (Site::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let home = format!("http://127.0.0.1:{}/p0", site.port);
    let crawled = run(dir, &["crawl", &home, "-o", "data", "--delay", "0s", "--limit", "1", "-q"]);
    assert_eq!(crawled.status.code(), Some(20), "{}", text(&crawled));
    for _ in 0..10 {
        assert_eq!(Served::start(dir).end(), Some(11), "no signal finds the process without a handler");
    }
}

#[test]
fn row_11_a_folder_without_a_crawl_and_one_of_a_node_are_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let empty = run(dir, &["serve", "-o", "data"]);
    assert_eq!(empty.status.code(), Some(2), "{}", text(&empty));
    assert!(
        text(&empty).contains("holds no crawl: begin one with `nephila crawl URL -o"),
        "{}",
        text(&empty)
    );
    std::fs::create_dir_all(dir.join("data")).unwrap();
    std::fs::write(dir.join("data/node.json"), "{\"cluster\": \"nephila\", \"node\": \"one\"}\n").unwrap();
    let node = run(dir, &["serve", "-o", "data"]);
    assert_eq!(node.status.code(), Some(2), "{}", text(&node));
    assert!(text(&node).contains("the folder of a node: name the NATS servers"), "{}", text(&node));
}

#[test]
fn ops_04_a_crawl_that_listens_answers_with_its_metrics_and_ends_as_usual() {
    let (site, dir) = (Site::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let home = format!("http://127.0.0.1:{}/p0", site.port);
    // The site answers robots.txt and three pages, and then no more.
    site.left.store(4, Ordering::SeqCst);
    let args = ["crawl", &home, "-o", "data", "--delay", "0s", "--listen", "127.0.0.1:0"];
    // The request without an answer does not delay the end.
    let args = [&args[..], &["--set", "crawl.drain_timeout=1s"]].concat();
    let mut served = Served::spawn(dir, &args);
    let has = |served: &Served, lines: &[&str]| {
        let (status, metrics) = served.ask("GET", "/metrics", "");
        assert_eq!(status, 200, "{metrics}");
        lines.iter().all(|line| metrics.lines().any(|said| said == *line))
    };
    let pages = [
        "nephila_spider_fetches_total{outcome=\"2xx\"} 3",
        "nephila_spider_fetch_duration_seconds_count{phase=\"total\"} 3",
        "nephila_robots_fetches_total{result=\"missing\"} 1",
        // With the robots.txt.
        "nephila_store_records_total{type=\"response\"} 4",
        "nephila_stage_queue_length{stage=\"fetch\"} 1",
        "nephila_frontier_hosts{state=\"busy\"} 1",
        "nephila_frontier_slots{state=\"busy\"} 1",
    ];
    served.wait("three pages are counted", |served| has(served, &pages));
    let (status, said) = served.ask("GET", &format!("/api/v1/pages?as=body&url={home}"), "");
    assert!(status == 200 && said.contains("<title>127.0.0.1"), "{status} {said}");
    assert_eq!(served.end(), Some(11), "a signal ends the crawl");

    // Nothing of the flag is kept: the next run answers nowhere, and ends when nothing is left.
    site.left.store(usize::MAX, Ordering::SeqCst);
    let rest = run(dir, &["crawl", "-o", "data", "--delay", "0s"]);
    assert!(rest.status.success() && !text(&rest).contains("is answered for at"), "{}", text(&rest));
    let elsewhere = run(dir, &["crawl", "-o", "data", "--listen", "0.0.0.0:0"]);
    assert_eq!(elsewhere.status.code(), Some(2), "{}", text(&elsewhere));
    assert!(text(&elsewhere).contains("needs a token"), "{}", text(&elsewhere));
}

#[test]
fn ops_05_messages_are_json_lines_if_the_settings_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let said = run(dir.path(), &["serve", "-o", "data", "--set", "log.format=json"]);
    assert_eq!(said.status.code(), Some(2), "{}", text(&said));
    let line: serde_json::Value = serde_json::from_slice(&said.stderr).expect("one line of JSON");
    assert_eq!((&line["level"], &line["target"]), (&"error".into(), &"nephila".into()), "{line}");
    assert!(line["message"].as_str().is_some_and(|text| text.contains("holds no crawl")), "{line}");
    assert!(line["time"].as_str().is_some_and(|time| time.starts_with("20")), "{line}");
}
