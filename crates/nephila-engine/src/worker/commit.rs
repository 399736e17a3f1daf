//! From decided to durable: groups into logs, logs onto the disk or the servers, then the fold; now and then a
//! checkpoint.
//!
//! A group **begins** when the worker appends the group to its log. Meanwhile the worker goes on. When the group has
//! **landed**, that is, is durable, the worker folds the group, and the entries that accumulated meanwhile become the
//! next group. Partitions do not wait for each other.
//!
//! Invariants: a group that did not fit in its log is kept and written before any other; no group is folded before its
//! log has made the group durable; a caller is told of durability only afterwards.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};

use nephila_core::entry::{self, ChainError};
use nephila_core::fold::fold;
use nephila_core::key::DomainKey;
use nephila_core::state::{Durable, Position, StateError};

use super::log::{Flight, Log, Reply, Waiter};
use super::{CHECKPOINTS_AT_ONCE, Error, Part, Settings, Worker};

/// Replay: folds the groups of the journal that follow the state. Returns the number of groups.
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

impl<S: Durable + Send> Worker<S> {
    pub(super) fn partition_of(&self, domain: DomainKey) -> Option<usize> {
        self.logs.iter().position(|log| log.prefixes.holds(domain))
    }

    /// Records since when each partition has entries to write.
    pub(super) fn note_dirty(&mut self) {
        let now = self.clock.now().mono;
        for (partition, log) in self.logs.iter_mut().enumerate() {
            let has_more = self.frontier.has_more(partition) || self.frontier.has_group(partition);
            if log.dirty_since.is_none() && has_more {
                log.dirty_since = Some(now);
            }
        }
    }

    /// Begins a group in each partition that has enough entries, has waited long enough, or is urgent; in every partition
    /// with entries if nothing happens before they are durable.
    pub(super) fn commit_due(&mut self, is_awaited: bool) -> Result<(), Error> {
        let now = self.clock.now().mono;
        let due: Vec<usize> = (0..self.logs.len())
            .filter(|&partition| {
                let log = &self.logs[partition];
                let waited =
                    log.dirty_since.is_some_and(|since| is_awaited || now >= since + self.group_delay(log));
                let many = self.frontier.offers_waiting(partition) >= self.settings.sift_offers_min;
                !log.is_under_way() && (log.urgent || waited || many)
            })
            .collect();
        self.begin(&due)
    }

    /// How long a partition's next group waits. Entries are not urgent while there is more to fetch than the fetchers
    /// take, unless many callers wait for durability.
    pub(super) fn group_delay(&self, log: &Log) -> u64 {
        let is_patient = self.sated
            && log.closing.is_none()
            && self.waiters.len() < super::WAITERS_MANY
            && log.fed_bytes < super::LITTLE_BYTES;
        let Settings { group_delay, group_delay_max, .. } = &self.settings;
        let delay = if is_patient { group_delay.max(group_delay_max) } else { group_delay };
        super::millis(*delay)
    }

    /// Begins a group in every partition that has entries to write.
    pub(super) fn begin_all(&mut self) -> Result<(), Error> {
        self.begin(&Vec::from_iter(0..self.logs.len()))
    }

    /// Begins a group in each of these partitions, unless one is under way. Does nothing while the disk is full; if a
    /// log reports a full disk, the group is kept.
    pub(super) fn begin(&mut self, partitions: &[usize]) -> Result<(), Error> {
        if partitions.is_empty() || self.full_until.is_some() {
            return Ok(());
        }
        let now = self.clock.now();
        let mut refused = false;
        for &partition in partitions {
            if self.logs[partition].flight.is_some() {
                continue;
            }
            let kept = self.logs[partition].unwritten.take();
            let again = kept.is_some();
            let group = match kept {
                Some(group) => group,
                None => {
                    let group = self.frontier.poll_group(partition, now)?;
                    let log = &mut self.logs[partition];
                    log.begin();
                    let Some(group) = group else {
                        // All offers were known already, and the log has them.
                        log.done = log.begun;
                        continue;
                    };
                    group
                }
            };
            let sequence = self.frontier.state(partition).position().sequence + 1;
            let log = &mut self.logs[partition];
            let back = if again { log.log.go_back() } else { Ok(()) };
            let begun =
                back.and_then(|()| log.log.append(sequence, &group)).and_then(|()| log.log.try_sync());
            match begun {
                Ok(_) => log.flight = Some(Flight { group, began: now.mono, again }),
                Err(error) if error.is_full() => {
                    log.unwritten = Some(group);
                    refused = true;
                }
                Err(error) => return Err(self.ended_by(error)),
            }
        }
        if refused {
            self.note_full();
        }
        self.land()?;
        self.release();
        Ok(())
    }

    /// Folds the groups that are durable, and answers the callers that waited for them.
    pub(super) fn land(&mut self) -> Result<(), Error> {
        let (mut landed, mut refused) = (false, false);
        for partition in 0..self.logs.len() {
            let log = &mut self.logs[partition];
            if log.flight.is_none() {
                continue;
            }
            let arrived = log.log.try_sync();
            if let Ok(false) = arrived {
                continue;
            }
            let flight = log.flight.take().expect("looked at above");
            match arrived {
                Err(error) if error.is_full() => {
                    log.unwritten = Some(flight.group);
                    refused = true;
                    continue;
                }
                Err(error) => return Err(self.ended_by(error)),
                Ok(_) => log.done = log.begun,
            }
            let now = self.clock.now();
            let took = now.mono.saturating_sub(flight.began);
            self.stats.groups += 1;
            self.stats.group_bytes += flight.group.len() as u64;
            self.stats.commit_ms += took;
            self.stats.commit_took.add(took);
            self.stats.commit_ms_max = self.stats.commit_ms_max.max(took);
            self.frontier.handle_committed(partition, now)?;
            if let Some(sequence) = self.logs[partition].shorten_to.take() {
                self.truncate(partition, sequence)?;
            }
            landed = true;
        }
        if refused {
            self.note_full();
        }
        if landed {
            self.stats.commits += 1;
            self.release();
        }
        Ok(())
    }

    /// Handles the failure of a log. If the log has lost data, the states have the only copy, so they are checkpointed.
    fn ended_by(&mut self, error: nephila_log::Error) -> Error {
        if error.is_loss() {
            for partition in 0..self.logs.len() {
                // The worker ends in any case.
                _ = self.frontier.state(partition).checkpoint();
            }
        }
        error.into()
    }

    /// Registers a caller that waits until all pending entries of these partitions are durable.
    pub(super) fn wait_for(&mut self, partitions: Vec<usize>, reply: Reply) {
        let needs: Vec<(usize, u64)> = partitions
            .into_iter()
            .filter_map(|partition| {
                let log = &self.logs[partition];
                // Entries that are in no group yet will be in the group after the current one.
                let has_more = self.frontier.has_more(partition) || self.frontier.has_group(partition);
                let number = log.begun + u64::from(has_more);
                (number > log.done).then_some((partition, number))
            })
            .collect();
        if needs.is_empty() {
            reply.send();
        } else {
            self.waiters.push(Waiter { needs, reply });
        }
    }

    fn release(&mut self) {
        let logs = &self.logs;
        let done = self.waiters.extract_if(.., |waiter| {
            waiter.needs.retain(|(partition, number)| logs[*partition].done < *number);
            waiter.needs.is_empty()
        });
        for waiter in done {
            waiter.reply.send();
        }
    }

    /// Checkpoints states that have grown too large in memory, and shortens their journals. With `now`, waits for the
    /// checkpoint: only then is known whether there was room.
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
        // Each of them may be below the limit while the sum is above: the largest is written first, which makes the
        // fewest runs.
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
                // The state could not write; the next call is soon enough.
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

    /// Checkpoints every partition, several at once.
    pub(super) fn checkpoint_all(&mut self) -> Result<(), Error>
    where
        S: Send,
    {
        let mut positions = checkpoint_each(self.frontier.states(), self.logs.len());
        positions.sort_unstable_by_key(|(partition, _)| *partition);
        positions.into_iter().try_for_each(|(partition, position)| self.shorten(partition, position))
    }

    /// Checkpoints a partition. Data that does not fit stays in the journal, for the next replay.
    pub(super) fn checkpoint(&mut self, partition: usize) -> Result<(), Error> {
        let position = self.frontier.state(partition).checkpoint();
        self.shorten(partition, position)
    }

    /// Removes the journal up to the checkpoint, unless there was no room for the checkpoint.
    fn shorten(&mut self, partition: usize, position: Result<Position, StateError>) -> Result<(), Error> {
        let position = match position {
            Err(StateError::Full(_)) => {
                self.note_full();
                return Ok(());
            }
            position => position?,
        };
        self.stats.checkpoints += 1;
        let keep_from = position.sequence + 1;
        if self.logs[partition].flight.is_some() {
            self.logs[partition].shorten_to = Some(keep_from);
            return Ok(());
        }
        self.truncate(partition, keep_from)
    }

    fn truncate(&mut self, partition: usize, keep_from: u64) -> Result<(), Error> {
        match self.logs[partition].log.truncate_before(keep_from) {
            // The rest is removed after the next checkpoint.
            Err(error) if error.is_full() => self.note_full(),
            removed => removed?,
        }
        Ok(())
    }
}

/// Checkpoints these states on several threads. Returns their numbers and positions, in any order.
fn checkpoint_each<'a, S: Durable + Send + 'a>(
    states: impl Iterator<Item = &'a mut S> + Send,
    count: usize,
) -> Vec<(usize, Result<Position, StateError>)> {
    let queue = Mutex::new(states.enumerate());
    let work = || {
        let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
        let each = std::iter::from_fn(next).map(|(number, state)| (number, state.checkpoint()));
        each.collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().name("checkpoint".into()).spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..count.min(CHECKPOINTS_AT_ONCE)).filter_map(spawn).collect();
        // This thread works as well: without any other, the work is done all the same.
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    })
}
