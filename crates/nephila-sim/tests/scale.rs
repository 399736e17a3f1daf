//! Large clusters, in small: every promise for a thousand nodes must hold for eight, and the books must notice errors.
//! The long run is `cargo xtask sim scale`.

use nephila_core::planted::{self, Bug};
use nephila_sim::scale::{Figures, Sim};
use nephila_sim::{Checker, Violation};

const NODES: usize = 8;
const FETCHES: u64 = 30_000;

fn run(seed: u64) -> (Result<Figures, Violation>, u64) {
    let mut sim = Sim::new(seed, NODES, FETCHES);
    let result = sim.run(FETCHES);
    (result, sim.trace())
}

#[test]
fn eight_nodes_are_polite_even_when_some_of_them_die() {
    let (result, trace) = run(1);
    let figures = result.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(figures.kills >= 2, "a cluster to which nothing happens shows nothing: {figures:?}");
    assert!(figures.fetches >= FETCHES && figures.shared > 0.2, "{figures:?}");
    assert!(figures.busiest <= 1.25, "{figures:?}");
    // Nodes die many times more often than they do in a long run, and their hosts are silent for a while.
    assert!(figures.used.0 >= 0.9, "{figures:?}");
    assert_eq!(run(1).1, trace, "one seed, one trace");
    assert_ne!(run(2).1, trace);
}

#[test]
fn bugs_planted_in_the_turns_are_found_by_the_books() {
    for bug in [Bug::SlotPerNode, Bug::OwnerDoesNotWait, Bug::TurnForgetsRest] {
        let found = (1..=10).any(|seed| {
            planted::set(Some(bug));
            let (result, _) = run(seed);
            planted::set(None);
            result.is_err_and(|violation| violation.checker == Checker::Politeness)
        });
        assert!(found, "{bug:?}");
    }
}
