//! Further jobs of a crawl on one machine: clients of the API make them while a folder is served.
//!
//! They share hosts, delays, robots.txt and archive with the first job, as jobs of a cluster do. Their rules judge links
//! like those of the first job ([`Jobs`](super::jobs::Jobs)); a job that reaches its limit of pages or bytes is
//! stopped.
//!
//! Invariants: on return of a change, the change is in the folder and in the log of every partition; at most [`MAX`]
//! jobs are kept, with [`SEEDS_ALL_MAX`] seeds and [`TEXT_BYTES_MAX`] bytes together, and one that has work left is
//! forgotten only if it is stopped.

use std::collections::BTreeSet;

use nephila_core::frontier::views::Known;
use nephila_core::job::{Counts, Job, JobId, Kind, Limits, State};
use nephila_core::spider::outcome::Class;
use nephila_core::state::record::UrlState;
use nephila_core::state::totals::{Tally, Totals, Work};
use nephila_core::url::CrawlUrl;

use super::adding;
use super::jobs::InForce;
use super::shared::{JOB, Shared};
use super::work::is_full;
use crate::folder::MoreJob;
use crate::worker::Command;

/// Maximum number of further jobs. Beyond, the oldest one that is stopped or has nothing left makes room.
pub const MAX: usize = 1_000;
/// Maximum number of seeds of a further job.
pub const SEEDS_MAX: usize = 10_000;
/// Maximum number of seeds of all further jobs together: each change of a job copies and writes all of them.
pub const SEEDS_ALL_MAX: usize = 100_000;
/// Maximum size in bytes of the seeds and patterns of all further jobs together.
pub const TEXT_BYTES_MAX: usize = 32 << 20;
/// Name of the job of single pages. It is never forgotten: between two requests it has nothing left.
pub const PAGES_JOB: &str = "agent";

/// Why a job cannot be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The job is wrong.
    #[error("{0}")]
    Wrong(String),
    /// There is a job of this name.
    #[error("there is a job {0:?} already")]
    Exists(String),
    /// There is no such job.
    #[error("there is no job {0:?}")]
    NotFound(String),
    /// The change is not durable.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

/// Makes a job, and offers its seeds. Returns its number.
pub async fn create(shared: &Shared, mut job: Job) -> Result<JobId, Error> {
    check(&job)?;
    let is_full = excess(shared.more_jobs().jobs.iter().map(|more| &more.job).chain([&job])).is_some();
    let over = if is_full { over(shared, None).await? } else { BTreeSet::new() };
    let job = {
        let first = shared.plan().job.name.clone();
        let mut more = shared.more_jobs();
        if first == job.name || more.jobs.iter().any(|other| other.job.name == job.name) {
            return Err(Error::Exists(job.name));
        }
        // In force only once it is durable: a full disk leaves everything as it was.
        let mut after = more.clone();
        make_room(&mut after.jobs, &job, &over)?;
        job.id = JobId(after.last.max(JOB.0) + 1);
        let in_force = InForce::new(&job, &[])?;
        after.last = job.id.0;
        after.jobs.push(MoreJob { reads_archive: in_force.wants_sitemaps(), ..MoreJob::of(job.clone()) });
        shared.folder.set_more_jobs(&after)?;
        *more = after;
        shared.jobs.set(in_force);
        job
    };
    tell(shared, &job).await?;
    ask_again(shared, &job).await?;
    Ok(job.id)
}

fn check(job: &Job) -> Result<(), Error> {
    job.check().map_err(|error| Error::Wrong(error.to_string()))?;
    if job.scope.seeds.is_empty() || job.scope.seeds.len() > SEEDS_MAX {
        return Err(Error::Wrong(format!(
            "a job of a served folder has 1 to {SEEDS_MAX} seeds in scope.seeds"
        )));
    }
    let Limits { pages_max: _, bytes_max: _, time_max, pages_per_host_max, pages_per_domain_max } =
        job.limits;
    if !time_max.is_zero() || pages_per_host_max + pages_per_domain_max > 0 {
        let text =
            "a further job of a served folder has the limits pages_max and bytes_max: leave out the others";
        return Err(Error::Wrong(text.to_owned()));
    }
    Ok(())
}

/// The bound that these jobs exceed together, in words.
fn excess<'a>(jobs: impl Iterator<Item = &'a Job>) -> Option<String> {
    let (mut count, mut seeds, mut bytes) = (0, 0, 0);
    for job in jobs {
        let texts = [&job.scope.seeds, &job.scope.include, &job.scope.exclude];
        count += 1;
        seeds += job.scope.seeds.len();
        bytes += texts.into_iter().flatten().map(String::len).sum::<usize>();
    }
    if count > MAX {
        Some(format!("{MAX} jobs run already"))
    } else if seeds > SEEDS_ALL_MAX {
        Some(format!("the jobs would have more than {SEEDS_ALL_MAX} seeds together"))
    } else if bytes > TEXT_BYTES_MAX {
        Some(format!("the jobs would have seeds and patterns of more than {TEXT_BYTES_MAX} bytes together"))
    } else {
        None
    }
}

/// Forgets the oldest jobs that are over until there is room for another one.
fn make_room(jobs: &mut Vec<MoreJob>, another: &Job, over: &BTreeSet<JobId>) -> Result<(), Error> {
    while let Some(why) = excess(jobs.iter().map(|more| &more.job).chain([another])) {
        let is_over = |more: &MoreJob| {
            more.job.name != PAGES_JOB && (more.job.state == State::Stopped || over.contains(&more.job.id))
        };
        let Some(oldest) = jobs.iter().position(is_over) else {
            return Err(Error::Wrong(format!("{why}: stop some of them first")));
        };
        jobs.remove(oldest);
    }
    Ok(())
}

/// The running jobs that have begun to work and have nothing left: of all, or the one of this name.
async fn over(shared: &Shared, name: Option<&str>) -> anyhow::Result<BTreeSet<JobId>> {
    let running: Vec<(JobId, CrawlUrl)> = {
        let more = shared.more_jobs();
        let read = more.jobs.iter().filter(|more| !more.reads_archive).map(|more| &more.job);
        let running = read.filter(|job| job.state == State::Running);
        let running = running.filter(|job| name.is_none_or(|name| name == job.name));
        let seed = |job: &Job| job.scope.seeds.iter().find_map(|seed| CrawlUrl::parse(seed.trim()).ok());
        running.filter_map(|job| Some((job.id, seed(job)?))).collect()
    };
    let seeds = running.iter().map(|(_, seed)| seed.clone()).collect();
    // In this order: what is left of a job counts from when its seeds are known.
    let known = shared.handle.known(seeds).await?;
    let totals = shared.handle.stats().await?.totals;
    let all = running.iter().map(|(id, _)| *id).zip(&known);
    let over = all.filter(|(id, known)| known.url.is_some() && work(&totals, *id).left == 0);
    Ok(over.map(|(id, _)| id).collect())
}

/// Sends a job and its seeds to the frontier. Seeds that are known already change nothing.
async fn tell(shared: &Shared, job: &Job) -> anyhow::Result<()> {
    let mut without = job.clone();
    without.scope.seeds.clear();
    shared.handle.command(Command::Job(Box::new(without))).await?;
    offer_seeds(shared, job).await
}

pub(super) async fn offer_seeds(shared: &Shared, job: &Job) -> anyhow::Result<()> {
    let seeds = job.scope.seeds.iter().filter_map(|seed| CrawlUrl::parse(seed.trim()).ok());
    let links: Vec<_> = seeds.map(|url| adding::seed(url, job)).collect();
    shared.handle.offer_durably(&links).await?;
    Ok(())
}

/// Sends the jobs of earlier runs to the frontier: their creation may have been interrupted.
pub(super) async fn begin(shared: &Shared) -> anyhow::Result<()> {
    let jobs = shared.more_jobs().jobs.clone();
    for MoreJob { job, reads_archive, .. } in jobs.iter().filter(|more| more.job.state == State::Running) {
        tell(shared, job).await?;
        if *reads_archive {
            ask_again(shared, job).await?;
        }
    }
    Ok(())
}

/// Asks again for seeds that another job asked for without success, for this job. The others are not fetched again: their
/// links are in the archive ([`late`](super::late)).
async fn ask_again(shared: &Shared, job: &Job) -> anyhow::Result<()> {
    let seeds: Vec<CrawlUrl> =
        job.scope.seeds.iter().filter_map(|seed| CrawlUrl::parse(seed.trim()).ok()).collect();
    let known = shared.handle.known(seeds.clone()).await?;
    let is_failed = |known: &Known| {
        known.url.as_ref().is_some_and(|url| {
            let is_ok = url.last.as_ref().is_some_and(|last| last.outcome.class() == Class::Ok);
            url.state == UrlState::Ended && url.job != job.id && !is_ok
        })
    };
    let failed = seeds.into_iter().zip(&known).filter(|(_, known)| is_failed(known));
    let failed: Vec<CrawlUrl> = failed.map(|(seed, _)| seed).collect();
    if !failed.is_empty() {
        shared.handle.command(Command::Again(failed, Some(job.id))).await?;
    }
    Ok(())
}

/// The links of the archive's pages are durable for this job, as it was when the reading began.
pub fn archive_is_read(shared: &Shared, as_begun: &MoreJob) -> anyhow::Result<()> {
    let mut more = shared.more_jobs();
    let mut after = more.clone();
    let is_it = |more: &&mut MoreJob| more.job.id == as_begun.job.id && more.readings == as_begun.readings;
    if let Some(found) = after.jobs.iter_mut().find(is_it) {
        found.reads_archive = false;
        shared.folder.set_more_jobs(&after)?;
        *more = after;
    }
    Ok(())
}

/// Sets the state of a job; the limit that ended it, if one did.
pub async fn set_state(shared: &Shared, name: &str, state: State, limit: Option<&str>) -> Result<(), Error> {
    let is_complete = state == State::Stopped && !over(shared, Some(name)).await?.is_empty();
    let job = {
        let mut more = shared.more_jobs();
        let mut after = more.clone();
        let found = after.jobs.iter_mut().find(|more| more.job.name == name);
        let found = found.ok_or_else(|| Error::NotFound(name.to_owned()))?;
        let mut in_force = InForce::new(&found.job, &found.moved)?;
        if found.job.state != state {
            found.complete = is_complete.then(|| shared.clock.now().wall.warc_date());
            // Other jobs may have fetched pages of its site meanwhile.
            if state == State::Running && in_force.wants_sitemaps() {
                found.read_again();
            }
        }
        found.job.state = state;
        found.limit = limit.map(str::to_owned);
        in_force.state = state;
        let job = found.job.clone();
        shared.folder.set_more_jobs(&after)?;
        *more = after;
        shared.jobs.set_again(in_force);
        job
    };
    let mut without = job.clone();
    without.scope.seeds.clear();
    shared.handle.command(Command::Job(Box::new(without))).await.map_err(anyhow::Error::from)?;
    if state != State::Running {
        leave(shared, &job)?;
    }
    Ok(())
}

/// The URLs of a job that no longer runs are left to the jobs that want them too: they read the archive again, since
/// those URLs were known when their pages were read.
pub(super) fn leave(shared: &Shared, left: &Job) -> anyhow::Result<()> {
    let mut more = shared.more_jobs();
    let mut after = more.clone();
    let mut is_changed = false;
    for other in &mut after.jobs {
        let follows = || InForce::new(&other.job, &other.moved).is_ok_and(|job| job.wants_sitemaps());
        if other.job.id != left.id
            && other.job.state == State::Running
            && may_share(&other.job, left)
            && follows()
        {
            other.read_again();
            is_changed = true;
        }
    }
    if is_changed {
        shared.folder.set_more_jobs(&after)?;
        *more = after;
    }
    Ok(())
}

/// Whether two jobs may want the same URLs, by the domains of their seeds.
fn may_share(a: &Job, b: &Job) -> bool {
    let is_wide =
        |job: &Job| job.scope.kind == Kind::Any || job.scope.extra_hops > 0 || !job.scope.include.is_empty();
    let domains = |job: &Job| -> BTreeSet<String> {
        let seeds = job.scope.seeds.iter().filter_map(|seed| CrawlUrl::parse(seed.trim()).ok());
        seeds.map(|seed| seed.registrable_domain().unwrap_or(seed.host_str()).to_owned()).collect()
    };
    is_wide(a) || is_wide(b) || !domains(a).is_disjoint(&domains(b))
}

/// The job of this name.
pub fn find(shared: &Shared, name: &str) -> Option<MoreJob> {
    shared.more_jobs().jobs.iter().find(|more| more.job.name == name).cloned()
}

/// The work that was done for a job, and what is left.
pub fn work(totals: &Totals, id: JobId) -> Work {
    let nothing = Tally::default();
    let left = totals.open.get(&id.0).copied().unwrap_or(0);
    Work::of(totals.tally.get(&id.0).unwrap_or(&nothing), left)
}

/// Stops the jobs that have reached a limit.
pub(super) async fn look(shared: &Shared, totals: &Totals) -> anyhow::Result<()> {
    let over: Vec<(String, &'static str)> = {
        let more = shared.more_jobs();
        let running = more.jobs.iter().filter(|more| more.job.state == State::Running);
        let reached = running.filter_map(|more| {
            let Work { pages, bytes, .. } = work(totals, more.job.id);
            let limit = more.job.limits.reached(&Counts { pages, bytes, ..Counts::default() })?;
            Some((more.job.name.clone(), limit.name()))
        });
        reached.collect()
    };
    for (name, limit) in over {
        match set_state(shared, &name, State::Stopped, Some(limit)).await {
            Ok(()) => {
                tracing::info!(job = %name, "the job {name} has reached its limit {limit} and is stopped");
            }
            // The next look tries again; a crawl does not end for lack of disk space.
            Err(Error::Failed(error)) if is_full(&error) => {}
            Err(Error::Failed(error)) => return Err(error),
            // Removed meanwhile.
            Err(_) => {}
        }
    }
    Ok(())
}
