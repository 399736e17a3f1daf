//! One ticket for a page: fetched, stored, read, reported, in this order.
//!
//! As soon as the last byte has come the host may rest and be asked again ([`Handle::released`]); storing and reading go
//! on beside it. The outcome is reported when the capture and the links are durable. What happens in between is
//! repeated after a crash, and nothing of it is lost.
//!
//! [`Handle::released`]: crate::worker::Handle::released

use std::time::{Duration, Instant};

use http::HeaderMap;
use http::header::{
    AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED, SET_COOKIE,
};
use nephila_core::feed::REDUNDANT;
use nephila_core::frontier::ticket::{Purpose, Report, Ticket};
use nephila_core::handler::outlinks::Outlinks;
use nephila_core::handler::{self, Findings, Page, ReadAs};
use nephila_core::job::{Hops, Trail};
use nephila_core::spider::Outcome;
use nephila_core::spider::answer::validator;
use nephila_core::spider::outcome::{Action, Class};
use nephila_core::store::Exchange;
use nephila_core::text::shown;
use nephila_core::time::Timestamp;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_spider::{Fetched, Keep, Request};
use nephila_store::archive::{Kind, Receipt};
use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit};

use super::head::{self, Head};
use super::readers::{ABANDONED_MAX, Unread};
use super::resolve::has_others;
use super::shared::{LINKS_MAX, Shared};
use super::stops::{order_of, stop};
use super::{feed, intake, text, troubles, usage};
use crate::log::{self, Line, Stored};
use crate::worker::Stopped;

/// A page is read this long; what was found by then counts.
const READ_TIME_MAX: Duration = Duration::from_secs(3);
/// A host that rests longer is not asked twice under one ticket, which would run out; its other pages answer what it asked.
const SECOND_REST_MAX: Duration = Duration::from_secs(120);
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
    /// What is to be told how it ended.
    pub(crate) request: log::Request,
}

/// Asks for what a ticket is about, at its address and no other. None if an operator has stopped whom it would ask: nothing
/// was sent then.
pub(crate) async fn ask(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    body_bytes_max: Option<u64>,
) -> Result<Option<Asked>, Stopped> {
    let Some((asked, sent)) = ask_once(shared, ticket, url, body_bytes_max).await? else { return Ok(None) };
    // A site that wants a digest says first of what. The answer to it is a request like any other: it rests before, and it
    // has a line in the log.
    let fetched = &asked.fetched;
    let again =
        fetched.status == Some(401) && shared.credentials.may_ask_again(url, sent.as_ref(), &fetched.fields);
    let rest = ticket.host_rest.max(ticket.slot_rest);
    if !again || rest > SECOND_REST_MAX {
        return Ok(Some(asked));
    }
    let mut line = line_of(shared, ticket, fetched, asked.began, asked.took, None);
    line.purpose = purpose_of(ticket);
    asked.request.ended(line).await;
    tokio::time::sleep(rest.max(Duration::from_millis(1))).await;
    Ok(ask_once(shared, ticket, url, body_bytes_max).await?.map(|(asked, _)| asked))
}

/// One request, and what went along with it to say who asks.
async fn ask_once(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    body_bytes_max: Option<u64>,
) -> Result<Option<(Asked, Option<HeaderValue>)>, Stopped> {
    let mut fields = shared.fields_for(url, false);
    let sent = fields.iter().find(|(name, _)| *name == AUTHORIZATION).map(|(_, value)| value.clone());
    let conditions = conditions(shared, ticket, url);
    let conditional = !conditions.is_empty();
    fields.extend(conditions);
    let request = Request {
        fields,
        keep: Keep { exchange: shared.archive.is_some(), decoded: true, sha1: false },
        body_bytes_max,
        address: Some(ticket.address),
        connections_max: shared.settings.frontier.connections_max(ticket.address),
        second: ticket.retries > 0,
        ..Request::get(url.clone())
    };
    shared.may_begin().await;
    let began = shared.clock.now().wall;
    let logged = begin(shared, ticket, began, purpose_of(ticket)).await?;
    let began_at = Instant::now();
    // The last look before the request: the order may be younger than the ticket. The address is the one that is dialled.
    let order = order_of(&shared.orders(), url, Some(ticket.address));
    if let Some(order) = order {
        logged.not_sent().await;
        // First the host is stopped, then its ticket goes back: so it gives out no other.
        stop(shared, ticket.key.host, &order).await?;
        return Ok(None);
    }
    let fetched = shared.spider.fetch(request).await;
    let asked = Asked { fetched, began, took: began_at.elapsed(), conditional, request: logged };
    Ok(Some((asked, sent)))
}

fn purpose_of(ticket: &Ticket) -> log::Purpose {
    match ticket.purpose {
        Purpose::Page => log::Purpose::Page,
        Purpose::Robots => log::Purpose::Robots,
    }
}

/// A request is about to be made: that stands in the log's journal before it is.
pub(crate) async fn begin(
    shared: &Shared,
    ticket: &Ticket,
    began: Timestamp,
    purpose: log::Purpose,
) -> Result<log::Request, Stopped> {
    let line = Line { purpose, ..line_begun(shared, ticket, began) };
    let stopped = || Stopped { why: Some("the log cannot be written".into()) };
    shared.log.begin(line).await.ok_or_else(stopped)
}

/// What makes a request for a page that was fetched before conditional. The page must be in the archive as the frontier
/// knows it: a version that was stored and not reported, because we died in between, was perhaps never read, and an
/// answer without a body would hide its links.
pub(crate) fn conditions(shared: &Shared, ticket: &Ticket, url: &CrawlUrl) -> Vec<(HeaderName, HeaderValue)> {
    let Some(known) = &ticket.known else { return Vec::new() };
    // What the frontier knows of a feed was read; a version with the same URLs as the one before is not kept.
    if !is_held(shared, ticket, url) && !shared.settings.feed.follows(ticket.read_as, ticket.depth) {
        return Vec::new();
    }
    [(IF_NONE_MATCH, &known.etag), (IF_MODIFIED_SINCE, &known.last_modified)]
        .into_iter()
        .filter_map(|(name, value)| Some((name, validator(value)?)))
        .collect()
}

/// Is the last capture of a page the version that the frontier knows?
fn is_held(shared: &Shared, ticket: &Ticket, url: &CrawlUrl) -> bool {
    let held = shared.archive.as_ref().and_then(|archive| archive.last_capture(url.as_str()));
    let (Some(known), Some(held)) = (&ticket.known, held) else { return false };
    let same = |known: &str, held: Option<&str>| held.unwrap_or_default() == known;
    same(&known.etag, held.etag.as_deref()) && same(&known.last_modified, held.last_modified.as_deref())
}

/// Carries a ticket to its end.
pub(crate) async fn page(
    shared: &Shared,
    mut ticket: Ticket,
    fetching: OwnedSemaphorePermit,
) -> anyhow::Result<()> {
    let since = Instant::now();
    let url = match CrawlUrl::parse(&ticket.url) {
        Ok(url) => url,
        Err(error) => {
            let report = Report::of(error.outcome(), 0, Duration::ZERO);
            return Ok(shared.handle.report(ticket.id, report).await?);
        }
    };
    // In a dry run it was wanted for the robots.txt of its host alone, which is read by now.
    if shared.map.is_some() && ticket.depth > 0 && ticket.read_as.is_content() && ticket.hops.redirects() == 0
    {
        let report = Report::of(Outcome::OutOfScope, 0, Duration::ZERO);
        return Ok(shared.handle.report(ticket.id, report).await?);
    }
    if shared.jobs.is_unreadable(ticket.job) {
        // It comes up again soon: nobody knows which of its links are wanted.
        let report = Report::of(Outcome::Cancelled, 0, Duration::ZERO);
        return Ok(shared.handle.report(ticket.id, report).await?);
    }
    // Its job may have learned since it was found that it does not want it.
    let is_removed = ticket.read_as == ReadAs::Feed && shared.sources.is_removed(&ticket.key);
    if is_removed || shared.jobs.get(ticket.job).is_some_and(|job| job.excludes(&url)) {
        let report = Report::of(Outcome::OutOfScope, 0, Duration::ZERO);
        return Ok(shared.handle.report(ticket.id, report).await?);
    }
    if shared.suspects.is_poison(url.as_str()) {
        eprintln!(
            "nephila: {} ended the process, or could not be read to its end, several times and is not asked for any \
             more: please report it",
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
    // What is large and soon over lies elsewhere: a page waits here for the disk long after its fetch.
    let head = match Box::pin(head::first(shared, &mut ticket, &url)).await? {
        Head::GoOn(said) => said,
        Head::Reported => return Ok(()),
        Head::Stopped => {
            let report = Report::of(Outcome::StopList, 0, Duration::ZERO);
            return Ok(shared.handle.report(ticket.id, report).await?);
        }
    };
    let asked = Box::pin(ask(shared, &ticket, &url, None)).await?;
    let Some(Asked { mut fetched, began, took, conditional, request }) = asked else {
        // Nothing is stored and nothing is logged; the URL stays, with the reason.
        let report = Report::of(Outcome::StopList, 0, Duration::ZERO);
        return Ok(shared.handle.report(ticket.id, report).await?);
    };
    if fetched.again {
        // No answer, or none to keep: it is asked for once more, like anything else, when its host has rested.
        request.ended(line_of(shared, &ticket, &fetched, began, took, None)).await;
        let report = Report { again: true, ..report_of(&fetched, took, None) };
        return Ok(shared.handle.report(ticket.id, report).await?);
    }
    if matches!(fetched.outcome.action(), Action::Keep | Action::Offer | Action::Done) {
        shared.handle.released(ticket.id, took).await?;
    }
    let storing = reserve(shared).await;
    // While the frontier has no room for links, fetches wait: bodies that nobody reads yet would fill the memory. Those
    // who wait for a source hold up nobody else.
    let (source, reading) = match &record {
        Some(_) => {
            drop(fetching);
            let source = shared.hold_source(&url, &ticket.key).await;
            (Some(source), shared.reading.acquire().await.expect("never closed"))
        }
        None => {
            let reading = shared.reading.acquire().await.expect("never closed");
            drop(fetching);
            (None, reading)
        }
    };

    judge_redirect(shared, &ticket, &url, &mut fetched);
    let mut exchange = fetched.exchange.take();
    if let Some(exchange) = &mut exchange {
        for (_, value) in exchange.notes.iter_mut().filter(|(name, _)| *name == "outcome") {
            *value = fetched.outcome.name().to_owned();
        }
        exchange.notes.push(("depth", ticket.depth.to_string()));
        exchange.notes.extend(found_notes(&ticket, &url));
    }
    let poll = match (&record, &source) {
        (Some(record), Some(source)) => {
            let known = shared.handle.source(source.key).await?;
            Some(Box::pin(feed::poll(shared, &ticket, &url, &fetched, record, source, &known)).await)
        }
        _ => None,
    };
    let (mut poll, mut unread) = match poll {
        Some(Err(unread)) => (None, Some(unread)),
        Some(Ok(poll)) => (Some(poll), None),
        None => (None, None),
    };
    let mut findings = match unread.is_none() && poll.as_ref().is_none_or(feed::Poll::is_no_feed) {
        true => match Box::pin(read(shared, &ticket, &url, &fetched)).await {
            Ok(findings) => findings,
            Err(error) => {
                unread = Some(error);
                None
            }
        },
        false => None,
    };
    if let Some(why) = unread {
        give_up(&url, why, &mut fetched, exchange.as_mut())?;
    }
    if let Some(poll) = &mut poll {
        poll.judge_page(findings.as_ref());
    }
    if let Some(exchange) = exchange.as_mut().filter(|_| fetched.outcome.action() == Action::Keep) {
        match Box::pin(text::article(shared, ticket.read_as, &url, &fetched)).await {
            Ok(Some(article)) => {
                exchange.notes.extend(article.notes());
                exchange.text = article.text;
            }
            Ok(None) => {}
            // What it links to is known; only its text is not.
            Err(why) => {
                complain(&url, why)?;
                fetched.detail = "looking for its text did not end in time".into();
            }
        }
        let lines = usage::lines(shared, &url, findings.as_ref()).await;
        exchange.notes.extend(lines.into_iter().map(|line| ("usage", line)));
    }
    if let Some(exchange) = exchange.as_mut().filter(|_| shared.keeps_metadata()) {
        let outlinks = Outlinks::of(findings.as_ref(), fetched.redirect.as_ref());
        exchange.notes.extend(outlinks.lines.into_iter().map(|line| ("outlink", line)));
        if outlinks.omitted > 0 {
            exchange.notes.push(("outlinksOmitted", outlinks.omitted.to_string()));
        }
    }
    shared.learn(ticket.job, &url, ticket.depth, since).await;
    let links = match &poll {
        Some(poll) => feed::links(shared, &ticket, &url, &fetched, poll, findings.as_ref())?,
        None => {
            let redirect = fetched.redirect.as_ref().filter(|_| fetched.outcome == Outcome::Redirect);
            intake::links(shared, &(&ticket).into(), &url, redirect, findings.as_ref())
        }
    };
    if let (Some(exchange), Some(poll)) = (&mut exchange, &poll) {
        exchange.notes.extend(poll.notes());
        // It is as it was, and what it was is not kept, since it named the URLs of the capture before it.
        if fetched.outcome == Outcome::NotModified && !is_held(shared, &ticket, &url) {
            exchange.notes.push(("feed", REDUNDANT.to_owned()));
        }
    }
    if let Some(map) = &shared.map {
        map.settle(shared, false).await?;
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
    // Another try follows at once, or at another address: nothing is to be said yet.
    let is_moved = fetched.outcome.is_unconnected() && has_others(shared, &url).await;
    let is_last = !(fetched.again || is_moved);
    count(shared, &ticket, &fetched, &line, receipt.as_ref(), is_last);
    request.ended(line).await;
    let mut report = report_of(&fetched, took, receipt.as_ref());
    (report.conditional, report.head, report.listed) = (conditional, head, listed);
    let sighted = poll.as_mut().and_then(|poll| poll.take_sighted(shared, &ticket));
    report.feed = poll.map(|poll| Box::new(poll.brought));
    shared.handle.report(ticket.id, report).await?;
    drop(storing);
    if let Some(source) = source {
        shared.settle_source(source, ticket.key.host.domain, sighted).await?;
    }
    Ok(())
}

/// How a URL was found, in the words of Heritrix.
fn found_notes(ticket: &Ticket, url: &CrawlUrl) -> Vec<(&'static str, String)> {
    let Some(via) = &ticket.via else { return Vec::new() };
    let mut notes = Vec::new();
    notes.extend(via.page(&url.origin()).map(|page| ("via", page)));
    match via.trail {
        Trail::UNKNOWN => {}
        Trail::SEED => notes.push(("seed", String::new())),
        trail => notes.push(("hopsFromSeed", trail.to_string())),
    }
    notes
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

/// A page that could not be read is kept all the same. Its outcome says why.
fn give_up(
    url: &CrawlUrl,
    why: Unread,
    fetched: &mut Fetched,
    exchange: Option<&mut Exchange>,
) -> anyhow::Result<()> {
    complain(url, why)?;
    (fetched.outcome, fetched.detail) = match why {
        Unread::Failed => (Outcome::Crashed, "the reader failed: a fault of ours".into()),
        Unread::GivenUp | Unread::TooMany => {
            let time = humantime::format_duration(READ_TIME_MAX);
            (Outcome::ReadTimeout, format!("reading it did not end within {time}"))
        }
    };
    for note in exchange.into_iter().flat_map(|exchange| &mut exchange.notes) {
        if note.0 == "outcome" {
            note.1 = fetched.outcome.name().to_owned();
        }
    }
    Ok(())
}

/// Says that a page could not be read. With too many that were given up the crawl ends.
pub(super) fn complain(url: &CrawlUrl, why: Unread) -> anyhow::Result<()> {
    let what = if why == Unread::Failed { "failed" } else { "did not end in time and was given up" };
    eprintln!("nephila: reading {} {what}; it is stored: please report it", shown(url.as_str()));
    anyhow::ensure!(
        why != Unread::TooMany,
        "{ABANDONED_MAX} pages could not be read to their end and each still holds a thread: start the crawl again, \
         which goes on without them"
    );
    Ok(())
}

/// What a page says, if it is one to read.
async fn read(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    fetched: &Fetched,
) -> Result<Option<Findings>, Unread> {
    if fetched.outcome.action() != Action::Keep {
        return Ok(None);
    }
    let start = |decoded: &nephila_spider::Body| decoded.start(shared.settings.handler.page_bytes_max).ok();
    let Some(body) = fetched.decoded.as_ref().and_then(start) else { return Ok(None) };
    read_body(shared, url, &fetched.fields, body, ticket.read_as).await.map(Some)
}

/// What a body says.
pub(super) async fn read_body(
    shared: &Shared,
    url: &CrawlUrl,
    fields: &HeaderMap,
    body: bytes::Bytes,
    read_as: ReadAs,
) -> Result<Findings, Unread> {
    let limits = shared.page_limits();
    let (own, fields) = (url.clone(), fields.clone());
    let agent = shared.settings.identity.agent.clone();
    let read = watched(shared, url, READ_TIME_MAX, move || {
        let (keys, agent) = (KeyRules::default(), &*agent);
        let page = Page { url: &own, fields: &fields, body: &body, read_as, agent, keys: &keys };
        let began = Instant::now();
        handler::read_page_until(&page, &limits, &mut || began.elapsed() > READ_TIME_MAX)
    });
    read.await
}

/// Has something read behind the watchdog and marked as being read.
pub(crate) async fn watched<T: Send + 'static>(
    shared: &Shared,
    url: &CrawlUrl,
    time_max: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unread> {
    let marked = shared.suspects.mark(url.as_str());
    let read = shared.readers.read(time_max, work).await;
    if let Some(marked) = marked {
        match &read {
            Ok(_) | Err(Unread::Failed) => marked.ended(),
            Err(Unread::GivenUp | Unread::TooMany) => marked.given_up(),
        }
    }
    read
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
        again: false,
        conditional: false,
        head: None,
        feed: None,
        listed: Box::default(),
    }
}

fn count(
    shared: &Shared,
    ticket: &Ticket,
    fetched: &Fetched,
    line: &Line,
    receipt: Option<&Receipt>,
    is_last: bool,
) {
    use std::sync::atomic::Ordering::Relaxed;
    shared.counts.ended(fetched.outcome, fetched.body_bytes);
    shared.counts.kept(fetched.outcome, ticket.read_as, &line.mime);
    let failed = matches!(fetched.outcome.class(), Class::Retry | Class::Broken) || fetched.status.is_none();
    let cause = failed.then(|| troubles::words(fetched.outcome, fetched.status, &fetched.detail));
    match cause {
        Some(_) if !is_last => {}
        // A seed, or where it redirects to.
        Some(cause) if ticket.depth == 0 && ticket.read_as == ReadAs::Page => {
            shared.troubles.seed_failed(&ticket.url, &cause);
            shared.troubles.page_failed(&line.origin, cause);
        }
        Some(cause) => shared.troubles.page_failed(&line.origin, cause),
        None => shared.troubles.host_answered(&line.origin),
    }
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
    Line {
        outcome: fetched.outcome.name().into(),
        class: fetched.outcome.class().as_str().into(),
        status: fetched.status,
        address: fetched.address.map(|address| address.ip()),
        took_ms: ms(took),
        requests: fetched.requests,
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
                Kind::Redundant => "redundant",
            }
            .into(),
        }),
        detail: fetched.detail.clone(),
        ..line_begun(shared, ticket, began)
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The line of a request that is about to be made.
fn line_begun(shared: &Shared, ticket: &Ticket, began: Timestamp) -> Line {
    let origin_end = ticket.url.find("://").map_or(0, |at| at + 3);
    let origin_len = ticket.url[origin_end..].find(['/', '?', '#']).unwrap_or(ticket.url.len() - origin_end);
    Line {
        at: began.0,
        fetch: ticket.id.0,
        url: ticket.url.clone(),
        origin: ticket.url[..origin_end + origin_len].to_owned(),
        // Whom it would reach, unless a line says otherwise.
        address: Some(ticket.address),
        host_rest_ms: ms(ticket.host_rest),
        slot_rest_ms: ms(ticket.slot_rest),
        requests: 1,
        robots_obeyed: shared.settings.robots.obey,
        depth: ticket.depth,
        via: ticket.via.as_ref().and_then(|via| via.page(&ticket.url[..origin_end + origin_len])),
        hops: ticket.via.as_ref().map_or_else(String::new, |via| via.trail.to_string()),
        read_as: if ticket.read_as.is_page() { String::new() } else { ticket.read_as.name().into() },
        retries: ticket.retries,
        ..Line::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of the future that such a function makes.
    fn bytes<'a, F>(_: impl Fn(&'a Shared, Ticket, OwnedSemaphorePermit) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn pro_07_a_page_that_waits_for_the_disk_takes_little_beside_its_body() {
        let bytes = bytes(page);
        assert!(bytes <= 12 * 1024, "{bytes} bytes, and a thousand pages wait");
    }
}
