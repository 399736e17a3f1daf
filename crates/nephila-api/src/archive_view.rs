//! `GET /api/v1/archive`: the WARC files of a folder, and what is in them: sizes, types, statuses.
//!
//! The counts come from the CDXJ index beside each closed file, which never changes: an index is read once, and its
//! counts are kept in memory. A request has at most [`INDEX_BYTES_MAX`] bytes of new indexes counted, and waits
//! [`COUNT_WAIT`] for that; an answer that has not all counts says so, and the next request goes on. A file that is still
//! open has no index and is listed without counts.
//!
//! Invariant: memory is bounded by [`FILES_MAX`] files with [`VALUES_MAX`] types and statuses each.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nephila_core::store::cdxj;
use nephila_store::index::read_line;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of files that are looked at.
pub const FILES_MAX: usize = 100_000;
/// Maximum number of files in an answer.
pub const ROWS_MAX: usize = 1_000;
/// Number of files in an answer to a request without `limit`.
pub const ROWS_USUAL: usize = 200;
/// Maximum number of bytes of new indexes that a request reads.
pub const INDEX_BYTES_MAX: u64 = 16 << 20;
/// Maximum time that a request waits for the counts of new indexes, if older ones are counted already.
pub const COUNT_WAIT: Duration = Duration::from_millis(20);
/// Maximum number of types, and of statuses, that are counted apart in one file.
const VALUES_MAX: usize = 200;
/// Maximum number of types, and of statuses, in an answer.
const VALUES_SHOWN_MAX: usize = 50;
/// Maximum length of a media type in bytes. A longer one is cut: servers write here what they like.
const VALUE_BYTES_MAX: usize = 100;
/// All values beyond the most frequent ones.
const OTHER: &str = "other";
const OPEN: &str = ".warc.gz.open";
const CLOSED: &str = ".warc.gz";

/// The archive of a crawl.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ArchiveSaid {
    /// The files, the newest first.
    pub files: Vec<ArchiveFile>,
    /// Number of files.
    pub files_total: u64,
    /// Size of all files.
    pub bytes: u64,
    /// Bytes that this process did not store again, because an equal capture was there.
    pub saved_bytes: u64,
    /// Number of captures in all indexed files.
    pub captures: u64,
    /// Of these, references to an equal capture.
    pub revisits: u64,
    /// Number of files without an index: those that are still open.
    pub unindexed: u64,
    /// Media types of the captures, the most frequent first.
    pub types: Vec<TypeSaid>,
    /// HTTP statuses of the captures, the most frequent first.
    pub statuses: Vec<StatusCount>,
    /// Where the next page of files begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Whether all indexes are counted. If not, the next request counts more.
    pub complete: bool,
}

/// A WARC file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct ArchiveFile {
    /// Name of the file.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of captures; none while the file is open or not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// Time of the first capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Time of the last capture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<String>,
    /// Whether the file is still written.
    pub open: bool,
    /// The node that has the file, in a cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
}

/// Captures of a media type.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct TypeSaid {
    /// The media type, as the server sent it; `other` for all beyond the most frequent ones.
    pub r#type: String,
    /// Number of captures.
    pub count: u64,
    /// Bytes of their records, compressed.
    pub bytes: u64,
}

/// Captures with an HTTP status.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
pub struct StatusCount {
    /// The status; `-` for captures without one.
    pub status: String,
    /// Number of captures.
    pub count: u64,
}

/// The counts of one index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Counted {
    records: u64,
    revisits: u64,
    first: Option<String>,
    last: Option<String>,
    types: BTreeMap<String, (u64, u64)>,
    statuses: BTreeMap<String, (u64, u64)>,
}

/// Adds to a value of a bounded map.
fn tally(map: &mut BTreeMap<String, (u64, u64)>, value: &str, count: u64, bytes: u64) {
    let cut = &value[..value.floor_char_boundary(VALUE_BYTES_MAX)];
    let value = if map.len() >= VALUES_MAX && !map.contains_key(cut) { OTHER } else { cut };
    let sum = map.entry(value.to_owned()).or_default();
    *sum = (sum.0 + count, sum.1 + bytes);
}

impl Counted {
    fn add(&mut self, line: &cdxj::Line) {
        let capture = &line.capture;
        self.records += 1;
        let time = &capture.digits14;
        self.first = Some(self.first.take().map_or_else(|| time.clone(), |first| first.min(time.clone())));
        self.last = Some(self.last.take().map_or_else(|| time.clone(), |last| last.max(time.clone())));
        match capture.mime.as_deref() {
            Some("warc/revisit") => self.revisits += 1,
            mime => tally(&mut self.types, mime.unwrap_or("-"), 1, line.length),
        }
        tally(&mut self.statuses, capture.status.as_deref().unwrap_or("-"), 1, line.length);
    }

    fn read(path: &Path) -> io::Result<Counted> {
        let mut counted = Counted::default();
        let mut input = BufReader::with_capacity(256 << 10, File::open(path)?);
        while let Some(line) = read_line(&mut input)? {
            if let Some(line) = std::str::from_utf8(&line).ok().and_then(cdxj::Line::parse) {
                counted.add(&line);
            }
        }
        Ok(counted)
    }
}

/// `20261114225809` as a time.
fn date(digits: &str) -> Option<String> {
    let at = |from: usize, to: usize| digits.get(from..to);
    Some(format!("{}-{}-{}T{}:{}:{}Z", at(0, 4)?, at(4, 6)?, at(6, 8)?, at(8, 10)?, at(10, 12)?, at(12, 14)?))
}

/// The counts of the indexes that were read, by the name of the file and the length of its index.
#[derive(Debug, Default)]
pub struct ArchiveCounts {
    known: Mutex<BTreeMap<String, (u64, Counted)>>,
    /// Held by the one that counts.
    counting: Mutex<()>,
}

impl ArchiveCounts {
    /// Looks at the archive in a folder, by the counts that are there. Blocks for the list of files alone.
    pub fn look(&self, dir: &Path, limit: usize, cursor: Option<&str>) -> io::Result<ArchiveSaid> {
        Ok(self.said(&files(dir)?, limit, cursor))
    }

    /// Counts indexes that are new, and returns when that is done. The index of a full archive file takes a second: after the
    /// first time, whoever asks waits [`COUNT_WAIT`] at most, and the counting goes on behind their back.
    pub async fn count_soon(self: &Arc<Self>, dir: PathBuf) {
        let (counts, is_first) = (self.clone(), self.known().is_empty());
        let counting = tokio::task::spawn_blocking(move || {
            let counting = match is_first {
                true => Some(counts.counting.lock().unwrap_or_else(PoisonError::into_inner)),
                false => counts.counting.try_lock().ok(),
            };
            let counted = counting.map_or(Ok(()), |_counting| counts.count(&dir, INDEX_BYTES_MAX));
            if let Err(error) = counted {
                tracing::warn!(%error, "an index of the archive cannot be counted: {error}");
            }
        });
        let wait = if is_first { Duration::MAX } else { COUNT_WAIT };
        // A task that panics has counted nothing; the answer says so.
        _ = tokio::time::timeout(wait, counting).await;
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, (u64, Counted)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts indexes that are new, up to a number of bytes; at least one of them, however long. Nobody who looks waits
    /// meanwhile.
    fn count(&self, dir: &Path, mut room: u64) -> io::Result<()> {
        let found = files(dir)?;
        self.known().retain(|name, _| found.contains_key(name));
        for (name, found) in found.iter().rev() {
            let Some(bytes) = found.index else { continue };
            if self.known().get(name).is_some_and(|(before, _)| *before == bytes) {
                continue;
            }
            if room == 0 {
                break;
            }
            room = room.saturating_sub(bytes);
            let stem = name.strip_suffix(CLOSED).unwrap_or(name);
            let counted = Counted::read(&dir.join(format!("{stem}.cdxj")))?;
            self.known().insert(name.clone(), (bytes, counted));
        }
        Ok(())
    }

    fn said(&self, found: &BTreeMap<String, Found>, limit: usize, cursor: Option<&str>) -> ArchiveSaid {
        let known = self.known();
        let mut said =
            ArchiveSaid { complete: true, files_total: found.len() as u64, ..ArchiveSaid::default() };
        let mut all = Counted::default();
        let limit = limit.clamp(1, ROWS_MAX);
        for (name, found) in found.iter().rev() {
            said.bytes += found.bytes;
            said.unindexed += u64::from(found.index.is_none());
            let counted = known.get(name);
            said.complete &=
                found.index.is_none_or(|bytes| counted.is_some_and(|(before, _)| *before == bytes));
            let counted = counted.map(|(_, counted)| counted);
            if let Some(counted) = counted {
                all.records += counted.records;
                all.revisits += counted.revisits;
                counted.types.iter().for_each(|(name, sum)| tally(&mut all.types, name, sum.0, sum.1));
                counted.statuses.iter().for_each(|(name, sum)| tally(&mut all.statuses, name, sum.0, sum.1));
            }
            if cursor.is_none_or(|cursor| name.as_str() < cursor) {
                if said.files.len() < limit {
                    said.files.push(file(name, found, counted));
                } else if said.cursor.is_none() {
                    said.cursor = said.files.last().map(|last| last.name.clone());
                }
            }
        }
        drop(known);
        (said.captures, said.revisits) = (all.records, all.revisits);
        said.types =
            most(all.types).map(|(r#type, (count, bytes))| TypeSaid { r#type, count, bytes }).collect();
        said.statuses =
            most(all.statuses).map(|(status, (count, _))| StatusCount { status, count }).collect();
        said
    }
}

fn file(name: &str, found: &Found, counted: Option<&Counted>) -> ArchiveFile {
    let time = |digits: Option<&String>| digits.and_then(|digits| date(digits));
    ArchiveFile {
        name: name.to_owned(),
        bytes: found.bytes,
        records: counted.map(|counted| counted.records),
        first: time(counted.and_then(|counted| counted.first.as_ref())),
        last: time(counted.and_then(|counted| counted.last.as_ref())),
        open: found.open,
        node: String::new(),
    }
}

/// The most frequent values; the others together as `other`.
fn most(map: BTreeMap<String, (u64, u64)>) -> impl Iterator<Item = (String, (u64, u64))> {
    let mut all: Vec<(String, (u64, u64))> = map.into_iter().collect();
    all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let rest = all.split_off(all.len().min(VALUES_SHOWN_MAX));
    let rest = rest.into_iter().fold((0, 0), |sum, (_, more)| (sum.0 + more.0, sum.1 + more.1));
    if rest.0 > 0 {
        match all.iter_mut().find(|(name, _)| name == OTHER) {
            Some((_, sum)) => *sum = (sum.0 + rest.0, sum.1 + rest.1),
            None => all.push((OTHER.to_owned(), rest)),
        }
    }
    all.into_iter()
}

/// A file of the archive.
#[derive(Debug)]
struct Found {
    bytes: u64,
    open: bool,
    /// Length of its index.
    index: Option<u64>,
}

/// The WARC files in a folder, by their final names.
fn files(dir: &Path) -> io::Result<BTreeMap<String, Found>> {
    let (mut files, mut indexes) = (BTreeMap::new(), BTreeMap::new());
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(files),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // A file may be renamed while we look.
        let Ok(bytes) = entry.metadata().map(|data| data.len()) else { continue };
        if let Some(stem) = name.strip_suffix(".cdxj") {
            indexes.insert(format!("{stem}{CLOSED}"), bytes);
        } else if let Some(stem) = name.strip_suffix(OPEN) {
            files.insert(format!("{stem}{CLOSED}"), Found { bytes, open: true, index: None });
        } else if name.ends_with(CLOSED) {
            files.insert(name, Found { bytes, open: false, index: None });
        }
        if files.len() >= FILES_MAX {
            break;
        }
    }
    for (name, found) in &mut files {
        found.index = indexes.get(name).copied().filter(|_| !found.open);
    }
    Ok(files)
}

impl ArchiveSaid {
    /// Adds the archive of another node.
    pub fn add(&mut self, other: ArchiveSaid, limit: usize) {
        self.files_total += other.files_total;
        self.bytes += other.bytes;
        self.saved_bytes += other.saved_bytes;
        self.captures += other.captures;
        self.revisits += other.revisits;
        self.unindexed += other.unindexed;
        self.complete &= other.complete;
        let more = self.cursor.is_some() || other.cursor.is_some();
        self.files.extend(other.files);
        self.files.sort_by(|a, b| b.name.cmp(&a.name));
        let is_cut = self.files.len() > limit;
        self.files.truncate(limit);
        self.cursor = self.files.last().filter(|_| more || is_cut).map(|last| last.name.clone());
        let mut types = BTreeMap::new();
        for said in self.types.drain(..).chain(other.types) {
            tally(&mut types, &said.r#type, said.count, said.bytes);
        }
        self.types = most(types).map(|(r#type, (count, bytes))| TypeSaid { r#type, count, bytes }).collect();
        let mut statuses = BTreeMap::new();
        for said in self.statuses.drain(..).chain(other.statuses) {
            tally(&mut statuses, &said.status, said.count, 0);
        }
        self.statuses = most(statuses).map(|(status, (count, _))| StatusCount { status, count }).collect();
    }
}

#[cfg(test)]
mod tests;
