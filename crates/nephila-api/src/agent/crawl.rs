//! A crawl of a site: a job with one seed.
//!
//! The pages of a crawl are the pages of its site that its job wants: those that were fetched since it began, and those
//! that the archive had before, because a known page is not fetched again. They are listed by the time of their capture.
//! A cursor is a number of pages: while the crawl goes on, a page may be listed before it; of a crawl that has ended, the
//! answers have each page once.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use nephila_core::job::{Job, Kind as Around, Limits, Scope, State};
use nephila_core::spider::Outcome;
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use super::ask::Ask;
use super::failure::{Failure, Kind};
use super::id::Id;
use super::render;
use super::site::{Seen, Site, json, parsed, post, seen_in};
use super::{CrawlError, CrawlOptions, CrawlState, CrawlStatus, Scraped};
use crate::captures;
use crate::explain::HostView;
use crate::jobs::{ProgressSaid, SeedSaid};
use crate::question::escaped;
use crate::status::StatusSaid;

/// Maximum number of pages in an answer, and of their bytes: the last one may exceed these.
const PAGES_MAX: usize = 25;
const PAGES_BYTES_MAX: usize = 6 << 20;
/// Maximum duration of listing the pages of a crawl, and of reading those of one answer apart from the last one.
const LIST_TIME_MAX: Duration = Duration::from_secs(30);
const PAGES_TIME_MAX: Duration = Duration::from_secs(20);
/// Maximum number of pages that are listed.
const LISTED_MAX: usize = 50_000;
/// Maximum number of errors in an answer.
const ERRORS_MAX: usize = 1_000;
/// Priority of the job of a crawl: behind single pages, before large jobs.
const PRIORITY: u8 = 3;

/// What a server says of a job: more fields follow.
#[derive(Deserialize)]
struct Said {
    job: Job,
    #[serde(default)]
    moved: Vec<String>,
    #[serde(default)]
    progress: ProgressSaid,
    #[serde(default)]
    seeds: Vec<SeedSaid>,
}

/// Begins a crawl. Returns its id.
pub async fn crawl(ask: &impl Ask, url: &str, options: &CrawlOptions) -> Result<String, Failure> {
    let seed = parsed(url)?;
    let id = Id::new(options.wants);
    let limits = Limits { pages_max: options.limit.max(1), ..Limits::default() };
    let made = json!({
        "name": id.job,
        "scope": scope(&seed, options),
        "limits": limits,
        "priority": PRIORITY,
    });
    post(ask, "/api/v1/jobs".into(), "application/json", made.to_string()).await?;
    Ok(id.text())
}

/// The scope of a crawl. With patterns to include, they alone bring URLs in, beside the seed: a scope that has the host too
/// would bring in what either of both matches.
fn scope(seed: &CrawlUrl, options: &CrawlOptions) -> Scope {
    let kind = match (options.include.is_empty(), options.subdomains, options.whole_host) {
        (false, ..) => Around::Page,
        (true, true, _) => Around::Domain,
        (true, false, true) => Around::Host,
        (true, false, false) => Around::Prefix,
    };
    Scope {
        kind,
        seeds: vec![seed.as_str().to_owned()],
        include: options.include.clone(),
        exclude: options.exclude.clone(),
        extra_hops: 0,
        depth_max: options.depth,
    }
}

async fn said(ask: &impl Ask, id: &Id) -> Result<Said, Failure> {
    match json::<Said>(ask, format!("/api/v1/jobs/{}", escaped(&id.job))).await {
        Err(failure) if failure.kind == Kind::NotFound => {
            Err(Failure::new(Kind::NotFound, format!("there is no crawl {}", id.text())))
        }
        said => said,
    }
}

/// The pages of a crawl so far, the oldest capture first, at most as many as its limit: those that it fetched come before
/// those that were there.
async fn pages(ask: &impl Ask, id: &Id, said: &Said, site: &Site) -> Result<Vec<Seen>, Failure> {
    let mut newest: HashMap<String, Seen> = HashMap::new();
    let logged = site.logged(ask, id.began_ms).await?.into_iter().filter_map(seen_in);
    for seen in site.captured(ask, LISTED_MAX).await?.into_iter().chain(logged) {
        let known = newest.entry(seen.url.key().to_owned()).or_insert_with(|| seen.clone());
        if known.captured < seen.captured {
            *known = seen;
        }
    }
    let mut pages: Vec<Seen> = newest.into_values().filter(Seen::is_page).collect();
    let limit = usize::try_from(said.job.limits.pages_max).unwrap_or(usize::MAX);
    let began = Timestamp(id.began_ms).digits14();
    pages.sort_by(|a, b| {
        (a.captured < began, &a.captured, a.url.key()).cmp(&(b.captured < began, &b.captured, b.url.key()))
    });
    pages.truncate(if limit == 0 { LISTED_MAX } else { limit });
    pages.sort_by(|a, b| (&a.captured, a.url.key()).cmp(&(&b.captured, b.url.key())));
    Ok(pages)
}

/// Whether everything that is left waits for its next try, after a failure of the site.
async fn is_later(ask: &impl Ask, said: &Said, site: &Site) -> Result<bool, Failure> {
    if said.progress.left == 0 || said.progress.reads_archive {
        return Ok(false);
    }
    if site.is_wide {
        let frontier = json::<StatusSaid>(ask, "/api/v1/status".to_owned()).await?.frontier;
        return Ok(frontier.queued + frontier.offers_waiting + frontier.tickets_open == 0);
    }
    let target = format!("/api/v1/host?url={}", escaped(site.seed.as_str()));
    let host: Option<HostView> = json(ask, target).await?;
    // What is under way is left too, and may be counted as planned.
    Ok(host.is_some_and(|host| {
        host.waiting + host.under_way == 0 && said.progress.left <= host.later + host.parked
    }))
}

fn state(said: &Said, pages: usize, is_later: bool) -> CrawlState {
    let limit = said.job.limits.pages_max;
    let at_limit = limit > 0 && said.progress.pages >= limit;
    let seed = said.seeds.first().map_or("", |seed| &seed.state);
    match said.job.state {
        State::Stopped if at_limit => CrawlState::Completed,
        State::Stopped if said.progress.complete.is_none() => CrawlState::Cancelled,
        // A seed that is not known yet has not reached its partition.
        State::Running | State::Paused
            if ["", "unknown", "queued", "later"].contains(&seed) && !at_limit && pages == 0 && !is_later =>
        {
            CrawlState::Scraping
        }
        _ if at_limit => CrawlState::Completed,
        _ if said.progress.complete.is_none() && said.progress.left > 0 && !is_later => CrawlState::Scraping,
        _ if pages == 0 && ["failed", "refused", "bad", "parked", "later"].contains(&seed) => {
            CrawlState::Failed
        }
        _ => CrawlState::Completed,
    }
}

/// What the server says of a crawl, whether everything that is left is tried again later, and the pages so far.
async fn list(ask: &impl Ask, id: &Id) -> Result<(Said, bool, Vec<Seen>), Failure> {
    // The state first: pages that come meanwhile are listed, and a complete crawl has all its pages.
    let said = said(ask, id).await?;
    let site = Site::of_scope(&said.job.scope, &said.moved)?;
    let is_later = is_later(ask, &said, &site).await?;
    let all = pages(ask, id, &said, &site).await?;
    Ok((said, is_later, all))
}

/// The list of a crawl within its time.
async fn bounded<T>(listing: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    tokio::time::timeout(LIST_TIME_MAX, listing).await.unwrap_or_else(|_| {
        let seconds = LIST_TIME_MAX.as_secs();
        let why = format!("the pages could not be listed within {seconds} s: ask again later");
        Err(Failure::new(Kind::Timeout, why))
    })
}

/// How far a crawl is, with its pages from a cursor on.
pub async fn crawl_status(ask: &impl Ask, id: &str, cursor: Option<&str>) -> Result<CrawlStatus, Failure> {
    let id = Id::parse(id)?;
    let from = match cursor.filter(|cursor| !cursor.is_empty()) {
        None => 0,
        Some(cursor) => cursor.parse::<usize>().map_err(|_| {
            Failure::wrong(format!(
                "the cursor {}: take the one of the answer before",
                nephila_core::text::shown(cursor)
            ))
        })?,
    };
    let (said, is_later, all) = bounded(list(ask, &id)).await?;
    let state = state(&said, all.len(), is_later);
    let (mut given, mut bytes, mut unread) = (Vec::new(), 0, 0);
    let mut next = from;
    let until = Instant::now() + PAGES_TIME_MAX;
    for seen in all.iter().skip(from) {
        let is_late = next > from && Instant::now() >= until;
        if is_late || given.len() >= PAGES_MAX || bytes >= PAGES_BYTES_MAX {
            break;
        }
        next += 1;
        match page(ask, seen, &id).await {
            Ok(page) => {
                bytes += weight(&page);
                given.push(page);
            }
            Err(failure) if matches!(failure.kind, Kind::NotFound | Kind::Site | Kind::TooLarge) => {
                unread += 1
            }
            Err(failure) => return Err(failure),
        }
    }
    let completed = all.len() as u64;
    let left = if state == CrawlState::Scraping { said.progress.left } else { 0 };
    let limit = if said.job.limits.pages_max == 0 { u64::MAX } else { said.job.limits.pages_max };
    let warning = match (unread, state) {
        (1.., _) => Some(format!("{unread} pages could not be read from the archive")),
        (_, CrawlState::Completed) if is_later => {
            Some(format!("{} URLs failed and are tried again later: see the errors", said.progress.left))
        }
        _ => None,
    };
    let has_more = next < all.len();
    Ok(CrawlStatus {
        state,
        completed,
        total: completed.saturating_add(left).min(limit.max(completed)),
        pages: given,
        next: has_more.then(|| next.to_string()),
        warning,
    })
}

/// One page of a crawl.
async fn page(ask: &impl Ask, seen: &Seen, id: &Id) -> Result<Scraped, Failure> {
    let stored = render::stored(ask, &seen.url, Some(&seen.captured)).await?;
    let cached = captures::date(&stored.captured);
    let page = render::scraped(seen.url.as_str().to_owned(), stored, id.wants).await?;
    let began = Timestamp(id.began_ms).warc_date();
    Ok(Scraped { cached: cached < began, ..page })
}

/// Size of a page in an answer, in bytes.
fn weight(page: &Scraped) -> usize {
    let texts = [&page.markdown, &page.html, &page.raw_html];
    let lists = [&page.links, &page.images];
    texts.iter().filter_map(|text| text.as_ref()).map(String::len).sum::<usize>()
        + lists.iter().filter_map(|list| list.as_ref()).flatten().map(String::len).sum::<usize>()
}

/// The URLs of a crawl that could not be fetched since it began, and those that robots.txt forbids.
pub async fn crawl_errors(ask: &impl Ask, id: &str) -> Result<Vec<CrawlError>, Failure> {
    let id = Id::parse(id)?;
    let said = said(ask, &id).await?;
    let site = Site::of_scope(&said.job.scope, &said.moved)?;
    let lines = site.logged(ask, id.began_ms).await?;
    // The last line of a URL counts: a failure may have been followed by a success.
    let mut known = HashSet::new();
    let last = lines.into_iter().filter(|line| line.purpose == "page" && known.insert(line.url.clone()));
    let failed = last.filter(|line| line.class != "ok").take(ERRORS_MAX);
    let error = |line: crate::log_view::LogLine| CrawlError {
        by_robots: line.outcome == Outcome::RobotsDenied.name(),
        why: match Outcome::by_name(&line.outcome) {
            Some(outcome) => outcome.meaning().trim().to_owned(),
            None => line.detail,
        },
        url: line.url,
        at: line.at,
        outcome: line.outcome,
    };
    let mut all: Vec<CrawlError> = failed.map(error).collect();
    let denied = site.denied(ask).await?.into_iter().filter(|row| known.insert(row.url.clone()));
    all.extend(denied.take(ERRORS_MAX).map(|row| CrawlError {
        by_robots: true,
        why: Outcome::RobotsDenied.meaning().trim().to_owned(),
        url: row.url,
        at: row.at.unwrap_or(row.found),
        outcome: Outcome::RobotsDenied.name().to_owned(),
    }));
    Ok(all)
}

/// Stops a crawl. One that has ended is [`Kind::Conflict`]; its job is stopped too, so that nothing is added to it, unless
/// failed URLs are tried again later.
pub async fn crawl_cancel(ask: &impl Ask, id: &str) -> Result<(), Failure> {
    let parsed = Id::parse(id)?;
    let (said, is_later, pages) = bounded(list(ask, &parsed)).await?;
    let has_ended = state(&said, pages.len(), is_later) != CrawlState::Scraping;
    if said.job.state != State::Stopped && (!has_ended || said.progress.left == 0) {
        let target = format!("/api/v1/jobs/{}/stop", escaped(&parsed.job));
        post(ask, target, "application/json", "").await?;
    }
    match has_ended {
        true => {
            Err(Failure::new(Kind::Conflict, format!("the crawl {id} has ended: there is nothing to cancel")))
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(state: State, pages: u64, left: u64, seed: &str) -> Said {
        let mut job = Job::new(nephila_core::job::JobId(2), "agent-1-1");
        (job.state, job.limits.pages_max) = (state, 5);
        let progress = ProgressSaid { pages, left, ..ProgressSaid::default() };
        let seeds = vec![SeedSaid { state: seed.into(), ..SeedSaid::default() }];
        Said { job, moved: Vec::new(), progress, seeds }
    }

    #[test]
    fn a_crawl_ends_when_nothing_is_left_at_its_limit_or_when_it_is_stopped() {
        use CrawlState::{Cancelled, Completed, Failed, Scraping};
        for (state_of_job, fetched, left, seed, listed, is) in [
            (State::Running, 0, 1, "queued", 0, Scraping),
            (State::Running, 0, 0, "unknown", 0, Scraping),
            (State::Running, 1, 7, "fetched", 1, Scraping),
            (State::Running, 3, 0, "fetched", 3, Completed),
            (State::Running, 5, 9, "fetched", 5, Completed),
            (State::Stopped, 5, 9, "fetched", 5, Completed),
            (State::Stopped, 2, 9, "fetched", 2, Cancelled),
            (State::Running, 0, 0, "failed", 0, Failed),
            (State::Running, 0, 0, "redirected", 0, Completed),
        ] {
            let said = said(state_of_job, fetched, left, seed);
            assert_eq!(state(&said, listed, false), is, "{fetched} {left} {seed}");
        }
        assert_eq!(state(&said(State::Running, 2, 1, "fetched"), 2, true), Completed);
        assert_eq!(state(&said(State::Running, 0, 1, "later"), 0, true), Failed);
        for (seed, listed, is) in [("fetched", 2, Completed), ("failed", 0, Failed)] {
            let mut ended = said(State::Stopped, listed as u64, 0, seed);
            ended.progress.complete = Some("2026-11-18T00:00:00Z".to_owned());
            assert_eq!(state(&ended, listed, false), is, "stopped when nothing was left");
        }
    }

    #[test]
    fn patterns_to_include_bring_urls_in_alone() {
        let seed = CrawlUrl::parse("http://a.test/docs/").unwrap();
        let options = |include: &[&str], whole_host| CrawlOptions {
            include: include.iter().map(|text| (*text).to_owned()).collect(),
            whole_host,
            ..CrawlOptions::default()
        };
        let holds = |options: &CrawlOptions, url: &str| {
            let site = Site::of_scope(&scope(&seed, options), &[]).unwrap();
            site.holds(&CrawlUrl::parse(url).unwrap())
        };
        let folder = options(&[], false);
        assert!(holds(&folder, "http://a.test/docs/x") && !holds(&folder, "http://a.test/blog/x"));
        let host = options(&[], true);
        assert!(holds(&host, "http://a.test/blog/x") && !holds(&host, "http://b.test/docs/x"));
        let blog = options(&["^http://a.test/*blog/"], false);
        assert!(holds(&blog, "http://a.test/blog/x") && !holds(&blog, "http://a.test/docs/x"));
        assert!(holds(&blog, "http://a.test/docs/"), "the seed");
    }
}
