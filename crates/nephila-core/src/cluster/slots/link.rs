//! The connection from one node to another: messages arrive once and in order, even if the network loses, repeats or
//! reorders packets.
//!
//! Items are numbered. They wait a moment for company, travel together, and are kept until the receiver acknowledges
//! them. Without an acknowledgement in time the sender repeats all items from the first missing one on (go-back-n).
//! The receiver takes only the next number, so a gap is filled by the repetition.
//!
//! Invariants: at most [`WINDOW`] items are in flight; a packet has at most [`ITEMS_MAX`].

use std::collections::VecDeque;

use super::packet::{ITEMS_MAX, Item};
use crate::cluster::NodeId;

/// Items wait this long for others to the same node, in milliseconds.
pub const FLUSH: u64 = 5;
/// An acknowledgement is sent after this time, in milliseconds, unless a packet leaves before.
pub const ACK_AFTER: u64 = 200;
/// Items without an acknowledgement are sent again after this time, in milliseconds; then after twice, four and eight
/// times this (exponential backoff).
pub const AGAIN_AFTER: u64 = 1_000;
/// Maximum number of items in flight.
pub(super) const WINDOW: usize = 16 * ITEMS_MAX;

const DOUBLINGS_MAX: u32 = 3;

#[derive(Debug)]
pub(super) struct Link {
    pub(super) node: NodeId,
    /// Whether the node is in our ring. Otherwise nothing but acknowledgements is sent.
    pub(super) in_ring: bool,
    /// When a packet came last, or the node was last in the ring.
    pub(super) heard_at: u64,
    /// Items that are not acknowledged; the first has the number `acked + 1`.
    queue: VecDeque<Item>,
    acked: u64,
    /// The last number that was sent since the last repetition, and ever.
    sent: u64,
    sent_max: u64,
    flush_at: Option<u64>,
    again_at: Option<u64>,
    doublings: u32,
    /// The last number that was received.
    received: u64,
    ack_at: Option<u64>,
    pub(super) repeated: u64,
}

/// A packet to send: the acknowledgement, the number of the first item, the items.
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

    /// Handles a packet. Returns the items that are new.
    pub(super) fn handle(&mut self, now: u64, ack: u64, first: u64, mut items: Vec<Item>) -> Vec<Item> {
        self.heard_at = now;
        if ack > self.acked && ack <= self.sent_max {
            self.queue.drain(..(ack - self.acked) as usize);
            if self.queue.is_empty() {
                // Most links are silent most of the time: they take no memory.
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
            // A gap, or all items were here before: the sender has to learn our position.
            self.ack_at = Some(now);
            return Vec::new();
        }
        items.drain(..known as usize);
        self.received += items.len() as u64;
        let ack_at = if known > 0 { now } else { now + ACK_AFTER };
        self.ack_at = Some(self.ack_at.map_or(ack_at, |at| at.min(ack_at)));
        items
    }

    /// Whether all our items are acknowledged.
    #[cfg(test)]
    pub(super) fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }
}
