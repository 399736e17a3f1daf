//! Several members over one store, in virtual time, from random numbers: calls are late, lost or lose their answers,
//! nodes sleep, die, join and leave. Never do two of them hold one partition; and once the cluster is calm, every
//! partition has an owner.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const PARTITIONS: u32 = 6;
/// A call without an answer is given up after this time (timeout).
const CALL_MAX: u64 = 5_000;

#[derive(Default)]
pub(super) struct Store {
    revision: u64,
    /// Node to record and end.
    pub(super) leases: BTreeMap<NodeId, (NodeRecord, u64)>,
    pub(super) owners: BTreeMap<u32, (u64, OwnerRecord)>,
}

impl Store {
    fn expire(&mut self, now: u64) {
        self.leases.retain(|_, (_, until)| *until > now);
    }

    fn swap(&mut self, partition: u32, expected: Option<u64>, record: OwnerRecord) -> SwapResult {
        if self.owners.get(&partition).map(|(revision, _)| *revision) != expected {
            return SwapResult::Refused;
        }
        self.revision += 1;
        self.owners.insert(partition, (self.revision, record));
        SwapResult::Done(self.revision)
    }

    pub(super) fn apply(&mut self, now: u64, action: &Action) -> SwapResult {
        self.expire(now);
        self.revision += 1;
        match action {
            Action::Acquire { record, .. } => match self.leases.contains_key(&record.node) {
                true => SwapResult::Refused,
                false => {
                    self.leases.insert(record.node, (record.clone(), now + TTL));
                    SwapResult::Done(self.revision)
                }
            },
            Action::Renew { incarnation, record } => match self.leases.get_mut(&record.node) {
                Some((held, until)) if held.incarnation == *incarnation => {
                    (*held, *until) = (record.clone(), now + TTL);
                    SwapResult::Done(self.revision)
                }
                _ => SwapResult::Refused,
            },
            Action::Claim { partition, expected, record } => self.swap(*partition, *expected, *record),
            Action::Release { partition, expected, record } => {
                self.swap(*partition, Some(*expected), *record)
            }
            Action::Leave { incarnation } => {
                self.leases.retain(|_, (held, _)| held.incarnation != *incarnation);
                SwapResult::Done(self.revision)
            }
            other => panic!("{other:?} is not for the store"),
        }
    }
}

enum Event {
    /// A call arrives at the store; its answer is lost or comes after this delay.
    Call {
        node: usize,
        life: u64,
        action: Action,
        answer: Option<u64>,
    },
    Answer {
        node: usize,
        life: u64,
        action: Action,
        answer: SwapResult,
    },
    /// The owners were read and the leases are about to be.
    Leases {
        node: usize,
        life: u64,
        incarnation: Incarnation,
        owners: BTreeMap<u32, (u64, OwnerRecord)>,
    },
    View {
        node: usize,
        life: u64,
        incarnation: Incarnation,
        view: Option<View>,
    },
    Opened {
        node: usize,
        life: u64,
        partition: u32,
        epoch: Epoch,
    },
    Drained {
        node: usize,
        life: u64,
        partition: u32,
        epoch: Epoch,
    },
}

struct Node {
    member: Member,
    /// The number of this process among the processes of this name.
    life: u64,
    sleeps_until: u64,
    dead_until: Option<u64>,
}

struct Cluster {
    now: u64,
    rng: u64,
    store: Store,
    nodes: Vec<Node>,
    events: BTreeMap<(u64, u64), Event>,
    next: u64,
    calm: bool,
    opened: u64,
    /// Planted: a call that was lost counts as refused although it may still arrive, and records are written blindly.
    blind: bool,
}

impl Cluster {
    fn new(seed: u64, nodes: u64) -> Cluster {
        let mut cluster = Cluster {
            now: 0,
            rng: seed | 1,
            store: Store::default(),
            nodes: Vec::new(),
            events: BTreeMap::new(),
            next: 0,
            calm: false,
            opened: 0,
            blind: false,
        };
        for id in 1..=nodes {
            let dead_until = Some(cluster.below(30_000));
            let node = Node { member: cluster.process(id, 0), life: 0, sleeps_until: 0, dead_until };
            cluster.nodes.push(node);
        }
        cluster
    }

    fn process(&mut self, id: u64, life: u64) -> Member {
        let incarnation = Incarnation(id << 40 | life << 20);
        Member::new(Settings::default(), NodeRecord { incarnation, ..me(id) }, PARTITIONS)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.rng = self.rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.rng >> 33) % end.max(1)
    }

    /// Mostly soon, now and then late.
    fn delay(&mut self) -> u64 {
        match self.below(if self.calm { 8 } else { 12 }) {
            0..8 => 1 + self.below(20),
            8 | 9 => self.below(1_500),
            10 => self.below(9_000),
            _ => self.below(25_000),
        }
    }

    fn at(&mut self, after: u64, event: Event) {
        self.next += 1;
        self.events.insert((self.now + after, self.next), event);
    }

    fn carry_out(&mut self, node: usize, action: Action) {
        let life = self.nodes[node].life;
        match action {
            Action::Fence => {
                let now = self.now;
                self.nodes[node].member.handle_fenced(now);
            }
            Action::Read { incarnation } => {
                let lost = !self.calm && self.below(10) == 0;
                if lost {
                    return self.at(CALL_MAX, Event::View { node, life, incarnation, view: None });
                }
                let (owners, delay) = (self.store.owners.clone(), self.delay());
                self.at(delay, Event::Leases { node, life, incarnation, owners });
            }
            Action::Open { partition, epoch } => {
                self.opened += 1;
                let delay = self.delay();
                self.at(delay, Event::Opened { node, life, partition, epoch });
            }
            Action::Drain { partition, epoch } => {
                let delay = self.delay();
                self.at(delay, Event::Drained { node, life, partition, epoch });
            }
            call => {
                let (lost, answer_lost) = match self.calm {
                    true => (false, false),
                    false => (self.below(10) == 0, self.below(10) == 0),
                };
                let (there, back) = (self.delay(), self.delay());
                let late = lost || answer_lost || there + back > CALL_MAX;
                if late {
                    let answer = if self.blind { SwapResult::Refused } else { SwapResult::Unknown };
                    self.at(CALL_MAX, Event::Answer { node, life, action: call.clone(), answer });
                }
                if !lost {
                    let answer = (!late).then_some(back);
                    self.at(there, Event::Call { node, life, action: call, answer });
                }
            }
        }
    }

    /// Whether this process is still there. Events for a sleeping process wait.
    fn reaches(&self, node: usize, life: u64) -> bool {
        self.nodes[node].life == life && self.nodes[node].dead_until.is_none()
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Call { node, life, mut action, answer } => {
                if let (true, Action::Claim { partition, expected, .. }) = (self.blind, &mut action) {
                    *expected = self.store.owners.get(partition).map(|(revision, _)| *revision);
                }
                let result = self.store.apply(now, &action);
                if let Some(after) = answer {
                    self.at(after, Event::Answer { node, life, action, answer: result });
                }
            }
            Event::Leases { node, life, incarnation, owners } => {
                self.store.expire(now);
                let nodes = self.store.leases.values().map(|(record, _)| record.clone()).collect();
                let (view, delay) = (Some(View { nodes, owners, ..View::default() }), self.delay());
                self.at(delay, Event::View { node, life, incarnation, view });
            }
            Event::Answer { node, life, action, answer } if self.reaches(node, life) => {
                let member = &mut self.nodes[node].member;
                match action {
                    Action::Acquire { incarnation, .. } => member.handle_acquired(now, incarnation, answer),
                    Action::Renew { incarnation, .. } => member.handle_renewed(now, incarnation, answer),
                    Action::Claim { partition, record, .. } => {
                        member.handle_claimed(now, partition, record.incarnation, answer);
                    }
                    Action::Release { partition, record, .. } => {
                        member.handle_released(now, partition, record.incarnation, answer);
                    }
                    _ => {}
                }
            }
            Event::View { node, life, incarnation, view } if self.reaches(node, life) => {
                self.nodes[node].member.handle_view(now, incarnation, view.as_ref());
            }
            Event::Opened { node, life, partition, epoch } if self.reaches(node, life) => {
                self.nodes[node].member.handle_opened(partition, epoch);
            }
            Event::Drained { node, life, partition, epoch } if self.reaches(node, life) => {
                self.nodes[node].member.handle_drained(partition, epoch);
            }
            _ => {}
        }
    }

    fn fault(&mut self) {
        let node = self.below(self.nodes.len() as u64) as usize;
        let (now, long) = (self.now, self.below(40_000));
        match self.below(4) {
            0 => self.nodes[node].sleeps_until = now + long,
            1 => self.nodes[node].dead_until = Some(now + long),
            2 => self.nodes[node].member.drain(now),
            _ => {}
        }
    }

    /// Everything that happens at one moment.
    fn step(&mut self) {
        let now = self.now;
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            let gone = node.member.has_left();
            if node.dead_until.is_some_and(|until| until <= now) || (gone && self.calm) {
                node.life += 1;
                (node.dead_until, node.sleeps_until) = (None, 0);
                let (id, life) = (node.member.id().0, node.life);
                self.nodes[at].member = self.process(id, life);
            }
        }
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let (_, event) = self.events.pop_first().unwrap();
            // Events for a sleeping process wait.
            let sleeper = match &event {
                Event::Answer { node, .. }
                | Event::View { node, .. }
                | Event::Opened { node, .. }
                | Event::Drained { node, .. } => Some(self.nodes[*node].sleeps_until),
                Event::Call { .. } | Event::Leases { .. } => None,
            };
            match sleeper.filter(|until| *until > now) {
                Some(until) => self.at(until - now, event),
                None => self.handle(event),
            }
        }
        for at in 0..self.nodes.len() {
            while self.nodes[at].dead_until.is_none() && self.nodes[at].sleeps_until <= now {
                let Some(action) = self.nodes[at].member.poll(now) else { break };
                self.carry_out(at, action);
            }
        }
    }

    fn owners(&self, partition: u32) -> Vec<NodeId> {
        let alive = self.nodes.iter().filter(|node| node.dead_until.is_none());
        alive
            .filter(|node| node.member.epoch(self.now, partition).is_some())
            .map(|node| node.member.id())
            .collect()
    }

    fn check(&self) -> Result<(), String> {
        for partition in 0..PARTITIONS {
            let owners = self.owners(partition);
            if owners.len() > 1 {
                return Err(format!("at {} partition {partition} is held by {owners:?}", self.now));
            }
        }
        Ok(())
    }

    /// Runs to the next moment at which something happens, at most a second.
    fn advance(&mut self) {
        let event = self.events.first_key_value().map(|((at, _), _)| *at);
        let nodes = self.nodes.iter().filter(|node| node.dead_until.is_none());
        let wakes = nodes.filter_map(|node| Some(node.member.next_wake(self.now)?.max(node.sleeps_until)));
        let next = wakes.chain(event).filter(|at| *at > self.now).min().unwrap_or(u64::MAX);
        self.now = next.min(self.now + 1_000);
    }

    fn run(&mut self, until: u64) -> Result<(), String> {
        while self.now < until {
            if !self.calm && self.below(60) == 0 {
                self.fault();
            }
            self.step();
            self.check()?;
            self.advance();
        }
        Ok(())
    }

    /// The cluster is calm: all nodes come back, and every partition finds its owner.
    fn calm_down(&mut self) -> Result<(), String> {
        self.calm = true;
        for node in &mut self.nodes {
            node.sleeps_until = 0;
            node.dead_until = node.dead_until.map(|_| self.now);
        }
        self.run(self.now + 120_000)?;
        let mut shares: BTreeMap<NodeId, usize> = BTreeMap::new();
        for partition in 0..PARTITIONS {
            let owners = self.owners(partition);
            let open = self.nodes.iter().any(|node| node.member.phase(partition) == Some(Phase::Open));
            if owners.len() != 1 || !open {
                return Err(format!("partition {partition} has the owners {owners:?} in the end"));
            }
            *shares.entry(owners[0]).or_default() += 1;
        }
        let fair = PARTITIONS as usize / self.nodes.len();
        match shares.len() == self.nodes.len() && shares.values().all(|share| share.abs_diff(fair) <= 1) {
            true => Ok(()),
            false => Err(format!("shares in the end: {shares:?}")),
        }
    }
}

#[test]
fn the_checker_notices_records_that_are_written_blindly() {
    let noticed = (0..40).filter(|seed| {
        let mut cluster = Cluster::new(*seed, 3);
        cluster.blind = true;
        cluster.run(300_000).is_err()
    });
    assert!(noticed.count() > 10);
}

#[test]
fn a_cluster_that_nothing_happens_to_moves_nothing() {
    let mut cluster = Cluster::new(5, 3);
    cluster.calm_down().unwrap();
    let (opened, owners) = (cluster.opened, cluster.store.owners.clone());
    cluster.run(cluster.now + 300_000).unwrap();
    assert_eq!((cluster.opened, &cluster.store.owners), (opened, &owners));
    let names: BTreeSet<NodeId> = owners.values().map(|(_, record)| record.node).collect();
    assert_eq!(names.len(), 3);
}

#[test]
fn clu_12_what_was_given_away_does_not_come_back_with_an_older_view() {
    // A release whose answer was lost had been written; the second try was refused. Because of a view read before,
    // the node took the released partition for its own.
    let mut cluster = Cluster::new(1_314_899_728_914_328_876, 3);
    cluster.run(400_000).and_then(|()| cluster.calm_down()).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn never_two_owners_and_in_the_end_one_for_each(seed: u64, nodes in 1u64..5) {
        let mut cluster = Cluster::new(seed, nodes);
        let ran = cluster.run(400_000).and_then(|()| cluster.calm_down());
        prop_assert_eq!(ran, Ok(()));
        prop_assert!(cluster.opened >= u64::from(PARTITIONS));
    }
}
