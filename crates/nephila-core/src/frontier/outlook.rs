//! What the frontier waits for, and whether work is left. The progress display and the end condition of a crawl call
//! this module about once a second.
//!
//! Invariants: [`Frontier::is_done`] is never true while an admitted URL could still be fetched before the horizon, nor
//! while an eligible URL was never tried. The cost is linear in the loaded hosts. Read-only.

use std::time::Duration;

use super::workbench::{HostIndex, HostLeft};
use super::{Frontier, REST_ON_BENCH};
use crate::entry::Entry;
use crate::planted::{self, Bug};
use crate::state::{State, StateError};
use crate::time::{Now, Seconds, Timestamp};

/// The loaded hosts, counted by the reason for which they wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Hosts with a page being fetched.
    pub fetching: usize,
    /// Hosts that may be requested now, or are about to receive URLs.
    pub ready: usize,
    /// Hosts that rest between two fetches (crawl delay).
    pub resting: usize,
    /// Hosts that failed or demanded a longer rest (backoff). Hosts that were unloaded for that time count as well, as
    /// far as this process unloaded them.
    pub backing_off: usize,
    /// Hosts that have rested, while their address is busy or rests.
    pub slot: usize,
    /// Hosts whose name is being resolved, or will be.
    pub resolving: usize,
    /// Hosts whose robots.txt was requested, or has to be.
    pub robots: usize,
    /// Hosts without work; they will leave.
    pub idle: usize,
    /// The earliest moment, on the monotonic clock, at which a loaded host could get a ticket.
    pub next_start: Option<u64>,
}

/// URLs that were never tried and wait for hosts with a long rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of these hosts.
    pub hosts: u64,
    /// URLs in their queues.
    pub urls: u64,
    /// The host whose rest ends first, as scheme and authority, and that time.
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

/// The work that is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// Nothing before the horizon.
    Nothing,
    /// Only URLs that were never tried and wait for hosts that rest beyond the horizon.
    Held,
    /// Work that is due before the horizon, or is under way.
    #[default]
    Work,
}

/// A summary of the coming work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outlook {
    /// The loaded hosts by the reason for which they wait.
    pub waits: Waits,
    /// The work that is left.
    pub left: Left,
    /// URLs that wait for hosts with a long rest.
    pub held: Held,
    /// The earliest time at which planned or resting work is due, as far as known.
    pub later_next: Option<Seconds>,
}

impl<S: State> Frontier<S> {
    /// A summary of the coming work. See [`Frontier::left`] for the horizon.
    pub fn outlook(&mut self, horizon: Seconds, now: Now) -> Result<Outlook, StateError> {
        Ok(Outlook {
            waits: self.waits(now),
            left: self.left(horizon, now)?,
            held: self.held(now)?,
            later_next: self.later_next(),
        })
    }

    /// The loaded hosts by the reason for which they wait.
    pub fn waits(&self, now: Now) -> Waits {
        self.bench.count_waits(now.mono)
    }

    /// The earliest time at which planned or resting work is due: on the workbench, or seen by the last search. `None`
    /// if no such work is known.
    pub fn later_next(&self) -> Option<Seconds> {
        let bench = self.bench.indexes().map(|index| self.bench.host(index));
        let bench = bench.flat_map(|host| host.later_next.into_iter().chain(host.room_next));
        let away = self.partitions.iter().flat_map(|partition| [partition.scan_after, partition.scan_next]);
        bench.chain(away.flatten()).min().filter(|next| *next < NEVER)
    }

    /// URLs that wait for hosts with a long rest: unloaded hosts, as of the last search, and loaded hosts.
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

    /// The work that is left. Retries and other plans after the horizon do not count, nor do parked URLs or URLs of
    /// stopped hosts. URLs that were never tried always count, however long their host rests. With such URLs the result
    /// is [`Left::Work`] if work is due before the horizon, otherwise [`Left::Held`]. The horizon is at least a minute
    /// away. Later offers and commands may change the result.
    pub fn left(&mut self, horizon: Seconds, now: Now) -> Result<Left, StateError> {
        let soon = Seconds::from(now.wall).plus(Duration::from_millis(REST_ON_BENCH));
        let horizon = horizon.max(soon);
        let quiet = self.partitions.iter().all(|partition| {
            // How far an inbox was read is no work: a mark of the cluster in an inbox that has nothing else is such an entry.
            let in_flight = partition.in_flight.iter().flat_map(|group| &group.group.entries);
            let written = partition.claimed
                && partition.offers.is_empty()
                && partition.streams.is_empty()
                && partition.pending.iter().chain(in_flight).all(Entry::is_position);
            // A search under way may find anything; a finished search knows when the next is useful.
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

    /// Whether nothing is left. See [`Frontier::left`].
    pub fn is_done(&mut self, horizon: Seconds, now: Now) -> Result<bool, StateError> {
        Ok(self.left(horizon, now)? == Left::Nothing)
    }

    /// Folded URLs in the queue of a loaded host; 0 if the host is stopped.
    fn waiting_of(&mut self, index: HostIndex) -> Result<u64, StateError> {
        let key = self.bench.host(index).key;
        let Some(partition) = self.partition_of(&key) else { return Ok(0) };
        let record = self.partitions[partition].state.host(&key)?.unwrap_or_default();
        Ok(if record.stopped.is_empty() { record.waiting } else { 0 })
    }
}

/// Maximum number of loaded hosts with a long rest whose waiting URLs are looked up: enough to name one.
const HELD_LOOKS_MAX: usize = 64;

/// A plan for this time is no plan.
const NEVER: Seconds = Seconds(u32::MAX);
