//! A worker: one thread that owns several partitions, their journals and their workbench.
//!
//! Offers and reports arrive through bounded channels ([`Handle`]). A **tick** of the loop takes some of them, feeds
//! the frontier, starts writing the new entries to the journals, folds the groups that are durable, and hands out the
//! next actions ([`Actions`]). Then the thread sleeps until input arrives, a group becomes durable, or a timer of the
//! frontier expires. The loop never waits for a journal: a slow journal delays its own partition, and by backpressure
//! the callers that offer URLs to this partition. While nothing consumes actions, no more tickets are handed out. While
//! the disk is full, nothing is handed out and no offers are taken: see `full`.
//!
//! A worker that is dropped instead of stopped loses all entries that are not durable yet, as after a crash.
//! [`Worker::open`] is the same in both cases: a replay folds the groups of the journals that follow the states.
//!
//! Invariants: one thread touches the frontier; actions follow only from durable entries; memory is bounded by the
//! constants below and the frontier's settings.

mod commit;
mod full;
mod hand_over;
mod handle;
mod intake;
mod log;
mod stats;
#[cfg(test)]
mod tests;
mod tick;

use std::collections::VecDeque;
use std::sync::{Arc, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use nephila_core::entry::ChainError;
use nephila_core::frontier::away::ErrandAction;
use nephila_core::frontier::{Action, Config, Frontier, SlotAction};
use nephila_core::key::{Prefixes, Secret};
use nephila_core::state::{Durable, StateError};
use nephila_core::time::Seconds;
use nephila_log::{GroupLog, Wake};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock::{Clock, Gate};
use commit::replay_into;
use hand_over::PartitionRequest;
use handle::{Batch, Event, SaysOver, Shared};
use intake::Feeding;
pub use intake::INBOX;
use log::{Log, Waiter};

pub use hand_over::{Closed, PartitionPort};
pub use handle::offered;
pub use handle::{Actions, Command, Handle, Link, Stopped, Taken, Tallied};
pub use stats::Stats;

/// Capacity of the channel of reports, answers and questions.
pub const EVENTS_MAX: usize = 4_096;
/// Capacity of the channel of offer batches.
pub const OFFER_BATCHES_MAX: usize = 32;
/// Maximum number of offers in a batch; longer lists are split.
pub const OFFERS_IN_BATCH_MAX: usize = 512;
/// Capacity of the channel of partitions to be taken over.
pub const PARTS_INCOMING_MAX: usize = 64;
/// Capacity of the channel of actions. Small: a ticket in this channel counts as started.
pub const ACTIONS_MAX: usize = 64;

/// Maximum number of events taken in one tick.
const EVENTS_AT_ONCE: usize = 1_024;
/// Maximum number of batches taken in one tick.
const BATCHES_AT_ONCE: usize = 16;
/// Maximum number of actions handed out in one tick.
const ACTIONS_AT_ONCE: usize = 256;
/// Maximum number of callers that wait for durability. Beyond, no input is taken until some have their answer.
const WAITERS_MAX: usize = 4_096;
/// Maximum number of bytes fed to the frontier that are in no group yet. Beyond, no input is taken until some are.
const FED_BYTES_MAX: usize = 32 << 20;
/// Number of callers waiting for durability beyond which no group waits for `group_delay_max`.
const WAITERS_MANY: usize = 512;
/// Bytes fed to a partition from which its next group no longer counts as small.
const LITTLE_BYTES: usize = 256 << 10;
/// Maximum number of batches that wait for room in a partition while others overtake them.
const FEEDING_MAX: usize = 64;
/// Polling interval of the frontier while nothing consumes actions, in milliseconds: tickets may have expired.
const HELD_BACK_LOOK: u64 = 100;
/// The shortest sleep, in milliseconds.
const SLEEP_MIN: u64 = 1;
/// The longest sleep, in milliseconds.
const SLEEP_MAX: u64 = 60_000;
/// Interval between retries while the disk is full.
const DISK_FULL_PAUSE: Duration = Duration::from_secs(1);
/// Number of [`DISK_FULL_PAUSE`]s that a stopping worker waits for room on a full disk.
const STOP_PAUSES_MAX: usize = 10;
/// Maximum number of states that are checkpointed at once when a worker stops. A checkpoint mostly waits for the disk.
const CHECKPOINTS_AT_ONCE: usize = 8;
/// Maximum number of commit rounds when a worker stops. One suffices; a second writes entries that follow from the
/// first.
const STOP_ROUNDS_MAX: usize = 8;

/// How often a worker writes to its logs. Section `[worker]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Maximum delay before new entries are written and synced, if the disk keeps up. Shorter: a page is done sooner;
    /// longer: fewer syncs.
    #[serde(with = "humantime_serde")]
    pub group_delay: Duration,
    /// Maximum delay of small groups while there is more to fetch than the fetchers take.
    #[serde(with = "humantime_serde")]
    pub group_delay_max: Duration,
    /// Number of waiting offers in a partition from which they are processed without waiting for `group_delay`.
    pub sift_offers_min: usize,
    /// Maximum bytes of a partition's state in memory alone. Beyond, the partition is checkpointed and its journal
    /// shortened.
    pub dirty_bytes_max: usize,
    /// Maximum bytes of all partitions' states in memory alone. Beyond, the largest partition is checkpointed.
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

/// Why a worker ended. The journals are intact: reopen the worker once the cause is fixed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A state failed.
    #[error(transparent)]
    State(#[from] StateError),
    /// A log failed.
    #[error(transparent)]
    Log(#[from] nephila_log::Error),
    /// A group in a journal does not follow the state. State and journal belong to different partitions, or one of them
    /// was restored without the other.
    #[error("group {sequence} of the journal: {source}")]
    Chain {
        /// The number of the group.
        sequence: u64,
        /// The mismatch.
        source: ChainError,
    },
    /// The journal ends before the state: a part of the journal is missing, or the journal belongs to another
    /// partition.
    #[error("the journal ends with group {journal}, the state is at group {state}")]
    Behind {
        /// The last group in the state.
        state: u64,
        /// The last group in the journal.
        journal: u64,
    },
    /// The worker was stopped while the disk was full. Everything acknowledged as durable is durable; the rest is lost.
    #[error("the disk is full: what was not durable yet is lost")]
    DiskFull,
    /// The thread could not be started.
    #[error("no thread for the worker: {0}")]
    Thread(#[source] std::io::Error),
}

/// A partition that a worker is to own.
#[derive(Debug)]
pub struct Part<S> {
    /// The key prefixes that the partition holds.
    pub prefixes: Prefixes,
    /// The state, which may be behind the journal.
    pub state: S,
    /// The log.
    pub log: Box<dyn GroupLog>,
}

impl<S: Durable> Part<S> {
    /// Folds the groups of the log that follow the state, and returns their number. No other owner may hand out tickets
    /// of this partition meanwhile.
    pub fn replay(&mut self, dirty_bytes_max: usize) -> Result<u64, Error> {
        replay_into(self, dirty_bytes_max)
    }
}

/// A worker that was started.
#[derive(Debug)]
pub struct Running {
    /// The handle for calls to the worker.
    pub handle: Handle,
    /// The actions that the worker hands out.
    pub actions: Actions,
    /// The thread, which ends with the worker.
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
    /// Notified when a group has become durable.
    landed: Arc<Notify>,
    /// Offers taken from the channel that still wait for room: those of a few batches.
    feeding: VecDeque<Feeding>,
    /// Set while the disk is full: the time of the next retry, in milliseconds.
    full_until: Option<u64>,
    stats: Stats,
    shared: Arc<Shared>,
    /// While this gate is closed, nothing is handed out.
    gate: Option<Gate>,
    /// Whether there is more to fetch than the fetchers take.
    sated: bool,
    /// Receives messages about turns, if addresses are shared with other nodes.
    slot_actions: Option<mpsc::Sender<SlotAction>>,
    /// Receives errands for other nodes, if there are other nodes.
    errands: Option<mpsc::Sender<ErrandAction>>,
    /// Callers that wait until nothing is left before a horizon: the loop of a crawl.
    ends: Vec<(Seconds, oneshot::Sender<()>)>,
}

/// The worker's ends of the channels.
#[derive(Debug)]
struct Channels<S> {
    events: mpsc::Receiver<Event>,
    offers: mpsc::Receiver<Batch>,
    /// Partitions to be taken over, and visits to owned partitions.
    parts: mpsc::Receiver<PartitionRequest<S>>,
    /// The most recently received request.
    came: Option<PartitionRequest<S>>,
    /// None once the receiver is gone.
    actions: Option<mpsc::Sender<Action>>,
    /// The reply channel of the stop: answered when the stop is done; after a failure only closed, once the error is
    /// readable.
    stop: Option<oneshot::Sender<Box<Stats>>>,
}

impl<S: Durable + Send> Worker<S> {
    /// Opens a worker of these partitions, after a replay of their journals.
    pub fn open(
        config: Config,
        settings: Settings,
        secret: Secret,
        mut parts: Vec<Part<S>>,
        clock: Clock,
    ) -> Result<Worker<S>, Error> {
        let mut stats = Stats::default();
        // The frontier sorts the partitions as well; the journals must have the same order.
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

    /// A worker without partitions, which arrive by [`PartitionPort::bring`]. Tickets carry this epoch, which no other
    /// process may ever use.
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

    /// Hands out nothing while this gate is closed.
    pub fn behind(mut self, gate: Gate) -> Worker<S> {
        self.gate = Some(gate);
        self
    }

    /// Makes this worker one of several nodes: no request to an address without a turn, and none to a host of another
    /// node. Messages to other nodes leave through these channels; their answers arrive by [`Handle`].
    pub fn sharing(
        mut self,
        slot_actions: mpsc::Sender<SlotAction>,
        errands: mpsc::Sender<ErrandAction>,
    ) -> Worker<S> {
        self.frontier.share_slots();
        self.frontier.share_errands();
        (self.slot_actions, self.errands) = (Some(slot_actions), Some(errands));
        self
    }

    /// The callback by which a log signals that a group is durable.
    fn wake(&self) -> Wake {
        let landed = self.landed.clone();
        Wake::new(move || landed.notify_one())
    }

    fn with(frontier: Frontier<S>, settings: Settings, clock: Clock, stats: Stats) -> Worker<S> {
        let shared = Arc::new(Shared {
            secret: *frontier.secret(),
            spread: RwLock::default(),
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
            slot_actions: None,
            errands: None,
            ends: Vec::new(),
        }
    }
}

impl<S: Durable + Send + 'static> Worker<S> {
    /// Starts the thread, with a fixed set of partitions.
    pub fn spawn(self) -> Result<Running, Error> {
        self.spawn_open().map(|(running, _)| running)
    }

    /// Starts the thread, with a port through which partitions are brought.
    pub fn spawn_open(self) -> Result<(Running, PartitionPort<S>), Error> {
        let (events, events_in) = mpsc::channel(EVENTS_MAX);
        let (offers, offers_in) = mpsc::channel(OFFER_BATCHES_MAX);
        let (actions_out, actions) = mpsc::channel(ACTIONS_MAX);
        let (port, parts) = mpsc::channel(PARTS_INCOMING_MAX);
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
        // The runtime only waits; the states may block this thread.
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().build().map_err(Error::Thread)?;
        let thread = std::thread::Builder::new().name("worker".into()).spawn(move || {
            let _over = SaysOver(shared.clone());
            let mut channels = channels;
            let result = crate::process::block_on(&runtime, self.run(&mut channels));
            if let Err(error) = &result {
                // Set before the channels close, so that a caller that learns of the end can read the cause.
                _ = shared.failure.set(error.to_string().into());
            }
            drop(channels);
            result
        });
        let running = Running { handle, actions: Actions(actions), thread: thread.map_err(Error::Thread)? };
        Ok((running, PartitionPort(port)))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
