//! From the answer to a poll to the decisions: the only entrance for a feed that was fetched.
//!
//! The URLs of the feed are compared with the URLs of the last poll (SEEDS D7). If they are equal, the feed is
//! redundant: the feed is stored as [`REDUNDANT`](super::REDUNDANT), and its entries are not judged. Otherwise each
//! entry is judged. The result is data: the entries that are new stories, the sightings to write, the checksum to
//! store, and the answer for the schedule.
//!
//! Invariants: nothing is changed here; a checksum is stored only when every entry under it was decided, so that
//! postponed entries are judged again.

use super::record::{Fault, PollAnswerKind};
use super::schedule::PollAnswer;
use super::story::{Judged, Memory, Settings, Sighting, StoryVerdict};
use super::{Feed, Note};
use crate::time::Timestamp;

/// The decisions of one poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The new stories, as indexes into the entries.
    pub stories: Vec<usize>,
    /// The verdict on each entry; empty if the entries were not judged.
    pub verdicts: Vec<StoryVerdict>,
    /// The sighting to write for the feed, if any.
    pub sighting: Option<Sighting>,
    /// The sighting to write for the source, if the feed has one and the entries were judged.
    pub of_source: Option<Sighting>,
    /// The stories that were unknown to the source, as indexes into the entries.
    pub unknown_to_source: Vec<usize>,
    /// The checksum to store; none stores none.
    pub checksum: Option<u64>,
    /// The feed names the same URLs as before.
    pub redundant: bool,
    /// The answer for the schedule.
    pub answer: PollAnswer,
}

/// Decides on a feed: `checksum` and `memory` are the stored ones of the feed, `source` is the memory of the source if
/// other feeds may belong to the same source.
pub fn take_in(
    feed: &Feed,
    checksum: Option<u64>,
    memory: &Memory,
    source: Option<&Memory>,
    settings: &Settings,
    now: Timestamp,
) -> Taken {
    let nothing = Taken {
        stories: Vec::new(),
        verdicts: Vec::new(),
        sighting: None,
        of_source: None,
        unknown_to_source: Vec::new(),
        checksum,
        redundant: false,
        answer: PollAnswer::Failed,
    };
    if feed.has(Note::NotAFeed) {
        return nothing;
    }
    let sum = feed.checksum();
    if checksum == Some(sum) {
        let sighting = memory.redundant(now);
        return Taken { sighting, redundant: true, answer: PollAnswer::Redundant, ..nothing };
    }
    let Judged { verdicts, sighting, of_source, unknown_to_source } =
        memory.judge_among(source, &feed.entries, settings, now);
    let places = verdicts.iter().enumerate().filter(|(_, verdict)| **verdict == StoryVerdict::New);
    let stories: Vec<usize> = places.map(|(place, _)| place).collect();
    let is_decided = !verdicts.contains(&StoryVerdict::OverLimit);
    let answer = PollAnswer::Read {
        entries: feed.entries.len() as u32,
        new: stories.len() as u32,
        oldest_new: stories.iter().filter_map(|place| feed.entries[*place].published).min(),
        dated_gap: feed.dated_gap(),
    };
    Taken {
        stories,
        verdicts,
        sighting: Some(sighting),
        of_source,
        unknown_to_source,
        checksum: is_decided.then_some(sum),
        redundant: false,
        answer,
    }
}

/// The fault of an answer that was read as a feed, if there is one. Untidiness is no fault: most feeds are untidy.
pub fn fault(feed: &Feed, body: &[u8]) -> Option<Fault> {
    let is_torn = feed.has(Note::Broken) || feed.has(Note::Partial);
    let (found, words) = if feed.has(Note::NotAFeed) {
        what_instead(body)
    } else if is_torn && feed.entries.is_empty() {
        (PollAnswerKind::Broken, "it is broken: no entry can be read")
    } else if feed.has(Note::Partial) {
        let words = format!("it breaks off: {} entries were read", feed.entries.len());
        return Some(Fault { found: PollAnswerKind::Broken, words: words.into() });
    } else {
        return None;
    };
    Some(Fault { found, words: words.into() })
}

/// The kind and description of an answer that is no feed.
fn what_instead(body: &[u8]) -> (PollAnswerKind, &'static str) {
    let from = body.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(body.len());
    let start = &body[from..body.len().min(from + START_BYTES)];
    let start = String::from_utf8_lossy(start).to_ascii_lowercase();
    if start.is_empty() {
        (PollAnswerKind::NotAFeed, "the answer is empty")
    } else if start.contains("<html") || start.contains("<!doctype html") {
        (PollAnswerKind::NotAFeed, "it is an HTML page")
    } else if start.contains("<?xml") {
        (PollAnswerKind::Broken, "it is XML, and no feed can be read from it")
    } else {
        (PollAnswerKind::NotAFeed, "it is neither a feed nor a page")
    }
}

/// Number of bytes from the start of an answer that are searched for the kind.
const START_BYTES: usize = 1_024;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::feed::schedule::{self, History, Poll};
    use crate::feed::{Limits, read_feed};
    use crate::handler::{Page, ReadAs};
    use crate::url::{CrawlUrl, KeyRules};

    const DAY: u64 = 86_400_000;
    const START: u64 = 1_794_830_400_000;

    fn read(body: &str) -> Feed {
        let url = CrawlUrl::parse("http://s.test/feed").unwrap();
        let (fields, keys) = (http::HeaderMap::new(), KeyRules::default());
        let page = Page {
            url: &url,
            fields: &fields,
            body: body.as_bytes(),
            read_as: ReadAs::Feed,
            agent: "",
            keys: &keys,
        };
        read_feed(&page, &Limits::default())
    }

    /// The stories with these numbers, newest first, dated an hour apart.
    fn body(numbers: std::ops::Range<u64>) -> String {
        let items: String = numbers
            .rev()
            .map(|n| {
                let date = Timestamp(START + n * DAY / 24);
                format!("<item><title>Story {n}</title><link>/s/{n}</link><pubDate>{date}</pubDate></item>")
            })
            .collect();
        format!("<rss><channel><title>S</title>{items}</channel></rss>")
    }

    #[test]
    fn fee_12_a_feed_with_the_same_urls_is_redundant() {
        let (settings, mut memory) = (Settings::default(), Memory::default());
        let first = take_in(&read(&body(0..5)), None, &memory, None, &settings, Timestamp(START));
        assert_eq!(first.stories, [0, 1, 2, 3, 4]);
        memory.fold(first.sighting.as_ref().unwrap());
        let again =
            take_in(&read(&body(0..5)), first.checksum, &memory, None, &settings, Timestamp(START + 1));
        assert_eq!((again.redundant, again.answer, &again.sighting), (true, PollAnswer::Redundant, &None));
        assert_eq!(again.checksum, first.checksum);
        let more =
            take_in(&read(&body(1..6)), again.checksum, &memory, None, &settings, Timestamp(START + 2));
        assert_eq!((more.stories, more.redundant), (vec![0], false));
    }

    #[test]
    fn row_13_what_is_wrong_with_an_answer_is_told_apart() {
        let found = |body: &str| fault(&read(body), body.as_bytes()).map(|fault| fault.found);
        assert_eq!(found(&body(0..5)), None);
        assert_eq!(found("<rss><channel><title>R&D</title></channel></rss>"), None, "untidy, and empty");
        assert_eq!(
            found("<!DOCTYPE html><html><body>Not found</body></html>"),
            Some(PollAnswerKind::NotAFeed)
        );
        assert_eq!(found("  "), Some(PollAnswerKind::NotAFeed));
        assert_eq!(found("hello"), Some(PollAnswerKind::NotAFeed));
        assert_eq!(found("<?xml version='1.0'?><rs"), Some(PollAnswerKind::Broken));
        assert_eq!(found("<rss><channel><item><title>A"), Some(PollAnswerKind::Broken));
        let torn = body(0..5);
        assert_eq!(found(&torn[..torn.len() - 30]), Some(PollAnswerKind::Broken), "its end is missing");
    }

    /// Two feeds of one source report a story once, by URL, by guid and by title; a feed of another source reports the
    /// story again.
    #[test]
    fn row_02_a_story_is_new_once_for_all_feeds_of_a_source() {
        let (settings, now) = (Settings::default(), Timestamp(START));
        let feed = |items: &[(&str, &str, &str)]| {
            let items: String = items
                .iter()
                .map(|(url, guid, title)| {
                    format!("<item><title>{title}</title><link>{url}</link><guid>{guid}</guid></item>")
                })
                .collect();
            read(&format!("<rss><channel><title>S</title>{items}</channel></rss>"))
        };
        let first = feed(&[("/1", "one", "First"), ("/2", "two", "Second")]);
        let second = feed(&[
            ("/1", "other", "Again by its URL"),
            ("/2-bis", "two", "Again by its guid"),
            ("/3", "three", "FIRST"),
            ("/4", "four", "Only here"),
        ]);
        let (mut source, mut a, mut b) = (Memory::default(), Memory::default(), Memory::default());
        let taken = take_in(&first, None, &a, Some(&source), &settings, now);
        assert_eq!(
            (taken.stories.as_slice(), taken.unknown_to_source.as_slice()),
            (&[0, 1][..], &[0, 1][..])
        );
        a.fold(taken.sighting.as_ref().unwrap());
        source.fold(taken.of_source.as_ref().unwrap());
        let taken = take_in(&second, None, &b, Some(&source), &settings, now);
        let told =
            [StoryVerdict::KnownUrl, StoryVerdict::KnownGuid, StoryVerdict::KnownTitle, StoryVerdict::New];
        assert_eq!(taken.verdicts, told);
        assert_eq!((taken.stories.as_slice(), taken.unknown_to_source.as_slice()), (&[3][..], &[3][..]));
        b.fold(taken.sighting.as_ref().unwrap());
        source.fold(taken.of_source.as_ref().unwrap());
        // Another source knows nothing of it.
        let other = take_in(&second, None, &Memory::default(), Some(&Memory::default()), &settings, now);
        assert_eq!(other.stories, [0, 1, 2, 3]);
        // In the next week the title may come again, under another URL.
        let week = Timestamp(START + 7 * DAY);
        let third = feed(&[("/5", "five", "First"), ("/1", "one", "First")]);
        let taken = take_in(&third, None, &b, Some(&source), &settings, week);
        assert_eq!(taken.verdicts, [StoryVerdict::New, StoryVerdict::KnownUrl]);
    }

    /// A feed from a folder that predates sources knows its stories: they are not reported again, and the source learns
    /// them.
    #[test]
    fn row_02_what_a_feed_knew_before_its_source_did_is_not_told_again() {
        let (settings, now) = (Settings::default(), Timestamp(START));
        let mut old = Memory::default();
        old.fold(take_in(&read(&body(0..5)), None, &old, None, &settings, now).sighting.as_ref().unwrap());
        let mut source = Memory::default();
        let taken = take_in(&read(&body(0..6)), None, &old, Some(&source), &settings, now);
        assert_eq!((taken.stories.len(), taken.unknown_to_source.len()), (1, 6));
        source.fold(taken.of_source.as_ref().unwrap());
        let other = take_in(&read(&body(0..6)), None, &Memory::default(), Some(&source), &settings, now);
        assert_eq!((other.stories.len(), other.unknown_to_source.len()), (0, 0));
    }

    #[test]
    fn row_02_the_stories_of_a_day_are_counted_for_the_source() {
        let settings = Settings { stories_per_day_max: 3, ..Settings::default() };
        let (mut source, now) = (Memory::default(), Timestamp(START));
        let first = take_in(&read(&body(0..2)), None, &Memory::default(), Some(&source), &settings, now);
        source.fold(first.of_source.as_ref().unwrap());
        let second = take_in(&read(&body(2..5)), None, &Memory::default(), Some(&source), &settings, now);
        assert_eq!((first.stories.len(), second.stories.len(), second.checksum), (2, 1, None));
    }

    #[test]
    fn what_is_no_feed_changes_nothing() {
        let taken = take_in(
            &read("<html></html>"),
            Some(7),
            &Memory::default(),
            None,
            &Settings::default(),
            Timestamp(START),
        );
        assert_eq!((taken.checksum, taken.answer, taken.sighting), (Some(7), PollAnswer::Failed, None));
    }

    #[test]
    fn fee_14_what_was_put_off_is_not_lost_to_the_checksum() {
        let settings = Settings { stories_per_day_max: 3, ..Settings::default() };
        let (mut memory, mut checksum, mut stories) = (Memory::default(), None, 0);
        for day in 0..4 {
            let taken = take_in(
                &read(&body(0..10)),
                checksum,
                &memory,
                None,
                &settings,
                Timestamp(START + day * DAY),
            );
            stories += taken.stories.len();
            memory.fold(taken.sighting.as_ref().unwrap());
            checksum = taken.checksum;
            assert_eq!(checksum.is_some(), day == 3);
        }
        assert_eq!(stories, 10);
    }

    #[test]
    fn every_story_is_found_once_by_either_rule() {
        for rule in [schedule::Rule::Doubling, schedule::Rule::Adaptive] {
            let settings = schedule::Settings { rule, ..schedule::Settings::default() };
            let (mut memory, mut history, mut checksum) = (Memory::default(), History::default(), None);
            let mut found: BTreeMap<String, u64> = BTreeMap::new();
            let mut now = START;
            // A story an hour, five days long; the last 48 stand in the feed. Now and then it is broken, or cut.
            let (mut polls, last) = (0, 5 * 24);
            while now < START + 12 * DAY {
                let newest = ((now - START) / (DAY / 24)).min(last - 1) + 1;
                let mut text = body(newest.saturating_sub(48)..newest);
                match polls % 7 {
                    3 => text = text.replace("Story", "R&D <br>Story"),
                    5 => text.truncate(text.len() / 2),
                    6 => text = text.replace("<item>", "<item><description>x & y</description>"),
                    _ => {}
                }
                let feed = read(&text);
                let taken = take_in(&feed, checksum, &memory, None, &Settings::default(), Timestamp(now));
                for place in &taken.stories {
                    *found.entry(feed.entries[*place].url.as_str().to_owned()).or_default() += 1;
                }
                if let Some(sighting) = &taken.sighting {
                    memory.fold(sighting);
                }
                checksum = taken.checksum;
                let poll = Poll { validators: true, ..Poll::new(Timestamp(now), taken.answer) };
                now = history.handle_poll(&poll, &settings, 0).due.unwrap().0;
                polls += 1;
            }
            assert_eq!(found.len() as u64, last, "{rule:?}");
            assert!(found.values().all(|times| *times == 1), "{rule:?}: {found:?}");
        }
    }
}
