//! From disk to the workbench: hosts with work are loaded, loaded hosts get URLs.

mod scan;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::dates;
use super::heads::Head;
use super::ticket::Place;
use super::workbench::{HostIndex, RobotsPhase};
use super::{FILLS_AT_ONCE, Frontier};
use crate::frontier::feedback::FeedbackReason;
use crate::job;
use crate::key::{HostKey, UrlKey};
use crate::planted::{self, Bug};
use crate::robots::Robots;
use crate::spider::outcome::Outcome;
use crate::state::queue::{LaterKey, QueueKey};
use crate::state::record::{RobotsPolicy, RobotsRecord, UrlRecord, UrlState};
use crate::state::{Planned, Queued, State, StateError};
use crate::time::{Now, Seconds};
use crate::url::CrawlUrl;

/// Memory of a loaded URL besides its text, in bytes.
const HEAD_BYTES: usize = 32;

/// A URL that was read from a queue and not yet judged.
struct Candidate {
    place: Place,
    text: Box<str>,
    path: u64,
}

/// The URLs that may be fetched, and the denied URLs with the reason.
type Judged = (Vec<Head>, Vec<(Head, Outcome)>);

impl<S: State> Frontier<S> {
    /// Gives URLs to hungry hosts. While a group of their partition is in flight they get the URLs that the group does
    /// not touch; hosts without such URLs wait until the group is folded.
    pub(super) fn fill_hungry(&mut self, now: Now) -> Result<(), StateError> {
        #[cfg(feature = "planted")]
        planted::shuffle(&mut self.hungry);
        for _ in 0..self.hungry.len().min(FILLS_AT_ONCE) {
            let Some(index) = self.hungry.pop_front() else { break };
            // The host may have left, and another host may have its number; that host has its own entry if hungry.
            if !self.bench.is_here(index) || !self.bench.host(index).hungry {
                continue;
            }
            let Some(partition) = self.partition_of(&self.bench.host(index).key) else { continue };
            if self.partitions[partition].is_behind() {
                self.partitions[partition].waiting.push(index);
                continue;
            }
            let host = self.bench.host_mut(index);
            host.hungry = false;
            if host.leaving {
                // The host may have been about to leave, and waited for its name or an answer.
                self.look_again(index, now);
                continue;
            }
            if !host.heads.is_empty() {
                continue;
            }
            // Other hosts wait for a place, and this host had its turn.
            if self.starved
                && host.visited
                && host.errands.is_empty()
                && !self.bench.has_room()
                && self.bench.host(index).tickets.is_empty()
            {
                self.bench.host_mut(index).leaving = true;
                self.give_up_place(index, now);
                continue;
            }
            self.fill(partition, index, now)?;
        }
        Ok(())
    }

    /// Reads the next URLs of a host and loads those that may be fetched.
    fn fill(&mut self, partition: usize, index: HostIndex, now: Now) -> Result<(), StateError> {
        let host = self.bench.host(index);
        let unreachable = host.no_address;
        if unreachable.is_some() && !host.given_up {
            // The URLs were not tried; they wait until the host can be reached.
            self.look_again(index, now);
            return Ok(());
        }
        if unreachable.is_none() && !matches!(host.robots, RobotsPhase::Until(_)) {
            // The robots.txt comes first: nothing can be judged without the rules. Its answer makes the host hungry
            // again. The robots.txt is not requested unless there is something to judge: in the queue, or planned and
            // due.
            let due = host.later_next.into_iter().chain(host.room_next).any(|due| due <= now.wall.into());
            let host = self.bench.host_mut(index);
            host.more |= due;
            let nothing = !host.more;
            self.bench.wait(index);
            if nothing {
                self.look_again(index, now);
            }
            return Ok(());
        }
        self.stats.fills += 1;
        let candidates = self.read(partition, index, now)?;
        if candidates.is_empty() && self.partitions[partition].in_flight.is_some() {
            // The unreadable part of the queue may have URLs.
            self.bench.host_mut(index).hungry = true;
            self.partitions[partition].waiting.push(index);
            return Ok(());
        }
        let (heads, denied) = self.judge(partition, index, candidates, unreachable, now)?;
        let turned_away = denied.len();
        if !heads.is_empty() || turned_away > 0 {
            // Skipping ended or parked URLs is no turn yet: the next turn would begin at the same place.
            self.bench.host_mut(index).visited = true;
        }
        self.bench.fill(index, &heads);
        self.turn_away(partition, index, denied, now)?;
        let host = self.bench.host(index);
        if host.heads.is_empty() {
            if host.more && (turned_away > 0 || unreachable.is_none()) {
                // All URLs were denied or gone; there may be more behind them.
                self.make_hungry(index);
            } else {
                self.look_again(index, now);
            }
        }
        Ok(())
    }

    /// Reads the next URLs of a host, due plans first. Moves the cursors past them.
    fn read(&mut self, partition: usize, index: HostIndex, now: Now) -> Result<Vec<Candidate>, StateError> {
        let readable = self.partitions[partition].readable(&self.bench.host(index).key);
        if readable.is_none() {
            self.read_parked_again(partition, index, now)?;
        }
        let max = self.config.frontier.visit_urls_max.max(1);
        let wall = Seconds::from(now.wall);
        let ahead_max = self.plan_ahead_max(partition);
        let state = &mut self.partitions[partition].state;
        let host = self.bench.host(index);
        let (key, origin) = (host.key, host.origin.clone());
        let (mut cursor, mut later_cursor, mut later_next) =
            (host.cursor, host.later_cursor, host.later_next);
        let mut candidates = Vec::new();
        if readable.is_none() && later_next.is_some_and(|due| due <= wall) {
            let mut planned = Vec::new();
            state.planned(&key, later_cursor, max, &mut planned)?;
            let all = planned.len() < max;
            let not_due = planned.iter().position(|planned| planned.place.due > wall);
            later_next = match not_due {
                Some(first) => Some(dates::believed_next(planned[first].place.due, ahead_max, now.wall)),
                None if all => None,
                None => later_next,
            };
            planned.truncate(not_due.unwrap_or(usize::MAX));
            for Planned { place, text } in planned {
                later_cursor = place;
                candidates.push(Candidate { place: Place::Later(place), text, path: 0 });
            }
        }
        let mut more = true;
        if candidates.len() < max {
            let mut queued = Vec::new();
            state.queued(&key, cursor, max - candidates.len(), &mut queued)?;
            more = queued.len() >= max - candidates.len();
            if let Some(end) = readable {
                // URLs left out here, and URLs of the group in flight, are read when the group is folded.
                more = true;
                queued.retain(|queued| queued.place < end);
            }
            for Queued { place, text } in queued {
                cursor = place;
                candidates.push(Candidate { place: Place::Queue(place), text, path: 0 });
            }
        }
        if candidates.is_empty() && readable.is_none() && later_next.is_some() {
            // Plans too far ahead to be real; the cursor stays before the real ones.
            let limit = wall.plus(ahead_max);
            let mut planned = Vec::new();
            state.planned(
                &key,
                later_cursor.max(LaterKey { due: limit, path: u64::MAX }),
                max,
                &mut planned,
            )?;
            if !planned.is_empty() && planned.len() < max {
                // All of those are read here; a real plan may be left.
                let mut real = Vec::new();
                state.planned(&key, later_cursor, 1, &mut real)?;
                later_next = real.first().map(|real| real.place.due).filter(|due| *due <= limit);
            }
            candidates.extend(planned.into_iter().map(|Planned { place, text }| Candidate {
                place: Place::Later(place),
                text,
                path: 0,
            }));
        }
        candidates.retain_mut(|candidate| match CrawlUrl::parse(&[&*origin, &*candidate.text].concat()) {
            Ok(url) => {
                candidate.path = UrlKey::path_of(url.key(), &self.secret);
                true
            }
            Err(_) => false,
        });
        let host = self.bench.host_mut(index);
        (host.cursor, host.later_cursor, host.later_next, host.more) =
            (cursor, later_cursor, later_next, more);
        if host.parked_from.is_none() && readable.is_none() {
            host.room_next = None;
        }
        Ok(candidates)
    }

    /// Decides which candidates may be fetched and which are denied, with the outcome as the reason. When a limit is
    /// reached the cursor moves back, so that the remaining candidates are read again.
    fn judge(
        &mut self,
        partition: usize,
        index: HostIndex,
        candidates: Vec<Candidate>,
        unreachable: Option<Outcome>,
        now: Now,
    ) -> Result<Judged, StateError> {
        let key = self.bench.host(index).key;
        let records = self.records(partition, key, &candidates)?;
        let record = self.partitions[partition].state.host(&key)?.unwrap_or_default();
        let robots = match record.robots.policy {
            RobotsPolicy::Rules => Some(self.rules_of(partition, key, record.robots)?),
            _ => None,
        };
        if record.robots.policy == RobotsPolicy::DisallowAll && unreachable.is_none() {
            // The robots.txt cannot be read: another request for the robots.txt comes before any page.
            if let Some(first) = candidates.iter().find_map(|candidate| candidate.place.queue()) {
                self.stop_reading_at(index, first, true);
            }
            if let Some(first) = candidates.iter().find_map(|candidate| candidate.place.later()) {
                let due = dates::believed_next(first.due, self.plan_ahead_max(partition), now.wall);
                let host = self.bench.host_mut(index);
                host.later_cursor = host.later_cursor.min(first.before());
                host.later_next = Some(host.later_next.map_or(due, |next| next.min(due)));
            }
            self.bench.host_mut(index).robots = RobotsPhase::Wanted;
            return Ok((Vec::new(), Vec::new()));
        }
        let mut room = None;
        let (mut heads, mut denied): (Vec<Head>, Vec<(Head, Outcome)>) = (Vec::new(), Vec::new());
        let mut bytes = 0;
        // Nothing is loaded when more is read, so these are all requests so far.
        let mut pages = self.bench.host(index).pages;
        for candidate in candidates {
            let Candidate { mut place, text, path } = candidate;
            let url = records.get(&path);
            // Never issued twice: not while loaded, being fetched, or ended and not yet folded.
            let held = heads.iter().any(|head| head.path == path)
                || denied.iter().any(|(head, _)| head.path == path)
                || self.bench.holds(index, path)
                || self.bench.host(index).unfolded.contains(&path);
            // Nor from the old place while the group in flight moves the URL, perhaps with another reading.
            if held || self.partitions[partition].is_moving(&UrlKey { host: key, path }) {
                continue;
            }
            match (url.map(|url| url.state), place) {
                (Some(UrlState::Waiting) | None, Place::Queue(_)) => {}
                (Some(UrlState::Later(due)), Place::Later(planned)) if due == planned.due => {}
                (Some(UrlState::Parked), Place::Queue(at)) => {
                    if room.is_none() {
                        room = Some(self.room(partition, key, now)?);
                    }
                    let left = room.as_mut().expect("just asked");
                    if *left == 0 {
                        let next = self.room_next(partition, key)?;
                        let host = self.bench.host_mut(index);
                        host.room_next = next;
                        host.parked_from = Some(host.parked_from.map_or(at, |from| from.min(at)));
                        // URLs that arrived after the reader came this far stand behind this place; otherwise only
                        // parked URLs do.
                        if record.waiting > 0 {
                            continue;
                        }
                        self.stop_reading_at(index, at, false);
                        break;
                    }
                    *left -= 1;
                    place = Place::Parked(at);
                }
                _ => continue,
            }
            let job = url.map_or(job::JobId(0), |url| url.job);
            let head = Head {
                path,
                place,
                job,
                depth: url.map_or(0, |url| url.depth),
                hops: url.map_or_else(Default::default, |url| url.hops),
                read_as: url.map_or_else(Default::default, |url| url.read_as),
                retries: url.map_or(0, |url| url.retries),
                asked: url.is_some_and(UrlRecord::was_asked),
                text,
            };
            if let Some(outcome) = unreachable {
                denied.push((head, outcome));
                continue;
            }
            if self.is_held(partition, job) {
                denied.push((head, Outcome::Cancelled));
                continue;
            }
            if robots.as_ref().is_some_and(|robots| !robots.verdict(&head.text).allowed) {
                denied.push((head, Outcome::RobotsDenied));
                continue;
            }
            if !head.asked && self.is_full(partition, job, pages) {
                denied.push((head, Outcome::LimitReached));
                continue;
            }
            bytes += head.text.len() + HEAD_BYTES;
            if bytes > self.config.frontier.visit_bytes_max && !heads.is_empty() {
                // Plans are few and short; only the queue is cut.
                if let Place::Queue(at) | Place::Parked(at) = head.place {
                    self.stop_reading_at(index, at, true);
                    break;
                }
            }
            pages += u64::from(!head.asked);
            heads.push(head);
        }
        let by_robots = denied.iter().filter(|(_, outcome)| *outcome == Outcome::RobotsDenied).count();
        if by_robots > 0 && robots.is_some_and(|robots| robots.forbids_all()) {
            self.partitions[partition].hot.note(key, FeedbackReason::Robots, by_robots as u64, now.mono);
        }
        Ok((heads, denied))
    }

    /// The rules of a host's robots.txt, under this record.
    fn rules_of(
        &mut self,
        partition: usize,
        host: HostKey,
        record: RobotsRecord,
    ) -> Result<Arc<Robots>, StateError> {
        if let Some(rules) = self.robots.get(&host, &record) {
            return Ok(rules);
        }
        let body = self.partitions[partition].state.robots(&host)?.unwrap_or_default();
        let rules = Arc::new(Robots::parse(&body, &self.config.agent).for_verdicts());
        self.robots.keep(host, record, rules.clone());
        Ok(rules)
    }

    /// Goes back to the skipped parked URLs, if the budget has room now.
    fn read_parked_again(&mut self, partition: usize, index: HostIndex, now: Now) -> Result<(), StateError> {
        let host = self.bench.host(index);
        let Some(from) = host.parked_from else { return Ok(()) };
        if self.room(partition, host.key, now)? > 0 {
            let host = self.bench.host_mut(index);
            host.parked_from = None;
            host.cursor = host.cursor.min(from.before());
        }
        Ok(())
    }

    /// The next reading begins with this place.
    fn stop_reading_at(&mut self, index: HostIndex, place: QueueKey, more: bool) {
        let host = self.bench.host_mut(index);
        host.cursor = host.cursor.min(place.before());
        host.more = more;
    }

    /// The records of these URLs, by the last part of their keys.
    fn records(
        &mut self,
        partition: usize,
        host: HostKey,
        candidates: &[Candidate],
    ) -> Result<BTreeMap<u64, UrlRecord>, StateError> {
        let mut keys: Vec<UrlKey> =
            candidates.iter().map(|candidate| UrlKey { host, path: candidate.path }).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut found = Vec::with_capacity(keys.len());
        self.partitions[partition].state.urls(&keys, &mut found)?;
        Ok(keys.into_iter().zip(found).filter_map(|(key, record)| Some((key.path, record?))).collect())
    }

    /// Number of parked URLs of a domain that may be fetched now.
    fn room(&mut self, partition: usize, host: HostKey, now: Now) -> Result<u64, StateError> {
        let Some(domain) = self.partitions[partition].state.domain(host.domain)? else { return Ok(0) };
        let allowed =
            self.config.rules.budget.allowed(domain.found.0, Seconds::from(now.wall).0, domain.budget);
        Ok(crate::budget::room(domain.admitted, allowed))
    }

    /// When time alone admits the next parked URL of a domain.
    fn room_next(&mut self, partition: usize, host: HostKey) -> Result<Option<Seconds>, StateError> {
        let Some(domain) = self.partitions[partition].state.domain(host.domain)? else { return Ok(None) };
        let budget = &self.config.rules.budget;
        Ok(budget.grows_at(domain.found.0, domain.admitted, domain.budget).map(Seconds))
    }

    /// Whether the job of a URL is not running.
    fn is_held(&self, partition: usize, job: job::JobId) -> bool {
        let jobs = &self.partitions[partition].state.meta().jobs;
        jobs.get(&job.0).is_some_and(|job| job.state != job::State::Running)
    }

    /// Whether a job has reached its page limit for a host with this number of pages. Pages of other jobs count as
    /// well: the limit protects the host.
    fn is_full(&self, partition: usize, job: job::JobId, host_pages: u64) -> bool {
        let counts = job::Counts { host_pages, ..job::Counts::default() };
        let jobs = &self.partitions[partition].state.meta().jobs;
        jobs.get(&job.0).is_some_and(|job| job.limits.reached(&counts) == Some(job::Limit::HostPages))
    }

    /// New robots.txt rules are in force for a host: the loaded URLs are judged again.
    pub(super) fn robots_in_force(
        &mut self,
        partition: usize,
        index: HostIndex,
        now: Now,
    ) -> Result<(), StateError> {
        let key = self.bench.host(index).key;
        self.partitions[partition].hot.forget(key, key);
        let record = self.partitions[partition].state.host(&key)?.unwrap_or_default();
        self.bench.host_mut(index).robots = super::after::robots_phase(&record, &self.config.retry, now);
        self.bench.set_rest_asked(index, record.delay.max(record.robots.crawl_delay));
        self.strand_if_long(index, now);
        // The URLs are read again and judged by the new rules.
        if !planted::is(Bug::RobotsNotJudgedAgain) {
            self.bench.drop_heads(index);
        }
        self.bench.host_mut(index).more = true;
        self.make_hungry(index);
        self.look_again(index, now);
        Ok(())
    }
}
