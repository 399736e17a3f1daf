//! One session of a node, from acquiring the lease to losing the lease: a worker, a loop that fetches, a router for
//! links, and a fence around all of them.
//!
//! Invariants: when [`Session::end_now`] has returned, nothing of the session writes, fetches or holds a file; work
//! that was not durable is repeated by the next owner of its partitions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use nephila_core::cluster::load::Meter;
use nephila_core::cluster::{Incarnation, NodeId};
use nephila_core::frontier::Action;
use nephila_core::job::{Job, JobId};
use nephila_log::Fence;
use nephila_spider::Spider;
use nephila_store::state::DiskState;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::completion::Completion;
use super::equal::Equal;
use super::jobs::{self, JobStore, READ_EVERY};
use super::limits::Counter;
use super::route::{Router, partition_of};
use super::{Node, alarm, errands, feedback, slot_grants, stop_list, wire};
use nephila_engine::clock::Clock;
use nephila_engine::crawl::shared::{Shared, Tools};
use nephila_engine::crawl::work::{Space, start, take};
use nephila_engine::folder::Plan;
use nephila_engine::worker::{self, Actions, PartitionPort, Stats, Worker};

/// Interval of disk space checks.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// Prefix of records that ask nodes to leave.
pub(crate) const DRAIN: &str = "drain.";

/// A task that is aborted on drop.
#[derive(Debug)]
pub(crate) struct Task(tokio::task::JoinHandle<()>);

impl Task {
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(tokio::spawn(task))
    }

    /// Aborts the task and waits for its end.
    pub(crate) async fn end(mut self) {
        self.0.abort();
        _ = (&mut self.0).await;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Events of a session.
#[derive(Debug)]
pub(crate) enum Notice {
    /// The session cannot continue.
    Failed(anyhow::Error),
    /// The node was asked to leave.
    Drain,
}

/// See the module.
pub(crate) struct Session {
    pub(super) fence: Fence,
    pub(super) shared: Arc<Shared>,
    spider: Spider,
    pub(super) port: PartitionPort<DiskState>,
    pub(super) router: Arc<Router>,
    /// Load of each partition.
    meter: Arc<Mutex<Meter>>,
    /// Channel for faults.
    pub(super) notices: mpsc::Sender<Notice>,
    /// Background tasks of partitions: readers of inboxes, snapshots.
    pub(super) inboxes: BTreeMap<u32, Task>,
    thread: JoinHandle<Result<(), worker::Error>>,
    tasks: Vec<Task>,
}

impl Session {
    /// Begins a session. Later failures are sent to `notices`.
    pub(crate) async fn begin(
        node: &Arc<Node>,
        incarnation: Incarnation,
        notices: mpsc::Sender<Notice>,
    ) -> anyhow::Result<Session> {
        let number = node.cluster.session_number().await?;
        let fence = Fence::new();
        let worker: Worker<DiskState> = Worker::empty(
            wire::config(&node.settings),
            node.settings.worker.clone(),
            node.cluster.secret,
            number,
            Clock::new(),
        )
        .behind(node.gate.clone());
        let (wishes_in, wishes) = mpsc::channel(slot_grants::WISHES_MAX);
        let (errands_in, errands) = mpsc::channel(errands::WISHES_MAX);
        let worker = worker.sharing(wishes_in, errands_in);
        let (heard, asked) = (slot_grants::subscribe(node).await?, errands::subscribe(node).await?);
        let (running, port) = worker.spawn_open().context("starting the worker")?;
        let store = node.cluster.store();
        store.refresh(&node.jobs).await?;
        let router = Arc::new(Router::new(
            node.settings.cluster.outbox(),
            NodeId::of(&node.name),
            number,
            node.cluster.secret,
            (node.cluster.partitions, node.cluster.spread.clone()),
            store.clone(),
        ));
        node.cluster.refresh_spread().await?;
        running.handle.set_spread(node.cluster.spread.get()).await?;
        // Before anybody is asked.
        stop_list::refresh(&node.cluster.leases, &node.stop_list).await?;
        let plan = Plan::of(Job::new(JobId(0), "node"));
        let tools = Tools {
            handle: running.handle,
            fetch: node.fetch.clone(),
            keep: Some(crate::media::keep(Arc::new(node.archive.clone()), &node.settings)?),
            log: node.log.clone(),
        };
        let (settings, folder) = (node.settings.clone(), node.folder.clone());
        let shared = Shared::with_jobs(settings, folder, plan, node.jobs.clone(), tools)?;
        let shared = shared.with_stop_list(node.stop_list.clone());
        let shared = Arc::new(shared.with_others(router.clone(), node.gate.clone()));
        let meter = Arc::new(Mutex::new(Meter::default()));
        let counted = Counted { meter: meter.clone(), partitions: node.cluster.partitions };
        let jobs_look = JobsLook {
            store,
            counter: Counter::new(node.clone(), shared.handle.clone()),
            completion: Completion::new(node.clone(), shared.handle.clone()),
        };
        let tasks = vec![
            Task::spawn(router.clone().run(node.cluster.inbox.clone())),
            Task::spawn(work(shared.clone(), running.actions, counted, notices.clone())),
            Task::spawn(look(node.clone(), jobs_look, router.clone(), shared.clone(), notices.clone())),
            Task::spawn(write_tails(node.clone())),
            Task::spawn(slot_grants::run(node.clone(), incarnation, heard, wishes, shared.handle.clone())),
            Task::spawn(errands::run(node.clone(), asked, errands, shared.handle.clone())),
            Task::spawn(nephila_engine::crawl::stops::undo(Arc::downgrade(&shared))),
            Task::spawn(nephila_engine::crawl::feed_health::run(Arc::downgrade(&shared))),
        ];
        let inboxes = BTreeMap::new();
        let (spider, thread) = (node.spider.clone(), running.thread);
        Ok(Session { fence, shared, spider, port, router, meter, notices, inboxes, thread, tasks })
    }

    /// Load of each partition.
    pub(crate) fn meter(&self) -> std::sync::MutexGuard<'_, Meter> {
        self.meter.lock().expect("nobody panics holding it")
    }

    /// Statistics of the worker.
    pub(crate) async fn stats(&self) -> Option<Stats> {
        self.shared.handle.stats().await.ok()
    }

    /// Ends everything as if the process had been killed, and waits for the end.
    pub(crate) async fn end_now(self) {
        self.fence.fall();
        let Session { shared, spider, port, router, inboxes, thread, tasks, .. } = self;
        for task in tasks.into_iter().chain(inboxes.into_values()) {
            task.end().await;
        }
        // The next requests to these hosts come from another node, with its own connections.
        spider.close_idle(|_| true);
        // The worker ends when all its handles are dropped.
        drop((shared, port, router));
        _ = tokio::task::spawn_blocking(move || thread.join()).await;
    }

    /// Ends a session whose partitions are all handed over.
    pub(crate) async fn end(self) -> anyhow::Result<()> {
        self.shared.handle.stop().await?;
        let traces = self.shared.traces.clone();
        self.end_now().await;
        traces.flush().await;
        Ok(())
    }
}

/// State for polling the jobs.
pub(crate) struct JobsLook {
    store: JobStore,
    counter: Counter,
    completion: Completion,
}

/// Counts fetches by partition.
pub(crate) struct Counted {
    meter: Arc<Mutex<Meter>>,
    partitions: u32,
}

impl Counted {
    pub(crate) fn note(&self, action: &Action) {
        if let Action::Fetch(ticket) = action {
            let partition = partition_of(ticket.key.host.domain, self.partitions);
            self.meter.lock().expect("nobody panics holding it").handle_fetch(partition);
        }
    }
}

/// Fetches until dropped, or until a failure.
pub(crate) async fn work(
    shared: Arc<Shared>,
    mut actions: Actions,
    counted: Counted,
    notices: mpsc::Sender<Notice>,
) {
    let mut tasks: JoinSet<anyhow::Result<()>> = JoinSet::new();
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut space = Space::new();
    let error = loop {
        tokio::select! {
            biased;
            Some(ended) = tasks.join_next() => {
                let ended = ended.unwrap_or_else(|panic| Err(anyhow::anyhow!("a task failed: {panic}")));
                if let Err(error) = ended {
                    break error;
                }
            }
            taken = take(&shared.room, &mut actions), if !space.is_low => match taken {
                Some((action, permit)) => {
                    counted.note(&action);
                    start(&shared, &mut tasks, action, permit);
                }
                None => break nephila_engine::crawl::work::why(&shared).await,
            },
            _ = looks.tick() => space.look(&shared),
        }
    };
    // The receiver may have ended already.
    _ = notices.send(Notice::Failed(error)).await;
}

/// Records how far the logs of this node's partitions go, until dropped.
pub(crate) async fn write_tails(node: Arc<Node>) {
    let mut writes = tokio::time::interval(super::tails::WRITE_EVERY);
    writes.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        writes.tick().await;
        // While the servers are away no log grows.
        _ = node.tails.write(&*node.cluster.leases).await;
    }
}

/// Polls the jobs and their limits, the stops, the feedback of owners, and requests to leave, until dropped.
pub(crate) async fn look(
    node: Arc<Node>,
    mut jobs_look: JobsLook,
    router: Arc<Router>,
    shared: Arc<Shared>,
    notices: mpsc::Sender<Notice>,
) {
    let mut looks = tokio::time::interval(READ_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let key = format!("{DRAIN}{}", node.name);
    let mut records = jobs::Watch::new(node.cluster.leases.clone(), &node.name);
    let mut equal = Equal::new(node.cluster.leases.clone(), &node.name, &node.settings);
    loop {
        looks.tick().await;
        // While the servers are unreachable everything stays unchanged.
        if let Ok((jobs, unreadable)) = jobs_look.store.refresh(&node.jobs).await {
            jobs_look.counter.look(&jobs).await;
            jobs_look.completion.look(&jobs).await;
            _ = records.note(&unreadable).await;
        }
        // A failed write is repeated at the next poll.
        _ = shared.suspects.share(&*node.cluster.leases).await;
        _ = stop_list::refresh(&node.cluster.leases, &node.stop_list).await;
        if node.cluster.refresh_spread().await.is_ok_and(|is_new| is_new) {
            // A worker that has ended needs none.
            _ = shared.handle.set_spread(node.cluster.spread.get()).await;
        }
        if let Some((view, _)) = node.known.view() {
            let living: Vec<&str> = view.nodes.iter().map(|node| &*node.name).collect();
            if living.contains(&&*node.name) {
                _ = equal.look(&living).await;
                _ = alarm::clear_of_the_gone(&*node.cluster.leases, jobs::ABOUT, &living).await;
            }
        }
        if let Ok(feedback) = feedback::read(&*node.cluster.leases).await {
            router.set_feedback(feedback);
        }
        if let Ok(Some(item)) = node.cluster.leases.record(&key).await
            && !item.value.is_empty()
        {
            // Taken note of: the node that comes back under this name stays.
            _ = node.cluster.leases.put(&key, Some(item.revision), bytes::Bytes::new()).await;
            _ = notices.send(Notice::Drain).await;
        }
    }
}
