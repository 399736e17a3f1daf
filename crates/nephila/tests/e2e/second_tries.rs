//! Requests that a server reads and drops, or answers with "ask another way": each is retried once, and every request
//! keeps the promised rest. And connections: never more at once than promised. At the settings we ship.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Read timeout of a client that sends nothing.
const READ_MAX: Duration = Duration::from_secs(10);
/// The default rest of a host between two requests (crawl delay).
const REST: Duration = Duration::from_secs(2);
/// Maximum delay between the start of a request here and its arrival there, on a busy machine.
const SLACK: Duration = Duration::from_millis(50);

/// Less than the rest of an address.
const MOMENT: Duration = Duration::from_millis(250);

/// The requests: time of arrival and path.
type Asked = Arc<Mutex<Vec<(Instant, String)>>>;

/// The server's reaction to a request, chosen by path, number on the connection, and number of earlier requests for the
/// path.
#[derive(Clone, Copy)]
enum Does {
    Answer(&'static str),
    Drop,
}

struct Site {
    port: u16,
    asked: Asked,
    /// The maximum number of connections that were open for longer than a moment.
    open_most: Arc<AtomicUsize>,
    dir: tempfile::TempDir,
}

impl Site {
    fn start(does: fn(path: &str, on_connection: usize, before: usize) -> Does) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let asked = Asked::default();
        let dir = tempfile::tempdir().expect("a folder");
        let (open, open_most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let site = Site { port, asked: asked.clone(), open_most: open_most.clone(), dir };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, ends, open, most) =
                    (asked.clone(), open.clone(), open.clone(), open_most.clone());
                ends.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    // A client that goes away in the middle is no trouble of ours.
                    drop(serve(stream, &asked, does));
                    ends.fetch_sub(1, Ordering::SeqCst);
                });
                // One that is on its way out is gone by then, and the next comes only after a rest.
                std::thread::spawn(move || {
                    std::thread::sleep(MOMENT);
                    most.fetch_max(open.load(Ordering::SeqCst), Ordering::SeqCst);
                });
            }
        });
        site
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(args).current_dir(self.dir.path()).env("HOME", self.dir.path()).stdin(Stdio::null());
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NEPHILA_CONFIG"] {
            command.env_remove(name);
        }
        command.output().expect("the command runs")
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The paths in the order of their requests; checks that each gap is as long as promised.
    fn polite_paths(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        for pair in asked.windows(2) {
            let gap = pair[1].0 - pair[0].0;
            assert!(gap + SLACK >= REST, "{} came {gap:?} after {}", pair[1].1, pair[0].1);
        }
        asked.iter().map(|(_, path)| path.clone()).collect()
    }
}

fn serve(stream: TcpStream, asked: &Asked, does: fn(&str, usize, usize) -> Does) -> std::io::Result<()> {
    stream.set_read_timeout(Some(READ_MAX))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    for on_connection in 0.. {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            break;
        }
        let at = Instant::now();
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let before = {
            let mut asked = asked.lock().unwrap();
            let before = asked.iter().filter(|(_, other)| *other == path).count();
            asked.push((at, path.clone()));
            before
        };
        let Does::Answer(status) = does(&path, on_connection, before) else { break };
        let body = if path == "/" { "<html><p>nothing more</html>" } else { "no" };
        let length = body.len();
        write!(
            &stream,
            "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{body}"
        )?;
    }
    Ok(())
}

fn drops_on_kept_connections(path: &str, on_connection: usize, _before: usize) -> Does {
    match (path, on_connection) {
        (_, 1..) => Does::Drop,
        ("/robots.txt", _) => Does::Answer("404 Not Found"),
        _ => Does::Answer("200 OK"),
    }
}

fn misdirects_at_first(path: &str, _on_connection: usize, before: usize) -> Does {
    match (path, before) {
        (_, 0) => Does::Answer("421 Misdirected Request"),
        ("/robots.txt", _) => Does::Answer("404 Not Found"),
        _ => Does::Answer("200 OK"),
    }
}

fn crawl(site: &Site) -> Output {
    let url = site.url("/");
    site.run(&["crawl", &url, "-o", "crawl", "-q", "--config", "/dev/null", "--time-limit", "60s"])
}

#[test]
fn pro_03_a_request_that_was_read_and_dropped_is_made_again_after_the_rest() {
    let site = Site::start(drops_on_kept_connections);
    let crawled = crawl(&site);
    let said = String::from_utf8_lossy(&crawled.stderr).into_owned();
    assert_eq!(site.polite_paths(), ["/robots.txt", "/", "/"], "{said}");
    // Every one of them has its line, and is judged.
    let report = site.run(&["politeness", "report", "-o", "crawl"]);
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(report.starts_with("3 requests, every promise was kept"), "{report}");
}

#[test]
fn pro_03_a_server_that_wants_another_connection_gets_it_after_the_rest() {
    let site = Site::start(misdirects_at_first);
    let crawled = crawl(&site);
    let said = String::from_utf8_lossy(&crawled.stderr).into_owned();
    assert_eq!(site.polite_paths(), ["/robots.txt", "/robots.txt", "/", "/"], "{said}");
}

#[test]
fn pro_03_fetch_rests_before_a_second_try_too() {
    let site = Site::start(drops_on_kept_connections);
    let url = site.url("/");
    let ports = format!("spider.ports=[{}]", site.port);
    let opened = "spider.allow_addresses=[\"127.0.0.0/8\"]";
    let args = ["fetch", "--json", "--config", "/dev/null", "--set", &ports, "--set", opened, &url];
    let fetched = site.run(&args);
    let line = String::from_utf8_lossy(&fetched.stdout).into_owned();
    assert_eq!(site.polite_paths(), ["/robots.txt", "/", "/"], "{line}");
    assert!(line.contains("\"status\":200"), "{line}");
}

fn answers(path: &str, _on_connection: usize, _before: usize) -> Does {
    Does::Answer(if path == "/robots.txt" { "404 Not Found" } else { "200 OK" })
}

#[test]
fn pro_06_names_of_one_address_have_one_connection_together() {
    let site = Site::start(answers);
    let names = ["a.test", "b.test", "c.test", "d.test"];
    let urls: Vec<String> = names.iter().map(|name| format!("http://{name}:{}/", site.port)).collect();
    let fixed: Vec<String> = names.iter().map(|name| format!("\"{name}=127.0.0.1\"")).collect();
    let (fixed, ports) = (fixed.join(", "), format!("spider.ports=[{}]", site.port));
    let fixed = format!("spider.dns_fixed=[{fixed}]");
    let mut args = vec!["crawl"];
    args.extend(urls.iter().map(String::as_str));
    args.extend(["-o", "crawl", "-q", "--config", "/dev/null", "--time-limit", "60s", "--set", &fixed]);
    args.extend(["--set", &ports, "--set", "spider.allow_addresses=[\"127.0.0.0/8\"]"]);
    let crawled = site.run(&args);
    let asked = site.asked.lock().unwrap().len();
    assert_eq!(asked, 8, "{}", String::from_utf8_lossy(&crawled.stderr));
    assert_eq!(site.open_most.load(Ordering::SeqCst), 1, "slot_connections is 1");
}
