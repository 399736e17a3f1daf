//! Additional facts for readers of the log, besides the decisions: see [`EventContext`].
//!
//! While entries are pending, this module notes which fetches were of known pages, and which stories a feed had. When
//! the group is made, the rest is looked up: the names of its hosts, on the workbench or in the state, and the earlier
//! digests of these pages. Refused hosts are in neither: their names are noted when the refusal is decided.
//!
//! Invariant: a group has at most one event context, as its last entry, and none if the group has nothing to tell.

use std::collections::{BTreeMap, BTreeSet};

use super::ticket::Report;
use super::workbench::Workbench;
use crate::entry::event_context::EventContext;
use crate::entry::{Admission, Entry, HostChange};
use crate::feed::record::NewStory;
use crate::key::{HostKey, UrlKey};
use crate::spider::outcome::Outcome;
use crate::state::{State, StateError};
use crate::time::Now;

/// Facts noted while entries are pending.
#[derive(Debug, Default)]
pub(crate) struct EventContextBuilder {
    /// Fetches of pages that were fetched before.
    again: Vec<(UrlKey, u64, Seen)>,
    stories: Vec<(u64, Vec<NewStory>)>,
    /// The origins of refused hosts. At most one for each host of the group.
    refused: BTreeMap<HostKey, Box<str>>,
}

/// The content that a fetch found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// The server says that the page is unchanged.
    Unchanged,
    /// A page with this digest.
    Digest(u64),
}

impl EventContextBuilder {
    /// A page that was fetched before was fetched again.
    pub(crate) fn again(&mut self, key: UrlKey, fetch: u64, report: &Report) {
        let seen = match report.outcome {
            Outcome::NotModified => Seen::Unchanged,
            _ if report.digest != 0 => Seen::Digest(report.digest),
            _ => return,
        };
        self.again.push((key, fetch, seen));
    }

    /// A feed had new stories.
    pub(crate) fn stories(&mut self, fetch: u64, stories: &[NewStory]) {
        self.stories.push((fetch, stories.to_vec()));
    }

    /// A host was refused, and with the host all its URLs.
    pub(crate) fn refused(&mut self, host: HostKey, origin: &str) {
        self.refused.insert(host, origin.into());
    }

    /// The event context of these entries, if there is anything to tell.
    pub(crate) fn of<S: State>(
        self,
        entries: &[Entry],
        state: &mut S,
        bench: &Workbench,
        now: Now,
    ) -> Result<Option<EventContext>, StateError> {
        let (mut hosts, mut tells) = (BTreeSet::new(), false);
        for entry in entries {
            match entry {
                Entry::Found(found) => {
                    for host in &found.hosts {
                        let is_refused = |admission| matches!(admission, Admission::Refuse(_));
                        let refused = host.urls.iter().any(|url| is_refused(url.admission));
                        tells |= refused || host.origin.is_some();
                        if refused && host.origin.is_none() && !self.refused.contains_key(&host.key) {
                            hosts.insert(host.key);
                        }
                    }
                }
                Entry::Ended(ended) => _ = hosts.insert(ended.key.host),
                Entry::Robots(read) => _ = hosts.insert(read.host),
                Entry::Polled(polled) => _ = hosts.insert(polled.key.host),
                Entry::Host(
                    HostChange::Stop(host, _) | HostChange::Resume(host) | HostChange::Delay(host, _),
                ) => _ = hosts.insert(*host),
                Entry::Domain(_) | Entry::Job(_) | Entry::JobRemoved(_) | Entry::Streamed(_) => tells = true,
                Entry::Inbox { .. }
                | Entry::Split(_)
                | Entry::Stream(_)
                | Entry::Visited(_)
                | Entry::Forward(_)
                | Entry::Sighted(_)
                | Entry::Spread(_)
                | Entry::EventContext(_) => {}
            }
        }
        if hosts.is_empty() && !tells {
            return Ok(None);
        }
        let (origins, stories) = (self.refused, self.stories);
        let mut context = EventContext { at: now.wall.into(), origins, stories, ..EventContext::default() };
        let mut elsewhere: Vec<HostKey> = Vec::new();
        for host in hosts {
            match bench.index(&host) {
                Some(index) => _ = context.origins.insert(host, bench.host(index).origin.clone()),
                None => elsewhere.push(host),
            }
        }
        if !elsewhere.is_empty() {
            let mut records = Vec::with_capacity(elsewhere.len());
            state.hosts(&elsewhere, &mut records)?;
            for (host, record) in elsewhere.into_iter().zip(records) {
                let origin = record.map(|record| record.origin).filter(|origin| !origin.is_empty());
                context.origins.extend(origin.map(|origin| (host, origin)));
            }
        }
        if !self.again.is_empty() {
            let mut again = self.again;
            again.sort_unstable_by_key(|(key, fetch, _)| (*key, *fetch));
            let mut keys: Vec<UrlKey> = again.iter().map(|(key, ..)| *key).collect();
            keys.dedup();
            let mut records = Vec::with_capacity(keys.len());
            state.urls(&keys, &mut records)?;
            for (key, fetch, seen) in again {
                let at = keys.binary_search(&key).expect("it is one of them");
                let last = records[at].as_ref().and_then(|record| record.last.as_ref());
                let changed = match (seen, last.map(|last| last.digest)) {
                    (Seen::Unchanged, _) => Some(false),
                    (Seen::Digest(digest), Some(before)) if before != 0 => Some(digest != before),
                    // The page had failed before: there is no digest to compare with.
                    (Seen::Digest(_), _) => None,
                };
                context.visits.extend(changed.map(|changed| (fetch, changed)));
            }
        }
        Ok(Some(context))
    }
}
