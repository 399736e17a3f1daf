//! One ticket for a page, carried through these steps in this order:
//!
//! 1. [`admit`]: a ticket that is pointless by now ends without a request.
//! 2. [`Visit::fetch`]: the record of a feed is loaded; a HEAD request may show that nothing has changed; then the request.
//! 3. [`Visit::receive`]: the host is released, since its last byte has come ([`Handle::released`]), and the page waits for
//!    room behind the fetch.
//! 4. [`Capture::read`]: links, title, text, or the entries of a feed.
//! 5. [`Capture::describe`]: the notes of the metadata record.
//! 6. [`Capture::choose`]: the links that the job wants.
//! 7. [`Capture::store`]: capture and links become durable, side by side.
//! 8. [`Capture::report`]: the outcome goes to the frontier, when both are.
//!
//! A crash repeats the steps between the request and the report; nothing of them is lost.
//!
//! [`Handle::released`]: crate::worker::Handle::released

mod ask;
mod describe;
mod line;
mod read;

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::SET_COOKIE;
use nephila_core::feed::REDUNDANT;
use nephila_core::feed::record::Record;
use nephila_core::follow::{self, Links};
use nephila_core::frontier::ticket::{HeadFirst, HeadSaid, Report, Ticket};
use nephila_core::handler::{Findings, ReadAs};
use nephila_core::job::Trail;
use nephila_core::recrawl::claims::Listed;
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Action;
use nephila_core::store::Exchange;
use nephila_core::text::shown;
use nephila_core::url::CrawlUrl;
use nephila_spider::Fetched;
use nephila_store::archive::Receipt;
use tokio::sync::{OwnedSemaphorePermit, SemaphorePermit};

use self::ask::is_held;
pub(crate) use self::ask::{EndedFetch, ask, asking, begin, conditions};
pub(crate) use self::line::line_of;
use self::line::{count, report_of};
pub(crate) use self::read::{READ_TIME_MAX, complain, read_body, watched};
use self::read::{give_up, read};
use super::head::{self, Head};
use super::jobs::Judging;
use super::readers::Unread;
use super::resolve::has_others;
use super::shared::{LINKS_MAX, Shared};
use super::sources::Held;
use super::stage::Visited;
use super::{feed, intake, late};
use crate::log;
use crate::traces::Trace;
use crate::worker::Link;

/// Waits for room in the stages behind the fetch.
pub(crate) async fn reserve(shared: &Shared) -> SemaphorePermit<'_> {
    shared.room.storing.acquire().await.expect("never closed")
}

/// Carries a ticket through all steps.
pub(crate) async fn page(
    shared: &Shared,
    ticket: Ticket,
    fetching: OwnedSemaphorePermit,
) -> anyhow::Result<()> {
    let id = ticket.id;
    let mut visit = match admit(shared, ticket) {
        Ok(visit) => visit,
        Err(refused) => {
            return Ok(shared.handle.report(id, Report::of(refused, 0, Duration::ZERO)).await?);
        }
    };
    // What is large and short-lived is boxed, and what few pages need: a page waits here for the disk long after its
    // fetch.
    visit.trace.enter("fetch");
    let Some(asked) = Box::pin(visit.fetch()).await? else { return Ok(()) };
    visit.trace.enter("receive");
    let mut capture = visit.receive(asked, fetching).await?;
    capture.visit.trace.enter("read");
    capture.read().await?;
    capture.visit.trace.enter("describe");
    capture.describe().await?;
    capture.visit.trace.enter("choose");
    let chosen = capture.choose().await?;
    capture.visit.trace.enter("store");
    let stored = capture.store(chosen).await?;
    capture.visit.trace.enter("report");
    Box::pin(capture.report(stored)).await
}

/// A ticket before its answer.
pub(crate) struct Visit<'a> {
    shared: &'a Shared,
    ticket: Ticket,
    url: CrawlUrl,
    /// When the ticket was taken up.
    since: Instant,
    /// The record of the feed, if the URL is a followed feed.
    record: Option<Box<Record>>,
    /// The result of a HEAD request before the page.
    head: Option<HeadSaid>,
    /// Ends with the ticket.
    trace: Trace,
}

/// Takes up a ticket. A pointless one is to be reported with this outcome, without a request.
pub(crate) fn admit(shared: &Shared, ticket: Ticket) -> Result<Box<Visit<'_>>, Outcome> {
    let since = Instant::now();
    let mut trace = shared.trace(&ticket);
    trace.enter("admit");
    let url = CrawlUrl::parse(&ticket.url).map_err(|error| error.outcome());
    let url = url.and_then(|url| refusal(shared, &ticket, &url).map_or(Ok(url), Err));
    match url {
        Ok(url) => Ok(Box::new(Visit { shared, ticket, url, since, record: None, head: None, trace })),
        Err(outcome) => {
            trace.ended(outcome, None);
            Err(outcome)
        }
    }
}

/// The outcome of a ticket for which no request is to be made.
pub(crate) fn refusal(shared: &Shared, ticket: &Ticket, url: &CrawlUrl) -> Option<Outcome> {
    // In a dry run the URL served only to load the robots.txt of its host, which is done by now.
    let is_content = ticket.depth > 0 && ticket.read_as.is_content() && ticket.hops.redirects() == 0;
    if shared.stages.observe.is_dry_run() && is_content {
        return Some(Outcome::OutOfScope);
    }
    if shared.jobs.is_unreadable(ticket.job) {
        // The URL is handed out again soon: the scope of its links is unknown for now.
        return Some(Outcome::Cancelled);
    }
    // The scope of the job may have been narrowed since the discovery of the URL.
    let is_removed = ticket.read_as == ReadAs::Feed && shared.sources.is_removed(&ticket.key);
    if is_removed || shared.jobs.get(ticket.job).is_some_and(|job| job.excludes(url)) {
        return Some(Outcome::OutOfScope);
    }
    if shared.suspects.is_poison(url.as_str()) {
        tracing::warn!(
            url = %shown(url.as_str()),
            "{} ended the process, or could not be read to its end, several times and is not asked for any \
             more: please report it",
            shown(url.as_str())
        );
        shared.counts.ended(Outcome::Crashed, 0);
        return Some(Outcome::Crashed);
    }
    None
}

impl<'a> Visit<'a> {
    /// Makes the request. None if the ticket is reported without an answer to keep.
    pub(crate) async fn fetch(&mut self) -> anyhow::Result<Option<Box<EndedFetch>>> {
        let Visit { shared, ticket, url, record, head, trace, .. } = self;
        if shared.settings.feed.follows(ticket.read_as, ticket.depth) {
            let known = shared.handle.feed(ticket.key).await?;
            if !known.conditional {
                ticket.known = None;
            }
            *record = Some(Box::new(known));
        }
        let first = match ticket.head {
            HeadFirst::No => Head::GoOn(None),
            HeadFirst::Instead | HeadFirst::Check => {
                Box::pin(head::first(shared, ticket, url, trace)).await?
            }
        };
        let asked = match first {
            Head::GoOn(said) => {
                *head = said;
                ask(shared, ticket, url, None, trace).await?
            }
            Head::Reported => return Ok(None),
            Head::Stopped => None,
        };
        match asked {
            Some(asked) if asked.fetched.again => Box::pin(self.retried(asked)).await,
            Some(asked) => Ok(Some(asked)),
            None => {
                // Nothing is stored or logged; the URL stays, with the reason.
                trace.ended(Outcome::StopList, None);
                let stopped = Report::of(Outcome::StopList, 0, Duration::ZERO);
                shared.handle.report(ticket.id, stopped).await?;
                Ok(None)
            }
        }
    }

    /// Handles an answer that is not to be kept: the URL is requested once more, after the crawl delay of its host.
    pub(crate) async fn retried(
        &mut self,
        asked: Box<EndedFetch>,
    ) -> anyhow::Result<Option<Box<EndedFetch>>> {
        let EndedFetch { fetched, began, took, request, .. } = *asked;
        self.trace.ended(fetched.outcome, fetched.status);
        request.ended(line_of(self.shared, &self.ticket, &fetched, began, took, None)).await;
        let report = Report { again: true, ..report_of(&fetched, took, None) };
        self.shared.handle.report(self.ticket.id, report).await?;
        Ok(None)
    }

    /// Releases the host and waits for room behind the fetch.
    pub(crate) async fn receive(
        self: Box<Self>,
        mut asked: Box<EndedFetch>,
        fetching: OwnedSemaphorePermit,
    ) -> anyhow::Result<Capture<'a>> {
        let Visit { shared, ticket, url, .. } = &*self;
        if matches!(asked.fetched.outcome.action(), Action::Keep | Action::Offer | Action::Done) {
            shared.handle.released(ticket.id, asked.took).await?;
        }
        let storing = reserve(shared).await;
        let (source, reading) = self.room(fetching).await;
        judge_redirect(shared, ticket, url, &mut asked.fetched);
        let mut exchange = asked.fetched.exchange.take();
        if let Some(exchange) = &mut exchange {
            exchange.notes.push("depth", &ticket.depth.to_string());
            if let Some(job) = shared.jobs.get(ticket.job) {
                exchange.notes.push("job", &job.name);
            }
            exchange.notes.extend(found_notes(ticket, url));
            exchange.notes.set("outcome", asked.fetched.outcome.name());
        }
        let (poll, findings, reading) = (None, None, Some(reading));
        Ok(Capture { visit: self, asked, exchange, storing, reading, source, poll, findings, simhash: 0 })
    }

    /// Waits for a reading permit; for a feed also for its source, which admits one poll at a time.
    pub(crate) async fn room(&self, fetching: OwnedSemaphorePermit) -> (Option<Held>, SemaphorePermit<'a>) {
        let reading = async { self.shared.room.reading.acquire().await.expect("never closed") };
        if self.record.is_some() {
            // A page that waits for its source blocks no other.
            drop(fetching);
            (Some(self.shared.hold_source(&self.url, &self.ticket.key).await), reading.await)
        } else {
            // Backpressure: while the frontier has no room for links, fetches wait, since bodies that wait for a reader
            // would fill the memory.
            let reading = reading.await;
            drop(fetching);
            (None, reading)
        }
    }
}

/// An answer on its way to the archive and to the frontier.
pub(crate) struct Capture<'a> {
    visit: Box<Visit<'a>>,
    asked: Box<EndedFetch>,
    /// The bytes on the wire, with the notes of the metadata record.
    exchange: Option<Exchange>,
    storing: SemaphorePermit<'a>,
    reading: Option<SemaphorePermit<'a>>,
    source: Option<Held>,
    poll: Option<Box<feed::Poll>>,
    findings: Option<Box<Findings>>,
    /// Fingerprint of the main text, 0 without one.
    simhash: u64,
}

/// The links of a page that the job wants.
pub(crate) struct Chosen {
    links: Links,
    listed: Box<[Listed]>,
    /// The links of the page for other jobs that have it in their scope.
    others: Vec<Link>,
    judging: Arc<Judging>,
}

/// A capture and its links, both durable.
pub(crate) struct Stored {
    receipt: Option<Receipt>,
    counts: log::Links,
    listed: Box<[Listed]>,
}

impl Capture<'_> {
    /// Reads the entries of a feed, or the links and the title of a page.
    pub(crate) async fn read(&mut self) -> anyhow::Result<()> {
        let mut unread = None;
        if self.visit.record.is_some() {
            unread = Box::pin(self.poll()).await?;
        }
        let Visit { shared, ticket, url, .. } = &*self.visit;
        let fetched = &mut self.asked.fetched;
        if unread.is_none() && self.poll.as_ref().is_none_or(|poll| poll.is_no_feed()) {
            match Box::pin(read(shared, ticket, url, fetched)).await {
                Ok(findings) => self.findings = findings,
                Err(why) => unread = Some(why),
            }
        }
        if let Some(why) = unread {
            give_up(url, why, fetched, self.exchange.as_mut())?;
        }
        if let Some(poll) = &mut self.poll {
            poll.judge_page(self.findings.as_deref());
        }
        let (depth, findings) = (ticket.depth, self.findings.as_deref());
        findings.into_iter().for_each(|findings| shared.counts.metrics.read(findings));
        shared.stages.observe.visited(&Visited { url, depth, fetched, findings });
        Ok(())
    }

    /// Reads the entries of a feed. Returns why they could not be read.
    async fn poll(&mut self) -> anyhow::Result<Option<Unread>> {
        let Visit { shared, ticket, url, record, .. } = &*self.visit;
        let (Some(record), Some(source)) = (record, &self.source) else { return Ok(None) };
        let known = shared.handle.source(source.key).await?;
        Ok(match feed::poll(shared, ticket, url, &self.asked.fetched, record, source, &known).await {
            Ok(poll) => {
                self.poll = Some(Box::new(poll));
                None
            }
            Err(why) => Some(why),
        })
    }

    /// Judges the links by the scope of the job.
    pub(crate) async fn choose(&mut self) -> anyhow::Result<Chosen> {
        let Visit { shared, ticket, url, since, .. } = &*self.visit;
        let (fetched, findings) = (&self.asked.fetched, self.findings.as_deref());
        shared.learn(ticket.job, url, ticket.depth, *since).await;
        let judging = shared.jobs.judging();
        let (links, listed, others) = match &self.poll {
            Some(poll) => {
                let links = feed::links(shared, ticket, url, fetched, poll, findings)?;
                (links, poll.listed(shared, url), Vec::new())
            }
            None => {
                let redirect = fetched.redirect.as_ref().filter(|_| fetched.outcome == Outcome::Redirect);
                let mut links = intake::links(shared, &ticket.into(), url, redirect, findings);
                let others = late::others(shared, ticket, url, redirect, findings);
                late::yield_to(&others, shared.jobs.get(ticket.job).as_deref(), &mut links.wanted);
                (links, follow::listed(url, findings, shared.handle.secret()), others)
            }
        };
        for target in &links.moved {
            shared.widen(ticket.job, target).await?;
        }
        self.note_poll();
        if let Some(findings) = &mut self.findings {
            // The page may wait long, with many links: only one copy of them stays in memory.
            (findings.links, findings.sitemap) = (Vec::new(), None);
        }
        Ok(Chosen { links, listed, others, judging })
    }

    /// Adds the stories of a feed to the notes, or the mark that the feed named the same URLs as before.
    pub(crate) fn note_poll(&mut self) {
        let (Some(exchange), Some(poll)) = (&mut self.exchange, &self.poll) else { return };
        exchange.notes.extend(poll.notes());
        // The unchanged version is not in the archive, since it named the same URLs as the capture before.
        let Visit { shared, ticket, url, .. } = &*self.visit;
        if self.asked.fetched.outcome == Outcome::NotModified && !is_held(shared, ticket, url) {
            exchange.notes.push("feed", REDUNDANT);
        }
    }

    /// Makes the capture and its links durable.
    pub(crate) async fn store(&mut self, chosen: Chosen) -> anyhow::Result<Stored> {
        let Chosen { links, listed, others, judging } = chosen;
        let shared = self.visit.shared;
        let room = (links.wanted.len() + others.len()).min(LINKS_MAX) as u32;
        let offering = shared.room.offering.acquire_many(room).await.expect("never closed");
        drop(self.reading.take());
        let exchange = self.exchange.take();
        let offer = async {
            shared.offer(&links.wanted).await?;
            // Behind those of its own job, so that a URL of both belongs to that one.
            if others.is_empty() { Ok(()) } else { shared.offer(&others).await }
        };
        let (receipt, offered) = tokio::join!(shared.store(exchange), offer);
        offered?;
        drop(offering);
        drop(judging);
        Ok(Stored { receipt: receipt?, counts: links.counts.into(), listed })
    }

    /// Logs and counts the fetch, and reports its outcome to the frontier.
    pub(crate) async fn report(self, stored: Stored) -> anyhow::Result<()> {
        let line = self.line(&stored);
        let Capture { mut visit, mut asked, storing, source, mut poll, simhash, .. } = self;
        visit.trace.ended(asked.fetched.outcome, asked.fetched.status);
        let Visit { shared, ticket, url, head, .. } = &*visit;
        let (fetched, took, conditional) = (&mut asked.fetched, asked.took, asked.conditional);
        // Another attempt follows at once, or at another address: this outcome is not final.
        let is_moved = fetched.outcome.is_unconnected() && has_others(shared, url).await;
        let is_last = !(fetched.again || is_moved);
        count(shared, ticket, fetched, &line, stored.receipt.as_ref(), is_last);
        asked.request.ended(line).await;
        let mut report = report_of(fetched, took, stored.receipt.as_ref());
        (report.conditional, report.head, report.listed) = (conditional, *head, stored.listed);
        report.simhash = simhash;
        let sighted = poll.as_mut().and_then(|poll| poll.take_sighted(shared, ticket));
        report.feed = poll.map(|poll| Box::new(poll.brought));
        shared.handle.report(ticket.id, report).await?;
        if let Some(ack) = fetched.ack.take() {
            shared.acks.reported(&shared.handle, ack);
        }
        drop(storing);
        if let Some(source) = source {
            shared.settle_source(source, ticket.key.host.domain, sighted).await?;
        }
        Ok(())
    }

    /// The line of the log.
    pub(crate) fn line(&self, stored: &Stored) -> log::Line {
        let (Visit { shared, ticket, .. }, asked) = (&*self.visit, &self.asked);
        let receipt = stored.receipt.as_ref();
        let mut line = line_of(shared, ticket, &asked.fetched, asked.began, asked.took, receipt);
        if let Some(findings) = &self.findings {
            line.title = findings.title.clone().unwrap_or_default();
            line.links = Some(stored.counts);
        }
        if let Some(poll) = &self.poll {
            line.title = poll.title().to_owned();
            line.links = Some(stored.counts);
        }
        line
    }
}

/// The path by which a URL was found, in the notation of Heritrix.
pub(crate) fn found_notes(ticket: &Ticket, url: &CrawlUrl) -> Vec<(&'static str, String)> {
    let Some(via) = &ticket.via else { return Vec::new() };
    let mut notes = Vec::new();
    notes.extend(via.page(url.origin()).map(|page| ("via", page)));
    match via.trail {
        Trail::UNKNOWN => {}
        Trail::SEED => notes.push(("seed", String::new())),
        trail => notes.push(("hopsFromSeed", trail.to_string())),
    }
    notes
}

/// Reclassifies a redirect that cannot lead on.
pub(crate) fn judge_redirect(shared: &Shared, ticket: &Ticket, url: &CrawlUrl, fetched: &mut Fetched) {
    let Some(target) = &fetched.redirect else { return };
    let (max, cookie) = (shared.settings.spider.redirects_max, fetched.fields.contains_key(SET_COOKIE));
    let Some(outcome) = follow::redirect(url, target, ticket.hops, cookie, max) else { return };
    (fetched.outcome, fetched.redirect) = (outcome, None);
    if outcome == Outcome::RedirectLimit {
        fetched.detail = format!("more than {max} redirects in a row");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size in bytes of the future that a function returns.
    fn bytes<'a, F>(_: impl Fn(&'a Shared, Ticket, OwnedSemaphorePermit) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn pro_07_a_page_that_waits_for_the_disk_takes_little_beside_its_body() {
        let bytes = bytes(page);
        assert!(bytes <= 4 * 1024, "{bytes} bytes, and a thousand pages wait");
    }
}
