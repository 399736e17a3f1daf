//! What the frontier waits for, and whether there is anything left: asked about once a second by whoever shows a crawl, and
//! by whoever ends it.
//!
//! What always holds: [`Frontier::is_done`] is never true while a URL that was taken in could still be fetched before the
//! horizon. Looking costs time linear in the hosts at hand and changes nothing.

use std::time::Duration;

use super::{Frontier, REST_ON_BENCH};
use crate::state::State;
use crate::time::{Now, Seconds, Timestamp};

/// The hosts at hand, by what each waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// A page of it is being fetched.
    pub fetching: usize,
    /// It may be asked now, or is about to be given URLs.
    pub ready: usize,
    /// It rests between two fetches.
    pub resting: usize,
    /// It failed, or asked for a longer rest. Hosts that have left for that time count as well, as far as this process
    /// has seen them leave.
    pub backing_off: usize,
    /// It has rested, and its address is busy or rests.
    pub slot: usize,
    /// Its name is being looked up, or will be.
    pub resolving: usize,
    /// Its robots.txt was asked for, or has to be.
    pub robots: usize,
    /// It has nothing to do and will leave.
    pub idle: usize,
    /// The earliest moment, on the clock that only moves forward, at which a ticket could be given out to what is at hand.
    pub next_start: Option<u64>,
}

/// Everything about what comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// What the hosts at hand wait for.
    pub waits: Waits,
    /// Is there nothing left before the horizon?
    pub done: bool,
    /// The earliest time at which something that is planned or rests comes up, as far as known.
    pub later_next: Option<Seconds>,
}

impl<S: State> Frontier<S> {
    /// Everything about what comes next. See [`Frontier::is_done`] for the horizon.
    pub fn outlook(&self, horizon: Seconds, now: Now) -> Outlook {
        Outlook { waits: self.waits(now), done: self.is_done(horizon, now), later_next: self.later_next() }
    }

    /// What the hosts at hand wait for.
    pub fn waits(&self, now: Now) -> Waits {
        self.bench.count_waits(now.mono)
    }

    /// The earliest time at which something that is planned or rests comes up: on the bench, or seen by the last search.
    /// None if nothing is known to.
    pub fn later_next(&self) -> Option<Seconds> {
        let bench = self.bench.indexes().map(|index| self.bench.host(index));
        let bench = bench.flat_map(|host| host.later_next.into_iter().chain(host.room_next));
        let away = self.partitions.iter().flat_map(|partition| [partition.scan_after, partition.scan_next]);
        bench.chain(away.flatten()).min().filter(|next| *next < NEVER)
    }

    /// Is there nothing left? URLs that are parked or planned for later than the horizon do not count, nor do those whose
    /// host backs off for longer, or is stopped. What is at hand counts however long its host rests without backing
    /// off or waits for its hours, and so does everything that comes within a minute. Something that is offered or said later may change it.
    pub fn is_done(&self, horizon: Seconds, now: Now) -> bool {
        let soon = Seconds::from(now.wall).plus(Duration::from_millis(REST_ON_BENCH));
        let horizon = horizon.max(soon);
        let quiet = self.partitions.iter().all(|partition| {
            let written = partition.claimed
                && partition.offers.is_empty()
                && partition.pending.is_empty()
                && partition.streams.is_empty()
                && partition.in_flight.is_none();
            // A search that is under way may find anything; one that is over says when the next is worth it.
            let searched = partition.scan_after.is_some_and(|after| after > horizon || after >= NEVER);
            written && searched && !partition.passed_over
        });
        if !quiet || self.bench.open_tickets() > 0 || self.bench.awaits_hours(now.mono) {
            return false;
        }
        let ahead = Timestamp::from(horizon).0.saturating_sub(now.wall.0);
        self.bench.indexes().all(|index| self.bench.is_done(index, horizon, now.mono + ahead))
    }
}

/// A plan for this time is none.
const NEVER: Seconds = Seconds(u32::MAX);
