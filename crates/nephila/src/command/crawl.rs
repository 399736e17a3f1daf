//! `nephila crawl`, and `nephila serve` without a cluster: a whole crawl on one machine.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::Context;
use nephila_core::job::{Job, State};
use nephila_store::archive::damage::give_up;
use nephila_store::disk::RealDisk;

use super::progress::Progress;
use super::report::report;
use super::resolved;
use crate::cli::crawl::{CrawlArgs, HowArgs};
use crate::cli::serve::ServeArgs;
use nephila_api::webhooks::{FINISH_MAX, Webhooks};
use nephila_api::{Apart, Questions, Server};
use nephila_cluster::api::{Bound, CONNECTIONS_MAX, bind};
use nephila_engine::crawl::ending::{self, End};
use nephila_engine::crawl::shared::{JOB, Shared, Tools};
use nephila_engine::crawl::tables::Tables;
use nephila_engine::crawl::{begin, fetch_lost, reread, revisit, stops, work};
use nephila_engine::exit::Exit;
use nephila_engine::folder::{Folder, Lock, Plan};
use nephila_engine::log;
use nephila_engine::process::{Signals, block_on, raise_handle_limit, runtime};
use nephila_engine::service::{BEAT, Part, Service};
use nephila_engine::settings::{Settings, usage};
use nephila_engine::wire;
use nephila_engine::worker::Running;

/// Runs the command.
pub(crate) fn run(args: CrawlArgs) -> anyhow::Result<Exit> {
    run_in(args, None)
}

/// Binds the address of `--listen`, by the same rules as the address of `nephila serve`.
async fn listen(settings: &Settings, address: &str) -> anyhow::Result<Option<Bound>> {
    let mut settings = settings.clone();
    settings.api.listen = address.to_owned();
    bind(&settings, &nephila_cluster::name_in(&settings)).await
}

/// Runs `nephila serve` without a cluster: the crawl of a folder never ends, and is queried over HTTP, by this name.
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
    if args.new && !folder.is_crawl() {
        let _lock = folder.lock()?;
        folder.set_plan(&Plan::of(Job::new(JOB, "crawl")))?;
    }
    if !folder.is_crawl() && !folder.has_feeds() {
        let text = format!(
            "{dir} holds no crawl: begin one with `nephila crawl URL -o {dir}` or `nephila feed add URL -o {dir}`, and serve \
             it then; or begin an empty one with --new, for URLs that come over the API. For a node of a cluster name its NATS servers in [cluster] servers"
        );
        return Err(usage(anyhow::anyhow!(text)));
    }
    let how = HowArgs { common: args.common.clone(), ..HowArgs::default() };
    run_in(CrawlArgs { output: args.output.clone(), how, ..CrawlArgs::default() }, Some(name))
}

/// Runs a crawl; with a name, the crawl is queried over HTTP.
fn run_in(args: CrawlArgs, serves: Option<&str>) -> anyhow::Result<Exit> {
    let folder = Folder::find(args.output.as_deref());
    // No other process may use the folder during the repair.
    let _mending = args.mend.then(|| folder.lock()).transpose()?;
    folder.check_papers(args.mend)?;
    let resolved::ResolvedCrawl { settings, mut plan, fields, typed } = resolved::crawl(&args, &folder)?;
    if serves.is_none() {
        // Who types the command wants it to run, whatever was said over the API before.
        plan.job.state = State::Running;
    }
    let _lock = if args.mend { None } else { Some(folder.lock()?) };
    nephila_engine::private::tighten(folder.dir());
    let webhooks = Webhooks::open(&settings, &folder)?;
    let doors = folder.open_doors(&typed)?;
    folder.set_plan(&plan)?;
    folder.set_settings(&settings)?;
    raise_handle_limit(u32::try_from(settings.crawl.concurrency).unwrap_or(u32::MAX));
    let runtime = runtime(settings.crawl.threads)?;
    let exit = block_on(&runtime, async {
        let service = Service::of_environment();
        let mut progress = Progress::new(args.progress, args.quiet, service.clone());
        let bound = match (serves, &args.listen) {
            (Some(name), _) => bind(&settings, name).await?,
            (None, Some(address)) => listen(&settings, address).await?,
            (None, None) => None,
        };
        if folder.has_partitions() {
            wire::outwait_spiders(&settings).await;
        }
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
            fetch: wire::fetch(&settings, &spider, None).await?,
            keep: Some(nephila_cluster::media::keep(Arc::new(archive), &settings)?),
            log,
        };
        let shared = Shared::new(settings, folder, plan, tools)?;
        // Before the first request.
        let (shared, obeying) = stops::obey(shared.with_fields(fields))?;
        let questions = Questions::new(shared.handle.clone(), shared.folder.clone(), shared.settings.clone())
            .with_spider(spider)
            .with_media(nephila_cluster::media::reader(&shared.settings)?)
            .with_address(bound.as_ref().map(Bound::url))
            .with_webhooks(&webhooks)
            .with_crawl(&shared);
        let questions = Arc::new(questions);
        let begun = questions.clone();
        let sending = webhooks.start();
        let _sampling = questions.sample();
        let _server = Server::start(&shared.folder, questions.clone());
        // Before the first answer: whoever reads it may send a signal at once.
        let mut signals = Signals::new()?;
        let answering = bound.map(|bound| {
            let (dir, url) = (shared.folder.dir().display(), bound.url());
            tracing::info!(path = %dir, %url, "{dir} is answered for at {url}");
            let Bound { listener, guard, tls, .. } = bound;
            Apart::serve(listener, questions, guard, tls, CONNECTIONS_MAX)
                .context("starting threads that answer")
        });
        let answering = answering.transpose()?;
        service.ready();
        let prepare = async {
            begin(&shared).await?;
            reread::run(&shared, args.quiet).await?;
            revisit::run(&shared, args.quiet).await?;
            fetch_lost(&shared).await?;
            begun.set_begun();
            anyhow::Ok(())
        };
        // What a signal interrupts here, the next run does again.
        let stopped = tokio::select! {
            prepared = prepare => prepared.map(|()| false)?,
            () = signals.next() => true,
            never = answered(&shared, progress.part()) => match never {},
        };
        let tables = Tables::start(shared.folder.dir(), &shared.settings)?;
        let until = work::Until {
            errors_max: args.errors_max,
            fail_on_seed_error: args.fail_on_seed_error,
            serves: serves.is_some(),
        };
        let end = match stopped {
            true => {
                service.stopping();
                drop(running.actions);
                End::Stopped
            }
            false => work::work(&shared, running.actions, until, &mut progress, &mut signals).await?,
        };
        drop(obeying);
        drop(answering);
        let left = ending::Left::look(&shared, &end).await;
        if !matches!(end, End::StoppedHard | End::Failed(_)) {
            ending::close(&shared, running.thread, log_thread).await?;
            tables.finish(&mut signals).await?;
            tokio::select! {
                () = sending.finish(FINISH_MAX) => {}
                () = signals.next() => {}
            }
        }
        report(&shared, &end, &left, args.quiet);
        end.exit(&left)
    });
    // A name lookup or a closing socket must not delay the end.
    runtime.shutdown_background();
    exit
}

/// Says that the crawl lives whenever the thread of its frontier has answered, until the loop of the crawl does.
async fn answered(shared: &Shared, part: &Part) -> Infallible {
    loop {
        if shared.handle.stats().await.is_ok() {
            part.alive();
        }
        tokio::time::sleep(BEAT).await;
    }
}

/// The frontier of a folder. With `--mend`, a frontier that its journals cannot repair is set aside and a new one is
/// created; the result includes a lock on the new one.
fn frontier(
    folder: &Folder,
    settings: &Settings,
    plan: &mut Plan,
    mend: bool,
) -> anyhow::Result<(Running, Option<Lock>)> {
    match wire::worker(folder, settings, mend) {
        Err(error) if mend && error.downcast_ref() == Some(&Exit::Damaged) => {
            let aside = folder.set_state_aside()?;
            tracing::warn!("{error:#}");
            tracing::warn!("it is in {} now; every page is asked for again", aside.display());
            let lock = folder.lock()?;
            plan.seeds_offered = 0;
            folder.set_plan(plan)?;
            folder.set_settings(settings)?;
            Ok((wire::worker(folder, settings, false)?, Some(lock)))
        }
        running => Ok((running?, None)),
    }
}
