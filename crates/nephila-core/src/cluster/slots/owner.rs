//! A node as the owner of slots: which node has the turn of each slot, and which node is next.
//!
//! An owner keeps the last messages of every node: the ring that the node uses, the turns that it holds and the turns
//! that it asks for. The owner grants a turn only while **agreed**: every node of its ring has said, in answer to
//! this very term of the owner, that the node uses the same ring. Each node has then claimed its turns, and takes
//! turns of these slots from no other owner; so a slot without a holder is free, and has rested since.
//!
//! Invariants: the owner grants a slot's turn to at most one node at a time; each asking node stands in the queue
//! once, and the queue is served in order; the rest of a slot is never reported longer than the real one.

use std::collections::{BTreeMap, VecDeque};

use super::Ring;
use super::map::Map;
use super::packet::Item;
use crate::cluster::Incarnation;
use crate::frontier::slot::SlotKey;
use crate::planted::{self, Bug};

/// A slot without holder and queue is forgotten after this time, in milliseconds. No slot is said to have rested
/// longer.
pub const FORGET_AFTER: u64 = 600_000;
/// Interval of the sweep that forgets slots, in milliseconds.
const SWEEP_EVERY: u64 = 60_000;

/// The last messages of one node.
#[derive(Debug, Default)]
struct Peer {
    /// The ring that the node uses, and the node's term.
    entered: Option<(u64, u64)>,
    held: BTreeMap<SlotKey, u64>,
    asks: BTreeMap<SlotKey, u64>,
    /// The node is in our ring; and has not agreed to our term.
    member: bool,
    missing: bool,
}

/// Takes a slot out. Most nodes are silent most of the time: a list without slots takes no memory.
fn take(from: &mut BTreeMap<SlotKey, u64>, slot: SlotKey) -> Option<u64> {
    let ask = from.remove(&slot);
    if from.is_empty() {
        *from = BTreeMap::new();
    }
    ask
}

/// A slot of ours.
#[derive(Debug, Default)]
struct Entry {
    /// The nodes that have the turn. More than one only after an error of a node; then all have to give the turn
    /// back.
    holders: Vec<Incarnation>,
    queue: VecDeque<Incarnation>,
    /// Since when nothing has happened on the slot, if known; else since we agreed.
    rested_since: Option<u64>,
    /// Whether the holders know that the turn is wanted.
    told: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Owner {
    ring: u64,
    term: u64,
    /// Number of nodes in our ring, and how many of them have not agreed.
    members: usize,
    missing: usize,
    agreed_at: Option<u64>,
    peers: Map<Incarnation, Peer>,
    table: Map<SlotKey, Entry>,
    swept_at: u64,
    pub(super) granted: u64,
    pub(super) wanted: u64,
    /// Messages to be sent.
    pub(super) out: VecDeque<(Incarnation, Item)>,
}

impl Owner {
    /// An owner without a ring.
    pub(super) fn new(seed: u64) -> Owner {
        Owner {
            ring: 0,
            term: 0,
            members: 0,
            missing: 0,
            agreed_at: None,
            peers: Map::new(seed),
            table: Map::new(seed),
            swept_at: 0,
            granted: 0,
            wanted: 0,
            out: VecDeque::new(),
        }
    }

    pub(super) fn is_agreed(&self) -> bool {
        self.agreed_at.is_some()
    }

    /// Number of slots in the table.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The term of a node that uses our ring, to be agreed to.
    pub(super) fn term_of(&self, peer: Incarnation) -> Option<u64> {
        let (ring, term) = self.peers.get(peer)?.entered?;
        (ring == self.ring).then_some(term)
    }

    /// Changes to another ring.
    pub(super) fn enter(&mut self, now: u64, ring: &Ring, term: u64) {
        (self.ring, self.term) = (ring.hash(), term);
        for (_, peer) in self.peers.iter_mut() {
            (peer.member, peer.missing) = (false, false);
        }
        let waits = !planted::is(Bug::OwnerDoesNotWait);
        for (_, incarnation) in ring.nodes() {
            let peer = self.peers.entry(incarnation, Peer::default);
            (peer.member, peer.missing) = (true, waits);
        }
        self.members = ring.len();
        self.missing = if waits { self.members } else { 0 };
        self.agreed_at = None;
        self.table.clear();
        for (incarnation, peer) in self.peers.iter() {
            if !peer.member || peer.entered.is_none_or(|(ring, _)| ring != self.ring) {
                continue;
            }
            for slot in peer.held.keys() {
                self.table.entry(*slot, Entry::default).holders.push(incarnation);
            }
            for slot in peer.asks.keys() {
                self.table.entry(*slot, Entry::default).queue.push_back(incarnation);
            }
        }
        self.check_agreed(now);
    }

    /// Forgets a node that is gone for good.
    pub(super) fn forget(&mut self, peer: Incarnation) {
        if self.peers.get(peer).is_some_and(|peer| !peer.member) {
            self.peers.remove(peer);
        }
    }

    /// Handles a message of a node.
    pub(super) fn handle(&mut self, now: u64, from: Incarnation, item: Item) {
        let peer = self.peers.entry(from, Peer::default);
        let same = peer.member && peer.entered.is_some_and(|(ring, _)| ring == self.ring);
        match item {
            Item::Enter { ring, term } => {
                let fresh = Peer { entered: Some((ring, term)), member: peer.member, ..Peer::default() };
                let before = std::mem::replace(peer, fresh);
                if peer.member && !planted::is(Bug::OwnerDoesNotWait) {
                    peer.missing = true;
                    self.missing += usize::from(!before.missing);
                    self.agreed_at = None;
                }
                if same {
                    for slot in before.held.keys().chain(before.asks.keys()) {
                        let Some(entry) = self.table.get_mut(*slot) else { continue };
                        entry.queue.retain(|waits| *waits != from);
                        if let Some(at) = entry.holders.iter().position(|holder| *holder == from) {
                            entry.holders.remove(at);
                            // No message tells when the node stopped.
                            entry.rested_since = None;
                        }
                    }
                }
            }
            Item::Agree { term } => {
                if same && term == self.term {
                    self.missing -= usize::from(std::mem::take(&mut peer.missing));
                    self.check_agreed(now);
                }
            }
            Item::Claim { slot, ask } => {
                peer.held.insert(slot, ask);
                if same {
                    let entry = self.table.entry(slot, Entry::default);
                    entry.holders.push(from);
                    entry.told = false;
                    self.serve(now, slot);
                }
            }
            Item::Ask { slot, ask } => {
                peer.asks.insert(slot, ask);
                if same {
                    let entry = self.table.entry(slot, Entry::default);
                    if !entry.queue.contains(&from) {
                        entry.queue.push_back(from);
                    }
                    self.serve(now, slot);
                }
            }
            Item::GiveBack { slot, ask, rested } => {
                if peer.asks.get(&slot) == Some(&ask) {
                    take(&mut peer.asks, slot);
                    if let Some(entry) = self.table.get_mut(slot).filter(|_| same) {
                        entry.queue.retain(|waits| *waits != from);
                    }
                } else if peer.held.get(&slot) == Some(&ask) {
                    take(&mut peer.held, slot);
                    if let Some(entry) = self.table.get_mut(slot).filter(|_| same) {
                        entry.holders.retain(|holder| *holder != from);
                        entry.rested_since = Some(now.saturating_sub(rested));
                    }
                    if same {
                        self.serve(now, slot);
                    }
                }
            }
            Item::Grant { .. } | Item::Wanted { .. } => {}
        }
    }

    /// Forgets slots that have no holder, no queue and a long rest behind them.
    pub(super) fn sweep(&mut self, now: u64) {
        if now < self.swept_at + SWEEP_EVERY {
            return;
        }
        self.swept_at = now;
        let agreed_at = self.agreed_at;
        self.table.retain(|_, entry| {
            let since = entry.rested_since.or(agreed_at).unwrap_or(now);
            !(entry.holders.is_empty() && entry.queue.is_empty() && now >= since + FORGET_AFTER)
        });
    }

    fn check_agreed(&mut self, now: u64) {
        if self.missing > 0 || self.members == 0 || self.agreed_at.is_some() {
            return;
        }
        self.agreed_at = Some(now);
        let waiting = self.table.iter().filter(|(_, entry)| !entry.queue.is_empty());
        for slot in Vec::from_iter(waiting.map(|(slot, _)| slot)) {
            self.serve(now, slot);
        }
    }

    /// Grants the turn to the next node, or tells the holder that the turn is wanted.
    fn serve(&mut self, now: u64, slot: SlotKey) {
        let Some(agreed_at) = self.agreed_at else { return };
        let Some(entry) = self.table.get_mut(slot) else { return };
        if entry.holders.is_empty() {
            let Some(next) = entry.queue.pop_front() else { return };
            let peer = self.peers.get_mut(next).expect("it asked");
            let ask = take(&mut peer.asks, slot).expect("it asked for it");
            peer.held.insert(slot, ask);
            entry.holders.push(next);
            let wanted = !entry.queue.is_empty();
            entry.told = wanted;
            let known = entry.rested_since.take().unwrap_or(agreed_at);
            let rested = match planted::is(Bug::TurnForgetsRest) {
                true => FORGET_AFTER,
                false => now.saturating_sub(known).min(FORGET_AFTER),
            };
            self.granted += 1;
            self.out.push_back((next, Item::Grant { slot, ask, rested, wanted }));
        } else if !entry.queue.is_empty() && !std::mem::replace(&mut entry.told, true) {
            for holder in &entry.holders {
                let ask = self.peers.get(*holder).and_then(|peer| peer.held.get(&slot)).copied();
                self.wanted += 1;
                self.out.push_back((*holder, Item::Wanted { slot, ask: ask.unwrap_or(0) }));
            }
        }
    }
}
