//! HEAD before GET: for a page whose server ignores conditional requests, a HEAD request is made first, and the page is
//! requested only after a change.
//!
//! Both requests run under one ticket, which reserves host and address; the same crawl delay lies between them as
//! between two tickets. A HEAD response is not stored: it is no capture, and the archived version stays current.
//!
//! A HEAD response that asks us to wait ends the ticket as a page would: its outcome and its `Retry-After` are
//! reported. After any other failure the page is requested: perhaps the server just does not support HEAD, and that is
//! remembered.
//!
//! Invariants: a HEAD response counts only if it names the version that we hold, and that version was stored and parsed
//! as the frontier knows; no GET follows a HEAD response that asks us to wait.

use std::time::{Duration, Instant};

use http::header::{ETAG, LAST_MODIFIED};
use nephila_core::frontier::ticket::{HeadFirst, HeadSaid, Report, Ticket, Validators};
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Action;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Request};

use super::page::{asking, begin, conditions, line_of};
use super::shared::Shared;
use super::stops::{order_of, stop};
use crate::log::{self, Line};
use crate::traces::Trace;
use crate::worker::Stopped;

/// The result of the HEAD request.
pub(crate) enum Head {
    /// No HEAD request was made, or the page is still to be requested; then with the result.
    GoOn(Option<HeadSaid>),
    /// The page is unchanged, or its host needs a pause: the ticket is reported.
    Reported,
    /// An operator's order stops the host or the address: nothing was sent.
    Stopped,
}

/// Makes the HEAD request if the ticket says so. If the ticket goes on, the page is requested unconditionally.
pub(crate) async fn first(
    shared: &Shared,
    ticket: &mut Ticket,
    url: &CrawlUrl,
    trace: &mut Trace,
) -> Result<Head, Stopped> {
    // A page that is not archived as the frontier knows is requested in full.
    if ticket.head == HeadFirst::No || conditions(shared, ticket, url).is_empty() {
        return Ok(Head::GoOn(None));
    }
    let Some(known) = ticket.known.take() else { return Ok(Head::GoOn(None)) };
    let fields = shared.fields_for(url, true);
    // No retry: after any failure the page itself is requested.
    let request = Request {
        fields,
        head_only: true,
        address: Some(ticket.address),
        connections_max: shared.settings.frontier.connections_max(ticket.address),
        second: true,
        ..Request::get(url.clone())
    };
    shared.may_begin().await;
    let began = shared.clock.now().wall;
    let logged = begin(shared, ticket, began, log::Purpose::Head).await?;
    let began_at = Instant::now();
    if let Some(order) = order_of(&shared.stop_list(), url, Some(ticket.address)) {
        logged.not_sent().await;
        stop(shared, ticket.key.host, &order).await?;
        return Ok(Head::Stopped);
    }
    let asking = asking(shared, ticket);
    let mut fetched = shared.stages.fetch.fetch(request).await;
    asking.ended(fetched.address.is_some());
    trace.requested("HEAD", began_at, began, &fetched);
    let took = began_at.elapsed();
    let said = said(&fetched, &known);
    let asks_to_wait = fetched.retry_after.is_some();
    let Some(outcome) = ends_with(fetched.outcome, asks_to_wait, said, ticket.head) else {
        let line = line_of(shared, ticket, &fetched, began, took, None);
        logged.ended(Line { purpose: log::Purpose::Head, ..line }).await;
        tokio::time::sleep(ticket.host_rest.max(ticket.slot_rest).max(REST_MIN)).await;
        return Ok(Head::GoOn(Some(said)));
    };
    fetched.outcome = outcome;
    trace.ended(outcome, fetched.status);
    logged.ended(line_of(shared, ticket, &fetched, began, took, None)).await;
    shared.counts.ended(outcome, 0);
    let report = report_of(&fetched, said, took);
    shared.handle.report(ticket.id, report).await?;
    Ok(Head::Reported)
}

/// The outcome of the ticket after the HEAD response, if the page is not to be requested.
pub(crate) fn ends_with(
    outcome: Outcome,
    asks_to_wait: bool,
    said: HeadSaid,
    first: HeadFirst,
) -> Option<Outcome> {
    match outcome.action() {
        // A server that asks us to wait gets no GET a moment later, and a failure of our own says nothing about the use
        // of HEAD here.
        Action::BackOffHost | Action::Pause => Some(outcome),
        Action::BackOff if asks_to_wait => Some(outcome),
        // There was no connection, so nothing was requested.
        Action::BackOff if outcome.is_unconnected() => Some(outcome),
        _ => (said == HeadSaid::Unchanged && first == HeadFirst::Instead).then_some(Outcome::NotModified),
    }
}

/// The report of a ticket that ends with a HEAD response.
pub(crate) fn report_of(fetched: &Fetched, said: HeadSaid, took: Duration) -> Report {
    Report {
        head: Some(said).filter(|_| !fetched.outcome.is_unconnected()),
        retry_after: fetched.retry_after,
        ..Report::of(fetched.outcome, fetched.status.unwrap_or(0), took)
    }
}

/// Minimum delay between the HEAD and the GET request.
pub(crate) const REST_MIN: Duration = Duration::from_millis(1);

/// Whether a HEAD response names the version that we hold.
pub(crate) fn said(fetched: &Fetched, known: &Validators) -> HeadSaid {
    if fetched.outcome.action() != Action::Keep {
        return HeadSaid::Nothing;
    }
    let value = |name| fetched.fields.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (etag, modified) = (value(ETAG), value(LAST_MODIFIED));
    // The entity tag is better: a date has a resolution of seconds.
    let (said, held) = match known.etag.is_empty() {
        false => (etag, &*known.etag),
        true => (modified, &*known.last_modified),
    };
    match said {
        "" => HeadSaid::Nothing,
        _ if said == held => HeadSaid::Unchanged,
        _ => HeadSaid::Changed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_page_follows_a_head_that_asks_us_to_wait() {
        use Outcome::{LocalFiles, RateLimited, ServerError, Unavailable};
        for outcome in [RateLimited, Unavailable, ServerError, LocalFiles] {
            for first in [HeadFirst::Instead, HeadFirst::Check] {
                assert_eq!(ends_with(outcome, true, HeadSaid::Nothing, first), Some(outcome));
                let page_follows = outcome == ServerError;
                let ends = ends_with(outcome, false, HeadSaid::Nothing, first);
                assert_eq!(ends, (!page_follows).then_some(outcome), "{outcome}");
            }
            let mut fetched = Fetched::not_sent(outcome, String::new());
            (fetched.status, fetched.retry_after) = (Some(503), Some(Duration::from_secs(600)));
            let report = report_of(&fetched, HeadSaid::Nothing, Duration::ZERO);
            assert_eq!((report.outcome, report.status), (outcome, 503));
            assert_eq!(report.retry_after, Some(Duration::from_secs(600)));
        }
    }

    #[test]
    fn a_page_follows_a_head_that_has_changed_says_nothing_or_is_checked() {
        let (instead, check) = (HeadFirst::Instead, HeadFirst::Check);
        assert_eq!(
            ends_with(Outcome::Fetched, false, HeadSaid::Unchanged, instead),
            Some(Outcome::NotModified)
        );
        assert_eq!(ends_with(Outcome::Fetched, false, HeadSaid::Unchanged, check), None);
        assert_eq!(ends_with(Outcome::Fetched, false, HeadSaid::Changed, instead), None);
        // A server that does not support HEAD.
        assert_eq!(ends_with(Outcome::ClientError, false, HeadSaid::Nothing, instead), None);
    }
}
