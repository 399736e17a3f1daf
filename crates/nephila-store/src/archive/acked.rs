//! Writes the lines of what was acknowledged beside an open file.

use std::path::{Path, PathBuf};

use super::damage;
use crate::disk::{Disk, DiskFile};

/// Lines beside an open file: see [`super::damage`]. What cannot be written there is left out.
#[derive(Debug)]
pub(super) struct Acked {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    bytes: u64,
}

impl Acked {
    pub(super) fn create(disk: &dyn Disk, archive_file: &Path) -> Option<Acked> {
        let path = PathBuf::from(format!("{}{}", archive_file.display(), damage::ACKED));
        // Of a file that had the same name and is gone.
        let _ = disk.remove(&path);
        let file = disk.create(&path).ok()?;
        Some(Acked { file, path, bytes: 0 })
    }

    /// These lines stand in what is committed, and so far that goes.
    pub(super) fn write<'a>(&mut self, lines: impl Iterator<Item = &'a String>, committed: u64) {
        let mut text = String::new();
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        text.push_str(&format!("{}{committed}\n", damage::COMMITTED));
        if self.file.write_at(self.bytes, text.as_bytes()).is_ok() {
            self.bytes += text.len() as u64;
        }
    }

    pub(super) fn remove(self, disk: &dyn Disk) {
        let _ = disk.remove(&self.path);
    }
}
