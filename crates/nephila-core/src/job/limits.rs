//! The limits of a job: pages, bytes, time, for the whole job and for one host or domain.
//!
//! A limit of the whole job ends the job, with URLs still queued; a limit of a host or domain only closes that one. 0
//! means no limit. The depth of a job is part of its scope ([`super::Scope::depth_max`]), since depth belongs to a URL.
//!
//! Invariant: a limit is reached when the count equals the limit, so no page beyond is begun.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The limits of a job. 0 is no limit.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum number of pages fetched by the whole job.
    pub pages_max: u64,
    /// Maximum number of bytes received by the whole job.
    pub bytes_max: u64,
    /// Maximum running time of the job, without pauses.
    #[serde(with = "humantime_serde")]
    pub time_max: Duration,
    /// Maximum number of pages fetched from one host.
    pub pages_per_host_max: u64,
    /// Maximum number of pages fetched from one registrable domain.
    pub pages_per_domain_max: u64,
}

/// The progress of a job. A count that is unknown to the caller stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages fetched by the whole job.
    pub pages: u64,
    /// Bytes received by the whole job.
    pub bytes: u64,
    /// Time for which the job has run.
    pub time: Duration,
    /// Pages fetched from the host in question.
    pub host_pages: u64,
    /// Pages fetched from the domain in question.
    pub domain_pages: u64,
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// Pages of the job.
    Pages,
    /// Bytes of the job.
    Bytes,
    /// Time of the job.
    Time,
    /// Pages of the host.
    HostPages,
    /// Pages of the domain.
    DomainPages,
}

impl Limit {
    /// All limits.
    pub const ALL: &'static [Limit] =
        &[Limit::Pages, Limit::Bytes, Limit::Time, Limit::HostPages, Limit::DomainPages];

    /// The name under which the limit is recorded: the name of its setting.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Pages => "pages_max",
            Limit::Bytes => "bytes_max",
            Limit::Time => "time_max",
            Limit::HostPages => "pages_per_host_max",
            Limit::DomainPages => "pages_per_domain_max",
        }
    }

    /// Whether reaching the limit ends the whole job, and not only the host or domain.
    pub const fn ends_job(self) -> bool {
        matches!(self, Limit::Pages | Limit::Bytes | Limit::Time)
    }
}

impl Limits {
    /// The first limit that is reached; limits of the whole job come first.
    pub fn reached(&self, counts: &Counts) -> Option<Limit> {
        let at = |count: u64, max: u64| max > 0 && count >= max;
        Limit::ALL.iter().copied().find(|limit| match limit {
            Limit::Pages => at(counts.pages, self.pages_max),
            Limit::Bytes => at(counts.bytes, self.bytes_max),
            Limit::Time => !self.time_max.is_zero() && counts.time >= self.time_max,
            Limit::HostPages => at(counts.host_pages, self.pages_per_host_max),
            Limit::DomainPages => at(counts.domain_pages, self.pages_per_domain_max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reached_at_its_figure() {
        let limits = Limits { pages_max: 10, pages_per_host_max: 3, ..Limits::default() };
        let at = |pages, host_pages| limits.reached(&Counts { pages, host_pages, ..Counts::default() });
        assert_eq!(at(9, 2), None);
        assert_eq!(at(9, 3), Some(Limit::HostPages));
        assert_eq!(at(10, 3), Some(Limit::Pages), "what ends the job comes first");
    }

    #[test]
    fn each_limit_is_looked_at() {
        let hour = Duration::from_secs(3600);
        let all = Counts { pages: 5, bytes: 5, time: hour, host_pages: 5, domain_pages: 5 };
        for (limits, want) in [
            (Limits { pages_max: 5, ..Limits::default() }, Limit::Pages),
            (Limits { bytes_max: 4, ..Limits::default() }, Limit::Bytes),
            (Limits { time_max: hour, ..Limits::default() }, Limit::Time),
            (Limits { pages_per_host_max: 1, ..Limits::default() }, Limit::HostPages),
            (Limits { pages_per_domain_max: 5, ..Limits::default() }, Limit::DomainPages),
        ] {
            assert_eq!(limits.reached(&all), Some(want));
            assert_eq!(limits.reached(&Counts::default()), None, "{}", want.name());
        }
    }

    #[test]
    fn zero_is_no_limit() {
        let time = Duration::MAX;
        let most =
            Counts { pages: u64::MAX, bytes: u64::MAX, time, host_pages: u64::MAX, domain_pages: u64::MAX };
        assert_eq!(Limits::default().reached(&most), None);
    }

    #[test]
    fn only_limits_of_the_whole_job_end_it() {
        let ends: Vec<_> = Limit::ALL.iter().filter(|limit| limit.ends_job()).collect();
        assert_eq!(ends, [&Limit::Pages, &Limit::Bytes, &Limit::Time]);
    }
}
