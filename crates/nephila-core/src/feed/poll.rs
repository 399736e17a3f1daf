//! From the answer to a poll to what is to be done: the one entrance for a feed that was fetched.
//!
//! The feed's URLs are compared with those of the last poll (SEEDS D7). If they are the same, the feed is redundant: it is
//! stored as [`REDUNDANT`](super::REDUNDANT), and its entries are not looked at. Otherwise each entry is judged. What comes
//! out is data: which entries are new stories, what is to be written down, which checksum is to be remembered, and what
//! the schedule is told.
//!
//! What always holds: nothing is changed here; a checksum is remembered only when every entry under it was decided, so
//! that what was put off is looked at again.

use super::schedule::Answer;
use super::story::{Judged, Memory, Settings, Sighting, Verdict};
use super::{Feed, Note};
use crate::time::Timestamp;

/// What a poll comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The new stories, by their places among the entries.
    pub stories: Vec<usize>,
    /// What each entry is; empty if they were not looked at.
    pub verdicts: Vec<Verdict>,
    /// What is to be written down for the source, if anything.
    pub sighting: Option<Sighting>,
    /// The checksum to remember from now on, none for none.
    pub checksum: Option<u64>,
    /// The feed names the same URLs as before.
    pub redundant: bool,
    /// What the schedule is told.
    pub answer: Answer,
}

/// Takes in a feed: what was read, the checksum that is remembered, and the memory of its source.
pub fn take_in(
    feed: &Feed,
    checksum: Option<u64>,
    memory: &Memory,
    settings: &Settings,
    now: Timestamp,
) -> Taken {
    if feed.has(Note::NotAFeed) {
        return Taken {
            stories: Vec::new(),
            verdicts: Vec::new(),
            sighting: None,
            checksum,
            redundant: false,
            answer: Answer::Failed,
        };
    }
    let sum = feed.checksum();
    if checksum == Some(sum) {
        return Taken {
            stories: Vec::new(),
            verdicts: Vec::new(),
            sighting: memory.redundant(now),
            checksum,
            redundant: true,
            answer: Answer::Redundant,
        };
    }
    let Judged { verdicts, sighting } = memory.judge(&feed.entries, settings, now);
    let places = verdicts.iter().enumerate().filter(|(_, verdict)| **verdict == Verdict::New);
    let stories: Vec<usize> = places.map(|(place, _)| place).collect();
    let is_decided = !verdicts.contains(&Verdict::OverLimit);
    let answer = Answer::Read {
        entries: feed.entries.len() as u32,
        new: stories.len() as u32,
        oldest_new: stories.iter().filter_map(|place| feed.entries[*place].published).min(),
        dated_gap: feed.dated_gap(),
    };
    Taken {
        stories,
        verdicts,
        sighting: Some(sighting),
        checksum: is_decided.then_some(sum),
        redundant: false,
        answer,
    }
}

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
        let first = take_in(&read(&body(0..5)), None, &memory, &settings, Timestamp(START));
        assert_eq!(first.stories, [0, 1, 2, 3, 4]);
        memory.fold(first.sighting.as_ref().unwrap());
        let again = take_in(&read(&body(0..5)), first.checksum, &memory, &settings, Timestamp(START + 1));
        assert_eq!((again.redundant, again.answer, &again.sighting), (true, Answer::Redundant, &None));
        assert_eq!(again.checksum, first.checksum);
        let more = take_in(&read(&body(1..6)), again.checksum, &memory, &settings, Timestamp(START + 2));
        assert_eq!((more.stories, more.redundant), (vec![0], false));
    }

    #[test]
    fn what_is_no_feed_changes_nothing() {
        let taken = take_in(
            &read("<html></html>"),
            Some(7),
            &Memory::default(),
            &Settings::default(),
            Timestamp(START),
        );
        assert_eq!((taken.checksum, taken.answer, taken.sighting), (Some(7), Answer::Failed, None));
    }

    #[test]
    fn fee_14_what_was_put_off_is_not_lost_to_the_checksum() {
        let settings = Settings { stories_per_day_max: 3, ..Settings::default() };
        let (mut memory, mut checksum, mut stories) = (Memory::default(), None, 0);
        for day in 0..4 {
            let taken =
                take_in(&read(&body(0..10)), checksum, &memory, &settings, Timestamp(START + day * DAY));
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
                let taken = take_in(&feed, checksum, &memory, &Settings::default(), Timestamp(now));
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
