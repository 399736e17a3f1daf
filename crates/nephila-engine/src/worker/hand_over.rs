//! Partitions that come and go while a worker runs.
//!
//! A partition is opened elsewhere, where this may take its time: its log is replayed, and only then is the partition
//! brought here. Until its first group is durable, no ticket of the partition is handed out. To hand a partition over,
//! the worker closes the partition in the frontier, waits for its open tickets, writes its pending entries, checkpoints
//! its state, and then answers the caller.
//!
//! Invariants: the logs have the order of the frontier's partitions; a partition that was handed over has nothing under
//! way here.

use nephila_core::key::Prefixes;
use nephila_core::state::{Durable, Position};
use nephila_log::GroupLog;
use tokio::sync::{mpsc, oneshot};

use super::log::{Log, Reply};
use super::{Error, Part, Worker};

/// A partition that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The key prefixes that the partition holds.
    pub prefixes: Prefixes,
    /// The position of the state, which is durable.
    pub position: Position,
}

/// A partition to be taken over.
#[derive(Debug)]
pub(super) struct IncomingPartition<S> {
    pub(super) part: Part<S>,
    pub(super) epoch: u64,
    /// Answered once the first group is durable.
    pub(super) reply: oneshot::Sender<()>,
}

/// A closure that runs with the state and the log of a partition on the worker's thread.
type Visit<S> = Box<dyn FnOnce(&mut S, &mut dyn GroupLog) + Send>;

/// A message through the port.
pub(super) enum PartitionRequest<S> {
    /// A partition.
    Part(IncomingPartition<S>),
    /// A visit to an owned partition.
    Visit(Prefixes, Visit<S>),
}

// Not derived: a closure has no `Debug`.
impl<S> std::fmt::Debug for PartitionRequest<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PartitionRequest::Part(_) => "Part",
            PartitionRequest::Visit(..) => "Visit",
        })
    }
}

/// The way by which partitions reach a worker.
#[derive(Debug)]
pub struct PartitionPort<S>(pub(super) mpsc::Sender<PartitionRequest<S>>);

// Not derived: the derived impl would require `S: Clone`.
impl<S> Clone for PartitionPort<S> {
    fn clone(&self) -> Self {
        PartitionPort(self.0.clone())
    }
}

impl<S> PartitionPort<S> {
    /// Gives the worker a partition, already replayed, which the worker owns from this epoch on. Returns once the epoch
    /// is durable in the log. False if the worker has ended.
    pub async fn bring(&self, part: Part<S>, epoch: u64) -> bool {
        let (reply, answer) = oneshot::channel();
        let request = PartitionRequest::Part(IncomingPartition { part, epoch, reply });
        self.0.send(request).await.is_ok() && self.heard(answer).await.is_some()
    }

    /// Runs a closure with the state and the log of a partition, between two ticks of the worker, which waits: the
    /// closure should take milliseconds. None if the partition is not here, or the worker has ended.
    pub async fn visit<T: Send + 'static>(
        &self,
        prefixes: Prefixes,
        visit: impl FnOnce(&mut S, &mut dyn GroupLog) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let visit: Visit<S> = Box::new(move |state, log| {
            // The caller may have left.
            _ = reply.send(visit(state, log));
        });
        self.0.send(PartitionRequest::Visit(prefixes, visit)).await.ok()?;
        self.heard(answer).await
    }

    /// Waits for the worker's answer; none if the worker ends first: see [`Handle::heard`](super::Handle).
    async fn heard<T>(&self, mut answer: oneshot::Receiver<T>) -> Option<T> {
        tokio::select! {
            biased;
            heard = &mut answer => heard.ok(),
            () = self.0.closed() => answer.try_recv().ok(),
        }
    }
}

impl<S: Durable + Send> Worker<S> {
    /// Handles a request.
    pub(super) fn let_in(&mut self, request: PartitionRequest<S>) {
        match request {
            PartitionRequest::Part(incoming) => self.open_part(incoming),
            PartitionRequest::Visit(prefixes, visit) => {
                if let Some(at) = self.logs.iter().position(|log| log.prefixes == prefixes) {
                    visit(self.frontier.state(at), &mut *self.logs[at].log);
                }
            }
        }
    }

    /// Takes ownership of a partition.
    fn open_part(&mut self, incoming: IncomingPartition<S>) {
        let now = self.clock.now();
        let IncomingPartition { part: Part { prefixes, state, log }, epoch, reply } = incoming;
        let at = self.frontier.add_partition(prefixes, state, epoch, now);
        self.move_numbers(|number| if number >= at { number + 1 } else { number });
        let mut log = Log::new(prefixes, log, &self.wake());
        log.urgent = true;
        self.logs.insert(at, log);
        self.publish_prefixes();
        self.wait_for(vec![at], Reply::Done(reply));
    }

    /// Begins to hand a partition over. If the partition is not here, the closed reply channel tells the caller.
    pub(super) fn close_part(&mut self, prefixes: Prefixes, reply: oneshot::Sender<Closed>) {
        let Some(at) = self.logs.iter().position(|log| log.prefixes == prefixes) else { return };
        self.frontier.close_partition(at, self.clock.now());
        self.logs[at].closing = Some(reply);
        self.logs[at].urgent = true;
    }

    /// Hands over the closed partitions.
    pub(super) fn give_away(&mut self) -> Result<(), Error> {
        while let Some(at) = (0..self.logs.len()).find(|&at| {
            self.logs[at].closing.is_some() && !self.logs[at].is_under_way() && self.frontier.is_closed(at)
        }) {
            self.checkpoint(at)?;
            if self.full_until.is_some() {
                return Ok(());
            }
            let state = self.frontier.remove_partition(at);
            let position = state.position();
            let log = self.logs.remove(at);
            self.publish_prefixes();
            // No caller waits for this partition, which had nothing to write. A waiter by the old number is answered
            // here.
            let mut done = Vec::new();
            for mut waiter in std::mem::take(&mut self.waiters) {
                waiter.needs.retain(|(number, _)| *number != at);
                match waiter.needs.is_empty() {
                    true => done.push(waiter.reply),
                    false => self.waiters.push(waiter),
                }
            }
            self.move_numbers(|number| if number > at { number - 1 } else { number });
            done.into_iter().for_each(Reply::send);
            let prefixes = log.prefixes;
            // State and log are closed before the caller learns of the hand-over.
            drop((state, log.log));
            if let Some(reply) = log.closing {
                _ = reply.send(Closed { prefixes, position });
            }
        }
        Ok(())
    }

    /// Renumbers the partitions.
    fn move_numbers(&mut self, new: impl Fn(usize) -> usize) {
        for waiter in &mut self.waiters {
            waiter.needs.iter_mut().for_each(|(number, _)| *number = new(*number));
        }
        for feeding in &mut self.feeding {
            feeding.move_numbers(&new);
        }
    }

    /// Publishes to the handles which URLs belong to this worker.
    pub(super) fn publish_prefixes(&self) {
        let prefixes = self.logs.iter().map(|log| log.prefixes).collect();
        *self.shared.prefixes.write().expect("nobody panics holding it") = prefixes;
    }
}
