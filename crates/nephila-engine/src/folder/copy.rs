//! Queries on a read-only folder: the required files are copied, and the query reads the copy.
//!
//! Tables and journals are always opened for writing. In a folder on a read-only medium, or of another user, this
//! fails; a copy in the folder for temporary files serves the same answers.
//!
//! Invariants: nothing is written into the folder itself; the copy is readable by its owner alone, has no more than
//! [`COPY_BYTES_MAX`] bytes, and is deleted with the process.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, ensure};
use tempfile::TempDir;

use super::Folder;

/// Maximum size in bytes of a state that is copied. A larger copy takes minutes, and an unexpected amount of disk
/// space.
pub const COPY_BYTES_MAX: u64 = 4 << 30;

/// Whether this error comes from a folder that is not writable.
pub fn is_unwritable(error: &anyhow::Error) -> bool {
    let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem];
    error.downcast_ref::<io::Error>().is_some_and(|error| kinds.contains(&error.kind()))
}

impl Folder {
    /// Copies the job and the state of the frontier, without captures and logs.
    pub fn copy_to_read(&self) -> anyhow::Result<(TempDir, Folder)> {
        let mut bytes = 0;
        size(&self.state(), &mut bytes)?;
        ensure!(
            bytes <= COPY_BYTES_MAX,
            "{} cannot be written, and its state of {} MB is too large to be copied for a question: run as a user who may \
             write it, or copy the folder",
            self.dir.display(),
            bytes / 1_000_000
        );
        // Made with 0700.
        let place = tempfile::tempdir().context("making a folder for temporary files")?;
        for entry in fs::read_dir(&self.dir).with_context(|| self.dir.display().to_string())? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                copy_file(&entry.path(), &place.path().join(entry.file_name()))?;
            }
        }
        let copy = Folder::new(place.path());
        copy_all(&self.state(), &copy.state())?;
        Ok((place, copy))
    }
}

/// Adds the sizes in bytes of all files in a folder and its subfolders to `bytes`.
pub fn size(dir: &Path, bytes: &mut u64) -> anyhow::Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        match entry.file_type()? {
            kind if kind.is_dir() => size(&entry.path(), bytes)?,
            kind if kind.is_file() => *bytes += entry.metadata()?.len(),
            _ => {}
        }
    }
    Ok(())
}

/// Copies folders and files, but no links and no sockets.
pub fn copy_all(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()? {
            kind if kind.is_dir() => copy_all(&from, &to)?,
            kind if kind.is_file() => copy_file(&from, &to)?,
            _ => {}
        }
    }
    Ok(())
}

/// Copies a file. Not with `fs::copy`: the new file must be writable, whatever the permissions of the old one.
pub fn copy_file(from: &Path, to: &Path) -> anyhow::Result<()> {
    let mut source = fs::File::open(from).with_context(|| format!("reading {}", from.display()))?;
    let mut file = fs::File::create(to).with_context(|| to.display().to_string())?;
    io::copy(&mut source, &mut file).with_context(|| format!("copying {}", from.display()))?;
    Ok(())
}
