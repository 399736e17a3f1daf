//! Administration of a cluster, called by a command that speaks to the servers, or by a node for an HTTP request.
//!
//! A change of a job is first written to the job's record, then sent to every partition's inbox: a partition learns of
//! the change at one position of its log, a node judges links by the record from its next poll on.
//!
//! Invariants: a job is validated before the record is written; each added URL gets its own result; no URL is sent
//! whose address the settings do not permit.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use nephila_core::cluster::NodeId;
use nephila_core::cluster::count::{JOBS_MAX, has_limit};
use nephila_core::cluster::member::{NodeRecord, OwnerRecord, OwnerState, View};
use nephila_core::cluster::message::Message;
use nephila_core::entry::Entry;
use nephila_core::frontier::offers::OfferedUrl;
use nephila_core::job::{Counts, Job, JobId, Limit, State};
use nephila_core::reflog::part::Named;
use nephila_core::time::Timestamp;
use nephila_core::trap;
use nephila_core::url::CrawlUrl;
use tokio::task::JoinSet;

use super::alarm;
use super::jobs::{Ended, JobRecord};
use super::route::partition_of;
use super::session::DRAIN;
use super::shell::view;
use super::views::{ClusterView, JobChange, JobSaid, JobView, NodeView, PartitionView};
use super::{Cluster, away};
use crate::objects::Content;
use nephila_api::views::{Added, NodeState};
use nephila_engine::crawl::adding::AddLine;
use nephila_engine::crawl::jobs::InForce;
use nephila_engine::crawl::stream::{Judge, StreamSaid};
use nephila_engine::reach::Reach;
use nephila_engine::settings::Settings;
use nephila_engine::worker::{Link, offered};

/// Maximum number of messages sent concurrently.
pub const SENDS_MAX: usize = 32;
/// Number of seeds in one message.
pub const SEEDS_IN_MESSAGE: usize = 500;

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such job or node.
    #[error("{0}")]
    NotFound(String),
    /// The request is invalid, and must be changed.
    #[error("{0}")]
    Wrong(String),
    /// Such a thing exists already.
    #[error("{0}")]
    Exists(String),
    /// The servers failed: a retry may help.
    #[error("{0:#}")]
    Away(anyhow::Error),
}

impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Error {
        Error::Away(error)
    }
}

/// Parameters for adding URLs.
#[derive(Clone, Debug, Default)]
pub struct Adding {
    /// Default job for lines without one.
    pub job: Option<String>,
    /// Whether the URLs are seeds, which extend the scope.
    pub as_seeds: bool,
}

/// Jobs by name, each with its rules once they were needed.
pub type Judges = BTreeMap<String, (JobRecord, Option<InForce>)>;

/// The owner of a partition, if live.
pub fn owner(view: &View, partition: u32) -> Option<&NodeRecord> {
    let (_, record) = view.owners.get(&partition)?;
    let OwnerRecord { node, incarnation, state, .. } = record;
    let lives = |lease: &&NodeRecord| lease.node == *node && lease.incarnation == *incarnation;
    if *state == OwnerState::Owned { view.nodes.iter().find(lives) } else { None }
}

/// Counts a view for display.
pub fn count(view: &View, partitions: u32) -> ClusterView {
    let mut owned = BTreeMap::<NodeId, u32>::new();
    for node in (0..partitions).filter_map(|partition| owner(view, partition)) {
        *owned.entry(node.node).or_default() += 1;
    }
    let without_owner = partitions - owned.values().sum::<u32>();
    let nodes = view.nodes.iter().map(|node| NodeView {
        name: node.name.clone(),
        address: node.address.clone(),
        draining: node.draining,
        partitions: owned.get(&node.node).copied().unwrap_or(0),
        state: NodeState::default(),
    });
    let mut nodes: Vec<NodeView> = nodes.collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    let mut alarms = Vec::new();
    if nodes.is_empty() {
        alarms.push("no node lives: start one with `nephila serve`".to_owned());
    } else if without_owner > 0 {
        alarms.push(format!(
            "{without_owner} partitions have no live owner: start a node, or wait for a take-over"
        ));
    }
    ClusterView { partitions, without_owner, nodes, alarms }
}

/// The partitions of a view.
pub fn partitions(view: &View, partitions: u32) -> Vec<PartitionView> {
    let one = |partition| PartitionView {
        partition,
        node: owner(view, partition).map(|node| node.name.clone()),
        epoch: view.owners.get(&partition).map_or(0, |(revision, _)| *revision),
    };
    (0..partitions).map(one).collect()
}

impl Cluster {
    /// The current state of the cluster, with the raised alarms.
    pub async fn counted(&self) -> Result<ClusterView, Error> {
        let mut counted = count(&self.view().await?, self.partitions);
        let raised = alarm::all(&*self.leases).await.map_err(Error::Away)?;
        counted.alarms.extend(raised.iter().map(ToString::to_string));
        let states = self.states().await?;
        for node in &mut counted.nodes {
            node.state = states.get(&node.name).copied().unwrap_or_default();
        }
        Ok(counted)
    }

    /// Reads the live nodes and the owners of partitions now.
    pub async fn view(&self) -> Result<View, Error> {
        let silent = || Error::Away(away("the NATS servers do not answer".to_owned()));
        view(&*self.leases).await.ok_or_else(silent)
    }

    /// All jobs.
    pub async fn jobs(&self) -> Result<Vec<JobRecord>, Error> {
        Ok(self.store().all().await?)
    }

    /// A job, by name.
    pub async fn job(&self, name: &str) -> Result<JobRecord, Error> {
        let all = self.jobs().await?;
        let found = all.into_iter().find(|record| record.job.name == name);
        found.ok_or_else(|| Error::NotFound(format!("there is no job {name}: see `nephila job list`")))
    }

    /// A job by name, with its progress.
    pub async fn said_of(&self, name: &str) -> Result<JobSaid, Error> {
        let record = self.job(name).await?;
        let progress = self.progress().await?.remove(&record.job.id).unwrap_or_default();
        Ok(JobSaid { record, progress })
    }

    /// All jobs, with their progress.
    pub async fn said_of_all(&self) -> Result<Vec<JobView>, Error> {
        let mut progress = self.progress().await?;
        let jobs = self.jobs().await?.into_iter();
        let of =
            |record: JobRecord| JobView::of(&record, progress.remove(&record.job.id).unwrap_or_default());
        Ok(jobs.map(of).collect())
    }

    /// Changes a job while the job runs.
    pub async fn change(&self, name: &str, change: &JobChange) -> Result<JobRecord, Error> {
        let mut meant = self.job(name).await?.job;
        change.apply(&mut meant);
        check(&meant, &self.jobs().await?)?;
        let put = |record: &mut JobRecord| {
            change.apply(&mut record.job);
            if change.state.is_some() {
                // A person has decided how the job continues.
                record.ended = None;
            }
        };
        let changed = self.store().change(meant.id, put).await?;
        let changed = changed.ok_or_else(|| Error::NotFound(format!("the job {name} is gone")))?;
        self.tell(&changed.job).await?;
        Ok(changed)
    }

    /// Ends a job that has reached a limit. Idempotent: a second call changes nothing.
    pub async fn end(&self, id: JobId, limit: Limit, counts: &Counts) -> Result<(), Error> {
        let number = uuid::Uuid::now_v7().as_u64_pair().1;
        let put = |record: &mut JobRecord| {
            // Since the check, the job may have been paused, or its limits raised.
            if record.job.state == State::Running && record.job.limits.reached(counts) == Some(limit) {
                // Paused: links from its last pages are still processed, so that the job can continue with a higher
                // limit.
                record.job.state = State::Paused;
                record.ended = Some(Ended {
                    limit: limit.name().to_owned(),
                    pages: counts.pages,
                    bytes: counts.bytes,
                    seconds: counts.time.as_secs(),
                    number,
                    told: false,
                });
            }
        };
        if let Some(record) = self.store().change(id, put).await? {
            self.tell_end(&record).await?;
        }
        Ok(())
    }

    /// Tells every partition that a job has ended, unless all were already told.
    pub async fn tell_end(&self, record: &JobRecord) -> Result<(), Error> {
        let Some(ended) = record.ended.as_ref().filter(|ended| !ended.told) else { return Ok(()) };
        let message = told(&record.job).encode(&self.secret);
        // Several nodes may tell: an inbox takes each number once.
        let id = |partition: u32| u128::from(ended.number) << 64 | u128::from(partition);
        let messages = (0..self.partitions).map(|partition| (partition, id(partition), message.clone()));
        self.send(messages).await?;
        let put = |record: &mut JobRecord| {
            if let Some(now) = record.ended.as_mut().filter(|now| now.number == ended.number) {
                now.told = true;
            }
        };
        self.store().change(record.job.id, put).await?;
        Ok(())
    }

    /// Adds URLs, one per line: a URL, or JSON with `url` and further fields ([`AddLine`]).
    pub async fn add(
        &self,
        adding: &Adding,
        lines: impl Iterator<Item = &str>,
        settings: &Settings,
        now: Timestamp,
    ) -> Result<Added, Error> {
        let reach = Reach::new(&settings.spider);
        let mut jobs = self.judges(adding).await?;
        let (mut added, mut links) = (Added::default(), Vec::new());
        let mut seeds = BTreeMap::<JobId, Vec<String>>::new();
        for line in lines {
            let link = match self.judged(line, adding, &mut jobs, (&reach, &settings.trap), now).await? {
                None => continue,
                Some(Ok(link)) => link,
                Some(Err((url, why))) => {
                    added.refuse(&url, why);
                    continue;
                }
            };
            if adding.as_seeds {
                seeds.entry(link.want.job).or_default().push(link.url.as_str().to_owned());
            }
            links.push(link);
        }
        for (id, new) in &seeds {
            self.take_seeds(*id, new).await?;
        }
        self.send_links(&links).await?;
        for id in seeds.keys() {
            let put = |record: &mut JobRecord| record.seeded |= record.list.is_none();
            self.store().change(*id, put).await?;
        }
        self.reopen(links.iter().map(|link| link.want.job).collect::<BTreeSet<_>>()).await?;
        added.taken = links.len() as u64;
        Ok(added)
    }

    /// Loads all jobs for judging lines. Lists of seeds are not read yet.
    pub async fn judges(&self, adding: &Adding) -> Result<Judges, Error> {
        let mut jobs = Judges::new();
        for record in self.jobs().await? {
            // Judging seeds needs no list: seeds are always in scope.
            let needs_list = record.list.is_some() && !adding.as_seeds;
            let judge = if needs_list { None } else { Some(InForce::new(&record.job, &record.moved)?) };
            jobs.insert(record.job.name.clone(), (record, judge));
        }
        match adding.job.as_ref().filter(|job| !jobs.contains_key(*job)) {
            Some(job) => Err(Error::NotFound(format!("there is no job {job}: see `nephila job list`"))),
            None => Ok(jobs),
        }
    }

    /// Judges a line. None for an empty line; otherwise the link, or the URL with the reason for the refusal.
    pub async fn judged(
        &self,
        line: &str,
        adding: &Adding,
        jobs: &mut Judges,
        (reach, traps): (&Reach, &trap::Settings),
        now: Timestamp,
    ) -> Result<Option<Result<Link, (String, String)>>, Error> {
        let said = match AddLine::read(line) {
            None => return Ok(None),
            Some(Ok(said)) => said,
            Some(Err(error)) => return Ok(Some(Err((line.to_owned(), error)))),
        };
        let refuse = |why: String| Ok(Some(Err((said.url.clone(), why))));
        if said.again {
            return refuse("in a cluster a known URL is fetched again by the schedule of its job".to_owned());
        }
        let Some(name) = said.job.as_ref().or(adding.job.as_ref()) else {
            return refuse("for which job? Name it with ?job= or in the line".to_owned());
        };
        let Some((record, judge)) = jobs.get_mut(name) else {
            return refuse(format!("there is no job {name}"));
        };
        let judge = match judge {
            Some(judge) => judge,
            None => judge.insert(self.store().in_force(record).await?),
        };
        let link = said.judged(judge, adding.as_seeds, traps, now);
        match link.and_then(|link| reach.check(&link.url).map(|()| link)) {
            Ok(link) => Ok(Some(Ok(link))),
            Err(why) => refuse(why),
        }
    }

    /// Sends parts of a stream, numbered from `first`, to the partitions of their URLs, which decide about them.
    /// Sequential, so that each partition receives the parts in order.
    pub async fn stream(
        &self,
        job: &str,
        (batch, first): (Option<&str>, u32),
        text: &[u8],
        settings: &Settings,
        now: Timestamp,
    ) -> Result<StreamSaid, Error> {
        let reach = Reach::new(&settings.spider);
        let record = self.job(job).await?;
        let job = self.store().in_force(&record).await?;
        let mut all = StreamSaid::default();
        let reaches = |url: &CrawlUrl| reach.check(url).is_ok();
        let judge = Judge { job: &job, traps: &settings.trap, now, secret: &self.secret, reaches };
        for (mut part, said) in judge.read(text, batch, first) {
            self.spread.get().rekey_part(&mut part, &self.secret);
            let place = |url: &Named| partition_of(url.key.host.domain, self.partitions);
            let messages = part.divided(place).into_iter().map(|(partition, part)| {
                let message = Message::Command(Box::new(Entry::Stream(Box::new(part)))).encode(&self.secret);
                // Repeated parts are deduplicated by their batch, regardless of the message id.
                (partition, new_id(), message)
            });
            self.send(messages).await?;
            all.plus(said);
        }
        self.reopen([record.job.id]).await?;
        Ok(all)
    }

    /// Asks a node to leave.
    pub async fn drain(&self, node: &str) -> Result<(), Error> {
        if !self.view().await?.nodes.iter().any(|lives| lives.name == node) {
            return Err(Error::NotFound(format!("no node {node} lives: see `nephila cluster nodes`")));
        }
        let key = format!("{DRAIN}{node}");
        let item = self.leases.record(&key).await.context("reading")?;
        let put = self.leases.put(&key, item.map(|item| item.revision), "now".into()).await;
        match put.context("writing")? {
            Some(_) => Ok(()),
            None => Err(Error::Exists("somebody else said the same at this moment: try again".into())),
        }
    }

    /// Sends a job to every partition, without its seeds: only link judging needs the seeds.
    pub async fn tell(&self, job: &Job) -> anyhow::Result<()> {
        let message = told(job).encode(&self.secret);
        self.send((0..self.partitions).map(|partition| (partition, new_id(), message.clone()))).await?;
        Ok(())
    }

    /// Sends links to the inboxes of their partitions, and returns when all messages are stored.
    pub async fn send_links(&self, links: &[Link]) -> anyhow::Result<()> {
        let (spread, mut by_partition) = (self.spread.get(), BTreeMap::<u32, Vec<OfferedUrl>>::new());
        for link in links {
            let mut offered = offered(link, &self.secret);
            spread.rekey(&mut offered, &self.secret);
            let partition = partition_of(offered.key.host.domain, self.partitions);
            by_partition.entry(partition).or_default().push(offered);
        }
        let mut messages = Vec::new();
        for (partition, offers) in by_partition {
            for offers in offers.chunks(SEEDS_IN_MESSAGE) {
                let message = Message::Offers { from: NodeId::default(), offers: offers.to_vec() };
                let message = message.encode(&self.secret);
                messages.push((partition, id_of(partition, &message), message));
            }
        }
        self.send(messages).await?;
        Ok(())
    }

    /// Sends messages, some concurrently. Returns when all of them are stored, with the last position in each inbox.
    pub async fn send(
        &self,
        messages: impl IntoIterator<Item = (u32, u128, Vec<u8>)>,
    ) -> anyhow::Result<BTreeMap<u32, u64>> {
        let (mut sends, mut last) = (JoinSet::new(), BTreeMap::new());
        let mut note = |(partition, position): (u32, u64)| {
            let known = last.entry(partition).or_insert(position);
            *known = position.max(*known);
        };
        for (partition, id, message) in messages {
            if sends.len() >= SENDS_MAX {
                note(sends.join_next().await.expect("there are some")??);
            }
            let inbox = self.inbox.clone();
            sends.spawn(async move {
                let sent = inbox.publish(partition, id, message.into()).await;
                let position = sent.with_context(|| format!("telling partition {partition}"))?;
                anyhow::Ok((partition, position))
            });
        }
        while let Some(sent) = sends.join_next().await {
            note(sent??);
        }
        Ok(last)
    }
}

/// The message about a job for a partition: the job without its seeds.
pub fn told(job: &Job) -> Message {
    let mut told = job.clone();
    told.scope.seeds.clear();
    Message::Command(Box::new(Entry::Job(Box::new(told))))
}

/// A unique id for a message that is sent once.
pub fn new_id() -> u128 {
    uuid::Uuid::now_v7().as_u128()
}

/// A deterministic message id: an inbox deduplicates messages with the same content from different senders.
pub(super) fn id_of(partition: u32, message: &[u8]) -> u128 {
    let digest = Content::of(&[&partition.to_be_bytes(), message].concat()).sha256;
    u128::from_str_radix(&digest[..32], 16).expect("a digest is hexadecimal")
}

/// Checks whether a cluster can run this job beside the others.
pub fn check(job: &Job, others: &[JobRecord]) -> Result<(), Error> {
    job.check().map_err(|error| Error::Wrong(error.to_string()))?;
    let is_counted = |record: &&JobRecord| {
        record.job.id != job.id && has_limit(&record.job.limits) && record.job.state != State::Stopped
    };
    if has_limit(&job.limits) && others.iter().filter(is_counted).count() >= JOBS_MAX {
        let text = format!(
            "{JOBS_MAX} jobs with limits of pages, bytes or time run already, and no more are counted: stop one of them"
        );
        return Err(Error::Wrong(text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use nephila_core::cluster::Incarnation;

    use super::*;

    #[test]
    fn a_partition_counts_only_if_its_owner_lives() {
        let lease = |node: u64, incarnation: u64| NodeRecord {
            node: NodeId(node),
            incarnation: Incarnation(incarnation),
            name: format!("n{node}"),
            ..NodeRecord::default()
        };
        let owned = |node: u64, incarnation: u64, state| {
            (7, OwnerRecord { node: NodeId(node), incarnation: Incarnation(incarnation), state, load: None })
        };
        let view = View {
            nodes: vec![lease(1, 1), lease(2, 5)],
            owners: BTreeMap::from([
                (0, owned(1, 1, OwnerState::Owned)),
                (1, owned(2, 4, OwnerState::Owned)),
                (2, owned(2, 5, OwnerState::Released)),
            ]),
            ..View::default()
        };
        let counted = count(&view, 4);
        assert_eq!(
            (counted.without_owner, counted.nodes[0].partitions, counted.nodes[1].partitions),
            (3, 1, 0)
        );
        assert!(counted.alarms[0].contains("3 partitions"), "{counted:?}");
        let listed = partitions(&view, 4);
        assert_eq!((listed[0].node.as_deref(), listed[1].node.as_deref()), (Some("n1"), None));
        assert_eq!((listed[2].epoch, listed[3].epoch), (7, 0));
    }
}
