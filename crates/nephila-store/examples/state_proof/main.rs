//! Proves what the state on disk promises, at full size.
//!
//!     state_proof crash    [--dir FOLDER] [--groups N] [--stride N]     stops the machine at every call to its disk
//!     state_proof kill     [--dir FOLDER] [--kills N] [--seed N]        kills a process that folds, again and again
//!     state_proof replay   [--dir FOLDER] [--entries N]                 folds a log twice, and once from a snapshot
//!     state_proof snapshot [--dir FOLDER] [--urls N]                    snapshots, opens elsewhere, splits
//!     state_proof golden   --dir FOLDER                                 writes the state that tests open for ever
//!
//! Each ends with one line of figures, and with an error when a bound does not hold. Meaningful only with `--release`.

// A program has no outside: `pub` in its modules means what `pub(crate)` does.
#![allow(unreachable_pub)]

mod golden;
mod kill;
mod points;
mod replay;
mod snapshot;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use nephila_core::entry::open;
use nephila_core::fold::fold;
use nephila_core::state::{Durable, State};
use nephila_store::disk::RealDisk;
use nephila_store::runs::Cache;
use nephila_store::state::{CACHE_BYTES, DiskState, Merger, Merging};

// As the node itself.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Anything that goes wrong ends the proof.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A state is written out when it holds this much in memory, as a worker does.
pub const DIRTY_BYTES_MAX: usize = 32 << 20;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let command = args.next().ok_or("say what to prove: crash, kill, replay, snapshot")?;
    let mut options = Options { dir: None, numbers: Vec::new() };
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
        match option.as_str() {
            "--dir" => options.dir = Some(value.into()),
            _ => options.numbers.push((option, value.parse()?)),
        }
    }
    let temporary = match (command.as_str(), &options.dir) {
        ("golden", Some(dir)) => return golden::write(dir),
        ("child", Some(dir)) => return kill::child(dir, options.number("--seed", 1)),
        (_, Some(dir)) => {
            std::fs::create_dir_all(dir)?;
            tempfile::tempdir_in(dir)?
        }
        (_, None) => tempfile::tempdir()?,
    };
    let folder = temporary.path();
    match command.as_str() {
        "crash" => points::run(folder, options.number("--groups", 500), options.number("--stride", 1)),
        "kill" => kill::run(folder, options.number("--kills", 500), options.number("--seed", 1)),
        "replay" => replay::run(folder, options.number("--entries", 10_000_000)),
        "snapshot" => snapshot::run(folder, options.number("--urls", 10_000_000)),
        other => Err(format!("no such proof: {other}").into()),
    }
}

struct Options {
    dir: Option<PathBuf>,
    numbers: Vec<(String, u64)>,
}

impl Options {
    fn number(&self, name: &str, default: u64) -> u64 {
        self.numbers.iter().find(|(option, _)| option == name).map_or(default, |(_, value)| *value)
    }
}

/// Opens a state as a worker does, with a thread of its own for merges.
pub fn open_state(folder: &Path) -> Result<DiskState, Failure> {
    let merging = Merging::Background(Merger::start()?);
    Ok(DiskState::open(Arc::new(RealDisk), folder, merging, &Cache::new(CACHE_BYTES))?)
}

/// Folds a group that stands in a log; begins to write the state out when that is due.
pub fn fold_bytes(state: &mut DiskState, bytes: &[u8]) -> Result<(), Failure> {
    let (group, behind) = open(bytes, state.position())?;
    fold(state, &group, behind)?;
    if state.dirty_bytes() >= DIRTY_BYTES_MAX {
        state.checkpoint_soon()?;
    }
    Ok(())
}
