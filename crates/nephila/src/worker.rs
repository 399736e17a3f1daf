//! A worker: one thread that owns several partitions, their journals and their workbench.
//!
//! What others find and report comes in through bounded channels ([`Handle`]). A **turn** of the loop takes some of it,
//! feeds the frontier, sends what became true on its way into the journals, folds what has arrived there, and hands out
//! what should be done next ([`Actions`]). Then the thread sleeps until something comes in, a group has arrived, or the
//! frontier wants to be woken. It never waits for a journal: one that is slow holds up its own partition, and in the end
//! those who offer to it. If nobody takes actions, no more tickets are given out. If the disk is full, nothing is handed
//! out and no offers are taken until there is room: see `full`.
//!
//! A worker that is dropped instead of stopped has lost what was not yet durable, as after a crash. [`Worker::open`] is
//! the same in both cases: it folds what stands in the journals behind the states.
//!
//! What always holds: one thread touches the frontier; what is handed out follows only from what is durable; memory is
//! bounded by the constants below and the frontier's settings.

mod commit;
mod full;
mod hand_over;
mod handle;
mod intake;
mod log;
mod stats;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use nephila_core::entry::ChainError;
use nephila_core::frontier::away::ErrandAction;
use nephila_core::frontier::{Action, Config, Frontier, TurnAction};
use nephila_core::key::{HostKey, Prefixes, Secret};
use nephila_core::state::{Durable, StateError};
use nephila_log::{GroupLog, Wake};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock::{Clock, Gate};
use commit::replay_into;
use full::Takes;
use hand_over::Knock;
use handle::{Batch, Event, SaysOver, Shared};
use intake::Feeding;
pub(crate) use intake::INBOX;
use log::{Log, Waiter};

pub use hand_over::{Closed, Door};
pub(crate) use handle::offered;
pub use handle::{Actions, Command, Handle, Link, Stopped, Taken, Tallied};
pub use stats::Stats;

/// Reports, answers and questions that wait for the worker.
pub const EVENTS_MAX: usize = 4_096;
/// Batches of offers that wait for the worker.
pub const OFFER_BATCHES_MAX: usize = 32;
/// Offers in a batch; longer lists are cut into several.
pub const OFFERS_IN_BATCH_MAX: usize = 512;
/// Partitions that wait to be taken over.
pub const PARTS_COMING_MAX: usize = 64;
/// Actions that wait to be started. Few: a ticket that waits here counts as started.
pub const ACTIONS_MAX: usize = 64;

/// Events taken in one turn.
const EVENTS_AT_ONCE: usize = 1_024;
/// Batches taken in one turn.
const BATCHES_AT_ONCE: usize = 16;
/// Actions handed out in one turn.
const ACTIONS_AT_ONCE: usize = 256;
/// Callers that wait for something to be durable; with more nothing is taken until some have left.
const WAITERS_MAX: usize = 4_096;
/// Bytes fed to the frontier that are in no group yet; with more nothing is taken until some are.
const FED_BYTES_MAX: usize = 32 << 20;
/// Callers that wait for something to be durable; with more nothing waits for `group_delay_max`.
const WAITERS_MANY: usize = 512;
/// With so many bytes fed to it a partition's next group is not little.
const LITTLE_BYTES: usize = 256 << 10;
/// Batches that wait for room in a partition while others pass them.
const FEEDING_MAX: usize = 64;
/// While nobody takes actions, the frontier is looked at this often, in milliseconds: tickets may have expired.
const HELD_BACK_LOOK: u64 = 100;
/// The shortest sleep, in milliseconds.
const SLEEP_MIN: u64 = 1;
/// The longest sleep, in milliseconds.
const SLEEP_MAX: u64 = 60_000;
/// While the disk is full, it is tried again this often.
const DISK_FULL_PAUSE: Duration = Duration::from_secs(1);
/// A worker that is told to stop while the disk is full waits so many of these pauses for room.
const STOP_PAUSES_MAX: usize = 10;
/// Rounds of commits when a worker stops. One is enough; a second follows what the first brought up.
const STOP_ROUNDS_MAX: usize = 8;

/// How often a worker writes. Section `[worker]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What became true is durable after this time at the latest, if the disk keeps up. Shorter: a page is done sooner;
    /// longer: fewer syncs.
    #[serde(with = "humantime_serde")]
    pub group_delay: Duration,
    /// While there is more to fetch than can be fetched, what is little waits up to this time instead.
    #[serde(with = "humantime_serde")]
    pub group_delay_max: Duration,
    /// So many offers in a partition are looked at without waiting for `group_delay`.
    pub sift_offers_min: usize,
    /// A partition with more than this in memory alone makes a checkpoint, and its journal is shortened. In bytes.
    pub dirty_bytes_max: usize,
    /// While all partitions together have more than this in memory alone, the one with the most makes a checkpoint. In bytes.
    pub dirty_bytes_all_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            group_delay: Duration::from_millis(50),
            group_delay_max: Duration::from_millis(50),
            sift_offers_min: 4_096,
            dirty_bytes_max: 32 << 20,
            dirty_bytes_all_max: 64 << 20,
        }
    }
}

/// Why a worker ended. The journals are whole: open it again once the reason is gone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A state failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// A log failed.
    #[error(transparent)]
    Log(#[from] nephila_log::Error),
    /// A group in a journal does not follow the state. State and journal are not of the same partition, or one of them
    /// was restored without the other.
    #[error("group {sequence} of the journal: {source}")]
    Chain {
        /// Its number.
        sequence: u64,
        /// What is wrong.
        source: ChainError,
    },
    /// The journal ends before the state: a part of it is gone, or it is of another partition.
    #[error("the journal ends with group {journal}, the state is at group {state}")]
    Behind {
        /// Where the state stands.
        state: u64,
        /// Where the journal ends.
        journal: u64,
    },
    /// The worker was told to stop while the disk was full. What was said to be durable is; the rest is lost.
    #[error("the disk is full: what was not durable yet is lost")]
    DiskFull,
    /// The thread could not be made.
    #[error("no thread for the worker: {0}")]
    Thread(#[source] std::io::Error),
}

/// A partition that a worker is to own.
#[derive(Debug)]
pub struct Part<S> {
    /// What it holds.
    pub prefixes: Prefixes,
    /// Its state, which may be behind its journal.
    pub state: S,
    /// Its log.
    pub log: Box<dyn GroupLog>,
}

impl<S: Durable> Part<S> {
    /// Folds what stands in the log behind the state, and says how many groups that were. Nothing may be handed out by
    /// anybody else meanwhile.
    pub fn replay(&mut self, dirty_bytes_max: usize) -> Result<u64, Error> {
        replay_into(self, dirty_bytes_max)
    }
}

/// A worker that was started.
#[derive(Debug)]
pub struct Running {
    /// Speaks to it.
    pub handle: Handle,
    /// What it wants done.
    pub actions: Actions,
    /// Ends with the worker.
    pub thread: JoinHandle<Result<(), Error>>,
}

/// See the module.
#[derive(Debug)]
pub struct Worker<S> {
    frontier: Frontier<S>,
    /// In the order of the frontier's partitions.
    logs: Vec<Log>,
    settings: Settings,
    clock: Clock,
    waiters: Vec<Waiter>,
    /// Told when a group has arrived.
    landed: Arc<Notify>,
    /// Offers that were taken and for which there is no room yet: those of a few batches.
    feeding: VecDeque<Feeding>,
    /// The disk is full, and is tried again at this moment, in milliseconds.
    full_until: Option<u64>,
    stats: Stats,
    shared: Arc<Shared>,
    /// Closed while nothing may be handed out.
    gate: Option<Gate>,
    /// There is more to fetch than anybody takes.
    sated: bool,
    /// Hears what is to be said about turns, if addresses are shared with other nodes.
    turns: Option<mpsc::Sender<TurnAction>>,
    /// Hears what is to be sent to other nodes about errands, if there are any.
    errands: Option<mpsc::Sender<ErrandAction>>,
}

/// The worker's ends of the channels.
#[derive(Debug)]
struct Channels<S> {
    events: mpsc::Receiver<Event>,
    offers: mpsc::Receiver<Batch>,
    /// Partitions that come, and visits to those that are here.
    parts: mpsc::Receiver<Knock<S>>,
    /// What came last.
    came: Option<Knock<S>>,
    /// None once nobody will take any more.
    actions: Option<mpsc::Sender<Action>>,
    /// Whoever said stop: told when it is done, or else by the end of the channels, once it can be asked why.
    stop: Option<oneshot::Sender<Box<Stats>>>,
}

/// What handing out came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HandedOut {
    /// There may be more at once.
    More,
    /// There is nothing to do right now.
    All,
    /// Nobody takes what there is.
    HeldBack,
    /// Nothing was: the disk is full, or the gate is closed.
    NotNow,
}

impl<S: Durable> Worker<S> {
    /// A worker of these partitions, once everything in their journals is folded.
    pub fn open(
        config: Config,
        settings: Settings,
        secret: Secret,
        mut parts: Vec<Part<S>>,
        clock: Clock,
    ) -> Result<Worker<S>, Error> {
        let mut stats = Stats::default();
        // The frontier sorts them as well; the journals have to stand in the same order.
        parts.sort_by_key(|part| part.prefixes);
        let share = settings.dirty_bytes_all_max / parts.len().max(1);
        for part in &mut parts {
            stats.replayed += part.replay(settings.dirty_bytes_max.min(share))?;
        }
        let fresh = parts.iter().all(|part| part.state.position().sequence == 0);
        let began = (!fresh).then(|| clock.now());
        let (mut logs, mut states) = (Vec::new(), Vec::new());
        for Part { prefixes, state, log } in parts {
            logs.push((prefixes, log));
            states.push((prefixes, state));
        }
        let frontier = Frontier::new(config, secret, states, began);
        let mut worker = Worker::with(frontier, settings, clock, stats);
        let wake = worker.wake();
        worker.logs = logs.into_iter().map(|(prefixes, log)| Log::new(prefixes, log, &wake)).collect();
        worker.publish_prefixes();
        Ok(worker)
    }

    /// A worker without partitions: they come by [`Door::bring`]. Its tickets carry this epoch, which no other process
    /// may ever use.
    pub fn empty(
        config: Config,
        settings: Settings,
        secret: Secret,
        ticket_epoch: u64,
        clock: Clock,
    ) -> Worker<S> {
        let frontier = Frontier::empty(config, secret, ticket_epoch);
        Worker::with(frontier, settings, clock, Stats::default())
    }

    /// Hands out nothing while this is closed.
    pub fn behind(mut self, gate: Gate) -> Worker<S> {
        self.gate = Some(gate);
        self
    }

    /// One of several nodes: asks no address without its turn, and no host of another node at all. What it wants from the
    /// others it says here; what they answer comes by [`Handle`].
    pub(crate) fn sharing(
        mut self,
        turns: mpsc::Sender<TurnAction>,
        errands: mpsc::Sender<ErrandAction>,
    ) -> Worker<S> {
        self.frontier.share_slots();
        self.frontier.share_errands();
        (self.turns, self.errands) = (Some(turns), Some(errands));
        self
    }

    /// By this a log says that a group has arrived.
    fn wake(&self) -> Wake {
        let landed = self.landed.clone();
        Wake::new(move || landed.notify_one())
    }

    fn with(frontier: Frontier<S>, settings: Settings, clock: Clock, stats: Stats) -> Worker<S> {
        let shared = Arc::new(Shared {
            secret: *frontier.secret(),
            prefixes: RwLock::default(),
            failure: Default::default(),
            over: Default::default(),
        });
        Worker {
            frontier,
            logs: Vec::new(),
            settings,
            clock,
            waiters: Vec::new(),
            landed: Arc::new(Notify::new()),
            feeding: VecDeque::new(),
            full_until: None,
            stats,
            shared,
            gate: None,
            sated: false,
            turns: None,
            errands: None,
        }
    }
}

impl<S: Durable + Send + 'static> Worker<S> {
    /// Starts its thread. It keeps the partitions it has.
    pub fn spawn(self) -> Result<Running, Error> {
        self.spawn_open().map(|(running, _)| running)
    }

    /// Starts its thread, with a door through which partitions come.
    pub fn spawn_open(self) -> Result<(Running, Door<S>), Error> {
        let (events, events_in) = mpsc::channel(EVENTS_MAX);
        let (offers, offers_in) = mpsc::channel(OFFER_BATCHES_MAX);
        let (actions_out, actions) = mpsc::channel(ACTIONS_MAX);
        let (door, parts) = mpsc::channel(PARTS_COMING_MAX);
        let shared = self.shared.clone();
        let handle = Handle { events, offers, shared: shared.clone() };
        let actions_out = Some(actions_out);
        let channels = Channels {
            events: events_in,
            offers: offers_in,
            parts,
            came: None,
            actions: actions_out,
            stop: None,
        };
        // The runtime does nothing but wait; whatever the states do may block this thread.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(Error::Thread)?;
        let thread = std::thread::Builder::new().name("worker".into()).spawn(move || {
            let _over = SaysOver(shared.clone());
            let mut channels = channels;
            let result = runtime.block_on(self.run(&mut channels));
            if let Err(error) = &result {
                // Before the channels close: who is told that we ended finds out why.
                _ = shared.failure.set(error.to_string().into());
            }
            drop(channels);
            result
        });
        let running = Running { handle, actions: Actions(actions), thread: thread.map_err(Error::Thread)? };
        Ok((running, Door(door)))
    }
}

impl<S: Durable> Worker<S> {
    async fn run(mut self, channels: &mut Channels<S>) -> Result<(), Error> {
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        let mut batches = Vec::with_capacity(BATCHES_AT_ONCE);
        loop {
            self.stats.turns += 1;
            self.frontier.handle_timeout(self.clock.now())?;
            self.land()?;
            self.note_dirty();
            match self.full_until {
                None => {
                    self.commit_due()?;
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
            // Handing out may turn URLs away, which has to be written as well.
            self.note_dirty();

            let sleep = self.sleep(handed_out);
            let takes = self.takes();
            let woken = self.landed.notified();
            if !channels.wait(sleep, woken, handed_out, takes, &mut events, &mut batches).await {
                // All handles are gone, and nobody said stop: as after a crash.
                return Ok(());
            }
            self.feeding.extend(batches.drain(..).map(Feeding::of));
            self.feed()?;
            if let Some(knock) = channels.came.take() {
                self.let_in(knock);
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
                // States and journals are closed before anybody hears that this is over.
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

    /// Takes everything in that was said before, and makes it durable.
    async fn stop(&mut self, channels: &mut Channels<S>) -> Result<Stats, Error> {
        channels.actions = None;
        channels.offers.close();
        channels.events.close();
        // All of it: what was offered before the stop is taken in. The channel is bounded, and nobody sends any more.
        while let Some(batch) = channels.offers.recv().await {
            self.feeding.push_back(Feeding::of(batch));
        }
        while let Some(event) = channels.events.recv().await {
            // A second stop is answered by the end of the worker.
            self.handle(event)?;
        }
        self.write_all().await?;
        for partition in 0..self.logs.len() {
            self.checkpoint(partition)?;
        }
        Ok(self.stats())
    }

    /// Hands out what should be done now, as far as somebody takes it.
    fn hand_out(&mut self, channels: &mut Channels<S>) -> Result<HandedOut, Error> {
        if self.is_full() || self.gate.as_ref().is_some_and(|gate| !gate.is_open()) {
            return Ok(HandedOut::NotNow);
        }
        // Whoever took them is gone; waiting for room would never end.
        channels.actions.take_if(|actions| actions.is_closed());
        let Some(actions) = &channels.actions else { return Ok(HandedOut::HeldBack) };
        for _ in 0..ACTIONS_AT_ONCE {
            // A place first, then the ticket: one that was taken and not handed out would block its host.
            let place = match actions.try_reserve() {
                Ok(place) => place,
                Err(TrySendError::Full(()) | TrySendError::Closed(())) => {
                    self.stats.held_back += 1;
                    return Ok(HandedOut::HeldBack);
                }
            };
            // Asked each time: a start that is noted too early would shorten the rest that follows it.
            let Some(action) = self.frontier.poll_action(self.clock.now())? else {
                return Ok(HandedOut::All);
            };
            self.stats.actions += 1;
            place.send(action);
        }
        Ok(HandedOut::More)
    }

    /// Says what there is to say about turns, as far as somebody takes it. Also while nothing is handed out: a turn that
    /// cannot be used is another node's.
    fn say_turns(&mut self) {
        let Some(turns) = &self.turns else { return };
        while let Ok(place) = turns.try_reserve() {
            let Some(action) = self.frontier.poll_turn(self.clock.now()) else { return };
            place.send(action);
        }
    }

    /// Says what is to be sent to other nodes, as far as somebody takes it. The rest is tried again soon.
    fn say_errands(&mut self) {
        let Some(errands) = &self.errands else { return };
        while let Ok(place) = errands.try_reserve() {
            let Some(action) = self.frontier.poll_errand() else { return };
            place.send(action);
        }
    }

    /// How long there is nothing to do unless something comes in.
    fn sleep(&self, handed_out: HandedOut) -> Duration {
        let now = self.clock.now();
        if let Some(until) = self.full_until {
            return Duration::from_millis(until.saturating_sub(now.mono).max(SLEEP_MIN));
        }
        // What is on its way calls when it has arrived.
        let here = self.logs.iter().filter(|log| !log.is_under_way());
        let groups = here.filter_map(|log| Some(log.dirty_since? + self.group_delay(log))).min();
        let frontier = match handed_out {
            HandedOut::More => Some(now.mono),
            HandedOut::All => self.frontier.poll_timeout(now),
            HandedOut::HeldBack | HandedOut::NotNow => {
                self.frontier.poll_timeout(now).map(|at| at.max(now.mono + HELD_BACK_LOOK))
            }
        };
        let wake = groups.into_iter().chain(frontier).min();
        let sleep = wake.map_or(SLEEP_MAX, |at| at.saturating_sub(now.mono).min(SLEEP_MAX));
        // Whoever has just handed out all it could has nothing to do for the rest of this millisecond.
        let least = if handed_out == HandedOut::More { 0 } else { SLEEP_MIN };
        Duration::from_millis(sleep.max(least))
    }

    fn stats(&mut self) -> Stats {
        let dirty_bytes =
            (0..self.logs.len()).map(|partition| self.frontier.state(partition).dirty_bytes()).sum();
        Stats {
            frontier: self.frontier.stats(),
            gauges: self.frontier.gauges(),
            totals: self.frontier.totals(),
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
    /// Waits until there is something to do and takes what came in. False if nothing can come any more.
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
            knock = next_part(&mut self.parts) => self.came = Some(knock),
            () = tokio::time::sleep(sleep) => {}
        }
        // The one that was looked at second must not starve.
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

/// The next that comes through the door. Never, once nobody has it any more.
async fn next_part<S>(parts: &mut mpsc::Receiver<Knock<S>>) -> Knock<S> {
    match parts.recv().await {
        Some(knock) => knock,
        None => std::future::pending().await,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
