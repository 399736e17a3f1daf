//! Durable positions of the journals of a folder, kept apart from the journals: a journal that lost its end looks like
//! one that was never longer, and a missing journal like one that never existed.
//!
//! The file has a **mark** for each partition: the last durable group, the last group of a checkpoint, and a checksum
//! of both, eight bytes each. A mark is written after the sync of the journal and before the caller is told. The mark
//! is not synced itself: after a kill the mark is exact, after a power loss it may be older. So a mark never promises
//! too much.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

const MARK_BYTES: usize = 24;

/// Durable position of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The last durable group.
    pub synced: u64,
    /// The last group in a checkpoint of the state.
    pub checkpoint: u64,
}

/// The marks of a folder.
#[derive(Debug)]
pub struct Marks {
    file: Arc<File>,
    found: Vec<Option<Mark>>,
}

/// Writes the mark of one partition.
#[derive(Debug)]
pub struct Marker {
    file: Arc<File>,
    number: u32,
    mark: Mark,
}

impl Mark {
    fn bytes(self, number: u32) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..8].copy_from_slice(&self.synced.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.checkpoint.to_be_bytes());
        let sum = xxh3_64_with_seed(&bytes[..16], number.into());
        bytes[16..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn read(bytes: &[u8], number: u32) -> Option<Mark> {
        if bytes.iter().all(|byte| *byte == 0) {
            return Some(Mark::default());
        }
        let u64_at = |at: usize| Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let mark = Mark { synced: u64_at(0)?, checkpoint: u64_at(8)? };
        (mark.bytes(number) == bytes).then_some(mark)
    }
}

impl Marks {
    /// Reads the marks of `count` partitions from this file; `None` for an unreadable mark, and `None` as a whole if
    /// there is no file.
    pub fn read(path: &Path, count: u32) -> io::Result<Option<Vec<Option<Mark>>>> {
        match std::fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => Ok(Some(Marks::parse(&read?, count))),
        }
    }

    fn parse(bytes: &[u8], count: u32) -> Vec<Option<Mark>> {
        let at = |number: u32| number as usize * MARK_BYTES;
        (0..count).map(|number| Mark::read(bytes.get(at(number)..at(number + 1))?, number)).collect()
    }

    /// Opens the file, or creates the file with a mark for each partition.
    pub fn open(path: &Path, count: u32) -> io::Result<Marks> {
        let found = Marks::read(path, count)?;
        let file = File::options().create(true).truncate(false).write(true).open(path)?;
        if found.is_none() {
            file.set_len(u64::from(count) * MARK_BYTES as u64)?;
        }
        Ok(Marks {
            file: Arc::new(file),
            found: found.unwrap_or_else(|| vec![Some(Mark::default()); count as usize]),
        })
    }

    /// The mark of a partition; `None` if unreadable.
    pub fn get(&self, number: u32) -> Option<Mark> {
        self.found.get(number as usize).copied().flatten()
    }

    /// The writer of a partition's mark.
    pub fn marker(&self, number: u32) -> Marker {
        Marker { file: self.file.clone(), number, mark: self.get(number).unwrap_or_default() }
    }
}

impl Marker {
    /// Records that the journal is durable up to this group.
    pub fn synced(&mut self, group: u64) {
        if self.mark.synced != group {
            self.mark.synced = group;
            self.write();
        }
    }

    /// Records that the state is durable up to this group.
    pub fn checkpoint(&mut self, group: u64) {
        if self.mark.checkpoint != group {
            self.mark.checkpoint = group;
            self.write();
        }
    }

    fn write(&self) {
        // After a failed write the mark is older than necessary, and still true.
        let at = u64::from(self.number) * MARK_BYTES as u64;
        let _ = self.file.write_all_at(&self.mark.bytes(self.number), at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pro_02_a_mark_is_read_as_it_was_written_and_a_damaged_one_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("marks");
        assert_eq!(Marks::read(&path, 4).unwrap(), None);
        let marks = Marks::open(&path, 4).unwrap();
        assert_eq!(marks.get(3), Some(Mark::default()));
        let mut marker = marks.marker(2);
        marker.synced(7);
        marker.checkpoint(5);
        let want = Mark { synced: 7, checkpoint: 5 };
        assert_eq!(Marks::open(&path, 4).unwrap().get(2), Some(want));
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[2 * MARK_BYTES + 7] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let read = Marks::read(&path, 4).unwrap().unwrap();
        assert_eq!((read[2], read[1]), (None, Some(Mark::default())));
        std::fs::write(&path, &bytes[..30]).unwrap();
        assert_eq!(Marks::read(&path, 4).unwrap().unwrap()[1..], [None, None, None]);
    }
}
