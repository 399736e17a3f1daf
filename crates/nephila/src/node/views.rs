//! JSON types of the cluster API, for requests of commands and answers of nodes.
//!
//! Invariants: a request with an unknown field is refused, so that typing errors are noticed; an answer may have more
//! fields than a command knows.

use std::time::Duration;

use nephila_core::job::{Job, JobId, Kind, Schedule, State};
use nephila_core::state::totals::Work;
use serde::{Deserialize, Serialize};

use super::jobs::JobRecord;
use crate::api::StatsView;
use crate::api::views::NodeState;

/// A job in a list.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct JobView {
    pub(crate) id: JobId,
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) priority: u8,
    pub(crate) kind: Kind,
    /// Number of seeds.
    pub(crate) seeds: u64,
    /// Progress of the job.
    #[serde(default)]
    pub(crate) progress: Progress,
}

/// Progress of a job.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub(crate) struct Progress {
    /// Number of URLs still to be requested.
    pub(crate) left: u64,
    /// Number of pages fetched.
    pub(crate) pages: u64,
    /// Number of bytes received.
    pub(crate) bytes: u64,
    /// Completion time: no node had any URL left, and none was added since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) complete: Option<String>,
}

impl Progress {
    pub(crate) fn of(work: Work) -> Progress {
        let Work { left, pages, bytes, .. } = work;
        Progress { left, pages, bytes, complete: None }
    }
}

/// A job with its progress.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct JobSaid {
    #[serde(flatten)]
    pub(crate) record: JobRecord,
    #[serde(default)]
    pub(crate) progress: Progress,
}

impl JobView {
    pub(crate) fn of(record: &JobRecord, progress: Progress) -> JobView {
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
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Created {
    pub(crate) id: JobId,
    pub(crate) name: String,
    /// Number of seeds sent.
    pub(crate) seeds: u64,
}

/// Changes of a job; absent fields stay unchanged.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JobChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    /// Recrawl schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) schedule: Option<Schedule>,
    pub(crate) scope: ScopeChange,
    pub(crate) limits: LimitsChange,
}

/// Changes of a scope.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ScopeChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<Kind>,
    /// Replaces the previous patterns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) include: Option<Vec<String>>,
    /// Replaces the previous patterns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exclude: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) include_add: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) include_remove: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) exclude_add: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) exclude_remove: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) extra_hops: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) depth_max: Option<u8>,
}

/// Changes of the limits.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitsChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pages_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes_max: Option<u64>,
    #[serde(with = "humantime_serde", skip_serializing_if = "Option::is_none")]
    pub(crate) time_max: Option<Duration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pages_per_host_max: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pages_per_domain_max: Option<u64>,
}

impl JobChange {
    /// A change of the state alone.
    pub(crate) fn state(state: State) -> JobChange {
        JobChange { state: Some(state), ..JobChange::default() }
    }

    /// Applies the changes to a job.
    pub(super) fn apply(&self, job: &mut Job) {
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
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct ClusterView {
    pub(crate) partitions: u32,
    /// Partitions that no live node owns.
    pub(crate) without_owner: u32,
    pub(crate) nodes: Vec<NodeView>,
    /// Active faults, in sentences.
    #[serde(default)]
    pub(crate) alarms: Vec<String>,
}

/// A live node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct NodeView {
    pub(crate) name: String,
    /// Address of the API; empty without one.
    #[serde(default)]
    pub(crate) address: String,
    pub(crate) draining: bool,
    pub(crate) partitions: u32,
    /// State of the node.
    #[serde(default)]
    pub(crate) state: NodeState,
}

/// A live node, with its own report.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct NodeSaid {
    #[serde(flatten)]
    pub(crate) node: NodeView,
    /// Active faults of the node, in sentences.
    #[serde(default)]
    pub(crate) alarms: Vec<String>,
    /// Statistics of the worker, if reported.
    #[serde(default)]
    pub(crate) stats: Option<StatsView>,
}

/// A partition.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct PartitionView {
    pub(crate) partition: u32,
    /// The owner, if live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// Revision of the owner record: grows with every change of ownership, and with writes of other records.
    pub(crate) epoch: u64,
}

/// A domain that an operator assigned to a node.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct PinView {
    pub(crate) domain: String,
    /// The assigned node.
    pub(crate) node: String,
    /// The partition of the domain, which moves with all its other domains.
    pub(crate) partition: u32,
    /// The current owner of the partition, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) owner: Option<String>,
}

/// A domain, and the node that crawls the domain.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct DomainView {
    pub(crate) domain: String,
    /// The node that crawls the domain.
    pub(crate) node: String,
    /// The partition of the domain.
    pub(crate) partition: u32,
    /// Number of hosts.
    pub(crate) hosts: u64,
    /// Number of requested pages.
    pub(crate) pages: u64,
    /// Number of URLs still to be requested.
    pub(crate) left: u64,
}

impl DomainView {
    /// Adds further hosts of the domain.
    pub(crate) fn plus(&mut self, other: &DomainView) {
        self.hosts += other.hosts;
        self.pages += other.pages;
        self.left += other.left;
    }
}

/// A page of the map of domains.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct MapView {
    /// The domains; possibly empty although more pages follow.
    pub(crate) domains: Vec<DomainView>,
    /// Cursor of the next page; none after the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// Result of a change.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Changed {
    /// Number of changed things.
    pub(crate) changed: usize,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use nephila_core::recrawl;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::crawl::adding::AddLine;
    use crate::crawl::adding::tests::job;
    use crate::settings::Settings;

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
        url job hits feed sitemap";

    #[test]
    fn ssr_15_no_store_no_folder_and_no_webhook_is_set_over_the_api() {
        let line = AddLine {
            url: "http://a.test/".into(),
            job: Some("press".into()),
            priority: Some(1),
            hits: Some(1),
            feed: true,
            sitemap: true,
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
