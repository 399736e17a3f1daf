//! When a job is complete: when no work of the job is left on any node.
//!
//! Each node publishes in a record of its own the work left of each job on its partitions ([`NodeWork`]). That all
//! nodes publish "nothing" is not enough: they publish at different times, and a page that was open on one node may
//! have sent a link to a node that had already published. So a node that sees all of them idle begins a **round**
//! ([`Round`]) and writes down how far the inboxes are filled at that moment. The round waits until every node has
//! published once more, after reading its inboxes up to that point, that nothing is left and that nothing has
//! happened since ([`Work::events`]). Links are in an inbox, or in the log of their partition, before their page
//! counts as ended; so then nothing is under way.
//!
//! A caller that adds a URL stores the URL first and then ends the round, complete or not ([`Phase::Void`]), by
//! compare-and-swap on the same record that marks a round as complete: of the two, one is first, and the other sees
//! the change. A node that has work left of a job marked as complete ends the round as well.
//!
//! Invariants: a job is complete only if at the moment in which its round began nothing of the job was left in any
//! partition or inbox; a partition without an owner, or with an owner that does not publish, is not complete.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::JobId;
use crate::state::totals::Work;
use crate::time::Timestamp;

/// Maximum number of jobs in the record of one node. Beyond this number, the jobs with the highest numbers are left
/// out and are never complete.
pub const JOBS_MAX: usize = 4_096;

/// The record of one node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct NodeWork {
    /// Its partitions, and the epoch of each.
    pub partitions: BTreeMap<u32, u64>,
    /// By job. A job that is not listed has nothing here and never had, unless the list is cut.
    pub jobs: BTreeMap<u32, Work>,
    /// Whether there are more jobs than listed.
    pub cut: bool,
    /// By job, the last round for which this node has read all its inboxes far enough.
    pub rounds: BTreeMap<u32, u64>,
    /// Whether nothing is queued or due soon, and no inbox waits. None from a node that does not publish it.
    pub ready: Option<bool>,
}

impl NodeWork {
    /// Whether nothing is left of a job.
    pub fn is_idle(&self, job: JobId) -> bool {
        self.jobs.get(&job.0).map_or(!self.cut, |work| work.left == 0)
    }

    /// Whether the record must be published at once, because more than counters changed.
    pub fn differs(&self, before: &NodeWork) -> bool {
        let idle = |work: &NodeWork| -> Vec<u32> {
            work.jobs.iter().filter(|(_, work)| work.left == 0).map(|(job, _)| *job).collect()
        };
        (&self.partitions, &self.rounds, self.cut, self.ready)
            != (&before.partitions, &before.rounds, before.cut, before.ready)
            || idle(self) != idle(before)
            || self.jobs.iter().any(|(job, work)| work.left == 0 && before.jobs.get(job) != Some(work))
    }
}

/// The phase of a round.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Another change came between.
    #[default]
    Void,
    /// The round has begun; the fill levels of the inboxes are being read.
    Begun,
    /// The nodes are asked.
    Asked,
    /// All nodes have published that nothing is left.
    Complete,
}

/// An attempt to find out whether a job is complete.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Round {
    /// Round number; it grows.
    pub number: u64,
    /// The phase of the round.
    pub phase: Phase,
    /// A hash of the nodes' records when the round began.
    pub mark: u64,
    /// How far the inboxes were filled then; empty inboxes are not listed.
    pub tails: BTreeMap<u32, u64>,
    /// When the round began, on the clock of the node that began it.
    pub at: Timestamp,
    /// The nodes' work for the job, once the job is complete.
    pub work: Work,
    /// Whether programs were told that the job is complete.
    pub told: bool,
}

impl Round {
    /// Whether these inboxes, by partition, are read as far as they were filled when the round began.
    pub fn is_behind(&self, read: &BTreeMap<u32, u64>) -> bool {
        read.iter().all(|(partition, read)| self.tails.get(partition).is_none_or(|tail| read >= tail))
    }

    /// The next round, begun now.
    pub fn next(&self, mark: u64, at: Timestamp) -> Round {
        let number = self.number + 1;
        Round { number, phase: Phase::Begun, mark, at, ..Round::default() }
    }
}

/// The next step for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Work is left, or a node has not published yet.
    Wait,
    /// All nodes are idle: begin a round with this mark.
    Begin(u64),
    /// The job is complete.
    Complete(Work),
}

/// Decides the next step for a job. `owners` has every partition with a live owner: the owner's name and the epoch.
pub fn step(
    job: JobId,
    partitions: u32,
    owners: &BTreeMap<u32, (&str, u64)>,
    said: &BTreeMap<impl Borrow<str> + Ord, NodeWork>,
    round: &Round,
) -> Step {
    let mut nodes: BTreeMap<&str, &NodeWork> = BTreeMap::new();
    for partition in 0..partitions {
        let Some((node, epoch)) = owners.get(&partition) else { return Step::Wait };
        let Some(work) = said.get::<str>(node) else { return Step::Wait };
        if work.partitions.get(&partition) != Some(epoch) || !work.is_idle(job) {
            return Step::Wait;
        }
        nodes.insert(node, work);
    }
    let work = |node: &NodeWork| node.jobs.get(&job.0).copied().unwrap_or_default();
    let mut bytes = Vec::new();
    for (partition, (_, epoch)) in owners {
        bytes.extend(partition.to_be_bytes());
        bytes.extend(epoch.to_be_bytes());
    }
    nodes.values().for_each(|node| bytes.extend(work(node).events.to_be_bytes()));
    let mark = xxhash_rust::xxh3::xxh3_64(&bytes);
    let asked = |node: &&NodeWork| node.rounds.get(&job.0) == Some(&round.number);
    match round.phase {
        Phase::Complete => Step::Wait,
        Phase::Asked if round.mark == mark && nodes.values().all(asked) => {
            Step::Complete(nodes.values().fold(Work::default(), |sum, node| sum.plus(work(node))))
        }
        Phase::Asked if round.mark == mark => Step::Wait,
        // A round that was begun and then abandoned is begun anew.
        _ => Step::Begin(mark),
    }
}

#[cfg(test)]
mod tests;
