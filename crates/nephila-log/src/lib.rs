//! Hands work over durably, between the threads of one machine and between machines.
//!
//! A partition has a **log**, which only its owner writes ([`GroupLog`]), and an **inbox**, where others leave what they
//! found for it ([`Inbox`]). Who owns what is agreed upon through [`Leases`]: keys that end with whoever holds them, and
//! records that stay, both changed only by who has seen their last revision. Each comes in three forms that keep the
//! same promises: [`memory`] for tests, [`local`] for one machine, [`jetstream`] for many. `conformance` holds the
//! promises as checks, and all three are put to them.
//!
//! What always holds: what was said to be durable is; a log has one writer, and one that was replaced finds out when it
//! writes, not later; every call ends, with a result or an [`Error`] that says what to do.

#[cfg(any(test, feature = "test-util"))]
pub mod conformance;
mod error;
mod fence;
pub mod jetstream;
pub mod local;
pub mod memory;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use error::Error;
pub use fence::Fence;

/// What an asynchronous call gives, boxed so that the traits can be used as objects.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Groups of a replay: their numbers and their bytes.
pub type Groups<'a> = Box<dyn Iterator<Item = Result<(u64, Vec<u8>), Error>> + 'a>;

/// Called when it is worth asking again, from any thread. Cheap to clone; the default does nothing.
#[derive(Clone, Default)]
pub struct Wake(Option<Arc<dyn Fn() + Send + Sync>>);

impl Wake {
    /// Calls this. It must not wait for anything.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Wake(Some(Arc::new(call)))
    }

    /// Somebody should ask again.
    pub fn call(&self) {
        if let Some(call) = &self.0 {
            call();
        }
    }
}

impl std::fmt::Debug for Wake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Wake").field(&self.0.is_some()).finish()
    }
}

/// A partition's log as its owner writes it. Its calls block, but for [`GroupLog::append`], which rarely does, and
/// [`GroupLog::try_sync`]: they belong on the thread of the worker that owns the partition. Groups are numbered 1, 2, 3 and
/// so on; a log that holds none begins with any of them.
pub trait GroupLog: Send + std::fmt::Debug {
    /// Begins to write a group. It is durable after the next [`GroupLog::sync`].
    fn append(&mut self, sequence: u64, group: &[u8]) -> Result<(), Error>;

    /// Waits until everything that was appended is durable.
    fn sync(&mut self) -> Result<(), Error>;

    /// Sees to it that everything that was appended becomes durable, and says whether it is. Never waits: while the answer
    /// is no, [`Wake`] is called as soon as asking again is worth it. An error is that of the sync, told once.
    fn try_sync(&mut self) -> Result<bool, Error>;

    /// From now on this is called when something on its way has arrived, or failed.
    fn wake_with(&mut self, wake: Wake);

    /// Forgets what was not synced, after an error that [`Error::is_full`]. It has to be appended again.
    fn go_back(&mut self) -> Result<(), Error>;

    /// The last group that is durable; 0 if none is kept.
    fn synced(&self) -> u64;

    /// Groups from this one on, in order, as far as they are durable. If older ones were removed it begins with the first
    /// there is; a group that is missing after that is an [`Error::Gap`].
    fn replay<'a>(&'a mut self, from: u64) -> Groups<'a>;

    /// Groups before this one are not needed any more. Some may stay, and the last one always does.
    fn truncate_before(&mut self, sequence: u64) -> Result<(), Error>;

    /// Bytes kept, as far as is known here.
    fn bytes(&self) -> u64;
}

/// Where partitions are left messages. Many write, the owner reads and remembers how far it came.
pub trait Inbox: Send + Sync + std::fmt::Debug {
    /// Leaves a message; it is durable when this returns its position. The same id again within the window of the
    /// implementation is stored once, so after an error it may be published again.
    fn publish(&self, partition: u32, id: u128, message: Bytes) -> Reply<'_, u64>;

    /// Up to so many messages behind this position, in order. If there are none it waits this long for the first.
    fn read(
        &self,
        partition: u32,
        from: u64,
        messages_max: usize,
        wait: Duration,
    ) -> Reply<'_, Vec<(u64, Bytes)>>;

    /// Messages before this position are not needed any more.
    fn truncate_before(&self, partition: u32, position: u64) -> Reply<'_, ()>;
}

/// A key with what stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: String,
    /// What was written there last.
    pub value: Bytes,
    /// By which write. Revisions grow over all keys of the same kind.
    pub revision: u64,
}

/// Keys with a time to live (**leases**: they end unless renewed), and without one (**records**). Both change by compare
/// and swap only. A key is made of letters, digits, `-`, `_`, `=`, `/` and, not at its ends nor twice in a row, `.`.
pub trait Leases: Send + Sync + std::fmt::Debug {
    /// Takes a lease: its revision, or `None` if somebody holds it.
    fn acquire<'a>(&'a self, key: &'a str, value: Bytes) -> Reply<'a, Option<u64>>;

    /// Holds it for longer, with a new value: the new revision, or `None` if it was lost. After an error it is not known
    /// whether it was renewed; it may be tried again with the same revision.
    fn renew<'a>(&'a self, key: &'a str, revision: u64, value: Bytes) -> Reply<'a, Option<u64>>;

    /// Gives it back, if it is still the one of this revision.
    fn release<'a>(&'a self, key: &'a str, revision: u64) -> Reply<'a, ()>;

    /// All leases that are held, by key.
    fn held(&self) -> Reply<'_, Vec<Item>>;

    /// All records whose key begins like this, by key.
    fn records<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Item>>;

    /// One record.
    fn record<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Item>>;

    /// Writes a record if it still has the expected revision, or, with `None`, if there is none: the new revision, or
    /// `None` if somebody else was first.
    fn put<'a>(&'a self, key: &'a str, expected: Option<u64>, value: Bytes) -> Reply<'a, Option<u64>>;
}

/// Longest key.
pub const KEY_BYTES_MAX: usize = 200;

/// Can this be a key on every implementation?
pub(crate) fn check_key(key: &str) -> Result<(), Error> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"-_=/.".contains(&b);
    let is_key = (1..=KEY_BYTES_MAX).contains(&key.len())
        && key.bytes().all(is_plain)
        && key.split('.').all(|token| !token.is_empty());
    if is_key { Ok(()) } else { Err(Error::Refused(format!("{key:?} cannot be a key"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_what_a_subject_can_hold() {
        for key in ["a", "node.7f", "snap/3=x_y-z", &"k".repeat(KEY_BYTES_MAX)] {
            check_key(key).unwrap();
        }
        for key in ["", ".", "a.", ".a", "a..b", "a b", "a*", "a>", "ü", &"k".repeat(KEY_BYTES_MAX + 1)] {
            assert!(check_key(key).is_err(), "{key}");
        }
    }
}
