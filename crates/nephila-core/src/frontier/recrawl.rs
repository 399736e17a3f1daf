//! Adaptive recrawl: pages are visited again according to how often they change. Evaluates a visit, schedules the next
//! one, and chooses the kind of request.
//!
//! Invariants: a visit is written before its outcome, in the same group; pages of jobs with another schedule cost
//! nothing here; a site's claim about a change brings a page forward within limits, and never delays one. A claim is
//! only a hint: claims beyond the capacity are dropped.

use std::collections::VecDeque;
use std::time::Duration;

use super::Frontier;
use super::heads::Head;
use super::offers::Offer;
use super::partition::Partition;
use super::ticket::{HeadFirst, HeadSaid, Report};
use super::workbench::HostIndex;
use crate::entry::Entry;
use crate::job::{JobId, Schedule};
use crate::key::{HostKey, UrlKey};
use crate::recrawl::claims::{Forward, Listed, PENDING_MAX, book, free_from, is_large};
use crate::recrawl::trust::{Ask, HEAD_BYTES_MIN, Known, VisitResult};
use crate::recrawl::visited::Visited;
use crate::recrawl::{Settings, interval};
use crate::spider::outcome::{Class, Outcome};
use crate::state::record::{HostRecord, UrlRecord, UrlState};
use crate::state::{State, StateError};
use crate::time::{Now, Seconds};

/// A page has more likely than not changed when this number of changes is expected since the last visit: one minus e to
/// the minus this is a half.
const LIKELY_CHANGES: f64 = 0.693;

/// A claimed change further in the future is an error of the site, in seconds: clocks and time zones differ by a day.
const FUTURE_MAX: u32 = 86_400;

/// A host booked further ahead, in seconds, has enough scheduled visits; its claims are ignored.
const BOOKED_MAX: u32 = 86_400;

/// A `HEAD` request is sent before the page only if the rest between the two is shorter: during that rest the ticket
/// stays open, and host, address and turn wait with the ticket.
const HEAD_REST_MAX: Duration = Duration::from_secs(5);

/// Maximum number of undecided claims about pages in one partition: more than the largest possible sitemap has. About a
/// megabyte.
pub(crate) const LISTED_WAITING_MAX: usize = 65_536;

/// Maximum number of such pages that are looked up for one group. The others wait for the next: look-ups share the disk
/// with the fetches.
pub(crate) const LOOKUPS_MAX: usize = 8_192;

/// Pages looked up at once, before the need for more is known.
const LOOKUPS_AT_ONCE: usize = 512;

/// Undecided claims of sites about their pages, at most [`LISTED_WAITING_MAX`] pages.
#[derive(Debug, Default)]
pub(crate) struct LastmodQueue {
    answers: VecDeque<VisitAnswer>,
    /// Number of pages in all answers.
    pages: usize,
}

/// The claims of one answer.
#[derive(Debug)]
struct VisitAnswer {
    host: HostKey,
    /// The pages that were not looked up yet, the next ones last.
    pages: Vec<Listed>,
    /// Number of pages of this answer that were brought forward.
    brought: usize,
}

impl LastmodQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.answers.is_empty()
    }

    /// Number of waiting pages.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.pages
    }

    /// Takes the claims of an answer, as far as there is room.
    fn push(&mut self, host: HostKey, listed: &[Listed], now: Now) {
        let room = LISTED_WAITING_MAX.saturating_sub(self.pages);
        if room == 0 {
            return;
        }
        let pages = prepared(listed, room, now);
        if !pages.is_empty() {
            self.pages += pages.len();
            self.answers.push_back(VisitAnswer { host, pages, brought: 0 });
        }
    }

    /// Puts the rest of an answer before the others.
    fn put_back(&mut self, answer: VisitAnswer) {
        if !answer.pages.is_empty() {
            self.pages += answer.pages.len();
            self.answers.push_front(answer);
        }
    }

    /// Removes the answer that is to be decided next.
    fn pop(&mut self) -> Option<VisitAnswer> {
        let answer = self.answers.pop_front()?;
        self.pages -= answer.pages.len();
        Some(answer)
    }
}

/// The pages of an answer, each once, without impossible times, and at most `room` of them.
fn prepared(listed: &[Listed], room: usize, now: Now) -> Vec<Listed> {
    let future = Seconds::from(now.wall).0.saturating_add(FUTURE_MAX);
    let mut pages: Vec<Listed> =
        listed.iter().copied().filter(|listed| listed.modified.0 <= future).collect();
    pages.sort_unstable();
    // The latest of several claims about one page counts.
    pages.dedup_by(|later, kept| {
        let same = later.path == kept.path;
        if same {
            kept.modified = kept.modified.max(later.modified);
        }
        same
    });
    turn(&mut pages, now);
    pages.truncate(room);
    // Pages that were left out take no memory while the others wait.
    pages.shrink_to_fit();
    pages
}

/// Rotates a list by the current time. So a doubted site is not judged by always the same page, and the pages dropped
/// for lack of room vary.
fn turn<T>(list: &mut [T], now: Now) {
    if !list.is_empty() {
        list.rotate_left(now.wall.0 as usize % list.len());
    }
}

/// Whether a host is booked so far ahead that its claims do not count.
fn is_booked_out(booked: Seconds, today: Seconds) -> bool {
    free_from(booked, today).0 > today.0.saturating_add(BOOKED_MAX)
}

impl<S: State> Frontier<S> {
    /// Whether a `HEAD` request may precede the page. Both are requests of one ticket. After a failure the page itself
    /// is requested: the `HEAD` request may be the cause of the failure.
    pub(super) fn may_ask_by_head(&self, index: HostIndex, retries: u8) -> bool {
        let (host_rest, slot_rest) = self.bench.rests(index);
        retries == 0 && self.bench.is_alone(index) && host_rest.max(slot_rest) < HEAD_REST_MAX
    }

    /// How to request a page that was fetched before: whether to request the full page unconditionally, and whether to
    /// send a `HEAD` request first, if `by_head` allows one.
    pub(super) fn how_to_ask(
        &mut self,
        partition: usize,
        key: &UrlKey,
        job: JobId,
        chance: u64,
        by_head: bool,
        now: Now,
    ) -> Result<(bool, HeadFirst), StateError> {
        let state = &mut self.partitions[partition].state;
        if adaptive(state, job).is_none() {
            return Ok((false, HeadFirst::No));
        }
        let host = state.host(&key.host)?.unwrap_or_default();
        let body_bytes = if by_head && host.claims.has_large_pages() { HEAD_BYTES_MIN } else { 0 };
        // Most hosts are decided without reading the page's own record.
        let likely_changed = body_bytes > 0 && host.trust.ignores() && {
            let record = state.url(key)?;
            let since = record
                .as_ref()
                .and_then(|record| record.last.as_ref())
                .map_or(0, |last| Seconds::from(now.wall).0.saturating_sub(last.at.0));
            record.is_some_and(|record| record.seen.rate(&host.site) * f64::from(since) > LIKELY_CHANGES)
        };
        let page = Known { validators: true, body_bytes, likely_changed };
        Ok(match host.trust.ask(&page, chance) {
            Ask::Head => (false, HeadFirst::Instead),
            Ask::Conditional => (false, HeadFirst::No),
            // The answer to a `HEAD` request is verified like a 304.
            Ask::Get
                if host.trust.is_believed() && host.trust.ignores() && body_bytes > 0 && !likely_changed =>
            {
                (false, HeadFirst::Check)
            }
            Ask::Get => (true, HeadFirst::No),
        })
    }

    /// A page was fetched: returns the time until the next visit, if the job has the adaptive schedule. A failure is no
    /// visit, and follows the retry table.
    pub(super) fn visit_ended(
        &mut self,
        index: HostIndex,
        key: UrlKey,
        head: &Head,
        fetch: u64,
        report: &Report,
        now: Now,
    ) -> Result<Option<Duration>, StateError> {
        let Some(partition) = self.partition_of(&key.host) else { return Ok(None) };
        let Some(settings) = adaptive(&self.partitions[partition].state, head.job) else { return Ok(None) };
        let unchanged = report.outcome == Outcome::NotModified;
        if report.outcome.class() != Class::Ok || report.outcome == Outcome::Redirect {
            return Ok(None);
        }
        let state = &mut self.partitions[partition].state;
        let Some(record) = state.url(&key)? else { return Ok(None) };
        let host = state.host(&key.host)?.unwrap_or_default();
        let (mut seen, mut site) = (record.seen, host.site);
        let today = Seconds::from(now.wall);
        // From the workbench: another visit may have booked time and not be folded yet.
        let booked = self.bench.host(index).booked;
        if let Some(last) = record.last.filter(|last| last.digest != 0 || unchanged) {
            let since = today.0.saturating_sub(last.at.0);
            let changed = !unchanged && report.digest != last.digest;
            let visit = seen.visit(Duration::from_secs(since.into()), changed, &site);
            let same_validators = report.etag == last.etag && report.last_modified == last.last_modified;
            let has_validators = !last.etag.is_empty() || !last.last_modified.is_empty();
            let ask = match report.head {
                Some(_) => Ask::Head,
                None if report.conditional => Ask::Conditional,
                None => Ask::Get,
            };
            let found = match report.head {
                _ if unchanged => VisitResult::Unchanged,
                // The `HEAD` answer hid a change, or there is none to be had: as bad as a wrong 304.
                Some(HeadSaid::Unchanged) if changed => VisitResult::Whole { changed, same_validators: true },
                Some(HeadSaid::Nothing) => VisitResult::Whole { changed: true, same_validators: true },
                _ => VisitResult::Whole { changed, same_validators },
            };
            seen.take(visit);
            site.take(visit);
            let claim = has_validators.then_some((ask, found));
            let large = (!unchanged).then(|| is_large(report.bytes));
            let takes = settings.host_visit_seconds();
            let until = (takes > 0).then(|| book(booked, today, takes));
            self.bench.host_mut(index).booked = until.unwrap_or(booked);
            self.pend(key.host, Entry::Visited(Visited { key, fetch, visit, claim, large, booked: until }));
        }
        // Not before the host has free time.
        let free = Duration::from_secs(free_from(booked, today).0.saturating_sub(today.0).into());
        Ok(interval(&settings, &seen, &site, settings.price_first()).map(|wait| wait.max(free)))
    }

    /// Takes the claims of a sitemap or feed about changed pages of a host. The claims are decided with the next
    /// groups, if there is room and the host has not enough scheduled visits.
    pub(super) fn listed(&mut self, host: HostKey, job: JobId, listed: &[Listed], now: Now) {
        let Some(partition) = self.partition_of(&host) else { return };
        let booked = self.bench.index(&host).map_or(Seconds(0), |index| self.bench.host(index).booked);
        let partition = &mut self.partitions[partition];
        if adaptive(&partition.state, job).is_some() && !is_booked_out(booked, now.wall.into()) {
            partition.listed.push(host, listed, now);
        }
    }
}

impl<S: State> Partition<S> {
    /// Decides about the claims of sites and returns the entries to write. The pages themselves are then among the
    /// offers. Claims beyond the capacity of one group, or of the offers, are decided with the next.
    pub(super) fn decide_listed(&mut self, offers_max: usize, now: Now) -> Result<Vec<Entry>, StateError> {
        let mut entries = Vec::new();
        let mut lookups = LOOKUPS_MAX;
        loop {
            // Each page that is looked up is at most one more offer.
            let room = offers_max.saturating_sub(self.offers.len()).min(lookups);
            if room == 0 {
                break;
            }
            let Some(mut answer) = self.listed.pop() else { break };
            // The host is looked up as well.
            lookups -= 1;
            let Some(site) = self.state.host(&answer.host)? else { continue };
            if is_booked_out(site.claims.booked(), now.wall.into()) {
                continue;
            }
            let before = answer.pages.len();
            let mut paths = self.bring_forward(&mut answer, &site, room, now)?;
            lookups = lookups.saturating_sub(before - answer.pages.len());
            if !paths.is_empty() {
                self.sifted.forward += paths.len() as u64;
                paths.truncate(PENDING_MAX);
                entries.push(Entry::Forward(Box::new(Forward { host: answer.host, paths })));
            }
            if answer.brought < site.claims.forward_max() {
                self.listed.put_back(answer);
            }
        }
        Ok(entries)
    }

    /// Looks up at most `max` pages of an answer, until the answer has brought forward as many as allowed. Returns the
    /// pages that were brought forward.
    fn bring_forward(
        &mut self,
        answer: &mut VisitAnswer,
        site: &HostRecord,
        max: usize,
        now: Now,
    ) -> Result<Vec<u64>, StateError> {
        let (mut paths, mut left) = (Vec::new(), max);
        while left > 0 && !answer.pages.is_empty() && answer.brought < site.claims.forward_max() {
            let count = answer.pages.len().min(left).min(LOOKUPS_AT_ONCE);
            left -= count;
            let mut slice = answer.pages.split_off(answer.pages.len() - count);
            slice.sort_unstable();
            let keys: Vec<UrlKey> =
                slice.iter().map(|listed| UrlKey { host: answer.host, path: listed.path }).collect();
            let mut records = Vec::with_capacity(count);
            self.state.urls(&keys, &mut records)?;
            let mut pages: Vec<_> = keys.into_iter().zip(slice).zip(records).collect();
            turn(&mut pages, now);
            for ((key, listed), record) in pages {
                if answer.brought >= site.claims.forward_max() {
                    break;
                }
                let older = record.filter(|record| self.is_older(record, listed, now));
                let Some(record) = older else { continue };
                let Some(text) = &record.text else { continue };
                self.offer_again(Offer { key, origin: &site.origin, text, want: &record.want() });
                answer.brought += 1;
                paths.push(key.path);
            }
        }
        Ok(paths)
    }

    /// Whether the stored copy of a page is older than the claimed change, and the page may be visited now.
    fn is_older(&self, record: &UrlRecord, listed: Listed, now: Now) -> bool {
        let today = Seconds::from(now.wall);
        let waits = match record.state {
            UrlState::Later(due) => due > today,
            UrlState::Ended => true,
            _ => false,
        };
        let Some(last) = record.last.as_ref().filter(|_| waits && record.read_as.is_content()) else {
            return false;
        };
        let Some(settings) = adaptive(&self.state, record.job) else { return false };
        let since = Duration::from_secs(today.0.saturating_sub(last.at.0).into());
        last.at < listed.modified && since >= settings.interval_min
    }
}

/// The settings of the adaptive schedule of a job, if the job has that schedule.
fn adaptive<S: State>(state: &S, job: JobId) -> Option<Settings> {
    match state.meta().jobs.get(&job.0)?.schedule {
        Schedule::Adaptive(settings) => Some(settings),
        Schedule::Once | Schedule::Every(_) => None,
    }
}
