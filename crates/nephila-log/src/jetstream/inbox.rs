//! Inboxes: a subject per partition with many writers and one reader, the owner.
//!
//! A message carries an id. The server stores an id once within the deduplication window, so a publish without an
//! answer is retried unchanged. Each partition has one cached reader, which continues at its position. A read from
//! another position creates a new reader.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::NATS_MESSAGE_ID;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::PublishMessage;
use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::message::HEADER_BYTES_MAX;
use super::reader::Reader;
use super::write::{is_full, refusal};
use super::{Backoff, Inner};
use crate::{Error, Inbox, Reply};

/// Retry deadline of a publish. Well within the deduplication window, so that a retry by the caller is still inside.
const PUBLISH_PATIENCE: Duration = Duration::from_secs(30);
/// Retry deadline of a read, in addition to the wait for a message.
const READ_PATIENCE: Duration = Duration::from_secs(20);
/// Retry deadline of a truncation.
const TRUNCATE_PATIENCE: Duration = Duration::from_secs(20);
/// Maximum messages per read.
const READ_MESSAGES_MAX: usize = 1_024;
/// Maximum cached readers. A node never owns more partitions than this.
const READERS_MAX: usize = 4_096;

/// The inboxes of all partitions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JetInbox {
    inner: Arc<Inner>,
    readers: Arc<Mutex<HashMap<u32, Arc<Mutex<Reader>>>>>,
    /// By partition, when the first message of its last read was left.
    left_at: Arc<std::sync::Mutex<HashMap<u32, u64>>>,
}

impl JetInbox {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        JetInbox { inner, readers: Arc::default(), left_at: Arc::default() }
    }

    /// Maximum size of a message in bytes.
    pub fn message_bytes_max(&self) -> usize {
        self.inner.link.client.max_payload().saturating_sub(HEADER_BYTES_MAX)
    }

    /// Drops the reader of a partition that this node no longer owns.
    pub async fn forget(&self, partition: u32) {
        self.readers.lock().await.remove(&partition);
        self.times().remove(&partition);
    }

    fn times(&self) -> std::sync::MutexGuard<'_, HashMap<u32, u64>> {
        self.left_at.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn reader(&self, partition: u32) -> Arc<Mutex<Reader>> {
        let mut readers = self.readers.lock().await;
        if readers.len() >= READERS_MAX && !readers.contains_key(&partition) {
            readers.clear();
        }
        let made = || Arc::new(Mutex::new(Reader::new(self.inner.inbox_place(partition), 1)));
        readers.entry(partition).or_insert_with(made).clone()
    }

    async fn publish_one(&self, partition: u32, id: u128, message: Bytes) -> Result<u64, Error> {
        let place = self.inner.inbox_place(partition);
        if message.len() > self.message_bytes_max() {
            return Err(Error::TooLarge { bytes: message.len(), bytes_max: self.message_bytes_max() });
        }
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, format!("{id:032x}"));
        let end = Instant::now() + PUBLISH_PATIENCE;
        let mut backoff = Backoff::new();
        loop {
            let publish = PublishMessage::build().payload(message.clone()).headers(headers.clone());
            let sent = async {
                match self.inner.context.send_publish(place.subject.clone(), publish).await {
                    Ok(ack) => ack.await,
                    Err(error) => Err(error),
                }
            };
            let why = match self.inner.link.answer(sent).await {
                Ok(Ok(ack)) => return Ok(ack.sequence),
                Ok(Err(error)) => match refusal(&error) {
                    Some(said) if is_full(said.error_code()) => return Err(Error::Full(said.to_string())),
                    _ if error.kind() == PublishErrorKind::MaxPayloadExceeded => {
                        let bytes_max = self.message_bytes_max();
                        return Err(Error::TooLarge { bytes: message.len(), bytes_max });
                    }
                    _ => error.to_string(),
                },
                Err(why) => why,
            };
            if Instant::now() >= end {
                return Err(Error::Unavailable { what: "publishing", waited: PUBLISH_PATIENCE, why });
            }
            sleep(backoff.next()).await;
        }
    }

    async fn read_some(
        &self,
        partition: u32,
        from: u64,
        messages_max: usize,
        wait: Duration,
    ) -> Result<Vec<(u64, Bytes)>, Error> {
        let messages_max = messages_max.min(READ_MESSAGES_MAX);
        if messages_max == 0 {
            return Ok(Vec::new());
        }
        let reader = self.reader(partition).await;
        let mut reader = reader.lock().await;
        if !reader.is_behind(from) {
            *reader = Reader::new(self.inner.inbox_place(partition), from.saturating_add(1));
        }
        let messages = reader.take_patiently(messages_max, wait, READ_PATIENCE).await?;
        let mut read = Vec::with_capacity(messages.len());
        for message in messages {
            let info = message.info().map_err(|error| Error::Damaged(error.to_string()))?;
            let (position, published) = (info.stream_sequence, info.published.unix_timestamp_nanos());
            if read.is_empty() {
                let mut times = self.times();
                if times.len() >= READERS_MAX && !times.contains_key(&partition) {
                    times.clear();
                }
                times.insert(partition, u64::try_from(published / 1_000_000).unwrap_or(0));
            }
            read.push((position, message.message.payload));
        }
        Ok(read)
    }
}

impl Inbox for JetInbox {
    fn publish(&self, partition: u32, id: u128, message: Bytes) -> Reply<'_, u64> {
        Box::pin(self.publish_one(partition, id, message))
    }

    fn read(
        &self,
        partition: u32,
        from: u64,
        messages_max: usize,
        wait: Duration,
    ) -> Reply<'_, Vec<(u64, Bytes)>> {
        Box::pin(self.read_some(partition, from, messages_max, wait))
    }

    fn truncate_before(&self, partition: u32, position: u64) -> Reply<'_, ()> {
        Box::pin(async move {
            let place = self.inner.inbox_place(partition);
            let purge = || self.inner.purge(&place, position);
            self.inner.patiently("removing", TRUNCATE_PATIENCE, purge).await.map(|_| ())
        })
    }

    fn left_at(&self, partition: u32) -> Option<u64> {
        self.times().get(&partition).copied()
    }
}
