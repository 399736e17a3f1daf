//! The story rule as a table, and the memory over years.

mod cases;

use proptest::prelude::*;

use super::*;

const DAY: u64 = 86_400_000;

/// 2026-11-16, a Monday, at noon.
const MONDAY: u64 = 1_794_830_400_000;

fn entry(url: &str, guid: &str, title: &str, published: Option<u64>) -> FeedEntry {
    FeedEntry {
        url: CrawlUrl::parse(url).unwrap(),
        guid: (!guid.is_empty()).then(|| guid.to_owned()),
        title: title.to_owned(),
        published: published.map(Timestamp),
        updated: None,
        author: None,
        language: None,
    }
}

/// Judges and folds.
fn poll(memory: &mut Memory, entries: &[FeedEntry], now: u64) -> Vec<StoryVerdict> {
    let judged = memory.judge(entries, &Settings::default(), Timestamp(now));
    memory.fold(&Sighting::from_bytes(&judged.sighting.to_bytes()).unwrap());
    judged.verdicts
}

fn numbered(from: usize, to: usize, now: u64) -> Vec<FeedEntry> {
    (from..to)
        .map(|n| entry(&format!("http://s.test/{n}"), &format!("g{n}"), &format!("t{n}"), Some(now)))
        .collect()
}

#[test]
fn weeks_begin_on_monday_in_utc() {
    let week = |ms| Week::of(Timestamp(ms)).0;
    let monday = MONDAY - DAY / 2;
    assert_eq!(Timestamp(monday).warc_date(), "2026-11-16T00:00:00Z");
    assert_eq!(week(monday - 1) + 1, week(monday));
    assert_eq!(week(monday), week(monday + 7 * DAY - 1));
    assert_eq!((week(0), week(3 * DAY), week(4 * DAY)), (0, 0, 1));
}

#[test]
fn fee_11_no_story_comes_twice_in_1_000_polls() {
    let mut memory = Memory::default();
    let mut stories = BTreeSet::new();
    for n in 0..1_000u64 {
        let now = MONDAY + n * DAY / 4;
        // A window of 20 entries moves on by one each day; guids change at every poll, or are all the same, or absent.
        let from = n as usize / 4;
        let entries: Vec<FeedEntry> = (from..from + 20)
            .map(|k| {
                let guid = match k % 3 {
                    0 => format!("poll-{n}-{k}"),
                    1 => format!("http://s.test/story/{k}?utm_source={n}"),
                    _ => String::new(),
                };
                let published = (k % 2 == 0).then_some(MONDAY + k as u64 * DAY);
                entry(&format!("http://s.test/story/{k}"), &guid, &format!("Story {k}"), published)
            })
            .collect();
        let judged = memory.judge(&entries, &Settings::default(), Timestamp(now));
        for (story, verdict) in entries.iter().zip(&judged.verdicts) {
            if *verdict == StoryVerdict::New {
                assert!(stories.insert(story.url.clone()), "{} twice", story.url);
            }
        }
        memory.fold(&judged.sighting);
    }
    assert_eq!(stories.len(), 269);
    // A changing guid leaves a mark at every poll, all of which go after their weeks.
    assert!(memory.len() < 3_000, "{}", memory.len());
}

#[test]
fn what_stays_in_the_feed_is_never_forgotten() {
    let mut memory = Memory::default();
    let stays = numbered(0, 5, MONDAY);
    assert_eq!(poll(&mut memory, &stays, MONDAY), [StoryVerdict::New; 5]);
    // Nothing changes for a year; then a new entry joins, and the others are known still.
    for week in 1..=52 {
        if let Some(sighting) = memory.redundant(Timestamp(MONDAY + week * 7 * DAY)) {
            memory.fold(&sighting);
        }
        assert_eq!(memory.redundant(Timestamp(MONDAY + week * 7 * DAY + DAY)), None, "once a week is enough");
    }
    let later = MONDAY + 53 * 7 * DAY;
    let mut entries = stays.clone();
    entries.push(entry("http://s.test/new", "gn", "tn", Some(later)));
    let verdicts = poll(&mut memory, &entries, later);
    assert_eq!(verdicts, [[StoryVerdict::KnownUrl; 5].as_slice(), &[StoryVerdict::New]].concat());
    // The entry leaves the feed and is back within the retention.
    poll(&mut memory, &entries[5..], later + 7 * DAY);
    assert_eq!(poll(&mut memory, &stays, later + 8 * 7 * DAY), [StoryVerdict::KnownUrl; 5]);
}

#[test]
fn the_weeks_of_an_unchanged_feed_count_for_what_stood_in_it() {
    let mut memory = Memory::default();
    let undated = [entry("http://s.test/u", "", "u", None)];
    poll(&mut memory, &undated, MONDAY);
    memory.fold(&memory.redundant(Timestamp(MONDAY + 20 * 7 * DAY)).unwrap());
    // The entry was there until week 20, so in week 25 the entry is known, though last judged in week 0.
    poll(&mut memory, &numbered(0, 3, MONDAY + 21 * 7 * DAY), MONDAY + 21 * 7 * DAY);
    assert_eq!(poll(&mut memory, &undated, MONDAY + 25 * 7 * DAY), [StoryVerdict::KnownUrl]);
}

#[test]
fn what_was_forgotten_is_too_old_if_it_has_a_date() {
    let mut memory = Memory::default();
    let dated = numbered(0, 2, MONDAY);
    let undated = [entry("http://s.test/u", "", "u", None)];
    poll(&mut memory, &[dated.clone(), undated.to_vec()].concat(), MONDAY);
    for week in 1..=9 {
        let now = MONDAY + week * 7 * DAY;
        poll(&mut memory, &numbered(week as usize * 10, week as usize * 10 + 3, now), now);
    }
    let now = MONDAY + 10 * 7 * DAY;
    assert_eq!(poll(&mut memory, &dated, now), [StoryVerdict::TooOld; 2]);
    assert_eq!(poll(&mut memory, &undated, now), [StoryVerdict::New], "nothing tells it from a new one");
    assert_eq!(poll(&mut memory, &numbered(900, 901, now), now), [StoryVerdict::New]);
}

#[test]
fn fee_14_a_source_whose_every_entry_is_new_has_its_share_of_the_day() {
    let settings = Settings { stories_per_day_max: 100, ..Settings::default() };
    let mut memory = Memory::default();
    let mut new = 0;
    for poll in 0..10u64 {
        let now = MONDAY + poll * 3_600_000;
        let entries = numbered(poll as usize * 60, poll as usize * 60 + 60, now);
        let judged = memory.judge(&entries, &settings, Timestamp(now));
        new += judged.stories();
        assert_eq!(judged.stories() + judged.count(StoryVerdict::OverLimit), 60);
        memory.fold(&judged.sighting);
    }
    assert_eq!(new, 100);
    // Entries over the limit are not lost: on the next day they are new.
    let judged = memory.judge(&numbered(540, 600, MONDAY), &settings, Timestamp(MONDAY + DAY));
    assert_eq!(judged.stories(), 60);
}

#[test]
fn fee_14_the_memory_is_bounded_and_keeps_the_last_poll() {
    let settings = Settings { stories_per_day_max: u32::MAX, ..Settings::default() };
    let mut memory = Memory::default();
    let mut last = Vec::new();
    for n in 0..6u64 {
        let now = MONDAY + n * 7 * DAY;
        last = numbered(n as usize * ENTRIES_MAX, (n as usize + 1) * ENTRIES_MAX, now);
        let judged = memory.judge(&last, &settings, Timestamp(now));
        memory.fold(&judged.sighting);
        assert!(memory.len() <= MARKS_MAX);
    }
    assert_eq!(memory.len(), MARKS_MAX);
    let again = memory.judge(&last, &settings, Timestamp(MONDAY + 35 * DAY));
    assert_eq!((again.stories(), again.sighting.marks.len()), (0, 0));
}

#[test]
fn fee_12_another_order_changes_nothing() {
    let mut memory = Memory::default();
    let mut entries = numbered(0, 50, MONDAY);
    poll(&mut memory, &entries, MONDAY);
    entries.reverse();
    let judged = memory.judge(&entries, &Settings::default(), Timestamp(MONDAY + 1));
    assert_eq!((judged.stories(), judged.sighting.marks.len()), (0, 0));
}

/// The rule in its plainest form: lists of everything that was ever seen.
#[derive(Default)]
struct Plain {
    urls: Vec<String>,
    guids: Vec<String>,
    titles: Vec<(u64, String)>,
}

impl Plain {
    fn is_new(&mut self, url: &str, guid: &str, title: &str, published: Option<u64>, now: u64) -> bool {
        let week = (published.unwrap_or(now) / DAY + 3) / 7;
        let title = (week, title.to_lowercase());
        let new = !self.urls.iter().any(|u| u == url)
            && (guid.is_empty() || !self.guids.iter().any(|g| g == guid))
            && (title.1.is_empty() || !self.titles.contains(&title));
        self.urls.push(url.to_owned());
        self.guids.push(guid.to_owned());
        self.titles.push(title);
        new
    }
}

proptest! {
    #[test]
    fn the_memory_agrees_with_the_rule_written_plainly(
        polls in prop::collection::vec(
            (0u64..3, prop::collection::vec((0u8..12, 0u8..12, 0u8..12, prop::option::of(0u64..30)), 0..8)), 1..30),
    ) {
        let (mut memory, mut plain) = (Memory::default(), Plain::default());
        let mut now = MONDAY;
        for (days, entries) in polls {
            now += days * DAY;
            let entries: Vec<_> = entries.into_iter().map(|(url, guid, title, age)| (
                format!("http://s.test/{url}"),
                if guid == 0 { String::new() } else { format!("g{guid}") },
                if title == 0 { String::new() } else { format!("Title{title}") },
                age.map(|days| now - days * DAY),
            )).collect();
            let list: Vec<_> = entries.iter().map(|(url, guid, title, at)| entry(url, guid, title, *at)).collect();
            let judged = memory.judge(&list, &Settings::default(), Timestamp(now));
            for ((url, guid, title, at), verdict) in entries.iter().zip(&judged.verdicts) {
                let new = plain.is_new(url, guid, title, *at, now);
                // Beyond its weeks the memory may know less, but never takes a known story for new if it is dated.
                prop_assert_eq!(new, *verdict == StoryVerdict::New, "{} {:?}", url, verdict);
            }
            // Written, read and folded twice is the same as once.
            let sighting = Sighting::from_bytes(&judged.sighting.to_bytes()).unwrap();
            memory.fold(&sighting);
            let once = memory.clone();
            memory.fold(&sighting);
            prop_assert_eq!(&memory, &once);
            prop_assert_eq!(&Memory::from_bytes(&memory.to_bytes()).unwrap(), &once);
        }
    }

    #[test]
    fn foreign_bytes_are_damage(bytes: Vec<u8>) {
        let _ = (Memory::from_bytes(&bytes), Sighting::from_bytes(&bytes));
    }
}
