//! Bugs that are planted on purpose, so that the checkers of the simulation can show that they would notice.
//!
//! Each bug stands at the place in the code where a programmer could have made the mistake. Without the feature
//! `planted` [`is`] is a constant and no bug is left in the program; with the feature, a bug is on only in the thread
//! that has [`set`] the bug, or in all threads of a program that was started for the bug ([`set_everywhere`]).

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// robots.txt is compared with the path as written, not in its canonical form.
    RobotsRawPath,
    /// A robots.txt that answers 5xx is taken for one without rules.
    RobotsErrorAllows,
    /// New robots.txt rules are not applied to URLs that are already loaded.
    RobotsNotJudgedAgain,
    /// URLs are deduplicated by 32 bits.
    UrlHash32,
    /// An outcome that is folded twice counts twice.
    FoldTwice,
    /// Groups that were folded before are folded again when a log is replayed.
    ReplayTwice,
    /// Offers are taken without a limit.
    OffersUnbounded,
    /// Rests go by the time of day, not by the monotonic clock.
    RestByWallClock,
    /// Tickets without a report stay open.
    TicketsNeverExpire,
    /// Hosts are served in the order of a hash table.
    HashOrder,
    /// Loaded URLs count as ended.
    FloorTooFar,
    /// An address forgets its rest when its last host moves away.
    SlotForgetsRest,
    /// Loaded URLs of a job that no longer runs are fetched all the same.
    HeldAtHand,
    /// A host that was requested on an errand for another host does not rest.
    ErrandWithoutRest,
    /// A partition that is taken over begins without a rest.
    TakeOverWithoutRest,
    /// A host that cannot be reached is given up the first time.
    GivenUpEarly,
    /// `Retry-After` is not durable.
    RestNotDurable,
    /// A log is read by its numbers alone: a missing group goes unnoticed.
    ChainUnchecked,
    /// A lease counts from the answer to its renewal, without a margin.
    LeaseFromAnswer,
    /// Each node applies the rate limit of an address for itself alone.
    SlotPerNode,
    /// The owner of an address grants turns before all nodes have claimed the turns that they hold.
    OwnerDoesNotWait,
    /// The turn of an address does not carry the rest of the address.
    TurnForgetsRest,
    /// A page that is being fetched is not fetched again when a stream names the page anew.
    UnderWayIsWanted,
    /// A part of a stream that arrives twice counts twice.
    PartCountsTwice,
    /// A crawl is over when all its hosts rest, even with URLs that were never tried.
    RestIsTheEnd,
    /// Of the addresses of a name only the first is used.
    FirstAddressAlone,
    /// A link has the depth of its page.
    LinksKeepDepth,
    /// Redirects in a row are not counted.
    RedirectsUncounted,
    /// A request is conditional although the archive does not have the version.
    ConditionUnstored,
    /// A result is believed although its URL is at another spider.
    ForeignResult,
    /// The URLs of a spider are given away when its connection closes, while its lease runs.
    PassedOnAtClose,
    /// A spider counts its lease from the arrival of the answer.
    LeaseFromArrival,
    /// The connections that a spider keeps to an address are not counted.
    ShareForgotten,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in this thread, or removes the bug.
#[cfg(feature = "planted")]
pub fn set(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// The bug of the whole program: one more than its number, 0 if there is none.
#[cfg(feature = "planted")]
static EVERYWHERE: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants a bug in all threads, for good.
#[cfg(feature = "planted")]
pub fn set_everywhere(bug: Bug) {
    EVERYWHERE.store(bug as u8 + 1, std::sync::atomic::Ordering::Relaxed);
}

/// Whether this bug is planted.
#[cfg(feature = "planted")]
#[inline]
pub fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug) || EVERYWHERE.load(std::sync::atomic::Ordering::Relaxed) == bug as u8 + 1
}

/// Puts a queue into the order of a hash table, which differs from run to run, if [`Bug::HashOrder`] is planted.
#[cfg(feature = "planted")]
#[allow(clippy::disallowed_types)]
pub(crate) fn shuffle(queue: &mut std::collections::VecDeque<u32>) {
    if is(Bug::HashOrder) {
        let hashed: std::collections::HashSet<u32> = queue.drain(..).collect();
        queue.extend(hashed);
    }
}

/// Whether this bug is planted. Never, in this build.
#[cfg(not(feature = "planted"))]
#[inline]
pub const fn is(_bug: Bug) -> bool {
    false
}
