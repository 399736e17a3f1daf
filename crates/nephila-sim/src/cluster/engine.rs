//! What the nodes share: leases, owner records, logs, inboxes, objects. It is always right; what fails is the way there
//! and back, and now and then it is away.
//!
//! What always holds: a record changes only if its revision is the expected one; a group is appended only behind the one
//! it names; a lease ends a time to live after its last renewal arrived.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use nephila_core::cluster::NodeId;
use nephila_core::cluster::member::{Action, Answer, NodeRecord, OwnerRecord};
use nephila_core::entry::{self, ChainError, Group};
use nephila_core::state::{MemoryState, Position};

use super::Planted;

/// How long a lease lives without being renewed, in milliseconds.
pub(crate) const TTL: u64 = 15_000;

/// Messages that one read gives.
const MESSAGES_MAX: usize = 8;

/// One partition's log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) groups: Vec<Vec<u8>>,
    pub(crate) end: Position,
}

/// What the nodes share.
#[derive(Debug, Default)]
pub(crate) struct Engine {
    pub(crate) revision: u64,
    pub(crate) leases: BTreeMap<NodeId, (NodeRecord, u64)>,
    pub(crate) owners: BTreeMap<u32, (u64, OwnerRecord)>,
    pub(crate) logs: Vec<Log>,
    pub(crate) inboxes: Vec<Vec<Bytes>>,
    /// Parcels that were stored, by their numbers.
    ids: BTreeSet<u128>,
    pub(crate) snapshots: Vec<MemoryState>,
    /// Captures by partition, ticket, and which try it was.
    pub(crate) objects: BTreeSet<(u32, u64, u32)>,
}

/// What came of an append.
#[derive(Debug)]
pub(crate) enum Appended {
    /// It is there, and new.
    New(Box<Group>),
    /// It was there.
    Again,
    /// Something else is there.
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
    pub(crate) fn apply(&mut self, t: u64, action: &Action, planted: Planted) -> Answer {
        self.leases.retain(|_, (_, until)| *until > t);
        self.revision += 1;
        match action {
            Action::Acquire { record, .. } => match self.leases.contains_key(&record.node) {
                true => Answer::Refused,
                false => {
                    self.leases.insert(record.node, (record.clone(), t + TTL));
                    Answer::Done(self.revision)
                }
            },
            Action::Renew { incarnation, record } => match self.leases.get_mut(&record.node) {
                Some((held, until)) if held.incarnation == *incarnation => {
                    (*held, *until) = (record.clone(), t + TTL);
                    Answer::Done(self.revision)
                }
                _ => Answer::Refused,
            },
            Action::Claim { partition, expected, record } => {
                self.swap(*partition, *expected, *record, planted)
            }
            Action::Release { partition, expected, record } => {
                self.swap(*partition, Some(*expected), *record, planted)
            }
            Action::Leave { incarnation } => {
                self.leases.retain(|_, (held, _)| held.incarnation != *incarnation);
                Answer::Done(self.revision)
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
    ) -> Answer {
        let is = self.owners.get(&partition).map(|(revision, _)| *revision);
        if is != expected && planted != Planted::SwapBlindly {
            return Answer::Refused;
        }
        self.owners.insert(partition, (self.revision, record));
        Answer::Done(self.revision)
    }

    /// A group arrives. It names what it follows, so a late one is refused and a repeated one known.
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

    /// A parcel arrives; the same one again is stored once, unless so much time has passed that nobody remembers.
    pub(crate) fn publish(&mut self, partition: u32, id: u128, bytes: Bytes, forgetful: bool) {
        if self.ids.insert(id) || forgetful {
            self.inboxes[partition as usize].push(bytes);
        }
    }

    /// What an inbox holds behind a position.
    pub(crate) fn read(&self, partition: u32, from: u64) -> Vec<Bytes> {
        let inbox = &self.inboxes[partition as usize];
        inbox.iter().skip(from as usize).take(MESSAGES_MAX).cloned().collect()
    }
}
