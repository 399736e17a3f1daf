//! A small site on loopback that can stop answering, and commands that crawl the site.
//!
//! The site shares nothing with the test web: the site counts its own requests, at the moment of their arrival.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_nephila");
/// Timeout, longer than any of these commands takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
pub(crate) const HOSTS: usize = 6;
pub(crate) const PAGES: usize = 8;

/// The requests that a site has seen.
#[derive(Debug, Default)]
struct Served {
    /// Pages by client: the folder's name is in the `From` field.
    pages: BTreeMap<String, BTreeSet<String>>,
    /// Every request, answered or not.
    asked: BTreeMap<String, usize>,
}

/// A site of a few hosts whose pages name each other. The site can stop answering.
pub(crate) struct Site {
    pub(crate) port: u16,
    /// Requests that are still answered.
    pub(crate) left: Arc<AtomicUsize>,
    served: Arc<Mutex<Served>>,
}

impl Site {
    pub(crate) fn start() -> Site {
        Site::start_at("127.0.0.1:0")
    }

    pub(crate) fn start_at(address: &str) -> Site {
        let listener = TcpListener::bind(address).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (left, served) = (Arc::new(AtomicUsize::new(usize::MAX)), Arc::default());
        let site = Site { port, left: left.clone(), served: Arc::clone(&served) };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (left, served) = (left.clone(), Arc::clone(&served));
                std::thread::spawn(move || _ = answer(stream, port, &left, &served));
            }
        });
        site
    }

    pub(crate) fn served_to(&self, who: &str) -> BTreeSet<String> {
        self.served.lock().unwrap().pages.get(who).cloned().unwrap_or_default()
    }

    /// Number of requests for each URL.
    pub(crate) fn asked(&self) -> BTreeMap<String, usize> {
        self.served.lock().unwrap().asked.clone()
    }
}

fn answer(
    mut stream: TcpStream,
    port: u16,
    left: &AtomicUsize,
    served: &Mutex<Served>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            n => head.extend_from_slice(&piece[..n]),
        }
    }
    let text = String::from_utf8_lossy(&head).into_owned();
    let field = |name: &str| {
        let line = text.lines().find(|line| line.to_ascii_lowercase().starts_with(name));
        line.and_then(|line| line.split_once(": "))
            .map(|(_, value)| value.trim().to_owned())
            .unwrap_or_default()
    };
    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
    let (host, who) = (field("host:"), field("from:"));
    *served.lock().unwrap().asked.entry(format!("http://{host}{path}")).or_default() += 1;
    if left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_err() {
        // The process is killed before this ends.
        std::thread::sleep(PATIENCE);
        return Ok(());
    }
    let is_page = path == "/" || path.starts_with("/p");
    let (status, body) = match is_page {
        true => ("200 OK", page(&host, &path, port)),
        false => ("404 Not Found", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    if is_page {
        served.lock().unwrap().pages.entry(who).or_default().insert(format!("{host}{path}"));
    }
    Ok(())
}

/// Every page names all pages of its host; the bytes of each are its own and do not compress well.
pub(crate) fn page(host: &str, path: &str, port: u16) -> String {
    let mut body = format!("<title>{host}{path}</title>");
    for number in 0..PAGES {
        body.push_str(&format!("<a href=\"http://{host}/p{number}\">{number}</a>"));
    }
    let mut state = path
        .bytes()
        .chain(host.bytes())
        .fold(u64::from(port), |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
    for _ in 0..200 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        body.push_str(&format!("{:08x} ", state >> 32));
    }
    body
}

/// How a run ended.
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) said: String,
}

pub(crate) fn run(dir: &Path, args: &[&str]) -> Ended {
    let mut command = Command::new(PROGRAM);
    command.args(args).current_dir(dir).env("HOME", dir).env_remove("NEPHILA_CONFIG").stdin(Stdio::null());
    let output = command.output().expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ended { code: output.status.code().unwrap_or(-1), said: text(&output.stderr) + &text(&output.stdout) }
}

/// The flags of a crawl of all hosts of the site. Settings that differ from the shipped ones: no rests between
/// requests, so that a run takes a second.
pub(crate) fn crawl_args(port: u16, folder: &str) -> Vec<String> {
    let mut args: Vec<String> =
        ["crawl", "-o", folder, "--progress", "none", "--config", "/dev/null"].map(str::to_owned).to_vec();
    for host in 0..HOSTS {
        args.push(format!("http://s{host}.test:{port}/"));
        args.extend(["--resolve".into(), format!("s{host}.test:127.0.0.1")]);
    }
    for set in [
        "spider.allow_addresses=[\"127.0.0.1/32\"]",
        "frontier.host_delay=0s",
        "frontier.slot_delay=0s",
        "frontier.host_delay_factor=0",
    ] {
        args.extend(["--set".into(), set.into()]);
    }
    args
}
