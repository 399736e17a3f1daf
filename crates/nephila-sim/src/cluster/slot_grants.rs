//! Addresses that several nodes request in turn (a rate limit across nodes): the messages between frontiers, the core's
//! [`Slots`] and other nodes, over a network that loses, repeats and reorders.
//!
//! A simulated node has a frontier for each partition, so the node hands its turn from one of them to the next, as the
//! core does between nodes.

use std::collections::{BTreeMap, VecDeque};

use nephila_core::cluster::Incarnation;
use nephila_core::cluster::slots::{Event as SlotEvent, Slots};
use nephila_core::frontier::SlotAction;
use nephila_core::frontier::slot::SlotKey;

use super::{Event, Sim};
use crate::{Checker, Violation};

/// One packet in this number arrives twice.
const TWICE: u64 = 20;

/// A node's turns.
#[derive(Debug, Default)]
pub(crate) struct SlotGrants {
    slots: Option<(Incarnation, Slots)>,
    here: BTreeMap<SlotKey, Here>,
}

/// A slot, within a node.
#[derive(Debug, Default)]
struct Here {
    asked: bool,
    /// Whether the node has the turn.
    held: bool,
    /// Another node waits for the turn.
    wanted: bool,
    /// A partition of this node has used the turn since the grant.
    used: bool,
    /// The time of the last event.
    since: u64,
    /// The partition that has the turn, and the opening of that partition.
    with: Option<(u32, u64)>,
    queue: VecDeque<(u32, u64)>,
}

impl SlotGrants {
    /// When there is something to send.
    pub(crate) fn next_wake(&self) -> Option<u64> {
        self.slots.as_ref().and_then(|(_, slots)| slots.next_wake())
    }

    /// The lease is lost, and with the lease every turn.
    pub(crate) fn drop_all(&mut self) {
        *self = SlotGrants::default();
    }
}

impl Sim {
    /// A node has seen the list of live nodes.
    pub(crate) fn see_live(
        &mut self,
        n: usize,
        incarnation: Incarnation,
        nodes: &[nephila_core::cluster::member::NodeRecord],
    ) {
        let node = &mut self.nodes[n];
        let mono = node.now(self.t).mono;
        if node.member.incarnation() != incarnation || !node.member.is_held(mono) {
            return;
        }
        let (_, slots) = match &mut node.turns.slots {
            Some(slots) if slots.0 == incarnation => slots,
            other => other.insert((incarnation, Slots::new(node.id, incarnation, incarnation.0))),
        };
        let live: Vec<_> = nodes.iter().map(|node| (node.node, node.incarnation)).collect();
        slots.handle_view(mono, &live);
    }

    /// Does everything about turns that is possible now. Returns whether this made work for the node's frontiers.
    pub(crate) fn take_turns(&mut self, n: usize) -> bool {
        let node = &mut self.nodes[n];
        let now = node.now(self.t);
        let mono = now.mono;
        let super::node::Node { parts, turns, .. } = node;
        let SlotGrants { slots: Some((_, slots)), here } = turns else { return false };
        let mut busy = false;
        for (partition, part) in parts.iter_mut() {
            let who = (*partition, part.life);
            while let Some(action) = part.frontier.poll_turn(now) {
                match action {
                    SlotAction::Ask(slot) => here.entry(slot).or_default().queue.push_back(who),
                    SlotAction::GiveBack { slot, rested } => {
                        let here = here.entry(slot).or_default();
                        if here.with == Some(who) {
                            (here.with, here.since) = (None, mono.saturating_sub(rested));
                        }
                    }
                }
            }
        }
        loop {
            let mut granted = false;
            while let Some(event) = slots.poll_event() {
                match event {
                    SlotEvent::Granted { slot, rested, wanted } => {
                        let here = here.entry(slot).or_default();
                        (here.asked, here.held, here.wanted, here.used) = (false, true, wanted, false);
                        here.since = mono.saturating_sub(rested);
                    }
                    SlotEvent::Wanted { slot } => here.entry(slot).or_default().wanted = true,
                }
                granted = true;
            }
            for (slot, here) in here.iter_mut() {
                let lives = |who: &(u32, u64)| parts.get(&who.0).is_some_and(|part| part.life == who.1);
                here.queue.retain(lives);
                if here.with.take_if(|who| !lives(who)).is_some() {
                    // The partition was dropped, with its requests.
                    here.since = mono;
                }
                if here.held && here.with.is_none() {
                    let pass_on = here.wanted && (here.used || here.queue.is_empty());
                    if pass_on {
                        (here.held, here.wanted) = (false, false);
                        slots.give_back(mono, *slot, mono - here.since.min(mono));
                    } else if let Some(next) = here.queue.pop_front() {
                        (here.with, here.used) = (Some(next), true);
                        let part = parts.get_mut(&next.0).expect("it lives");
                        let wanted = here.wanted || !here.queue.is_empty();
                        part.frontier.handle_granted(*slot, mono - here.since.min(mono), wanted, now);
                        busy = true;
                    }
                }
                if let Some((partition, _)) = here.with.filter(|_| here.wanted || !here.queue.is_empty()) {
                    parts.get_mut(&partition).expect("it lives").frontier.handle_wanted(*slot);
                }
                if !here.held && !here.asked && !here.queue.is_empty() {
                    here.asked = true;
                    slots.ask(mono, *slot);
                    granted = true;
                }
            }
            if !granted {
                break;
            }
        }
        let parcels: Vec<_> = std::iter::from_fn(|| slots.poll_packet(mono)).collect();
        for parcel in parcels {
            self.figures.packets += 1;
            self.talk(n, parcel.incarnation, parcel.bytes);
        }
        busy
    }

    /// A packet is sent.
    fn talk(&mut self, from: usize, to: Incarnation, bytes: Vec<u8>) {
        let cut = self.nodes[from].cut_until > self.t || self.away_until > self.t;
        if !self.calm && (cut || self.rng.one_in(self.loss)) {
            return;
        }
        if !self.calm && self.rng.one_in(TWICE) {
            let again = self.delay();
            self.at(again, Event::Talk { to, bytes: bytes.clone() });
        }
        let after = self.delay();
        self.at(after, Event::Talk { to, bytes });
    }

    /// The node of an incarnation.
    pub(crate) fn node_of(&self, incarnation: Incarnation) -> usize {
        (incarnation.0 >> 48) as usize - 1
    }

    /// A packet arrives.
    pub(crate) fn handle_talk(&mut self, to: Incarnation, bytes: &[u8]) -> Result<(), Violation> {
        let node = &mut self.nodes[(to.0 >> 48) as usize - 1];
        let mono = node.now(self.t).mono;
        if node.dead_until.is_some() || (!self.calm && node.cut_until > self.t) {
            return Ok(());
        }
        let Some((_, slots)) = &mut node.turns.slots else { return Ok(()) };
        slots.handle_packet(mono, bytes).map_err(|error| Violation::new(Checker::Error, error.to_string()))
    }
}
