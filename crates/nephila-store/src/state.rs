//! A partition's state on disk: recent changes in memory, everything else in sorted runs (a log-structured merge tree).
//!
//! Reads query the memory first, then the runs. [`DiskState::checkpoint`] flushes the memory to new runs, one for each
//! table, and then writes a manifest that lists them together with their position in the log: the rename of the
//! manifest is the one moment at which the state on disk changes. Later changes are in the log, which is replayed from
//! that position; there is no other recovery. Merges only replace runs by an equivalent run, and take effect with the
//! next manifest.
//!
//! All tables share the manifest and so the position: no table is ever ahead of another.

mod check;
mod flush;
mod manifest;
mod merge;
#[cfg(any(test, feature = "test-util"))]
pub mod proof;
mod read;
mod snapshot;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use nephila_core::key::Prefixes;
use nephila_core::state::memory::Tables;
use nephila_core::state::totals::{recount, recount_open};
use nephila_core::state::{Changes, Meta, Position, StateError};

use crate::disk::{self, Disk};
use crate::runs::{self, Cache, Io, Run};
use flush::Flushing;
use manifest::{Lacks, Manifest, run_name};
use merge::{Floors, Merged, Plan};
use table::{Table, later_key, queue_key};

pub use check::check;
pub use merge::Merger;
pub use snapshot::{Copied, Listed, is_state, list};

/// Maximum runs of a table; beyond this a checkpoint waits for a merge, so that a slow disk slows the owner down
/// instead of filling up.
const RUNS_MAX: usize = 32;

/// Where merges run.
#[derive(Clone, Debug)]
pub enum Merging {
    /// In the caller's thread: the caller waits. The same calls always give the same files.
    Inline,
    /// In the threads of a merger.
    Background(Merger),
}

/// Disk statistics of a state: counters that only grow, and current sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Reads of runs.
    pub io: Io,
    /// Bytes of runs written from memory.
    pub bytes_flushed: u64,
    /// Bytes of runs written by merges.
    pub bytes_merged: u64,
    /// Number of runs.
    pub runs: usize,
    /// Total bytes of the runs.
    pub file_bytes: u64,
    /// Memory of their filters and indexes.
    pub resident_bytes: u64,
    /// Entries in the runs of URLs; a URL with several versions counts several times.
    pub url_entries: u64,
    /// Memory not flushed yet, approximately.
    pub memory_bytes: usize,
}

/// A running merge: its table, the number of its oldest input, and the channel for its result.
type UnderWay = (Table, u64, Receiver<Result<Merged, runs::Error>>);

/// A state on disk. See the module.
#[derive(Debug)]
pub struct DiskState {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    merging: Merging,
    cache: Arc<Cache>,
    position: Position,
    meta: Meta,
    memory: Tables,
    /// Tables being flushed by another thread: newer than the runs, older than the memory.
    flushing: Option<Flushing>,
    /// Runs of each table, oldest first, by their numbers.
    runs: BTreeMap<Table, Vec<(u64, Run)>>,
    next_file: u64,
    /// The running merge.
    merge: Option<UnderWay>,
    /// Runs listed by the manifest on disk, but not by the next one.
    obsolete: Vec<(Table, u64)>,
    /// The position on disk.
    durable: Position,
    /// A flush met a full disk: the next checkpoint returns this error.
    full: Option<String>,
    io: Io,
    bytes_flushed: u64,
    bytes_merged: u64,
}

/// Converts an error, with its path.
fn disk_error(path: &Path, error: io::Error) -> StateError {
    match error.kind() {
        _ if disk::is_full(&error) => StateError::Full(format!("{}: {error}", path.display())),
        io::ErrorKind::InvalidData => StateError::Damaged(format!("{}: {error}", path.display())),
        _ => StateError::Disk(format!("{}: {error}", path.display())),
    }
}

fn run_error(error: runs::Error) -> StateError {
    match error {
        runs::Error::Io { ref source, .. } if disk::is_full(source) => StateError::Full(error.to_string()),
        runs::Error::Damaged { .. } | runs::Error::Version { .. } => StateError::Damaged(error.to_string()),
        _ => StateError::Disk(error.to_string()),
    }
}

impl DiskState {
    /// Opens the state in a folder, or creates an empty state there. Removes leftovers of a crash. The caller has to
    /// fold the log from [`nephila_core::state::State::position`] on.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        merging: Merging,
        cache: &Arc<Cache>,
    ) -> Result<DiskState, StateError> {
        let wrong = |error| disk_error(folder, error);
        if !folder.is_dir() {
            disk.create_dir(folder).map_err(wrong)?;
        }
        let manifest =
            Manifest::read(folder).map_err(|error| disk_error(&folder.join(manifest::NAME), error))?;
        let manifest = manifest.unwrap_or_default();
        let listed: Vec<String> =
            manifest.runs.iter().map(|(table, number)| run_name(*table, *number)).collect();
        let mut left_over = Vec::new();
        for entry in fs::read_dir(folder).map_err(wrong)? {
            let name = entry.map_err(wrong)?.file_name();
            let Some(name) = name.to_str() else { continue };
            if name == manifest::NAME_NEW
                || (name.ends_with(".run") && !listed.iter().any(|listed| listed == name))
            {
                left_over.push(name.to_owned());
            }
        }
        left_over.sort();
        for name in left_over {
            disk.remove(&folder.join(name)).map_err(wrong)?;
        }
        let mut runs: BTreeMap<Table, Vec<(u64, Run)>> = BTreeMap::new();
        for &(table, number) in &manifest.runs {
            let run = Run::open_cached(&folder.join(run_name(table, number)), cache).map_err(run_error)?;
            runs.entry(table).or_default().push((number, run));
        }
        let mut state = DiskState {
            disk,
            folder: folder.into(),
            merging,
            cache: cache.clone(),
            position: manifest.position,
            meta: manifest.meta,
            memory: Tables::default(),
            flushing: None,
            runs,
            next_file: manifest.next_file,
            merge: None,
            obsolete: Vec::new(),
            durable: manifest.position,
            full: None,
            io: Io::default(),
            bytes_flushed: 0,
            bytes_merged: 0,
        };
        let prefixes = state.meta.prefixes.unwrap_or(Prefixes::ALL);
        if manifest.lacks.left {
            let left = recount(&mut state, prefixes, |_| false, |_| false)?;
            state.meta.totals.set_left(left);
        }
        if manifest.lacks.open {
            state.meta.totals.open = recount_open(&mut state, prefixes)?;
        }
        if manifest.lacks != Lacks::default() {
            // Copies are made of the files on disk.
            state.write_manifest()?;
        }
        Ok(state)
    }

    /// Folder of the state.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Disk statistics.
    pub fn stats(&self) -> DiskStats {
        let all = || self.runs.values().flatten().map(|(_, run)| run.info());
        let urls = self.runs.get(&Table::Urls);
        DiskStats {
            io: self.io,
            bytes_flushed: self.bytes_flushed,
            bytes_merged: self.bytes_merged,
            runs: all().count(),
            file_bytes: all().map(|info| info.file_bytes).sum(),
            resident_bytes: all().map(|info| info.resident_bytes).sum(),
            url_entries: urls.into_iter().flatten().map(|(_, run)| run.info().entries).sum(),
            memory_bytes: self.memory.bytes,
        }
    }

    /// Position up to which the log is no longer needed.
    pub fn durable(&self) -> Position {
        self.durable
    }

    /// Makes all applied groups durable. With a full disk nothing changes, and the call may be retried.
    pub fn checkpoint(&mut self) -> Result<Position, StateError> {
        self.full = None;
        self.end_flush(true)?;
        self.install(false)?;
        if self.position == self.durable && self.obsolete.is_empty() {
            return Ok(self.durable);
        }
        // All tables or none: a run whose entries are in memory as well would be read twice.
        let first = self.next_file;
        let written: Result<Vec<_>, _> = Table::ALL.into_iter().map(|table| self.flush(table)).collect();
        match written {
            Ok(runs) => {
                for (table, number, run) in runs.into_iter().flatten() {
                    self.bytes_flushed += run.info().file_bytes;
                    self.runs.entry(table).or_default().push((number, run));
                }
            }
            Err(error) => {
                flush::discard(&*self.disk, &self.folder, first..self.next_file);
                return Err(error);
            }
        }
        self.memory = Tables::default();
        self.write_manifest()?;
        self.merge()?;
        Ok(self.durable)
    }

    /// Flushes the memory of a table to a run; `None` if the table is empty.
    fn flush(&mut self, table: Table) -> Result<Option<(Table, u64, Run)>, StateError> {
        let entries = read::memory_entries(&self.memory, table, None);
        let mut entries = entries.peekable();
        if entries.peek().is_none() {
            return Ok(None);
        }
        let number = self.next_file;
        self.next_file += 1;
        let path = self.folder.join(run_name(table, number));
        flush::write_run(&*self.disk, &path, table, entries).map_err(run_error)?;
        let run = Run::open_cached(&path, &self.cache).map_err(run_error)?;
        Ok(Some((table, number, run)))
    }

    fn manifest(&self) -> Manifest {
        let runs =
            self.runs.iter().flat_map(|(table, runs)| runs.iter().map(|(number, _)| (*table, *number)));
        Manifest {
            position: self.position,
            next_file: self.next_file,
            meta: self.meta.clone(),
            lacks: Lacks::default(),
            runs: runs.collect(),
        }
    }

    /// Makes the present state the state on disk, then removes obsolete files.
    fn write_manifest(&mut self) -> Result<(), StateError> {
        let wrong = |error| disk_error(&self.folder, error);
        // The names of new runs must be durable before the manifest that lists them.
        self.disk.sync_dir(&self.folder).map_err(wrong)?;
        self.manifest().write(&*self.disk, &self.folder).map_err(wrong)?;
        self.durable = self.position;
        for (table, number) in std::mem::take(&mut self.obsolete) {
            self.disk.remove(&self.folder.join(run_name(table, number))).map_err(wrong)?;
        }
        Ok(())
    }

    /// Starts due merges.
    fn merge(&mut self) -> Result<(), StateError> {
        // The manifest being written lists the present runs.
        if self.flushing.is_some() {
            return Ok(());
        }
        loop {
            if self.merge.is_some() {
                // One at a time. Too many runs mean that merging is slower than flushing, and flushing waits
                // (backpressure).
                let behind = self.runs.values().any(|runs| runs.len() > RUNS_MAX);
                self.install(behind)?;
                if self.merge.is_some() {
                    return Ok(());
                }
            }
            let Some(plan) = self.plan() else { return Ok(()) };
            let (table, first) = (plan.table, self.first_input(&plan));
            match &self.merging {
                Merging::Inline => {
                    match plan.run(&*self.disk).map_err(run_error) {
                        Ok(merged) => self.replace(first, merged)?,
                        // Nothing depends on the merge: the next checkpoint retries.
                        Err(StateError::Full(why)) => {
                            self.full = Some(why);
                            return Ok(());
                        }
                        Err(error) => return Err(error),
                    }
                }
                Merging::Background(merger) => match merger.submit(plan, self.disk.clone()) {
                    Some(result) => self.merge = Some((table, first, result)),
                    // The thread is busy with other states; the next checkpoint retries.
                    None => return Ok(()),
                },
            }
        }
    }

    fn first_input(&self, plan: &Plan) -> u64 {
        let oldest = plan.inputs.last().expect("a merge has inputs").path();
        let runs = &self.runs[&plan.table];
        runs.iter().find(|(_, run)| run.path() == oldest).expect("its input is here").0
    }

    /// The next due merge: the smallest, so that a small table does not wait behind the long merge of a large one.
    fn plan(&mut self) -> Option<Plan> {
        let due = self.runs.iter().filter_map(|(table, runs)| {
            let entries: Vec<u64> = runs.iter().map(|(_, run)| run.info().entries).collect();
            let range = merge::choose(&entries)?;
            Some((entries[range.clone()].iter().sum::<u64>(), *table, range))
        });
        let (_, table, range) = due.min_by_key(|(entries, table, _)| (*entries, *table))?;
        let inputs = self.runs[&table][range].iter().rev().map(|(_, run)| run.clone()).collect();
        let floors = matches!(table, Table::Queued | Table::Planned).then(|| {
            let hosts = self.runs.get(&Table::Hosts).map(Vec::as_slice).unwrap_or_default();
            Floors::new(&hosts.iter().rev().map(|(_, run)| run.clone()).collect::<Vec<_>>())
        });
        let number = self.next_file;
        self.next_file += 1;
        let path = self.folder.join(run_name(table, number));
        let prefixes = self.meta.prefixes.unwrap_or(Prefixes::ALL);
        Some(Plan { table, inputs, path, number, prefixes, floors })
    }

    /// Installs the result of an ended merge. With `wait`, waits for a running one.
    fn install(&mut self, wait: bool) -> Result<(), StateError> {
        if self.flushing.is_some() {
            return Ok(());
        }
        let Some((_, first, result)) = &self.merge else { return Ok(()) };
        let first = *first;
        let merged = match wait {
            true => result.recv().map_err(|_| StateError::Disk("the merging thread ended".into()))?,
            false => match result.try_recv() {
                Ok(merged) => merged,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => {
                    return Err(StateError::Disk("the merging thread ended".into()));
                }
            },
        };
        self.merge = None;
        match merged.map_err(run_error) {
            Ok(merged) => self.replace(first, merged),
            // Nothing depends on the merge: the next checkpoint retries.
            Err(StateError::Full(why)) => {
                self.full = Some(why);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces the inputs of a merge by its result.
    fn replace(&mut self, first: u64, merged: Merged) -> Result<(), StateError> {
        self.bytes_merged += merged.info.file_bytes;
        let path = self.folder.join(run_name(merged.table, merged.number));
        let run = Run::open_cached(&path, &self.cache).map_err(run_error)?;
        let runs = self.runs.get_mut(&merged.table).expect("its inputs are here");
        let at = runs.iter().position(|(number, _)| *number == first).expect("its inputs are here");
        let old = runs.splice(at..at + merged.inputs, [(merged.number, run)]);
        self.obsolete.extend(old.map(|(number, _)| (merged.table, number)));
        Ok(())
    }

    /// Waits for the running merge, runs all due merges, and makes the result durable. For an orderly shutdown and for
    /// measurements.
    pub fn settle(&mut self) -> Result<(), StateError> {
        self.checkpoint()?;
        loop {
            while self.merge.is_some() {
                self.install(true)?;
                if let Some(why) = self.full.take() {
                    return Err(StateError::Full(why));
                }
                self.merge()?;
            }
            if self.obsolete.is_empty() {
                return Ok(());
            }
            self.write_manifest()?;
            self.merge()?;
        }
    }

    /// Takes the changes of a group into memory.
    fn take(&mut self, mut changes: Changes, position: Position) -> Result<(), StateError> {
        if let Some(meta) = changes.meta.take() {
            self.meta = meta;
        }
        self.meta.take_batches(&changes.batches);
        // Only in memory: totals are written with the manifest, and counted again from the log after that.
        self.meta.totals.count(&changes.counted);
        self.memory.apply(changes);
        self.position = position;
        match self.end_flush(false) {
            // The tables to be flushed are in memory again. The group is still applied.
            Err(StateError::Full(why)) => self.full = Some(why),
            ended => ended?,
        }
        // After an ended merge the next due one starts: one merge per checkpoint would not keep up with all tables.
        if self.merge.is_some() { self.merge() } else { Ok(()) }
    }
}

impl Drop for DiskState {
    fn drop(&mut self) {
        // A running job would write into a folder that another owner may have opened by then.
        if let Some(flushing) = self.flushing.take() {
            flushing.wait();
        }
        if let Some((_, _, result)) = self.merge.take() {
            result.recv().ok();
        }
    }
}

/// Size of the block cache in bytes, for all states of a process.
pub const CACHE_BYTES: usize = 64 << 20;
