//! The jobs of a cluster: a record for each, which every node reads, and the word of it in every partition's log.
//!
//! A job is written down first, then told to every partition's inbox, and only then its seeds are sent. A partition learns
//! of it at one position of its log; a node judges links by the record, which it reads again every few seconds.
//!
//! What always holds: a record changes by compare-and-swap alone; a number is given once.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use nephila_core::job::{Job, JobId, State};
use nephila_core::url::CrawlUrl;
use nephila_log::Leases;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::{Unknown, put_unknown, take_unknown};
use crate::crawl::jobs::{InForce, Jobs};

/// Records of jobs begin like this.
const PREFIX: &str = "job.";
/// How often a change is tried while others change the same record.
const TRIES_MAX: usize = 20;
/// Nodes look at the jobs this often.
pub(crate) const READ_EVERY: Duration = Duration::from_secs(2);
/// The largest record: what the servers take in one message, with room to spare.
const RECORD_BYTES_MAX: usize = 700 << 10;

/// A job as it is written down.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct JobRecord {
    /// The job, with its seeds: its scope lies around them.
    pub(crate) job: Job,
    /// Where seeds have moved to.
    #[serde(default)]
    pub(crate) moved: Vec<String>,
    /// It has had enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Ended>,
    /// Fields of a newer program, which are written back as they are.
    #[serde(skip)]
    unknown: Unknown,
}

impl JobRecord {
    /// Of a job that begins.
    pub(crate) fn new(job: Job) -> JobRecord {
        JobRecord { job, moved: Vec::new(), ended: None, unknown: Unknown::new() }
    }
}

/// The end of a job that reached a limit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Ended {
    /// The limit's name.
    pub(crate) limit: String,
    /// How far it was, as far as the logs had it.
    pub(crate) pages: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: u64,
    /// What the messages to partitions are numbered by.
    pub(crate) number: u64,
    /// Were all partitions told?
    #[serde(default)]
    pub(crate) told: bool,
}

/// The records of jobs.
#[derive(Clone, Debug)]
pub(crate) struct JobStore {
    leases: Arc<dyn Leases>,
}

impl JobStore {
    pub(crate) fn new(leases: Arc<dyn Leases>) -> JobStore {
        JobStore { leases }
    }

    /// All jobs.
    pub(crate) async fn all(&self) -> anyhow::Result<Vec<JobRecord>> {
        let items = self.leases.records(PREFIX).await.context("reading the jobs")?;
        items.iter().map(|item| decode(&item.key, &item.value)).collect()
    }

    /// Writes a new job down, under the next free number.
    pub(crate) async fn create(&self, mut job: Job) -> anyhow::Result<Job> {
        for _ in 0..TRIES_MAX {
            let all = self.all().await?;
            anyhow::ensure!(
                all.iter().all(|record| record.job.name != job.name),
                "there is a job {} already",
                job.name
            );
            job.id = JobId(all.iter().map(|record| record.job.id.0).max().unwrap_or(0) + 1);
            let record = JobRecord::new(job.clone());
            let value = encode(&record)?;
            if self.leases.put(&key(job.id), None, value).await.context("writing the job")?.is_some() {
                return Ok(job);
            }
        }
        anyhow::bail!("others make jobs all the time: try again")
    }

    /// Changes a job; gives it as it is then, or none if there is no such job.
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
            let old = decode(&key, &item.value)?;
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

    /// A seed has moved.
    pub(crate) async fn widen(&self, id: JobId, target: &CrawlUrl) -> anyhow::Result<()> {
        let target = target.as_str();
        self.change(id, |record| {
            if !record.moved.iter().any(|moved| moved == target) {
                record.moved.push(target.to_owned());
            }
        })
        .await?;
        Ok(())
    }

    /// Brings the rules that links are judged by up to date. Gives all jobs.
    pub(crate) async fn refresh(&self, jobs: &Jobs) -> anyhow::Result<Vec<JobRecord>> {
        let all = self.all().await?;
        for record in &all {
            // A job that is stopped judges the last of its pages all the same.
            if record.job.state != State::Stopped || jobs.get(record.job.id).is_some() {
                jobs.set(InForce::new(&record.job, &record.moved)?);
            }
        }
        Ok(all)
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
        "a job of {} bytes is longer than {RECORD_BYTES_MAX}: begin it with fewer seeds and add the others \
         to it, or use --scope any",
        bytes.len()
    );
    Ok(bytes.into())
}

fn decode(key: &str, bytes: &[u8]) -> anyhow::Result<JobRecord> {
    let context = || format!("the record {key}");
    let mut value: Value = serde_json::from_slice(bytes).with_context(context)?;
    let every_field = JobRecord { ended: Some(Ended::default()), ..JobRecord::new(Job::new(JobId(0), "")) };
    let template = serde_json::to_value(every_field).with_context(context)?;
    let unknown = take_unknown(&mut value, &template);
    let record: JobRecord = serde_json::from_value(value).with_context(context)?;
    Ok(JobRecord { unknown, ..record })
}

#[cfg(test)]
mod tests {
    use nephila_log::memory::Engine;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_record_of_a_newer_program_is_read_and_keeps_its_fields_when_this_one_writes() {
        let leases: Arc<dyn Leases> = Arc::new(Engine::new(Duration::from_secs(15)).leases());
        let store = JobStore::new(leases.clone());
        let job = store.create(Job::new(JobId(0), "press")).await.unwrap();
        // As a newer program would write it: fields of its own at every level.
        let key = key(job.id);
        let item = leases.record(&key).await.unwrap().unwrap();
        let mut newer: Value = serde_json::from_slice(&item.value).unwrap();
        newer["renders"] = json!({"with": "chromium"});
        newer["job"]["colour"] = json!("green");
        newer["job"]["scope"]["languages"] = json!(["fr"]);
        newer["job"]["limits"]["links_max"] = json!(7);
        let bytes = serde_json::to_vec(&newer).unwrap();
        leases.put(&key, Some(item.revision), bytes.into()).await.unwrap().unwrap();
        // This one reads it, and changes what it knows.
        assert_eq!(store.all().await.unwrap()[0].job, job);
        store.change(job.id, |record| record.job.limits.pages_max = 9).await.unwrap().unwrap();
        store.change(job.id, |record| record.ended = Some(Ended::default())).await.unwrap().unwrap();
        let written: Value =
            serde_json::from_slice(&leases.record(&key).await.unwrap().unwrap().value).unwrap();
        newer["job"]["limits"]["pages_max"] = json!(9);
        newer["ended"] = serde_json::to_value(Ended::default()).unwrap();
        assert_eq!(written, newer);
    }
}
