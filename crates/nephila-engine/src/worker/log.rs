//! A partition's log as a worker writes it, and the worker's own state for a partition.
//!
//! Invariants: at most one group of a partition is under way; groups are counted when they begin and when they are
//! durable, so a caller that waits for a group knows its number.

use nephila_core::key::Prefixes;
use nephila_log::{GroupLog, Wake};
use tokio::sync::oneshot;

use super::hand_over::Closed;

/// The worker's own state for a partition, beside the frontier's.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) prefixes: Prefixes,
    pub(super) log: Box<dyn GroupLog>,
    /// Since when the partition has entries to write, in milliseconds.
    pub(super) dirty_since: Option<u64>,
    /// A caller waits for this partition and should not wait long.
    pub(super) urgent: bool,
    /// Bytes fed to the partition that are in no group yet.
    pub(super) fed_bytes: usize,
    /// The group under way.
    pub(super) flight: Option<Flight>,
    /// The group that did not fit on the disk. Before the retry the log must go back to its durable end.
    pub(super) unwritten: Option<Vec<u8>>,
    /// Groups begun, and how many of them are durable.
    pub(super) begun: u64,
    pub(super) done: u64,
    /// Groups before this one are obsolete, and are removed when the group under way is durable.
    pub(super) shorten_to: Option<u64>,
    /// Set while the partition is being handed over: the reply channel of the caller.
    pub(super) closing: Option<oneshot::Sender<Closed>>,
}

/// A group under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) group: Vec<u8>,
    /// When the group began, in milliseconds.
    pub(super) began: u64,
    /// Whether this is a retry after a full disk.
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

    /// Starts a new group, which contains everything fed so far.
    pub(super) fn begin(&mut self) {
        self.begun += 1;
        (self.dirty_since, self.urgent, self.fed_bytes) = (None, false, 0);
    }

    /// Whether there is a group that is not durable.
    pub(super) fn is_under_way(&self) -> bool {
        self.flight.is_some() || self.unwritten.is_some()
    }

    /// Whether the group under way is a retry after a full disk.
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

/// The answer to a caller.
#[derive(Debug)]
pub(super) enum Reply {
    /// The request is done.
    Done(oneshot::Sender<()>),
    /// The offers are durable, except these, whose partitions are not here.
    Offered(oneshot::Sender<Vec<u32>>, Vec<u32>),
}

impl Reply {
    /// Sends the answer; the caller may have left.
    pub(super) fn send(self) {
        match self {
            Reply::Done(reply) => _ = reply.send(()),
            Reply::Offered(reply, elsewhere) => _ = reply.send(elsewhere),
        }
    }
}
