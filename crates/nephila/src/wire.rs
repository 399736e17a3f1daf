//! Plugs the parts together. The one place that knows which implementation is used where.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use nephila_core::frontier::key::Prefixes;
use nephila_core::frontier::{Config, Rules};
use nephila_core::state::{Durable, MemoryState, StateError};
use nephila_log::Fence;
use nephila_log::local::LocalLog;
use nephila_spider::Spider;
use nephila_store::archive::{Archive, WarcInfo};
use nephila_store::disk::RealDisk;
use nephila_store::journal::{self, Journal};
use nephila_store::runs::Cache;
use nephila_store::state::{DiskState, Merger, Merging};

use crate::clock::Clock;
use crate::folder::Folder;
use crate::settings::{Settings, StateKind, usage};
use crate::worker::{Part, Running, Worker};

/// Memory for blocks of the state's files that were read lately, in bytes.
const STATE_CACHE_BYTES: usize = 64 << 20;

/// The spider of these settings.
pub(crate) fn spider(settings: &Settings) -> anyhow::Result<Spider> {
    let signer = crate::identity::signer(&settings.identity)?;
    Spider::signed(settings.spider.clone(), &settings.identity.user_agent(), signer)
        .map_err(|error| usage(error.into()))
}

/// The archive in this folder.
pub(crate) fn archive(dir: &Path, settings: &Settings) -> anyhow::Result<Archive> {
    let info = WarcInfo {
        software: format!("nephila/{}", env!("CARGO_PKG_VERSION")),
        user_agent: settings.identity.user_agent(),
        robots: if settings.robots.obey { "obey" } else { "ignore" }.into(),
        operator: settings.identity.contact.clone(),
        ..WarcInfo::default()
    };
    Archive::open(dir, settings.store.clone(), info).with_context(|| format!("archive in {}", dir.display()))
}

/// Everything the frontier goes by.
pub(crate) fn config(settings: &Settings) -> Config {
    Config {
        frontier: settings.frontier.clone(),
        retry: settings.retry.clone(),
        rules: Rules { budget: settings.budget.clone(), trap: settings.trap.clone() },
        robots: settings.robots.policy(),
        feed: settings.feed.clone(),
        agent: settings.identity.agent.clone(),
    }
}

/// States on this machine's disk: what all of them share.
#[derive(Clone, Debug)]
pub(crate) struct States {
    cache: Arc<Cache>,
    merging: Merging,
}

impl States {
    /// With a thread that merges their files.
    pub(crate) fn new() -> anyhow::Result<States> {
        let merging = Merging::Background(Merger::start().context("starting the merger")?);
        Ok(States { cache: Cache::new(STATE_CACHE_BYTES), merging })
    }

    /// The state in this folder.
    pub(crate) fn open(&self, tables: &Path) -> Result<DiskState, StateError> {
        DiskState::open(Arc::new(RealDisk), tables, self.merging.clone(), &self.cache)
    }
}

/// The worker of a crawl's folder, with everything folded that stands in its journals.
pub(crate) fn worker(folder: &Folder, settings: &Settings) -> anyhow::Result<Running> {
    match settings.crawl.state {
        StateKind::Memory => {
            // Nothing of it outlives the process, so what an earlier one wrote down leads nowhere.
            for path in folder.partitions()? {
                std::fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
            }
            worker_on(folder, settings, |_| Ok(MemoryState::new()))
        }
        StateKind::Disk => {
            let states = States::new()?;
            worker_on(folder, settings, move |path| states.open(path))
        }
    }
}

fn worker_on<S: Durable + Send + 'static>(
    folder: &Folder,
    settings: &Settings,
    state: impl Fn(&Path) -> Result<S, StateError>,
) -> anyhow::Result<Running> {
    let folders = folder.partitions()?;
    let count = u32::try_from(folders.len()).context("partitions")?;
    let mut parts = Vec::with_capacity(folders.len());
    let kept = journal::Settings { keep_bytes: settings.crawl.events_bytes, ..journal::Settings::default() };
    for (number, path) in (0..count).zip(&folders) {
        let what = || path.display().to_string();
        let (journal, _) = Journal::open(Arc::new(RealDisk), &path.join("log"), kept).with_context(what)?;
        let state = state(&path.join("tables")).with_context(what)?;
        parts.push(Part {
            prefixes: Prefixes::share(number, count),
            state,
            log: Box::new(LocalLog::new(journal, Fence::new())),
        });
    }
    let worker =
        Worker::open(config(settings), settings.worker.clone(), folder.secret()?, parts, Clock::new())
            .with_context(|| format!("the state in {}", folder.state().display()))?;
    Ok(worker.spawn()?)
}
