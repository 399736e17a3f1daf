//! What all parts of a running crawl share.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, RwLock};
use std::time::{Duration, Instant};

use anyhow::Context;
use http::header::{HeaderName, HeaderValue};
use nephila_core::handler::{self, LinkKind};
use nephila_core::job::{self, Found, Hops, Job, JobId, Limits, Rule, Rules, Verdict};
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Class;
use nephila_core::store::Exchange;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_spider::Spider;
use nephila_store::archive::{Archive, Receipt};
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::folder::{Folder, Plan};
use crate::introduce::{Introduction, credentials};
use crate::log::Writer;
use crate::settings::Settings;
use crate::worker::{Handle, Link};

/// Pages fetched and not yet reported; then fetching waits for the disk.
const STORING_MAX: usize = 2_048;
/// A full disk is tried again after this time.
const FULL_PAUSE: Duration = Duration::from_secs(1);
/// The one job of a crawl on one machine.
pub(super) const JOB: JobId = JobId(1);

/// See the module.
pub(super) struct Shared {
    pub(super) settings: Settings,
    pub(super) folder: Folder,
    plan: Mutex<Plan>,
    pub(super) handle: Handle,
    pub(super) spider: Spider,
    pub(super) archive: Option<Archive>,
    pub(super) log: Writer,
    pub(super) clock: Clock,
    pub(super) rules: RwLock<Rules>,
    pub(super) counts: Counts,
    pub(super) storing: Semaphore,
    pub(super) map: Option<super::map::Printer>,
    fields: Vec<(HeaderName, HeaderValue)>,
    seed_origins: HashSet<String>,
    introduction: Introduction,
}

/// What happened in this run.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) began: Instant,
    /// Requests for pages that ended with an answer to keep.
    pub(super) ok: AtomicU64,
    pub(super) redirects: AtomicU64,
    pub(super) gone: AtomicU64,
    pub(super) refused: AtomicU64,
    /// Failed, perhaps to be tried again.
    pub(super) failed: AtomicU64,
    pub(super) robots: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) revisits: AtomicU64,
    pub(super) revisit_bytes: AtomicU64,
    pub(super) links_wanted: AtomicU64,
    pub(super) links_out: AtomicU64,
    pub(super) links_traps: AtomicU64,
    /// Waiting for room on the disk?
    pub(super) disk_full: AtomicBool,
    /// Is less free than `crawl.disk_free_min`?
    pub(super) disk_low: AtomicBool,
}

impl Counts {
    fn new() -> Counts {
        let zero = AtomicU64::default;
        Counts {
            began: Instant::now(),
            ok: zero(),
            redirects: zero(),
            gone: zero(),
            refused: zero(),
            failed: zero(),
            robots: zero(),
            bytes: zero(),
            revisits: zero(),
            revisit_bytes: zero(),
            links_wanted: zero(),
            links_out: zero(),
            links_traps: zero(),
            disk_full: AtomicBool::new(false),
            disk_low: AtomicBool::new(false),
        }
    }

    /// A page's fetch ended.
    pub(super) fn ended(&self, outcome: Outcome, bytes: u64) {
        let which = match outcome.class() {
            Class::Ok if outcome == Outcome::Redirect => &self.redirects,
            Class::Ok => &self.ok,
            Class::Gone => &self.gone,
            Class::Refused => &self.refused,
            Class::Retry | Class::Broken => &self.failed,
        };
        which.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Page fetches that ended, however.
    pub(super) fn all(&self) -> u64 {
        [&self.ok, &self.redirects, &self.gone, &self.refused, &self.failed]
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }
}

impl Shared {
    pub(super) fn new(
        settings: Settings,
        folder: Folder,
        plan: Plan,
        handle: Handle,
        spider: Spider,
        archive: Option<Archive>,
        log: Writer,
    ) -> anyhow::Result<Shared> {
        let mut rules = plan.job.scope.resolve(&KeyRules::default()).context("scope")?;
        for moved in &plan.moved {
            if let Ok(url) = CrawlUrl::parse(moved) {
                rules.widen(&url, 0);
            }
        }
        let introduction = Introduction::new(&settings)?;
        Ok(Shared {
            settings,
            folder,
            plan: Mutex::new(plan),
            handle,
            spider,
            archive,
            log,
            clock: Clock::new(),
            rules: RwLock::new(rules),
            counts: Counts::new(),
            storing: Semaphore::new(STORING_MAX),
            map: None,
            fields: Vec::new(),
            seed_origins: HashSet::new(),
            introduction,
        })
    }

    /// Fields that go to the origins of the seeds alone.
    pub(super) fn with_fields(mut self, fields: Vec<(HeaderName, HeaderValue)>) -> Shared {
        if !fields.is_empty() {
            let seeds = &self.plan.get_mut().expect("nobody else has it yet").job.scope.seeds;
            self.seed_origins =
                seeds.iter().filter_map(|seed| Some(CrawlUrl::parse(seed).ok()?.origin())).collect();
            self.fields = fields;
        }
        self
    }

    pub(super) fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("nobody panics holding it")
    }

    pub(super) fn limits(&self) -> Limits {
        self.plan().job.limits.clone()
    }

    /// The seeds, and the job without them: the frontier needs its limits, not a million seeds.
    pub(super) fn seeds_and_job(&self) -> (Vec<String>, Job) {
        let mut plan = self.plan();
        let seeds = std::mem::take(&mut plan.job.scope.seeds);
        let job = plan.job.clone();
        plan.job.scope.seeds.clone_from(&seeds);
        (seeds, job)
    }

    /// A seed as a link.
    pub(super) fn seed(&self, text: &str) -> Option<Link> {
        let url = CrawlUrl::parse(text.trim()).ok()?;
        Some(Link {
            url,
            job: JOB,
            depth: 0,
            priority: 5,
            hits: 0,
            hops: Hops::NONE,
            read_as: Default::default(),
            refusal: None,
        })
    }

    /// What is sent to this URL and would not be sent to another.
    pub(super) fn fields_for(&self, url: &CrawlUrl) -> Vec<(HeaderName, HeaderValue)> {
        let mut fields = Vec::new();
        fields.extend(self.introduction.from());
        if !self.fields.is_empty() && self.seed_origins.contains(&url.origin()) {
            fields.extend(self.fields.iter().cloned());
        }
        fields.extend(credentials(url));
        fields
    }

    /// May this address be asked by us?
    pub(super) fn may_ask(&self, address: IpAddr) -> bool {
        self.introduction.may_ask(address)
    }

    /// Stores an exchange, however long the disk takes to have room for it.
    pub(super) async fn store(&self, exchange: Option<Exchange>) -> anyhow::Result<Option<Receipt>> {
        let (Some(archive), Some(exchange)) = (&self.archive, exchange) else { return Ok(None) };
        loop {
            match archive.append(exchange.share()).await {
                Ok(receipt) => {
                    if self.counts.disk_full.load(Ordering::Relaxed) {
                        self.counts.disk_full.store(false, Ordering::Relaxed);
                    }
                    return Ok(Some(receipt));
                }
                Err(error) if error.is_temporary() => {
                    self.counts.disk_full.store(true, Ordering::Relaxed);
                    tokio::time::sleep(FULL_PAUSE).await;
                }
                Err(error) => return Err(anyhow::Error::new(error).context("archive")),
            }
        }
    }

    /// The scope in force.
    pub(super) fn rules(&self) -> std::sync::RwLockReadGuard<'_, Rules> {
        self.rules.read().expect("nobody panics holding it")
    }

    /// A seed has moved: its new place is in scope from now on, also after a restart.
    pub(super) fn widen(&self, target: &CrawlUrl) -> anyhow::Result<()> {
        let mut plan = self.plan();
        if plan.moved.iter().any(|moved| moved == target.as_str()) {
            return Ok(());
        }
        plan.moved.push(target.as_str().to_owned());
        self.folder.set_plan(&plan)?;
        self.rules.write().expect("nobody panics holding it").widen(target, 0);
        Ok(())
    }

    /// Is a URL kept out by an `exclude`?
    pub(super) fn excludes(&self, url: &CrawlUrl) -> bool {
        matches!(self.rules().verdict(url, Found::link(0, 0)).rule, Rule::Exclude(_))
    }

    /// Are sitemaps of use to this crawl?
    pub(super) fn reads_sitemaps(&self) -> bool {
        let plan = self.plan();
        let scope = &plan.job.scope;
        self.settings.handler.sitemaps && scope.kind != job::Kind::Page && scope.depth_max > 0
    }

    /// Are links of this kind followed?
    pub(super) fn follows(&self, kind: LinkKind) -> bool {
        match kind {
            LinkKind::Requisite => self.settings.handler.page_requisites,
            LinkKind::Form => self.settings.handler.forms,
            LinkKind::Sitemap => self.settings.handler.sitemaps,
            _ => true,
        }
    }

    /// How much of a page is read.
    pub(super) fn page_limits(&self) -> handler::Limits {
        let settings = &self.settings.handler;
        handler::Limits {
            links_max: settings.links_per_page_max,
            html_bytes_max: settings.page_bytes_max,
            refresh_redirect_max: settings.refresh_redirect_max,
            requisites: settings.page_requisites,
            forms: settings.forms,
            ..handler::Limits::default()
        }
    }

    /// In a dry run: what was decided about a URL.
    pub(super) fn show(&self, url: &CrawlUrl, verdict: &Verdict, via: &str) {
        if let Some(map) = &self.map {
            map.print(url, &self.rules(), verdict, via);
        }
    }
}
