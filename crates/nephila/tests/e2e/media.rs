//! Media in an object store: what a crawl sends there, what readers get, and a store that is away.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::site::{PATIENCE, PROGRAM};

/// Path, type, length and seed of each file. `/again.png` has the bytes of `/one.png`.
const FILES: [(&str, &str, usize, u8); 6] = [
    ("/small.png", "image/png", 255_999, 1),
    ("/one.png", "image/png", 256_000, 2),
    ("/again.png", "image/png", 256_000, 2),
    ("/film.mp4", "video/mp4", 3_000_000, 3),
    ("/song.ogg", "audio/ogg", 700_001, 4),
    ("/paper.txt", "text/plain", 300_000, 5),
];
/// Of these, the ones that become objects, by their bytes.
const OBJECTS: usize = 3;

fn body(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|n| b'a' + ((n * 7 + n / 251) as u8 ^ seed) % 26).collect()
}

fn sha256(bytes: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, bytes);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A site with the files, which counts its requests.
struct Gallery {
    port: u16,
    asked: Arc<Mutex<BTreeMap<String, usize>>>,
    /// Whether files are answered.
    is_open: Arc<AtomicBool>,
}

impl Gallery {
    fn start() -> Gallery {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked: Arc<Mutex<BTreeMap<String, usize>>> = Arc::default();
        let is_open = Arc::new(AtomicBool::new(true));
        let gallery = Gallery { port, asked: asked.clone(), is_open: is_open.clone() };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, is_open) = (asked.clone(), is_open.clone());
                std::thread::spawn(move || _ = serve(stream, &asked, &is_open));
            }
        });
        gallery
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn asked(&self, path: &str) -> usize {
        self.asked.lock().unwrap().get(path).copied().unwrap_or(0)
    }
}

fn serve(
    mut stream: TcpStream,
    asked: &Mutex<BTreeMap<String, usize>>,
    is_open: &AtomicBool,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            n => head.extend_from_slice(&piece[..n]),
        }
    }
    let path = String::from_utf8_lossy(&head).split(' ').nth(1).unwrap_or_default().to_owned();
    *asked.lock().unwrap().entry(path.clone()).or_default() += 1;
    let links: String = FILES.iter().map(|(path, ..)| format!("<a href={path}>x</a>")).collect();
    let (status, kind, body) = match FILES.iter().find(|(name, ..)| *name == path) {
        Some((_, kind, bytes, seed)) => ("200 OK", *kind, body(*bytes, *seed)),
        None if path == "/" => ("200 OK", "text/html", links.into_bytes()),
        None => ("404 Not Found", "text/plain", Vec::new()),
    };
    let length = body.len();
    while kind != "text/html" && length > 0 && !is_open.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(10));
    }
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(args).current_dir(dir).env("HOME", dir).env("NEPHILA_CONFIG", "/dev/null");
    command.env("AWS_ACCESS_KEY_ID", "test").env("AWS_SECRET_ACCESS_KEY", "test").stdin(Stdio::null());
    command
}

fn run(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().expect("it runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A crawl of the gallery into `data`. No rest between two pages: the site is our own.
fn crawl_args(gallery: &Gallery, to: &str, more: &[&str]) -> Vec<String> {
    let (url, to) = (gallery.url("/"), format!("media.to={to}"));
    let args = ["crawl", &url, "-o", "data", "--delay", "0s", "-q", "--set", &to];
    args.iter().chain(more).map(|arg| (*arg).to_owned()).collect()
}

fn crawl(dir: &Path, gallery: &Gallery, to: &str, more: &[&str]) -> Output {
    let args = crawl_args(gallery, to, more);
    run(dir, &args.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The store in a folder, as a setting.
fn folder(dir: &Path) -> String {
    format!("file://{}/objects", dir.display())
}

/// The objects of a folder, by name.
fn objects(dir: &Path) -> BTreeMap<String, PathBuf> {
    let entries = std::fs::read_dir(dir.join("objects/media")).into_iter().flatten().flatten();
    let named = entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()));
    // An unfinished file has a longer name.
    named.filter(|(name, _)| name.len() == 64).collect()
}

/// Checks every capture: its body by `nephila read`, and its object.
fn check_all(dir: &Path, gallery: &Gallery) {
    for (path, _, bytes, seed) in FILES {
        let read = run(dir, &["read", "-o", "data", &gallery.url(path)]);
        assert_eq!(read.status.code(), Some(0), "{path}: {}", text(&read));
        assert!(read.stdout == body(bytes, seed), "{path}: other bytes");
    }
    let verified = run(dir, &["verify", "--media", "data"]);
    assert_eq!(verified.status.code(), Some(0), "{}", text(&verified));
    assert!(text(&verified).contains(&format!(", {OBJECTS} objects: no defect")), "{}", text(&verified));
}

#[test]
fn e_11_media_go_to_the_object_store_and_verify_finds_what_is_missing_or_damaged() {
    let (gallery, dir) = (Gallery::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let crawled = crawl(dir, &gallery, &folder(dir), &[]);
    assert_eq!(crawled.status.code(), Some(0), "{}", text(&crawled));
    check_all(dir, &gallery);
    let stored = objects(dir);
    assert_eq!(stored.len(), OBJECTS);
    for (name, path) in &stored {
        assert_eq!(sha256(&std::fs::read(path).unwrap()), *name);
    }
    // `/one.png` and `/again.png` are one object. (Whether one record refers to the other depends on which was durable when the
    // other came.)
    let archived = nephila_store::captures::Captures::new(&dir.join("data"));
    let same: Vec<_> = ["/one.png", "/again.png"]
        .iter()
        .map(|path| {
            let line = archived.nearest(&gallery.url(path), None).unwrap().unwrap();
            archived.read(&line, 1 << 20).unwrap().media.unwrap().hex()
        })
        .collect();
    let digest = sha256(&body(256_000, 2));
    assert_eq!(same, [digest.as_str(), digest.as_str()]);

    let about = run(dir, &["read", "--json", "-o", "data", &gallery.url("/film.mp4")]);
    let about: serde_json::Value = serde_json::from_slice(&about.stdout).expect("JSON");
    let film = format!("media/{}", sha256(&body(3_000_000, 3)));
    assert_eq!((&about["body_bytes"], &about["media"]), (&3_000_000.into(), &film.into()));
    let exported = run(dir, &["export", "warc", "-o", "data", "--to", "all.warc.gz"]);
    // The one that refers to the other counts as well, if it is a capture of its own.
    let is_counted =
        |count| text(&exported).contains(&format!("{count} captures are exported without their bodies"));
    assert!(is_counted(OBJECTS) || is_counted(OBJECTS + 1), "{}", text(&exported));
    let clean = run(dir, &["verify", "all.warc.gz"]);
    assert_eq!(clean.status.code(), Some(0), "{}", text(&clean));

    let (film, song) = (sha256(&body(3_000_000, 3)), sha256(&body(700_001, 4)));
    std::fs::remove_file(&stored[&film]).unwrap();
    let mut damaged = std::fs::read(&stored[&song]).unwrap();
    damaged[350_000] ^= 1;
    std::fs::write(&stored[&song], damaged).unwrap();
    let verified = run(dir, &["verify", "--media", "data"]);
    let said = text(&verified);
    assert_eq!(verified.status.code(), Some(1), "{said}");
    let names =
        |kind: &str, digest: &str| said.lines().any(|line| line.contains(kind) && line.contains(digest));
    assert!(
        names("media-gone", &film) && names("media-damaged", &song) && said.contains("2 defects"),
        "{said}"
    );
    assert_eq!(run(dir, &["verify", "data"]).status.code(), Some(0), "the archive itself is whole");
    let read = run(dir, &["read", "-o", "data", &gallery.url("/song.ogg")]);
    assert!(read.status.code() != Some(0) && read.stdout.is_empty(), "damaged bytes are not given");
}

/// Ends its process with the test.
struct Running {
    child: Child,
    said: mpsc::Receiver<String>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Running {
    fn start(dir: &Path, args: &[String]) -> Running {
        let mut command = command(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let (tell, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                tell.send(line).ok();
            }
        });
        Running { child, said }
    }

    /// Waits for a line with these words.
    fn says(&self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.said.recv_timeout(end.saturating_duration_since(Instant::now()));
            let line = line.unwrap_or_else(|_| panic!("it does not say {words:?}"));
            if line.contains(words) {
                return line;
            }
        }
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn e_11_while_the_store_is_away_its_pages_wait_and_nothing_is_lost() {
    let (gallery, dir) = (Gallery::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    // The store goes when the crawl has opened it and before the first file comes: a file instead of its folder.
    gallery.is_open.store(false, Ordering::SeqCst);
    let args = crawl_args(&gallery, &folder(dir), &[]);
    let running = Running::start(dir, &args);
    until("a file is asked for", || FILES.iter().any(|(path, ..)| gallery.asked(path) > 0));
    let place = dir.join("objects");
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::write(&place, b"").unwrap();
    gallery.is_open.store(true, Ordering::SeqCst);
    running.says("pages with media wait until it answers");
    until("all files were asked for", || FILES.iter().all(|(path, ..)| gallery.asked(path) > 0));
    let archived = nephila_store::captures::Captures::new(&dir.join("data"));
    let is_there = |path: &str| archived.nearest(&gallery.url(path), None).unwrap().is_some();
    until("other pages go on", || is_there("/small.png") && is_there("/paper.txt"));
    // Longer than a try and the pause after it.
    std::thread::sleep(Duration::from_secs(3));
    for (path, kind, bytes, _) in FILES {
        let is_object = bytes >= 256_000 && kind != "text/plain";
        assert_eq!(is_there(path), !is_object, "{path}");
    }
    // A kill loses the pages that wait; they are asked for again.
    drop(running);
    std::fs::remove_file(&place).unwrap();
    let ended = run(dir, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    check_all(dir, &gallery);
}

#[test]
fn e_11_a_store_that_comes_back_gets_the_bodies_that_waited() {
    let (gallery, dir) = (Gallery::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let mut moto = Moto::start();
    let sets = moto.settings();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    moto.end();
    let mut running = Running::start(dir, &crawl_args(&gallery, "s3://media/some", &sets));
    running.says("pages with media wait until it answers");
    moto.begin();
    let code = running.child.wait().unwrap().code();
    assert_eq!(code, Some(0));
    for (path, ..) in FILES {
        assert_eq!(gallery.asked(path), 1, "{path}: nothing is fetched twice");
    }
    check_all(dir, &gallery);
}

/// Status, head and body of an answer.
fn get(address: &str, target: &str) -> (u16, String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("it answers");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let body = answer.split_off(end);
    let head = String::from_utf8(answer).unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), head, body)
}

fn field(head: &str, name: &str) -> String {
    let line = head.lines().find(|line| line.to_ascii_lowercase().starts_with(&format!("{name}:")));
    line.and_then(|line| line.split_once(": ")).map(|(_, value)| value.to_owned()).unwrap_or_default()
}

#[test]
fn e_11_readers_are_redirected_to_the_object_or_get_the_body_through_the_node() {
    let (gallery, dir) = (Gallery::start(), tempfile::tempdir().unwrap());
    let dir = dir.path();
    let moto = Moto::start();
    let sets = moto.settings();
    let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
    let crawled = crawl(dir, &gallery, "s3://media/some", &sets);
    assert_eq!(crawled.status.code(), Some(0), "{}", text(&crawled));
    check_all(dir, &gallery);
    let film = body(3_000_000, 3);
    let key = format!("media/{}", sha256(&film));

    let serve = |more: &[&str]| {
        let args = [&["serve", "-o", "data", "--set", "api.listen=127.0.0.1:0"][..], more].concat();
        let running = Running::start(dir, &args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
        let line = running.says("is answered for at http://");
        let address = line.split_once("is answered for at http://").unwrap().1.trim().to_owned();
        (running, address)
    };
    let (serving, address) = serve(&[]);
    let ask = |address: &str, more: &str| {
        get(address, &format!("/api/v1/pages?url={}{more}", gallery.url("/film.mp4")))
    };
    for part in ["", "&as=body", "&as=http"] {
        let (status, head, _) = ask(&address, part);
        assert_eq!(status, 302, "{head}");
        let location = field(&head, "location");
        assert!(location.contains(&key) && location.contains("X-Amz-Expires=300&"), "{location}");
        let rest = location.strip_prefix("http://").unwrap();
        let (host, target) = rest.split_once('/').unwrap();
        let (status, head, got) = get(host, &format!("/{target}"));
        assert_eq!((status, &*field(&head, "content-type")), (200, "video/mp4"), "{head}");
        assert!(got == film, "other bytes");
    }
    let (status, _, got) = ask(&address, "&as=body&inline=1");
    assert!(status == 200 && got == film, "{status}");
    let (status, _, got) = ask(&address, "&as=http&inline=1");
    let end = got.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&got[..end]).into_owned();
    assert!(status == 200 && head.contains("Content-Length: 3000000\r\n") && got[end..] == film, "{head}");
    let (status, head, got) =
        get(&address, &format!("/web/{}id_/{}", captured(&address, &gallery), gallery.url("/film.mp4")));
    assert!(status == 200 && got == film, "the archive as other programs read it: {head}");
    // A small picture is in the archive.
    let (status, _, got) = get(&address, &format!("/api/v1/pages?as=body&url={}", gallery.url("/small.png")));
    assert!(status == 200 && got == body(255_999, 1));
    drop(serving);

    let (_serving, address) = serve(&["--set", "media.public_url=https://cdn.example.org/some"]);
    let (status, head, _) = ask(&address, "");
    assert_eq!((status, field(&head, "location")), (302, format!("https://cdn.example.org/some/{key}")));
}

/// The time of the film's capture, in fourteen digits.
fn captured(address: &str, gallery: &Gallery) -> String {
    let (_, head, _) = get(address, &format!("/api/v1/pages?as=headers&url={}", gallery.url("/film.mp4")));
    field(&head, "nephila-captured")
}

/// An S3 server on loopback with the bucket `media`: moto, from PyPI. All objects are in memory.
struct Moto {
    port: u16,
    child: Option<Child>,
}

impl Moto {
    fn start() -> Moto {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let mut moto = Moto { port, child: None };
        moto.begin();
        moto
    }

    fn begin(&mut self) {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache =
            variable("NEPHILA_CACHE").or_else(|| variable("HOME").map(|home| home.join(".cache/nephila")));
        let installed = cache.map(|cache| cache.join("moto/bin/moto_server"));
        let program = variable("NEPHILA_MOTO_SERVER").or(installed).filter(|program| program.is_file());
        let program = program.expect("moto_server is missing: `.ci/run` installs it");
        let mut command = Command::new(program);
        command.args(["-H", "127.0.0.1", "-p", &self.port.to_string()]).stdin(Stdio::null());
        self.child = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let bucket = || {
            let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
            stream.write_all(b"PUT /media HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n").ok()?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).ok()?;
            answer.lines().next()?.contains(" 200 ").then_some(())
        };
        until("moto_server answers", || bucket().is_some());
    }

    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    fn settings(&self) -> Vec<String> {
        let endpoint = format!("cluster.objects_endpoint=http://127.0.0.1:{}", self.port);
        ["--set", &endpoint, "--set", "cluster.objects_http=true"].map(str::to_owned).into()
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        self.end();
    }
}
