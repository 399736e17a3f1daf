//! When a job is complete: when nothing of it is left on any node.
//!
//! Each node says in a record of its own how much is left of each job on its partitions ([`NodeWork`]). That all of them say
//! "nothing" is not enough: they say so at different times, and a page that one node had open may have sent a link to
//! another that had spoken already. So whoever sees all of them idle begins a **round** ([`Round`]), writes down how far the
//! inboxes are filled at that moment, and waits until every node has said once more, behind that point of its inboxes, that
//! nothing is left and that nothing has happened since ([`Work::events`]). Links are in an inbox, or in the log of their
//! partition, before the page that names them counts as ended; so then there is nothing under way.
//!
//! Whoever adds a URL stores it first and ends the round then, complete or not ([`Phase::Void`]), by compare-and-swap on the
//! same record in which a round is said to be complete: of the two, one is first, and the other sees it. A node that has
//! something left of a job that is said to be complete ends the round as well.
//!
//! What always holds: a job is complete only if at the moment in which its round began nothing of it was left in any
//! partition or inbox; a partition without an owner, or with one that does not speak, is not complete.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::count::Count;
use crate::job::JobId;
use crate::state::totals::Tally;
use crate::time::Timestamp;

/// Jobs that one node speaks of. With more, those with the highest numbers are left out, and are never complete.
pub const JOBS_MAX: usize = 4_096;

/// What a node has of a job, over all its partitions.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Work {
    /// URLs that will still be asked for.
    pub left: u64,
    /// URLs that were found, and fetches that ended, since the beginning. It grows whenever something happens.
    pub events: u64,
    /// Pages fetched.
    pub pages: u64,
    /// Bytes received.
    pub bytes: u64,
}

impl Work {
    /// What a tally says, and so many URLs that are left.
    pub fn of(tally: &Tally, left: u64) -> Work {
        let Count { pages, bytes } = Count::of(tally);
        let ended = tally.ended.values().fold(0, |sum: u64, count| sum.saturating_add(*count));
        Work { left, events: tally.found.saturating_add(ended), pages, bytes }
    }

    /// Both together.
    pub fn plus(self, other: Work) -> Work {
        Work {
            left: self.left.saturating_add(other.left),
            events: self.events.saturating_add(other.events),
            pages: self.pages.saturating_add(other.pages),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

/// What one node says.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct NodeWork {
    /// Its partitions, and the epoch of each.
    pub partitions: BTreeMap<u32, u64>,
    /// By job. One that is not named has nothing here and never had, unless the list is cut.
    pub jobs: BTreeMap<u32, Work>,
    /// There are more jobs than are named.
    pub cut: bool,
    /// The last round of each job in which all inboxes of this node were read far enough.
    pub rounds: BTreeMap<u32, u64>,
}

impl NodeWork {
    /// Is there nothing left of a job?
    pub fn is_idle(&self, job: JobId) -> bool {
        self.jobs.get(&job.0).map_or(!self.cut, |work| work.left == 0)
    }

    /// Is something new to be said at once, and not only other numbers?
    pub fn differs(&self, before: &NodeWork) -> bool {
        let idle = |work: &NodeWork| -> Vec<u32> {
            work.jobs.iter().filter(|(_, work)| work.left == 0).map(|(job, _)| *job).collect()
        };
        (&self.partitions, &self.rounds, self.cut) != (&before.partitions, &before.rounds, before.cut)
            || idle(self) != idle(before)
            || self.jobs.iter().any(|(job, work)| work.left == 0 && before.jobs.get(job) != Some(work))
    }
}

/// How far a round is.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Somebody came between.
    #[default]
    Void,
    /// It was begun; the inboxes are being asked how far they are filled.
    Begun,
    /// The nodes are asked.
    Asked,
    /// All have said that nothing is left.
    Complete,
}

/// An attempt to find out whether a job is complete.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Round {
    /// It grows.
    pub number: u64,
    /// How far it is.
    pub phase: Phase,
    /// A hash of what the nodes said when it began.
    pub mark: u64,
    /// How far the inboxes were filled then; those that were empty are not named.
    pub tails: BTreeMap<u32, u64>,
    /// When it was begun, on the clock of whoever did.
    pub at: Timestamp,
    /// What the nodes have done for the job, once it is complete.
    pub work: Work,
    /// Programs were told that it is complete.
    pub told: bool,
}

impl Round {
    /// Are these inboxes, by partition, read as far as they were filled when it began?
    pub fn is_behind(&self, read: &BTreeMap<u32, u64>) -> bool {
        read.iter().all(|(partition, read)| self.tails.get(partition).is_none_or(|tail| read >= tail))
    }

    /// The next one, begun now.
    pub fn next(&self, mark: u64, at: Timestamp) -> Round {
        let number = self.number + 1;
        Round { number, phase: Phase::Begun, mark, at, ..Round::default() }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something is left, or somebody has not spoken yet.
    Wait,
    /// All are idle: begin a round with this mark.
    Begin(u64),
    /// The job is complete.
    Complete(Work),
}

/// What is to be done about a job. `owners` has every partition that has a live owner, by its name, with its epoch.
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
        // One that was begun and not gone on with is begun anew.
        _ => Step::Begin(mark),
    }
}

#[cfg(test)]
mod tests;
