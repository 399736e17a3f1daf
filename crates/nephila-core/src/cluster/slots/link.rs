//! The way from one node to another: what is said arrives once and in its order, whatever the network loses, repeats or
//! turns round.
//!
//! Items are numbered. They wait a moment for company, travel together, and are kept until the other side says that they
//! have come; what it does not say in time is sent again from the first missing one on. The other side takes only the
//! next number, so a gap is filled by the repetition.
//!
//! What always holds: at most [`WINDOW`] items are on their way; a packet has at most [`ITEMS_MAX`].

use std::collections::VecDeque;

use super::packet::{ITEMS_MAX, Item};
use crate::cluster::NodeId;

/// Items wait this long for others that go the same way, in milliseconds.
pub const FLUSH: u64 = 5;
/// That something has come is said after this time, unless there is something else to say before.
pub const ACK_AFTER: u64 = 200;
/// What nobody says has come is sent again after this time; then after twice, four and eight times this.
pub const AGAIN_AFTER: u64 = 1_000;
/// Items on their way at once.
pub(super) const WINDOW: usize = 16 * ITEMS_MAX;

const DOUBLINGS_MAX: u32 = 3;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) node: NodeId,
    /// Is it in the ring we go by? Otherwise nothing but acknowledgements is sent.
    pub(super) in_ring: bool,
    /// When something came, or it was in the ring.
    pub(super) heard_at: u64,
    /// What has not been acknowledged; the first has the number `acked + 1`.
    queue: VecDeque<Item>,
    acked: u64,
    /// The last number that was sent since the last repetition, and ever.
    sent: u64,
    sent_max: u64,
    flush_at: Option<u64>,
    again_at: Option<u64>,
    doublings: u32,
    /// The last number that has come.
    received: u64,
    ack_at: Option<u64>,
    pub(super) repeated: u64,
}

/// What is to be sent: the acknowledgement, the number of the first item, the items.
pub(super) type Load = (u64, u64, Vec<Item>);

impl Link {
    pub(super) fn new(node: NodeId, now: u64) -> Link {
        Link {
            node,
            in_ring: false,
            heard_at: now,
            queue: VecDeque::new(),
            acked: 0,
            sent: 0,
            sent_max: 0,
            flush_at: None,
            again_at: None,
            doublings: 0,
            received: 0,
            ack_at: None,
            repeated: 0,
        }
    }

    pub(super) fn push(&mut self, now: u64, item: Item) {
        self.queue.push_back(item);
        self.flush_at.get_or_insert(now + FLUSH);
    }

    fn unsent(&self) -> usize {
        self.queue.len() - (self.sent - self.acked) as usize
    }

    /// When [`Link::poll`] has something.
    pub(super) fn due(&self) -> Option<u64> {
        let flush = self.flush_at.filter(|_| (self.sent - self.acked) < WINDOW as u64);
        let items = [flush, self.again_at].into_iter().flatten().min().filter(|_| self.in_ring);
        items.into_iter().chain(self.ack_at).min()
    }

    pub(super) fn poll(&mut self, now: u64) -> Option<Load> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        if self.in_ring {
            if self.again_at.is_some_and(|at| at <= now) {
                self.repeated += self.sent - self.acked;
                (self.sent, self.again_at) = (self.acked, None);
                self.doublings = (self.doublings + 1).min(DOUBLINGS_MAX);
                self.flush_at = Some(now);
            }
            let on_way = (self.sent - self.acked) as usize;
            let count = self.unsent().min(ITEMS_MAX).min(WINDOW.saturating_sub(on_way));
            if count > 0 && self.flush_at.is_some_and(|at| at <= now) {
                let items = self.queue.iter().skip(on_way).take(count).copied().collect();
                let first = self.sent + 1;
                self.sent += count as u64;
                self.sent_max = self.sent_max.max(self.sent);
                self.again_at.get_or_insert(now + (AGAIN_AFTER << self.doublings));
                self.flush_at = (self.unsent() > 0).then_some(now);
                self.ack_at = None;
                return Some((self.received, first, items));
            }
        }
        self.ack_at.take_if(|at| *at <= now)?;
        Some((self.received, self.sent + 1, Vec::new()))
    }

    /// Something came. Gives the items that are new.
    pub(super) fn handle(&mut self, now: u64, ack: u64, first: u64, mut items: Vec<Item>) -> Vec<Item> {
        self.heard_at = now;
        if ack > self.acked && ack <= self.sent_max {
            self.queue.drain(..(ack - self.acked) as usize);
            if self.queue.is_empty() {
                // Most links are silent most of the time: they need no room.
                self.queue = VecDeque::new();
            }
            self.acked = ack;
            self.sent = self.sent.max(ack);
            self.doublings = 0;
            self.again_at = (self.sent > self.acked).then_some(now + AGAIN_AFTER);
            if self.unsent() > 0 {
                self.flush_at.get_or_insert(now);
            } else {
                self.flush_at = None;
            }
        }
        if items.is_empty() {
            return items;
        }
        let known = (self.received + 1).saturating_sub(first);
        if first > self.received + 1 || known >= items.len() as u64 {
            // A gap, or all of it was here before: whoever sent it has to hear where we stand.
            self.ack_at = Some(now);
            return Vec::new();
        }
        items.drain(..known as usize);
        self.received += items.len() as u64;
        let ack_at = if known > 0 { now } else { now + ACK_AFTER };
        self.ack_at = Some(self.ack_at.map_or(ack_at, |at| at.min(ack_at)));
        items
    }

    /// Is everything that was said here acknowledged?
    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }
}
