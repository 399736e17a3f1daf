//! The record of a feed: polls count once, complaints come and go, and the bytes stay as they are.

use proptest::prelude::*;

use super::*;
use crate::feed::schedule::{Poll, Settings};
use crate::feed::story::Week;
use crate::key::{DomainKey, HostKey};

fn polled(number: u64) -> Polled {
    let mut history = History::default();
    let answer = PollAnswer::Read { entries: 9, new: 2, oldest_new: None, dated_gap: None };
    let at = Timestamp(1_794_830_400_000 + number * 1_000);
    let plan = history.handle_poll(&Poll::new(at, answer), &Settings::default(), 0);
    let marks = vec![number, number + 1_000];
    Polled {
        key: UrlKey { host: HostKey { domain: DomainKey(7), host: 1 }, path: 9 },
        fetch: number,
        line: PollLine::new(at, 200, answer, plan.due, plan.why),
        conditional: number.is_multiple_of(2),
        checksum: Some(number),
        sighting: Some(Sighting { week: Week(2_960), day: 9, day_stories: 1, redundant: false, marks }),
        history,
        title: number.is_multiple_of(3).then(|| "News".into()),
        wrong: if number.is_multiple_of(5) { "a page".into() } else { Box::default() },
    }
}

#[test]
fn a_poll_counts_once_and_the_last_ones_are_kept() {
    let mut record = Record::default();
    for number in 1..=50 {
        record.fold(&polled(number));
        let once = record.clone();
        record.fold(&polled(number));
        assert_eq!(record, once);
        assert_eq!(Record::from_bytes(&record.to_bytes()).as_ref(), Ok(&record));
    }
    assert_eq!((record.stories, record.polls.len(), record.memory.len()), (100, POLLS_MAX, 100));
    assert_eq!(record.polls.last().unwrap().why(), "new-story");
    assert_eq!(&*record.title, "News");
    assert_eq!((record.new_title("News"), record.new_title("Other")), (None, Some("Other".into())));
    let long = "\u{e9}".repeat(TITLE_BYTES_MAX);
    assert_eq!(record.new_title(&long).unwrap().len(), TITLE_BYTES_MAX);
}

#[test]
fn row_13_what_is_wrong_is_told_from_the_first_poll_and_forgotten_when_it_is_mended() {
    let poll = |fetch, found, wrong: &str| {
        let mut polled = polled(fetch);
        (polled.line.found, polled.wrong) = (found, wrong.into());
        polled
    };
    let mut record = Record::default();
    record.fold(&poll(1, PollAnswerKind::Read, ""));
    assert_eq!((record.health(), &*record.wrong), ("learning", ""));
    for (fetch, found, health) in [
        (2, PollAnswerKind::Failed, "failing"),
        (3, PollAnswerKind::NotAFeed, "not-a-feed"),
        (4, PollAnswerKind::Broken, "broken"),
        (5, PollAnswerKind::Moved, "moved"),
        (6, PollAnswerKind::Gone, "gone"),
    ] {
        record.fold(&poll(fetch, found, "so"));
        assert_eq!((record.health(), &*record.wrong), (health, "so"));
        assert_eq!(Record::from_bytes(&record.to_bytes()).as_ref(), Ok(&record));
    }
    record.fold(&poll(7, PollAnswerKind::NotModified, ""));
    assert_eq!((record.health(), &*record.wrong), ("learning", ""));
}

// The encoding is durable: a log of today is folded by a node of tomorrow.
#[test]
fn golden_poll() {
    let mut out = Vec::new();
    polled(6).put(&mut out);
    let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN);
    assert_eq!(Polled::read(&mut Reader::new(&out)), Ok(polled(6)));
}

const GOLDEN: &str = concat!(
    "000000000000000700000001000000000000000906f0a2eaa19e34c801020902d0cafca19e3400000f2901f0a2",
    "eaa19e34f0a2eaa19e34f0a2eaa19e34f0a2eaa19e34000000000000000000e0a7120000000000000000000000",
    "0616901709010002000000000000000600000000000003ee044e657773",
);

proptest! {
    #[test]
    fn foreign_bytes_are_damage(bytes: Vec<u8>) {
        let _ = (Record::from_bytes(&bytes), Polled::read(&mut Reader::new(&bytes)));
    }
}
