//! A page whose server sends everything whatever is known of it: its head is asked for first, and the page only if that has
//! changed.
//!
//! Both are requests under one ticket, which keeps host and address to itself; between them they rest as two tickets
//! would. A head is not stored: it is no capture, and what is held of the page stays what it was.
//!
//! A head that asks us to wait ends the ticket as a page would have: its outcome and its `Retry-After` are reported. After
//! any other failure the page is asked for: it may be HEAD alone that this server does not bear, and that is remembered.
//!
//! What always holds: a head is believed only if it names the version that we hold, and the page was stored and read as the
//! frontier knows it; no page follows a head that asks us to wait.

use std::time::{Duration, Instant};

use http::header::{ETAG, LAST_MODIFIED};
use nephila_core::frontier::ticket::{HeadFirst, HeadSaid, Report, Ticket, Validators};
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Action;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Request};

use super::page::{begin, conditions, line_of};
use super::shared::Shared;
use super::stops::{order_of, stop};
use crate::log::{self, Line};
use crate::worker::Stopped;

/// What came of asking for a head first.
pub(crate) enum Head {
    /// It was not asked for, or the page is still to be asked for; then what it said.
    GoOn(Option<HeadSaid>),
    /// The page is as we know it, or its host is to be left alone for now: the ticket is reported.
    Reported,
    /// An operator has stopped whom it would have asked: nothing was sent.
    Stopped,
}

/// Asks for the head if the ticket says so, and for the page if that is needed: a ticket to go on with asks for it in full.
pub(crate) async fn first(shared: &Shared, ticket: &mut Ticket, url: &CrawlUrl) -> Result<Head, Stopped> {
    // What is not in the archive as the frontier knows it is asked for in full.
    if ticket.head == HeadFirst::No || conditions(shared, ticket, url).is_empty() {
        return Ok(Head::GoOn(None));
    }
    let Some(known) = ticket.known.take() else { return Ok(Head::GoOn(None)) };
    let fields = shared.fields_for(url, true);
    // It has no second try: after any failure the page itself is asked for.
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
    if let Some(order) = order_of(&shared.orders(), url, Some(ticket.address)) {
        logged.not_sent().await;
        stop(shared, ticket.key.host, &order).await?;
        return Ok(Head::Stopped);
    }
    let mut fetched = shared.stages.fetch.fetch(request).await;
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
    logged.ended(line_of(shared, ticket, &fetched, began, took, None)).await;
    shared.counts.ended(outcome, 0);
    let report = report_of(&fetched, said, took);
    shared.handle.report(ticket.id, report).await?;
    Ok(Head::Reported)
}

/// What a ticket ends with when its head has come, if no page is to be asked for.
fn ends_with(outcome: Outcome, asks_to_wait: bool, said: HeadSaid, first: HeadFirst) -> Option<Outcome> {
    match outcome.action() {
        // Whoever asks us to wait is not asked for the page a moment later, and a failure of our own says nothing about
        // what heads are worth here.
        Action::BackOffHost | Action::Pause => Some(outcome),
        Action::BackOff if asks_to_wait => Some(outcome),
        // Nobody was asked, neither for the head nor for anything else.
        Action::BackOff if outcome.is_unconnected() => Some(outcome),
        _ => (said == HeadSaid::Unchanged && first == HeadFirst::Instead).then_some(Outcome::NotModified),
    }
}

/// The report of a ticket that ends with a head.
fn report_of(fetched: &Fetched, said: HeadSaid, took: Duration) -> Report {
    Report {
        head: Some(said).filter(|_| !fetched.outcome.is_unconnected()),
        retry_after: fetched.retry_after,
        ..Report::of(fetched.outcome, fetched.status.unwrap_or(0), took)
    }
}

/// Between the head of a page and the page lies at least this.
const REST_MIN: Duration = Duration::from_millis(1);

/// Does a head name the version that we hold?
fn said(fetched: &Fetched, known: &Validators) -> HeadSaid {
    if fetched.outcome.action() != Action::Keep {
        return HeadSaid::Nothing;
    }
    let value = |name| fetched.fields.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (etag, modified) = (value(ETAG), value(LAST_MODIFIED));
    // The tag is the better of the two: a date has seconds only.
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
        // A server that does not know HEAD.
        assert_eq!(ends_with(Outcome::ClientError, false, HeadSaid::Nothing, instead), None);
    }
}
