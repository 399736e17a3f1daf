//! Bugs that are planted on purpose, so that the checkers of the simulation can show that they would notice.
//!
//! Each stands at the place in the code where somebody could have made it. Without the feature `planted` [`is`] is a
//! constant and nothing of this is left in the program; with it, a bug is on only in the thread that has [`set`] it, or in
//! all threads of a program that was started for it ([`set_everywhere`]).

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// robots.txt is compared with the path as it is written, not in its normal form.
    RobotsRawPath,
    /// A robots.txt that answers 5xx is taken for one without rules.
    RobotsErrorAllows,
    /// New rules leave alone what was judged by the old ones and is at hand.
    RobotsNotJudgedAgain,
    /// URLs are known by 32 bits.
    UrlHash32,
    /// An outcome that is folded twice counts twice.
    FoldTwice,
    /// Groups that were folded before are folded again when a log is replayed.
    ReplayTwice,
    /// Offers are taken without a limit.
    OffersUnbounded,
    /// Rests go by the time of day.
    RestByWallClock,
    /// Tickets that nobody reports stay open.
    TicketsNeverExpire,
    /// Hosts are served in the order of a hash table.
    HashOrder,
    /// What is at hand counts as ended.
    FloorTooFar,
    /// An address forgets its rest when its last host moves away.
    SlotForgetsRest,
    /// What is at hand of a job that is held back is fetched all the same.
    HeldAtHand,
    /// A host that was asked on behalf of another does not rest.
    ErrandWithoutRest,
    /// A partition that is taken over begins without a rest.
    TakeOverWithoutRest,
    /// A host that cannot be reached is given up the first time.
    GivenUpEarly,
    /// `Retry-After` is not written down.
    RestNotDurable,
    /// A log is read by its numbers alone: a group that is missing is not missed.
    ChainUnchecked,
    /// A lease counts from the answer to its renewal, without a margin.
    LeaseFromAnswer,
    /// Each node keeps the limits of an address for itself alone.
    SlotPerNode,
    /// The owner of an address hands out turns before all nodes have said what they hold.
    OwnerDoesNotWait,
    /// With the turn of an address its rest is forgotten.
    TurnForgetsRest,
    /// A page that is being fetched counts as wanted already when a stream names it anew.
    UnderWayIsWanted,
    /// A part of a stream that comes again counts again.
    PartCountsTwice,
    /// A crawl is over when all its hosts rest, whatever was never tried.
    RestIsTheEnd,
    /// Of the addresses of a name only the first is known.
    FirstAddressAlone,
}

#[cfg(feature = "planted")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in this thread, or takes it out.
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

/// Is this bug planted?
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

/// Is this bug planted? Never, in this build.
#[cfg(not(feature = "planted"))]
#[inline]
pub const fn is(_bug: Bug) -> bool {
    false
}
