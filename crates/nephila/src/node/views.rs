//! What is said and answered about a cluster, as JSON: by a node to a command, and by a command to a node.
//!
//! What always holds: what a command sends is refused if a part of it is not known, so that a slip is noticed; what a
//! node answers may have more than a command knows.

use std::time::Duration;

use nephila_core::job::{Job, JobId, Kind, State};
use serde::{Deserialize, Serialize};

use crate::api::StatsView;

/// Refused URLs that are named in an answer; the others are counted.
const REFUSALS_MAX: usize = 100;

/// A job in a list.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct JobView {
    pub(crate) id: JobId,
    pub(crate) name: String,
    pub(crate) state: State,
    pub(crate) priority: u8,
    pub(crate) kind: Kind,
    /// How many.
    pub(crate) seeds: usize,
}

impl JobView {
    pub(crate) fn of(job: &Job) -> JobView {
        JobView {
            id: job.id,
            name: job.name.clone(),
            state: job.state,
            priority: job.priority,
            kind: job.scope.kind,
            seeds: job.scope.seeds.len(),
        }
    }
}

/// A job that was begun.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Created {
    pub(crate) id: JobId,
    pub(crate) name: String,
    /// Seeds that were sent.
    pub(crate) seeds: usize,
}

/// What changes of a job; what is not named stays.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct JobChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    pub(crate) scope: ScopeChange,
    pub(crate) limits: LimitsChange,
}

/// What changes of a scope.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ScopeChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<Kind>,
    /// Instead of those before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) include: Option<Vec<String>>,
    /// Instead of those before.
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

/// What changes of the limits.
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
    /// Nothing but the state.
    pub(crate) fn state(state: State) -> JobChange {
        JobChange { state: Some(state), ..JobChange::default() }
    }

    /// Changes a job.
    pub(super) fn apply(&self, job: &mut Job) {
        let JobChange { state, priority, scope, limits } = self;
        job.state = state.unwrap_or(job.state);
        job.priority = priority.unwrap_or(job.priority);
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

/// What became of URLs that were added.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Added {
    /// These stand in the inboxes of their partitions. Those that were known before are not fetched again for that.
    pub(crate) taken: u64,
    pub(crate) refused: u64,
    /// The first of those that were refused.
    #[serde(default)]
    pub(crate) refusals: Vec<Refused>,
}

/// A URL that was refused.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct Refused {
    pub(crate) url: String,
    pub(crate) why: String,
}

impl Added {
    /// One more that is not taken.
    pub(super) fn refuse(&mut self, url: &str, why: impl Into<String>) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(Refused { url: url.to_owned(), why: why.into() });
        }
    }

    /// Both together.
    pub(crate) fn plus(&mut self, other: Added) {
        self.taken += other.taken;
        self.refused += other.refused;
        let room = REFUSALS_MAX.saturating_sub(self.refusals.len());
        self.refusals.extend(other.refusals.into_iter().take(room));
    }
}

/// A cluster as a whole.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct ClusterView {
    pub(crate) partitions: u32,
    /// Partitions that no live node owns.
    pub(crate) without_owner: u32,
    pub(crate) nodes: Vec<NodeView>,
    /// What is wrong, in sentences.
    #[serde(default)]
    pub(crate) alarms: Vec<String>,
}

/// A node that lives.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct NodeView {
    pub(crate) name: String,
    /// Where its API answers; empty if nowhere.
    #[serde(default)]
    pub(crate) address: String,
    pub(crate) draining: bool,
    pub(crate) partitions: u32,
}

/// A node that lives, and what it says of itself.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct NodeSaid {
    #[serde(flatten)]
    pub(crate) node: NodeView,
    /// What is wrong there, in sentences.
    #[serde(default)]
    pub(crate) alarms: Vec<String>,
    /// What its worker did and holds, if it says so.
    #[serde(default)]
    pub(crate) stats: Option<StatsView>,
}

/// A partition.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) struct PartitionView {
    pub(crate) partition: u32,
    /// Its owner, if that lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// How often it has changed hands, and other records were written: it only grows.
    pub(crate) epoch: u64,
}

/// How many things were changed.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Changed {
    /// So many.
    pub(crate) changed: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let said = r#"{"state":"paused","scope":{"exclude_add":["/x","/no"],"depth_max":3},"limits":{"time_max":"2h"}}"#;
        let change: JobChange = serde_json::from_str(said).unwrap();
        change.apply(&mut changed);
        assert_eq!(changed.scope.exclude, ["/no", "/x"]);
        assert_eq!((changed.state, changed.scope.depth_max), (State::Paused, 3));
        assert_eq!(changed.limits.time_max, Duration::from_secs(7_200));
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
}
