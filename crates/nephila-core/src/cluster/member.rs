//! One node of a cluster: when it may work, on which partitions, and what it does about the others.
//!
//! A node **acquires** its lease, as a new incarnation each time, and **renews** it. The lease counts as held until the
//! start of the last call that succeeded, measured before it was sent, plus the time to live, less a margin. Past that
//! the node is **fenced**: it stops everything at once and begins again as another incarnation. `now` is in
//! milliseconds, on a clock that goes on while the machine sleeps; no clock of another machine is ever looked at.
//!
//! With a lease it **reads** the view: the owner records first, the live leases after them. In this order an owner whose
//! lease is not seen had one before it wrote its record, so its lease is gone for good. What [`place`] gives it and
//! nobody holds it **claims**, by compare-and-swap on the record as it was read; the new revision is the epoch under
//! which it **opens** the partition. What [`place`] gives to another it **drains** (no more tickets, wait for the open
//! ones, write, checkpoint) and then **releases**.
//!
//! [`place`]: super::placement::place
//!
//! Call it like this: the `handle_*` methods when something happened, then [`Member::poll`] until it gives nothing;
//! sleep until [`Member::next_wake`]. Every action is answered once, in bounded time; [`Answer::Unknown`] is an answer.
//! After any sleep ask [`Member::is_held`] before doing anything in the name of a partition.
//!
//! Invariant: of all members over one store, no two for which [`Member::epoch`] gives an epoch hold one partition.

mod action;
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

pub use action::{Action, Answer, Phase, View};
pub use outlook::Outlook;
pub use record::{NodeRecord, OwnerRecord, OwnerState};

/// A call that failed is made again after this, in milliseconds.
const AGAIN_AFTER: u64 = 500;

/// A partition that could not be opened is not claimed again by this node for so long, in milliseconds.
const OPEN_AGAIN_AFTER: u64 = 30_000;

/// How a node keeps its place. Section `[cluster.member]` of the settings file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Time to live of a node's lease. The engine's own fail-over takes 6 to 13 s, and leases shorter than that die
    /// with it; a node that is killed is missed for this long.
    #[serde(with = "humantime_serde")]
    pub ttl: Duration,
    /// The lease is renewed this often. Keep it under a third of `ttl`.
    #[serde(with = "humantime_serde")]
    pub heartbeat: Duration,
    /// A node stops this long before its lease can pass on: for what it has to stop, and for clocks that do not run at
    /// one speed.
    #[serde(with = "humantime_serde")]
    pub margin: Duration,
    /// The list of nodes and owners is read this often.
    #[serde(with = "humantime_serde")]
    pub view_interval: Duration,
    /// Partitions handed over at once, each without tickets meanwhile.
    pub drains_max: usize,
    /// Partitions claimed and opened at once.
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

/// What the member did, in numbers that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Leases acquired.
    pub acquired: u64,
    /// Times it was fenced.
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
    /// The revision under which it is ours; while it is claimed, the one expected.
    epoch: u64,
    /// A release is on its way.
    asked: bool,
}

/// One node of a cluster.
#[derive(Debug)]
pub struct Member {
    settings: Settings,
    /// What the lease says; the incarnation is that of the current lease, or the last one.
    me: NodeRecord,
    partitions: u32,
    lease: Lease,
    /// When the view is read next, and whether it is being read.
    read_at: u64,
    reading: bool,
    holdings: BTreeMap<u32, Holding>,
    /// By partition, the highest revision seen of its record: whatever is lower is old news.
    revisions: Vec<u64>,
    /// What the last view meant, the same for all nodes that saw it.
    outlook: Option<Arc<Outlook>>,
    /// Partitions that could not be opened, and until when they are left alone.
    shunned: BTreeMap<u32, u64>,
    /// Partitions of ours that hold nothing yet.
    empty: BTreeSet<u32>,
    actions: VecDeque<Action>,
    /// A view was taken in since the last fence, so what it shows of us is known.
    seen: bool,
    stats: Stats,
}

impl Member {
    /// A node that has no lease yet. `me` says its name and where to reach it; its incarnation is a number that no
    /// process of this node had before and that leaves room for the next ones: chance, or the time in microseconds.
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

    /// Which node it is.
    pub fn id(&self) -> NodeId {
        self.me.node
    }

    /// The incarnation of the lease, or of the last one.
    pub fn incarnation(&self) -> Incarnation {
        self.me.incarnation
    }

    /// What was done so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// May this node act at all? Ask before every ticket, request and append that a partition's name is under.
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

    /// How far a partition is, if this node has to do with it.
    pub fn phase(&self, partition: u32) -> Option<Phase> {
        self.holdings.get(&partition).map(|holding| holding.phase)
    }

    /// The partitions that this node has to do with.
    pub fn holdings(&self) -> impl Iterator<Item = (u32, Phase)> + '_ {
        self.holdings.iter().map(|(partition, holding)| (*partition, holding.phase))
    }

    /// Has it handed over everything and left?
    pub fn has_left(&self) -> bool {
        self.lease == Lease::Left
    }

    /// How much work a partition of ours is: see [`load`](super::load). The next heartbeat says so.
    pub fn set_load(&mut self, partition: u32, load: u32) {
        self.me.loads.insert(partition, load);
    }

    /// Which partitions of ours hold nothing yet. Where others have much less to do these are given away, so that new
    /// domains go there.
    pub fn set_empty(&mut self, empty: BTreeSet<u32>) {
        self.empty = empty;
    }

    /// How much work a partition was when somebody said so last.
    pub fn load(&self, partition: u32) -> Option<u32> {
        self.me.loads.get(&partition).copied().or_else(|| self.seen_load(partition))
    }

    /// Its load as the last view had it.
    fn seen_load(&self, partition: u32) -> Option<u32> {
        self.outlook.as_ref().and_then(|outlook| outlook.load(partition))
    }

    /// Hands everything over and leaves.
    pub fn drain(&mut self, now: u64) {
        self.me.draining = true;
        match &mut self.lease {
            // The others have to know at once, or they would leave what is given away to us.
            Lease::Held { renew_at, .. } => *renew_at = now,
            Lease::None { .. } => self.leave(),
            _ => {}
        }
        self.read_at = self.read_at.min(now);
    }

    /// The same, everything at once: whoever waits for us to leave does not wait long.
    pub fn drain_at_once(&mut self, now: u64) {
        self.settings.drains_max = usize::MAX;
        self.drain(now);
    }

    /// What to do next; none if there is nothing before [`Member::next_wake`].
    pub fn poll(&mut self, now: u64) -> Option<Action> {
        match self.lease {
            Lease::Held { until, .. } if now >= until => self.fence(),
            Lease::None { not_before } if now >= not_before => {
                // A new one for each try: a create that was given up may still arrive.
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

    /// What came of [`Action::Acquire`].
    pub fn handle_acquired(&mut self, now: u64, incarnation: Incarnation, answer: Answer) {
        let Lease::Acquiring { started } = self.lease else { return };
        if incarnation != self.me.incarnation {
            return;
        }
        if self.me.draining {
            return self.leave();
        }
        let until = self.until(started);
        self.lease = match answer {
            Answer::Done(_) if now < until => {
                self.stats.acquired += 1;
                (self.read_at, self.reading, self.seen) = (now, false, false);
                let renew_at = started + ms(self.settings.heartbeat);
                Lease::Held { until, renew_at, renewing: None }
            }
            _ => Lease::None { not_before: now + AGAIN_AFTER },
        };
    }

    /// What came of [`Action::Renew`].
    pub fn handle_renewed(&mut self, now: u64, incarnation: Incarnation, answer: Answer) {
        let heartbeat = ms(self.settings.heartbeat);
        let again = now + AGAIN_AFTER;
        if incarnation != self.me.incarnation {
            return;
        }
        let Lease::Held { until, renew_at, renewing } = &mut self.lease else { return };
        let Some(started) = renewing.take() else { return };
        match answer {
            Answer::Done(_) => {
                *renew_at = started + heartbeat;
                *until = started + ms(self.settings.ttl) - ms(self.settings.margin);
                if planted::is(Bug::LeaseFromAnswer) {
                    *until = now + ms(self.settings.ttl);
                }
            }
            Answer::Unknown => *renew_at = again,
            Answer::Refused => self.fence(),
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

    /// What came of [`Action::Read`]; none if it could not be read.
    pub fn handle_view(&mut self, now: u64, incarnation: Incarnation, view: Option<&View>) {
        let outlook =
            view.filter(|_| self.is_held(now)).map(|view| Arc::new(Outlook::new(view, self.partitions)));
        self.handle_outlook(now, incarnation, outlook.as_ref());
    }

    /// The same, for whoever knows already what the view means. It must be of as many partitions as this member was made for.
    pub fn handle_outlook(&mut self, now: u64, incarnation: Incarnation, outlook: Option<&Arc<Outlook>>) {
        if incarnation != self.me.incarnation {
            return;
        }
        // Also what comes when the lease has run out is an answer: a renewal that comes a moment later keeps the lease.
        self.reading = false;
        self.read_at = now + AGAIN_AFTER;
        let Some(outlook) = outlook.filter(|_| self.is_held(now)) else { return };
        // A list without us is older than our lease, or our lease is gone: either way it says nothing to go by.
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

    /// What came of [`Action::Claim`].
    pub fn handle_claimed(&mut self, now: u64, partition: u32, incarnation: Incarnation, answer: Answer) {
        if incarnation != self.me.incarnation || self.phase(partition) != Some(Phase::Claiming) {
            return;
        }
        match answer {
            Answer::Done(revision) => self.own(partition, revision, !self.me.draining),
            // The next view tells who has it; if it is we after all, it tells that too.
            Answer::Refused | Answer::Unknown => {
                self.holdings.remove(&partition);
                self.read_soon(now);
            }
        }
        self.leave_if_done();
    }

    /// What came of [`Action::Open`]: it works.
    pub fn handle_opened(&mut self, partition: u32, epoch: Epoch) {
        if let Some(holding) = self.holdings.get_mut(&partition)
            && (holding.phase, holding.epoch) == (Phase::Opening, epoch.0)
        {
            holding.phase = Phase::Open;
        }
    }

    /// What came of [`Action::Open`]: it cannot be opened here. It is given back and left alone for a while.
    pub fn handle_open_failed(&mut self, now: u64, partition: u32, epoch: Epoch) {
        let phase = self.holdings.get(&partition).filter(|holding| holding.epoch == epoch.0);
        if phase.is_some_and(|holding| holding.phase == Phase::Opening) {
            self.shunned.insert(partition, now + OPEN_AGAIN_AFTER);
            self.release(partition, epoch.0);
        }
    }

    /// What came of [`Action::Drain`].
    pub fn handle_drained(&mut self, partition: u32, epoch: Epoch) {
        let phase = self.holdings.get(&partition).filter(|holding| holding.epoch == epoch.0);
        if phase.is_some_and(|holding| holding.phase == Phase::Draining) {
            self.release(partition, epoch.0);
        }
    }

    /// What came of [`Action::Release`].
    pub fn handle_released(&mut self, now: u64, partition: u32, incarnation: Incarnation, answer: Answer) {
        if incarnation != self.me.incarnation || self.phase(partition) != Some(Phase::Releasing) {
            return;
        }
        match answer {
            Answer::Done(revision) => {
                self.stats.released += 1;
                self.revision(partition, revision);
                self.holdings.remove(&partition);
            }
            Answer::Refused => {
                // An earlier try was written: whoever still says that it is ours read that before.
                if let Some(Holding { epoch, .. }) = self.holdings.remove(&partition) {
                    self.revision(partition, epoch + 1);
                }
            }
            Answer::Unknown => {
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

    /// The lease is over: nothing that was begun under it goes on.
    fn fence(&mut self) {
        self.stats.fenced += 1;
        self.lease = Lease::Fencing;
        self.holdings.clear();
        self.actions.clear();
        self.reading = false;
        self.actions.push_back(Action::Fence);
    }

    /// Notes a revision; false if a later one is known.
    fn revision(&mut self, partition: u32, revision: u64) -> bool {
        let Some(known) = self.revisions.get_mut(partition as usize) else { return false };
        let fresh = revision >= *known;
        *known = revision.max(*known);
        fresh
    }

    /// What the records and leases mean for each partition.
    fn decide(&mut self, now: u64, outlook: &Outlook) {
        // What we are giving up counts as nobody's, or another would be given up in its place at the next look, when the
        // loads are a little different.
        let going: Vec<u32> = self.holdings.keys().copied().filter(|number| self.is_going(*number)).collect();
        let own = (!going.is_empty()).then(|| outlook.plan_without(&going));
        let plan = own.as_ref().unwrap_or_else(|| outlook.plan());
        let crowded = plan.is_crowded(self.me.node);
        // All others are others' affair.
        let (me, incarnation) = (self.me.node, self.me.incarnation);
        let mut ours: Vec<u32> = self.holdings.keys().copied().collect();
        ours.extend(outlook.owned_by(incarnation).chain(plan.all_for(me)));
        ours.sort_unstable();
        ours.dedup();
        for partition in ours {
            let record = outlook.revision(partition);
            let revision = record.unwrap_or(0);
            // Old news: we have seen what came after.
            if !self.revision(partition, revision) {
                continue;
            }
            let wanted = plan.is_for(partition, me)
                && !self.me.draining
                && !(crowded && self.is_spare(partition, outlook));
            let ours = outlook.is_owned_by(partition, incarnation);
            match self.holdings.get(&partition).copied() {
                // A claim that nobody answered has been written.
                None if ours => self.own(partition, revision, wanted),
                None => {
                    if outlook.is_free(partition)
                        && wanted
                        && !self.is_shunned(now, partition)
                        && self.opening() < self.settings.opens_max
                    {
                        self.claim(partition, record);
                    }
                }
                Some(Holding { phase: Phase::Claiming, .. }) => {
                    if ours {
                        self.own(partition, revision, wanted);
                    }
                }
                Some(Holding { phase: Phase::Releasing, epoch, asked }) => {
                    if revision > epoch {
                        self.holdings.remove(&partition);
                    } else if !asked {
                        self.release(partition, epoch);
                    }
                }
                Some(Holding { epoch, .. }) if revision > epoch => {
                    // Somebody took what is ours while our lease holds. That cannot be, so we are wrong about the lease.
                    return self.fence();
                }
                Some(Holding { phase: Phase::Opening | Phase::Open, epoch, .. }) => {
                    if !wanted && self.draining() < self.settings.drains_max {
                        self.holdings
                            .insert(partition, Holding { phase: Phase::Draining, epoch, asked: false });
                        self.actions.push_back(Action::Drain { partition, epoch: Epoch(epoch) });
                    }
                }
                Some(Holding { phase: Phase::Draining, .. }) => {}
            }
        }
        for (known, seen) in self.revisions.iter_mut().zip(&outlook.revisions) {
            *known = (*known).max(*seen);
        }
    }

    /// Does it hold nothing, and is it nowhere wanted?
    fn is_spare(&self, partition: u32, outlook: &Outlook) -> bool {
        self.empty.contains(&partition) && !outlook.is_pinned(partition)
    }

    /// Are we giving it up?
    fn is_going(&self, partition: u32) -> bool {
        matches!(self.phase(partition), Some(Phase::Draining | Phase::Releasing))
    }

    fn is_shunned(&mut self, now: u64, partition: u32) -> bool {
        self.shunned.retain(|_, until| *until > now);
        self.shunned.contains_key(&partition)
    }

    fn opening(&self) -> usize {
        let opening = |holding: &&Holding| matches!(holding.phase, Phase::Claiming | Phase::Opening);
        self.holdings.values().filter(opening).count()
    }

    fn draining(&self) -> usize {
        let draining = |holding: &&Holding| matches!(holding.phase, Phase::Draining | Phase::Releasing);
        self.holdings.values().filter(draining).count()
    }

    fn record(&self, partition: u32, state: OwnerState) -> OwnerRecord {
        let NodeRecord { node, incarnation, .. } = self.me;
        OwnerRecord { node, incarnation, state, load: self.load(partition) }
    }

    fn claim(&mut self, partition: u32, expected: Option<u64>) {
        // What it was under an earlier lease of ours is old news.
        self.me.loads.remove(&partition);
        let epoch = expected.unwrap_or(0);
        self.holdings.insert(partition, Holding { phase: Phase::Claiming, epoch, asked: false });
        let record = self.record(partition, OwnerState::Owned);
        self.actions.push_back(Action::Claim { partition, expected, record });
    }

    /// The record says that it is ours.
    fn own(&mut self, partition: u32, revision: u64, wanted: bool) {
        self.stats.claimed += 1;
        self.revision(partition, revision);
        if !wanted {
            return self.release(partition, revision);
        }
        self.holdings.insert(partition, Holding { phase: Phase::Opening, epoch: revision, asked: false });
        // Until it is measured here it is the work that it was.
        if let Some(load) = self.seen_load(partition) {
            self.me.loads.insert(partition, load);
        }
        self.actions.push_back(Action::Open { partition, epoch: Epoch(revision) });
    }

    fn release(&mut self, partition: u32, epoch: u64) {
        self.holdings.insert(partition, Holding { phase: Phase::Releasing, epoch, asked: true });
        let record = self.record(partition, OwnerState::Released);
        self.actions.push_back(Action::Release { partition, expected: epoch, record });
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
