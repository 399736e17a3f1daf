//! Partitions of a cluster: opened, fed from their inboxes, saved by snapshots, and monitored.
//!
//! `find` combines state and log, or reports why they do not fit; then the partition stays closed until a person has
//! intervened.
//!
//! Invariants: a partition is folded to the end of its log before its first action; the inbox is read from the position
//! in the partition's state, so messages that were read but not made durable are read again.

pub(super) mod find;
mod watch;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use nephila_core::cluster::message::Message;
use nephila_core::entry::Entry;
use nephila_core::key::Prefixes;
use nephila_core::state::State;
use nephila_log::Fence;
use nephila_store::state::DiskState;
use tokio::sync::mpsc;

use super::alarm::{self, Doubt};
use super::events::Teller;
use super::session::{Notice, Session, Task};
use super::snapshot::Keeper;
use super::spread::Home;
use super::upload::now_ms;
use super::{Node, feedback, wire};
use find::FoundPartition;
use nephila_engine::worker::{Handle, INBOX, PartitionPort};
use watch::Watched;

/// Maximum number of messages per read from an inbox.
pub(crate) const MESSAGES_AT_ONCE: usize = 64;
/// Long-poll timeout of an empty inbox.
pub(crate) const INBOX_WAIT: Duration = Duration::from_secs(5);
/// Delay before a failed read from an inbox is retried.
pub(crate) const INBOX_AGAIN: Duration = Duration::from_secs(1);
/// Delay before a message in a newer format is tried again.
pub(crate) const NEWER_PAUSE: Duration = Duration::from_secs(30);
/// Interval for deleting durable messages from an inbox.
pub(crate) const FORGET_EVERY: Duration = Duration::from_secs(30);

/// Opens the states of partitions that come and go.
#[derive(Clone, Debug)]
pub(crate) struct States {
    disk: wire::States,
    /// Locks, held while a partition is being opened.
    alone: Arc<std::sync::Mutex<BTreeMap<u32, Arc<tokio::sync::Mutex<()>>>>>,
}

impl States {
    pub(crate) fn new() -> anyhow::Result<States> {
        Ok(States { disk: wire::States::new()?, alone: Arc::default() })
    }

    pub(crate) fn alone(&self, partition: u32) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.alone.lock().expect("nobody panics holding it");
        locks.entry(partition).or_default().clone()
    }
}

/// Handles of a session that opening a partition needs.
#[derive(Clone, Debug)]
pub(crate) struct Opening {
    pub(super) port: PartitionPort<DiskState>,
    pub(super) handle: Handle,
    pub(super) fence: Fence,
    pub(super) notices: mpsc::Sender<Notice>,
}

impl Opening {
    pub(crate) fn of(session: &Session) -> Opening {
        Opening {
            port: session.port.clone(),
            handle: session.shared.handle.clone(),
            fence: session.fence.clone(),
            notices: session.notices.clone(),
        }
    }
}

/// Opens a partition, and starts to read its inbox, to take snapshots and to monitor its log.
pub(crate) async fn open(
    node: Arc<Node>,
    states: States,
    opening: Opening,
    partition: u32,
    epoch: u64,
) -> anyhow::Result<Task> {
    // An earlier session may still be folding this partition: its files are opened once at a time.
    let alone = states.alone(partition);
    let _alone = alone.lock().await;
    let opened = open_alone(&node, &states, &opening, partition, epoch).await;
    let leases = &*node.cluster.leases;
    let tended = match opened {
        Ok(tended) => tended,
        Err(error) => {
            if let Some(Doubt(text)) = error.downcast_ref::<Doubt>() {
                // If raising the alarm fails, the next try raises it.
                _ = alarm::raise(leases, &alarm::of_partition(partition), &node.name, text).await;
            }
            return Err(error);
        }
    };
    Ok(Task::spawn(tended.run(node.clone())))
}

pub(crate) async fn open_alone(
    node: &Node,
    states: &States,
    opening: &Opening,
    partition: u32,
    epoch: u64,
) -> anyhow::Result<Tended> {
    let found = find::find(node, states, &opening.fence, partition, epoch).await?;
    let FoundPartition { mut part, progress, watch, pointed, claim, start } = found;
    let mut from = part.state.meta().inboxes.get(INBOX).copied().unwrap_or(0);
    if from > claim {
        // Log and inbox lie in one stream, and the claim was written just now.
        tracing::warn!(
            partition,
            "partition {partition}: its inbox was made anew, and is read from its beginning"
        );
        from = 0;
    }
    let mut teller = None;
    if let Some(telling) = &node.events {
        let (begun, log) = Teller::begin(telling, partition, epoch, start, part.log);
        (part.log, teller) = (log, Some(begun));
    }
    let prefixes = part.prefixes;
    // Files of the same name may be others by now.
    let copy = folder(node, partition).join("snapshot");
    match std::fs::remove_dir_all(&copy) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| copy.display().to_string());
        }
        _ => {}
    }
    anyhow::ensure!(opening.port.bring(part, epoch).await, "the worker has ended");
    node.tails.opened(partition, epoch, progress.clone(), teller.as_ref().map(Teller::how_far));
    let keeper = node.snapshots.clone().map(|snapshots| {
        Keeper::new(
            snapshots,
            partition,
            epoch,
            &node.name,
            copy,
            opening.port.clone(),
            opening.fence.clone(),
            progress.clone(),
            pointed,
            node.snapshot_permits.clone(),
            &node.settings.cluster,
        )
    });
    let watched = Watched {
        watch,
        partition,
        prefixes,
        progress,
        port: opening.port.clone(),
        notices: opening.notices.clone(),
    };
    Ok(Tended { handle: opening.handle.clone(), from, keeper, watched, teller })
}

/// The folder of a partition on this node.
pub(crate) fn folder(node: &Node, partition: u32) -> PathBuf {
    node.folder.state().join(format!("partition-{partition:05}"))
}

/// The background tasks of an open partition.
pub(crate) struct Tended {
    handle: Handle,
    from: u64,
    keeper: Option<Keeper>,
    watched: Watched,
    teller: Option<Teller>,
}

impl Tended {
    /// Runs until dropped, or until the partition is gone.
    pub(crate) async fn run(self, node: Arc<Node>) {
        let Tended { handle, from, keeper, watched, teller } = self;
        let Watched { partition, prefixes, .. } = watched;
        let kept = async {
            if let Some(keeper) = keeper {
                keeper.run(node.trouble.clone()).await;
            }
        };
        let told = async {
            if let Some(teller) = teller {
                teller.run().await;
            }
        };
        let unread = Arc::new(AtomicU64::new(0));
        let leases = node.cluster.leases.clone();
        tokio::join!(
            feedback::publish(leases, handle.clone(), partition, prefixes, unread.clone()),
            read(&node, handle, partition, prefixes, from, unread),
            kept,
            told,
            watched.run(node.clone())
        );
    }
}

/// Feeds a partition from its inbox until dropped or until the worker ends.
pub(crate) async fn read(
    node: &Node,
    handle: Handle,
    partition: u32,
    prefixes: Prefixes,
    mut from: u64,
    unread: Arc<AtomicU64>,
) {
    let (inbox, secret) = (&*node.cluster.inbox, node.cluster.secret);
    let waits_here = InboxWaits::new(node, partition);
    let (mut forgot, mut forgot_at) = (from, Instant::now());
    let Ok(mut home) = Home::open(node, &handle, partition, prefixes).await else { return };
    // An earlier owner may have raised the alarm.
    let (about, mut is_alarmed) = (format!("inbox-{partition:05}"), true);
    'read: loop {
        if from > forgot && forgot_at.elapsed() >= FORGET_EVERY {
            forgot_at = Instant::now();
            // If the removal fails now, the next pass removes the messages.
            let is_durable = handle.inbox_is_durable(prefixes, from).await == Ok(true);
            if is_durable && inbox.truncate_before(partition, from + 1).await.is_ok() {
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
        // Only an empty answer, at the end of the wait, shows that there are no more messages.
        if messages.is_empty() {
            waits_here.set(false);
        }
        // More messages than one read returns are younger than its first.
        let (is_all, left_at) = (messages.len() < MESSAGES_AT_ONCE, inbox.left_at(partition));
        waits_here.since((!messages.is_empty()).then(|| left_at.unwrap_or_else(now_ms)));
        // Messages read but not yet processed are the minimum backlog.
        let mut waits: u64 = messages.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        unread.store(waits, Ordering::Relaxed);
        for (position, bytes) in messages {
            if let Some(version) = Message::newer(&bytes) {
                let text = format!(
                    "message {position} of partition {partition} is of version {version}, and node {} does not read it: \
                     upgrade this node, or drain it. Links wait meanwhile, and none is lost",
                    node.name
                );
                tracing::warn!("{text}");
                // If raising the alarm fails now, the next try raises it.
                _ = alarm::raise(&*node.cluster.leases, &about, &node.name, &text).await;
                is_alarmed = true;
                waits_here.set(true);
                tokio::time::sleep(NEWER_PAUSE).await;
                continue 'read;
            }
            waits -= bytes.len() as u64;
            let (offers, said) = match Message::decode(&bytes, &secret) {
                Ok(Message::Offers { offers, .. }) => (offers, None),
                Ok(Message::Command(entry)) => (Vec::new(), Some(*entry)),
                Err(error) => {
                    // No node could ever read this message; the following messages are readable.
                    tracing::warn!(
                        partition, %error, position,
                        "message {position} of partition {partition} is left out: {error}"
                    );
                    (Vec::new(), None)
                }
            };
            // A message without either marks the end of an inbox (`completion`).
            if !offers.is_empty() || said.is_some() {
                waits_here.set(true);
            }
            let wish = match &said {
                Some(Entry::Spread(wish)) => Some(wish.clone()),
                _ => None,
            };
            let (offers, said) = home.sort(offers, said).await;
            if handle.from_inbox(prefixes, position, offers, said).await.is_err() {
                return;
            }
            if let Some(wish) = wish
                && home.decide(&wish, position).await.is_err()
            {
                return;
            }
            from = position;
            unread.store(waits, Ordering::Relaxed);
        }
        if is_all {
            waits_here.since(None);
        }
        if is_alarmed {
            is_alarmed = alarm::clear(&*node.cluster.leases, &about).await.is_err();
        }
    }
}

/// Whether an inbox may have unread URLs or commands, as the node knows it. On drop, the inbox is another node's.
struct InboxWaits<'a> {
    node: &'a Node,
    partition: u32,
}

impl<'a> InboxWaits<'a> {
    fn new(node: &'a Node, partition: u32) -> InboxWaits<'a> {
        let waits = InboxWaits { node, partition };
        waits.set(true);
        waits
    }

    fn set(&self, waits: bool) {
        self.node.known.set_inbox(self.partition, waits);
    }

    /// Since when the oldest message that is not applied waits.
    fn since(&self, since: Option<u64>) {
        self.node.known.measured.set_inbox(self.partition, since);
    }
}

impl Drop for InboxWaits<'_> {
    fn drop(&mut self) {
        self.set(false);
        self.since(None);
    }
}
