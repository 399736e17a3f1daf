//! A state stopped anywhere ends like one that was never stopped. Each test takes some of the points;
//! `cargo xtask state crash` takes all.

use super::super::proof::crash::{Figures, Mistake, Options, crash};

/// Groups in the log: fewer than in the full form, with merges all the same.
const GROUPS: usize = 72;
/// Number of calls between two points.
const STRIDE: u64 = 19;

fn options() -> Options {
    Options {
        groups: GROUPS,
        stride: STRIDE,
        first: 0,
        journal: false,
        background: false,
        mistake: Mistake::None,
    }
}

fn check(options: Options) -> Result<Figures, String> {
    let folder = tempfile::tempdir().unwrap();
    crash(folder.path(), options)
}

#[test]
fn a_state_that_is_stopped_anywhere_ends_as_one_that_was_not() {
    let figures = check(options()).unwrap();
    assert!(figures.runs >= 30 && figures.recoveries > 3, "{figures:?}");
}

#[test]
fn a_state_and_its_journal_are_torn_together_and_nothing_synced_is_lost() {
    let figures = check(Options { journal: true, first: 7, stride: 23, ..options() }).unwrap();
    assert!(figures.runs >= 30 && figures.recoveries > 3, "{figures:?}");
}

#[test]
fn it_makes_no_difference_that_other_threads_flush_and_merge() {
    check(Options { journal: true, background: true, first: 3, stride: 61, ..options() }).unwrap();
}

// Recovery that is not idempotent is the mistake that this checker exists for.
#[test]
fn a_recovery_that_folds_too_much_or_too_little_is_noticed() {
    for mistake in [Mistake::OneAgain, Mistake::AllAgain, Mistake::OneMissing] {
        let error = check(Options { mistake, first: 200, ..options() }).unwrap_err();
        assert!(error.contains("the state is another one"), "{mistake:?}: {error}");
    }
}
