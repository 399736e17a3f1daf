//! Whole clusters in one thread, in virtual time, from one seed.
//!
//! A [`Sim`] has some nodes, each with the core's member, outbox and frontiers and a shell that carries out their
//! decisions ([`node`], [`page`]); the engine that they share ([`engine`]); the way there and back ([`calls`]); a web
//! that answers ([`web`]); and faults ([`faults`]). Nodes that request the same address take turns ([`slot_grants`]).
//! The next event is always the one that is due next: an answer, a message, a timer.
//!
//! The checkers ([`books`]) see requests at the servers and groups as they arrive: never two owners act, a host keeps
//! its rest over every take-over, and an address keeps its rest and its limit over all nodes, a page is requested again
//! only if its ticket was open at a fault, everything in a log is in the archive once, and in the end everything that
//! can be reached was fetched, every partition has one owner, and the replay of each log from its beginning gives its
//! owner's state.
//!
//! Invariant: the same seed gives the same trace, to the bit.

mod books;
mod calls;
mod engine;
mod faults;
pub mod mutants;
mod node;
mod page;
mod slot_grants;
mod web;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use nephila_core::cluster::member::Phase;
use nephila_core::cluster::message::Message;
use nephila_core::cluster::{Incarnation, NodeId};
use nephila_core::entry::Entry;
use nephila_core::frontier::ticket::TicketId;
use nephila_core::frontier::{Config, Settings, retry};
use nephila_core::job::Job;
use nephila_core::key::{HostKey, Prefixes, Secret};
use nephila_core::spread::DomainSpread;
use nephila_core::state::{MemoryState, State};
use xxhash_rust::xxh3::Xxh3;

use books::Books;
use calls::{Call, Got};
use engine::Engine;
use node::Node;
use web::{JOB, Web};

use crate::rng::Rng;
use crate::{Checker, Violation};

/// How long faults are injected in one world, in milliseconds.
pub const TROUBLE: u64 = 600_000;

/// A calm cluster has fetched everything after this time, in milliseconds.
const CALM_MAX: u64 = 12 * 3_600_000;

/// A calm cluster without a request for this time, in milliseconds, will never send another one.
const IDLE_MAX: u64 = 600_000;

/// How long a quiet cluster is watched, in milliseconds.
const QUIET: u64 = 90_000;

/// A bug in the simulated shell or the engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// None.
    #[default]
    Nothing,
    /// Requests are made without a check of the lease.
    NoLeaseCheck,
    /// A new owner does not let hosts rest first.
    NoRest,
    /// Pages are reported before their links are durable.
    LinksLate,
    /// Pages are reported before their captures are durable.
    ReportEarly,
    /// Owner records are written regardless of their revision.
    SwapBlindly,
    /// A capture that is stored again gets another name.
    PutAnew,
    /// Nodes go by the wish to spread a domain, before the home has decided.
    SpreadEarly,
    /// A message of the home's inbox counts as read before its URLs of other partitions are there.
    SentOnLate,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Milliseconds of the world.
    pub time: u64,
    /// Pages requested.
    pub pages: u64,
    /// Pages that could be reached.
    pub truth: u64,
    /// Nodes killed.
    pub kills: u64,
    /// Nodes stopped for a while.
    pub sleeps: u64,
    /// Nodes cut off.
    pub cuts: u64,
    /// Times the engine was away.
    pub aways: u64,
    /// Nodes asked to leave.
    pub drains: u64,
    /// Nodes that stopped by themselves (fencing).
    pub fenced: u64,
    /// Partitions opened.
    pub opened: u64,
    /// Groups written.
    pub groups: u64,
    /// Groups refused because another owner had written (fencing).
    pub refused: u64,
    /// Parcels sent.
    pub parcels: u64,
    /// Holes in logs that were noticed.
    pub noticed: u64,
    /// Packets about turns.
    pub packets: u64,
    /// Domains spread.
    pub spread: u64,
    /// URLs sent on by the home of their domain.
    pub sent_on: u64,
}

impl Figures {
    /// Adds the counts of another world.
    pub fn add(&mut self, one: &Figures) {
        self.time += one.time;
        self.pages += one.pages;
        self.truth += one.truth;
        self.kills += one.kills;
        self.sleeps += one.sleeps;
        self.cuts += one.cuts;
        self.aways += one.aways;
        self.drains += one.drains;
        self.fenced += one.fenced;
        self.opened += one.opened;
        self.groups += one.groups;
        self.refused += one.refused;
        self.parcels += one.parcels;
        self.noticed += one.noticed;
        self.packets += one.packets;
        self.spread += one.spread;
        self.sent_on += one.sent_on;
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} hours, {} kills, {} sleeps, {} cuts, {} times away, {} goodbyes, {} fenced, {} take-overs, {} pages \
             asked for of {}, {} groups, {} refused, {} parcels, {} holes noticed, {} packets about turns, {} domains spread, {} URLs sent \
             on",
            self.time / 3_600_000,
            self.kills,
            self.sleeps,
            self.cuts,
            self.aways,
            self.drains,
            self.fenced,
            self.opened,
            self.pages,
            self.truth,
            self.groups,
            self.refused,
            self.parcels,
            self.noticed,
            self.packets,
            self.spread,
            self.sent_on
        )
    }
}

/// A request that a server is processing.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    node: usize,
    part: u64,
    partition: u32,
    ticket: TicketId,
    host: usize,
    page: Option<u32>,
    took: u64,
    /// Its node is asleep.
    orphan: bool,
}

/// A group that is gone from the middle of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hole {
    partition: u32,
    /// Number of groups before the hole. A state that has folded more does not need the missing group.
    sequence: u64,
}

impl Hole {
    /// Whether a reader of this log, from a state after `sequence` groups, must notice the hole.
    fn shows(self, partition: u32, sequence: u64) -> bool {
        self.partition == partition && sequence <= self.sequence
    }
}

#[derive(Debug)]
pub(crate) enum Event {
    /// A call arrives; its answer takes this long, or is lost.
    There {
        node: usize,
        life: u64,
        call: Call,
        back: Option<u64>,
    },
    Back {
        node: usize,
        life: u64,
        call: Call,
        got: Got,
    },
    Answered {
        request: u64,
    },
    Came {
        running: Running,
        failed: bool,
    },
    /// A message from one node to another about turns.
    Talk {
        to: Incarnation,
        bytes: Vec<u8>,
    },
}

/// A cluster that runs.
pub struct Sim {
    /// Counts of events.
    pub figures: Figures,
    /// Prints every event to standard error.
    pub verbose: bool,
    /// A bug in the shell.
    pub planted: Planted,
    t: u64,
    rng: Rng,
    /// A random stream of its own for the properties of nodes, so that everything else of a seed stays the same.
    ways: Rng,
    web: Web,
    engine: Engine,
    nodes: Vec<Node>,
    books: Books,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    running: BTreeMap<u64, Running>,
    partitions: u32,
    secret: Secret,
    config: Config,
    /// Faults are over.
    calm: bool,
    /// A call is lost, once in this number of calls, and so is an answer.
    loss: u64,
    /// Calls are often so late that their sender is no longer there.
    sluggish: bool,
    /// The wall clocks of the nodes differ by minutes, and drift. A process that begins anew has another one.
    skewed: bool,
    fault_every: u64,
    away_until: u64,
    /// Whether a log may have a hole.
    lying: bool,
    lied: Option<Hole>,
    /// Whether an operator pins partitions to nodes. In every other world, so that the others stay the same.
    pinning: bool,
    /// When an operator spreads which domain, the last first. In every world without pins, so that the others stay the
    /// same.
    wishes: Vec<(u64, String)>,
    noticed: bool,
    trace: Xxh3,
}

/// An operator pins another partition this often, in milliseconds.
const PIN_EVERY: u64 = 25_000;

impl Sim {
    /// The cluster of this seed, at its beginning.
    pub fn new(seed: u64) -> Sim {
        let mut rng = Rng::new(seed ^ 0x0c10_57e4);
        let mut ways = Rng::new(seed ^ 0x5cc3_3d00);
        let partitions = rng.within(1, 8) as u32;
        let secret = Secret(std::array::from_fn(|_| rng.bits() as u8));
        // With few domains each has several hosts, and spreading one has an effect.
        let pinning = seed.is_multiple_of(2);
        let web = Web::new(&mut rng, &secret, partitions, if pinning { 6 } else { 2 });
        let config = config(&mut rng);
        let nodes = rng.within(1, 5);
        let mut sim = Sim {
            figures: Figures::default(),
            verbose: false,
            planted: Planted::Nothing,
            t: 0,
            books: Books::new(&config.frontier, &web),
            engine: Engine::new(partitions),
            web,
            nodes: Vec::new(),
            events: BTreeMap::new(),
            number: 0,
            running: BTreeMap::new(),
            partitions,
            secret,
            config,
            calm: false,
            loss: *rng.pick(&[10, 40, 400]),
            sluggish: rng.one_in(5),
            skewed: ways.one_in(2),
            ways,
            fault_every: *rng.pick(&[8_000, 20_000, 60_000]),
            away_until: 0,
            lying: rng.one_in(8),
            lied: None,
            pinning,
            wishes: Vec::new(),
            noticed: false,
            trace: Xxh3::new(),
            rng,
        };
        for index in 0..nodes {
            let mut node = Node::new(&mut sim, index, 0);
            node.dead_until = sim.rng.one_in(3).then(|| sim.rng.below(200_000));
            sim.nodes.push(node);
        }
        if !sim.pinning {
            let mut rng = Rng::new(seed ^ 0x5b4e_ad00);
            let domains = sim.web.domains().into_iter();
            let latest = *rng.pick(&[1, 30_000, 120_000, TROUBLE / 2]);
            sim.wishes = domains.map(|domain| (rng.below(latest), domain)).collect();
            sim.wishes.sort_by(|a, b| b.cmp(a));
        }
        sim.seed();
        sim
    }

    /// The job and the seeds stand in the inboxes from the beginning.
    fn seed(&mut self) {
        let job = Message::Command(Box::new(Entry::Job(Box::new(Job::new(JOB, "all".to_owned())))));
        for partition in 0..self.partitions {
            let id = u128::MAX - u128::from(partition);
            self.engine.publish(partition, id, Bytes::from(job.encode(&self.secret)), false);
        }
        for (n, page) in self.web.seeds.clone().into_iter().enumerate() {
            let offers = vec![self.web.offered(page, 0)];
            let bytes = Message::Offers { from: NodeId(0), offers }.encode(&self.secret);
            self.engine.publish(self.web.partition(page), 1 << 120 | n as u128, Bytes::from(bytes), false);
        }
    }

    /// Injects faults for a while, then lets the cluster come to rest and checks everything. Returns the hash of all
    /// requests and groups.
    pub fn run(&mut self, trouble: u64) -> Result<u64, Violation> {
        let result = self.run_all(trouble);
        self.figures.time = self.t;
        self.figures.truth = self.web.truth().len() as u64;
        self.figures.noticed = u64::from(self.noticed);
        result.map(|()| self.trace.digest())
    }

    fn run_all(&mut self, trouble: u64) -> Result<(), Violation> {
        let mut next_fault = self.rng.below(self.fault_every);
        while self.t < trouble && !self.noticed {
            self.spread_due();
            if self.t >= next_fault {
                self.fault();
                next_fault = self.t + self.rng.below(2 * self.fault_every);
            }
            self.step(next_fault)?;
        }
        self.calm_down();
        let (truth, limit) = (self.web.truth().len(), self.t + CALM_MAX);
        let mut last = (self.t, self.figures.pages);
        while self.books.done < truth && self.t < limit.min(last.0 + IDLE_MAX) && !self.noticed {
            self.step(limit)?;
            if last.1 != self.figures.pages {
                last = (self.t, self.figures.pages);
            }
        }
        let quiet = self.t + QUIET;
        while self.t < quiet && !self.noticed {
            self.step(quiet)?;
        }
        // An operator has to repair a log with a hole; no promise holds after that.
        if self.noticed { Ok(()) } else { self.check_end() }
    }

    /// An operator spreads the domains that are due.
    fn spread_due(&mut self) {
        while let Some((_, domain)) = self.wishes.pop_if(|(at, _)| *at <= self.t) {
            self.tell(|| format!("{domain} is to be spread"));
            let wish = DomainSpread::wish(&domain, &self.secret);
            let home = node::partition_of(HostKey { domain: wish.domain, host: 0 }, self.partitions);
            if self.planted == Planted::SpreadEarly {
                self.engine.spread.add(wish.clone());
            }
            self.figures.spread += 1;
            let id = 1 << 121 | u128::from(wish.domain.0);
            let message = Message::Command(Box::new(Entry::Spread(wish))).encode(&self.secret);
            self.engine.publish(home, id, Bytes::from(message), false);
        }
    }

    fn calm_down(&mut self) {
        self.tell(|| "calm".to_owned());
        self.calm = true;
        self.away_until = 0;
        for node in &mut self.nodes {
            (node.sleeps_until, node.cut_until) = (0, 0);
            node.dead_until = node.dead_until.map(|_| self.t);
            node.wake = self.t;
        }
    }

    /// Processes every event of the next moment that has one.
    fn step(&mut self, until: u64) -> Result<(), Violation> {
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        let wakes = self.nodes.iter().map(|node| match node.dead_until {
            Some(until) => until,
            None => node.wake.max(node.sleeps_until),
        });
        let next = wakes.chain(event).min().unwrap_or(u64::MAX);
        self.t = next.min(until).max(self.t);
        let mut called = vec![false; self.nodes.len()];
        for (n, called) in called.iter_mut().enumerate() {
            if self.nodes[n].dead_until.is_some_and(|until| until <= self.t) {
                self.restart(n);
            }
            *called = self.nodes[n].wake <= self.t;
        }
        while self.events.first_key_value().is_some_and(|((at, _), _)| *at <= self.t) {
            let (_, event) = self.events.pop_first().expect("just seen");
            self.handle(event, &mut called)?;
        }
        for (n, called) in called.into_iter().enumerate() {
            if called && self.nodes[n].is_awake(self.t) {
                self.turn(n)?;
            }
        }
        self.check_owners()
    }

    fn handle(&mut self, event: Event, called: &mut [bool]) -> Result<(), Violation> {
        let to = match &event {
            Event::Back { node, .. } => Some(*node),
            Event::Came { running, .. } => Some(running.node),
            Event::Talk { to, .. } => Some(self.node_of(*to)),
            Event::There { .. } | Event::Answered { .. } => None,
        };
        if let Some(node) = to {
            // Events for a process that sleeps wait for the process.
            if self.nodes[node].dead_until.is_none() && self.nodes[node].sleeps_until > self.t {
                let after = self.nodes[node].sleeps_until - self.t;
                self.at(after, event);
                return Ok(());
            }
            called[node] = true;
        }
        match event {
            Event::There { node, life, call, back } => self.handle_there(node, life, call, back),
            Event::Back { node, life, call, got } => match self.reaches(node, life) {
                true => self.handle_back(node, call, got),
                false => Ok(()),
            },
            Event::Answered { request } => {
                self.handle_answered(request);
                Ok(())
            }
            Event::Talk { to, bytes } => self.handle_talk(to, &bytes),
            Event::Came { running, failed } => match self.nodes[running.node].dead_until {
                None => self.handle_came(&running, failed),
                Some(_) => Ok(()),
            },
        }
    }

    fn reaches(&self, node: usize, life: u64) -> bool {
        self.nodes[node].life == life && self.nodes[node].dead_until.is_none()
    }

    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    fn at(&mut self, after: u64, event: Event) {
        let number = self.next();
        self.events.insert((self.t + after, number), event);
    }

    fn trace(&mut self, numbers: &[u64], bytes: &[u8]) {
        numbers.iter().for_each(|number| self.trace.update(&number.to_le_bytes()));
        self.trace.update(bytes);
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{:>9} {}", self.t, what());
        }
    }

    /// The operator's pins at this moment: the partition and the node change with time.
    fn pins(&self) -> BTreeMap<u32, NodeId> {
        if !self.pinning {
            return BTreeMap::new();
        }
        // In a calm cluster no pin moves, for ever.
        let t = if self.calm { 0 } else { self.t };
        let partition = (t / PIN_EVERY) % u64::from(self.partitions);
        let node = (t / (PIN_EVERY + PIN_EVERY / 3)) % self.nodes.len() as u64;
        BTreeMap::from([(partition as u32, NodeId(node + 1))])
    }

    /// Checks that at no moment two nodes act for one partition.
    fn check_owners(&self) -> Result<(), Violation> {
        let mut owners = vec![None; self.partitions as usize];
        for (n, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.is_awake(self.t)) {
            let mono = node.now(self.t).mono;
            for partition in
                node.parts.keys().filter(|partition| node.member.epoch(mono, **partition).is_some())
            {
                if let Some(other) = owners[*partition as usize].replace(n) {
                    let what = format!("nodes {other} and {n} both own partition {partition} at {}", self.t);
                    return Err(Violation::new(Checker::Owners, what));
                }
            }
        }
        Ok(())
    }

    /// Checks a calm and quiet cluster: nothing is missing, every partition has an owner, and every log replays to its
    /// state.
    fn check_end(&mut self) -> Result<(), Violation> {
        self.books.check_end(&self.web, &self.engine)?;
        let mut origins = BTreeSet::new();
        for partition in 0..self.partitions {
            let owner = |node: &&mut Node| node.member.phase(partition) == Some(Phase::Open);
            let Some(node) = self.nodes.iter_mut().find(owner) else {
                let what = format!("nobody owns partition {partition} in the end");
                return Err(Violation::new(Checker::Liveness, what));
            };
            let Some(part) = node.parts.get_mut(&partition) else {
                let what = format!("partition {partition} is not open in the end");
                return Err(Violation::new(Checker::Liveness, what));
            };
            let mut hosts = Vec::new();
            part.frontier.state(0).hosts_from(HostKey::MIN, self.web.hosts.len(), &mut hosts)?;
            if let Some((_, twice)) = hosts.into_iter().find(|(_, host)| !origins.insert(host.origin.clone()))
            {
                let what = format!("{} is of two partitions", twice.origin);
                return Err(Violation::new(Checker::Owners, what));
            }
            if let Some(hole) = self.lied.filter(|hole| hole.partition == partition) {
                let known = self.engine.snapshots[partition as usize].position().sequence;
                if hole.shows(partition, known) {
                    return Err(unnoticed(partition));
                }
                // A snapshot from after the hole came late: no reader needs the missing group, and no reader can begin
                // at zero.
                continue;
            }
            let mut again = MemoryState::new();
            calls::replay(&mut again, &self.engine.logs[partition as usize].groups)?;
            if again.hash(Prefixes::ALL)? != part.frontier.state(0).hash(Prefixes::ALL)? {
                let what =
                    format!("log {partition} from its beginning gives another state than its owner has");
                return Err(Violation::new(Checker::Recovery, what));
            }
        }
        match self.nodes.iter().find(|node| node.outbox.bytes() > 0 || node.outbox.pages() > 0) {
            None => Ok(()),
            Some(node) => {
                Err(Violation::new(Checker::Liveness, format!("{} still has links to send", node.id)))
            }
        }
    }
}

fn unnoticed(partition: u32) -> Violation {
    let what = format!("a group is gone from the middle of log {partition}, and nobody noticed");
    Violation::new(Checker::Recovery, what)
}

fn config(rng: &mut Rng) -> Config {
    let secs = Duration::from_secs;
    let frontier = Settings {
        host_delay: Duration::from_millis(*rng.pick(&[500, 2_000, 8_000, 20_000])),
        host_delay_factor: *rng.pick(&[0, 1]),
        slot_delay: Duration::from_millis(*rng.pick(&[0, 200, 1_000, 3_000])),
        slot_connections: *rng.pick(&[1, 1, 2]),
        visit_urls_max: *rng.pick(&[1, 3, 20]),
        hosts_active_max: *rng.pick(&[1, 3, 1_000]),
        offers_max: *rng.pick(&[3, 32, 1_000]),
        recent_max: *rng.pick(&[1, 16, 1_024]),
        ticket_timeout: secs(24 * 3_600),
        ..Settings::default()
    };
    let retry = retry::Settings {
        back_off_first: secs(5),
        back_off_other_first: secs(5),
        back_off_factor: 1,
        ..retry::Settings::default()
    };
    Config { frontier, retry, agent: "nephila".to_owned(), ..Config::default() }
}
