//! The node's side towards its spiders of version 2: which spider gets which URL, and when a spider counts as gone.
//!
//! A spider that says `HELLO` has a **session**, which outlives its connection for as long as the **lease** runs: a spider
//! that is back in time goes on where it was. A lease that has lapsed ends the session, and its URLs are **lost**: by then
//! the spider has closed all connections to all sites (see [`super`]).
//!
//! An ask (a URL to fetch) goes to a spider with room. Sites count connections by address, so the connections of an
//! address are **shared out**: an address with a limit of one connection belongs to one spider as long as a connection may
//! be open there ([`Settings::kept_for`]), one with a limit of 64 may be asked by many. See [`shares`].
//!
//! Usage: call [`Pool::hello`], [`Pool::ask`], [`Pool::frame`] and so on as things happen, do everything that
//! [`Pool::poll`] says, and call [`Pool::tick`] at [`Pool::next`]. Times are milliseconds on a monotonic clock.
//!
//! Invariants: each ask ends once, or is cancelled; an ask is at one session at a time, and goes to another one only when
//! the first has returned it or its lease has lapsed; the spiders together have at most as many connections to an address
//! as its limit; memory is bounded by the settings.

mod results;
mod shares;
mod types;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::agent::START_MARGIN_MS;
use super::frame::{CAPACITY_MAX, Code, Frame};
use super::message::Wanted;
use crate::frontier::slot::SlotKey;
use crate::planted::{self, Bug};
use results::Coming;
use shares::Address;

pub use types::{Action, Ask, Counters, End, Lost, Settings, SpiderView};

/// The node's side towards all its spiders.
#[derive(Debug)]
pub struct Pool {
    settings: Settings,
    sessions: BTreeMap<u64, Session>,
    by_connection: BTreeMap<u64, u64>,
    asks: BTreeMap<u64, Open>,
    /// Number of asks that wait for a spider.
    waiting: usize,
    addresses: BTreeMap<SlotKey, Address>,
    /// Addresses whose next ask any spider may get, by its age.
    any: BTreeSet<(u64, SlotKey)>,
    /// Sessions with room, by the number of their asks.
    roomy: BTreeSet<(usize, u64)>,
    /// Sessions with room for which an address waits.
    homing: BTreeSet<u64>,
    /// When the lease of a session lapses.
    leases: BTreeSet<(u64, u64)>,
    /// When the connections of a session to an address that it does not use are surely closed.
    idle: BTreeSet<(u64, SlotKey, u64)>,
    /// Until when this node may have its spiders ask sites. `None`: nobody else would ask.
    authority: Option<u64>,
    /// No URL is sent before this time: spiders of an earlier process may still ask sites.
    quiet: Option<u64>,
    next_age: u64,
    counters: Counters,
    actions: VecDeque<Action>,
}

#[derive(Debug)]
struct Session {
    name: Arc<str>,
    connection: Option<u64>,
    capacity: usize,
    /// Asks at this session, and those whose results are not stored.
    open: BTreeSet<u64>,
    came: BTreeSet<u64>,
    addresses: BTreeSet<SlotKey>,
    /// Addresses that wait for this session, by the age of their first ask.
    waiting: BTreeSet<(u64, SlotKey)>,
    /// When it counts as gone: no lease that it was given runs longer.
    lease: u64,
    /// Whether it may get URLs: it has asked for a lease on this connection, and has returned nothing since.
    is_ready: bool,
    /// Bytes of results that it may send, and those that it was not told of.
    credit: u64,
    untold: u64,
    /// Whether the session has broken the rules: it does not go on after a break of the connection.
    is_doomed: bool,
    fetched: u64,
    /// Its key in `roomy`.
    roomy: Option<usize>,
}

/// An open ask.
#[derive(Debug)]
struct Open {
    wanted: Wanted,
    age: u64,
    sent: u32,
    /// Nobody waits for it any more.
    is_cancelled: bool,
    at: At,
}

#[derive(Debug)]
enum At {
    /// Waits for a spider.
    Queue,
    /// At a session.
    Session { session: u64, coming: Option<Box<Coming>> },
}

impl Pool {
    /// A pool without spiders. `quiet`: no URL is sent before this time, since spiders that an earlier process of this node
    /// gave a lease to may still ask sites. The rests of sites count from this time too, which is the caller's part.
    pub fn new(settings: Settings, quiet: Option<u64>) -> Pool {
        Pool {
            settings,
            quiet,
            sessions: BTreeMap::new(),
            by_connection: BTreeMap::new(),
            asks: BTreeMap::new(),
            waiting: 0,
            addresses: BTreeMap::new(),
            any: BTreeSet::new(),
            roomy: BTreeSet::new(),
            homing: BTreeSet::new(),
            leases: BTreeSet::new(),
            idle: BTreeSet::new(),
            authority: None,
            next_age: 0,
            counters: Counters::default(),
            actions: VecDeque::new(),
        }
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Number of asks, those that were cancelled while a spider has them included.
    pub fn open(&self) -> usize {
        self.asks.len()
    }

    /// The spiders with a session.
    pub fn spiders(&self) -> impl Iterator<Item = SpiderView> + '_ {
        self.sessions.iter().map(|(id, session)| SpiderView {
            session: *id,
            name: session.name.clone(),
            is_connected: session.connection.is_some(),
            capacity: session.capacity,
            open: session.open.len(),
            fetched: session.fetched,
        })
    }

    /// How much each table holds.
    #[cfg(test)]
    pub(super) fn tables(&self) -> [usize; 10] {
        [
            self.sessions.len(),
            self.by_connection.len(),
            self.asks.len(),
            self.waiting,
            self.addresses.len(),
            self.any.len(),
            self.roomy.len(),
            self.homing.len(),
            self.leases.len(),
            self.idle.len(),
        ]
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Pool::tick`] if nothing happens before.
    pub fn next(&self) -> Option<u64> {
        let lease = self.leases.first().map(|(at, _)| *at);
        let idle = self.idle.first().map(|(at, ..)| *at);
        [lease, idle, self.quiet].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: u64) {
        while let Some((_, session)) = self.leases.first().copied().filter(|(at, _)| *at <= now) {
            self.end_session(now, session, Lost::Silent);
        }
        while let Some(first @ (_, slot, session)) = self.idle.first().copied().filter(|(at, ..)| *at <= now)
        {
            self.idle.remove(&first);
            self.settle(slot, session);
        }
        self.quiet = self.quiet.filter(|until| now < *until);
        self.dispatch();
    }

    /// Until when, by its own lease, this node may have sites asked. Leases of spiders end no later.
    pub fn set_authority(&mut self, until: Option<u64>) {
        self.authority = until;
    }

    /// A spider has said `HELLO`, and may fetch for this node. `fresh` is a number for a new session that none had
    /// before, also not in an earlier process; it is not 0.
    pub fn hello(&mut self, now: u64, connection: u64, hello: Hello, fresh: u64, fetch_settings: &str) {
        self.tick(now);
        let Hello { name, capacity, session: wanted } = hello;
        let may_go_on =
            self.sessions.get(&wanted).is_some_and(|session| !session.is_doomed && session.name == name);
        if !may_go_on && self.sessions.len() >= self.settings.sessions_max {
            return self.refuse(connection, Code::Full, "too many spiders (spiders.connections_max)");
        }
        let id = if may_go_on { wanted } else { fresh };
        let lease = now.saturating_add(self.settings.lease_ms());
        let session = self.sessions.entry(id).or_insert_with(|| Session {
            name,
            connection: None,
            capacity: 0,
            open: BTreeSet::new(),
            came: BTreeSet::new(),
            addresses: BTreeSet::new(),
            waiting: BTreeSet::new(),
            lease,
            is_ready: false,
            credit: 0,
            untold: 0,
            is_doomed: false,
            fetched: 0,
            roomy: None,
        });
        let old = session.connection.replace(connection);
        session.is_ready = false;
        session.capacity = capacity.min(self.settings.capacity_max).min(CAPACITY_MAX) as usize;
        (session.credit, session.untold) = (self.settings.window_bytes, 0);
        let open: Vec<u64> = session.open.iter().copied().collect();
        self.leases.insert((session.lease, id));
        self.by_connection.insert(connection, id);
        if let Some(old) = old {
            self.by_connection.remove(&old);
            self.actions.push_back(Action::Close { connection: old });
        }
        self.counters.resumed += u64::from(may_go_on);
        for ask in &open {
            self.restart(*ask);
        }
        let is_cancelled = |ask: &u64| self.asks.get(ask).is_some_and(|open| open.is_cancelled);
        let cancelled: Vec<u64> = open.iter().copied().filter(is_cancelled).collect();
        let (window, settings) = (self.settings.window_bytes, fetch_settings.to_owned());
        let welcome = Frame::Welcome { session: id, resumed: may_go_on, open, window, settings };
        self.actions.push_back(Action::Send { connection, frame: welcome });
        // It may not have heard of it: before its next lease it does.
        cancelled.into_iter().for_each(|ask| self.tell(id, Frame::Cancel { id: ask }));
        self.refresh(id);
        self.dispatch();
    }

    /// The result of an ask comes from its beginning again.
    fn restart(&mut self, ask: u64) {
        if let Some(Open { at: At::Session { coming, .. }, is_cancelled, .. }) = self.asks.get_mut(&ask)
            && coming.take().is_some()
            && !*is_cancelled
        {
            self.actions.push_back(Action::Restart { ask });
        }
    }

    /// How long a spider may ask sites from now on.
    fn lease(&self, now: u64) -> u64 {
        let own = self.authority.map_or(u64::MAX, |until| until.saturating_sub(now));
        self.settings.lease_ms().min(own)
    }

    fn refuse(&mut self, connection: u64, code: Code, text: &str) {
        let frame = Frame::Error { code, text: text.to_owned() };
        self.actions.push_back(Action::Send { connection, frame });
        self.actions.push_back(Action::Close { connection });
    }

    /// A connection is closed, by whichever side. The spider may be back.
    pub fn closed(&mut self, now: u64, connection: u64) {
        self.tick(now);
        if let Some(id) = self.by_connection.remove(&connection)
            && let Some(session) = self.sessions.get_mut(&id)
        {
            session.connection = None;
            self.refresh(id);
            if planted::is(Bug::PassedOnAtClose) {
                self.end_session(now, id, Lost::Silent);
            }
        }
    }

    /// Takes a URL that is to be fetched. It ends with one [`Action::End`], unless it is cancelled before. `false`: too
    /// many wait.
    #[must_use]
    pub fn ask(&mut self, now: u64, ask: Ask) -> bool {
        self.tick(now);
        if self.waiting >= self.settings.asks_max || self.asks.contains_key(&ask.id) {
            self.counters.refused += 1;
            return false;
        }
        let age = self.next_age;
        self.next_age += 1;
        let slot = SlotKey::of(ask.wanted.address);
        self.asks
            .insert(ask.id, Open { wanted: ask.wanted, age, sent: 0, is_cancelled: false, at: At::Queue });
        self.counters.asked += 1;
        self.enqueue(slot, age, ask.id);
        self.dispatch();
        true
    }

    /// Takes an ask back: it will not end. A spider that has the URL is told, but may ask the site until it has heard of
    /// it, or its lease has lapsed: for [`Settings::lease`] from now on, the site counts as asked.
    pub fn cancel(&mut self, now: u64, ask: u64) {
        self.take_back(ask);
        // Afterwards: what ends now would end the ask as well.
        self.tick(now);
    }

    fn take_back(&mut self, ask: u64) {
        let Some(open) = self.asks.get_mut(&ask).filter(|open| !open.is_cancelled) else { return };
        self.counters.cancelled += 1;
        let slot = SlotKey::of(open.wanted.address);
        match &open.at {
            At::Queue => {
                let age = open.age;
                self.asks.remove(&ask);
                self.dequeue(slot, age);
            }
            // The connection stays taken until the spider says that it is closed.
            At::Session { session, .. } => {
                open.is_cancelled = true;
                let session = *session;
                self.tell(session, Frame::Cancel { id: ask });
            }
        }
    }

    /// The result of an ask that has ended is durable, or will never be.
    pub fn stored(&mut self, ask: u64, session: u64, is_stored: bool) {
        let Some(at) = self.sessions.get_mut(&session) else { return };
        if at.came.remove(&ask) {
            let frame = match is_stored {
                true => Frame::Stored { ids: vec![ask] },
                false => Frame::Cancel { id: ask },
            };
            self.tell(session, frame);
        }
    }

    fn tell(&mut self, session: u64, frame: Frame) {
        if let Some(connection) = self.sessions.get(&session).and_then(|session| session.connection) {
            self.actions.push_back(Action::Send { connection, frame });
        }
    }

    /// A frame came from a spider that has said `HELLO` before. `now` is read after the frame has come, since the lease of
    /// a `BEAT` counts from then.
    pub fn frame(&mut self, now: u64, connection: u64, frame: Frame) {
        self.tick(now);
        let Some(id) = self.by_connection.get(&connection).copied() else { return };
        let result = match frame {
            Frame::Beat { number } => {
                self.renew(now, id, number);
                Ok(())
            }
            Frame::Room { capacity } => {
                if let Some(session) = self.sessions.get_mut(&id) {
                    session.capacity = capacity.min(self.settings.capacity_max).min(CAPACITY_MAX) as usize;
                }
                self.refresh(id);
                Ok(())
            }
            Frame::Done { id: ask, facts, body, start } => self.begin(id, ask, facts, body, start),
            Frame::Data { id: ask, bytes } => self.part(id, ask, bytes),
            Frame::End { id: ask, check } => self.end(now, id, ask, check),
            Frame::Return { id: ask } => self.returned(now, id, ask),
            Frame::Bye => {
                self.end_session(now, id, Lost::Left);
                self.actions.push_back(Action::Close { connection });
                Ok(())
            }
            _ => Err("a frame that a spider does not send now"),
        };
        if let Err(why) = result {
            self.counters.bad_results += 1;
            if let Some(session) = self.sessions.get_mut(&id) {
                (session.is_doomed, session.connection) = (true, None);
            }
            self.by_connection.remove(&connection);
            self.refresh(id);
            self.refuse(connection, Code::Result, why);
        }
        self.dispatch();
    }

    fn renew(&mut self, now: u64, id: u64, number: u64) {
        let ms = self.lease(now);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        self.leases.remove(&(session.lease, id));
        // Also for a shorter lease: a node that may not have sites asked for a moment keeps its spiders.
        session.lease = now.saturating_add(self.settings.lease_ms());
        session.is_ready = ms >= START_MARGIN_MS;
        self.leases.insert((session.lease, id));
        self.tell(id, Frame::Lease { number, ms });
        self.refresh(id);
    }

    fn lose(&mut self, ask: u64, sent: u32, why: Lost, session: u64) {
        self.counters.lost += 1;
        let spider = self.sessions.get(&session).map(|session| session.name.clone()).unwrap_or_default();
        self.actions.push_back(Action::End { ask, end: End::Lost { why, spider, sent } });
    }

    /// Takes an ask away from its session.
    fn leave(&mut self, now: u64, ask: u64) -> Option<Open> {
        let open = self.asks.remove(&ask)?;
        if let At::Session { session, .. } = open.at {
            if let Some(at) = self.sessions.get_mut(&session) {
                at.open.remove(&ask);
            }
            self.release(now, SlotKey::of(open.wanted.address), session);
            self.refresh(session);
        }
        Some(open)
    }

    /// The spider asks no site any more: its lease has lapsed, or it said so.
    fn end_session(&mut self, now: u64, id: u64, why: Lost) {
        let Some(session) = self.sessions.get(&id) else { return };
        let (open, lease, connection) = (session.open.clone(), session.lease, session.connection);
        self.leases.remove(&(lease, id));
        for ask in open {
            if let Some(open) = self.leave(now, ask).filter(|open| !open.is_cancelled) {
                self.lose(ask, open.sent, why, id);
            }
        }
        if let Some(connection) = connection {
            self.by_connection.remove(&connection);
            if why == Lost::Silent {
                self.actions.push_back(Action::Close { connection });
            }
        }
        self.forget_shares(id);
        self.sessions.remove(&id);
    }
}

/// What a spider says of itself, its token aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Its name.
    pub name: Arc<str>,
    /// Maximum number of URLs that it holds.
    pub capacity: u32,
    /// The session to go on with; 0 for a new one.
    pub session: u64,
}
