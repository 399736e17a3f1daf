//! Follows a journal that another thread or process writes, from a given group on, without end.
//!
//! The writer does not know of followers: files are read, never changed. A frame counts when complete. The frame may be
//! written and not synced yet, so the follower syncs the file itself before returning a group: a group seen once is
//! still there after a power loss.
//!
//! Invariants: groups come in order, each once, or the missing ones are named; an incomplete frame is waited for; no
//! part of a frame is used before its checksum is verified.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use zstd::bulk::Decompressor;

use super::frame::{self, FRAME_HEAD, Head, SEGMENT_HEAD};
use super::{ENDING, Error};

/// One step of a follower.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A group: its number and its bytes.
    Group(u64, Vec<u8>),
    /// These groups, from the first to the last, were removed before they were read.
    Gone(u64, u64),
    /// Nothing yet.
    Nothing,
}

/// See the module.
pub struct Follow {
    folder: PathBuf,
    /// The next group in order.
    next: u64,
    open: Option<Open>,
    decompressor: Option<Decompressor<'static>>,
}

impl std::fmt::Debug for Follow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follow")
            .field("folder", &self.folder)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// A segment being read.
struct Open {
    path: PathBuf,
    file: File,
    /// The first group of the segment.
    first: u64,
    salt: u64,
    /// The group number of the next frame.
    number: u64,
    at: u64,
    /// Bytes known to be durable.
    synced: u64,
}

impl Follow {
    /// Follows the journal in this folder from this group on. The journal need not exist yet.
    pub fn new(folder: &Path, from: u64) -> Follow {
        Follow { folder: folder.into(), next: from.max(1), open: None, decompressor: None }
    }

    /// The next group in order.
    pub fn next_group(&self) -> u64 {
        self.next
    }

    /// The last group at present; `None` if there is none.
    pub fn last(folder: &Path) -> Result<Option<u64>, Error> {
        let Some((first, _)) = segments(folder)?.pop() else { return Ok(None) };
        let mut follow = Follow::new(folder, first);
        while let Step::Group(..) | Step::Gone(..) = follow.step(false)? {}
        Ok(Some(follow.next - 1).filter(|last| *last > 0))
    }

    /// Returns the next step.
    pub fn step_on(&mut self) -> Result<Step, Error> {
        self.step(true)
    }

    fn step(&mut self, wanted: bool) -> Result<Step, Error> {
        loop {
            if self.open.is_none() {
                let segments = segments(&self.folder)?;
                let at = segments.partition_point(|(first, _)| *first <= self.next);
                let Some((first, path)) = segments.get(at.saturating_sub(1)) else {
                    return Ok(Step::Nothing);
                };
                if *first > self.next {
                    let gone = Step::Gone(self.next, first - 1);
                    self.next = *first;
                    return Ok(gone);
                }
                match Open::of(path, *first)? {
                    Some(open) => self.open = Some(open),
                    None => return Ok(Step::Nothing),
                }
            }
            let open = self.open.as_mut().expect("opened above");
            let give = wanted && open.number >= self.next;
            match open.frame(give, &mut self.decompressor)? {
                Some(Some(group)) => {
                    self.next = open.number;
                    return Ok(Step::Group(self.next - 1, group));
                }
                Some(None) => {
                    self.next = self.next.max(open.number);
                    continue;
                }
                None => {}
            }
            // The journal continues in another file, or not yet.
            let path = open.path.clone();
            if !segments(&self.folder)?.iter().any(|(first, _)| *first > open.first) {
                return Ok(Step::Nothing);
            }
            // The next file began after this one was full: frames that came meanwhile are read first.
            match open.frame(give, &mut self.decompressor)? {
                Some(Some(group)) => {
                    self.next = open.number;
                    return Ok(Step::Group(self.next - 1, group));
                }
                Some(None) => self.next = self.next.max(open.number),
                None if open.is_at_end().map_err(|e| Error::disk("reading", &path, e))? => {
                    self.next = self.next.max(open.number);
                    self.open = None;
                }
                None => {
                    return Err(Error::damaged(&path, open.at, "a frame in a segment that is full"));
                }
            }
        }
    }
}

impl Open {
    /// Opens a segment; `None` if its head is incomplete.
    fn of(path: &Path, first: u64) -> Result<Option<Open>, Error> {
        let failed = |e| Error::disk("reading", path, e);
        let file = match File::open(path) {
            // Removed a moment ago.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let mut head = [0; SEGMENT_HEAD];
        if !read_whole(&file, &mut head, 0).map_err(failed)? {
            return Ok(None);
        }
        let salt = frame::read_segment_head(&head, first).map_err(|what| Error::damaged(path, 0, what))?;
        Ok(Some(Open {
            path: path.into(),
            file,
            first,
            salt,
            number: first,
            at: SEGMENT_HEAD as u64,
            synced: 0,
        }))
    }

    fn is_at_end(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.len() <= self.at)
    }

    /// The next frame, if complete; its group only if wanted.
    fn frame(
        &mut self,
        wanted: bool,
        decompressor: &mut Option<Decompressor<'static>>,
    ) -> Result<Option<Option<Vec<u8>>>, Error> {
        let failed = |e| Error::disk("reading", &self.path, e);
        let damaged = |what| Error::damaged(&self.path, self.at, what);
        let mut bytes = [0; FRAME_HEAD];
        if !read_whole(&self.file, &mut bytes, self.at).map_err(failed)? {
            return Ok(None);
        }
        // An invalid frame is being written, or damaged, which only the writer can tell.
        let Ok(head) = Head::read(&bytes) else { return Ok(None) };
        let end = self.at + (FRAME_HEAD + head.stored) as u64;
        if self.file.metadata().map_err(failed)?.len() < end {
            return Ok(None);
        }
        let mut payload = vec![0; head.stored];
        if !read_whole(&self.file, &mut payload, self.at + FRAME_HEAD as u64).map_err(failed)?
            || head.check(&bytes, &payload, self.salt).is_err()
        {
            return Ok(None);
        }
        if head.sequence != self.number {
            return Err(damaged("number of a group"));
        }
        let mut group = None;
        if wanted {
            if self.synced < end {
                let len = self.file.metadata().map_err(failed)?.len();
                self.file.sync_data().map_err(|e| Error::disk("syncing", &self.path, e))?;
                self.synced = len;
            }
            let decompressor = match decompressor {
                Some(decompressor) => decompressor,
                none => none.insert(Decompressor::new().map_err(failed)?),
            };
            group = Some(head.unpack(payload, decompressor).map_err(damaged)?);
        }
        (self.at, self.number) = (end, self.number + 1);
        Ok(Some(group))
    }
}

/// The segments of a folder, by their first group.
fn segments(folder: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    let failed = |e| Error::disk("listing", folder, e);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let first = name.strip_suffix(ENDING).and_then(|first| first.parse().ok());
        found.extend(first.map(|first| (first, path.clone())));
    }
    found.sort_unstable();
    Ok(found)
}

/// Fills the buffer from an offset. Returns false if the file is too short.
fn read_whole(file: &File, buffer: &mut [u8], at: u64) -> io::Result<bool> {
    match file.read_exact_at(buffer, at) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Journal, Settings};
    use super::*;
    use crate::disk::RealDisk;

    fn group(number: u64) -> Vec<u8> {
        format!("group {number} {}", "x".repeat(100)).into_bytes()
    }

    fn all(follow: &mut Follow) -> Vec<Step> {
        std::iter::from_fn(|| match follow.step_on().unwrap() {
            Step::Nothing => None,
            step => Some(step),
        })
        .collect()
    }

    fn numbers(steps: &[Step]) -> Vec<u64> {
        let number = |step: &Step| match step {
            Step::Group(number, bytes) => {
                assert_eq!(*bytes, group(*number));
                *number
            }
            other => panic!("{other:?}"),
        };
        steps.iter().map(number).collect()
    }

    fn journal(folder: &Path, segment_bytes_max: u64, keep_bytes: u64) -> Journal {
        let settings = Settings { segment_bytes_max, keep_bytes };
        Journal::open(Arc::new(RealDisk), folder, settings).unwrap().0
    }

    #[test]
    fn a_journal_is_followed_while_it_is_written_over_its_files_and_from_any_group() {
        let dir = tempfile::tempdir().unwrap();
        let mut follow = Follow::new(dir.path(), 1);
        assert_eq!(all(&mut follow), []);
        assert_eq!(Follow::last(dir.path()).unwrap(), None);
        let mut writer = journal(dir.path(), 300, 0);
        let mut seen = Vec::new();
        for number in 1..=50 {
            writer.append(number, &group(number)).unwrap();
            if number % 3 == 0 {
                writer.sync().unwrap();
                seen.extend(numbers(&all(&mut follow)));
                assert_eq!(seen.last(), Some(&number));
            }
        }
        writer.sync().unwrap();
        drop(writer);
        // Another process continues.
        let mut writer = journal(dir.path(), 300, 0);
        writer.append(51, &group(51)).unwrap();
        writer.sync().unwrap();
        seen.extend(numbers(&all(&mut follow)));
        assert_eq!(seen, Vec::from_iter(1..=51));
        assert_eq!(Follow::last(dir.path()).unwrap(), Some(51));
        for from in 1..=52 {
            let mut again = Follow::new(dir.path(), from);
            assert_eq!(numbers(&all(&mut again)), Vec::from_iter(from..=51), "from {from}");
        }
    }

    #[test]
    fn what_was_removed_is_said_to_be_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = journal(dir.path(), 300, 0);
        for number in 1..=20 {
            writer.append(number, &group(number)).unwrap();
            writer.sync().unwrap();
        }
        writer.truncate_before(15).unwrap();
        let first = writer.first();
        assert!(first > 1);
        let steps = all(&mut Follow::new(dir.path(), 1));
        assert_eq!(steps[0], Step::Gone(1, first - 1));
        assert_eq!(numbers(&steps[1..]), Vec::from_iter(first..=20));
    }

    #[test]
    fn what_is_kept_for_readers_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = journal(dir.path(), 300, 1_000);
        for number in 1..=50 {
            writer.append(number, &group(number)).unwrap();
            writer.sync().unwrap();
            writer.truncate_before(number).unwrap();
        }
        assert!((1_000..2_000).contains(&writer.bytes()), "{}", writer.bytes());
        let steps = all(&mut Follow::new(dir.path(), writer.first()));
        assert_eq!(numbers(&steps), Vec::from_iter(writer.first()..=50));
    }

    #[test]
    fn a_frame_that_is_half_there_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = journal(dir.path(), 1 << 20, 0);
        for number in 1..=3 {
            writer.append(number, &group(number)).unwrap();
        }
        writer.sync().unwrap();
        let path = segments(dir.path()).unwrap().pop().unwrap().1;
        let whole = std::fs::read(&path).unwrap();
        let copy = tempfile::tempdir().unwrap();
        let file = copy.path().join(path.file_name().unwrap());
        let mut follow = Follow::new(copy.path(), 1);
        let mut seen = Vec::new();
        for len in 0..=whole.len() {
            std::fs::write(&file, &whole[..len]).unwrap();
            seen.extend(numbers(&all(&mut follow)));
        }
        assert_eq!(seen, [1, 2, 3]);
    }
}
