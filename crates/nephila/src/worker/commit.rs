//! From decided to durable: groups into journals, journals onto the disk, then the fold; now and then a checkpoint.
//!
//! What always holds: what a journal had no room for is kept and written before anything else; nothing is folded before its journal was synced; a caller is told that something is durable after
//! that, and never before.

use std::collections::BTreeMap;

use nephila_core::entry::{self, ChainError};
use nephila_core::fold::fold;
use nephila_core::frontier::key::DomainKey;
use nephila_core::state::{Durable, Position, StateError};
use nephila_log::GroupLog;

use super::log::{Reply, Waiter};
use super::{Error, Part, SYNCS_AT_ONCE, Worker};

/// Folds what stands in the journal behind the state. Returns how many groups that were.
pub(super) fn replay_into<S: Durable>(part: &mut Part<S>, dirty_bytes_max: usize) -> Result<u64, Error> {
    let position = part.state.position();
    let synced = part.log.synced();
    if synced != 0 && synced < position.sequence {
        return Err(Error::Behind { state: position.sequence, journal: synced });
    }
    let mut folded = 0;
    let Part { state, log, .. } = part;
    for group in log.replay(position.sequence + 1) {
        let (sequence, bytes) = group?;
        match entry::open(&bytes, state.position()) {
            Ok((group, behind)) => fold(state, &group, behind)?,
            Err(ChainError::Old { .. }) => continue,
            Err(source) => return Err(Error::Chain { sequence, source }),
        }
        folded += 1;
        if state.dirty_bytes() > dirty_bytes_max {
            state.checkpoint()?;
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
            let log = &mut self.logs[partition].log;
            let back = if again.contains(&partition) { log.go_back() } else { Ok(()) };
            match back.and_then(|()| log.append(sequence, &group)) {
                Ok(()) => _ = groups.insert(partition, group),
                Err(error) if error.is_full() => refused.push((partition, group)),
                Err(error) => return Err(error.into()),
            }
        }
        let mut logs: Vec<(usize, &mut dyn GroupLog)> = Vec::with_capacity(groups.len());
        for (partition, log) in self.logs.iter_mut().enumerate() {
            if groups.contains_key(&partition) {
                logs.push((partition, &mut *log.log));
            }
        }
        for (partition, result) in sync(&mut logs) {
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
    pub(super) fn wait_for(&mut self, mut partitions: Vec<usize>, reply: Reply) {
        partitions.retain(|&partition| {
            self.frontier.has_group(partition) || self.logs[partition].unwritten.is_some()
        });
        if partitions.is_empty() {
            reply.send();
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
            waiter.reply.send();
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
                self.checkpoint_now_or_soon(partition, now)?;
            }
        }
        // None of them has too much, all together may: the largest is written first, which makes the fewest runs.
        while self.full_until.is_none() {
            let (mut all, mut most, mut partition) = (0, 0, 0);
            for one in 0..self.logs.len() {
                let dirty = self.frontier.state(one).dirty_bytes();
                all += dirty;
                if dirty > most {
                    (most, partition) = (dirty, one);
                }
            }
            if most == 0 || all <= self.settings.dirty_bytes_all_max {
                break;
            }
            self.checkpoint_now_or_soon(partition, now)?;
            if self.frontier.state(partition).dirty_bytes() >= most {
                // It could not write; the next time is soon enough.
                break;
            }
        }
        Ok(())
    }

    fn checkpoint_now_or_soon(&mut self, partition: usize, now: bool) -> Result<(), Error> {
        let state = self.frontier.state(partition);
        let position = if now { state.checkpoint() } else { state.checkpoint_soon() };
        self.shorten(partition, position)
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
        match self.logs[partition].log.truncate_before(position.sequence + 1) {
            // What is not removed now is removed behind the next checkpoint.
            Err(error) if error.is_full() => self.note_full(),
            removed => removed?,
        }
        self.stats.checkpoints += 1;
        Ok(())
    }
}

/// Syncs several logs at once: a disk does that in little more time than one. All of them end before the first
/// failure is looked at.
fn sync(logs: &mut [(usize, &mut dyn GroupLog)]) -> Vec<(usize, Result<(), nephila_log::Error>)> {
    let mut results = Vec::with_capacity(logs.len());
    for some in logs.chunks_mut(SYNCS_AT_ONCE) {
        if let [(partition, one)] = some {
            results.push((*partition, one.sync()));
            continue;
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> =
                some.iter_mut().map(|(partition, log)| (*partition, scope.spawn(|| log.sync()))).collect();
            let joined = threads
                .into_iter()
                .map(|(partition, thread)| (partition, thread.join().expect("a sync does not panic")));
            results.extend(joined);
        });
    }
    results
}
