//! Folds the same log twice, and once more from a snapshot that was taken in the middle and opened elsewhere.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nephila_core::entry::open;
use nephila_core::key::Prefixes;
use nephila_core::state::{Position, State};
use nephila_store::disk::RealDisk;
use nephila_store::journal::{Journal, Settings};
use nephila_store::state::DiskState;
use nephila_store::state::proof::Workload;

use super::{Failure, fold_bytes, open_state};

/// New URLs of a group; with their outcomes a group has nearly twice as many entries.
const GROUP_URLS: u32 = 4_000;
/// Groups from finding a URL to the end of its fetch.
const LAG: u64 = 100;
/// Groups written between two syncs of the journal.
const SYNC_EVERY: u64 = 64;

/// Runs it with so many URLs and outcomes, roughly.
pub fn run(folder: &Path, entries: u64) -> Result<(), Failure> {
    let urls = u64::from(GROUP_URLS).min(entries / 20).max(1) as u32;
    let workload = Workload { seed: 3, urls, lag: LAG.min(entries / u64::from(urls) / 4) };
    let (journal, groups, entries, generated) = write(folder, workload, entries)?;
    println!(
        "{groups} groups, {entries} entries, {} MB of journal, {generated:.1?} to make",
        journal.bytes() >> 20
    );

    let middle = folder.join("middle");
    let mut first = Replayed::open(&folder.join("first"))?;
    first.fold(&journal, groups / 2)?;
    first.state.snapshot(&middle)?;
    first.fold(&journal, groups)?;
    let hash = first.hash("first")?;
    drop(first.state);
    let mut second = Replayed::open(&folder.join("second"))?;
    second.fold(&journal, groups)?;
    let again = second.hash("second")?;
    drop(second.state);
    let mut elsewhere = Replayed::open(&middle)?;
    let from = elsewhere.state.position().sequence;
    elsewhere.fold(&journal, groups)?;
    let from_middle = elsewhere.hash("from the middle")?;
    if hash != again || hash != from_middle {
        return Err(format!("three hashes: {hash:#x}, {again:#x}, {from_middle:#x}").into());
    }
    let took = first.took.min(second.took).as_secs_f64();
    println!(
        "state replay: {entries} entries in {groups} groups folded twice and once from a snapshot behind {from}: the same \
         hash; {:.0} entries/s, {:.2} us each",
        entries as f64 / took,
        took * 1e6 / entries as f64
    );
    Ok(())
}

/// Writes the log.
fn write(folder: &Path, workload: Workload, wanted: u64) -> Result<(Journal, u64, u64, Duration), Failure> {
    let begun = Instant::now();
    let (mut journal, _) = Journal::open(Arc::new(RealDisk), &folder.join("journal"), Settings::default())?;
    let (mut position, mut entries) = (Position::default(), 0);
    while entries < wanted {
        let (bytes, behind) = workload.sealed(position);
        let (group, _) = open(&bytes, position)?;
        entries += Workload::entries(&group);
        journal.append(behind.sequence, &bytes)?;
        if behind.sequence.is_multiple_of(SYNC_EVERY) {
            journal.sync()?;
        }
        position = behind;
    }
    journal.sync()?;
    Ok((journal, position.sequence, entries, begun.elapsed()))
}

/// A state that is folded from a journal.
struct Replayed {
    state: DiskState,
    took: Duration,
}

impl Replayed {
    fn open(folder: &Path) -> Result<Replayed, Failure> {
        Ok(Replayed { state: open_state(folder)?, took: Duration::ZERO })
    }

    /// Goes on up to this group.
    fn fold(&mut self, journal: &Journal, last: u64) -> Result<(), Failure> {
        let begun = Instant::now();
        let from = self.state.position().sequence + 1;
        for group in journal.replay(from).take((last + 1 - from) as usize) {
            fold_bytes(&mut self.state, &group?.1)?;
        }
        self.took += begun.elapsed();
        Ok(())
    }

    fn hash(&mut self, name: &str) -> Result<u64, Failure> {
        let begun = Instant::now();
        let hash = self.state.hash(Prefixes::ALL)?;
        let stats = self.state.stats();
        println!(
            "{name}: {:.1?} to fold, {} MB in {} runs, {} MB written, hash in {:.1?}",
            self.took,
            stats.file_bytes >> 20,
            stats.runs,
            (stats.bytes_flushed + stats.bytes_merged) >> 20,
            begun.elapsed()
        );
        Ok(hash)
    }
}
