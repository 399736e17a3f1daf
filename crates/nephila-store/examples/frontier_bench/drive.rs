//! Drives a frontier as a worker does, against an imaginary web in imaginary time.
//!
//! Groups are sealed and written to a journal, one sync for all partitions of a round. Names resolve at once, answers
//! come after a fixed time, and the clock jumps to wherever something happens next.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use nephila_core::frontier::offers::Offer;
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::ticket::{Purpose, Report, Ticket, TicketId};
use nephila_core::frontier::{Action, Config, Frontier, Offered};
use nephila_core::key::{HostKey, Prefixes};
use nephila_core::robots::policy::RobotsResult;
use nephila_core::spider::outcome::Outcome;
use nephila_core::state::MemoryState;
use nephila_core::state::{State, StateError};
use nephila_core::time::{Now, Timestamp};
use nephila_store::disk::RealDisk;
use nephila_store::runs::Cache;
use nephila_store::state::{CACHE_BYTES, DiskState, Merger, Merging};

use crate::web::{Chunk, SECRET, mix};

/// Anything that goes wrong here ends the bench.
pub type Failure = Box<dyn std::error::Error>;

/// A state that a bench can open and weigh.
pub trait Kept: State + Sized {
    /// Its name.
    const NAME: &'static str;
    /// Does it keep its URLs on disk? If not, goals about disk and memory say nothing.
    const ON_DISK: bool;

    /// A new one in this folder.
    fn create(folder: &Path, prefixes: Prefixes) -> Result<Self, Failure>;

    /// Writes down what is in memory if it has become too much, as the worker does between two groups.
    fn relieve(&mut self) -> Result<(), Failure>;

    /// Writes down what is in memory and ends all merging that is due.
    fn settle(&mut self) -> Result<(), Failure>;

    /// Memory for filters and indexes, in bytes.
    fn resident(&self) -> u64;
}

impl Kept for MemoryState {
    const NAME: &'static str = "memory";
    const ON_DISK: bool = false;

    fn create(_: &Path, _: Prefixes) -> Result<Self, Failure> {
        Ok(MemoryState::new())
    }

    fn relieve(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    fn resident(&self) -> u64 {
        self.tables.bytes as u64
    }
}

/// Memory of a partition that is not written out yet, at most, in bytes.
const DIRTY_BYTES_MAX: usize = 24 << 20;

/// One merging thread and one cache for all partitions, as in a node.
static SHARED: OnceLock<(Merger, Arc<Cache>)> = OnceLock::new();

impl Kept for DiskState {
    const NAME: &'static str = "disk";
    const ON_DISK: bool = true;

    fn create(folder: &Path, _: Prefixes) -> Result<Self, Failure> {
        let (merger, cache) = match SHARED.get() {
            Some(shared) => shared,
            None => {
                let shared = (Merger::start()?, Cache::new(CACHE_BYTES));
                SHARED.get_or_init(|| shared)
            }
        };
        Ok(DiskState::open(Arc::new(RealDisk), folder, Merging::Background(merger.clone()), cache)?)
    }

    fn relieve(&mut self) -> Result<(), Failure> {
        if self.stats().memory_bytes >= DIRTY_BYTES_MAX {
            self.checkpoint()?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), Failure> {
        Ok(DiskState::settle(self)?)
    }

    fn resident(&self) -> u64 {
        self.stats().resident_bytes
    }
}

/// New states for this many partitions.
pub fn create<S: Kept>(folder: &Path, partitions: u32) -> Result<Vec<(Prefixes, S)>, Failure> {
    (0..partitions)
        .map(|i| {
            let prefixes = Prefixes::share(i, partitions);
            let folder = folder.join(format!("partition-{i:03}"));
            std::fs::create_dir_all(&folder)?;
            Ok((prefixes, S::create(&folder, prefixes)?))
        })
        .collect()
}

/// The journal of all partitions: what the worker's log costs.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    in_file: u64,
    /// Bytes written, ever.
    pub bytes: u64,
}

/// A journal starts over when it has grown to this: what is folded and on disk need not be kept.
const JOURNAL_BYTES_MAX: u64 = 512 << 20;

impl Journal {
    /// A new one in this folder.
    pub fn create(folder: &Path) -> Result<Journal, Failure> {
        let path = folder.join("journal");
        Ok(Journal { file: File::create(&path)?, path, in_file: 0, bytes: 0 })
    }

    fn append(&mut self, group: &[u8]) -> Result<(), Failure> {
        if self.in_file > JOURNAL_BYTES_MAX {
            self.file = File::create(&self.path)?;
            self.in_file = 0;
        }
        self.file.write_all(group)?;
        self.in_file += group.len() as u64;
        self.bytes += group.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Failure> {
        Ok(self.file.sync_data()?)
    }
}

/// Where the time went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Phases {
    /// Taking offers in.
    pub offer: Duration,
    /// Sifting them and sealing groups.
    pub sift: Duration,
    /// Writing and syncing the journal.
    pub journal: Duration,
    /// Folding groups.
    pub fold: Duration,
    /// Writing out what is in memory.
    pub flush: Duration,
    /// Tickets and reports.
    pub crawl: Duration,
}

/// A frontier and the world around it.
pub struct Driver<S> {
    /// The frontier.
    pub frontier: Frontier<S>,
    /// The journal, if groups are to be written.
    pub journal: Option<Journal>,
    /// The time.
    pub now: Now,
    /// Where the time went.
    pub phases: Phases,
    /// How long an answer takes, in milliseconds.
    pub latency: u64,
    /// Do some fetches fail?
    pub failures: bool,
    /// Groups are written at least this often, in milliseconds, while crawling; none if only when offers are sifted.
    pub commit_every: Option<u64>,
    /// Hosts on one address, for those that share theirs.
    pub hosts_per_address: u64,
    committed_at: u64,
    under_way: VecDeque<(u64, TicketId, Purpose, HostKey)>,
}

/// When imaginary time begins: 2026-11-15, in milliseconds since 1970.
const BEGIN: u64 = 1_794_700_800_000;

impl<S: Kept> Driver<S> {
    /// A driver of a frontier over these states.
    pub fn new(config: Config, states: Vec<(Prefixes, S)>) -> Driver<S> {
        Driver {
            frontier: Frontier::new(config, SECRET, states, None),
            journal: None,
            now: Now { mono: 1, wall: Timestamp(BEGIN) },
            phases: Phases::default(),
            latency: 0,
            failures: false,
            commit_every: None,
            hosts_per_address: 0,
            committed_at: 0,
            under_way: VecDeque::new(),
        }
    }

    /// Another driver over the same states, with another configuration and an empty bench.
    pub fn again(self, config: Config, partitions: u32) -> Driver<S> {
        let now = self.now;
        let states = self.frontier.into_states();
        let states =
            states.into_iter().enumerate().map(|(i, state)| (Prefixes::share(i as u32, partitions), state));
        Driver { now, committed_at: now.mono, journal: self.journal, ..Driver::new(config, states.collect()) }
    }

    /// Offers all of these; a round whenever a partition is full. Returns how many rounds there were.
    pub fn offer_all(&mut self, chunk: &Chunk) -> Result<u32, Failure> {
        let mut rounds = 0;
        let mut begun = Instant::now();
        for offer in chunk.offers() {
            if self.offer(offer) == Offered::Full {
                self.phases.offer += begun.elapsed();
                self.round()?;
                rounds += 1;
                begun = Instant::now();
                self.offer(offer);
            }
        }
        self.phases.offer += begun.elapsed();
        Ok(rounds)
    }

    fn offer(&mut self, offer: Offer<'_>) -> Offered {
        self.frontier.offer(offer)
    }

    /// Sifts, writes and folds whatever there is in all partitions.
    pub fn round(&mut self) -> Result<(), Failure> {
        self.committed_at = self.now.mono;
        let mut written = Vec::new();
        for partition in 0..self.frontier.partitions() {
            if !self.frontier.has_group(partition) {
                continue;
            }
            let begun = Instant::now();
            let group = self.frontier.poll_group(partition, self.now)?;
            self.phases.sift += begun.elapsed();
            if let Some(group) = group {
                if let Some(journal) = &mut self.journal {
                    let begun = Instant::now();
                    journal.append(&group)?;
                    self.phases.journal += begun.elapsed();
                }
                written.push(partition);
            }
        }
        if written.is_empty() {
            return Ok(());
        }
        if let Some(journal) = &mut self.journal {
            let begun = Instant::now();
            journal.sync()?;
            self.phases.journal += begun.elapsed();
        }
        let begun = Instant::now();
        for &partition in &written {
            self.frontier.handle_committed(partition, self.now)?;
        }
        self.phases.fold += begun.elapsed();
        let begun = Instant::now();
        for partition in written {
            self.frontier.state(partition).relieve()?;
        }
        self.phases.flush += begun.elapsed();
        Ok(())
    }

    /// Lets the web answer until this moment, or until so many fetches were started. Every ticket is shown to `seen`.
    pub fn crawl(&mut self, until: u64, quota: u64, seen: &mut dyn FnMut(&Ticket)) -> Result<u64, Failure> {
        let mut begun = Instant::now();
        let mut started = 0;
        loop {
            while let Some(&(due, id, purpose, host)) = self.under_way.front() {
                if due > self.now.mono {
                    break;
                }
                self.under_way.pop_front();
                self.answer(id, purpose, host)?;
            }
            self.frontier.handle_timeout(self.now)?;
            while started < quota {
                match self.frontier.poll_action(self.now)? {
                    Some(Action::Resolve { host, .. }) => {
                        let address = self.address(host);
                        self.frontier.handle_resolved(host, &[address], self.now);
                    }
                    Some(Action::Fetch(ticket)) => {
                        started += 1;
                        seen(&ticket);
                        let (id, purpose, host) = (ticket.id, ticket.purpose, ticket.key.host);
                        match self.latency {
                            0 => self.answer(id, purpose, host)?,
                            latency => self.under_way.push_back((self.now.mono + latency, id, purpose, host)),
                        }
                    }
                    None => break,
                }
            }
            let commit_at = self.commit_every.map(|every| self.committed_at + every);
            if commit_at.is_some_and(|at| at <= self.now.mono) {
                self.phases.crawl += begun.elapsed();
                self.round()?;
                begun = Instant::now();
            }
            let answer = self.under_way.front().map(|(due, ..)| *due);
            let commit_at = self.commit_every.map(|every| self.committed_at + every);
            let next = [self.frontier.poll_timeout(self.now), answer, commit_at].into_iter().flatten().min();
            let next = next.unwrap_or(u64::MAX).max(self.now.mono + 1);
            if started >= quota || next > until {
                if started < quota {
                    self.advance_to(until.max(self.now.mono));
                }
                self.phases.crawl += begun.elapsed();
                return Ok(started);
            }
            self.advance_to(next);
        }
    }

    /// The clock moves on.
    pub fn advance_to(&mut self, mono: u64) {
        let passed = mono - self.now.mono;
        self.now = Now { mono, wall: Timestamp(self.now.wall.0 + passed) };
    }

    fn address(&self, host: HostKey) -> IpAddr {
        let h = mix(host.domain.0 ^ u64::from(host.host));
        // 40 hosts in 100 are alone, the others have neighbours.
        let bits = match self.hosts_per_address {
            0 | 1 => h,
            _ if h % 100 < 40 => h,
            many => mix(h / 100 % (SHARED_HOSTS / many)),
        };
        IpAddr::V4(Ipv4Addr::from_bits((bits >> 32) as u32))
    }

    fn answer(&mut self, id: TicketId, purpose: Purpose, host: HostKey) -> Result<(), StateError> {
        let took = Duration::from_millis(TOOK.min(self.latency.max(1)));
        let h = mix(id.0 ^ 0xa45e);
        if purpose == Purpose::Robots {
            let (answer, body) = match mix(host.domain.0) % 2 {
                0 => (RobotsResult::Status(404), Box::default()),
                _ => (RobotsResult::Status(200), Box::from(ROBOTS.as_bytes())),
            };
            let report = RobotsReport { body, ..RobotsReport::of(answer, took) };
            self.frontier.handle_robots(id, report, self.now)?;
            return Ok(());
        }
        let report = match h % 100 {
            0..2 if self.failures => Report::of(Outcome::TotalTimeout, 0, took),
            2..8 => Report::of(Outcome::NotFound, 404, took),
            _ => Report {
                digest: h | 1,
                etag: if h.is_multiple_of(3) { "\"5f3e-61c2a8b4\"".into() } else { Box::default() },
                ..Report::of(Outcome::Fetched, 200, took)
            },
        };
        self.frontier.handle_report(id, &report, self.now)?;
        Ok(())
    }
}

/// What an answer takes, in milliseconds.
const TOOK: u64 = 200;
/// Hosts that share addresses are spread over this many divided by how many share one.
const SHARED_HOSTS: u64 = 1 << 20;

const ROBOTS: &str = "User-agent: *\nDisallow: /cart\nDisallow: /search\nDisallow: /admin/\nAllow: /admin/help\n\
    Disallow: /*?color=coral\nDisallow: /tmp/\n\nUser-agent: badbot\nDisallow: /\n\nSitemap: /sitemap.xml\n";
