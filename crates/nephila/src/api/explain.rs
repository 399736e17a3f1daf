//! Explains the state of a URL: evaluates every gate again, in order, and adds the state in the frontier.

use std::sync::Arc;

use anyhow::Context;
use nephila_core::frontier::explain::{Explanation, Hold, Standing};
use nephila_core::job::State;
use nephila_core::refusal::Refusal;
use nephila_core::spider::outcome::{Class, Outcome};
use nephila_core::state::record::{HostRecord, RobotsPolicy};
use nephila_core::time::Timestamp;
use nephila_core::trap;
use nephila_core::url::CrawlUrl;
use nephila_spider::Spider;
use serde::{Deserialize, Serialize};

use super::captures::Archive;
use super::events::Followers;
use super::scope::Scopes;
use super::views::Added;
use crate::clock::Clock;
use crate::crawl::adding::AddLine;
use crate::crawl::jobs::Jobs;
use crate::crawl::stream::{Judge, StreamSaid};
use crate::folder::Folder;
use crate::reach::Reach;
use crate::settings::Settings;
use crate::worker::{Handle, Taken};

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
}

/// State of a URL, in one word.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Summary {
    /// The URL was fetched.
    Fetched,
    /// The URL redirects to another URL.
    Redirected,
    /// A fetch of the URL is running.
    Fetching,
    /// The URL waits in a queue.
    Queued,
    /// The URL waits for the budget of its domain.
    Parked,
    /// The last fetch failed.
    Failed,
    /// robots.txt forbids the URL.
    Robots,
    /// The URL is outside the scope of the job.
    OutOfScope,
    /// The URL matches a trap rule: one of endlessly many similar URLs.
    Trap,
    /// The URL was never discovered.
    Unknown,
    /// The text is not a URL that can be fetched.
    BadUrl,
}

impl Summary {
    /// The name used in JSON and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Summary::Fetched => "fetched",
            Summary::Redirected => "redirected",
            Summary::Fetching => "fetching",
            Summary::Queued => "queued",
            Summary::Parked => "parked",
            Summary::Failed => "failed",
            Summary::Robots => "robots",
            Summary::OutOfScope => "out of scope",
            Summary::Trap => "trap",
            Summary::Unknown => "unknown",
            Summary::BadUrl => "no URL",
        }
    }

    /// Whether the URL was fetched or will be fetched.
    pub const fn is_yes(self) -> bool {
        matches!(self, Summary::Fetched | Summary::Redirected | Summary::Fetching | Summary::Queued)
    }
}

/// Everything known about a URL.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Explained {
    /// The URL as requested.
    pub url: String,
    /// The state in one word.
    pub summary: Summary,
    /// The reason in one sentence.
    pub because: String,
    /// Canonical form of the URL, under which the page is deduplicated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canonical: Option<String>,
    /// Verdict of the job's scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<ScopeView>,
    /// The trap rule that matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trap: Option<String>,
    /// State in the frontier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standing: Option<String>,
    /// Reasons that hold back the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_by: Vec<String>,
    /// robots.txt of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robots: Option<RobotsView>,
    /// Time of the first discovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Number of links from a seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u8>,
    /// The page with the first discovered link to this URL, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<String>,
    /// The hops from a seed to the URL, in the letters of Heritrix: L link, E embedded, R redirect, M sitemap.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hops: String,
    /// Number of retries.
    #[serde(default)]
    pub retries: u8,
    /// The last fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastView>,
    /// Time of the next fetch, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Expected seconds until the fetch, computed from crawl delays alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_s: Option<u64>,
    /// The host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostView>,
    /// Record from a stream of visited URLs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamView>,
}

/// Record of a URL from a stream of visited URLs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct StreamView {
    /// Page id of the last line that has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub page_id: String,
    /// The last update tag.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// Time of the last line.
    pub last: String,
    /// Time of the last line that was sent on.
    pub sent: String,
    /// Hits that are not yet sent on.
    pub hits_waiting: u64,
}

/// Verdict of the scope.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct ScopeView {
    /// Whether the URL is in scope.
    pub wanted: bool,
    /// The rule that decided.
    pub rule: String,
    /// Origin of the rule.
    pub origin: String,
    /// The job of the rule.
    pub job: String,
}

impl ScopeView {
    fn because(&self) -> String {
        format!("{} ({}, job {:?})", self.rule, self.origin, self.job)
    }
}

/// robots.txt of a host.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct RobotsView {
    /// The resulting policy.
    pub policy: String,
    /// Number and text of the line that forbids the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<(usize, String)>,
    /// Reason why the last fetch of robots.txt failed, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Time since which robots.txt cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread_since: Option<String>,
    /// Time of the fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetched: Option<String>,
    /// Time of the next fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The crawl delay that robots.txt asks for.
    #[serde(default)]
    pub crawl_delay_ms: u32,
}

/// The last fetch of a URL.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct LastView {
    /// When the fetch ended.
    pub at: String,
    /// The outcome.
    pub outcome: String,
    /// Meaning of the outcome, in words.
    pub meaning: String,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// State of a host.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct HostView {
    /// Scheme, name and port.
    pub origin: String,
    /// Number of URLs in the queue.
    pub waiting: u64,
    /// Number of URLs beyond the domain's budget.
    pub parked: u64,
    /// Number of URLs scheduled for a fixed time.
    pub later: u64,
    /// Number of fetches that ended.
    pub ended: u64,
    /// Number of consecutive failures caused by the host.
    pub failures: u8,
    /// No fetch before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest_until: Option<String>,
    /// Crawl delay set by an operator.
    #[serde(default)]
    pub delay_ms: u32,
    /// Reason why an operator stopped the host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stopped: String,
    /// Time of the first discovery.
    pub found: String,
    /// robots.txt of the host.
    pub robots: RobotsView,
    /// Reasons that hold back the host now.
    #[serde(default)]
    pub held_by: Vec<String>,
}

/// Counters and gauges of a running crawl.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct StatsView {
    /// URLs offered.
    pub offered: u64,
    /// Tickets for pages.
    pub tickets: u64,
    /// Tickets for robots.txt.
    pub robots: u64,
    /// Outcomes processed.
    pub ended: u64,
    /// URLs rejected before a fetch.
    pub turned_away: u64,
    /// Tickets without an outcome before their deadline.
    pub expired: u64,
    /// Open tickets.
    pub tickets_open: usize,
    /// Hosts on the workbench.
    pub hosts_active: usize,
    /// Queued offers.
    pub offers_waiting: usize,
    /// URLs in queues.
    #[serde(default)]
    pub urls_waiting: u64,
    /// URLs scheduled for a fixed time.
    #[serde(default)]
    pub urls_later: u64,
    /// URLs that are parked.
    #[serde(default)]
    pub urls_parked: u64,
    /// Live tasks of the process.
    #[serde(default)]
    pub tasks: usize,
    /// Size of the journals in bytes.
    pub journal_bytes: u64,
    /// Number of commits.
    pub commits: u64,
    /// Duration of the longest commit in milliseconds.
    pub commit_ms_max: u64,
}

impl Questions {
    /// For the crawl in this folder and the handle of its worker.
    pub fn new(handle: Handle, folder: Folder, settings: Settings) -> Questions {
        let followers = Followers::of(Some(folder.clone()));
        let name = folder.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let archive = Some(Archive::new(folder.dir(), &name));
        let scopes = Scopes::of_folder(folder);
        Questions { handle, settings, clock: Clock::new(), scopes, followers, spider: None, archive }
    }

    /// Sets the spider of the crawl, which must know the addresses opened by added URLs.
    pub(crate) fn with_spider(mut self, spider: Spider) -> Questions {
        self.spider = Some(spider);
        self
    }

    /// For the partitions that a node owns: the handle of its worker and the jobs of the cluster.
    pub(crate) fn of_node(handle: Handle, jobs: Arc<Jobs>, settings: Settings) -> Questions {
        let followers = Followers::of(None);
        let scopes = Scopes::Jobs(jobs);
        let (spider, archive) = (None, None);
        Questions { handle, settings, clock: Clock::new(), scopes, followers, spider, archive }
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
        let judged = self.scopes.judge(&url, record)?;
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
            robots: explanation.host.as_ref().map(|host| robots_view(host, &explanation.held_by)),
            found: record.map(|record| Timestamp::from(record.found).warc_date()),
            depth: record.map(|record| record.depth),
            via: via.and_then(|via| via.page(&url.origin())),
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
            host: explanation.host.as_ref().map(|host| host_view(host, &explanation.held_by)),
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
    pub(crate) async fn add(&self, lines: &str) -> anyhow::Result<Added> {
        let job = self.scopes.in_force()?;
        let reach = self.reach()?;
        let now = self.clock.now().wall;
        let (mut added, mut links) = (Added::default(), Vec::new());
        for line in lines.lines() {
            match AddLine::read(line) {
                None => {}
                Some(Err(why)) => added.refuse(line, why),
                // A folder has one job, under any name.
                Some(Ok(said)) => {
                    let judged = said.judged(&job, false, &self.settings.trap, now);
                    match judged.and_then(|link| reach.check(&link.url).map(|()| link)) {
                        Ok(link) => links.push(link),
                        Err(why) => added.refuse(&said.url, why),
                    }
                }
            }
        }
        self.handle.offer_durably(&links).await?;
        added.taken = links.len() as u64;
        Ok(added)
    }

    /// The address rules for added URLs. Addresses that people typed in the meantime are permitted, for the spider as
    /// well.
    fn reach(&self) -> anyhow::Result<Reach> {
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
    pub(crate) async fn begin_stream(
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
        let held: Vec<Hold> =
            explanation.held_by.into_iter().filter(|hold| !matches!(hold, Hold::Robots { .. })).collect();
        Ok(explanation.host.as_ref().map(|host| host_view(host, &held)))
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

impl Explained {
    /// The explanation of a text that is not a URL. Such a text belongs to no partition: every node can answer.
    pub(crate) fn bad(text: &str, error: String) -> Explained {
        Explained {
            url: text.to_owned(),
            summary: Summary::BadUrl,
            because: error,
            canonical: None,
            scope: None,
            trap: None,
            standing: None,
            held_by: Vec::new(),
            robots: None,
            found: None,
            depth: None,
            via: None,
            hops: String::new(),
            retries: 0,
            last: None,
            next: None,
            expected_s: None,
            host: None,
            stream: None,
        }
    }

    /// Derives the summary and the reason.
    fn conclude(&mut self, explanation: &Explanation) {
        let forbidden = explanation.held_by.iter().find(|hold| matches!(hold, Hold::Robots { .. }));
        let waits = |explained: &mut Explained, summary| {
            explained.held_by = explanation.held_by.iter().map(Hold::to_string).collect();
            match (forbidden, explained.held_by.first()) {
                (Some(forbidden), _) => (Summary::Robots, forbidden.to_string()),
                (None, Some(first)) => (summary, format!("{}; {first}", explanation.standing)),
                (None, None) => (summary, explanation.standing.to_string()),
            }
        };
        let (summary, because) = match &explanation.standing {
            Standing::Fetching => (Summary::Fetching, "it is being fetched right now".to_owned()),
            Standing::Waiting | Standing::AtHand => waits(self, Summary::Queued),
            Standing::Parked { .. } => waits(self, Summary::Parked),
            Standing::Planned(due) => {
                let stopped = explanation.held_by.iter().find(|hold| matches!(hold, Hold::Stopped(_)));
                match stopped {
                    Some(stopped) => self.held_by.push(stopped.to_string()),
                    None => self.next = Some(due.warc_date()),
                }
                match self.last.as_ref().and_then(|last| Outcome::by_name(&last.outcome)) {
                    Some(last) if last.class() == Class::Ok => ended(last, self.last.as_ref()),
                    _ => waits(self, Summary::Queued),
                }
            }
            Standing::Ended(outcome) => ended(*outcome, self.last.as_ref()),
            Standing::Refused(refusal) => {
                let summary = match refusal {
                    Refusal::Depth | Refusal::Limit => Summary::OutOfScope,
                    _ => Summary::Trap,
                };
                (summary, refusal.meaning().trim().to_owned())
            }
            Standing::Unknown => match (&self.scope, &self.trap) {
                (Some(scope), _) if !scope.wanted => (Summary::OutOfScope, scope.because()),
                (_, Some(trap)) => (Summary::Trap, trap.clone()),
                _ if forbidden.is_some() => {
                    (Summary::Robots, forbidden.map(Hold::to_string).unwrap_or_default())
                }
                _ => (Summary::Unknown, "nobody found it yet; it would be in scope".to_owned()),
            },
        };
        self.summary = summary;
        self.because = because;
    }
}

fn ended(outcome: Outcome, last: Option<&LastView>) -> (Summary, String) {
    let at = last.map(|last| format!(" at {}", last.at)).unwrap_or_default();
    let status = last.and_then(|last| last.status).map(|status| format!(" {status}")).unwrap_or_default();
    let because = format!("{}{status}{at}: {}", outcome.name(), outcome.meaning().trim());
    let summary = match outcome {
        Outcome::Redirect => Summary::Redirected,
        Outcome::RobotsDenied => Summary::Robots,
        Outcome::OutOfScope => Summary::OutOfScope,
        outcome if outcome.class() == Class::Ok => Summary::Fetched,
        _ => Summary::Failed,
    };
    (summary, because)
}

fn robots_view(host: &HostRecord, held_by: &[Hold]) -> RobotsView {
    let robots = &host.robots;
    let policy = match robots.policy {
        RobotsPolicy::Unknown => "not asked for yet",
        RobotsPolicy::AllowAll => "everything is allowed",
        RobotsPolicy::DisallowAll => "everything is forbidden",
        RobotsPolicy::Rules => "it has rules",
    };
    let rule = held_by.iter().find_map(|hold| match hold {
        Hold::Robots { line, rule } => Some((*line, rule.to_string())),
        _ => None,
    });
    let asked = robots.policy != RobotsPolicy::Unknown;
    let time = |at| asked.then(|| Timestamp::from(at).warc_date());
    RobotsView {
        policy: policy.to_owned(),
        rule,
        unread: robots.unread.map(|why| why.to_string()),
        unread_since: (robots.unreachable_since.0 > 0)
            .then(|| Timestamp::from(robots.unreachable_since).warc_date()),
        fetched: time(robots.fetched),
        expires: time(robots.expires),
        crawl_delay_ms: robots.crawl_delay,
    }
}

fn host_view(host: &HostRecord, held_by: &[Hold]) -> HostView {
    HostView {
        origin: host.origin.to_string(),
        waiting: host.waiting,
        parked: host.parked,
        later: host.later,
        ended: host.ended,
        failures: host.failures,
        rest_until: (host.rest_until.0 > 0).then(|| host.rest_until.warc_date()),
        delay_ms: host.delay,
        stopped: host.stopped.to_string(),
        found: Timestamp::from(host.found).warc_date(),
        robots: robots_view(host, held_by),
        held_by: held_by.iter().map(Hold::to_string).collect(),
    }
}
