//! Large clusters in virtual time: from a handful of nodes to a thousand, in one thread, from one seed.
//!
//! **Real** are the parts that decide: each node's [`Member`](nephila_core::cluster::member::Member) (leases, views,
//! placement by load, claims, hand-overs), its [`Meter`](nephila_core::cluster::load::Meter), its
//! [`Slots`](nephila_core::cluster::slots::Slots) and turns, with every packet between any two nodes; and on one node
//! of each size the [`Outbox`](nephila_core::cluster::outbox::Outbox) with the links of its pages. **Models** are the
//! parts that they decide about: hosts (`web`), the work of a node on its hosts (`bench`), the store with leases and
//! records (`store`), the network, and the logs, of which only groups are counted.
//!
//! Nodes die (one in a hundred an hour, and no fewer than [`KILLS_MIN`] in a run) and come back minutes later; packets are lost,
//! late and doubled; calls are left without an answer; every node's clock shows another time.
//!
//! The books are kept at the addresses, outside the core: at every start of a fetch nothing else may be open on its host or its
//! address, and both must have rested.
//!
//! Invariant: the same seed gives the same run, to the bit.

mod bench;
mod figures;
mod links;
mod node;
mod plot;
mod queue;
mod store;
mod web;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use nephila_core::cluster::member::Settings;
use nephila_core::cluster::placement::{NodeView, PartitionView, place};
use nephila_core::cluster::{Epoch, NodeId};
use xxhash_rust::xxh3::Xxh3;

use super::rng::Rng;
use super::{Checker, Violation};
use bench::Work;
use links::Links;
use node::{Call, Node};
use queue::{Calendar, Shelf};
use store::Store;
use web::{NONE, Web};

pub use figures::{Figures, Row, read, report, table};
pub use node::NODES_MAX;
pub use plot::plot;
pub use web::{FETCH_MEAN, HOST_REST, HOSTS_PER_NODE, PARTITIONS_PER_NODE, SLOT_REST};
pub use words::put_in;

/// Figures count from this moment on, in milliseconds: by then the cluster stands and every load is known.
pub const SETTLED: u64 = 90_000;
/// Maximum time that a read waits for something new. Loads are read at least this often.
const READ_WAITS_MAX: u64 = 60_000;
/// The fewest kills of a run.
pub const KILLS_MIN: u64 = 3;
/// A node is lost this often if there is one, in milliseconds: one in a hundred an hour.
const LOST_EVERY: u64 = 360_000_000;
/// Entries of a partition's log wait this long for others.
const COMMIT: u64 = 1_000;
/// The node whose links are followed. This node is never killed.
const SAMPLED: u32 = 0;
/// Of six requests five bring a page.
const REQUESTS_PER_MISS: u64 = 6;
/// Links are sent this often.
const TICK: u64 = 50;
/// Fetches per node and second that are expected, to know how long a run is about.
const RATE: u64 = 22;

fn member_settings() -> Settings {
    Settings { view_interval: Duration::from_secs(2), ..Settings::default() }
}

/// Events between two progress messages.
const EVENTS_PER_WORD: u64 = 1 << 16;

/// Progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Virtual milliseconds.
    pub t: u64,
    /// Fetches since the beginning.
    pub all: u64,
    /// Fetches since the cluster has settled.
    pub counted: u64,
}

/// An event that is scheduled.
#[derive(Clone, Copy, Debug)]
enum Event {
    Look(u32),
    End { host: u32, node: u32, life: u32 },
    Packet(u32),
    Wake(u32),
    Call(u32),
    View { node: u32, read: u32 },
    Opened { node: u32, life: u32, partition: u32, epoch: u32 },
    Expire(u32),
    Kill,
    Restart(u32),
    Tick,
    Settle,
}

/// Counters. They only grow.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    fetches: u64,
    /// Fetches from addresses that several nodes have hosts at, and the turns for them.
    shared: u64,
    turns: u64,
    /// Milliseconds in which addresses with 4 and with 60 hosts were busy with a request or resting afterwards.
    used_mid: u64,
    used_big: u64,
    pages: u64,
    groups: u64,
    kills: u64,
    fenced: u64,
    opened: u64,
    views: u64,
    /// Fetches that were open when their node died, and outcomes that were not written.
    cut: u64,
    unwritten: u64,
}

#[derive(Clone, Copy, Debug)]
struct Partition {
    /// The node that works on the partition.
    node: u32,
    /// Open fetches of the partition.
    open: u32,
    draining: Option<Epoch>,
    /// Until when the open group takes entries, and the number of its entries.
    group_at: u64,
    pending: u32,
    /// Its node died and nothing was fetched since.
    killed_at: Option<u64>,
}

/// A cluster that runs.
pub struct Sim {
    t: u64,
    rng: Rng,
    calendar: Calendar<Event>,
    web: Web,
    store: Store,
    ttl: u64,
    nodes: Vec<Node>,
    works: Shelf<Work>,
    packets: Shelf<(u32, Vec<u8>)>,
    calls: Shelf<Call>,
    partitions: Vec<Partition>,
    lives: u32,
    links: Links,
    kill_every: u64,
    tally: Tally,
    /// The counters at the moment when the cluster had settled.
    before: (Tally, (u64, u64, u64)),
    take_overs: Vec<u64>,
    /// Packets, and fetches from shared addresses, by second.
    seconds: Vec<(u64, u64)>,
    trace: Xxh3,
}

impl Sim {
    /// A cluster of this size, in which every partition has its node.
    pub fn new(seed: u64, nodes: usize, fetches: u64) -> Sim {
        let mut rng = Rng::new(seed ^ (nodes as u64) << 32 ^ 0x5ca1_e000);
        let web = Web::new(&mut rng, nodes);
        let partitions = web.of_partition.len();
        let ttl = member_settings().ttl.as_millis() as u64;
        let about = 1_000 * fetches / (nodes as u64 * RATE);
        let free =
            Partition { node: NONE, open: 0, draining: None, group_at: 0, pending: 0, killed_at: None };
        let mut sim = Sim {
            t: 0,
            calendar: Calendar::new(),
            store: Store::new(nodes, partitions as u32, ttl),
            ttl,
            nodes: Vec::with_capacity(nodes),
            works: Shelf::new(),
            packets: Shelf::new(),
            calls: Shelf::new(),
            partitions: vec![free; partitions],
            lives: nodes as u32,
            links: Links::new(NodeId::of("node-0"), partitions as u32, rng.bits()),
            kill_every: (LOST_EVERY / nodes as u64).min(about / (KILLS_MIN + 1)).max(1),
            tally: Tally::default(),
            before: (Tally::default(), (0, 0, 0)),
            take_overs: Vec::new(),
            seconds: Vec::new(),
            trace: Xxh3::new(),
            web,
            rng,
        };
        for number in 0..nodes as u32 {
            sim.add_node(number);
        }
        sim.give_partitions();
        sim.calendar.push(SETTLED, Event::Settle);
        sim.calendar.push(TICK, Event::Tick);
        sim.calendar.push(SETTLED + sim.kill_every / 2, Event::Kill);
        sim
    }

    /// Writes the first placement to the store: the run is about the time after that.
    fn give_partitions(&mut self) {
        let nodes: Vec<_> = self.nodes.iter().map(|node| NodeView { id: node.id, draining: false }).collect();
        let by_id: BTreeMap<NodeId, u32> =
            (0u32..).zip(&self.nodes).map(|(number, node)| (node.id, number)).collect();
        let fresh = |number| PartitionView { number, load: None, owner: None, pin: None };
        let partitions: Vec<_> = (0..self.partitions.len() as u32).map(fresh).collect();
        for (partition, node) in (0u32..).zip(place(&nodes, &partitions).to) {
            let node = node.expect("there are nodes");
            self.store.give(partition, node, Sim::first_incarnation(by_id[&node]));
        }
    }

    /// Runs until there are enough fetches since the cluster has settled.
    pub fn run(&mut self, fetches: u64) -> Result<Figures, Violation> {
        self.run_telling(fetches, &mut |_, _| {})
    }

    /// The same, with progress messages now and then.
    pub fn run_telling(
        &mut self,
        fetches: u64,
        tell: &mut dyn FnMut(&Sim, Progress),
    ) -> Result<Figures, Violation> {
        let mut events = 0u64;
        let limit = SETTLED + 4_000 * fetches / (self.nodes.len() as u64 * RATE) + 600_000;
        while self.t < SETTLED || self.tally.fetches - self.before.0.fetches < fetches {
            let Some((t, event)) = self.calendar.pop(limit) else {
                let what = format!("{} fetches of {fetches} after {limit} ms", self.tally.fetches);
                return Err(Violation::new(Checker::Liveness, what));
            };
            self.t = t;
            self.handle(event)?;
            events += 1;
            if events.is_multiple_of(EVENTS_PER_WORD) {
                let settled = self.t >= SETTLED;
                let fetched = self.tally.fetches - self.before.0.fetches;
                let counted = if settled { fetched } else { 0 };
                tell(self, Progress { t: self.t, all: self.tally.fetches, counted });
            }
        }
        Ok(self.figures())
    }

    /// A hash of all fetches so far.
    pub fn trace(&self) -> u64 {
        self.trace.digest()
    }

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Look(work) => return self.look(work, true),
            Event::End { host, node, life } => return self.handle_end(host, node, life),
            Event::Packet(packet) => self.handle_packet(packet),
            Event::Wake(node) => self.handle_wake(node),
            Event::Call(call) => self.handle_call(call),
            Event::View { node, read } => self.handle_view(node, read),
            Event::Opened { node, life, partition, epoch } => {
                self.handle_opened(node, life, partition, epoch)
            }
            Event::Expire(node) => self.handle_expire(node),
            Event::Kill => {
                self.calendar.push(self.t + self.kill_every, Event::Kill);
                self.kill();
            }
            Event::Restart(node) => self.restart(node),
            Event::Tick => {
                self.links.tick(self.t);
                self.calendar.push(self.t + TICK, Event::Tick);
            }
            Event::Settle => {
                self.before = (self.tally, self.packets_sent());
                self.nodes.iter_mut().for_each(|node| node.fetches = 0);
            }
        }
        Ok(())
    }

    /// Packets and bytes sent, and rings gone by, by all nodes.
    fn packets_sent(&self) -> (u64, u64, u64) {
        let sum = |(a, b, c): (u64, u64, u64), (d, e, f): (u64, u64, u64)| (a + d, b + e, c + f);
        self.nodes.iter().map(Node::packets).fold((0, 0, 0), sum)
    }

    /// An outcome is written: with the group that is open, or as the first of a new one.
    fn write(&mut self, partition: u32) {
        let partition = &mut self.partitions[partition as usize];
        if self.t >= partition.group_at {
            (partition.group_at, partition.pending) = (self.t + COMMIT, 0);
            self.tally.groups += 1;
        }
        partition.pending += 1;
    }

    /// The second that this moment is in.
    fn second(&mut self) -> &mut (u64, u64) {
        let at = (self.t / 1_000) as usize;
        if self.seconds.len() <= at {
            self.seconds.resize(at + 1, (0, 0));
        }
        &mut self.seconds[at]
    }
}
