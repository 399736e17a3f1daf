//! One world, run step by step: the frontier, the logs of its partitions, a web that answers, a worker that reports.
//!
//! A step is one event: some time passes, the frontier is polled for actions, a group is written, a name is answered, a
//! page comes back, an operator gives a command, something breaks. The seed chooses the events. After each step the
//! bounds are checked; everything else is checked when it happens.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use nephila_core::entry::{self, Entry, Group};
use nephila_core::frontier::offers::Offer;
use nephila_core::frontier::report::RobotsReport;
use nephila_core::frontier::ticket::{Purpose, Ticket, TicketId};
use nephila_core::frontier::{Action, Frontier, Offered};
use nephila_core::job::{self, Job, JobId, Kind, Rules};
use nephila_core::key::HostKey;
use nephila_core::robots::policy::RobotsResult;
use nephila_core::state::{MemoryState, Position, State, StateError};
use nephila_core::url::KeyRules;
use nephila_core::want::Want;
use xxhash_rust::xxh3::Xxh3;

use crate::bounds::{self, Counted};
use crate::clock::Clock;
use crate::completeness::Completeness;
use crate::conditions::Conditions;
use crate::detours::{self, Chain};
use crate::facts::Fact;
use crate::pages::seed;
use crate::politeness::Politeness;
use crate::reach::Reach;
use crate::rng::Rng;
use crate::robots::{File, Obedience};
use crate::scope::Scopes;
use crate::site::Version;
use crate::web::Ending;
use crate::world::World;
use crate::{Checker, Violation};

/// Maximum number of reports kept for a second delivery.
pub(crate) const SENT_MAX: usize = 16;

/// Maximum number of actions polled from the frontier in one step.
const ACTIONS_MAX: u64 = 8;

/// One partition, seen from outside.
#[derive(Debug)]
pub(crate) struct Part {
    /// The state at the last snapshot.
    pub(crate) snapshot: MemoryState,
    /// Groups written since the snapshot; some of them twice.
    pub(crate) log: Vec<Vec<u8>>,
    /// The last group and the position before that group.
    pub(crate) last: Option<(Vec<u8>, Position)>,
    /// A group that is being written, and whether the log has it already.
    pub(crate) in_flight: Option<(Vec<u8>, bool)>,
    pub(crate) facts: Vec<Fact>,
    pub(crate) facts_in_flight: Vec<Fact>,
    /// URLs that others found for this partition, in the order of its inbox.
    pub(crate) feed: Vec<(u32, JobId)>,
    /// How far this process has offered the feed.
    pub(crate) feed_at: usize,
    /// How far the feed was read, according to the log.
    pub(crate) feed_durable: usize,
}

/// A ticket that the frontier believes to be open.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    pub(crate) host: usize,
    /// The site whose robots.txt is fetched, if the ticket is for a robots.txt.
    pub(crate) asker: usize,
    pub(crate) url: Option<u32>,
    pub(crate) deadline: u64,
    pub(crate) retries: u8,
    pub(crate) job: JobId,
    pub(crate) address: IpAddr,
}

/// A request that a server is processing.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    ticket: Ticket,
    host: usize,
    url: Option<u32>,
    /// The validators of the request.
    sent: Version,
    began: u64,
    pub(crate) ends: u64,
    /// Its process has died.
    pub(crate) orphan: bool,
}

/// A request that came back and is not reported yet.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) ticket: Ticket,
    pub(crate) host: usize,
    pub(crate) url: Option<u32>,
    pub(crate) took: u64,
    pub(crate) sent: Version,
    pub(crate) links: Vec<(u32, Want)>,
    pub(crate) offered: usize,
    pub(crate) orphan: bool,
    /// Planted: the page was reported before its links were offered.
    pub(crate) reported: bool,
    pub(crate) ending: Option<(Ending, Option<Duration>)>,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Figures {
    /// Steps.
    pub steps: u64,
    /// Pages requested.
    pub pages: u64,
    /// robots.txt files requested.
    pub robots: u64,
    /// Of these, hops of redirects.
    pub hops: u64,
    /// Chains of redirects that ended because the next hop could not be requested.
    pub given_up: u64,
    /// Redirects of pages.
    pub redirects: u64,
    /// Seeds that moved.
    pub moved: u64,
    /// Links out of scope.
    pub links_out: u64,
    /// Conditional requests for pages.
    pub conditional: u64,
    /// Of these, answered with 304.
    pub unchanged: u64,
    /// Times the frontier said that nothing was left for now.
    pub done: u64,
    /// Times the process died.
    pub crashes: u64,
    /// Times the wall clock was set.
    pub jumps: u64,
    /// Groups written.
    pub groups: u64,
    /// Tickets that expired.
    pub expired: u64,
    /// Reports that came too late or twice.
    pub late: u64,
    /// URLs known in the end.
    pub urls: u64,
    /// Milliseconds of the world.
    pub time: u64,
}

/// A world that runs.
pub struct Sim {
    /// The world.
    pub world: World,
    /// Counts of events.
    pub figures: Figures,
    pub(crate) rng: Rng,
    pub(crate) clock: Clock,
    pub(crate) frontier: Option<Frontier<MemoryState>>,
    pub(crate) parts: Vec<Part>,
    pub(crate) polite: Politeness,
    pub(crate) obedience: Obedience,
    pub(crate) complete: Completeness,
    pub(crate) reach: Reach,
    pub(crate) scopes: Scopes,
    pub(crate) asked: Conditions,
    /// The rules of each job.
    pub(crate) rules: Vec<Rules>,
    /// The last capture of each page, as far as the archive remembers.
    pub(crate) archive: Vec<Option<Version>>,
    /// The current version of each page.
    pub(crate) versions: Vec<u32>,
    pub(crate) open: BTreeMap<TicketId, Open>,
    pub(crate) running: Vec<Running>,
    pub(crate) finished: Vec<Finished>,
    pub(crate) sent: Vec<(Ticket, Option<u32>)>,
    pub(crate) resolves: Vec<(HostKey, usize)>,
    pub(crate) keys: Vec<Option<HostKey>>,
    pub(crate) addresses: Vec<Vec<IpAddr>>,
    pub(crate) files: Vec<File>,
    pub(crate) stopped: Vec<bool>,
    /// Redirected robots.txt files, by the site that they are for.
    pub(crate) chains: BTreeMap<usize, Chain>,
    /// Jobs as each partition's log has them.
    pub(crate) jobs: BTreeMap<(usize, JobId), Job>,
    /// Prints every event to standard error.
    pub verbose: bool,
    /// The frontier said that nothing comes before this time, in seconds of the wall clock.
    pub(crate) done_until: Option<u32>,
    /// Faults are over.
    pub(crate) calm: bool,
    /// Planted: pages are reported before their links are offered.
    pub(crate) links_late: bool,
    trace: Xxh3,
}

impl From<StateError> for Violation {
    fn from(error: StateError) -> Self {
        Violation::new(Checker::Error, error.to_string())
    }
}

impl Sim {
    /// The world of this seed, at its start.
    pub fn new(seed: u64) -> Sim {
        Sim::of(World::new(seed), seed)
    }

    /// This world, at its start.
    pub fn of(world: World, seed: u64) -> Sim {
        let mut rng = Rng::new(seed ^ 0x51_4d);
        let hosts = world.hosts.len();
        let states = world.partitions.iter().map(|prefixes| (*prefixes, MemoryState::new())).collect();
        let frontier = Frontier::new(world.config.clone(), world.secret, states, None);
        let mut parts: Vec<Part> = world
            .partitions
            .iter()
            .map(|_| Part {
                snapshot: MemoryState::new(),
                log: Vec::new(),
                last: None,
                in_flight: None,
                facts: Vec::new(),
                facts_in_flight: Vec::new(),
                feed: Vec::new(),
                feed_at: 0,
                feed_durable: 0,
            })
            .collect();
        let mut scopes = Scopes::new(world.urls.len());
        for (url, job) in added(&world, &scopes, &mut rng) {
            scopes.handle_seed(url, job);
            parts[world.hosts[world.urls[url as usize].host].partition].feed.push((url, job));
        }
        let rules = world.jobs.iter().map(|job| job.scope.resolve(&KeyRules::default()));
        let rules = rules.collect::<Result<_, _>>().expect("a scope of ours");
        let addresses = (0..hosts).map(|_| some_addresses(&world, &mut rng)).collect();
        let files = (0..hosts).map(|_| File::random(&mut rng)).collect();
        let mut sim = Sim {
            polite: Politeness::new(world.config.frontier.clone(), hosts),
            obedience: Obedience::new(hosts),
            complete: Completeness::new(world.urls.len()),
            reach: Reach::new(hosts, world.config.retry.retries_max),
            scopes,
            asked: Conditions::new(world.urls.len()),
            rules,
            archive: vec![None; world.urls.len()],
            versions: vec![0; world.urls.len()],
            world,
            figures: Figures::default(),
            rng,
            clock: Clock::default(),
            frontier: Some(frontier),
            parts,
            open: BTreeMap::new(),
            running: Vec::new(),
            finished: Vec::new(),
            sent: Vec::new(),
            resolves: Vec::new(),
            keys: vec![None; hosts],
            addresses,
            files,
            stopped: vec![false; hosts],
            chains: BTreeMap::new(),
            jobs: BTreeMap::new(),
            done_until: None,
            verbose: false,
            calm: false,
            links_late: false,
            trace: Xxh3::new(),
        };
        let jobs = sim.world.jobs.clone();
        for job in jobs {
            sim.command_job(&job);
        }
        sim
    }

    /// Runs this number of steps, then lets the world come to rest and checks everything. Returns the hash of all
    /// requests and groups.
    pub fn run(&mut self, steps: u64) -> Result<u64, Violation> {
        for _ in 0..steps {
            self.step()?;
        }
        self.drain()?;
        self.figures.time = self.clock.t;
        self.figures.urls = self.complete.known() as u64;
        Ok(self.trace.digest())
    }

    /// Prints an event if the run is verbose.
    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if self.verbose {
            eprintln!(
                "{:>8} t={} wall={} {}",
                self.figures.steps,
                self.clock.t,
                self.clock.wall_seconds(),
                what()
            );
        }
    }

    pub(crate) fn front(&mut self) -> &mut Frontier<MemoryState> {
        self.frontier.as_mut().expect("a process runs")
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.figures.steps += 1;
        if self.rng.one_in(16) {
            self.ask_whether_done()?;
        }
        let fault = self.world.rates.fault;
        if self.rng.one_in(fault) {
            self.done_until = None;
            self.fault()?;
        } else {
            match self.rng.below(100) {
                0..25 => self.sleep(),
                25..50 => {
                    let max = self.rng.within(1, ACTIONS_MAX);
                    self.work(max)?;
                }
                50..62 => {
                    let partition = self.rng.index(self.parts.len());
                    self.write(partition)?;
                }
                62..74 => {
                    let partition = self.rng.index(self.parts.len());
                    self.commit(partition)?;
                }
                74..79 => {
                    let partition = self.rng.index(self.parts.len());
                    let max = self.rng.within(1, 12) as usize;
                    self.read_feed(partition, max);
                }
                79..85 => {
                    if !self.resolves.is_empty() {
                        let at = self.rng.index(self.resolves.len());
                        self.answer_name(at)?;
                    }
                }
                _ => {
                    if !self.finished.is_empty() {
                        let at = self.rng.index(self.finished.len());
                        self.come_back(at)?;
                    }
                }
            }
        }
        self.check_bounds()
    }

    pub(crate) fn check_bounds(&mut self) -> Result<(), Violation> {
        let partitions = self.parts.len();
        let (tickets, resolves) = (self.open.len(), self.resolves.len());
        let frontier = self.front();
        let offers = (0..partitions).map(|p| frontier.offers_waiting(p)).max().unwrap_or(0);
        let gauges = frontier.gauges();
        bounds::check(&self.world.config.frontier, &gauges, Counted { tickets, resolves, offers })
    }

    /// Time passes: a little, or until something is due, rarely much.
    fn sleep(&mut self) {
        let now = self.clock.now();
        // While there is anything to do, people seldom sleep long.
        let groups =
            (0..self.parts.len()).any(|p| self.parts[p].in_flight.is_some() || self.front().has_group(p));
        let busy = groups || !self.finished.is_empty() || !self.resolves.is_empty();
        let until = match self.rng.below(if busy { 100 } else { 10 }) {
            0..4 => self.front().poll_timeout(now).map(|mono| self.clock.t_of(mono)),
            4..9 => self.running.iter().map(|running| running.ends).min(),
            _ => None,
        };
        let little = self.rng.below(self.world.rates.sleep_max + 1);
        let much = if self.rng.one_in(1_000) { self.rng.below(2 * 86_400_000) } else { little };
        let until = until.unwrap_or(self.clock.t + much);
        self.advance(until.clamp(self.clock.t, self.clock.t + 2 * 86_400_000));
    }

    /// Time passes, and servers answer meanwhile.
    pub(crate) fn advance(&mut self, until: u64) {
        self.clock.t = until;
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].ends > until {
                at += 1;
                continue;
            }
            let running = self.running.swap_remove(at);
            if !running.orphan {
                self.polite.handle_end(running.host, running.ticket.address);
            }
            let lost = self.world.rates.lost;
            if !self.calm && self.rng.one_in(lost) {
                continue;
            }
            let took = running.ends - running.began;
            let finished = Finished {
                ticket: running.ticket,
                host: running.host,
                url: running.url,
                took,
                sent: running.sent,
                links: Vec::new(),
                offered: 0,
                orphan: running.orphan,
                reported: false,
                ending: None,
            };
            self.finished.push(finished);
        }
    }

    /// Polls the frontier for actions, and carries them out. Returns whether there was any.
    pub(crate) fn work(&mut self, max: u64) -> Result<bool, Violation> {
        let now = self.clock.now();
        self.expire(now.mono);
        self.front().handle_timeout(now)?;
        for n in 0..max {
            let Some(action) = self.front().poll_action(now)? else { return Ok(n > 0) };
            match action {
                Action::Resolve { host, origin } => {
                    self.trace.update(origin.as_bytes());
                    self.tell(|| format!("resolve {origin} {host}"));
                    let index = self.world.by_origin[&origin];
                    self.keys[index] = Some(host);
                    self.resolves.push((host, index));
                }
                Action::Fetch(ticket) => self.start(ticket)?,
            }
        }
        Ok(true)
    }

    /// A request goes out.
    fn start(&mut self, ticket: Ticket) -> Result<(), Violation> {
        self.trace.update(ticket.url.as_bytes());
        self.tell(|| {
            format!("fetch {} {} ticket {:x} at {}", ticket.url, ticket.key, ticket.id.0, ticket.address)
        });
        self.trace.update(&ticket.id.0.to_le_bytes());
        self.trace.update(&self.clock.t.to_le_bytes());
        self.trace.update(ticket.address.to_string().as_bytes());
        let (host, url, sent) = match ticket.purpose {
            Purpose::Robots => {
                self.figures.robots += 1;
                self.figures.hops += u64::from(detours::asker(&ticket.url).is_some());
                (self.start_robots(&ticket)?, None, Version::default())
            }
            Purpose::Page => {
                self.figures.pages += 1;
                let Some(&url) = self.world.by_url.get(&ticket.url) else {
                    let what = format!("{} is asked for and does not exist", ticket.url);
                    return Err(Violation::new(Checker::Completeness, what));
                };
                let page = &self.world.urls[url as usize];
                self.obedience.handle_page(page.host, &page.text, self.clock.wall_seconds())?;
                self.complete.handle_ticket(url, &self.world, &self.clock)?;
                let retries =
                    self.world.config.retry.retries_max.max(self.world.config.retry.retries_broken_max);
                if ticket.retries > retries {
                    let what = format!("{} is tried for the {}. time", ticket.url, ticket.retries);
                    return Err(Violation::new(Checker::Repeats, what));
                }
                self.scopes.check_ticket(url, &ticket)?;
                let sent = self.conditions(url, &ticket)?;
                self.figures.conditional += u64::from(!sent.is_empty());
                (page.host, Some(url), sent)
            }
        };
        self.obedience.handle_address(host, ticket.address)?;
        let partition = self.world.hosts[host].partition;
        if self.stopped[host] || self.is_held(partition, ticket.job) {
            let what = format!("{} is asked for, its host or its job is stopped", ticket.url);
            return Err(Violation::new(Checker::Operator, what));
        }
        self.polite.handle_start(host, ticket.address, &self.clock)?;
        self.check_not_done(&ticket)?;
        let Ticket { deadline, retries, job, address, .. } = ticket;
        let asker = detours::asker(&ticket.url).unwrap_or(host);
        let open = Open { host, asker, url, deadline, retries, job, address };
        if self.open.insert(ticket.id, open).is_some() {
            return Err(Violation::new(
                Checker::Repeats,
                format!("ticket {} is given out twice", ticket.id.0),
            ));
        }
        // A spider gives up before its ticket does.
        let timeout = self.world.config.frontier.ticket_timeout.as_millis() as u64;
        let max = if self.rng.one_in(20) { timeout - 1_000 } else { self.world.rates.took_max };
        let took = self.rng.below(max.min(timeout - 1_000) + 1);
        let (began, ends) = (self.clock.t, self.clock.t + took);
        self.running.push(Running { ticket, host, url, sent, began, ends, orphan: false });
        Ok(())
    }

    /// Expires the tickets that the frontier is about to give up, by our own clock.
    fn expire(&mut self, mono: u64) {
        let expired: Vec<TicketId> =
            self.open.iter().filter(|(_, open)| open.deadline <= mono).map(|(id, _)| *id).collect();
        let timeout = self.world.config.frontier.ticket_timeout.as_millis() as u64;
        for id in expired {
            self.figures.expired += 1;
            let open = self.open.remove(&id).expect("just seen");
            match open.url {
                Some(_) => {
                    self.page_ended(&open, &Ending::expired(), timeout, Vec::new());
                }
                None => self.robots_ended(
                    &open,
                    &RobotsReport::of(RobotsResult::Unreachable, Duration::ZERO),
                    &File::default(),
                    0,
                ),
            }
        }
    }

    /// Writes a group, if there is one. Returns whether there was.
    pub(crate) fn write(&mut self, partition: usize) -> Result<bool, Violation> {
        let now = self.clock.now();
        let Some(bytes) = self.front().poll_group(partition, now)? else { return Ok(false) };
        self.figures.groups += 1;
        self.trace.update(&bytes);
        let group = self.read_group(partition, &bytes)?;
        for entry in &group.entries {
            self.tell(|| format!("  writes {entry:?}"));
        }
        bounds::check_group(&self.world.config.frontier, group.entries.len())?;
        self.chains_given_up(&group);
        self.check_given_up(partition, &group)?;
        self.note_unasked(partition, &group);
        let position = self.front().state(partition).position();
        let part = &mut self.parts[partition];
        part.last = Some((bytes.clone(), position));
        part.in_flight = Some((bytes, false));
        part.facts_in_flight = std::mem::take(&mut part.facts);
        Ok(true)
    }

    /// Reads a group that follows the folded position.
    pub(crate) fn read_group(&mut self, partition: usize, bytes: &[u8]) -> Result<Group, Violation> {
        let position = self.front().state(partition).position();
        match entry::open(bytes, position) {
            Ok((group, _)) => Ok(group),
            Err(error) => Err(Violation::new(Checker::Recovery, error.to_string())),
        }
    }

    /// A group reaches the log, or its acknowledgement reaches us.
    pub(crate) fn commit(&mut self, partition: usize) -> Result<(), Violation> {
        let now = self.clock.now();
        let part = &mut self.parts[partition];
        let Some((bytes, appended)) = &mut part.in_flight else { return Ok(()) };
        if !*appended {
            part.log.push(bytes.clone());
            // No answer came in time, so the group is sent again; both arrive.
            if !self.calm && self.rng.one_in(10) {
                part.log.push(bytes.clone());
            }
            *appended = true;
            if !self.calm && self.rng.one_in(4) {
                return Ok(());
            }
        }
        part.in_flight = None;
        self.tell(|| format!("partition {partition} committed"));
        self.front().handle_committed(partition, now)?;
        self.facts_are_true(partition)
    }

    /// Offers URLs that others found. Returns whether there was any.
    pub(crate) fn read_feed(&mut self, partition: usize, max: usize) -> bool {
        let mut any = false;
        for _ in 0..max {
            let part = &self.parts[partition];
            let Some(&(url, job)) = part.feed.get(part.feed_at) else { break };
            if !self.offer(url, &seed(job)) {
                break;
            }
            any = true;
            self.parts[partition].feed_at += 1;
        }
        if any {
            let position = self.parts[partition].feed_at;
            let entry = Entry::Inbox { name: "feed".into(), position: position as u64 };
            self.command(partition, entry, Fact::Feed { at: position });
        }
        any
    }

    /// Offers a URL. Returns false if the queue was full.
    pub(crate) fn offer(&mut self, url: u32, wanted: &Want) -> bool {
        let priority = if self.rng.one_in(12) { 0 } else { self.rng.within(1, 9) as u8 };
        let page = &self.world.urls[url as usize];
        let host = &self.world.hosts[page.host];
        let offer = Offer {
            key: page.key,
            origin: &host.origin,
            text: &page.text,
            want: &Want { priority, hits: 1, ..wanted.clone() },
        };
        let frontier = self.frontier.as_mut().expect("a process runs");
        let offered = frontier.offer(offer);
        self.tell(|| format!("offer {}, priority {priority}: {offered:?}", self.world.url(url)));
        self.done_until = None;
        match offered {
            Offered::Taken | Offered::Recent => {
                self.complete.handle_offered(url);
                let host = self.world.urls[url as usize].host;
                self.parts[self.world.hosts[host].partition].facts.push(Fact::Known(url));
                true
            }
            Offered::Full => false,
            Offered::Elsewhere => unreachable!("the partitions hold everything"),
        }
    }

    /// A command that goes into the log.
    pub(crate) fn command(&mut self, partition: usize, entry: Entry, fact: Fact) {
        self.tell(|| format!("{entry:?}"));
        self.done_until = None;
        self.front().handle_command(partition, entry);
        self.parts[partition].facts.push(fact);
    }

    fn is_held(&self, partition: usize, job: JobId) -> bool {
        self.jobs.get(&(partition, job)).is_some_and(|job| job.state != job::State::Running)
    }

    /// A job is new or has changed: every partition gets the job.
    pub(crate) fn command_job(&mut self, job: &Job) {
        for partition in 0..self.parts.len() {
            let fact = Fact::Job { partition, job: Box::new(job.clone()) };
            self.command(partition, Entry::Job(Box::new(job.clone())), fact);
        }
    }
}

pub(crate) fn some_addresses(world: &World, rng: &mut Rng) -> Vec<IpAddr> {
    (0..rng.within(1, 3)).map(|_| *rng.pick(&world.addresses)).collect()
}

/// URLs that people add: the seeds of each job, and others in its scope, some of them several times. Of a job that ends
/// somewhere only a few, so that most of its pages are found by links.
fn added(world: &World, scopes: &Scopes, rng: &mut Rng) -> Vec<(u32, JobId)> {
    let seeds =
        world.jobs.iter().flat_map(|job| job.scope.seeds.iter().map(move |seed| (world.by_url[seed], job)));
    let mut added: Vec<(u32, &Job)> = seeds.collect();
    for _ in 0..world.urls.len() {
        let (url, job) = (rng.below(world.urls.len() as u64) as u32, rng.pick(&world.jobs));
        let is_endless = job.scope.kind == Kind::Any && job.scope.depth_max > 2;
        if is_endless || rng.one_in(4) {
            added.push((url, job));
        }
    }
    let welcome = |(url, job): &(u32, &Job)| {
        !world.urls[*url as usize].is_trap && scopes.is_welcome(job, &world.url(*url))
    };
    added.iter().filter(|added| welcome(added)).map(|(url, job)| (*url, job.id)).collect()
}
