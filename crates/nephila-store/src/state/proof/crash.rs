//! Simulates a machine that stops at any call to its disk.
//!
//! A log is folded into a state, with checkpoints and merges, on a disk that fails from some call on. Then the power is
//! lost, unsynced data is lost in one of three ways, and the machine starts again, perhaps to be stopped once more
//! during recovery. In the end the state must equal that of a machine that was never stopped.
//!
//! Checks: no durable group is lost, the state holds nothing that was never logged, no unlisted file is left, and the
//! hash of the whole state.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nephila_core::entry::open;
use nephila_core::fold::fold;
use nephila_core::key::Prefixes;
use nephila_core::state::{MemoryState, Position, State};

use super::super::{DiskState, Merger, Merging};
use super::Workload;
use crate::disk::faulty::{Damage, FaultyDisk, IO_ERROR, Plan};
use crate::disk::{Disk, RealDisk};
use crate::journal::{self, Journal};
use crate::runs::Cache;

/// Groups between two checkpoints.
const CHECKPOINT_EVERY: usize = 12;
/// Groups between two checkpoints after the last stop: enough of them to build on the recovered files.
const CHECKPOINT_EVERY_LATER: usize = 96;
/// Groups between two syncs of the journal.
const SYNC_EVERY: usize = 3;
/// Small, so that there are several segments.
const SEGMENT_BYTES: u64 = 8 << 10;
/// Recovery itself is stopped at every call for one point in this number.
const RECOVERY_EVERY: u64 = 5;
/// Small, so that blocks are evicted.
const CACHE_BYTES: usize = 256 << 10;

/// A deliberate mistake, which the checks must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Nothing.
    None,
    /// The last group that the state holds is folded once more.
    OneAgain,
    /// All groups are folded once more.
    AllAgain,
    /// The first group that the state does not hold is left out.
    OneMissing,
}

/// Data lost with the power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// Everything that was not synced.
    Unsynced,
    /// Half of the unsynced bytes of each file.
    Half,
    /// Half of the last write; the other unsynced bytes are kept, except the last.
    Torn,
}

impl Loss {
    const ALL: [Loss; 3] = [Loss::Unsynced, Loss::Half, Loss::Torn];

    fn damage(self) -> Damage {
        if self == Loss::Torn { Damage::HalfWritten } else { Damage::None }
    }

    fn kept(self) -> u8 {
        match self {
            Loss::Unsynced => 0,
            Loss::Half => 128,
            Loss::Torn => 255,
        }
    }
}

/// Parameters of the simulation.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Groups in the log.
    pub groups: usize,
    /// Number of calls between two points.
    pub stride: u64,
    /// The first point.
    pub first: u64,
    /// Whether the log is in a journal on the same disk. Otherwise the log is safe.
    pub journal: bool,
    /// Whether background threads flush and merge. Then no two runs make the same calls.
    pub background: bool,
    /// The deliberate mistake.
    pub mistake: Mistake,
}

/// Statistics of the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Calls to the disk of an undisturbed run.
    pub calls: u64,
    /// Runs that were stopped and started again.
    pub runs: u64,
    /// Stops during recovery.
    pub recoveries: u64,
}

/// Stops at every point, in an empty folder.
pub fn crash(folder: &Path, options: Options) -> Result<Figures, String> {
    let points = Points::new(options)?;
    let mut figures = Figures::default();
    let disk = FaultyDisk::new(Plan::Healthy, IO_ERROR, Damage::None);
    let mut whole = points.machine(&folder.join("whole"));
    whole.run(&disk).map_err(|error| format!("undisturbed: {error}"))?;
    points.check_end(&whole.folder)?;
    figures.calls = disk.calls().0;
    let mut point = options.first;
    while point < figures.calls {
        for loss in Loss::ALL {
            let at = |error| format!("stopped at call {point} ({}), {loss:?}: {error}", disk.name(point));
            figures.recoveries += points.one(folder, point, loss).map_err(at)?;
            figures.runs += 1;
        }
        point += options.stride;
    }
    Ok(figures)
}

/// A log, and the expected result.
struct Points {
    options: Options,
    log: Vec<Vec<u8>>,
    /// Positions before each group and after the last.
    positions: Vec<Position>,
    hash: u64,
}

/// A machine and its promises.
struct Machine<'a> {
    points: &'a Points,
    folder: PathBuf,
    /// Groups that the journal reported as durable.
    synced: u64,
    /// Groups ever given to a journal.
    logged: u64,
    /// Groups in the last finished checkpoint.
    durable: u64,
    checkpoint_every: usize,
    mistake: Mistake,
}

impl Points {
    fn new(options: Options) -> Result<Points, String> {
        let log = Workload::SMALL.log(options.groups);
        let mut state = MemoryState::new();
        let mut positions = vec![Position::default()];
        for bytes in &log {
            let (group, behind) = open(bytes, state.position()).map_err(|error| error.to_string())?;
            fold(&mut state, &group, behind).map_err(|error| error.to_string())?;
            positions.push(behind);
        }
        let hash = state.hash(Prefixes::ALL).map_err(|error| error.to_string())?;
        Ok(Points { options, log, positions, hash })
    }

    fn machine(&self, folder: &Path) -> Machine<'_> {
        Machine {
            points: self,
            folder: folder.into(),
            synced: 0,
            logged: 0,
            durable: 0,
            checkpoint_every: CHECKPOINT_EVERY,
            mistake: Mistake::None,
        }
    }

    /// Stops once, and during recovery at every call. Returns the number of stopped recoveries.
    fn one(&self, folder: &Path, point: u64, loss: Loss) -> Result<u64, String> {
        let folder = folder.join(format!("point-{point}-{loss:?}"));
        let disk = FaultyDisk::new(Plan::From(point), IO_ERROR, loss.damage());
        let mut machine = self.machine(&folder);
        if machine.run(&disk).is_ok() && !self.options.background {
            return Err("it was not stopped".into());
        }
        disk.lose_power(loss.kept()).map_err(|error| error.to_string())?;
        let mut recoveries = 0;
        if point % (RECOVERY_EVERY * self.options.stride) < self.options.stride {
            for call in 0.. {
                let disk = FaultyDisk::new(Plan::From(call), IO_ERROR, loss.damage());
                let opened = machine.open(&disk).map(drop);
                if disk.calls().1 == 0 {
                    opened?;
                    break;
                }
                disk.lose_power(loss.kept()).map_err(|error| error.to_string())?;
                recoveries += 1;
            }
        }
        machine.mistake = self.options.mistake;
        machine.checkpoint_every = CHECKPOINT_EVERY_LATER;
        machine.run(&RealDisk)?;
        self.check_end(&folder)?;
        fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
        Ok(recoveries)
    }

    /// Checks a machine that ran to the end of the log and was shut down.
    fn check_end(&self, folder: &Path) -> Result<(), String> {
        let mut state = open_state(Arc::new(RealDisk), folder, Merging::Inline)?;
        if state.position() != self.positions[self.log.len()] {
            return Err(format!("ends at {:?}", state.position()));
        }
        let hash = state.hash(Prefixes::ALL).map_err(|error| error.to_string())?;
        match hash == self.hash {
            true => Ok(()),
            false => Err("the state is another one".into()),
        }
    }
}

fn open_state(disk: Arc<dyn Disk>, folder: &Path, merging: Merging) -> Result<DiskState, String> {
    let cache = Cache::new(CACHE_BYTES);
    DiskState::open(disk, &folder.join("state"), merging, &cache).map_err(|error| error.to_string())
}

impl Machine<'_> {
    /// Opens the files on disk, and checks the promises.
    fn open<D: Disk + Clone + 'static>(&self, disk: &D) -> Result<(DiskState, Option<Journal>), String> {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let merging = match self.points.options.background {
            false => Merging::Inline,
            true => Merging::Background(Merger::start().map_err(|error| error.to_string())?),
        };
        let state = open_state(disk.clone(), &self.folder, merging)?;
        let position = state.position();
        if self.points.positions.get(position.sequence as usize) != Some(&position) {
            return Err(format!("{position:?} is not a position of the log"));
        }
        if position.sequence < self.durable {
            return Err(format!("group {} was durable, the state holds {}", self.durable, position.sequence));
        }
        let files = fs::read_dir(self.folder.join("state")).map_err(|error| error.to_string())?.count();
        let listed = state.stats().runs + usize::from(super::super::is_state(state.folder()));
        if files != listed {
            return Err(format!("{files} files, {listed} listed"));
        }
        if !self.points.options.journal {
            return Ok((state, None));
        }
        let settings = journal::Settings { segment_bytes_max: SEGMENT_BYTES, keep_bytes: 0 };
        let opened = Journal::open(disk, &self.folder.join("journal"), settings);
        let (journal, _) = opened.map_err(|error| error.to_string())?;
        let last = journal.synced();
        if last < self.synced || last > self.logged {
            return Err(format!(
                "the journal ends at {last}; {} synced, {} logged",
                self.synced, self.logged
            ));
        }
        if position.sequence > last || (last > 0 && journal.first() > position.sequence + 1) {
            let first = journal.first();
            return Err(format!("the state holds {}, the journal {first} to {last}", position.sequence));
        }
        Ok((state, Some(journal)))
    }

    /// Starts, folds the log, continues to its end, and shuts down.
    fn run<D: Disk + Clone + 'static>(&mut self, disk: &D) -> Result<(), String> {
        let (mut state, mut journal) = self.open(disk)?;
        let points = self.points;
        if let Some(journal) = &journal {
            for group in journal.replay(state.position().sequence + 1) {
                let (sequence, bytes) = group.map_err(|error| error.to_string())?;
                if bytes != points.log[sequence as usize - 1] {
                    return Err(format!("group {sequence} of the journal is not what was written"));
                }
            }
        }
        // The journal holds the written groups, so the log stands for both.
        let logged = journal.as_ref().map_or(self.durable, Journal::synced);
        let mut next = state.position().sequence as usize;
        match self.mistake {
            Mistake::None => {}
            Mistake::OneAgain => self.fold(&mut state, next.saturating_sub(1)..next)?,
            Mistake::AllAgain => self.fold(&mut state, 0..next)?,
            Mistake::OneMissing => next += 1,
        }
        let mut unfolded = VecDeque::new();
        for at in next..points.log.len() {
            if let Some(journal) = &mut journal
                && at as u64 >= logged
            {
                self.logged = self.logged.max(at as u64 + 1);
                journal.append(at as u64 + 1, &points.log[at]).map_err(|error| error.to_string())?;
            }
            unfolded.push_back(at);
            if unfolded.len() < SYNC_EVERY && at + 1 < points.log.len() {
                continue;
            }
            if let Some(journal) = &mut journal {
                journal.sync().map_err(|error| error.to_string())?;
                self.synced = journal.synced();
            }
            for at in unfolded.drain(..) {
                self.fold(&mut state, at..at + 1)?;
            }
            if at % self.checkpoint_every >= self.checkpoint_every - SYNC_EVERY {
                self.checkpoint(&mut state, &mut journal)?;
            }
        }
        state.checkpoint().map_err(|error| error.to_string())?;
        self.checkpoint(&mut state, &mut journal)?;
        state.settle().map_err(|error| error.to_string())
    }

    fn checkpoint(&mut self, state: &mut DiskState, journal: &mut Option<Journal>) -> Result<(), String> {
        self.durable = state.checkpoint_soon().map_err(|error| error.to_string())?.sequence;
        if let Some(journal) = journal {
            journal.truncate_before(self.durable + 1).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn fold(&self, state: &mut DiskState, groups: std::ops::Range<usize>) -> Result<(), String> {
        for at in groups {
            // Not the state's own position: the state would refuse the mistakes, as it should.
            let (group, behind) =
                open(&self.points.log[at], self.points.positions[at]).map_err(|error| error.to_string())?;
            fold(state, &group, behind).map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}
