//! One ticket for a page: fetched, stored, read, reported, in this order.
//!
//! As soon as the last byte has come the host may rest and be asked again ([`Handle::released`]); storing and reading go
//! on beside it. The outcome is reported when the capture and the links are durable. What happens in between is
//! repeated after a crash, and nothing of it is lost.
//!
//! [`Handle::released`]: crate::worker::Handle::released

use std::time::{Duration, Instant};

use http::header::{
    CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED, SET_COOKIE,
};
use nephila_core::frontier::ticket::{Report, Ticket};
use nephila_core::handler::{self, Findings, Page, ReadAs};
use nephila_core::job::Hops;
use nephila_core::spider::Outcome;
use nephila_core::spider::answer::validator;
use nephila_core::spider::outcome::Action;
use nephila_core::text::shown;
use nephila_core::time::Timestamp;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_spider::{Fetched, Keep, Request};
use nephila_store::archive::{Kind, Receipt};
use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit};

use super::head::{self, Head};
use super::resolve::try_another;
use super::shared::{LINKS_MAX, Shared};
use super::stops::{order_of, stop};
use super::suspects::TIMES_MAX;
use super::{feed, intake, text, usage};
use crate::log::{Line, Stored};
use crate::worker::Stopped;

/// A page up to this size is read where it was fetched; a larger one goes to a thread that may take its time.
const READ_HERE_BYTES_MAX: usize = 256 * 1024;
/// Such a page is read this long; what was found by then counts.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// Validators longer than this are not kept.
const VALIDATOR_BYTES_MAX: usize = 256;

/// Waits until the stages behind the fetch have room for one more.
pub(crate) async fn reserve(shared: &Shared) -> SemaphorePermit<'_> {
    shared.storing.acquire().await.expect("never closed")
}

/// A fetch that has ended.
pub(crate) struct Asked {
    pub(crate) fetched: Fetched,
    /// When it began, by the time of day.
    pub(crate) began: Timestamp,
    pub(crate) took: Duration,
    /// It was asked for with what makes a request conditional.
    pub(crate) conditional: bool,
}

/// Asks for what a ticket is about, at its address and no other. None if an operator has stopped whom it would ask: nothing
/// was sent then.
pub(crate) async fn ask(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    body_bytes_max: Option<u64>,
) -> Result<Option<Asked>, Stopped> {
    let mut fields = shared.fields_for(url);
    let conditions = conditions(shared, ticket, url);
    let conditional = !conditions.is_empty();
    fields.extend(conditions);
    let request = Request {
        fields,
        keep: Keep { exchange: shared.archive.is_some(), decoded: true, sha1: false },
        body_bytes_max,
        address: Some(ticket.address),
        ..Request::get(url.clone())
    };
    shared.may_begin().await;
    let began = shared.clock.now().wall;
    let began_at = Instant::now();
    // The last look before the request: the order may be younger than the ticket. The address is the one that is dialled.
    let order = order_of(&shared.orders(), url, Some(ticket.address));
    if let Some(order) = order {
        // First the host is stopped, then its ticket goes back: so it gives out no other.
        stop(shared, ticket.key.host, &order).await?;
        return Ok(None);
    }
    let fetched = shared.spider.fetch(request).await;
    Ok(Some(Asked { fetched, began, took: began_at.elapsed(), conditional }))
}

/// What makes a request for a page that was fetched before conditional. The page must be in the archive as the frontier
/// knows it: a version that was stored and not reported, because we died in between, was perhaps never read, and an
/// answer without a body would hide its links.
pub(crate) fn conditions(shared: &Shared, ticket: &Ticket, url: &CrawlUrl) -> Vec<(HeaderName, HeaderValue)> {
    let Some(known) = &ticket.known else { return Vec::new() };
    let Some(held) = shared.archive.as_ref().and_then(|archive| archive.last_capture(url.as_str())) else {
        return Vec::new();
    };
    let same = |known: &str, held: Option<&str>| held.unwrap_or_default() == known;
    if !same(&known.etag, held.etag.as_deref()) || !same(&known.last_modified, held.last_modified.as_deref())
    {
        return Vec::new();
    }
    [(IF_NONE_MATCH, &known.etag), (IF_MODIFIED_SINCE, &known.last_modified)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, validator(value)?)))
        .collect()
}

/// Carries a ticket to its end.
pub(crate) async fn page(
    shared: &Shared,
    mut ticket: Ticket,
    fetching: OwnedSemaphorePermit,
) -> anyhow::Result<()> {
    let url = match CrawlUrl::parse(&ticket.url) {
        Ok(url) => url,
        Err(error) => {
            let report = Report::of(error.outcome(), 0, Duration::ZERO);
            return Ok(shared.handle.report(ticket.id, report).await?);
        }
    };
    // Its job may have learned since it was found that it does not want it.
    if shared.jobs.get(ticket.job).is_some_and(|job| job.excludes(&url)) {
        let report = Report::of(Outcome::OutOfScope, 0, Duration::ZERO);
        return Ok(shared.handle.report(ticket.id, report).await?);
    }
    if shared.suspects.is_poison(url.as_str()) {
        eprintln!(
            "nephila: {} ended the process {TIMES_MAX} times and is not asked for any more: please report it",
            shown(url.as_str())
        );
        shared.counts.ended(Outcome::Crashed, 0);
        return Ok(shared.handle.report(ticket.id, Report::of(Outcome::Crashed, 0, Duration::ZERO)).await?);
    }
    let record = match shared.settings.feed.follows(ticket.read_as, ticket.depth) {
        true => Some(shared.handle.feed(ticket.key).await?),
        false => None,
    };
    if record.as_ref().is_some_and(|record| !record.conditional) {
        ticket.known = None;
    }
    let head = match head::first(shared, &mut ticket, &url).await? {
        Head::GoOn(said) => said,
        Head::Reported(outcome) => return Ok(try_another(shared, &ticket, &url, outcome).await?),
        Head::Stopped => {
            let report = Report::of(Outcome::StopList, 0, Duration::ZERO);
            return Ok(shared.handle.report(ticket.id, report).await?);
        }
    };
    let Some(Asked { mut fetched, began, took, conditional }) = ask(shared, &ticket, &url, None).await?
    else {
        // Nothing is stored and nothing is logged; the URL stays, with the reason.
        let report = Report::of(Outcome::StopList, 0, Duration::ZERO);
        return Ok(shared.handle.report(ticket.id, report).await?);
    };
    if matches!(fetched.outcome.action(), Action::Keep | Action::Offer | Action::Done) {
        shared.handle.released(ticket.id, took).await?;
    }
    let storing = reserve(shared).await;
    // While the frontier has no room for links, fetches wait: bodies that nobody reads yet would fill the memory.
    let reading = shared.reading.acquire().await.expect("never closed");
    drop(fetching);

    judge_redirect(shared, &ticket, &url, &mut fetched);
    let mut exchange = fetched.exchange.take();
    if let Some(exchange) = &mut exchange {
        for (_, value) in exchange.notes.iter_mut().filter(|(name, _)| *name == "outcome") {
            *value = fetched.outcome.name().to_owned();
        }
        exchange.notes.push(("depth", ticket.depth.to_string()));
    }
    let poll = match &record {
        Some(record) => Some(feed::poll(shared, &ticket, &url, &fetched, record).await),
        None => None,
    };
    let mut findings = match poll.as_ref().is_none_or(feed::Poll::is_no_feed) {
        true => read(shared, &ticket, &url, &fetched).await,
        false => None,
    };
    if let Some(exchange) = exchange.as_mut().filter(|_| fetched.outcome.action() == Action::Keep) {
        if let Some(article) = text::article(shared, ticket.read_as, &url, &fetched).await {
            exchange.notes.extend(article.notes());
            exchange.text = article.text;
        }
        let lines = usage::lines(shared, &url, findings.as_ref()).await;
        exchange.notes.extend(lines.into_iter().map(|line| ("usage", line)));
    }
    shared.learn(ticket.job).await;
    let links = match &poll {
        Some(poll) => feed::links(shared, &ticket, &fetched, poll, findings.as_ref()),
        None => intake::links(shared, &ticket, &url, &fetched, findings.as_ref()),
    };
    if let (Some(exchange), Some(poll)) = (&mut exchange, &poll) {
        exchange.notes.extend(poll.notes());
    }
    for target in &links.moved {
        shared.widen(ticket.job, target).await?;
    }
    let listed = match &poll {
        Some(poll) => poll.listed(shared, &url),
        None => intake::listed(shared, &url, findings.as_ref()),
    };
    if let Some(findings) = &mut findings {
        // They are in `links` now; a page with many of them may wait here for a while.
        (findings.links, findings.sitemap) = (Vec::new(), None);
    }
    let room = links.wanted.len().min(LINKS_MAX) as u32;
    let offering = shared.offering.acquire_many(room).await.expect("never closed");
    drop(reading);
    let (receipt, offered) = tokio::join!(shared.store(exchange), shared.offer(&links.wanted));
    offered?;
    let receipt = receipt?;
    let counts = links.counts;
    drop((links.wanted, offering));

    let mut line = line_of(shared, &ticket, &fetched, began, took, receipt.as_ref());
    if let Some(findings) = &findings {
        line.title = findings.title.clone().unwrap_or_default();
        line.links = Some(counts);
    }
    if let Some(poll) = &poll {
        line.title = poll.title().to_owned();
        line.links = Some(counts);
    }
    shared.log.write(&line).await;
    count(shared, &fetched, receipt.as_ref());
    let mut report = report_of(&fetched, took, receipt.as_ref());
    (report.conditional, report.head, report.listed) = (conditional, head, listed);
    report.feed = poll.map(|poll| Box::new(poll.brought));
    shared.handle.report(ticket.id, report).await?;
    drop(storing);
    Ok(try_another(shared, &ticket, &url, fetched.outcome).await?)
}

/// A redirect that cannot lead on is no redirect.
fn judge_redirect(shared: &Shared, ticket: &Ticket, url: &CrawlUrl, fetched: &mut Fetched) {
    let Some(target) = &fetched.redirect else { return };
    if target.key() == url.key() {
        let cookie = fetched.fields.contains_key(SET_COOKIE);
        fetched.outcome = if cookie { Outcome::CookieWall } else { Outcome::RedirectLoop };
        fetched.redirect = None;
    } else if u32::from(ticket.hops.redirects())
        >= shared.settings.spider.redirects_max.min(Hops::MOST.into())
    {
        fetched.outcome = Outcome::RedirectLimit;
        fetched.detail = format!("more than {} redirects in a row", shared.settings.spider.redirects_max);
        fetched.redirect = None;
    }
}

/// What a page says, if it is one to read.
async fn read(shared: &Shared, ticket: &Ticket, url: &CrawlUrl, fetched: &Fetched) -> Option<Findings> {
    if fetched.outcome.action() != Action::Keep {
        return None;
    }
    let limits = shared.page_limits();
    let body = fetched.decoded.as_ref()?.start(shared.settings.handler.page_bytes_max).ok()?;
    let read_as = ticket.read_as;
    let marked = shared.suspects.mark(url.as_str());
    let findings = read_marked(shared, url, fetched, body, read_as, limits).await;
    if let Some(marked) = marked {
        marked.ended();
    }
    findings
}

async fn read_marked(
    shared: &Shared,
    url: &CrawlUrl,
    fetched: &Fetched,
    body: bytes::Bytes,
    read_as: ReadAs,
    limits: handler::Limits,
) -> Option<Findings> {
    if body.len() <= READ_HERE_BYTES_MAX {
        let keys = KeyRules::default();
        let agent = &*shared.settings.identity.agent;
        let page = Page { url, fields: &fetched.fields, body: &body, read_as, agent, keys: &keys };
        return Some(handler::read_page(&page, &limits));
    }
    let (url, fields) = (url.clone(), fetched.fields.clone());
    let agent = shared.settings.identity.agent.clone();
    let read = tokio::task::spawn_blocking(move || {
        let (keys, agent) = (KeyRules::default(), &*agent);
        let page = Page { url: &url, fields: &fields, body: &body, read_as, agent, keys: &keys };
        let began = Instant::now();
        handler::read_page_until(&page, &limits, &mut || began.elapsed() > READ_TIME_MAX)
    });
    // A page that makes the reader fail leads nowhere; it is stored all the same.
    read.await.ok()
}

fn report_of(fetched: &Fetched, took: Duration, receipt: Option<&Receipt>) -> Report {
    let text = |name| -> Box<str> {
        let value = fetched.fields.get(name).and_then(|value| value.to_str().ok());
        value.filter(|value| value.len() <= VALIDATOR_BYTES_MAX).unwrap_or_default().into()
    };
    Report {
        outcome: fetched.outcome,
        status: fetched.status.unwrap_or(0),
        took,
        retry_after: fetched.retry_after,
        digest: receipt.map_or(0, |receipt| receipt.payload_digest.short()),
        etag: text(ETAG),
        last_modified: text(LAST_MODIFIED),
        bytes: fetched.body_bytes,
        conditional: false,
        head: None,
        feed: None,
        listed: Box::default(),
    }
}

fn count(shared: &Shared, fetched: &Fetched, receipt: Option<&Receipt>) {
    use std::sync::atomic::Ordering::Relaxed;
    shared.counts.ended(fetched.outcome, fetched.body_bytes);
    if receipt.is_some_and(|receipt| receipt.kind != Kind::Response) {
        shared.counts.revisits.fetch_add(1, Relaxed);
        shared.counts.revisit_bytes.fetch_add(fetched.body_bytes, Relaxed);
    }
}

/// The line of a request that has ended.
pub(crate) fn line_of(
    shared: &Shared,
    ticket: &Ticket,
    fetched: &Fetched,
    began: Timestamp,
    took: Duration,
    receipt: Option<&Receipt>,
) -> Line {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let origin_end = ticket.url.find("://").map_or(0, |at| at + 3);
    let origin_len = ticket.url[origin_end..].find(['/', '?', '#']).unwrap_or(ticket.url.len() - origin_end);
    Line {
        at: began.0,
        fetch: ticket.id.0,
        url: ticket.url.clone(),
        outcome: fetched.outcome.name().into(),
        class: fetched.outcome.class().as_str().into(),
        status: fetched.status,
        origin: ticket.url[..origin_end + origin_len].to_owned(),
        address: fetched.address.map(|address| address.ip()),
        took_ms: ms(took),
        host_rest_ms: ms(ticket.host_rest),
        slot_rest_ms: ms(ticket.slot_rest),
        requests: fetched.requests,
        robots_obeyed: shared.settings.robots.obey,
        depth: ticket.depth,
        retries: ticket.retries,
        mime: fetched.fields.get(CONTENT_TYPE).map_or_else(String::new, |value| {
            String::from_utf8_lossy(value.as_bytes()).split(';').next().unwrap_or_default().trim().to_owned()
        }),
        bytes: fetched.body_bytes,
        redirect: fetched.redirect.as_ref().map(|target| target.as_str().to_owned()),
        digest: receipt.map(|receipt| receipt.payload_digest.to_string()),
        warc: receipt.map(|receipt| Stored {
            file: receipt.file.to_string(),
            offset: receipt.offset,
            length: receipt.length,
            kind: match receipt.kind {
                Kind::Response => "response",
                Kind::Revisit => "revisit",
                Kind::NotModified => "not-modified",
            }
            .into(),
        }),
        detail: fetched.detail.clone(),
        ..Line::default()
    }
}
