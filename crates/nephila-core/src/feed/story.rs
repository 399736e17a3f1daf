//! Which entries of a source are new stories (SEEDS D6): deduplication of entries with a bounded memory.
//!
//! An entry is a **new story** if neither its URL nor its guid is known for its source, and no other entry of the
//! source has its title in the same calendar week. Each entry leaves up to three **marks** of 64 bits in the memory:
//! its URL, its guid, and its title together with its week. A mark records every entry that was seen, also one that did
//! not become a story: an entry that was rejected for its title today is rejected by its URL tomorrow, and is no new
//! story in the next week.
//!
//! - **URL**: its key under [`Settings::keys`], which drop the parameters that newsletters and campaigns append,
//!   without its scheme: a source that moves to https has no new stories.
//! - **Guid**: as written; a guid that is a URL is compared as a URL, also with the URLs of other entries.
//! - **Title**: without case and white space. An empty title is no title, and no two empty titles are equal.
//! - **Week**: Monday to Sunday in UTC, of the day of publication; of the first sighting where there is no date, or a
//!   date further than a day in the future. The time zone of a source is unknown (its dates carry the zone of a
//!   program, and many none), and UTC gives the same answer on every node and after every restart.
//!
//! **Retention**: a mark stays while its entry is in the feed, however long, and [`FORGET_WEEKS`] more. Evicted marks
//! leave the week in which they were last seen. An unknown entry that was published up to that week may be one of the
//! evicted, and is [`StoryVerdict::TooOld`] instead of new. So no dated story comes twice, ever. A story without a date
//! can come again only after its source has left the story out for [`FORGET_WEEKS`].
//!
//! Feeds of one source ([`super::source`]) share a memory beside their own; an entry is known if either memory knows a
//! mark. The memory of the source evicts a mark [`FORGET_WEEKS`] after one of its feeds last changed with the entry
//! present.
//!
//! Judging changes nothing and returns the [`Sighting`] to write. Folding the sighting changes the memory, and is
//! idempotent.
//!
//! Invariants: at most [`MARKS_MAX`] marks; the same entries in the same order give the same verdicts on every machine.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use super::{ENTRIES_MAX, FeedEntry};
use crate::codec::{Damaged, Reader, put_u64};
use crate::time::Timestamp;
use crate::url::{CrawlUrl, KeyRules};

/// A mark is evicted when its entry has been out of the feed for this number of weeks. Feeds bring back entries that
/// fell off their end within days; a poll may be a week late, and a source may be down for a month.
pub const FORGET_WEEKS: u32 = 8;

/// Maximum number of marks of one source: the three of every entry of the largest feed, four times over. Above this
/// bound the marks with the oldest week of sighting are evicted first.
pub const MARKS_MAX: usize = 4 * 3 * ENTRIES_MAX;

/// A date further in the future than this is a mistake.
const FUTURE_MAX_MS: u64 = 24 * 3_600 * 1_000;

/// How stories are told apart (deduplication). Section `[feed.story]` of the settings file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Which spellings of a URL count as one story.
    pub keys: KeyRules,
    /// Maximum number of new stories of one source in one day (UTC). The rest waits for the next day, and is reported.
    /// A source with more is a trap or an archive.
    pub stories_per_day_max: u32,
}

impl Default for Settings {
    fn default() -> Self {
        let dropped = [
            "utm_*", "fbclid", "gclid", "dclid", "msclkid", "yclid", "mc_cid", "mc_eid", "igshid", "_hsenc",
            "_hsmi",
        ];
        Settings {
            keys: KeyRules {
                query_drop: dropped.map(str::to_owned).to_vec(),
                query_sort: true,
                slashes_merge: true,
                ..KeyRules::default()
            },
            stories_per_day_max: 5_000,
        }
    }
}

/// The verdict on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StoryVerdict {
    /// A new story.
    New,
    /// The URL is known.
    KnownUrl,
    /// The guid is known, under another URL.
    KnownGuid,
    /// Another entry has the same title in the same week.
    KnownTitle,
    /// Unknown, but from a time of which the memory has evicted marks.
    TooOld,
    /// New, but the source has reached its limit of the day. Not marked: the entry is judged again at the next poll.
    OverLimit,
}

impl StoryVerdict {
    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            StoryVerdict::New => "new",
            StoryVerdict::KnownUrl => "known-url",
            StoryVerdict::KnownGuid => "known-guid",
            StoryVerdict::KnownTitle => "known-title",
            StoryVerdict::TooOld => "too-old",
            StoryVerdict::OverLimit => "over-limit",
        }
    }
}

/// A calendar week, Monday to Sunday in UTC, counted from the one that holds 1970-01-01.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Week(pub u32);

impl Week {
    /// The week of a moment. 1970 began on a Thursday.
    pub fn of(time: Timestamp) -> Week {
        Week(u32::try_from((day(time) + 3) / 7).unwrap_or(u32::MAX))
    }

    /// The week in which the title of this entry has to be unique.
    pub fn of_entry(entry: &FeedEntry, now: Timestamp) -> Week {
        let believed = entry.published.filter(|at| at.0 <= now.0.saturating_add(FUTURE_MAX_MS));
        Week::of(believed.unwrap_or(now))
    }
}

fn day(time: Timestamp) -> u64 {
    time.0 / 86_400_000
}

/// The marks that a poll saw: written to the log, and folded into the memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sighting {
    /// The week of the poll.
    pub week: Week,
    /// The day of the poll, since 1970.
    pub day: u64,
    /// The source's new stories of that day, including this poll.
    pub day_stories: u32,
    /// The feed names the same URLs as before; the entries were not judged.
    pub redundant: bool,
    /// Marks that are new, or that were not yet seen this week. Sorted, each once.
    pub marks: Vec<u64>,
}

impl Sighting {
    /// Encodes the sighting.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + 8 * self.marks.len());
        put_u64(&mut out, u64::from(self.week.0));
        put_u64(&mut out, self.day);
        put_u64(&mut out, u64::from(self.day_stories));
        out.push(u8::from(self.redundant));
        put_u64(&mut out, self.marks.len() as u64);
        self.marks.iter().for_each(|mark| out.extend_from_slice(&mark.to_be_bytes()));
        out
    }

    /// Decodes a sighting.
    pub fn from_bytes(bytes: &[u8]) -> Result<Sighting, Damaged> {
        let mut reader = Reader::new(bytes);
        let week = Week(reader.u32("week of a sighting")?);
        let day = reader.u64("day of a sighting")?;
        let day_stories = reader.u32("stories of a sighting")?;
        let redundant = reader.u8("kind of a sighting")? != 0;
        let count = reader.u64("marks of a sighting")?;
        let mut marks = Vec::new();
        for _ in 0..count {
            marks.push(reader.fixed_u64("mark")?);
        }
        Ok(Sighting { week, day, day_stories, redundant, marks })
    }
}

/// The result of judging a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// The verdict on each entry, in the order of the feed.
    pub verdicts: Vec<StoryVerdict>,
    /// The sighting to write for the feed.
    pub sighting: Sighting,
    /// The sighting to write for the source, if the feed has one.
    pub of_source: Option<Sighting>,
    /// The stories that were unknown to the source, as indexes: the new ones, and the ones that the feed knew before
    /// its source did (the feed is older than its source, or a crash came between the two).
    pub unknown_to_source: Vec<usize>,
}

impl Judged {
    /// Number of new stories.
    pub fn stories(&self) -> u32 {
        self.count(StoryVerdict::New)
    }

    /// Number of entries with this verdict.
    pub fn count(&self, verdict: StoryVerdict) -> u32 {
        self.verdicts.iter().filter(|v| **v == verdict).count() as u32
    }
}

/// The deduplication memory of a feed, or of all feeds of a source together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Marks, and the week in which each was last seen.
    marks: BTreeMap<u64, Week>,
    /// The week of the last poll whose entries were judged.
    judged: Week,
    /// The week of the last poll since then that named the same URLs.
    unchanged: Week,
    /// The last week in which an evicted mark was seen; none if no mark was evicted.
    forgotten: Option<Week>,
    day: u64,
    day_stories: u32,
}

impl Memory {
    /// Number of marks.
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether there is no mark.
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Judges each entry. To be called when the feed's checksum differs from the stored one; otherwise
    /// [`Memory::redundant`] is enough.
    pub fn judge(&self, entries: &[FeedEntry], settings: &Settings, now: Timestamp) -> Judged {
        self.judge_among(None, entries, settings, now)
    }

    /// Like [`Memory::judge`], for a feed whose source may have other feeds: an entry that one of them showed is new in
    /// none. The source counts the stories of the day. Whether an entry is too old is decided by the feed alone, since
    /// a feed that is added to an old source may bring entries that the source never had.
    pub fn judge_among(
        &self,
        source: Option<&Memory>,
        entries: &[FeedEntry],
        settings: &Settings,
        now: Timestamp,
    ) -> Judged {
        let week = Week::of(now);
        let day = day(now);
        let before = source.unwrap_or(self).stories_of(day);
        let mut stories = before;
        let mut seen: BTreeSet<u64> = BTreeSet::new();
        let mut verdicts = Vec::with_capacity(entries.len());
        let mut unknown_to_source = Vec::new();
        for (place, entry) in entries.iter().enumerate() {
            let marks = Marks::of(entry, settings, now);
            let source_knows = |mark: u64| {
                seen.contains(&mark) || source.is_some_and(|source| source.marks.contains_key(&mark))
            };
            let is_unknown = source.is_some() && !marks.all().any(source_knows);
            let knows = |mark: u64| source_knows(mark) || self.marks.contains_key(&mark);
            let mut verdict = if knows(marks.url) {
                StoryVerdict::KnownUrl
            } else if marks.guid.is_some_and(knows) {
                StoryVerdict::KnownGuid
            } else if marks.title.is_some_and(knows) {
                StoryVerdict::KnownTitle
            } else if entry.published.is_some()
                && self.forgotten.is_some_and(|f| Week::of_entry(entry, now) <= f)
            {
                StoryVerdict::TooOld
            } else {
                StoryVerdict::New
            };
            if verdict == StoryVerdict::New {
                if stories >= settings.stories_per_day_max {
                    verdict = StoryVerdict::OverLimit;
                } else {
                    stories += 1;
                }
            }
            if verdict != StoryVerdict::OverLimit {
                seen.extend(marks.all());
                if is_unknown && verdict != StoryVerdict::TooOld {
                    unknown_to_source.push(place);
                }
            }
            verdicts.push(verdict);
        }
        // A mark that was already seen this week need not be written again.
        let sighting = |memory: &Memory| {
            let is_news = |mark: &&u64| memory.marks.get(mark).is_none_or(|last| *last < week);
            let marks = seen.iter().filter(is_news).copied().collect();
            let day_stories = memory.stories_of(day).saturating_add(stories - before);
            Sighting { week, day, day_stories, redundant: false, marks }
        };
        let (of_source, sighting) = (source.map(&sighting), sighting(self));
        Judged { verdicts, sighting, of_source, unknown_to_source }
    }

    /// The number of new stories of this day so far.
    fn stories_of(&self, day: u64) -> u32 {
        if self.day == day { self.day_stories } else { 0 }
    }

    /// The sighting to write for a poll that found the feed unchanged; none if one was written this week.
    pub fn redundant(&self, now: Timestamp) -> Option<Sighting> {
        let week = Week::of(now);
        let day = day(now);
        let day_stories = self.stories_of(day);
        let is_new = week > self.judged.max(self.unchanged);
        is_new.then(|| Sighting { week, day, day_stories, redundant: true, marks: Vec::new() })
    }

    /// Folds a sighting.
    pub fn fold(&mut self, sighting: &Sighting) {
        (self.day, self.day_stories) = (sighting.day, sighting.day_stories);
        if sighting.redundant {
            self.unchanged = self.unchanged.max(sighting.week);
            return;
        }
        // Entries that were in the feed when last judged were there until the last poll that found the feed unchanged.
        if self.unchanged > self.judged {
            let (judged, unchanged) = (self.judged, self.unchanged);
            self.marks.values_mut().filter(|last| **last == judged).for_each(|last| *last = unchanged);
        }
        let week = sighting.week;
        for mark in &sighting.marks {
            let last = self.marks.entry(*mark).or_insert(week);
            *last = week.max(*last);
        }
        // Within one week no mark becomes too old; a scan of all marks at every poll would cost more than everything
        // else.
        let is_later = week > self.judged;
        self.judged = self.judged.max(week);
        if is_later || self.marks.len() > MARKS_MAX {
            self.forget(week);
        }
    }

    fn forget(&mut self, now: Week) {
        let oldest = now.0.saturating_sub(FORGET_WEEKS);
        let mut forgotten = self.forgotten;
        self.marks.retain(|_, last| {
            let kept = last.0 >= oldest;
            forgotten = if kept { forgotten } else { forgotten.max(Some(*last)) };
            kept
        });
        if self.marks.len() > MARKS_MAX {
            let mut by_age: Vec<(Week, u64)> = self.marks.iter().map(|(mark, last)| (*last, *mark)).collect();
            by_age.sort_unstable();
            by_age.truncate(self.marks.len() - MARKS_MAX);
            for (last, mark) in by_age {
                self.marks.remove(&mark);
                forgotten = forgotten.max(Some(last));
            }
        }
        self.forgotten = forgotten;
    }

    /// Encodes the memory.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24 + 10 * self.marks.len());
        put_u64(&mut out, u64::from(self.judged.0));
        put_u64(&mut out, u64::from(self.unchanged.0));
        put_u64(&mut out, self.forgotten.map_or(0, |week| u64::from(week.0) + 1));
        put_u64(&mut out, self.day);
        put_u64(&mut out, u64::from(self.day_stories));
        put_u64(&mut out, self.marks.len() as u64);
        for (mark, last) in &self.marks {
            out.extend_from_slice(&mark.to_be_bytes());
            put_u64(&mut out, u64::from(self.judged.0.saturating_sub(last.0)));
        }
        out
    }

    /// Decodes a memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Memory, Damaged> {
        let mut reader = Reader::new(bytes);
        let judged = Week(reader.u32("week of a memory")?);
        let unchanged = Week(reader.u32("week of a memory")?);
        let forgotten = reader.u32("week of a memory")?.checked_sub(1).map(Week);
        let day = reader.u64("day of a memory")?;
        let day_stories = reader.u32("stories of a memory")?;
        let count = reader.u64("marks of a memory")?;
        let mut marks = BTreeMap::new();
        for _ in 0..count {
            let mark = reader.fixed_u64("mark")?;
            let last = Week(judged.0.saturating_sub(reader.u32("age of a mark")?));
            marks.insert(mark, last);
        }
        Ok(Memory { marks, judged, unchanged, forgotten, day, day_stories })
    }
}

/// The marks of one entry.
struct Marks {
    url: u64,
    guid: Option<u64>,
    title: Option<u64>,
}

impl Marks {
    fn of(entry: &FeedEntry, settings: &Settings, now: Timestamp) -> Marks {
        let url = url_mark(entry.url.as_str(), settings).unwrap_or_else(|| hash(URL, 0, entry.url.key()));
        let guid = entry.guid.as_deref().map(str::trim).filter(|guid| !guid.is_empty()).map(|guid| {
            let is_url = guid.contains("://");
            is_url.then(|| url_mark(guid, settings)).flatten().unwrap_or_else(|| hash(GUID, 0, guid))
        });
        let title = folded(&entry.title);
        let week = u64::from(Week::of_entry(entry, now).0);
        // The week is part of the mark, so weeks need no table of their own.
        let title = (!title.is_empty()).then(|| hash(TITLE, week, &title));
        Marks { url, guid, title }
    }

    fn all(&self) -> impl Iterator<Item = u64> {
        [Some(self.url), self.guid, self.title].into_iter().flatten()
    }
}

fn url_mark(url: &str, settings: &Settings) -> Option<u64> {
    let url = CrawlUrl::parse_with(url, &settings.keys).ok()?;
    let key = url.key().split_once("://").map_or(url.key(), |(_, rest)| rest);
    Some(hash(URL, 0, key))
}

/// Normalizes a title for comparison: headlines are set in capitals, and spaces come and go.
fn folded(title: &str) -> String {
    title.split_whitespace().flat_map(|word| word.chars().flat_map(char::to_lowercase)).collect()
}

/// Kind and week are part of the hashed text: as a seed they would cancel out against the letters of short titles.
fn hash(kind: u8, week: u64, text: &str) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&[kind]);
    hasher.update(&week.to_be_bytes());
    hasher.update(text.as_bytes());
    hasher.digest()
}

const URL: u8 = 1;
const GUID: u8 = 2;
const TITLE: u8 = 3;

#[cfg(test)]
mod tests;
