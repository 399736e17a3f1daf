//! The edge of the answers about a crawl as a whole: samples its counters, and keeps what is expensive to find out for
//! the next readers.
//!
//! One task per process samples once a second, and asks the worker once in five seconds. However many readers there
//! are, the worker is asked at most once in [`STATUS_AGE`] for a status, and in [`HOSTS_AGE`] for its hosts; who comes
//! meanwhile gets the same answer. Files are read on blocking threads, [`READS_MAX`] requests at a time.
//!
//! Invariant: without a session nothing is sampled and nobody is asked.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::Context;
use nephila_core::frontier::outlook::Left;
use nephila_core::time::{Now, Timestamp};
use nephila_engine::clock::Clock;
use nephila_engine::crawl::held::Facts;
use nephila_engine::crawl::shared::Shared;
use nephila_engine::crawl::work::ready_horizon;
use nephila_engine::folder::{Folder, disk_free};
use nephila_engine::settings::Settings;
use nephila_engine::worker::Stats;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::alarms::{self, STALLED_S, Seen, Since};
use super::archive_view::{ArchiveCounts, ArchiveSaid};
use super::costly::Costly;
use super::history::HistorySaid;
use super::hosts::HostsSeen;
use super::jobs::{JobRow, ProgressSaid};
use super::log_view::{self, Filter, LogPart, LogWanted};
use super::politeness::{self, PolitenessSaid};
use super::sampler::{Counters, Gauges, SAMPLE_MS, Sampler};
use super::status::{DiskSaid, DoneSaid, FrontierSaid, HostsSaid, SlotsSaid, StatusPart, StatusSaid};
use super::webhooks;

/// Maximum age of a status.
pub const STATUS_AGE: Duration = Duration::from_millis(900);
/// Maximum age of a list of hosts.
pub const HOSTS_AGE: Duration = Duration::from_secs(2);
/// Maximum age of an answer about politeness. The verdict over the log in it may be older ([`Costly`]).
const POLITENESS_AGE: Duration = Duration::from_secs(5);
/// Maximum number of requests that read files at the same time; further ones wait.
pub const READS_MAX: usize = 2;
/// Timeout of the worker for the task that samples.
const WORKER_MAX: Duration = Duration::from_secs(4);
/// Bytes that were written in less time than this say nothing about a disk.
const WRITTEN_OVER_MIN_S: u64 = 60;

/// Something that is found out at most once in a time. Who comes while it is being found out waits for it.
#[derive(Debug)]
pub struct Fresh<T>(tokio::sync::Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Fresh(tokio::sync::Mutex::new(None))
    }
}

impl<T> Fresh<T> {
    /// What was found out, if it is not older; otherwise what `find` finds out. A failure is not kept.
    pub async fn get(
        &self,
        age_max: Duration,
        find: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<Arc<T>> {
        let mut known = self.0.lock().await;
        if let Some((at, value)) = &*known
            && at.elapsed() < age_max
        {
            return Ok(value.clone());
        }
        let value = Arc::new(find.await?);
        *known = Some((Instant::now(), value.clone()));
        Ok(value)
    }
}

/// See the module.
#[derive(Debug)]
pub struct Monitor {
    /// Name of the folder or the node.
    pub(super) name: String,
    mode: &'static str,
    folder: Folder,
    /// The settings of the process.
    pub(super) settings: Settings,
    clock: Clock,
    began: Timestamp,
    sampler: Mutex<Sampler>,
    since: Mutex<Since>,
    status: Fresh<StatusPart>,
    hosts: Fresh<HostsSeen>,
    polite: Fresh<PolitenessSaid>,
    judged: Costly<PolitenessSaid>,
    archive: Arc<ArchiveCounts>,
    reads: Arc<Semaphore>,
    /// The webhooks of the process; unset without any.
    webhooks: OnceLock<Arc<[Arc<webhooks::Seen>]>>,
    /// Held while the state of a job changes.
    pub(super) changing: tokio::sync::Mutex<()>,
}

/// A task that samples until dropped.
#[derive(Debug)]
pub struct Sampling(JoinHandle<()>);

impl Drop for Sampling {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Monitor {
    /// For a folder or a node. `mode` is `single`, `cluster` or `archive`.
    pub fn new(folder: Folder, settings: Settings, name: &str, mode: &'static str) -> Monitor {
        let clock = Clock::new();
        Monitor {
            name: name.to_owned(),
            mode,
            folder,
            settings,
            began: clock.now().wall,
            clock,
            sampler: Mutex::default(),
            since: Mutex::default(),
            status: Fresh::default(),
            hosts: Fresh::default(),
            polite: Fresh::default(),
            judged: Costly::default(),
            archive: Arc::default(),
            reads: Arc::new(Semaphore::new(READS_MAX)),
            webhooks: OnceLock::new(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    /// Sets the webhooks of the process, once.
    pub(super) fn set_webhooks(&self, webhooks: Arc<[Arc<webhooks::Seen>]>) {
        _ = self.webhooks.set(webhooks);
    }

    /// What is known about the webhooks of the process.
    pub fn webhooks(&self) -> &[Arc<webhooks::Seen>] {
        self.webhooks.get().map_or(&[], |webhooks| webhooks)
    }

    fn sampler(&self) -> MutexGuard<'_, Sampler> {
        self.sampler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the task that samples the crawl of the current session.
    pub fn start(self: &Arc<Self>, session: impl Fn() -> Option<Arc<Shared>> + Send + 'static) -> Sampling {
        let monitor = self.clone();
        Sampling(tokio::spawn(async move {
            let mut ticks = tokio::time::interval(Duration::from_millis(SAMPLE_MS));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if let Some(shared) = session() {
                    monitor.sample(&shared).await;
                }
            }
        }))
    }

    async fn sample(&self, shared: &Shared) {
        let now = self.clock.now();
        let wants_gauges = self.sampler().wants_gauges(now);
        self.sampler().note(now, counters(shared));
        if !wants_gauges {
            return;
        }
        let asked =
            async { Some((shared.handle.stats().await.ok()?, shared.handle.standings().await.ok()?)) };
        // A worker that does not answer leaves the gauges as they were.
        if let Ok(Some((stats, standings))) = tokio::time::timeout(WORKER_MAX, asked).await {
            let gauges = Gauges {
                queued: stats.totals.waiting,
                later: stats.totals.later,
                parked: stats.totals.parked,
                hosts_ready: standings.ready as u64,
            };
            self.sampler().gauge(now, gauges);
        }
    }

    /// The part of this process in a status, at most [`STATUS_AGE`] old. Without a session, what is known without one.
    pub async fn status(&self, session: Option<&Shared>) -> anyhow::Result<Arc<StatusPart>> {
        self.status
            .get(STATUS_AGE, async {
                match session {
                    Some(shared) => self.look(shared).await,
                    None => Ok(self.idle()),
                }
            })
            .await
    }

    /// The status of a process that crawls nothing: an archive, or a node without a lease.
    fn idle(&self) -> StatusPart {
        let is_archive = self.mode == "archive";
        let facts = match is_archive {
            true => Facts::of_archive(),
            false => Facts { nodes: 1, without_lease: 1, ..Facts::default() },
        };
        let now = self.clock.now();
        let status = StatusSaid {
            state: if is_archive { "archive" } else { "unknown" }.to_owned(),
            disk: self.disk(now),
            alarms: self.alarms(&facts, None, now),
            ..self.head(now)
        };
        StatusPart { status, facts }
    }

    fn head(&self, now: Now) -> StatusSaid {
        StatusSaid {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.name.clone(),
            mode: self.mode.to_owned(),
            now: now.wall.warc_date(),
            started_at: self.began.warc_date(),
            ..StatusSaid::default()
        }
    }

    async fn look(&self, shared: &Shared) -> anyhow::Result<StatusPart> {
        let now = self.clock.now();
        let horizon = ready_horizon(&self.settings.crawl, now.wall);
        let (stats, standings) = (shared.handle.stats().await?, shared.handle.standings().await?);
        let outlook = shared.handle.outlook(horizon).await?;
        let facts = Facts::of(shared, &outlook, &stats);
        let disk = self.disk(now);
        let number = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let frontier = FrontierSaid {
            hosts: HostsSaid {
                ready: number(standings.ready),
                busy: number(standings.busy),
                resting: number(standings.resting),
                backing_off: number(standings.backing_off),
                loading: number(standings.loading),
            },
            slots: SlotsSaid { busy: number(standings.slots_busy), idle: number(standings.slots_idle) },
            queued: stats.totals.waiting,
            later: stats.totals.later,
            parked: stats.totals.parked,
            offers_waiting: number(stats.gauges.offers_waiting),
            tickets_open: number(stats.gauges.tickets_open),
        };
        let state = match outlook.left {
            _ if facts.stopping > 0 => "stopping",
            Left::Nothing => "ready",
            Left::Held | Left::Work => "crawling",
        };
        let (rates, rates_60s) = {
            let sampler = self.sampler();
            (sampler.rates(now, 10), sampler.rates(now, 60))
        };
        let status = StatusSaid {
            state: state.to_owned(),
            rates,
            rates_60s,
            frontier,
            done: done(shared, &stats),
            jobs: self.jobs(shared, &stats),
            disk,
            alarms: self.alarms(&facts, disk.full_in_s, now),
            webhooks: self.webhooks().iter().map(|webhook| webhook.said(now.wall)).collect(),
            ..self.head(now)
        };
        Ok(StatusPart { status, facts })
    }

    /// The job of a crawl on one machine. A node finds its jobs at the servers.
    fn jobs(&self, shared: &Shared, stats: &Stats) -> Vec<JobRow> {
        if self.mode != "single" {
            return Vec::new();
        }
        let plan = shared.plan();
        let first = JobRow::of(&plan.job, ProgressSaid::of(&stats.totals, plan.job.id));
        drop(plan);
        std::iter::once(first).chain(super::more_jobs::rows(shared, &stats.totals)).collect()
    }

    fn alarms(&self, facts: &Facts, full_in_s: Option<u64>, now: Now) -> Vec<alarms::AlarmSaid> {
        let (lately, last_minute) = {
            let sampler = self.sampler();
            (sampler.lately(now, alarms::LATELY_S).0, sampler.lately(now, STALLED_S).0.pages())
        };
        let pages_last_minute = (now.mono >= STALLED_S * 1_000).then_some(last_minute);
        let webhooks = self.webhooks().iter().filter_map(|webhook| webhook.trouble(now.wall)).collect();
        let active =
            alarms::active(&Seen { facts: Some(facts), lately, pages_last_minute, full_in_s, webhooks });
        self.since.lock().unwrap_or_else(PoisonError::into_inner).note(active, now.wall)
    }

    fn disk(&self, now: Now) -> DiskSaid {
        // Some file systems do not say.
        let Ok(free_bytes) = disk_free(self.folder.dir()) else { return DiskSaid::default() };
        let (sum, covered) = self.sampler().lately(now, super::history::SECONDS_MAX);
        let room = free_bytes.saturating_sub(self.settings.crawl.disk_free_min);
        let is_known = covered >= WRITTEN_OVER_MIN_S && sum.written_bytes > 0;
        let full_in_s = is_known.then(|| (room as f64 / (sum.written_bytes as f64 / covered as f64)) as u64);
        DiskSaid { free_bytes, full_in_s }
    }

    /// The history of the last seconds.
    pub fn history(&self, seconds: u64) -> HistorySaid {
        HistorySaid::of(&self.sampler(), self.clock.now(), seconds)
    }

    /// The hosts of the worker, at most [`HOSTS_AGE`] old.
    pub async fn hosts(&self, shared: &Shared) -> anyhow::Result<Arc<HostsSeen>> {
        self.hosts.get(HOSTS_AGE, async { Ok(HostsSeen::look(&shared.handle).await?) }).await
    }

    /// Runs a read of files on a blocking thread.
    fn read<T, R>(
        &self,
        read: R,
        path: std::path::PathBuf,
    ) -> impl Future<Output = anyhow::Result<T>> + use<T, R>
    where
        T: Send + 'static,
        R: FnOnce(&Path) -> std::io::Result<T> + Send + 'static,
    {
        let reads = self.reads.clone();
        async move {
            let room = reads.acquire_owned().await.context("reading has ended")?;
            let done = tokio::task::spawn_blocking(move || {
                // The place ends with the read, not with the request.
                let _room = room;
                read(&path).with_context(|| format!("reading {}", path.display()))
            });
            done.await.unwrap_or_else(|panic| Err(anyhow::anyhow!("reading failed: {panic}")))
        }
    }

    /// Lines of the log of this process.
    pub async fn log(&self, wanted: LogWanted) -> anyhow::Result<LogPart> {
        self.read(move |logs| log_view::read(logs, &wanted), self.folder.logs()).await
    }

    /// New lines of the log, from now on.
    pub fn tail(&self, filter: Filter) -> std::io::Result<log_view::LogTail> {
        log_view::LogTail::new(self.folder.logs(), filter)
    }

    /// The verdict about the newest part of the log. The one about all hosts may be some seconds old, and up to two minutes
    /// if it took long ([`Costly`]).
    pub async fn politeness(
        &self,
        session: Option<&Shared>,
        host: Option<String>,
    ) -> anyhow::Result<Arc<PolitenessSaid>> {
        let frontier = &self.settings.frontier;
        let connections = (frontier.host_connections, frontier.slot_connections);
        let is_all = host.is_none();
        let filter = Filter::of_host(host.as_deref());
        let of = filter.clone();
        let judge = self.read(move |logs| politeness::judge(logs, &of, connections), self.folder.logs());
        let find = async {
            let said = match is_all {
                true => PolitenessSaid::clone(&*self.judged.get(judge).await?),
                false => judge.await?,
            };
            match session {
                Some(shared) => Ok(said.with_hosts(&*self.hosts(shared).await?, &filter)),
                None => Ok(said),
            }
        };
        if is_all { self.polite.get(POLITENESS_AGE, find).await } else { Ok(Arc::new(find.await?)) }
    }

    /// The archive of this process.
    pub async fn archive(
        &self,
        session: Option<&Shared>,
        limit: usize,
        cursor: Option<String>,
    ) -> anyhow::Result<ArchiveSaid> {
        self.archive.count_soon(self.folder.archive()).await;
        let counts = self.archive.clone();
        let look = move |dir: &Path| counts.look(dir, limit, cursor.as_deref());
        let mut said = self.read(look, self.folder.archive()).await?;
        said.saved_bytes = session.map_or(0, |shared| shared.counts.revisit_bytes.load(Relaxed));
        Ok(said)
    }
}

/// The counters of a session for the sampler.
fn counters(shared: &Shared) -> Counters {
    let (counts, metrics) = (&shared.counts, &shared.counts.metrics);
    let mut all = Counters {
        bytes: counts.bytes.load(Relaxed),
        written_bytes: metrics.written_bytes.load(Relaxed),
        ..Counters::default()
    };
    for (group, number) in metrics.fetches.get() {
        match group {
            "2xx" | "304" => all.ok += number,
            "3xx" => all.redirect += number,
            "4xx" => all.client_error += number,
            "429" => {
                all.client_error += number;
                all.rate_limited += number;
            }
            "5xx" => all.server_error += number,
            _ => all.failed += number,
        }
    }
    all
}

fn done(shared: &Shared, stats: &Stats) -> DoneSaid {
    let counts = &shared.counts;
    let get = |count: &AtomicU64| count.load(Relaxed);
    DoneSaid {
        robots: get(&counts.robots),
        revisits: get(&counts.revisits),
        saved_bytes: get(&counts.revisit_bytes),
        written_bytes: get(&counts.metrics.written_bytes),
        ..DoneSaid::of(&stats.totals.all_jobs())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[tokio::test]
    async fn what_is_fresh_is_found_out_once_for_all_who_ask() {
        let (fresh, found) = (Fresh::<u64>::default(), AtomicU64::default());
        let find = || async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(found.fetch_add(1, Relaxed))
        };
        let hour = Duration::from_secs(3_600);
        let asked = (0..50).map(|_| fresh.get(hour, find()));
        let answers = futures_util::future::join_all(asked).await;
        assert!(answers.iter().all(|answer| **answer.as_ref().unwrap() == 0));
        assert_eq!(found.load(Relaxed), 1);
        assert_eq!(*fresh.get(Duration::ZERO, find()).await.unwrap(), 1, "an old one is found out anew");
    }

    #[tokio::test]
    async fn a_failure_is_not_kept() {
        let fresh = Fresh::<u64>::default();
        let hour = Duration::from_secs(3_600);
        assert!(fresh.get(hour, async { Err(anyhow::anyhow!("away")) }).await.is_err());
        assert_eq!(*fresh.get(hour, async { Ok(7) }).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn an_archive_says_that_it_is_only_read() {
        let dir = tempfile::tempdir().unwrap();
        let monitor = Monitor::new(Folder::new(dir.path()), Settings::default(), "old", "archive");
        let part = monitor.status(None).await.unwrap();
        let said = StatusPart::clone(&part).conclude();
        assert_eq!((&*said.state, &*said.mode, &*said.name), ("archive", "archive", "old"));
        assert_eq!(said.sentence, "A finished archive: it is read, and nothing is fetched.");
        assert!(said.disk.free_bytes > 0 && said.alarms.is_empty());
        assert_eq!(monitor.history(3_600).points, []);
        assert_eq!(monitor.log(LogWanted::default()).await.unwrap().lines, []);
        assert_eq!(monitor.politeness(None, None).await.unwrap().requests, 0);
        assert_eq!(monitor.archive(None, 10, None).await.unwrap().files_total, 0);
    }

    #[tokio::test]
    async fn a_node_without_a_lease_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let monitor = Monitor::new(Folder::new(dir.path()), Settings::default(), "n1", "cluster");
        let part = monitor.status(None).await.unwrap();
        assert_eq!((&*part.status.state, &*part.status.alarms[0].name), ("unknown", "lease"));
    }
}
