//! One poll of a followed feed: read, compared with the feed's record, and turned into links.
//!
//! The record comes from the owner of the feed's partition before the request. No other task polls the feed meanwhile:
//! its ticket is open. The decisions made here return with the report, after the stories. So a crash in between finds
//! the same stories again, and the frontier deduplicates them.
//!
//! Invariants: a story's page is offered before the poll that found the story is reported; an entry that is no new
//! story of its source is not offered.

use std::time::{Duration, Instant};

use http::header::{ETAG, LAST_MODIFIED};

use nephila_core::feed::poll::{Taken, fault, take_in};
use nephila_core::feed::record::{Brought, Fault, NewStory, PollAnswerKind, Record, STORIES_MAX};
use nephila_core::feed::schedule::PollAnswer;
use nephila_core::feed::source::{Record as SourceRecord, Shown, Sighted};
use nephila_core::feed::story::Sighting;
use nephila_core::feed::{Feed, FeedEntry, Limits, Note, REDUNDANT, read_feed_until};
use nephila_core::follow::{self, Links};
use nephila_core::frontier::ticket::Ticket;
use nephila_core::handler::{Findings, LinkKind, Page, ReadAs};
use nephila_core::recrawl::claims::Listed;
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Action;
use nephila_core::text::shown;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_spider::Fetched;
use serde::Serialize;

use super::intake::{self, Counting};
use super::page::watched;
use super::readers::Unread;
use super::robots::max_age;
use super::shared::Shared;
use super::sources::Held;

/// Time limit for reading a feed; entries found by then count.
pub(crate) const READ_TIME_MAX: Duration = Duration::from_secs(3);
/// Maximum number of feeds of one page that are followed instead of the page, if the page was added as a feed.
pub(crate) const FEEDS_OF_PAGE_MAX: usize = 8;

/// The result of a poll.
pub(crate) struct Poll {
    feed: Feed,
    taken: Option<Taken>,
    pub(crate) brought: Brought,
    /// The sighting to be recorded for the source, if any.
    sighted: Option<Box<Sighted>>,
}

impl Poll {
    /// Whether the response is not a feed: perhaps a page that names feeds.
    pub(crate) fn is_no_feed(&self) -> bool {
        self.taken.is_some() && self.feed.has(Note::NotAFeed)
    }

    /// If the response is a page that names feeds, notes that these are followed instead.
    pub(crate) fn judge_page(&mut self, findings: Option<&Findings>) {
        if self.is_no_feed()
            && let Some(findings) = findings
            && findings.links.iter().any(|found| found.kind == LinkKind::Feed)
        {
            let words = "it is a page; the feeds that it names are followed".into();
            self.brought.fault = Some(Fault { found: PollAnswerKind::Page, words });
        }
    }

    /// The title of the feed.
    pub(crate) fn title(&self) -> &str {
        &self.feed.title
    }

    /// The times of change of pages on the feed's own host, as the feed claims: a known story that has changed since is
    /// fetched again.
    pub(crate) fn listed(&self, shared: &Shared, url: &CrawlUrl) -> Box<[Listed]> {
        let entries = self.feed.entries.iter();
        let times = entries.filter_map(|entry| Some((&entry.url, entry.updated?)));
        follow::claimed(url, times, shared.handle.secret())
    }

    /// The sighting to be sent to the source after the poll is reported. None if the sighting is part of the report,
    /// which is so when feed and source share a partition.
    pub(crate) fn take_sighted(&mut self, shared: &Shared, ticket: &Ticket) -> Option<Box<Sighted>> {
        let sighted = self.sighted.take()?;
        if shared.handle.are_together(sighted.source.0.domain, ticket.key.host.domain) {
            self.brought.sighted = Some(sighted);
            return None;
        }
        Some(sighted)
    }

    /// The lines about the feed in the metadata record of the capture.
    pub(crate) fn notes(&self) -> Vec<(&'static str, String)> {
        let Some(taken) = &self.taken else { return Vec::new() };
        if taken.redundant {
            return vec![("feed", REDUNDANT.to_owned())];
        }
        let stories = taken.stories.iter().map(|place| Story::of(&self.feed.entries[*place]));
        let lines = stories.map(|story| serde_json::to_string(&story).expect("strings can be written"));
        lines.map(|line| ("story", line)).collect()
    }
}

/// The fields of a story that are known before its page is fetched.
#[derive(Serialize)]
pub(crate) struct Story<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    title: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    guid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    language: Option<&'a str>,
}

impl<'a> Story<'a> {
    pub(crate) fn of(entry: &'a FeedEntry) -> Story<'a> {
        Story {
            url: entry.url.as_str(),
            title: &entry.title,
            guid: entry.guid.as_deref(),
            published: entry.published.map(|at| at.warc_date()),
            author: entry.author.as_deref(),
            language: entry.language.as_deref(),
        }
    }
}

/// Evaluates the fetch of a feed, given the records of the feed and its source.
pub(crate) async fn poll(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    fetched: &Fetched,
    record: &Record,
    source: &Held,
    known: &SourceRecord,
) -> Result<Poll, Unread> {
    let brought = Brought::of(PollAnswer::Failed, record);
    let mut poll = Poll { feed: Feed::default(), taken: None, brought, sighted: None };
    let brought = &mut poll.brought;
    brought.conditional = ticket.known.is_some();
    brought.validators = [ETAG, LAST_MODIFIED].iter().any(|name| fetched.fields.contains_key(name));
    brought.max_age = max_age(fetched);
    brought.answer = match (fetched.outcome, fetched.status) {
        (Outcome::NotModified, _) => PollAnswer::NotModified,
        (_, Some(410)) => PollAnswer::Gone,
        (Outcome::Redirect, status) => {
            let target = fetched.redirect.as_ref().filter(|_| matches!(status, Some(301 | 308)));
            brought.moved_to = target.map(|target| shared.handle.key(target).path);
            brought.fault = target.map(|target| Fault {
                found: PollAnswerKind::Moved,
                words: format!("it has moved to {}", shown(target.as_str())).into(),
            });
            // The target is a feed of its own; this feed has nothing more to offer.
            PollAnswer::Redundant
        }
        _ => PollAnswer::Failed,
    };
    if fetched.outcome.action() != Action::Keep || fetched.outcome == Outcome::NotModified {
        return Ok(poll);
    }
    let limits = Limits::default();
    let body = match fetched.decoded.as_ref().map(|decoded| decoded.start(limits.bytes_max)) {
        Some(Ok(body)) => body,
        _ => return Ok(poll),
    };
    let (own, fields, known) = (url.clone(), fetched.fields.clone(), known.memory.clone());
    let (settings, record) = (shared.settings.feed.story.clone(), record.clone());
    let (now, has_polls) = (shared.clock.now().wall, !record.polls.is_empty());
    let read = watched(shared, url, READ_TIME_MAX, move || {
        let keys = KeyRules::default();
        let page =
            Page { url: &own, fields: &fields, body: &body, read_as: ReadAs::Feed, agent: "", keys: &keys };
        let began = Instant::now();
        let feed = read_feed_until(&page, &limits, &mut || began.elapsed() > READ_TIME_MAX);
        let taken = take_in(&feed, record.checksum, &record.memory, Some(&known), &settings, now);
        let fault = fault(&feed, &body);
        (feed, taken, fault)
    });
    // A response that makes the reader fail is no feed, and is stored all the same.
    let (feed, mut taken, fault) = match read.await {
        Ok(read) => read,
        Err(Unread::Failed) => return Ok(poll),
        Err(given_up) => return Err(given_up),
    };
    let brought = &mut poll.brought;
    (brought.answer, brought.fault) = (taken.answer, fault);
    shared.counts.metrics.polled(feed.entries.len(), taken.stories.len());
    if has_polls {
        let dated = taken.stories.iter().map(|place| &feed.entries[*place]);
        let dated = dated.filter_map(|entry| Some((shared.handle.key(&entry.url), entry.published?)));
        shared.counts.metrics.story_delay.found(dated);
    }
    brought.checksum = taken.checksum;
    brought.sighting.clone_from(&taken.sighting);
    brought.hints = feed.hints;
    brought.title = feed.title.as_str().into();
    let stories = taken.stories.iter().take(STORIES_MAX).map(|place| &feed.entries[*place]);
    brought.stories = stories.map(|entry| NewStory::new(entry.url.as_str(), &entry.title)).collect();
    let of_source = taken.of_source.take();
    // Marks that the source has recorded this week need not be written again.
    let is_news = |sighting: &Sighting| !sighting.marks.is_empty() || !taken.unknown_to_source.is_empty();
    if let Some(sighting) = of_source.filter(is_news) {
        let shown = taken.unknown_to_source.iter().take(STORIES_MAX);
        poll.sighted = Some(Box::new(Sighted {
            source: source.key,
            name: source.name.clone(),
            fetch: ticket.id.0,
            at: now,
            feed: ticket.url.as_str().into(),
            sighting,
            stories: shown.map(|place| Shown::of(&feed.entries[*place])).collect(),
        }));
    }
    (poll.feed, poll.taken) = (feed, Some(taken));
    Ok(poll)
}

/// The links of a poll ([`follow::links_of_feed`]). The new location and the feeds of a page inherit the source.
pub(crate) fn links(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    fetched: &Fetched,
    poll: &Poll,
    findings: Option<&Findings>,
) -> anyhow::Result<Links> {
    let Some(job) = &shared.jobs.get(ticket.job) else { return Ok(Links::default()) };
    let target = fetched.redirect.as_ref().filter(|_| fetched.outcome == Outcome::Redirect);
    let taken = poll.taken.iter().flat_map(|taken| &taken.stories);
    let stories = taken.map(|place| &poll.feed.entries[*place].url);
    let named = findings.iter().flat_map(|findings| &findings.links);
    let named = named.filter(|found| found.kind == LinkKind::Feed).take(FEEDS_OF_PAGE_MAX);
    let feeds = named.map(|found| &found.url);
    let feeds: Vec<_> = feeds.filter(|feed| !shared.sources.is_removed(&shared.handle.key(feed))).collect();
    let witness = Counting { stages: &shared.stages, job };
    let judge = intake::judge(shared, job, &witness);
    let links = follow::links_of_feed(&judge, &ticket.into(), url, target, stories, feeds.iter().copied());
    let moved_to = target.filter(|_| poll.brought.moved_to.is_some());
    for heir in moved_to.into_iter().chain(feeds) {
        shared.inherit_source(&ticket.key, heir)?;
    }
    Ok(links)
}
