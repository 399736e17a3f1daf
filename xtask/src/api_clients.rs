//! Clients of the API for `api-load`: open dashboards, requests at a fixed rate, and a stand-in that sends prepared answers.
//!
//! Requests are due at times that do not depend on answers, and latency counts from these times. A connection that the
//! server has closed while it was idle is opened again, as browsers do.
//!
//! Invariant: all threads end with [`Running::end`], the stand-in with its value.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// What a page of the dashboard asks for, and how often among ten requests.
const TARGETS: [(&str, usize); 9] = [
    ("/api/v1/status", 2),
    ("/api/v1/hosts?limit=100", 2),
    ("/api/v1/stats", 1),
    ("/api/v1/history?seconds=900", 1),
    ("/api/v1/jobs", 1),
    ("/api/v1/log?limit=50", 1),
    ("/api/v1/politeness", 1),
    ("/api/v1/archive?limit=20", 1),
    ("/metrics", 1),
];
/// Interval at which a dashboard asks for its page.
const PAGE_EVERY: Duration = Duration::from_secs(3);
/// Threads that send requests.
const SENDERS: u64 = 32;
/// Timeout of an answer, and of silence in a stream.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Interval of events of the stand-in.
const EVENT_EVERY: Duration = Duration::from_secs(1);
/// Stack of a thread that follows a stream.
const STACK_BYTES: usize = 128 << 10;

/// What the clients do.
#[derive(Clone)]
pub(crate) struct Load {
    token: String,
    dashboards: usize,
    per_second: f64,
    /// Targets as often as they are asked for, each with the answer of the crawl for the stand-in.
    answers: HashMap<String, Vec<u8>>,
}

/// What the clients saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    /// Latencies in microseconds, sorted.
    latencies: Vec<u32>,
    /// Events of streams.
    events: u64,
    /// Requests without a good answer, and streams that ended.
    pub(crate) failed: u64,
    /// One of their reasons.
    pub(crate) why: String,
}

impl Clients {
    /// Requests with these latencies in microseconds.
    #[cfg(test)]
    pub(crate) fn of(latencies: &[u32]) -> Clients {
        Clients { latencies: latencies.to_vec(), ..Clients::default() }
    }

    /// Adds others.
    pub(crate) fn add(&mut self, other: Clients) {
        self.latencies.extend(other.latencies);
        self.latencies.sort_unstable();
        self.events += other.events;
        self.failed += other.failed;
        if !other.why.is_empty() {
            self.why = other.why;
        }
    }

    /// Latency within which this share was answered.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let place =
            ((self.latencies.len() as f64 * share).ceil() as usize).clamp(1, self.latencies.len().max(1));
        Duration::from_micros(self.latencies.get(place - 1).copied().unwrap_or(0).into())
    }

    /// Share of requests that were answered within this time.
    pub(crate) fn in_time(&self, limit: Duration) -> f64 {
        let count = self.latencies.partition_point(|us| Duration::from_micros((*us).into()) <= limit);
        count as f64 / self.latencies.len().max(1) as f64
    }

    /// The figures.
    pub(crate) fn line(&self) -> String {
        let ms = |share| self.quantile(share).as_secs_f64() * 1e3;
        format!(
            "{} answers and {} events, {} failed; latency {:.1} ms median, {:.1} ms 99 %, {:.1} ms 99.9 %",
            self.latencies.len(),
            self.events,
            self.failed,
            ms(0.5),
            ms(0.99),
            ms(0.999)
        )
    }
}

/// What the threads of running clients share.
struct Shared {
    load: Load,
    address: SocketAddr,
    began: Instant,
    /// Number of requests that were taken by a sender.
    next: AtomicU64,
    is_over: AtomicBool,
    events: AtomicU64,
    said: Mutex<Clients>,
}

impl Shared {
    fn fail(&self, why: String) {
        if !self.is_over.load(Relaxed) {
            let mut said = self.said.lock().expect("nobody panics holding it");
            said.failed += 1;
            said.why = why;
        }
    }
}

/// Clients that run.
pub(crate) struct Running {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Load {
    /// A load for a crawl, whose answers are prepared for the stand-in.
    pub(crate) fn of(address: SocketAddr, token: &str, dashboards: usize, rate: u32) -> Result<Load> {
        let pages = dashboards as f64 / PAGE_EVERY.as_secs_f64();
        let per_second = f64::from(rate) + pages;
        let mut load = Load { token: token.to_owned(), dashboards, per_second, answers: HashMap::new() };
        let mut connection = Connection::new(address);
        for (target, _) in TARGETS {
            let answer = connection.ask(target, token)?;
            ensure!(answer.starts_with(b"HTTP/1.1 200"), "{target}: {}", String::from_utf8_lossy(&answer));
            load.answers.insert(target.to_owned(), answer);
        }
        Ok(load)
    }

    /// The answers of the crawl, by their targets.
    pub(crate) fn answers(&self) -> HashMap<String, Vec<u8>> {
        self.answers.clone()
    }

    fn target(&self, number: u64) -> &'static str {
        let all: usize = TARGETS.iter().map(|(_, times)| times).sum();
        // A prime step, so that neighbours ask for different things.
        let mut place = (number as usize).wrapping_mul(7) % all;
        for (target, times) in TARGETS {
            if place < times {
                return target;
            }
            place -= times;
        }
        TARGETS[0].0
    }

    /// Starts the clients at this address.
    pub(crate) fn start(&self, address: SocketAddr) -> Result<Running> {
        let shared = Arc::new(Shared {
            load: self.clone(),
            address,
            began: Instant::now(),
            next: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            events: AtomicU64::new(0),
            said: Mutex::default(),
        });
        let mut threads = Vec::new();
        for number in 0..self.dashboards {
            let shared = shared.clone();
            let topics = if number % 10 == 0 { "status,log" } else { "status" };
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
            threads.push(thread.spawn(move || follow(&shared, topics)).context("start a follower")?);
        }
        for _ in 0..SENDERS {
            let shared = shared.clone();
            threads.push(std::thread::spawn(move || send(&shared)));
        }
        Ok(Running { shared, threads })
    }
}

impl Running {
    /// Ends the clients, and says what they saw.
    pub(crate) fn end(self) -> Result<Clients> {
        self.shared.is_over.store(true, Relaxed);
        for thread in self.threads {
            if thread.join().is_err() {
                bail!("a client panicked");
            }
        }
        let mut said = self.shared.said.lock().expect("nobody panics holding it").clone();
        said.events = self.shared.events.load(Relaxed);
        said.latencies.sort_unstable();
        Ok(said)
    }
}

/// Sends requests when they are due.
fn send(shared: &Shared) {
    let (mut connection, mut latencies) = (Connection::new(shared.address), Vec::new());
    while !shared.is_over.load(Relaxed) {
        let number = shared.next.fetch_add(1, Relaxed);
        let due = shared.began + Duration::from_secs_f64(number as f64 / shared.load.per_second);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let target = shared.load.target(number);
        match connection.ask(target, &shared.load.token) {
            Ok(answer) if answer.starts_with(b"HTTP/1.1 200") => {
                latencies.push(u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            Ok(answer) => {
                let line = String::from_utf8_lossy(&answer[..answer.len().min(60)]).into_owned();
                shared.fail(format!("{target}: {line}"));
            }
            Err(error) => shared.fail(format!("{target}: {error:#}")),
        }
    }
    shared.said.lock().expect("nobody panics holding it").latencies.extend(latencies);
}

/// Follows the status, as a dashboard does.
fn follow(shared: &Shared, topics: &str) {
    let followed = || -> Result<()> {
        let mut stream = TcpStream::connect(shared.address)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        let (address, token) = (shared.address, &shared.load.token);
        write!(
            stream,
            "GET /api/v1/live?topics={topics} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        )?;
        let (mut lines, mut line) = (BufReader::new(stream), Vec::new());
        lines.read_until(b'\n', &mut line)?;
        ensure!(line.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&line));
        while !shared.is_over.load(Relaxed) {
            line.clear();
            ensure!(lines.read_until(b'\n', &mut line)? > 0, "the stream ended");
            if line.starts_with(b"event: status") {
                shared.events.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    };
    if let Err(error) = followed() {
        shared.fail(format!("a stream: {error:#}"));
    }
}

/// A connection that is kept between requests.
struct Connection {
    address: SocketAddr,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    fn new(address: SocketAddr) -> Connection {
        Connection { address, stream: None }
    }

    /// The whole answer. A kept connection may have been closed meanwhile; then a new one is opened.
    fn ask(&mut self, target: &str, token: &str) -> Result<Vec<u8>> {
        if let Some(stream) = self.stream.take()
            && let Ok(answer) = self.ask_on(stream, target, token)
        {
            return Ok(answer);
        }
        let stream = TcpStream::connect(self.address).context("connect")?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.set_nodelay(true)?;
        self.ask_on(BufReader::new(stream), target, token)
    }

    fn ask_on(&mut self, mut stream: BufReader<TcpStream>, target: &str, token: &str) -> Result<Vec<u8>> {
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
            self.address
        );
        stream.get_mut().write_all(request.as_bytes())?;
        let (mut answer, mut length, mut is_kept) = (Vec::new(), 0, true);
        loop {
            let from = answer.len();
            ensure!(stream.read_until(b'\n', &mut answer)? > 0, "the connection ended");
            let line = String::from_utf8_lossy(&answer[from..]).trim().to_ascii_lowercase();
            match line.split_once(": ") {
                Some(("content-length", value)) => length = value.parse().context("content-length")?,
                Some(("connection", "close")) => is_kept = false,
                _ if line.is_empty() => break,
                _ => {}
            }
        }
        let from = answer.len();
        answer.resize(from + length, 0);
        stream.read_exact(&mut answer[from..])?;
        self.stream = is_kept.then_some(stream);
        Ok(answer)
    }
}

/// A server that sends prepared answers: the clients cost the same there, and no crawl is asked.
pub(crate) struct Standin {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Standin {
    /// Starts the server. Events have the answer of `GET /api/v1/status` as their data.
    pub(crate) fn start(answers: HashMap<String, Vec<u8>>, load: &Load) -> Result<Standin> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen")?;
        let address = listener.local_addr()?;
        let status = load.answers.get("/api/v1/status").context("no status")?;
        let body =
            status.windows(4).position(|four| four == b"\r\n\r\n").map_or(&[][..], |at| &status[at + 4..]);
        let event: Arc<[u8]> = [b"event: status\ndata: ", body, b"\n\n"].concat().into();
        let (answers, is_over) = (Arc::new(answers), Arc::new(AtomicBool::new(false)));
        let over = is_over.clone();
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if over.load(Relaxed) {
                    return;
                }
                let (Ok(stream), answers, event) = (stream, answers.clone(), event.clone()) else { continue };
                let over = over.clone();
                // An error means that the client has gone.
                let serve = move || _ = serve(stream, &answers, &event, &over);
                _ = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(serve);
            }
        });
        Ok(Standin { address, is_over, accepting: Some(accepting) })
    }

    /// Where the server answers.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Standin {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // The accepting thread looks once more.
        _ = TcpStream::connect(self.address);
        if let Some(thread) = self.accepting.take() {
            _ = thread.join();
        }
    }
}

fn serve(
    stream: TcpStream,
    answers: &HashMap<String, Vec<u8>>,
    event: &[u8],
    is_over: &AtomicBool,
) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut lines = BufReader::new(stream);
    loop {
        let mut target = String::new();
        loop {
            let mut line = String::new();
            ensure!(lines.read_line(&mut line)? > 0, "the client has gone");
            match line.trim_end() {
                "" => break,
                line if target.is_empty() => {
                    line.split(' ').nth(1).unwrap_or_default().clone_into(&mut target)
                }
                _ => {}
            }
        }
        let stream = lines.get_mut();
        if target.starts_with("/api/v1/live") {
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")?;
            while !is_over.load(Relaxed) {
                stream.write_all(event)?;
                std::thread::sleep(EVENT_EVERY);
            }
            return Ok(());
        }
        stream.write_all(answers.get(&target).context("no such answer")?)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_ask_a_server_at_their_rate_and_follow_it() {
        let answer = |body: &str| format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
        let answers: HashMap<String, Vec<u8>> =
            TARGETS.iter().map(|(target, _)| ((*target).to_owned(), answer("{}").into_bytes())).collect();
        let load = Load { token: "t".into(), dashboards: 3, per_second: 200.0, answers: answers.clone() };
        let standin = Standin::start(answers, &load).unwrap();
        let running = load.start(standin.address()).unwrap();
        std::thread::sleep(Duration::from_millis(1_000));
        let said = running.end().unwrap();
        assert_eq!(said.failed, 0, "{}", said.why);
        assert!((100..=240).contains(&said.latencies.len()), "{}", said.line());
        assert!(said.events >= 3, "{}", said.line());
    }

    #[test]
    fn an_answer_that_is_no_success_is_a_failure() {
        let answers = HashMap::from([(
            "/api/v1/status".to_owned(),
            b"HTTP/1.1 503 no\r\ncontent-length: 0\r\n\r\n".to_vec(),
        )]);
        let load = Load { token: "t".into(), dashboards: 0, per_second: 100.0, answers: answers.clone() };
        let standin = Standin::start(answers, &load).unwrap();
        let running = load.start(standin.address()).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let said = running.end().unwrap();
        assert!(said.failed > 5 && said.latencies.is_empty(), "{}", said.line());
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_latencies() {
        let mut clients = Clients::of(&(1..=100).map(|ms| ms * 1_000).collect::<Vec<u32>>());
        clients.add(Clients::default());
        assert_eq!(clients.quantile(0.99), Duration::from_millis(99));
        assert_eq!(clients.quantile(0.5), Duration::from_millis(50));
        assert!((clients.in_time(Duration::from_millis(50)) - 0.5).abs() < 1e-9);
        assert_eq!(Clients::default().quantile(0.99), Duration::ZERO);
    }
}
