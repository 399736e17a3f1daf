//! A partition's log as a worker writes it, and what the worker knows of a partition beside its frontier.

use nephila_core::frontier::key::Prefixes;
use nephila_log::GroupLog;
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
    /// The group on its way, if there was no room for it. The log has to go back before it takes it.
    pub(super) unwritten: Option<Vec<u8>>,
    /// It is being handed over, and this is who waits for it.
    pub(super) closing: Option<oneshot::Sender<Closed>>,
}

impl Log {
    pub(super) fn new(prefixes: Prefixes, log: Box<dyn GroupLog>) -> Log {
        Log { prefixes, log, dirty_since: None, urgent: false, unwritten: None, closing: None }
    }
}

/// A caller that waits until what these partitions had to write is durable.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) partitions: Vec<usize>,
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
