//! Events for programs of others, made from the groups of a partition's log.
//!
//! An event is not written anywhere. A reader makes the events from a group ([`of_group`]), and making them again
//! gives the same ones: the id of an event is its position in the log. So a reader may begin anywhere, may see an
//! event twice after a crash, and can deduplicate by the id.
//!
//! Invariants: the same bytes give the same events with the same ids, on every node and in every version; two
//! histories of one partition (a log that was begun anew) have different ids, since the id carries a mark of the hash
//! chain.

mod kind;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::entry::{
    self, Admission, ChainError, Ended, Entry, EventContext, FoundUrls, Group, HostChange, NO_FETCH,
};
use crate::feed::record::Polled;
use crate::feed::schedule::Health;
use crate::key::{HostKey, UrlKey};
use crate::spider::outcome::{Action, Class};
use crate::state::Position;
use crate::state::record::RobotsPolicy;
use crate::time::{Seconds, Timestamp};

pub use kind::Kind;

/// One event. Empty fields are left out; new fields may come, none changes its meaning.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct Event {
    /// The stable and unique id of the event: `PARTITION.GROUP.ENTRY.PART.MARK`.
    pub id: String,
    /// The kind of event.
    pub kind: Kind,
    /// When the event happened, `2026-11-15T22:58:09Z`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub at: String,
    /// The URL of the event.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    /// The host of the event: scheme, name and port.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// How a fetch ended, by the name in `docs/outcomes.md`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub outcome: String,
    /// The status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes of the body that were received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// 64 bits of the payload's digest, in hexadecimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The number of the fetch, in hexadecimal.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fetch: String,
    /// Number of retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u8>,
    /// When the URL is fetched again.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub next: String,
    /// Until when a host rests.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub until: String,
    /// The reason.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The crawl delay of a host, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u32>,
    /// The feed of a story.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub feed: String,
    /// The title of a story or a feed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Entries of a feed; URLs of a part of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<u64>,
    /// New stories among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<u32>,
    /// Seconds for which a feed had no new story.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_s: Option<u64>,
    /// The usual seconds between two of its stories.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usual_gap_s: Option<u64>,
    /// The name of a job.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// The state of a job: `running`, `paused`, `stopped`, `complete`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// The partition and the first and last group that are gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gone: Option<[u64; 3]>,
}

impl Event {
    /// Groups of a partition that are no longer kept, from the first to the last: this reader cannot learn their
    /// events here.
    pub fn gap(partition: u32, first: u64, last: u64) -> Event {
        let gone = Some([partition.into(), first, last]);
        Event { id: format!("{partition}.{first}-{last}.gap"), kind: Kind::Gap, gone, ..Event::default() }
    }

    /// The event as a line, with the line end.
    pub fn line(&self) -> Vec<u8> {
        let mut line = Vec::with_capacity(320);
        serde_json::to_writer(&mut line, self).expect("strings and numbers can be written");
        line.push(b'\n');
        line
    }
}

/// The 32 bits of a chain that ids carry.
pub fn mark(position: Position) -> u32 {
    (position.chain >> 32) as u32
}

/// The events of a group, given as bytes, and the position behind the group.
pub fn of_bytes(partition: u32, bytes: &[u8]) -> Result<(Vec<Event>, Position), ChainError> {
    let (group, behind) = entry::look(bytes)?;
    Ok((of_group(partition, &group, behind), behind))
}

/// The events of the group that ends at this position.
pub fn of_group(partition: u32, group: &Group, behind: Position) -> Vec<Event> {
    let nothing = EventContext::default();
    let context = group.entries.iter().rev().find_map(|entry| match entry {
        Entry::EventContext(context) => Some(&**context),
        _ => None,
    });
    let mut making = Making {
        begin: format!("{partition}.{}", behind.sequence),
        mark: mark(behind),
        context: context.unwrap_or(&nothing),
        feeds: BTreeMap::new(),
        entry: 0,
        // Jobs are told to every partition, and are one event all the same.
        tells_jobs: partition == 0,
        events: Vec::new(),
    };
    if group.entries.iter().any(|entry| matches!(entry, Entry::Polled(_))) {
        let ended = group.entries.iter().filter_map(|entry| match entry {
            Entry::Ended(ended) => Some((ended.key, &*ended.text)),
            _ => None,
        });
        making.feeds = ended.collect();
    }
    for (number, entry) in group.entries.iter().enumerate() {
        making.entry = number;
        making.of(entry);
    }
    making.events
}

struct Making<'a> {
    begin: String,
    mark: u32,
    context: &'a EventContext,
    /// Path and query of the feeds that the group has polls of, from their outcomes.
    feeds: BTreeMap<UrlKey, &'a str>,
    entry: usize,
    tells_jobs: bool,
    events: Vec<Event>,
}

/// The numbers of the events of one entry. They stand in ids and never change.
mod part {
    pub(super) const MAIN: usize = 0;
    pub(super) const PAUSED: usize = 1;
    pub(super) const SILENT: usize = 1;
    pub(super) const STORIES: usize = 2;
}

impl Making<'_> {
    fn event(&self, part: usize, kind: Kind, at: Seconds) -> Event {
        let id = format!("{}.{}.{part}.{:08x}", self.begin, self.entry, self.mark);
        let at = if at == Seconds(0) { String::new() } else { date(at) };
        Event { id, kind, at, ..Event::default() }
    }

    fn origin(&self, host: &HostKey) -> String {
        self.context.origins.get(host).map(ToString::to_string).unwrap_or_default()
    }

    fn url(&self, host: &HostKey, text: &str) -> String {
        match &*self.origin(host) {
            "" => String::new(),
            origin => format!("{origin}{text}"),
        }
    }

    fn of(&mut self, entry: &Entry) {
        match entry {
            Entry::Found(found) => self.found(found),
            Entry::Ended(ended) => self.ended(ended),
            Entry::Robots(read) => {
                let reason = match read.record.policy {
                    RobotsPolicy::Unknown => "unknown",
                    RobotsPolicy::Rules => "rules",
                    RobotsPolicy::AllowAll => "allow-all",
                    RobotsPolicy::DisallowAll => "disallow-all",
                };
                let mut event = self.event(part::MAIN, Kind::Robots, read.record.fetched);
                event.host = self.origin(&read.host);
                event.reason = reason.to_owned();
                event.next = date(read.record.expires);
                self.events.push(event);
                self.paused(&read.host, read.record.fetched, read.rest_until, "robots.txt");
            }
            Entry::Host(change) => {
                let (kind, host) = match change {
                    HostChange::Stop(host, _) => (Kind::HostStopped, host),
                    HostChange::Resume(host) => (Kind::HostResumed, host),
                    HostChange::Delay(host, _) => (Kind::HostDelay, host),
                };
                let mut event = self.event(part::MAIN, kind, self.context.at);
                event.host = self.origin(host);
                match change {
                    HostChange::Stop(_, why) => event.reason = why.to_string(),
                    HostChange::Delay(_, delay) => event.delay_ms = Some(*delay),
                    HostChange::Resume(_) => {}
                }
                self.events.push(event);
            }
            Entry::Job(job) if self.tells_jobs => {
                let mut event = self.event(part::MAIN, Kind::Job, self.context.at);
                event.job.clone_from(&job.name);
                event.state = job.state.name().to_owned();
                self.events.push(event);
            }
            Entry::JobRemoved(job) if self.tells_jobs => {
                let mut event = self.event(part::MAIN, Kind::JobRemoved, self.context.at);
                event.job = job.0.to_string();
                self.events.push(event);
            }
            Entry::Polled(polled) => self.polled(polled),
            Entry::Streamed(streamed) => {
                let mut event = self.event(part::MAIN, Kind::Streamed, self.context.at);
                event.entries = Some(streamed.records.len() as u64);
                self.events.push(event);
            }
            Entry::Job(_)
            | Entry::JobRemoved(_)
            | Entry::Domain(_)
            | Entry::Inbox { .. }
            | Entry::Split(_)
            | Entry::Stream(_)
            | Entry::Visited(_)
            | Entry::Forward(_)
            | Entry::Sighted(_)
            | Entry::Spread(_)
            | Entry::EventContext(_) => {}
        }
    }

    fn found(&mut self, found: &FoundUrls) {
        // Each host and each URL has a number, with or without an event.
        let mut number = 0;
        for host in &found.hosts {
            if let Some(origin) = &host.origin {
                let mut event = self.event(number, Kind::HostFound, found.at);
                event.host = origin.to_string();
                self.events.push(event);
            }
            number += 1;
            for url in &host.urls {
                if let Admission::Refuse(refusal) = url.admission {
                    let mut event = self.event(number, Kind::Refused, found.at);
                    event.url = match &host.origin {
                        Some(origin) => format!("{origin}{}", url.text),
                        None => self.url(&host.key, &url.text),
                    };
                    event.reason = refusal.name().to_owned();
                    self.events.push(event);
                }
                number += 1;
            }
        }
    }

    fn ended(&mut self, ended: &Ended) {
        let asked = ended.fetch & NO_FETCH == 0;
        let class = ended.outcome.class();
        let changed = self.context.visits.get(&ended.fetch);
        // A fault of ours, or a stop: the URL is fetched again, and no retry is counted.
        let paused = ended.next.is_some() && ended.outcome.action() == Action::Pause;
        let kind = match (asked, class, changed) {
            (false, ..) if ended.next.is_some() => Kind::Postponed,
            (false, ..) | (_, Class::Refused, _) => Kind::Refused,
            (true, Class::Ok, Some(true)) => Kind::Changed,
            (true, Class::Ok, Some(false)) => Kind::Unchanged,
            (true, Class::Ok, None) => Kind::Fetched,
            (true, Class::Gone, _) => Kind::Failed,
            (true, Class::Retry | Class::Broken, _) if paused => Kind::Postponed,
            (true, Class::Retry | Class::Broken, _) if ended.next.is_some() && ended.retries > 0 => {
                Kind::Retry
            }
            (true, Class::Retry | Class::Broken, _) => Kind::Failed,
        };
        let mut event = self.event(part::MAIN, kind, ended.at);
        event.url = self.url(&ended.key.host, &ended.text);
        event.outcome = ended.outcome.name().to_owned();
        event.next = ended.next.map(date).unwrap_or_default();
        if asked {
            event.fetch = format!("{:x}", ended.fetch);
            event.status = (ended.status > 0).then_some(ended.status);
            event.bytes = (class == Class::Ok).then_some(ended.bytes);
            event.retries = (ended.retries > 0).then_some(ended.retries);
            if ended.digest != 0 {
                event.digest = format!("{:016x}", ended.digest);
            }
        }
        self.events.push(event);
        self.paused(&ended.key.host, ended.at, ended.rest_until, ended.outcome.name());
    }

    fn paused(&mut self, host: &HostKey, at: Seconds, until: Timestamp, why: &str) {
        if until.0 == 0 {
            return;
        }
        let mut event = self.event(part::PAUSED, Kind::HostPaused, at);
        event.host = self.origin(host);
        event.until = until.warc_date();
        event.reason = why.to_owned();
        self.events.push(event);
    }

    fn polled(&mut self, polled: &Polled) {
        let (line, at) = (&polled.line, Seconds::from(polled.line.at));
        let text = self.feeds.get(&polled.key).copied();
        let feed = text.map(|text| self.url(&polled.key.host, text)).unwrap_or_default();
        let mut event = self.event(part::MAIN, Kind::Polled, at);
        event.url.clone_from(&feed);
        event.fetch = format!("{:x}", polled.fetch);
        event.status = (line.status > 0).then_some(line.status);
        event.reason = line.found.name().to_owned();
        event.entries = Some(line.entries.into());
        event.new = Some(line.new);
        event.title = polled.title.as_deref().unwrap_or_default().to_owned();
        if line.due.0 > 0 {
            event.next = line.due.warc_date();
        }
        self.events.push(event);
        if let Health::Quiet { usual, silent } = polled.history.health() {
            let mut event = self.event(part::SILENT, Kind::FeedSilent, at);
            event.url.clone_from(&feed);
            event.fetch = format!("{:x}", polled.fetch);
            event.silent_s = Some(silent.as_secs());
            event.usual_gap_s = Some(usual.as_secs());
            self.events.push(event);
        }
        let stories = self.context.stories.iter().filter(|(fetch, _)| *fetch == polled.fetch);
        let stories: Vec<_> = stories.flat_map(|(_, stories)| stories).collect();
        for (number, story) in stories.into_iter().enumerate() {
            let mut event = self.event(part::STORIES + number, Kind::Story, at);
            event.url = story.url.to_string();
            event.title = story.title.to_string();
            event.feed.clone_from(&feed);
            event.fetch = format!("{:x}", polled.fetch);
            self.events.push(event);
        }
    }
}

fn date(at: Seconds) -> String {
    Timestamp::from(at).warc_date()
}
