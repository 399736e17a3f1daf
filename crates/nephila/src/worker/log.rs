//! A partition's log as a worker writes it, and what the worker knows of a partition beside its frontier.
//!
//! What always holds: one group of a partition is on its way at a time; groups are counted when they begin and when they
//! are durable, so whoever waits for one knows its number.

use nephila_core::key::Prefixes;
use nephila_log::{GroupLog, Wake};
use tokio::sync::oneshot;

use super::hand_over::Closed;

/// What the worker knows of a partition beside its frontier.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) prefixes: Prefixes,
    pub(super) log: Box<dyn GroupLog>,
    /// Since when it has something to write, in milliseconds.
    pub(super) dirty_since: Option<u64>,
    /// Somebody waits for it who should not wait long.
    pub(super) urgent: bool,
    /// Bytes fed to it that are in no group yet.
    pub(super) fed_bytes: usize,
    /// The group on its way.
    pub(super) flight: Option<Flight>,
    /// The group that was on its way, if there was no room for it. The log has to go back before it takes it.
    pub(super) unwritten: Option<Vec<u8>>,
    /// Groups begun, and how many of them are durable.
    pub(super) begun: u64,
    pub(super) done: u64,
    /// Groups before this one are not needed, and are removed when the one on its way has arrived.
    pub(super) shorten_to: Option<u64>,
    /// It is being handed over, and this is who waits for it.
    pub(super) closing: Option<oneshot::Sender<Closed>>,
}

/// A group on its way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) group: Vec<u8>,
    /// Since when, in milliseconds.
    pub(super) began: u64,
    /// There was no room for it before.
    pub(super) again: bool,
}

impl Log {
    pub(super) fn new(prefixes: Prefixes, mut log: Box<dyn GroupLog>, wake: &Wake) -> Log {
        log.wake_with(wake.clone());
        Log {
            prefixes,
            log,
            dirty_since: None,
            urgent: false,
            fed_bytes: 0,
            flight: None,
            unwritten: None,
            begun: 0,
            done: 0,
            shorten_to: None,
            closing: None,
        }
    }

    /// Everything that was fed to it so far is in a group.
    pub(super) fn begin(&mut self) {
        self.begun += 1;
        (self.dirty_since, self.urgent, self.fed_bytes) = (None, false, 0);
    }

    /// Has it a group that is not durable?
    pub(super) fn is_under_way(&self) -> bool {
        self.flight.is_some() || self.unwritten.is_some()
    }

    /// Is it being tried again for want of room?
    pub(super) fn tries_again(&self) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.again)
    }
}

/// A caller that waits until these groups of these partitions are durable.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) needs: Vec<(usize, u64)>,
    pub(super) reply: Reply,
}

/// What a caller is told.
#[derive(Debug)]
pub(super) enum Reply {
    /// That it is done.
    Done(oneshot::Sender<()>),
    /// That what was offered is durable, but for these, which are of partitions that are not here.
    Offered(oneshot::Sender<Vec<u32>>, Vec<u32>),
}

impl Reply {
    /// Whoever asked may have left.
    pub(super) fn send(self) {
        match self {
            Reply::Done(reply) => _ = reply.send(()),
            Reply::Offered(reply, elsewhere) => _ = reply.send(elsewhere),
        }
    }
}
