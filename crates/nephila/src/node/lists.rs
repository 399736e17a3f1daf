//! Seeds that are too many for the record of their job: a list for each job, which only grows.
//!
//! A list is the messages of an inbox that belongs to no partition: that of number [`FIRST`] and the number of the job.
//! Whoever has seeds leaves messages of lines there, and writes into the record up to which position the list goes; nodes
//! read what is new to them, and keep the hash of each seed's place ([`Listed`]). Where seeds have moved to is left in the
//! same way.
//!
//! What always holds: what is in a list stays as it is; nobody judges by a list that he has not read up to where the record
//! says that it goes; a message has at most [`MESSAGE_BYTES_MAX`] bytes, and no more than [`READ_AT_ONCE`] are in memory.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use nephila_core::frontier::key::{PREFIXES, Secret};
use nephila_core::job::{JobId, Kind, Listed};
use nephila_core::url::CrawlUrl;
use nephila_log::Inbox;
use serde::{Deserialize, Serialize};

use super::admin::id_of;
use super::jobs::JobRecord;

/// Partitions have smaller numbers.
const FIRST: u32 = PREFIXES;
/// A message of a list has at most so many bytes of lines.
const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// Messages that are read at once.
const READ_AT_ONCE: usize = 64;
/// What the record speaks of comes within this time, or the servers are away.
const READ_WAIT: Duration = Duration::from_secs(1);
/// The lists of all jobs that are not stopped have so many seeds at most: each node holds sixteen bytes of each.
pub(super) const SEEDS_IN_LISTS_MAX: u64 = 4_000_000;
/// A list has at most so many bytes of lines.
pub(super) const LIST_BYTES_MAX: u64 = 512 << 20;

/// What a job's record says of its list.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default)]
pub(crate) struct List {
    /// It goes up to this position.
    pub(crate) upto: u64,
    /// Seeds in it.
    pub(crate) seeds: u64,
    /// Bytes of its lines.
    pub(crate) bytes: u64,
    /// It is still written for the first time: nothing of it was sent, and nobody judges by it.
    pub(crate) open: bool,
}

/// What lines of a list are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lines {
    /// Seeds.
    Seeds,
    /// Where seeds have moved to.
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

    /// The lines of a message, and what they are.
    fn read(message: &[u8]) -> anyhow::Result<(Lines, &str)> {
        let text = std::str::from_utf8(message).context("a list of seeds")?;
        let (head, lines) = text.split_once('\n').unwrap_or((text, ""));
        let kind = [Lines::Seeds, Lines::Moved].into_iter().find(|kind| kind.head() == head);
        let kind = kind.with_context(|| format!("a list of seeds has lines of the kind {head:?}"))?;
        Ok((kind, lines))
    }
}

/// The lists of all jobs, as far as they are known here.
#[derive(Debug)]
pub(crate) struct SeedLists {
    inbox: Arc<dyn Inbox>,
    secret: Secret,
    /// The places of those that are judged by.
    followed: tokio::sync::Mutex<BTreeMap<JobId, Followed>>,
    /// The seeds of the one that is added to.
    known: tokio::sync::Mutex<Option<Known>>,
    /// Where seeds have moved to that is not written yet.
    moving: Mutex<BTreeMap<JobId, BTreeSet<String>>>,
    /// Held by who writes that, for all that wait.
    turn: tokio::sync::Mutex<()>,
}

/// A list that is judged by.
#[derive(Clone, Debug)]
struct Followed {
    listed: Arc<Listed>,
    upto: u64,
    /// Seeds read so far: they are numbered.
    seeds: u32,
}

/// Which seeds are in a list.
#[derive(Debug)]
pub(super) struct Known {
    job: JobId,
    upto: u64,
    urls: HashSet<u128>,
}

impl Known {
    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.urls.len() as u64
    }

    /// It was read up to here.
    pub(super) fn upto(&self) -> u64 {
        self.upto
    }

    /// Takes a seed in; is it new?
    pub(super) fn insert(&mut self, url: &str) -> bool {
        self.urls.insert(id_of(0, url.as_bytes()))
    }
}

impl SeedLists {
    pub(crate) fn new(inbox: Arc<dyn Inbox>, secret: Secret) -> SeedLists {
        let (followed, known, moving, turn) = Default::default();
        SeedLists { inbox, secret, followed, known, moving, turn }
    }

    /// What lies around the seeds of a job's list, up to where its record says that it goes. None if its record says nothing
    /// of a list that is judged by.
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

    /// The seeds of a job's list, up to its end. Whoever lists more holds this meanwhile.
    pub(super) async fn known(
        &self,
        id: JobId,
    ) -> anyhow::Result<tokio::sync::MutexGuard<'_, Option<Known>>> {
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

    /// Leaves lines in a job's list. Gives the position of the last; 0 if there are none.
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

    /// A seed has moved: it is written with what others have to write, by whoever comes first.
    pub(super) fn moved(&self, id: JobId, target: &str) {
        self.moving().entry(id).or_default().insert(target.to_owned());
    }

    /// Waits for its turn to write where seeds of a job have moved to. What is not written yet, if anything.
    pub(super) async fn to_write(&self, id: JobId) -> (tokio::sync::MutexGuard<'_, ()>, BTreeSet<String>) {
        let turn = self.turn.lock().await;
        (turn, self.moving().get(&id).cloned().unwrap_or_default())
    }

    /// That is written.
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

/// The inbox of a job's list.
fn number(id: JobId) -> anyhow::Result<u32> {
    id.0.checked_add(FIRST).context("there are too many jobs")
}

/// The places of the seeds in these messages, numbered behind so many, and the number of the last.
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
            // What is no URL was never listed; a newer program may know more of them.
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
