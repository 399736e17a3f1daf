//! `nephila crawl`: a whole crawl on one machine.
//!
//! `meant` turns flags, settings and the folder into a plan; `wire` opens archive, frontier and spider; `work` is the
//! loop that takes what the frontier wants done and starts it. `resolve`, `robots` and `page` each carry out one action:
//! a page is fetched, its bytes go to the archive, its links through `intake` to the frontier, and only when both are
//! durable its outcome is reported. `reread` looks through the archive again when more is wanted than before. `suspects`
//! tells pages apart that end the process. `progress` says how it goes and what it waits for, `troubles` why hosts could
//! not be asked, `seeds` what became of the seeds, and `ending` how it went.
//!
//! What always holds: every request has a ticket; an outcome is reported after its capture and its links are safe, so a
//! crash at any moment repeats at most what was open; every queue on the way is bounded, and whoever is faster waits.

pub(crate) mod adding;
mod alone;
pub(crate) mod decoded;
pub(crate) mod ending;
pub(crate) mod feed;
pub(crate) mod head;
pub(crate) mod intake;
pub(crate) mod jobs;
pub(crate) mod page;
pub(crate) mod readers;
pub mod reread;
mod resolve;
pub(crate) mod robots;
pub(crate) mod seeds;
pub(crate) mod shared;
pub(crate) mod sources;
pub mod stage;
pub(crate) mod stops;
pub(crate) mod stream;
pub(crate) mod suspects;
pub(crate) mod text;
pub(crate) mod troubles;
pub(crate) mod typed;
pub(crate) mod usage;
pub(crate) mod work;

use anyhow::Context;
use nephila_core::url::CrawlUrl;
use nephila_store::archive::damage::{forget_lost, lost};
use nephila_store::disk::RealDisk;

use crate::settings::StateKind;
use crate::worker::Command;
use shared::Shared;

/// Links of seeds offered at once.
const SEEDS_AT_ONCE: usize = 10_000;

/// Tells the frontier about the job and its seeds.
pub(crate) async fn begin(shared: &Shared) -> anyhow::Result<()> {
    let (seeds, job) = shared.seeds_and_job();
    let origins = seeds.iter().filter_map(|seed| Some(CrawlUrl::parse(seed.trim()).ok()?.origin()));
    shared.troubles.set_seeds(origins);
    shared.handle.command(Command::Job(Box::new(job))).await?;
    shared.offer_feeds().await?;
    // A state in memory begins anew, whatever an earlier run was told.
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

/// Lost captures that are asked for again at once.
const LOST_AT_ONCE: usize = 512;

/// Asks again for pages whose captures are lost.
pub(crate) async fn fetch_lost(shared: &Shared) -> anyhow::Result<()> {
    let lost = lost(shared.folder.dir()).context("reading the list of lost captures")?;
    if lost.is_empty() {
        return Ok(());
    }
    for some in lost.chunks(LOST_AT_ONCE) {
        let urls = some.iter().filter_map(|lost| CrawlUrl::parse(&lost.url).ok()).collect();
        shared.handle.command(Command::Again(urls)).await?;
    }
    eprintln!("nephila: {} lost captures are fetched again", lost.len());
    forget_lost(&RealDisk, shared.folder.dir()).context("removing the list of lost captures")
}
