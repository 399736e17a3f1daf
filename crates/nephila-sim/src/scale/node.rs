//! A node: the core's own [`Member`], [`Slots`] and [`Meter`], and a shell that carries out their actions.
//!
//! Invariants: each node has a clock of its own; messages for an earlier life of a node are dropped.

use nephila_core::cluster::load::Meter;
use nephila_core::cluster::member::{Action, Member, NodeRecord, Phase, SwapResult};
use nephila_core::cluster::slots::Slots;
use nephila_core::cluster::{Epoch, Incarnation, NodeId};

use super::{Event, READ_WAITS_MAX, Sim, member_settings};

/// A restart takes this long at least, and up to twice as long, in milliseconds.
const RESTART_AFTER: u64 = 120_000;
/// Minimum and maximum time of a call to the store, in milliseconds.
const CALL: (u64, u64) = (2, 20);
/// Something new in the store is seen after this time: nodes read once a second, each at its own moment.
const SEES: (u64, u64) = (10, 1_000);
/// Minimum and maximum time to open a partition (its snapshot, the end of its log). An assumption.
const OPEN: (u64, u64) = (1_000, 3_000);
/// One call in this number has no answer.
const CALLS_PER_LOSS: u64 = 2_000;
/// Minimum and maximum time of a packet on its way, in milliseconds; a late one takes up to `LATE` more.
const WAY: (u64, u64) = (1, 8);
const LATE: u64 = 400;
/// Of this number of packets one is lost; likewise one is late, and one comes twice.
const PACKETS_PER_LOSS: u64 = 2_000;

/// Nodes that there can be: a power of two.
pub const NODES_MAX: usize = 1 << 14;

/// By then every node has its first lease.
const ALL_HERE: u64 = 100;

pub(super) struct Node {
    pub(super) id: NodeId,
    /// The difference between the node's clock and ours.
    ahead: u64,
    pub(super) alive: bool,
    /// Another number for each process and each lease.
    pub(super) life: u32,
    pub(super) member: Member,
    slots: Option<Slots>,
    pub(super) meter: Meter,
    pub(super) fetches: u64,
    /// The node was killed or fenced during the run, so its count of fetches is not used.
    pub(super) broken: bool,
    wake_at: u64,
    /// The version of the store that the node has seen; whether a read waits for the next; the number of reads.
    seen: u64,
    waits: bool,
    reads: u32,
    /// Statistics of the lives before.
    pub(super) before: (u64, u64, u64),
}

impl Node {
    pub(super) fn now(&self, t: u64) -> u64 {
        t + self.ahead
    }

    pub(super) fn slots(&mut self) -> &mut Slots {
        self.slots.as_mut().expect("it has a lease")
    }

    /// Packets and bytes sent, and rings gone by, in all lives.
    pub(super) fn packets(&self) -> (u64, u64, u64) {
        let now = self.slots.as_ref().map(Slots::stats).unwrap_or_default();
        let (packets, bytes, rings) = self.before;
        (packets + now.packets_sent, bytes + now.bytes_sent, rings + now.rings)
    }

    fn drop_slots(&mut self) {
        self.before = self.packets();
        self.slots = None;
    }
}

/// The first incarnation of a node's process that begins at this time, before any increment.
fn incarnation(t: u64, node: u32) -> Incarnation {
    Incarnation((t + 1) << 24 | u64::from(node) << 10)
}

/// Which node an incarnation is of.
fn number_of(incarnation: Incarnation) -> u32 {
    (incarnation.0 >> 10) as u32 & (NODES_MAX as u32 - 1)
}

/// A call to the store, which comes back as an answer.
#[derive(Debug)]
pub(super) struct Call {
    node: u32,
    life: u32,
    action: Action,
}

impl Sim {
    pub(super) fn add_node(&mut self, number: u32) {
        let id = NodeId::of(&format!("node-{number}"));
        let ahead = self.rng.below(1 << 40);
        let member = self.new_member(id, number);
        self.nodes.push(Node {
            id,
            ahead,
            alive: true,
            life: number,
            member,
            slots: None,
            meter: Meter::default(),
            fetches: 0,
            broken: false,
            wake_at: u64::MAX,
            seen: 0,
            waits: false,
            reads: 0,
            before: (0, 0, 0),
        });
        self.calendar.push(1, Event::Wake(number));
        self.nodes[number as usize].wake_at = 1;
    }

    fn new_member(&self, id: NodeId, number: u32) -> Member {
        let name = format!("node-{number}");
        let record =
            NodeRecord { node: id, incarnation: incarnation(self.t, number), name, ..NodeRecord::default() };
        Member::new(member_settings(), record, self.partitions.len() as u32)
    }

    /// The incarnation that a node's first lease will have.
    pub(super) fn first_incarnation(number: u32) -> Incarnation {
        Incarnation(incarnation(0, number).0 + 1)
    }

    /// Schedules the wake-up that a node's core asks for.
    pub(super) fn note_wake(&mut self, number: u32) {
        let t = self.t;
        let node = &mut self.nodes[number as usize];
        if !node.alive {
            return;
        }
        let member = node.member.next_wake(node.now(t));
        let slots = node.slots.as_ref().and_then(Slots::next_wake);
        let Some(at) = member.into_iter().chain(slots).min() else { return };
        let at = at.saturating_sub(node.ahead).max(t);
        if at < node.wake_at {
            node.wake_at = at;
            self.calendar.push(at, Event::Wake(number));
        }
    }

    pub(super) fn handle_wake(&mut self, number: u32) {
        if self.nodes[number as usize].wake_at != self.t {
            return;
        }
        self.nodes[number as usize].wake_at = u64::MAX;
        self.serve(number);
    }

    /// Carries out the actions of a node's core that are due now.
    fn serve(&mut self, number: u32) {
        let t = self.t;
        if !self.nodes[number as usize].alive {
            return;
        }
        loop {
            let node = &mut self.nodes[number as usize];
            let now = node.now(t);
            let Some(action) = node.member.poll(now) else { break };
            self.act(number, action);
        }
        loop {
            let node = &mut self.nodes[number as usize];
            let now = node.now(t);
            let Some(parcel) = node.slots.as_mut().and_then(|slots| slots.poll_packet(now)) else { break };
            self.second().0 += 1;
            let chance = self.rng.below(PACKETS_PER_LOSS);
            let mut way = self.rng.within(WAY.0, WAY.1);
            if chance == 0 {
                continue;
            }
            if chance == 1 {
                way += self.rng.below(LATE);
            }
            let to = number_of(parcel.incarnation);
            if chance == 2 {
                let again = self.packets.put((to, parcel.bytes.clone()));
                self.calendar.push(t + way + self.rng.below(LATE), Event::Packet(again));
            }
            let packet = self.packets.put((to, parcel.bytes));
            self.calendar.push(t + way, Event::Packet(packet));
        }
        self.note_wake(number);
    }

    pub(super) fn handle_packet(&mut self, packet: u32) {
        let (to, bytes) = self.packets.take(packet);
        let t = self.t;
        let node = &mut self.nodes[to as usize];
        if node.slots.is_none() {
            return;
        }
        let now = node.now(t);
        node.slots().handle_packet(now, &bytes).expect("packets arrive as they were sent");
        self.handle_slots(to);
    }

    fn act(&mut self, number: u32, action: Action) {
        let (t, node) = (self.t, &mut self.nodes[number as usize]);
        match action {
            Action::Read { .. } => {
                node.reads += 1;
                let read = Event::View { node: number, read: node.reads };
                if node.seen == self.store.version {
                    // Like a watch: the read is answered when there is something new, or after a while.
                    node.waits = true;
                    self.calendar.push(t + READ_WAITS_MAX, read);
                } else {
                    // The partitions have owners from the beginning, so no node looks before all of them have their
                    // lease.
                    let t = t.max(ALL_HERE);
                    self.calendar.push(t + self.rng.within(CALL.0, CALL.1), read);
                }
            }
            Action::Open { partition, epoch } => {
                let event = Event::Opened { node: number, life: node.life, partition, epoch: epoch.0 as u32 };
                self.calendar.push(t + self.rng.within(OPEN.0, OPEN.1), event);
            }
            Action::Drain { partition, epoch } => {
                if self.partitions[partition as usize].node != number {
                    return node.member.handle_drained(partition, epoch);
                }
                node.meter.end(partition);
                self.partitions[partition as usize].draining = Some(epoch);
                self.detach(partition);
                self.drained_if_done(partition);
            }
            Action::Fence => {
                self.tally.fenced += 1;
                self.stop(number);
                let node = &mut self.nodes[number as usize];
                let now = node.now(t);
                node.member.handle_fenced(now);
            }
            Action::Leave { .. } => {}
            action => {
                let call = self.calls.put(Call { node: number, life: node.life, action });
                self.calendar.push(t + self.rng.within(CALL.0, CALL.1), Event::Call(call));
            }
        }
    }

    /// A call has reached the store, and its answer is back.
    pub(super) fn handle_call(&mut self, call: u32) {
        let Call { node: number, life, action } = self.calls.take(call);
        let (t, version) = (self.t, self.store.version);
        if self.nodes[number as usize].life != life {
            return;
        }
        let lost = self.rng.one_in(CALLS_PER_LOSS);
        let node = &mut self.nodes[number as usize];
        let (now, me) = (node.now(t), node.member.incarnation());
        let or_lost = |answer| if lost { SwapResult::Unknown } else { answer };
        match action {
            Action::Acquire { incarnation, record } => {
                let answer = self.store.acquire(t, number, record);
                self.calendar.push(t + self.ttl, Event::Expire(number));
                node.member.handle_acquired(now, incarnation, answer);
                if node.member.is_held(now) {
                    node.slots = Some(Slots::new(node.id, incarnation, incarnation.0));
                    node.seen = 0;
                }
            }
            Action::Renew { incarnation, record } => {
                let answer = self.store.renew(t, number, record);
                for (partition, load) in Vec::from_iter(node.meter.measure(now)) {
                    node.member.set_load(partition, load);
                }
                node.member.handle_renewed(now, incarnation, or_lost(answer));
            }
            Action::Claim { partition, expected, record } => {
                let answer = self.store.swap(partition, expected, record);
                node.member.handle_claimed(now, partition, me, or_lost(answer));
            }
            Action::Release { partition, expected, record } => {
                let answer = self.store.swap(partition, Some(expected), record);
                node.member.handle_released(now, partition, me, or_lost(answer));
            }
            _ => unreachable!("these are not the store's"),
        }
        if self.store.version != version {
            self.tell_readers();
        }
        self.serve(number);
    }

    /// Something has changed: answers the reads that wait for a change.
    pub(super) fn tell_readers(&mut self) {
        for number in 0..self.nodes.len() {
            let node = &mut self.nodes[number];
            if std::mem::take(&mut node.waits) {
                let read = Event::View { node: number as u32, read: node.reads };
                self.calendar.push(self.t + self.rng.within(SEES.0, SEES.1), read);
            }
        }
    }

    pub(super) fn handle_view(&mut self, number: u32, read: u32) {
        let t = self.t;
        let node = &mut self.nodes[number as usize];
        if node.reads != read || !node.alive || node.slots.is_none() {
            return;
        }
        node.reads += 1;
        let look = self.store.look(t);
        (node.waits, node.seen) = (false, look.version);
        self.tally.views += 1;
        let (now, me) = (node.now(t), node.member.incarnation());
        node.member.handle_outlook(now, me, Some(&look.outlook));
        node.slots().handle_ring(now, &look.ring);
        self.handle_slots(number);
        self.serve(number);
    }

    pub(super) fn handle_expire(&mut self, number: u32) {
        match self.store.until(number) {
            Some(until) if until > self.t => self.calendar.push(until, Event::Expire(number)),
            Some(_) => {
                self.store.expire(number);
                self.tell_readers();
            }
            None => {}
        }
    }

    pub(super) fn handle_opened(&mut self, number: u32, life: u32, partition: u32, epoch: u32) {
        let t = self.t;
        let node = &mut self.nodes[number as usize];
        if node.life != life {
            return;
        }
        node.member.handle_opened(partition, Epoch(epoch.into()));
        let now = node.now(t);
        if node.member.phase(partition) != Some(Phase::Open)
            || node.member.epoch(now, partition) != Some(Epoch(epoch.into()))
        {
            return;
        }
        let load = node.member.load(partition);
        node.meter.begin(now, partition, load);
        let this = &mut self.partitions[partition as usize];
        assert_eq!(this.node, super::web::NONE, "partition {partition} is open twice");
        this.node = number;
        self.tally.opened += 1;
        for host in self.web.of_partition[partition as usize].clone() {
            self.attach(number, host);
        }
        self.serve(number);
    }

    /// Reports a partition in hand-over as drained once no fetch is open.
    pub(super) fn drained_if_done(&mut self, number: u32) {
        let partition = &mut self.partitions[number as usize];
        if partition.open > 0 {
            return;
        }
        let Some(epoch) = partition.draining.take() else { return };
        let node = std::mem::replace(&mut partition.node, super::web::NONE);
        self.nodes[node as usize].member.handle_drained(number, epoch);
        self.note_wake(node);
    }

    /// Everything that a node does stops at once.
    fn stop(&mut self, number: u32) {
        self.tally.cut += self.stop_works(number);
        let t = self.t;
        for (at, partition) in self.partitions.iter_mut().enumerate().filter(|(_, p)| p.node == number) {
            // Pages whose outcomes are not written yet are fetched again.
            if t < partition.group_at {
                self.tally.unwritten += u64::from(std::mem::take(&mut partition.pending));
            }
            (partition.node, partition.open, partition.draining, partition.group_at) =
                (super::web::NONE, 0, None, 0);
            partition.killed_at = Some(t);
            for host in &self.web.of_partition[at] {
                self.web.hosts[*host as usize].work = super::web::NONE;
            }
        }
        self.lives += 1;
        let node = &mut self.nodes[number as usize];
        node.drop_slots();
        node.meter = Meter::default();
        (node.life, node.broken, node.waits) = (self.lives, true, false);
    }

    pub(super) fn kill(&mut self) {
        let number = 1 + self.rng.index(self.nodes.len() - 1) as u32;
        if !self.nodes[number as usize].alive || self.nodes[number as usize].slots.is_none() {
            return;
        }
        self.tally.kills += 1;
        self.stop(number);
        self.nodes[number as usize].alive = false;
        let after = RESTART_AFTER + self.rng.below(RESTART_AFTER);
        self.calendar.push(self.t + after, Event::Restart(number));
    }

    pub(super) fn restart(&mut self, number: u32) {
        let member = self.new_member(self.nodes[number as usize].id, number);
        let node = &mut self.nodes[number as usize];
        (node.member, node.alive, node.wake_at) = (member, true, u64::MAX);
        self.serve(number);
    }
}
