//! The web of a run: hosts, their addresses and their partitions, in the shares of our capacity model. And the books
//! that are kept at the addresses: which hosts have an open fetch, and since when each rests.
//!
//! Invariant: the books know nothing of turns, leases or nodes' clocks; they see starts and ends alone.

use nephila_core::frontier::slot::SlotKey;

use super::super::rng::Rng;
use super::super::{Checker, Violation};

/// Active hosts of a node, on average.
pub const HOSTS_PER_NODE: usize = 540;
/// Partitions of a node, on average.
pub const PARTITIONS_PER_NODE: usize = 16;
/// Rest of a host between the end of a fetch and the next start, in milliseconds.
pub const HOST_REST: u64 = 10_000;
/// Rest of an address.
pub const SLOT_REST: u64 = 2_000;
/// Mean time that a fetch takes.
pub const FETCH_MEAN: u64 = 2_000;

/// Hosts out of a thousand: alone on their address, with three others, with 59 others; the rest is with fleets.
const SHARES: [(Class, usize, usize); 3] =
    [(Class::Single, 175, 1), (Class::Mid, 225, 4), (Class::Big, 400, 60)];
/// Operators of fleets, and connections that each bears from all of us: 2,000 requests/s of two seconds each.
const FLEETS: usize = 5;
const LANES: usize = 4_000;
/// Hosts at an address that shares, by its class.
pub(super) const NEIGHBOURS: [(f64, f64); 2] = [(0.225, 4.0), (0.40, 60.0)];
/// Share of the hosts that fleets have, and connections of all fleets.
pub(super) const OF_FLEETS: (f64, f64) = (0.20, (FLEETS * LANES) as f64);

/// No host, node or work.
pub(super) const NONE: u32 = u32::MAX;

/// The kind of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Single,
    Mid,
    Big,
    Fleet,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    pub(super) slot: u32,
    pub(super) partition: u32,
    /// The work in whose queue the host stands, if its partition is open somewhere.
    pub(super) work: u32,
    /// The next host in that queue.
    pub(super) next: u32,
    pub(super) ready_at: u64,
}

#[derive(Debug)]
pub(super) struct Slot {
    pub(super) class: Class,
    pub(super) rest: u64,
    /// The nodes that have hosts there, and their works.
    pub(super) works: Vec<(u32, u32)>,
}

/// Observations of the servers.
#[derive(Clone, Copy, Debug, Default)]
struct Book {
    open: bool,
    /// When something last started or ended.
    last: Option<u32>,
}

#[derive(Debug)]
pub(super) struct Web {
    pub(super) hosts: Vec<Host>,
    pub(super) slots: Vec<Slot>,
    /// Hosts by partition.
    pub(super) of_partition: Vec<Vec<u32>>,
    host_books: Vec<Book>,
    slot_books: Vec<Book>,
    lanes_from: usize,
}

impl Web {
    pub(super) fn new(rng: &mut Rng, nodes: usize) -> Web {
        let count = nodes * HOSTS_PER_NODE;
        let partitions = nodes * PARTITIONS_PER_NODE;
        let (mut hosts, mut slots) = (Vec::with_capacity(count), Vec::new());
        let mut host = |slot: usize, rng: &mut Rng| {
            let partition = rng.index(partitions) as u32;
            hosts.push(Host { slot: slot as u32, partition, work: NONE, next: NONE, ready_at: 0 });
        };
        let mut left = count;
        for (class, share, neighbours) in SHARES {
            let here = count * share / 1_000;
            left -= here;
            for n in 0..here {
                if n % neighbours == 0 {
                    slots.push(Slot { class, rest: SLOT_REST, works: Vec::new() });
                }
                host(slots.len() - 1, rng);
            }
        }
        let lanes_from = slots.len();
        slots.extend((0..FLEETS * LANES).map(|_| Slot { class: Class::Fleet, rest: 0, works: Vec::new() }));
        (0..left).for_each(|_| host(lanes_from + rng.index(FLEETS * LANES), rng));
        let mut of_partition = vec![Vec::new(); partitions];
        for (n, host) in hosts.iter().enumerate() {
            of_partition[host.partition as usize].push(n as u32);
        }
        Web {
            host_books: vec![Book::default(); hosts.len()],
            slot_books: vec![Book::default(); slots.len()],
            hosts,
            slots,
            of_partition,
            lanes_from,
        }
    }

    pub(super) fn key(&self, slot: u32) -> SlotKey {
        match (slot as usize).checked_sub(self.lanes_from) {
            None => SlotKey::V4(slot),
            Some(at) => SlotKey::Fleet { fleet: (at / LANES) as u32, lane: (at % LANES) as u32 },
        }
    }

    pub(super) fn slot_of(&self, key: SlotKey) -> u32 {
        match key {
            SlotKey::V4(slot) => slot,
            SlotKey::Fleet { fleet, lane } => {
                (self.lanes_from + fleet as usize * LANES + lane as usize) as u32
            }
            SlotKey::V6(_) => unreachable!("there are none here"),
        }
    }

    /// The work of a node at a slot.
    pub(super) fn work_of(&self, slot: u32, node: u32) -> Option<u32> {
        self.slots[slot as usize].works.iter().find(|(of, _)| *of == node).map(|(_, work)| *work)
    }

    /// A fetch starts: checks that this is allowed.
    pub(super) fn begin(&mut self, t: u64, host: u32) -> Result<(), Violation> {
        let slot = self.hosts[host as usize].slot;
        let rest = self.slots[slot as usize].rest;
        let near = |book: &Book, rest: u64| book.last.is_some_and(|last| t < u64::from(last) + rest);
        let (host_book, slot_book) =
            (&mut self.host_books[host as usize], &mut self.slot_books[slot as usize]);
        let what = if host_book.open {
            format!("host {host} is asked twice at once")
        } else if slot_book.open {
            format!("slot {slot} is asked twice at once")
        } else if near(host_book, HOST_REST) {
            format!("host {host} has rested since {:?} only", host_book.last)
        } else if near(slot_book, rest) {
            format!("slot {slot} has rested since {:?} only", slot_book.last)
        } else {
            let book = Book { open: true, last: Some(t as u32) };
            (*host_book, *slot_book) = (book, book);
            return Ok(());
        };
        Err(Violation::new(Checker::Politeness, format!("at {t} ms: {what}")))
    }

    /// A fetch ends, or is cut off.
    pub(super) fn end(&mut self, t: u64, host: u32) {
        let slot = self.hosts[host as usize].slot;
        let book = Book { open: false, last: Some(t as u32) };
        (self.host_books[host as usize], self.slot_books[slot as usize]) = (book, book);
    }
}

/// How long a fetch takes: [`FETCH_MEAN`] on average, some much longer.
pub(super) fn took(rng: &mut Rng) -> u64 {
    match rng.below(10) {
        0..5 => rng.within(500, 1_500),
        5..9 => rng.within(1_500, 3_500),
        _ => rng.within(3_500, 6_500),
    }
}
