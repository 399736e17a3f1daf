//! The other side: names are answered, pages come back, and a worker reports them, in the order that durability
//! requires. The meaning of an answer is computed here a second time, for the checkers.

use std::time::Duration;

use nephila_core::frontier::report::{RobotsAnswer, RobotsReport};
use nephila_core::frontier::ticket::{Report, Ticket};
use nephila_core::job::Schedule;
use nephila_core::robots::policy::RobotsResult;
use nephila_core::spider::outcome::Outcome;

use crate::completeness::Plan;
use crate::detours;
use crate::facts::Fact;
use crate::harness::{Finished, Open, SENT_MAX, Sim, some_addresses};
use crate::reach::Failure;
use crate::robots::File;
use crate::site::Version;
use crate::{Checker, Violation};

/// How a page ended, and the consequences, by our own table.
#[derive(Clone, Debug)]
pub(crate) struct Ending {
    pub(crate) outcome: Outcome,
    pub(crate) status: u16,
    /// The rest of the host is at least this, in milliseconds.
    pub(crate) rest: u64,
    /// The version of the page, if the answer has one.
    pub(crate) version: Version,
}

impl Ending {
    fn of(outcome: Outcome, status: u16) -> Ending {
        Ending { outcome, status, rest: 0, version: Version::default() }
    }

    /// No answer came in time.
    pub(crate) fn expired() -> Ending {
        Ending::of(Outcome::TotalTimeout, 0)
    }
}

impl Sim {
    /// A name is answered.
    pub(crate) fn answer_name(&mut self, at: usize) -> Result<(), Violation> {
        let (key, host) = self.resolves.swap_remove(at);
        let now = self.clock.now();
        let failure = self.world.rates.failure * 2;
        let nowhere = self.world.hosts[host].pages.is_empty();
        if nowhere || (!self.calm && self.rng.one_in(failure)) {
            let outcomes =
                [Outcome::DnsNxdomain, Outcome::DnsTimeout, Outcome::DnsUnreachable, Outcome::DnsServfail];
            let outcome = *self.rng.pick(&outcomes);
            self.tell(|| format!("host {host} does not resolve: {outcome}"));
            self.front().handle_unresolved(key, outcome, now)?;
            self.name_failed(host, outcome);
            return Ok(());
        }
        let addresses = self.addresses[host].clone();
        self.tell(|| format!("host {host} is at {addresses:?}"));
        self.obedience.handle_resolved(host, &addresses);
        self.name_found(host);
        self.front().handle_resolved(key, &addresses, now);
        if !self.calm && self.rng.one_in(20) {
            self.front().handle_resolved(key, &addresses, now);
        }
        Ok(())
    }

    /// A host moves to other addresses.
    pub(crate) fn move_host(&mut self) {
        let host = self.rng.index(self.world.hosts.len());
        self.addresses[host] = some_addresses(&self.world, &mut self.rng);
    }

    /// Processes an answer that came back: offers its links, then reports the page.
    pub(crate) fn come_back(&mut self, at: usize) -> Result<(), Violation> {
        if self.finished[at].orphan {
            let finished = self.finished.swap_remove(at);
            return self.report_late(&finished.ticket, finished.url);
        }
        let Some(url) = self.finished[at].url else {
            let finished = self.finished.swap_remove(at);
            return self.report_robots(finished);
        };
        if self.finished[at].ending.is_none() {
            let ending = match self.failure() {
                Some(ending) => ending,
                None => self.receive(at, url)?,
            };
            let after = matches!(ending.outcome, Outcome::RateLimited | Outcome::Unavailable);
            let after = (after && self.rng.one_in(2)).then(|| Duration::from_secs(self.rng.below(400)));
            let finished = &mut self.finished[at];
            finished.ending = Some((ending, after));
        }
        if self.links_late && !self.finished[at].reported {
            self.finished[at].reported = true;
            return self.report_page(at);
        }
        while let Some((link, wanted)) = self.finished[at].links.get(self.finished[at].offered).cloned() {
            if !self.offer(link, &wanted) {
                return Ok(());
            }
            self.finished[at].offered += 1;
        }
        if self.links_late {
            self.finished.swap_remove(at);
            return Ok(());
        }
        // Links into another partition are in that one's log before the page is done in this one's.
        let host = self.finished[at].host;
        let own = self.world.hosts[host].partition;
        let durable = self.finished[at].links.iter().all(|(link, _)| {
            let partition = self.world.hosts[self.world.urls[*link as usize].host].partition;
            partition == own || self.complete.is_known(*link)
        });
        if durable {
            self.report_page(at)?;
            self.finished.swap_remove(at);
        }
        Ok(())
    }

    fn report_page(&mut self, at: usize) -> Result<(), Violation> {
        let Finished { ticket, url, took, links, ending, sent, .. } = self.finished[at].clone();
        let (mut ending, retry_after) = ending.expect("it ended");
        let links = links.into_iter().map(|(url, _)| url).collect();
        let outcome = ending.outcome;
        let url_of = url.expect("a page");
        let settings = &self.world.config.retry;
        if let Some(after) = retry_after {
            ending.rest = ending.rest.max(after.min(settings.retry_after_max).as_millis() as u64);
        }
        let mut report = Report::of(outcome, ending.status, Duration::from_millis(took));
        (report.retry_after, report.conditional) = (retry_after, !sent.is_empty());
        if outcome == Outcome::Fetched {
            // Some sites have one page for everything.
            let same = self.world.urls[url_of as usize].host.is_multiple_of(5);
            report.digest = if same { 1 } else { u64::from(url_of) + 2 };
            (report.etag, report.last_modified) =
                (ending.version.etag.as_str().into(), ending.version.last_modified.as_str().into());
        }
        let now = self.clock.now();
        let taken = self.front().handle_report(ticket.id, &report, now)?;
        self.remember(&ticket, url);
        let open = self.open.remove(&ticket.id);
        if taken != open.is_some() {
            let what = format!("a report of ticket {} was taken: {taken}", ticket.id.0);
            return Err(Violation::new(Checker::Repeats, what));
        }
        match open {
            Some(open) if outcome == Outcome::ConnectRefused => {
                let elsewhere = self.obedience.handle_refused(open.host, open.address);
                ending.rest = if elsewhere { 0 } else { ending.rest };
                self.page_ended_at(&open, &ending, 0, links, elsewhere);
            }
            Some(open) => self.page_ended(&open, &ending, took, links),
            None => self.figures.late += 1,
        }
        Ok(())
    }

    pub(crate) fn page_ended(&mut self, open: &Open, ending: &Ending, took: u64, links: Vec<u32>) {
        self.page_ended_at(open, ending, took, links, false);
    }

    /// A page ended; if the address could not be reached, and its name has another one, the page may be requested again
    /// at once.
    fn page_ended_at(&mut self, open: &Open, ending: &Ending, took: u64, links: Vec<u32>, elsewhere: bool) {
        let url = open.url.expect("a page");
        let failure = match elsewhere && self.reach.is_elsewhere(open.host) {
            true => Failure::Ours,
            false => Failure::of_page(ending.outcome),
        };
        self.site_answered(open.host, failure);
        let plan = match elsewhere {
            true => Plan::NotBefore { wall: self.clock.wall() / 1_000 * 1_000, since: self.clock.t },
            false => self.plan(ending.outcome, open),
        };
        self.complete.handle_ended(url, plan);
        self.tell(|| {
            format!("{} ended with {}, rest {}, {plan:?}", self.world.url(url), ending.outcome, ending.rest)
        });
        self.polite.handle_report(open.host, open.address, took, ending.rest, self.clock.t);
        let rest_until = if ending.rest > 0 { self.clock.wall() + ending.rest } else { 0 };
        let Ending { outcome, version, .. } = ending.clone();
        let fact = Fact::Ended { url, plan, outcome, links, version, rest_until };
        self.parts[self.world.hosts[open.host].partition].facts.push(fact);
    }

    fn report_robots(&mut self, finished: Finished) -> Result<(), Violation> {
        if let Some(target) = self.detour(&finished) {
            return self.report_redirect(&finished, &target);
        }
        let asker = detours::asker(&finished.ticket.url).unwrap_or(finished.host);
        if self.rng.one_in(4) {
            self.files[asker] = File::random(&mut self.rng);
        }
        let file = self.files[asker].clone();
        let answer = match self.rng.below(if self.calm { 12 } else { 20 }) {
            0..11 => RobotsResult::Status(200),
            11 | 12 => RobotsResult::Status(404),
            13 => RobotsResult::Status(403),
            14 => RobotsResult::Status(304),
            15 => RobotsResult::Status(500),
            16 => RobotsResult::Status(503),
            17 => RobotsResult::Status(429),
            18 => RobotsResult::RedirectLimit,
            _ => RobotsResult::Unreachable,
        };
        let max_age = self.rng.one_in(2).then(|| Duration::from_secs(self.rng.below(4_000)));
        let retry_after = match answer {
            RobotsResult::Status(429 | 503) => {
                self.rng.one_in(2).then(|| Duration::from_secs(self.rng.below(400)))
            }
            _ => None,
        };
        let mut report = RobotsReport::of(answer, Duration::from_millis(finished.took));
        (report.max_age, report.retry_after) = (max_age, retry_after);
        if answer == RobotsResult::Status(200) {
            // Sometimes the file goes on, and is cut off in a line whose rule is then unknown.
            report.cut = self.rng.one_in(8);
            let half = if report.cut { "Disallow: /" } else { "" };
            report.body = [&*file.bytes(), half.as_bytes()].concat().into();
        }
        report.unconnected = answer == RobotsResult::Unreachable && self.rng.one_in(2);
        if answer == RobotsResult::Unreachable {
            // Of these the reset may be that of one connection alone; the others are met by everything of its site.
            let cause = *self.rng.pick(&[None, Some(Outcome::Reset), Some(Outcome::TlsExpired)]);
            report.cause = if report.unconnected { Some(Outcome::ConnectRefused) } else { cause };
        }
        let unconnected = report.unconnected;
        if let Some(open) = self.taken(&finished, report.clone())? {
            if unconnected && self.obedience.handle_refused(open.host, open.address) {
                // No request was sent: the same URL will be requested at another address.
                self.tell(|| format!("{} is to be asked for elsewhere", finished.ticket.url));
                self.polite.handle_report(open.host, open.address, 0, 0, self.clock.t);
                self.ask_elsewhere(&finished.ticket.url, open.asker);
                if !self.reach.is_elsewhere(open.host) && open.asker == open.host {
                    self.site_answered(open.asker, Failure::Unreachable(Outcome::ConnectRefused));
                }
                return Ok(());
            }
            let took = if unconnected { 0 } else { finished.took };
            self.robots_ended(&open, &report, &file, took);
        }
        Ok(())
    }

    /// Reports a robots.txt. Returns the ticket if the ticket was open.
    pub(crate) fn taken(
        &mut self,
        finished: &Finished,
        report: RobotsReport,
    ) -> Result<Option<Open>, Violation> {
        let now = self.clock.now();
        let taken = self.front().handle_robots(finished.ticket.id, report, now)?;
        self.remember(&finished.ticket, None);
        let open = self.open.remove(&finished.ticket.id);
        if taken != open.is_some() {
            let what = format!("a report of ticket {} was taken: {taken}", finished.ticket.id.0);
            return Err(Violation::new(Checker::Repeats, what));
        }
        self.figures.late += u64::from(open.is_none());
        Ok(open)
    }

    /// A robots.txt is answered for its site, by the host of the last hop.
    pub(crate) fn robots_ended(&mut self, open: &Open, report: &RobotsReport, file: &File, took: u64) {
        let RobotsReport { max_age, retry_after, cause, .. } = *report;
        let RobotsAnswer::Ended(answer) = report.answer else { unreachable!("a redirect goes on") };
        self.chains.remove(&open.asker);
        let failure = match (answer, cause) {
            // A failure elsewhere says nothing about whether the site can be reached.
            (RobotsResult::Unreachable, Some(cause)) if open.asker == open.host => Failure::of_page(cause),
            (RobotsResult::Unreachable | RobotsResult::Status(429 | 500..), _) => Failure::Failed,
            _ => Failure::None,
        };
        self.site_answered(open.asker, failure);
        let rest = self.robots_rest(answer, retry_after);
        // The answering host rests as well, if the answer said for how long.
        let asked_for = match (open.asker == open.host, answer, retry_after) {
            (true, ..) => rest,
            (false, RobotsResult::Status(429 | 503), Some(after)) => {
                after.min(self.world.config.retry.retry_after_max).as_millis() as u64
            }
            _ => 0,
        };
        self.polite.handle_report(open.host, open.address, took, asked_for, self.clock.t);
        if open.asker != open.host {
            self.polite.handle_rest_now(open.asker, rest, self.clock.t);
        }
        self.robots_known(open.asker, answer, file, max_age, rest, self.clock.wall());
    }

    /// The rest of a site whose robots.txt was answered like this, in milliseconds.
    pub(crate) fn robots_rest(&self, answer: RobotsResult, retry_after: Option<Duration>) -> u64 {
        let settings = &self.world.config.retry;
        match answer {
            RobotsResult::Unreachable | RobotsResult::Status(429 | 500..) => {
                let asked = retry_after.unwrap_or_default().min(settings.retry_after_max);
                settings.back_off_other_first.min(settings.back_off_max).max(asked).as_millis() as u64
            }
            _ => 0,
        }
    }

    /// The meaning of an answer becomes durable with the next group.
    pub(crate) fn robots_known(
        &mut self,
        host: usize,
        answer: RobotsResult,
        file: &File,
        max_age: Option<Duration>,
        rest: u64,
        wall: u64,
    ) {
        let word = self.obedience.word(host, answer, file, max_age, self.clock.wall_seconds());
        self.tell(|| format!("robots of host {host}: {answer:?} {word:?}"));
        let rest_until = if rest > 0 { wall + rest } else { 0 };
        let partition = self.world.hosts[host].partition;
        self.parts[partition].facts.push(Fact::Robots { host, word, rest_until });
    }

    /// A report arrives again, or after its process died, and must change nothing.
    pub(crate) fn report_late(&mut self, ticket: &Ticket, url: Option<u32>) -> Result<(), Violation> {
        if self.open.contains_key(&ticket.id) {
            let what = format!("ticket {} of a dead process is given out again", ticket.id.0);
            return Err(Violation::new(Checker::Repeats, what));
        }
        self.figures.late += 1;
        let now = self.clock.now();
        let taken = match url {
            Some(_) => {
                let report = Report::of(Outcome::NotFound, 404, Duration::ZERO);
                self.front().handle_report(ticket.id, &report, now)?
            }
            None => {
                let report = RobotsReport::of(RobotsResult::Status(404), Duration::ZERO);
                self.front().handle_robots(ticket.id, report, now)?
            }
        };
        match taken {
            false => Ok(()),
            true => {
                Err(Violation::new(Checker::Repeats, format!("ticket {} was reported twice", ticket.id.0)))
            }
        }
    }

    fn remember(&mut self, ticket: &Ticket, url: Option<u32>) {
        if self.sent.len() >= SENT_MAX {
            let at = self.rng.index(SENT_MAX);
            self.sent.swap_remove(at);
        }
        self.sent.push((ticket.clone(), url));
    }

    /// How a page fails, if so.
    fn failure(&mut self) -> Option<Ending> {
        let end = Ending::of;
        let failure = self.world.rates.failure;
        if self.calm || !self.rng.one_in(failure) {
            return None;
        }
        let settings = &self.world.config.retry;
        let busy = settings.host_rest_first.min(settings.host_rest_max).as_millis() as u64;
        let dead = settings.back_off_other_first.min(settings.back_off_max).as_millis() as u64;
        Some(match self.rng.below(13) {
            0 | 1 => end(Outcome::NotFound, 404),
            2 => end(Outcome::ServerError, 500),
            3 => Ending { rest: busy, ..end(Outcome::RateLimited, 429) },
            4 => Ending { rest: busy, ..end(Outcome::Unavailable, 503) },
            5 => end(Outcome::TotalTimeout, 0),
            6 => end(Outcome::Reset, 0),
            7 => end(Outcome::BadFraming, 200),
            8 => Ending { rest: dead, ..end(Outcome::TlsExpired, 0) },
            9 => end(Outcome::LocalFiles, 0),
            10 => {
                Ending { rest: settings.challenge_rest.as_millis() as u64, ..end(Outcome::Challenged, 403) }
            }
            11 => end(Outcome::Legal, 451),
            _ => Ending { rest: dead, ..end(Outcome::ConnectRefused, 0) },
        })
    }

    /// When a page may be requested again, by our own reading of the rules.
    fn plan(&self, outcome: Outcome, open: &Open) -> Plan {
        let settings = &self.world.config.retry;
        let since = self.clock.t;
        let not_before = |after: Duration| {
            let seconds = self.clock.wall() / 1_000 + after.as_secs();
            Plan::NotBefore { wall: seconds * 1_000, since }
        };
        let partition = self.world.hosts[open.host].partition;
        let schedule = self.jobs.get(&(partition, open.job)).map_or(Schedule::Once, |job| job.schedule);
        let visited = match schedule {
            Schedule::Once => Plan::Never,
            Schedule::Every(interval) => not_before(interval),
            Schedule::Adaptive(settings) => not_before(settings.interval_min),
        };
        let (first, retries_max) = match outcome {
            Outcome::Fetched | Outcome::NotFound | Outcome::Redirect => return visited,
            Outcome::NotModified | Outcome::CookieWall => return visited,
            Outcome::Legal => return Plan::Never,
            Outcome::LocalFiles => return not_before(settings.pause),
            Outcome::RateLimited | Outcome::Unavailable | Outcome::TotalTimeout | Outcome::Challenged => {
                (settings.back_off_first, settings.retries_max)
            }
            Outcome::ServerError | Outcome::Reset | Outcome::ConnectRefused => {
                (settings.back_off_other_first, settings.retries_max)
            }
            Outcome::BadFraming | Outcome::TlsExpired | Outcome::RedirectLoop | Outcome::RedirectLimit => {
                (settings.back_off_broken_first, settings.retries_broken_max)
            }
            other => unreachable!("no page of ours ends with {other}"),
        };
        if open.retries >= retries_max { visited } else { not_before(first.min(settings.back_off_max)) }
    }
}
