//! The end of a ticket in words and numbers: its report to the frontier, its line in the log, the counters.

use std::time::Duration;

use http::header::{CONTENT_TYPE, ETAG, LAST_MODIFIED};
use nephila_core::frontier::ticket::{Report, Ticket};
use nephila_core::handler::ReadAs;
use nephila_core::spider::outcome::Class;
use nephila_core::time::Timestamp;
use nephila_spider::Fetched;
use nephila_store::archive::{Kind, Receipt};

use crate::crawl::shared::Shared;
use crate::crawl::troubles;
use crate::log::{Line, Stored};

/// Maximum size in bytes of a validator that is kept.
pub(super) const VALIDATOR_BYTES_MAX: usize = 256;

/// The report of a fetch.
pub(super) fn report_of(fetched: &Fetched, took: Duration, receipt: Option<&Receipt>) -> Report {
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
        simhash: 0,
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

/// Counts a fetch that has ended. `is_last`: no other attempt follows at once.
pub(super) fn count(
    shared: &Shared,
    ticket: &Ticket,
    fetched: &Fetched,
    line: &Line,
    receipt: Option<&Receipt>,
    is_last: bool,
) {
    use std::sync::atomic::Ordering::Relaxed;
    shared.counts.ended(fetched.outcome, fetched.body_bytes);
    shared.counts.metrics.fetch_took.add(line.took_ms);
    shared.counts.metrics.phases.add(&fetched.timings);
    if fetched.outcome.class() == Class::Ok {
        shared.counts.metrics.story_delay.fetched(&ticket.key, Timestamp(line.at));
    }
    shared.lasts.note(&line.origin, fetched.outcome, Timestamp(line.at + line.took_ms));
    shared.counts.kept(fetched.outcome, ticket.read_as, &line.mime);
    let failed = matches!(fetched.outcome.class(), Class::Retry | Class::Broken) || fetched.status.is_none();
    let cause = failed.then(|| troubles::words(fetched.outcome, fetched.status, &fetched.detail));
    match cause {
        Some(_) if !is_last => {}
        // A seed, or the target of its redirect.
        Some(cause) if ticket.depth == 0 && ticket.read_as == ReadAs::Page => {
            shared.troubles.seed_failed(&ticket.url, &cause);
            shared.troubles.page_failed(&line.origin, cause);
        }
        Some(cause) => shared.troubles.page_failed(&line.origin, cause),
        None => shared.troubles.host_answered(&line.origin),
    }
    if receipt.is_some_and(|receipt| !matches!(receipt.kind, Kind::Response | Kind::Resource)) {
        shared.counts.revisits.fetch_add(1, Relaxed);
        shared.counts.revisit_bytes.fetch_add(fetched.body_bytes, Relaxed);
    }
}

/// The log line of a request that has ended.
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
                Kind::Resource => "resource",
                Kind::Revisit => "revisit",
                Kind::NotModified => "not-modified",
                Kind::Redundant => "redundant",
            }
            .into(),
        }),
        detail: fetched.detail.clone(),
        trace: shared.traces.id_of(ticket.id).map(|id| id.to_string()),
        ..line_begun(shared, ticket, began)
    }
}

pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The log line of a request that is about to be made.
pub(super) fn line_begun(shared: &Shared, ticket: &Ticket, began: Timestamp) -> Line {
    let origin = origin_of(&ticket.url);
    Line {
        at: began.0,
        fetch: ticket.id.0,
        url: ticket.url.clone(),
        origin: origin.to_owned(),
        // The address to be dialled, unless a later line names another.
        address: Some(ticket.address),
        host_rest_ms: ms(ticket.host_rest),
        slot_rest_ms: ms(ticket.slot_rest),
        requests: 1,
        robots_obeyed: shared.settings.robots.obey,
        depth: ticket.depth,
        via: ticket.via.as_ref().and_then(|via| via.page(origin)),
        hops: ticket.via.as_ref().map_or_else(String::new, |via| via.trail.to_string()),
        read_as: if ticket.read_as.is_page() { String::new() } else { ticket.read_as.name().into() },
        retries: ticket.retries,
        ..Line::default()
    }
}

/// The origin of a URL: what stands before its path.
pub(super) fn origin_of(url: &str) -> &str {
    let scheme = url.find("://").map_or(0, |at| at + 3);
    let authority = url[scheme..].find(['/', '?', '#']).unwrap_or(url.len() - scheme);
    &url[..scheme + authority]
}
