//! A model of a cluster in which everything happens one small step at a time, in any order, and the truth is known.

use std::collections::VecDeque;

use super::*;

const JOB: JobId = JobId(7);
const PARTITIONS: u32 = 4;
const NAMES: [&str; 3] = ["one", "two", "three"];

/// The part that a faulty program leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Records from before the round count.
    NoSecondWord,
    /// The inboxes are not read.
    NoTails,
    /// A caller that adds URLs does not end the round.
    AddInSilence,
    /// Events between the two records are ignored.
    NoEvents,
    /// A link that the home of its domain sends on is no event.
    SentOnInSilence,
}

#[derive(Clone, Debug, Default)]
struct Partition {
    owner: usize,
    epoch: u64,
    open: u64,
    events: u64,
    /// Messages of the job, and of others, by position.
    inbox: VecDeque<(u64, bool)>,
    last: u64,
    read: u64,
}

/// A page on its way: its links are stored one by one, and only then it ends.
#[derive(Clone, Debug)]
struct Page {
    from: usize,
    links: Vec<usize>,
}

/// A look of a node, or of the evaluating node, that is under way.
#[derive(Clone, Debug)]
enum Looking {
    /// The rounds were read.
    Node(usize, Round),
    /// Of a round that was begun: the inboxes read so far.
    Tails(Round, u32),
}

struct Model {
    state: u64,
    fault: Fault,
    partitions: Vec<Partition>,
    pages: Vec<Page>,
    said: BTreeMap<&'static str, NodeWork>,
    round: Round,
    looking: Vec<Looking>,
    /// Callers that have stored their URL and not looked at the round yet.
    adders: u64,
    budget: u64,
    moves: u64,
    /// Links that each node has sent on.
    sent_on: [u64; 3],
}

impl Model {
    fn new(seed: u64, fault: Fault) -> Model {
        let partition = |number: usize| Partition { owner: number % 3, epoch: 1, ..Partition::default() };
        let partitions = (0..PARTITIONS as usize).map(partition).collect();
        let (said, round) = Default::default();
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let (pages, looking) = Default::default();
        let mut model = Model {
            state,
            fault,
            partitions,
            pages,
            said,
            round,
            looking,
            adders: 0,
            budget: 25,
            moves: 2,
            sent_on: [0; 3],
        };
        model.store(0, true);
        model
    }

    fn below(&mut self, bound: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize % bound
    }

    fn store(&mut self, to: usize, of_job: bool) {
        let partition = &mut self.partitions[to];
        partition.last += 1;
        partition.inbox.push_back((partition.last, of_job));
    }

    /// Whether work is left, in truth.
    fn is_left(&self) -> bool {
        let in_partition =
            |partition: &Partition| partition.open > 0 || partition.inbox.iter().any(|(_, of_job)| *of_job);
        self.partitions.iter().any(in_partition)
    }

    /// The work that a node knows of now.
    fn work(&self, node: usize, round: &Round) -> NodeWork {
        let own = || (0..).zip(&self.partitions).filter(move |(_, partition)| partition.owner == node);
        let mut rounds = self.said.get(NAMES[node]).map(|said| said.rounds.clone()).unwrap_or_default();
        let read = own().map(|(number, partition)| (number, partition.read)).collect();
        if round.phase == Phase::Asked && (self.fault == Fault::NoTails || round.is_behind(&read)) {
            rounds.insert(JOB.0, round.number);
        }
        let (left, events) = own().fold((0, 0), |(left, events), (_, partition)| {
            (left + partition.open, events + partition.events)
        });
        let sent_on = if self.fault == Fault::SentOnInSilence { 0 } else { self.sent_on[node] };
        let events = if self.fault == Fault::NoEvents { 0 } else { events + sent_on };
        let work = Work { left, events, ..Work::default() };
        NodeWork {
            partitions: own().map(|(number, partition)| (number, partition.epoch)).collect(),
            jobs: [(JOB.0, work)].into(),
            cut: false,
            rounds,
            ready: None,
        }
    }

    /// Writes the round if the round is still as read.
    fn swap(&mut self, read: &Round, new: Round) -> bool {
        let same = self.round == *read;
        if same {
            self.round = new;
        }
        same
    }

    /// One small step of any party. True if the job was marked as complete.
    fn step(&mut self) -> bool {
        match self.below(12) {
            // A message is read.
            0 | 1 => {
                let at = self.below(PARTITIONS as usize);
                // The first partition is the home of a spread domain, and sends some links on.
                let (is_sent_on, to) = (self.below(2) == 0, 1 + self.below(PARTITIONS as usize - 1));
                let partition = &mut self.partitions[at];
                if let Some((position, of_job)) = partition.inbox.pop_front() {
                    partition.read = position;
                    let owner = partition.owner;
                    if of_job && at == 0 && is_sent_on {
                        self.sent_on[owner] += 1;
                        self.store(to, true);
                    } else if of_job {
                        partition.open += 1;
                        partition.events += 1;
                    }
                }
            }
            // A page is begun.
            2 | 3 => {
                let at = self.below(PARTITIONS as usize);
                let under_way = self.pages.iter().filter(|page| page.from == at).count() as u64;
                if self.partitions[at].open > under_way {
                    let count = self.below(3).min(self.budget as usize);
                    self.budget -= count as u64;
                    let links = (0..count).map(|_| self.below(PARTITIONS as usize)).collect();
                    self.pages.push(Page { from: at, links });
                }
            }
            // A link is stored, or a page ends.
            4..=6 if !self.pages.is_empty() => {
                let at = self.below(self.pages.len());
                let from = self.pages[at].from;
                match self.pages[at].links.pop() {
                    // Another partition of the same node needs no inbox.
                    Some(to) if self.partitions[to].owner == self.partitions[from].owner => {
                        self.partitions[to].open += 1;
                        self.partitions[to].events += 1;
                    }
                    Some(to) => self.store(to, true),
                    None => {
                        self.pages.swap_remove(at);
                        self.partitions[from].open -= 1;
                        self.partitions[from].events += 1;
                    }
                }
            }
            // A caller adds a URL.
            7 => {
                if self.budget > 0 && self.below(6) == 0 {
                    self.budget -= 1;
                    let to = self.below(PARTITIONS as usize);
                    self.store(to, true);
                    self.adders += 1;
                } else if self.adders > 0 {
                    self.adders -= 1;
                    if self.fault != Fault::AddInSilence {
                        self.round.phase = Phase::Void;
                    }
                } else {
                    // Traffic of others never ends.
                    let to = self.below(PARTITIONS as usize);
                    self.store(to, false);
                }
            }
            // A node looks.
            8 => {
                let node = self.below(3);
                let round = self.round.clone();
                self.looking.push(Looking::Node(node, round));
            }
            9 | 10 if !self.looking.is_empty() => {
                let at = self.below(self.looking.len());
                match self.looking.swap_remove(at) {
                    Looking::Node(node, round) => {
                        let work = self.work(node, &round);
                        self.said.insert(NAMES[node], work);
                    }
                    Looking::Tails(mut round, asked) if asked < PARTITIONS => {
                        round.tails.insert(asked, self.partitions[asked as usize].last);
                        self.looking.push(Looking::Tails(round, asked + 1));
                    }
                    Looking::Tails(round, _) => {
                        let begun = Round { tails: BTreeMap::new(), ..round.clone() };
                        self.swap(&begun, Round { phase: Phase::Asked, ..round });
                    }
                }
            }
            // A partition moves.
            11 if self.moves > 0 && self.below(20) == 0 => {
                self.moves -= 1;
                let (at, owner) = (self.below(PARTITIONS as usize), self.below(3));
                // Its next owner requests its pages again.
                self.pages.retain(|page| page.from != at);
                (self.partitions[at].owner, self.partitions[at].epoch) =
                    (owner, self.partitions[at].epoch + 1);
            }
            _ => return self.evaluate(),
        }
        false
    }

    fn evaluate(&mut self) -> bool {
        // The evaluating node does one thing after the other; now and then another node takes over.
        let under_way = self.looking.iter().any(|looking| matches!(looking, Looking::Tails(..)));
        if under_way && self.below(50) > 0 {
            return false;
        }
        let numbered = (0..).zip(&self.partitions);
        let owners = numbered.map(|(number, of)| (number, (NAMES[of.owner], of.epoch))).collect();
        let read = self.round.clone();
        let mut said = self.said.clone();
        if self.fault == Fault::NoSecondWord {
            said.values_mut().for_each(|said| _ = said.rounds.insert(JOB.0, read.number));
        }
        match step(JOB, PARTITIONS, &owners, &said, &read) {
            Step::Wait => false,
            Step::Begin(mark) => {
                let begun = read.next(mark, Timestamp(0));
                if self.swap(&read, begun.clone()) {
                    self.looking.push(Looking::Tails(begun, 0));
                }
                false
            }
            Step::Complete(work) => self.swap(&read, Round { phase: Phase::Complete, work, ..read.clone() }),
        }
    }
}

/// Runs this number of clusters. Returns how many marked a job as complete too early, and how many never did.
fn run(clusters: u64, fault: Fault) -> (u64, u64) {
    let mut never = 0;
    for seed in 1..=clusters {
        let mut model = Model::new(seed, fault);
        let mut complete = false;
        for _ in 0..60_000 {
            if model.step() {
                // A caller that has stored a URL and not looked at the round has not been told that the URL is added.
                let being_added = model.adders > 0;
                complete = !model.is_left();
                if model.is_left() && !being_added {
                    return (1, never);
                }
                if model.budget == 0 || model.is_left() {
                    break;
                }
                model.round.phase = Phase::Void;
            }
        }
        never += u64::from(!complete);
    }
    (0, never)
}

#[test]
fn row_05_a_job_is_complete_when_nothing_is_left_and_not_before() {
    assert_eq!(run(300, Fault::None), (0, 0));
}

#[test]
fn row_05_each_part_of_the_rule_is_needed() {
    for fault in
        [Fault::NoSecondWord, Fault::NoTails, Fault::AddInSilence, Fault::NoEvents, Fault::SentOnInSilence]
    {
        let (early, _) = run(1_000, fault);
        assert!(early > 0, "without it nothing goes wrong: {fault:?}");
    }
}

#[test]
fn who_does_not_speak_or_has_no_owner_is_not_complete() {
    let idle = |partition: u32| NodeWork { partitions: [(partition, 5)].into(), ..NodeWork::default() };
    let said = BTreeMap::from([("one", idle(0)), ("two", idle(1))]);
    let owners = BTreeMap::from([(0, ("one", 5)), (1, ("two", 5))]);
    let asks = |owners: &_, said: &_| step(JOB, 2, owners, said, &Round::default());
    assert!(matches!(asks(&owners, &said), Step::Begin(_)));
    assert_eq!(asks(&BTreeMap::from([(0, ("one", 5))]), &said), Step::Wait);
    assert_eq!(asks(&BTreeMap::from([(0, ("one", 5)), (1, ("two", 6))]), &said), Step::Wait);
    assert_eq!(asks(&owners, &BTreeMap::from([("one", idle(0))])), Step::Wait);
    let cut = NodeWork { cut: true, ..idle(1) };
    assert_eq!(asks(&owners, &BTreeMap::from([("one", idle(0)), ("two", cut)])), Step::Wait);
}

#[test]
fn only_news_is_said_at_once() {
    let of = |left, events| NodeWork {
        jobs: [(JOB.0, Work { left, events, ..Work::default() })].into(),
        ..NodeWork::default()
    };
    assert!(!of(5, 9).differs(&of(4, 8)), "it goes on");
    assert!(of(0, 9).differs(&of(1, 8)) && of(1, 9).differs(&of(0, 8)) && of(0, 9).differs(&of(0, 8)));
    assert!(!of(0, 9).differs(&of(0, 9)));
}
