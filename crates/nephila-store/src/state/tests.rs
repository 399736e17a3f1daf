//! The state on disk answers like the state in memory, through flushes, merges, reopening and snapshots.

mod conformance;
mod crash;
mod crawl;
mod full;
mod golden;

use std::path::Path;
use std::sync::Arc;

use nephila_core::key::Prefixes;
use nephila_core::state::{MemoryState, State, totals};

use super::*;
use crate::disk::RealDisk;
use crawl::Crawl;

fn open(folder: &Path) -> DiskState {
    DiskState::open(Arc::new(RealDisk), folder, Merging::Inline, &Cache::new(1 << 20)).unwrap()
}

/// All items of a state, one per line.
fn items(state: &mut impl State) -> Vec<String> {
    let mut items = Vec::new();
    state.walk(Prefixes::ALL, &mut |item| items.push(format!("{item:?}"))).unwrap();
    items
}

/// Compares two states, and shows the differences.
fn assert_same(a: &mut impl State, b: &mut impl State) {
    if a.hash(Prefixes::ALL).unwrap() != b.hash(Prefixes::ALL).unwrap() {
        let (a, b) = (items(a), items(b));
        let at = a.iter().zip(&b).position(|(a, b)| a != b);
        let at = at.unwrap_or(a.len().min(b.len()));
        panic!("{} and {} items, at {at}:\n{:?}\n{:?}", a.len(), b.len(), a.get(at), b.get(at));
    }
}

/// Compares two logs, and shows the first group that differs.
fn assert_same_log(a: &[Vec<u8>], b: &[Vec<u8>]) {
    if a.last() != b.last() {
        let read = |log: &[Vec<u8>]| {
            let bytes = log.last().cloned().unwrap_or_default();
            // The previous position does not matter for reading.
            let sequence = log.len() as u64 - 1;
            let chain = log.len().checked_sub(2).map_or(0, |at| {
                let before = &log[at];
                u64::from_be_bytes(before[before.len() - 8..].try_into().unwrap())
            });
            nephila_core::entry::open(&bytes, Position { sequence, chain })
        };
        panic!("{} and {} groups:\n{:?}\n{:?}", a.len(), b.len(), read(a), read(b));
    }
}

#[test]
fn a_crawl_on_disk_ends_as_one_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut in_memory = Crawl::new(MemoryState::new(), 1);
    let mut on_disk = Crawl::new(open(folder.path()), 1);
    for round in 0..40 {
        for _ in 0..60 {
            in_memory.round(1);
            on_disk.round(1);
            assert_same_log(&in_memory.log, &on_disk.log);
        }
        if round % 3 == 0 {
            on_disk.state().checkpoint().unwrap();
        }
    }
    assert!(in_memory.fetched > 500, "{}", in_memory.fetched);
    assert_eq!(in_memory.fetched, on_disk.fetched);
    assert_same(in_memory.state(), on_disk.state());
    on_disk.state().settle().unwrap();
    assert_same(in_memory.state(), on_disk.state());
    let hash = in_memory.state().hash(Prefixes::ALL).unwrap();
    let runs = on_disk.state().stats().runs;
    let position = on_disk.state().position();
    drop(on_disk);
    let mut again = open(folder.path());
    assert_eq!(again.position(), position);
    assert_eq!(again.hash(Prefixes::ALL).unwrap(), hash);
    assert_eq!(again.stats().runs, runs);
}

#[test]
fn merging_in_another_thread_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let merging = Merging::Background(Merger::start().unwrap());
    let cache = Cache::new(1 << 20);
    let state = DiskState::open(Arc::new(RealDisk), folder.path(), merging, &cache).unwrap();
    let mut in_memory = Crawl::new(MemoryState::new(), 2);
    let mut on_disk = Crawl::new(state, 2);
    for _ in 0..40 {
        in_memory.round(30);
        on_disk.round(30);
        on_disk.state().checkpoint().unwrap();
    }
    on_disk.state().settle().unwrap();
    assert_same(in_memory.state(), on_disk.state());
    assert!(on_disk.state().stats().bytes_merged > 0);
}

#[test]
fn a_state_goes_on_from_its_position_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let mut crawl = Crawl::new(open(folder.path()), 3);
    for round in 0..20 {
        crawl.round(40);
        if round == 7 || round == 13 {
            crawl.state().checkpoint().unwrap();
        }
    }
    let hash = crawl.state().hash(Prefixes::ALL).unwrap();
    let log = std::mem::take(&mut crawl.log);
    // Nothing is flushed on the way, as after a kill.
    drop(crawl);
    let mut again = open(folder.path());
    assert!(again.position().sequence > 0 && again.position().sequence < log.len() as u64);
    crawl::replay(&mut again, &log);
    assert_eq!(again.hash(Prefixes::ALL).unwrap(), hash);
}

#[test]
fn a_second_copy_takes_only_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let mut crawl = Crawl::new(open(&folder.path().join("state")), 4);
    for _ in 0..30 {
        crawl.round(60);
        crawl.state().checkpoint().unwrap();
    }
    let first = crawl.state().snapshot(&copy).unwrap();
    assert_eq!((first.files_new, first.bytes_new), (first.files, first.bytes));
    assert_eq!(crawl.state().snapshot(&copy).unwrap().files_new, 0);
    let hash = crawl.state().hash(Prefixes::ALL).unwrap();
    assert_eq!(open(&copy).hash(Prefixes::ALL).unwrap(), hash);

    crawl.round(5);
    let second = crawl.state().snapshot(&copy).unwrap();
    assert!(second.files_new < second.files, "{second:?} after {first:?}");
    let hash = crawl.state().hash(Prefixes::ALL).unwrap();
    let mut elsewhere = open(&copy);
    assert_eq!(elsewhere.hash(Prefixes::ALL).unwrap(), hash);
    assert_eq!(elsewhere.position(), crawl.state().position());
}

#[test]
fn a_split_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut crawl = Crawl::new(open(&folder.path().join("state")), 5);
    for _ in 0..20 {
        crawl.round(60);
    }
    let (low, high) = Prefixes::ALL.split(0x8000).unwrap();
    let mut count = 0;
    crawl.state().walk(Prefixes::ALL, &mut |_| count += 1).unwrap();
    let (mut halves, mut totals) = (0, totals::Totals::default());
    for (name, prefixes) in [("low", low), ("high", high)] {
        let to = folder.path().join(name);
        crawl.state().fork(prefixes, &to).unwrap();
        let mut half = open(&to);
        assert_eq!(half.meta().prefixes, Some(prefixes));
        totals.add(&half.meta().totals);
        let mut here = 0;
        half.walk(prefixes, &mut |_| here += 1).unwrap();
        assert!(here > 0);
        halves += here;
        // The shared part equals the whole; a merge drops the rest.
        let mut whole = Vec::new();
        crawl.state().walk(prefixes, &mut |item| whole.push(format!("{item:?}"))).unwrap();
        let mut part = Vec::new();
        half.walk(prefixes, &mut |item| part.push(format!("{item:?}"))).unwrap();
        assert_eq!(whole, part);
    }
    assert_eq!(halves, count);
    assert_eq!(totals, crawl.state().meta().totals, "both sides have counted what the whole had");
}

#[test]
fn what_a_crash_left_behind_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut crawl = Crawl::new(open(folder.path()), 6);
    crawl.round(50);
    crawl.state().checkpoint().unwrap();
    drop(crawl);
    std::fs::write(folder.path().join("urls-00000999.run"), b"half a run").unwrap();
    std::fs::write(folder.path().join("manifest.new"), b"half a manifest").unwrap();
    std::fs::write(folder.path().join("notes.txt"), b"somebody else's").unwrap();
    let state = open(folder.path());
    assert!(!folder.path().join("urls-00000999.run").exists());
    assert!(!folder.path().join("manifest.new").exists());
    assert!(folder.path().join("notes.txt").exists());
    drop(state);
    std::fs::write(folder.path().join("manifest"), b"NSTM").unwrap();
    let cache = Cache::new(1 << 20);
    let error = DiskState::open(Arc::new(RealDisk), folder.path(), Merging::Inline, &cache).unwrap_err();
    assert!(matches!(error, StateError::Damaged(_)), "{error}");
}
