//! `nephila fetch`: a list of URLs, each fetched once, politely, with one line of output each.
//!
//! `input` reads the list and puts the URLs on the `shelf`, which sorts them by host. A fixed number of workers take
//! URLs of hosts that may be requested. `run` carries one URL through robots, politeness, spider and archive (and
//! through its redirects, if they are followed), `line` formats the outcome. `done` records the finished URLs, with `-o
//! DIR`. Lines are printed after the archive has acknowledged, so a printed line is a promise. A worker does not wait
//! for that: while the disk syncs, the worker fetches the next URL.

mod done;
mod gate;
mod input;
mod line;
mod once;
mod robots;
mod run;
mod shelf;

pub(crate) use once::{Hop, once};
pub(crate) use run::parse_field;

use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_core::spider::Class;
use nephila_store::archive::{Archive, Receipt};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::cli::FetchArgs;
use nephila_engine::exit::Exit;
use nephila_engine::process::block_on;
use nephila_engine::process::{self, Signals, raise_handle_limit};
use nephila_engine::settings::{Settings, usage};
use nephila_engine::wire;

/// Capacity of the queue of lines to be printed; when full, the workers wait.
const LINES_WAITING_MAX: usize = 1024;
/// Pause of the printer after each write, so that lines come in batches: waking a thread for each line costs as much as
/// a good part of a fetch.
const PRINT_REST: Duration = Duration::from_millis(5);
/// Maximum number of exchanges that wait for the acknowledgement of the archive; beyond, the workers wait.
const STORING_MAX: usize = 256;

/// Interval between retries while the shelf is full.
const SHELF_PAUSE: Duration = Duration::from_millis(100);
/// How often progress is shown on a terminal.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Runs the command.
pub(crate) fn run(mut args: FetchArgs) -> anyhow::Result<Exit> {
    if args.urls.is_empty() && args.seeds.is_empty() {
        return Err(usage(anyhow::anyhow!(
            "no URL: give URLs, `-i FILE`, or `-` to read them from standard input"
        )));
    }
    if let Some(dir) = &args.output {
        args.warc.get_or_insert_with(|| dir.clone());
    }
    let settings = resolved(&args)?;
    raise_handle_limit(args.concurrency);
    let runtime = process::runtime(0)?;
    let exit = block_on(&runtime, fetch_all(args, settings));
    // A name lookup or a closing socket must not delay the end.
    runtime.shutdown_background();
    exit
}

/// The settings, overridden by the flags.
fn resolved(args: &FetchArgs) -> anyhow::Result<Settings> {
    let mut settings = args.common.load()?;
    if let Some(contact) = &args.contact {
        settings.identity.contact.clone_from(contact);
    }
    if let Some(user_agent) = &args.user_agent {
        settings.identity.user_agent.clone_from(user_agent);
    }
    if let Some(delay) = args.delay {
        settings.set_host_delay(delay);
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

/// State shared by the workers.
struct Shared {
    shelf: shelf::Shelf,
    fetched: Option<done::Fetched>,
    runner: run::Runner,
    archive: Option<Archive>,
    storing: Arc<Semaphore>,
    lines: mpsc::Sender<Vec<u8>>,
    json: bool,
    colour: bool,
    quiet: bool,
    stopping: AtomicBool,
    /// Wakes waiting workers.
    stopped: Notify,
    /// Finished URLs, in this run and in earlier ones.
    answered: AtomicU64,
    before: AtomicU64,
    failures: AtomicU64,
    errors_max: u64,
}

/// A URL until all its lines are printed.
struct Answering {
    shared: Arc<Shared>,
    number: u64,
    /// The outcome is not final: the next run fetches the URL again.
    again: AtomicBool,
    /// The response could not be stored.
    is_lost: AtomicBool,
}

impl Drop for Answering {
    fn drop(&mut self) {
        let again = self.again.load(Ordering::Relaxed) || self.is_lost.load(Ordering::Relaxed);
        if let Some(fetched) = self.shared.fetched.as_ref().filter(|_| !again) {
            fetched.add(self.number);
        }
    }
}

async fn fetch_all(args: FetchArgs, settings: Settings) -> anyhow::Result<Exit> {
    if let Some(dir) = args.warc.as_deref().filter(|dir| dir.is_dir()) {
        nephila_engine::private::tighten(dir);
    }
    let archive = args.warc.as_deref().map(|dir| wire::archive(dir, &settings)).transpose()?;
    let terminal = std::io::stdout().is_terminal();
    let (lines, printer) = start_printer();
    let runner = run::Runner::new(&args, &settings, archive.clone())?;
    let list = format!("{:?} {:?}", args.urls, args.seeds);
    let fetched = args.output.as_deref().map(|dir| done::Fetched::open(dir, &list)).transpose()?;
    let shared = Arc::new(Shared {
        shelf: shelf::Shelf::new(runner.limits()),
        fetched,
        runner,
        archive: archive.clone(),
        storing: Arc::new(Semaphore::new(STORING_MAX)),
        lines,
        json: args.json || !terminal,
        colour: terminal && std::env::var_os("NO_COLOR").is_none(),
        quiet: args.quiet,
        stopping: AtomicBool::new(false),
        stopped: Notify::new(),
        answered: AtomicU64::new(0),
        before: AtomicU64::new(0),
        failures: AtomicU64::new(0),
        errors_max: args.errors_max.unwrap_or(u64::MAX),
    });
    let began = Instant::now();
    let mut workers = JoinSet::new();
    let input = input::Input::start(args.urls.clone(), args.seeds.clone());
    workers.spawn(fill(shared.clone(), input));
    for _ in 0..args.concurrency {
        workers.spawn(work(shared.clone()));
    }
    let shows = std::io::stderr().is_terminal() && !terminal && !args.quiet;
    let mut progress = tokio::time::interval(PROGRESS_EVERY);
    let mut signals = Signals::new()?;
    let mut stopped = false;
    let mut result = Ok(());
    loop {
        tokio::select! {
            done = workers.join_next() => match done {
                None => break,
                Some(Ok(Ok(()))) => {}
                Some(Ok(Err(error))) => {
                    shared.stop();
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
                shared.stop();
                eprintln!("nephila: finishing what is open; once more stops at once");
            }
            _ = progress.tick(), if shows => shared.show(began),
        }
    }
    let failures = shared.failures.load(Ordering::Relaxed);
    let too_many = failures >= shared.errors_max;
    let (answered, before) = (shared.answered.load(Ordering::Relaxed), shared.before.load(Ordering::Relaxed));
    let left = shared.shelf.waiting();
    drop(shared);
    let is_list = !args.seeds.is_empty() || args.urls.iter().any(|url| url == "-") || args.urls.len() > 1;
    if is_list && !args.quiet {
        let clear = if shows { "\r\x1b[K" } else { "" };
        let mut text = format!(
            "{} URLs: {} ended well, {failures} did not",
            answered,
            answered - failures.min(answered)
        );
        if before > 0 {
            text.push_str(&format!(", {before} were answered for before"));
        }
        if left > 0 {
            text.push_str(&format!(", {left} of those read are left"));
        }
        let took = humantime::format_duration(Duration::from_secs(began.elapsed().as_secs()));
        eprintln!("{clear}{text}, in {took}");
    }
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

/// Puts the list on the shelf.
async fn fill(shared: Arc<Shared>, input: input::Input) -> anyhow::Result<()> {
    let mut number = 0;
    let read = async {
        while !shared.stopping.load(Ordering::Relaxed) {
            let Some(next) = shared.unless_stopped(input.next()).await else { break };
            let next = next.map_err(|error| anyhow::Error::new(Exit::Input).context(error.to_string()))?;
            let Some(url) = next else { break };
            match &shared.fetched {
                Some(fetched) if fetched.is_before(number) => {
                    _ = shared.before.fetch_add(1, Ordering::Relaxed)
                }
                _ => {
                    while !shared.shelf.put(number, &url).context("the list in temporary files")?
                        && !shared.stopping.load(Ordering::Relaxed)
                    {
                        tokio::time::sleep(SHELF_PAUSE).await;
                    }
                }
            }
            number += 1;
        }
        Ok::<(), anyhow::Error>(())
    };
    let result = read.await;
    shared.shelf.end();
    result
}

/// Takes URLs until none is left, or until the stop, and waits for the exchanges given to the archive.
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
        let Some(taken) = shared.unless_stopped(shared.shelf.next()).await else { break };
        let taken = taken.context("the list in temporary files")?;
        let Some(taken) = taken else { break };
        let slot = shared.runner.slot_of(&taken.url).await;
        // The address rests; another address may be free.
        let Some(taken) = shared.shelf.at(taken, slot) else { continue };
        let ended = take_one(shared, &taken, storing).await;
        let (host, address) = shared.runner.rested(&taken.url, slot);
        shared.shelf.done(&taken, host, address);
        ended?;
        while let Some(stored) = storing.try_join_next() {
            stored.context("storing")??;
        }
    }
    Ok(())
}

/// Carries one URL of the list through all hops.
async fn take_one(
    shared: &Arc<Shared>,
    taken: &shelf::Taken,
    storing: &mut JoinSet<anyhow::Result<()>>,
) -> anyhow::Result<()> {
    let answering = Arc::new(Answering {
        shared: shared.clone(),
        number: taken.number,
        again: AtomicBool::new(true),
        is_lost: AtomicBool::new(false),
    });
    let mut last = Class::Ok;
    let mut chain = shared.runner.start(&taken.url);
    while let Some(mut done) = shared.runner.next(&mut chain).await? {
        last = done.fetched.outcome.class();
        match (&shared.archive, done.exchange.take()) {
            (Some(archive), Some(exchange)) => {
                let permit = shared.storing.clone().acquire_owned().await.expect("never closed");
                let (shared, archive, answering) = (shared.clone(), archive.clone(), answering.clone());
                storing.spawn(async move {
                    let _permit = permit;
                    let stored = archive.append(exchange).await.map_err(run::archive_failed);
                    answering.is_lost.fetch_or(stored.is_err(), Ordering::Relaxed);
                    shared.report(&done, Some(&stored?)).await;
                    Ok(())
                });
            }
            _ => shared.report(&done, None).await,
        }
    }
    answering.again.store(last == Class::Retry, Ordering::Relaxed);
    shared.answered.fetch_add(1, Ordering::Relaxed);
    if last != Class::Ok && shared.failures.fetch_add(1, Ordering::Relaxed) + 1 >= shared.errors_max {
        shared.stop();
    }
    Ok(())
}

impl Shared {
    /// The result of a future; none if the stop comes first.
    async fn unless_stopped<T>(&self, wanted: impl Future<Output = T>) -> Option<T> {
        let mut stopped = std::pin::pin!(self.stopped.notified());
        // From here on no notification is missed.
        stopped.as_mut().enable();
        if self.stopping.load(Ordering::Relaxed) {
            return None;
        }
        tokio::select! {
            wanted = wanted => Some(wanted),
            () = stopped => None,
        }
    }

    /// Stops: no more URLs are begun.
    fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.stopped.notify_waiters();
    }

    /// Prints a line of progress.
    fn show(&self, began: Instant) {
        let answered = self.answered.load(Ordering::Relaxed);
        let rate = answered as f64 / began.elapsed().as_secs_f64().max(0.001);
        let (failed, waiting) = (self.failures.load(Ordering::Relaxed), self.shelf.waiting());
        eprint!("\r\x1b[K{answered} done   {waiting} waiting   {failed} failed   {rate:.1} URLs/s");
    }

    /// Prints the outcome of a hop.
    async fn report(&self, done: &run::Done, receipt: Option<&Receipt>) {
        if self.quiet {
            return;
        }
        let line = line::Line::new(done.url.as_str(), done.via.as_deref(), &done.fetched, receipt);
        let text = if self.json { line.json() } else { line.readable(self.colour) };
        // The printer ends only when standard output is closed.
        if self.lines.send(text).await.is_err() {
            self.stop();
        }
    }
}

/// One thread prints, so that lines never mix and a slow consumer of the output slows the workers, not the runtime.
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
