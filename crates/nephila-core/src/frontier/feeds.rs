//! Feeds in the frontier: what a poll means for its feed, decided by the owner and written down beside the outcome.
//!
//! What always holds: every outcome of a feed that is followed has one poll in the same group of the log, and the feed
//! comes back when that poll says; the schedule in force is the one of the moment of the decision.

use std::time::Duration;

use super::Frontier;
use super::heads::Head;
use super::key::UrlKey;
use crate::entry::Entry;
use crate::feed::record::{Brought, PollLine, Polled, Record};
use crate::feed::schedule::{Answer, Poll};
use crate::state::record::UrlState;
use crate::state::{Beside, State, StateError};
use crate::time::{Now, Seconds};

/// A feed, as whoever asks sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedView {
    /// Its key.
    pub key: UrlKey,
    /// Its URL.
    pub url: String,
    /// When it is asked again, if ever; 0 is as soon as its host may be asked.
    pub next: Option<Seconds>,
    /// What is remembered of it.
    pub record: Record,
}

impl<S: State> Frontier<S> {
    /// What is remembered of a feed; an empty record if it was never asked.
    pub fn feed(&mut self, key: &UrlKey) -> Result<Record, StateError> {
        let Some(partition) = self.partition_of(&key.host) else { return Ok(Record::default()) };
        let mut found = Vec::with_capacity(1);
        self.partitions[partition].state.beside(Beside::Feed, std::slice::from_ref(key), &mut found)?;
        match found.pop().flatten() {
            Some(bytes) => Ok(Record::from_bytes(&bytes)?),
            None => Ok(Record::default()),
        }
    }

    /// The first `max` feeds of all partitions here from a key on, in the order of keys.
    pub fn feeds_page(&mut self, from: Option<UrlKey>, max: usize) -> Result<Vec<FeedView>, StateError> {
        let mut views = Vec::new();
        for partition in &mut self.partitions {
            let first = UrlKey {
                host: super::key::HostKey { domain: partition.prefixes.first_domain(), host: 0 },
                path: 0,
            };
            let mut found = Vec::new();
            let from = from.map_or(first, |from| from.max(first));
            partition.state.beside_from(Beside::Feed, from, max - views.len(), &mut found)?;
            for (key, bytes) in found {
                if key.host.domain > partition.prefixes.last_domain() {
                    break;
                }
                let host = partition.state.host(&key.host)?.unwrap_or_default();
                let record = partition.state.url(&key)?;
                let next = match record.as_ref().map(|record| record.state) {
                    Some(UrlState::Later(due)) => Some(due),
                    Some(UrlState::Waiting) => Some(Seconds(0)),
                    _ => None,
                };
                let text = record.and_then(|record| record.text).unwrap_or_default();
                let url = [&*host.origin, &*text].concat();
                views.push(FeedView { key, url, next, record: Record::from_bytes(&bytes)? });
            }
            if views.len() >= max {
                break;
            }
        }
        Ok(views)
    }

    /// Is a URL at hand a feed that is followed?
    pub(super) fn follows(&self, head: &Head) -> bool {
        self.config.feed.follows(head.read_as, head.depth)
    }

    /// A feed was asked, or could not be. Writes the poll down and says after which time it is asked again.
    pub(super) fn poll_ended(
        &mut self,
        key: UrlKey,
        fetch: u64,
        status: u16,
        brought: Option<&Brought>,
        retry_after: Option<Duration>,
        now: Now,
    ) -> Result<Option<Duration>, StateError> {
        let record = self.feed(&key)?;
        let nothing = Brought::of(Answer::Failed, &record);
        let brought = brought.unwrap_or(&nothing);
        let poll = Poll {
            at: now.wall,
            answer: brought.answer,
            conditional: brought.conditional,
            validators: brought.validators,
            hints: brought.hints,
            max_age: brought.max_age,
            retry_after,
            moved_to: brought.moved_to,
        };
        let mut history = record.history.clone();
        let plan = history.handle_poll(&poll, &self.config.feed.schedule, key.path);
        // Where it has moved to for good is a feed of its own by now.
        let due = plan.due.filter(|_| !plan.adopt_move);
        let polled = Polled {
            key,
            fetch,
            line: PollLine::new(now.wall, status, brought.answer, due, plan.why),
            conditional: plan.conditional,
            checksum: brought.checksum,
            sighting: brought.sighting.clone(),
            history,
            title: record.new_title(&brought.title),
        };
        if !brought.stories.is_empty()
            && let Some(partition) = self.partition_of(&key.host)
        {
            self.partitions[partition].asides.stories(fetch, &brought.stories);
        }
        self.pend(key.host, Entry::Polled(Box::new(polled)));
        Ok(due.map(|due| Duration::from_millis(due.0.saturating_sub(now.wall.0))))
    }
}
