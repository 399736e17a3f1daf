//! Takes the reports of the spider: derives the consequences of an outcome for its URL and its host, and writes them
//! into the log. For redirected robots.txt files see [`super::errand`].

use std::net::IpAddr;
use std::time::Duration;

use super::Frontier;
use super::heads::Head;
use super::retry::{self, Next, UrlNext};
use super::ticket::{Purpose, Report, TicketId};
use super::workbench::HostIndex;
use crate::entry::{Ended, Entry, NO_FETCH, RobotsRead};
use crate::key::UrlKey;
use crate::planted::{self, Bug};
use crate::robots::Robots;
use crate::robots::policy::{self, Policy, RobotsResult};
use crate::spider::outcome::{Action, Class, Outcome};
use crate::state::queue::LaterKey;
use crate::state::record::{RobotsPolicy, RobotsRecord, Unread};
use crate::state::{State, StateError};
use crate::time::{Now, Seconds, Timestamp};
use crate::trap::{folder, missing_rest, shape};
use crate::url::CrawlUrl;

/// Interval at which a URL of a job that is not running is examined again.
const HELD_AGAIN: Duration = Duration::from_secs(600);

/// The result of a request for a robots.txt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobotsReport {
    /// How this request ended.
    pub answer: RobotsAnswer,
    /// The body; empty if there was none.
    pub body: Box<[u8]>,
    /// Whether the file is longer than the body. Then an unfinished last line does not count.
    pub cut: bool,
    /// How long the robots.txt may be cached, if the server said so.
    pub max_age: Option<Duration>,
    /// `Retry-After`, if present and readable.
    pub retry_after: Option<Duration>,
    /// Response time of the server.
    pub took: Duration,
    /// No connection to the ticket's address could be made: there was no request.
    pub unconnected: bool,
    /// The server cannot have answered, or demands another kind of request: retry once, as soon as its host has rested.
    pub again: bool,
    /// The outcome of the request, if there was no answer at all.
    pub cause: Option<Outcome>,
}

/// How one request for a robots.txt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RobotsAnswer {
    /// The final answer.
    Ended(RobotsResult),
    /// A redirect to this URL: another ticket follows, or the robots.txt counts as unavailable. (A redirect with an
    /// unreadable target is [`RobotsResult::Status`].)
    Redirect(Box<CrawlUrl>),
}

impl From<RobotsResult> for RobotsAnswer {
    fn from(answer: RobotsResult) -> Self {
        RobotsAnswer::Ended(answer)
    }
}

impl RobotsReport {
    /// A report with nothing but an answer.
    pub fn of(answer: impl Into<RobotsAnswer>, took: Duration) -> RobotsReport {
        RobotsReport {
            answer: answer.into(),
            body: Box::default(),
            cut: false,
            max_age: None,
            retry_after: None,
            took,
            unconnected: false,
            again: false,
            cause: None,
        }
    }
}

impl<S: State> Frontier<S> {
    /// A page was fetched and is being stored; its report will follow. Its host and address rest from now and are free
    /// afterwards. Do not call this method for answers that demand a longer rest: the next request has to wait for the
    /// report. For the same reason nothing changes while the report may complete a long row of missing pages. Returns
    /// `false`, without effect, if the ticket is no longer open.
    pub fn handle_released(&mut self, id: TicketId, took: Duration, now: Now) -> bool {
        let host = self.bench.ticket(id).map(|(open, _, _)| open.host);
        if host.is_some_and(|index| self.may_miss_too_many(index)) {
            return false;
        }
        if !self.bench.release(id, u64::try_from(took.as_millis()).unwrap_or(u64::MAX), now.mono) {
            return false;
        }
        // Storing a page delays no other page: the next URLs are read before the report. But where other hosts wait for
        // a place, a host that had its turn reads no more.
        if let Some(index) = host.filter(|_| !self.starved) {
            let host = self.bench.host(index);
            if host.more && host.heads.is_empty() && !host.leaving && !host.guest {
                self.make_hungry(index);
            }
        }
        true
    }

    /// The report of a page. Returns `false`, without effect, if the ticket is no longer open.
    pub fn handle_report(&mut self, id: TicketId, report: &Report, now: Now) -> Result<bool, StateError> {
        let Some(open) =
            self.bench.close(id, slowness(report.took, report.outcome.is_unconnected()), now.mono)
        else {
            self.stats.late += 1;
            return Ok(false);
        };
        let Some(head) = open.head else {
            // A page report for a robots.txt ticket says nothing about the file, which therefore counts as unreachable.
            self.robots_reported(open, unreachable(), now)?;
            return Ok(true);
        };
        self.stats.ended += 1;
        let elsewhere = report.outcome.is_unconnected() && self.goes_elsewhere(open.host, open.address, now);
        let soon = match () {
            () if elsewhere => Some(Next::soon(head.retries)),
            // Counted, so that there is only one such retry.
            () if report.again && head.retries == 0 => Some(Next::soon(1)),
            () => None,
        };
        self.page_ended(open.host, head, id, report, soon, now)?;
        self.settle_stranded(now)?;
        Ok(true)
    }

    /// A connection to this address failed. Returns whether the host moves on to another address.
    pub(super) fn goes_elsewhere(&mut self, index: HostIndex, dead: IpAddr, now: Now) -> bool {
        self.bench.try_next_address(index, dead, now.mono)
    }

    /// The report of a robots.txt. Returns `false`, without effect, if the ticket is no longer open.
    pub fn handle_robots(
        &mut self,
        id: TicketId,
        report: RobotsReport,
        now: Now,
    ) -> Result<bool, StateError> {
        let Some(open) = self.bench.close(id, slowness(report.took, report.unconnected), now.mono) else {
            self.stats.late += 1;
            return Ok(false);
        };
        match open.head {
            Some(head) => {
                let report = Report::of(Outcome::Cancelled, 0, report.took);
                self.page_ended(open.host, head, id, &report, None, now)?;
            }
            None => self.robots_reported(open, report, now)?,
        }
        self.settle_stranded(now)?;
        Ok(true)
    }

    /// A ticket has expired without a report: its spider counts as dead, and the URL is retried.
    pub(super) fn expire(&mut self, id: TicketId, now: Now) -> Result<(), StateError> {
        let open = self.bench.ticket(id).map(|(open, _, _)| open.purpose);
        match open {
            Some(Purpose::Page) => {
                let report = Report::of(Outcome::TotalTimeout, 0, self.config.frontier.ticket_timeout);
                self.handle_report(id, &report, now)?;
            }
            Some(Purpose::Robots) => _ = self.handle_robots(id, unreachable(), now)?,
            None => {}
        }
        Ok(())
    }

    /// Applies a report to its URL. A retry `soon`, at another address of the name or because the server cannot have
    /// answered, does not count against the host.
    fn page_ended(
        &mut self,
        index: HostIndex,
        head: Head,
        id: TicketId,
        report: &Report,
        soon: Option<Next>,
        now: Now,
    ) -> Result<(), StateError> {
        let host = self.bench.host_mut(index);
        // Same count as in the fold.
        match report.outcome.class() {
            Class::Gone => host.missing = host.missing.saturating_add(1),
            Class::Ok => host.missing = 0,
            _ => {}
        }
        let (host_key, origin) = (host.key, host.origin.clone());
        let (host_failures, missing) = (host.failures, host.missing);
        let by_table = || {
            let salt = head.path ^ id.0;
            let (retries, after) = (head.retries, report.retry_after);
            retry::next(report.outcome, retries, host_failures, after, salt, &self.config.retry)
        };
        let next = soon.unwrap_or_else(by_table);
        let soon = soon.is_some();
        let action = report.outcome.action();
        let failures = match (report.outcome.class(), action) {
            _ if soon => host_failures,
            (Class::Retry, Action::BackOff | Action::BackOffHost) => host_failures.saturating_add(1),
            (_, Action::BackOffHost) => host_failures.saturating_add(1),
            (_, Action::Pause) => host_failures,
            _ if retry::is_about_the_host(report.outcome) => host_failures.saturating_add(1),
            _ => 0,
        };
        let spent = &mut self.bench.host_mut(index).spent;
        spent.take(now.wall.into(), report.bytes);
        let day_over = spent.rest(&self.config.rules.budget, now.wall.into());
        let host_rest = next.host_rest.max(day_over);
        let given_up = !soon && self.gives_up(report.outcome, host_failures);
        let mut rest_until = match host_rest {
            Some(rest) if given_up => self.give_up(index, report.outcome, rest, now),
            Some(rest) => self.rest(index, rest, now),
            None => Timestamp(0),
        };
        if report.outcome.class() == Class::Gone {
            // A host with many missing pages is requested less and less often.
            let rest_max = self.config.retry.host_rest_max;
            if let Some(rest) = missing_rest(missing, &self.config.rules.trap, rest_max) {
                rest_until = rest_until.max(self.rest(index, rest, now));
            }
        }
        if planted::is(Bug::RestNotDurable) {
            rest_until = Timestamp(0);
        }
        // Each page that is read is checked for traps once.
        let watched = action == Action::Keep && report.digest != 0 && head.place.later().is_none();
        let shapes = match watched.then(|| CrawlUrl::parse(&[&*origin, &*head.text].concat())) {
            Some(Ok(url)) => [shape(&url), folder(&url)],
            _ => [0, 0],
        };
        let trap = &self.config.rules.trap;
        let (alike_max, near) = (trap.pages_alike_max, trap.near_duplicates && shapes != [0, 0]);
        let host = self.bench.host_mut(index);
        host.failures = failures;
        host.unfolded.push(head.path);
        let (floor, later_floor) = self.bench.floors(index);
        let key = UrlKey { host: host_key, path: head.path };
        // A failure of our own, of one address or of one connection says nothing about a feed or a page. A feed that is
        // no longer wanted is not requested again.
        let is_unwanted = report.outcome == Outcome::OutOfScope;
        let next_time = if soon {
            self.next_time(index, &head, next.url, now)
        } else if self.follows(&head) && action != Action::Pause && !is_unwanted {
            let feed = report.feed.as_deref();
            let after =
                self.poll_ended(key, id.0, (report.outcome, report.status), feed, report.retry_after, now)?;
            after.map(|after| self.planned_at(index, head.path, after, now))
        } else {
            match self.visit_ended(index, key, &head, id.0, report, now)? {
                Some(after) => Some(self.planned_at(index, head.path, after, now)),
                None => self.next_time(index, &head, next.url, now),
            }
        };
        if head.asked && report.outcome.class() == Class::Ok {
            let partition = self.partition_of(&host_key).expect("a host on the bench is of a partition here");
            self.partitions[partition].event_context.again(key, id.0, report);
        }
        if !report.listed.is_empty() {
            self.listed(host_key, head.job, &report.listed, now);
        }
        let ended = Ended {
            key,
            fetch: id.0,
            at: now.wall.into(),
            outcome: report.outcome,
            status: report.status,
            digest: report.digest,
            simhash: if near { report.simhash } else { 0 },
            bytes: report.bytes,
            shapes,
            alike_max,
            etag: report.etag.clone(),
            last_modified: report.last_modified.clone(),
            from: head.place.origin(),
            next: next_time,
            retries: next.retries,
            floor,
            later_floor,
            rest_until,
            failures,
            text: head.text,
        };
        self.pend(host_key, Entry::Ended(Box::new(ended)));
        if let Some(partition) = self.partition_of(&host_key) {
            self.partitions[partition].handle_ended(&key);
        }
        if self.bench.host(index).heads.is_empty() {
            if self.bench.host(index).more {
                self.make_hungry(index);
            }
            self.look_again(index, now);
        }
        Ok(())
    }

    /// Whether the reports of a host's open tickets may complete a row of missing pages that causes a long rest.
    fn may_miss_too_many(&self, index: HostIndex) -> bool {
        let host = self.bench.host(index);
        let open = u32::try_from(host.tickets.len()).unwrap_or(u32::MAX);
        let max = self.config.rules.trap.missing_in_row_max;
        max > 0 && host.missing.saturating_add(open) >= max
    }

    /// When to fetch a URL again: by the retry table, or else by its job's schedule.
    fn next_time(&self, index: HostIndex, head: &Head, next: UrlNext, now: Now) -> Option<Seconds> {
        let host = self.bench.host(index);
        let after = match next {
            UrlNext::Again { after } => after,
            UrlNext::Never => return None,
            UrlNext::Done | UrlNext::GiveUp => {
                let partition = self.partition_of(&host.key)?;
                let jobs = &self.partitions[partition].state.meta().jobs;
                jobs.get(&head.job.0)?.schedule.interval()?
            }
        };
        Some(self.planned_at(index, head.path, after, now))
    }

    /// The time of a plan that is due after this wait.
    fn planned_at(&self, index: HostIndex, path: u64, after: Duration, now: Now) -> Seconds {
        let host = self.bench.host(index);
        // Rounded up, so that no plan is due early.
        let due = Seconds::from(Timestamp(now.wall.0 + 999)).plus(after);
        // Never at a place that the reader of plans has passed, even if the clock was set back.
        let passed = LaterKey { due, path } <= host.later_cursor;
        if passed { Seconds(host.later_cursor.due.0.saturating_add(1)) } else { due }
    }

    pub(super) fn pend(&mut self, host: crate::key::HostKey, entry: Entry) {
        let partition = self.partition_of(&host).expect("a host on the bench is of a partition here");
        self.partitions[partition].pending.push(entry);
    }

    /// Ends URLs that were read from a queue and may not be fetched, each with the reason. Call after the other URLs
    /// are loaded, so that the floors are right.
    pub(super) fn turn_away(
        &mut self,
        partition: usize,
        index: HostIndex,
        denied: Vec<(Head, Outcome)>,
        now: Now,
    ) -> Result<(), StateError> {
        if denied.is_empty() {
            return Ok(());
        }
        let host = self.bench.host(index);
        let (host_key, failures) = (host.key, host.failures);
        let rest = self.bench.ready_at(index).saturating_sub(now.mono);
        let unreachable = host.no_address.is_some();
        // A rest without an address is durable: the name is not resolved again right after a restart.
        let rest_until = if unreachable { Timestamp(now.wall.0 + rest) } else { Timestamp(0) };
        let (floor, later_floor) = self.bench.floors(index);
        for (head, outcome) in denied {
            self.stats.turned_away += 1;
            self.stats.robots_denied += u64::from(outcome == Outcome::RobotsDenied);
            let next = retry::next(outcome, head.retries, failures, None, head.path, &self.config.retry);
            let key = UrlKey { host: host_key, path: head.path };
            // There was no fetch; this is no ticket's id, and differs each time.
            let fetch = NO_FETCH | now.wall.0;
            let next_time = match outcome {
                _ if self.follows(&head) && outcome.action() != Action::Pause => {
                    let after = self.poll_ended(key, fetch, (outcome, 0), None, None, now)?;
                    after.map(|after| self.planned_at(index, head.path, after, now))
                }
                Outcome::Cancelled => Some(Seconds::from(now.wall).plus(HELD_AGAIN)),
                _ => self.next_time(index, &head, next.url, now),
            };
            self.bench.host_mut(index).unfolded.push(head.path);
            let ended = Ended {
                key,
                fetch,
                at: now.wall.into(),
                outcome,
                status: 0,
                digest: 0,
                simhash: 0,
                bytes: 0,
                shapes: [0, 0],
                alike_max: 0,
                etag: Box::default(),
                last_modified: Box::default(),
                from: head.place.origin(),
                next: next_time,
                retries: next.retries,
                floor,
                later_floor,
                rest_until,
                failures,
                text: head.text,
            };
            self.partitions[partition].pending.push(Entry::Ended(Box::new(ended)));
            self.partitions[partition].handle_ended(&key);
        }
        Ok(())
    }

    /// Applies the final answer for the robots.txt of a host, after all redirects.
    pub(super) fn robots_answered(
        &mut self,
        index: HostIndex,
        answer: RobotsResult,
        report: RobotsReport,
        now: Now,
    ) -> Result<(), StateError> {
        let host = self.bench.host(index);
        let (key, host_failures) = (host.key, host.failures);
        let partition = self.partition_of(&key).expect("a host on the bench is of a partition here");
        let record = self.partitions[partition].state.host(&key)?.unwrap_or_default();
        let old = record.robots;
        let wall = Seconds::from(now.wall);
        let last_good = old.policy == RobotsPolicy::Rules;
        let since = match old.unreachable_since {
            Seconds(0) => wall,
            // No later than now, even if the clock was wrong at that time.
            since => since.min(wall),
        };
        let unreachable_for = Duration::from_secs(wall.0.saturating_sub(since.0).into());
        let policy = policy::in_force(answer, last_good, unreachable_for, &self.config.robots);
        let answered = !matches!(answer, RobotsResult::Unreachable | RobotsResult::Status(429 | 500..))
            || planted::is(Bug::RobotsErrorAllows);
        let mut body = None;
        let unread = match (answered, answer) {
            (true, _) => None,
            (false, RobotsResult::Status(status)) => Some(Unread::Status(status)),
            (false, RobotsResult::Unreachable | RobotsResult::RedirectLimit) => {
                report.cause.map(Unread::Failed)
            }
        };
        let mut new = RobotsRecord { fetched: wall, unread, ..old };
        new.policy = match policy {
            Policy::Rules => {
                // The stored body is parsed again later, without the knowledge that the body was cut: only whole lines
                // are kept.
                let kept = if report.cut { crate::robots::whole_start(&report.body) } else { report.body };
                let robots = Robots::parse(&kept, &self.config.agent);
                new.crawl_delay = match robots.crawl_delay() {
                    Some(delay) => u32::try_from(delay.as_millis()).unwrap_or(u32::MAX),
                    None => 0,
                };
                body = Some(kept);
                RobotsPolicy::Rules
            }
            Policy::LastRules => RobotsPolicy::Rules,
            Policy::AllowAll => {
                new.crawl_delay = 0;
                RobotsPolicy::AllowAll
            }
            Policy::DisallowAll => RobotsPolicy::DisallowAll,
        };
        let (failures, rest) = if answered {
            new.unreachable_since = Seconds(0);
            new.expires = wall.plus(policy::refetch_after(report.max_age));
            (0, None)
        } else {
            new.unreachable_since = since;
            let salt = key.domain.0 ^ u64::from(key.host);
            let outcome = Outcome::RobotsUnreachable;
            let next = retry::next(outcome, 0, host_failures, report.retry_after, salt, &self.config.retry);
            let rest = next.host_rest.unwrap_or(self.config.retry.back_off_other_first);
            new.expires = match policy {
                // There was no request: the last rules stay valid for as long as before, and are then requested again.
                Policy::LastRules if report.unconnected => old.expires,
                // Older rules stay valid for as long again: first the host rests, then the host is crawled by them.
                Policy::LastRules => wall.plus(rest * 2),
                _ => wall.plus(rest),
            };
            (host_failures.saturating_add(1), Some(rest))
        };
        let given_up = report.cause.filter(|cause| !answered && self.gives_up(*cause, host_failures));
        let rest_until = match (rest, given_up) {
            (Some(rest), Some(cause)) => self.give_up(index, cause, rest, now),
            (Some(rest), None) => self.rest(index, rest, now),
            (None, _) => Timestamp(0),
        };
        self.bench.host_mut(index).failures = failures;
        let read = RobotsRead { host: key, record: new, body, rest_until, failures };
        self.pend(key, Entry::Robots(Box::new(read)));
        Ok(())
    }
}

/// Response time of a server in milliseconds; 0 if there was no connection.
fn slowness(took: Duration, unconnected: bool) -> u64 {
    if unconnected { 0 } else { u64::try_from(took.as_millis()).unwrap_or(u64::MAX) }
}

/// A report without any answer.
pub(super) fn unreachable() -> RobotsReport {
    RobotsReport::of(RobotsResult::Unreachable, Duration::ZERO)
}
