//! Further jobs of a folder, which were made over the API while the folder was served: `jobs.json`.
//!
//! Invariant: numbers of jobs are used once; the first job, number 1, is in `job.json` and never here.

use std::fs;
use std::io;

use anyhow::Context;
use nephila_core::job::Job;
use serde::{Deserialize, Serialize};

use super::Folder;

/// Name of the file.
pub(super) const NAME: &str = "jobs.json";

/// A further job.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct MoreJob {
    /// The job.
    pub job: Job,
    /// Redirect targets of seeds, which extend the scope.
    #[serde(default)]
    pub moved: Vec<String>,
    /// Name of the limit that ended the job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// When the job was stopped, if nothing was left of it then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete: Option<String>,
    /// Whether the archive is still to be read for links of pages that other jobs fetched before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_archive: bool,
    /// How often a reading was asked for in this run: one that began before the last time does not count.
    #[serde(skip)]
    pub readings: u32,
}

impl MoreJob {
    /// A job that has just begun.
    pub fn of(job: Job) -> MoreJob {
        MoreJob { job, moved: Vec::new(), limit: None, complete: None, reads_archive: false, readings: 0 }
    }

    /// Asks for another reading of the archive.
    pub fn read_again(&mut self) {
        self.reads_archive = true;
        self.readings = self.readings.wrapping_add(1);
    }
}

/// All further jobs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct MoreJobs {
    /// The jobs, the oldest first.
    pub jobs: Vec<MoreJob>,
    /// The greatest number that any job had: jobs that are gone count.
    pub last: u32,
}

impl Folder {
    /// The further jobs; none for a folder without any.
    pub fn more_jobs(&self) -> anyhow::Result<MoreJobs> {
        let path = self.dir().join(NAME);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| path.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(MoreJobs::default()),
            Err(error) => Err(error).with_context(|| path.display().to_string()),
        }
    }

    /// Writes the further jobs.
    pub fn set_more_jobs(&self, jobs: &MoreJobs) -> anyhow::Result<()> {
        let bytes = serde_json::to_vec_pretty(jobs).context("the jobs as JSON")?;
        self.write_paper(NAME, &bytes)
    }
}
