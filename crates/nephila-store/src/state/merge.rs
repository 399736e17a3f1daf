//! Merging runs: several small ones become a larger one, in a thread of its own or right where it is asked for.
//!
//! Runs are merged by size. Four of about the same size become one of the next, so an entry is written again once for
//! each size, and a state of a hundred million URLs has about a dozen runs a table. What a merge meets and nobody needs
//! any more falls away: older versions, queue entries that have ended, what a split gave to another partition.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use nephila_core::frontier::key::{HostKey, Prefixes};
use nephila_core::state::record::HostRecord;

use super::table::{Table, domain_of, host_of};
use crate::disk::{Disk, is_full};
use crate::runs::{Error, Merge, Policy, Run, RunInfo, RunWriter, Scan};

/// So many runs of about the same size become one.
const FAN_IN: usize = 4;
/// Runs below this many entries are all of the same size.
const SMALL_ENTRIES: u64 = 32 * 1024;
/// Merges waiting for the thread.
const QUEUE_MAX: usize = 64;

/// The size class of a run.
fn class(entries: u64) -> u32 {
    let ratio = entries / SMALL_ENTRIES;
    if ratio == 0 { 0 } else { 1 + ratio.ilog(FAN_IN as u64) }
}

/// Which runs should become one: a range of neighbours, since only neighbours can be merged without mixing up which is
/// newer. None if all is well.
pub(super) fn choose(entries: &[u64]) -> Option<std::ops::Range<usize>> {
    let classes: Vec<u32> = entries.iter().map(|entries| class(*entries)).collect();
    // From the newest: the longest tail whose runs are no larger than its first by class.
    let mut best = None;
    for start in (0..classes.len()).rev() {
        let tail = &classes[start..];
        let largest = *tail.iter().max().expect("not empty");
        let of_largest = tail.iter().filter(|class| **class == largest).count();
        if of_largest >= FAN_IN {
            best = Some(start..classes.len());
        }
    }
    best
}

/// What a merge makes of its inputs.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) table: Table,
    /// Inputs, newest first.
    pub(super) inputs: Vec<Run>,
    /// The new run.
    pub(super) path: PathBuf,
    pub(super) number: u64,
    /// What the partition holds; the rest falls away.
    pub(super) prefixes: Prefixes,
    /// Hosts, newest first, for what has ended in their queues.
    pub(super) floors: Option<Floors>,
}

/// A merge that was made.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) table: Table,
    pub(super) number: u64,
    pub(super) info: RunInfo,
    /// How many runs became this one.
    pub(super) inputs: usize,
}

/// Where each host's queue has ended, read along with the queue.
#[derive(Debug)]
pub(super) struct Floors {
    hosts: Merge<Scan>,
    at: Option<(HostKey, HostRecord)>,
    begun: bool,
}

impl Floors {
    pub(super) fn new(hosts_newest_first: &[Run]) -> Floors {
        let scans = hosts_newest_first.iter().map(|run| run.scan(&[])).collect();
        Floors { hosts: Merge::new(scans, Policy::Together), at: None, begun: false }
    }

    /// Has this entry ended? Keys must ascend.
    fn has_ended(&mut self, table: Table, key: &[u8]) -> Result<bool, Error> {
        let host = host_of(key);
        while !self.begun || self.at.as_ref().is_some_and(|(at, _)| *at < host) {
            self.begun = true;
            // A host that cannot be read has ended nothing: its queue stays as it is.
            self.at = (self.hosts.next()?)
                .map(|group| (host_of(group.key()), HostRecord::decode(group.newest()).unwrap_or_default()));
        }
        let Some((_, record)) = self.at.as_ref().filter(|(at, _)| *at == host) else { return Ok(false) };
        let place = &key[HostKey::BYTES..];
        Ok(match table {
            Table::Queued => *place <= record.floor.to_bytes()[..],
            Table::Planned => *place <= record.later_floor.to_bytes()[..],
            _ => false,
        })
    }
}

impl Plan {
    /// Makes the merge. If there is no room, what was written makes room again.
    pub(super) fn run(self, disk: &dyn Disk) -> Result<Merged, Error> {
        let path = self.path.clone();
        let merged = self.write(disk);
        if matches!(&merged, Err(Error::Io { source, .. }) if is_full(source)) {
            disk.remove(&path).ok();
        }
        merged
    }

    fn write(mut self, disk: &dyn Disk) -> Result<Merged, Error> {
        let mut writer = RunWriter::create(disk, &self.path, self.table.options())?;
        let policy = if self.table == Table::Queued { Policy::Each } else { Policy::Together };
        let scans = self.inputs.iter().map(|run| run.scan(&[])).collect();
        let mut merge: Merge<Scan> = Merge::new(scans, policy);
        while let Some(group) = merge.next()? {
            if !self.prefixes.holds(domain_of(group.key())) {
                continue;
            }
            if let Some(floors) = &mut self.floors
                && floors.has_ended(self.table, group.key())?
            {
                continue;
            }
            writer.push(group.key(), group.newest())?;
        }
        let info = writer.finish(&[])?;
        Ok(Merged { table: self.table, number: self.number, info, inputs: self.inputs.len() })
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Two threads for any number of states: one merges, one writes memory out, each one thing after the other: that bounds
/// the memory they take. What is written out never waits for a merge.
#[derive(Clone)]
pub struct Merger {
    jobs: Arc<Mutex<SyncSender<Job>>>,
    flushes: Arc<Mutex<SyncSender<Job>>>,
}

impl std::fmt::Debug for Merger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Merger")
    }
}

impl Merger {
    /// Starts the threads. They end when the last clone and the last state that has one are gone.
    pub fn start() -> std::io::Result<Merger> {
        let start = |name: &str| {
            let (jobs, queue) = sync_channel::<Job>(QUEUE_MAX);
            thread::Builder::new()
                .name(name.into())
                .spawn(move || queue.into_iter().for_each(|job| job()))?;
            Ok::<_, std::io::Error>(Arc::new(Mutex::new(jobs)))
        };
        Ok(Merger { jobs: start("merge")?, flushes: start("flush")? })
    }

    /// Does this in the thread that writes memory out; false if too many wait, then it is not done.
    pub(super) fn flush(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let flushes = self.flushes.lock().expect("nobody panics while sending");
        flushes.try_send(Box::new(job)).is_ok()
    }

    /// Makes a merge later; none if too many wait, then the caller asks again another time.
    pub(super) fn submit(&self, plan: Plan, disk: Arc<dyn Disk>) -> Option<Receiver<Result<Merged, Error>>> {
        let (done, result) = sync_channel(1);
        let job: Job = Box::new(move || _ = done.send(plan.run(&*disk)));
        let jobs = self.jobs.lock().expect("nobody panics while sending");
        jobs.try_send(job).ok().map(|()| result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_of_a_size_become_one_of_the_next() {
        let small = SMALL_ENTRIES / 2;
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[small; 3]), None);
        assert_eq!(choose(&[small; 4]), Some(0..4));
        // A large one is left alone until there are four of its size.
        assert_eq!(choose(&[100 * small, small, small, small]), None);
        assert_eq!(choose(&[100 * small, small, small, small, small]), Some(1..5));
        let middle = SMALL_ENTRIES * 2;
        assert_eq!(choose(&[1_000 * small, middle, middle, middle, middle, small]), Some(1..6));
    }

    #[test]
    fn the_number_of_runs_grows_with_the_logarithm() {
        let mut runs: Vec<u64> = Vec::new();
        let mut written = 0;
        for _ in 0..4_000 {
            runs.push(20_000);
            while let Some(range) = choose(&runs) {
                let sum = runs[range.clone()].iter().sum();
                written += sum;
                runs.splice(range, [sum]);
            }
            assert!(runs.len() <= 20, "{runs:?}");
        }
        let amplification = written as f64 / (4_000.0 * 20_000.0);
        assert!(amplification < 6.0, "{amplification}");
    }
}
