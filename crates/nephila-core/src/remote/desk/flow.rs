//! How an ask goes from state to state: it is queued, sent, lost, sent again, ended.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use super::action::{Action, Ask, CloseWhy, End, LostWhy, Received};
use super::settings::ms;
use super::trans::Trans;
use super::{Desk, Dialect, UrlLine, hostname};

/// A place for an ask. The generation outlives the asks.
#[derive(Debug)]
pub(super) struct Place<B> {
    /// Counts the sendings from this place.
    pub(super) generation: u32,
    pub(super) ask: Option<Open<B>>,
}

impl<B> Default for Place<B> {
    fn default() -> Self {
        Place { generation: 0, ask: None }
    }
}

/// Where an open ask is.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// It may be sent to any spider.
    Queued,
    /// Its host rests; then it is queued.
    Resting,
    /// The connection of its spider closed.
    Away {
        /// The spider.
        home: Arc<str>,
        /// Whether the host has rested, so that the spider may have it again.
        is_rested: bool,
        /// When any spider may have it.
        free_at: u64,
    },
    /// A spider has it.
    Sent {
        /// The seat of the spider.
        seat: u16,
    },
    /// A spider had it; the record is missing.
    Done {
        /// The seat of the spider, if still connected.
        seat: Option<u16>,
        /// When `DONE` came.
        at: u64,
    },
}

/// An open ask.
#[derive(Debug)]
pub(super) struct Open<B> {
    id: u64,
    pub(super) url: Box<str>,
    ip: IpAddr,
    rest: u64,
    doc: u32,
    /// Counts asks: the oldest is sent first.
    age: u64,
    /// Number of times that it was sent.
    pub(super) sent: u32,
    sent_at: u64,
    /// The spider that was sent it last.
    spider: Option<Arc<str>>,
    /// The connection that fell silent about it.
    avoid: Option<u64>,
    pub(super) state: State,
    /// The entry in `Desk::due`, if there is one.
    due: Option<u64>,
    pub(super) received: Option<Received<B>>,
}

impl<B> Open<B> {
    pub(super) fn new(ask: Ask, doc: u32, age: u64) -> Open<B> {
        Open {
            id: ask.id,
            url: ask.url.into_boxed_str(),
            ip: ask.ip,
            rest: ms(ask.rest),
            doc,
            age,
            sent: 0,
            sent_at: 0,
            spider: None,
            avoid: None,
            state: State::Queued,
            due: None,
            received: None,
        }
    }
}

impl<B> Desk<B> {
    fn open_mut(&mut self, place: u32) -> Option<&mut Open<B>> {
        self.places[place as usize].ask.as_mut()
    }

    /// Sets the one time at which something happens to an ask.
    pub(super) fn set_due(&mut self, place: u32, at: u64) {
        let Some(open) = &mut self.places[place as usize].ask else { return };
        if let Some(before) = open.due.replace(at) {
            self.due.remove(&(before, place));
        }
        self.due.insert((at, place));
    }

    /// Lets an ask wait for any spider.
    pub(super) fn set_queued(&mut self, place: u32) {
        let Some(open) = &mut self.places[place as usize].ask else { return };
        open.state = State::Queued;
        self.queue.insert((open.age, place));
    }

    /// Takes an ask out of everything that its state keeps it in. The caller gives it a new state.
    fn detach(&mut self, place: u32) {
        let Some(open) = &mut self.places[place as usize].ask else { return };
        let (entry, state) = ((open.age, place), open.state.clone());
        if let Some(at) = open.due.take() {
            self.due.remove(&(at, place));
        }
        match state {
            State::Queued => _ = self.queue.remove(&entry),
            State::Away { home, is_rested: true, .. } => self.leave_home(&home, entry),
            State::Sent { seat } | State::Done { seat: Some(seat), .. } => self.leave_spider(seat, place),
            State::Resting | State::Away { .. } | State::Done { seat: None, .. } => {}
        }
    }

    fn leave_home(&mut self, home: &Arc<str>, entry: (u64, u32)) {
        if let Some(seat) = self.by_name.get(home).copied() {
            if let Some(spider) = &mut self.spiders[usize::from(seat)] {
                spider.home.remove(&entry);
            }
            return self.refresh(seat);
        }
        if let Some(waiting) = self.away.get_mut(home) {
            waiting.remove(&entry);
            if waiting.is_empty() {
                self.away.remove(home);
            }
        }
    }

    fn enter_home(&mut self, home: &Arc<str>, entry: (u64, u32)) {
        let Some(seat) = self.by_name.get(home).copied() else {
            self.away.entry(home.clone()).or_default().insert(entry);
            return;
        };
        if let Some(spider) = &mut self.spiders[usize::from(seat)] {
            spider.home.insert(entry);
        }
        self.refresh(seat);
    }

    fn leave_spider(&mut self, seat: u16, place: u32) {
        if let Some(spider) = &mut self.spiders[usize::from(seat)]
            && spider.open.remove(&place)
        {
            self.at_spiders -= 1;
        }
        self.refresh(seat);
    }

    /// Lists a connection anew among those with room, after anything about it changed.
    pub(super) fn refresh(&mut self, seat: u16) {
        let Some(spider) = &mut self.spiders[usize::from(seat)] else { return };
        if let Some(before) = spider.listed.take() {
            self.roomy.remove(&(before, seat));
        }
        self.homing.remove(&seat);
        if spider.has_room(self.settings.tickets_max) {
            spider.listed = Some(spider.open.len());
            self.roomy.insert((spider.open.len(), seat));
            if !spider.home.is_empty() {
                self.homing.insert(seat);
            }
        }
    }

    /// Does everything that is due.
    pub(super) fn advance(&mut self, now: u64) {
        while let Some((_, seat)) = self.deciding.pop_first_if(now) {
            if let Some(spider) = &mut self.spiders[usize::from(seat)] {
                spider.dialect = Some(Dialect::Push);
            }
            self.refresh(seat);
        }
        while let Some((_, place)) = self.due.pop_first_if(now) {
            if let Some(open) = self.open_mut(place) {
                open.due = None;
                self.handle_due(now, place);
            }
        }
        self.dispatch(now);
    }

    fn handle_due(&mut self, now: u64, place: u32) {
        let Some(open) = self.open_mut(place) else { return };
        let entry = (open.age, place);
        match &mut open.state {
            State::Sent { .. } => self.fail(now, place, LostWhy::Silent),
            State::Done { .. } => self.fail(now, place, LostWhy::NoRecord),
            State::Away { home, is_rested, free_at } if *free_at > now => {
                *is_rested = true;
                let (home, free_at) = (home.clone(), *free_at);
                self.set_due(place, free_at);
                self.enter_home(&home, entry);
            }
            State::Resting | State::Away { .. } | State::Queued => {
                self.detach(place);
                self.set_queued(place);
            }
        }
    }

    /// A sending of an ask came to nothing: it ends, or is sent again.
    fn fail(&mut self, now: u64, place: u32, why: LostWhy) {
        match why {
            LostWhy::Silent => self.counters.silent += 1,
            LostWhy::NoRecord => self.counters.no_record += 1,
            LostWhy::Closed => self.counters.orphaned += 1,
        }
        let resends_max = self.settings.resends_max;
        let total_timeout = ms(self.settings.total_timeout);
        let Some(open) = self.open_mut(place) else { return };
        let (sent, rest) = (open.sent, open.rest);
        if open.received.is_some() {
            return self.end_recorded(now, place);
        }
        if sent > resends_max {
            return self.end_lost(now, place, why);
        }
        let silent = match open.state {
            State::Sent { seat } => self.spiders[usize::from(seat)].as_ref().map(|spider| spider.connection),
            _ => None,
        };
        self.detach(place);
        let Some(open) = self.open_mut(place) else { return };
        match why {
            LostWhy::Silent => {
                open.avoid = silent;
                // A crawl delay may be longer than the spider was silent.
                let rested = open.sent_at.saturating_add(rest);
                match rested > now {
                    true => {
                        open.state = State::Resting;
                        self.set_due(place, rested);
                    }
                    false => self.set_queued(place),
                }
            }
            LostWhy::NoRecord => {
                open.state = State::Resting;
                self.set_due(place, now.saturating_add(rest));
            }
            LostWhy::Closed => {
                let home = open.spider.clone().unwrap_or_default();
                let free_at = now.saturating_add(rest.max(total_timeout));
                open.state = State::Away { home, is_rested: false, free_at };
                self.set_due(place, now.saturating_add(rest));
            }
        }
    }

    /// Sends what can be sent: first the asks that go back to their own spider, then the oldest.
    pub(super) fn dispatch(&mut self, now: u64) {
        while let Some((place, seat)) = self.next_pair() {
            self.detach(place);
            self.send(now, place, seat);
        }
    }

    fn next_pair(&self) -> Option<(u32, u16)> {
        if let Some(seat) = self.homing.first() {
            let spider = self.spiders[usize::from(*seat)].as_ref()?;
            return spider.home.first().map(|(_, place)| (*place, *seat));
        }
        let (_, place) = self.queue.first()?;
        let avoid = self.places[*place as usize].ask.as_ref()?.avoid;
        let is_other = |seat: &u16| {
            let spider = self.spiders[usize::from(*seat)].as_ref();
            spider.is_some_and(|spider| Some(spider.connection) != avoid)
        };
        let mut seats = self.roomy.iter().map(|(_, seat)| *seat);
        let seat = seats.find(is_other).or(self.roomy.first().map(|(_, seat)| *seat))?;
        Some((*place, seat))
    }

    fn send(&mut self, now: u64, place: u32, seat: u16) {
        let at = &mut self.places[place as usize];
        let (Some(open), Some(spider)) = (&mut at.ask, &mut self.spiders[usize::from(seat)]) else { return };
        at.generation = Trans::after(at.generation);
        let trans = Trans { generation: at.generation, place, seat }.number();
        let is_pull = spider.dialect == Some(Dialect::Pull);
        let hostname = is_pull.then(|| hostname(&open.url));
        let line = UrlLine { trans, doc: open.doc, ip: open.ip, hostname, url: &open.url };
        // The URL was checked when the ask was taken.
        let bytes = line.to_line().unwrap_or_default().into_bytes();
        self.actions.push_back(Action::Send { connection: spider.connection, bytes });
        self.counters.sent += 1;
        self.counters.resent += u64::from(open.sent > 0);
        open.sent += 1;
        open.sent_at = now;
        open.spider = Some(spider.name.clone());
        open.state = State::Sent { seat };
        spider.open.insert(place);
        spider.credit -= usize::from(is_pull);
        self.at_spiders += 1;
        self.refresh(seat);
        self.set_due(place, now.saturating_add(ms(self.settings.status_timeout)));
    }

    /// Closes a connection from our side.
    pub(super) fn close(&mut self, now: u64, seat: u16, why: CloseWhy) {
        if let Some(spider) = &self.spiders[usize::from(seat)] {
            self.actions.push_back(Action::Close { connection: spider.connection, why });
        }
        self.drop_spider(now, seat);
    }

    /// Forgets a connection. What it had not done is sent again; what it has done waits for its record as before.
    pub(super) fn drop_spider(&mut self, now: u64, seat: u16) {
        let Some(spider) = &mut self.spiders[usize::from(seat)] else { return };
        // From here on the connection gets nothing more.
        spider.dialect = None;
        let (decide_at, places) = (spider.decide_at, spider.open.clone());
        self.refresh(seat);
        self.deciding.remove(&(decide_at, seat));
        for place in places {
            match self.open_mut(place).map(|open| &mut open.state) {
                Some(State::Done { seat: at, .. }) => {
                    *at = None;
                    self.at_spiders -= 1;
                }
                _ => self.fail(now, place, LostWhy::Closed),
            }
        }
        let Some(spider) = self.spiders[usize::from(seat)].take() else { return };
        self.by_connection.remove(&spider.connection);
        self.by_name.remove(&spider.name);
        self.free_seats.push_back(seat);
        if !spider.home.is_empty() {
            self.away.insert(spider.name, spider.home);
        }
    }

    /// Forgets an ask. Its number rests, and its place is free.
    pub(super) fn remove(&mut self, now: u64, place: u32) -> Option<Open<B>> {
        self.detach(place);
        let open = self.places[place as usize].ask.take()?;
        let rest = ms(self.settings.total_timeout).saturating_mul(2);
        self.docs.close(open.doc, now.saturating_add(rest));
        self.by_id.remove(&open.id);
        self.free_places.push_back(place);
        Some(open)
    }

    /// Ends an ask that has its record.
    pub(super) fn end_recorded(&mut self, now: u64, place: u32) {
        let Some(open) = self.remove(now, place) else { return };
        let (Some(received), Some(spider)) = (open.received, open.spider) else { return };
        self.counters.recorded += 1;
        let done = match open.state {
            State::Done { at, .. } => at,
            _ => {
                self.counters.without_done += 1;
                now
            }
        };
        let took = Duration::from_millis(done.saturating_sub(open.sent_at));
        let end = End::Recorded { received, took, done, spider, sent: open.sent };
        self.actions.push_back(Action::End { ask: open.id, end });
    }

    fn end_lost(&mut self, now: u64, place: u32, why: LostWhy) {
        let Some(open) = self.remove(now, place) else { return };
        self.counters.lost += 1;
        let end = End::Lost { why, sent: open.sent };
        self.actions.push_back(Action::End { ask: open.id, end });
    }
}

/// Takes the first entry of a set of times if its time has come.
trait PopDue {
    type Entry;
    fn pop_first_if(&mut self, now: u64) -> Option<Self::Entry>;
}

impl<T: Copy + Ord> PopDue for BTreeSet<(u64, T)> {
    type Entry = (u64, T);

    fn pop_first_if(&mut self, now: u64) -> Option<(u64, T)> {
        let is_due = self.first().is_some_and(|(at, _)| *at <= now);
        if is_due { self.pop_first() } else { None }
    }
}
