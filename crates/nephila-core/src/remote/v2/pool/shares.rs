//! Who may ask which address, and who gets the next URL.
//!
//! An address has a limit of connections for all spiders together. Each spider that asks it has a **share**: the most
//! connections that it may have open there now. A connection that is not in use is kept for a moment, so a share falls to
//! what is in use only when [`super::Settings::kept_for`] has passed since the spider last stopped using one, or when the
//! session ends.

use std::collections::{BTreeMap, VecDeque};

use super::{At, Pool};
use crate::frontier::slot::SlotKey;
use crate::planted::{self, Bug};
use crate::remote::v2::frame::Frame;

/// An address that is asked, was asked a moment ago, or waits.
#[derive(Debug, Default)]
pub(super) struct Address {
    /// Maximum number of connections; 0 for no limit.
    limit: u32,
    shares: BTreeMap<u64, Share>,
    /// Asks that wait, by age.
    queue: VecDeque<(u64, u64)>,
    /// Where the first of them is listed.
    listed: Option<Listed>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    open: u32,
    /// The most that may be open, those in use included.
    most: u32,
    /// When those that are not in use are surely closed.
    idle: Option<u64>,
}

#[derive(Debug)]
enum Listed {
    /// Any spider may get it.
    Any(u64),
    /// These may.
    At(u64, Vec<u64>),
}

impl Address {
    /// Number of connections that may be open, for all spiders.
    fn most(&self) -> u32 {
        self.shares.values().map(|share| share.most).sum()
    }
}

impl Pool {
    /// An ask waits for a spider.
    pub(super) fn enqueue(&mut self, slot: SlotKey, age: u64, ask: u64) {
        let limit = self.asks.get(&ask).map_or(0, |open| open.wanted.connections_max);
        let address = self.addresses.entry(slot).or_default();
        address.limit = limit;
        let at = address.queue.partition_point(|(other, _)| *other < age);
        address.queue.insert(at, (age, ask));
        self.waiting += 1;
        self.relist(slot);
    }

    /// An ask does not wait any more.
    pub(super) fn dequeue(&mut self, slot: SlotKey, age: u64) {
        let Some(address) = self.addresses.get_mut(&slot) else { return };
        if let Ok(at) = address.queue.binary_search_by_key(&age, |(age, _)| *age) {
            address.queue.remove(at);
            self.waiting -= 1;
        }
        self.relist(slot);
    }

    /// A connection to an address is not in use any more.
    pub(super) fn release(&mut self, now: u64, slot: SlotKey, session: u64) {
        let kept_for = u64::try_from(self.settings.kept_for.as_millis()).unwrap_or(u64::MAX);
        let Some(address) = self.addresses.get_mut(&slot) else { return };
        let Some(share) = address.shares.get_mut(&session) else { return };
        share.open = share.open.saturating_sub(1);
        let at = now.saturating_add(if planted::is(Bug::ShareForgotten) { 0 } else { kept_for });
        if let Some(old) = share.idle.replace(at) {
            self.idle.remove(&(old, slot, session));
        }
        self.idle.insert((at, slot, session));
        self.relist(slot);
    }

    /// The connections of a session to an address that it does not use are surely closed.
    pub(super) fn settle(&mut self, slot: SlotKey, session: u64) {
        let Some(address) = self.addresses.get_mut(&slot) else { return };
        let Some(share) = address.shares.get_mut(&session) else { return };
        (share.idle, share.most) = (None, share.open);
        if share.open == 0 {
            address.shares.remove(&session);
            if let Some(at) = self.sessions.get_mut(&session) {
                at.addresses.remove(&slot);
            }
        }
        self.relist(slot);
    }

    /// A session has ended: all its connections are closed.
    pub(super) fn forget_shares(&mut self, session: u64) {
        let Some(at) = self.sessions.get_mut(&session) else { return };
        at.connection = None;
        let slots = std::mem::take(&mut at.addresses);
        self.refresh(session);
        for slot in slots {
            let share = self.addresses.get_mut(&slot).and_then(|address| address.shares.remove(&session));
            if let Some(at) = share.and_then(|share| share.idle) {
                self.idle.remove(&(at, slot, session));
            }
            self.relist(slot);
        }
    }

    /// Lists the first ask of an address where spiders look for it.
    fn relist(&mut self, slot: SlotKey) {
        let Some(address) = self.addresses.get_mut(&slot) else { return };
        match address.listed.take() {
            Some(Listed::Any(age)) => {
                self.any.remove(&(age, slot));
            }
            Some(Listed::At(age, sessions)) => {
                for id in sessions {
                    if let Some(session) = self.sessions.get_mut(&id) {
                        session.waiting.remove(&(age, slot));
                    }
                    self.refresh(id);
                }
            }
            None => {}
        }
        let Some(address) = self.addresses.get_mut(&slot) else { return };
        let Some((age, _)) = address.queue.front().copied() else {
            if address.shares.is_empty() {
                self.addresses.remove(&slot);
            }
            return;
        };
        let most = address.most();
        if address.limit == 0 || most < address.limit {
            address.listed = Some(Listed::Any(age));
            self.any.insert((age, slot));
            return;
        }
        // With a limit that was lowered there may be more: then nobody, until they are closed.
        let may_use = |share: &Share| share.open < share.most && most <= address.limit;
        let sessions: Vec<u64> =
            address.shares.iter().filter(|(_, share)| may_use(share)).map(|(id, _)| *id).collect();
        for id in &sessions {
            if let Some(session) = self.sessions.get_mut(id) {
                session.waiting.insert((age, slot));
            }
        }
        address.listed = Some(Listed::At(age, sessions.clone()));
        sessions.into_iter().for_each(|id| self.refresh(id));
    }

    /// Lists a session by whether it has room.
    pub(super) fn refresh(&mut self, id: u64) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let open = session.open.len();
        let has_room = session.connection.is_some() && session.is_ready && open < session.capacity;
        if let Some(old) = std::mem::replace(&mut session.roomy, has_room.then_some(open)) {
            self.roomy.remove(&(old, id));
        }
        if has_room {
            self.roomy.insert((open, id));
        }
        match has_room && !session.waiting.is_empty() {
            true => self.homing.insert(id),
            false => self.homing.remove(&id),
        };
    }

    /// Gives URLs to spiders with room.
    pub(super) fn dispatch(&mut self) {
        while self.quiet.is_none() {
            if let Some(id) = self.homing.first().copied() {
                let first = self.sessions.get(&id).and_then(|session| session.waiting.first().copied());
                match first {
                    Some((_, slot)) => self.send(slot, id),
                    None => self.refresh(id),
                }
            } else if let Some((_, slot)) = self.any.first().copied()
                && let Some(id) = self.choose(slot)
            {
                self.send(slot, id);
            } else {
                return;
            }
        }
    }

    /// The spider for the next URL of an address: one that has a connection there, or the one with the fewest URLs.
    fn choose(&self, slot: SlotKey) -> Option<u64> {
        let (_, least) = self.roomy.first().copied()?;
        let address = self.addresses.get(&slot)?;
        let has_room = |id: &u64| self.sessions.get(id).is_some_and(|session| session.roomy.is_some());
        let mut kept = address.shares.iter().filter(|(_, share)| share.open < share.most);
        Some(kept.find(|(id, _)| has_room(id)).map_or(least, |(id, _)| *id))
    }

    /// Sends the first ask of an address to a session.
    fn send(&mut self, slot: SlotKey, id: u64) {
        let Some(address) = self.addresses.get_mut(&slot) else { return };
        let Some((_, ask)) = address.queue.pop_front() else { return };
        self.waiting -= 1;
        let share = address.shares.entry(id).or_default();
        share.open += 1;
        share.most = share.most.max(share.open);
        let most = share.most;
        let limit = address.limit;
        if let (Some(open), Some(session)) = (self.asks.get_mut(&ask), self.sessions.get_mut(&id)) {
            open.sent += 1;
            open.at = At::Session { session: id, coming: None };
            session.open.insert(ask);
            session.addresses.insert(slot);
            self.counters.sent += 1;
            let connections_max = if limit == 0 { 0 } else { most };
            let wanted = Box::new(super::Wanted { connections_max, ..open.wanted.clone() });
            self.tell(id, Frame::Fetch { id: ask, wanted });
        }
        self.refresh(id);
        self.relist(slot);
    }
}
