//! Streams of visited URLs beside the seed's pipeline, in small. The long run is `cargo xtask sim reflog`.

use nephila_core::planted::{self, Bug};
use nephila_sim::reflog::{Figures, Sim, Size};
use nephila_sim::{Checker, Violation};

fn run(seed: u64) -> Result<Figures, Violation> {
    Sim::new(Size { lines: 40_000, hours: 14, nodes: 3, kills: 12, seed }).run()
}

#[test]
fn ours_decides_what_the_seeds_pipeline_decides_though_nodes_die() {
    let figures = run(1).unwrap_or_else(|violation| panic!("{violation}"));
    // A day on which nothing happens shows nothing.
    assert!(figures.lines >= 40_000 && figures.unreadable > 50, "{figures}");
    assert!(figures.kills >= 10 && figures.repeats > 100 && figures.visits_again > 0, "{figures}");
    assert!(figures.sent > 5_000 && figures.sent < figures.decided, "{figures}");
    assert!(figures.sent_under_way > 3, "{figures}");
    assert_eq!(run(1), Ok(figures), "one seed, one day");
}

#[test]
fn bugs_planted_in_streams_are_found() {
    for (bug, checkers) in
        [(Bug::UnderWayIsWanted, &[Checker::Completeness][..]), (Bug::PartCountsTwice, &[Checker::Streams])]
    {
        let found = (1..=3).any(|seed| {
            planted::set(Some(bug));
            let result = run(seed);
            planted::set(None);
            result.is_err_and(|violation| checkers.contains(&violation.checker))
        });
        assert!(found, "{bug:?}");
    }
}
