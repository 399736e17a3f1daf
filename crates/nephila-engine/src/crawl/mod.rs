//! `nephila crawl`: a whole crawl on one machine.
//!
//! `resolved` turns flags, settings and the folder into a plan; `wire` opens archive, frontier and spider; `work` is
//! the loop that takes actions from the frontier and starts them. `resolve`, `robots` and `page` each carry out one
//! action: a page is fetched, its bytes go to the archive, its links through `intake` to the frontier, and its outcome
//! is reported only when both are durable. `reread` parses the archive again when the scope is wider than before.
//! `suspects` identifies pages that crash the process. `progress` shows the state of the crawl, `troubles` why hosts
//! could not be requested, `seeds` the outcomes of the seeds, and `ending` the final report.
//!
//! Invariants: every request has a ticket; an outcome is reported after its capture and its links are durable, so a
//! crash at any moment repeats at most the open tickets; every queue on the way is bounded, and a faster producer waits
//! (backpressure).

pub(crate) mod acks;
pub mod adding;
mod alone;
pub(crate) mod counts;
pub mod decoded;
pub mod ending;
pub(crate) mod feed;
pub mod feed_health;
pub mod halt;
pub(crate) mod head;
pub mod held;
pub(crate) mod intake;
pub mod jobs;
pub mod lasts;
mod late;
mod looks;
pub mod more_jobs;
pub(crate) mod page;
pub(crate) mod readers;
pub mod reread;
mod resolve;
pub mod revisit;
pub mod robots;
mod room;
pub(crate) mod seeds;
pub mod shared;
pub(crate) mod sources;
pub mod stage;
pub mod stops;
pub mod stream;
pub(crate) mod suspects;
pub mod tables;
pub mod text;
pub(crate) mod troubles;
pub mod typed;
pub(crate) mod usage;
pub mod verdicts;
pub mod work;

use anyhow::Context;
use nephila_core::url::CrawlUrl;
use nephila_store::archive::damage::{forget_lost, lost};
use nephila_store::disk::RealDisk;

use crate::settings::StateKind;
use crate::worker::Command;
use shared::Shared;

/// Number of seeds offered in one call.
pub const SEEDS_AT_ONCE: usize = 10_000;

/// Gives the job and its seeds to the frontier.
pub async fn begin(shared: &Shared) -> anyhow::Result<()> {
    let (seeds, job) = shared.seeds_and_job();
    let origins =
        seeds.iter().filter_map(|seed| Some(CrawlUrl::parse(seed.trim()).ok()?.origin().to_owned()));
    shared.troubles.set_seeds(origins);
    shared.handle.command(Command::Job(Box::new(job))).await?;
    more_jobs::begin(shared).await?;
    shared.offer_feeds().await?;
    // A state in memory begins empty, so earlier runs do not count.
    let is_new = shared.settings.crawl.state == StateKind::Memory;
    let offered = if is_new { 0 } else { shared.plan().seeds_offered };
    if offered >= seeds.len() as u64 {
        return Ok(());
    }
    for some in seeds.chunks(SEEDS_AT_ONCE) {
        let links: Vec<_> = some.iter().filter_map(|seed| shared.seed(seed)).collect();
        shared.handle.offer_durably(&links).await?;
    }
    let mut plan = shared.plan();
    plan.seeds_offered = seeds.len() as u64;
    shared.folder.set_plan(&plan)
}

/// Number of lost captures requested again in one call.
pub const LOST_AT_ONCE: usize = 512;

/// Fetches pages again whose captures are lost.
pub async fn fetch_lost(shared: &Shared) -> anyhow::Result<()> {
    let lost = lost(shared.folder.dir()).context("reading the list of lost captures")?;
    if lost.is_empty() {
        return Ok(());
    }
    for some in lost.chunks(LOST_AT_ONCE) {
        let urls = some.iter().filter_map(|lost| CrawlUrl::parse(&lost.url).ok()).collect();
        shared.handle.command(Command::Again(urls, None)).await?;
    }
    tracing::info!("{} lost captures are fetched again", lost.len());
    forget_lost(&RealDisk, shared.folder.dir()).context("removing the list of lost captures")
}
