//! Read-only integrity check of a state's files.

use std::path::Path;

use nephila_core::state::{Position, StateError};

use super::manifest::{self, Manifest, run_name};
use super::{disk_error, run_error};
use crate::runs::Run;

fn has_runs(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".run"))
}

/// Returns the position of the state in a folder; `None` if there is no manifest. Opens every file of the manifest, and
/// reads a file to its end while its size fits the remaining `bytes_max`. The manifest must be at least as new as group
/// `checkpoint`.
pub fn check(folder: &Path, checkpoint: u64, bytes_max: &mut u64) -> Result<Option<Position>, StateError> {
    let path = folder.join(manifest::NAME);
    let Some(manifest) = Manifest::read(folder).map_err(|error| disk_error(&path, error))? else {
        // A crash during the first checkpoint leaves files as well; they are made again in either case.
        let is_gone = checkpoint > 0 || has_runs(folder);
        return if is_gone {
            Err(StateError::Damaged(format!("{} is gone", path.display())))
        } else {
            Ok(None)
        };
    };
    for &(table, number) in &manifest.runs {
        let run = Run::open(&folder.join(run_name(table, number))).map_err(run_error)?;
        let bytes = run.info().file_bytes;
        if bytes <= *bytes_max {
            *bytes_max -= bytes;
            run.verify().map_err(run_error)?;
        }
    }
    if manifest.position.sequence < checkpoint {
        return Err(StateError::Damaged(format!(
            "{} is of group {}, and one of group {checkpoint} had been written",
            path.display(),
            manifest.position.sequence
        )));
    }
    Ok(Some(manifest.position))
}
