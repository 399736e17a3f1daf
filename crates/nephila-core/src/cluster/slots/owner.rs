//! A node as the owner of slots: who has the turn of each, and who is next.
//!
//! An owner knows of every node what it said last: the ring it goes by, what it holds and what it asks for. It hands out a
//! turn only while it is **agreed**: every node of its ring has said, in answer to this very term of the owner, that it goes by
//! the same ring. Each has then said what it holds, and takes turns of these slots from nobody else; so what nobody holds
//! is free, and has rested since.
//!
//! What always holds: a slot has at most one holder by our doing; whoever asks stands in the queue once, and the queue is
//! served in order; how long a slot has rested is never told longer than it is.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Ring;
use super::packet::Item;
use crate::cluster::Incarnation;
use crate::frontier::slot::SlotKey;
use crate::planted::{self, Bug};

/// A slot that nobody has or wants is forgotten after this time, in milliseconds. No slot is said to have rested longer.
pub const FORGET_AFTER: u64 = 600_000;
/// Forgetting happens this often.
const SWEEP_EVERY: u64 = 60_000;

/// What one node said.
#[derive(Debug, Default)]
struct Peer {
    /// The ring it goes by, and its term.
    entered: Option<(u64, u64)>,
    held: BTreeMap<SlotKey, u64>,
    asks: BTreeMap<SlotKey, u64>,
}

/// A slot of ours.
#[derive(Debug, Default)]
struct Entry {
    /// Who has the turn. More than one only if somebody was wrong; then all have to give it back.
    holders: Vec<Incarnation>,
    queue: VecDeque<Incarnation>,
    /// Since when nothing has happened, if we know; else since we agreed.
    rested_since: Option<u64>,
    /// The holders know that it is wanted.
    told: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Owner {
    ring: u64,
    term: u64,
    members: BTreeSet<Incarnation>,
    /// Members that have not agreed.
    missing: BTreeSet<Incarnation>,
    agreed_at: Option<u64>,
    peers: BTreeMap<Incarnation, Peer>,
    table: BTreeMap<SlotKey, Entry>,
    swept_at: u64,
    pub(super) granted: u64,
    pub(super) wanted: u64,
    /// To be said.
    pub(super) out: VecDeque<(Incarnation, Item)>,
}

impl Owner {
    pub(super) fn is_agreed(&self) -> bool {
        self.agreed_at.is_some()
    }

    /// Slots that are remembered.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// The term of a node that goes by our ring, to be agreed to.
    pub(super) fn term_of(&self, peer: Incarnation) -> Option<u64> {
        let (ring, term) = self.peers.get(&peer)?.entered?;
        (ring == self.ring).then_some(term)
    }

    /// We go by another ring.
    pub(super) fn enter(&mut self, now: u64, ring: &Ring, term: u64) {
        (self.ring, self.term) = (ring.hash(), term);
        self.members = ring.nodes().map(|(_, incarnation)| incarnation).collect();
        self.missing = self.members.clone();
        self.agreed_at = None;
        self.table.clear();
        for (incarnation, peer) in &self.peers {
            if !self.members.contains(incarnation) || peer.entered.is_none_or(|(ring, _)| ring != self.ring) {
                continue;
            }
            for slot in peer.held.keys() {
                self.table.entry(*slot).or_default().holders.push(*incarnation);
            }
            for slot in peer.asks.keys() {
                self.table.entry(*slot).or_default().queue.push_back(*incarnation);
            }
        }
        if planted::is(Bug::OwnerDoesNotWait) {
            self.missing.clear();
        }
        self.check_agreed(now);
    }

    /// Forgets a node that is gone for good.
    pub(super) fn forget(&mut self, peer: Incarnation) {
        if !self.members.contains(&peer) {
            self.peers.remove(&peer);
        }
    }

    /// A node said something.
    pub(super) fn handle(&mut self, now: u64, from: Incarnation, item: Item) {
        let peer = self.peers.entry(from).or_default();
        let same = peer.entered.is_some_and(|(ring, _)| ring == self.ring) && self.members.contains(&from);
        match item {
            Item::Enter { ring, term } => {
                let before = std::mem::take(peer);
                peer.entered = Some((ring, term));
                if self.members.contains(&from) && !planted::is(Bug::OwnerDoesNotWait) {
                    self.missing.insert(from);
                    self.agreed_at = None;
                }
                if same {
                    for slot in before.held.keys().chain(before.asks.keys()) {
                        let Some(entry) = self.table.get_mut(slot) else { continue };
                        entry.queue.retain(|waits| *waits != from);
                        if let Some(at) = entry.holders.iter().position(|holder| *holder == from) {
                            entry.holders.remove(at);
                            // When it stopped nobody told us.
                            entry.rested_since = None;
                        }
                    }
                }
            }
            Item::Agree { term } => {
                if same && term == self.term {
                    self.missing.remove(&from);
                    self.check_agreed(now);
                }
            }
            Item::Claim { slot, ask } => {
                peer.held.insert(slot, ask);
                if same {
                    let entry = self.table.entry(slot).or_default();
                    entry.holders.push(from);
                    entry.told = false;
                    self.serve(now, slot);
                }
            }
            Item::Ask { slot, ask } => {
                peer.asks.insert(slot, ask);
                if same {
                    let entry = self.table.entry(slot).or_default();
                    if !entry.queue.contains(&from) {
                        entry.queue.push_back(from);
                    }
                    self.serve(now, slot);
                }
            }
            Item::GiveBack { slot, ask, rested } => {
                if peer.asks.get(&slot) == Some(&ask) {
                    peer.asks.remove(&slot);
                    if let Some(entry) = self.table.get_mut(&slot).filter(|_| same) {
                        entry.queue.retain(|waits| *waits != from);
                    }
                } else if peer.held.get(&slot) == Some(&ask) {
                    peer.held.remove(&slot);
                    if let Some(entry) = self.table.get_mut(&slot).filter(|_| same) {
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

    /// Time has passed: what nobody needs is forgotten.
    pub(super) fn sweep(&mut self, now: u64) {
        if now < self.swept_at + SWEEP_EVERY {
            return;
        }
        self.swept_at = now;
        self.table.retain(|_, entry| {
            let since = entry.rested_since.or(self.agreed_at).unwrap_or(now);
            !(entry.holders.is_empty() && entry.queue.is_empty() && now >= since + FORGET_AFTER)
        });
    }

    fn check_agreed(&mut self, now: u64) {
        if !self.missing.is_empty() || self.members.is_empty() || self.agreed_at.is_some() {
            return;
        }
        self.agreed_at = Some(now);
        let waiting = self.table.iter().filter(|(_, entry)| !entry.queue.is_empty());
        for slot in Vec::from_iter(waiting.map(|(slot, _)| *slot)) {
            self.serve(now, slot);
        }
    }

    /// Gives the turn to the next, or tells who has it that it is wanted.
    fn serve(&mut self, now: u64, slot: SlotKey) {
        let Some(agreed_at) = self.agreed_at else { return };
        let Some(entry) = self.table.get_mut(&slot) else { return };
        if entry.holders.is_empty() {
            let Some(next) = entry.queue.pop_front() else { return };
            let peer = self.peers.get_mut(&next).expect("it asked");
            let ask = peer.asks.remove(&slot).expect("it asked for it");
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
                let ask = self.peers.get(holder).and_then(|peer| peer.held.get(&slot)).copied();
                self.wanted += 1;
                self.out.push_back((*holder, Item::Wanted { slot, ask: ask.unwrap_or(0) }));
            }
        }
    }
}
