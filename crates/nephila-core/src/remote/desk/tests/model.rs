//! A plain model of the desk, beside it under random events. The model keeps lists and looks through all of them; it
//! shares the types of inputs and outputs with the desk, and no code.
//!
//! Which of several allowed connections gets a URL is the desk's choice. Everything else is compared after each event:
//! ends, closed connections, the alarm, counters, the next tick, what may be sent and what must be.

// The figures are worth seeing.
#![allow(clippy::disallowed_macros)]

mod driver;

use std::collections::{BTreeMap, VecDeque};

use super::*;

pub(super) const STATUS: u64 = 60;
pub(super) const STORE: u64 = 30;
pub(super) const TOTAL: u64 = 120;
pub(super) const DECIDE: u64 = 4;
pub(super) const TICKETS: usize = 3;
pub(super) const RESENDS: u32 = 3;
pub(super) const ASKS: usize = 8;
pub(super) const SPIDERS: usize = 4;
pub(super) const UNREADABLE: usize = 4;
pub(super) const WINDOW: u64 = 60;
pub(super) const ALARM: u64 = 100;
pub(super) const DOCS: u32 = 40;

/// Where an ask is.
#[derive(Clone, Debug)]
enum Phase {
    /// It may go to any spider from a time on, and to the named one from an earlier time on.
    Waiting { any_from: u64, home: Option<(String, u64)> },
    /// At this connection, which was last heard about it then.
    Sent { connection: u64, trans: u64, heard: u64 },
    /// Done then; `connection` while that is open.
    Done { connection: Option<u64>, at: u64 },
}

#[derive(Clone, Debug)]
struct Wanted {
    id: u64,
    url: String,
    rest: u64,
    made: u64,
    /// Known from the first line that was sent.
    doc: Option<u32>,
    sent: u32,
    sent_at: u64,
    spider: String,
    silent_at: Option<u64>,
    has_record: bool,
    phase: Phase,
}

#[derive(Clone, Debug)]
struct Line {
    connection: u64,
    name: String,
    /// Whether pull; `None` until decided.
    pull: Option<bool>,
    since: u64,
    credit: usize,
    unreadable: Vec<u64>,
}

/// What the desk must report, but for the lines it sends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Expected {
    Recorded { ask: u64, took: u64, done: u64, spider: String, sent: u32 },
    Lost { ask: u64, why: LostWhy, sent: u32 },
    Unreadable(u64),
    Replaced(u64),
    Alarm,
}

#[derive(Default)]
struct Model {
    now: u64,
    asks: Vec<Wanted>,
    lines: Vec<Line>,
    /// When each of the asks ended, as long as its DOC rests.
    ended: VecDeque<u64>,
    /// When the last ask with this DOC ended.
    doc_ended: BTreeMap<u32, u64>,
    expected: Vec<Expected>,
    counters: Counters,
}

impl Model {
    fn open_at(&self, connection: u64) -> usize {
        let is_there = |ask: &&Wanted| match ask.phase {
            Phase::Sent { connection: at, .. } => at == connection,
            Phase::Done { connection: at, .. } => at == Some(connection),
            Phase::Waiting { .. } => false,
        };
        self.asks.iter().filter(is_there).count()
    }

    fn waiting(&self) -> usize {
        self.asks.len() - self.lines.iter().map(|line| self.open_at(line.connection)).sum::<usize>()
    }

    fn has_room(&self, line: &Line) -> bool {
        let wanted = match line.pull {
            None => false,
            Some(false) => true,
            Some(true) => line.credit > 0,
        };
        wanted && self.open_at(line.connection) < TICKETS
    }

    fn is_free(&self, ask: &Wanted) -> bool {
        matches!(ask.phase, Phase::Waiting { any_from, .. } if any_from <= self.now)
    }

    fn may_go(&self, ask: &Wanted, line: &Line) -> bool {
        let Phase::Waiting { home, .. } = &ask.phase else { return false };
        let is_home = home.as_ref().is_some_and(|(name, from)| *name == line.name && *from <= self.now);
        self.is_free(ask) || is_home
    }

    fn end(&mut self, id: u64) -> Wanted {
        let place = self.asks.iter().position(|ask| ask.id == id).unwrap();
        let ask = self.asks.remove(place);
        self.ended.push_back(self.now);
        if let Some(doc) = ask.doc {
            self.doc_ended.insert(doc, self.now);
        }
        ask
    }

    fn end_recorded(&mut self, id: u64) {
        let ask = self.end(id);
        self.counters.recorded += 1;
        let done = match ask.phase {
            Phase::Done { at, .. } => at,
            _ => {
                self.counters.without_done += 1;
                self.now
            }
        };
        let took = done - ask.sent_at;
        self.expected.push(Expected::Recorded { ask: id, took, done, spider: ask.spider, sent: ask.sent });
    }

    fn fail(&mut self, id: u64, why: LostWhy) {
        let now = self.now;
        let ask = self.asks.iter_mut().find(|ask| ask.id == id).unwrap();
        match why {
            LostWhy::Silent => self.counters.silent += 1,
            LostWhy::NoRecord => self.counters.no_record += 1,
            LostWhy::Closed => self.counters.orphaned += 1,
        }
        if ask.has_record {
            return self.end_recorded(id);
        }
        if ask.sent == 1 + RESENDS {
            let sent = self.end(id).sent;
            self.counters.lost += 1;
            return self.expected.push(Expected::Lost { ask: id, why, sent });
        }
        if let (LostWhy::Silent, Phase::Sent { connection, .. }) = (why, &ask.phase) {
            ask.silent_at = Some(*connection);
        }
        ask.phase = match why {
            LostWhy::Silent => Phase::Waiting { any_from: now.max(ask.sent_at + ask.rest), home: None },
            LostWhy::NoRecord => Phase::Waiting { any_from: now + ask.rest, home: None },
            LostWhy::Closed => Phase::Waiting {
                any_from: now + ask.rest.max(TOTAL),
                home: Some((ask.spider.clone(), now + ask.rest)),
            },
        };
    }

    /// Everything whose time has come.
    fn tick(&mut self, now: u64) {
        self.now = now;
        for line in &mut self.lines {
            if line.pull.is_none() && line.since + DECIDE <= now {
                line.pull = Some(false);
            }
        }
        for ask in self.asks.clone() {
            match ask.phase {
                Phase::Sent { heard, .. } if heard + STATUS <= now => self.fail(ask.id, LostWhy::Silent),
                Phase::Done { at, .. } if at + STORE <= now => self.fail(ask.id, LostWhy::NoRecord),
                _ => {}
            }
        }
        self.ended.retain(|at| at + 2 * TOTAL > now);
    }

    fn ask(&mut self, ask: &Ask) -> Result<(), AskError> {
        let result = if self.asks.iter().any(|open| open.id == ask.id) {
            Err(AskError::Known)
        } else if self.waiting() >= ASKS {
            Err(AskError::Full)
        } else if self.asks.len() + self.ended.len() >= DOCS as usize {
            Err(AskError::NoDoc)
        } else {
            Ok(())
        };
        match result {
            Ok(()) => self.counters.asked += 1,
            Err(_) => self.counters.refused += 1,
        }
        if result.is_ok() {
            self.asks.push(Wanted {
                id: ask.id,
                url: ask.url.clone(),
                rest: ask.rest.as_millis() as u64,
                made: self.now,
                doc: None,
                sent: 0,
                sent_at: 0,
                spider: String::new(),
                silent_at: None,
                has_record: false,
                phase: Phase::Waiting { any_from: self.now, home: None },
            });
        }
        result
    }

    fn cancel(&mut self, id: u64) -> Cancelled {
        if !self.asks.iter().any(|ask| ask.id == id) {
            return Cancelled::Unknown;
        }
        self.counters.cancelled += 1;
        let ask = self.end(id);
        let is_resting = matches!(ask.phase, Phase::Waiting { any_from, home: None } if any_from > self.now);
        let is_done = matches!(ask.phase, Phase::Done { .. });
        if ask.sent == 0 || is_done || is_resting { Cancelled::Idle } else { Cancelled::MayBeAsked }
    }

    fn connected(&mut self, connection: u64, name: &str, speaks: Speaks) -> Result<(), ConnectError> {
        if self.lines.iter().any(|line| line.connection == connection) {
            return Err(ConnectError::Known);
        }
        if let Some(old) = self.lines.iter().find(|line| line.name == name).map(|line| line.connection) {
            self.expected.push(Expected::Replaced(old));
            self.closed(old);
        }
        if self.lines.len() >= SPIDERS {
            return Err(ConnectError::Full);
        }
        let pull = match speaks {
            Speaks::Push => Some(false),
            Speaks::Pull => Some(true),
            Speaks::Auto => None,
        };
        let (name, since) = (name.to_owned(), self.now);
        self.lines.push(Line { connection, name, pull, since, credit: 0, unreadable: Vec::new() });
        Ok(())
    }

    fn closed(&mut self, gone: u64) {
        self.lines.retain(|line| line.connection != gone);
        for ask in self.asks.clone() {
            match ask.phase {
                Phase::Sent { connection, .. } if connection == gone => self.fail(ask.id, LostWhy::Closed),
                Phase::Done { connection, at } if connection == Some(gone) => {
                    let ask = self.asks.iter_mut().find(|open| open.id == ask.id).unwrap();
                    ask.phase = Phase::Done { connection: None, at };
                }
                _ => {}
            }
        }
    }

    fn line(&mut self, connection: u64, reply: Result<Reply, LineError>) {
        let now = self.now;
        let Some(line) = self.lines.iter_mut().find(|line| line.connection == connection) else { return };
        match reply {
            Err(_) => {
                self.counters.unreadable += 1;
                line.unreadable.push(now);
                if line.unreadable.iter().filter(|at| now - **at < WINDOW).count() >= UNREADABLE {
                    self.expected.push(Expected::Unreadable(connection));
                    self.closed(connection);
                }
            }
            Ok(Reply::Get(count)) => {
                if *line.pull.get_or_insert(true) {
                    line.credit = (line.credit + count as usize).min(TICKETS);
                } else {
                    self.counters.get_ignored += 1;
                }
            }
            Ok(Reply::Working(trans)) => match self.sent_as(connection, trans) {
                Some(ask) => ask.phase = Phase::Sent { connection, trans, heard: now },
                None => self.counters.unknown_trans += 1,
            },
            Ok(Reply::Done(trans)) => match self.sent_as(connection, trans) {
                Some(ask) => {
                    ask.phase = Phase::Done { connection: Some(connection), at: now };
                    let (id, has_record) = (ask.id, ask.has_record);
                    if has_record {
                        self.end_recorded(id);
                    }
                }
                None => self.counters.unknown_trans += 1,
            },
        }
    }

    fn sent_as(&mut self, from: u64, said: u64) -> Option<&mut Wanted> {
        let is_it = |ask: &&mut Wanted| matches!(ask.phase, Phase::Sent { connection, trans, .. } if (connection, trans) == (from, said));
        self.asks.iter_mut().find(is_it)
    }

    fn record(&mut self, doc: u32, url: &str) {
        let Some(ask) = self.asks.iter_mut().find(|ask| ask.doc == Some(doc)) else {
            self.counters.unknown_doc += 1;
            return;
        };
        if ask.url != url {
            self.counters.wrong_url += 1;
            if self.counters.wrong_url == ALARM {
                self.expected.push(Expected::Alarm);
            }
        } else if ask.has_record {
            self.counters.second_record += 1;
        } else {
            ask.has_record = true;
            let id = ask.id;
            if !matches!(ask.phase, Phase::Sent { .. }) {
                self.end_recorded(id);
            }
        }
    }

    /// The desk sent a line: was it allowed to?
    fn sent(&mut self, to: u64, bytes: &[u8]) {
        let sent = UrlLine::read(bytes.strip_suffix(b"\n").unwrap()).unwrap();
        let line = self.lines.iter().find(|line| line.connection == to).expect("a connection that is open");
        assert!(self.has_room(line), "{line:?} has no room");
        assert_eq!(line.pull, Some(sent.hostname.is_some()), "the wrong dialect");
        let ask = self.asks.iter().find(|ask| ask.url == sent.url).expect("an ask that is open");
        assert!(self.may_go(ask, line), "at {}, too early: {ask:?} to {line:?}", self.now);
        let is_older = |other: &Wanted| self.is_free(other) && other.made <= ask.made && other.id != ask.id;
        let place = self.asks.iter().position(|other| other.id == ask.id).unwrap();
        if self.is_free(ask) {
            assert!(!self.asks[..place].iter().any(is_older), "an older ask waits");
        }
        if ask.silent_at == Some(to) && self.is_free(ask) {
            let is_other = |other: &&Line| other.connection != to && self.has_room(other);
            assert!(!self.lines.iter().any(|other| is_other(&other)), "sent to the silent one again");
        }
        match ask.doc {
            Some(doc) => assert_eq!(doc, sent.doc, "another DOC for the same ask"),
            None => self.check_doc(ask, sent.doc),
        }
        let is_used =
            |other: &Wanted| matches!(other.phase, Phase::Sent { trans, .. } if trans == sent.trans);
        assert!(!self.asks.iter().any(is_used), "a TRANS is open twice");
        self.counters.sent += 1;
        self.counters.resent += u64::from(ask.sent > 0);
        let (name, now) = (line.name.clone(), self.now);
        let ask = &mut self.asks[place];
        (ask.doc, ask.sent, ask.sent_at, ask.spider) = (Some(sent.doc), ask.sent + 1, now, name);
        ask.phase = Phase::Sent { connection: to, trans: sent.trans, heard: now };
        let line = self.lines.iter_mut().find(|line| line.connection == to).unwrap();
        line.credit -= usize::from(line.pull == Some(true));
    }

    fn check_doc(&self, ask: &Wanted, doc: u32) {
        assert!(!self.asks.iter().any(|other| other.doc == Some(doc)), "a DOC is open twice");
        let ended = self.doc_ended.get(&doc).copied();
        assert!(ended.is_none_or(|at| at + 2 * TOTAL <= ask.made), "DOC {doc} is used again too soon");
    }

    /// Nothing that could be sent may be left.
    fn check_all_sent(&self) {
        for line in self.lines.iter().filter(|line| self.has_room(line)) {
            let left = self.asks.iter().find(|ask| self.may_go(ask, line));
            assert!(left.is_none(), "at {}, not sent: {left:?} to {line:?}", self.now);
        }
    }

    /// When something happens next if nothing comes.
    fn next(&self) -> Option<u64> {
        let mut times = Vec::new();
        for ask in &self.asks {
            match &ask.phase {
                Phase::Sent { heard, .. } => times.push(heard + STATUS),
                Phase::Done { at, .. } => times.push(at + STORE),
                Phase::Waiting { any_from, home } => {
                    times.push(*any_from);
                    times.extend(home.iter().map(|(_, from)| *from));
                }
            }
        }
        let undecided = self.lines.iter().filter(|line| line.pull.is_none());
        times.extend(undecided.map(|line| line.since + DECIDE));
        times.into_iter().filter(|at| *at > self.now).min()
    }
}
