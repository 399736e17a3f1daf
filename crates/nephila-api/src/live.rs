//! `GET /api/v1/live`: the status each second and lines of the crawl log, as server-sent events.
//!
//! | event | data |
//! |---|---|
//! | `status` | the answer of `GET /api/v1/status`, each second |
//! | `log` | a line of the crawl log |
//! | `dropped` | `{"lines": 12}`: so many lines of the log were left out, because the client or the log was too fast |
//! | `problem` | `{"detail": "…"}`: there is no status right now |
//!
//! Invariants: what a follower has not read is bounded by the log's channel
//! and one piece; a stream ends with its connection (`http`), and clients come back after [`RETRY`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http::header::{self, HeaderValue};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Interval, MissedTickBehavior};

use super::content::Content;
use super::hub::{Hub, Item, STEP};
use super::operation::{Kind, Operation, get, query};
use super::problem::{HttpAnswer, problem};
use super::question::HttpQuestion;
use super::routes::{Route, route};

/// How long a client waits before it begins a new stream.
const RETRY: Duration = Duration::from_secs(2);
/// Time without an event after which a comment is sent, so that a client that has gone is noticed.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Maximum number of lines of the log in one piece.
const LINES_AT_ONCE: usize = 100;
/// The topics.
const TOPICS: [&str; 2] = ["status", "log"];

/// `GET /api/v1/live`.
pub static LIVE: Operation = get(
    "followLive",
    "/api/v1/live",
    "The status each second and lines of the crawl log, as server-sent events.",
)
.with(&[query("topics", Kind::Words(&TOPICS), "Without it `status`.")])
.gives_text(&["text/event-stream"]);

/// The operation of a server of any kind.
pub fn routes<H: Sync>() -> [Route<H>; 1] {
    [route(&LIVE, |_, asked| Box::pin(async move { answer(&asked) }))]
}

/// A follower.
struct Follower {
    hub: Arc<Hub>,
    steps: Option<Interval>,
    log: Option<Receiver<Item>>,
    is_new: bool,
}

impl Follower {
    /// The next piece.
    async fn next(&mut self) -> Bytes {
        if std::mem::take(&mut self.is_new) {
            return format!("retry: {}\n\n", RETRY.as_millis()).into();
        }
        let Follower { hub, steps, log, .. } = self;
        let step = async {
            match steps {
                Some(steps) => _ = steps.tick().await,
                None => std::future::pending().await,
            }
        };
        let line = async {
            match log.as_mut() {
                Some(log) => log.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = step => hub.status().await,
            line = line => self.lines(line),
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b":\n\n"),
        }
    }

    /// This part of the log, and those behind it that are there already.
    fn lines(&mut self, first: Result<Item, RecvError>) -> Bytes {
        let mut piece = String::new();
        let mut put = |item: Result<Item, TryRecvError>| {
            match item {
                Ok(Item::Line(line)) => piece.push_str(&format!("event: log\ndata: {line}\n\n")),
                Ok(Item::Dropped(lines)) | Err(TryRecvError::Lagged(lines)) => {
                    piece.push_str(&format!("event: dropped\ndata: {{\"lines\":{lines}}}\n\n"));
                }
                Err(_) => return false,
            }
            true
        };
        put(first.map_err(|error| match error {
            RecvError::Lagged(lines) => TryRecvError::Lagged(lines),
            RecvError::Closed => TryRecvError::Closed,
        }));
        for _ in 1..LINES_AT_ONCE {
            let Some(log) = &mut self.log else { break };
            if !put(log.try_recv()) {
                break;
            }
        }
        if piece.is_empty() {
            // The log has ended; the comment keeps the stream alive.
            self.log = None;
            return Bytes::from_static(b":\n\n");
        }
        piece.into()
    }
}

fn answer(asked: &HttpQuestion) -> HttpAnswer {
    let Some(hub) = asked.hub.clone() else {
        let detail = "nothing changes here: ask for single answers";
        return problem(StatusCode::NOT_FOUND, "there is nothing to follow", detail);
    };
    let topics = asked.parameter("topics").filter(|topics| !topics.is_empty());
    let topics: Vec<&str> = topics.as_deref().unwrap_or(TOPICS[0]).split(',').collect();
    if let Some(unknown) = topics.iter().find(|topic| !TOPICS.contains(topic)) {
        let detail = format!("{unknown:?}: the topics are {}", TOPICS.join(" and "));
        return problem(StatusCode::BAD_REQUEST, "invalid parameter topics", detail);
    }
    let log = topics.contains(&"log").then(|| hub.log());
    if matches!(log, Some(None)) {
        let detail = "this server writes no crawl log: ask for the topic status";
        return problem(StatusCode::NOT_FOUND, "there is no log here", detail);
    }
    let steps = topics.contains(&"status").then(|| {
        let mut steps = tokio::time::interval(STEP);
        steps.set_missed_tick_behavior(MissedTickBehavior::Skip);
        steps
    });
    let follower = Follower { hub, steps, log: log.flatten(), is_new: true };
    let pieces = stream::unfold(follower, |mut follower| async move {
        let piece = follower.next().await;
        Some((piece, follower))
    });
    let mut answer = HttpAnswer::new(Content::pieces(pieces));
    let fields = answer.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

#[cfg(test)]
mod tests;
