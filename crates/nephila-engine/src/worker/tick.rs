//! The loop of a worker: one tick after another, until the stop.
//!
//! Invariants: the loop waits for input, for a durable group or for a timer, never for a journal; a ticket is taken
//! only when the channel has room.

use std::time::Duration;

use nephila_core::frontier::outlook::Left;
use nephila_core::state::Durable;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::full::Takes;
use super::hand_over::PartitionRequest;
use super::handle::{Batch, Event};
use super::intake::Feeding;
use super::log::Log;
use super::{
    ACTIONS_AT_ONCE, BATCHES_AT_ONCE, Channels, EVENTS_AT_ONCE, Error, HELD_BACK_LOOK, SLEEP_MAX, SLEEP_MIN,
    Stats, Worker,
};

/// The result of handing out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandedOut {
    /// There may be more right now.
    More,
    /// There is nothing to do right now.
    All,
    /// The channel is full, or the receiver is gone.
    HeldBack,
    /// Nothing was handed out: the disk is full, or the gate is closed.
    NotNow,
}

impl<S: Durable + Send> Worker<S> {
    pub(super) async fn run(mut self, channels: &mut Channels<S>) -> Result<(), Error> {
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        let mut batches = Vec::with_capacity(BATCHES_AT_ONCE);
        loop {
            self.stats.ticks += 1;
            self.frontier.handle_timeout(self.clock.now())?;
            self.land()?;
            self.note_dirty();
            match self.full_until {
                None => {
                    let is_awaited = self.is_awaited(channels);
                    self.commit_due(is_awaited)?;
                    self.give_away()?;
                    self.checkpoint_due(false)?;
                }
                Some(until) if until <= self.clock.now().mono => self.try_again()?,
                Some(_) => {}
            }
            self.feed()?;
            let handed_out = self.hand_out(channels)?;
            self.sated = handed_out == HandedOut::HeldBack;
            self.say_turns();
            self.say_errands();
            // Handing out may refuse URLs; these refusals must be written as well.
            self.note_dirty();
            self.tell_the_end(handed_out)?;

            let sleep = self.sleep(handed_out, self.is_awaited(channels));
            let takes = self.takes();
            let woken = self.landed.notified();
            if !channels.wait(sleep, woken, handed_out, takes, &mut events, &mut batches).await {
                // All handles are gone without a stop: as after a crash.
                return Ok(());
            }
            self.feeding.extend(batches.drain(..).map(Feeding::of));
            self.feed()?;
            if let Some(request) = channels.came.take() {
                self.let_in(request);
            }
            for event in events.drain(..) {
                if let Event::Stop(reply) = event {
                    channels.stop = Some(reply);
                } else {
                    self.handle(event)?;
                }
            }
            if channels.stop.is_some() {
                let stats = self.stop(channels).await?;
                // States and journals are closed before the caller learns that the worker has stopped.
                drop(self);
                if let Some(reply) = channels.stop.take() {
                    _ = reply.send(Box::new(stats));
                }
                return Ok(());
            }
            if self.has_much() {
                self.begin_all()?;
            }
        }
    }

    /// Takes all input sent before the stop, and makes it durable.
    async fn stop(&mut self, channels: &mut Channels<S>) -> Result<Stats, Error> {
        channels.actions = None;
        channels.offers.close();
        channels.events.close();
        // Drains the channel, which is bounded and closed: every offer sent before the stop is taken.
        while let Some(batch) = channels.offers.recv().await {
            self.feeding.push_back(Feeding::of(batch));
        }
        while let Some(event) = channels.events.recv().await {
            // A second stop is answered by the end of the worker.
            self.handle(event)?;
        }
        self.write_all().await?;
        self.checkpoint_all()?;
        Ok(self.stats())
    }

    /// Whether nothing can happen before the next groups are durable: there is no input, every open ticket waits for
    /// them, and no host is due before they would be written anyway. To wait for more entries is then of no use. On a
    /// node of a cluster others may send something at any time.
    fn is_awaited(&self, channels: &Channels<S>) -> bool {
        let is_dirty = |log: &Log| log.dirty_since.is_some() && !log.is_under_way();
        if self.slot_actions.is_some() || !self.feeding.is_empty() || !self.logs.iter().any(is_dirty) {
            return false;
        }
        let has_input = !channels.events.is_empty() || !channels.offers.is_empty();
        if has_input || self.waiters.len() < self.frontier.open_tickets() {
            return false;
        }
        let now = self.clock.now();
        let soon = now.mono + super::millis(self.settings.group_delay);
        self.frontier.poll_timeout(now).is_none_or(|at| at > soon)
    }

    /// Tells those who wait for the end that nothing is left. While there are URLs in queues, this is not looked into:
    /// it would visit every host of a large crawl again and again.
    fn tell_the_end(&mut self, handed_out: HandedOut) -> Result<(), Error> {
        let is_busy = handed_out != HandedOut::All
            || !self.feeding.is_empty()
            || self.frontier.open_tickets() > 0
            || self.frontier.has_waiting();
        if self.ends.is_empty() || is_busy {
            return Ok(());
        }
        let now = self.clock.now();
        for (horizon, reply) in std::mem::take(&mut self.ends) {
            match self.frontier.left(horizon, now)? {
                // The caller may have left.
                Left::Nothing => _ = reply.send(()),
                Left::Held | Left::Work => self.ends.push((horizon, reply)),
            }
        }
        Ok(())
    }

    /// Hands out the actions that are due, up to the capacity of the channel.
    fn hand_out(&mut self, channels: &mut Channels<S>) -> Result<HandedOut, Error> {
        if self.is_full() || self.gate.as_ref().is_some_and(|gate| !gate.is_open()) {
            return Ok(HandedOut::NotNow);
        }
        // The receiver is gone; waiting for room would never end.
        channels.actions.take_if(|actions| actions.is_closed());
        let Some(actions) = &channels.actions else { return Ok(HandedOut::HeldBack) };
        for _ in 0..ACTIONS_AT_ONCE {
            // First a permit of the channel, then the ticket: a ticket that is taken and not handed out would block its
            // host.
            let place = match actions.try_reserve() {
                Ok(place) => place,
                Err(TrySendError::Full(()) | TrySendError::Closed(())) => {
                    self.stats.held_back += 1;
                    return Ok(HandedOut::HeldBack);
                }
            };
            // The clock is read for each action: a start time that is too early would shorten the crawl delay that
            // follows.
            let Some(action) = self.frontier.poll_action(self.clock.now())? else {
                return Ok(HandedOut::All);
            };
            self.stats.actions += 1;
            place.send(action);
        }
        Ok(HandedOut::More)
    }

    /// Sends pending messages about turns, up to the capacity of the channel. Also while nothing is handed out: an
    /// unusable turn is returned to other nodes.
    fn say_turns(&mut self) {
        let Some(slot_actions) = &self.slot_actions else { return };
        while let Ok(place) = slot_actions.try_reserve() {
            let Some(action) = self.frontier.poll_turn(self.clock.now()) else { return };
            place.send(action);
        }
    }

    /// Sends pending errands to other nodes, up to the capacity of the channel. The rest is retried soon.
    fn say_errands(&mut self) {
        let Some(errands) = &self.errands else { return };
        while let Ok(place) = errands.try_reserve() {
            let Some(action) = self.frontier.poll_errand() else { return };
            place.send(action);
        }
    }

    /// The time to sleep unless input arrives.
    fn sleep(&self, handed_out: HandedOut, is_awaited: bool) -> Duration {
        let now = self.clock.now();
        if let Some(until) = self.full_until {
            return Duration::from_millis(until.saturating_sub(now.mono).max(SLEEP_MIN));
        }
        // A group under way wakes the worker when it is durable.
        let here = self.logs.iter().filter(|log| !log.is_under_way());
        let delay = |log: &Log| if is_awaited { 0 } else { self.group_delay(log) };
        let groups = here.filter_map(|log| Some(log.dirty_since? + delay(log))).min();
        let frontier = match handed_out {
            HandedOut::More => Some(now.mono),
            HandedOut::All => self.frontier.poll_timeout(now),
            HandedOut::HeldBack | HandedOut::NotNow => {
                self.frontier.poll_timeout(now).map(|at| at.max(now.mono + HELD_BACK_LOOK))
            }
        };
        let wake = groups.into_iter().chain(frontier).min();
        let sleep = wake.map_or(SLEEP_MAX, |at| at.saturating_sub(now.mono).min(SLEEP_MAX));
        // After handing out everything possible there is nothing to do for the rest of this millisecond.
        let least = if handed_out == HandedOut::More { 0 } else { SLEEP_MIN };
        Duration::from_millis(sleep.max(least))
    }

    pub(super) fn stats(&mut self) -> Stats {
        let dirty_bytes =
            (0..self.logs.len()).map(|partition| self.frontier.state(partition).dirty_bytes()).sum();
        Stats {
            frontier: self.frontier.stats(),
            gauges: self.frontier.gauges(),
            totals: self.frontier.totals(),
            partitions: self.logs.len(),
            waiters: self.waiters.len(),
            journal_bytes: self.logs.iter().map(|log| log.log.bytes()).sum(),
            dirty_bytes,
            on_their_way: self.logs.iter().filter(|log| log.flight.is_some()).count(),
            disk_full: self.is_full(),
            ..self.stats.clone()
        }
    }
}

impl<S> Channels<S> {
    /// Waits for input, for a durable group or for the timeout, and takes the input. False once no more input can
    /// arrive.
    async fn wait(
        &mut self,
        sleep: Duration,
        landed: impl Future<Output = ()>,
        handed_out: HandedOut,
        takes: Takes,
        events: &mut Vec<Event>,
        batches: &mut Vec<Batch>,
    ) -> bool {
        let room = async {
            match &self.actions {
                Some(actions) if handed_out == HandedOut::HeldBack => _ = actions.reserve().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            count = self.events.recv_many(events, EVENTS_AT_ONCE), if takes.events => if count == 0 { return false },
            count = self.offers.recv_many(batches, BATCHES_AT_ONCE), if takes.offers => if count == 0 { return false },
            () = landed => {}
            () = room => {}
            request = next_part(&mut self.parts) => self.came = Some(request),
            () = tokio::time::sleep(sleep) => {}
        }
        // Offers, polled after events, must not starve.
        while takes.offers
            && batches.len() < BATCHES_AT_ONCE
            && let Ok(batch) = self.offers.try_recv()
        {
            batches.push(batch);
        }
        if self.came.is_none() {
            self.came = self.parts.try_recv().ok();
        }
        true
    }
}

/// The next request. Waits for ever once all ports are dropped.
async fn next_part<S>(parts: &mut mpsc::Receiver<PartitionRequest<S>>) -> PartitionRequest<S> {
    match parts.recv().await {
        Some(request) => request,
        None => std::future::pending().await,
    }
}
