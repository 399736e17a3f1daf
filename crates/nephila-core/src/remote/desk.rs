//! The desk: which spider of version 1 gets which URL, when a URL is sent again, and when the node gives up.
//!
//! An ask is a URL that the node wants fetched. It **waits** until a connection has room, is **sent**, is **done** when
//! the spider says so, and ends as **recorded** once `DONE` and the record are both there, in whichever order they come.
//! Three things go wrong, and each sends the URL again, at most [`Settings::resends_max`] times in all:
//!
//! - The spider is silent for [`Settings::status_timeout`]: it is assumed to have crashed. The URL is sent again at
//!   once, or when its host has rested, to another connection if one has room.
//! - The record does not come within [`Settings::store_wait`] after `DONE`: sent again after a rest of the host.
//! - The connection closes: sent again to the same spider when it is back, after a rest of the host; to others not
//!   before [`Settings::total_timeout`], since the spider may still be asking.
//!
//! A record that came before its spider fell silent or its connection closed proves that the fetch is over, and so does
//! one that comes while the URL waits to be sent again: the ask ends with it, and the URL is not fetched twice.
//!
//! Usage: call [`Desk::connected`], [`Desk::ask`], [`Desk::line`], [`Desk::record`] and so on as things happen, do
//! everything that [`Desk::poll`] says, and call [`Desk::tick`] at [`Desk::next`]. Times are milliseconds on a monotonic
//! clock.
//!
//! Invariants: each ask ends once, or is cancelled; an ask is open at one connection at a time, except after a status
//! timeout or when `total_timeout` has passed since a close; a reply with the TRANS of an earlier sending and a record
//! with the DOC of an earlier ask change nothing; memory is bounded by `asks_max` and by `tickets_max` a connection; no
//! call searches through all asks or all connections, but for those that it changes.

mod action;
mod docs;
mod flow;
mod settings;
mod spider;
#[cfg(test)]
mod tests;
mod trans;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::line::{Dialect, LineError, Reply, UrlLine, hostname};
use docs::Docs;
use flow::{Open, Place, State};
use settings::ms;
use spider::Spider;
use trans::{PLACES_MAX, Trans};

pub use action::{Action, Ask, AskError, CloseWhy, ConnectError, Counters, End, LostWhy, Received, Speaks};
pub use settings::{Settings, SettingsError};

/// The node's side towards all its spiders of version 1. `B` is the caller's handle of the data of a record.
#[derive(Debug)]
pub struct Desk<B> {
    settings: Settings,
    /// Open asks by their place, which TRANS names.
    places: Vec<Place<B>>,
    free_places: VecDeque<u32>,
    by_id: BTreeMap<u64, u32>,
    docs: Docs,
    /// Connections by their seat, which TRANS names.
    spiders: Vec<Option<Spider>>,
    free_seats: VecDeque<u16>,
    by_connection: BTreeMap<u64, u16>,
    by_name: BTreeMap<Arc<str>, u16>,
    /// Asks that may be sent again to a spider that is not connected: age and place, by the name of the spider.
    away: BTreeMap<Arc<str>, BTreeSet<(u64, u32)>>,
    /// Asks that may be sent to any spider: age and place.
    queue: BTreeSet<(u64, u32)>,
    /// Connections with room: number of open asks, and seat.
    roomy: BTreeSet<(usize, u16)>,
    /// Connections with room and with asks of their own to be sent again.
    homing: BTreeSet<u16>,
    /// When something is due for an ask: time and place.
    due: BTreeSet<(u64, u32)>,
    /// When the dialect of a connection is decided: time and seat.
    deciding: BTreeSet<(u64, u16)>,
    /// Number of asks that are at a connection.
    at_spiders: usize,
    next_age: u64,
    is_alarmed: bool,
    counters: Counters,
    actions: VecDeque<Action<B>>,
}

/// What a cancelled ask leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// There was no such ask.
    Unknown,
    /// No spider is asking the host for it.
    Idle,
    /// A spider may be asking the host: version 1 has no line that would stop it.
    MayBeAsked,
}

/// A connected spider, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpiderView {
    /// The caller's number of the connection.
    pub connection: u64,
    /// The name of the spider.
    pub name: Arc<str>,
    /// `None`: not known yet.
    pub dialect: Option<Dialect>,
    /// Number of URLs at the connection.
    pub open: usize,
    /// URLs that the spider asked for and was not sent.
    pub credit: usize,
}

impl<B> Desk<B> {
    /// A desk without spiders and without asks. The settings should have passed [`Settings::check`].
    pub fn new(settings: Settings) -> Desk<B> {
        Desk::with_docs(settings, u32::MAX)
    }

    /// With the numbers of documents from 1 to `last`.
    fn with_docs(settings: Settings, last: u32) -> Desk<B> {
        Desk {
            settings,
            places: Vec::new(),
            free_places: VecDeque::new(),
            by_id: BTreeMap::new(),
            docs: Docs::new(last),
            spiders: Vec::new(),
            free_seats: VecDeque::new(),
            by_connection: BTreeMap::new(),
            by_name: BTreeMap::new(),
            away: BTreeMap::new(),
            queue: BTreeSet::new(),
            roomy: BTreeSet::new(),
            homing: BTreeSet::new(),
            due: BTreeSet::new(),
            deciding: BTreeSet::new(),
            at_spiders: 0,
            next_age: 0,
            is_alarmed: false,
            counters: Counters::default(),
            actions: VecDeque::new(),
        }
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Number of open asks.
    pub fn open(&self) -> usize {
        self.by_id.len()
    }

    /// Number of open asks that are at no connection.
    pub fn waiting(&self) -> usize {
        self.by_id.len() - self.at_spiders
    }

    /// The connected spiders.
    pub fn spiders(&self) -> impl Iterator<Item = SpiderView> + '_ {
        self.spiders.iter().flatten().map(|spider| SpiderView {
            connection: spider.connection,
            name: spider.name.clone(),
            dialect: spider.dialect,
            open: spider.open.len(),
            credit: spider.credit,
        })
    }

    /// The next thing to do.
    pub fn poll(&mut self) -> Option<Action<B>> {
        self.actions.pop_front()
    }

    /// When to call [`Desk::tick`] if nothing happens before.
    pub fn next(&self) -> Option<u64> {
        let due = self.due.first().map(|(at, _)| *at);
        let deciding = self.deciding.first().map(|(at, _)| *at);
        due.into_iter().chain(deciding).min()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: u64) {
        self.advance(now);
    }

    /// Takes a URL that is to be fetched. It ends with one [`Action::End`], unless it is cancelled before.
    pub fn ask(&mut self, now: u64, ask: Ask) -> Result<(), AskError> {
        self.advance(now);
        let taken = self.take(now, ask);
        match taken {
            Ok(()) => self.counters.asked += 1,
            Err(_) => self.counters.refused += 1,
        }
        self.advance(now);
        taken
    }

    fn take(&mut self, now: u64, ask: Ask) -> Result<(), AskError> {
        check(&ask)?;
        if self.by_id.contains_key(&ask.id) {
            return Err(AskError::Known);
        }
        if self.waiting() >= self.settings.asks_max {
            return Err(AskError::Full);
        }
        let place = match self.free_places.front() {
            Some(place) => *place,
            None if self.places.len() < PLACES_MAX => {
                self.places.push(Place::default());
                let place = self.places.len() as u32 - 1;
                self.free_places.push_back(place);
                place
            }
            None => return Err(AskError::Full),
        };
        let doc = self.docs.open(now, place).ok_or(AskError::NoDoc)?;
        self.free_places.pop_front();
        self.by_id.insert(ask.id, place);
        let age = self.next_age;
        self.next_age += 1;
        self.places[place as usize].ask = Some(Open::new(ask, doc, age));
        self.set_queued(place);
        Ok(())
    }

    /// Takes an ask back: it will not end. A spider that has the URL goes on all the same.
    pub fn cancel(&mut self, now: u64, id: u64) -> Cancelled {
        self.advance(now);
        let Some(open) = self.by_id.get(&id).copied().and_then(|place| self.remove(now, place)) else {
            return Cancelled::Unknown;
        };
        self.counters.cancelled += 1;
        self.advance(now);
        match open.state {
            State::Done { .. } | State::Resting => Cancelled::Idle,
            _ if open.sent == 0 => Cancelled::Idle,
            _ => Cancelled::MayBeAsked,
        }
    }

    /// A spider is connected. `name` tells spiders apart and stays the same when one connects again; a second
    /// connection of the same name replaces the first.
    pub fn connected(
        &mut self,
        now: u64,
        connection: u64,
        name: &str,
        speaks: Speaks,
    ) -> Result<(), ConnectError> {
        self.advance(now);
        if self.by_connection.contains_key(&connection) {
            return Err(ConnectError::Known);
        }
        if let Some(seat) = self.by_name.get(name) {
            self.close(now, *seat, CloseWhy::Replaced);
        }
        let seat = self.free_seat().ok_or(ConnectError::Full)?;
        let name: Arc<str> = Arc::from(name);
        let decide_at = now.saturating_add(ms(self.settings.dialect_wait));
        let mut spider = Spider::new(connection, name.clone(), speaks, decide_at);
        spider.home = self.away.remove(&name).unwrap_or_default();
        if spider.dialect.is_none() {
            self.deciding.insert((decide_at, seat));
        }
        self.by_connection.insert(connection, seat);
        self.by_name.insert(name, seat);
        self.spiders[usize::from(seat)] = Some(spider);
        self.refresh(seat);
        self.advance(now);
        Ok(())
    }

    fn free_seat(&mut self) -> Option<u16> {
        if let Some(seat) = self.free_seats.pop_front() {
            return Some(seat);
        }
        let seat = u16::try_from(self.spiders.len()).ok()?;
        if usize::from(seat) >= self.settings.connections_max {
            return None;
        }
        self.spiders.push(None);
        Some(seat)
    }

    /// A connection is closed, by whichever side. A connection that the desk closed itself is forgotten already.
    pub fn closed(&mut self, now: u64, connection: u64) {
        self.advance(now);
        if let Some(seat) = self.by_connection.get(&connection).copied() {
            self.drop_spider(now, seat);
        }
        self.advance(now);
    }

    /// A line came over a connection.
    pub fn line(&mut self, now: u64, connection: u64, line: Result<Reply, LineError>) {
        self.advance(now);
        let Some(seat) = self.by_connection.get(&connection).copied() else { return };
        match line {
            Ok(Reply::Get(count)) => self.handle_get(seat, count),
            Ok(Reply::Done(trans)) => match self.sent_as(seat, trans) {
                Some(place) => self.handle_done(now, seat, place),
                None => self.counters.unknown_trans += 1,
            },
            Ok(Reply::Working(trans)) => match self.sent_as(seat, trans) {
                Some(place) => self.set_due(place, now.saturating_add(ms(self.settings.status_timeout))),
                None => self.counters.unknown_trans += 1,
            },
            Err(_) => self.handle_unreadable(now, seat),
        }
        self.advance(now);
    }

    /// The ask that is open at this connection under this TRANS.
    fn sent_as(&self, seat: u16, trans: u64) -> Option<u32> {
        let trans = Trans::of(trans);
        let place = self.places.get(trans.place as usize)?;
        let is_open = matches!(place.ask.as_ref()?.state, State::Sent { seat: at } if at == seat);
        (is_open && trans.seat == seat && trans.generation == place.generation).then_some(trans.place)
    }

    fn handle_get(&mut self, seat: u16, count: u32) {
        let tickets_max = self.settings.tickets_max;
        let Some(spider) = &mut self.spiders[usize::from(seat)] else { return };
        if spider.dialect.is_none() {
            spider.dialect = Some(Dialect::Pull);
            self.deciding.remove(&(spider.decide_at, seat));
        }
        match spider.dialect {
            Some(Dialect::Pull) => spider.credit = (spider.credit + count as usize).min(tickets_max),
            _ => self.counters.get_ignored += 1,
        }
        self.refresh(seat);
    }

    fn handle_done(&mut self, now: u64, seat: u16, place: u32) {
        let Some(open) = &mut self.places[place as usize].ask else { return };
        open.state = State::Done { seat: Some(seat), at: now };
        match open.received.is_some() {
            true => self.end_recorded(now, place),
            false => self.set_due(place, now.saturating_add(ms(self.settings.store_wait))),
        }
    }

    fn handle_unreadable(&mut self, now: u64, seat: u16) {
        self.counters.unreadable += 1;
        let (max, window) = (self.settings.unreadable_max, ms(self.settings.unreadable_window));
        let Some(spider) = &mut self.spiders[usize::from(seat)] else { return };
        if spider.note_unreadable(now, max, window) {
            self.close(now, seat, CloseWhy::Unreadable);
        }
    }

    /// A whole record came over a store connection, and its data is stored.
    pub fn record(&mut self, now: u64, received: Received<B>) {
        self.advance(now);
        self.handle_record(now, received);
        self.advance(now);
    }

    fn handle_record(&mut self, now: u64, received: Received<B>) {
        let place = self.docs.place(received.record.doc);
        let open = place.and_then(|place| self.places[place as usize].ask.as_mut());
        let (Some(place), Some(open)) = (place, open.filter(|open| open.sent > 0)) else {
            self.counters.unknown_doc += 1;
            return;
        };
        if *received.record.url != *open.url {
            return self.handle_wrong_url();
        }
        if open.received.is_some() {
            self.counters.second_record += 1;
            return;
        }
        open.received = Some(received);
        if !matches!(open.state, State::Sent { .. }) {
            self.end_recorded(now, place);
        }
    }

    fn handle_wrong_url(&mut self) {
        self.counters.wrong_url += 1;
        if self.counters.wrong_url >= self.settings.wrong_urls_alarm && !self.is_alarmed {
            self.is_alarmed = true;
            self.actions.push_back(Action::Alarm);
        }
    }
}

/// Whether the URL of an ask can stand in a line of either dialect, whatever the numbers before it.
fn check(ask: &Ask) -> Result<(), AskError> {
    let (url, hostname) = (ask.url.as_str(), Some(hostname(&ask.url)));
    let line = UrlLine { trans: u64::MAX, doc: u32::MAX, ip: ask.ip, hostname, url };
    line.to_line().map(|_| ()).map_err(|_| AskError::Url)
}
