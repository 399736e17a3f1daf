//! The journal of the hostile web: requests and connections by case, and DNS queries.
//!
//! Invariant: every list has a bound; the oldest entries are evicted first, the counters go on counting.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Requests kept per case.
pub const SEEN_MAX: usize = 20_000;
/// Bytes of a request head that are kept.
pub const SEEN_HEAD_BYTES_MAX: usize = 8 * 1024;
/// DNS queries kept in all.
pub const QUERIES_MAX: usize = 100_000;

/// One request as seen by a hostile server.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Since the hostile web started.
    pub at: Duration,
    /// Number of the connection of the case that carried the request, from 1.
    pub connection: u64,
    /// Number of the request on that connection, from 1.
    pub number: u64,
    /// The server's address and port.
    pub local: SocketAddr,
    /// Whether the request came over TLS.
    pub tls: bool,
    /// The method; `(h2)` where raw frames are not decoded.
    pub method: String,
    /// Path and query as sent.
    pub path: String,
    /// The head as sent, up to [`SEEN_HEAD_BYTES_MAX`]; for HTTP/2 written out as lines.
    pub head: Vec<u8>,
}

/// How a DNS query came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// One datagram.
    Udp,
    /// A connection.
    Tcp,
}

/// One DNS query as seen by the name server.
#[derive(Clone, Debug)]
pub struct QuerySeen {
    /// Since the hostile web started.
    pub at: Duration,
    /// The name, lower case, without the final dot.
    pub name: String,
    /// The record type asked for: 1 is A, 28 AAAA, 65 HTTPS.
    pub record_type: u16,
    /// The transport of the query.
    pub transport: Transport,
    /// Whether the name server was up and read on.
    pub answered: bool,
}

#[derive(Debug)]
pub(super) struct Journal {
    start: Instant,
    cases: Mutex<HashMap<String, CaseLog>>,
    queries: Mutex<VecDeque<QuerySeen>>,
}

#[derive(Debug, Default)]
struct CaseLog {
    connections: u64,
    connections_open: u64,
    connections_open_max: u64,
    streams_open: u64,
    streams_open_max: u64,
    client_certificates: u64,
    seen: VecDeque<Seen>,
}

impl Journal {
    pub(super) fn new() -> Journal {
        Journal { start: Instant::now(), cases: Mutex::default(), queries: Mutex::default() }
    }

    pub(super) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn cases(&self) -> MutexGuard<'_, HashMap<String, CaseLog>> {
        self.cases.lock().expect("nobody panics while holding the journal")
    }

    fn with<T>(&self, id: &str, change: impl FnOnce(&mut CaseLog) -> T) -> T {
        let mut cases = self.cases();
        // Ids come from our own fixed table, so the map has at most as many entries as there are cases.
        change(cases.entry(id.to_owned()).or_default())
    }

    fn read<T: Default>(&self, id: &str, read: impl FnOnce(&CaseLog) -> T) -> T {
        self.cases().get(id).map(read).unwrap_or_default()
    }

    /// Counts a new connection and gives its number and how many are now open.
    pub(super) fn opened(&self, id: &str) -> (u64, u64) {
        self.with(id, |log| {
            log.connections += 1;
            log.connections_open += 1;
            log.connections_open_max = log.connections_open_max.max(log.connections_open);
            (log.connections, log.connections_open)
        })
    }

    pub(super) fn closed(&self, id: &str) {
        self.with(id, |log| log.connections_open = log.connections_open.saturating_sub(1));
    }

    pub(super) fn stream_opened(&self, id: &str) {
        self.with(id, |log| {
            log.streams_open += 1;
            log.streams_open_max = log.streams_open_max.max(log.streams_open);
        });
    }

    pub(super) fn stream_closed(&self, id: &str) {
        self.with(id, |log| log.streams_open = log.streams_open.saturating_sub(1));
    }

    pub(super) fn offered_certificates(&self, id: &str, count: u64) {
        self.with(id, |log| log.client_certificates += count);
    }

    pub(super) fn request(&self, id: &str, seen: Seen) {
        self.with(id, |log| {
            if log.seen.len() >= SEEN_MAX {
                log.seen.pop_front();
            }
            log.seen.push_back(seen);
        });
    }

    /// How many requests of this case have been for this path, the one being answered included.
    pub(super) fn times_asked(&self, id: &str, path: &str) -> usize {
        self.read(id, |log| log.seen.iter().filter(|seen| seen.path == path).count())
    }

    pub(super) fn query(&self, seen: QuerySeen) {
        let mut queries = self.queries.lock().expect("nobody panics while holding the queries");
        if queries.len() >= QUERIES_MAX {
            queries.pop_front();
        }
        queries.push_back(seen);
    }

    pub(super) fn requests(&self, id: &str) -> Vec<Seen> {
        self.read(id, |log| log.seen.iter().cloned().collect())
    }

    pub(super) fn connections(&self, id: &str) -> u64 {
        self.read(id, |log| log.connections)
    }

    pub(super) fn connections_open_max(&self, id: &str) -> u64 {
        self.read(id, |log| log.connections_open_max)
    }

    pub(super) fn streams_open_max(&self, id: &str) -> u64 {
        self.read(id, |log| log.streams_open_max)
    }

    pub(super) fn client_certificates(&self, id: &str) -> u64 {
        self.read(id, |log| log.client_certificates)
    }

    pub(super) fn queries(&self, name: &str) -> Vec<QuerySeen> {
        let queries = self.queries.lock().expect("nobody panics while holding the queries");
        let wanted =
            |seen: &&QuerySeen| seen.name == name || name.starts_with('.') && seen.name.ends_with(name);
        queries.iter().filter(wanted).cloned().collect()
    }
}
