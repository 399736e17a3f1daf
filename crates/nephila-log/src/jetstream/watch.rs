//! Checks that the servers still have an owner's messages, while the owner writes.
//!
//! A faulty server loses data silently: acknowledged messages are gone from the end of a subject, or from its middle.
//! An owner that only writes would notice the first case at its next write, and the second never. So the watch compares
//! the last message with the last acknowledged one, and the number of messages with the number at opening, plus the
//! messages written since, minus the messages removed.
//!
//! Invariants: a message that may be in flight, or that the owner removed, is never reported as lost; an answer from a
//! server that may lag is confirmed by further reads.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::time::sleep;

use super::Inner;
use super::write::{LOST_READS, Place};
use crate::Error;

/// Pause before an apparent loss is read again.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// Maximum counts of a log under write, until one count sees no concurrent write.
const STILL_READS: u32 = 20;
/// Pause between two counts.
const STILL_AGAIN: Duration = Duration::from_millis(50);

/// Counters of an owner's changes to its log. They only grow.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Position of the last acknowledged message.
    pub(super) tail: AtomicU64,
    /// Messages acknowledged since the log was opened.
    messages: AtomicU64,
    /// Odd while messages are being removed.
    removals: AtomicU64,
    /// Existing messages in addition to `messages`, minus removed messages; `None` if the count is unknown.
    base: Mutex<Option<i64>>,
    /// Messages are known to be lost.
    has_lost: AtomicBool,
}

/// Held while messages are being removed.
pub(super) struct Removing(Arc<Seen>);

impl Removing {
    /// Subtracts the removed messages. `None` means that the server did not say; then the messages are counted again.
    /// The same happens after a known loss: the damaged range is most likely removed now.
    pub(super) fn removed(&self, count: Option<u64>) {
        let mut base = self.0.base();
        let had_lost = self.0.has_lost.swap(false, Ordering::AcqRel);
        *base = base.zip(count).map(|(base, count)| base - count as i64).filter(|_| !had_lost);
    }
}

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

    /// Counts the existing messages, at a moment without writes.
    pub(super) async fn count(&self, place: &Place) {
        let count = messages_of(place).await.ok();
        let messages = self.messages.load(Ordering::Acquire);
        *self.base() = count.map(|count| count as i64 - messages as i64);
    }

    fn base(&self) -> std::sync::MutexGuard<'_, Option<i64>> {
        self.base.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
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

/// See the module.
#[derive(Clone, Debug)]
pub struct Watch {
    inner: Arc<Inner>,
    place: Place,
    seen: Arc<Seen>,
}

impl Watch {
    pub(super) fn new(inner: Arc<Inner>, place: Place, seen: Arc<Seen>) -> Watch {
        Watch { inner, place, seen }
    }

    /// Checks once. Returns [`Error::RolledBack`] if the end is gone, [`Error::Damaged`] if a message before the end is
    /// gone. Any other error means that no server answered.
    pub async fn look(&self) -> Result<(), Error> {
        let mut read = 0;
        loop {
            let Some(lost) = self.look_once().await? else { return Ok(()) };
            read += 1;
            if read >= LOST_READS {
                self.seen.has_lost.store(true, Ordering::Release);
                return Err(lost);
            }
            sleep(READ_AGAIN).await;
        }
    }

    /// Returns an apparent loss.
    async fn look_once(&self) -> Result<Option<Error>, Error> {
        let unavailable =
            |why| Error::Unavailable { what: "looking at the log", waited: Duration::ZERO, why };
        for _ in 0..STILL_READS {
            let before @ (tail, messages, removals) = self.seen.now();
            let last = self.inner.last(&self.place).await.map_err(unavailable)?;
            let found = last.map_or(0, |last| last.sequence);
            if found < tail {
                return Ok(Some(Error::RolledBack { expected: tail, found }));
            }
            let count = messages_of(&self.place).await.map_err(unavailable)?;
            let now = self.seen.now();
            let is_still = found == tail && now == before;
            // During a removal the expected count is unknown.
            if now.2 == removals && removals.is_multiple_of(2) {
                let mut base = self.seen.base();
                let expected = base.map(|base| base + messages as i64);
                if let Some(missing) = expected.map(|expected| expected - count as i64).filter(|n| *n > 0) {
                    return Ok(Some(Error::Damaged(format!("{missing} messages of the log are gone"))));
                }
                if is_still && base.is_none() {
                    *base = Some(count as i64 - messages as i64);
                }
            }
            // Messages that arrived meanwhile may hide a loss.
            if is_still {
                break;
            }
            sleep(STILL_AGAIN).await;
        }
        Ok(None)
    }
}

/// Messages of a subject.
async fn messages_of(place: &Place) -> Result<u64, String> {
    let ask = async {
        let counts = place.stream.info_with_subjects(&place.subject).await;
        let counts = counts.map_err(|error| error.to_string())?;
        counts.try_collect::<Vec<_>>().await.map_err(|error| error.to_string())
    };
    let counts = place.link.answer(ask).await??;
    let of_ours = counts.iter().filter(|(subject, _)| *subject == place.subject);
    Ok(of_ours.map(|(_, count)| *count as u64).sum())
}
