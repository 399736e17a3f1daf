//! Durable logs, inboxes and leases, between the threads of one machine and between machines.
//!
//! A partition has a **log**, which only its owner writes ([`GroupLog`]), and an **inbox**, where other partitions
//! leave discoveries ([`Inbox`]). Ownership is agreed upon through [`Leases`]: leases expire with their holder, records
//! stay, and both change by compare and swap on the last revision. Three implementations keep the same promises:
//! [`memory`] for tests, [`local`] for one machine, [`jetstream`] for a cluster. `conformance` holds the promises as
//! checks, which all three pass.
//!
//! Invariants: data reported as durable is durable; a log has one writer, and a replaced writer gets an error at its
//! next write; every call ends, with a result or an [`Error`] that tells the caller how to react.

#[cfg(any(test, feature = "test-util"))]
pub mod conformance;
mod error;
mod fence;
#[cfg(feature = "jetstream")]
pub mod jetstream;
pub mod local;
pub mod memory;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use error::Error;
pub use fence::Fence;

/// Future of an asynchronous call, boxed so that the traits are object safe.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Iterator over the groups of a replay: numbers and bytes.
pub type Groups<'a> = Box<dyn Iterator<Item = Result<(u64, Vec<u8>), Error>> + 'a>;

/// A wake-up callback: tells the owner to call [`GroupLog::try_sync`] again. Called from any thread. Cheap to clone;
/// the default does nothing.
#[derive(Clone, Default)]
pub struct Wake(Option<Arc<dyn Fn() + Send + Sync>>);

impl Wake {
    /// Wraps a callback. The callback must not block.
    pub fn new(call: impl Fn() + Send + Sync + 'static) -> Self {
        Wake(Some(Arc::new(call)))
    }

    /// Runs the callback.
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

/// A partition's log, as its owner writes the log. The methods block, except [`GroupLog::append`], which rarely does,
/// and [`GroupLog::try_sync`]: call them on the thread of the worker that owns the partition. Groups are numbered 1, 2,
/// 3 and so on; the first group of an empty log may have any number.
pub trait GroupLog: Send + std::fmt::Debug {
    /// Begins to write a group. The group is durable after the next [`GroupLog::sync`].
    fn append(&mut self, sequence: u64, group: &[u8]) -> Result<(), Error>;

    /// Waits until all appended groups are durable.
    fn sync(&mut self) -> Result<(), Error>;

    /// Starts a sync of all appended groups, and returns whether they are durable. Never blocks: after `false` the log
    /// calls [`Wake`] when another call is worthwhile. Returns an error of the sync once.
    fn try_sync(&mut self) -> Result<bool, Error>;

    /// Sets the callback for a sync that ends, with success or failure.
    fn wake_with(&mut self, wake: Wake);

    /// Drops all groups that are not durable, after an error with [`Error::is_full`]. Append these groups again.
    fn go_back(&mut self) -> Result<(), Error>;

    /// The last durable group; 0 if the log is empty.
    fn synced(&self) -> u64;

    /// Replays the durable groups from this one on, in order. If older groups were removed, the replay begins with the
    /// first existing group. A group that is missing after that is an [`Error::Gap`].
    fn replay<'a>(&'a mut self, from: u64) -> Groups<'a>;

    /// Allows the removal of all groups before this one. Some may stay, and the last group always stays.
    fn truncate_before(&mut self, sequence: u64) -> Result<(), Error>;

    /// Bytes stored, as far as known here.
    fn bytes(&self) -> u64;
}

/// Message queues of the partitions. Many writers; the owner reads and remembers its position.
pub trait Inbox: Send + Sync + std::fmt::Debug {
    /// Leaves a message. The message is durable when this returns its position. The same id is stored once within the
    /// deduplication window of the implementation, so a publish may be retried after an error.
    fn publish(&self, partition: u32, id: u128, message: Bytes) -> Reply<'_, u64>;

    /// Returns up to `messages_max` messages after position `from`, in order. Without a message the call waits up to
    /// `wait` for the first.
    fn read(
        &self,
        partition: u32,
        from: u64,
        messages_max: usize,
        wait: Duration,
    ) -> Reply<'_, Vec<(u64, Bytes)>>;

    /// Allows the removal of all messages before this position.
    fn truncate_before(&self, partition: u32, position: u64) -> Reply<'_, ()>;

    /// When the first message that the last read of this partition returned was left, in milliseconds since 1970 by the
    /// clock of the servers; none if the implementation does not record that, or nothing was read.
    fn left_at(&self, partition: u32) -> Option<u64> {
        _ = partition;
        None
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: String,
    /// The last value written.
    pub value: Bytes,
    /// Revision of the last write. Revisions grow over all keys of the same kind.
    pub revision: u64,
}

/// Keys with a time to live (**leases**: they expire unless renewed), and without one (**records**). Both change by
/// compare and swap only. A key is made of letters, digits, `-`, `_`, `=`, `/` and, not at its ends nor twice in a row,
/// `.`.
pub trait Leases: Send + Sync + std::fmt::Debug {
    /// Acquires a lease. Returns its revision, or `None` if the lease is held.
    fn acquire<'a>(&'a self, key: &'a str, value: Bytes) -> Reply<'a, Option<u64>>;

    /// Renews a lease, with a new value. Returns the new revision, or `None` if the lease was lost. After an error the
    /// result is unknown; retry with the same revision.
    fn renew<'a>(&'a self, key: &'a str, revision: u64, value: Bytes) -> Reply<'a, Option<u64>>;

    /// Releases a lease, if its revision is still this one.
    fn release<'a>(&'a self, key: &'a str, revision: u64) -> Reply<'a, ()>;

    /// All leases that are held, by key.
    fn held(&self) -> Reply<'_, Vec<Item>>;

    /// All records with this key prefix, by key.
    fn records<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Item>>;

    /// One record.
    fn record<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Item>>;

    /// Writes a record if its revision is the expected one, or, with `None`, if there is no record. Returns the new
    /// revision, or `None` if another writer was first.
    fn put<'a>(&'a self, key: &'a str, expected: Option<u64>, value: Bytes) -> Reply<'a, Option<u64>>;
}

/// Maximum length of a key in bytes.
pub const KEY_BYTES_MAX: usize = 200;

/// Checks that every implementation accepts the key.
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
