//! The request of a ticket: logged before it is made, to the ticket's address alone, conditional if the page is held.

use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use nephila_core::follow::{self, Stored};
use nephila_core::frontier::ticket::{Purpose, Ticket};
use nephila_core::handler::ReadAs;
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Keep, Request};
use nephila_store::archive::LastCapture;

use super::line::{line_begun, line_of, origin_of};
use crate::crawl::shared::Shared;
use crate::crawl::stops::{order_of, stop};
use crate::log::{self, Line};
use crate::metrics::politeness::{Asking, Promise};
use crate::traces::Trace;
use crate::worker::Stopped;

/// Maximum crawl delay for a second request under one ticket, which would expire otherwise; the host's other pages then
/// answer the challenge.
pub(super) const SECOND_REST_MAX: Duration = Duration::from_secs(120);

/// A fetch that has ended.
pub(crate) struct EndedFetch {
    pub(crate) fetched: Fetched,
    /// Wall-clock time of the beginning.
    pub(crate) began: Timestamp,
    pub(crate) took: Duration,
    /// Whether the request was conditional.
    pub(crate) conditional: bool,
    /// The log entry of the request, to be completed with the outcome.
    pub(crate) request: log::Request,
}

/// Makes the request of a ticket, to the ticket's address and no other. None if an operator's order stops the host or
/// the address: then nothing was sent.
pub(crate) async fn ask(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    body_bytes_max: Option<u64>,
    trace: &mut Trace,
) -> Result<Option<Box<EndedFetch>>, Stopped> {
    let first = ask_once(shared, ticket, url, body_bytes_max, trace).await?;
    let Some((asked, sent)) = first else { return Ok(None) };
    // Digest authentication: the site sends a challenge first. The response is a request like any other, with a crawl
    // delay before and a line in the log.
    let fetched = &asked.fetched;
    let again =
        fetched.status == Some(401) && shared.credentials.may_ask_again(url, sent.as_ref(), &fetched.fields);
    let rest = ticket.host_rest.max(ticket.slot_rest);
    if !again || rest > SECOND_REST_MAX {
        return Ok(Some(asked));
    }
    Box::pin(ask_again(shared, ticket, url, body_bytes_max, trace, asked)).await
}

/// Makes the request once more, after its rest, with an answer to the challenge.
async fn ask_again(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    body_bytes_max: Option<u64>,
    trace: &mut Trace,
    asked: Box<EndedFetch>,
) -> Result<Option<Box<EndedFetch>>, Stopped> {
    let (fetched, rest) = (&asked.fetched, ticket.host_rest.max(ticket.slot_rest));
    let mut line = line_of(shared, ticket, fetched, asked.began, asked.took, None);
    line.purpose = purpose_of(ticket);
    asked.request.ended(line).await;
    tokio::time::sleep(rest.max(Duration::from_millis(1))).await;
    Ok(ask_once(shared, ticket, url, body_bytes_max, trace).await?.map(|(asked, _)| asked))
}

/// Makes one request. Also returns the credentials that were sent.
pub(super) async fn ask_once(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    body_bytes_max: Option<u64>,
    trace: &mut Trace,
) -> Result<Option<(Box<EndedFetch>, Option<HeaderValue>)>, Stopped> {
    let mut fields = shared.fields_for(url, false);
    let sent = fields.iter().find(|(name, _)| *name == AUTHORIZATION).map(|(_, value)| value.clone());
    let conditions = conditions(shared, ticket, url);
    let conditional = !conditions.is_empty();
    fields.extend(conditions);
    let request = Request {
        fields,
        keep: Keep { exchange: shared.stages.keep.is_some(), decoded: true, sha1: false },
        body_bytes_max,
        address: Some(ticket.address),
        connections_max: shared.settings.frontier.connections_max(ticket.address),
        second: ticket.retries > 0,
        rest: ticket.host_rest.max(ticket.slot_rest),
        read_as: read_elsewhere(shared, ticket),
        ..Request::get(url.clone())
    };
    shared.may_begin().await;
    let began = shared.clock.now().wall;
    let logged = begin(shared, ticket, began, purpose_of(ticket)).await?;
    let began_at = Instant::now();
    // The last check before the request: the order may be newer than the ticket. The address is the one that is
    // dialled.
    let order = order_of(&shared.stop_list(), url, Some(ticket.address));
    if let Some(order) = order {
        logged.not_sent().await;
        // First the host is stopped, then its ticket is returned, so that no other ticket of the host is handed out.
        stop(shared, ticket.key.host, &order).await?;
        return Ok(None);
    }
    let asking = asking(shared, ticket);
    let fetched = shared.stages.fetch.fetch(request).await;
    asking.ended(fetched.address.is_some());
    trace.requested("GET", began_at, began, &fetched);
    // A request may wait for a remote spider: that is not the site's time.
    let took = match fetched.requests {
        0 => began_at.elapsed(),
        _ => fetched.timings.total.min(began_at.elapsed()),
    };
    let asked = EndedFetch { fetched, began, took, conditional, request: logged };
    Ok(Some((Box::new(asked), sent)))
}

/// How a remote spider is to read a page. `None` if the body is needed here: of a robots.txt, for the text of a page, for
/// tables, by a reader or an observer of its own.
fn read_elsewhere(shared: &Shared, ticket: &Ticket) -> Option<ReadAs> {
    let (settings, stages, read_as) = (&shared.settings, &shared.stages, ticket.read_as);
    let is_here = ticket.purpose == Purpose::Robots
        || !read_as.is_content()
        || settings.handler.text.wants(read_as)
        || settings.tables.write
        || !stages.read.is_standard()
        || stages.observe.needs_body();
    (!is_here).then_some(read_as)
}

pub(super) fn purpose_of(ticket: &Ticket) -> log::Purpose {
    match ticket.purpose {
        Purpose::Page => log::Purpose::Page,
        Purpose::Robots => log::Purpose::Robots,
    }
}

/// Writes the request to the journal of the log, before the request is made.
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

/// Tells the meter of politeness that a request of this ticket is about to be sent.
pub(crate) fn asking<'a>(shared: &'a Shared, ticket: &Ticket) -> Asking<'a> {
    let frontier = &shared.settings.frontier;
    let host = Promise { rest: ticket.host_rest, connections: frontier.host_connections };
    // Each connection of a fleet rests on its own, whatever the address.
    let address = ticket.address.to_canonical();
    let is_fleet = frontier.fleets.iter().any(|fleet| fleet.ranges.iter().any(|net| net.contains(&address)));
    let rest = if is_fleet { Duration::ZERO } else { ticket.slot_rest };
    let slot = Promise { rest, connections: frontier.connections_max(address) };
    shared.counts.metrics.politeness.begin(origin_of(&ticket.url), address, host, slot)
}

/// The header fields of a conditional request for a page that was fetched before.
pub(crate) fn conditions(shared: &Shared, ticket: &Ticket, url: &CrawlUrl) -> Vec<(HeaderName, HeaderValue)> {
    let is_followed_feed = shared.settings.feed.follows(ticket.read_as, ticket.depth);
    let last = last_capture(shared, url);
    follow::conditions(ticket.known.as_deref(), last.as_ref().map(stored), is_followed_feed)
}

/// Whether the last capture of a page is the version that the frontier knows.
pub(super) fn is_held(shared: &Shared, ticket: &Ticket, url: &CrawlUrl) -> bool {
    let last = last_capture(shared, url);
    follow::is_stored(ticket.known.as_deref(), last.as_ref().map(stored))
}

fn last_capture(shared: &Shared, url: &CrawlUrl) -> Option<LastCapture> {
    shared.stages.keep.as_ref()?.last_capture(url.as_str())
}

fn stored(last: &LastCapture) -> Stored<'_> {
    let LastCapture { etag, last_modified, .. } = last;
    Stored {
        etag: etag.as_deref().unwrap_or_default(),
        last_modified: last_modified.as_deref().unwrap_or_default(),
    }
}
