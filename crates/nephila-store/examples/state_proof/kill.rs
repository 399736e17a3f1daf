//! Kills a process that folds a log without an end, again and again, on the real disk.
//!
//! The child writes each group to its journal, syncs, folds it and says so; now and then it makes a checkpoint. It is
//! killed after a random time, while it opens, merges or writes. The next one says what it found: never less than what
//! was said to be durable. In the end the state is compared with one that was folded in memory.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nephila_core::entry::open;
use nephila_core::fold::fold;
use nephila_core::key::Prefixes;
use nephila_core::state::{MemoryState, State};
use nephila_store::disk::RealDisk;
use nephila_store::journal::{self, Journal};
use nephila_store::state::DiskState;
use nephila_store::state::proof::Workload;
use nephila_store::state::proof::workload::mix;

use super::{Failure, fold_bytes, open_state};

/// A child lives at least so long, counted from its start.
const LIFE_MIN: u64 = 20;
/// And at most so long, in milliseconds.
const LIFE_MAX: u64 = 200;
/// Groups between two checkpoints.
const CHECKPOINT_EVERY: u64 = 12;
/// Small, so that there are several.
const SEGMENT_BYTES: u64 = 256 << 10;
/// A new state after this many kills, so that the last comparison fits in memory.
const KILLS_PER_STATE: u64 = 100;

fn workload(seed: u64) -> Workload {
    Workload { seed, urls: 60, lag: 20 }
}

fn open_both(folder: &Path) -> Result<(DiskState, Journal), Failure> {
    let state = open_state(&folder.join("state"))?;
    let settings = journal::Settings { segment_bytes_max: SEGMENT_BYTES, keep_bytes: 0 };
    let (journal, _) = Journal::open(Arc::new(RealDisk), &folder.join("journal"), settings)?;
    Ok((state, journal))
}

/// Folds what the journal holds and the state does not.
fn replay(state: &mut DiskState, journal: &Journal) -> Result<u64, Failure> {
    let mut groups = 0;
    for group in journal.replay(state.position().sequence + 1) {
        fold_bytes(state, &group?.1)?;
        groups += 1;
    }
    Ok(groups)
}

/// The process that is killed.
pub fn child(folder: &Path, seed: u64) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let (mut state, mut journal) = open_both(folder)?;
    writeln!(out, "open {} {}", state.position().sequence, journal.synced())?;
    replay(&mut state, &journal)?;
    loop {
        let (bytes, behind) = workload(seed).sealed(state.position());
        journal.append(behind.sequence, &bytes)?;
        journal.sync()?;
        writeln!(out, "synced {}", journal.synced())?;
        fold_bytes(&mut state, &bytes)?;
        if behind.sequence.is_multiple_of(CHECKPOINT_EVERY) {
            let durable = state.checkpoint_soon()?;
            writeln!(out, "durable {}", durable.sequence)?;
            journal.truncate_before(durable.sequence + 1)?;
        }
    }
}

/// What the children said.
#[derive(Default)]
struct Said {
    synced: u64,
    durable: u64,
    opened: u64,
    replayed: u64,
}

impl Said {
    /// Takes in what one child said; half a line was not said.
    fn hear(&mut self, text: &str) -> Result<(), Failure> {
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        for line in whole.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["open", state, journal] => {
                    let (state, journal): (u64, u64) = (state.parse()?, journal.parse()?);
                    if state < self.durable || journal < self.synced || state > journal {
                        let (durable, synced) = (self.durable, self.synced);
                        let found = format!("the state holds {state} and the journal {journal} groups");
                        return Err(format!("{found}; {durable} and {synced} were durable").into());
                    }
                    self.opened += 1;
                    self.replayed += journal - state;
                }
                ["synced", group] => self.synced = group.parse()?,
                ["durable", group] => self.durable = group.parse()?,
                _ => return Err(format!("the child said {line:?}").into()),
            }
        }
        Ok(())
    }
}

/// A child that does not outlive us.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills so many times.
pub fn run(folder: &Path, kills: u64, seed: u64) -> Result<(), Failure> {
    let begun = Instant::now();
    let (mut groups, mut opened, mut replayed) = (0, 0, 0);
    for (number, first) in (0..kills).step_by(KILLS_PER_STATE as usize).enumerate() {
        let folder = folder.join(format!("state-{number}"));
        let seed = seed + number as u64;
        let mut said = Said::default();
        for kill in first..kills.min(first + KILLS_PER_STATE) {
            kill_one(&folder, seed, kill, &mut said)
                .map_err(|error| format!("kill {kill}, seed {seed}: {error}"))?;
        }
        groups += compare(&folder, seed, &said)?;
        opened += said.opened;
        replayed += said.replayed;
        std::fs::remove_dir_all(&folder)?;
    }
    println!(
        "state kill: {kills} kills, {opened} of them behind the opening, {groups} groups, {replayed} folded again, 0 lost, \
         states as if never killed, {:.0} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

fn kill_one(folder: &Path, seed: u64, kill: u64, said: &mut Said) -> Result<(), Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["child", "--seed", &seed.to_string(), "--dir"]).arg(folder).stdout(Stdio::piped());
    let mut child = Killed(command.spawn()?);
    let mut stdout = child.0.stdout.take().ok_or("no output")?;
    // Read on the side: a full pipe would hold the child back.
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let life = LIFE_MIN + mix(seed ^ mix(kill)) % (LIFE_MAX - LIFE_MIN);
    std::thread::sleep(Duration::from_millis(life));
    if let Some(status) = child.0.try_wait()? {
        return Err(format!("the child ended by itself: {status}").into());
    }
    child.0.kill()?;
    child.0.wait()?;
    said.hear(&reader.join().expect("reading does not panic")?)
}

/// Opens what the last kill left, and compares it with a state that was folded in memory; returns how many groups it has.
fn compare(folder: &Path, seed: u64, said: &Said) -> Result<u64, Failure> {
    let (mut state, journal) = open_both(folder)?;
    if state.position().sequence < said.durable || journal.synced() < said.synced {
        return Err("something durable is gone".into());
    }
    replay(&mut state, &journal)?;
    let mut model = MemoryState::new();
    while model.position().sequence < journal.synced() {
        let (bytes, _) = workload(seed).sealed(model.position());
        let (group, behind) = open(&bytes, model.position())?;
        fold(&mut model, &group, behind)?;
    }
    if state.position() != model.position() {
        return Err(format!("ends at {:?}, not at {:?}", state.position(), model.position()).into());
    }
    if state.hash(Prefixes::ALL)? != model.hash(Prefixes::ALL)? {
        return Err("the state is not the one of its log".into());
    }
    Ok(model.position().sequence)
}
