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
pub(crate) mod usage;
pub(crate) mod work;

use std::sync::Arc;

use anyhow::Context;
use nephila_core::url::CrawlUrl;
use nephila_store::archive::damage::{forget_lost, give_up, lost};
use nephila_store::disk::RealDisk;

use crate::api::{Questions, Server};
use crate::cli::cluster::ServeArgs;
use crate::cli::crawl::{CrawlArgs, HowArgs};
use crate::exit::Exit;
use crate::folder::{Folder, Lock, Plan};
use crate::log;
use crate::node::api::{Bound, CONNECTIONS_MAX, bind};
use crate::orders;
use crate::settings::{Settings, StateKind, usage};
use crate::wire;
use crate::worker::{Command, Running};
use ending::End;
use shared::{Shared, Tools};

/// Links of seeds offered at once.
const SEEDS_AT_ONCE: usize = 10_000;

/// Runs the command.
pub(crate) fn run(args: CrawlArgs) -> anyhow::Result<Exit> {
    run_in(args, None)
}

/// Runs `nephila serve` without a cluster: the crawl of a folder goes on for ever, and is asked about over HTTP, by this
/// name.
pub(crate) fn serve(args: &ServeArgs, name: &str) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.output.as_deref());
    let dir = folder.dir().display();
    if folder.is_node() {
        let text = format!(
            "{dir} is the folder of a node: name the NATS servers of its cluster in [cluster] servers, or with \
             --set 'cluster.servers=[\"nats://HOST:4222\"]'"
        );
        return Err(usage(anyhow::anyhow!(text)));
    }
    if !folder.is_crawl() && !folder.has_feeds() {
        let text = format!(
            "{dir} holds no crawl: begin one with `nephila crawl URL -o {dir}` or `nephila feed add URL -o {dir}`, and serve \
             it then. For a node of a cluster name its NATS servers in [cluster] servers"
        );
        return Err(usage(anyhow::anyhow!(text)));
    }
    let how = HowArgs { common: args.common.clone(), ..HowArgs::default() };
    run_in(CrawlArgs { output: args.output.clone(), how, ..CrawlArgs::default() }, Some(name))
}

/// A crawl, which others ask about over HTTP if it has a name.
fn run_in(args: CrawlArgs, serves: Option<&str>) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.output.as_deref());
    // Nobody else may be at work in what is about to be mended.
    let _mending = args.mend.then(|| folder.lock()).transpose()?;
    folder.check_papers(args.mend)?;
    let meant::Meant { mut settings, mut plan, fields, typed } = meant::crawl(&args, &folder)?;
    let _lock = if args.mend { None } else { Some(folder.lock()?) };
    crate::private::tighten(folder.dir());
    let doors = folder.open_doors(&typed)?;
    folder.set_plan(&plan)?;
    folder.set_settings(&settings)?;
    if serves.is_some() {
        // Only this process: whoever crawls the folder next may end.
        settings.crawl.retry_wait_max = meant::FOREVER;
    }
    crate::fetch::raise_handle_limit(u32::try_from(settings.crawl.concurrency).unwrap_or(u32::MAX));
    let runtime = runtime(settings.crawl.threads)?;
    let exit = runtime.block_on(async {
        let progress = progress::Progress::new(args.progress, args.quiet);
        let bound = match serves {
            Some(name) => bind(&settings, name).await?,
            None => None,
        };
        let (running, _anew) = frontier(&folder, &settings, &mut plan, args.mend)?;
        if args.mend {
            give_up(&RealDisk, folder.dir()).context("mending the archive")?;
        }
        let archive = wire::archive(folder.dir(), &settings)?;
        let (log, log_thread) = log::Writer::open(&folder.logs()).context("opening the log")?;
        let spider = wire::spider(&settings)?;
        spider.set_doors(doors);
        let tools = Tools {
            handle: running.handle,
            fetch: Arc::new(spider.clone()),
            keep: Some(Arc::new(archive)),
            log,
        };
        let shared = Shared::new(settings, folder, plan, tools)?;
        // Before anybody is asked.
        let orders = Arc::new(orders::Live::default());
        orders.set(orders::read(&shared.folder)?);
        let shared = Arc::new(shared.with_fields(fields).with_orders(orders.clone()));
        let following = tokio::spawn(orders::follow(shared.folder.clone(), orders, shared.handle.clone()));
        let undoing = tokio::spawn(stops::undo(Arc::downgrade(&shared)));
        let questions = Questions::new(shared.handle.clone(), shared.folder.clone(), shared.settings.clone())
            .with_spider(spider);
        let questions = Arc::new(questions);
        let _server = Server::start(&shared.folder, questions.clone());
        let answering = bound.map(|bound| {
            eprintln!("nephila: {} is answered for at {}", shared.folder.dir().display(), bound.url());
            let Bound { listener, guard, tls, .. } = bound;
            tokio::spawn(crate::api::serve(listener, questions, guard, tls, CONNECTIONS_MAX))
        });
        begin(&shared).await?;
        reread::run(&shared, args.quiet).await?;
        fetch_lost(&shared).await?;
        let until = work::Until {
            errors_max: args.errors_max,
            fail_on_seed_error: args.fail_on_seed_error,
            serves: serves.is_some(),
        };
        let end = work::work(&shared, running.actions, until, progress).await?;
        following.abort();
        undoing.abort();
        if let Some(answering) = answering {
            answering.abort();
        }
        let left = ending::Left::look(&shared, &end).await;
        if !matches!(end, End::StoppedHard | End::Failed(_)) {
            ending::close(&shared, running.thread, log_thread).await?;
        }
        ending::report(&shared, &end, &left, args.quiet);
        end.exit(&left)
    });
    // A name lookup or a closing socket must not hold up the end.
    runtime.shutdown_background();
    exit
}

/// The frontier of a folder. One that is damaged beyond what its journals can mend is set aside if that was asked for, and
/// begins anew, with a lock on what is there now.
fn frontier(
    folder: &Folder,
    settings: &Settings,
    plan: &mut Plan,
    mend: bool,
) -> anyhow::Result<(Running, Option<Lock>)> {
    match wire::worker(folder, settings, mend) {
        Err(error) if mend && error.downcast_ref() == Some(&Exit::Damaged) => {
            let aside = folder.set_state_aside()?;
            eprintln!("nephila: {error:#}");
            eprintln!("nephila: it is in {} now; every page is asked for again", aside.display());
            let lock = folder.lock()?;
            plan.seeds_offered = 0;
            folder.set_plan(plan)?;
            folder.set_settings(settings)?;
            Ok((wire::worker(folder, settings, false)?, Some(lock)))
        }
        running => Ok((running?, None)),
    }
}

/// Lost captures that are asked for again at once.
const LOST_AT_ONCE: usize = 512;

/// Asks again for pages whose captures are lost.
async fn fetch_lost(shared: &Shared) -> anyhow::Result<()> {
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
