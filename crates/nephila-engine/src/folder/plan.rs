//! The plan of a crawl: its job, and how far earlier runs came.

use nephila_core::budget;
use nephila_core::job::{Job, Kind, Schedule};
use serde::{Deserialize, Serialize};

use super::Judged;
use crate::settings::Settings;

/// The job, with the progress that persists between two runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The job.
    pub job: Job,
    /// Redirect targets of seeds, which extend the scope.
    #[serde(default)]
    pub moved: Vec<String>,
    /// Number of seeds offered when the list was last read to its end.
    #[serde(default)]
    pub seeds_offered: u64,
    /// Total running time of the crawl in milliseconds.
    #[serde(default)]
    pub ran_ms: u64,
    /// The rules by which the links in the archive were judged; none if there is no archive yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judged>,
    /// The schedule by which all pages of the archive have their next visit; none if pages are not visited again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visits: Option<Schedule>,
}

impl Plan {
    /// The plan of a crawl that has not begun.
    pub fn of(job: Job) -> Plan {
        Plan { job, moved: Vec::new(), seeds_offered: 0, ran_ms: 0, judged: None, visits: None }
    }

    /// Completes the plan and the settings by each other: when pages are requested again, and how much of a site is
    /// wanted.
    pub fn settle(&mut self, settings: &mut Settings) {
        self.job.schedule = match settings.crawl.again_every {
            interval if interval.is_zero() => Schedule::of(&settings.recrawl),
            interval => Schedule::Every(interval),
        };
        if self.job.scope.kind != Kind::Any && settings.budget == budget::Settings::default() {
            // Named sites are wanted as a whole; budgets are for sites that a crawl discovers.
            settings.budget.domain_urls = u64::MAX / 2;
        }
    }
}
