//! Requests about the cluster and its jobs. They go to the servers: every node gives the same answer.
//!
//! Invariant: while the servers are unreachable, a node answers with its last view, and says so.

use std::time::Duration;

use http::StatusCode;
use nephila_core::job::{Job, JobId, State};
use serde::de::DeserializeOwned;

use super::super::Node;
use super::super::admin::{self, Adding, Error};
use super::super::views::{ClusterView, JobChange, NodeSaid};
use super::{Api, FORWARDED, HttpQuestion, Instead, SelfView};
use nephila_api::views::Changed;
use nephila_api::{HttpAnswer, Question, ok, problem, stops};
use nephila_engine::clock::Clock;
use nephila_engine::stop_list::{Change, Written};

/// Timeout for another node's report.
pub(super) const NODE_MAX: Duration = Duration::from_secs(5);
/// Maximum size of a report in bytes.
pub(super) const NODE_BYTES_MAX: usize = 1 << 20;

impl Api {
    /// The current state of the cluster, or the last view if the servers do not answer.
    pub async fn counted(&self) -> Result<ClusterView, Instead> {
        let partitions = self.node.cluster.partitions;
        let error = match self.node.cluster.counted().await {
            Ok(counted) => return Ok(counted),
            Err(error) => error,
        };
        let Some((view, seen)) = self.node.known.view() else { return Err(error.into()) };
        let mut counted = admin::count(&view, partitions);
        let alarm = format!(
            "{error}; nothing is fetched once leases have run out; this is what node {} saw {} s ago: bring the \
             servers back",
            self.node.name,
            seen.elapsed().as_secs()
        );
        counted.alarms.insert(0, alarm);
        Ok(counted)
    }

    /// `GET cluster`: the cluster, with the alarms of each node.
    pub async fn cluster(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let mut counted = self.counted().await?;
        if asked.field(FORWARDED).is_none() {
            for (name, said) in self.all().await {
                match said {
                    Ok(said) => {
                        let alarms = said.alarms.iter().map(|alarm| format!("node {name}: {alarm}"));
                        counted.alarms.extend(alarms);
                    }
                    Err(why) => counted.alarms.push(why),
                }
            }
        }
        Ok(ok(&counted))
    }

    /// `GET cluster/nodes`: the live nodes, each with its own report.
    pub async fn nodes(&self) -> Result<HttpAnswer, Instead> {
        let counted = self.counted().await?;
        let mut said = self.all().await;
        let nodes = counted.nodes.into_iter().map(|node| {
            let at = said.iter().position(|(name, _)| *name == node.name);
            let (alarms, stats) = match at.map(|at| said.swap_remove(at).1) {
                Some(Ok(said)) => (said.alarms, said.stats),
                Some(Err(why)) => (vec![why], None),
                None => (Vec::new(), None),
            };
            NodeSaid { node, alarms, stats }
        });
        let nodes: Vec<NodeSaid> = nodes.collect();
        Ok(ok(&nodes))
    }

    /// Reports of all live nodes, this one first.
    pub async fn all(&self) -> Vec<(String, Result<SelfView, String>)> {
        let question = Question::get("/api/v1/node", NODE_BYTES_MAX, NODE_MAX).with(FORWARDED, "owner");
        let (own, others) = tokio::join!(self.about_itself(), self.ask_all(&question));
        let mut all = vec![(own.node.clone(), Ok(own))];
        for (other, answer) in others {
            // A node without an API is no fault: the API is optional.
            if other.address.is_empty() {
                continue;
            }
            let said = answer.and_then(|reply| {
                reply.json().map_err(|error| format!("node {} is of another version: {error}", other.name))
            });
            all.push((other.name, said));
        }
        all
    }

    /// `GET cluster/partitions`: all partitions, each with its owner.
    pub async fn partitions(&self) -> Result<HttpAnswer, Instead> {
        let view = self.node.cluster.view().await?;
        Ok(ok(&admin::partitions(&view, self.node.cluster.partitions)))
    }

    /// `POST cluster/drain/NODE`: asks a live node to leave the cluster.
    pub async fn drain(&self, node: &str) -> Result<HttpAnswer, Instead> {
        self.node.cluster.drain(node).await?;
        Ok(ok(&serde_json::json!({"node": node, "draining": true})))
    }

    /// `GET cluster/pins`: the domains that operators assigned to nodes.
    pub async fn pins(&self) -> Result<HttpAnswer, Instead> {
        Ok(ok(&self.node.cluster.pins().await?))
    }

    /// `POST cluster/pins/DOMAIN?to=NODE`.
    pub async fn pin(&self, domain: &str, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let to = asked.parameter("to").ok_or_else(|| Error::Wrong("the parameter to is missing".into()))?;
        Ok(ok(&self.node.cluster.pin(domain, &to).await?))
    }

    /// `DELETE cluster/pins/DOMAIN`: removes the assignment of a domain to a node.
    pub async fn unpin(&self, domain: &str) -> Result<HttpAnswer, Instead> {
        Ok(ok(&self.node.cluster.unpin(domain).await?))
    }

    /// `GET jobs`: all jobs, each with its progress.
    pub async fn jobs(&self) -> Result<HttpAnswer, Instead> {
        Ok(ok(&self.node.cluster.said_of_all().await?))
    }

    /// `POST jobs`: a job as JSON, without an id. With `list=true` the seeds follow as a list: see [`Api::seed`].
    pub async fn create(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let mut said: serde_json::Value = read(asked)?;
        if let Some(fields) = said.as_object_mut() {
            fields.insert("id".to_owned(), 0.into());
        }
        let job: Job = serde_json::from_value(said)
            .map_err(|error| problem(StatusCode::BAD_REQUEST, "invalid job", error.to_string()))?;
        debug_assert_eq!(job.id, JobId(0));
        let listed = asked.parameter("list").is_some_and(|list| list == "true");
        if listed != job.scope.seeds.is_empty() {
            return Err(Error::Wrong("a job begins somewhere: name URLs in scope.seeds, or say list=true and send them to jobs/NAME/seeds".into()).into());
        }
        let created = match listed {
            true => self.node.cluster.begin(job).await?,
            false => self.node.cluster.create(job, &self.node.settings).await?,
        };
        let mut answer = ok(&created);
        *answer.status_mut() = StatusCode::CREATED;
        Ok(answer)
    }

    /// `PATCH jobs/NAME`: changes a job. The body is a [`JobChange`] as JSON.
    pub async fn change(&self, name: &str, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let change: JobChange = read(asked)?;
        Ok(ok(&self.node.cluster.change(name, &change).await?))
    }

    /// `POST jobs/NAME/VERB`: sets the state of a job. The verb is `pause`, `resume` or `stop`.
    pub async fn set(&self, name: &str, verb: &str) -> Result<HttpAnswer, Instead> {
        let state = match verb {
            "pause" => State::Paused,
            "stop" => State::Stopped,
            _ => State::Running,
        };
        Ok(ok(&self.node.cluster.change(name, &JobChange::state(state)).await?))
    }

    /// Steps for a job with many seeds. `POST jobs/NAME/seeds`: some seeds, one per line; `listed`: the list is
    /// complete; `seeded`: all seeds were sent, with `POST urls?job=NAME&seed=true`.
    pub async fn seed(&self, name: &str, step: &str, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let Node { cluster, settings, .. } = &*self.node;
        match step {
            "seeds" => {
                let text = String::from_utf8_lossy(&asked.body);
                let now = Clock::new().now().wall;
                return Ok(ok(&cluster.list(name, text.lines(), settings, now).await?));
            }
            "listed" => cluster.listed(name).await?,
            _ => cluster.seeded(name).await?,
        }
        Ok(ok(&Changed { changed: 1 }))
    }

    /// `POST host?url=&delay_ms=`: sets the crawl delay of a host.
    pub async fn set_host(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let (url, delay_ms) = stops::delay_wanted(asked)?;
        self.node.cluster.set_delay(&url, delay_ms).await?;
        Ok(ok(&Changed { changed: 1 }))
    }

    /// `GET stops`.
    pub async fn stops(&self) -> Result<HttpAnswer, Instead> {
        Ok(ok(&Written::of(&self.node.cluster.stop_list().await?)))
    }

    /// `POST stops`.
    pub async fn stop(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let change = stops::wanted(asked, Clock::new().now().wall)?;
        let changed = self.node.cluster.change_stop_list(&change).await?;
        // This node need not wait for its next look.
        _ = super::super::stop_list::refresh(&self.node.cluster.leases, &self.node.stop_list).await;
        Ok(ok(&Changed { changed }))
    }

    /// `DELETE stops/TARGET`.
    pub async fn unstop(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let target = stops::target(asked)?;
        let change = Change::Remove(vec![target.clone()]);
        stops::removed(&target, self.node.cluster.change_stop_list(&change).await?)
    }

    /// `POST urls?job=`: URLs, as lines of plain text or JSON.
    pub async fn add(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let as_seeds = asked.parameter("seed").is_some_and(|seed| seed == "true");
        let adding = Adding { job: asked.parameter("job"), as_seeds };
        let text = String::from_utf8_lossy(&asked.body);
        let now = Clock::new().now().wall;
        let added = self.node.cluster.add(&adding, text.lines(), &self.node.settings, now).await?;
        let mut answer = ok(&added);
        *answer.status_mut() = StatusCode::ACCEPTED;
        Ok(answer)
    }

    /// `POST reflog?job=&batch=&part=`: lines of a stream of visited URLs. The lines are cut into parts, numbered from
    /// `part` on; a batch without an id gets one derived from its content.
    pub async fn stream(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let missing = |what| problem(StatusCode::BAD_REQUEST, "missing parameter", what);
        let job = asked.parameter("job").ok_or_else(|| missing("job"))?;
        let batch = asked.parameter("batch");
        let part = asked.parameter("part").and_then(|part| part.parse().ok()).unwrap_or(0);
        let now = Clock::new().now().wall;
        let Node { cluster, settings, .. } = &*self.node;
        let said = cluster.stream(&job, (batch.as_deref(), part), &asked.body, settings, now).await?;
        let mut answer = ok(&said);
        *answer.status_mut() = StatusCode::ACCEPTED;
        Ok(answer)
    }
}

pub(super) fn read<T: DeserializeOwned>(asked: &HttpQuestion) -> Result<T, Instead> {
    Ok(asked.object().map_err(|why| problem(StatusCode::BAD_REQUEST, "invalid body", why))?)
}
