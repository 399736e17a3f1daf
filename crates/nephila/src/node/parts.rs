//! Partitions of a cluster: opened from what lies on this machine and the log, and fed from their inboxes.
//!
//! What lies on this machine may be old: the log goes on from it. If it does not, something is lost or mistaken, and the
//! partition stays closed until a person has looked.
//!
//! What always holds: a partition is folded to the end of its log before it gives out anything; its inbox is read from the
//! position that its state has, so what was read and not made durable is read again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_core::cluster::message::Message;
use nephila_core::frontier::key::{Prefixes, Secret};
use nephila_core::state::State;
use nephila_log::{Error, Fence, GroupLog, Groups, Inbox};
use nephila_store::state::DiskState;

use super::session::{Session, Task};
use super::{Node, wire};
use crate::worker::{self, Door, Handle, INBOX, Part};

/// Messages of an inbox read at once.
const MESSAGES_AT_ONCE: usize = 64;
/// An inbox that has nothing is asked again after this time.
const INBOX_WAIT: Duration = Duration::from_secs(5);
/// An inbox that cannot be read is tried again after this time.
const INBOX_AGAIN: Duration = Duration::from_secs(1);
/// What was read and is durable is removed from an inbox this often.
const FORGET_EVERY: Duration = Duration::from_secs(30);

/// The states of partitions that come and go.
#[derive(Clone, Debug)]
pub(super) struct States {
    disk: wire::States,
    /// Held while a partition is being opened.
    alone: Arc<std::sync::Mutex<BTreeMap<u32, Arc<tokio::sync::Mutex<()>>>>>,
}

impl States {
    pub(super) fn new() -> anyhow::Result<States> {
        Ok(States { disk: wire::States::new()?, alone: Arc::default() })
    }

    fn alone(&self, partition: u32) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.alone.lock().expect("nobody panics holding it");
        locks.entry(partition).or_default().clone()
    }
}

/// What opening a partition needs of a session.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    pub(super) door: Door<DiskState>,
    pub(super) handle: Handle,
    pub(super) fence: Fence,
}

impl Opening {
    pub(super) fn of(session: &Session) -> Opening {
        Opening {
            door: session.door.clone(),
            handle: session.shared.handle.clone(),
            fence: session.fence.clone(),
        }
    }
}

/// Opens a partition and begins to read its inbox.
pub(super) async fn open(
    node: Arc<Node>,
    states: States,
    opening: Opening,
    partition: u32,
    epoch: u64,
) -> anyhow::Result<Task> {
    let prefixes = Prefixes::share(partition, node.cluster.partitions);
    // An earlier session may still be folding it, for nobody: its files are opened once at a time.
    let alone = states.alone(partition);
    let _alone = alone.lock().await;
    let log = node.cluster.engine.log(partition, epoch, opening.fence.clone()).await.context("its log")?;
    let folder = node.folder.state().join(format!("partition-{partition:05}"));
    let dirty_bytes_max = node.settings.worker.dirty_bytes_max;
    let fold = move || replay(&folder, &states, prefixes, Box::new(Kept(Box::new(log))), dirty_bytes_max);
    let part = tokio::task::spawn_blocking(fold).await.context("folding its log")??;
    let from = part.state.meta().inboxes.get(INBOX).copied().unwrap_or(0);
    anyhow::ensure!(opening.door.bring(part, epoch).await, "the worker has ended");
    let (inbox, secret) = (node.cluster.inbox.clone(), node.cluster.secret);
    Ok(Task::spawn(read(inbox, opening.handle, partition, prefixes, from, secret)))
}

/// A partition with everything folded that stands in its log.
fn replay(
    folder: &Path,
    states: &States,
    prefixes: Prefixes,
    log: Box<dyn GroupLog>,
    dirty_bytes_max: usize,
) -> anyhow::Result<Part<DiskState>> {
    let tables = folder.join("tables");
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let state = states.disk.open(&tables).with_context(|| tables.display().to_string())?;
    let (known, kept) = (state.position().sequence, log.synced());
    let mut part = Part { prefixes, state, log };
    // A log is only ever written behind what was folded from it: if it ends before, messages are gone that the servers
    // had acknowledged. Going on with what is left would lose URLs without a word.
    let replayed = match kept < known {
        true => Err(worker::Error::Behind { state: known, journal: kept }),
        false => part.replay(dirty_bytes_max),
    };
    let doubt = || {
        format!(
            "{} does not fit the log on the servers: either the folder is of another cluster, or the servers have \
             lost messages that they acknowledged. Restore their streams; to go on with what the log has, move the \
             folder away",
            folder.display()
        )
    };
    match replayed {
        Ok(_) => Ok(part),
        Err(error @ (worker::Error::Chain { .. } | worker::Error::Behind { .. })) => {
            Err(anyhow::Error::new(error).context(doubt()))
        }
        Err(worker::Error::Log(error)) if error.is_loss() => Err(anyhow::Error::new(error).context(doubt())),
        Err(error) => Err(error.into()),
    }
}

/// Feeds a partition from its inbox until it is dropped or the worker ends.
async fn read(
    inbox: Arc<dyn Inbox>,
    handle: Handle,
    partition: u32,
    prefixes: Prefixes,
    mut from: u64,
    secret: Secret,
) {
    let (mut forgot, mut forgot_at) = (from, Instant::now());
    loop {
        if from > forgot && forgot_at.elapsed() >= FORGET_EVERY {
            forgot_at = Instant::now();
            // If it cannot be removed now it is removed the next time.
            if handle.settled().await.is_ok() && inbox.truncate_before(partition, from + 1).await.is_ok() {
                forgot = from;
            }
        }
        let messages = match inbox.read(partition, from, MESSAGES_AT_ONCE, INBOX_WAIT).await {
            Ok(messages) => messages,
            Err(_) => {
                tokio::time::sleep(INBOX_AGAIN).await;
                continue;
            }
        };
        for (position, bytes) in messages {
            let (offers, said) = match Message::decode(&bytes, &secret) {
                Ok(Message::Offers { offers, .. }) => (offers, None),
                Ok(Message::Command(entry)) => (Vec::new(), Some(*entry)),
                Err(error) => {
                    // Nobody could ever read it; what comes behind it can be.
                    eprintln!("nephila: message {position} of partition {partition} is left out: {error}");
                    (Vec::new(), None)
                }
            };
            if handle.from_inbox(prefixes, position, offers, said).await.is_err() {
                return;
            }
            from = position;
        }
    }
}

/// A log that keeps everything: whoever takes the partition over folds it from the beginning.
#[derive(Debug)]
struct Kept(Box<dyn GroupLog>);

impl GroupLog for Kept {
    fn append(&mut self, sequence: u64, group: &[u8]) -> Result<(), Error> {
        self.0.append(sequence, group)
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.0.sync()
    }

    fn go_back(&mut self) -> Result<(), Error> {
        self.0.go_back()
    }

    fn synced(&self) -> u64 {
        self.0.synced()
    }

    fn replay<'a>(&'a mut self, from: u64) -> Groups<'a> {
        self.0.replay(from)
    }

    fn truncate_before(&mut self, _sequence: u64) -> Result<(), Error> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
}
