//! Whole pages as other programs read them, and reads that wait for the crawl (SEEDS E9, E10).

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::Value;

use super::alone::{Served, run, text};
use super::site::{PAGES, Site};

/// Hosts of the gallery. Each is an address, so that each may be another node's.
pub(crate) const OWNERS: u8 = 12;
/// Images of the gallery's page, of which the last two stand in its style sheet.
pub(crate) const IMAGES: usize = 60;

/// A page with resources on many hosts. No host has a robots.txt.
pub(crate) struct Gallery {
    pub(crate) port: u16,
    /// URL of the page.
    pub(crate) page: String,
    /// Every URL, with its media type and its bytes.
    pub(crate) bodies: Arc<BTreeMap<String, (&'static str, Vec<u8>)>>,
}

impl Gallery {
    pub(crate) fn start() -> Gallery {
        let address = |owner: usize| Ipv4Addr::new(127, 90, 0, 1 + owner as u8);
        let first = TcpListener::bind((address(0), 0)).expect("a port");
        let port = first.local_addr().expect("an address").port();
        let others = (1..usize::from(OWNERS)).map(|owner| TcpListener::bind((address(owner), port)));
        let listeners: Vec<TcpListener> =
            [Ok(first)].into_iter().chain(others).map(|bound| bound.expect("the same port")).collect();
        let url = |owner: usize, path: &str| format!("http://{}:{port}/{path}", address(owner));
        let image = |number: usize| url(number % usize::from(OWNERS), &format!("image-{number}"));
        let mut bodies = BTreeMap::new();
        for number in 0..IMAGES {
            let bytes = (0..1_000 + number * 311).map(|at| (at * at + number) as u8).collect();
            bodies.insert(image(number), ("image/png", bytes));
        }
        let style = format!(
            "a {{ background: url({}) }} b {{ background: url('{}') }}",
            image(IMAGES - 2),
            image(IMAGES - 1)
        );
        bodies.insert(url(2, "style.css"), ("text/css", style.into_bytes()));
        let mut page = format!(
            "<!doctype html><title>Gallery</title><link rel=stylesheet href={}>",
            url(2, "style.css")
        );
        (0..IMAGES - 2).for_each(|number| page.push_str(&format!("<img src={}>", image(number))));
        bodies.insert(url(0, ""), ("text/html", page.into_bytes()));
        let bodies = Arc::new(bodies);
        for listener in listeners {
            let bodies = bodies.clone();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    // A client that hangs up is no fault of the site.
                    _ = answer(stream, &bodies);
                }
            });
        }
        Gallery { port, page: url(0, ""), bodies }
    }

    /// Compares the parts of a page with what the site has.
    pub(crate) fn check(&self, mhtml: &[u8]) {
        let parts = parts(mhtml);
        assert_eq!(parts[0]["url"], *self.page, "the page comes first");
        assert_eq!(parts.len(), self.bodies.len());
        for part in parts {
            let url = part["url"].as_str().expect("a URL");
            let (media_type, body) = &self.bodies[url];
            // A part without bytes says why.
            let said = if part["status"] == "200" { "" } else { part["hex"].as_str().expect("bytes") };
            let said: Vec<u8> = said.as_bytes().chunks(2).map(byte_of_hex).collect();
            let said = format!("{url}: {}", String::from_utf8_lossy(&said));
            assert_eq!((&part["type"], &part["status"]), (&(*media_type).into(), &"200".into()), "{said}");
            let hex: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(part["hex"] == hex, "the bytes of {url} differ");
        }
    }
}

fn byte_of_hex(digits: &[u8]) -> u8 {
    u8::from_str_radix(str::from_utf8(digits).expect("hex"), 16).expect("hex")
}

fn answer(mut stream: TcpStream, bodies: &BTreeMap<String, (&str, Vec<u8>)>) -> std::io::Result<()> {
    let (mut head, mut piece) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            n => head.extend_from_slice(&piece[..n]),
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let url = format!("http://{}{path}", stream.local_addr()?);
    let (status, (media_type, body)) = match bodies.get(&url) {
        Some(found) => ("200 OK", found),
        None => ("404 Not Found", &("text/plain", Vec::new())),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}

/// The parts of an MHTML file, as another program reads them.
fn parts(mhtml: &[u8]) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/read_mhtml.py");
    let mut child = Command::new("python3")
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    child.stdin.take().expect("piped").write_all(mhtml).expect("python reads");
    let out = child.wait_with_output().expect("python ends");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(mhtml));
    let text = String::from_utf8(out.stdout).expect("JSON");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn e10_a_page_with_its_resources_is_one_file_that_another_program_reads() {
    let (gallery, dir) = (Gallery::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    // The addresses of the resources are not typed by a person, and the site is our own: no rests.
    let (ports, reach) =
        (format!("spider.ports=[{}]", gallery.port), "spider.allow_addresses=[\"127.90.0.0/24\"]");
    let sets = ["--set", &ports, "--set", reach, "--delay", "0s", "-q"];
    let crawled =
        run(dir, &[&["crawl", &gallery.page, "-o", "data", "--page-requisites"], &sets[..]].concat());
    assert_eq!(crawled.status.code(), Some(0), "{}", text(&crawled));

    let read = run(dir, &["read", &gallery.page, "--complete", "-o", "data"]);
    assert!(read.status.success() && read.stderr.is_empty(), "{}", text(&read));
    gallery.check(&read.stdout);
    let none = run(dir, &["read", "http://127.90.0.1/else", "--complete", "-o", "data"]);
    assert_eq!(none.status.code(), Some(1), "{}", text(&none));

    // A server gives the same bytes.
    let mut served = Served::start(dir);
    let target = format!("/api/v1/pages?with=resources&url={}", gallery.page);
    let (head, body) = served.reply("GET", &target, "");
    assert!(head.contains("content-type: multipart/related; type=\"text/html\""), "{head}");
    assert!(head.contains("nephila-resources: 61\r\nnephila-missing: 0"), "{head}");
    assert!(body.as_bytes() == read.stdout, "they differ");
    assert_eq!(served.ask("GET", &format!("/api/v1/pages?with=cake&url={}", gallery.page), "").0, 400);
    assert_eq!(served.end(), Some(11));
}

#[test]
fn e9_reads_wait_for_the_crawl_and_again_for_what_is_added() {
    let (site, dir) = (Site::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let url = |name: &str| format!("http://127.0.0.1:{}/{name}", site.port);
    let page = |name: &str| format!("/api/v1/pages?as=body&url={}", url(name));
    // A second between two pages, so that the crawl takes eight; and a crawl that goes on waiting for more.
    let home = url("p0");
    let args = ["crawl", &home, "-o", "data", "--delay", "1s", "--forever", "--listen", "127.0.0.1:0"];
    let mut served = Served::spawn(dir, &[&args[..], &["--set", "api.reads=when-ready"]].concat());
    let must_wait = |served: &Served| {
        for target in ["/readyz?for=reads", &page("p0"), &page("p0").replace("as=body", "with=resources")] {
            let (head, body) = served.reply("GET", target, "");
            assert!(
                head.starts_with("HTTP/1.1 503") && head.contains("\r\nretry-after: 5"),
                "{target}: {head}{body}"
            );
            assert!(body.contains("not ready for reads"), "{target}: {body}");
        }
    };
    let becomes_ready = |served: &Served| {
        served.wait("it is ready", |served| {
            served.ask("GET", "/readyz?for=reads&wait=20s", "") == (200, "\"ready\"".into())
        });
    };
    must_wait(&served);
    assert_eq!(served.ask("GET", "/readyz", ""), (200, "\"crawling\"".into()), "it lives");
    becomes_ready(&served);
    for number in 0..PAGES {
        let (status, body) = served.ask("GET", &page(&format!("p{number}")), "");
        assert!(status == 200 && body.contains("<title>"), "page {number}: {status} {body}");
    }

    let more: String = (0..5).map(|number| url(&format!("pmore{number}\n"))).collect();
    let (status, said) = served.ask("POST", "/api/v1/urls", &more);
    assert!(status == 200 && said.contains("\"taken\":5"), "{status} {said}");
    must_wait(&served);
    becomes_ready(&served);
    assert!((0..5).all(|number| served.ask("GET", &page(&format!("pmore{number}")), "").0 == 200));
    for target in ["/readyz?for=cake", "/readyz?for=reads&wait=cake"] {
        assert_eq!(served.ask("GET", target, "").0, 400, "{target}");
    }
    assert_eq!(served.end(), Some(11));

    // The usual setting answers at any time; the folder keeps the settings of its crawl.
    let serve = ["serve", "-o", "data", "--set", "api.listen=127.0.0.1:0", "--set", "api.reads=partial"];
    let mut served = Served::spawn(dir, &serve);
    assert_eq!(served.ask("GET", &page("p0"), "").0, 200);
    assert_eq!(served.end(), Some(11));
}
