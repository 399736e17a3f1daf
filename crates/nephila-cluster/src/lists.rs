//! Lists of seeds that are too many for the record of their job: one append-only list per job.
//!
//! A list consists of the messages of an inbox that belongs to no partition: the inbox with number [`FIRST`] plus the
//! job's id. A writer appends messages of lines there, and writes the end position of the list into the record; nodes
//! read new messages, and keep the hash of each seed's place ([`Listed`]). Redirect targets of seeds are appended in
//! the same way.
//!
//! Invariants: the entries of a list never change; no node judges by a list before reading up to the position in the
//! record; a message has at most [`MESSAGE_BYTES_MAX`] bytes, and at most [`READ_AT_ONCE`] messages are in memory.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use nephila_core::job::{JobId, Kind, Listed};
use nephila_core::key::{PREFIXES, Secret};
use nephila_core::url::CrawlUrl;
use nephila_log::Inbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::admin::id_of;
use super::jobs::JobRecord;

/// Partitions have smaller numbers.
const FIRST: u32 = PREFIXES;
/// Maximum size in bytes of the lines in a message.
const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// Maximum number of messages per read.
const READ_AT_ONCE: usize = 64;
/// Timeout for messages that the record promises; then the servers count as unreachable.
const READ_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of seeds in the lists of all jobs that are not stopped: each node holds sixteen bytes per seed.
pub(crate) const SEEDS_IN_LISTS_MAX: u64 = 4_000_000;
/// Maximum size in bytes of the lines of a list.
pub(crate) const LIST_BYTES_MAX: u64 = 512 << 20;

/// Description of a list in the job's record.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(default)]
pub struct List {
    /// End position of the list.
    pub(crate) upto: u64,
    /// Number of seeds in the list.
    pub(crate) seeds: u64,
    /// Size of the lines in bytes.
    pub(crate) bytes: u64,
    /// Whether the list is still being created: no seed was sent, and no node judges by the list.
    pub open: bool,
}

/// Kind of lines in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    /// Seeds.
    Seeds,
    /// Redirect targets of seeds.
    Moved,
}

impl Lines {
    /// The first line of a message.
    fn head(self) -> &'static str {
        match self {
            Lines::Seeds => "seeds",
            Lines::Moved => "moved",
        }
    }

    /// Parses a message into the kind and the lines.
    fn read(message: &[u8]) -> anyhow::Result<(Lines, &str)> {
        let text = std::str::from_utf8(message).context("a list of seeds")?;
        let (head, lines) = text.split_once('\n').unwrap_or((text, ""));
        let kind = [Lines::Seeds, Lines::Moved].into_iter().find(|kind| kind.head() == head);
        let kind = kind.with_context(|| format!("a list of seeds has lines of the kind {head:?}"))?;
        Ok((kind, lines))
    }
}

/// The lists of all jobs, as far as this node has read them.
#[derive(Debug)]
pub struct SeedLists {
    inbox: Arc<dyn Inbox>,
    secret: Secret,
    /// Lists for judging links.
    followed: tokio::sync::Mutex<BTreeMap<JobId, Followed>>,
    /// The seeds of the list that is being extended.
    known: tokio::sync::Mutex<Option<Known>>,
    /// Redirect targets that are not yet written.
    moving: Mutex<BTreeMap<JobId, BTreeSet<String>>>,
    /// Held by the writer of these targets, which writes for all waiting calls.
    turn: tokio::sync::Mutex<()>,
}

/// A list for judging links.
#[derive(Clone, Debug)]
struct Followed {
    listed: Arc<Listed>,
    upto: u64,
    /// Number of seeds read so far: seeds are numbered.
    seeds: u32,
}

/// The seeds in a list, for deduplication.
#[derive(Debug)]
pub struct Known {
    job: JobId,
    upto: u64,
    urls: HashSet<u128>,
}

impl Known {
    /// Number of seeds.
    pub fn len(&self) -> u64 {
        self.urls.len() as u64
    }

    /// The position up to which the list was read.
    pub fn upto(&self) -> u64 {
        self.upto
    }

    /// Inserts a seed. Returns whether the seed is new.
    pub fn insert(&mut self, url: &str) -> bool {
        self.urls.insert(id_of(0, url.as_bytes()))
    }
}

impl SeedLists {
    pub fn new(inbox: Arc<dyn Inbox>, secret: Secret) -> SeedLists {
        let (followed, known, moving, turn) = Default::default();
        SeedLists { inbox, secret, followed, known, moving, turn }
    }

    /// The places of the seeds in a job's list, read up to the position in the record. None if the record has no list
    /// for judging.
    pub(super) async fn places(&self, record: &JobRecord) -> anyhow::Result<Option<Arc<Listed>>> {
        let (id, kind) = (record.job.id, record.job.scope.kind);
        let Some(list) = record.list.filter(|list| !list.open && kind != Kind::Any) else { return Ok(None) };
        let mut all = self.followed.lock().await;
        let known = all.get(&id).filter(|known| known.listed.kind() == kind).cloned();
        let anew = || Followed { listed: Arc::new(Listed::new(kind, self.secret)), upto: 0, seeds: 0 };
        let mut of = known.unwrap_or_else(anew);
        if of.upto >= list.upto {
            return Ok(Some(of.listed));
        }
        let mut places = Vec::new();
        while of.upto < list.upto {
            let messages = self.read(id, of.upto, READ_WAIT).await?;
            let Some((upto, _)) = messages.last() else {
                anyhow::bail!("its list of seeds ends at {}, and the record says {}", of.upto, list.upto)
            };
            of.upto = *upto;
            let (listed, first) = (of.listed.clone(), of.seeds);
            // A million URLs take seconds to read.
            let read = tokio::task::spawn_blocking(move || places_of(&listed, first, &messages));
            let (more, seeds) = read.await.context("reading a list of seeds")??;
            places.extend(more);
            of.seeds = seeds;
        }
        of.listed = Arc::new(of.listed.with(places));
        all.insert(id, of.clone());
        Ok(Some(of.listed))
    }

    /// The seeds of a job's list, read up to its end. The guard is held while the list is extended.
    pub async fn known(&self, id: JobId) -> anyhow::Result<tokio::sync::MutexGuard<'_, Option<Known>>> {
        let mut guard = self.known.lock().await;
        let of_it = guard.take().filter(|known| known.job == id);
        let mut known = of_it.unwrap_or_else(|| Known { job: id, upto: 0, urls: HashSet::new() });
        loop {
            let messages = self.read(id, known.upto, Duration::ZERO).await?;
            let Some((upto, _)) = messages.last() else { break };
            known.upto = *upto;
            for (_, message) in &messages {
                if let (Lines::Seeds, lines) = Lines::read(message)? {
                    lines.lines().for_each(|url| _ = known.insert(url));
                }
            }
        }
        *guard = Some(known);
        Ok(guard)
    }

    async fn read(&self, id: JobId, from: u64, wait: Duration) -> anyhow::Result<Vec<(u64, Bytes)>> {
        self.inbox.read(number(id)?, from, READ_AT_ONCE, wait).await.context("reading a list of seeds")
    }

    /// Appends lines to a job's list. Returns the position of the last message; 0 without lines.
    pub(super) async fn leave(&self, id: JobId, kind: Lines, lines: &[&str]) -> anyhow::Result<u64> {
        let number = number(id)?;
        let (mut upto, mut message) = (0, String::new());
        for (at, line) in lines.iter().enumerate() {
            if message.is_empty() {
                message.push_str(kind.head());
            }
            message.push('\n');
            message.push_str(line);
            let next = lines.get(at + 1).map_or(usize::MAX, |next| next.len());
            if message.len().saturating_add(next) >= MESSAGE_BYTES_MAX {
                let bytes = std::mem::take(&mut message).into_bytes();
                let left = self.inbox.publish(number, id_of(number, &bytes), bytes.into());
                upto = left.await.context("writing a list of seeds")?.max(upto);
            }
        }
        Ok(upto)
    }

    /// Queues a redirect target of a seed; the first writer writes all queued targets.
    pub(super) fn moved(&self, id: JobId, target: &str) {
        self.moving().entry(id).or_default().insert(target.to_owned());
    }

    /// Waits for the turn to write the redirect targets of a job. Returns the targets not yet written, possibly none.
    pub(super) async fn to_write(&self, id: JobId) -> (tokio::sync::MutexGuard<'_, ()>, BTreeSet<String>) {
        let turn = self.turn.lock().await;
        (turn, self.moving().get(&id).cloned().unwrap_or_default())
    }

    /// Removes written targets from the queue.
    pub(super) fn written(&self, id: JobId, targets: &BTreeSet<String>) {
        let mut moving = self.moving();
        if let Some(waiting) = moving.get_mut(&id) {
            waiting.retain(|target| !targets.contains(target));
            if waiting.is_empty() {
                moving.remove(&id);
            }
        }
    }

    fn moving(&self) -> std::sync::MutexGuard<'_, BTreeMap<JobId, BTreeSet<String>>> {
        self.moving.lock().expect("nobody panics holding it")
    }
}

/// The number of the inbox of a job's list.
fn number(id: JobId) -> anyhow::Result<u32> {
    id.0.checked_add(FIRST).context("there are too many jobs")
}

/// The places of the seeds in these messages, numbered after `seeds`, and the last number.
fn places_of(
    listed: &Listed,
    mut seeds: u32,
    messages: &[(u64, Bytes)],
) -> anyhow::Result<(Vec<(u64, u32)>, u32)> {
    let mut places = Vec::new();
    for (_, message) in messages {
        let (kind, lines) = Lines::read(message)?;
        for line in lines.lines() {
            let number = match kind {
                Lines::Seeds => {
                    seeds += 1;
                    seeds
                }
                Lines::Moved => 0,
            };
            // A line that is no URL for this program was written by a newer one.
            if let Ok(url) = CrawlUrl::parse(line) {
                places.push((listed.place(&url), number));
            }
        }
    }
    Ok((places, seeds))
}

#[cfg(test)]
mod tests {
    use nephila_core::job::Job;
    use nephila_log::memory::Engine;

    use super::*;

    fn lists(engine: &Engine) -> SeedLists {
        SeedLists::new(Arc::new(engine.inbox()), Secret([7; 16]))
    }

    fn record(upto: u64, open: bool) -> JobRecord {
        let mut record = JobRecord::new(Job::new(JobId(3), "big"));
        record.job.scope.kind = Kind::Host;
        record.list = Some(List { upto, open, ..List::default() });
        record
    }

    #[tokio::test]
    async fn ops_01_a_list_is_read_as_it_was_left_and_followed_from_there() {
        let engine = Engine::new(Duration::from_secs(15));
        let (writer, reader) = (lists(&engine), lists(&engine));
        let seeds: Vec<String> = (0..20_000).map(|n| format!("https://site-{n}.test/")).collect();
        let lines: Vec<&str> = seeds.iter().map(String::as_str).collect();
        let half = writer.leave(JobId(3), Lines::Seeds, &lines[..10_000]).await.unwrap();
        assert!(half > 1, "several messages");
        assert!(reader.places(&record(half, true)).await.unwrap().is_none(), "it is not whole yet");
        let places = reader.places(&record(half, false)).await.unwrap().unwrap();
        assert_eq!(places.len(), 10_000);
        let whole = writer.leave(JobId(3), Lines::Seeds, &lines[10_000..]).await.unwrap();
        let moved = writer.leave(JobId(3), Lines::Moved, &["https://www.site-7.test/"]).await.unwrap();
        assert!(half < whole && whole < moved);
        let places = reader.places(&record(moved, false)).await.unwrap().unwrap();
        assert_eq!(places.len(), 20_001);
        // Another kind of scope has other places, of the same seeds.
        let mut pages = record(moved, false);
        pages.job.scope.kind = Kind::Domain;
        assert_eq!(reader.places(&pages).await.unwrap().unwrap().len(), 20_000);
        // Who lists more knows what is there.
        let mut known = reader.known(JobId(3)).await.unwrap();
        let known = known.as_mut().unwrap();
        assert_eq!(known.len(), 20_000);
        assert!(!known.insert("https://site-77.test/") && known.insert("https://site-20000.test/"));
        // A list that is shorter than its record says is no list to judge by.
        let error = reader.places(&record(moved + 1, false)).await.unwrap_err();
        assert!(error.to_string().contains("its list of seeds ends at"), "{error:#}");
    }
}
