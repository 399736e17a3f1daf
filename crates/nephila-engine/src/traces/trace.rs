//! The trace of one ticket while the ticket is carried through the crawl.
//!
//! The stages follow each other: [`Trace::enter`] ends one and begins the next. A trace ends when dropped, so a ticket that
//! is aborted, or whose task panics, has a trace too.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nephila_core::frontier::ticket::{Purpose, Ticket};
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Class;
use nephila_core::time::Timestamp;
use nephila_core::trace::TraceId;
use nephila_core::trace::span::{Kind, Spans, Value};
use nephila_core::url::CrawlUrl;
use nephila_spider::{Fetched, Timings};

use super::Running;

/// The number of the root.
const ROOT: usize = 0;

/// The trace of a ticket; empty if the ticket is not sampled.
#[derive(Debug)]
pub(crate) struct Trace(Option<Box<Recorder>>);

#[derive(Debug)]
struct Recorder {
    running: Arc<Running>,
    spans: Spans,
    /// Both clocks at the begin: all other times follow from the monotonic one.
    began: (Instant, u64),
    /// The open stage.
    stage: Option<usize>,
    url: String,
    outcome: Option<(Outcome, Option<u16>)>,
}

impl Trace {
    /// The trace of a ticket that is not sampled.
    pub(super) fn none() -> Trace {
        Trace(None)
    }

    /// Begins a trace.
    pub(super) fn begin(running: Arc<Running>, id: TraceId, ticket: &Ticket, job: Option<String>) -> Trace {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began = (Instant::now(), nanos(wall));
        let mut spans = Spans::new(id, "ticket", began.1);
        let purpose = match ticket.purpose {
            Purpose::Page => "page",
            Purpose::Robots => "robots",
        };
        for (name, value) in [
            ("nephila.fetch", Value::number(ticket.id.0)),
            ("nephila.purpose", Value::Word(purpose)),
            ("nephila.depth", Value::number(ticket.depth.into())),
            ("nephila.retries", Value::number(ticket.retries.into())),
        ] {
            spans.set(ROOT, name, value);
        }
        if let Some(job) = job {
            spans.set(ROOT, "nephila.job", Value::text(&job));
        }
        let url = match CrawlUrl::parse(&ticket.url) {
            Ok(url) => {
                describe(&mut spans, ROOT, &url);
                url.as_str().to_owned()
            }
            // The text may hold anything, also a password.
            Err(_) => String::new(),
        };
        Trace(Some(Box::new(Recorder { running, spans, began, stage: None, url, outcome: None })))
    }

    /// Begins the next stage; the stage before ends.
    pub(crate) fn enter(&mut self, stage: &'static str) {
        let Some(recorder) = &mut self.0 else { return };
        let now = recorder.at(Instant::now());
        if let Some(last) = recorder.stage {
            recorder.spans.end(last, now);
        }
        recorder.stage = recorder.spans.add(ROOT, stage, Kind::Internal, now, now);
    }

    /// A request has ended just now that began at `since`; `at` is its time in the log.
    pub(crate) fn requested(
        &mut self,
        method: &'static str,
        since: Instant,
        at: Timestamp,
        fetched: &Fetched,
    ) {
        if let Some(recorder) = &mut self.0 {
            recorder.requested(method, since, at, fetched);
        }
    }

    /// The result of the ticket.
    pub(crate) fn ended(&mut self, outcome: Outcome, status: Option<u16>) {
        if let Some(recorder) = &mut self.0 {
            recorder.outcome = Some((outcome, status));
        }
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        if let Some(recorder) = self.0.take() {
            recorder.finish();
        }
    }
}

impl Recorder {
    /// A moment in nanoseconds since 1970.
    fn at(&self, moment: Instant) -> u64 {
        self.began.1.saturating_add(nanos(moment.saturating_duration_since(self.began.0)))
    }

    fn requested(&mut self, method: &'static str, since: Instant, at: Timestamp, fetched: &Fetched) {
        let now = Instant::now();
        let (from, to) = (self.at(since), self.at(now));
        let parent = self.stage.unwrap_or(ROOT);
        let Some(span) = self.spans.add(parent, method, Kind::Client, from, to) else { return };
        if let Ok(url) = CrawlUrl::parse(&self.url) {
            describe(&mut self.spans, span, &url);
        }
        let spans = &mut self.spans;
        spans.set(span, "http.request.method", Value::Word(method));
        spans.set(span, "nephila.at", Value::number(at.0));
        spans.set(span, "nephila.outcome", Value::Word(fetched.outcome.name()));
        spans.set(span, "nephila.connection.reused", Value::Flag(fetched.reused));
        if let Some(status) = fetched.status {
            spans.set(span, "http.response.status_code", Value::Number(status.into()));
            spans.set(span, "http.response.body.size", Value::number(fetched.body_bytes));
        }
        if let Some(address) = fetched.address {
            spans.set(span, "network.peer.address", Value::text(&address.ip().to_string()));
            spans.set(span, "network.peer.port", Value::Number(address.port().into()));
        }
        if let Some(version) = fetched.protocol.map(|protocol| match protocol {
            "h2" => "2",
            other => other.trim_start_matches("http/"),
        }) {
            spans.set(span, "network.protocol.name", Value::Word("http"));
            spans.set(span, "network.protocol.version", Value::Word(version));
        }
        if let Some(tls) = &fetched.tls {
            let version = tls.version.trim_start_matches("tls/");
            spans.set(span, "tls.protocol.version", Value::Word(version));
        }
        // By the conventions, a client takes every status from 400 for an error.
        match fetched.status {
            Some(status @ 400..) => {
                spans.fail(span, Value::Text(status.to_string()), cause(fetched));
            }
            _ if matches!(fetched.outcome.class(), Class::Retry | Class::Broken) => {
                spans.fail(span, Value::Word(fetched.outcome.name()), cause(fetched));
            }
            _ => {}
        }
        // The fetch ended a moment ago, and its times are counted from its begin.
        let begin = self.at(now.checked_sub(fetched.timings.total).unwrap_or(since).max(since));
        for (name, from, to) in phases(&fetched.timings).into_iter().flatten() {
            let (from, to) = (begin.saturating_add(nanos(from)), begin.saturating_add(nanos(to)));
            self.spans.add(span, name, Kind::Internal, from, to.min(self.at(now)));
        }
    }

    fn finish(mut self) {
        let now = self.at(Instant::now());
        if let Some(stage) = self.stage {
            self.spans.end(stage, now);
        }
        self.spans.end(ROOT, now);
        let (outcome, status) = match self.outcome {
            Some(ended) => ended,
            None if std::thread::panicking() => (Outcome::Crashed, None),
            None => (Outcome::Cancelled, None),
        };
        self.spans.set(ROOT, "nephila.outcome", Value::Word(outcome.name()));
        if let Some(status) = status {
            self.spans.set(ROOT, "http.response.status_code", Value::Number(status.into()));
        }
        if matches!(outcome.class(), Class::Retry | Class::Broken) {
            self.spans.fail(ROOT, Value::Word(outcome.name()), outcome.meaning().trim());
        }
        let Recorder { running, spans, .. } = self;
        running.give(spans);
    }
}

/// The attributes of a URL, which has no user information.
fn describe(spans: &mut Spans, span: usize, url: &CrawlUrl) {
    spans.set(span, "url.full", Value::url(url.as_str()));
    spans.set(span, "server.address", Value::text(url.host_str().trim_matches(['[', ']'])));
    spans.set(span, "server.port", Value::Number(url.port().into()));
}

/// The cause of a failure, for people.
fn cause(fetched: &Fetched) -> &str {
    match fetched.detail.is_empty() {
        true => fetched.outcome.meaning().trim(),
        false => &fetched.detail,
    }
}

/// The phases of a request with begin and end, counted from the begin of the fetch. A phase that did not end ends with the
/// fetch.
fn phases(timings: &Timings) -> [Option<(&'static str, Duration, Duration)>; 7] {
    let Timings { resolve, connect, tls, body, total, starts, .. } = *timings;
    let of = |name, start: Option<Duration>, took: Option<Duration>| {
        start.map(|start| (name, start, took.map_or(total, |took| start + took)))
    };
    let until = |name, start: Option<Duration>, end: Option<Duration>| {
        start.map(|start| (name, start, end.unwrap_or(total)))
    };
    // HTTP/2 does not say when the request was written, nor when its first byte came.
    let send = starts.written.and_then(|written| until("send", starts.request, Some(written)));
    let wait = until("wait", starts.written.or(starts.request), starts.first_byte.or(starts.head_end));
    [
        of("dns", starts.resolve, resolve),
        of("connect", starts.connect, connect),
        of("tls", starts.tls, tls),
        send,
        wait,
        until("head", starts.first_byte, starts.head_end),
        of("body", starts.body, body),
    ]
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
