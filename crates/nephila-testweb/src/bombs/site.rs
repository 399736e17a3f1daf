//! Hosts on loopback that serve bombs, and good ones beside them.
//!
//! Every host is an address of its own, so that none waits for another. A bad host has a page of links to itself, each to a bomb of
//! its own kind; a good host has pages of links to its own pages, sent as gzip.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::{Bomb, gzip};

/// Maximum size in bytes of a request line and its fields together.
const HEAD_BYTES_MAX: u64 = 64 * 1024;
/// Idle timeout of a connection.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// Links on a page.
const LINKS: usize = 20;
/// Pages that differ of one good host or one bad one.
const PAGES: usize = 1_000_000;

/// A host that serves until the value is dropped.
#[derive(Debug)]
pub struct Site {
    address: SocketAddrV4,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    ended: AtomicBool,
    pages: AtomicU64,
}

impl Site {
    /// A host at this address that serves a bomb of this size at every path but its first.
    pub fn bad(address: Ipv4Addr, bomb: Bomb, bytes: usize) -> io::Result<Site> {
        let (body, coding) = bomb.wire(bytes);
        Site::start(address, move |path| match path {
            "/" => html(links("/bomb/", 0)),
            _ => Answer { media: bomb.media, coding, body: body.clone() },
        })
    }

    /// A host at this address whose pages are honest.
    pub fn good(address: Ipv4Addr) -> io::Result<Site> {
        Site::start(address, |path| {
            let number = path.rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(0usize);
            html(links("/page/", number))
        })
    }

    fn start(address: Ipv4Addr, answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> io::Result<Site> {
        let listener = TcpListener::bind((address, 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State::default());
        let (shared, answer) = (state.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared.ended.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, answer) = (shared.clone(), answer.clone());
                // A client that goes away in the middle is no trouble of ours.
                std::thread::spawn(move || drop(serve(&stream, &*answer, &shared)));
            }
        });
        Ok(Site { address: SocketAddrV4::new(address, port), state })
    }

    /// A URL of this host.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Number of pages served so far, without robots.txt.
    pub fn pages(&self) -> u64 {
        self.state.pages.load(Ordering::Relaxed)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        // Wakes the listener, which then sees the end.
        drop(TcpStream::connect(self.address));
    }
}

struct Answer {
    media: &'static str,
    coding: &'static str,
    body: Vec<u8>,
}

fn html(body: String) -> Answer {
    Answer { media: "text/html; charset=utf-8", coding: "gzip", body: gzip(body.as_bytes()) }
}

/// A page that links to the pages after this number.
fn links(path: &str, number: usize) -> String {
    let links: String = (1..=LINKS)
        .map(|step| format!("<li><a href=\"{path}{}\">page</a>", (number * LINKS + step) % PAGES))
        .collect();
    format!("<!doctype html><title>Page {number}</title><p>Words of page {number}.<ul>{links}</ul>")
}

fn serve(stream: &TcpStream, answer: &dyn Fn(&str) -> Answer, state: &State) -> io::Result<()> {
    stream.set_read_timeout(Some(IDLE_MAX))?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        reader.by_ref().take(HEAD_BYTES_MAX).read_line(&mut line)?;
        let Some(path) = line.split(' ').nth(1).map(str::to_owned) else { return Ok(()) };
        loop {
            let mut field = String::new();
            reader.by_ref().take(HEAD_BYTES_MAX).read_line(&mut field)?;
            if field.trim_end().is_empty() {
                break;
            }
        }
        let Answer { media, coding, body } = match path.as_str() {
            "/robots.txt" => {
                Answer { media: "text/plain", coding: "gzip", body: gzip(b"User-agent: *\nDisallow:\n") }
            }
            path => {
                state.pages.fetch_add(1, Ordering::Relaxed);
                answer(path)
            }
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {media}\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let mut writer = stream;
        writer.write_all(&[head.into_bytes(), body].concat())?;
    }
}
