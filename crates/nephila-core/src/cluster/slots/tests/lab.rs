//! Several nodes in virtual time: each fetches from a few slots under its turns, over an unreliable network, while
//! nodes die, pause and join. The books record starts and ends at the servers.

use std::collections::BTreeMap;

use super::super::*;
use crate::frontier::slot_grant::{GrantVerdict, SlotGrant};

/// The crawl delay of every slot, in milliseconds.
pub(super) const REST: u64 = 100;
/// The lease of a dead node expires after this time.
const TTL: u64 = 1_500;
const TICK: u64 = 5;
const SLOTS_MAX: u64 = 4;

/// One node's work on one slot.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    asked: bool,
    turn: Option<SlotGrant>,
    open_until: Option<u64>,
    free_at: u64,
    /// When a fetch last started or ended, at the latest.
    last: u64,
    /// When a host of ours is ready.
    ready_at: u64,
    starts: u64,
}

#[derive(Debug)]
struct Node {
    slots: Slots,
    id: NodeId,
    incarnation: Incarnation,
    work: Vec<Work>,
    read_at: u64,
    pauses_until: u64,
    /// Its clock is ahead by this time.
    ahead: u64,
    busy: Vec<bool>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Book {
    open: Option<Incarnation>,
    last: Option<u64>,
}

#[derive(Debug)]
enum Coming {
    Packet(Incarnation, Vec<u8>),
    View(Incarnation, Vec<(NodeId, Incarnation)>),
}

#[derive(Debug)]
pub(super) struct Lab {
    t: u64,
    random: u64,
    nodes: Vec<Node>,
    /// When the lease of a dead node expires.
    leases: BTreeMap<Incarnation, (NodeId, Option<u64>)>,
    books: Vec<Book>,
    coming: BTreeMap<(u64, u64), Coming>,
    number: u64,
    slots: usize,
    nodes_max: usize,
    loss: u64,
    calm: bool,
    starts: u64,
}

impl Lab {
    pub(super) fn new(seed: u64) -> Lab {
        let mut lab = Lab {
            t: 0,
            random: seed,
            nodes: Vec::new(),
            leases: BTreeMap::new(),
            books: Vec::new(),
            coming: BTreeMap::new(),
            number: 0,
            slots: 0,
            nodes_max: 0,
            loss: 0,
            calm: false,
            starts: 0,
        };
        lab.slots = 1 + lab.below(SLOTS_MAX) as usize;
        lab.nodes_max = 1 + lab.below(5) as usize;
        lab.loss = [5, 20, 200][lab.below(3) as usize];
        lab.books = vec![Book::default(); lab.slots];
        (0..lab.nodes_max).for_each(|_| lab.join());
        lab
    }

    /// A lab in which nothing goes wrong.
    pub(super) fn calm(seed: u64, nodes: usize, slots: usize) -> Lab {
        let mut lab = Lab::new(seed);
        lab.nodes.clear();
        lab.leases.clear();
        (lab.slots, lab.books, lab.calm) = (slots, vec![Book::default(); slots], true);
        (0..nodes).for_each(|_| lab.join());
        lab
    }

    pub(super) fn calm_down(&mut self) {
        self.calm = true;
        self.nodes.iter_mut().for_each(|node| {
            node.busy.fill(true);
            node.work.iter_mut().for_each(|work| work.starts = 0);
        });
    }

    pub(super) fn starts(&self) -> u64 {
        self.starts
    }

    /// Whether every node has started a fetch on every slot that the node has work for.
    pub(super) fn everyone_started(&self) -> Result<(), String> {
        for node in &self.nodes {
            for (slot, work) in node.work.iter().enumerate().filter(|(slot, _)| node.busy[*slot]) {
                if work.starts == 0 {
                    return Err(format!("{:?} never got slot {slot}: {work:?}", node.incarnation));
                }
            }
        }
        Ok(())
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % end.max(1)
    }

    fn join(&mut self) {
        self.number += 1;
        let (id, incarnation) = (NodeId(self.number % 7), Incarnation(self.number));
        if self.nodes.iter().any(|node| node.id == id) || self.leases.values().any(|(of, _)| *of == id) {
            return;
        }
        self.leases.insert(incarnation, (id, None));
        let ahead = self.below(1 << 40);
        let busy = (0..self.slots).map(|_| self.calm || self.below(4) > 0).collect();
        self.nodes.push(Node {
            slots: Slots::new(id, incarnation, incarnation.0),
            id,
            incarnation,
            work: vec![Work::default(); self.slots],
            read_at: self.t,
            pauses_until: 0,
            ahead,
            busy,
        });
    }

    fn later(&mut self, after: u64, coming: Coming) {
        self.number += 1;
        self.coming.insert((self.t + after, self.number), coming);
    }

    fn delay(&mut self) -> u64 {
        match self.below(if self.calm { 20 } else { 30 }) {
            0..25 => 1 + self.below(8),
            25..29 => self.below(300),
            _ => self.below(4_000),
        }
    }

    /// Injects a fault.
    fn fault(&mut self) {
        let n = self.below(self.nodes.len() as u64) as usize;
        match self.below(6) {
            0 | 1 if self.nodes.len() > 1 => {
                let node = self.nodes.remove(n);
                for (slot, work) in node.work.iter().enumerate() {
                    if work.open_until.is_some() {
                        self.books[slot] = Book { open: None, last: Some(self.t) };
                    }
                }
                let goes = self.t + self.below(TTL);
                self.leases.insert(node.incarnation, (node.id, Some(goes)));
            }
            2 | 3 if self.nodes.len() < self.nodes_max => self.join(),
            4 => {
                // Shorter than its lease, or it would be fenced.
                let pause = self.below(TTL);
                self.nodes[n].pauses_until = self.t + pause;
            }
            _ => {
                let slot = self.below(self.slots as u64) as usize;
                let busy = self.below(2) == 0;
                self.nodes[n].busy[slot] = busy;
            }
        }
    }

    pub(super) fn run(&mut self, time: u64) -> Result<(), String> {
        let end = self.t + time;
        while self.t < end {
            self.t += TICK;
            let t = self.t;
            if !self.calm && self.below(120) == 0 {
                self.fault();
            }
            self.leases.retain(|_, (_, goes)| goes.is_none_or(|goes| goes > t));
            while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= t) {
                let coming = entry.remove();
                self.take(coming);
            }
            for n in 0..self.nodes.len() {
                if self.nodes[n].pauses_until <= t {
                    self.turn(n)?;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, coming: Coming) {
        let t = self.t;
        let (Coming::Packet(to, _) | Coming::View(to, _)) = &coming;
        let Some(node) = self.nodes.iter_mut().find(|node| node.incarnation == *to) else { return };
        let now = t + node.ahead;
        if node.pauses_until > t {
            let after = node.pauses_until - t;
            return self.later(after, coming);
        }
        match coming {
            Coming::Packet(_, bytes) => node.slots.handle_packet(now, &bytes).expect("nobody damages bytes"),
            Coming::View(_, live) => {
                node.slots.handle_view(now, &live);
                node.read_at = t + 300;
            }
        }
    }

    fn turn(&mut self, n: usize) -> Result<(), String> {
        let t = self.t;
        let now = t + self.nodes[n].ahead;
        let me = self.nodes[n].incarnation;
        if self.nodes[n].read_at <= t {
            self.nodes[n].read_at = u64::MAX;
            let live = self.leases.iter().map(|(incarnation, (node, _))| (*node, *incarnation)).collect();
            let after = self.delay();
            self.later(after, Coming::View(me, live));
        }
        while let Some(event) = self.nodes[n].slots.poll_event() {
            let (Event::Granted { slot: SlotKey::V4(slot), .. } | Event::Wanted { slot: SlotKey::V4(slot) }) =
                event
            else {
                unreachable!("all slots here are addresses")
            };
            let work = &mut self.nodes[n].work[slot as usize];
            match event {
                Event::Granted { rested, wanted, .. } => {
                    work.turn = Some(SlotGrant::new(wanted));
                    work.asked = false;
                    work.last = now.saturating_sub(rested);
                    work.free_at = work.free_at.max(now + REST.saturating_sub(rested));
                }
                Event::Wanted { .. } => work.turn.iter_mut().for_each(SlotGrant::handle_wanted),
            }
        }
        for slot in 0..self.slots {
            self.work(n, slot, t, now)?;
        }
        while let Some(parcel) = self.nodes[n].slots.poll_packet(now) {
            if !self.calm && self.below(self.loss) == 0 {
                continue;
            }
            if !self.calm && self.below(10) == 0 {
                let again = self.delay();
                self.later(again, Coming::Packet(parcel.incarnation, parcel.bytes.clone()));
            }
            let after = self.delay();
            self.later(after, Coming::Packet(parcel.incarnation, parcel.bytes));
        }
        Ok(())
    }

    fn work(&mut self, n: usize, slot: usize, t: u64, now: u64) -> Result<(), String> {
        let took = 5 + self.below(40);
        let idle = if self.below(10) == 0 && !self.calm { self.below(1_000) } else { 0 };
        let node = &mut self.nodes[n];
        let (me, busy) = (node.incarnation, node.busy[slot]);
        let (work, book) = (&mut node.work[slot], &mut self.books[slot]);
        let key = SlotKey::V4(slot as u32);
        if work.open_until.is_some_and(|until| until <= now) {
            work.open_until = None;
            work.last = now;
            work.free_at = now + REST;
            work.ready_at = now + idle;
            *book = Book { open: None, last: Some(t) };
        }
        let Some(turn) = &mut work.turn else {
            if busy && !work.asked && work.ready_at <= now {
                work.asked = true;
                node.slots.ask(now, key);
            }
            return Ok(());
        };
        let open = u32::from(work.open_until.is_some());
        let ready_at = busy.then_some(work.ready_at);
        let free = open == 0 && work.free_at <= now && ready_at.is_some_and(|at| at <= now);
        if free && !turn.is_used_up() {
            turn.handle_start();
            work.starts += 1;
            self.starts += 1;
            work.open_until = Some(now + took);
            (work.last, work.free_at) = (now, now + REST);
            if let Some(other) = book.open {
                return Err(format!("at {t} slot {slot} is asked by {me:?} and by {other:?}"));
            }
            if let Some(last) = book.last.filter(|last| t < last + REST) {
                return Err(format!("at {t} slot {slot} is asked by {me:?}, it rests since {last}"));
            }
            *book = Book { open: Some(me), last: Some(t) };
        } else if turn.judge(open, work.free_at, ready_at, now) == GrantVerdict::GiveBack {
            work.turn = None;
            let rested = now - work.last.min(now);
            node.slots.give_back(now, key, rested);
        }
        Ok(())
    }
}
