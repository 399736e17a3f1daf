//! Reports the work left of each job on this node, and detects the completion of a job: see
//! [`nephila_core::cluster::completion`], which decides.
//!
//! At every poll a node reads the rounds first and the work of its partitions second, so that the report for a round
//! describes a state after the round's beginning. One node evaluates a job: the owner of the partition with the job's
//! number.
//!
//! Invariants: a round changes by compare-and-swap alone; an unreadable round is never written; a job with unsent seeds
//! is not complete.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_core::cluster::NodeId;
use nephila_core::cluster::completion::{self, JOBS_MAX, NodeWork, Phase, Round, Step};
use nephila_core::cluster::member::View;
use nephila_core::cluster::message::Message;
use nephila_core::event::{Event, Kind};
use nephila_core::frontier::outlook::Left;
use nephila_core::job::{JobId, State};
use nephila_core::key::Prefixes;
use nephila_core::state::totals::Work;
use nephila_log::Leases;

use super::admin::{Error, new_id, owner};
use super::jobs::JobRecord;
use super::views::Progress;
use super::{Cluster, Node};
use nephila_api::views::NodeState;
use nephila_engine::clock::Clock;
use nephila_engine::crawl::work::ready_horizon;
use nephila_engine::human;
use nephila_engine::worker::Handle;

/// Prefix of the work reports, one record per node.
pub(crate) const WORK: &str = "work.";
/// Prefix of the rounds, one record per job.
pub(crate) const ROUND: &str = "round.";
/// Interval for writing figures without news.
pub(crate) const SAY_EVERY: Duration = Duration::from_secs(10);
/// Minimum interval between two rounds of one job.
pub(crate) const BEGIN_EVERY: Duration = Duration::from_secs(4);
/// Minimum interval between evaluations, multiplied by the number of live nodes: an evaluation reads the reports of all
/// nodes.
pub(crate) const EVALUATE_EVERY: Duration = Duration::from_millis(10);
/// Timeout of a poll; the next poll repeats the work.
pub(crate) const LOOK_MAX: Duration = Duration::from_secs(20);
/// Maximum number of tries to end a round when other writers change the record.
pub(crate) const TRIES_MAX: usize = 20;
/// Timeout for publishing an event; the next poll repeats the event.
pub(crate) const TELL_MAX: Duration = Duration::from_secs(5);

/// A round as read from its record.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    job: JobId,
    revision: u64,
    round: Round,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Completion {
    node: Arc<Node>,
    handle: Handle,
    /// The last report of this node, its revision, and its time. None until the record was read.
    said: Option<(NodeWork, Option<u64>, Instant)>,
    /// Start of the last round of each job here.
    begun: BTreeMap<JobId, Instant>,
    /// Time of the last evaluation.
    evaluated: Option<Instant>,
}

impl Completion {
    pub(crate) fn new(node: Arc<Node>, handle: Handle) -> Completion {
        Completion { node, handle, said: None, begun: BTreeMap::new(), evaluated: None }
    }

    /// Polls once. A failed step is repeated at the next poll.
    pub(crate) async fn look(&mut self, jobs: &[JobRecord]) {
        match tokio::time::timeout(LOOK_MAX, self.look_at(jobs)).await {
            Ok(Ok(())) => {}
            // The state of the record is unknown: read the record again.
            Ok(Err(_)) | Err(_) => self.said = None,
        }
    }

    pub(crate) async fn look_at(&mut self, jobs: &[JobRecord]) -> anyhow::Result<()> {
        let leases = self.node.cluster.leases.clone();
        // Before the partitions, so that the report for a round describes a state after the round's beginning.
        let rounds = rounds(&*leases).await?;
        let work = self.measure(jobs, &rounds).await?;
        self.node.known.set_state(state(&work));
        self.say(&*leases, &work).await?;
        for read in rounds.iter().filter(|read| read.round.phase == Phase::Complete) {
            if work.jobs.get(&read.job.0).is_some_and(|work| work.left > 0) {
                write(&*leases, read, Round { phase: Phase::Void, ..read.round.clone() }).await?;
            }
        }
        let nodes = self.node.known.view().map_or(0, |(view, _)| view.nodes.len());
        let pause = EVALUATE_EVERY * u32::try_from(nodes).unwrap_or(u32::MAX);
        if self.evaluated.is_some_and(|at| at.elapsed() < pause) {
            return Ok(());
        }
        self.evaluated = Some(Instant::now());
        let partitions = self.node.cluster.partitions;
        // Read once, and only if this node has a job to evaluate.
        let mut seen = None;
        let is_ours = |job: JobId| work.partitions.contains_key(&(job.0 % partitions));
        for record in jobs.iter().filter(|record| is_ours(record.job.id)) {
            let id = record.job.id;
            if record.job.state != State::Running || !record.seeded || !work.is_idle(id) {
                continue;
            }
            let nothing = Read { job: id, revision: 0, round: Round::default() };
            let read = rounds.iter().find(|read| read.job == id).unwrap_or(&nothing);
            if read.round.phase == Phase::Complete {
                self.tell(record, read).await?;
                continue;
            }
            if seen.is_none() {
                let cluster = &self.node.cluster;
                seen = Some((cluster.view().await?, said(&*leases).await?));
            }
            if let Some((view, said)) = &seen {
                self.evaluate(record, read, view, said).await?;
            }
        }
        Ok(())
    }

    /// Measures the work left of each job on the partitions of this node, and the rounds answered thereby.
    pub(crate) async fn measure(&self, jobs: &[JobRecord], rounds: &[Read]) -> anyhow::Result<NodeWork> {
        let epochs: BTreeMap<u32, u64> = self.node.tails.epochs().into_iter().collect();
        let mut tallied: BTreeMap<Prefixes, _> =
            self.handle.tallies().await?.into_iter().map(|tallied| (tallied.prefixes, tallied)).collect();
        let ready = is_ready(&self.node, &self.handle).await?;
        let mut work = NodeWork { ready: Some(ready), ..NodeWork::default() };
        let (mut inboxes, mut empty) = (BTreeMap::new(), BTreeSet::new());
        for (partition, epoch) in epochs {
            let prefixes = Prefixes::share(partition, self.node.cluster.partitions);
            let Some(of) = tallied.remove(&prefixes) else { continue };
            work.partitions.insert(partition, epoch);
            inboxes.insert(partition, of.inbox);
            if of.jobs.is_empty() {
                empty.insert(partition);
            }
            for (job, more) in of.jobs {
                let sum = work.jobs.entry(job).or_default();
                *sum = sum.plus(more);
            }
        }
        // After the positions of the inboxes: links of messages that were read are counted by now.
        for (job, links) in self.node.known.sent_on.counts() {
            work.jobs.entry(job.0).or_default().events += links;
        }
        self.node.known.set_empty(empty);
        let wanted = jobs.iter().filter(|record| record.job.state != State::Stopped);
        let wanted: BTreeSet<u32> = wanted.map(|record| record.job.id.0).collect();
        work.jobs.retain(|id, _| wanted.contains(id));
        while work.jobs.len() > JOBS_MAX {
            work.jobs.pop_last();
            work.cut = true;
        }
        let before = self.said.as_ref().map(|(said, ..)| &said.rounds);
        for Read { job, round, .. } in rounds {
            let answered = round.phase == Phase::Asked && round.is_behind(&inboxes);
            let last = before.and_then(|before| before.get(&job.0).copied());
            if let Some(number) = answered.then_some(round.number).or(last) {
                work.rounds.insert(job.0, number);
            }
        }
        Ok(work)
    }

    /// Writes the report of this node: news at once, other figures at intervals.
    pub(crate) async fn say(&mut self, leases: &dyn Leases, work: &NodeWork) -> anyhow::Result<()> {
        let key = format!("{WORK}{}", self.node.name);
        let (before, revision, at) = match self.said.take() {
            Some(said) => said,
            None => {
                let item = leases.record(&key).await.context("reading what this node said of its work")?;
                let said = item.as_ref().and_then(|item| serde_json::from_slice(&item.value).ok());
                let long_ago = Instant::now().checked_sub(SAY_EVERY).unwrap_or_else(Instant::now);
                (said.unwrap_or_default(), item.map(|item| item.revision), long_ago)
            }
        };
        if *work == before || (!work.differs(&before) && at.elapsed() < SAY_EVERY) {
            self.said = Some((before, revision, at));
            return Ok(());
        }
        let value = serde_json::to_vec(work).context("work as JSON")?;
        let put =
            leases.put(&key, revision, value.into()).await.context("writing what this node has to do")?;
        // Another process under our name, or a write of ours whose answer was lost.
        anyhow::ensure!(put.is_some(), "the record of work was changed by another");
        self.said = Some((work.clone(), put, Instant::now()));
        Ok(())
    }

    /// Evaluates whether a job is complete that has no work left on this node.
    pub(crate) async fn evaluate(
        &mut self,
        record: &JobRecord,
        read: &Read,
        view: &View,
        said: &BTreeMap<String, NodeWork>,
    ) -> anyhow::Result<()> {
        let (cluster, id) = (&self.node.cluster, record.job.id);
        let owned = (0..cluster.partitions).filter_map(|partition| {
            let epoch = view.owners.get(&partition)?.0;
            Some((partition, (&*owner(view, partition)?.name, epoch)))
        });
        let owners: BTreeMap<u32, (&str, u64)> = owned.collect();
        match completion::step(id, cluster.partitions, &owners, said, &read.round) {
            Step::Wait => Ok(()),
            Step::Begin(mark) => {
                let lately = self.begun.get(&id).is_some_and(|begun| begun.elapsed() < BEGIN_EVERY);
                if !lately {
                    self.begun.insert(id, Instant::now());
                    self.begin(read, mark).await?;
                }
                Ok(())
            }
            Step::Complete(work) => {
                let round = Round { phase: Phase::Complete, work, ..read.round.clone() };
                let Some(revision) = write(&*cluster.leases, read, round.clone()).await? else {
                    return Ok(());
                };
                self.begun.remove(&id);
                let Work { pages, bytes, .. } = work;
                let size = human::size(bytes);
                tracing::info!(
                    job = %record.job.name,
                    "job {} is complete: {pages} pages, {size}", record.job.name
                );
                self.tell(record, &Read { job: id, revision, round }).await
            }
        }
    }

    /// Begins a round, and records the ends of all inboxes: behind a message of our own in each, which only a majority
    /// of the servers can have stored.
    pub(crate) async fn begin(&self, read: &Read, mark: u64) -> anyhow::Result<()> {
        let cluster = &self.node.cluster;
        let begun = read.round.next(mark, Clock::new().now().wall);
        let Some(revision) = write(&*cluster.leases, read, begun.clone()).await? else { return Ok(()) };
        let message = Message::Offers { from: NodeId::of(&self.node.name), offers: Vec::new() };
        let message = message.encode(&cluster.secret);
        let messages = (0..cluster.partitions).map(|partition| (partition, new_id(), message.clone()));
        let tails = cluster.send(messages).await?;
        let asked = Round { phase: Phase::Asked, tails, ..begun.clone() };
        write(&*cluster.leases, &Read { job: read.job, revision, round: begun }, asked).await?;
        Ok(())
    }

    /// Publishes the event that a job is complete, once.
    pub(crate) async fn tell(&self, record: &JobRecord, read: &Read) -> anyhow::Result<()> {
        let Some(events) = self.node.events.as_ref().filter(|_| !read.round.told) else { return Ok(()) };
        let id = format!("job.{}.{}", read.job, read.round.number);
        let event = Event {
            id: id.clone(),
            kind: Kind::Job,
            at: read.round.at.to_string(),
            job: record.job.name.clone(),
            state: "complete".to_owned(),
            bytes: Some(read.round.work.bytes),
            entries: Some(read.round.work.pages),
            ..Event::default()
        };
        let partition = read.job.0 % self.node.cluster.partitions;
        events.stream.publish(partition, &id, event.line().into(), TELL_MAX).await?;
        let told = Round { told: true, ..read.round.clone() };
        write(&*self.node.cluster.leases, read, told).await?;
        Ok(())
    }
}

/// State of a node with this work.
pub(crate) fn state(work: &NodeWork) -> NodeState {
    match work.ready.unwrap_or_else(|| work.jobs.values().all(|work| work.left == 0)) {
        true => NodeState::Ready,
        false => NodeState::Crawling,
    }
}

/// Whether nothing is queued or due soon on the partitions of a node, and none of its inboxes waits.
pub(crate) async fn is_ready(node: &Node, handle: &Handle) -> anyhow::Result<bool> {
    // The inboxes first: what leaves them meanwhile is with the worker.
    if node.known.inbox_waits() {
        return Ok(false);
    }
    let horizon = ready_horizon(&node.settings.crawl, Clock::new().now().wall);
    Ok(handle.left(horizon).await? == Left::Nothing)
}

/// The readable work reports of all nodes.
pub(crate) async fn said(leases: &dyn Leases) -> anyhow::Result<BTreeMap<String, NodeWork>> {
    let items = leases.records(WORK).await.context("reading what is left")?;
    let read = items.iter().filter_map(|item| {
        let node = item.key.strip_prefix(WORK)?;
        Some((node.to_owned(), serde_json::from_slice(&item.value).ok()?))
    });
    Ok(read.collect())
}

/// All readable rounds.
pub(crate) async fn rounds(leases: &dyn Leases) -> anyhow::Result<Vec<Read>> {
    let items = leases.records(ROUND).await.context("reading the rounds")?;
    let read = items.into_iter().filter_map(|item| {
        let job = item.key.strip_prefix(ROUND)?.parse().ok().map(JobId)?;
        let round = serde_json::from_slice(&item.value).ok()?;
        Some(Read { job, revision: item.revision, round })
    });
    Ok(read.collect())
}

/// Writes a round by compare-and-swap. Returns the new revision on success.
pub(crate) async fn write(leases: &dyn Leases, read: &Read, round: Round) -> anyhow::Result<Option<u64>> {
    let expected = Some(read.revision).filter(|revision| *revision > 0);
    let value = serde_json::to_vec(&round).context("a round as JSON")?;
    leases.put(&format!("{ROUND}{}", read.job), expected, value.into()).await.context("writing a round")
}

impl Cluster {
    /// Invalidates the completion of these jobs, because URLs were stored.
    pub async fn reopen(&self, jobs: impl IntoIterator<Item = JobId>) -> Result<(), Error> {
        for job in jobs {
            self.reopen_one(job).await?;
        }
        Ok(())
    }

    /// Invalidates the completion of one job, if there is a round. Fails after too many conflicts with other writers.
    pub async fn reopen_one(&self, job: JobId) -> anyhow::Result<()> {
        for _ in 0..TRIES_MAX {
            let item = self.leases.record(&format!("{ROUND}{job}")).await.context("reading a round")?;
            let Some(item) = item else { return Ok(()) };
            let round: Round = serde_json::from_slice(&item.value).context("a round")?;
            let read = Read { job, revision: item.revision, round: round.clone() };
            let void = Round { phase: Phase::Void, ..round };
            if read.round == void || write(&*self.leases, &read, void).await?.is_some() {
                return Ok(());
            }
        }
        anyhow::bail!("others change the round of job {job} all the time: try again")
    }

    /// Progress of each job by the last reports of live nodes, and the completion times.
    pub async fn progress(&self) -> Result<BTreeMap<JobId, Progress>, Error> {
        let mut sums: BTreeMap<JobId, Work> = BTreeMap::new();
        let view = self.view().await?;
        let lives = |node: &str| view.nodes.iter().any(|lives| lives.name == node);
        let said = said(&*self.leases).await?;
        for (_, said) in said.into_iter().filter(|(node, _)| lives(node)) {
            for (job, work) in said.jobs {
                let sum = sums.entry(JobId(job)).or_default();
                *sum = sum.plus(work);
            }
        }
        let mut all: BTreeMap<JobId, Progress> =
            sums.into_iter().map(|(job, work)| (job, Progress::of(work))).collect();
        for read in rounds(&*self.leases).await? {
            if read.round.phase == Phase::Complete {
                let progress = all.entry(read.job).or_default();
                *progress = Progress::of(read.round.work);
                progress.complete = Some(read.round.at.to_string());
            }
        }
        Ok(all)
    }

    /// State of each node by its last report.
    pub async fn states(&self) -> Result<BTreeMap<String, NodeState>, Error> {
        let said = said(&*self.leases).await?;
        Ok(said.into_iter().map(|(node, work)| (node, state(&work))).collect())
    }
}
