//! A plain model of the pool, beside it under random events. The model keeps lists and looks through all of them; it
//! shares the types of inputs and outputs with the pool, and no code.
//!
//! Which of several allowed spiders gets a URL is the pool's choice. Everything else is compared after each event: ends,
//! bodies, frames, closed connections, counters, the next tick, what may be sent and what must be.

// The figures are worth seeing.
#![allow(clippy::disallowed_macros)]

mod driver;

use super::*;
use crate::remote::v2::agent::START_MARGIN_MS;
use crate::remote::v2::pool::Counters;

pub(super) const KEPT: u64 = 6 * SECOND;
pub(super) const WINDOW: u64 = 64;
pub(super) const CAPACITY: u32 = 3;
pub(super) const SESSIONS: usize = 4;
pub(super) const ASKS: usize = 8;
pub(super) const SENDS: u32 = 3;
pub(super) const BODY: u64 = 60;

#[derive(Clone, Debug)]
struct MSession {
    id: u64,
    name: String,
    connection: Option<u64>,
    capacity: usize,
    gone_at: u64,
    is_ready: bool,
    is_doomed: bool,
    credit: u64,
    untold: u64,
    came: Vec<u64>,
}

#[derive(Clone, Debug)]
struct MAsk {
    id: u64,
    age: u64,
    address: u8,
    sent: u32,
    is_cancelled: bool,
    at: Option<u64>,
    coming: Option<(u32, u64, Vec<u8>)>,
}

/// The connections of a session to an address.
#[derive(Clone, Debug)]
struct MShare {
    session: u64,
    address: u8,
    most: usize,
    released: Option<u64>,
}

#[derive(Default)]
struct Model {
    now: u64,
    quiet: u64,
    authority: Option<u64>,
    sessions: Vec<MSession>,
    asks: Vec<MAsk>,
    shares: Vec<MShare>,
    /// The limit of each address, as the last ask that began to wait said; and what each ask said.
    limits: BTreeMap<u8, u32>,
    limits_of: BTreeMap<u64, u32>,
    next_age: u64,
    counters: Counters,
    /// What must come out, `FETCH` aside.
    expected: Vec<String>,
}

impl Model {
    fn session(&mut self, id: u64) -> &mut MSession {
        self.sessions.iter_mut().find(|session| session.id == id).unwrap()
    }

    fn at_connection(&self, connection: u64) -> Option<u64> {
        self.sessions.iter().find(|session| session.connection == Some(connection)).map(|session| session.id)
    }

    fn open_at(&self, session: u64, address: Option<u8>) -> usize {
        let is_it =
            |ask: &&MAsk| ask.at == Some(session) && address.is_none_or(|address| ask.address == address);
        self.asks.iter().filter(is_it).count()
    }

    fn waiting(&self) -> usize {
        self.asks.iter().filter(|ask| ask.at.is_none()).count()
    }

    fn tell(&mut self, session: u64, frame: &Frame) {
        if let Some(connection) = self.session(session).connection {
            self.expected.push(format!("{connection} {frame:?}"));
        }
    }

    fn release(&mut self, session: u64, address: u8) {
        let now = self.now;
        let is_it = |share: &&mut MShare| (share.session, share.address) == (session, address);
        self.shares.iter_mut().find(is_it).unwrap().released = Some(now);
    }

    fn tick(&mut self, now: u64) {
        self.now = now;
        for session in self.sessions.clone() {
            if session.gone_at <= now {
                if let Some(connection) = session.connection {
                    self.expected.push(format!("close {connection}"));
                }
                self.end(session.id, Lost::Silent);
            }
        }
        for share in self.shares.clone() {
            if share.released.is_some_and(|at| at + KEPT <= now) {
                let open = self.open_at(share.session, Some(share.address));
                let is_it = |other: &MShare| (other.session, other.address) == (share.session, share.address);
                match open {
                    0 => self.shares.retain(|other| !is_it(other)),
                    _ => {
                        let share = self.shares.iter_mut().find(|other| is_it(other)).unwrap();
                        (share.most, share.released) = (open, None);
                    }
                }
            }
        }
    }

    fn end(&mut self, id: u64, why: Lost) {
        let name = self.session(id).name.clone();
        for ask in self.asks.iter().filter(|ask| ask.at == Some(id) && !ask.is_cancelled) {
            self.counters.lost += 1;
            self.expected.push(format!("lost {} {why:?} {} {name}", ask.id, ask.sent));
        }
        self.asks.retain(|ask| ask.at != Some(id));
        self.shares.retain(|share| share.session != id);
        self.sessions.retain(|session| session.id != id);
    }

    fn hello(&mut self, connection: u64, hello: &Hello, fresh: u64) {
        let Hello { name, capacity, session: wanted } = hello;
        let is_it =
            |session: &&mut MSession| session.id == *wanted && !session.is_doomed && session.name == **name;
        let resumed = self.sessions.iter_mut().find(is_it).is_some();
        if !resumed && self.sessions.len() >= SESSIONS {
            self.expected.push(format!("{connection} error Full"));
            return self.expected.push(format!("close {connection}"));
        }
        let id = if resumed { *wanted } else { fresh };
        if !resumed {
            self.sessions.push(MSession {
                id,
                name: name.to_string(),
                connection: None,
                capacity: 0,
                gone_at: self.now + LEASE,
                is_ready: false,
                is_doomed: false,
                credit: 0,
                untold: 0,
                came: Vec::new(),
            });
        }
        self.counters.resumed += u64::from(resumed);
        let session = self.session(id);
        let old = session.connection.replace(connection);
        (session.capacity, session.is_ready) = ((*capacity).min(CAPACITY) as usize, false);
        (session.credit, session.untold) = (WINDOW, 0);
        if let Some(old) = old {
            self.expected.push(format!("close {old}"));
        }
        let mut open = Vec::new();
        for ask in self.asks.iter_mut().filter(|ask| ask.at == Some(id)) {
            ask.coming = None;
            open.push(ask.id);
        }
        open.sort_unstable();
        self.tell(id, &Frame::Welcome { session: id, resumed, open, window: WINDOW, settings: "{}".into() });
        for ask in self.asks.clone().iter().filter(|ask| ask.at == Some(id) && ask.is_cancelled) {
            self.tell(id, &Frame::Cancel { id: ask.id });
        }
    }

    fn closed(&mut self, connection: u64) {
        if let Some(id) = self.at_connection(connection) {
            self.session(id).connection = None;
        }
    }

    fn ask(&mut self, id: u64, address: u8, limit: u32) -> bool {
        if self.waiting() >= ASKS || self.asks.iter().any(|ask| ask.id == id) {
            self.counters.refused += 1;
            return false;
        }
        self.counters.asked += 1;
        self.limits.insert(address, limit);
        self.limits_of.insert(id, limit);
        let (age, at, coming) = (self.next_age, None, None);
        self.next_age += 1;
        self.asks.push(MAsk { id, age, address, sent: 0, is_cancelled: false, at, coming });
        true
    }

    fn cancel(&mut self, id: u64) {
        let Some(ask) = self.asks.iter_mut().find(|ask| ask.id == id && !ask.is_cancelled) else { return };
        self.counters.cancelled += 1;
        match ask.at {
            Some(session) => {
                ask.is_cancelled = true;
                self.tell(session, &Frame::Cancel { id });
            }
            None => self.asks.retain(|ask| ask.id != id),
        }
    }

    fn stored(&mut self, id: u64, session: u64, is_stored: bool) {
        let Some(at) = self.sessions.iter_mut().find(|at| at.id == session) else { return };
        if let Some(place) = at.came.iter().position(|came| *came == id) {
            at.came.remove(place);
            let frame = if is_stored { Frame::Stored { ids: vec![id] } } else { Frame::Cancel { id } };
            self.tell(session, &frame);
        }
    }

    /// `false`: the spider has broken the rules.
    fn spend(&mut self, session: u64, bytes: usize) -> bool {
        let session = self.session(session);
        if (bytes as u64) > session.credit {
            return false;
        }
        (session.credit, session.untold) = (session.credit - bytes as u64, session.untold + bytes as u64);
        if session.untold >= WINDOW / 2 {
            let bytes = std::mem::take(&mut session.untold);
            session.credit += bytes;
            let id = session.id;
            self.tell(id, &Frame::Window { bytes });
        }
        true
    }

    fn frame(&mut self, connection: u64, frame: &Frame) {
        let Some(id) = self.at_connection(connection) else { return };
        let now = self.now;
        let of = |ask: u64| move |open: &&mut MAsk| open.id == ask && open.at == Some(id);
        let is_good = match frame {
            Frame::Beat { number } => {
                let ms = self.authority.map_or(LEASE, |until| until.saturating_sub(now).min(LEASE));
                let session = self.session(id);
                (session.gone_at, session.is_ready) = (now + LEASE, ms >= START_MARGIN_MS);
                self.tell(id, &Frame::Lease { number: *number, ms });
                true
            }
            Frame::Room { capacity } => {
                self.session(id).capacity = (*capacity).min(CAPACITY) as usize;
                true
            }
            Frame::Bye => {
                self.expected.push(format!("close {connection}"));
                self.end(id, Lost::Left);
                true
            }
            Frame::Done { id: ask, facts, body, start } => match self.asks.iter_mut().find(of(*ask)) {
                None => {
                    self.counters.unknown += 1;
                    self.spend(id, start.len())
                }
                Some(open) if open.coming.is_some() || *body > BODY => false,
                Some(open) => {
                    open.coming = Some((*facts, *body, start.to_vec()));
                    start.len() as u64 <= u64::from(*facts) + body && self.spend(id, start.len())
                }
            },
            Frame::Data { id: ask, bytes } => match self.asks.iter_mut().find(of(*ask)) {
                Some(MAsk { coming: Some((facts, body, all)), .. }) => {
                    all.extend_from_slice(bytes);
                    all.len() as u64 <= u64::from(*facts) + *body && self.spend(id, bytes.len())
                }
                _ => {
                    self.counters.unknown += 1;
                    self.spend(id, bytes.len())
                }
            },
            Frame::End { id: ask, check } => self.whole(id, *ask, *check),
            Frame::Return { id: ask } => self.returned(id, *ask),
            _ => false,
        };
        if !is_good {
            self.counters.bad_results += 1;
            let session = self.session(id);
            (session.is_doomed, session.connection) = (true, None);
            self.expected.push(format!("{connection} error Result"));
            self.expected.push(format!("close {connection}"));
        }
    }

    fn whole(&mut self, id: u64, ask: u64, check: u64) -> bool {
        let is_it = |open: &MAsk| open.id == ask && open.at == Some(id) && open.coming.is_some();
        let Some(place) = self.asks.iter().position(is_it) else {
            self.counters.unknown += 1;
            return true;
        };
        let (facts, body, all) = self.asks[place].coming.take().unwrap();
        let is_whole = all.len() as u64 == u64::from(facts) + body && xxh3_64(&all) == check;
        if !is_whole || Facts::read(&all[..facts as usize]).is_err() {
            return false;
        }
        let open = self.asks.remove(place);
        self.release(id, open.address);
        self.counters.came += 1;
        if open.is_cancelled {
            self.tell(id, &Frame::Cancel { id: ask });
            return true;
        }
        let session = self.session(id);
        session.came.push(ask);
        let name = session.name.clone();
        self.expected.push(format!("came {ask} {} {id} {name} {:?}", open.sent, &all[facts as usize..]));
        true
    }

    fn returned(&mut self, id: u64, ask: u64) -> bool {
        let Some(place) = self.asks.iter().position(|open| open.id == ask && open.at == Some(id)) else {
            self.counters.unknown += 1;
            return true;
        };
        if self.asks[place].coming.is_some() {
            return false;
        }
        self.counters.returned += 1;
        self.release(id, self.asks[place].address);
        self.asks[place].at = None;
        let MAsk { is_cancelled, sent, .. } = self.asks[place];
        if is_cancelled {
            self.asks.remove(place);
            return true;
        }
        let session = self.session(id);
        session.is_ready = false;
        let name = session.name.clone();
        if sent >= SENDS {
            self.asks.remove(place);
            self.counters.lost += 1;
            self.expected.push(format!("lost {ask} Returned {sent} {name}"));
        } else {
            let address = self.asks[place].address;
            let limit = self.limits_of[&ask];
            self.limits.insert(address, limit);
        }
        true
    }

    fn has_room(&self, session: &MSession) -> bool {
        session.connection.is_some() && session.is_ready && self.open_at(session.id, None) < session.capacity
    }

    fn most_at(&self, address: u8) -> usize {
        self.shares.iter().filter(|share| share.address == address).map(|share| share.most).sum()
    }

    /// Whether the session has a connection to the address that it does not use.
    fn has_kept(&self, session: u64, address: u8) -> bool {
        let is_it = |share: &&MShare| (share.session, share.address) == (session, address);
        self.shares.iter().find(is_it).is_some_and(|share| self.open_at(session, Some(address)) < share.most)
    }

    fn may_ask(&self, session: u64, address: u8) -> bool {
        let (limit, most) = (self.limits[&address] as usize, self.most_at(address));
        limit == 0 || most < limit || most == limit && self.has_kept(session, address)
    }

    /// The pool sent a URL: was it allowed to?
    fn sent(&mut self, to: u64, ask: u64, connections_max: u32) {
        assert!(self.now >= self.quiet, "in the quiet time");
        let id = self.at_connection(to).expect("a connection that is open");
        let session = self.session(id).clone();
        assert!(self.has_room(&session), "{session:?} has no room");
        let place = self.asks.iter().position(|open| open.id == ask).expect("an ask that is open");
        let MAsk { address, age, at, .. } = self.asks[place];
        assert_eq!(at, None, "it is at a spider");
        let is_older = |other: &MAsk| other.address == address && other.at.is_none() && other.age < age;
        assert!(!self.asks.iter().any(is_older), "an older ask of the address waits");
        assert!(self.may_ask(id, address), "at {}: too many connections to {address}", self.now);
        if !self.has_kept(id, address) {
            let is_better = |other: &&MSession| self.has_room(other) && self.has_kept(other.id, address);
            assert!(!self.sessions.iter().any(|other| is_better(&other)), "another one keeps a connection");
        }
        let ask = &mut self.asks[place];
        (ask.at, ask.sent) = (Some(id), ask.sent + 1);
        self.counters.sent += 1;
        let open = self.open_at(id, Some(address));
        let is_it = |share: &MShare| (share.session, share.address) == (id, address);
        if !self.shares.iter().any(is_it) {
            self.shares.push(MShare { session: id, address, most: 0, released: None });
        }
        let share = self.shares.iter_mut().find(|share| is_it(share)).unwrap();
        share.most = share.most.max(open);
        let told = if self.limits[&address] == 0 { 0 } else { share.most as u32 };
        assert_eq!(connections_max, told, "a wrong share");
    }

    /// Nothing that could be sent may be left.
    fn check_all_sent(&self) {
        if self.now < self.quiet {
            return;
        }
        for ask in self.asks.iter().filter(|ask| ask.at.is_none()) {
            let left = |session: &&MSession| self.has_room(session) && self.may_ask(session.id, ask.address);
            let left = self.sessions.iter().find(left);
            assert!(left.is_none(), "at {}, not sent: {ask:?} to {left:?}", self.now);
        }
    }

    /// When something happens next if nothing comes.
    fn next(&self) -> Option<u64> {
        let gone = self.sessions.iter().map(|session| session.gone_at);
        let kept = self.shares.iter().filter_map(|share| share.released).map(|at| at + KEPT);
        let quiet = (self.now < self.quiet).then_some(self.quiet);
        gone.chain(kept).chain(quiet).min()
    }
}
