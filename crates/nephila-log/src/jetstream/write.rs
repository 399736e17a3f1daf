//! A conditional write that expects a certain last message. The write happens exactly once, or another writer was
//! first. The result is known in the end even if an acknowledgement is lost.
//!
//! A write carries a **token**. Without an answer, the last message of the subject tells the result. Our token: the
//! write succeeded. The expected message: the write has not happened and is retried. Any other message: another writer
//! was first. A late duplicate of a write is refused, since its expected message is no longer the last.

use std::error::Error as _;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::message::{PublishMessage, StreamMessage};
use async_nats::jetstream::stream::{LastRawMessageErrorKind, Stream};
use async_nats::jetstream::{Error as Refusal, ErrorCode};
use bytes::Bytes;
use tokio::time::{Instant, sleep};

use super::link::Link;
use super::message::TOKEN;
use super::{Backoff, Inner};
use crate::Error;

/// Number of reads before a last message older than expected is believed: the answer may come from a server that led
/// until a moment ago and is out of date. In a log an older last message is a loss.
pub(super) const LOST_READS: u32 = 8;
/// Like [`LOST_READS`], for streams whose messages expire.
pub(super) const ENDED_READS: u32 = 5;

/// One subject of one stream.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) stream: Stream<()>,
    pub(super) stream_name: String,
    pub(super) subject: String,
    pub(super) link: Link,
}

/// Result of a write.
#[derive(Debug)]
pub(super) enum Written {
    /// Durable, at this position of the stream.
    Stored(u64),
    /// Another message was last, or none.
    Other(Option<StreamMessage>),
}

/// A message to write.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// Expected position of the last message of the subject; 0 for an empty subject.
    pub(super) expected: u64,
    /// Unique token of this write.
    pub(super) token: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
    /// Number of reads before a last message older than expected is believed.
    pub(super) older_reads: u32,
}

/// The server's answer to one publish.
enum Answer {
    Stored(u64),
    /// Refused. Contains the reason if storage is full.
    Refused(Option<String>),
    Unknown(String),
}

impl Inner {
    /// Writes, with retries, and determines the result until `patience` has passed.
    pub(super) async fn write(
        &self,
        place: &Place,
        write: &Write,
        patience: Duration,
    ) -> Result<Written, Error> {
        let end = Instant::now() + patience;
        let mut backoff = Backoff::new();
        let mut older = 0;
        loop {
            let mut why = String::new();
            let mut full = None;
            match self.publish(place, write).await? {
                Answer::Stored(sequence) => return Ok(Written::Stored(sequence)),
                Answer::Refused(room) => full = room,
                Answer::Unknown(said) => why = said,
            }
            match self.last(place).await {
                Ok(last) => {
                    let sequence = last.as_ref().map_or(0, |message| message.sequence);
                    let is_ours = |message: &StreamMessage| {
                        message.headers.get(TOKEN).is_some_and(|token| token.as_str() == write.token)
                    };
                    if last.as_ref().is_some_and(is_ours) {
                        return Ok(Written::Stored(sequence));
                    }
                    if sequence > write.expected {
                        return Ok(Written::Other(last));
                    }
                    if sequence < write.expected {
                        older += 1;
                        if older >= write.older_reads {
                            return Ok(Written::Other(last));
                        }
                    } else if let Some(why) = full {
                        return Err(Error::Full(why));
                    }
                }
                Err(said) => why = said,
            }
            if Instant::now() >= end {
                return Err(Error::Unavailable { what: "writing", waited: patience, why });
            }
            sleep(backoff.next()).await;
        }
    }

    async fn publish(&self, place: &Place, write: &Write) -> Result<Answer, Error> {
        let mut headers = write.headers.clone();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, write.expected.to_string());
        let message = PublishMessage::build().payload(write.payload.clone()).headers(headers);
        let publish = async {
            match self.context.send_publish(place.subject.clone(), message).await {
                Ok(ack) => ack.await,
                Err(error) => Err(error),
            }
        };
        let error = match self.link.answer(publish).await {
            Ok(Ok(ack)) if ack.stream == place.stream_name => return Ok(Answer::Stored(ack.sequence)),
            Ok(Ok(ack)) => {
                return Err(Error::Refused(format!(
                    "{} was stored in stream {} instead of {}",
                    place.subject, ack.stream, place.stream_name
                )));
            }
            Ok(Err(error)) => error,
            Err(why) => return Ok(Answer::Unknown(why)),
        };
        Ok(match error.kind() {
            PublishErrorKind::WrongLastSequence => Answer::Refused(None),
            PublishErrorKind::MaxPayloadExceeded => {
                let bytes_max = self.link.client.max_payload();
                return Err(Error::TooLarge { bytes: write.payload.len(), bytes_max });
            }
            _ => match refusal(&error) {
                Some(refusal) if is_full(refusal.error_code()) => Answer::Refused(Some(refusal.to_string())),
                _ => Answer::Unknown(error.to_string()),
            },
        })
    }

    /// The last message of the subject from its leader, or the error text.
    pub(super) async fn last(&self, place: &Place) -> Result<Option<StreamMessage>, String> {
        self.raw(place.stream.raw_message_builder().last_by_subject(&place.subject).send()).await
    }

    /// The first message of the subject from this position on.
    pub(super) async fn next(&self, place: &Place, from: u64) -> Result<Option<StreamMessage>, String> {
        let from = from.max(1);
        self.raw(place.stream.raw_message_builder().sequence(from).next_by_subject(&place.subject).send())
            .await
    }

    async fn raw(
        &self,
        ask: impl Future<Output = Result<StreamMessage, async_nats::jetstream::stream::LastRawMessageError>>,
    ) -> Result<Option<StreamMessage>, String> {
        match self.link.answer(ask).await? {
            Ok(message) => Ok(Some(message)),
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Retries a request until an answer arrives or `patience` has passed.
    pub(super) async fn patiently<T, F: Future<Output = Result<T, String>>>(
        &self,
        what: &'static str,
        patience: Duration,
        mut ask: impl FnMut() -> F,
    ) -> Result<T, Error> {
        let end = Instant::now() + patience;
        let mut backoff = Backoff::new();
        loop {
            match ask().await {
                Ok(answer) => return Ok(answer),
                Err(why) if Instant::now() >= end => {
                    return Err(Error::Unavailable { what, waited: patience, why });
                }
                Err(_) => sleep(backoff.next()).await,
            }
        }
    }
}

/// The server's error, if the server refused the publish.
pub(super) fn refusal(error: &async_nats::jetstream::context::PublishError) -> Option<&Refusal> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Whether the error code means that storage is full.
pub(super) fn is_full(code: ErrorCode) -> bool {
    [
        ErrorCode::STREAM_STORE_FAILED,
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
    ]
    .contains(&code)
}
