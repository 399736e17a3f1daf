//! One ticket for a robots.txt.
//!
//! A redirect is not followed here: its target is told to the frontier, which gives a ticket for it when its host may be
//! asked.

use std::time::{Duration, Instant};

use nephila_core::frontier::report::{RobotsAnswer, RobotsReport};
use nephila_core::frontier::ticket::Ticket;
use nephila_core::handler::ReadAs;
use nephila_core::job::Hops;
use nephila_core::robots::Robots;
use nephila_core::robots::policy::{Answer, Policy, in_force};
use nephila_core::spider::Outcome;
use nephila_core::store::Truncation;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Keep, Request};

use super::page::{line_of, reserve};
use super::shared::{JOB, Shared};
use crate::log;
use crate::worker::Link;

/// Sitemaps of one robots.txt that are read.
const SITEMAPS_MAX: usize = 100;

/// Asks for a robots.txt, stores it, tells the frontier.
pub(super) async fn robots(shared: &Shared, ticket: Ticket) -> anyhow::Result<()> {
    let url = match CrawlUrl::parse(&ticket.url) {
        Ok(url) if shared.settings.robots.obey => url,
        // Nobody asks for rules that are not obeyed.
        _ => return Ok(shared.handle.robots(ticket.id, ended(Answer::Status(404), Duration::ZERO)).await?),
    };
    let request = Request {
        fields: shared.fields_for(&url),
        keep: Keep { exchange: shared.archive.is_some(), decoded: true, sha1: false },
        body_bytes_max: Some(shared.settings.robots.bytes_max),
        address: Some(ticket.address),
        ..Request::get(url.clone())
    };
    let began = shared.clock.now().wall;
    let began_at = Instant::now();
    let mut fetched = shared.spider.fetch(request).await;
    let took = began_at.elapsed();
    shared.counts.robots.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let exchange = fetched.exchange.take();
    let storing = reserve(shared).await;
    let mut report = judge(&fetched, shared.settings.robots.bytes_max, took);
    report.retry_after = fetched.retry_after;
    let sitemaps = sitemaps(shared, &url, &report);
    let (receipt, offered) = tokio::join!(shared.store(exchange), shared.handle.offer_durably(&sitemaps));
    offered?;
    let receipt = receipt?;
    let mut line = line_of(shared, &ticket, &fetched, began, took, receipt.as_ref());
    line.purpose = log::Purpose::Robots;
    shared.log.write(&line).await;
    shared.handle.robots(ticket.id, report).await?;
    drop(storing);
    if matches!(
        fetched.outcome,
        Outcome::ConnectRefused | Outcome::ConnectTimeout | Outcome::ConnectUnreachable
    ) {
        super::resolve::try_another(shared, ticket.key.host, &url, ticket.address).await?;
    }
    Ok(())
}

fn ended(answer: Answer, took: Duration) -> RobotsReport {
    RobotsReport {
        answer: RobotsAnswer::Ended(answer),
        body: Box::default(),
        cut: false,
        max_age: None,
        retry_after: None,
        took,
    }
}

/// What an answer means for the host that was asked.
fn judge(fetched: &Fetched, bytes_max: u64, took: Duration) -> RobotsReport {
    if let Some(target) = &fetched.redirect {
        return RobotsReport {
            answer: RobotsAnswer::Redirect(Box::new(target.clone())),
            ..ended(Answer::Unreachable, took)
        };
    }
    let body =
        fetched.decoded.as_ref().map(|body| body.start(usize::try_from(bytes_max).unwrap_or(usize::MAX)));
    let answer = match fetched.status {
        // A status without its whole body is no answer: half a robots.txt may allow what the other half forbids.
        Some(_) if matches!(fetched.truncated, Some(Truncation::Time | Truncation::Disconnect)) => {
            Answer::Unreachable
        }
        // Our own disk lost it: as little to go by as no answer at all.
        Some(_) if matches!(body, Some(Err(_))) => Answer::Unreachable,
        Some(status) => Answer::Status(status),
        None => Answer::Unreachable,
    };
    let body = body.and_then(Result::ok).unwrap_or_default();
    RobotsReport {
        body: body.as_ref().into(),
        cut: fetched.truncated == Some(Truncation::Length),
        max_age: max_age(fetched),
        ..ended(answer, took)
    }
}

/// `Cache-Control: max-age`.
fn max_age(fetched: &Fetched) -> Option<Duration> {
    let fields = fetched.fields.get_all(http::header::CACHE_CONTROL);
    let mut ages = fields.iter().filter_map(|field| field.to_str().ok()).flat_map(|field| field.split(','));
    ages.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let seconds = name.trim().eq_ignore_ascii_case("max-age").then(|| value.trim().trim_matches('"'))?;
        Some(Duration::from_secs(seconds.parse().ok()?))
    })
}

/// The sitemaps that a robots.txt names.
fn sitemaps(shared: &Shared, url: &CrawlUrl, report: &RobotsReport) -> Vec<Link> {
    let RobotsAnswer::Ended(answer) = &report.answer else { return Vec::new() };
    let rules = in_force(*answer, false, Duration::ZERO, &shared.settings.robots.policy());
    if rules != Policy::Rules || !shared.reads_sitemaps() {
        return Vec::new();
    }
    let robots = Robots::parse(&report.body, &shared.settings.identity.agent);
    let targets = robots.sitemaps().iter().take(SITEMAPS_MAX).filter_map(|text| url.join(text).ok());
    let excluded = |target: &CrawlUrl| shared.excludes(target);
    targets
        .filter(|target| !excluded(target))
        .map(|url| Link {
            url,
            job: JOB,
            // What it names is one link away from a seed.
            depth: 0,
            priority: 5,
            hits: 0,
            hops: Hops::NONE,
            read_as: ReadAs::Sitemap,
            refusal: None,
        })
        .collect()
}
