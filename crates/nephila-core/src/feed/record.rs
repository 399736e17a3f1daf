//! The durable record of a feed, and the log entry that changes the record: one for each poll.
//!
//! The owner decides: the owner reads the record, judges the feed ([`super::poll`]), gets the time of the next poll
//! from the schedule, and writes the result as a [`Polled`]. The fold only applies the result, so a later change of the
//! schedule settings does not change the past.
//!
//! Invariants: folding a poll is idempotent; at most [`POLLS_MAX`] polls are kept; reading the written bytes gives an
//! equal value.

use super::Hints;
use super::schedule::{Health, History, PollAnswer, PollReason};
use super::story::{Memory, Sighting};
use crate::codec::{Damaged, Reader, put_bytes, put_u64};
use crate::key::UrlKey;
use crate::time::Timestamp;

/// Maximum number of stories of one poll in the log; a feed with more has only their number there.
pub const STORIES_MAX: usize = 1_000;
/// Maximum size of a story's title in bytes. A longer title is cut.
pub const STORY_TITLE_BYTES_MAX: usize = 300;

/// Maximum number of polls that are kept per feed for queries.
pub const POLLS_MAX: usize = 20;

/// Maximum length of a kept title in bytes. A longer title is cut.
pub const TITLE_BYTES_MAX: usize = 200;

/// The result of fetching a feed, from which the owner decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brought {
    /// The answer.
    pub answer: PollAnswer,
    /// The request carried validators.
    pub conditional: bool,
    /// The answer has validators.
    pub validators: bool,
    /// The polling hints of the feed.
    pub hints: Hints,
    /// `max-age` of its `Cache-Control`.
    pub max_age: Option<std::time::Duration>,
    /// A hash of where a permanent redirect led, if one did.
    pub moved_to: Option<u64>,
    /// The checksum to store.
    pub checksum: Option<u64>,
    /// The sighting to write for the feed.
    pub sighting: Option<Sighting>,
    /// The sighting to write for the source, if the source is in the feed's own partition.
    pub sighted: Option<Box<super::source::Sighted>>,
    /// The title of the feed, empty if the feed was not read.
    pub title: Box<str>,
    /// The new stories, for readers of the log.
    pub stories: Vec<NewStory>,
    /// A fault that neither status nor outcome shows.
    pub fault: Option<Fault>,
}

/// A fault of a feed that was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault.
    pub found: PollAnswerKind,
    /// A short description for people.
    pub words: Box<str>,
}

impl Brought {
    /// A result with an answer only; the stored checksum stays.
    pub fn of(answer: PollAnswer, record: &Record) -> Brought {
        Brought {
            answer,
            conditional: false,
            validators: false,
            hints: Hints::default(),
            max_age: None,
            moved_to: None,
            checksum: record.checksum,
            sighting: None,
            sighted: None,
            title: Box::default(),
            stories: Vec::new(),
            fault: None,
        }
    }
}

/// The kind of answer that a poll got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PollAnswerKind {
    /// 304.
    NotModified,
    /// The same URLs as at the last poll.
    Redundant,
    /// Entries.
    Read,
    /// No feed.
    #[default]
    Failed,
    /// 410.
    Gone,
    /// Something else: usually a page.
    NotAFeed,
    /// A feed that cannot be read, or only its beginning.
    Broken,
    /// The feed has moved for good.
    Moved,
    /// A page that names feeds, which are followed instead.
    Page,
}

impl PollAnswerKind {
    const ALL: [PollAnswerKind; 9] = [
        PollAnswerKind::NotModified,
        PollAnswerKind::Redundant,
        PollAnswerKind::Read,
        PollAnswerKind::Failed,
        PollAnswerKind::Gone,
        PollAnswerKind::NotAFeed,
        PollAnswerKind::Broken,
        PollAnswerKind::Moved,
        PollAnswerKind::Page,
    ];

    /// The name that users see.
    pub const fn name(self) -> &'static str {
        match self {
            PollAnswerKind::NotModified => "not modified",
            PollAnswerKind::Redundant => "redundant feed",
            PollAnswerKind::Read => "read",
            PollAnswerKind::Failed => "failed",
            PollAnswerKind::Gone => "gone",
            PollAnswerKind::NotAFeed => "not-a-feed",
            PollAnswerKind::Broken => "broken",
            PollAnswerKind::Moved => "moved",
            PollAnswerKind::Page => "page",
        }
    }
}

/// One poll, as kept in the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollLine {
    /// When the poll ended.
    pub at: Timestamp,
    /// The HTTP status, 0 if there was none.
    pub status: u16,
    /// The kind of answer.
    pub found: PollAnswerKind,
    /// Number of entries of the feed.
    pub entries: u32,
    /// Number of new stories among them.
    pub new: u32,
    /// When the next poll was planned for; 0 is never.
    pub due: Timestamp,
    /// The reason for this time: [`PollReason`] as a number, and the length of the series.
    pub why: (u8, u16),
}

impl PollLine {
    /// A poll with this answer and this plan.
    pub fn new(
        at: Timestamp,
        status: u16,
        answer: PollAnswer,
        due: Option<Timestamp>,
        why: PollReason,
    ) -> PollLine {
        let (found, entries, new) = match answer {
            PollAnswer::NotModified => (PollAnswerKind::NotModified, 0, 0),
            PollAnswer::Redundant => (PollAnswerKind::Redundant, 0, 0),
            PollAnswer::Read { entries, new, .. } => (PollAnswerKind::Read, entries, new),
            PollAnswer::Failed => (PollAnswerKind::Failed, 0, 0),
            PollAnswer::Gone => (PollAnswerKind::Gone, 0, 0),
        };
        PollLine { at, status, found, entries, new, due: due.unwrap_or_default(), why: code_of(why) }
    }

    /// The reason for the time of the next poll, for people: `no-new-story, 4 times`.
    pub fn why(&self) -> String {
        let (code, times) = self.why;
        let name = WHYS.get(usize::from(code)).copied().unwrap_or("?");
        if times > 1 { format!("{name}, {times} times") } else { name.to_owned() }
    }

    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.at.0);
        put_u64(out, self.status.into());
        out.push(self.found as u8);
        put_u64(out, self.entries.into());
        put_u64(out, self.new.into());
        put_u64(out, self.due.0);
        out.push(self.why.0);
        put_u64(out, self.why.1.into());
    }

    fn read(reader: &mut Reader<'_>) -> Result<PollLine, Damaged> {
        const WHAT: &str = "poll of a feed";
        let short = |number: u64| u16::try_from(number).map_err(|_| Damaged(WHAT));
        Ok(PollLine {
            at: Timestamp(reader.u64(WHAT)?),
            status: short(reader.u64(WHAT)?)?,
            found: *PollAnswerKind::ALL.get(usize::from(reader.u8(WHAT)?)).ok_or(Damaged(WHAT))?,
            entries: reader.u32(WHAT)?,
            new: reader.u32(WHAT)?,
            due: Timestamp(reader.u64(WHAT)?),
            why: (reader.u8(WHAT)?, short(reader.u64(WHAT)?)?),
        })
    }
}

/// The names of the reasons by their numbers. The numbers stand in logs and never change.
const WHYS: [&str; 10] = [
    PollReason::NewStory.name(),
    PollReason::Fruitless(0).name(),
    PollReason::Rhythm.name(),
    PollReason::Silence.name(),
    PollReason::Crowded.name(),
    PollReason::Hint.name(),
    PollReason::RetryAfter.name(),
    PollReason::Failing(0).name(),
    PollReason::Bound.name(),
    PollReason::Gone.name(),
];

fn code_of(why: PollReason) -> (u8, u16) {
    match why {
        PollReason::NewStory => (0, 0),
        PollReason::Fruitless(times) => (1, times),
        PollReason::Rhythm => (2, 0),
        PollReason::Silence => (3, 0),
        PollReason::Crowded => (4, 0),
        PollReason::Hint => (5, 0),
        PollReason::RetryAfter => (6, 0),
        PollReason::Failing(times) => (7, times),
        PollReason::Bound => (8, 0),
        PollReason::Gone => (9, 0),
    }
}

/// Log entry: the result of one poll of a feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Polled {
    /// The feed.
    pub key: UrlKey,
    /// The fetch that this poll was. Folding the same fetch again changes nothing.
    pub fetch: u64,
    /// The poll.
    pub line: PollLine,
    /// Whether the next request may carry validators.
    pub conditional: bool,
    /// The checksum to store.
    pub checksum: Option<u64>,
    /// The sighting, if the entries were judged.
    pub sighting: Option<Sighting>,
    /// The history after this poll.
    pub history: History,
    /// The title, if changed.
    pub title: Option<Box<str>>,
    /// A short description of the fault, empty if there is none.
    pub wrong: Box<str>,
}

/// Bits of the flags byte behind the poll.
mod flag {
    pub(super) const CONDITIONAL: u8 = 1;
    pub(super) const CHECKSUM: u8 = 2;
    pub(super) const SIGHTING: u8 = 4;
    pub(super) const TITLE: u8 = 8;
    pub(super) const WRONG: u8 = 16;
}

impl Polled {
    /// Appends the encoded entry to `out`.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend(self.key.to_bytes());
        put_u64(out, self.fetch);
        self.line.put(out);
        let mut flags = 0;
        let mut set = |present: bool, bit: u8| flags |= if present { bit } else { 0 };
        set(self.conditional, flag::CONDITIONAL);
        set(self.checksum.is_some(), flag::CHECKSUM);
        set(self.sighting.is_some(), flag::SIGHTING);
        set(self.title.is_some(), flag::TITLE);
        set(!self.wrong.is_empty(), flag::WRONG);
        out.push(flags);
        put_bytes(out, &self.history.to_bytes());
        if let Some(checksum) = self.checksum {
            out.extend(checksum.to_be_bytes());
        }
        if let Some(sighting) = &self.sighting {
            put_bytes(out, &sighting.to_bytes());
        }
        if let Some(title) = &self.title {
            put_bytes(out, title.as_bytes());
        }
        if !self.wrong.is_empty() {
            put_bytes(out, self.wrong.as_bytes());
        }
    }

    /// Decodes an entry.
    pub fn read(reader: &mut Reader<'_>) -> Result<Polled, Damaged> {
        let key = reader.take(UrlKey::BYTES, "key of a poll")?;
        let key = UrlKey::from_bytes(key.try_into().expect("as many were taken"));
        let fetch = reader.u64("fetch of a poll")?;
        let line = PollLine::read(reader)?;
        let flags = reader.u8("flags of a poll")?;
        let has = |bit| flags & bit != 0;
        let history = History::from_bytes(reader.bytes("history of a feed")?)?;
        let checksum = if has(flag::CHECKSUM) { Some(reader.fixed_u64("checksum of a feed")?) } else { None };
        let sighting = match has(flag::SIGHTING) {
            true => Some(Sighting::from_bytes(reader.bytes("sighting")?)?),
            false => None,
        };
        let title = if has(flag::TITLE) { Some(reader.text("title of a feed")?.into()) } else { None };
        let wrong = if has(flag::WRONG) { reader.text("fault of a feed")?.into() } else { Box::default() };
        let conditional = has(flag::CONDITIONAL);
        Ok(Polled { key, fetch, line, conditional, checksum, sighting, history, title, wrong })
    }
}

/// The state of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The last poll that was folded.
    pub fetch: u64,
    /// Whether the next request may carry validators.
    pub conditional: bool,
    /// The checksum of the URLs, if every entry under this checksum was decided.
    pub checksum: Option<u64>,
    /// Number of new stories, ever.
    pub stories: u64,
    /// The title.
    pub title: Box<str>,
    /// The poll times and results that the schedule needs.
    pub history: History,
    /// The stories that were seen.
    pub memory: Memory,
    /// The last polls, the oldest first.
    pub polls: Vec<PollLine>,
    /// A short description of the fault at the last poll; empty if there was none.
    pub wrong: Box<str>,
}

/// The health name of a feed that cannot be fetched.
const FAILING: &str = "failing";

/// Maximum length of the description of a fault in bytes. A longer one is cut.
pub const WRONG_BYTES_MAX: usize = 300;

/// The layout version of [`Record`].
const VERSION: u8 = 1;

impl Record {
    /// Folds a poll. Idempotent.
    pub fn fold(&mut self, polled: &Polled) {
        if !self.polls.is_empty() && self.fetch == polled.fetch {
            return;
        }
        self.fetch = polled.fetch;
        self.conditional = polled.conditional;
        self.checksum = polled.checksum;
        self.stories += u64::from(polled.line.new);
        self.history = polled.history.clone();
        if let Some(sighting) = &polled.sighting {
            self.memory.fold(sighting);
        }
        if let Some(title) = &polled.title {
            self.title = title.clone();
        }
        if self.polls.len() >= POLLS_MAX {
            self.polls.drain(..=self.polls.len() - POLLS_MAX);
        }
        self.polls.push(polled.line);
        self.wrong = polled.wrong.clone();
    }

    /// The health of the feed as a name that users see. A fault shows from the first poll that finds one.
    pub fn health(&self) -> &'static str {
        match self.polls.last().map(|poll| poll.found) {
            Some(
                found @ (PollAnswerKind::NotAFeed
                | PollAnswerKind::Broken
                | PollAnswerKind::Moved
                | PollAnswerKind::Gone
                | PollAnswerKind::Page),
            ) => found.name(),
            Some(PollAnswerKind::Failed) if self.history.health() != Health::Gone => FAILING,
            _ => self.history.health().name(),
        }
    }

    /// Encodes the record.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        put_u64(&mut out, self.fetch);
        out.push(u8::from(self.conditional) | u8::from(self.checksum.is_some()) << 1);
        if let Some(checksum) = self.checksum {
            out.extend(checksum.to_be_bytes());
        }
        put_u64(&mut out, self.stories);
        put_bytes(&mut out, self.title.as_bytes());
        put_bytes(&mut out, &self.history.to_bytes());
        put_u64(&mut out, self.polls.len() as u64);
        self.polls.iter().for_each(|poll| poll.put(&mut out));
        put_bytes(&mut out, &self.memory.to_bytes());
        // Added later: absent in older records, and where there is no fault.
        if !self.wrong.is_empty() {
            put_bytes(&mut out, self.wrong.as_bytes());
        }
        out
    }

    /// Decodes a record.
    pub fn from_bytes(bytes: &[u8]) -> Result<Record, Damaged> {
        let mut reader = Reader::new(bytes);
        if reader.u8("version of a feed")? != VERSION {
            return Err(Damaged("version of a feed"));
        }
        let fetch = reader.u64("poll of a feed")?;
        let flags = reader.u8("flags of a feed")?;
        let checksum = if flags & 2 != 0 { Some(reader.fixed_u64("checksum of a feed")?) } else { None };
        let stories = reader.u64("stories of a feed")?;
        let title = reader.text("title of a feed")?.into();
        let history = History::from_bytes(reader.bytes("history of a feed")?)?;
        let mut polls = Vec::new();
        for _ in 0..reader.u64("polls of a feed")? {
            polls.push(PollLine::read(&mut reader)?);
        }
        let memory = Memory::from_bytes(reader.bytes("memory of a feed")?)?;
        let wrong = match reader.is_empty() {
            true => Box::default(),
            false => reader.text("fault of a feed")?.into(),
        };
        let conditional = flags & 1 != 0;
        Ok(Record { fetch, conditional, checksum, stories, title, history, memory, polls, wrong })
    }

    /// The title to write, if the feed has a new one.
    pub fn new_title(&self, title: &str) -> Option<Box<str>> {
        let mut end = title.len().min(TITLE_BYTES_MAX);
        while !title.is_char_boundary(end) {
            end -= 1;
        }
        let title = &title[..end];
        (!title.is_empty() && *title != *self.title).then(|| title.into())
    }
}

/// A new story, as its feed has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewStory {
    /// URL of its page.
    pub url: Box<str>,
    /// Its title; empty if there is none.
    pub title: Box<str>,
}

impl NewStory {
    /// A story; a title that is too long is cut.
    pub fn new(url: &str, title: &str) -> NewStory {
        let end = (0..=STORY_TITLE_BYTES_MAX.min(title.len())).rev().find(|&at| title.is_char_boundary(at));
        NewStory { url: url.into(), title: title[..end.unwrap_or(0)].into() }
    }
}

#[cfg(test)]
mod tests;
