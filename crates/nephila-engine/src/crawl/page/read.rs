//! The reading of a page, behind the watchdog: a reader that does not end is abandoned, and the page is kept unread.

use std::time::{Duration, Instant};

use http::HeaderMap;
use nephila_core::frontier::ticket::Ticket;
use nephila_core::handler::{Findings, Page, ReadAs};
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Action;
use nephila_core::store::Exchange;
use nephila_core::text::shown;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_spider::Fetched;

use crate::crawl::readers::{ABANDONED_MAX, Unread};
use crate::crawl::shared::Shared;

/// Time limit for reading one page; the findings up to then count.
pub(crate) const READ_TIME_MAX: Duration = Duration::from_secs(3);

/// Keeps a page that could not be read. The outcome says why.
pub(super) fn give_up(
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
    if let Some(exchange) = exchange {
        exchange.notes.set("outcome", fetched.outcome.name());
    }
    Ok(())
}

/// Reports that a page could not be read. With too many abandoned readers the crawl ends.
pub(crate) fn complain(url: &CrawlUrl, why: Unread) -> anyhow::Result<()> {
    let what = if why == Unread::Failed { "failed" } else { "did not end in time and was given up" };
    tracing::warn!(
        url = %shown(url.as_str()),
        "reading {} {what}; it is stored: please report it", shown(url.as_str())
    );
    anyhow::ensure!(
        why != Unread::TooMany,
        "{ABANDONED_MAX} pages could not be read to their end and each still holds a thread: start the crawl again, \
         which goes on without them"
    );
    Ok(())
}

/// Parses a page, if its type can be parsed and whoever fetched the page has not done so.
pub(super) async fn read(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    fetched: &mut Fetched,
) -> Result<Option<Box<Findings>>, Unread> {
    if fetched.outcome.action() != Action::Keep {
        return Ok(None);
    }
    if let Some(findings) = fetched.findings.take() {
        return Ok(Some(findings));
    }
    let start = |decoded: &nephila_spider::Body| decoded.start(shared.settings.handler.page_bytes_max).ok();
    let Some(body) = fetched.decoded.as_ref().and_then(start) else { return Ok(None) };
    read_body(shared, url, &fetched.fields, body, ticket.read_as).await.map(Some)
}

/// Parses a body.
pub(crate) async fn read_body(
    shared: &Shared,
    url: &CrawlUrl,
    fields: &HeaderMap,
    body: bytes::Bytes,
    read_as: ReadAs,
) -> Result<Box<Findings>, Unread> {
    let limits = shared.page_limits();
    let (own, fields) = (url.clone(), fields.clone());
    let (agent, reader) = (shared.settings.identity.agent.clone(), shared.stages.read.clone());
    let read = watched(shared, url, READ_TIME_MAX, move || {
        let (keys, agent) = (KeyRules::default(), &*agent);
        let page = Page { url: &own, fields: &fields, body: &body, read_as, agent, keys: &keys };
        let began = Instant::now();
        Box::new(reader.read(&page, &limits, &mut || began.elapsed() > READ_TIME_MAX))
    });
    read.await
}

/// Runs a reader behind the watchdog, with the page marked as being read.
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
