//! The journal: requests, connections and DNS questions of the web, seen from the server's side.
//!
//! A request is recorded when its answer has been handed to the socket or given up, a connection when the socket
//! closes, a DNS question when its answer is sent. Times are microseconds of one monotonic clock that starts with the
//! journal. Events go either to memory (in shards, to reduce lock contention) or to a writer thread as JSON lines.
//!
//! Invariants: memory holds at most `journal_max` events and the writer's queue at most [`QUEUE_MAX`]; events that do
//! not fit are counted as lost, and checkers refuse a journal with losses.

use std::io::{BufWriter, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Capacity of the writer thread's queue, in events.
pub const QUEUE_MAX: usize = 65_536;
/// Shards of the memory.
const SHARDS: usize = 16;

/// One event.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Event {
    /// A request and its answer.
    Request(Request),
    /// A connection from its beginning to its end.
    Connection(Connection),
    /// A DNS question.
    Lookup(Lookup),
}

/// A request and its answer.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Request {
    /// The connection that carried the request.
    pub connection: u64,
    /// When its head had been read.
    pub start_us: u64,
    /// When the last byte of the answer had been handed to the socket, or the answer was given up.
    pub end_us: u64,
    /// Virtual time at the start, in seconds since 1970.
    pub virtual_s: u64,
    /// The server's address.
    pub local: IpAddr,
    /// Whether the request came by TLS.
    pub tls: bool,
    /// Whether the request came by HTTP/2.
    pub http2: bool,
    /// `GET`, mostly.
    pub method: Arc<str>,
    /// `Host` or `:authority`, in lower case.
    pub host: Arc<str>,
    /// Path and query.
    pub path: String,
    /// `User-Agent`.
    pub user_agent: Option<Arc<str>>,
    /// `Accept-Encoding`.
    pub accept_encoding: Option<Arc<str>>,
    /// `If-None-Match` or `If-Modified-Since`.
    pub condition: Option<String>,
    /// Status of the answer.
    pub status: u16,
    /// `Retry-After` of the answer, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
    /// Body bytes handed to the socket.
    pub bytes: u64,
    /// Whether the whole answer was handed over.
    pub is_complete: bool,
}

/// A connection from its beginning to its end.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Connection {
    /// Its number, counted from 1.
    pub id: u64,
    /// When the connection was accepted.
    pub start_us: u64,
    /// When the connection was closed.
    pub end_us: u64,
    /// The server's address.
    pub local: IpAddr,
    /// Whether the connection came to the HTTPS port.
    pub tls: bool,
    /// Number of requests on the connection.
    pub requests: u64,
}

/// A DNS question.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Lookup {
    /// When the question was answered.
    pub start_us: u64,
    /// The name, in lower case, without the last dot.
    pub name: String,
    /// `A`, `AAAA`, …
    pub kind: String,
    /// Whether the question came by TCP.
    pub tcp: bool,
    /// How many addresses were answered.
    pub answers: u32,
}

/// A journal in the form that checkers read.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Log {
    /// Requests by their start.
    pub requests: Vec<Request>,
    /// Connections by their start.
    pub connections: Vec<Connection>,
    /// DNS questions by time.
    pub lookups: Vec<Lookup>,
    /// Events that did not fit.
    pub lost: u64,
}

impl Log {
    /// Sorts events into a log.
    pub fn new(events: impl IntoIterator<Item = Event>, lost: u64) -> Log {
        let mut log = Log { lost, ..Log::default() };
        for event in events {
            match event {
                Event::Request(request) => log.requests.push(request),
                Event::Connection(connection) => log.connections.push(connection),
                Event::Lookup(lookup) => log.lookups.push(lookup),
            }
        }
        log.requests.sort_by_key(|request| request.start_us);
        log.connections.sort_by_key(|connection| connection.start_us);
        log.lookups.sort_by_key(|lookup| lookup.start_us);
        log
    }

    /// Reads JSON lines as the writer wrote them; the number of lines that could not be read counts as lost.
    pub fn read(lines: impl std::io::BufRead) -> std::io::Result<Log> {
        let mut events = Vec::new();
        let mut lost = 0;
        for line in lines.lines() {
            let line = line?;
            if let Ok(event) = serde_json::from_str(&line) {
                events.push(event);
            } else if let Ok(Lost { lost: said }) = serde_json::from_str(&line) {
                lost += said;
            } else {
                lost += 1;
            }
        }
        Ok(Log::new(events, lost))
    }
}

/// The last line of a file that misses events.
#[derive(Deserialize, Serialize)]
struct Lost {
    lost: u64,
}

/// The journal of one web. Cheap to clone.
#[derive(Clone)]
pub struct Journal(Arc<Inner>);

struct Inner {
    began: Instant,
    target: Target,
    lost: Arc<AtomicU64>,
}

enum Target {
    Off,
    Memory {
        shards: Vec<Mutex<Vec<Event>>>,
        left: AtomicUsize,
    },
    /// A `None` in the queue tells the writer to end.
    File {
        queue: SyncSender<Option<Event>>,
        writer: Mutex<Option<JoinHandle<()>>>,
    },
}

impl Journal {
    /// A journal that keeps up to `events_max` events in memory; none at 0.
    pub fn in_memory(events_max: usize) -> Journal {
        let target = match events_max {
            0 => Target::Off,
            _ => Target::Memory {
                shards: (0..SHARDS).map(|_| Mutex::new(Vec::new())).collect(),
                left: AtomicUsize::new(events_max),
            },
        };
        Journal(Arc::new(Inner { began: Instant::now(), target, lost: Arc::default() }))
    }

    /// A journal that writes JSON lines to a file. [`Journal::finish`] ends the writer.
    pub fn to_file(path: &Path) -> std::io::Result<Journal> {
        let file = std::fs::File::create(path)?;
        let (queue, events) = sync_channel(QUEUE_MAX);
        let lost: Arc<AtomicU64> = Arc::default();
        let lost_too = lost.clone();
        let writer = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write_events(&events, BufWriter::new(file), &lost_too))?;
        let target = Target::File { queue, writer: Mutex::new(Some(writer)) };
        Ok(Journal(Arc::new(Inner { began: Instant::now(), target, lost })))
    }

    /// Whether anything is recorded at all.
    pub fn is_on(&self) -> bool {
        !matches!(self.0.target, Target::Off)
    }

    /// Microseconds since the journal began.
    pub fn now_us(&self) -> u64 {
        self.0.began.elapsed().as_micros() as u64
    }

    /// Records an event; `near` picks the shard, so events of one connection share a shard.
    pub fn note(&self, near: u64, event: Event) {
        match &self.0.target {
            Target::Off => {}
            Target::Memory { shards, left } => {
                let room =
                    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
                if room.is_err() {
                    self.0.lost.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                let shard = &shards[near as usize % SHARDS];
                shard.lock().expect("nobody panics while holding a shard").push(event);
            }
            Target::File { queue, .. } => match queue.try_send(Some(event)) {
                Ok(()) => {}
                Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                    self.0.lost.fetch_add(1, Ordering::Relaxed);
                }
            },
        }
    }

    /// A copy of the events in memory; empty when the journal is off or goes to a file.
    pub fn log(&self) -> Log {
        let mut events = Vec::new();
        if let Target::Memory { shards, .. } = &self.0.target {
            for shard in shards {
                events.extend_from_slice(&shard.lock().expect("nobody panics while holding a shard"));
            }
        }
        Log::new(events, self.lost())
    }

    /// Takes everything out of memory and makes room again. Losses stay counted.
    pub fn take(&self) -> Log {
        let mut events = Vec::new();
        if let Target::Memory { shards, left } = &self.0.target {
            for shard in shards {
                events.append(&mut shard.lock().expect("nobody panics while holding a shard"));
            }
            left.fetch_add(events.len(), Ordering::Relaxed);
        }
        Log::new(events, self.lost())
    }

    /// How many requests are in memory: cheaper than a copy of them.
    pub fn requests(&self) -> usize {
        let Target::Memory { shards, .. } = &self.0.target else { return 0 };
        let requests = |shard: &Mutex<Vec<Event>>| {
            let events = shard.lock().expect("nobody panics while holding a shard");
            events.iter().filter(|event| matches!(event, Event::Request(_))).count()
        };
        shards.iter().map(requests).sum()
    }

    /// Events that did not fit.
    pub fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Ends the writer of a file once its queue is written. Later events are counted as lost.
    pub fn finish(&self) {
        if let Target::File { queue, writer } = &self.0.target {
            let writer = writer.lock().expect("nobody panics while holding the writer").take();
            if let Some(writer) = writer
                && queue.send(None).is_ok()
            {
                writer.join().ok();
            }
        }
    }
}

fn write_events(events: &Receiver<Option<Event>>, mut out: BufWriter<std::fs::File>, lost: &AtomicU64) {
    while let Ok(Some(event)) = events.recv() {
        let written = serde_json::to_writer(&mut out, &event).is_ok() && out.write_all(b"\n").is_ok();
        if !written {
            lost.fetch_add(1, Ordering::Relaxed);
        }
    }
    let lost = Lost { lost: lost.load(Ordering::Relaxed) };
    if lost.lost > 0 {
        // The disk that refused an event may refuse this too; then the file is short and its reader finds out.
        serde_json::to_writer(&mut out, &lost).ok();
    }
    out.flush().ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(n: u64) -> Event {
        Event::Lookup(Lookup {
            start_us: n,
            name: format!("h{n}.d0.test"),
            kind: "A".to_owned(),
            tcp: false,
            answers: 1,
        })
    }

    #[test]
    fn memory_keeps_what_fits_and_counts_the_rest() {
        let journal = Journal::in_memory(10);
        (0..15).for_each(|n| journal.note(n, lookup(n)));
        assert_eq!((journal.log().lookups.len(), journal.lost()), (10, 5));
        assert_eq!(journal.take().lookups.len(), 10);
        journal.note(1, lookup(1));
        assert_eq!(journal.log().lookups.len(), 1);
    }

    #[test]
    fn a_journal_that_is_off_keeps_nothing_and_loses_nothing() {
        let journal = Journal::in_memory(0);
        journal.note(1, lookup(1));
        assert_eq!(journal.log(), Log::default());
    }

    #[test]
    fn a_file_reads_back_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let journal = Journal::to_file(&path).unwrap();
        (0..100).for_each(|n| journal.note(n, lookup(n)));
        journal.finish();
        let log = Log::read(std::io::BufReader::new(std::fs::File::open(&path).unwrap())).unwrap();
        assert_eq!((log.lookups.len(), log.lost), (100, 0));
        let damaged = Log::read(&b"{\"event\":\"lookup\"}\n{\"lost\":3}\n"[..]).unwrap();
        assert_eq!(damaged.lost, 4);
    }
}
