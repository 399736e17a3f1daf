//! What a member asks of its shell, and how the shell answers.
//!
//! What always holds: every action is answered once, in bounded time, by the method of [`Member`] that it names.

use std::collections::BTreeMap;

#[cfg(doc)]
use super::Member;
use super::{NodeRecord, OwnerRecord};
use crate::cluster::{Epoch, Incarnation, NodeId};

/// What the shell should do now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create the node's lease; it must not exist. Then [`Member::handle_acquired`].
    Acquire {
        /// Under this incarnation.
        incarnation: Incarnation,
        /// What the lease says.
        record: NodeRecord,
    },
    /// Write the lease again, if it is still that of this incarnation; one that is gone is never made anew. Then
    /// [`Member::handle_renewed`].
    Renew {
        /// Whose.
        incarnation: Incarnation,
        /// What the lease says.
        record: NodeRecord,
    },
    /// Read all owner records, and only then all live leases. Then [`Member::handle_view`].
    Read {
        /// For whom.
        incarnation: Incarnation,
    },
    /// Write the owner record of a partition, if its revision is still this one. Then [`Member::handle_claimed`].
    Claim {
        /// Which.
        partition: u32,
        /// The revision that was read; none if there was no record.
        expected: Option<u64>,
        /// What the record says.
        record: OwnerRecord,
    },
    /// Begin to work on a partition: its log, its state, its tickets. Then [`Member::handle_opened`] or
    /// [`Member::handle_open_failed`].
    Open {
        /// Which.
        partition: u32,
        /// What its entries carry from now on.
        epoch: Epoch,
    },
    /// Give out no more tickets of a partition, wait for the open ones, write everything, close it. It may not even be
    /// open yet. Then [`Member::handle_drained`].
    Drain {
        /// Which.
        partition: u32,
        /// Under which it was opened.
        epoch: Epoch,
    },
    /// Write into the owner record that nobody owns the partition, if its revision is still this one. Then
    /// [`Member::handle_released`].
    Release {
        /// Which.
        partition: u32,
        /// The revision under which it was owned.
        expected: u64,
        /// What the record says.
        record: OwnerRecord,
    },
    /// Stop at once: no ticket, no append, open fetches aborted, partitions dropped without a word to anybody. Then
    /// [`Member::handle_fenced`].
    Fence,
    /// Nothing is held any more: remove the lease, if there is one, and end. Nothing follows.
    Leave {
        /// Whose.
        incarnation: Incarnation,
    },
}

/// What came of a compare-and-swap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was written: the new revision.
    Done(u64),
    /// Somebody else was first, or it is gone.
    Refused,
    /// No answer: it may have been written, or be written later.
    Unknown,
}

/// What was read: owner records first, live leases after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// The live leases.
    pub nodes: Vec<NodeRecord>,
    /// Partition to revision and record.
    pub owners: BTreeMap<u32, (u64, OwnerRecord)>,
    /// Partitions that an operator wants on a node.
    pub pins: BTreeMap<u32, NodeId>,
}

/// How far a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The claim is on its way.
    Claiming,
    /// It is ours and being opened.
    Opening,
    /// It is ours, and tickets are given out.
    Open,
    /// It is being handed over: no more tickets, but outcomes of the open ones are still written.
    Draining,
    /// It is closed and ours only in name.
    Releasing,
}
