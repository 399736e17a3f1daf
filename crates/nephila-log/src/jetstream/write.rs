//! One write that expects what was last: it happens once, or somebody else was first, and which of the two is known in
//! the end even if an acknowledgement is lost.
//!
//! A write carries a **token**. If the answer does not come, the last message of the subject tells: our token, it is
//! done; the message that we expected, it is not there yet and is sent again; any other, somebody else wrote. A late
//! copy of a write that was sent twice is refused, since it expects what is not last any more.

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

/// How often a last message that is older than it can be is read before it is believed: a server that led until a moment
/// ago and does not know better may have given it. In a log it is a loss.
pub(super) const LOST_READS: u32 = 8;
/// The same where messages end by themselves.
pub(super) const ENDED_READS: u32 = 5;

/// Which subject of which stream, as the server knows it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) stream: Stream<()>,
    pub(super) stream_name: String,
    pub(super) subject: String,
    pub(super) link: Link,
}

/// How a write ended.
#[derive(Debug)]
pub(super) enum Written {
    /// It is durable, at this position of the stream.
    Stored(u64),
    /// Something else was last: this, or nothing.
    Other(Option<StreamMessage>),
}

/// What is written.
#[derive(Clone, Debug)]
pub(super) struct Write {
    /// The position of the message of the subject that has to be the last; 0 if there must be none.
    pub(super) expected: u64,
    /// Names this write and no other.
    pub(super) token: String,
    pub(super) headers: HeaderMap,
    pub(super) payload: Bytes,
    /// How often a last message before the expected one has to be read before it is believed.
    pub(super) older_reads: u32,
}

/// What the server made of one publish.
enum Answer {
    Stored(u64),
    /// It said no. With the reason if there is no room.
    Refused(Option<String>),
    Unknown(String),
}

impl Inner {
    /// Writes, and finds out in any case within the patience whether it was done.
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

    /// The last message of the subject as its leader has it, or what went wrong.
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

    /// Asks until there is an answer, or for this long.
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

/// What the server said, if it was the server that said no.
pub(super) fn refusal(error: &async_nats::jetstream::context::PublishError) -> Option<&Refusal> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Does the server say that it has no room?
pub(super) fn is_full(code: ErrorCode) -> bool {
    [
        ErrorCode::STREAM_STORE_FAILED,
        ErrorCode::INSUFFICIENT_RESOURCES,
        ErrorCode::STORAGE_RESOURCES_EXCEEDED,
        ErrorCode::ACCOUNT_RESOURCES_EXCEEDED,
    ]
    .contains(&code)
}
