//! Faults, and actions of people: processes die, clocks are set, reports arrive twice, operators change their minds.

use nephila_core::entry::{self, ChainError, DomainChange, Entry, HostChange};
use nephila_core::fold::fold;
use nephila_core::frontier::Frontier;
use nephila_core::job;
use nephila_core::key::Prefixes;
use nephila_core::state::{MemoryState, State};

use crate::facts::Fact;
use crate::harness::Sim;
use crate::{Checker, Violation};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

impl Sim {
    /// Injects one random fault.
    pub(crate) fn fault(&mut self) -> Result<(), Violation> {
        match self.rng.below(20) {
            0..5 => self.crash(),
            5 | 6 => {
                let by = *self.rng.pick(&[HOUR, -HOUR, DAY, -DAY, 2_000, -2_000]);
                self.figures.jumps += 1;
                self.clock.set_wall(by);
                let wall = self.clock.wall();
                self.chains.values_mut().for_each(|chain| chain.since = chain.since.min(wall));
                self.tell(|| format!("the clock is set by {by}"));
                Ok(())
            }
            7 | 8 => {
                if self.sent.is_empty() {
                    return Ok(());
                }
                let at = self.rng.index(self.sent.len());
                let (ticket, url) = self.sent[at].clone();
                self.report_late(&ticket, url)
            }
            9 | 10 => {
                self.snapshot();
                Ok(())
            }
            11 | 12 => {
                self.move_host();
                Ok(())
            }
            13 => self.repeat_outcome(),
            14 => {
                self.change_job();
                Ok(())
            }
            15 => {
                self.change_budget();
                Ok(())
            }
            _ => {
                self.change_host();
                Ok(())
            }
        }
    }

    /// The current states become the snapshots that a restart begins with.
    fn snapshot(&mut self) {
        let partition = self.rng.index(self.parts.len());
        // Groups that are in the log and not folded would be lost.
        if self.parts[partition].in_flight.as_ref().is_some_and(|(_, appended)| *appended) {
            return;
        }
        let state = self.front().state(partition).clone();
        let part = &mut self.parts[partition];
        part.snapshot = state;
        part.log.clear();
    }

    /// The process dies, and another one recovers from the logs.
    pub(crate) fn crash(&mut self) -> Result<(), Violation> {
        self.figures.crashes += 1;
        self.tell(|| "crash".to_owned());
        let states = self.frontier.take().expect("a process runs").into_states();
        let mut recovered = Vec::new();
        for (partition, mut state) in states.into_iter().enumerate() {
            if let Some((bytes, true)) = self.parts[partition].in_flight.take() {
                replay(&mut state, &[bytes])?;
                self.facts_are_true(partition)?;
            }
            let part = &mut self.parts[partition];
            part.last = None;
            part.facts.clear();
            part.facts_in_flight.clear();
            part.feed_at = part.feed_durable;
            let mut again = part.snapshot.clone();
            replay(&mut again, &part.log)?;
            // The new process may die during recovery, and begin once more.
            if self.rng.one_in(3) {
                replay(&mut again, &part.log)?;
            }
            if again.hash(Prefixes::ALL)? != state.hash(Prefixes::ALL)? {
                let what = format!("partition {partition} from its log is another than it was");
                return Err(Violation::new(Checker::Recovery, what));
            }
            recovered.push(again);
        }
        self.complete.check_known(&mut recovered.iter_mut().collect::<Vec<_>>(), &self.world)?;
        self.polite.handle_crash(self.clock.t);
        self.complete.handle_crash();
        self.obedience.handle_crash();
        self.reach.handle_crash();
        self.running.iter_mut().for_each(|running| running.orphan = true);
        self.finished.iter_mut().for_each(|finished| finished.orphan = true);
        self.sent.clear();
        self.open.clear();
        self.resolves.clear();
        self.chains.clear();
        let down = *self.rng.pick(&[0, 0, 10, 3_000, 100_000]);
        self.advance(self.clock.t + down);
        self.clock.process_began = self.clock.t;
        self.clock.process_first = *self.rng.pick(&[0, 0, 1, 5_000_000]);
        let states = self.world.partitions.iter().copied().zip(recovered).collect();
        let now = self.clock.now();
        self.frontier = Some(Frontier::new(self.world.config.clone(), self.world.secret, states, Some(now)));
        Ok(())
    }

    /// An outcome is written to the log a second time.
    fn repeat_outcome(&mut self) -> Result<(), Violation> {
        let partition = self.rng.index(self.parts.len());
        if self.front().has_group(partition) || self.parts[partition].in_flight.is_some() {
            return Ok(());
        }
        let Some(outcome) = self.last_outcome(partition)? else { return Ok(()) };
        self.front().handle_command(partition, outcome);
        self.write(partition)?;
        // At once: the same URL must not be fetched again meanwhile, or this would no longer be its last outcome.
        while self.parts[partition].in_flight.is_some() {
            self.commit(partition)?;
        }
        Ok(())
    }

    /// An outcome of this group that is still the latest of its URL.
    fn last_outcome(&mut self, partition: usize) -> Result<Option<Entry>, Violation> {
        let Some((bytes, before)) = &self.parts[partition].last else { return Ok(None) };
        let opened = entry::open(bytes, *before);
        let (group, _) = opened.map_err(|error| Violation::new(Checker::Recovery, error.to_string()))?;
        for entry in group.entries {
            let Entry::Ended(ended) = &entry else { continue };
            let record = self.front().state(partition).url(&ended.key)?;
            let last = record.and_then(|record| record.last).is_some_and(|last| last.fetch == ended.fetch);
            let url = self.world.by_path.get(&ended.key.path).copied();
            let open = self.open.values().any(|open| open.url == url);
            if last && !open {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn change_job(&mut self) {
        let at = self.rng.index(self.world.jobs.len());
        let mut job = self.world.jobs[at].clone();
        job.state = *self.rng.pick(&[job::State::Running, job::State::Running, job::State::Paused]);
        self.command_job(&job);
    }

    fn change_budget(&mut self) {
        let host = self.rng.index(self.world.hosts.len());
        let Some(key) = self.keys[host] else { return };
        let budget = *self.rng.pick(&[None, Some(0), Some(5), Some(1_000)]);
        let partition = self.world.hosts[host].partition;
        self.front().handle_command(partition, Entry::Domain(DomainChange::Budget(key.domain, budget)));
    }

    fn change_host(&mut self) {
        let host = self.rng.index(self.world.hosts.len());
        let Some(key) = self.keys[host] else { return };
        let partition = self.world.hosts[host].partition;
        match self.rng.below(4) {
            0 => {
                let stop = Entry::Host(HostChange::Stop(key, "asked to".into()));
                self.command(partition, stop, Fact::Stopped { host, stopped: true });
            }
            1 | 2 => {
                let resume = Entry::Host(HostChange::Resume(key));
                self.command(partition, resume, Fact::Stopped { host, stopped: false });
            }
            _ => {
                let delay = *self.rng.pick(&[0, 700, 5_000, 30_000]);
                let entry = Entry::Host(HostChange::Delay(key, delay as u32));
                self.command(partition, entry, Fact::Delay { host, delay });
            }
        }
    }
}

/// Replays a log into a state.
fn replay(state: &mut MemoryState, log: &[Vec<u8>]) -> Result<(), Violation> {
    for bytes in log {
        match entry::open(bytes, state.position()) {
            Ok((group, behind)) => fold(state, &group, behind)?,
            Err(ChainError::Old { .. }) => {}
            Err(error) => return Err(Violation::new(Checker::Recovery, error.to_string())),
        }
    }
    Ok(())
}
