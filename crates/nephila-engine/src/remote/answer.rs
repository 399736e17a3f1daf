//! What the record of a spider means for the crawl.
//!
//! A spider says how a fetch ended. It is believed as far as a fetch can end that way: what only the node decides, such
//! as robots.txt or the scope, and a 304 that nobody asked for, is no end of a fetch. A redirect that the spider has
//! followed is a redirect: the target goes through the scope and robots.txt like every link, so the data is dropped.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nephila_core::remote::desk::End;
use nephila_core::remote::record::{Http, Record, Specific};
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Action;
use nephila_core::store::{Exchange, Truncation};
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use nephila_spider::{Body, Fetched, Request};

use super::records::Data;
use crate::clock::Clock;

/// The end of an ask as a fetch.
pub(super) fn fetched(request: &Request, ip: IpAddr, waited: Duration, end: End<Data>) -> Fetched {
    match end {
        End::Lost { why, sent } => {
            let detail = format!("{}; sent {sent} times", why.as_str());
            Fetched { requests: sent, ..Fetched::not_sent(Outcome::SpiderLost, detail) }
        }
        End::Recorded { received, spider, sent, .. } => {
            let (record, data) = (received.record, received.body);
            let mut fetched =
                Fetched::not_sent(Outcome::SpiderLost, format!("fetched by the spider {spider}"));
            fetched.requests = sent;
            fetched.address = Some(SocketAddr::new(ip, request.url.port()));
            fetched.timings.total = Duration::from_millis(record.ms.into()).min(waited);
            judge(&mut fetched, &record, data.dropped > 0);
            keep(&mut fetched, request, ip, &spider, data);
            fetched
        }
    }
}

/// Sets outcome, status, redirect and truncation.
fn judge(fetched: &mut Fetched, record: &Record, is_cut: bool) {
    fetched.status = match record.http {
        Http::Status(status) => Some(status),
        Http::None | Http::Other => None,
    };
    let target = CrawlUrl::parse(&record.new_url).ok();
    fetched.outcome = match (record.specific, fetched.status) {
        (Specific::Followed, _) => Outcome::Redirect,
        // What the status means is known here.
        (Specific::Outcome(Outcome::Fetched), Some(status)) => Outcome::of_status(status),
        (Specific::Outcome(Outcome::Fetched), None) => Outcome::StatusUnknown,
        (Specific::Outcome(outcome), _) => outcome,
    };
    match fetched.outcome {
        Outcome::Redirect if target.is_none() => fetched.outcome = Outcome::RedirectBadLocation,
        Outcome::Redirect => fetched.redirect = target,
        Outcome::NotModified => fetched.outcome = Outcome::UnexpectedNotModified,
        outcome if !is_end_of_fetch(outcome) => {
            fetched.detail =
                format!("{}, and said {}, which only a node decides", fetched.detail, outcome.name());
            fetched.outcome = Outcome::SpiderLost;
        }
        _ => {}
    }
    fetched.truncated = match fetched.outcome {
        Outcome::CutTime => Some(Truncation::Time),
        Outcome::CutDisconnect => Some(Truncation::Disconnect),
        Outcome::CutLength => Some(Truncation::Length),
        _ if is_cut => Some(Truncation::Length),
        _ => None,
    };
    if is_cut && fetched.outcome == Outcome::Fetched {
        fetched.outcome = Outcome::CutLength;
    }
}

/// Whether a fetch of another program can end like this.
pub(super) fn is_end_of_fetch(outcome: Outcome) -> bool {
    use Outcome as O;
    let decided_here = [
        O::RedirectLoop,
        O::RedirectLimit,
        O::CookieWall,
        O::OutOfScope,
        O::RobotsDenied,
        O::RobotsUnreachable,
        O::LimitReached,
        O::NoContact,
        O::NotOwnSite,
        O::StopList,
        O::Crashed,
        O::ReadTimeout,
    ];
    !decided_here.contains(&outcome)
}

/// Keeps the data, as the body of a page and for the archive.
fn keep(fetched: &mut Fetched, request: &Request, ip: IpAddr, spider: &str, data: Data) {
    let is_kept = fetched.outcome.action() == Action::Keep;
    let robots_max = request.body_bytes_max.and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX);
    let bytes = data.bytes.slice(..data.bytes.len().min(robots_max));
    (fetched.body_bytes, fetched.decoded_bytes) = (bytes.len() as u64, bytes.len() as u64);
    let body = Body::from(bytes);
    if request.keep.exchange && is_kept {
        let elapsed = fetched.timings.total;
        let now = Clock::new().now().wall;
        fetched.exchange = Some(Exchange {
            url: request.url.as_str().to_owned(),
            started: Timestamp(now.0.saturating_sub(u64::try_from(elapsed.as_millis()).unwrap_or_default())),
            elapsed_ms: u64::try_from(elapsed.as_millis()).unwrap_or_default(),
            address: Some(ip),
            protocols: Vec::new(),
            request_head: bytes::Bytes::new(),
            response_head: bytes::Bytes::new(),
            body: Box::new(body.clone()),
            truncated: fetched.truncated,
            notes: [("outcome", fetched.outcome.name()), ("spider", spider)].into(),
            text: "".into(),
            media: None,
        });
    }
    fetched.decoded = (request.keep.decoded && is_kept).then_some(body);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nephila_core::remote::desk::Received;
    use nephila_spider::Keep;
    use tokio::sync::Semaphore;

    use super::*;

    fn end(specific: Specific, http: Http, new_url: &str, dropped: u32) -> Fetched {
        let url = CrawlUrl::parse("http://a.test/x").unwrap();
        let keep = Keep { exchange: true, decoded: true, sha1: false };
        let request = Request { keep, ..Request::get(url) };
        let record = Record {
            doc: 1,
            success: true,
            specific,
            http,
            ms: 40,
            url: "http://a.test/x".into(),
            new_url: new_url.into(),
            data_len: 2,
        };
        let body = Data::of(b"hi", dropped, Arc::new(Semaphore::new(1)));
        let received = Received { record, body };
        let took = Duration::from_millis(50);
        let end = End::Recorded { received, took, done: 9, spider: "s".into(), sent: 2 };
        fetched(&request, "127.0.0.1".parse().unwrap(), took, end)
    }

    #[test]
    fn a_spider_is_believed_as_far_as_a_fetch_can_end_that_way() {
        let ok = Specific::Outcome(Outcome::Fetched);
        let said = |outcome| Specific::Outcome(outcome);
        for (specific, http, new_url, expected) in [
            (ok, Http::Status(200), "", Outcome::Fetched),
            (ok, Http::Status(404), "", Outcome::NotFound),
            (ok, Http::Status(301), "http://a.test/y", Outcome::Redirect),
            (ok, Http::None, "", Outcome::StatusUnknown),
            (said(Outcome::ConnectRefused), Http::None, "", Outcome::ConnectRefused),
            (said(Outcome::Redirect), Http::Status(302), "http://a.test/y", Outcome::Redirect),
            (said(Outcome::Redirect), Http::Status(302), "nonsense", Outcome::RedirectBadLocation),
            (Specific::Followed, Http::Status(200), "http://a.test/y", Outcome::Redirect),
            (said(Outcome::NotModified), Http::Status(304), "", Outcome::UnexpectedNotModified),
            (said(Outcome::RobotsDenied), Http::None, "", Outcome::SpiderLost),
            (said(Outcome::StopList), Http::None, "", Outcome::SpiderLost),
        ] {
            let fetched = end(specific, http, new_url, 0);
            assert_eq!(fetched.outcome, expected, "{specific:?} {http:?} {new_url}");
            let is_page = expected.action() == Action::Keep;
            assert_eq!((fetched.exchange.is_some(), fetched.decoded.is_some()), (is_page, is_page));
            assert_eq!(fetched.redirect.is_some(), expected == Outcome::Redirect);
        }
    }

    #[test]
    fn a_page_has_no_head_and_names_its_spider() {
        let fetched = end(Specific::Outcome(Outcome::Fetched), Http::Status(200), "", 7);
        assert_eq!((fetched.outcome, fetched.truncated), (Outcome::CutLength, Some(Truncation::Length)));
        assert_eq!((fetched.requests, fetched.body_bytes), (2, 2));
        assert_eq!(fetched.detail, "fetched by the spider s");
        let exchange = fetched.exchange.unwrap();
        assert!(exchange.response_head.is_empty() && exchange.request_head.is_empty());
        assert_eq!(exchange.notes.get("spider"), Some("s"), "{:?}", exchange.notes);
        assert_eq!(&fetched.decoded.unwrap().start(9).unwrap()[..], b"hi");
    }
}
