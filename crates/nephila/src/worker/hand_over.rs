//! Partitions that come and go while a worker works.
//!
//! A partition is opened elsewhere, where it may take its time: its log is folded, and only then it comes here. Until its
//! first group is durable nothing of it is handed out. A partition that goes is closed in the frontier; its open tickets
//! are waited for, what it has to write is written, its state is made durable, and then it is given to whoever asked.
//!
//! What always holds: the logs stand in the order of the frontier's partitions; a partition that was given back has nothing
//! under way here.

use nephila_core::key::Prefixes;
use nephila_core::state::{Durable, Position};
use nephila_log::GroupLog;
use tokio::sync::{mpsc, oneshot};

use super::log::{Log, Reply};
use super::{Error, Part, Worker};

/// A partition that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// What it holds.
    pub prefixes: Prefixes,
    /// How far its state goes, which is durable.
    pub position: Position,
}

/// A partition that comes.
#[derive(Debug)]
pub(super) struct Coming<S> {
    pub(super) part: Part<S>,
    pub(super) epoch: u64,
    /// Told once its first group is durable.
    pub(super) reply: oneshot::Sender<()>,
}

/// Something to be done with the state and the log of a partition, on the worker's own thread.
type Visit<S> = Box<dyn FnOnce(&mut S, &mut dyn GroupLog) + Send>;

/// What comes through the door.
pub(super) enum Knock<S> {
    /// A partition.
    Part(Coming<S>),
    /// Somebody who looks at one that is here.
    Visit(Prefixes, Visit<S>),
}

// Not derived: a visit cannot be shown.
impl<S> std::fmt::Debug for Knock<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Knock::Part(_) => "Part",
            Knock::Visit(..) => "Visit",
        })
    }
}

/// Where partitions come in.
#[derive(Debug)]
pub struct Door<S>(pub(super) mpsc::Sender<Knock<S>>);

// Not derived: that would ask the same of the state.
impl<S> Clone for Door<S> {
    fn clone(&self) -> Self {
        Door(self.0.clone())
    }
}

impl<S> Door<S> {
    /// Gives a worker a partition, replayed, to be its own from this epoch on. Returns once the epoch stands in its log.
    /// False if the worker has ended.
    pub async fn bring(&self, part: Part<S>, epoch: u64) -> bool {
        let (reply, answer) = oneshot::channel();
        let knock = Knock::Part(Coming { part, epoch, reply });
        self.0.send(knock).await.is_ok() && self.heard(answer).await.is_some()
    }

    /// Does something with the state and the log of a partition, between two turns of the worker, which waits: it should
    /// take milliseconds. None if the partition is not here, or the worker has ended.
    pub async fn visit<T: Send + 'static>(
        &self,
        prefixes: Prefixes,
        visit: impl FnOnce(&mut S, &mut dyn GroupLog) -> T + Send + 'static,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        let visit: Visit<S> = Box::new(move |state, log| {
            // Whoever asked may have left.
            _ = reply.send(visit(state, log));
        });
        self.0.send(Knock::Visit(prefixes, visit)).await.ok()?;
        self.heard(answer).await
    }

    /// What the worker answers, if it does: see [`Handle::heard`](super::Handle).
    async fn heard<T>(&self, mut answer: oneshot::Receiver<T>) -> Option<T> {
        tokio::select! {
            biased;
            heard = &mut answer => heard.ok(),
            () = self.0.closed() => answer.try_recv().ok(),
        }
    }
}

impl<S: Durable> Worker<S> {
    /// Lets in what came.
    pub(super) fn let_in(&mut self, knock: Knock<S>) {
        match knock {
            Knock::Part(coming) => self.open_part(coming),
            Knock::Visit(prefixes, visit) => {
                if let Some(at) = self.logs.iter().position(|log| log.prefixes == prefixes) {
                    visit(self.frontier.state(at), &mut *self.logs[at].log);
                }
            }
        }
    }

    /// Takes a partition over.
    fn open_part(&mut self, coming: Coming<S>) {
        let now = self.clock.now();
        let Coming { part: Part { prefixes, state, log }, epoch, reply } = coming;
        let at = self.frontier.add_partition(prefixes, state, epoch, now);
        self.move_numbers(|number| if number >= at { number + 1 } else { number });
        let mut log = Log::new(prefixes, log, &self.wake());
        log.urgent = true;
        self.logs.insert(at, log);
        self.publish_prefixes();
        self.wait_for(vec![at], Reply::Done(reply));
    }

    /// Begins to hand a partition over. Whoever asks for one that is not here learns it by the end of the channel.
    pub(super) fn close_part(&mut self, prefixes: Prefixes, reply: oneshot::Sender<Closed>) {
        let Some(at) = self.logs.iter().position(|log| log.prefixes == prefixes) else { return };
        self.frontier.close_partition(at, self.clock.now());
        self.logs[at].closing = Some(reply);
        self.logs[at].urgent = true;
    }

    /// Gives away what is closed.
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
            // Nobody waits for it: it had nothing to write. One that came by its old number would be answered by this.
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
            // State and log are closed before anybody hears of it.
            drop((state, log.log));
            if let Some(reply) = log.closing {
                _ = reply.send(Closed { prefixes, position });
            }
        }
        Ok(())
    }

    /// Partitions have other numbers now.
    fn move_numbers(&mut self, new: impl Fn(usize) -> usize) {
        for waiter in &mut self.waiters {
            waiter.needs.iter_mut().for_each(|(number, _)| *number = new(*number));
        }
        for feeding in &mut self.feeding {
            feeding.move_numbers(&new);
        }
    }

    /// Tells those who offer which URLs are ours.
    pub(super) fn publish_prefixes(&self) {
        let prefixes = self.logs.iter().map(|log| log.prefixes).collect();
        *self.shared.prefixes.write().expect("nobody panics holding it") = prefixes;
    }
}
