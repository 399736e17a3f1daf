//! The jobs of a cluster: one record per job, which every node reads, and an entry in every partition's log.
//!
//! The record is written first, then the job is sent to every partition's inbox, and the seeds follow last. A partition
//! learns of a job at one position of its log; a node judges links by the record, which it reads again every few
//! seconds. Seeds too many for a record are in a list ([`super::lists`]), and the record has the end of the list.
//!
//! A record that this program cannot read holds up its own job and nothing else: URLs of an unknown job are put back
//! into the queue, and an alarm names the record.
//!
//! A new field stands beside `job` in the record, not inside: the oldest program that may run in the same cluster
//! ignores the first and does not start with the second.
//!
//! Invariants: a record changes by compare-and-swap alone; a job id is used once; an unreadable record is never
//! written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use nephila_core::job::{Job, JobId, State};
use nephila_core::url::CrawlUrl;
use nephila_log::Leases;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::lists::{Lines, List, SeedLists};
use super::record::{Unknown, put_unknown, take_unknown};
use super::{LISTS_FORMAT, alarm, raise};
use nephila_engine::crawl::jobs::{InForce, Jobs};

/// Prefix of job records.
const PREFIX: &str = "job.";
/// Prefix of alarms about records.
pub const ABOUT: &str = "record-";
/// Maximum number of tries when other writers change the record.
const TRIES_MAX: usize = 20;
/// Polling interval of the jobs on each node.
pub const READ_EVERY: Duration = Duration::from_secs(2);
/// Maximum size of a record in bytes: the limit of one message, with a reserve.
const RECORD_BYTES_MAX: usize = 700 << 10;
/// Maximum size in bytes of seeds in a record; more seeds are in a list.
pub const SEEDS_BYTES_MAX: usize = 512 << 10;
/// Maximum number of redirect targets of seeds in a record; more targets are in the list.
const MOVED_MAX: usize = 1_000;
/// Overhead in bytes of a URL in a record.
pub(super) const LINE_BYTES: usize = 3;

/// The record of a job.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct JobRecord {
    /// The job, with its seeds, which define the scope.
    #[schemars(with = "nephila_api::shapes::Job")]
    pub job: Job,
    /// Redirect targets of seeds.
    #[serde(default)]
    pub moved: Vec<String>,
    /// Set when a limit of the job is reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Whether all seeds were sent. The creator of the job may have died before.
    #[serde(default = "yes")]
    pub seeded: bool,
    /// The list of further seeds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list: Option<List>,
    /// Fields of a newer program, which are written back unchanged.
    #[serde(skip)]
    unknown: Unknown,
    /// Revision of the record; 0 if not read from the servers.
    #[serde(skip)]
    revision: u64,
}

impl JobRecord {
    /// The record of a new job.
    pub fn new(job: Job) -> JobRecord {
        let (moved, ended, list) = Default::default();
        JobRecord { job, moved, ended, seeded: false, list, unknown: Unknown::new(), revision: 0 }
    }

    /// Total number of seeds.
    pub fn seeds(&self) -> u64 {
        self.job.scope.seeds.len() as u64 + self.list.map_or(0, |list| list.seeds)
    }
}

/// Default of `seeded` for records without this field.
fn yes() -> bool {
    true
}

/// The end of a job that reached a limit.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Ended {
    /// Name of the limit.
    pub limit: String,
    /// The counts at the end, as far as the logs had them.
    pub pages: u64,
    /// Number of bytes that the job had received at the end.
    pub bytes: u64,
    /// Running time of the job at the end, in seconds.
    pub seconds: u64,
    /// Base of the message ids to partitions.
    pub number: u64,
    /// Whether all partitions were told.
    #[serde(default)]
    pub told: bool,
}

/// Access to the records of jobs.
#[derive(Clone, Debug)]
pub struct JobStore {
    leases: Arc<dyn Leases>,
    lists: Arc<SeedLists>,
    /// Held during a refresh of the rules: a later refresh has read later records.
    refreshing: Arc<tokio::sync::Mutex<()>>,
}

impl JobStore {
    /// Creates the access to job records in these leases, and to seeds in these lists. Reads nothing.
    pub fn new(leases: Arc<dyn Leases>, lists: Arc<SeedLists>) -> JobStore {
        JobStore { leases, lists, refreshing: Arc::default() }
    }

    /// Reads all jobs, and the unreadable records.
    pub(crate) async fn read(&self) -> anyhow::Result<(Vec<JobRecord>, Vec<Unreadable>)> {
        let items = self.leases.records(PREFIX).await.context("reading the jobs")?;
        let (mut jobs, mut unreadable) = (Vec::new(), Vec::new());
        for item in items {
            match decode(&item.value) {
                Ok(record) => jobs.push(JobRecord { revision: item.revision, ..record }),
                Err(error) => unreadable.push(Unreadable { key: item.key, why: error.to_string() }),
            }
        }
        Ok((jobs, unreadable))
    }

    /// All readable jobs.
    pub async fn all(&self) -> anyhow::Result<Vec<JobRecord>> {
        Ok(self.read().await?.0)
    }

    /// Creates the record of a new job, with the next free id.
    pub async fn create(&self, mut job: Job, list: Option<List>) -> anyhow::Result<Job> {
        for _ in 0..TRIES_MAX {
            let (all, unreadable) = self.read().await?;
            anyhow::ensure!(
                all.iter().all(|record| record.job.name != job.name),
                "there is a job {} already",
                job.name
            );
            let numbers = all.iter().map(|record| record.job.id.0);
            let taken = unreadable.iter().filter_map(|record| record.job()).map(|id| id.0);
            job.id = JobId(numbers.chain(taken).max().unwrap_or(0) + 1);
            let record = JobRecord { list, ..JobRecord::new(job.clone()) };
            let value = encode(&record)?;
            if self.leases.put(&key(job.id), None, value).await.context("writing the job")?.is_some() {
                return Ok(job);
            }
        }
        anyhow::bail!("others make jobs all the time: try again")
    }

    /// Changes a job by compare-and-swap. Returns the new record, or none without such a job.
    pub(crate) async fn change(
        &self,
        id: JobId,
        change: impl Fn(&mut JobRecord),
    ) -> anyhow::Result<Option<JobRecord>> {
        for _ in 0..TRIES_MAX {
            let key = key(id);
            let Some(item) = self.leases.record(&key).await.context("reading the job")? else {
                return Ok(None);
            };
            let old = decode(&item.value).with_context(|| format!("the record {key}"))?;
            let mut new = old.clone();
            change(&mut new);
            if new == old {
                return Ok(Some(new));
            }
            let put = self.leases.put(&key, Some(item.revision), encode(&new)?).await;
            if put.context("writing the job")?.is_some() {
                return Ok(Some(new));
            }
        }
        anyhow::bail!("others change job {id} all the time: try again")
    }

    /// Adds a redirect target of a seed to the scope. Concurrent calls are written together.
    pub(crate) async fn widen(&self, id: JobId, target: &CrawlUrl) -> anyhow::Result<()> {
        self.lists.moved(id, target.as_str());
        let (_turn, targets) = self.lists.to_write(id).await;
        if !targets.is_empty() {
            self.write_moved(id, &targets).await?;
            self.lists.written(id, &targets);
        }
        Ok(())
    }

    async fn write_moved(&self, id: JobId, targets: &BTreeSet<String>) -> anyhow::Result<()> {
        let Some(item) = self.leases.record(&key(id)).await.context("reading the job")? else {
            return Ok(());
        };
        let record = decode(&item.value).with_context(|| format!("the record {}", key(id)))?;
        let bytes: usize = targets.iter().map(|target| target.len() + LINE_BYTES).sum();
        let fits =
            record.moved.len() + targets.len() <= MOVED_MAX && item.value.len() + bytes <= RECORD_BYTES_MAX;
        if record.list.is_none() && fits {
            let put = |record: &mut JobRecord| {
                let new: Vec<&String> =
                    targets.iter().filter(|target| !record.moved.contains(target)).collect();
                record.moved.extend(new.into_iter().cloned());
            };
            self.change(id, put).await?;
            return Ok(());
        }
        raise(&*self.leases, LISTS_FORMAT).await?;
        let lines: Vec<&str> = targets.iter().map(String::as_str).collect();
        let upto = self.lists.leave(id, Lines::Moved, &lines).await?;
        let put = |record: &mut JobRecord| {
            let list = record.list.get_or_insert_default();
            list.upto = list.upto.max(upto);
            list.bytes += bytes as u64;
        };
        self.change(id, put).await?;
        Ok(())
    }

    /// The rules of a job, ready for judging URLs.
    pub(crate) async fn in_force(&self, record: &JobRecord) -> anyhow::Result<InForce> {
        let listed = self.lists.places(record).await?;
        let mut job = InForce::new(&record.job, &record.moved)?;
        job.revision = record.revision;
        if let Some(listed) = listed {
            job.rules = job.rules.with_listed(listed);
        }
        Ok(job)
    }

    /// Refreshes the rules for judging links. Returns all jobs, and the unreadable records.
    pub async fn refresh(&self, jobs: &Jobs) -> anyhow::Result<(Vec<JobRecord>, Vec<Unreadable>)> {
        let _turn = self.refreshing.lock().await;
        self.refresh_now(jobs).await
    }

    /// Like [`JobStore::refresh`], unless another call has refreshed since this moment.
    pub(crate) async fn refresh_since(&self, jobs: &Jobs, since: Instant) -> anyhow::Result<()> {
        let _turn = self.refreshing.lock().await;
        if !jobs.is_fresh(since) {
            self.refresh_now(jobs).await?;
        }
        Ok(())
    }

    async fn refresh_now(&self, jobs: &Jobs) -> anyhow::Result<(Vec<JobRecord>, Vec<Unreadable>)> {
        let began = Instant::now();
        let (all, mut unreadable) = self.read().await?;
        for record in &all {
            // A job that is stopped judges the last of its pages all the same.
            if record.job.state == State::Stopped && jobs.get(record.job.id).is_none() {
                continue;
            }
            // No seed was sent yet: a node that meets a page of this job refreshes again.
            if record.list.is_some_and(|list| list.open) {
                continue;
            }
            if jobs.get(record.job.id).is_some_and(|known| known.revision == record.revision) {
                continue;
            }
            match self.in_force(record).await {
                Ok(rules) => jobs.set(rules),
                // Until the next try, jobs are judged by their known rules.
                Err(error) if is_away(&error) => return Err(error),
                Err(error) => {
                    unreadable.push(Unreadable { key: key(record.job.id), why: format!("{error:#}") });
                }
            }
        }
        jobs.set_unreadable(unreadable.iter().filter_map(Unreadable::job));
        jobs.set_refreshed(began);
        Ok((all, unreadable))
    }
}

/// Whether the servers are unreachable.
fn is_away(error: &anyhow::Error) -> bool {
    let away = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref::<nephila_log::Error>().is_some_and(nephila_log::Error::is_unavailable)
    };
    error.chain().any(away)
}

/// A record that this program cannot read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub(crate) key: String,
    why: String,
}

impl Unreadable {
    /// The job of this record.
    fn job(&self) -> Option<JobId> {
        self.key.strip_prefix(PREFIX)?.parse().ok().map(JobId)
    }
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Unreadable { key, why } = self;
        write!(
            f,
            "the record {key} cannot be read: {why}. Its URLs wait, and everything else goes on. If a newer nephila wrote it, \
             install that version here; else bring back what it was, from a copy of the stream of records"
        )
    }
}

/// Raises an alarm for each unreadable record, and clears alarms of records that are readable again.
#[derive(Debug)]
pub struct Watch {
    leases: Arc<dyn Leases>,
    node: String,
    /// Raised alarms with their texts; none until the alarms of an earlier process of this node were read.
    raised: Option<BTreeMap<String, String>>,
}

impl Watch {
    /// Creates the watch of a node. Reads no alarms before the first update.
    pub fn new(leases: Arc<dyn Leases>, node: &str) -> Watch {
        Watch { leases, node: node.to_owned(), raised: None }
    }

    /// Updates the alarms. A failed update is repeated at the next poll.
    pub async fn note(&mut self, unreadable: &[Unreadable]) -> anyhow::Result<()> {
        let ending = format!("-{}", self.node);
        let raised = match &mut self.raised {
            Some(raised) => raised,
            None => {
                let all = alarm::all(&*self.leases).await?.into_iter();
                let own =
                    all.filter(|alarm| alarm.about.starts_with(ABOUT) && alarm.about.ends_with(&ending));
                self.raised.insert(own.map(|alarm| (alarm.about, alarm.text)).collect())
            }
        };
        let now: BTreeMap<String, String> = unreadable
            .iter()
            .map(|record| (format!("{ABOUT}{}{ending}", record.key), record.to_string()))
            .collect();
        for (about, text) in &now {
            if raised.get(about) != Some(text) {
                tracing::warn!(node = %self.node, "node {}: {text}", self.node);
            }
            // Each time: a node that did not yet see us as live may have cleared the alarm.
            alarm::raise(&*self.leases, about, &self.node, text).await?;
            raised.insert(about.clone(), text.clone());
        }
        let over: Vec<String> = raised.keys().filter(|about| !now.contains_key(*about)).cloned().collect();
        for about in over {
            alarm::clear(&*self.leases, &about).await?;
            raised.remove(&about);
        }
        Ok(())
    }
}

fn key(id: JobId) -> String {
    format!("{PREFIX}{id}")
}

fn encode(record: &JobRecord) -> anyhow::Result<Bytes> {
    let mut value = serde_json::to_value(record).context("the job as JSON")?;
    put_unknown(&mut value, &record.unknown);
    let bytes = serde_json::to_vec(&value).context("the job as JSON")?;
    anyhow::ensure!(
        bytes.len() <= RECORD_BYTES_MAX,
        "a job of {} bytes is longer than {RECORD_BYTES_MAX}: it has too many patterns",
        bytes.len()
    );
    Ok(bytes.into())
}

/// A record with every known field.
static TEMPLATE: LazyLock<Value> = LazyLock::new(|| {
    let every_field = JobRecord {
        ended: Some(Ended::default()),
        list: Some(List::default()),
        ..JobRecord::new(Job::new(JobId(0), ""))
    };
    serde_json::to_value(every_field).expect("a job can be written as JSON")
});

fn decode(bytes: &[u8]) -> Result<JobRecord, serde_json::Error> {
    let mut value: Value = serde_json::from_slice(bytes)?;
    let unknown = take_unknown(&mut value, &TEMPLATE);
    let record: JobRecord = serde_json::from_value(value)?;
    Ok(JobRecord { unknown, ..record })
}

#[cfg(test)]
mod tests;
