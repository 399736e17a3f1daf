//! A site without end whose pages name the URLs of the hostile web, a few each and all of them again and again.
//!
//! Page n links to page n + 1 and to the next few hostile URLs, with a query that makes them new in every round. Its
//! robots.txt asks for a delay, so the hostile web is met at an even pace for as long as a crawl lasts.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Its name.
pub const NAME: &str = "portal.soak.test";
/// Its address: neither the good web's nor the hostile one's.
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(127, 78, 0, 1);
/// The `Crawl-delay` of its robots.txt.
pub const DELAY: Duration = Duration::from_secs(1);
/// Maximum number of connections at once.
const CONNECTIONS_MAX: usize = 64;
/// A connection ends after this time.
const CONNECTION_FOR: Duration = Duration::from_secs(60);
/// Maximum size of a request's head in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Pages whose time is kept.
const PAGES_MAX: usize = 1_000_000;

/// The running site, which ends with the runtime.
pub struct Portal {
    port: u16,
    inner: Arc<Inner>,
}

struct Inner {
    urls: Vec<String>,
    /// How many of them a page names.
    at_once: usize,
    asked: Mutex<Vec<Instant>>,
}

impl Portal {
    /// Begins to answer. All URLs are named within `round`.
    pub async fn start(urls: Vec<String>, round: Duration) -> anyhow::Result<Portal> {
        let listener = TcpListener::bind((ADDRESS, 0)).await.context("bind the portal")?;
        let port = listener.local_addr()?.port();
        let pages = (round.as_secs_f64() / DELAY.as_secs_f64()).max(1.0);
        let at_once = ((urls.len() as f64 / pages).ceil() as usize).max(1);
        let inner = Arc::new(Inner { urls, at_once, asked: Mutex::default() });
        tokio::spawn(accept(listener, inner.clone()));
        Ok(Portal { port, inner })
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Where a crawl begins.
    pub fn url(&self) -> String {
        format!("http://{NAME}:{}/0", self.port)
    }

    /// When its pages were requested.
    pub fn asked(&self) -> Vec<Instant> {
        self.inner.asked.lock().expect("nobody panics while holding it").clone()
    }

    /// How often the whole list was named.
    pub fn rounds(&self) -> f64 {
        (self.asked().len() * self.inner.at_once) as f64 / self.inner.urls.len().max(1) as f64
    }
}

async fn accept(listener: TcpListener, inner: Arc<Inner>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = room.clone().acquire_owned().await.expect("nobody closes it");
        let Ok((stream, _)) = listener.accept().await else { continue };
        let inner = inner.clone();
        tokio::spawn(async move {
            _ = timeout(CONNECTION_FOR, serve(stream, &inner)).await;
            drop(place);
        });
    }
}

async fn serve(mut stream: TcpStream, inner: &Inner) -> std::io::Result<()> {
    let mut unread = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = unread.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            if unread.len() > HEAD_BYTES_MAX || stream.read_buf(&mut unread).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8_lossy(&unread[..end]).into_owned();
        unread.drain(..end);
        let path = head.split(' ').nth(1).unwrap_or_default();
        let (status, kind, body) = inner.answer(path);
        let length = body.len();
        let answer =
            format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(answer.as_bytes()).await?;
    }
}

impl Inner {
    fn answer(&self, path: &str) -> (&'static str, &'static str, String) {
        if path == "/robots.txt" {
            let rules = format!("User-agent: *\nCrawl-delay: {}\nAllow: /\n", DELAY.as_secs_f64());
            return ("200 OK", "text/plain", rules);
        }
        let Some(page) = path.strip_prefix('/').and_then(|number| number.parse::<usize>().ok()) else {
            return ("404 Not Found", "text/html", "<p>nothing</p>".into());
        };
        let mut asked = self.asked.lock().expect("nobody panics while holding it");
        if asked.len() < PAGES_MAX {
            asked.push(Instant::now());
        }
        drop(asked);
        let mut body =
            format!("<!doctype html><title>Page {page}</title><a href=\"/{}\">next</a>\n", page + 1);
        for n in page * self.at_once..(page + 1) * self.at_once {
            let (round, url) = (n / self.urls.len(), &self.urls[n % self.urls.len()]);
            body.push_str(&format!("<a href=\"{url}?round={round}\">{n}</a>\n"));
        }
        ("200 OK", "text/html", body)
    }
}
