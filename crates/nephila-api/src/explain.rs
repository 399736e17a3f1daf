//! Explains the state of a URL: evaluates every gate again, in order, and adds the state in the frontier.

mod view;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use anyhow::Context;
use nephila_core::frontier::explain::{Explanation, Hold, Standing};
use nephila_core::job::State;
use nephila_core::time::Timestamp;
use nephila_core::trap;
use nephila_core::url::CrawlUrl;
use nephila_spider::Spider;

use super::captures::Archive;
use super::events::Followers;
use super::media::ReadMedia;
use super::monitor::{Monitor, Sampling};
use super::public::{LinkSecret, Public};
use super::ready::Waiters;
use super::scope::Scopes;
use super::views::Added;
use super::webhooks::Webhooks;
use nephila_engine::clock::Clock;
use nephila_engine::crawl::adding::AddLine;
use nephila_engine::crawl::jobs::Jobs;
use nephila_engine::crawl::shared::Shared;
use nephila_engine::crawl::stream::{Judge, StreamSaid};
use nephila_engine::folder::Folder;
use nephila_engine::reach::Reach;
use nephila_engine::settings::Settings;
use nephila_engine::worker::{Command, Handle, Taken};

pub use view::{Explained, HostView, LastView, RobotsView, ScopeView, StatsView, Summary};
use view::{StreamView, host_view, robots_view};

/// A job that the client named and the folder does not have.
#[derive(Debug, thiserror::Error)]
#[error("there is no job {0:?} here, neither the crawl of the folder ({1:?}) nor a further job")]
pub(super) struct NoJob(String, String);

/// Everything needed to answer requests about a crawl.
#[derive(Debug)]
pub struct Questions {
    pub(super) handle: Handle,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) scopes: Scopes,
    pub(super) followers: Followers,
    /// The spider, if this process fetches.
    spider: Option<Spider>,
    /// The archive of the folder; none in a cluster, where the node answers from its own archive.
    pub(super) archive: Option<Archive>,
    /// The crawl, if this process runs one.
    pub(super) crawl: Weak<Shared>,
    /// Whether the seeds are offered. Before, a crawl has nothing to do and is not ready.
    pub(super) is_begun: AtomicBool,
    pub(super) waiters: Waiters,
    /// What is known about the crawl as a whole; none for a part of a cluster, whose node keeps it.
    pub(super) monitor: Option<Arc<Monitor>>,
    /// The pages for people without a token; none for a part of a cluster.
    pub(super) public: Option<Public>,
}

impl Questions {
    /// For the crawl in this folder and the handle of its worker.
    pub fn new(handle: Handle, folder: Folder, settings: Settings) -> Questions {
        let followers = Followers::of(Some(folder.clone()));
        let name = folder.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let archive = Some(Archive::new(folder.dir(), &name).with_cache(settings.api.cache_bytes()));
        let monitor = Monitor::new(folder.clone(), settings.clone(), &name, "single");
        let public = Some(Public::new(LinkSecret::in_folder(folder.clone()), &settings));
        let scopes = Scopes::of_folder(folder);
        let monitor = Some(Arc::new(monitor));
        Questions { archive, monitor, public, ..Questions::plain(handle, settings, scopes, followers) }
    }

    /// Sets the spider of the crawl, which must know the addresses opened by added URLs.
    pub fn with_spider(mut self, spider: Spider) -> Questions {
        self.spider = Some(spider);
        self
    }

    /// Sets the address at which the crawl answers, for links.
    pub fn with_address(mut self, url: Option<String>) -> Questions {
        self.public = self.public.map(|public| public.at(url));
        self
    }

    /// Sets the object store of bodies that are not in the archive.
    pub fn with_media(mut self, media: Option<Arc<dyn ReadMedia>>) -> Questions {
        self.archive = self.archive.map(|archive| archive.with_media(media));
        self
    }

    /// Sets the crawl, whose stages have metrics of their own.
    pub fn with_crawl(mut self, crawl: &Arc<Shared>) -> Questions {
        self.crawl = Arc::downgrade(crawl);
        self.is_begun = AtomicBool::new(false);
        self
    }

    /// Sets the webhooks of the crawl, for status and metrics.
    pub fn with_webhooks(self, webhooks: &Webhooks) -> Questions {
        if let Some(monitor) = &self.monitor {
            monitor.set_webhooks(webhooks.seen());
        }
        self
    }

    /// Starts the task that samples the crawl for its rates and its history. It ends when the result is dropped.
    pub fn sample(&self) -> Option<Sampling> {
        let crawl = self.crawl.clone();
        Some(self.monitor.as_ref()?.start(move || crawl.upgrade()))
    }

    /// Records that the seeds are offered.
    pub fn set_begun(&self) {
        self.is_begun.store(true, Ordering::Release);
    }

    /// For the partitions that a node owns: the handle of its worker and the jobs of the cluster.
    pub fn of_node(handle: Handle, jobs: Arc<Jobs>, settings: Settings) -> Questions {
        let followers = Followers::of(None);
        Questions::plain(handle, settings, Scopes::Jobs(jobs), followers)
    }

    fn plain(handle: Handle, settings: Settings, scopes: Scopes, followers: Followers) -> Questions {
        Questions {
            handle,
            settings,
            clock: Clock::new(),
            scopes,
            followers,
            spider: None,
            archive: None,
            crawl: Weak::new(),
            is_begun: AtomicBool::new(true),
            waiters: Waiters::default(),
            monitor: None,
            public: None,
        }
    }

    /// Explains a URL.
    pub async fn explain(&self, text: &str) -> anyhow::Result<Explained> {
        let url = match CrawlUrl::parse(text) {
            Ok(url) => url,
            Err(error) => return Ok(Explained::bad(text, error.to_string())),
        };
        let explanation = self.handle.explain(&url).await?;
        let record = explanation.record.as_ref();
        let via = record.and_then(|record| record.via.as_ref());
        let more = record.and_then(|record| self.more_of(record.job));
        let judged = match &more {
            Some(job) => super::scope::Judged::by(job, &url, record),
            None => self.scopes.judge(&url, record)?,
        };
        let now = self.clock.now().wall;
        let trap = trap::judge_at(&url, &self.settings.trap, now);
        let mut explained = Explained {
            url: text.to_owned(),
            summary: Summary::Unknown,
            because: String::new(),
            canonical: Some(url.key().to_owned()),
            scope: judged.view,
            trap: trap.map(|trap| format!("{}: {}", trap.name(), trap.meaning())),
            standing: Some(explanation.standing.to_string()),
            held_by: Vec::new(),
            robots: (explanation.host.as_ref())
                .map(|host| robots_view(host, &explanation, &explanation.held_by)),
            found: record.map(|record| Timestamp::from(record.found).warc_date()),
            depth: record.map(|record| record.depth),
            via: via.and_then(|via| via.page(url.origin())),
            hops: via.map_or_else(String::new, |via| via.trail.to_string()),
            retries: record.map_or(0, |record| record.retries),
            last: record.and_then(|record| record.last.as_deref()).map(|last| LastView {
                at: Timestamp::from(last.at).warc_date(),
                outcome: last.outcome.name().to_owned(),
                meaning: last.outcome.meaning().trim().to_owned(),
                status: (last.status > 0).then_some(last.status),
            }),
            next: None,
            expected_s: None,
            host: (explanation.host.as_ref()).map(|host| host_view(host, &explanation, &explanation.held_by)),
            stream: self.handle.streamed(explanation.key).await?.map(|said| StreamView {
                page_id: said.page.to_string(),
                tag: said.tag.to_string(),
                last: said.last.warc_date(),
                sent: said.sent.warc_date(),
                hits_waiting: said.hits,
            }),
        };
        explained.conclude(&explanation);
        let waits = matches!(explained.summary, Summary::Queued | Summary::Parked);
        if let (true, true, Some(scope)) = (waits, judged.is_excluded, &explained.scope) {
            explained.because = format!("it waits, and will not be fetched: {}", scope.because());
            explained.summary = Summary::OutOfScope;
        }
        if matches!(explained.summary, Summary::Queued | Summary::Fetching | Summary::Parked) {
            match judged.state {
                State::Running => explained.expected_s = self.expected(&explanation, now),
                // A running fetch is finished.
                state => explained.held_by.push(format!("its job is {}", state.name())),
            }
        }
        Ok(explained)
    }

    /// Adds URLs to the folder's job, one per line. Returns when the URLs are durable.
    pub async fn add(&self, lines: &str) -> anyhow::Result<Added> {
        self.add_to(lines, None).await
    }

    /// The same, for the job of this name, the folder's or a further one; lines may name others. A missing job is the
    /// error [`NoJob`].
    pub(super) async fn add_to(&self, lines: &str, job: Option<&str>) -> anyhow::Result<Added> {
        let first = self.scopes.in_force()?;
        let named = self.more_in_force(job);
        if let Some(job) = job
            && named.is_none()
            && job != first.name
        {
            return Err(NoJob(job.to_owned(), first.name).into());
        }
        let reach = self.reach()?;
        let now = self.clock.now().wall;
        let (mut added, mut links, mut again) = (Added::default(), Vec::new(), Vec::new());
        for line in lines.lines() {
            match AddLine::read(line) {
                None => {}
                Some(Err(why)) => added.refuse(line, why),
                // In a line, the first job of a folder has any name: files of lines are made for any crawl.
                Some(Ok(said)) => {
                    let more = match &said.job {
                        Some(job) => self.more_in_force(Some(job)),
                        None => named.clone(),
                    };
                    let job = more.as_deref().unwrap_or(&first);
                    let judged = said.judged(job, false, &self.settings.trap, now);
                    match judged.and_then(|link| reach.check(&link.url).map(|()| link)) {
                        Ok(link) => {
                            again.extend(said.again.then(|| link.url.clone()));
                            links.push(link);
                        }
                        Err(why) => added.refuse(&said.url, why),
                    }
                }
            }
        }
        self.handle.offer_durably(&links).await?;
        if !again.is_empty() {
            self.handle.command(Command::Again(again, None)).await?;
        }
        added.taken = links.len() as u64;
        Ok(added)
    }

    /// The address rules for added URLs. Addresses that people typed in the meantime are permitted, for the spider as
    /// well.
    pub(super) fn reach(&self) -> anyhow::Result<Reach> {
        let doors = self.scopes.doors()?;
        if let Some(spider) = &self.spider {
            spider.set_doors(doors.clone());
        }
        Ok(Reach::with_doors(&self.settings.spider, doors))
    }

    /// Adds parts of a stream, numbered from `first`, to the folder's job. Returns when all parts are durable.
    pub(crate) async fn stream(
        &self,
        batch: Option<&str>,
        first: u32,
        text: &[u8],
    ) -> anyhow::Result<StreamSaid> {
        let (all, taken) = self.begin_stream(batch, first, text).await?;
        for part in taken {
            part.durable().await?;
        }
        Ok(all)
    }

    /// Like [`Questions::stream`], without waiting for durability.
    pub async fn begin_stream(
        &self,
        batch: Option<&str>,
        first: u32,
        text: &[u8],
    ) -> anyhow::Result<(StreamSaid, Vec<Taken>)> {
        let job = self.scopes.in_force()?;
        let (mut all, mut taken) = (StreamSaid::default(), Vec::new());
        let (now, secret, traps) = (self.clock.now().wall, self.handle.secret(), &self.settings.trap);
        // Its owner alone gives a folder lines; the spider judges the addresses.
        let judge = Judge { job: &job, traps, now, secret, reaches: |_: &CrawlUrl| true };
        // The worker decides about these while the next lines are read.
        for (part, said) in judge.read(text, batch, first) {
            taken.push(self.handle.stream(part).await?);
            all.plus(said);
        }
        Ok((all, taken))
    }

    /// State of the host of a URL.
    pub async fn host(&self, text: &str) -> anyhow::Result<Option<HostView>> {
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}/") };
        let url = CrawlUrl::parse(&with_scheme).with_context(|| format!("{text:?}"))?;
        let explanation = self.handle.explain(&url).await?;
        // Rules of robots.txt are about a URL, and this is about none.
        let is_of_host = |hold: &&Hold| !matches!(hold, Hold::Robots { .. });
        let held: Vec<Hold> = explanation.held_by.iter().filter(is_of_host).cloned().collect();
        Ok(explanation.host.as_ref().map(|host| host_view(host, &explanation, &held)))
    }

    /// Expected seconds until the fetch of a URL, computed from crawl delays alone.
    fn expected(&self, explanation: &Explanation, now: Timestamp) -> Option<u64> {
        if let Standing::Planned(due) = explanation.standing {
            return Some(due.0.saturating_sub(now.0).div_ceil(1_000));
        }
        let host = explanation.host.as_ref()?;
        let rest = u64::try_from(self.settings.frontier.host_delay.as_millis()).unwrap_or(u64::MAX);
        let rest = rest.max(host.delay.into()).max(host.robots.crawl_delay.into());
        let before = match explanation.standing {
            Standing::Waiting | Standing::AtHand => explanation.ahead.unwrap_or(0),
            Standing::Fetching => 0,
            _ => return None,
        };
        let wait = explanation.ready_in?.saturating_add(rest.saturating_mul(before));
        Some(wait.saturating_add(rest).div_ceil(1_000))
    }

    /// Counters and gauges of the worker.
    pub async fn stats(&self) -> anyhow::Result<StatsView> {
        let stats = self.handle.stats().await?;
        Ok(StatsView {
            offered: stats.frontier.offered,
            tickets: stats.frontier.tickets,
            robots: stats.frontier.robots,
            ended: stats.frontier.ended,
            turned_away: stats.frontier.turned_away,
            expired: stats.frontier.expired,
            tickets_open: stats.gauges.tickets_open,
            hosts_active: stats.gauges.hosts_active,
            offers_waiting: stats.gauges.offers_waiting,
            urls_waiting: stats.totals.waiting,
            urls_later: stats.totals.later,
            urls_parked: stats.totals.parked,
            tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
            journal_bytes: stats.journal_bytes,
            commits: stats.commits,
            commit_ms_max: stats.commit_ms_max,
        })
    }
}
