//! A stream for programs of others: what happened in the partitions, as text that any NATS client reads.
//!
//! Subject `neph.CLUSTER.events.PARTITION` in stream `NEPH_CLUSTER_EVENTS`. A message has lines, and an id under which it is
//! stored once however often it is published within the window. Unlike all other streams this one drops what is oldest when
//! it is full: nobody who crawls waits for anybody who reads.
//!
//! What always holds: a message that [`JetEvents::publish`] returned for is durable; messages of one partition come in the
//! order in which its owner published them.

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

/// The stream, among those of the cluster.
const STREAM: &str = "EVENTS";
/// How long the stream's end is asked for.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// How long reading is tried.
const READ_PATIENCE: Duration = Duration::from_secs(10);
/// How often it is looked whether the stream is still there, however many ask for it.
const ENSURE_EVERY: Duration = Duration::from_secs(10);

/// The events of a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JetEvents {
    inner: Arc<Inner>,
    /// The stream as it should be.
    config: Arc<Config>,
    /// When it was last seen to it that there is one; held meanwhile.
    ensured: Arc<Mutex<Option<Instant>>>,
}

/// Reads the events of all partitions, in the order of the stream.
#[derive(Debug)]
pub struct EventReader(Reader);

impl Engine {
    /// The events of this cluster, in a stream that holds at most so many bytes. Nobody is asked: [`JetEvents::ensure`]
    /// makes it.
    pub fn events(&self, bytes_max: u64) -> JetEvents {
        let place = self.0.events_place(None);
        let config = self.0.configs().pop().expect("a cluster has streams");
        let config = Config {
            name: place.stream_name,
            subjects: vec![place.subject],
            // Whoever reads too slowly is told what it missed.
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
    /// Makes the stream if there is none, or checks the one that is there. While somebody else does, and shortly after, it is
    /// taken for done: whoever could not publish tries again anyway.
    pub async fn ensure(&self) -> Result<(), Error> {
        let Ok(mut ensured) = self.ensured.try_lock() else { return Ok(()) };
        if ensured.is_some_and(|at| at.elapsed() < ENSURE_EVERY) {
            return Ok(());
        }
        let made = self.inner.ensure(&self.config).await;
        *ensured = Some(Instant::now());
        made
    }

    /// The longest message.
    pub fn bytes_max(&self) -> usize {
        self.inner.link.client.max_payload().saturating_sub(super::message::HEADER_BYTES_MAX)
    }

    /// Publishes lines of a partition; tries for this long.
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

    /// The position of the last message of all; 0 if there was never one.
    pub async fn end(&self) -> Result<u64, Error> {
        let place = self.inner.events_place(None);
        let info = || async {
            let stream = self.inner.link.answer(self.inner.context.get_stream(&place.stream_name)).await?;
            Ok(stream.map_err(|error| error.to_string())?.cached_info().state.last_sequence)
        };
        self.inner.patiently("looking at the events", END_PATIENCE, info).await
    }

    /// Reads behind a position; 0 is the beginning.
    pub fn reader(&self, behind: u64) -> EventReader {
        EventReader(Reader::new(self.inner.events_place(None), behind.saturating_add(1)))
    }
}

impl EventReader {
    /// The position behind which it reads on.
    pub fn position(&self) -> u64 {
        self.0.next().saturating_sub(1)
    }

    /// Up to so many messages with their positions. If there are none it waits this long for the first.
    pub async fn take(&mut self, max: usize, wait: Duration) -> Result<Vec<(u64, Bytes)>, Error> {
        // A first try may find that the server has dropped what it kept for us.
        let taken = self.0.take_patiently(max, wait, READ_PATIENCE).await?;
        let position = |message: &async_nats::jetstream::Message| {
            message.info().map(|info| info.stream_sequence).map_err(|error| Error::Damaged(error.to_string()))
        };
        taken.into_iter().map(|message| Ok((position(&message)?, message.payload.clone()))).collect()
    }
}
