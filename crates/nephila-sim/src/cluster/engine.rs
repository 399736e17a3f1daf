//! The engine that the nodes share: leases, owner records, logs, inboxes, objects. The engine is always right; calls
//! and answers fail, and now and then the engine is away.
//!
//! Invariants: a record changes only if its revision is the expected one (compare-and-swap); a group is appended only
//! after the group named as its predecessor; a lease ends a time to live after its last renewal arrived.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use nephila_core::cluster::NodeId;
use nephila_core::cluster::member::{Action, NodeRecord, OwnerRecord, SwapResult};
use nephila_core::entry::{self, ChainError, Group};
use nephila_core::spread::Spread;
use nephila_core::state::{MemoryState, Position};

use super::Planted;

/// How long a lease lives without being renewed, in milliseconds.
pub(crate) const TTL: u64 = 15_000;

/// Maximum number of messages per read.
const MESSAGES_MAX: usize = 8;

/// One partition's log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) groups: Vec<Vec<u8>>,
    pub(crate) end: Position,
}

/// The shared engine.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) revision: u64,
    pub(crate) leases: BTreeMap<NodeId, (NodeRecord, u64)>,
    pub(crate) owners: BTreeMap<u32, (u64, OwnerRecord)>,
    pub(crate) logs: Vec<Log>,
    pub(crate) inboxes: Vec<Vec<Bytes>>,
    /// Numbers of the stored parcels, for deduplication.
    ids: BTreeSet<u128>,
    pub(crate) snapshots: Vec<MemoryState>,
    /// Captures by partition, ticket, and number of the try.
    pub(crate) objects: BTreeSet<(u32, u64, u32)>,
    /// Records of the spread domains.
    pub(crate) spread: Spread,
}

/// The result of an append.
#[derive(Debug)]
pub(crate) enum Appended {
    /// The group was appended.
    New(Box<Group>),
    /// The log had the group already.
    Again,
    /// The log has another group at this position.
    Refused,
}

impl Engine {
    pub(crate) fn new(partitions: u32) -> Engine {
        Engine {
            logs: (0..partitions).map(|_| Log::default()).collect(),
            inboxes: vec![Vec::new(); partitions as usize],
            snapshots: vec![MemoryState::new(); partitions as usize],
            ..Engine::default()
        }
    }

    pub(crate) fn leases(&mut self, t: u64) -> Vec<NodeRecord> {
        self.leases.retain(|_, (_, until)| *until > t);
        self.leases.values().map(|(record, _)| record.clone()).collect()
    }

    /// A call of a member: about its lease or an owner record.
    pub(crate) fn apply(&mut self, t: u64, action: &Action, planted: Planted) -> SwapResult {
        self.leases.retain(|_, (_, until)| *until > t);
        self.revision += 1;
        match action {
            Action::Acquire { record, .. } => match self.leases.contains_key(&record.node) {
                true => SwapResult::Refused,
                false => {
                    self.leases.insert(record.node, (record.clone(), t + TTL));
                    SwapResult::Done(self.revision)
                }
            },
            Action::Renew { incarnation, record } => match self.leases.get_mut(&record.node) {
                Some((held, until)) if held.incarnation == *incarnation => {
                    (*held, *until) = (record.clone(), t + TTL);
                    SwapResult::Done(self.revision)
                }
                _ => SwapResult::Refused,
            },
            Action::Claim { partition, expected, record } => {
                self.swap(*partition, *expected, *record, planted)
            }
            Action::Release { partition, expected, record } => {
                self.swap(*partition, Some(*expected), *record, planted)
            }
            Action::Leave { incarnation } => {
                self.leases.retain(|_, (held, _)| held.incarnation != *incarnation);
                SwapResult::Done(self.revision)
            }
            other => unreachable!("{other:?} is not for the engine"),
        }
    }

    fn swap(
        &mut self,
        partition: u32,
        expected: Option<u64>,
        record: OwnerRecord,
        planted: Planted,
    ) -> SwapResult {
        let is = self.owners.get(&partition).map(|(revision, _)| *revision);
        if is != expected && planted != Planted::SwapBlindly {
            return SwapResult::Refused;
        }
        self.owners.insert(partition, (self.revision, record));
        SwapResult::Done(self.revision)
    }

    /// Appends a group. A group names its predecessor, so a late group is refused and a repeated one is recognized.
    pub(crate) fn append(&mut self, partition: u32, bytes: &[u8]) -> Appended {
        let log = &mut self.logs[partition as usize];
        match entry::open(bytes, log.end) {
            Ok((group, end)) => {
                log.groups.push(bytes.to_vec());
                log.end = end;
                Appended::New(Box::new(group))
            }
            Err(ChainError::Old { .. }) if log.groups.last().is_some_and(|last| last == bytes) => {
                Appended::Again
            }
            Err(_) => Appended::Refused,
        }
    }

    /// Stores a parcel. A repeated parcel is stored once (deduplication), unless so much time has passed that the
    /// engine has forgotten the first.
    pub(crate) fn publish(&mut self, partition: u32, id: u128, bytes: Bytes, forgetful: bool) {
        if self.ids.insert(id) || forgetful {
            self.inboxes[partition as usize].push(bytes);
        }
    }

    /// Messages of an inbox after a position.
    pub(crate) fn read(&self, partition: u32, from: u64) -> Vec<Bytes> {
        let inbox = &self.inboxes[partition as usize];
        inbox.iter().skip(from as usize).take(MESSAGES_MAX).cloned().collect()
    }
}
