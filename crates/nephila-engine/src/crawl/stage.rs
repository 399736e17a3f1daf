//! The stages of a crawl that can be replaced, each a trait: [`Fetch`], [`Keep`], [`Read`], [`PassOn`] and [`Observe`].
//!
//! A ticket of the frontier becomes a request ([`Fetch`]); the exchange is archived ([`Keep`]) while its body is read for links
//! ([`Read`]); links of partitions that another node owns leave this process ([`PassOn`]); an observer sees every
//! decision and every end ([`Observe`]). [`Stages`] holds one of each. The order of the steps is in [`super::page`].
//!
//! Invariants: a stage is called from many tasks at once; [`Keep::keep`] returns after the exchange is durable, and
//! [`PassOn::offer`] after the links are, since the outcome is reported next and is never requested again after that.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use nephila_core::follow::Witness;
use nephila_core::handler::{Findings, Limits, Page, read_page_until};
use nephila_core::histogram::Buckets;
use nephila_core::job::{JobId, Rules, ScopeVerdict};
use nephila_core::spider::Outcome;
use nephila_core::spider::door::Doors;
use nephila_core::store::{Digest, Exchange};
use nephila_core::url::CrawlUrl;
use nephila_spider::{Connections, Fetched, Request, Spider};
use nephila_store::archive::{Archive, LastCapture, Receipt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jobs::Jobs;
use crate::worker::{Handle, Link};

/// Turns a request into an answer.
pub trait Fetch: Send + Sync {
    /// Fetches a URL. Never fails: every end is an outcome.
    fn fetch(&self, request: Request) -> BoxFuture<'_, Fetched>;

    /// The addresses of a host name, the preferred one first. Politeness counts by address. A stage that dials no
    /// host needs no addresses: by default each name has one of its own from 2001:db8::/32, which no machine has.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<[IpAddr]>, Outcome>> {
        let hash = u128::from(Digest::of(&[name.as_bytes()]).short());
        let address = Ipv6Addr::from_bits(0x2001_0db8 << 96 | hash);
        Box::pin(std::future::ready(Ok(Arc::from([IpAddr::from(address)]))))
    }

    /// Whether this address may be dialled for this URL.
    fn may_dial(&self, url: &CrawlUrl, address: IpAddr) -> bool {
        _ = (url, address);
        true
    }

    /// Replaces the URLs that a person typed: these may lead to private addresses.
    fn set_doors(&self, doors: Doors) {
        _ = doors;
    }

    /// The remote spiders that fetch, for people.
    fn spiders(&self) -> Vec<SpiderSaid> {
        Vec::new()
    }

    /// Measurements of connections and lookups of this process; none if the stage makes none.
    fn measured(&self) -> Option<FetchMeasured> {
        None
    }

    /// What happened to the URLs of remote spiders so far; none without remote spiders.
    fn remote_urls(&self) -> Option<RemoteUrls> {
        None
    }
}

/// Measurements of the fetching stage.
#[derive(Clone, Debug, Default)]
pub struct FetchMeasured {
    /// The connections that are open now.
    pub connections: Connections,
    /// Durations of name lookups, in milliseconds.
    pub lookups: Buckets,
}

impl FetchMeasured {
    /// The measurements of a spider.
    pub fn of(spider: &Spider) -> FetchMeasured {
        FetchMeasured { connections: spider.connections(), lookups: spider.resolver().took() }
    }
}

/// URLs for remote spiders, since the start of the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteUrls {
    /// URLs sent to spiders; one that is sent again counts again.
    pub sent: u64,
    /// URLs that came back with a result.
    pub fetched: u64,
    /// URLs that no spider fetched in time.
    pub lost: u64,
    /// URLs that were taken back.
    pub cancelled: u64,
    /// URLs for which there was no room.
    pub refused: u64,
    /// URLs at spiders now, or waiting for one.
    pub open: usize,
    /// Spiders that are connected now.
    pub connected: usize,
}

/// A remote spider, for people and programs.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct SpiderSaid {
    /// The node that it fetches for; empty without a cluster.
    #[serde(default)]
    pub node: String,
    /// Its name.
    pub name: String,
    /// Whether it is connected now. One that is not may be back until its lease has lapsed.
    pub connected: bool,
    /// Maximum number of URLs at it.
    pub capacity: usize,
    /// URLs at it.
    pub open: usize,
    /// Pages that it fetched since it came.
    pub fetched: u64,
}

impl std::fmt::Debug for dyn Fetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Fetch")
    }
}

impl Fetch for Spider {
    fn fetch(&self, request: Request) -> BoxFuture<'_, Fetched> {
        Box::pin(Spider::fetch(self, request))
    }

    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Arc<[IpAddr]>, Outcome>> {
        Box::pin(async move { self.resolver().resolve(name).await.0 })
    }

    fn may_dial(&self, url: &CrawlUrl, address: IpAddr) -> bool {
        Spider::may_dial(self, url, address)
    }

    fn set_doors(&self, doors: Doors) {
        Spider::set_doors(self, doors);
    }

    fn measured(&self) -> Option<FetchMeasured> {
        Some(FetchMeasured::of(self))
    }
}

/// Archives exchanges.
pub trait Keep: Send + Sync {
    /// Stores an exchange and returns when the exchange is durable.
    fn keep(&self, exchange: Exchange) -> BoxFuture<'_, Result<Receipt, NotKept>>;

    /// The last good capture of a URL, for conditional requests. None: every request is unconditional.
    fn last_capture(&self, url: &str) -> Option<LastCapture> {
        _ = url;
        None
    }

    /// Stores everything given so far and closes the archive.
    fn close(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Why an exchange was not stored.
#[derive(Debug)]
pub enum NotKept {
    /// There is no room, or a write failed: the same exchange is offered again soon.
    Later,
    /// The object store does not take the body: the same exchange is offered again soon.
    Away,
    /// The crawl cannot go on.
    Failed(anyhow::Error),
}

impl Keep for Archive {
    fn keep(&self, exchange: Exchange) -> BoxFuture<'_, Result<Receipt, NotKept>> {
        Box::pin(async move {
            self.append(exchange).await.map_err(|error| match error.is_temporary() {
                true => NotKept::Later,
                false => NotKept::Failed(anyhow::Error::new(error).context("archive")),
            })
        })
    }

    fn last_capture(&self, url: &str) -> Option<LastCapture> {
        Archive::last_capture(self, url)
    }

    fn close(&self) -> BoxFuture<'_, anyhow::Result<()>> {
        Box::pin(async move { Archive::close(self).await.map(drop).context("closing the archive") })
    }
}

/// Reads a body for links, the title and notes. Called on a reader thread, behind a watchdog.
pub trait Read: Send + Sync {
    /// Reads a page; returns early when `time_is_up` returns true, which the reader checks every few thousand bytes.
    fn read(&self, page: &Page<'_>, limits: &Limits, time_is_up: &mut dyn FnMut() -> bool) -> Findings;

    /// Whether this is [`StandardReader`]: remote spiders have the same, and may read pages instead.
    fn is_standard(&self) -> bool {
        false
    }
}

/// Reads HTML, CSS, sitemaps and feeds.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandardReader;

impl Read for StandardReader {
    fn read(&self, page: &Page<'_>, limits: &Limits, time_is_up: &mut dyn FnMut() -> bool) -> Findings {
        read_page_until(page, limits, time_is_up)
    }

    fn is_standard(&self) -> bool {
        true
    }
}

/// Carries links to their partitions, and the scope of jobs to this process.
pub trait PassOn: Send + Sync {
    /// Makes links durable, wherever their partitions are.
    fn offer<'a>(&'a self, handle: &'a Handle, links: &'a [Link]) -> BoxFuture<'a, anyhow::Result<()>>;

    /// Reloads the jobs, unless they were loaded since this moment.
    fn refresh<'a>(&'a self, jobs: &'a Jobs, since: Instant) -> BoxFuture<'a, ()>;

    /// A seed of a job has moved: adds the new location to the job's scope, also after a restart.
    fn widen<'a>(
        &'a self,
        jobs: &'a Jobs,
        job: JobId,
        target: &'a CrawlUrl,
    ) -> BoxFuture<'a, anyhow::Result<()>>;

    /// Whether this process owns every partition and crawls for one job.
    fn is_alone(&self) -> bool;
}

/// Hears of the decisions and the ends of a crawl. Called from the page's task, so a slow observer slows the crawl down.
pub trait Observe: Send + Sync {
    /// The scope has judged a URL that was found in this way.
    fn judged(&self, url: &CrawlUrl, rules: &Rules, verdict: &ScopeVerdict, via: &str) {
        _ = (url, rules, verdict, via);
    }

    /// A page in scope needs this URL for display; the URL is fetched although out of scope.
    fn needed(&self, url: &CrawlUrl) {
        _ = url;
    }

    /// A page was fetched and read, and is not durable yet. After a crash the same page may come again.
    fn visited(&self, visited: &Visited<'_>) {
        _ = visited;
    }

    /// Whether a link in scope goes to the frontier. A dry run lets one page of each host pass.
    fn lets_pass(&self, url: &CrawlUrl) -> bool {
        _ = url;
        true
    }

    /// Whether [`Visited::body`] is asked for. If not, remote spiders may read pages, and their bodies are not decoded here.
    fn needs_body(&self) -> bool {
        true
    }

    /// Whether pages are judged and not fetched.
    fn is_dry_run(&self) -> bool {
        false
    }
}

/// A page that was fetched and read.
#[derive(Clone, Copy, Debug)]
pub struct Visited<'a> {
    /// The URL of the page.
    pub url: &'a CrawlUrl,
    /// Links between a seed and the page.
    pub depth: u8,
    /// The answer: outcome, status, header fields and body.
    pub fetched: &'a Fetched,
    /// The links, the title and the notes of the page. None for a page that was not read.
    pub findings: Option<&'a Findings>,
}

impl Visited<'_> {
    /// The title of the page; empty if there is none.
    pub fn title(&self) -> &str {
        self.findings.and_then(|findings| findings.title.as_deref()).unwrap_or_default()
    }

    /// The first `bytes_max` bytes of the decoded body; empty if the body was not kept or cannot be read.
    pub fn body(&self, bytes_max: usize) -> Bytes {
        self.fetched.decoded.as_ref().and_then(|body| body.start(bytes_max).ok()).unwrap_or_default()
    }
}

/// No observer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observe for Unobserved {
    fn needs_body(&self) -> bool {
        false
    }
}

impl Witness for Stages {
    fn judged(&self, url: &CrawlUrl, rules: &Rules, verdict: &ScopeVerdict, via: &str) {
        self.observe.judged(url, rules, verdict, via);
    }

    fn needed(&self, url: &CrawlUrl) {
        self.observe.needed(url);
    }

    fn lets_pass(&self, url: &CrawlUrl) -> bool {
        self.observe.lets_pass(url)
    }
}

/// One of each stage.
#[derive(Clone)]
pub struct Stages {
    /// See [`Fetch`].
    pub fetch: Arc<dyn Fetch>,
    /// See [`Keep`]. None: nothing is archived.
    pub keep: Option<Arc<dyn Keep>>,
    /// See [`Read`].
    pub read: Arc<dyn Read>,
    /// See [`PassOn`].
    pub pass_on: Arc<dyn PassOn>,
    /// See [`Observe`].
    pub observe: Arc<dyn Observe>,
}
