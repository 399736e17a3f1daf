//! `nephila fetch`: a list of URLs, each fetched once, politely, and answered for in one line.
//!
//! `input` reads the list, a fixed number of workers take URLs from it, `run` carries one URL through robots,
//! politeness, spider and archive (and through its redirects, if they are followed), `line` says how it ended.
//! Lines are printed after the archive has acknowledged, so a printed line is a promise. A worker does not wait for
//! that: while the disk syncs, the next URL is fetched.

mod gate;
mod input;
mod line;
mod robots;
mod run;

pub(crate) use robots::Read as RobotsRead;
pub(crate) use run::parse_field;

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use nephila_core::spider::Class;
use nephila_store::archive::{Archive, Receipt};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::cli::FetchArgs;
use crate::exit::Exit;
use crate::settings::{self, Settings, usage};
use crate::wire;

/// Lines that wait to be printed; then the workers wait.
const LINES_WAITING_MAX: usize = 1024;
/// After printing, the printer rests this long, so that lines come in batches: to wake a thread for each line costs as
/// much as a good part of a fetch.
const PRINT_REST: Duration = Duration::from_millis(5);
/// Exchanges that wait for the archive to acknowledge them; then the workers wait.
const STORING_MAX: usize = 256;
/// File handles beside those of the fetches themselves: standard streams, archive, resolver.
const HANDLES_SPARE: u64 = 256;

/// Runs the command.
pub(crate) fn run(args: FetchArgs) -> anyhow::Result<Exit> {
    if args.urls.is_empty() && args.seeds.is_empty() {
        return Err(usage(anyhow::anyhow!(
            "no URL: give URLs, `-i FILE`, or `-` to read them from standard input"
        )));
    }
    let settings = meant(&args)?;
    raise_handle_limit(args.concurrency);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().context("starting the runtime")?;
    let exit = runtime.block_on(fetch_all(args, settings));
    // A name lookup or a closing socket must not hold up the end.
    runtime.shutdown_background();
    exit
}

/// Settings with the flags on top.
fn meant(args: &FetchArgs) -> anyhow::Result<Settings> {
    let mut settings = settings::load(&args.common)?;
    if let Some(contact) = &args.contact {
        settings.identity.contact.clone_from(contact);
    }
    if let Some(user_agent) = &args.user_agent {
        settings.identity.user_agent.clone_from(user_agent);
    }
    if let Some(delay) = args.delay {
        settings.frontier.host_delay = delay;
        settings.frontier.slot_delay = settings.frontier.slot_delay.min(delay);
    }
    if let Some(parallel) = args.host_concurrency {
        settings.frontier.host_connections = parallel.max(1);
        settings.frontier.slot_connections = settings.frontier.slot_connections.max(parallel);
    }
    if args.ignore_robots {
        settings.robots.obey = false;
    }
    settings.spider.dns_fixed.extend(args.resolve.iter().map(|(host, address)| format!("{host}={address}")));
    Ok(settings)
}

/// What the workers share.
struct Shared {
    input: input::Input,
    runner: run::Runner,
    archive: Option<Archive>,
    storing: Arc<Semaphore>,
    lines: mpsc::Sender<Vec<u8>>,
    json: bool,
    colour: bool,
    quiet: bool,
    stopping: AtomicBool,
    failures: AtomicU64,
    errors_max: u64,
}

async fn fetch_all(args: FetchArgs, settings: Settings) -> anyhow::Result<Exit> {
    let archive = args.warc.as_deref().map(|dir| wire::archive(dir, &settings)).transpose()?;
    let terminal = std::io::stdout().is_terminal();
    let (lines, printer) = start_printer();
    let shared = Arc::new(Shared {
        input: input::Input::start(args.urls.clone(), args.seeds.clone()),
        runner: run::Runner::new(&args, &settings, archive.clone())?,
        archive: archive.clone(),
        storing: Arc::new(Semaphore::new(STORING_MAX)),
        lines,
        json: args.json || !terminal,
        colour: terminal && std::env::var_os("NO_COLOR").is_none(),
        quiet: args.quiet,
        stopping: AtomicBool::new(false),
        failures: AtomicU64::new(0),
        errors_max: args.errors_max.unwrap_or(u64::MAX),
    });
    let mut workers = JoinSet::new();
    for _ in 0..args.concurrency {
        workers.spawn(work(shared.clone()));
    }
    let mut signals = Signals::new()?;
    let mut stopped = false;
    let mut result = Ok(());
    loop {
        tokio::select! {
            done = workers.join_next() => match done {
                None => break,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => {
                    shared.stopping.store(true, Ordering::Relaxed);
                    result = result.and(Err(error));
                }
                Some(Err(panic)) => std::panic::resume_unwind(panic.into_panic()),
            },
            () = signals.next() => {
                if stopped {
                    eprintln!("nephila: stopped; what was acknowledged is safe");
                    return Ok(Exit::StoppedHard);
                }
                stopped = true;
                shared.stopping.store(true, Ordering::Relaxed);
                eprintln!("nephila: finishing what is open; once more stops at once");
            }
        }
    }
    let failures = shared.failures.load(Ordering::Relaxed);
    let too_many = failures >= shared.errors_max;
    drop(shared);
    printer.await.context("printing")??;
    close(archive).await?;
    result?;
    Ok(match (stopped, too_many, failures) {
        (true, _, _) => Exit::Stopped,
        (_, true, _) => Exit::TooManyFailures,
        (_, _, 0) => Exit::Done,
        _ => Exit::Failed,
    })
}

async fn close(archive: Option<Archive>) -> anyhow::Result<()> {
    if let Some(archive) = archive {
        archive.close().await.map_err(run::archive_failed)?;
    }
    Ok(())
}

/// Takes URLs until there are none, or until told to stop, and waits for what it gave to the archive.
async fn work(shared: Arc<Shared>) -> anyhow::Result<()> {
    let mut storing = JoinSet::new();
    let mut result = take_urls(&shared, &mut storing).await;
    while let Some(stored) = storing.join_next().await {
        result = result.and(stored.context("storing").flatten());
    }
    result
}

async fn take_urls(shared: &Arc<Shared>, storing: &mut JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while !shared.stopping.load(Ordering::Relaxed) {
        let next = shared
            .input
            .next()
            .await
            .map_err(|error| anyhow::Error::new(Exit::Input).context(error.to_string()))?;
        let Some(url) = next else { break };
        let mut failed = false;
        let mut chain = shared.runner.start(&url);
        while let Some(mut done) = shared.runner.next(&mut chain).await? {
            failed = done.fetched.outcome.class() != Class::Ok;
            match (&shared.archive, done.exchange.take()) {
                (Some(archive), Some(exchange)) => {
                    let permit = shared.storing.clone().acquire_owned().await.expect("never closed");
                    let (shared, archive) = (shared.clone(), archive.clone());
                    storing.spawn(async move {
                        let _permit = permit;
                        let receipt = archive.append(exchange).await.map_err(run::archive_failed)?;
                        shared.report(&done, Some(&receipt)).await;
                        Ok(())
                    });
                }
                _ => shared.report(&done, None).await,
            }
        }
        if failed && shared.failures.fetch_add(1, Ordering::Relaxed) + 1 >= shared.errors_max {
            shared.stopping.store(true, Ordering::Relaxed);
        }
        while let Some(stored) = storing.try_join_next() {
            stored.context("storing")??;
        }
    }
    Ok(())
}

impl Shared {
    /// Says how a hop ended.
    async fn report(&self, done: &run::Done, receipt: Option<&Receipt>) {
        if self.quiet {
            return;
        }
        let line = line::Line::new(done.url.as_str(), done.via.as_deref(), &done.fetched, receipt);
        let text = if self.json { line.json() } else { line.readable(self.colour) };
        // The printer is gone only if standard output is; nobody listens then.
        if self.lines.send(text).await.is_err() {
            self.stopping.store(true, Ordering::Relaxed);
        }
    }
}

/// One thread prints, so that lines never mix and a slow reader holds back the workers, not the runtime.
fn start_printer() -> (mpsc::Sender<Vec<u8>>, tokio::task::JoinHandle<std::io::Result<()>>) {
    let (sender, mut lines) = mpsc::channel::<Vec<u8>>(LINES_WAITING_MAX);
    let printer = tokio::task::spawn_blocking(move || {
        let mut out = std::io::BufWriter::with_capacity(64 * 1024, std::io::stdout());
        while let Some(line) = lines.blocking_recv() {
            out.write_all(&line)?;
            while let Ok(line) = lines.try_recv() {
                out.write_all(&line)?;
            }
            out.flush()?;
            std::thread::sleep(PRINT_REST);
        }
        Ok(())
    });
    (sender, printer)
}

/// SIGINT and SIGTERM.
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// As many file handles as the system allows us, and a word if that is not enough.
pub(crate) fn raise_handle_limit(concurrency: u32) {
    let Ok((_, hard)) = rlimit::Resource::NOFILE.get() else { return };
    let _ = rlimit::Resource::NOFILE.set(hard, hard);
    if hard < u64::from(concurrency) + HANDLES_SPARE {
        eprintln!(
            "nephila: --concurrency {concurrency} wants more file handles than the limit of {hard}; fetches will wait for free ones (ulimit -n)"
        );
    }
}
