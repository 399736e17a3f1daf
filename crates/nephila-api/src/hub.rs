//! What clients can follow, and the status that all followers of a listener share: 200 open pages ask the crawl as often
//! as one.
//!
//! Invariant: nothing is computed while nobody follows.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio::time::Instant;

/// Time between two statuses.
pub(super) const STEP: Duration = Duration::from_secs(1);
/// Time between two looks at the log.
const LOOK: Duration = Duration::from_millis(250);
/// Maximum number of lines of the log that a look gives; older ones are counted.
const LINES_AT_ONCE: usize = 500;
/// Maximum number of lines that a follower may be behind; older ones are counted.
const LINES_KEPT: usize = 2_048;
/// Timeout of a status.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);

/// A status that comes later, as JSON. The error says why there is none.
pub type LaterStatus<'a> = Pin<Box<dyn Future<Output = Result<serde_json::Value, String>> + Send + 'a>>;

/// What clients of a server can follow (`live`).
pub trait Live: Send + Sync + 'static {
    /// The answer of `GET /api/v1/status` at this moment.
    fn status(&self) -> LaterStatus<'_>;

    /// The lines of the crawl log from now on; none without a log.
    fn log(&self) -> Option<Box<dyn Lines>> {
        None
    }
}

/// The lines of a crawl log from a moment on.
pub trait Lines: Send + 'static {
    /// The newest lines since the last look, at most `max`, each as JSON; and the number of older ones that were left
    /// out. May read files: runs on a blocking thread.
    fn look(&mut self, max: usize) -> std::io::Result<(Vec<serde_json::Value>, u64)>;
}

/// A part of the log, as followers get it.
#[derive(Clone, Debug)]
pub(super) enum Item {
    /// A line, as an event.
    Line(Arc<str>),
    /// Lines that were left out.
    Dropped(u64),
}

/// The followers of a listener, and the status that they share.
pub(super) struct Hub {
    source: Arc<dyn Live>,
    began: Instant,
    /// The last status as an event, and the number of its moment.
    last: Mutex<Option<(u128, Bytes)>>,
    lines: Sender<Item>,
    /// Whether the log is being read for followers.
    pub(super) is_reading: std::sync::Mutex<bool>,
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

impl Hub {
    pub(super) fn new(source: Arc<dyn Live>) -> Hub {
        let (lines, _) = broadcast::channel(LINES_KEPT);
        let is_reading = std::sync::Mutex::new(false);
        Hub { source, began: Instant::now(), last: Mutex::new(None), lines, is_reading }
    }

    /// The status of this moment. The first follower that asks has it computed; the others wait for the same.
    pub(super) async fn status(&self) -> Bytes {
        let mut last = self.last.lock().await;
        let moment = self.began.elapsed().as_millis() / STEP.as_millis();
        if let Some((_, event)) = last.as_ref().filter(|(at, _)| *at == moment) {
            return event.clone();
        }
        let status = tokio::time::timeout(STATUS_TIMEOUT, self.source.status()).await;
        let event = match status.unwrap_or_else(|_| Err("the crawl does not answer in time".to_owned())) {
            Ok(status) => event("status", &status),
            Err(why) => event("problem", &serde_json::json!({"detail": why})),
        };
        *last = Some((moment, event.clone()));
        event
    }

    /// The lines of the log from now on; none without a log. The first follower begins the reading.
    pub(super) fn log(self: &Arc<Self>) -> Option<Receiver<Item>> {
        let mut is_reading = self.is_reading.lock().expect("nobody panics holding it");
        let followed = self.lines.subscribe();
        if !*is_reading {
            let lines = self.source.log()?;
            *is_reading = true;
            tokio::spawn(self.clone().read(lines));
        }
        Some(followed)
    }

    /// Reads the log for as long as somebody follows.
    async fn read(self: Arc<Self>, mut lines: Box<dyn Lines>) {
        loop {
            let look = move || {
                let found = lines.look(LINES_AT_ONCE);
                (lines, found)
            };
            let Ok((back, found)) = tokio::task::spawn_blocking(look).await else { break };
            lines = back;
            let (found, dropped) = found.unwrap_or_default();
            if dropped > 0 {
                _ = self.lines.send(Item::Dropped(dropped));
            }
            for line in found {
                _ = self.lines.send(Item::Line(line.to_string().into()));
            }
            tokio::time::sleep(LOOK).await;
            let mut is_reading = self.is_reading.lock().expect("nobody panics holding it");
            if self.lines.receiver_count() == 0 {
                *is_reading = false;
                return;
            }
        }
        *self.is_reading.lock().expect("nobody panics holding it") = false;
    }
}

/// An event. JSON has no line ends.
pub(super) fn event(name: &str, data: &serde_json::Value) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}
