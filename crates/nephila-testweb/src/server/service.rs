//! From a request to an answer: find the place, render the body, apply conditions and coding, record the request.
//!
//! Invariant: every request that was read is recorded once, with any answer.

use std::convert::Infallible;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::Open;
use super::body::{Body, Note};
use crate::journal;
use crate::model::time::{http_date, parse_http_date};
use crate::model::{Fate, Place, What};
use crate::render::{Answer, choose};

/// The status for a host that is not ours (RFC 9110, 15.5.20).
const MISDIRECTED: u16 = 421;

/// One client connection, as seen by its requests.
pub(super) struct Caller {
    open: Arc<Open>,
    http2: bool,
    /// Strings the last request had; the next one mostly has the same.
    last: Mutex<Last>,
}

#[derive(Default)]
struct Last {
    method: Option<Arc<str>>,
    host: Option<Arc<str>>,
    user_agent: Option<Arc<str>>,
    accept_encoding: Option<Arc<str>>,
}

impl Caller {
    pub(super) fn new(open: Arc<Open>, http2: bool) -> Caller {
        Caller { open, http2, last: Mutex::default() }
    }

    /// Answers one request.
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        self.open.requests.fetch_add(1, Ordering::Relaxed);
        let world = self.open.shared.renderer.world();
        let now = world.clock().now();
        let mut note = self.note(&request, now);
        let host = authority(&request).and_then(|authority| world.host_of(authority));
        let what = host.and_then(|host| world.what(host, request.uri().path()));
        let place = host.zip(what).map(|(host, what)| Place { host, what });
        if let Some(place) = place {
            let latency = world.latency(place);
            if !latency.is_zero() {
                tokio::time::sleep(latency).await;
            }
            let is_robots = matches!(place.what, What::Robots | What::RobotsReal);
            if world.fate(place.host) == Fate::Tarpit && !is_robots {
                if let Some(note) = &mut note {
                    note.request.status = 200;
                }
                return Ok(Response::new(Body::tarpit(world.settings().tarpit_pace, note)));
            }
        }
        let is_robots = place.is_some_and(|place| matches!(place.what, What::Robots | What::RobotsReal));
        let mut answer = match place {
            _ if request.method() != Method::GET && request.method() != Method::HEAD => Answer::error(405),
            Some(place) if !is_robots && world.is_busy(place.host, now) => Answer::error(429),
            Some(place) => self.open.shared.renderer.answer(place, now),
            None if host.is_none() => Answer::error(MISDIRECTED),
            None => Answer::error(404),
        };
        if matches!(answer.status, 429 | 503) {
            let seconds = world.settings().retry_after.as_secs();
            answer.retry_after = (seconds > 0).then(|| u32::try_from(seconds).unwrap_or(u32::MAX));
        }
        let mut response = self.respond(&request, answer, note);
        let max_age = world.settings().robots_max_age.as_secs();
        if is_robots && max_age > 0 {
            response.headers_mut().insert(header::CACHE_CONTROL, value(format!("max-age={max_age}")));
        }
        Ok(response)
    }

    /// Applies conditions and content coding to an answer and makes the response.
    fn respond(&self, request: &Request<Incoming>, answer: Answer, mut note: Option<Note>) -> Response<Body> {
        let willing = &self.open.shared.renderer.world().settings().encodings;
        let is_text = answer.kind != "application/gzip";
        let coding = if willing.is_empty() || !is_text {
            None
        } else {
            choose(text(request.headers(), &header::ACCEPT_ENCODING), willing)
        };
        let mut headers = HeaderMap::with_capacity(8);
        let mut status = answer.status;
        if let Some((mark, modified)) = answer.version {
            let suffix = coding.map_or("", |coding| coding.token());
            let tag = format!("\"{mark:x}{suffix}\"");
            if is_unchanged(request.headers(), &tag, modified) {
                status = 304;
            }
            headers.insert(header::ETAG, value(tag));
            headers.insert(header::LAST_MODIFIED, value(http_date(modified)));
        }
        if let Some(location) = answer.location {
            headers.insert(header::LOCATION, value(location));
        }
        if let Some(seconds) = answer.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if !willing.is_empty() && is_text {
            headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        let mut body = answer.body;
        if status == 304 {
            body = Vec::new();
        } else {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.kind));
            if let Some(coding) = coding {
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding.token()));
                body = self.open.shared.renderer.encode(&body, coding);
            }
            if request.method() == Method::HEAD {
                let len: usize = body.iter().map(Bytes::len).sum();
                headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
                body = Vec::new();
            }
        }
        if let Some(note) = &mut note {
            note.request.status = status;
            note.request.retry_after = answer.retry_after;
        }
        let mut response = Response::new(Body::new(body, note));
        *response.status_mut() = StatusCode::from_u16(status).expect("statuses are ours");
        *response.headers_mut() = headers;
        response
    }

    /// The journal record of a request at its start.
    fn note(&self, request: &Request<Incoming>, now: u64) -> Option<Note> {
        let journal = &self.open.shared.journal;
        if !journal.is_on() {
            return None;
        }
        let headers = request.headers();
        let condition =
            text(headers, &header::IF_NONE_MATCH).or_else(|| text(headers, &header::IF_MODIFIED_SINCE));
        let mut last = self.last.lock().expect("nobody panics while holding the strings");
        let host = authority(request).unwrap_or_default();
        let host = if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            host.to_ascii_lowercase().into()
        } else {
            same(&mut last.host, host)
        };
        self.open.carries(&host);
        let start_us = journal.now_us();
        let request = journal::Request {
            connection: self.open.id,
            start_us,
            end_us: start_us,
            virtual_s: now,
            local: self.open.local,
            tls: self.open.tls,
            http2: self.http2,
            method: same(&mut last.method, request.method().as_str()),
            host,
            path: request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            user_agent: text(headers, &header::USER_AGENT).map(|text| same(&mut last.user_agent, text)),
            accept_encoding: text(headers, &header::ACCEPT_ENCODING)
                .map(|text| same(&mut last.accept_encoding, text)),
            condition: condition.map(str::to_owned),
            status: 0,
            retry_after: None,
            bytes: 0,
            is_complete: false,
        };
        Some(Note { request, open: self.open.clone() })
    }
}

/// The string of the last request if the text is the same, otherwise a new one.
fn same(last: &mut Option<Arc<str>>, text: &str) -> Arc<str> {
    match last {
        Some(last) if **last == *text => last.clone(),
        _ => last.insert(text.into()).clone(),
    }
}

/// `:authority` or `Host`.
fn authority(request: &Request<Incoming>) -> Option<&str> {
    match request.uri().authority() {
        Some(authority) => Some(authority.as_str()),
        None => text(request.headers(), &header::HOST),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

fn value(text: String) -> HeaderValue {
    HeaderValue::from_maybe_shared(Bytes::from(text)).expect("we write printable ASCII only")
}

/// Whether the client has this version already. `If-None-Match` wins over `If-Modified-Since` (RFC 9110, 13.1.3).
fn is_unchanged(headers: &HeaderMap, tag: &str, modified: u64) -> bool {
    if let Some(tags) = text(headers, &header::IF_NONE_MATCH) {
        return tags.split(',').any(|known| {
            let known = known.trim();
            known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
        });
    }
    text(headers, &header::IF_MODIFIED_SINCE).and_then(parse_http_date).is_some_and(|since| modified <= since)
}
