//! The state on disk keeps every promise of a state, through flushes, merges, losses and repeated folds.

use nephila_core::conformance::{random, suite};

use super::*;

/// Seeds of the longer walks.
const SEEDS: u64 = 2;
/// Groups of each walk.
const STEPS: usize = 80;

#[test]
fn it_passes_the_suite() {
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    suite(|| {
        number += 1;
        open(&folder.path().join(number.to_string()))
    });
}

#[test]
fn flushing_after_every_group_changes_no_answer() {
    for seed in 0..SEEDS {
        let folder = tempfile::tempdir().unwrap();
        let state = random(open(folder.path()), seed, STEPS, |mut state, _| {
            state.checkpoint().unwrap();
            state
        });
        assert!(state.stats().bytes_merged > 0, "nothing was merged");
    }
}

#[test]
fn losing_what_was_not_flushed_changes_no_answer() {
    for seed in 100..100 + SEEDS {
        let folder = tempfile::tempdir().unwrap();
        let mut restarts = 0;
        random(open(folder.path()), seed, STEPS, |mut state, step| {
            match (seed as usize + step) % 7 {
                0 | 1 | 3 => _ = state.checkpoint().unwrap(),
                2 => state.settle().unwrap(),
                4 | 6 => {
                    let durable = state.durable();
                    drop(state);
                    state = open(folder.path());
                    assert_eq!(state.position(), durable);
                    restarts += 1;
                }
                _ => {}
            }
            state
        });
        assert!(restarts > 10);
    }
}

#[test]
fn flushing_and_merging_elsewhere_changes_no_answer() {
    let merging = Merging::Background(Merger::start().unwrap());
    let cache = Cache::new(64 << 10);
    for seed in 200..200 + SEEDS {
        let folder = tempfile::tempdir().unwrap();
        let open = || DiskState::open(Arc::new(RealDisk), folder.path(), merging.clone(), &cache).unwrap();
        random(open(), seed, STEPS, |mut state, step| {
            match step % 4 {
                0 | 2 => _ = state.checkpoint_soon().unwrap(),
                3 => _ = state.checkpoint().unwrap(),
                _ => {}
            }
            if step % 23 == 22 {
                drop(state);
                state = open();
            }
            state
        });
    }
}
