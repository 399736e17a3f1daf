//! States written by earlier versions still open. `state_proof golden` makes the files, once for each version of their
//! format, and then never again.

use nephila_core::state::totals::recount_open;

use super::*;

/// Hash of the state of version 1. The hash covers totals as well, of which only the remaining URLs can be known.
const HASH: u64 = 0x5fb1_7b18_5ee2_56a4;
/// Hash of the state of version 2.
const HASH_2: u64 = 0x8749_6c28_cd94_4788;
const GROUPS: u64 = 90;

#[test]
fn a_state_of_version_1_opens_and_goes_on() {
    let state = goes_on(Path::new("tests/golden/state-v1"), HASH);
    // Counting began when the state was opened, with the URLs remaining by then.
    assert!(state.meta().totals.all_jobs().found > 0);
}

#[test]
fn a_state_of_version_2_opens_with_its_totals_and_goes_on() {
    let old = goes_on(Path::new("tests/golden/state-v1"), HASH);
    let new = goes_on(Path::new("tests/golden/state-v2"), HASH_2);
    let (old, new) = (&old.meta().totals, &new.meta().totals);
    assert_eq!(old.left(), new.left(), "the same log but for what version 2 brought");
    assert!(new.all_jobs().found > old.all_jobs().found && new.all_jobs().bytes > 0);
}

/// Opens a copy of a golden state, compares its hash, and folds and reopens it.
fn goes_on(golden: &Path, expected: u64) -> DiskState {
    // Opening may remove files and continuing writes some: the golden files stay unchanged.
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let mut state = open(folder.path());
    assert_eq!(state.position().sequence, GROUPS);
    assert_eq!(state.hash(Prefixes::ALL).unwrap(), expected, "{:#x}", state.hash(Prefixes::ALL).unwrap());
    // Feeds, streams, sources and stories came later, and take no file where there are none.
    assert!(state.stats().runs > Table::ALL.len() - 4, "several runs of some tables");
    let mut tables: Vec<Table> =
        state.runs.iter().filter(|(_, runs)| !runs.is_empty()).map(|(table, _)| *table).collect();
    tables.sort();
    assert_eq!(tables, Table::ALL[..6]);

    let workload = super::super::proof::Workload::SMALL;
    for _ in 0..20 {
        let (bytes, _) = workload.sealed(state.position());
        let (group, behind) = nephila_core::entry::open(&bytes, state.position()).unwrap();
        nephila_core::fold::fold(&mut state, &group, behind).unwrap();
        state.checkpoint().unwrap();
    }
    let hash = state.hash(Prefixes::ALL).unwrap();
    drop(state);
    let mut again = open(folder.path());
    assert_eq!(again.hash(Prefixes::ALL).unwrap(), hash);
    let left = recount(&mut again, Prefixes::ALL, |_| false, |_| false).unwrap();
    assert_eq!(again.meta().totals.left(), left);
    let open = recount_open(&mut again, Prefixes::ALL).unwrap();
    assert_eq!(again.meta().totals.open, open);
    assert!(open.values().sum::<u64>() > 0);
    again
}
