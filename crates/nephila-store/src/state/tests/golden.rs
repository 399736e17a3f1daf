//! A state that was written long ago opens today. The files are made by `state_proof golden`, once for each version of
//! their format, and then never again.

use super::*;

/// What the state of version 1 holds.
const HASH: u64 = 0x808b_1933_b221_e105;
const GROUPS: u64 = 90;

#[test]
fn a_state_of_version_1_opens_and_goes_on() {
    let golden = Path::new("tests/golden/state-v1");
    // Opening may remove files and going on writes some: the golden ones stay as they are.
    let folder = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
    }
    let mut state = open(folder.path());
    assert_eq!(state.position().sequence, GROUPS);
    assert_eq!(state.hash(Prefixes::ALL).unwrap(), HASH, "{:#x}", state.hash(Prefixes::ALL).unwrap());
    assert!(state.stats().runs > Table::ALL.len(), "several runs of some tables");
    let mut tables: Vec<Table> =
        state.runs.iter().filter(|(_, runs)| !runs.is_empty()).map(|(table, _)| *table).collect();
    tables.sort();
    assert_eq!(tables, Table::ALL);

    let workload = super::super::proof::Workload::SMALL;
    for _ in 0..20 {
        let (bytes, _) = workload.sealed(state.position());
        let (group, behind) = nephila_core::entry::open(&bytes, state.position()).unwrap();
        nephila_core::fold::fold(&mut state, &group, behind).unwrap();
        state.checkpoint().unwrap();
    }
    let hash = state.hash(Prefixes::ALL).unwrap();
    drop(state);
    assert_eq!(open(folder.path()).hash(Prefixes::ALL).unwrap(), hash);
}
