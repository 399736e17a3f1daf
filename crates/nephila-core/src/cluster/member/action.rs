//! The actions that a member asks of its shell, and the shell's answers.
//!
//! Invariant: every action is answered once, in bounded time, by the method of [`Member`] named in its documentation.

use std::collections::BTreeMap;

#[cfg(doc)]
use super::Member;
use super::{NodeRecord, OwnerRecord};
use crate::cluster::{Epoch, Incarnation, NodeId};

/// The next action of the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create the node's lease; the lease must not exist. Then [`Member::handle_acquired`].
    Acquire {
        /// Under this incarnation.
        incarnation: Incarnation,
        /// The content of the lease.
        record: NodeRecord,
    },
    /// Write the lease again, if the lease is still that of this incarnation; a lease that is gone is never
    /// recreated. Then [`Member::handle_renewed`].
    Renew {
        /// The incarnation of the lease.
        incarnation: Incarnation,
        /// The content of the lease.
        record: NodeRecord,
    },
    /// Read all owner records, and only then all live leases. Then [`Member::handle_view`].
    Read {
        /// The incarnation that asks.
        incarnation: Incarnation,
    },
    /// Write the owner record of a partition, if its revision is still this one. Then [`Member::handle_claimed`].
    Claim {
        /// The partition.
        partition: u32,
        /// The revision as read; none if there was no record.
        expected: Option<u64>,
        /// The content of the record.
        record: OwnerRecord,
    },
    /// Begin to work on a partition: its log, its state, its tickets. Then [`Member::handle_opened`] or
    /// [`Member::handle_open_failed`].
    Open {
        /// The partition.
        partition: u32,
        /// The epoch that its entries carry from now on.
        epoch: Epoch,
    },
    /// Give out no more tickets of a partition, wait for the open ones, write everything, close the partition. The
    /// partition may not even be open yet. Then [`Member::handle_drained`].
    Drain {
        /// The partition.
        partition: u32,
        /// The epoch under which the partition was opened.
        epoch: Epoch,
    },
    /// Write into the owner record that the partition has no owner, if its revision is still this one. Then
    /// [`Member::handle_released`].
    Release {
        /// The partition.
        partition: u32,
        /// The revision of our ownership.
        expected: u64,
        /// The content of the record.
        record: OwnerRecord,
    },
    /// Stop at once: no ticket, no append, open fetches aborted, partitions dropped without any message. Then
    /// [`Member::handle_fenced`].
    Fence,
    /// No partition is held: remove the lease, if there is one, and end. Nothing follows.
    Leave {
        /// The incarnation of the lease.
        incarnation: Incarnation,
    },
}

/// The result of a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwapResult {
    /// Written: the new revision.
    Done(u64),
    /// Another writer was first, or the record is gone.
    Refused,
    /// No answer: the record may have been written, or may be written later.
    Unknown,
}

/// The cluster as read from the store: owner records first, live leases after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The live leases.
    pub nodes: Vec<NodeRecord>,
    /// Partition to revision and record.
    pub owners: BTreeMap<u32, (u64, OwnerRecord)>,
    /// Partitions that an operator has pinned to a node.
    pub pins: BTreeMap<u32, NodeId>,
}

/// The phase of a partition on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The claim is in flight.
    Claiming,
    /// The partition is ours and being opened.
    Opening,
    /// The partition is ours, and tickets are given out.
    Open,
    /// The partition is being handed over: no more tickets, but outcomes of the open ones are still written.
    Draining,
    /// The partition is closed and ours only in name.
    Releasing,
}
