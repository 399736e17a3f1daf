//! A crawl for programs that embed the crawler.
//!
//! [`Crawl::builder`] takes seeds, settings and stages; [`Builder::run`] crawls to the end and returns a [`Summary`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use nephila_core::job::{Job, Kind, Limits, Scope};
use nephila_core::url::CrawlUrl;
use tokio::sync::Notify;

use crate::crawl::ending::{self, End};
use crate::crawl::shared::{JOB, Shared, Tools};
use crate::crawl::stage::{Fetch, Keep, Observe, Read, StandardReader, Visited};
use crate::crawl::tables::Tables;
use crate::crawl::{begin, fetch_lost, reread, revisit, stops, work};
use crate::exit::Exit;
use crate::folder::{Folder, Plan};
use crate::process::Signals;
use crate::settings::{Settings, StateKind};
use crate::{log, wire};

/// One crawl on this machine. See [`Crawl::builder`].
#[derive(Debug)]
pub struct Crawl;

impl Crawl {
    /// A crawl at the shipped settings: robots.txt is obeyed, each host rests between two requests.
    pub fn builder() -> Builder {
        Builder::default()
    }
}

/// Sets a crawl up. Every method replaces what an earlier call said, except [`Builder::seed`], which adds.
#[derive(Default)]
pub struct Builder {
    settings: Settings,
    scope: Scope,
    limits: Limits,
    folder: Option<PathBuf>,
    private_seeds: bool,
    fetch: Option<Arc<dyn Fetch>>,
    keep: Option<Arc<dyn Keep>>,
    read: Option<Arc<dyn Read>>,
    observe: Option<Arc<dyn Observe>>,
    stop: Arc<Notify>,
}

/// How a crawl ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Number of pages fetched; sitemaps, feeds, images and robots.txt do not count.
    pub pages: u64,
    /// Number of bytes received.
    pub bytes: u64,
    /// Number of requests that failed, perhaps to be retried by a later run.
    pub failed: u64,
    /// Number of seeds that could not be fetched.
    pub seeds_failed: u64,
    /// Why the crawl ended.
    pub end: Exit,
}

/// Calls a function for every page.
struct OnPage<F>(F);

impl<F: Fn(&Visited<'_>) + Send + Sync> Observe for OnPage<F> {
    fn visited(&self, visited: &Visited<'_>) {
        (self.0)(visited);
    }
}

impl Builder {
    /// Adds a URL at which the crawl begins. The default scope is the folder of each seed.
    pub fn seed(mut self, url: impl Into<String>) -> Builder {
        self.scope.seeds.push(url.into());
        self
    }

    /// The contact for site owners, a URL or an e-mail address. Without a contact no public site is requested.
    pub fn contact(mut self, contact: impl Into<String>) -> Builder {
        self.settings.identity.contact = contact.into();
        self
    }

    /// The scope: which links are followed.
    pub fn scope(mut self, kind: Kind) -> Builder {
        self.scope.kind = kind;
        self
    }

    /// The limits of the crawl: pages, bytes, time.
    pub fn limits(mut self, limits: Limits) -> Builder {
        self.limits = limits;
        self
    }

    /// The folder with the WARC files and the state. A crawl of the same folder goes on where the last one ended.
    /// Without a folder the state is in memory and nothing is archived.
    pub fn folder(mut self, dir: impl AsRef<Path>) -> Builder {
        self.folder = Some(dir.as_ref().to_owned());
        self
    }

    /// All settings, as in `nephila.toml`.
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// Permits the seeds to lie on private and loopback addresses. Links to such addresses stay forbidden.
    pub fn allow_private_seeds(mut self) -> Builder {
        self.private_seeds = true;
        self
    }

    /// Replaces the spider, which fetches over the network.
    pub fn fetch(mut self, fetch: impl Fetch + 'static) -> Builder {
        self.fetch = Some(Arc::new(fetch));
        self
    }

    /// Replaces the WARC archive.
    pub fn keep(mut self, keep: impl Keep + 'static) -> Builder {
        self.keep = Some(Arc::new(keep));
        self
    }

    /// Replaces the reader of HTML, CSS, sitemaps and feeds.
    pub fn read(mut self, read: impl Read + 'static) -> Builder {
        self.read = Some(Arc::new(read));
        self
    }

    /// Adds an observer of decisions and pages.
    pub fn observe(mut self, observe: impl Observe + 'static) -> Builder {
        self.observe = Some(Arc::new(observe));
        self
    }

    /// Calls a function for every page that was fetched and read, as the observer. The page is not durable yet.
    pub fn on_page(self, call: impl Fn(&Visited<'_>) + Send + Sync + 'static) -> Builder {
        self.observe(OnPage(call))
    }

    /// The crawl ends when this is notified: open requests are finished, and the next run goes on.
    pub fn stop(mut self, stop: Arc<Notify>) -> Builder {
        self.stop = stop;
        self
    }

    /// The settings and the plan of the crawl in this folder.
    fn plan(&mut self, folder: &Folder) -> anyhow::Result<Plan> {
        let mut plan = folder.plan()?.unwrap_or_else(|| Plan::of(Job::new(JOB, "crawl")));
        let scope = std::mem::take(&mut self.scope);
        let seeds = scope.seeds.iter().chain(&plan.job.scope.seeds).cloned();
        let mut seeds: Vec<String> = seeds.collect();
        seeds.sort();
        seeds.dedup();
        plan.job.scope = Scope { seeds, ..scope };
        plan.job.limits = self.limits.clone();
        plan.job.check().context("the job of the crawl")?;
        plan.settle(&mut self.settings);
        Ok(plan)
    }

    /// Crawls until nothing is left, a limit is reached or the crawl is stopped. Needs a multi-threaded tokio runtime.
    pub async fn run(mut self) -> anyhow::Result<Summary> {
        let temporary = match self.folder {
            None => Some(tempfile::tempdir().context("a temporary folder")?),
            Some(_) => None,
        };
        let dir = self.folder.clone().or_else(|| Some(temporary.as_ref()?.path().to_owned()));
        let folder = Folder::new(dir.context("a folder")?);
        if temporary.is_some() {
            self.settings.crawl.state = StateKind::Memory;
        }
        anyhow::ensure!(
            self.settings.webhooks.is_empty(),
            "[[webhooks]] are sent by `nephila crawl` and `nephila serve`: use `Builder::observe`, or follow `nephila log --events`"
        );
        folder.check_papers(false)?;
        let plan = self.plan(&folder)?;
        let _lock = folder.lock()?;
        folder.set_plan(&plan)?;
        folder.set_settings(&self.settings)?;
        let Builder { settings, private_seeds, fetch, keep, read, observe, stop, .. } = self;
        let is_media_lost = !settings.media.to.is_empty() && keep.is_none() && temporary.is_none();
        anyhow::ensure!(
            !is_media_lost,
            "media.to needs a stage of its own that stores bodies: see `Builder::keep`"
        );
        if folder.has_partitions() {
            wire::outwait_spiders(&settings).await;
        }
        let running = wire::worker(&folder, &settings, false)?;
        let keep = match (keep, &temporary) {
            (None, None) => Some(Arc::new(wire::archive(folder.dir(), &settings)?) as Arc<dyn Keep>),
            (keep, _) => keep,
        };
        let fetch = match fetch {
            Some(fetch) => fetch,
            None => wire::fetch(&settings, &wire::spider(&settings)?, None).await?,
        };
        let seeds = plan.job.scope.seeds.iter().filter(|_| private_seeds);
        let typed: Vec<CrawlUrl> = seeds.filter_map(|seed| CrawlUrl::parse(seed).ok()).collect();
        fetch.set_doors(folder.open_doors(&typed)?);
        let (log, log_thread) = log::Writer::open(&folder.logs()).context("opening the log")?;
        let tools = Tools { handle: running.handle, fetch, keep, log };
        let mut shared = Shared::new(settings, folder, plan, tools)?;
        shared = shared.read_by(read.unwrap_or_else(|| Arc::new(StandardReader)));
        if let Some(observe) = observe {
            shared = shared.observed(observe);
        }
        let (shared, stops) = stops::obey(shared)?;
        begin(&shared).await?;
        reread::run(&shared, true).await?;
        revisit::run(&shared, true).await?;
        fetch_lost(&shared).await?;
        let tables = Tables::start(shared.folder.dir(), &shared.settings)?;
        let (until, mut signals) = (work::Until::default(), Signals::Embedded(stop));
        let end = work::work(&shared, running.actions, until, &mut work::Silent, &mut signals).await?;
        drop(stops);
        let left = ending::Left::look(&shared, &end).await;
        if !matches!(end, End::StoppedHard | End::Failed(_)) {
            ending::close(&shared, running.thread, log_thread).await?;
            tables.finish(&mut signals).await?;
        }
        let counts = &shared.counts;
        Ok(Summary {
            pages: counts.pages(),
            bytes: counts.bytes.load(Ordering::Relaxed),
            failed: counts.failed.load(Ordering::Relaxed),
            seeds_failed: left.seeds.failed as u64,
            end: end.exit(&left)?,
        })
    }
}
