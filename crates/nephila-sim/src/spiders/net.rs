//! Connections between spiders and their node: in order, late, stalled, cut, and half-open.

use bytes::{Bytes, BytesMut};
use nephila_core::remote::v2::frame::Frame;

use super::{Event, Sim};
use crate::Checker;
use crate::rng::Rng;

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Node,
    Spider,
}

impl Side {
    fn other(self) -> Side {
        match self {
            Side::Node => Side::Spider,
            Side::Spider => Side::Node,
        }
    }
}

/// What arrives.
#[derive(Debug)]
pub(super) enum What {
    Bytes(Bytes),
    /// The other side has closed the connection.
    Closed,
    /// This side notices that the connection is cut.
    Cut,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) spider: usize,
    pub(super) node_life: u64,
    lag: u64,
    is_cut: bool,
    to: [Way; 2],
}

/// One direction.
#[derive(Debug, Default)]
struct Way {
    /// When the last of what was sent arrives.
    last: u64,
    stalled_until: u64,
    /// Whether the reader has closed its end.
    is_closed: bool,
    bytes: BytesMut,
}

impl Link {
    pub(super) fn new(rng: &mut Rng, spider: usize, node_life: u64) -> Link {
        let lag = *rng.pick(&[1, 1, 10, 50, 200, 2_000, 5_000]);
        Link { spider, node_life, lag, is_cut: false, to: [Way::default(), Way::default()] }
    }
}

impl Sim {
    /// Sends a frame to this side.
    pub(super) fn send(&mut self, link: u64, to: Side, frame: &Frame) {
        self.put(link, to, What::Bytes(frame.to_bytes().into()));
    }

    fn put(&mut self, id: u64, to: Side, what: What) {
        let jitter = self.rng.below(5);
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_cut) else { return };
        if link.to[to.other() as usize].is_closed {
            return;
        }
        let way = &mut link.to[to as usize];
        let at = (self.t + link.lag + jitter).max(way.last).max(way.stalled_until);
        way.last = at;
        self.at(at, Event::Arrive { link: id, side: to, what });
    }

    /// This side closes the connection, after what it has sent.
    pub(super) fn close(&mut self, link: u64, side: Side) {
        self.put(link, side.other(), What::Closed);
        if let Some(link) = self.links.get_mut(&link) {
            link.to[side as usize].is_closed = true;
        }
    }

    /// The connection is cut: what is under way is lost. Those that do not notice go on as if it were not.
    pub(super) fn cut(&mut self, id: u64, notice: &[Side]) {
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_cut) else { return };
        link.is_cut = true;
        for side in notice {
            let at = self.t + self.rng.below(300);
            self.at(at, Event::Arrive { link: id, side: *side, what: What::Cut });
        }
    }

    /// Nothing that is sent from now on arrives at this side for a while.
    pub(super) fn stall(&mut self, link: u64, side: Side, ms: u64) {
        let until = self.t + ms;
        if let Some(link) = self.links.get_mut(&link) {
            link.to[side as usize].stalled_until = until;
        }
    }

    pub(super) fn arrive(&mut self, id: u64, side: Side, what: What) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let way = &mut link.to[side as usize];
        if way.is_closed || link.is_cut && !matches!(what, What::Cut) {
            return;
        }
        match what {
            What::Bytes(bytes) => {
                way.bytes.extend_from_slice(&bytes);
                loop {
                    let Some(link) = self.links.get_mut(&id) else { return };
                    match Frame::take(&mut link.to[side as usize].bytes) {
                        Ok(Some(frame)) if side == Side::Node => self.node_frame(id, frame),
                        Ok(Some(frame)) => self.spider_frame(id, frame),
                        Ok(None) => return,
                        Err(error) => return self.books.found(Checker::Error, error.to_string()),
                    }
                }
            }
            What::Closed | What::Cut => {
                way.is_closed = true;
                match side {
                    Side::Node => self.node_closed(id),
                    Side::Spider => self.spider_closed(id),
                }
            }
        }
    }
}
