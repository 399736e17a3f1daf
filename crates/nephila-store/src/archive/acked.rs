//! Writes the index lines of acknowledged records beside an open file.

use std::path::{Path, PathBuf};

use super::damage;
use crate::disk::{Disk, DiskFile};

/// Index lines beside an open file: see [`super::damage`]. Lines that cannot be written are left out.
#[derive(Debug)]
pub(super) struct Acked {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    bytes: u64,
}

impl Acked {
    pub(super) fn create(disk: &dyn Disk, archive_file: &Path) -> Option<Acked> {
        let path = PathBuf::from(format!("{}{}", archive_file.display(), damage::ACKED));
        // Left from an earlier file of the same name.
        let _ = disk.remove(&path);
        let file = disk.create(&path).ok()?;
        Some(Acked { file, path, bytes: 0 })
    }

    /// Writes the lines of committed records, and the number of committed bytes.
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
