//! A disk with fault injection, which can also lose its power.
//!
//! Calls that change something are counted from zero. A plan says which calls fail and how. The disk remembers the
//! synced state. [`FaultyDisk::lose_power`] reverts everything else: bytes written since the last sync, and names made,
//! changed or removed since the last sync of their folder.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Disk, DiskFile, RealDisk};

/// `ENOSPC`.
pub const NO_SPACE: i32 = 28;
/// `EIO`.
pub const IO_ERROR: i32 = 5;

/// Which calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// None.
    Healthy,
    /// The call with this number.
    Once(u64),
    /// This call and all later ones, until the plan changes.
    From(u64),
}

/// Side effect of a failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Nothing.
    None,
    /// A write put half of its bytes on the disk.
    HalfWritten,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct FaultyDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    calls: u64,
    failed: u64,
    plan: Plan,
    errno: i32,
    damage: Damage,
    names: Vec<String>,
    /// Durable length of each file, by its present name.
    synced: HashMap<PathBuf, u64>,
    /// Changes of names that are not durable yet.
    pending: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Created(PathBuf),
    Renamed { from: PathBuf, to: PathBuf, over: Option<Vec<u8>> },
    Removed { path: PathBuf, bytes: Vec<u8> },
}

impl Change {
    fn touches(&self, folder: &Path) -> bool {
        let (Change::Created(path) | Change::Renamed { to: path, .. } | Change::Removed { path, .. }) = self;
        path.parent() == Some(folder)
    }
}

impl FaultyDisk {
    /// A disk with this plan; failures carry this error number.
    pub fn new(plan: Plan, errno: i32, damage: Damage) -> Self {
        FaultyDisk(Arc::new(Mutex::new(State {
            calls: 0,
            failed: 0,
            plan,
            errno,
            damage,
            names: Vec::new(),
            synced: HashMap::new(),
            pending: Vec::new(),
        })))
    }

    /// Changes the plan; the call numbers continue.
    pub fn set_plan(&self, plan: Plan) {
        self.state().plan = plan;
    }

    /// Number of calls, and number of failed calls.
    pub fn calls(&self) -> (u64, u64) {
        let state = self.state();
        (state.calls, state.failed)
    }

    /// The name of a call, for messages.
    pub fn name(&self, call: u64) -> String {
        self.state().names.get(call as usize).cloned().unwrap_or_default()
    }

    /// Simulates a power loss: everything not synced is gone. Of the unsynced bytes of a file, `kept` of every 256
    /// survive, as a disk may have written some of them.
    pub fn lose_power(&self, kept: u8) -> io::Result<()> {
        let mut state = self.state();
        for (path, synced) in &state.synced {
            if let Ok(meta) = fs::metadata(path) {
                let lost = meta.len().saturating_sub(*synced);
                let keep = synced + lost * u64::from(kept) / 256;
                fs::OpenOptions::new().write(true).open(path)?.set_len(keep.min(meta.len()))?;
            }
        }
        while let Some(change) = state.pending.pop() {
            match change {
                Change::Created(path) => {
                    state.synced.remove(&path);
                    fs::remove_file(path)?;
                }
                Change::Renamed { from, to, over } => {
                    fs::rename(&to, &from)?;
                    if let Some(length) = state.synced.remove(&to) {
                        state.synced.insert(from, length);
                    }
                    if let Some(bytes) = over {
                        state.synced.insert(to.clone(), bytes.len() as u64);
                        fs::write(to, bytes)?;
                    }
                }
                Change::Removed { path, bytes } => fs::write(path, bytes)?,
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, name: &str, path: &Path) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        let number = state.calls;
        state.calls += 1;
        state.names.push(format!("{name} {}", path.file_name().unwrap_or_default().to_string_lossy()));
        let fails = match state.plan {
            Plan::Healthy => false,
            Plan::Once(n) => n == number,
            Plan::From(n) => number >= n,
        };
        if fails {
            state.failed += 1;
            return Err(io::Error::from_raw_os_error(state.errno));
        }
        Ok(state)
    }
}

impl Disk for FaultyDisk {
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        let _state = self.call("create_dir", path)?;
        RealDisk.create_dir(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.call("create", path)?;
        let file = RealDisk.create(path)?;
        state.synced.insert(path.into(), 0);
        state.pending.push(Change::Created(path.into()));
        Ok(Box::new(FaultyFile { disk: self.clone(), file, path: path.into() }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.call("open", path)?;
        let file = RealDisk.open(path)?;
        let length = fs::metadata(path)?.len();
        state.synced.entry(path.into()).or_insert(length);
        Ok(Box::new(FaultyFile { disk: self.clone(), file, path: path.into() }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.call("rename", from)?;
        let over = fs::read(to).ok();
        RealDisk.rename(from, to)?;
        if let Some(length) = state.synced.remove(from) {
            state.synced.insert(to.into(), length);
        }
        state.pending.push(Change::Renamed { from: from.into(), to: to.into(), over });
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call("remove", path)?;
        let bytes = fs::read(path)?;
        RealDisk.remove(path)?;
        state.synced.remove(path);
        state.pending.push(Change::Removed { path: path.into(), bytes });
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.call("sync_dir", path)?;
        state.pending.retain(|change| !change.touches(path));
        Ok(())
    }
}

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    file: Box<dyn DiskFile>,
    path: PathBuf,
}

impl FaultyFile {
    /// Length of the file under its present name: a file may be renamed while open.
    fn len(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |meta| meta.len())
    }
}

impl DiskFile for FaultyFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        match self.disk.call("write", &self.path) {
            Ok(_state) => self.file.write_at(offset, bytes),
            Err(error) => {
                if self.disk.state().damage == Damage::HalfWritten {
                    self.file.write_at(offset, &bytes[..bytes.len() / 2])?;
                }
                Err(error)
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.call("sync", &self.path)?;
        state.synced.insert(self.path.clone(), self.len());
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let mut state = self.disk.call("truncate", &self.path)?;
        self.file.truncate(len)?;
        if let Some(synced) = state.synced.get_mut(&self.path) {
            *synced = (*synced).min(len);
        }
        Ok(())
    }
}
