//! A large partition: what a snapshot costs when one URL in a hundred has changed, how soon somebody else can go on from
//! it, and a split.

use std::path::Path;
use std::time::{Duration, Instant};

use nephila_core::entry::open;
use nephila_core::fold::fold;
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::ticket::Purpose;
use nephila_core::frontier::{Action, Config, Frontier};
use nephila_core::key::{HostKey, Prefixes};
use nephila_core::robots::RobotsResult;
use nephila_core::state::{Changes, Durable, Item, Position, State};
use nephila_core::time::{Now, Timestamp};
use nephila_store::state::proof::Workload;
use nephila_store::state::proof::workload::SECRET;
use nephila_store::state::{Copied, DiskState};

use super::{DIRTY_BYTES_MAX, Failure, open_state};

/// New URLs of a group.
const GROUP_URLS: u64 = 1_000;
/// The second snapshot writes at most this many times what the changed entries take in the log.
const UPLOAD_FACTOR_MAX: f64 = 10.0;
/// The owner of the state is never kept busy longer than this by one call, the time not counted in which other programs
/// From this size on times are judged as they are; below, a disk that is busy with something else may take ten times as
/// long.
const URLS_JUDGED: u64 = 1_000_000;
/// had all cores.
const STALL_MAX: Duration = Duration::from_millis(100);
/// From opening a snapshot to the first ticket.
const TICKET_MAX: Duration = Duration::from_secs(5);
/// Both halves of a split.
const SPLIT_MAX: Duration = Duration::from_secs(2);
/// Groups are so far apart while a flush is waited for.
const WHILE_FLUSHING: Duration = Duration::from_millis(20);
/// Changes of one in a hundred that are measured, one after the other.
const CHANGES: u64 = 3;

/// Runs it with so many URLs.
pub fn run(folder: &Path, urls: u64) -> Result<(), Failure> {
    let groups = (urls / GROUP_URLS).max(100);
    let workload = Workload { seed: 4, urls: (urls / groups) as u32, lag: groups * 9 / 10 };
    let begun = Instant::now();
    let mut state = open_state(&folder.join("state"))?;
    let mut stalls = Stalls::default();
    // Bytes of the log up to each group.
    let mut log = vec![0];
    for _ in 0..groups {
        stalls.change(&mut state, workload, &mut log)?;
    }
    println!("{urls} URLs made in {:.1?}; {stalls}", begun.elapsed());
    let copy = folder.join("copy");
    let mut stalls = Stalls::default();
    let first = stalls.snapshot(&mut state, &copy, workload, &mut log)?;
    println!("first snapshot: {first:?}; {stalls}");

    let mut factor: f64 = 0.0;
    let mut last = first;
    for _ in 0..CHANGES {
        let mut entries = 0;
        while entries < urls / 100 {
            entries += stalls.change(&mut state, workload, &mut log)?;
        }
        let next = stalls.snapshot(&mut state, &copy, workload, &mut log)?;
        // What the changed entries take: the bytes of their groups in the log.
        let changed = log[next.position.sequence as usize] - log[last.position.sequence as usize];
        let this = next.bytes_new as f64 / changed as f64;
        factor = factor.max(this);
        println!("{entries} entries changed, {changed} bytes of log: {next:?}, {this:.1} times; {stalls}");
        last = next;
    }

    let begun = Instant::now();
    let ticket = first_ticket(&copy, last.position)?;
    println!("first ticket {:.0?} after opening, first page after {:.0?}", ticket, begun.elapsed());
    let split = split(&mut state, folder)?;
    println!(
        "state snapshot: {urls} URLs, {:.0} MB; 1 % changed uploads {factor:.1} times the changed bytes; longest stall \
         {:.0} ms ({:.0} ms with the wait for a core); first ticket after {:.0} ms; split in {:.0} ms, nothing lost",
        first.bytes as f64 / 1e6,
        stalls.longest().as_secs_f64() * 1e3,
        stalls.wall.as_secs_f64() * 1e3,
        ticket.as_secs_f64() * 1e3,
        split.as_secs_f64() * 1e3
    );
    let mut missed = Vec::new();
    if factor > UPLOAD_FACTOR_MAX {
        missed.push(format!("uploads {factor:.1} times what changed, at most {UPLOAD_FACTOR_MAX}"));
    }
    // A small state proves that the command works; how long things take is judged at a size that matters.
    let lenience = if urls < URLS_JUDGED { 10 } else { 1 };
    for (what, took, max) in [
        ("a stall", stalls.longest(), STALL_MAX),
        ("the first ticket", ticket, TICKET_MAX),
        ("the split", split, SPLIT_MAX),
    ] {
        let max = max * lenience;
        if took > max {
            missed.push(format!("{what} took {took:.0?}, at most {max:.0?}"));
        }
    }
    if missed.is_empty() { Ok(()) } else { Err(missed.join("; ").into()) }
}

/// How long one call kept the owner of the state busy, at most. Folding a group is its work; all else is a stall.
#[derive(Debug, Default)]
struct Stalls {
    fold: Duration,
    flush: Duration,
    snapshot: Duration,
    /// The longest of all on the wall, the wait for a core included.
    wall: Duration,
}

/// Measures one call.
struct Clock {
    begun: Instant,
    waited: Duration,
}

impl Clock {
    fn start() -> Clock {
        Clock { begun: Instant::now(), waited: waited_for_core() }
    }

    /// Raises `longest` if this was longer; returns the time on the wall.
    fn stop(self, longest: &mut Duration) -> Duration {
        let wall = self.begun.elapsed();
        *longest = (*longest).max(wall.saturating_sub(waited_for_core() - self.waited));
        wall
    }
}

/// How long this thread could have run and had no core, ever. Zero where the system does not say.
fn waited_for_core() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(text.split(' ').nth(1).and_then(|field| field.parse().ok()).unwrap_or(0))
}

impl std::fmt::Display for Stalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Stalls { fold, flush, snapshot, .. } = self;
        write!(
            f,
            "at most {fold:.1?} to fold, {flush:.1?} to begin a flush or take one over, {snapshot:.1?} to snapshot"
        )
    }
}

impl Stalls {
    /// Folds the next group; returns how many entries it has.
    fn change(
        &mut self,
        state: &mut DiskState,
        workload: Workload,
        log: &mut Vec<u64>,
    ) -> Result<u64, Failure> {
        let position = state.position();
        let (bytes, behind) = workload.sealed(position);
        let (group, _) = open(&bytes, position)?;
        // What other threads have ended is taken over with the next change; this one changes nothing.
        let clock = Clock::start();
        state.apply(Changes::default(), position)?;
        self.wall = self.wall.max(clock.stop(&mut self.flush));
        let begun = Instant::now();
        fold(state, &group, behind)?;
        self.fold = self.fold.max(begun.elapsed());
        if state.dirty_bytes() >= DIRTY_BYTES_MAX {
            let clock = Clock::start();
            state.checkpoint_soon()?;
            self.wall = self.wall.max(clock.stop(&mut self.flush));
        }
        let entries = Workload::entries(&group);
        log.push(log[position.sequence as usize] + bytes.len() as u64);
        Ok(entries)
    }

    /// Brings the copy up to what is folded now, while more is folded.
    fn snapshot(
        &mut self,
        state: &mut DiskState,
        to: &Path,
        workload: Workload,
        log: &mut Vec<u64>,
    ) -> Result<Copied, Failure> {
        let position = state.position();
        let clock = Clock::start();
        state.checkpoint_soon()?;
        self.wall = self.wall.max(clock.stop(&mut self.snapshot));
        while state.durable() < position {
            std::thread::sleep(WHILE_FLUSHING);
            self.change(state, workload, log)?;
        }
        let clock = Clock::start();
        let copied = state.snapshot_durable(to)?;
        self.wall = self.wall.max(clock.stop(&mut self.snapshot));
        Ok(copied)
    }

    fn longest(&self) -> Duration {
        self.flush.max(self.snapshot)
    }
}

/// Opens a copy and crawls from it: how long until the first ticket. Goes on to the first page.
fn first_ticket(copy: &Path, position: Position) -> Result<Duration, Failure> {
    let begun = Instant::now();
    let state = open_state(copy)?;
    if state.position() != position {
        return Err(format!("the copy holds {:?}, not {position:?}", state.position()).into());
    }
    let mut now =
        Now { mono: 1, wall: Timestamp::from_secs(u64::from(Workload::at(position.sequence + 60).0)) };
    let config = Config { agent: "nephila".into(), ..Config::default() };
    let mut frontier = Frontier::new(config, SECRET, vec![(Prefixes::ALL, state)], None);
    let mut first = None;
    // Bounded: a frontier that has URLs and gives none is what is looked for.
    for _ in 0..100_000 {
        if let Some(_group) = frontier.poll_group(0, now)? {
            frontier.handle_committed(0, now)?;
        }
        frontier.handle_timeout(now)?;
        match frontier.poll_action(now)? {
            Some(Action::Resolve { host, .. }) => frontier.handle_resolved(host, &[address(host)], now),
            Some(Action::Fetch(ticket)) => {
                let took = *first.get_or_insert_with(|| begun.elapsed());
                if ticket.purpose != Purpose::Robots {
                    return Ok(took);
                }
                let report = RobotsReport::of(RobotsResult::Status(404), Duration::from_millis(5));
                frontier.handle_robots(ticket.id, report, now)?;
            }
            None => {
                let next = frontier.poll_timeout(now).unwrap_or(now.mono + 1).max(now.mono + 1);
                now.wall.0 += next - now.mono;
                now.mono = next;
            }
        }
    }
    Err("the copy gives no page to fetch".into())
}

fn address(host: HostKey) -> std::net::IpAddr {
    std::net::IpAddr::from(((host.domain.0 >> 32) as u32 ^ host.host).to_be_bytes())
}

/// Splits in the middle, and holds both halves to the whole; returns what the split took.
fn split(state: &mut DiskState, folder: &Path) -> Result<Duration, Failure> {
    let halves = Prefixes::ALL.split(0x8000).ok_or("a split in the middle")?;
    let halves = [("low", halves.0), ("high", halves.1)];
    let begun = Instant::now();
    for (name, prefixes) in halves {
        state.fork(prefixes, &folder.join(name))?;
    }
    let took = begun.elapsed();
    let whole = count(state, Prefixes::ALL)?;
    let mut sum = Counts::default();
    for (name, prefixes) in halves {
        let mut half = open_state(&folder.join(name))?;
        // What the half holds beside its prefixes falls away as it is merged; nobody asks for it.
        let (of_half, of_whole) = (count(&mut half, prefixes)?, count(state, prefixes)?);
        if of_half != of_whole || half.position() != state.position() {
            return Err(format!("{name}: {of_half:?}, in the whole {of_whole:?}").into());
        }
        sum.add(of_half);
    }
    if sum != whole {
        return Err(format!("both halves {sum:?}, the whole {whole:?}").into());
    }
    println!("split: {whole:?}");
    Ok(took)
}

/// What there is, and a sum over it that does not depend on the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    urls: u64,
    hosts: u64,
    domains: u64,
    robots: u64,
    queued: u64,
    planned: u64,
    sum: u64,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.urls += other.urls;
        self.hosts += other.hosts;
        self.domains += other.domains;
        self.robots += other.robots;
        self.queued += other.queued;
        self.planned += other.planned;
        self.sum = self.sum.wrapping_add(other.sum);
    }
}

fn count(state: &mut DiskState, prefixes: Prefixes) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut bytes = Vec::new();
    state.walk(prefixes, &mut |item| {
        bytes.clear();
        let count = match item {
            Item::Url(key, record) => {
                bytes.extend(key.to_bytes());
                record.encode(&mut bytes);
                &mut counts.urls
            }
            Item::Host(key, record) => {
                bytes.extend(key.to_bytes());
                record.encode(&mut bytes);
                &mut counts.hosts
            }
            Item::Domain(key, record) => {
                bytes.extend(key.0.to_be_bytes());
                record.encode(&mut bytes);
                &mut counts.domains
            }
            Item::Robots(key, body) => {
                bytes.extend(key.to_bytes());
                bytes.extend(body);
                &mut counts.robots
            }
            Item::Queued(key, queued) => {
                bytes.extend(key.to_bytes());
                bytes.extend(queued.place.to_bytes());
                bytes.extend(queued.text.as_bytes());
                &mut counts.queued
            }
            Item::Planned(key, planned) => {
                bytes.extend(key.to_bytes());
                bytes.extend(planned.place.to_bytes());
                bytes.extend(planned.text.as_bytes());
                &mut counts.planned
            }
            // The workload has none.
            Item::Beside(..) => return,
        };
        *count += 1;
        counts.sum = counts.sum.wrapping_add(fnv(&bytes));
    })?;
    Ok(counts)
}

/// FNV-1a: short texts, and no dependency for them.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
