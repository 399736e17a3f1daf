//! How a crawl ended: files closed, a report for people, an exit code for schedulers.

use std::thread::JoinHandle;

use anyhow::Context;
use nephila_core::frontier::outlook::Held;
use nephila_core::job::Limit;
use nephila_core::time::Seconds;

use super::seeds::Seeds;
use super::shared::Shared;
use crate::exit::Exit;
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
    pub(crate) stats: Option<worker::Stats>,
    pub(crate) seeds: Seeds,
    /// URLs that failed and are to be tried again, and when the first of them is.
    pub(crate) tries: (u64, Option<Seconds>),
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
