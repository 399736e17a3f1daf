//! Calls from the nodes to the shared engine: each takes time there and back, and may be lost on either way.
//!
//! Invariants: a call is answered once, or fails after [`CALL_MAX`] (timeout); a call without an answer may still have
//! arrived, or arrive later.

use std::collections::BTreeMap;

use bytes::Bytes;
use nephila_core::cluster::member::{Action as Deed, NodeRecord, OwnerRecord, SwapResult, View};
use nephila_core::cluster::{Epoch, Incarnation};
use nephila_core::entry::{self, ChainError};
use nephila_core::fold::fold;
use nephila_core::frontier::Frontier;
use nephila_core::frontier::ticket::TicketId;
use nephila_core::key::Prefixes;
use nephila_core::spread::Spread;
use nephila_core::state::{MemoryState, State};

use super::engine::Appended;
use super::node::Part;
use super::{Event, Planted, Sim};
use crate::{Checker, Violation};

/// Timeout of a call, in milliseconds.
const CALL_MAX: u64 = 5_000;

/// Groups before the snapshot that a reader gets once more.
const OLD_GROUPS: u64 = 3;

/// A node takes note of new decisions about spread domains, once in this number of looks.
const TABLE_READ: u64 = 20;

/// A node's call to the engine.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Member(Deed),
    Owners { incarnation: Incarnation },
    Leases { incarnation: Incarnation, owners: BTreeMap<u32, (u64, OwnerRecord)> },
    Load { partition: u32, epoch: Epoch },
    Append { partition: u32, part: u64, epoch: Epoch, bytes: Vec<u8> },
    Inbox { partition: u32, part: u64, from: u64 },
    Publish { partition: u32, id: u128, bytes: Bytes },
    Put { partition: u32, part: u64, ticket: TicketId, attempt: u32 },
    Spread { partition: u32, part: u64, decided: Spread },
}

/// The answer.
#[derive(Clone, Debug)]
pub(crate) enum Got {
    Nothing,
    Member(SwapResult),
    Owners(BTreeMap<u32, (u64, OwnerRecord)>),
    Leases(Vec<NodeRecord>, Spread),
    /// A state, the groups after that state, and whether one of them is missing.
    Loaded(Box<MemoryState>, Vec<Vec<u8>>, bool),
    Appended,
    Refused,
    Messages(Vec<Bytes>),
    Stored,
}

impl Sim {
    /// A call is sent.
    pub(crate) fn call(&mut self, node: usize, call: Call) {
        let life = self.nodes[node].life;
        let (there, back) = (self.delay(), self.delay());
        let (lost, answer_lost) = match self.calm {
            true => (false, false),
            false => (self.rng.one_in(self.loss), self.rng.one_in(self.loss)),
        };
        let cut = self.nodes[node].cut_until > self.t;
        let late = lost || answer_lost || cut || there + back >= CALL_MAX;
        if late {
            self.at(CALL_MAX, Event::Back { node, life, call: call.clone(), got: Got::Nothing });
        }
        // A node that is cut off has mostly not even sent the call.
        if !(lost || cut && self.rng.below(4) > 0) {
            let back = (!late).then_some(back);
            self.at(there, Event::There { node, life, call, back });
        }
    }

    pub(crate) fn delay(&mut self) -> u64 {
        let kinds = match (self.calm, self.sluggish) {
            (true, _) => 20,
            (false, false) => 24,
            (false, true) => 29,
        };
        match self.rng.below(kinds) {
            0..18 => self.rng.within(1, 15),
            18..22 => self.rng.below(600),
            22 => self.rng.below(3_000),
            _ => self.rng.below(25_000),
        }
    }

    /// A call arrives.
    pub(crate) fn handle_there(
        &mut self,
        node: usize,
        life: u64,
        call: Call,
        back: Option<u64>,
    ) -> Result<(), Violation> {
        let t = self.t;
        // The engine is away. The caller notices at its timeout, unless the answer was to be lost anyway.
        if self.away_until > t {
            if back.is_some() {
                self.at(CALL_MAX, Event::Back { node, life, call, got: Got::Nothing });
            }
            return Ok(());
        }
        let got = match &call {
            Call::Member(deed) => Got::Member(self.engine.apply(t, deed, self.planted)),
            Call::Owners { .. } => Got::Owners(self.engine.owners.clone()),
            Call::Leases { .. } => Got::Leases(self.engine.leases(t), self.engine.spread.clone()),
            Call::Load { partition, .. } => {
                let state = self.engine.snapshots[*partition as usize].clone();
                let from = state.position().sequence.saturating_sub(OLD_GROUPS);
                let groups = self.engine.logs[*partition as usize].groups.iter().skip(from as usize);
                let hole = self.lied.is_some_and(|hole| hole.shows(*partition, state.position().sequence));
                Got::Loaded(Box::new(state), groups.cloned().collect(), hole)
            }
            Call::Append { partition, epoch, bytes, .. } => match self.engine.append(*partition, bytes) {
                Appended::New(group) => {
                    self.figures.groups += 1;
                    self.trace(&[t, u64::from(*partition), epoch.0], bytes);
                    self.books.handle_act(*partition, *epoch, "a group", t)?;
                    self.books.handle_group(*partition, &group.entries, &self.web, &self.engine)?;
                    Got::Appended
                }
                Appended::Again => Got::Appended,
                Appended::Refused => Got::Refused,
            },
            Call::Inbox { partition, from, .. } => Got::Messages(self.engine.read(*partition, *from)),
            Call::Publish { partition, id, bytes } => {
                let forgetful = !self.calm && self.rng.one_in(30);
                self.engine.publish(*partition, *id, bytes.clone(), forgetful);
                Got::Stored
            }
            Call::Put { partition, ticket, attempt, .. } => {
                let attempt = if self.planted == Planted::PutAnew { *attempt } else { 0 };
                self.engine.objects.insert((*partition, ticket.0, attempt));
                Got::Stored
            }
            Call::Spread { decided, .. } => {
                decided.iter().for_each(|decided| self.engine.spread.add(decided.clone()));
                Got::Stored
            }
        };
        if let Some(back) = back {
            self.at(back, Event::Back { node, life, call, got });
        }
        Ok(())
    }

    /// An answer comes back, or none.
    pub(crate) fn handle_back(&mut self, n: usize, call: Call, got: Got) -> Result<(), Violation> {
        let mono = self.nodes[n].now(self.t).mono;
        match (call, got) {
            (Call::Member(deed), got) => {
                let answer = match got {
                    Got::Member(answer) => answer,
                    _ => SwapResult::Unknown,
                };
                let member = &mut self.nodes[n].member;
                match deed {
                    Deed::Acquire { incarnation, .. } => member.handle_acquired(mono, incarnation, answer),
                    Deed::Renew { incarnation, .. } => member.handle_renewed(mono, incarnation, answer),
                    Deed::Claim { partition, record, .. } => {
                        member.handle_claimed(mono, partition, record.incarnation, answer);
                    }
                    Deed::Release { partition, record, .. } => {
                        member.handle_released(mono, partition, record.incarnation, answer);
                    }
                    _ => {}
                }
            }
            (Call::Owners { incarnation }, Got::Owners(owners)) => {
                self.call(n, Call::Leases { incarnation, owners });
            }
            (Call::Leases { incarnation, owners }, Got::Leases(nodes, spread)) => {
                // Some nodes learn of a decision late, so that the home sends much on.
                if spread != self.nodes[n].table && self.rng.one_in(TABLE_READ) {
                    self.nodes[n].table = spread;
                }
                self.see_live(n, incarnation, &nodes);
                let view = View { nodes, owners, pins: self.pins() };
                self.nodes[n].member.handle_view(mono, incarnation, Some(&view));
            }
            (Call::Owners { incarnation } | Call::Leases { incarnation, .. }, _) => {
                self.nodes[n].member.handle_view(mono, incarnation, None);
            }
            (Call::Load { partition, epoch }, got) => {
                // A node that slept over the answer may have lost the partition: the state read is old.
                let holds = self.nodes[n].member.epoch(mono, partition) == Some(epoch);
                if self.nodes[n].loading.get(&partition) != Some(&epoch) || !holds {
                    return Ok(());
                }
                match got {
                    Got::Loaded(state, groups, hole) => {
                        let replayed = self.read(n, partition, *state, &groups, hole)?;
                        replayed.map_or(Ok(()), |state| self.open(n, partition, epoch, state))?;
                    }
                    _ => self.call(n, Call::Load { partition, epoch }),
                }
            }
            (Call::Append { partition, part, .. }, Got::Appended) => {
                self.handle_written(n, partition, part)?
            }
            (Call::Append { partition, part, epoch, bytes }, got) => {
                let found = self.nodes[n].parts.get(&partition);
                let waits =
                    found.is_some_and(|found| found.life == part && found.group.as_ref() == Some(&bytes));
                let holds = self.nodes[n].member.epoch(mono, partition) == Some(epoch);
                match (waits, got) {
                    (false, _) => {}
                    // The last owner's last group came after the log was read: read the log again.
                    (true, Got::Refused) => {
                        self.figures.refused += 1;
                        self.drop_part(n, partition);
                        if holds {
                            self.nodes[n].loading.insert(partition, epoch);
                            self.call(n, Call::Load { partition, epoch });
                        }
                    }
                    (true, _) if holds => self.call(n, Call::Append { partition, part, epoch, bytes }),
                    (true, _) => self.drop_part(n, partition),
                }
            }
            (Call::Inbox { partition, part, .. }, got) => {
                let messages = match got {
                    Got::Messages(messages) => Some(messages),
                    _ => None,
                };
                self.handle_messages(n, partition, part, messages)?;
            }
            (Call::Publish { id, .. }, Got::Stored) => self.nodes[n].outbox.handle_acked(mono, id),
            (Call::Publish { id, .. }, _) => self.nodes[n].outbox.handle_failed(mono, id),
            (Call::Spread { partition, part, decided }, got) => {
                let found = self.nodes[n].parts.get_mut(&partition).filter(|found| found.life == part);
                if let Some(part) = found {
                    part.publishing = false;
                    if matches!(got, Got::Stored) {
                        part.published = decided.iter().count();
                    }
                }
            }
            (Call::Put { partition, part, ticket, .. }, Got::Stored) => {
                self.handle_stored(n, partition, part, ticket);
            }
            (Call::Put { partition, part, ticket, attempt }, _) => {
                if self.nodes[n].parts.get(&partition).is_some_and(|found| found.life == part) {
                    self.call(n, Call::Put { partition, part, ticket, attempt: attempt + 1 });
                }
            }
        }
        Ok(())
    }

    /// A partition's state and log have arrived. Returns the state after replay of the log; none if the log has a hole
    /// that was noticed.
    fn read(
        &mut self,
        n: usize,
        partition: u32,
        mut state: MemoryState,
        groups: &[Vec<u8>],
        hole: bool,
    ) -> Result<Option<MemoryState>, Violation> {
        self.nodes[n].loading.remove(&partition);
        let replayed = replay(&mut state, groups);
        if hole {
            self.noticed = replayed.is_err();
            return if self.noticed { Ok(None) } else { Err(super::unnoticed(partition)) };
        }
        replayed?;
        let whole = self.lied.is_none_or(|hole| hole.partition != partition);
        if self.rng.one_in(3) && whole {
            let mut again = MemoryState::new();
            let log = &self.engine.logs[partition as usize].groups;
            replay(&mut again, &log[..state.position().sequence as usize])?;
            if again.hash(Prefixes::ALL)? != state.hash(Prefixes::ALL)? {
                let what = format!("partition {partition} from its snapshot is another than from its log");
                return Err(Violation::new(Checker::Recovery, what));
            }
        }
        Ok(Some(state))
    }

    /// A partition has been read: the node opens the partition.
    fn open(&mut self, n: usize, partition: u32, epoch: Epoch, state: MemoryState) -> Result<(), Violation> {
        // The previous owner sleeps; its open tickets may be requested again.
        for part in self.nodes.iter_mut().filter_map(|node| node.parts.get_mut(&partition)) {
            for (ticket, flight) in part.flights.iter_mut().filter(|(_, flight)| !flight.lost) {
                flight.lost = true;
                flight.page.iter().for_each(|page| self.books.handle_lost(partition, ticket.0, *page));
            }
        }
        let now = self.nodes[n].now(self.t);
        let began = (self.planted != Planted::NoRest).then_some(now);
        let inbox_at = Part::durable_inbox(&state);
        let prefixes = Prefixes::share(partition, self.partitions);
        let mut frontier = Frontier::new(self.config.clone(), self.secret, vec![(prefixes, state)], began);
        frontier.share_slots();
        let life = self.next();
        self.nodes[n].parts.insert(partition, Part::new(frontier, epoch, life, inbox_at));
        self.nodes[n].member.handle_opened(partition, epoch);
        Ok(())
    }
}

/// Replays a log into a state.
pub(crate) fn replay(state: &mut MemoryState, log: &[Vec<u8>]) -> Result<(), Violation> {
    for bytes in log {
        match entry::open(bytes, state.position()) {
            Ok((group, behind)) => fold(state, &group, behind)?,
            Err(ChainError::Old { .. }) => {}
            Err(error) => return Err(Violation::new(Checker::Recovery, error.to_string())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_a_log_with_a_hole_must_notice_and_who_read_it_before_need_not() {
        let mut sim = Sim::new(1);
        let unnoticed = sim.read(0, 0, MemoryState::new(), &[], true);
        assert_eq!(unnoticed.unwrap_err().checker, Checker::Recovery);
        assert!(sim.read(0, 0, MemoryState::new(), &[], false).unwrap().is_some());
        let noticed = sim.read(0, 0, MemoryState::new(), &[b"no group".to_vec()], true);
        assert!(noticed.unwrap().is_none() && sim.noticed);
    }

    #[test]
    fn who_slept_over_its_lease_opens_nothing_of_what_it_had_asked_for() {
        let mut sim = Sim::new(1);
        let (partition, epoch) = (0, Epoch(5));
        sim.nodes[0].loading.insert(partition, epoch);
        let got = Got::Loaded(Box::new(MemoryState::new()), Vec::new(), false);
        sim.handle_back(0, Call::Load { partition, epoch }, got).unwrap();
        assert!(sim.nodes[0].parts.is_empty());
    }

    #[test]
    fn a_state_from_behind_the_hole_does_not_need_what_is_gone() {
        let hole = super::super::Hole { partition: 3, sequence: 7 };
        assert!(hole.shows(3, 7) && hole.shows(3, 0));
        assert!(!hole.shows(3, 8) && !hole.shows(2, 7));
    }
}
