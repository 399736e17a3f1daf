//! One poll of a feed that is followed: read, judged by what is remembered of it, and turned into links.
//!
//! The record comes from the owner of the feed's partition before the request, and nobody else asks the feed meanwhile:
//! its ticket is open. What is decided here goes back with the report, behind the stories, so a crash in between finds
//! the same stories again, which the frontier knows by then.
//!
//! What always holds: a story's page is offered before the poll that found it is reported; an entry that is no new story
//! is not offered.

use std::time::{Duration, Instant};

use http::header::{ETAG, LAST_MODIFIED};
use nephila_core::entry::aside::{self, STORIES_MAX};
use nephila_core::feed::poll::{Taken, take_in};
use nephila_core::feed::record::{Brought, Record};
use nephila_core::feed::schedule::Answer;
use nephila_core::feed::{Feed, FeedEntry, Limits, Note, REDUNDANT, read_feed_until};
use nephila_core::frontier::URGENT;
use nephila_core::frontier::ticket::Ticket;
use nephila_core::handler::{Findings, LinkKind, Page, ReadAs};
use nephila_core::job::Hops;
use nephila_core::recrawl::claims::Listed;
use nephila_core::spider::Outcome;
use nephila_core::spider::outcome::Action;
use nephila_core::url::{CrawlUrl, KeyRules};
use nephila_spider::Fetched;
use serde::Serialize;

use super::intake::{self, Links};
use super::robots::max_age;
use super::shared::Shared;

/// A feed is read this long; what was found by then counts.
const READ_TIME_MAX: Duration = Duration::from_secs(5);
/// Feeds of one page that are followed instead of it, if somebody gave the page for a feed.
const FEEDS_OF_PAGE_MAX: usize = 8;

/// A poll that was read.
pub(crate) struct Poll {
    feed: Feed,
    taken: Option<Taken>,
    pub(crate) brought: Brought,
}

impl Poll {
    /// It is no feed: perhaps a page that names some.
    pub(crate) fn is_no_feed(&self) -> bool {
        self.taken.is_some() && self.feed.has(Note::NotAFeed)
    }

    /// Its title, and how many new stories it has.
    pub(crate) fn title(&self) -> &str {
        &self.feed.title
    }

    /// When pages of its own host were changed, by its word: a story that is known and was changed since comes again.
    pub(crate) fn listed(&self, shared: &Shared, url: &CrawlUrl) -> Box<[Listed]> {
        let entries = self.feed.entries.iter();
        intake::said(shared, url, entries.filter_map(|entry| Some((&entry.url, entry.updated?))))
    }

    /// What the metadata record of its capture says of it.
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

/// What is known of a story before its page is fetched.
#[derive(Serialize)]
struct Story<'a> {
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
    fn of(entry: &'a FeedEntry) -> Story<'a> {
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

/// What a fetch of a feed comes to, given what is remembered of it.
pub(crate) async fn poll(
    shared: &Shared,
    ticket: &Ticket,
    url: &CrawlUrl,
    fetched: &Fetched,
    record: &Record,
) -> Poll {
    let mut poll = Poll { feed: Feed::default(), taken: None, brought: Brought::of(Answer::Failed, record) };
    let brought = &mut poll.brought;
    brought.conditional = ticket.known.is_some();
    brought.validators = [ETAG, LAST_MODIFIED].iter().any(|name| fetched.fields.contains_key(name));
    brought.max_age = max_age(fetched);
    brought.answer = match (fetched.outcome, fetched.status) {
        (Outcome::NotModified, _) => Answer::NotModified,
        (_, Some(410)) => Answer::Gone,
        (Outcome::Redirect, status) => {
            let target = fetched.redirect.as_ref().filter(|_| matches!(status, Some(301 | 308)));
            brought.moved_to = target.map(|target| shared.handle.key(target).path);
            // Where it leads to is a feed of its own; this one has nothing more to say.
            Answer::Redundant
        }
        _ => Answer::Failed,
    };
    if fetched.outcome.action() != Action::Keep || fetched.outcome == Outcome::NotModified {
        return poll;
    }
    let limits = Limits::default();
    let body = match fetched.decoded.as_ref().map(|decoded| decoded.start(limits.bytes_max)) {
        Some(Ok(body)) => body,
        _ => return poll,
    };
    let (url, fields) = (url.clone(), fetched.fields.clone());
    let (settings, record) = (shared.settings.feed.story.clone(), record.clone());
    let now = shared.clock.now().wall;
    let read = tokio::task::spawn_blocking(move || {
        let keys = KeyRules::default();
        let page =
            Page { url: &url, fields: &fields, body: &body, read_as: ReadAs::Feed, agent: "", keys: &keys };
        let began = Instant::now();
        let feed = read_feed_until(&page, &limits, &mut || began.elapsed() > READ_TIME_MAX);
        let taken = take_in(&feed, record.checksum, &record.memory, &settings, now);
        (feed, taken)
    });
    // A feed that makes the reader fail is none; it is stored all the same.
    let Ok((feed, taken)) = read.await else { return poll };
    let brought = &mut poll.brought;
    brought.answer = taken.answer;
    brought.checksum = taken.checksum;
    brought.sighting.clone_from(&taken.sighting);
    brought.hints = feed.hints;
    brought.title = feed.title.as_str().into();
    let stories = taken.stories.iter().take(STORIES_MAX).map(|place| &feed.entries[*place]);
    brought.stories = stories.map(|entry| aside::Story::new(entry.url.as_str(), &entry.title)).collect();
    (poll.feed, poll.taken) = (feed, Some(taken));
    poll
}

/// What a poll leads to: the pages of new stories, where the feed has moved to, or the feeds of a page that was given for
/// one. A feed that somebody added brings its stories along, wherever they lie; an `exclude` keeps them out.
pub(crate) fn links(
    shared: &Shared,
    ticket: &Ticket,
    fetched: &Fetched,
    poll: &Poll,
    findings: Option<&Findings>,
) -> Links {
    let mut links = Links::default();
    let Some(job) = &shared.jobs.get(ticket.job) else { return links };
    let push = |links: &mut Links, url: &CrawlUrl, depth, hops, read_as| {
        if job.excludes(url) {
            links.counts.out += 1;
            return;
        }
        links.push(shared, job, url.clone(), depth, hops, read_as);
        if let Some(link) = links.wanted.last_mut() {
            link.priority = URGENT;
        }
    };
    if let (Outcome::Redirect, Some(target)) = (fetched.outcome, &fetched.redirect) {
        let hops = Hops::new(ticket.hops.out(), ticket.hops.redirects() + 1);
        push(&mut links, target, ticket.depth, hops, ReadAs::Feed);
    }
    if let Some(taken) = &poll.taken {
        for place in &taken.stories {
            let story = &poll.feed.entries[*place].url;
            push(&mut links, story, ticket.depth.saturating_add(1), Hops::NONE, ReadAs::Story);
        }
    }
    let feeds = findings.iter().flat_map(|findings| &findings.links);
    for found in feeds.filter(|found| found.kind == LinkKind::Feed).take(FEEDS_OF_PAGE_MAX) {
        push(&mut links, &found.url, ticket.depth, Hops::NONE, ReadAs::Feed);
    }
    links
}
