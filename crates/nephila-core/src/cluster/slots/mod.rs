//! One rate limit per address for the whole cluster: which node may send requests to an address now.
//!
//! A node starts fetches on a slot only while the node has the slot's **turn**. Each slot has an **owner** among the
//! live nodes, found by hashing ([`Ring`]). The owner keeps in memory which node has the turn and which nodes wait,
//! and grants the turn to one after the other. A turn that no other node wants is kept and costs no message. A wanted
//! turn is given back after [`BLOCK`] starts, or earlier rather than let the slot lie idle ([`SlotGrant`]).
//!
//! [`BLOCK`]: crate::frontier::slot_grant::BLOCK
//! [`SlotGrant`]: crate::frontier::slot_grant::SlotGrant
//!
//! No node compares clocks. Each grant carries the time that the slot has rested: a duration that grows on the way
//! and is never reported longer than the real one. The new holder waits for the remainder of the crawl delay.
//!
//! When nodes come or go the owners change. Held turns go on undisturbed: every node tells the new owners which turns
//! the node holds, and an owner grants nothing until all nodes have done so (`owner`). A slot that no node claims
//! counts as used a moment ago.
//!
//! Messages between nodes arrive once and in order (`link`), in packets (`packet`) that the network may lose, repeat
//! or reorder.
//!
//! Usage: [`Slots::handle_view`] when the live nodes were read, [`Slots::ask`] and [`Slots::give_back`] for the
//! frontier, [`Slots::handle_packet`] when a packet came; then [`Slots::poll_event`] and [`Slots::poll_packet`] until
//! they give nothing; sleep until [`Slots::next_wake`]. A `Slots` lives as long as one lease of its node, and is
//! dropped with the lease.
//!
//! Invariant: of all nodes whose lease lives, no two have the turn of one slot.

mod due;
mod link;
mod map;
mod owner;
mod packet;
mod ring;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use due::Due;
use link::Link;
use map::Map;
use owner::Owner;
use packet::{Item, Packet};

use super::{Incarnation, NodeId};
use crate::codec::Damaged;
use crate::frontier::slot::SlotKey;
use crate::planted::{self, Bug};

pub use link::{ACK_AFTER, AGAIN_AFTER, FLUSH};
pub use owner::FORGET_AFTER;
pub use packet::ITEMS_MAX;
pub use ring::Ring;

/// Maximum number of linked nodes, nodes that left lately included. Packets of further nodes are dropped.
pub const LINKS_MAX: usize = 8_192;
/// A node that is not in the ring and silent for this long is forgotten, in milliseconds. Its lease is long gone.
pub const LINK_KEEP: u64 = 300_000;
/// Size of the cache of slot owners in this ring: a cache miss has to score every node of the ring.
const OWNERS_MAX: usize = 1 << 16;

/// Something that happened to a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The turn is ours.
    Granted {
        /// The slot.
        slot: SlotKey,
        /// At least this long nothing has happened on the slot, in milliseconds.
        rested: u64,
        /// Whether other nodes wait for the turn.
        wanted: bool,
    },
    /// Other nodes wait for a turn that we have.
    Wanted {
        /// The slot.
        slot: SlotKey,
    },
}

/// Bytes to be sent to a node. They may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parcel {
    /// The node.
    pub to: NodeId,
    /// The incarnation of the node; another incarnation drops the bytes.
    pub incarnation: Incarnation,
    /// For its [`Slots::handle_packet`].
    pub bytes: Vec<u8>,
}

/// Counters of this node. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Turns that we asked for.
    pub asked: u64,
    /// Turns granted to us.
    pub got: u64,
    /// Turns that we gave back.
    pub given_back: u64,
    /// Times another node wanted a turn that we had.
    pub wanted: u64,
    /// Turns that we granted as owner.
    pub granted: u64,
    /// Packets that were sent.
    pub packets_sent: u64,
    /// Bytes in these packets.
    pub bytes_sent: u64,
    /// Packets that arrived.
    pub packets_received: u64,
    /// Items that were sent again.
    pub repeated: u64,
    /// Rings that we used.
    pub rings: u64,
}

/// A turn that we have or ask for.
#[derive(Clone, Copy, Debug)]
struct Mine {
    /// The number of the ask, never used twice.
    ask: u64,
    held: bool,
    /// The node that grants the turn in our ring.
    owner: Option<Incarnation>,
}

/// A node's part in sharing slots.
#[derive(Debug)]
pub struct Slots {
    node: NodeId,
    me: Incarnation,
    ring: Ring,
    term: u64,
    mine: Map<SlotKey, Mine>,
    next_ask: u64,
    owner: Owner,
    /// Cache of slot owners in this ring.
    owners: Map<SlotKey, Option<Incarnation>>,
    links: Map<Incarnation, Link>,
    /// When each link has something to send, by its place among `links`.
    due: Due,
    /// Messages to ourselves.
    own: VecDeque<Item>,
    events: VecDeque<Event>,
    stats: Stats,
}

impl Slots {
    /// A node in one incarnation of its lease, before the node has seen the other live nodes. The seed is for hash
    /// tables of addresses, which strangers choose: they must not know the seed. No decision depends on the seed.
    pub fn new(node: NodeId, me: Incarnation, seed: u64) -> Slots {
        Slots {
            node,
            me,
            ring: Ring::default(),
            term: 0,
            mine: Map::new(seed),
            next_ask: 0,
            owner: Owner::new(seed),
            owners: Map::new(seed),
            links: Map::new(seed),
            due: Due::default(),
            own: VecDeque::new(),
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// The counters so far.
    pub fn stats(&self) -> Stats {
        Stats { granted: self.owner.granted, ..self.stats }
    }

    /// The ring that this node uses.
    pub fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Whether all nodes use our ring, as far as we know. Only then do we grant turns.
    pub fn is_agreed(&self) -> bool {
        self.owner.is_agreed()
    }

    /// Number of turns that we have, and of turns that we ask for.
    pub fn count(&self) -> (usize, usize) {
        let held = self.mine.values().filter(|mine| mine.held).count();
        (held, self.mine.len() - held)
    }

    /// Number of slots in our owner table.
    pub fn owned(&self) -> usize {
        self.owner.len()
    }

    /// Whether we have the turn of a slot.
    pub fn holds(&self, slot: SlotKey) -> bool {
        self.mine.get(slot).is_some_and(|mine| mine.held)
    }

    /// The live nodes were read. A list without us is stale and ignored.
    pub fn handle_view(&mut self, now: u64, live: &[(NodeId, Incarnation)]) {
        self.handle_ring(now, &Ring::new(live));
    }

    /// Like [`Slots::handle_view`], for a caller that already has the ring.
    pub fn handle_ring(&mut self, now: u64, ring: &Ring) {
        self.owner.sweep(now);
        if *ring == self.ring || !ring.holds(self.me) {
            return;
        }
        self.term += 1;
        self.stats.rings += 1;
        self.ring = ring.clone();
        self.owners.clear();
        for (_, link) in self.links.iter_mut() {
            link.in_ring = false;
        }
        let enter = Item::Enter { ring: self.ring.hash(), term: self.term };
        self.owner.enter(now, &self.ring, self.term);
        self.own.push_back(enter);
        for (node, incarnation) in ring.nodes().filter(|(_, incarnation)| *incarnation != self.me) {
            let link = self.links.entry(incarnation, || Link::new(node, now));
            (link.in_ring, link.heard_at) = (true, now);
            link.push(now, enter);
        }
        // We claim our turns from the new owners and repeat our asks: a turn that an earlier owner grants from here
        // on is void.
        for slot in Vec::from_iter(self.mine.iter().map(|(slot, _)| slot)) {
            let owner = self.owner_of(slot);
            let mine = self.mine.get_mut(slot).expect("its key was just read");
            mine.owner = owner;
            let item = if mine.held {
                Item::Claim { slot, ask: mine.ask }
            } else {
                self.next_ask += 1;
                mine.ask = self.next_ask;
                Item::Ask { slot, ask: mine.ask }
            };
            self.say(now, owner, item);
        }
        self.own.push_back(Item::Agree { term: self.term });
        for (_, incarnation) in ring.nodes() {
            if let Some(term) = self.owner.term_of(incarnation).filter(|_| incarnation != self.me) {
                self.say(now, Some(incarnation), Item::Agree { term });
            }
        }
        self.settle(now);
        self.forget_links(now);
        self.note_all_due();
    }

    /// The node that grants the turns of a slot in our ring.
    fn owner_of(&mut self, slot: SlotKey) -> Option<Incarnation> {
        if self.owners.len() >= OWNERS_MAX {
            self.owners.clear();
        }
        *self.owners.entry(slot, || self.ring.owner(slot))
    }

    /// Asks for the turn of a slot. [`Event::Granted`] follows, at once or later.
    pub fn ask(&mut self, now: u64, slot: SlotKey) {
        if self.mine.contains(slot) {
            return;
        }
        self.stats.asked += 1;
        self.next_ask += 1;
        let (ask, owner) = (self.next_ask, self.owner_of(slot));
        self.mine.insert(slot, Mine { ask, held: false, owner });
        if planted::is(Bug::SlotPerNode) {
            self.mine.insert(slot, Mine { ask, held: true, owner });
            self.events.push_back(Event::Granted { slot, rested: 0, wanted: false });
            return;
        }
        self.say(now, owner, Item::Ask { slot, ask });
        self.settle(now);
    }

    /// Gives back the turn of a slot, or withdraws the ask. No fetch of ours is open there, and none has started or
    /// ended there for `rested` milliseconds.
    pub fn give_back(&mut self, now: u64, slot: SlotKey, rested: u64) {
        let Some(Mine { ask, held, owner }) = self.mine.remove(slot) else { return };
        self.stats.given_back += u64::from(held);
        self.say(now, owner, Item::GiveBack { slot, ask, rested });
        self.settle(now);
    }

    /// Bytes came from another node.
    pub fn handle_packet(&mut self, now: u64, bytes: &[u8]) -> Result<(), Damaged> {
        let Packet { from: (node, from), to, ack, first, items } = Packet::decode(bytes)?;
        // For an earlier incarnation of ours, or an echo.
        if to != self.me || from == self.me {
            return Ok(());
        }
        if self.links.len() >= LINKS_MAX && !self.links.contains(from) {
            return Ok(());
        }
        let at = self.links.place(from, || Link::new(node, now));
        let (_, link) = self.links.by_place(at);
        self.stats.packets_received += 1;
        let items = link.handle(now, ack, first, items);
        self.due.note(at, link.due());
        for item in items {
            match item {
                Item::Grant { slot, ask, rested, wanted } => self.handle_grant(slot, ask, rested, wanted),
                Item::Wanted { slot, ask } => self.handle_wanted(slot, ask),
                item => {
                    self.owner.handle(now, from, item);
                    if let (Item::Enter { .. }, Some(term)) = (item, self.owner.term_of(from))
                        && self.ring.holds(from)
                    {
                        self.say(now, Some(from), Item::Agree { term });
                    }
                }
            }
        }
        self.settle(now);
        Ok(())
    }

    /// The next event of our turns; none if nothing happened.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The next packet to send; none if nothing is due before [`Slots::next_wake`].
    pub fn poll_packet(&mut self, now: u64) -> Option<Parcel> {
        loop {
            let (_, at) = self.due.first().filter(|(due, _)| *due <= now)?;
            let (incarnation, link) = self.links.by_place(at);
            let (repeated, to) = (link.repeated, link.node);
            let load = link.poll(now);
            self.stats.repeated += link.repeated - repeated;
            self.due.note(at, link.due());
            if let Some((ack, first, items)) = load {
                let packet = Packet { from: (self.node, self.me), to: incarnation, ack, first, items };
                let bytes = packet.encode();
                self.stats.packets_sent += 1;
                self.stats.bytes_sent += bytes.len() as u64;
                return Some(Parcel { to, incarnation, bytes });
            }
        }
    }

    /// When [`Slots::poll_packet`] has something if nothing happens before.
    pub fn next_wake(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| at)
    }

    fn handle_grant(&mut self, slot: SlotKey, ask: u64, rested: u64, wanted: bool) {
        // A grant for an ask that we withdrew or sent to an earlier owner: the granter hears of the withdrawal, or no
        // longer owns the slot.
        let Some(mine) = self.mine.get_mut(slot).filter(|mine| mine.ask == ask && !mine.held) else {
            return;
        };
        mine.held = true;
        self.stats.got += 1;
        self.events.push_back(Event::Granted { slot, rested, wanted });
    }

    fn handle_wanted(&mut self, slot: SlotKey, ask: u64) {
        if self.mine.get(slot).is_some_and(|mine| mine.ask == ask && mine.held) {
            self.stats.wanted += 1;
            self.events.push_back(Event::Wanted { slot });
        }
    }

    /// Sends a message to a node, or to ourselves. Without a known node nothing is sent: the message follows when a
    /// node is known.
    fn say(&mut self, now: u64, to: Option<Incarnation>, item: Item) {
        let Some(to) = to else { return };
        if to == self.me {
            return self.own.push_back(item);
        }
        if let Some(at) = self.links.place_of(to) {
            let (_, link) = self.links.by_place(at);
            link.push(now, item);
            self.due.note(at, link.due());
        }
    }

    /// Carries out messages to ourselves and their consequences.
    fn settle(&mut self, now: u64) {
        loop {
            if let Some(item) = self.own.pop_front() {
                match item {
                    Item::Grant { slot, ask, rested, wanted } => self.handle_grant(slot, ask, rested, wanted),
                    Item::Wanted { slot, ask } => self.handle_wanted(slot, ask),
                    item => self.owner.handle(now, self.me, item),
                }
            } else if let Some((to, item)) = self.owner.out.pop_front() {
                self.say(now, Some(to), item);
            } else {
                return;
            }
        }
    }

    fn note_all_due(&mut self) {
        for (at, (_, link)) in self.links.iter().enumerate() {
            self.due.note(at, link.due());
        }
    }

    fn forget_links(&mut self, now: u64) {
        let old = |link: &Link| !link.in_ring && now >= link.heard_at + LINK_KEEP;
        let gone = Vec::from_iter(self.links.iter().filter(|(_, link)| old(link)).map(|(key, _)| key));
        if !gone.is_empty() {
            self.due.clear();
        }
        for incarnation in gone {
            self.links.remove(incarnation);
            self.owner.forget(incarnation);
        }
    }
}
