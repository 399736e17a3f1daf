//! Snapshots of a working state: runs never change, so a snapshot is a list of files, and a second snapshot copies only
//! the new files.
//!
//! The manifest is written last; before that, the snapshot does not exist. Then files that the new manifest does not
//! list are removed.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use nephila_core::key::Prefixes;
use nephila_core::state::totals::{recount, recount_open};
use nephila_core::state::{Position, StateError};

use super::manifest::{self, Manifest, run_name};
use super::{DiskState, disk_error};
use crate::disk::Disk;

/// Statistics of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Position of the snapshot in the log.
    pub position: Position,
    /// Number of new files.
    pub files_new: usize,
    /// Bytes of the new files.
    pub bytes_new: u64,
    /// Number of all files.
    pub files: usize,
    /// Bytes of all files.
    pub bytes: u64,
}

impl DiskState {
    /// Updates the snapshot in a folder, or creates one there.
    pub fn snapshot(&mut self, to: &Path) -> Result<Copied, StateError> {
        self.checkpoint()?;
        let manifest = self.manifest();
        self.copy(manifest, to)
    }

    /// Updates the snapshot in a folder to the last checkpoint, without a new checkpoint: later changes are in the log.
    /// Waits for no flush.
    pub fn snapshot_durable(&self, to: &Path) -> Result<Copied, StateError> {
        // As on disk. Only this state removes listed files, after a later manifest.
        let manifest = Manifest::read(&self.folder).map_err(|error| disk_error(&self.folder, error))?;
        self.copy(manifest.unwrap_or_default(), to)
    }

    /// Creates an independent state in another folder, with the entries of these prefixes. The new state begins at the
    /// position of this one; merges drop its other entries.
    pub fn fork(&mut self, prefixes: Prefixes, to: &Path) -> Result<Copied, StateError> {
        self.checkpoint()?;
        let left = recount(self, prefixes, |_| false, |_| false)?;
        let open = recount_open(self, prefixes)?;
        let mut manifest = self.manifest();
        manifest.meta.split(prefixes, left, open);
        manifest.meta.displaced.retain(|(domain, _), _| prefixes.holds(*domain));
        self.copy(manifest, to)
    }

    fn copy(&self, manifest: Manifest, to: &Path) -> Result<Copied, StateError> {
        let wrong = |error| disk_error(to, error);
        let disk: &Arc<dyn Disk> = &self.disk;
        disk.create_dir(to).map_err(wrong)?;
        let old = Manifest::read(to).map_err(wrong)?.unwrap_or_default();
        let mut copied = Copied { position: manifest.position, ..Copied::default() };
        for &(table, number) in &manifest.runs {
            let name = run_name(table, number);
            let (source, target) = (self.folder.join(&name), to.join(&name));
            let bytes = fs::metadata(&source).map_err(|error| disk_error(&source, error))?.len();
            copied.files += 1;
            copied.bytes += bytes;
            if old.runs.contains(&(table, number)) {
                continue;
            }
            link_or_copy(&source, &target).map_err(|error| disk_error(&target, error))?;
            copied.files_new += 1;
            copied.bytes_new += bytes;
        }
        disk.sync_dir(to).map_err(wrong)?;
        manifest.write(&**disk, to).map_err(wrong)?;
        for (table, number) in old.runs {
            if !manifest.runs.contains(&(table, number)) {
                disk.remove(&to.join(run_name(table, number))).map_err(wrong)?;
            }
        }
        Ok(copied)
    }
}

/// Makes a hard link where possible, otherwise a copy. Replaces a file left by a broken attempt.
fn link_or_copy(source: &Path, target: &Path) -> io::Result<()> {
    match fs::remove_file(target) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if fs::hard_link(source, target).is_ok() {
        return Ok(());
    }
    fs::copy(source, target)?;
    fs::File::open(target)?.sync_all()
}

/// Position and files of a state on disk, or of a snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Position in the log.
    pub position: Position,
    /// Read positions of the inboxes.
    pub inboxes: std::collections::BTreeMap<Box<str>, u64>,
    /// Its files, the manifest last.
    pub files: Vec<String>,
}

/// Lists the state in this folder by its manifest; `None` if there is no state.
pub fn list(folder: &Path) -> Result<Option<Listed>, StateError> {
    let manifest = Manifest::read(folder).map_err(|error| disk_error(&folder.join(manifest::NAME), error))?;
    Ok(manifest.map(|manifest| {
        let runs = manifest.runs.iter().map(|&(table, number)| run_name(table, number));
        Listed {
            position: manifest.position,
            inboxes: manifest.meta.inboxes.clone(),
            files: runs.chain([manifest::NAME.to_owned()]).collect(),
        }
    }))
}

/// Whether this folder has a state or a snapshot.
pub fn is_state(folder: &Path) -> bool {
    folder.join(manifest::NAME).is_file()
}
