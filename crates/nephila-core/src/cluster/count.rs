//! The counts of a job over all nodes, for the limits of the job as a whole.
//!
//! The owner of a partition counts the pages and bytes of a job in its log. The owner publishes these counts in a
//! record of its own ([`Said`]), with the epoch under which it owns the partition. A node that has read all records
//! adds them up ([`counts`]): of a partition that several nodes have published, the latest epoch counts. Each node
//! counts time on its own clock ([`Ran`]). No node compares two clocks; a node only never stays behind the time that
//! another has published.
//!
//! Invariants: every count stands in a log, so a page that is fetched again after a crash counts once; the sum is
//! never more than the work done, so no job ends early. A job may end late: by the fetches that were open when the
//! limit was reached, and by the fetches that begin until all nodes have read the counts.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::{Counts, JobId, Limits};
use crate::state::totals::Count;

/// Maximum number of jobs with such limits that may run at once: their counts have to fit into a record.
pub const JOBS_MAX: usize = 32;

/// Maximum time counted between two looks, in milliseconds: a node that was not looking did not run the job, or other
/// nodes count the time.
const LOOK_MAX: u64 = 30_000;

/// Whether a job has a limit that is counted over all nodes.
pub fn has_limit(limits: &Limits) -> bool {
    limits.pages_max > 0 || limits.bytes_max > 0 || !limits.time_max.is_zero()
}

/// The published counts of a partition.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Share {
    /// The epoch of the owner that published them.
    pub epoch: u64,
    /// By job.
    pub jobs: BTreeMap<u32, Count>,
}

/// The record of one node. Counts of partitions that the node has given up stay until a later owner publishes its
/// own.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Said {
    /// By partition.
    pub partitions: BTreeMap<u32, Share>,
    /// Running time of jobs, in milliseconds.
    pub ran_ms: BTreeMap<u32, u64>,
}

impl Said {
    /// Drops all jobs but these.
    pub fn keep(&mut self, jobs: &[JobId]) {
        let is_kept = |job: &u32| jobs.contains(&JobId(*job));
        self.partitions.values_mut().for_each(|share| share.jobs.retain(|job, _| is_kept(job)));
        self.partitions.retain(|_, share| !share.jobs.is_empty());
        self.ran_ms.retain(|job, _| is_kept(job));
    }
}

/// The counts of a job by the records of all nodes.
pub fn counts<'a>(said: impl IntoIterator<Item = &'a Said>, job: JobId) -> Counts {
    let mut latest: BTreeMap<u32, (u64, Count)> = BTreeMap::new();
    let mut ran_ms = 0;
    for said in said {
        ran_ms = ran_ms.max(said.ran_ms.get(&job.0).copied().unwrap_or(0));
        for (partition, share) in &said.partitions {
            let count = share.jobs.get(&job.0).copied().unwrap_or_default();
            let known = latest.entry(*partition).or_default();
            *known = (share.epoch, count).max(*known);
        }
    }
    let sum =
        |of: fn(&Count) -> u64| latest.values().map(|(_, count)| of(count)).fold(0, u64::saturating_add);
    Counts {
        pages: sum(|count| count.pages),
        bytes: sum(|count| count.bytes),
        time: Duration::from_millis(ran_ms),
        ..Counts::default()
    }
}

/// Counts the running time of jobs, on the clock of one node.
#[derive(Debug, Default)]
pub struct Ran {
    /// When the last look was, and which jobs ran then.
    looked: u64,
    running: Vec<JobId>,
    ran_ms: BTreeMap<u32, u64>,
}

impl Ran {
    /// These jobs run now; `said` has the records of all nodes. Returns the running time of each job. `now` is in
    /// milliseconds, on a clock of this node that never goes back.
    pub fn look<'a>(
        &mut self,
        now: u64,
        running: &[JobId],
        said: impl IntoIterator<Item = &'a Said>,
    ) -> &BTreeMap<u32, u64> {
        let passed = now.saturating_sub(self.looked).min(LOOK_MAX);
        for job in running.iter().filter(|job| self.running.contains(job)) {
            *self.ran_ms.entry(job.0).or_default() += passed;
        }
        for (job, ms) in said.into_iter().flat_map(|said| &said.ran_ms) {
            let known = self.ran_ms.entry(*job).or_default();
            *known = (*ms).max(*known);
        }
        (self.looked, self.running) = (now, running.to_vec());
        self.ran_ms.retain(|job, _| running.contains(&JobId(*job)));
        &self.ran_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Limit;

    const JOB: JobId = JobId(3);

    fn said(partition: u32, epoch: u64, pages: u64) -> Said {
        let jobs = BTreeMap::from([(JOB.0, Count { pages, bytes: pages * 100 })]);
        Said { partitions: BTreeMap::from([(partition, Share { epoch, jobs })]), ran_ms: BTreeMap::new() }
    }

    #[test]
    fn partitions_are_added_up_and_one_that_moved_counts_once() {
        let all = [said(0, 1, 10), said(1, 1, 5), said(0, 4, 12), said(1, 1, 4)];
        let sum = counts(&all, JOB);
        assert_eq!((sum.pages, sum.bytes), (17, 1_700));
        assert_eq!(counts(&all, JobId(4)), Counts::default());
    }

    #[test]
    fn a_partition_that_was_healed_counts_what_its_new_owner_says() {
        let sum = counts(&[said(0, 9, 7), said(0, 2, 50)], JOB);
        assert_eq!(sum.pages, 7, "what was lost was not done");
    }

    #[test]
    fn a_limit_is_reached_by_the_sum_and_not_before() {
        let limits = Limits { pages_max: 15, ..Limits::default() };
        assert!(has_limit(&limits) && !has_limit(&Limits { pages_per_host_max: 5, ..Limits::default() }));
        let at = |one, two| limits.reached(&counts(&[said(0, 1, one), said(1, 1, two)], JOB));
        assert_eq!((at(14, 0), at(7, 7), at(7, 8)), (None, None, Some(Limit::Pages)));
    }

    #[test]
    fn time_runs_while_the_job_does_and_no_node_is_behind_another() {
        let (mut one, mut two) = (Ran::default(), Ran::default());
        let heard = |ran: &BTreeMap<u32, u64>| Said { ran_ms: ran.clone(), ..Said::default() };
        assert_eq!(one.look(5_000, &[JOB], []).get(&JOB.0), None, "it was not seen running before");
        assert_eq!(one.look(7_000, &[JOB], [])[&JOB.0], 2_000);
        // The other's clock is another one, and it has only just come.
        let first = heard(one.look(9_000, &[JOB], []));
        assert_eq!(two.look(1_000_000, &[JOB], [&first])[&JOB.0], 4_000);
        let second = heard(two.look(1_003_000, &[JOB], [&first]));
        assert_eq!(counts([&first, &second], JOB).time, Duration::from_secs(7));
        // A pause does not count, and neither does a time without a look.
        assert!(two.look(1_006_000, &[], [&second]).is_empty());
        assert_eq!(two.look(1_009_000, &[JOB], [&second])[&JOB.0], 7_000);
        assert_eq!(two.look(9_009_000, &[JOB], [&second])[&JOB.0], 7_000 + LOOK_MAX);
    }

    #[test]
    fn jobs_that_are_over_are_forgotten() {
        let mut said = said(0, 1, 10);
        said.ran_ms.insert(9, 5);
        said.keep(&[JOB]);
        assert!(said.ran_ms.is_empty() && said.partitions.len() == 1);
        said.keep(&[]);
        assert_eq!(said, Said::default());
    }
}
