//! `nephila crawl`: a whole crawl on one machine.
//!
//! `meant` turns flags, settings and the folder into a plan; `wire` opens archive, frontier and spider; `work` is the
//! loop that takes what the frontier wants done and starts it. `resolve`, `robots` and `page` each carry out one action:
//! a page is fetched, its bytes go to the archive, its links through `intake` to the frontier, and only when both are
//! durable its outcome is reported. `suspects` tells pages apart that end the process. `progress` says how it goes and what it waits for, `ending` how it went.
//!
//! What always holds: every request has a ticket; an outcome is reported after its capture and its links are safe, so a
//! crash at any moment repeats at most what was open; every queue on the way is bounded, and whoever is faster waits.

pub(crate) mod adding;
pub(crate) mod ending;
pub(crate) mod feed;
pub(crate) mod head;
pub(crate) mod inputs;
pub(crate) mod intake;
pub(crate) mod jobs;
pub(crate) mod map;
pub(crate) mod meant;
pub(crate) mod page;
pub(crate) mod progress;
pub(crate) mod resolve;
pub(crate) mod robots;
pub(crate) mod shared;
pub(crate) mod stops;
pub(crate) mod stream;
pub(crate) mod suspects;
pub(crate) mod text;
pub(crate) mod usage;
pub(crate) mod work;

use std::sync::Arc;

use anyhow::Context;

use crate::api::{Questions, Server};
use crate::cli::crawl::CrawlArgs;
use crate::exit::Exit;
use crate::folder::Folder;
use crate::log;
use crate::orders;
use crate::wire;
use crate::worker::Command;
use ending::End;
use shared::{Shared, Tools};

/// Links of seeds offered at once.
const SEEDS_AT_ONCE: usize = 10_000;

/// Runs the command.
pub(crate) fn run(args: CrawlArgs) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.output.as_deref());
    let meant::Meant { settings, plan, fields } = meant::crawl(&args, &folder)?;
    let _lock = folder.lock()?;
    folder.set_plan(&plan)?;
    folder.set_settings(&crate::settings::page(&settings)?)?;
    crate::fetch::raise_handle_limit(u32::try_from(settings.crawl.concurrency).unwrap_or(u32::MAX));
    let runtime = runtime(settings.crawl.threads)?;
    let exit = runtime.block_on(async {
        let progress = progress::Progress::new(args.progress, args.quiet);
        let archive = wire::archive(folder.dir(), &settings)?;
        let running = wire::worker(&folder, &settings)?;
        let (log, log_thread) = log::Writer::open(&folder.logs()).context("opening the log")?;
        let spider = wire::spider(&settings)?;
        let tools = Tools { handle: running.handle, spider, archive: Some(archive), log };
        let shared = Shared::new(settings, folder, plan, tools)?;
        // Before anybody is asked.
        let orders = Arc::new(orders::Live::default());
        orders.set(orders::read(&shared.folder)?);
        let shared = Arc::new(shared.with_fields(fields).with_orders(orders.clone()));
        let following = tokio::spawn(orders::follow(shared.folder.clone(), orders, shared.handle.clone()));
        let undoing = tokio::spawn(stops::undo(Arc::downgrade(&shared)));
        let questions = Questions::new(shared.handle.clone(), shared.folder.clone(), shared.settings.clone());
        let _server = Server::start(&shared.folder, Arc::new(questions));
        begin(&shared).await?;
        let end = work::work(&shared, running.actions, args.errors_max, progress).await?;
        following.abort();
        undoing.abort();
        let stats = shared.handle.stats().await.ok();
        if !matches!(end, End::StoppedHard | End::Failed(_)) {
            ending::close(&shared, running.thread, log_thread).await?;
        }
        ending::report(&shared, &end, stats.as_ref(), args.quiet);
        end.exit()
    });
    // A name lookup or a closing socket must not hold up the end.
    runtime.shutdown_background();
    exit
}

/// So many threads that fetch and read pages; as many as there are cores at 0.
pub(crate) fn runtime(threads: usize) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if threads > 0 {
        builder.worker_threads(threads);
    }
    builder.enable_all().build().context("starting the runtime")
}

/// Tells the frontier about the job and its seeds.
async fn begin(shared: &Shared) -> anyhow::Result<()> {
    let (seeds, job) = shared.seeds_and_job();
    shared.handle.command(Command::Job(Box::new(job))).await?;
    shared.offer_feeds().await?;
    let offered = shared.plan().seeds_offered;
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

#[cfg(test)]
mod tests {
    #[test]
    fn a_crawl_has_as_many_threads_as_the_settings_say() {
        for threads in [1, 3] {
            assert_eq!(super::runtime(threads).unwrap().metrics().num_workers(), threads);
        }
        let cores = std::thread::available_parallelism().unwrap().get();
        assert_eq!(super::runtime(0).unwrap().metrics().num_workers(), cores);
    }
}
