//! Reads a subject in order from a position on, in requested batches.
//!
//! The server keeps a short-lived consumer without acknowledgements for the reader. Its deliveries are numbered. If a
//! number is missing, or the connection was lost and with it perhaps a delivery, the reader creates a new consumer
//! after the last message received.
//!
//! Invariants: messages come in stream order, each once; no existing message is skipped.

use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::{Batch, Config};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, ReplayPolicy};
use futures_util::StreamExt;
use tokio::time::{Instant, sleep};

use super::write::Place;
use super::{ASK_WAIT, Backoff};
use crate::Error;

/// Idle time after which the server removes a consumer.
const CONSUMER_IDLE_MAX: Duration = Duration::from_secs(30);
/// Idle time after which a reader creates a new consumer, before the server removes the old one.
const REST_MAX: Duration = Duration::from_secs(20);

/// A reader of one subject.
#[derive(Debug)]
pub(super) struct Reader {
    place: Place,
    /// First stream position of the next message.
    next: u64,
    consumer: Option<Consumer<Config>>,
    /// Number of lost connections when the consumer was created.
    losses: u64,
    /// Number of the last delivery of this consumer.
    delivered: u64,
    /// Messages after the last one received, as counted by the server at that time.
    pending: u64,
    /// Time of the last request.
    asked: Instant,
}

impl Reader {
    /// Reads from this position on.
    pub(super) fn new(place: Place, from: u64) -> Self {
        let (next, asked) = (from.max(1), Instant::now());
        Reader { place, next, consumer: None, losses: 0, delivered: 0, pending: u64::MAX, asked }
    }

    /// First stream position of the next message.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether the next message is the first after this position.
    pub(super) fn is_behind(&self, position: u64) -> bool {
        self.next == position.saturating_add(1)
    }

    /// Returns up to `max` messages. Without a message the call waits up to `wait` for the first. An error is a text.
    pub(super) async fn take(&mut self, max: usize, wait: Duration) -> Result<Vec<Message>, String> {
        let mut taken = Vec::new();
        if self.losses != self.place.link.losses() || self.asked.elapsed() >= REST_MAX {
            self.consumer = None;
        }
        let ended = self.fill(&mut taken, max, wait).await;
        self.asked = Instant::now();
        // Replace a failed consumer by a new one after the messages received in order.
        if ended.is_err() {
            self.consumer = None;
        }
        if taken.is_empty() { ended.map(|()| taken) } else { Ok(taken) }
    }

    /// Like [`Reader::take`], with retries until `patience` has passed.
    pub(super) async fn take_patiently(
        &mut self,
        max: usize,
        wait: Duration,
        patience: Duration,
    ) -> Result<Vec<Message>, Error> {
        let end = Instant::now() + patience;
        let mut backoff = Backoff::new();
        loop {
            match self.take(max, wait).await {
                Ok(taken) => return Ok(taken),
                Err(why) if Instant::now() >= end => {
                    return Err(Error::Unavailable { what: "reading", waited: patience, why });
                }
                Err(_) => sleep(backoff.next()).await,
            }
        }
    }

    async fn fill(&mut self, taken: &mut Vec<Message>, max: usize, wait: Duration) -> Result<(), String> {
        if self.consumer.is_none() {
            self.losses = self.place.link.losses();
            let made =
                consume(&self.place, DeliverPolicy::ByStartSequence { start_sequence: self.next }).await?;
            (self.delivered, self.pending) = (0, made.cached_info().num_pending);
            self.consumer = Some(made);
        }
        let consumer = self.consumer.clone().expect("made above");
        if self.pending == 0 && !wait.is_zero() {
            // No message was pending: wait for one, then take the others without waiting.
            let asked = consumer.batch().max_messages(1).expires(wait).messages();
            let batch = self.place.link.answer(asked).await?;
            self.collect(batch.map_err(|error| error.to_string())?, wait + ASK_WAIT, taken).await?;
            if taken.is_empty() || self.pending == 0 || max == 1 {
                return Ok(());
            }
        }
        let asked = consumer.fetch().max_messages(max - taken.len()).messages();
        let batch = self.place.link.answer(asked).await?;
        self.collect(batch.map_err(|error| error.to_string())?, ASK_WAIT, taken).await?;
        if taken.is_empty() {
            if !wait.is_zero() && self.pending != 0 {
                // The count was of messages that are gone. Wait from now on.
                self.pending = 0;
                return Box::pin(self.fill(taken, max, wait)).await;
            }
            self.pending = 0;
        }
        Ok(())
    }

    async fn collect(
        &mut self,
        mut batch: Batch,
        each: Duration,
        taken: &mut Vec<Message>,
    ) -> Result<(), String> {
        loop {
            let message = match self.place.link.answer_within(each, batch.next()).await? {
                None => return Ok(()),
                Some(Err(error)) => return Err(error.to_string()),
                Some(Ok(message)) => message,
            };
            let (delivery, sequence, pending) = {
                let info = message.info().map_err(|error| error.to_string())?;
                (info.consumer_sequence, info.stream_sequence, info.pending)
            };
            if delivery != self.delivered + 1 || sequence < self.next {
                return Err(format!("delivery {delivery} came after {}", self.delivered));
            }
            (self.delivered, self.next, self.pending) = (delivery, sequence + 1, pending);
            taken.push(message);
        }
    }
}

/// Creates a consumer without acknowledgements.
pub(super) async fn consume(
    place: &Place,
    deliver_policy: DeliverPolicy,
) -> Result<Consumer<Config>, String> {
    let config = Config {
        deliver_policy,
        ack_policy: AckPolicy::None,
        replay_policy: ReplayPolicy::Instant,
        filter_subject: place.subject.clone(),
        inactive_threshold: CONSUMER_IDLE_MAX,
        num_replicas: 1,
        memory_storage: true,
        ..Config::default()
    };
    let made = place.link.answer(place.stream.create_consumer(config)).await?;
    made.map_err(|error| error.to_string())
}
