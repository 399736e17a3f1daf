//! State that all parts of a running crawl share.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use http::header::{HeaderName, HeaderValue};
use nephila_core::frontier::URGENT;
use nephila_core::frontier::ticket::Ticket;
use nephila_core::handler::{self, ReadAs, TextOf};
use nephila_core::job::{Job, JobId, Limits, Via};
use nephila_core::spider::Outcome;
use nephila_core::stop_list::StopList;
use nephila_core::store::Exchange;
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;
use nephila_store::archive::Receipt;

use super::alone::Alone;
pub use super::counts::Counts;
use super::jobs::{InForce, Jobs};
pub use super::room::{LINKS_MAX, READING_MAX, Room, STORING_MIN, STORING_PER_FETCH};
use super::stage::{Fetch, Keep, NotKept, Observe, PassOn, Read, Stages, StandardReader, Unobserved};
use crate::clock::{Clock, Gate};
use crate::credentials::Credentials;
use crate::folder::{Folder, MoreJobs, Plan};
use crate::introduce::Introduction;
use crate::log::Writer;
use crate::settings::Settings;
use crate::stop_list::LiveStopList;
use crate::traces::{Trace, Traces};
use crate::worker::{Handle, Link};

/// Interval at which a closed gate is checked again.
pub const GATE_PAUSE: Duration = Duration::from_millis(50);
/// Interval between retries on a full disk.
pub const FULL_PAUSE: Duration = Duration::from_secs(1);
/// Number of feeds offered in one call.
pub const FEEDS_AT_ONCE: usize = 10_000;
/// The one job of a crawl on one machine.
pub const JOB: JobId = JobId(1);

/// See the module.
pub struct Shared {
    /// Settings of the process.
    pub settings: Settings,
    /// Folder of the crawl on the disk.
    pub folder: Folder,
    plan: Arc<Mutex<Plan>>,
    /// Further jobs of a crawl on one machine.
    more: Arc<Mutex<MoreJobs>>,
    /// Handle for calls to the worker that runs the frontier.
    pub handle: Handle,
    pub(crate) stages: Stages,
    /// Writer of the crawl log.
    pub log: Writer,
    pub(crate) clock: Clock,
    /// Jobs in force, by number.
    pub jobs: Arc<Jobs>,
    /// Statements of sites about the use of their pages.
    pub usage: super::usage::Usage,
    /// Why hosts could not be requested.
    pub troubles: super::troubles::Troubles,
    /// The last outcomes of hosts.
    pub lasts: super::lasts::Lasts,
    /// The operator's stop list: hosts and addresses that are never requested.
    stop_list: Arc<LiveStopList>,
    /// While this gate is closed, no request is made.
    gate: Option<Gate>,
    /// Counters of this run.
    pub counts: Counts,
    /// Places between the stages.
    pub room: Room,
    fields: Vec<(HeaderName, HeaderValue)>,
    seed_origins: HashSet<String>,
    introduction: Introduction,
    pub(crate) credentials: Credentials,
    /// Pages that may crash the process when they are read.
    pub suspects: super::suspects::Suspects,
    /// The reader threads.
    pub(crate) readers: super::readers::Readers,
    /// The sources of feeds.
    pub(crate) sources: super::sources::Sources,
    /// Spiders that wait to hear that their pages are stored.
    pub(crate) acks: super::acks::Acks,
    /// Traces of sampled tickets.
    pub traces: Traces,
}

/// The parts that make up a crawl.
pub struct Tools {
    /// Handle for calls to the worker that runs the frontier.
    pub handle: Handle,
    /// Stage that sends requests.
    pub fetch: Arc<dyn Fetch>,
    /// Stage that archives exchanges; none if nothing is archived.
    pub keep: Option<Arc<dyn Keep>>,
    /// Writer of the crawl log.
    pub log: Writer,
}

/// A page that waits, counted until dropped.
struct Waits<'a>(&'a AtomicUsize);

impl<'a> Waits<'a> {
    fn new(count: &'a AtomicUsize) -> Waits<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        Waits(count)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// A crawl on one machine: the job of the plan, and the further jobs of the folder.
    pub fn new(settings: Settings, folder: Folder, plan: Plan, tools: Tools) -> anyhow::Result<Shared> {
        let jobs = Jobs::default();
        jobs.set(InForce::new(&plan.job, &plan.moved)?);
        let more = folder.more_jobs()?;
        for job in &more.jobs {
            jobs.set(InForce::new(&job.job, &job.moved)?);
        }
        let shared = Shared::with_jobs(settings, folder, plan, Arc::new(jobs), tools)?;
        *shared.more_jobs() = more;
        Ok(shared)
    }

    /// A crawl for any set of jobs.
    pub fn with_jobs(
        settings: Settings,
        folder: Folder,
        plan: Plan,
        jobs: Arc<Jobs>,
        tools: Tools,
    ) -> anyhow::Result<Shared> {
        let Tools { handle, fetch, keep, log } = tools;
        let plan = Arc::new(Mutex::new(plan));
        let more = Arc::<Mutex<MoreJobs>>::default();
        let alone = Alone { folder: folder.clone(), plan: plan.clone(), more: more.clone() };
        let stages = Stages {
            fetch,
            keep,
            read: Arc::new(StandardReader),
            pass_on: Arc::new(alone),
            observe: Arc::new(Unobserved),
        };
        anyhow::ensure!(
            cfg!(feature = "text") || settings.handler.text != TextOf::All,
            "handler.text is \"all\", but this program was built without the feature `text` of nephila-engine"
        );
        let introduction = Introduction::new(&settings)?;
        let credentials = Credentials::new(&settings.credentials)?;
        let suspects = super::suspects::Suspects::open(&folder.state());
        let room = Room::new(settings.crawl.concurrency);
        let clock = Clock::new();
        let traces = Traces::start(&settings, handle.secret(), clock.now().wall)?;
        Ok(Shared {
            settings,
            folder,
            plan,
            more,
            handle,
            stages,
            log,
            clock,
            jobs,
            usage: Default::default(),
            troubles: Default::default(),
            lasts: Default::default(),
            stop_list: Arc::default(),
            gate: None,
            counts: Counts::new(),
            room,
            fields: Vec::new(),
            seed_origins: HashSet::new(),
            introduction,
            credentials,
            suspects,
            readers: Default::default(),
            sources: Default::default(),
            acks: Default::default(),
            traces,
        })
    }

    /// Adds partitions that other nodes own, and a gate that is closed while this node has no lease.
    pub fn with_others(mut self, pass_on: Arc<dyn PassOn>, gate: Gate) -> Shared {
        (self.stages.pass_on, self.gate) = (pass_on, Some(gate));
        self
    }

    /// Replaces the reader of bodies.
    pub fn read_by(mut self, read: Arc<dyn Read>) -> Shared {
        self.stages.read = read;
        self
    }

    /// Adds an observer.
    pub fn observed(mut self, observe: Arc<dyn Observe>) -> Shared {
        self.stages.observe = observe;
        self
    }

    /// Adds the operator's stop list.
    pub fn with_stop_list(mut self, stop_list: Arc<LiveStopList>) -> Shared {
        self.stop_list = stop_list;
        self
    }

    /// The operator's current stop list.
    pub fn stop_list(&self) -> Arc<StopList> {
        self.stop_list.get()
    }

    /// Puts a stop list in force that the folder keeps, before the next look at the folder.
    pub fn obey_now(&self, stop_list: StopList) {
        self.stop_list.set(stop_list);
    }

    /// The fetching stage.
    pub fn fetch(&self) -> &dyn Fetch {
        &*self.stages.fetch
    }

    /// The remote spiders that fetch.
    pub fn spiders(&self) -> Vec<super::stage::SpiderSaid> {
        self.stages.fetch.spiders()
    }

    /// Whether requests may be made now: always, except on a node without a lease.
    pub fn may_request(&self) -> bool {
        self.gate.as_ref().is_none_or(Gate::is_open)
    }

    /// Returns when a request may be made. Waits while the lease may have expired: the end of the session cancels the
    /// waiting task.
    pub async fn may_begin(&self) {
        while !self.may_request() {
            tokio::time::sleep(GATE_PAUSE).await;
        }
    }

    /// Adds header fields that are sent to the origins of the seeds alone.
    pub fn with_fields(mut self, fields: Vec<(HeaderName, HeaderValue)>) -> Shared {
        if !fields.is_empty() {
            let origin = |seed: &String| Some(CrawlUrl::parse(seed).ok()?.origin().to_owned());
            let origins = self.plan().job.scope.seeds.iter().filter_map(origin).collect();
            self.seed_origins = origins;
            self.fields = fields;
        }
        self
    }

    /// Locks the plan of the crawl until the guard is dropped.
    pub fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().expect("nobody panics holding it")
    }

    /// Locks the further jobs until the guard is dropped.
    pub fn more_jobs(&self) -> MutexGuard<'_, MoreJobs> {
        self.more.lock().expect("nobody panics holding it")
    }

    /// Returns a copy of the limits of the one job in the plan.
    pub fn limits(&self) -> Limits {
        self.plan().job.limits.clone()
    }

    /// The seeds, and the job without them: the frontier needs the limits of the job, not a million seeds.
    pub fn seeds_and_job(&self) -> (Vec<String>, Job) {
        let mut plan = self.plan();
        let seeds = std::mem::take(&mut plan.job.scope.seeds);
        let job = plan.job.clone();
        plan.job.scope.seeds.clone_from(&seeds);
        (seeds, job)
    }

    /// A seed as a link.
    pub fn seed(&self, text: &str) -> Option<Link> {
        let url = CrawlUrl::parse(text.trim()).ok()?;
        Some(Link { url, want: Want { via: Some(Via::seed()), ..Want::of(JOB) } })
    }

    /// Offers the feeds that the folder lists. Feeds that are followed already stay unchanged.
    pub async fn offer_feeds(&self) -> anyhow::Result<()> {
        // A typed feed permits its private address.
        self.stages.fetch.set_doors(self.folder.doors()?);
        let mut feeds = self.folder.listed_feeds()?;
        self.sources.set(&feeds, |url| self.handle.key(url));
        feeds.retain(|feed| !feed.removed);
        for some in feeds.chunks(FEEDS_AT_ONCE) {
            let links: Vec<Link> = some
                .iter()
                .map(|feed| Link {
                    url: feed.url.clone(),
                    want: Want {
                        priority: URGENT,
                        read_as: ReadAs::Feed,
                        via: Some(Via::seed()),
                        ..Want::of(JOB)
                    },
                })
                .collect();
            self.handle.offer_durably(&links).await?;
        }
        Ok(())
    }

    /// The header fields for this URL that other URLs would not get.
    pub fn fields_for(&self, url: &CrawlUrl, head_only: bool) -> Vec<(HeaderName, HeaderValue)> {
        let mut fields = Vec::new();
        fields.extend(self.introduction.from());
        if !self.fields.is_empty() && self.seed_origins.contains(url.origin()) {
            fields.extend(self.fields.iter().cloned());
        }
        fields.extend(self.credentials.field(url, head_only));
        fields
    }

    /// Whether we may make requests to this address.
    pub fn may_ask(&self, address: IpAddr) -> Result<(), Outcome> {
        self.introduction.may_ask(address)
    }

    /// Stores an exchange, retrying until the disk has room and the object store answers.
    pub async fn store(&self, exchange: Option<Exchange>) -> anyhow::Result<Option<Receipt>> {
        let (Some(keep), Some(exchange)) = (&self.stages.keep, exchange) else { return Ok(None) };
        let mut waits = None;
        loop {
            match keep.keep(exchange.share()).await {
                Ok(receipt) => {
                    self.counts.metrics.stored(&receipt);
                    if self.counts.disk_full.load(Ordering::Relaxed) {
                        self.counts.disk_full.store(false, Ordering::Relaxed);
                    }
                    return Ok(Some(receipt));
                }
                Err(NotKept::Later) => {
                    self.counts.disk_full.store(true, Ordering::Relaxed);
                    tokio::time::sleep(FULL_PAUSE).await;
                }
                Err(NotKept::Away) => {
                    waits.get_or_insert_with(|| Waits::new(&self.counts.objects_away));
                    tokio::time::sleep(FULL_PAUSE).await;
                }
                Err(NotKept::Failed(error)) => return Err(error),
            }
        }
    }

    /// Makes links durable, wherever their partitions are.
    pub async fn offer(&self, links: &[Link]) -> anyhow::Result<()> {
        self.stages.pass_on.offer(&self.handle, links).await
    }

    /// Loads the rules of a job before the links of a page are judged: in a cluster the first page of a job, or of a
    /// seed that is added later, may arrive before the rules.
    pub async fn learn(&self, job: JobId, page: &CrawlUrl, depth: u8, ticket: Instant) {
        if self.jobs.get(job).is_none() || depth == 0 && self.jobs.is_outside(job, page) {
            self.stages.pass_on.refresh(&self.jobs, ticket).await;
        }
    }

    /// A seed has moved: adds the new location to the scope, also after a restart.
    pub async fn widen(&self, job: JobId, target: &CrawlUrl) -> anyhow::Result<()> {
        self.stages.pass_on.widen(&self.jobs, job, target).await
    }

    /// Begins the trace of a ticket, if the ticket is sampled.
    pub(crate) fn trace(&self, ticket: &Ticket) -> Trace {
        self.traces.begin(ticket, || self.jobs.get(ticket.job).map(|job| job.name.clone()))
    }

    /// Whether sitemaps are read.
    pub fn reads_sitemaps(&self) -> bool {
        self.settings.handler.sitemaps
    }

    /// Whether the archive keeps metadata records.
    pub fn keeps_metadata(&self) -> bool {
        self.stages.keep.is_some() && self.settings.store.metadata_records
    }

    /// The limits for reading a page.
    pub fn page_limits(&self) -> handler::Limits {
        // The metadata record names requisites even if they are not followed.
        let settings = &self.settings.handler;
        let limits = settings.limits(settings.page_requisites || self.keeps_metadata());
        handler::Limits { details: self.settings.tables.write && self.keeps_metadata(), ..limits }
    }
}
