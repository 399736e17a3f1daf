//! Reads a subject in order, from a position on, in batches that are asked for.
//!
//! The server keeps a short-lived consumer without acknowledgements for us. Its deliveries are numbered; if a number is
//! missing, or the connection was lost and with it perhaps a delivery, the consumer is made anew behind the last message
//! that came.
//!
//! What always holds: messages come in the order of the stream, each once; nothing is skipped that is there.

use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::pull::{Batch, Config};
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, ReplayPolicy};
use futures_util::StreamExt;
use tokio::time::{Instant, sleep};

use super::write::Place;
use super::{ASK_WAIT, Backoff};
use crate::Error;

/// A consumer that nobody asks for this long is removed by the server.
const CONSUMER_IDLE_MAX: Duration = Duration::from_secs(30);
/// A reader that rested this long makes its consumer anew, before it finds that the server has removed it.
const REST_MAX: Duration = Duration::from_secs(20);

/// A reader of one subject.
#[derive(Debug)]
pub(super) struct Reader {
    place: Place,
    /// The position of the stream from which the next message comes.
    next: u64,
    consumer: Option<Consumer<Config>>,
    /// How often the connection had been lost when the consumer was made.
    losses: u64,
    /// The number of the last delivery of this consumer.
    delivered: u64,
    /// Messages behind the last one that came, as the server counted them then.
    pending: u64,
    /// When it was last asked.
    asked: Instant,
}

impl Reader {
    /// Reads from this position on.
    pub(super) fn new(place: Place, from: u64) -> Self {
        let (next, asked) = (from.max(1), Instant::now());
        Reader { place, next, consumer: None, losses: 0, delivered: 0, pending: u64::MAX, asked }
    }

    /// From which position the next message comes.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Is the next message the first behind this position?
    pub(super) fn is_behind(&self, position: u64) -> bool {
        self.next == position.saturating_add(1)
    }

    /// Up to so many messages. If there are none it waits this long for the first. Failing that, what went wrong.
    pub(super) async fn take(&mut self, max: usize, wait: Duration) -> Result<Vec<Message>, String> {
        let mut taken = Vec::new();
        if self.losses != self.place.link.losses() || self.asked.elapsed() >= REST_MAX {
            self.consumer = None;
        }
        let ended = self.fill(&mut taken, max, wait).await;
        self.asked = Instant::now();
        // A consumer that failed is made anew, behind what has come in order.
        if ended.is_err() {
            self.consumer = None;
        }
        if taken.is_empty() { ended.map(|()| taken) } else { Ok(taken) }
    }

    /// The same, tried again for this long if it fails.
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
            // Nothing was there when we looked: wait for one, then take the others without waiting.
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
                // The count was of messages that are gone. From now on it is waited for.
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

/// Makes a consumer that nobody acknowledges.
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
