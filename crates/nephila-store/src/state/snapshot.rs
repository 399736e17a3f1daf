//! Copies of a state while it works: runs never change, so a copy is a list of files, and a second copy only the new
//! ones.
//!
//! The manifest is written last; before it, the copy does not exist. Files that a later copy does not list are removed
//! behind it.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use nephila_core::frontier::key::Prefixes;
use nephila_core::state::totals::{recount, recount_open};
use nephila_core::state::{Position, StateError};

use super::manifest::{self, Manifest, run_name};
use super::{DiskState, disk_error};
use crate::disk::Disk;

/// What a copy took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// The position of the log it holds.
    pub position: Position,
    /// Files that were new.
    pub files_new: usize,
    /// Their bytes.
    pub bytes_new: u64,
    /// All files of the copy.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl DiskState {
    /// Brings the copy in a folder up to date, or makes one there.
    pub fn snapshot(&mut self, to: &Path) -> Result<Copied, StateError> {
        self.checkpoint()?;
        let manifest = self.manifest();
        self.copy(manifest, to)
    }

    /// Brings the copy in a folder up to date with what is durable here, without making more of it durable: what came since
    /// is in the log. Nobody waits for a flush.
    pub fn snapshot_durable(&self, to: &Path) -> Result<Copied, StateError> {
        // As it stands on disk. Files that it lists are only ever removed by us, behind a later one.
        let manifest = Manifest::read(&self.folder).map_err(|error| disk_error(&self.folder, error))?;
        self.copy(manifest.unwrap_or_default(), to)
    }

    /// Makes a state of its own, in another folder, of what these prefixes hold. It begins at the position of this one;
    /// what it does not hold falls away as its runs are merged.
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

/// A second name where that is possible, else the bytes again. A file that a broken attempt left is made anew.
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

/// What a state on disk, or a copy of one, is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The position of the log it holds.
    pub position: Position,
    /// How far inboxes were read.
    pub inboxes: std::collections::BTreeMap<Box<str>, u64>,
    /// Its files, the manifest last.
    pub files: Vec<String>,
}

/// What lies in this folder, as its manifest says; none if there is no state.
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

/// Is there a state, or a copy of one, in this folder?
pub fn is_state(folder: &Path) -> bool {
    folder.join(manifest::NAME).is_file()
}
