//! Pages that one job fetches and another job wants as well.
//!
//! A URL belongs to one job, and is fetched once for all. Its links count for every job that has the page in its scope:
//! [`others`] judges them when the page is fetched, and [`Pass`] reads the pages that were fetched before a further job
//! began from the archive. Likewise the sitemaps of a robots.txt.
//!
//! A URL that waits for a job that stops is left to the others, which read the archive once more to find it.
//!
//! Invariants: a job that still has to read the archive is not complete; the folder notes that it has been read when all
//! links are durable, so an interrupted pass starts over. In a cluster only the job of a URL gets its links: the archive
//! is spread over nodes.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context;
use nephila_core::follow::Known;
use nephila_core::frontier::ticket::Ticket;
use nephila_core::handler::{Findings, ReadAs};
use nephila_core::job::{FoundBy, Hops, Job, Kind, State};
use nephila_core::robots::Robots;
use nephila_core::store::cdxj::Line;
use nephila_core::url::CrawlUrl;
use nephila_store::captures::{Capture, Captures, Lines, Match, Query};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::decoded::decoded;
use super::intake;
use super::jobs::InForce;
use super::looks::LOOK;
use super::more_jobs;
use super::reread::{CAPTURES_WAITING_MAX, may_name, offer_as, read_all};
use super::robots::{sitemap_links, sitemap_source};
use super::shared::{JOB, Shared};
use super::work::is_full;
use crate::folder::MoreJob;
use crate::worker::Link;

/// Maximum number of hosts or domains whose captures are looked up one by one. With more, the whole index is read.
const PLACES_MAX: usize = 200;

/// The links of a fetched page for all jobs but its own.
pub(super) fn others(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    redirect: Option<&CrawlUrl>,
    findings: Option<&Findings>,
) -> Vec<Link> {
    if shared.jobs.is_single() || !shared.stages.pass_on.is_alone() {
        return Vec::new();
    }
    let own_is_busy = shared.counts.own_job_busy.load(Ordering::Relaxed);
    let jobs = shared.jobs.all();
    let wanting = jobs.iter().filter(|job| job.id != ticket.job && (job.id != JOB || own_is_busy));
    let wanting = wanting.filter(|job| job.state == State::Running && has_in_scope(job, url));
    wanting
        .flat_map(|job| {
            // A seed of its own job is none of this one: its redirect widens no scope.
            let depth = if ticket.read_as == ReadAs::Page { ticket.depth.max(1) } else { ticket.depth };
            let known = Known {
                job: job.id,
                depth,
                hops: Hops::NONE,
                read_as: ticket.read_as,
                via: ticket.via.clone(),
            };
            intake::links(shared, &known, url, redirect, findings).wanted
        })
        .collect()
}

/// A URL that others want as well belongs to one of them, if its own job does not run any more.
pub(super) fn yield_to(others: &[Link], own: Option<&InForce>, wanted: &mut Vec<Link>) {
    if others.is_empty() || own.is_some_and(|job| job.state == State::Running) {
        return;
    }
    let theirs: HashSet<&str> = others.iter().map(|link| link.url.key()).collect();
    wanted.retain(|link| !theirs.contains(link.url.key()));
}

/// Whether a job that follows links has a page in its scope.
fn has_in_scope(job: &InForce, url: &CrawlUrl) -> bool {
    job.wants_sitemaps() && job.rules.verdict(url, FoundBy::link(0, 0)).is_in()
}

/// Reads the archive for the further jobs that began, one after the other, beside the crawl.
#[derive(Debug, Default)]
pub(super) struct Pass(Option<JoinHandle<anyhow::Result<()>>>);

impl Pass {
    /// Begins the next pass if none is under way. An error is one of the archive or of the frontier.
    pub(super) async fn look(&mut self, shared: &Arc<Shared>) -> anyhow::Result<()> {
        if let Some(pass) = self.0.take_if(|pass| pass.is_finished()) {
            match pass.await.context("a pass over the archive")? {
                // The next look tries again; a crawl does not end for lack of disk space.
                Err(error) if is_full(&error) => {}
                ended => ended?,
            }
        }
        if self.0.is_none()
            && let Some(job) = next(shared)
        {
            let shared = shared.clone();
            self.0 = Some(tokio::spawn(async move { read(&shared, job).await }));
        }
        Ok(())
    }

    /// Whether a pass is under way.
    pub(super) fn is_busy(&self) -> bool {
        self.0.is_some()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// The oldest running job for which the archive is still to be read.
fn next(shared: &Shared) -> Option<MoreJob> {
    let more = shared.more_jobs();
    more.jobs.iter().find(|more| more.reads_archive && more.job.state == State::Running).cloned()
}

/// Offers the links of all captures in the scope of a job.
async fn read(shared: &Shared, more: MoreJob) -> anyhow::Result<()> {
    if let Some(job) = shared.jobs.get(more.job.id) {
        // They may have waited for a job that has stopped since.
        more_jobs::offer_seeds(shared, &more.job).await?;
        let seeds: Vec<CrawlUrl> = {
            let texts = more.job.scope.seeds.iter().chain(&more.moved);
            texts.filter_map(|seed| CrawlUrl::parse(seed.trim()).ok()).collect()
        };
        let queries = queries(&more.job, &seeds);
        let seeds: HashSet<String> = seeds.iter().map(|seed| seed.key().to_owned()).collect();
        // A page that was judged before the job began is found in the archive, once it is stored.
        let before = shared.jobs.judged_before();
        while before.strong_count() > 0 {
            tokio::time::sleep(LOOK).await;
        }
        let (sender, mut stored) = mpsc::channel(CAPTURES_WAITING_MAX);
        let captures = Captures::new(shared.folder.dir());
        let bytes_max = shared.settings.handler.page_bytes_max as u64;
        let wanted = job.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let is_wanted = |line: &Line| may_name(line) && is_wanted(&wanted, line);
            let all: Vec<Lines> = match &queries {
                None => vec![captures.all()?],
                Some(queries) => {
                    queries.iter().map(|query| captures.find(query)).collect::<Result<_, _>>()?
                }
            };
            all.into_iter()
                .try_for_each(|lines| read_all(&captures, lines, bytes_max, &is_wanted, &sender).map(drop))
        });
        while let Some((line, capture)) = stored.recv().await {
            offer(shared, &job, &seeds, &line, &capture).await?;
        }
        reading.await??;
    }
    more_jobs::archive_is_read(shared, &more)
}

/// The captures that may be in the scope of a job; none if that may be any.
fn queries(job: &Job, seeds: &[CrawlUrl]) -> Option<Vec<Query>> {
    let matches = match job.scope.kind {
        _ if !job.scope.include.is_empty() || job.scope.extra_hops > 0 => return None,
        // The robots.txt of the host, beside a folder.
        Kind::Page | Kind::Prefix | Kind::Host => Match::Host,
        Kind::Domain => Match::Domain,
        Kind::Any => return None,
    };
    let place = |seed: &CrawlUrl| match matches {
        Match::Domain => seed.registrable_domain().unwrap_or(seed.host_str()).to_owned(),
        _ => seed.host_str().to_owned(),
    };
    let places: BTreeSet<String> = seeds.iter().map(place).collect();
    let query = |url| Query { url, matches, ..Query::default() };
    (places.len() <= PLACES_MAX).then(|| places.into_iter().map(query).collect())
}

fn is_wanted(job: &InForce, line: &Line) -> bool {
    CrawlUrl::parse(&line.capture.url).is_ok_and(|url| has_in_scope(job, &url) || is_robots(&url))
}

fn is_robots(url: &CrawlUrl) -> bool {
    url.path_and_query() == "/robots.txt"
}

async fn offer(
    shared: &Shared,
    job: &InForce,
    seeds: &HashSet<String>,
    line: &Line,
    capture: &Capture,
) -> anyhow::Result<()> {
    let Ok(url) = CrawlUrl::parse(&line.capture.url) else { return Ok(()) };
    if is_robots(&url) {
        let root = url.join("/").ok();
        if line.capture.status.as_deref() == Some("200")
            && shared.reads_sitemaps()
            && root.is_some_and(|root| job.wants_sitemaps_of(&root))
            && let Ok((body, _)) = decoded(&capture.http, &capture.body, shared.settings.robots.bytes_max)
        {
            let robots = Robots::parse(&body, &shared.settings.identity.agent);
            shared.offer(&sitemap_links(job, &robots, &url, &mut sitemap_source(shared, &url))).await?;
        }
        return Ok(());
    }
    let Some(record) = shared.handle.explain(&url).await?.record else { return Ok(()) };
    // Polls find the new stories of a followed feed.
    if shared.settings.feed.follows(record.read_as, record.depth) {
        return Ok(());
    }
    let is_seed = seeds.contains(url.key());
    let depth = match record.read_as {
        ReadAs::Page if is_seed => 0,
        ReadAs::Page => record.depth.max(1),
        _ => record.depth,
    };
    let known = Known { job: job.id, depth, hops: Hops::NONE, read_as: record.read_as, via: record.via };
    offer_as(shared, &known, &url, line, capture).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use nephila_core::job::{JobId, Scope};

    use super::*;

    fn urls(texts: &[&str]) -> Vec<CrawlUrl> {
        texts.iter().map(|text| CrawlUrl::parse(text).unwrap()).collect()
    }

    #[test]
    fn only_captures_that_may_be_in_scope_are_looked_up() {
        let seeds = urls(&["http://www.a.test/docs/", "http://www.a.test/x", "http://b.test:8080/"]);
        let of = |scope: Scope| {
            let job = Job { scope, ..Job::new(JobId(3), "late") };
            let queries = queries(&job, &seeds)?;
            Some(queries.into_iter().map(|query| (query.url, query.matches)).collect::<Vec<_>>())
        };
        let kind = |kind| Scope { kind, ..Scope::default() };
        let hosts = vec![("b.test".to_owned(), Match::Host), ("www.a.test".to_owned(), Match::Host)];
        assert_eq!(of(kind(Kind::Host)), Some(hosts.clone()));
        assert_eq!(of(kind(Kind::Prefix)), Some(hosts));
        let domains = vec![("a.test".to_owned(), Match::Domain), ("b.test".to_owned(), Match::Domain)];
        assert_eq!(of(kind(Kind::Domain)), Some(domains));
        assert_eq!(of(kind(Kind::Any)), None);
        assert_eq!(of(Scope { include: vec!["c.test".into()], ..kind(Kind::Host) }), None);
        let many: Vec<String> = (0..=PLACES_MAX).map(|number| format!("http://h{number}.test/")).collect();
        let many = urls(&many.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(queries(&Job { scope: kind(Kind::Host), ..Job::new(JobId(3), "late") }, &many).is_none());
    }

    #[test]
    fn a_robots_txt_belongs_to_each_job_with_a_page_on_its_host() {
        let root = &urls(&["http://a.test/"])[0];
        let job = |kind, seed: &str| {
            let scope = Scope { kind, seeds: vec![seed.to_owned()], ..Scope::default() };
            InForce::new(&Job { scope, ..Job::new(JobId(3), "late") }, &[]).unwrap()
        };
        for (kind, seed, wants) in [
            (Kind::Host, "http://a.test/x", true),
            (Kind::Prefix, "http://a.test/docs/x", true),
            (Kind::Prefix, "http://a.test.example/docs/x", false),
            (Kind::Host, "http://b.test/", false),
            (Kind::Page, "http://a.test/", false),
        ] {
            assert_eq!(job(kind, seed).wants_sitemaps_of(root), wants, "{kind:?} {seed}");
        }
    }
}
