//! Looks whether the servers still have what an owner wrote, while it writes.
//!
//! A server that lies does it quietly: messages that were acknowledged are gone from the end of a subject, or from its
//! middle. An owner that only writes would notice the first when it next writes, and the second never. So now and then the
//! last message is compared with the one that was written last, and the number of messages with what it was the last
//! time plus what was written since.
//!
//! What always holds: nothing is called lost that may only be on its way, or that we removed ourselves; what one server
//! says that may lag is asked for again before it is believed.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::time::sleep;

use super::Inner;
use super::write::{LOST_READS, Place};
use crate::Error;

/// The rest between two reads of something that looks lost.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// What an owner did to its log, in numbers that only grow.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Where the last message is that was acknowledged.
    pub(super) tail: AtomicU64,
    /// Messages that were acknowledged since the log was opened.
    messages: AtomicU64,
    /// Odd while messages are being removed.
    removals: AtomicU64,
}

/// Held while messages are being removed.
pub(super) struct Removing(Arc<Seen>);

impl Drop for Removing {
    fn drop(&mut self) {
        self.0.removals.fetch_add(1, Ordering::AcqRel);
    }
}

impl Seen {
    pub(super) fn new(tail: u64) -> Seen {
        Seen { tail: AtomicU64::new(tail), ..Seen::default() }
    }

    pub(super) fn wrote(&self, messages: u64, tail: u64) {
        self.messages.fetch_add(messages, Ordering::AcqRel);
        self.tail.store(tail, Ordering::Release);
    }

    pub(super) fn removing(self: &Arc<Self>) -> Removing {
        self.removals.fetch_add(1, Ordering::AcqRel);
        Removing(self.clone())
    }

    fn now(&self) -> (u64, u64, u64) {
        let read = |value: &AtomicU64| value.load(Ordering::Acquire);
        (read(&self.tail), read(&self.messages), read(&self.removals))
    }
}

/// How many messages there were at a moment at which nothing was on its way.
#[derive(Clone, Copy, Debug)]
struct Base {
    count: u64,
    messages: u64,
    removals: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Watch {
    inner: Arc<Inner>,
    place: Place,
    seen: Arc<Seen>,
    base: Arc<Mutex<Option<Base>>>,
}

impl Watch {
    pub(super) fn new(inner: Arc<Inner>, place: Place, seen: Arc<Seen>) -> Watch {
        Watch { inner, place, seen, base: Arc::default() }
    }

    /// Looks once. [`Error::RolledBack`] if the end is gone, [`Error::Damaged`] if something before it is; any other
    /// error means that nobody could be asked.
    pub async fn look(&self) -> Result<(), Error> {
        let mut read = 0;
        loop {
            let Some(lost) = self.look_once().await? else { return Ok(()) };
            read += 1;
            if read >= LOST_READS {
                return Err(lost);
            }
            sleep(READ_AGAIN).await;
        }
    }

    /// What seems lost.
    async fn look_once(&self) -> Result<Option<Error>, Error> {
        let unavailable =
            |why| Error::Unavailable { what: "looking at the log", waited: Duration::ZERO, why };
        let (tail, messages, removals) = self.seen.now();
        let last = self.inner.last(&self.place).await.map_err(unavailable)?;
        let found = last.map_or(0, |last| last.sequence);
        if found < tail {
            return Ok(Some(Error::RolledBack { expected: tail, found }));
        }
        let count = self.count().await.map_err(unavailable)?;
        // Only what stood still while it was counted can be compared.
        let is_still = found == tail && self.seen.now() == (tail, messages, removals) && removals % 2 == 0;
        if !is_still {
            return Ok(None);
        }
        let mut base = self.base.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Base { count, messages, removals };
        match *base {
            Some(before) if before.removals == removals => {
                let expected = before.count + (messages - before.messages);
                if count < expected {
                    let text = format!("{} of {expected} messages of the log are gone", expected - count);
                    return Ok(Some(Error::Damaged(text)));
                }
            }
            _ => {}
        }
        *base = Some(now);
        Ok(None)
    }

    /// Messages of the subject.
    async fn count(&self) -> Result<u64, String> {
        let ask = async {
            let counts = self.place.stream.info_with_subjects(&self.place.subject).await;
            let counts = counts.map_err(|error| error.to_string())?;
            counts.try_collect::<Vec<_>>().await.map_err(|error| error.to_string())
        };
        let counts = self.place.link.answer(ask).await??;
        let of_ours = counts.iter().filter(|(subject, _)| *subject == self.place.subject);
        Ok(of_ours.map(|(_, count)| *count as u64).sum())
    }
}
