//! A full disk: at whatever call, nothing is lost, and the state continues once there is space.

use super::*;
use crate::disk::faulty::{Damage, FaultyDisk, NO_SPACE, Plan};

/// Rounds of the crawl; there is a checkpoint after each.
const ROUNDS: usize = 12;

/// A crawl on a disk that is full for `calls` calls from number `from` on. Returns the number of failures.
fn crawl_through_full(from: u64, calls: u64, background: bool) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(Plan::Healthy, NO_SPACE, Damage::HalfWritten);
    let merging = match background {
        true => Merging::Background(Merger::start().unwrap()),
        false => Merging::Inline,
    };
    let cache = Cache::new(1 << 20);
    let state = DiskState::open(Arc::new(disk.clone()), folder.path(), merging, &cache).unwrap();
    let (mut in_memory, mut on_disk) = (Crawl::new(MemoryState::new(), 8), Crawl::new(state, 8));
    disk.set_plan(Plan::From(disk.calls().0 + from));
    let mut met = 0;
    for round in 0..ROUNDS {
        in_memory.round(12);
        on_disk.round(12);
        let mut tries = 0;
        loop {
            // Like a worker: in the background at first, and with a wait after a full disk.
            let state = on_disk.state();
            match if tries == 0 { state.checkpoint_soon() } else { state.checkpoint() } {
                Ok(_) => break,
                Err(StateError::Full(_)) => met += 1,
                Err(error) => panic!("call {from}, round {round}: {error}"),
            }
            tries += 1;
            assert!(tries < 100, "call {from}");
            assert_same(in_memory.state(), on_disk.state());
            if disk.calls().1 >= calls {
                disk.set_plan(Plan::Healthy);
            }
        }
        if disk.calls().1 >= calls {
            disk.set_plan(Plan::Healthy);
        }
    }
    disk.set_plan(Plan::Healthy);
    while let Err(error) = on_disk.state().checkpoint() {
        assert!(matches!(error, StateError::Full(_)), "a flush that ended before there was room: {error}");
    }
    on_disk.state().settle().unwrap();
    assert_same(in_memory.state(), on_disk.state());
    drop(on_disk);
    assert_same(in_memory.state(), &mut open(folder.path()));
    met
}

#[test]
fn a_full_disk_is_waited_for_and_nothing_is_lost() {
    let met: u64 = (0..200).step_by(7).map(|from| crawl_through_full(from, 1 + from % 5, false)).sum();
    assert!(met > 20, "{met}");
}

#[test]
fn threads_that_meet_a_full_disk_are_asked_again() {
    let met: u64 = (0..200).step_by(17).map(|from| crawl_through_full(from, 1 + from % 5, true)).sum();
    assert!(met > 3, "{met}");
}
