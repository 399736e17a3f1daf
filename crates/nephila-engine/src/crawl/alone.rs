//! A crawl whose partitions are all in this process: links go to the own frontier, a wider scope to the own folder.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures_util::future::BoxFuture;
use nephila_core::job::JobId;
use nephila_core::url::CrawlUrl;

use super::jobs::Jobs;
use super::shared::JOB;
use super::stage::PassOn;
use crate::folder::{Folder, MoreJobs, Plan};
use crate::worker::{Handle, Link};

/// See the module.
#[derive(Debug)]
pub(super) struct Alone {
    pub(crate) folder: Folder,
    pub(crate) plan: Arc<Mutex<Plan>>,
    pub(crate) more: Arc<Mutex<MoreJobs>>,
}

impl Alone {
    pub(super) fn widen(&self, jobs: &Jobs, job: JobId, target: &CrawlUrl) -> anyhow::Result<()> {
        if job != JOB {
            return self.widen_more(jobs, job, target);
        }
        let mut plan = self.plan.lock().expect("nobody panics holding it");
        if plan.moved.iter().any(|moved| moved == target.as_str()) {
            return Ok(());
        }
        plan.moved.push(target.as_str().to_owned());
        self.folder.set_plan(&plan)?;
        jobs.widen(job, target);
        Ok(())
    }

    /// The same for a further job. A job that is gone wants nothing more.
    fn widen_more(&self, jobs: &Jobs, job: JobId, target: &CrawlUrl) -> anyhow::Result<()> {
        let mut more = self.more.lock().expect("nobody panics holding it");
        let Some(found) = more.jobs.iter_mut().find(|more| more.job.id == job) else { return Ok(()) };
        if found.moved.iter().any(|moved| moved == target.as_str()) {
            return Ok(());
        }
        found.moved.push(target.as_str().to_owned());
        self.folder.set_more_jobs(&more)?;
        jobs.widen(job, target);
        Ok(())
    }
}

impl PassOn for Alone {
    fn offer<'a>(&'a self, handle: &'a Handle, links: &'a [Link]) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(async move {
            handle.offer_durably(links).await?;
            Ok(())
        })
    }

    fn refresh<'a>(&'a self, _jobs: &'a Jobs, _since: Instant) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn widen<'a>(
        &'a self,
        jobs: &'a Jobs,
        job: JobId,
        target: &'a CrawlUrl,
    ) -> BoxFuture<'a, anyhow::Result<()>> {
        Box::pin(std::future::ready(Alone::widen(self, jobs, job, target)))
    }

    fn is_alone(&self) -> bool {
        true
    }
}
