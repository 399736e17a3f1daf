//! Cases of the hostile catalogue that only a whole crawl shows: a site of a few lines, and its requests.
//!
//! The site is on loopback and records every request. A crawl that does not end by itself is ended by its time limit,
//! so a case shows the requests, never how long we were willing to go on.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Maximum size in bytes of a request line and its fields together.
const HEAD_BYTES_MAX: u64 = 64 * 1024;
/// Read timeout of a client that sends nothing.
const READ_MAX: Duration = Duration::from_secs(5);

/// The site's answer to a path.
struct Answer {
    status: &'static str,
    fields: String,
    body: String,
    /// Rest after each byte of the body.
    pace: Option<Duration>,
}

impl Answer {
    fn html(body: impl Into<String>) -> Answer {
        Answer {
            status: "200 OK",
            fields: "Content-Type: text/html\r\n".into(),
            body: body.into(),
            pace: None,
        }
    }

    fn text(body: impl Into<String>) -> Answer {
        Answer { fields: "Content-Type: text/plain\r\n".into(), ..Answer::html(body) }
    }

    fn xml(body: impl Into<String>) -> Answer {
        Answer { fields: "Content-Type: application/xml\r\n".into(), ..Answer::html(body) }
    }

    fn redirect(target: &str) -> Answer {
        Answer { status: "302 Found", fields: format!("Location: {target}\r\n"), ..Answer::html("") }
    }

    fn error(status: &'static str) -> Answer {
        Answer { status, ..Answer::html("no") }
    }
}

/// One request: its path, and its User-Agent.
type Asked = (String, String);

struct Site {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    ended: Arc<AtomicBool>,
    dir: tempfile::TempDir,
}

impl Site {
    fn start(answer: impl Fn(&str, u16) -> Answer + Send + Sync + 'static) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (asked, ended) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let site =
            Site { port, asked: asked.clone(), ended: ended.clone(), dir: tempfile::tempdir().unwrap() };
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                let (answer, asked) = (answer.clone(), asked.clone());
                // A client that goes away in the middle is no trouble of ours.
                std::thread::spawn(move || drop(serve(stream, port, &*answer, &asked)));
            }
        });
        site
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn crawl(&self, more: &[&str]) -> Output {
        let mut command = Command::new(PROGRAM);
        command
            .args(["crawl", &self.url("/"), "-o", "crawl", "-q", "--config", "/dev/null", "--scope", "host"])
            .args([
                "--delay",
                "1ms",
                "--set",
                "frontier.slot_delay=0s",
                "--set",
                "frontier.host_delay_factor=0",
            ])
            .args(["--set", "spider.total_timeout=1500ms"])
            .args(if more.contains(&"--time-limit") { &[][..] } else { &["--time-limit", "20s"] })
            .args(more)
            .current_dir(self.dir.path())
            .env("HOME", self.dir.path())
            .stdin(Stdio::null());
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NEPHILA_CONFIG"] {
            command.env_remove(name);
        }
        command.output().expect("the command runs")
    }

    fn paths(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }

    fn count(&self, prefix: &str) -> usize {
        self.paths().iter().filter(|path| path.starts_with(prefix)).count()
    }

    /// The log of the crawl.
    fn log(&self) -> String {
        let log = self.dir.path().join("crawl/logs/outcomes-00000001.jsonl");
        std::fs::read_to_string(log).expect("the crawl has a log")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for a client.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn serve(
    stream: TcpStream,
    port: u16,
    answer: &dyn Fn(&str, u16) -> Answer,
    asked: &Mutex<Vec<Asked>>,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(READ_MAX))?;
    let mut reader = BufReader::new(stream.try_clone()?.take(HEAD_BYTES_MAX));
    let (mut line, mut path, mut agent) = (String::new(), String::new(), String::new());
    while reader.read_line(&mut line)? > 2 {
        if let Some(rest) = line.strip_prefix("GET ") {
            path = rest.split(' ').next().unwrap_or_default().to_owned();
        } else if line.to_ascii_lowercase().starts_with("user-agent:") {
            agent = line[11..].trim().to_owned();
        }
        line.clear();
    }
    if path.is_empty() {
        return Ok(());
    }
    asked.lock().unwrap().push((path.clone(), agent));
    let Answer { status, fields, body, pace } = answer(&path, port);
    let mut stream = stream;
    let length = body.len();
    write!(stream, "HTTP/1.1 {status}\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n")?;
    match pace {
        None => stream.write_all(body.as_bytes()),
        Some(pace) => body.as_bytes().iter().try_for_each(|byte| {
            std::thread::sleep(pace);
            stream.write_all(&[*byte])
        }),
    }
}

fn urlset(urls: impl IntoIterator<Item = String>) -> String {
    let entries: String = urls.into_iter().map(|url| format!("<url><loc>{url}</loc></url>")).collect();
    format!("<?xml version=\"1.0\"?><urlset>{entries}</urlset>")
}

#[test]
fn smp_10_so_many_sitemaps_of_one_robots_txt_are_read_and_no_more() {
    let site = Site::start(|path, _| match path {
        // Relative ones, which stand for their own host.
        "/robots.txt" => {
            Answer::text((0..1_000).map(|n| format!("Sitemap: /map/{n}.xml\n")).collect::<String>())
        }
        "/" => Answer::html("<a href=/1>1</a>"),
        _ if path.starts_with("/map/") => Answer::xml(urlset([])),
        _ => Answer::html("page"),
    });
    let output = site.crawl(&[]);
    assert!(output.status.success(), "{output:?}");
    let maps: BTreeSet<String> = site.paths().into_iter().filter(|path| path.starts_with("/map/")).collect();
    assert_eq!((maps.len(), site.count("/map/")), (100, 100), "each once");
    assert_eq!(site.count("/1"), 1);
}

#[test]
fn smp_11_what_a_sitemap_lists_is_subject_to_robots_txt_and_scope() {
    let site = Site::start(|path, port| match path {
        "/robots.txt" => Answer::text("User-agent: *\nDisallow: /private\nSitemap: /map.xml\n"),
        "/map.xml" => Answer::xml(urlset(
            ["/private/1", "/open/1", "/left-out/1"].map(|path| format!("http://127.0.0.1:{port}{path}")),
        )),
        _ => Answer::html("page"),
    });
    let output = site.crawl(&["--exclude", "/left-out"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((site.count("/open"), site.count("/private"), site.count("/left-out")), (1, 0, 0));
    let explain = |path: &str| {
        let args = ["explain", "--json", "-o", "crawl", &site.url(path)];
        let output = Command::new(PROGRAM).args(args).current_dir(site.dir.path()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(explain("/private/1").contains("robots"), "{}", explain("/private/1"));
    assert!(explain("/left-out/1").contains("exclude"), "{}", explain("/left-out/1"));
}

#[test]
fn trp_14_a_maze_of_redirects_ends_though_each_hop_waits_in_the_queue() {
    let site = Site::start(|path, _| match path {
        "/robots.txt" => Answer::error("404 Not Found"),
        "/" => Answer::html("<a href=/maze/0>in</a> <a href=/fine>fine</a>"),
        "/fine" => Answer::html("page"),
        _ => {
            let n: u64 = path.rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            Answer::redirect(&format!("/maze/{}", n + 1))
        }
    });
    let output = site.crawl(&["--set", "spider.redirects_max=5"]);
    assert_eq!(output.status.code(), Some(23), "the end of the maze is tried again later: {output:?}");
    assert_eq!(site.count("/maze/"), 6, "the link and five redirects: {:?}", site.paths());
    assert_eq!(site.count("/fine"), 1);
    assert!(site.log().contains("redirect-limit"), "{}", site.log());
}

#[test]
fn trp_15_a_maze_of_sitemaps_ends_at_the_depth_of_the_crawl() {
    let site = Site::start(|path, port| match path {
        "/robots.txt" => Answer::text("Sitemap: /index/0\n"),
        _ if path.starts_with("/index/") => {
            let n: u64 = path.rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(0);
            let next = (1..4).map(|k| {
                format!("<sitemap><loc>http://127.0.0.1:{port}/index/{}</loc></sitemap>", 4 * n + k)
            });
            Answer::xml(format!("<sitemapindex>{}</sitemapindex>", next.collect::<String>()))
        }
        _ => Answer::html("page"),
    });
    let output = site.crawl(&["--depth", "3"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(site.count("/index/"), 1 + 3 + 9 + 27);
}

#[test]
fn rob_09_a_robots_txt_that_never_ends_keeps_us_out() {
    let site = Site::start(|path, _| match path {
        "/robots.txt" => Answer {
            pace: Some(Duration::from_millis(50)),
            ..Answer::text("User-agent: *\nAllow: /\n".repeat(1_000))
        },
        _ => Answer::html("page"),
    });
    let output = site.crawl(&["--time-limit", "5s"]);
    assert!(output.status.code().is_some(), "{output:?}");
    assert!(site.count("/robots.txt") >= 1);
    assert!(site.paths().iter().all(|path| path == "/robots.txt"), "{:?}", site.paths());
}

#[test]
fn rob_28_nofollow_said_to_us_by_name_in_head_or_page_is_obeyed() {
    let site = Site::start(|path, _| match path {
        "/robots.txt" => Answer::error("404 Not Found"),
        "/" => Answer::html("<a href=/head>1</a><a href=/meta>2</a><a href=/other>3</a>"),
        "/head" => Answer {
            fields: "Content-Type: text/html\r\nX-Robots-Tag: nephila: noindex, nofollow\r\n".into(),
            ..Answer::html("<a href=/behind-head>x</a>")
        },
        "/meta" => Answer::html("<meta name=nephila content=nofollow><a href=/behind-meta>x</a>"),
        "/other" => Answer::html("<meta name=otherbot content=nofollow><a href=/behind-other>x</a>"),
        _ => Answer::html("page"),
    });
    let output = site.crawl(&[]);
    assert!(output.status.success(), "{output:?}");
    let behind: Vec<String> = site.paths().into_iter().filter(|path| path.starts_with("/behind")).collect();
    assert_eq!(behind, ["/behind-other"]);
}

#[test]
fn rob_32_who_is_turned_away_does_not_come_back_in_disguise() {
    let site = Site::start(|path, _| match path {
        "/robots.txt" => Answer::text("User-agent: *\nAllow: /\n"),
        "/" => Answer::html((0..10).map(|n| format!("<a href=/{n}>x</a>")).collect::<String>()),
        _ => Answer::error("403 Forbidden"),
    });
    site.crawl(&["--time-limit", "5s"]);
    let asked = site.asked.lock().unwrap();
    assert!(asked.len() >= 3, "{asked:?}");
    let agents: BTreeSet<&str> = asked.iter().map(|(_, agent)| &**agent).collect();
    assert_eq!(agents.len(), 1, "{agents:?}");
    assert!(agents.iter().all(|agent| agent.to_lowercase().contains("nephila")), "{agents:?}");
}
