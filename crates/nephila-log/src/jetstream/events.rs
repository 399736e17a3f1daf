//! The event stream for external programs: events of the partitions as text that any NATS client can read.
//!
//! Subject `neph.CLUSTER.events.PARTITION` in stream `NEPH_CLUSTER_EVENTS`. A message has lines and an id. The server
//! stores an id once, however often the message is published within the deduplication window. Unlike all other streams
//! this one drops its oldest messages when full: a slow reader exerts no backpressure on the crawl.
//!
//! Invariants: a message is durable once [`JetEvents::publish`] has returned successfully; messages of one partition
//! come in the order in which its owner published them.

use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, DiscardPolicy};
use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::reader::Reader;
use super::write::Place;
use super::{Backoff, Engine, Inner};
use crate::Error;

/// Name of the stream within the cluster.
const STREAM: &str = "EVENTS";
/// Retry deadline for reading the end position.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// Retry deadline of a read.
const READ_PATIENCE: Duration = Duration::from_secs(10);
/// Minimum interval between two checks that the stream exists, for any number of callers.
const ENSURE_EVERY: Duration = Duration::from_secs(10);

/// The events of a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JetEvents {
    inner: Arc<Inner>,
    /// The wanted configuration of the stream.
    config: Arc<Config>,
    /// Time of the last check that the stream exists. Locked during the check.
    ensured: Arc<Mutex<Option<Instant>>>,
}

/// Reads the events of all partitions, in the order of the stream.
#[derive(Debug)]
pub struct EventReader(Reader);

impl Engine {
    /// The events of this cluster, in a stream of at most `bytes_max` bytes. Makes no request: [`JetEvents::ensure`]
    /// creates the stream.
    pub fn events(&self, bytes_max: u64) -> JetEvents {
        let place = self.0.events_place(None);
        let config = self.0.configs().pop().expect("a cluster has streams");
        let config = Config {
            name: place.stream_name,
            subjects: vec![place.subject],
            // A slow reader is told which messages it missed.
            discard: DiscardPolicy::Old,
            max_messages_per_subject: -1,
            max_bytes: i64::try_from(bytes_max).unwrap_or(i64::MAX),
            max_age: Duration::ZERO,
            duplicate_window: self.0.settings.dedup_window,
            ..config
        };
        JetEvents { inner: self.0.clone(), config: Arc::new(config), ensured: Arc::default() }
    }
}

impl Inner {
    /// The subject of a partition's events, or of all of them.
    fn events_place(&self, partition: Option<u32>) -> Place {
        let cluster = &self.settings.cluster;
        let last = partition.map_or_else(|| ">".to_owned(), |partition| partition.to_string());
        self.place(format!("NEPH_{cluster}_{STREAM}"), format!("neph.{cluster}.events.{last}"))
    }
}

impl JetEvents {
    /// Creates the stream, or checks the existing stream. Returns at once while another task does the same, and for a
    /// short time after: a caller whose publish failed retries anyway.
    pub async fn ensure(&self) -> Result<(), Error> {
        let Ok(mut ensured) = self.ensured.try_lock() else { return Ok(()) };
        if ensured.is_some_and(|at| at.elapsed() < ENSURE_EVERY) {
            return Ok(());
        }
        let made = self.inner.ensure(&self.config).await;
        *ensured = Some(Instant::now());
        made
    }

    /// Maximum size of a message in bytes.
    pub fn bytes_max(&self) -> usize {
        self.inner.link.client.max_payload().saturating_sub(super::message::HEADER_BYTES_MAX)
    }

    /// Publishes lines of a partition, with retries until `patience` has passed.
    pub async fn publish(
        &self,
        partition: u32,
        id: &str,
        lines: Bytes,
        patience: Duration,
    ) -> Result<(), Error> {
        let place = self.inner.events_place(Some(partition));
        let end = Instant::now() + patience;
        let mut backoff = Backoff::new();
        loop {
            let mut headers = HeaderMap::new();
            headers.insert(NATS_MESSAGE_ID, id);
            let message = PublishMessage::build().payload(lines.clone()).headers(headers);
            let publish = async {
                match self.inner.context.send_publish(place.subject.clone(), message).await {
                    Ok(ack) => ack.await,
                    Err(error) => Err(error),
                }
            };
            let why = match self.inner.link.answer(publish).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => error.to_string(),
                Err(why) => why,
            };
            if Instant::now() >= end {
                return Err(Error::Unavailable { what: "publishing events", waited: patience, why });
            }
            sleep(backoff.next()).await;
        }
    }

    /// The position of the last message of the stream; 0 if there was never a message.
    pub async fn end(&self) -> Result<u64, Error> {
        let place = self.inner.events_place(None);
        let info = || async {
            let stream = self.inner.link.answer(self.inner.context.get_stream(&place.stream_name)).await?;
            Ok(stream.map_err(|error| error.to_string())?.cached_info().state.last_sequence)
        };
        self.inner.patiently("looking at the events", END_PATIENCE, info).await
    }

    /// Reads after a position; 0 is the beginning.
    pub fn reader(&self, behind: u64) -> EventReader {
        EventReader(Reader::new(self.inner.events_place(None), behind.saturating_add(1)))
    }
}

impl EventReader {
    /// The position after which the next read continues.
    pub fn position(&self) -> u64 {
        self.0.next().saturating_sub(1)
    }

    /// Returns up to `max` messages with their positions. Without a message the call waits up to `wait` for the first.
    pub async fn take(&mut self, max: usize, wait: Duration) -> Result<Vec<(u64, Bytes)>, Error> {
        // The first attempt may fail because the server has dropped the consumer.
        let taken = self.0.take_patiently(max, wait, READ_PATIENCE).await?;
        let position = |message: &async_nats::jetstream::Message| {
            message.info().map(|info| info.stream_sequence).map_err(|error| Error::Damaged(error.to_string()))
        };
        taken.into_iter().map(|message| Ok((position(&message)?, message.payload.clone()))).collect()
    }
}
