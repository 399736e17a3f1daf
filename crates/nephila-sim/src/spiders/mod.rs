//! A node and its spiders of version 2, in virtual time, from one seed: the real pool and the real agents.
//!
//! A [`Sim`] has a node ([`node`]), some spiders ([`spider`]), connections between them ([`net`]) and sites. Processes of
//! both kinds die at any moment, connections stall and break, with or without anybody noticing, spiders lie about URLs
//! that are not theirs and send results that are none. Every process has a clock of its own.
//!
//! The checkers ([`books`]) stand at the sites and at the archive: an address never has more connections than its limit,
//! over all spiders and those that are kept included; a site has one request at a time and its rest after each; nothing is
//! asked for when the node may not; a URL is requested again only if a fault met it; in the end every URL is durable once,
//! with the content that its site sent.
//!
//! Invariant: the same seed gives the same trace, to the bit.

mod books;
pub mod mutants;
mod net;
mod node;
mod spider;

use std::collections::BTreeMap;
use std::fmt;

use books::Books;
use net::{Link, Side, What};
use node::Node;
use spider::Spider;

use crate::rng::{Rng, mix};
use crate::{Checker, Violation};

/// How long faults are injected in one world, in milliseconds.
pub const TROUBLE: u64 = 600_000;
/// A calm world has stored everything after this time, in milliseconds.
const CALM_MAX: u64 = 600_000;

/// A bug in the shell around the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// None.
    Nothing,
    /// `STORED` is said when the result has come.
    StoredEarly,
}

/// What happened, in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Milliseconds of virtual time.
    pub time: u64,
    /// Spiders killed.
    pub spider_deaths: u64,
    /// Nodes killed.
    pub node_deaths: u64,
    /// Spiders that ended by themselves.
    pub leaves: u64,
    /// Connections that were cut.
    pub cuts: u64,
    /// Of these, those that at least one side did not notice.
    pub half_open: u64,
    /// Connections that stalled.
    pub stalls: u64,
    /// Lies of spiders.
    pub lies: u64,
    /// Asks taken back.
    pub cancels: u64,
    /// Asks that were lost.
    pub lost: u64,
    /// Sessions that went on after a break.
    pub resumed: u64,
    /// Results that were refused.
    pub refused: u64,
    /// URLs that spiders returned.
    pub returned: u64,
    /// Pages stored.
    pub pages: u64,
    /// Requests at sites.
    pub requests: u64,
    /// Requests of URLs that were requested before.
    pub repeats: u64,
    /// URLs that were open at faults.
    pub open_at_faults: u64,
}

impl Figures {
    /// Adds those of another world.
    pub fn add(&mut self, other: &Figures) {
        self.time += other.time;
        self.spider_deaths += other.spider_deaths;
        self.node_deaths += other.node_deaths;
        self.leaves += other.leaves;
        self.cuts += other.cuts;
        self.half_open += other.half_open;
        self.stalls += other.stalls;
        self.lies += other.lies;
        self.cancels += other.cancels;
        self.lost += other.lost;
        self.resumed += other.resumed;
        self.refused += other.refused;
        self.returned += other.returned;
        self.pages += other.pages;
        self.requests += other.requests;
        self.repeats += other.repeats;
        self.open_at_faults += other.open_at_faults;
    }

    /// Processes killed.
    pub fn deaths(&self) -> u64 {
        self.spider_deaths + self.node_deaths
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} deaths ({} of spiders, {} of nodes), {} spiders left, {} cuts ({} half-open), {} stalls, {} lies, {} results refused, \
             {} sessions resumed, {} URLs returned, {} asks cancelled, {} asks lost, {} pages stored once, {} requests, {} repeats of {} URLs open at faults, \
             {} hours",
            self.deaths(),
            self.spider_deaths,
            self.node_deaths,
            self.leaves,
            self.cuts,
            self.half_open,
            self.stalls,
            self.lies,
            self.refused,
            self.resumed,
            self.returned,
            self.cancels,
            self.lost,
            self.pages,
            self.requests,
            self.repeats,
            self.open_at_faults,
            self.time / 3_600_000,
        )
    }
}

#[derive(Debug)]
enum Event {
    Arrive { link: u64, side: Side, what: What },
    NodeTick { life: u64 },
    NodeDies { life: u64 },
    NodeStarts,
    Rested { life: u64, site: usize },
    Free { life: u64, url: u64 },
    Written { life: u64, ask: u64, session: u64, body: Vec<u8> },
    Renew { life: u64 },
    AuthorityEnds,
    SpiderTick { spider: usize, life: u64 },
    SpiderDies { spider: usize, life: u64 },
    SpiderStarts { spider: usize },
    Dial { spider: usize, life: u64 },
    Fetched { spider: usize, life: u64, id: u64, connection: u64 },
    Kept { spider: usize, life: u64, connection: u64, since: u64 },
    Trouble,
}

/// A world.
pub struct Sim {
    /// Whether every event is printed to standard error.
    pub verbose: bool,
    /// The bug in the shell.
    pub planted: Planted,
    /// The figures so far.
    pub figures: Figures,
    rng: Rng,
    t: u64,
    trouble: u64,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    trace: u64,
    books: Books,
    links: BTreeMap<u64, Link>,
    next_link: u64,
    next_session: u64,
    next_connection: u64,
    node: Option<Node>,
    node_lives: u64,
    spiders: Vec<Spider>,
    /// About how long a spider lives, in milliseconds.
    life_ms: u64,
    /// About how long it takes until the next fault of a connection, in milliseconds.
    trouble_ms: u64,
    liars: bool,
    has_authority: bool,
}

impl Sim {
    /// The world of this seed.
    pub fn new(seed: u64) -> Sim {
        let mut rng = Rng::new(seed);
        let books = Books::new(&mut rng);
        let spiders = (0..rng.within(2, 8)).map(|_| Spider::new()).collect();
        Sim {
            verbose: false,
            planted: Planted::Nothing,
            figures: Figures::default(),
            t: 0,
            trouble: 0,
            events: BTreeMap::new(),
            next_event: 0,
            trace: seed,
            books,
            links: BTreeMap::new(),
            next_link: 1,
            next_session: 0,
            next_connection: 0,
            node: None,
            node_lives: 0,
            spiders,
            life_ms: *rng.pick(&[5_000, 10_000, 20_000, 60_000]),
            trouble_ms: *rng.pick(&[1_000, 3_000, 10_000]),
            liars: rng.one_in(2),
            has_authority: rng.one_in(3),
            rng,
        }
    }

    /// Runs the world: faults for a while, then rest until everything is stored. Returns the trace.
    pub fn run(&mut self, trouble: u64) -> Result<u64, Violation> {
        self.trouble = trouble;
        self.node_starts();
        for spider in 0..self.spiders.len() {
            self.spider_starts(spider);
        }
        self.at(self.trouble_ms, Event::Trouble);
        while !(self.is_calm() && self.books.left() == 0) {
            let Some(((at, number), event)) = self.events.pop_first() else { break };
            self.t = at;
            self.trace = mix(self.trace ^ at ^ number << 32);
            self.happens(event);
            if let Some(violation) = self.books.violation.take() {
                return Err(violation);
            }
            if self.t > self.trouble + CALM_MAX {
                let left = self.books.left();
                return Err(Violation::new(Checker::Completeness, format!("{left} URLs are never stored")));
            }
        }
        self.count_node();
        self.figures.time = self.t;
        let Books { pages, requests, repeats, excused, .. } = self.books;
        (self.figures.pages, self.figures.requests) = (pages, requests);
        (self.figures.repeats, self.figures.open_at_faults) = (repeats, excused);
        match self.books.left() {
            0 => Ok(self.trace),
            left => {
                Err(Violation::new(Checker::Liveness, format!("nothing happens, and {left} URLs are left")))
            }
        }
    }

    fn count_node(&mut self) {
        if let Some(node) = &self.node {
            let counters = node.pool.counters();
            self.figures.resumed += counters.resumed;
            self.figures.refused += counters.bad_results;
            self.figures.returned += counters.returned;
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.events.insert((at, self.next_event), event);
        self.next_event += 1;
    }

    fn is_calm(&self) -> bool {
        self.t >= self.trouble
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!("{:>9} {}", self.t, what());
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrive { link, side, what } => self.arrive(link, side, what),
            Event::NodeTick { life } => self.node_tick(life),
            Event::NodeDies { life } => {
                self.count_node();
                self.node_dies(life);
            }
            Event::NodeStarts => self.node_starts(),
            Event::Rested { life, site } => self.rested(life, site),
            Event::Free { life, url } => self.free(life, url),
            Event::Written { life, ask, session, body } => self.written(life, ask, session, &body),
            Event::Renew { life } => self.renew(life),
            Event::AuthorityEnds => self.books.authority_ends(self.t),
            Event::SpiderTick { spider, life } => self.spider_tick(spider, life),
            Event::SpiderDies { spider, life } => self.spider_dies(spider, life),
            Event::SpiderStarts { spider } => self.spider_starts(spider),
            Event::Dial { spider, life } => self.dial(spider, life),
            Event::Fetched { spider, life, id, connection } => self.fetched(spider, life, id, connection),
            Event::Kept { spider, life, connection, since } => self.kept(spider, life, connection, since),
            Event::Trouble => self.trouble(),
        }
    }

    /// Something happens to a connection, or an ask is taken back.
    fn trouble(&mut self) {
        if self.is_calm() {
            return;
        }
        let next = self.t + self.rng.within(self.trouble_ms / 10, 2 * self.trouble_ms);
        self.at(next, Event::Trouble);
        let number = self.rng.index(self.spiders.len());
        let Some(link) = self.spiders[number].link else { return };
        let notice: &[Side] = match self.rng.below(8) {
            0 => &[Side::Node, Side::Spider],
            1 => &[Side::Node],
            2 => &[Side::Spider],
            3 => &[],
            4 => {
                self.spiders[number].no_network_until = self.t + self.rng.within(1_000, 60_000);
                &[Side::Node, Side::Spider]
            }
            5 | 6 => {
                // Each way for its own time: one may be open again while the other is not.
                let sides: &[Side] =
                    [&[Side::Node][..], &[Side::Spider], &[Side::Node, Side::Spider]][self.rng.index(3)];
                for side in sides {
                    let most = *self.rng.pick(&[14_000, 14_000, 60_000]);
                    let ms = self.rng.within(100, most);
                    self.tell(|| format!("nothing reaches the {side:?} of spider {number} for {ms} ms"));
                    self.stall(link, *side, ms);
                }
                self.figures.stalls += 1;
                return;
            }
            _ => {
                let asks: Vec<u64> = self.node.iter().flat_map(|node| node.asks.keys().copied()).collect();
                if !asks.is_empty() {
                    let ask = *self.rng.pick(&asks);
                    self.cancel(ask);
                }
                return;
            }
        };
        self.tell(|| format!("spider {number} is cut off, noticed by {notice:?}"));
        self.figures.cuts += 1;
        self.figures.half_open += u64::from(notice.len() < 2);
        self.cut(link, notice);
    }
}
