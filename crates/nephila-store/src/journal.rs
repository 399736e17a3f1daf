//! The journal: the log of one partition on one machine.
//!
//! A **group** is one commit of the partition's owner; here a group is a number and opaque bytes. [`Journal::append`]
//! buffers groups, [`Journal::sync`] makes all of them durable at once. They lie in **segment** files that are named by
//! their first group. A full segment is synced and stays unchanged until [`Journal::truncate_before`] removes the file.
//! After a crash [`Journal::open`] cuts a torn end and [`Journal::replay`] returns the rest. `frame` describes the file
//! format.
//!
//! Invariants: every group for which [`Journal::sync`] returned is there, in order, once, whatever happens to the
//! machine. A group that was appended and not synced may be there or not, but never without its predecessors. After a
//! failed sync the journal accepts nothing more: the content of the disk is unknown until a new [`Journal::open`], or
//! until [`Journal::go_back`] restores the last synced state.

mod check;
mod follow;
mod frame;
mod marks;
mod recover;
mod replay;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use frame::Packer;

use crate::disk::{Disk, DiskFile};

pub use check::check;
pub use follow::{Follow, Step};
pub use frame::GROUP_BYTES_MAX;
pub use marks::{Mark, Marker, Marks};
pub use recover::Recovered;
pub use replay::Replay;

/// A segment beyond this size is followed by a new one.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Maximum bytes buffered before a write, with or without a sync.
pub const BUFFER_BYTES_MAX: usize = 1 << 20;

/// Ending of a segment's name.
const ENDING: &str = ".journal";

/// Errors of the journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk failed. After a failed write, [`Journal::sync`] may be retried once there is space.
    #[error("{action} {}: {source}", path.display())]
    Disk {
        /// The operation.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// Synced bytes are damaged. Restore the file from a backup; nothing was changed.
    #[error("{} is damaged at byte {offset}: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Offset of the unreadable frame.
        offset: u64,
        /// The defect.
        what: &'static str,
    },
    /// Groups are missing before this file. Restore the file that held them.
    #[error("group {expected} is missing: {} begins with group {found}", path.display())]
    Missing {
        /// The next group in order.
        expected: u64,
        /// The group found instead.
        found: u64,
        /// The file.
        path: PathBuf,
    },
    /// Durable groups are missing. Restore the folder from a backup; nothing was changed.
    #[error("the journal in {} ends with group {last}, and group {expected} had been written", path.display())]
    Short {
        /// The folder.
        path: PathBuf,
        /// The last group found.
        last: u64,
        /// A group that was durable.
        expected: u64,
    },
    /// An earlier sync failed. Open the journal again, or call [`Journal::go_back`].
    #[error("the journal takes nothing more since a sync failed")]
    Broken,
    /// The group does not follow the last group. The owner's state belongs to another journal: stop.
    #[error("group {found} cannot follow group {last}")]
    OutOfOrder {
        /// The last group in the journal.
        last: u64,
        /// The group that was given.
        found: u64,
    },
    /// The group is too large. Commit sooner.
    #[error("a group of {bytes} bytes is longer than {GROUP_BYTES_MAX}")]
    TooLarge {
        /// Its length in bytes.
        bytes: usize,
    },
}

impl Error {
    /// Whether storage is full. A later attempt may succeed: see [`Journal::go_back`].
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Disk { source, .. } if crate::disk::is_full(source))
    }

    fn disk(action: &'static str, path: &Path, source: io::Error) -> Error {
        Error::Disk { action, path: path.into(), source }
    }

    fn damaged(path: &Path, offset: u64, what: &'static str) -> Error {
        Error::Damaged { path: path.into(), offset, what }
    }
}

/// Settings of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A segment beyond this size in bytes is followed by a new one.
    pub segment_bytes_max: u64,
    /// Minimum bytes kept for readers, also of groups that the owner no longer needs: see [`Follow`].
    pub keep_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { segment_bytes_max: SEGMENT_BYTES_MAX, keep_bytes: 0 }
    }
}

/// A file of the journal.
#[derive(Clone, Debug)]
struct SegmentFile {
    /// Its first group.
    first: u64,
    path: PathBuf,
    /// Bytes written.
    len: u64,
}

/// The log of one partition. One owner.
#[derive(Debug)]
pub struct Journal {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    settings: Settings,
    /// In order; the last segment is the one being written.
    segments: Vec<SegmentFile>,
    file: Option<Box<dyn DiskFile>>,
    /// Frames not written yet; their place is after the end of the last segment.
    buffer: Vec<u8>,
    /// Salt of the last segment.
    salt: u64,
    packer: Packer,
    /// The last group appended; 0 if there was never one.
    last: u64,
    /// The last group that is durable.
    synced: u64,
    /// Bytes of the last segment that are durable.
    synced_len: u64,
    /// Whether the last segment's name or head is not durable yet.
    head_unsynced: bool,
    broken: bool,
}

impl Journal {
    /// Opens the journal in this folder, or creates an empty journal. A torn end is cut.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        settings: Settings,
    ) -> Result<(Journal, Recovered), Error> {
        Journal::open_expecting(disk, folder, settings, 0)
    }

    /// Like [`Journal::open`], for a journal that is known to have been durable up to this group. If that group is
    /// missing, nothing is cut and nothing is changed.
    pub fn open_expecting(
        disk: Arc<dyn Disk>,
        folder: &Path,
        settings: Settings,
        expected: u64,
    ) -> Result<(Journal, Recovered), Error> {
        let (segments, tail, found) = recover::recover(&*disk, folder, expected)?;
        let file = match segments.last() {
            Some(segment) => {
                Some(disk.open(&segment.path).map_err(|e| Error::disk("opening", &segment.path, e))?)
            }
            None => None,
        };
        let synced_len = segments.last().map_or(0, |segment| segment.len);
        let (last, salt) = tail.map_or((0, 0), |tail| (tail.last, tail.salt));
        let journal = Journal {
            disk,
            folder: folder.into(),
            settings,
            segments,
            file,
            buffer: Vec::new(),
            salt,
            packer: Packer::new().map_err(|e| Error::disk("compressing for", folder, e))?,
            last,
            synced: last,
            synced_len,
            head_unsynced: false,
            broken: false,
        };
        Ok((journal, found))
    }

    /// The last group that is durable; 0 if there was never one.
    pub fn synced(&self) -> u64 {
        self.synced
    }

    /// The first group that can be replayed, or the next to be written.
    pub fn first(&self) -> u64 {
        self.segments.first().map_or(self.last + 1, |segment| segment.first)
    }

    /// Total bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// Number of files.
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Appends a group. The group is durable after the next [`Journal::sync`]. The first number of an empty journal is
    /// any but 0.
    pub fn append(&mut self, sequence: u64, group: &[u8]) -> Result<(), Error> {
        if self.broken {
            return Err(Error::Broken);
        }
        let follows = self.segments.is_empty() || sequence == self.last + 1;
        if sequence == 0 || !follows {
            return Err(Error::OutOfOrder { last: self.last, found: sequence });
        }
        if group.len() > GROUP_BYTES_MAX {
            return Err(Error::TooLarge { bytes: group.len() });
        }
        if self.buffer.len() >= BUFFER_BYTES_MAX {
            self.write()?;
        }
        let len = self.segments.last().map_or(u64::MAX, |segment| segment.len + self.buffer.len() as u64);
        if len >= self.settings.segment_bytes_max {
            self.roll(sequence)?;
        }
        if self.head_unsynced {
            // A frame is never written before the head of its segment is durable.
            self.write()?;
            self.sync_written()?;
        }
        self.packer.pack(group, sequence, self.synced, self.salt, &mut self.buffer);
        self.last = sequence;
        Ok(())
    }

    /// Appends several groups.
    pub fn append_all<'a>(&mut self, groups: impl IntoIterator<Item = (u64, &'a [u8])>) -> Result<(), Error> {
        groups.into_iter().try_for_each(|(sequence, group)| self.append(sequence, group))
    }

    /// Whether all appended groups are durable.
    pub fn is_synced(&self) -> bool {
        !self.broken && self.synced == self.last && self.buffer.is_empty()
    }

    /// Makes all appended groups durable.
    pub fn sync(&mut self) -> Result<(), Error> {
        if self.broken {
            return Err(Error::Broken);
        }
        if self.synced == self.last && self.buffer.is_empty() {
            return Ok(());
        }
        self.write()?;
        self.sync_written()
    }

    /// Restores the state after the last sync, so that the journal continues after a failure. Groups appended since are
    /// dropped and have to be appended again. If this fails as well, call this again.
    pub fn go_back(&mut self) -> Result<(), Error> {
        self.broken = true;
        self.buffer.clear();
        if let Some(segment) = self.segments.last_mut() {
            let path = &segment.path;
            let file = self.disk.open(path).map_err(|e| Error::disk("opening", path, e))?;
            // After a failed write the system may show bytes that it has dropped: they are cut and written anew.
            file.truncate(self.synced_len).map_err(|e| Error::disk("cutting", path, e))?;
            self.file = Some(file);
            segment.len = self.synced_len;
            // An empty segment was begun for the group that comes again.
            self.last = self.synced.max(segment.first - 1);
            if self.head_unsynced {
                self.buffer.extend(frame::segment_head(segment.first, self.salt));
            }
        }
        self.broken = false;
        Ok(())
    }

    /// Replays the durable groups from this one on. If older groups were removed, the replay begins with the first
    /// existing one.
    pub fn replay(&self, from: u64) -> Replay<'_> {
        Replay::new(&self.segments, from, self.synced)
    }

    /// Removes whole segments that hold only groups before this one. The last segment stays.
    pub fn truncate_before(&mut self, sequence: u64) -> Result<(), Error> {
        let mut removed = false;
        while let [oldest, next, ..] = &self.segments[..] {
            let is_kept = self.bytes() - oldest.len < self.settings.keep_bytes;
            if next.first > sequence || is_kept {
                break;
            }
            // Oldest first: an interruption leaves no gap.
            self.disk.remove(&oldest.path).map_err(|e| Error::disk("removing", &oldest.path, e))?;
            self.segments.remove(0);
            removed = true;
        }
        if removed {
            self.disk.sync_dir(&self.folder).map_err(|e| Error::disk("syncing", &self.folder, e))?;
        }
        Ok(())
    }

    /// Writes the buffer. After a failure the buffer is kept and will be written to the same place.
    fn write(&mut self) -> Result<(), Error> {
        let (Some(file), Some(segment)) = (&self.file, self.segments.last_mut()) else { return Ok(()) };
        if !self.buffer.is_empty() {
            file.write_at(segment.len, &self.buffer).map_err(|e| Error::disk("writing", &segment.path, e))?;
            segment.len += self.buffer.len() as u64;
            self.buffer.clear();
            // One large group should not enlarge the buffer for ever.
            self.buffer.shrink_to(2 * BUFFER_BYTES_MAX);
        }
        Ok(())
    }

    /// Syncs the written bytes.
    fn sync_written(&mut self) -> Result<(), Error> {
        let (Some(file), Some(segment)) = (&self.file, self.segments.last()) else { return Ok(()) };
        // Until both calls have returned the content of the disk is unknown, and a retry would not tell: the system
        // drops data that it could not write.
        self.broken = true;
        file.sync().map_err(|e| Error::disk("syncing", &segment.path, e))?;
        if self.head_unsynced {
            self.disk.sync_dir(&self.folder).map_err(|e| Error::disk("syncing", &self.folder, e))?;
            self.head_unsynced = false;
        }
        self.broken = false;
        self.synced = self.last;
        self.synced_len = segment.len;
        Ok(())
    }

    /// Closes the last segment and begins a new one with this group.
    fn roll(&mut self, first: u64) -> Result<(), Error> {
        if self.file.is_some() {
            self.write()?;
            self.sync_written()?;
        }
        let path = self.folder.join(format!("{first:020}{ENDING}"));
        let file = self.disk.create(&path).map_err(|e| Error::disk("making", &path, e))?;
        self.file = Some(file);
        self.head_unsynced = true;
        self.segments.push(SegmentFile { first, path, len: 0 });
        self.synced_len = 0;
        self.salt = uuid::Uuid::new_v4().as_u64_pair().0;
        self.buffer.extend(frame::segment_head(first, self.salt));
        Ok(())
    }
}
