//! One ticket for a robots.txt.
//!
//! A redirect is not followed here: the target is reported to the frontier, which hands out a ticket for the target
//! when its host may be requested.

use std::time::{Duration, Instant};

use bytes::Bytes;
use nephila_core::follow::Source;
use nephila_core::frontier::report::{RobotsAnswer, RobotsReport};
use nephila_core::frontier::ticket::Ticket;
use nephila_core::handler::ReadAs;
use nephila_core::job::{State, Trail};
use nephila_core::robots::Robots;
use nephila_core::robots::policy::{Policy, RobotsResult, in_force};
use nephila_core::spider::Outcome;
use nephila_core::store::Truncation;
use nephila_core::url::CrawlUrl;
use nephila_core::want::Want;
use nephila_spider::Fetched;

use super::jobs::InForce;
use super::page::{EndedFetch, ask, line_of, reserve};
use super::resolve::has_others;
use super::shared::Shared;
use super::troubles;
use crate::log;
use crate::worker::Link;

/// Maximum number of sitemaps of one robots.txt.
pub const SITEMAPS_MAX: usize = 100;

/// Fetches a robots.txt, stores the response, and reports to the frontier.
pub async fn robots(shared: &Shared, ticket: Ticket) -> anyhow::Result<()> {
    let since = Instant::now();
    let url = match CrawlUrl::parse(&ticket.url) {
        Ok(url) if shared.settings.robots.obey => url,
        // Rules that are not obeyed are not requested.
        _ => {
            return Ok(shared
                .handle
                .robots(ticket.id, RobotsReport::of(RobotsResult::Status(404), Duration::ZERO))
                .await?);
        }
    };
    let mut trace = shared.trace(&ticket);
    trace.enter("fetch");
    let asked = ask(shared, &ticket, &url, Some(shared.settings.robots.bytes_max), &mut trace).await?;
    let Some(EndedFetch { mut fetched, began, took, request, .. }) = asked.map(|asked| *asked) else {
        trace.ended(Outcome::StopList, None);
        let report = RobotsReport::of(RobotsResult::Unreachable, Duration::ZERO);
        return Ok(shared.handle.robots(ticket.id, report).await?);
    };
    shared.counts.robots.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    trace.ended(fetched.outcome, fetched.status);
    let exchange = fetched.exchange.take();
    trace.enter("receive");
    let storing = reserve(shared).await;
    trace.enter("read");
    let report = judge(&fetched, shared.settings.robots.bytes_max, took);
    shared.counts.metrics.robots(&report);
    // The host may belong to a job that this process has not loaded yet.
    shared.stages.pass_on.refresh(&shared.jobs, since).await;
    let sitemaps = sitemaps(shared, &url, &report);
    remember_usage(shared, &ticket, &report);
    trace.enter("store");
    let (receipt, offered) = tokio::join!(shared.store(exchange), shared.offer(&sitemaps));
    offered?;
    let receipt = receipt?;
    trace.enter("report");
    let mut line = line_of(shared, &ticket, &fetched, began, took, receipt.as_ref());
    line.purpose = log::Purpose::Robots;
    // Another attempt follows at once, or at another address: this outcome is not final.
    let is_moved = fetched.outcome.is_unconnected() && has_others(shared, &url).await;
    let is_last = !(fetched.again || is_moved);
    if is_last {
        note_trouble(shared, &url, &report, &fetched);
    }
    request.ended(line).await;
    shared.handle.robots(ticket.id, report).await?;
    drop(storing);
    Ok(())
}

/// The meaning of a response for the requested host.
pub fn judge(fetched: &Fetched, bytes_max: u64, took: Duration) -> RobotsReport {
    let report = match &fetched.redirect {
        Some(target) => RobotsReport::of(RobotsAnswer::Redirect(Box::new(target.clone())), took),
        None => {
            let RobotsRead { answer, body, cut } = RobotsRead::of(fetched, bytes_max);
            let report = RobotsReport::of(answer, took);
            RobotsReport { body: body.as_ref().into(), cut, max_age: max_age(fetched), ..report }
        }
    };
    let unconnected = fetched.outcome.is_unconnected();
    let cause = fetched.status.is_none().then_some(fetched.outcome);
    RobotsReport { retry_after: fetched.retry_after, unconnected, again: fetched.again, cause, ..report }
}

/// Records why nothing of the host may be fetched, if its robots.txt is out of reach.
pub fn note_trouble(shared: &Shared, url: &CrawlUrl, report: &RobotsReport, fetched: &Fetched) {
    match report.answer {
        RobotsAnswer::Ended(RobotsResult::Unreachable | RobotsResult::Status(429 | 500..)) => {
            let cause = troubles::words(fetched.outcome, fetched.status, &fetched.detail);
            shared.troubles.host_failed(url.origin(), format!("robots.txt cannot be read: {cause}"));
        }
        _ => shared.troubles.host_answered(url.origin()),
    }
}

/// Stores the host's statements about the use of its pages. Only the frontier knows to which host a redirected
/// robots.txt belongs.
pub fn remember_usage(shared: &Shared, ticket: &Ticket, report: &RobotsReport) {
    if let (RobotsAnswer::Ended(RobotsResult::Status(200..300)), Ok(url)) =
        (&report.answer, CrawlUrl::parse(&ticket.url))
        && url.path_and_query() == "/robots.txt"
    {
        let robots = Robots::parse(&report.body, &shared.settings.identity.agent);
        shared.usage.set(url.origin().to_owned(), robots.notes());
    }
}

/// `Cache-Control: max-age`.
pub fn max_age(fetched: &Fetched) -> Option<Duration> {
    let fields = fetched.fields.get_all(http::header::CACHE_CONTROL);
    let mut ages = fields.iter().filter_map(|field| field.to_str().ok()).flat_map(|field| field.split(','));
    ages.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let seconds = name.trim().eq_ignore_ascii_case("max-age").then(|| value.trim().trim_matches('"'))?;
        Some(Duration::from_secs(seconds.parse().ok()?))
    })
}

/// The sitemaps that a robots.txt names.
pub fn sitemaps(shared: &Shared, url: &CrawlUrl, report: &RobotsReport) -> Vec<Link> {
    let RobotsAnswer::Ended(answer) = &report.answer else { return Vec::new() };
    let rules = in_force(*answer, false, Duration::ZERO, &shared.settings.robots.policy());
    if rules != Policy::Rules || !shared.reads_sitemaps() {
        return Vec::new();
    }
    let robots = Robots::parse(&report.body, &shared.settings.identity.agent);
    // A crawl with one job reads every sitemap: its pages are judged by its scope.
    let single = shared.stages.pass_on.is_alone() && shared.jobs.is_single();
    let root = url.join("/").ok();
    let wants = |job: &InForce| match (&root, single) {
        (Some(root), false) => job.wants_sitemaps_of(root),
        _ => job.wants_sitemaps(),
    };
    let mut source = sitemap_source(shared, url);
    let mut jobs = shared.jobs.all();
    jobs.retain(|job| wants(job));
    // A URL belongs to one job: not to one that is stopped, if another wants it.
    if jobs.iter().any(|job| job.state != State::Stopped) {
        jobs.retain(|job| job.state != State::Stopped);
    }
    let jobs = jobs.into_iter();
    jobs.flat_map(|job| sitemap_links(&job, &robots, url, &mut source)).collect()
}

/// A robots.txt as the page that names sitemaps. Heritrix counts it as a hop of its own: a prerequisite.
pub(super) fn sitemap_source<'a>(shared: &Shared, url: &'a CrawlUrl) -> Source<'a> {
    Source::new(url, shared.handle.secret(), Trail::SEED.hop('P'))
}

/// The sitemaps of a robots.txt, as links of a job. At depth 0: the pages that a sitemap names are one link away from a
/// seed.
pub(super) fn sitemap_links(
    job: &InForce,
    robots: &Robots,
    url: &CrawlUrl,
    source: &mut Source<'_>,
) -> Vec<Link> {
    let targets = robots.sitemaps().iter().take(SITEMAPS_MAX).filter_map(|text| url.join(text).ok());
    let wanted = targets.filter(|target| !job.excludes(target)).map(|url| {
        let (via, source) = source.of_link(&url, 'M');
        let (read_as, priority, via) = (ReadAs::Sitemap, job.priority, Some(via));
        Link { url, want: Want { read_as, priority, via, source, ..Want::of(job.id) } }
    });
    wanted.collect()
}

/// The response to a robots.txt request, after all redirects.
pub struct RobotsRead {
    /// HTTP status; unreachable without a response, or if the response broke off.
    pub answer: RobotsResult,
    /// The body, up to the size limit.
    pub body: Bytes,
    /// Whether the body exceeds the limit.
    pub cut: bool,
}

impl RobotsRead {
    /// The meaning of a response for the rules of its host.
    pub fn of(fetched: &Fetched, bytes_max: u64) -> RobotsRead {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        let body = fetched.decoded.as_ref().map(|body| body.start(bytes_max));
        let answer = match fetched.status {
            // A status with a partial body is no answer: half a robots.txt may allow what the other half forbids.
            Some(_) if matches!(fetched.truncated, Some(Truncation::Time | Truncation::Disconnect)) => {
                RobotsResult::Unreachable
            }
            // Our own disk lost the body: the same as no answer.
            Some(_) if matches!(body, Some(Err(_))) => RobotsResult::Unreachable,
            Some(status) => RobotsResult::Status(status),
            None => RobotsResult::Unreachable,
        };
        let body = body.and_then(Result::ok).unwrap_or_default();
        RobotsRead { answer, body, cut: fetched.truncated == Some(Truncation::Length) }
    }
}
