//! JSON types of the cluster API, for requests of commands and answers of nodes.
//!
//! Invariants: a request with an unknown field is refused, so that typing errors are noticed; an answer may have more
//! fields than a command knows.

use std::time::Duration;

use nephila_core::job::{Job, JobId, Kind, Schedule, State};
use nephila_core::state::totals::Work;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jobs::JobRecord;
use nephila_api::views::NodeState;
use nephila_api::{StatsView, shapes};

/// A job in a list.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct JobView {
    /// Number of the job.
    #[schemars(with = "u32")]
    pub id: JobId,
    /// Unique name of the job.
    pub name: String,
    /// Whether the job runs, is paused or is stopped.
    #[schemars(with = "shapes::State")]
    pub state: State,
    pub(crate) priority: u8,
    /// Wanted URLs around each seed: `page`, `prefix`, `host`, `domain` or `any`.
    #[schemars(with = "shapes::Kind")]
    pub kind: Kind,
    /// Number of seeds.
    pub seeds: u64,
    /// Progress of the job.
    #[serde(default)]
    pub progress: Progress,
}

/// Progress of a job.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Progress {
    /// Number of URLs still to be requested.
    pub left: u64,
    /// Number of pages fetched.
    pub pages: u64,
    /// Number of bytes received.
    pub bytes: u64,
    /// Completion time: no node had any URL left, and none was added since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complete: Option<String>,
}

impl Progress {
    /// Takes the counts of a job, without a completion time.
    pub fn of(work: Work) -> Progress {
        let Work { left, pages, bytes, .. } = work;
        Progress { left, pages, bytes, complete: None }
    }
}

/// A job with its progress.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct JobSaid {
    /// Stored record of the job.
    #[serde(flatten)]
    pub record: JobRecord,
    /// Counts of pages, bytes and URLs left, and the completion time.
    #[serde(default)]
    pub progress: Progress,
}

impl JobView {
    /// Combines the record of a job with its progress.
    pub fn of(record: &JobRecord, progress: Progress) -> JobView {
        let job = &record.job;
        JobView {
            id: job.id,
            name: job.name.clone(),
            state: job.state,
            priority: job.priority,
            kind: job.scope.kind,
            seeds: record.seeds(),
            progress,
        }
    }
}

/// A created job.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Created {
    /// Number that the cluster assigned to the job.
    #[schemars(with = "u32")]
    pub id: JobId,
    /// Unique name of the job.
    pub name: String,
    /// Number of seeds sent.
    pub seeds: u64,
}

/// Changes of a job; absent fields stay unchanged.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobChange {
    /// New state: running, paused or stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shapes::State>")]
    pub state: Option<State>,
    /// New priority among jobs: 0 before 9.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shapes::Priority>")]
    pub priority: Option<u8>,
    /// Recrawl schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shapes::Schedule>")]
    pub schedule: Option<Schedule>,
    /// Changes of the scope.
    pub scope: ScopeChange,
    /// Changes of the limits.
    pub limits: LimitsChange,
}

/// Changes of a scope.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScopeChange {
    /// New kind of scope: `page`, `prefix`, `host`, `domain` or `any`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shapes::Kind>")]
    pub kind: Option<Kind>,
    /// Replaces the previous patterns.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<shapes::Pattern>>")]
    pub include: Option<Vec<String>>,
    /// Replaces the previous patterns.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Vec<shapes::Pattern>>")]
    pub exclude: Option<Vec<String>>,
    /// Patterns to append to `include`; known patterns are skipped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<shapes::Pattern>")]
    pub include_add: Vec<String>,
    /// Patterns to remove from `include`; unknown patterns are ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include_remove: Vec<String>,
    /// Patterns to append to `exclude`; known patterns are skipped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<shapes::Pattern>")]
    pub exclude_add: Vec<String>,
    /// Patterns to remove from `exclude`; unknown patterns are ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude_remove: Vec<String>,
    /// New maximum number of links in a row that are followed out of scope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_hops: Option<u8>,
    /// New maximum link depth from a seed. 0: the seeds alone; 255: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth_max: Option<u8>,
}

/// Changes of the limits.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsChange {
    /// New maximum number of pages fetched by the whole job; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_max: Option<u64>,
    /// New maximum number of bytes received by the whole job; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u64>,
    /// New maximum running time of the job, without pauses, such as `2h`; 0 for no limit.
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<shapes::Span>")]
    pub time_max: Option<Duration>,
    /// New maximum number of pages fetched from one host; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_per_host_max: Option<u64>,
    /// New maximum number of pages fetched from one registrable domain; 0 for no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_per_domain_max: Option<u64>,
}

impl JobChange {
    /// A change of the state alone.
    pub fn state(state: State) -> JobChange {
        JobChange { state: Some(state), ..JobChange::default() }
    }

    /// Applies the changes to a job.
    pub fn apply(&self, job: &mut Job) {
        let JobChange { state, priority, schedule, scope, limits } = self;
        job.state = state.unwrap_or(job.state);
        job.priority = priority.unwrap_or(job.priority);
        job.schedule = schedule.unwrap_or(job.schedule);
        job.scope.kind = scope.kind.unwrap_or(job.scope.kind);
        job.scope.extra_hops = scope.extra_hops.unwrap_or(job.scope.extra_hops);
        job.scope.depth_max = scope.depth_max.unwrap_or(job.scope.depth_max);
        for (patterns, instead, add, remove) in [
            (&mut job.scope.include, &scope.include, &scope.include_add, &scope.include_remove),
            (&mut job.scope.exclude, &scope.exclude, &scope.exclude_add, &scope.exclude_remove),
        ] {
            if let Some(instead) = instead {
                patterns.clone_from(instead);
            }
            patterns.retain(|pattern| !remove.contains(pattern));
            for pattern in add {
                if !patterns.contains(pattern) {
                    patterns.push(pattern.clone());
                }
            }
        }
        let of = &mut job.limits;
        of.pages_max = limits.pages_max.unwrap_or(of.pages_max);
        of.bytes_max = limits.bytes_max.unwrap_or(of.bytes_max);
        of.time_max = limits.time_max.unwrap_or(of.time_max);
        of.pages_per_host_max = limits.pages_per_host_max.unwrap_or(of.pages_per_host_max);
        of.pages_per_domain_max = limits.pages_per_domain_max.unwrap_or(of.pages_per_domain_max);
    }
}

/// A cluster as a whole.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ClusterView {
    /// Number of partitions of the cluster.
    pub partitions: u32,
    /// Partitions that no live node owns.
    pub without_owner: u32,
    /// Live nodes of the cluster.
    pub nodes: Vec<NodeView>,
    /// Active faults, in sentences.
    #[serde(default)]
    pub alarms: Vec<String>,
}

/// A live node.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct NodeView {
    /// Name of the node, unique in the cluster.
    pub name: String,
    /// Address of the API; empty without one.
    #[serde(default)]
    pub address: String,
    /// Whether the node hands over its partitions in order to leave.
    pub draining: bool,
    /// Number of partitions that the node owns.
    pub partitions: u32,
    /// State of the node.
    #[serde(default)]
    pub state: NodeState,
}

/// A live node, with its own report.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct NodeSaid {
    /// State of the node, as the cluster records the node.
    #[serde(flatten)]
    pub node: NodeView,
    /// Active faults of the node, in sentences.
    #[serde(default)]
    pub alarms: Vec<String>,
    /// Statistics of the worker, if reported.
    #[serde(default)]
    pub stats: Option<StatsView>,
}

/// A partition.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct PartitionView {
    /// Number of the partition, from 0.
    pub partition: u32,
    /// The owner, if live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Revision of the owner record: grows with every change of ownership, and with writes of other records.
    pub epoch: u64,
}

/// A domain that an operator assigned to a node.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct PinView {
    /// Registrable domain that an operator assigned.
    pub domain: String,
    /// The assigned node.
    pub node: String,
    /// The partition of the domain, which moves with all its other domains.
    pub partition: u32,
    /// The current owner of the partition, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// A domain whose hosts are divided over the partitions.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct SpreadView {
    /// The registrable domain.
    pub domain: String,
    /// Its home: the partition of the hosts that stay.
    pub partition: u32,
    /// Number of hosts that stay; none until the home has decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staying: Option<u64>,
    /// Whether the home has refused, because it knows too many hosts of the domain.
    #[serde(default)]
    pub refused: bool,
}

/// A domain, and the node that crawls the domain.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct DomainView {
    /// Registrable domain that the node crawls.
    pub domain: String,
    /// The node that crawls the domain.
    pub node: String,
    /// The partition of the domain.
    pub partition: u32,
    /// Number of hosts.
    pub hosts: u64,
    /// Number of requested pages.
    pub pages: u64,
    /// Number of URLs still to be requested.
    pub left: u64,
}

impl DomainView {
    /// Adds further hosts of the domain.
    pub fn plus(&mut self, other: &DomainView) {
        self.hosts += other.hosts;
        self.pages += other.pages;
        self.left += other.left;
    }
}

/// A page of the map of domains.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
pub struct MapView {
    /// The domains; possibly empty although more pages follow.
    pub domains: Vec<DomainView>,
    /// Cursor of the next page; none after the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nephila_core::recrawl;
    use serde_json::{Map, Value, json};

    use super::*;
    use nephila_engine::crawl::adding::AddLine;
    use nephila_engine::settings::Settings;

    /// A job with a seed and an `exclude`.
    fn job() -> Job {
        let mut job = Job::new(JobId(3), "press");
        job.scope.seeds = vec!["http://a.test/docs/".into()];
        job.scope.exclude = vec!["/no".into()];
        job
    }

    #[test]
    fn what_is_not_named_stays_as_it_was() {
        let mut changed = job();
        JobChange::default().apply(&mut changed);
        assert_eq!(changed, job());
        let said = r#"{"state":"paused","schedule":{"every":"12h"},"scope":{"exclude_add":["/x","/no"],"depth_max":3},"limits":{"time_max":"2h"}}"#;
        let change: JobChange = serde_json::from_str(said).unwrap();
        change.apply(&mut changed);
        assert_eq!(changed.scope.exclude, ["/no", "/x"]);
        assert_eq!((changed.state, changed.scope.depth_max), (State::Paused, 3));
        assert_eq!(changed.limits.time_max, Duration::from_secs(7_200));
        assert_eq!(changed.schedule, Schedule::Every(Duration::from_secs(43_200)));
        assert_eq!(changed.scope.seeds, job().scope.seeds);
        let back: JobChange = serde_json::from_str(&serde_json::to_string(&change).unwrap()).unwrap();
        assert_eq!(back, change, "it reaches a node as it was meant");
        let remove = JobChange {
            scope: ScopeChange { exclude_remove: vec!["/no".into()], ..Default::default() },
            ..Default::default()
        };
        remove.apply(&mut changed);
        assert_eq!(changed.scope.exclude, ["/x"]);
        assert!(serde_json::from_str::<JobChange>(r#"{"sate":"paused"}"#).is_err(), "a slip is noticed");
    }

    /// The names of all fields, at any depth.
    fn names(value: &Value) -> BTreeSet<String> {
        let below = |fields: &Map<String, Value>| -> BTreeSet<String> {
            fields.keys().cloned().chain(fields.values().flat_map(names)).collect()
        };
        value.as_object().map(below).unwrap_or_default()
    }

    /// A change with every field.
    fn whole_change() -> JobChange {
        let patterns = || vec!["/x".to_owned()];
        JobChange {
            state: Some(State::Running),
            priority: Some(1),
            schedule: Some(Schedule::Adaptive(recrawl::Settings::default())),
            scope: ScopeChange {
                kind: Some(Kind::Any),
                include: Some(patterns()),
                exclude: Some(patterns()),
                include_add: patterns(),
                include_remove: patterns(),
                exclude_add: patterns(),
                exclude_remove: patterns(),
                extra_hops: Some(1),
                depth_max: Some(1),
            },
            limits: LimitsChange {
                pages_max: Some(1),
                bytes_max: Some(1),
                time_max: Some(Duration::from_secs(1)),
                pages_per_host_max: Some(1),
                pages_per_domain_max: Some(1),
            },
        }
    }

    /// All permitted fields of a job, its schedule, scope and limits, and of a URL. Before adding a name, consider the
    /// abuse by a holder of a token.
    const SAYABLE: &str = "id name state priority schedule scope limits \
        adaptive policy interval interval_min interval_max host_visits_per_day \
        kind seeds include exclude include_add include_remove exclude_add exclude_remove \
        extra_hops depth_max \
        pages_max bytes_max time_max pages_per_host_max pages_per_domain_max \
        url job hits feed sitemap again";

    #[test]
    fn ssr_15_no_store_no_folder_and_no_webhook_is_set_over_the_api() {
        let line = AddLine {
            url: "http://a.test/".into(),
            job: Some("press".into()),
            priority: Some(1),
            hits: Some(1),
            feed: true,
            sitemap: true,
            again: true,
        };
        let full = Job { schedule: Schedule::Adaptive(recrawl::Settings::default()), ..job() };
        let sayable: BTreeSet<String> = SAYABLE.split_whitespace().map(str::to_owned).collect();
        let said = [json!(whole_change()), json!(full), json!(line)];
        let all: BTreeSet<String> = said.iter().flat_map(names).collect();
        assert_eq!(all, sayable, "somebody with a token can say something else than before");

        // What the settings know is refused, by section and by name.
        let settings = json!(Settings::default());
        let sections: Vec<(&String, &Value)> = settings.as_object().expect("sections").iter().collect();
        let keys = sections.iter().flat_map(|(_, section)| section.as_object().into_iter().flatten());
        let mut refused = 0;
        for (name, value) in sections.iter().copied().chain(keys) {
            // A name that is sayable means something else there.
            if sayable.contains(name) {
                continue;
            }
            let with = |mut said: Value| {
                said[name.as_str()] = value.clone();
                said
            };
            assert!(serde_json::from_value::<JobChange>(with(json!({}))).is_err(), "{name}");
            assert!(serde_json::from_value::<Job>(with(json!(job()))).is_err(), "{name}");
            assert!(serde_json::from_value::<AddLine>(with(json!(line))).is_err(), "{name}");
            refused += 1;
        }
        assert!(refused > 100, "{refused} names of settings were tried");
    }
}
