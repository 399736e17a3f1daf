//! When the loop of a crawl looks around: at intervals, and at once when the frontier says that nothing is left.
//!
//! The word of the frontier only brings the next look forward: the look decides whether the crawl ends. So a crawl that
//! is not to end yet, because it is paused or serves, goes on to be looked at in its intervals.
//!
//! Invariant: the frontier's word brings at most one look forward, until a task has ended again.

use std::time::Duration;

use futures_util::future::BoxFuture;
use nephila_core::time::Seconds;
use tokio::time::{Interval, MissedTickBehavior};

use super::shared::Shared;
use super::work::FOREVER;
use crate::worker::Handle;

/// Interval at which the loop checks for the end and shows progress.
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// Time between two looks that find nothing left: whatever comes in between goes on with the crawl.
const QUIET: Duration = Duration::from_millis(3);

/// See the module.
pub(super) struct Looks {
    ticks: Interval,
    handle: Handle,
    /// Resolves when nothing is left. None: there is nothing to wait for.
    nothing_left: Option<BoxFuture<'static, ()>>,
}

impl Looks {
    /// Begins with a look.
    pub(super) fn new(shared: &Shared) -> Looks {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Looks { ticks, handle: shared.handle.clone(), nothing_left: None }
    }

    /// Returns when the next look is due. Cancel safe.
    pub(super) async fn next(&mut self) {
        match &mut self.nothing_left {
            None => _ = self.ticks.tick().await,
            Some(nothing_left) => tokio::select! {
                _ = self.ticks.tick() => {}
                () = nothing_left => {
                    self.nothing_left = None;
                    self.ticks.reset();
                }
            },
        }
    }

    /// A task has ended, perhaps the last one: looks as soon as nothing is left.
    pub(super) fn wait_for_end(&mut self, shared: &Shared) {
        let wait_max = shared.settings.crawl.retry_wait_max;
        if self.nothing_left.is_some() || wait_max >= FOREVER {
            return;
        }
        let horizon = Seconds::from(shared.clock.now().wall).plus(wait_max);
        let handle = self.handle.clone();
        self.nothing_left = Some(Box::pin(async move {
            if handle.nothing_left(horizon).await.is_err() {
                // The loop learns of it from the actions.
                std::future::pending().await
            }
        }));
    }

    /// Looks at once.
    pub(super) fn now(&mut self) {
        self.ticks.reset_immediately();
    }

    /// Looks again after a moment: nothing seems to be left.
    pub(super) fn once_more(&mut self) {
        self.ticks.reset_after(QUIET);
    }
}
