//! The seed's pipeline in its plainest form, compared with ours.

mod plain;

use proptest::prelude::*;

use super::window::{MEMORY_MS, QUIET_MS, Reason};
use super::*;
use crate::intake::reflog;
use crate::time::Timestamp;
use crate::url::CrawlUrl;

/// 2026-11-16T12:00:00Z.
const NOON: u64 = 1_794_830_400_000;
const MINUTE: u64 = 60_000;
const FIRST: Batch = Batch { number: 1, at: Timestamp(NOON), previous: Timestamp(0) };

fn line(minute: u64, hits: u64, tag: &str) -> Grouped {
    let url = CrawlUrl::parse("http://a.test/").unwrap();
    Grouped {
        id: url.id(),
        url,
        at: Timestamp(NOON + minute * MINUTE),
        hits,
        tag: tag.into(),
        page: Box::default(),
    }
}

/// Batches of one URL at these minutes, the line as old as its batch: the hits of each that is sent.
fn sends(lines: &[(u64, u64, u64, &str)]) -> Vec<Option<u64>> {
    let (mut record, mut previous, mut number) = (None, Timestamp(0), 0);
    let mut sends = Vec::new();
    for (at, minute, hits, tag) in lines {
        number += 1;
        let batch = Batch { number, at: Timestamp(NOON + at * MINUTE), previous };
        let (after, decision) = Record::next(record.as_ref(), &line(*minute, *hits, tag), &batch);
        assert_eq!(Record::from_bytes(&after.to_bytes()).as_ref(), Ok(&after));
        sends.push(match decision {
            Decision::Send { hits, .. } => Some(hits),
            Decision::Keep => None,
        });
        (record, previous) = (Some(after), batch.at);
    }
    sends
}

#[test]
fn lines_are_grouped_hits_summed_and_the_last_tag_kept() {
    let file = "b\t5\t20261116120005\t1\thttp://a.test/\t2\tnew\n\
                b\t5\t20261116120001\t1\thttp://b.test/\t1\t\n\
                b\t5\t20261116120009\t1\thttp://A.test/\t3\n\
                b\t5\t20261116120001\t1\thttp://a.test/\t4\told\n\
                broken\n";
    let reading = reflog::read(file.as_bytes());
    assert_eq!(reading.bad["fields"], 1);
    let mut groups = group(reading.entries);
    assert!(groups.is_sorted_by_key(|group| group.id));
    groups.sort_by(|a, b| a.url.cmp(&b.url));
    let seen: Vec<_> = groups.iter().map(|g| (g.url.as_str(), g.hits, &*g.tag, g.at.digits14())).collect();
    assert_eq!(
        seen,
        [
            ("http://a.test/", 9, "new", "20261116120009".to_owned()),
            ("http://b.test/", 1, "", "20261116120001".to_owned()),
        ]
    );
}

#[test]
fn url_a_is_sent_the_first_time() {
    assert_eq!(sends(&[(0, 0, 3, "x")]), [Some(3)]);
}

#[test]
fn url_c_is_sent_again_after_more_than_an_hour_and_its_hits_are_not_lost() {
    assert_eq!(
        sends(&[(0, 0, 1, "x"), (30, 30, 2, "x"), (60, 60, 4, "x"), (61, 61, 8, "x"), (90, 90, 16, "x")]),
        [Some(1), None, None, Some(14), None]
    );
}

#[test]
fn url_c_is_sent_at_once_when_its_tag_changes() {
    assert_eq!(
        sends(&[(0, 0, 1, "x"), (1, 1, 1, "y"), (2, 2, 1, "y"), (3, 3, 1, "x")]),
        [Some(1), Some(1), None, Some(2)]
    );
    let (record, _) = Record::next(None, &line(0, 1, ""), &FIRST);
    let second = Batch { number: 2, at: Timestamp(NOON), previous: Timestamp(NOON) };
    let (_, decision) = Record::next(Some(&record), &line(1, 1, "x"), &second);
    assert_eq!(decision, Decision::Send { hits: 1, reason: Reason::TagChanged }, "from none to some");
}

#[test]
fn an_empty_tag_says_nothing() {
    assert_eq!(sends(&[(0, 0, 1, "x"), (1, 1, 1, ""), (2, 2, 1, "x")]), [Some(1), None, None]);
}

#[test]
fn a_url_that_never_pauses_is_sent_once_an_hour() {
    let lines: Vec<_> = (0..24 * 60).map(|minute| (minute, minute, 1, "x")).collect();
    let sends = sends(&lines);
    assert_eq!(sends.iter().flatten().count(), 24);
    assert!(sends.iter().flatten().skip(1).all(|hits| *hits == 61));
}

#[test]
fn url_b_is_forgotten_by_the_clock_of_the_batches() {
    // A late line within an hour of the sent one: kept while the URL is known,
    assert_eq!(sends(&[(0, 0, 1, ""), (59, 30, 1, "")]), [Some(1), None]);
    // and sent when a batch in between, without the URL, came an hour later.
    let record = Record::next(None, &line(0, 1, ""), &FIRST).0;
    let late =
        Batch { number: 3, at: Timestamp(NOON + 95 * MINUTE), previous: Timestamp(NOON + 90 * MINUTE) };
    let (_, decision) = Record::next(Some(&record), &line(30, 1, ""), &late);
    assert_eq!(decision, Decision::Send { hits: 1, reason: Reason::First });
}

#[test]
fn hits_wait_up_to_ten_hours() {
    let hours = |hours: u64| hours * 60;
    // 30 minutes: kept. Then nothing for 9 hours: the 5 hits are added. Then nothing for 11: they are not.
    assert_eq!(
        sends(&[(0, 0, 1, ""), (30, 30, 5, ""), (hours(9), hours(9), 1, "")]),
        [Some(1), None, Some(6)]
    );
    assert_eq!(
        sends(&[(0, 0, 1, ""), (30, 30, 5, ""), (hours(11), hours(11), 1, "")]),
        [Some(1), None, Some(1)]
    );
}

#[test]
fn a_batch_counts_once() {
    let mut batches = Batches::default();
    let key = BatchKey::of("2011072806593795", 0, 3);
    let batch = batches.check(key, Timestamp(NOON)).unwrap();
    batches.fold(key, &batch);
    let once = batches.clone();
    batches.fold(key, &batch);
    assert_eq!(batches, once);
    assert_eq!(batches.check(key, Timestamp(NOON + MEMORY_MS)), None);
    assert!(batches.check(BatchKey::of("2011072806593795", 1, 3), Timestamp(NOON)).is_some());
    assert!(batches.check(BatchKey::of("2011072806593795", 0, 2), Timestamp(NOON)).is_some());
    // The clock never runs backwards.
    let early = batches.check(BatchKey::of("x", 0, 1), Timestamp(NOON - 5)).unwrap();
    assert_eq!((early.at, early.previous), (Timestamp(NOON), Timestamp(NOON)));
    assert_eq!(Batches::from_bytes(&batches.to_bytes()), Ok(batches));
}

#[test]
fn the_memory_of_batches_is_bounded() {
    let mut batches = Batches::default();
    for n in 0..(batches::BATCHES_MAX as u32 + 100) {
        let key = BatchKey::of("b", n, 1);
        let batch = batches.check(key, Timestamp(NOON + u64::from(n))).unwrap();
        batches.fold(key, &batch);
    }
    assert_eq!(batches.len(), batches::BATCHES_MAX);
    assert_eq!(batches.check(BatchKey::of("b", 100, 1), Timestamp(NOON)), None, "the last ones are kept");
    let key = BatchKey::of("late", 0, 1);
    let batch = batches.check(key, Timestamp(NOON + 2 * MEMORY_MS)).unwrap();
    batches.fold(key, &batch);
    assert_eq!(batches.len(), 1);
}

#[test]
fn priority_rises_as_hits_double() {
    assert_eq!([0, 1, 2, 3, 4, 1_000, u64::MAX].map(|hits| priority(16, hits)), [16, 16, 15, 15, 14, 7, 0]);
}

proptest! {
    #[test]
    fn foreign_bytes_are_damage(bytes: Vec<u8>) {
        let _ = (Record::from_bytes(&bytes), Batches::from_bytes(&bytes));
    }

    #[test]
    fn no_hit_is_lost_and_none_comes_twice(
        lines in prop::collection::vec((0u64..40, 0u64..50, 0u64..9, "[ab]?"), 1..200),
    ) {
        let (mut window, mut now, mut given, mut sent, mut previous) = (Window::default(), NOON, 0, 0, Timestamp(0));
        for (number, (after, age, hits, tag)) in (1..).zip(lines) {
            now += after * MINUTE;
            let batch = Batch { number, at: Timestamp(now), previous };
            let line = Grouped { at: Timestamp(now - age * MINUTE), ..line(0, hits, &tag) };
            given += hits;
            sent += window.handle_batch(&batch, vec![line]).iter().map(|line| line.hits).sum::<u64>();
            previous = batch.at;
            if now % 7 == 0 {
                window.forget(Timestamp(now));
            }
        }
        prop_assert_eq!(given, sent + window.hits_waiting() + window.stats().hits_forgotten);
        prop_assert_eq!(window.stats().hits_sent, sent);
        prop_assert_eq!(QUIET_MS * 10, MEMORY_MS);
    }
}
