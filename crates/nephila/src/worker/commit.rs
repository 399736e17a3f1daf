//! From decided to durable: groups into journals, journals onto the disk, then the fold; now and then a checkpoint.
//!
//! What always holds: what a journal had no room for is kept and written before anything else; nothing is folded before its journal was synced; a caller is told that something is durable after
//! that, and never before.

use std::collections::BTreeMap;

use nephila_core::entry::{self, ChainError};
use nephila_core::fold::fold;
use nephila_core::frontier::key::DomainKey;
use nephila_core::state::{Durable, Position, StateError};
use nephila_store::journal::{self, Journal};
use tokio::sync::oneshot;

use super::{Error, Part, SYNCS_AT_ONCE, Worker};

/// What the worker knows of a partition beside its frontier.
#[derive(Debug)]
pub(super) struct Log {
    pub(super) prefixes: super::Prefixes,
    pub(super) journal: Journal,
    /// Since when it has something to write, in milliseconds.
    pub(super) dirty_since: Option<u64>,
    /// Somebody waits for it who should not wait long.
    pub(super) urgent: bool,
    /// The group on its way, if there was no room for it. The journal has to go back before it takes it.
    pub(super) unwritten: Option<Vec<u8>>,
}

/// A caller that waits until what these partitions had to write is durable.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) partitions: Vec<usize>,
    pub(super) reply: oneshot::Sender<()>,
}

/// Folds what stands in the journal behind the state. Returns how many groups that were.
pub(super) fn replay<S: Durable>(part: &mut Part<S>, dirty_bytes_max: usize) -> Result<u64, Error> {
    let position = part.state.position();
    let synced = part.journal.synced();
    if synced != 0 && synced < position.sequence {
        return Err(Error::Behind { state: position.sequence, journal: synced });
    }
    let mut folded = 0;
    for group in part.journal.replay(position.sequence + 1) {
        let (sequence, bytes) = group?;
        match entry::open(&bytes, part.state.position()) {
            Ok((group, behind)) => fold(&mut part.state, &group, behind)?,
            Err(ChainError::Old { .. }) => continue,
            Err(source) => return Err(Error::Chain { sequence, source }),
        }
        folded += 1;
        if part.state.dirty_bytes() > dirty_bytes_max {
            part.state.checkpoint()?;
        }
    }
    Ok(folded)
}

impl<S: Durable> Worker<S> {
    pub(super) fn partition_of(&self, domain: DomainKey) -> Option<usize> {
        self.logs.iter().position(|log| log.prefixes.holds(domain))
    }

    /// Notes since when partitions have something to write.
    pub(super) fn note_dirty(&mut self) {
        let now = self.clock.now().mono;
        for (partition, log) in self.logs.iter_mut().enumerate() {
            if log.dirty_since.is_none() && self.frontier.has_group(partition) {
                log.dirty_since = Some(now);
            }
        }
    }

    /// Writes the partitions that have enough, or have waited long enough, or are urgent.
    pub(super) fn commit_due(&mut self) -> Result<(), Error> {
        let now = self.clock.now().mono;
        let group_delay = super::millis(self.settings.group_delay);
        let due: Vec<usize> = (0..self.logs.len())
            .filter(|&partition| {
                let log = &self.logs[partition];
                let waited = log.dirty_since.is_some_and(|since| now >= since + group_delay);
                let many = self.frontier.offers_waiting(partition) >= self.settings.sift_offers_min;
                log.urgent || waited || many
            })
            .collect();
        self.commit(&due)
    }

    /// Writes everything there is to write.
    pub(super) fn commit_all(&mut self) -> Result<(), Error> {
        self.commit(&Vec::from_iter(0..self.logs.len()))
    }

    /// Writes a group of each of these partitions, syncs them together, folds them. While the disk is full it does
    /// nothing; where it turns out to be, the group is kept.
    pub(super) fn commit(&mut self, partitions: &[usize]) -> Result<(), Error> {
        if partitions.is_empty() || self.full_until.is_some() {
            return Ok(());
        }
        let began = self.clock.now();
        let mut groups: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let (mut refused, mut again) = (Vec::new(), Vec::new());
        for &partition in partitions {
            let kept = self.logs[partition].unwritten.take();
            if kept.is_some() {
                again.push(partition);
            }
            let Some(group) =
                kept.map_or_else(|| self.frontier.poll_group(partition, began), |g| Ok(Some(g)))?
            else {
                continue;
            };
            let sequence = self.frontier.state(partition).position().sequence + 1;
            let journal = &mut self.logs[partition].journal;
            let back = if again.contains(&partition) { journal.go_back() } else { Ok(()) };
            match back.and_then(|()| journal.append(sequence, &group)) {
                Ok(()) => _ = groups.insert(partition, group),
                Err(error) if error.is_full() => refused.push((partition, group)),
                Err(error) => return Err(error.into()),
            }
        }
        let mut journals: Vec<(usize, &mut Journal)> = Vec::with_capacity(groups.len());
        for (partition, log) in self.logs.iter_mut().enumerate() {
            if groups.contains_key(&partition) {
                journals.push((partition, &mut log.journal));
            }
        }
        for (partition, result) in sync(&mut journals) {
            match result {
                Ok(()) => {}
                Err(error) if error.is_full() => {
                    refused.push((partition, groups.remove(&partition).expect("it was appended")));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let now = self.clock.now();
        for (&partition, group) in &groups {
            self.stats.groups += 1;
            self.stats.group_bytes += group.len() as u64;
            self.frontier.handle_committed(partition, now)?;
        }
        // What came while a group was kept is not durable with it.
        let mut done = partitions.to_vec();
        done.retain(|partition| !again.contains(partition) || !self.frontier.has_group(*partition));
        if !refused.is_empty() {
            done.retain(|partition| refused.iter().all(|(refused, _)| refused != partition));
            for (partition, group) in refused {
                self.logs[partition].unwritten = Some(group);
            }
            self.note_full();
        }
        if !groups.is_empty() {
            let took = now.mono - began.mono;
            self.stats.commits += 1;
            self.stats.commit_ms += took;
            self.stats.commit_ms_max = self.stats.commit_ms_max.max(took);
        }
        for &partition in &done {
            let log = &mut self.logs[partition];
            (log.dirty_since, log.urgent) = (None, false);
        }
        if done.len() == self.logs.len() {
            self.fed_bytes = 0;
        }
        self.release(&done);
        Ok(())
    }

    /// A caller waits until what these partitions have to write now is durable.
    pub(super) fn wait_for(&mut self, mut partitions: Vec<usize>, reply: oneshot::Sender<()>) {
        partitions.retain(|&partition| {
            self.frontier.has_group(partition) || self.logs[partition].unwritten.is_some()
        });
        if partitions.is_empty() {
            _ = reply.send(());
        } else {
            self.waiters.push(Waiter { partitions, reply });
        }
    }

    fn release(&mut self, partitions: &[usize]) {
        let done = self.waiters.extract_if(.., |waiter| {
            waiter.partitions.retain(|partition| !partitions.contains(partition));
            waiter.partitions.is_empty()
        });
        for waiter in done {
            // Whoever asked may have left.
            _ = waiter.reply.send(());
        }
    }

    /// Makes states durable that have grown too much in memory, and shortens their journals. `now` waits for it: only then
    /// it is known whether there was room.
    pub(super) fn checkpoint_due(&mut self, now: bool) -> Result<(), Error> {
        for partition in 0..self.logs.len() {
            if self.full_until.is_some() {
                break;
            }
            let state = self.frontier.state(partition);
            if state.dirty_bytes() > self.settings.dirty_bytes_max {
                let position = if now { state.checkpoint() } else { state.checkpoint_soon() };
                self.shorten(partition, position)?;
            }
        }
        Ok(())
    }

    /// What does not fit is in the journal, from which it is folded again.
    pub(super) fn checkpoint(&mut self, partition: usize) -> Result<(), Error> {
        let position = self.frontier.state(partition).checkpoint();
        self.shorten(partition, position)
    }

    /// The journal up to here is not needed any more, unless there was no room for the checkpoint.
    fn shorten(&mut self, partition: usize, position: Result<Position, StateError>) -> Result<(), Error> {
        let position = match position {
            Err(StateError::Full(_)) => {
                self.note_full();
                return Ok(());
            }
            position => position?,
        };
        match self.logs[partition].journal.truncate_before(position.sequence + 1) {
            // What is not removed now is removed behind the next checkpoint.
            Err(error) if error.is_full() => self.note_full(),
            removed => removed?,
        }
        self.stats.checkpoints += 1;
        Ok(())
    }
}

/// Syncs several journals at once: a disk does that in little more time than one. All of them end before the first
/// failure is looked at.
fn sync(journals: &mut [(usize, &mut Journal)]) -> Vec<(usize, Result<(), journal::Error>)> {
    let mut results = Vec::with_capacity(journals.len());
    for some in journals.chunks_mut(SYNCS_AT_ONCE) {
        if let [(partition, one)] = some {
            results.push((*partition, one.sync()));
            continue;
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = some
                .iter_mut()
                .map(|(partition, journal)| (*partition, scope.spawn(|| journal.sync())))
                .collect();
            let joined = threads
                .into_iter()
                .map(|(partition, thread)| (partition, thread.join().expect("a sync does not panic")));
            results.extend(joined);
        });
    }
    results
}
