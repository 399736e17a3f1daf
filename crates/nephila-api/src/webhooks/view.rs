//! What is known about a webhook, for status, metrics and alarms.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use nephila_core::time::{Now, Timestamp};
use nephila_core::webhook::Sender;
use nephila_core::webhook::sender::ALARM_AFTER;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counters of a webhook, since the process began.
#[derive(Debug, Default)]
pub struct Seen {
    name: String,
    /// Deliveries that were accepted.
    pub(super) accepted: AtomicU64,
    /// Deliveries that were answered with another status.
    pub(super) refused: AtomicU64,
    /// Deliveries without an answer.
    pub(super) unanswered: AtomicU64,
    /// Events in accepted deliveries.
    pub(super) events: AtomicU64,
    /// Time of the oldest event that was read and not accepted, in milliseconds since 1970; 0 if there is none.
    pub(super) oldest: AtomicU64,
    /// Since when every attempt failed, in milliseconds since 1970; 0 after a success.
    failing_since: AtomicU64,
    is_gone: AtomicBool,
    error: Mutex<String>,
}

/// A webhook in the status.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct WebhookSaid {
    /// Name of the webhook.
    pub name: String,
    /// `delivering`, `failing`, or `gone` after the answer 410.
    pub state: String,
    /// Events that were accepted.
    pub events: u64,
    /// Deliveries that were accepted.
    pub deliveries: u64,
    /// Deliveries that were not accepted, and were sent again.
    pub failures: u64,
    /// Age of the oldest event that was read and is not accepted.
    pub lag_s: u64,
    /// Since when every attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<String>,
    /// The last failure, if deliveries fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl Seen {
    pub(super) fn new(name: &str) -> Seen {
        Seen { name: name.to_owned(), ..Seen::default() }
    }

    /// The name of the webhook.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes over the state of the sender.
    pub(super) fn note(&self, sender: &Sender, now: Now) {
        let ago = |since: u64| now.wall.0.saturating_sub(now.mono.saturating_sub(since)).max(1);
        self.failing_since.store(sender.failing_since().map_or(0, ago), Relaxed);
        self.is_gone.store(sender.is_gone(), Relaxed);
    }

    pub(super) fn set_error(&self, error: &str) {
        error.clone_into(&mut self.error.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Deliveries by result.
    pub fn deliveries(&self) -> [(&'static str, u64); 3] {
        let all =
            [("accepted", &self.accepted), ("refused", &self.refused), ("unanswered", &self.unanswered)];
        all.map(|(result, count)| (result, count.load(Relaxed)))
    }

    /// Number of events that were accepted.
    pub fn events(&self) -> u64 {
        self.events.load(Relaxed)
    }

    /// Whether the receiver said that the URL is gone.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Relaxed)
    }

    /// Age of the oldest event that was read and is not accepted, in seconds.
    pub fn lag_s(&self, now: Timestamp) -> u64 {
        seconds_since(self.oldest.load(Relaxed), now)
    }

    /// Seconds for which every attempt failed.
    pub fn failing_s(&self, now: Timestamp) -> u64 {
        seconds_since(self.failing_since.load(Relaxed), now)
    }

    /// What is wrong, if deliveries have failed for long.
    pub fn trouble(&self, now: Timestamp) -> Option<String> {
        let (name, failing_s) = (&self.name, self.failing_s(now));
        if self.is_gone() {
            return Some(format!(
                "webhook {name}: the receiver said that its URL is gone (410); nothing is sent"
            ));
        }
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        (failing_s >= ALARM_AFTER.as_secs()).then(|| {
            let (minutes, lag) = (failing_s / 60, self.lag_s(now) / 60);
            format!("webhook {name} has failed for {minutes} min ({error}); it is {lag} min behind")
        })
    }

    /// The row of the status.
    pub fn said(&self, now: Timestamp) -> WebhookSaid {
        let [(_, deliveries), (_, refused), (_, unanswered)] = self.deliveries();
        let failing_since = self.failing_since.load(Relaxed);
        let is_failing = failing_since > 0;
        let state = match (self.is_gone(), is_failing) {
            (true, _) => "gone",
            (false, true) => "failing",
            (false, false) => "delivering",
        };
        let error = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        WebhookSaid {
            name: self.name.clone(),
            state: state.to_owned(),
            events: self.events(),
            deliveries,
            failures: refused + unanswered,
            lag_s: self.lag_s(now),
            failing_since: is_failing.then(|| Timestamp(failing_since).warc_date()),
            error: is_failing.then(|| error.clone()),
        }
    }
}

fn seconds_since(since: u64, now: Timestamp) -> u64 {
    if since == 0 { 0 } else { now.0.saturating_sub(since) / 1_000 }
}
