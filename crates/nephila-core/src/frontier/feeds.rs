//! Feeds in the frontier: the owner decides the consequences of a poll for its feed and writes them beside the outcome.
//!
//! Invariants: every outcome of a followed feed has one poll in the same group of the log, and the feed is due when
//! that poll says; the schedule in force is the one at the moment of the decision.

use std::time::Duration;

use super::Frontier;
use super::heads::Head;
use crate::entry::Entry;
use crate::feed::record::{Brought, PollLine, Polled, Record, WRONG_BYTES_MAX};
use crate::feed::schedule::{Poll, PollAnswer};
use crate::feed::source::{self, SourceKey, StoryRecord};
use crate::key::UrlKey;
use crate::spider::outcome::Outcome;
use crate::state::record::UrlState;
use crate::state::{Beside, State, StateError};
use crate::time::{Now, Seconds};

/// A snapshot of a feed, for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedView {
    /// Its key.
    pub key: UrlKey,
    /// Its URL.
    pub url: String,
    /// When the feed is polled next, if ever; 0 means as soon as its host may be requested.
    pub next: Option<Seconds>,
    /// Why its host is stopped; empty if the host is not stopped.
    pub stopped: Box<str>,
    /// The stored record.
    pub record: Record,
}

/// A snapshot of a story of a source, for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryView {
    /// The key of the story.
    pub key: UrlKey,
    /// The stored record.
    pub record: StoryRecord,
}

impl StoryView {
    /// The source of the story.
    pub fn source(&self) -> SourceKey {
        SourceKey(self.key.host)
    }

    /// When the story was found.
    pub fn found(&self) -> Seconds {
        Seconds((self.key.path >> 32) as u32)
    }
}

/// A value stored beside a URL, as bytes.
type KeptBeside = (UrlKey, Box<[u8]>);

impl<S: State> Frontier<S> {
    /// The stored record of a feed; an empty record if the feed was never polled.
    pub fn feed(&mut self, key: &UrlKey) -> Result<Record, StateError> {
        let Some(partition) = self.partition_of(&key.host) else { return Ok(Record::default()) };
        let mut found = Vec::with_capacity(1);
        self.partitions[partition].state.beside(Beside::Feed, std::slice::from_ref(key), &mut found)?;
        match found.pop().flatten() {
            Some(bytes) => Ok(Record::from_bytes(&bytes)?),
            None => Ok(Record::default()),
        }
    }

    /// The stored record of a source; an empty record if no feed has shown a story of the source.
    pub fn source(&mut self, key: SourceKey) -> Result<source::Record, StateError> {
        let Some(partition) = self.partition_of(&key.0) else { return Ok(source::Record::default()) };
        let mut found = Vec::with_capacity(1);
        self.partitions[partition].state.beside(Beside::Source, &[key.record()], &mut found)?;
        match found.pop().flatten() {
            Some(bytes) => Ok(source::Record::from_bytes(&bytes)?),
            None => Ok(source::Record::default()),
        }
    }

    /// The first `max` stories of all partitions here from a key on, in the order of keys: the stories of a source
    /// together, the oldest first.
    pub fn stories_page(&mut self, from: Option<UrlKey>, max: usize) -> Result<Vec<StoryView>, StateError> {
        let mut views = Vec::new();
        for (key, bytes) in self.beside_page(Beside::Story, from, max)? {
            views.push(StoryView { key, record: StoryRecord::from_bytes(&bytes)? });
        }
        Ok(views)
    }

    /// The first `max` values stored beside URLs, of all partitions here from a key on, in the order of keys.
    fn beside_page(
        &mut self,
        kind: Beside,
        from: Option<UrlKey>,
        max: usize,
    ) -> Result<Vec<KeptBeside>, StateError> {
        let mut all: Vec<KeptBeside> = Vec::new();
        for partition in &mut self.partitions {
            let first = UrlKey {
                host: crate::key::HostKey { domain: partition.prefixes.first_domain(), host: 0 },
                path: 0,
            };
            let (last, begin) = (partition.prefixes.last_domain(), all.len());
            let from = from.map_or(first, |from| from.max(first));
            if from.host.domain > last {
                continue;
            }
            partition.state.beside_from(kind, from, max - all.len(), &mut all)?;
            // The state may still hold URLs that went to another partition.
            let here = all[begin..].partition_point(|(key, _)| key.host.domain <= last);
            all.truncate(begin + here);
            if all.len() >= max {
                break;
            }
        }
        Ok(all)
    }

    /// The first `max` feeds of all partitions here from a key on, in the order of keys.
    pub fn feeds_page(&mut self, from: Option<UrlKey>, max: usize) -> Result<Vec<FeedView>, StateError> {
        let mut views = Vec::new();
        for (key, bytes) in self.beside_page(Beside::Feed, from, max)? {
            let Some(partition) = self.partition_of(&key.host) else { continue };
            let state = &mut self.partitions[partition].state;
            let host = state.host(&key.host)?.unwrap_or_default();
            let record = state.url(&key)?;
            let next = match record.as_ref().map(|record| record.state) {
                _ if !host.stopped.is_empty() => None,
                Some(UrlState::Later(due)) => Some(due),
                Some(UrlState::Waiting) => Some(Seconds(0)),
                _ => None,
            };
            let text = record.and_then(|record| record.text).unwrap_or_default();
            let url = [&*host.origin, &*text].concat();
            let stopped = host.stopped;
            views.push(FeedView { key, url, next, stopped, record: Record::from_bytes(&bytes)? });
        }
        Ok(views)
    }

    /// Whether a loaded URL is a followed feed.
    pub(super) fn follows(&self, head: &Head) -> bool {
        self.config.feed.follows(head.read_as, head.depth)
    }

    /// A feed was polled, or could not be. Writes the poll and returns the time until the next poll.
    pub(super) fn poll_ended(
        &mut self,
        key: UrlKey,
        fetch: u64,
        ended: (Outcome, u16),
        brought: Option<&Brought>,
        retry_after: Option<Duration>,
        now: Now,
    ) -> Result<Option<Duration>, StateError> {
        let record = self.feed(&key)?;
        let nothing = Brought::of(PollAnswer::Failed, &record);
        let brought = brought.unwrap_or(&nothing);
        let (outcome, status) = ended;
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
        // The target of a permanent move is a feed of its own by now.
        let due = plan.due.filter(|_| !plan.adopt_move);
        let mut line = PollLine::new(now.wall, status, brought.answer, due, plan.why);
        let mut wrong = match brought.answer {
            PollAnswer::Failed | PollAnswer::Gone => outcome.name(),
            _ => "",
        };
        if let Some(fault) = &brought.fault {
            (line.found, wrong) = (fault.found, &fault.words);
        }
        let end = (0..=WRONG_BYTES_MAX.min(wrong.len())).rev().find(|&at| wrong.is_char_boundary(at));
        let polled = Polled {
            key,
            fetch,
            line,
            conditional: plan.conditional,
            checksum: brought.checksum,
            sighting: brought.sighting.clone(),
            history,
            title: record.new_title(&brought.title),
            wrong: wrong[..end.unwrap_or(0)].into(),
        };
        if !brought.stories.is_empty()
            && let Some(partition) = self.partition_of(&key.host)
        {
            self.partitions[partition].event_context.stories(fetch, &brought.stories);
        }
        // In the same group, so that neither is true without the other.
        if let Some(sighted) = &brought.sighted
            && self.partition_of(&sighted.source.0).is_some()
        {
            self.pend(sighted.source.0, Entry::Sighted(sighted.clone()));
        }
        self.pend(key.host, Entry::Polled(Box::new(polled)));
        Ok(due.map(|due| Duration::from_millis(due.0.saturating_sub(now.wall.0))))
    }
}
