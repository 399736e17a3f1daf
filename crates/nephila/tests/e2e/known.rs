//! The metadata of a capture, and its later use: where a page was found, its links, its text, and the links for a wider
//! crawl.
//!
//! The site is a handful of files on loopback. Two settings are changed everywhere: `--delay 1ms`, since a test does not
//! wait a second for each page, and the addresses and ports of loopback, which no crawl asks by itself.

mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use nephila_store::captures::Captures;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");

/// Files by path: type and content. Other paths are 404.
type Files = BTreeMap<&'static str, (&'static str, String)>;

/// A site on loopback that records its requests.
struct Site {
    origin: String,
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    fn start(address: &str, files: &[(&'static str, &'static str, &str)]) -> Site {
        let listener = TcpListener::bind((address, 0)).expect("a port on loopback");
        let port = listener.local_addr().expect("it is bound").port();
        let files: Files =
            files.iter().map(|(path, kind, text)| (*path, (*kind, (*text).to_owned()))).collect();
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let (files, log) = (Arc::new(files), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (files, log) = (files.clone(), log.clone());
                std::thread::spawn(move || answer(stream, &files, &log));
            }
        });
        Site { origin: format!("http://{address}:{port}"), port, asked }
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.origin)
    }

    /// The paths requested so far, robots.txt and sitemaps left out.
    fn asked(&self) -> BTreeSet<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|path| *path != "/robots.txt").cloned().collect()
    }

    fn times(&self, path: &str) -> usize {
        self.asked.lock().unwrap().iter().filter(|asked| *asked == path).count()
    }
}

fn answer(mut stream: std::net::TcpStream, files: &Files, log: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a handle"));
    let mut first = String::new();
    if reader.read_line(&mut first).is_err() {
        return;
    }
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
        line.clear();
    }
    let Some(path) = first.split(' ').nth(1) else { return };
    log.lock().unwrap().push(path.to_owned());
    let (status, kind, body) = match files.get(path) {
        Some((kind, body)) => ("200 OK", *kind, body.as_str()),
        None => ("404 Not Found", "text/plain", "nothing here"),
    };
    let label = if kind.is_empty() { String::new() } else { format!("Content-Type: {kind}\r\n") };
    let head =
        format!("HTTP/1.1 {status}\r\n{label}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // A client that goes away early is not our concern.
    _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
}

fn set(paths: &[&str]) -> BTreeSet<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).current_dir(dir).stdin(Stdio::null()).env("HOME", dir);
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NEPHILA_CONFIG"] {
        command.env_remove(name);
    }
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().expect("the command runs")
}

/// Crawls into `DIR/crawl`; returns the closing words.
fn crawl(dir: &Path, sites: &[&Site], args: &[&str]) -> String {
    let ports: Vec<String> = sites.iter().map(|site| site.port.to_string()).collect();
    let ports = format!("spider.ports=[{}]", ports.join(","));
    let fixed = [
        "crawl",
        "-o",
        "crawl",
        "--delay",
        "1ms",
        "--progress",
        "none",
        "--set",
        "spider.allow_addresses=[\"127.0.0.0/8\"]",
        "--set",
        &ports,
    ];
    let output = run(dir, &[&fixed[..], args].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?}: {said}", output.status);
    said
}

fn json(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    text.lines().map(parse).collect()
}

/// The lines of the metadata record of every capture, by URL.
fn metadata(dir: &Path) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::new();
    let captures = Captures::new(&dir.join("crawl"));
    let mut take = |url: &str, block: &[u8]| {
        let lines = String::from_utf8_lossy(block).lines().map(str::to_owned).collect();
        all.insert(url.to_owned(), lines);
    };
    captures.each_metadata(&mut take).expect("the archive is read");
    all
}

#[test]
fn out_01_a_capture_says_where_it_was_found_and_what_it_names() {
    let site = Site::start(
        "127.0.0.1",
        &[
            ("/", "text/html", "<a href=/a>a</a><img src=/logo.png>"),
            ("/a", "text/html", "<a href=/b>b</a><a href=/missing>gone</a><a href=http://out.test/x>out</a>"),
            ("/b", "text/html", "<a href=/missing>gone</a>"),
        ],
    );
    let dir = tempfile::tempdir().unwrap();
    crawl(dir.path(), &[&site], &[&site.url("/")]);

    let known = metadata(dir.path());
    let has = |path: &str, line: &str| {
        let lines = &known[&site.url(path)];
        assert!(lines.iter().any(|known| known == line), "{path}: {line:?} in {lines:#?}");
    };
    has("/", "seed: ");
    has("/", &format!("outlink: {} L a/@href", site.url("/a")));
    has("/", &format!("outlink: {} E img/@src", site.url("/logo.png")));
    has("/a", &format!("via: {}", site.url("/")));
    has("/a", "hopsFromSeed: L");
    has("/a", "outlink: http://out.test/x L a/@href");
    has("/b", &format!("via: {}", site.url("/a")));
    has("/b", "hopsFromSeed: LL");
    assert!(!known[&site.url("/")].iter().any(|line| line.starts_with("via:")), "nobody names a seed");

    let explained = &json(&run(dir.path(), &["explain", "--json", "-o", "crawl", &site.url("/b")]))[0];
    assert_eq!((&explained["via"], &explained["hops"]), (&Value::from(site.url("/a")), &Value::from("LL")));
    let told = run(dir.path(), &["explain", "-o", "crawl", &site.url("/b")]);
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains(&format!("on         {}", site.url("/a"))), "{told}");

    let broken = run(dir.path(), &["report", "links", "--broken", "--json", "-o", "crawl"]);
    let broken = String::from_utf8_lossy(&broken.stdout).into_owned();
    assert!(broken.contains(&site.url("/missing")), "{broken}");
    let both = format!("{} {}", site.url("/a"), site.url("/b"));
    assert!(broken.contains(&both), "every page with the broken link is named: {broken}");
}

#[test]
fn out_02_what_style_sheets_need_is_fetched_wherever_they_stand() {
    let other = Site::start(
        "127.0.0.2",
        &[("/far.css", "text/css", "p{background:url(far.png)}"), ("/far.png", "image/png", "png")],
    );
    let far = other.url("/far.css");
    let page = format!(
        "<link rel=stylesheet href=/css/main.css><link rel=stylesheet href=/css/unlabelled>\
         <style>@import \"/in.css\"; h1{{background:url(/in.png)}}</style>\
         <p style=\"background:image-set('/set.png' 1x, url(/set2.png) 2x)\"><link rel=stylesheet href={far}>"
    );
    let files = [
        ("/", "text/html", page.as_str()),
        (
            "/css/main.css",
            "text/css",
            "@import url(\"deep/more.css\"); @font-face{src:url(../font.woff2)} .x{content:'url(no.png)'}",
        ),
        ("/css/deep/more.css", "text/css", "b{background:url(deep.png)} /* url(comment.png) */"),
        ("/css/unlabelled", "", "i{background:url(plain.png)}"),
        ("/in.css", "text/css", "@charset \"iso-8859-1\"; u{background:url(in2.png)}"),
    ];
    let site = Site::start("127.0.0.1", &files);
    let dir = tempfile::tempdir().unwrap();
    crawl(dir.path(), &[&site, &other], &[&site.url("/"), "--page-requisites"]);
    let asked = site.asked();
    let wanted = [
        "/css/main.css",
        "/css/deep/more.css",
        "/css/deep/deep.png",
        "/font.woff2",
        "/css/plain.png",
        "/in.css",
        "/in2.png",
        "/in.png",
        "/set.png",
        "/set2.png",
    ];
    for path in wanted {
        assert!(asked.contains(path), "{path}: {asked:?}");
    }
    assert!(!asked.iter().any(|path| path.contains("no.png") || path.contains("comment")), "{asked:?}");
    assert_eq!(other.asked(), set(&["/far.css", "/far.png"]), "relative to its own place");
    let known = metadata(dir.path());
    let lines = &known[&site.url("/css/main.css")];
    let import = format!("outlink: {} E @import", site.url("/css/deep/more.css"));
    assert!(lines.contains(&import), "{lines:#?}");
}

#[test]
fn out_03_read_text_gives_the_main_text_and_no_menus() {
    let story = include_str!("../../../nephila-engine/src/crawl/text/story.html");
    let files = [("/", "text/html", story), ("/bare", "text/html", "<title>t</title><p>few words")];
    let site = Site::start("127.0.0.1", &files);
    let dir = tempfile::tempdir().unwrap();
    crawl(dir.path(), &[&site], &[&site.url("/"), &site.url("/bare")]);
    let text = |path: &str| {
        let output = run(dir.path(), &["read", "--text", "-o", "crawl", &site.url(path)]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let check = |text: &str| {
        assert!(text.contains("After eleven months of repairs"), "{text}");
        assert!(text.contains("the last crane was taken away"), "{text}");
        for around in ["Subscribe to our newsletter", "Cookie settings", "Weather today"] {
            assert!(!text.contains(around), "{around}: {text}");
        }
    };
    check(&text("/"));
    assert!(text("/bare").contains("few words"), "a page without a main text gives what it has");

    // The same from a conversion record.
    let kept = tempfile::tempdir().unwrap();
    crawl(kept.path(), &[&site], &[&site.url("/"), "--set", "handler.text=all"]);
    let output = run(kept.path(), &["read", "--text", "-o", "crawl", &site.url("/")]);
    check(&String::from_utf8_lossy(&output.stdout));
}

fn deep_site() -> Site {
    Site::start(
        "127.0.0.1",
        &[
            ("/docs/", "text/html", "<a href=one>1</a><a href=/other/>o</a>"),
            ("/docs/one", "text/html", "<a href=two>2</a><img src=/pic.png>"),
            ("/docs/two", "text/html", "<a href=three>3</a>"),
            ("/docs/three", "text/html", "end"),
            ("/other/", "text/html", "<a href=more>m</a>"),
            ("/other/more", "text/html", "end"),
            ("/pic.png", "image/png", "png"),
        ],
    )
}

#[test]
fn fin_04_a_wider_crawl_goes_on_from_what_is_stored() {
    let site = deep_site();
    let dir = tempfile::tempdir().unwrap();
    let seed = site.url("/docs/");
    crawl(dir.path(), &[&site], &[&seed, "--depth", "1"]);
    assert_eq!(site.asked(), set(&["/docs/", "/docs/one"]));

    let said = crawl(dir.path(), &[&site], &["--depth", "9"]);
    assert!(said.contains("the archive is read again") && said.contains("2 captures"), "{said}");
    assert!(said.contains("read again:  2 captures, 1 URLs"), "{said}");
    let all = ["/docs/", "/docs/one", "/docs/two", "/docs/three"];
    assert_eq!(site.asked(), set(&all), "{said}");

    let said = crawl(dir.path(), &[&site], &["--scope", "host"]);
    let more = ["/other/", "/other/more"];
    assert_eq!(site.asked(), set(&[&all[..], &more[..]].concat()), "{said}");

    let said = crawl(dir.path(), &[&site], &["--page-requisites"]);
    assert!(site.asked().contains("/pic.png"), "{said}");
    let said = crawl(dir.path(), &[&site], &[]);
    assert!(!said.contains("read again"), "nothing is wanted that was not: {said}");
    for path in all.iter().chain(&more) {
        assert_eq!(site.times(path), 1, "{path}: what is stored is not asked for again");
    }
}

#[test]
fn fin_04_a_reading_that_is_killed_begins_again_and_loses_nothing() {
    let site = deep_site();
    let dir = tempfile::tempdir().unwrap();
    crawl(dir.path(), &[&site], &[&site.url("/docs/"), "--depth", "1"]);
    let ports = format!("spider.ports=[{}]", site.port);
    let args = ["crawl", "-o", "crawl", "--depth", "9", "--scope", "host", "--set", &ports];
    let mut child = command(dir.path(), &args).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let begun = lines.any(|line| line.is_ok_and(|line| line.contains("the archive is read again")));
    assert!(begun, "it says what it does");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    // Regardless of the moment of the kill: the folder remembers the wanted scope and the unfinished work.
    crawl(dir.path(), &[&site], &[]);
    let all = ["/docs/", "/docs/one", "/docs/two", "/docs/three", "/other/", "/other/more"];
    assert_eq!(site.asked(), set(&all));
}

#[test]
fn fin_08_map_says_what_crawl_does() {
    let other = Site::start("127.0.0.2", &[("/far.png", "image/png", "png"), ("/page", "text/html", "x")]);
    let page = format!(
        "<a href=/open>o</a><a href=/secret/x>s</a><img src={0}/far.png><a href={0}/page>out</a><img src=/near.png>",
        other.origin
    );
    let files = [
        ("/robots.txt", "text/plain", "User-agent: *\nDisallow: /secret\n"),
        ("/", "text/html", page.as_str()),
        ("/open", "text/html", "open"),
    ];
    let site = Site::start("127.0.0.1", &files);
    let dir = tempfile::tempdir().unwrap();
    let ports = format!("spider.ports=[{},{}]", site.port, other.port);
    let home = site.url("/");
    let args = [
        "map",
        &home,
        "--json",
        "--page-requisites",
        "--delay",
        "1ms",
        "--set",
        "spider.allow_addresses=[\"127.0.0.0/8\"]",
        "--set",
        &ports,
    ];
    let output = run(dir.path(), &args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = json(&output);
    let of = |verdict: &str| -> BTreeSet<String> {
        let chosen = lines.iter().filter(|line| line["verdict"] == verdict);
        chosen.map(|line| line["url"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(site.asked(), set(&["/"]), "a dry run asks for the seed");
    assert!(other.asked().is_empty(), "and for nothing else: {:?}", other.asked());
    let out: BTreeSet<String> = [site.url("/secret/x"), other.url("/page")].into();
    assert_eq!(of("out"), out, "{lines:#?}");
    let secret = lines.iter().find(|line| line["url"] == site.url("/secret/x").as_str()).unwrap();
    assert!(secret["rule"].as_str().unwrap().contains("Disallow: /secret"), "{secret}");

    crawl(dir.path(), &[&site, &other], &[&home, "--page-requisites"]);
    let mut fetched: BTreeSet<String> = site.asked().iter().map(|path| site.url(path)).collect();
    fetched.extend(other.asked().iter().map(|path| other.url(path)));
    assert_eq!(of("in"), fetched, "what it calls in is what a crawl fetches");
}

#[test]
fn row_09_extraction_is_run_again_over_the_archive_and_a_second_run_writes_nothing() {
    let story = include_str!("../../../nephila-engine/src/crawl/text/story.html");
    let page = format!("{story}<a href=/two>2</a>");
    let site =
        Site::start("127.0.0.1", &[("/", "text/html", page.as_str()), ("/two", "text/html", "few words")]);
    let dir = tempfile::tempdir().unwrap();
    // As an archive of an older version is: without metadata, and without the text.
    crawl(dir.path(), &[&site], &[&site.url("/"), "--set", "store.metadata_records=false"]);
    assert!(metadata(dir.path()).is_empty());
    let listed = || json(&run(dir.path(), &["cdx", "--json", "-o", "crawl", &format!("{}/*", site.origin)]));
    // Also links of the page that the site does not have: an answer is a capture.
    let captures = listed();
    let is_page = |line: &&Value| line["status"].to_string().contains("200");
    assert_eq!(captures.iter().filter(is_page).count(), 2, "{captures:#?}");

    let extract = || {
        let output = run(dir.path(), &["extract", "-o", "crawl"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        said
    };
    let said = extract();
    assert!(said.contains("2 captures read, 2 records written"), "{said}");
    let known = metadata(dir.path());
    let lines = &known[&site.url("/")];
    assert!(lines.contains(&format!("outlink: {} L a/@href", site.url("/two"))), "{lines:#?}");
    assert!(lines.contains(&"title: The harbour bridge is open again".to_owned()), "{lines:#?}");
    let output = run(dir.path(), &["read", "--text", "-o", "crawl", &site.url("/")]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("After eleven months of repairs"), "{text}");
    let said = extract();
    assert!(said.contains("0 records written"), "what is known is not written again: {said}");

    let verify = run(dir.path(), &["verify", "crawl"]);
    assert!(verify.status.success(), "{}", String::from_utf8_lossy(&verify.stdout));
    assert_eq!(listed(), captures, "what was made of captures is no capture");
    // The crawl goes on as before.
    crawl(dir.path(), &[&site], &[]);
}
