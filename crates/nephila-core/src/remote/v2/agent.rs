//! The spider's side of version 2: what it fetches, what it sends, and what it does without its node.
//!
//! Usage: call [`Agent::connected`], [`Agent::frame`], [`Agent::ended`] and so on as things happen, do everything that
//! [`Agent::poll`] says, and call [`Agent::tick`] at [`Agent::next`]. Whenever the connection can take more, write what
//! [`Agent::next_piece`] says. Times are milliseconds on a monotonic clock.
//!
//! Invariants: a fetch begins only while at least [`START_MARGIN_MS`] of the lease are left, and is aborted
//! [`ABORT_MARGIN_MS`] before the lease ends; a result is kept until the node has stored it or does not want it; results
//! wait for each other in turns of one frame, and a new one first, so that a large body delays nobody.

use std::collections::{BTreeMap, VecDeque};

use super::VERSION;
use super::frame::{Code, DATA_BYTES_MAX, Frame};
use super::message::Wanted;
use crate::planted::{self, Bug};

/// A fetch begins only while this much of the lease is left.
pub const START_MARGIN_MS: u64 = 3_000;
/// Fetches are aborted this long before the lease ends.
pub const ABORT_MARGIN_MS: u64 = 1_000;
/// Time between two beats.
pub const BEAT_EVERY_MS: u64 = 3_000;
/// A node that says nothing for this long is gone, while there is no lease that could end.
pub const ANSWER_MS: u64 = 15_000;
/// Maximum number of beats without an answer that are remembered.
const BEATS_MAX: usize = 16;

/// What a spider says of itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its token.
    pub token: String,
    /// Maximum number of URLs that it holds.
    pub capacity: u32,
    /// Maximum number of bytes of results that it holds. With more, it takes no URLs.
    pub held_bytes_max: u64,
}

/// The spider's side towards its node.
#[derive(Debug)]
pub struct Agent {
    identity: Identity,
    link: Link,
    session: u64,
    /// When fetches are aborted. 0: there is no lease.
    lease: u64,
    /// Beats without an answer: number, and when they were sent.
    beats: VecDeque<(u64, u64)>,
    next_beat: u64,
    beat_at: u64,
    /// When the node is gone if it says nothing, and there is no lease.
    silent_at: u64,
    tickets: BTreeMap<u64, Ticket>,
    /// Results of which nothing was sent, and results of which something was.
    fresh: VecDeque<u64>,
    going: VecDeque<u64>,
    window: u64,
    held: u64,
    /// The room that the node was told of.
    room: u32,
    is_leaving: bool,
    actions: VecDeque<Action>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Down,
    /// `HELLO` was sent.
    Greeted,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ticket {
    Running,
    /// The fetch has ended: bytes of facts, all bytes, and how many of them were sent.
    Held {
        facts: u32,
        len: u64,
        sent: Option<u64>,
        is_over: bool,
    },
}

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Write this frame.
    Send(Frame),
    /// Fetch a URL, then call [`Agent::ended`].
    Start {
        /// Its number.
        id: u64,
        /// What to fetch, and how.
        wanted: Box<Wanted>,
    },
    /// End a fetch, and close its connection. [`Agent::ended`] is not to be called.
    Abort {
        /// The URL's number.
        id: u64,
    },
    /// Forget a result.
    Forget {
        /// The URL's number.
        id: u64,
    },
    /// A session has begun: fetch with these settings from now on.
    Begin {
        /// Settings of fetches, in JSON.
        settings: String,
    },
    /// Close all connections to sites, also those that are kept.
    CloseSites,
    /// Close the connection to the node.
    Close(Closed),
}

/// Why the connection to the node is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The node said so.
    Refused(Code, String),
    /// The node was not heard of until the lease ended.
    Silent,
    /// The node sent what a node does not send.
    Frame,
    /// Everything is done, and the spider ends.
    Left,
}

/// What to write next of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The URL's number.
    pub id: u64,
    /// Whether the result begins here (`DONE`), with this many bytes of facts, and this many bytes of facts and body.
    pub begins: Option<(u32, u64)>,
    /// Where the piece begins.
    pub from: u64,
    /// Number of bytes.
    pub len: usize,
    /// Whether the result ends here (`END`).
    pub ends: bool,
}

impl Agent {
    /// A spider without a connection.
    pub fn new(identity: Identity) -> Agent {
        Agent {
            room: identity.capacity,
            identity,
            link: Link::Down,
            session: 0,
            lease: 0,
            beats: VecDeque::new(),
            next_beat: 1,
            beat_at: 0,
            silent_at: 0,
            tickets: BTreeMap::new(),
            fresh: VecDeque::new(),
            going: VecDeque::new(),
            window: 0,
            held: 0,
            is_leaving: false,
            actions: VecDeque::new(),
        }
    }

    /// Number of URLs that are fetched now.
    pub fn running(&self) -> usize {
        self.tickets.values().filter(|ticket| **ticket == Ticket::Running).count()
    }

    /// Number of URLs that are fetched, and of results that the node has not stored.
    pub fn open(&self) -> usize {
        self.tickets.len()
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`Agent::tick`] if nothing happens before.
    pub fn next(&self) -> Option<u64> {
        let beat = (self.link == Link::Up).then_some(self.beat_at);
        let lease = (self.lease > 0).then_some(self.lease);
        let silent = (self.lease == 0 && self.link != Link::Down).then_some(self.silent_at);
        [beat, lease, silent].into_iter().flatten().min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: u64) {
        if self.lease > 0 && now >= self.lease {
            self.drop_all();
            if self.link != Link::Down {
                self.close(Closed::Silent);
            }
        }
        if self.lease == 0 && self.link != Link::Down && now >= self.silent_at {
            self.close(Closed::Silent);
        }
        if self.link == Link::Up && now >= self.beat_at {
            self.beat(now);
        }
        self.maybe_leave();
    }

    fn beat(&mut self, now: u64) {
        let number = self.next_beat;
        self.next_beat += 1;
        self.beat_at = now + BEAT_EVERY_MS;
        if self.beats.len() == BEATS_MAX {
            self.beats.pop_front();
        }
        self.beats.push_back((number, now));
        self.actions.push_back(Action::Send(Frame::Beat { number }));
    }

    /// Without a lease: no site is asked any more, and nothing of the session is known.
    fn drop_all(&mut self) {
        for (id, ticket) in std::mem::take(&mut self.tickets) {
            self.actions.push_back(match ticket {
                Ticket::Running => Action::Abort { id },
                Ticket::Held { .. } => Action::Forget { id },
            });
        }
        self.actions.push_back(Action::CloseSites);
        self.fresh.clear();
        self.going.clear();
        (self.lease, self.session, self.held) = (0, 0, 0);
    }

    fn close(&mut self, why: Closed) {
        self.link = Link::Down;
        self.actions.push_back(Action::Close(why));
    }

    /// A connection to a node is made.
    pub fn connected(&mut self, now: u64) {
        self.tick(now);
        self.link = Link::Greeted;
        self.silent_at = now + ANSWER_MS;
        self.room = self.free_room();
        let Identity { name, token, .. } = &self.identity;
        self.actions.push_back(Action::Send(Frame::Hello {
            version: VERSION,
            token: token.clone(),
            name: name.clone(),
            capacity: self.room,
            session: self.session,
        }));
    }

    /// The connection is closed, by whichever side.
    pub fn closed(&mut self, now: u64) {
        self.link = Link::Down;
        self.tick(now);
    }

    /// Ends the work: no more URLs are taken, and when everything is stored the node is told.
    pub fn leave(&mut self, now: u64) {
        self.is_leaving = true;
        self.tell_room();
        self.tick(now);
    }

    fn maybe_leave(&mut self) {
        if self.is_leaving && self.tickets.is_empty() && self.link == Link::Up {
            self.actions.push_back(Action::Send(Frame::Bye));
            self.actions.push_back(Action::CloseSites);
            (self.session, self.lease) = (0, 0);
            self.close(Closed::Left);
        }
    }

    fn free_room(&self) -> u32 {
        match self.is_leaving || self.held >= self.identity.held_bytes_max {
            true => 0,
            false => self.identity.capacity,
        }
    }

    fn tell_room(&mut self) {
        let room = self.free_room();
        if room != self.room && self.link == Link::Up {
            self.room = room;
            self.actions.push_back(Action::Send(Frame::Room { capacity: room }));
        }
    }

    /// A frame came from the node.
    pub fn frame(&mut self, now: u64, frame: Frame) {
        self.tick(now);
        if self.link == Link::Down {
            return;
        }
        self.silent_at = now + ANSWER_MS;
        match frame {
            Frame::Welcome { session, resumed, open, window, settings } if self.link == Link::Greeted => {
                self.welcome(now, session, resumed, &open, window, settings);
            }
            Frame::Error { code, text } => self.close(Closed::Refused(code, text)),
            _ if self.link != Link::Up => self.close(Closed::Frame),
            Frame::Lease { number, ms } => self.renew(now, number, ms),
            Frame::Fetch { id, wanted } => self.start(now, id, wanted),
            Frame::Cancel { id } => self.cancel(id),
            Frame::Stored { ids } => ids.into_iter().for_each(|id| self.stored(id)),
            Frame::Window { bytes } => self.window = self.window.saturating_add(bytes),
            _ => self.close(Closed::Frame),
        }
        self.tick(now);
    }

    fn welcome(
        &mut self,
        now: u64,
        session: u64,
        resumed: bool,
        open: &[u64],
        window: u64,
        settings: String,
    ) {
        self.link = Link::Up;
        self.window = window;
        if !resumed || session != self.session {
            self.drop_all();
            self.actions.push_back(Action::Begin { settings });
        }
        self.session = session;
        let unwanted: Vec<u64> = self.tickets.keys().copied().filter(|id| !open.contains(id)).collect();
        unwanted.into_iter().for_each(|id| self.stored(id));
        // Results that the node does not have are sent from their beginning.
        (self.fresh, self.going) = (VecDeque::new(), VecDeque::new());
        for id in open {
            match self.tickets.get_mut(id) {
                Some(Ticket::Running) => {}
                Some(Ticket::Held { sent, is_over, .. }) => {
                    (*sent, *is_over) = (None, false);
                    self.fresh.push_back(*id);
                }
                None => self.actions.push_back(Action::Send(Frame::Return { id: *id })),
            }
        }
        self.beats.clear();
        self.beat(now);
        self.tell_room();
    }

    fn renew(&mut self, now: u64, number: u64, ms: u64) {
        while let Some((beat, sent)) = self.beats.front().copied().filter(|(beat, _)| *beat <= number) {
            self.beats.pop_front();
            if beat == number && ms > ABORT_MARGIN_MS {
                let from = if planted::is(Bug::LeaseFromArrival) { now } else { sent };
                self.lease = self.lease.max(from.saturating_add(ms - ABORT_MARGIN_MS));
            }
        }
    }

    fn start(&mut self, now: u64, id: u64, wanted: Box<Wanted>) {
        let left = self.lease.saturating_add(ABORT_MARGIN_MS).saturating_sub(now);
        let has_lease = self.lease > 0 && left >= START_MARGIN_MS;
        if !has_lease || self.is_leaving || self.tickets.contains_key(&id) {
            self.actions.push_back(Action::Send(Frame::Return { id }));
            return;
        }
        self.tickets.insert(id, Ticket::Running);
        self.actions.push_back(Action::Start { id, wanted });
    }

    /// The node does not want a URL any more.
    fn cancel(&mut self, id: u64) {
        if self.tickets.get(&id) == Some(&Ticket::Running) {
            self.tickets.remove(&id);
            self.actions.push_back(Action::Abort { id });
            self.actions.push_back(Action::Send(Frame::Return { id }));
        } else if let Some(Ticket::Held { is_over: false, .. }) = self.tickets.get(&id) {
            // The node counts the connection until the result is there, so the result is sent to its end.
        } else {
            self.stored(id);
        }
    }

    fn stored(&mut self, id: u64) {
        match self.tickets.remove(&id) {
            Some(Ticket::Running) => self.actions.push_back(Action::Abort { id }),
            Some(Ticket::Held { len, .. }) => {
                self.held -= len;
                self.fresh.retain(|other| *other != id);
                self.going.retain(|other| *other != id);
                self.actions.push_back(Action::Forget { id });
                self.tell_room();
            }
            None => {}
        }
    }

    /// A fetch has ended with a result of this size. `false`: nobody wants it any more.
    #[must_use]
    pub fn ended(&mut self, now: u64, id: u64, facts: u32, body: u64) -> bool {
        let Some(ticket) = self.tickets.get_mut(&id).filter(|ticket| **ticket == Ticket::Running) else {
            return false;
        };
        let len = u64::from(facts) + body;
        *ticket = Ticket::Held { facts, len, sent: None, is_over: false };
        self.held += len;
        self.fresh.push_back(id);
        self.tell_room();
        self.tick(now);
        true
    }

    /// Whether [`Agent::next_piece`] has something.
    pub fn has_pieces(&self) -> bool {
        self.link == Link::Up && (!self.fresh.is_empty() || self.window > 0 && !self.going.is_empty())
    }

    /// What to write next of the results. The bytes count as sent.
    pub fn next_piece(&mut self) -> Option<Piece> {
        if self.link != Link::Up {
            return None;
        }
        // Without a window a result can still begin, so that its node knows.
        let id = match self.fresh.pop_front() {
            Some(id) => id,
            None if self.window > 0 => self.going.pop_front()?,
            None => return None,
        };
        let Some(Ticket::Held { facts, len, sent, is_over }) = self.tickets.get_mut(&id) else { return None };
        let from = sent.unwrap_or(0);
        let begins = sent.is_none().then_some((*facts, *len));
        let piece = (*len - from).min(self.window).min(DATA_BYTES_MAX as u64);
        self.window -= piece;
        *sent = Some(from + piece);
        *is_over = from + piece == *len;
        if !*is_over {
            self.going.push_back(id);
        }
        Some(Piece { id, begins, from, len: piece as usize, ends: *is_over })
    }
}
