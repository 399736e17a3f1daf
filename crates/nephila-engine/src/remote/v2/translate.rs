//! Requests and results of fetches as messages of version 2, and back.
//!
//! A result of a spider is believed as far as a fetch can end that way, and for the URL that was asked for alone. Words
//! that a program knows by heart (protocols, names of notes) are looked up; unknown ones are dropped.

use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use nephila_core::remote::v2::message::{ExchangeFacts, FIELDS_MAX, Facts, Field, Wanted};
use nephila_core::spider::Outcome;
use nephila_core::store::{Exchange, Notes};
use nephila_core::time::Timestamp;
use nephila_core::url::CrawlUrl;
use nephila_spider::decode::Note;
use nephila_spider::{Body, Fetched, Keep, Request, Timings, TlsInfo};

use crate::clock::Clock;
use crate::remote::answer::is_end_of_fetch;

const PROTOCOLS: [&str; 3] = ["http/1.0", "http/1.1", "h2"];
const TLS_VERSIONS: [&str; 2] = ["tls/1.2", "tls/1.3"];
const NOTES: [&str; 4] = ["outcome", "certificate", "decoding", "signature"];

/// What a spider is told of a request. `more` are further header fields, `host_connections` the limit of a host.
pub(super) fn wanted(
    request: &Request,
    address: std::net::IpAddr,
    is_typed: bool,
    host_connections: u32,
    more: &[(HeaderName, HeaderValue)],
) -> Wanted {
    let field =
        |(name, value): &(HeaderName, HeaderValue)| (name.as_str().to_owned(), value.as_bytes().to_owned());
    Wanted {
        url: request.url.as_str().to_owned(),
        address,
        connections_max: request.connections_max,
        head_only: request.head_only,
        keep_exchange: request.keep.exchange,
        second: request.second,
        is_typed,
        // The connections of an address are shared out among spiders, those of a host are not.
        keep_connection: request.connections_max > 0 && host_connections >= request.connections_max,
        body_bytes_max: request.body_bytes_max,
        read_as: request.read_as,
        fields: request.fields.iter().chain(more).map(field).collect(),
    }
}

/// The request that a spider is asked for. `None` if it is none.
pub(super) fn request(wanted: &Wanted) -> Option<Request> {
    let mut fields = Vec::with_capacity(wanted.fields.len());
    for (name, value) in &wanted.fields {
        fields.push((HeaderName::try_from(name.as_str()).ok()?, HeaderValue::from_bytes(value).ok()?));
    }
    Some(Request {
        fields,
        head_only: wanted.head_only,
        // Without a body to keep, nobody could read the page at the node.
        keep: Keep { exchange: true, decoded: wanted.read_as.is_some(), sha1: false },
        body_bytes_max: wanted.body_bytes_max,
        address: Some(wanted.address),
        connections_max: wanted.connections_max,
        second: wanted.second,
        ..Request::get(CrawlUrl::parse(&wanted.url).ok()?)
    })
}

/// The result of a fetch, and its body. Heads are sent if the exchange is kept. `found` is what the page names.
pub(super) fn facts(
    fetched: Fetched,
    keep_exchange: bool,
    found: Vec<u8>,
) -> (Facts, Option<Box<dyn nephila_core::store::Payload>>) {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let Timings { resolve, connect, tls, head, body, total, .. } = fetched.timings;
    let (exchange, payload) = match fetched.exchange {
        Some(exchange) => {
            let facts = ExchangeFacts {
                started_ago: Clock::new().now().wall.0.saturating_sub(exchange.started.0),
                address: exchange.address,
                request_head: exchange.request_head.to_vec(),
                response_head: exchange.response_head.to_vec(),
                notes: exchange
                    .notes
                    .iter()
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect(),
            };
            (keep_exchange.then_some(facts), Some(exchange.body))
        }
        None => (None, None),
    };
    let fields = fetched.fields.iter().take(FIELDS_MAX);
    let facts = Facts {
        outcome: fetched.outcome,
        detail: fetched.detail,
        status: fetched.status,
        fields: fields.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_owned())).collect(),
        address: fetched.address,
        protocol: fetched.protocol.unwrap_or_default().to_owned(),
        tls: fetched
            .tls
            .as_ref()
            .map_or_else(Default::default, |tls| (tls.version.to_owned(), tls.cipher.clone())),
        certificate: fetched.tls.and_then(|tls| tls.certificate),
        reused: fetched.reused,
        requests: fetched.requests,
        again: fetched.again,
        phases: [resolve, connect, tls, head, body].map(|phase| phase.map(micros)),
        total: micros(total),
        head_bytes: fetched.head_bytes,
        body_bytes: fetched.body_bytes,
        decoded_bytes: fetched.decoded_bytes,
        decoding: fetched.decoding.map(Note::as_str).unwrap_or_default().to_owned(),
        redirect: fetched.redirect.map(|url| url.as_str().to_owned()).unwrap_or_default(),
        truncated: fetched.truncated,
        retry_after: fetched.retry_after.map(|wait| wait.as_secs()),
        found,
        exchange,
    };
    (facts, payload)
}

/// The result of a spider as a fetch. The decoded body is missing.
pub(super) fn fetched(
    request: &Request,
    facts: Facts,
    body: Body,
    spider: &str,
    waited: Duration,
) -> Fetched {
    let detail = match facts.detail.is_empty() {
        true => format!("fetched by the spider {spider}"),
        false => format!("{}; fetched by the spider {spider}", facts.detail),
    };
    let mut fetched = Fetched::not_sent(facts.outcome, detail);
    if !is_end_of_fetch(facts.outcome) {
        fetched.outcome = Outcome::SpiderLost;
        fetched.detail = format!("{spider} said {}, which only a node decides", facts.outcome.name());
        return fetched;
    }
    let micros = |time: u64| Duration::from_micros(time).min(waited);
    fetched.status = facts.status;
    fetched.fields = header_map(&facts.fields);
    fetched.address = facts.address;
    fetched.protocol = known(&PROTOCOLS, &facts.protocol);
    fetched.tls = known(&TLS_VERSIONS, &facts.tls.0).map(|version| TlsInfo {
        version,
        cipher: facts.tls.1,
        certificate: facts.certificate,
    });
    fetched.reused = facts.reused;
    fetched.requests = facts.requests;
    fetched.again = facts.again;
    let [resolve, connect, tls, head, body_time] = facts.phases.map(|phase| phase.map(micros));
    fetched.timings = Timings {
        resolve,
        connect,
        tls,
        head,
        body: body_time,
        total: micros(facts.total),
        ..Timings::default()
    };
    fetched.head_bytes = facts.head_bytes;
    fetched.body_bytes = facts.body_bytes;
    fetched.decoded_bytes = facts.decoded_bytes;
    fetched.decoding = Note::ALL.into_iter().find(|note| note.as_str() == facts.decoding);
    fetched.redirect = CrawlUrl::parse(&facts.redirect).ok();
    if fetched.outcome == Outcome::Redirect && fetched.redirect.is_none() {
        fetched.outcome = Outcome::RedirectBadLocation;
    }
    fetched.truncated = facts.truncated;
    fetched.retry_after = facts.retry_after.map(Duration::from_secs);
    if let Some(exchange) = facts.exchange.filter(|_| request.keep.exchange) {
        let now = Clock::new().now().wall;
        let waited = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        let mut protocols: Vec<&'static str> = fetched.protocol.into_iter().collect();
        protocols.extend(fetched.tls.as_ref().map(|tls| tls.version));
        let note = |(name, value): (String, String)| known(&NOTES, &name).map(|name| (name, value));
        let mut notes: Notes = exchange.notes.into_iter().filter_map(note).collect();
        notes.push("spider", spider);
        fetched.exchange = Some(Exchange {
            url: request.url.as_str().to_owned(),
            started: Timestamp(now.0.saturating_sub(exchange.started_ago.min(waited))),
            elapsed_ms: u64::try_from(fetched.timings.total.as_millis()).unwrap_or(u64::MAX),
            address: exchange.address,
            protocols,
            request_head: exchange.request_head.into(),
            response_head: exchange.response_head.into(),
            body: Box::new(body),
            truncated: fetched.truncated,
            notes,
            text: "".into(),
            media: None,
        });
    }
    fetched
}

fn known(words: &[&'static str], word: &str) -> Option<&'static str> {
    words.iter().find(|known| **known == word).copied()
}

/// The header fields; those that are none are left out.
fn header_map(fields: &[Field]) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.len());
    for (name, value) in fields {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name.as_str()), HeaderValue::from_bytes(value)) {
            map.append(name, value);
        }
    }
    map
}
