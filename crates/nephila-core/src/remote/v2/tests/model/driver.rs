//! Random events for the pool and its model, and the comparison after each.

use std::time::Duration;

use super::*;
use crate::chance::Chance;

/// Steps of the short run.
const STEPS: u64 = 100_000;

/// Small limits and a small window, so that all of them are met; the times are the shipped ones.
fn settings() -> Settings {
    Settings {
        lease: Duration::from_millis(LEASE),
        window_bytes: WINDOW,
        capacity_max: CAPACITY,
        sessions_max: SESSIONS,
        asks_max: ASKS,
        sends_max: SENDS,
        body_bytes_max: BODY,
        kept_for: Duration::from_millis(KEPT),
    }
}

struct Run {
    pool: Pool,
    model: Model,
    chance: Chance,
    now: u64,
    next_ask: u64,
    next_connection: u64,
    next_session: u64,
    bodies: BTreeMap<u64, Vec<u8>>,
    /// URLs that were sent lately: connection and number.
    lately: Vec<(u64, u64)>,
    /// Results that came lately: number and session.
    came: Vec<(u64, u64)>,
}

impl Run {
    fn new(seed: u64) -> Run {
        let quiet = LEASE;
        let model = Model { quiet, ..Model::default() };
        Run {
            pool: Pool::new(settings(), Some(quiet)),
            model,
            chance: Chance(seed),
            now: 0,
            next_ask: 1,
            next_connection: 1,
            next_session: 1,
            bodies: BTreeMap::new(),
            lately: Vec::new(),
            came: Vec::new(),
        }
    }

    /// Compares everything that came out.
    fn compare(&mut self) {
        let mut found = Vec::new();
        while let Some(action) = self.pool.poll() {
            match action {
                Action::Send { connection, frame: Frame::Fetch { id, wanted } } => {
                    self.model.sent(connection, id, wanted.connections_max);
                    self.lately.push((connection, id));
                }
                Action::Send { connection, frame: Frame::Error { code, .. } } => {
                    found.push(format!("{connection} error {code:?}"));
                }
                Action::Send { connection, frame } => found.push(format!("{connection} {frame:?}")),
                Action::Close { connection } => found.push(format!("close {connection}")),
                Action::Part { ask, bytes } => self.bodies.entry(ask).or_default().extend_from_slice(&bytes),
                Action::Restart { ask } => self.bodies.entry(ask).or_default().clear(),
                Action::End { ask, end: End::Came { facts, spider, session, sent } } => {
                    assert_eq!(facts.detail, ask.to_string());
                    let body = self.bodies.remove(&ask).unwrap_or_default();
                    found.push(format!("came {ask} {sent} {session} {spider} {body:?}"));
                    self.came.push((ask, session));
                }
                Action::End { ask, end: End::Lost { why, spider, sent } } => {
                    self.bodies.remove(&ask);
                    found.push(format!("lost {ask} {why:?} {sent} {spider}"));
                }
            }
        }
        self.lately.drain(..self.lately.len().saturating_sub(12));
        self.came.drain(..self.came.len().saturating_sub(6));
        found.sort();
        self.model.expected.sort();
        assert_eq!(found, self.model.expected, "at {}", self.now);
        self.model.expected.clear();
        self.model.check_all_sent();
        assert_eq!(self.pool.counters(), self.model.counters, "at {}", self.now);
        assert_eq!(self.pool.open(), self.model.asks.len());
        assert_eq!(self.pool.next(), self.model.next(), "at {}", self.now);
        let [sessions, connections, _, waiting, ..] = self.pool.tables();
        let connected = self.model.sessions.iter().filter(|session| session.connection.is_some()).count();
        assert_eq!((sessions, connections), (self.model.sessions.len(), connected));
        assert_eq!(waiting, self.model.waiting());
    }

    fn step(&mut self) {
        self.now += match self.chance.below(100) {
            0 => self.chance.below(20_000),
            1..=5 => self.model.next().map_or(1, |at| at.saturating_sub(self.now)),
            6..=30 => self.chance.below(1_500),
            _ => 0,
        };
        self.pool.tick(self.now);
        self.model.tick(self.now);
        self.compare();
        match self.chance.below(100) {
            0..=17 => self.ask(),
            18..=19 => self.cancel(),
            20..=24 => self.hello(),
            25 => self.closed(),
            26..=43 => self.beat(),
            44..=46 => self.room(),
            47..=80 => self.result(),
            81..=84 => self.returned(),
            85 => self.bye(),
            86..=96 => self.stored(),
            97 => self.authority(),
            _ => self.nonsense(),
        }
        self.compare();
    }

    fn ask(&mut self) {
        // Now and then the number of an ask that is open; never that of one that has ended.
        let place = self.chance.below(30 * self.model.asks.len().max(1) as u64) as usize;
        let known = self.model.asks.get(place).map(|ask| ask.id);
        let id = known.unwrap_or(self.next_ask);
        self.next_ask += u64::from(known.is_none());
        let address = self.chance.below(4) as u8;
        let limit = match self.chance.below(40) {
            0 => self.chance.below(4) as u32,
            _ => [1, 2, 3, 0][usize::from(address)],
        };
        let expected = self.model.ask(id, address, limit);
        assert_eq!(self.pool.ask(self.now, Ask { id, wanted: wanted(id, address, limit) }), expected);
    }

    fn cancel(&mut self) {
        let id = self.next_ask.saturating_sub(self.chance.below(12));
        self.model.cancel(id);
        self.pool.cancel(self.now, id);
    }

    fn hello(&mut self) {
        let (connection, fresh) = (self.next_connection, self.next_session);
        (self.next_connection, self.next_session) = (connection + 1, fresh + 1);
        let session = match self.chance.below(4) {
            0 => 0,
            1 => self.next_session.saturating_sub(self.chance.below(8)),
            _ => {
                let known = self.model.sessions.len() as u64;
                let place = self.chance.below(known.max(1)) as usize;
                self.model.sessions.get(place).map_or(0, |session| session.id)
            }
        };
        let known = self.model.sessions.iter().find(|known| known.id == session);
        let name = match (known, self.chance.below(8)) {
            (Some(known), 1..) => known.name.clone(),
            _ => format!("s{}", self.chance.below(5)),
        };
        let hello = Hello { name: name.into(), capacity: self.chance.below(5) as u32, session };
        self.model.hello(connection, &hello, fresh);
        self.pool.hello(self.now, connection, hello, fresh, "{}");
    }

    /// A connection: one of those that are open, or now and then one that is not.
    fn connection(&mut self) -> u64 {
        let open: Vec<u64> = self.model.sessions.iter().filter_map(|session| session.connection).collect();
        match self.chance.below(15) {
            1.. if !open.is_empty() => open[self.chance.below(open.len() as u64) as usize],
            _ => self.next_connection.saturating_sub(self.chance.below(6)),
        }
    }

    fn closed(&mut self) {
        let connection = self.connection();
        self.model.closed(connection);
        self.pool.closed(self.now, connection);
    }

    fn frame(&mut self, connection: u64, frame: Frame) {
        self.model.frame(connection, &frame);
        self.pool.frame(self.now, connection, frame);
        self.compare();
    }

    fn beat(&mut self) {
        let (connection, number) = (self.connection(), self.chance.below(1_000));
        self.frame(connection, Frame::Beat { number });
    }

    fn room(&mut self) {
        let (connection, capacity) = (self.connection(), self.chance.below(5) as u32);
        self.frame(connection, Frame::Room { capacity });
    }

    fn bye(&mut self) {
        let connection = self.connection();
        self.frame(connection, Frame::Bye);
    }

    /// One of the URLs that were sent lately, now and then as if another spider had it.
    fn pick(&mut self) -> Option<(u64, u64)> {
        let place = self.chance.below(self.lately.len().max(1) as u64) as usize;
        let (connection, id) = self.lately.get(place).copied()?;
        // The spider may have another connection by now.
        let at = self.model.asks.iter().find(|ask| ask.id == id).and_then(|ask| ask.at);
        let there = self.model.sessions.iter().find(|session| Some(session.id) == at);
        let connection = there.and_then(|session| session.connection).unwrap_or(connection);
        match self.chance.below(15) {
            0 => Some((self.connection(), id)),
            _ => Some((connection, id)),
        }
    }

    fn returned(&mut self) {
        let Some((connection, id)) = self.pick() else { return };
        self.frame(connection, Frame::Return { id });
    }

    /// A result, whole or in parts, now and then a wrong one, now and then without its end.
    fn result(&mut self) {
        let Some((connection, id)) = self.pick() else { return };
        let facts = facts_of(&id.to_string()).to_bytes();
        let body: Vec<u8> = (0..self.chance.below(20)).map(|_| self.chance.below(256) as u8).collect();
        let all = [&facts[..], &body].concat();
        let (mut facts, mut len, mut check) = (facts.len() as u32, body.len() as u64, xxh3_64(&all));
        match self.chance.below(60) {
            0 => len += 1,
            1 => len = len.saturating_sub(1),
            2 => check ^= 1,
            3 => facts = facts.saturating_sub(1),
            4 => len = BODY + 1,
            _ => {}
        }
        let cut = self.chance.below(all.len() as u64 + 1) as usize;
        let (start, rest) = all.split_at(cut);
        self.frame(connection, Frame::Done { id, facts, body: len, start: start.to_vec().into() });
        if self.chance.below(12) == 0 {
            return;
        }
        self.frame(connection, Frame::Data { id, bytes: rest.to_vec().into() });
        if self.chance.below(12) != 0 {
            self.frame(connection, Frame::End { id, check });
        }
    }

    fn stored(&mut self) {
        let place = self.chance.below(self.came.len().max(1) as u64) as usize;
        let Some((id, session)) = self.came.get(place).copied() else { return };
        let is_stored = self.chance.below(5) != 0;
        self.model.stored(id, session, is_stored);
        self.pool.stored(id, session, is_stored);
    }

    fn authority(&mut self) {
        let until = match self.chance.below(3) {
            0 => Some(self.now + self.chance.below(10_000)),
            _ => None,
        };
        self.model.authority = until;
        self.pool.set_authority(until);
    }

    fn nonsense(&mut self) {
        let connection = self.connection();
        let frame = match self.chance.below(4) {
            0 => Frame::Window { bytes: 1 },
            1 => Frame::Data {
                id: self.chance.below(9),
                bytes: vec![1; self.chance.below(70) as usize].into(),
            },
            _ => Frame::End { id: self.next_ask.saturating_sub(self.chance.below(9)), check: 1 },
        };
        self.frame(connection, frame);
    }
}

fn run(seed: u64, steps: u64) -> Counters {
    let mut run = Run::new(seed);
    for _ in 0..steps {
        run.step();
    }
    run.pool.counters()
}

#[test]
fn the_pool_does_what_its_model_does() {
    let counters = run(1, STEPS);
    let Counters { asked, refused, sent, came, lost, returned, cancelled, resumed, unknown, bad_results } =
        counters;
    let often = [asked, refused, sent, came, lost, returned, cancelled, resumed, unknown, bad_results];
    assert!(often.iter().all(|count| *count > 100), "{counters:?}");
}

/// `NEPHILA_POOL_STEPS=10000000 cargo test --release -p nephila-core pool_model_long -- --ignored --nocapture`
#[test]
#[ignore = "long: the number of steps is given in NEPHILA_POOL_STEPS"]
fn pool_model_long() {
    let steps =
        std::env::var("NEPHILA_POOL_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(1_000_000);
    let began = std::time::Instant::now();
    let (mut done, mut seed) = (0, 100);
    while done < steps {
        let counters = run(seed, STEPS);
        (done, seed) = (done + STEPS, seed + 1);
        if seed % 10 == 0 {
            println!("{done} steps in {:?}: {counters:?}", began.elapsed());
        }
    }
    println!("{done} steps in {:?}", began.elapsed());
}
