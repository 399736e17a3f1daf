//! Offers of URLs that are known already: what each of them changes.
//!
//! Most change nothing and fall away. Some bring a URL to the front, or back; some say that it is to be read in another
//! way: somebody follows it as a feed now, or a feed names it as a story.
//!
//! What always holds: what is at hand or being fetched is counted by its outcome alone; no offer of it changes a
//! count.

use std::collections::BTreeMap;

use super::{Partition, URGENT};
use crate::frontier::Frontier;
use crate::frontier::key::UrlKey;
use crate::frontier::offers::{Buffered, Offer};
use crate::frontier::workbench::Workbench;
use crate::handler::ReadAs;
use crate::planted::{self, Bug};
use crate::spider::outcome::Outcome;
use crate::state::record::{UrlRecord, UrlState};
use crate::state::{State, StateError};
use crate::url::CrawlUrl;

/// What an offer of a known URL changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// It is kept as a key alone.
    Bare,
    /// It is parked and stays so: the budget has the last word. Once there is room, it comes as what it is now.
    Parked,
    /// It waits, and is wanted sooner, or is to be read in another way.
    Sooner,
    /// It has ended, or is planned for later, and is wanted now. Or it waits, and is followed from now on.
    Now,
}

impl<S: State> Partition<S> {
    /// Known URLs that an offer changes: urgent ones further behind in the queue, those to be read in another way, and
    /// those kept as keys alone.
    pub(super) fn offered_again(
        &mut self,
        items: &[Buffered],
        known: &[bool],
        bench: &Workbench,
    ) -> Result<BTreeMap<usize, Again>, StateError> {
        let mut asked = Vec::new();
        for (i, item) in items.iter().enumerate() {
            if known[i]
                && (item.again || item.priority == URGENT || self.bare.contains(&item.key.host.domain))
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
                // Its outcome stands before this in the same group, whatever the state still says.
                if here.is_some_and(|index| bench.host(index).unfolded.contains(&item.key.path)) {
                    again.insert(i, Again::Now);
                    continue;
                }
                // What is being fetched may be older than what is wanted; what is at hand is fetched later than now, but
                // as what it was.
                let is_fetching = here.is_some_and(|index| bench.is_fetching(index, item.key.path));
                if is_fetching || (added && is_held) {
                    self.want_once_more(item);
                    if !added {
                        continue;
                    }
                }
            }
            let change = match added {
                true => as_feed(record.state, is_held),
                false => as_it_is(item, &record, is_held),
            };
            again.extend(change.map(|change| (i, change)));
        }
        Ok(again)
    }
}

impl<S: State> Frontier<S> {
    /// A page that was fetched is wanted once more, as what it was: what was kept of it is lost. Says which partition has
    /// it; none if it is not known.
    pub fn fetch_again(&mut self, url: &CrawlUrl) -> Result<Option<usize>, StateError> {
        let mut key = UrlKey::of(url, self.secret());
        key.host = self.host_key(url).unwrap_or(key.host);
        let Some(number) = self.partition_of(&key.host) else { return Ok(None) };
        let partition = &mut self.partitions[number];
        let Some(record) = partition.state.url(&key)? else { return Ok(None) };
        let origin = url.origin();
        let Some(offer) = Offer::again(key, &origin, &record) else { return Ok(None) };
        partition.offer_again(offer);
        Ok(Some(number))
    }
}

/// Does somebody want to follow what was no such feed before?
fn is_added(item: &Buffered, record: &UrlRecord) -> bool {
    // A feed that was removed, or that its job did not want, may be wanted again.
    let is_removed = record.state == UrlState::Ended
        && record.last.as_ref().is_some_and(|last| last.outcome == Outcome::OutOfScope);
    let is_followed = record.depth == 0 && record.read_as == ReadAs::Feed && !is_removed;
    item.read_as == ReadAs::Feed && item.depth == 0 && !is_followed
}

/// What is written down of a URL that is followed from now on. It is written also if the URL is at hand: should its
/// outcome be lost, whoever reads the log next fetches it as what it is now.
fn as_feed(state: UrlState, is_held: bool) -> Option<Again> {
    match state {
        UrlState::Waiting => Some(Again::Now),
        UrlState::Parked => Some(Again::Parked),
        UrlState::ParkedBare => Some(Again::Bare),
        // In the queue it would be counted there, and its outcome still takes it from the plans. So only its reading and its
        // depth are written down.
        UrlState::Ended | UrlState::Later(_) if is_held => Some(Again::Sooner),
        UrlState::Ended | UrlState::Later(_) => Some(Again::Now),
        UrlState::Refused(_) => None,
    }
}

/// What an offer changes of a URL that is followed already, or not to be.
fn as_it_is(item: &Buffered, record: &UrlRecord, is_held: bool) -> Option<Again> {
    // A page that a link found may be the story of a feed, also if it was urgent before.
    let is_read_anew = item.priority == URGENT && item.read_as > record.read_as;
    match record.state {
        UrlState::ParkedBare => Some(Again::Bare),
        UrlState::Parked if is_read_anew => Some(Again::Parked),
        UrlState::Waiting if record.priority > item.priority || is_read_anew => Some(Again::Sooner),
        UrlState::Ended | UrlState::Later(_) if item.again && !is_held => Some(Again::Now),
        _ => None,
    }
}
