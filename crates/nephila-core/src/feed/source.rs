//! A source: feeds that publish the same stories. Whether a story is new is decided for all of them together (SEEDS
//! D6).
//!
//! A feed belongs to the source that an operator named for the feed, or else to the source of its registrable domain.
//! The memory of a source is in the partition of its key ([`SourceKey`]). For a domain that is the partition of its
//! feeds, so both change in one group of the log. A poll's effect on a source is written as a [`Sighted`]. Beside the
//! memory, every story of a source is kept as a [`StoryRecord`], in the order of discovery.
//!
//! The memory of a source stands beside the memories of its feeds ([`super::record`]), which stay as they are. A folder
//! from before there were sources continues with the memories of its feeds, and each source learns them at the next
//! polls.
//!
//! Invariants: folding a sighting is idempotent; reading the written bytes gives an equal value.

use super::FeedEntry;
use super::record::{STORIES_MAX, STORY_TITLE_BYTES_MAX};
use super::story::{Memory, Sighting};
use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::key::{DomainKey, HostKey, Secret, UrlKey};
use crate::time::{Seconds, Timestamp};

/// Maximum length of the name of a source in bytes.
pub const NAME_BYTES_MAX: usize = 200;

/// The key under which a source is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceKey(pub HostKey);

/// The last part of the key of a domain's source.
const OF_DOMAIN: u32 = 0;
/// The last part of the key of a source with a name.
const OF_NAME: u32 = 1;

impl SourceKey {
    /// The default source of all feeds of a domain.
    pub fn of_domain(domain: DomainKey) -> SourceKey {
        SourceKey(HostKey { domain, host: OF_DOMAIN })
    }

    /// The source with this name.
    pub fn of_name(name: &str, secret: &Secret) -> SourceKey {
        SourceKey(HostKey { domain: DomainKey::of_source(name, secret), host: OF_NAME })
    }

    /// Whether the source has a name given by an operator.
    pub fn is_named(self) -> bool {
        self.0.host == OF_NAME
    }

    /// The key of the source's record.
    pub fn record(self) -> UrlKey {
        UrlKey { host: self.0, path: 0 }
    }

    /// The key of the story that was found at this time with this sequence number, so stories of a source are sorted by
    /// time. The number of a fetch is no sequence number, since fetch numbers restart with every process.
    pub fn story(self, at: Seconds, number: u64) -> UrlKey {
        UrlKey { host: self.0, path: u64::from(at.0) << 32 | number & u64::from(u32::MAX) }
    }
}

/// Normalizes a name: on one line, trimmed, and at most [`NAME_BYTES_MAX`] long. None if nothing is left.
pub fn name(text: &str) -> Option<String> {
    let line = super::text::line(text, false);
    let end = (0..=NAME_BYTES_MAX.min(line.len())).rev().find(|&at| line.is_char_boundary(at));
    let line = line[..end.unwrap_or(0)].trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// A story of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoryRecord {
    /// The page.
    pub url: Box<str>,
    /// The title; empty if there is none.
    pub title: Box<str>,
    /// The feed that showed the story first.
    pub feed: Box<str>,
    /// The date of publication by the feed's statement; 0 if there is none.
    pub published: Seconds,
}

impl StoryRecord {
    /// Encodes the record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_bytes(&mut out, self.url.as_bytes());
        put_bytes(&mut out, self.title.as_bytes());
        put_bytes(&mut out, self.feed.as_bytes());
        put_u64(&mut out, self.published.0.into());
        out
    }

    /// Decodes a record.
    pub fn from_bytes(bytes: &[u8]) -> Result<StoryRecord, Damaged> {
        const WHAT: &str = "story of a source";
        let mut reader = Reader::new(bytes);
        if reader.u8(WHAT)? != VERSION {
            return Err(Damaged("version of a story"));
        }
        Ok(StoryRecord {
            url: reader.text(WHAT)?.into(),
            title: reader.text(WHAT)?.into(),
            feed: reader.text(WHAT)?.into(),
            published: Seconds(reader.u32(WHAT)?),
        })
    }
}

/// A story, as a poll reports the story to its source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The page.
    pub url: Box<str>,
    /// The title, cut to [`STORY_TITLE_BYTES_MAX`].
    pub title: Box<str>,
    /// The date of publication by the feed's statement; 0 if there is none.
    pub published: Seconds,
}

impl Shown {
    /// From an entry of a feed.
    pub fn of(entry: &FeedEntry) -> Shown {
        let title = &entry.title;
        let end = (0..=STORY_TITLE_BYTES_MAX.min(title.len())).rev().find(|&at| title.is_char_boundary(at));
        Shown {
            url: entry.url.as_str().into(),
            title: title[..end.unwrap_or(0)].into(),
            published: entry.published.map_or(Seconds(0), Seconds::from),
        }
    }
}

/// Log entry: a poll reported entries to a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighted {
    /// The source.
    pub source: SourceKey,
    /// The display name: the given name, or the domain.
    pub name: Box<str>,
    /// The fetch that this poll was. Folding the same fetch again changes nothing.
    pub fetch: u64,
    /// When the poll ended.
    pub at: Timestamp,
    /// The feed.
    pub feed: Box<str>,
    /// The marks of the entries.
    pub sighting: Sighting,
    /// Stories that were unknown to the source, at most [`STORIES_MAX`].
    pub stories: Vec<Shown>,
}

impl Sighted {
    /// Appends the encoded entry to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.source.0.to_bytes());
        put_bytes(out, self.name.as_bytes());
        put_u64(out, self.fetch);
        put_u64(out, self.at.0);
        put_bytes(out, self.feed.as_bytes());
        put_bytes(out, &self.sighting.to_bytes());
        put_u64(out, self.stories.len() as u64);
        for story in &self.stories {
            put_bytes(out, story.url.as_bytes());
            put_bytes(out, story.title.as_bytes());
            put_u64(out, story.published.0.into());
        }
    }

    /// Decodes an entry.
    pub fn read(reader: &mut Reader<'_>) -> Result<Sighted, Damaged> {
        const WHAT: &str = "sighting of a source";
        let key = reader.take(HostKey::BYTES, WHAT)?;
        let source = SourceKey(HostKey::from_bytes(key.try_into().expect("as many were taken")));
        let name = reader.text(WHAT)?.into();
        let fetch = reader.u64(WHAT)?;
        let at = Timestamp(reader.u64(WHAT)?);
        let feed = reader.text(WHAT)?.into();
        let sighting = Sighting::from_bytes(reader.bytes(WHAT)?)?;
        let mut stories = Vec::new();
        for _ in 0..reader.u64(WHAT)? {
            stories.push(Shown {
                url: reader.text(WHAT)?.into(),
                title: reader.text(WHAT)?.into(),
                published: Seconds(reader.u32(WHAT)?),
            });
        }
        Ok(Sighted { source, name, fetch, at, feed, sighting, stories })
    }

    /// The approximate size in memory in bytes.
    pub fn bytes(&self) -> usize {
        let stories: usize = self.stories.iter().map(|story| story.url.len() + story.title.len() + 40).sum();
        size_of::<Sighted>() + 8 * self.sighting.marks.len() + stories
    }

    /// The records of the stories with their keys; `before` is the number of stories that the source had.
    fn records(&self, before: u64) -> impl Iterator<Item = (UrlKey, StoryRecord)> + '_ {
        let at = Seconds::from(self.at);
        (before..).zip(self.stories.iter().take(STORIES_MAX)).map(move |(number, story)| {
            let record = StoryRecord {
                url: story.url.clone(),
                title: story.title.clone(),
                feed: self.feed.clone(),
                published: story.published,
            };
            (self.source.story(at, number), record)
        })
    }
}

/// The state of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The last fetch that reported entries.
    pub fetch: u64,
    /// The display name.
    pub name: Box<str>,
    /// Number of stories, ever.
    pub stories: u64,
    /// The marks of all entries of the feeds.
    pub memory: Memory,
}

/// The layout version of [`Record`] and [`StoryRecord`].
const VERSION: u8 = 1;

impl Record {
    /// Folds a sighting, and returns the story records to store. Idempotent.
    pub fn fold(&mut self, sighted: &Sighted) -> Vec<(UrlKey, StoryRecord)> {
        if !self.name.is_empty() && self.fetch == sighted.fetch {
            return Vec::new();
        }
        let records = sighted.records(self.stories).collect();
        self.fetch = sighted.fetch;
        self.name = sighted.name.clone();
        self.stories += sighted.stories.len() as u64;
        self.memory.fold(&sighted.sighting);
        records
    }

    /// Encodes the record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_u64(&mut out, self.fetch);
        put_bytes(&mut out, self.name.as_bytes());
        put_u64(&mut out, self.stories);
        put_bytes(&mut out, &self.memory.to_bytes());
        out
    }

    /// Decodes a record.
    pub fn from_bytes(bytes: &[u8]) -> Result<Record, Damaged> {
        const WHAT: &str = "source";
        let mut reader = Reader::new(bytes);
        if reader.u8(WHAT)? != VERSION {
            return Err(Damaged("version of a source"));
        }
        Ok(Record {
            fetch: reader.u64(WHAT)?,
            name: reader.text(WHAT)?.into(),
            stories: reader.u64(WHAT)?,
            memory: Memory::from_bytes(reader.bytes(WHAT)?)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::feed::story::Week;

    fn sighted(fetch: u64) -> Sighted {
        let sighting =
            Sighting { week: Week(2_960), day: 9, day_stories: 1, redundant: false, marks: vec![fetch, 99] };
        Sighted {
            source: SourceKey::of_domain(DomainKey(0x0102)),
            name: "a.test".into(),
            fetch,
            at: Timestamp(300_000),
            feed: "http://a.test/f".into(),
            sighting,
            stories: vec![Shown { url: "u".into(), title: "t".into(), published: Seconds(7) }],
        }
    }

    #[test]
    fn a_sighting_counts_once_and_its_stories_stand_in_their_order() {
        let mut record = Record::default();
        let mut stories = Vec::new();
        // All in one second; the last is the first fetch of another process.
        for fetch in [1, 2, 1 << 48 | 1] {
            stories.extend(record.fold(&sighted(fetch)));
            assert!(record.fold(&sighted(fetch)).is_empty());
            assert_eq!(Record::from_bytes(&record.to_bytes()).as_ref(), Ok(&record));
        }
        assert_eq!((record.stories, record.memory.len(), &*record.name), (3, 4, "a.test"));
        let key = |at: u32, number| sighted(1).source.story(Seconds(at), number);
        assert!(key(1, 9) < key(2, 0) && key(1, 0) < key(1, 1));
        let at = Seconds::from(sighted(1).at).0;
        let keys = Vec::from_iter(stories.iter().map(|(key, _)| *key));
        assert_eq!(keys, [0, 1, 2].map(|number| key(at, number)));
        for (_, story) in stories {
            assert_eq!(StoryRecord::from_bytes(&story.to_bytes()), Ok(story));
        }
    }

    #[test]
    fn row_02_a_source_and_its_stories_are_folded_from_the_log() {
        use crate::entry::{Entry, Group, open, seal};
        use crate::state::{Beside, MemoryState, State};
        let mut state = MemoryState::new();
        for fetch in [1, 2] {
            let group = Group { epoch: 1, entries: vec![Entry::Sighted(Box::new(sighted(fetch)))] };
            let (bytes, behind) = seal(&group, state.position());
            let (read, _) = open(&bytes, state.position()).unwrap();
            assert_eq!(read, group);
            crate::fold::fold(&mut state, &read, behind).unwrap();
        }
        let key = sighted(1).source;
        let mut found = Vec::new();
        state.beside(Beside::Source, &[key.record()], &mut found).unwrap();
        let record = Record::from_bytes(found[0].as_ref().unwrap()).unwrap();
        assert_eq!((record.fetch, record.stories, &*record.name), (2, 2, "a.test"));
        let mut stories = Vec::new();
        state.beside_from(Beside::Story, key.record(), 9, &mut stories).unwrap();
        assert_eq!(stories.len(), 2, "a story for each poll");
        let story = StoryRecord::from_bytes(&stories[0].1).unwrap();
        assert_eq!((&*story.url, &*story.feed), ("u", "http://a.test/f"));
    }

    #[test]
    fn names_of_sources_are_lines() {
        assert_eq!(name("  The\n Daily  News "), Some("The Daily News".to_owned()));
        assert_eq!(name(" \t"), None);
        assert_eq!(name(&"ü".repeat(NAME_BYTES_MAX)).unwrap().len(), NAME_BYTES_MAX);
        let secret = Secret([7; 16]);
        let [a, b] = ["a", "b"].map(|name| SourceKey::of_name(name, &secret));
        assert!(a != b && a.is_named() && !SourceKey::of_domain(a.0.domain).is_named());
    }

    // The encoding is durable: a log of today is folded by a node of tomorrow.
    #[test]
    fn golden_sighted() {
        let mut out = Vec::new();
        sighted(6).put(&mut out);
        let golden = [
            &[0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 6][..],
            b"a.test",
            &[6, 0xe0, 0xa7, 0x12, 15],
            b"http://a.test/f",
            // Week, day, stories, not redundant, two marks.
            &[22, 0x90, 0x17, 9, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 99],
            &[1, 1, b'u', 1, b't', 7],
        ];
        assert_eq!(out, golden.concat());
        assert_eq!(Sighted::read(&mut Reader::new(&out)), Ok(sighted(6)));
        for cut in 0..out.len() {
            assert!(Sighted::read(&mut Reader::new(&out[..cut])).is_err(), "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_damage(bytes: Vec<u8>) {
            let _ = (Record::from_bytes(&bytes), StoryRecord::from_bytes(&bytes));
            let _ = Sighted::read(&mut Reader::new(&bytes));
        }
    }
}
