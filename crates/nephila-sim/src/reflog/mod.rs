//! Streams of visited URLs at size: several nodes own the partitions of one crawl for a virtual day, batches come to
//! any of them, late, out of order and repeated, and nodes are killed; beside them runs the seed's pipeline, written
//! plainly ([`plain`]), which is never killed.
//!
//! The core is the real one: the core reads, groups and divides lines; the frontier of the partition's owner decides on
//! them; the decisions are written to its log and folded; pages are given out, fetched and reported. A node that is
//! killed loses all but the logs; its partitions go to others, with a state that was folded from the log alone.
//!
//! The checks: every decision in a log on a URL of a batch (sent or held back, the time of the last sent line, waiting
//! hits, the tag) equals the pipeline's decision; every URL that was sent is requested afterwards, even if a fetch of
//! the URL was open; nothing is requested that was not sent, except repeats of URLs that a killed node had open; the
//! state from a log equals the state that wrote the log; both sides count the same number of unreadable lines.

mod lines;
mod node;
mod plain;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use nephila_core::entry::{self, Entry};
use nephila_core::fold::fold;
use nephila_core::job::JobId;
use nephila_core::key::{Prefixes, Secret, UrlKey};
use nephila_core::reflog::BatchKey;
use nephila_core::reflog::part::{Part, first_part};
use nephila_core::state::{MemoryState, State};
use nephila_core::url::CrawlUrl;

use crate::rng::{Rng, mix};
use crate::{Checker, Violation};
use lines::Stream;
use node::Node;
use plain::{Line, Pipeline};

/// 2026-11-16T00:00:00Z, when the day begins.
const BEGAN: u64 = 1_794_787_200_000;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

const SECRET: Secret = Secret([9; 16]);

/// Partitions of the crawl.
const PARTITIONS: usize = 8;

/// A partition whose owner was killed has a new one after this time.
const TAKEOVER: u64 = 15 * SECOND;

/// After the last batch the pages that are wanted are fetched within this time.
const REST: u64 = 6 * HOUR;

/// A page that was sent is requested within this time. Shorter than an hour: after an hour the page may be sent again,
/// and a loss of the first would go unnoticed.
const WAIT_MAX: u64 = 50 * MINUTE;

/// How large the day is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Lines in all.
    pub lines: u64,
    /// Virtual hours.
    pub hours: u64,
    /// Nodes.
    pub nodes: usize,
    /// Nodes killed.
    pub kills: u64,
    /// Seed; every event follows from the seed.
    pub seed: u64,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Batches.
    pub batches: u64,
    /// Of these, delivered twice.
    pub repeated: u64,
    /// Lines read, each once.
    pub lines: u64,
    /// Lines that could not be read, each once.
    pub unreadable: u64,
    /// URLs of parts that were decided on.
    pub decided: u64,
    /// Of these, sent.
    pub sent: u64,
    /// Of these, while the same page was being fetched.
    pub sent_under_way: u64,
    /// Shares of parts that had been processed before (duplicates).
    pub repeats: u64,
    /// Pages requested.
    pub visits: u64,
    /// Of these, repeats for a killed node.
    pub visits_again: u64,
    /// Nodes killed.
    pub kills: u64,
    /// Groups written.
    pub groups: u64,
    /// Groups that were in the log when their writer died, before the acknowledgement reached the writer.
    pub groups_unheard: u64,
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Figures { batches, repeated, lines, unreadable, decided, sent, .. } = self;
        let Figures { sent_under_way, repeats, visits, visits_again, kills, groups, groups_unheard, .. } =
            self;
        write!(
            f,
            "{lines} lines, {unreadable} unreadable, {batches} batches, {repeated} delivered twice, {decided} URLs decided, \
             {sent} sent ({sent_under_way} while being fetched), {repeats} shares repeated, {visits} visits ({visits_again} \
             again after a kill), {kills} nodes killed, {groups} groups ({groups_unheard} unheard)"
        )
    }
}

/// An event.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A batch is delivered; the first time, or again.
    Batch(u64, bool),
    /// A share of a part arrives in the inbox of a partition.
    Arrive(usize, usize),
    /// A fetch ends, of a node in one of its lives.
    Fetched(usize, u64, u64),
    /// A group of a partition is durable.
    Durable(usize, u64, usize),
    /// A node asked for a wake-up.
    Wake(usize, u64),
    Kill,
    /// A partition has a new owner.
    Takeover(usize),
    /// A node is back, with an empty state.
    Back(usize),
}

/// A share of a part.
#[derive(Clone, Debug)]
struct Share {
    part: Arc<Part>,
    batch: u64,
    number: u32,
    plain: Arc<[Line]>,
}

/// A partition's log and inbox, as the servers have them, and the pipeline's decisions.
#[derive(Debug)]
struct Logged {
    prefixes: Prefixes,
    owner: Option<usize>,
    /// The state folded from its log, by the checker alone.
    state: MemoryState,
    /// Shares that arrived and are not in the log yet, and the position of the first.
    inbox: VecDeque<Share>,
    inbox_from: u64,
    pipeline: Pipeline,
}

/// Facts about a URL, observed from outside.
#[derive(Clone, Copy, Debug, Default)]
struct Books {
    /// When the URL was last sent, and last requested, in steps of the world.
    sent: u64,
    asked: u64,
    is_open: bool,
    /// Since when the URL has waited for a request, in milliseconds plus one; 0 if the URL does not wait.
    waits_since: u64,
    /// A node was killed while its fetch of the URL was open.
    is_lost: bool,
}

impl Books {
    /// Checks that the URL is requested in time.
    fn check_wait(&self, t: u64) -> Result<(), String> {
        let waits = if self.waits_since > 0 { t + 1 - self.waits_since } else { 0 };
        match waits > WAIT_MAX {
            true => Err(format!("{} s after it was sent it was not asked for", waits / SECOND)),
            false => Ok(()),
        }
    }
}

fn late(stream: &Stream, number: u32, what: &str) -> Violation {
    Violation::new(Checker::Completeness, format!("{}: {what}", stream.url(number.into())))
}

/// A day of streams.
#[derive(Debug)]
pub struct Sim {
    size: Size,
    stream: Stream,
    rng: Rng,
    t: u64,
    /// Grows with every event.
    step: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    serial: u64,
    nodes: Vec<Node>,
    lives: u64,
    logged: Vec<Logged>,
    shares: BTreeMap<usize, Share>,
    shares_count: usize,
    /// The number of each URL by its key.
    numbers: BTreeMap<UrlKey, u32>,
    books: Vec<Books>,
    /// The key of each URL, by the pipeline's id of the URL.
    by_id: BTreeMap<u64, UrlKey>,
    unreadable_plain: u64,
    figures: Figures,
}

impl Sim {
    /// A day of this size.
    pub fn new(size: Size) -> Sim {
        let batches = (size.hours * 60).max(1);
        let stream = Stream::new(size.seed, size.lines, size.lines.div_ceil(batches).max(1));
        let mut numbers = BTreeMap::new();
        let mut by_id = BTreeMap::new();
        for number in 0..stream.urls() {
            let text = stream.url(number);
            let key = UrlKey::of(&CrawlUrl::parse(&text).expect("a URL of ours"), &SECRET);
            numbers.insert(key, number as u32);
            by_id.insert(plain::id(&text), key);
        }
        let count = PARTITIONS as u32;
        let logged = (0..count).map(|at| Logged {
            prefixes: Prefixes::share(at, count),
            owner: None,
            state: MemoryState::new(),
            inbox: VecDeque::new(),
            inbox_from: 0,
            pipeline: Pipeline::default(),
        });
        let nodes = (0..size.nodes).map(|at| Node::new(at as u64 + 1, mix(size.seed ^ at as u64) % 2_000));
        let mut sim = Sim {
            books: vec![Books::default(); stream.urls() as usize],
            stream,
            rng: Rng::new(size.seed ^ 0x72_6c),
            t: 0,
            step: 0,
            events: BinaryHeap::new(),
            serial: 0,
            nodes: nodes.collect(),
            lives: size.nodes as u64 + 1,
            logged: logged.collect(),
            shares: BTreeMap::new(),
            shares_count: 0,
            numbers,
            by_id,
            unreadable_plain: 0,
            figures: Figures::default(),
            size,
        };
        for partition in 0..PARTITIONS {
            sim.at(0, Event::Takeover(partition));
        }
        for batch in 0..batches {
            sim.schedule(batch);
        }
        for _ in 0..size.kills {
            let when = sim.rng.below(size.hours * HOUR);
            sim.at(when, Event::Kill);
        }
        sim
    }

    /// Schedules a batch: most come at once, some late, so that others overtake them; some are repeated, at once or
    /// hours later.
    fn schedule(&mut self, batch: u64) {
        self.figures.batches += 1;
        let written = batch * MINUTE;
        let late = if self.rng.one_in(5) { self.rng.below(90 * MINUTE) } else { self.rng.below(MINUTE) };
        self.at(written + late, Event::Batch(batch, true));
        if self.rng.one_in(5) {
            self.figures.repeated += 1;
            let again =
                if self.rng.one_in(2) { self.rng.below(2 * SECOND) } else { self.rng.below(9 * HOUR) };
            self.at(written + late + again, Event::Batch(batch, false));
        }
    }

    fn at(&mut self, t: u64, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((t, self.serial, event)));
    }

    /// Runs the day, and until everything that is wanted was fetched.
    pub fn run(&mut self) -> Result<Figures, Violation> {
        let end = self.size.hours * HOUR + 12 * HOUR + REST;
        while let Some(Reverse((t, _, event))) = self.events.pop() {
            if t > end {
                break;
            }
            (self.t, self.step) = (t, self.step + 1);
            self.handle(event)?;
        }
        let missing = self.books.iter().position(|books| books.sent > books.asked);
        if let Some(number) = missing {
            let what = format!("{} was sent and never asked for since", self.stream.url(number as u64));
            return Err(Violation::new(Checker::Completeness, what));
        }
        if self.figures.unreadable != self.unreadable_plain {
            let what = format!(
                "{} lines unreadable, {} for the pipeline",
                self.figures.unreadable, self.unreadable_plain
            );
            return Err(Violation::new(Checker::Streams, what));
        }
        for partition in 0..PARTITIONS {
            self.check_state(partition)?;
        }
        Ok(self.figures)
    }

    fn handle(&mut self, event: Event) -> Result<(), Violation> {
        match event {
            Event::Batch(batch, is_first) => self.batch(batch, is_first),
            Event::Arrive(partition, share) => {
                let share = self.shares.remove(&share).expect("it arrives once");
                self.logged[partition].inbox.push_back(share);
                match self.logged[partition].owner {
                    Some(node) => self.work(node),
                    None => Ok(()),
                }
            }
            Event::Fetched(node, life, ticket) => {
                if self.nodes[node].life != life {
                    return Ok(());
                }
                if let Some(url) = self.nodes[node].fetched(ticket, self.t)? {
                    self.books[self.numbers[&url] as usize].is_open = false;
                }
                self.work(node)
            }
            Event::Durable(node, life, partition) => {
                if self.nodes[node].life != life {
                    return Ok(());
                }
                self.durable(node, partition)?;
                self.nodes[node].committed(partition, self.t)?;
                self.work(node)
            }
            Event::Wake(node, life) => {
                if self.nodes[node].life != life {
                    return Ok(());
                }
                self.nodes[node].woken(self.t)?;
                self.work(node)
            }
            Event::Kill => self.kill(),
            Event::Takeover(partition) => self.take_over(partition),
            Event::Back(node) => {
                self.lives += 1;
                let life = self.lives;
                self.nodes[node].begin(life);
                Ok(())
            }
        }
    }

    /// A batch comes to some node. The node reads the lines and sends the shares to the inboxes, each with its own
    /// delay.
    fn batch(&mut self, batch: u64, is_first: bool) -> Result<(), Violation> {
        let text = self.stream.text(batch, BEGAN + batch * MINUTE);
        let id = self.stream.id(batch);
        let (mut rest, mut number) = (&*text, 0);
        while let Some(end) = first_part(rest.as_bytes(), true) {
            let (this, others) = rest.split_at(end);
            rest = others;
            let (part, read) = Part::of_lines(this.as_bytes(), (&id, number), JobId(1), &SECRET, |_| true);
            let reading = plain::read(this);
            if is_first {
                self.figures.lines += read.lines;
                self.figures.unreadable += read.unreadable;
                self.unreadable_plain += reading.unreadable;
            }
            let mut plain: Vec<Vec<Line>> = vec![Vec::new(); PARTITIONS];
            for (line, _) in reading.lines {
                let key = self.by_id[&line.id];
                let holds = |logged: &Logged| logged.prefixes.holds(key.host.domain);
                plain[self.logged.iter().position(holds).expect("they hold everything")].push(line);
            }
            let logged = &self.logged;
            let place = |url: &nephila_core::reflog::part::Named| {
                logged.iter().position(|logged| logged.prefixes.holds(url.key.host.domain))
            };
            for (partition, part) in part.divided(place) {
                let partition = partition.expect("they hold everything");
                let plain: Arc<[Line]> = std::mem::take(&mut plain[partition]).into();
                let share = Share { part: Arc::new(part), batch, number, plain };
                self.shares_count += 1;
                self.shares.insert(self.shares_count, share);
                let on_its_way = self.rng.within(1, 5 * SECOND);
                self.at(self.t + on_its_way, Event::Arrive(partition, self.shares_count));
            }
            if let Some(missed) = plain.iter().find(|lines| !lines.is_empty()) {
                let what = format!("batch {id}: {} lines of a partition that got no share", missed.len());
                return Err(Violation::new(Checker::Streams, what));
            }
            number += 1;
        }
        Ok(())
    }

    /// One step of a node: reads inboxes, polls the frontier for actions, writes groups.
    fn work(&mut self, node: usize) -> Result<(), Violation> {
        let life = self.nodes[node].life;
        for partition in self.nodes[node].owned() {
            let logged = &self.logged[partition];
            self.nodes[node].read_inbox(partition, logged.inbox_from, &logged.inbox);
        }
        for begun in self.nodes[node].act(self.t)? {
            let longest = if self.rng.one_in(8) { 250 * SECOND } else { 8 * SECOND };
            let took = self.rng.within(100, longest);
            self.at(self.t + took, Event::Fetched(node, life, begun.ticket));
            if let Some(url) = begun.url {
                self.asked(&url)?;
            }
        }
        for partition in self.nodes[node].owned() {
            self.step += 1;
            if self.nodes[node].begin_group(partition, self.t, self.step)? {
                let latency = self.rng.within(20, 1_500);
                self.at(self.t + latency, Event::Durable(node, life, partition));
            }
        }
        if let Some(wake) = self.nodes[node].next_wake(self.t) {
            self.at(wake, Event::Wake(node, life));
        }
        Ok(())
    }

    /// A page is requested.
    fn asked(&mut self, url: &UrlKey) -> Result<(), Violation> {
        let Some(&number) = self.numbers.get(url) else {
            return Err(Violation::new(
                Checker::Completeness,
                format!("{url} is asked for and does not exist"),
            ));
        };
        let books = &mut self.books[number as usize];
        let is_lost = std::mem::take(&mut books.is_lost);
        if books.asked >= books.sent && !is_lost {
            let what = format!("{} is asked for and was not sent", self.stream.url(number.into()));
            return Err(Violation::new(Checker::Repeats, what));
        }
        books.check_wait(self.t).map_err(|what| late(&self.stream, number, &what))?;
        books.waits_since = 0;
        self.figures.visits += 1;
        self.figures.visits_again += u64::from(books.asked >= books.sent);
        self.step += 1;
        (books.asked, books.is_open) = (self.step, true);
        Ok(())
    }

    /// The group of a partition that was being written is in the log: its entries are compared with the pipeline.
    fn durable(&mut self, node: usize, partition: usize) -> Result<(), Violation> {
        let flight = self.nodes[node].flight(partition).expect("a group is on its way").clone();
        let logged = &mut self.logged[partition];
        let (group, behind) = entry::open(&flight.bytes, logged.state.position())
            .map_err(|error| Violation::new(Checker::Recovery, error.to_string()))?;
        fold(&mut logged.state, &group, behind)?;
        self.figures.groups += 1;
        for entry in &group.entries {
            if let Entry::Ended(ended) = entry {
                self.nodes[node].ended(&ended.key);
            }
        }
        let mut written = group.entries.iter().filter_map(|entry| match entry {
            Entry::Streamed(streamed) => Some(streamed),
            _ => None,
        });
        while logged.inbox_from < flight.inbox_read {
            let share = logged.inbox.pop_front().expect("it was read from there");
            logged.inbox_from += 1;
            let Some(decided) = logged.pipeline.run((share.batch, share.number), &share.plain, flight.wall)
            else {
                self.figures.repeats += 1;
                continue;
            };
            let wrong = |what: String| {
                let batch = self.stream.id(share.batch);
                Violation::new(Checker::Streams, format!("batch {batch}, part {}: {what}", share.number))
            };
            let key: BatchKey = share.part.key;
            let streamed = written.next().filter(|streamed| streamed.key == key);
            let streamed = streamed.ok_or_else(|| wrong("it does not stand in the log".into()))?;
            if streamed.records.len() != decided.len() {
                let (ours, theirs) = (streamed.records.len(), decided.len());
                return Err(wrong(format!("{ours} URLs in the log, {theirs} in the pipeline")));
            }
            let ours: BTreeMap<UrlKey, _> =
                streamed.records.iter().map(|(key, record)| (*key, record)).collect();
            for decided in decided {
                let key = self.by_id[&decided.id];
                let number = self.numbers[&key];
                let same = ours.get(&key).is_some_and(|record| {
                    // A line has a hit at least, so one that is held back leaves some.
                    (record.hits == 0) == decided.sent.is_some()
                        && (record.hits, record.sent.0) == (decided.waiting, decided.time)
                        && *record.tag == *decided.tag
                });
                if !same {
                    let url = self.stream.url(number.into());
                    return Err(wrong(format!("{url}: {:?} in the log, {decided:?}", ours.get(&key))));
                }
                self.figures.decided += 1;
                if decided.sent.is_some() {
                    let books = &mut self.books[number as usize];
                    self.figures.sent += 1;
                    self.figures.sent_under_way += u64::from(books.is_open && books.asked < flight.step);
                    books.sent = books.sent.max(flight.step);
                    if books.asked < flight.step && books.waits_since == 0 {
                        books.waits_since = self.t + 1;
                    }
                    books.check_wait(self.t).map_err(|what| late(&self.stream, number, &what))?;
                }
            }
        }
        match written.next() {
            Some(_) => Err(Violation::new(Checker::Streams, "a repeated part was taken in")),
            None => Ok(()),
        }
    }

    /// A node dies: its open fetches are lost, its unacknowledged group may be in the log or not.
    fn kill(&mut self) -> Result<(), Violation> {
        let live = Vec::from_iter((0..self.nodes.len()).filter(|node| self.nodes[*node].is_live()));
        if live.len() < 2 {
            return Ok(());
        }
        let node = *self.rng.pick(&live);
        self.figures.kills += 1;
        for partition in self.nodes[node].owned() {
            // Half of the time the state is looked at before the last group lands.
            if self.nodes[node].flight(partition).is_some() && self.rng.one_in(2) {
                self.durable(node, partition)?;
                self.figures.groups_unheard += 1;
            } else {
                self.check_state(partition)?;
            }
            self.logged[partition].owner = None;
            let later = self.rng.below(5 * SECOND);
            self.at(self.t + TAKEOVER + later, Event::Takeover(partition));
        }
        for url in self.nodes[node].die() {
            let books = &mut self.books[self.numbers[&url] as usize];
            (books.is_lost, books.is_open) = (true, false);
        }
        let away = self.rng.within(MINUTE, 30 * MINUTE);
        self.at(self.t + away, Event::Back(node));
        Ok(())
    }

    /// Checks that the state of an owner equals the state that its log gives.
    fn check_state(&mut self, partition: usize) -> Result<(), Violation> {
        let Some(node) = self.logged[partition].owner else { return Ok(()) };
        let ours = self.nodes[node].state_hash(partition)?;
        let logged = self.logged[partition].state.hash(Prefixes::ALL)?;
        if ours != logged {
            let what = format!("partition {partition}: its log gives another state than its owner has");
            return Err(Violation::new(Checker::Recovery, what));
        }
        Ok(())
    }

    /// The live node with the fewest partitions takes one over, from its log alone.
    fn take_over(&mut self, partition: usize) -> Result<(), Violation> {
        let live = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_live());
        let Some(node) = live.min_by_key(|node| self.nodes[*node].owned().len()) else {
            self.at(self.t + SECOND, Event::Takeover(partition));
            return Ok(());
        };
        let logged = &mut self.logged[partition];
        logged.owner = Some(node);
        self.nodes[node].take_over(partition, logged.prefixes, logged.state.clone(), self.t);
        self.work(node)
    }
}
