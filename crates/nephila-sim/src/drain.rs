//! The end of a world: no more faults, time runs on, and everything that is due must happen.

use nephila_core::entry::{Entry, HostChange};
use nephila_core::frontier::ticket::{Purpose, Ticket};
use nephila_core::job::{self, Schedule};
use nephila_core::state::State;
use nephila_core::time::Seconds;

use crate::facts::Fact;
use crate::harness::Sim;
use crate::pages::seed;
use crate::{Checker, Violation};

/// Maximum number of rounds until a world must be quiet.
const ROUNDS_MAX: u64 = 2_000_000;

/// Maximum number of rounds at one moment.
const ROUNDS_AT_ONCE_MAX: u64 = 10_000;

/// Rounds in a row in which the frontier wanted to be called at once and did nothing.
const SPINS_MAX: u32 = 50;

/// A quiet frontier is left alone for this long, in milliseconds, before we check that nothing was due meanwhile.
const LEFT_ALONE: u64 = 2 * 24 * 3_600 * 1_000;

/// No world has plans further ahead than this, in milliseconds.
const TIME_MAX: u64 = 400 * 24 * 3_600 * 1_000;

impl Sim {
    /// Lets the world come to rest, then checks that nothing is missing.
    pub(crate) fn drain(&mut self) -> Result<(), Violation> {
        self.calm = true;
        for job in 0..self.world.jobs.len() {
            self.world.jobs[job].schedule = Schedule::Once;
            self.world.jobs[job].state = job::State::Running;
            let job = self.world.jobs[job].clone();
            self.command_job(&job);
        }
        for host in 0..self.world.hosts.len() {
            if let Some(key) = self.keys[host] {
                let resume = Entry::Host(HostChange::Resume(key));
                let partition = self.world.hosts[host].partition;
                self.command(partition, resume, Fact::Stopped { host, stopped: false });
            }
        }
        self.quieten()?;
        let now = self.clock.now();
        if !self.front().is_done(Seconds(u32::MAX), now)? {
            let waits = self.front().waits(now);
            return Err(stuck(format!("quiet at {}, and not done: {waits:?}", self.clock.t)));
        }
        self.advance(self.clock.t + LEFT_ALONE);
        self.check_all()
    }

    fn quieten(&mut self) -> Result<(), Violation> {
        let begun = self.clock.t;
        let (mut spins, mut rounds) = (0, 0);
        for _ in 0..ROUNDS_MAX {
            if self.round()? {
                rounds += 1;
                if rounds > ROUNDS_AT_ONCE_MAX {
                    self.tell_hosts()?;
                    return Err(stuck(format!("{rounds} rounds at {}, and still busy", self.clock.t)));
                }
                continue;
            }
            self.check_bounds()?;
            let now = self.clock.now();
            let frontier = self.front().poll_timeout(now).map(|mono| self.clock.t_of(mono));
            let server = self.running.iter().map(|running| running.ends).min();
            let Some(next) = frontier.into_iter().chain(server).min() else { return Ok(()) };
            spins = if next <= self.clock.t { spins + 1 } else { 0 };
            if spins > SPINS_MAX {
                return Err(stuck(format!(
                    "it wants to be called at {next}, it is {}, and does nothing",
                    self.clock.t
                )));
            }
            if next > begun + TIME_MAX {
                return Err(stuck(format!(
                    "it wants to sleep for {} days",
                    (next - self.clock.t) / 86_400_000
                )));
            }
            if next > self.clock.t {
                rounds = 0;
            }
            self.advance(next.max(self.clock.t));
        }
        Err(stuck(format!("not quiet after {ROUNDS_MAX} rounds")))
    }

    /// Prints the records of the hosts, their URLs and queues, for debugging.
    fn tell_hosts(&mut self) -> Result<(), Violation> {
        for host in 0..self.world.hosts.len() {
            let Some(key) = self.keys[host] else { continue };
            let partition = self.world.hosts[host].partition;
            let record = self.front().state(partition).host(&key)?;
            let domain = self.front().state(partition).domain(key.domain)?;
            self.tell(|| format!("host {host}: {record:?} {domain:?}"));
            let tables = self.front().state(partition).tables.clone();
            for (url, record) in tables.urls.iter().filter(|(url, _)| url.host == key) {
                let page = self.world.by_path.get(&url.path).map(|page| self.world.url(*page));
                self.tell(|| format!("  {page:?}: {record:?}"));
            }
            for (_, place, text) in tables.queued.iter().filter(|(of, ..)| *of == key) {
                self.tell(|| format!("  {place:?}: {text}"));
            }
        }
        Ok(())
    }

    /// Does everything that can be done now. Returns whether anything was done.
    fn round(&mut self) -> Result<bool, Violation> {
        let mut busy = self.work(u64::MAX)?;
        for partition in 0..self.parts.len() {
            busy |= self.read_feed(partition, usize::MAX);
            self.commit(partition)?;
            busy |= self.write(partition)?;
            self.commit(partition)?;
        }
        while !self.resolves.is_empty() {
            self.answer_name(0)?;
            busy = true;
        }
        for at in (0..self.finished.len()).rev() {
            self.come_back(at)?;
            busy = true;
        }
        Ok(busy)
    }

    fn check_all(&mut self) -> Result<(), Violation> {
        let Sim { frontier, world, complete, obedience, reach, asked, clock, .. } = self;
        let frontier = frontier.as_mut().expect("a process runs");
        for partition in 0..frontier.partitions() {
            complete.check_quiet(frontier.state(partition), obedience, reach, world, clock)?;
        }
        let mut states: Vec<_> = (0..frontier.partitions()).map(|p| frontier.state(p).clone()).collect();
        complete.check_known(&mut states.iter_mut().collect::<Vec<_>>(), world)?;
        for (key, record) in states.iter().flat_map(|state| &state.tables.urls) {
            if let (Some(url), Some(last)) = (world.by_path.get(&key.path), &record.last) {
                asked.check_record(*url, last)?;
            }
        }
        Ok(())
    }
}

fn stuck(what: String) -> Violation {
    Violation::new(Checker::Liveness, what)
}

impl Sim {
    /// Asks the frontier whether nothing is left until a random horizon. If so, no ticket may follow before then,
    /// unless new input arrives.
    pub(crate) fn ask_whether_done(&mut self) -> Result<(), Violation> {
        let after = *self.rng.pick(&[0, 10, 600, 4_000, 100_000]);
        let (horizon, now) = (self.clock.wall_seconds().saturating_add(after), self.clock.now());
        if self.front().is_done(Seconds(horizon), now)? {
            self.figures.done += 1;
            self.done_until = Some(self.done_until.map_or(horizon, |until| until.max(horizon)));
        }
        Ok(())
    }

    /// A ticket is given out: the frontier must not have said that nothing is left until later.
    pub(crate) fn check_not_done(&self, ticket: &Ticket) -> Result<(), Violation> {
        // A host with nothing but URLs of a job that is held back has nothing left; its robots.txt is read all the same.
        let held = self.jobs.values().any(|job| job.state != job::State::Running);
        if held && ticket.purpose == Purpose::Robots {
            return Ok(());
        }
        match self.done_until.filter(|until| self.clock.wall_seconds() <= *until) {
            None => Ok(()),
            Some(until) => {
                let what = format!("{} is asked for, nothing was left until {until}", ticket.url);
                Err(Violation::new(Checker::Liveness, what))
            }
        }
    }

    /// Offers every page there is and checks that each is known. Returns their number.
    pub(crate) fn offer_everything(&mut self) -> Result<u64, Violation> {
        self.calm = true;
        let job = self.world.jobs[0].id;
        for url in 0..self.world.urls.len() as u32 {
            while !self.offer(url, &seed(job)) {
                for partition in 0..self.parts.len() {
                    self.write(partition)?;
                    self.commit(partition)?;
                }
            }
        }
        for partition in 0..self.parts.len() {
            self.write(partition)?;
            self.commit(partition)?;
        }
        let frontier = self.frontier.as_mut().expect("a process runs");
        let mut states: Vec<_> = (0..frontier.partitions()).map(|p| frontier.state(p).clone()).collect();
        self.complete.check_known(&mut states.iter_mut().collect::<Vec<_>>(), &self.world)?;
        Ok(self.complete.known() as u64)
    }
}
