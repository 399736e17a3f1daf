//! Offers of known URLs: the change that each of them makes.
//!
//! Most offers of known URLs change nothing and are dropped (deduplication). Some bring a URL to the front, or back.
//! Some change how the URL is read: a user now follows the URL as a feed, or a feed names the URL as a story. A URL that
//! waits for a job that does not run belongs to the running job that offers it from then on.
//!
//! Invariant: a loaded URL and a URL under way are counted by their outcome alone; no offer of such a URL changes a
//! count.

use std::collections::{BTreeMap, BTreeSet};

use super::{Partition, URGENT};
use crate::frontier::Frontier;
use crate::frontier::offers::{Buffered, Offer};
use crate::frontier::workbench::Workbench;
use crate::handler::ReadAs;
use crate::job::{JobId, State as JobState};
use crate::key::UrlKey;
use crate::planted::{self, Bug};
use crate::spider::outcome::Outcome;
use crate::state::record::{UrlRecord, UrlState};
use crate::state::{State, StateError};
use crate::url::CrawlUrl;

/// The change that an offer of a known URL makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// The URL is kept as a key alone.
    Bare,
    /// The URL is parked and stays parked: the budget decides. Once there is room, the new properties apply.
    Parked,
    /// The URL waits, and is wanted sooner or is to be read differently.
    Sooner,
    /// The URL has ended or is planned for later, and is wanted now. Or the URL waits, and is followed from now on, or
    /// belongs to another job from now on.
    Now,
}

impl<S: State> Partition<S> {
    /// The known URLs that an offer changes: urgent URLs further back in the queue, URLs to be read differently, URLs of
    /// jobs that do not run, and URLs kept as keys alone.
    pub(super) fn offered_again(
        &mut self,
        items: &[Buffered],
        known: &[bool],
        bench: &Workbench,
    ) -> Result<BTreeMap<usize, Again>, StateError> {
        let mut asked = Vec::new();
        let idle = self.idle_jobs();
        for (i, item) in items.iter().enumerate() {
            if known[i]
                && (item.again
                    || item.want.priority == URGENT
                    || !(idle.is_empty() || self.is_stopped(item.want.job))
                    || self.bare.contains(&item.key.host.domain))
            {
                asked.push(i);
            }
        }
        let mut again = BTreeMap::new();
        if asked.is_empty() {
            return Ok(again);
        }
        let keys: Vec<UrlKey> = asked.iter().map(|&i| items[i].key).collect();
        let mut records = Vec::with_capacity(keys.len());
        self.state.urls(&keys, &mut records)?;
        for (i, record) in asked.into_iter().zip(records) {
            let (Some(record), item) = (record, &items[i]) else { continue };
            let added = is_added(item, &record);
            let here = bench.ordinary(&item.key.host);
            let is_held = here.is_some_and(|index| bench.holds(index, item.key.path));
            if (item.again || added) && !planted::is(Bug::UnderWayIsWanted) {
                // The outcome stands before this offer in the same group, even if the state does not show the outcome
                // yet.
                if here.is_some_and(|index| bench.host(index).unfolded.contains(&item.key.path)) {
                    again.insert(i, Again::Now);
                    continue;
                }
                // A fetch under way may return an older version than wanted. A loaded URL is fetched after now, but
                // with its old properties.
                let is_fetching = here.is_some_and(|index| bench.is_fetching(index, item.key.path));
                if is_fetching || (added && is_held) {
                    self.want_once_more(item);
                    if !added {
                        continue;
                    }
                }
            }
            let is_idle = idle.contains(&record.job) && !self.is_stopped(item.want.job);
            let change = match added {
                true => as_feed(record.state, is_held),
                false if is_idle => taken_over(&record, is_held),
                false => as_it_is(item, &record, is_held),
            };
            again.extend(change.map(|change| (i, change)));
        }
        Ok(again)
    }

    /// The jobs that do not run and have URLs left.
    fn idle_jobs(&self) -> BTreeSet<JobId> {
        let meta = self.state.meta();
        let idle = meta.jobs.iter().filter(|(_, job)| job.state != JobState::Running);
        let left = |id: &u32| meta.totals.open.get(id).is_some_and(|open| *open > 0);
        idle.filter(|(id, _)| left(id)).map(|(id, _)| JobId(*id)).collect()
    }

    /// Whether a job that is known does not run. What it offers, another may want.
    pub(in crate::frontier) fn is_stopped(&self, job: JobId) -> bool {
        self.state.meta().jobs.get(&job.0).is_some_and(|job| job.state != JobState::Running)
    }
}

impl<S: State> Frontier<S> {
    /// Requests a fetched page once more with the same properties, because the stored copy is lost or another job wants
    /// the page: then for that job. Returns the number of its partition; `None` if the page is not known.
    pub fn fetch_again(&mut self, url: &CrawlUrl, job: Option<JobId>) -> Result<Option<usize>, StateError> {
        let mut key = self.key(url);
        key.host = self.host_key(url).unwrap_or(key.host);
        let Some(number) = self.partition_of(&key.host) else { return Ok(None) };
        let partition = &mut self.partitions[number];
        let Some(record) = partition.state.url(&key)? else { return Ok(None) };
        let origin = url.origin();
        // A URL whose text is not kept was never fetched.
        let Some(text) = &record.text else { return Ok(None) };
        let mut want = record.want();
        want.job = job.unwrap_or(want.job);
        partition.offer_again(Offer { key, origin, text, want: &want });
        Ok(Some(number))
    }
}

/// Whether the offer follows a URL as a feed that was not followed before.
fn is_added(item: &Buffered, record: &UrlRecord) -> bool {
    // A feed that was removed, or that its job rejected, may be added again.
    let is_removed = record.state == UrlState::Ended
        && record.last.as_ref().is_some_and(|last| last.outcome == Outcome::OutOfScope);
    let is_followed = record.depth == 0 && record.read_as == ReadAs::Feed && !is_removed;
    item.want.read_as == ReadAs::Feed && item.want.depth == 0 && !is_followed
}

/// The change for a URL that is followed from now on. The change is written even if the URL is loaded: if its outcome
/// is lost, the next owner that replays the log fetches the URL with the new properties.
fn as_feed(state: UrlState, is_held: bool) -> Option<Again> {
    match state {
        UrlState::Waiting => Some(Again::Now),
        UrlState::Parked => Some(Again::Parked),
        UrlState::ParkedBare => Some(Again::Bare),
        // A queued URL would be counted there, while its outcome still removes the plan. So only the reading and the
        // depth are written.
        UrlState::Ended | UrlState::Later(_) if is_held => Some(Again::Sooner),
        UrlState::Ended | UrlState::Later(_) => Some(Again::Now),
        UrlState::Refused(_) => None,
    }
}

/// The change for a URL of a job that does not run, which a running job offers. A URL under way ends as it is, and one
/// that failed is not tried sooner than planned.
fn taken_over(record: &UrlRecord, is_held: bool) -> Option<Again> {
    // Planned for later only because its job does not run.
    let was_denied = record.last.as_ref().is_some_and(|last| last.outcome == Outcome::Cancelled);
    match record.state {
        UrlState::Waiting => Some(Again::Now),
        UrlState::Later(_) if was_denied && !is_held => Some(Again::Now),
        UrlState::Parked => Some(Again::Parked),
        UrlState::ParkedBare => Some(Again::Bare),
        UrlState::Later(_) | UrlState::Ended | UrlState::Refused(_) => None,
    }
}

/// The change for an offer that does not add a feed.
fn as_it_is(item: &Buffered, record: &UrlRecord, is_held: bool) -> Option<Again> {
    // A page found by a link may be the story of a feed, even if the page was urgent before.
    let is_read_anew = item.want.priority == URGENT && item.want.read_as > record.read_as;
    match record.state {
        UrlState::ParkedBare => Some(Again::Bare),
        UrlState::Parked if is_read_anew => Some(Again::Parked),
        UrlState::Waiting if record.priority > item.want.priority || is_read_anew => Some(Again::Sooner),
        UrlState::Ended | UrlState::Later(_) if item.again && !is_held => Some(Again::Now),
        _ => None,
    }
}
