//! Further jobs of a served folder: `POST /api/v1/jobs`, and what the other operations of jobs say of them.
//!
//! Invariant: the first job of a folder, its crawl, is never changed here.

use std::sync::Arc;

use http::StatusCode;
use nephila_core::job::{Job, JobId, State};
use nephila_core::state::totals::Totals;
use nephila_engine::crawl::jobs::InForce;
use nephila_engine::crawl::more_jobs::{self, Error};
use nephila_engine::crawl::shared::{JOB, Shared};
use nephila_engine::folder::MoreJob;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Questions;
use super::answers::{Instead, away, wrong};
use super::jobs::{JobDetail, JobPart, JobRow, ProgressSaid};
use super::problem::{HttpAnswer, ok, problem};
use super::question::HttpQuestion;

/// A created job.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Created {
    /// Number of the job.
    #[schemars(with = "u32")]
    pub id: JobId,
    /// Unique name of the job.
    pub name: String,
    /// Number of seeds.
    pub seeds: u64,
}

/// The further jobs in a list.
pub(super) fn rows(shared: &Shared, totals: &Totals) -> Vec<JobRow> {
    let more = shared.more_jobs();
    more.jobs.iter().map(|more| JobRow::of(&more.job, progress(more, totals))).collect()
}

fn progress(more: &MoreJob, totals: &Totals) -> ProgressSaid {
    let said = ProgressSaid::of(totals, more.job.id);
    // The archive may have URLs for it.
    let left = said.left.max(u64::from(more.reads_archive));
    ProgressSaid { left, reads_archive: more.reads_archive, complete: more.complete.clone(), ..said }
}

fn refused(error: &Error) -> Instead {
    let (status, title) = match error {
        Error::Wrong(_) => (StatusCode::BAD_REQUEST, "invalid job"),
        Error::Exists(_) => (StatusCode::CONFLICT, "already exists"),
        Error::NotFound(_) => (StatusCode::NOT_FOUND, "no such job"),
        Error::Failed(_) => (StatusCode::SERVICE_UNAVAILABLE, "crawl unavailable"),
    };
    problem(status, title, error.to_string()).into()
}

impl Questions {
    /// The rules of a further job, by its name.
    pub(super) fn more_in_force(&self, name: Option<&str>) -> Option<Arc<InForce>> {
        let shared = self.crawl.upgrade()?;
        let found = more_jobs::find(&shared, name?)?;
        shared.jobs.get(found.job.id)
    }

    /// The rules of a further job, by its number.
    pub(super) fn more_of(&self, id: JobId) -> Option<Arc<InForce>> {
        self.crawl.upgrade().filter(|_| id != JOB)?.jobs.get(id)
    }

    /// `POST jobs`: a job as JSON, without an id.
    pub(super) async fn create_job(&self, asked: &HttpQuestion) -> Result<HttpAnswer, Instead> {
        let shared = self.running()?;
        let mut said: serde_json::Map<_, _> = asked.object().map_err(|why| wrong("invalid job", why))?;
        said.insert("id".to_owned(), 0.into());
        let job: Job =
            serde_json::from_value(said.into()).map_err(|error| wrong("invalid job", error.to_string()))?;
        let reach = self.reach().map_err(|error| away(&error))?;
        for seed in &job.scope.seeds {
            let url = nephila_core::url::CrawlUrl::parse(seed.trim());
            let url = url.map_err(|error| wrong("invalid job", format!("the seed {seed}: {error}")))?;
            reach.check(&url).map_err(|why| wrong("invalid job", format!("the seed {seed}: {why}")))?;
        }
        let (name, seeds) = (job.name.clone(), job.scope.seeds.len() as u64);
        // To its end, also if the client goes away: a job that is kept is known to the frontier.
        let made = tokio::spawn(async move { more_jobs::create(&shared, job).await });
        let made = made.await.map_err(|error| away(&anyhow::anyhow!("making the job: {error}")))?;
        let id = made.map_err(|error| refused(&error))?;
        let mut answer = ok(&Created { id, name, seeds });
        *answer.status_mut() = StatusCode::CREATED;
        Ok(answer)
    }

    /// `GET jobs/{job}` of a further job; none if there is none of this name.
    pub(super) async fn more_job(&self, name: &str) -> Option<Result<HttpAnswer, Instead>> {
        let shared = self.crawl.upgrade()?;
        let found = more_jobs::find(&shared, name)?;
        let look = async {
            let totals = self.handle.stats().await?.totals;
            let in_force = shared.jobs.get(found.job.id);
            let of = (found.job.id, &*found.job.scope.seeds);
            let part = JobPart::look(&self.handle, of, in_force.as_deref()).await?;
            let progress = progress(&found, &totals);
            anyhow::Ok(JobDetail::of(found.job, found.moved, progress, part))
        };
        Some(look.await.map(|detail| ok(&detail)).map_err(|error| away(&error)))
    }

    /// `POST jobs/{job}/pause`, `resume` and `stop` of a further job; none if there is none of this name.
    pub(super) async fn set_more_job(&self, name: &str, state: State) -> Option<Result<HttpAnswer, Instead>> {
        let shared = self.crawl.upgrade()?;
        more_jobs::find(&shared, name)?;
        match more_jobs::set_state(&shared, name, state, None).await {
            Ok(()) => self.more_job(name).await,
            Err(error) => Some(Err(refused(&error))),
        }
    }
}

#[cfg(test)]
mod tests;
