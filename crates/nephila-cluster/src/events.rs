//! The owner of a partition publishes events: derives them from each durable group, and writes them to their stream on
//! the servers.
//!
//! [`tap`] wraps the partition's log and queues a copy of each durable group. A task beside the partition, the
//! [`Teller`], derives the events and publishes them, one message per group, or several for many events. Groups that
//! are not in the queue, because an earlier owner did not publish them or the queue was full, are read from the log.
//! Publishing blocks neither the worker nor the opening of a partition. While the stream is unreachable the teller
//! retries, and recreates a missing stream.
//!
//! The records of `tails` hold how far a partition's events are published, updated every few seconds; a new owner
//! continues there.
//!
//! Invariants: the same group gives the same messages with the same ids, whichever node publishes; each group is
//! published, or covered by a gap event; groups published after the last record are published again.

mod tap;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use nephila_core::event::{self, Event};
use nephila_log::jetstream::{Beside, Engine, JetEvents};
use nephila_log::{Error, GroupLog, Leases};
use tokio::sync::Mutex;

use super::{Cluster, alarm};
use tap::{EventTap, Next, Queue};

pub(super) use tap::{HowFar, Start};

/// Timeout for publishing one message, before the existence of the stream is checked.
pub(crate) const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });
/// Delay before a retry.
pub(crate) const AGAIN: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 5 });
/// A durable group that the log does not deliver for this long is lost.
pub(crate) const LOST_AFTER: Duration = Duration::from_secs(60);
/// Subject of the alarm of a node that cannot publish events.
pub(crate) const ALARM: &str = "events";

/// The event stream of a node, and its outage state. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Telling {
    pub(crate) stream: JetEvents,
    engine: Engine,
    outage: Arc<Outage>,
}

impl Telling {
    /// Ensures that the stream exists, with at most `bytes_max` bytes. If the servers are unreachable, a later publish
    /// creates the stream.
    pub(crate) async fn begin(cluster: &Cluster, bytes_max: u64, node: &str) -> anyhow::Result<Telling> {
        let telling = Telling::new(cluster, bytes_max, node);
        match telling.stream.ensure().await {
            Err(error) if error.is_unavailable() => telling.outage.note(&error).await,
            made => made.context("the stream of events")?,
        }
        Ok(telling)
    }

    pub(crate) fn new(cluster: &Cluster, bytes_max: u64, node: &str) -> Telling {
        let (engine, leases) = (cluster.engine.clone(), cluster.leases.clone());
        let outage = Arc::new(Outage::new(leases, node));
        Telling { stream: engine.events(bytes_max), engine, outage }
    }
}

/// Reports once that events cannot be published, and once that they can again, for all partitions of a node.
#[derive(Debug)]
pub(crate) struct Outage {
    leases: Arc<dyn Leases>,
    node: String,
    /// Whether nothing is left to report. Then a success needs no lock.
    is_calm: AtomicBool,
    said: Mutex<Said>,
}

/// The last report.
#[derive(Debug)]
pub(crate) struct Said {
    is_away: bool,
    alarm: Alarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// An earlier process of this node may have raised the alarm.
    MayStand,
    Stands,
    Cleared,
}

impl Outage {
    pub(crate) fn new(leases: Arc<dyn Leases>, node: &str) -> Outage {
        let said = Mutex::new(Said { is_away: false, alarm: Alarm::MayStand });
        Outage { leases, node: node.to_owned(), is_calm: AtomicBool::new(false), said }
    }

    pub(crate) fn about(&self) -> String {
        format!("{ALARM}-{}", self.node)
    }

    pub(crate) async fn note(&self, error: &Error) {
        // Held until the alarm is written: a success of another partition must not clear the alarm before.
        let mut said = self.said.lock().await;
        self.is_calm.store(false, Ordering::Release);
        if !std::mem::replace(&mut said.is_away, true) {
            tracing::warn!(
                node = %self.node, %error,
                "node {}: events wait, and the crawl goes on: {error}", self.node
            );
        }
        if said.alarm == Alarm::Stands {
            return;
        }
        let text = format!(
            "events cannot be told: {error}. The crawl goes on, and the log keeps what is to be told, up to a bound; \
             what it cannot keep will be told as a gap. It goes on by itself"
        );
        // While the records are away too, there are other worries; the next failure tries again.
        if alarm::raise(&*self.leases, &self.about(), &self.node, &text).await.is_ok() {
            said.alarm = Alarm::Stands;
        }
    }

    pub(crate) async fn is_over(&self) {
        if self.is_calm.load(Ordering::Acquire) {
            return;
        }
        let mut said = self.said.lock().await;
        if std::mem::replace(&mut said.is_away, false) {
            tracing::info!(node = %self.node, "node {}: events are told again", self.node);
        }
        if said.alarm != Alarm::Cleared && alarm::clear(&*self.leases, &self.about()).await.is_ok() {
            said.alarm = Alarm::Cleared;
        }
        self.is_calm.store(said.alarm == Alarm::Cleared, Ordering::Release);
    }
}

/// Publishes the events of a partition.
#[derive(Debug)]
pub(crate) struct Teller {
    telling: Telling,
    partition: u32,
    epoch: u64,
    /// The next group to publish.
    next: u64,
    /// The first group that may be read from the log.
    from: u64,
    queue: Arc<Queue>,
    how_far: Arc<HowFar>,
}

impl Teller {
    /// Creates a teller that publishes everything earlier owners did not, and every group that becomes durable through
    /// the returned log. Sends and awaits nothing: publishing begins with [`Teller::run`].
    pub(crate) fn begin(
        telling: &Telling,
        partition: u32,
        epoch: u64,
        start: Start,
        log: Box<dyn GroupLog>,
    ) -> (Teller, Box<dyn GroupLog>) {
        let how_far = Arc::new(HowFar::default());
        how_far.told.store(start.told, Ordering::Release);
        // The position comes from the record, or nothing precedes it.
        how_far.written.store(start.told, Ordering::Release);
        let queue = Arc::new(Queue::new(log.synced()));
        let teller = Teller {
            telling: telling.clone(),
            partition,
            epoch,
            next: start.told + 1,
            from: start.from,
            queue: queue.clone(),
            how_far: how_far.clone(),
        };
        (teller, Box::new(EventTap::around(log, queue, how_far)))
    }

    /// The progress of this teller.
    pub(crate) fn how_far(&self) -> Arc<HowFar> {
        self.how_far.clone()
    }

    /// Runs until dropped.
    pub(crate) async fn run(mut self) {
        loop {
            match self.queue.next(self.next) {
                Next::Group(bytes) => self.tell(self.next, &bytes).await,
                Next::InLog => self.catch_up().await,
                Next::Nothing => self.queue.arrived().await,
            }
        }
    }

    /// Publishes groups from the log, until the next group is in the queue or there is none.
    pub(crate) async fn catch_up(&mut self) {
        let mut log = self.telling.engine.log_reader(self.partition, self.next.max(self.from));
        let mut dry_since: Option<Instant> = None;
        while self.queue.is_in_log(self.next) {
            let steps = match log.take().await {
                Ok(steps) => steps,
                // The worker uses the same log, and reports the error.
                Err(_) => {
                    tokio::time::sleep(AGAIN).await;
                    return;
                }
            };
            if !steps.is_empty() {
                dry_since = None;
            } else if dry_since.get_or_insert_with(Instant::now).elapsed() >= LOST_AFTER {
                self.gap(self.queue.last_in_log(self.next)).await;
                dry_since = None;
            }
            for step in steps {
                match step {
                    Beside::Group(group, bytes) if group >= self.next => self.tell(group, &bytes).await,
                    Beside::Behind(group) if group >= self.next => self.gap(group).await,
                    // Already published.
                    Beside::Group(..) | Beside::Behind(_) => {}
                }
            }
        }
    }

    /// Publishes the events of a group, after a gap event for skipped groups.
    pub(crate) async fn tell(&mut self, group: u64, bytes: &[u8]) {
        if group > self.next {
            self.gap(group - 1).await;
        }
        let Ok((events, behind)) = event::of_bytes(self.partition, bytes) else {
            // No node could ever read this group; the following groups are readable.
            return self.gap(group).await;
        };
        let mark = event::mark(behind);
        for (number, lines) in pack(&events, self.telling.stream.bytes_max()).into_iter().enumerate() {
            let id = format!("{}.{group}.{number}.{mark:08x}", self.partition);
            self.publish(&id, lines).await;
        }
        self.passed(group);
    }

    /// Publishes a gap event for the groups up to this one.
    pub(crate) async fn gap(&mut self, last: u64) {
        let gap = Event::gap(self.partition, self.next, last);
        let id = format!("{}.{}", gap.id, self.epoch);
        self.publish(&id, gap.line()).await;
        self.passed(last);
    }

    pub(crate) fn passed(&mut self, group: u64) {
        self.next = group + 1;
        self.how_far.told.store(group, Ordering::Release);
    }

    /// Publishes a message, with retries until success.
    pub(crate) async fn publish(&self, id: &str, lines: Vec<u8>) {
        let (stream, outage) = (&self.telling.stream, &self.telling.outage);
        let lines = Bytes::from(lines);
        loop {
            let Err(error) = stream.publish(self.partition, id, lines.clone(), PATIENCE).await else {
                return outage.is_over().await;
            };
            outage.note(&error).await;
            // The stream may have been removed. The next try shows whether it was created.
            _ = stream.ensure().await;
            tokio::time::sleep(AGAIN).await;
        }
    }
}

/// Packs events into messages of at most `bytes_max` bytes. A longer event is left out: no URL is that long.
pub(crate) fn pack(events: &[Event], bytes_max: usize) -> Vec<Vec<u8>> {
    let mut messages: Vec<Vec<u8>> = Vec::new();
    for event in events {
        let line = event.line();
        match messages.last_mut() {
            _ if line.len() > bytes_max => {}
            Some(last) if last.len() + line.len() <= bytes_max => last.extend(line),
            _ => messages.push(line),
        }
    }
    messages
}

#[cfg(test)]
mod tests;
