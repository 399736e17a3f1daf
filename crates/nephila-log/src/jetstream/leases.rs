//! Leases and records: the last message of a subject per key, replaced by compare and swap.
//!
//! Leases lie in a stream with a maximum message age, so a lease without renewal expires. Every renewal is a new
//! message with a new age. A renewal without an answer is remembered by its token: if the next renewal finds that
//! message, the earlier renewal succeeded and the lease is still held.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::message::StreamMessage;
use bytes::Bytes;
use futures_util::StreamExt;

use super::message::TOKEN;
use super::reader::consume;
use super::write::{ENDED_READS, Place, Write, Written};
use super::{Inner, KeyKind};
use crate::{Error, Item, Leases, Reply, check_key};

/// Retry deadline for writing a record or acquiring a lease.
const CHANGE_PATIENCE: Duration = Duration::from_secs(20);
/// Retry deadline of a query.
const ASK_PATIENCE: Duration = Duration::from_secs(20);
/// Maximum remembered renewals with unknown result, per key and in total.
const UNKNOWN_PER_KEY_MAX: usize = 64;
const UNKNOWN_KEYS_MAX: usize = 1_024;
/// Items per batch.
const LIST_BATCH: usize = 512;
/// Maximum messages read beyond the initial count from a bucket that changes during the read. The next read gets the
/// rest.
const LIST_EXTRA_MAX: u64 = 10_000;

/// Leases and records. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JetLeases {
    inner: Arc<Inner>,
    /// Tokens of renewals with unknown result, by key.
    unknown: Arc<Mutex<HashMap<String, Vec<String>>>>,
    /// Cached copies of the buckets, by [`KeyKind`].
    copies: Arc<[tokio::sync::Mutex<Bucket>; 2]>,
}

impl JetLeases {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        JetLeases { inner, unknown: Arc::default(), copies: Arc::default() }
    }

    /// Writes a key if its last revision is the expected one. Returns the new revision, or the message found instead.
    async fn swap(
        &self,
        place: &Place,
        expected: u64,
        token: &str,
        value: Bytes,
        patience: Duration,
    ) -> Result<Written, Error> {
        let mut headers = HeaderMap::new();
        headers.insert(TOKEN, token);
        let write =
            Write { expected, token: token.to_owned(), headers, payload: value, older_reads: ENDED_READS };
        self.inner.write(place, &write, patience).await
    }

    async fn renew_one(&self, key: &str, revision: u64, value: Bytes) -> Result<Option<u64>, Error> {
        check_key(key)?;
        let place = self.inner.key_place(KeyKind::Lease, key);
        let token = new_token();
        // Remembered before the send: the caller may drop this future at any moment.
        self.remember(key, &token);
        // A renewal that takes as long as the lease lives is useless.
        let patience = self.inner.settings.lease_ttl;
        let mut written = self.swap(&place, revision, &token, value.clone(), patience).await?;
        if let Written::Other(Some(found)) = &written
            && self.is_ours(key, found)
        {
            written = self.swap(&place, found.sequence, &token, value, patience).await?;
        }
        self.unknown().remove(key);
        Ok(match written {
            Written::Stored(revision) => Some(revision),
            Written::Other(_) => None,
        })
    }

    fn remember(&self, key: &str, token: &str) {
        let mut unknown = self.unknown();
        if unknown.len() < UNKNOWN_KEYS_MAX || unknown.contains_key(key) {
            let tokens = unknown.entry(key.to_owned()).or_default();
            tokens.push(token.to_owned());
            if tokens.len() > UNKNOWN_PER_KEY_MAX {
                tokens.remove(0);
            }
        }
    }

    /// Whether the message found is our own renewal whose answer was lost.
    fn is_ours(&self, key: &str, found: &StreamMessage) -> bool {
        let token = found.headers.get(TOKEN).map(|token| token.as_str());
        let unknown = self.unknown();
        token.is_some_and(|token| unknown.get(key).is_some_and(|tokens| tokens.iter().any(|t| t == token)))
    }

    fn unknown(&self) -> std::sync::MutexGuard<'_, HashMap<String, Vec<String>>> {
        self.unknown.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    async fn release_one(&self, key: &str, revision: u64) -> Result<(), Error> {
        check_key(key)?;
        let place = self.inner.key_place(KeyKind::Lease, key);
        // One revision is one message: deleting this number affects no later revision.
        self.inner
            .patiently("releasing a lease", CHANGE_PATIENCE, || async {
                let why = match place.link.answer(place.stream.delete_message(revision)).await? {
                    Ok(_) => return Ok(()),
                    Err(error) => error.to_string(),
                };
                // A message that is already gone needs no deletion.
                let last = self.inner.last(&place).await?;
                if last.is_some_and(|last| last.sequence == revision) { Err(why) } else { Ok(()) }
            })
            .await
    }

    /// The last message of every key of a kind with this prefix.
    async fn list(&self, kind: KeyKind, prefix: &str) -> Result<Vec<Item>, Error> {
        self.inner.patiently("listing", ASK_PATIENCE, || self.list_once(kind, prefix)).await
    }

    async fn list_once(&self, kind: KeyKind, prefix: &str) -> Result<Vec<Item>, String> {
        let mut copy = self.copies[kind as usize].lock().await;
        self.follow(kind, &mut copy).await?;
        let begins = copy.items.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        Ok(begins.map(|(_, item)| item.clone()).collect())
    }

    /// Updates the copy: reads new messages, or everything if a key is gone.
    async fn follow(&self, kind: KeyKind, copy: &mut Bucket) -> Result<(), String> {
        let place = self.inner.key_place(kind, ">");
        let info = place.link.answer(place.stream.get_info()).await?.map_err(|error| error.to_string())?;
        let (state, created) = (&info.state, info.created.unix_timestamp_nanos());
        if copy.created != created || state.last_sequence < copy.upto {
            *copy = Bucket { created, ..Bucket::default() };
        }
        let is_whole = copy.upto == 0;
        if state.last_sequence > copy.upto {
            copy.read(&place).await?;
        }
        // A key has one message. An expired or released key shows only in a smaller message count.
        if !is_whole && copy.items.len() as u64 != state.messages {
            *copy = Bucket { created, ..Bucket::default() };
            copy.read(&place).await?;
        }
        Ok(())
    }
}

/// Cached copy of a bucket. An update costs one request while nothing changes, and otherwise reads only the changes:
/// nodes update every second, and there are thousands of partitions.
#[derive(Debug, Default)]
struct Bucket {
    /// Creation time of the stream; another time means another bucket.
    created: i128,
    /// Position of the last message read.
    upto: u64,
    items: BTreeMap<String, Item>,
}

impl Bucket {
    /// Reads the messages after the last position read.
    async fn read(&mut self, place: &Place) -> Result<(), String> {
        let begin = place.subject.len() - 1;
        let consumer =
            consume(place, DeliverPolicy::ByStartSequence { start_sequence: self.upto + 1 }).await?;
        let name = consumer.cached_info().name.clone();
        let mut pending = consumer.cached_info().num_pending;
        let mut left = pending.saturating_add(LIST_EXTRA_MAX);
        while pending > 0 && left > 0 {
            let asked = consumer.fetch().max_messages(LIST_BATCH).messages();
            let mut batch = place.link.answer(asked).await?.map_err(|error| error.to_string())?;
            // Keys that have expired since were counted but are not delivered.
            pending = 0;
            loop {
                let message = match place.link.answer(batch.next()).await? {
                    None => break,
                    Some(Err(error)) => return Err(error.to_string()),
                    Some(Ok(message)) => message,
                };
                let info = message.info().map_err(|error| error.to_string())?;
                (pending, left) = (info.pending, left.saturating_sub(1));
                let (key, revision) = (message.message.subject.get(begin..), info.stream_sequence);
                let key = key.unwrap_or_default().to_owned();
                let value = message.message.payload.clone();
                self.items.insert(key.clone(), Item { key, value, revision });
                self.upto = self.upto.max(revision);
            }
        }
        // The server would remove an idle consumer a little later by itself.
        _ = place.link.answer(place.stream.delete_consumer(&name)).await;
        Ok(())
    }
}

impl Leases for JetLeases {
    fn acquire<'a>(&'a self, key: &'a str, value: Bytes) -> Reply<'a, Option<u64>> {
        Box::pin(async move {
            check_key(key)?;
            let place = self.inner.key_place(KeyKind::Lease, key);
            let patience = self.inner.settings.lease_ttl;
            Ok(match self.swap(&place, 0, &new_token(), value, patience).await? {
                Written::Stored(revision) => Some(revision),
                Written::Other(_) => None,
            })
        })
    }

    fn renew<'a>(&'a self, key: &'a str, revision: u64, value: Bytes) -> Reply<'a, Option<u64>> {
        Box::pin(self.renew_one(key, revision, value))
    }

    fn release<'a>(&'a self, key: &'a str, revision: u64) -> Reply<'a, ()> {
        Box::pin(self.release_one(key, revision))
    }

    fn held(&self) -> Reply<'_, Vec<Item>> {
        Box::pin(self.list(KeyKind::Lease, ""))
    }

    fn records<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Item>> {
        Box::pin(self.list(KeyKind::Record, prefix))
    }

    fn record<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Item>> {
        Box::pin(async move {
            check_key(key)?;
            let place = self.inner.key_place(KeyKind::Record, key);
            let found =
                self.inner.patiently("reading a record", ASK_PATIENCE, || self.inner.last(&place)).await?;
            Ok(found.map(|message| Item {
                key: key.to_owned(),
                value: message.payload,
                revision: message.sequence,
            }))
        })
    }

    fn put<'a>(&'a self, key: &'a str, expected: Option<u64>, value: Bytes) -> Reply<'a, Option<u64>> {
        Box::pin(async move {
            check_key(key)?;
            let place = self.inner.key_place(KeyKind::Record, key);
            let expected = expected.unwrap_or(0);
            Ok(match self.swap(&place, expected, &new_token(), value, CHANGE_PATIENCE).await? {
                Written::Stored(revision) => Some(revision),
                Written::Other(_) => None,
            })
        })
    }
}

fn new_token() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}
