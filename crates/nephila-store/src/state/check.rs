//! Looks whether a state's files are whole, and changes nothing.

use std::path::Path;

use nephila_core::state::{Position, StateError};

use super::manifest::{self, Manifest, run_name};
use super::{disk_error, run_error};
use crate::runs::Run;

fn has_runs(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with(".run"))
}

/// The position of the state in a folder; none if there is no manifest. Every file that the manifest lists is opened, and
/// read to its end as long as they have so many bytes together; with a `checkpoint`, there must be a manifest that is as
/// new.
pub fn check(folder: &Path, checkpoint: u64, bytes_max: &mut u64) -> Result<Option<Position>, StateError> {
    let path = folder.join(manifest::NAME);
    let Some(manifest) = Manifest::read(folder).map_err(|error| disk_error(&path, error))? else {
        // A first checkpoint that a crash cut off leaves files as well; they are made again in either case.
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
