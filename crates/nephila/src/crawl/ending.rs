//! How a crawl ended: files closed, a report for people, an exit code for schedulers.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use nephila_core::job::Limit;
use nephila_core::spider::Outcome;
use nephila_core::time::{Seconds, Timestamp};

use super::shared::Shared;
use super::work::name;
use crate::exit::Exit;
use crate::human::{count, size};
use crate::worker;

/// Why a crawl ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Nothing is left that could be fetched soon.
    Done {
        /// URLs that are planned for a later time.
        later: u64,
        /// When the next of them is due, if that is known.
        next: Option<Seconds>,
    },
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

impl End {
    pub(crate) fn exit(self) -> anyhow::Result<Exit> {
        Ok(match self {
            End::Done { .. } => Exit::Done,
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
    if let Some(archive) = &shared.archive {
        archive.close().await.context("closing the archive")?;
    }
    // The log ends with the last of its writers, which somebody may still hold; its lines are written all the same.
    if log.is_finished() {
        log.join().map_err(|_| anyhow::anyhow!("the log's thread panicked"))?.context("writing the log")?;
    }
    Ok(())
}

/// The end report.
pub(crate) fn report(shared: &Shared, end: &End, totals: Option<&worker::Stats>, quiet: bool) {
    if quiet {
        return;
    }
    let mut out = String::new();
    say(shared, end, totals, &mut out).expect("a string takes text");
    // Nobody may be listening.
    _ = std::io::stderr().write_all(out.as_bytes());
}

fn say(shared: &Shared, end: &End, totals: Option<&worker::Stats>, out: &mut String) -> std::fmt::Result {
    let counts = &shared.counts;
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let what = match end {
        End::Done { .. } => "done".to_owned(),
        End::Limit(limit) => format!("stopped at the {}", name(*limit, &shared.limits())),
        End::TooManyFailures => "stopped: too many failures".into(),
        End::Stopped => "stopped".into(),
        End::StoppedHard => "stopped at once".into(),
        End::Failed(_) => "failed".into(),
    };
    let took = humantime::format_duration(Duration::from_secs(counts.began.elapsed().as_secs()));
    write!(out, "{what}: {} pages in {took}, {} received", count(get(&counts.ok)), size(get(&counts.bytes)))?;
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
        (get(&counts.redirects), "redirects"),
        (get(&counts.gone), "not found"),
        (get(&counts.refused), "refused by the site"),
        (get(&counts.failed), "failed"),
        (get(&counts.robots), "robots.txt"),
    ];
    let others: Vec<_> =
        others.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))).collect();
    if !others.is_empty() {
        writeln!(out, "  also:        {}", others.join(", "))?;
    }
    let left = [
        (get(&counts.links_out), "links out of scope"),
        (get(&counts.links_traps), "traps"),
        (
            totals.map_or(0, |stats| stats.totals.all_jobs().ended_as(|end| end == Outcome::RobotsDenied)),
            "closed by robots.txt",
        ),
        (totals.map_or(0, |stats| stats.totals.parked), "parked beyond a budget"),
    ];
    let left: Vec<_> =
        left.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{} {what}", count(*n))).collect();
    if !left.is_empty() {
        writeln!(out, "  not fetched: {}", left.join(", "))?;
    }
    let dir = shared.folder.dir().display();
    match end {
        End::Done { later: 0, .. } => {}
        End::Done { later, next } => {
            let when = next.map(|next| format!(", the next at {}", Timestamp::from(next).warc_date()));
            writeln!(
                out,
                "  later:       {} URLs are to be tried again{}; the same command goes on",
                count(*later),
                when.unwrap_or_default()
            )?;
        }
        _ => {
            let queued = totals.map_or(0, |stats| stats.totals.waiting + stats.totals.later);
            writeln!(out, "  left:        {} URLs queued; `nephila crawl -o {dir}` goes on", count(queued))?;
        }
    }
    writeln!(out, "  look at it:  nephila report summary -o {dir}     nephila explain URL -o {dir}")
}
