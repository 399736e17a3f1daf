//! Version 2, rule by rule: its frames, the pool, the agent. `model.rs` compares the pool with a plain model under random
//! events; the simulation `spiders` of `nephila-sim` runs pool and agents together.

mod agents;
mod frames;
mod model;
mod pools;
mod results;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::BytesMut;
use xxhash_rust::xxh3::xxh3_64;

use super::frame::{CAPACITY_MAX, Code, DATA_BYTES_MAX, Frame, HEAD_BYTES, PAYLOAD_BYTES_MAX};
use super::message::{Facts, Wanted};
use super::pool::{Action, Ask, End, Hello, Lost, Pool, Settings};
use crate::spider::Outcome;

const SECOND: u64 = 1_000;
/// The shipped lease.
const LEASE: u64 = 15 * SECOND;

fn wanted(id: u64, address: u8, connections_max: u32) -> Wanted {
    Wanted {
        url: format!("http://a{address}.test/{id}"),
        address: [192, 0, 2, address].into(),
        connections_max,
        head_only: false,
        keep_exchange: false,
        second: false,
        is_typed: false,
        keep_connection: true,
        body_bytes_max: None,
        read_as: None,
        fields: Vec::new(),
    }
}

fn facts_of(detail: &str) -> Facts {
    Facts {
        outcome: Outcome::Fetched,
        detail: detail.to_owned(),
        status: None,
        fields: Vec::new(),
        address: None,
        protocol: String::new(),
        tls: (String::new(), String::new()),
        certificate: None,
        reused: false,
        requests: 1,
        again: false,
        phases: [None; 5],
        total: 0,
        head_bytes: 0,
        body_bytes: 0,
        decoded_bytes: 0,
        decoding: String::new(),
        redirect: String::new(),
        truncated: None,
        retry_after: None,
        found: Vec::new(),
        exchange: None,
    }
}

/// The frames of a whole result.
fn result(id: u64, body: &[u8]) -> [Frame; 2] {
    let facts = facts_of(&id.to_string()).to_bytes();
    let all = [&facts[..], body].concat();
    let check = xxh3_64(&all);
    let (facts, body) = (facts.len() as u32, body.len() as u64);
    [Frame::Done { id, facts, body, start: all.into() }, Frame::End { id, check }]
}

/// A pool, and what came out of it.
struct Bench {
    pool: Pool,
    sent: Vec<(u64, Frame)>,
    closed: Vec<u64>,
    ends: Vec<(u64, End)>,
    bodies: BTreeMap<u64, Vec<u8>>,
    beats: u64,
}

fn bench() -> Bench {
    bench_of(Settings::default(), None)
}

fn bench_of(settings: Settings, quiet: Option<u64>) -> Bench {
    let pool = Pool::new(settings, quiet);
    let (sent, closed, ends) = (Vec::new(), Vec::new(), Vec::new());
    Bench { pool, sent, closed, ends, bodies: BTreeMap::new(), beats: 0 }
}

impl Bench {
    fn drain(&mut self) {
        while let Some(action) = self.pool.poll() {
            match action {
                Action::Send { connection, frame } => self.sent.push((connection, frame)),
                Action::Close { connection } => self.closed.push(connection),
                Action::Part { ask, bytes } => self.bodies.entry(ask).or_default().extend_from_slice(&bytes),
                Action::Restart { ask } => self.bodies.entry(ask).or_default().clear(),
                Action::End { ask, end } => self.ends.push((ask, end)),
            }
        }
    }

    fn hello(&mut self, now: u64, connection: u64, capacity: u32, session: u64) {
        let hello = Hello { name: Arc::from("one"), capacity, session };
        self.pool.hello(now, connection, hello, 1_000 + connection, "{}");
        self.drain();
    }

    /// A spider with a session, which it returns, and with a lease.
    fn spider(&mut self, now: u64, connection: u64, capacity: u32, session: u64) -> u64 {
        self.hello(now, connection, capacity, session);
        let (id, _) = self.welcome();
        self.beat(now, connection);
        id
    }

    /// Session and URLs of the last `WELCOME`; the URLs only if the session goes on.
    fn welcome(&mut self) -> (u64, Option<Vec<u64>>) {
        let last = self.sent.iter().rev().find_map(|(_, frame)| match frame {
            Frame::Welcome { session, resumed, open, .. } => Some((*session, resumed.then(|| open.clone()))),
            _ => None,
        });
        last.expect("a WELCOME")
    }

    fn beat(&mut self, now: u64, connection: u64) {
        self.beats += 1;
        self.frame(now, connection, Frame::Beat { number: self.beats });
    }

    fn frame(&mut self, now: u64, connection: u64, frame: Frame) {
        self.pool.frame(now, connection, frame);
        self.drain();
    }

    fn ask(&mut self, now: u64, id: u64, address: u8, connections_max: u32) {
        assert!(self.pool.ask(now, Ask { id, wanted: wanted(id, address, connections_max) }));
        self.drain();
    }

    fn tick(&mut self, now: u64) {
        self.pool.tick(now);
        self.drain();
    }

    fn result(&mut self, now: u64, connection: u64, id: u64) {
        for frame in result(id, b"body") {
            self.frame(now, connection, frame);
        }
    }

    /// What was sent since the last look, `LEASE` aside.
    fn sent(&mut self) -> Vec<(u64, Frame)> {
        let sent = std::mem::take(&mut self.sent).into_iter();
        sent.filter(|(_, frame)| !matches!(frame, Frame::Lease { .. } | Frame::Welcome { .. })).collect()
    }

    /// The URLs that were sent since the last look, and where to.
    fn fetches(&mut self) -> Vec<(u64, u64)> {
        let fetch = |(connection, frame)| match frame {
            Frame::Fetch { id, .. } => Some((connection, id)),
            _ => None,
        };
        self.sent().into_iter().filter_map(fetch).collect()
    }

    /// Why asks were lost since the last look.
    fn lost(&mut self) -> Vec<(u64, Lost)> {
        let lost = |(ask, end)| match end {
            End::Lost { why, .. } => Some((ask, why)),
            End::Came { .. } => None,
        };
        std::mem::take(&mut self.ends).into_iter().filter_map(lost).collect()
    }

    /// The asks that ended with a result since the last look.
    fn came(&mut self) -> Vec<u64> {
        let came = |(ask, end)| matches!(end, End::Came { .. }).then_some(ask);
        std::mem::take(&mut self.ends).into_iter().filter_map(came).collect()
    }
}
