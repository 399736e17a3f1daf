//! One node of a cluster: its lease, the partitions it owns, and how it claims and hands over partitions.
//!
//! A node **acquires** its lease, as a new incarnation each time, and **renews** the lease. The lease counts as held
//! until the start of the last call that succeeded, measured before the call was sent, plus the time to live, less a
//! margin. After this deadline the node is **fenced**: the node stops everything at once and begins again as another
//! incarnation. `now` is in milliseconds, on a clock that goes on while the machine sleeps; no clock of another
//! machine is ever read.
//!
//! With a lease the node **reads** the view: the owner records first, the live leases after them. In this order an
//! owner whose lease is not seen had a lease before the owner wrote its record, so that lease is gone for good. The
//! node **claims** partitions that [`place`] gives to the node and that have no owner, by compare-and-swap on the
//! record as read. The new revision is the epoch under which the node **opens** the partition. The node **drains**
//! partitions that [`place`] gives to another node (no more tickets, wait for the open ones, write, checkpoint) and
//! then **releases** them.
//!
//! [`place`]: super::placement::place
//!
//! Usage: call the `handle_*` methods when something happened, then [`Member::poll`] until no action is left; sleep
//! until [`Member::next_wake`]. Every action is answered once, in bounded time; [`SwapResult::Unknown`] is an answer.
//! After any sleep ask [`Member::is_held`] before doing anything in the name of a partition.
//!
//! Invariant: of all members over one store, no two for which [`Member::epoch`] gives an epoch hold one partition.

mod action;
mod decide;
mod outlook;
mod record;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Epoch, Incarnation, NodeId};
use crate::planted::{self, Bug};

pub use action::{Action, Phase, SwapResult, View};
pub use outlook::Outlook;
pub use record::{NodeRecord, OwnerRecord, OwnerState};

/// Delay before the retry of a failed call, in milliseconds.
const AGAIN_AFTER: u64 = 500;

/// A node that could not open a partition does not claim the partition again for this long, in milliseconds.
const OPEN_AGAIN_AFTER: u64 = 30_000;

/// How a node keeps its lease and its partitions. Section `[cluster.member]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Time to live of a node's lease. The engine's own fail-over takes 6 to 13 s, and shorter leases expire during
    /// the fail-over; the partitions of a killed node stay idle for this long.
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,
    /// Renewal interval of the lease. Keep it under a third of `ttl`.
    #[serde(with = "humantime_serde")]
    pub heartbeat: Duration,
    /// A node stops this long before its lease can pass on. The margin covers the time to stop and clocks of
    /// different speeds.
    #[serde(with = "humantime_serde")]
    pub margin: Duration,
    /// Interval between two reads of the list of nodes and owners.
    #[serde(with = "humantime_serde")]
    pub view_interval: Duration,
    /// Maximum number of partitions handed over at once. A partition gives out no tickets during its hand-over.
    pub drains_max: usize,
    /// Maximum number of partitions claimed and opened at once.
    pub opens_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            ttl: Duration::from_secs(15),
            heartbeat: Duration::from_secs(4),
            margin: Duration::from_secs(3),
            view_interval: Duration::from_secs(1),
            drains_max: 4,
            opens_max: 16,
        }
    }
}

/// Counters of the member. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Leases acquired.
    pub acquired: u64,
    /// Times the node was fenced.
    pub fenced: u64,
    /// Partitions claimed.
    pub claimed: u64,
    /// Partitions released.
    pub released: u64,
    /// Views taken in.
    pub views: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    None { not_before: u64 },
    Acquiring { started: u64 },
    Held { until: u64, renew_at: u64, renewing: Option<u64> },
    Fencing,
    Left,
}

#[derive(Clone, Copy, Debug)]
struct Holding {
    phase: Phase,
    /// The revision under which the partition is ours; while the claim is open, the expected revision.
    epoch: u64,
    /// A release call is in flight.
    asked: bool,
}

/// One node of a cluster.
#[derive(Debug)]
pub struct Member {
    settings: Settings,
    /// The content of the lease; the incarnation is that of the current lease, or of the last one.
    me: NodeRecord,
    partitions: u32,
    lease: Lease,
    /// When the view is read next, and whether a read is in flight.
    read_at: u64,
    reading: bool,
    holdings: BTreeMap<u32, Holding>,
    /// By partition, the highest revision seen of its record: a lower revision is stale.
    revisions: Vec<u64>,
    /// The meaning of the last view, the same for all nodes that saw this view.
    outlook: Option<Arc<Outlook>>,
    /// Partitions that could not be opened, and until when this node does not claim them again.
    shunned: BTreeMap<u32, u64>,
    /// Partitions of ours that hold nothing yet.
    empty: BTreeSet<u32>,
    actions: VecDeque<Action>,
    /// A view was taken in since the last fence, so our partitions in the view are known.
    seen: bool,
    stats: Stats,
}

impl Member {
    /// A node that has no lease yet. `me` has its name and address. Its incarnation is a number that no process of
    /// this node had before and that leaves room for the next ones: a random number, or the time in microseconds.
    pub fn new(settings: Settings, me: NodeRecord, partitions: u32) -> Member {
        Member {
            settings,
            me,
            partitions,
            lease: Lease::None { not_before: 0 },
            read_at: 0,
            reading: false,
            holdings: BTreeMap::new(),
            revisions: vec![0; partitions as usize],
            outlook: None,
            shunned: BTreeMap::new(),
            empty: BTreeSet::new(),
            actions: VecDeque::new(),
            seen: false,
            stats: Stats::default(),
        }
    }

    /// The id of this node.
    pub fn id(&self) -> NodeId {
        self.me.node
    }

    /// The incarnation of the lease, or of the last one.
    pub fn incarnation(&self) -> Incarnation {
        self.me.incarnation
    }

    /// The counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Whether this node may act at all. Check before every ticket, request and append in the name of a partition.
    pub fn is_held(&self, now: u64) -> bool {
        now < self.held_until()
    }

    /// Until when [`Member::is_held`] is true; 0 if there is no lease.
    pub fn held_until(&self) -> u64 {
        match self.lease {
            Lease::Held { until, .. } => until,
            _ => 0,
        }
    }

    /// The epoch under which this node may write for a partition, if it may.
    pub fn epoch(&self, now: u64, partition: u32) -> Option<Epoch> {
        let holding = self.holdings.get(&partition).filter(|_| self.is_held(now))?;
        matches!(holding.phase, Phase::Opening | Phase::Open | Phase::Draining)
            .then_some(Epoch(holding.epoch))
    }

    /// The phase of a partition; none if this node neither holds nor claims the partition.
    pub fn phase(&self, partition: u32) -> Option<Phase> {
        self.holdings.get(&partition).map(|holding| holding.phase)
    }

    /// The partitions that this node holds or claims.
    pub fn holdings(&self) -> impl Iterator<Item = (u32, Phase)> + '_ {
        self.holdings.iter().map(|(partition, holding)| (*partition, holding.phase))
    }

    /// Whether the node has handed over everything and left.
    pub fn has_left(&self) -> bool {
        self.lease == Lease::Left
    }

    /// Sets the load of a partition of ours: see [`load`](super::load). The next heartbeat publishes the load.
    pub fn set_load(&mut self, partition: u32, load: u32) {
        self.me.loads.insert(partition, load);
    }

    /// Sets which partitions of ours hold nothing yet. Where other nodes have much less load, these partitions are
    /// given away, so that new domains go there.
    pub fn set_empty(&mut self, empty: BTreeSet<u32>) {
        self.empty = empty;
    }

    /// The last known load of a partition.
    pub fn load(&self, partition: u32) -> Option<u32> {
        self.me.loads.get(&partition).copied().or_else(|| self.seen_load(partition))
    }

    /// The load of a partition in the last view.
    fn seen_load(&self, partition: u32) -> Option<u32> {
        self.outlook.as_ref().and_then(|outlook| outlook.load(partition))
    }

    /// Hands over all partitions and leaves.
    pub fn drain(&mut self, now: u64) {
        self.me.draining = true;
        match &mut self.lease {
            // The others have to know at once, or they would leave the partitions that we give away to us.
            Lease::Held { renew_at, .. } => *renew_at = now,
            Lease::None { .. } => self.leave(),
            _ => {}
        }
        self.read_at = self.read_at.min(now);
    }

    /// Like [`Member::drain`], with all partitions at once: for a shutdown that must not take long.
    pub fn drain_at_once(&mut self, now: u64) {
        self.settings.drains_max = usize::MAX;
        self.drain(now);
    }

    /// The next action; none if nothing is due before [`Member::next_wake`].
    pub fn poll(&mut self, now: u64) -> Option<Action> {
        match self.lease {
            Lease::Held { until, .. } if now >= until => self.fence(),
            Lease::None { not_before } if now >= not_before => {
                // A new incarnation for each try: a create call that was given up may still arrive.
                self.me.incarnation.0 += 1;
                self.lease = Lease::Acquiring { started: now };
                let record = self.me.clone();
                return Some(Action::Acquire { incarnation: self.me.incarnation, record });
            }
            _ => {}
        }
        if let Some(action) = self.actions.pop_front() {
            return Some(action);
        }
        let Lease::Held { renew_at, renewing, .. } = &mut self.lease else { return None };
        if renewing.is_none() && now >= *renew_at {
            *renewing = Some(now);
            let holdings = &self.holdings;
            self.me.loads.retain(|partition, _| holdings.contains_key(partition));
            return Some(Action::Renew { incarnation: self.me.incarnation, record: self.me.clone() });
        }
        if !self.reading && now >= self.read_at {
            self.reading = true;
            return Some(Action::Read { incarnation: self.me.incarnation });
        }
        None
    }

    /// When to call [`Member::poll`] again if nothing happens; none if only an answer can change anything.
    pub fn next_wake(&self, now: u64) -> Option<u64> {
        if !self.actions.is_empty() {
            return Some(now);
        }
        match self.lease {
            Lease::None { not_before } => Some(not_before),
            Lease::Held { until, renew_at, renewing } => {
                let renew = if renewing.is_some() { until } else { renew_at };
                let read = if self.reading { until } else { self.read_at };
                Some(until.min(renew).min(read))
            }
            Lease::Acquiring { .. } | Lease::Fencing | Lease::Left => None,
        }
    }

    /// The result of [`Action::Acquire`].
    pub fn handle_acquired(&mut self, now: u64, incarnation: Incarnation, answer: SwapResult) {
        let Lease::Acquiring { started } = self.lease else { return };
        if incarnation != self.me.incarnation {
            return;
        }
        if self.me.draining {
            return self.leave();
        }
        let until = self.until(started);
        self.lease = match answer {
            SwapResult::Done(_) if now < until => {
                self.stats.acquired += 1;
                (self.read_at, self.reading, self.seen) = (now, false, false);
                let renew_at = started + ms(self.settings.heartbeat);
                Lease::Held { until, renew_at, renewing: None }
            }
            _ => Lease::None { not_before: now + AGAIN_AFTER },
        };
    }

    /// The result of [`Action::Renew`].
    pub fn handle_renewed(&mut self, now: u64, incarnation: Incarnation, answer: SwapResult) {
        let heartbeat = ms(self.settings.heartbeat);
        let again = now + AGAIN_AFTER;
        if incarnation != self.me.incarnation {
            return;
        }
        let Lease::Held { until, renew_at, renewing } = &mut self.lease else { return };
        let Some(started) = renewing.take() else { return };
        match answer {
            SwapResult::Done(_) => {
                *renew_at = started + heartbeat;
                *until = started + ms(self.settings.ttl) - ms(self.settings.margin);
                if planted::is(Bug::LeaseFromAnswer) {
                    *until = now + ms(self.settings.ttl);
                }
            }
            SwapResult::Unknown => *renew_at = again,
            SwapResult::Refused => self.fence(),
        }
    }

    /// Everything has stopped: [`Action::Fence`] is carried out.
    pub fn handle_fenced(&mut self, now: u64) {
        if self.lease == Lease::Fencing {
            self.lease = Lease::None { not_before: now };
            if self.me.draining {
                self.leave();
            }
        }
    }

    /// The result of [`Action::Read`]; none if the read failed.
    pub fn handle_view(&mut self, now: u64, incarnation: Incarnation, view: Option<&View>) {
        let outlook =
            view.filter(|_| self.is_held(now)).map(|view| Arc::new(Outlook::new(view, self.partitions)));
        self.handle_outlook(now, incarnation, outlook.as_ref());
    }

    /// Like [`Member::handle_view`], for a caller that already has the outlook of the view. The outlook must have as
    /// many partitions as this member was made for.
    pub fn handle_outlook(&mut self, now: u64, incarnation: Incarnation, outlook: Option<&Arc<Outlook>>) {
        if incarnation != self.me.incarnation {
            return;
        }
        // A view that arrives after the lease ran out is also an answer: a renewal that comes a moment later keeps
        // the lease.
        self.reading = false;
        self.read_at = now + AGAIN_AFTER;
        let Some(outlook) = outlook.filter(|_| self.is_held(now)) else { return };
        // A list without us is older than our lease, or our lease is gone: either way the list is of no use.
        if !outlook.holds(incarnation) {
            return;
        }
        self.read_at = now + ms(self.settings.view_interval);
        self.stats.views += 1;
        self.seen = true;
        self.outlook = Some(outlook.clone());
        self.decide(now, outlook);
        self.leave_if_done();
    }

    /// The result of [`Action::Claim`].
    pub fn handle_claimed(&mut self, now: u64, partition: u32, incarnation: Incarnation, answer: SwapResult) {
        if incarnation != self.me.incarnation || self.phase(partition) != Some(Phase::Claiming) {
            return;
        }
        match answer {
            SwapResult::Done(revision) => self.own(partition, revision, !self.me.draining),
            // The next view shows the owner, also if we are the owner after all.
            SwapResult::Refused | SwapResult::Unknown => {
                self.holdings.remove(&partition);
                self.read_soon(now);
            }
        }
        self.leave_if_done();
    }

    /// [`Action::Open`] succeeded: the partition is open.
    pub fn handle_opened(&mut self, partition: u32, epoch: Epoch) {
        if let Some(holding) = self.holdings.get_mut(&partition)
            && (holding.phase, holding.epoch) == (Phase::Opening, epoch.0)
        {
            holding.phase = Phase::Open;
        }
    }

    /// [`Action::Open`] failed: the partition cannot be opened here. This node releases the partition and does not
    /// claim it again for a while.
    pub fn handle_open_failed(&mut self, now: u64, partition: u32, epoch: Epoch) {
        let phase = self.holdings.get(&partition).filter(|holding| holding.epoch == epoch.0);
        if phase.is_some_and(|holding| holding.phase == Phase::Opening) {
            self.shunned.insert(partition, now + OPEN_AGAIN_AFTER);
            self.release(partition, epoch.0);
        }
    }

    /// The result of [`Action::Drain`].
    pub fn handle_drained(&mut self, partition: u32, epoch: Epoch) {
        let phase = self.holdings.get(&partition).filter(|holding| holding.epoch == epoch.0);
        if phase.is_some_and(|holding| holding.phase == Phase::Draining) {
            self.release(partition, epoch.0);
        }
    }

    /// The result of [`Action::Release`].
    pub fn handle_released(
        &mut self,
        now: u64,
        partition: u32,
        incarnation: Incarnation,
        answer: SwapResult,
    ) {
        if incarnation != self.me.incarnation || self.phase(partition) != Some(Phase::Releasing) {
            return;
        }
        match answer {
            SwapResult::Done(revision) => {
                self.stats.released += 1;
                self.revision(partition, revision);
                self.holdings.remove(&partition);
            }
            SwapResult::Refused => {
                // An earlier try was written: a view that still shows the partition as ours was read before.
                if let Some(Holding { epoch, .. }) = self.holdings.remove(&partition) {
                    self.revision(partition, epoch + 1);
                }
            }
            SwapResult::Unknown => {
                self.holdings.get_mut(&partition).expect("it is being released").asked = false;
            }
        }
        self.read_soon(now);
        self.leave_if_done();
    }

    fn until(&self, started: u64) -> u64 {
        started + ms(self.settings.ttl) - ms(self.settings.margin)
    }

    fn read_soon(&mut self, now: u64) {
        self.read_at = self.read_at.min(now + AGAIN_AFTER / 2);
    }

    /// The lease is over: stops everything that was begun under the lease.
    fn fence(&mut self) {
        self.stats.fenced += 1;
        self.lease = Lease::Fencing;
        self.holdings.clear();
        self.actions.clear();
        self.reading = false;
        self.actions.push_back(Action::Fence);
    }

    fn leave_if_done(&mut self) {
        let held = matches!(self.lease, Lease::Held { .. });
        if self.me.draining && held && self.seen && self.holdings.is_empty() && self.actions.is_empty() {
            self.leave();
        }
    }

    fn leave(&mut self) {
        self.lease = Lease::Left;
        self.actions.push_back(Action::Leave { incarnation: self.me.incarnation });
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
