//! One feed by itself: read, judged, recorded and planned by the core, in the same way as in the frontier, at exactly
//! the moments the core asks for.
//!
//! Invariants: the feed's record is the fold of its polls, through the bytes of a log; every expected value comes from
//! [`super::model`].

use std::time::Duration;

use http::HeaderMap;
use nephila_core::codec::Reader;
use nephila_core::feed::poll::take_in;
use nephila_core::feed::record::{Brought, PollLine, Polled, Record};
use nephila_core::feed::schedule::{Poll, PollAnswer, Rule, Settings};
use nephila_core::feed::{Limits, read_feed, story};
use nephila_core::handler::{Page, ReadAs};
use nephila_core::key::{DomainKey, HostKey, UrlKey};
use nephila_core::time::Timestamp;
use nephila_core::url::{CrawlUrl, KeyRules};

use super::Counts;
use super::model::{self, Expected};
use super::web::{DAY, MINUTE, Reply, SECOND, Source};
use crate::{Checker, Violation};

/// One poll in this number is carried through the bytes of the log and of the record.
const BYTES_EVERY: u64 = 64;
/// The stories of one poll are fetched one after the other: the rest of their host between two.
const PAGE_REST: u64 = 5 * SECOND;

/// The result of a feed's answer, given the feed's record: the [`Brought`], and the paths of new stories.
pub(super) fn read(
    source: &Source,
    reply: &Reply,
    record: &Record,
    url: &CrawlUrl,
    conditional: bool,
    at: Timestamp,
) -> (Brought, Vec<CrawlUrl>) {
    let mut brought = Brought::of(PollAnswer::Failed, record);
    brought.conditional = conditional;
    let body = match reply {
        Reply::Down => return (brought, Vec::new()),
        Reply::NotModified => {
            (brought.answer, brought.validators) = (PollAnswer::NotModified, true);
            return (brought, Vec::new());
        }
        Reply::Body(body) => body,
    };
    let (fields, keys) = (HeaderMap::new(), KeyRules::default());
    let page =
        Page { url, fields: &fields, body: body.as_bytes(), read_as: ReadAs::Feed, agent: "", keys: &keys };
    let feed = read_feed(&page, &Limits::default());
    let taken = take_in(&feed, record.checksum, &record.memory, None, &story::Settings::default(), at);
    brought.validators = source.validators;
    brought.answer = taken.answer;
    brought.checksum = taken.checksum;
    brought.sighting = taken.sighting;
    brought.hints = feed.hints;
    brought.title = feed.title.as_str().into();
    (brought, taken.stories.iter().map(|place| feed.entries[*place].url.clone()).collect())
}

/// Follows one feed from its first poll to the end, and compares.
pub fn run(
    source: &Source,
    settings: &Settings,
    first: u64,
    end: u64,
    counts: &mut Counts,
) -> Result<(), Violation> {
    let expected = match settings.rule {
        Rule::Doubling => model::doubling(source, first, end),
        Rule::Adaptive => model::adaptive(source, first, end),
    };
    let wrong = |what: String| Violation::new(Checker::Model, format!("feed {}: {what}", source.number));
    let url = CrawlUrl::parse(&format!("http://f{}.test/feed", source.number))
        .map_err(|_| wrong("its URL cannot be read".into()))?;
    let key = UrlKey { host: HostKey { domain: DomainKey(source.number), host: 1 }, path: source.number };
    let mut record = Record::default();
    let mut version: Option<String> = None;
    let mut found = vec![0u8; source.published.len()];
    let (mut now, mut polls) = (first, 0usize);
    while now < end {
        let Some(model) = expected.get(polls) else {
            return Err(wrong(format!("poll {polls} at {}, the model has none", Timestamp(now))));
        };
        if model.at != now {
            let (now, at) = (Timestamp(now), Timestamp(model.at));
            return Err(wrong(format!("poll {polls} at {now} ({}), the model says {at}", now.0)));
        }
        let known = version.as_deref().filter(|_| record.conditional);
        let reply = source.answer(now, known);
        let at = Timestamp(now);
        let (brought, stories) = read(source, &reply, &record, &url, known.is_some(), at);
        let new = take_stories(source, &stories, &mut found).map_err(wrong)?;
        let is_as_expected =
            if new.is_empty() { model.first == model.end } else { new == (model.first..model.end) };
        if !is_as_expected {
            return Err(wrong(format!("at {at} stories {new:?} are new, by the model {model:?}")));
        }
        count(source, model, &reply, &brought, first, counts);
        if let Reply::Body(_) = reply {
            version = source.validators.then(|| source.version(now));
        }
        let poll = Poll {
            at,
            answer: brought.answer,
            conditional: brought.conditional,
            validators: brought.validators,
            hints: brought.hints,
            max_age: None,
            retry_after: None,
            moved_to: None,
        };
        let mut history = record.history.clone();
        let plan = history.handle_poll(&poll, settings, 0);
        let Some(due) = plan.due else { return Err(wrong(format!("at {at} it is given up"))) };
        let polled = Polled {
            key,
            fetch: polls as u64 + 1,
            line: PollLine::new(at, 200, brought.answer, Some(due), plan.why),
            conditional: plan.conditional,
            checksum: brought.checksum,
            sighting: brought.sighting,
            history,
            title: record.new_title(&brought.title),
            wrong: Box::default(),
        };
        if (polls as u64).is_multiple_of(BYTES_EVERY) {
            record = through_bytes(&record, &polled).ok_or_else(|| wrong("its bytes are damaged".into()))?;
        } else {
            record.fold(&polled);
        }
        polls += 1;
        now = due.0;
    }
    if polls != expected.len() {
        return Err(wrong(format!("{polls} polls, {} by the model", expected.len())));
    }
    let stories: usize = expected.iter().map(|poll| poll.end - poll.first).sum();
    if record.stories != stories as u64 {
        return Err(wrong(format!("its record counts {} stories, there were {stories}", record.stories)));
    }
    counts.feeds += 1;
    let last = expected.iter().map(|poll| poll.end).max().unwrap_or(0);
    // Stories that were gone before the first poll could never be found.
    let before = expected.iter().find(|poll| poll.first < poll.end).map_or(0, |poll| poll.first);
    counts.gone += (last - stories - before) as u64;
    counts.waiting += (source.count(end - 1) - last) as u64;
    Ok(())
}

/// The stories that these URLs stand for, which follow one another and were never found before.
fn take_stories(
    source: &Source,
    urls: &[CrawlUrl],
    found: &mut [u8],
) -> Result<std::ops::Range<usize>, String> {
    let mut numbers = Vec::with_capacity(urls.len());
    for url in urls {
        let number =
            source.story(url.path_and_query()).ok_or_else(|| format!("{} is no story", url.as_str()))?;
        found[number] += 1;
        if found[number] > 1 {
            return Err(format!("story {number} is found twice"));
        }
        numbers.push(number);
    }
    numbers.sort_unstable();
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else { return Ok(0..0) };
    if last - first + 1 != numbers.len() {
        return Err(format!("stories {numbers:?} are found together: some are left out"));
    }
    Ok(*first..last + 1)
}

fn count(
    source: &Source,
    model: &Expected,
    reply: &Reply,
    brought: &Brought,
    first: u64,
    counts: &mut Counts,
) {
    counts.polls += 1;
    counts.not_modified += u64::from(*reply == Reply::NotModified);
    counts.redundant += u64::from(brought.answer == PollAnswer::Redundant);
    counts.stories += (model.end - model.first) as u64;
    // Stories of the first poll were published before the feed was followed.
    for (place, published) in source.published[model.first..model.end].iter().enumerate() {
        if *published > first {
            let captured = model.at + place as u64 * PAGE_REST;
            counts.delays.push(((captured - published) / SECOND) as u32);
        }
    }
}

/// The same fold, through the encoded forms of the log and of the state.
fn through_bytes(record: &Record, polled: &Polled) -> Option<Record> {
    let mut out = Vec::new();
    polled.put(&mut out);
    let polled = Polled::read(&mut Reader::new(&out)).ok()?;
    let mut record = Record::from_bytes(&record.to_bytes()).ok()?;
    record.fold(&polled);
    Some(record)
}

/// The schedule under test: without the spread that keeps feeds apart, so that the model can predict to the
/// millisecond.
pub fn settings(rule: Rule) -> Settings {
    let settings = Settings { rule, spread_percent: 0, ..Settings::default() };
    debug_assert_eq!(settings.interval_max, Duration::from_millis(7 * DAY));
    debug_assert_eq!(settings.interval_min, Duration::from_millis(5 * MINUTE));
    settings
}
