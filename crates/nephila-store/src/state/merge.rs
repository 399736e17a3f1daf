//! Merging of runs: several small runs become a larger one, in a background thread or in the caller's thread.
//!
//! Runs are merged by size class. Four of about the same size become one of the next class, so an entry is rewritten
//! once per class, and a state of a hundred million URLs has about a dozen runs per table. A merge drops unneeded
//! entries: older versions, ended queue entries, and entries that a split gave to another partition.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use nephila_core::key::{HostKey, Prefixes};
use nephila_core::state::record::HostRecord;

use super::table::{Table, domain_of, host_of};
use crate::disk::{Disk, is_full};
use crate::runs::{Error, Merge, Policy, Run, RunInfo, RunWriter, Scan};

/// Number of runs of about the same size that become one.
const FAN_IN: usize = 4;
/// Runs with fewer entries are all in the lowest size class.
const SMALL_ENTRIES: u64 = 32 * 1024;
/// Capacity of a thread's queue.
const QUEUE_MAX: usize = 64;

/// The size class of a run.
fn class(entries: u64) -> u32 {
    let ratio = entries / SMALL_ENTRIES;
    if ratio == 0 { 0 } else { 1 + ratio.ilog(FAN_IN as u64) }
}

/// Chooses the runs to merge: a range of neighbours, since only merges of neighbours keep the order of age. `None` if
/// no merge is due.
pub(super) fn choose(entries: &[u64]) -> Option<std::ops::Range<usize>> {
    let classes: Vec<u32> = entries.iter().map(|entries| class(*entries)).collect();
    // From the newest: the longest tail whose runs are no larger by class than its first.
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

/// Inputs and output of a merge.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) table: Table,
    /// Inputs, newest first.
    pub(super) inputs: Vec<Run>,
    /// Path of the new run.
    pub(super) path: PathBuf,
    pub(super) number: u64,
    /// Key prefixes of the partition; other entries are dropped.
    pub(super) prefixes: Prefixes,
    /// Hosts, newest first, for the floors of their queues.
    pub(super) floors: Option<Floors>,
}

/// A finished merge.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) table: Table,
    pub(super) number: u64,
    pub(super) info: RunInfo,
    /// Number of merged runs.
    pub(super) inputs: usize,
}

/// Floors of the hosts' queues, read in parallel with the queue.
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

    /// Whether this queue entry has ended. Keys must ascend.
    fn has_ended(&mut self, table: Table, key: &[u8]) -> Result<bool, Error> {
        let host = host_of(key);
        while !self.begun || self.at.as_ref().is_some_and(|(at, _)| *at < host) {
            self.begun = true;
            // An unreadable host has ended nothing: its queue stays unchanged.
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
    /// Runs the merge. On a full disk the partial output is removed.
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

/// Two threads for any number of states: one for merges, one for flushes, each with one job at a time. That bounds
/// their memory. A flush never waits for a merge.
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
    /// Starts the threads. They end when the last clone and the last state with one are gone.
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

    /// Runs a job in the flush thread. Returns false without running the job if the queue is full.
    pub(super) fn flush(&self, job: impl FnOnce() + Send + 'static) -> bool {
        let flushes = self.flushes.lock().expect("nobody panics while sending");
        flushes.try_send(Box::new(job)).is_ok()
    }

    /// Queues a merge; `None` if the queue is full, and the caller retries later.
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
