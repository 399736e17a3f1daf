//! A full disk: the worker waits for room instead of ending.
//!
//! A group that its journal did not take is kept as it is, and the journal goes back to what was durable. Nothing is handed
//! out meanwhile, so only fetches that are under way still end; offers stay in their channel, and whoever offers waits.
//! Every [`DISK_FULL_PAUSE`] it is tried again, all of it, and when nothing is refused any more the
//! worker goes on.
//!
//! What always holds: a group is written once, however often it was tried; what is kept in memory meanwhile is bounded.

use nephila_core::state::Durable;

use super::log::Log;
use super::{
    DISK_FULL_PAUSE, Error, FED_BYTES_MAX, FEEDING_MAX, STOP_PAUSES_MAX, STOP_ROUNDS_MAX, WAITERS_MAX, Worker,
};

/// What a worker takes from its channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Takes {
    pub(super) events: bool,
    pub(super) offers: bool,
}

impl<S: Durable> Worker<S> {
    /// What is taken next. Reports of what is under way are always few; callers that wait are not.
    pub(super) fn takes(&self) -> Takes {
        let is_full = self.is_full();
        let held_up = is_full || self.logs.iter().any(|log| log.flight.is_some());
        Takes {
            events: !(held_up && self.has_much()),
            offers: !is_full && !self.has_much() && self.feeding.len() < FEEDING_MAX,
        }
    }

    /// Is more waiting than may wait? Then it is written first.
    pub(super) fn has_much(&self) -> bool {
        let fed_bytes: usize = self.logs.iter().map(|log| log.fed_bytes).sum();
        self.waiters.len() > WAITERS_MAX || fed_bytes > FED_BYTES_MAX
    }

    /// Is the disk full, or is it not yet known that it is not any more?
    pub(super) fn is_full(&self) -> bool {
        self.full_until.is_some() || self.logs.iter().any(Log::tries_again)
    }

    /// The disk is full.
    pub(super) fn note_full(&mut self) {
        self.stats.disk_full_met += 1;
        self.full_until = Some(self.clock.now().mono + super::millis(DISK_FULL_PAUSE));
    }

    /// The disk was full a while ago: is it still?
    pub(super) fn try_again(&mut self) -> Result<(), Error> {
        self.full_until = None;
        self.begin_all()?;
        if self.full_until.is_none() {
            self.checkpoint_due(true)?;
        }
        Ok(())
    }

    /// Takes in and writes everything there is, waiting a while for room if there is none.
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
