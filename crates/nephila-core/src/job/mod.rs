//! A job: a named scope, its limits, its priority and its schedule.
//!
//! Several jobs share a node or a cluster. Hosts, slots and robots.txt are shared between jobs and independent of them,
//! so two jobs together are exactly as polite as one.
//!
//! Invariants: a job that passed [`Job::check`] has a name that can stand in a path and a scope that resolves;
//! [`Job::encode`] is deterministic.

mod hops;
mod limits;
mod pattern;
mod scope;
mod via;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::codec::Damaged;
use crate::recrawl;

pub use hops::Hops;
pub use limits::{Counts, Limit, Limits};
pub use pattern::{PATTERN_BYTES_MAX, Pattern};
pub use scope::{
    BadSeed, Decision, FoundBy, How, Kind, Listed, PATTERNS_MAX, Rule, Rules, SEEDS_MAX, Scope, ScopeError,
    ScopeVerdict,
};
pub use via::{PAGE_BYTES_MAX, Trail, Via};

/// Maximum length of the name of a job in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The lowest priority: 0 goes first.
pub const PRIORITY_MAX: u8 = 9;

/// The priority of a job that names none.
pub const PRIORITY_USUAL: u8 = 5;

/// The number of a job, assigned once and never reused.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct JobId(pub u32);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A named scope with limits.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The number.
    pub id: JobId,
    /// The name. The name stands in paths, metrics and replay addresses.
    pub name: String,
    /// The URLs of the job.
    #[serde(default)]
    pub scope: Scope,
    /// The limits of the job.
    #[serde(default)]
    pub limits: Limits,
    /// The priority among jobs: 0 before 9.
    #[serde(default = "priority_default")]
    pub priority: u8,
    /// When a page is fetched again (recrawl).
    #[serde(default)]
    pub schedule: Schedule,
    /// Whether the job runs.
    #[serde(default)]
    pub state: State,
}

/// When a page that was fetched is fetched again (recrawl).
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// Never.
    #[default]
    Once,
    /// This long after the last fetch.
    Every(#[serde(with = "humantime_serde")] Duration),
    /// By how often the page changes.
    Adaptive(recrawl::Settings),
}

impl Schedule {
    /// The schedule by the settings of a crawl.
    pub fn of(settings: &recrawl::Settings) -> Schedule {
        match settings.policy {
            recrawl::Policy::Once => Schedule::Once,
            recrawl::Policy::Fixed => Schedule::Every(settings.interval),
            recrawl::Policy::Adaptive => Schedule::Adaptive(*settings),
        }
    }

    /// The wait after a fetch; none if the page is not fetched again.
    pub fn interval(self) -> Option<Duration> {
        match self {
            Schedule::Once => None,
            Schedule::Every(interval) => Some(interval),
            Schedule::Adaptive(settings) => Some(settings.interval),
        }
    }
}

/// Whether a job runs.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// URLs of the job get tickets.
    #[default]
    Running,
    /// URLs of the job wait; discoveries are still accepted.
    Paused,
    /// URLs of the job stay queued, and discoveries are no longer accepted.
    Stopped,
}

impl State {
    /// The state as one word.
    pub const fn name(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Paused => "paused",
            State::Stopped => "stopped",
        }
    }
}

/// Why a job is invalid. The operator has to change the job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JobError {
    /// The name is empty, too long, or has characters that no path should have.
    #[error("a job's name has 1 to {NAME_BYTES_MAX} letters, digits, - _ and . and begins with no .")]
    Name,
    /// The priority is out of range.
    #[error("a priority is a number from 0 to {PRIORITY_MAX}")]
    Priority,
    /// A schedule without a pause would fetch the same page for ever.
    #[error("a page cannot be asked for again after no time")]
    Interval,
    /// The scope does not resolve.
    #[error("scope: {0}")]
    Scope(#[from] ScopeError),
}

impl Job {
    /// A job of this name with the default scope, without limits.
    pub fn new(id: JobId, name: impl Into<String>) -> Self {
        Job {
            id,
            name: name.into(),
            scope: Scope::default(),
            limits: Limits::default(),
            priority: PRIORITY_USUAL,
            schedule: Schedule::default(),
            state: State::default(),
        }
    }

    /// Checks the job. Seeds that are no URLs do not make a job invalid: see [`Rules::bad_seeds`].
    pub fn check(&self) -> Result<(), JobError> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let named = (1..=NAME_BYTES_MAX).contains(&self.name.len())
            && self.name.bytes().all(plain)
            && !self.name.starts_with('.');
        if !named {
            return Err(JobError::Name);
        }
        if self.priority > PRIORITY_MAX {
            return Err(JobError::Priority);
        }
        if self.schedule.interval().is_some_and(|interval| interval.is_zero()) {
            return Err(JobError::Interval);
        }
        Ok(self.scope.check()?)
    }

    /// Encodes the job: JSON, with the fields in their order.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a job has text keys and finite numbers only")
    }

    /// Decodes a job.
    pub fn decode(bytes: &[u8]) -> Result<Job, Damaged> {
        serde_json::from_slice(bytes).map_err(|_| Damaged("job"))
    }
}

fn priority_default() -> u8 {
    PRIORITY_USUAL
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        let mut job = Job::new(JobId(7), "press");
        job.scope.seeds.push("https://news.example/".into());
        job.scope.exclude.push("/cart".into());
        job.limits.time_max = Duration::from_secs(3600);
        job.schedule = Schedule::Every(Duration::from_secs(86_400));
        job
    }

    // The encoding is durable: a job of today is read by a node of tomorrow.
    #[test]
    fn golden_job() {
        let golden = r#"{"id":7,"name":"press","scope":{"kind":"prefix","seeds":["https://news.example/"],"#
            .to_owned()
            + r#""include":[],"exclude":["/cart"],"extra_hops":0,"depth_max":20},"limits":{"pages_max":0,"#
            + r#""bytes_max":0,"time_max":"1h","pages_per_host_max":0,"pages_per_domain_max":0},"priority":5,"#
            + r#""schedule":{"every":"1day"},"state":"running"}"#;
        assert_eq!(String::from_utf8(job().encode()).unwrap(), golden);
        assert_eq!(Job::decode(golden.as_bytes()), Ok(job()));
    }

    #[test]
    fn what_is_not_said_has_a_default_and_what_is_unknown_is_refused() {
        let said = Job::decode(br#"{"id":1,"name":"a"}"#).unwrap();
        assert_eq!(said, Job::new(JobId(1), "a"));
        assert_eq!(Job::decode(br#"{"id":1,"name":"a","prio":3}"#), Err(Damaged("job")));
        assert_eq!(Job::decode(b"{"), Err(Damaged("job")));
    }

    #[test]
    fn names_that_could_leave_a_folder_are_refused() {
        for name in
            ["", ".", "..", ".x", "a/b", "a\\b", "a b", "\u{e4}", "a\n", &"a".repeat(NAME_BYTES_MAX + 1)]
        {
            assert_eq!(Job { name: (*name).into(), ..job() }.check(), Err(JobError::Name), "{name:?}");
        }
        for name in ["press", "Press-2026_11.v2", &"a".repeat(NAME_BYTES_MAX)] {
            assert_eq!(Job { name: (*name).into(), ..job() }.check(), Ok(()), "{name:?}");
        }
    }

    #[test]
    fn a_job_that_makes_no_sense_is_refused() {
        assert_eq!(Job { priority: 10, ..job() }.check(), Err(JobError::Priority));
        assert_eq!(
            Job { schedule: Schedule::Every(Duration::ZERO), ..job() }.check(),
            Err(JobError::Interval)
        );
        let mut empty = job();
        empty.scope.exclude.push("^$".into());
        assert_eq!(empty.check(), Err(JobError::Scope(ScopeError::PatternEmpty)));
    }
}
