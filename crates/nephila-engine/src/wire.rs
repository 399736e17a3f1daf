//! Connects the parts. The one place that knows which implementation is used where.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use nephila_core::frontier::{Config, Rules};
use nephila_core::key::{DomainKey, HostKey, Prefixes, Secret, UrlKey};
use nephila_core::state::record::HostRecord;
use nephila_core::state::{Durable, MemoryState, StateError};
use nephila_core::url::CrawlUrl;
use nephila_log::Fence;
use nephila_log::local::LocalLog;
use nephila_spider::Spider;
use nephila_store::archive::damage::What;
use nephila_store::archive::{Archive, WarcInfo};
use nephila_store::contents::Key;
use nephila_store::disk::RealDisk;
use nephila_store::journal::{self, Journal, Marks};
use nephila_store::runs::Cache;
use nephila_store::state::{DiskState, Merger, Merging, check};

use crate::clock::{Clock, Gate};
use crate::crawl::stage::Fetch;
use crate::exit::Exit;
use crate::folder::{Folder, damaged};
use crate::remote::Remote;
use crate::remote::v2::Spiders;
use crate::settings::{Settings, StateKind, usage};
use crate::worker::{Part, Running, Worker};

/// Size in bytes of the block cache for the files of the states.
pub const STATE_CACHE_BYTES: usize = 64 << 20;
/// Maximum number of bytes of tables that are read for a check when a crawl begins. `nephila verify` reads all.
pub const LOOK_BYTES_MAX: u64 = 256 << 20;

/// The spider of these settings.
pub fn spider(settings: &Settings) -> anyhow::Result<Spider> {
    if let Some(why) = crate::settings::missing_secret(settings) {
        return Err(usage(anyhow::anyhow!(why)));
    }
    let signer = crate::identity::signer(&settings.identity)?;
    Spider::signed(settings.spider.clone(), &settings.identity.user_agent(), signer)
        .map_err(|error| usage(error.into()))
}

/// Waits until no spider of an earlier process can ask sites any more. To be called before a crawl goes on, so that hosts
/// rest from then on.
pub async fn outwait_spiders(settings: &Settings) {
    if settings.spiders.are_version_2() {
        let lease = settings.spiders.lease;
        tracing::info!("waits for {lease:?}: spiders of an earlier run may still ask sites (spiders.lease)");
        tokio::time::sleep(lease).await;
    }
}

/// The fetching stage of these settings: this spider, or remote ones. `gate` is the lease of a node in its cluster, which
/// may have had an earlier process.
pub async fn fetch(
    settings: &Settings,
    spider: &Spider,
    gate: Option<Gate>,
) -> anyhow::Result<Arc<dyn Fetch>> {
    let (settings_of, spider) = (&settings.spiders, spider.clone());
    if gate.is_some() {
        outwait_spiders(settings).await;
    }
    Ok(match () {
        () if settings_of.are_version_2() => Arc::new(Spiders::start(settings, spider, gate).await?),
        () if settings_of.are_version_1() => Arc::new(Remote::start(settings, spider).await?),
        () => Arc::new(spider),
    })
}

/// The archive in this folder. Missing or damaged files are reported.
pub fn archive(dir: &Path, settings: &Settings) -> anyhow::Result<Archive> {
    let info = WarcInfo {
        software: format!("nephila/{}", env!("CARGO_PKG_VERSION")),
        user_agent: settings.identity.user_agent(),
        robots: if settings.robots.obey { "obey" } else { "ignore" }.into(),
        operator: settings.identity.contact.clone(),
        // The name by which tables know the crawl.
        is_part_of: crawl_of(dir, settings),
        ..WarcInfo::default()
    };
    let archive = Archive::open(dir, settings.store.clone(), info)
        .with_context(|| format!("archive in {}", dir.display()))?;
    for damage in &archive.recovered().damage {
        let todo = match damage.what {
            What::Index | What::List | What::Lost(0) => String::new(),
            What::Lost(_) => {
                format!("; they stand in {}, and a crawl fetches them again", dir.join("lost").display())
            }
            _ => format!(
                "; put it back from a copy, or `nephila crawl -o {} --mend` fetches its pages again",
                dir.display()
            ),
        };
        tracing::warn!("{} {}{todo}", damage.file.display(), damage.what);
    }
    Ok(archive)
}

/// The name of a crawl: that of the cluster, or of the folder.
fn crawl_of(dir: &Path, settings: &Settings) -> String {
    if !settings.cluster.servers.is_empty() {
        return settings.cluster.name.clone();
    }
    let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
    dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The configuration of the frontier.
pub fn config(settings: &Settings) -> Config {
    Config {
        frontier: settings.frontier.clone(),
        retry: settings.retry.clone(),
        rules: Rules { budget: settings.budget.clone(), trap: settings.trap.clone() },
        robots: settings.robots.policy(),
        feed: settings.feed.clone(),
        agent: settings.identity.agent.clone(),
    }
}

/// States on this machine's disk: their shared parts.
#[derive(Clone, Debug)]
pub struct States {
    cache: Arc<Cache>,
    merging: Merging,
}

impl States {
    /// Starts the thread that merges files.
    pub fn new() -> anyhow::Result<States> {
        let merging = Merging::Background(Merger::start().context("starting the merger")?);
        Ok(States { cache: Cache::new(STATE_CACHE_BYTES), merging })
    }

    /// The state in this folder.
    pub fn open(&self, tables: &Path) -> Result<DiskState, StateError> {
        DiskState::open(Arc::new(RealDisk), tables, self.merging.clone(), &self.cache)
    }
}

/// The worker of a crawl's folder, after a replay of its journals. A damaged state is rebuilt from the journals if they
/// are intact; else the result is an [`Exit::Damaged`]. `deep` reads every file to its end.
pub fn worker(folder: &Folder, settings: &Settings, deep: bool) -> anyhow::Result<Running> {
    match settings.crawl.state {
        StateKind::Memory => {
            let paths = folder.partitions()?;
            if paths.iter().any(|path| holds_something(&path.join("tables"))) {
                return Err(usage(anyhow::anyhow!(
                    "{} holds a crawl whose state is on disk, and crawl.state = \"memory\" would forget it: leave the setting \
                     out to go on with it (--set crawl.state=disk), or name another folder with -o DIR",
                    folder.dir().display()
                )));
            }
            // A state in memory ends with the process, so journals of earlier processes have no use.
            for path in paths {
                std::fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
            }
            _ = std::fs::remove_file(folder.marks());
            worker_on(folder, settings, None, |_| Ok(MemoryState::new()))
        }
        StateKind::Disk => {
            let states = States::new()?;
            let look = if deep { u64::MAX } else { LOOK_BYTES_MAX };
            worker_on(folder, settings, Some(look), move |path| states.open(path))
        }
    }
}

/// Whether a folder is non-empty.
pub fn holds_something(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}

/// `look` is the number of bytes of tables to read for the check; none if nothing stays on disk.
pub fn worker_on<S: Durable + Send + 'static>(
    folder: &Folder,
    settings: &Settings,
    look: Option<u64>,
    state: impl Fn(&Path) -> Result<S, StateError>,
) -> anyhow::Result<Running> {
    let mut contents = folder.contents()?;
    if look.is_some() && contents.partitions > 0 && !folder.has_partitions() {
        let text = format!("the state of the crawl, {}, is gone", folder.state().display());
        return Err(damaged(format!("{text}: {}", what_to_do(folder))));
    }
    let secret = folder.secret(&contents)?;
    let folders = folder.partitions()?;
    let count = u32::try_from(folders.len()).context("partitions")?;
    let path = folder.marks();
    if contents.partitions > 0 && !path.exists() && look.is_some() {
        let what = "was gone: whether a journal lost its end before now cannot be told";
        tracing::warn!(path = %path.display(), "{} {what}", path.display());
    }
    let marks = Marks::open(&path, count).with_context(|| path.display().to_string())?;
    let unread = (0..count).filter(|number| marks.get(*number).is_none()).count();
    if unread > 0 {
        let what = "are damaged: whether a journal lost its end before now cannot be told";
        tracing::warn!(path = %path.display(), "{unread} marks in {} {what}", path.display());
    }
    let mut parts = Vec::with_capacity(folders.len());
    let mut wrong = Vec::new();
    let mut look = look.unwrap_or(0);
    for (number, path) in (0..count).zip(&folders) {
        let prefixes = Prefixes::share(number, count);
        match part(path, prefixes, settings, &marks, number, &mut look, &state) {
            Ok(mut part) => match part.replay(settings.worker.dirty_bytes_max / folders.len().max(1)) {
                Ok(_) if !fits(&mut part, &secret)? => wrong.push(format!(
                    "{} was written under another key than state/secret, or for another partition",
                    path.display()
                )),
                Ok(_) => parts.push(part),
                Err(error) => wrong.push(format!("{}: {error}", path.display())),
            },
            Err(error) if is_damage(&error) => wrong.push(format!("{error:#}")),
            Err(error) => return Err(error),
        }
    }
    if !wrong.is_empty() {
        return Err(damaged(format!("{}: {}", wrong.join("; "), what_to_do(folder))));
    }
    contents.key = Some(Key(secret.0));
    contents.partitions = if settings.crawl.state == StateKind::Disk { count } else { 0 };
    folder.set_contents(&contents)?;
    let worker = Worker::open(config(settings), settings.worker.clone(), secret, parts, Clock::new())
        .with_context(|| format!("the state in {}", folder.state().display()))?;
    Ok(worker.spawn()?)
}

/// Describes the options for a damaged state.
pub fn what_to_do(folder: &Folder) -> String {
    format!(
        "put it back from a copy, or `nephila crawl -o {} --mend` sets the state aside and asks for everything again",
        folder.dir().display()
    )
}

/// Opens a partition. Damaged tables are rebuilt if the journal is complete.
pub fn part<S: Durable>(
    path: &Path,
    prefixes: Prefixes,
    settings: &Settings,
    marks: &Marks,
    number: u32,
    look: &mut u64,
    state: impl Fn(&Path) -> Result<S, StateError>,
) -> anyhow::Result<Part<S>> {
    let what = || path.display().to_string();
    let mark = marks.get(number).unwrap_or_default();
    let kept = journal::Settings { keep_bytes: settings.crawl.events_bytes, ..journal::Settings::default() };
    let (journal, _) = Journal::open_expecting(Arc::new(RealDisk), &path.join("log"), kept, mark.synced)
        .with_context(what)?;
    let tables = path.join("tables");
    // The folder is made before the first group is written.
    let is_gone = *look > 0 && mark.synced > 0 && !tables.is_dir();
    let opened = match is_gone {
        true => Err(StateError::Damaged(format!("{} is gone", tables.display()))),
        false => check(&tables, mark.checkpoint, look).and_then(|_| state(&tables)),
    };
    let state = match opened {
        Err(error @ (StateError::Damaged(_) | StateError::Disk(_)))
            if journal.first() == 1 && journal.synced() > 0 =>
        {
            tracing::warn!(%error, "{error}; it is made again from the journal");
            if tables.exists() {
                std::fs::remove_dir_all(&tables).with_context(what)?;
            }
            state(&tables).with_context(what)?
        }
        opened => opened.with_context(what)?,
    };
    if journal.synced() == 0 && state.position().sequence > 0 {
        return Err(damaged(format!("the journal in {} is gone", path.join("log").display())));
    }
    let log = Box::new(LocalLog::new(journal, Fence::new()).marked(marks.marker(number)));
    Ok(Part { prefixes, state, log })
}

/// Whether the error is damage or loss, so that a retry does not help.
pub fn is_damage(error: &anyhow::Error) -> bool {
    let journal = error.downcast_ref::<journal::Error>();
    error.downcast_ref::<Exit>() == Some(&Exit::Damaged)
        || matches!(error.downcast_ref(), Some(StateError::Damaged(_) | StateError::Disk(_)))
        || journal.is_some_and(|error| !matches!(error, journal::Error::Disk { .. }))
}

/// Number of hosts whose keys are checked to see whether a partition belongs to this crawl.
pub const HOSTS_LOOKED_AT: usize = 8;

/// Whether a partition was written under this key, and for these prefixes.
pub fn fits<S: Durable>(part: &mut Part<S>, secret: &Secret) -> anyhow::Result<bool> {
    let mut hosts = Vec::new();
    part.state.hosts_from(HostKey::MIN, HOSTS_LOOKED_AT, &mut hosts)?;
    let is_ours = |(key, record): &(HostKey, HostRecord)| {
        // A displaced host has a key that is not its own.
        let is_own = |url: CrawlUrl| {
            // A host of a spread domain is hashed by its name.
            UrlKey::of(&url, secret).host.domain == key.domain
                || DomainKey::of(url.host_str(), secret) == key.domain
        };
        // An order of an operator (a stop, a crawl delay) may name a host before any URL of it is found: its record has no
        // origin then, and tells nothing about the key.
        let is_ordered = record.origin.is_empty();
        part.prefixes.holds(key.domain) && (is_ordered || CrawlUrl::parse(&record.origin).is_ok_and(is_own))
    };
    Ok(hosts.iter().all(is_ours))
}
