//! The search for hosts with work that are not loaded, partition after partition.
//!
//! Invariant: a round passes every host of a partition; a full workbench pauses the round at the host that found no
//! place.

use std::time::Duration;

use super::super::outlook::Held;
use super::super::{Frontier, SCAN_HOSTS, SCANS_AT_ONCE, dates};
use crate::key::HostKey;
use crate::state::{State, StateError};
use crate::time::{Now, Seconds};

/// A clock that goes back by at most this number of seconds was only adjusted: no new search.
const CLOCK_BACK_MIN: u32 = 60;

impl<S: State> Frontier<S> {
    /// Searches for hosts with work that are not loaded. Returns whether one was loaded.
    pub(in crate::frontier) fn scan(&mut self, now: Now) -> Result<bool, StateError> {
        self.notice_clock(now);
        for _ in 0..SCANS_AT_ONCE {
            let count = self.partitions.len();
            let wanted = |at: &usize| {
                let partition = &self.partitions[*at];
                partition.in_flight.is_none()
                    // Tickets carry the epoch, and an id is used once: the epoch has to stand in the log first.
                    && partition.claimed
                    && !partition.closing
                    && partition.scan_after.is_none_or(|after| after <= now.wall.into())
            };
            let next = (self.scan_partition..self.scan_partition + count).map(|at| at % count).find(wanted);
            let (true, Some(at)) = (self.bench.has_room(), next) else { return Ok(false) };
            self.scan_partition = at;
            if self.scan_some(at, now)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Repeats a search that ended while the clock showed a later time than now: work that seemed due next may be long
    /// overdue, and work that seemed due may not be.
    fn notice_clock(&mut self, now: Now) {
        let wall = Seconds::from(now.wall);
        for partition in &mut self.partitions {
            if partition.scanned_at.0 > wall.0.saturating_add(CLOCK_BACK_MIN) {
                partition.scanned_at = wall;
                partition.search();
            }
        }
    }

    /// Examines the next hosts of a partition. Returns whether one was loaded.
    fn scan_some(&mut self, at: usize, now: Now) -> Result<bool, StateError> {
        let wall = Seconds::from(now.wall);
        let partition = &mut self.partitions[at];
        partition.scan_after = None;
        let first = HostKey { domain: partition.prefixes.first_domain(), host: 0 };
        if partition.scan_from == first {
            (partition.scan_again, partition.scan_next, partition.passed_over) = (false, None, false);
            partition.scan_held = Held::default();
        }
        let mut hosts = Vec::with_capacity(SCAN_HOSTS);
        partition.state.hosts_from(partition.scan_from, SCAN_HOSTS, &mut hosts)?;
        let last = partition.prefixes.last_domain();
        let here = hosts.iter().take_while(|(key, _)| key.domain <= last).count();
        hosts.truncate(here);
        let ahead_max = self.plan_ahead_max(at);
        let mut resume = None;
        let mut came = false;
        for (key, record) in hosts {
            resume = key.next();
            if self.bench.ordinary(&key).is_some() || !record.stopped.is_empty() {
                continue;
            }
            let planned = self.partitions[at].plans_due(&key, &record);
            let planned = planned.map(|due| dates::believed(due, ahead_max, now.wall));
            let parked = match record.parked > 0 && record.waiting == 0 {
                true if self.room(at, key, now)? > 0 => Some(Seconds(0)),
                true => self.room_next(at, key)?,
                false => None,
            };
            let waiting = (record.waiting > 0).then_some(Seconds(0));
            let Some(due) = waiting.into_iter().chain(planned).chain(parked).min() else { continue };
            let resting = self.bench.resting_until(&key).map_or(0, |until| until.saturating_sub(now.mono));
            let rested = Seconds::from(dates::rest_until(&record, now.wall))
                .max(wall.plus(Duration::from_millis(resting)));
            let due = due.max(rested);
            if due > wall {
                let partition = &mut self.partitions[at];
                partition.scan_next = Some(partition.scan_next.map_or(due, |next| next.min(due)));
                if record.waiting > 0 {
                    partition.scan_held.add(&record.origin, record.waiting, due);
                }
            } else if !self.bench.has_room() {
                self.starved = true;
                self.partitions[at].scan_from = key;
                return Ok(came);
            } else if self.bench.has_room_for(key.domain) {
                match self.bench.index(&key) {
                    Some(guest) => self.adopt(at, guest, &record, now),
                    None => self.activate(key, &record, now),
                }
                came = true;
            } else {
                self.partitions[at].passed_over = true;
            }
        }
        match resume {
            Some(key) if here == SCAN_HOSTS => self.partitions[at].scan_from = key,
            _ => self.scanned(at, first, now),
        }
        Ok(came)
    }

    /// A search has reached the end of a partition.
    fn scanned(&mut self, at: usize, first: HostKey, now: Now) {
        let partition = &mut self.partitions[at];
        partition.scan_from = first;
        partition.scanned_at = now.wall.into();
        if !partition.scan_again {
            // A complete round: the next begins when work is due, or when something new arrives.
            let next = partition.scan_next.take().unwrap_or(Seconds(u32::MAX));
            partition.held = std::mem::take(&mut partition.scan_held);
            partition.scan_after = Some(next.max(Seconds(Seconds::from(now.wall).0 + 1)));
        }
        self.scan_partition = at + 1;
        if self.bench.has_room() && self.partitions.iter().all(|partition| partition.scan_after.is_some()) {
            self.starved = false;
        }
    }
}
