//! A full disk: the worker waits for room instead of ending.
//!
//! A group that its journal did not take is kept unchanged, and the journal goes back to its durable end. Meanwhile
//! nothing is handed out, so only the fetches under way still end; offers stay in their channel, and callers that offer
//! wait (backpressure). Every [`DISK_FULL_PAUSE`] the worker retries all kept groups, and resumes when none is refused.
//!
//! Invariants: a group is written once, regardless of the number of retries; the memory used meanwhile is bounded.

use nephila_core::state::Durable;

use super::log::Log;
use super::{
    DISK_FULL_PAUSE, Error, FED_BYTES_MAX, FEEDING_MAX, STOP_PAUSES_MAX, STOP_ROUNDS_MAX, WAITERS_MAX, Worker,
};

/// The channels that a worker reads from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Takes {
    pub(super) events: bool,
    pub(super) offers: bool,
}

impl<S: Durable + Send> Worker<S> {
    /// The channels to read from next. Reports of fetches under way are always few; waiting callers may be many.
    pub(super) fn takes(&self) -> Takes {
        let is_full = self.is_full();
        let held_up = is_full || self.logs.iter().any(|log| log.flight.is_some());
        Takes {
            events: !(held_up && self.has_much()),
            offers: !is_full && !self.has_much() && self.feeding.len() < FEEDING_MAX,
        }
    }

    /// Whether there is more pending than permitted. Then pending entries are written first.
    pub(super) fn has_much(&self) -> bool {
        let fed_bytes: usize = self.logs.iter().map(|log| log.fed_bytes).sum();
        self.waiters.len() > WAITERS_MAX || fed_bytes > FED_BYTES_MAX
    }

    /// Whether the disk is full, or a retry after a full disk is not yet confirmed.
    pub(super) fn is_full(&self) -> bool {
        self.full_until.is_some() || self.logs.iter().any(Log::tries_again)
    }

    /// Records that the disk is full.
    pub(super) fn note_full(&mut self) {
        self.stats.disk_full_met += 1;
        self.full_until = Some(self.clock.now().mono + super::millis(DISK_FULL_PAUSE));
    }

    /// Retries after a full disk.
    pub(super) fn try_again(&mut self) -> Result<(), Error> {
        self.full_until = None;
        self.begin_all()?;
        if self.full_until.is_none() {
            self.checkpoint_due(true)?;
        }
        Ok(())
    }

    /// Feeds all offers and makes all entries durable, waiting a while for room on a full disk.
    pub(super) async fn write_all(&mut self) -> Result<(), Error> {
        let (mut rounds, mut pauses) = (0, 0);
        while rounds < STOP_ROUNDS_MAX {
            if self.full_until.is_some() {
                if pauses == STOP_PAUSES_MAX {
                    return Err(Error::DiskFull);
                }
                pauses += 1;
                tokio::time::sleep(DISK_FULL_PAUSE).await;
                self.full_until = None;
            }
            self.land()?;
            self.feed()?;
            let fed = self.feeding.is_empty();
            let written = !self.logs.iter().any(Log::is_under_way)
                && !(0..self.logs.len()).any(|partition| self.frontier.has_group(partition));
            if fed && written && self.full_until.is_none() {
                break;
            }
            self.begin_all()?;
            if self.logs.iter().any(|log| log.flight.is_some()) {
                // A log ends every wait by itself.
                self.landed.notified().await;
            } else if fed && self.full_until.is_none() {
                rounds += 1;
            }
        }
        Ok(())
    }
}
