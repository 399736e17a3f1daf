//! Write-ahead journal of requests, so that after any fault the log has a line for each sent request.
//!
//! Every request is in a separate journal (`state/requests`), durable, before the first byte is sent. The journal entry
//! is finished when the request's line is in the log. When the log is next opened, a request that a fault left without
//! a line gets one ([`complete`]): the full line if the archive has the answer, otherwise a line that says that the
//! request may have been sent.
//!
//! A group of the journal holds the end of the log at the time of writing, then a line for each request that begins and
//! for each request that was not sent after all. The key of a request is its ticket and its start time: a ticket number
//! may repeat if the process dies before anything was written.
//!
//! Invariants: completing a log is idempotent; the journal is truncated only behind lines that are durable.

use std::borrow::Borrow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nephila_core::spider::outcome::Outcome;
use nephila_core::time::Timestamp;
use nephila_store::captures::{Captures, Query};
use nephila_store::disk::RealDisk;
use nephila_store::journal::{self, Journal};

use super::{Line, Stored, file_number, files};

/// Segment size of the journal in bytes. A full segment is deleted when all its requests are finished.
const SEGMENT_BYTES_MAX: u64 = 1 << 20;
/// Maximum time between a request and its capture; a later capture belongs to another request.
const ANSWER_MS_MAX: u64 = 3_600_000;
/// Maximum size in bytes of a body whose length is looked up for a line.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// Detail of a line whose request was open when the process ended.
const LOST: &str = "lost in a crash: may have been asked";
/// Prefix of the journal line of a request that was not sent; ticket and start time follow.
const NOT_SENT: &str = "not-sent ";

/// Key of a request: its ticket and its start time.
pub(super) type Key = (u64, u64);

pub(super) fn key(line: &Line) -> Key {
    (line.fetch, line.at)
}

/// End of the log: the number of the last file, and that file's length.
pub(super) type End = (u64, u64);

/// The line of a request whose result is unknown.
pub(super) fn lost(mut line: Line) -> Line {
    line.outcome = Outcome::Crashed.name().into();
    line.class = Outcome::Crashed.class().as_str().into();
    line.detail = LOST.into();
    line
}

/// Requests without a line in the log.
#[derive(Debug)]
pub(super) struct Begun {
    journal: Journal,
    open: HashMap<Key, u64>,
    /// Number of open requests per group.
    groups: BTreeMap<u64, usize>,
    /// The first group that is still kept.
    floor: u64,
}

impl Begun {
    /// Opens the journal of this folder for appending. All requests in the journal already have a line.
    pub(super) fn open(folder: &Path) -> io::Result<Begun> {
        let settings = journal::Settings { segment_bytes_max: SEGMENT_BYTES_MAX, keep_bytes: 0 };
        let (journal, _) = Journal::open(Arc::new(RealDisk), folder, settings).map_err(io::Error::other)?;
        Ok(Begun { journal, open: HashMap::new(), groups: BTreeMap::new(), floor: 0 })
    }

    /// Journals requests that are about to be sent, and requests that were not sent after all. Durable on return.
    pub(super) fn begin(
        &mut self,
        lines: &[impl Borrow<Line>],
        not_sent: &[Key],
        end: End,
    ) -> io::Result<()> {
        let group = self.journal.synced() + 1;
        let mut bytes = format!("{} {}\n", end.0, end.1).into_bytes();
        lines.iter().for_each(|line| line.borrow().write_json(&mut bytes));
        for (fetch, at) in not_sent {
            bytes.extend(format!("{NOT_SENT}{fetch} {at}\n").into_bytes());
        }
        let written = self.journal.append(group, &bytes).and_then(|()| self.journal.sync());
        if let Err(error) = written {
            let full = error.is_full();
            self.journal.go_back().map_err(io::Error::other)?;
            let kind = if full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
            return Err(io::Error::new(kind, error));
        }
        for line in lines {
            self.open.insert(key(line.borrow()), group);
        }
        if !lines.is_empty() {
            self.groups.insert(group, lines.len());
        }
        Ok(())
    }

    /// Marks a request as finished: its line is written, or the request was never sent.
    pub(super) fn ended(&mut self, key: Key) {
        let Some(group) = self.open.remove(&key) else { return };
        if let Some(count) = self.groups.get_mut(&group) {
            *count -= 1;
            if *count == 0 {
                self.groups.remove(&group);
            }
        }
    }

    /// Truncates the journal behind finished requests, after a sync of their lines.
    pub(super) fn shorten(&mut self, log: &File) -> io::Result<()> {
        let floor = self.groups.keys().next().copied().unwrap_or(self.journal.synced() + 1);
        if self.journal.segments() < 2 || floor == self.floor {
            return Ok(());
        }
        log.sync_data()?;
        self.floor = floor;
        self.journal.truncate_before(floor).map_err(io::Error::other)
    }
}

/// The key in a journal line that says that a request was not sent.
fn not_sent(line: &[u8]) -> Option<Key> {
    let (fetch, at) = std::str::from_utf8(line).ok()?.strip_prefix(NOT_SENT)?.split_once(' ')?;
    Some((fetch.parse().ok()?, at.parse().ok()?))
}

/// End of the log before the first and before the last journaled request, and the lines of the requests.
type Replayed = (Option<(End, End)>, Vec<Line>);

/// Replays the journal: the requests that may have been sent, and the end of the log before the first and before the
/// last of all journaled requests.
fn begun(folder: &Path) -> Result<Replayed, journal::Error> {
    let settings = journal::Settings { segment_bytes_max: SEGMENT_BYTES_MAX, keep_bytes: 0 };
    let (journal, _) = Journal::open(Arc::new(RealDisk), folder, settings)?;
    let (mut end, mut lines, mut unsent) = (None, Vec::new(), HashSet::new());
    for group in journal.replay(journal.first()) {
        let (_, bytes) = group?;
        let mut parts = bytes.split(|byte| *byte == b'\n');
        let place = parts.next().and_then(|place| std::str::from_utf8(place).ok()?.split_once(' '));
        let place = place.and_then(|(number, bytes)| Some((number.parse().ok()?, bytes.parse().ok()?)));
        // From the earliest of them on lines are looked for; up to the last there were some.
        if let Some(place) = place {
            end = Some(end.map_or((place, place), |(first, _): (End, End)| (first.min(place), place)));
        }
        for part in parts {
            match not_sent(part) {
                Some(key) => _ = unsent.insert(key),
                None => lines.extend(serde_json::from_slice::<Line>(part).ok()),
            }
        }
    }
    lines.retain(|line| !unsent.contains(&key(line)));
    Ok((end, lines))
}

/// The lines that the log lacks for requests in this journal, oldest first. Prints a warning for a damaged journal or
/// log.
pub(super) fn complete(logs: &Path, folder: &Path) -> io::Result<Vec<Line>> {
    let (end, mut begun) = match begun(folder) {
        Ok(begun) => begun,
        Err(journal::Error::Disk { source, .. }) => return Err(source),
        Err(error) => {
            tracing::warn!(%error, "{error}: it is set aside, and the log may lack the last requests");
            std::fs::rename(folder, aside(folder))?;
            return Ok(Vec::new());
        }
    };
    let Some((end, last)) = end else { return Ok(Vec::new()) };
    let mut known = HashSet::new();
    let mut places = HashSet::new();
    let mut is_there = last == (1, 0);
    for path in files(logs)?.into_iter().filter(|path| file_number(path) >= end.0) {
        let mut file = BufReader::with_capacity(256 * 1024, File::open(&path)?);
        is_there |= file_number(&path) == last.0 && file.get_ref().metadata()?.len() >= last.1;
        if file_number(&path) == end.0 {
            file.seek(SeekFrom::Start(end.1))?;
        }
        let mut line = Vec::new();
        while file.read_until(b'\n', &mut line)? > 0 {
            if let Ok(line) = serde_json::from_slice::<Line>(&line) {
                known.insert(key(&line));
                places.extend(line.warc.map(|warc| (warc.file, warc.offset)));
            }
            line.clear();
        }
    }
    if !is_there {
        tracing::warn!(
            "the log in {} is gone or cut: only requests since {} are in it now",
            logs.display(),
            begun.first().map_or_else(String::new, |line| Timestamp(line.at).warc_date())
        );
    }
    begun.retain(|line| known.insert(key(line)));
    let captures = Captures::new(logs.parent().unwrap_or(logs));
    Ok(begun.into_iter().map(|line| from_archive(&captures, line, &mut places)).collect())
}

fn aside(folder: &Path) -> PathBuf {
    let mut number = 1;
    loop {
        let path = folder.with_extension(format!("damaged-{number}"));
        if !path.exists() {
            return path;
        }
        number += 1;
    }
}

/// The full line of a request whose answer is in the archive and in no other line.
fn from_archive(captures: &Captures, line: Line, places: &mut HashSet<(String, u64)>) -> Line {
    let (from, to) = (Timestamp(line.at), Timestamp(line.at + ANSWER_MS_MAX));
    let query = Query { from: Some(from.digits14()), to: Some(to.digits14()), ..Query::exact(&line.url) };
    let found = captures.find(&query).ok().into_iter().flatten().flatten();
    let found = found.into_iter().find(|found| {
        found.capture.url == line.url && !places.contains(&(found.filename.clone(), found.offset))
    });
    let Some(found) = found else { return lost(line) };
    places.insert((found.filename.clone(), found.offset));
    let is_revisit = found.capture.mime.as_deref() == Some("warc/revisit");
    let read = captures.read(&found, BODY_BYTES_MAX).ok();
    let head = read.as_ref().map(|read| String::from_utf8_lossy(&read.http).into_owned()).unwrap_or_default();
    let status: Option<u16> = found
        .capture
        .status
        .as_deref()
        .and_then(|status| status.parse().ok())
        .or_else(|| head.split(' ').nth(1)?.parse().ok());
    let outcome = status.map_or(Outcome::Fetched, Outcome::of_status);
    let field = |name: &str| {
        let of = |line: &str| {
            line.split_once(':')
                .filter(|(field, _)| field.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim().to_owned())
        };
        head.lines().find_map(of)
    };
    let kind = match (is_revisit, status) {
        (false, _) => "response",
        (true, Some(304)) => "not-modified",
        (true, _) => "revisit",
    };
    Line {
        outcome: outcome.name().into(),
        class: outcome.class().as_str().into(),
        status,
        mime: field("content-type")
            .and_then(|mime| Some(mime.split(';').next()?.trim().to_owned()))
            .unwrap_or_default(),
        bytes: read.map_or(0, |read| read.body.len() as u64),
        redirect: field("location").filter(|_| outcome == Outcome::Redirect),
        digest: found.capture.digest.clone(),
        warc: Some(Stored {
            file: found.filename,
            offset: found.offset,
            length: found.length,
            kind: kind.into(),
        }),
        detail: "written down after a crash, from the archive".into(),
        ..line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fetch: u64) -> Line {
        let url = format!("http://a.test/{fetch}");
        Line { at: 1_000 + fetch, fetch, url, requests: 1, robots_obeyed: true, ..Line::default() }
    }

    #[test]
    fn pro_04_what_was_begun_and_has_no_line_gets_one_and_only_one() {
        let dir = tempfile::tempdir().unwrap();
        let (logs, folder) = (dir.path().join("logs"), dir.path().join("state/requests"));
        std::fs::create_dir(&logs).unwrap();
        assert_eq!(complete(&logs, &folder).unwrap(), []);
        let mut begun = Begun::open(&folder).unwrap();
        begun.begin(&[line(1), line(2)], &[], (1, 0)).unwrap();
        begun.begin(&[line(3)], &[], (1, 0)).unwrap();
        drop(begun);
        let log = logs.join("outcomes-00000001.jsonl");
        std::fs::write(&log, line(2).json()).unwrap();
        let missing = complete(&logs, &folder).unwrap();
        assert_eq!(missing, [lost(line(1)), lost(line(3))]);
        let all: Vec<u8> = [line(2)].iter().chain(&missing).flat_map(Line::json).collect();
        std::fs::write(&log, all).unwrap();
        assert_eq!(complete(&logs, &folder).unwrap(), [], "a second time changes nothing");
    }

    #[test]
    fn pro_04_the_journal_is_shortened_behind_what_has_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let log = File::create(dir.path().join("log")).unwrap();
        let mut begun = Begun::open(&dir.path().join("requests")).unwrap();
        let long = |fetch| Line { title: format!("{fetch:x}").repeat(40_000), ..line(fetch) };
        for fetch in 0..200 {
            begun.begin(&[long(fetch * 7_919)], &[], (1, 0)).unwrap();
            begun.shorten(&log).unwrap();
            if fetch > 3 {
                begun.ended(key(&line((fetch - 3) * 7_919)));
            }
        }
        assert!(
            begun.journal.segments() < 4 || begun.groups.contains_key(&1),
            "{}",
            begun.journal.segments()
        );
        for fetch in 0..200 {
            begun.ended(key(&line(fetch * 7_919)));
        }
        begun.shorten(&log).unwrap();
        assert!(begun.open.is_empty() && begun.groups.is_empty());
        assert_eq!(begun.journal.segments(), 1);
    }
}
