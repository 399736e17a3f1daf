//! Flushes memory in another thread, so that the owner of the state does not wait.
//!
//! The tables in memory are frozen and stay readable meanwhile. The other thread writes them as runs and then the
//! manifest that lists the runs: a whole checkpoint at the position of the freeze. The owner installs the runs with its
//! next group. With a full disk the frozen tables return to memory, and a later checkpoint flushes them. No merge
//! starts or is installed during a flush, so that the manifest is still true when written.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use nephila_core::state::memory::Tables;
use nephila_core::state::{Position, StateError};

use super::manifest::{Manifest, run_name};
use super::read::memory_entries;
use super::table::Table;
use super::{DiskState, Merging, disk_error, run_error};
use crate::disk::Disk;
use crate::runs::{Error, Run, RunInfo, RunWriter};

/// A running flush.
#[derive(Debug)]
pub(super) struct Flushing {
    pub(super) memory: Arc<Tables>,
    position: Position,
    /// Files that the new manifest no longer lists.
    obsolete: Vec<(Table, u64)>,
    done: Receiver<Result<Vec<Flushed>, StateError>>,
}

/// A run that was written.
#[derive(Debug)]
struct Flushed {
    table: Table,
    number: u64,
    run: Run,
}

impl Flushing {
    /// Waits for the end of the flush and ignores its result.
    pub(super) fn wait(self) {
        self.done.recv().ok();
    }
}

/// Writes ascending entries as a run.
pub(super) fn write_run(
    disk: &dyn Disk,
    path: &Path,
    table: Table,
    entries: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
) -> Result<RunInfo, Error> {
    let mut writer = RunWriter::create(disk, path, table.options())?;
    for (key, value) in entries {
        writer.push(&key, &value)?;
    }
    writer.finish(&[])
}

impl DiskState {
    /// Starts a checkpoint of all applied groups without waiting for the end. Waits for an earlier flush that is still
    /// running: memory that fills faster than the disk writes slows the owner down (backpressure). Without a background
    /// thread, makes the checkpoint itself. Returns the current position up to which the log is no longer needed.
    pub fn checkpoint_soon(&mut self) -> Result<Position, StateError> {
        let Merging::Background(merger) = self.merging.clone() else { return self.checkpoint() };
        if let Some(why) = self.full.take() {
            return Err(StateError::Full(why));
        }
        self.end_flush(true)?;
        self.install(false)?;
        if self.position == self.durable && self.obsolete.is_empty() {
            return Ok(self.durable);
        }
        let memory = Arc::new(std::mem::take(&mut self.memory));
        let mut manifest = self.manifest();
        let (first, mut tables) = (self.next_file, Vec::new());
        for table in Table::ALL {
            if memory_entries(&memory, table, None).next().is_some() {
                tables.push((table, self.next_file));
                self.next_file += 1;
            }
        }
        // The runs of a table stand together, oldest first.
        manifest.runs.extend(&tables);
        manifest.runs.sort_by_key(|(table, _)| *table);
        manifest.next_file = self.next_file;
        let (send, done) = sync_channel(1);
        let (disk, folder, cache) = (self.disk.clone(), self.folder.clone(), self.cache.clone());
        let (frozen, numbers) = (memory.clone(), first..self.next_file);
        let write = move || {
            let write = || {
                let mut flushed = Vec::new();
                for (table, number) in tables {
                    let path = folder.join(run_name(table, number));
                    let run = write_run(&*disk, &path, table, memory_entries(&frozen, table, None))
                        .and_then(|_| Run::open_cached(&path, &cache));
                    match run {
                        Ok(run) => flushed.push(Flushed { table, number, run }),
                        Err(error) => {
                            discard(&*disk, &folder, numbers);
                            return Err(run_error(error));
                        }
                    }
                }
                // If this fails, either manifest may be on disk: the runs stay until the state is next opened.
                write_manifest(&*disk, &folder, &manifest)?;
                Ok(flushed)
            };
            let result = write();
            drop(frozen);
            // The owner may be gone.
            send.send(result).ok();
        };
        let obsolete = std::mem::take(&mut self.obsolete);
        self.flushing = Some(Flushing { memory, position: self.position, obsolete, done });
        if !merger.flush(write) {
            // The queue of the thread is full, so the caller makes the checkpoint itself.
            let flushing = self.flushing.take().expect("set above");
            self.memory = Arc::into_inner(flushing.memory).expect("the other one went with the job");
            self.obsolete = flushing.obsolete;
            return self.checkpoint();
        }
        Ok(self.durable)
    }

    /// Whether a flush is running.
    pub fn is_flushing(&self) -> bool {
        self.flushing.is_some()
    }

    /// Installs the result of an ended flush. With `wait`, waits for a running one.
    pub(super) fn end_flush(&mut self, wait: bool) -> Result<(), StateError> {
        let Some(flushing) = &self.flushing else { return Ok(()) };
        let gone = || StateError::Disk("the flushing thread ended".into());
        let flushed = match wait {
            true => flushing.done.recv().map_err(|_| gone())?,
            false => match flushing.done.try_recv() {
                Ok(flushed) => flushed,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => return Err(gone()),
            },
        };
        if let Err(StateError::Full(why)) = flushed {
            self.thaw();
            return Err(StateError::Full(why));
        }
        // After another error the frozen tables are still readable, and the log is whole: the owner stops and opens the
        // state again.
        let flushed = flushed?;
        let flushing = self.flushing.take().expect("looked at above");
        for Flushed { table, number, run } in flushed {
            self.bytes_flushed += run.info().file_bytes;
            self.runs.entry(table).or_default().push((number, run));
        }
        self.durable = flushing.position;
        for (table, number) in flushing.obsolete {
            let path = self.folder.join(run_name(table, number));
            self.disk.remove(&path).map_err(|error| disk_error(&path, error))?;
        }
        // Dropping large maps takes a while: in the background thread if its queue has room, otherwise here.
        if let Merging::Background(merger) = &self.merging {
            merger.flush(move || drop(flushing.memory));
        }
        self.merge()
    }

    /// Moves the frozen tables back into memory, below later changes.
    fn thaw(&mut self) {
        let Some(flushing) = self.flushing.take() else { return };
        let newer = std::mem::take(&mut self.memory);
        self.memory = Arc::unwrap_or_clone(flushing.memory);
        self.memory.append(newer);
        let newer = std::mem::take(&mut self.obsolete);
        self.obsolete = flushing.obsolete;
        self.obsolete.extend(newer);
    }
}

/// Removes the runs of a failed flush. Remaining ones are removed when the state is next opened.
pub(super) fn discard(disk: &dyn Disk, folder: &Path, numbers: Range<u64>) {
    for (table, number) in Table::ALL.into_iter().flat_map(|table| numbers.clone().map(move |n| (table, n))) {
        let path = folder.join(run_name(table, number));
        if path.exists() {
            disk.remove(&path).ok();
        }
    }
}

/// Makes this manifest the state on disk.
fn write_manifest(disk: &dyn Disk, folder: &Path, manifest: &Manifest) -> Result<(), StateError> {
    let wrong = |error| disk_error(folder, error);
    // The names of new runs must be durable before the manifest that lists them.
    disk.sync_dir(folder).map_err(wrong)?;
    manifest.write(disk, folder).map_err(wrong)
}
