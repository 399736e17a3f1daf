//! Limits of a job as a whole: publishes the counts of this node's partitions, sums the counts of all nodes, and ends a
//! job that has reached a limit.
//!
//! Every poll takes the counts from the logs of this node's partitions, writes them to this node's record, and reads
//! the records of all nodes. A node that finds a limit reached writes the end into the job's record, by
//! compare-and-swap, and tells every partition. If this node dies before all are told, the next polling node tells
//! them.
//!
//! Invariants: a job ends once, whichever node notices; no job ends before its limit is reached; a job that has ended
//! stays ended until a person resumes the job; without such limits nothing is written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nephila_core::cluster::count::{Ran, Said, Share, counts, has_limit};
use nephila_core::job::{JobId, State};
use nephila_core::key::Prefixes;
use nephila_core::state::totals::Count;
use nephila_log::Item;

use super::Node;
use super::jobs::JobRecord;
use nephila_engine::clock::awake_or_not;
use nephila_engine::worker::Handle;

/// Prefix of the count records.
pub(crate) const COUNTS: &str = "counts.";
/// Timeout of a poll; the next poll repeats the work.
pub(crate) const LOOK_MAX: Duration = Duration::from_secs(20);

/// See the module.
#[derive(Debug)]
pub(crate) struct Counter {
    node: Arc<Node>,
    handle: Handle,
    /// This node's record and its revision. None until the record was read.
    own: Option<(Said, Option<u64>)>,
    ran: Ran,
}

impl Counter {
    pub(crate) fn new(node: Arc<Node>, handle: Handle) -> Counter {
        Counter { node, handle, own: None, ran: Ran::default() }
    }

    /// Polls once. A failed step is repeated at the next poll.
    pub(crate) async fn look(&mut self, jobs: &[JobRecord]) {
        match tokio::time::timeout(LOOK_MAX, self.look_at(jobs)).await {
            Ok(Ok(())) => {}
            // The state of the record is unknown: read the record again.
            Ok(Err(_)) | Err(_) => self.own = None,
        }
    }

    pub(crate) async fn look_at(&mut self, jobs: &[JobRecord]) -> anyhow::Result<()> {
        let cluster = &self.node.cluster;
        for job in jobs.iter().filter(|job| job.ended.as_ref().is_some_and(|ended| !ended.told)) {
            cluster.tell_end(job).await?;
        }
        let is_limited = |job: &&JobRecord| has_limit(&job.job.limits) && job.job.state != State::Stopped;
        let limited: Vec<&JobRecord> = jobs.iter().filter(is_limited).collect();
        let had_any = self.own.as_ref().is_none_or(|(said, _)| *said != Said::default());
        if limited.is_empty() && !had_any {
            return Ok(());
        }
        let items = cluster.leases.records(COUNTS).await.context("reading what was counted")?;
        let own_key = format!("{COUNTS}{}", self.node.name);
        let (own, others): (Vec<&Item>, Vec<&Item>) = items.iter().partition(|item| item.key == own_key);
        let read = |item: &&Item| serde_json::from_slice::<Said>(&item.value).unwrap_or_default();
        let mut all: Vec<Said> = others.iter().map(read).collect();
        let (before, revision) = self.own.take().unwrap_or_else(|| {
            (own.first().map(read).unwrap_or_default(), own.first().map(|item| item.revision))
        });

        let ids: Vec<JobId> = limited.iter().map(|job| job.job.id).collect();
        let timed: Vec<JobId> = limited
            .iter()
            .filter(|job| job.job.state == State::Running && !job.job.limits.time_max.is_zero())
            .map(|job| job.job.id)
            .collect();
        let mut said = before.clone();
        said.keep(&ids);
        self.count(&mut said, &ids).await?;
        let ran = self.ran.look(awake_or_not(), &timed, all.iter().chain([&said])).clone();
        said.ran_ms.extend(ran);
        let mut revision = revision;
        if said != before {
            let value = serde_json::to_vec(&said).context("counts as JSON")?;
            let put = cluster.leases.put(&own_key, revision, value.into()).await;
            revision = put.context("writing what was counted")?;
            // Another process under our name, or a write of ours whose answer was lost.
            anyhow::ensure!(revision.is_some(), "the record of counts was changed by another");
        }
        self.own = Some((said.clone(), revision));

        all.push(said);
        for job in limited.iter().filter(|job| job.job.state == State::Running) {
            let counts = counts(&all, job.job.id);
            if let Some(limit) = job.job.limits.reached(&counts).filter(|limit| limit.ends_job()) {
                cluster.end(job.job.id, limit, &counts).await?;
            }
        }
        Ok(())
    }

    /// Counts of this node's partitions.
    pub(crate) async fn count(&self, said: &mut Said, jobs: &[JobId]) -> anyhow::Result<()> {
        let tallies = self.handle.tallies().await?.into_iter();
        let mut tallies: BTreeMap<Prefixes, _> = tallies.map(|of| (of.prefixes, of.jobs)).collect();
        for (partition, epoch) in self.node.tails.epochs() {
            let prefixes = Prefixes::share(partition, self.node.cluster.partitions);
            let Some(work) = tallies.remove(&prefixes) else { continue };
            let counted = work.into_iter().filter(|(job, _)| jobs.contains(&JobId(*job)));
            let counted: BTreeMap<u32, Count> =
                counted.map(|(job, work)| (job, Count { pages: work.pages, bytes: work.bytes })).collect();
            if !counted.is_empty() {
                said.partitions.insert(partition, Share { epoch, jobs: counted });
            }
        }
        Ok(())
    }
}
