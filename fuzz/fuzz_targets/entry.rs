//! Groups of log entries: any bytes are a group or an error, a group that is read is written again as the same group,
//! and folding the group changes a state without a panic, twice to the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nephila_core::entry::{Group, open, seal};
use nephila_core::fold::fold;
use nephila_core::key::Prefixes;
use nephila_core::state::{MemoryState, Position, State};

fuzz_target!(|data: &[u8]| {
    // As they are: the hash at the end refuses nearly all of them.
    let _ = open(data, Position::default());

    // As the entries of a group whose head and hash are right, so that every reader behind them is reached.
    let (empty, _) = seal(&Group { epoch: 1, entries: Vec::new() }, Position::default());
    // Hash and number of entries are cut off: the input brings its own number.
    let mut bytes = [&empty[..empty.len() - 9], data].concat();
    let hash = xxhash_rust::xxh3::xxh3_64(&bytes);
    bytes.extend(hash.to_be_bytes());
    let Ok((group, behind)) = open(&bytes, Position::default()) else { return };

    let (again, _) = seal(&group, Position::default());
    let (read, after) = open(&again, Position::default()).expect("what we write we can read");
    assert_eq!(read, group, "a group changes when it is written again");

    let (mut one, mut two) = (MemoryState::new(), MemoryState::new());
    fold(&mut one, &group, behind).expect("memory does not fail");
    fold(&mut two, &read, after).expect("memory does not fail");
    assert_eq!(one.hash(Prefixes::ALL).ok(), two.hash(Prefixes::ALL).ok(), "two folds differ");
});
