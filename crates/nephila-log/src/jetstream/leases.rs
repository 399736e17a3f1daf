//! Leases and records: the last message of a subject per key, replaced by compare and swap.
//!
//! Leases lie in a stream with a greatest age, so one that is not renewed ends by itself; every renewal is a new message
//! and begins its age anew. A renewal whose answer was lost is remembered by its token: if the next one finds that
//! message standing, it was ours and the lease is still held.

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

/// How long a change of a record, or taking a lease, is tried.
const CHANGE_PATIENCE: Duration = Duration::from_secs(20);
/// How long a question is tried.
const ASK_PATIENCE: Duration = Duration::from_secs(20);
/// Renewals with an unknown result that are remembered, per key and altogether.
const UNKNOWN_PER_KEY_MAX: usize = 64;
const UNKNOWN_KEYS_MAX: usize = 1_024;
/// Items asked for at once.
const LIST_BATCH: usize = 512;
/// A bucket that changes while it is read is read this much further than it was long; the rest the next time.
const LIST_EXTRA_MAX: u64 = 10_000;

/// Leases and records. Cheap to clone.
#[derive(Clone, Debug)]
pub struct JetLeases {
    inner: Arc<Inner>,
    /// Tokens of renewals that may have happened, by key.
    unknown: Arc<Mutex<HashMap<String, Vec<String>>>>,
    /// The buckets as they were when they were looked at last, by [`KeyKind`].
    copies: Arc<[tokio::sync::Mutex<Bucket>; 2]>,
}

impl JetLeases {
    pub(super) fn new(inner: Arc<Inner>) -> Self {
        JetLeases { inner, unknown: Arc::default(), copies: Arc::default() }
    }

    /// Writes a key if its last revision is the expected one: the new revision, or what stands there instead.
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
        // Remembered before it is sent: whoever waits for us may stop waiting at any moment.
        self.remember(key, &token);
        // A renewal that takes as long as the lease lives is none.
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

    /// Is what stands there a renewal of ours whose answer never came?
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
        // One revision is one message: removing it by its number harms no later one.
        self.inner
            .patiently("releasing a lease", CHANGE_PATIENCE, || async {
                let why = match place.link.answer(place.stream.delete_message(revision)).await? {
                    Ok(_) => return Ok(()),
                    Err(error) => error.to_string(),
                };
                // One that is gone already cannot be removed, and need not.
                let last = self.inner.last(&place).await?;
                if last.is_some_and(|last| last.sequence == revision) { Err(why) } else { Ok(()) }
            })
            .await
    }

    /// The last message of every key of a kind that begins like this.
    async fn list(&self, kind: KeyKind, prefix: &str) -> Result<Vec<Item>, Error> {
        self.inner.patiently("listing", ASK_PATIENCE, || self.list_once(kind, prefix)).await
    }

    async fn list_once(&self, kind: KeyKind, prefix: &str) -> Result<Vec<Item>, String> {
        let mut copy = self.copies[kind as usize].lock().await;
        self.follow(kind, &mut copy).await?;
        let begins = copy.items.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        Ok(begins.map(|(_, item)| item.clone()).collect())
    }

    /// Brings the copy up to what stands there now: reads what is new, and everything if something is gone.
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
        // A key has one message. One that ended, or was released, leaves no other sign than that there are fewer.
        if !is_whole && copy.items.len() as u64 != state.messages {
            *copy = Bucket { created, ..Bucket::default() };
            copy.read(&place).await?;
        }
        Ok(())
    }
}

/// A bucket as it was when it was looked at last. A look costs one question while nothing changes, and else what
/// changed: nodes look every second, and there are thousands of partitions.
#[derive(Debug, Default)]
struct Bucket {
    /// When its stream was made; another one is another bucket.
    created: i128,
    /// The last message that was read.
    upto: u64,
    items: BTreeMap<String, Item>,
}

impl Bucket {
    /// Reads what is behind the last message read.
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
            // Keys that ended since were counted and do not come.
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
        // The server would remove it by itself a little later.
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
