//! Writes the state that tests open for ever: small, with every table and several runs.

use std::path::Path;
use std::sync::Arc;

use nephila_core::key::Prefixes;
use nephila_core::state::State;
use nephila_store::disk::RealDisk;
use nephila_store::runs::Cache;
use nephila_store::state::proof::Workload;
use nephila_store::state::{CACHE_BYTES, DiskState, Merging};

use super::{Failure, fold_bytes};

const GROUPS: u64 = 90;
const CHECKPOINT_EVERY: u64 = 15;

/// Writes it.
pub fn write(folder: &Path) -> Result<(), Failure> {
    let mut state = DiskState::open(Arc::new(RealDisk), folder, Merging::Inline, &Cache::new(CACHE_BYTES))?;
    if state.position().sequence != 0 {
        return Err(format!("there is a state in {} already", folder.display()).into());
    }
    for number in 1..=GROUPS {
        let (bytes, _) = Workload::SMALL.sealed(state.position());
        fold_bytes(&mut state, &bytes)?;
        if number.is_multiple_of(CHECKPOINT_EVERY) {
            state.checkpoint()?;
        }
    }
    // What merges replaced is gone, and no more is merged.
    drop(state);
    let mut state = DiskState::open(Arc::new(RealDisk), folder, Merging::Inline, &Cache::new(CACHE_BYTES))?;
    let stats = state.stats();
    let hash = state.hash(Prefixes::ALL)?;
    println!(
        "golden: {:?}, hash {hash:#x}, {} runs, {} bytes",
        state.position(),
        stats.runs,
        stats.file_bytes
    );
    Ok(())
}
