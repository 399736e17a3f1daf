//! Results: which bytes are believed, and for which ask.

use bytes::Bytes;
use xxhash_rust::xxh3::Xxh3;

use super::super::frame::Frame;
use super::super::message::{FACTS_BYTES_MAX, Facts};
use super::{Action, At, End, Lost, Open, Pool};
use crate::frontier::slot::SlotKey;
use crate::planted::{self, Bug};

/// A result of which some bytes have come.
pub(super) struct Coming {
    facts_len: usize,
    body_len: u64,
    facts: Vec<u8>,
    body: u64,
    check: Xxh3,
}

impl std::fmt::Debug for Coming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} and {} of {}", self.facts.len(), self.facts_len, self.body, self.body_len)
    }
}

impl Pool {
    /// The ask if it is at this session.
    fn at(&mut self, session: u64, ask: u64) -> Option<&mut Open> {
        let open = self.asks.get_mut(&ask);
        let is_its = |at: u64| at == session || planted::is(Bug::ForeignResult);
        open.filter(|open| matches!(open.at, At::Session { session: at, .. } if is_its(at)))
    }

    pub(super) fn begin(
        &mut self,
        id: u64,
        ask: u64,
        facts: u32,
        body: u64,
        start: Bytes,
    ) -> Result<(), &'static str> {
        let body_max = self.settings.body_bytes_max;
        let Some(Open { at: At::Session { coming, .. }, .. }) = self.at(id, ask) else {
            return self.unknown(id, start.len());
        };
        if coming.is_some() {
            return Err("a second result for a URL");
        }
        if facts > FACTS_BYTES_MAX || body > body_max {
            return Err("a result that is too long");
        }
        let facts_len = facts as usize;
        *coming = Some(Box::new(Coming {
            facts_len,
            body_len: body,
            facts: Vec::new(),
            body: 0,
            check: Xxh3::new(),
        }));
        self.part(id, ask, start)
    }

    /// A result that nobody waits for: the ask was cancelled or passed on, or the spider lies.
    fn unknown(&mut self, session: u64, bytes: usize) -> Result<(), &'static str> {
        self.counters.unknown += 1;
        self.spend(session, bytes)
    }

    fn spend(&mut self, id: u64, bytes: usize) -> Result<(), &'static str> {
        let half = self.settings.window_bytes / 2;
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        session.credit =
            session.credit.checked_sub(bytes as u64).ok_or("more bytes than the window allows")?;
        session.untold += bytes as u64;
        if session.untold >= half.max(1) {
            let bytes = std::mem::take(&mut session.untold);
            session.credit += bytes;
            self.tell(id, Frame::Window { bytes });
        }
        Ok(())
    }

    pub(super) fn part(&mut self, id: u64, ask: u64, mut bytes: Bytes) -> Result<(), &'static str> {
        let len = bytes.len();
        let Some(Open { at: At::Session { coming: Some(coming), .. }, is_cancelled, .. }) = self.at(id, ask)
        else {
            return self.unknown(id, len);
        };
        let is_cancelled = *is_cancelled;
        coming.check.update(&bytes);
        let facts = bytes.split_to(bytes.len().min(coming.facts_len - coming.facts.len()));
        coming.facts.extend_from_slice(&facts);
        coming.body += bytes.len() as u64;
        if coming.body > coming.body_len {
            return Err("a result that is longer than it said");
        }
        if !bytes.is_empty() && !is_cancelled {
            self.actions.push_back(Action::Part { ask, bytes });
        }
        self.spend(id, len)
    }

    pub(super) fn end(&mut self, now: u64, id: u64, ask: u64, check: u64) -> Result<(), &'static str> {
        let Some(Open { at: At::Session { coming, .. }, is_cancelled, sent, .. }) = self.at(id, ask) else {
            return self.unknown(id, 0);
        };
        let (Some(coming), is_cancelled, sent) = (coming.take(), *is_cancelled, *sent) else {
            return self.unknown(id, 0);
        };
        if coming.facts.len() != coming.facts_len || coming.body != coming.body_len {
            return Err("a result that is shorter than it said");
        }
        if coming.check.digest() != check {
            return Err("a result whose check does not fit");
        }
        let facts = Facts::read(&coming.facts).map_err(|_| "facts that cannot be read")?;
        self.leave(now, ask);
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        session.fetched += 1;
        self.counters.came += 1;
        if is_cancelled {
            self.tell(id, Frame::Cancel { id: ask });
            return Ok(());
        }
        session.came.insert(ask);
        let (facts, spider) = (Box::new(facts), session.name.clone());
        self.actions.push_back(Action::End { ask, end: End::Came { facts, spider, session: id, sent } });
        Ok(())
    }

    pub(super) fn returned(&mut self, now: u64, id: u64, ask: u64) -> Result<(), &'static str> {
        let sends_max = self.settings.sends_max;
        let Some(Open { at: At::Session { coming, .. }, .. }) = self.at(id, ask) else {
            self.counters.unknown += 1;
            return Ok(());
        };
        if coming.is_some() {
            return Err("a URL that is returned in the middle of its result");
        }
        self.counters.returned += 1;
        let Some(open) = self.leave(now, ask).filter(|open| !open.is_cancelled) else { return Ok(()) };
        // It would return the next one as well: it gets none until it has asked for its next lease.
        if let Some(session) = self.sessions.get_mut(&id) {
            session.is_ready = false;
        }
        self.refresh(id);
        match open.sent >= sends_max {
            true => self.lose(ask, open.sent, Lost::Returned, id),
            false => {
                let (slot, age) = (SlotKey::of(open.wanted.address), open.age);
                self.asks.insert(ask, Open { at: At::Queue, ..open });
                self.enqueue(slot, age, ask);
            }
        }
        Ok(())
    }
}
