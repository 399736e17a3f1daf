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
pub enum End {
    /// Nothing is left but retries.
    Done,
    /// The crawl has only waited for these hosts for `crawl.wait_max`.
    Waited(Held),
    /// A seed could not be fetched, with `--fail-on-seed-error`.
    SeedFailed,
    /// A limit of the job.
    Limit(Limit),
    /// More failures than `--errors-max`.
    TooManyFailures,
    /// A signal; open fetches were finished.
    Stopped,
    /// A second signal.
    StoppedHard,
    /// The crawl cannot go on.
    Failed(anyhow::Error),
}

/// State of the frontier at the end of a crawl.
#[derive(Debug, Default)]
pub struct Left {
    /// Statistics of the frontier; none if the frontier has stopped.
    pub stats: Option<worker::Stats>,
    /// Outcomes of the seeds; empty after an interrupted crawl.
    pub seeds: Seeds,
    /// Number of failed URLs that wait for a retry, and the time of the first retry.
    pub tries: (u64, Option<Seconds>),
}

impl Left {
    /// Queries the frontier. Values that a stopped frontier does not return stay unknown.
    pub async fn look(shared: &Shared, end: &End) -> Left {
        let stats = shared.handle.stats().await.ok();
        if matches!(end, End::StoppedHard | End::Failed(_)) {
            return Left { stats, ..Left::default() };
        }
        // An interrupted crawl may not have reached all seeds yet.
        let seeds = match end {
            End::Done | End::Waited(_) | End::SeedFailed => Seeds::look(shared).await.unwrap_or_default(),
            _ => Seeds::default(),
        };
        Left { stats, seeds, tries: shared.handle.second_tries().await.unwrap_or_default() }
    }
}

impl End {
    /// Returns the exit status of the process, or the error that ended the crawl.
    pub fn exit(self, left: &Left) -> anyhow::Result<Exit> {
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

/// Closes the frontier, the archive, the traces and the log, in the order of their dependencies.
pub async fn close(
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
    shared.traces.flush().await;
    // The log ends with its last writer, which another task may still hold; its lines are written all the same.
    if log.is_finished() {
        log.join().map_err(|_| anyhow::anyhow!("the log's thread panicked"))?.context("writing the log")?;
    }
    Ok(())
}
