//! One page: the newest capture if it is young enough, else the page as it is fetched now.
//!
//! The URL is added to a job like every other URL, and `explain` says when it was fetched: so robots.txt, delays, stops and
//! budgets apply, and a page that is not fetched has a reason. A redirect is followed the same way.
//!
//! Invariant: the answer comes within the timeout of the request and the reading of one capture.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::ask::Ask;
use super::failure::{Failure, Kind};
use super::render::{self, Stored};
use super::site::{json, parsed, post};
use super::{ScrapeOptions, Scraped, TIMEOUT_MAX, Wants};
use crate::captures;
use crate::explain::{Explained, Summary};
use crate::question::escaped;
use crate::views::Added;

/// Maximum number of redirects.
const REDIRECTS_MAX: usize = 10;
/// First and longest pause between two looks at a URL that is awaited.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_MAX: Duration = Duration::from_millis(500);
/// Maximum time from the end of a fetch until its capture is in the archive.
const ARCHIVED_MAX: Duration = Duration::from_secs(5);
/// Priority of the job of single pages: somebody waits for them.
const PRIORITY: u8 = 1;

/// Time of the newest capture, as `as=json` gives it.
#[derive(Deserialize)]
struct Newest {
    #[serde(default)]
    timestamp: String,
}

/// Reads the newest capture of a page, or the one nearest to a time of 4 to 14 digits. Nothing is fetched.
pub async fn read(ask: &impl Ask, url: &str, wants: Wants, at: Option<&str>) -> Result<Scraped, Failure> {
    let mut url = parsed(url)?;
    let asked = url.as_str().to_owned();
    for _ in 0..=REDIRECTS_MAX {
        let stored = render::stored(ask, &url, at).await?;
        match stored.redirect() {
            Some(to) => url = to,
            None => {
                let page = render::scraped(asked, stored, wants).await?;
                return Ok(Scraped { cached: true, ..page });
            }
        }
    }
    Err(too_many(&url))
}

fn too_many(url: &CrawlUrl) -> Failure {
    let text = format!("more than {REDIRECTS_MAX} redirects, the last one to {}", url.as_str());
    Failure::new(Kind::Site, text).code("SCRAPE_TOO_MANY_REDIRECTS")
}

/// Scrapes a page: see the module.
pub async fn scrape(ask: &impl Ask, url: &str, options: &ScrapeOptions) -> Result<Scraped, Failure> {
    let mut url = parsed(url)?;
    let asked = url.as_str().to_owned();
    let (mut cached, mut warning) = (true, None);
    let until = Instant::now() + options.timeout.min(TIMEOUT_MAX);
    for _ in 0..=REDIRECTS_MAX {
        let got = obtain(ask, &url, options, until).await?;
        cached &= got.cached;
        warning = warning.or(got.warning);
        match got.stored.redirect() {
            Some(to) => url = to,
            None => {
                let page = render::scraped(asked, got.stored, options.wants).await?;
                return Ok(Scraped { cached, warning: warning.or(page.warning), ..page });
            }
        }
    }
    Err(too_many(&url))
}

/// A capture, and how it was come by.
struct Got {
    stored: Stored,
    cached: bool,
    warning: Option<String>,
}

async fn obtain(
    ask: &impl Ask,
    url: &CrawlUrl,
    options: &ScrapeOptions,
    until: Instant,
) -> Result<Got, Failure> {
    let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let known = newest(ask, url).await?;
    if let Some(at) = &known
        && began.saturating_sub(seconds_of(at)) <= options.max_age.as_secs()
        && !options.max_age.is_zero()
    {
        return Ok(Got { stored: render::stored(ask, url, None).await?, cached: true, warning: None });
    }
    let before = explained(ask, url).await?;
    if before.summary == Summary::BadUrl {
        return Err(Failure::wrong(before.because));
    }
    // A URL that was fetched before, or failed, is fetched once more.
    let again = before.last.is_some() || before.summary == Summary::Robots;
    let added = add(ask, url, &options.job, again).await;
    if let (Err(failure), Some(at)) = (&added, &known) {
        let text = format!("the capture of {} is older than wanted: {failure}", captures::date(at));
        let stored = render::stored(ask, url, None).await?;
        return Ok(Got { stored, cached: true, warning: Some(text) });
    }
    let stored = match added {
        Err(refusal) if again && refusal.kind == Kind::Forbidden => {
            not_again(ask, url, &before, refusal, (began, until)).await?;
            archived(ask, url, None).await?
        }
        added => {
            added?;
            let since = again.then_some(began);
            wait(ask, url, since, until).await?;
            archived(ask, url, since).await?
        }
    };
    Ok(Got { cached: seconds_of(&stored.captured) + 1 < began, stored, warning: None })
}

/// The capture of a URL that was fetched; with `since` (in seconds), the one of that time or later, unless none comes. The
/// archive file may have a capture a moment after the frontier knows of it.
async fn archived(ask: &impl Ask, url: &CrawlUrl, since: Option<u64>) -> Result<Stored, Failure> {
    let until = Instant::now() + ARCHIVED_MAX;
    loop {
        let stored = render::stored(ask, url, None).await;
        let is_there = match &stored {
            // Times are in whole seconds.
            Ok(stored) => since.is_none_or(|since| seconds_of(&stored.captured) + 1 >= since),
            Err(failure) => failure.kind != Kind::Away,
        };
        if is_there || Instant::now() >= until {
            return stored;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// What comes of a URL that was asked for before and is not asked for again at once, as in a cluster: its next try, if that
/// is in time, otherwise how the last one ended.
async fn not_again(
    ask: &impl Ask,
    url: &CrawlUrl,
    before: &Explained,
    refusal: Failure,
    (began, until): (u64, Instant),
) -> Result<(), Failure> {
    let left = until.saturating_duration_since(Instant::now()).as_secs();
    let is_soon = before.next.is_none() || before.expected_s.is_some_and(|expected| expected <= left);
    if is_soon && matches!(before.summary, Summary::Queued | Summary::Fetching) {
        return wait(ask, url, Some(began), until).await;
    }
    match verdict(before, None, true) {
        Some(Err(failure)) => {
            Err(Failure { message: format!("{}; {}", failure.message, refusal.message), ..failure })
        }
        Some(Ok(())) => Ok(()),
        None => Err(refusal),
    }
}

/// Seconds since 1970 of a time of 14 digits.
fn seconds_of(digits: &str) -> u64 {
    let date = captures::date(digits);
    date.parse::<jiff::Timestamp>().map_or(0, |at| u64::try_from(at.as_second()).unwrap_or(0))
}

async fn newest(ask: &impl Ask, url: &CrawlUrl) -> Result<Option<String>, Failure> {
    let target = format!("/api/v1/pages?as=json&url={}", escaped(url.as_str()));
    match json::<Newest>(ask, target).await {
        Ok(newest) => Ok(Some(newest.timestamp).filter(|at| !at.is_empty())),
        // 503: the URL is wanted and not there yet, or its owner is away. `explain` will say which.
        Err(failure) if matches!(failure.kind, Kind::NotFound | Kind::Away) => Ok(None),
        Err(failure) => Err(failure),
    }
}

async fn explained(ask: &impl Ask, url: &CrawlUrl) -> Result<Explained, Failure> {
    json(ask, format!("/api/v1/explain?url={}", escaped(url.as_str()))).await
}

/// Adds a URL to a job. A missing job is made: every URL that is added is wanted, and no link of it.
async fn add(ask: &impl Ask, url: &CrawlUrl, job: &str, again: bool) -> Result<(), Failure> {
    match json::<serde_json::Value>(ask, format!("/api/v1/jobs/{}", escaped(job))).await {
        Ok(_) => {}
        Err(failure) if failure.kind == Kind::NotFound => {
            let scope = json!({"kind": "any", "depth_max": 0, "seeds": [url.as_str()]});
            let made = json!({"name": job, "scope": scope, "priority": PRIORITY}).to_string();
            match post(ask, "/api/v1/jobs".into(), "application/json", made).await {
                // Somebody else has made it meanwhile.
                Err(failure) if failure.kind == Kind::Conflict => {}
                made => drop(made?),
            }
        }
        Err(failure) => return Err(failure),
    }
    let mut line = json!({"url": url.as_str()});
    if again {
        line["again"] = true.into();
    }
    let target = format!("/api/v1/urls?job={}", escaped(job));
    let reply = post(ask, target, "application/x-ndjson", format!("{line}\n")).await?;
    let added: Added = reply.json()?;
    match added.refusals.first() {
        None => Ok(()),
        Some(refused) => {
            let text = format!("{} is not fetched: {}", refused.url, refused.why);
            Err(Failure::new(Kind::Forbidden, text).code("SCRAPE_REFUSED"))
        }
    }
}

/// Waits until a URL was fetched; with `since` (in seconds), at that time or later.
async fn wait(ask: &impl Ask, url: &CrawlUrl, since: Option<u64>, until: Instant) -> Result<(), Failure> {
    let mut pause = LOOK;
    loop {
        let explained = explained(ask, url).await?;
        let is_last = Instant::now() + pause >= until;
        if let Some(ended) = verdict(&explained, since, is_last) {
            return ended;
        }
        if is_last {
            let text = format!(
                "{} was not fetched in time: {} ({}). It stays in the queue: ask again later, or with a longer timeout",
                explained.url,
                explained.summary.name(),
                explained.because
            );
            let failure = Failure::new(Kind::Timeout, text).code("SCRAPE_TIMEOUT");
            return Err(Failure { retry_after: explained.expected_s, ..failure });
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_MAX);
    }
}

/// How the wait ends; none while the URL is to be awaited. `is_last` is true for the last look.
fn verdict(explained: &Explained, since: Option<u64>, is_last: bool) -> Option<Result<(), Failure>> {
    let last = explained.last.as_ref();
    let ended_at = last.and_then(|last| last.at.parse::<jiff::Timestamp>().ok());
    // Times are in whole seconds.
    let is_new = |at: jiff::Timestamp| since.is_none_or(|since| at.as_second() + 1 >= since as i64);
    let has_ended = ended_at.is_some_and(is_new);
    let refused = |code| {
        let text = format!("{} is not fetched: {}", explained.url, explained.because);
        Some(Err(Failure::new(Kind::Forbidden, text).code(code)))
    };
    match explained.summary {
        Summary::Fetched | Summary::Redirected if has_ended => Some(Ok(())),
        Summary::Robots => refused("SCRAPE_ROBOTS_DENIED"),
        // In a cluster the URL is on its way to its partition, and is judged as a link until it is there.
        Summary::OutOfScope | Summary::Trap if explained.found.is_none() && !is_last => None,
        Summary::OutOfScope if last.is_none() || has_ended => refused("SCRAPE_OUT_OF_SCOPE"),
        Summary::Trap => refused("SCRAPE_TRAP"),
        Summary::BadUrl => Some(Err(Failure::wrong(explained.because.clone()))),
        Summary::Parked => refused("SCRAPE_BUDGET"),
        // Failed for good, or to be tried again much later. A page with an error status is a page.
        Summary::Failed | Summary::Queued if has_ended => {
            let last = last?;
            if last.status.is_some_and(|status| (400..600).contains(&status)) {
                return Some(Ok(()));
            }
            let later = explained.next.as_ref().map(|at| format!("; it is tried again at {at}"));
            let text = format!(
                "{} could not be fetched: {}: {}{}",
                explained.url,
                last.outcome,
                last.meaning,
                later.unwrap_or_default()
            );
            let code = match &*last.outcome {
                outcome if outcome.starts_with("dns") => "SCRAPE_DNS_RESOLUTION_ERROR",
                outcome if outcome.starts_with("tls") => "SCRAPE_SSL_ERROR",
                _ => "SCRAPE_SITE_ERROR",
            };
            Some(Err(Failure::new(Kind::Site, text).code(code)))
        }
        _ => None,
    }
}

/// The time now, for messages and names.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
