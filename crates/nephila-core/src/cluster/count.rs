//! How far a job is over all nodes, for the limits of the job as a whole.
//!
//! The owner of a partition counts what its log says of a job: pages and bytes. It says these counts in a record of its
//! own ([`Said`]), with the epoch under which it owns the partition. Whoever has read all records adds them up
//! ([`counts`]): of a partition that several nodes have spoken of, the latest epoch counts. Time is counted by each node on its own
//! clock ([`Ran`]); nobody compares two clocks, a node only never stays behind what another has said.
//!
//! What always holds: what is counted stands in a log, so a page that is fetched again after a crash counts once; the sum is
//! never more than what was done, so no job ends early. It may be late: by what was open when the limit was reached, and
//! by what is begun until everybody has heard of it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::job::{Counts, JobId, Limits};
use crate::spider::outcome::{Class, Outcome};
use crate::state::totals::Tally;

/// Jobs with limits of this kind that may run at once: what is said of them has to fit a record.
pub const JOBS_MAX: usize = 32;

/// Between two looks no more time than this counts: whoever was not looking did not run it, or others count.
const LOOK_MAX: u64 = 30_000;

/// Does a job have a limit that is counted over all nodes?
pub fn has_limit(limits: &Limits) -> bool {
    limits.pages_max > 0 || limits.bytes_max > 0 || !limits.time_max.is_zero()
}

/// What a partition counts of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Count {
    /// Pages fetched.
    pub pages: u64,
    /// Bytes received.
    pub bytes: u64,
}

impl Count {
    /// What a tally says.
    pub fn of(tally: &Tally) -> Count {
        let is_page = |outcome: Outcome| outcome.class() == Class::Ok && outcome != Outcome::Redirect;
        Count { pages: tally.ended_as(is_page), bytes: tally.bytes }
    }
}

/// What was said of a partition.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Under which ownership.
    pub epoch: u64,
    /// By job.
    pub jobs: BTreeMap<u32, Count>,
}

/// What one node says. What it said of partitions that it has given up stays, until a later owner speaks.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Said {
    /// By partition.
    pub partitions: BTreeMap<u32, Share>,
    /// For how many milliseconds jobs have run.
    pub ran_ms: BTreeMap<u32, u64>,
}

impl Said {
    /// Nobody asks about other jobs than these any more.
    pub fn keep(&mut self, jobs: &[JobId]) {
        let is_kept = |job: &u32| jobs.contains(&JobId(*job));
        self.partitions.values_mut().for_each(|share| share.jobs.retain(|job, _| is_kept(job)));
        self.partitions.retain(|_, share| !share.jobs.is_empty());
        self.ran_ms.retain(|job, _| is_kept(job));
    }
}

/// How far a job is, by what all nodes have said.
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

/// Counts for how long jobs run, on the clock of one node.
#[derive(Debug, Default)]
pub struct Ran {
    /// When it was looked last, and which jobs ran then.
    looked: u64,
    running: Vec<JobId>,
    ran_ms: BTreeMap<u32, u64>,
}

impl Ran {
    /// These jobs run now; `said` is what all nodes have said. Gives for how long each has run. `now` is in milliseconds, on a
    /// clock of this node that never goes back.
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
        // A pause does not count, and neither does a time in which nobody looked.
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
