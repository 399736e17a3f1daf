//! When a connection ends in the journal: a client that closes before the next connect is never blamed, regardless of
//! when the server checks; a client that keeps its first connection always is.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use nephila_testweb::check::{Fault, Politeness};
use nephila_testweb::{RunningWeb, Settings, Web};
use tokio::io::AsyncReadExt;

/// Visits of one client; the server's order of events differs from visit to visit.
const VISITS: usize = 60;
/// Timeout of an answer.
const ANSWER_MAX: Duration = Duration::from_secs(20);

struct Site {
    web: RunningWeb,
    to: SocketAddr,
    host: String,
}

impl Site {
    async fn start(settings: Settings) -> Site {
        let web = Web::builder().settings(settings).start().await.unwrap();
        let to = (web.world().addresses(0)[0], web.http_port()).into();
        let host = format!("{}:{}", web.world().name(0), web.http_port());
        Site { web, to, host }
    }

    /// Connects and sends a request, without giving the server a turn when both share a thread.
    fn ask(&self, path: &str, more: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.to).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n{more}\r\n", self.host).unwrap();
        stream
    }

    fn faults(&self) -> Vec<Fault> {
        let report = Politeness::default().check(&self.web.journal().log());
        report.violations.into_iter().map(|violation| violation.fault).collect()
    }
}

/// Lets the server answer, and takes the first bytes of the answer.
async fn first_bytes(stream: TcpStream) -> TcpStream {
    stream.set_nonblocking(true).unwrap();
    let mut stream = tokio::net::TcpStream::from_std(stream).unwrap();
    let mut bytes = [0u8; 4096];
    let read = tokio::time::timeout(ANSWER_MAX, stream.read(&mut bytes)).await.expect("an answer in time");
    assert!(read.unwrap() > 0);
    stream.into_std().unwrap()
}

// The server runs on the same thread, and sees neither the close nor the next request before both have happened.
#[tokio::test]
async fn a_client_that_closes_and_comes_back_at_once_has_one_connection() {
    let site = Site::start(Settings { pages: 1, page_bytes: 500, ..Settings::default() }).await;
    let mut kept = first_bytes(site.ask("/", "")).await;
    for _ in 0..VISITS {
        drop(kept);
        kept = first_bytes(site.ask("/", "")).await;
    }
    assert_eq!(site.faults(), []);
}

#[tokio::test]
async fn a_client_that_gives_an_answer_up_and_comes_back_at_once_asks_one_thing_at_a_time() {
    let settings = Settings { pages: 1, page_bytes: 8_000_000, ..Settings::default() };
    let site = Site::start(settings).await;
    let mut kept = first_bytes(site.ask("/", "")).await;
    for _ in 0..10 {
        drop(kept);
        kept = first_bytes(site.ask("/", "")).await;
    }
    assert_eq!(site.faults(), []);
    let log = site.web.journal().log();
    assert!(log.requests.iter().any(|request| !request.is_complete), "nothing was given up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_waits_for_the_servers_end_has_one_connection() {
    let site = Site::start(Settings { pages: 1, page_bytes: 500, ..Settings::default() }).await;
    let site = tokio::task::spawn_blocking(move || {
        let mut before: Option<TcpStream> = None;
        for _ in 0..VISITS {
            let mut stream = site.ask("/", "Connection: close\r\n");
            // The client's own side of the last connection was open until now: only the server had ended its side.
            drop(before.take());
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            before = Some(stream);
        }
        site
    });
    assert_eq!(site.await.unwrap().faults(), []);
}

#[tokio::test]
async fn a_client_that_keeps_its_first_connection_has_two_however_idle_it_is() {
    let site = Site::start(Settings { pages: 1, page_bytes: 500, ..Settings::default() }).await;
    let first = first_bytes(site.ask("/", "")).await;
    let second = first_bytes(site.ask("/", "")).await;
    drop(first);
    let third = first_bytes(site.ask("/", "")).await;
    assert_eq!(site.faults(), [Fault::HostConnections(2), Fault::HostConnections(2)]);
    drop((second, third));
}
