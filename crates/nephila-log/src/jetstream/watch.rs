//! Looks whether the servers still have what an owner wrote, while it writes.
//!
//! A server that lies does it quietly: messages that were acknowledged are gone from the end of a subject, or from its
//! middle. An owner that only writes would notice the first when it next writes, and the second never. So now and then the
//! last message is compared with the one that was written last, and the number of messages with what it was when the log
//! was opened, plus what was written since, less what was removed.
//!
//! What always holds: nothing is called lost that may only be on its way, or that we removed ourselves; what one server
//! says that may lag is asked for again before it is believed.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use tokio::time::sleep;

use super::Inner;
use super::write::{LOST_READS, Place};
use crate::Error;

/// The rest between two reads of something that looks lost.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// How often a log is counted that is being written to, until it stood still meanwhile.
const STILL_READS: u32 = 20;
/// The rest between two of them.
const STILL_AGAIN: Duration = Duration::from_millis(50);

/// What an owner did to its log, in numbers that only grow.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Where the last message is that was acknowledged.
    pub(super) tail: AtomicU64,
    /// Messages that were acknowledged since the log was opened.
    messages: AtomicU64,
    /// Odd while messages are being removed.
    removals: AtomicU64,
    /// Messages that are there beside those in `messages`, less those that were removed; none if nobody could count them.
    base: Mutex<Option<i64>>,
    /// Some are known to be lost.
    has_lost: AtomicBool,
}

/// Held while messages are being removed.
pub(super) struct Removing(Arc<Seen>);

impl Removing {
    /// So many were removed; none if the server did not say. Then they are counted again, and also if some are known to
    /// be lost: where those were is most likely gone now.
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

    /// Counts what is there, at a moment at which nobody writes.
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

    /// Looks once. [`Error::RolledBack`] if the end is gone, [`Error::Damaged`] if something before it is; any other
    /// error means that nobody could be asked.
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

    /// What seems lost.
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
            // While messages are being removed nobody knows how many there should be.
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
            // What came meanwhile may hide what is gone.
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
