//! How a crawl ended: files closed, a report for people, an exit code for schedulers.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use nephila_core::frontier::outlook::Held;
use nephila_core::job::Limit;
use nephila_core::spider::Outcome;
use nephila_core::text::shown;
use nephila_core::time::{Seconds, Timestamp};

use super::progress::waiting as waiting_for;
use super::seeds::Seeds;
use super::shared::Shared;
use super::work::name;
use crate::exit::Exit;
use crate::human::{count, size};
use crate::worker;

/// Why a crawl ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Nothing is left but second tries.
    Done,
    /// It has only waited for these for as long as `crawl.wait_max` says.
    Waited(Held),
    /// A seed could not be fetched, and `--fail-on-seed-error` was said.
    SeedFailed,
    /// A limit of the job.
    Limit(Limit),
    /// More failures than `--errors-max`.
    TooManyFailures,
    /// A signal; what was open was finished.
    Stopped,
    /// A second signal.
    StoppedHard,
    /// It cannot go on.
    Failed(anyhow::Error),
}

/// What is left when a crawl ends.
#[derive(Debug, Default)]
pub(crate) struct Left {
    stats: Option<worker::Stats>,
    seeds: Seeds,
    /// URLs that failed and are to be tried again, and when the first of them is.
    tries: (u64, Option<Seconds>),
}

impl Left {
    /// Asks the frontier. What it does not answer any more is not known.
    pub(crate) async fn look(shared: &Shared, end: &End) -> Left {
        let stats = shared.handle.stats().await.ok();
        if matches!(end, End::StoppedHard | End::Failed(_)) {
            return Left { stats, ..Left::default() };
        }
        // Who was interrupted may not have come to all seeds yet.
        let seeds = match end {
            End::Done | End::Waited(_) | End::SeedFailed => Seeds::look(shared).await.unwrap_or_default(),
            _ => Seeds::default(),
        };
        Left { stats, seeds, tries: shared.handle.second_tries().await.unwrap_or_default() }
    }
}

impl End {
    pub(crate) fn exit(self, left: &Left) -> anyhow::Result<Exit> {
        Ok(match self {
            End::SeedFailed => Exit::SeedsFailed,
            End::Done | End::Waited(_) if left.seeds.failed > 0 => Exit::SeedsFailed,
            End::Waited(_) => Exit::WaitLimit,
            End::Done if left.tries.0 > 0 => Exit::TriesLeft,
            End::Done => Exit::Done,
            End::Limit(Limit::Bytes) => Exit::SizeLimit,
            End::Limit(Limit::Time) => Exit::TimeLimit,
            End::Limit(_) => Exit::PageLimit,
            End::TooManyFailures => Exit::TooManyFailures,
            End::Stopped => Exit::Stopped,
            End::StoppedHard => Exit::StoppedHard,
            End::Failed(error) => return Err(error),
        })
    }
}

/// Ends the frontier, the archive and the log, in the order in which they depend on each other.
pub(crate) async fn close(
    shared: &Shared,
    worker: JoinHandle<Result<(), worker::Error>>,
    log: JoinHandle<std::io::Result<()>>,
) -> anyhow::Result<()> {
    let stopped = shared.handle.stop().await;
    let ended = tokio::task::spawn_blocking(move || worker.join());
    match ended.await.context("the frontier's thread")? {
        Ok(result) => result?,
        Err(_) => anyhow::bail!("the frontier's thread panicked"),
    }
    stopped?;
    if let Some(keep) = &shared.stages.keep {
        keep.close().await?;
    }
    // The log ends with the last of its writers, which somebody may still hold; its lines are written all the same.
    if log.is_finished() {
        log.join().map_err(|_| anyhow::anyhow!("the log's thread panicked"))?.context("writing the log")?;
    }
    Ok(())
}

/// The end report.
pub(crate) fn report(shared: &Shared, end: &End, left: &Left, quiet: bool) {
    if quiet {
        return;
    }
    let mut out = String::new();
    say(shared, end, left, &mut out).expect("a string takes text");
    // Nobody may be listening.
    _ = std::io::stderr().write_all(out.as_bytes());
}

fn say(shared: &Shared, end: &End, left: &Left, out: &mut String) -> std::fmt::Result {
    let counts = &shared.counts;
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let what = match end {
        End::Done => "done".to_owned(),
        End::Waited(_) => {
            let wait_max = humantime::format_duration(shared.settings.crawl.wait_max);
            format!("stopped waiting after {wait_max} (crawl.wait_max)")
        }
        End::SeedFailed => "stopped: a seed could not be fetched".into(),
        End::Limit(limit) => format!("stopped at the {}", name(*limit, &shared.limits())),
        End::TooManyFailures => "stopped: too many failures".into(),
        End::Stopped => "stopped".into(),
        End::StoppedHard => "stopped at once".into(),
        End::Failed(_) => "failed".into(),
    };
    let took = humantime::format_duration(Duration::from_secs(counts.began.elapsed().as_secs()));
    let pages = counts.pages();
    let noun = if pages == 1 { "page" } else { "pages" };
    write!(out, "{what}: {} {noun} in {took}, {} received", count(pages), size(get(&counts.bytes)))?;
    if get(&counts.revisits) > 0 {
        write!(
            out,
            ", {} of them known already ({} revisits)",
            size(get(&counts.revisit_bytes)),
            count(get(&counts.revisits))
        )?;
    }
    writeln!(out)?;
    let others = [
        (get(&counts.lists), "sitemaps and feeds"),
        (get(&counts.files), "images and other files"),
        (get(&counts.redirects), "redirects"),
        (get(&counts.gone), "not found"),
        (get(&counts.refused), "refused by the site"),
        (get(&counts.failed), "failed"),
        (get(&counts.robots), "robots.txt"),
    ];
    line(out, "also", &others)?;
    if get(&counts.reread) > 0 {
        let (pages, urls) = (count(get(&counts.reread)), count(get(&counts.reread_found)));
        writeln!(out, "  read again:  {pages} captures, {urls} URLs of them are new in scope")?;
    }
    let totals = left.stats.as_ref().map(|stats| &stats.totals);
    let denied = |end| end == Outcome::RobotsDenied;
    let not_fetched = [
        (get(&counts.links_out), "links out of scope"),
        (get(&counts.links_traps), "traps"),
        (totals.map_or(0, |totals| totals.all_jobs().ended_as(denied)), "closed by robots.txt"),
        (totals.map_or(0, |totals| totals.parked), "parked beyond a budget"),
    ];
    line(out, "not fetched", &not_fetched)?;
    if get(&counts.cut) > 0 {
        let (n, max) = (count(get(&counts.cut)), shared.settings.spider.body_bytes_max);
        writeln!(out, "  cut:         {n} bodies cut at {}: spider.body_bytes_max", binary_size(max))?;
    }
    let dir = shared.folder.dir().display();
    if left.seeds.failed > 0 {
        let (failed, all) = (count(left.seeds.failed), count(left.seeds.all));
        writeln!(out, "  seeds:       {failed} of {all} could not be fetched")?;
        for (url, why) in &left.seeds.named {
            writeln!(out, "               {}: {}", shown(url), shown(why))?;
        }
        let more = left.seeds.failed - left.seeds.named.len() as u64;
        if more > 0 {
            writeln!(out, "               and {} more: nephila report seeds -o {dir}", count(more))?;
        }
    }
    if left.tries.0 > 0 {
        let when = left.tries.1.map(|next| format!(", the next at {}", Timestamp::from(next).warc_date()));
        writeln!(
            out,
            "  later:       {} URLs that failed are to be tried again{}; `nephila crawl -o {dir}` goes on",
            count(left.tries.0),
            when.unwrap_or_default()
        )?;
    }
    let waiting = totals.map_or(0, |totals| totals.waiting);
    let planned = totals.map_or(0, |totals| totals.later).saturating_sub(left.tries.0);
    match end {
        End::Done if waiting > 0 => {
            writeln!(
                out,
                "  left:        {} URLs of hosts that are stopped: nephila stop list -o {dir}",
                count(waiting)
            )?;
        }
        End::Done => {}
        _ => {
            writeln!(out, "  left:        {} URLs queued; `nephila crawl -o {dir}` goes on", count(waiting))?;
        }
    }
    if let End::Waited(held) = end
        && let Some(text) = waiting_for(shared, held)
    {
        writeln!(out, "               {text}")?;
    }
    if planned > 0 {
        writeln!(out, "  planned:     {} URLs are due again later", count(planned))?;
    }
    writeln!(out, "  look at it:  nephila report summary -o {dir}     nephila explain URL -o {dir}")
}

/// Counts with their names, those that are none left out.
fn line(out: &mut String, title: &str, counts: &[(u64, &str)]) -> std::fmt::Result {
    let some: Vec<_> =
        counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))).collect();
    if some.is_empty() {
        return Ok(());
    }
    writeln!(out, "  {:<12} {}", format!("{title}:"), some.join(", "))
}

/// A limit as it is written in the settings: in MiB if it is whole ones.
fn binary_size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{bytes} bytes"),
    }
}
