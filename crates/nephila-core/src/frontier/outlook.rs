//! What the frontier waits for, and whether there is anything left: asked about once a second by whoever shows a crawl, and
//! by whoever ends it.
//!
//! What always holds: [`Frontier::is_done`] is never true while a URL that was taken in could still be fetched before the
//! horizon, nor while one is left that was never tried and may be. Looking costs time linear in the hosts at hand and changes nothing.

use std::time::Duration;

use super::workbench::{HostIndex, HostLeft};
use super::{Frontier, REST_ON_BENCH};
use crate::planted::{self, Bug};
use crate::state::{State, StateError};
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

/// URLs that were never tried and wait for hosts that rest for long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// So many hosts.
    pub hosts: u64,
    /// URLs in their queues.
    pub urls: u64,
    /// The host that has rested first, scheme and authority, and when that is.
    pub first: Option<(Seconds, Box<str>)>,
}

impl Held {
    pub(crate) fn add(&mut self, origin: &str, urls: u64, until: Seconds) {
        self.hosts += 1;
        self.urls = self.urls.saturating_add(urls);
        if self.first.as_ref().is_none_or(|(first, _)| until < *first) {
            self.first = Some((until, origin.into()));
        }
    }

    fn merge(&mut self, other: &Held) {
        self.hosts += other.hosts;
        self.urls = self.urls.saturating_add(other.urls);
        let firsts = self.first.take().into_iter().chain(other.first.clone());
        self.first = firsts.min_by_key(|(until, _)| *until);
    }
}

/// What is left to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// Nothing before the horizon.
    Nothing,
    /// Only what was never tried and waits for hosts that rest beyond the horizon.
    Held,
    /// Something that comes up before the horizon, or is under way.
    #[default]
    Work,
}

/// Everything about what comes next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// What the hosts at hand wait for.
    pub waits: Waits,
    /// What is left to do.
    pub left: Left,
    /// What waits for hosts that rest for long.
    pub held: Held,
    /// The earliest time at which something that is planned or rests comes up, as far as known.
    pub later_next: Option<Seconds>,
}

impl<S: State> Frontier<S> {
    /// Everything about what comes next. See [`Frontier::left`] for the horizon.
    pub fn outlook(&mut self, horizon: Seconds, now: Now) -> Result<Outlook, StateError> {
        Ok(Outlook {
            waits: self.waits(now),
            left: self.left(horizon, now)?,
            held: self.held(now)?,
            later_next: self.later_next(),
        })
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

    /// What waits for hosts that rest for long: those away, as the last search saw them, and those at hand.
    pub fn held(&mut self, now: Now) -> Result<Held, StateError> {
        let mut held = Held::default();
        self.partitions.iter().for_each(|partition| held.merge(&partition.held));
        let resting: Vec<_> = self.bench.long_resting(now.mono).take(HELD_LOOKS_MAX).collect();
        for (index, ready_at) in resting {
            let waiting = self.waiting_of(index)?;
            if waiting > 0 {
                let until = Seconds::from(now.wall).plus(Duration::from_millis(ready_at - now.mono));
                held.add(&self.bench.host(index).origin, waiting, until);
            }
        }
        Ok(held)
    }

    /// What is left to do? Second tries and other plans for later than the horizon do not count, nor does what is parked,
    /// or whose host is stopped. What was never tried always counts, however long its host rests; it makes the difference
    /// between [`Left::Work`] and [`Left::Held`] whether something comes up before the horizon, which is at least a minute
    /// away. Something that is offered or said later may change it.
    pub fn left(&mut self, horizon: Seconds, now: Now) -> Result<Left, StateError> {
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
        if !quiet || self.bench.open_tickets() > 0 {
            return Ok(Left::Work);
        }
        let ahead = Timestamp::from(horizon).0.saturating_sub(now.wall.0);
        let away = self.partitions.iter().any(|partition| partition.held.hosts > 0);
        let mut held = away || self.bench.awaits_hours(now.mono);
        let mut resting = Vec::new();
        for index in self.bench.indexes() {
            match self.bench.left(index, horizon, now.mono + ahead) {
                HostLeft::Work => return Ok(Left::Work),
                HostLeft::Resting => resting.push(index),
                HostLeft::Nothing => {}
            }
        }
        for index in resting {
            held = held || self.waiting_of(index)? > 0;
        }
        Ok(if held && !planted::is(Bug::RestIsTheEnd) { Left::Held } else { Left::Nothing })
    }

    /// Is there nothing left? See [`Frontier::left`].
    pub fn is_done(&mut self, horizon: Seconds, now: Now) -> Result<bool, StateError> {
        Ok(self.left(horizon, now)? == Left::Nothing)
    }

    /// URLs in the queue of a host at hand, as far as they are folded. None if it is stopped.
    fn waiting_of(&mut self, index: HostIndex) -> Result<u64, StateError> {
        let key = self.bench.host(index).key;
        let Some(partition) = self.partition_of(&key) else { return Ok(0) };
        let record = self.partitions[partition].state.host(&key)?.unwrap_or_default();
        Ok(if record.stopped.is_empty() { record.waiting } else { 0 })
    }
}

/// Hosts at hand that rest for long and are looked up to say what waits for them: enough to name one.
const HELD_LOOKS_MAX: usize = 64;

/// A plan for this time is none.
const NEVER: Seconds = Seconds(u32::MAX);
