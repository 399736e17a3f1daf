//! Executes the actions of a [`Member`], and reports the results.
//!
//! Every action becomes a task of bounded duration; no task waits for another. The result of a task is used only if the
//! task belongs to the current session.
//!
//! Invariants: when the lease may have expired, the session ends before anything else is done; a task of an earlier
//! session changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nephila_core::cluster::member::{Action, Member, NodeRecord, OwnerRecord, Phase, SwapResult, View};
use nephila_core::cluster::{Epoch, Incarnation, NodeId};
use nephila_core::key::Prefixes;
use nephila_core::url::CrawlUrl;
use nephila_log::Leases;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Node;
use super::lease::{CALL_MAX, Lease, answer, bounded};
use super::parts::{self, Opening, States};
use super::session::{Notice, Session, Task};
use nephila_engine::clock::awake_or_not as now;
use nephila_engine::exit::Exit;
use nephila_engine::process::Signals;
use nephila_engine::service::{Part, Service};

/// Maximum sleep of the loop.
pub(crate) const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Interval of status lines.
pub(crate) const SAY_EVERY: Duration = Duration::from_secs(10);
/// Interval for measuring the load of partitions.
pub(crate) const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// Timeout for an orderly hand-over of a node that is told to stop. Afterwards, open work ends as if the process had
/// been killed, and the lease is released: the next owners begin at once, and repeat the open work.
pub(crate) const LEAVE_MAX: Duration = Duration::from_secs(25);
/// Capacity of the channel for notices.
pub(crate) const NOTICES_MAX: usize = 16;
/// Prefix of owner records.
pub(crate) const OWNER: &str = "owner.";
/// Prefix of leases of nodes.
pub(crate) const NODE: &str = "node.";

/// Result of a task.
pub(crate) enum Done {
    Acquired(Incarnation, SwapResult, Option<Session>),
    /// Another process has the lease.
    Held(Incarnation),
    Renewed(Incarnation, SwapResult),
    Read(Incarnation, Option<View>),
    Claimed(u32, Incarnation, SwapResult),
    Opened(u32, Epoch, Incarnation, anyhow::Result<Task>),
    Drained(u32, Epoch, Incarnation),
    Released(u32, Incarnation, SwapResult),
    Left,
}

pub(crate) struct Shell {
    node: Arc<Node>,
    states: States,
    member: Member,
    lease: Lease,
    session: Option<Session>,
    tasks: JoinSet<Done>,
    /// Partitions that are being opened, with the epoch of each that is to be given up right after opening.
    opening: BTreeMap<u32, Option<Epoch>>,
    notices: (mpsc::Sender<Notice>, mpsc::Receiver<Notice>),
    /// Time of the last message that another process has this node's name.
    said_held: Option<Instant>,
    service: Service,
    /// The loop, and the thread that answers it.
    part: Part,
}

/// Sleeps until this moment; forever with none.
pub(crate) async fn until(moment: Option<tokio::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Runs until told to leave.
pub(crate) async fn run(node: &Arc<Node>, signals: &mut Signals, service: &Service) -> anyhow::Result<Exit> {
    let first = tokio::select! {
        first = node.cluster.session_number() => first?,
        () = signals.next() => return Ok(Exit::Stopped),
    };
    let me = NodeRecord {
        node: NodeId::of(&node.name),
        // Each session counts on from here; the next process begins far behind.
        incarnation: Incarnation(first << 20),
        name: node.name.clone(),
        address: node.address.clone(),
        format: super::FORMAT,
        ..NodeRecord::default()
    };
    let member = Member::new(node.settings.cluster.member(), me, node.cluster.partitions);
    let mut shell = Shell {
        node: node.clone(),
        states: States::new()?,
        member,
        lease: Lease::new(node.cluster.leases.clone(), format!("{NODE}{}", node.name)),
        session: None,
        tasks: JoinSet::new(),
        opening: BTreeMap::new(),
        notices: mpsc::channel(NOTICES_MAX),
        said_held: None,
        service: service.clone(),
        part: service.part(),
    };
    service.ready();
    tracing::info!(node = %node.name, "node {} joins cluster {}", node.name, node.settings.cluster.name);
    shell.run(signals).await
}

impl Shell {
    pub(crate) async fn run(&mut self, signals: &mut Signals) -> anyhow::Result<Exit> {
        let mut says = tokio::time::interval(SAY_EVERY);
        says.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut measures = tokio::time::interval(MEASURE_EVERY);
        measures.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut leaving = false;
        let mut leave_by = None;
        loop {
            while let Some(action) = self.member.poll(now()) {
                if action == Action::Fence {
                    self.node.gate.open_until(0);
                }
                self.start(action).await;
            }
            self.node.gate.open_until(self.member.held_until());
            let at = now();
            let sleep = self
                .member
                .next_wake(at)
                .map_or(SLEEP_MAX, |wake| Duration::from_millis(wake.saturating_sub(at)).min(SLEEP_MAX));
            tokio::select! {
                biased;
                Some(done) = self.tasks.join_next() => match done {
                    Ok(Done::Left) => return Ok(Exit::Stopped),
                    Ok(done) => self.done(done).await,
                    Err(panic) => anyhow::bail!("a task failed: {panic}"),
                },
                Some(notice) = self.notices.1.recv() => match notice {
                    Notice::Failed(error) => self.fail(error).await,
                    Notice::Drain => {
                        leaving = true;
                        self.leave("asked to leave");
                    }
                },
                () = signals.next() => {
                    self.service.stopping();
                    if std::mem::replace(&mut leaving, true) {
                        return Ok(Exit::StoppedHard);
                    }
                    tracing::info!(node = %self.node.name, "node {}: stopping; handing over", self.node.name);
                    self.member.drain_at_once(now());
                    leave_by = Some(tokio::time::Instant::now() + LEAVE_MAX);
                }
                () = until(leave_by) => {
                    self.cut_off().await;
                    return Ok(Exit::Stopped);
                }
                _ = says.tick() => self.say().await,
                _ = measures.tick() => self.measure(),
                () = tokio::time::sleep(sleep) => {}
            }
            if leaving && self.member.has_left() && self.session.is_none() && self.tasks.is_empty() {
                return Ok(Exit::Stopped);
            }
        }
    }

    pub(crate) fn leave(&mut self, why: &str) {
        self.service.stopping();
        tracing::info!(node = %self.node.name, reason = %why, "node {}: {why}; handing over", self.node.name);
        self.member.drain(now());
    }

    /// Ends the session when the orderly hand-over took too long.
    pub(crate) async fn cut_off(&mut self) {
        let held = self.member.holdings().count();
        tracing::info!(
            node = %self.node.name, held,
            "node {}: {held} partitions still had fetches open after {} s; others repeat them",
            self.node.name,
            LEAVE_MAX.as_secs()
        );
        self.node.gate.open_until(0);
        if let Some(session) = self.session.take() {
            session.end_now().await;
        }
        let leases = &*self.node.cluster.leases;
        _ = tokio::time::timeout(CALL_MAX, self.node.tails.write(leases)).await;
        self.lease.release().await;
    }

    /// Ends the session after a failure, like a lost lease. Releases the lease, so that other nodes need not wait.
    pub(crate) async fn fail(&mut self, error: anyhow::Error) {
        // One failure brings others; the first ends the session.
        let Some(session) = self.session.take() else { return };
        tracing::warn!(
            node = %self.node.name, error = %format_args!("{error:#}"),
            "node {}: beginning again: {error:#}", self.node.name
        );
        session.end_now().await;
        // If a log has lost its end, this node alone knows its length.
        let leases = &*self.node.cluster.leases;
        _ = tokio::time::timeout(CALL_MAX, self.node.tails.write(leases)).await;
        self.lease.release().await;
        self.member.handle_renewed(now(), self.member.incarnation(), SwapResult::Refused);
    }

    /// Sets the load of each partition for the next heartbeat.
    pub(crate) fn measure(&mut self) {
        let Some(session) = &self.session else { return };
        self.member.set_empty(self.node.known.empty());
        session.meter().measure(now()).for_each(|(partition, load)| self.member.set_load(partition, load));
    }

    pub(crate) async fn say(&self) {
        // Without a session there is no worker: the loop, which tries to get one, has come round.
        let Some(session) = &self.session else { return self.part.alive() };
        let open = self.member.holdings().filter(|(_, phase)| *phase == Phase::Open).count();
        let Ok(Some(stats)) = tokio::time::timeout(CALL_MAX, session.stats()).await else { return };
        self.part.alive();
        let (sent, waiting) = session.router.stats();
        let dropped: u64 = session.router.dropped().into_iter().map(|(_, links)| links).sum();
        tracing::info!(
            node = %self.node.name, partitions = open, pages = session.shared.counts.all(),
            queued = stats.totals.waiting, open = stats.gauges.tickets_open,
            "node {}: {open} partitions, {} pages, {} URLs queued, {} open, {} parcels sent, {waiting} bytes wait, {dropped} links spared",
            self.node.name,
            session.shared.counts.all(),
            stats.totals.waiting,
            stats.gauges.tickets_open,
            sent.parcels,
        );
        let turns = self.node.known.turns();
        tracing::info!(
            node = %self.node.name,
            "node {}: turns: {} asked for, {} got, {} given back, {} handed out, {} packets of {} bytes sent, {} items again, {} rings",
            self.node.name,
            turns.asked,
            turns.got,
            turns.given_back,
            turns.granted,
            turns.packets_sent,
            turns.bytes_sent,
            turns.repeated,
            turns.rings,
        );
    }

    pub(crate) async fn start(&mut self, action: Action) {
        let node = self.node.clone();
        let leases = node.cluster.leases.clone();
        let lease = self.lease.clone();
        let incarnation = self.member.incarnation();
        match action {
            Action::Acquire { incarnation, record } => {
                let notices = self.notices.0.clone();
                self.tasks.spawn(async move {
                    let answer = lease.acquire(incarnation, record.encode().into()).await;
                    match answer {
                        SwapResult::Done(_) => {}
                        SwapResult::Refused => return Done::Held(incarnation),
                        SwapResult::Unknown => return Done::Acquired(incarnation, answer, None),
                    }
                    match tokio::time::timeout(CALL_MAX, Session::begin(&node, incarnation, notices)).await {
                        Ok(Ok(session)) => Done::Acquired(incarnation, answer, Some(session)),
                        failed => {
                            if let Ok(Err(error)) = failed {
                                tracing::warn!(
                                    node = %node.name, error = %format_args!("{error:#}"),
                                    "node {}: {error:#}", node.name
                                );
                            }
                            lease.release().await;
                            Done::Acquired(incarnation, SwapResult::Refused, None)
                        }
                    }
                });
            }
            Action::Renew { incarnation, record } => {
                self.tasks.spawn(async move {
                    Done::Renewed(incarnation, lease.renew(incarnation, record.encode().into()).await)
                });
            }
            Action::Read { incarnation } => {
                self.tasks.spawn(async move { Done::Read(incarnation, view(&*leases).await) });
            }
            Action::Claim { partition, expected, record } => {
                let view = self.node.known.view();
                let owner = view.as_ref().and_then(|(view, _)| view.owners.get(&partition));
                let before = owner.map(|(_, record)| record);
                self.node.known.measured.claims(partition, before, Instant::now());
                self.tasks.spawn(async move {
                    let value = record.encode().into();
                    let put = bounded(leases.put(&owner_key(partition), expected, value)).await;
                    Done::Claimed(partition, incarnation, answer(put))
                });
            }
            Action::Release { partition, expected, record } => {
                self.tasks.spawn(async move {
                    let value = record.encode().into();
                    let put = bounded(leases.put(&owner_key(partition), Some(expected), value)).await;
                    Done::Released(partition, incarnation, answer(put))
                });
            }
            Action::Open { partition, epoch } => {
                let Some(session) = &self.session else {
                    return self.member.handle_open_failed(now(), partition, epoch);
                };
                let (states, opening) = (self.states.clone(), Opening::of(session));
                self.opening.insert(partition, None);
                self.tasks.spawn(async move {
                    let opened = parts::open(node, states, opening, partition, epoch.0).await;
                    Done::Opened(partition, epoch, incarnation, opened)
                });
            }
            Action::Drain { partition, epoch } => {
                let Some(session) = &mut self.session else { return };
                if let Some(then) = self.opening.get_mut(&partition) {
                    // The partition would arrive at the worker after the request to leave: open first, then close.
                    *then = Some(epoch);
                    return;
                }
                // Messages from now on are read by the next owner.
                session.inboxes.remove(&partition);
                session.meter().end(partition);
                session.router.hurry();
                let (handle, fence) = (session.shared.handle.clone(), session.fence.clone());
                let spider = node.spider.clone();
                let prefixes = Prefixes::share(partition, node.cluster.partitions);
                self.tasks.spawn(async move {
                    // If the worker has ended there is nothing left to hand over. If the session has ended, no task
                    // waits for open fetches, and the worker ends only when all its handles are dropped.
                    tokio::select! {
                        _ = handle.close(prefixes) => {}
                        () = fence.fallen() => return Done::Drained(partition, epoch, incarnation),
                    }
                    spider.close_idle(|origin| {
                        let url = CrawlUrl::parse(origin);
                        url.is_ok_and(|url| prefixes.holds(handle.key(&url).host.domain))
                    });
                    Done::Drained(partition, epoch, incarnation)
                });
            }
            Action::Fence => {
                tracing::warn!(
                    node = %node.name,
                    "node {}: the lease may be lost; everything stops", node.name
                );
                self.opening.clear();
                self.node.known.measured.lost_all();
                if let Some(session) = self.session.take() {
                    session.end_now().await;
                }
                self.member.handle_fenced(now());
            }
            Action::Leave { .. } => {
                let session = self.session.take();
                self.tasks.spawn(async move {
                    if let Some(session) = session
                        && let Err(error) = session.end().await
                    {
                        tracing::warn!(
                            node = %node.name, error = %format_args!("{error:#}"),
                            "node {}: {error:#}", node.name
                        );
                    }
                    lease.release().await;
                    tracing::info!(node = %node.name, "node {}: everything is handed over", node.name);
                    Done::Left
                });
            }
        }
    }

    /// Reports that another process holds the lease of this name. That is normal for a moment after a process was
    /// killed.
    pub(crate) fn say_held(&mut self) {
        if self.said_held.is_none_or(|said| said.elapsed() >= SAY_EVERY) {
            self.said_held = Some(Instant::now());
            tracing::warn!(
                node = %self.node.name,
                "node {}: waiting: this name is held, by a node that was killed less than {} s ago or by another that \
                 lives. Nodes need names unlike all others: --node NAME",
                self.node.name,
                self.node.settings.cluster.lease_ttl.as_secs()
            );
        }
    }

    pub(crate) async fn done(&mut self, done: Done) {
        let (at, current) = (now(), self.member.incarnation());
        match done {
            Done::Acquired(incarnation, answer, session) => {
                self.member.handle_acquired(at, incarnation, answer);
                match session {
                    Some(session) if self.member.is_held(now()) && incarnation == current => {
                        self.node.known.begun(&session.shared);
                        self.session = Some(session);
                    }
                    Some(session) => session.end_now().await,
                    None => {}
                }
            }
            Done::Held(incarnation) => {
                self.member.handle_acquired(at, incarnation, SwapResult::Refused);
                self.say_held();
            }
            Done::Renewed(incarnation, answer) => {
                self.member.handle_renewed(at, incarnation, answer);
            }
            Done::Read(incarnation, view) => {
                self.member.handle_view(at, incarnation, view.as_ref());
                if let Some(view) = view {
                    self.node.known.seen(view);
                }
            }
            Done::Claimed(partition, incarnation, answer) => {
                self.member.handle_claimed(at, partition, incarnation, answer);
            }
            Done::Opened(partition, epoch, incarnation, opened) if incarnation == current => {
                let then = self.opening.remove(&partition).flatten();
                let session = self.session.as_mut();
                let error = opened.as_ref().err().map(|error| format!("{error:#}"));
                self.node.known.opened(partition, error);
                match (opened, session) {
                    (Ok(reader), Some(session)) => {
                        // The partition may have to leave again before it was open.
                        if self.member.phase(partition) == Some(Phase::Opening) {
                            session.inboxes.insert(partition, reader);
                            let load = self.member.load(partition);
                            session.meter().begin(at, partition, load);
                        }
                        self.node.known.measured.opened(partition, Instant::now());
                        self.member.handle_opened(partition, epoch);
                    }
                    (Ok(_), None) => {}
                    (Err(error), session) => {
                        if session.is_some() {
                            tracing::warn!(
                                partition, error = %format_args!("{error:#}"),
                                "partition {partition} cannot be opened: {error:#}"
                            );
                        }
                        self.member.handle_open_failed(at, partition, epoch);
                    }
                }
                if let Some(epoch) = then {
                    self.start(Action::Drain { partition, epoch }).await;
                }
            }
            Done::Drained(partition, epoch, incarnation) if incarnation == current => {
                self.node.known.measured.given_up(partition);
                self.member.handle_drained(partition, epoch);
            }
            Done::Released(partition, incarnation, answer) => {
                self.member.handle_released(at, partition, incarnation, answer);
            }
            Done::Opened(..) | Done::Drained(..) | Done::Left => {}
        }
    }
}

pub(crate) fn owner_key(partition: u32) -> String {
    format!("{OWNER}{partition:05}")
}

/// Reads owner records first, then the leases: see [`Action::Read`].
pub(crate) async fn view(leases: &dyn Leases) -> Option<View> {
    let owners = bounded(leases.records(OWNER)).await.ok()?;
    let pins = bounded(super::pins::by_partition(leases)).await.ok()?;
    let held = bounded(leases.held()).await.ok()?;
    let mut records = BTreeMap::new();
    for item in owners {
        let partition = item.key.strip_prefix(OWNER)?.parse().ok()?;
        records.insert(partition, (item.revision, OwnerRecord::decode(&item.value).ok()?));
    }
    let mut nodes = Vec::new();
    for (item, name) in held.iter().filter_map(|item| Some((item, item.key.strip_prefix(NODE)?))) {
        // The servers let a node write its own lease alone; so one that says to be another node is a lie.
        let record = NodeRecord::decode(&item.value).ok()?;
        if record.node == NodeId::of(name) && record.name == name {
            nodes.push(record);
        }
    }
    Some(View { nodes, owners: records, pins })
}
