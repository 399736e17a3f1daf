//! Answers about the crawl as a whole, over all nodes: state, history, hosts, log, politeness, archive, rules.
//!
//! Each node gives its part, and the node that was asked merges the parts. A node that does not answer in time leaves
//! the answer incomplete and says so; it never makes the answer wait for longer than [`PART_MAX`].
//!
//! Invariants: one hop, since a forwarded request gets the part of the node alone; the cost of an answer does not grow
//! with the number of readers, because parts and merged states are kept for a second.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use nephila_core::job::Job;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::views::{JobSaid, JobView};
use super::{Api, Instead};
use nephila_api::alarms::AlarmSaid;
use nephila_api::answers;
use nephila_api::archive_view::ArchiveSaid;
use nephila_api::history::HistorySaid;
use nephila_api::hosts::{self, HostsSaid};
use nephila_api::jobs::{EndedSaid, JobPart, JobRow, ProgressSaid, RuleSaid, SeedSaid};
use nephila_api::log_view::{self, Cursors, Filter, LogPart, LogSaid, LogWanted};
use nephila_api::monitor::{Fresh, Monitor, STATUS_AGE};
use nephila_api::politeness::PolitenessSaid;
use nephila_api::ready;
use nephila_api::scope_test::Tested;
use nephila_api::search::{self, SearchSaid, SearchWanted};
use nephila_api::status::{NodeRow, StatusPart, StatusSaid};
use nephila_api::timeline::TimelineSaid;
use nephila_api::{FORWARDED, HttpAnswer, HttpQuestion, Question, ok, problem};
use nephila_engine::clock::Clock;
use nephila_engine::crawl::shared::Shared;

/// Timeout for the part of another node.
const PART_MAX: Duration = Duration::from_secs(3);
/// Timeout for the status of another node: the page that everybody watches must not wait for a frozen one.
const STATUS_MAX: Duration = Duration::from_millis(800);
/// Timeout for a part of a search, which works for seconds and may wait for another search.
const SEARCH_MAX: Duration = Duration::from_secs(20);
/// Maximum size of a part in bytes.
const PART_BYTES_MAX: usize = 16 << 20;
/// Maximum age of what the servers say in a status.
const SERVERS_AGE: Duration = Duration::from_secs(2);
/// Timeout for the servers in a status.
const SERVERS_MAX: Duration = Duration::from_secs(1);

/// What a node keeps for answers about the whole cluster.
#[derive(Debug)]
pub(super) struct Overview {
    pub(super) monitor: Arc<Monitor>,
    status: Fresh<StatusSaid>,
    servers: Fresh<FromServers>,
}

/// What the servers say in a status.
#[derive(Clone, Debug, Default)]
struct FromServers {
    jobs: Vec<JobRow>,
    alarms: Vec<String>,
}

/// A job of a cluster, with everything known about it.
#[derive(Clone, Debug, Deserialize, schemars::JsonSchema, Serialize)]
pub(super) struct JobWhole {
    /// The record of the job and its progress.
    #[serde(flatten)]
    pub(super) said: JobSaid,
    /// Number of seeds.
    pub(super) seeds_total: u64,
    /// How its URLs ended.
    pub(super) ended_as: EndedSaid,
    /// Whether these counts, the seeds and the rules lack the part of a node that did not answer.
    #[serde(default)]
    pub(super) partial: bool,
    /// When the first of the first seeds was added.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) begun: Option<String>,
    /// The fate of the first seeds.
    pub(super) seeds: Vec<SeedSaid>,
    /// The rules that decided about links, the most frequent first.
    pub(super) rules: Vec<RuleSaid>,
}

impl Overview {
    pub(super) fn new(monitor: Monitor) -> Overview {
        Overview { monitor: Arc::new(monitor), status: Fresh::default(), servers: Fresh::default() }
    }
}

impl From<JobView> for JobRow {
    fn from(view: JobView) -> JobRow {
        let JobView { id, name, state, priority, kind, seeds, progress } = view;
        let progress = ProgressSaid {
            left: progress.left,
            pages: progress.pages,
            bytes: progress.bytes,
            reads_archive: false,
            complete: progress.complete,
        };
        JobRow { id, name, state, priority, kind, seeds, progress }
    }
}

/// The parts of the other nodes, and the nodes that gave none.
struct Parts<T> {
    parts: Vec<(String, T)>,
    silent: Vec<(String, String)>,
    /// Whether there are nodes without an API, which cannot be asked.
    has_mute: bool,
}

impl Api {
    fn is_part(asked: &HttpQuestion) -> bool {
        asked.field(FORWARDED).is_some()
    }

    /// Asks all other nodes for their parts. Nodes without an API are left out: the API is optional.
    async fn parts<T: DeserializeOwned>(&self, target: &str, timeout: Duration) -> Parts<T> {
        let question = Question::get(target, PART_BYTES_MAX, timeout).with(FORWARDED, "owner");
        let mut all = Parts { parts: Vec::new(), silent: Vec::new(), has_mute: false };
        for (other, answer) in self.ask_all(&question).await {
            if other.address.is_empty() {
                all.has_mute = true;
                continue;
            }
            let part = answer.and_then(|reply| match reply.status {
                StatusCode::OK => reply.json::<T>().map_err(|error| error.to_string()),
                status => Err(format!("node {}: it answers {status}", other.name)),
            });
            match part {
                Ok(part) => all.parts.push((other.name, part)),
                Err(why) => all.silent.push((other.name, why)),
            }
        }
        all
    }

    /// `GET search?q=&url=&limit=&cursor=`: the hits in the archives of all nodes. Archives of nodes that are away, and
    /// files that are in the object store alone, are not searched.
    pub async fn search(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let wanted = SearchWanted::of(asked)?;
        if Self::is_part(asked) {
            return Ok(ok(&self.archive.search(&wanted).await?));
        }
        ready::may_read(self.node.settings.api.reads, self).await?;
        let (own, others) =
            tokio::join!(self.archive.search(&wanted), self.parts::<SearchSaid>(&asked.target, SEARCH_MAX));
        let mut said =
            search::merged(others.parts.into_iter().map(|(_, part)| part).chain([own?]), wanted.limit);
        said.silent.extend(others.silent.into_iter().map(|(_, why)| why));
        Ok(ok(&said))
    }

    fn monitor(&self) -> &Monitor {
        &self.overview.monitor
    }

    /// The state of the cluster, at most a second old.
    pub async fn whole_status(&self) -> Result<Arc<StatusSaid>, Instead> {
        let status = self.overview.status.get(STATUS_AGE, async {
            let own = self.own_status().await?;
            let (parts, servers) =
                tokio::join!(self.parts::<StatusPart>("/api/v1/status", STATUS_MAX), self.servers());
            let mut rows = vec![NodeRow::of(&own.status)];
            let mut all = own;
            for alarm in &mut all.status.alarms {
                alarm.text = format!("node {}: {}", self.node.name, alarm.text);
            }
            for (_, part) in parts.parts {
                rows.push(NodeRow::of(&part.status));
                all.add(part);
            }
            rows.extend(parts.silent.into_iter().map(|(name, why)| NodeRow::silent(&name, why)));
            rows.sort_by(|a, b| a.name.cmp(&b.name));
            all.status.state = state_of(&rows);
            all.status.jobs = servers.jobs.clone();
            let now = all.status.now.clone();
            all.status.alarms.extend(servers.alarms.iter().map(|text| AlarmSaid {
                name: "cluster".into(),
                text: text.clone(),
                since: now.clone(),
            }));
            all.status.nodes = Some(rows);
            Ok(all.conclude())
        });
        status.await.map_err(|error| answers::away(&error))
    }

    async fn own_status(&self) -> anyhow::Result<StatusPart> {
        let session = self.node.known.session();
        Ok(StatusPart::clone(&*self.monitor().status(session.as_deref()).await?))
    }

    /// Jobs and alarms as the servers have them; the last known ones while the servers do not answer.
    async fn servers(&self) -> Arc<FromServers> {
        let find = async {
            let ask = async { tokio::join!(self.node.cluster.said_of_all(), self.counted()) };
            let (jobs, counted) = tokio::time::timeout(SERVERS_MAX, ask)
                .await
                .unwrap_or_else(|_| (Ok(Vec::new()), Err(self.moving("the servers do not answer"))));
            let alarms = match counted {
                Ok(counted) => counted.alarms,
                Err(_) => {
                    vec!["the NATS servers do not answer: jobs and partitions are not known".to_owned()]
                }
            };
            let jobs = jobs.unwrap_or_default().into_iter().map(JobRow::from).collect();
            anyhow::Ok(FromServers { jobs, alarms })
        };
        self.overview.servers.get(SERVERS_AGE, find).await.unwrap_or_default()
    }

    /// `GET status`.
    pub async fn status(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        if Api::is_part(asked) {
            return Ok(ok(&self.own_status().await.map_err(|error| answers::away(&error))?));
        }
        Ok(ok(&*self.whole_status().await?))
    }

    /// `GET history`: the histories of all nodes, added.
    pub async fn history(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let mut all = self.monitor().history(answers::seconds_of(asked)?);
        if !Api::is_part(asked) {
            for (_, part) in self.parts::<HistorySaid>(&asked.target, PART_MAX).await.parts {
                all.add(part);
            }
        }
        Ok(ok(&all))
    }

    /// `GET hosts`: the first hosts of all nodes, in one order.
    pub async fn hosts(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let wanted = answers::hosts_wanted(asked)?;
        let own = match self.node.known.session() {
            Some(shared) => {
                let seen = self.bounded(self.monitor().hosts(&shared)).await?;
                seen.said(&wanted, Some(&shared.lasts))
            }
            None => HostsSaid { complete: true, ..HostsSaid::default() },
        };
        if Api::is_part(asked) {
            return Ok(ok(&own));
        }
        let others = self.parts::<HostsSaid>(&asked.target, PART_MAX).await;
        let all_answered = others.silent.is_empty();
        let parts = std::iter::once(own).chain(others.parts.into_iter().map(|(_, part)| part));
        let mut all = hosts::merge(parts.collect(), wanted.limit);
        all.complete &= all_answered;
        Ok(ok(&all))
    }

    /// The part of this node in the log, by the cursor of the cluster.
    async fn own_log(
        &self,
        filter: Filter,
        cursors: Option<&Cursors>,
        limit: usize,
    ) -> Result<LogPart, Instead> {
        let before = match cursors.map(|cursors| cursors.of(&self.node.name)) {
            None => None,
            // This node has nothing older.
            Some(None) => return Ok(LogPart { complete: true, ..LogPart::default() }),
            Some(Some(position)) => position.parse().ok(),
        };
        let part = self.monitor().log(LogWanted { filter, limit, before }).await;
        part.map_err(|error| answers::away(&error))
    }

    /// The lines of all nodes, each node's part, and the cursors with which they began.
    async fn all_logs(
        &self,
        asked: &HttpQuestion,
        filter: Filter,
        limit: usize,
    ) -> Result<(Vec<(String, LogPart)>, Option<Cursors>, bool), Instead> {
        let cursors = asked.parameter("cursor").map(|text| {
            Cursors::parse(&text)
                .ok_or_else(|| answers::wrong("invalid parameter cursor", "the one of an answer"))
        });
        let cursors = cursors.transpose()?;
        let own = self.own_log(filter, cursors.as_ref(), limit).await?;
        if Api::is_part(asked) {
            return Ok((vec![(self.node.name.clone(), own)], cursors, true));
        }
        let mut others = self.parts::<LogPart>(&asked.target, PART_MAX).await;
        let mut parts = vec![(self.node.name.clone(), own)];
        parts.append(&mut others.parts);
        Ok((parts, cursors, others.silent.is_empty()))
    }

    /// `GET log`: the newest lines of all nodes.
    pub async fn log(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let limit = answers::limit_of_log(asked)?;
        let (mut parts, cursors, complete) = self.all_logs(asked, answers::log_filter(asked), limit).await?;
        if Api::is_part(asked) {
            return Ok(ok(&parts.pop().map(|(_, part)| part)));
        }
        let mut said = log_view::merge(parts, cursors.as_ref(), limit);
        said.complete &= complete;
        Ok(ok(&said))
    }

    /// `GET host/timeline`: the requests of all nodes to one host.
    pub async fn timeline(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let (origin, limit) = answers::timeline_wanted(asked)?;
        let filter = Filter::of_host(Some(&origin));
        let (mut parts, cursors, complete) = self.all_logs(asked, filter, limit + 1).await?;
        if Api::is_part(asked) {
            return Ok(ok(&parts.pop().map(|(_, part)| part)));
        }
        let cursor = log_view::merge(parts.clone(), cursors.as_ref(), limit).cursor;
        let said = log_view::merge(parts, cursors.as_ref(), limit + 1);
        let said = LogSaid { complete: said.complete && complete, ..said };
        Ok(ok(&TimelineSaid::of(origin, said, cursor, limit)))
    }

    /// `GET politeness`: each node judges its own requests.
    pub async fn politeness(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let host = answers::politeness_host(asked)?;
        let session = self.node.known.session();
        let own = self.monitor().politeness(session.as_deref(), host).await;
        let own = own.map_err(|error| answers::away(&error))?;
        if Api::is_part(asked) {
            return Ok(ok(&*own));
        }
        let mut all = PolitenessSaid::clone(&own);
        let others = self.parts::<PolitenessSaid>(&asked.target, PART_MAX).await;
        others.parts.into_iter().for_each(|(_, part)| all.add(part));
        all.complete &= others.silent.is_empty();
        Ok(ok(&all))
    }

    /// `GET archive`: the files of all nodes.
    pub async fn archive_files(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let (limit, cursor) = answers::files_wanted(asked)?;
        let session = self.node.known.session();
        let own = self.monitor().archive(session.as_deref(), limit, cursor).await;
        let mut all = own.map_err(|error| answers::away(&error))?;
        for file in &mut all.files {
            file.node.clone_from(&self.node.name);
        }
        if !Api::is_part(asked) {
            let others = self.parts::<ArchiveSaid>(&asked.target, PART_MAX).await;
            others.parts.into_iter().for_each(|(_, part)| all.add(part, limit));
            all.complete &= others.silent.is_empty();
        }
        Ok(ok(&all))
    }

    /// `GET settings` of this node.
    pub fn settings(&self) -> Result<HttpAnswer, Instead> {
        answers::settings_of(&self.node.settings)
    }

    /// `POST scope/test`: by the rules of a job, or by given ones. Robots.txt is known for the hosts of this node.
    pub async fn scope_test(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let test = answers::scope_wanted(asked)?;
        let job = match &test.job {
            Some(name) => Some(self.node.cluster.job(name).await?.job),
            None => None,
        };
        let tested = match (test.scope, job) {
            (Some(mut scope), job) => {
                if let Some(job) = job.filter(|_| scope.seeds.is_empty()) {
                    scope.seeds = job.scope.seeds;
                }
                Tested::given(&scope).map_err(|why| answers::wrong("invalid scope", why))?
            }
            (None, job) => self.tested(job)?,
        };
        let session = self.node.known.session();
        let by = (self.node.settings.trap.clone(), Clock::new().now().wall);
        let said =
            answers::test_scope(tested, test.urls, by, session.as_deref().map(|shared| &shared.handle));
        Ok(ok(&self.bounded(said).await?))
    }

    /// The rules of a job, or of the only one.
    fn tested(&self, job: Option<Job>) -> Result<Tested, Instead> {
        let all = self.node.jobs.all();
        let in_force = match &job {
            Some(job) => self.node.jobs.get(job.id),
            None if all.len() == 1 => all.into_iter().next(),
            None => return Err(answers::wrong("missing field job", "there are several jobs: name one")),
        };
        let none = || problem(StatusCode::NOT_FOUND, "no such job", "its rules are not known here yet");
        let in_force = in_force.ok_or_else(none)?;
        Ok(Tested::of_job(in_force, &job.map(|job| job.scope.seeds).unwrap_or_default()))
    }

    /// `GET jobs/NAME`: a job with its progress, the fate of its seeds, and its rules with their counts.
    pub async fn job_whole(&self, name: &str, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let said = self.node.cluster.said_of(name).await?;
        let job = &said.record.job;
        let in_force = self.node.jobs.get(job.id);
        let own = async |shared: &Shared| {
            anyhow::Ok(JobPart::look(&shared.handle, (job.id, &job.scope.seeds), in_force.as_deref()).await?)
        };
        let mut part = match self.node.known.session() {
            Some(shared) => self.bounded(own(&shared)).await?,
            None => JobPart::default(),
        };
        if Api::is_part(asked) {
            return Ok(ok(&part));
        }
        let others = self.parts::<JobPart>(&asked.target, PART_MAX).await;
        let partial = others.has_mute || !others.silent.is_empty();
        others.parts.into_iter().for_each(|(_, other)| part.add(other));
        let JobPart { ended_as, begun, seeds, rules } = part;
        let seeds_total = said.record.seeds();
        Ok(ok(&JobWhole { said, seeds_total, ended_as, partial, begun, seeds, rules }))
    }
}

/// The state of a cluster: that of its busiest node.
fn state_of(rows: &[NodeRow]) -> String {
    let states = ["crawling", "stopping", "ready"];
    let busiest = states.into_iter().find(|state| rows.iter().any(|row| row.state == *state));
    busiest.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_crawls_while_one_node_does() {
        let row = |state: &str| NodeRow { state: state.into(), ..NodeRow::default() };
        assert_eq!(state_of(&[row("ready"), row("crawling"), row("unknown")]), "crawling");
        assert_eq!(state_of(&[row("ready"), row("unknown")]), "ready");
        assert_eq!(state_of(&[row("unknown")]), "unknown");
        assert_eq!(state_of(&[]), "unknown");
    }
}
